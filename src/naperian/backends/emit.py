"""loops → one LLVM module as text.

    i64 @kernel(ptr sizes, ptr buffers, ptr scalars, ptr error)

gives 0, or the code of the failure whose values it wrote to `error`, or INTERRUPTED or NO_MEMORY.
`buffers` and `scalars` have an entry per buffer of the program: the address of its elements, and
the bits of a scalar parameter in 8 bytes. The services of `backends/pool.py` are called by name;
no address and no property of the machine is in the text but the width of its vectors.

Parallel loops become functions of their own, called by chunk. What they mention is passed in an
environment; reductions have a partial result per chunk, merged in the order of chunks. Loops that
may take long ask `nap_poll` about every million additions; the innermost ones are cut into strips
for it, so that nothing is paid inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from naperian.backends.code import MEMORY, REGISTER, Value, literal
from naperian.backends.contraction import Product, declaration, lower
from naperian.backends.frame import Frame, Module, Nest, Place, strides
from naperian.backends.indexing import element, load, number, offset, store
from naperian.backends.scalars import as_word, combine, dtype_of, expression
from naperian.backends.target import Target, host
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Buffer,
    Contract,
    Expr,
    Fail,
    Let,
    Load,
    Local,
    Loop,
    Order,
    Program,
    Reduction,
    Stmt,
    Store,
    Update,
    Variable,
    When,
    While,
)
from naperian.names import Lit, Var
from naperian.prims import PRIMITIVES, unit
from naperian.sizes import ONE, ZERO, Atom, Clamp, Quotient, Remainder, Size, size

INTERRUPTED, NO_MEMORY = -1, -2
FUEL = 1 << 20  # additions between two polls: about a millisecond
STRIP = 1 << 16  # iterations of an innermost loop between two polls
GRAIN = 1 << 16  # additions that are worth another thread: about 20 microseconds
HEAVY = 15  # the cost of an operation that is a page of code
UNROLLED = 64  # a loop of so few iterations may stand inside an innermost one

_MONOIDS = {"add", "mul", "min", "max", "and", "or"}
_HEADER = """\
declare i64 @nap_parallel(ptr, ptr, i64, i64, i64) nounwind
declare i64 @nap_chunks(i64, i64, i64) nounwind willreturn memory(none)
declare i64 @nap_poll() nounwind
declare noalias ptr @nap_alloc(i64) nounwind
declare void @nap_free(ptr) nounwind
"""
_REPORT = """\
; the failure of the lowest chunk wins: its number, its code and its values
define internal void @nap.report(ptr %env, ptr %error, i64 %chunk, i64 %code, \
i64 %a, i64 %b, i64 %c, i64 %d) noinline cold nounwind {
entry:
  br label %wait
wait:
  %seen = cmpxchg ptr %env, i64 0, i64 1 acquire monotonic
  %mine = extractvalue { i64, i1 } %seen, 1
  br i1 %mine, label %compare, label %wait
compare:
  %at = getelementptr i64, ptr %env, i64 1
  %lowest = load i64, ptr %at
  %lower = icmp slt i64 %chunk, %lowest
  br i1 %lower, label %write, label %leave
write:
  store i64 %chunk, ptr %at
  %at.code = getelementptr i64, ptr %env, i64 2
  store i64 %code, ptr %at.code
  store i64 %a, ptr %error
  %e1 = getelementptr i64, ptr %error, i64 1
  store i64 %b, ptr %e1
  %e2 = getelementptr i64, ptr %error, i64 2
  store i64 %c, ptr %e2
  %e3 = getelementptr i64, ptr %error, i64 3
  store i64 %d, ptr %e3
  br label %leave
leave:
  store atomic i64 0, ptr %env release, align 8
  ret void
}"""


def emit(program: Program, target: Target | None = None) -> str:
    """The module of a program."""
    target = target or host()
    module = Module(program)
    frame = Frame(module)
    _block(frame, program.body)
    frame.code.put("ret i64 0")
    frame.finish(
        "define i64 @kernel(ptr noalias readonly %sizes, ptr noalias readonly %buffers, "
        "ptr noalias readonly %scalars, ptr noalias %error)"
    )
    return f"{_HEADER}\n{module.text()}\nattributes #0 = {{ {target.attributes} }}\n"


def _block(frame: Frame, stmts: Sequence[Stmt]) -> None:
    """Statements in order; what they allocate on the heap is freed at the end."""
    held: list[Value] = []
    for s in stmts:
        _statement(frame, s, held)
    for pointer in reversed(held):
        frame.code.put(f"call void @nap_free(ptr {pointer})")
        frame.exits.pop()


def _statement(frame: Frame, s: Stmt, held: list[Value]) -> None:
    match s:
        case Let(v, dtype, value):
            frame.values[v] = expression(frame, value), dtype
            frame.depths[v] = frame.depth
        case Variable(v, dtype, value):
            cell = frame.code.first(f"alloca {REGISTER[dtype]}")
            frame.cells[v] = cell, dtype
            frame.code.put(f"store {REGISTER[dtype]} {expression(frame, value)}, ptr {cell}")
        case Assign(v, value):
            cell, dtype = frame.cells[v]
            flags = "reassoc contract" if _accumulates(frame, v, value) else "contract"
            result = expression(frame, value, flags)
            frame.code.put(f"store {REGISTER[dtype]} {result}, ptr {cell}")
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
        case Allocate(buffer, fill, small):
            _allocate(frame, buffer, fill, small, held)
        case Contract():
            _contract(frame, s)
        case Loop() | While():
            outermost = frame.nest is None
            if outermost:
                frame.nest = Nest()
            if isinstance(s, While):
                _while(frame, s)
            elif s.order is Order.PARALLEL and not frame.parent and _mergeable(s):
                _parallel(frame, s)
            else:
                low, high = number(frame, s.low), number(frame, s.high)
                _loop(frame, s, low, high, s.order is not Order.SERIAL)
            if outermost and frame.nest is not None:
                frame.nest.close(frame.module)
                frame.nest = None


def _accumulates(frame: Frame, v: Var, value: Expr) -> bool:
    """Whether an assignment is `v = v ⊕ …` of a declared reduction."""
    return (
        v in frame.reductions
        and isinstance(value, Apply)
        and value.name in ("add", "mul")
        and Local(v) in value.args
    )


def _mergeable(s: Loop) -> bool:
    return all(r.monoid in _MONOIDS for r in s.reductions)


# --- loops --------------------------------------------------------------------------------------


def _loop(frame: Frame, s: Loop, low: Value, high: Value, free: bool) -> None:
    """`for var in low … high-1`, vectorisable if `free`."""
    leaf = _is_leaf(s.body)
    new = {r.var for r in s.reductions} - frame.reductions
    frame.reductions |= new
    if not leaf:
        _counted(frame, s, low, high, free, polls=True)
    elif _trips(low, high) <= STRIP:
        _counted(frame, s, low, high, free)
        if frame.polled:
            _burn(frame, _work(frame, s, low, high))
    else:
        _in_strips(frame, s, low, high, free)
    frame.reductions -= new


def _counted(
    frame: Frame, s: Loop, low: Value, high: Value, free: bool, polls: bool = False
) -> None:
    """The loop itself. With `polls`, every iteration looks whether it is time to."""
    code = frame.code
    body, done = code.label("body"), code.label("done")
    index, after = code.name(), code.name()
    before = code.block
    code.branch(code.let(f"icmp slt i64 {low}, {high}"), body, done)
    # the end of the body is known only when it is written
    start = len(code.lines)
    group = frame.module.node("distinct !{}") if free else None
    if group is not None:
        frame.groups.append(group)
    code.begin(body)
    frame.polled += polls
    with frame.loop(s.var, index):
        _block(frame, s.body)
    if polls:
        _burn(frame, "32")
        _poll_when_empty(frame)
    frame.polled -= polls
    if group is not None:
        frame.groups.pop()
    code.lines[start] += f"\n  {index} = phi i64 [ {low}, %{before} ], [ {after}, %{code.block} ]"
    code.put(f"{after} = add nsw i64 {index}, 1")
    code.branch(
        code.let(f"icmp slt i64 {after}, {high}"),
        body,
        done,
        f", !llvm.loop !{_hints(frame, s, group)}",
    )
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
        _counted(frame, s, start, stop, free)
        if frame.polled:
            _burn(frame, _work(frame, s, start, stop))
    code.branch(code.let(f"icmp slt i64 {stop}, {high}"), more, done)
    code.begin(more)
    _poll(frame)
    code.lines[at] = f"  {start} = phi i64 [ {low}, %{before} ], [ {stop}, %{code.block} ]"
    code.jump(outer)
    code.begin(done)


def _hints(frame: Frame, s: Loop, group: int | None) -> int:
    """What LLVM is told about a loop."""
    module = frame.module
    number = module.id()
    hints = ['!{!"llvm.loop.mustprogress"}']
    if group is not None:
        hints.append(f'!{{!"llvm.loop.parallel_accesses", !{group}}}')
        heavy, segment = _heavy(s.body), s.reductions and _ragged(frame, s)
        if heavy or segment:
            # long code: not several copies of it; short segments: not several vectors
            hints.append('!{!"llvm.loop.interleave.count", i32 1}')
        if segment and not _gathers(s.body):
            # no scalar remainder, which would be most of a short segment. Not where the loop
            # stores: masked stores are slow
            hints.append('!{!"llvm.loop.vectorize.predicate.enable", i1 true}')
    module.metadata.append(f"!{number} = distinct !{{!{number}, {', '.join(hints)}}}")
    return number


def _ragged(frame: Frame, s: Loop) -> bool:
    """Whether the number of iterations depends on data or outer loops."""

    def fixed(a: Atom) -> bool:
        match a:
            case Var():
                return frame.depths.get(a, 0) == 0 and not frame.mutable(a)
            case Quotient(x, y) | Remainder(x, y) | Clamp(x, y):
                return all(fixed(b) for e in (x, y) for b in e.atoms())
            case _:
                return False

    return not all(fixed(a) for a in (s.high - s.low).atoms())


def _heavy(stmts: Sequence[Stmt]) -> bool:
    """Whether straight-line code holds an elementary function."""

    def within(e: Expr) -> bool:
        match e:
            case Apply(name, args, dtype):
                costly = name in PRIMITIVES and PRIMITIVES[name].cost >= HEAVY
                return (costly and dtype.is_float) or any(within(a) for a in args)
            case _:
                return False

    for s in stmts:
        match s:
            case Let(value=e) | Variable(value=e) | Assign(value=e) | Store(value=e):
                if within(e):
                    return True
            case _:
                pass
    return False


def _gathers(stmts: Sequence[Stmt]) -> bool:
    """Whether an index in straight-line code is itself loaded or computed from a local."""

    def indirect(at: tuple[Size, ...]) -> bool:
        return any(isinstance(a, Load) for e in at for a in e.atoms())

    def within(e: Expr) -> bool:
        match e:
            case Load(_, at):
                return indirect(at)
            case Apply(_, args):
                return any(within(a) for a in args)
            case _:
                return False

    for s in stmts:
        match s:
            case Let(value=value) | Variable(value=value) | Assign(value=value):
                if within(value):
                    return True
            case _:
                return True
    return False


def _is_leaf(stmts: Sequence[Stmt]) -> bool:
    """Whether the statements take a short time that does not depend on sizes."""
    for s in stmts:
        match s:
            case Loop():
                if _trips_of(s) > UNROLLED or not _is_leaf(s.body):
                    return False
            case While() | Contract():
                return False
            case Allocate(small=small) if not small:
                return False
            case When(_, then, otherwise):
                if not (_is_leaf(then) and _is_leaf(otherwise)):
                    return False
            case _:
                pass
    return True


def _trips_of(s: Loop) -> float:
    trips = (s.high - s.low).constant
    return float("inf") if trips is None else trips


def _trips(low: Value, high: Value) -> float:
    """How many iterations, if both bounds are numbers."""
    if low.lstrip("-").isdigit() and high.lstrip("-").isdigit():
        return int(high) - int(low)
    return float("inf")


def _while(frame: Frame, s: While) -> None:
    code = frame.code
    head, body, done = code.label("head"), code.label("body"), code.label("done")
    code.jump(head)
    code.begin(head)
    frame.polled += 1
    held: list[Value] = []
    with frame.loop():
        exits = len(frame.exits)
        for t in s.head:
            _statement(frame, t, held)
        if held:
            raise NotImplementedError("a heap buffer in the head of a while loop")
        code.branch(expression(frame, s.condition), body, done)
        code.begin(body)
        _block(frame, s.body)
        assert len(frame.exits) == exits
    _burn(frame, "32")
    _poll_when_empty(frame)
    frame.polled -= 1
    code.jump(head)
    code.begin(done)


# --- polling ------------------------------------------------------------------------------------


def _work(frame: Frame, s: Loop, low: Value, high: Value) -> Value:
    code = frame.code
    work = s.work.constant or 1
    trips = code.let(f"sub nsw i64 {high}, {low}")
    trips = code.let(f"call i64 @llvm.smax.i64(i64 {trips}, i64 0)")
    return code.let(f"mul i64 {trips}, {work}") if work > 1 else trips


def _burn(frame: Frame, amount: Value) -> None:
    code, fuel = frame.code, frame.slot("fuel", FUEL)
    left = code.let(f"load i64, ptr {fuel}")
    code.put(f"store i64 {code.let(f'sub i64 {left}, {amount}')}, ptr {fuel}")


def _poll_when_empty(frame: Frame) -> None:
    code, fuel = frame.code, frame.slot("fuel", FUEL)
    left = code.let(f"load i64, ptr {fuel}")
    poll, go = code.label("poll"), code.label("go")
    rarely = ', !prof !{!"branch_weights", i32 1, i32 1000000}'
    code.branch(code.let(f"icmp slt i64 {left}, 0"), poll, go, rarely)
    code.begin(poll)
    _poll(frame)
    code.put(f"store i64 {FUEL}, ptr {fuel}")
    code.jump(go)
    code.begin(go)


def _poll(frame: Frame) -> None:
    _leave_unless_zero(frame, frame.code.let("call i64 @nap_poll()"))


def _leave_unless_zero(frame: Frame, status: Value) -> None:
    """Leave the function with a status that is not 0."""
    code = frame.code
    stop, go = code.label("stop"), code.label("go")
    code.branch(code.let(f"icmp ne i64 {status}, 0"), stop, go)
    code.begin(stop)
    frame.fail(status)
    code.begin(go)


# --- threads ------------------------------------------------------------------------------------


def _parallel(frame: Frame, s: Loop) -> None:
    """The loop as a function of a range, called once when there is little to do, else by the
    pool. The choice depends on sizes alone, and so do the chunks."""
    code, module = frame.code, frame.module
    low, high = number(frame, s.low), number(frame, s.high)
    trips = code.let(f"sub nsw i64 {high}, {low}")
    grain = _grain(frame, s.work)
    few = code.let(f"icmp sle i64 {trips}, {grain}")

    name = f"@part{len(module.functions)}"
    child = Frame(module, parent=frame, nest=Nest())
    child.depth = 0
    for r in s.reductions:
        cell = child.code.first(f"alloca {REGISTER[r.dtype]}")
        child.cells[r.var] = cell, r.dtype
        start = literal(unit(r.monoid, r.dtype), r.dtype)
        child.code.put(f"store {REGISTER[r.dtype]} {start}, ptr {cell}")
    _loop(child, s, "%low", "%high", True)
    partials: _Partials | None = None
    if s.reductions:
        partials = _partials(frame, len(s.reductions), few, low, high, grain)
        base = child.capture(partials.pointer, "ptr")
        for k, r in enumerate(s.reductions):
            at = _partial(child, base, "%chunk", len(s.reductions), k)
            value = child.scalar(r.var)
            child.code.put(f"store {REGISTER[r.dtype]} {value}, ptr {at}")
    child.code.put("ret i64 0")
    assert child.nest is not None
    child.nest.close(module)
    child.finish(f"define internal i64 {name}(ptr %env, i64 %low, i64 %high, i64 %chunk) noinline")

    count = len(child.captured)
    env = code.first(f"alloca [{count + 3} x i64], align 8")
    words = [("0", "i64"), (str((1 << 63) - 1), "i64"), ("0", "i64"), *child.captured]
    for k, (value, type) in enumerate(words):
        at = code.let(f"getelementptr i64, ptr {env}, i64 {k}")
        code.put(f"store {type} {value}, ptr {at}")
    here, pool, both = code.label("here"), code.label("pool"), code.label("both")
    code.branch(few, here, pool)
    code.begin(here)
    alone = code.let(f"call i64 {name}(ptr {env}, i64 {low}, i64 {high}, i64 0)")
    code.jump(both)
    code.begin(pool)
    args = f"ptr {name}, ptr {env}, i64 {low}, i64 {high}, i64 {grain}"
    shared = code.let(f"call i64 @nap_parallel({args})")
    code.jump(both)
    code.begin(both)
    status = code.let(f"phi i64 [ {alone}, %{here} ], [ {shared}, %{pool} ]")
    failed = code.let(f"icmp sgt i64 {status}, 0")
    first = code.let(f"load i64, ptr {code.let(f'getelementptr i64, ptr {env}, i64 2')}")
    _leave_unless_zero(frame, code.let(f"select i1 {failed}, i64 {first}, i64 {status}"))
    if partials:
        _merge(frame, s.reductions, partials)


@dataclass(frozen=True, slots=True)
class _Partials:
    """An array of 8-byte results, one per chunk and reduction."""

    pointer: Value
    chunks: Value
    heap: Value  # the same pointer, or null if it is on the stack


def _partials(
    frame: Frame, width: int, few: Value, low: Value, high: Value, grain: Value
) -> _Partials:
    code = frame.code
    one = code.first(f"alloca [{width} x i64], align 8")
    many, ready = code.label("many"), code.label("ready")
    before = code.block
    code.branch(few, ready, many)
    code.begin(many)
    count = code.let(f"call i64 @nap_chunks(i64 {low}, i64 {high}, i64 {grain})")
    bytes = code.let(f"mul i64 {count}, {8 * width}")
    heap = _allocated(frame, bytes)
    last = code.block
    code.jump(ready)
    code.begin(ready)
    pointer = code.let(f"phi ptr [ {one}, %{before} ], [ {heap}, %{last} ]")
    chunks = code.let(f"phi i64 [ 1, %{before} ], [ {count}, %{last} ]")
    given = code.let(f"phi ptr [ null, %{before} ], [ {heap}, %{last} ]")
    _hold(frame, given)
    return _Partials(pointer, chunks, given)


def _partial(frame: Frame, base: Value, chunk: Value, width: int, k: int) -> Value:
    at = frame.code.let(f"getelementptr [{width} x i64], ptr {base}, i64 {chunk}, i64 {k}")
    return at


def _merge(frame: Frame, reductions: tuple[Reduction, ...], partials: _Partials) -> None:
    """Every variable combined with the chunks' results, in their order."""
    code = frame.code
    body, done = code.label("merge"), code.label("merged")
    before, index = code.block, code.name()
    code.jump(body)
    code.begin(body)
    after = code.name()
    code.put(f"{index} = phi i64 [ 0, %{before} ], [ {after}, %{body} ]")
    for k, r in enumerate(reductions):
        at = _partial(frame, partials.pointer, index, len(reductions), k)
        new = code.let(f"load {REGISTER[r.dtype]}, ptr {at}")
        cell, dtype = frame.cells[r.var]
        total = combine(frame, r.monoid, frame.scalar(r.var), new, dtype)
        code.put(f"store {REGISTER[dtype]} {total}, ptr {cell}")
    code.put(f"{after} = add nsw i64 {index}, 1")
    code.branch(code.let(f"icmp slt i64 {after}, {partials.chunks}"), body, done)
    code.begin(done)
    code.put(f"call void @nap_free(ptr {partials.heap})")
    frame.exits.pop()


def _grain(frame: Frame, work: Size) -> Value:
    """How many iterations are worth a thread's while."""
    constant = work.constant
    if constant is not None:
        return str(max(1, GRAIN // max(1, constant)))
    code = frame.code
    known = Size(tuple((m, c) for m, c in work.terms if all(_outside(frame, a) for a in m)))
    cost = code.let(f"call i64 @llvm.smax.i64(i64 {number(frame, known)}, i64 1)")
    share = code.let(f"udiv i64 {GRAIN}, {cost}")
    return code.let(f"call i64 @llvm.smax.i64(i64 {share}, i64 1)")


def _outside(frame: Frame, a: Atom) -> bool:
    """Whether an atom of an estimate has a value here; one that depends on the loop has none."""
    match a:
        case Var():
            return frame.bound(a)
        case Quotient(x, y) | Remainder(x, y) | Clamp(x, y):
            return all(_outside(frame, b) for e in (x, y) for b in e.atoms())
        case _:
            return False


# --- the other statements -----------------------------------------------------------------------


def _when(frame: Frame, condition: Expr, then: Sequence[Stmt], otherwise: Sequence[Stmt]) -> None:
    code = frame.code
    yes, no, join = code.label("then"), code.label("else"), code.label("join")
    code.branch(expression(frame, condition), yes, no if otherwise else join)
    for label, stmts in ((yes, then), (no, otherwise)):
        if label == no and not otherwise:
            continue
        code.begin(label)
        with frame.scope():
            _block(frame, stmts)
        code.jump(join)
    code.begin(join)


def _fail(frame: Frame, condition: Expr, number: int, values: tuple[Expr, ...]) -> None:
    code = frame.code
    bad, fine = code.label("fail"), code.label("fine")
    rarely = ', !prof !{!"branch_weights", i32 1, i32 1000000}'
    code.branch(expression(frame, condition), bad, fine, rarely)
    code.begin(bad)
    with frame.scope():
        words = [as_word(frame, expression(frame, e), dtype_of(frame, e)) for e in values[:4]]
    words += ["0"] * (4 - len(words))
    error = frame.error()
    if frame.parent:
        frame.module.definitions["@nap.report"] = _REPORT
        rest = ", ".join(f"i64 {w}" for w in words)
        code.put(f"call void @nap.report(ptr %env, ptr {error}, i64 %chunk, i64 {number}, {rest})")
    else:
        for k, word in enumerate(words):
            at = code.let(f"getelementptr i64, ptr {error}, i64 {k}")
            code.put(f"store i64 {word}, ptr {at}")
    frame.fail(str(number))
    code.begin(fine)


def _allocate(
    frame: Frame, buffer: Buffer, fill: Lit | None, small: bool, held: list[Value]
) -> None:
    code = frame.code
    count = ONE
    for extent in buffer.shape:
        count = count * extent
    type, bytes = MEMORY[buffer.dtype], buffer.dtype.bytes
    constant = count.constant
    if small and constant is not None:
        pointer = code.first(f"alloca [{constant} x {type}], align 64")
    else:
        pointer = _allocated(frame, number(frame, count * bytes))
        _hold(frame, pointer)
        held.append(pointer)
    place = Place(pointer, buffer, strides(buffer.shape), len(frame.groups))
    frame.places[buffer.var] = place
    if fill is None:
        return
    index = Var("fill")
    flat = Buffer(Var(buffer.var.name), buffer.dtype, (count,), buffer.role)
    frame.places[flat.var] = Place(pointer, flat, (ONE,), len(frame.groups))
    body = (Store(flat.var, (size(index),), fill),)
    nest, frame.nest = frame.nest, None  # two names for one memory
    _loop(frame, Loop(index, ZERO, count, body, Order.FREE), "0", number(frame, count), True)
    frame.nest = nest


def _allocated(frame: Frame, bytes: Value) -> Value:
    """Heap memory; the function is left if there is none."""
    code = frame.code
    pointer = code.let(f"call ptr @nap_alloc(i64 {bytes})")
    none, got = code.label("none"), code.label("got")
    code.branch(code.let(f"icmp eq ptr {pointer}, null"), none, got)
    code.begin(none)
    frame.fail(str(NO_MEMORY))
    code.begin(got)
    return pointer


def _hold(frame: Frame, pointer: Value) -> None:
    """Until `exits` is popped, leaving the function frees the pointer."""
    label = frame.code.label("free")
    frame.cleanups += [
        f"{label}:",
        f"  call void @nap_free(ptr {pointer})",
        f"  br label %{frame.exits[-1]}",
    ]
    frame.exits.append(label)


def _contract(frame: Frame, s: Contract) -> None:
    """A contraction of two matrices is a call; every other one is loops around such, or loops."""
    lowered = lower(s, lambda v, at: offset(frame, frame.place(v), at))
    if not isinstance(lowered, Product):
        for t in lowered:
            _statement(frame, t, [])
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
    args = ", ".join([*sizes, *operands, f"i64 {int(p.accumulate)}"])
    symbol = f"nap_contract_f{p.dtype.bits}"
    frame.module.definitions[symbol] = declaration(p.dtype)
    _leave_unless_zero(frame, frame.code.let(f"call i64 @{symbol}({args})"))
