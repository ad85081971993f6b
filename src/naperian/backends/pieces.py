"""A module cut into several, which LLVM can work on at the same time.

    kernel, part0, part1, part2   ⇒   kernel, part0 | part1, part2

The parts of a program are called by their addresses, so nothing is lost when one is compiled
without seeing the others. What else a part mentions goes with it, if need be with several:
functions that are inlined, declarations, metadata, attributes.

What LLVM only cleans, for which its loops are finished (`llvm.is_left`), is in modules of its own:
it does not take the time of the whole pipeline because of another part's loop. What is too little
for that goes through the pipeline, with several threads as with one: numbers do not hang on them.
So is what only starts the parts, if it is long.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from naperian.backends.aside import MARK, aside, declaration
from naperian.backends.llvm import GLUE, WHOLE, is_left, may_gather_data
from naperian.backends.rare import USED, kept
from naperian.backends.services.regions import PART
from naperian.backends.target import host

LEAST = 200  # of the weight below: what is worth a thread, and what LLVM does once a module
_LOOP = 30  # lines that take LLVM as long as a loop does
_INLINED = 4  # and as a line that is inlined, for it is in a loop of vectors
_GLUE = 500  # lines of what is not optimised: it saves what LLVM does once a module
_PIPELINE = 2  # and what the whole pipeline takes of a part, beside what cleaning it takes

_NAMED = re.compile(r"define [^@\n]*(@[\w.]+)|(?:declare [^@\n]*|attributes )?([@!#][\w.]+)")
_LOOPS = re.compile(r"!llvm\.loop (!\d+)")
# LLVM's letters: all of Unicode's take twice as long
_MENTIONED = re.compile(r"[@!#][a-zA-Z0-9_.]+")
_FORMS = re.compile(  # vector forms have no @
    r"[@!#][a-zA-Z0-9_.]+|(?<=\()nap[a-zA-Z0-9_.]+(?=\)[,\"])"
)


def pieces(ir: str, threads: int) -> list[str]:
    """Modules that are together what one is, for so many threads to compile: the longest first,
    and some more than there are threads, for times are guessed. If it is short, or for one thread
    and all of a kind, the module itself."""
    items = aside(dict(_items(ir)))
    weights = {name: _weight(text, items) for name, text in items.items() if _is_part(name, text)}
    parts = tuple(weights)
    glue = [name for name in parts if _is_glue(items[name])]
    for name in glue:
        del weights[name]
    done = _finished(weights, items)
    rest = [name for name in weights if name not in done]
    apart = bool(rest) and sum(map(weights.__getitem__, done)) >= LEAST
    weights |= {name: _PIPELINE * weights[name] for name in rest}
    total = sum(weights.values())
    count = 1 if threads == 1 else min(2 * threads, len(weights), total // LEAST)
    if count < 2 and not apart and not glue:
        return [ir]
    how = WHOLE if rest and not apart else ""
    shares: list[list[str]] = []
    for kind in (*_kinds(rest, weights, items), done) if apart else [[*weights]] * bool(weights):
        share = sum(map(weights.__getitem__, kind)) * count
        shares += _shared(kind, weights, min(len(kind), max(1, round(share / total))))
    shares.sort(key=lambda share: sum(map(weights.__getitem__, share)), reverse=True)
    shared = [how + _piece(share, parts, items) for share in shares]
    return shared + [GLUE + _piece([name], parts, items) for name in glue]


def _kinds(
    names: Sequence[str], weights: Mapping[str, int], items: Mapping[str, str]
) -> tuple[Sequence[str], ...]:
    """Parts that may gather from places that are data, and the others, if there are enough of both:
    where others are optimised for another machine, they do not have these optimised twice."""
    data = [name for name in names if may_gather_data(items[name])]
    rest = [name for name in names if name not in data]
    enough = all(sum(map(weights.__getitem__, x)) >= _PIPELINE * LEAST for x in (data, rest))
    return (data, rest) if enough and host().one_by_one is not None else (names,)


def _shared(names: Iterable[str], weights: Mapping[str, int], count: int) -> list[list[str]]:
    """Parts in so many shares, about as heavy as each other, or in fewer: what is too little for a
    module of its own goes with the lightest."""

    def heavy(share: list[str]) -> int:
        return sum(map(weights.__getitem__, share))

    shares: list[list[str]] = [[] for _ in range(count)]
    for name in sorted(names, key=weights.__getitem__, reverse=True):
        min(shares, key=heavy).append(name)
    while len(shares) > 2 and heavy(least := min(shares, key=heavy)) < LEAST:
        shares.remove(least)
        min(shares, key=heavy).extend(least)
    return shares


def _items(ir: str) -> Iterator[tuple[str, str]]:
    """Functions and lines outside of them, by name."""
    start = 0
    while start < len(ir):
        function = ir.startswith("define ", start)
        end = ir.find("\n}\n" if function else "\n", start)
        end = len(ir) if end < 0 else end + 2 * function
        m = _NAMED.match(ir, start, end)
        if m is not None:
            yield m[1] or m[2], ir[start:end]
        start = end + 1


def _weight(text: str, items: Mapping[str, str]) -> int:
    """What LLVM takes for a function, about, in lines."""
    lines = text.count("\n")
    if "optnone" in text:
        return lines // 5
    called = set(re.findall(r"@nap\.[\w.]+", text)) & items.keys()
    inlined = sum(items[f].count("\n") for f in called)
    return lines + _LOOP * text.count("!llvm.loop") + _INLINED * inlined


def _finished(parts: Collection[str], items: Mapping[str, str]) -> list[str]:
    """The parts that LLVM only cleans, if none with a loop that is left to it is with them."""
    told = {p: "\n".join(items[k] for k in _LOOPS.findall(items[p])) for p in parts}
    return [p for p in parts if not is_left(told[p])]


def _is_part(name: str, text: str) -> bool:
    return name == "@kernel" or MARK in name or f"{name}({PART})" in text.partition("\n")[0]


def _is_glue(text: str) -> bool:
    """Whether a function only starts others, and is long enough for a module of its own."""
    return "optnone" in text and text.count("\n") > _GLUE


def _piece(share: list[str], parts: Collection[str], items: Mapping[str, str]) -> str:
    """Some of the parts, with all that they mention."""
    names, out = dict.fromkeys(share), []
    new = list(names)
    for name in new:  # which grows
        text = items[name]
        if name in parts:
            if name not in share:
                out.append(declaration(text))
                continue
            text = text.replace("internal", "hidden", 1)
        out.append(text)
        for m in dict.fromkeys((_FORMS if "(nap" in text else _MENTIONED).findall(text)):
            other = m if m[0] in "@!#" else f"@{m}"
            if other in items and other not in names and other != USED:
                names[other] = None
                new.append(other)
    forms = [f[1:] for f in re.findall(r"@nap[\w.]+", items.get(USED, "")) if f in names]
    return "\n".join([*out, *([kept(forms)] if forms else [])]) + "\n"
