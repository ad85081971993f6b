"""What rows that go side by side add up: a vector of sums, whose lanes are added up in the end.

    before   parallel for v in 0..count reducing add sums, add total:       (`lanes`)
                 …
                 for l in 0..8: update sums[e, l] += …

    after    strips = an even number, at most 32; each = max(4, ⌈count / strips⌉)
             parallel for s in 0..⌈count / each⌉ reducing add out, add total:
                 allocate sums[n, 8] = 0.0
                 for v in each s..min(each s + each, count):
                     …
                     for l in 0..8: update sums[e, l] += …
                 for e in 0..n:
                     update out[e] += sums[e, 0] + … + sums[e, 7]

A strip of rows has vectors of sums of its own, which stay in the cache, and leaves the copies that
threads have of the array eight times as small. It is so long that adding up the lanes is little.

Of a table of all rounds of a loop around, of which these rows add to one round, the strip has sums
of that round alone.

Of a large array, as the derivatives by a matrix for each component of a mixture, vectors would not
stay in the cache: eight times its memory would be read and written for every 32 rows. Its lanes are
added up at once, four of them together (`abreast`):

                     var sum = -0.0
                     for l in 0..8 reducing add sum: sum := sum + …
                     update out[e] += sum
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial, reduce

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
    Reduction,
    Role,
    Stmt,
    Store,
    Update,
    Variable,
)
from naperian.loops.walk import statements, used_in, whole
from naperian.names import Lit, Var, fresh
from naperian.node import node
from naperian.prims import unit
from naperian.sizes import ONE, ZERO, Atom, Quotient, Size, clamp, size

_FEWEST = 4  # vectors of rows in a strip
_STRIPS = 32  # at most: enough for the threads
_WORTH = 160  # additions for every element that is cleared and added up,
_FAR = 3  # and so many times more where that is in no cache
_LARGE = 3  # unknown extents: a matrix for each of some things
_CACHE = 1 << 19  # bytes, half of a second cache

Buffers = Mapping[Var, Buffer]


@node
class Sum:
    """What a statement adds to a reduction, at a place if that is an array: a value of each lane,
    with bindings before it."""

    reduction: Reduction
    at: tuple[Size, ...]
    lets: tuple[Let, ...]
    value: Expr


class Sums:
    """The sums of a loop over all rows, `added`. `of` gives the array of each that has lanes: of
    the numbers, the arrays `apart`, whose places depend on the row, and small ones."""

    def __init__(
        self,
        loop: Loop,
        buffers: Buffers,
        sizes: tuple[Var, ...],
        width: int,
        lane: Var,
        apart: set[Var],
    ) -> None:
        self.loop = loop
        self.buffers = buffers
        self.sizes = sizes
        self.width = width
        self.lane = lane
        self.added = {r.var for r in loop.reductions}
        self.fixed = {r.var: _fixed(loop, r.var) for r in loop.reductions if r.var in buffers}
        self.wide = [
            r for r in loop.reductions
            if r.var not in buffers or r.var in apart or not self.is_large(r)
        ]  # fmt: skip
        self.of = {r.var: fresh(r.var) for r in self.wide}

    def is_large(self, r: Reduction) -> bool:
        """Whether vectors of the sums of an array would probably not stay in the cache."""
        count = _product(self.shape(r))
        if count.constant is None:
            return _degree(count) >= _LARGE
        return count.constant * self.width * r.dtype.bytes > _CACHE

    def around(
        self, row: Var, count: Size, top: tuple[Stmt, ...], body: tuple[Stmt, ...], work: Size
    ) -> list[Stmt]:
        """The loop over `count` vectors of rows, whose memory `top` allocates."""
        s = self.loop
        if s.order is not Order.PARALLEL or not s.reductions:
            order = Order.SERIAL if s.reductions else s.order
            rows = Loop(row, ZERO, count, (*top, *body), order, (), work)
            return [*self.made(), rows, *self.folded()]
        strip = Var("strip")
        some, length = self.length(count, work)
        each = length.var
        low = size(strip) * each
        high = low + clamp(count - low, size(each) + 1)
        rows = Loop(row, low, high, body, Order.SERIAL, (), work)
        inner = (*self.made(), *top, rows, *self.folded())
        strips = (count + each - 1) // size(each)
        return [
            some, length,
            Loop(strip, ZERO, strips, inner, Order.PARALLEL, s.reductions, work * each),
        ]

    def all_lanes(self, sums: Sequence[Sum], order: Order) -> Iterator[Stmt]:
        """What one run of statements adds, in all lanes."""
        body: list[Stmt] = []
        added: list[tuple[Reduction, Update]] = []
        for s in sums:
            body += s.lets
            r = s.reduction
            if r.var in self.of:
                where = (*self.own(r, s.at), size(self.lane))
                body.append(Update(self.of[r.var], where, r.monoid, s.value))
                continue
            number = Reduction(Var("sum"), r.monoid, r.dtype)
            body.append(Assign(number.var, _both(number, Local(number.var), s.value)))
            added.append((number, Update(r.var, s.at, r.monoid, Local(number.var))))
        numbers = tuple(r for r, _ in added)
        yield from (Variable(r.var, r.dtype, _nothing(r)) for r in numbers)
        yield Loop(self.lane, ZERO, size(self.width), tuple(body), order, numbers)
        yield from (u for _, u in added)

    def length(self, count: Size, work: Size) -> tuple[Let, Let]:
        """How many vectors of rows are a strip, given what one takes: so many that it is worth it,
        and strips are even in number, for two threads."""
        elements = sum((_product(made.shape) for made in self.arrays()), ZERO)
        others = (r for r in self.loop.reductions if r.var not in self.of)
        elements = sum((_product(self.shape(r)) * _FAR for r in others), elements)
        known = Size(tuple((m, c) for m, c in work.terms if self.sizes_only(Size(((m, c),)))))
        one = _larger(Number(known), size(1))
        worth = whole("floordiv", Number(elements * _WORTH), one)
        least = _larger(worth, size(_FEWEST))
        half = whole("floordiv", Number(count), whole("mul", least, Number(size(2))))
        pairs = _larger(whole("min", half, Number(size(_STRIPS // 2))), size(1))
        strips = Var("strips")
        each = whole("floordiv", Number(count + size(strips) - 1), Number(size(strips)))
        return (
            Let(strips, DType.I64, whole("mul", pairs, Number(size(2)))),
            Let(Var("each"), DType.I64, _larger(each, size(_FEWEST))),
        )

    def sizes_only(self, s: Size) -> bool:
        return set(self.sizes).issuperset(used_in(s))

    def arrays(self) -> list[Buffer]:
        """Those of the sums."""
        return [
            Buffer(self.of[r.var], r.dtype, (*self.shape(r), size(self.width)), Role.TEMP)
            for r in self.wide
        ]

    def shape(self, r: Reduction) -> tuple[Size, ...]:
        """The axes of an array along which rows add to more than one place."""
        return self.own(r, self.buffers[r.var].shape) if r.var in self.buffers else ()

    def own(self, r: Reduction, axes: tuple[Size, ...]) -> tuple[Size, ...]:
        fixed = self.fixed.get(r.var, {})
        return tuple(e for k, e in enumerate(axes) if k not in fixed) if fixed else axes

    def whole(self, r: Reduction, where: tuple[Size, ...]) -> tuple[Size, ...]:
        """A place in an array, by its axes that the sums have."""
        rest, fixed = iter(where), self.fixed.get(r.var, {})
        axes = len(where) + len(fixed)
        return tuple(fixed[k] if k in fixed else next(rest) for k in range(axes))

    def made(self) -> Iterator[Stmt]:
        """The arrays. Without a loop for those of one number: a kernel that only calls its parts
        compiles fast."""
        for r, made in zip(self.wide, self.arrays(), strict=True):
            nothing = Lit(unit(r.monoid, r.dtype), r.dtype)
            if r.var in self.buffers:
                yield Allocate(made, nothing)
            else:
                yield Allocate(made)
                yield from (Store(made.var, (size(k),), nothing) for k in range(self.width))

    def folded(self) -> Iterator[Stmt]:
        """What the lanes have summed is added: arrays with the same first axis in one loop."""
        together: dict[Size, tuple[Var, list[Stmt]]] = {}
        for r in self.wide:
            shape = self.shape(r)
            names = [Var("e") for _ in shape]
            if shape:
                names[0], body = together.setdefault(shape[0], (names[0], []))
            where = tuple(map(size, names))
            there = self.whole(r, where)
            each: list[Expr] = [Load(self.of[r.var], (*where, size(k))) for k in range(self.width)]
            total = reduce(partial(_both, r), each)
            if r.var not in self.buffers:
                yield Assign(r.var, _both(r, Local(r.var), total))
            elif not shape:
                yield Update(r.var, there, r.monoid, total)
            else:
                add = Update(r.var, there, r.monoid, total)
                body.append(nest(names[1:], shape[1:], (add,)))
        for n, (e, body) in together.items():
            yield Loop(e, ZERO, n, tuple(body), Order.SERIAL)


def _fixed(s: Loop, array: Var) -> dict[int, Size]:
    """The axes of an array along which all that a loop adds to it goes to one place, that is known
    in front of the loop; with the place."""
    inside = list(statements((s,)))
    at = [x.at for x in inside if isinstance(x, Update) and x.buffer == array]
    bound = {x.var for x in inside if isinstance(x, Loop | Let | Variable | Assign)}
    bound |= {x.buffer for x in inside if isinstance(x, Store | Update)}
    first = at[0] if at else ()
    return {
        k: e for k, e in enumerate(first)
        if bound.isdisjoint(used_in(e)) and all(other[k] == e for other in at)
    }  # fmt: skip


def _nothing(r: Reduction) -> Lit:
    """What changes nothing. Of floats that are added, not even the sign of a zero: then LLVM leaves
    the addition out."""
    floats = r.monoid == "add" and r.dtype.is_float
    return Lit(-0.0 if floats else unit(r.monoid, r.dtype), r.dtype)


def _both(r: Reduction, a: Expr, b: Expr) -> Expr:
    return Apply(r.monoid, (a, b), r.dtype, r.dtype)


def _larger(a: Expr, b: Size) -> Expr:
    return whole("max", a, Number(b))


def _product(shape: tuple[Size, ...]) -> Size:
    """How many elements there are."""
    return reduce(lambda a, b: a * b, shape, ONE)


def _degree(s: Size) -> int:
    """How many unknown extents are multiplied."""
    def of(a: Atom) -> int:
        return _degree(a.above) - _degree(a.below) if isinstance(a, Quotient) else 1

    return max((sum(map(of, m)) for m, _ in s.terms), default=0)


def nest(names: Sequence[Var], extents: Sequence[Size], body: tuple[Stmt, ...]) -> Stmt:
    """Loops around statements, in order."""
    for v, n in reversed(list(zip(names, extents, strict=True))):
        body = (Loop(v, ZERO, n, body, Order.SERIAL),)
    (only,) = body
    return only
