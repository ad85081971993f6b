"""What `nap explain` says of values, in the words of the text where they come from.

    `tanh(sum(w[j] * x[i, j] for j))` (line 2) is stored in 8 * m bytes: another loop reads it
    `exp(y[i])` (line 3) is computed again in the loop over `i`, not stored

A value is computed again if the loops hold it twice: the fuser copied it to where it is read, as
that is cheaper than memory; or a loop that runs backwards makes rounds of a loop again, those
between two checkpoints or all of a `while` loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from naperian.loops.syntax import Load
from naperian.names import Var
from naperian.passes.fusion.account import within
from naperian.passes.fusion.graph import Kind, Task
from naperian.prims import PRIMITIVES
from naperian.sizes import Size, show, substitute
from naperian.source import NOWHERE, Span

_LONG = 50  # characters of the text; of a longer one, the beginning


def stored(t: Task, shape: Iterable[Size], why: str) -> str:
    """That a value has memory, how much, and why."""
    total: Size | None = None
    for n in shape:
        total = n * t.dtype.bytes if total is None else total * n
    total = total and substitute(total, lambda a: within(a, {}))
    bytes = "" if total is None else f" in {show(total, _atom)} bytes"
    return f"{_value(t)} is stored{bytes}: {why}"


def again(tasks: Iterable[Task]) -> Iterator[str]:
    """The values that are computed more than once; of one inside another, only the other."""
    made: dict[Task, list[Task]] = {}
    for t in tasks:
        if t.kind is Kind.COMPUTE and t.name in PRIMITIVES and t.dtype.is_float and t.nests:
            made.setdefault(t.of or t, []).append(t)
    twice = [t for same in made.values() for t in same[1:]]
    back = [t for same in made.values() for t in same if t.origin.again and t not in twice]
    for found, why in (
        (twice, "not stored"), (back, "whose rounds are made again for the derivative"),
    ):  # fmt: skip
        for t in found:
            others = (x.origin for x in found if x.nests[-1] is t.nests[-1])
            written = _is_written(t) and not t.origin.slope
            if written and not any(_inside(t.origin, s) for s in others):
                where = f"the loop over `{t.nests[-1].var.name}`"
                yield f"{_value(t)} is computed again in {where}, {why}"


def _value(t: Task) -> str:
    of = f"the {t.origin.slope} of " if t.origin.slope else ""
    if not _is_written(t):
        return f"{of}`{t.origin.text or t.var.name}`"
    carried = t.cell is not None and t.cell.time is not None
    name = t.var.name.removesuffix("_" if of else "")
    text = name if carried else " ".join(t.origin.text.split())
    text = text if len(text) <= _LONG else f"{text[:_LONG].rstrip()} …"
    line, _ = t.origin.source.position(t.origin.start)
    return f"{of}`{text}` (line {line})"


def _is_written(t: Task) -> bool:
    return t.origin.source.name != NOWHERE.source.name


def _inside(s: Span, other: Span) -> bool:
    return other.start <= s.start and s.end <= other.end and s != other


def _atom(a: object) -> str:
    match a:
        case Var():
            return a.name
        case Load(buffer, at) if at:
            return f"{buffer.name}[{', '.join(show(e, _atom) for e in at)}]"
        case Load(buffer):
            return buffer.name
        case _:
            return repr(a)
