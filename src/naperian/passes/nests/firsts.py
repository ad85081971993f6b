"""Of a row in order of which only the first few, or the last, are read, only these are found.
loops → loops

    before   sort v[q] = places of sorted x[q] over q < n        after   if n < 128: as before
             … v[0], … v[4]                                              else:
                                                     for i in 0..5: x[i] goes where it belongs in
                                                                    codes[1..] and v, from the end
                                                     for b in 0..⌈(n - 5) / 8⌉:
                                                         some = whether one of eight comes before
                                                                codes[5], the last of the first
                                                         if some: for these eight: if it does,
                                                                  it goes where it belongs, too

Of the last few the same is done from the end: a code has all its bits turned, so what comes last is
the least, and the elements are gone through from the last to the first, since of equal ones that
which stands later comes later.

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
        if s.out[0] in made and (k := _read(s, program.body)) is not None
    }  # fmt: skip

    def block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(
            _either(s, few[s]) if isinstance(s, Sort) and s in few else rebuild(s, block)
            for s in body
        )

    return replace(program, body=block(program.body)) if few else program


def _read(s: Sort, body: tuple[Stmt, ...]) -> tuple[int, bool] | None:
    """How many of the first elements of its rows are all that is read of what is sorted, or of the
    last (then True), if they are few."""
    v, at = s.out
    if at[-1] != size(s.axis[0]):
        return None
    inside = statements(body)
    ends = {x.var: x.high.constant for x in inside if isinstance(x, Loop) and x.low == ZERO}
    read = {e.at[-1] for x in inside for e in loads(x) if e.buffer == v}
    if any(v in takes(x) or (writes(x) == v and not isinstance(x, Sort)) for x in inside):
        return None
    for last in (False, True):
        most = 0
        for e in read:
            place = s.axis[1] - 1 - e if last else e
            end = None if place.constant is None else place.constant + 1
            if isinstance(place.single, Var):
                end = ends.get(place.single)
            if end is None or not 0 < end <= _MOST:
                break
            most = max(most, end)
        else:
            return (most, last) if most else None
    return None


def _either(s: Sort, few: tuple[int, bool]) -> When:
    long = Apply("ge", (Number(s.axis[1]), Lit(_LEAST, DType.I64)), DType.BOOL, DType.I64)
    return When(long, tuple(_First(s, *few).statements()), (s,))


class _First:
    """The first few of one row, or its `last`."""

    def __init__(self, s: Sort, k: int, last: bool) -> None:
        self.s, self.k, self.n, self.last = s, k, s.axis[1], last
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
        return tuple(rename(e, {self.s.axis[0]: self.turned(q)}) for e in self.s.out[1])

    def turned(self, i: Size) -> Size:
        """The i-th in the order in which elements are gone through."""
        return self.n - 1 - i if self.last else i

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
            yield Store(self.s.out[0], self.to(here), Number(self.turned(size(i))))

    def code(self, i: Var) -> tuple[Expr, tuple[Stmt, ...]]:
        """The code of an element, and what is named for it."""
        buffer, at = self.s.value
        t, own = self.type, self.s.dtype
        x: Expr = Load(buffer, tuple(rename(e, {self.s.axis[0]: self.turned(size(i))}) for e in at))
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
        return let("code", t, self.reversed(x)), tuple(lets)

    def number(self, code: Expr) -> Expr:
        """The number that has a code."""
        own, t = self.s.dtype, self.type
        code = self.reversed(code)
        return Apply("bitcast", (self.flipped(code),), own, t) if own.is_float else code

    def reversed(self, code: Expr) -> Expr:
        """A code by which what comes last is the least, and back."""
        t = self.type
        return Apply("bitxor", (code, Lit(-1, t)), t, t) if self.last else code

    def flipped(self, bits: Expr) -> Expr:
        """The bits of a float as a code, and back."""
        t = self.type

        def whole(name: str, x: Expr, y: Expr) -> Expr:
            return Apply(name, (x, y), t, t)

        sign = whole("shr", bits, Lit(t.bits - 1, t))
        return whole("bitxor", bits, whole("bitand", sign, Lit(unit("min", t), t)))
