"""A loop that adds nothing goes. loops → loops

    before   var v = 0.0
             free for j in 0..cut reducing add v: v := v + l[i, j] * x[j]
             free for j in cut..n reducing add v: v := v + 0.0

    after    var v = 0.0
             free for j in 0..cut reducing add v: v := v + l[i, j] * x[j]

That is left of what a condition takes out of a sum, where a loop is cut. The law: nothing changes
by being reduced with the unit of the operation, but for -0.0, which a sum of floats that begins
with 0.0 never is.
"""

from __future__ import annotations

from naperian.loops.syntax import Apply, Assign, Let, Local, Loop, Program, Stmt, Variable
from naperian.loops.walk import rebuild_loops, statements
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.prims import unit


def idle(program: Program) -> Program:
    """See the module."""
    inside = [*statements(program.body)]
    added: dict[Var, bool] = {}  # whether nothing else is done with it
    for s in inside:
        if isinstance(s, Assign):
            added[s.var] = added.get(s.var, True) and _adds(s)
    begun = {s.var: s.value for s in inside if isinstance(s, Variable)}
    zero = {v for v, e in begun.items() if added.get(v) and isinstance(e, Lit) and _is_zero(e)}
    return replace(program, body=_without(program.body, zero))


def _without(body: tuple[Stmt, ...], zero: set[Var]) -> tuple[Stmt, ...]:
    return tuple(
        rebuild_loops(s, lambda b: _without(b, zero)) for s in body
        if not (isinstance(s, Loop) and _does_nothing(s, zero))
    )  # fmt: skip


def _does_nothing(s: Loop, zero: set[Var]) -> bool:
    """Whether a loop only reduces with units."""
    steps = [x for x in s.body if not isinstance(x, Let)]
    return bool(steps) and all(isinstance(x, Assign) and _stays(x, zero) for x in steps)


def _stays(s: Assign, zero: set[Var]) -> bool:
    match s.value:
        case Apply("add" | "mul" | "max" | "min" | "or" | "and" as name, (Local(v), Lit() as e), t):
            if v != s.var:
                return False
            if name == "add" and t.is_float and str(e.value) == "-0.0":
                return True
            if e != Lit(unit(name, t), t):
                return False
            return name != "add" or not t.is_float or v in zero
        case _:
            return False


def _adds(s: Assign) -> bool:
    match s.value:
        case Apply("add", (Local(v), _)):
            return v == s.var
        case _:
            return False


def _is_zero(e: Lit) -> bool:
    return str(e.value) == "0.0"
