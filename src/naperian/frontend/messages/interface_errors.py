"""What the front end has to tell about interfaces and instances (N0620 to N0639)."""

from __future__ import annotations

import re

from naperian.frontend.messages.errors import row_by_row
from naperian.frontend.messages.report import Reported, both, either, fail
from naperian.frontend.unknowns import Because
from naperian.source import Label, Span

_IN_ORDER = ("Eq", "Ord")


def no_instance(
    interface: str, types: str, wanted: str, because: Because, path: list[str], known: list[str]
) -> Reported:
    """N0620"""
    notes = [f"`{outer}` asks for it" for outer in reversed(path)]
    helps = (_to_declare(interface, types),)
    if interface in _IN_ORDER and types == "Bool":  # which has its own operations
        helps = ("`Int(c)` is 1 where `c` holds, and 0 elsewhere",)
    elif known:
        notes.append(f"the instances are {both(known)}")
    else:
        notes.append(f"`{interface}` has no instance at all")
    if types.startswith("exists "):
        called = re.match(r"(\w+)\(", because.span.text)
        return fail(
            "N0620", f"`{types}` is no instance of `{interface}`", because.span, because.text,
            helps=(row_by_row(called[1] if called else "f"),),
        )
    return fail(
        "N0620", f"`{types}` is no instance of `{interface}`", because.span, because.text,
        notes=tuple(notes), helps=helps,
    )


def _to_declare(interface: str, types: str) -> str:
    if interface in _IN_ORDER and types[:1].isupper():  # which its fields give
        return f"declare it: `instance {interface}({types})`"
    return f"declare it: `instance {interface}({types}):`, and the methods below"


def overlap(new: str, old: str, span: Span, other: Span) -> Reported:
    """N0621"""
    same = new == old
    return fail(
        "N0621",
        f"`{new}` has an instance already" if same else f"`{new}` overlaps with `{old}`", span,
        "a second one" if same else "both would fit some types",
        others=(Label(other, "the first one"),),
        notes=("which instance is meant must not depend on where one looks",),
    )


def orphan(interface: str, types: str, span: Span) -> Reported:
    """N0622"""
    return fail(
        "N0622", f"neither `{interface}` nor `{types}` is declared in this module", span,
        "another module could say something else",
        notes=("an instance stands beside its interface or beside its type",),
        helps=("declare a type of your own, and the instance for that",),
    )


def missing_methods(instance: str, names: list[str], span: Span, signatures: list[str]) -> Reported:
    """N0623"""
    return fail(
        "N0623", f"`{instance}` lacks {both(names)}", span, "not there",
        helps=tuple(f"add `{s}`" for s in signatures),
    )


def no_member(interface: str, name: str, span: Span, members: list[str]) -> Reported:
    """N0624"""
    has = f"it has {both(members)}" if members else "it has none"
    return fail(
        "N0624", f"`{interface}` has no method `{name}`", span, has,
        helps=("a function of your own stands outside the instance",),
    )


def not_given(wanted: str, because: Because, given: list[str]) -> Reported:
    """N0625"""
    whole = ", ".join([*given, wanted])
    return fail(
        "N0625", f"`{wanted}` is needed here, but `where` does not say it", because.span,
        because.text, notes=("`where` says all that a caller must meet",) if given else (),
        helps=(f"write `where {whole}`",),
    )


def ambiguous_instance(wanted: str, because: Because) -> Reported:
    """N0626"""
    return fail(
        "N0626", f"which instance is meant, `{wanted}`, cannot be known", because.span,
        because.text, helps=("say the type: `x: T = …`, or convert with `T(…)`",),
    )


def method_shape(name: str, wanted: str, span: Span, why: str, declared: Span) -> Reported:
    """N0627"""
    return fail(
        "N0627", f"`{name}` is not as its interface declares it: {why}", span, why,
        others=_declared(declared),
        notes=(f"the interface has `{wanted}`",),
    )


def _declared(span: Span) -> tuple[Label, ...]:
    return () if span.source.name == "<builtin>" else (Label(span, "declared here"),)


def no_super(instance: str, wanted: str, head: str, span: Span) -> Reported:
    """N0628"""
    return fail(
        "N0628", f"`{instance}` needs `{wanted}`, which does not hold", span, "builds on it",
        helps=(f"declare that too: `instance {head}:`",),
    )


def wrong_count(interface: str, wanted: list[str], found: int, span: Span) -> Reported:
    """N0629"""
    count = "one type" if len(wanted) == 1 else f"{len(wanted)} types"
    return fail(
        "N0629", f"`{interface}` is about {count}, not {found}", span,
        f"`{interface}({', '.join(wanted)})`",
    )


def bad_head(interface: str, text: str, span: Span, why: str, helps: tuple[str, ...]) -> Reported:
    """N0630"""
    return fail("N0630", f"`{text}` cannot be an instance of `{interface}`", span, why,
                 helps=helps)


def no_deriving(interface: str, types: str, span: Span, why: str) -> Reported:
    """N0631"""
    return fail(
        "N0631", f"`{interface}({types})` cannot be derived: {why}", span,
        "an instance without a body is that of the type's parts", helps=("write the methods",),
    )


def associated_type(instance: str, name: str, span: Span, missing: bool, known: list[str]
                    ) -> Reported:
    """N0632"""
    if missing:
        return fail("N0632", f"`{instance}` does not say what `{name}` is", span, "not there",
                     helps=(f"add `type {name} = …`",))
    has = f"it has {either(known)}" if known else "it has none"
    return fail("N0632", f"the interface has no associated type `{name}`", span, has)


def undetermined_method(interface: str, name: str, params: list[str], span: Span) -> Reported:
    """N0633"""
    return fail(
        "N0633", f"`{name}` never mentions {both(params)}, so no call could "
        f"tell its instance of `{interface}`", span,
        "an instance is chosen by the types of arguments and result",
    )


def built_in(name: str, span: Span) -> Reported:
    """N0635"""
    return fail(
        "N0635", f"`{name}` is a built-in interface", span, "give it another name",
        helps=(f"to say what `{name}` is for a type of yours: `instance {name}(T):`",),
    )


def untyped_method(name: str, span: Span) -> Reported:
    """N0636"""
    return fail(
        "N0636", f"the signature of `{name}` is not complete", span,
        "every parameter and the result need a type",
        notes=("instances take their types from here",),
    )


def endless(name: str, span: Span, path: list[str]) -> Reported:
    """N0637"""
    return fail(
        "N0637", f"the method `{name}` comes back to itself", span, "would never end",
        notes=(" → ".join(f"`{p}`" for p in path),), helps=("use `loop`, `scan` or `fold`",),
    )


def no_interface(name: str, span: Span, known: list[str]) -> Reported:
    """N0634"""
    notes = (f"there are {both(known)}",)
    if name == "Show":
        notes = ("every value of data has a text, part by part, without an instance",)
    return fail(
        "N0634", f"there is no interface `{name}`", span, "not defined", notes=notes,
    )


def no_space(found: str, because: Because) -> Reported:
    """N0697"""
    return fail(
        "N0697", f"`{found}` is no vector space: it is not made of floats alone", because.span,
        because.text,
        helps=("split it: keep what is varied in a struct of its own",),
    )


def own_space(span: Span) -> Reported:
    """N0698"""
    return fail(
        "N0698", "what is a vector space is not declared: whatever is made of floats is one", span,
        "leave this out", helps=("for other operations use `Num` or an interface of your own",),
    )
