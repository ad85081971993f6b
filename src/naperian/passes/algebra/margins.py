"""What goes back through windows of many channels is a product of matrices once more. ainf → ainf

    before   for q<c, j<n, a<k, r<o:  y = mul(v[r, j], w[r, q, a])
             for q<c, j<n, a<k:       z = add over r of y[q, j, a, r]
             for q<c, i<n + k - 1:    s = add over a of z[q, i - a, a] if 0 <= i - a < n
    after    for r<o, e<n + 2k - 2:   v' = v[r, e - k + 1] if 0 <= e - k + 1 < n else 0
             for q<c, i<n + k - 1, r<o, a<k:  y = mul(v'[r, i - a + k - 1], w[r, q, a])
             for q<c, i<n + k - 1:    s = add over r, a of y[q, i, r, a]

Else there is a table of all windows of all channels, which is made by a product and then added up.
Only of cotangents: where a weight is not a number, neither is what it is multiplied by zero for.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from naperian.ainf.syntax import Accumulate, Binding, Entry, Guard, Number, Op, Program, Read
from naperian.ainf.walk import free, rewrite, variables
from naperian.dtypes import DType
from naperian.names import Lit, Var, fresh
from naperian.node import node, replace
from naperian.passes.algebra.prune import prune
from naperian.passes.bindings.uses import Uses, summed
from naperian.prims import Math
from naperian.sizes import Size, places, size

_CHANNELS = 8  # a sum over fewer elements is not worth a product
_SMALL = 9  # elements of a window: a table of all of them is as good


def margins(program: Program) -> Program:
    """See the module."""
    if program.math is Math.STRICT:
        return program
    made = _Margins(program)
    bindings = tuple(x for b in program.bindings for x in made.binding(b))
    if len(made.indices) == len(program.indices):
        return program
    return prune(replace(program, bindings=bindings, indices=made.indices))


@node
class _Window:
    """A sum through windows: `over` whose elements it goes, and what it adds up for each, a product
    of `one` and `two`, summed over `inner`; `names` says where the sum reads that. Along an axis
    that `moved` has, `one` lies as many places further in what gets a margin."""

    over: tuple[Var, ...]
    inner: tuple[Var, ...]
    one: Read
    two: Read
    names: Mapping[Var, Size]
    moved: Mapping[Var, Size]
    first: bool  # whether `one` is the first factor


class _Margins:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.indices = dict(program.indices)
        self.uses = Uses(program)

    def binding(self, b: Binding) -> list[Binding]:
        """What stands for a binding."""
        w = self.window(b)
        return [b] if w is None else self.with_margin(b, w)

    def window(self, b: Binding) -> _Window | None:
        """What a binding sums, if that goes through windows of a product of matrices."""
        outer = summed(b) if b.dtype.is_float else None
        if outer is None or b.guards or not outer.guards or "cotangent" not in b.origin.slope:
            return None
        sums = self.uses.alone(outer.value)
        inner = None if sums is None else summed(sums[0])
        products = None if inner is None else self.uses.alone(inner.value)
        if sums is None or inner is None or products is None or not _many(self, inner.over):
            return None
        (z, names), (y, there) = sums, products
        if inner.guards or z.guards or y.guards:
            return None
        moved = {i: e for i, e in names.items() if not isinstance(e.single, Var)}
        match y.prim:
            case Op("mul", (Read() as x, Read() as w)):
                factors = [rewrite(x, there), rewrite(w, there)]
            case _:
                return None
        for one, two in (factors, factors[::-1]):
            assert isinstance(one, Read)
            assert isinstance(two, Read)
            ours, theirs = {*free(one)} & {*self.indices}, {*free(two)} & {*self.indices}
            along = {i for i in z.context if names[i].single in outer.over}
            if not (ours >= moved.keys() and along <= theirs):
                continue
            if theirs & moved.keys() or ours & along or not theirs - ours - along:
                continue
            if any(not isinstance(e.single, Var) for e in one.at) or len({*one.at}) < len(one.at):
                continue
            far = self.distances(b, outer, moved)
            if far is not None:
                first = one is factors[0]
                return _Window(outer.over, inner.over, one, two, names, far, first)
        return None

    def distances(
        self, b: Binding, e: Entry, moved: Mapping[Var, Size]
    ) -> dict[Var, Size] | None:
        """How wide the margins are in front, if the guards say no more than what is there."""
        out: dict[Var, Size] = {}
        facts: set[Size] = set()
        for i, at in moved.items():
            n = self.indices[i].extent
            mine = [v for v in variables(at) if v in self.indices]
            if n is None or len(mine) != 2:
                return None
            j, a = mine if mine[0] in b.context else mine[::-1]
            wide, long = self.indices[a].extent, self.indices[j].extent
            if j not in b.context or a not in e.over or wide is None or long is None:
                return None
            first = at - size(j) + size(a)
            if not _natural(self.program, wide - 1) or any(v in self.indices for v in (
                *variables(first), *variables(long), *variables(n)
            )):  # fmt: skip
                return None
            out[i] = wide - 1 - first
            facts |= {at, n - 1 - at}
        extents = [self.indices[a].extent for a in e.over]
        numbers = [n.constant for n in extents if n is not None and n.constant is not None]
        if len(numbers) == len(extents) and prod(numbers) <= _SMALL:
            return None
        return out if out and all(g.fact in facts for g in e.guards) else None

    def with_margin(self, b: Binding, w: _Window) -> list[Binding]:
        """The bindings that make the sum: what has a margin, the products, their sum."""
        axes = [v for e in w.one.at if isinstance(v := e.single, Var)]
        own: dict[Var, Var] = {}
        for i in axes:
            own[i] = fresh(i)
            index = self.indices[i]
            if i in w.moved:
                j = next(v for v in variables(w.names[i]) if v in b.context)
                a = next(v for v in variables(w.names[i]) if v in w.over)
                long, wide = self.indices[j].extent, self.indices[a].extent
                assert long is not None
                assert wide is not None
                index = replace(index, extent=long + wide - 1)
            self.indices[own[i]] = index
        out: list[Binding] = []

        def bind(context: tuple[Var, ...], guards: tuple[Guard, ...], dtype: DType, op: Op) -> Read:
            var = Var("margin")
            out.append(Binding(var, context, guards, dtype, op, b.origin))
            return Read(var, places(context))

        guards: tuple[Guard, ...] = ()
        inside: Read | None = None
        at: list[Size] = []
        for i in axes:
            u = own[i]
            place = size(u) - w.moved[i] if i in w.moved else size(u)
            at.append(place)
            n = self.indices[i].extent
            if i not in w.moved or n is None:
                continue
            low = bind((u,), (), DType.BOOL, Op("le", (Lit(0, DType.I64), Number(place))))
            high = bind((u,), (), DType.BOOL, Op("lt", (Number(place), Number(n))))
            guards += (Guard(low, True, place), Guard(high, True, n - 1 - place))
            both = bind((u,), (), DType.BOOL, Op("and", (low, high)))
            if inside is None:
                inside = both
            else:
                context = tuple(v for e in (*inside.at, size(u)) for v in variables(e))
                args = (inside, both, Lit(False, DType.BOOL))
                inside = bind(context, (), DType.BOOL, Op("select", args))
        assert inside is not None
        context = tuple(own.values())
        there = bind(context, guards, b.dtype, Op("copy", (Read(w.one.var, tuple(at)),)))
        zero = Lit(0.0, b.dtype)
        table = bind(context, (), b.dtype, Op("select", (inside, there, zero)))
        names = dict(w.names)
        inner = []
        for r in w.inner:
            new = fresh(r)
            inner.append(new)
            self.indices[new] = self.indices[r]
            names[r] = size(new)
        read = tuple(
            names[i] + w.moved[i] if i in w.moved else names.get(i, size(i)) for i in axes
        )
        factors = (Read(table.var, read), rewrite(w.two, names))
        over = (*inner, *w.over)
        whole = (*b.context, *over)
        product = bind(whole, (), b.dtype, Op("mul", factors if w.first else factors[::-1]))
        entry = Entry(over, places(b.context), product)
        assert isinstance(b.prim, Accumulate)
        return [*out, replace(b, prim=replace(b.prim, entries=(entry,)))]


def _many(m: _Margins, over: tuple[Var, ...]) -> bool:
    extents = (m.indices[i].extent for i in over)
    return any(n is not None and (n.constant is None or n.constant >= _CHANNELS) for n in extents)


def _natural(program: Program, n: Size) -> bool:
    """Whether a number is not negative, whatever the sizes are."""
    return all(c >= 0 and all(a in program.sizes for a in m) for m, c in n.terms)
