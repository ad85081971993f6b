"""Object code in memory, ready to be called.

    i64 @kernel(ptr sizes, ptr buffers, ptr scalars, ptr error)

A `Library` is object code linked into this process with the symbols it imports; it keeps its
memory until it is collected. A `Kernel` is a library with the function above. Every library has
its own linker session (0.4 ms): sessions that share one keep a few kilobytes for every library
they ever had. The linker is LLVM's JITLink, which lays the sections of an object side by side; the
older one places each where there is room, and ends the process where that is too far away.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import TYPE_CHECKING

import llvmlite.binding as llvm

from naperian.backends.cache import key, shared
from naperian.backends.llvm import VERSION, compile_all, compile_ir
from naperian.backends.target import Target, host
from naperian.dtypes import DType
from naperian.late import late

if TYPE_CHECKING:
    from naperian.backends.functions import math
else:
    math = late("naperian.backends.functions.math")

ABI = "2"  # of kernels and of what they import; part of every key

_linking = threading.Lock()
_numbers = count()


@dataclass(frozen=True, slots=True, eq=False)
class Library:
    """Linked object code: the addresses of its exported symbols. The tracker holds the memory.
    `needs` are libraries whose code it calls; they live as long as it does."""

    symbols: Mapping[str, int]
    tracker: llvm.ResourceTracker = field(repr=False)
    needs: tuple[Library, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Kernel:
    """A compiled function: its address, and the library that keeps it there."""

    address: int
    library: Library


def object_name(ir: str, target: Target | None = None) -> str:
    """What the object file of a module is called in the cache."""
    machine = target or host()
    width = str(machine.vector_bytes)
    return key("object", ABI, VERSION, machine.triple, machine.cpu, machine.features, width, ir)


def object_code(ir: str, target: Target | None = None) -> bytes:
    """The object file of a module, from the cache or compiled now."""
    return shared().fetch(object_name(ir, target), "o", lambda: compile_ir(ir, target))


def object_codes(
    irs: Sequence[str], threads: int, target: Target | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> list[bytes]:
    """The object files of modules, from the cache or compiled now by so many threads, beside what
    is done `meanwhile`."""
    names = [object_name(ir, target) for ir in irs]
    known = {name: image for name in names if (image := shared().get(name, "o")) is not None}
    new = {name: ir for name, ir in zip(names, irs, strict=True) if name not in known}
    images = compile_all(list(new.values()), threads, target, meanwhile)
    for name, image in zip(new, images, strict=True):
        known[name] = image
        shared().put(name, "o", image)
    return [known[name] for name in names]


def link(
    image: bytes,
    exports: Iterable[str],
    imports: Mapping[str, int],
    needs: tuple[Library, ...] = (),
    more: Iterable[bytes] = (),
) -> Library:
    """Load an object file, together with `more`. Its undefined symbols are the exports of `needs`,
    `imports`, and what the process itself defines (the C library's `memset`, `memcpy`, …)."""
    names = tuple(exports)
    builder = llvm.JITLibraryBuilder().add_current_process()
    for part in (image, *more):
        builder.add_object_img(part)
    for name in names:
        builder.export_symbol(name)
    bound = dict(imports)
    for library in needs:
        bound.update(library.symbols)
    for name, address in bound.items():
        builder.import_symbol(name, address)
    with _linking:
        session = llvm.create_lljit_compiler(_machine(), use_jit_link=True, suppress_errors=True)
        tracker = builder.link(session, f"naperian{next(_numbers)}")
    return Library({name: tracker[name] for name in names}, tracker, needs)


def load(
    image: bytes,
    imports: Mapping[str, int],
    needs: tuple[Library, ...] = (),
    target: Target | None = None,
    more: Sequence[bytes] = (),
    threads: int = 1,
) -> Kernel:
    """A kernel from its object file, and more of them if it is in pieces, with the run time's
    symbols and the libraries it calls. The elementary functions that it calls come along; new ones
    are compiled by so many threads."""
    called = (text for one in (image, *more) for text in functions_of(one, target or host()))
    functions = _functions(tuple(dict.fromkeys(called)), threads, target)
    library = link(image, ("kernel",), imports, needs, (*more, *functions))
    return Kernel(library.symbols["kernel"], library)


_FUNCTION = re.compile(rb"nap_([a-z0-9]+)_(f32|f64)(?:_(\d+))?\0")


def functions_of(image: bytes, target: Target) -> list[str]:
    """The modules of the elementary functions that an object file calls."""
    found = {(name.decode(), _FLOATS[kind], int(lanes or 1))
             for name, kind, lanes in _FUNCTION.findall(image) if name != b"contract"}  # fmt: skip
    return [math.module(*f, target) for f in sorted(found, key=repr)]


_FLOATS = {b"f32": DType.F32, b"f64": DType.F64}


def _functions(irs: Sequence[str], threads: int, target: Target | None) -> list[bytes]:
    """The object code of elementary functions."""
    new = [ir for ir in irs if (ir, target) not in _known]
    for ir, image in zip(new, object_codes(new, threads, target), strict=True):
        _known[ir, target] = image
    return [_known[ir, target] for ir in irs]


_known: dict[tuple[str, Target | None], bytes] = {}  # elementary functions


@cache
def _initialised() -> llvm.Target:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple())


def _machine() -> llvm.TargetMachine:
    """For linking only: nothing is generated. Each session takes its own."""
    return _initialised().create_target_machine(opt=0, jit=True)
