"""Functions that differ in nothing but their names are one.

Two layers of a network, two uses of `softmax`, the same tables for two axes: their loops are the
same functions of what they are given, and LLVM takes its time for each. Metadata has numbers of its
own in each of them, so what is compared is the text with its nodes in the order of their mention.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

_NODE = re.compile(r"!(\d+)")
_NAME = re.compile(r"define internal [^@]*@([\w.]+)")


def without_twins(functions: Sequence[str], metadata: Sequence[str]) -> list[str]:
    """The functions, one of each kind; who mentioned another of that kind mentions this one."""
    shapes = [(text.count("\n"), text.count("!")) for text in functions]
    often = Counter(shapes)  # what has a shape of its own is no twin, and seen without its nodes
    nodes = dict(line.split(" = ", 1) for line in metadata)
    kept: list[str] = []
    first: dict[str, str] = {}
    names: dict[str, str] = {}
    for text, shape in zip(functions, shapes, strict=True):
        head = _NAME.match(text) if often[shape] > 1 else None
        if head is not None:
            name = head.group(1)
            one = first.setdefault(_alike(text.replace(f"@{name}(", "(", 1), nodes), name)
            if one != name:
                names[name] = one
                continue
        kept.append(text)
    if not names:
        return kept
    gone = re.compile(rf"@({'|'.join(map(re.escape, names))})\b")
    return [gone.sub(lambda m: f"@{names[m.group(1)]}", text) for text in kept]


def _alike(text: str, nodes: Mapping[str, str]) -> str:
    """The text and the definitions of the nodes it leads to, numbered in this order."""
    numbers: dict[str, str] = {}
    found: list[str] = []

    def node(m: re.Match[str]) -> str:
        if m.group(0) not in numbers:
            numbers[m.group(0)] = f"!{len(numbers)}"
            found.append(m.group(0))
        return numbers[m.group(0)]

    out = [_NODE.sub(node, text)]
    for name in found:  # which grows
        out.append(_NODE.sub(node, nodes[name]))
    return "\n".join(out)
