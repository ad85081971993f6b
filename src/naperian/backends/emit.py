"""loops → one LLVM module as text.

    i64 @kernel(ptr sizes, ptr buffers, ptr scalars, ptr error)

gives 0, or the code of the failure whose values it wrote to `error`, or INTERRUPTED or NO_MEMORY.
`buffers` and `scalars` have an entry per buffer of the program: the address of its elements, and
the bits of a scalar parameter in 8 bytes. The services of `services/pool.py` are called by name; no
address and no property of the machine is in the text but the width of its vectors.

Parallel loops become functions of their own, called by chunk. What they mention is passed in an
environment; reductions have a partial result per chunk, merged in the order of chunks. Loops that
may take long ask `nap_poll` about every million additions; the innermost ones are cut into strips
for it, so that nothing is paid inside, unless the loop around asks and going along an array once
cannot take long.
"""

from __future__ import annotations

from collections.abc import Sequence

from naperian.backends.apart import apart
from naperian.backends.bulk import in_bulk
from naperian.backends.code import MEMORY, Value, literal
from naperian.backends.ending import ended
from naperian.backends.fetching import (
    AHEAD,
    LINE,
    NEXT,
    a_line,
    fetch,
    looks_up_rows,
    updates_far,
)
from naperian.backends.frame import Frame, Module, Nest, Place, never_negative, strides
from naperian.backends.hints import hints, stays, sums_at_a_time
from naperian.backends.indexing import address, element, load, number, offset, store
from naperian.backends.leaving import (
    allocated,
    burn,
    burn_and_poll,
    hold,
    leave_unless_zero,
    poll,
    work_of,
)
from naperian.backends.masks import masks
from naperian.backends.orders.calls import Row
from naperian.backends.parallel import alone, bounds, is_little, parallel
from naperian.backends.products.contraction import Product, declaration, lower
from naperian.backends.products.strides import constant, stride
from naperian.backends.products.turned import turned
from naperian.backends.scalars import as_word, combine, dtype_of, expression
from naperian.backends.seeking import STRETCH, found, from_where, seeking, sought, unfound
from naperian.backends.services.regions import DECLARATIONS
from naperian.backends.target import Target, host
from naperian.backends.tested import beside_use
from naperian.backends.traits import (
    UNROLLED,
    accumulates,
    called,
    is_long,
    is_short,
    just_stored,
    late,
    most_trips,
    regroups,
    starts,
    streams,
    trips,
)
from naperian.backends.updates import until
from naperian.backends.wide import Entries, in_vectors
from naperian.dtypes import DType
from naperian.loops.donors import donors
from naperian.loops.edges import is_edge
from naperian.loops.syntax import (
    Allocate,
    Assign,
    Buffer,
    Contract,
    Expr,
    Fail,
    Let,
    Local,
    Loop,
    Number,
    Order,
    Print,
    Program,
    Role,
    Sort,
    Stmt,
    Store,
    Update,
    Variable,
    When,
    While,
)
from naperian.loops.walk import all_of, assigned, conjuncts, statements
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.sizes import ONE, ZERO, elements, size, variables

_GLUE = 60  # lines between the parts that a function starts: they are not worth optimising
_STEP = 16  # statements
STRIP = 1 << 16  # iterations of an innermost loop between two polls

_HEADER = """\
declare i64 @nap_poll() nounwind
declare i64 @nap_print(i64, i64, ptr) nounwind
declare noalias ptr @nap_alloc(i64) nounwind
declare void @nap_free(ptr) nounwind
""" + DECLARATIONS


def emit(program: Program, target: Target | None = None) -> str:
    """The module of a program."""
    target = target or host()
    module = Module(program, target, {b.var: (k, b) for k, b in enumerate(program.buffers)})
    module.whole = never_negative(program)
    module.data.update(b.var for b in program.buffers if b.role is Role.IN and not b.shape)
    for argument, result in donors(program):
        one, other = (module.memory.get(v, v) for v in (argument, result))
        for v in [other, *(v for v, name in module.memory.items() if name == other)]:
            module.memory[v] = one
    frame = Frame(module, cut=is_long(program.body))
    _block(frame, program.body)
    frame.code.put("ret i64 0")
    glue = not frame.busy and len(frame.code.entry) + len(frame.code.lines) > _GLUE
    frame.finish(
        "define i64 @kernel(ptr noalias readonly %sizes, ptr noalias readonly %buffers, "
        f"ptr noalias readonly %scalars, ptr noalias %error){' noinline optnone' * glue}"
    )
    narrow = replace(target, vector_bytes=min(32, target.vector_bytes))
    groups = f"attributes #0 = {{ {target.attributes} }}\nattributes #1 = {{ {narrow.attributes} }}"
    return f"{_HEADER}\n{module.text()}\n{groups}\n"


def _block(frame: Frame, stmts: Sequence[Stmt]) -> None:
    """Statements in order; what they allocate on the heap is freed at the end."""
    held: list[Value] = []
    done = 0
    stmts = beside_use(frame, stmts)
    for k, s in enumerate(stmts):
        if type(s) is Update and k >= done:
            done = until(stmts, k, frame.module.memory)
            _updates(frame, stmts[k:done])
        if k >= done:
            _statement(frame, s, held)
    _free(frame, held)
    del frame.exits[len(frame.exits) - len(held) :]


def _updates(frame: Frame, stmts: Sequence[Stmt]) -> None:
    """Statements of which each element that they update is loaded and stored once."""
    so_far: dict[Var, tuple[Update, Value]] = {}
    for s in stmts:
        if not isinstance(s, Update):
            _statement(frame, s, [])
            continue
        new, v = expression(frame, s.value), s.buffer
        old = so_far[v][1] if v in so_far else load(frame, v, s.at)
        so_far[v] = s, combine(frame, s.monoid, old, new, frame.place(v).buffer.dtype)
    for s, value in so_far.values():
        store(frame, s.buffer, s.at, value)


def _statement(frame: Frame, s: Stmt, held: list[Value]) -> None:
    match s:
        case Let(v, dtype, value):
            frame.values[v] = expression(frame, value), dtype
            frame.depths[v] = frame.depth
            if isinstance(value, Number):
                frame.module.numbers[v] = value.value
            else:
                frame.module.data.add(v)
        case Variable(v, dtype, value):
            first = expression(frame, value)
            frame.variable(v, dtype)
            frame.assign(v, first)
            frame.module.data.add(v)
        case Assign(v, value):
            frame.assign(v, expression(frame, value, accumulates(frame, v, value)))
        case Store(buffer, at, value):
            store(frame, buffer, at, expression(frame, value))
        case Update(buffer, at, monoid, value):
            new = expression(frame, value)
            old = load(frame, buffer, at)
            dtype = frame.place(buffer).buffer.dtype
            store(frame, buffer, at, combine(frame, monoid, old, new, dtype))
        case When(condition, then, otherwise):
            _when(frame, condition, then, otherwise)
        case Fail(condition, code, values):
            _fail(frame, condition, code, values)
        case Print(code, values):
            _print(frame, code, values)
        case Allocate(planes=()):
            _allocate(frame, s.buffer, s.fill, s.small, held)
        case Allocate():
            _in_planes(frame, s, held)
        case Contract():
            _contract(frame, s)
        case Sort():
            _sort(frame, s)
        case Loop() | While():
            _nest(frame, s)


# --- loops --------------------------------------------------------------------------------------


def _nest(frame: Frame, s: Loop | While) -> None:
    """A loop, here or as a function of its own; with an outermost one a nest begins and ends."""
    outermost = frame.nest is None
    if outermost and frame.cut and not any(map(starts, statements((s,)))):
        alone(frame, s, lambda child: _serial(child, s, "%low", "%high"))
        return
    if outermost:
        frame.nest = Nest()
    if isinstance(s, Loop) and starts(s) and not frame.parent:
        _shared(frame, s)
    else:
        _serial(frame, s, *bounds(frame, s))
    if outermost and frame.nest is not None:
        frame.nest.close(frame.module)
        frame.nest = None


def _serial(frame: Frame, s: Loop | While, low: Value, high: Value) -> None:
    if isinstance(s, While):
        _while(frame, s)
    else:
        _loop(frame, s, low, high, s.order is not Order.SERIAL)


def _is_step(body: Sequence[Stmt]) -> bool:
    """Whether a round is so little that it may be written twice."""
    return len(body) <= _STEP and all(isinstance(x, Let | Store | Update) for x in body)


def _shared(frame: Frame, s: Loop) -> None:
    """A loop that threads share. What a loop adds up inside another one, a dot product, or does by
    few statements, a step along a row, is done here where it is little: to start it takes longer
    than hundreds of elements."""
    code = frame.code
    free = all(r.var in frame.cells for r in s.reductions)

    place = unfound(frame) if free and sought(s) is not None else None

    def write(child: Frame) -> None:
        if place is None:
            _loop(child, s, "%low", "%high", free, part=True)
            return
        first = child.capture(place, "ptr")
        _loop(child, s, from_where(child, first), "%high", free, part=True)
        found(child, first, s.reductions[0].var)

    if s.reductions:
        short = frame.depth > 0 and is_short(s.body)
    else:
        short = frame.depth > 0 and _is_step(s.body)
    if not (free and short):
        parallel(frame, s, write)
        return
    here, pool, join = code.label("here"), code.label("pool"), code.label("join")
    code.branch(is_little(frame, s), here, pool)
    code.begin(here)
    with frame.scope():
        _loop(frame, s, number(frame, s.low), number(frame, s.high), True)
    code.jump(join)
    code.begin(pool)
    with frame.scope():
        parallel(frame, s, write)
    code.jump(join)
    code.begin(join)


def _loop(
    frame: Frame, s: Loop, low: Value, high: Value, free: bool, part: bool = False
) -> None:
    """`for var in low … high-1`, vectorisable if `free`. Between parts of a loop the pool polls."""
    asked = sought(s) if free and not frame.depth else None
    if asked is not None and trips(low, high) > STRETCH:
        ends = Var("low"), Var("high")
        for v, end in zip(ends, (low, high), strict=True):
            frame.values[v] = end, DType.I64
        with frame.scope():
            _block(frame, seeking(s, asked, *ends))
        return
    held = _ready(frame, s)
    leaf = is_short(s.body)
    calls = frame.calls
    frame.calls = called(s.body) if leaf and free else frozenset()
    new = {r.var for r in s.reductions} - frame.reductions
    frame.reductions |= new
    if not is_short(s.body, whiles=True):
        _counted(frame, s, low, high, free, polls=True)
    elif min(trips(low, high), most_trips(s)) <= STRIP or (
        (frame.polled or part) and streams(s)
    ):
        polled, frame.polled = frame.polled, 0  # what is inside is part of this loop's work
        _counted(frame, s, low, high, free)
        frame.polled = polled
        if polled:
            burn(frame, work_of(frame, s, low, high))
    else:
        _in_strips(frame, s, low, high, free)
    frame.reductions -= new
    frame.calls = calls
    _free(frame, held)
    del frame.exits[len(frame.exits) - len(held) :]


def _ready(frame: Frame, s: Loop) -> list[Value]:
    """Memory for what every round of a loop allocates, if it is as much in all rounds: they go one
    after the other here."""
    own = {s.var, *(x.var for x in statements(s.body) if isinstance(x, (Let, Variable, Loop)))}
    known = {*frame.module.program.sizes, *frame.values, *frame.cells} - own
    held = list[Value]()
    for x in s.body:
        if not isinstance(x, Allocate) or x.small or x.planes or x.buffer.role is not Role.TEMP:
            continue
        if all(e.plain and known.issuperset(variables(e)) for e in x.buffer.shape):
            pointer = frame.ready[x.buffer.var] = allocated(frame, _bytes(frame, x.buffer))
            hold(frame, pointer)
            held.append(pointer)
    return held


def _counted(
    frame: Frame, s: Loop, low: Value, high: Value, free: bool, polls: bool = False
) -> None:
    """The loop itself. With `polls`, every iteration looks whether it is time to."""
    if not polls and updates_far(frame, s):
        _fetching(frame, s, low, high, free)
        return
    if looks_up_rows(frame, s):
        fetch(frame, s, low, 2 * LINE // 8, NEXT)
    _rounds(frame, s, low, high, free, polls)


def _fetching(frame: Frame, s: Loop, low: Value, high: Value, free: bool) -> None:
    """The loop, a line of the cache at a time: before each what is read later is fetched."""
    code = frame.code
    strip, done = code.label("strip"), code.label("done")
    start, stop = code.name(), code.name()
    before = code.block
    code.branch(code.let(f"icmp slt i64 {low}, {high}"), strip, done)
    code.begin(strip)
    at = len(code.lines)
    code.put("")
    with frame.scope():
        rounds = a_line(frame, s)
        fetch(frame, s, start, rounds, AHEAD)
        far = code.let(f"add nsw i64 {start}, {rounds}")
        code.put(f"{stop} = call i64 @llvm.smin.i64(i64 {far}, i64 {high})")
        _rounds(frame, s, start, stop, free, False)
    code.lines[at] = f"  {start} = phi i64 [ {low}, %{before} ], [ {stop}, %{code.block} ]"
    code.branch(code.let(f"icmp slt i64 {stop}, {high}"), strip, done)
    code.loops.append((at - 1, len(code.lines)))
    code.begin(done)


def _rounds(
    frame: Frame, s: Loop, low: Value, high: Value, free: bool, polls: bool
) -> None:
    code = frame.code
    left = turned(frame, s, low, high) if free else low
    if left == low and in_bulk(frame, s, low, high):
        return
    short = most_trips(s) <= UNROLLED
    edge = is_edge(s, frame.module.numbers)
    few = left != low or (edge and not s.reductions) or (frame.at_edge and short)
    low = left  # neither what is left nor an edge is worth a vector's code
    free = free and not few
    body, done = code.label("body"), code.label("done")
    index, after = code.name(), code.name()
    before = code.block
    if 0 < trips(low, high) < float("inf"):
        code.jump(body)
    else:
        code.branch(code.let(f"icmp slt i64 {low}, {high}"), body, done)
    # the end of the body is known only when it is written
    start = len(code.lines)
    tagged = free and not regroups(frame, s)
    group = frame.module.node("distinct !{}") if tagged else None
    if group is not None:
        frame.groups.append(group)
    code.begin(body)
    frame.polled += polls
    waits, frame.late = frame.late, late(s)
    kept, frame.stays = frame.stays, stays(frame, s, free)
    stored, frame.just_stored = frame.just_stored, just_stored(s)
    ordered, frame.in_order = frame.in_order, frame.in_order or s.order is Order.SERIAL
    around, frame.at_edge = frame.at_edge, edge or (frame.at_edge and short)
    with frame.loop(s.var, index, assigned(s)):
        _block(frame, s.body)
    frame.at_edge = around
    frame.late, frame.stays, frame.just_stored = waits, kept, stored
    frame.in_order = ordered
    if polls:
        burn_and_poll(frame, "32")
    frame.polled -= polls
    if group is not None:
        frame.groups.pop()
    lines = len(code.lines) - start
    entries: Entries | None = None
    several = free or (not few and not s.reductions and apart(frame, s))
    plain = code.block == body or (s.order is Order.LANES and masks(frame.module.target))
    if plain and several:
        at_a_time = sums_at_a_time(frame, s)
        entries = in_vectors(frame, s, start, done, index, low, high, group, at_a_time)
    if entries == []:
        code.jump(done)
        code.begin(done)
        return
    finished = few or polls or bool(entries)
    told = hints(frame, s, None if entries else group, finished, lines)
    first = ", ".join(f"[ {x}, %{block} ]" for x, block in entries or [(low, before)])
    at = code.lines.index(f"{body}:", start)
    code.lines[at] += f"\n  {index} = phi i64 {first}, [ {after}, %{code.block} ]"
    code.put(f"{after} = add nsw i64 {index}, 1")
    more = code.let(f"icmp slt i64 {after}, {high}")
    code.branch(more, body, done, f", !llvm.loop !{told}")
    if not entries:
        code.loops.append((at, len(code.lines)))
    code.begin(done)


def _in_strips(frame: Frame, s: Loop, low: Value, high: Value, free: bool) -> None:
    """The loop, cut so that polls are outside it."""
    code = frame.code
    work = s.work.constant or 1
    strip = max(256, STRIP // max(1, work // 16))
    outer, more, done = code.label("strip"), code.label("more"), code.label("done")
    start, stop = code.name(), code.name()
    before = code.block
    code.branch(code.let(f"icmp slt i64 {low}, {high}"), outer, done)
    code.begin(outer)
    at = len(code.lines)
    code.put("")
    with frame.scope():
        far = code.let(f"add nsw i64 {start}, {strip}")
        code.put(f"{stop} = call i64 @llvm.smin.i64(i64 {far}, i64 {high})")
        polled, frame.polled = frame.polled, 0
        _counted(frame, s, start, stop, free)
        frame.polled = polled
        if polled:
            burn(frame, work_of(frame, s, start, stop))
    code.branch(code.let(f"icmp slt i64 {stop}, {high}"), more, done)
    code.begin(more)
    poll(frame)
    code.lines[at] = f"  {start} = phi i64 [ {low}, %{before} ], [ {stop}, %{code.block} ]"
    code.jump(outer)
    code.loops.append((at - 1, len(code.lines)))
    code.begin(done)


def _while(frame: Frame, s: While) -> None:
    code = frame.code
    head, body, out, done = (code.label(x) for x in ("head", "body", "out", "done"))
    code.jump(head)
    start = len(code.lines)
    code.begin(head)
    frame.polled += 1
    held: list[Value] = []  # what the head allocates lives to the end of the body
    end = ended(s)
    kept, frame.stays = frame.stays, True
    stored, frame.just_stored = frame.just_stored, just_stored(s)
    ordered, frame.in_order = frame.in_order, True
    with frame.loop(changes=assigned(s)):
        _round_begins(frame, s.head, conjuncts(s.condition), body, out, held)
        code.begin(body)
        with frame.scope():
            _block(frame, s.body if end is None else end.first)
            if end is not None:
                stop, on = code.label("stop"), code.label("on")
                told = ', !prof !{!"branch_weights", i32 1, i32 1000000}'
                code.branch(expression(frame, end.condition), stop, on, told)
                code.begin(stop)
                with frame.scope():
                    _block(frame, end.stopped)
                code.jump(out)
                code.begin(on)
                _block(frame, end.going)
    frame.stays, frame.just_stored, frame.in_order = kept, stored, ordered
    burn_and_poll(frame, "32")
    _free(frame, held)
    code.jump(head)
    code.loops.append((start, len(code.lines)))
    code.begin(out)
    _free(frame, held)
    del frame.exits[len(frame.exits) - len(held) :]
    frame.polled -= 1
    code.jump(done)
    code.begin(done)


def _round_begins(
    frame: Frame, head: Sequence[Stmt], asked: Sequence[Expr], body: str, out: str,
    held: list[Value],
) -> None:  # fmt: skip
    """What comes before the body of a loop, which goes on while all that is asked holds. What the
    head does only where the first of it holds is done behind the jump that leaves the loop without:

        v = False; if c: v := x[k]                  unless c: leave
        while v if c else False: …          ⇒       v = x[k]; unless v: leave
    """
    code = frame.code
    last = len(head)
    while last and isinstance(head[last - 1], Let):
        last -= 1
    after = head[last:]
    match head[:last], asked:
        case (*before, When(Local(c), then, ())), (Local(first), _, *_) if c == first and all(
            not isinstance(t, Allocate) and not (isinstance(t, Assign) and t.var == c)
            for t in statements(then)
        ):
            for t in before:
                _statement(frame, t, held)
            on = code.label("on")
            code.branch(expression(frame, Local(c)), on, out)
            code.begin(on)
            _round_begins(frame, (*then, *after), asked[1:], body, out, held)
        case _:
            for t in head:
                _statement(frame, t, held)
            code.branch(expression(frame, all_of(asked)), body, out)


def _free(frame: Frame, held: Sequence[Value]) -> None:
    for pointer in reversed(held):
        frame.code.put(f"call void @nap_free(ptr {pointer})")


# --- the other statements -----------------------------------------------------------------------


def _when(frame: Frame, condition: Expr, then: Sequence[Stmt], otherwise: Sequence[Stmt]) -> None:
    code = frame.code
    yes, no, join = code.label("then"), code.label("else"), code.label("join")
    seldom = not otherwise and any(isinstance(s, While) for s in then)
    # what may take long is not in the way of what does not
    note = ', !prof !{!"branch_weights", i32 1, i32 31}' if seldom else ""
    code.branch(expression(frame, condition), yes, no if otherwise else join, note)
    for label, stmts in ((yes, then), (no, otherwise)):
        if label == no and not otherwise:
            continue
        code.begin(label)
        with frame.scope():
            _block(frame, stmts)
        code.jump(join)
    code.begin(join)


def _fail(frame: Frame, condition: Expr, number: int, values: tuple[Expr, ...]) -> None:
    """Leave when the condition holds. A failure below 0 is its own explanation: a status that the
    pool passes on."""
    code = frame.code
    bad, fine = code.label("fail"), code.label("fine")
    rarely = ', !prof !{!"branch_weights", i32 1, i32 1000000}'
    code.branch(expression(frame, condition), bad, fine, rarely)
    code.begin(bad)
    if number < 0:
        frame.fail(str(number))
        code.begin(fine)
        return
    with frame.scope():
        words = [as_word(frame, expression(frame, e), dtype_of(frame, e)) for e in values[:4]]
    words += ["0"] * (4 - len(words))
    error = frame.error()
    if frame.parent:
        rest = ", ".join(f"i64 {w}" for w in words)
        code.put(f"call void @nap_report(ptr %env, ptr {error}, i64 %chunk, i64 {number}, {rest})")
    else:
        for k, word in enumerate(words):
            at = code.let(f"getelementptr i64, ptr {error}, i64 {k}")
            code.put(f"store i64 {word}, ptr {at}")
    frame.fail(str(number))
    code.begin(fine)


def _print(frame: Frame, number: int, values: tuple[Expr, ...]) -> None:
    """The bits of the values, each in a word, go to whoever listens."""
    code = frame.code
    words = code.first(f"alloca [{max(1, len(values))} x i64]")
    for k, e in enumerate(values):
        word = as_word(frame, expression(frame, e), dtype_of(frame, e))
        at = code.let(f"getelementptr i64, ptr {words}, i64 {k}")
        code.put(f"store i64 {word}, ptr {at}")
    call = f"call i64 @nap_print(i64 {number}, i64 {len(values)}, ptr {words})"
    leave_unless_zero(frame, code.let(call))


def _allocate(
    frame: Frame, buffer: Buffer, fill: Lit | None, small: bool, held: list[Value]
) -> None:
    code = frame.code
    count = elements(buffer.shape, frame.module.program.sizes)
    type = MEMORY[buffer.dtype]
    constant = count.constant
    if small and constant is not None:
        pointer = code.first(f"alloca [{constant} x {type}], align 64")
        frame.arrays[pointer] = constant
    elif buffer.var in frame.ready:
        pointer = frame.ready.pop(buffer.var)
        frame.heap[buffer.var] = frame.depth
    else:
        pointer = allocated(frame, _bytes(frame, buffer))
        if buffer.role is Role.OUT:  # the caller's from here on, also if the run fails
            k, _ = frame.module.buffers[buffer.var]
            at = code.first(f"getelementptr ptr, ptr %buffers, i64 {k}")
            code.put(f"store ptr {pointer}, ptr {code.first(f'load ptr, ptr {at}')}")
        else:
            hold(frame, pointer)
            held.append(pointer)
            frame.heap[buffer.var] = frame.depth
    place = Place(pointer, buffer, strides(buffer.shape), len(frame.groups))
    frame.places[buffer.var] = place
    if fill is None:
        return
    if not frame.parent and literal(fill.value, fill.dtype) == literal(0, fill.dtype):
        zero = f"call i64 @nap_zero(ptr {pointer}, i64 {_bytes(frame, buffer)})"
        leave_unless_zero(frame, code.let(zero))
        return
    index = Var("fill")
    flat = Buffer(Var(buffer.var.name), buffer.dtype, (count,), buffer.role)
    frame.places[flat.var] = Place(pointer, flat, (ONE,), len(frame.groups))
    if buffer.var in frame.heap:
        frame.heap[flat.var] = frame.depth
    body = (Store(flat.var, (size(index),), fill),)
    nest, frame.nest = frame.nest, None  # two names for one memory
    _loop(frame, Loop(index, ZERO, count, body, Order.FREE), "0", number(frame, count), True)
    frame.nest = nest


def _in_planes(frame: Frame, s: Allocate, held: list[Value]) -> None:
    """A buffer whose parts are in several places."""
    own = allocated(frame, _bytes(frame, s.own))
    hold(frame, own)
    held.append(own)
    inner = s.own.shape
    planes = []
    for part in s.planes:
        if part is None:
            planes.append(own)
        else:
            start = (*part[1], *(ZERO for _ in inner))
            planes.append(address(frame, part[0], start)[0])
    apart = (ZERO, *strides(inner))
    frame.places[s.buffer.var] = Place(own, s.buffer, apart, len(frame.groups), tuple(planes))


def _bytes(frame: Frame, buffer: Buffer) -> Value:
    """How many bytes a buffer needs; more than there can be where the product overflows."""
    constant, rest = buffer.dtype.bytes, []
    for extent in buffer.shape:
        if extent.constant is None:
            rest.append(extent)
        else:
            constant *= max(0, extent.constant)
    total: Value = str(min(constant, (1 << 63) - 1))
    for extent in rest:
        each = number(frame, extent)
        times = f"call i64 @nap_times(i64 {total}, i64 {each})"
        total = frame.once(times, times)
    return total


def _contract(frame: Frame, s: Contract) -> None:
    """A contraction of two matrices is a call; every other one is loops around such, or loops."""
    lowered = lower(
        s, lambda v, at: offset(frame, frame.place(v), at), frame.module.program.sizes
    )
    if not isinstance(lowered, Product):
        _block(frame, lowered)
        return
    p = lowered
    operands = []
    for v, base, first, second in (p.out, p.left, p.right):
        pointer = element(frame, frame.place(v), base)
        operands += [
            f"ptr {pointer}",
            f"i64 {number(frame, first)}",
            f"i64 {number(frame, second)}",
        ]
    sizes = [f"i64 {number(frame, n)}" for n in (p.rows, p.columns, p.inner)]
    table = "null" if p.at is None else frame.place(p.at).pointer
    lines = "null" if p.to is None else element(frame, frame.place(p.to[0]), p.to[1])
    args = ", ".join(
        [*sizes, *operands, f"ptr {table}", f"ptr {lines}", f"i64 {number(frame, p.run)}",
         f"i64 {int(p.accumulate)}"]
    )  # fmt: skip
    frame.runs += 1
    symbol = f"nap_contract_f{p.dtype.bits}"
    frame.module.definitions[symbol] = declaration(p.dtype)
    leave_unless_zero(frame, frame.code.let(f"call i64 @{symbol}({args})"))


def _sort(frame: Frame, s: Sort) -> None:
    """A row in order is a call."""
    code, (v, n), row = frame.code, s.axis, Row(s.dtype, s.places)
    operands = []
    for buffer, at in (s.out, s.value):
        place = frame.place(buffer)
        there = offset(frame, place, at)
        pointer = element(frame, place, constant(there, {v}))
        operands.append(f"ptr {pointer}, i64 {number(frame, stride(there, v))}")
    frame.runs += 1
    frame.module.definitions[row.symbol] = row.declaration
    args = ", ".join([f"i64 {number(frame, n)}", *operands])
    leave_unless_zero(frame, code.let(f"call i64 @{row.symbol}({args})"))
