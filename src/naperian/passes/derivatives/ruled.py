"""Functions with a derivative of the user's own, while derivatives are made. core → ainf

    s  = stop_gradient(x)
    …                            the body, of s, which no derivative looks into
    x' = copy(x)                 the parameters, as in a derivative
    g  = gate(x', …)             what `Tangents` and `Cotangents` apply the rule at
    y' = ruled(y, g)             the value; it varies as the rule says

Both go backwards and forwards through `g` and `y'` like through any binding, so that loops and
conditions around a call need nothing special. A rule is flattened where it is applied: among the
same loops, which run backwards in reverse mode. In the end `y'` is a copy, and `g` is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from naperian.ainf.syntax import Binding, Guard, Number, Op, Operand, Read
from naperian.ainf.walk import Names, free, rewrite, rewrite_size
from naperian.core import syntax as core
from naperian.core.linear import called_once
from naperian.core.resolve import resize
from naperian.core.walk import everything, size_variables
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.node import node, replace
from naperian.passes.bindings.builder import Builder, Guards
from naperian.passes.bindings.values import Items, Listed, Row, Truth, Value, leaves, row
from naperian.passes.derivatives.linearity import refuse_others
from naperian.prims import unit
from naperian.sizes import Size, size, variables


class Flattening(Protocol):
    """Where core becomes bindings (`Place`), and what does it."""

    b: Builder
    env: dict[Var, Value]
    scope: tuple[Var, ...]
    guards: Guards

    def expr(self, e: core.Expr) -> Value: ...
    def tabulated(self, value: Value) -> Value: ...
    def row_at(self, value: Value, names: dict[Var, Size]) -> Value: ...


@node
class Ruled:
    """A call of such a function: its parameters and its value, whose leaves are bindings of their
    own, and what else the rule needs to know of its place."""

    place: Flattening
    custom: core.Custom
    starts: tuple[Value, ...]
    value: Value
    env: dict[Var, Value]
    scope: tuple[Var, ...]
    guards: Guards

    def at(self, value: Value, names: Names) -> Value:
        """A value with the indices around the call replaced."""
        return self.place.row_at(value, dict(names)) if names else value

    def derived(
        self, forward: bool, given: Sequence[Value], names: Names, scope: tuple[Var, ...],
        guards: Guards,
    ) -> tuple[Value, ...]:  # fmt: skip
        """What tangents of the parameters give (or a cotangent of the value): by the rule for this
        direction, else by the transpose of the other."""
        own = self.custom.rule(forward)
        if own.forward != forward:
            return self.transposed(own, given, names, scope, guards)
        with _Moved(self, names, scope, guards):
            self.place.env.update(zip((v for v, _ in own.given), given, strict=True))
            return _items(self.place.tabulated(self.place.expr(own.body)))

    def transposed(
        self, own: core.OwnRule, seeds: Sequence[Value], names: Names, scope: tuple[Var, ...],
        guards: Guards,
    ) -> tuple[Value, ...]:  # fmt: skip
        """What the transpose of a rule, at 0, makes of these."""
        mode, given = ("jvp", "tangent") if own.forward else ("vjp", "cotangent")
        other = "vjp" if own.forward else "jvp"
        refuse_others(
            own.body, (v for v, _ in own.given),
            f"this rule of `custom_{mode}` has no transpose: it is not linear in the {given}",
            f"not linear in the {given}", f"give a `custom_{other}` beside it",
            self.custom.origin,
        )  # fmt: skip
        seed, like = Var("seed"), Items(self.starts)
        around = self.at(like if own.forward else self.value, names)
        zeros = _items(_mapped(around, lambda leaf: _zero(self, leaf)))
        params = tuple(core.Carried(v, t, core.Ref(Var("zero"))) for v, t in own.given)
        back = core.Derivative(False, params, own.body, core.Ref(seed), origin=self.custom.origin)
        with _Moved(self, names, scope, guards):
            starts = (p.start.var for p in params if isinstance(p.start, core.Ref))
            self.place.env.update(zip(starts, zeros, strict=True))
            self.place.env[seed] = seeds[0] if len(seeds) == 1 else Items(tuple(seeds))
            return _items(self.place.tabulated(self.place.expr(core.Part(back, 1))))

    def copied(
        self, operand: Callable[[Operand], Operand], s: Callable[[Size], Size],
        var: Callable[[Var], Var], guards: Callable[[Guards], Guards],
    ) -> Ruled:
        """The same call in a copy of a loop."""

        def value(x: Value) -> Value:
            match x:
                case Items(items):
                    return Items(tuple(map(value, items)))
                case Row(own, indices, cell):
                    return Row(resize(s).set(own), tuple(map(var, indices)), value(cell))
                case Listed(own, items, around):
                    return Listed(resize(s).set(own), tuple(map(value, items)), guards(around))
                case Read() | Lit():
                    return operand(x)
                case _:
                    return replace(x, value=s(x.value))

        return replace(
            self, starts=tuple(map(value, self.starts)), value=value(self.value),
            env={v: value(x) for v, x in self.env.items()},
            scope=tuple(map(var, self.scope)), guards=guards(self.guards),
        )  # fmt: skip


class _Moved:
    """The place of a call, while its rule is flattened."""

    def __init__(
        self, r: Ruled, names: Names, scope: tuple[Var, ...], guards: Guards
    ) -> None:
        self.place = r.place
        self.inside = (scope, guards)
        self.outside = (r.place.scope, r.place.guards)
        self.env = {v: r.at(x, names) for v, x in r.env.items()}

    def __enter__(self) -> None:
        self.place.scope, self.place.guards = self.inside
        self.place.env.update(self.env)

    def __exit__(self, *_: object) -> None:
        self.place.scope, self.place.guards = self.outside


def called(place: Flattening, e: core.Custom, copied: Callable[..., Value]) -> Value:
    """The value of a call inside a derivative. `copied` gives a value bindings of its own."""
    starts = tuple(place.tabulated(place.expr(p.start)) for p in e.params)
    for p, x in zip(e.params, starts, strict=True):
        place.env[p.var] = copied(place, x, (), p.var.name, [], "stop_gradient")
    value = place.tabulated(place.expr(e.body))
    made: list[Value] = []
    for p, x in zip(e.params, starts, strict=True):
        made.append(copied(place, x, (), p.var.name, []))
        place.env[p.var] = made[-1]
    mentioned = dict.fromkeys(v for r in e.rules for v in _mentioned(r.body))
    env = {v: place.tabulated(place.env[v]) for v in mentioned if v in place.env}
    b = place.b
    scope = place.scope
    if all(map(called_once, e.rules)):
        around = _around(b, (*made, *env.values(), value), place.guards)
        scope = tuple(i for i in scope if i in around)
    # else one call for each point of the loops around, also where nothing depends on them: one with
    # the sum of their cotangents would be another thing
    context = b.order(b.closed(scope))
    touched = [x for m in (*made, *env.values()) for x in _touched(b, place.guards, m)]
    code = len(b.ruled)
    gate = b.add(Op("gate", tuple(touched), code), context, place.guards, DType.F64)

    def ruled(value: Value, indices: tuple[Var, ...]) -> Value:
        match value:
            case Items(items):
                return Items(tuple(ruled(x, indices) for x in items))
            case Row(s, own, cell):
                return row(s, own, ruled(cell, indices + own))
            case Read() | Lit():
                around = b.order(b.closed((*context, *indices)))
                return b.add(Op("ruled", (value, gate)), around, place.guards, b.dtype(value))
            case _:
                raise AssertionError("what varies is made of floats")

    whole = ruled(value, ())
    b.ruled.append(Ruled(place, e, tuple(made), whole, env, scope, place.guards))
    return whole


def cleared(bindings: Sequence[Binding]) -> list[Binding]:
    """The bindings once all derivatives are made."""
    out = []
    for b in bindings:
        match b.prim:
            case Op("gate"):
                continue
            case Op("ruled", (y, _)):
                out.append(replace(b, prim=Op("copy", (y,))))
            case _:
                out.append(b)
    return out


def tangents(
    r: Ruled, of: Callable[[Operand], Operand | None]
) -> Iterator[tuple[Read, Operand]]:
    """The tangents of a call's value, each with what it is the tangent of; `of` gives those of the
    parameters."""
    given = [_mapped(x, lambda leaf: of(leaf) or _zero(r, leaf)) for x in r.starts]
    # a loop around the derivative, of many tangents at a point, need not be one around the call
    b = r.place.b
    scope = b.order({*r.scope, *_around(b, given, r.guards)})
    found = r.derived(True, given, {}, scope, r.guards)
    yield from _paired(r.value, Items(found))


def cotangents(
    r: Ruled, of: Callable[[Read], Operand | None], names: Names, scope: tuple[Var, ...],
    guards: Guards,
) -> Iterator[tuple[Read, tuple[Var, ...], Operand]]:
    """What a call sends back to its parameters: where, for which indices, and what; `of` gives the
    cotangents of the value. `names` are the indices around the call as they run now."""
    value = r.at(r.value, names)
    seed = _mapped(value, lambda leaf: of(leaf) or _zero(r, leaf))
    found = r.derived(False, _items(seed), names, scope, guards)
    starts = Items(tuple(r.at(x, names) for x in r.starts))
    for (own, leaf), (x, v) in zip(leaves(starts), _paired(starts, Items(found)), strict=True):
        assert leaf == x
        yield x, own, v


def _paired(value: Value, found: Value) -> Iterator[tuple[Read, Operand]]:
    """The leaves of a value, and those of another one at the same indices."""
    for (own, x), (indices, v) in zip(leaves(value), leaves(found), strict=True):
        assert isinstance(x, Read)
        assert isinstance(v, Read | Lit)
        yield x, rewrite(v, dict(zip(indices, map(size, own), strict=True)))


def _items(value: Value) -> tuple[Value, ...]:
    return value.items if isinstance(value, Items) else (value,)


def _zero(r: Ruled, leaf: Operand) -> Lit:
    return Lit(0.0, r.place.b.dtype(leaf))


def _mapped(value: Value, f: Callable[[Read], Operand]) -> Value:
    match value:
        case Items(items):
            return Items(tuple(_mapped(x, f) for x in items))
        case Row(s, own, cell):
            return row(s, own, _mapped(cell, f))
        case Read():
            return f(value)
        case _:
            raise AssertionError("the leaves are bindings of their own")


def _mentioned(e: core.Expr) -> Iterator[Var]:
    for x in everything(e):
        if isinstance(x, core.Ref):
            yield x.var
        yield from size_variables(x)


def _around(b: Builder, values: Iterable[Value], guards: Guards) -> frozenset[Var]:
    """The indices that values and guards hang on, without the axes of tables."""
    found = b.closed(v for g in guards for v in free(g.operand))
    for x in values:
        for own, leaf in leaves(x):
            match leaf:
                case Truth(s):
                    inner = variables(s)
                case Read() | Lit() | Number():
                    inner = free(leaf)
                case _:
                    raise AssertionError("the leaves are scalars")
            found |= b.closed((*inner, *own)) - {*own}
    return found


def _touched(b: Builder, guards: tuple[Guard, ...], value: Value) -> Iterator[Operand]:
    """Operands that read all of a value, so that what reads them comes after it."""
    for own, leaf in leaves(value):
        if not isinstance(leaf, Read):
            continue
        if not own:
            yield leaf
            continue
        names: dict[Var, Size] = {}
        over = []
        for i in own:
            extent = b.indices[i].extent
            assert extent is not None
            over.append(b.index(rewrite_size(extent, names), i.name))
            names[i] = size(over[-1])
        dtype = b.dtype(leaf)
        monoid = "or" if dtype is DType.BOOL else "add"
        entry = (tuple(over), rewrite(leaf, names), ())
        yield b.reduce(monoid, Lit(unit(monoid, dtype), dtype), (entry,), dtype, guards)
