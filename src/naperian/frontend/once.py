"""What a reduction asks of its elements more than once, if that may have effects.

    argmax(e for i if p)       best = argmax(e if p else -inf for i); best if p[i := best] else …
    sum(row(i) for i)          [sum(row(i)[j] for i) for j]
    mean(v for i, v in f(i))   sum(v for i, v in f(i)) / sum(1 for i, v in f(i))

An effect happens once, so the answers are a table then, and that is read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from naperian.core import syntax as core
from naperian.core.walk import everything
from naperian.dtypes import DType
from naperian.frontend.binders import Bound
from naperian.frontend.typed import Build, wrap
from naperian.frontend.walk import Walk
from naperian.names import Lit, Var
from naperian.node import node
from naperian.types import INT, Set, Type

Add = Callable[[Var, Set, core.Expr, Type], core.Expr]
"""The sum over an index of a set of a value of a type."""


@node
class Asked:
    """The elements, whether they are kept, and what is around all that asks for them."""

    items: Build
    keeps: Build | None
    around: Callable[[core.Expr], core.Expr]


def asked_once(
    w: Walk, bounds: list[Bound], keeps: Build | None, items: Build, t: Type
) -> Asked:
    """The elements, of type `t`, and the condition of a generator: where they may have effects, as
    reads of a table."""
    kept = None if keeps is None else keeps()
    if not _acts(w, items()) and (kept is None or not _acts(w, kept)):
        return Asked(items, keeps, lambda e: e)
    table, k = Var("asked"), Var("kept")

    def cell() -> core.Expr:
        if keeps is None:
            return items()
        value = core.If(core.Ref(k), items(), core.Blank(w.solver.zonk(t)))
        return core.Let(k, keeps(), core.Pack((core.Ref(k), value)))

    def read() -> core.Expr:
        found: core.Expr = core.Ref(table)
        for b in bounds:
            found = core.At(found, core.Ref(b.var), w.solver.zonk_set(b.set))
        return found

    def around(e: core.Expr) -> core.Expr:
        made = cell
        for b in reversed(bounds):
            made = wrap(b.outside, _table(w, b, b.body(made)))
        return core.Let(table, made(), e)

    if keeps is None:
        return Asked(read, None, around)
    return Asked(lambda: core.Part(read(), 1), lambda: core.Part(read(), 0), around)


def acts_inside(w: Walk, bounds: list[Bound]) -> bool:
    """Whether what inner binders go over may have effects."""
    none = core.Pack(())
    return any(_acts(w, wrap(b.outside, lambda: none)()) for b in bounds[1:] if b.outside)


def totals(
    w: Walk, bounds: list[Bound], keeps: Build | None, items: Build, nothing: core.Expr, t: Type,
    add: Add,
) -> core.Expr:  # fmt: skip
    """The sum of all elements and how many there are, for which everything is asked once."""
    one, zero = (core.Const(Lit(k, DType.I64)) for k in (1, 0))

    def point() -> core.Expr:
        if keeps is None:
            return core.Pack((items(), one))
        k = core.Ref(Var("kept"))
        value = core.If(k, items(), nothing)
        return core.Let(k.var, keeps(), core.Pack((value, core.If(k, one, zero))))

    def summed(b: Bound, inner: Build) -> core.Expr:
        pairs, axis = Var("asked"), w.solver.zonk_set(b.set)

        def part(k: int, kind: Type) -> core.Expr:
            i = Var("i")
            return add(i, axis, core.Part(core.At(core.Ref(pairs), core.Ref(i), axis), k), kind)

        return core.Let(pairs, _table(w, b, inner)(), core.Pack((part(0, t), part(1, INT))))

    build: Build = point
    for b in reversed(bounds):
        build = wrap(b.outside, partial(summed, b, b.body(build)))
    return build()


def _table(w: Walk, b: Bound, body: Build) -> Build:
    return lambda: core.For(b.var, w.solver.zonk_set(b.set), body())


def _acts(w: Walk, e: core.Expr) -> bool:
    """Whether an expression may have effects: it does something with a reference, or calls a
    function that is a value."""
    references = {*w.ambient.values(), *w.uses}
    for x in everything(e):
        match x:
            case core.Assign() | core.Add() | core.Throw() | core.Print() | core.Get():
                return True
            case core.Call(core.Ref()):
                return True
            case core.Ref(var) if var in references:
                return True
            case _:
                pass
    return False
