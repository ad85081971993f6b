"""What a loop reads soon is fetched, where the third-level cache is far.

A processor fetches by itself what lies behind what is read. But while a loop waits for what it has
updated or looked up, it does not get far: a loop that adds up by key reads its keys at half of the
memory's rate, and one that does nothing else at all of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from naperian.backends.code import Value
from naperian.backends.frame import Frame
from naperian.backends.indexing import element, offset
from naperian.backends.products.strides import constant, stride
from naperian.backends.traits import is_ragged_sum
from naperian.loops.syntax import Let, Load, Loop, Role, Update
from naperian.loops.walk import atoms, gathers, loads, statements, used_in
from naperian.names import Var
from naperian.sizes import ONE, Size

AHEAD = 4096  # bytes from an element on: what a loop reads hundreds of rounds later
NEXT = 1024  # bytes from a row on: what rows of a few elements read some rows later
LINE = 64  # bytes that caches fetch


def updates_far(frame: Frame, s: Loop) -> bool:
    """Whether a loop updates where it has read that it should, along arrays."""
    if not frame.module.target.is_far or any(isinstance(x, Loop) for x in statements(s.body)):
        return False
    own = {x.var for x in statements(s.body) if isinstance(x, Let)}
    places = [i for x in statements(s.body) if isinstance(x, Update) for i in x.at]
    told = any(isinstance(a, Load) or a in own for i in places for a in atoms(i))
    return told and any(_streams(frame, s))


def a_line(frame: Frame, s: Loop) -> int:
    """How many rounds read a line of the cache, of the array with the largest elements."""
    return LINE // max(frame.place(b).buffer.dtype.bytes for b, _ in _streams(frame, s))


def looks_up_rows(frame: Frame, s: Loop) -> bool:
    """Whether a loop adds up a row, as long as memory says, of what it looks up."""
    return frame.module.target.is_far and is_ragged_sum(s) and gathers(s)


def fetch(frame: Frame, s: Loop, at: Value, rounds: int, ahead: int) -> None:
    """What so many rounds read, so many bytes from where it is read in round `at`."""
    code = frame.code
    for buffer, there in _streams(frame, s):
        place = frame.place(buffer)
        size = place.buffer.dtype.bytes
        first = element(frame, place, constant(there, {s.var}))
        scaled = code.let(f"mul i64 {at}, {size}")
        first = code.let(f"getelementptr i8, ptr {first}, i64 {scaled}")
        for line in range(ahead, ahead + rounds * size, LINE):
            to = code.let(f"getelementptr i8, ptr {first}, i64 {line}")
            code.put(f"call void @llvm.prefetch.p0(ptr {to}, i32 0, i32 3, i32 1)")


def _streams(frame: Frame, s: Loop) -> Iterator[tuple[Var, Size]]:
    """The arrays that a loop goes along, element by element, and where."""
    inner = {s.var, *(x.var for x in statements(s.body) if isinstance(x, Let))}
    read = dict.fromkeys((x.buffer, x.at) for t in statements(s.body) for x in loads(t))
    for buffer, at in read:
        if frame.by_value(buffer) or frame.place(buffer).buffer.role is Role.TEMP:
            continue
        there = offset(frame, frame.place(buffer), at)
        if stride(there, s.var) == ONE and inner.isdisjoint(used_in(constant(there, {s.var}))):
            yield buffer, there
