"""Arguments drawn from a signature: first the sizes, then what has them.

    x: n=>Float, k: Int, rows: Fin(n + 1)=>Fin(m + 1)      n = 3, m = 2; arrays of these shapes
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from naperian.dtypes import DType
from naperian.forms import dressed, nested
from naperian.node import node, replace
from naperian.signature import Form, Given, Leaf, Opened, Record, Rows, Search, Signature, Tagged
from naperian.sizes import Size, evaluate

Array = np.ndarray[Any, Any]

KINDS = ("normal", "positive", "ties")
"""Floats: of both signs; where logarithms and roots are smooth; equal ones and zeros."""

LENGTHS = (67, 37, 19, 9)
"""Of a long axis: more elements than vectors hold, four at a time, and some that are left."""

_TRIES = 60


@node
class Draw:
    """Arguments of a function: the numbers of its slots, and every leaf as an array."""

    slots: tuple[int, ...]
    leaves: tuple[Array, ...]

    def plain(self, sig: Signature) -> list[Any]:
        """The arguments as nested tuples of arrays."""

        def leaf(k: int) -> Any:
            x = self.leaves[k]
            return x if x.ndim else x.item()

        return [nested(p.form, leaf, lambda k: (self.leaves[k],)) for p in sig.params]

    def arguments(self, sig: Signature) -> tuple[list[Any], dict[str, int]]:
        """The arguments as Python has them, and the sizes that are given by keyword."""
        given = zip(sig.params, self.plain(sig), strict=True)
        return [dressed(p.form, v) for p, v in given], {
            sig.slots[k]: self.slots[k] for k in sig.implicit
        }

    def moved(self, along: dict[int, Array], step: float) -> Draw:
        """With leaves moved along a direction."""
        new = (
            (x + step * along[k]).astype(x.dtype) if k in along else x
            for k, x in enumerate(self.leaves)
        )
        return replace(self, leaves=tuple(new))


def sizes(sig: Signature, rng: np.random.Generator, cases: int) -> Iterator[tuple[int, ...]]:
    """Numbers for the slots: all equal, all different, 0, 1, then anything small; only what the
    function's conditions allow."""
    n = len(sig.slots)
    fixed = [(2,) * n, tuple(3 - k % 2 + k // 2 for k in range(n)), (0,) * n, (1,) * n]
    found = 0
    for slots in fixed:
        if found < cases and allowed(sig, slots):
            found += 1
            yield slots
    tries = 0
    while found < cases and tries < _TRIES * cases:
        tries += 1
        slots = tuple(int(k) for k in rng.integers(0, 6, n))
        if allowed(sig, slots):
            found += 1
            yield slots


def long(sig: Signature, rng: np.random.Generator) -> Iterator[tuple[int, ...]]:
    """Numbers for the slots, one of them large and the others small, the largest first: none where
    the function's conditions allow none."""
    n = len(sig.slots)
    for k in rng.permutation(n):
        few = tuple(int(x) for x in rng.integers(1, 4, n))
        made = [(*few[:k], most, *few[k + 1 :]) for most in LENGTHS]
        found = [slots for slots in made if allowed(sig, slots)]
        yield from found
        if found:
            return


def allowed(sig: Signature, slots: tuple[int, ...]) -> bool:
    """Whether a function may be called with these sizes, and its arguments tell them: a triangle
    without its diagonal has no elements for 0 rows and for 1, and is taken for one of 0."""
    told = (
        _number(step.size, slots) != _number(step.size, _one_less(slots, step.slot))
        for step in sig.plan if isinstance(step, Search) and slots[step.slot] > 0
    )  # fmt: skip
    return all(_number(fact, slots) >= 0 for fact, _ in sig.facts) and all(told)


def _one_less(slots: tuple[int, ...], k: int) -> tuple[int, ...]:
    return (*slots[:k], slots[k] - 1, *slots[k + 1 :])


def draw(
    sig: Signature, types: tuple[DType, ...], slots: tuple[int, ...], rng: np.random.Generator,
    kind: str,
) -> Draw | None:
    """Arguments of these types and sizes. None if there are none: an index of an empty set."""
    scalars = {step.leaf: slots[step.slot] for step in sig.plan if isinstance(step, Given)}
    starts = {r.rows: slots[r.slot] for p in sig.params for r in _rows(p.form)}
    out: list[Array] = []
    for k, leaf in enumerate(sig.inputs):
        shape = tuple(max(0, _number(n, slots)) for n in leaf.shape)
        if k in scalars:
            out.append(np.array(scalars[k], np.int64))
        elif k in starts:
            inner = np.sort(rng.integers(0, starts[k] + 1, max(0, shape[0] - 2)))
            ends = [0, *inner, starts[k]] if shape[0] > 1 else [0]
            if shape[0] == 1 and starts[k]:
                return None
            out.append(np.array(ends, np.int64))
        else:
            dtype = types[leaf.dtype] if isinstance(leaf.dtype, int) else leaf.dtype
            made = _leaf(leaf, dtype, shape, slots, rng, kind)
            if made is None:
                return None
            out.append(made)
    return Draw(slots, tuple(out))


def _leaf(
    leaf: Leaf, dtype: DType, shape: tuple[int, ...], slots: tuple[int, ...],
    rng: np.random.Generator, kind: str,
) -> Array | None:
    target = np.dtype(dtype.value)
    if leaf.low is not None and leaf.high is not None:
        low, high = _number(leaf.low, slots), _number(leaf.high, slots)
        if high <= low and np.prod(shape, dtype=int):
            return None
        return np.asarray(rng.integers(low, max(high, low + 1), shape), target)
    if dtype is DType.BOOL:
        return np.asarray(rng.integers(0, 2, shape), target)
    if dtype.is_integer:
        return np.asarray(rng.integers(0 if dtype.is_unsigned else -2, 6, shape), target)
    match kind:
        case "normal":
            made: Any = rng.standard_normal(shape)
        case "positive":
            made = rng.uniform(0.25, 2.0, shape)
        case _:
            made = rng.integers(-2, 3, shape) / 2
    return np.asarray(made, target)


def moving(x: Array, rng: np.random.Generator) -> Array:
    """A direction in which a leaf may move; what does not vary, as it is."""
    if x.dtype.kind != "f":
        return x
    return np.asarray(rng.standard_normal(x.shape), x.dtype)


def numbers(form: Form) -> Iterator[int]:
    """The leaves of a form, in order."""
    match form:
        case int():
            yield form
        case tuple():
            for x in form:
                yield from numbers(x)
        case Record(_, _, items) | Tagged(_, _, items):
            yield from numbers(items)
        case Rows(_, rows, values):
            yield rows
            yield from numbers(values)
        case Opened(sizes, inner):
            yield from (leaf for _, leaf in sizes)
            yield from numbers(inner)


def _rows(form: Form) -> Iterator[Rows]:
    match form:
        case Rows(_, _, values):
            yield form
            yield from _rows(values)
        case tuple():
            for x in form:
                yield from _rows(x)
        case Record(_, _, items) | Tagged(_, _, items):
            yield from _rows(items)
        case _:
            pass


def _number(s: Size, slots: tuple[int, ...]) -> int:
    def value(a: object) -> int:
        assert isinstance(a, int)
        return slots[a]

    return evaluate(s, value)
