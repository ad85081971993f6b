"""The programs of `gradients.py` in PyTorch (eager, as one writes it): of our arguments, a thunk of
the value and one of the value with the derivative, in our order."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

Thunks = tuple[Callable[[], Any], Callable[[], Any]]


def _thunks(function: Callable[..., Any], args: tuple[Any, ...], varied: int) -> Thunks:
    """A scalar function with its gradient by the first `varied` arguments."""
    there = [torch.as_tensor(a) for a in args]

    def value() -> Any:
        with torch.no_grad():
            return function(*there)

    def slope() -> Any:
        inputs = [a.detach().requires_grad_() for a in there[:varied]]
        out = function(*inputs, *there[varied:])
        return out.detach(), *torch.autograd.grad(out, inputs)

    return value, slope


def gmm(alpha: Any, mu: Any, q: Any, low: Any, x: Any, gamma: float, m: int) -> Thunks:
    d = mu.shape[1]
    row, column = torch.tril_indices(d, d, -1)

    def value(alpha: Any, mu: Any, q: Any, low: Any, x: Any) -> Any:
        n, k = len(x), len(alpha)
        factor = torch.diag_embed(torch.exp(q))
        factor = factor.index_put((torch.arange(k)[:, None], row[None], column[None]), low)
        y = torch.einsum("kab,nkb->nka", factor, x[:, None] - mu)
        inner = alpha + q.sum(1) - 0.5 * (y * y).sum(2)
        points = torch.logsumexp(inner, 1).sum()
        points = points - n * (torch.logsumexp(alpha, 0) + 0.5 * d * math.log(2 * math.pi))
        degrees = d + m + 1
        unit = degrees * d * (math.log(gamma) - 0.5 * math.log(2.0))
        unit -= float(torch.special.multigammaln(torch.tensor(0.5 * degrees).double(), d))
        square = torch.exp(2 * q).sum() + (low * low).sum()
        return points + 0.5 * gamma**2 * square - m * q.sum() - k * unit

    return _thunks(value, (alpha, mu, q, low, x), 4)


def lstm(w: Any, bias: Any, extra: Any, start: Any, text: Any) -> Thunks:
    def value(w: Any, bias: Any, extra: Any, hidden: Any, cell: Any, text: Any) -> Any:
        hiddens, cells, gains = list(hidden), list(cell), 0.0
        for t in range(len(text) - 1):
            x = text[t] * extra[0]
            for k in range(len(w)):
                forget = torch.sigmoid(x * w[k, 0] + bias[k, 0])
                take = torch.sigmoid(hiddens[k] * w[k, 1] + bias[k, 1])
                give = torch.sigmoid(x * w[k, 2] + bias[k, 2])
                change = torch.tanh(hiddens[k] * w[k, 3] + bias[k, 3])
                cells[k] = cells[k] * forget + take * change
                hiddens[k] = x = give * torch.tanh(cells[k])
            y = x * extra[1] + extra[2]
            gains = gains + torch.dot(text[t + 1], y - torch.log(torch.exp(y).sum() + 2.0))
        return -gains / (text.shape[1] * (len(text) - 1))

    return _thunks(value, (w, bias, extra, start["hidden"], start["cell"], text), 3)


def bundle(cameras: Any, points: Any, weights: Any, seen: Any, camera: Any, point: Any) -> Thunks:
    names = ("turn", "centre", "focus", "origin", "bend")
    own = {name: torch.from_numpy(cameras[name][camera]) for name in names}
    x, w, s = (torch.from_numpy(np.ascontiguousarray(a)) for a in (points[point], weights, seen))

    def miss(r: Any, c: Any, f: Any, o: Any, b: Any, x: Any, weight: Any, seen: Any) -> Any:
        away = x - c
        angle = torch.sqrt((r * r).sum(-1, keepdim=True))
        w = r / angle
        y = away * torch.cos(angle) + torch.linalg.cross(w, away) * torch.sin(angle)
        y = y + w * (w * away).sum(-1, keepdim=True) * (1.0 - torch.cos(angle))
        flat = y[..., :2] / y[..., 2:]
        square = (flat * flat).sum(-1, keepdim=True)
        bent = 1.0 + b[..., :1] * square + b[..., 1:] * square**2
        return weight[..., None] * (flat * bent * f[..., None] + o - seen)

    args = [*(own[name] for name in names), x, w]

    def value() -> Any:
        return miss(*args, s), 1.0 - w**2

    def slopes() -> Any:
        # a miss depends on its own row alone, so two seeds are enough for all of them
        inputs = [a.detach().requires_grad_() for a in args]
        out = miss(*inputs, s)
        found = []
        for k in range(2):
            seed = torch.zeros_like(out)
            seed[:, k] = 1.0
            found.append(torch.autograd.grad(out, inputs, seed, retain_graph=k == 0))
        return *(torch.stack(pair, 1) for pair in zip(*found, strict=True)), -2.0 * w

    return value, slopes


def hotspot(temp: Any, power: Any, steps: int, *more: float) -> Thunks:
    cap, rx, ry, rz, ambient = more

    def value(temp: Any, power: Any) -> Any:
        t = temp
        for _ in range(steps):
            p = torch.nn.functional.pad(t[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
            down_up = p[2:, 1:-1] + p[:-2, 1:-1] - 2.0 * t
            sides = p[1:-1, 2:] + p[1:-1, :-2] - 2.0 * t
            t = t + cap * (power + down_up * ry + sides * rx + (ambient - t) * rz)
        return t.sum()

    return _thunks(value, (temp, power), 2)


def black_scholes(*args: Any) -> Thunks:
    def value(s: Any, k: Any, t: Any, r: Any, v: Any) -> Any:
        def cdf(x: Any) -> Any:
            return 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))

        w = v * torch.sqrt(t)
        d1 = (torch.log(s / k) + (r + 0.5 * v * v) * t) / w
        discounted = k * torch.exp(-r * t)
        call = s * cdf(d1) - discounted * cdf(d1 - w)
        return call.sum() + (call - s + discounted).sum()

    return _thunks(value, tuple(map(np.asarray, args)), 5)
