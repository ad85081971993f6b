"""What the library has for everybody, to be listed: names, types, and a sentence on each.

What is written in the language has its comment; what is not has its sentence here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from naperian.core import syntax as core
from naperian.core.written import written_type
from naperian.frontend.general import general_type
from naperian.frontend.walk import Globals
from naperian.node import node

_SAID: Mapping[str, str] = {
    "sum": "The sum of the elements.",
    "prod": "The product of the elements.",
    "mean": "The sum divided by how many there are.",
    "min": "The least element, or the lesser of two values.",
    "max": "The greatest element, or the greater of two values.",
    "all": "Whether all elements hold.",
    "any": "Whether an element holds.",
    "argmin": "Where the least element is; the first of equals.",
    "argmax": "Where the greatest element is; the first of equals.",
    "fold": "The state after `f(state, element)` for each element in order.",
    "reduce": "The elements combined by an associative operator; the second argument is its unit.",
    "scan": "The states of a fold after each element.",
    "scan_exclusive": "The states of a fold before each element.",
    "grad": "The function that gives the gradient.",
    "value_and_grad": "The function that gives the value and the gradient.",
    "jacobian": "The function that gives a gradient for every element of the value.",
    "hessian": "The function that gives the second derivatives.",
    "jvp": "The value, and its tangent for that of the argument.",
    "vjp": "The value, and the function from its cotangent to that of the argument.",
    "linearize": "The value, and the linear function of tangents.",
    "transpose_linear": "The transpose of a linear function.",
    "hvp": "The Hessian times a vector.",
    "stop_gradient": "The argument, which is a constant to derivatives.",
    "print": "Shows texts and values on a line.",
    "left": "An index of the first of two sets, in their sum.",
    "right": "An index of the second of two sets, in their sum.",
    "size": "How many elements a set, or the first axis of a table, has.",
    "clamp": "The nearest index of the set; with three arguments, the nearest number in between.",
    "wrap": "The index that remains when the set is gone around.",
    "zeros": "A table of zeros over sets.",
    "ones": "A table of ones over sets.",
    "full": "A table of one value over sets.",
    "eye": "The identity matrix over a set.",
    "bitcast": "The same bits as a number of another type.",
    "replace": "A struct with some fields changed.",
    "abs": "The number without its sign.",
    "sign": "-1, 0 or 1, as the number is.",
    "sqrt": "The square root.",
    "cbrt": "The cube root.",
    "exp": "e to this power.",
    "exp2": "2 to this power.",
    "expm1": "exp(x) - 1, exact near 0.",
    "log": "The natural logarithm.",
    "log2": "The logarithm to base 2.",
    "log10": "The logarithm to base 10.",
    "log1p": "log(1 + x), exact near 0.",
    "sin": "The sine.",
    "cos": "The cosine.",
    "tan": "The tangent.",
    "asin": "The inverse sine.",
    "acos": "The inverse cosine.",
    "atan": "The inverse tangent.",
    "atan2": "The angle of the point (second, first).",
    "sinh": "The hyperbolic sine.",
    "cosh": "The hyperbolic cosine.",
    "tanh": "The hyperbolic tangent.",
    "asinh": "The inverse hyperbolic sine.",
    "acosh": "The inverse hyperbolic cosine.",
    "atanh": "The inverse hyperbolic tangent.",
    "sigmoid": "1 / (1 + exp(-x)).",
    "erf": "The error function.",
    "erfc": "1 - erf(x), exact for large x.",
    "gamma": "The gamma function.",
    "lgamma": "The logarithm of the absolute value of the gamma function.",
    "hypot": "The length of the hypotenuse.",
    "copysign": "The first number with the sign of the second.",
    "floor": "The greatest whole number that is not above.",
    "ceil": "The least whole number that is not below.",
    "round": "The nearest whole number, the even one of two.",
    "trunc": "The whole part.",
    "isnan": "Whether it is no number.",
    "isinf": "Whether it is infinite.",
    "isfinite": "Whether it is neither infinite nor no number.",
}

_BOOLEAN = ("isnan", "isinf", "isfinite")

_NAMES: Mapping[str, str] = {
    "std": "transpose reverse rotate take drop concat filter first last dot outer matmul trace "
    "diagonal norm linspace cumsum sort argsort unique softmax logsumexp log_softmax "
    "variance relu normal_cdf normal_pdf",
    "linalg": "solve inv det lu solve_lu cholesky solve_cholesky solve_lower solve_upper qr lstsq "
    "eigh",
    "random": "new_key ix_key split rand uniform normal exponential bernoulli integer index choice",
    "stats": "std median quantile covariance correlation histogram",
    "numeric": "interp searchsorted trapezoid simpson bisect newton rk4",
}

PUBLIC: Mapping[str, tuple[str, ...]] = {m: tuple(t.split()) for m, t in _NAMES.items()}
"""What is for everybody, by module; that of `std` needs no import."""


@node
class Listed:
    """A function with its type and what it gives."""

    name: str
    type: str
    says: str

    @property
    def short(self) -> str:
        return self.name.rpartition(".")[2]

    def __str__(self) -> str:
        return f"{self.name} : {self.type}" + (f"\n    {self.says}" if self.says else "")


def built_in(library: Globals) -> Iterator[Listed]:
    """What the language has without it being written in it."""
    for name, says in _SAID.items():
        t = general_type(name, library) or ""
        if name in _BOOLEAN:
            t = "Float -> Bool"
        yield Listed(name, t, says)


def listed(name: str, d: core.Definition) -> Listed:
    """A definition, with the first sentence of its documentation."""
    text = " ".join((d.doc or "").split())
    return Listed(name, written_type(d), text.partition(". ")[0].rstrip(".") + ".")
