"""Rounds that only multiply by zeros are left out. loops → loops

    before   for j in 0..m:                       after    odd = Σ x[i, k] * 0.0
                 allocate t[b]                             for j in 0..m:
                 …                                             allocate t[b], places[b]
                 for i in 0..n:                                …
                     for k in 0..b:                            count = those k for which t[k] is not
                         a := a + x[i, k] * t[k]                   0, or all of them if odd is not
                     …                                         for i in 0..n:
                                                                   for q in 0..count:
                                                                       k = places[q]
                                                                       a := a + x[i, k] * t[k]

Rows that start as units are the directions of a Jacobian, and most of what they change, most others
do not: the bones of one finger by the angles of another. Their tables are asked once which elements
are zeros, for a vector of rows (`lanes`) in all of them, and the loops over many points go through
the others. Zero times what is not finite is no zero, so what they are multiplied by must be
arguments, which are looked through before. A loop of one row, which may be a vector itself, stays
for rows with more than a quarter of their elements.
"""

from __future__ import annotations

from typing import TypeAlias

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Buffer,
    Expr,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Program,
    Reduction,
    Role,
    Stmt,
    Store,
    Variable,
    When,
)
from naperian.loops.walk import expressions, loads, parts, rebuild, statements, used_in, writes
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.sizes import ONE, ZERO, Size, size

_ROUNDS = 16  # of the loop around, for which looking once is worth it
_PLACES = 8  # of which some may be left out
_FEW = 4  # times as many there are as places for which a row is no vector

_LANE = Var("lane")

_Element: TypeAlias = tuple[Var, tuple[Size, ...]]
"""A table, and where in each of its first index's parts an element is."""


def sparse(program: Program) -> Program:
    """See the module."""
    given = {b.var: b for b in program.buffers if b.role is Role.IN and b.dtype.is_float}
    out: list[Stmt] = []
    for s in program.body:
        if isinstance(s, Loop) and s.order is not Order.SERIAL and _has_units(s):
            out += _rows(s, given)
        else:
            out.append(s)
    return replace(program, body=tuple(out))


def _rows(s: Loop, given: dict[Var, Buffer]) -> list[Stmt]:
    """A loop over rows, after what it needs to know."""
    own = {x.buffer.var: x.buffer for x in s.body if isinstance(x, Allocate)}
    odd = Var("odd")
    factors: dict[Var, None] = {}
    body: list[Stmt] = []
    asked: dict[_Asked, _Places] = {}
    for x in s.body:
        sums = _sums(x, s, own, given) if isinstance(x, Loop) and _is_long(x) else []
        by_range: dict[tuple[Size, Size], list[_Sum]] = {}
        for y in sums:
            by_range.setdefault(y.range, []).append(y)
        for same in by_range.values():
            tables = frozenset(e for y in same for e in y.tables)
            key = (*same[0].range, tables)
            if key not in asked:
                asked[key] = _Places(*key)
                body += asked[key].found(own, odd)
            x = asked[key].only(x, same)
            factors |= {v: None for y in same for v in y.factors}
            if not asked[key].side_by_side:
                break  # one choice is enough
        body.append(x)
    if len(body) == len(s.body):
        return [s]
    known: list[Stmt] = [Variable(odd, DType.F64, Lit(0.0, DType.F64))]
    known += [_looked_through(given[v], odd) for v in factors]
    return [*known, replace(s, body=tuple(body))]


def _has_units(s: Loop) -> bool:
    """Whether rows begin with a one among zeros, or are multiplied by a zero of these."""
    return any(
        _is_unit(p) for x in statements(s.body) for e in expressions(x) for p in parts(e)
    )


def _is_unit(e: Expr) -> bool:
    match e:
        case Apply("select", (Apply("eq", (Number(), Number())), Lit(1.0), Lit(0.0))):
            return True
        case Apply("mul", (Lit(0.0), _)):
            return True
        case _:
            return False


def _is_long(s: Loop) -> bool:
    rounds = (s.high - s.low).constant
    return rounds is None or rounds >= _ROUNDS


class _Sum:
    """A loop over the places of tables, that changes nothing where all of them have zeros."""

    def __init__(self, loop: Loop, own: dict[Var, Buffer], changed: set[Var],
                 given: dict[Var, Buffer]) -> None:  # fmt: skip
        self.loop = loop
        self.range = (loop.low, loop.high)
        self.own = own
        self.changed = changed
        self.given = given
        self.tables: dict[_Element, None] = {}
        self.factors: dict[Var, None] = {}
        self.zeros: set[Var] = set()  # variables and tables that hold zeros by now
        self.finite: set[Var] = set()  # variables that hold a factor
        self.apart: set[Var] = set()  # what holds something for a round only
        self.holds = self.block(loop.body, None) and bool(self.tables or self.factors)

    def block(self, body: tuple[Stmt, ...], lane: Var | None) -> bool:
        return all(self.stmt(x, lane) for x in body)

    def stmt(self, x: Stmt, lane: Var | None) -> bool:
        match x:
            case Loop(var, low, _, body, Order.LANES) if lane is None and low == ZERO:
                return self.block(body, var)
            case Assign(var, value) if var in self.zeros:
                return self.is_zero(value, lane)
            case Assign(var, Apply("add" | "sub", (Local(old), more))) if old == var:
                return lane is None and self.is_zero(more, lane)
            case Let(var, _, value) | Variable(var, _, value):
                if self.is_zero(value, lane):
                    self.zeros.add(var)
                    self.finite.add(var)
                elif self.is_finite(value):
                    self.finite.add(var)
                return True
            case When(_, then, ()):  # what lanes load that have a row
                return all(isinstance(y, Assign) and self.assign(y) for y in then)
            case Store(buffer, (at,), value) if lane is not None and at == size(lane):
                if buffer not in self.own or self.own[buffer].shape[1:]:
                    return False
                if self.is_zero(value, lane):
                    self.zeros.add(buffer)
                    self.apart.add(buffer)
                    return True
                return self.is_same(buffer, value, lane)
            case _:
                return False

    def assign(self, x: Assign) -> bool:
        self.zeros.discard(x.var)
        return x.var in self.finite and self.is_finite(x.value)

    def is_same(self, buffer: Var, value: Expr, lane: Var) -> bool:
        """Whether a zero is added to what is there."""
        old = Load(buffer, (size(lane),))
        match value:
            case Apply("add" | "sub", (first, more)) if first == old and buffer not in self.zeros:
                return self.is_zero(more, lane)
            case _:
                return False

    def is_zero(self, e: Expr, lane: Var | None) -> bool:
        match e:
            case Lit(value):
                return value == 0 and not isinstance(value, bool)
            case Local(var):
                return var in self.zeros
            case Load(buffer):
                return buffer in self.zeros or self.is_place(e, lane)
            case Apply("neg", (x,)):
                return self.is_zero(x, lane)
            case Apply("add" | "sub", (x, y)):
                return self.is_zero(x, lane) and self.is_zero(y, lane)
            case Apply("mul", (x, y)):
                return any(
                    self.is_zero(a, lane) and (self.is_zero(b, lane) or self.is_finite(b))
                    for a, b in ((x, y), (y, x))
                )
            case _:
                return False

    def is_place(self, e: Load, lane: Var | None) -> bool:
        """Whether it is an element of a table at the place of the round, that stays as it is."""
        b = self.own.get(e.buffer)
        found = (
            b is not None and e.buffer not in self.changed and b.dtype.is_float
            and e.at[:1] == (size(self.loop.var),)
            and all(i.constant is not None or (lane is not None and i == size(lane))
                    for i in e.at[1:])
        )  # fmt: skip
        if found:
            rest = (size(_LANE) if i.constant is None else i for i in e.at[1:])
            self.tables[e.buffer, tuple(rest)] = None
        return found

    def is_finite(self, e: Expr) -> bool:
        """Whether it is an element of an argument, which is then looked through."""
        match e:
            case Local(var):
                return var in self.finite
            case Load(buffer) if buffer in self.given:
                self.factors[buffer] = None
                return True
            case _:
                return False


def _sums(s: Loop, rows: Loop, own: dict[Var, Buffer], given: dict[Var, Buffer]) -> list[_Sum]:
    """The loops in a long one that zeros leave as it is."""
    changed = {v for x in statements(s.body) if (v := writes(x)) is not None}
    bound = {x.var for x in statements(rows.body) if isinstance(x, Let | Variable | Loop)}
    out: list[_Sum] = []
    for x in statements(s.body):
        if not isinstance(x, Loop):
            continue
        rounds = (x.high - x.low).constant
        if rounds is not None and rounds < _PLACES:
            continue
        if not bound.isdisjoint((*used_in(x.low), *used_in(x.high))):
            continue
        found = _Sum(x, own, changed, given)
        if found.holds and _are_apart(found.apart, x, s):
            out.append(found)
    return out


def _are_apart(apart: set[Var], x: Loop, s: Loop) -> bool:
    """Whether nobody reads these behind a loop."""
    inside = [v for y in statements(x.body) for v in loads(y) if v.buffer in apart]
    return len(inside) == sum(v.buffer in apart for y in statements(s.body) for v in loads(y))


_Asked: TypeAlias = tuple[Size, Size, frozenset[_Element]]
"""A range, and the elements of tables at each of its places."""


class _Places:
    """The places of a range where tables have an element that is not zero (in all lanes)."""

    def __init__(self, low: Size, high: Size, tables: frozenset[_Element]) -> None:
        self.low, self.high = low, high
        self.tables = sorted(tables, key=lambda x: (x[0].name, x[0].id, str(x[1])))
        self.list = Buffer(Var("places"), DType.I64, (high,), Role.TEMP)
        self.count = Var("count")
        self.side_by_side = any(size(_LANE) in at for _, at in tables)

    def found(self, own: dict[Var, Buffer], odd: Var) -> list[Stmt]:
        """What finds them: all of them, where `odd` is not 0."""
        k, at, found, some = Var("k"), Var("at"), Var("found"), Var("some")
        test: Expr = Local(some)
        for buffer, rest in self.tables:
            dtype = own[buffer].dtype
            element = Load(buffer, (size(k), *rest))
            other = Apply("ne", (element, Lit(0.0, dtype)), DType.BOOL, dtype)
            test = Apply("or", (test, other), DType.BOOL, DType.BOOL)
        look: Stmt = Assign(some, test)
        if self.side_by_side:
            width = own[self.tables[0][0]].shape[-1]
            flag = (Reduction(some, "or", DType.BOOL),)
            look = Loop(_LANE, ZERO, width, (look,), Order.FREE, flag)
        told = Apply("ne", (Local(odd), Lit(0.0, DType.F64)), DType.BOOL, DType.F64)
        noted = (
            Let(at, DType.I64, Local(found)),
            Store(self.list.var, (size(at),), Number(size(k))),
            Assign(found, Number(size(at) + ONE)),
        )
        each = (Variable(some, DType.BOOL, told), look, When(Local(some), noted))
        return [
            Allocate(self.list),
            Variable(found, DType.I64, Lit(0, DType.I64)),
            Loop(k, self.low, self.high, each, Order.SERIAL),
            Let(self.count, DType.I64, Local(found)),
        ]

    def only(self, s: Stmt, sums: list[_Sum]) -> Stmt:
        """A statement whose sums go through these places; of one row, if there are few."""
        old = {id(x.loop) for x in sums}

        def stmt(x: Stmt) -> Stmt:
            if not isinstance(x, Loop) or id(x) not in old:
                return rebuild(x, lambda body: tuple(map(stmt, body)))
            q = Var("q")
            here = Let(x.var, DType.I64, Load(self.list.var, (size(q),)))
            return Loop(q, ZERO, size(self.count), (here, *x.body), Order.SERIAL)

        if self.side_by_side:
            return stmt(s)
        bounds = (Number(size(self.count) * _FEW), Number(self.high - self.low))
        few = Apply("le", bounds, DType.BOOL, DType.I64)
        return When(few, (stmt(s),), (s,))


def _looked_through(b: Buffer, odd: Var) -> Stmt:
    """Adds zeros to a variable, and no number if an element is not finite."""
    names = [Var("e") for _ in b.shape]
    element: Expr = Load(b.var, tuple(map(size, names)))
    zero = Apply("mul", (element, Lit(0.0, b.dtype)), b.dtype, b.dtype)
    value: Expr = zero
    if b.dtype is not DType.F64:
        value = Apply("cast", (zero,), DType.F64, b.dtype)
    more = Apply("add", (Local(odd), value), DType.F64, DType.F64)
    nest: Stmt = Assign(odd, more)
    flag = (Reduction(odd, "add", DType.F64),)
    for v, n in zip(reversed(names), reversed(b.shape), strict=True):
        nest = Loop(v, ZERO, n, (nest,), Order.FREE, flag)
    return nest
