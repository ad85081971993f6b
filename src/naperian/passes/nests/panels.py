"""Short rows that are read again and again lie in panels, and their sums go side by side.

    before   parallel for i in 0..n:
                 free for j in 0..m:
                     var v = 0.0
                     free for c in 0..d reducing add v: v := v + (x[i, c] - y[j, c]) ** 2
                     store out[i, j] = sqrt(v)

    after    short = m >= 6 and n >= 8 and d <= 64 and d * m <= 1 << 19
             many = (m + 15) // 16 if short else 0
             wide = (m + 7) // 16 if short else 0
             allocate panel[many, d, 16]
             for p in 0..many: for c in 0..d:
                 lanes for l in 0..16: store panel[p, c, l] = y[clamp(16 * p + l, m), c]
             parallel for i in 0..n:
                 for p in 0..wide:
                     allocate sums[16]
                     lanes for l in 0..16: store sums[l] = 0.0
                     for c in 0..d:
                         lanes for l in 0..16: update sums[l] += (x[i, c] - panel[p, c, l]) ** 2
                     lanes for l in 0..16:
                         var v = sums[l]
                         if 16 * p + l < m: store out[i, 16 * p + l] = sqrt(v)
                 for p in wide..many: …                    the same with the first 8 of 16 rows
                 for j in (m if short else 0)..m: …                                     as before

A row of a few elements fills a vector or two, and to add up what is in them takes as long as all
that came before. Side by side the sums of sixteen rows need no such thing: distances, nearest
neighbours, kernels of points. All rows are summed in the same order, wherever they stand. Long rows
are left as they are, and so are tables too large to stay in the cache, where memory is waited for,
not arithmetic.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Buffer,
    Contract,
    Expr,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Print,
    Program,
    Reduction,
    Role,
    Stmt,
    Store,
    Variable,
    When,
    While,
)
from naperian.loops.walk import (
    expressions,
    loads,
    rebuild,
    rebuild_loops,
    remade,
    statements,
    used,
    used_in,
    writes,
)
from naperian.names import Lit, Var, fresh
from naperian.node import node, replace
from naperian.prims import unit
from naperian.sizes import ZERO, Atom, Size, atom, clamp, rename, size, substitute

_LANE_BYTES = 128  # of the sums that go side by side: two vectors,
_LANES = 32  # or less: of small integers would be more than there are rows
_FEW = 6  # rows, at least: fewer would leave most of a panel empty
_ROUNDS = 8  # of the loop around, at least: the panels are made once for all of them
_LONG = 64  # elements of a row, from which on it fills its vectors by itself
_CACHE = 1 << 19  # elements of a table that stays in the cache

Buffers = Mapping[Var, Buffer]


def panels(program: Program) -> Program:
    """See the module."""
    buffers = {b.var: b for b in program.buffers}
    buffers |= {
        s.buffer.var: s.buffer for s in statements(program.body) if isinstance(s, Allocate)
    }
    found: list[_Rows] = []
    body = _block(program.body, buffers, found)
    notes = dict.fromkeys(
        f"rows of `{t.buffer.name}` are summed side by side, from a copy, where they are short"
        for rows in found for t in rows.tables
    )  # fmt: skip
    return replace(program, body=body, notes=(*program.notes, *notes)) if found else program


def _block(
    body: tuple[Stmt, ...], buffers: Buffers, found: list[_Rows]
) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Loop):
            for rows in _rows_in(s, buffers):
                before, s = rows.in_panels(s)
                out += before
                found.append(rows)
        out.append(rebuild_loops(s, lambda b: _block(b, buffers, found)))
    return tuple(out)


@node
class _Rows:
    """A loop over rows, with the loop that sums each of them, the accumulators with their first
    values, and the tables whose rows they are, as they are read, with their dtypes."""

    rows: Loop
    sums: Loop
    first: tuple[Variable, ...]
    tables: Mapping[Load, DType]
    lanes: int

    def in_panels(self, around: Loop) -> tuple[list[Stmt], Loop]:
        """What makes the panels, and the loop around the rows with them."""
        count, length = self.rows.high, self.sums.high
        short, many, wide = Var("short"), Var("many"), Var("wide")
        tests = [
            _at_least(count, size(_FEW)),
            _at_least(around.high - around.low, size(_ROUNDS)),
            _at_least(size(_LONG), length),
            _at_least(size(_CACHE), count * length),
        ]
        pays = tests[0]
        for test in tests[1:]:
            pays = Apply("and", (pays, test), DType.BOOL, DType.BOOL)
        panels = (count + (self.lanes - 1)) // self.lanes
        whole = (count + (self.lanes // 2 - 1)) // self.lanes
        before: list[Stmt] = [
            Let(short, DType.BOOL, pays),
            Let(many, DType.I64, _choice(Local(short), Number(panels), Lit(0, DType.I64))),
            Let(wide, DType.I64, _choice(Local(short), Number(whole), Lit(0, DType.I64))),
        ]
        copies = {}
        for table in self.tables:
            copy = copies[table] = Var("panel")
            before += self.panel(table, copy, many)

        def inside(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
            out: list[Stmt] = []
            for s in body:
                if s is self.rows:
                    if whole.constant != 0:
                        out.append(self.side_by_side(copies, ZERO, size(wide), self.lanes))
                    if panels.constant is None or panels != whole:
                        out.append(
                            self.side_by_side(copies, size(wide), size(many), self.lanes // 2)
                        )
                    out += self.one_by_one(short)
                else:
                    out.append(rebuild(s, inside))
            return tuple(out)

        return before, replace(around, body=inside(around.body))

    def panel(self, table: Load, copy: Var, many: Var) -> Iterator[Stmt]:
        p, c, lane = Var("p"), fresh(self.sums.var), Var("lane")
        dtype = self.tables[table]
        shape = (size(many), self.sums.high, size(self.lanes))
        yield Allocate(Buffer(copy, dtype, shape, Role.TEMP))
        row = clamp(size(p) * self.lanes + size(lane), self.rows.high)
        at = tuple(rename(e, {self.rows.var: row, self.sums.var: size(c)}) for e in table.at)
        to = (size(p), size(c), size(lane))
        body: Stmt = Store(copy, to, Load(table.buffer, at))
        body = Loop(lane, ZERO, size(self.lanes), (body,), Order.LANES)
        for v, n in ((c, self.sums.high), (p, size(many))):
            body = Loop(v, ZERO, n, (body,), Order.SERIAL)
        yield body

    def side_by_side(
        self, copies: Mapping[Load, Var], low: Size, high: Size, lanes: int
    ) -> Loop:
        """The sums of panels, or of so many rows that each of them begins with."""
        p, lane, n = Var("p"), Var("lane"), size(lanes)
        own = {x.var: fresh(x.var) for x in self.first}
        body: list[Stmt] = []
        begin: list[Stmt] = []
        for x in self.first:
            body.append(Allocate(Buffer(own[x.var], x.dtype, (n,), Role.TEMP)))
            begin.append(Store(own[x.var], (size(lane),), x.value))
        body.append(Loop(lane, ZERO, n, tuple(begin), Order.LANES))
        step = tuple(self.step(x, copies, own, p, lane) for x in self.sums.body)
        inner = Loop(lane, ZERO, n, step, Order.LANES)
        body.append(replace(self.sums, body=(inner,), order=Order.SERIAL, reductions=()))
        body += self.rest(own, p, lane, lanes)
        return Loop(p, low, high, tuple(body), Order.SERIAL)

    def one_by_one(self, short: Var) -> Iterator[Stmt]:
        start = Var("start")
        left = _choice(Local(short), Number(self.rows.high), Lit(0, DType.I64))
        yield Let(start, DType.I64, left)
        yield replace(self.rows, low=size(start))

    def rest(self, own: Mapping[Var, Var], p: Var, lane: Var, lanes: int) -> tuple[Stmt, ...]:
        """What becomes of the sums of a panel. Its last rows may be the last row again."""
        count, s = self.rows.high, self.rows
        first = size(p) * self.lanes
        rest: list[Stmt] = []
        for x in s.body:
            if x in self.first and isinstance(x, Variable):
                rest.append(replace(x, value=Load(own[x.var], (size(lane),))))
            elif x is not self.sums:
                rest.append(x)
        row = first + size(lane)
        search = _best_of(replace(s, body=tuple(rest)), lane, lanes, clamp(row, count))
        if search is not None:
            return search
        here: dict[Atom, Size] = {s.var: row}
        body = remade(rest, here.get)
        if s.order is not Order.FREE or s.reductions:
            high = clamp(count - first, size(lanes + 1))
            return (replace(s, var=lane, high=high, body=body),)
        inside = Apply("lt", (Number(row), Number(count)), DType.BOOL, DType.I64)
        return (Loop(lane, ZERO, size(lanes), (When(inside, body),), Order.LANES),)

    def step(
        self, x: Stmt, copies: Mapping[Load, Var], own: Mapping[Var, Var], p: Var, lane: Var
    ) -> Stmt:
        """A statement of the sum, for one of the rows."""
        row = clamp(size(p) * self.lanes + size(lane), self.rows.high)

        def copied(e: Load) -> Load:
            return Load(copies[e], (size(p), size(self.sums.var), size(lane)))

        def number(a: Atom) -> Size | None:
            if isinstance(a, Load):
                return atom(copied(a)) if a in copies else None
            if isinstance(a, Var) and a in own:
                return atom(Load(own[a], (size(lane),)))
            return row if a == self.rows.var else None

        def expr(e: Expr) -> Expr:
            match e:
                case Load() if e in copies:
                    return copied(e)
                case Local(var) if var in own:
                    return Load(own[var], (size(lane),))
                case Number(value):
                    return Number(substitute(value, number))
                case Apply(_, args):
                    return replace(e, args=tuple(map(expr, args)))
                case _:
                    return e

        match x:
            case Let(var, dtype, value):
                return Let(var, dtype, expr(value))
            case Assign(var, value):
                return Store(own[var], (size(lane),), expr(value))
            case _:
                raise AssertionError(x)


def _best_of(s: Loop, lane: Var, lanes: int, row: Size) -> tuple[Stmt, ...] | None:
    """A search for the first best, in the rows of a panel: the best of them, then where it is.

    for l in 0..16: better = v[l] < best; place := l if better else place; best := min(best, v[l])
    """
    match s.body:
        case (
            *values,
            Let(take, DType.BOOL),
            Assign(place, Apply("select", (Local(chosen), Number(), Local(same)))),
            Assign(best, Apply("min" | "max" as monoid, (Local(old), Local(value)), dtype)),
        ) if take == chosen and place == same and best == old and dtype.is_float:
            pass
        case _:
            return None
    if s.order is not Order.SERIAL or not all(isinstance(x, Let | Variable) for x in values):
        return None
    if not {place, best}.isdisjoint(v for x in values for e in expressions(x) for v in used(e)):
        return None
    top, first, at = Var("top"), Var("first"), Var("at")
    here: dict[Atom, Size] = {s.var: row}
    each = remade(values, here.get)

    def search(v: Var, name: str, dtype: DType, e: Expr) -> Loop:
        step = Assign(v, Apply(name, (Local(v), e), dtype, dtype))
        return Loop(lane, ZERO, size(lanes), (*each, step), Order.LANES,
                    (Reduction(v, name, dtype),))  # fmt: skip

    x = Local(value)
    hit = Apply("eq", (x, Local(top)), DType.BOOL, dtype)
    hit = Apply("or", (hit, Apply("isnan", (x,), DType.BOOL, dtype)), DType.BOOL, DType.BOOL)
    narrow = DType.I32 if dtype.bytes <= 4 else DType.I64  # as many lanes as there are numbers
    worst, last = Lit(unit(monoid, dtype), dtype), Lit(unit("min", narrow), narrow)
    number = _as(Number(size(lane)), DType.I64, narrow)
    there: dict[Hashable, Size] = {lane: size(at)}
    found: dict[Atom, Size] = {s.var: substitute(row, there.get)}
    return (
        Variable(top, dtype, worst),
        search(top, monoid, dtype, x),
        Variable(first, narrow, last),
        search(first, "min", narrow, Apply("select", (hit, number, last), narrow, narrow)),
        Let(at, DType.I64, _as(Local(first), narrow, DType.I64)),
        *remade(s.body[len(values) :], found.get, {value: top}),
    )


def _as(e: Expr, old: DType, new: DType) -> Expr:
    return e if old is new else Apply("cast", (e,), new, old)


def _choice(c: Expr, one: Expr, other: Expr) -> Expr:
    return Apply("select", (c, one, other), DType.I64, DType.I64)


def _at_least(a: Size, b: Size) -> Expr:
    return Apply("ge", (Number(a), Number(b)), DType.BOOL, DType.I64)


def _rows_in(around: Loop, buffers: Buffers) -> Iterator[_Rows]:
    """Loops over rows inside a loop that changes neither the rows nor how many they are."""
    inside = list(statements(around.body))
    summing = [x for x in inside if isinstance(x, Loop) and _sums_of(x) is not None]
    if not summing or (around.high - around.low).constant in range(_ROUNDS):
        return
    changed = {v for x in inside if (v := writes(x)) is not None} | {around.var}
    for x in inside:
        match x:
            case Loop(var):
                changed.add(var)
            case Let(var) | Variable(var) | Assign(var):
                changed.add(var)
            case Allocate(buffer):
                changed.add(buffer.var)
            case Print() | While() | Contract():
                return
            case _:
                pass
    for s in summing:
        rows = _rows(s, changed, buffers)
        if rows is not None:
            yield rows


def _sums_of(s: Loop) -> Loop | None:
    """The only loop in a loop over rows, if it sums."""
    loops = [x for x in s.body if isinstance(x, Loop)]
    if len(loops) != 1 or s.low != ZERO or s.order is Order.PARALLEL:
        return None
    (sums,) = loops
    summing = sums.order is Order.FREE and sums.reductions and sums.low == ZERO
    return sums if summing else None


def _rows(s: Loop, changed: set[Var], buffers: Buffers) -> _Rows | None:
    """The loop as one over short rows that are summed, if it is that; `changed` is what is not the
    same in all rounds of the loop around."""
    sums = _sums_of(s)
    if sums is None or any(v in changed for v in used_in(s.high)):
        return None
    least = 2 if sums.high.constant is None else sums.high.constant
    if not 1 < least <= _LONG or any(v in changed for v in used_in(sums.high)):
        return None
    if not all(isinstance(x, Let | Assign) for x in sums.body):
        return None
    shared = {r.var for r in sums.reductions}
    first = tuple(x for x in s.body if isinstance(x, Variable) and x.var in shared)
    plain = all(isinstance(x.value, Lit) for x in first)
    types = {x.dtype for x in first}
    if len(first) != len(shared) or not plain or len(types) != 1:
        return None
    (dtype,) = types
    bound = {x.var for x in s.body if isinstance(x, Let | Variable)} - shared
    tables: dict[Load, DType] = {}
    for x in sums.body:
        if not bound.isdisjoint(v for e in expressions(x) for v in used(e)):
            return None
        for e in loads(x):
            here = {v for i in e.at for v in used_in(i)}
            if any(isinstance(a, Load) for i in e.at for a in i.atoms):
                return None
            if s.var not in here:
                continue
            others = {v for v in here if v not in (s.var, sums.var)} | {e.buffer}
            if not _is_row(e, s.var, sums.var) or not others.isdisjoint(changed):
                return None
            tables[e] = buffers[e.buffer].dtype
    if not tables or dtype is DType.BOOL:
        return None
    return _Rows(s, sums, first, tables, min(_LANES, _LANE_BYTES // dtype.bytes))


def _is_row(e: Load, row: Var, along: Var) -> bool:
    """Whether elements are those of a row, one after the other, at a plain index of its own."""
    *others, last = e.at
    axes = [i for i in others if row in used_in(i)]
    return last == size(along) and axes == [size(row)]
