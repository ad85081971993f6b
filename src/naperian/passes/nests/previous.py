"""What a round hands to the next, and stores in a row, the next one reads there. loops → loops

    before   for j in 0..m:
                 var a = 0.0
                 for t in 0..n:
                     v = a + x[t, j]
                     store y[t, j] = v
                     a := v

    after    for j in 0..m:
                 for t in 0..clamp(n, 2):
                     first = 0.0
                     store y[t, j] = first + x[t, j]
                 for t in clamp(n, 2)..n:
                     before = y[t - 1, j]
                     store y[t, j] = before + x[t, j]

`columns` asks for it, where columns go side by side: a variable is a row of memory then, and has
to be written and read in every round beside the one that holds the same.
"""

from __future__ import annotations

from naperian.loops.syntax import Assign, Expr, Let, Load, Local, Loop, Stmt, Store, Variable
from naperian.loops.walk import loads, mentions, remade, statements, used_in
from naperian.names import Var, fresh
from naperian.node import replace
from naperian.sizes import Atom, Size, clamp, size

_MOST = 8  # statements of a round: what computes more does not wait for this, and is there twice


def previous(s: Loop) -> Loop:
    """A loop over columns, in which loops are in order; see the module."""
    body = list(s.body)
    for k, inner in enumerate(body):
        if isinstance(inner, Loop) and len(inner.body) <= _MOST:
            rows = _rows(s, inner)
            if rows:
                body[k : k + 1] = _parted(inner, rows)
                body = [x for x in body if not (isinstance(x, Variable) and x in rows)]
                return replace(s, body=tuple(body))
    return s


def _rows(s: Loop, inner: Loop) -> dict[Variable, Store]:
    """The variables of the loop inside that nobody else mentions and whose next values it stores,
    each with what stores them."""
    if not all(isinstance(x, Let | Assign | Store) for x in inner.body):
        return {}
    inside = list(statements(s.body))
    written = {x.buffer for x in inside if isinstance(x, Store)}
    lets = {x.var: x.value for x in inner.body if isinstance(x, Let)}
    out: dict[Variable, Store] = {}
    for x in s.body:
        if not isinstance(x, Variable) or not x.dtype.is_float:
            continue
        if any(x.var in mentions(y) for y in s.body if y is not x and y is not inner):
            continue
        if any(e.buffer in written for e in loads(x)):
            continue
        ends = [y for y in inner.body if isinstance(y, Assign) and y.var == x.var]
        if len(ends) == 1:
            found = [y for y in inner.body if isinstance(y, Store) and _is_row(s, inner, y)
                     and _same(y.value, ends[0].value, lets)]  # fmt: skip
            alone = [y for y in found
                     if sum(isinstance(z, Store) and z.buffer == y.buffer for z in inside) == 1
                     and all(e.buffer != y.buffer for z in inside for e in loads(z))]  # fmt: skip
            if alone:
                out[x] = alone[0]
    return out


def _is_row(s: Loop, inner: Loop, y: Store) -> bool:
    """Whether each round stores another row, each column its own element."""
    *rows, last = y.at
    if not all(isinstance(a, Var) for e in y.at for a in e.atoms):
        return False
    steps = [e.coefficient(inner.var) for e in rows]
    return 1 in steps and last.coefficient(s.var) == 1 and inner.var not in used_in(last)


def _same(a: Expr, b: Expr, lets: dict[Var, Expr]) -> bool:
    """Whether two values are one that is named."""

    def named(e: Expr) -> Expr:
        while isinstance(e, Local) and isinstance(lets.get(e.var), Local):
            e = lets[e.var]
        return e

    return isinstance(named(a), Local) and named(a) == named(b)


def _parted(s: Loop, rows: dict[Variable, Store]) -> list[Stmt]:
    """The first round, if there is one, and the others."""
    gone = {x.var for x in rows}
    body: tuple[Stmt, ...] = ()
    for x in reversed(s.body):
        match x:
            case Assign(var) if var in gone:
                continue
            case Let(var) if not any(var in mentions(y) for y in body):
                continue  # which was assigned
            case _:
                body = (x, *body)
    second = s.low + clamp(s.high - s.low, size(2))
    out: list[Stmt] = []
    for low, high in ((s.low, second), (second, s.high)):
        t, begins = fresh(s.var), list[Stmt]()
        names = {x.var: fresh(x.var) for x in body if isinstance(x, Let)}
        for x, stored in rows.items():
            names[x.var] = Var("first" if high == second else "before")
            back: dict[Atom, Size] = {s.var: size(t) - 1}
            at = remade((stored,), back.get)[0]
            assert isinstance(at, Store)
            value = x.value if high == second else Load(at.buffer, at.at)
            begins.append(Let(names[x.var], x.dtype, value))
        here: dict[Atom, Size] = {s.var: size(t)}
        rest = remade(body, here.get, names)
        out.append(replace(s, var=t, low=low, high=high, body=(*begins, *rest)))
    return out
