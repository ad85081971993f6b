"""Statements, block forms and functions; and how parsing goes on after a mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from naperian.source import Diagnostic, Span
from naperian.surface import errors
from naperian.surface import syntax as s
from naperian.surface.cursor import Cursor, Wrong
from naperian.surface.expressions import binder, binders, expression, result, type_
from naperian.surface.headers import (
    check_returns,
    comments_above,
    function_name,
    parameters,
    where,
    without_docstring,
)
from naperian.surface.lex import KEYWORDS
from naperian.surface.mistakes import colon, no_end, no_suite
from naperian.surface.operators import ASSIGNMENTS, OR, STARTS, UPDATES
from naperian.surface.patterns import as_pattern, pattern

T = TypeVar("T")

_BLOCKS = frozenset(("for", "if", "match", "with", "loop", "while"))
_WITH_STATEMENTS = frozenset(("def", "for", "if", "elif", "else", "with", "loop", "while", "case"))
_BELONGS = {
    "elif": "after the block of an `if`",
    "else": "after the block of an `if`",
    "case": "in the block of a `match`",
    "in": "after the name that a `for` binds",
    "as": "after an expression, an import or a handler",
    "where": "at the end of a function's header",
    "exists": "in a type",
} | dict.fromkeys(
    ("struct", "enum", "interface", "instance", "import", "from"),
    "at the top level of a file, not in a block",
)
_MOST_WRONG = 100

# ---------------------------------------------------------------- one after the other


def sequence(c: Cursor, one: Callable[[Cursor], T]) -> tuple[T, ...]:
    """Items to the end of the block. A mistake is reported and costs the item it is in."""
    items: list[T] = []
    depth, returns = c.depth, c.returns
    while c.kind not in ("DEDENT", "EOF"):
        begin = c.pos
        try:
            if c.take("INDENT"):
                c.report(errors.indented(c.here))
                c.down()
                items.extend(sequence(c, one))
                c.depth -= 1
                c.take("DEDENT")
            else:
                items.append(one(c))
        except Wrong as wrong:
            c.depth, c.height, c.header, c.typing = depth, 0, False, False
            c.returns = returns
            _recover(c, begin, wrong.diagnostic)
            while c.kind in ("elif", "else", "except"):
                _skip(c, c.pos)
    return tuple(items)


def _recover(c: Cursor, begin: int, diagnostic: Diagnostic) -> None:
    """Over the rest of the item that starts with token `begin`. Its mistake is not told if one in
    the same line was told already: that one is likely to be the cause."""
    line = c.pos
    while line > begin and c.kinds[line - 1] not in ("NEWLINE", "INDENT", "DEDENT"):
        line -= 1
    _skip(c, begin)
    start, end = c.ends[line - 1] if line else 0, c.starts[c.pos]
    known = any(start <= d.labels[0].span.start < end for d in c.wrong)
    if not known and len(c.wrong) < _MOST_WRONG:
        c.report(diagnostic)


def _skip(c: Cursor, begin: int) -> None:
    """To the end of the item that starts with token `begin`. If this ends a header, the statements
    of its block are read for the mistakes in them."""
    kinds = c.kinds
    level = sum((kinds[k] == "INDENT") - (kinds[k] == "DEDENT") for k in range(begin, c.pos))
    while kinds[c.pos] != "EOF":
        kind = kinds[c.pos]
        if kind == "DEDENT" and level == 0:
            return
        c.pos += 1
        level += (kind == "INDENT") - (kind == "DEDENT")
        if level or kind not in ("NEWLINE", "DEDENT"):
            continue
        if kind == "DEDENT" or kinds[c.pos] != "INDENT":
            return
        if kinds[begin] in _WITH_STATEMENTS:
            c.pos += 1
            returns, c.returns = c.returns, []
            sequence(c, statement)
            c.returns = returns
            c.take("DEDENT")
            return


# ---------------------------------------------------------------- statements


def statement(c: Cursor) -> s.Stmt:
    """One statement with the end of its line."""
    start, kind = c.starts[c.pos], c.kind
    if kind in KEYWORDS and c.ahead(1) in ASSIGNMENTS:
        raise Wrong(errors.keyword(c.here, "a name"))
    if kind in _BLOCKS:
        return block_form(c)
    if kind == "def":
        return function(c)
    if kind == "assert":
        return _assert(c)
    if kind == "NAME":
        after = c.ahead(1)
        if after == ":":
            return _annotated(c)
        word = c.word
        if word == "return" and (after in STARTS or after == "NEWLINE"):
            return _return(c)
        if word in errors.FOREIGN and after in ("NAME", "NUM", "STR", "def"):
            raise Wrong(errors.foreign(c.here))
    elif kind == "@":
        raise Wrong(errors.foreign(c.here))
    elif kind in _BELONGS:
        raise Wrong(errors.stray(c.here, _BELONGS[kind]))
    elif kind == "except":
        raise Wrong(errors.foreign(c.here))
    left = expression(c)
    kind = c.kind
    if kind == "=":
        sign = c.skip()
        target = as_pattern(left)
        value = right_side(c, sign)
        return s.Bind(Span(c.source, start, value.span.end), target, None, value)
    if kind == ":=" or kind in UPDATES:
        sign = c.skip()
        value = right_side(c, sign)
        span = Span(c.source, start, value.span.end)
        if kind == ":=":
            return s.Set(span, left, value)
        return s.Update(span, kind[:-1], sign, left, value)
    span = c.since(start)
    end_of_line(c, start)
    return s.ExprStmt(span, left)


def _assert(c: Cursor) -> s.Stmt:
    start = c.skip().start
    c.header = True  # `=` can only be meant as `==`
    condition = expression(c)
    c.header = False
    message = expression(c) if c.take(",") else None
    span = c.since(start)
    end_of_line(c, start)
    return s.Assert(span, condition, message)


def _annotated(c: Cursor) -> s.Stmt:
    """`x: T = e`."""
    name = c.here
    c.pos += 2
    if c.kind == "NEWLINE" and name.text in errors.FOREIGN:
        raise Wrong(errors.foreign(name))
    annotation = type_(c)
    if c.kind != "=":
        help_ = f"a name has its value where it begins: `{name.text}: {annotation.span.text} = …`"
        raise Wrong(errors.unexpected("`=` and a value", c.found, c.here, help_))
    sign = c.skip()
    value = right_side(c, sign)
    span = name.to(value.span)
    target = s.PWild(name) if name.text == "_" else s.PName(name, name.text)
    return s.Bind(span, target, annotation, value)


def _return(c: Cursor) -> s.Stmt:
    start = c.skip().start
    value = expression(c)
    span = c.since(start)
    end_of_line(c, value.span.start)
    c.returns.append(span)
    return s.Return(span, value)


def right_side(c: Cursor, sign: Span) -> s.Expr:
    """What follows `=`: a block form, or an expression, also indented on the next line."""
    if c.kind in _BLOCKS:
        form = block_form(c)
        return s.Block(form.span, (form,))
    if c.kind != "NEWLINE":
        return _whole_line(c)
    if c.ahead(1) != "INDENT":
        c.open_ended = c.ahead(1) == "EOF"
        raise Wrong(errors.missing_value(sign))
    c.pos += 2
    value: s.Expr
    if c.kind in _BLOCKS:
        form = block_form(c)
        value = s.Block(form.span, (form,))
        end_of_text(c)
    else:
        start = c.starts[c.pos]
        value = expression(c)
        if c.kind in ASSIGNMENTS:
            raise Wrong(errors.block_after_equals(sign))
        end_of_line(c, start)
    if not c.take("DEDENT"):
        raise Wrong(errors.block_after_equals(sign))
    return value


def _whole_line(c: Cursor) -> s.Expr:
    start = c.starts[c.pos]
    value = expression(c)
    end_of_line(c, start)
    return value


def end_of_line(c: Cursor, start: int) -> None:
    """The end of a statement whose last expression starts at `start`."""
    if not c.take("NEWLINE"):
        raise Wrong(no_end(c, start))


def end_of_text(c: Cursor) -> None:
    """After a block: note whether the text ends where the block could go on."""
    if c.kind == "EOF" or (c.kind == "DEDENT" and c.starts[c.pos] == len(c.text)):
        c.open_ended = True


# ---------------------------------------------------------------- blocks


def suite(c: Cursor, header: Span) -> s.Block:
    """`:` and a block: indented lines, or one statement on the same line."""
    if c.kind == "NEWLINE":
        end = c.ends[c.pos - 1]
        c.report(errors.missing_colon(Span(c.source, end, end), header.text))
    else:
        if c.kind != ":":
            raise Wrong(no_suite(c, header))
        c.skip()
    if not c.take("NEWLINE"):
        only = statement(c)
        return s.Block(only.span, (only,))
    return indented(c, header)


def indented(c: Cursor, header: Span) -> s.Block:
    """The indented lines of a block."""
    if not c.take("INDENT"):
        c.open_ended = c.kind == "EOF"
        c.report(errors.missing_block(header, header.text))
        return s.Block(c.since(c.ends[c.pos - 2]), ())
    c.down()
    start = c.starts[c.pos]
    statements = sequence(c, statement)
    c.depth -= 1
    end_of_text(c)
    c.take("DEDENT")
    end = statements[-1].span.end if statements else start
    return s.Block(Span(c.source, start, max(start, end)), statements)


def block_form(c: Cursor) -> s.Stmt:
    """`for`, `if`, `match`, `with`, `loop` or `while`."""
    c.down()
    made: s.Stmt
    match c.kind:
        case "for":
            made = _for(c)
        case "if":
            made = _if(c)
        case "match":
            made = _match(c)
        case "with":
            made = _with(c)
        case "while":
            made = _while(c)
        case _:
            made = _loop(c)
    c.depth -= 1
    return made


def _in_header(c: Cursor, part: Callable[[Cursor], T]) -> T:
    """A part of a header, where a `:` ends every expression."""
    c.header = True
    made = part(c)
    c.header = False
    return made


def _for(c: Cursor) -> s.Stmt:
    word = c.skip()
    found, condition = _in_header(c, binders)
    if c.kind == ":" and c.ahead(1) != "NEWLINE":
        _check_binder_colon(c, found[-1])
    body = suite(c, word)
    return s.For(word.to(body.span), found, condition, body)


def _check_binder_colon(c: Cursor, last: s.Binder) -> None:
    """`for i: Fin(3):` with a block after it means `for i in Fin(3):`."""
    at = c.pos + 1
    while c.kinds[at] != "NEWLINE":
        at += 1
    if c.kinds[at - 1] == ":" and c.kinds[at + 1] == "INDENT" and c.ahead(1) not in _BLOCKS:
        sign = c.skip()
        raise Wrong(colon(c, sign, last))


def _if(c: Cursor) -> s.Stmt:
    start = c.starts[c.pos]
    arms: list[tuple[s.Expr, s.Block]] = []
    otherwise: s.Block | None = None
    word = c.skip()
    while True:
        condition = _in_header(c, expression)
        arms.append((condition, suite(c, word)))
        if c.kind == "elif":
            word = c.skip()
        elif c.kind == "else" and c.ahead(1) == "if":
            word = c.skip().to(c.skip())
            c.report(errors.else_if(word))
        else:
            break
    if c.kind == "else":
        otherwise = suite(c, c.skip())
    end = (otherwise or arms[-1][1]).span.end
    return s.If(Span(c.source, start, end), tuple(arms), otherwise)


def _match(c: Cursor) -> s.Stmt:
    word = c.skip()
    subject = _in_header(c, expression)
    if c.kind == "NEWLINE":
        end = c.ends[c.pos - 1]
        c.report(errors.missing_colon(Span(c.source, end, end), word.text))
    else:
        c.expect(":", "`:` after this `match`")
    c.expect("NEWLINE", "a new line before the first `case`")
    if not c.take("INDENT"):
        c.open_ended = c.kind == "EOF"
        c.report(errors.missing_block(word, word.text))
        return s.Match(word.to(subject.span), subject, ())
    cases = sequence(c, _case)
    end_of_text(c)
    c.take("DEDENT")
    end = cases[-1].span.end if cases else subject.span.end
    return s.Match(Span(c.source, word.start, end), subject, cases)


def _case(c: Cursor) -> s.Case:
    word = c.expect("case")
    c.header = True
    made = pattern(c, expression, in_case=True)
    guard = expression(c) if c.take("if") else None
    c.header = False
    body = suite(c, word)
    return s.Case(word.to(body.span), made, guard, body)


def _with(c: Cursor) -> s.Stmt:
    word = c.skip()
    handlers = [_handler(c)]
    while c.take(","):
        handlers.append(_handler(c))
    body = suite(c, word)
    return s.With(word.to(body.span), tuple(handlers), body)


def _handler(c: Cursor) -> s.Handler:
    start = c.starts[c.pos]
    effect = None if c.take("except") else expression(c, OR)
    name = c.name("a reference")[0] if c.take("as") else None
    return s.Handler(c.since(start), effect, name)


def _loop(c: Cursor) -> s.Stmt:
    word = c.skip()
    c.header = True
    carries = [_carry(c)]
    while c.take(","):
        carries.append(_carry(c))
    over = binder(c) if c.take("for") else None
    checkpoint = None
    if c.kind == "NAME" and c.word == "checkpoint":
        c.skip()
        c.expect("(")
        checkpoint = expression(c)
        c.expect(")")
    condition = expression(c) if c.take("while") else None
    c.header = False
    body = suite(c, word)
    return s.Loop(word.to(body.span), tuple(carries), over, checkpoint, condition, body)


def _while(c: Cursor) -> s.Stmt:
    word = c.skip()
    condition = _in_header(c, expression)
    body = suite(c, word)
    return s.Loop(word.to(body.span), (), None, None, condition, body)


def _carry(c: Cursor) -> s.Carry:
    begin = c.starts[c.pos]
    name = pattern(c, expression)
    annotation = type_(c) if c.kind == ":" and c.ahead(1) != "NEWLINE" and c.take(":") else None
    c.expect("=", "`=` and the value at the start")
    first = expression(c)
    return s.Carry(c.since(begin), name, annotation, first)


# ---------------------------------------------------------------- functions


def function(c: Cursor, in_interface: bool = False) -> s.Def:
    """A definition; `in_interface` also a signature, which has no body."""
    doc = comments_above(c)
    word = c.skip()
    name, name_span = function_name(c)
    c.expect("(", "`(` and the parameters")
    params = parameters(c)
    effects, to = result(c) if c.kind == "->" else (None, None)
    facts = where(c)
    end = c.ends[c.pos - 1]
    outside, c.returns = c.returns, []
    body = _body(c, word, name, in_interface, to is not None)
    if body is not None:
        check_returns(c, body)
        end = max(end, body.span.end)
        own, body = without_docstring(body)
        doc = own if own is not None else doc
    c.returns = outside
    span = Span(c.source, word.start, end)
    return s.Def(span, name, name_span, params, effects, to, facts, body, doc)


def _body(
    c: Cursor, word: Span, name: str, in_interface: bool, typed: bool
) -> s.Block | None:
    if c.kind == "=":
        value = right_side(c, c.skip())
        if isinstance(value, s.Block):
            return value
        return s.Block(value.span, (s.ExprStmt(value.span, value),))
    if c.kind == ":":
        return suite(c, word)
    if c.kind != "NEWLINE":
        helps = ("the body comes after `:`, and its lines are indented",) if c.kind == "{" else ()
        if c.kind == "," and typed:
            helps = ("a tuple of types stands in parentheses: `-> (Float, Int)`",)
        if c.kind == "=>" and not typed:
            helps = ("the type of a result stands behind `->`",)
        raise Wrong(errors.unexpected("`=` or `:` and a body", c.found, c.here, *helps))
    end = c.ends[c.pos - 1]
    c.pos += 1
    if not in_interface or c.kind == "INDENT":
        c.report(errors.missing_body(Span(c.source, end, end), name))
    return indented(c, word) if c.kind == "INDENT" else None
