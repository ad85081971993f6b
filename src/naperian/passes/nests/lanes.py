"""Independent rows go side by side, a vector of them at a time. loops → loops

    before   parallel for i in 0..k reducing add total:
                 var a = 0.0
                 for t in 0..n:
                     a := 1.0 / (b[i, t] - a)
                     store c[i, t] = a
                 total := total + a

    after    parallel for v in 0..k // 8 reducing add sums:
                 allocate a[8]
                 free for l in 0..8: store a[l] = 0.0
                 for t in 0..n:
                     free for l in 0..8:
                         store a[l] = 1.0 / (b[8 * v + l, t] - a[l])
                         store c[8 * v + l, t] = a[l]
                 free for l in 0..8: update sums[l] += a[l]        (see `lane_sums`)
             for i in 8 * (k // 8)..k: …                                            as before

Every lane does what its row did, in the same order; what does not depend on the row is done once.
That pays in five cases. A step of a recurrence waits for the one before it, and rows do not wait
for each other: if a step takes long, as a division does (a running sum is better read row by row).
A recurrence that goes across memory reads in every step what lies beside what the next row reads.
A triangle's deepest loops are of all lengths, which seldom fill a vector, while eight rows do.
And so do loops over a few components, that no loop along memory is around, and sums across tables
of such components.

LLVM makes vectors of the few lanes, with the rows' elements loaded one by one: on most processors
that is faster than a gather. Elements that a triangle reads again and again are packed first:

    for l in 0..8:
        for e in 0..d: store packed[e, l] = x[8 * v + l, e]

what a row adds up over rounds in order has a table of its own (`own_sums`), and what a round reads
of the one before it stays in registers (`handed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

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
    While,
)
from naperian.loops.walk import (
    atoms,
    blocks,
    expressions,
    has_loops,
    loads,
    mentions,
    parts,
    rebuild,
    rebuild_loops,
    remade,
    statements,
    used,
    used_in,
)
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.passes.nests.alike import (
    addend,
    are_alike,
    dear,
    deepest,
    depth_of_waits,
    is_across,
    is_few,
    is_narrow,
    is_recurrence,
    is_sliding,
    is_slow,
    is_steep,
    is_stepwise,
    is_uneven,
    levels,
    recurs,
    sent,
    square,
    sums_nothing,
    triangular,
    waits,
)
from naperian.passes.nests.handed import handed
from naperian.passes.nests.lane_sums import Sum, Sums, nest
from naperian.passes.nests.own_sums import own_sums
from naperian.passes.nests.paired import paired
from naperian.passes.nests.parted import joined, parted
from naperian.passes.nests.ragged import evened
from naperian.passes.nests.ragged_strips import evened_strips
from naperian.passes.nests.rounds import whole_rounds
from naperian.passes.nests.tabled import tabled
from naperian.passes.nests.until import is_open, until
from naperian.prims import unit
from naperian.sizes import ZERO, Atom, Size, atom, clamp, size, substitute

_VECTOR = 64  # bytes
_SHORT = 128  # components, which for all rows of a time stay in the cache
_VECTORS = 4  # of rows at a time: what one waits for, the other computes
_WAITING = 2  # of rows at a time whose steps wait for each other: more have no registers
_LOST = 6  # elements loaded one by one, in half the time that a long operation is waited for
_FEW = 12  # statements of rows that may be there once more, for a vector of them that is left

Buffers = Mapping[Var, Buffer]


def lanes(program: Program) -> Program:
    """See the module."""
    buffers = {b.var: b for b in program.buffers} | _made(program.body)
    return replace(program, body=_block(program.body, buffers, program.sizes))


def _block(body: tuple[Stmt, ...], buffers: Buffers, sizes: tuple[Var, ...]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Loop) and not has_loops(s):  # it is no row of anything
            out.append(s)
            continue
        rows = _rows(_counted(s), buffers, sizes) if isinstance(s, Loop) else None
        if rows is not None:
            out += rows.made()
        elif isinstance(s, Loop) and (parts := _parts(s, buffers, sizes)):
            out += _block(parts, buffers, sizes)
        else:
            out.append(rebuild_loops(s, lambda b: _block(b, buffers, sizes)))
    return tuple(out)


def _parts(s: Loop, buffers: Buffers, sizes: tuple[Var, ...]) -> tuple[Loop, ...]:
    """The loop in parts, if some of them go side by side; the others stay together."""
    out: list[Loop] = []
    alone = True  # whether what comes next begins a part
    found = False
    parts = parted(s)
    for p in parts if len(parts) > 1 else ():
        rows = _rows(_counted(p), buffers, sizes)
        found = found or rows is not None
        if rows is not None or alone:
            out.append(p)
        else:
            out[-1] = joined([out[-1], p])
        alone = rows is not None
    return tuple(out) if found else ()


def _counted(s: Loop) -> Loop:
    """The loop with its rounds counted from zero."""
    if s.low == ZERO:
        return s
    there: dict[Atom, Size] = {s.var: s.low + size(s.var)}
    return replace(s, low=ZERO, high=s.high - s.low, body=remade(s.body, there.get))


def _rows(s: Loop, buffers: Buffers, sizes: tuple[Var, ...]) -> _Rows | None:
    """The loop as rows, if they can go side by side and it pays, unless loops inside have rows with
    all its recurrences: those along memory are read and written as vectors."""
    rows = _some_rows(s, buffers, sizes)
    if rows is None or not recurs(s) or is_steep(s) or is_open(s):
        return rows
    return None if _are_inside(s.body, buffers, sizes) else rows


def _are_inside(body: tuple[Stmt, ...], buffers: Buffers, sizes: tuple[Var, ...]) -> bool:
    """Whether all recurrences with long steps are in loops whose rows lie beside each other, and
    may be more than a vector."""
    for x in body:
        if isinstance(x, Loop) and recurs(x) and _may_be_many(x):
            rows = _some_rows(_counted(x), buffers, sizes)
            if rows is not None and rows.beside:
                continue
        if isinstance(x, Loop) and is_recurrence(x):
            return False
        if not all(_are_inside(b, buffers, sizes) for b in blocks(x)):
            return False
    return True


def _may_be_many(s: Loop) -> bool:
    """Whether a loop may go further than a vector."""
    trips = (s.high - s.low).constant
    return trips is None or trips * DType.F64.bytes > _VECTOR


def _some_rows(s: Loop, buffers: Buffers, sizes: tuple[Var, ...]) -> _Rows | None:
    """The loop as rows, if they can go side by side and it pays, whatever is inside."""
    if s.order is Order.SERIAL:
        return None
    s, shared = evened(s)
    if not shared:
        s, shared = evened_strips(s)
    slow = is_slow(s) or is_steep(s) or is_open(s)
    few = is_narrow(s) or is_stepwise(s) or is_across(s)
    sure = slow or few or is_uneven(s)
    short = () if sure else dear(s) or square(s) or sent(s) or triangular(s)
    if not sure and not shared and recurs(s):  # by a table that others read, too
        kept = _taken(s, buffers, sizes, slow=True)
        if kept is not None and kept.beside:
            return kept
    if not sure and not short and not is_sliding(s):
        return None
    if not sure and sent(s):
        s = own_sums(s, buffers)
        return _taken(s, {**buffers, **_made(s.body)}, sizes, slow, short)
    if not sure:
        return _taken(s, buffers, sizes, slow, short)
    buffers = {**buffers, **_made(s.body)} if shared else buffers
    pair = paired(s, sizes)
    both = _taken(pair, buffers, sizes, slow, shared=shared) if pair != s else None
    rows = both or _taken(s, buffers, sizes, slow, shared=shared)
    if rows is None:
        return rows
    once = own_sums(tabled(rows.loop, buffers), buffers)
    if once == rows.loop:
        return rows
    return _taken(once, {**buffers, **_made(once.body)}, sizes, slow, shared=shared) or rows


def _made(body: tuple[Stmt, ...]) -> dict[Var, Buffer]:
    return {s.buffer.var: s.buffer for s in statements(body) if isinstance(s, Allocate)}


def _taken(
    s: Loop, buffers: Buffers, sizes: tuple[Var, ...], slow: bool,
    short: tuple[Size, ...] | None = None, shared: frozenset[Var] = frozenset(),
) -> _Rows | None:
    written = {x.buffer for x in statements(s.body) if isinstance(x, Store | Update)}
    varying = {s.var}
    if not are_alike(s, s.body, varying, written, shared):
        return None
    rows = _Rows(s, buffers, sizes, frozenset(varying), written, slow, short, shared)
    far, all_ = rows.far()
    none = not all_ and not any(isinstance(x, Allocate) for x in statements(s.body))
    near = 2 * far < all_ or none
    alone = slow and sums_nothing(s)
    if slow and not near and not alone:
        lost = rows.lost()
        if len(lost) <= _LOST * waits(s) and max(lost, default=0) <= depth_of_waits(s):
            near, rows.short = True, ()  # of few, all lanes would load and keep what they do not
    rows.beside = near if slow else far == 0
    return rows if rows.beside or alone else None


def _elements(x: Stmt) -> Iterator[tuple[Var, tuple[Size, ...]]]:
    """The elements that a statement reads and writes."""
    for y in loads(x):
        yield y.buffer, y.at
    if isinstance(x, Store | Update):
        yield x.buffer, x.at


def _names(run: Sequence[Stmt]) -> Iterator[Var]:
    """What statements give another value."""
    for x in statements(run):
        if isinstance(x, Let):
            yield x.var
        elif isinstance(x, Store | Update):
            yield x.buffer


# ---------------------------------------------------------------- the lanes


@dataclass
class _Rows:
    """A loop whose rounds go side by side. Names in `varying` have a value for each of them; of
    these, `own` get an array with an axis for the lane."""

    loop: Loop
    buffers: Buffers
    sizes: tuple[Var, ...]
    varying: frozenset[Var]
    written: set[Var]
    slow: bool
    short: tuple[Size, ...] | None  # it pays only for many rows, if so far is not far
    shared: frozenset[Var]  # variables that are the same in all rows (`ragged`)
    beside: bool = False  # whether most elements of rows that the deepest loops go along are
    full: bool = False  # whether all lanes have a row
    lane: Var = field(default_factory=lambda: Var("lane"))
    own: set[Var] = field(default_factory=set)
    packed: dict[tuple[Var, int], Var] = field(default_factory=dict)
    top: dict[Var, Stmt] = field(default_factory=dict)
    masked: list[tuple[Var, DType, Expr]] = field(default_factory=list)
    current: dict[Expr, Var] = field(default_factory=dict)  # what these are, while it is so
    addends: dict[Stmt, Var] = field(default_factory=dict)

    def far(self) -> tuple[int, int]:
        """Of the elements that the deepest loops go along, how many are not one for all rows, one
        of the row's own, beside that of the next row, or packed; and how many are the row's."""
        self.find_packed()
        rows = far = 0
        for x in deepest(self.loop.body):
            for buffer, at in _elements(x):
                rows += buffer not in self.varying and bool(self.axes(at))
                far += not self.near(buffer, at)
        return far, rows

    def lost(self) -> list[int]:
        """In how many loops each element stands that is not near and in an innermost loop that may
        be a vector of one row. Where a row goes in order, each of its elements is loaded by itself
        anyway."""
        return [
            depth
            for depth, x in levels(self.loop.body)
            if x.order is not Order.SERIAL
            and not any(isinstance(y, Loop) for y in statements(x.body))
            for y in statements(x.body) for e in _elements(y) if not self.near(*e)
        ]  # fmt: skip

    def near(self, buffer: Var, at: tuple[Size, ...]) -> bool:
        axes = self.axes(at)
        beside = axes == [len(at) - 1] and at[-1].coefficient(self.loop.var) == 1
        own = buffer in self.varying or not axes
        return own or beside or tuple(axes) == self.axis(buffer, at)

    def axes(self, at: tuple[Size, ...]) -> list[int]:
        return [k for k, e in enumerate(at) if not self.varying.isdisjoint(used_in(e))]

    def axis(self, buffer: Var, at: tuple[Size, ...]) -> tuple[int, ...]:
        """The axis of the rows, in a tuple, if the elements there are packed."""
        return next(((k,) for k in range(len(at)) if (buffer, k) in self.packed
                     and at[k] == size(self.loop.var)), ())  # fmt: skip

    def find_packed(self) -> None:
        """Packed is what is read at the row and plain indices of inner loops, in one more loop; of
        a few components, each by itself."""
        self.look(self.loop.body, frozenset())

    def look(self, body: tuple[Stmt, ...], inside: frozenset[Var]) -> None:
        for x in body:
            for e in (p for top in expressions(x) for p in parts(top)):
                if isinstance(e, Load) and e.buffer not in self.written | self.varying:
                    self.look_at(e, inside)
            for b in blocks(x):
                self.look(b, inside | {x.var} if isinstance(x, Loop) else inside)

    def look_at(self, e: Load, inside: frozenset[Var]) -> None:
        axes = [k for k, i in enumerate(e.at) if i == size(self.loop.var)]
        extents = self.buffers[e.buffer].shape
        others = [
            i.single for k, i in enumerate(e.at)
            if k not in axes and not (i.constant is not None and is_few(extents[k]))
        ]
        if len(axes) == 1 and len(others) < len(inside):
            if all(isinstance(v, Var) and v in inside for v in others):
                self.packed.setdefault((e.buffer, axes[0]), Var(e.buffer.name))

    def made(self) -> list[Stmt]:
        """The loops over rows that go side by side."""
        return self.side_by_side() if self.short is None else self.where_many(self.short)

    def where_many(self, short: tuple[Size, ...]) -> list[Stmt]:
        """Of windows that do not fill the lanes there may be few long ones, as in the derivative
        of a convolution by its kernel: if both sizes are unknown, nobody knows which is large. What
        is sent to other rows pays from half as many on."""
        made = self.side_by_side()
        fewest = self.many // 2 if sent(self.loop) else self.many
        tests = [(self.loop.high, size(fewest)), *((size(_SHORT), n) for n in short)]
        holds: Expr | None = None
        for n, least in tests:
            more = (n - least).constant
            if more is not None and more < 0:
                return [self.loop]
            if more is None:
                test = Apply("ge", (Number(n), Number(least)), DType.BOOL, DType.I64)
                both = () if holds is None else (holds, test)
                holds = Apply("and", both, DType.BOOL, DType.BOOL) if both else test
        return made if holds is None else [When(holds, tuple(made), (self.loop,))]

    def side_by_side(self) -> list[Stmt]:
        s = self.loop
        types = [x.dtype for x in statements(s.body) if isinstance(x, Variable | Let)]
        types += [x.buffer.dtype for x in statements(s.body) if isinstance(x, Allocate)]
        types += [r.dtype for r in s.reductions]
        counts = is_open(s) and any(t.is_float for t in types)  # of rounds, in longer vectors
        types = [t for t in types if t.is_float] if counts else types
        self.width = _VECTOR // max((t.bytes for t in types), default=8)
        self.many = self.width * self.vectors()
        self.hand_on()
        s = self.loop
        row = fresh(s.var)
        self.first = s.low + size(row) * self.many
        self.full = self.beside and self.short is not None and not sent(s) and self.may_repeat()
        lets: tuple[Stmt, ...] = ()
        if self.full:
            begin = clamp(self.first, s.high - (self.many - 1))
            lets = (Let(first := Var("first"), DType.I64, Number(begin)),)
            self.first = size(first)
        apart = {x.buffer for x in statements(s.body) if isinstance(x, Update) and self.axes(x.at)}
        self.sums = Sums(s, self.buffers, self.sizes, self.width, self.lane, apart)
        self.own = {x.buffer.var for x in statements(s.body) if isinstance(x, Allocate)}
        self.own |= {x.var for x in statements(s.body) if isinstance(x, Variable)} - self.shared
        self.opened = {x.var for x in statements(s.body) if isinstance(x, Loop | Let)} | self.shared
        self.find_wide(s.body)
        body = self.block(s.body)
        lets += tuple(self.pack(key, v) for key, v in self.packed.items())
        if self.beside:  # the last lanes may be beyond
            count = (s.high - s.low + (self.many - 1)) // self.many
        else:
            count = whole_rounds(s, self.many, self.sizes)
        work = s.work * (self.many // self.width)
        rows = self.sums.around(row, count, tuple(self.top.values()), (*lets, *body), work)
        return rows if self.beside else [*rows, *self.left(s.low + count * self.many)]

    @property
    def may_lack(self) -> bool:
        """Whether the last lanes may have no row."""
        return self.beside and not self.full

    def may_repeat(self) -> bool:
        """Whether rows may be gone through twice: the last vector of them then begins where it is
        full. Rows only store, and what a row reads of that it has stored before."""
        inside = list(statements(self.loop.body))
        others = self.written - {x.buffer.var for x in inside if isinstance(x, Allocate)}
        if self.loop.reductions or any(isinstance(x, While) for x in inside):
            return False
        if any(isinstance(x, Update) and x.buffer in others for x in inside):
            return False
        read: set[Var] = set()
        for x in self.loop.body:
            here = statements((x,))
            read |= others.intersection(y.buffer for z in here for y in loads(z))
            if any(isinstance(z, Store) and z.buffer in read for z in here):
                return False
        return True

    def hand_on(self) -> None:
        """What a round reads of the one before it is handed on, as in one row (`handed`)."""
        kept = {**self.buffers, **_made(self.loop.body)}
        own = handed(self.loop.body, {v: b.dtype for v, b in kept.items()})
        s, varying = replace(self.loop, body=own), {self.loop.var}
        if are_alike(s, own, varying, self.written, self.shared):
            self.loop, self.varying = s, frozenset(varying)

    def left(self, low: Size) -> list[Stmt]:
        """The rows from there on: a vector of those that wait, if there is one, and one by one."""
        tail = replace(self.loop, low=low)
        if not self.slow or self.many == self.width:
            return [replace(tail, order=Order.SERIAL, reductions=())]
        known = (self.varying, self.written, True, self.short, self.shared)
        again = _Rows(tail, self.buffers, self.sizes, *known)
        again.find_packed()
        return again.side_by_side()

    def vectors(self) -> int:
        """How many vectors of rows go at a time: of a known number of rows, not so many that
        there is nothing for other threads. A vector of rows that end by themselves ends with the
        last of them."""
        rows = self.loop.high.constant
        if self.slow:
            few = rows is not None and rows <= self.width
            alone = is_open(self.loop) or self.loop.low != ZERO
            small = self.beside or len(statements(self.loop.body)) <= _FEW
            return _WAITING if small and not few and not alone else 1
        return _VECTORS if rows is None else max(1, min(_VECTORS, rows // (4 * self.width)))

    # what lives longer than a vector statement

    def find_wide(self, body: tuple[Stmt, ...]) -> None:
        """Bindings that are read outside the run of statements that goes through the lanes."""
        last: dict[Var, int] = {}
        for k, x in enumerate(body):
            last |= dict.fromkeys(mentions(x), k)
        run: list[Var] = []
        stored = False
        for k, x in enumerate(body):
            if isinstance(x, Loop | When | While) or (stored and self.reads_on(x)):
                self.own |= {v for v in run if last.get(v, -1) >= k}
                run, stored = [], False
                for b in () if isinstance(x, While) else blocks(x):
                    self.find_wide(b)
            if isinstance(x, Let) and x.var in self.varying:
                run.append(x.var)
            if isinstance(x, Update) and x.buffer in self.sums.added:  # behind the run
                self.own |= {v for e in x.at for v in used_in(e)}.intersection(run)
            stored = stored or self.writes_on(x)

    def writes_on(self, x: Stmt) -> bool:
        """Whether a statement changes an array that is not its row's own."""
        return isinstance(x, Store | Update) and x.buffer not in self.varying

    def reads_on(self, x: Stmt) -> bool:
        """Whether a statement reads an array that is changed, which the run does first."""
        return any(y.buffer in self.written - self.varying for y in loads(x))

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """What is not a loop and not the same in all rows goes through all lanes."""
        out: list[Stmt] = []
        rows: list[Stmt] = []
        ends: list[Stmt] = []
        late = self.late(body)
        sums: list[Sum] = []
        stored = False

        def close() -> None:
            nonlocal stored
            stored = False
            order = Order.LANES if self.beside else Order.FREE
            if rows:
                inner = (*self.loaded(), *rows)
                out.append(Loop(self.lane, ZERO, size(self.many), inner, order))
            if ends:
                out.append(Loop(self.lane, ZERO, size(self.many), tuple(ends), order))
            if sums:
                out.extend(self.sums.all_lanes(sums, order))
            rows.clear()
            ends.clear()
            sums.clear()

        for x in body:
            match x:
                case Allocate(buffer) if self.opened.isdisjoint(
                    v for n in buffer.shape for v in used_in(n)
                ):
                    self.allocate(buffer)
                case Allocate(buffer):  # its size is known only here
                    out.append(self.wide(buffer))
                case Let(var) | Variable(var) if var not in self.varying:
                    out.append(x)
                case Loop():
                    close()
                    inner = self.block(x.body)
                    out.append(replace(x, body=inner, order=Order.SERIAL, reductions=()))
                case When():
                    close()
                    out.append(rebuild(x, self.block))
                case While():
                    close()
                    out.append(self.until(x))
                case Assign(var) | Update(var) if var in self.sums.added:
                    if stored and self.reads_on(x):
                        close()
                    rows += self.after_loads(rows, partial(self.addend, x))
                    sums += self.added(x)
                case _:
                    if stored and self.reads_on(x):
                        close()
                    if isinstance(x, Store) and x.buffer in late:
                        kept = Buffer(Var("x"), self.buffers[x.buffer].dtype, (), Role.TEMP)
                        self.allocate(kept)
                        self.own.add(kept.var)
                        ends.append(self.stmt(replace(x, value=Local(kept.var))))
                        x = Assign(kept.var, x.value)
                    stored = stored or bool(ends) or self.writes_on(x)
                    rows += self.after_loads(rows, partial(self.stmt, x))
        close()
        return tuple(out)

    def late(self, body: tuple[Stmt, ...]) -> set[Var]:
        """The arrays that lanes which have a row store to behind the others, in one loop for the
        lanes: what is made of elements that all lanes read. LLVM would load these for each of them,
        under the condition."""
        if not self.may_lack:
            return set()
        names = {y.var for y in body if isinstance(y, Let | Variable)}
        writes = [x for x in body if isinstance(x, Store | Update) and self.writes_on(x)]
        shared = {
            x.buffer for x in writes for e in loads(replace(x, at=()))
            if e.buffer not in self.varying and not self.axes(e.at)
        }  # fmt: skip
        return shared - {
            x.buffer for x in writes
            if isinstance(x, Update) or not names.isdisjoint(v for e in x.at for v in used_in(e))
        }

    def until(self, x: While) -> Stmt:
        def stmts(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
            made: list[Stmt] = []
            for y in body:
                made += self.after_loads(made, partial(self.stmt, y))
            return (*self.loaded(), *made)

        order = Order.LANES if self.beside else Order.FREE
        here = self.inside(size(self.lane)) if self.beside else None
        types = {y.var: y.dtype for y in statements(self.loop.body) if isinstance(y, Variable)}
        alone = tuple(y for y in x.body if isinstance(y, Assign) and y.var in self.shared)
        x = replace(x, body=tuple(y for y in x.body if y not in alone))
        made = until(x, self.lane, size(self.many), order, here, stmts, types)
        return replace(made, body=(*made.body, *alone))

    def allocate(self, b: Buffer) -> None:
        self.top[b.var] = self.wide(b)

    def wide(self, b: Buffer) -> Allocate:
        return Allocate(replace(b, shape=(*b.shape, size(self.many))))

    def stmt(self, x: Stmt) -> Stmt:
        here = size(self.lane)
        match x:
            case Let(var, dtype, value) | Variable(var, dtype, value) if var in self.own:
                self.allocate(Buffer(var, dtype, (), Role.TEMP))
                return Store(var, (here,), self.expr(value, here))
            case Let(var, dtype, value):
                return Let(var, dtype, self.expr(value, here))
            case Assign(var, value):
                return Store(var, (here,), self.expr(value, here))
            case Store(buffer, at, value):
                there = self.element(buffer, at, here)
                return self.guarded(Store(*there, self.expr(value, here)), at)
            case Update(buffer, at, monoid, value):
                there = self.element(buffer, at, here)
                return self.guarded(Update(*there, monoid, self.expr(value, here)), at)
            case _:
                raise AssertionError(x)

    def reduction(self, x: Stmt) -> Reduction:
        var = x.var if isinstance(x, Assign) else x.buffer if isinstance(x, Update) else None
        return next(r for r in self.loop.reductions if r.var == var)

    def addend(self, x: Assign | Update) -> Stmt:
        """What every lane adds to a sum over all rows."""
        r, here = self.reduction(x), size(self.lane)
        value = addend(x, r.monoid) if isinstance(x, Assign) else x.value
        assert value is not None
        kept = Buffer(Var("addend"), r.dtype, (), Role.TEMP)
        self.allocate(kept)
        self.addends[x] = kept.var
        return Store(kept.var, (here,), self.expr(value, here))

    def added(self, x: Assign | Update) -> Iterator[Sum]:
        """A sum over all rows, one vector of them for several of rows: those of each vector are
        added where there is a row, so that a product is added as one operation with its mask. So
        is the first, to zeros: a product by itself may be subnormal, and takes longer. Where rows
        add to places of their own, each vector does."""
        r, here = self.reduction(x), size(self.lane)
        apart = isinstance(x, Update) and bool(self.axes(x.at))
        lets: list[Let] = []
        total: Expr = Lit(unit(r.monoid, r.dtype), r.dtype)
        start = total
        for k in range(0, self.many, self.width):
            new: Expr = Load(self.addends[x], (here + k,))
            new = Apply(r.monoid, (total, new), r.dtype, r.dtype)
            choice = Apply("select", (self.inside(here + k), new, total), r.dtype, r.dtype)
            lets.append(Let(Var("sum"), r.dtype, choice))
            total = Local(lets[-1].var)
            if apart or k + self.width == self.many:
                there = here + k if apart else here
                places = () if isinstance(x, Assign) else x.at
                if apart and self.beside:  # nothing is added there, but it must be a place
                    places = tuple(map(self.of_a_row, places))
                at = tuple(self.index(i, there) for i in places)
                yield Sum(r, at, tuple(lets), total)
                lets, total = [], start

    def inside(self, here: Size) -> Expr:
        """Whether the lane has a row."""
        row = Number(self.first + here)
        return Apply("lt", (row, Number(self.loop.high)), DType.BOOL, DType.I64)

    def guarded(self, s: Store | Update, at: tuple[Size, ...]) -> Stmt:
        """What a lane writes that may have no row, and so no such place."""
        own = s.buffer in self.own and not self.axes(at)
        return When(self.inside(size(self.lane)), (s,)) if self.may_lack and not own else s

    def loaded(self) -> Iterator[Stmt]:
        """The elements of arrays that the lanes of a run load: those that have a row."""
        found, self.masked = self.masked, []
        self.current.clear()
        return self.where_there_is_a_row(found)

    def where_there_is_a_row(self, found: list[tuple[Var, DType, Expr]]) -> Iterator[Stmt]:
        for var, dtype, _ in found:
            yield Variable(var, dtype, Lit(unit("add", dtype), dtype))
        if found:
            yield When(self.inside(size(self.lane)), tuple(Assign(v, e) for v, _, e in found))

    def after_loads(self, run: Sequence[Stmt], make: Callable[[], Stmt]) -> list[Stmt]:
        """A statement of a run, after the elements whose places are named or changed in the run
        before it: these cannot be loaded in front of the run."""
        known, names = len(self.masked), set(_names(run))
        new = make()
        late = [m for m in self.masked[known:] if not names.isdisjoint(used(m[2]))]
        self.masked = [m for m in self.masked if m not in late]
        changed = set(_names((new,)))
        for e in [e for e in self.current if not changed.isdisjoint(used(e))]:
            del self.current[e]
        return [*self.where_there_is_a_row(late), new]

    def element(
        self, buffer: Var, at: tuple[Size, ...], here: Size
    ) -> tuple[Var, tuple[Size, ...]]:
        where = tuple(self.index(i, here) for i in at)
        return buffer, (*where, here) if buffer in self.own else where

    def there(self, buffer: Var, at: tuple[Size, ...]) -> tuple[Size, ...]:
        """A place in a table of the row's own that every lane has: without a row the last one's."""
        shape = self.buffers[buffer].shape
        return tuple(clamp(self.of_a_row(e), n) if k in self.axes(at) else e
                     for k, (e, n) in enumerate(zip(at, shape, strict=True)))  # fmt: skip

    def of_a_row(self, i: Size) -> Size:
        """An index that the lanes without a row have from the last one."""
        def last(a: Atom) -> Size | None:
            if isinstance(a, Load):
                return atom(Load(a.buffer, tuple(substitute(e, last) for e in a.at)))
            here = size(self.loop.var)
            return clamp(here, self.loop.high) if a == self.loop.var else None

        return substitute(i, last)

    def index(self, i: Size, here: Size) -> Size:
        def replaced(a: Atom) -> Size | None:
            if isinstance(a, Load):
                return atom(Load(*self.element(a.buffer, a.at, here)))
            if isinstance(a, Var) and a in self.own:
                return atom(Load(a, (here,)))
            return self.first + here if a == self.loop.var else None

        return substitute(i, replaced)

    def expr(self, e: Expr, here: Size) -> Expr:
        match e:
            case Load(buffer, at):
                for k in self.axis(buffer, at):
                    others = (self.index(i, here) for n, i in enumerate(at) if n != k)
                    return Load(self.packed[buffer, k], (*others, here))
                masked = self.may_lack and bool(self.axes(at))
                if masked and buffer in self.own:
                    return Load(*self.element(buffer, self.there(buffer, at), here))
                element = Load(*self.element(buffer, at, here))
                same = buffer in self.varying or not masked
                dtype = self.buffers[buffer].dtype
                return element if same else self.where_rows(element, dtype)
            case Local(var) if var in self.own:
                return Load(var, (here,))
            case Number(value):
                new = Number(self.index(value, here))
                given = any(isinstance(a, Load) and a.buffer not in self.varying and self.axes(a.at)
                            for a in atoms(value))  # fmt: skip
                return self.where_rows(new, DType.I64) if given and self.may_lack else new
            case Apply(_, args):
                return replace(e, args=tuple(self.expr(a, here) for a in args))
            case _:
                return e

    def where_rows(self, e: Expr, dtype: DType) -> Local:
        if e not in self.current:
            self.current[e] = Var("x")
            self.masked.append((self.current[e], dtype, e))
        return Local(self.current[e])

    # packing

    def pack(self, key: tuple[Var, int], packed: Var) -> Stmt:
        buffer, k = self.buffers[key[0]], key[1]
        rest = (*buffer.shape[:k], *buffer.shape[k + 1 :])
        shape = (*rest, size(self.many))
        names = [Var("e") for _ in rest]
        where = tuple(map(size, names))
        here = size(self.lane)
        self.top[packed] = Allocate(Buffer(packed, buffer.dtype, shape, Role.TEMP))
        value = Load(buffer.var, (*where[:k], clamp(self.first + here, self.loop.high), *where[k:]))
        store = Store(packed, (*where, here), value)
        return nest((self.lane, *names), (size(self.many), *rest), (store,))
