"""Text to tree. Parsing never fails: there is always a tree, and what was wrong beside it."""

from __future__ import annotations

from naperian.source import Diagnostic, Source, Span
from naperian.surface import errors
from naperian.surface.cursor import Cursor, cursor, deep
from naperian.surface.declarations import declaration
from naperian.surface.headers import docstring
from naperian.surface.lex import lex
from naperian.surface.reading import LARGEST
from naperian.surface.statements import sequence
from naperian.surface.syntax import Decl, Module

"""The most characters, or bytes in a file, that a source may have."""

_GOES_ON = frozenset(("N0102", "N0106", "N0111"))


def parse(source: Source) -> tuple[Module, tuple[Diagnostic, ...]]:
    """A module, and its mistakes in the order of the text."""
    whole = Span(source, 0, len(source.text))
    if len(source.text) > LARGEST:
        size = len(source.text)
        return Module(whole, None, ()), (errors.too_large(source.name, size, LARGEST),)
    with deep():
        c = cursor(lex(source))
        doc = docstring(c)
        decls = _declarations(c)
    return Module(whole, doc, decls), _in_order(c.wrong)


def parse_entry(source: Source) -> tuple[tuple[Decl, ...], tuple[Diagnostic, ...], bool]:
    """What was typed at a prompt, its mistakes, and whether more lines should be asked for: a
    bracket, a string or a block is open. An empty line ends a block."""
    if len(source.text) > LARGEST:
        _, wrong = parse(source)
        return (), wrong, False
    with deep():
        tokens = lex(source)
        c = cursor(tokens)
        decls = _declarations(c)
    wrong = _in_order(c.wrong)
    ended = source.text.replace(" ", "").endswith("\n\n")
    goes_on = (tokens.unfinished or c.open_ended) and not ended
    return decls, wrong, goes_on and all(d.code in _GOES_ON for d in wrong)


def _declarations(c: Cursor) -> tuple[Decl, ...]:
    decls: list[Decl] = []
    while c.kind != "EOF":
        decls.extend(sequence(c, declaration))
        c.take("DEDENT")
    for span in c.returns:
        c.report(errors.return_outside(span))
    return tuple(decls)


def _in_order(wrong: list[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(sorted(wrong, key=lambda d: d.labels[0].span.start))
