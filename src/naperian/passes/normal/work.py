"""The state of a normalisation: the statements so far, and meanings moved under new names."""

from __future__ import annotations

from naperian.core.syntax import Expr, Part, Ref
from naperian.dtypes import DType
from naperian.names import Var
from naperian.node import mutable
from naperian.passes.normal.denote import (
    Bound,
    Boxed,
    Chosen,
    Entry,
    Env,
    Fun,
    Guard,
    Items,
    Leaf,
    Meaning,
    Moves,
    Parts,
    Place,
    Scope,
    View,
    size_of,
)
from naperian.passes.normal.places import Places
from naperian.sizes import HEAVY, weight
from naperian.source import Span
from naperian.types import (
    BOOL,
    BoolSet,
    EnumSet,
    Exists,
    Fin,
    Function,
    Index,
    Range,
    Reference,
    Reverse,
    Scalar,
    Set,
    SetVar,
    Slice,
    Sum,
    Table,
    Text,
    Tuple,
    TupleSet,
    Type,
    TypeVar,
    UnitSet,
    element,
)


class Work:
    """Statements go to `scope`. `staying` are the variables whose values may stop the run or have
    an effect: they are computed where they are bound, needed or not. `ruled` tells whether there
    are functions with a derivative of their own."""

    def __init__(self) -> None:
        self.root = self.scope = Scope()
        self.places = Places()
        self.staying: set[Var] = set()
        self.ruled = False

    def inside(self, scope: Scope | None = None) -> _Inside:
        """Statements go to this (new) scope for a while."""
        return _Inside(self, scope or Scope())

    def bind(
        self, value: Expr, t: Type, name: str, fails: bool = False,
        cells: frozenset[Var] = frozenset(),
    ) -> Meaning:
        """The value, computed here once."""
        var = Var(name)
        self.scope.statements.append(Bound(var, value, t, True, fails, cells))
        if fails or cells:
            self.staying.add(var)
        return unpacked(Ref(var), t)

    def guard(self, condition: Expr, message: str, origin: Span) -> None:
        self.scope.statements.append(Guard(condition, message, origin))

    def named(self, e: Expr, t: Type, name: str) -> Expr:
        """A trivial expression; an integer as one that can stand in a size."""
        written = size_of(e)
        if _is_integer(t) and (written is None or weight(written) > HEAVY):
            var = Var(name)
            self.scope.statements.append(Bound(var, e, t, work=False))
            e = Ref(var)
        if isinstance(e, Ref) and isinstance(t, Scalar):
            self.places.add_data(e.var)
        return e

    def held(self, m: Meaning, name: str) -> Meaning:
        """What a variable stands for: if it is an integer, sizes may mention it."""
        match m:
            case Leaf(e, t):
                return Leaf(self.named(e, t, name), t)
            case Parts(items):
                return Parts(tuple(self.held(x, name) for x in items))
            case Boxed(t, sizes, value):
                return Boxed(t, sizes, self.held(value, name))
            case _:
                return m

    def index(self, s: Set, name: str) -> tuple[Var, Meaning]:
        """A new index variable of a set and what it means; its components are named here."""
        var = Var(name)
        return var, self.opened(var, s)

    def opened(self, var: Var, s: Set) -> Meaning:
        """What an index variable of a set means."""
        match s:
            case TupleSet(sets):
                parts = []
                for k, x in enumerate(sets):
                    part = Var(f"{var.name}{k}")
                    self.scope.statements.append(
                        Bound(part, Part(Ref(var), k), element(x), work=False)
                    )
                    parts.append(self.opened(part, x))
                return Parts(tuple(parts))
            case Reverse(inner):
                return self.opened(var, inner)
            case UnitSet():
                return Parts(())
            case BoolSet():
                return Leaf(Ref(var), BOOL)
            case Fin() | SetVar() | EnumSet() | Range() | Sum() | Slice():
                self.places.add(var, s)
                return Leaf(Ref(var), Index(s))

    # ------------------------------------------------------------ moving

    def moves(self, names: dict[Var, Expr]) -> Moves:
        return Moves(names, self.places.simplify)

    def move(self, entry: Entry, moves: Moves) -> Entry:
        match entry:
            case Leaf() | Parts() | View() | Items() | Fun() | Chosen() | Place() | Boxed():
                return self.moved(entry, moves)
            case Scalar() | TypeVar() | Index() | Table() | Tuple() | Text() | Exists():
                return moves.type(entry)
            case Function() | Reference():
                return moves.type(entry)
            case _:
                return moves.set(entry)

    def moved(self, m: Meaning, moves: Moves) -> Meaning:
        """The meaning with variables replaced. Literal tables are made where it is moved to."""
        match m:
            case Leaf(e, t):
                return Leaf(moves.expr(e), moves.type(t))
            case Parts(items):
                return Parts(tuple(self.moved(x, moves) for x in items))
            case View(s, var, names, cell):
                inner = tuple(
                    Bound(b.var, moves.expr(b.value), moves.type(b.type), work=False)
                    for b in names
                )
                return View(moves.set(s), var, inner, self.moved(cell, moves))
            case Items(s, items, _):
                parts = tuple(self.moved(x, moves) for x in items)
                return Items(moves.set(s), parts, self.scope)
            case Fun(params, body, env):
                return Fun(params, body, Env({}, env, moves))
            case Place(e, t):
                return Place(moves.expr(e), moves.type(t))
            case Chosen(condition, a, b):
                return Chosen(moves.expr(condition), self.moved(a, moves), self.moved(b, moves))
            case Boxed(t, sizes, value):
                boxed = moves.type(t)
                assert isinstance(boxed, Exists)
                return Boxed(boxed, tuple(map(moves.size, sizes)), self.moved(value, moves))


@mutable
class _Inside:
    """A while in which statements go elsewhere: of some hundred in a program, without a generator
    for each."""

    work: Work
    scope: Scope

    def __enter__(self) -> Scope:
        self.work.scope, self.scope = self.scope, self.work.scope
        return self.work.scope

    def __exit__(self, *_: object) -> None:
        self.work.scope = self.scope


def unpacked(e: Expr, t: Type) -> Meaning:
    """Data of this type, its tuples taken apart; tables of tuples are so already."""
    if isinstance(t, Tuple):
        return Parts(tuple(unpacked(Part(e, k), x) for k, x in enumerate(t.items)))
    return Leaf(e, t)


def _is_integer(t: Type) -> bool:
    match t:
        case Scalar(dtype):
            return dtype is DType.I64
        case Index():
            return True
        case _:
            return False
