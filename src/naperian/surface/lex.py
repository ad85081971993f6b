"""The text as tokens: one regular expression, and the grammar's rules for lines and brackets.

A token's kind is its own text for keywords and operators, else one of

    NAME  NUM  STR  NEWLINE  INDENT  DEDENT  EOF

`lex` never fails. What it cannot read becomes a diagnostic, and the tokens are what was probably
meant: brackets are balanced and every INDENT has its DEDENT, so the parser need not look again.
"""

from __future__ import annotations

import re
from dataclasses import field

from naperian.node import mutable, node
from naperian.source import Diagnostic, Source, Span
from naperian.surface import errors

KEYWORDS = frozenset(
    (
        "def", "where", "struct", "enum", "interface", "instance", "import", "from", "as", "for",
        "in", "if", "elif", "else", "match", "case", "with", "loop", "while", "lambda", "and",
        "or", "not", "exists", "assert", "except",
    )
)

_CLOSER = {"(": ")", "[": "]", "{": "}"}
_OPENER = {close: opened for opened, close in _CLOSER.items()}

_DIGITS = r"\d+(?:_\d+)*"
_NUMBER = (
    r"(?:0x[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*|0b[01]+(?:_[01]+)*"
    rf"|{_DIGITS}(?:\.{_DIGITS})?(?:e[+-]?{_DIGITS})?)"
)
# One group for each kind of token, in the order of the names below; the fifth is inside the fourth.
# `&&`, `++`, `-=` and their like are no operators: as tokens, the parser can say what to write.
# What `*+` repeats is one character: Python before 3.11.5 loses its way in groups.
_TOKEN = re.compile(
    r"[ \t\f]*+(?:"
    r'((?!f")[A-Za-z_]\w*+)'
    r"|(<?\.\.=(?!>)|<?\.\.|=>|->|(?:\*\*|//|<<|>>|[-+*/%@&|^])=|[=!<>:]=|&&|\|\||\+\+|\*\*|//|<<|>>"
    r"|\.(?!\d)|[-+*/%@&|^~<>=()\[\]{},:?])"
    rf"|({_NUMBER}(?!\w|\.(?!\.)))"
    r"|((?:\#[^\n]*+)?\r?\n(?:[ \t\f]*+(?:\#[^\n]*+|\r?)\n)*([ \t\f]*+))"
    r'|(f?"""[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*"""'
    r'|f?"(?!"")[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*")'
    r"|(\#[^\n]*+)"
    r"|(\.?\d\w*+(?:\.(?!\.)\w*+)*)"
    r"|(f?\"\"\".*+|f?\"[^\n]*+|'[^'\n]*+')"
    r"|(.|\Z))",
    re.ASCII | re.DOTALL,
)
_NAME, _OPERATOR, _NUM, _LINE, _INDENT, _STR, _COMMENT, _NO_NUM, _NO_STR, _OTHER = range(1, 11)
_BLANK_LINES = re.compile(r"(?:[ \t\f]*+(?:#[^\n]*+|\r?)\n)*([ \t\f]*+)")
_NO_TEXT = re.compile(r"[\x00\ud800-\udfff]")
_CONTINUED = re.compile(r"\\\r?\n[ \t]*")
_RUN = re.compile(r"[^\W\d]\w*|.", re.DOTALL)
# Words at the start of a line that cannot stand inside brackets: before them, one was not closed.
_AFRESH = re.compile(r"(?:def|struct|enum|interface|instance|import)[ ]+[A-Za-z_(]")
# A line that starts with this word goes on with the line above.
_GOES_ON = re.compile(r"where\b")

_MOST_AGAIN = 4  # how many times the length of the text may be read again
_MOST_WRONG = 50


@mutable
class Tokens:
    """Kinds and places in parallel. `unfinished`: the text ends inside a bracket or a string."""

    source: Source
    kinds: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    wrong: list[Diagnostic] = field(default_factory=list)
    unfinished: bool = False

    def add(self, kind: str, start: int, end: int) -> None:
        self.kinds.append(kind)
        self.starts.append(start)
        self.ends.append(end)


def lex(source: Source) -> Tokens:
    """The tokens of a text."""
    lexer = _Lexer(Tokens(source), len(source.text))
    if no_text := _NO_TEXT.search(source.text):
        lexer.report(errors.no_text(Span(source, *no_text.span())))
    lead = _BLANK_LINES.match(source.text, 1 if source.text.startswith("\ufeff") else 0)
    assert lead is not None
    lexer.line(*lead.span(1))
    lexer.scan(lead.end())
    return lexer.finish()


def lex_within(source: Source, start: int, end: int) -> Tokens:
    """The tokens of an expression inside a string, where the ends of lines do not count."""
    lexer = _Lexer(Tokens(source), end, one_line=True)
    lexer.scan(start)
    return lexer.finish()


@node
class _Open:
    """An open bracket: where, the indentation of its block, and its number among the tokens."""

    kind: str
    start: int
    indent: int
    number: int


@mutable
class _Lexer:
    """How far the scan has come: the open brackets and blocks."""

    tokens: Tokens
    end: int
    one_line: bool = False
    brackets: list[_Open] = field(default_factory=list)
    indents: list[int] = field(default_factory=lambda: [0])
    inner_lines: list[tuple[int, int, int]] = field(default_factory=list)
    """The lines begun inside the open brackets: where their indentation and their first token
    start, and how many tokens came before."""
    tabs: list[int] = field(default_factory=list)
    again: int = 0
    """How many characters were read again."""
    foreign: int = -1
    """Where the last character was that is no token."""

    def scan(self, at: int) -> None:
        """From here to the end, beginning again where a bracket turns out to be left open."""
        place: int | None = at
        while place is not None:
            self.tokens_from(place)
            if not self.brackets:
                return
            self.tokens.unfinished = True
            place = self.left_open(self.end)

    def tokens_from(self, at: int) -> None:
        text, end, match, brackets = self.tokens.source.text, self.end, _TOKEN.match, self.brackets
        add_kind = self.tokens.kinds.append
        add_start = self.tokens.starts.append
        add_end = self.tokens.ends.append
        while at < end:
            m = match(text, at, end)
            assert m is not None
            group = m.lastindex
            assert group is not None
            start, at = m.span(group)
            if group == _NAME:
                word = m[group]
                kind = word if word in KEYWORDS else "NAME"
            elif group == _OPERATOR:
                kind = m[group]
                if kind in _CLOSER:
                    here = len(self.tokens.kinds)
                    brackets.append(_Open(kind, start, self.indents[-1], here))
                elif kind in _OPENER:
                    if not brackets or _CLOSER[brackets[-1].kind] != kind:
                        self.wrong_closer(kind, start)
                        continue
                    brackets.pop()
            elif group == _LINE:
                at = self.line_end(start, *m.span(_INDENT))
                continue
            elif group == _NUM:
                kind = "NUM"
            elif group == _STR:
                kind = "STR"
            elif group == _COMMENT:
                continue
            elif group == _OTHER:
                at = self.other(start)
                continue
            else:
                kind = "NUM" if group == _NO_NUM else "STR"
                self.report(self.mistaken(group, start, at))
            add_kind(kind)
            add_start(start)
            add_end(at)

    def finish(self) -> Tokens:
        tokens, end = self.tokens, self.end
        if not self.one_line:
            self.end_line(end)
            for _ in self.indents[1:]:
                tokens.add("DEDENT", end, end)
            if self.tabs:
                first = self.tabs[0]
                tokens.wrong.append(errors.tabs(self.span(first, first + 1), len(self.tabs)))
        tokens.add("EOF", end, end)
        return tokens

    # ------------------------------------------------------------ lines

    def line_end(self, start: int, indent: int, first: int) -> int:
        """After the end of a line at `start`; the next begins with the token at `first`."""
        text = self.tokens.source.text
        if self.one_line:
            return first
        if self.brackets:
            self.inner_lines.append((indent, first, len(self.tokens.kinds)))
            if _AFRESH.match(text, first, self.end):
                return self.left_open(first) or self.line(indent, first)
            return first
        if _GOES_ON.match(text, first, self.end):
            return first
        self.end_line(start)
        return self.line(indent, first)

    def end_line(self, at: int) -> None:
        kinds = self.tokens.kinds
        if kinds and kinds[-1] not in ("NEWLINE", "INDENT", "DEDENT"):
            self.tokens.add("NEWLINE", at, at)
        self.inner_lines.clear()

    def line(self, indent: int, first: int) -> int:
        """INDENT and DEDENTs before the first token of a line."""
        text, indents = self.tokens.source.text, self.indents
        if first >= self.end or text[first] == "#":
            return first  # nothing but white space and comments to the end
        lead = text[indent:first]
        width = len(lead.expandtabs(4).replace("\f", ""))
        if "\t" in lead:
            self.tabs.append(indent + lead.index("\t"))
        if width > indents[-1]:
            indents.append(width)
            self.tokens.add("INDENT", indent, first)
        while width < indents[-1]:
            if width > indents[-2]:
                if "\t" not in lead:
                    self.report(errors.dedent(self.span(indent, first), indents[-2], indents[-1]))
                if indents[-1] - width <= width - indents[-2]:
                    break  # nearer to the block than to what is around it
            indents.pop()
            self.tokens.add("DEDENT", first, first)
        return first

    # ------------------------------------------------------------ brackets

    def wrong_closer(self, kind: str, start: int) -> None:
        """A closing bracket that is not the one due. A tighter bracket was left open, or this is a
        slip of the finger, or one too many."""
        span, brackets = self.span(start, start + 1), self.brackets
        if not brackets:
            self.report(errors.nothing_to_close(span))
            return
        due = _CLOSER[brackets[-1].kind]
        opener = self.span(brackets[-1].start, brackets[-1].start + 1)
        self.report(errors.wrong_closer(span, opener, due))
        brackets.pop()
        if brackets and _CLOSER[brackets[-1].kind] == kind:
            self.tokens.add(due, start, start)
            brackets.pop()
            self.tokens.add(kind, start, start + 1)
        else:
            self.tokens.add(due, start, start + 1)

    def left_open(self, limit: int) -> int | None:
        """No bracket may be open at `limit`. The first line since the outermost one that is no
        deeper than its block probably starts something new: take back the tokens from there on,
        close the brackets, and say where to go on."""
        outer, text, tokens = self.brackets[0], self.tokens.source.text, self.tokens
        self.foreign = -1
        self.report(errors.unclosed(self.span(outer.start, outer.start + 1)))
        again = None
        if not self.one_line:
            for indent, first, number in self.inner_lines:
                if first - indent <= outer.indent and first < limit and text[first] not in ")]}":
                    self.again += limit - first
                    if self.again > _MOST_AGAIN * self.end:
                        break
                    again, limit = (indent, first), text.rindex("\n", 0, first)
                    del tokens.kinds[number:], tokens.starts[number:], tokens.ends[number:]
                    tokens.wrong = [d for d in tokens.wrong if d.labels[0].span.start < first]
                    break
        for b in reversed(self.brackets):
            if b.number < len(tokens.kinds):
                tokens.add(_CLOSER[b.kind], limit, limit)
        self.brackets.clear()
        if not self.one_line:
            self.end_line(limit)
        return self.line(*again) if again else None

    # ------------------------------------------------------------ mistakes

    def mistaken(self, group: int, start: int, end: int) -> Diagnostic:
        """A number or a string that is none."""
        text, span = self.tokens.source.text, self.span(start, end)
        if group == _NO_NUM:
            adjacent = start > 0 and (text[start - 1].isalnum() or text[start - 1] in "_)]")
            if text[start] == "." and adjacent:
                return errors.numbered_field(span)
            return errors.number(span)
        if text[start] == "'":
            return errors.single_quotes(span)
        if '"""' in text[start : start + 4]:
            self.tokens.unfinished = True
            return errors.unterminated(self.span(start, start + text[start:].index('"') + 3), '"""')
        return errors.unterminated(span, '"')

    def other(self, start: int) -> int:
        """A character, or a foreign word, that is no token."""
        text = self.tokens.source.text
        run = _RUN.match(text, start, self.end)
        if run is None:
            return self.end
        first = self.foreign < 0 or "\n" in text[self.foreign : start]  # one a line is enough
        if first and not _NO_TEXT.match(text, start):
            self.report(errors.character(self.span(*run.span())))
        self.foreign = start
        continued = _CONTINUED.match(text, start, self.end)
        return continued.end() if continued else run.end()

    def report(self, diagnostic: Diagnostic) -> None:
        if len(self.tokens.wrong) < _MOST_WRONG:
            self.tokens.wrong.append(diagnostic)

    def span(self, start: int, end: int) -> Span:
        return Span(self.tokens.source, start, end)
