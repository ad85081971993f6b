"""What core expressions denote while they are normalised.

    meaning ::= Leaf(expr, type)                     a name for data: scalar or table
              | Parts(meaning, …)                    a tuple, or a table of tuples
              | View(set, var, names, meaning)       a table that is computed where it is read
              | Items(set, meaning, …)               a table of given items
              | Fun(params, body, env)               a function and the variables it closes over
              | Chosen(condition, meaning, meaning)  functions chosen by a condition
              | Place(expr, type)                    a reference to scalars, or tables of them
              | Boxed(type, sizes, meaning)          a box: data with sizes its type does not show

Everything here is *trivial*: evaluating it twice costs no more than reading. The expression of a
`Leaf` is a variable, a constant, a number, a read of a table, or a part of a tuple; all work has
been bound to variables by statements of a `Scope`.

Reading a `View` puts the index in place of its variable; `names` are the variables its cell uses
for parts of the index and for integers that sizes mention, and get new names at each read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from naperian.broken import Broken
from naperian.core.resolve import resize
from naperian.core.syntax import (
    At,
    Check,
    Const,
    ConstOf,
    Expr,
    Let,
    Number,
    Pack,
    Part,
    Ref,
)
from naperian.core.walk import of_type
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.node import keeper, node
from naperian.sizes import Atom, Size, rename, size, substitute, variables
from naperian.source import Span
from naperian.substitution import Substitution, dependent
from naperian.types import (
    INT,
    Exists,
    Fin,
    Scalar,
    Set,
    Table,
    Tuple,
    Type,
)

TRUE = Const(Lit(True, DType.BOOL))
FALSE = Const(Lit(False, DType.BOOL))


@node
class Leaf:
    expr: Expr
    type: Type


@node
class Parts:
    items: tuple[Meaning, ...]


@node
class View:
    set: Set
    var: Var
    names: tuple[Bound, ...]
    cell: Meaning


@node
class Items:
    """`home` is the scope that `stored`, the table as a variable, is bound in when it is needed."""

    set: Set
    items: tuple[Meaning, ...]
    home: Scope
    stored: list[Leaf] = field(default_factory=list)


@node
class Fun:
    params: tuple[Var, ...]
    body: Expr
    env: Env


@node
class Chosen:
    condition: Expr
    then: Meaning
    otherwise: Meaning


@node
class Place:
    """`type` is that of what it holds."""

    expr: Expr
    type: Type


@node
class Boxed:
    """Data whose sizes, those of an `Exists`, are polynomials here."""

    type: Exists
    sizes: tuple[Size, ...]
    value: Meaning


Meaning: TypeAlias = "Leaf | Parts | View | Items | Fun | Chosen | Place | Boxed"
Entry: TypeAlias = "Meaning | Set | Type"


# ---------------------------------------------------------------- scopes


@keeper
class Bound:
    """`var = value`. `work` tells computing from naming; `fails` that it may stop the run
    or is seen from outside; `cells` are those made outside that it reads or changes."""

    var: Var
    value: Expr
    type: Type
    work: bool = True
    fails: bool = False
    cells: frozenset[Var] = frozenset()


@node
class Guard:
    """Go on only if the condition holds."""

    condition: Expr
    message: str
    origin: Span


@dataclass(slots=True, eq=False)
class Scope:
    """The statements of a block, in order; `calls` are the values of definitions that they
    compute, by the name and what is given."""

    statements: list[Bound | Guard] = field(default_factory=list)
    calls: dict[Hashable, Leaf] = field(default_factory=dict)

    @property
    def works(self) -> bool:
        return any(isinstance(s, Guard) or s.work for s in self.statements)

    @property
    def fails(self) -> bool:
        return any(isinstance(s, Guard) or s.fails for s in self.statements)

    @property
    def cells(self) -> frozenset[Var]:
        """The handlers' cells that its statements read or change."""
        found = (s.cells for s in self.statements if isinstance(s, Bound))
        return frozenset().union(*found)


def block(statements: list[Bound | Guard], value: Expr) -> Expr:
    """The statements, then the value."""
    for s in reversed(statements):
        match s:
            case Bound(var, bound):
                value = Let(var, bound, value)
            case Guard(condition, message, origin):
                value = Check(condition, message, value, origin)
    return value


# ---------------------------------------------------------------- environments


@dataclass(frozen=True, slots=True, eq=False)
class Env:
    """The variables of a function's activation and of the functions around it. What is found
    outside is moved by `moves`. `sizes` are those that were asked for, with what their variables
    were then."""

    own: dict[Var, Entry]
    outer: Env | None = None
    moves: Moves | None = None
    sizes: dict[Size, tuple[Size, tuple[tuple[Var, Entry], ...]]] = field(default_factory=dict)

    def known(self, s: Size) -> Size | None:
        """What a size is, if it was asked for and its variables are what they were."""
        found = self.sizes.get(s)
        if found is None or any(self.unmoved(v) is not entry for v, entry in found[1]):
            return None
        return found[0]

    def unmoved(self, var: Var) -> Entry | None:
        """A variable that nothing moves, if this is one."""
        env: Env | None = self
        while env is not None:
            entry = env.own.get(var)
            if entry is not None or env.moves is not None:
                return entry
            env = env.outer
        return None

    def find(self, var: Var, move: Callable[[Entry, Moves], Entry]) -> Entry:
        env: Env | None = self
        moves: list[Moves] = []
        while env is not None:
            entry = env.own.get(var)
            if entry is not None:
                for m in reversed(moves):
                    entry = move(entry, m)
                return entry
            if env.moves is not None:
                moves.append(env.moves)
            env = env.outer
        raise Broken(f"`{var!r}` is not in scope")


# ---------------------------------------------------------------- trivial expressions


def is_trivial(e: Expr) -> bool:
    """Whether an expression only reads."""
    while True:
        match e:
            case Ref() | Const() | ConstOf() | Number():
                return True
            case Part(inner, _):
                e = inner
            case At(table, index, _):
                if not is_trivial(index):
                    return False
                e = table
            case Pack(items):
                return all(is_trivial(x) for x in items)
            case _:
                return False


def number(s: Size) -> Expr:
    """A polynomial as an expression."""
    v = s.single
    return Ref(v) if isinstance(v, Var) else Number(s)


def size_of(e: Expr) -> Size | None:
    """A trivial integer as a polynomial, if it is one."""
    match e:
        case Ref():
            return size(e.var)
        case Number():
            return e.value
        case Const(Lit(int(value), dtype)) if dtype.is_integer:
            return size(value)
        case _:
            return None


@node
class Moves:
    """Trivial expressions for variables; `simplify` sees every size that changes."""

    names: dict[Var, Expr]
    simplify: Callable[[Size], Size]

    def size(self, s: Size) -> Size:
        if self.names.keys().isdisjoint(variables(s)):
            return s
        new = substitute(s, self._replace)
        return s if new is s else self.simplify(new)

    def _replace(self, a: Atom) -> Size | None:
        e = self.names.get(a) if isinstance(a, Var) else None
        if e is None:
            return None
        n = size_of(e)
        if n is None:
            raise Broken(f"{e!r} stands in a size")
        return n

    def expr(self, e: Expr) -> Expr:
        """A trivial expression with its variables replaced."""
        match e:
            case Ref():
                return self.names.get(e.var, e)
            case At():
                return At(self.expr(e.table), self.expr(e.index), self.set(e.set))
            case Number():
                new = self.size(e.value)
                return e if new is e.value else number(new)
            case Part(inner, k):
                return part_of(self.expr(inner), k)
            case Pack(items):
                return Pack(tuple(self.expr(x) for x in items))
            case Const():
                return e
            case _:
                raise Broken(f"{e!r} is not trivial")

    def set(self, s: Set) -> Set:
        if isinstance(s, Fin):
            new = self.size(s.size)
            return s if new is s.size else Fin(new)
        return resize(self.size).set(s)

    def type(self, t: Type) -> Type:
        if isinstance(t, Scalar):
            return t
        return resize(self.size).type(t)


def part_of(e: Expr, k: int) -> Expr:
    return e.items[k] if isinstance(e, Pack) else Part(e, k)


# ---------------------------------------------------------------- meanings


def type_of(m: Meaning) -> Type:
    """The type of data."""
    match m:
        case Leaf(_, t):
            return t
        case Parts(items):
            return Tuple(tuple(type_of(x) for x in items))
        case View(s, var, names, cell):
            return row_type(s, var, names, type_of(cell))
        case Items(s, items):
            return Table(s, type_of(items[0]))
        case Boxed(t, _, _):
            return t
        case Fun() | Chosen() | Place():
            raise Broken("a function or reference is used as data")


def row_type(s: Set, var: Var, inside: Iterable[Bound | Guard], cell: Type) -> Table:
    """The type of a table over `s` whose cell at `var` has the type `cell`, which may mention what
    is named `inside`."""
    if isinstance(cell, Scalar):
        return Table(s, cell)
    named = [b for b in inside if isinstance(b, Bound)]
    if {b.var for b in named}.isdisjoint(of_type(cell)):
        return dependent(s, var, cell)
    sizes: dict[Var, Size] = {}
    for b in named:
        n = size_of(b.value)
        if n is not None:
            sizes[b.var] = rename(n, sizes)
    return dependent(s, var, Substitution({}, {}, sizes).type(cell))


def has_function(m: Meaning) -> bool:
    match m:
        case Leaf():
            return False
        case Parts(items) | Items(_, items):
            return any(has_function(x) for x in items)
        case View(_, _, _, cell) | Boxed(_, _, cell):
            return has_function(cell)
        case Fun() | Chosen() | Place():
            return True


def data(m: Meaning) -> list[Meaning]:
    """The leaves of nested tuples and boxes, in order."""
    match m:
        case Parts(items):
            return [leaf for x in items for leaf in data(x)]
        case Boxed(_, sizes, value):
            return [*(Leaf(number(n), INT) for n in sizes), *data(value)]
        case _:
            return [m]


def box_sizes(m: Meaning) -> list[Size]:
    """The sizes of all boxes, in the order of `types.boxed`."""
    match m:
        case Parts(items):
            return [n for x in items for n in box_sizes(x)]
        case Boxed(_, sizes, value):
            return [*sizes, *box_sizes(value)]
        case _:
            return []


def has_box(m: Meaning) -> bool:
    """Whether the sizes of some of it depend on which it is."""
    match m:
        case Boxed():
            return True
        case Parts(items) | Items(_, items):
            return any(has_box(x) for x in items)
        case View(_, _, _, cell):
            return has_box(cell)
        case Leaf() | Fun() | Chosen() | Place():
            return False


def like(m: Meaning, leaves: list[Meaning]) -> Meaning:
    """These leaves, nested as `m` is. Takes them off the front of the list."""
    if isinstance(m, Parts):
        return Parts(tuple(like(x, leaves) for x in m.items))
    return leaves.pop(0)
