"""The vectors of a block, once or several times, whole or with a mask."""

from __future__ import annotations

import re

from naperian.backends.code import Value
from naperian.backends.frame import Frame
from naperian.backends.masks import loaded, stored
from naperian.backends.vectors import Block

_OWN = re.compile(r"(%\w+\.w)\b")  # what is another value in every copy


AS_VECTORS = ('!"llvm.loop.mustprogress"', '!"llvm.loop.unroll.disable"',
              '!"llvm.loop.vectorize.enable", i1 false')  # fmt: skip
"""What LLVM is told of a loop that is finished."""



def finished(frame: Frame) -> str:
    return f", !llvm.loop !{frame.module.loop(*AS_VECTORS)}"


def copied(frame: Frame, block: Block, index: Value, first: Value, mark: str) -> None:
    """The vectors from a round on, with names of their own."""
    here = re.compile(rf"{index}\.w\b")
    for line in block.vectors:
        line = here.sub(first, line)
        frame.code.lines.append(_OWN.sub(rf"\g<1>{mark}", line) if mark else line)


def has_masks(frame: Frame) -> bool:
    """Whether the processor reads and writes some lanes of a vector."""
    return frame.module.target.vector_bytes == 64


def left(frame: Frame, block: Block, low: Value, high: Value) -> Value:
    """How many rounds are left after whole vectors; of the ends, so that rows of one length have
    one mask."""
    rounds = frame.code.let(f"sub nsw i64 {high}, {low}")
    return frame.code.let(f"and i64 {rounds}, {block.lanes - 1}")


def masked(
    frame: Frame, block: Block, index: Value, first: Value, rounds: Value, mark: str
) -> Value:  # fmt: skip
    """The vectors from a round on, of which so many are left; the lanes of rounds that are."""
    code, lanes = frame.code, block.lanes
    vector = f"<{lanes} x i64>"
    alone = code.let(f"insertelement {vector} poison, i64 {rounds}, i64 0")
    zeros = f"<{lanes} x i32> zeroinitializer"
    spread = code.let(f"shufflevector {vector} {alone}, {vector} poison, {zeros}")
    steps = ", ".join(f"i64 {k}" for k in range(lanes))
    mask = code.let(f"icmp slt {vector} <{steps}>, {spread}")
    flags = f"<{lanes} x i1>"
    turned = mask
    if block.turned:
        order = ", ".join(f"i32 {k}" for k in reversed(range(lanes)))
        turn = f"<{lanes} x i32> <{order}>"
        turned = code.let(f"shufflevector {flags} {mask}, {flags} poison, {turn}")
    start = len(code.lines)
    copied(frame, block, index, first, mark)
    for k, line in enumerate(code.lines[start:], start):
        m = _ACCESS.match(line)
        if m is None:
            continue
        name, type, value, pointer, tags = m.groups()
        on = turned if pointer.removesuffix(mark) in block.turned else mask
        code.lines[k] = (
            f"  {name} = {loaded(lanes, type, pointer, tags, on)}"
            if name else
            stored(lanes, type, value, pointer, tags, on)
        )  # fmt: skip
    return mask


_ACCESS = re.compile(
    r"  (?:(%[\w.]+) = load|store) <\d+ x (\w+)>(?: (splat \(.*?\)|[^\s,]+))?, "
    r"ptr ([^\s,]+)(, align \d+.*)"
)
