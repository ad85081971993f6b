"""What an AiNF program means: an interpreter, demand driven, one value per binding and point.

A value is computed when a result, a check or another value needs it: `select` asks for one side
only, and a value is never asked for where its guards fail (that is `Broken`). Computations are
generators that yield the value they need next to a loop in `_Machine.force`, so a chain of ten
thousand steps of a delay is a long list and not a deep recursion.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Check,
    Delay,
    Entry,
    Guard,
    Number,
    Op,
    Operand,
    Program,
    Read,
    Trips,
)
from naperian.ainf.walk import atoms_of, free, runs, stops, variables
from naperian.broken import Broken
from naperian.dtypes import DType
from naperian.lines import Told, Write
from naperian.names import Lit, Var
from naperian.prims import (
    ORDERED,
    PRIMITIVES,
    combine,
    convert,
    in_order,
    places_in_order,
    quiet,
    scalar,
)
from naperian.sizes import Atom, Size, evaluate, size

Env: TypeAlias = Mapping[Var, int]
Key: TypeAlias = tuple[Var, tuple[int, ...]]  # a binding at a point; a while index at a point
Needs: TypeAlias = Generator[Key, Any, Any]


class RunError(Exception):
    """The run stopped: the failure's code, and the value and size of a failed `checked`."""

    def __init__(self, code: int, value: int = 0, size: int = 0) -> None:
        super().__init__(code, value, size)
        self.code = code
        self.value = value
        self.size = size


def run(
    program: Program, sizes: Sequence[int], args: Sequence[Any], everything: bool = False,
    write: Write = print,
) -> list[Any]:
    """The results (NumPy scalars and arrays) for these sizes and arguments, which are NumPy
    scalars and arrays of the parameters' dtypes. Every check is made first, in order. Lines that
    are printed are given to `write`.

    With `everything`, all bindings are computed wherever their guards hold, as compiled code may
    do: that every one can be is a promise to the code generator."""
    with quiet():
        return _Machine(program, sizes, args, write).results(everything)


class _Machine:
    def __init__(
        self, program: Program, sizes: Sequence[int], args: Sequence[Any],
        write: Write,
    ) -> None:
        self.program = program
        self.told = Told(write)
        self.sizes = dict(zip(program.sizes, (int(n) for n in sizes), strict=True))
        self.args = {p.var: a for p, a in zip(program.params, args, strict=True)}
        self.bindings = {b.var: b for b in program.bindings}
        self.memo: dict[Key, Any] = {}
        self.rows: dict[Key, Any] = {}  # what is in order
        self.scattered: dict[Key, dict[tuple[int, ...], Any]] = {}
        self.rank = {i: k for k, i in enumerate(program.indices)}

    def results(self, everything: bool) -> list[Any]:
        for b in self.program.bindings:
            if stops(b.prim) or (everything and self.is_finite(b)):
                self.force(self.test(b))
        out = []
        for r in self.program.results:
            axes = [self.points(run) for run in runs(self.program.indices, r.indices)]
            array = np.empty([len(points) for points in axes], r.dtype.value)
            for place in np.ndindex(array.shape):
                env = {i: k for points, p in zip(axes, place, strict=True)
                       for i, k in points[p].items()}  # fmt: skip
                array[place] = self.force(self.value(r.value, env))
            out.append(array if axes else array[()])
        return out

    def points(self, run: tuple[Var, ...]) -> list[dict[Var, int]]:
        """All points of a run of axes, in order."""
        found: list[dict[Var, int]] = [{}]
        for i in run:
            extent = self.program.indices[i].extent
            assert extent is not None
            lengths = [self.force(self.number(extent, env)) for env in found]
            found = [{**env, i: k} for env, n in zip(found, lengths, strict=True)
                     for k in range(n)]  # fmt: skip
        return found

    def force(self, needs: Needs) -> Any:
        """Run a computation, and whatever it turns out to need before it."""
        stack: list[tuple[Key | None, Needs]] = [(None, needs)]
        busy: set[Key] = set()
        value: Any = None
        while stack:
            key, top = stack[-1]
            try:
                wanted = top.send(value)
            except StopIteration as done:
                stack.pop()
                value = done.value
                if key is not None:
                    busy.discard(key)
                    self.memo[key] = value
                continue
            if wanted in busy:
                raise Broken(f"{wanted[0]!r} at {wanted[1]} needs itself")
            busy.add(wanted)
            stack.append((wanted, self.compute(wanted)))
            value = None
        return value

    # operands

    def value(self, o: Operand, env: Env) -> Needs:
        match o:
            case Lit(value, dtype):
                return scalar(value, dtype)
            case Number(s):
                return scalar((yield from self.number(s, env)), DType.I64)
            case Read(var, at):
                point = []
                for e in at:
                    point.append((yield from self.number(e, env)))
                return (yield from self.at(var, tuple(point)))

    def at(self, var: Var, point: tuple[int, ...]) -> Needs:
        if var in self.args:
            array = self.args[var]
            if not point:
                return array[()] if isinstance(array, np.ndarray) else array
            if any(not 0 <= k < n for k, n in zip(point, array.shape, strict=True)):
                raise Broken(f"read of {var!r} at {point} outside its shape {array.shape}")
            return array[point]
        key = (var, point)
        if key in self.memo:
            return self.memo[key]
        return (yield key)

    def number(self, s: Size, env: Env) -> Needs:
        known: dict[Atom, int] = {}
        for a in reversed(list(atoms_of(s))):  # inner reads first
            match a:
                case Read():
                    known[a] = int((yield from self.value(a, env)))
                case Trips(time, at):
                    given = dict(env)
                    for i, e in at:
                        given[i] = yield from self.number(e, env)
                    known[a] = yield from self.rounds(time, given)

        def of(a: Atom) -> int:
            if isinstance(a, Var):
                return env[a] if a in env else self.sizes[a]
            return known[a]

        return evaluate(s, of)

    def rounds(self, time: Var, env: Env) -> Needs:
        """How many rounds a sequential index with a condition makes."""
        key = (time, tuple(env[i] for i in self.given(time)))
        return self.memo[key] if key in self.memo else (yield key)

    def given(self, time: Var) -> tuple[Var, ...]:
        """The indices that the number of rounds of a while index depends on."""
        found: set[Var] = set()
        todo = [time]
        while todo:
            index = self.program.indices[todo.pop()]
            mentioned = list(variables(index.extent)) if index.extent is not None else []
            if index.condition is not None:
                mentioned += free(index.condition)
            for v in mentioned:
                if v in self.rank and v not in found and v != time:
                    found.add(v)
                    todo.append(v)
        return tuple(sorted(found, key=self.rank.__getitem__))

    # bindings

    def compute(self, key: Key) -> Needs:
        var, point = key
        if var in self.rank:
            return self.count(var, dict(zip(self.given(var), point, strict=True)))
        if var not in self.bindings:
            raise Broken(f"{var!r} is read but never bound")
        b = self.bindings[var]
        env = dict(zip(b.context, point, strict=True))
        return self.guarded(b, env) if b.guards else self.prim(b, env)

    def guarded(self, b: Binding, env: dict[Var, int]) -> Needs:
        """A value under guards; elsewhere there is none, so nobody may ask for it."""
        if not (yield from self.holds(b.guards, env)):
            raise Broken(f"{b.var!r} is read at {tuple(env.values())}, where its guards fail")
        return (yield from self.prim(b, env))

    def prim(self, b: Binding, env: dict[Var, int]) -> Needs:
        match b.prim:
            case Op(name, args, code):
                return self.op(b, name, args, code, env)
            case Accumulate():
                return self.accumulate(b, b.prim, env)
            case Delay(time, index, init, next):
                step = env.pop(index)
                if step == 0:
                    return self.value(init, env)
                return self.value(next, {**env, time: step - 1})
            case Check():
                raise Broken(f"{b.var!r} is a check and has no value")

    def count(self, time: Var, env: dict[Var, int]) -> Needs:
        index = self.program.indices[time]
        limit = None
        if index.extent is not None:
            limit = yield from self.number(index.extent, env)
        rounds = 0
        while limit is None or rounds < limit:
            if index.condition is not None:
                if not (yield from self.value(index.condition, {**env, time: rounds})):
                    break
            rounds += 1
        return rounds

    def op(self, b: Binding, name: str, args: tuple[Operand, ...], code: int, env: Env) -> Needs:
        if name == "select":
            chosen = yield from self.value(args[0], env)
            return (yield from self.value(args[1] if chosen else args[2], env))
        values = []
        for a in reversed(args) if name == "after" else args:
            values.append((yield from self.value(a, env)))
        match name:
            case "copy" | "held":
                return values[0]
            case "after":
                return values[1]
            case "cast":
                return convert(values[0], b.dtype)
            case "bitcast":
                x = values[0]
                x = np.int64(x) if isinstance(x, int) else x  # an index
                return x.view(b.dtype.value)
            case "print":
                self.told.tell(values[1:], self.program.lines[code - 1] if code else ())
                return values[0]
            case "checked":
                k, n = (int(v) for v in values)
                if not 0 <= k < n:
                    raise RunError(code, k, n)
                return values[0]
            case _:
                out = PRIMITIVES[name].function(*values)
                return np.dtype(b.dtype.value).type(out)

    def accumulate(self, b: Binding, prim: Accumulate, env: Env) -> Needs:
        if prim.monoid in ("argmin", "argmax"):
            return (yield from self.best(prim, env))
        if prim.monoid in ORDERED:
            return (yield from self.nth(b, prim, env))
        total = yield from self.value(prim.init, env)
        for entry in prim.entries:
            fixed = {i: env[i] for i, e in zip(b.context, entry.at, strict=True) if e == size(i)}
            if len(fixed) == len(b.context):
                for here in (yield from self.domain(entry.over, env, entry.guards)):
                    new = yield from self.value(entry.value, here)
                    total = combine(prim.monoid, total, new)
            else:
                key = (b.var, (prim.entries.index(entry), *fixed.values()))
                if key not in self.scattered:
                    self.scattered[key] = yield from self.scatter(b, entry, fixed, prim.monoid)
                point = tuple(env[i] for i in b.context)
                if point in self.scattered[key]:
                    total = combine(prim.monoid, total, self.scattered[key][point])
        return total

    def scatter(self, b: Binding, entry: Entry, fixed: Env, monoid: str) -> Needs:
        """All contributions of an entry whose target is computed, by point."""
        mentioned = {*free(entry.value)}
        for e in entry.at:
            mentioned |= {*variables(e)}
        for g in entry.guards:
            mentioned |= {*free(g.operand)}
        loops = tuple(i for i in b.context if i in mentioned and i not in fixed) + entry.over
        sums: dict[tuple[int, ...], Any] = {}
        for here in (yield from self.domain(loops, fixed, entry.guards)):
            value = yield from self.value(entry.value, here)
            point = []
            for e in entry.at:
                point.append((yield from self.number(e, here)))
            to = tuple(point)
            sums[to] = combine(monoid, sums[to], value) if to in sums else value
        return sums

    def best(self, prim: Accumulate, env: Env) -> Needs:
        (entry,) = prim.entries
        (index,) = entry.over
        better = np.less if prim.monoid == "argmin" else np.greater
        chosen, best = 0, None
        for here in (yield from self.domain(entry.over, env, entry.guards)):
            value = yield from self.value(entry.value, here)
            if best is None or better(value, best) or (value != value and best == best):
                chosen, best = here[index], value
        return np.int64(chosen)

    def nth(self, b: Binding, prim: Accumulate, env: Env) -> Needs:
        (entry,) = prim.entries
        (index,) = entry.over
        extent = self.program.indices[index].extent
        inner = {*free(entry.value), *(() if extent is None else variables(extent))}
        inner.update(v for g in entry.guards for v in free(g.operand))
        key = (b.var, tuple(k for i, k in env.items() if i in inner))
        if key not in self.rows:
            values, ordinals = [], []
            for here in (yield from self.domain(entry.over, env, entry.guards)):
                values.append((yield from self.value(entry.value, here)))
                ordinals.append(here[index])
            dtype = DType(np.asarray(values).dtype.name) if values else b.dtype
            if prim.monoid == "nth":
                self.rows[key] = in_order(values, dtype)
            else:
                self.rows[key] = np.array(ordinals)[places_in_order(values, dtype)]
        place = int((yield from self.value(prim.init, env)))
        return self.rows[key][place]

    def is_finite(self, b: Binding) -> bool:
        """Whether a binding has values at all points of its context (a `while` loop's delay has
        none after its last round)."""
        return not (
            isinstance(b.prim, Delay) and self.program.indices[b.prim.time].condition is not None
        )

    def test(self, b: Binding) -> Needs:
        """Make a check (or compute a value) wherever the guards hold."""
        for env in (yield from self.domain(b.context, {}, b.guards)):
            if isinstance(b.prim, Check):
                if not (yield from self.value(b.prim.condition, env)):
                    raise RunError(b.prim.code)
            else:
                yield from self.at(b.var, tuple(env[i] for i in b.context))
        return None

    def holds(self, guards: tuple[Guard, ...], env: Env) -> Needs:
        for g in guards:
            if bool((yield from self.value(g.operand, env))) != g.holds:
                return False
        return True

    def domain(self, indices: tuple[Var, ...], env: Env, guards: tuple[Guard, ...] = ()) -> Needs:
        """All points of these indices around `env` where the guards hold, the last index fastest.
        A guard is asked as soon as its indices are known: the extents of others may need it."""
        points = [dict(env)]
        asked: set[int] = set()
        for known in range(len(indices) + 1):
            if known:
                points = yield from self.along(indices[known - 1], points)
            open_ = set(indices[known:])
            now = [g for g in guards if id(g) not in asked and open_.isdisjoint(free(g.operand))]
            asked.update(id(g) for g in now)
            if now:
                kept = []
                for p in points:
                    if (yield from self.holds(tuple(now), p)):
                        kept.append(p)
                points = kept
        return points

    def along(self, i: Var, points: list[dict[Var, int]]) -> Needs:
        """These points with each value of one more index."""
        it = self.program.indices[i]
        more = []
        for p in points:
            if it.condition is not None:
                n = yield from self.rounds(i, p)
            elif it.extent is not None:
                n = yield from self.number(it.extent, p)
            else:
                raise Broken(f"the index {i!r} has no end")
            more += [{**p, i: k} for k in range(n)]
        return more
