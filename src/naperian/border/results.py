"""Memory for results, and what becomes of it."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from naperian.border.errors import ShapeError
from naperian.border.shapes import Sizes
from naperian.border.value import LARGEST, Array
from naperian.dtypes import DType
from naperian.forms import dressed, kind, nested, parted
from naperian.ragged import Ragged
from naperian.signature import Form, Instance, Signature, late_sizes

Free: TypeAlias = Callable[[int], None]
"""Gives back memory a kernel made, by its address."""

Empty: TypeAlias = Callable[[tuple[int, ...], np.dtype[Any]], Array]
"""Makes an array."""


class _Made:
    """Memory that a kernel made, for NumPy to hold and to give back."""

    def __init__(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any], free: Free):
        self.address, self.free = address, free
        self.__array_interface__ = {
            "version": 3, "data": (address, False), "shape": shape, "typestr": dtype.str,
        }  # fmt: skip

    def __del__(self) -> None:
        self.free(self.address)


def whole(
    inst: Instance, sizes: Sizes, results: list[Array], free: Free | None
) -> list[Array]:
    """The results, those of late sizes as arrays of the sizes that the run found."""
    sig = inst.signature
    out = [None if sig.late(x) else made for x, made in zip(sig.outputs, results, strict=True)]

    def found(k: int) -> Array:
        known = out[k]
        if known is None:
            assert free is not None
            leaf = sig.outputs[k]
            shape = tuple(max(0, sizes.value(s)) for s in leaf.shape)
            made = _Made(int(results[k]), shape, np.dtype(inst.dtype(leaf).value), free)
            out[k] = known = np.asarray(made)
        return known

    for slot, k in late_sizes(sig.result):  # those of a table of boxes in a box after the box's
        sizes.known[slot] = int(np.maximum(found(k), 0).sum())
    return [found(k) for k in range(len(out))]


def allocate(name: str, shape: tuple[int, ...], dtype: np.dtype[Any], empty: Empty) -> Array:
    """Memory for a result; a result that cannot exist is an error before any of it is touched."""
    needed = dtype.itemsize
    for n in shape:
        needed *= max(1, n)  # NumPy counts as if there were something
    if needed < LARGEST:
        try:
            return empty(shape, dtype)
        except builtins.MemoryError:
            pass
    raise builtins.MemoryError(
        f"the result of {name}() needs {_bytes(needed)}: shape {shape} of {dtype}"
    )


def _bytes(n: int) -> str:
    amount, unit = float(n), "bytes"
    for larger in ("kB", "MB", "GB", "TB", "PB", "EB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.3g} {unit}"


def _no_rows(given: Any, where: str, plain: bool) -> tuple[Any, Any]:
    raise TypeError(f"{where}: the size of this result is known only after the run")


def outs(sig: Signature, out: Any) -> list[Array | None] | None:
    """The buffers given for results, leaf by leaf."""
    if out is None:
        return None
    found: list[Array | None] = [None] * len(sig.outputs)
    places: list[tuple[str, Array]] = []
    for leaf, where, given in parted(sig.result, out, "out", _no_rows):
        if given is not None and not isinstance(given, np.ndarray):
            raise TypeError(f"{where} must be an array, not {kind(given)}")
        if given is not None and not sig.outputs[leaf].shape:
            raise TypeError(f"{where}: this result is a single value, not an array")
        for other, before in places:
            if given is not None and np.shares_memory(given, before):
                raise ValueError(f"{other} and {where} share memory, and both are written")
        if given is not None:
            places.append((where, given))
        found[leaf] = given
    return found


def same_memory(a: Array, b: Array) -> bool:
    """Whether these are the same elements at the same addresses."""
    return (
        a.ctypes.data == b.ctypes.data
        and (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype)
    )  # fmt: skip


def destination(
    target: Array, shape: tuple[int, ...], dtype: np.dtype[Any], inputs: Iterable[Array]
) -> Array:
    """Where the kernel writes: the caller's buffer, or memory to copy from when that buffer is
    not contiguous or shares memory with one of these arguments."""
    if target.shape != shape:
        raise ShapeError(f"out has shape {target.shape}, but the result has {shape}")
    if target.dtype != dtype:
        raise TypeError(f"out is {target.dtype}, but the result is {dtype}")
    if not target.flags.writeable:
        raise ValueError("out is read-only")
    direct = target.flags.c_contiguous and target.flags.aligned and target.dtype.isnative
    if direct and not any(np.may_share_memory(target, a) for a in inputs):
        return target
    return np.empty(shape, dtype)


def delivered(inst: Instance, sizes: Sizes, results: list[Array], kept: list[bool]) -> Any:
    def of(k: int) -> Any:
        leaf, value = inst.signature.outputs[k], results[k]
        if leaf.shape and len(leaf.rows[0]) == 2 and not kept[k]:
            return Ragged(value, sizes.offsets(leaf.rows[0]))
        if leaf.shape or kept[k]:
            return value
        return value[()] if inst.dtype(leaf) is DType.F32 else value.item()

    return with_rows(inst.signature.result, of, results)


def with_rows(form: Form, leaf: Callable[[int], Any], leaves: Sequence[Any]) -> Any:
    """A value of its leaves, in which tables of boxes are ragged: their leaves say how long each
    row is."""

    def starts(k: int) -> tuple[Array, ...]:
        lengths = np.maximum(leaves[k], 0)
        regular = [np.arange(prod(lengths.shape[:n]) + 1) * lengths.shape[n]
                   for n in range(1, lengths.ndim)]  # fmt: skip
        return (*regular, np.concatenate(([0], np.cumsum(lengths))))

    return dressed(form, nested(form, leaf, starts))
