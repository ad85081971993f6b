"""Indices that loops in order move by hand are proved to be in range. loops → loops

    before   var j = i                               after   var j = i
             repeat:                                         repeat:
                 c = j > 0                                       c = j > 0
                 var v = 0.0                                     var v = 0.0
                 if c: v := o[clamp(j - 1, n)]                   if c: v := o[j - 1]
                 while v > x if c else False:                    while v > x if c else False:
                     fail 1 if j < 0 or j >= n                       store o[j] = v
                     store o[j] = v                                  j := j - 1
                     j := j - 1

What a loop carries is guessed to lie between this and that (`guesses`), and so are the elements of
arrays. A guess that does not hold before the first round, or after a round that began with all of
them, is dropped, and the program walked through again, until those that are left hold: they follow
from each other. What is in range then needs no check and no clamp; nor does what a condition says:

    before   if c >= w[i]: if w[i] >= 0:             after   if c >= w[i]: if w[i] >= 0:
                 fail 1 if c - w[i] < 0 or c - w[i] >= n         v := best[c - w[i]]
                 v := best[c - w[i]]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Contract,
    Expr,
    Fail,
    Let,
    Loop,
    Number,
    Order,
    Program,
    Role,
    Sort,
    Stmt,
    Store,
    Update,
    Variable,
    When,
    While,
)
from naperian.loops.walk import assigned, remade, statements, writes
from naperian.names import Var
from naperian.node import replace
from naperian.passes.nests.guesses import (
    Guesses,
    arrays_of,
    bounds_of,
    clamped_in,
    moved_by_hand,
)
from naperian.passes.nests.lines import Choice, Line, line, plus, put, symbol
from naperian.passes.nests.values import LARGEST, UNKNOWN, Fact, Implied, Values
from naperian.sizes import Atom, Clamp, Size, atom

_WALKS = 8
_MOST = 50_000  # steps of proofs in a walk, a tenth of a second


def proved(program: Program) -> Program:
    """See the module."""
    wanted = moved_by_hand(program.body)
    if not wanted and not _is_said(program.body):
        return program
    bounds = [Values().size(n) for n in bounds_of(program)]
    guesses = Guesses(bounds, wanted, arrays_of(program, wanted))
    for _ in range(_WALKS):
        guesses.begin()
        walk = _Walk(program, guesses)
        body = walk.block(program.body)
        if not walk.found or walk.known.work > _MOST:  # with fewer guesses less is found
            return program
        if not guesses.dropped:
            return replace(program, body=body)
    return program


def _is_said(body: Sequence[Stmt]) -> bool:
    """Whether a check stands under a condition, which may say that it does not fail."""
    inside = (x for s in statements(body) if isinstance(s, When) for x in (*s.then, *s.otherwise))
    return any(isinstance(x, Fail) for x in inside)


class _Walk(Values):
    """A walk through a program in the order in which it runs, under what is guessed."""

    def __init__(self, program: Program, guesses: Guesses) -> None:
        super().__init__()
        self.guesses = guesses
        self.around: tuple[Var, ...] = ()  # the indices of the loops that are open
        self.plain = False  # whether the innermost loop is in order, and none is lanes
        self.dtypes: dict[Var, DType] = {}
        self.found = False  # whether anything is in range
        self.written = {b.var for b in program.buffers if b.role is not Role.IN}
        for v in program.sizes:
            self.known.add([symbol(v), plus(line(LARGEST), symbol(v), -1)])

    def block(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        return tuple([x for s in body for x in self.stmt(s)])

    def stmt(self, s: Stmt) -> tuple[Stmt, ...]:
        match s:
            case Loop():
                return (self.loop(s),)
            case While():
                return (self.repeated(s),)
            case When():
                return self.branches(s)
            case _:
                pass
        s = self.taken(self.unclamped(s))
        match s:
            case Let(v, dtype, value) | Variable(v, dtype, value):
                self.dtypes[v] = dtype
                self.bind(v, value, isinstance(s, Let))
            case Assign(v, value):
                self.bind(v, value, False)
            case Store(buffer, at, value):
                if self.guesses.of_array(buffer):
                    self.stored(buffer, tuple(map(self.size, at)), self.value(value))
                self.versions[buffer] = object()
            case Update(buffer) | Contract((buffer, _)) | Sort((buffer, _)):
                self.guesses.give_up(buffer)
                self.versions[buffer] = object()
            case Allocate():
                self.allocated(s)
            case Fail(condition):
                fact = self.fact(condition)
                if self.decided(fact, False):
                    self.found = True
                    return ()
                self.assume(fact, False)
            case _:
                pass
        return (s,)

    def bind(self, v: Var, value: Expr, named: bool) -> None:
        dtype = self.dtypes[v]
        if dtype is DType.I64:
            self.now[v] = self.value(value)
        elif dtype is DType.BOOL:
            fact = self.fact(value)
            self.truth[v] = ("named", v, fact) if named else fact
            self.implied.pop((v, True), None)
            self.implied.pop((v, False), None)

    def unclamped(self, s: Stmt) -> Stmt:
        """A statement whose indices are in range, where they are known to be."""
        if not self.plain or not clamped_in(s):
            return s
        return remade((s,), self.inside)[0]

    def inside(self, a: Atom) -> Size | None:
        """What is kept in range, if it is there anyway."""
        if not isinstance(a, Clamp):
            return None
        value = self.size(a.value)
        last = plus(self.size(a.extent), line(-1))
        if self.known.proves(value) and self.known.proves(plus(last, value, -1)):
            self.found = True
            (made,) = remade((Let(Var("at"), DType.I64, Number(a.value)),), self.inside)
            assert isinstance(made, Let)
            assert isinstance(made.value, Number)
            return made.value.value
        return None

    def taken(self, s: Stmt) -> Stmt:
        """A name for the side of a choice that is always taken."""
        match s:
            case Let(value=Apply("select", (condition, one, _))) if self.plain:
                if self.decided(self.fact(condition), True):
                    self.found = True
                    return replace(s, value=one)
            case _:
                pass
        return s

    # --- arrays ---------------------------------------------------------------------------------

    def allocated(self, s: Allocate) -> None:
        b, fill = s.buffer, s.fill
        self.written.add(b.var)
        self.versions[b.var] = object()
        if s.planes:
            self.guesses.give_up(b.var)
        elif fill is not None and self.guesses.of_array(b.var):
            mark = len(self.known.facts)
            shape = [self.size(n) for n in b.shape]
            self.known.add(plus(n, line(-1)) for n in shape)
            self.stored(b.var, tuple(self.opaque(0) for _ in shape), line(int(fill.value)))
            self.known.back(mark)

    def stored(self, buffer: Var, at: tuple[Line, ...], value: Line) -> None:
        """What is guessed of an array's elements must hold of what is stored."""
        for name, guess in self.guesses.of_elements(buffer, at, value):
            if not self.known.proves(guess):
                self.guesses.drop(name)

    def of_element(self, buffer: Var, at: tuple[Line, ...], found: Line) -> list[Line]:
        if buffer not in self.written or not self.guesses.of_array(buffer):
            return []
        return [guess for _, guess in self.guesses.of_elements(buffer, at, found)]

    def changed(self, s: Stmt) -> None:
        """The arrays that a statement writes have other elements now."""
        for x in statements((s,)):
            b = writes(x)
            if b is not None:
                self.versions[b] = object()

    # --- branches -------------------------------------------------------------------------------

    def branches(self, s: When) -> tuple[Stmt, ...]:
        condition = self.asked(s.condition)
        fact = self.fact(s.condition)
        if self.plain and self.decided(fact, True):
            self.found = True
            return self.block(s.then)
        now, truth, versions, implied = self.now, self.truth, self.versions, self.implied
        made: list[tuple[Stmt, ...]] = []
        numbers: list[dict[Var, Line]] = []
        truths: list[dict[Var, Fact]] = []
        learned: list[tuple[Line, ...]] = []
        found: list[tuple[tuple[Line, ...], Implied]] = []
        for holds, block in ((True, s.then), (False, s.otherwise)):
            self.now, self.truth, self.versions = dict(now), dict(truth), dict(versions)
            self.implied = dict(implied)
            mark = len(self.known.facts)
            self.assume(fact, holds)
            inside = len(self.known.facts)
            made.append(self.block(block))
            numbers.append(self.now)
            truths.append(self.truth)
            new = {k: x for k, x in self.implied.items() if implied.get(k) is not x}
            found.append((tuple(self.known.facts[inside:]), new))
            learned.append(self.known.back(mark))
        self.now, self.truth, self.versions, self.implied = now, truth, versions, implied
        self.changed(s)
        key = object()
        for v in _in_order(assigned(s)):
            if v in now:
                sides = [x[v] for x in numbers]
                choices = [Choice(x, f) for x, f in zip(sides, learned, strict=True)]
                now[v] = self.chosen(choices, key)
                for k, x in enumerate(sides):  # which it is is known where the condition is asked
                    apart = plus(now[v], x, -1)
                    if apart:
                        facts, others = found[k]
                        found[k] = (*facts, apart, plus({}, apart, -1)), others
            if v in truth:
                truth[v] = _joined(fact, truths[0][v], truths[1][v])
        if fact[0] == "named":
            for holds, (facts, others) in zip((True, False), found, strict=True):
                before, more = implied.get((fact[1], holds), ((), {}))
                implied[fact[1], holds] = (*before, *facts), {**more, **others}
        return (When(condition, made[0], made[1]),)

    def asked(self, e: Expr) -> Expr:
        """A condition where it is asked."""
        s = self.unclamped(Fail(e, 0))
        assert isinstance(s, Fail)
        return s.condition

    def saved(self) -> tuple[dict[Var, Line], dict[Var, Fact], dict[Var, object], Implied]:
        """What is known of names here."""
        return dict(self.now), dict(self.truth), dict(self.versions), dict(self.implied)

    def restore(
        self, state: tuple[dict[Var, Line], dict[Var, Fact], dict[Var, object], Implied]
    ) -> None:
        self.now, self.truth, self.versions, self.implied = state

    # --- loops ----------------------------------------------------------------------------------

    def loop(self, s: Loop) -> Loop:
        low, high = self.size(s.low), self.size(s.high)
        mark = len(self.known.facts)
        state = self.plain, self.around
        self.around = (*self.around, s.var)
        self.plain = s.order is Order.SERIAL
        carried = _Carried(self, s, s.var, low)
        i = symbol(s.var)
        self.known.add([plus(i, low, -1)])
        self.known.add(self.below(i, s.high, high))
        at_head = self.saved()
        body = self.block(s.body)
        carried.after(plus(i, line(1)))
        self.known.back(mark)
        self.restore(at_head)
        self.plain, self.around = state
        none, some = plus(low, high, -1), plus(high, low, -1)
        carried.ended(self.chosen([Choice(low, (none,)), Choice(high, (some,))]))
        return replace(s, body=body)

    def below(self, i: Line, s: Size, high: Line) -> list[Line]:
        """What an index that is not negative is less than: below clamp(e, n), also below e."""
        facts = [plus(plus(high, line(-1)), i, -1)]
        for a in s.atoms:
            if isinstance(a, Clamp) and s.coefficient(a) == 1 and self.known.proves(i):
                rest = self.size(s - atom(a))
                if self.known.proves(plus({}, rest, -1)):
                    ends = (self.size(a.value), plus(self.size(a.extent), line(-1)))
                    facts += [plus(plus(plus(x, rest), line(-1)), i, -1) for x in ends]
        return facts

    def repeated(self, s: While) -> While:
        plain, self.plain = self.plain, True
        carried = _Carried(self, s, None, {})
        head, condition = self.block(s.head), self.asked(s.condition)
        fact = self.fact(s.condition)
        at_head = self.saved()
        mark = len(self.known.facts)
        self.assume(fact, True)
        body = self.block(s.body)
        carried.after(None)
        self.known.back(mark)
        self.restore(at_head)
        self.assume(fact, False)
        self.plain = plain
        return While(head, condition, body)


def _in_order(some: Iterable[Var]) -> list[Var]:
    """Variables in the order in which they were made: what is found in so many steps must not hang
    on where a set has them."""
    return sorted(some, key=lambda v: v.id)


class _Carried:
    """What a loop carries: in a round something new, of which the guesses hold that hold before the
    first one."""

    def __init__(self, w: _Walk, s: Loop | While, index: Var | None, low: Line) -> None:
        self.walk = w
        self.index = index
        self.number = w.guesses.next_loop()
        changed = assigned(s)
        self.start = {v: w.now[v] for v in _in_order(changed) if v in w.now}
        self.symbols = {v: object() for v in self.start}
        first = [(self.symbols[v], x) for v, x in self.start.items()]
        self.held: list[Line] = []
        for name, guess in self.guesses():
            if w.known.proves(put(guess, first if index is None else [*first, (index, low)])):
                self.held.append(guess)
            else:
                w.guesses.drop(name, used=False)
        for v, x in self.symbols.items():
            w.now[v] = symbol(x)
        for v in changed & w.truth.keys():
            w.truth[v] = ("named", object(), UNKNOWN)
        w.changed(s)
        w.known.add(self.held)

    def guesses(self) -> list[tuple[object, Line]]:
        head = {v: symbol(x) for v, x in self.symbols.items()}
        return list(self.walk.guesses.of_loop(self.number, head, self.start, self.walk.around))

    def ended(self, index: Line) -> None:
        """They hold after the last round."""
        w = self.walk
        last = []
        for v, x in self.symbols.items():
            w.now[v] = symbol(object())
            last.append((x, w.now[v]))
        if self.index is not None:
            last.append((self.index, index))
        w.known.add([put(f, last) for f in self.held])

    def after(self, index: Line | None) -> None:
        """At the end of a round they hold again, or are dropped."""
        w = self.walk
        last = [(x, w.now[v]) for v, x in self.symbols.items()]
        if self.index is not None and index is not None:
            last.append((self.index, index))
        for name, guess in self.guesses():
            if not w.known.proves(put(guess, last)):
                w.guesses.drop(name)


def _joined(c: Fact, yes: Fact, no: Fact) -> Fact:
    """What a condition says that is one or the other."""
    if no == ("lit", False):
        return ("and", c, yes)
    if yes == ("lit", False):
        return ("and", ("not", c), no)
    return ("named", object(), UNKNOWN)
