"""The fast way in: one native function that Python calls for every compiled function.

    PyObject *nap_entry(self, args, nargs, names)          METH_FASTCALL | METH_KEYWORDS

It is compiled once and driven by a table. `self` is the tuple (table, slow, fail, kept): the
table says what the arguments must be, how their shapes give the sizes and what results to make.
An argument that is not exactly as expected (its type, dtype, number of axes, layout, size or
element range) is no error: then `slow` is called with the same arguments, and it converts or
explains. `fail(code, v0, v1, v2, v3)` raises what a failed run means.

An argument is an array or a scalar: a leaf of a signature. Where arguments are made of several,
as structs are, what is called takes them apart before (`adapter`); then they have no names here.
Sizes that no shape gives come after them.

The table is a string of 64-bit words:

    inputs positional count kernel
    names       count × (name default)                                addresses of objects, or 0
    arguments   count × (kind | ARRAY descriptor bytes axes | SIZE slot)
    steps       n, n × (BIND argument axis slot factor rest | EQUAL argument axis poly
                        | GIVEN argument slot | SEARCH argument axis slot poly)
    facts       n, n × poly                                           not negative
    bounds      n, n × (argument what low high)                       of index values
    order       n, n × slot                                           the sizes the kernel takes
    results     n, form, hidden, n × (kind | ARRAY type descriptor bytes axes poly… | LATE
                | SIZE slot)                                          the hidden are not given
    late        n, n × (slot result)                                  sizes that the run finds
    made        for each LATE, type axes poly…                        what the kernel made
    poly        terms × (coefficient factors (slot | how poly poly)…), counted

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

from naperian.backends.entries.entry_ir import PYTHON
from naperian.backends.entries.entry_sizes import CLAMP, QUOTIENT, REMAINDER
from naperian.backends.entries.entry_words import (
    ARRAY,
    BIND,
    BOOL,
    BYTES,
    DATA,
    DESCR,
    DIMS,
    DOUBLE,
    ELEMENTS,
    EMPTY,
    EQUAL,
    FLAGS,
    FLOAT,
    FLOAT_ONLY,
    GIVEN,
    INT,
    INT_ONLY,
    ITEMS,
    LATE,
    LENGTH,
    MOST,
    NARROW,
    ND,
    OB_TYPE,
    SCALAR,
    SEARCH,
    SHORT,
    SIGNED,
    SINGLE,
    SINGLE_ARRAY,
    SINGLE_ONLY,
    SINGLE_RESULT,
    SIZE,
    TUPLE,
    WELL,
    WIDE,
    WORD,
)
from naperian.backends.kernel import Kernel, Library
from naperian.backends.services.large import LARGE, has_large
from naperian.dtypes import DType
from naperian.signature import (
    Bind,
    Constant,
    Equal,
    Form,
    Given,
    Instance,
    Leaf,
    Opened,
    Search,
    Signature,
    late_sizes,
    slots_of,
)
from naperian.sizes import Clamp, Quotient, Remainder, Size

_SCALARS = {DType.F64: FLOAT, DType.F32: SINGLE, DType.I64: INT, DType.BOOL: BOOL}
# in NumPy's table of functions
_ARRAY_TYPE, _ARRAY_NEW, _ARRAY_SCALAR, _SET_BASE = 2, 93, 60, 282
_SET_HANDLER, _GET_HANDLER = 304, 305
_HANDLER = b"mem_handler"  # what NumPy calls the capsules of allocators


class _NoTableError(Exception):
    """The instance has something only the slow way knows."""


def plain(sig: Signature) -> bool:
    """Whether every argument is a leaf, and so are the results: calls go straight to the entry."""
    hidden, result = _seen(sig)
    flat = result if isinstance(result, tuple) else (result,)
    return (
        all(isinstance(p.form, int) for p in sig.params)
        and list(flat) == list(range(hidden, len(sig.outputs)))
        and not any(leaf.rows and leaf.rows[0] for leaf in sig.outputs)
    )


def _seen(sig: Signature) -> tuple[int, Form]:
    """How many leaves come before what is given, sizes that the run finds; and what is given."""
    match sig.result:
        case Opened(sizes, result):
            return len(sizes), result
        case result:
            return 0, result


def told(sig: Signature) -> tuple[int, ...]:
    """The slots that say where the rows of results start; the entry gives them after the leaves."""
    rows = [n for leaf in sig.outputs for n in (leaf.rows[0] if leaf.rows else ())]
    return tuple(sorted({k for n in rows for k in slots_of(n) if k >= 0}))


def table(instance: Instance, kernel: Kernel) -> tuple[bytes, Any] | None:
    """The table of an instance, and the objects it has addresses of; None if calls must go the slow
    way."""
    sig = instance.signature
    if sig.refusal or instance.lines:
        return None
    given, also = len(sig.inputs), told(sig)
    count = given + len(sig.implicit)
    late = tuple(late_sizes(sig.result))
    if max(count, len(sig.outputs) + len(also), len(sig.slots) + len(late)) > MOST:
        return None
    if any(sig.late(sig.outputs[k]) for _, k in late) or any(k >= len(sig.slots) for k in also):
        return None
    names, defaults = _known(sig)
    try:
        words = [given, given if plain(sig) else count, count, kernel.address]
        for name, default in zip(names, defaults, strict=True):
            words += [id(name) if name else 0, id(default) if default is not None else 0]
        for leaf in sig.inputs:
            words += _argument(instance, leaf)
        for slot in sig.implicit:
            words += [SIZE, slot]
        words.append(len(sig.plan))
        for step in sig.plan:
            match step:
                case Bind(argument, axis, slot, factor, rest):
                    words += [BIND, argument, axis, slot, *_poly(factor), *_poly(rest)]
                case Equal(argument, axis, size):
                    words += [EQUAL, argument, axis, *_poly(size)]
                case Search(argument, axis, slot, size):
                    words += [SEARCH, argument, axis, slot, *_poly(size)]
                case Given(argument, slot):
                    words += [GIVEN, argument, slot]
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
        words += [len(sig.outputs) + len(also), _gives(sig), _seen(sig)[0] if plain(sig) else 0]
        for leaf in sig.outputs:
            words += _result(instance, leaf)
        for slot in also:
            words += [SIZE, slot]
        words.append(len(late))
        for pair in late:
            words += pair
        for leaf in sig.outputs:
            if sig.late(leaf):
                words += _made(instance, leaf)
    except _NoTableError:
        return None
    return struct.pack(f"{len(words)}q", *words), (names, defaults)


def _known(sig: Signature) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """What the arguments and sizes are called, and what they are if they are not given."""
    if not plain(sig):
        count = len(sig.inputs) + len(sig.implicit)
        return ("",) * count, (None,) * count
    names = (*(p.name for p in sig.params), *(sig.slots[k] for k in sig.implicit))
    values = (p.default.value if isinstance(p.default, Constant) else None for p in sig.params)
    return tuple(map(sys.intern, names)), (*values, *(None for _ in sig.implicit))


def _gives(sig: Signature) -> int:
    """What a call gives."""
    hidden, result = _seen(sig)
    if not plain(sig) or isinstance(result, tuple):
        return TUPLE
    leaf = sig.outputs[hidden]
    if leaf.shape and not sig.late(leaf) and all(p.name != "out" for p in sig.params):
        return SINGLE_ARRAY
    return SINGLE_RESULT


def _argument(instance: Instance, leaf: Leaf) -> list[int]:
    dtype = instance.dtype(leaf)
    if leaf.shape:
        return [ARRAY, id(kind := np.dtype(dtype.value)), kind.itemsize, len(leaf.shape)]
    if dtype.is_integer and dtype.bits < 64:
        if isinstance(leaf.dtype, int):
            raise _NoTableError
        low = -(1 << dtype.bits - 1) if dtype.is_signed else 0
        return [NARROW, low, low + (1 << dtype.bits) - 1]
    slot = leaf.dtype
    chosen = any(x.dtype == slot and x.shape for x in instance.signature.inputs)
    if dtype is DType.U64 and (chosen or not isinstance(slot, int)):
        return [NARROW, 0, (1 << 63) - 1]  # those from 2⁶³ on go the slow way
    if dtype not in _SCALARS:
        raise _NoTableError
    if not isinstance(slot, int):
        return [WIDE if dtype is DType.F64 else _SCALARS[dtype]]
    # a Python number has no precision of its own: it fits the instance that the arrays choose
    if dtype is DType.I64 and not chosen:
        return [INT_ONLY]
    if dtype is DType.F32:
        if not chosen:
            raise _NoTableError
        return [SINGLE if instance.signature.types[slot].precision else SINGLE_ONLY]
    if dtype is DType.F64 and not instance.signature.types[slot].precision:
        return [FLOAT_ONLY]
    if dtype is DType.F64 and chosen:
        return [WIDE]
    return [_SCALARS[dtype]]


def _result(instance: Instance, leaf: Leaf) -> list[int]:
    dtype = instance.dtype(leaf)
    if instance.signature.late(leaf):
        return [LATE]
    if leaf.shape:
        kind = np.dtype(dtype.value)
        words = [ARRAY, kind.num, id(kind), kind.itemsize, len(leaf.shape)]
        for s in leaf.shape:
            words += _poly(s)
        return words
    if dtype is DType.U64:
        return [WORD]
    if dtype.is_integer and dtype.bits < 64:
        return [SIGNED + dtype.bits if dtype.is_signed else INT]
    return [_SCALARS[dtype]]


def _made(instance: Instance, leaf: Leaf) -> list[int]:
    """An array in memory that the kernel made."""
    words = [np.dtype(instance.dtype(leaf).value).num, len(leaf.shape)]
    for s in leaf.shape:
        words += _poly(s)
    return words


def _poly(s: Size) -> list[int]:
    words = [len(s.terms)]
    for monomial, c in s.terms:
        words += [c, len(monomial)]
        for a in monomial:
            match a:
                case int():
                    words.append(a)
                case Quotient(x, y):
                    words += [QUOTIENT, *_poly(x), *_poly(y)]
                case Remainder(x, y):
                    words += [REMAINDER, *_poly(x), *_poly(y)]
                case Clamp(x, y):
                    words += [CLAMP, *_poly(x), *_poly(y)]
                case _:
                    raise _NoTableError
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
    kept: Any,
) -> Callable[..., Any]:
    """A built-in function that runs the kernel, or `slow` where the table does not fit. It keeps
    all of these alive, and what the table has addresses of."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    method = _method(library.symbols["nap_entry"])
    made: Callable[..., Any] = make(ctypes.addressof(method), (words, slow, fail, kept), None)
    return made


def imports() -> dict[str, int]:
    """The addresses of what the entry uses of Python and NumPy."""
    found = {name: address_of(name) for name in PYTHON}
    found |= {f"nap_{t.__name__}": id(t) for t in (np.float64, np.float32, np.int64)}
    found |= {f"nap_{name}": id(getattr(np, name)) for name in SHORT}
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
        "PyArray_SetBaseObject": _SET_BASE,
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
        and ctypes.c_int32.from_address(id(short := np.int32(-15)) + DOUBLE).value == short
        and ctypes.c_uint8.from_address(id(byte := np.uint8(250)) + DOUBLE).value == byte
    )


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _double(address: int) -> float:
    return ctypes.c_double.from_address(address).value
