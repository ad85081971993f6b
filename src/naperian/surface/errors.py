"""One function per thing to say about the text itself. Codes N01xx, each with a page
`docs/errors/<code>.md`. A message is one sentence in the words of a Python user, with the fix.
"""

from __future__ import annotations

import unicodedata
from difflib import get_close_matches

from naperian.source import Diagnostic, Label, Span


def _error(
    code: str, message: str, span: Span, label: str = "",
    *, others: tuple[Label, ...] = (), helps: tuple[str, ...] = (),
) -> Diagnostic:
    return Diagnostic(code, message, (Label(span, label), *others), (), helps)


def _short(text: str) -> str:
    """Text to quote in a sentence: one line, and not much of it."""
    line = " ".join(text.split())
    return line if len(line) <= 40 else line[:39] + "…"


# ---------------------------------------------------------------- what is expected


def unexpected(expected: str, found: str, span: Span, *helps: str) -> Diagnostic:
    """N0101"""
    return _error("N0101", f"expected {expected}, found {found}", span, "here", helps=helps)


def misplaced_rule(name: str, span: Span) -> Diagnostic:
    """N0720"""
    return _error(
        "N0720", f"`@{name}` stands above the function whose derivative it gives", span,
        "no `def` on the next line",
        helps=(f"write `@{name}(rule)`, then `def f(x: Float) -> Float: …` on the next line",),
    )


def missing_comma(span: Span, helps: tuple[str, ...] = ()) -> Diagnostic:
    """N0131"""
    meant = get_close_matches(span.text, ("for", "if", "else", "while"), 1)
    helps = (f"did you mean `{meant[0]}`?",) if meant else helps
    return _error("N0131", "a `,` is missing between two items", span, "the next item starts here",
                  helps=helps)


def missing_type(found: str, span: Span) -> Diagnostic:
    """N0124"""
    return _error("N0124", f"after `->` comes the type of the result, not {found}", span,
                  helps=("leave out `->` to have the type inferred",))


# ---------------------------------------------------------------- brackets


def unclosed(opener: Span) -> Diagnostic:
    """N0102"""
    return _error("N0102", f"this `{opener.text}` is never closed", opener, "opened here")


def wrong_closer(closer: Span, opener: Span, due: str) -> Diagnostic:
    """N0103"""
    return _error("N0103", f"`{opener.text}` is closed by `{due}`, not by `{closer.text}`", closer,
                  f"`{due}` is due here", others=(Label(opener, "opened here"),))


def nothing_to_close(closer: Span) -> Diagnostic:
    """N0103"""
    return _error("N0103", f"there is no open bracket for this `{closer.text}` to close", closer)


# ---------------------------------------------------------------- lines


def indented(span: Span) -> Diagnostic:
    """N0104"""
    return _error(
        "N0104", "this line is indented, but the line above opens no block", span, "too deep",
        helps=("a line that goes on with the one above it must stand in parentheses",),
    )


def dedent(span: Span, outer: int, inner: int) -> Diagnostic:
    """N0105"""
    width = span.end - span.start
    return _error("N0105", f"this line is indented by {width}, as no block above it is", span,
                  f"the blocks here are indented by {outer} and {inner}")


def missing_block(span: Span, header: str) -> Diagnostic:
    """N0106"""
    return _error("N0106", f"the block of this `{header}` is missing", span, "opens a block",
                  helps=("the lines of a block are indented, by four spaces",))


def missing_value(span: Span) -> Diagnostic:
    """N0106"""
    return _error("N0106", f"nothing follows this `{span.text}`", span,
                  helps=("the value stands on the same line, or indented on the next",))


def tabs(span: Span, lines: int) -> Diagnostic:
    """N0107"""
    more = f" here and on {lines - 1} more line{'s' * (lines > 2)}" if lines > 1 else " here"
    return _error("N0107", f"lines are indented by spaces, and there is a tab{more}", span, "a tab",
                  helps=("replace every tab by four spaces",))


def missing_colon(span: Span, header: str) -> Diagnostic:
    """N0109"""
    return _error("N0109", f"a `:` is missing after this `{header}`", span, "`:` goes here")


def missing_body(span: Span, name: str) -> Diagnostic:
    """N0109"""
    return _error("N0109", f"`{name}` has no body", span, "`=` or `:` goes here",
                  helps=("a body is `= expression`, or `:` and an indented block",))


def misplaced_return(span: Span) -> Diagnostic:
    """N0110"""
    return _error("N0110", "`return` stands only on the last line of a function", span, "too early",
                  helps=("a choice is `a if c else b`, or `if c:` with an `else:`",))


def return_outside(span: Span) -> Diagnostic:
    """N0110"""
    return _error("N0110", "there is no function for this `return` to end", span)


# ---------------------------------------------------------------- words and characters


def unterminated(span: Span, quote: str) -> Diagnostic:
    """N0111"""
    return _error("N0111", "this string has no end", span, f"`{quote}` is missing")


def single_quotes(span: Span) -> Diagnostic:
    """N0111"""
    return _error("N0111", 'a string stands between `"` and `"`', span,
                  helps=(f'write `"{_short(span.text[1:-1])}"`',))


def escape(span: Span) -> Diagnostic:
    """N0132"""
    text = span.text if span.text.isprintable() else ascii(span.text)[1:-1].replace("\\\\", "\\")
    return _error("N0132", f"`{text}` is not a character that can be written with `\\`", span,
                  helps=(f"for a backslash itself, write `\\{text}`",))


def number(span: Span) -> Diagnostic:
    """N0112"""
    text = span.text
    return _error("N0112", f"`{_short(text)}` is not a number", span, _number_mistake(text),
                  helps=_mended(text))


def _number_mistake(text: str) -> str:
    low = text.lower()
    if text.endswith("."):
        return "digits are missing after the point"
    if text.startswith("."):
        return "a digit is missing before the point"
    if low.startswith("0o"):
        return "there are no octal numbers"
    if "__" in text or text.endswith("_"):
        return "`_` stands singly, between digits"
    if text.endswith(("j", "J")) and text[:-1].replace(".", "", 1).isdigit():
        return "there are no imaginary numbers"
    return ""


def _mended(text: str) -> tuple[str, ...]:
    low = text.lower()
    if low.startswith(("0x", "0b")):
        digits = set("0123456789abcdef" if low[1] == "x" else "01")
        return (f"write `{low}`",) if text != low and set(low[2:]) <= digits else ()
    if low.startswith("0o") and low[2:] and set(low[2:]) <= set("01234567") and len(low) < 20:
        return (f"write `{int(low, 8)}`",)
    if low.endswith("j"):
        return ()
    parts = low.replace("_", "").split(".")
    if len(parts) == 2 and parts[1].startswith("e"):
        parts[1] = "0" + parts[1]
    mended = ".".join(p or "0" for p in parts)
    bare = mended.replace(".", "").replace("e", "", 1)
    if len(parts) <= 2 and bare.isdecimal() and mended[-1] != "e":
        return (f"write `{mended}`",)
    unit = text.lstrip("0123456789")
    if unit != text and unit.isidentifier() and unit.isascii() and not unit.startswith("_"):
        return (f"for the product, write `{text.removesuffix(unit)} * {unit}`",)
    return ()


def too_long_number(span: Span) -> Diagnostic:
    """N0112"""
    return _error("N0112", "this number is larger than any that can be represented", span)


def numbered_field(span: Span) -> Diagnostic:
    """N0112"""
    return _error("N0112", f"`{_short(span.text)}` is not the name of a field", span,
                  helps=("take a tuple apart by `(a, b) = …`",))


_LOOKALIKES = {
    "“": '"', "”": '"', "„": '"', "‘": '"', "’": '"', "−": "-", "–": "-", "—": "-", "×": "*",
    "·": "*", "÷": "/", "≤": "<=", "≥": ">=", "≠": "!=", "→": "->", "⇒": "=>", "…": "..",
    "，": ",", "：": ":", "（": "(", "）": ")", "∧": "and", "∨": "or", "¬": "not",
}
_NAMED = {
    "\\": "no `\\` is needed where a line ends inside parentheses",
    ";": "write each statement on a line of its own",
    "$": "names are made of letters, digits and `_`",
    "'": 'a string stands between `"` and `"`',
    "`": 'a string stands between `"` and `"`',
    "\r": "lines end with a line feed: save the file with the line ends of Unix or Windows",
    "²": "a power is `x ** 2`", "³": "a power is `x ** 3`", "√": "the root is `sqrt(x)`",
    "∞": "write `inf`", "∑": "a sum is `sum(e for i)`", "∏": "a product is `prod(e for i)`",
}


def character(span: Span) -> Diagnostic:
    """N0113, and N0121 for `!`"""
    c = span.text
    if c == "!":
        return operator(span, "not")
    if c[0].isalpha() or (len(c) > 1 and c.isidentifier()):
        return _error("N0113", f"`{_short(c)}` is not a name", span,
                      helps=("names are made of the letters a to z, digits and `_`",))
    c = c[0]
    name = unicodedata.name(c, "")
    shown = f"`{c}`" if c.isprintable() and not c.isspace() else f"U+{ord(c):04X}"
    known = f" ({name.lower()})" if name and not c.isascii() else ""
    helps = (f"write `{_LOOKALIKES[c]}`",) if c in _LOOKALIKES else ()
    helps = (_NAMED[c],) if c in _NAMED else helps
    return _error("N0113", f"the character {shown}{known} has no meaning here", span, helps=helps)


def operator(span: Span, word: str) -> Diagnostic:
    """N0121"""
    return _error("N0121", f"`{span.text}` is written `{word}`", span, helps=(f"write `{word}`",))


_WHERE = {
    "assert": "inside of a definition, before its value",
    "def": "and has a body; a function without a name is `lambda x: …`",
    "import": "at the top of a file",
}


def keyword(span: Span, role: str) -> Diagnostic:
    """N0118"""
    help = f"another name, say `{span.text}_`"
    if span.text == "where":
        help = "`a if c else b` chooses element by element, also where `c` is a table"
    if role == "a value" and span.text in _WHERE:
        help = f"`{span.text}` begins a line, {_WHERE[span.text]}"
    return _error("N0118", f"`{span.text}` is a keyword, so it cannot be {role}", span,
                  helps=(help,))


# ---------------------------------------------------------------- expressions


def equals(span: Span) -> Diagnostic:
    """N0108"""
    return _error("N0108", "`=` gives a name to a value; a comparison is `==`", span,
                  helps=("write `==`",))


def slice_colon(span: Span, mended: str, from_the_end: bool = False) -> Diagnostic:
    """N0114"""
    told = ", where `n` is how many there are" if from_the_end else ""
    return _error("N0114", "a slice is a range, written with `..`", span, "not `:`",
                  helps=(f"write `{mended}`{told}",))


def new_axis(span: Span) -> Diagnostic:
    """N0114"""
    return _error("N0114", "an index has no axis to add", span,
                  helps=("nothing has to be added: functions lift by themselves; a table with an"
                         " axis of one is `[[v] for v in x]`",))


def slice_step(span: Span) -> Diagnostic:
    """N0114"""
    return _error("N0114", "a slice has no step", span,
                  helps=("every second element of `x` is `[x[2 * i] for i in Fin(h)]`,"
                         " and backwards is `reverse(x)`",))


def lambda_colon(span: Span, found: str) -> Diagnostic:
    """N0117"""
    return _error("N0117", f"a `lambda` has a `:` before its body, not {found}", span,
                  helps=("write `lambda x: e`",))


def lambda_in_header(span: Span) -> Diagnostic:
    """N0117"""
    return _error("N0117", "a `lambda` before the `:` of a block stands in parentheses", span,
                  helps=("write `(lambda x: e)`",))


def arrow_function(span: Span) -> Diagnostic:
    """N0117"""
    return _error("N0117", f"`{span.text}` stands only in types; a function is a `lambda`", span,
                  helps=("write `lambda x: e`",))


def block_inside(span: Span) -> Diagnostic:
    """N0119"""
    return _error(
        "N0119", f"this `{span.text}` begins a block, and blocks cannot stand in expressions", span,
        helps=(
            {"if": "the expression is `a if c else b`", "for": "the expression is `[e for i]`"}.get(
                span.text, "give the value of the block a name, on a line of its own"),
        ),
    )


def no_operator(span: Span) -> Diagnostic:
    """N0122"""
    text = span.text
    if text in ("++", "--"):
        return _error("N0122", f"there is no operator `{text}`", span,
                      helps=("arrays are joined by `[*a, *b]`, and one is added by `+= 1`",))
    return _error("N0122", f"`{text}` is a statement: it has no value", span,
                  helps=(f"write `x {text[:-1]} e`",))


def walrus(span: Span) -> Diagnostic:
    """N0123"""
    return _error("N0123", "`:=` stores into a reference, which is a statement by itself", span,
                  helps=("give the value a name on the line before",))


def membership(span: Span) -> Diagnostic:
    """N0133"""
    return _error("N0133", "`in` stands only after the name that a `for` binds", span,
                  helps=("whether `x` is among the elements of `xs` is `any(y == x for y in xs)`",))


def two_ends(span: Span) -> Diagnostic:
    """N0134"""
    return _error("N0134", "a range has two ends, so it cannot be the end of a range", span)


def bare_tuple(span: Span, text: str) -> Diagnostic:
    """N0135"""
    helps = (f"write `({_short(text)})`",)
    return _error("N0135", "a tuple stands in parentheses", span, helps=helps)


def braces(span: Span) -> Diagnostic:
    """N0136"""
    return _error("N0136", "there are no dictionaries and no sets", span,
                  helps=("a table is `[…]`, and a value with named fields is a `struct`",))


def generator_alone(span: Span) -> Diagnostic:
    """N0137"""
    return _error("N0137", "`e for i` must be the only argument of a call", span,
                  helps=("among other arguments, write `[e for i]`",))


def second_for(span: Span) -> Diagnostic:
    """N0137"""
    return _error("N0137", "one `for` has all the binders", span, "a second one",
                  helps=("they are separated by commas: `for i, j`, or `for i in xs, j in ys`",))


def generator_in_parentheses(span: Span) -> Diagnostic:
    """N0137"""
    return _error("N0137", "`e for i` stands in brackets, or is the argument of a call", span,
                  helps=("a table is `[e for i]`",))


def format_part(span: Span, what: str) -> Diagnostic:
    """N0138"""
    return _error("N0138", f"in an f-string, {what}", span,
                  helps=("between `{` and `}` stands an expression; a brace itself is doubled",))


# ---------------------------------------------------------------- statements


def else_if(span: Span) -> Diagnostic:
    """N0120"""
    return _error("N0120", "`else if` is written `elif`", span, helps=("write `elif`",))


_INSTEAD = {
    "class": "a value with named fields is a `struct`",
    "try": "a computation that may fail is `with except:`",
    "except": "a computation that may fail is `with except:`",
    "finally": "a computation that may fail is `with except:`",
    "raise": "inside `with except:`, `throw()` gives up; `assert c, \"why\"` stops the run",
    "print": "write `print(…)`",
    "del": "a name is known to the end of its block",
    "global": "a function gets what it uses as arguments",
    "nonlocal": "a function gets what it uses as arguments",
    "yield": "a table of values is `[e for i]`",
    "async": "whatever may run in parallel does",
    "await": "whatever may run in parallel does",
    "let": "write `x = e`",
    "var": "write `x = e`",
    "const": "write `x = e`",
    "val": "write `x = e`",
    "fn": "write `def`",
    "fun": "write `def`",
    "func": "write `def`",
    "function": "write `def`",
    "type": "a record is a `struct`, a choice an `enum`",
    "@": "a function is transformed by applying: `g = grad(f)`; only `@strict`, `@fast`,"
    " `@custom_jvp(…)` and `@custom_vjp(…)` stand above a definition of the file",
}
FOREIGN = frozenset(_INSTEAD)


def foreign(span: Span) -> Diagnostic:
    """N0115"""
    word = span.text
    return _error("N0115", f"there is no `{word}` statement", span, helps=(_INSTEAD[word],))


def second_mark(span: Span) -> Diagnostic:
    """N0741"""
    return _error("N0741", "a definition has one mark", span, "a second one",
                  helps=("`@strict` forbids what `@fast` allows: keep one of them",))


def second_rule(span: Span, word: str) -> Diagnostic:
    """N0724"""
    return _error("N0724", f"a definition has one `@{word}`", span, "a second one",
                  helps=("one `@custom_jvp` and one `@custom_vjp` may stand above a definition",))


def mark_of_nothing(span: Span, mark: str) -> Diagnostic:
    """N0740"""
    return _error("N0740", f"`@{mark}` stands above nothing that it could mark", span,
                  "a `def` has to follow",
                  helps=("a mark is a line of its own, directly above a `def` of the file",))


def binder_colon(span: Span, name: str, low: str | None, domain: str) -> Diagnostic:
    """N0125"""
    if low is not None:
        return _error("N0125", "a range is written with `..`, not with `:`", span,
                      helps=(f"write `for {_short(name)} in {_short(low)}..{_short(domain)}`",))
    return _error("N0125", "the range of an index comes after `in`, not after `:`", span,
                  helps=(f"write `for {_short(name)} in {_short(domain)}`",))


def not_a_pattern(span: Span, what: str, *helps: str) -> Diagnostic:
    """N0130"""
    shown = _short(span.text)
    return _error("N0130", f"`{shown}` cannot stand left of `=`", span, what, helps=helps)


def no_pattern(found: str, span: Span) -> Diagnostic:
    """N0130"""
    return _error("N0130", f"expected a name or a pattern, found {found}", span, "here")


def both_outside_case(span: Span) -> Diagnostic:
    """N0130"""
    return _error("N0130", "`&` joins patterns only in a `case`", span)


def block_after_equals(span: Span) -> Diagnostic:
    """N0140"""
    return _error("N0140", "after `=` comes one expression, and here come several lines", span,
                  "a block comes after `:`", helps=("write `:` instead of `=`",))


def stray(span: Span, where: str) -> Diagnostic:
    """N0139"""
    return _error("N0139", f"this `{span.text}` stands alone: it belongs {where}", span)


# ---------------------------------------------------------------- limits and files


def too_deep(span: Span, limit: int) -> Diagnostic:
    """N0126"""
    return _error("N0126", f"this is nested more than {limit} levels deep", span, "here",
                  helps=("give the inner parts names, on lines of their own",))


def unreadable(path: str, why: str) -> Diagnostic:
    """N0127"""
    return Diagnostic("N0127", f"`{path}` cannot be read: {why}")


def no_text(span: Span) -> Diagnostic:
    """N0128"""
    what = "a NUL character" if span.text == "\0" else "half of a surrogate pair"
    return _error("N0128", f"this is not a text: it contains {what}", span)


def not_utf8(path: str, offset: int, line: int, byte: int) -> Diagnostic:
    """N0128"""
    return Diagnostic(
        "N0128",
        f"`{path}` is not UTF-8 text: byte {offset}, on line {line}, is 0x{byte:02x}",
        helps=("save it as UTF-8",),
    )


def too_large(name: str, size: int, limit: int) -> Diagnostic:
    """N0129"""
    return Diagnostic(
        "N0129",
        f"`{name}` is {size / 1e6:.1f} MB, and a source file has at most {limit / 1e6:g} MB",
        helps=("data belongs in arrays that are passed to a function",),
    )
