"""What the front end has to tell about derivatives: codes N0701 to N0720."""

from __future__ import annotations

from naperian.frontend.messages.report import Reported, fail
from naperian.source import Span


def no_tangent(what: str, kind: str, reason: str, span: Span) -> Reported:
    """N0701"""
    return fail(
        "N0701",
        f"{what} has no derivative: `{kind}` has no tangents",
        span,
        reason,
        notes=("only floats vary continuously; an integer, a Boolean or an index does not",),
    )


def hidden_size(what: str, kind: str, span: Span) -> Reported:
    """N0701"""
    return fail(
        "N0701",
        f"{what} has no derivative: `{kind}` hides a size",
        span,
        "its size is known at run time only",
        helps=(
            "the rows in one array, and where they end, do: "
            "`x: Fin(e)=>Float, ends: Fin(n + 1)=>Fin(e + 1)`",
            "so do rows of rows: `n=>exists k. Fin(k)=>exists l. Fin(l)=>Float`",
        ),
    )


def not_scalar(name: str, kind: str, span: Span) -> Reported:
    """N0702"""
    more = f"of a function of one number, for each: `[{name}(f)(v) for v in x]`"
    if "sum(" in span.text:
        more = "`sum` of rows leaves their sums: `sum(x[i, j] for i, j)` adds up all"
    return fail(
        "N0702",
        f"`{name}` needs a function with a scalar result, and this one gives `{kind}`",
        span,
        f"the result is `{kind}`",
        helps=("`jacobian(f)` is the gradient of every element", more),
    )


def not_a_function(name: str, kind: str, span: Span) -> Reported:
    """N0703"""
    return fail(
        "N0703",
        f"`{name}` takes a function, and this is `{kind}`",
        span,
        "not a function",
        helps=(f"write `{name}(lambda x: …)`, or `{name}` of a function's name",),
    )


def no_parameters(name: str, span: Span) -> Reported:
    """N0703"""
    return fail(
        "N0703",
        f"`{name}` takes a function of something, and this one has no parameters",
        span,
        "nothing to vary",
        helps=("make what varies a parameter: `def f(x: Float) = …`",),
    )


def unknown_parameter(name: str, given: str, known: list[str], span: Span) -> Reported:
    """N0704"""
    names = ", ".join(f"`{n}`" for n in known)
    return fail(
        "N0704",
        f"`wrt` names `{given}`, which is no parameter",
        span,
        f"the parameters are {names}" if known else "its parameters have no names here",
    )


def twice(name: str, span: Span) -> Reported:
    """N0704"""
    return fail("N0704", f"`wrt` names `{name}` twice", span, "named before")


def no_rule(decorator: str, span: Span) -> Reported:
    """N0721"""
    return fail(
        "N0721",
        f"`@{decorator}` takes the name of a function, and this is none",
        span,
        "not the name of a function",
        helps=("define the rule with `def`, and name it here",),
    )


def wrong_rule(
    decorator: str, name: str, rule: str, wanted: str, found: str, span: Span
) -> Reported:
    """N0722"""
    last = "a tangent for each" if decorator == "custom_jvp" else "the cotangent of its value"
    return fail(
        "N0722",
        f"`{rule}` is no rule for `{name}`: its type should be `{wanted}`",
        span,
        f"this is `{found}`",
        notes=(f"a `{decorator}` rule takes the parameters of the function, then {last}",),
    )


def cannot_have_rule(name: str, why: str, span: Span) -> Reported:
    """N0723"""
    return fail(
        "N0723",
        f"`{name}` cannot have a rule: {why}",
        span,
        "what a function or a reference depends on, a rule would not see",
    )


def circular_rule(name: str, span: Span) -> Reported:
    """N0725"""
    return fail(
        "N0725",
        f"the rule of `{name}` differentiates `{name}`, whose derivative it is to give",
        span,
        "this would ask itself",
        helps=(f"move the body of `{name}` to a definition without a rule, and differentiate it",),
    )


def checkpoint_depth(span: Span, deepest: int) -> Reported:
    """N0726"""
    return fail(
        "N0726",
        f"`checkpoint` needs a number from 1 to {deepest}",
        span,
        "this is none",
        notes=(
            "with `checkpoint(k)` a derivative keeps about k·n^(1/k) of a loop's n rounds, and "
            "runs the loop at most k + 1 times",
        ),
        helps=("`checkpoint(2)` is enough for most loops",),
    )
