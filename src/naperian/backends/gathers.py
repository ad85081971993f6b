"""Whether a module gathers vectors from places that it computes, as strided ones are.

AMD's processors load eight such elements one by one in half the time of a gather: the next ones are
known early. What data name may be far away, and there a gather waits for all of them at once; and
if only some are wanted, every one by itself would be a jump.
"""

from __future__ import annotations

import re

MARK = "llvm.masked.gather."

_GATHER = re.compile(
    r"call [^@\n]*@llvm\.masked\.gather\.[^(]*\(<\d+ x ptr> (?:align \d+ )?([^,]*), (.*)"
)
_WHOLE = re.compile(r"<\d+ x i1> splat \(i1 true\),")
_DEFINED = re.compile(r"  (%[\w.]+) = (.*)")
_NAME = re.compile(r"%[\w.]+")
_DATA = re.compile(r"(?:tail )?call .*@llvm\.masked\.|load <\d+ x (?:i64|i32)>")


def computed(text: str) -> bool:
    """Whether a module gathers, whole vectors only, and from places that it computes itself."""
    found = False
    for function in text.split("\ndefine ")[1:]:
        gathers = _GATHER.findall(function)
        if not gathers:
            continue
        lines = map(_DEFINED.match, function.split("\n"))
        made = {m[1]: m[2] for m in lines if m is not None}
        for places, rest in gathers:
            if not _WHOLE.match(rest) or _is_data(places, made):
                return False
        found = True
    return found


def _is_data(places: str, made: dict[str, str]) -> bool:
    """Whether the places are made of loaded indices, not of bytes, whose tables are small."""
    seen: set[str] = set()
    stack = [places]
    while stack:
        name = stack.pop()
        line = made.get(name, "")
        if name in seen:
            continue
        seen.add(name)
        if _DATA.match(line):
            return True
        if not line.startswith("load "):
            stack += _NAME.findall(line)
    return False
