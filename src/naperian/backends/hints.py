"""What LLVM is told about a loop: whether it becomes vectors, and how many at a time."""

from __future__ import annotations

from naperian.backends.apart import apart, meets
from naperian.backends.frame import Frame
from naperian.backends.indexing import offset
from naperian.backends.traits import (
    UNROLLED,
    adds_lanes,
    gathers_far,
    heavy,
    is_ragged_sum,
    is_side_by_side,
    most_trips,
    only_updates,
    regroups,
    stores_zeros,
    sums_a_row,
)
from naperian.loops.syntax import (
    Apply,
    Assign,
    Expr,
    Fail,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Store,
    Update,
    Variable,
    When,
    While,
)
from naperian.loops.walk import (
    assigned,
    expressions,
    gathers,
    index_expressions,
    loads,
    parts,
    scatters,
    statements,
    used_in,
)
from naperian.names import Lit, Var
from naperian.sizes import Quotient, Remainder

# Lines of a loop's body; a longer one is not vectorised. The vectoriser's time grows with their
# square: half a second here, minutes for what a program writes that writes programs.
_MOST_VECTORISED = 3_000

# Lines of a round that LLVM reckons for vectors of every length, which takes half of its time. Of a
# longer one with much to compute whole vectors are best, and what is left over is no matter.
_WEIGHED = 400

# Lines of a round. One that waits for the one before, and is longer, is not worth writing out eight
# times: that took LLVM a sixth of its time for tridiagonal systems, and the run no less.
_SHORT = 30

# Bytes of a vector that is not stored under a mask: LLVM may make none of a loop that would have
# to, and aborts if it is told to have several at a time. So it may of one that divides integers.
_UNMASKED = 16

_FAR = 8  # elements: no two are in a line of the cache


def hints(frame: Frame, s: Loop, group: int | None, few: bool, lines: int) -> int:
    """What LLVM is told about a loop with so many lines, which with `few` rounds, or finished, is
    left as it is."""
    told = ['!"llvm.loop.mustprogress"']
    few = few or adds_lanes(s) or (s.order is Order.SERIAL and bool(s.reductions))
    if few or _has_lanes(s):
        # of few rounds, or of vectors enough already
        told.append('!"llvm.loop.unroll.disable"')
    elif lines <= _SHORT and _is_cut_off(s):
        # of some rounds after each other LLVM multiplies the factors, and cuts off the last alone
        told.append('!"llvm.loop.unroll.count", i32 8')
    elif lines <= _SHORT and _only_adds(s) and (group is None or scatters(s)):
        # LLVM does not know that what a round adds to, the next one seldom waits for
        told.append('!"llvm.loop.unroll.count", i32 4')
    elif group is None and lines > _SHORT and _is_inner(s):
        told.append('!"llvm.loop.unroll.runtime.disable"')
    left = _is_outer(frame, s) or _has_lanes(s) or _waits(frame, s) or _packs(frame, s)
    left = left or (_only_adds(s) and scatters(s)) or _tabulates(s) or gathers_far(frame, s)
    if few or left or lines > _MOST_VECTORISED:
        told.append('!"llvm.loop.vectorize.enable", i1 false')
    if group is not None:
        frame.zeros = frame.zeros or stores_zeros(s.body)
        told.append(f'!"llvm.loop.parallel_accesses", !{group}')
        if s.order is Order.LANES:
            # not unrolled before it is a vector
            told.append('!"llvm.loop.unroll.disable"')
            many = f'!"llvm.loop.interleave.count", i32 {_vectors(frame, s)}'
            if not _may_write(s):
                told.append(many)
            elif frame.module.target.vector_bytes != _UNMASKED and not _divides(s):
                # of elements that lie far apart LLVM would make none, and abort then, too
                told += [many, f'!"llvm.loop.vectorize.width", i32 {_lanes(frame, s)}']
        elif heavy(s.body):
            # one vector at a time: the processor overlaps iterations of long code by itself.
            # Not masked, though that would save the remainder's copy: masked accesses are slow
            told.append('!"llvm.loop.interleave.count", i32 1')
            told.append('!"llvm.loop.unroll.disable"')
            if lines > _WEIGHED and not _may_fail(s):
                told.append(f'!"llvm.loop.vectorize.width", i32 {_lanes(frame, s)}')
        elif is_ragged_sum(s) and (is_side_by_side(s) or frame.module.target.is_far):
            # its rows are short: a masked vector at a time, and no element by itself
            told.append('!"llvm.loop.interleave.count", i32 1')
            told.append('!"llvm.loop.vectorize.predicate.enable", i1 true')
        elif is_ragged_sum(s):
            # its rows are short, and what it reads is not worth masking: shorter vectors
            told.append('!"llvm.loop.interleave.count", i32 1')
            frame.narrow = True
        elif gathers(s) or only_updates(s.body):
            # it waits for memory: for the reads of one vector together, and others follow
            told.append('!"llvm.loop.interleave.count", i32 1')
        elif frame.depth and s.reductions and not _may_write(s):
            # rows may be short, and few are so long that two sums at a time would not be enough.
            # Not with stores under conditions: if LLVM makes no vectors of them, it would abort
            told.append('!"llvm.loop.interleave.count", i32 2')
    return frame.module.loop(*told)


def sums_at_a_time(frame: Frame, s: Loop) -> int:
    """How many vectors of sums a loop has; none if its rows are so short that each has a mask."""
    if is_ragged_sum(s):
        return 0
    if heavy(s.body):
        return 1
    return 2 if frame.depth and not sums_a_row(s) else 4


def _is_cut_off(s: Loop) -> bool:
    """Whether a round makes a whole number of that of the round before by sums and products, of
    which it keeps the last bits: a generator of random numbers, a hash."""
    if s.order is not Order.SERIAL or not all(isinstance(x, Let | Assign | Store) for x in s.body):
        return False
    made = {x.var: x.value for x in s.body if isinstance(x, Let)}

    def seen(e: Expr) -> Expr:
        while isinstance(e, Local) and e.var in made:
            e = made[e.var]
        return e

    def sums(e: Expr, v: Var) -> bool:
        """Whether an expression is made of a variable by sums and products."""
        e = seen(e)
        if isinstance(e, Apply) and e.name in ("add", "sub", "mul"):
            return any(sums(a, v) for a in e.args)
        return e == Local(v)

    for x in s.body:
        if isinstance(x, Assign):
            match seen(x.value):
                case Apply("mod" | "bitand" as name, (e, Lit(int(k))), dtype) if dtype.is_integer:
                    bits = k - 1 if name == "mod" else k
                    if bits > 0 and bits & bits + 1 == 0 and sums(e, x.var):
                        return True
                case _:
                    pass
    return False


def _only_adds(s: Loop) -> bool:
    """Whether a loop does nothing but add to elements that it finds by what it reads."""
    return any(isinstance(x, Update) for x in s.body) and all(
        isinstance(x, Let | Update) for x in s.body
    )


def _may_write(s: Loop) -> bool:
    """Whether some rounds of a loop write what others do not."""
    conditions = [x for x in statements(s.body) if isinstance(x, When)]
    return any(isinstance(x, Store | Update) for x in statements(conditions))


def _may_fail(s: Loop) -> bool:
    """Whether a round may be the last: LLVM makes no vectors of them, and says so on the terminal
    if it is told how long they are to be."""
    return any(isinstance(x, Fail) for x in statements(s.body))


def _divides(s: Loop) -> bool:
    """Whether a loop divides integers, which no vector does."""
    for x in statements(s.body):
        if any(isinstance(a, Quotient | Remainder) for e in index_expressions(x) for a in e.atoms):
            return True
        for top in expressions(x):
            for y in parts(top):
                if isinstance(y, Apply) and y.name in ("floordiv", "mod"):
                    return True
    return False


def _packs(frame: Frame, s: Loop) -> bool:
    """Whether a loop only copies elements that lie side by side to places far from each other:
    vectors of them would be taken apart again; or a vector's from clamped rows, which no vector
    reads."""
    match s.body:
        case (Store(to, at, Load(buffer, where)),) if not frame.by_value(buffer):
            here, there = (offset(frame, frame.place(v), e) for v, e in ((buffer, where), (to, at)))
            if s.order is Order.LANES and not here.coefficient(s.var):
                return s.var in used_in(here)
            return here.coefficient(s.var) == 1 and abs(there.coefficient(s.var)) >= _FAR
    return False


def _tabulates(s: Loop) -> bool:
    """Whether a loop, or those in it, only notes places for a contraction: a few numbers, once."""
    return s.order is Order.SERIAL and all(
        _tabulates(x) if isinstance(x, Loop)
        else isinstance(x, Store) and isinstance(x.value, Number)
        for x in s.body
    )  # fmt: skip


def _is_inner(s: Loop) -> bool:
    """Whether no loop is in it, or such as become vectors."""
    loops = [x for x in s.body if isinstance(x, Loop | While)]
    return all(isinstance(x, Loop) and (x.high - x.low).constant is not None for x in loops)


def _is_outer(frame: Frame, s: Loop) -> bool:
    """Whether there is a loop in it that stays one, or is vectors."""
    return any(
        isinstance(x, While)
        or (isinstance(x, Loop) and (most_trips(x) > UNROLLED or x.var in frame.vectors))
        for x in statements(s.body)
    )


def _waits(frame: Frame, s: Loop) -> bool:
    """Whether a round of a loop in order waits for the one before, by something else than a sum, or
    one in any order might do so for all that LLVM sees."""
    if s.reductions or most_trips(s) <= UNROLLED:
        return False
    if s.order is Order.SERIAL:
        return apart(frame, s) is False
    return regroups(frame, s) and meets(frame, s)


def stays(frame: Frame, s: Loop, free: bool) -> bool:
    """Whether a loop's rounds do not become vectors, as is seen before it is written: loops that
    stay are in it, or a round waits for the one before. A short loop's rounds may become vectors
    with those of the loop around."""
    inside = list(statements(s.body))
    if any(isinstance(x, While) or (isinstance(x, Loop) and most_trips(x) > UNROLLED)
           for x in inside):  # fmt: skip
        return True
    if free or not (frame.stays or not frame.depth or most_trips(s) > UNROLLED):
        return False
    own = {x.var for x in inside if isinstance(x, Variable)} | {r.var for r in s.reductions}
    return not assigned(s) <= own or apart(frame, s) is False


def _has_lanes(s: Loop) -> bool:
    """Whether a loop's body is made of vectors; a lane by itself is one of them."""
    return any(isinstance(x, Loop) and x.order is Order.LANES for x in s.body)


def _lanes(frame: Frame, s: Loop) -> int:
    """How many of the widest elements that a loop reads or writes are a vector."""
    each = list(statements(s.body))
    read = [x.buffer for y in each for x in loads(y)]
    stored = [x.buffer for x in each if isinstance(x, Store | Update)]
    widest = max((frame.element_type(v).bytes for v in (*read, *stored)), default=8)
    bytes = frame.module.target.vector_bytes
    return (min(32, bytes) if frame.narrow else bytes) // widest


def _vectors(frame: Frame, s: Loop) -> int:
    """How many vectors the lanes of a loop are."""
    stored = (x for x in statements(s.body) if isinstance(x, Store | Update))
    types = [frame.place(x.buffer).buffer.dtype for x in stored]
    bytes = max(t.bytes for t in (*types, *(r.dtype for r in s.reductions)))
    return max(1, (s.high.constant or 1) * bytes // frame.module.target.vector_bytes)
