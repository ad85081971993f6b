"""Reverse mode: every read of an active binding sends a cotangent back to it. ainf → ainf

    for i<n: y = x[i + 1]²      x̄ gets 2·ȳ[i]·x[i + 1] at i + 1, for i<n: a `Part`
    for q<m: x̄ = 2·ȳ[q - 1]·x[q] if 0 <= q - 1 < n else 0

Nothing is stored where it goes; when all readers of a binding have been seen, its parts are put
together (`closing`). A binding with one part that touches no more points than it has hands that
part on as it is, and so does one with two that touch few of them: what flows back from a maximum
or a single element stays one element.

A loop's cotangents are a loop over the same rounds, last one first: with h[t + 1] = next[t], the
cotangent of h at T - τ is the value of a delay after τ rounds (`_loop`).
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import partial

from naperian.ainf.syntax import Accumulate, Binding, Check, Delay, Entry, Guard, Op, Operand, Read
from naperian.ainf.walk import (
    atoms_of,
    free,
    rewrite,
    rewrite_size,
    step,
    variables,
)
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.passes.bindings.builder import Guards
from naperian.passes.bindings.place import Place
from naperian.passes.bindings.states import state_of
from naperian.passes.bindings.values import leaves
from naperian.passes.derivatives.active import active, flowing_into, groups, is_loop, outermost
from naperian.passes.derivatives.again import again
from naperian.passes.derivatives.asked import Asked
from naperian.passes.derivatives.copies import body
from naperian.passes.derivatives.counted import counted
from naperian.passes.derivatives.entries import To
from naperian.passes.derivatives.factors import others
from naperian.passes.derivatives.found import found, lengths
from naperian.passes.derivatives.late import Late
from naperian.passes.derivatives.parts import At, Part, alike
from naperian.passes.derivatives.ruled import Ruled, cotangents
from naperian.passes.derivatives.rules import Flow, Rules, chosen, patch, renamed, together
from naperian.passes.derivatives.shares import Share, domain, latest, shares, simple, winner
from naperian.passes.derivatives.tiles import are_tiles, in_tiles
from naperian.passes.derivatives.ways import ways
from naperian.sizes import ONE, Size, size

_PLACES = 2  # of one binding that cotangents are handed on at, each by itself: more are a table


class Cotangents(Asked):
    """The cotangents of the sources, through the bindings from `start` on. `seeds` are the parts
    of their results."""

    def __init__(
        self, place: Place, start: int, sources: set[Var], seeds: list[tuple[Var, Part]]
    ) -> None:
        super().__init__(place)
        self.sources = {}
        self.ops = None
        self.leading = {}
        self.some = {}
        self.around = place.guards
        self.parts: dict[Var, list[Part]] = {}
        self.names: dict[Var, Size] = {}  # the rounds of those loops, for their own times
        self.backs: dict[Var, Var] = {}  # their times, for those times
        bindings = flowing_into(active(self.b.bindings[start:], sources), [v for v, _ in seeds])
        self.active = {*bindings, *sources}
        self.ways = ways(self.b, bindings, [v for v, _ in seeds if v in self.active])
        for v, part in seeds:
            if v in self.active:
                self.parts.setdefault(v, []).append(part)
        self.through(bindings)

    def through(self, bindings: Mapping[Var, Binding], cut: frozenset[Var] = frozenset()) -> None:
        """Back through bindings, readers first."""
        times = {b.prim.time for b in bindings.values() if isinstance(b.prim, Delay)}
        around: dict[Var, set[Var]] = {}  # the loops around a loop
        for b in bindings.values():
            if isinstance(b.prim, Delay):
                here = times & self.b.closed(b.context)
                around[b.prim.time] = here & around.get(b.prim.time, here)
        loops: dict[Var, list[Binding]] = {}  # all that is in them
        for b in bindings.values():
            own = {b.prim.time} if isinstance(b.prim, Delay) else set()
            inside = own.union(*(self.b.closures[i] for i in b.context))
            for t in inside:
                if t in self.scope or b.var in cut:
                    continue  # it stands still
                if around.get(t, inside) <= inside:  # else it was made before
                    loops.setdefault(t, []).append(b)
        wholes = [[b.var for b in inside] for t, inside in loops.items() if self.twice(t, inside)]
        for component in groups(bindings, cut, wholes):
            if component[0].var in cut:
                continue
            outer = self.b.origin
            self.b.origin = component[0].origin.derived("cotangent")
            if is_loop(component):
                self.loop(component)
            else:
                self.single(component[0])
            self.b.origin = outer

    def twice(self, time: Var, inside: list[Binding]) -> bool:
        """Whether a loop is made again, with all that is in it."""
        if self.b.indices[time].condition is not None or time in self.b.strips:
            return True
        delayed = any(isinstance(b.prim, Delay) and b.prim.time == time for b in inside)
        return delayed and bool(lengths(self.b, inside, time))

    def cotangent(self, var: Var, at: At) -> Flow:
        """All that was sent to `var`, at a point of its context."""
        return self.closed(var, self.parts.get(var, []), at)

    # sending

    def send(
        self, o: Operand, over: tuple[Var, ...], names: Mapping[Var, Size], value: Flow,
        guards: Guards,
    ) -> None:
        """A cotangent for what an operand reads, its indices replaced by `names`."""
        if value is None or not isinstance(o, Read) or o.var not in self.active:
            return
        at = tuple(rewrite_size(e, names) for e in o.at)
        self.parts.setdefault(o.var, []).append(Part(over, at, value, guards))

    def single(self, b: Binding) -> None:
        """Back through one binding."""
        if isinstance(b.prim, Op) and b.prim.name in ("ruled", "gate"):
            if b.prim.name == "gate":  # all that reads the value was seen
                self.ruled(self.b.ruled[b.prim.code])
            return
        parts = self.parts.get(b.var, [])
        if not parts:
            return
        if isinstance(b.prim, Accumulate) and not simple(b, b.prim):
            self.keyed(b, b.prim)
            return
        apart = self.handed_on_apart(b, parts)
        for part in apart:
            names = dict(zip(b.context, part.at, strict=True)) | self.names
            self.push(b, part.over, names, part.value, part.guards)
        if apart:
            return
        names, over = self.points(b.context)
        value = self.cotangent(b.var, tuple(names.values()))
        if value is not None:
            self.push(b, over, names, value, self.read(b, parts, names))

    def points(
        self, context: tuple[Var, ...], new: AbstractSet[Var] = frozenset()
    ) -> tuple[dict[Var, Size], tuple[Var, ...]]:
        """All points of a context, and what they range over: the rounds of loops that run
        backwards, and copies of `new` indices and of those that go as far as such a round says."""
        far = [i for i in context if i not in self.names and (i in new or self.is_far(i))]
        own, copies = self.copied(far, self.names)
        names = {i: own.get(i) or self.names.get(i, size(i)) for i in context}
        return names, (*self.renamed(tuple(i for i in context if i not in own)), *copies)

    def is_far(self, i: Var) -> bool:
        """Whether an index goes as far as a round of a loop that runs backwards says."""
        return not self.b.closures[i].isdisjoint(self.names)

    def ruled(self, r: Ruled) -> None:
        """Back through a call of a function with a rule of its own."""
        if not any(self.parts.get(y.var) for _, y in leaves(r.value) if isinstance(y, Read)):
            return
        names, over = self.points(r.scope)
        guards = renamed(tuple(g for g in r.guards if g not in self.around), names)
        around = self.place.guards
        inside = around + tuple(g for g in guards if g not in around)
        scope = self.b.order(self.b.closed((*over, *self.scope)))
        sent = cotangents(r, lambda y: self.cotangent(y.var, y.at), names, scope, inside)
        for x, own, v in [*sent]:
            self.send(x, (*over, *own), {}, v, guards)

    def handed_on_apart(self, b: Binding, parts: list[Part]) -> list[Part]:
        """The parts that go on as they are, each at its own points: one alone, and a few that go to
        few of the points there are."""
        if not all(self.is_in_round(p, b.context) for p in parts):
            return []
        if len(parts) == 1 and self.sparse(parts[0]):
            return parts
        if not all(self.is_few(p, b.context) for p in parts):
            return []
        parts = alike(self.place, b.dtype, parts, self.stays)
        return parts if len(parts) <= _PLACES else []

    def is_in_round(self, part: Part, context: tuple[Var, ...]) -> bool:
        """Whether a part goes to the round that a loop backwards is in; what was sent from outside
        to values of all rounds is found by the round."""
        return all(self.names.get(i, e) == e for i, e in zip(context, part.at, strict=True))

    def sparse(self, part: Part) -> bool:
        """Whether every index of a part is an index of its target: no more points than that. Within
        a round of a loop backwards, the rounds of others count backwards, too: what they send goes
        on in their order, and nothing is kept to be read in the other one."""
        back = self.backwards if self.open else set()
        return None not in (self.told(part, i, back) for i in self.domain(part))

    def is_few(self, part: Part, context: tuple[Var, ...]) -> bool:
        """Whether every index of a part is an index of its target, which has many points more in
        the same round."""
        told = {self.told(part, i, self.backwards) for i in self.domain(part)}
        others = [
            i for k, i in enumerate(context)
            if i not in self.names and k not in told and not self.stands(i)
        ]  # fmt: skip
        return None not in told and any(map(self.is_long, others))

    def told(self, part: Part, i: Var, back: AbstractSet[Var]) -> int | None:
        """The axis of a target that is an index of a part, or that index counted backwards."""
        for k, e in enumerate(part.at):
            if e.single == i or (i in back and i in variables(e) and step(e, i) == -1):
                return k
        return None

    def renamed(self, indices: tuple[Var, ...]) -> tuple[Var, ...]:
        """Indices, the times of loops that run backwards as theirs."""
        found: dict[Var, None] = {}
        for i in indices:
            for v in variables(self.names[i]) if i in self.names else (i,):
                if v in self.b.indices:
                    found[v] = None
        return tuple(found)

    def push(
        self, b: Binding, over: tuple[Var, ...], names: dict[Var, Size], v: Operand, guards: Guards
    ) -> None:
        """The cotangent `v` of a binding, at the point that `names` give, to its operands."""
        mine = tuple(g for g in b.guards if g not in self.around)
        if isinstance(b.prim, Op):
            mine += self.asked(b) + self.leads(b)
        mine = renamed(mine, names)
        guards = self.place.telling(guards + tuple(g for g in mine if g not in guards))
        rules = Rules(self.place, b.dtype, guards)
        match b.prim:
            case Op("select", (condition, yes, no)):
                test = rewrite(condition, names)
                for o, holds, other in ((yes, True, no), (no, False, yes)):
                    asked = tuple(self.place.guard(test, holds))  # some may be sure there
                    facts = all(g.fact is not None for g in asked)
                    if not facts or (len(asked) > 1 and not isinstance(other, Lit)):
                        asked = (Guard(test, holds),)
                    self.send(o, over, names, v, (*guards, *asked))
            case Op(_, args):
                y = rewrite(Read(b.var, tuple(size(i) for i in b.context)), names)
                given = tuple(rewrite(a, names) for a in args)
                for k, a in enumerate(args):
                    if isinstance(a, Read) and a.var in self.active:
                        to = self.b.dtypes[a.var]
                        self.send(a, over, names, rules.scaled(b, k, v, y, given, to), guards)
            case Accumulate():
                self.accumulate(b, b.prim, over, names, v, guards)
            case Delay() | Check():
                raise AssertionError("delays are gone through otherwise; a check has no value")

    def accumulate(
        self, b: Binding, prim: Accumulate, over: tuple[Var, ...], names: dict[Var, Size],
        v: Operand, guards: Guards,
    ) -> None:
        """A reduction: every value gets what its target has, times its share."""
        e = prim.entries[0]
        self.send(prim.init, over, names, *self.first(b, prim, names, v, guards))
        if prim.monoid in ("max", "min"):
            e = together(self.place, b, prim, e)
            if not self.open and isinstance(e.value, Read):
                at = tuple(map(self.inside, e.value.at))
                if are_tiles(self.b, e, at, over, names):
                    own, copies = self.copied(e.over, names)
                    inner = names | own
                    best = in_tiles(self.place, b, prim, e, inner, guards)
                    if best is not None:
                        read = replace(e.value, at=at)
                        self.send(read, (*over, *copies), inner, v, (*guards, best))
                        return
            where, found = chosen(self.place, b, prim, e)
            self.know(where)
            there = {i: rewrite_size(x, names) for i, x in where.items()}
            self.send(e.value, over, {**names, **there}, v, guards + renamed(found, names))
            return
        own, copies = self.copied(e.over, names)
        inner = names | own
        mine = guards + renamed(e.guards, inner)
        if prim.monoid == "mul":
            rest = rewrite(others(self.place, b, prim, e), inner)
            v = Rules(self.place, b.dtype, mine)("mul", v, rest)
        self.send(e.value, (*over, *copies), inner, v, mine)

    def know(self, where: Mapping[Var, Size]) -> None:
        """Where a best value was found is in the range of its index, also to what it is sent."""
        ends: dict[Var, Size] = {}
        for i, x in where.items():
            n, at = self.extent(i), atoms_of(x)
            if len(at) == 1 and isinstance(at[0], Read) and n is not None:
                ends[at[0].var] = ends.get(at[0].var, ONE) * n
        self.ends_of |= {v: n for v, n in ends.items() if {*variables(n)} <= {*self.b.sizes}}

    def first(
        self, b: Binding, prim: Accumulate, names: Mapping[Var, Size], v: Operand, guards: Guards
    ) -> tuple[Flow, Guards]:
        """What the first value of a reduction gets."""
        if not isinstance(prim.init, Read) or prim.init.var not in self.active:
            return None, guards
        share, _ = shares(self.place, b, prim)
        guards += renamed(share.guards, names)
        if share.factor is not None:
            v = Rules(self.place, b.dtype, guards)("mul", v, rewrite(share.factor, names))
        return v, guards

    def keyed(self, b: Binding, prim: Accumulate) -> None:
        """Back through an accumulation with computed targets, or with several entries."""
        outside = self.names
        far = [i for i in b.context if i not in outside and self.is_far(i)]
        self.names = outside | self.copied(far, outside)[0]
        self.to_entries(b, prim, [i for i in b.context if i not in outside])
        self.names = outside

    def to_entries(self, b: Binding, prim: Accumulate, axes: list[Var]) -> None:
        """The same; `axes` are not those of loops that run backwards."""
        here = tuple(rewrite_size(size(i), self.names) for i in b.context)
        back = self.cotangent(b.var, here)
        if back is None:
            return
        last = prim.monoid == "last"
        init, entries = (None, latest(self.place, b, prim)) if last else (
            shares(self.place, b, prim)
        )
        best = winner(self.place, b, prim)
        if best is not None:
            self.to_winner(b, prim.entries[0].value, *best, back)
            entries = []
        for e, share in zip(prim.entries, entries, strict=best is None):
            there = dict(zip(b.context, e.at, strict=True))
            self.from_target(b, e.value, domain(b, e), there, e.guards, share, back)
        itself = {i: size(i) for i in b.context}
        if init is None:
            back, init = self.cleared(b, prim, axes, back), Share(())
        self.from_target(b, prim.init, b.context, itself, (), init, back)

    def to_winner(
        self, b: Binding, o: Operand, where: Mapping[Var, Size], found: Guards, back: Operand
    ) -> None:
        """From every target of a largest or smallest value to where that was: there are as many of
        these as targets, and not as values."""
        self.know(where)
        names, over = self.points(b.context)
        mine = tuple(g for g in b.guards if g not in self.around)
        there = {i: rewrite_size(x, names) for i, x in where.items()}
        self.send(o, over, {**names, **there}, back, renamed(mine + found, names))

    def from_target(
        self, b: Binding, o: Operand, indices: tuple[Var, ...], there: dict[Var, Size],
        own: Guards, share: Share, back: Operand,
    ) -> None:
        """To an operand that is combined into the target at `there`: its share of `back`. In a
        loop it is read before the target is changed."""
        if not isinstance(o, Read) or o.var not in self.active:
            return
        plain = [i for i in indices if i not in self.b.indices or i in b.context]
        outer = {i: self.names.get(i, size(i)) for i in plain}
        inner, copies = self.copied([i for i in indices if i not in plain], outer)
        names = {**self.names, **outer, **inner}
        at = {i: rewrite_size(x, names) for i, x in there.items()}
        guards = renamed(tuple(g for g in b.guards if g not in self.around), at)
        guards += renamed(own + share.guards, names)
        at |= {self.here(i): x for i, x in at.items()}
        v = rewrite(back, at)
        if self.open and v != back and isinstance(v, Read):
            v = self.b.bind(Op("held", (v,)), b.dtype, self.place.guards + guards, b.origin)
        if share.factor is not None:
            rules = Rules(self.place, b.dtype, guards)
            v = rules("mul", v, rewrite(share.factor, names))
        self.send(o, (*self.renamed(tuple(plain)), *copies), names, v, guards)

    def here(self, i: Var) -> Var:
        """The index that stands for another one, if it is one."""
        v = self.names[i].single if i in self.names else i
        return v if isinstance(v, Var) else i

    def cleared(
        self, b: Binding, prim: Accumulate, axes: list[Var], back: Operand
    ) -> Operand:
        """What the table had before gets, where entries replaced it: nothing."""
        made: list[tuple[Entry, To]] = []
        for e in prim.entries:
            own, copies = self.copied(e.over, self.names)
            names = self.names | own
            to = {
                self.here(i): rewrite_size(x, names) for i, x in zip(b.context, e.at, strict=True)
                if i in axes and x != size(i)
            }  # fmt: skip
            made.append((Entry(copies, (), Lit(0.0, b.dtype), renamed(e.guards, names)), to))
        return self.entered("last", back, made, map(self.here, axes), b.dtype)

    # loops

    def loop(self, component: list[Binding]) -> None:
        """Back through a loop: delays of the cotangents, running down.

        With H[u] the cotangent of h[u] and w[τ] = H[T - τ]: w[0] is what was sent to h[T] from
        outside; w[τ + 1] what was sent to h[t] for t = T - 1 - τ, from outside and by the body,
        in which next[t] gets H[t + 1] = w[τ]. At the end the first value gets H[0] = w[T]."""
        delayed = any(isinstance(b.prim, Delay) for b in component)
        if not delayed or not any(self.parts.get(b.var) for b in component):
            return
        time = outermost(component)
        if self.b.indices[time].condition is not None:
            component, time = self.moved(component, *counted(self.b, component, time))
        if time not in self.b.strips:
            while late := lengths(self.b, component, time):  # of rows, then of rows in these
                component, time = self.moved(component, *found(self.b, component, time, late))
        delays = [b for b in component if isinstance(b.prim, Delay) and b.prim.time is time]
        outer, outside = self.place.guards, self.names
        axes = self.b.order(self.b.closures[time] - {time, *outside})  # its rounds go by these
        self.names = outside | self.copied([i for i in axes if self.is_far(i)], outside)[0]
        self.place.guards = outer + self.conditions(delays, time)
        extent = self.extent(time)
        assert extent is not None
        rounds = rewrite_size(extent, self.names)
        back = self.b.index(rounds, self.b.indices[time].name)
        made_of = {b.var: b for b in component}
        if any(state_of(h, made_of, self.b.indices) is not None for h in delays):
            self.b.stands_as(back, time)  # rows that are changed in a round are still together
        self.backwards.add(back)
        by_rounds = self.spreads(component, time)
        inside = {**self.names, time: rounds - 1 - size(back)}
        made: list[tuple[int, Read, tuple[Var, ...], dict[Var, Size]]] = []
        sent = {h.var: self.parts.pop(h.var, []) for h in delays}
        for h in delays:
            names, own = self.points(h.context[:-1], self.rows(h) if by_rounds else set())
            if time not in self.b.strips:
                sent[h.var] = self.gathered(h, sent[h.var], names, own, rounds)
            point = (*names.values(), rounds)
            init = self.closed(h.var, sent[h.var], point) or Lit(0.0, h.dtype)
            last = self.b.index(rounds + 1, self.b.indices[time].name)
            around = self.b.order(self.b.closed((*own, *self.scope, *self.open, back)) - {back})
            slot = len(self.b.bindings)
            w = self.b.add(
                Delay(back, last, init, init), (*around, last), self.place.guards, h.dtype,
                h.origin.derived("cotangent"), Var(f"{h.var.name}_"),
            )  # fmt: skip
            made.append((slot, w, own, names))
        self.names, self.open = inside, self.open | {back}
        self.backs[time] = back
        following = {h.var: h.prim.next for h in delays if isinstance(h.prim, Delay)}
        waits = Late(self.b, [])
        if time in self.b.strips:
            carried = [Read(w.var, (*w.at[:-1], size(back))) for _, w, _, _ in made]
            component, following = self.repeated(component, time, following, carried, waits)
        for h, (_, w, own, names) in zip(delays, made, strict=True):
            now = Read(w.var, (*w.at[:-1], size(back)))
            names = {**names, time: inside[time]}
            self.send(following[h.var], (*own, back), names, now, self.extra(h, names))
        self.through({b.var: b for b in component}, frozenset(h.var for h in delays))
        for h, (slot, _, _, names) in zip(delays, made, strict=True):
            parts = sent[h.var] + self.parts.pop(h.var, [])
            then = self.closed(h.var, parts, (*names.values(), inside[time]))
            first = self.b.bindings[slot].prim
            assert isinstance(first, Delay)
            patch(self.place, slot, first.init, then or Lit(0.0, h.dtype))
        waits.settle()
        self.names, self.open = outside, self.open - {back}
        del self.backs[time]
        for h, (_, w, own, names) in zip(delays, made, strict=True):
            assert isinstance(h.prim, Delay)
            end = Read(w.var, (*w.at[:-1], rounds))
            self.send(h.prim.init, own, names, end, self.extra(h, names))
        self.place.guards = outer

    def spreads(self, component: list[Binding], time: Var) -> bool:
        """Whether rounds spread what comes in along rows of the state, as a product of two vectors
        is: what flows back to that are sums of rows, and they are taken round by round."""
        rows = max(len(self.rows(h)) for h in component if isinstance(h.prim, Delay))
        inside = body(self.b, component, time) if rows else []
        delays = [x.prim for x in inside if isinstance(x.prim, Delay)]
        loops = {i for d in delays for i in (d.time, d.index)}
        carried = {x.var for x in component}
        for x in inside:
            rank = self.b.rank[time]
            own = [i for i in x.context if self.b.rank[i] > rank and i not in loops]
            if not isinstance(x.prim, Op) or len(own) > rows:
                continue
            for r in x.prim.args:
                if isinstance(r, Read) and r.var in self.active and r.var not in carried:
                    said = self.b.closed(v for e in r.at for v in variables(e))
                    if time in said and not said.issuperset(own):
                        return True
        return False

    def rows(self, h: Binding) -> set[Var]:
        """The axes of what a loop carries that are gone along in its rounds, not the other way
        round."""
        assert isinstance(h.prim, Delay)
        after = h.prim.next
        if not isinstance(after, Read):
            return set()
        at = [e.single for e in after.at]
        first = at.index(h.prim.time) if h.prim.time in at else len(at)
        return {i for i in h.context[:-1] if i in at[first:]}

    def gathered(
        self, h: Binding, parts: list[Part], names: Mapping[Var, Size], own: tuple[Var, ...],
        rounds: Size,
    ) -> list[Part]:
        """What was sent to a history, where no round can say which of many points are its own:
        added up before the loop, or every round would look through all of it for them."""
        u = self.b.index(rounds + 1, self.b.indices[h.context[-1]].name)
        at = (*names.values(), size(u))
        named = [p for p in parts if self.is_named(p, at)]
        if not named:
            return parts
        value = self.closed(h.var, named, at)
        rest = [p for p in parts if p not in named]
        return rest if value is None else [*rest, Part((*own, u), at, value, ())]

    def is_named(self, part: Part, at: At) -> bool:
        """Whether the round that each of many points of the same element goes to does not say which
        point that is: data name it, it is kept in range, or counted by a step."""
        domain = {*self.domain(part)} - {e.single for e in part.at[:-1]}
        saying = self.b.closed(variables(part.at[-1]))
        if not any(map(self.is_long, domain & saying)):
            return False
        apart = self.apart(part, at)
        told = [e for e in at[:-1] if {*variables(e)} & {*self.b.indices} <= self.open | self.scope]
        alone = [k for k, e in enumerate(at) if e in (*told, at[-1])]
        rounds = replace(apart, at=tuple(apart.at[k] for k in alone))
        here = tuple(at[k] for k in alone)
        return self.is_sparse(rounds, here) and self.is_sparse(apart, at)

    def conditions(self, delays: list[Binding], time: Var) -> Guards:
        """What holds wherever a loop runs: also its reverse runs only there."""
        here = self.b.closures[time] | self.b.closed((*self.scope, *self.open))
        return tuple(
            g for g in self.extra(delays[0], self.names)
            if g not in self.place.guards and self.b.closed(free(g.operand)) <= here
            and all(g in self.extra(h, self.names) for h in delays)
        )  # fmt: skip

    def extra(self, b: Binding, names: Mapping[Var, Size]) -> Guards:
        return renamed(tuple(g for g in b.guards if g not in self.around), names)

    def repeated(
        self, component: list[Binding], time: Var, following: dict[Var, Operand],
        carried: list[Read], waits: Late,
    ) -> tuple[list[Binding], dict[Var, Operand]]:
        """The body of a loop with checkpoints once more, and what the loop carries on there.
        `carried` are the cotangents that the loop backwards carries."""
        loops = [self.b.closed(b.context) for b in component if isinstance(b.prim, Delay)]
        around = frozenset.intersection(*map(frozenset, loops))
        late = partial(self.late, waits, carried, around)
        made = again(self.b, component, time, self.names, self.backs, late)
        for old, new in made.moved.items():
            if old in self.active:
                self.active.add(new)
                self.ways[new] = self.ways[old]
            context = self.b.contexts[old]
            for p in self.parts.pop(old, []):
                at = tuple(
                    self.names[i] + size(self.backs[i]) - e if i in self.backs else e
                    for i, e in zip(context, p.at, strict=True)
                )
                self.parts.setdefault(new, []).append(Part(p.over, at, p.value, p.guards))
        copies = [b for b in made.copies if b.var in self.active]
        return copies, {v: made.operand(o) for v, o in following.items()}

    def late(
        self, waits: Late, carried: list[Read], around: frozenset[Var], n: Size
    ) -> Size:
        """A number, as a binding that is there when what a loop carries is. It has no axes but
        those `around` all that the loop carries: for many seeds, or rows of a part of it, the rest
        of the body is made again once."""
        here = self.b.closed((*self.open, *(i for i in self.scope if i in around)))
        late = waits.after(n, carried, here, lambda own: self.copied(own, {}), self.place.guards)
        self.waiting.update(a.var for a in atoms_of(late) if isinstance(a, Read))
        return late

    def moved(
        self, component: list[Binding], copies: list[Binding], moved: dict[Var, Var]
    ) -> tuple[list[Binding], Var]:
        """A loop that was made once more, and its time: what was sent to the first one."""
        for old, new in moved.items():
            if old in self.active:
                self.active.add(new)
                self.ways[new] = self.ways[old]
                if old in self.parts:
                    self.parts[new] = self.parts.pop(old)
        t = next(b.prim.time for b in copies if isinstance(b.prim, Delay))
        kept = {moved[b.var] for b in component}
        return [b for b in copies if b.var in kept], t
