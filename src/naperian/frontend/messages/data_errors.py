"""What the front end has to say of structs, enums and `match`: codes N0601 to N0619."""

from __future__ import annotations

from difflib import get_close_matches

from naperian.frontend.messages.report import Reported, both, either, fail, plural
from naperian.source import Label, Span


def type_arguments(name: str, params: tuple[str, ...], found: int, span: Span) -> Reported:
    """N0601"""
    wanted = f"{name}({', '.join(params)})" if params else name
    return fail(
        "N0601", f"`{name}` takes {plural(len(params), 'parameter')}, not {found}", span,
        f"it is `{wanted}`",
    )


def recursive(names: list[str], span: Span) -> Reported:
    """N0602"""
    path = " -> ".join([*names, names[0]])
    return fail(
        "N0602", f"`{names[0]}` contains itself: {path}", span, "it would have no size",
        notes=("data lies flat in arrays; a tree or a list is a table of nodes that hold indices",),
    )


def no_parameter(name: str, param: str, params: tuple[str, ...], span: Span) -> Reported:
    """N0603"""
    listed = ", ".join([*params, param])
    return fail(
        "N0603", f"`{param}` is no parameter of `{name}`", span, "not bound",
        helps=(f"`{name}({listed})`",),
    )


def untyped_field(field: str, owner: str, span: Span) -> Reported:
    """N0604"""
    if field[0].isupper():  # a type, as one writes it in other languages
        return fail(
            "N0604", f"a field of `{owner}` has no name", span, "this looks like its type",
            helps=(f"`value: {field}`",),
        )
    return fail(
        "N0604", f"the field `{field}` of `{owner}` has no type", span, "a type is needed here",
        helps=(f"`{field}: Float`",),
    )


def twice(what: str, name: str, span: Span, first: Span) -> Reported:
    """N0605"""
    others = (Label(first, "the first one"),) if first != span else ()
    return fail("N0605", f"there are two {what}s `{name}`", span, "the second", others=others)


def which_enum(name: str, owners: list[str], span: Span) -> Reported:
    """N0606"""
    return fail(
        "N0606", f"`{name}` is a variant of {both(owners)}, and nothing here says which", span,
        "which enum?", helps=(f"write {either([f'{o}.{name}' for o in owners])}",),
    )


def no_variant(enum: str, name: str, span: Span, known: list[str]) -> Reported:
    """N0607"""
    close = get_close_matches(name, known, 1, 0.6)
    return fail(
        "N0607", f"`{enum}` has no variant `{name}`", span, "not a variant",
        notes=(f"it has {both(known)}",),
        helps=(f"did you mean `{close[0]}`?",) if close else (),
    )


def no_such_field(text: str, found: str, name: str, span: Span, known: list[str]) -> Reported:
    """N0608"""
    close = get_close_matches(name, known, 1, 0.6)
    return fail(
        "N0608", f"`{found}` has no field `{name}`", span, f"`{text}` is `{found}`",
        notes=(f"it has {both(known)}",) if known else (),
        helps=(f"did you mean `{close[0]}`?",) if close else (),
    )


def field_of_enum(found: str, name: str, span: Span) -> Reported:
    """N0609"""
    return fail(
        "N0609", f"`.{name}` of an enum: `{found}` may be a variant without it", span,
        "only a `match` says which variant it is",
        helps=("take it apart with `match`",),
    )


def pattern_arity(name: str, wanted: list[str], found: int, span: Span) -> Reported:
    """N0610"""
    shown = f"{name}({', '.join(wanted)})" if wanted else name
    return fail(
        "N0610", f"`{name}` has {plural(len(wanted), 'field')}, but this pattern takes {found}",
        span, f"it is `{shown}`", helps=(f"`{shown}`, with `_` for what is not needed",),
    )


def pattern_type(shown: str, found: str, span: Span) -> Reported:
    """N0611"""
    return fail(
        "N0611", f"the pattern `{shown}` does not fit a `{found}`", span,
        f"the value is a `{found}`",
    )


def field_assigned(name: str, field: str, span: Span) -> Reported:
    """N0800"""
    first = field.partition(".")[0]
    return fail(
        "N0800", f"`{name}.{field}` cannot be given another value: values never change", span,
        "not a name", helps=(f"`{name} = replace({name}, {first}=…)` makes a new one",),
    )


def bound_twice(name: str, span: Span, first: Span) -> Reported:
    """N0612"""
    return fail(
        "N0612", f"this pattern binds `{name}` twice", span, "the second time",
        others=(Label(first, "the first time"),),
        helps=("choose two names, and compare them in a guard: `if a == b`",),
    )


def alternatives(name: str, span: Span, other: Span) -> Reported:
    """N0613"""
    return fail(
        "N0613", f"only one side of this `|` binds `{name}`", other, f"`{name}` is not bound here",
        others=(Label(span, "bound here"),),
        helps=("bind the same names on both sides, or write two cases",),
    )


def unlikely_name(name: str, enum: str, span: Span, known: list[str]) -> Reported:
    """N0614"""
    close = get_close_matches(name, known, 1, 0.5)
    return fail(
        "N0614", f"`{name}` is no variant of `{enum}`, and would fit everything", span,
        "a capital letter stands for a variant",
        notes=(f"`{enum}` has {both(known)}",),
        helps=(f"did you mean `{close[0]}`?",) if close else ("for everything else: `case _:`",),
    )


def match_of_table(text: str, found: str, span: Span) -> Reported:
    """N0615"""
    return fail(
        "N0615", f"`match` looks at one value, but `{text}` is `{found}`", span, "a table",
        helps=(f"a `match` in a function of one element, applied to `{text}`, looks at each",),
    )


def partial_binding(shown: str, found: str, missing: list[str], span: Span) -> Reported:
    """N0616"""
    return fail(
        "N0616", f"`{shown}` on the left side of `=` does not fit every `{found}`", span,
        f"it may be {either(missing)}", helps=("choose with `match`",),
    )


def open_parameter(name: str, param: str, span: Span) -> Reported:
    """N0617"""
    return fail(
        "N0617", f"nothing says what the `{param}` of `{name}` is", span, "of which type?",
        helps=("say the type of what it is used for: `x: Maybe(Float) = None`",),
    )


def method_without_self(struct: str, name: str, span: Span) -> Reported:
    """N0618"""
    return fail(
        "N0618", f"the method `{name}` of `{struct}` has no parameter for the `{struct}`", span,
        "a method's first parameter is the value it is called on",
        helps=(f"`def {name}(self)`",),
    )


def replaced(text: str, found: str, span: Span) -> Reported:
    """N0619"""
    return fail(
        "N0619", f"`replace` makes a struct from a struct, but `{text}` is `{found}`", span,
        "not a struct", helps=("`replace(p, x=1.0)` for a `p` with a field `x`",),
    )
