"""Texts made small: what still fails of a program without some lines and parts of expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass

from naperian import pipeline
from naperian.source import Source, Span
from naperian.surface import syntax as surface
from naperian.surface.parse import parse

EXPRESSION = tuple(getattr(surface, n) for n in surface.Expr.split(" | "))
PLAIN = ("0.5", "1", "0", "True", "x", "y")
"""What may stand for an expression that does not matter."""


def smallest(text: str, fails: Callable[[str], bool]) -> str:
    """A program that fails as `text` does, of which nothing can be left out."""
    size = len(text) + 1
    while len(text) < size:
        size = len(text)
        for ways in (without_lines, with_less):
            found = True
            while found:
                found = False
                for other in ways(text):
                    if len(other) < len(text) and fails(other):
                        text, found = other, True
                        break
    return text


def without_lines(text: str) -> Iterator[str]:
    """Without a line and what is indented under it; with only what is under it."""
    lines = text.split("\n")
    for k in range(len(lines)):
        pad = depth(lines[k])
        end = k + 1
        while end < len(lines) and lines[end].strip() and depth(lines[end]) > pad:
            end += 1
        yield "\n".join(lines[:k] + lines[end:])
        if end > k + 1:
            less = depth(lines[k + 1]) - pad
            yield "\n".join(lines[:k] + [x[less:] for x in lines[k + 1 : end]] + lines[end:])


def depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def with_less(text: str) -> Iterator[str]:
    """With an expression replaced by a part of it, or by something plain; large ones first."""
    spans = sorted(set(places(text)), key=lambda s: s[0] - s[1])
    for start, end in spans:
        for other in PLAIN:
            if len(other) < end - start:
                yield text[:start] + other + text[end:]
        for a, b in spans:
            if start <= a and b <= end and b - a < end - start:
                yield text[:start] + text[a:b] + text[end:]


def places(text: str) -> Iterator[tuple[int, int]]:
    """Where the expressions of a text stand, but for types."""
    with pipeline.deep():
        tree, _ = parse(Source("small.nap", text))
    todo: list[object] = [tree]
    while todo:
        x = todo.pop()
        if isinstance(x, tuple):
            todo += x
        elif is_dataclass(x) and not isinstance(x, Span):
            todo += [getattr(x, f.name) for f in fields(x) if f.name not in ("type", "result")]
            if isinstance(x, EXPRESSION):
                yield x.span.start, x.span.end
