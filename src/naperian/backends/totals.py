"""A loop of vectors that are added up, or the like: several at a time first, for each waits for the
one before, then whole ones, then one with a mask, where there are such.

Of rows that are short and uneven, no processor knows where the next one ends. With registers for
masks every vector has one. Without, whole ones come first, and then one with a mask, be it of no
lane: to ask whether there is any left would be a second guess for each row."""

from __future__ import annotations

from collections.abc import Sequence

from naperian.backends.code import Value
from naperian.backends.copies import copied, costs_no_mask, finished, left, masked
from naperian.backends.frame import Frame
from naperian.backends.vectors import Block, Sum

_UNITS = {"fadd": "-0.0", "fmul": "1.0", "add": "0", "mul": "1", "and": "-1", "or": "0", "xor": "0"}
_REDUCED = {"minimum": "fminimum", "maximum": "fmaximum"}


def totals(
    frame: Frame, block: Block, index: Value, low: Value, high: Value, vectors: int
) -> Value | None:
    """Writes the loop from here on; there is at least one round. So many vectors at a time, or
    none: rows are short. Where there are no masks, the round is told from which on
    those are left that are no whole vector."""
    found, at = [_start(frame, x, block.lanes) for x in block.sums], low
    free = costs_no_mask(frame, block)
    if not vectors and free:
        found = _masked(frame, block, index, found, low, high)
        _added(frame, block, found)
        return None
    for several in dict.fromkeys((vectors or 1, 1)):
        found, at = _whole(frame, block, index, found, at, high, several)
    if vectors and not free:
        _added(frame, block, found)
        return at
    rest = _rest if vectors else _last
    found = rest(frame, block, index, found, at, (low, high))
    _added(frame, block, found)
    return None


def _added(frame: Frame, block: Block, found: Sequence[Value]) -> None:
    """What the lanes have found, together and with what each variable was."""
    code = frame.code
    for x, total in zip(block.sums, _numbers(frame, block, found), strict=True):
        if _name(x) in _UNITS:
            so_far = code.let(f"load {x.type}, ptr {x.cell}")
            total = _both(frame, x, x.type, so_far, total)
        code.put(f"store {x.type} {total}, ptr {x.cell}")


def few_totals(frame: Frame, block: Block, index: Value, firsts: Sequence[Value]) -> None:
    """Writes the vectors of few rounds, from each of `firsts` on, with no loop."""
    code, found = frame.code, [_start(frame, x, block.lanes) for x in block.sums]
    for k, first in enumerate(firsts):
        mark = str(k or "")
        for x, start in zip(block.sums, found, strict=True):
            t = _type(x, block)
            code.put(f"{x.first}.w{mark} = bitcast {t} {start} to {t}")
        copied(frame, block, index, first, mark)
        found = [f"{x.last}.w{mark}" for x in block.sums]
    _added(frame, block, found)


_FOUR = 4


def _numbers(frame: Frame, block: Block, found: Sequence[Value]) -> list[Value]:
    """The lanes of each together: of four of a kind at a time, as vectors of what comes of them."""
    code, out, sums = frame.code, list[Value](), block.sums
    while len(out) < len(sums):
        k = len(out)
        x, four = sums[k], found[k : k + _FOUR]
        alike = all((y.type, y.kind) == (x.type, x.kind) for y in sums[k : k + _FOUR])
        if len(four) < _FOUR or not alike or block.lanes < _FOUR:
            out.append(_reduced(frame, x, block, found[k]))
            continue
        together = _folded(frame, x, block.lanes, four)
        out += (code.let(f"extractelement <{_FOUR} x {x.type}> {together}, i64 {i}")
                for i in range(_FOUR))  # fmt: skip
    return out


def _folded(frame: Frame, x: Sum, lanes: int, four: Sequence[Value]) -> Value:
    """A vector of what each of four comes to: of two beside each other,

        a0 a1 a2 a3 …   b0 b1 b2 b3 …   ⇒   a0+a1 b0+b1 a2+a3 b2+b3 …

    then likewise pairs of two such, then one half and the other, until there are four. One of the
    two that are added leaves every lane where it is, which takes no shuffle, but a choice."""
    pairs = [_beside(frame, x, lanes, 1, four[k], four[k + 1]) for k in (0, 2)]
    both = _beside(frame, x, lanes, 2, *pairs)
    while lanes > _FOUR:
        lanes //= 2
        halves = [range(lanes), range(lanes, 2 * lanes)]
        both = _sides(frame, x, 2 * lanes, both, "poison", halves)
    return both


def _beside(frame: Frame, x: Sum, lanes: int, n: int, a: Value, b: Value) -> Value:
    """Groups of `n` lanes of two vectors, each added to the next one: by turns a's and b's."""
    stay = [k + lanes * (k // n % 2) for k in range(lanes)]
    move = [(k ^ n) + lanes * (k // n % 2) for k in range(lanes)]
    return _sides(frame, x, lanes, a, b, [stay, move])


def _sides(
    frame: Frame, x: Sum, lanes: int, a: Value, b: Value, parts: Sequence[Sequence[int]]
) -> Value:
    """Some lanes of two vectors, and others, together."""
    t = f"<{lanes} x {x.type}>"
    one, other = (
        frame.code.let(f"shufflevector {t} {a}, {t} {b}, <{len(p)} x i32> "
                       f"<{', '.join(f'i32 {i}' for i in p)}>")
        for p in parts
    )  # fmt: skip
    return _both(frame, x, f"<{len(parts[0])} x {x.type}>", one, other)


def _whole(
    frame: Frame, block: Block, index: Value, starts: list[Value], low: Value, high: Value,
    vectors: int,
) -> tuple[list[Value], Value]:  # fmt: skip
    """A loop of whole vectors, so many at a time; what is added up behind it, and up to where."""
    code, sums, enter, step = frame.code, block.sums, frame.code.block, vectors * block.lanes
    wide, rest, past = code.label("wide"), code.label("rest"), code.label("past")
    mark = "" if vectors > 1 else "o"
    far = code.let(f"sub nsw i64 {high}, {step}")
    code.branch(code.let(f"icmp sle i64 {low}, {far}"), wide, past)
    code.begin(wide)
    after = code.name()
    code.put(f"{index}.w{mark} = phi i64 [ {low}, %{enter} ], [ {after}, %{wide} ]")
    marks = [f"{mark}{k or ''}" for k in range(vectors)]
    for m in marks:
        for x, start in zip(sums, starts, strict=True):
            code.put(f"{x.first}.w{m} = phi {_type(x, block)} [ {start}, %{enter} ], "
                     f"[ {x.last}.w{m}, %{wide} ]")  # fmt: skip
    for k, m in enumerate(marks):
        place = f"{index}.w{mark}"
        copied(frame, block, index, code.let(f"add nsw i64 {place}, {k * block.lanes}")
               if k else place, m)  # fmt: skip
    code.put(f"{after} = add nsw i64 {index}.w{mark}, {step}")
    code.branch(code.let(f"icmp sle i64 {after}, {far}"), wide, rest, finished(frame))
    code.begin(rest)
    together = [f"{x.last}.w{mark}" for x in sums]
    for m in marks[1:]:
        together = [
            _both(frame, x, _type(x, block), t, f"{x.last}.w{m}")
            for x, t in zip(sums, together, strict=True)
        ]
    code.jump(past)
    code.begin(past)
    found = _met(frame, block, (starts, enter), (together, rest))
    return found, code.let(f"phi i64 [ {low}, %{enter} ], [ {after}, %{rest} ]")


def _rest(
    frame: Frame, block: Block, index: Value, starts: list[Value], first: Value,
    ends: tuple[Value, Value],
) -> list[Value]:  # fmt: skip
    """What is added up with the last rounds, which are no whole vector, if there are any."""
    code, before = frame.code, frame.code.block
    last, end = code.label("last"), code.label("total")
    code.branch(code.let(f"icmp slt i64 {first}, {ends[1]}"), last, end)
    code.begin(last)
    out = _last(frame, block, index, starts, first, ends)
    code.jump(end)
    code.begin(end)
    return _met(frame, block, (starts, before), (out, last))


def _last(
    frame: Frame, block: Block, index: Value, starts: list[Value], first: Value,
    ends: tuple[Value, Value],
) -> list[Value]:  # fmt: skip
    """What is added up with the lanes that have a round after whole vectors, if any."""
    code, mark = frame.code, "m"
    for x, start in zip(block.sums, starts, strict=True):
        t = _type(x, block)
        code.put(f"{x.first}.w{mark} = bitcast {t} {start} to {t}")
    mask = masked(frame, block, index, first, left(frame, block, *ends), mark)
    return [code.let(_chosen(x, block, mask, mark)) for x in block.sums]


def _masked(
    frame: Frame, block: Block, index: Value, starts: list[Value], low: Value, high: Value
) -> list[Value]:  # fmt: skip
    """A loop with a mask; what it has added up."""
    code, first, after, enter = frame.code, frame.code.name(), frame.code.name(), frame.code.block
    last, end, mark = code.label("last"), code.label("total"), "m"
    code.jump(last)
    code.begin(last)
    code.put(f"{first} = phi i64 [ {low}, %{enter} ], [ {after}, %{last} ]")
    out = [code.name() for _ in block.sums]
    for x, start, new in zip(block.sums, starts, out, strict=True):
        code.put(f"{x.first}.w{mark} = phi {_type(x, block)} [ {start}, %{enter} ], "
                 f"[ {new}, %{last} ]")  # fmt: skip
    rounds = code.let(f"sub nsw i64 {high}, {first}")
    mask = masked(frame, block, index, first, rounds, mark)
    for x, new in zip(block.sums, out, strict=True):
        code.put(f"{new} = {_chosen(x, block, mask, mark)}")
    code.put(f"{after} = add nsw i64 {first}, {block.lanes}")
    code.branch(code.let(f"icmp slt i64 {after}, {high}"), last, end, finished(frame))
    code.begin(end)
    return out


def _chosen(x: Sum, block: Block, mask: Value, mark: str) -> str:
    """What is added up, in lanes that have a round."""
    t = _type(x, block)
    return f"select <{block.lanes} x i1> {mask}, {t} {x.last}.w{mark}, {t} {x.first}.w{mark}"


def _met(
    frame: Frame, block: Block, one: tuple[list[Value], str], other: tuple[list[Value], str]
) -> list[Value]:
    """What is added up where two blocks meet."""
    return [
        frame.code.let(f"phi {_type(x, block)} [ {a}, %{one[1]} ], [ {b}, %{other[1]} ]")
        for x, a, b in zip(block.sums, one[0], other[0], strict=True)
    ]


def _type(x: Sum, block: Block) -> str:
    return f"<{block.lanes} x {x.type}>"


def _start(frame: Frame, x: Sum, lanes: int) -> Value:
    """What every lane starts with: what changes nothing, or of the least and greatest, what is."""
    unit = _UNITS.get(_name(x))
    if unit is not None:
        return f"splat ({x.type} {'true' if (x.type, unit) == ('i1', '-1') else unit})"
    so_far, vector = frame.code.let(f"load {x.type}, ptr {x.cell}"), f"<{lanes} x {x.type}>"
    one = frame.code.let(f"insertelement {vector} poison, {x.type} {so_far}, i64 0")
    zeros = f"<{lanes} x i32> zeroinitializer"
    return frame.code.let(f"shufflevector {vector} {one}, {vector} poison, {zeros}")


def _both(frame: Frame, x: Sum, type: str, a: Value, b: Value) -> Value:
    flags, _, name = x.kind.rpartition(" ")
    if name.startswith("llvm."):
        f = f"{name}.{_suffix(type)}"
        return frame.code.let(f"call {flags} {type} @{f}({type} {a}, {type} {b})")
    return frame.code.let(f"{name} {flags} {type} {a}, {b}")


def _reduced(frame: Frame, x: Sum, block: Block, value: Value) -> Value:
    """The lanes together."""
    flags, t = x.kind.rpartition(" ")[0], _type(x, block)
    name = _name(x).removeprefix("llvm.")
    if name in _REDUCED and "nsz" in flags:
        return _least(frame, x.type, block.lanes, name, value)
    f = f"@llvm.vector.reduce.{_REDUCED.get(name, name)}.{_suffix(t)}"
    unit = f"{x.type} {_UNITS[name]}, " if name in ("fadd", "fmul") else ""
    return frame.code.let(f"call {flags} {x.type} {f}({unit}{t} {value})")


def _least(frame: Frame, type: str, lanes: int, name: str, value: Value) -> Value:
    """The least or greatest lane, or NaN if one is: to ask that of all at once, beside looking for
    the number, is a third of what it takes to ask in every step."""
    code, t = frame.code, f"<{lanes} x {type}>"
    unordered = code.let(f"fcmp uno {t} {value}, {value}")
    bits = code.let(f"bitcast <{lanes} x i1> {unordered} to i{lanes}")
    some = code.let(f"icmp ne i{lanes} {bits}, 0")
    f = f"@llvm.vector.reduce.f{name[:3]}.{_suffix(t)}"
    number = code.let(f"call nnan nsz {type} {f}({t} {value})")
    return code.let(f"select i1 {some}, {type} 0x7FF8000000000000, {type} {number}")


def _name(x: Sum) -> str:
    return x.kind.rpartition(" ")[2]


def _suffix(type: str) -> str:
    """How a type is spelled in the name of an operation."""
    lanes, _, scalar = type.strip("<>").rpartition(" x ")
    return f"{'v' * bool(lanes)}{lanes}{ {'float': 'f32', 'double': 'f64'}.get(scalar, scalar)}"
