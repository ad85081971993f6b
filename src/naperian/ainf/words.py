"""The values of AiNF in words of the language: operands, operations, reductions, tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Entry,
    Guard,
    Number,
    Op,
    Operand,
    Program,
    Read,
    Trips,
)
from naperian.ainf.walk import atoms_of, variables
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.prims import unit
from naperian.sizes import (
    ONE,
    Atom,
    Clamp,
    Quotient,
    Remainder,
    Size,
    is_natural,
    polynomial,
    size,
)

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "and", "or": "or",
    "xor": "!=", "bitand": "&", "bitor": "|", "bitxor": "^", "shl": "<<", "shr": ">>",
}  # fmt: skip
_SAME = ("copy", "held", "stop_gradient", "after")  # as the first of what they take
_REDUCE = {"add": "sum", "mul": "prod", "min": "min", "max": "max", "and": "all", "or": "any",
           "argmin": "argmin", "argmax": "argmax"}  # fmt: skip
_RESERVED = frozenset(
    {"def", "where", "struct", "enum", "interface", "instance", "import", "from", "as", "for"}
    | {"in", "if", "elif", "else", "match", "case", "with", "loop", "while", "lambda", "and"}
    | {"or", "not", "exists", "assert", "except", "return", "all", "by", "True", "False", "None"}
    | {"Fin", "clamp", "wrap", "sum", "prod", "min", "max", "any", "argmin", "argmax", "state"}
    | {"inf", "nan", "size", "get", "checked", "abs", "sign", "accum", "reduce"}
)


class NotWrittenError(NotImplementedError):
    """What the language has no words for."""


class Words:
    """The names of a program, and what is written with them."""

    def __init__(self, program: Program, checked: bool) -> None:
        self.program = program
        self.checked = checked
        self.taken: set[str] = set(_RESERVED)
        self.names: dict[Var, str] = {}
        self.bindings = {b.var: b for b in program.bindings}
        self.bound = {p.var: p.bound for p in program.params}
        self.sizes: dict[Size, str] = {}  # the names of sizes that are never negative
        self.fresh_sizes: dict[Size, str] = {}  # those that were mentioned since: their texts
        self.rounds: dict[Var, str] = {}  # of the `while` loops: the variable that counts them
        self.each: dict[Var, tuple[Var, ...]] = {}  # where each element has a loop, its indices
        self.even: set[Var] = set()  # cells whose rows are all as long as the longest
        self.cells: set[Var] = set()  # bindings that are cells where we are
        self.dropped: set[Var] = set()  # times of `while` loops: only their last values are kept
        self.local: dict[Var, frozenset[Var]] = {}  # of what each round has its own: their times
        self.inlined: set[Var] = set()  # bindings to be written where they are read
        self.is_extent = False  # whether the size of a set is being written
        # `Float` is the precision of a call, and has no bits of its own
        bits = any(isinstance(b.prim, Op) and b.prim.name == "bitcast" for b in program.bindings)
        self.float = "F64" if bits else DType.F64.surface_name
        for v in program.sizes:
            self.name(v)
        for p in program.params:
            self.name(p.var)
        k = 0
        for b in program.bindings:
            if b.var.name in ("v", "x", "t") or not b.var.name.isidentifier():
                self.names[b.var] = f"v{k}"
                k += 1
        for k in range(len(program.bindings)):
            self.taken.add(f"v{k}")
        for b in program.bindings:
            self.name(b.var)

    def name(self, v: Var) -> str:
        if v not in self.names:
            plain = re.sub(r"\W", "_", v.name).strip("_") or "x"
            plain = plain[0].lower() + plain[1:] if plain[0].isalpha() else f"x{plain}"
            name, k = plain, 1
            while name in self.taken:
                name, k = f"{plain}_{k}", k + 1
            self.taken.add(name)
            self.names[v] = name
        return self.names[v]

    def own(self, context: tuple[Var, ...]) -> tuple[Var, ...]:
        """The axes of a binding, as a table."""
        return tuple(i for i in context if i not in self.dropped)

    def kind(self, dtype: DType) -> str:
        """The name of a dtype."""
        return self.float if dtype is DType.F64 else dtype.surface_name

    def fresh(self, wish: str) -> str:
        return self.name(Var(wish))

    # tables

    def table(self, cell: str, indices: tuple[Var, ...]) -> str:
        return f"[{cell} for {self.binders(indices)}]" if indices else cell

    def binders(self, indices: Iterable[Var]) -> str:
        return ", ".join(f"{self.name(i)} in {self.set(i)}" for i in indices)

    def set(self, i: Var) -> str:
        extent = self.program.indices[i].extent
        if extent is None:
            raise NotWrittenError("the history of a while loop")
        return f"0..({self.extent(extent)})" if self.is_ragged(i) else self.fin(extent)

    def fin(self, extent: Size) -> str:
        """A set of this size. A size that is read from a table has a name."""
        if not any(a.at for a in atoms_of(extent)):
            return f"Fin({self.extent(extent)})"
        return f"Fin({self.named(extent, 'length', self.extent(extent))})"

    def extent(self, n: Size) -> str:
        """The size of a set, where a row of fewer elements than none is never met."""
        outer, self.is_extent = self.is_extent, True
        text = self.size(n)
        self.is_extent = outer
        return text

    def is_natural(self, n: Size) -> bool:
        """Whether a number is never negative, as far as the indices in it go."""
        for i in reversed(self.program.indices):
            of = [c for m, c in n.terms if m == (i,)]
            extent = self.program.indices[i].extent
            if of and extent is not None:
                n = n - of[0] * size(i) + (of[0] * (extent - ONE) if of[0] < 0 else size(0))
        return is_natural(n, self.program.sizes)

    def named(self, s: Size, wish: str, text: str) -> str:
        """The name of a size, which has this text; 0 where that would be negative."""
        if s not in self.sizes:
            self.sizes[s] = self.fresh(wish)
            self.fresh_sizes[s] = text
        return self.sizes[s]

    def is_ragged(self, i: Var) -> bool:
        """Whether data says how far an index goes, for every row."""
        extent = self.program.indices[i].extent
        read = [] if extent is None else list(atoms_of(extent))
        places = [e for a in read for e in (a.at if isinstance(a, Read) else dict(a.at).values())]
        return any(v in self.program.indices for e in places for v in variables(e))

    # values

    def value(self, b: Binding) -> str:
        return self.guarded(self.bare(b), b.guards, zero(b.dtype))

    def guarded(self, value: str, guards: tuple[Guard, ...], otherwise: str) -> str:
        if not guards:
            return value
        return f"({value} if {self.guards(guards)} else {otherwise})"

    def guards(self, guards: tuple[Guard, ...]) -> str:
        texts: dict[str, None] = {}
        for g in guards:
            plain = self.operand(g.operand)
            texts[plain if g.holds else f"not {plain}"] = None
            if g.fact is not None and not self.checked:
                left = Size(tuple((m, c) for m, c in g.fact.terms if c > 0))
                texts[f"{self.size(left)} >= {self.size(left - g.fact)}"] = None
        return " and ".join(texts)

    def asked_by(self, guards: tuple[Guard, ...]) -> Iterator[Operand]:
        """All that guards mention as they are written, with what they say of sizes."""
        for g in guards:
            yield g.operand
            if g.fact is not None and not self.checked:
                yield Number(g.fact)

    def bare(self, b: Binding) -> str:
        match b.prim:
            case Op(name, args):
                return self.op(name, args, b.dtype)
            case Accumulate("nth" | "argnth" as name, init, (Entry(over, _, value, ()),)):
                row = f"[{self.operand(value)} for {self.binders(over)}]"
                made, place = "sort" if name == "nth" else "argsort", self.operand(init)
                if self.checked or any(map(self.is_ragged, over)):
                    place = f"({place})?"
                text = f"{made}({row})[{place}]"
                return text if name == "nth" else f"Int({text})"
            case Accumulate(monoid, init, entries):
                start = self.operand(init)
                total = start if not _is_unit(monoid, init, b.dtype) else ""
                for e in entries:
                    part = self.reduced(monoid, e, b.dtype)
                    total = joined(monoid, total, part) if total else part
                return total
            case _:
                raise AssertionError("delays and checks are no values")

    def reduced(self, monoid: str, e: Entry, dtype: DType) -> str:
        none = _literal(unit(monoid, dtype), dtype)
        value = self.guarded(self.operand(e.value), e.guards, none)
        if not e.over:
            return value
        if monoid in ("add", "mul") and dtype.is_integer and dtype.bits < 64:
            for i in reversed(e.over):  # from a number of their type: `sum` of them is an Int
                value = f"reduce(({_INFIX[monoid]}), {none}, [{value} for {self.binders((i,))}])"
            return value
        text = f"{_REDUCE[monoid]}({value} for {self.binders(e.over)})"
        return f"Int({text})" if monoid.startswith("arg") else text

    # operands

    def op(self, name: str, args: tuple[Operand, ...], dtype: DType) -> str:
        texts = [self.operand(a) for a in args]
        if name in _SAME:
            return texts[0]
        if name in _INFIX and len(texts) == 2:
            return f"{texts[0]} {_INFIX[name]} {texts[1]}"
        match name, texts:
            case "neg", (x,):
                return f"-{x}"
            case "not", (x,):
                return f"not {x}"
            case "bitnot", (x,):
                return f"~{x}"
            case "select", (c, a, b):
                return f"({a} if {c} else {b})"
            case "cast", (x,):
                if dtype is DType.BOOL:
                    return f"{x} != 0"
                return f"{self.kind(dtype)}({x})"
            case "bitcast", (x,):
                x = f"Int({x})" if isinstance(args[0], Number) else x
                return f"bitcast({self.kind(dtype)}, {x})"
            case _:
                return f"{name}({', '.join(texts)})"

    def held(self, o: Operand, dtype: DType) -> str:
        """What a cell holds: an integer, and not an index, which all would have to be."""
        text = self.operand(o)
        return f"Int({text})" if dtype is DType.I64 and not isinstance(o, Lit) else text

    def operand(self, o: Operand) -> str:
        match o:
            case Read(var, at):
                return self.read(var, at)
            case Number(value):
                whole = value.single is not None or value.constant is not None
                return self.size(value) if whole else f"({self.size(value)})"
            case Lit(value, dtype):
                return _literal(value, dtype)

    def read(self, var: Var, at: tuple[Size, ...]) -> str:
        name = self.name(var) + ("_" if var in self.cells else "")
        if not at:
            return name
        b = self.bindings.get(var)
        if b is None:
            shape = next(p.shape for p in self.program.params if p.var == var)
            return f"{name}[{', '.join(self.index(e, n) for e, n in zip(at, shape, strict=True))}]"
        where = self.indices(at, b.context, self.local.get(var, frozenset()), var in self.even)
        if var in self.inlined:
            here = self.local.get(var, frozenset())
            axes = tuple(i for i in self.own(b.context) if i not in here)
            name = f"({self.table(self.value(b), axes)})"
        return f"{name}[{where}]" if where else name

    def indices(
        self, at: tuple[Size, ...], context: tuple[Var, ...], local: frozenset[Var] = frozenset(),
        even: bool = False,
    ) -> str:
        gone = self.dropped | local
        text = ""
        for e, i in zip(at, context, strict=True):
            if i in gone:
                continue
            if self.is_ragged(i) and even:
                text += f"{', ' if text else ''}({self.size(e)})?"
            elif self.is_ragged(i):  # a row is opened
                text += f"{'][' if text else ''}({self.size(e)})?"
            else:
                text += f"{', ' if text else ''}{self.index(e, self.program.indices[i].extent)}"
        return text

    def index(self, e: Size, n: Size | None) -> str:
        text = self.size(e)
        single = e.single
        if isinstance(single, Var):
            own = self.program.indices.get(single)
            if own is not None and own.extent is not None and n is not None:
                more = (n - own.extent).constant
                if more is not None and more >= 0:
                    return text
        if isinstance(single, Clamp) and single.extent == n and not _is_natural(single):
            return text
        if isinstance(single, Remainder) and single.below == n:
            return f"wrap({self.size(single.above)}, {self.fin(single.below)})"
        if isinstance(single, Read) and self.bound.get(single.var) == n:
            return self.read(single.var, single.at)
        loose = any(
            a.at or (isinstance(a, Read) and a.var in self.bindings) for a in atoms_of(e)
        )
        return f"({text})?" if loose or self.checked else text

    def size(self, s: Size) -> str:
        positive_first = sorted(s.terms, key=lambda t: t[1] < 0)
        return polynomial(positive_first, lambda a, _: self.atom(a))

    def atom(self, a: Atom) -> str:
        match a:
            case Var():
                return self.name(a)
            case Read(var, at):
                b = self.bindings.get(var)
                text = self.read(var, at)
                number = b.dtype is not DType.BOOL if b is not None else not self.bound.get(var)
                return text if number else f"Int({text})"
            case Trips(time):
                if time not in self.rounds:
                    raise NotWrittenError("the rounds of a while loop")
                each, places = self.each[time], dict(a.at)
                where = self.indices(tuple(places[i] for i in each), each, even=True)
                return f"{self.rounds[time]}[{where}]" if where else self.rounds[time]
            case Quotient(x, y):
                return f"(({self.size(x)}) // ({self.size(y)}))"
            case Remainder(x, y):
                return f"(({self.size(x)}) % ({self.size(y)}))"
            case Clamp(x, y) if _is_natural(a):
                text = self.size(x)
                if not set(variables(x)) & self.program.indices.keys():
                    return self.named(x, "rounds", text)
                if not self.is_extent and not self.is_natural(x):
                    return f"max({text}, 0)"
                return text if x.single is not None else f"({text})"
            case Clamp(x, y):
                if set(variables(y)) & self.program.indices.keys():  # a row's length is no size
                    return f"max(0, min({self.size(x)}, {self.size(y)} - 1))"
                return f"clamp({self.size(x)}, {self.fin(y)})"
            case _:
                raise NotWrittenError(repr(a))


def _is_natural(a: Clamp) -> bool:
    """`clamp(k, k + 1)`: k, which is no less than 0 where it is the size of an axis."""
    return a.extent == a.value + ONE


def zero(dtype: DType) -> str:
    return _literal(False if dtype is DType.BOOL else 0, dtype)


def _literal(value: bool | int | float, dtype: DType) -> str:
    if dtype is DType.BOOL:
        return str(bool(value))
    if not dtype.is_float:
        text = str(int(value)) if value != -(1 << 63) else f"(-{(1 << 63) - 1} - 1)"
    else:
        text = repr(float(value))
    text = f"({text})" if text.startswith("-") else text
    return text if dtype in (DType.I64, DType.F64) else f"{dtype.surface_name}({text})"


def _is_unit(monoid: str, init: Operand, dtype: DType) -> bool:
    if monoid.startswith("arg"):
        return True
    return isinstance(init, Lit) and repr(init.value) == repr(unit(monoid, dtype))


def joined(monoid: str, a: str, b: str) -> str:
    match monoid:
        case "add" | "mul" | "and" | "or":
            return f"{a} {_INFIX[monoid]} {b}"
        case "min" | "max":
            return f"{monoid}({a}, {b})"
        case "last":
            return b
        case _:
            raise NotWrittenError(monoid)
