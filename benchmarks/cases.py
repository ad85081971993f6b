"""What is measured: for each case its data, and our program with its peers in other languages.

A peer is the function of the case's name in `peers/*.c`, `numpy_peers.py`, `numba_peers.py`,
`jax_peers.py` and `torch_peers.py`; where a module has none, the case has none there. NumPy's
result is the reference for all. The C peers fill arrays that the caller gives; all others return
fresh ones, and the time to allocate them is theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Case:
    """One row: `program:definition`, the arguments, and the sizes that C takes before them.

    The peers are called `definition`, or `peer`; the C file is called as the program.
    """

    name: str
    program: str
    definition: str
    data: Callable[[], tuple[Any, ...]]
    sizes: Callable[..., tuple[int, ...]]
    peer: str = ""
    tolerance: float = 1e-9

    @property
    def function(self) -> str:
        """The name of the peers."""
        return self.peer or self.definition


def _rng() -> np.random.Generator:
    return np.random.default_rng(7)


# ---------------------------------------------------------------- data


def _vector(n: int) -> Callable[[], tuple[Any, ...]]:
    return lambda: (_rng().uniform(0.0, 1.0, n) + 1.0,)


def _options(n: int) -> tuple[Any, ...]:
    r = _rng()
    return (r.uniform(20, 120, n), r.uniform(20, 120, n), r.uniform(0.1, 2.0, n), 0.03, 0.3)


def _square(n: int, dtype: str) -> Callable[[], tuple[Any, ...]]:
    return lambda: tuple(_rng().standard_normal((2, n, n)).astype(dtype))


def _image(n: int) -> tuple[Any, ...]:
    return (_rng().standard_normal((n, n)),)


def _chip(n: int, steps: int) -> tuple[Any, ...]:
    heat, power = _rng().uniform(0.0, 1.0, (2, n, n))
    return (heat + 320.0, power * 1e-3, steps, 0.5, 0.1, 0.1, 0.0125, 80.0)


def _scan(voxels: int, samples: int) -> tuple[Any, ...]:
    r = _rng()
    return (*r.uniform(-0.5, 0.5, (3, voxels)), *r.uniform(-8, 8, (3, samples)),
            *r.standard_normal((2, samples)))  # fmt: skip


def _ends(segments: int, elements: int) -> Array:
    """Where random segments of an array begin, and the end."""
    inner = np.sort(_rng().integers(0, elements + 1, segments - 1))
    return np.concatenate([[0], inner, [elements]])


def _sparse(n: int, nonzero: int) -> tuple[Any, ...]:
    r = _rng()
    cols = r.integers(0, n, nonzero)
    return _ends(n, nonzero), cols, r.standard_normal(nonzero), r.standard_normal(n)


def _positive(n: int) -> tuple[Any, ...]:
    a = _rng().standard_normal((n, 4, 4))
    return (a @ a.transpose(0, 2, 1) + np.eye(4),)


def _normal(*shapes: tuple[int, ...], dtype: str = "float64") -> Callable[[], tuple[Any, ...]]:
    def data() -> tuple[Any, ...]:
        r = _rng()
        return tuple(r.standard_normal(s).astype(dtype) for s in shapes)

    return data


def _lstm(b: int, u: int) -> tuple[Any, ...]:
    state, weights, bias = _normal((3, b, u), (2, 4, u, u), (4, u), dtype="float32")()
    return (*state, *(0.05 * weights), bias)


def _systems(k: int, n: int) -> tuple[Any, ...]:
    r = _rng()
    a, c, d = r.standard_normal((3, k, n))
    return a, 4.0 + r.uniform(size=(k, n)), c, d


def _puts(n: int, steps: int) -> tuple[Any, ...]:
    r = _rng()
    return (*r.uniform(80.0, 120.0, (2, n)), r.uniform(0.5, 2.0, n), 0.03, 0.3, steps)


def _single(data: tuple[Any, ...]) -> tuple[Any, ...]:
    """The data in single precision."""
    return tuple(
        a.astype(np.float32) if isinstance(a, np.ndarray)
        else np.float32(a) if isinstance(a, float)
        else a
        for a in data
    )  # fmt: skip


# ---------------------------------------------------------------- the rows


def _length(x: Array, *_: Any) -> tuple[int, ...]:
    return (len(x),)


def _shape(x: Array, *_: Any) -> tuple[int, ...]:
    return x.shape


def _matmul(n: int, dtype: str) -> Case:
    tag = "f32" if dtype == "float32" else "f64"
    tolerance = 1e-3 if tag == "f32" else 1e-8
    return Case(f"matmul {n} {tag}", "matmul", "matmul", _square(n, dtype), _length, "", tolerance)


def _histogram(n: int, bins: int) -> Case:
    return Case(
        f"histogram {n:.0e}→{bins}".replace("e+0", "e"), "sums", "histogram",
        lambda: (_rng().integers(0, bins, n), np.zeros(bins)), lambda k, b: (len(k), len(b)),
    )  # fmt: skip


def _both(case: Case, tolerance: float = 1e-5) -> tuple[Case, Case]:
    """The case, and the same in single precision."""
    return case, replace(
        case, name=f"{case.name} f32", data=lambda: _single(case.data()), tolerance=tolerance
    )


CASES = (
    *_both(Case("map chain 10⁶", "chain", "chain", _vector(10**6), _length)),
    *_both(Case("Black-Scholes 10⁶", "black_scholes", "black_scholes",
                lambda: _options(10**6), _length), 1e-4),
    *_both(Case("stencil 1024²", "stencil", "stencil", lambda: _image(1024), _shape)),
    Case("convolution 1024², 5×5", "convolution", "convolution", _normal((1024, 1024), (5, 5)),
         _shape),
    *(_matmul(n, d) for n in (64, 512, 1024) for d in ("float32", "float64")),
    *_both(Case("row softmax 1000²", "softmax", "rows", lambda: _image(1000), _shape, "softmax")),
    Case("distances 1000²×16", "distances", "distances", _normal((1000, 16), (1000, 16)),
         lambda x, y: (len(x), len(y), x.shape[1])),
    Case("gather 10⁶", "gather", "gather",
         lambda: (_rng().standard_normal(10**6), _rng().integers(0, 10**6, 10**6)),
         lambda x, p: (p.size,)),
    Case("small vector (3)", "small", "small", lambda: (np.array([1.0, 2.0, 3.0]),), _length),
    *_both(Case("hotspot 512², 20 steps", "hotspot", "hotspot", lambda: _chip(512, 20), _shape)),
    Case("pathfinder 200×100 000", "pathfinder", "pathfinder",
         lambda: (_rng().integers(0, 10, (200, 100_000)),), lambda w: (len(w) - 1, w.shape[1])),
    Case("MRI-Q 4096×2048", "mriq", "mriq", lambda: _scan(4096, 2048),
         lambda x, y, z, k, *_: (x.size, k.size)),
    Case("stencil 128³, 10 steps", "stencil3d", "stencil3d",
         lambda: (_rng().standard_normal((128, 128, 128)), 10), _shape),
    _histogram(10**7, 256),
    _histogram(10**6, 10**6),
    Case("segmented sum 10⁶, 10⁵", "sums", "segments",
         lambda: (_ends(10**5, 10**6), _rng().standard_normal(10**6)),
         lambda ends, x: (len(ends) - 1,)),
    Case("sparse matrix × vector 10⁵×16", "sums", "spmv", lambda: _sparse(10**5, 16 * 10**5),
         lambda rows, *_: (len(rows) - 1,)),
    Case("triangular row sums 2000", "sums", "triangle", lambda: _image(2000), _length),
    Case("column sums 2000²", "sums", "columns", lambda: _image(2000), _shape),
    Case("prefix sum 10⁶", "sums", "prefix", _vector(10**6), _length),
    Case("Mandelbrot 400², 100", "mandelbrot", "mandelbrot",
         lambda: (np.linspace(-2.0, 0.6, 400), np.linspace(-1.3, 1.3, 400), 100),
         lambda re, im, _: (im.size, re.size), tolerance=1.0),
    *_both(Case("n-body 1000", "nbody", "accelerations",
                lambda: (_rng().standard_normal((1000, 3)), _rng().uniform(0.5, 1.5, 1000)),
                _length, "nbody"), 1e-3),
    Case("k-means 50 000×16, 16", "kmeans", "lloyd", _normal((50_000, 16), (16, 16)),
         lambda x, c: (*x.shape, len(c)), "kmeans"),
    *_both(Case("4×4 products 10⁵", "batched", "products", _normal((10**5, 4, 4), (10**5, 4, 4)),
                _length)),
    Case("4×4 Cholesky 10⁵", "batched", "factors", lambda: _positive(10**5), _length),
    Case("conv2d 4×32×58², 32 f32", "conv2d", "conv2d",
         _normal((4, 32, 58, 58), (32, 32, 3, 3), dtype="float32"),
         lambda x, k: (*x.shape, len(k)), tolerance=1e-4),
    Case("attention 8×512×64 f32", "network", "heads",
         _normal(*3 * [(8, 512, 64)], dtype="float32"),
         lambda q, k, v: (*q.shape[:2], *k.shape[1:]), "attention", 1e-4),
    Case("layer norm 1000×768 f32", "network", "layer_norm",
         _normal((1000, 768), (768,), (768,), dtype="float32"), _shape, tolerance=1e-4),
    Case("LSTM step 64×256 f32", "network", "lstm",
         lambda: _lstm(64, 256), lambda x, h, *_: (*x.shape, h.shape[1]), tolerance=1e-4),
    Case("tridiagonal 10⁴×128", "tridiagonal", "tridiagonal", lambda: _systems(10**4, 128), _shape),
    Case("LocVolCalib 16, 32×64×32", "locvol", "locvol",
         lambda: (0.001 * np.arange(16), 0.03, 5.0, 0.2, 0.6, 0.5, 32, 64, 32), _length),
    Case("American puts 200, 500 steps", "options", "american", lambda: _puts(200, 500), _length),
    Case("Asian call 10⁴×100", "options", "asian",
         lambda: (_rng().standard_normal((10**4, 100)), 100.0, 100.0, 1.0, 0.03, 0.3), _shape),
    Case("FFT 500×1024", "fft", "transforms", _normal((500, 1024), (500, 1024)), _shape, "fft"),
    Case("sort 10⁶", "sort", "sorted", _normal((10**6,)), _length, "sort"),
    Case("image pipeline 1000²", "image", "image",
         lambda: (_rng().uniform(0.0, 1.0, (1000, 1000)), 0.5), _shape),
    Case("transpose 2000²", "transpose", "transposed", lambda: _image(2000), _shape, "transpose"),
)  # fmt: skip
