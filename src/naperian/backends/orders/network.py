"""A few numbers in order, in registers: a sorting network.

The registers are the rows of a matrix. Its columns are sorted by comparing whole registers; then
neighbouring columns are merged, two, four … at a time, until all are one sequence that goes down
the columns; and the matrix is transposed. To merge, the elements of one half are compared with
those of the other, backwards, and the halves put in order by ever closer comparisons: first between
lanes, which takes shuffles, then between registers, which takes none.

An element is a code, or a code and its place, which decides between equal codes.
"""

from __future__ import annotations

from typing import TypeAlias

from naperian.backends.code import Code, Value
from naperian.node import node

Element: TypeAlias = tuple[Value, ...]
"""Vectors of codes and, if there are some, of their places."""
Lanes: TypeAlias = tuple[int, ...]
"""For each lane of a register, which element it has."""


@node
class Shape:
    """Vectors of `lanes` integers of `bits`, `parts` of them for an element."""

    bits: int
    lanes: int
    parts: int = 1

    @property
    def scalar(self) -> str:
        return f"i{self.bits}"

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x i{self.bits}>"

    @property
    def mask(self) -> str:
        return f"<{self.lanes} x i1>"

    @property
    def suffix(self) -> str:
        return f"v{self.lanes}i{self.bits}"

    def constant(self, *values: int) -> Value:
        """A vector of these, or all of one."""
        values = values if len(values) > 1 else values * self.lanes
        return "<" + ", ".join(f"{self.scalar} {x}" for x in values) + ">"


def ordered(code: Code, s: Shape, rows: list[Element]) -> list[Element]:
    """The elements in order: a power of two of registers, at least two, row by row."""
    rows, count = [*rows], len(rows)
    for i, j in _comparisons(count):
        rows[i], rows[j] = _exchanged(code, s, rows[i], rows[j])
    columns = 2
    while columns <= s.lanes:
        for i in range(count // 2):
            j = count - 1 - i
            rows[i], rows[j] = _across(code, s, rows[i], rows[j], columns)
        distance = count // 2
        while distance:
            for i in (k for k in range(count) if not k & distance):
                rows[i], rows[i + distance] = _exchanged(code, s, rows[i], rows[i + distance])
            distance //= 2
        columns *= 2
    return _transposed(code, s, rows)


def _comparisons(n: int) -> list[tuple[int, int]]:
    """Batcher's network for n rows, a power of two."""
    found = []
    p = 1
    while p < n:
        k = p
        while k:
            for j in range(k % p, n - k, 2 * k):
                for i in range(j, min(j + k, n - k)):
                    if i // (2 * p) == (i + k) // (2 * p):
                        found.append((i, i + k))
            k //= 2
        p *= 2
    return found


def before(code: Code, s: Shape, a: Element, b: Element, type: str, how: str = "slt") -> Value:
    """Whether `a` comes before `b`, element by element; with `sle` also if it is the same."""
    if s.parts == 1:
        return code.let(f"icmp {how} {type} {a[0]}, {b[0]}")
    bit = s.mask if type == s.vector else "i1"
    less, same = (code.let(f"icmp {c} {type} {a[0]}, {b[0]}") for c in ("slt", "eq"))
    first = code.let(f"icmp {how} {type} {a[1]}, {b[1]}")
    return code.let(f"or {bit} {less}, {code.let(f'and {bit} {same}, {first}')}")


def _exchanged(code: Code, s: Shape, a: Element, b: Element) -> tuple[Element, Element]:
    """The lesser and the greater ones."""
    if s.parts == 1:
        v = s.vector
        less, more = (code.let(f"call {v} @llvm.{m}.{s.suffix}({v} {a[0]}, {v} {b[0]})")
                      for m in ("smin", "smax"))  # fmt: skip
        return (less,), (more,)
    swap = before(code, s, b, a, s.vector)

    def chosen(x: Element, y: Element) -> Element:
        return tuple(
            code.let(f"select {s.mask} {swap}, {s.vector} {p}, {s.vector} {q}")
            for p, q in zip(x, y, strict=True)
        )

    return chosen(b, a), chosen(a, b)


def _gathered(
    code: Code, s: Shape, held: tuple[Element, Element], lanes: tuple[Lanes, Lanes], want: Lanes
) -> Element:
    """A register whose lanes have the elements wanted, of two that have them."""
    where = {x: k for k, x in enumerate((*lanes[0], *lanes[1]))}
    mask = ", ".join(f"i32 {where[x]}" for x in want)
    return tuple(
        code.let(f"shufflevector {s.vector} {a}, {s.vector} {b}, <{len(want)} x i32> <{mask}>")
        for a, b in zip(*held, strict=True)
    )


def _across(
    code: Code, s: Shape, a: Element, b: Element, columns: int, turned: bool = False
) -> tuple[Element, Element]:
    """The comparisons between lanes where so many columns become one sequence, of a row and its
    mirror image; or of any two rows, if half of the columns are turned around already. Lane x of
    `a` is element x, that of `b` is element `lanes` + x."""
    n = s.lanes
    rows = tuple(range(n)), tuple(range(n, 2 * n))
    held, lanes = (a, b), rows
    distance = columns // 2
    while distance:
        low = tuple(x if not x & distance else n + x - distance for x in range(n))
        if distance == columns // 2 and not turned:  # with the other row, backwards
            high = tuple((x + n) % (2 * n) ^ (columns - 1) for x in low)
        else:
            high = tuple(x ^ distance for x in low)
        held = _exchanged(code, s, *(_gathered(code, s, held, lanes, w) for w in (low, high)))
        lanes = low, high
        distance //= 2
    return _gathered(code, s, held, lanes, rows[0]), _gathered(code, s, held, lanes, rows[1])


def joined(code: Code, s: Shape, low: list[Element], high: list[Element]) -> list[Element]:
    """Two runs of as many registers, each in order, as one: the second is turned around."""
    back = tuple(reversed(range(s.lanes)))
    lanes = back, tuple(-1 - x for x in back)
    turned = [_gathered(code, s, (x, x), lanes, tuple(range(s.lanes))) for x in reversed(high)]
    rows = [*low, *turned]
    distance = len(low)
    while distance:
        for i in (k for k in range(len(rows)) if not k & distance):
            rows[i], rows[i + distance] = _exchanged(code, s, rows[i], rows[i + distance])
        distance //= 2
    for i in range(0, len(rows), 2):
        rows[i : i + 2] = _across(code, s, rows[i], rows[i + 1], s.lanes, turned=True)
    return rows


def _transposed(code: Code, s: Shape, rows: list[Element]) -> list[Element]:
    """Elements that go down the columns, row by row: bits of a row's number change places with
    bits of a lane's."""
    count, n = len(rows), s.lanes
    lanes = [tuple(x * count + r for x in range(n)) for r in range(count)]
    steps = min(count, n).bit_length() - 1
    for k in range(steps):
        row, lane = 1 << k, n >> (steps - k)
        for r in (r for r in range(count) if not r & row):
            held, of = (rows[r], rows[r + row]), (lanes[r], lanes[r + row])
            pairs = [(of[0][x], of[0][x + lane], of[1][x], of[1][x + lane])
                     for x in range(n) if not x & lane]  # fmt: skip
            low, high = [0] * n, [0] * n
            for x, (p, q, u, v) in zip((x for x in range(n) if not x & lane), pairs, strict=True):
                low[x], low[x + lane], high[x], high[x + lane] = p, u, q, v
            lanes[r], lanes[r + row] = tuple(low), tuple(high)
            rows[r] = _gathered(code, s, held, of, lanes[r])
            rows[r + row] = _gathered(code, s, held, of, lanes[r + row])
    out = [*rows]
    for r in range(count):
        first = min(lanes[r])
        want = tuple(range(first, first + n))
        same = (rows[r], rows[r]), (lanes[r], tuple(-1 - x for x in range(n)))
        out[first // n] = rows[r] if lanes[r] == want else _gathered(code, s, *same, want)
    return out
