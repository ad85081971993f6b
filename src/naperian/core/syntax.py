"""Core: names resolved; every type, size, lift, instance and conversion explicit.

    module ::= definition… instance…                        definitions in dependency order
    definition ::= def f {types, sets, sizes} (x : T, …) -> T where wanted, facts = expr
    instance ::= instance I(T, …) where wanted: method = f, …
    expr ::= Ref | Const | Number | Blank | Lambda | Call | Use | Method
           | Let | Pack | Part | If | For | Literal | At | Recast
           | Op | Reduce | Loop | Scan | Derivative | Either | Custom | Check | Checked
           | Box | Unbox | Handle | Get | Assign | Add | Throw | Print | Quiet | Tell

Values. A scalar is a number or a Boolean. An index of `Fin`, of a set variable or of an enum is
its ordinal, a 64-bit integer; an index of a `Range` is the number itself; an index of a `TupleSet`
is a tuple of indices, of `BoolSet` a Boolean, of `UnitSet` the empty tuple; an index of
`Reverse(s)` is an index of `s`. `ordinal(set, index)` in `run.py` says where it is stored.
A table is a function of such an index. Functions are first class until `normalize`.

Sizes in types and in `Number` are polynomials over size parameters, set parameters (standing for
their number of elements) and *any integer or index variable in scope* (`Fin(k)` of a run-time k).

Effects happen in the order of evaluation, which is the order of the text: operands before their
operation, from left to right; tables by their indices, in order. A reference is a variable of a
`Handle` (or a parameter), or `At` of one, an element of it.

After `normalize` there is one definition, without Lambda, Call, Use, Method, Either, Quiet and
Unbox, and with a Box at most around its result; types hold no variables; operands of Op, If's
condition, Reduce's value … are scalars; tables of tuples are tuples of tables.
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from naperian.lines import Line
from naperian.names import Lit, Var
from naperian.node import node
from naperian.prims import Math
from naperian.sizes import Size
from naperian.source import NOWHERE, Span
from naperian.substitution import Substitution
from naperian.types import (
    BOOL,
    INT,
    Exists,
    Layout,
    Set,
    Type,
)


@node
class Ref:
    """A variable: parameter, let-bound, index or carried."""

    var: Var


@node
class Const:
    """A scalar constant."""

    lit: Lit


@node
class ConstOf:
    """A numeric literal at a type variable (`1` where `a: Num`): becomes a `Const` when the type
    is known. `type` is the type variable's type."""

    value: int | float
    type: Type


@node
class Number:
    """A polynomial over integer variables in scope, as an Int or an index."""

    value: Size


@node
class Blank:
    """A value that nobody looks at, all zeros: what a variant of an enum does not use."""

    type: Type


@node
class Lambda:
    params: tuple[tuple[Var, Type], ...]
    body: Expr


@node
class Call:
    function: Expr
    args: tuple[Expr, ...]


@node
class Use:
    """A top-level definition, at these types, sets and sizes (in its own type variables)."""

    name: str
    at: Substitution = field(compare=False)


@node
class Method:
    """A method of an interface at these types, a function of type `type`. Which instance it comes
    from is known when the types are: then it is a Use. `at` gives the method's own variables."""

    interface: str
    name: str
    types: tuple[Type, ...]
    type: Type
    at: Substitution = field(compare=False)


@node
class Let:
    var: Var
    value: Expr
    body: Expr


@node
class Pack:
    """A tuple."""

    items: tuple[Expr, ...]


@node
class Part:
    """A component of a tuple, from 0."""

    tuple: Expr
    number: int


@node
class If:
    """Of any type; only the taken side is evaluated."""

    condition: Expr
    then: Expr
    otherwise: Expr


@node
class For:
    """The table of `body` over `set`; `var` has type `element(set)`."""

    var: Var
    set: Set
    body: Expr


@node
class Literal:
    """The table of these items over `set`, in order of ordinals."""

    set: Set
    items: tuple[Expr, ...]


@node
class At:
    """`table[index]`, one axis; the index is an element of `set` and in range."""

    table: Expr
    index: Expr
    set: Set


@node
class Recast:
    """The same data under other axes: `value` has axes `old` (outermost first) of cells `cell`,
    the result axes `new`; equally many elements, in the same order."""

    value: Expr
    old: tuple[Set, ...]
    new: tuple[Set, ...]
    cell: Type


@node
class Op:
    """A scalar primitive (`prims`), or `cast`/`bitcast` to `type`. `type` is the *operands'* type
    (of the choices, for `select`; the target, for the casts): a Scalar, or a type variable until
    the definition is used. `div` of integers does not occur: elaboration casts first.

    Or `known`, of a Boolean: whether it holds in every run, as far as is known when the program is
    compiled. It chooses between two ways to the same value."""

    name: str
    args: tuple[Expr, ...]
    type: Type
    origin: Span = field(default=NOWHERE, compare=False, repr=False)


@node
class Reduce:
    """init ⊕ value for all elements `var` of `set`, ⊕ a monoid of `prims.MONOIDS` on `type`.
    For `argmin`/`argmax` the result is an element of `set` and `init` is ignored. For `nth` it is
    the value that `init` (an Int) others come before in ascending order, for `argnth` its
    element."""

    monoid: str
    var: Var
    set: Set
    init: Expr
    value: Expr
    type: Type
    origin: Span = field(default=NOWHERE, compare=False, repr=False)


@node
class Carried:
    """A carried variable of a loop: its type (without functions) and its first value."""

    var: Var
    type: Type
    start: Expr


@node
class Loop:
    """Sequential: starting from the first values, while elements `time` of `set` are left and
    `condition` (which sees the carried variables and `time`) holds, all carried variables become
    the items of `body` (a tuple; the bare value for one variable) at once. The value is their
    tuple (bare for one). At least one of `time`/`set` and `condition` is there. With a `checkpoint`
    above 1, derivatives keep the carried values of few rounds and compute the others again."""

    carried: tuple[Carried, ...]
    time: Var | None
    set: Set | None
    condition: Expr | None
    body: Expr
    origin: Span = field(default=NOWHERE, compare=False, repr=False)
    checkpoint: int = 1


@node
class Scan:
    """Like a `Loop` over a set, but gives the table of the carried values: after each round, or
    before it if `exclusive`."""

    carried: tuple[Carried, ...]
    time: Var
    set: Set
    body: Expr
    exclusive: bool = False
    origin: Span = field(default=NOWHERE, compare=False, repr=False)


@node
class Derivative:
    """(value, derivative) of `body` with respect to `params`, at their first values.

    Forward, `seed` is the tangent of the parameters (a tuple; bare for one) and the derivative
    that of the value; in reverse, `seed` is the cotangent of the value and the derivative that of
    the parameters. All leaves of what is differentiated are floats. If it is said to be `linear`,
    it must be, or the program is not compiled."""

    forward: bool
    params: tuple[Carried, ...]
    body: Expr
    seed: Expr
    linear: bool = False
    origin: Span = field(default=NOWHERE, compare=False, repr=False)


@node
class Either:
    """The same value, made in either of two ways: `reverse` goes through a function once for each
    number of its value, which is of type `outputs`, `forward` once for each of its `inputs`. Which
    is taken is decided when the types are known."""

    inputs: Type
    outputs: Type
    forward: Expr
    reverse: Expr


@node
class OwnRule:
    """Forward, `given` are tangents of the parameters and `body` is that of the value
    (`custom_jvp`); in reverse, `given` is the one cotangent of the value and `body` is those of the
    parameters (a tuple; bare for one; `custom_vjp`)."""

    forward: bool
    given: tuple[tuple[Var, Type], ...]
    body: Expr


@node
class Custom:
    """The value of `body`, with `params` at their first values; its derivative with respect to
    them is what the rules say: one, or one for each direction. A direction without a rule of its
    own is the transpose of the other."""

    params: tuple[Carried, ...]
    body: Expr
    rules: tuple[OwnRule, ...]
    origin: Span = field(default=NOWHERE, compare=False, repr=False)

    def rule(self, forward: bool) -> OwnRule:
        """The rule for a direction."""
        return next((r for r in self.rules if r.forward == forward), self.rules[0])


@node
class Check:
    """Stop with `message` unless the condition holds; else the value of `then`."""

    condition: Expr
    message: str
    then: Expr
    origin: Span = field(default=NOWHERE, compare=False, repr=False)


@node
class Checked:
    """An integer as an index of `set` (ordinals from 0), checked at run time unless `proved`."""

    value: Expr
    set: Set
    proved: bool = False
    origin: Span = field(default=NOWHERE, compare=False, repr=False)


@node
class Cell:
    """A place that lives as long as the body of its `Handle`: its reference, the type of what it
    holds, its first value. `monoid` says what `Add` does with every scalar of it: one of
    `prims.MONOIDS`, unless `operator` says what it does with a cell under all axes. Of a `state`,
    whose body may do everything, it is "add", of the flag of an `except` "and", of the world
    "last"; of an `accum` the body may only `Add`."""

    var: Var
    type: Type
    start: Expr
    monoid: str
    operator: Expr | None = None
    state: bool = False


@node
class Handle:
    """The value of `body` and the last contents of every cell: (body, contents, …)."""

    cells: tuple[Cell, ...]
    body: Expr
    origin: Span = field(default=NOWHERE, compare=False, repr=False)


@node
class Get:
    """What a reference holds now."""

    reference: Expr


@node
class Assign:
    """From now on the reference holds this value (which is computed first). Of type ()."""

    reference: Expr
    value: Expr


@node
class Add:
    """The reference's contents, combined with the value. Of type ()."""

    reference: Expr
    value: Expr


TOO_LARGE = "is more than there is memory for"
"""How the message ends of a run that stops at a size that no table can have."""

MISSHAPEN = "has other sizes than the value it belongs to"
"""And of one whose tangent or cotangent is not shaped like its value."""

OF_ANOTHER_VARIANT = "is of another variant than the value it belongs to"
"""And of one whose tangent or cotangent has other fields than its value."""

UNLIKE = (MISSHAPEN, OF_ANOTHER_VARIANT)

SEED = "a derivative's seed"
"""How such a message begins."""

THROWN = "nothing handles this `throw()`"
"""Why a run stops that throws outside any handler."""


@node
class Throw:
    """The flag of the `except` that handles it, a Bool, is false from now on; where nothing handles
    it the run stops. Of type ()."""

    reference: Expr
    origin: Span = field(default=NOWHERE, compare=False, repr=False)


@node
class Print:
    """A line is shown: texts, and values of the types among `parts`, in turn. What is shown when is
    the order in which the `world`, a reference to an Int, is used. Of type ()."""

    world: Expr
    parts: tuple[str | Type, ...]
    values: tuple[Expr, ...]


@node
class Quiet:
    """`body`, of which nothing is shown: it is evaluated once more, as derivatives do."""

    body: Expr


@node
class Tell:
    """The numbers of a `Print`, in normal form: these are next, and with `line` it is complete."""

    world: Expr
    values: tuple[Expr, ...]
    line: Line = ()


@node
class Box:
    """`value` with its sizes hidden: of `type`, whose variables are `sizes` here."""

    type: Exists
    sizes: tuple[Size, ...]
    value: Expr


@node
class Unbox:
    """`body`, where `sizes` are those of a box and `var` is its value. The type of `body` does not
    mention them."""

    sizes: tuple[Var, ...]
    var: Var
    value: Expr
    body: Expr


Expr: TypeAlias = (
    "Ref | Const | ConstOf | Number | Blank | Lambda | Call | Use | Method | Let | Pack | Part | If"
    " | For | Literal | At | Recast | Op | Reduce | Loop | Scan | Derivative | Either"
    " | Custom | Check | Checked | Handle | Get | Assign | Add | Throw | Print | Quiet | Tell | Box"
    " | Unbox"
)


AMBIENT: dict[str, Type] = {"Except": BOOL, "IO": INT}
"""Effects that act on what the caller has, and what its reference holds: the flag that is true
until something is thrown; the world, where what is printed goes."""


@node
class TypeParam:
    """A type variable of a definition. `interface` says which scalars it may be (Num, Ord, …),
    `needs` of which built-in interfaces a type that is no scalar must be an instance.
    `precision` marks the one that `Float` in the signature stands for."""

    var: Var
    interface: str | None
    precision: bool = False
    needs: tuple[str, ...] = ()


@node
class Wanted:
    """`a: Show`, `(a, b): Convert`: these types must be an instance of the interface, given by its
    full name. `associated` are the variables that stand for the instance's associated types."""

    interface: str
    types: tuple[Type, ...]
    associated: tuple[tuple[str, Type], ...] = ()


@node
class Param:
    """A parameter: the name the caller may use, the variable, its type. `default` is a Use of a
    parameterless definition or a constant. `effect` is what a reference is used for: "State" or
    "Accum"."""

    name: str
    var: Var
    type: Type
    default: Expr | None = None
    effect: str = ""


@node
class Lift:
    """An application in the text that was lifted, for `explain`: the common frame, and for every
    argument (as a place in the text) which axes of the frame index it."""

    span: Span
    frame: tuple[Set, ...]
    args: tuple[tuple[Span, tuple[int, ...]], ...]
    result: Type


@node
class Rule:
    """The definition that gives another's derivative (see `Custom`), in the other's variables, and
    where that is said."""

    forward: bool
    use: Use
    origin: Span = field(default=NOWHERE, compare=False, repr=False)


@node
class Definition:
    """A top-level function (or constant: no `params` and `constant`).

    `implicit` are the set and size variables no parameter's shape fixes, which the caller gives by
    keyword. `facts` are polynomials >= 0 that callers must satisfy, with what to tell them.
    `rules` are the user's own derivative, `math` what may be done with the arithmetic. `effects`
    are those that a call has, beside those of references made inside. Those of `AMBIENT` act on
    references that every call is given after the arguments: `hidden`. `checkpoints` are those of
    loops that say nothing of them, by the place of the loop. A result that is an Int is no less
    than what is `at_least`, and no more than what is `at_most`."""

    name: str
    types: tuple[TypeParam, ...]
    sets: tuple[Var, ...]
    sizes: tuple[Var, ...]
    params: tuple[Param, ...]
    result: Type
    facts: tuple[tuple[Size, str], ...]
    implicit: tuple[Var, ...]
    body: Expr
    doc: str | None = None
    constant: bool = False
    origin: Span = field(default=NOWHERE, compare=False, repr=False)
    lifts: tuple[Lift, ...] = field(default=(), compare=False, repr=False)
    wanted: tuple[Wanted, ...] = ()
    effects: tuple[str, ...] = ()
    hidden: tuple[Param, ...] = ()
    rules: tuple[Rule, ...] = ()
    math: Math = Math.DEFAULT
    checkpoints: tuple[tuple[Span, int], ...] = ()
    at_least: tuple[Size, ...] = field(default=(), compare=False, repr=False)
    at_most: tuple[Size, ...] = field(default=(), compare=False, repr=False)


@node
class Instance:
    """An instance of `interface`, for whatever `variables` are if what is `given` holds. `at` says
    what the interface's variables are here, `associated` what its types are, by name; `methods`
    names the definition of each method: its variables are the method's own and either the
    instance's or, where it is a default, the interface's. A derived instance names none: its
    operations are those of the parts."""

    interface: str
    variables: tuple[TypeParam, ...]
    sets: tuple[Var, ...]
    sizes: tuple[Var, ...]
    types: tuple[Type, ...]
    given: tuple[Wanted, ...]
    at: Substitution
    associated: dict[str, Type]
    methods: dict[str, str]
    origin: Span = field(default=NOWHERE, compare=False, repr=False)


@node
class Module:
    """Definitions by name (imported ones under their qualified names, `module.name`), in
    dependency order. `public` are those of this module, in the order of the text. `instances` are
    all there are."""

    name: str
    definitions: dict[str, Definition]
    public: tuple[str, ...]
    enums: dict[str, tuple[str, ...]]
    instances: tuple[Instance, ...] = ()
    data: dict[str, Layout] = field(default_factory=dict)
