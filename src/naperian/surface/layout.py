"""Text that is broken inside its widest brackets where a line would be longer than `WIDTH`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from naperian.node import node

WIDTH = 88
STEP = "    "


@node
class Group:
    """Brackets and their items, on one line or one item a line."""

    opener: str
    items: tuple[Doc, ...]
    separator: str
    closer: str
    width: int


Doc: TypeAlias = "tuple[str | Group, ...]"



def width_of(doc: Doc) -> int:
    return sum([len(p) if isinstance(p, str) else p.width for p in doc])


def group(opener: str, items: Sequence[Doc], closer: str, separator: str = ",") -> Group:
    inner = sum([width_of(i) for i in items]) + (len(separator) + 1) * max(len(items) - 1, 0)
    return Group(opener, tuple(items), separator, closer, len(opener) + inner + len(closer))


def layout(doc: Doc, indent: str, column: int = 0, after: int = 0) -> str:
    """The text of `doc` when it starts at `column` and `after` more characters follow. If it does
    not fit, its widest brackets are broken."""
    widths = [0 if isinstance(p, str) or not p.items else p.width for p in doc]
    if column + width_of(doc) + after <= WIDTH or not any(widths):
        return flat(doc)
    at = widths.index(max(widths))
    widest = doc[at]
    assert isinstance(widest, Group)
    deeper = indent + STEP
    lines = [deeper + layout(i, deeper, len(deeper), 1) for i in widest.items]
    inside = f"{widest.separator}\n".join(lines)
    before = layout(doc[:at], indent, column, len(widest.opener))
    more = layout(doc[at + 1 :], indent, len(indent) + len(widest.closer), after)
    return f"{before}{widest.opener}\n{inside}\n{indent}{widest.closer}{more}"


def flat(doc: Doc) -> str:
    """The text of `doc` on one line."""
    return "".join(
        [
            p if isinstance(p, str)
            else p.opener + f"{p.separator} ".join([flat(i) for i in p.items]) + p.closer
            for p in doc
        ]
    )


def commas(docs: Sequence[Doc]) -> Doc:
    """`a, b` without brackets."""
    out: list[str | Group] = []
    for doc in docs:
        out += [", ", *doc] if out else doc
    return tuple(out)
