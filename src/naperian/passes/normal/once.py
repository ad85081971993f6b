"""What every round of a loop would compute the same, and only a condition lets out of it: once.

    for i: s = sum over k of y[checked(ix[k])]          s = if n >= 1: sum over k of … else 0
           s - y[i]                                ⇒    for i: s - y[i]

What cannot stop the run leaves a loop by itself, when bindings get their contexts. What may is only
made where there is a round, which a condition says. A loop that calls a function with a derivative
of its own goes here, too: bindings that a rule knows stay where they are. So a derivative finds it
made once. A check alone stays in its round: it costs little, and what it gives is in range there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from naperian.core.linear import called_once
from naperian.core.syntax import (
    At,
    Checked,
    Custom,
    Expr,
    For,
    If,
    Loop,
    Number,
    Op,
    Pack,
    Reduce,
    Ref,
    Scan,
)
from naperian.core.walk import everything, of_type, size_variables
from naperian.dtypes import DType
from naperian.names import Var
from naperian.passes.normal.denote import (
    TRUE,
    Bound,
    Guard,
    Meaning,
    Scope,
    block,
    data,
    has_function,
    part_of,
)
from naperian.passes.normal.fold import constant, fold
from naperian.passes.normal.leaving import mentioned, mentions, named_in
from naperian.passes.normal.tables import index_expr, instead
from naperian.passes.normal.work import Work
from naperian.types import BOOL, INT, Scalar, Set, Tuple, TupleSet, Type, cardinality

Statements = Sequence[Bound | Guard]


def once(w: Work, s: Set, own: Iterable[Var], scope: Scope, value: Meaning) -> Scope:
    """What stays in the rounds of a loop over `s`, of the statements of one and what they are for;
    the rest is made here. `own` are the variables that each round has anew."""
    if not (scope.fails or w.ruled):
        return scope
    plain, partial = _alike(scope.statements, own, w.ruled)
    inside = _inside(partial, w.ruled)
    wanted = {v for x in inside for v in _used(x)}
    before = _needed(plain, wanted | {x.var for x in plain if w.ruled and _calls(x)})
    w.scope.statements += before
    made = [x for x in inside if isinstance(x, Bound) and _leaves_rounds(x)]
    if made:
        _make(w, _some(w, s), inside, made)
    gone = {id(x) for x in (*before, *made, *(x for x in inside if isinstance(x, Guard)))}
    left = [x for x in scope.statements if id(x) not in gone]
    if not has_function(value):  # what was checked, and nothing here asks for
        both = [x for x in inside if isinstance(x, Bound) and id(x) not in gone]
        twice = {id(x) for x in both}
        used = {v for x in left if id(x) not in twice for v in _used(x)} | {*mentioned(value)}
        twice -= {id(x) for x in _needed(both, used)}
        left = [x for x in left if id(x) not in twice]
    scope.statements[:] = left  # literal tables know the scope that they are bound in
    return scope


def _alike(
    statements: Statements, own: Iterable[Var], ruled: bool
) -> tuple[list[Bound], list[Bound | Guard]]:
    """What is the same in each round: what is there anyway, and what is only if there is a round,
    as it may stop the run, or stands after what may and reads what that gives. Behind what stops
    some rounds, or changes something, nothing is known to be reached."""
    varying, late, asked = {*own}, set[Var](), False
    plain: list[Bound] = []
    partial: list[Bound | Guard] = []
    for x in statements:
        used = _used(x)
        if isinstance(x, Guard):
            if not varying.isdisjoint(used):
                break
            partial.append(x)
            asked = True
        elif x.cells:
            break
        elif (
            not varying.isdisjoint(used)
            or (late and not late.isdisjoint(named_in(instead(x.value, x.type))))
            or (ruled and _each_time(x))
        ):
            varying.add(x.var)
        elif x.fails or not late.isdisjoint(used) or (asked and x.work):
            partial.append(x)
            late.add(x.var)
        else:
            plain.append(x)
    return plain, partial


def _inside(partial: Statements, ruled: bool) -> list[Bound | Guard]:
    """What goes under the condition: all that leaves the rounds, if something there takes long, and
    what that needs."""
    leaving = [x for x in partial if isinstance(x, Guard) or _leaves_rounds(x)]
    asked = any(isinstance(x, Guard) for x in leaving)
    if not any(isinstance(x, Bound) and _is_to_leave(x, asked, ruled) for x in leaving):
        return []
    rest = [x for x in partial if isinstance(x, Bound) and not _leaves_rounds(x)]
    needed = _needed(rest, {v for x in leaving for v in _used(x)})
    found = {id(x) for x in (*leaving, *needed)}
    return [x for x in partial if id(x) in found]


def _leaves_rounds(x: Bound) -> bool:
    return x.work and not isinstance(x.value, Checked)


def _is_to_leave(x: Bound, asked: bool, ruled: bool) -> bool:
    """Whether a statement takes long and would not leave by itself, or not as it should: a loop
    that checks indices, or calls a function with a derivative of its own."""
    if not (asked or ruled or x.fails):
        return False
    found = [*everything(x.value)]
    if not _loops(found):
        return False
    checks = x.fails and any(isinstance(e, Checked) for e in found)
    return checks or (ruled and _calls(x)) or (asked and _reads_elsewhere(found))


def _reads_elsewhere(found: Sequence[Expr]) -> bool:
    """Whether a loop reads at a place which its own rounds do not give: that is in range because of
    an `assert` before it, and nobody asks that where there is no round."""
    loops = [e for e in found if isinstance(e, For | Reduce | Loop | Scan)]
    own = {e.var if isinstance(e, For | Reduce) else e.time for e in loops}
    known = {v for e in loops for v in size_variables(e)}
    for e in found:
        if isinstance(e, At):
            said = {*named_in(e.index)}
            written = not said and cardinality(e.set).constant is not None
            if not written and (own.isdisjoint(said) or not said <= own | known):
                return True
    return False


def _calls(x: Bound) -> bool:
    """Whether a statement is a loop that calls a function with a derivative of its own."""
    found = [] if isinstance(x.value, Custom) else [*everything(x.value)]
    return _loops(found) and any(isinstance(e, Custom) for e in found)


def _each_time(x: Bound) -> bool:
    """Whether a statement calls a function whose rule is to be asked in each round."""
    called = (e for e in everything(x.value) if isinstance(e, Custom))
    return not all(called_once(r) for e in called for r in e.rules)


def _loops(found: Iterable[Expr]) -> bool:
    return any(isinstance(e, For | Reduce | Loop | Scan) for e in found)


def _needed(given: Sequence[Bound], wanted: set[Var]) -> list[Bound]:
    """Those of the statements that make what is wanted, and what these need."""
    wanted, found = {*wanted}, []
    for b in reversed(given):
        if b.var in wanted:
            found.append(b)
            wanted |= _used(b)
    return found[::-1]


def _used(x: Bound | Guard) -> set[Var]:
    if isinstance(x, Guard):
        return {*named_in(x.condition)}
    return {*mentions(x), *of_type(x.type)}


def _some(w: Work, s: Set) -> Expr:
    """Whether a set has an element. Two lengths below zero have a positive product."""
    holds: Expr = TRUE
    for x in s.sets if isinstance(s, TupleSet) else (s,):
        one = (Number(cardinality(x)), constant(1, DType.I64))
        holds = _op(w, "and", (holds, _op(w, "ge", one, INT)), BOOL)
    return holds


def _op(w: Work, name: str, args: tuple[Expr, ...], t: Scalar) -> Expr:
    known = fold(name, args, t.dtype)
    return index_expr(w.bind(Op(name, args, t), BOOL, "some")) if known is None else known


def _make(w: Work, some: Expr, inside: Statements, made: Sequence[Bound]) -> None:
    """Statements where a condition holds; elsewhere what they make is any value."""
    parts = [p for b in made for p in _leaves(Ref(b.var), b.type)]
    types = tuple(t for _, t in parts)
    there = [e for e, _ in parts]
    nowhere = [e for b in made for e, _ in _leaves(instead(b.value, b.type), b.type)]
    value = If(some, block([*inside], _packed(there)), _packed(nowhere))
    t = types[0] if len(types) == 1 else Tuple(types)
    found = iter(data(w.bind(value, t, made[0].var.name, fails=True)))
    for b in made:
        w.scope.statements.append(Bound(b.var, _whole(b.type, found), b.type, work=False))


def _leaves(e: Expr, t: Type) -> Iterator[tuple[Expr, Type]]:
    """The parts of a tuple, however deep."""
    if isinstance(t, Tuple):
        for k, x in enumerate(t.items):
            yield from _leaves(part_of(e, k), x)
    else:
        yield e, t


def _whole(t: Type, parts: Iterator[Meaning]) -> Expr:
    """The tuple of these parts."""
    if isinstance(t, Tuple):
        return Pack(tuple(_whole(x, parts) for x in t.items))
    return index_expr(next(parts))


def _packed(parts: list[Expr]) -> Expr:
    return parts[0] if len(parts) == 1 else Pack(tuple(parts))
