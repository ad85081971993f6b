"""Derivatives in the interpreter: numbers that know how they vary.

    Dual(level, x, dx)      x + dx·ε of one derivative: forward
    Traced(level, x, …)     x, and where it stands on the tape of one derivative: in reverse

Their parts may themselves vary with derivatives around this one, which have lower levels. Every
operation is taken apart at its highest level, so that a derivative inside a derivative never sees
the other's tangents. This is the meaning of derivatives; it shares nothing with the compiler's but
the rules of the scalar primitives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from naperian.core.values import Value
from naperian.dtypes import DType
from naperian.node import node
from naperian.partials import FLAT, RULES
from naperian.prims import PRIMITIVES, convert, scalar

Pull: TypeAlias = "Callable[[list[Value | None]], Iterable[tuple[Traced, Value]]]"
"""From the cotangents of some numbers (None for 0) to what those they are made of get."""


class Varying:
    """A number of a derivative's. One class, for every operation asks whether something is one."""

    __slots__ = ()
    level: int
    primal: Value


@node
class Dual(Varying):
    level: int
    primal: Value
    tangent: Value


@dataclass(frozen=True, slots=True, eq=False)
class Traced(Varying):
    level: int
    primal: Value
    place: int
    tape: Tape


class Tape:
    """What one derivative in reverse has seen, in order."""

    def __init__(self, level: int) -> None:
        self.level = level
        self.count = 0
        self.steps: list[tuple[list[Traced], Pull]] = []

    def number(self, primal: Value) -> Traced:
        self.count += 1
        return Traced(self.level, primal, self.count, self)

    def step(self, values: Sequence[Value], pull: Pull) -> list[Traced]:
        """Numbers that were computed together."""
        made = [self.number(y) for y in values]
        self.steps.append((made, pull))
        return made

    def back(self, seeds: Iterable[tuple[Value, Value]]) -> dict[int, Value]:
        """The cotangents of all numbers, given those of some."""
        found: dict[int, Value] = {}

        def send(x: Traced, v: Value) -> None:
            dtype = kind(x)
            v = operate("cast", [v], dtype)
            old = found.get(x.place)
            found[x.place] = v if old is None else operate("add", [old, v], dtype)

        for x, v in seeds:
            if isinstance(x, Traced) and x.level == self.level:
                send(x, v)
        for made, pull in reversed(self.steps):
            cotangents = [found.get(y.place) for y in made]
            if any(v is not None for v in cotangents):
                for x, v in pull(cotangents):
                    send(x, v)
        return found


def primal(x: Value) -> Value:
    """The number without what it varies with."""
    while isinstance(x, Varying):
        x = x.primal
    return x


_KINDS = {np.dtype(d.value): d for d in DType}


def kind(x: Value) -> DType:
    """The dtype of a number."""
    return _KINDS[primal(x).dtype]


def highest(numbers: Iterable[Value]) -> Varying | None:
    """The number that varies with the innermost derivative."""
    found = None
    for x in numbers:
        if isinstance(x, Varying) and (found is None or x.level > found.level):
            found = x
    return found


def below(x: Value, level: int) -> Value:
    """The number as derivatives around that of a level see it."""
    return x.primal if isinstance(x, Varying) and x.level == level else x


def operate(name: str, args: list[Value], dtype: DType) -> Value:
    """A primitive (or `cast`) of `dtype` on numbers, some of which vary."""
    top = highest(args)
    if name == "select":
        return args[1] if primal(args[0]) else args[2]
    if top is None:
        return convert(args[0], dtype) if name == "cast" else PRIMITIVES[name].function(*args)
    level = top.level
    plain = [below(a, level) for a in args]
    y = operate(name, plain, dtype)
    if name in FLAT or (name not in RULES and name != "cast"):
        return y
    if name == "cast" and not dtype.is_float:
        return y

    def scaled(k: int, v: Value) -> Value:
        """The derivative in argument `k`, applied to `v`."""
        if name == "cast":
            return v
        made = _maker(dtype)
        return made("add", RULES[name][k](made, v, y, tuple(plain)), -0.0)

    if isinstance(top, Traced):
        known = [(k, a) for k, a in enumerate(args) if isinstance(a, Traced) and a.level == level]
        (made,) = top.tape.step([y], lambda vs: [(a, scaled(k, vs[0])) for k, a in known])
        return made
    total: Value = None
    for k, a in enumerate(args):
        if isinstance(a, Dual) and a.level == level:
            v = operate("cast", [a.tangent], dtype) if name == "cast" else a.tangent
            part = scaled(k, v)
            total = part if total is None else operate("add", [total, part], dtype)
    return Dual(level, y, total)


def _maker(dtype: DType) -> Callable[..., Any]:
    def make(name: str, *args: Any) -> Any:
        given = [scalar(a, dtype) if type(a) is float else a for a in args]
        return operate(name, given, dtype)

    return make


def tangent(x: Value, level: int) -> Value:
    """The tangent of a number at a level."""
    if isinstance(x, Dual) and x.level == level:
        return x.tangent
    return scalar(0.0, kind(x))
