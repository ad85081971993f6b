"""How lanes of a vector are read and written that a mask names; the others are zeros, or stay.

Processors without registers for masks have them for elements of four and eight bytes, and no
gathers that are worth it: there an element is read by itself, elsewhere if its lane is not named.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from naperian.backends.code import Value
from naperian.backends.target import Target

_KINDS = {"float": "f32", "double": "f64"}
_SCOPE = re.compile(r"!alias\.scope !(\d+)")
_ALIGN = re.compile(r", align (\d+)(.*)")


def masks(target: Target, type: str = "double") -> bool:
    """Whether some lanes of a vector of such elements are read and written at once."""
    if free_masks(target):
        return True
    return target.vector_bytes == 32 and type not in ("i8", "i16")


def free_masks(target: Target) -> bool:
    """Whether some lanes take no longer than all of them, for there are registers for masks
    (AVX-512): what is left of a row is one more round."""
    return target.vector_bytes == 64


def whole(lines: Sequence[str], target: Target) -> list[str]:
    """A round of vectors whose stores stay what they are. LLVM makes a store with a mask of a
    choice between what is read at a place and something else that is written there; without
    registers for masks that takes twelve cycles on AMD's processors, where a choice takes one. What
    is volatile it leaves alone."""
    if target.vector_bytes != 32:
        return [*lines]
    read = {m[1] for x in lines if " = load <" in x and (m := _SCOPE.search(x))}
    return [
        x.replace("store <", "store volatile <", 1)
        if x.startswith("  store <") and (m := _SCOPE.search(x)) and m[1] in read else x
        for x in lines
    ]  # fmt: skip


def loaded(lanes: int, type: str, pointer: Value, tags: str, mask: Value) -> str:
    """Elements that lie side by side; `tags` are those of the scalar's load."""
    align, notes = _split(tags)
    wide = f"<{lanes} x {type}>"
    return (
        f"call {wide} @llvm.masked.load.{kind(lanes, type)}.p0(ptr align {align} {pointer}, "
        f"<{lanes} x i1> {mask}, {wide} zeroinitializer){notes}"
    )


def stored(lanes: int, type: str, value: Value, pointer: Value, tags: str, mask: Value) -> str:
    """A line that writes elements side by side."""
    align, notes = _split(tags)
    return (
        f"  call void @llvm.masked.store.{kind(lanes, type)}.p0(<{lanes} x {type}> {value}, "
        f"ptr align {align} {pointer}, <{lanes} x i1> {mask}){notes}"
    )


def gathered(lanes: int, type: str, pointers: Value, tags: str, mask: Value) -> str:
    """Elements wherever they lie."""
    align, notes = _split(tags)
    wide = f"<{lanes} x {type}>"
    return (
        f"call {wide} @llvm.masked.gather.{kind(lanes, type)}.v{lanes}p0("
        f"<{lanes} x ptr> align {align} {pointers}, <{lanes} x i1> {mask}, "
        f"{wide} zeroinitializer){notes}"
    )


def kind(lanes: int, type: str) -> str:
    """How a vector's type is spelled in the name of an operation."""
    return f"v{lanes}{_KINDS.get(type, type)}"


def _split(tags: str) -> tuple[str, str]:
    m = _ALIGN.match(tags)
    assert m is not None, tags
    return m[1], m[2]
