"""A call, the slow way: convert, bind sizes, check, allocate, run, convert back."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from naperian.border.errors import IndexError, stop
from naperian.border.numbers import converted
from naperian.border.results import (
    Empty,
    Free,
    allocate,
    delivered,
    destination,
    outs,
    same_memory,
    whole,
)
from naperian.border.rows import check_rows
from naperian.border.shapes import Sizes, check_bounds, check_rank, is_empty
from naperian.border.value import Array, Value
from naperian.signature import Instance

Runner: TypeAlias = Callable[[Any, Any, Any, Any, bool], int]
"""(sizes, buffers, scalars, error, release) → the kernel's answer; the arguments are ctypes."""

RELEASE = 8192  # elements from which on other Python threads may run


def call(
    inst: Instance,
    values: list[Value],
    implicit: dict[int, int],
    run: Runner,
    out: Any = None,
    free: Free | None = None,
    empty: Empty = np.empty,
) -> Any:
    """Run an instance on gathered arguments. `free` gives back memory that the kernel made for a
    result whose size the run found; NumPy owns it until then. `empty` makes the other results."""
    sig = inst.signature
    sizes = Sizes(sig, values, dict(implicit))
    for v, leaf in zip(values, sig.inputs, strict=True):
        check_rank(v, leaf, sizes)
    arrays = [converted(v, inst.dtype(x)) for v, x in zip(values, sig.inputs, strict=True)]
    sizes.bind()
    for k, (v, leaf) in enumerate(zip(values, sig.inputs, strict=True)):
        if v.said is not None:
            shape = tuple(max(0, sizes.value(s)) for s in leaf.shape)
            low = 0 if leaf.low is None else sizes.value(leaf.low)
            arrays[k] = np.full(shape, low, arrays[k].dtype)
    for k, (v, leaf, data) in enumerate(zip(values, sig.inputs, arrays, strict=True)):
        check_rows(v, leaf, sizes)
        if k not in inst.checked or is_empty(leaf, sizes):
            check_bounds(v, leaf, data, sizes)
    given = outs(sig, out)
    results: list[Array] = []
    for k, leaf in enumerate(sig.outputs):
        dtype = np.dtype(inst.dtype(leaf).value)
        target = None if given is None else given[k]
        if sig.late(leaf):
            results.append(np.zeros((), np.intp))  # where the kernel says where it is
            continue
        shape = tuple(max(0, sizes.value(s)) for s in leaf.shape)
        if target is None:
            results.append(allocate(sig.name, shape, dtype, empty))
        else:
            others = [a for j, a in enumerate(arrays)
                      if not ((j, k) in inst.donors and same_memory(a, target))]  # fmt: skip
            results.append(destination(target, shape, dtype, others))
    try:
        if not _run(inst, sizes, arrays, results, run):
            for v, leaf, data in zip(values, sig.inputs, arrays, strict=True):
                check_bounds(v, leaf, data, sizes)
            raise IndexError(f"an array of indices was changed while {sig.name}() read it")
    except BaseException:
        for leaf, made in zip(sig.outputs, results, strict=True):
            if sig.late(leaf) and free is not None:
                free(int(made))
        raise
    results = whole(inst, sizes, results, free)
    if given is not None:
        for target, made in zip(given, results, strict=True):
            if target is not None and target is not made:
                target[...] = made
        results = [
            made if target is None else target for target, made in zip(given, results, strict=True)
        ]
    kept = [given is not None and given[k] is not None for k in range(len(results))]
    return delivered(inst, sizes, results, kept)


def integers(
    inst: Instance, values: list[Value], implicit: dict[int, int]
) -> tuple[list[int], list[int | None]]:
    """The sizes of a call as the kernel takes them, and its arguments that are integers."""
    sizes = Sizes(inst.signature, values, dict(implicit))
    for v, leaf in zip(values, inst.signature.inputs, strict=True):
        check_rank(v, leaf, sizes)
    sizes.bind()
    scalars = [
        int(v.array) if not leaf.shape and v.said is None and v.array.dtype.kind in "iu" else None
        for v, leaf in zip(values, inst.signature.inputs, strict=True)
    ]
    return [sizes.known[k] for k in inst.order], scalars


def _run(
    inst: Instance, sizes: Sizes, arrays: list[Array], results: list[Array], run: Runner
) -> bool:
    """Whether all indices that the kernel checks were in their sets."""
    buffers = [*arrays, *results]
    words = (ctypes.c_int64 * max(1, len(inst.order)))(*(sizes.known[k] for k in inst.order))
    pointers = (ctypes.c_void_p * max(1, len(buffers)))(*(b.ctypes.data for b in buffers))
    scalars = np.zeros((max(1, len(buffers)), 8), np.uint8)
    for k, (leaf, a) in enumerate(zip(inst.signature.inputs, arrays, strict=True)):
        if not leaf.shape:
            scalars[k, : a.itemsize] = np.frombuffer(a.tobytes(), np.uint8)
    error = (ctypes.c_int64 * 4)()
    work = sum(b.size for b in buffers)
    code = run(words, pointers, scalars.ctypes.data, error, work >= RELEASE)
    if inst.found_outside(code):
        return False
    if code:
        stop(inst.faults, code, *error)
    return True
