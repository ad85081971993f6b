"""What only reads a loop backwards goes in its rounds (`passes/derivatives/turned`), and what a
loop hands on has one history (`passes/fusion/history`)."""

from __future__ import annotations

import re

import numpy as np
import pytest

import naperian as nap

PROGRAMS = """
def smooth(x: t=>n=>Float, a: Float) -> Float:
    s = scan(lambda s, r: a * s + (1.0 - a) * r, [0.0 for j in n], x)
    sum(s[i, j] ** 2 for i, j)
def horner(c: k=>Float, x: n=>Float) -> Float:
    y = for i:
        loop s = 0.0 for j in k: s * x[i] + c[j]
    sum(y ** 2)
def walk(x: t=>Float, a: Float) -> Float:
    loop s = 1.0 for i in t: tanh(a * s + x[i])
def edit(a: Fin(n)=>Float, b: Fin(m)=>Float, g: Float) -> Float:
    last = loop row = [g * j for j in Fin(m + 1)] for i in Fin(n):
        with state([g * (i + 1) for j in Fin(m + 1)]) as out:
            for j in Fin(m):
                out[(j + 1)?] := min(min(row[(j + 1)?], out[j?]) + g, row[j?] + abs(a[i] - b[j]))
    last[m?]
def covariance(x: t=>n=>Float, a: Float, w: n=>Float) -> Float:
    c = loop c = [0.0 for i in n, j in n] for k in t:
        [a * c[i, j] + (1.0 - a) * x[k, i] * x[k, j] for i, j]
    sum(w[i] * c[i, j] * w[j] for i, j)
"""
M = nap.compile(PROGRAMS)


def smooth(x: np.ndarray, a: float) -> float:
    s, total = np.zeros(x.shape[1]), 0.0
    for r in x:
        s = a * s + (1 - a) * r
        total += (s**2).sum()
    return float(total)


def horner(c: np.ndarray, x: np.ndarray) -> float:
    return float((np.polyval(c, x) ** 2).sum())


def walk(x: np.ndarray, a: float) -> float:
    s = 1.0
    for r in x:
        s = np.tanh(a * s + r)
    return float(s)


@pytest.mark.parametrize("many", [1, 2, 7, 40])
@pytest.mark.parametrize("wide", [1, 5, 33])
def test_gradients_of_what_comes_in_at_a_time(many: int, wide: int) -> None:
    rng = np.random.default_rng(many)
    x, c = rng.standard_normal((many, wide)), rng.standard_normal(many)
    y = rng.uniform(-1, 1, wide)
    for f, mine, args in (
        (M.smooth, smooth, (x, 0.7)), (M.horner, horner, (c, y)), (M.walk, walk, (c, 0.6)),
    ):  # fmt: skip
        value, slopes = nap.value_and_grad(f, wrt=(0, 1))(*args)
        np.testing.assert_allclose(value, mine(*args), rtol=1e-12)
        for k, slope in enumerate(slopes):
            way = rng.standard_normal(np.shape(args[k]))
            there, back = (
                mine(*(a + h * way if k == n else a for n, a in enumerate(args)))
                for h in (1e-6, -1e-6)
            )
            want = (there - back) / 2e-6
            np.testing.assert_allclose(np.sum(slope * way), want, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["smooth", "horner", "walk"])
def test_the_cotangent_of_the_state_is_not_kept(name: str) -> None:
    notes = nap.value_and_grad(getattr(M, name), wrt=(0, 1)).show("loops").partition("# notes")[2]
    assert "cotangent of" not in notes.replace("the cotangent of `c` is stored in 8 * k bytes", "")
    assert "another loop reads it" not in notes


def test_strict_programs_add_up_in_the_order_of_the_rounds() -> None:
    m = nap.compile(PROGRAMS.replace("def horner", "@strict\ndef horner"))
    rng = np.random.default_rng(0)
    c, x = rng.standard_normal(5), rng.uniform(-1, 1, 30)
    np.testing.assert_allclose(nap.grad(m.horner)(c, x), nap.grad(M.horner)(c, x), rtol=1e-12)


def edit(a: np.ndarray, b: np.ndarray, g: float) -> float:
    row = [g * j for j in range(len(b) + 1)]
    for i, x in enumerate(a):
        new = [g * (i + 1)]
        for j, y in enumerate(b):
            new.append(min(min(row[j + 1], new[j]) + g, row[j] + abs(x - y)))
        row = new
    return float(row[-1])


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 7), (9, 4), (20, 33)])
def test_a_sum_of_what_each_round_ends_with_goes_on_in_it(n: int, m: int) -> None:
    rng = np.random.default_rng(n)
    a, b, g = rng.standard_normal(n), rng.standard_normal(m), 0.6
    value, slope = nap.value_and_grad(M.edit, wrt="g")(a, b, g)
    assert value == pytest.approx(edit(a, b, g))
    there, back = (edit(a, b, g + h) for h in (1e-6, -1e-6))
    assert slope == pytest.approx((there - back) / 2e-6, rel=1e-6)


def test_the_rows_of_all_rounds_are_not_kept_for_their_sums() -> None:
    notes = nap.grad(M.edit, wrt="g").show("loops").partition("# notes")[2]
    assert "the cotangent of `out` (line 13) is stored in 8 * m + 8 bytes" in notes


def covariance(x: np.ndarray, a: float, w: np.ndarray) -> float:
    c = 0.0
    for r in x:
        c = a * c + (1 - a) * np.outer(r, r)
    return float(w @ c @ w)


@pytest.mark.parametrize(("many", "wide"), [(1, 1), (5, 3), (9, 20), (300, 50)])
def test_gradients_of_what_rounds_spread(many: int, wide: int) -> None:
    """Also where the rounds are made again, strip by strip: 300 states of 50 x 50 are 6 MB."""
    rng = np.random.default_rng(wide)
    args = rng.standard_normal((many, wide)), 0.95, rng.uniform(0, 1, wide)
    value, slopes = nap.value_and_grad(M.covariance, wrt=(0, 1, 2))(*args)
    np.testing.assert_allclose(value, covariance(*args), rtol=1e-12)
    for k, slope in enumerate(slopes):
        way = rng.standard_normal(np.shape(args[k]))
        there, back = (
            covariance(*(a + h * way if k == n else a for n, a in enumerate(args)))
            for h in (1e-6, -1e-6)
        )
        want = (there - back) / 2e-6
        np.testing.assert_allclose(np.sum(slope * way), want, rtol=1e-6, atol=1e-7)


def test_what_rounds_spread_is_summed_in_them() -> None:
    """A product of a matrix with a vector in each round: no state is kept for all times."""
    text, _, notes = nap.grad(M.covariance, wrt="x").show("loops").partition("# notes")
    assert "over time" not in notes
    assert set(re.findall(r"allocate \w+: f64\[(.*), n, n\]", text)) == {"2"}
