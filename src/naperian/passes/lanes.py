"""Independent rows go side by side, a vector of them at a time. loops → loops

    before   parallel for i in 0..k reducing add total:
                 var a = 0.0
                 for t in 0..n:
                     a := 1.0 / (b[i, t] - a)
                     store c[i, t] = a
                 total := total + a

    after    allocate sums[8] = 0.0
             parallel for v in 0..k // 8 reducing add sums:
                 allocate a[8]
                 free for l in 0..8: store a[l] = 0.0
                 for t in 0..n:
                     free for l in 0..8:
                         store a[l] = 1.0 / (b[8 * v + l, t] - a[l])
                         store c[8 * v + l, t] = a[l]
                 free for l in 0..8: update sums[l] += a[l]
             total := total + sums[0] + … + sums[7]
             for i in 8 * (k // 8)..k: …                                            as before

Every lane does what its row did, in the same order; what does not depend on the row is done once.
That pays in two cases. A step of a recurrence waits for the one before it, and rows do not wait for
each other: if a step takes long, as a division does (a running sum is better read row by row). And
a triangle's inner loops are of all lengths, which seldom fill a vector, while eight rows always do.

LLVM makes vectors of the few lanes, with the rows' elements loaded one by one: on most processors
that is faster than a gather. Elements that a triangle reads again and again are packed first:

    free for e in 0..d:
        free for l in 0..8: store packed[e, l] = x[8 * v + l, e]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

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
    Update,
    Variable,
    When,
)
from naperian.loops.walk import (
    blocks,
    expressions,
    index_expressions,
    loads,
    mentions,
    parts,
    reads,
    rebuild,
    statements,
    used,
    used_in,
)
from naperian.names import Lit, Var, fresh
from naperian.prims import PRIMITIVES, unit
from naperian.sizes import ZERO, Atom, Size, atom, size, substitute

_VECTOR = 64  # bytes
_LONG = 4  # what an operation costs that a recurrence waits for long
_MONOIDS = ("add", "mul", "min", "max")

Buffers = Mapping[Var, Buffer]


def lanes(program: Program) -> Program:
    """See the module."""
    buffers = {b.var: b for b in program.buffers}
    buffers |= {
        s.buffer.var: s.buffer for s in statements(program.body) if isinstance(s, Allocate)
    }
    return replace(program, body=_block(program.body, buffers))


def _block(body: tuple[Stmt, ...], buffers: Buffers) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        rows = _rows(s, buffers) if isinstance(s, Loop) else None
        if rows is not None:
            out += rows.side_by_side()
        else:
            out.append(rebuild(s, lambda b: _block(b, buffers)))
    return tuple(out)


# ---------------------------------------------------------------- which loops


def _rows(s: Loop, buffers: Buffers) -> _Rows | None:
    """The loop as rows, if they can go side by side and it pays."""
    if s.order is Order.SERIAL or s.low != ZERO:
        return None
    slow, uneven = _slow(s), _uneven(s)
    if not (slow or uneven):
        return None
    written = {x.buffer for x in statements(s.body) if isinstance(x, Store | Update)}
    varying = {s.var}
    if not _alike(s, s.body, varying, written):
        return None
    rows = _Rows(s, buffers, frozenset(varying), written)
    return rows if slow or rows.packs() else None


def _slow(s: Loop) -> bool:
    """Whether a row is a recurrence with long steps, and keeps to itself what it carries."""
    inside = list(statements(s.body))
    return any(isinstance(x, Variable | Allocate) for x in inside) and any(
        isinstance(x, Loop) and x.order is Order.SERIAL and _long(x) for x in inside
    )


def _long(s: Loop) -> bool:
    """Whether a step of a recurrence takes long."""
    if any(isinstance(x, Loop) for x in s.body):
        return False
    tops = (e for x in s.body for e in expressions(x))
    return any(
        isinstance(e, Apply) and e.operand.is_float and e.name in PRIMITIVES
        and PRIMITIVES[e.name].cost >= _LONG
        for top in tops for e in parts(top)
    )  # fmt: skip


def _uneven(s: Loop) -> bool:
    """Whether an innermost loop of a row is as long as a loop around it says."""
    loops = [x for x in statements(s.body) if isinstance(x, Loop)]
    inner = {x.var for x in loops}
    return any(
        not any(isinstance(y, Loop) for y in statements(x.body))
        and not inner.isdisjoint((*used_in(x.low), *used_in(x.high)))
        for x in loops
    )


def _alike(s: Loop, body: tuple[Stmt, ...], varying: set[Var], written: set[Var]) -> bool:
    """Whether all rows do the same steps; adds to `varying` what is not the same in all rows."""
    sums = {r.var: r.monoid for r in s.reductions}
    if not set(sums.values()) <= set(_MONOIDS):
        return False
    for x in body:
        match x:
            case Loop():
                bounds = {*used_in(x.low), *used_in(x.high)}
                if x.order is Order.PARALLEL or not bounds.isdisjoint(varying):
                    return False
            case When():
                if not varying.isdisjoint(used(x.condition)):
                    return False
            case Let():
                here = reads(x)
                if not here.isdisjoint(varying) or not here.isdisjoint(written):
                    varying.add(x.var)
            case Variable():
                varying.add(x.var)
            case Assign(v):
                if v in sums and _addend(x, sums[v]) is None:
                    return False
            case Allocate(buffer, fill):
                if buffer.role is not Role.TEMP or fill is not None or x.planes:
                    return False
                varying.add(buffer.var)
            case Store() | Update():
                pass
            case _:
                return False
        if any(v in sums and not _adds(x, v) for v in reads(x)):
            return False
        if not all(_alike(s, b, varying, written) for b in blocks(x)):
            return False
    return True


def _adds(x: Stmt, v: Var) -> bool:
    return isinstance(x, Assign) and x.var == v


def _addend(x: Assign, monoid: str) -> Expr | None:
    """What a statement adds to a variable, if it does nothing else."""
    match x.value:
        case Apply(name, (Local(v), e)) if v == x.var and name == monoid and v not in used(e):
            return e
        case _:
            return None


# ---------------------------------------------------------------- the lanes


@dataclass
class _Rows:
    """A loop whose rounds go side by side. Names in `varying` have a value for each of them; of
    these, `own` get an array with an axis for the lane."""

    loop: Loop
    buffers: Buffers
    varying: frozenset[Var]
    written: set[Var]
    lane: Var = field(default_factory=lambda: Var("lane"))
    own: set[Var] = field(default_factory=set)
    packed: dict[tuple[Var, int], Var] = field(default_factory=dict)
    sums: dict[Var, Var] = field(default_factory=dict)
    top: dict[Var, Stmt] = field(default_factory=dict)

    def packs(self) -> bool:
        """Whether every element that an innermost loop goes along is one for all rows, one of the
        row's own, beside that of the next row, or packed."""
        self.find_packed()
        for x in statements(self.loop.body):
            if not isinstance(x, Loop) or any(isinstance(y, Loop) for y in statements(x.body)):
                continue
            for y in statements(x.body):
                places = [(z.buffer, z.at) for z in loads(y)]
                if isinstance(y, Store | Update):
                    places.append((y.buffer, y.at))
                if not all(self.near(b, at) for b, at in places):
                    return False
        return True

    def near(self, buffer: Var, at: tuple[Size, ...]) -> bool:
        if buffer in self.varying:
            return True
        axes = [k for k, e in enumerate(at) if not self.varying.isdisjoint(used_in(e))]
        beside = axes == [len(at) - 1] and at[-1].coefficient(self.loop.var) == 1
        return not axes or beside or (axes[0], *axes[1:]) == self.axis(buffer, at)

    def axis(self, buffer: Var, at: tuple[Size, ...]) -> tuple[int, ...]:
        """The axis of the rows, in a tuple, if the elements there are packed."""
        return next(((k,) for k in range(len(at)) if (buffer, k) in self.packed
                     and at[k] == size(self.loop.var)), ())  # fmt: skip

    def find_packed(self) -> None:
        """Packed is what is read at the row and plain indices of inner loops, in one more loop."""
        def look(body: tuple[Stmt, ...], inside: frozenset[Var]) -> None:
            for x in body:
                for e in (p for top in expressions(x) for p in parts(top)):
                    if isinstance(e, Load) and e.buffer not in self.written | self.varying:
                        self.look_at(e, inside)
                for b in blocks(x):
                    look(b, inside | {x.var} if isinstance(x, Loop) else inside)

        look(self.loop.body, frozenset())

    def look_at(self, e: Load, inside: frozenset[Var]) -> None:
        axes = [k for k, i in enumerate(e.at) if i == size(self.loop.var)]
        others = [i.single for k, i in enumerate(e.at) if k not in axes]
        if len(axes) == 1 and axes[0] < len(e.at) - 1 and len(others) < len(inside):
            if all(isinstance(v, Var) and v in inside for v in others):
                self.packed.setdefault((e.buffer, axes[0]), Var(e.buffer.name))

    def side_by_side(self) -> list[Stmt]:
        s = self.loop
        types = [x.dtype for x in statements(s.body) if isinstance(x, Variable | Let)]
        types += [x.buffer.dtype for x in statements(s.body) if isinstance(x, Allocate)]
        width = _VECTOR // max(t.bytes for t in types)
        row = fresh(s.var)
        self.row, self.width = size(row) * width + self.lane, width
        self.sums = {r.var: fresh(r.var) for r in s.reductions}
        self.own = {x.buffer.var for x in statements(s.body) if isinstance(x, Allocate)}
        self.own |= {x.var for x in statements(s.body) if isinstance(x, Variable)}
        self.find_wide(s.body)
        body = self.block(s.body)
        first = tuple(y for key, v in self.packed.items() for y in self.pack(key, v))
        many = s.high // width
        parallel = s.order is Order.PARALLEL
        new = tuple(Reduction(self.sums[r.var], r.monoid, r.dtype) for r in s.reductions)
        order = Order.SERIAL if new and not parallel else s.order
        vectors = Loop(row, ZERO, many, (*self.top.values(), *first, *body), order,
                       new if parallel else (), s.work * width)  # fmt: skip
        tail = replace(s, low=many * width, order=Order.SERIAL, reductions=())
        before = [self.lane_sums(r) for r in s.reductions]
        after = [self.folded(r, parallel) for r in s.reductions]
        return [*before, vectors, *after, tail]

    # what lives longer than a vector statement

    def find_wide(self, body: tuple[Stmt, ...]) -> None:
        """Bindings that are read outside the run of statements that goes through the lanes."""
        last: dict[Var, int] = {}
        for k, x in enumerate(body):
            last |= dict.fromkeys(mentions(x), k)
        run: list[Var] = []
        for k, x in enumerate(body):
            if isinstance(x, Loop | When):
                self.own |= {v for v in run if last.get(v, -1) >= k}
                run = []
                for b in blocks(x):
                    self.find_wide(b)
            elif isinstance(x, Let) and x.var in self.varying:
                run.append(x.var)

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """What is not a loop and not the same in all rows goes through all lanes."""
        out: list[Stmt] = []
        together: list[Stmt] = []

        def close() -> None:
            if together:
                lane = Loop(self.lane, ZERO, size(self.width), tuple(together), Order.LANES)
                out.append(lane)
                together.clear()

        for x in body:
            match x:
                case Allocate(buffer):
                    self.allocate(buffer)
                case Let(var) if var not in self.varying:
                    out.append(x)
                case Loop():
                    close()
                    inner = self.block(x.body)
                    out.append(replace(x, body=inner, order=Order.SERIAL, reductions=()))
                case When():
                    close()
                    out.append(rebuild(x, self.block))
                case _:
                    together.append(self.stmt(x))
        close()
        return tuple(out)

    def allocate(self, b: Buffer) -> None:
        self.top[b.var] = Allocate(replace(b, shape=(*b.shape, size(self.width))))

    def stmt(self, x: Stmt) -> Stmt:
        match x:
            case Let(var, dtype, value) | Variable(var, dtype, value) if var in self.own:
                self.allocate(Buffer(var, dtype, (), Role.TEMP))
                return Store(var, (size(self.lane),), self.expr(value))
            case Let(var, dtype, value):
                return Let(var, dtype, self.expr(value))
            case Assign(var) if var in self.sums:
                monoid = next(r.monoid for r in self.loop.reductions if r.var == var)
                addend = _addend(x, monoid)
                assert addend is not None
                return Update(self.sums[var], (size(self.lane),), monoid, self.expr(addend))
            case Assign(var, value):
                return Store(var, (size(self.lane),), self.expr(value))
            case Store(buffer, at, value):
                return Store(*self.element(buffer, at), self.expr(value))
            case Update(buffer, at, monoid, value):
                return Update(*self.element(buffer, at), monoid, self.expr(value))
            case _:
                raise AssertionError(x)

    def element(self, buffer: Var, at: tuple[Size, ...]) -> tuple[Var, tuple[Size, ...]]:
        where = tuple(self.index(i) for i in at)
        if buffer in self.own or buffer in self.sums:
            return self.sums.get(buffer, buffer), (*where, size(self.lane))
        return buffer, where

    def index(self, i: Size) -> Size:
        def replaced(a: Atom) -> Size | None:
            if isinstance(a, Load):
                return atom(Load(*self.element(a.buffer, a.at)))
            if isinstance(a, Var) and a in self.own:
                return atom(Load(a, (size(self.lane),)))
            return self.row if a == self.loop.var else None

        return substitute(i, replaced)

    def expr(self, e: Expr) -> Expr:
        match e:
            case Load(buffer, at):
                for k in self.axis(buffer, at):
                    others = (self.index(i) for n, i in enumerate(at) if n != k)
                    return Load(self.packed[buffer, k], (*others, size(self.lane)))
                return Load(*self.element(buffer, at))
            case Local(var) if var in self.own:
                return Load(var, (size(self.lane),))
            case Number(value):
                return Number(self.index(value))
            case Apply(_, args):
                return replace(e, args=tuple(map(self.expr, args)))
            case _:
                return e

    # packing, and sums over rows

    def pack(self, key: tuple[Var, int], packed: Var) -> Iterator[Stmt]:
        buffer, k = self.buffers[key[0]], key[1]
        rest = (*buffer.shape[:k], *buffer.shape[k + 1 :])
        shape = (*rest, size(self.width))
        names = [Var("e") for _ in rest]
        where = tuple(map(size, names))
        yield Allocate(Buffer(packed, buffer.dtype, shape, Role.TEMP))
        value = Load(buffer.var, (*where[:k], self.row, *where[k:]))
        store = Store(packed, (*where, size(self.lane)), value)
        body: Stmt = Loop(self.lane, ZERO, size(self.width), (store,), Order.FREE)
        yield _nest(names, rest, (body,), Order.SERIAL)

    def lane_sums(self, r: Reduction) -> Stmt:
        shape = self.buffers[r.var].shape if r.var in self.buffers else ()
        made = Buffer(self.sums[r.var], r.dtype, (*shape, size(self.width)), Role.TEMP)
        return Allocate(made, Lit(unit(r.monoid, r.dtype), r.dtype))

    def folded(self, r: Reduction, parallel: bool) -> Stmt:
        """What the lanes have summed is added, in their order."""
        array = r.var in self.buffers
        shape = self.buffers[r.var].shape if array else ()
        names = [Var("e") for _ in shape]
        where = tuple(map(size, names))
        each: list[Expr] = [
            Load(self.sums[r.var], (*where, size(k))) for k in range(self.width)
        ]
        total = reduce(lambda a, b: Apply(r.monoid, (a, b), r.dtype, r.dtype), each)
        if not array:
            value = Apply(r.monoid, (Local(r.var), total), r.dtype, r.dtype)
            return Assign(r.var, value)
        body = (Update(r.var, where, r.monoid, total),)
        return _nest(names, shape, body, Order.PARALLEL if parallel else Order.FREE)


def _nest(
    names: Sequence[Var], extents: Sequence[Size], body: tuple[Stmt, ...], order: Order
) -> Stmt:
    """Loops around statements: the outermost in this order, those inside free."""
    inner = Order.SERIAL if order is Order.SERIAL else Order.FREE
    for k, (v, n) in reversed(list(enumerate(zip(names, extents, strict=True)))):
        body = (Loop(v, ZERO, n, body, order if k == 0 else inner),)
    (only,) = body
    return only
