"""Of a row in order of which only the first few are read, only these are found. loops → loops

    before   sort v[q] = places of sorted x[q] over q < n        after   if n < 128: as before
             … v[0], … v[4]                                              else:
                                                     for i in 0..5: x[i] goes where it belongs in
                                                                    codes[1..] and v, from the end
                                                     for b in 0..⌈(n - 5) / 8⌉:
                                                         some = whether one of eight comes before
                                                                codes[5], the last of the first
                                                         if some: for these eight: if it does,
                                                                  it goes where it belongs, too

Of `n` in any order the first `k` change k·log(n / k) times, so most vectors are read and compared
once. Numbers are compared by their codes, as rows in order are (`orders/codes.py`); codes[0] is
before all, and ends the way to where a number belongs.
"""

from __future__ import annotations

from collections.abc import Iterator

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Buffer,
    Expr,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Program,
    Reduction,
    Role,
    Sort,
    Stmt,
    Store,
    Variable,
    When,
    While,
)
from naperian.loops.walk import loads, rebuild, statements, takes, writes
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.prims import unit
from naperian.sizes import ZERO, Size, clamp, rename, size

_MOST = 16  # that are few
_LEAST = 128  # in a row: fewer are put in order in registers
_MANY = 8  # that are looked at together: a vector or two
_CODES = {DType.F64: DType.I64, DType.F32: DType.I32, DType.I64: DType.I64, DType.I32: DType.I32}


def firsts(program: Program) -> Program:
    """See the module."""
    inside = statements(program.body)
    sorts = [s for s in inside if isinstance(s, Sort)]
    if not sorts:
        return program
    made = {s.buffer.var for s in inside if isinstance(s, Allocate) and s.buffer.role is Role.TEMP}
    few = {
        s: k for s in sorts
        if s.out[0] in made and (k := _read(s.out[0], program.body)) is not None
    }  # fmt: skip

    def block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(
            _either(s, few[s]) if isinstance(s, Sort) and s in few else rebuild(s, block)
            for s in body
        )

    return replace(program, body=block(program.body)) if few else program


def _read(v: Var, body: tuple[Stmt, ...]) -> int | None:
    """How many of the first elements of its rows are all that is read of a buffer, if they are
    few."""
    most = 0
    inside = statements(body)
    ends = {s.var: s.high.constant for s in inside if isinstance(s, Loop) and s.low == ZERO}
    for s in inside:
        if v in takes(s) or (writes(s) == v and not isinstance(s, Sort)):
            return None
        for e in loads(s):
            if e.buffer == v:
                last = e.at[-1]
                end = None if last.constant is None else last.constant + 1
                if isinstance(last.single, Var):
                    end = ends.get(last.single)
                if end is None or not 0 < end <= _MOST:
                    return None
                most = max(most, end)
    return most or None


def _either(s: Sort, k: int) -> When:
    long = Apply("ge", (Number(s.axis[1]), Lit(_LEAST, DType.I64)), DType.BOOL, DType.I64)
    return When(long, tuple(_First(s, k).statements()), (s,))


class _First:
    """The first few of one row."""

    def __init__(self, s: Sort, k: int) -> None:
        self.s, self.k, self.n = s, k, s.axis[1]
        self.codes, self.type = Var("codes"), _CODES[s.dtype]

    def statements(self) -> Iterator[Stmt]:
        i, k, some, block = Var("i"), size(self.k), Var("some"), Var("block")
        before_all = Lit(unit("max", self.type), self.type)
        yield Allocate(Buffer(self.codes, self.type, (k + 1,), Role.TEMP), small=True)
        yield Store(self.codes, (ZERO,), before_all)
        code, lets = self.code(i)
        yield Loop(i, ZERO, k, (*lets, *self.placed(i, size(i), code)), Order.SERIAL)
        start = k + size(block) * _MANY
        end = start + _MANY
        ends = Apply("gt", (Number(end), Number(self.n)), DType.BOOL, DType.I64)
        code, lets = self.code(i)
        comes = Apply("lt", (code, Load(self.codes, (k,))), DType.BOOL, self.type)
        either = Assign(some, Apply("or", (Local(some), comes), DType.BOOL, DType.BOOL))
        flag = Reduction(some, "or", DType.BOOL)
        look = Loop(i, start, end, (*lets, either), Order.FREE, (flag,))
        each = (*lets, When(comes, tuple(self.placed(i, k - 1, code))))
        rest = Loop(i, start, start + clamp(self.n - start, size(_MANY + 1)), each, Order.SERIAL)
        none = Apply("not", (Local(some),), DType.BOOL, DType.BOOL)
        body = (Variable(some, DType.BOOL, ends), When(none, (look,)), When(Local(some), (rest,)))
        yield Loop(block, ZERO, (self.n - k + (_MANY - 1)) // _MANY, body, Order.SERIAL)
        if not self.s.places:
            number = self.number(Load(self.codes, (size(i) + 1,)))
            yield Loop(i, ZERO, k, (Store(self.s.out[0], self.to(size(i)), number),), Order.SERIAL)

    def to(self, q: Size) -> tuple[Size, ...]:
        """Where the element goes that so many come before."""
        return tuple(rename(e, {self.s.axis[0]: q}) for e in self.s.out[1])

    def placed(self, i: Var, last: Size, code: Expr) -> Iterator[Stmt]:
        """An element goes where it belongs, and those behind it one place on; the last is gone."""
        at = Var("at")
        here = size(at)
        yield Variable(at, DType.I64, Number(last))
        moves: list[Stmt] = [Store(self.codes, (here + 1,), Load(self.codes, (here,)))]
        if self.s.places:
            before = Load(self.s.out[0], self.to(here - 1))
            moves.append(Store(self.s.out[0], self.to(here), before))
        moves.append(Assign(at, Number(here - 1)))
        earlier = Apply("lt", (code, Load(self.codes, (here,))), DType.BOOL, self.type)
        yield While((), earlier, tuple(moves))
        yield Store(self.codes, (here + 1,), code)
        if self.s.places:
            yield Store(self.s.out[0], self.to(here), Number(size(i)))

    def code(self, i: Var) -> tuple[Expr, tuple[Stmt, ...]]:
        """The code of an element, and what is named for it."""
        buffer, at = self.s.value
        t, own = self.type, self.s.dtype
        x: Expr = Load(buffer, tuple(rename(e, {self.s.axis[0]: size(i)}) for e in at))
        lets: list[Stmt] = []

        def let(name: str, dtype: DType, e: Expr) -> Local:
            lets.append(Let(Var(name), dtype, e))
            return Local(lets[-1].var)  # type: ignore[union-attr]

        if own.is_float:
            if self.s.places:  # -0.0 is 0.0
                x = Apply("add", (x, Lit(0.0, own)), own, own)
            x = let("value", own, x)
            bits = self.flipped(let("bits", t, Apply("bitcast", (x,), t, own)))
            odd = Apply("isnan", (x,), DType.BOOL, own)
            x = Apply("select", (odd, Lit(unit("min", t), t), bits), t, t)
        return let("code", t, x), tuple(lets)

    def number(self, code: Expr) -> Expr:
        """The number that has a code."""
        own, t = self.s.dtype, self.type
        return Apply("bitcast", (self.flipped(code),), own, t) if own.is_float else code

    def flipped(self, bits: Expr) -> Expr:
        """The bits of a float as a code, and back."""
        t = self.type

        def whole(name: str, x: Expr, y: Expr) -> Expr:
            return Apply(name, (x, y), t, t)

        sign = whole("shr", bits, Lit(t.bits - 1, t))
        return whole("bitxor", bits, whole("bitand", sign, Lit(unit("min", t), t)))
