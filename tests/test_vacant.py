"""Axes without elements: what stands in front of a loop over one reads nothing there."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

PROGRAMS = """
def kept(x: Fin(n)=>Float, k: Int) -> Float:
    t = [v for v in sort(x) if v > 0]
    sum(sin(t[clamp(k)]) * v for v in t)

def row(a: Fin(m)=>Fin(n)=>Float, k: Int) -> Fin(m)=>Fin(n)=>Float =
    [[sin(a[clamp(k), j]) for j] for i]

def looked_up(x: Fin(n)=>Float, k: Int) -> Fin(n)=>Float:
    p = argsort(x)
    [sin(x[p[p[clamp(k)]]]) for i]

def around(x: Fin(n)=>Float, k: Int) -> Fin(n)=>Float:
    p = argsort(x)
    [sin(x[p[p[wrap(k)]]]) for i]

def shifted(x: Fin(n)=>Float, m: Int) -> Fin(m)=>Fin(n)=>Float:
    p = argsort(x)
    [[sin(x[p[wrap(3 * i + 1)]]) * x[p[p[clamp(i)]]] * x[j] for j in Fin(n)] for i in Fin(m)]

def checked_elsewhere(w: Fin(n)=>Fin(3)=>Float, q: Fin(n)=>Fin(n), m: Int) =
    [sort(w[q[clamp(3)]]) for i in Fin(m)]

def checked_later(c: Fin(n)=>Int, q: Fin(n)=>Fin(n), m: Int) -> Int:
    loop t = c[q[clamp(-1)]] for i in Fin(m):
        t + 1

def first_of_three(q: Fin(n)=>Fin(n), x: Fin(n)=>Float, m: Int) -> Fin(m)=>Fin(3)=>Float =
    [[x[q[clamp(j - 3)]] for j in Fin(3)] for i in Fin(m)]

def added_to_a_place(x: Fin(n)=>Float, v: m=>Float, c: Fin(n)=>Int, q: Fin(n)=>Fin(n)) -> Float =
    sum(x[q[wrap(c[q[wrap(1)]])]] * w for w in v)
"""


@pytest.mark.parametrize("k", [-3, 0, 10**9])
def test_no_element_is_read_where_there_is_none(k: int) -> None:
    m = nap.compile(PROGRAMS)
    none = np.zeros(0)
    assert m.kept(none, k) == m.kept(-np.ones(5), k) == 0.0
    assert m.row(np.zeros((0, 10**7)), k).shape == (0, 10**7)
    assert m.looked_up(none, k).shape == m.around(none, k).shape == (0,)
    assert m.shifted(none, 50).shape == (50, 0)
    assert nap.grad(m.kept, "x")(none, k).shape == (0,)
    assert nap.grad(m.kept, "x")(-np.ones(5), k).tolist() == [0.0] * 5


def test_a_check_says_nothing_in_front_of_its_loop_or_of_itself() -> None:
    m = nap.compile(PROGRAMS)
    none = np.zeros(0, np.int64)
    assert m.checked_elsewhere(np.zeros((0, 3)), none, 0).shape == (0, 3)
    assert m.checked_elsewhere([[2.0, 1.0, 3.0]], [0], 2).tolist() == [[1.0, 2.0, 3.0]] * 2
    assert m.first_of_three(none, np.zeros(0), 0).shape == (0, 3)
    assert m.first_of_three([1, 0], [2.0, 5.0], 2).tolist() == [[5.0] * 3] * 2
    of_places = nap.grad(m.added_to_a_place)
    assert of_places(np.zeros(0), np.zeros(0), none, none).shape == (0,)
    assert of_places([1.0, 2.0], [3.0, 4.0], [1, 0], [1, 0]).tolist() == [7.0, 0.0]
    for f, x in ((m.checked_elsewhere, np.zeros((0, 3))), (m.checked_later, none)):
        with pytest.raises(nap.RunError, match="`clamp` into an empty set"):
            f(x, none, 1)


def test_elements_are_read_where_there_are_some() -> None:
    m = nap.compile(PROGRAMS)
    x = np.array([3.0, -1.0, 2.0])
    assert np.isclose(m.kept(x, 1), np.sin(3.0) * 5.0)
    p = np.argsort(x)
    assert np.allclose(m.looked_up(x, 1), np.sin(x[p[p[1]]]))
    assert np.allclose(m.around(x, 5), np.sin(x[p[p[2]]]))
    a = np.arange(6.0).reshape(2, 3)
    assert np.allclose(m.row(a, 7), np.sin(a[[1, 1]]))


def test_a_place_that_moves_with_its_loop_is_not_asked_for() -> None:
    """A stencil reads as it did."""
    f = nap.compile("def f(x: Fin(n)=>Float) -> Fin(n)=>Float = [x[clamp(i + 1)] for i]").f
    assert " if n > 0" not in f.show("schedule")
    assert "n > 0:" not in f.show("schedule")


def test_strips_of_a_loop_with_checkpoints_have_rounds() -> None:
    """Where a loop that goes backwards asks for values of its next round, these come later."""
    f = nap.compile("""
def end(x: Float, k: Int) -> Float:
    loop v = x for t in Fin(k) checkpoint(2):
        sin(v) * 1.5
    v
""").end
    slope = nap.grad(f)
    assert "> 0" not in slope.show("loops").partition("for t_2")[2]
    assert abs(slope(0.5, 9) - nap.jvp(f)(0.5, 9, 1.0)[1]) < 1e-12


def test_what_a_signature_says_of_an_axis_is_not_asked_again() -> None:
    """Neither if it says more: where an axis has two elements, it has one."""
    m = nap.compile("""
def f(t: Fin(p)=>Float, u: n=>Float) -> Float where p >= 2:
    def at(a):
        i = clamp(Int(floor(a)), p)
        (a - i) * t[i] + t[clamp(i + 1)]
    sum(at(u[k]) ** 2 for k)
""")
    assert "p > 0" not in m.f.show("loops") + nap.grad(m.f).show("loops")
    t, u = np.array([1.0, 4.0]), np.array([-0.5, 0.25, 1.75, 3.0])
    i = np.clip(np.floor(u).astype(int), 0, 1)
    j = np.minimum(i + 1, 1)
    y = (u - i) * t[i] + t[j]
    want = np.zeros(2)
    np.add.at(want, i, 2 * y * (u - i))
    np.add.at(want, j, 2 * y)
    assert np.isclose(m.f(t, u), (y * y).sum())
    assert np.allclose(nap.grad(m.f)(t, u), want)
    with pytest.raises(nap.ShapeError):
        m.f(t[:1], u)
