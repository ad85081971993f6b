"""What a loop asks of the borders around it, and when it is away from all of them.

    before   for i: free for j: for a in 0..5:      after    for i:
                 low = i >= a                                    if i >= 4 and n >= i + 1:
                 high = n + a >= i + 1                               free for j: for a in 0..5:
                 if low: if high:                                        s := s + x[i - a, j]
                     s := s + x[i - a, j]                        else: the loop as it was

So is the derivative of a convolution, for what lies under several rows of the window. In all rounds
but a few nothing is asked, and the loop over `j` becomes vectors. A comparison that hangs on an
index of a short loop holds in all its rounds if it does in the first, or in the last.
"""

from __future__ import annotations

from collections.abc import Mapping

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Apply,
    Assign,
    Expr,
    Fail,
    Let,
    Local,
    Loop,
    Number,
    Order,
    Variable,
    When,
    While,
)
from naperian.loops.walk import all_of, atoms, expressions, parts, statements, used
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.sizes import ZERO, Size, rename, size, variables

SHORT = 16  # rounds of a loop that may stand in one of vectors

_FEW = 2  # borders that are asked one by one

_TOWARDS = {"ge": 1, "gt": 1, "le": -1, "lt": -1}  # which operand is to be large

Definitions = Mapping[Var, Expr]


def away(s: Loop, definitions: Definitions) -> tuple[Expr, dict[Expr, bool]] | None:
    """What holds where the loop is away from all borders, and what is known of its tests there;
    None where it asks for something else that is so in all its rounds, or for so few borders that
    each may be asked. What a round asks of its own values it asks there, too."""
    inside = statements(s.body)
    loops = [x for x in inside if isinstance(x, Loop)]
    trips = (s.high - s.low).constant
    if s.order is not Order.FREE or (trips is not None and trips < SHORT):
        return None
    if any(isinstance(x, While | Fail) for x in inside) or not all(map(_is_short, loops)):
        return None
    if not any(isinstance(x, When) for x in inside):
        return None
    made = {x.var for x in inside if isinstance(x, Let | Variable | Assign)} | {s.var}
    own = {x.var: x.value for x in inside if isinstance(x, Let) and x.dtype is DType.BOOL}
    short = {x.var: (x.low, x.high - 1) for x in loops}
    known: dict[Expr, bool] = {}
    needed: dict[Expr, None] = {}
    facts: list[Size] = []
    for e, chosen in _asked(s).items():
        meant = _meant(e, {**definitions, **own})
        fact = _fact(meant)
        if fact is None and (chosen or not made.isdisjoint(used(e))):
            continue
        if fact is None or not made.isdisjoint(variables(fact)):
            return None
        least = _least(meant, fact, short)
        if least is None:
            return None
        known[e] = known[meant] = True
        needed[e if least == meant and isinstance(e, Local) and e.var not in own else least] = None
        facts.append(fact)
    hanging = any(v in short for f in facts for v in variables(f))
    if not hanging and (len(needed) <= _FEW or not _between(facts)):
        return None
    return all_of(list(needed)), known


def _is_short(s: Loop) -> bool:
    low, high = s.low.constant, s.high.constant
    return low is not None and high is not None and high - low <= SHORT


def _asked(s: Loop) -> dict[Expr, bool]:
    """What statements hang on, and what choices do; whether only they do, which vectors make of
    two values."""
    asked: dict[Expr, bool] = {}
    for x in statements(s.body):
        if isinstance(x, When):
            asked[x.condition] = False
        for e in expressions(x):
            for p in parts(e):
                if isinstance(p, Apply) and p.name == "select":
                    asked.setdefault(p.args[0], True)
    return asked


def _meant(e: Expr, definitions: Definitions) -> Expr:
    while isinstance(e, Local) and definitions.get(e.var, e) != e:
        e = definitions[e.var]
    return e


def _fact(e: Expr) -> Size | None:
    """What grows with how well a comparison holds, if it is one of numbers."""
    match e:
        case Apply(name, (x, y), _, DType.I64) if name in _TOWARDS:
            a, b = _number(x), _number(y)
            if a is None or b is None:
                return None
            return a - b if _TOWARDS[name] > 0 else b - a
        case _:
            return None


def _number(e: Expr) -> Size | None:
    match e:
        case Number(value) if all(isinstance(a, Var) for a in atoms(value)):
            return value
        case Lit(int() as k):
            return size(k)
        case _:
            return None


def _least(e: Expr, fact: Size, short: Mapping[Var, tuple[Size, Size]]) -> Expr | None:
    """The comparison in the round of short loops in which it holds last."""
    names: dict[Var, Size] = {}
    for v in variables(fact):
        if v in short:
            by = fact.coefficient(v)
            if not by or v in variables(fact - size(v) * by):
                return None
            names[v] = short[v][0 if by > 0 else 1]
    if not names:
        return e
    assert isinstance(e, Apply)
    args = (Number(rename(x.value, names)) if isinstance(x, Number) else x for x in e.args)
    return replace(e, args=tuple(args))


def _between(facts: list[Size]) -> bool:
    """Whether an index is bounded from both sides: it is away from them in most rounds."""
    signs: dict[object, set[bool]] = {}
    for f in facts:
        for m, c in f.terms:
            if m:
                signs.setdefault(m, set()).add(c > 0)
    return ZERO not in facts and any(len(x) > 1 for x in signs.values())
