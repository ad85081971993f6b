"""Sums of a few small integers are small integers. loops → loops

    before   var v = 0
             free for a in 0..5 reducing add v: v := v + i64(x[j + a])
             mean = v // 5
             fail 1 if not(mean <= 255)
             store y[j] = u8(mean)

    after    var few: i16 = 0
             free for a in 0..5 reducing add few: few := few + i16(x[j + a])
             v = i64(few)
             less: i16 = few // 5
             mean = i64(less)
             store y[j] = u8(mean)

    before   equal = v == 3                         after    equal = few == 3

Bytes of a picture are added as `Int`s, of which a vector holds an eighth as many. How far a sum of
a known number of them can go is known, and so is what is computed of it: what is asked of it is
often settled, and a loop without a way out becomes vectors. What is asked still is asked of the
smaller one. Sums of as many as a run says are in `narrow_sums`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Apply,
    Assign,
    Expr,
    Fail,
    Let,
    Local,
    Loop,
    Order,
    Reduction,
    Stmt,
    Variable,
    While,
)
from naperian.loops.walk import assigned, mentions, parts, rebuild, remade, statements, used
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.prims import unit
from naperian.sizes import size

Range = tuple[int, int]

_OWN = {
    DType.BOOL: (0, 1),
    **{t: (int(unit("max", t)), int(unit("min", t))) for t in DType if t.is_integer},
}
"""How far the numbers of a type go."""

_BYTES = (DType.U8, DType.I8, DType.U16, DType.I16)
_TO = (DType.I16, DType.I32)
_MOST = 1 << 40  # that is looked at
_OPERATIONS = {"add", "sub", "mul", "floordiv", "mod", "min", "max", "shr", "select"}
_ASKED = {"eq", "ne", "lt", "le", "gt", "ge"}


def small(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    adds = (s for s in statements(body) if isinstance(s, Assign))
    if not any(_is_byte(e) for s in adds for e in parts(s.value)):
        return body
    return _Walk().block(_once(body, set()))


def _once(body: tuple[Stmt, ...], seen: set[Var]) -> tuple[Stmt, ...]:
    """A block with new names for what is bound in blocks beside it, too: the parts of a loop that
    was cut have the same."""
    bound = _bound(body)
    body = _under_new_names(body, bound & seen)
    seen |= bound
    here = {x.var for x in body if isinstance(x, Let | Variable)}
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, While):  # whose body reads what its head binds
            own = _bound((s,))
            out += _under_new_names((s,), own & here)
            here.update(own)
        else:
            out.append(rebuild(s, partial(_once, seen=here)))
    return tuple(out)


def _bound(body: tuple[Stmt, ...]) -> set[Var]:
    return {x.var for x in statements(body) if isinstance(x, Let | Variable)}


def _under_new_names(body: tuple[Stmt, ...], twice: set[Var]) -> tuple[Stmt, ...]:
    names = {v: fresh(v) for v in sorted(twice, key=lambda v: v.name)}
    if not names:
        return body
    sizes = {v: size(w) for v, w in names.items()}
    return remade(body, lambda a: sizes.get(a) if isinstance(a, Var) else None, names)


class Known:
    """What is known of names that are bound once: how far they go, and under which name a smaller
    integer is the same; of conditions, what they come to."""

    def __init__(self) -> None:
        self.far: dict[Var, Range] = {}
        self.less: dict[Var, tuple[Var, DType]] = {}
        self.truth: dict[Var, bool] = {}

    def range(self, e: Expr) -> Range | None:
        """How far an integer goes, if it is no further than some billions."""
        match e:
            case Lit(int(n)):
                far: Range | None = n, n
            case Local(v):
                far = self.far.get(v)
            case Apply("cast", (x,), dtype, operand) if dtype.is_integer:
                far = self.range(x) or _OWN.get(operand)
            case Apply(name, (a, b), dtype) if dtype.is_integer:
                far = _of_two(name, self.range(a), self.range(b))
            case Apply("select", (_, a, b), dtype) if dtype.is_integer:
                far = _of_two("either", self.range(a), self.range(b))
            case _:
                far = None
        if far is None or max(-far[0], far[1]) >= _MOST:
            return None
        return None if isinstance(e, Apply) and not _holds(e.dtype, far) else far  # it wraps around

    def fact(self, e: Expr) -> bool | None:
        """What a condition comes to."""
        match e:
            case Lit(bool(b)):
                return b
            case Local(v):
                return self.truth.get(v)
            case Apply("not", (a,)):
                fact = self.fact(a)
                return None if fact is None else not fact
            case Apply("select", (a, b, Lit(False)), DType.BOOL):
                return self.fact(b) if self.fact(a) else self.fact(a)
            case Apply("le" | "lt" | "ge" | "gt" as how, (a, b)):
                x, y, one = self.range(a), self.range(b), int(how in ("lt", "gt"))
                x, y = (x, y) if how in ("le", "lt") else (y, x)
                if x is None or y is None:
                    return None
                return True if x[1] + one <= y[0] else False if x[0] + one > y[1] else None
            case _:
                return None

    def made(self, e: Expr, to: DType) -> Expr | None:
        """The same in smaller integers, which hold all that it is made of."""
        far = self.range(e)
        if far is None or not _holds(to, far):
            return None
        match e:
            case Lit(int(n)):
                return Lit(n, to)
            case Local(v) if v in self.less:
                few, dtype = self.less[v]
                return _cast(Local(few), dtype, to)
            case Apply("cast", (x,), _, operand):
                if _holds(to, _OWN[operand]):
                    return _cast(x, operand, to)
                return self.made(x, to)
            case Apply(name, (*asked, a, b)) if name in _OPERATIONS:
                one, other = self.made(a, to), self.made(b, to)
                return one and other and Apply(name, (*asked, one, other), to, to)
            case _:
                return None


class _Walk(Known):
    """Blocks with smaller integers."""

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        last = {v: k for k, s in enumerate(body) for v in assigned(s)}
        out: list[Stmt] = []
        for k, s in enumerate(body):
            match s:
                case Let(v, dtype, value):
                    out += self.let(v, dtype, value)
                case Fail(condition) if self.fact(condition) is False:
                    pass
                case _:
                    out.append(rebuild(s, self.block))
            for v in sorted(assigned(s), key=lambda v: v.name):
                if last[v] == k:
                    self.added(v, out)
        return tuple(out)

    def let(self, v: Var, dtype: DType, value: Expr) -> list[Stmt]:
        s = Let(v, dtype, value)
        if dtype is DType.BOOL:
            fact = self.fact(value)
            if fact is not None:
                self.truth[v] = fact
            return [Let(v, dtype, self.asked(value))]
        far = self.range(value) if dtype is DType.I64 else None
        if far is None:
            return [s]
        self.far[v] = far
        to = _least(far) if self.is_less(value) else None
        made = self.made(value, to) if to else None
        if to is None or made is None:
            return [s]
        few = fresh(v)
        self.less[v] = few, to
        return [Let(few, to, made), Let(v, dtype, _cast(Local(few), to, dtype))]

    def asked(self, e: Expr) -> Expr:
        """A comparison of what has become smaller, of smaller integers."""
        match e:
            case Apply(name, (a, b), dtype) if name in _ASKED and self.is_less(e):
                for to in _TO:
                    x, y = self.made(a, to), self.made(b, to)
                    if x is not None and y is not None:
                        return Apply(name, (x, y), dtype, to)
        return e

    def is_less(self, e: Expr) -> bool:
        """Whether something in it has become smaller."""
        return not self.less.keys().isdisjoint(used(e))

    # --- sums -----------------------------------------------------------------------------------

    def added(self, v: Var, out: list[Stmt]) -> None:
        """What has become of a variable, in smaller integers if it is such a sum."""
        zero = Variable(v, DType.I64, Lit(0, DType.I64))
        at = next((k for k, x in enumerate(out) if x == zero), len(out))
        far = self.total(out[at + 1 :], v) if at < len(out) else None
        if far is None:
            return
        self.far[v] = far
        to, few = _least(far), fresh("few")
        made = self.smaller(out[at + 1 :], v, few, to) if to else None
        if to and made:
            out[at:] = [Variable(few, to, Lit(0, to)), *made]
            out.append(Let(v, DType.I64, _cast(Local(few), to, DType.I64)))
            self.less[v] = few, to

    def total(self, body: Sequence[Stmt], v: Var) -> Range | None:
        """How far a sum goes on its way, if nothing is done with it but add."""
        low = high = 0
        for x in body:
            far: Range | None = None
            match x:
                case Assign(w, Apply("add", (Local(z), e))) if w == z == v and v not in used(e):
                    far = self.range(e)
                case Loop(reductions=sums) if v in {r.var for r in sums}:
                    rounds = (x.high - x.low).constant
                    each = self.total(x.body, v) if x.order is Order.FREE else None
                    if each is not None and rounds is not None:
                        far = each[0] * max(0, rounds), each[1] * max(0, rounds)
                case _ if v not in mentions(x) and v not in assigned(x):
                    far = 0, 0
                case _:
                    pass
            if far is None:
                return None
            low, high = low + min(0, far[0]), high + max(0, far[1])
        return low, high

    def smaller(self, body: Sequence[Stmt], v: Var, few: Var, to: DType) -> list[Stmt] | None:
        """Statements with a sum under a new name, in smaller integers, if its terms are such."""
        out: list[Stmt] = []
        for x in body:
            match x:
                case Assign(w, Apply("add", (_, e))) if w == v:
                    term = self.made(e, to)
                    if term is None:
                        return None
                    out.append(Assign(few, Apply("add", (Local(few), term), to, to)))
                case Loop() if v in assigned(x):
                    inner = self.smaller(x.body, v, few, to)
                    if inner is None:
                        return None
                    others = (r for r in x.reductions if r.var != v)
                    sums = (*others, Reduction(few, "add", to))
                    out.append(replace(x, body=tuple(inner), reductions=sums))
                case _:
                    out.append(x)
        return out


def _is_byte(e: Expr) -> bool:
    return isinstance(e, Apply) and e.name == "cast" and e.operand in _BYTES


def _least(far: Range) -> DType | None:
    return next((t for t in _TO if _holds(t, far)), None)


def _holds(t: DType, far: Range) -> bool:
    return _OWN[t][0] <= far[0] and far[1] <= _OWN[t][1]


def _cast(e: Expr, source: DType, to: DType) -> Expr:
    return e if source is to else Apply("cast", (e,), to, source)


def _of_two(name: str, a: Range | None, b: Range | None) -> Range | None:
    """How far an operation of two goes."""
    if a is None or b is None:
        return None
    match name:
        case "add":
            return a[0] + b[0], a[1] + b[1]
        case "sub":
            return a[0] - b[1], a[1] - b[0]
        case "mul":
            ends = [x * y for x in a for y in b]
            return min(ends), max(ends)
        case "floordiv" if b[0] == b[1] > 0:
            return a[0] // b[0], a[1] // b[0]
        case "mod" if b[0] == b[1] > 0:
            return 0, b[0] - 1
        case "min":
            return min(a[0], b[0]), min(a[1], b[1])
        case "max":
            return max(a[0], b[0]), max(a[1], b[1])
        case "either":
            return min(a[0], b[0]), max(a[1], b[1])
        case "shr" if 0 <= b[0] == b[1] < _TO[0].bits:
            return a[0] >> b[0], a[1] >> b[0]
        case _:
            return None
