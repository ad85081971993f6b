"""A reduction over a few indices, of what hangs on nothing else, is a number.

    0.0 + Σ_{c < 4} (1.0 if c == 2 else -0.0)  ⟶  1.0

Derivatives count like this how many elements of a row were asked for (`derivatives/asked.py`); what
waits for the count would wait for all that is counted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import product
from math import prod
from typing import Protocol

from naperian.ainf.syntax import Entry, Guard, Index, Number, Op, Operand, Read
from naperian.ainf.walk import rewrite_size
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.sizes import Size, size

_MOST = 16  # values
_DEEP = 8  # operations from an index to a value

_TALLIES = ("add", "mul", "min", "max", "and", "or")


class Simple(Protocol):
    """What makes simple operations, and knows those that it made."""

    ops: dict[Var, Op]

    def inside(self, r: Read) -> tuple[Op, dict[Var, Size]]:
        """The operation that a value is made by, and what its indices are there."""
        ...

    def op(self, op: Op, dtype: DType) -> Op | Operand: ...
    def dtype(self, o: Operand) -> DType: ...


def tallied(
    monoid: str, init: Operand, entries: Collection[Entry], dtype: DType,
    indices: Mapping[Var, Index], simple: Simple,
) -> Lit | None:  # fmt: skip
    """What a reduction gives, if that is a number."""
    if monoid not in _TALLIES or not isinstance(init, Lit):
        return None
    total = init
    for e in entries:
        points = _points(e, indices)
        if points is None:
            return None
        for point in points:
            here = [_told(simple, g.operand, point) for g in e.guards]
            if any(x is None for x in here):
                return None
            if not all(_is(x, g) for x, g in zip(here, e.guards, strict=True)):
                continue
            value = _told(simple, e.value, point)
            new = None if value is None else simple.op(Op(monoid, (total, value)), dtype)
            if not isinstance(new, Lit):
                return None
            total = new
    return total


def _points(e: Entry, indices: Mapping[Var, Index]) -> list[dict[Var, Size]] | None:
    """Where an entry has values, if that is known and they are few."""
    extents: list[int] = []
    for i in e.over:
        n = indices[i].extent
        if n is None or n.constant is None:
            return None
        extents.append(max(n.constant, 0))
    if prod(extents) > _MOST:
        return None
    found = product(*map(range, extents))
    return [{i: size(k) for i, k in zip(e.over, at, strict=True)} for at in found]


def _is(x: Lit | None, g: Guard) -> bool:
    return x is not None and bool(x.value) == g.holds


def _told(simple: Simple, o: Operand, point: Mapping[Var, Size], deep: int = _DEEP) -> Lit | None:
    """The number that an operand is at a point."""
    match o:
        case Lit():
            return o
        case Number(value):
            there = rewrite_size(value, dict(point)).constant
            return None if there is None else Lit(there, DType.I64)
        case Read(var) if var in simple.ops and deep:
            op, names = simple.inside(o)
            here = {i: rewrite_size(e, dict(point)) for i, e in names.items()}
            args: list[Operand] = []
            for a in op.args if op.name != "select" else op.args[:1]:
                x = _told(simple, a, here, deep - 1)
                if x is None:
                    return None
                args.append(x)
            if op.name == "select":
                (c,) = args
                assert isinstance(c, Lit)
                return _told(simple, op.args[1 if c.value else 2], here, deep - 1)
            made = simple.op(Op(op.name, tuple(args), op.code), simple.dtype(o))
            return made if isinstance(made, Lit) else None
        case _:
            return None
