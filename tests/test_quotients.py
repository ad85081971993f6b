"""What several rounds read at one place, their number divided, is read back from there: a finer
grid's values, an image made larger. Nothing is added one after the other, in every size."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import naperian as nap
from naperian.dtypes import DType
from naperian.loops.syntax import Apply, Let, Local, Loop, Number, Order, Store
from naperian.names import Lit, Var
from naperian.passes.nests.digits import decided
from naperian.sizes import Size, size

OTHER = re.compile(r"\bi\b")

# a place, and how many rounds there are for n elements
PLACES: dict[str, tuple[Callable[[int, int], int], Callable[[int], int], str]] = {
    "i // 2": (lambda i, n: i // 2, lambda n: 2 * n, "2 * n"),
    "i // 3": (lambda i, n: i // 3, lambda n: 3 * n - 1, "3 * n - 1"),
    "(i + 1) // 2": (lambda i, n: (i + 1) // 2, lambda n: 2 * n - 1, "2 * n - 1"),
    "(i + 7) // 5 - 1": (lambda i, n: (i + 7) // 5 - 1, lambda n: 5 * n - 2, "5 * n - 2"),
    "n - 1 - i // 4": (lambda i, n: n - 1 - i // 4, lambda n: 4 * n, "4 * n"),
    "(2 * n - 1 - i) // 2": (lambda i, n: (2 * n - 1 - i) // 2, lambda n: 2 * n, "2 * n"),
    "clamp((i - 1) // 2, n)": (
        lambda i, n: min(max((i - 1) // 2, 0), n - 1), lambda n: 2 * n + 5, "2 * n + 5",
    ),
    "clamp(i // 2 - 1, n)": (
        lambda i, n: min(max(i // 2 - 1, 0), n - 1), lambda n: 2 * n, "2 * n",
    ),
    "wrap(i // 2 + 1, n)": (lambda i, n: (i // 2 + 1) % n, lambda n: 2 * n, "2 * n"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_what_a_quotient_is_sent(name: str) -> None:
    place, rounds, many = PLACES[name]
    f = nap.compile(f"""
def f(x: Fin(n)=>Float, y: Fin({many})=>Float) -> Float where n >= 1 =
    sum(sin(x[{name}]) * y[i] for i)
def g(x: Fin(n)=>Fin(n)=>Float, y: Fin({many})=>Fin({many})=>Float) -> Float where n >= 1 =
    sum(x[{name}, {OTHER.sub("j", name)}] ** 2 * y[i, j] for i, j)
""")
    slope, both = nap.grad(f.f), nap.grad(f.g)
    for n in (1, 2, 3, 8, 33):
        m = rounds(n)
        rng = np.random.default_rng(n)
        x, y = rng.standard_normal(n), rng.standard_normal(m)
        at = np.array([place(i, n) for i in range(m)])
        want = np.zeros(n)
        np.add.at(want, at, np.cos(x[at]) * y)
        np.testing.assert_allclose(slope(x, y), want, atol=1e-12)
        x2, y2 = rng.standard_normal((n, n)), rng.standard_normal((m, m))
        table = np.zeros((n, n))
        there = np.ix_(at, at)
        np.add.at(table, there, 2 * x2[there] * y2)
        np.testing.assert_allclose(both(x2, y2), table, atol=1e-12)
    if "clamp" not in name:  # where ends are kept, a few are added there
        assert " at [" not in slope.show("prune")
        assert " at [" not in both.show("prune")


def test_a_number_of_the_call_divides() -> None:
    f = nap.compile("""
def f(k: Int, x: Fin(n)=>Float, y: Fin(k * n)=>Float) -> Float where k >= 1 =
    sum(sin(x[i // k]) * y[i] for i)
""").f
    rng = np.random.default_rng(0)
    for n, k in ((1, 1), (5, 3), (20, 7)):
        x, y = rng.standard_normal(n), rng.standard_normal(n * k)
        want = np.cos(x) * y.reshape(n, k).sum(1)
        np.testing.assert_allclose(nap.grad(f, "x")(k, x, y), want, atol=1e-12)


FINER = """
def finer(x: Fin(n + 1)=>Fin(m + 1)=>Float) -> Fin(2 * n + 1)=>Fin(2 * m + 1)=>Float:
    for i, j:
        if i % 2 == 0 and j % 2 == 0: x[i // 2, j // 2]
        elif i % 2 == 0: 0.5 * (x[i // 2, j // 2] + x[i // 2, (j + 1) // 2])
        elif j % 2 == 0: 0.5 * (x[i // 2, j // 2] + x[(i + 1) // 2, j // 2])
        else: 0.25 * (x[i // 2, j // 2] + x[(i + 1) // 2, j // 2]
                      + x[i // 2, (j + 1) // 2] + x[(i + 1) // 2, (j + 1) // 2])

def f(x: Fin(n + 1)=>Fin(m + 1)=>Float) -> Float = sum(sum(finer(x) ** 2))
"""


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (3, 2), (9, 20), (34, 33)])
def test_a_finer_grid(shape: tuple[int, int]) -> None:
    """Written by cases, of which a place in the coarse one is under some."""
    m = nap.compile(FINER)
    x = np.random.default_rng(1).standard_normal(shape)
    ups = []
    for n in shape:
        up = np.zeros((2 * n - 1, n))
        for i in range(2 * n - 1):
            up[i, i // 2] += 0.5
            up[i, (i + 1) // 2] += 0.5
        ups.append(up)
    want = ups[0] @ x @ ups[1].T
    np.testing.assert_allclose(m.finer(x), want, atol=1e-12)
    np.testing.assert_allclose(nap.grad(m.f)(x), 2 * ups[0].T @ want @ ups[1], atol=1e-12)


def test_what_is_left_of_a_multiple_is_known() -> None:
    """Of the loops over the coarse grid, only what is beyond the cut at the end asks for parity."""
    loops = nap.grad(nap.compile(FINER).f).show("loops")
    assert "wrap(2 * i" not in loops


def test_copies_of_a_loop_have_a_name_for_each_its_own() -> None:
    i, n, b, y = (Var(x) for x in ("i", "n", "b", "y"))

    def loop(left: Size) -> Loop:
        even = Apply("eq", (Number(left), Number(size(0))), DType.BOOL, DType.I64)
        ways = Local(b), Lit(1.0, DType.F64), Lit(2.0, DType.F64)
        value = Apply("select", ways, DType.F64, DType.F64)
        body = (Let(b, DType.BOOL, even), Store(y, (size(i),), value))
        return Loop(i, size(0), size(n), body, Order.FREE)

    stored = []
    for s in decided((loop(size(i) % 4), loop(size(1)), loop(size(0)))):
        assert isinstance(s, Loop)
        last = s.body[-1]
        assert isinstance(last, Store)
        stored.append(last.value)
    assert isinstance(stored[0], Apply)
    assert stored[1:] == [Lit(2.0, DType.F64), Lit(1.0, DType.F64)]
