"""Loops of rows that do the same, and those of them that pay when they go side by side (`lanes`):

slow     a row is a recurrence with long steps, which the next row does not wait for
steep    a row is a recurrence that goes across memory, where the next row's elements lie beside,
         or that reads of its own only what does not change, beside the next row's
uneven   its deepest loops are of all lengths, as a triangle's are
narrow   its inner loops are over a few components
stepwise it goes through rounds in order, which compute a few components and copy the others
across   its sums go across tables of its own, whose few components are written out
sliding  it sums a window of an array, and the next row the window beside it
open     a `while` loop goes on in each as long as it takes (`until`)
square   its loops are as long as one another, and nobody knows how short
sending  its rounds add components to what other rows add to, and nobody knows how short they are
triangular some inner loops are of all lengths, and nobody knows how short the deepest are
dear     rounds in order compute functions in inner loops, of which nobody knows how short they are
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from naperian.loops.syntax import (
    WINDOW,
    Allocate,
    Apply,
    Assign,
    Expr,
    Let,
    Local,
    Loop,
    Order,
    Role,
    Stmt,
    Store,
    Update,
    Variable,
    When,
    While,
)
from naperian.loops.walk import (
    assigned,
    blocks,
    expressions,
    loads,
    parts,
    reads,
    statements,
    used,
    used_in,
)
from naperian.names import Lit, Var
from naperian.node import kept, replace
from naperian.passes.nests.until import goes_alone
from naperian.prims import FUNCTION, PRIMITIVES
from naperian.sizes import ZERO, Clamp, Size

_LONG = 4  # what an operation costs that a recurrence waits for long
_DEEP = 3  # operations of a step in a row, as many additions, which waits for memory, too
_CHAIN = 2  # such operations, where memory has been read
_FEW = 4  # components, which do not fill a vector
_NESTED = 2  # loops
_SMALL = 80  # statements that may be there twice
_MONOIDS = ("add", "mul", "min", "max")


def is_slow(s: Loop) -> bool:
    """Whether a row is a recurrence with long steps, or one that needs none of the row's elements,
    and keeps to itself what it carries."""
    inside = tuple(statements(s.body))
    if not any(isinstance(x, Variable | Allocate) for x in inside):
        return False
    shared = {r.var for r in s.reductions}
    loops = [_alone(x, shared) for x in inside if isinstance(x, Loop)]
    return any(is_recurrence(x) or _goes_by_itself(s, x) for x in loops)


def _alone(x: Loop, shared: set[Var]) -> Loop:
    """A loop without what it sends to arrays that all rows add to."""
    sent = [y for y in x.body if isinstance(y, Update) and y.buffer in shared]
    return replace(x, body=tuple(y for y in x.body if y not in sent)) if sent else x


def recurs(s: Loop) -> bool:
    """Whether there is a recurrence with long steps in a row."""
    return any(isinstance(x, Loop) and is_recurrence(x) for x in statements(s.body))


def _goes_by_itself(s: Loop, x: Loop) -> bool:
    """Whether a loop in order in a row takes some steps, by tables of them all that the row makes
    and by what all rows have in common."""
    if x.order is not Order.SERIAL or not all(isinstance(y, Let | Assign | Store) for y in x.body):
        return False
    own = {
        y.buffer.var for y in statements(s.body)
        if isinstance(y, Allocate) and any(n.constant is None for n in y.buffer.shape)
    }  # fmt: skip
    places = [(e.buffer, e.at) for y in x.body for e in loads(y)]
    places += [(y.buffer, y.at) for y in x.body if isinstance(y, Store)]
    apart = [at for b, at in places if b not in own]
    if len(apart) == len(places) or any(s.var in used_in(e) for at in apart for e in at):
        return False
    return _waits(replace(x, body=tuple(y for y in x.body if not isinstance(y, Store))), _CHAIN)


def is_recurrence(s: Loop) -> bool:
    """Whether a loop goes in order, by long steps."""
    return s.order is Order.SERIAL and _long(s)


def _long(s: Loop) -> bool:
    """Whether a step of a recurrence takes long."""
    if any(isinstance(x, Loop) for x in s.body):
        return False
    return _waits(s, _DEEP if any(map(loads, s.body)) else 1) or _long_operations(s) > 0


def _waits(s: Loop, deep: int) -> bool:
    """Whether a step that stores nothing is so many operations, each of which waits for the one
    before."""
    if not all(isinstance(x, Let | Assign) for x in s.body):
        return False
    depth = {x.var: 0 for x in s.body if isinstance(x, Assign)}

    def below(e: Expr) -> int:
        if isinstance(e, Local):
            return depth.get(e.var, -1)
        if not isinstance(e, Apply):
            return -1
        most = max(map(below, e.args), default=-1)
        return most + 1 if most >= 0 and e.operand.is_float else most

    steps = [0]
    for x in s.body:
        if isinstance(x, Let):
            depth[x.var] = below(x.value)
        elif isinstance(x, Assign):
            steps.append(below(x.value))
    return max(steps) >= deep


def is_steep(s: Loop) -> bool:
    """Whether a row is a recurrence most of whose elements lie beside the next row's, of those that
    change from round to round, if there are such."""
    inside = list(statements(s.body))
    if not any(isinstance(x, Variable | Allocate) or _hands_on(s, x) for x in inside):
        return False
    beside = apart = same = 0
    for x in inside:
        if isinstance(x, Loop) and x.order is Order.SERIAL and not _depths(x.body):
            for at in (at for y in statements(x.body) for at in _places(y)):
                if any(s.var in used_in(e) for e in at):
                    across = any(x.var in used_in(e) for e in at[:-1])
                    still = not any(x.var in used_in(e) for e in at)  # it is read once, in front
                    near = still or (
                        at[-1].coefficient(s.var) == 1 and x.var not in used_in(at[-1])
                    )
                    same += near and not across
                    beside, apart = beside + (across and near), apart + (not near)
    return beside > apart or same > apart == 0


def _hands_on(s: Loop, x: Stmt) -> bool:
    """Whether a loop in order in a row stores to elements of the row in an array that it reads."""
    if not isinstance(x, Loop) or x.order is not Order.SERIAL:
        return False
    inside = list(statements(x.body))
    to = {
        y.buffer for y in inside
        if isinstance(y, Store) and any(s.var in used_in(e) for e in y.at)
    }  # fmt: skip
    return any(e.buffer in to for y in inside for e in loads(y))


def _places(x: Stmt) -> Iterator[tuple[Size, ...]]:
    """The indices of the elements that a statement reads and writes."""
    yield from (y.at for y in loads(x))
    if isinstance(x, Store | Update):
        yield x.at


def sums_nothing(s: Loop) -> bool:
    """Whether rows are recurrences alone, which pays even if their elements are far apart."""
    inside = list(statements(s.body))
    sums = [x for x in (s, *inside) if isinstance(x, Loop) and x.reductions]
    return not sums and not any(isinstance(x, Update | When) for x in inside)


def is_uneven(s: Loop) -> bool:
    """Whether the deepest loops of a row are as long as loops around them say: one that always goes
    as far is a vector by itself. Strips are equal."""
    most = _depths(s.body)
    uneven = [u for depth, n, u in _innermost(s) if depth == most and not is_few(n)]
    return bool(uneven) and all(uneven)


def triangular(s: Loop) -> tuple[Size, ...]:
    """How far the deepest loops of a row go that always go as far, where others are as long as
    loops around them say, if that is known in front of the rows: of few components, and in few
    statements, the next row's are a vector."""
    loops = _innermost(s)
    most = _depths(s.body)
    out = [n for depth, n, uneven in loops if depth == most and not uneven and not is_few(n)]
    inside = {x.var for x in statements(s.body) if isinstance(x, (Loop, Let, Variable))}
    known = all(n.plain and inside.isdisjoint((*used_in(n), s.var)) for n in out)
    some = known and any(uneven for _, _, uneven in loops)
    return tuple(dict.fromkeys(out)) if some and len(statements(s.body)) <= _SMALL else ()


def is_few(n: Size) -> bool:
    return n.constant is not None and n.constant <= _FEW


def _innermost(s: Loop) -> list[tuple[int, Size, bool]]:
    """Of each loop of a row with none inside: in how many loops it stands, how far it goes, and
    whether one around it says that. Strips are equal."""
    inner: set[Var] = set()  # loop variables, and what depends on them
    out: list[tuple[int, Size, bool]] = []
    for depth, x in _with_depths(s.body):
        match x:
            case Loop(var, low, high, body):
                if not any(isinstance(y, Loop) for y in statements(body)):
                    n = high - low
                    strip = isinstance(n.single, Clamp) and n.single.extent.constant is not None
                    depends = not inner.isdisjoint((*used_in(low), *used_in(high)))
                    out.append((depth, n, depends and not strip))
                inner.add(var)
            case Let(var) if not inner.isdisjoint(reads(x)):
                inner.add(var)
            case _:
                pass
    return out


def is_narrow(s: Loop) -> bool:
    """Whether the deepest loops of a row are over a few components, and the loop around them does
    not go along memory, or in order: written out, they do not make it one of vectors."""
    around: Loop | None = None
    few = False
    body: tuple[Stmt, ...] = s.body
    while inner := [x for x in body if isinstance(x, Loop) and _depth(x) == _depths(body)]:
        trips = [(x.high - x.low).constant for x in inner]
        few = all(n is not None and n <= _FEW for n in trips)
        around = around if few else inner[0]
        body = tuple(y for x in inner for y in x.body)
    if around is None or not few:
        return False
    inside = tuple(statements(around.body))
    return around.order is Order.SERIAL or any(
        around.var in used_in(e) for x in inside for y in loads(x) for e in y.at[:-1]
    )


def is_stepwise(s: Loop) -> bool:
    """Whether a row has a loop in order, each round of which computes but a few components: what is
    longer there are copies, which need no vectors of their own."""
    return any(
        x.order is Order.SERIAL and any(isinstance(y, Loop) for y in inside)
        and any(map(_computes, inside)) and _is_small(inside)
        for x in statements(s.body) if isinstance(x, Loop)
        for inside in (tuple(statements(x.body)),)
    )  # fmt: skip


def _is_small(inside: tuple[Stmt, ...]) -> bool:
    """Whether all loops of these statements are short, or fill and copy tables."""
    for x in inside:
        if isinstance(x, Loop):
            trips = (x.high - x.low).constant
            few = trips is not None and trips <= _FEW
            if not few and any(map(_computes, statements(x.body))):
                return False
    return True


def _computes(x: Stmt) -> bool:
    match x:
        case Update() | Assign():
            return True
        case Store(_, _, value) | Let(_, _, value):
            return isinstance(value, Apply)
        case _:
            return False


def is_across(s: Loop) -> bool:
    """Whether a row sums components of tables of its own, which lie as far apart as there are
    components: beside those of other rows every component is a vector."""
    inside = tuple(statements(s.body))
    own = {x.buffer.var for x in inside if isinstance(x, Allocate)}
    return any(
        y.buffer in own and len(y.at) > 1 and y.at[-1].constant is not None
        and x.var in used_in(y.at[0])
        for x in inside if isinstance(x, Loop) and x.reductions and not _depths(x.body)
        for z in x.body for y in loads(z)
    )  # fmt: skip


def is_sliding(s: Loop) -> bool:
    """Whether the deepest loops of a row reduce elements of which the next row has those beside.
    Small windows of a known size, all of which is there, and of which nothing is computed but
    products, are written out, and their rows are vectors already."""
    sums = [x for x in statements(s.body) if isinstance(x, Loop) and x.reductions]
    trips = [(x.high - x.low).constant for x in sums]
    asked = any(isinstance(y, When) for x in sums for y in x.body)
    many = prod(WINDOW + 1 if n is None else n for n in trips) > WINDOW
    if not (many or asked or any(map(_calls, sums))):
        return False
    inside = {x.var for x in sums}
    return any(
        e.at[-1].coefficient(s.var) == 1 and not inside.isdisjoint(used_in(e.at[-1]))
        for x in deepest(s.body) for e in loads(x) if e.at
    )  # fmt: skip


def dear(s: Loop) -> tuple[Size, ...]:
    """How far the inner loops go that compute functions in rounds in order, if that is known in
    front of the rows: of few components the next row's are a vector."""
    out: dict[Size, None] = {}
    for x in statements(s.body):
        if isinstance(x, Loop) and x.order is Order.SERIAL:
            inner = [y for y in x.body if isinstance(y, Loop) and y.order is not Order.SERIAL]
            if any(_depths(y.body) for y in inner) or not any(map(_calls, inner)):
                continue
            out |= dict.fromkeys(y.high - y.low for y in inner)
    inside = {x.var for x in statements(s.body) if isinstance(x, (Loop, Let, Variable))}
    known = all(n.plain and inside.isdisjoint((*used_in(n), s.var)) for n in out)
    return tuple(out) if known else ()


def square(s: Loop) -> tuple[Size, ...]:
    """How far the loops of a row go, if all go as far and some are in others: of rows of a few
    components, as a quadratic form has, the next ones fill a vector."""
    loops = [x for x in statements(s.body) if isinstance(x, Loop)]
    ends = {(x.low, x.high) for x in loops}
    if len(ends) != 1 or _depths(s.body) < _NESTED or any(x.order is Order.SERIAL for x in loops):
        return ()
    ((low, high),) = ends
    inside = {x.var for x in statements(s.body) if isinstance(x, (Loop, Let, Variable))}
    known = high.plain and inside.isdisjoint((*used_in(high), s.var))
    return (high,) if known and low == ZERO and high.constant is None else ()


def sent(s: Loop) -> tuple[Size, ...]:
    """How far the loops over components go in rows whose rounds each add some to an array that all
    rows add to, as each of two points pulls at the other, if all go as far: of few components the
    next row's are a vector, and what goes to the array is added up before."""
    shared = {r.var for r in s.reductions}
    ends: set[tuple[Size, Size]] = set()
    found = False
    for x in statements(s.body):
        if isinstance(x, Loop) and _depths(x.body) == 1:
            inner = [y for y in x.body if isinstance(y, Loop)]
            ends |= {(y.low, y.high) for y in inner}
            found = found or any(
                isinstance(z, Update) and z.buffer in shared
                and {x.var, y.var} <= {v for e in z.at for v in used_in(e)}
                for y in inner for z in y.body
            )  # fmt: skip
    if not found or len(ends) != 1 or _depths(s.body) != _NESTED:
        return ()
    ((low, high),) = ends
    inside = {x.var for x in statements(s.body) if isinstance(x, (Loop, Let, Variable))}
    known = high.plain and inside.isdisjoint((*used_in(high), s.var))
    return (high,) if known and low == ZERO and high.constant is None else ()


def _calls(s: Loop) -> bool:
    """Whether a loop computes functions."""
    return _long_operations(s, FUNCTION) > 0


def _long_operations(s: Loop, cost: int = _LONG) -> int:
    tops = (e for x in s.body for e in expressions(x))
    return sum(
        isinstance(e, Apply) and e.operand.is_float and e.name in PRIMITIVES
        and PRIMITIVES[e.name].cost >= cost
        for top in tops for e in parts(top)
    )  # fmt: skip


def waits(s: Loop) -> int:
    """How many long operations the steps of a row do that wait for each other."""
    loops = (x for x in statements(s.body) if isinstance(x, Loop) and x.order is Order.SERIAL)
    return sum(map(_long_operations, loops))


def depth_of_waits(s: Loop) -> int:
    """In how many loops of a row the steps stand that wait for each other."""
    return max(
        (depth for depth, x in levels(s.body)
         if x.order is Order.SERIAL and _long_operations(x)), default=0,
    )  # fmt: skip


def levels(body: tuple[Stmt, ...]) -> Iterator[tuple[int, Loop]]:
    """The loops of a block, and in how many each of them stands, itself among these."""
    return ((depth, s) for depth, s in _with_depths(body) if isinstance(s, Loop))


def _with_depths(body: tuple[Stmt, ...], around: int = 0) -> Iterator[tuple[int, Stmt]]:
    """The statements of a block, each before those in it, and in how many loops they stand, a loop
    itself among these."""
    for s in body:
        depth = around + isinstance(s, Loop)
        yield depth, s
        for b in blocks(s):
            yield from _with_depths(b, depth)


def deepest(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """The statements in the deepest loops."""
    most = _depths(body)
    for s in body:
        if _depth(s) == most:
            yield from deepest(sum(blocks(s), ())) if most else statements((s,))


@kept
def _depth(s: Stmt) -> int:
    return isinstance(s, Loop) + max((_depths(b) for b in blocks(s)), default=0)


def _depths(body: tuple[Stmt, ...]) -> int:
    return max(map(_depth, body), default=0)


def are_alike(
    s: Loop, body: tuple[Stmt, ...], varying: set[Var], written: set[Var],
    shared: frozenset[Var] = frozenset(),
) -> bool:
    """Whether all rows do the same steps; adds to `varying` what is not the same in all rows, which
    variables are that are not `shared`."""
    sums = {r.var: r.monoid for r in s.reductions}
    if not set(sums.values()) <= set(_MONOIDS):
        return False
    for x in body:
        match x:
            case Loop():
                bounds = {*used_in(x.low), *used_in(x.high)}
                if x.order is Order.PARALLEL or not bounds.isdisjoint(varying | written):
                    return False
            case When():
                if not (varying | written).isdisjoint(used(x.condition)):
                    return False
            case Let():
                here = reads(x)
                if not here.isdisjoint(varying) or not here.isdisjoint(written):
                    varying.add(x.var)
            case Variable():
                if x.var not in shared:
                    varying.add(x.var)
            case Assign(v):
                if v in sums and addend(x, sums[v]) is None:
                    return False
            case Allocate(buffer, fill):
                sizes = {v for n in buffer.shape for v in used_in(n)}
                if buffer.role is not Role.TEMP or fill is not None or x.planes:
                    return False
                if not sizes.isdisjoint(varying | written):
                    return False
                varying.add(buffer.var)
            case While():
                inside = {v for y in statements((x,)) for v in (*reads(y), *assigned(y))}
                if not (goes_alone(x, written) and inside.isdisjoint(sums)):
                    return False
            case Store() | Update():
                pass
            case _:
                return False
        if any(v in sums and not _adds(x, v) for v in reads(x)):
            return False
        once = isinstance(x, Let) and x.var not in varying
        if not once and any(_traps(p) for e in expressions(x) for p in parts(e)):
            return False
        if not all(are_alike(s, b, varying, written, shared) for b in blocks(x)):
            return False
    return True


def _traps(e: Expr) -> bool:
    """Whether an operation may stop the processor, on the zeros of a lane without a row."""
    match e:
        case Apply("floordiv" | "mod", (_, divisor), _, operand):
            return not operand.is_float and not isinstance(divisor, Lit)
        case _:
            return False


def _adds(x: Stmt, v: Var) -> bool:
    return isinstance(x, Assign) and x.var == v


def addend(x: Assign, monoid: str) -> Expr | None:
    """What a statement adds to a variable, if it does nothing else."""
    match x.value:
        case Apply(name, (Local(v), e)) if v == x.var and name == monoid and v not in used(e):
            return e
        case _:
            return None
