"""AiNF: one flat list of bindings, maximally fissioned.

    program ::= (size…, param…) index… => binding… return result…
    param   ::= x : dtype[size, …]                       an array or a scalar of the caller
    index   ::= i < extent | t while operand             every loop there may be
    binding ::= for i, j if guard… : x = prim            x is an array over its context
    prim    ::= Op | Accumulate | Delay | Check
    operand ::= Read | Lit | Number
    Read    ::= y[size, …]                               sizes are polynomials; see `sizes`

A binding's *context* is the set of indices its operands mention (closed under what their extents
mention); its order says only how `x` is stored, the source's nesting, outermost first. Nothing
else says where a binding "is": dropping an index from its operands moves it out of the loop.
Reading `x[e, …]` gives the value at that point of its context, one size per context index.

Index expressions are polynomials (`sizes.Size`) over index variables, size parameters and
*atoms*: `Clamp`, `Quotient`, `Remainder`, and here also `Read` of an integer binding or parameter
(a gather, a run-time size) and `Trips` (below). Views are index expressions, never copies.

An index runs over 0 … extent-1 (none if the extent is negative). The extent may mention other
indices and reads (ragged). An index with `extent` None or with a `condition` is sequential: it
runs t = 0, 1, … while t < extent and the condition, evaluated at t, holds; `Trips(t)` is the
number of rounds it made, given the indices the condition depends on beside t.

`Delay` is how order enters. With h in context (…, u), u < T + 1 (u < Trips(t) + 1), and
`Delay(t, init, next)`: h[…, 0] = init and h[…, t + 1] = next[t]. `next` is the only forward
reference there is. A loop's body is bindings that mention t and read h[…, t]; its result reads
h[…, T]. For a `while` index, u has `extent` None and the condition None.

Guards. A binding is *needed* only where its guards hold; it may be computed elsewhere if that is
safe and cheap. Operations that are partial (a read in range only under the guard, a `checked`, a
loop) must test them. `Guard(operand, holds)` is a Boolean operand and its wanted value; its free
indices belong to the context. A comparison of index expressions is a guard like any other; `fact`
carries it as a polynomial that is not negative when the guard holds, for index-set splitting.
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from naperian.dtypes import DType
from naperian.lines import Line
from naperian.names import Lit, Var
from naperian.node import keeper, node
from naperian.prims import Math
from naperian.sizes import Size
from naperian.source import NOWHERE, Span


@keeper
class Read:
    """The value of a binding or parameter at a point: `y[e, …]`; a scalar's has no indices.
    Also an atom of index expressions, when `y` is an integer."""

    var: Var
    at: tuple[Size, ...]


@keeper
class Number:
    """An index expression used as a 64-bit integer."""

    value: Size


Operand: TypeAlias = Read | Lit | Number


@node
class Trips:
    """An atom: how many rounds a sequential index with a condition made. `at` gives the indices
    its condition depends on (beside `time`), as (index, value) pairs in the order of the
    program's index list."""

    time: Var
    at: tuple[tuple[Var, Size], ...]


@node
class Guard:
    """`operand` is `holds`. `fact`, when known, is a polynomial that is >= 0 where it is."""

    operand: Operand
    holds: bool
    fact: Size | None = None


@node
class Op:
    """A scalar primitive of `prims`, or one of

    cast     convert the operand to the binding's dtype, as `prims.convert`
    bitcast  the same bits as the binding's dtype
    copy     the operand itself (only where a result, a delay or a guard needs a binding)
    held     the operand, an element of a carried table, read before what comes after it in the
             text: so the table may be changed in place although the element is used later
    after    (x, y): x, once y is there, so that y is computed first
    print    (t, x, …): the numbers x are shown after all that t depends on; with a code, they
             complete that line of the program. The result is t
    checked  (k, n): k if 0 <= k < n, else the run stops with the index error `code`
    """

    name: str
    args: tuple[Operand, ...]
    code: int = 0


@node
class Entry:
    """One contribution to an accumulation: for every point of (the target's free indices and)
    `over`, where the guards hold, `value` goes to the target at `at`."""

    over: tuple[Var, ...]
    at: tuple[Size, ...]
    value: Operand
    guards: tuple[Guard, ...] = ()


@node
class Accumulate:
    """x[c] = init ⊕ the values of all entries whose `at` is c; ⊕ one of `prims.MONOIDS`.

    A reduction's entry has `at` = the context itself and reduces `over`; a histogram's has a
    gather in `at` and the scattered index in `over`. `argmin`/`argmax` have one entry with one
    index in `over` and give the ordinal of the first best value (the first NaN if there is one,
    0 if there is none). So has `nth`, whose `init` is an Int: the value that so many others come
    before in ascending order; and `argnth`, its ordinal."""

    monoid: str
    init: Operand
    entries: tuple[Entry, ...]


@node
class Delay:
    """x[…, 0] = init; x[…, t + 1] = next at t. `index` is x's own last-run index u, a member of
    the binding's context; `time` is t."""

    time: Var
    index: Var
    init: Operand
    next: Operand


@node
class Check:
    """The run stops with error `code` unless the condition holds everywhere in the context.
    The binding has no value. Its context is the loops it stands in, not just its free indices."""

    condition: Operand
    code: int


OUTSIDE = -3
"""The code of a check that a parameter's elements are in their set; the border explains it."""


Prim: TypeAlias = Op | Accumulate | Delay | Check


@node
class Index:
    """An index: `extent` and, for a sequential one, the `condition` for another round."""

    extent: Size | None
    condition: Operand | None = None
    name: str = field(default="i", compare=False)


@keeper
class Binding:
    """`var` over `context` is `prim`."""

    var: Var
    context: tuple[Var, ...]
    guards: tuple[Guard, ...]
    dtype: DType
    prim: Prim
    origin: Span = field(default=NOWHERE, compare=False, repr=False)


@node
class Param:
    """An array of the caller, stored by rows; a scalar has no shape."""

    var: Var
    dtype: DType
    shape: tuple[Size, ...]
    bound: Size | None = None  # every element (an index) is in 0 … bound-1; see `distrust`


@node
class Result:
    """An array to give back: at (indices) of `shape`, the operand. `indices` name the axes in
    order; a scalar has none. Each is an index of the program whose extent is that axis; axes that
    depend on each other (`j<i + 1`) are one axis of the array, row after row without gaps. One that
    is `new` has a shape that the caller does not know before the run."""

    indices: tuple[Var, ...]
    value: Operand
    dtype: DType
    new: bool = False


@node
class Failure:
    """What a failed `Check` or `checked` tells the user. `message` may hold `{value}` and
    `{size}`, filled from the operands of `checked`."""

    message: str
    origin: Span


@node
class Program:
    """A function in AiNF. `sizes` are the size parameters (64-bit integers given at the call);
    `indices` is every index used, extents mentioning only earlier ones; `failures` is indexed by
    the `code` of checks, from 1, `lines` by that of prints."""

    name: str
    sizes: tuple[Var, ...]
    params: tuple[Param, ...]
    indices: dict[Var, Index]
    bindings: tuple[Binding, ...]
    results: tuple[Result, ...]
    failures: tuple[Failure, ...] = ()
    math: Math = Math.DEFAULT
    lines: tuple[Line, ...] = ()
