"""Which bindings a derivative passes through, and in what order.

A binding is *active* if it is a float and a float it is computed from (not an index, a condition
or a guard) is active; the variables of the derivative are to begin with. Loops make cycles, all of
them through delays: the active bindings fall into strongly connected components, and a component
without the delays of its outermost loop into components again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from naperian.ainf.syntax import Accumulate, Binding, Check, Delay, Op, Operand, Prim, Read
from naperian.components import components
from naperian.names import Var
from naperian.partials import FLAT, RULES

_PASSING = ("copy", "held", "cast", "select")


def flowing(prim: Prim) -> Iterator[Operand]:
    """The operands that a derivative flows through."""
    match prim:
        case Op("select", (_, yes, no)):
            yield yes
            yield no
        case Op("ruled", (_, gate)):
            yield gate
        case Op("gate", args):
            yield from args
        case Op(name, args) if (name in RULES or name in _PASSING) and name not in FLAT:
            yield from args
        case Accumulate(monoid, init, entries) if monoid in ("add", "mul", "min", "max", "last"):
            yield init
            yield from (e.value for e in entries)
        case Delay(_, _, init, next):
            yield init
            yield next
        case Op() | Accumulate() | Check():
            pass


def reads(prim: Prim) -> Iterator[Var]:
    """What those operands read."""
    return (o.var for o in flowing(prim) if isinstance(o, Read))


def active(bindings: Sequence[Binding], sources: set[Var]) -> dict[Var, Binding]:
    """The active bindings in their order, the sources not among them."""
    readers: dict[Var, list[Binding]] = {}
    for b in bindings:
        if b.dtype.is_float:
            for v in reads(b.prim):
                readers.setdefault(v, []).append(b)
    found = set(sources)
    todo = list(sources)
    while todo:
        for b in readers.get(todo.pop(), ()):
            if b.var not in found:
                found.add(b.var)
                todo.append(b.var)
    return {b.var: b for b in bindings if b.var in found and b.var not in sources}


def flowing_into(bindings: Mapping[Var, Binding], results: Iterable[Var]) -> dict[Var, Binding]:
    """Those bindings that flow into results: what a loop carries only to know when to stop sends
    nothing, whatever its derivative is there."""
    found = {v for v in results if v in bindings}
    todo = list(found)
    while todo:
        for v in reads(bindings[todo.pop()].prim):
            if v in bindings and v not in found:
                found.add(v)
                todo.append(v)
    return {v: b for v, b in bindings.items() if v in found}


def groups(
    bindings: Mapping[Var, Binding], cut: frozenset[Var], wholes: Sequence[Sequence[Var]]
) -> list[list[Binding]]:
    """The strongly connected components, readers before what they read. What `cut` (delays) reads
    does not count; all of a loop of `wholes` is one."""
    ring: dict[Var, list[Var]] = {}
    for members in wholes:
        for v, after in zip(members, (*members[1:], members[0]), strict=True):
            ring.setdefault(v, []).append(after)

    def following(v: Var) -> list[Var]:
        if v in cut:
            return []
        return [r for r in reads(bindings[v].prim) if r in bindings] + ring.get(v, [])

    place = {v: k for k, v in enumerate(bindings)}
    found = components(bindings, lambda v: reversed(following(v)))
    return [[bindings[v] for v in sorted(part, key=place.__getitem__)] for part in reversed(found)]


def is_loop(component: list[Binding]) -> bool:
    """Whether a component is a loop."""
    return len(component) > 1 or isinstance(component[0].prim, Delay)


def outermost(component: list[Binding]) -> Var:
    """The time index of a cycle's outermost loop: no other loop's time is around its delays."""
    delays = [(b, b.prim.time) for b in component if isinstance(b.prim, Delay)]
    times = {t for _, t in delays}
    return next(t for b, t in delays if not times - {t} & set(b.context))
