"""A loop whose body is a block of vectors: whole vectors first, then what is left by itself."""

from __future__ import annotations

import math
import re

from naperian.backends.code import Value
from naperian.backends.copies import (
    can_be_masked,
    copied,
    costs_no_mask,
    finished,
    left,
    masked,
    rows_in_place,
)
from naperian.backends.frame import Frame
from naperian.backends.masks import free_masks, whole
from naperian.backends.totals import few_totals, totals
from naperian.backends.traits import UNROLLED, trips, usually
from naperian.backends.vectors import Block, widened
from naperian.loops.syntax import Allocate, Load, Loop, Order, Update, Variable
from naperian.loops.walk import atoms, reads, statements, used_in

_MOST_LINES = 600  # of vectors one after the other, and not in a loop
_MOST_LEFT = 8  # rounds by themselves are too many
_SHORT = 5  # rounds of a row whose lanes take longer to add up than to go one by one
_CHEAP = 12  # lines of a round of such a row
_PART = 4  # of a vector that is filled are too little
_TYPE = re.compile(r"(  store )?<\d+ x (i1|i8|i16|i32|i64|float|double)>")
_BITS = {"i1": 8, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "float": 32, "double": 64}

Entries = list[tuple[Value, str]]
"""The blocks from which a loop is entered, and its first round from there."""


def in_vectors(
    frame: Frame, s: Loop, start: int, done: str, index: Value, low: Value, high: Value,
    group: int | None, vectors: int,
) -> Entries | None:  # fmt: skip
    """Puts vectors in front of the block that was written from a line on, and what does not change
    in front of those. From where and with what round the block is entered then: from nowhere if no
    round is left; nothing if there can be no vectors."""
    code = frame.code
    body = code.lines[start].removesuffix(":")
    if group is None and any(isinstance(x, Allocate) for x in s.body):
        return None
    cells = frozenset(
        frame.cells[x.var][0] for x in statements(s.body)
        if isinstance(x, Variable) and x.var in frame.cells
    )  # fmt: skip
    rounds = trips(low, high)
    few = rounds <= UNROLLED
    again = rounds == math.inf and _is_a_size(frame, s) and _adds_where_data_say(frame, s)
    block = widened(frame, code.lines[start + 1 :], index, group, cells, rounds, again)
    if block is None:
        return None
    copies = int(rounds) // block.lanes if few else 0
    free = costs_no_mask(frame, block)
    if block.sums and (block.ones or not (few or vectors or free or can_be_masked(frame, block))):
        return None
    if block.masks and not few:
        return None
    if few and s.order is not Order.LANES and _is_narrow(block):
        return None
    if few and block.sums and block.gathers:
        return None  # to gather few terms takes as long as to add them
    long = copies * len(block.vectors) > _MOST_LINES
    if few and (rounds % block.lanes or (long and block.sums)):
        return None
    if block.lanes > _MOST_LEFT and not free:
        return None
    frame.vectors.add(s.var)
    if few:
        _before(frame, start, body, block)
        firsts = [str(int(low) + k * block.lanes) for k in range(copies)]
        if block.sums:
            few_totals(frame, block, index, firsts)
        elif long:
            _one_by_one(frame, block, index, low, high)
        else:
            for k, first in enumerate(firsts):
                copied(frame, block, index, first, str(k or ""))
        return []
    if not block.sums:
        in_place = rows_in_place(frame, s) if frame.depth else frozenset[str]()
        alone = 0
        if rounds == math.inf and _is_a_size(frame, s) and _is_quick(block):
            alone = block.lanes if frame.in_order else _SHORT if again else 0
        return _loop(frame, start, (body, done), block, index, (low, high), in_place, alone)
    enter = _before(frame, start, body, block)
    entries: Entries = []
    alone = _SHORT if _may_be_short(frame, s, block, vectors) else 0
    if alone and not frame.just_stored.isdisjoint(v for x in s.body for v in reads(x)):
        alone = block.lanes
    if frame.depth and vectors and not free:
        alone = max(alone, block.lanes)  # without a whole vector
    if alone:
        many = code.label("many")
        short = code.let(f"icmp slt i64 {code.minus(high, low)}, {alone}")
        code.branch(short, body, many)
        code.begin(many)
        entries.append((low, enter))
    after = totals(frame, block, index, low, high, vectors)
    if after is not None:
        entries.append((after, code.block))
        code.branch(code.let(f"icmp slt i64 {after}, {high}"), body, done)
    elif entries:
        code.jump(done)
    if entries:
        code.begin(body)
        code.lines += block.scalars
    return entries


def _may_be_short(frame: Frame, s: Loop, block: Block, vectors: int) -> bool:
    """Whether all rows that are added up may be of two or three elements: nobody knows, and they
    are of one length, so that the processor soon does."""
    if not frame.depth or vectors < 2 or block.gathers or len(block.vectors) > _CHEAP:
        return False
    return _is_a_size(frame, s)


def _adds_where_data_say(frame: Frame, s: Loop) -> bool:
    """Whether a loop adds to a row that data name: the next round of the loop around may add to the
    same one. What a mask stores is handed on through memory alone, so such vectors are narrow, and
    what is left for one with a mask is little."""
    rows = (a for x in s.body if isinstance(x, Update) for i in x.at for a in atoms(i))
    return any(isinstance(a, Load) or a in frame.module.data for a in rows)


def _is_quick(block: Block) -> bool:
    """Whether a few elements take no longer one by one than as part of a vector, which the next
    round of a loop in order waits for: what a mask stores is handed on through memory only."""
    return len(block.scalars) <= 2 * _CHEAP and not any("@nap" in x for x in block.scalars)


def _is_a_size(frame: Frame, s: Loop) -> bool:
    """Whether a loop has as many rounds whenever it is met, and when the program is compiled nobody
    knows how many."""
    rounds = usually(s, frame.module.numbers)
    if rounds.constant is not None and (s.high - s.low).constant is None:
        return False  # strips of a longer loop
    return all(v in frame.module.program.sizes for v in used_in(rounds))


def _is_narrow(block: Block) -> bool:
    """Whether what is stored takes a small part of the vector that it is computed in. The rows of
    the loop around can fill whole vectors, for LLVM, once these rounds are written out. (Lanes are
    rows of the loop around already.)"""
    bits = [(m[1], _BITS[m[2]]) for line in block.vectors for m in _TYPE.finditer(line)]
    stored = [n for store, n in bits if store]
    return bool(stored) and _PART * max(stored) <= max(n for _, n in bits)


def _before(frame: Frame, start: int, body: str, block: Block) -> str:
    """Begins the block in front of a loop, in place of the loop."""
    code = frame.code
    del code.lines[start:]
    enter = code.label("enter")
    code.lines[-1] = code.lines[-1].replace(f"label %{body}", f"label %{enter}")
    code.begin(enter)
    code.lines += block.before
    return enter


def _one_by_one(frame: Frame, block: Block, index: Value, low: Value, high: Value) -> None:
    """A loop of whole vectors, of which there are some and nothing is left."""
    code, enter = frame.code, frame.code.block
    wide, done, after = code.label("wide"), code.label("past"), code.name()
    code.jump(wide)
    code.begin(wide)
    code.put(f"{index}.w = phi i64 [ {low}, %{enter} ], [ {after}, %{wide} ]")
    code.lines += block.vectors
    code.put(f"{after} = add nsw i64 {index}.w, {block.lanes}")
    code.branch(code.let(f"icmp slt i64 {after}, {high}"), wide, done, finished(frame))
    code.begin(done)


def _loop(
    frame: Frame, start: int, labels: tuple[str, str], block: Block, index: Value,
    ends: tuple[Value, Value], in_place: frozenset[str], alone: int,
) -> Entries:  # fmt: skip
    """A loop of whole vectors; the rest is one with a mask, where there are such, or the scalars'
    loop, which is also for elements that are not side by side after all. Less than `alone` in all
    are the scalars', too."""
    code, lanes, (body, done), (low, high) = frame.code, block.lanes, labels, ends
    in_lanes = free_masks(frame.module.target) and not block.ones
    enter = _before(frame, start, body, block)
    wide, rest = code.label("wide"), code.label("rest")
    last_part = code.label("last") if in_lanes else body
    after = code.name()
    few = alone > 0 and in_lanes
    if few:
        many = code.label("many")
        short = code.let(f"icmp slt i64 {code.minus(high, low)}, {alone}")
        code.branch(short, body, many)
        code.begin(many)
        entry, enter = enter, many
    last = code.let(f"sub nsw i64 {high}, {lanes}")
    some = code.let(f"icmp sle i64 {low}, {last}")
    for distance in block.ones:
        one = code.let(f"icmp eq i64 {distance}, 1")
        some = code.let(f"and i1 {some}, {one}")
    code.branch(some, wide, last_part)
    code.begin(wide)
    code.put(f"{index}.w = phi i64 [ {low}, %{enter} ], [ {after}, %{wide} ]")
    code.lines += whole(block.vectors, frame.module.target)
    code.put(f"{after} = add nsw i64 {index}.w, {lanes}")
    code.branch(code.let(f"icmp sle i64 {after}, {last}"), wide, rest, finished(frame))
    code.begin(rest)
    code.branch(code.let(f"icmp slt i64 {after}, {high}"), last_part, done)
    code.begin(last_part)
    if in_lanes:
        first = code.name()
        code.put(f"{first} = phi i64 [ {low}, %{enter} ], [ {after}, %{rest} ]")
        masked(frame, block, index, first, left(frame, block, low, high), "m", in_place)
        if few:
            code.jump(done)
            code.begin(body)
            code.lines += block.scalars
            return [(low, entry)]
        return []
    code.lines += block.scalars
    return [(low, enter), (after, rest)]
