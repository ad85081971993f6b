"""Index polynomials → 64-bit integers and addresses.

Sums are built outermost loop first: what does not change in a loop is a partial sum of its own,
so that it is computed outside and an address in the innermost loop is a base plus its variable.
Operands are names of values that never change, so every sum and product is pure and computed once
per block.
"""

from __future__ import annotations

from naperian.backends.code import MEMORY, REGISTER, Value
from naperian.backends.frame import Frame, Place
from naperian.dtypes import DType
from naperian.loops.syntax import Load, Role
from naperian.names import Var
from naperian.sizes import ZERO, Atom, Clamp, Monomial, Quotient, Remainder, Size, atom

_Term = tuple[Monomial, int]


def number(frame: Frame, s: Size) -> Value:
    """The value of an index expression."""
    constant = s.constant
    if constant is not None:
        return str(constant)
    total, fits = "", not _passes_by(frame, s)
    for terms in _by_depth(frame, s):
        total = _sum(frame, total, terms, fits)
    return _op(frame, "add", total, s.offset, fits) if s.offset else total


def _passes_by(frame: Frame, s: Size) -> bool:
    """Whether parts of a sum may be beyond the ends of 64 bits though all of it is not, as
    `2 * max(k, 0)` in `abs(k)`: sums of several terms with data, which go around and come back."""
    if len(s.terms) < 2 or (s.plain and frame.module.data.isdisjoint(s.atoms)):
        return False
    return sum(any(_may_be_far(frame, a) for a in m) for m, _ in s.terms) > 1


def _may_be_far(frame: Frame, a: Atom) -> bool:
    match a:
        case Clamp(x, extent):
            inside = x if extent == x + 1 else extent
            return any(_may_be_far(frame, b) for b in inside.atoms)
        case Quotient(x, y):
            return any(_may_be_far(frame, b) for b in (*x.atoms, *y.atoms))
        case Remainder(_, y):
            return any(_may_be_far(frame, b) for b in y.atoms)
        case _:
            return _any(frame, a)


def _op(frame: Frame, op: str, a: Value, b: Value | int, fits: bool) -> Value:
    """`a` and `b` together, which LLVM is told to fit if it does."""
    return frame.once((op, a, b, fits), f"{op} {'nsw ' if fits else ''}i64 {a}, {b}")


def address(frame: Frame, v: Var, at: tuple[Size, ...]) -> tuple[Value, Place]:
    """Where an element of a buffer is."""
    place = frame.place(v)
    if place.planes:
        here = Place(first(frame, place, at), place.buffer, place.strides)
        return element(frame, here, offset(frame, place, at)), place
    return element(frame, place, offset(frame, place, at)), place


def first(frame: Frame, place: Place, at: tuple[Size, ...]) -> Value:
    """Where the first element of a buffer is, or of the plane that an element is in."""
    return _plane(frame, place.planes, number(frame, at[0])) if place.planes else place.pointer


def _plane(frame: Frame, planes: tuple[Value, ...], which: Value) -> Value:
    """The pointer with a number."""
    chosen = planes[-1]
    for k, p in enumerate(planes[:-1]):
        this = frame.once(("plane", which, k), f"icmp eq i64 {which}, {k}")
        chosen = frame.once((this, p, chosen), f"select i1 {this}, ptr {p}, ptr {chosen}")
    return chosen


def element(frame: Frame, place: Place, offset: Size) -> Value:
    """Where the element at a distance from a buffer's first is."""
    pointer = place.pointer
    type = MEMORY[place.buffer.dtype]
    fits = not _passes_by(frame, offset)
    for terms in _by_depth(frame, offset):
        step = _sum(frame, "", terms, fits)
        pointer = frame.once((pointer, step), f"getelementptr {type}, ptr {pointer}, i64 {step}")
    constant = offset.offset
    if constant:
        pointer = frame.once(
            (pointer, constant), f"getelementptr {type}, ptr {pointer}, i64 {constant}"
        )
    return pointer


def load(frame: Frame, v: Var, at: tuple[Size, ...]) -> Value:
    """An element of a buffer, in a register."""
    if frame.by_value(v):
        return frame.scalar(v)
    pointer, place = address(frame, v, at)
    dtype = place.buffer.dtype
    tags = frame.tags(place, False)
    operation = f"load {MEMORY[dtype]}, ptr {pointer}, align {dtype.bytes}{tags}"
    if place.buffer.role is Role.IN:  # which nobody writes
        value = frame.once(("load", pointer), operation)
    else:
        value = frame.code.let(operation)
    return register(frame, value, dtype)


def register(frame: Frame, value: Value, dtype: DType) -> Value:
    """An element that was loaded, as a scalar."""
    return frame.code.let(f"icmp ne i8 {value}, 0") if dtype is DType.BOOL else value


def memory(frame: Frame, value: Value, dtype: DType) -> Value:
    """A scalar as it is stored."""
    return frame.code.let(f"zext i1 {value} to i8") if dtype is DType.BOOL else value


def store(frame: Frame, v: Var, at: tuple[Size, ...], value: Value) -> None:
    pointer, place = address(frame, v, at)
    dtype = place.buffer.dtype
    frame.code.put(
        f"store {MEMORY[dtype]} {memory(frame, value, dtype)}, ptr {pointer}, align {dtype.bytes}"
        f"{frame.tags(place, True)}"
    )


def as_integer(frame: Frame, value: Value, dtype: DType) -> Value:
    """An integer or Boolean of any width as 64 bits."""
    if dtype.bits == 64:
        return value
    extend = "sext" if dtype.is_signed else "zext"
    return frame.code.let(f"{extend} {REGISTER[dtype]} {value} to i64")


def offset(frame: Frame, place: Place, at: tuple[Size, ...]) -> Size:
    """The distance of an element from its buffer's first."""
    key = place.buffer.var, at
    known = frame.module.offsets.get(key)
    if known is None:
        known = ZERO
        for e, stride in zip(at, place.strides, strict=True):
            known = known + e * stride
        known = frame.module.offsets[key] = _rejoined(known)
    return known


def _rejoined(s: Size) -> Size:
    """k·y·⌊x / y⌋ + k·(x mod y) = k·x"""
    for monomial, k in s.terms:
        for a in monomial:
            if isinstance(a, Remainder):
                rest = list(monomial)
                rest.remove(a)
                factor = Size(((tuple(rest), k),))
                whole = factor * a.below * (a.above // a.below)
                left = s - factor * atom(a) - whole
                if len(left.terms) == len(s.terms) - 1 - len(whole.terms):
                    return _rejoined(left + factor * a.above)
    return s


def _sum(frame: Frame, total: Value, terms: tuple[_Term, ...], fits: bool) -> Value:
    """A partial sum, if any, and some more terms."""
    for term in terms:
        value = _product(frame, term, fits)
        total = _op(frame, "add", total, value, fits) if total else value
    return total


def _by_depth(frame: Frame, s: Size) -> list[tuple[_Term, ...]]:
    """The terms with variables, by the loop they change in, outermost first."""
    if len(s.terms) == 1:
        return [s.terms] if s.terms[0][0] else []
    levels: dict[int, list[_Term]] = {}
    for monomial, c in s.terms:
        if monomial:
            levels.setdefault(_depth(frame, monomial), []).append((monomial, c))
    return [tuple(levels[d]) for d in sorted(levels)]


def _depth(frame: Frame, monomial: Monomial) -> int:
    return max(_atom_depth(frame, a) for a in monomial)


def _atom_depth(frame: Frame, a: Atom) -> int:
    match a:
        case Var():
            return frame.depth if frame.mutable(a) else frame.depths.get(a, 0)
        case Quotient(x, y) | Remainder(x, y) | Clamp(x, y):
            return max((_atom_depth(frame, b) for e in (x, y) for b in e.atoms), default=0)
        case _:
            return frame.depth


def _product(frame: Frame, term: _Term, fits: bool) -> Value:
    monomial, c = term
    atoms = monomial
    if len(atoms) > 1:
        atoms = tuple(sorted(atoms, key=lambda a: _atom_depth(frame, a)))
    value = _atom(frame, atoms[0])
    for a in atoms[1:]:
        other = _atom(frame, a)
        value = _op(frame, "mul", value, other, fits)
    return _op(frame, "mul", value, c, fits) if c != 1 else value


def _atom(frame: Frame, a: Atom) -> Value:
    match a:
        case Var():
            dtype = frame.dtype(a)
            value = frame.scalar(a)
            if dtype.bits == 64:
                return value
            extend = "sext" if dtype.is_signed else "zext"
            return frame.once(("wide", value), f"{extend} {REGISTER[dtype]} {value} to i64")
        case Load(buffer, at):
            value = load(frame, buffer, at)
            return as_integer(frame, value, frame.element_type(buffer))
        case Clamp(x, extent) if isinstance(x.single, Load) and _is_checked(frame, x.single):
            value, last = number(frame, x), last_of(frame, extent)
            return frame.once(
                ("umin", value, last), f"call i64 @llvm.umin.i64(i64 {value}, i64 {last})"
            )
        case Clamp(x, extent):
            value, last = _inside(frame, x), number(frame, extent - 1)
            low = frame.once(
                ("min", value, last), f"call i64 @llvm.smin.i64(i64 {value}, i64 {last})"
            )
            return frame.once(("max", low), f"call i64 @llvm.smax.i64(i64 {low}, i64 0)")
        case Quotient(x, y):
            return floor_division(frame, _inside(frame, x), number(frame, y), DType.I64)
        case Remainder(x, y):
            return floor_remainder(frame, number(frame, x), number(frame, y), DType.I64)
        case _:
            raise TypeError(f"not an atom of an index expression: {a!r}")


def last_of(frame: Frame, extent: Size) -> Value:
    """The last index of a set; 0, if it is empty."""
    end = number(frame, extent - 1)
    return frame.once(("max", end), f"call i64 @llvm.smax.i64(i64 {end}, i64 0)")


def _is_checked(frame: Frame, x: Load) -> bool:
    """Whether a run fails where an element is negative: as an unsigned number it is a large one,
    and one comparison keeps reads in their arrays, which is also the one that finds it."""
    return x.buffer in frame.module.program.checked


def _inside(frame: Frame, s: Size) -> Value:
    """The value of what stands in a clamp or a quotient. A sum of data, which may be any integer,
    stops at the ends of 64 bits where it would wrap around: `clamp(k + 1, n)` of the largest `k`
    is `n - 1`."""
    data = [(m[0], c) for m, c in s.terms if len(m) == 1 and abs(c) == 1 and _any(frame, m[0])]
    rest = s - sum((atom(a) * c for a, c in data), ZERO)
    if not data or len(s.terms) == 1 or any(_may_be_far(frame, a) for a in rest.atoms):
        return number(frame, s)
    total = number(frame, rest)
    for a, c in data:
        value, stops = _atom(frame, a), "sadd" if c > 0 else "ssub"
        call = f"call i64 @llvm.{stops}.sat.i64(i64 {total}, i64 {value})"
        total = frame.once((stops, total, value), call)
    return total


def _any(frame: Frame, a: Atom) -> bool:
    """Whether an integer may be near the ends: it is neither a size nor a place."""
    return isinstance(a, Load) or (isinstance(a, Var) and a in frame.module.data)


def floor_division(frame: Frame, x: Value, y: Value, dtype: DType) -> Value:
    """⌊x / y⌋; 0 when y is 0; wraps around when x is the least and y is -1."""
    return _division(frame, x, y, dtype)[0]


def floor_remainder(frame: Frame, x: Value, y: Value, dtype: DType) -> Value:
    """x - y·⌊x / y⌋; 0 when y is 0."""
    return _division(frame, x, y, dtype)[1]


def _division(frame: Frame, x: Value, y: Value, dtype: DType) -> tuple[Value, Value]:
    t = REGISTER[dtype]

    def once(operation: str) -> Value:
        return frame.once(operation, operation)

    known = int(y) if y.lstrip("-").isdigit() else None
    if known is not None and known > 0 and known & (known - 1) == 0:
        shift = "ashr" if dtype.is_signed else "lshr"
        return (
            frame.once(("//", t, x, y), f"{shift} {t} {x}, {known.bit_length() - 1}"),
            frame.once(("%", t, x, y), f"and {t} {x}, {known - 1}"),
        )
    if dtype.is_unsigned:
        zero = once(f"icmp eq {t} {y}, 0")
        by = once(f"select i1 {zero}, {t} 1, {t} {y}")
        q = once(f"udiv {t} {x}, {by}")
        r = once(f"urem {t} {x}, {by}")
        return once(f"select i1 {zero}, {t} 0, {t} {q}"), r
    by, trivial = y, ""
    if known is None or known in (0, -1):
        # dividing by 0 or -1 could trap: divide by 1 instead and put the sign in afterwards
        above = once(f"add {t} {y}, 1")
        trivial = once(f"icmp ult {t} {above}, 2")
        by = once(f"select i1 {trivial}, {t} 1, {t} {y}")
    q = once(f"sdiv {t} {x}, {by}")
    r = once(f"srem {t} {x}, {by}")
    wrong = once(f"xor {t} {r}, {by}")
    opposite = once(f"icmp slt {t} {wrong}, 0")
    some = once(f"icmp ne {t} {r}, 0")
    fix = once(f"and i1 {opposite}, {some}")
    less = once(f"sext i1 {fix} to {t}")
    q = once(f"add {t} {q}, {less}")
    more = once(f"select i1 {fix}, {t} {by}, {t} 0")
    r = once(f"add {t} {r}, {more}")
    if trivial:
        signed = once(f"mul {t} {x}, {y}")  # 0 for 0, -x for -1
        q = once(f"select i1 {trivial}, {t} {signed}, {t} {q}")
    return q, r
