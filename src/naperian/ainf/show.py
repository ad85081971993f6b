"""AiNF as text. `parse` reads it back.

    def dot(n; x: F64[n], y: F64[n]):
      for k<n: v0 = mul(x[k], y[k])
      v1 = add over k<n of v0[k] from 0.0
      return v1

The context stands in front of a binding, every index with its extent; bindings are numbered in
order, so equal programs print equally. The full notation:

    index   ::= i<extent | t<extent while operand | t while operand | u
    guard   ::= operand | not operand, then (size >= 0) if it states a fact
    line    ::= [for index, … [if guard, …]:] v = prim  |  … : check operand else code
              | return [for index, …:] operand  |  error code "message"
    prim    ::= op(operand, …) | cast[F32](operand) | checked(operand, operand) else code
              | monoid {over [index, …] [at [size, …]] of operand [if guard, …]} from operand
              | delay over t from operand next operand
    operand ::= v[size, …] | literal | size | #size     (# where a size looks like another operand)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

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
    Param,
    Prim,
    Program,
    Read,
    Trips,
)
from naperian.ainf.walk import is_reduction
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.prims import Math
from naperian.sizes import Atom, Clamp, Quotient, Remainder, Size, polynomial

KEYWORDS = frozenset(
    {"def", "for", "if", "not", "while", "over", "at", "of", "from", "next", "delay", "check"}
    | {"else", "error", "return", "inf", "nan", "True", "False", "wrap", "clamp", "trips"}
)


def show(program: Program) -> str:
    """The program as text."""
    return "\n".join(_Printer(program).lines()) + "\n"


class _Printer:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.taken: set[str] = set(KEYWORDS)
        self.names: dict[Var, str] = {}
        self.order: dict[Var, int] = {}
        for v in program.sizes:
            self.name(v, v.name)
        for p in program.params:
            self.name(p.var, p.var.name)
        for k, b in enumerate(program.bindings):
            self.name(b.var, f"v{k}")

    def name(self, v: Var, wish: str) -> str:
        """The name of a variable, as wished unless another has it."""
        if v not in self.names:
            plain = re.sub(r"\W", "_", wish) or "x"
            name, k = plain, 1
            while name in self.taken:
                name, k = f"{plain}_{k}", k + 1
            self.taken.add(name)
            self.names[v] = name
            self.order[v] = len(self.order)
        return self.names[v]

    def lines(self) -> Iterator[str]:
        p = self.program
        params = ", ".join(self.param(x) for x in p.params)
        mark = "" if p.math is Math.DEFAULT else f"{p.math.value} "
        yield f"{mark}def {p.name}({', '.join(self.names[v] for v in p.sizes)}; {params}):"
        for b in p.bindings:
            yield "  " + self.binding(b)
        for r in p.results:
            new = "new " if r.new else ""
            yield f"  return {new}{self.context(r.indices)}{self.operand(r.value)}"
        for code, failure in enumerate(p.failures, 1):
            text = failure.message.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            yield f'  error {code} "{text}"'
        for code, line in enumerate(p.lines, 1):
            yield f"  line {code} {line!r}"

    def param(self, p: Param) -> str:
        text = f"{self.names[p.var]}: {p.dtype.name}"
        if p.shape:
            text += f"[{self.sizes(p.shape)}]"
        return text + (f" < {self.size(p.bound)}" if p.bound is not None else "")

    def binding(self, b: Binding) -> str:
        head = self.context(b.context, b.guards)
        if isinstance(b.prim, Check):
            return f"{head}check {self.operand(b.prim.condition)} else {b.prim.code}"
        return f"{head}{self.names[b.var]} = {self.prim(b)}"

    def context(self, indices: tuple[Var, ...], guards: tuple[Guard, ...] = ()) -> str:
        text = "for " + ", ".join(self.index(i) for i in indices) if indices else ""
        if guards:
            text += (" " if text else "") + self.guards(guards)
        return text + ": " if text else ""

    def guards(self, guards: tuple[Guard, ...]) -> str:
        return "if " + ", ".join(self.guard(g) for g in guards)

    def guard(self, g: Guard) -> str:
        text = ("" if g.holds else "not ") + self.operand(g.operand)
        return text if g.fact is None else f"{text} ({self.size(g.fact)} >= 0)"

    def index(self, i: Var) -> str:
        it = self.program.indices[i]
        text = self.name(i, i.name)
        if it.extent is not None:
            text += f"<{self.size(it.extent)}"
        if it.condition is not None:
            text += f" while {self.operand(it.condition)}"
        return text

    def prim(self, b: Binding) -> str:
        prim: Prim = b.prim
        match prim:
            case Op("cast" | "bitcast" as name, (x,)):
                return f"{name}[{b.dtype.name}]({self.operand(x)})"
            case Op(name, args, code):
                text = f"{name}({', '.join(self.operand(a) for a in args)})"
                return f"{text} else {code}" if code else text
            case Accumulate(monoid, init, entries):
                plain = is_reduction(b.context, prim)
                body = "".join(self.entry(e, plain) for e in entries)
                return f"{monoid}{body} from {self.operand(init)}"
            case Delay(time, _, init, next):
                return (
                    f"delay over {self.index(time)} from {self.operand(init)}"
                    f" next {self.operand(next)}"
                )
            case Check():
                raise AssertionError("a check has no value")

    def entry(self, e: Entry, plain: bool) -> str:
        text = " over" + "".join(
            f"{',' if k else ''} {self.index(i)}" for k, i in enumerate(e.over)
        )
        if not plain:
            text += f" at [{self.sizes(e.at)}]"
        text += f" of {self.operand(e.value)}"
        return text + (f" {self.guards(e.guards)}" if e.guards else "")

    def operand(self, o: Operand) -> str:
        match o:
            case Read(var, at):
                return self.read(var, at)
            case Number(value):
                plain = self.size(value)
                bare = value.constant is not None or isinstance(value.single, Read)
                return f"#{plain}" if bare else plain
            case Lit():
                return literal(o)

    def read(self, var: Var, at: tuple[Size, ...]) -> str:
        name = self.name(var, var.name)
        return f"{name}[{self.sizes(at)}]" if at else name

    def sizes(self, many: tuple[Size, ...]) -> str:
        return ", ".join(self.size(s) for s in many)

    def size(self, s: Size) -> str:
        """Terms stand as their variables were first named here, for a text that is read again
        makes its variables in that order."""
        terms = [(tuple(sorted(m, key=self.place)), c) for m, c in s.terms]
        terms.sort(key=lambda t: (-len(t[0]), [self.place(a) for a in t[0]]))
        return polynomial(terms, lambda a, _: self.atom(a))

    def place(self, a: Atom) -> tuple[int, int, str]:
        """Where an atom stands among others: variables in the order of their names."""
        if isinstance(a, Var):
            return (0, self.order.get(a, len(self.order)), "")
        return (1, 0, self.atom(a))

    def atom(self, a: Atom) -> str:
        match a:
            case Var():
                return self.name(a, a.name)
            case Read(var, at):
                return self.read(var, at)
            case Trips(time, at):
                given = "".join(f", {self.name(i, i.name)} = {self.size(e)}" for i, e in at)
                return f"trips({self.name(time, time.name)}{given})"
            case Quotient(x, y):
                return f"(({self.size(x)}) // ({self.size(y)}))"
            case Remainder(x, y):
                return f"wrap({self.size(x)}, {self.size(y)})"
            case Clamp(x, y):
                return f"clamp({self.size(x)}, {self.size(y)})"
            case _:
                raise AssertionError(f"{a!r} is no atom of AiNF")


def literal(lit: Lit) -> str:
    """A constant; its dtype is written unless it is Bool, I64 or F64."""
    value = lit.value
    if lit.dtype is DType.BOOL:
        return str(bool(value))
    if lit.dtype.is_float:
        text = repr(float(value))
    else:
        text = str(int(value))
    return text if lit.dtype in (DType.I64, DType.F64) else f"{text}:{lit.dtype.name}"
