"""The general types of what the language has without being written in it, for people to read.

Each takes more than one signature can say (a generator, several arguments, a set or a number), so
these are the plainest uses. Whatever is written in the library has its definition's type.
"""

from __future__ import annotations

from collections.abc import Mapping

from naperian.core.written import written_type
from naperian.frontend.annotations import SCALARS
from naperian.frontend.walk import Globals
from naperian.prims import FLOAT_FUNCTIONS, PRIMITIVES

BUILT_IN: Mapping[str, str] = {
    "sum": "n=>a -> a where a: Num",
    "prod": "n=>a -> a where a: Num",
    "mean": "n=>a -> a where a: Fractional",
    "min": "n=>a -> a where a: Bounded",
    "max": "n=>a -> a where a: Bounded",
    "all": "n=>Bool -> Bool",
    "any": "n=>Bool -> Bool",
    "argmin": "n=>a -> n where a: Real",
    "argmax": "n=>a -> n where a: Real",
    "fold": "((b, a) -> b, b, n=>a) -> b",
    "reduce": "((a, a) -> a, a, n=>a) -> a",
    "scan": "((b, a) -> b, b, n=>a) -> n=>b",
    "scan_exclusive": "((b, a) -> b, b, n=>a) -> n=>b",
    "grad": "(a -> Float) -> a -> a",
    "value_and_grad": "(a -> Float) -> a -> (Float, a)",
    "jacobian": "(a -> n=>Float) -> a -> n=>a",
    "hessian": "(n=>Float -> Float) -> n=>Float -> n=>n=>Float",
    "jvp": "(a -> b, a, a) -> (b, b)",
    "vjp": "(a -> b, a) -> (b, b -> a)",
    "linearize": "(a -> b, a) -> (b, a -> b)",
    "transpose_linear": "(a -> b) -> b -> a",
    "hvp": "(a -> Float, a, a) -> a",
    "stop_gradient": "a -> a",
    "print": "a -> {IO} ()",
    "left": "n -> n | m",
    "right": "m -> n | m",
    "size": "n=>a -> Int",
    "clamp": "(Int, n) -> n",
    "wrap": "(Int, n) -> n",
    "zeros": "n -> n=>Float",
    "ones": "n -> n=>Float",
    "full": "(n, a) -> n=>a",
    "eye": "n -> n=>n=>Float",
    "bitcast": "(type, a) -> type",
    "replace": "(a, field=b) -> a",
}


def general_type(name: str, library: Globals) -> str | None:
    """The type of a function that comes with the language; None if there is none of this name."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name in library.definitions:
        return written_type(library.definitions[name])
    for info in library.data.values():
        if name in info.makers:
            return written_type(info.makers[name])
    if name in FLOAT_FUNCTIONS:
        arguments = ["Float"] * PRIMITIVES[name].arity
        inside = arguments[0] if len(arguments) == 1 else f"({', '.join(arguments)})"
        return f"{inside} -> Float"
    if name in ("abs", "sign"):
        return "a -> a where a: Num"
    if name in SCALARS or name == "Float":
        return f"a -> {name} where a: Num"
    return None
