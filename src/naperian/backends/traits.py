"""What can be seen of statements before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from naperian.backends.code import Value
from naperian.backends.frame import Frame
from naperian.backends.functions import math
from naperian.backends.functions.elementary import FUNCTIONS, PAIRS
from naperian.backends.functions.powers import NAMES as POWER_NAMES
from naperian.dtypes import DType
from naperian.loops.edges import spelled
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Contract,
    Expr,
    Let,
    Load,
    Local,
    Loop,
    Order,
    Sort,
    Stmt,
    Store,
    Update,
    Variable,
    When,
    While,
)
from naperian.loops.walk import (
    atoms,
    expressions,
    index_expressions,
    loads,
    parts,
    statements,
    used,
    used_in,
)
from naperian.names import Lit, Var
from naperian.prims import PRIMITIVES
from naperian.sizes import ZERO, Clamp, Size, size

HEAVY = 15  # the cost of an operation that is a page of code
UNROLLED = 64  # a loop of so few iterations may stand inside an innermost one

# Lines of elementary functions in a vector loop, inlined. With more of them it calls them, many
# elements at a time, and LLVM takes half the time.
_MOST_IN_A_LOOP = 60

_NEST = 16  # statements that are worth a serial nest's being a function
_LANES = 8  # of a vector that are added up
_GROUPED = 8  # elements between accesses that LLVM makes one
_GATHERED = 32  # bits that a processor can gather

_MONOIDS = {"add", "mul", "min", "max", "and", "or"}


def accumulates(frame: Frame, v: Var, value: Expr) -> bool:
    """Whether an assignment is `v = v ⊕ …` of a declared reduction."""
    return (
        v in frame.reductions
        and isinstance(value, Apply)
        and value.name in ("add", "mul")
        and Local(v) in value.args
    )


def starts(s: Stmt) -> bool:
    """Whether the pool may work on a statement of a kernel."""
    match s:
        case Loop(order=Order.PARALLEL):
            return all(r.monoid in _MONOIDS for r in s.reductions)
        case Allocate(fill=fill, small=small):
            return fill is not None and not small
        case _:
            return isinstance(s, Contract | Sort)


def is_long(stmts: Sequence[Stmt]) -> bool:
    """Whether a kernel has much more to optimise than its serial nests: they had better be
    functions of their own, which cost a call."""
    between, serial = _outside(stmts)
    return between > _NEST * max(1, serial)


def _outside(stmts: Sequence[Stmt]) -> tuple[int, int]:
    """How many statements are in no loop, and how many nests the pool has no part in."""
    between = serial = 0
    for s in stmts:
        match s:
            case Loop() | While():
                serial += not any(starts(x) for x in statements((s,)))
            case When(_, then, otherwise):
                inner = [_outside(then), _outside(otherwise)]
                between += 1 + sum(n for n, _ in inner)
                serial += sum(n for _, n in inner)
            case _:
                between += 1
    return between, serial


def late(s: Loop) -> frozenset[Var]:
    """What a round of a loop in order waits for: variables that the round before assigned, arrays
    that it changed where they are read, and what is computed of them. A variable that is assigned
    what nobody waits for, as an element that is read one round before it is needed, is there."""
    inside = list(statements(s.body))
    if s.order is not Order.SERIAL or not all(
        isinstance(x, Let | Variable | Assign | Store | When) for x in inside
    ):
        return frozenset()
    stores = [x for x in inside if isinstance(x, Store)]
    changing = {s.var, *(x.var for x in inside if isinstance(x, Let | Variable))}
    found = {
        e.buffer for x in inside for e in loads(x) for y in stores
        if y.buffer == e.buffer and y.at != e.at  # which is not what it stores there
        and not _in_other_rows(e.at, y.at, changing)
    }  # fmt: skip
    assigned = {x.var for x in inside if isinstance(x, Assign)}
    sure = [x for x in s.body if isinstance(x, Assign)]  # under a condition it may stay what it was
    while True:
        waits = found | assigned
        for x in inside:
            if isinstance(x, Let) and not waits.isdisjoint(used(x.value)):
                waits.add(x.var)
        there = assigned - {
            x.var for x in inside
            if isinstance(x, Assign) and not (x in sure and waits.isdisjoint(used(x.value)))
        }  # fmt: skip
        if not there:
            return frozenset(waits)
        assigned -= there


def _in_other_rows(one: Sequence[Size], two: Sequence[Size], changing: set[Var]) -> bool:
    """Whether two elements are never the same, because on an axis that a loop does not go along
    they are a known distance apart."""
    for a, b in zip(one, two, strict=True):
        if (a - b).constant not in (None, 0) and changing.isdisjoint((*used_in(a), *used_in(b))):
            return True
    return False


def heavy(stmts: Sequence[Stmt]) -> bool:
    """Whether straight-line code holds an elementary function."""
    for s in stmts:
        match s:
            case Let(value=e) | Variable(value=e) | Assign(value=e) | Store(value=e):
                if _is_heavy(e):
                    return True
            case _:
                pass
    return False


def _is_heavy(e: Expr) -> bool:
    match e:
        case Apply(name, args, dtype):
            costly = name in PRIMITIVES and PRIMITIVES[name].cost >= HEAVY
            return (costly and dtype.is_float) or any(map(_is_heavy, args))
        case _:
            return False


def called(stmts: Sequence[Stmt]) -> frozenset[str]:
    """The elementary functions that a vector loop calls: all, if inlined they were many lines, but
    sine and cosine, which are half of each other, where LLVM may make the vectors (it would call
    both) or they are short, of single precision."""
    lines, names, short = 0, set(), False
    for x in (x for s in statements(tuple(stmts)) for e in expressions(s) for x in parts(e)):
        if isinstance(x, Apply) and x.operand.is_float and x.name in FUNCTIONS:
            name = _written_as(x)
            lines += math.lines(name, x.operand)
            names.add(name)
            short = short or x.operand is DType.F32
    if short or not _goes_along(stmts):
        for halves in PAIRS.values():
            if names.issuperset(halves):
                names.difference_update(halves)
    return frozenset(names) if lines > _MOST_IN_A_LOOP else frozenset()


def _written_as(x: Apply) -> str:
    """The function that an application calls."""
    match x:
        case Apply("pow", (_, Lit(exponent))):
            return POWER_NAMES.get(exponent, "pow")
        case _:
            return x.name


def _goes_along(stmts: Sequence[Stmt]) -> bool:
    """Whether a loop of these statements has nothing in it of which only LLVM makes vectors."""
    return all(isinstance(x, (Let, Variable, Assign, Store)) for x in stmts) and all(
        not isinstance(a, Load) for x in stmts for i in index_expressions(x) for a in atoms(i)
    )


def stores_zeros(stmts: Sequence[Stmt]) -> bool:
    """Whether statements store several zeros in one array."""
    zeros = [
        s.buffer for s in stmts
        if isinstance(s, Store) and isinstance(s.value, Lit) and s.value.value == 0
    ]  # fmt: skip
    return len(zeros) > len(set(zeros))


def is_ragged_sum(s: Loop) -> bool:
    """Whether a loop does nothing but reduce, as often as memory says."""
    if not s.reductions or not any(isinstance(a, Load) for a in atoms(s.high - s.low)):
        return False
    return all(isinstance(x, Let | Assign) for x in s.body)


def sums_a_row(s: Loop) -> bool:
    """Whether a loop does nothing but reduce one array's elements that lie side by side, by cheap
    operations: it waits for what it has summed, not for memory. How many there are is not known."""
    if not s.reductions or any(r.monoid not in ("add", "mul", "min", "max") for r in s.reductions):
        return False
    count = s.high - s.low
    if count.constant is not None or any(isinstance(a, Load) for a in atoms(count)):
        return False
    reads = {x for t in s.body for e in expressions(t) for x in parts(e) if isinstance(x, Load)}
    plain = all(isinstance(x, Let | Assign) for x in s.body)
    return plain and len(reads) == 1 and not heavy(s.body) and is_side_by_side(s)


def is_side_by_side(s: Loop) -> bool:
    """Whether what a reduction reads lies side by side in memory."""
    return all(
        s.var not in used_in(i - size(s.var) * i.coefficient(s.var))
        for x in s.body for top in expressions(x) for e in parts(top) if isinstance(e, Load)
        for i in e.at
    )  # fmt: skip


def adds_lanes(s: Loop) -> bool:
    """Whether a round does nothing but add up elements that lie side by side, which were the lanes
    of a loop before. As vectors, rounds would be turned against lanes, which takes LLVM long."""
    if len(s.body) != 1 or not isinstance(s.body[0], Update):
        return False
    read = [x for x in parts(s.body[0].value) if isinstance(x, Load)]
    side_by_side = [x.at[-1].constant for x in read] == list(range(len(read)))
    return len(read) >= _LANES and side_by_side and len({x.buffer for x in read}) == 1


def only_updates(stmts: Sequence[Stmt]) -> bool:
    """Whether statements only add rows to arrays, or the like."""
    return all(
        isinstance(s, Update) or (isinstance(s, Loop) and only_updates(s.body)) for s in stmts
    )


def streams(s: Loop) -> bool:
    """Whether a loop goes along an array: it ends when the array does."""
    places = [x.at for x in statements(s.body) if isinstance(x, Store | Update)]
    for x in statements(s.body):
        for e in expressions(x):
            places += [p.at for p in parts(e) if isinstance(p, Load)]
    return any(i.coefficient(s.var) for at in places for i in at)


def regroups(frame: Frame, s: Loop) -> bool:
    """Whether LLVM may gather accesses of a loop into groups that it must not: those to memory at
    a distance of a few elements from one iteration to the next become one access, moved to the
    first read or behind the last write of them. Of a loop that it is told is parallel it does not
    ask whether the same iteration reads there what it wrote."""
    inside = [*statements(s.body)]
    own = {t.buffer.var for t in inside if isinstance(t, Allocate)}
    written = [t for t in inside if isinstance(t, (Store, Update)) and t.buffer not in own]
    changed = {t.buffer for t in written}
    read = [x for t in inside for x in loads(t) if x.buffer in changed]
    both = {x.buffer for x in read} | {t.buffer for t in written if isinstance(t, Update)}
    return any(x.buffer in both and _few_apart(frame, s.var, x) for x in (*read, *written))


def _few_apart(frame: Frame, v: Var, x: Load | Store | Update) -> bool:
    """Whether what is touched moves by 2 to 8 elements with a variable."""
    step = _moves(frame, v, x.buffer, x.at)
    return step is not None and 2 <= abs(step) <= _GROUPED


def _moves(frame: Frame, v: Var, buffer: Var, at: tuple[Size, ...]) -> int | None:
    """By how many elements a place moves with a variable, if that is known."""
    total = ZERO
    for e, stride in zip(at, frame.place(buffer).strides, strict=True):
        total += stride * e.coefficient(v)
    return total.constant


def gathers_far(frame: Frame, s: Loop) -> bool:
    """Whether rounds do little with elements that lie so far apart that a vector of them is put
    together one by one, as the elements of small matrices: the operations are not worth that. Bytes
    that lie where other numbers say are taken out of a vector of addresses, too."""
    if not all(isinstance(x, (Let, Variable, Assign, Store)) for x in s.body) or heavy(s.body):
        return False
    each = [x for t in s.body for e in expressions(t) for x in parts(e)]
    touched = {(x.buffer, x.at) for x in (*each, *s.body) if isinstance(x, Load | Store)}
    moves = [_moves(frame, s.var, v, at) for v, at in touched if not frame.by_value(v)]
    far = sum(step is not None and abs(step) > _GROUPED for step in moves)
    named = {x.var for x in s.body if isinstance(x, Let)}
    bytes_ = sum(
        isinstance(x, Load) and frame.element_type(x.buffer).bits < _GATHERED
        and any(isinstance(a, Load) or a in named for e in x.at for a in atoms(e))
        for x in each
    )  # fmt: skip
    worth = 2 * far + (4 * bytes_ if bytes_ > 1 else 0)
    return worth > 0 and sum(isinstance(x, Apply) for x in each) <= worth


def is_short(stmts: Sequence[Stmt], whiles: bool = False) -> bool:
    """Whether the statements take a short time that does not depend on sizes. Not counted may be
    `whiles`, of which each round looks whether it is time to poll."""
    for s in stmts:
        match s:
            case Loop():
                if most_trips(s) > UNROLLED or not is_short(s.body, whiles):
                    return False
            case While(head, _, body):
                if not (whiles and is_short(head, whiles) and is_short(body, whiles)):
                    return False
            case Contract() | Sort():
                return False
            case Allocate(small=small) if not small:
                return False
            case When(_, then, otherwise):
                if not (is_short(then, whiles) and is_short(otherwise, whiles)):
                    return False
            case _:
                pass
    return True


def just_stored(s: Loop | While) -> frozenset[Var]:
    """The arrays of which a round stores elements by themselves. A vector that is read soon after,
    with such a one in it, waits until that is in memory; a number is handed on."""
    if isinstance(s, Loop) and s.order is not Order.SERIAL:
        return frozenset()
    return frozenset(x.buffer for x in s.body if isinstance(x, Store))


def usually(s: Loop, numbers: Mapping[Var, Size]) -> Size:
    """How many rounds a loop has away from edges: so many terms back, as far as there are."""
    rounds = spelled(s.high - s.low, numbers)
    a = rounds.single
    return a.extent - 1 if isinstance(a, Clamp) else rounds


def most_trips(s: Loop) -> float:
    """How many iterations at most, if that is a constant."""
    trips = s.high - s.low
    if trips.constant is not None:
        return trips.constant
    a = trips.single
    most = a.extent.constant if isinstance(a, Clamp) else None
    return float("inf") if most is None else most - 1


def trips(low: Value, high: Value) -> float:
    """How many iterations, if both bounds are written as numbers."""
    if low.lstrip("-").isdigit() and high.lstrip("-").isdigit():
        return int(high) - int(low)
    return float("inf")
