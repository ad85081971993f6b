"""Dtypes: which instance arguments choose, and arguments in the dtypes of an instance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from naperian.border.value import Array, Value
from naperian.dtypes import DType, holds, join
from naperian.signature import Instance, Leaf, Signature, TypeSlot


def choose(sig: Signature, values: list[Value]) -> tuple[DType, ...]:
    """The dtype of each type slot.

    Arrays and NumPy scalars have a dtype; Python's numbers fit the others. `Float` is F32 if every
    floating argument is and the rest are held by it, else F64."""
    return tuple(
        _choice(t, [v for v, leaf in zip(values, sig.inputs, strict=True) if leaf.dtype == k])
        for k, t in enumerate(sig.types)
    )


def usual(sig: Signature) -> tuple[DType, ...]:
    """The instance when nothing is given that could choose."""
    return tuple(_choice(t, []) for t in sig.types)


def _choice(slot: TypeSlot, values: list[Value]) -> DType:
    strong = [v.dtype for v in values if not v.weak]
    weak = [v.dtype for v in values if v.weak and v.array.size and v.said is None]
    if chooses_precision(slot):
        single = any(d is DType.F32 for d in strong) and all(holds(DType.F32, d) for d in strong)
        return DType.F32 if single else DType.F64
    if not values and slot.instances is None:
        return DType.I64  # as a literal of any number type
    chosen = strong[0] if strong else weak[0] if weak else DType.F64
    for v in values:
        joined = chosen if v.weak else join(chosen, v.dtype)
        if joined is None:
            raise TypeError(
                f"{v.where} is {v.dtype.value}, which has no common type with {chosen.value} "
                f"({slot.name} is one type)"
            )
        chosen = joined
    for d in weak:
        if d.is_float and chosen.is_integer:
            chosen = DType.F64
        elif not strong and d is not chosen and not chosen.is_float:
            chosen = join(chosen, d) or chosen
    if slot.instances is not None and chosen not in slot.instances:
        wider = [d for d in slot.instances if not strong and all(join(d, x) is d for x in weak)]
        if not wider:
            found = f"{values[0].where} is {chosen.value}: " if values else ""
            raise TypeError(f"{found}no instance for {slot.wanted}")
        return wider[0]
    if slot.interface == "Integral" and not chosen.is_integer:
        other = next((v for v in values if v.array.size and not v.dtype.is_integer), None)
        if other is None:  # of nothing NumPy makes floats
            return DType.I64
        raise TypeError(f"{other.where} is {other.dtype.value}; {slot.name} must be an integer")
    if chosen is DType.BOOL and slot.interface in ("Num", "Ord"):
        raise TypeError(f"{values[0].where} is bool; {slot.name} must be a number")
    return chosen


_DTYPES = {np.dtype(d.value): d for d in DType}


def dtype_of(where: str, own: np.dtype[Any]) -> DType:
    """The scalar type of an argument. Half precision is held by single."""
    found = _DTYPES.get(own.newbyteorder("="))
    if found is not None:
        return found
    if own == np.float16:
        return DType.F32
    by_kind = {
        "c": "complex numbers are not supported; .real and .imag are floats",
        "O": "it holds Python objects; .astype(float) makes numbers of them",
        "U": "it holds text; .astype(float) reads numbers in it",
        "S": "it holds text; .astype(float) reads numbers in it",
        "M": "dates are not numbers", "m": "durations are not numbers",
        "V": "it holds records" if own.names else "NumPy has no such numbers; .astype(np.float32) "
        "makes some that it has",
        "f": "it would lose precision in any type there is; .astype(np.float64) rounds it",
    }  # fmt: skip
    raise TypeError(f"{where} is {own}: {by_kind.get(own.kind, 'this is no number type')}")


def laid_out(args: Sequence[Any]) -> list[Any] | None:
    """The arguments with copies of those arrays that are slices, transposes or swapped in their
    bytes: what the native way in takes. None if there are no such arrays."""
    apart = [
        type(x) is np.ndarray and x.dtype.kind in "biuf" and not _is_laid_out(x) for x in args
    ]
    if not any(apart):
        return None
    return [
        np.require(x, x.dtype.type, ("C", "A")) if copied else x
        for x, copied in zip(args, apart, strict=True)
    ]


def as_taken(
    inst: Instance, values: Sequence[Value], args: Sequence[Any]
) -> list[Any] | None:
    """The arguments, one for each leaf, with arrays as the instance takes them. None if they are
    that already, or if one cannot be."""
    out: list[Any] = []
    if any(x is not None for v in values for x in (v.said, v.offsets, v.column)):
        return None
    for v, leaf, x in zip(values, inst.signature.inputs, args, strict=True):
        try:
            out.append(converted(v, inst.dtype(leaf)) if leaf.shape else x)
        except Exception:  # explained where the call is checked
            return None
    return out if any(a is not x for a, x in zip(out, args, strict=True)) else None


def _is_laid_out(x: Array) -> bool:
    return x.flags.c_contiguous and x.flags.aligned and x.dtype.isnative


def converted(v: Value, dtype: DType) -> Array:
    """The argument in the dtype the kernel takes: itself if it is well laid out, else a copy."""
    target = np.dtype(dtype.value)
    if v.said is not None:
        return np.zeros(v.array.shape, target)
    if v.array.size == 0 and v.array.dtype != target and (v.weak or v.dtype is DType.F64):
        # NumPy's, whatever it is to hold
        return np.empty(v.array.shape, target)
    if not holds(dtype, v.dtype) and not (v.weak and _python_fits(v, dtype)):
        raise _refused(v, dtype)
    with np.errstate(over="ignore"):  # a scalar is rounded as a literal is
        return np.require(v.array, target, ("C", "A"))


def _refused(v: Value, dtype: DType) -> TypeError:
    """Why an argument is not taken, and what to write if it is meant."""
    own, target = v.array.dtype.newbyteorder("="), np.dtype(dtype.value)
    if not v.weak:
        conversion = f".astype(np.{target})"
    elif dtype is DType.BOOL:
        conversion = "bool(…)"
    else:
        conversion = "float(…)" if dtype.is_float else "int(…)"
    if DType.BOOL in (dtype, v.dtype):
        return TypeError(f"{v.where} is {own}, but it must be {target}; {conversion} makes it one")
    if not v.weak:
        return TypeError(
            f"{v.where} is {own}, which would lose information as {target}; "
            f"convert it with {conversion} if that is meant"
        )
    broken = np.argwhere(v.array != np.trunc(v.array))
    if not len(broken):
        return TypeError(
            f"{v.where} is made of floats, but it must be whole ({target}): "
            "write 1 for 1.0, or int(…)"
        )
    where, number = _place(v, broken[0]), float(v.array[tuple(broken[0])])
    hint = "; round(…) makes a whole number of it" if np.isfinite(number) else ""
    return TypeError(f"{where} is {number}, but it must be whole ({target}){hint}")


def _place(v: Value, position: Sequence[int]) -> str:
    """What messages call an element of an argument."""
    at = [int(k) for k in position]
    if v.column is not None and at:
        return v.column.name(v.where, *at)
    return v.where + "".join(f"[{k}]" for k in at)


def _python_fits(v: Value, dtype: DType) -> bool:
    """Python's numbers have no size: an int goes where it fits, a float into any float."""
    if DType.BOOL in (v.dtype, dtype):
        return False
    if dtype.is_float:
        if dtype is DType.F32 and v.array.ndim:
            _check_singles(v)
        return True
    if v.dtype.is_float:
        return False
    limits = np.iinfo(dtype.value)
    least, most = int(v.array.min()), int(v.array.max())
    if least < limits.min or most > limits.max:
        wrong = least if least < limits.min else most
        where = _place(v, np.argwhere(v.array == wrong)[0])
        raise OverflowError(f"{where} is {wrong}, which does not fit in {dtype.value}")
    return True


def _check_singles(v: Value) -> None:
    """Raise OverflowError for the first number of a list that single precision does not have: a
    float beyond its largest, or an integer between two of its own."""
    with np.errstate(over="ignore"):
        single = v.array.astype(np.float32)
    if v.dtype.is_float:
        wrong = np.argwhere(np.isinf(single) & np.isfinite(v.array))
    else:
        beyond = np.argwhere((v.array > _EXACT) | (v.array < -_EXACT))
        wrong = np.array([k for k in beyond if int(single[*k]) != int(v.array[*k])])
    if len(wrong):
        number = v.array[*wrong[0]].item()
        hint = "" if v.dtype.is_float else "; float(…) rounds it"
        where = _place(v, wrong[0])
        raise OverflowError(f"{where} is {number}, which does not fit in float32{hint}")


_EXACT = 1 << 24
"""Up to here single precision has every integer."""


def is_floating(sig: Signature, leaf: Leaf) -> bool:
    if isinstance(leaf.dtype, int):
        return chooses_precision(sig.types[leaf.dtype])
    return leaf.dtype.is_float


def chooses_precision(slot: TypeSlot) -> bool:
    return slot.precision or slot.interface == "Floating"
