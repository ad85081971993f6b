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


@parallel
def products(a, b):
    out = np.zeros_like(a)
    for i in nb.prange(len(a)):
        for j in range(4):
            for k in range(4):
                for l in range(4):
                    out[i, j, l] += a[i, j, k] * b[i, k, l]
    return out


@parallel
def factors(a):
    out = np.zeros_like(a)
    for s in nb.prange(len(a)):
        for j in range(4):
            for i in range(j, 4):
                total = a[s, i, j]
                for k in range(j):
                    total -= out[s, i, k] * out[s, j, k]
                out[s, i, j] = math.sqrt(total) if i == j else total / out[s, j, j]
    return out


@parallel
def conv2d(x, k):
    batch, inputs, h, w = x.shape
    outputs = len(k)
    out = np.zeros((batch, outputs, h - 2, w - 2), x.dtype)
    for t in nb.prange(batch * outputs):
        b, o = t // outputs, t % outputs
        for c in range(inputs):
            for r in range(3):
                for s in range(3):
                    for i in range(h - 2):
                        for j in range(w - 2):
                            out[b, o, i, j] += x[b, c, i + r, j + s] * k[o, c, r, s]
    return out


@parallel
def attention(q, k, v):
    heads, n, d = q.shape
    m, e = v.shape[1:]
    out = np.zeros((heads, n, e), q.dtype)
    scale = q.dtype.type(1.0 / math.sqrt(d))
    for t in nb.prange(heads * n):
        h, i = t // n, t % n
        p = np.empty(m, q.dtype)
        for j in range(m):
            total = q.dtype.type(0.0)
            for c in range(d):
                total += q[h, i, c] * k[h, j, c]
            p[j] = total * scale
        p = np.exp(p - p.max())
        total = p.sum()
        for j in range(m):
            for c in range(e):
                out[h, i, c] += p[j] / total * v[h, j, c]
    return out


@parallel
def layer_norm(x, gain, bias):
    n, d = x.shape
    out = np.empty_like(x)
    for i in nb.prange(n):
        mean = x[i].sum() / np.float32(d)
        spread = np.float32(0.0)
        for j in range(d):
            spread += (x[i, j] - mean) ** 2
        scale = np.float32(1.0) / np.sqrt(spread / np.float32(d) + np.float32(1e-5))
        for j in range(d):
            out[i, j] = (x[i, j] - mean) * scale * gain[j] + bias[j]
    return out


@parallel
def lstm(x, h, c, w, r, bias):
    b, u = c.shape
    out, cell = np.empty_like(c), np.empty_like(c)
    one = c.dtype.type(1.0)
    for i in nb.prange(b):
        z = bias.copy()
        for g in range(4):
            for k in range(x.shape[1]):
                for j in range(u):
                    z[g, j] += x[i, k] * w[g, k, j]
            for k in range(u):
                for j in range(u):
                    z[g, j] += h[i, k] * r[g, k, j]
        for j in range(u):
            enter, forget = one / (one + np.exp(-z[0, j])), one / (one + np.exp(-z[1, j]))
            cell[i, j] = forget * c[i, j] + enter * np.tanh(z[2, j])
            out[i, j] = np.tanh(cell[i, j]) / (one + np.exp(-z[3, j]))
    return out, cell


@fast
def solve(a, b, c, d, e, x):
    """One system, in x; e is room."""
    n = len(d)
    q, f = 0.0, 0.0
    for i in range(n):
        pivot = 1.0 / (b[i] - a[i] * q)
        q, f = c[i] * pivot, (d[i] - a[i] * f) * pivot
        e[i], x[i] = q, f
    for i in range(n - 2, -1, -1):
        x[i] -= e[i] * x[i + 1]


@parallel
def tridiagonal(a, b, c, d):
    out = np.empty_like(d)
    for s in nb.prange(len(d)):
        solve(a[s], b[s], c[s], d[s], np.empty(d.shape[1]), out[s])
    return out


@fast
def second(x, scale):
    d = np.zeros((3, len(x)))
    for i in range(1, len(x) - 1):
        l, u = x[i] - x[i - 1], x[i + 1] - x[i]
        d[0, i] = scale * 2.0 / l / (l + u)
        d[1, i] = -scale * 2.0 * (1.0 / l + 1.0 / u) / (l + u)
        d[2, i] = scale * 2.0 / u / (l + u)
    return d


@parallel
def locvol(strike, s0, t, alpha, nu, beta, nx, ny, nt):
    dx, dy = 20 * alpha * s0 * math.sqrt(t) / nx, 10 * nu * math.sqrt(t) / ny
    start = int(s0 / dx)
    x, y = (np.arange(nx) - start) * dx + s0, (np.arange(ny) - ny // 2) * dy + math.log(alpha)
    dxx, dyy = second(x, 1.0), second(y, 0.5 * nu * nu)
    dt = t / (nt - 1)
    rate = 1 / dt
    out = np.empty(len(strike))
    for s in nb.prange(len(strike)):
        value, v = np.empty((nx, ny)), np.empty((nx, ny))
        u, w = np.empty((ny, nx)), np.empty((ny, nx))
        da, db, dc, e = np.empty(nx), np.empty(nx), np.empty(nx), np.empty(max(nx, ny))
        for i in range(nx):
            value[i] = max(x[i] - strike[s], 0.0)
        for step in range(nt - 1):
            now = (nt - 2 - step) * dt
            for i in range(nx):
                up, down = max(i - 1, 0), min(i + 1, nx - 1)
                for j in range(ny):
                    v[i, j] = (dyy[0, j] * value[i, max(j - 1, 0)] + dyy[1, j] * value[i, j]
                               + dyy[2, j] * value[i, min(j + 1, ny - 1)])  # fmt: skip
                    var = 0.5 * math.exp(2 * (beta * math.log(x[i]) + y[j] - 0.5 * nu * nu * now))
                    across = (dxx[0, i] * value[up, j] + dxx[1, i] * value[i, j]
                              + dxx[2, i] * value[down, j])  # fmt: skip
                    u[j, i] = rate * value[i, j] + v[i, j] + 0.5 * var * across
            for j in range(ny):
                for i in range(nx):
                    var = 0.5 * math.exp(2 * (beta * math.log(x[i]) + y[j] - 0.5 * nu * nu * now))
                    da[i], dc[i] = -0.5 * var * dxx[0, i], -0.5 * var * dxx[2, i]
                    db[i] = rate - 0.5 * var * dxx[1, i]
                solve(da, db, dc, u[j], e, w[j])
            for i in range(nx):
                solve(-0.5 * dyy[0], rate - 0.5 * dyy[1], -0.5 * dyy[2],
                      rate * w[:, i] - 0.5 * v[i], e, value[i])  # fmt: skip
        out[s] = value[start, ny // 2]
    return out


@parallel
def american(s, k, t, r, v, steps):
    out = np.empty_like(s)
    for o in nb.prange(len(s)):
        dt = t[o] / steps
        up, discount = math.exp(v * math.sqrt(dt)), math.exp(-r * dt)
        p = (1 / discount - 1 / up) / (up - 1 / up)
        price = s[o] * up ** (2.0 * np.arange(steps + 1) - steps)
        value = np.maximum(k[o] - price, 0.0)
        for i in range(steps):
            for j in range(steps - i):
                price[j] *= up
                held = discount * (p * value[j + 1] + (1 - p) * value[j])
                value[j] = max(k[o] - price[j], held)
        out[o] = value[0]
    return out


@parallel
def asian(z, s, k, t, r, v):
    paths, steps = z.shape
    dt = t / steps
    drift, width = (r - 0.5 * v * v) * dt, v * math.sqrt(dt)
    total = 0.0
    for i in nb.prange(paths):
        walk, mean = 0.0, 0.0
        for j in range(steps):
            walk += drift + width * z[i, j]
            mean += s * math.exp(walk)
        total += max(mean / steps - k, 0.0)
    return math.exp(-r * t) * total / paths


@parallel
def image(x, limit):
    h, w = x.shape
    rows, soft, edge = np.empty_like(x), np.empty_like(x), np.empty_like(x)
    seen = np.zeros(64, np.int64)
    for i in nb.prange(h):
        for j in range(w):
            around = x[i, max(j - 1, 0)] + x[i, min(j + 1, w - 1)]
            rows[i, j] = 0.25 * around + 0.5 * x[i, j]
    for i in nb.prange(h):
        for j in range(w):
            around = rows[max(i - 1, 0), j] + rows[min(i + 1, h - 1), j]
            soft[i, j] = 0.25 * around + 0.5 * rows[i, j]
    for i in nb.prange(h):
        u, d = max(i - 1, 0), min(i + 1, h - 1)
        for j in range(w):
            l, r = max(j - 1, 0), min(j + 1, w - 1)
            dx = soft[u, r] - soft[u, l] + 2.0 * (soft[i, r] - soft[i, l]) + soft[d, r] - soft[d, l]
            dy = soft[d, l] - soft[u, l] + 2.0 * (soft[d, j] - soft[u, j]) + soft[d, r] - soft[u, r]
            edge[i, j] = math.sqrt(dx * dx + dy * dy)
    for i in range(h):
        for j in range(w):
            seen[min(int(16.0 * edge[i, j]), 63)] += 1
            if edge[i, j] <= limit:
                edge[i, j] = 0.0
    return edge, seen


@parallel
def fft(re, im):
    rows, n = re.shape
    re, im = re.copy(), im.copy()
    for t in nb.prange(rows):
        a, b, c, d = re[t], im[t], np.empty(n), np.empty(n)
        l, m = n // 2, 1
        while l >= 1:
            for j in range(l):
                wr, wi = math.cos(math.pi * j / l), -math.sin(math.pi * j / l)
                for k in range(m):
                    p, q, o = j * m + k, j * m + k + l * m, 2 * j * m + k
                    x, y = a[p] - a[q], b[p] - b[q]
                    c[o], d[o] = a[p] + a[q], b[p] + b[q]
                    c[o + m], d[o + m] = wr * x - wi * y, wi * x + wr * y
            a, b, c, d = c, d, a, b
            l, m = l // 2, m * 2
        re[t], im[t] = a, b
    return re, im


@fast
def sort(x):
    return np.sort(x)


@parallel
def transpose(x):
    h, w = x.shape
    out = np.empty((w, h), x.dtype)
    for b in nb.prange((h + 15) // 16):
        for c in range(0, w, 16):
            for j in range(c, min(c + 16, w)):
                for i in range(16 * b, min(16 * b + 16, h)):
                    out[j, i] = x[i, j]
    return out
