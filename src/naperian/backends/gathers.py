"""Whether a module gathers vectors from places that it computes, as strided ones are.

AMD's processors load eight such elements one by one in half the time of a gather: the next ones are
known early. What data name may be far away, and there a gather waits for all of them at once, but
of the rows of a table, such as points, one element is and the others lie beside it; and if only
some are wanted, every one by itself would be a jump.
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

_ROW = 2  # elements at each place that data name


def computed(text: str) -> bool:
    """Whether a module gathers, whole vectors only, and from places that it computes itself, or
    elements of rows."""
    found = False
    for function in text.split("\ndefine ")[1:]:
        gathers = _GATHER.findall(function)
        if not gathers:
            continue
        lines = map(_DEFINED.match, function.split("\n"))
        made = {m[1]: m[2] for m in lines if m is not None}
        if not all(_WHOLE.match(rest) for _, rest in gathers):
            return False
        named = [data for places, _ in gathers if (data := _data(places, made))]
        if len(named) < _ROW * len(set[str]().union(*named)):
            return False
        found = True
    return found


def _data(places: str, made: dict[str, str]) -> set[str]:
    """The loaded indices that places are made of; not the bytes, whose tables are small."""
    seen: set[str] = set()
    found: set[str] = set()
    stack = [places]
    while stack:
        name = stack.pop()
        line = made.get(name, "")
        if name in seen:
            continue
        seen.add(name)
        if _DATA.match(line):
            found.add(name)
        elif not line.startswith("load "):
            stack += _NAME.findall(line)
    return found
