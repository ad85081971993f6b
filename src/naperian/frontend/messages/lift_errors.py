"""What the front end has to tell about lifting (N05). Each function is one code."""

from __future__ import annotations

from naperian.frontend.messages.report import Reported, fail, plural
from naperian.source import Label, Span


def frames(
    name: str, items: tuple[tuple[Span, str, str], ...], span: Span, why: str,
    helps: tuple[str, ...] = (),
) -> Reported:
    """N0501"""
    return fail(
        "N0501", f"the arguments of {name} do not line up: {why}", span,
        "applied to each element, so the frames must line up",
        others=tuple(Label(s, f"`{t}`, frame {f}") for s, t, f in items), helps=helps,
    )


def ambiguous(
    name: str, span: Span, axis: str, argument: tuple[Span, str], candidates: tuple[str, ...]
) -> Reported:
    """N0502"""
    return fail(
        "N0502",
        f"{name} can line up `{axis}` in {len(candidates)} ways, because two axes have the same "
        "index set",
        span, "which axis?", others=(Label(argument[0], f"`{argument[1]}`"),),
        helps=tuple(f"write `{c}`" for c in candidates),
    )


def bad_rank(name: str, rank: str, found: str, span: Span) -> Reported:
    """N0503"""
    return fail(
        "N0503", f"rank {rank} does not fit an argument of type `{found}`", span,
        f"`{found}` has not that many axes",
    )


def rank_count(name: str, wanted: int, found: int, span: Span) -> Reported:
    """N0504"""
    return fail(
        "N0504", f"`{name}~` fixes {plural(found, 'rank')}, but it is called with "
        f"{plural(wanted, 'argument')}", span, "one rank for each argument, or one for all",
    )


def contraction(left: str, right: str, span: Span, a: Span, b: Span, helps: tuple[str, ...],
                why: str) -> Reported:
    """N0505"""
    return fail(
        "N0505", f"`@` joins the last axis on the left with the first on the right: {why}", span,
        "these two axes must be the same", others=(Label(a, f"`{left}`"), Label(b, f"`{right}`")),
        helps=helps,
    )


def prefix(name: str, items: tuple[tuple[Span, str, str], ...], span: Span) -> Reported:
    """N0506"""
    return fail(
        "N0506", f"with ranks fixed, the frames of {name} must start alike", span,
        "the shorter frame must be a prefix of the longer",
        others=tuple(Label(s, f"`{t}`, frame {f}") for s, t, f in items),
    )
