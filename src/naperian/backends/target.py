"""The machine that code is made for.

`Target` is everything the back end asks about it. `host()` describes this machine;
`NAPERIAN_TARGET=avx2` or `=baseline` in the environment narrows it, for tests and comparisons.
"""

from __future__ import annotations

import os
from functools import cache

import llvmlite.binding as llvm

from naperian.node import node, replace


@node
class Target:
    """`vector_bytes` is the widest vector worth using, `registers` how many of them there are."""

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    registers: int

    def lanes(self, element_bytes: int) -> int:
        return self.vector_bytes // element_bytes

    @property
    def convention(self) -> str:
        """How vector functions are called: so that a loop's vectors stay in registers. With AVX-512
        that convention keeps no frame pointer for the caller, and what LLVM puts around such a call
        to keep it moves the stack under the loads behind the call (LLVM 20)."""
        match self.triple.partition("-")[0]:
            case "x86_64":
                return "intel_ocl_bicc " if self.vector_bytes < 64 else ""
            case "aarch64" | "arm64":
                return "aarch64_vector_pcs "
            case _:
                return ""

    @property
    def one_by_one(self) -> Target | None:
        """The machine as it is for vectors from places that are computed, if that is another: see
        `gathers`."""
        if not self.cpu.startswith("znver") or "+avx512f" not in self.features.split(","):
            return None
        return replace(self, features=self.features + NO_GATHER)

    @property
    def with_whole_registers(self) -> Target:
        """The machine for functions that their callers call with vectors in registers
        (`convention`). With AVX, LLVM clears the upper halves of registers where a function that
        used vectors returns a scalar, also of those that it has just put back for its caller; with
        AVX-512, those to put back are others."""
        if not self.triple.startswith("x86_64") or self.vector_bytes != 32:
            return self
        return replace(self, features=self.features + NO_CLEARING)

    @property
    def clearing(self) -> str:
        """What stands before a call of the C library in such functions: its code has no use for the
        upper halves, and is ten times slower if something is in them."""
        own = self.with_whole_registers is self
        return "" if own else "  call void @llvm.x86.avx.vzeroupper()\n"

    @property
    def is_far(self) -> bool:
        """Whether it is a processor with many cores whose third-level cache is far (`fetching`),
        and which gathers vectors, with or without masks, as fast as elements: Intel's servers."""
        wide = "+avx512f" in self.features.split(",")
        return wide and not self.cpu.startswith("znver")

    @property
    def fuses(self) -> bool:
        """Whether it multiplies and adds vectors in one instruction, of x86."""
        return self.cpu == "x86-64-v3" or "+fma" in self.features.split(",")

    @property
    def scales(self) -> bool:
        """Whether it multiplies vectors of 64 bytes by powers of two in one instruction."""
        return self.vector_bytes == 64

    @property
    def attributes(self) -> str:
        """The attribute group that every function of a module carries. Unless there is a frame
        pointer before LLVM gives registers, it spills vectors to wherever the caller's stack
        happens to be, across lines of the cache if that is no multiple of theirs."""
        framed = self.triple.startswith("x86_64") and self.vector_bytes > _STACK
        frame = ' "frame-pointer"="all"' if framed else ""
        return f'nounwind "prefer-vector-width"="{self.vector_bytes * 8}"{frame}'


def host(level: str | None = None) -> Target:
    """This machine, narrowed to a level: `native` (all of it), `avx2` or `baseline`."""
    return _host(level or os.environ.get("NAPERIAN_TARGET", "native"))


@cache
def _host(level: str) -> Target:
    triple = llvm.get_process_triple()
    if not triple.startswith("x86_64"):
        return Target(triple, llvm.get_host_cpu_name(), _host_features(), 16, 32)
    match level:
        case "native":
            features = _host_features()
            present = features.split(",")
            if "+avx512f" in present:
                return Target(triple, llvm.get_host_cpu_name(), features, 64, 32)
            width = 32 if "+avx" in present else 16
            return Target(triple, llvm.get_host_cpu_name(), features, width, 16)
        case "avx2":
            return Target(triple, "x86-64-v3", "", 32, 16)
        case "baseline":
            return Target(triple, "x86-64", "", 16, 16)
        case _:
            raise ValueError(f"NAPERIAN_TARGET is native, avx2 or baseline, not {level!r}")


def _host_features() -> str:
    features: str = llvm.get_host_cpu_features().flatten()
    slow = llvm.get_host_cpu_name().startswith("znver")
    return features + _NO_SCATTER if slow else features


_STACK = 16  # bytes, of which a caller's stack is a multiple
NO_GATHER = ",+prefer-no-gather"
NO_CLEARING = ",-vzeroupper"
_NO_SCATTER = ",+prefer-no-scatter"
"""AMD's processors store a vector to scattered places more slowly than its elements one by one."""
