"""The promises of AiNF, checked after every pass.

1. A binding's context is the set of its free indices, closed under what their extents (and a
   `while` index's condition) mention, its guards' included; a check or `checked` may stand in more
   loops, an accumulation with computed targets has the targets' indices.
2. A read has one index expression per index of what it reads.
3. Every binder (binding, index, reduced index, parameter) is bound once; reduced indices and a
   delay's time are not in the binding's own context.
4. Bindings stand in topological order, except what `next` and the condition of a loop read.
5. Results name their index tuple; nothing else is free in them. The extent of an axis may mention
   axes before it.
6. Dtypes agree with the primitives' signatures.
"""

from __future__ import annotations

from collections.abc import Iterable

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Check,
    Delay,
    Number,
    Op,
    Operand,
    Program,
    Read,
    Trips,
)
from naperian.ainf.walk import (
    atoms,
    atoms_of,
    dtype_of,
    free,
    free_in,
    is_reduction,
    operands,
    result_dtype,
    stops,
    variables,
)
from naperian.broken import Broken
from naperian.dtypes import DType
from naperian.names import Var
from naperian.prims import MONOIDS, ORDERED, PLACES, PRIMITIVES, Kind
from naperian.sizes import Size


def check(program: Program) -> None:
    """Raise `Broken` unless the program keeps the promises of AiNF."""
    _Checker(program).all()


class _Checker:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.sizes = set(program.sizes)
        self.arity = {p.var: len(p.shape) for p in program.params}
        self.arity |= {b.var: len(b.context) for b in program.bindings}
        self.dtypes = {p.var: p.dtype for p in program.params}
        self.dtypes |= {b.var: b.dtype for b in program.bindings if not isinstance(b.prim, Check)}
        self.floats = {v for v, d in self.dtypes.items() if d.is_float}
        self.defined = {p.var for p in program.params}
        self.reduced: set[Var] = set()
        self.closures: dict[Var, frozenset[Var]] = {}
        self.place = "the header"

    def fail(self, why: str) -> None:
        raise Broken(f"AiNF of `{self.program.name}`, {self.place}: {why}")

    def all(self) -> None:
        p = self.program
        binders = [*p.sizes, *(x.var for x in p.params), *p.indices, *(b.var for b in p.bindings)]
        if len(set(binders)) != len(binders):
            self.fail("a variable is bound twice")
        earlier: set[Var] = set()
        for i, index in p.indices.items():
            self.place = f"index {i!r}"
            if index.extent is not None:
                for v in variables(index.extent):
                    if v not in earlier and v not in self.sizes:
                        self.fail(f"the extent mentions {v!r}, which is no earlier index or size")
            earlier.add(i)
        for b in p.bindings:
            self.place = f"binding {b.var!r}"
            self.binding(b)
            self.defined.add(b.var)
        self.conditions()
        for k, r in enumerate(p.results):
            self.place = f"result {k}"
            if len(set(r.indices)) != len(r.indices):
                self.fail("an index names two axes")
            for i in r.indices:
                if i not in p.indices or p.indices[i].extent is None:
                    self.fail(f"{i!r} is no index with an extent")
                before = set(r.indices[: r.indices.index(i)])
                if not self.closure(i) - {i} <= before:
                    self.fail(f"{i!r} is ragged, and what it depends on is no axis before it")
            self.operand(r.value, set(r.indices))
            if dtype_of(r.value, self.dtypes) is not r.dtype:
                self.fail("the dtype differs from the operand's")

    def conditions(self) -> None:
        for i, index in self.program.indices.items():
            self.place = f"index {i!r}"
            if index.condition is not None:
                self.operand(index.condition, set(self.closure(i)))
                if dtype_of(index.condition, self.dtypes) is not DType.BOOL:
                    self.fail("the condition is not Boolean")

    # contexts

    def closure(self, i: Var) -> frozenset[Var]:
        """An index and all that its extent and condition depend on."""
        if i not in self.closures:
            self.closures[i] = frozenset({i})  # its own condition mentions it
            index = self.program.indices[i]
            mentioned = [] if index.extent is None else list(variables(index.extent))
            if index.condition is not None:
                mentioned += free(index.condition)
            self.closures[i] = self.closed([i, *mentioned])
        return self.closures[i]

    def closed(self, found: Iterable[Var]) -> frozenset[Var]:
        out: set[Var] = set()
        for v in found:
            if v in out or v in self.sizes:
                continue
            if v not in self.program.indices:
                self.fail(f"{v!r} is neither an index nor a size")
            out.add(v)
            out |= self.closure(v)
        return frozenset(out)

    def binding(self, b: Binding) -> None:
        context = set(b.context)
        if len(context) != len(b.context):
            self.fail("an index stands twice in the context")
        wanted = [*free_in(b.prim), *(v for g in b.guards for v in free(g.operand))]
        inner = self.bound_by(b)
        for i in inner:
            wanted += self.closure(i) - inner
        need = self.closed(wanted)
        if stops(b.prim) or (
            isinstance(b.prim, Accumulate) and not is_reduction(b.context, b.prim)
        ):
            need = self.closed([*need, *b.context])
        if need != context:
            self.fail(f"the context is {_names(context)}, the free indices are {_names(need)}")
        for g in b.guards:
            self.operand(g.operand, context)
            if dtype_of(g.operand, self.dtypes) is not DType.BOOL:
                self.fail("a guard is not Boolean")
            if g.fact is not None:
                self.size(g.fact, context)
        if isinstance(b.prim, Delay):
            self.operand(b.prim.init, context)
            self.operand(b.prim.next, context | inner, later=True)
            if b.prim.index != b.context[-1] or b.prim.index in free(b.prim.next):
                self.fail("a delay's own index must be its last and not in `next`")
        else:
            for o in operands(b.prim):
                self.operand(o, context | inner)
        for i in context | inner:
            extent = self.program.indices[i].extent
            if extent is not None:
                for a in atoms_of(extent):
                    self.atom(a, later=False)
        self.signature(b)

    def bound_by(self, b: Binding) -> set[Var]:
        """The indices the primitive binds: reduced ones, a delay's time."""
        match b.prim:
            case Accumulate(_, _, entries):
                inner: set[Var] = set()
                for e in entries:
                    if len(set(e.over)) != len(e.over) or inner & set(e.over):
                        self.fail("an index is reduced twice")
                    inner |= set(e.over)
                    if len(e.at) != len(b.context):
                        self.fail("an entry's target has another arity")
                if inner & self.reduced:
                    self.fail("a reduced index belongs to two accumulations")
                self.reduced |= inner
            case Delay(time):
                inner = {time}
            case _:
                inner = set()
        if inner & set(b.context):
            self.fail("it stands in a loop that it binds itself")
        for i in inner:
            if i not in self.program.indices:
                self.fail(f"{i!r} is no index")
        return inner

    # operands

    def operand(self, o: Operand, context: set[Var], later: bool = False) -> None:
        for v in free(o):
            if v not in context and v not in self.sizes:
                self.fail(f"{v!r} is not in the context")
        for a in atoms(o):
            self.atom(a, later)

    def size(self, s: Size, context: set[Var]) -> None:
        self.operand(Number(s), context)

    def atom(self, a: Read | Trips, later: bool) -> None:
        match a:
            case Read(var, at):
                if var not in self.dtypes:
                    self.fail(f"{var!r} is read but never bound")
                if var not in self.defined and not later:
                    self.fail(f"{var!r} is read before it is bound")
                if len(at) != self.arity[var]:
                    self.fail(f"{var!r} has {self.arity[var]} indices and is read with {len(at)}")
                for e in at:
                    for inner in atoms_of(e):
                        if isinstance(inner, Read) and inner.var in self.floats:
                            self.fail(f"the float {inner.var!r} is used as an index")
            case Trips(time, at):
                if time not in self.program.indices:
                    self.fail(f"{time!r} is no index")
                if {i for i, _ in at} != set(self.closure(time)) - {time}:
                    self.fail(f"the trip count of {time!r} is given other indices than it needs")

    # dtypes

    def signature(self, b: Binding) -> None:
        match b.prim:
            case Op(name, args):
                self.op(b, name, args)
            case Accumulate(monoid, init, entries):
                if monoid not in MONOIDS:
                    self.fail(f"`{monoid}` is no monoid")
                wanted = DType.I64 if monoid in ORDERED else b.dtype
                if dtype_of(init, self.dtypes) is not wanted:
                    self.fail("the first value has another dtype")
                if monoid == "nth" and [len(e.over) for e in entries] != [1]:
                    self.fail("nth reduces one index in one entry")
                if monoid in PLACES:
                    if b.dtype is not DType.I64 or [len(e.over) for e in entries] != [1]:
                        self.fail(f"{monoid} gives an Int and reduces one index in one entry")
                elif any(dtype_of(e.value, self.dtypes) is not b.dtype for e in entries):
                    self.fail("an entry has another dtype")
                if monoid in ("and", "or") and b.dtype is not DType.BOOL:
                    self.fail(f"`{monoid}` is for Booleans")
            case Delay(_, _, init, next):
                if any(dtype_of(o, self.dtypes) is not b.dtype for o in (init, next)):
                    self.fail("a delay's first and next values have its dtype")
            case Check(condition, code):
                if dtype_of(condition, self.dtypes) is not DType.BOOL:
                    self.fail("the condition is not Boolean")
                self.code(code)

    def op(self, b: Binding, name: str, args: tuple[Operand, ...]) -> None:
        given = [dtype_of(a, self.dtypes) for a in args]
        arity = {"cast": 1, "bitcast": 1, "copy": 1, "held": 1, "after": 2, "checked": 2}
        if name == "print":
            self.line(b.prim.code if isinstance(b.prim, Op) else 0)
            arity["print"] = max(1, len(args))
            if given[:1] != [DType.I64]:
                self.fail("a line is printed after what is no token")
        if name not in arity and name not in PRIMITIVES:
            self.fail(f"`{name}` is no primitive")
        if len(args) != (arity[name] if name in arity else PRIMITIVES[name].arity):
            self.fail(f"`{name}` with {len(args)} operands")
        if name == "bitcast" and given[0].bytes != b.dtype.bytes:
            self.fail("a bitcast between widths")
        if name == "checked":
            self.code(b.prim.code if isinstance(b.prim, Op) else 0)
            if given != [DType.I64, DType.I64]:
                self.fail("`checked` is for Ints")
        if name in PRIMITIVES:
            kind = PRIMITIVES[name].kind
            if kind is Kind.SELECT:
                if given.pop(0) is not DType.BOOL:
                    self.fail("`select` by something that is not Boolean")
            if len(set(given)) != 1:
                self.fail(f"`{name}` of {', '.join(d.name for d in given)}")
            if not _accepts(kind, given[0]):
                self.fail(f"`{name}` is not for {given[0].name}")
        result = result_dtype(name, args, self.dtypes)
        if result is not None and result is not b.dtype:
            self.fail(f"`{name}` gives {result.name}, not {b.dtype.name}")

    def line(self, code: int) -> None:
        if not 0 <= code <= len(self.program.lines):
            self.fail(f"there is no line {code}")

    def code(self, code: int) -> None:
        if not 1 <= code <= len(self.program.failures):
            self.fail(f"there is no failure {code}")


def _accepts(kind: Kind, dtype: DType) -> bool:
    match kind:
        case Kind.ARITH:
            return dtype is not DType.BOOL
        case Kind.FLOAT | Kind.CLASSIFY:
            return dtype.is_float
        case Kind.INTEGER:
            return dtype.is_integer
        case Kind.LOGIC:
            return dtype is DType.BOOL
        case Kind.COMPARE | Kind.EQUAL | Kind.SELECT:
            return True


def _names(indices: Iterable[Var]) -> str:
    return "{" + ", ".join(sorted(repr(i) for i in indices)) + "}"
