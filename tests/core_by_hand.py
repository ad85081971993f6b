"""Core written by hand: what the front end would make, in few words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from naperian.core import syntax as core
from naperian.core.check import check, check_normal
from naperian.core.run import run
from naperian.core.values import from_numpy, to_numpy
from naperian.core.walk import everything
from naperian.dtypes import DType
from naperian.leaves import rebuild, spread
from naperian.names import Lit, Var
from naperian.passes.normal.normalize import normalize
from naperian.prims import unit
from naperian.sizes import Size, size
from naperian.substitution import Substitution
from naperian.types import (
    F64,
    Fin,
    Scalar,
    Set,
    Type,
    cardinality,
)

Expr = core.Expr
NOTHING = Substitution({}, {}, {})


def real(x: float, dtype: DType = DType.F64) -> Expr:
    return core.Const(Lit(float(x), dtype))


def whole(x: int) -> Expr:
    return core.Const(Lit(x, DType.I64))


def truth(x: bool) -> Expr:
    return core.Const(Lit(x, DType.BOOL))


def op(name: str, *args: Expr, type: Type = F64) -> Expr:
    return core.Op(name, args, type)


def add(a: Expr, b: Expr) -> Expr:
    return op("add", a, b)


def mul(a: Expr, b: Expr) -> Expr:
    return op("mul", a, b)


def let(name: str, value: Expr, body: Callable[[Expr], Expr]) -> Expr:
    v = Var(name)
    return core.Let(v, value, body(core.Ref(v)))


def each(s: Set, body: Callable[[Expr], Expr], name: str = "i") -> Expr:
    v = Var(name)
    return core.For(v, s, body(core.Ref(v)))


def each_number(s: Set, body: Callable[[Size], Expr], name: str = "i") -> Expr:
    v = Var(name)
    return core.For(v, s, body(size(v)))


def fun(types: tuple[Type, ...], body: Callable[..., Expr]) -> Expr:
    params = tuple((Var(f"x{k}"), t) for k, t in enumerate(types))
    return core.Lambda(params, body(*(core.Ref(v) for v, _ in params)))


def reduce(
    monoid: str, s: Set, body: Callable[[Expr], Expr], t: Type = F64, init: Expr | None = None
) -> Expr:
    v = Var("i")
    if init is None:
        assert isinstance(t, Scalar)
        init = core.Const(Lit(unit(monoid, t.dtype), t.dtype))
    return core.Reduce(monoid, v, s, init, body(core.Ref(v)), t)


def loop(
    starts: dict[str, tuple[Type, Expr]],
    s: Set | None,
    body: Callable[..., Expr],
    condition: Callable[..., Expr] | None = None,
) -> Expr:
    """Body and condition take the carried variables, then the time if there is a set."""
    carried = tuple(core.Carried(Var(k), t, e) for k, (t, e) in starts.items())
    time = None if s is None else Var("t")
    args = [core.Ref(c.var) for c in carried] + ([] if time is None else [core.Ref(time)])
    test = None if condition is None else condition(*args)
    return core.Loop(carried, time, s, test, body(*args))


def scan(
    starts: dict[str, tuple[Type, Expr]],
    s: Set,
    body: Callable[..., Expr],
    exclusive: bool = False,
) -> Expr:
    carried = tuple(core.Carried(Var(k), t, e) for k, (t, e) in starts.items())
    time = Var("t")
    args = [core.Ref(c.var) for c in carried]
    return core.Scan(carried, time, s, body(*args, core.Ref(time)), exclusive)


def at(table: Expr, *indices: tuple[Expr, Set]) -> Expr:
    for i, s in indices:
        table = core.At(table, i, s)
    return table


def define(
    name: str,
    params: dict[str, Type],
    result: Type,
    body: Callable[..., Expr],
    *,
    types: tuple[Var, ...] = (),
    sets: tuple[Var, ...] = (),
    sizes: tuple[Var, ...] = (),
    constant: bool = False,
) -> core.Definition:
    listed = tuple(core.Param(p, Var(p), t) for p, t in params.items())
    return core.Definition(
        name,
        tuple(core.TypeParam(v, "Num") for v in types),
        sets,
        sizes,
        listed,
        result,
        (),
        (),
        body(*(core.Ref(p.var) for p in listed)),
        constant=constant,
    )


def module(*definitions: core.Definition) -> core.Module:
    named = {d.name: d for d in definitions}
    return core.Module("m", named, tuple(named), {})


def normal(
    m: core.Module, name: str, types: dict[Var, Type] | None = None
) -> core.Definition:
    """The normal form with a size variable for every set variable."""
    d = m.definitions[name]
    sets: dict[Var, Set] = {v: Fin(size(Var(v.name))) for v in d.sets}
    made = normalize(m, name, Substitution(types or {}, sets, {}))
    check_normal(made)
    return made


def agree(
    m: core.Module,
    name: str,
    args: tuple[Any, ...],
    sizes: dict[Var, int] | None = None,
    types: dict[Var, Type] | None = None,
) -> Any:
    """The value on NumPy arguments, which the definition and its normal form must agree on.
    `sizes` are numbers for the set and size variables."""
    check(m)
    d = m.definitions[name]
    own = _instance(d, sizes or {}, types or {})
    values = [from_numpy(a, own.type(p.type)) for a, p in zip(args, d.params, strict=True)]
    expected = to_numpy(run(m, name, values, own), own.type(d.result))
    same(expected, run_normal(m, name, args, sizes, types))
    return expected


def run_normal(
    m: core.Module,
    name: str,
    args: tuple[Any, ...],
    sizes: dict[Var, int] | None = None,
    types: dict[Var, Type] | None = None,
) -> Any:
    """What the normal form of a definition gives."""
    d, n = m.definitions[name], normal(m, name, types)
    own = _instance(d, sizes or {}, types or {})
    numbers = [cardinality(s) for s in own.sets.values()] + list(own.sizes.values())
    new = Substitution({}, {}, dict(zip(n.sizes, numbers, strict=True)))
    flat = [x for a, p in zip(args, d.params, strict=True) for x in spread(own.type(p.type), a)]
    leaves = [from_numpy(a, new.type(p.type)) for a, p in zip(flat, n.params, strict=True)]
    found = to_numpy(run(module(n), name, leaves, new), new.type(n.result))
    return rebuild(own.type(d.result), found if isinstance(found, tuple) else (found,))


def _instance(
    d: core.Definition, sizes: dict[Var, int], types: dict[Var, Type]
) -> Substitution:
    sets: dict[Var, Set] = {v: Fin(size(sizes[v])) for v in d.sets}
    return Substitution(types, sets, {v: size(sizes[v]) for v in d.sizes})


def same(a: Any, b: Any) -> None:
    """Equal with dtype, shape and signs of zeros; any NaN equals any. Tuples part by part."""
    assert isinstance(a, tuple) == isinstance(b, tuple)
    if isinstance(a, tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
        return
    x, y = np.asarray(a), np.asarray(b)
    assert x.dtype == y.dtype
    assert x.shape == y.shape
    assert np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
    assert np.array_equal(np.signbit(x), np.signbit(y)) if x.dtype.kind == "f" else True


def count(d: core.Definition, name: str) -> int:
    """How many operations of that name the text of a body has."""
    return sum(isinstance(e, core.Op) and e.name == name for e in everything(d.body))
