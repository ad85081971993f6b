"""Which way a Jacobian goes: through the function once for each input, or for each output.

    Fin(3)=>Float -> n=>Float          forward: three tangents
    n=>Float -> Fin(3)=>Float          in reverse: three cotangents
    n=>Float -> m=>Float               in reverse: a call may have either more or fewer

Both give the same but for how it is rounded, so that what is assumed of sizes need not be so.
"""

from __future__ import annotations

from naperian.facts import Facts
from naperian.sizes import ONE, ZERO, Size, size, variables
from naperian.types import Scalar, Table, Tuple, Type, cardinality

_FEW = 16  # so many are fewer than a number that only a call knows


def goes_forward(inputs: Type, outputs: Type) -> bool:
    """Whether an argument of this type has fewer numbers than a value of that one."""
    few, many = _numbers(inputs), _numbers(outputs)
    if few is None or many is None:
        return False
    if few.constant is not None and many.constant is None:
        return few.constant <= _FEW
    more = many - few
    return more != ZERO and Facts(tuple(map(size, variables(more)))).proves(more)


def _numbers(t: Type) -> Size | None:
    """How many floats a value has, if it has nothing else and its sizes say it."""
    match t:
        case Table(s, cell, None):
            inside = _numbers(cell)
            return None if inside is None else cardinality(s) * inside
        case Tuple(items):
            total = ZERO
            for x in items:
                inside = _numbers(x)
                if inside is None:
                    return None
                total = total + inside
            return total
        case Scalar(dtype) if dtype.is_float:
            return ONE
        case _:
            return None
