"""Whether a function is linear, as its transpose takes it to be. core → ainf

A value is linear in the variables if it is one of them or 0, or is made of linear values by what is
linear in all of them (a sum, a copy, the rounds of a loop, a choice) or in the only one that varies
(a product). Nothing else may depend on the variables: no index, condition, guard or number of
rounds. Custom rules and `stop_gradient` change no value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from naperian.ainf.syntax import Accumulate, Binding, Delay, Number, Op, Operand, Read, Trips
from naperian.ainf.walk import atoms, atoms_of, operands
from naperian.names import Lit, Var
from naperian.passes.bindings.builder import Builder
from naperian.source import NOWHERE, CompileError, Diagnostic, Label, Span

_SUMS = ("add", "sub", "neg", "copy", "held", "cast", "stop_gradient")


def check_linear(b: Builder, sources: set[Var], value: Iterable[Operand]) -> None:
    """That a value is linear in the sources. Raises CompileError, N0705."""
    check = _Linear(b, sources)
    if not all(map(check.operand, value)):
        labels = (Label(check.culprit, "not linear in the argument"),) if check.culprit else ()
        raise CompileError((
            Diagnostic(
                "N0705", "`transpose_linear` is for linear functions, and this one is not", labels,
                helps=("`vjp(f, x)` is the transpose of what `f` is near `x`",),
            ),
        ))  # fmt: skip


class _Linear:
    def __init__(self, b: Builder, sources: set[Var]) -> None:
        self.b = b
        self.sources = sources
        self.made = {x.var: x for x in b.bindings}
        self.culprit: Span | None = None  # of the innermost that is written somewhere
        self.seen: set[Var] = set()
        readers: dict[Var, list[Var]] = {}
        for x in b.bindings:
            for v in self.mentioned(x):
                readers.setdefault(v, []).append(x.var)
        self.varying, todo = set(sources), list(sources)
        while todo:
            new = [v for v in readers.get(todo.pop(), ()) if v not in self.varying]
            self.varying.update(new)
            todo += new

    def mentioned(self, x: Binding) -> Iterator[Var]:
        """The bindings that a binding is computed from or depends on in another way."""
        for o in operands(x.prim):
            yield from self.read(o)
        yield from self.around(x)

    def around(self, x: Binding) -> Iterator[Var]:
        """Those that say where it is computed."""
        for g in x.guards:
            yield from self.read(g.operand)
        over = [v for e in x.prim.entries for v in e.over] if isinstance(x.prim, Accumulate) else []
        for i in (*x.context, *over, *([x.prim.time] if isinstance(x.prim, Delay) else [])):
            index = self.b.indices[i]
            if index.extent is not None:
                yield from self.read(Number(index.extent))
            if index.condition is not None:
                yield from self.read(index.condition)

    def read(self, o: Operand) -> Iterator[Var]:
        for a in atoms(o):
            if isinstance(a, Trips):
                condition = self.b.indices[a.time].condition
                if condition is not None:
                    yield from self.read(condition)
            else:
                yield a.var

    def fixed(self, o: Operand) -> bool:
        """Whether an operand is the same for all variables."""
        return not any(v in self.varying for v in self.read(o))

    def operand(self, o: Operand) -> bool:
        match o:
            case Lit(value):
                return value == 0
            case Read(var, at):
                if any(not self.fixed(a) for e in at for a in atoms_of(e) if isinstance(a, Read)):
                    return False
                return var in self.sources or self.binding(var)
            case Number():
                return False

    def binding(self, v: Var) -> bool:
        if v in self.seen:  # of a loop that goes on with itself, too
            return True
        self.seen.add(v)
        x = self.made.get(v)
        if x is not None and not any(y in self.varying for y in self.around(x)) and self.prim(x):
            return True
        if x is not None and self.culprit is None:
            near = (x, *(self.made[y] for y in self.mentioned(x) if y in self.made))
            spans = (y.origin for y in near if y.origin.source.name != NOWHERE.source.name)
            self.culprit = next(spans, None)
        return False

    def prim(self, x: Binding) -> bool:
        match x.prim:
            case Op("mul", (one, other)):
                return (self.fixed(one) and self.operand(other)) or (
                    self.fixed(other) and self.operand(one)
                )
            case Op("div", (one, other)):
                return self.fixed(other) and self.operand(one)
            case Op("select", (condition, yes, no)):
                return self.fixed(condition) and self.operand(yes) and self.operand(no)
            case Op("after" | "ruled", (one, _)):
                return self.operand(one)
            case Op(name, args):
                return name in _SUMS and all(map(self.operand, args))
            case Accumulate("add" | "last", init, entries):
                return self.operand(init) and all(
                    self.operand(e.value)
                    and all(self.fixed(Number(s)) for s in e.at)
                    and all(self.fixed(g.operand) for g in e.guards)
                    for e in entries
                )
            case Delay(_, _, init, next):
                return self.operand(init) and self.operand(next)
            case _:
                return False
