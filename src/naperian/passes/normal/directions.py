"""Which way a Jacobian goes: through the function once for each input, or for each output.

    Fin(3)=>Float -> n=>Float          forward: three tangents
    n=>Float -> Fin(3)=>Float          in reverse: three cotangents
    n=>Float -> (n=>Float, n=>Float)   in reverse, though the inputs are fewer
    n=>Float -> n=>Float               forward, of a gradient through a loop of tables

Of a table as long as a call says each output may hang on a few elements, and the reverse makes no
more than these; a tangent goes through the whole function. So does a cotangent where all elements
meet in a loop, and that of a gradient goes through it there and back, twice. Both ways give the
same but for how it is rounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from naperian.core.syntax import Derivative, Expr, For, Handle, Loop, Reduce, Scan
from naperian.core.walk import children
from naperian.sizes import ONE, ZERO, Size
from naperian.types import Scalar, Table, Tuple, Type, cardinality

_FEW = 16  # tangents that may go through a function side by side


def goes_forward(inputs: Type, outputs: Type) -> bool:
    """Whether an argument of this type has few numbers, and a value of that one has more."""
    few, many = _numbers(inputs), _numbers(outputs)
    if few is None or many is None or few.constant is None or few.constant > _FEW:
        return False
    return many.constant is None or few.constant < many.constant


def is_square(inputs: Type, outputs: Type) -> bool:
    """Whether an argument of this type has as many numbers as a value of that one."""
    few = _numbers(inputs)
    return few is not None and few == _numbers(outputs)


def meets_in_a_loop(values: Iterable[Expr]) -> bool:
    """Whether the derivatives in these are of gradients that go through a loop which carries a
    table, and is no loop of each element."""
    whole = (x.body for e in values for x in _outermost(e))
    slopes = [x for e in whole for x in _together(e) if isinstance(x, Derivative) and not x.forward]
    return any(_carries_a_table(x) for d in slopes for x in _together(d.body))


def _carries_a_table(e: Expr) -> bool:
    match e:
        case Loop(carried) | Scan(carried):
            return any(isinstance(c.type, Table) for c in carried)
        case Handle(cells):
            return any(isinstance(c.type, Table) and c.state for c in cells)
        case _:
            return False


def _together(e: Expr) -> Iterator[Expr]:
    """An expression and all inside it but what is there for each element of a table or a sum."""
    rest = [e]
    while rest:
        e = rest.pop()
        yield e
        if not isinstance(e, For | Reduce):
            rest += children(e)


def _outermost(e: Expr) -> Iterator[Derivative]:
    if isinstance(e, Derivative):
        yield e
    else:
        for x in children(e):
            yield from _outermost(x)


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
