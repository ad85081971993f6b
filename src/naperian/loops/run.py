"""What loops mean: a plain interpreter, written for clarity.

Memory starts out marked as not written; reading an element before it is written, or outside its
array, is `Broken`, for it is always the compiler's mistake.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from naperian.broken import Broken
from naperian.lines import Line, Told, Write
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Buffer,
    Contract,
    Expr,
    Fail,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Part,
    Print,
    Program,
    Role,
    Sort,
    Stmt,
    Store,
    Update,
    Variable,
    When,
    While,
    made_here,
)
from naperian.names import Lit, Var
from naperian.prims import PRIMITIVES, combine, convert, in_order, places_in_order, scalar
from naperian.sizes import Size, evaluate

_Memory: TypeAlias = tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]  # and what is written


class RunError(Exception):
    """A `Fail` came true: its code and the values for its message."""

    def __init__(self, code: int, values: tuple[Any, ...] = ()) -> None:
        super().__init__(code, values)
        self.code = code
        self.values = values


def run(
    program: Program, sizes: Sequence[int], args: Sequence[Any],
    write: Write = print,
) -> list[Any]:
    """The results for these sizes (in the order of `program.sizes`) and arguments (arrays and
    scalars, for the IN buffers in order). A scalar result is a NumPy scalar. Lines that are printed
    are given to `write`."""
    return results(Machine(write), program, sizes, args)


def results(
    m: Machine, program: Program, sizes: Sequence[int], args: Sequence[Any]
) -> list[Any]:
    """As `run`, by a machine given."""
    m.lines = program.lines
    for v, n in zip(program.sizes, sizes, strict=True):
        m.scalars[v] = int(n)
    given = iter(args)
    made = made_here(program.body)
    for b in program.buffers:
        if b.role is Role.OUT:
            if b.var not in made:
                m.allocate(b, None)
        elif b.shape:
            a = np.asarray(next(given), dtype=b.dtype.value)
            if a.shape != m.shape(b):
                raise Broken(f"{b.var} has shape {a.shape}, not {m.shape(b)}")
            m.memory[b.var] = (a, np.ones(a.shape, bool))
        else:
            m.scalars[b.var] = scalar(next(given), b.dtype)
    m.block(program.body)
    out = []
    for b in program.buffers:
        if b.role is Role.OUT:
            a, written = m.memory[b.var]
            if not written.all():
                raise Broken(f"the result {b.var} is not written completely")
            out.append(a if b.shape else a[()])
    return out


class Machine:
    """The values of scalars, and of buffers with what of them has been written."""

    def __init__(self, write: Write = print) -> None:
        self.lines: tuple[Line, ...] = ()
        self.told = Told(write)
        self.scalars: dict[Var, Any] = {}
        self.memory: dict[Var, _Memory] = {}
        self.planes: dict[Var, tuple[_Memory, ...]] = {}

    def shape(self, b: Buffer) -> tuple[int, ...]:
        return tuple(max(0, self.size(n)) for n in b.shape)

    def allocate(self, b: Buffer, fill: Lit | None) -> None:
        a = np.zeros(self.shape(b), dtype=b.dtype.value)
        if fill is not None:
            a[...] = scalar(fill.value, fill.dtype)
        self.memory[b.var] = (a, np.full(a.shape, fill is not None))

    def block(self, body: tuple[Stmt, ...]) -> None:
        for s in body:
            self.stmt(s)

    def stmt(self, s: Stmt) -> None:
        match s:
            case Loop(var, low, high, body):
                for k in range(self.size(low), self.size(high)):
                    self.scalars[var] = k
                    self.block(body)
            case While(head, condition, body):
                self.block(head)
                while self.expr(condition):
                    self.block(body)
                    self.block(head)
            case When(condition, then, otherwise):
                self.block(then if self.expr(condition) else otherwise)
            case Let(var, _, value) | Variable(var, _, value) | Assign(var, value):
                self.scalars[var] = self.expr(value)
            case Store(buffer, at, value):
                self.store(buffer, at, self.expr(value))
            case Update(buffer, at, monoid, value):
                old = self.load(buffer, at)
                self.store(buffer, at, combine(monoid, old, self.expr(value)))
            case Allocate(buffer, fill):
                self.allocate(s.own, fill)
                self.planes[buffer.var] = tuple(self.plane(buffer.var, x) for x in s.planes)
            case Fail(condition, code, values):
                if self.expr(condition):
                    raise RunError(code, tuple(self.expr(v) for v in values))
            case Print(code, values, dtypes):
                told = zip(values, dtypes, strict=True)
                numbers = [scalar(self.expr(v), dtype) for v, dtype in told]
                self.told.tell(numbers, self.lines[code - 1] if code else ())
            case Contract():
                self.contract(s)
            case Sort():
                self.sort(s)

    def contract(self, s: Contract) -> None:
        def points(bounds: tuple[tuple[Var, Size], ...]) -> list[dict[Var, int]]:
            ranges = [range(self.size(n)) for _, n in bounds]
            names = [v for v, _ in bounds]
            return [dict(zip(names, p, strict=True)) for p in product(*ranges)]

        for outer in points((*s.batch, *s.rows, *s.columns)):
            self.scalars.update(outer)
            total = self.load(*s.out) if s.accumulate else scalar(0, s.dtype)
            for inner in points(s.inner):
                self.scalars.update(inner)
                total = self.multiply_add(total, self.load(*s.left), self.load(*s.right))
            self.store(*s.out, total)

    def sort(self, s: Sort) -> None:
        var, n = s.axis
        points = range(self.size(n))
        values = []
        for self.scalars[var] in points:
            values.append(self.load(*s.value))
        row = places_in_order(values, s.dtype) if s.places else in_order(values, s.dtype)
        for self.scalars[var] in points:
            self.store(*s.out, row[self.scalars[var]])

    def multiply_add(self, total: Any, left: Any, right: Any) -> Any:
        return PRIMITIVES["add"].meaning(total, PRIMITIVES["mul"].meaning(left, right))

    def plane(self, buffer: Var, part: Part | None) -> _Memory:
        """The memory of a part of another buffer, or a buffer's own."""
        if part is None:
            return self.memory[buffer]
        a, written = self.memory[part[0]]
        at = tuple(self.size(i) for i in part[1])
        return a[at], written[at]

    def at(self, buffer: Var, at: tuple[Size, ...]) -> tuple[_Memory, tuple[int, ...]]:
        place = tuple(self.size(i) for i in at)
        memory, planes = self.memory[buffer], self.planes.get(buffer)
        if planes:
            if not 0 <= place[0] < len(planes):
                raise Broken(f"{buffer} has no plane {place[0]}")
            memory, place = planes[place[0]], place[1:]
        shape = memory[0].shape
        if not all(0 <= k < n for k, n in zip(place, shape, strict=True)):
            raise Broken(f"{buffer}{list(place)} is outside its shape {shape}")
        return memory, place

    def load(self, buffer: Var, at: tuple[Size, ...]) -> Any:
        (a, written), place = self.at(buffer, at)
        if not written[place]:
            raise Broken(f"{buffer}{list(place)} is read before it is written")
        return a[place]

    def store(self, buffer: Var, at: tuple[Size, ...], value: Any) -> None:
        (a, written), place = self.at(buffer, at)
        a[place] = value
        written[place] = True

    def size(self, s: Size) -> int:
        return evaluate(s, self.atom)

    def atom(self, a: object) -> int:
        match a:
            case Var():
                return int(self.scalars[a])
            case Load(buffer, at):
                return int(self.load(buffer, at))
            case _:
                raise Broken(f"not an atom of loops: {a!r}")

    def expr(self, e: Expr) -> Any:
        match e:
            case Lit(value, dtype):
                return scalar(value, dtype)
            case Local(var):
                return self.scalars[var]
            case Number(value):
                return np.int64(self.size(value))
            case Load(buffer, at):
                return self.load(buffer, at)
            case Apply("cast", (x,), dtype):
                return convert(self.expr(x), dtype)
            case Apply("bitcast", (x,), dtype):
                return np.asarray(self.expr(x)).view(dtype.value)[()]
            case Apply("select", (c, a, b)):
                return self.expr(a) if self.expr(c) else self.expr(b)
            case Apply(name, args, dtype):
                return scalar(PRIMITIVES[name].meaning(*[self.expr(x) for x in args]), dtype)
