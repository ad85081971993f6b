"""`nap doctor`: what this machine has, and whether Naperian works on it."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from naperian import __version__, cli, oracle
from naperian.backends import cache, target
from naperian.backends.services import threads
from naperian.source import Source

_PROGRAM = """\
def softmax(x: n=>Float) -> n=>Float:
    e = exp(x - max(x))
    e / sum(e)

def it() = softmax([1.0, 2.0, 3.0])
"""
_VALUE = "[0.090031 0.244728 0.665241]"


def run(options: argparse.Namespace) -> int:
    """The command `nap doctor`; 1 if the self-test fails."""
    found = {name: look() for name, look in LOOKS.items()}
    if options.json:
        cli.emit(found)
    else:
        for name, what in found.items():
            print(f"{name:12} {what}")
    return cli.OK if found["self-test"].startswith("passed") else cli.WRONG


def _python() -> str:
    return f"{platform.python_version()} ({platform.python_implementation()}, {platform.system()})"


def _llvm() -> str:
    version = ".".join(map(str, llvm.llvm_version_info))
    return f"{version} (llvmlite {llvmlite.__version__})"


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    model = platform.processor() or platform.machine()
    if info.exists():
        names = (x for x in info.read_text().splitlines() if x.startswith("model name"))
        model = next((x.split(":", 1)[1].strip() for x in names), model)
    return f"{model} ({target.host().cpu})"


def _vectors() -> str:
    host = target.host()
    return f"{host.vector_bytes * 8} bits: {host.lanes(8)} F64 or {host.lanes(4)} F32 at a time"


def _threads() -> str:
    if not threads.has_threads():
        return "1 (this platform has no thread pool yet)"
    asked = os.environ.get("NAPERIAN_THREADS")
    usable = len(os.sched_getaffinity(0))
    return f"{asked} (NAPERIAN_THREADS)" if asked else f"{usable} (all that may be used)"


def _cache() -> str:
    kept = cache.shared()
    if kept.directory is None:
        return "off"
    if not _writable(kept.directory):
        return f"{kept.directory}: cannot be written, so every process compiles again"
    entries = kept.entries()
    size = sum(size for _, size, _ in entries) / 1e6
    return f"{kept.directory}: {len(entries)} entries, {size:.1f} MB"


def _writable(directory: Path) -> bool:
    nearest = next(p for p in (directory, *directory.parents) if p.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK)


def _self_test() -> str:
    try:
        said = oracle.agreed(Source("<doctor>", _PROGRAM))
    except Exception as e:
        return f"FAILED: {cli.our_bug(e)}"
    if said != _VALUE:
        return f"FAILED: softmax([1.0, 2.0, 3.0]) gives {said} instead of {_VALUE}"
    return "passed: compiled code and the interpreter of every stage agree"


LOOKS: dict[str, Callable[[], str]] = {
    "naperian": lambda: __version__,
    "python": _python,
    "numpy": lambda: np.__version__,
    "llvm": _llvm,
    "cpu": _cpu,
    "vectors": _vectors,
    "threads": _threads,
    "cache": _cache,
    "self-test": _self_test,
}
