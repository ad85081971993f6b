"""Loops: nests over buffers. Order, parallelism, storage and contractions are written down.

    program ::= (size…, buffer…) -> buffer… : stmt…
    buffer  ::= b : dtype[size, …]  in | out | temp        stored by rows, contiguous
    stmt    ::= Loop | While | When | Let | Variable | Assign | Store | Allocate
              | Fail | Print | Contract | Sort
    expr    ::= Lit | Local | Number | Load | Apply

`Number` is a polynomial over size parameters, loop variables and integer locals. In index
expressions the atoms are `Var` (all three), `Clamp`, `Quotient`, `Remainder` and `Load` of an
integer buffer (a gather).

`Let` binds once and is visible to the end of its block. `Variable` is a mutable scalar (an
accumulator or a carried value), `Assign` sets it. `Local` reads either.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import TypeAlias

from naperian.ainf.syntax import Failure
from naperian.dtypes import DType
from naperian.lines import Line
from naperian.names import Lit, Var
from naperian.node import keeper, node, replace
from naperian.prims import Math
from naperian.sizes import ONE, Size


class Role(Enum):
    """Who owns a buffer."""

    IN = "in"  # the caller's, read only
    OUT = "out"  # a result, written completely and never read before; memory the caller provides,
    # or, if there is an `Allocate` of it, memory that the run makes and the caller takes over
    TEMP = "temp"  # allocated by `Allocate`


@node
class Buffer:
    """Memory for an array, row-major and contiguous. A scalar parameter or result has shape ();
    an IN scalar is passed by value, an OUT scalar through a pointer."""

    var: Var
    dtype: DType
    shape: tuple[Size, ...]
    role: Role


@keeper
class Local:
    """A `Let`, a `Variable` or an IN scalar, by name."""

    var: Var


@keeper
class Number:
    """An index expression as a 64-bit integer."""

    value: Size


@keeper
class Load:
    """An element of a buffer; also an atom of index expressions when it is an integer."""

    buffer: Var
    at: tuple[Size, ...]


@keeper
class Apply:
    """A scalar operation (`ainf.Op` names, without `checked` and `copy`). `dtype` is the result's;
    `operand` the operands' (of the choices, for `select`). `exact` forbids nothing and allows
    nothing more: contraction to fused multiply-add is always allowed, reassociation never."""

    name: str
    args: tuple[Expr, ...]
    dtype: DType
    operand: DType


Expr: TypeAlias = "Lit | Local | Number | Load | Apply"

WINDOW = 32
"""Rounds of sums inside each other that are written out, where nothing is left out of them."""


class Order(Enum):
    """What may be done with a loop."""

    SERIAL = "serial"  # iterations depend on each other
    FREE = "free"  # independent iterations: LLVM may vectorise
    LANES = "lanes"  # independent iterations, few enough to be one vector
    PARALLEL = "parallel"  # independent iterations, worth threads (outside only SERIAL loops)


@node
class Reduction:
    """What a loop accumulates: `var` is combined with a monoid in every iteration. In a loop
    that is not SERIAL it is the only thing that iterations share. For floats `add` and `mul` may be
    reassociated inside it. `var` is a variable or, in a PARALLEL loop, a buffer that the body
    mentions in `Update`s with this monoid alone."""

    var: Var
    monoid: str
    dtype: DType


@keeper
class Loop:
    """`for var in low … high-1`. `work` estimates additions per iteration (for grain)."""

    var: Var
    low: Size
    high: Size
    body: tuple[Stmt, ...]
    order: Order
    reductions: tuple[Reduction, ...] = ()
    work: Size = field(default=ONE, compare=False)


@keeper
class While:
    """Repeat: run `head`, stop unless `condition`, run `body`. What `head` binds is visible in
    the body. Sequential."""

    head: tuple[Stmt, ...]
    condition: Expr
    body: tuple[Stmt, ...]


@keeper
class When:
    """`then` where the condition holds, else `otherwise`."""

    condition: Expr
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()


@keeper
class Let:
    var: Var
    dtype: DType
    value: Expr


@keeper
class Variable:
    """A mutable scalar with its first value."""

    var: Var
    dtype: DType
    value: Expr


@keeper
class Assign:
    var: Var
    value: Expr


@keeper
class Store:
    buffer: Var
    at: tuple[Size, ...]
    value: Expr


@keeper
class Update:
    """buffer[at] = buffer[at] ⊕ value (histograms, array-valued accumulators)."""

    buffer: Var
    at: tuple[Size, ...]
    monoid: str
    value: Expr


Part: TypeAlias = tuple[Var, tuple[Size, ...]]
"""The part of a buffer whose elements have these first indices."""


@keeper
class Allocate:
    """A TEMP buffer, live to the end of the block; or an OUT buffer whose size is known only now,
    in the outermost block. `fill` initialises every element. `small` promises that its size is a
    small constant (a stack slot).

    With `planes`, the elements with the same first index are each in a place of their own: None is
    new memory, of which there is one, the others are a result that is not mentioned otherwise and
    parts of arguments, which nothing is stored to."""

    buffer: Buffer
    fill: Lit | None = None
    small: bool = False
    planes: tuple[Part | None, ...] = ()

    @property
    def own(self) -> Buffer:
        """The new memory."""
        return replace(self.buffer, shape=self.buffer.shape[1:]) if self.planes else self.buffer


@keeper
class Fail:
    """Stop the run with failure `code` (or OUTSIDE) when the condition holds; `values` fill its
    message."""

    condition: Expr
    code: int
    values: tuple[Expr, ...] = ()


@keeper
class Print:
    """Hands numbers of these dtypes over to be shown; with a code, they complete that line."""

    code: int
    values: tuple[Expr, ...]
    dtypes: tuple[DType, ...]


@keeper
class Contract:
    """out[m…, n…] (+)= Σ_k left[m…, k] · right[k, n…], for every point of the `batch` loops.

    Each operand is a buffer with the index expressions of one element in terms of the loop
    variables `batch`, `rows`, `columns`, `inner`, affine with coefficients in the sizes, so its
    address is affine in them. Indices run from 0 to their extents. `accumulate` adds to `out`
    instead of writing it."""

    out: tuple[Var, tuple[Size, ...]]
    left: tuple[Var, tuple[Size, ...]]
    right: tuple[Var, tuple[Size, ...]]
    batch: tuple[tuple[Var, Size], ...]
    rows: tuple[tuple[Var, Size], ...]
    columns: tuple[tuple[Var, Size], ...]
    inner: tuple[tuple[Var, Size], ...]
    dtype: DType
    accumulate: bool = False


@keeper
class Sort:
    """out[q] for q < n is what stands at place q among value[i], i < n, in ascending order, as in
    `prims`: the value, or with `places` its ordinal, of equal ones the first first.

    As in `Contract`, an operand is a buffer with the index expressions of one element in terms of
    the loop variable of `axis`, which is q or i; its address is affine in it."""

    out: Part
    value: Part
    axis: tuple[Var, Size]
    dtype: DType
    places: bool = False


Stmt: TypeAlias = (
    "Loop | While | When | Let | Variable | Assign | Store | Update | Allocate | Fail | Print"
    " | Contract | Sort"
)


def made_here(body: tuple[Stmt, ...]) -> frozenset[Var]:
    """The OUT buffers that the program allocates itself."""
    allocated = (s.buffer for s in body if isinstance(s, Allocate))
    return frozenset(b.var for b in allocated if b.role is Role.OUT)


@node
class Program:
    """A function over buffers. `buffers` are the IN and OUT ones, in call order (results last);
    `notes` say why each stored array is stored and each loop is or is not parallel. `checked` are
    the IN buffers of indices whose elements the program itself checks (failure OUTSIDE); the caller
    sees to it that their sets are not empty if they are not."""

    name: str
    sizes: tuple[Var, ...]
    buffers: tuple[Buffer, ...]
    body: tuple[Stmt, ...]
    failures: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()
    checked: tuple[Var, ...] = ()
    math: Math = Math.DEFAULT
    lines: tuple[Line, ...] = ()
