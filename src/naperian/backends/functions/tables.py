"""Tables that functions look numbers up in.

Every function has its own, and looks up two numbers at a place, which lie beside each other.
AVX-512 gathers vectors of 64 bytes in about the time of their loads; others load both numbers of
a place at once, and sort them. A table is spelled as bytes: a thousand numbers would all be read,
by LLVM and by what goes over a module's text.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from naperian.backends.code import REGISTER, Value
from naperian.backends.functions.arith import Bits, Format, Real


def pair_at(name: str, place: Bits, pairs: Sequence[tuple[float, float]]) -> tuple[Real, Real]:
    """The two numbers at a place. Of the place the low bits count, as many as it takes: a NaN's
    are somewhere, too."""
    f = place.f
    symbol, most = f"@nap.{name}.f{f.dtype.bits}", (1 << (len(pairs) - 1).bit_length()) - 1
    f.tables[symbol] = _spelled(symbol, f, pairs, most + 1)
    place = place & most
    if f.lanes == 1:
        at = _pointer(f, symbol, place.value)
        return _loaded(f, at), _loaded(f, _next(f, at, "ptr"))
    if f.scales_at_once:
        pointers = f"<{f.lanes} x ptr>"
        at = f.code.let(f"getelementptr {_pair(f)}, ptr {symbol}, {f.integer} {place.value}")
        return _gathered(f, at), _gathered(f, _next(f, at, pointers))
    # every second pair in one vector, those between in another: the first of all, and the second
    even, odd = (_joined(f, [_pair_of(f, symbol, place, k) for k in range(half, f.lanes, 2)])
                 for half in (0, 1))  # fmt: skip
    first, second = (
        f.code.let(f"shufflevector {f.type} {even}, {f.type} {odd}, {_mask(order)}")
        for order in ([x + half for k in range(0, f.lanes, 2) for x in (k, f.lanes + k)]
                      for half in (0, 1))
    )  # fmt: skip
    return Real(f, first), Real(f, second)


def _spelled(symbol: str, f: Format, pairs: Sequence[tuple[float, float]], most: int) -> str:
    """The definition, with zeros up to its end."""
    kind = "d" if f.wide else "f"
    data = b"".join(struct.pack(f"<2{kind}", *pair) for pair in pairs)
    data = data.ljust(most * len(data) // len(pairs), b"\0")
    text = "".join(f"\\{x:02X}" for x in data)
    return f'{symbol} = internal unnamed_addr constant [{len(data)} x i8] c"{text}", align 16'


def _pair(f: Format) -> str:
    return f"<2 x {REGISTER[f.dtype]}>"


def _pointer(f: Format, symbol: str, place: Value) -> Value:
    return f.code.let(f"getelementptr {_pair(f)}, ptr {symbol}, i{f.dtype.bits} {place}")


def _next(f: Format, at: Value, pointers: str) -> Value:
    """Where the second number is."""
    return f.code.let(f"getelementptr {REGISTER[f.dtype]}, {pointers} {at}, i32 1")


def _loaded(f: Format, at: Value) -> Real:
    return Real(f, f.code.let(f"load {f.type}, ptr {at}"))


def _gathered(f: Format, at: Value) -> Real:
    gather = f"@llvm.masked.gather.{f.suffix}.v{f.lanes}p0"
    pointers = f"<{f.lanes} x ptr> {at}, i32 {f.dtype.bytes}"
    rest = f"{f.flag} {f.constant('i1', 'true')}, {f.type} poison"
    return Real(f, f.code.let(f"call {f.type} {gather}({pointers}, {rest})"))


def _pair_of(f: Format, symbol: str, place: Bits, lane: int) -> Value:
    one = f.code.let(f"extractelement {f.integer} {place.value}, i32 {lane}")
    return f.code.let(f"load {_pair(f)}, ptr {_pointer(f, symbol, one)}")


def _joined(f: Format, parts: list[Value]) -> Value:
    """Vectors of two numbers as one."""
    size = 2
    while len(parts) > 1:
        type, order = f"<{size} x {REGISTER[f.dtype]}>", _mask(list(range(2 * size)))
        two = zip(parts[::2], parts[1::2], strict=True)
        parts = [f.code.let(f"shufflevector {type} {x}, {type} {y}, {order}") for x, y in two]
        size *= 2
    return parts[0]


def _mask(order: list[int]) -> str:
    return f"<{len(order)} x i32> <{', '.join(f'i32 {k}' for k in order)}>"
