"""What loops mean: a plain interpreter, written for clarity.

Each part of a program becomes a function of Python once, as loops call it many times: what a node
is is not asked in every round.

Memory starts out marked as not written; reading an element before it is written, or outside its
array, is `Broken`, for it is always the compiler's mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from naperian.broken import Broken
from naperian.dtypes import DType
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
from naperian.loops.walk import atoms
from naperian.names import Lit, Var
from naperian.prims import (
    PRIMITIVES,
    combine,
    convert,
    in_order,
    places_in_order,
    quiet,
    scalar,
)
from naperian.sizes import Size, evaluate

_Memory: TypeAlias = tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]  # and what is written
_Places: TypeAlias = tuple[int, ...]


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
    with quiet():
        m.block(program.body)()
    out = []
    for b in program.buffers:
        if b.role is Role.OUT:
            a, written = m.memory[b.var]
            if not written.all():
                raise Broken(f"the result {b.var} is not written completely")
            out.append(a if b.shape else a[()])
    return out


class Machine:
    """The values of scalars, and of buffers with what of them has been written; and what the parts
    of a program do to them."""

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

    # statements

    def block(self, body: tuple[Stmt, ...]) -> Callable[[], None]:
        steps = [self.step(s) for s in body]

        def go() -> None:
            for step in steps:
                step()

        return steps[0] if len(steps) == 1 else go

    def step(self, s: Stmt) -> Callable[[], None]:
        match s:
            case Loop():
                return self.loop(s)
            case While(head, condition, body):
                return self.repeated(self.block(head), self.value(condition), self.block(body))
            case When(condition, then, otherwise):
                return self.chosen(self.value(condition), self.block(then), self.block(otherwise))
            case Let(var, _, value) | Variable(var, _, value) | Assign(var, value):
                return self.assigned(var, self.value(value))
            case Store(buffer, at, value):
                return self.store(buffer, at, self.value(value))
            case Update(buffer, at, monoid, value):
                old, new = self.load(buffer, at), self.value(value)
                return self.store(buffer, at, lambda: combine(monoid, old(), new()))
            case Allocate():
                return lambda: self.provide(s)
            case Fail():
                return self.failing(s)
            case Print():
                return self.printed(s)
            case Contract():
                return self.contract(s)
            case Sort():
                return self.sort(s)

    def loop(self, s: Loop) -> Callable[[], None]:
        scalars, var = self.scalars, s.var
        low, high, body = self.number(s.low), self.number(s.high), self.block(s.body)

        def go() -> None:
            for k in range(low(), high()):
                scalars[var] = k
                body()

        return go

    def repeated(
        self, head: Callable[[], None], condition: Callable[[], Any], body: Callable[[], None]
    ) -> Callable[[], None]:
        def go() -> None:
            head()
            while condition():
                body()
                head()

        return go

    def chosen(
        self, condition: Callable[[], Any], then: Callable[[], None], otherwise: Callable[[], None]
    ) -> Callable[[], None]:
        return lambda: then() if condition() else otherwise()

    def assigned(self, var: Var, value: Callable[[], Any]) -> Callable[[], None]:
        scalars = self.scalars

        def go() -> None:
            scalars[var] = value()

        return go

    def provide(self, s: Allocate) -> None:
        self.allocate(s.own, s.fill)
        self.planes[s.buffer.var] = tuple(self.plane(s.buffer.var, x) for x in s.planes)

    def failing(self, s: Fail) -> Callable[[], None]:
        condition, values = self.value(s.condition), [self.value(v) for v in s.values]

        def go() -> None:
            if condition():
                raise RunError(s.code, tuple([v() for v in values]))

        return go

    def printed(self, s: Print) -> Callable[[], None]:
        values = [self.value(v) for v in s.values]

        def go() -> None:
            numbers = [scalar(v(), dtype) for v, dtype in zip(values, s.dtypes, strict=True)]
            self.told.tell(numbers, self.lines[s.code - 1] if s.code else ())

        return go

    def contract(self, s: Contract) -> Callable[[], None]:
        old, left, right = self.load(*s.out), self.load(*s.left), self.load(*s.right)
        result: list[Any] = [None]
        store = self.store(*s.out, lambda: result[0])

        def points(bounds: tuple[tuple[Var, Size], ...]) -> list[dict[Var, int]]:
            ranges = [range(self.size(n)) for _, n in bounds]
            names = [v for v, _ in bounds]
            return [dict(zip(names, p, strict=True)) for p in product(*ranges)]

        def go() -> None:
            for outer in points((*s.batch, *s.rows, *s.columns)):
                self.scalars.update(outer)
                total = old() if s.accumulate else scalar(0, s.dtype)
                for inner in points(s.inner):
                    self.scalars.update(inner)
                    total = self.multiply_add(total, left(), right())
                result[0] = total
                store()

        return go

    def sort(self, s: Sort) -> Callable[[], None]:
        var, n = s.axis
        row: list[Any] = []
        load = self.load(*s.value)
        store = self.store(*s.out, lambda: row[self.scalars[var]])

        def go() -> None:
            points = range(self.size(n))
            values = []
            for self.scalars[var] in points:
                values.append(load())
            ordered = places_in_order if s.places else in_order
            row[:] = ordered(values, s.dtype)
            for self.scalars[var] in points:
                store()

        return go

    def multiply_add(self, total: Any, left: Any, right: Any) -> Any:
        return PRIMITIVES["add"].function(total, PRIMITIVES["mul"].function(left, right))

    # places

    def plane(self, buffer: Var, part: Part | None) -> _Memory:
        """The memory of a part of another buffer, or a buffer's own."""
        if part is None:
            return self.memory[buffer]
        a, written = self.memory[part[0]]
        at = tuple(self.size(i) for i in part[1])
        return a[at], written[at]

    def at(self, buffer: Var, at: tuple[Size, ...]) -> Callable[[], tuple[_Memory, _Places]]:
        numbers = [self.number(i) for i in at]

        def go() -> tuple[_Memory, _Places]:
            place = tuple([n() for n in numbers])
            memory, planes = self.memory[buffer], self.planes.get(buffer)
            if planes:
                if not 0 <= place[0] < len(planes):
                    raise Broken(f"{buffer} has no plane {place[0]}")
                memory, place = planes[place[0]], place[1:]
            shape = memory[0].shape
            for k, n in zip(place, shape, strict=True):
                if not 0 <= k < n:
                    raise Broken(f"{buffer}{list(place)} is outside its shape {shape}")
            return memory, place

        return go

    def load(self, buffer: Var, at: tuple[Size, ...]) -> Callable[[], Any]:
        found = self.at(buffer, at)

        def go() -> Any:
            (a, written), place = found()
            if not written[place]:
                raise Broken(f"{buffer}{list(place)} is read before it is written")
            return a[place]

        return go

    def store(
        self, buffer: Var, at: tuple[Size, ...], value: Callable[[], Any]
    ) -> Callable[[], None]:
        found = self.at(buffer, at)

        def go() -> None:
            new = value()
            (a, written), place = found()
            a[place] = new
            written[place] = True

        return go

    # values

    def size(self, s: Size) -> int:
        return self.number(s)()

    def number(self, s: Size) -> Callable[[], int]:
        """What gives the number that a size is."""
        constant = s.constant
        if constant is not None:
            return lambda: constant
        if s.plain:
            return self.polynomial(s)
        known: dict[object, Callable[[], int]] = {a: self.atom(a) for a in atoms(s)}
        return lambda: evaluate(s, lambda a: known[a]())

    def polynomial(self, s: Size) -> Callable[[], int]:
        """The same of a size whose atoms are variables."""
        scalars: dict[Any, Any] = self.scalars
        terms, v = s.terms, s.single
        if v is not None:
            return lambda: int(scalars[v])

        def go() -> int:
            total = 0
            for factors, n in terms:
                for v in factors:
                    n *= int(scalars[v])
                total += n
            return total

        return go

    def atom(self, a: object) -> Callable[[], int]:
        match a:
            case Var():
                scalars = self.scalars
                return lambda: int(scalars[a])
            case Load(buffer, at):
                load = self.load(buffer, at)
                return lambda: int(load())
            case _:
                raise Broken(f"not an atom of loops: {a!r}")

    def value(self, e: Expr) -> Callable[[], Any]:
        match e:
            case Lit(value, dtype):
                known = scalar(value, dtype)
                return lambda: known
            case Local(var):
                scalars = self.scalars
                return lambda: scalars[var]
            case Number(value):
                number = self.number(value)
                return lambda: np.int64(number())
            case Load(buffer, at):
                return self.load(buffer, at)
            case Apply():
                return self.applied(e)

    def operand(self, e: Expr, dtype: DType) -> Callable[[], Any]:
        """What gives an operand, which is of that type."""
        return self.value(e)

    def applied(self, e: Apply) -> Callable[[], Any]:
        dtype = e.dtype
        if e.name == "select":
            c, a, b = map(self.value, e.args)
            return lambda: a() if c() else b()
        args = [self.operand(x, e.operand) for x in e.args]
        x = args[0]
        if e.name == "cast":
            return lambda: convert(x(), dtype)
        if e.name == "bitcast":
            return lambda: np.asarray(x()).view(dtype.value)[()]
        function = PRIMITIVES[e.name].function
        if len(args) == 1:
            return lambda: scalar(function(x()), dtype)
        _, y = args
        return lambda: scalar(function(x(), y()), dtype)
