"""Floating-point arithmetic written as Python expressions and emitted as LLVM IR.

`Real` is a float in a register, `Bits` an integer of the same width, `Flag` an i1, or a vector of
so many lanes of them. No operation here carries a fast-math flag: error-free transformations rely
on what is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from naperian.backends.code import REGISTER, Code, Value, literal
from naperian.dtypes import DType
from naperian.node import node, replace


@node
class Format:
    """A floating-point format and the function being written in it. Where it is written for usual
    arguments only, `rare` are the flags of the others. `scales`: see `Target`. `tables` are the
    definitions of those that it reads."""

    code: Code
    dtype: DType
    lanes: int = 1
    rare: list[Value] | None = None
    scales: bool = False
    tables: dict[str, str] = field(default_factory=dict)

    @property
    def usual(self) -> bool:
        return self.rare is not None

    @property
    def scales_at_once(self) -> bool:
        """Whether there is `times_power`."""
        return self.scales and self.lanes * self.dtype.bits == 512

    @property
    def type(self) -> str:
        return self._wide(REGISTER[self.dtype])

    @property
    def integer(self) -> str:
        return self._wide(f"i{self.dtype.bits}")

    @property
    def flag(self) -> str:
        return self._wide("i1")

    @property
    def suffix(self) -> str:
        return f"{f'v{self.lanes}' if self.lanes > 1 else ''}f{self.dtype.bits}"

    def _wide(self, scalar: str) -> str:
        return f"<{self.lanes} x {scalar}>" if self.lanes > 1 else scalar

    def constant(self, scalar: str, value: Value) -> Value:
        return f"splat ({scalar} {value})" if self.lanes > 1 else value

    @property
    def wide(self) -> bool:
        return self.dtype is DType.F64

    @property
    def mantissa(self) -> int:
        """Stored bits of the significand."""
        return 52 if self.wide else 23

    @property
    def bias(self) -> int:
        return 1023 if self.wide else 127

    def real(self, x: float) -> Real:
        return Real(self, self.constant(REGISTER[self.dtype], literal(x, self.dtype)))

    def bits(self, n: int) -> Bits:
        """An integer constant, given as an unsigned pattern or a signed number."""
        width = self.dtype.bits
        n &= (1 << width) - 1
        value = str(n - (1 << width) if n >> (width - 1) else n)
        return Bits(self, self.constant(f"i{width}", value))

    def pick(self, wide: float, narrow: float) -> float:
        return wide if self.wide else narrow

    def power(self, exponent: Bits) -> Real:
        """2^exponent, for an exponent in the normal range, of which the low bits are enough."""
        return ((exponent + self.bias) << self.mantissa).as_real()


@node
class Flag:
    f: Format
    value: Value

    def _with(self, op: str, other: Flag) -> Flag:
        return Flag(self.f, self.f.code.let(f"{op} {self.f.flag} {self.value}, {other.value}"))

    def __and__(self, other: Flag) -> Flag:
        return self._with("and", other)

    def __or__(self, other: Flag) -> Flag:
        return self._with("or", other)

    def __xor__(self, other: Flag) -> Flag:
        return self._with("xor", other)

    def __invert__(self) -> Flag:
        f = self.f
        return Flag(f, f.code.let(f"xor {f.flag} {self.value}, {f.constant('i1', 'true')}"))

    def choose(self, yes: Real | float, no: Real | float) -> Real:
        f = self.f
        a, b = _real(f, yes).value, _real(f, no).value
        return Real(f, f.code.let(f"select {f.flag} {self.value}, {f.type} {a}, {f.type} {b}"))

    def is_rare(self) -> None:
        """For usual arguments it does not hold, so the rest need not ask."""
        if self.f.rare is not None:
            self.f.rare.append(self.value)

    def rarely(self, yes: Real | float, no: Real | float) -> Real:
        """`choose`, of what hardly ever holds."""
        if not self.f.usual:
            return self.choose(yes, no)
        self.is_rare()
        return _real(self.f, no)

    def mostly(self, yes: Real | float, no: Real | float) -> Real:
        """`choose`, of what nearly always holds."""
        if not self.f.usual:
            return self.choose(yes, no)
        (~self).is_rare()
        return _real(self.f, yes)


@node
class Bits:
    f: Format
    value: Value

    def _with(self, op: str, other: Bits | int) -> Bits:
        o = self.f.bits(other) if isinstance(other, int) else other
        return Bits(self.f, self.f.code.let(f"{op} {self.f.integer} {self.value}, {o.value}"))

    def __add__(self, other: Bits | int) -> Bits:
        return self._with("add", other)

    def __sub__(self, other: Bits | int) -> Bits:
        return self._with("sub", other)

    def __and__(self, other: Bits | int) -> Bits:
        return self._with("and", other)

    def __or__(self, other: Bits | int) -> Bits:
        return self._with("or", other)

    def __xor__(self, other: Bits | int) -> Bits:
        return self._with("xor", other)

    def __lshift__(self, other: int) -> Bits:
        return self._with("shl", other)

    def __rshift__(self, other: int) -> Bits:
        """Fills with zeros."""
        return self._with("lshr", other)

    def test(self, mask: int) -> Flag:
        """Whether any bit of the mask is set."""
        f, both = self.f, self & mask
        return Flag(f, f.code.let(f"icmp ne {f.integer} {both.value}, {f.bits(0).value}"))

    def as_real(self) -> Real:
        f = self.f
        return Real(f, f.code.let(f"bitcast {f.integer} {self.value} to {f.type}"))


@node
class Real:
    f: Format
    value: Value

    def _with(self, op: str, other: Real | float) -> Real:
        o = _real(self.f, other)
        return Real(self.f, self.f.code.let(f"{op} {self.f.type} {self.value}, {o.value}"))

    def _compare(self, op: str, other: Real | float) -> Flag:
        o = _real(self.f, other)
        return Flag(self.f, self.f.code.let(f"fcmp {op} {self.f.type} {self.value}, {o.value}"))

    def _call(self, name: str, *more: Real) -> Real:
        f = self.f
        args = ", ".join(f"{f.type} {x.value}" for x in (self, *more))
        return Real(f, f.code.let(f"call {f.type} @llvm.{name}.{f.suffix}({args})"))

    def __add__(self, other: Real | float) -> Real:
        return self._with("fadd", other)

    def __radd__(self, other: float) -> Real:
        return _real(self.f, other) + self

    def __sub__(self, other: Real | float) -> Real:
        return self._with("fsub", other)

    def __rsub__(self, other: float) -> Real:
        return _real(self.f, other) - self

    def __mul__(self, other: Real | float) -> Real:
        return self._with("fmul", other)

    def __rmul__(self, other: float) -> Real:
        return _real(self.f, other) * self

    def __truediv__(self, other: Real | float) -> Real:
        return self._with("fdiv", other)

    def __rtruediv__(self, other: float) -> Real:
        return _real(self.f, other) / self

    def __neg__(self) -> Real:
        return Real(self.f, self.f.code.let(f"fneg {self.f.type} {self.value}"))

    def __lt__(self, other: Real | float) -> Flag:
        return self._compare("olt", other)

    def __le__(self, other: Real | float) -> Flag:
        return self._compare("ole", other)

    def __gt__(self, other: Real | float) -> Flag:
        return self._compare("ogt", other)

    def __ge__(self, other: Real | float) -> Flag:
        return self._compare("oge", other)

    def is_(self, other: Real | float) -> Flag:
        """Equal (a NaN is not)."""
        return self._compare("oeq", other)

    def is_not(self, other: Real | float) -> Flag:
        """Different, or either is NaN."""
        return self._compare("une", other)

    def is_nan(self) -> Flag:
        return self._compare("uno", self)

    def fma(self, by: Real | float, plus: Real | float) -> Real:
        """self·by + plus, rounded once."""
        return self._call("fma", _real(self.f, by), _real(self.f, plus))

    def mad(self, by: Real | float, plus: Real | float) -> Real:
        """self·by + plus, rounded once or twice, whichever is faster."""
        return self._call("fmuladd", _real(self.f, by), _real(self.f, plus))

    def abs(self) -> Real:
        return self._call("fabs")

    def sqrt(self) -> Real:
        return self._call("sqrt")

    def floor(self) -> Real:
        return self._call("floor")

    def trunc(self) -> Real:
        return self._call("trunc")

    def signed_as(self, other: Real) -> Real:
        return self._call("copysign", other)

    def at_most(self, high: float) -> Real:
        """A NaN stays."""
        return (self > high).choose(high, self)

    def at_least(self, low: float) -> Real:
        """A NaN stays."""
        return (self < low).choose(low, self)

    def within(self, low: float, high: float) -> Real:
        """The nearest number from low to high, which it nearly always is itself. A NaN stays."""
        if not self.f.usual:
            return self.at_most(high).at_least(low)
        (~((self >= low) & (self <= high))).is_rare()
        return self

    def as_bits(self) -> Bits:
        f = self.f
        return Bits(f, f.code.let(f"bitcast {f.type} {self.value} to {f.integer}"))

    def negative(self) -> Flag:
        """Whether the sign bit is set, also of a zero."""
        f = self.f
        bits = self.as_bits().value
        return Flag(f, f.code.let(f"icmp slt {f.integer} {bits}, {f.bits(0).value}"))

    def poly(self, coefficients: Sequence[Real | float]) -> Real:
        """Σ coefficients[k]·self^k."""
        total = _real(self.f, coefficients[-1])
        for c in reversed(coefficients[:-1]):
            total = total.mad(self, c)
        return total

    def long_poly(self, coefficients: Sequence[float]) -> Real:
        """`poly` in pairs, pairs of pairs, … that need not wait for each other (Estrin): a few
        multiplications more, a third of the latency. The last three wait as long for each other as
        for the power of the third."""
        terms, power = [self.f.real(c) for c in coefficients], self
        while len(terms) > 1:
            if len(terms) == 3:
                return power.mad(power.mad(terms[2], terms[1]), terms[0])
            pairs = zip(terms[::2], terms[1::2], strict=False)
            terms = [power.mad(y, x) for x, y in pairs] + terms[len(terms) & ~1 :]
            power = power * power
        return terms[0]

    def nearest(self, times: float = 1.0, more: int = 0) -> tuple[Real, Bits]:
        """The nearest integer to a number, times another, that is well below 2^mantissa, as a
        number, and in the low bits of an integer: adding 1.5·2^mantissa leaves it there. There an
        even number `more` is added to it."""
        magic = self.f.real(1.5 * 2.0**self.f.mantissa + more)
        shifted = self + magic if times == 1.0 else self.mad(times, magic)
        return shifted - magic, shifted.as_bits()

    def times_power(self, n: Real) -> Real:
        """self·2^n, n whole, rounded once, in vectors of 64 bytes: an instruction of AVX-512."""
        f = self.f
        kind, mask = ("pd", "i8") if f.wide else ("ps", "i16")
        x = f"{f.type} {self.value}"
        args = f"{x}, {f.type} {n.value}, {x}, {mask} -1, i32 4"
        symbol = f"@llvm.x86.avx512.mask.scalef.{kind}.512"
        return Real(f, f.code.let(f"call {f.type} {symbol}({args})"))

    def widened(self) -> Real:
        f = self.f
        wide = replace(f, dtype=DType.F64)
        return Real(wide, f.code.let(f"fpext {f.type} {self.value} to {wide.type}"))

    def narrowed(self) -> Real:
        f = self.f
        narrow = replace(f, dtype=DType.F32)
        return Real(narrow, f.code.let(f"fptrunc {f.type} {self.value} to {narrow.type}"))


def _real(f: Format, x: Real | float) -> Real:
    return x if isinstance(x, Real) else f.real(x)
