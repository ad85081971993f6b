"""A tree as text that parses to the same tree, with as few parentheses as that takes.

    (a + b) * c        stays
    ((a * b)) + (c)    a * b + c

A line that would be longer than `WIDTH` is broken inside its outermost brackets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from naperian.node import node
from naperian.surface import syntax as s
from naperian.surface.cursor import deep
from naperian.surface.expressions import (
    AS,
    COMPARE,
    LEFT,
    NOT,
    OR,
    POSTFIX,
    POWER,
    PREFIX,
    RANGE,
    TERNARY,
    UNION,
)
from naperian.surface.literals import cleaned

WIDTH = 88
_STEP = "    "


@node
class Group:
    """Brackets and their items, on one line or one item a line."""

    opener: str
    items: tuple[Doc, ...]
    separator: str
    closer: str
    width: int


Doc: TypeAlias = "tuple[str | Group, ...]"


def show(node: s.Module | s.Decl | s.Expr | s.Pattern) -> str:
    """The text of a tree. Declarations and statements end with a line end."""
    with deep():
        match node:
            case s.Module(_, doc, decls):
                lines = _docstring(doc, "") if doc is not None else []
                before: s.Decl | None = None
                for d in decls:
                    if lines and (before is None or not (_is_line(d) and _is_line(before))):
                        lines.append("")
                    lines.extend(_declaration(d))
                    before = d
                return "\n".join(lines) + "\n" if lines else ""
            case (
                s.PName() | s.PWild() | s.PNumber() | s.PString() | s.PConstructor() | s.PTuple()
                | s.PBracket() | s.PAlt() | s.PBoth()
            ):
                return _layout(_pattern(node), "")
            case (
                s.Struct() | s.Enum() | s.Interface() | s.Instance() | s.Import() | s.FromImport()
                | s.Def() | s.For() | s.If() | s.Match() | s.With() | s.Loop() | s.Assert()
                | s.Bind() | s.Set() | s.Add() | s.Return() | s.ExprStmt()
            ):
                return "\n".join(_declaration(node)) + "\n"
            case s.Block(_, statements):
                return "\n".join([x for t in statements for x in _statement(t, "")]) + "\n"
            case _:
                return _layout(_expr(node, 0), "")


def _is_line(d: s.Decl) -> bool:
    return isinstance(d, s.Bind | s.ExprStmt | s.Set | s.Add | s.Assert | s.Import | s.FromImport)


# ---------------------------------------------------------------- layout


def _width(doc: Doc) -> int:
    return sum([len(p) if isinstance(p, str) else p.width for p in doc])


def _group(opener: str, items: Sequence[Doc], closer: str, separator: str = ",") -> Group:
    inner = sum([_width(i) for i in items]) + (len(separator) + 1) * max(len(items) - 1, 0)
    return Group(opener, tuple(items), separator, closer, len(opener) + inner + len(closer))


def _layout(doc: Doc, indent: str, column: int = 0, after: int = 0) -> str:
    """The text of `doc` when it starts at `column` and `after` more characters follow. If it does
    not fit, its widest brackets are broken."""
    widths = [0 if isinstance(p, str) or not p.items else p.width for p in doc]
    if column + _width(doc) + after <= WIDTH or not any(widths):
        return _flat(doc)
    at = widths.index(max(widths))
    group = doc[at]
    assert isinstance(group, Group)
    deeper = indent + _STEP
    lines = [deeper + _layout(i, deeper, len(deeper), 1) for i in group.items]
    inside = f"{group.separator}\n".join(lines)
    before = _layout(doc[:at], indent, column, len(group.opener))
    more = _layout(doc[at + 1 :], indent, len(indent) + len(group.closer), after)
    return f"{before}{group.opener}\n{inside}\n{indent}{group.closer}{more}"


def _flat(doc: Doc) -> str:
    """The text of `doc` on one line."""
    return "".join(
        [
            p if isinstance(p, str)
            else p.opener + f"{p.separator} ".join([_flat(i) for i in p.items]) + p.closer
            for p in doc
        ]
    )


def _commas(docs: Sequence[Doc]) -> Doc:
    """`a, b` without brackets."""
    out: list[str | Group] = []
    for doc in docs:
        out += [", ", *doc] if out else doc
    return tuple(out)


# ---------------------------------------------------------------- expressions and types


def _binds(e: s.Expr) -> int:
    """How tightly the outermost operator of an expression binds."""
    match e:
        case s.Ternary() | s.Lambda():
            return TERNARY
        case s.TableType() | s.FunctionType() | s.Exists():
            return TERNARY
        case s.As():
            return AS
        case s.Unary(_, "not", _):
            return NOT
        case s.Unary():
            return PREFIX
        case s.Binary(_, op, _, _, _):
            return LEFT.get(op, POWER)
        case s.Compare():
            return COMPARE
        case s.RangeExpr():
            return RANGE
        case _:
            return POSTFIX


def _expr(e: s.Expr, power: int) -> Doc:
    """An expression where one is needed that binds at least as tightly as `power`."""
    doc = _bare(e)
    return (_group("(", [doc], ")"),) if _binds(e) < power else doc


def _bare(e: s.Expr) -> Doc:
    match e:
        case s.Name(_, name):
            return (name,)
        case s.Number(_, value):
            return (repr(value),)
        case s.String():
            return (_string(e),)
        case s.Unary(_, op, operand):
            return ("not " if op == "not" else op, *_expr(operand, NOT if op == "not" else PREFIX))
        case s.Binary(_, "**", _, left, right):
            return (*_expr(left, POSTFIX), " ** ", *_expr(right, PREFIX))
        case s.Binary(_, op, _, left, right):
            return (*_expr(left, LEFT[op]), f" {op} ", *_expr(right, LEFT[op] + 1))
        case s.Compare(_, operands, ops):
            out: list[str | Group] = [*_expr(operands[0], RANGE)]
            for op, operand in zip(ops, operands[1:], strict=True):
                out += [f" {op} ", *_expr(operand, RANGE)]
            return tuple(out)
        case s.Ternary(_, condition, then, otherwise):
            return (
                *_expr(then, 1), " if ", *_expr(condition, 1), " else ", *_expr(otherwise, TERNARY)
            )
        case s.Lambda(_, params, body):
            head = _commas([_pattern(p) for p in params])
            return ("lambda ", *head, ": ", *_expr(body, 0)) if params else (
                "lambda: ", *_expr(body, 0)
            )
        case s.TupleExpr(_, (only,)):
            return (_group("(", [(*_expr(only, 0), ",")], ")"),)
        case s.TupleExpr(_, items):
            return (_group("(", [_expr(x, 0) for x in items], ")"),)
        case s.Bracket(_, items):
            return (_group("[", [_item(x) for x in items], "]"),)
        case s.Comprehension(_, element, binders, condition):
            inside = [_expr(element, 0), ("for ", *_binders(binders, condition))]
            return (_group("[", inside, "]", ""),)
        case s.Call(_, function, (s.Generator(_, element, binders, condition),)):
            inside = [_expr(element, 0), ("for ", *_binders(binders, condition))]
            return (*_expr(function, POSTFIX), _group("(", inside, ")", ""))
        case s.Call(_, function, args):
            return (*_expr(function, POSTFIX), _group("(", [_argument(a) for a in args], ")"))
        case s.IndexExpr(_, base, indices):
            return (*_expr(base, POSTFIX), _group("[", [_expr(i, 0) for i in indices], "]"))
        case s.Field(_, s.Number() | s.Rank() as base, name, _):  # `1.x` would be a bad number
            return (_group("(", [_bare(base)], ")"), f".{name}")
        case s.Field(_, base, name, _):
            return (*_expr(base, POSTFIX), f".{name}")
        case s.Checked(_, operand):
            return (*_expr(operand, POSTFIX), "?")
        case s.Rank(_, function, ranks):
            shown = ["all" if r is None else str(r) for r in ranks]
            joined = shown[0] if len(shown) == 1 else f"({', '.join(shown)})"
            return (*_expr(function, POSTFIX), f"~{joined}")
        case s.RangeExpr(_, low, high, inclusive):
            sign = "..=" if inclusive else ".."
            return (
                *(_expr(low, UNION) if low is not None else ()),
                sign,
                *(_expr(high, UNION) if high is not None else ()),
            )
        case s.As(_, operand, to, checked):
            return (*_expr(operand, AS), " as ", *_bare(to), "?" if checked else "")
        case s.Section(_, op, right):
            inside = [(op,) if right is None else (f"{op} ", *_expr(right, 0))]
            return (_group("(", inside, ")"),)
        case s.TableType(_, binder, index, cell):
            if binder is None:
                return (*_expr(index, RANGE), "=>", *_bare(cell))
            return (_group("(", [(f"{binder}: ", *_bare(index))], ")"), "=>", *_bare(cell))
        case s.FunctionType(_, params, effects, to):
            listed = len(params) != 1 or isinstance(params[0], s.TupleExpr)
            taken: Doc = (
                (_group("(", [_expr(p, 0) for p in params], ")"),) if listed
                else _expr(params[0], RANGE)
            )
            return (*taken, " ", *_result(effects, to))
        case s.Exists(_, names, body):
            return (f"exists {', '.join(names)}. ", *_bare(body))
        case s.Block():
            raise ValueError("a block is not an expression")


def _result(effects: tuple[str, ...] | None, to: s.Expr) -> Doc:
    row = "" if effects is None else f"{{{', '.join(effects)}}} "
    return (f"-> {row}", *_bare(to))


def _item(e: s.Expr | s.Star) -> Doc:
    if isinstance(e, s.Star):
        return ("**" if e.double else "*", *_expr(e.value, PREFIX))
    return _expr(e, 0)


def _argument(e: s.Expr | s.Keyword | s.Generator) -> Doc:
    match e:
        case s.Keyword(_, name, value):
            return (f"{name}=", *_expr(value, 0))
        case s.Generator(_, element, binders, condition):
            return (*_expr(element, 0), " for ", *_binders(binders, condition))
        case _:
            return _expr(e, 0)


def _binders(binders: tuple[s.Binder, ...], condition: s.Expr | None) -> Doc:
    head = _commas([_binder(b) for b in binders])
    return head if condition is None else (*head, " if ", *_expr(condition, OR))


def _binder(b: s.Binder) -> Doc:
    name = _pattern(b.pattern)
    return name if b.domain is None else (*name, " in ", *_expr(b.domain, RANGE))


# ---------------------------------------------------------------- strings

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}


def _escaped(text: str, keep: str = "") -> str:
    return "".join([c if c in keep else _ESCAPES.get(c) or _visible(c) for c in text])


def _visible(c: str) -> str:
    if c.isprintable():
        return c
    return f"\\x{ord(c):02x}" if ord(c) < 0x100 else f"\\u{ord(c):04x}" if ord(c) < 0x10000 else c


def _string(e: s.String) -> str:
    if all(isinstance(p, str) for p in e.parts):
        return '"' + "".join([_escaped(p) for p in e.parts if isinstance(p, str)]) + '"'
    out = ""
    for part in e.parts:
        if isinstance(part, str):
            out += _escaped(part).replace("{", "{{").replace("}", "}}")
        else:
            out += "{" + _flat(_expr(part, 0)) + "}"
    inner = any('"' in _flat(_expr(p, 0)) for p in e.parts if not isinstance(p, str))
    return f'f"""{out}"""' if inner else f'f"{out}"'


# ---------------------------------------------------------------- patterns


def _pattern(p: s.Pattern) -> Doc:
    match p:
        case s.PName(_, name):
            return (name,)
        case s.PWild():
            return ("_",)
        case s.PNumber(_, value):
            return (repr(value),)
        case s.PString(_, value):
            return (f'"{_escaped(value)}"',)
        case s.PConstructor(_, name, args):
            if args is None:
                return (name,)
            return (name, _group("(", [_pattern(a) for a in args], ")"))
        case s.PTuple(_, (only,)):
            return (_group("(", [(*_pattern(only), ",")], ")"),)
        case s.PTuple(_, items):
            return (_group("(", [_pattern(i) for i in items], ")"),)
        case s.PBracket(_, items):
            return (_group("[", [_part(i) for i in items], "]"),)
        case s.PAlt(_, left, right):
            return (*_pattern(left), " | ", *_atom(right))
        case s.PBoth(_, left, right):
            return (*_pattern(left), " & ", *_atom(right))


def _atom(p: s.Pattern) -> Doc:
    doc = _pattern(p)
    return (_group("(", [doc], ")"),) if isinstance(p, s.PAlt | s.PBoth) else doc


def _part(p: s.Pattern | s.PStar) -> Doc:
    if not isinstance(p, s.PStar):
        return _pattern(p)
    stars = "**" if p.double else "*"
    return (f"{stars}{p.name}",) if p.at is None else (f"{stars}{p.name}: ", *_expr(p.at, OR))


# ---------------------------------------------------------------- statements


def _statement(t: s.Stmt, indent: str) -> list[str]:
    match t:
        case s.Def():
            return _function(t, indent)
        case s.For(_, binders, condition, body):
            return _headed(("for ", *_binders(binders, condition)), body, indent)
        case s.If(_, arms, otherwise):
            lines: list[str] = []
            for condition, body in arms:
                word = "elif " if lines else "if "
                lines += _headed((word, *_header(condition)), body, indent)
            return lines + (_headed(("else",), otherwise, indent) if otherwise is not None else [])
        case s.Match(_, subject, cases):
            lines = [_layout((indent, "match ", *_header(subject), ":"), indent)]
            for case in cases:
                guard = () if case.guard is None else (" if ", *_header(case.guard))
                head: Doc = ("case ", *_pattern(case.pattern), *guard)
                lines += _headed(head, case.body, indent + _STEP)
            return lines
        case s.With(_, handlers, body):
            return _headed(("with ", *_commas([_handler(h) for h in handlers])), body, indent)
        case s.Loop(_, carries, binder, condition, body):
            over = () if binder is None else (" for ", *_binder(binder))
            until = () if condition is None else (" while ", *_header(condition))
            head = ("loop ", *_commas([_carry(c) for c in carries]), *over, *until)
            return _headed(head, body, indent)
        case s.Assert(_, condition, message):
            why = () if message is None else (", ", *_expr(message, 0))
            return [_layout((indent, "assert ", *_header(condition), *why), indent)]
        case s.Bind(_, pattern, annotation, value):
            typed = () if annotation is None else (": ", *_bare(annotation))
            return _equation((*_pattern(pattern), *typed, " ="), value, indent)
        case s.Set(_, target, value):
            return _equation((*_expr(target, 0), " :="), value, indent)
        case s.Add(_, target, value):
            return _equation((*_expr(target, 0), " +="), value, indent)
        case s.Return(_, value):
            return [_layout((indent, "return ", *_expr(value, 0)), indent)]
        case s.ExprStmt(_, value):
            return [_layout((indent, *_expr(value, 0)), indent)]


def _headed(head: Doc, body: s.Block, indent: str) -> list[str]:
    return [_layout((indent, *head, ":"), indent), *_block(body, indent + _STEP)]


def _block(body: s.Block, indent: str) -> list[str]:
    return [line for t in body.statements for line in _statement(t, indent)]


def _header(e: s.Expr) -> Doc:
    """An expression before the `:` of a block, which no `lambda` may end."""
    tail = e
    while isinstance(tail, s.Ternary):
        tail = tail.otherwise
    return _expr(e, 1 if isinstance(tail, s.Lambda) else 0)


def _handler(h: s.Handler) -> Doc:
    effect: Doc = ("except",) if h.effect is None else _expr(h.effect, OR)
    return effect if h.name is None else (*effect, f" as {h.name}")


def _carry(c: s.Carry) -> Doc:
    typed = () if c.type is None else (": ", *_bare(c.type))
    return (*_pattern(c.pattern), *typed, " = ", *_header(c.start))


_BRACKETED = (s.Bracket, s.Comprehension, s.TupleExpr, s.Call)


def _equation(left: Doc, value: s.Expr, indent: str) -> list[str]:
    """`left value` on one line, or the value below, or a block form."""
    if isinstance(value, s.Block):
        first, *more = _statement(value.statements[0], indent)
        return [_layout((indent, *left), indent) + " " + first.lstrip(), *more]
    right = _expr(value, 0)
    if len(indent) + _width(left) + 1 + _width(right) <= WIDTH:
        return [_layout((indent, *left, " ", *right), indent)]
    deeper = indent + _STEP
    if len(deeper) + _width(right) > WIDTH and isinstance(value, _BRACKETED):
        return [_layout((indent, *left, " ", *right), indent)]
    return [_layout((indent, *left), indent), _layout((deeper, *right), deeper)]


# ---------------------------------------------------------------- declarations


def _declaration(d: s.Decl) -> list[str]:
    match d:
        case s.Struct(_, name, params, fields, methods, doc):
            above, below = _told(doc, _STEP)
            head = f"struct {name}{_names(params)}:"
            lines = [_layout((_STEP, *_param(f)), _STEP) for f in fields]
            for m in methods:
                lines += _function(m, _STEP)
            return [*above, head, *below, *lines]
        case s.Enum(_, name, _, params, variants, doc):
            head = f"enum {name}{_names(params)} ="
            docs = [_variant(v) for v in variants]
            flat = f"{head} " + " | ".join([_flat(v) for v in docs])
            comments = _comments(doc, "") if doc is not None else []
            if len(flat) <= WIDTH:
                return [*comments, flat]
            return [*comments, head, *[_layout((_STEP, "| ", *v), _STEP) for v in docs]]
        case s.Interface(_, name, params, facts, members, doc):
            above, below = _told(doc, _STEP)
            head = f"interface {name}{_names(params)}"
            lines = [line for m in members for line in _statement(m, _STEP)]
            return [*above, _layout((head, *_where(facts), ":"), ""), *below, *lines]
        case s.Instance(_, name, types, facts, members):
            group = _group("(", [_bare(t) for t in types], ")")
            lines = [line for m in members for line in _statement(m, _STEP)]
            return [_layout((f"instance {name}", group, *_where(facts), ":"), ""), *lines]
        case s.Import(_, path, alias, names):
            other = "" if alias is None else f" as {alias}"
            what = f": {_aliases(names)}" if names else ""
            return [f"import {'.'.join(path)}{other}{what}"]
        case s.FromImport(_, path, names):
            return [f"from {'.'.join(path)} import {_aliases(names)}"]
        case _:
            return _statement(d, "")


def _names(names: tuple[str, ...]) -> str:
    return f"({', '.join(names)})" if names else ""


def _aliases(names: tuple[s.Alias, ...]) -> str:
    return ", ".join([n.name if n.alias is None else f"{n.name} as {n.alias}" for n in names])


def _variant(v: s.Variant) -> Doc:
    if v.fields is None:
        return (v.name,)
    return (v.name, _group("(", [_param(f) for f in v.fields], ")"))


def _param(p: s.Param) -> Doc:
    typed = () if p.type is None else (": ", *_bare(p.type))
    default = () if p.default is None else (
        "=" if p.type is None else " = ", *_expr(p.default, 0)
    )
    return (p.name, *typed, *default)


def _where(facts: tuple[s.Fact, ...]) -> Doc:
    shown = [
        (*_expr(f.subject, OR), "" if f.interface is None else f": {f.interface}") for f in facts
    ]
    return (" where ", *_commas(shown)) if shown else ()


def _function(d: s.Def, indent: str) -> list[str]:
    to = () if d.result is None else (" ", *_result(d.effects, d.result))
    head: Doc = ("def ", d.name, _group("(", [_param(p) for p in d.params], ")"), *to)
    facts = _where(d.facts)
    lead: list[str] = []
    if facts and len(indent) + _width(head) + _width(facts) > WIDTH:
        lead = [_layout((indent, *head), indent)]
        head = (f"{_STEP}where ", *facts[1:])
    else:
        head = (*head, *facts)
    match d.body:
        case None:
            comments = _comments(d.doc, indent) if d.doc is not None else []
            return [*comments, *lead, _layout((indent, *head), indent)]
        case s.Block(_, (s.ExprStmt(_, value),)) if d.doc is None or _can_be_comment(d.doc):
            comments = _comments(d.doc, indent) if d.doc is not None else []
            return [*comments, *lead, *_equation((*head, " ="), value, indent)]
        case body:
            above, below = _told(d.doc, indent + _STEP)
            return [
                *above, *lead, _layout((indent, *head, ":"), indent), *below,
                *_block(body, indent + _STEP),
            ]


# ---------------------------------------------------------------- what is told


def _told(doc: str | None, indent: str) -> tuple[list[str], list[str]]:
    """A doc as the lines above a header or, where it stays the same there, below it."""
    if doc is None:
        return [], []
    if cleaned(doc) == doc or not _can_be_comment(doc):
        return [], _docstring(doc, indent)
    return _comments(doc, indent.removesuffix(_STEP)), []


def _can_be_comment(doc: str) -> bool:
    return bool(doc) and all(x == x.rstrip() and "\r" not in x for x in doc.split("\n"))


def _comments(doc: str, indent: str) -> list[str]:
    return [f"{indent}# {line}".rstrip() for line in doc.split("\n")]


def _docstring(doc: str, indent: str) -> list[str]:
    text = _escaped(doc, keep='\n"').replace('"""', '""\\"')
    text = text[:-1] + '\\"' if text.endswith('"') else text
    first, *more = text.split("\n")
    lines = [f'{indent}"""{first}', *[f"{indent}{x}" if x.strip() else "" for x in more]]
    if more:
        return [*lines, f'{indent}"""']
    return [lines[0] + '"""']
