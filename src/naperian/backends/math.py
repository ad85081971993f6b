"""The elementary functions, inline.

Every function is straight-line code, so that a loop around it becomes vector code, and is at most
4 units in the last place off (`tests/test_math.py` holds each to its own bound), including signed
zeros, subnormals, infinities and NaN. Both widths come from one text; the coefficients are from
`tools/fit_math.py`. Where a single-precision function would need extended precision it goes
through double.

Arguments for which a short reduction does not suffice (`sin(1e200)`) take a call to libm that
nothing else pays for: see `rare`.
"""

from __future__ import annotations

from functools import cache

from naperian.backends import circular, exponential, gammas, special
from naperian.backends.arith import Format, Real
from naperian.backends.code import Code
from naperian.backends.elementary import FUNCTIONS, RARE
from naperian.dtypes import DType
from naperian.node import node

WRITTEN_IN = (exponential, circular, gammas, special)  # each registers its functions


@node
class Function:
    """A function's text, and the rare calls (with their arities) it makes."""

    symbol: str
    text: str
    rare: tuple[tuple[str, int], ...]


@cache
def function(name: str, dtype: DType) -> Function:
    """The definition of a function on floats of a dtype, to be included once in a module."""
    body, arity = FUNCTIONS[name]
    f = Format(Code(), dtype)
    args = [Real(f, f"%x{k}") for k in range(arity)]
    result = body(*args)
    f.code.put(f"ret {f.type} {result.value}")
    text = f.code.text()
    symbol = f"@nap.{name}.{f.suffix}"
    params = ", ".join(f"{f.type} {x.value}" for x in args)
    calls = tuple((n, k) for n, k in RARE.items() if f"@nap.rare.{n}(" in text)
    return Function(
        symbol,
        f"define internal {f.type} {symbol}({params}) "
        f"alwaysinline nounwind willreturn memory(none) {{\n{text}\n}}",
        calls,
    )
