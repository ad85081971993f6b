"""The values of numbers and strings."""

from __future__ import annotations

import re
from math import isinf
from textwrap import dedent

from naperian.source import Source, Span
from naperian.surface import errors
from naperian.surface.cursor import Cursor, Wrong

_LONGEST = 400  # digits; any more is a mistake, and Python refuses thousands
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\", '"': '"', "'": "'", "\n": ""}
_ESCAPE = re.compile(r"\r\n|\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|\r?(.)|)", re.DOTALL)

_MARK = re.compile(r"\{\{|\}\}|[{}]")
_BRACE = re.compile(r"[{}]")


def number(c: Cursor) -> int | float:
    """The value of the number here. One the lexer has complained about is 0."""
    span = c.skip()
    text = span.text
    if len(text) > _LONGEST:
        raise Wrong(errors.too_long_number(span))
    based = text[1:2] in ("x", "b")
    try:
        if not based and ("." in text or "e" in text):
            value = float(text)
            if isinf(value):
                raise Wrong(errors.too_long_number(span))
            return value
        return int(text, 0 if based else 10)
    except ValueError:
        return 0


def string(c: Cursor) -> str:
    """The text of the string here, which must not be an f-string."""
    span = c.here
    if span.text.startswith("f"):
        raise Wrong(errors.unexpected("a plain string", "an f-string", span))
    c.pos += 1
    return "".join(p for p in pieces(span) if isinstance(p, str))


def pieces(span: Span) -> list[str | Span]:
    """What a string is made of: its text, and in an f-string the places of the expressions."""
    source, text = span.source, span.text
    formatted = text.startswith("f")
    quote = '"""' if text.startswith('"""', formatted) else text[formatted]
    start, end = span.start + formatted + len(quote), span.end
    if text.endswith(quote) and end - len(quote) >= start:  # the closing one may be missing
        end -= len(quote)
    found: list[str | Span] = []
    literal = ""
    while formatted and (mark := _MARK.search(source.text, start, end)):
        at, sign = mark.start(), mark[0]
        if sign == "}":
            raise Wrong(errors.format_part(Span(source, at, at + 1), "this `}` closes nothing"))
        if sign == "{":
            close = _closing(source, at, end)
            if literal := literal + characters(Span(source, start, at)):
                found.append(literal)
            found.append(Span(source, at + 1, close))
            literal, start = "", close + 1
        else:  # a doubled brace stands for itself
            literal += characters(Span(source, start, at + 1))
            start = mark.end()
    if literal := literal + characters(Span(source, start, end)):
        found.append(literal)
    return found


def _closing(source: Source, opened: int, end: int) -> int:
    """Where the brace at `opened` is closed."""
    depth = 0
    for brace in _BRACE.finditer(source.text, opened, end):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    raise Wrong(errors.format_part(Span(source, opened, opened + 1), "this `{` is never closed"))


def characters(span: Span) -> str:
    """A part of a string with its escapes and line ends replaced."""

    def replaced(m: re.Match[str]) -> str:
        if m[0] == "\r\n":
            return "\n"
        if m[3] in _ESCAPES:
            return _ESCAPES[m[3]]
        code = int(m[1] or m[2] or "d800", 16)
        if 0xD800 <= code <= 0xDFFF:  # half of a pair is no character
            start = span.start
            raise Wrong(errors.escape(Span(span.source, start + m.start(), start + m.end())))
        return chr(code)

    text = span.text
    return _ESCAPE.sub(replaced, text) if "\\" in text or "\r" in text else text


def cleaned(doc: str) -> str:
    """A docstring without the indentation that all its lines but the first share."""
    first, newline, more = doc.partition("\n")
    return (first.lstrip() + newline + dedent(more)).strip()
