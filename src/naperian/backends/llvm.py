"""LLVM IR text → object code, in process."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from ctypes import string_at
from functools import cache
from threading import Lock, Semaphore, Thread
from typing import TypeVar

import llvmlite.binding as llvm
from llvmlite.binding import ffi
from llvmlite.binding.newpassmanagers import NewPassManager

from naperian.backends.gathers import MARK, computed
from naperian.backends.rare import declared
from naperian.backends.target import NO_CLEARING, NO_GATHER, Target, host

_OURS = {
    "-disable-lsr": ("", True),
    "-disable-post-ra": ("x86", True),
    "-disable-postra-machine-licm": ("x86", True),
    "-disable-postra-machine-sink": ("x86", True),
    "-disable-x86-domain-reassignment": ("x86", True),
    "-x86-cmov-converter": ("x86", False),
}
"""Settings that are usually the other way round, with the start of a triple."""

VERSION = f"llvmlite {llvm.llvm_version_info} {_OURS} {NO_GATHER} {NO_CLEARING}"


def compile_ir(text: str, target: Target | None = None) -> bytes:
    """The object file of a module: parsed, verified, optimised, and written out."""
    return compile_all([text], 1, target)[0]


def compile_all(
    texts: Sequence[str], threads: int, target: Target | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> list[bytes]:
    """The object files of modules, made by so many threads, and what this one does `meanwhile`.

    They are threads of their own: an interrupt, which raises between any two steps of the main
    thread, finds no object of LLVM there that is half made or half given back."""
    made: dict[int, bytes] = {}
    busy = Semaphore(0)  # with what takes long
    trouble: list[BaseException] = []
    waiting = iter(range(len(texts)))

    def work() -> None:
        tell = [busy.release]  # once
        try:
            with _generating(target or host()):
                for k in waiting:
                    made[k] = _compiled(texts[k], target, lambda: tell and tell.pop()())
        except BaseException as error:  # raised where all come together
            trouble.append(error)
        finally:
            for told in tell:
                told()

    started: list[Thread] = []
    try:
        with suppress(RuntimeError):  # the system has no more threads
            for _ in texts[:threads]:
                thread = Thread(target=work, name="naperian compiles")
                thread.start()
                started.append(thread)
        if not started:
            work()
        for _ in started:  # who comes out of LLVM often would wait for Python's lock each time
            busy.acquire()
        meanwhile()
        for thread in started:
            thread.join()
    finally:
        for _ in waiting:
            pass  # nobody waits for the rest of what was interrupted
    if trouble:
        raise trouble[0]
    return [made[k] for k in range(len(texts))]


def _compiled(text: str, target: Target | None, begun: Callable[[], object]) -> bytes:
    """An object file; code generation, half of the time, is one call, before which we are told."""
    with _prepared(text, target) as (module, machine):
        begun()
        return _object(module, machine)


def assembly(text: str, target: Target | None = None) -> str:
    """What `compile_ir` makes, to read."""
    with _prepared(text, target) as (module, machine), _generating(target or host()):
        listing: str = machine.emit_assembly(module)
        return listing


def optimised(text: str, target: Target | None = None) -> str:
    """The module after the optimiser, as text."""
    with _prepared(text, target) as (module, _):
        return str(module)


_Passes = TypeVar("_Passes", llvm.ModulePassManager, llvm.FunctionPassManager)


@contextmanager
def _prepared(
    text: str, target: Target | None
) -> Iterator[tuple[llvm.ModuleRef, llvm.TargetMachine]]:
    """The module after the optimiser, and the machine that code is generated for."""
    wanted = target or host()
    if _is_called_with_vectors(text, wanted):
        wanted = wanted.with_whole_registers
    other = wanted.one_by_one
    if other is not None and not is_finished(text) and not may_gather_data(text):
        wanted, other = other, None  # it would be optimised twice
    with _machine(wanted, 0 if text.startswith(GLUE) else 3) as machine:
        module = _optimised(text, machine, target)
        if other is None or not _computes_places(module):
            yield module, machine
            return
    with _machine(other) as machine:
        yield _optimised(text, machine, target), machine


def _is_called_with_vectors(text: str, target: Target) -> bool:
    """Whether functions of a module leave their callers' vectors in registers: those of `math`, and
    what goes from lane to lane for rare arguments."""
    convention = target.convention
    return bool(convention) and (f"hidden {convention}" in text or "@nap.rare." in text)


_DATA = re.compile(
    r" = load (?:<\d+ x )?i\d+>?, ptr [^\n]*, align |\nthen|predicate\.enable|\.gather\."
)
"""What a module has in it that may gather from places that are data, or only part of a vector."""


def may_gather_data(text: str) -> bool:
    """Whether that cannot be ruled out."""
    return bool(_DATA.search(text))


def _computes_places(module: llvm.ModuleRef) -> bool:
    return any(f.name.startswith(MARK) for f in module.functions) and computed(str(module))


_COUNTS = " lshr "
"""What a count of bits has in it that is written with shifts. LLVM knows such patterns, for which
there are instructions, from level 2 on."""

AS_WRITTEN = "; as written\n"
"""How a module starts whose loops are vectors and unrolled already: it is only cleaned, which takes
a third of the time."""

WHOLE = "; whole\n"
"""How a module starts that goes through the whole pipeline, though its loops are finished."""

FINISHED = "; finished\n"
"""How a module starts that is machine code but for its registers: nothing in it is changed."""

GLUE = "; glue\n"
"""How a module starts whose functions run once and have no loops: nothing in it is changed, and
registers are given as lines come, which takes a third of the time."""


def _optimised(text: str, machine: llvm.TargetMachine, target: Target | None) -> llvm.ModuleRef:
    # a context of its own, because what a context has met it never forgets
    context = llvm.create_context()
    module = llvm.parse_assembly(text, context)
    module.verify()
    if text.startswith((FINISHED, GLUE)):
        return module
    wanted = target or host()
    if text.startswith(AS_WRITTEN) or is_finished(text):
        return _cleaned(text, module, context, machine, wanted)
    # what level 2 adds (GVN, threads of jumps, dead stores) is a tenth of the time, for nothing:
    # sharing is `passes/algebra/cse.py`'s, and loops are left as they came out of `passes`
    options = llvm.PipelineTuningOptions(speed_level=1)
    options.loop_vectorization = True
    options.slp_vectorization = False  # a tenth of the time, for nothing in loops
    options.loop_interleaving = True
    options.loop_unrolling = True
    if _COUNTS in text:
        with _freed(llvm.create_new_module_pass_manager()) as patterns:
            patterns.add_aggressive_instcombine_pass()
            patterns.run(module, llvm.create_pass_builder(machine, options))
    builder = llvm.create_pass_builder(machine, options)
    with _freed(builder.getModulePassManager()) as pipeline:
        _native.LLVMPY_RunNewModulePassManager(pipeline, module, builder)
    forms = declared(text, wanted)
    if forms:
        # the vectoriser has put in the vector forms of rare calls; their test belongs in the loop
        module.link_in(llvm.parse_assembly(forms, context))
        with _freed(llvm.create_new_module_pass_manager()) as tidy:
            tidy.add_always_inliner_pass()
            # a builder serves one run: it calls back what llvmlite has on the stack during that
            tidy.run(module, llvm.create_pass_builder(machine, options))
    return module


_TOLD = re.compile(r"distinct .*llvm\.loop\.mustprogress.*")  # what is sought begins with letters
_UNROLLED = "llvm.loop.unroll.count"
_NO_VECTORS = '"llvm.loop.vectorize.enable", i1 false'


def is_finished(text: str) -> bool:
    """Whether no loop of a module is left to LLVM's vectoriser."""
    return bool(_TOLD.search(text)) and not is_left(text) and not text.startswith(WHOLE)


def is_left(text: str) -> bool:
    """Whether one is."""
    return any(_NO_VECTORS not in told for told in _TOLD.findall(text))


def _cleaned(
    text: str, module: llvm.ModuleRef, context: llvm.ContextRef, machine: llvm.TargetMachine,
    target: Target,
) -> llvm.ModuleRef:
    """A module whose loops are finished, with its variables in registers. What is computed twice is
    sought in modules written by hand alone: it takes a tenth of the time, and programs compute what
    loops have in common once (`lifted`)."""
    forms = declared(text, target, called=True)
    if forms:
        module.link_in(llvm.parse_assembly(forms, context))
    options = llvm.PipelineTuningOptions(speed_level=1)
    with _freed(llvm.create_new_module_pass_manager()) as passes:
        passes.add_always_inliner_pass()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        if text.startswith(AS_WRITTEN):
            passes.add_new_gvn_pass()
        if _COUNTS in text:
            passes.add_aggressive_instcombine_pass()
        if _UNROLLED in text:
            passes.add_loop_unroll_pass()
        passes.add_instruction_combine_pass()
        if text.startswith(AS_WRITTEN) or _UNROLLED in text:  # which leave jumps behind
            passes.add_simplify_cfg_pass()
        builder = llvm.create_pass_builder(machine, options)
        _native.LLVMPY_RunNewModulePassManager(passes, module, builder)
    for function in _reading(text):
        builder = llvm.create_pass_builder(machine, options)
        with _freed(builder.getFunctionPassManager()) as simplify:
            one = module.get_function(function)
            _native.LLVMPY_RunNewFunctionPassManager(simplify, one, builder)
    return module


_MANY = 500
"""Loads of a function that is not only cleaned: so much is written out from loops, and reads again
what it has just stored."""

_LOAD = " = load "
_FUNCTION = re.compile(r"^define [^@\n]*@([\w.]+)(\([^\n]*).*?^}$", re.MULTILINE | re.DOTALL)


def _reading(text: str) -> list[str]:
    """The functions of a module that read much."""
    if text.count(_LOAD) < _MANY:
        return []
    found = (m for m in _FUNCTION.finditer(text) if " optnone " not in m[2])
    return [m[1] for m in found if m[0].count(_LOAD) >= _MANY]


@contextmanager
def _freed(passes: _Passes) -> Iterator[_Passes]:
    """The pass manager, and its memory given back: llvmlite's own `close` does not find the method
    that frees it, because another base class stands before it."""
    try:
        yield passes
    finally:
        NewPassManager._dispose(passes)
        passes.detach()


@contextmanager
def _generating(target: Target) -> Iterator[None]:
    """Code generation without some passes. LLVM has them only as settings of the process, so they
    are put back for whoever else uses LLVM here.

    Loop strength reduction: our loops address by base and index already, and it takes up to four
    fifths of the time for stencils. Branches for choices that a round hands to the next, on x86:
    which of three neighbours is largest, where a table is filled row by row, nobody predicts.
    What is done after registers are given, on x86: processors that look ahead have no use for
    another schedule, and nothing was found to move. Masks that become numbers: none of ours do.
    Both take a twentieth of the time."""
    here = [k for k, (triple, _) in _OURS.items() if target.triple.startswith(triple)]
    with _settings:
        for k in here:
            if not _generators[k]:
                _set(k, _OURS[k][1])
            _generators[k] += 1
    try:
        yield
    finally:
        with _settings:
            for k in here:
                _generators[k] -= 1
                if not _generators[k]:
                    _set(k, not _OURS[k][1])


def _set(option: str, on: bool) -> None:
    llvm.set_option("naperian", f"{option}={str(on).lower()}")


_settings = Lock()
_generators: Counter[str] = Counter()  # how many threads generate code with a setting


def _object(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> bytes:
    """What llvmlite's `emit_object` does, beside other threads."""
    with ffi.OutputString() as trouble:
        memory = _native.LLVMPY_TargetMachineEmitToMemory(machine, module, 1, trouble)
        if not memory:
            raise RuntimeError(str(trouble))
    try:
        start, size = ffi.lib.LLVMPY_GetBufferStart(memory), ffi.lib.LLVMPY_GetBufferSize(memory)
        return string_at(start, size)
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(memory)


# llvmlite lets one thread in at a time. LLVM itself asks only that threads share no context and no
# machine, so the two long calls go past llvmlite's lock.
_native = ffi.lib._lib


@contextmanager
def _machine(target: Target, level: int = 3) -> Iterator[llvm.TargetMachine]:
    """A machine that no other thread uses."""
    idle = _idle(target, level)
    try:
        machine = idle.pop()
    except IndexError:
        machine = llvm.Target.from_triple(target.triple).create_target_machine(
            cpu=target.cpu, features=target.features, opt=level, reloc="pic", codemodel="small",
            jit=False,
        )  # fmt: skip
    try:
        yield machine
    finally:
        idle.append(machine)


@cache
def _idle(target: Target, level: int) -> list[llvm.TargetMachine]:
    """Machines for a target that nobody uses now."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return []
