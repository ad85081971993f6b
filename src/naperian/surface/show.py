"""A tree as text that parses to the same tree: modules, declarations and statements."""

from __future__ import annotations

from naperian.node import replace
from naperian.surface import syntax as s
from naperian.surface.cursor import deep
from naperian.surface.layout import STEP, WIDTH, Doc, commas, flat, group, layout, width_of
from naperian.surface.literals import cleaned
from naperian.surface.operators import OR
from naperian.surface.shown import bare, clause, escaped, expr, pattern, range_of, result


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
                return layout(pattern(node), "")
            case (
                s.Struct() | s.Enum() | s.Interface() | s.Instance() | s.Import() | s.FromImport()
                | s.Def() | s.For() | s.If() | s.Match() | s.With() | s.Loop() | s.Assert()
                | s.Bind() | s.Set() | s.Update() | s.Return() | s.ExprStmt()
            ):
                return "\n".join(_declaration(node)) + "\n"
            case s.Block(_, statements):
                return "\n".join([x for t in statements for x in _statement(t, "")]) + "\n"
            case _:
                return layout(expr(node, 0), "")


def _is_line(d: s.Decl) -> bool:
    lines = s.Bind | s.ExprStmt | s.Set | s.Update | s.Assert | s.Import | s.FromImport
    return isinstance(d, lines)


# ---------------------------------------------------------------- statements


def _statement(t: s.Stmt, indent: str) -> list[str]:
    match t:
        case s.Def():
            return _function(t, indent)
        case s.For(_, binders, condition, body):
            return _headed(("for ", *clause(binders, condition)), body, indent)
        case s.If(_, arms, otherwise):
            lines: list[str] = []
            for condition, body in arms:
                word = "elif " if lines else "if "
                lines += _headed((word, *_header(condition)), body, indent)
            return lines + (_headed(("else",), otherwise, indent) if otherwise is not None else [])
        case s.Match(_, subject, cases):
            lines = [layout((indent, "match ", *_header(subject), ":"), indent)]
            for case in cases:
                guard = () if case.guard is None else (" if ", *_header(case.guard))
                head: Doc = ("case ", *pattern(case.pattern), *guard)
                lines += _headed(head, case.body, indent + STEP)
            return lines
        case s.With(_, handlers, body):
            return _headed(("with ", *commas([_handler(h) for h in handlers])), body, indent)
        case s.Loop(_, carries, binder, checkpoint, condition, body):
            if not carries and condition is not None:
                return _headed(("while ", *_header(condition)), body, indent)
            over: Doc = () if binder is None else (" for ", *range_of(binder))
            if checkpoint is not None:
                over += (" checkpoint(", *expr(checkpoint, 0), ")")
            until = () if condition is None else (" while ", *_header(condition))
            head = ("loop ", *commas([_carry(c) for c in carries]), *over, *until)
            return _headed(head, body, indent)
        case s.Assert(_, condition, message):
            why = () if message is None else (", ", *expr(message, 0))
            return [layout((indent, "assert ", *_header(condition), *why), indent)]
        case s.Bind(_, target, annotation, value):
            typed = () if annotation is None else (": ", *bare(annotation))
            return _equation((*pattern(target), *typed, " ="), value, indent)
        case s.Set(_, target, value):
            return _equation((*expr(target, 0), " :="), value, indent)
        case s.Update(_, op, _, target, value):
            return _equation((*expr(target, 0), f" {op}="), value, indent)
        case s.Return(_, value):
            return [layout((indent, "return ", *expr(value, 0)), indent)]
        case s.ExprStmt(_, value):
            return [layout((indent, *expr(value, 0)), indent)]


def _headed(head: Doc, body: s.Block, indent: str) -> list[str]:
    return [layout((indent, *head, ":"), indent), *_block(body, indent + STEP)]


def _block(body: s.Block, indent: str) -> list[str]:
    return [line for t in body.statements for line in _statement(t, indent)]


def _header(e: s.Expr) -> Doc:
    """An expression before the `:` of a block, which no `lambda` may end."""
    tail = e
    while isinstance(tail, s.Ternary):
        tail = tail.otherwise
    return expr(e, 1 if isinstance(tail, s.Lambda) else 0)


def _handler(h: s.Handler) -> Doc:
    effect: Doc = ("except",) if h.effect is None else expr(h.effect, OR)
    return effect if h.name is None else (*effect, f" as {h.name}")


def _carry(c: s.Carry) -> Doc:
    typed = () if c.type is None else (": ", *bare(c.type))
    return (*pattern(c.pattern), *typed, " = ", *_header(c.start))


_BRACKETED = (s.Bracket, s.Comprehension, s.TupleExpr, s.Call)


def _equation(left: Doc, value: s.Expr, indent: str) -> list[str]:
    """`left value` on one line, or the value below, or a block form."""
    if isinstance(value, s.Block):
        first, *more = _statement(value.statements[0], indent)
        return [layout((indent, *left), indent) + " " + first.lstrip(), *more]
    right = expr(value, 0)
    if len(indent) + width_of(left) + 1 + width_of(right) <= WIDTH:
        return [layout((indent, *left, " ", *right), indent)]
    deeper = indent + STEP
    if len(deeper) + width_of(right) > WIDTH and isinstance(value, _BRACKETED):
        return [layout((indent, *left, " ", *right), indent)]
    return [layout((indent, *left), indent), layout((deeper, *right), deeper)]


# ---------------------------------------------------------------- declarations


def _declaration(d: s.Decl) -> list[str]:
    match d:
        case s.Struct(_, name, _, params, fields, methods, doc):
            above, below = _told(doc, STEP)
            head = f"struct {name}{_names(params)}:"
            lines = [layout((STEP, *_param(f)), STEP) for f in fields]
            for m in methods:
                lines += _function(m, STEP)
            return [*above, head, *below, *lines]
        case s.Enum(_, name, _, params, variants, doc):
            head = f"enum {name}{_names(params)} ="
            docs = [_variant(v) for v in variants]
            line = f"{head} " + " | ".join([flat(v) for v in docs])
            comments = _comments(doc, "") if doc is not None else []
            if len(line) <= WIDTH:
                return [*comments, line]
            return [*comments, head, *[layout((STEP, "| ", *v), STEP) for v in docs]]
        case s.Interface(_, name, params, facts, members, doc):
            above, below = _told(doc, STEP)
            head = f"interface {name}{_names(params)}"
            if not members:
                comments = _comments(doc, "") if doc is not None else []
                return [*comments, layout((head, *_where(facts)), "")]
            lines = [line for m in members for line in _member(m)]
            return [*above, layout((head, *_where(facts), ":"), ""), *below, *lines]
        case s.Instance(_, name, types, facts, members):
            listed = group("(", [bare(t) for t in types], ")")
            first: Doc = (f"instance {name}", listed, *_where(facts))
            if members is None:
                return [layout(first, "")]
            lines = [line for m in members for line in _member(m)]
            return [layout((*first, ":"), ""), *lines]
        case s.Import(_, path, alias, names):
            other = "" if alias is None else f" as {alias}"
            what = f": {_aliases(names)}" if names else ""
            return [f"import {'.'.join(path)}{other}{what}"]
        case s.FromImport(_, path, names):
            return [f"from {'.'.join(path)} import {_aliases(names)}"]
        case _:
            return _statement(d, "")


def _member(m: s.Member) -> list[str]:
    if isinstance(m, s.AssociatedType):
        value = () if m.value is None else (" = ", *bare(m.value))
        return [layout((STEP, f"type {m.name}", *value), STEP)]
    return _statement(m, STEP)


def _names(names: tuple[str, ...]) -> str:
    return f"({', '.join(names)})" if names else ""


def _aliases(names: tuple[s.Alias, ...]) -> str:
    return ", ".join([n.name if n.alias is None else f"{n.name} as {n.alias}" for n in names])


def _variant(v: s.Variant) -> Doc:
    if v.fields is None:
        return (v.name,)
    return (v.name, group("(", [_param(f) for f in v.fields], ")"))


def _param(p: s.Param) -> Doc:
    typed = () if p.type is None else (": ", *bare(p.type))
    default = () if p.default is None else (
        "=" if p.type is None else " = ", *expr(p.default, 0)
    )
    return (p.name, *typed, *default)


def _where(facts: tuple[s.Fact, ...]) -> Doc:
    shown = [
        (*expr(f.subject, OR), "" if f.interface is None else f": {f.interface}") for f in facts
    ]
    return (" where ", *commas(shown)) if shown else ()


def _function(d: s.Def, indent: str) -> list[str]:
    if d.decorators or d.mark is not None:
        told = _comments(d.doc, indent) if d.doc is not None and _can_be_comment(d.doc) else []
        lines = [] if d.mark is None else [f"{indent}@{d.mark}"]
        for at in d.decorators:
            lines.append(layout((indent, "@", at.name, "(", *expr(at.argument, 0), ")"), indent))
        bare = replace(d, decorators=(), mark=None, doc=None if told else d.doc)
        return [*told, *lines, *_function(bare, indent)]
    to = () if d.result is None else (" ", *result(d.effects, d.result))
    head: Doc = ("def ", d.name, group("(", [_param(p) for p in d.params], ")"), *to)
    facts = _where(d.facts)
    lead: list[str] = []
    if facts and len(indent) + width_of(head) + width_of(facts) > WIDTH:
        lead = [layout((indent, *head), indent)]
        head = (f"{STEP}where ", *facts[1:])
    else:
        head = (*head, *facts)
    match d.body:
        case None:
            comments = _comments(d.doc, indent) if d.doc is not None else []
            return [*comments, *lead, layout((indent, *head), indent)]
        case s.Block(_, (s.ExprStmt(_, value),)) if d.doc is None or _can_be_comment(d.doc):
            comments = _comments(d.doc, indent) if d.doc is not None else []
            return [*comments, *lead, *_equation((*head, " ="), value, indent)]
        case body:
            above, below = _told(d.doc, indent + STEP)
            return [
                *above, *lead, layout((indent, *head, ":"), indent), *below,
                *_block(body, indent + STEP),
            ]


# ---------------------------------------------------------------- what is told


def _told(doc: str | None, indent: str) -> tuple[list[str], list[str]]:
    """A doc as the lines above a header or, where it stays the same there, below it."""
    if doc is None:
        return [], []
    if cleaned(doc) == doc or not _can_be_comment(doc):
        return [], _docstring(doc, indent)
    return _comments(doc, indent.removesuffix(STEP)), []


def _can_be_comment(doc: str) -> bool:
    return bool(doc) and all(x == x.rstrip() and "\r" not in x for x in doc.split("\n"))


def _comments(doc: str, indent: str) -> list[str]:
    return [f"{indent}# {line}".rstrip() for line in doc.split("\n")]


def _docstring(doc: str, indent: str) -> list[str]:
    text = escaped(doc, keep='\n"').replace('"""', '""\\"')
    text = text[:-1] + '\\"' if text.endswith('"') else text
    first, *more = text.split("\n")
    lines = [f'{indent}"""{first}', *[f"{indent}{x}" if x.strip() else "" for x in more]]
    if more:
        return [*lines, f'{indent}"""']
    return [lines[0] + '"""']
