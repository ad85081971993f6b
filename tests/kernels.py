"""Loops programs built by hand, compiled and run: what the back end's tests share."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from naperian.backends.emit import emit
from naperian.backends.kernel import Kernel, Library, link, load, object_code
from naperian.backends.llvm import compile_ir
from naperian.backends.products.contract import contract_module
from naperian.backends.runtime import run, runtime
from naperian.backends.target import Target
from naperian.dtypes import FLOATS, DType
from naperian.loops.syntax import (
    Apply,
    Buffer,
    Expr,
    Load,
    Loop,
    Order,
    Program,
    Role,
    Store,
)
from naperian.names import Var
from naperian.prims import PRIMITIVES
from naperian.sizes import ZERO, Size, evaluate, size, variables

_kernels: dict[tuple[str, Target | None], Kernel] = {}


class Failed(Exception):
    """A kernel's status, and the values it wrote."""


@cache
def products(dtype: DType, target: Target | None = None) -> Library:
    """The contraction kernel."""
    image = object_code(contract_module(dtype, target), target)
    return link(image, (f"nap_contract_f{dtype.bits}",), runtime().services)


def kernel(program: Program, target: Target | None = None) -> Kernel:
    text = emit(program, target)
    if (text, target) not in _kernels:
        needs = tuple(products(d, target) for d in FLOATS if f"@nap_contract_f{d.bits}(" in text)
        _kernels[text, target] = load(
            compile_ir(text, target), runtime().services, needs, target
        )
    return _kernels[text, target]


def call(
    program: Program,
    args: Sequence[Any],
    sizes: Sequence[int] | None = None,
    target: Target | None = None,
) -> Any:
    """The results, alone or as a list; `sizes` as far as the arguments' shapes do not say."""
    known: dict[Var, int] = dict(zip(program.sizes, sizes, strict=True)) if sizes else {}
    given = iter(args)
    pointers, bits, results, keep = [], [], [], []
    for b in program.buffers:
        if b.role is Role.IN:
            a = np.asarray(next(given), b.dtype.value, order="C")
            for extent, n in zip(b.shape, a.shape, strict=True):
                v = extent.single
                if isinstance(v, Var):
                    known.setdefault(v, n)
        else:
            shape = [evaluate(e, lambda a: known[a]) for e in b.shape]  # type: ignore[index]
            a = np.full(shape, 99, b.dtype.value)
            results.append(a)
        keep.append(a)
        pointers.append(a.ctypes.data)
        word = a.tobytes()[:8].ljust(8, b"\0") if not b.shape else bytes(8)
        bits.append(int.from_bytes(word, "little"))
    numbers = [known[v] for v in program.sizes]
    error = (ctypes.c_int64 * 4)()
    status = run(
        kernel(program, target),
        (ctypes.c_int64 * max(1, len(numbers)))(*numbers),
        (ctypes.c_void_p * max(1, len(pointers)))(*pointers),
        (ctypes.c_uint64 * max(1, len(bits)))(*bits),
        error,
        release=True,
    )
    if status:
        raise Failed(status, list(error))
    return results[0] if len(results) == 1 else results


def loop(
    v: Var, high: Size | Var | int, *body: Any, order: Order = Order.FREE, **more: Any
) -> Loop:
    return Loop(v, ZERO, size(high), tuple(body), order, **more)


def op(name: str, *args: Expr, dtype: DType = DType.F64, operand: DType | None = None) -> Apply:
    return Apply(name, args, dtype, operand or dtype)


def at(v: Var, *indices: Size | Var | int) -> Load:
    return Load(v, tuple(size(i) for i in indices))


def put(v: Var, indices: Sequence[Size | Var | int], value: Expr) -> Store:
    return Store(v, tuple(size(i) for i in indices), value)


def array(
    name: str, *shape: Size | Var | int, dtype: DType = DType.F64, out: bool = False
) -> Buffer:
    return Buffer(Var(name), dtype, tuple(size(n) for n in shape), Role.OUT if out else Role.IN)


def program(buffers: Sequence[Buffer], *body: Any) -> Program:
    sizes: dict[Var, None] = {}
    for b in buffers:
        for extent in b.shape:
            sizes |= dict.fromkeys(variables(extent))
    return Program("test", tuple(sizes), tuple(buffers), tuple(body))


_applied: dict[tuple[str, DType, DType | None], Program] = {}


def apply(name: str, dtype: DType, to: DType | None = None) -> Program:
    """y[i] = name(x[i], …) over a vector, in parallel."""
    if (name, dtype, to) not in _applied:
        arity = PRIMITIVES[name].arity if name in PRIMITIVES else 1
        result = to or PRIMITIVES[name].result(dtype)
        n, i = Var("n"), Var("i")
        xs = [array(f"x{k}", n, dtype=dtype) for k in range(arity)]
        y = array("y", n, dtype=result, out=True)
        value = op(name, *(at(x.var, i) for x in xs), dtype=result, operand=dtype)
        body = loop(i, n, put(y.var, [i], value), order=Order.PARALLEL)
        _applied[name, dtype, to] = program([*xs, y], body)
    return _applied[name, dtype, to]
