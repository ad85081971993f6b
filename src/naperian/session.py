"""A program that grows entry by entry: the REPL's state, and the scope of `>>>` examples.

Definitions accumulate; one whose name is taken replaces the earlier one, and everything is checked
again together, so an entry means what it would mean in a file. A mistake is shown in the entry the
user typed, not in the whole text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from naperian.border import RunError
from naperian.node import node, replace
from naperian.source import CompileError, Diagnostic, Label, Source, Span
from naperian.surface import syntax
from naperian.surface.parse import parse

RESULT = "it"
_LEAD = f"def {RESULT}() = "
_WHOLE = "<session>"


@node
class Piece:
    """An entry: what it is called in messages, its text, the names it defines, and how much of the
    text the user did not write."""

    title: str
    text: str
    names: frozenset[str] = frozenset()
    lead: int = 0


@dataclass(frozen=True)
class Draft:
    """A program made of pieces, not yet known to be right. `names` are what the last entry defines;
    none if it is an expression, which is then the body of `it`."""

    pieces: tuple[Piece, ...]
    names: frozenset[str] = frozenset()

    @cached_property
    def source(self) -> Source:
        return Source(_WHOLE, "".join(f"{p.text}\n\n" for p in self.pieces))

    def explained(self, error: CompileError) -> CompileError:
        """The error with every place given in the entry it is in."""
        return CompileError(tuple(self._moved(d) for d in error.diagnostics))

    def stopped(self, error: RunError) -> str:
        """What a run that stopped says, with the place given in the entry it is in."""
        place = re.fullmatch(rf"{_WHOLE}:(\d+):(\d+)", error.place)
        if place is None:
            return f"{type(error).__name__}: {error}"
        start = self.source.line_starts[int(place[1]) - 1] + int(place[2]) - 1
        own = self._place(Span(self.source, start, start))
        return f"{type(error).__name__}: {str(error).replace(error.place, own.place)}"

    def _moved(self, d: Diagnostic) -> Diagnostic:
        return replace(d, labels=tuple(Label(self._place(x.span), x.text) for x in d.labels))

    def _place(self, span: Span) -> Span:
        if span.source.name != _WHOLE:
            return span
        start = 0
        for p in self.pieces:
            if span.start < start + len(p.text) + 2:
                own = Source(p.title, p.text[p.lead :])
                first, last = (
                    min(max(x - start - p.lead, 0), len(own.text)) for x in (span.start, span.end)
                )
                return Span(own, first, last)
            start += len(p.text) + 2
        return span


@node
class Session:
    """The accepted entries, in order."""

    pieces: tuple[Piece, ...] = ()

    @staticmethod
    def of(source: Source) -> Session:
        """A session that starts from a module."""
        return Session((Piece(source.name, source.text.rstrip("\n")),))

    def draft(self, entry: str = "", title: str = "<entry>") -> Draft:
        """The program with this entry at its end."""
        entry = entry.rstrip("\n")
        if not entry:
            return Draft(self.pieces)
        names = frozenset(n for d in _parsed(entry).decls for n in _names(d))
        if not names:
            value = Piece(title, _LEAD + entry, frozenset({RESULT}), len(_LEAD))
            return Draft((*self.pieces, value))
        kept = (p for p in self.pieces if not p.names or not p.names <= names)
        return Draft((*kept, Piece(title, entry, names)), names)

    def imported(self, name: str) -> str | None:
        """What an imported name is called as a whole: `module.f` of `f`, or of `m.f`."""
        first, _, member = name.partition(".")
        for piece in reversed(self.pieces):
            for d in _parsed(piece.text).decls:
                if isinstance(d, syntax.Import) and member and first == (d.alias or d.path[0]):
                    inner = member if d.alias else ".".join(name.split(".")[len(d.path) :])
                    return f"{'.'.join(d.path)}.{inner}"
                if isinstance(d, syntax.Import | syntax.FromImport):
                    for n in d.names:
                        if name == (n.alias or n.name):
                            return f"{'.'.join(d.path)}.{n.name}"
        return None

    def after(self, draft: Draft) -> Session:
        """The session once a definition has been accepted."""
        return Session(draft.pieces) if draft.names else self


def docstrings(source: Source) -> list[tuple[str, int]]:
    """The docstrings of a module, each with the line of what it describes."""
    module, _ = parse(source)
    found = [(module.doc, 1)] if module.doc else []
    for d in module.decls:
        if isinstance(d, syntax.Def | syntax.Enum | syntax.Struct) and d.doc:
            found.append((d.doc, source.position(d.name_span.start)[0]))
    return found


def _parsed(entry: str) -> syntax.Module:
    return parse(Source("<entry>", entry + "\n"))[0]


def _names(decl: syntax.Decl) -> list[str]:
    match decl:
        case syntax.Def(name=name) | syntax.Enum(name=name) | syntax.Struct(name=name):
            return [name]
        case syntax.Interface(name=name):
            return [name]
        case syntax.Instance(name=name, types=types):  # again for these types, it replaces itself
            return [f"{name}({', '.join(t.span.text for t in types)})"]
        case syntax.Bind(pattern=pattern):
            return _bound(pattern)
        case syntax.Import(path=path, alias=alias, names=names):
            return [alias or path[0], *(n.alias or n.name for n in names)]
        case syntax.FromImport(names=names):
            return [n.alias or n.name for n in names]
        case _:
            return []


def _bound(pattern: syntax.Pattern) -> list[str]:
    match pattern:
        case syntax.PName(name=name):
            return [name]
        case syntax.PTuple(items=items):
            return [n for p in items for n in _bound(p)]
        case _:
            return []
