"""Whether an expression is linear in some variables.

    linear(dx * cos(x), dx)         yes
    linear(min(dx, 1.0), dx)        no

What is asked is what can be read from the text: every operation on what hangs on the variables is
a sum, a difference, a product with something else, or a choice that does not ask for them. The
expression is in normal form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import TypeAlias

from naperian.core import syntax as core
from naperian.core.walk import children, everything, size_variables
from naperian.names import Var
from naperian.node import mutable
from naperian.source import NOWHERE, Span
from naperian.types import Scalar


class Degree(IntEnum):
    ZERO = 0
    OTHER = 1  # hangs on none of the variables
    LINEAR = 2


NO_TABLES: Mapping[Var, int] = MappingProxyType({})
Degrees: TypeAlias = "Degree | tuple[Degrees, ...]"  # of the parts of a tuple, if they differ


class NotLinearError(Exception):
    """Something is not linear, here if it is written somewhere."""

    place: Span | None = None


def check_linear(e: core.Expr, variables: Iterable[Var]) -> None:
    """Raises NotLinearError if an expression is not linear."""
    degree = _Linear(dict.fromkeys(variables, Degree.LINEAR)).of(e)
    if any(d is Degree.OTHER for d in _parts(degree)):
        raise NotLinearError


def linear(e: core.Expr, variables: Iterable[Var]) -> bool:
    """Whether an expression is linear."""
    try:
        check_linear(e, variables)
    except NotLinearError:
        return False
    return True


def affine(e: core.Expr, variables: Iterable[Var], tables: Mapping[Var, int] = NO_TABLES) -> bool:
    """Whether an expression is a linear one and something else, or only that: its derivative does
    not hang on the variables. Of `tables`, with so many axes, it may hang on slices."""
    try:
        _Linear(dict.fromkeys(variables, Degree.LINEAR), affine=True, tables=tables).of(e)
    except NotLinearError:
        return False
    return True


def hanging(e: core.Expr, variables: Iterable[Var]) -> set[Var]:
    """These variables, and those bound in an expression that hang on them."""
    uses: dict[Var, list[_Inside | None]] = {}
    rest: list[tuple[core.Expr, _Inside | None]] = [(e, None)]
    while rest:
        x, around = rest.pop()
        match x:
            case core.Ref(var):
                uses.setdefault(var, []).append(around)
            case core.Let(var, value, body):
                rest += ((value, _Inside(around, (var,))), (body, around))
            case core.Loop(carried) | core.Scan(carried):
                inside = _Inside(around, tuple(c.var for c in carried))
                rest += ((y, inside) for y in children(x))
            case core.Handle(cells):
                inside = _Inside(around, tuple(c.var for c in cells))
                rest += ((y, inside) for y in children(x))
            case core.Derivative(_, params) | core.Custom(params):
                inside = _Inside(around, tuple(q.var for q in params))
                rest += ((q.start, inside) for q in params)
                rest += ((y, around) for y in children(x)[len(params) :])
            case _:
                rest += ((y, around) for y in children(x))
    found, todo = set(variables), list(variables)
    while todo:
        for place in uses.pop(todo.pop(), ()):
            while place is not None and not place.met:  # else all around it was, too
                place.met = True
                todo += (v for v in place.names if v not in found)
                found.update(place.names)
                place = place.around
    return found


@mutable
class _Inside:
    """Where an expression is that says what names stand for, and that it is in."""

    around: _Inside | None
    names: tuple[Var, ...]
    met: bool = False


def may_stop(e: core.Expr) -> bool:
    """Whether an expression in normal form may stop the run."""
    for x in everything(e):
        match x:
            case core.Check() | core.Throw() | core.Tell() | core.Checked(_, _, False):
                return True
            case _:
                pass
    return False


def called_once(rule: core.OwnRule) -> bool:
    """Whether one call of a rule does for all the places where the function's would be the same."""
    if rule.forward:
        return True
    return linear(rule.body, (v for v, _ in rule.given)) and not may_stop(rule.body)


def _parts(d: Degrees) -> Iterable[Degree]:
    if isinstance(d, Degree):
        yield d
    else:
        for x in d:
            yield from _parts(x)


class _Linear:
    """`env`: of each variable; of a reference what it holds at any time. What is not there hangs on
    none. `affine` says that what is linear may be added to something else. Slices of `tables` hang
    on none, too: what is read at fewer indices of comprehensions inside than the axes it has."""

    def __init__(
        self, env: dict[Var, Degrees], affine: bool = False, tables: Mapping[Var, int] = NO_TABLES
    ) -> None:
        self.env = env
        self.affine = affine
        self.tables = tables
        self.inside: set[Var] = set()  # the indices of comprehensions

    def either(self, a: Degrees, b: Degrees) -> Degrees:
        """Of what is one or the other, or their sum."""
        if isinstance(a, Degree) and isinstance(b, Degree):
            if {a, b} == {Degree.OTHER, Degree.LINEAR} and not self.affine:
                raise NotLinearError
            return max(a, b)
        if isinstance(a, Degree):
            assert not isinstance(b, Degree)
            a = (a,) * len(b)
        if isinstance(b, Degree):
            b = (b,) * len(a)
        return tuple(self.either(x, y) for x, y in zip(a, b, strict=True))

    def of(self, e: core.Expr) -> Degrees:
        while isinstance(e, core.Let):
            self.env[e.var] = self.of(e.value)
            e = e.body
        try:
            return self.degree(e)
        except NotLinearError as wrong:
            place = getattr(e, "origin", NOWHERE)
            if wrong.place is None and place.source != NOWHERE.source:
                wrong.place = place
            raise

    def degree(self, e: core.Expr) -> Degrees:
        match e:
            case core.Ref(var):
                return self.env.get(var, Degree.OTHER)
            case core.Get(reference):
                return self.of(reference)
            case core.Const(lit):
                return Degree.ZERO if lit.value == 0 else Degree.OTHER
            case core.Blank():
                return Degree.ZERO
            case core.Pack(items):
                return tuple(self.of(x) for x in items)
            case core.Part(whole, k):
                d = self.of(whole)
                return d if isinstance(d, Degree) else d[k]
            case core.If(condition, then, otherwise):
                self.other(condition)
                return self.either(self.of(then), self.of(otherwise))
            case core.For(var, _, body):
                self.inside.add(var)
                return self.of(body)
            case core.Literal(_, items):
                return self.one_of([self.of(x) for x in items])
            case core.At(table, index, _):
                self.other(index)
                return Degree.OTHER if self.tables and self.is_slice(e) else self.of(table)
            case core.Recast(value, _, _, _) | core.Box(_, _, value):
                return self.of(value)
            case core.Op("cast", (a,), Scalar(dtype)) if dtype.is_float:
                return self.of(a)
            case core.Op(name, args, _):
                return self.operation(name, args)
            case core.Reduce("add", _, _, init, value, _):
                return self.either(self.of(init), self.of(value))
            case core.Loop(carried, _, _, condition, body) if condition is not None:
                found = self.rounds(carried, body)
                self.other(condition)
                return found
            case core.Loop(carried, _, _, _, body) | core.Scan(carried, _, _, body):
                return self.rounds(carried, body)
            case core.Derivative(_, params, body, seed):
                self.other(*(p.start for p in params))
                self.other(body)
                return (Degree.OTHER, self.of(seed))
            case core.Custom(params, body):
                self.env.update((p.var, self.of(p.start)) for p in params)
                return self.of(body)
            case core.Handle(cells, body):
                return self.handled(cells, body)
            case core.Assign(reference, value) | core.Add(reference, value):
                return self.changed(reference, value)
            case _:
                self.other(*children(e))
                return Degree.OTHER

    def is_slice(self, e: core.Expr) -> bool:
        """Whether an element of a table is one of a slice."""
        found: set[Var] = set()
        while isinstance(e, core.At):
            for x in everything(e.index):
                found.update((x.var,) if isinstance(x, core.Ref) else size_variables(x))
            e = e.table
        return isinstance(e, core.Ref) and len(found & self.inside) < self.tables.get(e.var, 0)

    def other(self, *asked: core.Expr) -> None:
        """These hang on none of the variables."""
        for e in asked:
            if Degree.LINEAR in _parts(self.of(e)):
                raise NotLinearError

    def one_of(self, found: list[Degrees]) -> Degrees:
        out: Degrees = Degree.ZERO
        for d in found:
            out = self.either(out, d)
        return out

    def operation(self, name: str, args: tuple[core.Expr, ...]) -> Degrees:
        match name, args:
            case "add" | "sub", (a, b):
                return self.either(self.of(a), self.of(b))
            case "neg" | "stop_gradient", (a,):
                return self.of(a)
            case "mul", (a, b):
                one, two = self.of(a), self.of(b)
                if one == two == Degree.LINEAR:
                    raise NotLinearError
                if Degree.ZERO in (one, two):
                    return Degree.ZERO
                return two if one is Degree.OTHER else one
            case "div", (a, b):
                self.other(b)
                return self.of(a)
            case "select", (condition, a, b):
                self.other(condition)
                return self.either(self.of(a), self.of(b))
            case _:
                self.other(*args)
                return Degree.OTHER

    def rounds(self, carried: tuple[core.Carried, ...], body: core.Expr) -> Degrees:
        """Of a loop's values, which are carried on: as it is in the end in every round."""
        found: Degrees = tuple(self.of(c.start) for c in carried)
        while True:
            assert not isinstance(found, Degree)
            self.env.update(zip((c.var for c in carried), found, strict=True))
            value = self.of(body)
            new = self.either(found, value if len(carried) > 1 else (value,))
            if new == found:
                return found if len(carried) > 1 else found[0]
            found = new

    def handled(self, cells: tuple[core.Cell, ...], body: core.Expr) -> Degrees:
        for c in cells:
            self.env[c.var] = self.of(c.start)
            if c.monoid != "add" or c.operator is not None:
                self.other(c.start, body)
        while True:
            before = [self.env[c.var] for c in cells]
            value = self.of(body)
            after = [self.env[c.var] for c in cells]
            if after == before:
                return (value, *after)

    def changed(self, reference: core.Expr, value: core.Expr) -> Degrees:
        while isinstance(reference, core.At):
            self.other(reference.index)
            reference = reference.table
        if not isinstance(reference, core.Ref):
            raise NotLinearError
        old = self.env.get(reference.var, Degree.OTHER)
        self.env[reference.var] = self.either(old, self.of(value))
        return ()
