"""What the front end says of what the language leaves out on purpose, and why: N0750 to N0769."""

from __future__ import annotations

from naperian.frontend.report import Reported, fail
from naperian.source import Span


def rank_unknown(text: str, span: Span) -> Reported:
    """N0750"""
    return fail(
        "N0750", f"`{text}` is a function of values whose axes are known, and here they are not",
        span, "which axes are frame?",
        helps=("write a `def` with the types of its parameters",),
    )


def not_its_default(what: str, why: str, span: Span) -> Reported:
    """N0752"""
    return fail("N0752", f"{what} has no defaults: {why}", span, "a default")


def size_fact(text: str, span: Span) -> Reported:
    """N0753"""
    return fail(
        "N0753", f"`{text}` is no fact about sizes", span,
        "not a comparison with `<`, `<=`, `==`, `>=` or `>`",
        helps=("what holds of values is asserted in the body: `assert …`",),
    )


def default_computed(name: str, span: Span) -> Reported:
    """N0754"""
    return fail(
        "N0754", f"the default of `{name}` is computed, and a default is a number or a name", span,
        "no constant", helps=("give it a name at the top of the module, and write the name here",),
    )


def joined_rows(span: Span) -> Reported:
    """N0755"""
    return fail(
        "N0755", "rows of unequal length are written one by one, as the type says how long each is",
        span, "how many rows are these?",
        helps=("`[[t[i, j] if i < k else u[i, j] for j] for i]` chooses between two tables",),
    )


def local_fact(span: Span) -> Reported:
    """N0756"""
    return fail(
        "N0756", "a function inside a block is for the sizes around it, so it has no `where`", span,
        "a fact of the definition around",
        helps=("state it there, `assert` it, or make this a definition of the module",),
    )
