"""What can be wrong with sizes that are known only at run time. Each function is one code."""

from __future__ import annotations

from naperian.frontend.report import Reported, fail
from naperian.source import Span


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


def filter_depends(span: Span) -> Reported:
    """N0664"""
    return fail(
        "N0664", "the ranges of a filter's binders must not depend on each other", span,
        "kept elements of several binders stand on one axis",
        helps=("nest the comprehensions: `[[e for j in … if p] for i]`",),
    )


