"""The header of a function, what is told about it, and where it may return."""

from __future__ import annotations

from naperian.source import Span
from naperian.surface import errors
from naperian.surface import syntax as s
from naperian.surface.cursor import Cursor, Wrong
from naperian.surface.expressions import close, expression, type_
from naperian.surface.literals import cleaned, string
from naperian.surface.operators import OR, SECTIONS


def function_name(c: Cursor) -> tuple[str, Span]:
    if c.kind != "(":
        return c.name("a function")
    start = c.skip().start
    if c.kind not in SECTIONS:
        raise Wrong(errors.unexpected("an operator", c.found, c.here))
    operator = c.kind
    c.pos += 1
    c.expect(")")
    return f"({operator})", c.since(start)


def parameters(c: Cursor) -> tuple[s.Param, ...]:
    """Parameters to the closing bracket; the opening one is behind."""
    found: list[s.Param] = []
    while c.kind != ")":
        found.append(parameter(c, "a parameter"))
        if not c.take(","):
            break
    close(c, ")")
    return tuple(found)


def parameter(c: Cursor, role: str) -> s.Param:
    """`x: T = e`."""
    start = c.starts[c.pos]
    if c.kind in ("*", "**"):
        help_ = "a function has the parameters that it names; many values are a table, `xs: n=>a`"
        raise Wrong(errors.unexpected(f"the name of {role}", c.found, c.here, help_))
    name, _ = c.name(role)
    annotation = type_(c) if c.take(":") else None
    default = expression(c) if c.take("=") else None
    return s.Param(c.since(start), name, annotation, default)


def where(c: Cursor) -> tuple[s.Fact, ...]:
    """`where a: Num, n >= 1`, if it is there. After a name or a tuple, `:` gives the interface;
    after any other fact it begins the body."""
    facts: list[s.Fact] = []
    if c.take("where"):
        facts.append(_fact(c))
        while c.take(","):
            facts.append(_fact(c))
    return tuple(facts)


def _fact(c: Cursor) -> s.Fact:
    start = c.starts[c.pos]
    subject = expression(c, OR)
    interface = None
    of_types = isinstance(subject, s.Name | s.TupleExpr | s.Call)
    if of_types and c.kind == ":" and c.ahead(1) == "NAME":
        c.pos += 1
        interface, _ = c.name("an interface")
    return s.Fact(c.since(start), subject, interface)


def without_docstring(body: s.Block) -> tuple[str | None, s.Block]:
    """A string before the other statements of a body says what the function is for."""
    match body.statements:
        case (s.ExprStmt(span, s.String(_, parts)), first, *_) if not span.text.startswith("f"):
            text = "".join(p for p in parts if isinstance(p, str))
            return cleaned(text), s.Block(first.span.to(body.span), body.statements[1:])
        case _:
            return None, body


def docstring(c: Cursor) -> str | None:
    """A string on a line of its own, if it comes next."""
    if c.kind != "STR" or c.ahead(1) != "NEWLINE" or c.word.startswith("f"):
        return None
    after = c.pos + 2
    try:
        return cleaned(string(c))
    except Wrong as wrong:
        c.report(wrong.diagnostic)
        return None
    finally:
        c.pos = after


def comments_above(c: Cursor) -> str | None:
    """The comment lines directly above the line that starts here."""
    text, lines = c.text, []
    end = text.rfind("\n", 0, c.starts[c.pos])
    if text[end + 1 : c.starts[c.pos]].strip():
        return None
    while end > 0:
        start = text.rfind("\n", 0, end) + 1
        line = text[start:end].strip()
        if not line.startswith("#"):
            break
        lines.append(line[1:].removeprefix(" "))
        end = start - 1
    return "\n".join(reversed(lines)) or None


def check_returns(c: Cursor, body: s.Block) -> None:
    if c.returns:
        last = set(_last(body))
        for span in c.returns:
            if span.start not in last:
                c.report(errors.misplaced_return(span))


def _last(block: s.Block) -> list[int]:
    """Where the statements start that give a function its value."""
    match block.statements:
        case (*_, s.Return(span, _)):
            return [span.start]
        case (*_, s.If(_, arms, s.Block() as otherwise)):
            return [at for b in (*[b for _, b in arms], otherwise) for at in _last(b)]
        case (*_, s.Match(_, _, cases)):
            return [at for case in cases for at in _last(case.body)]
        case _:
            return []
