"""Naperian: a typed, differentiable array language for NumPy users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from naperian.late import read

if TYPE_CHECKING:
    from naperian.api import (
        AssertionError,
        CompileError,
        Either,
        Error,
        Function,
        IndexError,
        Maybe,
        MemoryError,
        Module,
        Ragged,
        RunError,
        ShapeError,
        Thrown,
        at_border,
        compile,
        grad,
        hessian,
        hvp,
        install_hook,
        jacobian,
        jvp,
        library_names,
        linearize,
        load,
        threads,
        transpose_linear,
        value_and_grad,
        vjp,
    )
    from naperian.pipeline import STAGES

__version__ = "0.1.0"

__all__ = [
    "STAGES",
    "AssertionError",
    "CompileError",
    "Either",
    "Error",
    "Function",
    "IndexError",
    "Maybe",
    "MemoryError",
    "Module",
    "Ragged",
    "RunError",
    "ShapeError",
    "Thrown",
    "at_border",
    "check",
    "compile",
    "grad",
    "hessian",
    "hvp",
    "install_hook",
    "jacobian",
    "jvp",
    "library_names",
    "linearize",
    "load",
    "threads",
    "transpose_linear",
    "value_and_grad",
    "vjp",
]


_ELSEWHERE = {"STAGES": "naperian.pipeline", "check": "naperian.trial"}


def __getattr__(name: str) -> Any:
    """The names above come from `api` but for those of `_ELSEWHERE`; a module is read when the
    first of its names is asked for: `nap --version` needs none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(read(_ELSEWHERE.get(name, "naperian.api")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
