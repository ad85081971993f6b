"""What one round stores and the next one reads is handed on in a register. loops → loops

    before   for j in 0..m:
                 store next[j + 1] = row[j] + 1 if a == b[j] else max(row[j + 1], next[j])

    after    var last = 0
             if m > 0: last := next[0]
             for j in 0..m:
                 new = row[j] + 1 if a == b[j] else max(row[j + 1], last)
                 store next[j + 1] = new
                 last := new

What is stored right in front of the loop is there in any case: `var last = next[0]`.
In front of the loop nothing is read that only later rounds read, `next[j] if j > 0 else 0`, and
nothing if the first round stops the run, which is asked, too. Rows of a table that is filled
element by element: alignments of sequences, sweeps, filters. A load of what was just stored takes
longer than what is done with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import eq, ge, gt, le, lt

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
    Number,
    Order,
    Stmt,
    Store,
    Variable,
    When,
)
from naperian.loops.walk import (
    all_of,
    as_index,
    expressions,
    parts,
    rebuild_loops,
    remade,
    statements,
    used,
    used_in,
)
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.prims import unit
from naperian.sizes import Size, size, substitute

Types = Mapping[Var, DType]


def handed(body: tuple[Stmt, ...], types: Types) -> tuple[Stmt, ...]:
    """The statements of a program whose buffers have these types; see the module."""
    out: list[Stmt] = []
    for s in body:
        s = rebuild_loops(s, lambda b: handed(b, types))
        while isinstance(s, Loop) and (found := _last(s)) is not None:
            *before, s = _in_a_register(s, *found, types[found[0].buffer], out)
            out += before
        out.append(s)
    return tuple(out)


def _last(s: Loop) -> tuple[Store, Load] | None:
    """What a round stores, and how the next one reads it."""
    inside = list(statements(s.body))
    if s.order is not Order.SERIAL or not all(
        isinstance(x, Let | Variable | Assign | Store | When | Fail) for x in inside
    ):
        return None
    changed = {x.var for x in inside if isinstance(x, Let | Variable | Assign)}
    stored = [x.buffer for x in inside if isinstance(x, Store)]
    # in every round, also in the first: it may be read before the loop
    read = ((x.condition,) if isinstance(x, Fail) else expressions(x) for x in s.body)
    always = {p for es in read for e in es for p in parts(e) if isinstance(p, Load)}
    later = _later(s)
    asked = _stops(s) is not None
    for x in s.body:
        if isinstance(x, Store) and stored.count(x.buffer) == 1:
            named = {v for i in x.at for v in used_in(i)}
            plain = changed.isdisjoint(named) and named.isdisjoint(stored)
            before = Load(x.buffer, tuple(_at(i, s.var, size(s.var) - 1) for i in x.at))
            if plain and before.at != x.at and (before in later or (before in always and asked)):
                return x, before
    return None


def _stops(s: Loop) -> list[Expr] | None:
    """When the first round stops the run, asked before the loop; None if only the round knows."""
    inside = list(statements(s.body))
    own = {x.var for x in inside if isinstance(x, Let | Variable | Assign)}
    own |= {x.buffer for x in inside if isinstance(x, Store)}
    fails = [x for x in inside if isinstance(x, Fail)]
    if any(x not in s.body or not own.isdisjoint(used(x.condition)) for x in fails):
        return None
    first = remade(fails, lambda a: s.low if a == s.var else None)
    return [x.condition for x in first if isinstance(x, Fail)]


def _later(s: Loop) -> set[Load]:
    """What is read only in rounds behind the first: where the index is beyond that."""
    names = {x.var for x in s.body if isinstance(x, Let) and _fails_first(s, x.value)}
    early, late = set[Load](), set[Load]()
    todo = [(s.body, False)]
    while todo:
        body, behind = todo.pop()
        for x in body:
            for e in expressions(x):
                (late if behind else early).update(p for p in parts(e) if isinstance(p, Load))
            if isinstance(x, When):
                c = x.condition
                holds = _fails_first(s, c) or (isinstance(c, Local) and c.var in names)
                todo += ((x.then, behind or holds), (x.otherwise, behind))
    return late - early


_FAILS: dict[str, Callable[[int, int], bool]] = {"gt": le, "lt": ge, "ne": eq, "ge": lt, "le": gt}


def _fails_first(s: Loop, e: Expr) -> bool:
    """Whether a comparison does not hold in the first round."""
    if not isinstance(e, Apply) or e.name not in _FAILS or e.operand is not DType.I64:
        return False
    one, two = map(as_index, e.args)
    if one is None or two is None:
        return False
    gap = _at(one - two, s.var, s.low).constant
    return gap is not None and _FAILS[e.name](gap, 0)



def _at(i: Size, v: Var, value: Size) -> Size:
    return substitute(i, lambda a: value if a == v else None)


def _in_a_register(
    s: Loop, store: Store, before: Load, dtype: DType, ahead: Sequence[Stmt]
) -> tuple[Stmt, ...]:
    last, new = Var("last"), Var("new")

    def expr(e: Expr) -> Expr:
        if before.buffer not in used(e):
            return e
        if e == before:
            return Local(last)
        return replace(e, args=tuple(map(expr, e.args))) if isinstance(e, Apply) else e

    def block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for x in body:
            match x:
                case When(condition, then, otherwise):
                    out.append(When(expr(condition), block(then), block(otherwise)))
                case Store() if x is store:
                    out.append(Let(new, dtype, expr(x.value)))
                    out.append(replace(x, value=Local(new)))
                case Let() | Variable() | Assign() | Store():
                    out.append(replace(x, value=expr(x.value)))
                case Fail(condition, code, values):
                    out.append(Fail(expr(condition), code, tuple(map(expr, values))))
                case _:
                    raise AssertionError(x)
        return tuple(out)

    rounds = replace(s, body=(*block(s.body), Assign(last, Local(new))))
    first = Load(before.buffer, tuple(_at(i, s.var, s.low) for i in before.at))
    if any(isinstance(x, Store) and Load(x.buffer, x.at) == first for x in ahead):
        return Variable(last, dtype, first), rounds
    some = Apply("lt", (Number(s.low), Number(s.high)), DType.BOOL, DType.I64)
    goes_on = (Apply("not", (c,), DType.BOOL, DType.BOOL) for c in _stops(s) or ())
    begin = When(all_of([some, *goes_on]), (Assign(last, first),))
    return (
        Variable(last, dtype, Lit(unit("add", dtype), dtype)),
        *(() if before in _later(s) else (begin,)),
        rounds,
    )
