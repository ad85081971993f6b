"""Which version of a table a loop backwards reads, of those that have the same element.

    for j<n, i<m:  s = delay over i from x[j] next last at [j + i + 1, j] of v[j, i] from s[i]
    for j<n, i<m:  y = mul(s[j + i + 1, k, i], x[j, k])      row j is none that the loop writes to
    ⇒              y = mul(s[j + i + 1, k, i], s[j, k, i])

What no round of a loop changes is read as it was before (`algebra/settled`). A loop backwards has
the table as it was before the loop inside when that is over, and then the rounds that read it so
would have to be gone through a second time, with a table of every round. So a round reads the table
that it has, if the element is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from naperian.ainf.syntax import Accumulate, Binding, Delay, Entry, Guard, Index, Read
from naperian.ainf.walk import rewrite, rewrite_guards, rewrite_size, variables
from naperian.facts import Facts
from naperian.names import Var, fresh
from naperian.node import mutable, replace
from naperian.passes.bindings.ranges import facts_about
from naperian.passes.bindings.states import State
from naperian.sizes import Size, size

Link = Binding | State


def amid(state: State, indices: Mapping[Var, Index], sizes: frozenset[Var]) -> Amid:
    """The versions of a state."""
    out = Amid(dict(indices), sizes)
    out.collect(state, ())
    return out


@mutable
class Amid:
    """The versions of a table that loops change, in the order in which they come."""

    indices: dict[Var, Index]
    sizes: frozenset[Var]
    states: dict[Var, State] = field(default_factory=dict)
    after: dict[Var, tuple[Link, ...]] = field(default_factory=dict)  # in the same round
    reader: tuple[Guard, ...] = ()  # what holds where a version is read

    def collect(self, s: State, after: tuple[Link, ...]) -> None:
        self.states[s.delay.var] = s
        self.after[s.delay.var] = after
        later: tuple[Link, ...] = ()
        for x in s.links:
            if isinstance(x, State):
                self.collect(x, later)
            else:
                self.after[x.var] = later
            later = (x, *later)

    def inside(self, r: Read, around: Iterable[Var], times: Mapping[Var, Size]) -> Read | None:
        """The same element in a round, at `times`, of the innermost of the loops `around` a reader;
        None if they have no version of their own, or one that is another element."""
        s = self.states.get(r.var)
        if s is None:
            return self.further(r, self.after[r.var], frozenset(around), times)
        assert isinstance(s.delay.prim, Delay)
        names = dict(zip(s.delay.context, r.at, strict=True))
        at = names[s.delay.prim.index]
        if at == times[s.time]:
            return self.further(r, s.links[::-1], frozenset(around), times)
        after = self.after[r.var]
        if at == size(0):
            before = rewrite(s.delay.prim.init, names)
            if not isinstance(before, Read) or before.var not in self.after:
                return None
            return self.further(before, (s, *after), frozenset(around), times)
        if at == rewrite_size(self.extent(s), names):
            return self.further(r, after, frozenset(around), times)
        return None

    def further(
        self, r: Read, links: Iterable[Link], around: frozenset[Var], times: Mapping[Var, Size]
    ) -> Read | None:
        """The same for what is read before `links`."""
        for x in links:
            if isinstance(x, State) and x.time in around:
                here = self.stays(x, r, times[x.time])
                if here is None:
                    return None
                return self.further(here, x.links[::-1], around, times) or here
            past = self.past(x, r)
            if past is None:
                return None
            r = past
        return None

    def extent(self, s: State) -> Size:
        extent = self.indices[s.time].extent
        assert extent is not None
        return extent

    def past(self, x: Link, r: Read) -> Read | None:
        """The element that `r` reads before a change, after it; None if it may be changed."""
        if isinstance(x, State):
            names = dict(zip(x.delay.context, _on(x.delay, r).at, strict=True))
            return self.stays(x, r, rewrite_size(self.extent(x), names))
        after = _on(x, r)
        assert isinstance(x.prim, Accumulate)
        return after if all(self.is_apart(x, e, after) for e in x.prim.entries) else None

    def stays(self, s: State, r: Read, at: Size) -> Read | None:
        """What `r` reads before a loop, in its round `at`, if no round changes it."""
        first = _on(s.delay, r)
        names = dict(zip(s.delay.context, first.at, strict=True))
        time = self.any(s.time, names)
        now: Read | None = _at(s, first, size(time))
        for x in s.links[::-1]:
            now = self.past(x, now) if now is not None else None
        return None if now is None else _at(s, first, at)

    def any(self, i: Var, names: Mapping[Var, Size]) -> Var:
        """Another index of the same range."""
        v = fresh(i)
        index = self.indices[i]
        extent = None if index.extent is None else rewrite_size(index.extent, names)
        self.indices[v] = replace(index, extent=extent)
        return v

    def is_apart(self, x: Binding, e: Entry, r: Read) -> bool:
        """Whether an entry goes to other elements than the one that is read."""
        names = dict(zip(x.context, r.at, strict=True))
        passed = {i: names[i] for i, at in zip(x.context, e.at, strict=True) if at == size(i)}
        for i in e.over:
            passed[i] = size(self.any(i, passed))
        guards = rewrite_guards((*x.guards, *e.guards), passed)
        for i, at in zip(x.context, e.at, strict=True):
            if at == size(i) or any(v in names and v not in passed for v in variables(at)):
                continue
            gap = names[i] - rewrite_size(at, passed)
            known = facts_about(gap, self.indices, self.sizes, guards + self.reader, Facts())
            if known.proves(gap - 1) or known.proves(-gap - 1):
                return True
        return False


def _on(x: Binding, r: Read) -> Read:
    """The element of a changed table that `r` reads before it is changed."""
    assert isinstance(x.prim, Accumulate | Delay)
    assert isinstance(x.prim.init, Read)
    at = {e.single: there for e, there in zip(x.prim.init.at, r.at, strict=True)}
    return Read(x.var, tuple(at.get(i, size(0)) for i in x.context))


def _at(s: State, r: Read, time: Size) -> Read:
    """The same element in another round."""
    at = zip(s.delay.context, r.at, strict=True)
    return Read(r.var, tuple(time if i == s.index else e for i, e in at))
