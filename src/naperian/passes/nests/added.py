"""A loop in order that only adds up, or the like, goes in any order. loops → loops

    before   for i in 0..n:                         after   free for i in 0..n reducing add s:
                 new = s + x[i] if x[i] > t else s              s := s + (x[i] if x[i] > t else 0)
                 s := new

Integers add up to the same in any order, and so do Booleans, and the largest of numbers is the same
(but for the sign of a zero, which a strict program keeps). Sums of floats are what their order
makes them: only `fast` gives it up. But what one round adds under a condition is chosen before it
is added in any mode: the next round waits for a sum, and not for a choice, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Apply,
    Assign,
    Expr,
    Let,
    Local,
    Loop,
    Order,
    Program,
    Reduction,
    Stmt,
    Variable,
)
from naperian.loops.walk import assigned, mentions, parts, rebuild, rebuild_loops, statements, used
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.passes.nests.lagged import lagged
from naperian.prims import Math, unit

_FEW = 8  # rounds, which are written out (`straight`)
_LONG = 64  # operations that are chosen between in the place of their names
_SUMS = ("add", "mul")
_EXTREMES = ("min", "max")
_IN_ORDER = (
    "sequential, it takes floats together in order; "
    "`sum`, `prod`, `accum` and `@fast` leave the order open"
)


def added(program: Program) -> Program:
    """See the module."""
    notes = [*program.notes]
    body = _Loops(program.math, notes).block(program.body, False)
    return replace(program, body=body, notes=tuple(notes))


@dataclass
class _Loops:
    """The loops of a program, and what is said of them."""

    math: Math
    notes: list[str]

    def block(self, body: tuple[Stmt, ...], inside: bool) -> tuple[Stmt, ...]:
        types = {s.var: s.dtype for s in body if isinstance(s, Variable)}
        out: list[Stmt] = []
        for s in body:
            s = rebuild_loops(s, partial(self.block, inside=inside or isinstance(s, Loop)))
            after: tuple[Stmt, ...] = ()
            if isinstance(s, Loop) and s.order is Order.SERIAL and not s.reductions:
                before, made, after = _by_rounds(s, types, self.math, inside)
                out += before
                if made is not None:
                    self.tell(s, "what it adds up may go in any order")
                elif self.math is Math.DEFAULT:
                    fast = _in_any_order(s, types, Math.FAST, inside)
                    if fast is not None:
                        self.tell(s, _IN_ORDER)
                s = made or _sooner(s)
            out += (s, *after)
        return tuple(out)

    def tell(self, s: Loop, what: str) -> None:
        """Says of a loop what it is but one in order."""
        why = {f"sequential, it carries `{v.name}`" for v in assigned(s)}
        for k, note in enumerate(self.notes):
            head, _, told = note.partition(": ")
            if head.startswith(f"loop over `{s.var.name}`") and told in why:
                self.notes[k] = f"{head}: {what}"
                break


def _by_rounds(
    s: Loop, types: Mapping[Var, DType], math: Math, inside: bool
) -> tuple[tuple[Stmt, ...], Loop | None, tuple[Stmt, ...]]:
    """The loop in any order, if its rounds hand on sums and what `lagged` takes out, with what goes
    before and after it."""
    made = _in_any_order(s, types, math, inside)
    parted = lagged(s, types) if made is None else None
    if parted is None:
        return (), made, ()
    first, others, last = parted
    before, made, after = _by_rounds(others, types, math, inside)
    return ((*first, *before), made, (*after, *last)) if made is not None else ((), None, ())


def _in_any_order(s: Loop, types: Mapping[Var, DType], math: Math, inside: bool) -> Loop | None:
    """The loop as one of sums, if it is nothing else."""
    within = statements(s.body)
    rounds = (s.high - s.low).constant
    if rounds is not None and rounds <= _FEW:
        return None
    if not all(isinstance(x, Let | Variable | Assign | Loop) for x in within):
        return None
    own = {x.var for x in within if isinstance(x, Variable)}
    carried = [x.var for x in s.body if isinstance(x, Assign) and x.var not in own]
    if not carried or {*carried} != assigned(s) - own or not {*carried} <= types.keys():
        return None
    lets = {x.var: x.value for x in s.body if isinstance(x, Let)}
    body, reductions = s.body, list[Reduction]()
    for v in carried:
        found = _Sum(v, types[v], lets).of(s.body)
        if found is None or not _is_free(found[0], types[v], math):
            return None
        name, value, gone = found
        add = Assign(v, Apply(name, (Local(v), value), types[v], types[v]))
        kept = [x for x in body if not (isinstance(x, Let | Assign) and x.var in gone)]
        if any(not gone.isdisjoint(mentions(x)) for x in kept) or not gone.isdisjoint(used(value)):
            return None
        body = (*kept, add)
        reductions.append(Reduction(v, name, types[v]))
    order = Order.FREE if inside else Order.PARALLEL
    return replace(s, body=_one_by_one(body), order=order, reductions=tuple(reductions))


def _one_by_one(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """What each round does by itself: threads share the rounds."""
    out: list[Stmt] = []
    for s in body:
        s = rebuild(s, _one_by_one)
        shared = isinstance(s, Loop) and s.order is Order.PARALLEL
        out.append(replace(s, order=Order.FREE) if shared else s)
    return tuple(out)


def _is_free(name: str, dtype: DType, math: Math) -> bool:
    """Whether it does not matter in which order this is done."""
    if not dtype.is_float:
        return True
    return math is Math.FAST if name in _SUMS else math is not Math.STRICT


class _Sum:
    """A variable of a loop that is added to, or the like, under the names of a round."""

    def __init__(self, v: Var, dtype: DType, lets: Mapping[Var, Expr]) -> None:
        self.v, self.dtype, self.lets = v, dtype, lets
        self.gone = {v}
        self.name = ""
        self.known: dict[Var, bool] = {}  # which names hang on it
        self.terms: dict[Var, Expr | None] = {}  # what is added to it under a name

    def of(self, body: tuple[Stmt, ...]) -> tuple[str, Expr, set[Var]] | None:
        """How, what is added in a round, and what need not be named then."""
        match [x for x in body if isinstance(x, Assign) and x.var == self.v]:
            case [Assign() as last] if not any(
                isinstance(x, Loop) and self.v in mentions(x) for x in body
            ):
                pass
            case _:
                return None
        for how in _how(self.dtype):
            self.name, self.gone, self.terms = how, {self.v}, {}
            found = self.term(last.value)
            if found is not None and found != self.none:
                return how, found, self.gone
        return None

    @property
    def none(self) -> Lit:
        """What changes nothing."""
        whole = -0.0 if self.name == "add" and self.dtype.is_float else unit(self.name, self.dtype)
        return Lit(whole, self.dtype)

    def term(self, e: Expr) -> Expr | None:
        """What is added to the variable, if an expression is that."""
        match e:
            case Local(w) if w == self.v:
                return self.none
            case Local(w) if w in self.lets:
                self.gone.add(w)
                if w not in self.terms:
                    made = self.term(self.lets[w])
                    short = made is not None and len(parts(made)) <= _LONG
                    self.terms[w] = made if short else None
                return self.terms[w]
            case Apply(name, (x, y), dtype) if name == self.name and dtype is self.dtype:
                one, other = (x, y) if self.waits(x) else (y, x)
                return None if self.waits(other) else self.joined(self.term(one), other)
            case Apply("sub", (x, y), dtype) if self.name == "add" and not self.waits(y):
                less = Apply("neg", (y,), dtype, dtype)
                return self.joined(self.term(x), less) if self.waits(x) else None
            case Apply("select", (c, x, y), dtype) if not self.waits(c):
                yes, no = self.term(x), self.term(y)
                if yes is None or no is None:
                    return None
                return yes if yes == no else Apply("select", (c, yes, no), dtype, dtype)
            case _:
                return None

    def joined(self, term: Expr | None, other: Expr) -> Expr | None:
        if term is None or term == self.none:
            return None if term is None else other
        return Apply(self.name, (term, other), self.dtype, self.dtype)

    def waits(self, e: Expr) -> bool:
        """Whether an expression hangs on the variable."""
        return any(w == self.v or self.name_waits(w) for w in used(e))

    def name_waits(self, w: Var) -> bool:
        if w not in self.known:
            self.known[w] = w in self.lets and self.waits(self.lets[w])
        return self.known[w]


def _how(dtype: DType) -> tuple[str, ...]:
    return ("and", "or") if dtype is DType.BOOL else (*_SUMS, *_EXTREMES)


def _sooner(s: Loop) -> Stmt:
    """The loop with choices of what is added, in place of choices of sums."""
    carried = assigned(s)

    def chosen(x: Stmt) -> Stmt:
        match x:
            case Let(value=Apply("select", (c, Apply() as one, Local() as two))):
                pass
            case Let(value=Apply("select", (c, Local() as two, Apply() as one))):
                pass
            case _:
                return x
        first = x.value.args[1] is one  # type: ignore[union-attr]
        if two.var not in carried or one.name not in ("add", "sub", "mul") or one.args[0] != two:
            return x
        if not one.dtype.is_float or two.var in used(one.args[1]):
            return x
        none = Lit({"add": -0.0, "sub": 0.0, "mul": 1.0}[one.name], one.dtype)
        sides = (one.args[1], none) if first else (none, one.args[1])
        term = Apply("select", (c, *sides), one.dtype, one.dtype)
        return replace(x, value=replace(one, args=(two, term)))

    return rebuild(s, lambda body: tuple(map(chosen, body)))
