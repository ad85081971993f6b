"""Integers near the ends of 64 bits, where sums wrap around: no index that is proved is wrong."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import naperian as nap

LEAST, MOST = -(2**63), 2**63 - 1
FAR = (LEAST, LEAST + 1, -(2**62) - 3, -3, -1, 0, 1, 2, 3, 4, 5, 2**62, MOST - 1, MOST)

ONE = {
    "x[k + 1] if 0 <= k and k + 1 < n else -1.0": lambda k: k + 1 if k >= 0 else -1,
    "x[k - 2] if k - 2 >= 0 and k < n + 2 else -1.0": lambda k: k - 2,
    "x[3 * k + 1] if k >= 0 and n > 3 * k + 1 else -1.0": lambda k: 3 * k + 1 if k >= 0 else -1,
    "x[2 - k] if k <= 2 and not 2 - k >= n else -1.0": lambda k: 2 - k,
    "x[abs(k)] if abs(k) < n else -1.0": abs,
    "x[-k] if 0 <= -k and -k < n else -1.0": lambda k: -k,
    "x[(k + 1) // 2] if k >= 0 and (k + 1) // 2 < n else -1.0": lambda k: (
        (k + 1) // 2 if k >= 0 else -1
    ),
    "x[k + 1] if k + 1 == 2 and n > 2 else -1.0": lambda k: k + 1 if k + 1 == 2 else -1,
    "x.get(k + 1, -1.0) if k >= 0 else -1.0": lambda k: k + 1 if k >= 0 else -1,
    "x[max(min(k, n - 1), 0)] if n > 0 else -1.0": lambda k: max(min(k, 3), 0),
    "x[min(abs(k), n - 1)] if n > 0 else -1.0": lambda k: min(abs(k), 3),
    "x[clamp(k + 1)]": lambda k: max(min(k + 1, 3), 0),
    "x[clamp(2 - k)]": lambda k: max(min(2 - k, 3), 0),
}

TWO = {
    "x[k + l] if k >= 0 and l >= 0 and k + l < n else -1.0": lambda k, l: (
        k + l if k >= 0 and l >= 0 else -1
    ),
    "x[k - l] if k - l >= 0 and k - l < n else -1.0": lambda k, l: k - l,
    "x[-k - l] if k + l <= 0 and -n < k + l else -1.0": lambda k, l: -k - l,
    "x[max(k, l)] if k >= 0 and max(k, l) < n else -1.0": lambda k, l: max(k, l) if k >= 0 else -1,
    "x[k * l] if k >= 0 and l >= 0 and k * l < n else -1.0": lambda k, l: (
        k * l if k >= 0 and l >= 0 else -1
    ),
    "-1.0 if k * l >= n or 0 > k * l else x[k * l]": lambda k, l: k * l,
    "x[k * l] if k * l == 2 and n > 2 else -1.0": lambda k, l: 2 if k * l == 2 else -1,
    "x[2 * k - l] if n > 2 * k - l and 2 * k >= l else -1.0": lambda k, l: 2 * k - l,
    "x[max(k - l, 0)] if 0 <= l and k < n and n > 0 else -1.0": lambda k, l: (
        max(k - l, 0) if l >= 0 and k < 4 else -1
    ),
    "x[max(0, min(n - 1, k + l))] if n > 0 else -1.0": lambda k, l: max(0, min(3, k + l)),
    "x[min(max(2 * k - l, 0), n - 1)] if n > 0 else -1.0": lambda k, l: min(max(2 * k - l, 0), 3),
    "x[min(k, l)] if min(k, l) >= 0 and l < n else -1.0": lambda k, l: min(k, l) if l < 4 else -1,
}

# what has no name: data in `a`, or a float, where `i` is one of the places of `a`
UNNAMED = {
    "x[max(0, min(n - 2, a[i]))]": lambda k: max(0, min(2, k)),
    "x[max(0, min(n - 2, a[i])) + 1]": lambda k: max(0, min(2, k)) + 1,
    "x[clamp(a[i], 0, n - 1)]": lambda k: max(0, min(3, k)),
    "x[min(abs(a[i]), n - 1)]": lambda k: min(abs(k), 3),
    "x[n - 1 - min(max(a[i], 0), n - 1)]": lambda k: 3 - min(max(k, 0), 3),
    "x[min(max(a[i] - a[0], 0), n - 1)]": lambda k: min(max(LEAST ^ k, 0), 3),
    "x[min(max(i + a[i] - i, 0), n - 1)]": lambda k: min(max(k, 0), 3),
    "x[min(p[i % 4] + 1, n - 1)]": None,
    "x[max(p[i % 4] - p[0], 0)]": None,
}


@pytest.fixture(scope="module")
def m() -> Any:
    lines = [f"def one{k}(x: Fin(n)=>Float, k: Int) -> Float = {e}" for k, e in enumerate(ONE)]
    lines += [
        f"def two{k}(x: Fin(n)=>Float, k: Int, l: Int) -> Float = {e}" for k, e in enumerate(TWO)
    ]
    lines += [
        f"def data{k}(x: Fin(n)=>Float, a: Fin(m)=>Int, p: Fin(4)=>Fin(n)) -> Fin(m)=>Float"
        f" where n >= 4, m >= 1 = [{e} for i]"
        for k, e in enumerate(UNNAMED)
    ]
    return nap.compile("\n".join(lines) + """
def rounded(x: Fin(n)=>Float, a: m=>Float) -> m=>Float where n >= 2 =
    [x[max(0, min(n - 2, Int(floor(v))))] for v in a]
def byte(x: n=>Float, k: U8) -> Float where n >= 256 = x[k]
def signless(x: Fin(n)=>Float, a: m=>Int) -> m=>Float where n >= 4 =
    [x[min(abs(k), n - 1)] for k in a]
def along(x: Fin(n)=>Float, a: m=>Int, b: m=>Int) -> m=>Float =
    for i:
        (p, q) = (a[i], b[i])
        sum(x[j] for j in p..q) if 0 <= p and q <= n else -1.0
def strided(x: Fin(n)=>Float, a: Int) -> Float = sum(x[j] for j in 0..2 * a) if 2 * a <= n else -1.0
def window(x: Fin(n)=>Float, k: Int, l: Int) -> Float =
    sum(x[j] for j in max(0, k - l)..min(n, k + l + 1))
def before(x: Fin(n)=>Float, b: Int) -> Float = sum(x[j] for j in 1..b) if b <= n else -1.0
def kind(x: Fin(n)=>Float, k: Int) -> Float where n >= 4:
    match k + 1:
        case 3: x[k + 1]
        case _: -1.0
def named(x: Fin(n)=>Float, k: Int) -> Float:
    j = k + 1
    assert 0 <= k and j < n
    x[j]
""")


def read(x: np.ndarray, place: Callable[..., int], *at: int) -> float:
    k = place(*at)
    return x[k] if 0 <= k < len(x) else -1.0


@pytest.mark.parametrize("text", ONE)
def test_one(m: Any, text: str) -> None:
    f, x = getattr(m, f"one{[*ONE].index(text)}"), np.arange(4.0) + 10
    assert [f(x, k) for k in FAR] == [read(x, ONE[text], k) for k in FAR]


@pytest.mark.parametrize("text", TWO)
def test_two(m: Any, text: str) -> None:
    f, x = getattr(m, f"two{[*TWO].index(text)}"), np.arange(4.0) + 10
    for k, l in itertools.product(FAR, FAR):
        assert f(x, k, l) == read(x, TWO[text], k, l), (k, l)


@pytest.mark.usefixtures("threads")
def test_parts_of_an_index_that_are_beyond_the_ends(m: Any) -> None:
    x, a = np.arange(4.0) + 10, np.array(FAR * 5)
    np.testing.assert_array_equal(m.signless(x, a), [x[min(abs(k), 3)] for k in FAR] * 5)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("text", UNNAMED)
def test_without_a_name(m: Any, text: str) -> None:
    f, x, a = getattr(m, f"data{[*UNNAMED].index(text)}"), np.arange(4.0) + 10, np.array(FAR)
    p, place = np.array([1, 0, 3, 2]), UNNAMED[text]
    if place is not None:
        want = [x[place(k)] for k in FAR]
    elif "+ 1" in text:
        want = [x[min(p[i % 4] + 1, 3)] for i in range(len(FAR))]
    else:
        want = [x[max(p[i % 4] - p[0], 0)] for i in range(len(FAR))]
    np.testing.assert_array_equal(f(x, a, p), want)


def test_floats_without_a_name(m: Any) -> None:
    x = np.arange(4.0) + 10
    a = np.array([np.nan, np.inf, -np.inf, 2.0**63, -(2.0**63), 1e300, -0.5, 0.0, 1.99, 2.0, 3.5])
    np.testing.assert_array_equal(m.rounded(x, a)[1:], x[[2, 0, 2, 0, 2, 0, 0, 1, 2, 2]])
    assert m.rounded(x, a)[0] == x[0]  # as Int(nan) is 0
    y = np.arange(256.0)
    assert [m.byte(y, k) for k in (0, 127, 128, 255)] == [0.0, 127.0, 128.0, 255.0]


def pairs() -> Iterator[tuple[int, int]]:
    """Ends between which there are few elements, or none."""
    return ((a, b) for a, b in itertools.product(FAR, FAR) if b - a < 10)


@pytest.mark.usefixtures("threads")
def test_ranges(m: Any) -> None:
    x = np.arange(4.0) + 10
    a, b = np.array([*pairs()]).T
    expected = [sum(x[p : max(q, 0)]) if p >= 0 and q <= 4 else -1.0 for p, q in pairs()]
    np.testing.assert_array_equal(m.along(x, a, b), expected)
    for k, r in itertools.product(FAR, FAR):
        assert m.window(x, k, r) == sum(x[max(0, k - r) : max(0, k + r + 1)])
    for k in FAR:
        assert m.before(x, k) == (sum(x[1:k]) if 0 <= k <= 4 else 0.0 if k < 0 else -1.0)
        assert m.strided(x, k) == (sum(x[: 2 * k]) if 0 <= k <= 2 else 0.0 if k < 0 else -1.0)


def test_names_and_cases(m: Any) -> None:
    x = np.arange(4.0) + 10
    assert [m.kind(x, k) for k in FAR] == [13.0 if k == 2 else -1.0 for k in FAR]
    for k in FAR:
        if 0 <= k < 3:
            assert m.named(x, k) == x[k + 1]
        else:
            with pytest.raises(AssertionError, match="is false"):
                m.named(x, k)


def test_what_may_wrap_says_nothing_where_it_does_not_hold() -> None:
    text = "def f(x: Fin(n)=>Float, r: Int, w: Int, c: Int) = {} else 0.0"
    outside = "0.0 if r < 0 or w < 0 or c < 0 or r * w + c >= n else x[r * w + c] if True"
    with pytest.raises(nap.CompileError, match=r"`r \* w \+ c >= n` says so only where it holds"):
        nap.compile(text.format(outside))
    bounded = outside.replace("c < 0 or", "c < 0 or r > 99 or w > n or c > n or")
    f = nap.compile(text.format(bounded)).f
    g = nap.compile(text.format("x[r * w + c] if r >= 0 and w >= 0 and c >= 0 and r * w + c < n")).f
    x = np.arange(50.0)
    for at in [(3, 9, 2), (6, 9, 1), (0, 7, 49), (49, 1, 1), *itertools.product(FAR, FAR, FAR)]:
        r, w, c = at
        fine = min(at) >= 0 and r * w + c < 50
        assert g(x, *at) == (r * w + c if fine else 0.0)
        assert f(x, *at) == (r * w + c if fine and r <= 99 and w <= 50 else 0.0)
