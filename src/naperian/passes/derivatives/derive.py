"""A derivative where it is asked for: the bindings of its body, then those of its tangents or
cotangents. core → ainf

    let x = at in body       the variable as bindings of its own, `copy`, all its indices in their
                             context; then the body's bindings; then what `Tangents` or
                             `Cotangents` make of the list from there on

The list is flat, so a derivative inside a comprehension or a loop is nothing special: the indices
around it stand still (`Place.scope`) while those inside are summed over. A derivative of a
derivative is made later, from the bindings of the inner one, and knows only its own variables, so
that perturbations cannot be confused. Contexts of the copies are too wide; `narrow` puts that
right.
"""

from __future__ import annotations

from collections.abc import Callable

from naperian.ainf.syntax import Delay, Op, Operand, Read
from naperian.ainf.walk import free, rewrite
from naperian.core import syntax as core
from naperian.names import Lit, Var
from naperian.passes.algebra.replaced import replace_last
from naperian.passes.algebra.settled import settle_last
from naperian.passes.bindings.place import Place
from naperian.passes.bindings.values import Items, Row, Value, leaves, mapped, row
from naperian.passes.derivatives.cotangents import Cotangents
from naperian.passes.derivatives.linearity import refuse_others
from naperian.passes.derivatives.merged import merge_last
from naperian.passes.derivatives.parts import Part
from naperian.passes.derivatives.tangents import Tangents
from naperian.sizes import size
from naperian.source import called

Expr = Callable[[core.Expr], Value]
Plain = Callable[[Value], Value]


def derivative(place: Place, e: core.Derivative, expr: Expr, plain: Plain) -> Value:
    """The value of the body and its derivative. `expr` flattens an expression where the place
    stands, `plain` makes a value without literal tables."""
    if e.linear:
        refuse_others(
            e.body, (p.var for p in e.params),
            "`transpose_linear` is for linear functions, and this one is not",
            "not linear in the argument", "`vjp(f, x)` is the transpose of what `f` is near `x`",
        )  # fmt: skip
    starts = [plain(expr(p.start)) for p in e.params]
    seed = plain(expr(e.seed))
    start, calls = len(place.b.bindings), len(place.b.ruled)
    sources: list[tuple[tuple[Var, ...], Read]] = []
    for p, value in zip(e.params, starts, strict=True):
        name = p.start.var.name if isinstance(p.start, core.Ref) else p.var.name
        place.env[p.var] = copied(place, value, (), name, sources)
    value = plain(expr(e.body))
    replace_last(place.b, start, (place.operand(v) for _, v in leaves(value)))
    settle_last(place.b, start)
    if e.forward:
        given = [
            rewrite(place.operand(v), dict(zip(indices, map(size, own), strict=True)))
            for (indices, v), (own, _) in zip(leaves(seed), sources, strict=True)
        ]
        tangents = Tangents(
            place, start, {r.var: v for (_, r), v in zip(sources, given, strict=True)}
        )

        def tangent(leaf: Value) -> Operand:
            o = place.operand(leaf)
            return tangents.of(o) or Lit(0.0, place.b.dtype(o))

        return Items((value, mapped(value, tangent)))
    if calls == len(place.b.ruled):
        value = narrowed(place, start, value, {x.var for _, x in sources})
        value = merged(place, start + len(sources), value)
    seeds: list[tuple[Var, Part]] = []
    for (indices, leaf), (own, v) in zip(leaves(value), leaves(seed), strict=True):
        o = place.operand(leaf)
        if isinstance(o, Read):
            here = dict(zip(own, map(size, indices), strict=True))
            part = Part(indices, o.at, rewrite(place.operand(v), here), ())
            seeds.append((o.var, part))
    made = Cotangents(place, start, {r.var for _, r in sources}, seeds)
    rows = iter(sources)

    def cotangent(leaf: Value) -> Operand:
        _, r = next(rows)
        outer, place.b.origin = place.b.origin, called(r.var.name).derived("cotangent")
        v = made.cotangent(r.var, r.at) or Lit(0.0, place.b.dtype(r))
        place.b.origin = outer
        return v

    back = tuple(mapped(x, cotangent) for x in starts)
    return Items((value, back[0] if len(back) == 1 else Items(back)))


def narrowed(place: Place, start: int, value: Value, sources: set[Var]) -> Value:
    """The value once what loops carry among the bindings from `start` on has left the loops around
    that it does not depend on; else there are cotangents for each round of those. What the
    derivative is by stays as it is: elements that are one number have a derivative each."""
    b = place.b
    if not any(isinstance(x.prim, Delay) for x in b.bindings[start:]):
        return value
    least = place.narrowed(start, sources)
    return value if least is None else mapped(value, lambda x: least(place.operand(x)))


def merged(place: Place, start: int, value: Value) -> Value:
    """The value once what is computed twice by the bindings from `start` on is one."""
    one = merge_last(place, start)
    return value if one is None else mapped(value, lambda x: one(place.operand(x)))


def copied(
    place: Place, value: Value, indices: tuple[Var, ...], name: str,
    sources: list[tuple[tuple[Var, ...], Read]], how: str = "copy",
) -> Value:
    """A value whose leaves are bindings of their own, one element for each of its indices."""
    match value:
        case Items(items):
            return Items(tuple(copied(place, x, indices, name, sources, how) for x in items))
        case Row(s, own, cell):
            return row(s, own, copied(place, cell, indices + own, name, sources, how))
        case _:
            o = place.operand(value)
            b = place.b
            around = (v for g in place.guards for v in free(g.operand))
            context = b.order(b.closed((*indices, *free(o), *around)))
            made = b.add(
                Op(how, (o,)), context, place.guards, b.dtype(o), place.origin, Var(name)
            )
            sources.append((indices, made))
            return made
