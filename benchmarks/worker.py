"""Measures cases at one number of threads, in a process of its own; prints JSON lines.

The number of threads is set by the caller through the environment (`run.py`), before any library
starts its pool.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy_peers
from cases import CASES, Case
from timing import times

import naperian as nap

HERE = Path(__file__).parent
PEERS = ("gcc", "numpy", "numba", "jax", "torch")
GCC = ["gcc", "-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC"]
GCC += ["-nostartfiles"]  # one of them makes the thread that loads it take subnormals for zeros
_SINGLE = ["-DREAL=float", "-fsingle-precision-constant"]

Call = Callable[[], Any]


def naperian(case: Case, args: tuple[Any, ...]) -> Call:
    function = nap.load(str(HERE / "programs" / f"{case.program}.nap"))[case.definition]
    return lambda: function(*args)


def gcc(case: Case, args: tuple[Any, ...], like: Any) -> Call:
    """The C peer, compiled now; its result arrays are allocated in every call, as ours are."""
    single = any(getattr(a, "dtype", None) == np.float32 for a in args)
    real = ctypes.c_float if single else ctypes.c_double
    with tempfile.NamedTemporaryFile(suffix=".so", delete=False) as library:
        source = str(HERE / "peers" / f"{case.program}.c")
        command = [*GCC, *(_SINGLE if single else ()), source, "-o", library.name, "-lm"]
        subprocess.run(command, check=True)
    function = ctypes.CDLL(library.name)[case.function]
    Path(library.name).unlink()
    sizes = [ctypes.c_long(n) for n in case.sizes(*args)]
    inputs = [
        ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray)
        else ctypes.c_long(a) if isinstance(a, int)
        else real(a)
        for a in args
    ]  # fmt: skip
    outs = [np.asarray(x) for x in (like if isinstance(like, tuple) else (like,))]

    def call() -> Any:
        made = tuple(np.empty(o.shape, o.dtype) for o in outs)
        function(*sizes, *inputs, *(ctypes.c_void_p(o.ctypes.data) for o in made))
        return made if len(made) > 1 else made[0]

    return call


def numba(case: Case, args: tuple[Any, ...]) -> Call | None:
    import numba_peers

    function = getattr(numba_peers, case.function, None)
    return function and (lambda: function(*args))


def jax(case: Case, args: tuple[Any, ...]) -> Call | None:
    import jax_peers
    from jax import block_until_ready, jit, numpy

    peer = getattr(jax_peers, case.function, None)
    if peer is None:
        return None
    numbers = tuple(k for k, a in enumerate(args) if isinstance(a, int))
    function = jit(peer, static_argnums=numbers)
    there = tuple(numpy.asarray(a) if isinstance(a, np.ndarray) else a for a in args)
    return lambda: block_until_ready(function(*there))


def torch(case: Case, args: tuple[Any, ...]) -> Call | None:
    import torch_peers
    from torch import from_numpy

    function = getattr(torch_peers, case.function, None)
    there = tuple(
        from_numpy(a) if isinstance(a, np.ndarray)
        else float(a) if isinstance(a, np.float32)
        else a
        for a in args
    )  # fmt: skip
    return function and (lambda: function(*there))


def prepared(
    case: Case, args: tuple[Any, ...], peers: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """For every peer its thunk, what its first call takes more than a later one, and its result;
    why others are absent."""
    found: dict[str, Any] = {}
    absent: dict[str, Any] = {}
    reference = getattr(numpy_peers, case.function)
    makers: dict[str, Callable[[], Call | None]] = {
        "naperian": lambda: naperian(case, args),
        "numpy": lambda: lambda: reference(*args),
        "gcc": lambda: gcc(case, args, found["numpy"][2]),
        "numba": lambda: numba(case, args),
        "jax": lambda: jax(case, args),
        "torch": lambda: torch(case, args),
    }
    _lent(reference(*args))
    for name in ("naperian", "numpy", *(p for p in peers if p != "numpy")):
        if name == "naperian":
            _awake(case)
        start = time.perf_counter()
        try:
            thunk = makers[name]()
            if thunk is None:
                absent[name] = "has none"
                continue
            result = thunk()
        except (ImportError, OSError, subprocess.CalledProcessError) as e:
            absent[name] = f"{type(e).__name__}: {e}"
            continue
        first = time.perf_counter() - start
        found[name] = (thunk, max(0.0, first - _fresh(thunk)), result)
    return found, absent


def _awake(case: Case) -> None:
    """Compile another program, so that the compiler is in memory that the system has at hand. What
    was not touched while peers ran for some seconds comes back page by page, on a virtual machine
    for up to ten times what a short text takes, and that is not the compiler's time."""
    text = f"# before {case.name}\n{_OTHER}"  # one that no cache knows
    nap.compile(text).other(np.ones((2, 2)), 1)


_OTHER = """\
def other(x: Fin(n)=>Fin(m)=>Float, rounds: Int) -> Fin(n)=>Float:
    y = for i, j: x[i, clamp(j - 1)] * 0.5 + exp(x[i, j])
    z = [sum(y[i]) / max(y[i]) for i]
    loop s = z, k = 0 while k < rounds: ([s[clamp(i + 1)] + 1.0 for i], k + 1)
    [s[i] if s[i] > 0.0 else 0.0 for i]
"""


def _lent(result: Any) -> None:
    """Have the system lend what memory the first calls of a peer take: a virtual machine has pages
    only when they are first written, for 30 µs each, and would have them in one call or another."""
    leaves = result if isinstance(result, tuple | list) else (result,)
    kept = [np.array(x) for _ in range(_RESULTS) for x in leaves]
    del kept


_RESULTS = 5  # of one peer at a time: of the first call, and of `_fresh`


def _fresh(thunk: Call) -> float:
    """What a call takes that writes to new memory, as the first does: the least of three."""
    kept, took = [], []
    for _ in range(3):
        start = time.perf_counter()
        kept.append(thunk())
        took.append(time.perf_counter() - start)
    return min(took)


def agree(a: Any, b: Any, tolerance: float) -> bool:
    if isinstance(a, tuple | list):
        return all(agree(x, y, tolerance) for x, y in zip(a, b, strict=True))
    a, b = np.asarray(a), np.asarray(b)
    scale = max(1.0, float(np.abs(a).max())) if a.size else 1.0
    return a.shape == b.shape and bool(np.abs(a - b).max() <= tolerance * scale)


def measure(case: Case, seconds: float, peers: tuple[str, ...]) -> dict[str, Any]:
    args = case.data()
    found, absent = prepared(case, args, peers)
    reference = found["numpy"][2]
    wrong = [n for n, (_, _, r) in found.items() if not agree(reference, r, case.tolerance)]
    took, disturbed = times({n: f[0] for n, f in found.items()}, seconds)
    return {
        "case": case.name,
        "seconds": took,
        "disturbed": disturbed,
        "compiling": {n: f[1] for n, f in found.items()},
        "absent": absent,
        "wrong": wrong,
    }


def once() -> dict[str, float]:
    """What is compiled once for all programs and kept in the cache: LLVM's own start, the thread
    pool and the way in from Python; the kernels of contractions; elementary functions; rows in
    order."""
    ready = nap.compile("def ready(x: Float) = x + 1.0").ready
    product = nap.compile("def product(x: n=>k=>Float, y: k=>p=>Float) = x @ y").product
    functions = nap.compile(
        "def functions(x: n=>Float) = "
        "for i: exp(x[i]) + log(x[i]) + erf(x[i]) + tanh(x[i]) + x[i] ** 2.1 "
        "+ sin(x[i]) * cos(x[i])"
    ).functions
    ordered = nap.compile("def ordered(x: Fin(n)=>Float) = sort(x)").ordered
    took = {}
    for what, call in (
        ("run time", lambda: ready(1.0)),
        ("contraction F64", lambda: product(np.eye(2), np.eye(2))),
        ("contraction F32", lambda: product(np.eye(2, dtype="f"), np.eye(2, dtype="f"))),
        ("functions F64", lambda: functions(np.ones(2))),
        ("functions F32", lambda: functions(np.ones(2, "f"))),
        ("sort F64", lambda: ordered(np.ones(2))),
    ):
        start = time.perf_counter()
        call()
        took[what] = time.perf_counter() - start
    return took


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--seconds", type=float, default=1.0)
    options.add_argument("--only", nargs="*", default=[""], help="parts of the names of cases")
    options.add_argument("--peers", nargs="*", default=PEERS)
    chosen = options.parse_args()
    print(json.dumps({"once": once()}))
    for case in CASES:
        if any(part in case.name for part in chosen.only):
            print(json.dumps(measure(case, chosen.seconds, tuple(chosen.peers))))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
