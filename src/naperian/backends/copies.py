"""The vectors of a block, once or several times, whole or with a mask."""

from __future__ import annotations

import re

from naperian.backends.code import Value
from naperian.backends.frame import Frame
from naperian.backends.masks import free_masks, loaded, masks, stored
from naperian.backends.vectors import Block
from naperian.loops.syntax import Loop, Store
from naperian.loops.walk import loads

_OWN = re.compile(r"(%[a-zA-Z0-9_]+\.w)\b")  # what is another value in every copy
_MOST_PARTS = 16  # lanes of a vector that is written in parts

AS_VECTORS = ('!"llvm.loop.mustprogress"', '!"llvm.loop.unroll.disable"',
              '!"llvm.loop.vectorize.enable", i1 false')  # fmt: skip
"""What LLVM is told of a loop that is finished."""



def finished(frame: Frame) -> str:
    return f", !llvm.loop !{frame.module.loop(*AS_VECTORS)}"


def copied(frame: Frame, block: Block, index: Value, first: Value, mark: str) -> None:
    """The vectors from a round on, with names of their own."""
    round_ = f"{index}.w"
    here = re.compile(rf"{re.escape(round_)}\b")
    for line in block.vectors:
        if round_ in line:
            line = here.sub(first, line)
        if mark and ".w" in line:
            parts = _OWN.split(line)
            parts[1::2] = [own + mark for own in parts[1::2]]
            line = "".join(parts)
        frame.code.lines.append(line)


def left(frame: Frame, block: Block, low: Value, high: Value) -> Value:
    """How many rounds are left after whole vectors; of the ends, so that rows of one length have
    one mask."""
    rounds = frame.code.let(f"sub nsw i64 {high}, {low}")
    return frame.code.let(f"and i64 {rounds}, {block.lanes - 1}")


def rows_in_place(frame: Frame, s: Loop) -> frozenset[str]:
    """The scopes of the arrays of which a loop replaces elements of one row, in one after another:
    what is read next lies behind what was written last."""
    read = {(x.buffer, x.at) for t in s.body for x in loads(t)}
    changed = (
        x.buffer for x in s.body
        if isinstance(x, Store) and (x.buffer, x.at) in read
        and any(e.constant is None for e in x.at[:-1])
    )
    found = (_SCOPE.search(frame.tags(frame.place(v), True)) for v in changed)
    return frozenset(m[1] for m in found if m is not None)


def masked(
    frame: Frame, block: Block, index: Value, first: Value, rounds: Value, mark: str,
    in_place: frozenset[str] = frozenset(),
) -> Value:  # fmt: skip
    """The vectors from a round on, of which so many are left; the lanes of rounds that are. What is
    written `in_place` has one of these scopes."""
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
    lines = code.lines[start:]
    del code.lines[start:]
    for line in lines:
        m = _ACCESS.match(line)
        if m is None:
            code.lines.append(line)
            continue
        name, type, value, pointer, tags = m.groups()
        is_turned, scope = pointer.removesuffix(mark) in block.turned, _SCOPE.search(tags)
        on = turned if is_turned else mask
        if name:
            code.put(f"{name} = {loaded(lanes, type, pointer, tags, on)}")
        elif scope is not None and scope[1] in in_place and not is_turned and lanes <= _MOST_PARTS:
            _in_parts(frame, (lanes, type, value), pointer, tags, rounds)
        else:
            code.lines.append(stored(lanes, type, value, pointer, tags, on))
    return mask


def costs_no_mask(frame: Frame, block: Block) -> bool:
    """Whether what is left of a row is one more vector, at no cost (`free_masks`): no element is
    read by itself."""
    return free_masks(frame.module.target) and not block.gathers


def can_be_masked(frame: Frame, block: Block) -> bool:
    """Whether the processor can leave out lanes of every vector that is read or written."""
    found = [_ACCESS.match(line) for line in block.vectors]
    types = [m[2] for m in found if m is not None]
    return not block.gathers and all(masks(frame.module.target, t) for t in types)


def _in_parts(
    frame: Frame, vector: tuple[int, str, Value], pointer: Value, tags: str, rounds: Value
) -> None:
    """Writes so many of the first lanes, by halves. Who reads behind these next, as a loop that
    changes rows in place does, waits until a store with a mask has left for memory: to a processor
    it may be of all lanes."""
    code, (lanes, type, value) = frame.code, vector
    while lanes > 1:
        wide, half, asked = f"<{lanes} x {type}>", lanes // 2, code.block
        low, high = (
            f"shufflevector {wide} {value}, {wide} poison, <{half} x i32> "
            f"<{', '.join(f'i32 {k}' for k in range(at, at + half))}>"
            for at in (0, half)
        )
        part, rest = code.label("part"), code.label("rest")
        first = code.let(low)
        some = code.let(f"icmp ne i64 {code.let(f'and i64 {rounds}, {half}')}, 0")
        code.branch(some, part, rest)
        code.begin(part)
        code.put(f"store <{half} x {type}> {first}, ptr {pointer}{tags}")
        if half == 1:
            code.jump(rest)
            code.begin(rest)
            return
        others, after = code.let(high), code.let(f"getelementptr {type}, ptr {pointer}, i64 {half}")
        code.jump(rest)
        code.begin(rest)
        lanes, value = half, code.let(
            f"phi <{half} x {type}> [ {others}, %{part} ], [ {first}, %{asked} ]"
        )
        pointer = code.let(f"phi ptr [ {after}, %{part} ], [ {pointer}, %{asked} ]")


_SCOPE = re.compile(r"!alias\.scope !(\d+)")
_ACCESS = re.compile(
    r"  (?:(%[\w.]+) = load|store) <\d+ x (\w+)>(?: (splat \(.*?\)|[^\s,]+))?, "
    r"ptr ([^\s,]+)(, align \d+.*)"
)
