"""Places that are told by digits, or turned around an end, may lie in a larger table: what is
beyond all digits gets nothing from them."""

import numpy as np
import pytest

import naperian as nap

TEXT = """
def turned(x: Fin(8)=>Float, w: Fin(4)=>Float) -> Float = sum(x[(i + 1) % 4] * w[i] for i in Fin(4))
def pairs(x: Fin(3)=>Fin(8)=>Float, w: Fin(12)=>Float) -> Float:
    sum(x[i // 4, i % 4] * w[i] for i in Fin(12))
def triples(x: Fin(2)=>Fin(9)=>Fin(8)=>Float, w: Fin(24)=>Float) -> Float:
    sum(x[i // 12, i // 4 % 3, i % 4] * w[i] for i in Fin(24))
def squares(x: Fin(5)=>Fin(7)=>Float, w: Fin(12)=>Float) -> Float:
    y = [x[i // 4, i % 4] for i in Fin(12)]
    sum(y[i] ** 2 * w[i] for i)

def turned_by(x: Fin(8)=>Float, w: Fin(4)=>Float): grad(turned, wrt="x")(x, w)
def pairs_by(x: Fin(3)=>Fin(8)=>Float, w: Fin(12)=>Float): grad(pairs, wrt="x")(x, w)
def triples_by(x: Fin(2)=>Fin(9)=>Fin(8)=>Float, w: Fin(24)=>Float): grad(triples, wrt="x")(x, w)
def squares_by(x: Fin(5)=>Fin(7)=>Float, w: Fin(12)=>Float): grad(squares, wrt="x")(x, w)

def moved(x: Fin(n)=>Float, v: Fin(m)=>Float) -> Float:
    h = [x[clamp(i)] for i in Fin(m)]
    sum(v[i] * h[wrap(i - 2)] for i in Fin(m))
def moved_by(x: Fin(n)=>Float, v: Fin(m)=>Float): grad(moved)(x, v)

def rows(x: Fin(n)=>Float, g: Fin(m)=>Bool) -> Float:
    r = [[x[clamp(i - 1)] for j in Fin(n) if g[i]] for i in Fin(m)]
    sum(sum(v) for v in r)
def rows_by(x: Fin(n)=>Float, g: Fin(m)=>Bool): grad(rows)(x, g)
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


def test_turned_around_an_end(m) -> None:
    w = np.arange(1.0, 5.0)
    assert m.turned_by(np.ones(8), w).tolist() == [4.0, 1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 0.0]


def test_two_digits(m) -> None:
    w, expected = np.arange(1.0, 13.0), np.zeros((3, 8))
    expected[:, :4] = w.reshape(3, 4)
    np.testing.assert_array_equal(m.pairs_by(np.ones((3, 8)), w), expected)


def test_three_digits(m) -> None:
    w, expected = np.arange(1.0, 25.0), np.zeros((2, 9, 8))
    expected[:, :3, :4] = w.reshape(2, 3, 4)
    np.testing.assert_array_equal(m.triples_by(np.ones((2, 9, 8)), w), expected)


def test_digits_of_a_larger_table(m) -> None:
    x, w = np.arange(35.0).reshape(5, 7), np.arange(1.0, 13.0)
    expected = np.zeros((5, 7))
    expected[:3, :4] = 2.0 * x[:3, :4] * w.reshape(3, 4)
    np.testing.assert_array_equal(m.squares_by(x, w), expected)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 9])
def test_through_a_table_of_another_size(m, n: int, size: int) -> None:
    r = np.random.default_rng(n)
    x, v, expected = r.normal(size=n), r.normal(size=size), np.zeros(n)
    for i in range(size):
        expected[min((i - 2) % size, n - 1)] += v[i]
    np.testing.assert_allclose(m.moved_by(x, v), expected, rtol=1e-12, atol=1e-12)


def test_rows_that_are_kept(m) -> None:
    g, expected = np.array([True, False, True, True, False]), np.zeros(3)
    for i in range(5):
        expected[min(max(i - 1, 0), 2)] += 3.0 * g[i]
    np.testing.assert_array_equal(m.rows_by(np.arange(3.0), g), expected)


def test_pairs_are_looked_through_row_by_row() -> None:
    """Several binders of an `argmin` are one axis of pairs, also where each says what it goes over
    and a condition keeps some: they are not gathered first, and a loop in order divides for none of
    them, either."""
    m = nap.compile("""
def joined(d: Fin(n)=>Fin(n)=>Float, steps: Int) -> Fin(n)=>Bool where n >= 1:
    with state([True for _ in Fin(n)]) as alive:
        for _ in Fin(steps):
            (i, j) = argmin(d[i, j] for i in Fin(n), j in Fin(n) if i < j and alive[i] and alive[j])
            alive[j] := False
""")
    loops = m.joined.show("loops").split("# notes")[0]
    assert "length" not in loops
    assert "for p in 0..(n * n)" not in loops
    r = np.random.default_rng(1)
    for n, steps in ((1, 0), (2, 1), (3, 1), (8, 7), (21, 9)):
        d = np.round(r.random((n, n)), 1)
        alive = np.full(n, True)
        for _ in range(steps):
            pairs = ((d[i, j], i, j) for i in range(n) for j in range(i + 1, n))
            alive[min(p for p in pairs if alive[p[1]] and alive[p[2]])[2]] = False
        np.testing.assert_array_equal(m.joined(d, steps), alive)
    with pytest.raises(AssertionError, match="`argmin` of nothing"):
        m.joined(np.ones((3, 3)), 3)


BEST = """
def f(d: Fin(n)=>Fin(m)=>Float, a: Fin(n)=>Float) -> (Fin(n), Fin(m)) where n >= 1, m >= 1 =
    argmin(d[i, j] + a[i] if i < j else inf for i in Fin(n), j in Fin(m))
"""


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 7), (40, 5), (23, 31)])
def test_the_best_of_pairs_is_looked_for_row_by_row(shape: tuple[int, int]) -> None:
    f = nap.compile(BEST).f
    r = np.random.default_rng(0)
    for several in (np.inf, 3.0, np.nan):
        d, a = r.integers(0, 9, shape) * 1.0, r.integers(0, 4, shape[0]) * 1.0
        d.flat[:: 7] = several
        i, j = np.indices(shape)
        best = np.argmin(np.where(i < j, d + a[:, None], np.inf))
        assert f(d, a) == divmod(int(best), shape[1])
    inside = [x for x in f.show("loops").splitlines() if x.startswith("        ")]
    assert not any("//" in x or "wrap" in x for x in inside)
