"""Scans with checkpoints as loops that carry what is made of their tables. core → core

    let h = (scan a = a0 for t: s. f(a, t)) in        let l = (loop a = a0, e = 0.0 for t: s.
    let d = (for i: s. h[i] - y[i]) in           →        let a' = f(a, t) in let d' = a' - y[t] in
    sum i: s. d[i] ** 2                                   (a', e + d' ** 2)) in l.1

The table of a scan is the history that its derivative reads; a loop has none, and may have
checkpoints. So tables along the scan that are read at their own element only, the scan's and those
made of it, are a name in each round, sums of them are carried, and so is an element that is chosen
before. What reads a table otherwise needs it as a whole: such a scan stays.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import fields
from typing import Any, TypeVar

from naperian.core.resolve import Resolve, resize
from naperian.core.syntax import (
    Add,
    Assign,
    At,
    Carried,
    Cell,
    Derivative,
    Expr,
    For,
    Get,
    If,
    Let,
    Literal,
    Loop,
    Number,
    Op,
    OwnRule,
    Pack,
    Part,
    Print,
    Reduce,
    Ref,
    Scan,
    Tell,
    Throw,
)
from naperian.core.walk import everything, size_variables
from naperian.names import Var
from naperian.node import replace
from naperian.passes.normal.denote import part_of, size_of
from naperian.sizes import Size, rename, size
from naperian.source import Span
from naperian.types import INT, SETS, Exists, Fin, Index, Scalar, Set, Table, Tuple, Type

_CARRIED = ("add", "mul", "min", "max")
_E = TypeVar("_E", bound=Expr)
_TYPES = (Scalar, Index, Table, Tuple, Exists)


def streamed(body: Expr, chosen: Container[Span] | None = None) -> tuple[Expr, list[Span]]:
    """An expression in normal form whose scans inside derivatives in reverse, those at the `chosen`
    places (or all), are loops where they can be; and the places of those that are."""
    streams = _Streams(chosen)
    return streams.expr(body, False), streams.made


class _Streams:
    def __init__(self, chosen: Container[Span] | None) -> None:
        self.chosen = chosen
        self.made: list[Span] = []

    def expr(self, e: Expr, backwards: bool) -> Expr:
        backwards = backwards or (isinstance(e, Derivative) and not e.forward)
        if backwards and isinstance(e, Let) and isinstance(e.value, Scan):
            origin = e.value.origin
            if self.chosen is None or origin in self.chosen:
                made = _Stream(e.value).instead(e)
                if made is not None:
                    self.made.append(origin)
                    return self.expr(made, backwards)
        return _rebuilt(e, lambda x: self.expr(x, backwards), _SAME)


class _WholeError(Exception):
    """Somebody needs a table as a whole."""


class _Stream:
    """The loop that takes a scan's place."""

    def __init__(self, scan: Scan) -> None:
        self.time, self.set, self.origin = scan.time, scan.set, scan.origin
        self.carried: list[Carried] = []
        self.nexts: list[Expr] = []
        self.steps: list[tuple[Var, Expr]] = []  # the names of a round
        self.here: dict[Var, Expr] = {}  # the elements of tables along the scan, in their round
        self.beside: dict[tuple[Var, Size], Expr] = {}  # what is a round before, or after
        self.scans: dict[Var, range] = {}  # which carried variables are a scan's
        self.before: list[tuple[Var, Expr]] = []
        self.late: set[Var] = set()  # what is there after the loop only
        self.chosen: dict[tuple[Var, Size], Expr] = {}
        self.loop = Var("l")

    def instead(self, e: Let) -> Expr | None:
        """What `let h = (scan …) in …` is; None if the table is needed as a whole."""
        scan = e.value
        assert isinstance(scan, Scan)
        if not isinstance(scan.set, Fin):
            return None
        try:
            self.scan(e.var, scan)
            rest = self.after(e.body)
        except _WholeError:
            return None
        body: Expr = Pack(tuple(self.nexts))
        for v, x in reversed(self.steps):
            body = Let(v, x, body)
        carried = tuple(self.carried)
        rest = Let(self.loop, Loop(carried, self.time, self.set, None, body, self.origin), rest)
        for v, x in reversed(self.before):
            rest = Let(v, x, rest)
        return rest

    # what follows the scan

    def after(self, e: Expr) -> Expr:
        """What follows, with what the loop is left with in the place of what it does."""
        if not isinstance(e, Let):
            return self.outside(e, {}, False)
        v, value = e.var, e.value
        if self.mentions(value, self.here):
            if isinstance(value, Scan) and value.set == self.set:
                self.scan(v, value)
                return self.after(e.body)
            if isinstance(value, For) and value.set == self.set:
                self.step(v, self.inside(value.body, value.var))
                self.here[v] = Ref(self.steps[-1][0])
                return self.after(e.body)
            value = self.outside(value, {}, False)
        elif not self.mentions(value, self.late) and not any(map(_is_effect, everything(value))):
            self.before.append((v, value))
            return self.after(e.body)
        self.late.add(v)
        return Let(v, value, self.after(e.body))

    def outside(self, e: Expr, inner: dict[Var, Set | None], guarded: bool) -> Expr:
        """An expression after the loop. `inner` are the variables bound in it, with their sets if
        they are indices; with `guarded` it may not be computed at all."""
        if not self.mentions(e, self.here):
            return e
        match e:
            case Reduce(monoid, _, s) if s == self.set and monoid in _CARRIED:
                return self.summed(e, inner, guarded)
            case At(Ref(h), index, _) if h in self.scans:
                return self.element(h, index, inner)
            case For(var, s, body):
                return For(var, s, self.outside(body, {**inner, var: s}, guarded))
            case Reduce(_, var, s, init, value):
                init = self.outside(init, inner, guarded)
                return replace(e, init=init, value=self.outside(value, {**inner, var: s}, guarded))
            case Let(var, value, body):
                value = self.outside(value, inner, guarded)
                return Let(var, value, self.outside(body, {**inner, var: None}, guarded))
            case If(condition, then, otherwise):
                sides = (self.outside(x, inner, True) for x in (then, otherwise))
                return If(self.outside(condition, inner, guarded), *sides)
            case Part(whole, k):
                return part_of(self.outside(whole, inner, guarded), k)
            case Op() | Pack() | At() | Literal():
                return _rebuilt(e, lambda x: self.outside(x, inner, guarded), _SAME)
            case _:
                raise _WholeError

    def summed(self, e: Reduce, inner: dict[Var, Set | None], guarded: bool) -> Expr:
        """A sum along the scan: it is carried, a table of them if it is one for each index."""
        if self.mentions(e.init, self.here) or (guarded and not _is_safe(e)):
            raise _WholeError
        over = [(v, s) for v, s in inner.items() if self.mentions(e, (v,))]
        sets = [s for _, s in over if s is not None and inner.keys().isdisjoint(_variables(s))]
        if len(sets) < len(over):
            raise _WholeError
        total, own = Var("total"), [Var(v.name) for v, _ in over]
        names = {v: w for (v, _), w in zip(over, own, strict=True)}
        kind: Type = e.type
        start, cell = e.init, _renamed(self.inside(e.value, e.var), names)
        held: Expr = Ref(total)
        for w, s in zip(own, sets, strict=True):
            held = At(held, Ref(w), s)
        cell = Op(e.monoid, (held, cell), e.type)
        first = {v: Var(v.name) for v, _ in over}
        start = _renamed(start, first)
        for (v, _), w, s in reversed([*zip(over, own, sets, strict=True)]):
            kind, cell, start = Table(s, kind), For(w, s, cell), For(first[v], s, start)
        made = self.carry(total, kind, start, cell)
        for (v, _), s in zip(over, sets, strict=True):
            made = At(made, Ref(v), s)
        return made

    def element(self, h: Var, index: Expr, inner: dict[Var, Set | None]) -> Expr:
        """An element of a scan's table that is chosen before: the loop keeps it."""
        at = size_of(index)
        if at is None or self.mentions(index, {*inner, *self.late}):
            raise _WholeError
        if (h, at) not in self.chosen:
            now = Op("eq", (Number(size(self.time)), Number(at)), INT)
            own = self.scans[h]
            found = []
            for k in own:
                c = self.carried[k]
                if not isinstance(c.start, Ref):
                    self.before.append((Var(c.var.name), c.start))
                    self.carried[k] = c = replace(c, start=Ref(self.before[-1][0]))
                new = self.here[h] if len(own) == 1 else part_of(self.here[h], k - own.start)
                kept = Var(c.var.name)
                following = _either(now, new, Ref(kept), c.type)
                found.append(self.carry(kept, c.type, c.start, following))
            self.chosen[h, at] = found[0] if len(found) == 1 else Pack(tuple(found))
        return self.chosen[h, at]

    # the loop

    def scan(self, v: Var, e: Scan) -> None:
        """A scan along the first one, or that itself."""
        if any(self.mentions(c.start, {*self.here, *self.late}) for c in e.carried):
            raise _WholeError
        new = self.step(v, self.inside(e.body, e.time))
        self.scans[v] = range(len(self.carried), len(self.carried) + len(e.carried))
        parts: list[Expr] = [Part(Ref(new), k) for k in range(len(e.carried))]
        if len(parts) == 1:
            parts = [Ref(new)]
        for c, following in zip(e.carried, parts, strict=True):
            self.carry(c.var, c.type, c.start, following)
        old: list[Expr] = [Ref(c.var) for c in e.carried]
        items = [x[0] if len(x) == 1 else Pack(tuple(x)) for x in (old, parts)]
        self.here[v] = items[not e.exclusive]
        self.beside[v, size(1 if e.exclusive else -1)] = items[e.exclusive]

    def step(self, v: Var, e: Expr) -> Var:
        new = Var(v.name)
        self.steps.append((new, e))
        return new

    def carry(self, v: Var, kind: Type, start: Expr, following: Expr) -> Expr:
        self.carried.append(Carried(v, kind, start))
        self.nexts.append(following)
        return Part(Ref(self.loop), len(self.carried) - 1)

    def inside(self, e: Expr, index: Var) -> Expr:
        """What is done at an index along the scan, in its round."""
        match e:
            case At(Ref(h), Ref(i), _) if h in self.here and i == index:
                return self.here[h]
            case At(Ref(h), Number(at), _) if (h, at - size(index)) in self.beside:
                return self.beside[h, at - size(index)]
            case Part(whole, k):
                return part_of(self.inside(whole, index), k)
            case Ref(v) if v == index:
                return Ref(self.time)
            case _:
                if self.mentions_itself(e, {*self.here, *self.late}) or _is_effect(e):
                    raise _WholeError
                names = resize(lambda n: rename(n, {index: size(self.time)}))
                return _rebuilt(e, lambda x: self.inside(x, index), names)

    # which variables are mentioned

    def mentions(self, e: Expr, names: Container[Var]) -> bool:
        return any(self.mentions_itself(x, names) for x in everything(e))

    def mentions_itself(self, e: Expr, names: Container[Var]) -> bool:
        return (isinstance(e, Ref) and e.var in names) or any(v in names for v in size_variables(e))


def _is_effect(e: Expr) -> bool:
    return isinstance(e, Get | Assign | Add | Throw | Tell | Print)


def _variables(s: Set) -> set[Var]:
    return {*size_variables(Literal(s, ()))}


def _is_safe(e: Reduce) -> bool:
    """Whether nothing is read beyond a table where the sum need not be computed: only elements of
    the same set."""
    known = {e.var: e.set}
    for x in everything(e.value):
        if isinstance(x, For | Reduce):
            known[x.var] = x.set
    return all(
        isinstance(x.index, Ref) and known.get(x.index.var) == x.set
        for x in everything(e.value) if isinstance(x, At)
    )  # fmt: skip


def _either(condition: Expr, a: Expr, b: Expr, t: Type) -> Expr:
    """One of two values by a condition, element by element."""
    if not isinstance(t, Table):
        return If(condition, a, b)
    if t.index is not None:
        raise _WholeError
    i = Var("i")
    cell = _either(condition, At(a, Ref(i), t.set), At(b, Ref(i), t.set), t.cell)
    return For(i, t.set, cell)


def _renamed(e: Expr, names: dict[Var, Var]) -> Expr:
    if isinstance(e, Ref):
        return Ref(names.get(e.var, e.var))
    sizes = {v: size(w) for v, w in names.items()}
    return _rebuilt(e, lambda x: _renamed(x, names), resize(lambda n: rename(n, sizes)))


_SAME = resize(lambda n: n)


def _rebuilt(e: _E, f: Callable[[Expr], Expr], r: Resolve) -> _E:
    """The expression with others directly in it, and its sizes as `r` has them."""

    def part(x: Any) -> Any:
        match x:
            case Carried() | Cell():
                return replace(x, type=r.type(x.type), start=f(x.start))
            case OwnRule():
                given = tuple((v, r.type(t)) for v, t in x.given)
                return replace(x, given=given, body=f(x.body))
            case tuple():
                return tuple(map(part, x))
            case Size():
                return r.size(x)
            case _ if isinstance(x, SETS):
                return r.set(x)
            case _ if isinstance(x, _TYPES):
                return r.type(x)
            case _ if type(x).__module__ == For.__module__:
                return f(x)
            case _:
                return x

    changed = {}
    for own in fields(e):
        old = getattr(e, own.name)
        new = part(old)
        if new is not old:
            changed[own.name] = new
    return replace(e, **changed) if changed else e
