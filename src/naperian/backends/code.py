"""LLVM IR as text: the lines of one function as they grow, and how scalars are spelled."""

from __future__ import annotations

import struct
from dataclasses import field

from naperian.backends.lifted import lifted
from naperian.dtypes import DType
from naperian.node import mutable

Value = str  # an operand as LLVM spells it: `%v7`, `4`, `0x3FF0000000000000`

REGISTER: dict[DType, str] = {
    DType.BOOL: "i1",
    DType.F32: "float",
    DType.F64: "double",
} | {d: f"i{d.bits}" for d in DType if d.is_integer}
"""The type of a scalar in a register."""

MEMORY: dict[DType, str] = REGISTER | {DType.BOOL: "i8"}
"""The type of an array's element: NumPy's Booleans are bytes 0 and 1."""


def literal(value: bool | int | float, dtype: DType) -> Value:
    """A constant. Floats are spelled by their bits as a double, as LLVM wants both widths."""
    if dtype is DType.BOOL:
        return "true" if value else "false"
    if dtype.is_float:
        number = float(value)
        if dtype is DType.F32:
            number = _single(number)
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    return str(int(value))


def _single(x: float) -> float:
    try:
        narrowed: float = struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return float("inf") if x > 0 else float("-inf")
    return narrowed


@mutable
class Code:
    """One function's text. `entry` is what its first block starts with (stack slots, loads of
    arguments); it may grow while later blocks are written."""

    entry: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    loops: list[tuple[int, int]] = field(default_factory=list)  # where they begin and end
    block: str = "entry"
    count: int = 0

    def name(self) -> Value:
        self.count += 1
        return f"%v{self.count}"

    def let(self, operation: str) -> Value:
        """Name the result of an operation, here."""
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"  {name} = {operation}")
        return name

    def minus(self, a: Value, b: Value) -> Value:
        """a - b, of 64 bits; of numbers it is a number."""
        if b == "0":
            return a
        if a.lstrip("-").isdigit() and b.lstrip("-").isdigit():
            return str(int(a) - int(b))
        return self.let(f"sub nsw i64 {a}, {b}")

    def first(self, operation: str) -> Value:
        """Name the result of an operation, in the entry block."""
        name = self.name()
        self.entry.append(f"  {name} = {operation}")
        return name

    def put(self, line: str) -> None:
        self.lines.append("  " + line)

    def label(self, hint: str) -> str:
        """A new block's name."""
        self.count += 1
        return f"{hint}{self.count}"

    def begin(self, label: str) -> None:
        """From here on the lines belong to a block; the one before has its terminator."""
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        self.put(f"br label %{label}")

    def branch(self, condition: Value, yes: str, no: str, note: str = "") -> None:
        self.put(f"br i1 {condition}, label %{yes}, label %{no}{note}")

    def text(self) -> str:
        return "\n".join(["entry:", *self.entry, *lifted(self.lines, self.loops)])
