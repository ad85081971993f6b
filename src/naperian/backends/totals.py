"""A loop of vectors that are added up, or the like: several at a time first, for each waits for the
one before, then one at a time with a mask."""

from __future__ import annotations

from naperian.backends.code import Value
from naperian.backends.copies import copied, finished, masked
from naperian.backends.frame import Frame
from naperian.backends.vectors import Block, Sum

_UNITS = {"fadd": "-0.0", "fmul": "1.0", "add": "0", "mul": "1", "and": "-1", "or": "0", "xor": "0"}
_REDUCED = {"minimum": "fminimum", "maximum": "fmaximum"}


def totals(
    frame: Frame, block: Block, index: Value, low: Value, high: Value, vectors: int
) -> None:
    """Writes the loop from here on; there is at least one round. So many vectors at a time, or
    none without a mask: rows are short."""
    code, sums, enter = frame.code, block.sums, frame.code.block
    starts = [_start(frame, x, block.lanes) for x in sums]
    last, end = code.label("last"), code.label("total")
    entries: list[tuple[list[Value], Value, str]] = [(starts, low, enter)]
    ends: list[tuple[list[Value], str]] = []
    if vectors:
        wide, rest, step = code.label("wide"), code.label("rest"), vectors * block.lanes
        far = code.let(f"sub nsw i64 {high}, {step}")
        code.branch(code.let(f"icmp sle i64 {low}, {far}"), wide, last)
        code.begin(wide)
        after = code.name()
        code.put(f"{index}.w = phi i64 [ {low}, %{enter} ], [ {after}, %{wide} ]")
        for k in range(vectors):
            for x, start in zip(sums, starts, strict=True):
                mark = str(k or "")
                code.put(f"{x.first}.w{mark} = phi {_type(x, block)} [ {start}, %{enter} ], "
                         f"[ {x.last}.w{mark}, %{wide} ]")  # fmt: skip
        for k in range(vectors):
            first = code.let(f"add nsw i64 {index}.w, {k * block.lanes}") if k else f"{index}.w"
            copied(frame, block, index, first, str(k or ""))
        code.put(f"{after} = add nsw i64 {index}.w, {step}")
        code.branch(code.let(f"icmp sle i64 {after}, {far}"), wide, rest, finished(frame))
        code.begin(rest)
        together = [f"{x.last}.w" for x in sums]
        for k in range(1, vectors):
            together = [
                _both(frame, x, _type(x, block), t, f"{x.last}.w{k}")
                for x, t in zip(sums, together, strict=True)
            ]
        code.branch(code.let(f"icmp slt i64 {after}, {high}"), last, end)
        entries.append((together, after, rest))
        ends.append((together, rest))
    else:
        code.jump(last)
    ends.append((_rest(frame, block, entries, last, end, index, high), last))
    code.begin(end)
    lanes: list[Value] = []
    for k, x in enumerate(sums):
        found = ", ".join(f"[ {values[k]}, %{where} ]" for values, where in ends)
        lanes.append(code.let(f"phi {_type(x, block)} {found}"))
    for x, values in zip(sums, lanes, strict=True):
        total = _reduced(frame, x, block, values)
        if _name(x) in _UNITS:
            so_far = code.let(f"load {x.type}, ptr {x.cell}")
            total = _both(frame, x, x.type, so_far, total)
        code.put(f"store {x.type} {total}, ptr {x.cell}")


def _rest(
    frame: Frame, block: Block, entries: list[tuple[list[Value], Value, str]], last: str, end: str,
    index: Value, high: Value,
) -> list[Value]:  # fmt: skip
    """The loop with a mask; what it has added up."""
    code, first, after = frame.code, frame.code.name(), frame.code.name()
    code.begin(last)
    mark = "m"
    places = ", ".join(f"[ {low}, %{where} ]" for _, low, where in entries)
    code.put(f"{first} = phi i64 {places}, [ {after}, %{last} ]")
    out = [code.name() for _ in block.sums]
    for k, x in enumerate(block.sums):
        places = ", ".join(f"[ {starts[k]}, %{where} ]" for starts, _, where in entries)
        code.put(f"{x.first}.w{mark} = phi {_type(x, block)} {places}, [ {out[k]}, %{last} ]")
    left = code.let(f"sub nsw i64 {high}, {first}")
    mask = masked(frame, block, index, first, left, mark)
    for x, total in zip(block.sums, out, strict=True):
        t = _type(x, block)
        code.put(f"{total} = select <{block.lanes} x i1> {mask}, {t} {x.last}.w{mark}, "
                 f"{t} {x.first}.w{mark}")  # fmt: skip
    code.put(f"{after} = add nsw i64 {first}, {block.lanes}")
    code.branch(code.let(f"icmp slt i64 {after}, {high}"), last, end, finished(frame))
    return out


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
    f = f"@llvm.vector.reduce.{_REDUCED.get(name, name)}.{_suffix(t)}"
    unit = f"{x.type} {_UNITS[name]}, " if name in ("fadd", "fmul") else ""
    return frame.code.let(f"call {flags} {x.type} {f}({unit}{t} {value})")


def _name(x: Sum) -> str:
    return x.kind.rpartition(" ")[2]


def _suffix(type: str) -> str:
    """How a type is spelled in the name of an operation."""
    lanes, _, scalar = type.strip("<>").rpartition(" x ")
    return f"{'v' * bool(lanes)}{lanes}{ {'float': 'f32', 'double': 'f64'}.get(scalar, scalar)}"
