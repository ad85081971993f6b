"""What does not change in a loop, in front of it.

Sums are written outermost loop first (`indexing.py`), but where they are needed, which may be in a
condition deep inside. Modules that LLVM only cleans have nobody else who moves them: row by row a
stencil's nine addresses are more than its vectors. Nor does anybody else see that several loops
compute the same in front of the one around them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat

_NAME = re.compile(r"%[a-zA-Z0-9_.]+")  # LLVM's letters: all of Unicode's take twice as long
_APART = re.compile(f"({_NAME.pattern})")
_PURE = {
    "add", "sub", "mul", "and", "or", "xor", "shl", "ashr", "lshr", "icmp", "fcmp", "select",
    "getelementptr", "sext", "zext", "trunc", "sitofp", "uitofp", "fpext", "fptrunc", "fneg",
    "fadd", "fsub", "fmul", "insertelement", "shufflevector", "extractvalue",
    # by what is never 0 (`indexing._division`). Under a mask, LLVM's vectors divide by 1 in lanes
    # that are off, and take a place that is the same in all lanes from the first, off or not
    "sdiv", "srem", "udiv", "urem",
}  # fmt: skip
_NONE = repeat(0)  # the level of what is made outside of all loops
_CALLS = re.compile(r"i64 @llvm\.sm(?:in|ax)\.i64\(|\{[^}]+\} @nap\.inverse\.")
_QUOTIENT = re.compile(r"((?:\w+ )*arcp (?:\w+ )*)(<[^>]+>|\w+) ([^\s,]+), (%[\w.]+)$")


@dataclass(frozen=True, slots=True)
class Quotient:
    """A division that may be a multiplication: by what, the line that divides one by it, and the
    line that multiplies."""

    divisor: str
    inverse: str
    product: str


@dataclass(frozen=True, slots=True, eq=False)
class _Open:
    """A loop: where it ends, what stands in front of it, and under which names."""

    end: int
    before: list[str]
    computed: dict[str, str] = field(default_factory=dict)


def quotient(name: str, rest: str) -> Quotient | None:
    """What `name = fdiv rest` is, if it is allowed to be one."""
    m = _QUOTIENT.match(rest)
    if m is None:
        return None
    flags, type, x, y = m.groups()
    one = f"splat ({type.split()[-1].rstrip('>')} 1.0)" if type[0] == "<" else "1.0"
    by = f"{name}by"
    return Quotient(
        y, f"  {by} = fdiv {type} {one}, {y}", f"  {name} = fmul {flags}{type} {x}, {by}"
    )


def lifted(lines: Sequence[str], loops: Sequence[tuple[int, int]]) -> list[str]:
    """A function's lines, in which loops lie from one to before another, each behind the branch
    that enters it. What is moved may not have been needed: it is cheap, and cannot fail. What is
    moved to a place where it was computed before is that."""
    if not loops:
        return list(lines)
    out: list[list[str]] = [[]]  # the lines up to the next place where something is put
    open_: list[_Open] = []  # the loops around
    levels: dict[str, int] = {}  # in how many loops a value is another one in every round
    same: dict[str, str] = {}  # values that others are
    ahead: set[str] = set()  # what a round hands to the next, which is named before it is computed

    waiting = sorted(loops, reverse=True)
    depth, here = 0, out[-1]
    change = waiting[-1][0]  # the next line where a loop begins or ends
    k = 0
    while k < len(lines):
        if k >= change:
            while open_ and open_[-1].end <= k:
                open_.pop()
            while waiting and waiting[-1][0] == k:
                _, end = waiting.pop()
                branch = out[-1].pop()
                out += [[], [branch]]
                open_.append(_Open(end, out[-2]))
            depth = len(open_)
            ends = [x.end for x in open_[-1:]]
            change = min([*ends, *(begin for begin, _ in waiting[-1:])], default=len(lines))
            here = out[-1]
        if not depth and not same:
            here += lines[k:change]
            k = change
            continue
        line = lines[k]
        k += 1
        names: list[str] | None = None
        if same:
            names = _NAME.findall(line)
            if not same.keys().isdisjoint(names):
                parts = _APART.split(line)
                parts[1::2] = names = [same.get(v, v) for v in names]
                line = "".join(parts)
        if not depth:
            here.append(line)
            continue
        start = line.rfind("\n") + 1
        if not line.startswith("  %", start):
            here.append(line)
            continue
        words = (line[start:] if start else line).split(" ", 5)
        if len(words) < 6 or words[3] != "=":
            here.append(line)
            continue
        _, _, name, _, op, rest = words
        level = depth
        if op in _PURE or (op == "call" and _CALLS.match(rest)):
            used = _NAME.findall(rest) if names is None or start else names[1:]
            level = max(map(levels.get, used, _NONE)) if used else 0
        elif op == "fdiv" and (q := quotient(name, rest)) is not None:
            around = levels.get(q.divisor, 0)
            if around < depth:
                open_[around].before.append(q.inverse)
                line = line[:start] + q.product
        elif op == "phi":
            ahead.update(_NAME.findall(rest))
        levels[name] = level
        if level == depth:
            here.append(line)
            continue
        place = open_[level]
        first = place.computed.setdefault(f"{op} {rest}", name)
        if first == name or start or name in ahead:
            place.before.append(line)
        else:
            same[name] = first
    return [line for part in out for line in part]
