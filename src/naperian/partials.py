"""The derivative of every scalar primitive, once for all directions.

The derivative of `y = f(x, …)` in one argument is multiplication by a number, which is its own
transpose: one rule takes the tangent of the argument to that of the result, and the cotangent of
the result to that of the argument. A rule is written with the primitives themselves,

    k("mul", v, k("cos", x))            v · cos x

so that it can be evaluated (by the interpreter of core), made into bindings (on AiNF), and
differentiated again. `RULES[f][i](k, v, y, args)` is the derivative in argument `i`; `FLAT` are the
primitives that are constant wherever they are continuous, or are to be taken for it. Ties of `max`
and `min` go to the first argument; `0.0 ** 0.0` has derivative 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias


class Make(Protocol):
    """Applies a primitive; a Python number among the operands is a constant of their dtype."""

    def __call__(self, name: str, *args: Any) -> Any: ...


Rule: TypeAlias = Callable[[Make, Any, Any, tuple[Any, ...]], Any]

FLAT = frozenset({"floor", "ceil", "round", "trunc", "sign", "floordiv", "stop_gradient"})
STRAIGHT = frozenset({"add", "sub", "neg", "abs", "max", "min", "copysign"})  # slopes 1, 0, -1
POLES = frozenset({  # of these derivatives may be infinite or NaN near finite numbers
    "div", "mod", "pow", "sqrt", "cbrt", "log", "log2", "log10", "log1p", "asin", "acos", "atan2",
    "acosh", "atanh", "gamma", "lgamma", "hypot",
})  # fmt: skip


def _one(number: Callable[[Make, Any, Any], Any]) -> tuple[Rule, ...]:
    """v · number(k, y, x), of one argument."""
    return (lambda k, v, y, args: k("mul", v, number(k, y, args[0])),)


def _over(number: Callable[[Make, Any, Any], Any]) -> tuple[Rule, ...]:
    """v / number(k, y, x), of one argument."""
    return (lambda k, v, y, args: k("div", v, number(k, y, args[0])),)


def _square(k: Make, x: Any) -> Any:
    return k("mul", x, x)


def _first_of(better: str) -> tuple[Rule, ...]:
    """Of `max` and `min`: the better argument, the first of equal ones."""
    return (
        lambda k, v, y, args: k("select", k(better, *args), v, 0.0),
        lambda k, v, y, args: k("select", k(better, *args), 0.0, v),
    )


def _power_base(k: Make, v: Any, y: Any, args: tuple[Any, ...]) -> Any:
    """v · n · xⁿ⁻¹, and 0 for n = 0 (where x may be 0)"""
    x, n = args
    slope = k("mul", n, k("pow", x, k("sub", n, 1.0)))
    return k("mul", v, k("select", k("eq", n, 0.0), 0.0, slope))


def _power_exponent(k: Make, v: Any, y: Any, args: tuple[Any, ...]) -> Any:
    """v · xⁿ · log x, and 0 for x = 0"""
    x, _ = args
    zero = k("eq", x, 0.0)
    return k("select", zero, 0.0, k("mul", v, k("mul", y, k("log", k("select", zero, 1.0, x)))))


_SERIES = (  # of digamma at infinity: B₂ₖ / 2k, in powers of 1/x²
    1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160,
)  # fmt: skip


def digamma(k: Make, x: Any) -> Any:
    """(log Γ)', from primitives: reflected to x >= ½, moved up by ψ(x) = ψ(x + 1) - 1/x, then the
    asymptotic series (Abramowitz & Stegun 6.3.18); exact to about 1e-14."""
    low = k("lt", x, 0.5)
    z = k("select", low, k("sub", 1.0, x), x)
    shift: Any = 0.0
    for n in range(10):
        shift = k("add", k("div", 1.0, k("add", z, float(n))), shift)
    z = k("add", z, 10.0)
    inverse = k("div", 1.0, k("mul", z, z))
    tail: Any = _SERIES[-1]
    for c in reversed(_SERIES[:-1]):
        tail = k("add", k("mul", tail, inverse), c)
    above = k("sub", k("sub", k("log", z), k("div", 0.5, z)), k("mul", tail, inverse))
    above = k("sub", above, shift)
    angle = k("select", low, k("mul", x, math.pi), 1.0)
    return k("select", low, k("sub", above, k("div", math.pi, k("tan", angle))), above)


RULES: dict[str, tuple[Rule, ...]] = {
    "add": (lambda k, v, y, args: v, lambda k, v, y, args: v),
    "sub": (lambda k, v, y, args: v, lambda k, v, y, args: k("neg", v)),
    "mul": (
        lambda k, v, y, args: k("mul", v, args[1]),
        lambda k, v, y, args: k("mul", v, args[0]),
    ),
    "div": (
        lambda k, v, y, args: k("div", v, args[1]),
        lambda k, v, y, args: k("neg", k("mul", k("div", v, args[1]), y)),
    ),
    "mod": (
        lambda k, v, y, args: v,
        lambda k, v, y, args: k("neg", k("mul", v, k("floordiv", *args))),
    ),
    "pow": (_power_base, _power_exponent),
    "max": _first_of("ge"),
    "min": _first_of("le"),
    "neg": (lambda k, v, y, args: k("neg", v),),
    "abs": _one(lambda k, y, x: k("sign", x)),
    "sqrt": (lambda k, v, y, args: k("div", k("mul", v, 0.5), y),),
    "cbrt": _over(lambda k, y, x: k("mul", 3.0, _square(k, y))),
    "exp": _one(lambda k, y, x: y),
    "exp2": _one(lambda k, y, x: k("mul", y, math.log(2))),
    "expm1": _one(lambda k, y, x: k("add", y, 1.0)),
    "log": _over(lambda k, y, x: x),
    "log2": _over(lambda k, y, x: k("mul", x, math.log(2))),
    "log10": _over(lambda k, y, x: k("mul", x, math.log(10))),
    "log1p": _over(lambda k, y, x: k("add", x, 1.0)),
    "sin": _one(lambda k, y, x: k("cos", x)),
    "cos": _one(lambda k, y, x: k("neg", k("sin", x))),
    "tan": _one(lambda k, y, x: k("add", 1.0, _square(k, y))),
    "asin": _over(lambda k, y, x: k("sqrt", k("sub", 1.0, _square(k, x)))),
    "acos": _over(lambda k, y, x: k("neg", k("sqrt", k("sub", 1.0, _square(k, x))))),
    "atan": _over(lambda k, y, x: k("add", 1.0, _square(k, x))),
    "atan2": (
        lambda k, v, y, args: k("div", k("mul", v, args[1]), _radius(k, args)),
        lambda k, v, y, args: k("neg", k("div", k("mul", v, args[0]), _radius(k, args))),
    ),
    "sinh": _one(lambda k, y, x: k("cosh", x)),
    "cosh": _one(lambda k, y, x: k("sinh", x)),
    "tanh": _one(lambda k, y, x: k("sub", 1.0, _square(k, y))),
    "sigmoid": _one(lambda k, y, x: k("mul", y, k("sub", 1.0, y))),
    "asinh": _over(lambda k, y, x: k("hypot", x, 1.0)),
    "acosh": _over(
        lambda k, y, x: k("mul", k("sqrt", k("sub", x, 1.0)), k("sqrt", k("add", x, 1.0)))
    ),
    "atanh": _over(lambda k, y, x: k("sub", 1.0, _square(k, x))),
    "erf": _one(lambda k, y, x: _bell(k, x, 2 / math.sqrt(math.pi))),
    "erfc": _one(lambda k, y, x: _bell(k, x, -2 / math.sqrt(math.pi))),
    "gamma": _one(lambda k, y, x: k("mul", y, digamma(k, x))),
    "lgamma": _one(lambda k, y, x: digamma(k, x)),
    "hypot": (
        lambda k, v, y, args: k("div", k("mul", v, args[0]), y),
        lambda k, v, y, args: k("div", k("mul", v, args[1]), y),
    ),
    "copysign": (
        lambda k, v, y, args: k(
            "mul", v, k("mul", k("copysign", 1.0, args[0]), k("copysign", 1.0, args[1]))
        ),
        lambda k, v, y, args: 0.0,
    ),
}


def _radius(k: Make, args: tuple[Any, ...]) -> Any:
    return k("add", _square(k, args[0]), _square(k, args[1]))


def _bell(k: Make, x: Any, height: float) -> Any:
    """height · exp(-x²)"""
    return k("mul", k("exp", k("neg", _square(k, x))), height)
