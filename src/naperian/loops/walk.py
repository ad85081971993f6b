"""The shape of the loops language, for those who walk it without caring what they meet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import is_
from types import MappingProxyType

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Contract,
    Expr,
    Fail,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Print,
    Sort,
    Stmt,
    Store,
    Update,
    Variable,
    When,
    While,
)
from naperian.names import Lit, Var
from naperian.node import kept, replace
from naperian.sizes import Atom, Clamp, Quotient, Remainder, Size, size, substitute


def expressions(s: Stmt) -> tuple[Expr, ...]:
    """The expressions a statement evaluates itself, not those of its blocks."""
    match s:
        case Let() | Store() | Variable() | Assign() | Update():
            return (s.value,)
        case Loop() | Allocate() | Contract() | Sort():
            return ()
        case When() | While():
            return (s.condition,)
        case Fail():
            return (s.condition, *s.values)
        case Print():
            return s.values


def indices(s: Stmt) -> tuple[Size, ...]:
    """The index expressions and sizes of a statement itself."""
    match s:
        case Let() | Variable() | Assign() | When() | While() | Fail() | Print():
            return ()
        case Store() | Update():
            return s.at
        case Loop():
            return (s.low, s.high, s.work)
        case Allocate():
            return (*s.buffer.shape, *(i for x in s.planes if x for i in x[1]))
        case Contract():
            bounds = (*s.batch, *s.rows, *s.columns, *s.inner)
            return (*s.out[1], *s.left[1], *s.right[1], *(n for _, n in bounds))
        case Sort():
            return (*s.out[1], *s.value[1], s.axis[1])


@kept
def index_expressions(s: Stmt) -> tuple[Size, ...]:
    """The index expressions and sizes of a statement itself and of all that it evaluates."""
    out = list(indices(s))
    for e in expressions(s):
        for x in parts(e):
            match x:
                case Load():
                    out += x.at
                case Number():
                    out.append(x.value)
                case _:
                    pass
    return tuple(out)


@kept
def loads(s: Stmt) -> tuple[Load, ...]:
    """The elements that a statement itself reads, also inside index expressions."""
    at = [*indices(s)]
    out: list[Load] = []
    for e in expressions(s):
        for x in parts(e):
            if isinstance(x, Load):
                out.append(x)
                at += x.at
            elif isinstance(x, Number):
                at.append(x.value)
    for n in at:
        if not n.plain:
            out += (a for a in atoms(n) if isinstance(a, Load))
    return tuple(out)


_WITH_BLOCKS = frozenset((Loop, When, While))
"""The few that have any: what most walks ask of most statements."""
_WRITING = frozenset((Store, Update, Contract, Sort))


def blocks(s: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """The blocks of a statement, in order. `While`'s body continues the scope of its head."""
    if type(s) not in _WITH_BLOCKS:
        return ()
    match s:
        case Loop():
            return (s.body,)
        case While(head, _, body):
            return (head, body)
        case When(_, then, otherwise):
            return (then, otherwise)
        case (
            Let() | Variable() | Assign() | Store() | Update() | Allocate() | Fail() | Print()
            | Contract() | Sort()
        ):
            return ()


def statements(body: Collection[Stmt]) -> list[Stmt]:
    """Every statement, outer ones first."""
    if _WITH_BLOCKS.isdisjoint(map(type, body)):  # as innermost loops are
        return [*body]
    out: list[Stmt] = []
    for s in body:
        out.append(s)
        if type(s) in _WITH_BLOCKS:
            out += _within(s)
    return out


@kept
def _within(s: Stmt) -> tuple[Stmt, ...]:
    """All in the blocks of a statement: not it, for a node keeps nothing that leads back to it."""
    return tuple([x for block in blocks(s) for x in statements(block)])


@kept
def assigned(s: Stmt) -> frozenset[Var]:
    """The variables that are assigned to, here or in its blocks."""
    return frozenset(x.var for x in (s, *_within(s)) if isinstance(x, Assign))


def atoms(s: Size) -> tuple[Var | Load, ...]:
    """The variables and loads of an index expression, wherever they are."""
    return s.atoms if s.plain else _atoms(s)  # type: ignore[return-value]


@kept
def _atoms(s: Size) -> tuple[Var | Load, ...]:
    out: list[Var | Load] = []
    for a in s.atoms:
        match a:
            case Var():
                out.append(a)
            case Load():
                out.append(a)
                for i in a.at:
                    out += atoms(i)
            case Clamp(x, y) | Quotient(x, y) | Remainder(x, y):
                out += atoms(x)
                out += atoms(y)
            case _:
                raise TypeError(f"not an atom of loops: {a!r}")
    return tuple(out)


def parts(e: Expr) -> tuple[Expr, ...]:
    """An expression and everything in it, except what is inside index expressions."""
    return (e, *_parts(e)) if isinstance(e, Apply) else (e,)


@kept
def _parts(e: Apply) -> tuple[Expr, ...]:
    out: list[Expr] = []
    stack: list[Expr] = [*reversed(e.args)]
    while stack:
        x = stack.pop()
        out.append(x)
        if isinstance(x, Apply):
            stack.extend(reversed(x.args))
    return tuple(out)


@kept
def used(e: Expr) -> tuple[Var, ...]:
    """Every variable and buffer an expression mentions."""
    out: list[Var] = []
    for x in parts(e):
        match x:
            case Local():
                out.append(x.var)
            case Number():
                out += used_in(x.value)
            case Load():
                out.append(x.buffer)
                for i in x.at:
                    out += used_in(i)
            case Lit() | Apply():
                pass
    return tuple(out)

def as_index(e: Expr) -> Size | None:
    """An integer as an index expression, if it is written as one."""
    match e:
        case Number(value):
            return value
        case Lit(int() as value):
            return size(value)
        case _:
            return None


def used_in(s: Size) -> tuple[Var, ...]:
    """Every variable and buffer an index expression mentions."""
    return s.atoms if s.plain else _used_in(s)  # type: ignore[return-value]


def step(s: Size, v: Var) -> int | None:
    """How far an index expression moves when a variable grows by one; None if not always as far."""
    by = s.coefficient(v)
    return None if v in used_in(s - size(v) * by) else by


@kept
def _used_in(s: Size) -> tuple[Var, ...]:
    return tuple(a.buffer if isinstance(a, Load) else a for a in atoms(s))


@kept
def reads(s: Stmt) -> frozenset[Var]:
    """Every name that a statement itself evaluates, not those in its blocks."""
    out: set[Var] = set()
    for e in expressions(s):
        out.update(used(e))
    for i in indices(s):
        out.update(used_in(i))
    return frozenset(out)


def writes(s: Stmt) -> Var | None:
    """The buffer that a statement itself writes."""
    if type(s) not in _WRITING:
        return None
    match s:
        case Store() | Update():
            return s.buffer
        case Contract() | Sort():
            return s.out[0]
        case _:
            return None


def takes(s: Stmt) -> tuple[Var, ...]:
    """The buffers of which a statement itself reads many elements."""
    match s:
        case Contract():
            return (s.left[0], s.right[0])
        case Sort():
            return (s.value[0],)
        case _:
            return ()


@kept
def mentions(s: Stmt) -> frozenset[Var]:
    """Every name in a statement and its blocks."""
    to = writes(s)
    own = reads(s).union(takes(s), () if to is None else (to,))
    return own.union(*(mentions(x) for block in blocks(s) for x in block))


def users(body: Sequence[Stmt]) -> dict[Var, list[int]]:
    """Which statements of a block mention the arrays that it allocates, without allocating them."""
    found: dict[Var, list[int]] = {s.buffer.var: [] for s in body if isinstance(s, Allocate)}
    own = frozenset(found)
    for k, s in enumerate(body):
        for v in mentions(s) & own:
            found[v].append(k)
    return found


def conjuncts(e: Expr) -> list[Expr]:
    """The conditions that must all hold, each of which is asked only where those before it do."""
    match e:
        case Apply("select", (a, b, Lit(False)), DType.BOOL):
            return [*conjuncts(a), *conjuncts(b)]
        case _:
            return [e]


def all_of(conditions: Sequence[Expr]) -> Expr:
    """Whether all conditions hold, as one."""
    *before, last = conditions
    for e in reversed(before):
        last = Apply("select", (e, last, Lit(False, DType.BOOL)), DType.BOOL, DType.BOOL)
    return last


def whole(name: str, *args: Expr) -> Expr:
    """An operation on integers."""
    return Apply(name, args, DType.I64, DType.I64)


def gathers(s: Loop) -> bool:
    """Whether a loop reads where memory says: at an index that is itself read in every round."""
    inner = {s.var, *(x.var for x in statements(s.body) if isinstance(x, Let))}

    def read_here(i: Size) -> bool:
        return any(
            isinstance(a, Load) and any(v in inner for k in a.at for v in used_in(k))
            for a in atoms(i)
        ) or any(v in inner and v != s.var for v in used_in(i))

    return any(
        isinstance(e, Load) and any(read_here(i) for i in e.at)
        for x in statements(s.body) for top in expressions(x) for e in parts(top)
    )  # fmt: skip


def scatters(s: Loop) -> bool:
    """Whether a loop updates where it has just read: one element after the other is faster than a
    vector that gathers and scatters."""
    inner = {x.var for x in s.body if isinstance(x, Let)}
    return any(
        isinstance(x, Update) and any(v in inner for i in x.at for v in used_in(i)) for x in s.body
    )


def rebuild(s: Stmt, block: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]) -> Stmt:
    """The statement with its blocks mapped; itself, if that changes nothing."""
    if type(s) not in _WITH_BLOCKS:
        return s
    match s:
        case Loop():
            new = block(s.body)
            if _same(new, s.body):
                return s
            return Loop(s.var, s.low, s.high, new, s.order, s.reductions, s.work)
        case While(head, _, body):
            return with_blocks(s, block(head), block(body))
        case When(condition, then, otherwise):
            one, two = block(then), block(otherwise)
            same = _same(one, then) and _same(two, otherwise)
            return s if same else When(condition, one, two)
        case (
            Let() | Variable() | Assign() | Store() | Update() | Allocate() | Fail() | Print()
            | Contract() | Sort()
        ):
            return s


def with_blocks(s: While, head: tuple[Stmt, ...], body: tuple[Stmt, ...]) -> While:
    """A `While` with these blocks; itself, if they are its own."""
    same = _same(head, s.head) and _same(body, s.body)
    return s if same else While(head, s.condition, body)


def rebuild_loops(s: Stmt, block: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]) -> Stmt:
    """`rebuild`, for a pass that changes nothing where there is no loop: it does not look at what
    innermost loops do, which is most of a program."""
    return rebuild(s, block) if type(s) in _WITH_BLOCKS and has_loops(s) else s


def rebuild_allocations(s: Stmt, block: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]) -> Stmt:
    """`rebuild`, for a pass that changes nothing where nothing is allocated."""
    return rebuild(s, block) if type(s) in _WITH_BLOCKS and allocates(s) else s


@kept
def has_loops(s: Stmt) -> bool:
    """Whether there are loops in its blocks."""
    for block in blocks(s):
        for x in block:
            kind = type(x)
            if kind is Loop or kind is While or (kind is When and has_loops(x)):
                return True
    return False


@kept
def allocates(s: Stmt) -> bool:
    """Whether something is allocated here or in its blocks."""
    return type(s) is Allocate or any([allocates(x) for block in blocks(s) for x in block])


def _same(a: tuple[object, ...], b: tuple[object, ...]) -> bool:
    """Whether these are the same ones."""
    return len(a) == len(b) and all(map(is_, a, b))


@kept
def touched(s: Stmt) -> frozenset[Var]:
    """The buffers that a statement and its blocks allocate, write or read."""
    to = writes(s)
    own = {*takes(s), *(x.buffer for x in loads(s))}
    if to is not None:
        own.add(to)
    match s:
        case Allocate(buffer):
            own.update((buffer.var, *(x[0] for x in s.planes if x)))
        case Loop():
            own.update(r.var for r in s.reductions)
        case _:
            pass
    return frozenset(own.union(*(touched(x) for block in blocks(s) for x in block)))


def renamed(body: tuple[Stmt, ...], new: Mapping[Var, Var]) -> tuple[Stmt, ...]:
    """Statements with buffers under new names; what touches none of them stays itself."""
    if not new:
        return body
    return remade(body, lambda _: None, new, only=new)


def remade(
    body: Sequence[Stmt],
    replaced: Callable[[Atom], Size | None],
    names: Mapping[Var, Var] = MappingProxyType({}),
    place: Callable[[Var, tuple[Size, ...]], tuple[Size, ...]] = lambda _, at: at,
    only: Collection[Var] = (),
) -> tuple[Stmt, ...]:
    """Statements with atoms of their index expressions replaced (innermost first; None keeps one),
    then the indices of elements as `place` says, and buffers and locals under new names (of locals,
    `replaced` knows them, too). What that changes nothing of stays itself, with what is known of
    it; where `only` such change as touch some buffers, nobody looks at the others."""
    return _Remade(replaced, names, place, only).block(tuple(body))


class _Remade:
    """What `remade` was asked for. No function inside another: those that call each other would all
    be left to the collector, with what they know."""

    def __init__(
        self, replaced: Callable[[Atom], Size | None], names: Mapping[Var, Var],
        place: Callable[[Var, tuple[Size, ...]], tuple[Size, ...]], only: Collection[Var],
    ) -> None:  # fmt: skip
        self.replaced = replaced
        self.names = names
        self.place = place
        self.only = only
        self.made: dict[Size, Size | None] = {}  # many statements read at the same place

    def atom(self, a: Atom) -> Size | None:
        if isinstance(a, Load):
            to, where = self.element((a.buffer, a.at))
            if to is not a.buffer or where is not a.at:
                a = Load(to, where)
                return self.replaced(a) or Size((((a,), 1),))
        return self.replaced(a)

    def of(self, s: Size) -> Size:
        if s in self.made:
            new = self.made[s]
        else:
            new = substitute(s, self.atom)
            self.made[s] = new = None if new is s else new
        return s if new is None else new

    def element(self, x: tuple[Var, tuple[Size, ...]]) -> tuple[Var, tuple[Size, ...]]:
        var, at = x
        new = self.place(var, tuple([self.of(i) for i in at]))
        return self.names.get(var, var), at if _same(new, at) else new

    def expr(self, e: Expr) -> Expr:
        match e:
            case Local():
                return Local(self.names[e.var]) if e.var in self.names else e
            case Apply():
                new = tuple([self.expr(x) for x in e.args])
                return e if _same(new, e.args) else Apply(e.name, new, e.dtype, e.operand)
            case Load():
                to, where = self.element((e.buffer, e.at))
                return e if where is e.at and to is e.buffer else Load(to, where)
            case Number():
                n = self.of(e.value)
                return e if n is e.value else Number(n)
            case Lit():
                return e

    def block(self, stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        if self.only:
            return tuple([x if touched(x).isdisjoint(self.only) else self.stmt(x) for x in stmts])
        return tuple([self.stmt(x) for x in stmts])

    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case Let():
                new, to = self.expr(s.value), self.names.get(s.var, s.var)
                return s if new is s.value and to is s.var else Let(to, s.dtype, new)
            case Variable(var, dtype, value):
                new, to = self.expr(value), self.names.get(var, var)
                return s if new is value and to is var else Variable(to, dtype, new)
            case Assign(var, value):
                new, to = self.expr(value), self.names.get(var, var)
                return s if new is value and to is var else Assign(to, new)
            case Store(buffer, at, value):
                to, where = self.element((buffer, at))
                new = self.expr(value)
                same = new is value and where is at and to is buffer
                return s if same else Store(to, where, new)
            case Update(buffer, at, monoid, value):
                to, where = self.element((buffer, at))
                new = self.expr(value)
                same = new is value and where is at and to is buffer
                return s if same else Update(to, where, monoid, new)
            case Allocate(buffer):
                shape = tuple([self.of(n) for n in buffer.shape])
                planes = tuple([x and self.element(x) for x in s.planes])
                if _same(shape, buffer.shape) and planes == s.planes:
                    return s
                return replace(s, buffer=replace(buffer, shape=shape), planes=planes)
            case Fail(condition, code, values):
                return Fail(self.expr(condition), code, tuple([self.expr(v) for v in values]))
            case Print(code, values, dtypes):
                return Print(code, tuple([self.expr(v) for v in values]), dtypes)
            case Contract():
                own, left, right = self.element(s.out), self.element(s.left), self.element(s.right)
                return replace(s, out=own, left=left, right=right)
            case Sort():
                axis = (s.axis[0], self.of(s.axis[1]))
                return replace(s, out=self.element(s.out), value=self.element(s.value), axis=axis)
            case Loop():
                shared = s.reductions
                low, high, work = self.of(s.low), self.of(s.high), self.of(s.work)
                if not self.names.keys().isdisjoint([r.var for r in shared]):
                    shared = tuple([replace(r, var=self.names.get(r.var, r.var)) for r in shared])
                body = self.block(s.body)
                old = (s.low, s.high, s.work, s.reductions, *s.body)
                same = _same((low, high, work, shared, *body), old)
                return s if same else Loop(s.var, low, high, body, s.order, shared, work)
            case While(head, condition, inner):
                first, asked, rest = self.block(head), self.expr(condition), self.block(inner)
                same = asked is condition and _same(first, head) and _same(rest, inner)
                return s if same else While(first, asked, rest)
            case When(condition, then, otherwise):
                asked, one, two = self.expr(condition), self.block(then), self.block(otherwise)
                same = asked is condition and _same(one, then) and _same(two, otherwise)
                return s if same else When(asked, one, two)
