"""Patterns: where only a pattern can stand they are parsed, and left of `=`, where an expression
could stand too, they are expressions read again.

    pattern ::= patom (("|" | "&") patom)…
    patom   ::= dotted ["(" pattern, … ")"] | "_" | ["-"] NUM | STR | "(" pattern, … ")"
              | "[" pitem, … "]"
    pitem   ::= pattern | ("*" | "**") NAME [":" expr₃]
"""

from __future__ import annotations

from collections.abc import Callable

from naperian.source import Diagnostic
from naperian.surface import errors
from naperian.surface import syntax as s
from naperian.surface.cursor import Cursor, Wrong
from naperian.surface.lex import KEYWORDS
from naperian.surface.literals import number, string

Expression = Callable[[Cursor, int], s.Expr]
"""The parser of expressions, and how tightly they bind at least; it is above this file."""


def pattern(c: Cursor, expression: Expression, in_case: bool = False) -> s.Pattern:
    """A pattern; `&` only `in_case`."""
    start = c.starts[c.pos]
    left = _atom(c, expression, in_case)
    while c.kind in ("|", "&"):
        if c.kind == "&" and not in_case:
            raise Wrong(errors.both_outside_case(c.here))
        node = s.PAlt if c.kind == "|" else s.PBoth
        c.pos += 1
        right = _atom(c, expression, in_case)
        left = node(c.since(start), left, right)
    return left


def _atom(c: Cursor, expression: Expression, in_case: bool) -> s.Pattern:
    start = c.starts[c.pos]
    kind = c.kind
    match kind:
        case "NAME":
            name = c.word
            c.pos += 1
            while c.kind == "." and c.ahead(1) == "NAME":
                c.pos += 1
                name += "." + c.word
                c.pos += 1
            if c.kind == "(":
                items = _items(c, expression, in_case)
                return s.PConstructor(c.since(start), name, items)
            if "." in name:
                return s.PConstructor(c.since(start), name, None)
            return s.PWild(c.since(start)) if name == "_" else s.PName(c.since(start), name)
        case "NUM":
            return s.PNumber(c.here, number(c))
        case "-" if c.ahead(1) == "NUM":
            c.pos += 1
            value = number(c)
            return s.PNumber(c.since(start), -value)
        case "STR":
            span = c.here
            return s.PString(span, string(c))
        case "(":
            items = _items(c, expression, in_case)
            if len(items) == 1 and c.kinds[c.pos - 2] != ",":
                return items[0]
            return s.PTuple(c.since(start), items)
        case "[":
            return _bracket(c, expression, in_case)
        case _ if kind in KEYWORDS:
            raise Wrong(errors.keyword(c.here, "a name"))
        case _:
            raise Wrong(errors.no_pattern(c.found, c.here))


def _items(c: Cursor, expression: Expression, in_case: bool) -> tuple[s.Pattern, ...]:
    """`(a, b)`."""
    c.down()
    c.pos += 1
    items: list[s.Pattern] = []
    while c.kind != ")":
        items.append(pattern(c, expression, in_case))
        if not c.take(","):
            break
    c.expect(")", "`,` or `)`")
    c.depth -= 1
    return tuple(items)


def _bracket(c: Cursor, expression: Expression, in_case: bool) -> s.Pattern:
    start = c.starts[c.pos]
    c.down()
    c.pos += 1
    items: list[s.Pattern | s.PStar] = []
    while c.kind != "]":
        if c.kind in ("*", "**"):
            begin, double = c.starts[c.pos], c.kind == "**"
            c.pos += 1
            name, _ = c.name("a part of the table")
            outside, c.header = c.header, False
            at = expression(c, 3) if c.take(":") else None
            c.header = outside
            items.append(s.PStar(c.since(begin), double, name, at))
        else:
            items.append(pattern(c, expression, in_case))
        if not c.take(","):
            break
    c.expect("]", "`,` or `]`")
    c.depth -= 1
    return s.PBracket(c.since(start), tuple(items))


# ---------------------------------------------------------------- left of `=`


def as_pattern(e: s.Expr) -> s.Pattern:
    """An expression read as a pattern; raises if it is none."""
    match e:
        case s.Name(span, "_"):
            return s.PWild(span)
        case s.Name(span, name):
            return s.PName(span, name)
        case s.Number(span, value):
            return s.PNumber(span, value)
        case s.Unary(span, "-", s.Number(_, value)):
            return s.PNumber(span, -value)
        case s.String(span, parts) if all(isinstance(p, str) for p in parts):
            return s.PString(span, "".join(p for p in parts if isinstance(p, str)))
        case s.TupleExpr(span, items):
            return s.PTuple(span, tuple([as_pattern(x) for x in items]))
        case s.Bracket(span, items):
            return s.PBracket(span, tuple([_as_item(x) for x in items]))
        case s.Binary(span, "|", _, left, right):
            return s.PAlt(span, as_pattern(left), as_pattern(right))
        case s.Call(span, function, args) if (path := _dotted(function)) is not None:
            return s.PConstructor(span, path, tuple([_as_argument(x) for x in args]))
        case s.Field(span, _, _, _) if (path := _dotted(e)) is not None:
            return s.PConstructor(span, path, None)
        case _:
            raise Wrong(_no_pattern(e))


def _as_item(e: s.Expr | s.Star) -> s.Pattern | s.PStar:
    match e:
        case s.Star(span, double, s.Name(_, name)):
            return s.PStar(span, double, name, None)
        case s.Star(_, _, value):
            raise Wrong(errors.not_a_pattern(value.span, "a part of a table is a name"))
        case _:
            return as_pattern(e)


def _as_argument(e: s.Expr | s.Keyword | s.Generator) -> s.Pattern:
    if isinstance(e, s.Keyword | s.Generator):
        raise Wrong(errors.not_a_pattern(e.span, "not a pattern"))
    return as_pattern(e)


def _dotted(e: s.Expr) -> str | None:
    """`Axis.X` as one name."""
    match e:
        case s.Name(_, name):
            return name
        case s.Field(_, base, name, _):
            inner = _dotted(base)
            return None if inner is None else f"{inner}.{name}"
        case _:
            return None


def _no_pattern(e: s.Expr) -> Diagnostic:
    match e:
        case s.IndexExpr(span, _, _):
            return errors.not_a_pattern(
                span, "an element of a table",
                "tables do not change: make a new one by `[… for i]`,"
                " or store by `:=` into a reference of `with state(…)`",
            )
        case s.Binary(span, _, _, _, _) | s.Compare(span, _, _):
            return errors.not_a_pattern(span, "a computation", "a comparison is `==`")
        case _:
            return errors.not_a_pattern(e.span, "neither a name nor a pattern")
