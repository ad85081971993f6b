"""The cases in NumPy, and SciPy where NumPy has nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def chain(x: Array) -> Any:
    return np.sqrt((x * 2.0 + 1.0) * (x * 0.5 - 0.25) + 3.0) - x * x


def black_scholes(s: Array, k: Array, t: Array, r: float, v: float) -> Any:
    from scipy.special import erf

    def cdf(x: Array) -> Any:
        return 0.5 * (1.0 + erf(x * 0.7071067811865476))

    w = v * np.sqrt(t)
    d1 = (np.log(s / k) + (r + 0.5 * v * v) * t) / w
    discounted = k * np.exp(-r * t)
    call = s * cdf(d1) - discounted * cdf(d1 - w)
    return call, call - s + discounted


def stencil(x: Array) -> Any:
    p = np.pad(x, 1, mode="edge")
    around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    return 0.5 * x + 0.125 * around


def convolution(x: Array, k: Array) -> Any:
    h, w = x.shape
    out = np.zeros((h - 4, w - 4))
    for a in range(5):
        for b in range(5):
            out += k[a, b] * x[a : a + h - 4, b : b + w - 4]
    return out


def softmax(x: Array) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def distances(x: Array, y: Array) -> Any:
    return np.sqrt(((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=-1))


def gather(x: Array, p: Array) -> Any:
    return x[p]


def small(x: Array) -> Any:
    return 2 * x + 1


def hotspot(t: Array, power: Array, steps: int, *more: float) -> Any:
    cap, rx, ry, rz, ambient = more
    for _ in range(steps):
        p = np.pad(t, 1, mode="edge")
        down_up = p[2:, 1:-1] + p[:-2, 1:-1] - 2.0 * t
        sides = p[1:-1, 2:] + p[1:-1, :-2] - 2.0 * t
        t = t + cap * (power + down_up * ry + sides * rx + (ambient - t) * rz)
    return t


def pathfinder(wall: Array) -> Any:
    cost = wall[0]
    for row in wall[1:]:
        p = np.pad(cost, 1, mode="edge")
        cost = row + np.minimum(cost, np.minimum(p[:-2], p[2:]))
    return cost


def mriq(x: Array, y: Array, z: Array, kx: Array, ky: Array, kz: Array, *phi: Array) -> Any:
    mag = phi[0] ** 2 + phi[1] ** 2
    angle = 2.0 * np.pi * (np.outer(x, kx) + np.outer(y, ky) + np.outer(z, kz))
    return np.cos(angle) @ mag, np.sin(angle) @ mag


def stencil3d(u: Array, steps: int) -> Any:
    c = slice(1, -1)
    for _ in range(steps):
        new = u.copy()
        around = u[2:, c, c] + u[:-2, c, c] + u[c, 2:, c] + u[c, :-2, c]
        around = around + u[c, c, 2:] + u[c, c, :-2]
        new[c, c, c] = around * (1.0 / 36.0) - u[c, c, c] * (1.0 / 6.0)
        u = new
    return u


def spmv(rows: Array, cols: Array, vals: Array, x: Array) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix((vals, cols, rows), (len(rows) - 1, len(x))) @ x


def mandelbrot(re: Array, im: Array, limit: int) -> Any:
    c = re + 1j * im[:, None]
    z, k = np.zeros_like(c), np.zeros(c.shape, np.int64)
    for _ in range(limit):
        inside = z.real**2 + z.imag**2 <= 4.0
        if not inside.any():
            break
        z[inside] = z[inside] ** 2 + c[inside]
        k += inside
    return k


def nbody(at: Array, mass: Array) -> Any:
    d = at - at[:, None]
    near = (d * d).sum(axis=2) + 1e-9
    return (d * (mass / (near * np.sqrt(near)))[:, :, None]).sum(axis=1)


def kmeans(x: Array, centre: Array) -> Any:
    distance = ((x[:, None] - centre) ** 2).sum(axis=2)
    near = distance.argmin(axis=1)
    total = np.zeros_like(centre)
    np.add.at(total, near, x)
    return total / np.maximum(np.bincount(near, minlength=len(centre)), 1)[:, None]


def matmul(x: Array, y: Array) -> Any:
    return x @ y


def histogram(key: Array, bin: Array) -> Any:
    return np.bincount(key, minlength=len(bin))


def segments(ends: Array, x: Array) -> Any:
    return np.diff(np.concatenate([[0.0], np.cumsum(x)])[ends])


def triangle(a: Array) -> Any:
    return np.tril(a).sum(axis=1)


def columns(a: Array) -> Any:
    return a.sum(axis=0)


def prefix(x: Array) -> Any:
    return np.cumsum(x)


def products(a: Array, b: Array) -> Any:
    return a @ b


def factors(a: Array) -> Any:
    return np.linalg.cholesky(a)


def conv2d(x: Array, k: Array) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    return np.einsum("bchwrs,ocrs->bohw", windows, k, optimize=True)


def attention(q: Array, k: Array, v: Array) -> Any:
    return softmax(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[2], dtype=q.dtype)) @ v


def layer_norm(x: Array, gain: Array, bias: Array) -> Any:
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred * centred).mean(axis=1, keepdims=True)
    return centred / np.sqrt(variance + 1e-5) * gain + bias


def lstm(x: Array, h: Array, c: Array, w: Array, r: Array, bias: Array) -> Any:
    def sigmoid(v: Array) -> Any:
        return 1.0 / (1.0 + np.exp(-v))

    enter, forget, update, out = (x @ w[g] + h @ r[g] + bias[g] for g in range(4))
    cell = sigmoid(forget) * c + sigmoid(enter) * np.tanh(update)
    return sigmoid(out) * np.tanh(cell), cell


def tridiagonal(a: Array, b: Array, c: Array, d: Array) -> Any:
    n = d.shape[-1]
    e, f = np.zeros_like(d), np.zeros_like(d)
    above: Any = (0.0, 0.0)
    for i in range(n):
        pivot = 1.0 / (b[..., i] - a[..., i] * above[0])
        above = c[..., i] * pivot, (d[..., i] - a[..., i] * above[1]) * pivot
        e[..., i], f[..., i] = above
    for i in reversed(range(n - 1)):
        f[..., i] -= e[..., i] * f[..., i + 1]
    return f


def locvol(
    strike: Array, s0: float, t: float, alpha: float, nu: float, beta: float,
    nx: int, ny: int, nt: int,
) -> Any:  # fmt: skip
    def second(x: Array) -> Any:
        l, u = x[1:-1] - x[:-2], x[2:] - x[1:-1]
        d = np.zeros((len(x), 3))
        d[1:-1] = np.stack([2 / l / (l + u), -2 * (1 / l + 1 / u) / (l + u), 2 / u / (l + u)], 1)
        return d

    def implicit(factor: Array, rate: float, v: Array) -> Any:
        return tridiagonal(
            -0.5 * factor[..., 0], rate - 0.5 * factor[..., 1], -0.5 * factor[..., 2], v
        )

    def applied(d: Array, v: Array) -> Any:
        p = np.pad(v, ((0, 0), (0, 0), (1, 1)), mode="edge")
        return d[..., 0] * p[..., :-2] + d[..., 1] * v + d[..., 2] * p[..., 2:]

    dx, dy = 20 * alpha * s0 * np.sqrt(t) / nx, 10 * nu * np.sqrt(t) / ny
    start = int(s0 / dx)
    x, y = (np.arange(nx) - start) * dx + s0, (np.arange(ny) - ny // 2) * dy + np.log(alpha)
    dxx, dyy = second(x), 0.5 * nu * nu * second(y)
    dt = t / (nt - 1)
    # strike => x => y, and with x last where the price is the direction
    value = np.maximum(x - strike[:, None], 0.0)[:, :, None] + np.zeros(ny)
    for now in reversed(np.arange(nt - 1) * dt):
        var = 0.5 * np.exp(2 * (beta * np.log(x) + y[:, None] - 0.5 * nu * nu * now))
        v = applied(dyy, value)
        across = applied(dxx, value.transpose(0, 2, 1))
        u = value.transpose(0, 2, 1) / dt + v.transpose(0, 2, 1) + 0.5 * var * across
        w = implicit(var[..., None] * dxx, 1 / dt, u).transpose(0, 2, 1)
        value = implicit(dyy, 1 / dt, w / dt - 0.5 * v)
    return value[:, start, ny // 2]


def american(s: Array, k: Array, t: Array, r: float, v: float, steps: int) -> Any:
    dt = (t / steps)[:, None]
    up, discount = np.exp(v * np.sqrt(dt)), np.exp(-r * dt)
    p = (1 / discount - 1 / up) / (up - 1 / up)
    j = np.arange(steps + 1)
    price = s[:, None] * up ** (2.0 * j - steps)
    value = np.maximum(k[:, None] - price, 0.0)
    for _ in range(steps):
        price = price[:, :-1] * up
        held = discount * (p * value[:, 1:] + (1 - p) * value[:, :-1])
        value = np.maximum(k[:, None] - price, held)
    return value[:, 0]


def asian(z: Array, s: float, k: float, t: float, r: float, v: float) -> Any:
    steps = z.shape[1]
    dt = t / steps
    drift = (r - 0.5 * v * v) * dt * np.arange(1, steps + 1)
    price = s * np.exp(drift + v * np.sqrt(dt) * z.cumsum(axis=1))
    return np.exp(-r * t) * np.maximum(price.mean(axis=1) - k, 0.0).mean()


def image(x: Array, limit: float) -> Any:
    p = np.pad(x, ((0, 0), (1, 1)), mode="edge")
    rows = 0.25 * p[:, :-2] + 0.5 * x + 0.25 * p[:, 2:]
    p = np.pad(rows, ((1, 1), (0, 0)), mode="edge")
    p = np.pad(0.25 * p[:-2] + 0.5 * rows + 0.25 * p[2:], 1, mode="edge")
    side, down = p[:, 2:] - p[:, :-2], p[2:] - p[:-2]
    dx = side[:-2] + 2.0 * side[1:-1] + side[2:]
    dy = down[:, :-2] + 2.0 * down[:, 1:-1] + down[:, 2:]
    edge = np.sqrt(dx * dx + dy * dy)
    bins = np.minimum((16.0 * edge).astype(int), 63)
    return np.where(edge > limit, edge, 0.0), np.bincount(bins.ravel(), minlength=64)


def fft(re: Array, im: Array) -> Any:
    z = np.fft.fft(re + 1j * im)
    return np.ascontiguousarray(z.real), np.ascontiguousarray(z.imag)


def sort(x: Array) -> Any:
    return np.sort(x)


def transpose(x: Array) -> Any:
    return np.ascontiguousarray(x.T)
