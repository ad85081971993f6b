"""What is measured: for each case its data, our program, and the same in C, NumPy, Numba and JAX.

The C peers (`peers/*.c`) fill arrays that the caller gives, as ctypes wants it; all others return
fresh ones, and the time to allocate them is theirs. `c_args` puts a case's data in the order of the
C function's parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Case:
    """One row: `program:definition`, the arguments, and the peers (None where one has none)."""

    name: str
    program: str
    definition: str
    data: Callable[[], tuple[Any, ...]]
    numpy: Callable[..., Any]
    numba: str | None
    jax: Callable[[Any, Any], Callable[..., Any]] | None
    c: str
    c_sizes: Callable[..., tuple[int, ...]]
    c_shapes: Callable[..., list[tuple[int, ...]]]
    tolerance: float = 1e-9
    c_file: str = ""  # where it is not called as the function
    result: str = ""  # the dtype of the results, where it is not that of the first argument


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


# ---------------------------------------------------------------- NumPy


def chain_numpy(x: Array) -> Any:
    return np.sqrt((x * 2.0 + 1.0) * (x * 0.5 - 0.25) + 3.0) - x * x


def black_scholes_numpy(s: Array, k: Array, t: Array, r: float, v: float) -> Any:
    from scipy.special import erf

    def cdf(x: Array) -> Any:
        return 0.5 * (1.0 + erf(x / np.sqrt(2.0)))

    w = v * np.sqrt(t)
    d1 = (np.log(s / k) + (r + 0.5 * v * v) * t) / w
    discounted = k * np.exp(-r * t)
    call = s * cdf(d1) - discounted * cdf(d1 - w)
    return call, call - s + discounted


def stencil_numpy(x: Array) -> Any:
    p = np.pad(x, 1, mode="edge")
    around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    return 0.5 * x + 0.125 * around


def convolution_numpy(x: Array, k: Array) -> Any:
    h, w = x.shape
    out = np.zeros((h - 4, w - 4))
    for a in range(5):
        for b in range(5):
            out += k[a, b] * x[a : a + h - 4, b : b + w - 4]
    return out


def softmax_numpy(x: Array) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def distances_numpy(x: Array, y: Array) -> Any:
    return np.sqrt(((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=-1))


def gather_numpy(x: Array, p: Array) -> Any:
    return x[p]


def small_numpy(x: Array) -> Any:
    return 2 * x + 1


def hotspot_numpy(t: Array, power: Array, steps: int, *more: float) -> Any:
    cap, rx, ry, rz, ambient = more
    for _ in range(steps):
        p = np.pad(t, 1, mode="edge")
        down_up = p[2:, 1:-1] + p[:-2, 1:-1] - 2.0 * t
        sides = p[1:-1, 2:] + p[1:-1, :-2] - 2.0 * t
        t = t + cap * (power + down_up * ry + sides * rx + (ambient - t) * rz)
    return t


def pathfinder_numpy(wall: Array) -> Any:
    cost = wall[0]
    for row in wall[1:]:
        p = np.pad(cost, 1, mode="edge")
        cost = row + np.minimum(cost, np.minimum(p[:-2], p[2:]))
    return cost


def mriq_numpy(x: Array, y: Array, z: Array, kx: Array, ky: Array, kz: Array, *phi: Array) -> Any:
    mag = phi[0] ** 2 + phi[1] ** 2
    angle = 2.0 * np.pi * (np.outer(x, kx) + np.outer(y, ky) + np.outer(z, kz))
    return np.cos(angle) @ mag, np.sin(angle) @ mag


def stencil3d_numpy(u: Array, steps: int) -> Any:
    c = slice(1, -1)
    for _ in range(steps):
        new = u.copy()
        around = u[2:, c, c] + u[:-2, c, c] + u[c, 2:, c] + u[c, :-2, c]
        around = around + u[c, c, 2:] + u[c, c, :-2]
        new[c, c, c] = around * (1.0 / 36.0) - u[c, c, c] * (1.0 / 6.0)
        u = new
    return u


def spmv_numpy(rows: Array, cols: Array, vals: Array, x: Array) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix((vals, cols, rows), (len(rows) - 1, len(x))) @ x


def mandelbrot_numpy(re: Array, im: Array, limit: int) -> Any:
    c = re + 1j * im[:, None]
    z, k = np.zeros_like(c), np.zeros(c.shape, np.int64)
    for _ in range(limit):
        inside = z.real**2 + z.imag**2 <= 4.0
        if not inside.any():
            break
        z[inside] = z[inside] ** 2 + c[inside]
        k += inside
    return k


def nbody_numpy(at: Array, mass: Array) -> Any:
    d = at - at[:, None]
    near = (d * d).sum(axis=2) + 1e-9
    return (d * (mass / (near * np.sqrt(near)))[:, :, None]).sum(axis=1)


def kmeans_numpy(x: Array, centre: Array) -> Any:
    distance = ((x[:, None] - centre) ** 2).sum(axis=2)
    near = distance.argmin(axis=1)
    total = np.zeros_like(centre)
    np.add.at(total, near, x)
    return total / np.maximum(np.bincount(near, minlength=len(centre)), 1)[:, None]


# ---------------------------------------------------------------- JAX


def _jax(body: Callable[..., Any]) -> Callable[[Any, Any], Callable[..., Any]]:
    """`body(jnp, …)` as a jitted function."""
    return lambda jax, jnp: jax.jit(lambda *args: body(jax, jnp, *args))


def _black_scholes_jax(jax: Any, jnp: Any, s: Any, k: Any, t: Any, r: Any, v: Any) -> Any:
    def cdf(x: Any) -> Any:
        return 0.5 * (1.0 + jax.scipy.special.erf(x / np.sqrt(2.0)))

    w = v * jnp.sqrt(t)
    d1 = (jnp.log(s / k) + (r + 0.5 * v * v) * t) / w
    discounted = k * jnp.exp(-r * t)
    call = s * cdf(d1) - discounted * cdf(d1 - w)
    return call, call - s + discounted


def _stencil_jax(jax: Any, jnp: Any, x: Any) -> Any:
    p = jnp.pad(x, 1, mode="edge")
    around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    return 0.5 * x + 0.125 * around


def _convolution_jax(jax: Any, jnp: Any, x: Any, k: Any) -> Any:
    h, w = x.shape
    parts = [k[a, b] * x[a : a + h - 4, b : b + w - 4] for a in range(5) for b in range(5)]
    return sum(parts)


def _softmax_jax(jax: Any, jnp: Any, x: Any) -> Any:
    return jax.nn.softmax(x, axis=1)


def _distances_jax(jax: Any, jnp: Any, x: Any, y: Any) -> Any:
    return jnp.sqrt(((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=-1))


def _hotspot_jax(jax: Any, jnp: Any, t: Any, power: Any, steps: Any, *more: Any) -> Any:
    cap, rx, ry, rz, ambient = more

    def step(_: Any, t: Any) -> Any:
        p = jnp.pad(t, 1, mode="edge")
        down_up = p[2:, 1:-1] + p[:-2, 1:-1] - 2.0 * t
        sides = p[1:-1, 2:] + p[1:-1, :-2] - 2.0 * t
        return t + cap * (power + down_up * ry + sides * rx + (ambient - t) * rz)

    return jax.lax.fori_loop(0, steps, step, t)


def _pathfinder_jax(jax: Any, jnp: Any, wall: Any) -> Any:
    def step(cost: Any, row: Any) -> Any:
        p = jnp.pad(cost, 1, mode="edge")
        return row + jnp.minimum(cost, jnp.minimum(p[:-2], p[2:])), None

    return jax.lax.scan(step, wall[0], wall[1:])[0]


def _mriq_jax(
    jax: Any, jnp: Any, x: Any, y: Any, z: Any, kx: Any, ky: Any, kz: Any, *phi: Any
) -> Any:
    mag = phi[0] ** 2 + phi[1] ** 2
    angle = 2.0 * jnp.pi * (jnp.outer(x, kx) + jnp.outer(y, ky) + jnp.outer(z, kz))
    return jnp.cos(angle) @ mag, jnp.sin(angle) @ mag


def _stencil3d_jax(jax: Any, jnp: Any, u: Any, steps: Any) -> Any:
    c = slice(1, -1)

    def step(_: Any, u: Any) -> Any:
        around = u[2:, c, c] + u[:-2, c, c] + u[c, 2:, c] + u[c, :-2, c]
        around = around + u[c, c, 2:] + u[c, c, :-2]
        return u.at[c, c, c].set(around * (1.0 / 36.0) - u[c, c, c] * (1.0 / 6.0))

    return jax.lax.fori_loop(0, steps, step, u)


def _spmv_jax(jax: Any, jnp: Any, rows: Any, cols: Any, vals: Any, x: Any) -> Any:
    row = jnp.repeat(
        jnp.arange(len(rows) - 1), rows[1:] - rows[:-1], total_repeat_length=len(cols)
    )
    return jax.ops.segment_sum(vals * x[cols], row, len(rows) - 1, indices_are_sorted=True)


def _segments_jax(jax: Any, jnp: Any, ends: Any, x: Any) -> Any:
    segment = jnp.repeat(
        jnp.arange(len(ends) - 1), ends[1:] - ends[:-1], total_repeat_length=len(x)
    )
    return jax.ops.segment_sum(x, segment, len(ends) - 1, indices_are_sorted=True)


def _mandelbrot_jax(jax: Any, jnp: Any, re: Any, im: Any, limit: Any) -> Any:
    cr, ci = re + 0.0 * im[:, None], 0.0 * re + im[:, None]

    def step(_: Any, state: Any) -> Any:
        zr, zi, k = state
        inside = zr * zr + zi * zi <= 4.0
        new = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci
        return jnp.where(inside, new[0], zr), jnp.where(inside, new[1], zi), k + inside

    start = 0.0 * cr, 0.0 * ci, jnp.zeros(cr.shape, jnp.int64)
    return jax.lax.fori_loop(0, limit, step, start)[2]


def _nbody_jax(jax: Any, jnp: Any, at: Any, mass: Any) -> Any:
    d = at - at[:, None]
    near = (d * d).sum(axis=2) + 1e-9
    return (d * (mass / (near * jnp.sqrt(near)))[:, :, None]).sum(axis=1)


def _kmeans_jax(jax: Any, jnp: Any, x: Any, centre: Any) -> Any:
    near = ((x[:, None] - centre) ** 2).sum(axis=2).argmin(axis=1)
    total = jnp.zeros_like(centre).at[near].add(x)
    count = jnp.zeros(len(centre)).at[near].add(1.0)
    return total / jnp.maximum(count, 1.0)[:, None]


# ---------------------------------------------------------------- the rows


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


def _histogram(n: int, bins: int) -> Case:
    return Case(
        f"histogram {n:.0e}→{bins}".replace("e+0", "e"), "sums", "histogram",
        lambda: (_rng().integers(0, bins, n), np.zeros(bins)),
        lambda key, bin: np.bincount(key, minlength=len(bin)), "histogram",
        _jax(lambda jax, jnp, key, bin: jnp.bincount(key, length=len(bin))),
        "histogram", lambda key, bin: (len(key), len(bin)), lambda key, bin: [bin.shape],
        c_file="sums",
    )  # fmt: skip


def _image(n: int) -> tuple[Any, ...]:
    return (_rng().standard_normal((n, n)),)


def _matmul(n: int, dtype: str) -> Case:
    tag = "f32" if dtype == "float32" else "f64"
    return Case(
        name=f"matmul {n} {tag}",
        program="matmul",
        definition="matmul",
        data=_square(n, dtype),
        numpy=lambda x, y: x @ y,
        numba="matmul",
        jax=_jax(lambda jax, jnp, x, y: x @ y),
        c=f"matmul_{tag}",
        c_sizes=lambda x, y: (len(x),),
        c_shapes=lambda x, y: [x.shape],
        tolerance=1e-3 if tag == "f32" else 1e-8,
    )


CASES = (
    Case(
        "map chain 10⁶", "chain", "chain", _vector(10**6), chain_numpy, "chain",
        _jax(lambda jax, jnp, x: jnp.sqrt((x * 2.0 + 1.0) * (x * 0.5 - 0.25) + 3.0) - x * x),
        "chain", lambda x: (x.size,), lambda x: [x.shape],
    ),
    Case(
        "Black-Scholes 10⁶", "black_scholes", "black_scholes", lambda: _options(10**6),
        black_scholes_numpy, "black_scholes", _jax(_black_scholes_jax),
        "black_scholes", lambda s, *_: (s.size,), lambda s, *_: [s.shape, s.shape],
    ),
    Case(
        "stencil 1024²", "stencil", "stencil", lambda: _image(1024), stencil_numpy, "stencil",
        _jax(_stencil_jax), "stencil", lambda x: x.shape, lambda x: [x.shape],
    ),
    Case(
        "convolution 1024², 5×5", "convolution", "convolution",
        lambda: (*_image(1024), _rng().standard_normal((5, 5))), convolution_numpy, "convolution",
        _jax(_convolution_jax), "convolution", lambda x, k: x.shape,
        lambda x, k: [(x.shape[0] - 4, x.shape[1] - 4)],
    ),
    *(_matmul(n, d) for n in (64, 512, 1024) for d in ("float32", "float64")),
    Case(
        "row softmax 1000²", "softmax", "rows", lambda: _image(1000), softmax_numpy, "softmax",
        _jax(_softmax_jax), "softmax", lambda x: x.shape, lambda x: [x.shape],
    ),
    Case(
        "distances 1000²×16", "distances", "distances",
        lambda: tuple(_rng().standard_normal((2, 1000, 16))), distances_numpy, "distances",
        _jax(_distances_jax), "distances", lambda x, y: (len(x), len(y), x.shape[1]),
        lambda x, y: [(len(x), len(y))],
    ),
    Case(
        "gather 10⁶", "gather", "gather",
        lambda: (_rng().standard_normal(10**6), _rng().integers(0, 10**6, 10**6)), gather_numpy,
        "gather", _jax(lambda jax, jnp, x, p: x[p]), "gather", lambda x, p: (p.size,),
        lambda x, p: [p.shape],
    ),
    Case(
        "small vector (3)", "small", "small", lambda: (np.array([1.0, 2.0, 3.0]),), small_numpy,
        "small", _jax(lambda jax, jnp, x: 2.0 * x + 1.0), "small", lambda x: (x.size,),
        lambda x: [x.shape],
    ),
    Case(
        "hotspot 512², 20 steps", "hotspot", "hotspot", lambda: _chip(512, 20), hotspot_numpy,
        "hotspot", _jax(_hotspot_jax), "hotspot", lambda t, *_: t.shape, lambda t, *_: [t.shape],
    ),
    Case(
        "pathfinder 200×100 000", "pathfinder", "pathfinder",
        lambda: (_rng().integers(0, 10, (200, 100_000)),), pathfinder_numpy, "pathfinder",
        _jax(_pathfinder_jax), "pathfinder", lambda w: (len(w) - 1, w.shape[1]),
        lambda w: [w.shape[1:]],
    ),
    Case(
        "MRI-Q 4096×2048", "mriq", "mriq", lambda: _scan(4096, 2048), mriq_numpy, "mriq",
        _jax(_mriq_jax), "mriq", lambda x, y, z, k, *_: (x.size, k.size),
        lambda x, *_: [x.shape, x.shape],
    ),
    Case(
        "stencil 128³, 10 steps", "stencil3d", "stencil3d",
        lambda: (_rng().standard_normal((128, 128, 128)), 10), stencil3d_numpy, "stencil3d",
        _jax(_stencil3d_jax), "stencil3d", lambda x, _: x.shape, lambda x, _: [x.shape],
    ),
    _histogram(10**7, 256),
    _histogram(10**6, 10**6),
    Case(
        "segmented sum 10⁶, 10⁵", "sums", "segments",
        lambda: (_ends(10**5, 10**6), _rng().standard_normal(10**6)),
        lambda ends, x: np.diff(np.concatenate([[0.0], np.cumsum(x)])[ends]), "segments",
        _jax(_segments_jax), "segments", lambda ends, x: (len(ends) - 1,),
        lambda ends, x: [(len(ends) - 1,)], c_file="sums", result="float64",
    ),
    Case(
        "sparse matrix × vector 10⁵×16", "sums", "spmv", lambda: _sparse(10**5, 16 * 10**5),
        spmv_numpy, "spmv", _jax(_spmv_jax), "spmv", lambda rows, *_: (len(rows) - 1,),
        lambda rows, *_: [(len(rows) - 1,)], c_file="sums", result="float64",
    ),
    Case(
        "triangular row sums 2000", "sums", "triangle", lambda: _image(2000),
        lambda a: np.tril(a).sum(axis=1), "triangle",
        _jax(lambda jax, jnp, a: jnp.tril(a).sum(axis=1)), "triangle", lambda a: (len(a),),
        lambda a: [(len(a),)], c_file="sums",
    ),
    Case(
        "column sums 2000²", "sums", "columns", lambda: _image(2000), lambda a: a.sum(axis=0),
        "columns", _jax(lambda jax, jnp, a: a.sum(axis=0)), "columns", lambda a: a.shape,
        lambda a: [a.shape[1:]], c_file="sums",
    ),
    Case(
        "prefix sum 10⁶", "sums", "prefix", _vector(10**6), np.cumsum, "prefix",
        _jax(lambda jax, jnp, x: jnp.cumsum(x)), "prefix", lambda x: (x.size,),
        lambda x: [x.shape], c_file="sums",
    ),
    Case(
        "Mandelbrot 400², 100", "mandelbrot", "mandelbrot",
        lambda: (np.linspace(-2.0, 0.6, 400), np.linspace(-1.3, 1.3, 400), 100), mandelbrot_numpy,
        "mandelbrot", _jax(_mandelbrot_jax), "mandelbrot", lambda re, im, _: (im.size, re.size),
        lambda re, im, _: [(im.size, re.size)], tolerance=1.0, result="int64",
    ),
    Case(
        "n-body 1000", "nbody", "accelerations",
        lambda: (_rng().standard_normal((1000, 3)), _rng().uniform(0.5, 1.5, 1000)), nbody_numpy,
        "nbody", _jax(_nbody_jax), "nbody", lambda at, _: (len(at),), lambda at, _: [at.shape],
    ),
    Case(
        "k-means 50 000×16, 16", "kmeans", "lloyd",
        lambda: (_rng().standard_normal((50_000, 16)), _rng().standard_normal((16, 16))),
        kmeans_numpy, "kmeans", _jax(_kmeans_jax), "kmeans",
        lambda x, c: (*x.shape, len(c)), lambda x, c: [c.shape],
    ),
)  # fmt: skip
