"""A loop is cut where a comparison with its index changes. loops → loops

    before   free for i in 0..n:                    after    middle = max(0, min(k, n))
                 before = i < k                              free for i in 0..middle:
                 store y[i] = f(x[i]) if before                  store y[i] = f(x[i])
                              else x[i]                      free for i in middle..n:
                                                                 store y[i] = x[i]

Where the place is known when arrays are scheduled (borders, triangles) they are cut there
(`fusion/split.py`); here it is a number that the run computes: how much of a tree is left, how many
of a queue are served. A vector that is on one side has nothing to choose, and does not compute what
only the other side needs. The few rounds at an end of a longer loop are no vectors, and stay whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from naperian.dtypes import DType
from naperian.loops.edges import is_edge, numbers
from naperian.loops.syntax import (
    Apply,
    Assign,
    Expr,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Stmt,
    Variable,
    When,
    While,
)
from naperian.loops.walk import atoms, expressions, parts, rebuild_loops, statements, used, whole
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.passes.nests.unswitch import assumed, wanted
from naperian.sizes import Size, size

_SHORT = 16  # iterations, where their number is known
_TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def cut(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    return _block(body, numbers(body))


def _block(body: tuple[Stmt, ...], known: Mapping[Var, Size]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        halves = _halves(s) if isinstance(s, Loop) and not is_edge(s, known) else None
        out += halves or (rebuild_loops(s, lambda b: _block(b, known)),)
    return tuple(out)


def _halves(s: Loop) -> tuple[Stmt, ...] | None:
    """The two loops, and where one ends, if the second has less to do."""
    trips = (s.high - s.low).constant
    inside = list(statements(s.body))
    if s.order not in (Order.FREE, Order.PARALLEL) or (trips is not None and trips < _SHORT):
        return None
    if any(isinstance(x, Loop | While) for x in inside):
        return None
    made = {x.var for x in inside if isinstance(x, (Let, Variable, Assign))}
    definitions: dict[Var, Expr] = {
        x.var: x.value for x in inside if isinstance(x, Let) and x.dtype is DType.BOOL
    }
    for e in _asked(inside, definitions):
        found = _border(e, s.var, made)
        if found is None:
            continue
        name, border = found
        first, second = (
            wanted(assumed(s.body, {e: holds}, definitions))
            for holds in (name in ("lt", "le"), name in ("gt", "ge"))
        )
        middle = Var("middle")
        end = Number(s.high)
        if name in ("le", "gt"):  # the first that is beyond
            last = whole("min", border, Number(s.high - 1))
            border = whole("add", last, Lit(1, DType.I64))
        place = whole("max", Number(s.low), whole("min", border, end))
        loops = (
            replace(s, high=size(middle), body=first),
            replace(s, low=size(middle), body=second),
        )
        return (Let(middle, DType.I64, place), *(x for x in loops if x.body))
    return None


def _asked(inside: list[Stmt], definitions: dict[Var, Expr]) -> Iterator[Expr]:
    """The comparisons that statements and choices hang on."""
    for x in inside:
        asked = [x.condition] if isinstance(x, When) else []
        for top in expressions(x):
            asked += [p.args[0] for p in parts(top) if isinstance(p, Apply) and p.name == "select"]
        for e in asked:
            yield definitions.get(e.var, e) if isinstance(e, Local) else e


def _border(e: Expr, var: Var, made: set[Var]) -> tuple[str, Expr] | None:
    """How an index is compared, and with what, if that is the same in all rounds."""
    match e:
        case Apply(name, (x, y), _, DType.I64) if name in _TURNED:
            pass
        case _:
            return None
    for how, one, other in ((name, x, y), (_TURNED[name], y, x)):
        if one == Number(size(var)) and _is_steady(other, made | {var}):
            return how, other
    return None


def _is_steady(e: Expr, made: set[Var]) -> bool:
    """Whether an expression is a number that no round changes."""
    loaded = any(isinstance(p, Load) for p in parts(e)) or any(
        isinstance(a, Load) for p in parts(e) if isinstance(p, Number) for a in atoms(p.value)
    )
    return isinstance(e, Local | Number) and not loaded and made.isdisjoint(used(e))
