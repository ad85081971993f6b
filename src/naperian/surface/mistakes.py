"""What a token that cannot stand where it does probably means."""

from __future__ import annotations

import re

from naperian.source import Diagnostic, Span
from naperian.surface import errors
from naperian.surface import syntax as s
from naperian.surface.cursor import Cursor
from naperian.surface.operators import STARTS, UPDATES


def no_expression(c: Cursor, kind: str) -> Diagnostic:
    """Why no expression starts here."""
    here = c.here
    match kind:
        case "for" | "match" | "with" | "loop" | "if" | "while":
            return errors.block_inside(here)
        case "not" | "lambda":
            return errors.unexpected("an expression", c.found, here, f"write `({kind} …)`")
        case "{" | "}":
            return errors.braces(here)
        case "case" | "where" | "def" | "struct" | "enum" | "interface" | "instance" | "import" | (
            "from" | "exists" | "assert" | "except"
        ):
            return errors.keyword(here, "a value")
        case "+" if c.pos and c.kinds[c.pos - 1] != "+":
            help_ = "a number has no sign `+`"
            return errors.unexpected("an expression", c.found, here, help_)
        case kind if kind in ("++", "--") or kind in UPDATES:
            return errors.no_operator(here)
        case ">" if c.pos and c.kinds[c.pos - 1] == "|":
            help_ = "`g(f(x))` is also written `x.f().g()`"
            return errors.unexpected("an expression", c.found, here, help_)
        case ">" if c.pos and c.kinds[c.pos - 1] == "<":
            return errors.unexpected("an expression", c.found, here, "two values differ: `a != b`")
        case "|":
            help_ = "the absolute value is `abs(x)`"
            return errors.unexpected("an expression", c.found, here, help_)
        case "->":
            help_ = "the type of a result stands before the `:` or `=` of the body"
            return errors.unexpected("an expression", c.found, here, help_)
        case "*" | "**":
            help_ = "`*x` stands only in `[…]`, where it joins tables"
            return errors.unexpected("an expression", c.found, here, help_)
        case "NEWLINE":
            return errors.unexpected(
                "an expression", c.found, here,
                "an expression that goes on to the next line stands in parentheses",
            )
        case _:
            return errors.unexpected("an expression", c.found, here)


def no_closer(c: Cursor, closer: str) -> Diagnostic:
    """Why a bracket does not go on, or end, after an item."""
    if c.kind in STARTS:
        return _choice(c) or errors.missing_comma(c.here, _bound(c))
    kept = "what keeps some elements is an `if` behind the binders: `[e for i if p]`"
    help_ = (kept,) if c.kind == "where" else _without_def(c)
    return _no_operator(c) or errors.unexpected(f"`,` or `{closer}`", c.found, c.here, *help_)


def _without_def(c: Cursor) -> tuple[str, ...]:
    """What a `:` means behind the first name in parentheses of `f(x: Float) = …`."""
    line = c.text[c.text.rfind("\n", 0, c.here.start) + 1 :].partition("\n")[0]
    if c.kind != ":" or not re.match(r"\s*[a-z]\w*\((\w+, )*\w+ ?:.*\).*[=:]", line):
        return ()
    return (f"a function begins with `def`: `def {line.strip()}`",)


def no_end(c: Cursor, start: int) -> Diagnostic:
    """Why a statement does not end after its last expression, which starts at `start`."""
    if c.kind == ",":
        at = c.pos
        while c.kinds[at] not in ("NEWLINE", "=", ":"):
            at += 1
        return errors.bare_tuple(c.here, c.text[start : c.ends[at - 1]])
    return _choice(c) or _no_operator(c) or errors.unexpected(
        "the end of the line", c.found, c.here, *_two_words(c)
    )


def _choice(c: Cursor) -> Diagnostic | None:
    """`c ? a : b`, whose `?` was read as the check of an index."""
    if c.pos and c.kinds[c.pos - 1] == "?" and c.kind in STARTS:
        return errors.operator(c.since(c.starts[c.pos - 1]), "a if c else b")
    return None


def no_suite(c: Cursor, header: Span) -> Diagnostic:
    """Why no block begins after what its header says."""
    if c.kind == "in":
        return errors.membership(c.here)
    then = c.kind == "NAME" and c.word == "then"
    help_ = ("on one line it is `a if c else b`",) if then else ()
    if c.kind == "NAME" and c.word == "checkpoint":
        help_ = ("`checkpoint(k)` stands in front of `while`",)
    if c.kind == "for" and header.text == "loop":
        carried = c.text[header.end : c.starts[c.pos]]
        if carried.rstrip().endswith(")") and " checkpoint(" in carried:
            help_ = ("`checkpoint(k)` stands behind the set: `for i in s checkpoint(k):`",)
    if c.kind == "for" and header.text == "loop" and not help_:
        help_ = ("`for … in …` stands in front of `while`",)
    if c.kind == "{":
        help_ = ("a block begins with `:`, and its lines are indented",)
    if c.kind == "NAME" and header.text == "for" and c.pos and c.kinds[c.pos - 1] == "NAME":
        before = c.text[c.starts[c.pos - 1] : c.ends[c.pos - 1]]
        help_ = (f"several indices stand beside each other with commas: `for {before}, {c.word}:`",)
    return errors.unexpected(f"`:` after this `{header.text}`", c.found, c.here, *help_)


def no_else(c: Cursor) -> Diagnostic:
    """Why `a if c` does not go on with `else`."""
    if c.kind == "for":
        help_ = "what keeps some elements stands behind the binders: `[e for i if p]`"
    elif c.kind == "NAME" and c.word == "is":
        help_ = "`==` compares, and `match` asks which variant of an enum it is"
    else:
        help_ = "`a if c else b` has a value for both cases"
    return errors.unexpected("`else`", c.found, c.here, help_)


def _two_words(c: Cursor) -> tuple[str, ...]:
    """What is meant by a word after an expression on the same line."""
    if c.kind == "else":
        return ("on one line it is `a if c else b`; after `if c: a` it starts a line of its own",)
    if c.kind == "where":
        return ("what sizes must be stands before the body: `def f(x: n=>Float) where n > 0 = …`",)
    if c.kind == "not" and c.kinds[c.pos + 1] == "in":
        return ("whether `x` is not among the elements of `xs` is `all(y != x for y in xs)`",)
    if c.kind == "NAME" and c.word != "is" and c.kinds[c.pos - 1] == "NUM":
        number = c.text[c.starts[c.pos - 1] : c.ends[c.pos - 1]]
        return (f"for the product, write `{number} * {c.word}`",)
    if c.kind not in ("NAME", "NUM") or c.kinds[c.pos - 1] != "NAME":
        return ()
    if c.kind == "NAME" and c.word == "is":
        return ("`==` compares, and `match` asks which variant of an enum it is",)
    before = c.text[c.starts[c.pos - 1] : c.ends[c.pos - 1]]
    if before == "del":
        return ("a name is known to the end of its block, and what is not read takes no memory",)
    if before == "return":
        return ("the value itself stands behind `=`; `return` begins the last line of a block",)
    if bound := _bound(c):
        return bound
    if before == "scan":
        return ("a scan is called: `scan(lambda s, x: …, s0, xs)` has the `s` after every `x`",)
    return (f"a function is called with parentheses: `{before}({c.word})`",)


def _bound(c: Cursor) -> tuple[str, ...]:
    """What is meant by `let x` in an expression."""
    before = c.text[c.starts[c.pos - 1] : c.ends[c.pos - 1]]
    if c.kind != "NAME" or before not in ("let", "var", "const", "val"):
        return ()
    return (f"a name is bound on a line of its own: `{c.word} = …`",)


def _no_operator(c: Cursor) -> Diagnostic | None:
    """What is taken for an operator after an expression."""
    here = c.here
    match c.kind:
        case "=":
            return errors.equals(here)
        case ":=":
            return errors.walrus(here)
        case "=>" | "->":
            return errors.arrow_function(here)
        case "in":
            return errors.membership(here)
        case "for":
            return errors.generator_in_parentheses(here)
        case kind if kind.endswith("=") or kind == "++":
            return errors.no_operator(here)
        case _:
            return None


def colon_slice(c: Cursor, start: int) -> Diagnostic:
    """A NumPy slice: how to write it, found by replacing every `:` up to the bracket's end;
    two in one index are a step."""
    here = c.here
    if c.kind == "]":
        return errors.unexpected("an index", c.found, here)
    depth, at = 0, c.pos
    while not (depth == 0 and c.kinds[at] == "]") and c.kinds[at] not in ("NEWLINE", "EOF"):
        depth += (c.kinds[at] in ("(", "[")) - (c.kinds[at] in (")", "]"))
        at += 1
    tokens = range(c.pos, at)
    parts = "".join("," if c.kinds[k] == "," else ":" for k in tokens if c.kinds[k] in (",", ":"))
    if re.search(r"\b(None|newaxis)\b", c.text[start : c.starts[at]]):
        return errors.new_axis(here)
    if "::" in parts or c.kinds[c.pos] == ":=":
        return errors.slice_step(here)
    mended = c.text[start : c.starts[c.pos]]
    for k in tokens:
        text = ".." if c.kinds[k] == ":" else c.text[c.starts[k] : c.ends[k]]
        gap = c.text[c.ends[k] : c.starts[k + 1]]
        mended += text + ("" if ":" in (c.kinds[k], c.kinds[k + 1]) else gap)
    ends = re.sub(r"(?<=[\[.,])( ?)-(?=\d)", r"\1n - ", mended)
    return errors.slice_colon(here, ends + "]", from_the_end=ends != mended)


def colon(c: Cursor, sign: Span, last: s.Binder) -> Diagnostic:
    """A `:` after a binder, with a range or its end behind it."""
    low = None if last.domain is None else last.domain.span.text
    return errors.binder_colon(sign, last.pattern.span.text, low, rest(c))


def rest(c: Cursor) -> str:
    """The text from here to the end of the bracket or the header."""
    depth, at = 0, c.pos
    while c.kinds[at] != "EOF" and (depth or c.kinds[at] not in ("NEWLINE", ":", "if", ",")):
        depth += (c.kinds[at] in ("(", "[")) - (c.kinds[at] in (")", "]"))
        if depth < 0:
            break
        at += 1
    return c.text[c.starts[c.pos] : c.starts[at]].strip()
