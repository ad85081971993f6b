"""The cases in JAX, to be jitted."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)


def black_scholes(s: Any, k: Any, t: Any, r: Any, v: Any) -> Any:
    def cdf(x: Any) -> Any:
        return 0.5 * (1.0 + jax.scipy.special.erf(x * 0.7071067811865476))

    w = v * jnp.sqrt(t)
    d1 = (jnp.log(s / k) + (r + 0.5 * v * v) * t) / w
    discounted = k * jnp.exp(-r * t)
    call = s * cdf(d1) - discounted * cdf(d1 - w)
    return call, call - s + discounted


def stencil(x: Any) -> Any:
    p = jnp.pad(x, 1, mode="edge")
    around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    return 0.5 * x + 0.125 * around


def convolution(x: Any, k: Any) -> Any:
    h, w = x.shape
    parts = [k[a, b] * x[a : a + h - 4, b : b + w - 4] for a in range(5) for b in range(5)]
    return sum(parts)


def softmax(x: Any) -> Any:
    return jax.nn.softmax(x, axis=1)


def distances(x: Any, y: Any) -> Any:
    return jnp.sqrt(((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=-1))


def hotspot(t: Any, power: Any, steps: Any, *more: Any) -> Any:
    cap, rx, ry, rz, ambient = more

    def step(_: Any, t: Any) -> Any:
        p = jnp.pad(t, 1, mode="edge")
        down_up = p[2:, 1:-1] + p[:-2, 1:-1] - 2.0 * t
        sides = p[1:-1, 2:] + p[1:-1, :-2] - 2.0 * t
        return t + cap * (power + down_up * ry + sides * rx + (ambient - t) * rz)

    return jax.lax.fori_loop(0, steps, step, t)


def pathfinder(wall: Any) -> Any:
    def step(cost: Any, row: Any) -> Any:
        p = jnp.pad(cost, 1, mode="edge")
        return row + jnp.minimum(cost, jnp.minimum(p[:-2], p[2:])), None

    return jax.lax.scan(step, wall[0], wall[1:])[0]


def mriq(x: Any, y: Any, z: Any, kx: Any, ky: Any, kz: Any, *phi: Any) -> Any:
    mag = phi[0] ** 2 + phi[1] ** 2
    angle = 2.0 * jnp.pi * (jnp.outer(x, kx) + jnp.outer(y, ky) + jnp.outer(z, kz))
    return jnp.cos(angle) @ mag, jnp.sin(angle) @ mag


def stencil3d(u: Any, steps: Any) -> Any:
    c = slice(1, -1)

    def step(_: Any, u: Any) -> Any:
        around = u[2:, c, c] + u[:-2, c, c] + u[c, 2:, c] + u[c, :-2, c]
        around = around + u[c, c, 2:] + u[c, c, :-2]
        return u.at[c, c, c].set(around * (1.0 / 36.0) - u[c, c, c] * (1.0 / 6.0))

    return jax.lax.fori_loop(0, steps, step, u)


def spmv(rows: Any, cols: Any, vals: Any, x: Any) -> Any:
    row = jnp.repeat(jnp.arange(len(rows) - 1), rows[1:] - rows[:-1], total_repeat_length=len(cols))
    return jax.ops.segment_sum(vals * x[cols], row, len(rows) - 1, indices_are_sorted=True)


def segments(ends: Any, x: Any) -> Any:
    segment = jnp.repeat(
        jnp.arange(len(ends) - 1), ends[1:] - ends[:-1], total_repeat_length=len(x)
    )
    return jax.ops.segment_sum(x, segment, len(ends) - 1, indices_are_sorted=True)


def mandelbrot(re: Any, im: Any, limit: Any) -> Any:
    cr, ci = re + 0.0 * im[:, None], 0.0 * re + im[:, None]

    def step(_: Any, state: Any) -> Any:
        zr, zi, k = state
        inside = zr * zr + zi * zi <= 4.0
        new = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci
        return jnp.where(inside, new[0], zr), jnp.where(inside, new[1], zi), k + inside

    start = 0.0 * cr, 0.0 * ci, jnp.zeros(cr.shape, jnp.int64)
    return jax.lax.fori_loop(0, limit, step, start)[2]


def nbody(at: Any, mass: Any) -> Any:
    d = at - at[:, None]
    near = (d * d).sum(axis=2) + 1e-9
    return (d * (mass / (near * jnp.sqrt(near)))[:, :, None]).sum(axis=1)


def kmeans(x: Any, centre: Any) -> Any:
    near = ((x[:, None] - centre) ** 2).sum(axis=2).argmin(axis=1)
    total = jnp.zeros_like(centre).at[near].add(x)
    count = jnp.zeros(len(centre)).at[near].add(1.0)
    return total / jnp.maximum(count, 1.0)[:, None]


def chain(x: Any) -> Any:
    return jnp.sqrt((x * 2.0 + 1.0) * (x * 0.5 - 0.25) + 3.0) - x * x


def matmul(x: Any, y: Any) -> Any:
    return x @ y


def gather(x: Any, p: Any) -> Any:
    return x[p]


def small(x: Any) -> Any:
    return 2.0 * x + 1.0


def histogram(key: Any, bin: Any) -> Any:
    return jnp.bincount(key, length=len(bin))


def triangle(a: Any) -> Any:
    return jnp.tril(a).sum(axis=1)


def columns(a: Any) -> Any:
    return a.sum(axis=0)


def prefix(x: Any) -> Any:
    return jnp.cumsum(x)


def products(a: Any, b: Any) -> Any:
    return a @ b


def factors(a: Any) -> Any:
    return jnp.linalg.cholesky(a)


def conv2d(x: Any, k: Any) -> Any:
    return jax.lax.conv(x, k, (1, 1), "VALID")


def attention(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.softmax(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[2], dtype=q.dtype)) @ v


def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    return jax.nn.standardize(x, epsilon=1e-5) * gain + bias


def lstm(x: Any, h: Any, c: Any, w: Any, r: Any, bias: Any) -> Any:
    enter, forget, update, out = (x @ w[g] + h @ r[g] + bias[g] for g in range(4))
    cell = jax.nn.sigmoid(forget) * c + jax.nn.sigmoid(enter) * jnp.tanh(update)
    return jax.nn.sigmoid(out) * jnp.tanh(cell), cell


def tridiagonal(a: Any, b: Any, c: Any, d: Any) -> Any:
    def eliminate(above: Any, row: Any) -> Any:
        a, b, c, d = row
        pivot = 1.0 / (b - a * above[0])
        here = c * pivot, (d - a * above[1]) * pivot
        return here, here

    def back(x: Any, row: Any) -> Any:
        x = row[1] - row[0] * x
        return x, x

    zero = jnp.zeros(len(d))
    _, rows = jax.lax.scan(eliminate, (zero, zero), (a.T, b.T, c.T, d.T))
    return jax.lax.scan(back, zero, rows, reverse=True)[1].T


def american(s: Any, k: Any, t: Any, r: Any, v: Any, steps: int) -> Any:
    dt = (t / steps)[:, None]
    up, discount = jnp.exp(v * jnp.sqrt(dt)), jnp.exp(-r * dt)
    p = (1 / discount - 1 / up) / (up - 1 / up)
    price = s[:, None] * up ** (2.0 * jnp.arange(steps + 1) - steps)

    def step(_: Any, state: Any) -> Any:
        price, value = state
        after = jnp.roll(value, -1, axis=1)
        price = price * up
        held = discount * (p * after + (1 - p) * value)
        return price, jnp.maximum(k[:, None] - price, held)

    start = price, jnp.maximum(k[:, None] - price, 0.0)
    return jax.lax.fori_loop(0, steps, step, start)[1][:, 0]


def asian(z: Any, s: Any, k: Any, t: Any, r: Any, v: Any) -> Any:
    steps = z.shape[1]
    dt = t / steps
    drift = (r - 0.5 * v * v) * dt * jnp.arange(1, steps + 1)
    price = s * jnp.exp(drift + v * jnp.sqrt(dt) * z.cumsum(axis=1))
    return jnp.exp(-r * t) * jnp.maximum(price.mean(axis=1) - k, 0.0).mean()


def image(x: Any, limit: Any) -> Any:
    p = jnp.pad(x, ((0, 0), (1, 1)), mode="edge")
    rows = 0.25 * p[:, :-2] + 0.5 * x + 0.25 * p[:, 2:]
    p = jnp.pad(rows, ((1, 1), (0, 0)), mode="edge")
    p = jnp.pad(0.25 * p[:-2] + 0.5 * rows + 0.25 * p[2:], 1, mode="edge")
    side, down = p[:, 2:] - p[:, :-2], p[2:] - p[:-2]
    dx = side[:-2] + 2.0 * side[1:-1] + side[2:]
    dy = down[:, :-2] + 2.0 * down[:, 1:-1] + down[:, 2:]
    edge = jnp.sqrt(dx * dx + dy * dy)
    bins = jnp.minimum((16.0 * edge).astype(int), 63)
    return jnp.where(edge > limit, edge, 0.0), jnp.bincount(bins.ravel(), length=64)


def fft(re: Any, im: Any) -> Any:
    z = jnp.fft.fft(re + 1j * im)
    return z.real, z.imag


def sort(x: Any) -> Any:
    return jnp.sort(x)


def transpose(x: Any) -> Any:
    return x.T
