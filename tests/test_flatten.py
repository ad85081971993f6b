"""Flattening keeps the meaning: `core.run == ainf.run` on definitions written by hand.

Every program is run for sizes 0, 1, 3 and 5; results agree bit for bit. What passes make of the
flat program must agree, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import naperian
from naperian.ainf import run as ainf
from naperian.ainf.check import check
from naperian.ainf.parse import parse
from naperian.ainf.show import show
from naperian.ainf.syntax import Program
from naperian.core import run as core
from naperian.core.syntax import (
    At,
    Carried,
    Check,
    Checked,
    Const,
    Definition,
    Expr,
    For,
    If,
    Let,
    Literal,
    Loop,
    Module,
    Number,
    Op,
    Pack,
    Param,
    Part,
    Recast,
    Reduce,
    Ref,
    Scan,
)
from naperian.core.values import from_numpy, to_numpy
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.passes.algebra.cse import cse
from naperian.passes.algebra.prune import prune
from naperian.passes.algebra.simplify import simplify
from naperian.passes.flat.flatten import flatten
from naperian.sizes import Size, size
from naperian.substitution import Substitution
from naperian.types import (
    F64,
    INT,
    BoolSet,
    Fin,
    Index,
    Range,
    Reverse,
    Set,
    Table,
    Tuple,
    TupleSet,
    Type,
    table,
)

SIZES = (0, 1, 3, 5)
N, M = Var("n"), Var("m")
FN, FM = Fin(size(N)), Fin(size(M))
VEC, MAT = Table(FN, F64), table([FN, FM], F64)


# a notation for core


def f(x: float) -> Expr:
    return Const(Lit(float(x), DType.F64))


def k(x: int) -> Expr:
    return Const(Lit(x, DType.I64))


def op(name: str, *args: Expr, of: Type = F64) -> Expr:
    return Op(name, args, of)


def at(t: Expr, *steps: tuple[Set, Expr]) -> Expr:
    for s, i in steps:
        t = At(t, i, s)
    return t


def each(s: Set, body: Callable[[Expr], Expr], name: str = "i") -> Expr:
    v = Var(name)
    return For(v, s, body(Ref(v)))


def total(s: Set, body: Callable[[Expr], Expr], monoid: str = "add", name: str = "k") -> Expr:
    v = Var(name)
    init = {"add": 0.0, "max": -np.inf, "min": np.inf, "mul": 1.0}.get(monoid, 0.0)
    return Reduce(monoid, v, s, f(init), body(Ref(v)), F64)


def let(value: Expr, body: Callable[[Expr], Expr]) -> Expr:
    v = Var("y")
    return Let(v, value, body(Ref(v)))


def loop(
    start: Expr, t: Type, s: Set | None, body: Callable[[Expr, Expr], Expr],
    while_: Callable[[Expr], Expr] | None = None,
) -> Expr:  # fmt: skip
    c, time = Var("c"), Var("t")
    condition = while_(Ref(c)) if while_ else None
    return Loop((Carried(c, t, start),), time if s else None, s, condition, body(Ref(c), Ref(time)))


X, Y, A, K, P = (Var(name) for name in "xyakp")
x, y, a, p = Ref(X), Ref(Y), Ref(A), Ref(P)


@dataclass
class Example:
    """A body over the parameters that it uses."""

    body: Expr
    result: Type
    params: tuple[tuple[Var, Type], ...] = ((X, VEC),)
    facts: tuple[tuple[Size, str], ...] = ()

    def definition(self) -> Definition:
        params = tuple(Param(v.name, v, t) for v, t in self.params)
        sizes = (N, M)
        return Definition("example", (), (), sizes, params, self.result, self.facts, (), self.body)


def num(e: Expr) -> Size:
    assert isinstance(e, Ref)
    return size(e.var)


def clipped(e: Expr, n: Size) -> Expr:
    from_zero = op("max", e, k(0), of=INT)
    return op("min", from_zero, Number(n - 1), of=INT)


PAIR = TupleSet((FN, FM))
I64V = Table(FN, INT)

EXAMPLES: dict[str, Example] = {
    "elementwise": Example(each(FN, lambda i: op("exp", at(x, (FN, i)))), VEC),
    "invariant": Example(each(FN, lambda i: op("mul", at(x, (FN, i)), op("exp", f(2)))), VEC),
    "matmul": Example(
        each(FN, lambda i: each(FN, lambda j: total(FM, lambda k: op(
            "mul", at(a, (FN, i), (FM, k)), at(a, (FN, j), (FM, k)))))),
        table([FN, FN], F64), ((A, MAT),),
    ),
    "transpose": Example(
        let(each(FM, lambda j: each(FN, lambda i: op("exp", at(a, (FN, i), (FM, j))))),
            lambda t: each(FN, lambda i: each(FM, lambda j: at(t, (FM, j), (FN, i))))),
        MAT, ((A, MAT),),
    ),
    "triangle": Example(
        each(FN, lambda i: total(Range(size(0), num(i)), lambda j: op(
            "mul", at(x, (FN, j)), at(x, (FN, i))))),
        VEC,
    ),
    "softmax": Example(
        let(total(FN, lambda i: at(x, (FN, i)), "max"), lambda m: let(
            each(FN, lambda i: op("exp", op("sub", at(x, (FN, i)), m))), lambda e: let(
                total(FN, lambda i: at(e, (FN, i))),
                lambda s: each(FN, lambda i: op("div", at(e, (FN, i)), s))))),
        VEC,
    ),
    "reverse": Example(
        let(each(Reverse(FN), lambda i: at(x, (FN, i))),
            lambda r: Pack((Recast(r, (Reverse(FN),), (FN,), F64),
                            each(FN, lambda i: at(r, (Reverse(FN), i)))))),
        Tuple((VEC, VEC)),
    ),
    "choice": Example(
        each(FN, lambda i: If(op("gt", at(x, (FN, i)), f(0)),
                              op("log", at(x, (FN, i))),
                              op("neg", at(x, (FN, i))))),
        VEC,
    ),
    "fences": Example(
        each(FN, lambda i: If(op("lt", i, Number(size(N) - 1), of=INT),
                              at(x, (FN, Number(num(i) + 1))),
                              at(x, (FN, i)))),
        VEC,
    ),
    "choice of tables": Example(
        let(If(op("gt", total(FN, lambda i: at(x, (FN, i))), f(0)),
               each(FN, lambda i: op("add", at(x, (FN, i)), f(1))), x),
            lambda t: each(FN, lambda i: op("mul", at(t, (FN, i)), at(t, (FN, i))))),
        VEC,
    ),
    "guarded sum": Example(
        each(FN, lambda i: If(op("gt", at(x, (FN, i)), f(0)),
                              total(FN, lambda j: op("exp", at(x, (FN, j)))), f(0))),
        VEC,
    ),
    "pairs": Example(
        let(For(ij := Var("ij"), PAIR, at(a, (FN, Part(Ref(ij), 0)), (FM, Part(Ref(ij), 1)))),
            lambda t: Pack((t, total(PAIR, lambda ij: at(t, (PAIR, ij)))))),
        Tuple((Table(PAIR, F64), F64)), ((A, MAT),),
    ),
    "best pair": Example(
        Reduce("argmax", ij := Var("ij"), PAIR, k(0),
               at(a, (FN, Part(Ref(ij), 0)), (FM, Part(Ref(ij), 1))), F64),
        Tuple((Index(FN), Index(FM))), ((A, MAT),),
    ),
    "best": Example(
        let(Reduce("argmin", v := Var("i"), FN, k(0), at(x, (FN, Ref(v))), F64), lambda b: Pack(
            (b, op("add", b, k(1), of=INT)))),
        Tuple((Index(FN), INT)),
    ),
    "booleans": Example(
        let(each(BoolSet(), lambda b: If(b, f(1), total(FN, lambda i: at(x, (FN, i))))),
            lambda t: Pack((t, each(FN, lambda i: at(t, (BoolSet(), op(
                "gt", at(x, (FN, i)), f(0)))))))),
        Tuple((Table(BoolSet(), F64), VEC)),
    ),
    "literals": Example(
        let(Literal(Fin(size(3)), (f(1), f(-2), f(1))), lambda w: each(FN, lambda i: op(
            "add", at(w, (Fin(size(3)), k(1))), total(Fin(size(3)), lambda j: op(
                "mul", at(w, (Fin(size(3)), j)), at(x, (FN, i))))))),
        VEC,
    ),
    "literal of literals": Example(
        let(Literal(Fin(size(2)), (Literal(Fin(size(2)), (f(1), f(2))),
                                   Literal(Fin(size(2)), (f(3), f(4))))),
            lambda w: Pack((w, each(Fin(size(2)), lambda i: at(
                w, (Fin(size(2)), i), (Fin(size(2)), k(1))))))),
        Tuple((table([Fin(size(2))] * 2, F64), Table(Fin(size(2)), F64))), (),
    ),
    "gather": Example(
        each(FN, lambda i: at(x, (FN, at(p, (FN, i))))), VEC, ((X, VEC), (P, Table(FN, Index(FN)))),
    ),
    "checked": Example(
        each(FN, lambda i: at(x, (FN, Checked(at(p, (FN, i)), FN)))), VEC, ((X, VEC), (P, I64V)),
    ),
    "assertion": Example(
        each(FN, lambda i: Check(op("ge", at(x, (FN, i)), f(-9)), "too low", at(x, (FN, i)))), VEC,
    ),
    "clipped": Example(
        each(FN, lambda i: let(clipped(op("add", i, k(2), of=INT), size(N)), lambda j: op(
            "cast", j, of=F64))), VEC,
    ),
    "power": Example(loop(f(1), F64, FN, lambda c, t: op("mul", c, at(x, (FN, t)))), F64),
    "power backwards": Example(
        loop(f(1), F64, Reverse(FN), lambda c, t: op("sub", at(x, (FN, t)), c)), F64
    ),
    "newton": Example(
        loop(f(9), F64, None, lambda c, t: op("mul", c, f(0.5)),
             lambda c: op("gt", c, f(0.25))), F64, (),
    ),
    "newton for each": Example(
        each(FN, lambda i: loop(op("abs", at(x, (FN, i))), F64, None,
             lambda c, t: op("sub", c, f(0.75)), lambda c: op("gt", c, f(0)))), VEC,
    ),
    "at most": Example(
        loop(f(100), F64, FN, lambda c, t: op("sub", c, op("cast", t, of=F64)),
             lambda c: op("gt", c, f(97))), F64, (),
    ),
    "diffusion": Example(
        loop(x, VEC, Fin(size(4)), lambda c, t: each(FN, lambda i: op(
            "add", at(c, (FN, i)),
            If(op("gt", i, k(0), of=INT), at(c, (FN, Number(num(i) - 1))), f(0))))),
        VEC,
    ),
    "constant loop": Example(
        each(FN, lambda i: op("mul", at(x, (FN, i)), loop(
            f(1), F64, Fin(size(3)), lambda c, t: op("exp", op("neg", c))))), VEC,
    ),
    "two carried": Example(
        Loop((Carried(c := Var("c"), F64, f(0)), Carried(d := Var("d"), VEC, x)), t := Var("t"),
             FN, None, Pack((op("add", Ref(c), at(Ref(d), (FN, Ref(t)))),
                             each(FN, lambda i: op("mul", at(Ref(d), (FN, i)), Ref(c)))))),
        Tuple((F64, VEC)),
    ),
    "sums so far": Example(
        Scan((Carried(c := Var("c"), F64, f(0)),), t := Var("t"), FN,
             op("add", Ref(c), at(x, (FN, Ref(t))))), VEC,
    ),
    "sums before": Example(
        Scan((Carried(c := Var("c"), F64, f(0)),), t := Var("t"), Reverse(FN),
             op("add", Ref(c), at(x, (FN, Ref(t)))), True), Table(Reverse(FN), F64),
    ),
    "row sums so far": Example(
        each(FN, lambda i: Scan((Carried(c := Var("c"), F64, f(0)),), t := Var("t"), FM,
             op("add", Ref(c), at(a, (FN, i), (FM, Ref(t)))))), MAT, ((A, MAT),),
    ),
    "ragged loop": Example(
        each(FN, lambda i: loop(f(0), F64, Range(size(0), num(i)), lambda c, t: op(
            "add", op("mul", c, f(0.5)), at(x, (FN, t))))), VEC,
    ),
    "flat": Example(
        let(Recast(a, (FN, FM), (Fin(size(N) * M),), F64), lambda v: Pack((
            v, Recast(v, (Fin(size(N) * M),), (FM, FN), F64)))),
        Tuple((Table(Fin(size(N) * M), F64), table([FM, FN], F64))), ((A, MAT),),
    ),
    "run-time size": Example(
        total(Fin(size(K)), lambda i: op("cast", op("mul", i, i, of=INT), of=F64)),
        F64, ((K, INT),),
    ),
    "scalar index": Example(
        If(op("lt", Ref(K), Number(size(N)), of=INT), at(x, (FN, Ref(K))), f(-1)),
        F64, ((X, VEC), (K, INT)),
    ),
    "window": Example(
        each(Range(size(1), size(N) - 1), lambda i: op("sub",
             at(x, (FN, Number(num(i) + 1))), at(x, (FN, Number(num(i) - 1))))),
        Table(Range(size(1), size(N) - 1), F64),
    ),
    "nothing else": Example(x, VEC),
    "count": Example(Number(size(N) + 1), INT, ()),
}  # fmt: skip


def arguments(example: Example, n: int, m: int, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    out: list[Any] = []
    for v, t in example.params:
        if v is X:
            out.append(rng.normal(size=n) * 2)
        elif v is A:
            out.append(rng.normal(size=(n, m)))
        elif v is P:
            out.append(rng.integers(0, max(n, 1), size=n))
        else:
            assert t == INT
            out.append(np.int64(2))
    return out


def at_sizes(n: int, m: int) -> Substitution:
    return Substitution({}, {}, {N: size(n), M: size(m)})


def expected(example: Example, n: int, m: int, args: list[Any]) -> list[np.ndarray]:
    d = example.definition()
    sub = at_sizes(n, m)
    values = [from_numpy(v, sub.type(t)) for v, (_, t) in zip(args, example.params, strict=True)]
    value = core.run(Module("test", {"example": d}, ("example",), {}), "example", values, sub)
    out = to_numpy(value, sub.type(d.result))
    return [np.asarray(v) for v in (out if isinstance(out, tuple) else (out,))]


def same(found: list[Any], wanted: list[np.ndarray]) -> None:
    """Equal bit for bit, but for which NaN a NaN is."""
    assert len(found) == len(wanted)
    for x, y in zip(found, wanted, strict=True):
        a, b = np.asarray(x).reshape(-1), y.reshape(-1)
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
        some = a == a
        np.testing.assert_array_equal(np.signbit(a[some]), np.signbit(b[some]))


PASSES: tuple[Callable[[Program], Program], ...] = (lambda p: p, simplify, cse, prune)


@pytest.mark.parametrize("name", EXAMPLES)
def test_meaning_is_kept(name: str) -> None:
    example = EXAMPLES[name]
    program = flatten(example.definition())
    stages = []
    for step in PASSES:
        program = step(program)
        check(program)
        assert show(parse(show(program))) == show(program)
        stages.append(program)
    for seed, n in enumerate(SIZES):
        m = SIZES[seed - 2] if name != "flat" else n
        args = arguments(example, n, m, seed)
        wanted = expected(example, n, m, args)
        for stage in stages:
            same(ainf.run(stage, [n, m], args, everything=True), wanted)


def test_what_several_loops_ask_is_asked_once() -> None:
    """That a size is not negative is asked, and checked, by the first loop over it."""
    f = naperian.compile(
        "def f(n: Int, x: Float):\n"
        "    a = [i * x for i in Fin(n)]\n"
        "    b = [a[i] + 1.0 for i in Fin(n)]\n"
        "    sum(b[i] * a[i] for i in Fin(n))\n"
    ).f
    flat = f.show("ainf")
    assert flat.count("ge(n, 0)") == 1
    assert flat.count("check ") == 1
    assert f(2, 3.0) == 12.0
    with pytest.raises(naperian.RunError):
        f(-1, 3.0)
