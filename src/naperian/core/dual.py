"""Derivatives in the interpreter: numbers with a tangent.

`Dual(level, x, dx)` stands for x + dx·ε of one derivative; its parts may be duals of derivatives
around it, which have lower levels. Every operation is taken apart at its highest level, so that a
derivative inside a derivative never sees the other's tangents. This is the meaning of derivatives,
forward and (a direction at a time) in reverse, and shares nothing with the compiler's but the
rules of the scalar primitives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from naperian.core.values import Value
from naperian.dtypes import DType
from naperian.node import node
from naperian.partials import FLAT, RULES
from naperian.prims import PRIMITIVES, convert, scalar


@node
class Dual:
    level: int
    primal: Value
    tangent: Value


def primal(x: Value) -> Value:
    """The number without its tangents."""
    while isinstance(x, Dual):
        x = x.primal
    return x


def operate(name: str, args: list[Value], dtype: DType) -> Value:
    """A primitive (or `cast`) of `dtype` on numbers, some of which have tangents."""
    level = max((a.level for a in args if isinstance(a, Dual)), default=None)
    if name == "select":
        return args[1] if primal(args[0]) else args[2]
    if level is None:
        return convert(args[0], dtype) if name == "cast" else PRIMITIVES[name].meaning(*args)
    plain = [a.primal if isinstance(a, Dual) and a.level == level else a for a in args]
    y = operate(name, plain, dtype)
    if name in FLAT or (name not in RULES and name != "cast"):
        return y
    total: Value = None
    for k, a in enumerate(args):
        if not isinstance(a, Dual) or a.level != level:
            continue
        if name == "cast":
            if not dtype.is_float:
                return y
            part = operate("cast", [a.tangent], dtype)
        else:
            made = _maker(dtype)
            part = made("add", RULES[name][k](made, a.tangent, y, tuple(plain)), -0.0)
        total = part if total is None else operate("add", [total, part], dtype)
    return Dual(level, y, total)


def _maker(dtype: DType) -> Callable[..., Any]:
    def make(name: str, *args: Any) -> Any:
        given = [scalar(a, dtype) if type(a) is float else a for a in args]
        return operate(name, given, dtype)

    return make


def tangent(x: Value, level: int, dtype: DType) -> Value:
    """The tangent of a number at a level."""
    return x.tangent if isinstance(x, Dual) and x.level == level else scalar(0.0, dtype)
