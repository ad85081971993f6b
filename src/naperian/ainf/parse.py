"""AiNF from text: the inverse of `show` (whose docstring has the notation).

Indices, bindings and parameters are told apart by where they are introduced; a name met first
as an operand is a binding of a later line (`next`, `while`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Check,
    Delay,
    Entry,
    Failure,
    Guard,
    Index,
    Number,
    Op,
    Operand,
    Param,
    Prim,
    Program,
    Read,
    Result,
    Trips,
)
from naperian.ainf.walk import dtype_of, number, result_dtype
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.prims import MONOIDS, Math
from naperian.sizes import Size, atom, clamp, size
from naperian.source import NOWHERE

_T = TypeVar("_T")
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<text>"(?:[^"\\]|\\.)*")
    | (?P<typed>-?(?:inf|nan|\d+(?:\.\d+)?(?:e[+-]?\d+)?):[A-Z]\d+\b)
    | (?P<float>-?(?:inf\b|nan\b|\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+))
    | (?P<int>\d+)
    | (?P<name>\w+)
    | (?P<sign>//|>=|[-+*<>=,:;#()\[\]])
    )""",
    re.VERBOSE,
)


def parse(text: str) -> Program:
    """The program a text shows. A malformed text is a `ValueError` that quotes the line."""
    reader = _Reader()
    for line in text.splitlines():
        if line.strip():
            try:
                reader.line(line)
            except (ValueError, KeyError) as error:
                raise ValueError(f"in `{line.strip()}`: {error}") from error
    return reader.program()


class _Reader:
    def __init__(self) -> None:
        self.tokens: list[tuple[str, str]] = []
        self.here = 0
        self.title = ""
        self.math = Math.DEFAULT
        self.vars: dict[str, Var] = {}
        self.sizes: list[Var] = []
        self.params: list[Param] = []
        self.indices: dict[Var, Index] = {}
        self.bindings: list[Binding] = []
        self.results: list[tuple[tuple[Var, ...], Operand, bool]] = []
        self.failures: list[Failure] = []
        self.dtypes: dict[Var, DType] = {}

    def program(self) -> Program:
        return Program(
            self.title,
            tuple(self.sizes),
            tuple(self.params),
            self.indices,
            tuple(self.bindings),
            tuple(
                Result(at, value, dtype_of(value, self.dtypes), new)
                for at, value, new in self.results
            ),
            tuple(self.failures),
            self.math,
        )

    # tokens

    def peek(self, ahead: int = 0) -> str:
        k = self.here + ahead
        return self.tokens[k][1] if k < len(self.tokens) else ""

    def kind(self) -> str:
        return self.tokens[self.here][0] if self.here < len(self.tokens) else "end"

    def next(self) -> str:
        word = self.peek()
        self.here += 1
        return word

    def take(self, word: str) -> bool:
        if self.peek() == word:
            self.here += 1
            return True
        return False

    def expect(self, word: str) -> None:
        if not self.take(word):
            raise ValueError(f"expected `{word}`, found `{self.peek()}`")

    def several(self, item: Callable[[], _T], end: str) -> tuple[_T, ...]:
        """`item, …` up to the word `end`, which is taken."""
        out: list[_T] = []
        while not self.take(end):
            if out:
                self.expect(",")
            out.append(item())
        return tuple(out)

    def var(self, name: str) -> Var:
        if name not in self.vars:
            self.vars[name] = Var(name)
        return self.vars[name]

    # lines

    def line(self, text: str) -> None:
        self.tokens, self.here = [], 0
        at = 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                raise ValueError(f"unexpected `{text[at:]}`")
            self.tokens.append((match.lastgroup, match.group(match.lastgroup)))
            at = match.end()
        if self.peek() in ("strict", "fast") and self.peek(1) == "def":
            self.math = Math(self.next())
        if self.take("def"):
            self.header()
        elif self.take("error"):
            self.next()
            message = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], self.next()[1:-1])
            self.failures.append(Failure(message, NOWHERE))
        elif self.take("return"):
            new = self.take("new")
            context, _ = self.context()
            self.results.append((context, self.operand(), new))
        else:
            self.binding()
        if self.here < len(self.tokens):
            raise ValueError(f"unexpected `{self.peek()}`")

    def header(self) -> None:
        self.title = self.next()
        self.expect("(")
        self.sizes.extend(self.several(lambda: self.var(self.next()), ";"))
        for param in self.several(self.param, ")"):
            self.params.append(param)
        self.expect(":")

    def param(self) -> Param:
        var = self.var(self.next())
        self.expect(":")
        self.dtypes[var] = DType[self.next()]
        shape = self.several(self.size, "]") if self.take("[") else ()
        bound = self.size() if self.take("<") else None
        return Param(var, self.dtypes[var], shape, bound)

    def binding(self) -> None:
        context, guards = self.context()
        if self.take("check"):
            condition = self.operand()
            self.expect("else")
            check = Check(condition, int(self.next()))
            self.bindings.append(Binding(Var("check"), context, guards, DType.BOOL, check))
            return
        var = self.var(self.next())
        self.expect("=")
        prim, dtype = self.prim(context)
        self.dtypes[var] = dtype
        self.bindings.append(Binding(var, context, guards, dtype, prim))

    def context(self) -> tuple[tuple[Var, ...], tuple[Guard, ...]]:
        indices: list[Var] = []
        guards: tuple[Guard, ...] = ()
        if self.take("for"):
            indices.append(self.index())
            while self.take(","):
                indices.append(self.index())
        if self.peek() == "if":
            guards = self.guards()
        if indices or guards:
            self.expect(":")
        return tuple(indices), guards

    def index(self) -> Var:
        var = self.var(self.next())
        new = var not in self.indices
        if new:
            self.indices[var] = Index(None, None, var.name)  # its condition mentions it
        extent = self.size() if self.take("<") else None
        condition = self.operand() if self.take("while") else None
        if new:
            self.indices[var] = Index(extent, condition, var.name)
        return var

    def guards(self) -> tuple[Guard, ...]:
        self.expect("if")
        out = [self.guard()]
        while self.take(","):
            out.append(self.guard())
        return tuple(out)

    def guard(self) -> Guard:
        holds = not self.take("not")
        operand = self.operand()
        fact = None
        if self.take("("):
            fact = self.size()
            self.expect(">=")
            self.expect("0")
            self.expect(")")
        return Guard(operand, holds, fact)

    # primitives

    def prim(self, context: tuple[Var, ...]) -> tuple[Prim, DType]:
        name = self.next()
        if name == "delay":
            self.expect("over")
            time = self.index()
            self.expect("from")
            init = self.operand()
            self.expect("next")
            delay = Delay(time, context[-1], init, self.operand())
            return delay, dtype_of(init, self.dtypes)
        if name in MONOIDS and self.peek() in ("over", "from"):
            entries = []
            while self.take("over"):
                entries.append(self.entry(context))
            self.expect("from")
            init = self.operand()
            first = entries[0].value if name == "nth" else init
            return Accumulate(name, init, tuple(entries)), dtype_of(first, self.dtypes)
        chosen = None
        if self.take("["):
            chosen = DType[self.next()]
            self.expect("]")
        self.expect("(")
        args = self.several(self.operand, ")")
        code = int(self.next()) if self.take("else") else 0
        dtype = chosen or result_dtype(name, args, self.dtypes)
        if dtype is None:
            raise ValueError(f"`{name}` needs a dtype")
        return Op(name, args, code), dtype

    def entry(self, context: tuple[Var, ...]) -> Entry:
        over: list[Var] = []
        while self.peek() not in ("at", "of"):
            if over:
                self.expect(",")
            over.append(self.index())
        at = tuple(size(i) for i in context)
        if self.take("at"):
            self.expect("[")
            at = self.several(self.size, "]")
        self.expect("of")
        value = self.operand()
        guards = self.guards() if self.peek() == "if" else ()
        return Entry(tuple(over), at, value, guards)

    # operands and sizes

    def operand(self) -> Operand:
        match self.kind():
            case "typed":
                text, dtype = self.next().split(":")
                d = DType[dtype]
                return Lit(float(text) if d.is_float else int(text), d)
            case "float":
                return Lit(float(self.next()), DType.F64)
            case _:
                pass
        if self.peek() in ("True", "False"):
            return Lit(self.next() == "True", DType.BOOL)
        if self.take("#"):
            return Number(self.size())
        value = self.size()
        single = value.single
        return single if isinstance(single, Read) else number(value)

    def size(self) -> Size:
        total = -self.product() if self.take("-") else self.product()
        while self.peek() in ("+", "-"):
            total = total + self.product() if self.next() == "+" else total - self.product()
        return total

    def product(self) -> Size:
        out = self.factor()
        while self.take("*"):
            out = out * self.factor()
        return out

    def factor(self) -> Size:
        if self.kind() == "int":
            return size(int(self.next()))
        if self.take("("):
            out = self.size()
            self.expect(")")
            if self.take("//"):
                out = out // self.factor()
            return out
        name = self.next()
        if not re.fullmatch(r"\w+", name):
            raise ValueError(f"expected an index expression, found `{name}`")
        if name in ("clamp", "wrap") and self.take("("):
            above, below = self.several(self.size, ")")
            return clamp(above, below) if name == "clamp" else above % below
        if name == "trips" and self.take("("):
            time = self.var(self.next())
            pairs = []
            while self.take(","):
                i = self.var(self.next())
                self.expect("=")
                pairs.append((i, self.size()))
            self.expect(")")
            return atom(Trips(time, tuple(pairs)))
        var = self.var(name)
        if var in self.indices or var in self.sizes:
            return size(var)
        return atom(Read(var, self.several(self.size, "]") if self.take("[") else ()))
