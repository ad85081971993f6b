"""Where things are in a text, and how to tell the user about them.

A `Diagnostic` is one thing to say: a code with a page, one sentence that stands alone, labels
(the first is where a fix most likely goes; the others say where each belief came from), notes
(facts not visible in the text) and helps (something to paste, only when sure).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property

from naperian.node import node


@dataclass(frozen=True)
class Source:
    """A text with a name (its path as the user gave it, or `<repl>`)."""

    name: str
    text: str

    @cached_property
    def line_starts(self) -> list[int]:
        starts = [0]
        for k, c in enumerate(self.text):
            if c == "\n":
                starts.append(k + 1)
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

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def to(self, other: Span) -> Span:
        """From the start of this span to the end of the other."""
        return Span(self.source, self.start, other.end)

    @property
    def place(self) -> str:
        """`file:line:column`, for messages at run time."""
        line, column = self.source.position(self.start)
        return f"{self.source.name}:{line}:{column}"


NOWHERE = Span(Source("<builtin>", ""), 0, 0)


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


def render(diagnostic: Diagnostic) -> str:
    """The diagnostic as text: message, place, excerpts with carets, notes and helps."""
    lines = [f"{diagnostic.severity}[{diagnostic.code}]: {diagnostic.message}"]
    by_source: dict[Source, list[tuple[int, Label]]] = {}
    for k, label in enumerate(diagnostic.labels):
        by_source.setdefault(label.span.source, []).append((k, label))
    numbers = [
        label.span.source.position(label.span.start)[0]
        for label in diagnostic.labels
    ]
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
    return "\n".join(lines)


def _hang(lead: str, text: str) -> str:
    return lead + text.replace("\n", "\n" + " " * len(lead))


def _excerpt(source: Source, labels: list[tuple[int, Label]], gutter: int) -> list[str]:
    by_line: dict[int, list[tuple[int, int, int, str]]] = {}
    for rank, label in labels:
        line, column = source.position(label.span.start)
        width = max(1, min(label.span.end - label.span.start, len(source.line(line)) - column + 1))
        by_line.setdefault(line, []).append((rank, column, width, label.text))
    out = [f"{' ' * gutter} |"]
    for line in sorted(by_line):
        text = source.line(line).replace("\t", " ")
        marks = by_line[line]
        shift = 0
        if len(text) > _WIDEST:
            shift = max(0, min(c for _, c, _, _ in marks) - 40)
            text = ("…" if shift else "") + text[shift + bool(shift) : shift + _WIDEST] + "…"
        out.append(f"{line:>{gutter}} | {text}")
        # the rightmost mark first, the primary one closest to the text among equals
        for rank, column, width, remark in sorted(marks, key=lambda m: (-m[1], m[0])):
            sign = "^" if rank == 0 else "-"
            under = " " * (column - 1 - shift) + sign * min(width, _WIDEST)
            lead = f"{' ' * gutter} | {under}"
            out.append(_hang(lead + " ", remark) if remark else lead)
    return out
