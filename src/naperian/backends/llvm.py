"""LLVM IR text → object code, in process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager

from naperian.backends.rare import INLINED
from naperian.backends.target import Target, host

_OURS = {"": "-disable-lsr", "x86": "-x86-cmov-converter=false"}  # by the start of a triple
_USUAL = {"": "-disable-lsr=false", "x86": "-x86-cmov-converter=true"}

VERSION = f"llvmlite {llvm.llvm_version_info} {' '.join(_OURS.values())}"


def compile_ir(text: str, target: Target | None = None) -> bytes:
    """The object file of a module: parsed, verified, optimised, and written out."""
    machine = _machine(target or host())
    module = _optimised(text, machine)
    with _generating(machine):
        return bytes(machine.emit_object(module))


def assembly(text: str, target: Target | None = None) -> str:
    """What `compile_ir` makes, to read."""
    machine = _machine(target or host())
    module = _optimised(text, machine)
    with _generating(machine):
        listing: str = machine.emit_assembly(module)
    return listing


def optimised(text: str, target: Target | None = None) -> str:
    """The module after the optimiser, as text."""
    return str(_optimised(text, _machine(target or host())))


AS_WRITTEN = "; as written\n"
"""How a module starts whose loops are vectors and unrolled already: it is only cleaned, which takes
half the time."""


def _optimised(text: str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    # a context of its own, because what a context has met it never forgets
    module = llvm.parse_assembly(text, llvm.create_context())
    module.verify()
    whole = not text.startswith(AS_WRITTEN)
    # what level 2 adds (GVN, threads of jumps, dead stores) is a tenth of the time, for nothing:
    # sharing is `passes/cse.py`'s, and loops are left as they came out of `passes`
    options = llvm.PipelineTuningOptions(speed_level=1)
    options.loop_vectorization = whole
    options.slp_vectorization = False  # a tenth of the time, for nothing in loops
    options.loop_interleaving = whole
    options.loop_unrolling = whole
    builder = llvm.create_pass_builder(machine, options)
    with _freed(builder.getModulePassManager()) as pipeline:
        pipeline.run(module, builder)
    if INLINED in text:
        # the vectoriser has put in the vector forms of rare calls; their test belongs in the loop
        with _freed(llvm.create_new_module_pass_manager()) as tidy:
            tidy.add_always_inliner_pass()
            tidy.add_simplify_cfg_pass()
            tidy.add_instruction_combine_pass()
            tidy.run(module, builder)
    return module


@contextmanager
def _freed(passes: llvm.ModulePassManager) -> Iterator[llvm.ModulePassManager]:
    """The pass manager, and its memory given back: llvmlite's own `close` does not find the method
    that frees it, because another base class stands before it."""
    try:
        yield passes
    finally:
        NewPassManager._dispose(passes)
        passes.detach()


@contextmanager
def _generating(machine: llvm.TargetMachine) -> Iterator[None]:
    """Code generation without two passes. LLVM has them only as settings of the process, so they
    are put back for whoever else uses LLVM here.

    Loop strength reduction: our loops address by base and index already, and it takes up to four
    fifths of the time for stencils. Branches for choices that a round hands to the next, on x86:
    which of three neighbours is largest, where a table is filled row by row, nobody predicts."""
    here = [k for k in _OURS if machine.triple.startswith(k)]
    with _settings:
        for k in here:
            llvm.set_option("naperian", _OURS[k])
        try:
            yield
        finally:
            for k in here:
                llvm.set_option("naperian", _USUAL[k])


_settings = Lock()


@cache
def _machine(target: Target) -> llvm.TargetMachine:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    made = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, reloc="pic", codemodel="small", jit=False
    )
    return made
