"""A loop whose rounds may fail is tried as vectors first. loops → loops

    before   free for j in 0..n:
                 v = 0.5 * x[j]
                 fail 1 if not(v <= 255)
                 store y[j] = u8(v)

    after    var odd = False
             free for j in 0..n reducing or odd:
                 v = 0.5 * x[j]
                 odd := odd or not(v <= 255)
                 store y[j] = u8(v)
             if odd: for j in 0..n:
                 v = 0.5 * x[j]
                 fail 1 if not(v <= 255)

A loop with a way out is not done in vectors. What a round does after it should have failed nobody
sees, if it can do no harm: what is asked is how an element compares with a number, the places where
the rounds store and read hang on nothing that they compute or that is asked. (`x[k?]` asks whether
there is such a place, and an `assert` may say so.) If one did fail, the rounds are made again in
order, without what they store, and the first that fails says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Apply,
    Assign,
    Expr,
    Fail,
    Let,
    Load,
    Local,
    Loop,
    Order,
    Reduction,
    Stmt,
    Store,
    Variable,
    When,
)
from naperian.loops.walk import (
    index_expressions,
    loads,
    parts,
    rebuild,
    rebuild_loops,
    statements,
    used_in,
)
from naperian.names import Lit, Var
from naperian.node import replace


def tried(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Loop) and s.order in (Order.FREE, Order.PARALLEL) and _is_harmless(s):
            out += _both(s)
        else:
            out.append(rebuild_loops(s, tried))
    return tuple(out)


def _is_harmless(s: Loop) -> bool:
    """Whether rounds may fail, and may go on when they should have."""
    inside = list(statements(s.body))
    if not any(isinstance(x, Fail) for x in inside):
        return False
    if not all(isinstance(x, Let | Variable | Assign | Store | When | Fail) for x in inside):
        return False
    stored = {x.buffer for x in inside if isinstance(x, Store)}
    if any(x.buffer in stored for y in inside for x in loads(y)):
        return False
    places = {v for x in inside for i in index_expressions(x) for v in used_in(i)}
    values: dict[Var, list[Expr]] = {}
    for x in inside:
        if isinstance(x, Let | Variable | Assign):
            values.setdefault(x.var, []).append(x.value)
    return places.isdisjoint((*values, *(r.var for r in s.reductions))) and all(
        x.code >= 0 and _is_of_values(x.condition, values, places)
        for x in inside if isinstance(x, Fail)
    )  # fmt: skip


def _is_of_values(e: Expr, values: Mapping[Var, list[Expr]], places: set[Var]) -> bool:
    """Whether a condition compares elements with numbers, and none by which places are found."""

    def of_values(x: Expr) -> bool:
        return _is_of_values(x, values, places)

    match e:
        case Lit():
            return True
        case Local(v):
            return v in values and all(map(of_values, values[v]))
        case Apply("and" | "or" | "not" | "select", args, DType.BOOL):
            return all(map(of_values, args))
        case Apply("lt" | "le" | "gt" | "ge", (x, Lit()) | (Lit(), x)):
            found = _elements(x, values)
            return bool(found) and found.isdisjoint(places)
        case _:
            return False


def _elements(e: Expr, values: Mapping[Var, list[Expr]]) -> set[Var]:
    """The arrays whose elements an expression is computed of."""
    found: set[Var] = set()
    seen: set[Var] = set()
    todo = [e]
    while todo:
        for x in parts(todo.pop()):
            match x:
                case Load(buffer):
                    found.add(buffer)
                case Local(v) if v not in seen:
                    seen.add(v)
                    todo += values.get(v, ())
                case _:
                    pass
    return found


def _both(s: Loop) -> tuple[Stmt, ...]:
    """The rounds as vectors, and once more if one of them failed."""
    odd = Var("odd")
    flag = Reduction(odd, "or", DType.BOOL)
    sums = {r.var for r in s.reductions}
    fast = replace(s, body=_noted(s.body, odd=odd), reductions=(*s.reductions, flag))
    again = replace(s, body=_alone(s.body, sums=sums), order=Order.SERIAL, reductions=())
    return (
        Variable(odd, DType.BOOL, Lit(False, DType.BOOL)),
        fast,
        When(Local(odd), (again,)),
    )


def _noted(body: tuple[Stmt, ...], odd: Var) -> tuple[Stmt, ...]:
    """Statements that say whether they would have failed."""

    def noted(s: Stmt) -> Stmt:
        if isinstance(s, Fail):
            return Assign(odd, _either(Local(odd), s.condition))
        return rebuild(s, partial(_noted, odd=odd))

    return tuple(noted(s) for s in body)


def _alone(body: tuple[Stmt, ...], sums: set[Var]) -> tuple[Stmt, ...]:
    """What statements compute to see whether they fail: nothing that is stored or summed."""
    return tuple(
        rebuild(s, partial(_alone, sums=sums))
        for s in body
        if not isinstance(s, Store) and not (isinstance(s, Assign) and s.var in sums)
    )


def _either(x: Expr, y: Expr) -> Expr:
    return Apply("or", (x, y), DType.BOOL, DType.BOOL)
