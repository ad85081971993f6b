"""Places, and ends of ranges, that rise and fall along a loop: what is known at both ends of it
says nothing of what lies between."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

PLACES = [
    "i * i - 3 * i", "3 * i - i * i", "i - i % 3", "i + i % 3", "3 * (i // 3)", "i + i // 3",
    "i - 8 * ((i + 7) // 8)", "8 * ((i + 7) // 8) - i", "5 * ((i + 1) // 4) - i", "4 - i % 5",
    "i // 3 + i % 3", "min(i, 4) + i // 2", "(i * i + i) // 2", "2 * i - 3",
]  # fmt: skip

TEXT = """
def read(x: Fin(n)=>Float, y: Fin(m)=>Float) -> Float =
    sum(x[clamp({0})] ** 2 * y[i] for i in Fin(m))

def guarded(x: Fin(n)=>Float, y: Fin(m)=>Float) -> Float:
    z = for i in Fin(m):
        k = {0}
        x[k] if 0 <= k and k < n else 0.5
    sum(z[i] * z[i] * y[i] for i)

def changed(x: Fin(n)=>Float, y: Fin(m)=>Float) -> Float:
    z = with state(x) as s:
        for i in Fin(m): s[clamp({0})] := s[clamp({0})] * y[i] + 0.1
    sum(v ** 2 for v in z)

def ranges(x: Fin(n)=>Float, y: Fin(m)=>Float) -> Float:
    loop t = 0.0 for i in Fin(m):
        loop u = t for j in {0}..{1}: u + x[clamp(j)] ** 2 * y[i]

def strips(x: Fin(n)=>Float, y: Fin(m)=>Float) -> Float:
    loop t = 0.0 for i in Fin(m):
        loop s = t for k in Fin((i + 3) // 4):
            loop u = s for j in 4 * k..min({0}, 4 * k + 4): u + x[clamp(j)] ** 2 * y[i]
"""
NAMES = ["read", "guarded", "changed", "ranges", "strips"]


def expected(name: str, places: tuple[str, str], x: np.ndarray, y: np.ndarray) -> float:
    n, m = len(x), len(y)
    one, two = ([eval(e, {"min": min}, {"i": i}) for i in range(m)] for e in places)

    def total(i: int, low: int, high: int) -> float:
        return sum(x[min(max(j, 0), n - 1)] ** 2 * y[i] for j in range(low, high))

    match name:
        case "read":
            return sum(x[min(max(k, 0), n - 1)] ** 2 * w for k, w in zip(one, y, strict=True))
        case "guarded":
            z = [x[k] if 0 <= k < n else 0.5 for k in one]
            return sum(v * v * w for v, w in zip(z, y, strict=True))
        case "changed":
            s = x.copy()
            for k, w in zip(one, y, strict=True):
                k = min(max(k, 0), n - 1)
                s[k] = s[k] * w + 0.1
            return float(np.sum(s**2))
        case "ranges":
            return sum(total(i, one[i], two[i]) for i in range(m))
        case _:
            parts = ((i, k) for i in range(m) for k in range((i + 3) // 4))
            return sum(total(i, 4 * k, min(one[i], 4 * k + 4)) for i, k in parts)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("k", range(len(PLACES)))
def test_uneven_places(k: int) -> None:
    places = PLACES[k], PLACES[(k + 5) % len(PLACES)]
    gradients = "".join(
        f'\ndef {v}_slopes(x: Fin(n)=>Float, y: Fin(m)=>Float): grad({v}, wrt=("x", "y"))(x, y)\n'
        for v in NAMES
    )
    m = nap.compile(TEXT.format(*places) + gradients)
    r = np.random.default_rng(k)
    for sizes in ((1, 1), (3, 14), (14, 3), (20, 20)):
        x, y, dx, dy = (r.normal(size=size) for size in (*sizes, *sizes))
        for name in NAMES:
            value = expected(name, places, x, y)
            assert np.isclose(m[name](x, y), value, rtol=1e-10, atol=1e-10), (name, places, sizes)
            h = 1e-6
            one, two = (expected(name, places, x + t * dx, y + t * dy) for t in (h, -h))
            gx, gy = m[f"{name}_slopes"](x, y)
            found, slope = np.sum(gx * dx) + np.sum(gy * dy), (one - two) / (2 * h)
            assert np.isclose(found, slope, rtol=1e-5, atol=1e-6), (name, places, sizes)
