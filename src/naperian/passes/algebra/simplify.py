"""Laws applied everywhere. ainf → ainf

    for i<n: v0 = neg(x[i])
    for i<n: v1 = mul(v0[i], v0[i])      ⟶      for i<n: v1 = mul(x[i], x[i])

One walk from the top: every binding is made again by smart constructors, which try the laws of
its operation (`laws`), of its index expressions (`ranges`) and of reductions (below) on operands
that are simple already. What becomes an operand disappears; contexts are computed anew, so what
no longer depends on a loop leaves it. Laws that reassociate floating sums do not belong here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Check,
    Delay,
    Entry,
    Guard,
    Index,
    Number,
    Op,
    Operand,
    Program,
    Read,
)
from naperian.ainf.walk import (
    Names,
    atoms_of,
    free,
    is_reduction,
    map_guards,
    map_prim,
    number,
    rewrite,
    rewrite_size,
    size_of,
    variables,
)
from naperian.dtypes import DType
from naperian.facts import Facts
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.passes.algebra import laws
from naperian.passes.algebra.bounds import between, type_bounds
from naperian.passes.algebra.settled import settled
from naperian.passes.algebra.tallied import tallied
from naperian.passes.bindings import ranges
from naperian.passes.bindings.builder import Builder, Guards
from naperian.passes.bindings.conditions import after_checks, checks_of, guards_of, in_rounds
from naperian.passes.bindings.exact import exact
from naperian.passes.bindings.narrow import narrow, without_unused_indices
from naperian.prims import ORDERED, PLACES, unit
from naperian.sizes import HEAVY, ZERO, Clamp, Size, atom, clamp, places, size, weight

Seen = Callable[[Any], None]


def simplify(program: Program, seen: Seen = lambda rule: None) -> Program:
    """The program by the laws. `seen` is told every rule that is used."""
    made = _Simplify(settled(program), seen).result()
    return simplify(made, seen) if unchanging(made) else made


def unchanging(program: Program) -> frozenset[Var]:
    """for i, u<t + 1: s = delay over k<t from x[i] next s[i, k]  ⟶  for i, u<t + 1: s = copy(x[i])

    A carried value that every round hands on is what it was before: the cotangent of a sum."""
    return frozenset(
        b.var for b in program.bindings
        if isinstance(b.prim, Delay) and isinstance(b.prim.next, Read)
        and program.indices[b.prim.time].condition is None
        and b.prim.next.var == b.var
        and b.prim.next.at == tuple(
            size(b.prim.time if i == b.prim.index else i) for i in b.context
        )
    )  # fmt: skip


class _Simplify:
    def __init__(self, program: Program, seen: Seen) -> None:
        self.program = program
        self.seen = seen
        self.b = Builder(program.name, program.sizes, program.params)
        self.b.rank = {i: k for k, i in enumerate(program.indices)}
        self.sizes = frozenset(program.sizes)
        self.values: dict[Var, tuple[tuple[Var, ...], Operand]] = {}
        self.ops: dict[Var, Op] = {}
        # under guards, with what is known: what became of index expressions
        self.simple: dict[tuple[Guards, Facts], dict[Size, Size]] = defaultdict(dict)
        self.extents: dict[Size, Size] = {}
        self.known = Facts()
        self.under(())
        self.context: tuple[Var, ...] = ()
        self.times = {b.prim.time for b in program.bindings if isinstance(b.prim, Delay)}
        self.unchanging = unchanging(program)

    def result(self) -> Program:
        slots: list[tuple[int, Delay]] = []
        for b in self.program.bindings:
            for i in b.context:
                self.open(i)
            self.context = b.context
            self.under(())
            if b.guards:
                self.under(self.live(b.guards))
            if any(isinstance(g.operand, Lit) for g in self.guards):
                self.never(b)
            elif isinstance(b.prim, Delay) and b.var in self.unchanging:
                self.seen(unchanging)
                self.keep(b, self.op(Op("copy", (self.operand(b.prim.init),)), b.dtype))
            elif isinstance(b.prim, Delay):
                slots.append((len(self.b.bindings), b.prim))
                self.delay(b, b.prim)
            else:
                self.binding(b)
        self.under(())
        for k, prim in slots:
            old = self.b.bindings[k]
            self.b.bindings[k] = replace(old, prim=map_prim(prim, self.operand, self.size))
        for i, index in self.program.indices.items():
            self.open(i)
            if index.condition is not None:
                again = self.still(i, index.condition, self.operand(index.condition))
                again = in_rounds(self.b, again, i)
                self.b.indices[i] = replace(self.b.indices[i], condition=again)
        results = [replace(r, value=self.operand(r.value)) for r in self.program.results]
        self.b.indices = {i: self.b.indices[i] for i in (*self.program.indices, *self.b.indices)}
        p = self.program
        made = self.b.program(results, p.failures, p.math, p.lines)
        return without_unused_indices(narrow(made))

    def under(self, guards: Guards) -> None:
        """What follows stands under these guards."""
        self.guards = guards
        self.here = self.simple[guards, self.known]

    def still(self, time: Var, old: Operand, new: Operand) -> Operand:
        """A condition that depends on the checks that it depended on, if these are left."""
        before = {b.var for b in checks_of(self.program.bindings, old, time)}
        left = [b for b in self.b.bindings if b.var in before]
        return after_checks(self.b, new, left, time, guards_of(self.b, new))

    def open(self, i: Var) -> None:
        """Bring an index over, once what its extent reads is simple: by what is known wherever it
        may be used, whatever guards the binding has that is the first to mention it."""
        if i in self.b.indices:
            return
        index = self.program.indices[i]
        said = () if index.extent is None else variables(index.extent)
        asked = [] if index.condition is None else [v for v in free(index.condition) if v != i]
        for v in (*said, *asked):
            if v in self.program.indices:
                self.open(v)
        around = self.guards
        self.under(())
        extent = index.extent
        if extent is not None and not extent.plain:  # as many indices have as a row has operations
            if extent not in self.extents:
                self.extents[extent] = self.size(extent)
            extent = self.extents[extent]
        self.under(around)
        self.b.add_index(i, Index(extent, index.condition, index.name), asked)

    # operands

    def operand(self, o: Operand) -> Operand:
        new = rewrite(o, {}, self.read)
        match new:
            case Read():
                at = tuple([self.simpler(e) for e in new.at])
                return new if at == new.at else Read(new.var, at)
            case Number():
                return self.number(self.simpler(new.value))
            case Lit():
                return new

    def number(self, s: Size) -> Operand:
        """An index expression as an operand; an Int's read is itself."""
        read = s.single
        if isinstance(read, Read) and self.b.dtypes[read.var] is DType.I64:
            return read
        return number(s)

    def size(self, s: Size) -> Size:
        return self.simpler(rewrite_size(s, {}, self.read))

    def read(self, r: Read) -> Operand:
        """What is read, also in a place or in what a guard says: an index that a simple place does
        not have is not there any more."""
        at = tuple([self.without_lost(e) for e in r.at])
        if at != r.at:
            r = Read(r.var, at)
        if r.var not in self.values:
            return r
        context, value = self.values[r.var]
        if r.at == places(context):
            return value
        return rewrite(value, dict(zip(context, r.at, strict=True)))

    def simpler(self, s: Size) -> Size:
        if s.plain:
            return s
        found = self.here.get(s)
        if found is None:
            found = self.here[s] = ranges.simpler(s, self.facts, self.seen)
        return found

    def facts(self, s: Size) -> Facts:
        known = ranges.facts_about(s, self.b.indices, self.sizes, self.guards, self.known)
        for a in atoms_of(s):
            if isinstance(a, Read) and self.b.dtypes[a.var].is_integer:
                low, high = bounds = between(a, self)
                if bounds != type_bounds(self.b.dtypes[a.var]):
                    known = known.and_(atom(a) - low, high - atom(a))
        return known

    def without_lost(self, e: Size) -> Size:
        """A place without indices that a simpler one does not have. It still says that it was
        brought into its axis, which may have no elements (`fusion/vacant`)."""
        new, a = self.simpler(e), e.single
        if {*variables(e)} <= {*variables(new)}:
            return e
        return clamp(size(-1), a.extent) if new == ZERO and isinstance(a, Clamp) else new

    def live(self, guards: Guards) -> Guards:
        """Guards that say something, once each, of what they negate if of anything."""
        simple = _undecided(map_guards(guards, self.operand, self.size))
        out: dict[Guard, None] = {}
        for g in map(self.negated, simple):
            out[self.told(g, (*out,))] = None
        return tuple(out)

    def told(self, g: Guard, before: Guards) -> Guard:
        """A guard that says nothing of indices that its operand lost under the guards before it."""
        own = self.b.closed(free(g.operand))
        if g.fact is None or not self.lost(g.fact, own):
            return g
        around = self.guards
        self.under(around + before)
        fact = self.size(g.fact)
        self.under(around)
        return replace(g, fact=None if self.lost(fact, own) else fact)

    def lost(self, fact: Size, own: AbstractSet[Var]) -> bool:
        """Whether a fact mentions indices that are not among its own."""
        return any(v in self.b.indices and v not in own for v in variables(fact))

    def negated(self, g: Guard) -> Guard:
        """¬x does not hold  ⟶  x holds"""
        while (made := self.made(g.operand, "not")) is not None:
            g = replace(g, operand=made[0], holds=not g.holds)
        return g

    # what the laws ask

    def made(self, o: Operand, name: str) -> tuple[Operand, ...] | None:
        if not isinstance(o, Read) or o.var not in self.ops or self.ops[o.var].name != name:
            return None
        op, names = self.inside(o)
        return tuple(rewrite(a, names) for a in op.args)

    def inside(self, r: Read) -> tuple[Op, dict[Var, Size]]:
        return self.ops[r.var], dict(zip(self.b.contexts[r.var], r.at, strict=True))

    def maker(self, o: Operand) -> str:
        op = self.ops.get(o.var) if isinstance(o, Read) else None
        return "" if op is None else op.name

    def dtype(self, o: Operand) -> DType:
        return self.b.dtype(o)

    # bindings

    def binding(self, b: Binding) -> None:
        prim = b.prim
        match prim:
            case Op():
                if prim.name == "checked":
                    self.checked(b, prim)
                    return
                op = Op(prim.name, tuple([self.operand(a) for a in prim.args]), prim.code)
                if prim.name == "print":
                    self.add(b, op, b.context)
                else:
                    self.keep(b, self.op(op, b.dtype))
            case Accumulate():
                self.accumulate(b, prim)
            case Check(condition, code):
                holds = self.operand(condition)
                if not (isinstance(holds, Lit) and holds.value):
                    self.add(b, Check(holds, code), b.context)
                    if not b.context and not self.guards:
                        self.learn(holds)
            case Delay():
                raise AssertionError("delays are brought over as they are")

    def keep(self, b: Binding, new: Op | Operand) -> None:
        """A binding for an operation; an operand needs none."""
        if isinstance(new, Number) and weight(new.value) > HEAVY:
            new = Op("copy", (new,))
        if not isinstance(new, Op):
            self.values[b.var] = (b.context, new)
            return
        made = self.b.bind(new, b.dtype, self.guards, b.origin, b.var)
        self.ops[b.var] = new
        self.values[b.var] = (b.context, made)

    def add(
        self, b: Binding, prim: Op | Check | Accumulate | Delay, context: tuple[Var, ...]
    ) -> None:
        """A binding in the context that it had: the targets of an accumulation are in its order."""
        needed = self.b.closed(v for g in self.guards for v in free(g.operand))
        if not needed <= {*context}:
            context = self.b.order({*context} | needed)
        made = self.b.add(prim, context, self.guards, b.dtype, b.origin, b.var)
        self.values[b.var] = (b.context, made)

    def delay(self, b: Binding, prim: Delay) -> None:
        """A delay keeps its context, which `narrow` makes smaller; `next` comes later."""
        self.open(prim.time)
        made = self.b.add(prim, b.context, self.guards, b.dtype, b.origin, b.var)
        self.values[b.var] = (b.context, made)

    def never(self, b: Binding) -> None:
        """Under a guard that never holds, any value is as good as another."""
        if not isinstance(b.prim, Check):
            zero = laws.literal(0, b.dtype)
            self.values[b.var] = (b.context, zero)

    def checked(self, b: Binding, prim: Op) -> None:
        """checked(k, n) = k if 0 <= k < n is known"""
        k, n = (self.operand(a) for a in prim.args)
        low, high = size_of(k), size_of(n) - 1 - size_of(k)
        if self.facts(low).proves(low) and self.facts(high).proves(high):
            self.seen(checked)
            self.values[b.var] = (b.context, k)
        else:
            self.add(b, Op("checked", (k, n), prim.code), self.deciding(b, (k, n)))

    def deciding(self, b: Binding, args: tuple[Operand, ...]) -> tuple[Var, ...]:
        """The context of a test without the indices that it does not depend on: done once, it fails
        if it fails at all. One of which there may be none stays, and so does a loop's time."""
        mine = {*self.b.closed([v for a in args for v in free(a)])}
        for g in self.guards:
            mine |= {*self.b.closed([*free(g.operand), *(variables(g.fact) if g.fact else ())])}
        found = (self.b.indices[i].extent for i in b.context)
        return self.b.order(self.b.closed([
            i for i, n in zip(b.context, found, strict=True)
            if i in mine or i in self.times or n is None
            or not self.facts(n - 1).proves(n - 1)
        ]))  # fmt: skip

    def op(self, op: Op, dtype: DType) -> Op | Operand:
        """An operation by the laws, until none applies."""
        if self.guards:
            op = replace(op, args=tuple(self.under_guards(a) for a in op.args))
        if op.name == "copy":
            if isinstance(op.args[0], Number) and weight(op.args[0].value) > HEAVY:
                return op  # a name for what would be written wherever it is read
            safe = self.b.safe_operand(op.args[0], ())
            return op.args[0] if safe or not self.guards else op
        if op.name == "held":
            return op if isinstance(op.args[0], Read) else op.args[0]
        if op.name == "after":
            return op.args[0] if isinstance(op.args[0], Lit) and dtype is not DType.BOOL else op
        decided = self.decided(op)
        if decided is not None:
            return decided
        if dtype is DType.I64 and (polynomial := exact(op, self.b.indices, self.sizes)) is not None:
            self.seen(exact)
            return self.number(self.simpler(polynomial))
        for _ in range(_PATIENCE):
            for rule in laws.LAWS.get(op.name, ()):
                new = rule(op, dtype, self)
                if new is None:
                    continue
                self.seen(rule)
                if not isinstance(new, Op):
                    return new
                op = new
                break
            else:
                return op
        return op

    def under_guards(self, o: Operand) -> Operand:
        """A Boolean that a guard fixes is that constant."""
        for g in self.guards:
            if g.operand == o:
                self.seen(under_guards)
                return Lit(g.holds, DType.BOOL)
        return o

    def decided(self, op: Op) -> Operand | None:
        """A comparison of index expressions whose outcome is known."""
        if op.name not in _ORDER or not all(isinstance(a, Number | Lit) for a in op.args):
            return None
        if any(self.dtype(a) is not DType.I64 for a in op.args):
            return None
        x, y = (size_of(a) for a in op.args)
        facts = self.facts(x - y)
        for outcome, goals in _ORDER[op.name](y - x):
            if all(facts.proves(goal) for goal in goals):
                self.seen(decided)
                return Lit(outcome, DType.BOOL)
        return None

    def learn(self, holds: Operand) -> None:
        """What an assertion at the top says is known from there on."""
        for name, sign in (("ge", 1), ("gt", 1), ("le", -1), ("lt", -1)):
            args = self.made(holds, name)
            if args and all(self.dtype(a) is DType.I64 for a in args):
                fact = (size_of(args[0]) - size_of(args[1])) * sign
                self.known = self.known.and_(fact - 1 if name in ("gt", "lt") else fact)
                self.under(self.guards)

    # reductions

    def accumulate(self, b: Binding, prim: Accumulate) -> None:
        for e in prim.entries:
            for i in e.over:
                self.open(i)
        if not is_reduction(b.context, prim):
            self.add(b, self.scattered(prim), b.context)
            return
        init = self.operand(prim.init)
        entries: list[Entry] = []
        for e in prim.entries:
            value = self.operand(e.value)
            if prim.monoid == "add":
                value = self.from_zero(init, value)
            entry = Entry(e.over, (), value, self.live(e.guards))
            new = self.entry(prim.monoid, init, entry, b.dtype)
            if new is not None:
                entries.append(new)
        told = tallied(prim.monoid, init, entries, b.dtype, self.b.indices, self)
        if told is not None:
            self.seen(tallied)
            self.values[b.var] = (b.context, told)
        elif not entries:
            none = laws.literal(0, b.dtype) if prim.monoid in ORDERED else init
            self.values[b.var] = (b.context, none)
        elif len(entries) == 1 and not entries[0].over and not entries[0].guards:
            if prim.monoid in PLACES:
                self.values[b.var] = (b.context, Lit(0, DType.I64))
            elif prim.monoid == "nth":
                self.keep(b, self.op(Op("copy", (entries[0].value,)), b.dtype))
            else:
                op = Op(prim.monoid, (init, entries[0].value))
                self.keep(b, self.op(op, b.dtype))
        else:
            parts = tuple((e.over, e.value, e.guards) for e in entries)
            made = self.b.reduce(prim.monoid, init, parts, b.dtype, self.guards, b.origin, b.var)
            self.values[b.var] = (b.context, made)

    def from_zero(self, init: Operand, value: Operand) -> Operand:
        """0 + Σ (0 + v) = 0 + Σ v, where a -0 is none in the end."""
        while _is_zero(init) and (args := self.made(value, "add")) and _is_zero(args[0]):
            value = args[1]
        return value

    def scattered(self, prim: Accumulate) -> Accumulate:
        new = map_prim(prim, self.operand, self.size)
        assert isinstance(new, Accumulate)
        if not any(e.guards for e in new.entries):
            return new
        return replace(
            new, entries=tuple(replace(e, guards=_undecided(e.guards)) for e in new.entries)
        )

    def entry(self, monoid: str, init: Operand, e: Entry, dtype: DType) -> Entry | None:
        """An entry by the laws of reductions; None if it contributes nothing."""
        for rule in REDUCTION_LAWS:
            new = rule(monoid, init, e, dtype, self.b.indices, self.at_least_one)
            if new is not e:
                self.seen(rule)
                if new is None:
                    return None
                e = new
        return e

    def at_least_one(self, extent: Size) -> bool:
        facts = self.facts(extent)
        for i in self.context:  # where there is a point, no loop around it is empty
            around = self.b.indices[i].extent
            if around is not None:
                facts = facts.and_(size(i), around - 1 - size(i))
        return facts.proves(extent - 1)


def _is_zero(o: Operand) -> bool:
    """Whether an operand is zero, and not -0."""
    return isinstance(o, Lit) and o.value == 0 and str(o.value)[0] != "-"


_PATIENCE = 10  # rewrites of one operation: every law makes it smaller or cheaper, so few


def _when(true: Callable[[Size], Size], false: Callable[[Size], Size]) -> Any:
    return lambda d: ((True, (true(d),)), (False, (false(d),)))


# Of `x op y`, by d = y - x: the outcomes, and what must not be negative for each.
_ORDER: dict[str, Any] = {
    "lt": _when(lambda d: d - 1, lambda d: -d),
    "le": _when(lambda d: d, lambda d: -d - 1),
    "gt": _when(lambda d: -d - 1, lambda d: d),
    "ge": _when(lambda d: -d, lambda d: d - 1),
    "eq": lambda d: ((True, (d, -d)), (False, (d - 1,)), (False, (-d - 1,))),
    "ne": lambda d: ((False, (d, -d)), (True, (d - 1,)), (True, (-d - 1,))),
}


checked = _Simplify.checked
decided = _Simplify.decided
under_guards = _Simplify.under_guards


def only_one(
    monoid: str, init: Operand, e: Entry, dtype: DType, indices: dict[Var, Index], one: Any
) -> Entry | None:
    """⊕ over i<1 of v[i] = v[0], unless i says how many others there are"""
    counts = {v for i in e.over if (n := indices[i].extent) is not None for v in variables(n)}
    single = [
        i for i in e.over
        if i not in counts and indices[i].extent == size(1) and indices[i].condition is None
    ]  # fmt: skip
    if not single:
        return e
    names: Names = {i: ZERO for i in single}
    over = tuple(i for i in e.over if i not in single)
    guards = map_guards(e.guards, lambda o: rewrite(o, names), lambda s: rewrite_size(s, names))
    return Entry(over, e.at, rewrite(e.value, names), guards)


def _undecided(guards: Guards) -> Guards:
    """Guards without those that always hold."""
    return tuple(
        g for g in guards if not (isinstance(g.operand, Lit) and g.operand.value == g.holds)
    )


def nothing_to_reduce(
    monoid: str, init: Operand, e: Entry, dtype: DType, indices: dict[Var, Index], one: Any
) -> Entry | None:
    """init ⊕ (⊕ over i<0 of v[i]) = init, and so with a guard that never holds"""
    if any(isinstance(g.operand, Lit) and g.operand.value != g.holds for g in e.guards):
        return None
    empty = any(
        n is not None and n.constant is not None and n.constant <= 0
        for n in (indices[i].extent for i in e.over)
    )
    return None if empty else e


def of_units(
    monoid: str, init: Operand, e: Entry, dtype: DType, indices: dict[Var, Index], one: Any
) -> Entry | None:
    """init ⊕ (⊕ of units) = init; a sum of 0.0 only if init is 0.0"""
    if monoid in PLACES or monoid in ORDERED or not isinstance(e.value, Lit):
        return e
    nothing = laws.literal(unit(monoid, dtype), dtype)
    if monoid == "add" and dtype.is_float:
        harmless = e.value == Lit(-0.0, dtype) or (e.value == nothing and init == nothing)
        return None if harmless else e
    return None if e.value == nothing else e


def of_the_same(
    monoid: str, init: Operand, e: Entry, dtype: DType, indices: dict[Var, Index], one: Any
) -> Entry | None:
    """max over i<n of v = v for n >= 1; so min, and, or"""
    if monoid not in ("min", "max", "and", "or"):
        return e
    inner = set(free(e.value)).union(*(free(g.operand) for g in e.guards))
    rest = []
    for i in reversed(e.over):
        extent = indices[i].extent
        if i in inner or extent is None or indices[i].condition is not None or not one(extent):
            inner |= set() if extent is None else set(variables(extent))
            rest.append(i)
    over = tuple(reversed(rest))
    return e if over == e.over else Entry(over, e.at, e.value, e.guards)


REDUCTION_LAWS = (nothing_to_reduce, only_one, of_units, of_the_same)
SCALAR_RULES = (checked, decided, under_guards, unchanging, exact)
