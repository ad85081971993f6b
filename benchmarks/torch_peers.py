"""The cases in PyTorch, eager, where it has the operations."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional as F


def chain(x: Any) -> Any:
    return torch.sqrt((x * 2.0 + 1.0) * (x * 0.5 - 0.25) + 3.0) - x * x


def black_scholes(s: Any, k: Any, t: Any, r: float, v: float) -> Any:
    w = v * torch.sqrt(t)
    d1 = (torch.log(s / k) + (r + 0.5 * v * v) * t) / w
    discounted = k * torch.exp(-r * t)
    call = s * torch.special.ndtr(d1) - discounted * torch.special.ndtr(d1 - w)
    return call, call - s + discounted


def stencil(x: Any) -> Any:
    p = F.pad(x[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
    around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    return 0.5 * x + 0.125 * around


def convolution(x: Any, k: Any) -> Any:
    return F.conv2d(x[None, None], k[None, None])[0, 0]


def matmul(x: Any, y: Any) -> Any:
    return x @ y


def softmax(x: Any) -> Any:
    return torch.softmax(x, 1)


def distances(x: Any, y: Any) -> Any:
    return torch.cdist(x, y)


def gather(x: Any, p: Any) -> Any:
    return x[p]


def small(x: Any) -> Any:
    return 2.0 * x + 1.0


def histogram(key: Any, bin: Any) -> Any:
    return torch.bincount(key, minlength=len(bin))


def segments(ends: Any, x: Any) -> Any:
    return torch.segment_reduce(x, "sum", offsets=ends)


def triangle(a: Any) -> Any:
    return torch.tril(a).sum(1)


def columns(a: Any) -> Any:
    return a.sum(0)


def prefix(x: Any) -> Any:
    return torch.cumsum(x, 0)


def products(a: Any, b: Any) -> Any:
    return a @ b


def factors(a: Any) -> Any:
    return torch.linalg.cholesky(a)


def conv2d(x: Any, k: Any) -> Any:
    return F.conv2d(x, k)


def attention(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v)


def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    return F.layer_norm(x, gain.shape, gain, bias)


def lstm(x: Any, h: Any, c: Any, w: Any, r: Any, bias: Any) -> Any:
    enter, forget, update, out = (x @ w[g] + h @ r[g] + bias[g] for g in range(4))
    cell = torch.sigmoid(forget) * c + torch.sigmoid(enter) * torch.tanh(update)
    return torch.sigmoid(out) * torch.tanh(cell), cell


def asian(z: Any, s: float, k: float, t: float, r: float, v: float) -> Any:
    steps = z.shape[1]
    dt = t / steps
    drift = (r - 0.5 * v * v) * dt * torch.arange(1, steps + 1, dtype=z.dtype)
    price = s * torch.exp(drift + v * dt**0.5 * z.cumsum(1))
    return torch.clamp(price.mean(1) - k, min=0.0).mean() * math.exp(-r * t)


def fft(re: Any, im: Any) -> Any:
    z = torch.fft.fft(torch.complex(re, im))
    return z.real.contiguous(), z.imag.contiguous()


def sort(x: Any) -> Any:
    return torch.sort(x)[0]


def transpose(x: Any) -> Any:
    return x.T.contiguous()
