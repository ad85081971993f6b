"""A loop that copies elements which lie side by side, or clears them, is one call.

LLVM would make vectors of it, four at a time, vectors for the rest and single elements for what is
left then: more to compile than most loops that compute something. Rows of a few elements are
better copied here than by a call, and how long rows are is not known: so it is done once a
function, or where memory was allocated anyway, which takes longer than the call.
"""

from __future__ import annotations

from naperian.backends.code import Value, literal
from naperian.backends.frame import Frame, Place
from naperian.backends.indexing import element, first, offset
from naperian.backends.traits import trips
from naperian.loops.syntax import Expr, Load, Loop, Order, Store
from naperian.loops.walk import used_in
from naperian.names import Lit, Var
from naperian.sizes import Size, size

_FEW = 16  # elements, if their number is known: no call is worth it


def in_bulk(frame: Frame, s: Loop, low: Value, high: Value) -> bool:
    """Whether the loop from `low` to `high` was written as one call."""
    if s.order is Order.LANES or trips(low, high) <= _FEW or len(s.body) != 1:
        return False
    match s.body[0]:
        case Store(to, there, Load(source, here)) if not frame.by_value(source):
            return _copied(frame, s.var, (to, there), (source, here), low, high)
        case Store(to, there, Lit() as value) if _is_zero(value):
            return _cleared(frame, s.var, (to, there), low, high)
        case _:
            return False


def _copied(
    frame: Frame,
    v: Var,
    to: tuple[Var, tuple[Size, ...]],
    source: tuple[Var, tuple[Size, ...]],
    low: Value,
    high: Value,
) -> bool:
    """y[i + …] = x[i + …]: two arrays that are not one memory do not overlap."""
    out, value = frame.place(to[0]), frame.place(source[0])
    same = frame.memory(out) == frame.memory(value)
    if same or out.buffer.dtype is not value.buffer.dtype:
        return False
    if not (_is_once(frame, to[0]) or _is_once(frame, source[0])):
        return False
    distances = [_distance(frame, v, p, at) for p, (_, at) in ((out, to), (value, source))]
    if distances[0] is None or distances[1] is None:
        return False
    bytes = _bytes(frame, out, low, high)
    y = _start(frame, out, to[1], distances[0], low)
    x = _start(frame, value, source[1], distances[1], low)
    align = f"align {out.buffer.dtype.bytes}"
    frame.code.put(
        f"call void @llvm.memcpy.p0.p0.i64(ptr {align} {y}, ptr {align} {x}, i64 {bytes}, i1 false)"
    )
    return True


def _cleared(
    frame: Frame, v: Var, to: tuple[Var, tuple[Size, ...]], low: Value, high: Value
) -> bool:
    """y[i + …] = 0"""
    out = frame.place(to[0])
    distance = _distance(frame, v, out, to[1])
    if distance is None or not _is_once(frame, to[0]):
        return False
    bytes = _bytes(frame, out, low, high)
    y = _start(frame, out, to[1], distance, low)
    align = f"align {out.buffer.dtype.bytes}"
    frame.code.put(f"call void @llvm.memset.p0.i64(ptr {align} {y}, i8 0, i64 {bytes}, i1 false)")
    return True


def _is_once(frame: Frame, v: Var) -> bool:
    """Whether this is done once a function, or as often as memory for an array is allocated."""
    return frame.depth == 0 or frame.heap.get(v) == frame.depth


def _is_zero(e: Expr) -> bool:
    return isinstance(e, Lit) and literal(e.value, e.dtype) == literal(0, e.dtype)


def _distance(frame: Frame, v: Var, place: Place, at: tuple[Size, ...]) -> Size | None:
    """How far the element for v = 0 is from the array's first, if it is one further for each v."""
    if place.planes and v in used_in(at[0]):
        return None
    distance = offset(frame, place, at) - size(v)
    return None if v in used_in(distance) else distance


def _bytes(frame: Frame, place: Place, low: Value, high: Value) -> Value:
    code = frame.code
    count = code.minus(high, low)
    if not count.lstrip("-").isdigit():
        count = code.let(f"call i64 @llvm.smax.i64(i64 {count}, i64 0)")
    return code.let(f"mul nsw i64 {count}, {place.buffer.dtype.bytes}")


def _start(
    frame: Frame, place: Place, at: tuple[Size, ...], distance: Size, low: Value
) -> Value:
    here = Place(first(frame, place, at), place.buffer, place.strides)
    pointer, bits = element(frame, here, distance), 8 * place.buffer.dtype.bytes
    return frame.code.let(f"getelementptr i{bits}, ptr {pointer}, i64 {low}")
