"""A table that only one branch needs is allocated there. loops → loops

    before   allocate t[m + 1]                  after    if normal: …
             store t[0] = 1.0                            else:
             if not(normal): …                               allocate t[m + 1]
             if normal: …                                    store t[0] = 1.0
             else: … t[j] …                                  …
                                                             … t[j] …

To allocate takes as long as the rest of a short row. Branches of one condition in a row become one
where that makes the place; tables of a constant size cost nothing, and stay.
"""

from __future__ import annotations

from naperian.loops.memory import constant_bytes
from naperian.loops.syntax import Allocate, Apply, Assign, Local, Role, Stmt, Store, When
from naperian.loops.walk import loads, mentions, rebuild_allocations, statements, users
from naperian.names import Lit, Var


def needed(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    out = [rebuild_allocations(s, needed) for s in body]
    if any([isinstance(s, When) for s in out]):
        used = users(out)
        for s in reversed(out):
            if isinstance(s, Allocate) and s.buffer.role is Role.TEMP and not s.planes:
                if constant_bytes(s.buffer) is None:
                    after = _moved(out, s, used[s.buffer.var])
                    if after is not None:
                        out, used = after, users(after)
    return tuple(out)


def _moved(body: list[Stmt], table: Allocate, used: list[int]) -> list[Stmt] | None:
    """The block with a table in the branch that alone mentions it, if there is one."""
    var = table.buffer.var
    first = [k for k in used if _starts(body[k], var)]
    rest = [k for k in used if k not in first]
    if not rest or rest != [*range(rest[0], rest[-1] + 1)] or any(k > rest[0] for k in first):
        return None
    together = _together([body[k] for k in rest])
    if together is None:
        return None
    yes, no = together.then, together.otherwise
    sides = [any(var in mentions(s) for s in side) for side in (yes, no)]
    if all(sides):
        return None
    own = [table, *(body[k] for k in first)]
    yes, no = (yes, (*own, *no)) if sides[1] else ((*own, *yes), no)
    gone = {id(s) for s in own} | {id(body[k]) for k in rest[1:]}
    whole = When(together.condition, yes, no)
    return [whole if s is body[rest[0]] else s for s in body if id(s) not in gone]


def _starts(s: Stmt, table: Var) -> bool:
    """Whether a statement gives the table a first value that is known anywhere."""
    return isinstance(s, Store) and s.buffer == table and isinstance(s.value, Lit) and not loads(s)


def _together(row: list[Stmt]) -> When | None:
    """Statements that ask for one name each, or for its opposite, as one."""
    name: Var | None = None
    sides: dict[bool, list[Stmt]] = {True: [], False: []}
    for s in row:
        if not isinstance(s, When):
            return None
        c, holds = s.condition, True
        if isinstance(c, Apply) and c.name == "not":
            c, holds = c.args[0], False
        if not isinstance(c, Local) or name not in (None, c.var):
            return None
        name = c.var
        sides[holds] += s.then
        sides[not holds] += s.otherwise
    changed = (x.var for side in sides.values() for x in statements(side) if isinstance(x, Assign))
    if name is None or name in changed:
        return None
    return When(Local(name), tuple(sides[True]), tuple(sides[False]))
