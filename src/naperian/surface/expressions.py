"""Expressions and types: recursive descent for what starts one, and a loop for what follows.

Each operator has a binding power (the table in `docs/grammar.md`); `expression(c, power)` reads
what binds at least so tightly. Types share this grammar from `..` down, so `Fin(n + m - 1)` and
`..=i` parse one way everywhere; `typing` says that brackets hold types.
"""

from __future__ import annotations

from collections.abc import Callable

from naperian.source import Span
from naperian.surface import errors
from naperian.surface import syntax as s
from naperian.surface.cursor import HEIGHT, Cursor, Wrong, cursor
from naperian.surface.lex import KEYWORDS, lex_within
from naperian.surface.literals import number, pieces
from naperian.surface.mistakes import colon, colon_slice, no_closer, no_else, no_expression
from naperian.surface.operators import (
    BINDS,
    COMPARE,
    COMPARISONS,
    LEFT,
    MEANT,
    NOT,
    OR,
    PREFIX,
    RANGE,
    SECTIONS,
    TERNARY,
    TIGHT_STARTS,
    UNION,
)
from naperian.surface.patterns import pattern


def expression(c: Cursor, power: int = 0) -> s.Expr:
    """An expression whose operators bind at least as tightly as `power`."""
    c.down()
    outer, c.height = c.height, 0
    kinds, starts, source = c.kinds, c.starts, c.source
    start = starts[c.pos]
    kind = kinds[c.pos]
    left: s.Expr
    if kind == "NAME":
        end = c.ends[c.pos]
        left = s.Name(Span(source, start, end), c.text[start:end])
        c.pos += 1
    elif kind == "NUM":
        left = s.Number(c.here, number(c))
    else:
        left = _first(c, kind, power)
    c.height += 1
    while True:
        kind = kinds[c.pos]
        binds = BINDS.get(kind)
        if binds is None or binds < power:
            break
        if kind == "(":
            left = _call(c, left, start)
        elif kind in LEFT or kind == "**" or kind in MEANT:
            op = c.skip()
            if kind in MEANT:
                c.report(errors.operator(op, MEANT[kind]))
                kind = MEANT[kind]
            right = expression(c, PREFIX if kind == "**" else binds + 1)
            left = s.Binary(c.since(start), kind, op, left, right)
        elif kind == "[":
            left = _index(c, left, start)
        elif kind == ".":
            c.pos += 1
            name, span = c.name("a field")
            left = s.Field(c.since(start), left, name, span)
        elif binds == COMPARE:
            if kind == "=" and not c.header:
                break
            left = _comparison(c, left, start)
        elif binds == RANGE:
            if type(left) is s.RangeExpr and c.kinds[c.pos - 1] != ")":
                raise Wrong(errors.two_ends(c.here))
            left = _range(c, left, start)
        elif kind == "if":
            left = _ternary(c, left, start)
        elif kind == "~":
            left = _rank(c, left, start)
        elif c.typing:  # `?` after a type belongs to the `as` before it
            break
        elif kind == "?":
            element = type(left) is s.IndexExpr and c.kinds[c.pos - 1] == ")"
            c.pos += 1
            left = s.Checked(c.since(start), left, element)
        else:
            c.pos += 1
            to = type_(c)
            checked = c.take("?")
            left = s.As(c.since(start), left, to, checked)
        c.height += 1
    if c.height > HEIGHT:
        raise Wrong(errors.too_deep(c.since(start), HEIGHT))
    if outer > c.height:
        c.height = outer
    c.depth -= 1
    return left


# ---------------------------------------------------------------- what starts an expression


def _first(c: Cursor, kind: str, power: int) -> s.Expr:
    start = c.starts[c.pos]
    match kind:
        case "(":
            return _parentheses(c)
        case "[":
            return _bracket(c)
        case "-" | "~":
            c.pos += 1
            operand = expression(c, PREFIX)
            return s.Unary(c.since(start), kind, operand)
        case "STR":
            return _string(c)
        case "not" if power <= NOT:
            c.pos += 1
            operand = expression(c, NOT)
            return s.Unary(c.since(start), kind, operand)
        case ".." | "..=" if power <= RANGE:
            return _range(c, None, start)
        case "lambda" if power == TERNARY:
            return _lambda(c)
        case _:
            raise Wrong(no_expression(c, kind))


def _parentheses(c: Cursor) -> s.Expr:
    """Grouping, a tuple, or an operator as a function. In types also a list of parameters."""
    start = c.starts[c.pos]
    c.pos += 1
    if c.kind in SECTIONS and (c.kind != "-" or c.ahead(1) == ")"):
        op = c.kind
        c.pos += 1
        right = None if c.kind == ")" else _inner(c)
        close(c, ")")
        return s.Section(c.since(start), op, right)
    items: list[s.Expr] = []
    comma = True
    while c.kind != ")":
        items.append(_inner(c))
        comma = c.take(",")
        if not comma:
            break
    close(c, ")")
    if len(items) == 1 and not comma:
        return items[0]
    return s.TupleExpr(c.since(start), tuple(items))


def _inner(c: Cursor) -> s.Expr:
    """An item inside round brackets."""
    outside, c.header = c.header, False
    item = type_(c) if c.typing else expression(c)
    c.header = outside
    return item


def _value(c: Cursor) -> s.Expr:
    """An item inside brackets that never hold types."""
    outside = c.header, c.typing
    c.header = c.typing = False
    item = expression(c)
    c.header, c.typing = outside
    return item


def close(c: Cursor, closer: str) -> None:
    """The end of a bracket after an item."""
    if not c.take(closer):
        raise Wrong(no_closer(c, closer))


def _bracket(c: Cursor) -> s.Expr:
    """A table: its items, joined parts, or `e for i`."""
    start = c.starts[c.pos]
    c.pos += 1
    items: list[s.Expr | s.Star] = []
    while c.kind != "]":
        if c.kind in ("*", "**"):
            begin, double = c.starts[c.pos], c.kind == "**"
            c.pos += 1
            outside = c.header, c.typing
            c.header = c.typing = False
            part = expression(c, PREFIX)
            c.header, c.typing = outside
            items.append(s.Star(c.since(begin), double, part))
        else:
            items.append(_value(c))
        if c.kind == "for" and len(items) == 1 and not isinstance(items[0], s.Star):
            binders, condition = _clause(c)
            close(c, "]")
            return s.Comprehension(c.since(start), items[0], binders, condition)
        if not c.take(","):
            break
    close(c, "]")
    return s.Bracket(c.since(start), tuple(items))


def _lambda(c: Cursor) -> s.Expr:
    span = c.skip()
    if c.header:
        raise Wrong(errors.lambda_in_header(span))
    params: list[s.Pattern] = []
    while c.kind not in (":", "NEWLINE"):
        params.append(pattern(c, expression))
        if not c.take(","):
            break
    if c.kind != ":":
        raise Wrong(errors.lambda_colon(c.here, c.found))
    c.pos += 1
    body = expression(c)
    return s.Lambda(c.since(span.start), tuple(params), body)


def _string(c: Cursor) -> s.Expr:
    """A string; the expressions of an f-string are parsed in place."""
    span = c.skip()
    parts = [p if isinstance(p, str) else _part(c, p) for p in pieces(span)]
    return s.String(span, tuple(parts))


def _part(c: Cursor, span: Span) -> s.Expr:
    """The expression between two braces."""
    inner = cursor(lex_within(c.source, span.start, span.end))
    if inner.kind == "EOF" and not inner.wrong:
        braces = Span(c.source, span.start - 1, span.end + 1)
        raise Wrong(errors.format_part(braces, "`{}` is empty"))
    if inner.wrong:
        wrong = inner.wrong[0].labels[0].span
        if wrong.text == "!" and wrong.start > span.start:
            raise Wrong(errors.format_part(wrong, "there are no conversions"))
        if ":" in inner.kinds and inner.starts[inner.kinds.index(":")] < wrong.start:
            raise Wrong(errors.format_part(wrong, "there are no formats"))
        raise Wrong(inner.wrong[0])
    inner.depth = c.depth
    part = expression(inner)
    if inner.kind == ":":
        form = Span(c.source, inner.here.start, span.end)
        raise Wrong(errors.format_part(form, "there are no formats"))
    if inner.kind != "EOF":
        raise Wrong(errors.format_part(inner.here, f"{inner.found} follows the expression"))
    c.wrong.extend(inner.wrong)
    c.height = max(c.height, inner.height)
    return part


# ---------------------------------------------------------------- what follows an operand


def _call(c: Cursor, function: s.Expr, start: int) -> s.Expr:
    c.pos += 1
    args: list[s.Expr | s.Keyword | s.Generator] = []
    while c.kind != ")":
        begin = c.starts[c.pos]
        if c.ahead(1) == "=" and (c.kind == "NAME" or c.kind in KEYWORDS):
            name, _ = c.name("the name of an argument")
            c.pos += 1
            value = _value(c)
            args.append(s.Keyword(c.since(begin), name, value))
        elif c.kind in SECTIONS and c.ahead(1) in (",", ")"):
            c.pos += 1
            span = c.since(begin)
            args.append(s.Section(span, span.text, None))
        elif c.kind in ("*", "**"):
            raise Wrong(no_expression(c, c.kind))
        else:
            args.append(_inner(c))
        if c.kind == "for":
            element = args.pop()
            if args or isinstance(element, s.Keyword | s.Generator):
                raise Wrong(errors.generator_alone(c.here))
            binders, condition = _clause(c)
            args.append(s.Generator(c.since(begin), element, binders, condition))
            if c.kind == ",":
                raise Wrong(errors.generator_alone(c.since(begin)))
            break
        if not c.take(","):
            break
    close(c, ")")
    return s.Call(c.since(start), function, tuple(args))


def _index(c: Cursor, base: s.Expr, start: int) -> s.Expr:
    c.pos += 1
    indices: list[s.Expr] = []
    while True:
        if c.kind in (":", ":=") or (c.kind == "]" and not indices):
            raise Wrong(colon_slice(c, start))
        indices.append(_value(c))
        if c.kind == ":":
            raise Wrong(colon_slice(c, start))
        if not c.take(","):
            break
    close(c, "]")
    return s.IndexExpr(c.since(start), base, tuple(indices))


def _comparison(c: Cursor, first: s.Expr, start: int) -> s.Expr:
    """`a < b <= c` is one node."""
    operands, ops = [first], []
    while c.kind in COMPARISONS or (c.kind == "=" and c.header):
        if c.kind == "=":
            c.report(errors.equals(c.here))
            ops.append("==")
        else:
            ops.append(c.kind)
        c.pos += 1
        operands.append(expression(c, RANGE))
    return s.Compare(c.since(start), tuple(operands), tuple(ops))


def _range(c: Cursor, low: s.Expr | None, start: int) -> s.Expr:
    sign = c.kind
    inclusive = sign.endswith("=")
    c.pos += 1
    high = expression(c, UNION) if inclusive or c.kind in TIGHT_STARTS else None
    return s.RangeExpr(c.since(start), low, high, inclusive, sign.startswith("<"))


def _ternary(c: Cursor, then: s.Expr, start: int) -> s.Expr:
    c.pos += 1
    outside, c.header = c.header, True  # as in a block's header, `=` can only be meant as `==`
    condition = expression(c, TERNARY + 1)
    c.header = outside
    if not c.take("else"):
        raise Wrong(no_else(c))
    otherwise = expression(c)
    return s.Ternary(c.since(start), condition, then, otherwise)


def _rank(c: Cursor, function: s.Expr, start: int) -> s.Expr:
    """`f~1`, `f~(1, all)`."""
    c.pos += 1
    ranks: list[int | None] = []
    if c.take("("):
        ranks.append(_one_rank(c))
        while c.take(","):
            ranks.append(_one_rank(c))
        close(c, ")")
    else:
        ranks.append(_one_rank(c))
    return s.Rank(c.since(start), function, tuple(ranks))


def _one_rank(c: Cursor) -> int | None:
    if c.kind == "NAME" and c.word == "all":
        c.pos += 1
        return None
    here, found = c.here, c.found
    negative = c.take("-")
    if c.kind == "NUM":
        value = number(c)
        if isinstance(value, int):
            return -value if negative else value
    raise Wrong(errors.unexpected("a rank (a whole number or `all`)", found, here))


# ---------------------------------------------------------------- binders


def _clause(c: Cursor) -> tuple[tuple[s.Binder, ...], s.Expr | None]:
    """`for i, j if p` inside brackets."""
    outside = c.header, c.typing
    c.header = c.typing = False
    c.pos += 1
    found = binders(c)
    if c.kind == ":":
        sign = c.skip()
        raise Wrong(colon(c, sign, found[0][-1]))
    if c.kind == "for":
        raise Wrong(errors.second_for(c.here))
    c.header, c.typing = outside
    return found


def binders(c: Cursor) -> tuple[tuple[s.Binder, ...], s.Expr | None]:
    """`i, j in S if p`, after the `for`; several filters are one."""
    found = [binder(c)]
    while c.take(","):
        found.append(binder(c))
    condition: s.Expr | None = None
    while c.kind == "if":
        span = c.skip()
        outside, c.header = c.header, True
        more = expression(c, OR)
        c.header = outside
        if condition is None:
            condition = more
        else:
            both = condition.span.to(more.span)
            condition = s.Binary(both, "and", span, condition, more)
    return tuple(found), condition


def binder(c: Cursor) -> s.Binder:
    start = c.starts[c.pos]
    name = pattern(c, expression)
    domain = expression(c, RANGE) if c.take("in") else None
    return s.Binder(c.since(start), name, domain)


# ---------------------------------------------------------------- types


def type_(c: Cursor) -> s.Expr:
    """A type or an index set."""
    return _measured(c, _type)


def _measured(c: Cursor, part: Callable[[Cursor], s.Expr]) -> s.Expr:
    c.down()
    outside, c.typing = c.typing, True
    outer, c.height = c.height, 0
    made = part(c)
    c.height = max(c.height + 1, outer)
    c.typing = outside
    c.depth -= 1
    return made


def _type(c: Cursor) -> s.Expr:
    start = c.starts[c.pos]
    if c.take("exists"):
        names = [c.name("a size")[0]]
        while c.take(","):
            names.append(c.name("a size")[0])
        c.expect(".")
        body = type_(c)
        return s.Exists(c.since(start), tuple(names), body)
    left = _table(c)
    if c.kind == "->":
        effects, to = result(c)
        # `(a, b) -> c` takes two arguments, `((a, b)) -> c` a pair
        listed = isinstance(left, s.TupleExpr) and left.span.start == start
        params = left.items if isinstance(left, s.TupleExpr) and listed else (left,)
        return s.FunctionType(c.since(start), params, effects, to)
    return left


def _table(c: Cursor) -> s.Expr:
    """A type without an arrow of a function, which binds less."""
    start = c.starts[c.pos]
    if c.kind == "(" and c.ahead(1) == "NAME" and c.ahead(2) == ":":
        c.pos += 1
        name, _ = c.name("an index")
        c.pos += 1
        domain = type_(c)
        close(c, ")")
        c.expect("=>", "`=>` after the index and its set")
        cell = _cell(c)
        return s.TableType(c.since(start), name, domain, cell)
    left = expression(c, RANGE)
    if c.take("=>"):
        cell = _cell(c)
        return s.TableType(c.since(start), None, left, cell)
    return left


def _cell(c: Cursor) -> s.Expr:
    return _measured(c, _type if c.kind == "exists" else _table)


def result(c: Cursor) -> tuple[tuple[str, ...] | None, s.Expr]:
    """`-> {State} T`: the effects and the type."""
    c.expect("->")
    if c.kind in ("NEWLINE", "=", ":", "where", "EOF"):
        raise Wrong(errors.missing_type(c.found, c.here))
    effects: tuple[str, ...] | None = None
    if c.take("{"):
        names = [c.name("an effect")[0]]
        while c.take(","):
            names.append(c.name("an effect")[0])
        c.expect("}", "`,` or `}`")
        effects = tuple(names)
    return effects, type_(c)
