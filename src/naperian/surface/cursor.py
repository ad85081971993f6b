"""A place among the tokens, and what every part of the parser does there.

A mistake that leaves no sensible tree is raised as `Wrong` and caught at the end of its statement;
one with an obvious meaning is only reported, and parsing goes on with what was meant.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field

from naperian.node import mutable
from naperian.source import Diagnostic, Source, Span
from naperian.surface import errors
from naperian.surface.lex import KEYWORDS, Tokens

NESTING = 200
"""How deep brackets and blocks may be nested."""
HEIGHT = 1000
"""How high a tree may be: `a + b + c + …` grows by one with each operator."""
_FRAMES = 40 * NESTING + 10 * HEIGHT


class Wrong(Exception):
    """A mistake after which the statement makes no sense."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic)
        self.diagnostic = diagnostic


@contextmanager
def deep() -> Iterator[None]:
    """Room for the recursion of a walk over any tree that `parse` gives."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


_DOTTED = ("(", "+", "-", "*", "/", "**", "^", "==", "<", ">")
_LIFTS = "functions and operators lift without a dot: `sin(x)`, `x * y`"


@mutable
class Cursor:
    """Before token number `pos`.

    `height` is that of the highest expression read since it was last set. `typing`: brackets hold
    types. `header`: a `:` ends the expression. `returns` are the places of `return` in the function
    so far. `open_ended`: the text ends where a block could go on.
    """

    source: Source
    text: str
    kinds: list[str]
    starts: list[int]
    ends: list[int]
    wrong: list[Diagnostic]
    pos: int = 0
    depth: int = 0
    height: int = 0
    typing: bool = False
    header: bool = False
    returns: list[Span] = field(default_factory=list)
    open_ended: bool = False

    # ------------------------------------------------------------ looking

    @property
    def kind(self) -> str:
        return self.kinds[self.pos]

    def ahead(self, n: int) -> str:
        """The kind of the token `n` places on."""
        at = self.pos + n
        return self.kinds[at] if at < len(self.kinds) else "EOF"

    @property
    def here(self) -> Span:
        """The place of the next token."""
        return Span(self.source, self.starts[self.pos], self.ends[self.pos])

    @property
    def word(self) -> str:
        """The text of the next token."""
        return self.text[self.starts[self.pos] : self.ends[self.pos]]

    def since(self, start: int) -> Span:
        """From an offset to the end of the token before."""
        return Span(self.source, start, max(start, self.ends[self.pos - 1]))

    @property
    def found(self) -> str:
        """The next token, for a message."""
        match self.kind:
            case "NEWLINE":
                return "the end of the line"
            case "INDENT" | "DEDENT":
                return "the end of the block"
            case "EOF":
                return "the end of the file"
            case "STR":
                return "a string"
            case "NAME" | "NUM":
                word = self.word
                return f"`{word}`" if len(word) < 40 else f"`{word[:39]}…`"
            case kind:
                return f"`{kind}`"

    # ------------------------------------------------------------ going on

    def skip(self) -> Span:
        """Over the next token; its place."""
        span = self.here
        self.pos += 1
        return span

    def take(self, kind: str) -> bool:
        """Over the next token if it is of this kind."""
        if self.kinds[self.pos] == kind:
            self.pos += 1
            return True
        return False

    def expect(self, kind: str, what: str = "") -> Span:
        """Over the next token, which must be of this kind."""
        if self.kinds[self.pos] != kind:
            raise Wrong(errors.unexpected(what or f"`{kind}`", self.found, self.here))
        return self.skip()

    def name(self, role: str) -> tuple[str, Span]:
        """A name, and what it names: "a parameter"."""
        if self.kind == "NAME":
            word = self.word
            return word, self.skip()
        if self.kind in KEYWORDS:
            raise Wrong(errors.keyword(self.here, role))
        helps = (_LIFTS,) if role == "a field" and self.kind in _DOTTED else ()
        if role == "a field" and self.text[self.starts[self.pos - 2] : self.here.start] == "...":
            helps = ("axes that no index names are kept: `x[i]` is a row; in front, `x[.., j]`",)
        raise Wrong(errors.unexpected(f"the name of {role}", self.found, self.here, *helps))

    def down(self) -> None:
        """One level deeper; whoever calls this takes the level back."""
        self.depth += 1
        if self.depth > NESTING:
            raise Wrong(errors.too_deep(self.here, NESTING))

    def report(self, diagnostic: Diagnostic) -> None:
        self.wrong.append(diagnostic)


def cursor(tokens: Tokens) -> Cursor:
    """At the first token."""
    return Cursor(
        tokens.source, tokens.source.text, tokens.kinds, tokens.starts, tokens.ends, tokens.wrong
    )
