"""What the rounds of a loop check and do not change is checked in front of it, and what fails
first is what is told."""

from collections.abc import Iterator

import numpy as np
import pytest

import naperian as nap

TEXT = """
def pairs(a: Fin(n)=>Int, b: Fin(m)=>Int, s: Fin(p)=>Fin(q)=>Float) -> Fin(n)=>Float =
    [sum(s[a[i]?, b[j]?] for j) for i]
def turned(a: Fin(n)=>Int, b: Fin(m)=>Int, s: Fin(p)=>Fin(q)=>Float) -> Fin(m)=>Float =
    [sum(s[a[i]?, b[j]?] for i) for j]
def aligned(a: Fin(n)=>Int, b: Fin(m)=>Int, s: Fin(p)=>Fin(q)=>Float) -> Float:
    h = with state([0.0 for i in Fin(n + 1), j in Fin(m + 1)]) as h:
        for i in Fin(n), j in Fin(m):
            h[i + 1, j + 1] := max(h[i, j] + s[a[i]?, b[j]?], max(h[i, j + 1], h[i + 1, j]) - 0.5)
    h[n, m]
def after(a: Fin(n)=>Int, b: Fin(m)=>Int, s: Fin(p)=>Fin(q)=>Float) -> Float:
    loop t = 0.0 for _ in Fin(3):
        loop u = t for i in Fin(n):
            loop v = u for j in Fin(m): 0.5 * v + s[a[i]?, b[j]?]
            v
        u
    t
def rows(a: Fin(n)=>Int, b: Fin(m)=>Float, s: Fin(p)=>Fin(m)=>Float) -> Fin(n)=>Float =
    [sum(s[a[i]?, j] * b[j] for j) for i]
def printed(a: Fin(n)=>Int, b: Fin(m)=>Int, s: Fin(p)=>Fin(q)=>Float) -> Float:
    loop t = 0.0 for i in Fin(n):
        print("row {i}")
        loop u = t for j in Fin(m): u + s[a[i]?, b[j]?]
        u
    t
"""
NAMES = ("pairs", "turned", "aligned", "after", "printed")


def reached(name: str, n: int, m: int) -> Iterator[tuple[int, int]]:
    """The pairs of elements in the order in which they are checked."""
    for k, j in np.ndindex((m, n) if name == "turned" else (n, m)):
        yield (j, k) if name == "turned" else (k, j)


@pytest.mark.parametrize("name", NAMES)
def test_the_first_that_fails_is_told(name: str) -> None:
    f, s = nap.compile(TEXT)[name], np.arange(6.0).reshape(2, 3)
    for n, m in ((0, 0), (0, 3), (3, 0), (2, 3), (3, 1)):
        for bad in ((), (0,), (1,), (2,), (3,), (4,), (0, 4), (1, 3), (2, 3)):
            codes = np.arange(n + m) % 2
            for k in bad:
                codes[k : k + 1] = 10 + k
            a, b = codes[:n].copy(), codes[n:].copy()
            pairs = reached(name, n, m)
            odd = (x for i, j in pairs for x, p in ((a[i], 2), (b[j], 3)) if x >= p)
            first = next(odd, None)
            if first is None:
                f(a, b, s)
            else:
                with pytest.raises(nap.IndexError, match=f"index {first} is"):
                    f(a, b, s)


def test_no_way_out_of_inner_loops() -> None:
    m = nap.compile(TEXT)
    assert "free for j in 0..m reducing or odd" in m.pairs.show("loops")
    fast = m.pairs.show("loops").partition("parallel for i")[2]
    assert "fail 2" not in fast
    for text in (fast, m.rows.show("loops")):
        assert text.index("fail 1") < text.index("free for j in")
    round_of_all = m.aligned.show("loops").split("for j in")[-1]
    assert "fail" not in round_of_all
    assert "last := new" in round_of_all
    assert "fail 2" in m.printed.show("loops").split("for j in")[-1]


def test_values() -> None:
    m, r = nap.compile(TEXT), np.random.default_rng(0)
    a, b, s = r.integers(0, 5, 30), r.integers(0, 4, 41), r.normal(size=(5, 4))
    np.testing.assert_allclose(m.pairs(a, b, s), s[np.ix_(a, b)].sum(1), rtol=1e-12)
    np.testing.assert_allclose(m.turned(a, b, s), s[np.ix_(a, b)].sum(0), rtol=1e-12)
    x = r.normal(size=4)
    np.testing.assert_allclose(m.rows(a, x, s), s[a] @ x, rtol=1e-12)
    h = np.zeros((31, 42))
    for i, j in np.ndindex(30, 41):
        h[i + 1, j + 1] = max(h[i, j] + s[a[i], b[j]], max(h[i, j + 1], h[i + 1, j]) - 0.5)
    assert np.isclose(m.aligned(a, b, s), h[30, 41], rtol=1e-12)
