"""What stands at the top level of a file: types, interfaces, imports, and every statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from naperian.node import replace
from naperian.source import Span
from naperian.surface import errors
from naperian.surface import syntax as s
from naperian.surface.cursor import Cursor, Wrong
from naperian.surface.expressions import close, expression, type_
from naperian.surface.headers import comments_above, docstring, parameter, parameters, where
from naperian.surface.operators import ASSIGNMENTS
from naperian.surface.statements import end_of_line, end_of_text, function, sequence, statement

T = TypeVar("T")


def declaration(c: Cursor) -> s.Decl:
    """One declaration with the end of its line or block."""
    if c.ahead(1) in ASSIGNMENTS:
        return statement(c)
    match c.kind:
        case "struct":
            return _struct(c)
        case "enum":
            return _enum(c)
        case "interface":
            return _interface(c)
        case "instance":
            return _instance(c)
        case "import":
            return _import(c)
        case "from":
            return _from_import(c)
        case "@" if c.ahead(1) == "NAME":
            return _decorated(c)
        case _:
            return statement(c)


RULES = ("custom_jvp", "custom_vjp")


def _decorated(c: Cursor) -> s.Def:
    """`@strict`, `@custom_jvp(rule)`, `@custom_vjp(rule)`, a line each, and the function they are
    for."""
    doc = comments_above(c)
    mark: str | None = None
    rules: list[s.Decorator] = []
    nothing = Wrong(errors.foreign(c.here))
    while c.kind == "@":
        at, word, here = c.skip(), c.word, c.here
        if word in s.MARKS:
            if mark is not None:
                raise Wrong(errors.second_mark(at.to(here)))
            mark = word
            c.pos += 1
            nothing = Wrong(errors.mark_of_nothing(at.to(here), word))
        elif word in RULES:
            if word in [r.name for r in rules]:
                raise Wrong(errors.second_rule(at.to(here), word))
            c.pos += 1
            if c.kind != "(":
                help_ = f"the rule is a definition of its own: `@{word}(rule)`"
                raise Wrong(errors.unexpected("`(` and the rule", c.found, c.here, help_))
            c.pos += 1
            argument = expression(c)
            if c.kind == ",":
                help_ = "a rule is one definition, which computes itself what it needs"
                raise Wrong(errors.unexpected("`)`", c.found, c.here, help_))
            close(c, ")")
            rules.append(s.Decorator(c.since(at.start), word, argument))
            nothing = Wrong(errors.misplaced_rule(word, rules[-1].span))
        else:
            raise Wrong(errors.foreign(at))
        c.expect("NEWLINE", "the end of the line")
    if c.kind != "def":
        raise nothing
    made = function(c)
    doc = doc if made.doc is None else made.doc
    return replace(made, decorators=tuple(rules), mark=mark, doc=doc)


def _names(c: Cursor, role: str, typed: str = "") -> tuple[str, ...]:
    """`(a, b)`. What to do instead of giving them types is `typed`."""
    c.expect("(")
    names = [c.name(role)[0]]
    while c.take(","):
        names.append(c.name(role)[0])
    if typed and c.kind == ":":
        raise Wrong(errors.unexpected("`,` or `)`", c.found, c.here, typed))
    close(c, ")")
    return tuple(names)


def _members(c: Cursor, word: Span, one: Callable[[Cursor], T]) -> tuple[str | None, tuple[T, ...]]:
    """`:` and indented members, perhaps after a docstring."""
    if c.kind == "NEWLINE":
        end = c.ends[c.pos - 1]
        c.report(errors.missing_colon(Span(c.source, end, end), word.text))
    elif c.kind == "{":
        text, here = f"`:` after this `{word.text}`", c.here
        raise Wrong(errors.unexpected(text, c.found, here, "its lines stand indented below a `:`"))
    else:
        c.expect(":", f"`:` after this `{word.text}`")
    if c.kind == "NAME":
        help_ = f"what a `{word.text}` has stands below it, indented, each on a line of its own"
        raise Wrong(errors.unexpected("the end of the line", c.found, c.here, help_))
    c.expect("NEWLINE", "the end of the line")
    if not c.take("INDENT"):
        c.open_ended = c.kind == "EOF"
        c.report(errors.missing_block(word, word.text))
        return None, ()
    doc = docstring(c)
    c.down()
    members = sequence(c, one)
    c.depth -= 1
    end_of_text(c)
    c.take("DEDENT")
    return doc, members


# ---------------------------------------------------------------- types


_BELOW = "in brackets stand index sets: the fields come after `:`, each on a line of its own"


def _struct(c: Cursor) -> s.Struct:
    doc = comments_above(c)
    word = c.skip()
    name, name_span = c.name("a struct")
    params = _names(c, "a parameter", _BELOW) if c.kind == "(" else ()
    end = c.ends[c.pos - 1]
    own, members = _members(c, word, _struct_member)
    fields = tuple([m for m in members if isinstance(m, s.Param)])
    methods = tuple([m for m in members if isinstance(m, s.Def)])
    span = Span(c.source, word.start, members[-1].span.end if members else end)
    return s.Struct(span, name, name_span, params, fields, methods, doc if own is None else own)


def _struct_member(c: Cursor) -> s.Param | s.Def:
    if c.kind == "def":
        return function(c)
    start = c.starts[c.pos]
    member = parameter(c, "a field")
    end_of_line(c, start)
    return member


def _enum(c: Cursor) -> s.Enum:
    doc = comments_above(c)
    word = c.skip()
    name, name_span = c.name("an enum")
    params = _names(c, "a parameter") if c.kind == "(" else ()
    if c.kind != "=":
        help_ = f"`enum {name} = One | Other(x: Float)`: the choices stand behind `=`, with `|`"
        raise Wrong(errors.unexpected("`=` and the choices", c.found, c.here, help_))
    sign = c.skip()
    variants: list[s.Variant] = []
    if c.take("NEWLINE"):
        if not c.take("INDENT"):
            c.open_ended = c.kind == "EOF"
            raise Wrong(errors.missing_value(sign))
        variants.extend(sequence(c, _variant_line))
        end_of_text(c)
        c.take("DEDENT")
    else:
        start = c.starts[c.pos]
        c.take("|")
        variants.append(_variant(c))
        while c.take("|"):
            variants.append(_variant(c))
        if c.kind == ",":
            help_ = "`|` stands between them"
            raise Wrong(errors.unexpected("`|` and another choice", c.found, c.here, help_))
        end_of_line(c, start)
    end = variants[-1].span.end if variants else sign.end
    span = Span(c.source, word.start, end)
    return s.Enum(span, name, name_span, params, tuple(variants), doc)


def _variant_line(c: Cursor) -> s.Variant:
    start = c.starts[c.pos]
    c.take("|")
    made = _variant(c)
    end_of_line(c, start)
    return made


def _variant(c: Cursor) -> s.Variant:
    start = c.starts[c.pos]
    name, _ = c.name("a choice")
    fields = parameters(c) if c.take("(") else None
    return s.Variant(c.since(start), name, fields)


def _interface(c: Cursor) -> s.Interface:
    doc = comments_above(c)
    word = c.skip()
    name, _ = c.name("an interface")
    params = _names(c, "a parameter")
    facts = where(c)
    end = c.ends[c.pos - 1]
    if c.take("NEWLINE"):
        return s.Interface(Span(c.source, word.start, end), name, params, facts, (), doc)
    own, members = _members(c, word, _interface_member)
    span = Span(c.source, word.start, members[-1].span.end if members else end)
    return s.Interface(span, name, params, facts, members, doc if own is None else own)


def _interface_member(c: Cursor) -> s.Member:
    if _is_associated(c):
        return _associated(c)
    return function(c, in_interface=True) if c.kind == "def" else statement(c)


def _instance_member(c: Cursor) -> s.Member:
    return _associated(c) if _is_associated(c) else statement(c)


def _is_associated(c: Cursor) -> bool:
    return c.kind == "NAME" and c.word == "type" and c.ahead(1) == "NAME"


def _associated(c: Cursor) -> s.AssociatedType:
    start = c.skip().start
    name, _ = c.name("an associated type")
    value = type_(c) if c.take("=") else None
    span = c.since(start)
    end_of_line(c, start)
    return s.AssociatedType(span, name, value)


def _instance(c: Cursor) -> s.Instance:
    word = c.skip()
    name, _ = c.name("an interface")
    c.expect("(")
    types = [type_(c)]
    while c.take(","):
        types.append(type_(c))
    close(c, ")")
    facts = where(c)
    end = c.ends[c.pos - 1]
    if c.take("NEWLINE"):
        return s.Instance(Span(c.source, word.start, end), name, tuple(types), facts, None)
    _, members = _members(c, word, _instance_member)
    span = Span(c.source, word.start, members[-1].span.end if members else end)
    return s.Instance(span, name, tuple(types), facts, members)


# ---------------------------------------------------------------- imports


def _dotted(c: Cursor) -> tuple[str, ...]:
    path = [c.name("a module")[0]]
    while c.take("."):
        path.append(c.name("a module")[0])
    return tuple(path)


def _aliases(c: Cursor) -> tuple[s.Alias, ...]:
    found = [_alias(c)]
    while c.take(","):
        found.append(_alias(c))
    return tuple(found)


def _alias(c: Cursor) -> s.Alias:
    start = c.starts[c.pos]
    name, _ = c.name("a definition")
    other = c.name("a definition")[0] if c.take("as") else None
    return s.Alias(c.since(start), name, other)


def _import(c: Cursor) -> s.Import:
    start = c.skip().start
    path = _dotted(c)
    alias = c.name("a module")[0] if c.take("as") else None
    names = _aliases(c) if c.take(":") else ()
    span = c.since(start)
    end_of_line(c, start)
    return s.Import(span, path, alias, names)


def _from_import(c: Cursor) -> s.FromImport:
    start = c.skip().start
    path = _dotted(c)
    c.expect("import", "`import` and what to import")
    names = _aliases(c)
    span = c.since(start)
    end_of_line(c, start)
    return s.FromImport(span, path, names)
