"""A loop whose body is a block of vectors: whole vectors first, then what is left by itself."""

from __future__ import annotations

import re

from naperian.backends.code import Value
from naperian.backends.frame import Frame
from naperian.backends.traits import UNROLLED, trips
from naperian.backends.vectors import Block, widened
from naperian.loops.syntax import Allocate, Loop, Variable

_MOST_LINES = 600  # of vectors one after the other
_MOST_LEFT = 8  # rounds by themselves are too many
_OWN = re.compile(r"(%\w+\.w)\b")  # what is another value in every copy

AS_VECTORS = ('!"llvm.loop.mustprogress"', '!"llvm.loop.unroll.disable"',
              '!"llvm.loop.vectorize.enable", i1 false')  # fmt: skip
"""What LLVM is told of a loop that is finished."""

Entries = list[tuple[Value, str]]
"""The blocks from which a loop is entered, and its first round from there."""


def in_vectors(
    frame: Frame, s: Loop, start: int, done: str, index: Value, low: Value, high: Value,
    group: int | None,
) -> Entries | None:  # fmt: skip
    """Puts vectors in front of the block that was written from a line on, and what does not change
    in front of those. From where and with what round the block is entered then: from nowhere if no
    round is left; nothing if there can be no vectors."""
    code = frame.code
    body = code.block
    if group is None and any(isinstance(x, Allocate) for x in s.body):
        return None
    cells = frozenset(frame.cells[x.var][0] for x in s.body if isinstance(x, Variable))
    rounds = trips(low, high)
    few = rounds <= UNROLLED
    block = widened(frame, code.lines[start + 1 :], index, group, cells, rounds)
    if block is None:
        return None
    copies = int(rounds) // block.lanes if few else 0
    if few and (rounds % block.lanes or copies * len(block.vectors) > _MOST_LINES):
        return None
    if block.lanes > _MOST_LEFT and not has_masks(frame):
        return None
    frame.vectors.add(s.var)
    if few:
        _before(frame, start, body, block)
        for k in range(copies):
            _copy(frame, block, index, str(int(low) + k * block.lanes), k)
        return []
    return _loop(frame, start, (body, done), block, index, low, high)


def _before(frame: Frame, start: int, body: str, block: Block) -> str:
    """Begins the block in front of a loop, in place of the loop."""
    code = frame.code
    del code.lines[start:]
    enter = code.label("enter")
    code.lines[-1] = code.lines[-1].replace(f"label %{body}", f"label %{enter}")
    code.begin(enter)
    code.lines += block.before
    return enter


def _copy(frame: Frame, block: Block, index: Value, first: Value, k: int) -> None:
    """The vectors from a round on."""
    for line in block.vectors:
        line = re.sub(rf"{index}\.w\b", first, line)
        frame.code.lines.append(_OWN.sub(rf"\g<1>{k}", line) if k else line)


def _loop(
    frame: Frame, start: int, labels: tuple[str, str], block: Block,
    index: Value, low: Value, high: Value,
) -> Entries:  # fmt: skip
    """A loop of whole vectors; the rest is one with a mask, where there are such, or the scalars'
    loop, which is also for elements that are not side by side after all."""
    code, lanes, (body, done) = frame.code, block.lanes, labels
    masked = has_masks(frame) and not block.ones
    enter = _before(frame, start, body, block)
    wide, rest = code.label("wide"), code.label("rest")
    last_part = code.label("last") if masked else body
    after = code.name()
    last = code.let(f"sub nsw i64 {high}, {lanes}")
    some = code.let(f"icmp sle i64 {low}, {last}")
    for distance in block.ones:
        one = code.let(f"icmp eq i64 {distance}, 1")
        some = code.let(f"and i1 {some}, {one}")
    code.branch(some, wide, last_part)
    code.begin(wide)
    code.put(f"{index}.w = phi i64 [ {low}, %{enter} ], [ {after}, %{wide} ]")
    code.lines += block.vectors
    code.put(f"{after} = add nsw i64 {index}.w, {lanes}")
    note = f", !llvm.loop !{frame.module.loop(*AS_VECTORS)}"
    code.branch(code.let(f"icmp sle i64 {after}, {last}"), wide, rest, note)
    code.begin(rest)
    code.branch(code.let(f"icmp slt i64 {after}, {high}"), last_part, done)
    code.begin(last_part)
    if masked:
        first = code.name()
        code.put(f"{first} = phi i64 [ {low}, %{enter} ], [ {after}, %{rest} ]")
        _masked(frame, block, index, first, high)
        return []
    code.lines += block.scalars
    return [(low, enter), (after, rest)]


def has_masks(frame: Frame) -> bool:
    """Whether the processor reads and writes some lanes of a vector."""
    return frame.module.target.vector_bytes == 64


def _masked(frame: Frame, block: Block, index: Value, first: Value, high: Value) -> None:
    """The vectors from a round on, without those of no round."""
    code, lanes = frame.code, block.lanes
    left, vector = code.let(f"sub nsw i64 {high}, {first}"), f"<{lanes} x i64>"
    alone = code.let(f"insertelement {vector} poison, i64 {left}, i64 0")
    zeros = f"<{lanes} x i32> zeroinitializer"
    spread = code.let(f"shufflevector {vector} {alone}, {vector} poison, {zeros}")
    steps = ", ".join(f"i64 {k}" for k in range(lanes))
    mask = code.let(f"icmp slt {vector} <{steps}>, {spread}")
    flags = f"<{lanes} x i1>"
    order = ", ".join(f"i32 {k}" for k in reversed(range(lanes)))
    turned = code.let(f"shufflevector {flags} {mask}, {flags} poison, <{lanes} x i32> <{order}>")
    start = len(code.lines)
    _copy(frame, block, index, first, 1)
    for k, line in enumerate(code.lines[start:], start):
        m = _ACCESS.match(line)
        if m is None:
            continue
        name, type, value, pointer, align, notes = m.groups()
        kind = f"v{lanes}{_KINDS.get(type, type)}"
        on = f"{flags} {turned if pointer in block.turned else mask}"
        wide = f"<{lanes} x {type}>"
        code.lines[k] = (
            f"  {name} = call {wide} @llvm.masked.load.{kind}.p0("
            f"ptr align {align} {pointer}, {on}, {wide} zeroinitializer){notes}"
            if name else
            f"  call void @llvm.masked.store.{kind}.p0("
            f"{wide} {value}, ptr align {align} {pointer}, {on}){notes}"
        )  # fmt: skip


_ACCESS = re.compile(
    r"  (?:(%[\w.]+) = load|store) <\d+ x (\w+)>(?: (splat \(.*?\)|[^\s,]+))?, "
    r"ptr ([^\s,]+), align (\d+)(.*)"
)
_KINDS = {"float": "f32", "double": "f64"}
