"""Eight rows that become eight columns, in registers.

    for i in low..high:
        out[j + 0, i] = x[i, j + 0]         for i in low..high by 8:
        …                              ⇒        eight vectors of eight are read along the rows of x,
        out[j + 7, i] = x[i, j + 7]             turned by shuffles, and written along those of out

Vectors along `i` would gather every element by itself. `passes/nests/across.py` writes such loops.
"""

from __future__ import annotations

from collections.abc import Sequence

from naperian.backends.code import MEMORY, Code, Value
from naperian.backends.frame import Frame
from naperian.backends.indexing import address, offset
from naperian.loops.syntax import Load, Loop, Store
from naperian.loops.walk import atoms, used_in
from naperian.names import Var, fresh
from naperian.sizes import ONE, Size, atom, rename, size

EIGHT = 8


def turned(frame: Frame, s: Loop, low: Value, high: Value) -> Value:
    """Writes the rounds that can be done eight at a time, if the loop is of this kind. The first
    round that is left."""
    columns = _columns(frame, s)
    if columns is None:
        return low
    code = frame.code
    rounds = code.let(f"sub nsw i64 {high}, {low}")
    many = code.let(f"and i64 {rounds}, {-EIGHT}")
    end = code.let(f"add nsw i64 {low}, {many}")
    body, done = code.label("turn"), code.label("turned")
    index, after = code.name(), code.name()
    before = code.block
    code.branch(code.let(f"icmp slt i64 {low}, {end}"), body, done)
    code.begin(body)
    code.put(f"{index} = phi i64 [ {low}, %{before} ], [ {after}, %{body} ]")
    row = fresh(s.var)
    with frame.loop(row, index):
        _block(frame, columns, s.var, row)
    code.put(f"{after} = add nsw i64 {index}, {EIGHT}")
    code.branch(code.let(f"icmp slt i64 {after}, {end}"), body, done)
    code.begin(done)
    return code.let(f"call i64 @llvm.smax.i64(i64 {low}, i64 {end})")


_Columns = Sequence[tuple[Store, Load]]


def _columns(frame: Frame, s: Loop) -> _Columns | None:
    """What goes where, if columns side by side become rows."""
    if len(s.body) != EIGHT:
        return None
    found: list[tuple[Store, Load]] = []
    for x in s.body:
        if not isinstance(x, Store) or not isinstance(x.value, Load):
            return None
        found.append((x, x.value))
    to, of = (frame.place(found[0][0].buffer), frame.place(found[0][1].buffer))
    if to.planes or of.planes or to.buffer.dtype is not of.buffer.dtype:
        return None
    first = offset(frame, of, found[0][1].at)
    for k, (write, read) in enumerate(found):
        if write.buffer != to.buffer.var or read.buffer != of.buffer.var:
            return None
        if offset(frame, of, read.at) - first != size(k):
            return None
        if any(_looks_up(i, s.var) for i in (*write.at, *read.at)):
            return None
        if _step(offset(frame, to, write.at), s) != ONE:
            return None
    return found


def _looks_up(i: Size, var: Var) -> bool:
    """Whether an index is read from memory at this variable: rows in an order of their own."""
    return any(isinstance(a, Load) and var in used_in(atom(a)) for a in atoms(i))


def _step(offset: Size, s: Loop) -> Size | None:
    """How far the next round's element is."""
    return rename(offset, {s.var: size(s.var) + 1}) - offset


def _block(frame: Frame, columns: _Columns, var: Var, row: Var) -> None:
    """Eight by eight elements: the rounds of `var` from `row` on."""
    code = frame.code
    read = columns[0][1]
    dtype = frame.place(read.buffer).buffer.dtype
    vector, align = f"<{EIGHT} x {MEMORY[dtype]}>", dtype.bytes
    rows: list[Value] = []
    for k in range(EIGHT):
        at = tuple(rename(e, {var: size(row) + k}) for e in read.at)
        pointer, place = address(frame, read.buffer, at)
        tags = frame.tags(place, False)
        rows.append(code.let(f"load {vector}, ptr {pointer}, align {align}{tags}"))
    rows = transposed(code, vector, rows)
    for (write, _), value in zip(columns, rows, strict=True):
        at = tuple(rename(e, {var: size(row)}) for e in write.at)
        pointer, place = address(frame, write.buffer, at)
        tags = frame.tags(place, True)
        code.put(f"store {vector} {value}, ptr {pointer}, align {align}{tags}")


def transposed(code: Code, vector: str, rows: Sequence[Value]) -> list[Value]:
    """As many vectors as each has lanes, a power of two: element q of row k is element k of row
    q."""
    rows, lanes = list(rows), len(rows)
    step = 1
    while step < lanes:
        for k in range(lanes):
            if not k & step:
                a, b = rows[k], rows[k | step]
                low = [p if not p & step else lanes + (p ^ step) for p in range(lanes)]
                high = [p | step if not p & step else lanes + p for p in range(lanes)]
                rows[k] = _shuffled(code, vector, a, b, low)
                rows[k | step] = _shuffled(code, vector, a, b, high)
        step *= 2
    return rows


def _shuffled(code: Code, vector: str, a: Value, b: Value, order: list[int]) -> Value:
    mask = ", ".join(f"i32 {k}" for k in order)
    return code.let(
        f"shufflevector {vector} {a}, {vector} {b}, <{len(order)} x i32> <{mask}>"
    )
