"""Where things are in a text, and how to tell the user about them.

A `Diagnostic` is one thing to say: a code with a page, one sentence that stands alone, labels
(the first is where a fix most likely goes; the others say where each belief came from), notes
(facts not visible in the text) and helps (something to paste, only when sure).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from unicodedata import combining, east_asian_width

from naperian.node import node, replace


@dataclass(frozen=True)
class Source:
    """A text with a name (its path as the user gave it, or `<repl>`)."""

    name: str
    text: str

    @cached_property
    def line_starts(self) -> list[int]:
        starts, at = [0], self.text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = self.text.find("\n", at + 1)
        return starts

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        start = self.line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : len(self.text) if end < 0 else end].rstrip("\r")


@node
class Span:
    """A half-open range of character offsets in a source."""

    source: Source = field(repr=False)
    start: int
    end: int
    again: bool = field(default=False, compare=False, repr=False)  # of what is computed once more
    slope: str = field(default="", compare=False, repr=False)  # of a derivative of what is there

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def derived(self, slope: str) -> Span:
        """Of the cotangent or the tangent of what is there."""
        return replace(self, slope=f"{slope} of the {self.slope}" if self.slope else slope)

    def to(self, other: Span) -> Span:
        """From the start of this span to the end of the other."""
        return Span(self.source, self.start, other.end)

    @property
    def place(self) -> str:
        """`file:line:column`, for messages at run time."""
        line, column = self.source.position(self.start)
        return f"{self.source.name}:{line}:{column}"


def called(name: str) -> Span:
    """The place of what is in no text, but has a name."""
    return Span(Source("<builtin>", name), 0, len(name))


NOWHERE = called("")


@node
class Label:
    """A remark on a span; an empty text only underlines."""

    span: Span
    text: str = ""


@node
class Diagnostic:
    """One thing to tell the user. `labels[0]` is the primary one."""

    code: str
    message: str
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    helps: tuple[str, ...] = ()
    severity: str = "error"

    @property
    def place(self) -> str:
        return self.labels[0].span.place if self.labels else ""


class Error(Exception):
    """What a user of Naperian may want to catch: a program, an argument or a run is wrong."""


class CompileError(Error):
    """A program cannot be compiled. `diagnostics` are in the order of the text.

    `str(error)` is the rendered message with excerpts of the source.
    """

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        super().__init__(diagnostics)
        self.diagnostics = diagnostics

    def __str__(self) -> str:
        return "\n\n".join(render(d) for d in self.diagnostics)


_WIDEST = 160  # a longer source line is cut around its labels
_HIDDEN = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # what would disturb a terminal


def render(diagnostic: Diagnostic) -> str:
    """The diagnostic as text: message, place, excerpts with carets, notes and helps."""
    lines = [f"{diagnostic.severity}[{diagnostic.code}]: {diagnostic.message}"]
    by_source: dict[Source, list[tuple[int, Label]]] = {}
    for k, label in enumerate(diagnostic.labels):
        by_source.setdefault(label.span.source, []).append((k, label))
    numbers = [label.span.source.position(label.span.start)[0] for label in diagnostic.labels]
    gutter = len(str(max(numbers, default=1)))
    for source, labels in by_source.items():
        line, column = source.position(labels[0][1].span.start)
        lines.append(f"{' ' * gutter}--> {source.name}:{line}:{column}")
        lines.extend(_excerpt(source, labels, gutter))
    pad = " " * gutter
    if diagnostic.notes or diagnostic.helps:
        lines.append(f"{pad} |")
    lines.extend(_hang(f"{pad} = note: ", note) for note in diagnostic.notes)
    lines.extend(_hang(f"{pad} = help: ", text) for text in diagnostic.helps)
    return _HIDDEN.sub(lambda m: " " if m[0] == "\t" else "�", "\n".join(lines))


def _hang(lead: str, text: str) -> str:
    return lead + text.replace("\n", "\n" + " " * len(lead))


def _excerpt(source: Source, labels: list[tuple[int, Label]], gutter: int) -> list[str]:
    """The lines with labels, each with its marks below it, the rightmost first."""
    by_line: dict[int, list[tuple[int, Label]]] = {}
    for rank, label in labels:
        by_line.setdefault(source.position(label.span.start)[0], []).append((rank, label))
    pad = " " * gutter
    out = [f"{pad} |"]
    for line in sorted(by_line):
        text = source.line(line)
        begin = source.line_starts[line - 1]
        first = min(label.span.start for _, label in by_line[line]) - begin
        shift = max(0, first - _WIDEST // 4) if len(text) > _WIDEST else 0
        shown = text[shift : shift + _WIDEST]
        cut = "…" * (shift > 0), "…" * (len(text) > shift + _WIDEST)
        out.append(f"{line:>{gutter}} | {cut[0]}{shown}{cut[1]}".rstrip())
        for rank, label in sorted(by_line[line], key=lambda m: (-m[1].span.start, m[0])):
            start = min(label.span.start - begin - shift, len(shown))
            end = max(start, min(label.span.end - begin - shift, len(shown)))
            under = " " * _columns(cut[0] + shown[:start])
            under += ("^" if rank == 0 else "-") * max(1, _columns(shown[start:end]))
            lead = f"{pad} | {under}"
            out.append(_hang(lead + " ", label.text) if label.text else lead)
    return out


def _columns(text: str) -> int:
    """How many columns a terminal takes for a text: wide characters two, accents none."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)
