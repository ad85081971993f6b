"""The defaults of fields, as the Python classes of structs and enums have them.

    struct Point: x: Float, y: Float = 0.0          Point(1.0) is Point(x=1.0, y=0.0)

They are the defaults of the definitions that construct the values: numbers, or constants of the
program, whose values are computed here.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from naperian.core import syntax as core
from naperian.core.places import RunError
from naperian.core.run import run
from naperian.names import Var
from naperian.node import replace
from naperian.substitution import Substitution
from naperian.types import F32, F64, INT, Data, TypeVar

Value: TypeAlias = bool | int | float
Defaults: TypeAlias = tuple[tuple[Value | None, ...], ...]
"""For each variant and each of its fields; a struct has one variant."""


def class_defaults(module: core.Module) -> dict[Var, Defaults]:
    """By the variables of layouts, those that have any."""
    found: dict[Var, list[tuple[Value | None, ...]]] = {}
    for d in module.definitions.values():
        made = d.result
        if not isinstance(made, Data) or not isinstance(d.body, core.Pack):
            continue
        number = made.layout.variant(d.name.rpartition(".")[2])
        if number is None or all(p.default is None for p in d.params):
            continue
        fields = [f.name for f in made.layout.variants[number].fields]
        if fields == [p.name for p in d.params]:
            none: list[tuple[Value | None, ...]] = [
                (None,) * len(v.fields) for v in made.layout.variants
            ]
            own = found.setdefault(made.layout.var, none)
            own[number] = tuple(_value(module, d, p) for p in d.params)
    return {v: tuple(variants) for v, variants in found.items()}


def _value(module: core.Module, d: core.Definition, p: core.Param) -> Value | None:
    """A default that is a number; others are known in the program alone."""
    match p.default:
        case None:
            return None
        case core.ConstOf(value, _):
            return value
        case core.Number(value):
            floating = {TypeVar(t.var) for t in d.types if t.precision} | {F64, F32}
            number = value.constant
            return float(number) if number is not None and p.type in floating else number
        case _:
            alone = replace(d, params=(), result=p.type, body=p.default, sets=(), sizes=())
            types = {t.var: F64 if t.precision else INT for t in d.types}
            whole = replace(module, definitions={**module.definitions, d.name: alone})
            try:
                made = run(whole, d.name, [], Substitution(types, {}, {}))
            except RunError:  # told where the default is used
                return None
            made = made.item() if isinstance(made, np.generic) else made
            return made if isinstance(made, bool | int | float) else None
