"""Loops that are functions of a range: parallel ones, with their environment and reductions by
chunk, and the serial ones of a long kernel."""

from __future__ import annotations

from collections.abc import Callable

from naperian.backends import private
from naperian.backends.code import REGISTER, Value, literal
from naperian.backends.frame import Frame, Nest
from naperian.backends.indexing import first, number, offset
from naperian.backends.leaving import leave_unless_zero
from naperian.backends.scalars import combine
from naperian.backends.services.regions import CHUNKS, GRAIN, PART
from naperian.loops.syntax import Loop, Reduction, Store, While
from naperian.loops.walk import assigned
from naperian.names import Lit, Var
from naperian.node import node
from naperian.prims import unit
from naperian.sizes import ZERO, Atom, Clamp, Quotient, Remainder, Size, size, variables

# a loop over chunks: they are few, and vectors of Booleans would be a thousand lines
AS_IT_IS = ('!"llvm.loop.vectorize.enable", i1 false', '!"llvm.loop.unroll.disable"')


def parallel(frame: Frame, s: Loop, write: Callable[[Frame], None]) -> None:
    """The loop as a function of a range, which `write` writes, called once when there is
    little to do, else by the pool. The choice depends on sizes alone, and so do the chunks."""
    code, module = frame.code, frame.module
    frame.runs += 1
    low, high = number(frame, s.low), number(frame, s.high)
    cleared = _cleared(frame, s)
    if cleared:
        pointer, each = cleared
        bytes = code.let(f"call i64 @nap_times(i64 {each}, i64 {high})")
        leave_unless_zero(frame, code.let(f"call i64 @nap_zero(ptr {pointer}, i64 {bytes})"))
        return
    trips = code.minus(high, low)
    scalars = tuple(r for r in s.reductions if r.var in frame.cells)
    arrays = tuple(r for r in s.reductions if r.var not in frame.cells)
    work = _work(frame, s.work)
    grain = _grain(frame, work)
    if arrays:
        grain = private.grain(frame, arrays, trips, work, grain)
    few = _few(frame, trips, grain)

    child = Frame(module, parent=frame, nest=Nest())
    for r in scalars:
        child.variable(r.var, r.dtype)
        child.assign(r.var, literal(unit(r.monoid, r.dtype), r.dtype))
    copies: list[private.Copies] = []
    if arrays:
        chunks = _chunks(frame, few, low, high, grain)
        copies = [private.copies(frame, r, chunks) for r in arrays]
        for c in copies:
            private.own(child, c)
    write(child)
    partials: _Partials | None = None
    if scalars:
        partials = _partials(frame, len(scalars), few, low, high, grain)
        base = child.capture(partials.pointer, "ptr")
        for k, r in enumerate(scalars):
            at = _partial(child, base, "%chunk", len(scalars), k)
            value = child.scalar(r.var)
            child.code.put(f"store {REGISTER[r.dtype]} {value}, ptr {at}")
    _run(frame, child, low, high, grain, few)
    if partials:
        _merge(frame, scalars, partials)
    for c in reversed(copies):
        private.merge(frame, c, chunks)


def alone(frame: Frame, s: Loop | While, write: Callable[[Frame], None]) -> None:
    """A nest of a long kernel as a function that is called once. LLVM takes longer for two nests in
    one function than in two, and what is left of the kernel it need not optimise."""
    frame.runs += 1
    child = Frame(frame.module, parent=frame, nest=Nest())
    changed = assigned(s)
    outer = {v: child.capture(c, "ptr") for v, (c, _) in frame.cells.items() if v in changed}
    for v, cell in outer.items():
        dtype = frame.cells[v][1]
        child.variable(v, dtype)
        child.assign(v, child.code.let(f"load {REGISTER[dtype]}, ptr {cell}"))
    write(child)
    for v, cell in outer.items():
        child.code.put(f"store {REGISTER[child.cells[v][1]]} {child.scalar(v)}, ptr {cell}")
    _run(frame, child, *bounds(frame, s), "1", "true")
    frame.changed(outer)


def bounds(frame: Frame, s: Loop | While) -> tuple[Value, Value]:
    """The range of a loop's index, if it has one."""
    if isinstance(s, While):
        return "0", "0"
    return number(frame, s.low), number(frame, s.high)


def _run(
    frame: Frame, child: Frame, low: Value, high: Value, grain: Value, few: Value
) -> None:
    """Close the function of a range, and start it with its environment."""
    code, module = frame.code, frame.module
    child.code.put("ret i64 0")
    assert child.nest is not None
    child.nest.close(module)
    name = f"@part{len(module.functions)}"
    child.finish(f"define internal i64 {name}({PART}) noinline")
    env = code.first(f"alloca [{len(child.captured) + 3} x i64], align 8")
    for k, (value, type) in enumerate(child.captured):
        at = code.let(f"getelementptr i64, ptr {env}, i64 {k + 3}")
        code.put(f"store {type} {value}, ptr {at}")
    args = f"ptr {name}, ptr {env}, i64 {low}, i64 {high}, i64 {grain}, i1 {few}"
    leave_unless_zero(frame, code.let(f"call i64 @nap_run({args})"))


def is_little(frame: Frame, s: Loop) -> Value:
    """Whether a loop is not worth another thread's while."""
    trips = frame.code.minus(number(frame, s.high), number(frame, s.low))
    return _few(frame, trips, _grain(frame, _work(frame, s.work)))


def _few(frame: Frame, trips: Value, grain: Value) -> Value:
    """Whether there is one chunk at most."""
    code = frame.code
    if grain.lstrip("-").isdigit():
        return code.let(f"icmp sle i64 {trips}, {max(1, int(grain))}")
    least = code.let(f"call i64 @llvm.smax.i64(i64 {grain}, i64 1)")
    return code.let(f"icmp sle i64 {trips}, {least}")


def _cleared(frame: Frame, s: Loop) -> tuple[Value, int] | None:
    """The memory that a loop fills with zeros, element after element, and their size in bytes."""
    match s.body:
        case (Store(v, at, Lit(value, dtype)),) if literal(value, dtype) == literal(0, dtype):
            place = frame.place(v)
            if place.planes and s.var in variables(at[0]):
                return None
            if s.low == ZERO and offset(frame, place, at) == size(s.var):
                return first(frame, place, at), dtype.bytes
        case _:
            pass
    return None


@node
class _Partials:
    """An array of 8-byte results, one per chunk and reduction, and how many chunks there are."""

    pointer: Value
    chunks: Value


def _partials(
    frame: Frame, width: int, few: Value, low: Value, high: Value, grain: Value
) -> _Partials:
    """Room for the most chunks there can be: one loop after the other uses it."""
    if width not in frame.partials:
        frame.partials[width] = frame.code.first(f"alloca [{CHUNKS * width} x i64], align 8")
    return _Partials(frame.partials[width], _chunks(frame, few, low, high, grain))


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
    frame.changed(r.var for r in reductions)
    for k, r in enumerate(reductions):
        at = _partial(frame, partials.pointer, index, len(reductions), k)
        new = code.let(f"load {REGISTER[r.dtype]}, ptr {at}")
        frame.assign(r.var, combine(frame, r.monoid, frame.scalar(r.var), new, r.dtype))
    code.put(f"{after} = add nsw i64 {index}, 1")
    more = code.let(f"icmp slt i64 {after}, {partials.chunks}")
    short = frame.module.loop(*AS_IT_IS)
    code.branch(more, body, done, f", !llvm.loop !{short}")
    code.begin(done)


def _chunks(frame: Frame, few: Value, low: Value, high: Value, grain: Value) -> Value:
    """How many chunks there will be."""
    args = f"i64 {low}, i64 {high}, i64 {grain}, i1 {few}"
    return frame.code.let(f"call i64 @nap_parts({args})")


def _work(frame: Frame, work: Size) -> Value:
    """What an iteration takes, as far as that is known before the loop."""
    if work.constant is not None:
        return str(max(1, work.constant))
    known = Size(tuple((m, c) for m, c in work.terms if all(_outside(frame, a) for a in m)))
    return frame.code.let(f"call i64 @llvm.smax.i64(i64 {number(frame, known)}, i64 1)")


def _grain(frame: Frame, work: Value) -> Value:
    """How many iterations are worth a thread's while, or, less than 0, of how many such an
    iteration has the work."""
    if work.isdigit():
        return str(GRAIN // int(work) or -(int(work) // GRAIN))
    return frame.code.let(f"call i64 @nap_grain(i64 {work})")


def _outside(frame: Frame, a: Atom) -> bool:
    """Whether an atom of an estimate has a value here; one that depends on the loop has none."""
    match a:
        case Var():
            return frame.bound(a)
        case Quotient(x, y) | Remainder(x, y) | Clamp(x, y):
            return all(_outside(frame, b) for e in (x, y) for b in e.atoms)
        case _:
            return False
