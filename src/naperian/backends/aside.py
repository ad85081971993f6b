"""A loop that is left to LLVM's vectoriser, out of a long function whose others are finished.

    define @part0(…) { …; body7: …; br …, !llvm.loop !9; … }            of 4 000 lines
    ⇒
    define @part0(…) { …; body7: %r = call @part0.aside.body7(…); … }   which is only cleaned
    define @part0.aside.body7(…) { …; br …, !llvm.loop !9; ret … }      which LLVM makes vectors of

Otherwise that one loop sends all of them through the whole pipeline, which takes three to five
times what cleaning takes. A call takes some nanoseconds: in short functions, which may be called
often, loops stay. What a loop reads is a parameter; the variables that it assigns and others read
are given and returned, so that they stay in registers on both sides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from naperian.backends.llvm import is_left

MARK = ".aside."
"""What the names of such functions have in them."""

_LONG = 1000  # lines of a function
_SHARE = 4  # of which at most one in so many is left to LLVM

_LATCH = re.compile(r"  br i1 \S+, label %(\w+), label %(\w+), !llvm\.loop (!\d+)$")
_NAME = re.compile(r"%[\w.]+")
_LABEL = re.compile(r"^(\w+):$", re.MULTILINE)
_TARGET = re.compile(r"label %(\w+)")
_FROM = re.compile(r"\[ [^\]]*, %(\w+) \]")
_DEFINED = re.compile(r"^  (%[\w.]+) = (\w+) (.*)", re.MULTILINE)
_PARAMETER = re.compile(r"(ptr|i64) (?:noalias |readonly )*(%\w+)")
_TYPE = re.compile(r"(?:^|(?<=[ (]))(<\d+ x \w+>|i\d+|float|double|ptr)(?=[ ,]|$)")
_CELL = re.compile(r"^  (%\w+) = alloca (i\d+|float|double)$", re.MULTILINE)
_ENDS = re.compile(r"^  (?:ret|unreachable|switch)\b|= alloca ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Loop:
    """Which lines of a function a loop is, the label it begins with, and where it goes on."""

    first: int
    last: int
    body: str
    done: str


def aside(items: Mapping[str, str]) -> dict[str, str]:
    """The functions and other lines of a module, with such loops as functions of their own."""
    out: dict[str, str] = {}
    for name, text in items.items():
        long = name[0] == "@" and text.count("\n") >= _LONG
        out |= (_apart(name, text, items) if long else None) or {name: text}
    return out


def declaration(text: str) -> str:
    """The declaration of such a function."""
    head, _, params = text.partition("\n")[0].partition("(")
    types = _TYPE.findall(params[: params.index(")")])
    return f"{head.replace('define internal', 'declare', 1)}({', '.join(types)})"


def _apart(name: str, text: str, items: Mapping[str, str]) -> dict[str, str] | None:
    """A function and those of its loops that are left to LLVM; None if there are none, or many, or
    one of them has to stay."""
    lines = text.split("\n")
    left = _left(lines, items)
    rows = sum(x.last - x.first for x in left)
    if not left or _SHARE * rows > len(lines) or " optnone " in lines[0]:
        return None
    known = _types(text)
    made: dict[str, str] = {}
    for x in reversed(left):
        own = f"{name}{MARK}{x.body}"
        parts = _parted(own, lines, x, known)
        if parts is None:
            return None
        made[own], lines = parts
    return {name: "\n".join(lines), **made}


def _left(lines: Sequence[str], items: Mapping[str, str]) -> list[_Loop]:
    """The loops that are left to LLVM, in no others of these."""
    found: list[_Loop] = []
    for k, line in enumerate(lines):
        m = _LATCH.match(line) if "!llvm.loop" in line else None
        if m is not None and is_left(items[m[3]]):
            first = lines.index(f"{m[1]}:")
            while found and found[-1].first > first:
                found.pop()
            found.append(_Loop(first, k, m[1], m[2]))
    return found


def _types(text: str) -> dict[str, str]:
    """The types of a function's values, where their lines tell them at once."""
    out = {m[2]: m[1] for m in _PARAMETER.finditer(text, 0, text.index("\n"))}
    for name, op, rest in _DEFINED.findall(text):
        type = _type(op, rest)
        if type is not None:
            out[name] = type
    return out


def _type(op: str, rest: str) -> str | None:
    match op:
        case "getelementptr" | "alloca":
            return None if "<" in rest else "ptr"
        case "icmp" | "fcmp":
            return None if "<" in rest else "i1"
        case "shufflevector" | "extractelement" | "extractvalue":
            return None
        case "select":
            rest = rest.partition(", ")[2]
        case _ if " to " in rest:
            rest = rest.rpartition(" to ")[2]
        case _:
            pass
    m = _TYPE.search(rest)
    return m[1] if m is not None else None


def _parted(
    own: str, lines: list[str], x: _Loop, known: Mapping[str, str]
) -> tuple[str, list[str]] | None:
    """A loop as a function of this name, and the lines of the one that it was in, which calls it;
    None if it has another way in or out than one, or makes a value for others that is no
    variable's."""
    body = lines[x.first : x.last + 1]
    inside, outside = "\n".join(body), "\n".join([*lines[: x.first], *lines[x.last + 1 :]])
    labels = {*_LABEL.findall(inside)}
    made = {name for name, _, _ in _DEFINED.findall(inside)}
    entered = [v for v in _FROM.findall(inside) if v not in labels]
    leads = {*_TARGET.findall(inside)} - labels
    led = {*_TARGET.findall(outside), *_FROM.findall(outside)} & labels
    apart = leads == {x.done} and led == {x.body} and len(entered) == 1
    if not apart or _ENDS.search(inside) or not made.isdisjoint(_NAME.findall(outside)):
        return None
    blocks = {f"%{v}" for v in (*labels, x.done, *entered)}
    used = [v for v in dict.fromkeys(_NAME.findall(inside)) if v not in made | blocks]
    cells = {v: t for v, t in _CELL.findall(outside) if v in used}
    others = _NAME.findall(_CELL.sub("", outside))
    shared = {v: t for v, t in cells.items() if v in others}
    given = {v: known.get(v) for v in used if v not in cells}
    if None in given.values() or not all(_is_variable(v, body) for v in cells):
        return None
    returned = [*shared.values()]
    result = _tuple(returned)
    params = [f"{t} {v}" for v, t in given.items()] + [f"{t} {v}.in" for v, t in shared.items()]
    told = lines[0][lines[0].rindex(")") + 1 :].replace(" noinline", "")
    function = [
        f"define internal {result} {own}({', '.join(params)}) noinline{told}",
        "entry:",
        *(f"  {v} = alloca {t}" for v, t in cells.items()),
        *(f"  store {t} {v}.in, ptr {v}" for v, t in shared.items()),
        f"  br label %{x.body}",
        body[0], body[1].replace(f", %{entered[0]} ]", ", %entry ]"), *body[2:],
        f"{x.done}:",
        *(f"  {v}.out = load {t}, ptr {v}" for v, t in shared.items()),
        *_gathered(returned, [f"{v}.out" for v in shared]),
        "}",
    ]  # fmt: skip
    mark = f".{x.body}"
    args = [f"{t} {v}" for v, t in given.items()] + [f"{t} {v}{mark}" for v, t in shared.items()]
    call = [
        body[0],
        *(f"  {v}{mark} = load {t}, ptr {v}" for v, t in shared.items()),
        f"  {f'%{x.body}.r = ' * bool(shared)}call {result} {own}({', '.join(args)})",
        *_spread(f"%{x.body}.r", shared),
        f"  br label %{x.done}",
    ]
    return "\n".join(function), [*lines[: x.first], *call, *lines[x.last + 1 :]]


def _is_variable(v: str, body: Sequence[str]) -> bool:
    """Whether all that is done to a variable is to read and to assign it."""
    named = ((line, _NAME.findall(line).count(v)) for line in body)
    return all(n == 0 or (n == 1 and line.endswith(f", ptr {v}")) for line, n in named)


def _tuple(types: Sequence[str]) -> str:
    """What a function gives that gives so many values."""
    return "void" if not types else types[0] if len(types) == 1 else f"{{ {', '.join(types)} }}"


def _gathered(types: Sequence[str], values: Sequence[str]) -> list[str]:
    """The end of a function that gives these."""
    result = _tuple(types)
    if len(types) < 2:
        return [f"  ret {' '.join([result, *values])}"]
    made, last = [], "poison"
    for k, (type, value) in enumerate(zip(types, values, strict=True)):
        made.append(f"  %out{k} = insertvalue {result} {last}, {type} {value}, {k}")
        last = f"%out{k}"
    return [*made, f"  ret {result} {last}"]


def _spread(result: str, cells: Mapping[str, str]) -> list[str]:
    """What a call gives, assigned to variables."""
    if len(cells) == 1:
        return [f"  store {t} {result}, ptr {v}" for v, t in cells.items()]
    whole = _tuple([*cells.values()])
    out = []
    for k, (v, t) in enumerate(cells.items()):
        out.append(f"  {result}{k} = extractvalue {whole} {result}, {k}")
        out.append(f"  store {t} {result}{k}, ptr {v}")
    return out
