"""Functions of a library that `nap build` made, from Python: NumPy and nothing else.

A wheel of precompiled kernels holds this file, the library and its manifest; `functions` reads the
manifest. Arrays are taken as they are if they are contiguous and of the right dtype, converted if
nothing is lost, and refused otherwise; sizes are bound from shapes.
"""

import ctypes
import inspect
import json
import operator
import platform
from collections.abc import Callable
from keyword import iskeyword
from pathlib import Path
from typing import Any

import numpy as np

_C: dict[str, Any] = {
    "float64": ctypes.c_double, "float32": ctypes.c_float, "bool": ctypes.c_bool,
    "int8": ctypes.c_int8, "int16": ctypes.c_int16, "int32": ctypes.c_int32,
    "int64": ctypes.c_int64, "uint8": ctypes.c_uint8, "uint16": ctypes.c_uint16,
    "uint32": ctypes.c_uint32, "uint64": ctypes.c_uint64,
}  # fmt: skip


def functions(folder: Path) -> dict[str, Callable[..., Any]]:
    """Every function of the library in a folder, and `set_threads`. Raises ImportError where the
    processor lacks what the library was compiled for."""
    manifest = json.loads(folder.joinpath("manifest.json").read_text())
    _check_processor(manifest["target"])
    library = ctypes.CDLL(str(folder / manifest["library"]))
    message = library[f"{manifest['name']}_message"]
    message.restype, message.argtypes = ctypes.c_char_p, [ctypes.c_int64]
    free = library[f"{manifest['name']}_free"]
    free.argtypes = [ctypes.c_void_p]
    made = {f["name"]: _function(library, f, message, free) for f in manifest["functions"]}
    return made | {"set_threads": library[f"{manifest['name']}_set_threads"]}


def _check_processor(target: dict[str, Any]) -> None:
    cpuinfo = Path("/proc/cpuinfo")
    if platform.machine() not in target["machines"]:
        raise ImportError(f"this library is for {target['machines'][0]}, "
                          f"and this machine is {platform.machine()}")  # fmt: skip
    if target["needs"] and cpuinfo.exists():
        flags = set(cpuinfo.read_text().partition("flags")[2].partition("\n")[0].split())
        if missing := [x for x in target["needs"] if x not in flags]:
            raise ImportError(f"this library needs a processor with {', '.join(missing)}; build it "
                              "with --target baseline")  # fmt: skip


def _function(library: Any, f: dict[str, Any], message: Any, free: Any) -> Callable[..., Any]:
    native = library[f["symbol"]]
    native.restype = ctypes.c_int64

    names = [_named(p["name"]) for p in f["inputs"]]
    kind, by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, kind) for name in names]
    implicit = [inspect.Parameter(_named(name), by_name) for name in f["implicit"]]
    signature = inspect.Signature([*parameters, *implicit])

    def call(*args: Any, **named: Any) -> Any:
        try:
            bound = signature.bind(*args, **named)
        except TypeError as unfit:
            raise TypeError(f"{f['name']}{signature}: {unfit}") from None
        arrays = [_array(p, a) for p, a in zip(f["inputs"], bound.args, strict=True)]
        sizes = {s: operator.index(bound.kwargs[_named(s)]) for s in f["implicit"]}
        sizes |= _sizes(f, arrays, sizes)
        for p, a in zip(f["inputs"], arrays, strict=True):
            wanted = tuple(max(0, _value(s, sizes)) for s in p["shape"])
            if a.shape != wanted:
                raise ValueError(f"{p['name']} has shape {a.shape}, but it must be {wanted}")
        outs = [_result(p, sizes) for p in f["outputs"]]
        error = (ctypes.c_int64 * 4)()
        words: list[Any] = [ctypes.c_int64(sizes[s]) for s in f["sizes"]]
        for p, a in zip(f["inputs"], arrays, strict=True):
            pointer = ctypes.c_void_p(a.ctypes.data)
            words.append(pointer if p["shape"] else _C[p["dtype"]](a.item()))
        words += [ctypes.c_void_p(o.ctypes.data) for o in outs]
        answer = native(*words, error)
        if answer:
            text = message(answer).decode().replace("{value}", str(error[0]))
            if answer == -4 and f["needs"]:
                known = ", ".join(f"{s} is {n}" for s, n in sizes.items())
                text = f"needs {', '.join(f['needs'])}, but {known}"
            elif answer == -4:
                text += f", `{f['type']}`"
            wrong = MemoryError if answer == -2 else ValueError if answer < 0 else RuntimeError
            raise wrong(f"{f['name']}(): {text.replace('{size}', str(error[1]))}")
        results = list(zip(f["outputs"], outs, strict=True))
        sizes |= {p["name"]: max(0, o.item()) for p, o in results if p["size"]}
        values = [_taken(p, o, sizes, free) if p["made"] else o if p["shape"] else o.item()
                  for p, o in results if not p["size"]]  # fmt: skip
        return tuple(values) if f["tuple"] else values[0]

    call.__name__ = call.__qualname__ = f["name"]
    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__doc__ = _doc(f)
    return call


def _named(name: str) -> str:
    return name + "_" * iskeyword(name)


def _doc(f: dict[str, Any]) -> str:
    """What a function does, and the arrays it takes and gives, with their shapes."""

    def lines(arrays: list[dict[str, Any]]) -> str:
        return "".join(f"\n    {p['name']}: {p['dtype']}{_shape(p['shape'])}" for p in arrays)

    said = f"\n\n{f['doc']}" if f["doc"] else ""
    results = [p for p in f["outputs"] if not p["size"]]
    return f"""{f["name"]} : {f["type"]}{said}

Takes{lines(f["inputs"])}
Returns{lines(results)}
"""


def _shape(axes: list[Any]) -> str:
    sizes = [" + ".join("*".join([str(c)] * (c != 1 or not names) + names) for c, names in axis)
             for axis in axes]  # fmt: skip
    return f" ({', '.join(sizes)})" if axes else ""


def _array(p: dict[str, Any], given: Any) -> Any:
    if hasattr(given, "mask"):
        raise TypeError(f"{p['name']} is a masked array; fill it first, as in x.filled(0)")
    array = np.asarray(given)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"{p['name']} is {type(given).__name__}: no number and no array")
    if array.ndim != len(p["shape"]):
        axes = "1 axis" if len(p["shape"]) == 1 else f"{len(p['shape'])} axes"
        raise ValueError(f"{p['name']} must have {axes}, not {array.ndim}")
    wanted = np.dtype(p["dtype"])
    if not _fits(array, wanted, not isinstance(given, np.ndarray | np.generic)):
        raise TypeError(f"{p['name']} is {array.dtype}, which would lose information as {wanted}")
    return np.require(array, wanted, ("C", "A"))


def _fits(array: Any, wanted: Any, weak: bool) -> bool:
    """Whether nothing is lost: Python's numbers have no size, an int goes where it fits."""
    if weak and array.size and array.dtype.kind in "iu" and wanted.kind in "iu":
        limits = np.iinfo(wanted)
        return bool(limits.min <= array.min() and array.max() <= limits.max)
    return not array.size or np.can_cast(array.dtype, wanted, "same_kind" if weak else "safe")


def _sizes(f: dict[str, Any], arrays: list[Any], said: dict[str, int]) -> dict[str, int]:
    sizes = dict(said)
    for step in f["plan"]:
        array = arrays[step["input"]]
        if "axis" not in step:
            sizes[step["slot"]] = int(array[()])
            continue
        factor = _value(step["factor"], sizes)
        above = array.shape[step["axis"]] - _value(step["rest"], sizes)
        if not factor or above % factor or above // factor < 0:
            name = f["inputs"][step["input"]]["name"]
            raise ValueError(f"{name}: axis {step['axis']} is {array.shape[step['axis']]}, which "
                             f"gives no {step['slot']}")  # fmt: skip
        sizes[step["slot"]] = above // factor
    return sizes


def _value(polynomial: list[Any], sizes: dict[str, int]) -> int:
    total = 0
    for coefficient, names in polynomial:
        for name in names:
            coefficient *= sizes[name]
        total += coefficient
    return total


def _taken(p: dict[str, Any], pointer: Any, sizes: dict[str, int], free: Any) -> Any:
    """A copy of what the call made, which is given back."""
    shape, dtype = tuple(max(0, _value(s, sizes)) for s in p["shape"]), np.dtype(p["dtype"])
    count = int(np.prod(shape)) * dtype.itemsize
    made = np.empty(shape, dtype)
    ctypes.memmove(made.ctypes.data, pointer.item(), count)
    free(pointer.item())
    return made


def _result(p: dict[str, Any], sizes: dict[str, int]) -> Any:
    """Memory for a result, or for the address of one that the call makes."""
    if p["made"]:
        return np.zeros((), np.uintp)
    return np.empty(tuple(max(0, _value(s, sizes)) for s in p["shape"]), p["dtype"])
