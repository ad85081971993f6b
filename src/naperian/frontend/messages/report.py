"""How the front end reports: what is raised at a mistake, and how its sentences are put together.

The sentences themselves are in `errors` and in the `…_errors` of the parts of the language, one
function each.
"""

from __future__ import annotations

import re

from naperian.frontend.unknowns import Because
from naperian.source import Diagnostic, Label, Span


class Reported(Exception):
    """Raised with the diagnostic at the place of a mistake; caught once per definition."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic)
        self.diagnostic = diagnostic


class Silent(Exception):
    """Raised where a mistake was reported already, at the definition that is used."""


def fail(
    code: str,
    message: str,
    span: Span,
    label: str = "",
    *,
    others: tuple[Label, ...] = (),
    notes: tuple[str, ...] = (),
    helps: tuple[str, ...] = (),
) -> Reported:
    """The exception of a mistake: `label` stands at the caret, `others` say where each belief came
    from."""
    marks = (Label(span, label), *others)
    if any(ANOTHER in text for text in (message, *helps, *(x.text for x in marks))):
        notes += (_COMPUTED_AGAIN,)
    return Reported(
        Diagnostic(
            code, _brief(message), tuple(Label(x.span, _brief(x.text)) for x in marks),
            tuple(map(_brief, notes)), tuple(map(_brief, helps)),
        )
    )


def labels(reasons: tuple[Because, ...], primary: Span) -> tuple[Label, ...]:
    """The reasons as labels, but for the caret's own place and the library's texts."""
    return tuple(
        r.label for r in reasons if r.span != primary and r.span.source.name != "<builtin>"
    )


def opener(span: Span) -> str:
    """The word that opens the block around, which is on a line further left: `if`, `loop`."""
    *above, line = span.source.text[: span.start].split("\n")
    depth = len(line) - len(line.lstrip())
    for line in reversed(above):
        if line.strip() and len(line) - len(line.lstrip()) < depth:
            found = re.match(r"\s*(?:\w+ = )?(\w+)", line)
            return found[1] if found else ""
    return ""


def plural(n: int, one: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{n} {one}" if n == 1 else f"{n} {one}s"


def both(names: list[str]) -> str:
    """`` `a`, `b` and `c` ``"""
    return _listed(names, "and")


def either(names: list[str]) -> str:
    """`` `a`, `b` or `c` ``"""
    return _listed(names, "or")


def _listed(names: list[str], word: str) -> str:
    items = [f"`{n}`" for n in names]
    if len(items) < 2:
        return "".join(items)
    if len(items) > _MANY:
        items = [*items[: _MANY - 1], f"{len(items) - _MANY + 1} more"]
    return ", ".join(items[:-1]) + f" {word} {items[-1]}"


def _brief(text: str) -> str:
    """Quoted program text on one line, and not longer than a message bears."""
    return re.sub(r"`[^`]+`", _shortened, text)


def _shortened(quoted: re.Match[str]) -> str:
    text = quoted[0].strip("`")
    if "\n" in text:
        text = " ".join(text.split())
    return f"`{text}`" if len(text) <= _LONGEST else f"`{text[:_LONGEST]}…`"


ANOTHER = "′"
"""The mark of a number that is computed once more from the same text."""

_COMPUTED_AGAIN = (
    f"what is computed twice is taken for two numbers, and the second has the mark {ANOTHER}; "
    "bound to a name, it is one"
)
_LONGEST = 120  # letters of program text in a sentence
_MANY = 12  # names in a list


def postfix(text: str) -> str:
    """An expression before `?`, `.` or `[`: in parentheses unless nothing in it binds less."""
    return text if re.fullmatch(r"\w+(\[[^\[\]]*\]|\([^()]*\))*", text) else f"({text})"
