"""Keys are tested beside their use where vectors gather.

    var odd = False                                  var odd = False
    free for k in … reducing or odd:                 free for k in … reducing or odd:
        odd := odd or p[k] != clamp(p[k], m)    ⇒        odd := odd or p[k] != clamp(p[k], m)
    fail OUTSIDE if odd                                  store y[k] = x[clamp(p[k], m)]
    free for k in …:                                 fail OUTSIDE if odd
        store y[k] = x[p[k]]

Elements that are read one by one fill the processor's window, so that keys are better tested
before, while they come from memory (`passes/nests/outside.py`). A gather waits for its elements,
and meanwhile there is time to test the next keys.
"""

from __future__ import annotations

from collections.abc import Sequence

from naperian.backends.frame import Frame
from naperian.backends.masks import free_masks
from naperian.dtypes import DType
from naperian.loops.syntax import (
    Apply,
    Assign,
    Expr,
    Fail,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Reduction,
    Stmt,
    Variable,
)
from naperian.loops.walk import atoms, loads, remade, statements
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.sizes import Atom, Clamp, Size, atom

_PARTS = 4  # statements that become three
_GATHERED = 32  # bits of elements that are gathered


def beside_use(frame: Frame, stmts: Sequence[Stmt]) -> Sequence[Stmt]:
    """The statements of a block, keys tested where they are used."""
    if not free_masks(frame.module.target):
        return stmts
    out: list[Stmt] = []
    rest = list(stmts)
    while rest:
        both = _both(frame, rest[:_PARTS])
        out += both or rest[:1]
        del rest[: _PARTS if both else 1]
    return out


def _both(frame: Frame, stmts: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """The three statements, if these are the four, and each key is for one element: tested before,
    keys are in the nearest cache for more of them."""
    match stmts:
        case (
            Variable(odd, DType.BOOL, Lit(False)) as flag,
            Loop(v, low, high, tests, Order.FREE) as ask,
            Fail(Local(c)) as fail,
            Loop(w, low_2, high_2, body, Order.FREE) as use,
        ) if odd == c and (v, low, high) == (w, low_2, high_2):
            inside = _all_inside(tests, odd)
        case _:
            return ()
    if not inside or ask.reductions != (Reduction(odd, "or", DType.BOOL),):
        return ()
    elements = [e for x in statements(body) for e in loads(x)
                if any(a in inside for i in e.at for a in atoms(i))]  # fmt: skip
    bits = [frame.element_type(e.buffer).bits for e in elements]
    if not 0 < len(set(elements)) <= len(inside) or min(bits) < _GATHERED:
        return ()
    reductions = (*use.reductions, *ask.reductions)
    return flag, replace(use, body=(*tests, *remade(body, inside.get)), reductions=reductions), fail


def _all_inside(tests: Sequence[Stmt], odd: Var) -> dict[Atom, Size]:
    """The keys that statements test, kept in their sets, if they do nothing else."""
    found: dict[Atom, Size] = {}
    for x in tests:
        match x:
            case Assign(v, Apply("or", (Local(w), bad))) if v == w == odd:
                keys = _inside(bad)
            case _:
                return {}
        if keys is None:
            return {}
        found |= keys
    return found


def _inside(bad: Expr) -> dict[Atom, Size] | None:
    """The keys that a condition asks for, kept in their sets, if it asks for nothing else."""
    match bad:
        case Apply("or", (one, two)):
            first, second = _inside(one), _inside(two)
            return None if first is None or second is None else first | second
        case Apply("ne", (Load() as key, Number(at))):
            kept = isinstance(at.single, Clamp) and at.single.value == atom(key)
            return {key: at} if kept else None
        case _:
            return None
