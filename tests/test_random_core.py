"""Random definitions: every pass up to `prune` keeps their meaning, bit for bit, and leaves
bindings that can be computed wherever their guards hold.

Element-wise work, nested conditionals with reads in range on one side only, ragged and nested
reductions, chosen tables, sequential and conditional loops of scalars and tables, scans.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from test_flatten import (
    FN,
    PASSES,
    VEC,
    Example,
    at,
    expected,
    f,
    k,
    num,
    op,
    same,
    x,
)

from naperian.ainf import run as ainf
from naperian.ainf.check import check
from naperian.ainf.parse import parse
from naperian.ainf.show import show
from naperian.core.syntax import Carried, Expr, For, If, Let, Loop, Number, Pack, Reduce, Ref, Scan
from naperian.names import Var
from naperian.passes.flat.flatten import flatten
from naperian.sizes import size
from naperian.types import BOOL, F64, INT, Fin, Range, Tuple

_MANY = 200  # bindings: larger programs take the interpreters too long


@dataclass(frozen=True)
class Scope:
    """What a random expression may mention."""

    indices: tuple[Expr, ...] = ()
    scalars: tuple[Expr, ...] = ()
    tables: tuple[Expr, ...] = (x,)

    def with_index(self, v: Var) -> Scope:
        return replace(self, indices=(*self.indices, Ref(v)))

    def with_scalar(self, v: Var) -> Scope:
        return replace(self, scalars=(*self.scalars, Ref(v)))

    def with_table(self, v: Var) -> Scope:
        return replace(self, tables=(*self.tables, Ref(v)))


@dataclass
class Maker:
    """Makes random expressions of type Float."""

    random: random.Random = field(default_factory=random.Random)

    def scalar(self, depth: int, s: Scope) -> Expr:
        if depth <= 0 or self.random.random() < 0.12:
            return self.leaf(s)
        kinds = [self.arithmetic] * 4 + [self.choice] * 2 + [self.reduction] * 2
        kinds += [self.named, self.table, self.loop, self.scan]
        return self.random.choice(kinds)(depth - 1, s)

    def leaf(self, s: Scope) -> Expr:
        reads = [at(t, (FN, i)) for t in s.tables for i in s.indices]
        constants = [f(self.random.choice((0.0, 1.0, -2.0, 0.5)))]
        return self.random.choice([*constants, *s.scalars, *s.scalars, *reads, *reads])

    def arithmetic(self, depth: int, s: Scope) -> Expr:
        if self.random.random() < 0.2:
            name = self.random.choice(("neg", "abs", "exp", "sin"))
            return op(name, self.scalar(depth, s))
        name = self.random.choice(("add", "sub", "mul", "min", "max", "div"))
        return op(name, self.scalar(depth, s), self.scalar(depth, s))

    def choice(self, depth: int, s: Scope) -> Expr:
        then, otherwise = self.scalar(depth, s), self.scalar(depth, s)
        if s.indices and self.random.random() < 0.5:
            i = self.random.choice(s.indices)
            if self.random.random() < 0.5:
                before = at(self.random.choice(s.tables), (FN, Number(num(i) - 1)))
                then = self.random.choice((before, op("add", before, then)))
                return If(op("gt", i, k(0), of=INT), then, otherwise)
            condition = op("eq", i, k(1), of=INT)
        else:
            name = self.random.choice(("lt", "ge"))
            condition = op(name, self.scalar(depth, s), f(0.3))
        if self.random.random() < 0.3:
            name = self.random.choice(("and", "or"))
            condition = op(name, condition, op("gt", self.scalar(depth, s), f(0.1)), of=BOOL)
        return If(condition, then, otherwise)

    def reduction(self, depth: int, s: Scope) -> Expr:
        v = Var("k")
        whole = not s.indices or self.random.random() < 0.6
        over = FN if whole else Range(size(0), num(self.random.choice(s.indices)))
        monoid = self.random.choice(("add", "max", "min"))
        return Reduce(monoid, v, over, f(0.0), self.scalar(depth, s.with_index(v)), F64)

    def named(self, depth: int, s: Scope) -> Expr:
        v = Var("y")
        return Let(v, self.scalar(depth, s), self.scalar(depth, s.with_scalar(v)))

    def row(self, depth: int, s: Scope) -> Expr:
        i = Var("i")
        return For(i, FN, self.scalar(depth, s.with_index(i)))

    def table(self, depth: int, s: Scope) -> Expr:
        v, t = Var("t"), self.row(depth - 1, s)
        if self.random.random() < 0.3:
            t = If(op("lt", self.scalar(depth, s), f(0.2)), t, self.row(depth - 1, s))
        return Let(v, t, self.scalar(depth, s.with_table(v)))

    def loop(self, depth: int, s: Scope) -> Expr:
        c, time = Var("c"), Var("t")
        if self.random.random() < 0.6:
            inside = s.with_scalar(c)
            condition = None
            if self.random.random() < 0.4:
                condition = op("lt", self.leaf(inside), f(0.7))
            start = Carried(c, F64, self.scalar(depth, s))
            return Loop((start,), time, Fin(size(3)), condition, self.scalar(depth, inside))
        start = Carried(c, VEC, self.random.choice(s.tables))
        body = self.row(depth - 1, s.with_table(c))
        v = Var("t")
        looped = Loop((start,), time, Fin(size(2)), None, body)
        return Let(v, looped, self.scalar(depth, s.with_table(v)))

    def scan(self, depth: int, s: Scope) -> Expr:
        c, time, v = Var("c"), Var("t"), Var("t")
        start = Carried(c, F64, self.scalar(depth, s))
        body = self.scalar(depth, s.with_index(time).with_scalar(c))
        scanned = Scan((start,), time, FN, body, self.random.random() < 0.5)
        return Let(v, scanned, self.scalar(depth, s.with_table(v)))


def keeps_its_meaning(seed: int) -> None:
    make = Maker(random.Random(seed))
    example = Example(Pack((make.row(5, Scope()), make.scalar(4, Scope()))), Tuple((VEC, F64)))
    program = flatten(example.definition())
    if len(program.bindings) > _MANY:
        return
    stages = []
    for step in PASSES:
        program = step(program)
        check(program)
        assert show(parse(show(program))) == show(program)
        stages.append(program)
    for n in (0, 1, 3):
        values = np.random.default_rng(seed).normal(size=n)
        wanted = expected(example, n, 1, [values])
        for stage in stages:
            same(ainf.run(stage, [n, 1], [values], everything=True), wanted)


@pytest.mark.parametrize("seed", range(80))
def test_passes_keep_the_meaning(seed: int) -> None:
    keeps_its_meaning(seed)


@pytest.mark.long
@pytest.mark.parametrize("hundred", range(1, 21))
def test_passes_keep_the_meaning_of_many(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        keeps_its_meaning(seed)
