"""What the front end has to tell about dependent tables, sums, ranges and strides (N0640 to
N0659)."""

from __future__ import annotations

from collections.abc import Sequence

from naperian.frontend.messages.report import Reported, fail
from naperian.source import Label, Span


def no_number_index(index: str, own: str, span: Span) -> Reported:
    """N0640"""
    return fail(
        "N0640", f"the elements of `{own}` are no numbers, so no size can be `{index}`", span,
        "the rows' sizes would depend on it",
        helps=("rows may depend on an index of a `Fin`, a set variable, a range or an `enum`",),
    )


def open_range(text: str, span: Span) -> Reported:
    """N0646"""
    return fail(
        "N0646", f"nothing says where `{text}` ends", span,
        "a range without an end goes on to the end of what its start ranges over",
        helps=(f"write the end: `{text}n`",),
    )


def no_closed_form(found: str, span: Span) -> Reported:
    """N0695"""
    return fail(
        "N0695", f"the place of an element of `{found}` has no closed form", span,
        "`as` would have to search for it",
        helps=("write the table: `[[x[…] for j] for i]` says which element stands where",),
    )


def unlike_ends(start: str, end: str, span: Span) -> Reported:
    """N0694"""
    return fail(
        "N0694", f"a range goes from an element of a set to another one of it, and this is `{end}`",
        span, f"the range starts with a `{start}`",
        helps=("write an end of the same index set, or none: `i..` goes on to the last element",),
    )


def negative_rows(length: str, index: str, own: str, span: Span) -> Reported:
    """N0645"""
    return fail(
        "N0645", f"a row would have {length} elements, which may be less than none", span,
        f"`{index}` ranges over `{own}`",
        helps=(f"range `{index}` over less, so that every row has a length",),
    )


def ragged_axis(own: str, span: Span) -> Reported:
    """N0641"""
    return fail(
        "N0641", f"`{own}` depends on a binder before it, so these binders are no one axis", span,
        "one axis of tuples has as many of the second for each of the first",
        helps=("reduce one after the other: the inner reduction inside the outer one",),
    )


def ragged_slice(table: str, found: str, span: Span) -> Reported:
    """N0642"""
    return fail(
        "N0642", f"`{table}` has rows of unequal length, which a slice cannot cut as one", span,
        f"`{table}` is `{found}`",
        helps=(f"slice row by row: `[{table}[i][1..] for i]`",),
    )


def binder_order(first: str, later: str, span: Span) -> Reported:
    """N0647"""
    return fail(
        "N0647", f"the range of `{first}` depends on `{later}`, which is bound after it", span,
        f"its length is known once `{later}` is",
        helps=(
            f"bind `{later}` before `{first}`; for the transposed table give both ranges, as in "
            "`[t[j, i] for i in n, j in i..]`",
        ),
    )


def equal_rows(what: str, found: str, span: Span) -> Reported:
    """N0648"""
    return fail(
        "N0648", f"{what} must have rows of one length", span, f"this is `{found}`",
        helps=("go row by row: `[f(t[i]) for i]`",),
    )


def no_side(side: str, own: str, span: Span) -> Reported:
    """N0649"""
    return fail(
        "N0649", f"the elements of `{own}` are no numbers, so `{side}` cannot take them", span,
        "an index of a sum is a number",
        helps=("flatten the set first: `x as Fin(…)=>…`",),
    )


def which_sum(side: str, span: Span) -> Reported:
    """N0650"""
    return fail(
        "N0650", f"nothing says which sum of sets `{side}(…)` is an index of", span,
        "it is used neither as an index nor where one is expected",
        helps=(f"use it as an index, `z[{side}(i)]`, or give it a type",),
    )


def no_range(text: str, own: str, span: Span) -> Reported:
    """N0651"""
    return fail(
        "N0651", f"the elements of `{own}` are no numbers, so `{text}` is no set", span,
        "a range and a stride take some of the elements in order",
        helps=("flatten the set first: `x as Fin(…)=>…`",),
    )


def bad_step(step: str, how: str | None, span: Span) -> Reported:
    """N0652. `how`: what says that it is at least 1, if anything can"""
    back = "`reverse(n)` goes backwards"
    return fail(
        "N0652", f"the step {step} {'may be' if how else 'is'} less than 1", span,
        "every so many elements are taken",
        helps=(f"say that it is at least 1: {how}; {back}" if how else back,),
    )


def row_count(wanted: str, found: int, expected: str, span: Span) -> Reported:
    """N0643"""
    return fail(
        "N0643", f"`{expected}` has {wanted} rows, and here are {found}", span,
        "one row for each index",
    )


def unequal_rows(first: str, other: str, one: Span, two: Span) -> Reported:
    """N0644"""
    return fail(
        "N0644", "the rows have unequal lengths, and no type says that they should", two,
        f"this is `{other}`", others=(Label(one, f"this is `{first}`"),),
        helps=("say so with a type: `t: (i: Fin(3))=>(..=i)=>Float = [[1.0], [2.0, 3.0], …]`",),
    )


def no_instance_of_ix(types: str, span: Span, why: str) -> Reported:
    """N0638"""
    return fail(
        "N0638", f"`{types}` cannot be made an index set", span, why,
        helps=(
            "a struct or an enum of the same text can, if its fields are elements of index sets",
            "a struct or an enum of the same text can, with `size`, `ordinal` and `at`",
        ),
    )


def instance_of_some(name: str, params: Sequence[str], span: Span) -> Reported:
    """N0760"""
    head = f"{name}({', '.join(params)})" if params else name
    return fail(
        "N0760", f"an instance of `Ix` is for every `{head}`", span,
        "its numbering goes by names for the parameters",
        helps=(f"write `instance Ix({head})`",),
    )


def no_set_in_field(name: str, field: str, span: Span, said: Span) -> Reported:
    """N0658"""
    return fail(
        "N0658", f"`{name}` is no index set: its field `{field}` is an element of none", span,
        f"`{span.text}` has no finite number of values to store a table by",
        others=(Label(said, f"`{name}` was said to be an index set here"),),
    )


def no_constant_size(span: Span) -> Reported:
    """N0639"""
    return fail(
        "N0639", "the size of an index set must be known where it is declared", span,
        "numbers and the type's parameters say how many values there are, at least none",
        helps=("write `def size() = 12`, one expression of numbers",),
    )


def bare_method(name: str, shape: str, span: Span) -> Reported:
    """N0659"""
    return fail(
        "N0659", f"`{name}` of an index set is written `{shape}`", span,
        "its types are known, and a call gives nothing else",
    )
