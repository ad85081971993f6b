"""A sum over all elements that picks those of one key is an accumulation by key. ainf → ainf

    before   for b, i:  c = eq(key[i], b)
             for b, i:  v = select(c, value[i], 0)
             for b:     x = add over i of v[b, i] from 0
    after    for b:     x = add over i of value[i] at key[i] from 0

The law: Σ_i [key_i = b] value_i collects, for every b, the values whose key is b, in the same
order; and adding the unit to an accumulator that started from it changes nothing, bit for bit.
So a histogram, k-means' new centres and a one-hot product cost one pass over the data instead of
one per key. Nested sums over the same monoid are taken together, which only reassociates them.
Under a guard, as in a branch, all of this is there where the sum is: the guard asks of no key.

What is picked may ask for b, or be there for its key alone: it is made where b is the key
(`copied`). A condition may compare several keys, and ask more besides: what it asks of the element
picks between the value and the unit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import field
from functools import cached_property
from math import prod

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Delay,
    Entry,
    Guard,
    Number,
    Op,
    Operand,
    Program,
    Read,
)
from naperian.ainf.walk import (
    atoms,
    closures,
    context_of,
    free,
    rewrite,
    rewrite_guards,
    rewrite_size,
    size_of,
)
from naperian.dtypes import DType
from naperian.names import Lit, Var, fresh
from naperian.node import mutable, replace
from naperian.passes.algebra.choices import Choice, Choices, Said
from naperian.passes.algebra.compact import compact
from naperian.passes.algebra.copied import Copies
from naperian.passes.algebra.replaced import replaced
from naperian.passes.bindings.uses import uses
from naperian.prims import Math, unit
from naperian.sizes import ONE, Clamp, Size, places, size

Guards = tuple[Guard, ...]

_FEW = 8  # with fewer keys, comparing with each of them in vectors is faster


def scatter(program: Program) -> Program:
    """The program with sums over a key's elements as accumulations by key."""
    made = _Scatter(program)
    bindings: list[Binding] = []
    for b in program.bindings:
        bindings.extend(made.binding(b))
    return replaced(compact(replace(program, bindings=tuple(bindings), indices=made.indices)))


@mutable
class _Parts:
    """What a condition says of indices, what else it asks, and all that is known where it holds."""

    keys: dict[Var, Operand] = field(default_factory=dict)
    asked: list[Operand] = field(default_factory=list)
    said: Said = ()


class _Scatter:
    def __init__(self, program: Program) -> None:
        self.math = program.math
        self.indices = dict(program.indices)
        self.bindings = {b.var: b for b in program.bindings}
        self.bounds: dict[Var, tuple[DType, Size | None]] = {
            p.var: (p.dtype, p.bound) for p in program.params
        }
        self.program = program
        dtypes = {v: dtype for v, (dtype, _) in self.bounds.items()}
        dtypes |= {b.var: b.dtype for b in program.bindings}
        self.choices = Choices(self.bindings, self.indices, dtypes)

    @cached_property
    def times(self) -> set[Var]:
        """The rounds of loops in order."""
        delays = {b.prim.time for b in self.program.bindings if isinstance(b.prim, Delay)}
        return delays | {i for i, x in self.indices.items() if x.condition is not None}

    @cached_property
    def uses(self) -> Counter[Var]:
        return uses(self.program)

    def binding(self, b: Binding) -> Iterator[Binding]:
        """The binding, or what takes its place."""
        if isinstance(b.prim, Accumulate) and len(b.prim.entries) == 1:
            over, value = self.nested(b, b.prim)
            found = self.one_hot(b, over, value)
            if found is not None:
                yield from found
                return
        yield b

    def nested(self, b: Binding, prim: Accumulate) -> tuple[tuple[Var, ...], Operand]:
        """The indices and the value summed, through sums that only this one reads."""
        entry = prim.entries[0]
        over, value = entry.over, entry.value
        regroups = self.math is not Math.STRICT or not b.dtype.is_float
        while isinstance(value, Read) and regroups:
            deeper = self.inner(value, prim, b.guards)
            if deeper is None:
                break
            names = dict(zip(self.bindings[value.var].context, value.at, strict=True))
            for i in deeper.over:  # its own copy: the sum that was taken in still has the index
                copy, index = fresh(i), self.indices[i]
                extent = None if index.extent is None else rewrite_size(index.extent, names)
                self.indices[copy] = replace(index, extent=extent)
                names[i] = size(copy)
                over = (*over, copy)
            value = rewrite(deeper.value, names)
        return over, value

    def inner(self, value: Read, outer: Accumulate, under: Guards) -> Entry | None:
        """The entry of a plain reduction by the same monoid that is read only here."""
        b = self.bindings.get(value.var)
        if b is None or not isinstance(b.prim, Accumulate) or not self.is_there(value, under):
            return None
        same = b.prim.monoid == outer.monoid and b.prim.init == outer.init
        if not same or len(b.prim.entries) != 1 or self.uses[value.var] != 1:
            return None
        entry = b.prim.entries[0]
        identity = entry.at == tuple(size(i) for i in b.context)
        return entry if identity and not entry.guards else None

    def one_hot(
        self, b: Binding, over: tuple[Var, ...], value: Operand
    ) -> Iterator[Binding] | None:
        """The accumulation by key, if the value is picked by comparing keys with indices of the
        target."""
        prim = b.prim
        assert isinstance(prim, Accumulate)
        entry = prim.entries[0]
        if entry.guards or entry.at != tuple(size(i) for i in b.context):
            return None
        nothing = Lit(unit(prim.monoid, b.dtype), b.dtype)
        chosen = self.op(value, "select", b.guards)
        if prim.init != nothing or chosen is None or chosen[2] != nothing:
            return None
        found = _Parts()
        self.part(b, over, chosen[0], b.guards, found)
        extents = [self.indices[i].extent for i in found.keys]
        known = [n.constant for n in extents if n is not None and n.constant is not None]
        if not extents or (len(known) == len(extents) and prod(known) < _FEW):
            return None
        if any(not found.keys.keys().isdisjoint(free(k)) for k in found.keys.values()):
            return None
        if any({*free(k)} <= {*b.context} for k in found.keys.values()):  # two indices of a target
            if not found.keys.keys().isdisjoint(free(chosen[1])):
                return None
        return self.accumulation(b, over, found, chosen[1])

    def part(
        self, b: Binding, over: tuple[Var, ...], c: Operand, under: Guards, found: _Parts
    ) -> None:
        """What a condition says of indices of the target, and what else it asks."""
        found.said += ((c, True),)
        both = self.op(c, "and", under)
        if both is None and (chosen := self.op(c, "select", under)) is not None:
            both = chosen[:2] if chosen[2] == Lit(False, DType.BOOL) else None
        if both is not None:
            self.part(b, over, both[0], under, found)
            self.part(b, over, both[1], (*under, Guard(both[0], True)), found)
            return
        compared = self.op(c, "eq", under) or ()
        for key, index in (compared, compared[::-1]) if compared else ():
            target = index.value.single if isinstance(index, Number) else None
            if isinstance(target, Var) and self.is_picked(b, over, key, target, found):
                found.keys[target] = key
                return
        found.asked.append(c)

    def is_picked(
        self, b: Binding, over: tuple[Var, ...], key: Operand, target: Var, found: _Parts
    ) -> bool:
        """Whether what an index of the target is compared with says where an element goes."""
        if target not in b.context or target in {*found.keys, *free(key), *self.times}:
            return False  # rounds come one after the other
        if self.indices[target].extent is None:
            return False
        around, others = closures(self.indices), {*over, *b.context} - {target}
        if any(target in around[i] for i in others):
            return False  # they go as far as it says
        if target in {v for g in b.guards for v in free(g.operand)}:
            return False
        return all(self.is_there(a, b.guards) for a in _reads(key))  # also for another index

    def op(self, value: Operand, name: str, under: Guards) -> tuple[Operand, ...] | None:
        """The operands of the operation a value is read from, at that point, if it is there."""
        if not isinstance(value, Read):
            return None
        b = self.bindings.get(value.var)
        if b is None or not isinstance(b.prim, Op) or b.prim.name != name:
            return None
        if not self.is_there(value, under):
            return None
        names = dict(zip(b.context, value.at, strict=True))
        return tuple(rewrite(a, names) for a in b.prim.args)

    def is_there(self, value: Read, under: Guards) -> bool:
        """Whether a value is there wherever some guards hold."""
        b = self.bindings.get(value.var)
        if b is None or not b.guards:
            return True
        names = dict(zip(b.context, value.at, strict=True))
        known = {(g.operand, g.holds) for g in under}
        return all((g.operand, g.holds) in known for g in rewrite_guards(b.guards, names))

    def accumulation(
        self, b: Binding, over: tuple[Var, ...], found: _Parts, picked: Operand
    ) -> Iterator[Binding] | None:
        """The sum by key, behind what is picked where the indices are the keys."""
        prim, indices = b.prim, dict(self.indices)
        assert isinstance(prim, Accumulate)
        made: list[Binding] = []
        guards: Guards = ()
        for target, key in found.keys.items():
            extent = self.indices[target].extent
            assert extent is not None
            guards += tuple(self.inside(b, key, extent, made))
        context = (*b.context, *over)

        def along(_: Binding, r: Read) -> bool:
            """Whether a value belongs to an element, not to a key alone."""
            return not {*over}.isdisjoint(free(r))

        asking = Copies(self.choices, context, along, Choice(found.keys, picked, (), ()), guards)
        asked = tuple(Guard(asking.operand(c), True) for c in found.asked)
        there = Copies(
            self.choices, context, along, Choice(found.keys, picked, found.said, ()),
            (*guards, *asked),
        )  # fmt: skip
        value = there.operand(picked)
        known = (*b.guards, *asked, *(Guard(c, True) for c, _ in found.said))
        if asking.failed or there.failed or not all(
            self.is_there(a, known) for v in (value, *(g.operand for g in asked)) for a in _reads(v)
        ):
            self.indices.clear()
            self.indices.update(indices)
            return None
        made += asking.made + there.made
        nothing = Lit(unit(prim.monoid, b.dtype), b.dtype)
        for g in reversed(asked):
            own = context_of(self.indices, (value, g.operand, *(x.operand for x in guards)))
            op = Op("select", (g.operand, value, nothing))
            made.append(Binding(fresh(b.var), own, guards, b.dtype, op, b.origin))
            value = Read(made[-1].var, places(own))
        where = tuple(there.names.get(i, size(i)) for i in b.context)
        entry = Entry(over, where, value, guards)
        made.append(replace(b, prim=replace(prim, entries=(entry,))))
        return iter(made)

    def inside(
        self, b: Binding, key: Operand, extent: Size, made: list[Binding]
    ) -> Iterator[Guard]:
        """The conditions under which a key is an index of the target, if that is not known."""
        at = size_of(key)
        if self.in_range(key, extent, b.guards):
            return
        if self.first_best(key, extent, b.guards) or _kept_in(key) == extent:
            # 0 if there is none
            made.append(self.test("some", "lt", Lit(0, DType.I64), Number(extent), b))
            yield Guard(Read(made[-1].var, places(made[-1].context)), True, extent - ONE)
            return
        for name, fact in (("ge", at), ("lt", extent - at - ONE)):
            limit = Number(extent) if name == "lt" else Lit(0, DType.I64)
            made.append(self.test("inside", name, key, limit, b))
            yield Guard(Read(made[-1].var, places(made[-1].context)), True, fact)

    def test(self, told: str, name: str, key: Operand, limit: Operand, b: Binding) -> Binding:
        """A comparison, in the loops that it depends on: an extent may be that of a row."""
        closed = closures(self.indices)
        asked = (v for o in (key, limit, *(g.operand for g in b.guards)) for v in free(o))
        needed = {i for v in asked if v in closed for i in closed[v]}
        context = tuple(i for i in self.indices if i in needed)
        return Binding(
            fresh(told), context, b.guards, DType.BOOL, Op(name, (key, limit)), b.origin
        )

    def first_best(self, key: Operand, extent: Size, under: Guards) -> bool:
        """Whether a key is the place of the first best of as many as there are targets."""
        b = self.bindings.get(key.var) if isinstance(key, Read) else None
        if not isinstance(key, Read) or b is None or not isinstance(b.prim, Accumulate):
            return False
        if not self.is_there(key, under):
            return False
        if b.prim.monoid not in ("argmin", "argmax"):
            return False
        return self.indices[b.prim.entries[0].over[0]].extent == extent

    def in_range(self, key: Operand, extent: Size, under: Guards) -> bool:
        """Whether every key is an index of the target, by its dtype or its parameter's bound, or as
        it is kept in a range."""
        kept = _kept_in(key)
        if kept is not None and kept.constant and extent.constant:
            return 0 < kept.constant <= extent.constant
        if not isinstance(key, Read):
            return False
        dtype, bound = self.bounds.get(key.var, (None, None))
        if bound is not None:
            return bound == extent
        cast = self.op(key, "cast", under)
        if cast is not None and isinstance(cast[0], Read):
            dtype = self.bounds.get(cast[0].var, (None, None))[0]
        wide = extent.constant
        return dtype is not None and dtype.is_unsigned and wide is not None and (
            wide >= 1 << dtype.bits
        )


def _kept_in(key: Operand) -> Size | None:
    """How many indices the set has in whose range a key is kept by `clamp`."""
    atom = key.value.single if isinstance(key, Number) else None
    return atom.extent if isinstance(atom, Clamp) else None


def _reads(o: Operand) -> Iterator[Read]:
    return (a for a in atoms(o) if isinstance(a, Read))
