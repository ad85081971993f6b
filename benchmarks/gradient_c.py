"""The programs of `gradients.py` in C: with gradients written by hand, and with those that Enzyme
makes of the same text. The thunks are those of `gradient_jax`."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from worker import GCC

PEERS = Path(__file__).parent / "peers"
Thunks = tuple[Callable[[], Any], Callable[[], Any]]


class Peer:
    """A C function of sizes, arguments and a result; `varied` are the arguments that the gradient
    is by, whose derivatives follow the result in the function that has them."""

    def __init__(
        self, file: str, name: str, sizes: tuple[int, ...], args: tuple[Any, ...],
        varied: tuple[int, ...],
    ) -> None:  # fmt: skip
        self.file, self.name, self.sizes, self.args, self.varied = file, name, sizes, args, varied

    def by_hand(self) -> Thunks:
        with tempfile.NamedTemporaryFile(suffix=".so", delete=False) as made:
            source = str(PEERS / f"{self.file}.c")
            subprocess.run([*GCC, source, "-o", made.name, "-lm"], check=True)
        library = ctypes.CDLL(made.name)
        Path(made.name).unlink()
        value = library[self.name]
        slope = library[f"{self.name.removesuffix('_end')}_slope"]
        inputs = [
            *map(ctypes.c_long, self.sizes),
            *(
                ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray)
                else ctypes.c_long(a) if isinstance(a, int)
                else ctypes.c_double(a)
                for a in self.args
            ),
        ]  # fmt: skip

        def with_slope() -> Any:
            out = ctypes.c_double()
            made = [np.empty_like(self.args[v]) for v in self.varied]
            slope(*inputs, ctypes.byref(out), *(ctypes.c_void_p(m.ctypes.data) for m in made))
            return out.value, *made

        def alone() -> Any:
            out = ctypes.c_double()
            value(*inputs, ctypes.byref(out))
            return out.value

        return alone, with_slope

    def enzyme(self) -> Thunks:
        """Enzyme's reverse mode of the value's text, inside JAX's compiled functions."""
        import gradient_jax  # noqa: F401  (double precision)
        import jax
        import jax.numpy as jnp
        from enzyme_ad.jax import cpp_call

        arrays = [k for k, a in enumerate(self.args) if isinstance(a, np.ndarray)]
        kinds = ", ".join(f"enzyme::tensor<double, {', '.join(map(str, self.args[k].shape))}>"
                          f" const &x{k}" for k in arrays)  # fmt: skip
        given = ", ".join([
            *map(str, self.sizes),
            *(f"(const double *)&x{k}" if k in arrays else repr(a)
              for k, a in enumerate(self.args)),
        ])  # fmt: skip
        text = (PEERS / f"{self.file}.c").read_text(encoding="utf-8")
        body = "\n".join(line for line in text.splitlines() if not line.startswith("#include"))
        source = (
            f"{_PRELUDE}{body}\nvoid peer(enzyme::tensor<double> &out, {kinds}) "
            f"{{ {self.name}({given}, (double *)&out); }}\n"
        )
        argv = ("-O3", "-ffast-math", "-target-cpu", _processor())
        scalar = [jax.core.ShapedArray([], jnp.float64)]

        def value(*x: Any) -> Any:
            return cpp_call(*x, out_shapes=scalar, source=source, fn="peer", argv=argv)[0]

        there = [jnp.asarray(self.args[k]) for k in arrays]
        by = tuple(arrays.index(v) for v in self.varied)
        one, two = jax.jit(value), jax.jit(jax.value_and_grad(value, argnums=by))

        def flat() -> Any:
            out, slopes = jax.block_until_ready(two(*there))
            return out, *slopes

        return lambda: jax.block_until_ready(one(*there)), flat


# What Enzyme's compiler, which has no headers, and C++ want to be told.
_PRELUDE = """
extern "C" {
double exp(double), log(double), tanh(double), lgamma(double), sin(double), cos(double);
double sqrt(double), erf(double);
void *malloc(unsigned long), *calloc(unsigned long, unsigned long);
void free(void *);
void *memcpy(void *, const void *, unsigned long), *memset(void *, int, unsigned long);
}
#define malloc(n) (double *)malloc(n)
#define calloc(n, k) (double *)calloc(n, k)
typedef double real;
"""


def _processor() -> str:
    import llvmlite.binding as llvm

    return str(llvm.get_host_cpu_name())


def gmm(*args: Any) -> Peer:
    n, d = args[4].shape
    return Peer("gmm", "gmm", (n, d, len(args[0])), args, (0, 1, 2, 3))


def lstm(w: Any, bias: Any, extra: Any, start: Any, text: Any) -> Peer:
    layers, _, units = w.shape
    args = (w, bias, extra, start["hidden"], start["cell"], text)
    return Peer("lstm", "lstm", (layers, units, len(text)), args, (0, 1, 2))


def hotspot(*args: Any) -> Peer:
    return Peer("hotspot", "hotspot_end", args[0].shape, args, (0, 1))
