"""The fast way in: one native function that Python calls for every compiled function.

    PyObject *nap_entry(self, args, nargs, names)          METH_FASTCALL | METH_KEYWORDS

It is compiled once and driven by a table. `self` is the tuple (table, slow, fail, kernel): the
table says what the arguments must be, how their shapes give the sizes and what results to make.
An argument that is not exactly as expected (its type, dtype, number of axes, layout, size or
element range) is no error: then `slow` is called with the same arguments, and it converts or
explains. `fail(code, v0, v1, v2, v3)` raises what a failed run means.

The table is a string of 64-bit words:

    nargs kernel
    arguments   nargs × (kind | ARRAY descriptor axes)
    steps       n, n × (argument axis slot (poly | factor rest))       slot -1: the axis is poly
    facts       n, n × poly                                           not negative
    bounds      n, n × (argument what low high)                       of index values
    order       n, n × slot                                           the sizes the kernel takes
    results     n, form, n × (kind | ARRAY type descriptor axes poly…)
    poly        terms × (coefficient factors slot…), counted

Objects are read at the offsets of CPython's and NumPy's public structures; `layout_holds` tries
them all out, and where they do not hold this way in is not used.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any, TypeAlias

import numpy as np

from naperian.backends.entry_ir import (
    ARRAY,
    BOOL,
    BYTES,
    DATA,
    DESCR,
    DIMS,
    DOUBLE,
    ELEMENTS,
    EMPTY,
    FLAGS,
    FLOAT,
    FLOAT_ONLY,
    INT,
    ITEMS,
    LENGTH,
    MOST,
    ND,
    OB_TYPE,
    PYTHON,
    SCALAR,
    SINGLE,
    SINGLE_ARRAY,
    SINGLE_ONLY,
    SINGLE_RESULT,
    TUPLE,
    WELL,
)
from naperian.backends.kernel import Kernel, Library
from naperian.backends.large import LARGE, has_large
from naperian.dtypes import DType
from naperian.signature import Bind, Equal, Given, Instance, Leaf, Search
from naperian.sizes import Size

_SCALARS = {DType.F64: FLOAT, DType.F32: SINGLE, DType.I64: INT, DType.BOOL: BOOL}
# in NumPy's table of functions
_ARRAY_TYPE, _ARRAY_NEW, _ARRAY_SCALAR, _SET_HANDLER, _GET_HANDLER = 2, 93, 60, 304, 305
_HANDLER = b"mem_handler"  # what NumPy calls the capsules of allocators


class _NoTableError(Exception):
    """The instance has something only the slow way knows."""


def table(instance: Instance, kernel: Kernel) -> bytes | None:
    """The table of an instance, or None if calls must go the slow way."""
    sig = instance.signature
    flat = sig.result if isinstance(sig.result, tuple) else (sig.result,)
    plain = [p.form for p in sig.params] == list(range(len(sig.inputs)))
    if not plain or list(flat) != list(range(len(sig.outputs))) or sig.implicit or sig.refusal:
        return None
    if instance.lines:
        return None
    if max(len(sig.inputs), len(sig.outputs), len(sig.slots)) > MOST:
        return None
    try:
        words = [len(sig.inputs), kernel.address]
        for leaf in sig.inputs:
            words += _argument(instance, leaf)
        words.append(len(sig.plan))
        for step in sig.plan:
            match step:
                case Bind(argument, axis, slot, factor, rest):
                    words += [argument, axis, slot, *_poly(factor), *_poly(rest)]
                case Equal(argument, axis, size):
                    words += [argument, axis, -1, *_poly(size)]
                case Search() | Given():
                    return None
        words.append(len(sig.facts))
        for size, _ in sig.facts:
            words += _poly(size)
        bounded = [(k, x) for k, x in enumerate(sig.inputs) if x.high is not None]
        words.append(len(bounded))
        for k, leaf in bounded:
            assert leaf.low is not None
            assert leaf.high is not None
            kind = EMPTY if k in instance.checked else SCALAR if not leaf.shape else ELEMENTS
            words += [k, kind, *_poly(leaf.low), *_poly(leaf.high)]
        words += [len(instance.order), *instance.order]
        form = TUPLE if isinstance(sig.result, tuple) else SINGLE_RESULT
        if form == SINGLE_RESULT and sig.outputs[0].shape:
            form = SINGLE_RESULT if any(p.name == "out" for p in sig.params) else SINGLE_ARRAY
        words += [len(sig.outputs), form]
        for leaf in sig.outputs:
            words += _result(instance, leaf)
    except _NoTableError:
        return None
    return struct.pack(f"{len(words)}q", *words)


def _argument(instance: Instance, leaf: Leaf) -> list[int]:
    dtype = instance.dtype(leaf)
    if any(leaf.rows):
        raise _NoTableError
    if leaf.shape:
        return [ARRAY, id(np.dtype(dtype.value)), len(leaf.shape)]
    if dtype not in _SCALARS or leaf.members:
        raise _NoTableError
    if not isinstance(leaf.dtype, int):
        return [_SCALARS[dtype]]
    # a Python number has no precision of its own: it fits the instance that the arrays choose
    slot = leaf.dtype
    chosen = any(x.dtype == slot and x.shape for x in instance.signature.inputs)
    if dtype is DType.F32:
        if not chosen:
            raise _NoTableError
        return [SINGLE if instance.signature.types[slot].precision else SINGLE_ONLY]
    if dtype is DType.F64 and not instance.signature.types[slot].precision:
        return [FLOAT_ONLY]
    return [_SCALARS[dtype]]


def _result(instance: Instance, leaf: Leaf) -> list[int]:
    dtype = instance.dtype(leaf)
    if any(leaf.rows):
        raise _NoTableError
    if leaf.shape:
        words = [ARRAY, (kind := np.dtype(dtype.value)).num, id(kind), len(leaf.shape)]
        for s in leaf.shape:
            words += _poly(s)
        return words
    if dtype not in _SCALARS:
        raise _NoTableError
    return [_SCALARS[dtype]]


def _poly(s: Size) -> list[int]:
    words = [len(s.terms)]
    for monomial, c in s.terms:
        words += [c, len(monomial)]
        for a in monomial:
            if not isinstance(a, int):
                raise _NoTableError
            words.append(a)
    return words


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@cache
def _method(address: int) -> _Method:
    return _Method(b"call", address, 0x0080 | 0x0002, None)  # METH_FASTCALL | METH_KEYWORDS


def entry(
    library: Library,
    words: bytes,
    slow: Callable[..., Any],
    fail: Callable[..., Any],
    kernel: Kernel,
) -> Callable[..., Any]:
    """A built-in function that runs the kernel, or `slow` where the table does not fit. It keeps
    all of these alive."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    method = _method(library.symbols["nap_entry"])
    made: Callable[..., Any] = make(ctypes.addressof(method), (words, slow, fail, kernel), None)
    return made


def imports() -> dict[str, int]:
    """The addresses of what the entry uses of Python and NumPy."""
    found = {name: address_of(name) for name in PYTHON}
    found |= {f"nap_{t.__name__}": id(t) for t in (np.float64, np.float32, np.int64)}
    found |= {"nap_true": id(np.True_), "nap_false": id(np.False_)}
    found["nap_single"] = id(np.dtype("float32"))
    found["nap_out"] = id(sys.intern("out"))
    return found | _numpy_functions()


def address_of(name: str) -> int:
    return ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, name))


def _numpy_functions() -> dict[str, int]:
    core: Any = getattr(np, "_core", None) or np.core
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype = ctypes.c_void_p
    get.argtypes = (ctypes.py_object, ctypes.c_char_p)
    functions = ctypes.cast(
        get(core._multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p)
    )
    numbers = {
        "PyArray_Type": _ARRAY_TYPE, "PyArray_New": _ARRAY_NEW, "PyArray_Scalar": _ARRAY_SCALAR,
        "PyDataMem_SetHandler": _SET_HANDLER, "PyDataMem_GetHandler": _GET_HANDLER,
    }  # fmt: skip
    return {name: functions[k] or 0 for name, k in numbers.items()}


Empty: TypeAlias = Callable[[tuple[int, ...], np.dtype[Any]], Any]  # makes an array


def keep_large_results(library: Library) -> Empty:
    """Let large results have the library's allocator, if NumPy knows of such: those of calls that
    the entry makes, and those made by the function that is returned."""
    functions = _numpy_functions()
    current = ctypes.PYFUNCTYPE(ctypes.py_object)(functions["PyDataMem_GetHandler"])()
    valid = ctypes.pythonapi.PyCapsule_IsValid
    valid.argtypes = (ctypes.py_object, ctypes.c_char_p)
    if has_large() and valid(current, _HANDLER):
        make = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
        )(address_of("PyCapsule_New"))  # fmt: skip
        capsule = make(library.symbols["nap_allocator"], _HANDLER, None)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(capsule))  # there may be arrays to the end
        place = ctypes.c_void_p.from_address(library.symbols["nap_capsule"])
        place.value = id(capsule)
        use = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(
            functions["PyDataMem_SetHandler"]
        )

        def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
            if prod(shape) < LARGE:
                return np.empty(shape, dtype)
            before = use(capsule)
            try:
                return np.empty(shape, dtype)
            finally:
                use(before)

        return empty
    return np.empty


@cache
def layout_holds() -> bool:
    """Whether objects are laid out as the entry reads them."""
    if "free-threading" in sys.version or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    try:
        functions = _numpy_functions()
    except (AttributeError, ValueError):
        return False
    a = np.zeros((3, 5), np.int32)
    at, data, pair, number = id(a), b"abcdefgh", (a, "b"), 2.5
    return (
        functions["PyArray_Type"] == id(np.ndarray)
        and _word(at + OB_TYPE) == id(np.ndarray)
        and _word(at + DATA) == a.ctypes.data
        and _word(at + ND) & 0xFFFFFFFF == 2
        and (_word(_word(at + DIMS)), _word(_word(at + DIMS) + 8)) == (3, 5)
        and _word(at + DESCR) == id(np.dtype("int32"))
        and _word(at + FLAGS) & WELL == WELL
        and _word(id(a.T) + FLAGS) & WELL == 0x0100
        and ctypes.string_at(id(data) + BYTES, 8) == data
        and _word(id(pair) + LENGTH) == 2
        and (_word(id(pair) + ITEMS), _word(id(pair) + ITEMS + 8)) == (id(a), id(pair[1]))
        and _double(id(number) + DOUBLE) == number
        and _double(id(scalar := np.float64(1.5)) + DOUBLE) == scalar
        and ctypes.c_float.from_address(id(single := np.float32(1.5)) + DOUBLE).value == single
        and _word(id(whole := np.int64(15)) + DOUBLE) == whole
    )


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _double(address: int) -> float:
    return ctypes.c_double.from_address(address).value
