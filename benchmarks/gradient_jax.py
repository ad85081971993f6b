"""The programs of `gradients.py` in JAX: of our arguments, a thunk of the value and one of the
value with the derivative, in our order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

Thunks = tuple[Callable[[], Any], Callable[[], Any]]


def _thunks(function: Callable[..., Any], derivative: Callable[..., Any], args: Any) -> Thunks:
    one, two = jax.jit(function), jax.jit(derivative)
    there = jax.tree.map(jnp.asarray, args)
    return (
        lambda: jax.block_until_ready(one(*there)),
        lambda: jax.block_until_ready(two(*there)),
    )


def gmm(alpha: Any, mu: Any, q: Any, low: Any, x: Any, gamma: float, m: int) -> Thunks:
    d = mu.shape[1]
    row, column = np.tril_indices(d, -1)

    def value(alpha: Any, mu: Any, q: Any, low: Any, x: Any) -> Any:
        n, k = len(x), len(alpha)
        factor = jnp.zeros((k, d, d)).at[:, row, column].set(low) + jax.vmap(jnp.diag)(jnp.exp(q))
        y = jnp.einsum("kab,nkb->nka", factor, x[:, None] - mu)
        inner = alpha + q.sum(axis=1) - 0.5 * (y * y).sum(axis=2)
        lse = jax.scipy.special.logsumexp
        points = lse(inner, axis=1).sum() - n * (lse(alpha) + 0.5 * d * jnp.log(2 * jnp.pi))
        degrees = d + m + 1
        unit = degrees * d * (jnp.log(gamma) - 0.5 * jnp.log(2.0))
        unit -= jax.scipy.special.multigammaln(0.5 * degrees, d)
        square = (jnp.exp(2 * q)).sum() + (low * low).sum()
        return points + 0.5 * gamma**2 * square - m * q.sum() - k * unit

    return _thunks(value, jax.value_and_grad(value, argnums=(0, 1, 2, 3)), (alpha, mu, q, low, x))


def lstm(w: Any, bias: Any, extra: Any, start: Any, text: Any) -> Thunks:
    def value(w: Any, bias: Any, extra: Any, hidden: Any, cell: Any, text: Any) -> Any:
        def step(memory: Any, pair: Any) -> Any:
            hidden, cell = memory
            x, gold = pair[0] * extra[0], pair[1]
            hiddens, cells = [], []
            for k in range(len(w)):
                forget = jax.nn.sigmoid(x * w[k, 0] + bias[k, 0])
                take = jax.nn.sigmoid(hidden[k] * w[k, 1] + bias[k, 1])
                give = jax.nn.sigmoid(x * w[k, 2] + bias[k, 2])
                change = jnp.tanh(hidden[k] * w[k, 3] + bias[k, 3])
                cells.append(cell[k] * forget + take * change)
                x = give * jnp.tanh(cells[-1])
                hiddens.append(x)
            y = x * extra[1] + extra[2]
            gain = jnp.dot(gold, y - jnp.log(jnp.exp(y).sum() + 2.0))
            return (jnp.stack(hiddens), jnp.stack(cells)), gain

        _, gains = jax.lax.scan(step, (hidden, cell), (text[:-1], text[1:]))
        return -gains.sum() / (text.shape[1] * (len(text) - 1))

    args = (w, bias, extra, start["hidden"], start["cell"], text)
    return _thunks(value, jax.value_and_grad(value, argnums=(0, 1, 2)), args)


def bundle(cameras: Any, points: Any, weights: Any, seen: Any, camera: Any, point: Any) -> Thunks:
    def miss(c: Any, x: Any, weight: Any, seen: Any) -> Any:
        r, away = c["turn"], x - c["centre"]
        angle = jnp.sqrt(r @ r)
        w = r / angle
        y = away * jnp.cos(angle) + jnp.cross(w, away) * jnp.sin(angle)
        y = y + w * (w @ away) * (1.0 - jnp.cos(angle))
        flat = y[:2] / y[2]
        square = flat @ flat
        bent = 1.0 + c["bend"][0] * square + c["bend"][1] * square**2
        return weight * (flat * bent * c["focus"] + c["origin"] - seen)

    def each(f: Callable[..., Any]) -> Callable[..., Any]:
        def all_of_them(cameras: Any, points: Any, *rest: Any) -> Any:
            own = jax.tree.map(lambda a: a[camera], cameras)
            return jax.vmap(f)(own, points[point], *rest)

        return all_of_them

    def slopes(cameras: Any, points: Any, weights: Any, seen: Any) -> Any:
        c, x, w = each(jax.jacrev(miss, argnums=(0, 1, 2)))(cameras, points, weights, seen)
        parts = [c[name] for name in ("turn", "centre", "focus", "origin", "bend")]
        return *parts, x, w, -2.0 * weights

    def errors(cameras: Any, points: Any, weights: Any, seen: Any) -> Any:
        return each(miss)(cameras, points, weights, seen), 1.0 - weights**2

    return _thunks(errors, slopes, (cameras, points, weights, seen))


def hotspot(temp: Any, power: Any, steps: int, *more: float) -> Thunks:
    cap, rx, ry, rz, ambient = more

    def value(temp: Any, power: Any) -> Any:
        def step(t: Any, _: Any) -> Any:
            p = jnp.pad(t, 1, mode="edge")
            down_up = p[2:, 1:-1] + p[:-2, 1:-1] - 2.0 * t
            sides = p[1:-1, 2:] + p[1:-1, :-2] - 2.0 * t
            return t + cap * (power + down_up * ry + sides * rx + (ambient - t) * rz), None

        return jax.lax.scan(step, temp, None, length=steps)[0].sum()

    return _thunks(value, jax.value_and_grad(value, argnums=(0, 1)), (temp, power))


def black_scholes(*args: Any) -> Thunks:
    def value(s: Any, k: Any, t: Any, r: Any, v: Any) -> Any:
        def cdf(x: Any) -> Any:
            return 0.5 * (1.0 + jax.scipy.special.erf(x / jnp.sqrt(2.0)))

        w = v * jnp.sqrt(t)
        d1 = (jnp.log(s / k) + (r + 0.5 * v * v) * t) / w
        discounted = k * jnp.exp(-r * t)
        call = s * cdf(d1) - discounted * cdf(d1 - w)
        return call.sum() + (call - s + discounted).sum()

    return _thunks(value, jax.value_and_grad(value, argnums=(0, 1, 2, 3, 4)), args)


def _bones(theta: Any, model: Any) -> Any:
    """Where each bone takes what is at rest: turns and shifts."""

    def euler(a: Any) -> Any:
        (sx, sy, sz), (cx, cy, cz) = jnp.sin(a), jnp.cos(a)
        x = jnp.array([[1.0, 0.0, 0.0], [0.0, cx, -sx], [0.0, sx, cx]])
        y = jnp.array([[cz, 0.0, sz], [0.0, 1.0, 0.0], [-sz, 0.0, cz]])
        z = jnp.array([[cy, -sy, 0.0], [sy, cy, 0.0], [0.0, 0.0, 1.0]])
        return z @ y @ x

    zero = jnp.zeros(())
    turns, shifts = [], []
    for bone, parent in enumerate(model["parent"]):
        finger, joint = 6 + 4 * ((bone - 1) // 4), (bone - 1) % 4
        bends = 1 <= bone <= 20 and joint > 0
        bend = theta[finger if joint == 1 else finger + joint] if bends else zero
        spread = theta[finger + 1] if bends and joint == 1 else zero
        turn = model["base"]["turn"][bone] @ euler(jnp.stack([bend, spread, zero]))
        shift = model["base"]["shift"][bone]
        if parent >= 0:
            turn, shift = turns[parent] @ turn, turns[parent] @ shift + shifts[parent]
        turns.append(turn)
        shifts.append(shift)
    turns, shifts = jnp.stack(turns), jnp.stack(shifts)
    back = model["inverse"]
    return turns @ back["turn"], jnp.einsum("bij,bj->bi", turns, back["shift"]) + shifts


def _placed(theta: Any, model: Any) -> Any:
    """The vertices of a hand."""
    turns, shifts = _bones(theta, model)
    each = jnp.einsum("bij,vj->vbi", turns, model["rest"]) + shifts
    there = jnp.einsum("vb,vbi->vi", model["weight"], each)
    r = theta[:3]
    angle = jnp.sqrt(r @ r)
    w = r / angle
    cross = jnp.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])
    whole = jnp.eye(3) + jnp.sin(angle) * cross + (1.0 - jnp.cos(angle)) * cross @ cross
    return there @ whole.T + theta[3:6]


def hand_simple(theta: Any, model: Any, vertex: Any, seen: Any) -> Thunks:
    def misses(theta: Any) -> Any:
        return seen - _placed(theta, model)[vertex]

    def slopes(theta: Any) -> Any:
        return jnp.moveaxis(jax.jacfwd(misses)(theta), 2, 0)

    return _thunks(misses, slopes, (theta,))


def hand_complicated(
    theta: Any, at: Any, model: Any, corners: Any, triangle: Any, seen: Any
) -> Thunks:
    def misses(theta: Any, at: Any) -> Any:
        c = _placed(theta, model)[corners[triangle]]
        last = 1.0 - at[:, :1] - at[:, 1:]
        return seen - (at[:, :1] * c[:, 0] + at[:, 1:] * c[:, 1] + last * c[:, 2])

    def slopes(theta: Any, at: Any) -> Any:
        def along(j: int) -> Any:
            unit = jnp.zeros_like(at).at[:, j].set(1.0)
            return jax.jvp(lambda at: misses(theta, at), (at,), (unit,))[1]

        angles = jnp.moveaxis(jax.jacfwd(misses)(theta, at), 2, 0)
        return jnp.stack([along(0), along(1)]), angles

    return _thunks(misses, slopes, (theta, at))
