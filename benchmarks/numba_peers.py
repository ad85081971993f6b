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


@parallel
def hotspot(temp, power, steps, cap, rx, ry, rz, ambient):
    h, w = temp.shape
    a, b = temp.copy(), np.empty_like(temp)
    for _ in range(steps):
        for i in nb.prange(h):
            up, down = max(i - 1, 0), min(i + 1, h - 1)
            for j in range(w):
                left, right = max(j - 1, 0), min(j + 1, w - 1)
                b[i, j] = a[i, j] + cap * (
                    power[i, j]
                    + (a[down, j] + a[up, j] - 2.0 * a[i, j]) * ry
                    + (a[i, right] + a[i, left] - 2.0 * a[i, j]) * rx
                    + (ambient - a[i, j]) * rz
                )
        a, b = b, a
    return a


@parallel
def pathfinder(wall):
    rows, n = wall.shape
    a, b = wall[0].copy(), np.empty_like(wall[0])
    for t in range(1, rows):
        for j in nb.prange(n):
            b[j] = wall[t, j] + min(a[j], min(a[max(j - 1, 0)], a[min(j + 1, n - 1)]))
        a, b = b, a
    return a


@parallel
def mriq(x, y, z, kx, ky, kz, pr, pi):
    n, m = x.size, kx.size
    qr, qi = np.empty(n), np.empty(n)
    mag = pr * pr + pi * pi
    for i in nb.prange(n):
        r, s = 0.0, 0.0
        for k in range(m):
            a = 2.0 * math.pi * (kx[k] * x[i] + ky[k] * y[i] + kz[k] * z[i])
            r += mag[k] * math.cos(a)
            s += mag[k] * math.sin(a)
        qr[i], qi[i] = r, s
    return qr, qi


@parallel
def stencil3d(x, steps):
    p, q, r = x.shape
    a, b = x.copy(), x.copy()
    for _ in range(steps):
        for i in nb.prange(1, p - 1):
            for j in range(1, q - 1):
                for k in range(1, r - 1):
                    around = a[i + 1, j, k] + a[i - 1, j, k] + a[i, j + 1, k] + a[i, j - 1, k]
                    around += a[i, j, k + 1] + a[i, j, k - 1]
                    b[i, j, k] = around * (1.0 / 36.0) - a[i, j, k] * (1.0 / 6.0)
        a, b = b, a
    return a


@fast
def histogram(key, bin):
    out = np.zeros(bin.size, np.int64)
    for i in range(key.size):
        out[key[i]] += 1
    return out


@parallel
def segments(ends, x):
    out = np.empty(ends.size - 1)
    for i in nb.prange(ends.size - 1):
        total = 0.0
        for e in range(ends[i], ends[i + 1]):
            total += x[e]
        out[i] = total
    return out


@parallel
def spmv(rows, cols, vals, x):
    out = np.empty(rows.size - 1)
    for i in nb.prange(rows.size - 1):
        total = 0.0
        for e in range(rows[i], rows[i + 1]):
            total += vals[e] * x[cols[e]]
        out[i] = total
    return out


@parallel
def triangle(a):
    n = len(a)
    out = np.empty(n)
    for i in nb.prange(n):
        total = 0.0
        for j in range(i + 1):
            total += a[i, j]
        out[i] = total
    return out


@fast
def prefix(x):
    out = np.empty_like(x)
    total = 0.0
    for i in range(x.size):
        total += x[i]
        out[i] = total
    return out


@fast
def columns(a):
    n, m = a.shape
    out = np.zeros(m)
    for i in range(n):
        for j in range(m):
            out[j] += a[i, j]
    return out


@parallel
def mandelbrot(re, im, limit):
    out = np.empty((im.size, re.size), np.int64)
    for i in nb.prange(im.size):
        for j in range(re.size):
            zr, zi, k = 0.0, 0.0, 0
            while zr * zr + zi * zi <= 4.0 and k < limit:
                zr, zi, k = zr * zr - zi * zi + re[j], 2.0 * zr * zi + im[i], k + 1
            out[i, j] = k
    return out


@parallel
def nbody(at, mass):
    n = len(at)
    out = np.empty_like(at)
    for i in nb.prange(n):
        ax, ay, az = 0.0, 0.0, 0.0
        for j in range(n):
            dx, dy, dz = at[j, 0] - at[i, 0], at[j, 1] - at[i, 1], at[j, 2] - at[i, 2]
            near = dx * dx + dy * dy + dz * dz + 1e-9
            f = mass[j] / (near * math.sqrt(near))
            ax += f * dx
            ay += f * dy
            az += f * dz
        out[i, 0], out[i, 1], out[i, 2] = ax, ay, az
    return out


@fast
def kmeans(x, centre):
    n, d = x.shape
    k = len(centre)
    count, out = np.zeros(k), np.zeros((k, d))
    for i in range(n):
        near, least = 0, math.inf
        for j in range(k):
            total = 0.0
            for c in range(d):
                total += (x[i, c] - centre[j, c]) ** 2
            if total < least:
                near, least = j, total
        count[near] += 1.0
        for c in range(d):
            out[near, c] += x[i, c]
    for j in range(k):
        for c in range(d):
            out[j, c] /= max(count[j], 1.0)
    return out
