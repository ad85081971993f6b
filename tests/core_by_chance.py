"""Well-typed core by chance, small: every construct, nested a few levels.

Tables are over the set variable `n` or over a few fixed sets; `Gen.term` makes a term of a type
from what is in scope.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from naperian.core import syntax as core
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.sizes import size
from naperian.types import (
    BOOL,
    F64,
    INT,
    BoolSet,
    EnumSet,
    Fin,
    Function,
    Index,
    Range,
    Reverse,
    Scalar,
    Set,
    SetVar,
    Table,
    Tuple,
    TupleSet,
    Type,
    element,
)

Expr = core.Expr
N = Var("n")
n = SetVar(N)
_COLOR = EnumSet(Var("Color"), ("R", "G"))
_SETS: tuple[Set, ...] = (
    n, n, n, Fin(size(2)), _COLOR, BoolSet(), TupleSet((_COLOR, n)), Reverse(n),
    Range(size(1), size(3)),
)  # fmt: skip
_REALS = (0.0, -0.0, 1.0, -1.5, 2.0, np.inf, np.nan)


class Gen:
    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw

    def pick(self, items: Any) -> Any:
        return items[self.draw(st.integers(0, len(items) - 1))]

    def type(self, depth: int = 2, functions: bool = False) -> Type:
        kind = self.draw(st.integers(0, 5 if depth else 2))
        if kind <= 2:
            return (F64, INT, BOOL)[kind]
        if kind == 3 and functions:
            return Function((self.type(0),), self.type(depth - 1))
        if kind == 4:
            k = self.draw(st.integers(0, 2))
            return Tuple(tuple(self.type(depth - 1, functions) for _ in range(k)))
        return Table(self.pick(_SETS), self.type(depth - 1, functions))

    def term(self, t: Type, scope: list[tuple[Var, Type]], depth: int) -> Expr:
        fitting = [v for v, of in scope if of == t]
        if fitting and (depth <= 0 or self.draw(st.integers(0, 3)) == 0):
            return core.Ref(self.pick(fitting))
        if depth <= 0:
            return self.least(t, scope)
        makers = [self.least, self.let, self.choice, self.call, self.part, self.cell]
        if isinstance(t, Scalar):
            makers += [self.operation, self.operation, self.operation]
            makers += [self.reduction] if t != BOOL else []
        if not _has_function(t):
            makers += [self.loop, self.checked]
        if isinstance(t, Table):
            makers += [self.build, self.build, self.build, self.scan]
        make = self.pick(makers)
        if make == self.least:
            return self.least(t, scope, depth)
        return make(t, scope, depth)

    def least(self, t: Type, scope: list[tuple[Var, Type]], depth: int = 0) -> Expr:
        match t:
            case Scalar(DType.F64):
                return core.Const(Lit(self.pick(_REALS), DType.F64))
            case Scalar(DType.I64):
                return core.Const(Lit(self.draw(st.integers(-3, 3)), DType.I64))
            case Scalar():
                return core.Const(Lit(self.draw(st.booleans()), DType.BOOL))
            case Tuple(items):
                return core.Pack(tuple(self.term(x, scope, depth - 1) for x in items))
            case Table():
                return self.build(t, scope, depth)
            case Function(params, result):
                vs = tuple((Var("x"), p) for p in params)
                return core.Lambda(vs, self.term(result, [*scope, *vs], depth - 1))
            case _:
                raise AssertionError(t)

    def build(self, t: Type, scope: list[tuple[Var, Type]], depth: int) -> Expr:
        assert isinstance(t, Table)
        if t.set in (Fin(size(2)), _COLOR) and self.draw(st.booleans()):
            items = tuple(self.term(t.cell, scope, depth - 1) for _ in range(2))
            return core.Literal(t.set, items)
        v = Var("i")
        return core.For(v, t.set, self.term(t.cell, [*scope, (v, element(t.set))], depth - 1))

    def let(self, t: Type, scope: list[tuple[Var, Type]], depth: int) -> Expr:
        v, of = Var("y"), self.type(2, functions=True)
        value = self.term(of, scope, depth - 1)
        return core.Let(v, value, self.term(t, [*scope, (v, of)], depth - 1))

    def choice(self, t: Type, scope: list[tuple[Var, Type]], depth: int) -> Expr:
        return core.If(
            self.term(BOOL, scope, depth - 1),
            self.term(t, scope, depth - 1),
            self.term(t, scope, depth - 1),
        )

    def call(self, t: Type, scope: list[tuple[Var, Type]], depth: int) -> Expr:
        fitting = [(v, of) for v, of in scope if isinstance(of, Function) and of.result == t]
        if fitting:
            v, of = self.pick(fitting)
            assert isinstance(of, Function)
            args = tuple(self.term(p, scope, depth - 1) for p in of.params)
            return core.Call(core.Ref(v), args)
        param = self.type(1)
        f = self.term(Function((param,), t), scope, depth - 1)
        return core.Call(f, (self.term(param, scope, depth - 1),))

    def part(self, t: Type, scope: list[tuple[Var, Type]], depth: int) -> Expr:
        for v, of in scope:
            if isinstance(of, Tuple) and t in of.items:
                return core.Part(core.Ref(v), of.items.index(t))
        return core.Part(self.term(Tuple((self.type(1), t)), scope, depth - 1), 1)

    def cell(self, t: Type, scope: list[tuple[Var, Type]], depth: int) -> Expr:
        """A read at an index in scope; where there is none, over a set that has elements."""
        found = [(v, s) for v, of in scope for s in _SETS if of == element(s) and of != BOOL]
        if found:
            v, s = self.pick(found)
            tables = [w for w, of in scope if of == Table(s, t)]
            if tables and self.draw(st.booleans()):
                return core.At(core.Ref(self.pick(tables)), core.Ref(v), s)
            return core.At(self.term(Table(s, t), scope, depth - 1), core.Ref(v), s)
        two = Fin(size(2))
        k = core.Number(size(self.draw(st.integers(0, 1))))
        return core.At(self.term(Table(two, t), scope, depth - 1), k, two)

    def operation(self, t: Type, scope: list[tuple[Var, Type]], depth: int) -> Expr:
        def args(of: Type, k: int) -> tuple[Expr, ...]:
            return tuple(self.term(of, scope, depth - 1) for _ in range(k))

        match t:
            case Scalar(DType.F64):
                name, k = self.pick((("add", 2), ("mul", 2), ("sub", 2), ("max", 2), ("neg", 1)))
                return core.Op(name, args(F64, k), F64)
            case Scalar(DType.I64):
                indices = [v for v, of in scope if isinstance(of, Index)]
                if indices and self.draw(st.booleans()):
                    i = size(self.pick(indices))
                    return core.Number(self.pick((i + 1, 2 * i - N, i * N, i // 2, i % 2)))
                name = self.pick(("add", "mul", "sub", "floordiv", "mod", "bitxor"))
                return core.Op(name, args(INT, 2), INT)
            case _:
                name = self.pick(("lt", "ge", "eq", "and", "or", "not"))
                if name in ("and", "or", "not"):
                    return core.Op(name, args(BOOL, 1 if name == "not" else 2), BOOL)
                of = self.pick((F64, INT))
                return core.Op(name, args(of, 2), of)

    def reduction(self, t: Type, scope: list[tuple[Var, Type]], depth: int) -> Expr:
        v, s = Var("i"), self.pick(_SETS)
        value = self.term(t, [*scope, (v, element(s))], depth - 1)
        monoid = self.pick(("add", "min", "max"))
        return core.Reduce(monoid, v, s, self.term(t, scope, depth - 2), value, t)

    def carried(
        self, types: tuple[Type, ...], scope: list[tuple[Var, Type]], depth: int
    ) -> tuple[core.Carried, ...]:
        return tuple(
            core.Carried(Var("h"), x, self.term(x, scope, depth - 1)) for x in types
        )

    def loop(self, t: Type, scope: list[tuple[Var, Type]], depth: int) -> Expr:
        types = t.items if isinstance(t, Tuple) and len(t.items) == 2 else (t,)
        carried = self.carried(types, scope, depth)
        time, s = Var("t"), self.pick(_SETS)
        inner = [*scope, *((c.var, c.type) for c in carried), (time, element(s))]
        condition = self.term(BOOL, inner, depth - 2) if self.draw(st.booleans()) else None
        return core.Loop(carried, time, s, condition, self.term(t, inner, depth - 1))

    def scan(self, t: Type, scope: list[tuple[Var, Type]], depth: int) -> Expr:
        assert isinstance(t, Table)
        if _has_function(t):
            return self.build(t, scope, depth)
        carried = self.carried((t.cell,), scope, depth)
        time = Var("t")
        inner = [*scope, (carried[0].var, t.cell), (time, element(t.set))]
        body = self.term(t.cell, inner, depth - 1)
        return core.Scan(carried, time, t.set, body, self.draw(st.booleans()))

    def checked(self, t: Type, scope: list[tuple[Var, Type]], depth: int) -> Expr:
        if self.draw(st.booleans()):
            condition = self.term(BOOL, scope, depth - 1)
            return core.Check(condition, "failed", self.term(t, scope, depth - 1))
        s = self.pick(_SETS[3:5])
        k = core.Checked(self.term(INT, scope, depth - 2), s)
        return core.At(self.term(Table(s, t), scope, depth - 1), k, s)


def _has_function(t: Type) -> bool:
    match t:
        case Function():
            return True
        case Tuple(items):
            return any(_has_function(x) for x in items)
        case Table(_, cell):
            return _has_function(cell)
        case _:
            return False


@st.composite
def definitions(draw: Any) -> core.Definition:
    """A definition of a table over `n`, a number and a table of pairs over `n`."""
    gen = Gen(draw)
    params = (
        core.Param("x", Var("x"), Table(n, F64)),
        core.Param("k", Var("k"), INT),
        core.Param("p", Var("p"), Table(n, Tuple((F64, Index(n))))),
    )
    t = gen.type()
    body = gen.term(t, [(p.var, p.type) for p in params], 5)
    return core.Definition("f", (), (N,), (), params, t, (), (), body)
