"""Loops whose derivative waits for memory, not for what is computed.

A step of a stencil is a few additions an element. Its derivative in reverse reads all states, and
once these are more than a cache holds, writing and reading them takes several times as long as the
steps. Making them again, a few at a time, takes as long as the steps. So of such a loop the last
rounds go as they are, as many as have room, and the ones before in strips, as with checkpoints:

    loop x = u for t in Fin(n):     ⇒   loop x = u for t in Fin(n - late): …    in strips
        …                               loop x = x for t in n - late..n: …
"""

from __future__ import annotations

from collections.abc import Collection

from naperian import types
from naperian.core import syntax as core
from naperian.core.linear import affine
from naperian.core.walk import everything
from naperian.names import Var
from naperian.prims import PRIMITIVES
from naperian.sizes import Size

ROOM = 1 << 22  # bytes of states that go as they are: what the last cache has beside other things
STRIP = 1 << 19  # bytes of the states of a strip, which the second cache holds
FEWEST = 8  # rounds of a strip: of states that take more room all go as they are
_LONG = 64  # rounds, where they are known
_DEAR = 4  # an operation, in additions: what takes longer is not made again
_MANY = 60  # operations of a step
_PLAIN = (
    core.Ref, core.Const, core.ConstOf, core.Number, core.Op, core.Let, core.Pack, core.Part,
    core.If, core.For, core.At, core.Literal, core.Recast,
)  # fmt: skip


def is_long(rounds: Size) -> bool:
    """Whether a loop may have many rounds."""
    known = rounds.constant
    return known is None or known > _LONG


def is_light(e: core.Loop, active: Collection[Var]) -> bool:
    """Whether a loop over a set carries tables of floats by little arithmetic, and its derivative
    needs more of them than slices: with the active variables, a step is not linear."""
    if e.condition is not None or not any(isinstance(c.type, types.Table) for c in e.carried):
        return False
    if not all(_is_plain(c.type) for c in e.carried):
        return False
    inside = [*everything(e.body)]
    operations = [x for x in inside if isinstance(x, core.Op)]
    light = all(isinstance(x, _PLAIN) for x in inside) and len(operations) <= _MANY
    if not light or any(map(_takes_long, operations)):
        return False
    if any(_is_left(x, e) for x in inside if isinstance(x, core.For)):
        return False
    tables = {c.var: _axes(c.type) for c in e.carried}
    return not affine(e.body, {*active, *tables}, tables)


def new_states(e: core.Loop) -> list[core.Carried]:
    """What a loop carries, but for what is another state of the round before: that is kept already
    (`nests/one_history`)."""
    body = e.body
    while isinstance(body, core.Let):
        body = body.body
    steps = body.items if isinstance(body, core.Pack) else (body,)
    others = {core.Ref(c.var) for c in e.carried}
    pairs = zip(e.carried, steps, strict=True)
    return [c for c, step in pairs if step not in others - {core.Ref(c.var)}]


def _is_left(x: core.For, loop: core.Loop) -> bool:
    """Whether a table is what a loop carries but for an element or a row, which it changes in place
    (`algebra/replaced`): of each round its derivative keeps what was there."""
    cell = x.body
    if isinstance(cell, core.If) and isinstance(cell.condition, core.Op):
        cell = cell.otherwise if cell.condition.name == "eq" else cell
    old = {core.Ref(c.var) for c in loop.carried}
    return isinstance(cell, core.At) and cell.table in old and cell.index == core.Ref(x.var)


def _axes(t: types.Type) -> int:
    return 1 + _axes(t.cell) if isinstance(t, types.Table) else 0


def _takes_long(e: core.Op) -> bool:
    match e.name, e.args:
        case "pow", (_, core.Const(power)) if power.value in (2, 3, 4):
            return False
        case name, _:
            return name in PRIMITIVES and PRIMITIVES[name].cost > _DEAR


def _is_plain(t: types.Type) -> bool:
    """Whether a type is a float, or tables of them that are the same for all indices."""
    while isinstance(t, types.Table):
        if t.index is not None:
            return False
        t = t.cell
    return isinstance(t, types.Scalar) and t.dtype.is_float
