"""The ways out of a kernel: polls, statuses, and memory that must be freed.

A function keeps *fuel*, additions until the next poll. Short loops burn theirs when they end,
long ones look whether it has run out.
"""

from __future__ import annotations

from naperian.backends.code import Value
from naperian.backends.frame import Frame
from naperian.loops.syntax import Loop

INTERRUPTED, NO_MEMORY = -1, -2
FUEL = 1 << 20  # additions between two polls: about a millisecond


def work_of(frame: Frame, s: Loop, low: Value, high: Value) -> Value:
    code = frame.code
    work = s.work.constant or 1
    trips = code.minus(high, low)
    if trips.lstrip("-").isdigit():
        return str(max(0, int(trips)) * work)
    trips = code.let(f"call i64 @llvm.smax.i64(i64 {trips}, i64 0)")
    return code.let(f"mul i64 {trips}, {work}") if work > 1 else trips


def burn(frame: Frame, amount: Value) -> Value:
    """Fuel is taken; what is left."""
    code, fuel = frame.code, frame.slot("fuel", FUEL)
    before, kept = "  store i64 ", f", ptr {fuel}"
    if code.lines and code.lines[-1].startswith(before) and code.lines[-1].endswith(kept):
        left = code.lines.pop()[len(before) : -len(kept)]  # just burnt, too
    else:
        left = code.let(f"load i64, ptr {fuel}")
    left = code.let(f"sub i64 {left}, {amount}")
    code.lines.append(f"{before}{left}{kept}")
    return left


def burn_and_poll(frame: Frame, amount: Value) -> None:
    """Fuel is taken, and if none is left somebody is asked whether to go on."""
    code, fuel = frame.code, frame.slot("fuel", FUEL)
    left = burn(frame, amount)
    due, go = code.label("due"), code.label("go")
    rarely = ', !prof !{!"branch_weights", i32 1, i32 1000000}'
    code.branch(code.let(f"icmp slt i64 {left}, 0"), due, go, rarely)
    code.begin(due)
    code.put(f"store i64 {FUEL}, ptr {fuel}")
    leave_unless_zero(frame, code.let("call i64 @nap_poll()"), go)


def poll(frame: Frame) -> None:
    leave_unless_zero(frame, frame.code.let("call i64 @nap_poll()"))


def leave_unless_zero(frame: Frame, status: Value, go: str = "") -> None:
    """Leave the function with a status that is not 0; else go on behind a new label, or `go`."""
    _leave_if(frame, frame.code.let(f"icmp ne i64 {status}, 0"), status, go)


def _leave_if(frame: Frame, condition: Value, status: Value, go: str = "") -> None:
    """Leave with a status if the condition holds. Nobody asks for the status who does not leave, so
    that it is stored on either way: a block for each way out is a fifth of all blocks."""
    code = frame.code
    go = go or code.label("go")
    code.put(f"store i64 {status}, ptr {frame.slot('status', 0)}")
    code.branch(condition, frame.exits[-1], go)
    code.begin(go)


def allocated(frame: Frame, bytes: Value) -> Value:
    """Heap memory; the function is left if there is none."""
    code = frame.code
    pointer = code.let(f"call ptr @nap_alloc(i64 {bytes})")
    _leave_if(frame, code.let(f"icmp eq ptr {pointer}, null"), str(NO_MEMORY))
    return pointer


def hold(frame: Frame, pointer: Value) -> None:
    """Until `exits` is popped, leaving the function frees the pointer."""
    label = frame.code.label("free")
    frame.cleanups += [
        f"{label}:",
        f"  call void @nap_free(ptr {pointer})",
        f"  br label %{frame.exits[-1]}",
    ]
    frame.exits.append(label)
