"""What has to be linear, since its transpose is asked for, and is not: N0705."""

from __future__ import annotations

from collections.abc import Iterable

from naperian.core import syntax as core
from naperian.core.linear import NotLinearError, check_linear
from naperian.names import Var
from naperian.source import NOWHERE, CompileError, Diagnostic, Label, Span

NOT_LINEAR = "N0705"


def refuse_others(
    body: core.Expr, variables: Iterable[Var], message: str, where: str, fix: str,
    origin: Span = NOWHERE,
) -> None:  # fmt: skip
    """Raises CompileError unless `body` is linear in the variables. `where` is said of the place
    that is not, or else of `origin`."""
    try:
        check_linear(body, variables)
    except NotLinearError as wrong:
        place = wrong.place or origin
        labels = () if place is NOWHERE else (Label(place, where),)
        raise CompileError((Diagnostic(NOT_LINEAR, message, labels, helps=(fix,)),)) from None
