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


# ---------------------------------------------------------------- the rows


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
)  # fmt: skip
