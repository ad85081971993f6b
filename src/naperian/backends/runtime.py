"""The run time of this process: the services kernels call, and the number of threads.

`runtime()` compiles or loads it once and keeps it to the end of the process, because threads
may be inside it at any moment.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from naperian.backends.cache import shared
from naperian.backends.entries import entry
from naperian.backends.entries.entry_ir import entry_ir
from naperian.backends.kernel import (
    Kernel,
    Library,
    link,
    object_code,
    object_codes,
    object_name,
)
from naperian.backends.llvm import AS_WRITTEN, compile_ir
from naperian.backends.orders.calls import Row
from naperian.backends.services.pool import pool_ir
from naperian.backends.services.regions import SUMMED
from naperian.backends.services.threads import has_threads
from naperian.dtypes import DType
from naperian.late import late

if TYPE_CHECKING:
    from naperian.backends.orders import rows
    from naperian.backends.products import contract
else:
    rows = late("naperian.backends.orders.rows")
    contract = late("naperian.backends.products.contract")

_SERVICES = (
    "nap_parallel", "nap_parts", "nap_poll", "nap_alloc", "nap_free",
    "nap_run", "nap_grain", "nap_zero", "nap_merge", "nap_times", "nap_report",
    *(f"nap_merge_add_{t}" for t in SUMMED),
)  # fmt: skip
_CONTROLS = ("nap_set_threads", "nap_forked", "nap_workers")
_PYTHON = (
    "PyGILState_Check", "PyGILState_Ensure", "PyGILState_Release", "PyErr_CheckSignals",
    "PyEval_SaveThread", "PyEval_RestoreThread",
)  # fmt: skip
_POINTER = ctypes.c_void_p
_CALL = ctypes.PYFUNCTYPE(
    ctypes.c_int64, _POINTER, _POINTER, _POINTER, _POINTER, _POINTER, ctypes.c_int64
)


Listener = Callable[[int, list[int]], None]
"""Takes what a kernel prints: the number of the line that is complete now, or 0, and words."""

STOPPED = -4  # a kernel's answer when its listener raised something

_hearing = threading.local()  # who listens to this thread, and what that raised


def _heard(code: int, count: int, words: Any) -> int:
    """`nap_print`: what is printed is printed in order, by the thread that called the kernel."""
    try:
        _hearing.listener(code, words[:count])
    except BaseException as error:  # told when the kernel has left
        _hearing.error = error
        return STOPPED
    return 0


_PRINT = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64)
)(_heard)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Runtime:
    """`services` are the symbols a kernel imports."""

    services: dict[str, int]
    pool: Library
    entries: Library | None  # None where objects are laid out otherwise, or NAPERIAN_ENTRY=ctypes
    empty: entry.Empty  # makes arrays for results

    def set_threads(self, n: int) -> None:
        """How many threads a region may use, the caller's among them."""
        _control(self.pool, "nap_set_threads", ctypes.c_int, ctypes.c_uint64)(n, _main_thread())

    def workers(self) -> int:
        """How many threads the pool has started."""
        started: int = ctypes.CFUNCTYPE(ctypes.c_int)(self.pool.symbols["nap_workers"])()
        return started

    def forked(self) -> None:
        """In the child of a fork: the pool's threads are gone; start anew when needed."""
        _control(self.pool, "nap_forked", ctypes.c_uint64)(_main_thread())


def _control(library: Library, name: str, *types: Any) -> Any:
    return ctypes.CFUNCTYPE(None, *types)(library.symbols[name])


def _main_thread() -> int:
    return threading.main_thread().ident or 0


_starting = threading.Lock()
_threads: int | None = None  # what `threads` was told


def runtime() -> Runtime:
    """The run time, started now if it is not there yet."""
    with _starting:
        return _runtime()


@cache
def _runtime() -> Runtime:
    python = {name: entry.address_of(name) for name in _PYTHON}
    process = ctypes.CDLL(None) if sys.platform != "win32" else ctypes.cdll.msvcrt
    imports = python | {name: _function(process, name) for name in ("malloc", "free")}
    native = os.environ.get("NAPERIAN_ENTRY") != "ctypes" and entry.layout_holds()
    modules = [AS_WRITTEN + pool_ir(), *([entry_ir()] if native else [])]
    images = object_codes(modules, processors())
    pool = link(images[0], (*_SERVICES, *_CONTROLS), imports)
    entries = None
    empty: entry.Empty = np.empty
    if native:
        exports = ("nap_entry", "nap_call", "nap_allocator", "nap_capsule")
        imported = entry.imports() | {"nap_free": pool.symbols["nap_free"]}
        entries = link(images[1], exports, imported)
        empty = entry.keep_large_results(entries)
    services = {name: pool.symbols[name] for name in _SERVICES}
    services["nap_print"] = ctypes.cast(_PRINT, ctypes.c_void_p).value or 0
    made = Runtime(services, pool, entries, empty)
    # never unloaded, not even while the interpreter ends
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    made.set_threads(_threads or default_threads())
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=made.forked)
    return made


@cache
def in_order(row: Row, compiler: str) -> Library:
    """A row in order, compiled or loaded once. It is kept under the compiler's name: the text alone
    takes longer to write than the code to load."""
    name = object_name(f"{compiler} {row.symbol}")
    image = shared().fetch(name, "o", lambda: compile_ir(rows.row_module(row)))
    return link(image, (row.symbol,), runtime().services)


@cache
def contraction(dtype: DType) -> Library:
    """The matrix product of a floating type, compiled or loaded once."""
    image = object_code(contract.contract_module(dtype))
    return link(image, (f"nap_contract_f{dtype.bits}",), runtime().services)


def _function(library: ctypes.CDLL, name: str) -> int:
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert address is not None
    return address


def default_threads() -> int:
    """`NAPERIAN_THREADS`, else the processors this process may use."""
    chosen = os.environ.get("NAPERIAN_THREADS", "")
    if chosen:
        if not chosen.isdecimal() or int(chosen) < 1:
            raise ValueError(f"NAPERIAN_THREADS is a number of threads from 1, not {chosen!r}")
        return int(chosen)
    return _available()


def _available() -> int:
    """The processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processors() -> int:
    """How many threads may work at the same time: as many as were chosen, if there are so many."""
    return min(_threads or default_threads(), _available())


def threads(n: int | None = None) -> int:
    """Use at most `n` threads from now on; answers how many are used now."""
    global _threads
    if n is not None:
        if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= 1024:
            raise ValueError(f"the number of threads is from 1 to 1024, not {n!r}")
        with _starting:
            _threads = n
            if _runtime.cache_info().currsize:
                _runtime().set_threads(n)
    if not has_threads():
        return 1
    return _threads or default_threads()


def free(address: int) -> None:
    """Give back memory that a kernel made for a result; 0 is none."""
    ctypes.PYFUNCTYPE(None, _POINTER)(runtime().services["nap_free"])(address)


def run(
    kernel: Kernel, sizes: Any, buffers: Any, scalars: Any, error: Any, release: bool
) -> int:
    """Call a kernel through ctypes; the arguments are ctypes arrays. Raises what a signal handler
    raised (`KeyboardInterrupt`) if that stopped the run."""
    entries = runtime().entries
    if entries is not None:
        code: int = _CALL(entries.symbols["nap_call"])(
            kernel.address, sizes, buffers, scalars, error, release
        )
        return code
    direct = ctypes.PYFUNCTYPE(ctypes.c_int64, _POINTER, _POINTER, _POINTER, _POINTER)
    code = direct(kernel.address)(sizes, buffers, scalars, error)
    return code


def run_aloud(
    kernel: Kernel, listener: Listener, sizes: Any, buffers: Any, scalars: Any, error: Any,
    release: bool,
) -> int:
    """`run`, with somebody who takes what is printed; raises what that raises."""
    outer = getattr(_hearing, "listener", None)
    _hearing.listener, _hearing.error = listener, None
    try:
        code = run(kernel, sizes, buffers, scalars, error, release)
        raised: BaseException | None = _hearing.error
    finally:
        _hearing.listener, _hearing.error = outer, None
    if raised is not None:
        raise raised
    return code
