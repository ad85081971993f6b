"""Scalar expressions → LLVM IR, with exactly the meaning of `prims`."""

from __future__ import annotations

from naperian.backends.code import REGISTER, Code, Value, literal
from naperian.backends.frame import Frame
from naperian.backends.functions.powers import NAMES as POWER_NAMES
from naperian.backends.indexing import (
    as_integer,
    floor_division,
    floor_remainder,
    last_of,
    load,
    number,
)
from naperian.backends.waiting import waiting
from naperian.dtypes import DType
from naperian.loops.syntax import Apply, Expr, Load, Local, Number
from naperian.loops.walk import parts, used
from naperian.names import Lit
from naperian.prims import PRIMITIVES, Kind, Math, unit
from naperian.sizes import Clamp, Size

_FLAGS = {Math.DEFAULT: "contract", Math.STRICT: "", Math.FAST: "reassoc nsz arcp contract afn"}
"""The fast-math flags of an operation. Never `nnan` or `ninf`."""


def expression(frame: Frame, e: Expr, regrouped: bool = False, apart: bool = False) -> Value:
    """The value of an expression; its outermost operation may be `regrouped` with others, or stays
    `apart` from the next one."""
    match e:
        case Local():
            return frame.scalar(e.var)
        case Load():
            return load(frame, e.buffer, e.at)
        case Lit():
            return literal(e.value, e.dtype)
        case Number():
            return number(frame, e.value)
        case Apply("ne", (Load() as key, Number(at))) if is_clamped(at, key):
            return _outside(frame, key, at)
        case Apply():
            return _operation(frame, waiting(frame, e), regrouped, apart)


def _operation(frame: Frame, e: Expr, regrouped: bool, apart: bool) -> Value:
    match e:
        case Apply(name, args, dtype, operand):
            early = _early(frame, e) if frame.late and operand.is_float else None
            if early is not None and name in ("add", "sub") and not _is_strict(frame):
                found = _beside_extreme(frame, e, early)
                if found is not None:
                    return apply(frame, name, found, operand, dtype, regrouped, apart)
            product = isinstance(early, Apply) and early.name == "mul"
            values = [expression(frame, a, apart=product and a is early) for a in args]
            if early is not None and name in ("min", "max") and not _is_strict(frame):
                known, late = values if args[0] is early else reversed(values)
                return _extreme(frame, name, operand, known, late)
            if name in ("min", "max") and operand.is_float and _is_later(frame, *args):
                values.reverse()  # the first is asked whether it is a NaN: the one known before
            return apply(frame, name, values, operand, dtype, regrouped, apart)
        case _:
            return expression(frame, e, regrouped, apart)


def _is_later(frame: Frame, a: Expr, b: Expr) -> bool:
    """Whether the first of two numbers is probably known later: what is so far, or computed."""
    so_far = [isinstance(e, Local) and frame.mutable(e.var) for e in (a, b)]
    return so_far == [True, False] or len(parts(a)) > len(parts(b))


def _early(frame: Frame, e: Apply) -> Expr | None:
    """Of two operands the one that is known long before the other. A product that is made one
    operation with a sum would make whoever waits for that wait for a multiplication."""
    if e.name not in ("add", "sub", "min", "max"):
        return None
    late = [not frame.late.isdisjoint(used(a)) for a in e.args]
    return e.args[late.index(False)] if sum(late) == 1 else None


def _beside_extreme(frame: Frame, e: Apply, early: Expr) -> list[Value] | None:
    """The operands of a sum of what is known early and the least of a number that is, too, and of
    one that is not. What comes next waits for the comparison and the sum alone: where the early
    number is a NaN, what is added to the least is one."""
    first = e.args[0] is early
    other = e.args[first]
    least = waiting(frame, other) if isinstance(other, Apply) else other
    if not isinstance(least, Apply) or least.name not in ("min", "max"):
        return None
    known = _early(frame, least)
    if known is None:
        return None
    t = REGISTER[least.operand]
    term = expression(frame, early)
    values = [expression(frame, a) for a in least.args]
    one, two = values if least.args[0] is known else reversed(values)
    odd, best = _compared(frame, least.name, least.operand, one, two)
    nan = literal(float("nan"), least.operand)
    term = frame.code.let(f"select i1 {odd}, {t} {nan}, {t} {term}")
    return [term, best] if first else [best, term]


def _compared(
    frame: Frame, name: str, dtype: DType, early: Value, late: Value
) -> tuple[Value, Value]:
    """Whether the early one of two numbers is a NaN, and if it is not, the greater or smaller of
    both: of a comparison with a NaN on the right the processor gives that."""
    code, t = frame.code, REGISTER[dtype]
    how = "ogt" if name == "max" else "olt"
    better = code.let(f"fcmp {how} {t} {early}, {late}")
    best = code.let(f"select i1 {better}, {t} {early}, {t} {late}")
    return code.let(f"fcmp uno {t} {early}, 0.0"), best


def _extreme(frame: Frame, name: str, dtype: DType, early: Value, late: Value) -> Value:
    """Of two numbers the greater or smaller, or a NaN. What is known early is asked early whether
    it is one."""
    code, t = frame.code, REGISTER[dtype]
    odd, best = _compared(frame, name, dtype, early, late)
    word = f"i{dtype.bits}"
    mask = code.let(f"sext i1 {odd} to {word}")
    bits = code.let(f"or {word} {code.let(f'bitcast {t} {best} to {word}')}, {mask}")
    return code.let(f"bitcast {word} {bits} to {t}")


def _is_strict(frame: Frame) -> bool:
    return frame.module.program.math is Math.STRICT


def is_clamped(s: Size, key: Load) -> bool:
    """Whether an index is an element that is clamped."""
    a = s.single
    return isinstance(a, Clamp) and a.value.single == key


def _outside(frame: Frame, key: Load, at: Size) -> Value:
    """Whether a clamp changes an element: k != clamp(k, n) is k > max(n - 1, 0), unsigned."""
    a = at.single
    assert isinstance(a, Clamp)
    return frame.code.let(f"icmp ugt i64 {expression(frame, key)}, {last_of(frame, a.extent)}")


def dtype_of(frame: Frame, e: Expr) -> DType:
    match e:
        case Lit(_, dtype) | Apply(dtype=dtype):
            return dtype
        case Local(v):
            return frame.dtype(v)
        case Number():
            return DType.I64
        case Load(buffer):
            return frame.element_type(buffer)


def apply(
    frame: Frame, name: str, args: list[Value], operand: DType, result: DType,
    regrouped: bool = False, apart: bool = False,
) -> Value:  # fmt: skip
    """A scalar operation on values of one dtype."""
    code = frame.code
    t = REGISTER[operand]
    match name:
        case "cast":
            return cast(code, args[0], operand, result)
        case "bitcast":
            return code.let(f"bitcast {t} {args[0]} to {REGISTER[result]}")
        case "select":
            sides = [_unknown(frame, x, operand) for x in args[1:]]
            return code.let(f"select i1 {args[0]}, {t} {sides[0]}, {t} {sides[1]}")
        case _:
            pass
    if PRIMITIVES[name].kind in (Kind.COMPARE, Kind.EQUAL):
        return _compare(code, name, operand, args)
    if operand.is_float:
        flags = _FLAGS[frame.module.program.math]
        if regrouped and "reassoc" not in flags:
            flags = f"reassoc {flags}"
        if apart:
            flags = flags.replace("contract", "")
        return _float(frame, name, operand, args, flags)
    if operand is DType.BOOL:
        match name:
            case "not":
                return code.let(f"xor i1 {args[0]}, true")
            case "and" | "or" | "xor":
                return code.let(f"{name} i1 {args[0]}, {args[1]}")
            case _:
                raise ValueError(f"{name} is not an operation on Booleans")
    return _integer(frame, name, operand, args)


def _unknown(frame: Frame, value: Value, dtype: DType) -> Value:
    """The unit of a minimum or maximum as the result of no instructions, which LLVM knows nothing
    of: it would turn min(so far, x if c else inf) into a choice between that and `so far`, which
    is no minimum to its vectoriser."""
    if dtype is DType.BOOL:
        return value
    units = {literal(u, dtype): u for u in (unit("min", dtype), unit("max", dtype)) if u}
    if value not in units:
        return value
    return frame.unknown(units[value], dtype)


def combine(frame: Frame, monoid: str, x: Value, y: Value, dtype: DType) -> Value:
    """x ⊕ y, in this order and grouping."""
    return apply(frame, monoid, [x, y], dtype, dtype)


def as_word(frame: Frame, value: Value, dtype: DType) -> Value:
    """A scalar's bits as 64-bit integer, for the values of a failure."""
    match dtype:
        case DType.F64:
            return frame.code.let(f"bitcast double {value} to i64")
        case DType.F32:
            bits = frame.code.let(f"bitcast float {value} to i32")
            return frame.code.let(f"zext i32 {bits} to i64")
        case _:
            return as_integer(frame, value, dtype)


def cast(code: Code, x: Value, source: DType, to: DType) -> Value:
    """`prims.convert`."""
    a, b = REGISTER[source], REGISTER[to]
    if source is to:
        return x
    if to is DType.BOOL:
        if source.is_float:
            return code.let(f"fcmp une {a} {x}, 0.0")
        return code.let(f"icmp ne {a} {x}, 0")
    if source.is_float:
        if to.is_float:
            return code.let(f"{'fpext' if to is DType.F64 else 'fptrunc'} {a} {x} to {b}")
        return _truncated(code, x, source, to)
    if to.is_float:
        return code.let(f"{'sitofp' if source.is_signed else 'uitofp'} {a} {x} to {b}")
    if to.bits < source.bits:
        return code.let(f"trunc {a} {x} to {b}")
    if to.bits == source.bits:
        return x
    return code.let(f"{'sext' if source.is_signed else 'zext'} {a} {x} to {b}")


def _truncated(code: Code, x: Value, source: DType, to: DType) -> Value:
    """A float's whole part, or the nearest that there is, and 0 of a NaN. LLVM's own operation for
    that becomes no vectors on x86."""
    a, b = REGISTER[source], REGISTER[to]
    least, most = int(unit("max", to)), int(unit("min", to))
    digits = 24 if source is DType.F32 else 53
    left_out = (1 << max(0, most.bit_length() - digits)) - 1  # the digits that it has no room for
    low, high = literal(least, source), literal(most - left_out, source)
    above = code.let(f"fcmp ogt {a} {x}, {low}")
    inside = code.let(f"select i1 {above}, {a} {x}, {a} {low}")
    below = code.let(f"fcmp olt {a} {inside}, {high}")
    inside = code.let(f"select i1 {below}, {a} {inside}, {a} {high}")
    if to.bits < 32:
        wide = code.let(f"fptosi {a} {inside} to i32")
        y = code.let(f"trunc i32 {wide} to {b}")
    else:
        y = code.let(f"fpto{'s' if to.is_signed else 'u'}i {a} {inside} to {b}")
    if left_out:
        beyond = code.let(f"fcmp ogt {a} {x}, {high}")
        y = code.let(f"select i1 {beyond}, {b} {most}, {b} {y}")
    if to.is_signed:
        odd = code.let(f"fcmp uno {a} {x}, 0.0")
        y = code.let(f"select i1 {odd}, {b} 0, {b} {y}")
    return y


_ORDER = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}


def _compare(code: Code, name: str, operand: DType, args: list[Value]) -> Value:
    t = REGISTER[operand]
    x, y = args
    if operand.is_float:
        how = {"eq": "oeq", "ne": "une"}.get(name) or "o" + _ORDER[name]
        return code.let(f"fcmp {how} {t} {x}, {y}")
    if name in ("eq", "ne"):
        return code.let(f"icmp {name} {t} {x}, {y}")
    return code.let(f"icmp {'s' if operand.is_signed else 'u'}{_ORDER[name]} {t} {x}, {y}")


_FLOAT_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_FLOAT_INTRINSIC = {
    "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "roundeven",
    "abs": "fabs", "copysign": "copysign",
}  # fmt: skip

_POWERS = {literal(exponent, DType.F64): name for exponent, name in POWER_NAMES.items()}


def _float(frame: Frame, name: str, dtype: DType, args: list[Value], flags: str) -> Value:
    code, t, bits = frame.code, REGISTER[dtype], f"f{dtype.bits}"
    operands = ", ".join(f"{t} {x}" for x in args)
    x = args[0]
    match name:
        case "add" | "sub" | "mul" | "div":
            return code.let(f"{_FLOAT_BINARY[name]} {flags} {t} {x}, {args[1]}")
        case "neg":
            return code.let(f"fneg {t} {x}")
        case "stop_gradient":
            return x
        case "min" | "max":
            # NaN if either is; which zero is the smaller NumPy leaves open
            either = "nsz" if frame.module.program.math is not Math.STRICT else ""
            return code.let(f"call {either} {t} @llvm.{name}imum.{bits}({operands})")
        case "sign":
            above = code.let(f"fcmp ogt {t} {x}, 0.0")
            below = code.let(f"fcmp olt {t} {x}, 0.0")
            one, minus = literal(1.0, dtype), literal(-1.0, dtype)
            zero = code.let(f"fcmp oeq {t} {x}, 0.0")
            rest = code.let(f"select i1 {zero}, {t} 0.0, {t} {x}")
            rest = code.let(f"select i1 {below}, {t} {minus}, {t} {rest}")
            return code.let(f"select i1 {above}, {t} {one}, {t} {rest}")
        case "isnan":
            return code.let(f"fcmp uno {t} {x}, 0.0")
        case "isinf" | "isfinite":
            size = code.let(f"call {t} @llvm.fabs.{bits}({t} {x})")
            how = "oeq" if name == "isinf" else "olt"
            return code.let(f"fcmp {how} {t} {size}, {literal(float('inf'), dtype)}")
        case _ if name in _FLOAT_INTRINSIC:
            return code.let(f"call {t} @llvm.{_FLOAT_INTRINSIC[name]}.{bits}({operands})")
        case _:
            if name == "pow" and args[1] in _POWERS:
                name, operands = _POWERS[args[1]], f"{t} {x}"
            called = name in frame.calls
            return code.let(frame.module.math(name, dtype, operands, called, frame.stays))


_INTEGER_BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "bitand": "and", "bitor": "or", "bitxor": "xor",
}  # fmt: skip


def _integer(frame: Frame, name: str, dtype: DType, args: list[Value]) -> Value:
    code, t = frame.code, REGISTER[dtype]
    sign = "s" if dtype.is_signed else "u"
    x = args[0]
    match name:
        case _ if name in _INTEGER_BINARY:
            return code.let(f"{_INTEGER_BINARY[name]} {t} {x}, {args[1]}")
        case "floordiv":
            return floor_division(frame, x, args[1], dtype)
        case "mod":
            return floor_remainder(frame, x, args[1], dtype)
        case "min" | "max":
            return code.let(f"call {t} @llvm.{sign}{name}.{t}({t} {x}, {t} {args[1]})")
        case "neg":
            return code.let(f"sub {t} 0, {x}")
        case "abs":
            if dtype.is_unsigned:
                return x
            return code.let(f"call {t} @llvm.abs.{t}({t} {x}, i1 false)")
        case "sign":
            some = code.let(f"icmp ne {t} {x}, 0")
            if dtype.is_unsigned:
                return code.let(f"zext i1 {some} to {t}")
            return code.let(f"call {t} @llvm.scmp.{t}.{t}({t} {x}, {t} 0)")
        case "bitnot":
            return code.let(f"xor {t} {x}, -1")
        case "shl" | "shr":
            width = dtype.bits
            shift = "shl" if name == "shl" else "ashr" if dtype.is_signed else "lshr"
            if args[1].isdecimal() and int(args[1]) < width:
                return code.let(f"{shift} {t} {x}, {args[1]}")
            fits = code.let(f"icmp ult {t} {args[1]}, {width}")
            by = code.let(f"select i1 {fits}, {t} {args[1]}, {t} 0")
            y, beyond = code.let(f"{shift} {t} {x}, {by}"), "0"
            if shift == "ashr":
                beyond = code.let(f"ashr {t} {x}, {width - 1}")
            return code.let(f"select i1 {fits}, {t} {y}, {t} {beyond}")
        case "pow":
            symbol = f"@nap.pow.{sign}{dtype.bits}"
            frame.module.definitions.setdefault(symbol, _power(symbol, dtype))
            return code.let(f"call {t} {symbol}({t} {x}, {t} {args[1]})")
        case _:
            raise ValueError(f"{name} is not an operation on integers")


def _power(symbol: str, dtype: DType) -> str:
    """Integer power by squaring; to a negative power, the truncated value."""
    t = REGISTER[dtype]
    negative = ""
    if dtype.is_signed:
        negative = f"""\
  %below = icmp slt {t} %n, 0
  br i1 %below, label %fraction, label %next
fraction:
  %one = icmp eq {t} %x, 1
  %minus = icmp eq {t} %x, -1
  %bit = and {t} %n, 1
  %odd = icmp ne {t} %bit, 0
  %sign = select i1 %odd, {t} -1, {t} 1
  %unit = select i1 %minus, {t} %sign, {t} 0
  %whole = select i1 %one, {t} 1, {t} %unit
  ret {t} %whole
"""
    return f"""\
define internal {t} {symbol}({t} %x, {t} %n) nounwind willreturn memory(none) {{
entry:
{negative or "  br label %next" + chr(10)}next:
  %power = phi {t} [ 1, %entry ], [ %power.new, %step ]
  %base = phi {t} [ %x, %entry ], [ %square, %step ]
  %left = phi {t} [ %n, %entry ], [ %half, %step ]
  %none = icmp eq {t} %left, 0
  br i1 %none, label %done, label %step
step:
  %low = and {t} %left, 1
  %take = icmp ne {t} %low, 0
  %times = mul {t} %power, %base
  %power.new = select i1 %take, {t} %times, {t} %power
  %square = mul {t} %base, %base
  %half = lshr {t} %left, 1
  br label %next
done:
  ret {t} %power
}}"""
