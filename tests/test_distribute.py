"""A sum of products goes where it adds up least: equal values, operations counted as sizes grow;
what is `strict`, and what only would save a product, stays as it is written."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap
from naperian import pipeline
from naperian.ainf.check import check
from naperian.ainf.parse import parse
from naperian.ainf.run import run
from naperian.ainf.show import show
from naperian.ainf.syntax import Accumulate, Binding, Program
from naperian.core.syntax import Module
from naperian.loops.count import count
from naperian.names import Var
from naperian.passes.algebra.distribute import distribute
from naperian.signed import at
from naperian.substitution import Substitution

# name: parameters and body, for sizes n; the power of n that is written, and what is left of it
LAWS = {
    "a product": (
        "(l: n=>Float, x: n=>n=>Float) -> Float = sum(sum(l[b] * x[i, a] for i, a) for b)", 3, 2,
    ),
    "two factors": (
        "(a: n=>n=>Float, b: n=>n=>Float, c: n=>n=>Float) -> n=>n=>Float =\n"
        "    for i, j: sum(a[i, k] * b[k, l] * c[l, j] for k, l)", 4, 3,
    ),
    "a sum of sums": (
        "(l: n=>n=>Float, x: n=>n=>Float) -> n=>Float =\n"
        "    for b: sum(sum(l[a, b] * x[i, a] for a) for i)", 3, 2,
    ),
    "terms and signs": (
        "(l: n=>n=>Float, x: n=>n=>Float) -> n=>Float =\n"
        "    for b: sum(-(sum(l[a, b] * x[i, a] for a) - x[i, b] / l[b, b]) for i)", 3, 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAWS)
def test_a_sum_goes_where_it_adds_up_least(name: str) -> None:
    text, before, after = LAWS[name]
    m = nap.compile(f"def f{text}\n\n@strict\ndef g{text}\n")
    costs = []
    for n in (5, 20):
        axes = (s.count("n=>") for s in text.split("->")[0].split(","))
        args = [np.cos(np.arange(n**k)).reshape((n,) * k) for k in axes]
        np.testing.assert_allclose(m.f(*args), m.g(*args), rtol=1e-9)
        program = pipeline.lower(*instance(m.f))
        costs.append(count(program, [n] * len(program.sizes), args).total)
    assert costs[1] / costs[0] < 1.2 * 4**after
    assert [largest(pipeline.flat(pipeline.specialise(*instance(f)))) for f in (m.f, m.g)] == [
        after, before
    ]  # fmt: skip


def instance(f: nap.Function) -> tuple[Module, str, Substitution]:
    module = f._program.core()
    return module, f.__name__, at(module.definitions[f.__name__], f._usual())


def largest(program: Program) -> int:
    """How many indices the largest nest of a program has."""
    return max(len({*b.context, *over(b)}) for b in program.bindings)


def over(b: Binding) -> tuple[Var, ...]:
    return b.prim.entries[0].over if isinstance(b.prim, Accumulate) else ()


# parameters and body: sums of products of many factors
MATRICES = {
    "rows and columns": "(a: n=>n=>Float, b: n=>n=>Float, s: n=>Float) -> n=>n=>Float =\n"
    "    [sum(s[i] * a[i, k] * b[k, j] * s[j] for k) for i, j]",
    "elements": "(a: n=>n=>Float, b: n=>n=>Float, c: n=>n=>Float) -> n=>n=>Float =\n"
    "    [sum(a[i, k] * b[k, j] * c[i, j] for k) for i, j]",
    "signs and halves": "(a: n=>n=>Float, b: n=>n=>Float) -> n=>n=>Float =\n"
    "    [sum(-a[i, k] * b[k, j] / 2.0 for k) for i, j]",
    "two products": "(a: n=>n=>Float, b: n=>n=>Float, c: n=>n=>Float) -> n=>n=>Float =\n"
    "    [sum(a[i, k] * b[k, j] - c[i, k] * a[k, j] for k) for i, j]",
    "an axis of what comes out": "(a: n=>n=>Float, b: n=>n=>Float, c: n=>n=>n=>Float) ->"
    " n=>n=>n=>Float =\n    [sum(a[l, k] * exp(c[j, l, i]) * b[k, i] for k) for i, j, l]",
    "factors in turn": "(a: n=>n=>Float, b: n=>n=>Float, w: n=>Float) -> n=>n=>Float =\n"
    "    [sum(a[i, k] * b[k, j] * w[k] * exp(a[i, k]) for k) for i, j]",
}


@pytest.mark.parametrize("name", MATRICES)
def test_products_of_matrices_however_written(name: str) -> None:
    """The sum is contractions, and equal; `strict` adds up what is written."""
    text = MATRICES[name]
    m = nap.compile(f"def f{text}\n\n@strict\ndef g{text}\n")
    many = 2 if name == "two products" else 1
    assert sum("a contraction" in line for line in m.f.account) == many
    assert not any("a contraction" in line for line in m.g.account)
    axes = [s.count("n=>") for s in text.split("->")[0].split(",")]
    for n in (0, 1, 5, 33):
        args = [np.cos(np.arange(n**k) * (k + 1)).reshape((n,) * k) for k in axes]
        np.testing.assert_allclose(m.f(*args), m.g(*args), rtol=1e-9, atol=1e-12)


BILINEAR = """
def total(x: b=>n=>Float, a: n=>m=>Float, y: b=>m=>Float) -> Float =
    sum(sum(x[r, i] * a[i, j] * y[r, j] for i, j) ** 2 for r)
"""


@pytest.mark.parametrize(("wrt", "many"), [("x", 2), ("a", 2), ("y", 2), (("x", "a", "y"), 4)])
def test_the_product_of_a_row_and_a_column_is_for_several(wrt: str, many: int) -> None:
    """Forms of many rows: value and slopes are products of matrices, though they share one."""
    f = nap.compile(BILINEAR).total
    slope = nap.grad(f, wrt)
    assert sum("a contraction" in line for line in slope.account) <= many
    assert "contract out" in slope.show("loops")
    rng = np.random.default_rng(0)
    for b, n, m in ((0, 2, 3), (7, 1, 4), (40, 33, 20)):
        x, a, y = rng.normal(size=(b, n)), rng.normal(size=(n, m)), rng.normal(size=(b, m))
        v = 2 * np.einsum("bi,ij,bj->b", x, a, y)
        right = {
            "x": v[:, None] * (y @ a.T), "a": (v[:, None] * x).T @ y, "y": v[:, None] * (x @ a)
        }  # fmt: skip
        found = slope(x, a, y)
        for k, value in zip(wrt, found if isinstance(wrt, tuple) else (found,), strict=True):
            np.testing.assert_allclose(value, right[k], rtol=1e-9, atol=1e-9)


SHARED = """
def both(x: b=>n=>Float, a: n=>m=>Float) -> (b=>m=>Float, b=>n=>Float):
    p = [x[r, i] * a[i, j] for r, i, j]
    ([sum(p[r, i, j] for i) for r, j], [max(p[r, i, j] for j) for r, i])
"""


def test_a_product_that_is_read_otherwise_too_stays_for_that() -> None:
    rng = np.random.default_rng(0)
    x, a = rng.normal(size=(40, 33)), rng.normal(size=(33, 20))
    one, two = nap.compile(SHARED).both(x, a)
    np.testing.assert_allclose(one, x @ a, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(two, (x[:, :, None] * a).max(2), rtol=1e-15)


STAYS = (
    # one factor for all: a product is saved, and an empty sum is not 0 / 0
    "  for i<n: v = div(x[i], y)\n  s = add over i<n of v[i] from 0.0",
    # read by others
    "  for i<n, j<n: v = mul(x[i], x[j])\n  s = add over i<n, j<n of v[i, j] from 0.0\n"
    "  t = max over k<n, l<n of v[k, l] from -inf",
    # other monoids do not distribute
    "  for i<n, j<n: v = mul(x[i], x[j])\n  s = max over i<n, j<n of v[i, j] from 0.0",
    # what is added up starts from something
    "  for i<n, j<n: v = mul(x[i], x[j])\n  s = add over i<n, j<n of v[i, j] from 1.0",
)


@pytest.mark.parametrize("body", STAYS)
def test_a_sum_stays(body: str) -> None:
    more = "\n  return t" if "t = " in body else ""
    program = parse(f"def f(n; x: F64[n], y: F64):\n{body}\n  return s{more}")
    check(program)
    assert show(distribute(program)) == show(program)


GUARDS = {
    # a triangle: x[i, a] may be summed for all a
    "c": ("for a<n, b<n: c = ge(a, b)", "c[a, b] (a - b >= 0)", "x[i, a]"),
    # a shifted read is in range only where the guard holds, wherever the sum goes
    "shift": ("for a<n: c = ge(a, 1)", "c[a] (a - 1 >= 0)", "x[i, a - 1]"),
}


@pytest.mark.parametrize("name", GUARDS)
def test_a_guard_stays_with_what_it_guards(name: str) -> None:
    test, guard, read = GUARDS[name]
    program = parse(
        "def f(n; l: F64[n, n], x: F64[n, n]):\n"
        f"  {test}\n"
        f"  for i<n, a<n, b<n if {guard}: y = mul(l[a, b], {read})\n"
        f"  for i<n, b<n: z = add over a<n of y[i, a, b] if {guard} from 0.0\n"
        "  for b<n: s = add over i<n of z[i, b] from 0.0\n"
        "  return for b<n: s[b]"
    )
    check(program)
    made = distribute(program)
    check(made)
    assert largest(made) == 2
    for n in range(4):
        r = np.random.default_rng(n)
        args = [r.normal(size=(n, n)), r.normal(size=(n, n))]
        for wanted, found in zip(run(program, [n], args), run(made, [n], args), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
