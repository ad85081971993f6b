"""Which way a Jacobian goes: through the function once for each input, or for each output.

    Fin(3)=>Float -> n=>Float          forward: three tangents
    n=>Float -> Fin(3)=>Float          in reverse: three cotangents
    n=>Float -> (n=>Float, n=>Float)   in reverse, though the inputs are fewer

Of a table as long as a call says each output may hang on a few elements, and the reverse makes no
more than these; a tangent goes through the whole function. Both ways give the same but for how it
is rounded.
"""

from __future__ import annotations

from naperian.sizes import ONE, ZERO, Size
from naperian.types import Scalar, Table, Tuple, Type, cardinality

_FEW = 16  # tangents that may go through a function side by side


def goes_forward(inputs: Type, outputs: Type) -> bool:
    """Whether an argument of this type has few numbers, and a value of that one has more."""
    few, many = _numbers(inputs), _numbers(outputs)
    if few is None or many is None or few.constant is None or few.constant > _FEW:
        return False
    return many.constant is None or few.constant < many.constant


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
