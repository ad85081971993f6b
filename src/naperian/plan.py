"""How the shapes of arguments give the slots of a signature, in order.

Plain axes bind first, in the order of the arguments, then axes that are linear in one slot, then
any with one unknown slot; what is left must agree.
"""

from __future__ import annotations

from naperian.signature import Bind, Equal, Given, Leaf, Search, Step, slots_of
from naperian.sizes import ONE, ZERO, Size


def plan(
    leaves: tuple[Leaf, ...], count: int, given: list[int], scalars: list[Given]
) -> tuple[tuple[Step, ...], list[int]]:
    """The steps, and the slots of `count` that they do not give; `given` and `scalars` are known
    without a shape."""
    known = {*given, *(step.slot for step in scalars)}
    pending = [(k, a, s) for k, leaf in enumerate(leaves) for a, s in enumerate(leaf.shape)]
    binding: list[Step] = []

    def next_step() -> Bind | Search | None:
        tries = (solve(*item, known) for solve in (_plain, _linear, _single) for item in pending)
        return next((step for step in tries if step is not None), None)

    while (step := next_step()) is not None:
        binding.append(step)
        known.add(step.slot)
        pending = [item for item in pending if item[:2] != (step.leaf, step.axis)]
    equal = (Equal(*item) for item in pending)
    return (*scalars, *binding, *equal), [k for k in range(count) if k not in known]


def _plain(leaf: int, axis: int, s: Size, known: set[int]) -> Bind | None:
    slot = s.single
    if isinstance(slot, int) and slot not in known:
        return Bind(leaf, axis, slot, ONE, ZERO)
    return None


def _linear(leaf: int, axis: int, s: Size, known: set[int]) -> Bind | None:
    unknown = _unknown(s, known)
    if len(unknown) != 1:
        return None
    (slot,) = unknown
    factor, rest = ZERO, ZERO
    for monomial, c in s.terms:
        term = Size(((monomial, c),))
        if slot not in monomial:
            if _unknown(term, known):
                return None
            rest = rest + term
            continue
        others = list(monomial)
        others.remove(slot)
        left = Size(((tuple(others), c),))
        if _unknown(left, known):
            return None
        factor = factor + left
    return Bind(leaf, axis, slot, factor, rest)


def _single(leaf: int, axis: int, s: Size, known: set[int]) -> Search | None:
    unknown = _unknown(s, known)
    return Search(leaf, axis, unknown.pop(), s) if len(unknown) == 1 else None


def _unknown(s: Size, known: set[int]) -> set[int]:
    return {a for a in slots_of(s) if a not in known}
