"""The cases in Numba: `njit(fastmath=True)`, parallel where its authors would write `prange`."""

from __future__ import annotations

import math

import numba as nb
import numpy as np

fast = nb.njit(fastmath=True)
parallel = nb.njit(fastmath=True, parallel=True)


@parallel
def chain(x):
    out = np.empty_like(x)
    for i in nb.prange(x.size):
        out[i] = math.sqrt((x[i] * 2.0 + 1.0) * (x[i] * 0.5 - 0.25) + 3.0) - x[i] * x[i]
    return out


@fast
def cdf(x):
    return 0.5 * (1.0 + math.erf(x / math.sqrt(2.0)))


@parallel
def black_scholes(s, k, t, r, v):
    call, put = np.empty_like(s), np.empty_like(s)
    for i in nb.prange(s.size):
        w = v * math.sqrt(t[i])
        d1 = (math.log(s[i] / k[i]) + (r + 0.5 * v * v) * t[i]) / w
        discounted = k[i] * math.exp(-r * t[i])
        call[i] = s[i] * cdf(d1) - discounted * cdf(d1 - w)
        put[i] = call[i] - s[i] + discounted
    return call, put


@parallel
def stencil(x):
    h, w = x.shape
    out = np.empty_like(x)
    for i in nb.prange(h):
        up, down = max(i - 1, 0), min(i + 1, h - 1)
        for j in range(w):
            left, right = max(j - 1, 0), min(j + 1, w - 1)
            around = x[up, j] + x[down, j] + x[i, left] + x[i, right]
            out[i, j] = 0.5 * x[i, j] + 0.125 * around
    return out


@parallel
def convolution(x, k):
    h, w = x.shape
    out = np.empty((h - 4, w - 4))
    for i in nb.prange(h - 4):
        for j in range(w - 4):
            total = 0.0
            for a in range(5):
                for b in range(5):
                    total += k[a, b] * x[i + a, j + b]
            out[i, j] = total
    return out


@parallel
def matmul(x, y):
    n, m = x.shape
    p = y.shape[1]
    out = np.zeros((n, p), x.dtype)
    for i in nb.prange(n):
        for j in range(m):
            for k in range(p):
                out[i, k] += x[i, j] * y[j, k]
    return out


@parallel
def softmax(x):
    m, n = x.shape
    out = np.empty_like(x)
    for i in nb.prange(m):
        top = x[i, 0]
        for j in range(1, n):
            top = max(top, x[i, j])
        total = 0.0
        for j in range(n):
            out[i, j] = math.exp(x[i, j] - top)
            total += out[i, j]
        for j in range(n):
            out[i, j] /= total
    return out


@parallel
def distances(x, y):
    n, d = x.shape
    m = y.shape[0]
    out = np.empty((n, m))
    for i in nb.prange(n):
        for j in range(m):
            total = 0.0
            for c in range(d):
                total += (x[i, c] - y[j, c]) ** 2
            out[i, j] = math.sqrt(total)
    return out


@parallel
def gather(x, p):
    out = np.empty(p.size)
    for i in nb.prange(p.size):
        out[i] = x[p[i]]
    return out


@fast
def small(x):
    return 2.0 * x + 1.0
