"""What can be wrong with sizes that are known only at run time. Each function is one code."""

from __future__ import annotations

from naperian.frontend.messages.report import Reported, both, fail
from naperian.source import Label, Span


def size_escapes(size: str, span: Span) -> Reported:
    """N0660"""
    return fail(
        "N0660", f"the size `{size}` leaves the place it is known in", span,
        "opened here, with a size of its own each time",
        helps=("bind the value to a name further out, so that its size is known there too",),
    )


def unused_size(name: str, body: str, span: Span) -> Reported:
    """N0665"""
    return fail(
        "N0665", f"`{name}` is no size in `{body}`", span, "nothing says what it is",
        helps=(f"write only the names that are sizes: `exists k. Fin(k)=>…`, or `{body}`",),
    )


def one_for_all_boxes(
    what: str, variable: str, size: str, kind: str, span: Span, others: tuple[Label, ...]
) -> Reported:
    """N0666"""
    return fail(
        "N0666", f"{what} has one `{variable}`, but each `{kind}` has a `{size}` of its own", span,
        f"`{variable}` would have to be each of these", others=others,
        helps=(f"a type with the sizes in the same places fits: `{kind}`",),
    )


def fixed_size(what: str, wanted: str, found: str, size: str, span: Span) -> Reported:
    """N0661"""
    return fail(
        "N0661", f"{what} should be `{wanted}`, but the size `{size}` is known only at run time",
        span, f"this is `{found}`",
        helps=(
            f"let the type hide the size, `exists k. Fin(k)=>…`, or say that it is equal: "
            f"`assert {size} == …`, with a name for it",
        ),
    )


def two_sizes(one: str, other: str, first: Span, second: Span, span: Span) -> Reported:
    """N0662"""
    return fail(
        "N0662", f"two sizes that are found at run time, `{one}` and `{other}`, may differ", span,
        "here they would have to be equal",
        others=(Label(first, f"`{one}` is found here"), Label(second, f"`{other}` is found here")),
        helps=("name both tables, and `assert size(a) == size(b)` before",),
    )


def unknown_size(
    loose: Span, fixed: Span, size: str, other: str, made: Span, span: Span
) -> Reported:
    """N0696"""
    a, b = loose.text, fixed.text
    return fail(
        "N0696",
        f"`{a}` and `{b}` need the same size, but the size of `{a}` is known only when the "
        "program runs",
        span, "both operands need one size",
        others=(
            Label(made, f"`{size}` is found here"),
            Label(loose, f"some size `{size}`"),
            Label(fixed, f"size `{other}`"),
        ),
        helps=("keep the places and take both there: `at = [i for i if …]`, then "
               f"`{b}[at[j]]` stands beside the j-th element",),
    )


def changing_size(size: str, span: Span) -> Reported:
    """N0663"""
    return fail(
        "N0663", "what a loop carries keeps its size, but this has one that is found in each round",
        span, f"its size is `{size}`",
        helps=("carry a table of the full size and a number of elements, or a mask",),
    )


def hidden_size(what: str, kind: str, span: Span, fields: list[str]) -> Reported:
    """N0663; `fields` are those of a struct that hide a size."""
    helps: tuple[str, ...] = ()
    if fields and span.text.isidentifier():
        opened = ", ".join(f"`{name} = {span.text}.{name}`" for name in fields)
        helps = (f"open it before, {opened}, and carry {both(fields)}: that keeps its size",)
    return fail(
        "N0663", f"{what} keeps its size, but this hides one that may be another each time", span,
        f"this is `{kind}`",
        helps=(*helps, "carry a table of the full size and a number of elements, or a mask"),
    )


def computed_constant(name: str, span: Span) -> Reported:
    """N0693"""
    return fail(
        "N0693", f"`{name}` is computed, so no type can say how much it is", span, "not a size",
        helps=(
            "a size is a constant that is written with numbers: `N = 3`, `M = 2 * N`; in a body, "
            f"`k = {name}` names its value, and `Fin(k)` is a set",
        ),
    )
