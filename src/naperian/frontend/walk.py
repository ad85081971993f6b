"""The state of one walk over a definition, shared by the modules that make up the walk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Protocol

from naperian.core import syntax as core
from naperian.dtypes import DType
from naperian.frontend.scope import Scope
from naperian.frontend.solve import Solver
from naperian.frontend.typed import Typed, Way, Wrap
from naperian.frontend.unknowns import Because
from naperian.names import Var
from naperian.node import mutable, node
from naperian.sizes import Size
from naperian.source import NOWHERE, Span
from naperian.substitution import Substitution
from naperian.surface import syntax as s
from naperian.types import (
    Data,
    EnumSet,
    Fin,
    Index,
    Scalar,
    Set,
    SetVar,
    Type,
    TypeVar,
    cardinality,
)


@mutable
class EnumInfo:
    """A fieldless enum."""

    set: EnumSet
    span: Span


@mutable
class Interface:
    """An interface: its parameters, what it builds on, its associated types, its methods (as
    definitions that call what the instance has) and which of them have a default."""

    name: str  # with its module
    params: tuple[Var, ...]
    supers: tuple[core.Wanted, ...]
    associated: dict[str, Var]
    methods: dict[str, core.Definition]
    defaults: dict[str, s.Def]
    span: Span

    @property
    def built_in(self) -> bool:
        return self.span.source.name == "<builtin>"

    @property
    def variables(self) -> tuple[Var, ...]:
        """The parameters and the associated types."""
        return (*self.params, *self.associated.values())

    @property
    def itself(self) -> core.Wanted:
        """Of its own parameters."""
        return core.Wanted(
            self.name,
            tuple(TypeVar(v) for v in self.params),
            tuple((n, TypeVar(v)) for n, v in self.associated.items()),
        )


@mutable
class Demand:
    """That types are an instance, with who asks, and for what it was asked before (the instances
    whose conditions led here)."""

    wanted: core.Wanted
    because: Because
    path: tuple[core.Wanted, ...] = ()
    settled: bool = False


@mutable
class Coded:
    """How the values of `whole` are numbered: by the definitions `ordinal` and `at`, at what is
    `given` for the parameters. A `place` is what tables over them have for an index. What
    `ordinal` says is in range where it is `derived`."""

    whole: Data
    place: Data
    ordinal: str
    at: str
    given: Substitution
    derived: bool

    @property
    def count(self) -> Size:
        """How many values there are."""
        (index,) = self.place.items
        assert isinstance(index, Index)
        return cardinality(index.set)

    def number(self, value: core.Expr, span: Span = NOWHERE) -> core.Expr:
        """The number of a value, as an index of as many."""
        number = core.Call(core.Use(self.ordinal, self.given), (value,))
        return core.Checked(number, Fin(self.count), self.derived, span)

    def value(self, number: core.Expr) -> core.Expr:
        """The value with a number."""
        return core.Call(core.Use(self.at, self.given), (number,))


@mutable
class DataInfo:
    """A struct or an enum with fields. `pattern` is its type in terms of its own parameters, each
    of which is a type, a set or a size (a `Var`); `makers` are the functions that construct it, by
    variant; `methods` by name."""

    pattern: Data
    params: tuple[TypeVar | SetVar | Var, ...]
    span: Span
    makers: dict[str, core.Definition] = field(default_factory=dict)
    methods: dict[str, core.Definition] = field(default_factory=dict)
    coded: Coded | None = None

    @property
    def name(self) -> str:
        return self.pattern.layout.var.name


@mutable
class Globals:
    """What names at the top of a module mean: `definitions` by the name used here, already
    elaborated; `modules` by alias, each with its own names. Instances have no names: all that this
    module and those it imports have are `instances`, of the interfaces `known` by full name."""

    definitions: Mapping[str, core.Definition] = field(default_factory=dict)
    enums: dict[str, EnumInfo] = field(default_factory=dict)
    data: dict[str, DataInfo] = field(default_factory=dict)
    known_data: dict[Var, DataInfo] = field(default_factory=dict)  # also what only imports name
    modules: dict[str, Globals] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    interfaces: dict[str, Interface] = field(default_factory=dict)
    known: dict[str, Interface] = field(default_factory=dict)
    instances: list[core.Instance] = field(default_factory=list)
    without: set[str] = field(default_factory=set)  # interfaces of which one has a mistake
    indexed: Mapping[str, s.Instance] = field(default_factory=dict)  # of `Ix`, by type

    def names(self) -> list[str]:
        return [*self.definitions, *self.enums, *self.data, *self.interfaces, *self.modules]


class Infer(Protocol):
    """The walk's entry: an expression, and the type its place expects, if that is known."""

    def __call__(self, w: Walk, e: s.Expr, expected: Type | None = None) -> Typed: ...


@mutable
class Region:
    """A place whose sizes end with it (see `boxes`): the integers bound in it, and what opens the
    boxes in it."""

    names: set[Var] = field(default_factory=set)
    wraps: list[Wrap] = field(default_factory=list)


@node
class Reading:
    """What is taken for known when a definition is read once more (`definitions.define`)."""

    whole: frozenset[str] = frozenset()  # names that are of Ints, where they may be of Floats
    claims: bool = False  # whether an Int that a loop carries is like what it starts as,
    broken: frozenset[tuple[str, bool]] = frozenset()  # but for what some round breaks


@mutable
class Walk:
    """One definition being walked."""

    globals: Globals
    library: Globals
    solver: Solver
    scope: Scope
    infer_with: Infer
    block_with: Callable[[Walk, s.Block, Type | None], Typed]
    place: Span = NOWHERE  # of the expression that is being walked, for what is found out late
    precision: TypeVar | None = None  # what `Float` means in this definition
    lifts: dict[core.Lift, None] = field(default_factory=dict)  # in the order they were built
    given: list[core.Wanted] = field(default_factory=list)  # what the signature says of its types
    inferred: list[core.Wanted] = field(default_factory=list)  # what the body needs besides
    associated: list[Var] = field(default_factory=list)  # variables for associated types
    demands: list[Demand] = field(default_factory=list)  # interfaces asked for and not yet settled
    uses: dict[Var, set[str]] = field(default_factory=dict)  # what is done with references
    ambient: dict[str, Var] = field(default_factory=dict)  # what the caller's effects act on
    counting: set[Var] = field(default_factory=set)  # accumulators that hold no indices
    monoids: dict[Var, str] = field(default_factory=dict)  # what accumulators combine with
    performed: set[str] = field(default_factory=set)  # which of them there are
    thrower: Var | None = None  # the flag of the `except` around, or the caller's
    throws: int = 0  # how many times so far something may have thrown
    throwing: bool = False  # whether a function made inside that `except` may
    region: Region = field(default_factory=Region)
    wrapped: list[Region] = field(default_factory=list)  # of which values are bound around the body
    ended: tuple[Scope, Typed] | None = None  # the block that ended last, and its value
    opened: dict[Var, Span] = field(default_factory=dict)  # the sizes of opened boxes
    doubted: list[tuple[Size, Span]] = field(default_factory=list)  # tests that may wrap
    extrema: dict[Size, Var] = field(default_factory=dict)  # names of larger and smaller numbers
    choices: dict[Var, tuple[Way, ...]] = field(default_factory=dict)  # names of chosen numbers
    unnamed: dict[Var, str] = field(default_factory=dict)  # names of what has none in the text
    quoted: dict[str, list[Span]] = field(default_factory=dict)  # what names of ends stand for
    row_choices: dict[Var, Span] = field(default_factory=dict)  # indices of dependent tables
    by_element: dict[Span, Span] = field(default_factory=dict)  # choices, by tables as conditions
    parts: dict[Span, tuple[Span, ...]] = field(default_factory=dict)  # of tuples written as such
    ranged: set[Var] = field(default_factory=set)  # the indices that binders name
    binders: list[tuple[Set, s.Binder, Var]] = field(default_factory=list)  # without `in`
    brought: dict[Var, list[Set]] = field(default_factory=dict)  # where what is made of them goes
    interface: Interface | None = None  # the one whose declaration or instance is walked
    reading: Reading = Reading()
    undecided: dict[str, Type] = field(default_factory=dict)  # names of Ints or of Floats
    counts: bool = False  # whether a loop carries an Int
    broken: set[tuple[str, bool]] = field(default_factory=set)  # claims that some round breaks

    def infer(self, e: s.Expr, expected: Type | None = None) -> Typed:
        return self.infer_with(self, e, expected)

    def block(self, b: s.Block, expected: Type | None = None) -> Typed:
        return self.block_with(self, b, expected)

    def wrap(self, bound: Wrap) -> None:
        """Something is bound around what is in the region."""
        self.region.wraps.append(bound)
        self.wrapped.append(self.region)

    def forget(self) -> None:
        """The definition is made: what was for it mentions each other, and no count of who does
        would find it unused."""
        for region in self.wrapped:
            region.wraps.clear()
        self.ended = None
        self.solver.forget()

    def use_reference(self, var: Var, effect: str) -> None:
        """A reference is used: for `State` (read or assigned) or `Accum` (added to)."""
        self.uses.setdefault(var, set()).add(effect)

    @property
    def float(self) -> Type:
        """`Float` here: the call's precision where the signature speaks of Float, else F64."""
        return self.precision if self.precision is not None else Scalar(DType.F64)

    def inside(self, scope: Scope) -> _Inside:
        """Walk in another scope."""
        return _Inside(self, scope)

    def enter(self, scope: Scope) -> None:
        """Go on in another scope to the end of the block (after an `assert`)."""
        self.scope = scope
        self.solver.place = scope


@mutable
class _Inside:
    """A while in another scope."""

    walk: Walk
    scope: Scope

    def __enter__(self) -> Scope:
        scope, self.scope = self.scope, self.walk.scope
        self.walk.enter(scope)
        return scope

    def __exit__(self, *_: object) -> None:
        self.walk.enter(self.scope)
