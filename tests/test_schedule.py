"""AiNF to loops: what is computed stays the same, and the nests are those one would write.

Programs are AiNF by hand. `same` runs the flat program and its loops for several sizes and wants
equal results; the rest of a test says what the loops look like.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import naperian as nap
from naperian import pipeline
from naperian.ainf import run as ainf
from naperian.ainf.check import check as check_ainf
from naperian.ainf.parse import parse
from naperian.ainf.syntax import Program as Flat
from naperian.loops import run as loops
from naperian.loops.check import check
from naperian.loops.show import show
from naperian.loops.syntax import (
    Allocate,
    Contract,
    Let,
    Loop,
    Order,
    Program,
    Update,
    When,
    While,
)
from naperian.loops.walk import statements
from naperian.names import Var
from naperian.passes.fusion.schedule import schedule
from naperian.passes.nests.allocate import allocate
from naperian.sizes import evaluate, size
from naperian.sizes import show as show_size
from naperian.source import Source
from naperian.substitution import Substitution
from naperian.types import F64

Args = Callable[[Flat, dict[str, int], np.random.Generator], list[Any]]


def random_args(flat: Flat, sizes: dict[str, int], rng: np.random.Generator) -> list[Any]:
    """Small whole numbers, so that sums in any order are equal; indices within their bounds."""
    values = {v: sizes[v.name] for v in flat.sizes}

    def number(a: object) -> int:
        assert isinstance(a, Var)
        return values[a]

    out: list[Any] = []
    for p in flat.params:
        shape = tuple(max(0, evaluate(n, number)) for n in p.shape)
        if p.bound is not None:
            bound = evaluate(p.bound, number)
            a = rng.integers(0, max(bound, 1), shape)
        else:
            a = rng.integers(-3, 4, shape)
        out.append(a.astype(p.dtype.value) if shape or p.shape else np.dtype(p.dtype.value).type(a))
    return out


def both(text: str) -> tuple[Flat, Program]:
    flat = parse(text)
    check_ainf(flat)
    program = check(allocate(check(schedule(flat))))
    return flat, program


def same(
    text: str, sizes: Sequence[int] = (0, 1, 2, 5), args: Args = random_args
) -> Program:
    """The loops of a program, when they give what the program means for all sizes."""
    flat, program = both(text)
    rng = np.random.default_rng(7)
    names = [v.name for v in flat.sizes]
    grid = [[]] if not names else [[a] for a in sizes]
    for _ in names[1:]:
        grid = [[*g, a] for g in grid for a in sizes]
    for point in grid:
        given = args(flat, dict(zip(names, point, strict=True)), rng)
        want = ainf.run(flat, point, given)
        got = loops.run(program, point, given)
        for w, g in zip(want, got, strict=True):
            np.testing.assert_array_equal(g, w, err_msg=f"{point}\n{show(program)}")
    return program


def count(program: Program, kind: type) -> int:
    return sum(isinstance(s, kind) for s in statements(program.body))


def orders(program: Program) -> list[Order]:
    return [s.order for s in statements(program.body) if isinstance(s, Loop)]


def innermost(program: Program) -> list[str]:
    return [
        s.var.name for s in statements(program.body)
        if isinstance(s, Loop) and not any(isinstance(x, Loop) for x in statements(s.body))
    ]  # fmt: skip


def test_a_chain_keeps_only_its_result() -> None:
    p = same("""
def f(n; x: F64[n]):
  for i<n: a = mul(x[i], 2.0)
  for j<n: b = add(a[j], 1.0)
  for k<n: c = exp(b[k])
  return for k: c[k]
""")
    assert count(p, Allocate) == 0
    assert orders(p) == [Order.PARALLEL]


def test_max_n_0_rounds_are_n_rounds() -> None:
    """A `Fin(k)` for an integer k has max(k, 0) elements where nothing says that k is not
    negative; the loops over it are one with those over k, and no array is between them."""
    made = nap.compile("""
def running(x: Fin(n)=>Float) -> Fin(n)=>Float = scan(lambda u, v: 0.5 * u + v, 0.0, x)

def f(k: Int, x: Float) -> Float:
    a = [sqrt(x * i) for i in Fin(k)]
    s = running(a)
    sum(s[i] * a[i] for i)

def each(k: Int, x: m=>Float) = f(k, x)
""")
    text = made.each.show("loops").split("# notes")[0]
    assert text.count("0..(clamp(k, k + 1))") == 1
    assert "0..k" not in text
    assert "f64[k]" not in text
    one_by_one = [made.f(5, 0.1), made.f(5, 0.2)]
    np.testing.assert_array_equal(made.each(5, np.array([0.1, 0.2])), one_by_one)
    assert made.each(-3, np.empty(0)).shape == (0,)


def test_outer_product() -> None:
    p = same("""
def f(n, m; x: F64[n], y: F64[m]):
  for i<n, j<m: a = mul(x[i], y[j])
  return for i, j: a[i, j]
""")
    assert count(p, Allocate) == 0
    assert orders(p) == [Order.PARALLEL, Order.FREE]


def test_transpose_and_add_reads_the_view() -> None:
    p = same("""
def f(n, m; x: F64[n, m], y: F64[m, n]):
  for a<n, b<m: t = mul(x[a, b], 2.0)
  for i<m, j<n: r = add(t[j, i], y[i, j])
  return for i, j: r[i, j]
""")
    assert count(p, Allocate) == 0
    assert innermost(p) == ["j"]


def test_softmax_of_rows_is_one_nest_without_an_array_of_its_own() -> None:
    p = same("""
def f(n, m; x: F64[n, m]):
  for i<n: top = max over j<m of x[i, j] from -inf
  for i<n, k<m: d = sub(x[i, k], top[i])
  for i<n, k<m: e = exp(d[i, k])
  for i<n: s = add over l<m of e[i, l] from 0.0
  for i<n, k<m: r = div(e[i, k], s[i])
  return for i, k: r[i, k]
""")
    assert not any(isinstance(s, Allocate) for s in statements(p.body))
    assert orders(p) == [Order.PARALLEL, Order.FREE, Order.FREE, Order.FREE]


def test_softmax_of_a_vector() -> None:
    p = same("""
def f(m; x: F64[m]):
  top = max over j<m of x[j] from -inf
  for k<m: d = sub(x[k], top)
  for k<m: e = exp(d[k])
  s = add over l<m of e[l] from 0.0
  for k<m: r = div(e[k], s)
  return for k: r[k]
""")
    assert count(p, Allocate) == 0  # the exponentials lie in the result
    assert count(p, Loop) == 3


def test_matmul_is_a_contraction_into_the_result() -> None:
    p = same("""
def f(n, m, l; a: F64[n, m], b: F64[m, l]):
  for i<n, j<l, k<m: v = mul(a[i, k], b[k, j])
  for i<n, j<l: c = add over q<m of v[i, j, q] from 0.0
  return for i, j: c[i, j]
""")
    assert count(p, Contract) == 1
    assert count(p, Allocate) == 0
    assert count(p, Loop) == 0


def test_contraction_of_transposed_and_computed_factors() -> None:
    p = same("""
def f(n, m, l; a: F64[m, n], b: F64[l, m]):
  for p<m, q<n: e = exp(a[p, q])
  for i<n, j<l, k<m: v = mul(b[j, k], e[k, i])
  for i<n, j<l: c = add over q2<m of v[i, j, q2] from 0.0
  for i<n, j<l: r = max(c[i, j], 0.0)
  return for i, j: r[i, j]
""")
    assert count(p, Contract) == 1
    assert count(p, Allocate) == 1  # of `e`; `c` lies in the result


def test_integer_products_are_a_nest_side_by_side() -> None:
    p = same("""
def f(n, m, l; a: I64[n, m], b: I64[m, l]):
  for i<n, j<l, k<m: v = mul(a[i, k], b[k, j])
  for i<n, j<l: c = add over q<m of v[i, j, q] from 0
  return for i, j: c[i, j]
""")
    assert count(p, Contract) == 0
    assert innermost(p) == ["j", "j", "j"]
    assert count(p, Update) == 4 + 1  # four rows in one round over `j`, and the last rows


def test_rows_and_columns() -> None:
    rows = same("""
def f(n, m; x: F64[n, m]):
  for i<n: s = add over j<m of x[i, j] from 0.0
  return for i: s[i]
""")
    assert orders(rows) == [Order.PARALLEL, Order.FREE]
    assert count(rows, Update) == count(rows, Allocate) == 0
    columns = same("""
def f(n, m; x: F64[n, m]):
  for j<m: s = add over i<n of x[i, j] from 0.0
  return for j: s[j]
""")
    assert innermost(columns) == ["j", "j", "j"]
    assert count(columns, Update) == 4 + 1  # four rows in one round over `j`, and the last rows
    assert count(columns, Allocate) == 0


def test_a_total_is_a_parallel_reduction() -> None:
    p = same("""
def f(n, m; x: F64[n, m]):
  for i<n, j<m: a = mul(x[i, j], x[i, j])
  s = add over k<n, l<m of a[k, l] from 0.0
  return s
""")
    outer = next(s for s in statements(p.body) if isinstance(s, Loop))
    assert outer.order is Order.PARALLEL
    assert [r.monoid for r in outer.reductions] == ["add"]


def test_mean_and_variance_recompute_the_difference() -> None:
    p = same("""
def f(n; x: F64[n]):
  s = add over i<n of x[i] from 0.0
  c = cast[F64](n)
  m = div(s, c)
  for j<n: d = sub(x[j], m)
  for j<n: q = mul(d[j], d[j])
  v = add over k<n of q[k] from 0.0
  w = sqrt(v)
  for j<n: r = div(d[j], w)
  return for j: r[j]
""")
    assert count(p, Allocate) == 0
    assert count(p, Loop) == 3


def test_a_condition_of_indices_alone_is_asked_in_both_nests() -> None:
    """It was a table of all of them, of five by five elements for each of an image."""
    opening = nap.compile("""
def erode(m: Fin(h)=>Fin(w)=>Bool) -> Fin(h)=>Fin(w)=>Bool =
    [all(m.get((i + a - 2, j + b - 2), False) for a in Fin(5), b in Fin(5)) for i, j]
def dilate(m: Fin(h)=>Fin(w)=>Bool) -> Fin(h)=>Fin(w)=>Bool =
    [any(m.get((i + a - 2, j + b - 2), False) for a in Fin(5), b in Fin(5)) for i, j]
def opening(m: Fin(h)=>Fin(w)=>Bool) -> Fin(h)=>Fin(w)=>Bool = dilate(erode(m))
""").opening
    stored = re.findall(r"allocate (?!small)\w+: (\S+\[.*\])", opening.show("loops"))
    assert stored == ["bool[h, w]"]
    r = np.random.default_rng(0)
    for shape in ((0, 3), (1, 1), (4, 7), (30, 300)):
        m = r.random(shape) < 0.97
        e, d = np.ones(shape, bool), np.zeros(shape, bool)
        for out, op in ((e, np.logical_and), (d, np.logical_or)):
            padded = np.pad(m if out is e else e, 2)
            for a in range(5):
                for b in range(5):
                    op(out, padded[a : a + shape[0], b : b + shape[1]], out=out)
        np.testing.assert_array_equal(opening(m), d)


def test_a_stencil_with_clamps_is_cut() -> None:
    p = same("""
def f(n; x: F64[n]):
  for i<n: a = add(x[clamp(i - 1, n)], x[clamp(i + 1, n)])
  for i<n: b = add(a[i], x[i])
  return for i: b[i]
""", sizes=(0, 1, 2, 3, 5, 20))
    assert orders(p) == [Order.PARALLEL]
    assert [type(s) for s in p.body if not isinstance(s, Let)] == [When, Loop, When]
    assert "x[i - 1] + x[i + 1]" in show(p)


def test_two_stencils_store_the_dear_one() -> None:
    p = same("""
def f(n; x: F64[n]):
  for i<n: a = exp(x[i])
  for i<n: b = add(a[clamp(i - 1, n)], a[clamp(i + 1, n)])
  return for i: b[i]
""")
    assert count(p, Allocate) == 1


def test_a_guard_becomes_a_cut() -> None:
    p = same("""
def f(n; x: F64[n]):
  for i<n: c = lt(i, n - 1)
  for i<n if c[i] (n - 2 - i >= 0): a = sub(x[i + 1], x[i])
  for i<n: r = select(c[i], a[i], 0.0)
  return for i: r[i]
""", sizes=(0, 1, 2, 5, 20))
    main, edge = (s for s in p.body if not isinstance(s, Let))
    assert isinstance(main, Loop)
    assert isinstance(edge, When)
    assert not any(isinstance(s, When) for s in statements(main.body))


def test_a_data_dependent_guard_is_control_flow() -> None:
    p = same("""
def f(n; x: F64[n], p: I64[n]):
  for i<n: c0 = ge(p[i], 0)
  for i<n: c1 = lt(p[i], n)
  for i<n: c = and(c0[i], c1[i])
  for i<n if c[i]: a = mul(x[p[i]], 2.0)
  for i<n if c[i]: b = add(a[i], x[p[i]])
  for i<n: r = select(c[i], b[i], 0.0)
  return for i: r[i]
""")
    assert count(p, When) == 1


def test_prefix_sums_write_the_result() -> None:
    p = same("""
def f(n; x: F64[n]):
  for u: h = delay over t<n from 0.0 next v[t]
  for t<n: v = add(h[t], x[t])
  return for t: v[t]
""")
    assert count(p, Allocate) == 0
    assert orders(p) == [Order.SERIAL]


def test_exclusive_sums() -> None:
    p = same("""
def f(n; x: F64[n]):
  for u: h = delay over t<n from 0.0 next v[t]
  for t<n: v = add(h[t], x[t])
  for i<n: e = copy(h[i])
  return for i: e[i]
""")
    assert count(p, Allocate) == 0


def test_a_carried_scalar() -> None:
    p = same("""
def f(k; x: F64):
  for u: h = delay over t<k from x next v[t]
  for t<k: c = cast[F64](t)
  for t<k: v = add(h[t], c[t])
  return h[k]
""")
    assert count(p, Allocate) == 0
    assert orders(p) == [Order.SERIAL]


def test_two_carried_scalars_change_at_once() -> None:
    same("""
def f(k; x: F64, y: F64):
  for u: a = delay over t<k from x next b[t]
  for w: b = delay over t<k from y next s[t]
  for t<k: s = add(a[t], b[t])
  return a[k]
  return b[k]
""")


def test_a_carried_scalar_for_every_element() -> None:
    p = same("""
def f(k, n; x: F64[n]):
  for i<n, u: h = delay over t<k from x[i] next v[i, t]
  for i<n, t<k: v = mul(h[i, t], 2.0)
  return for i: h[i, k]
""")
    (own,) = (s.buffer for s in statements(p.body) if isinstance(s, Allocate))
    assert own.shape == (size(16),)  # it goes beside others
    assert orders(p) == [Order.PARALLEL, Order.LANES, Order.SERIAL, Order.LANES, Order.LANES]


def test_a_carried_vector_in_place() -> None:
    p = same("""
def f(k, n; x: F64[n]):
  for a<n, u: h = delay over t<k from x[a] next v[t, a]
  for t<k, i<n: v = mul(h[i, t], 2.0)
  return for b<n: h[b, k]
""")
    assert count(p, Allocate) == 0  # in the result itself
    assert any("in place" in n for n in p.notes)


def test_a_carried_vector_takes_turns() -> None:
    p = same("""
def f(k, n; x: F64[n]):
  for a<n, u: h = delay over t<k from x[a] next v[t, a]
  for t<k, i<n: l = add(h[clamp(i - 1, n), t], h[clamp(i + 1, n), t])
  for t<k, i<n: v = sub(l[t, i], h[i, t])
  return for b<n: h[b, k]
""", sizes=(0, 1, 2, 3, 5))
    assert count(p, Allocate) == 1
    assert any("turns" in n for n in p.notes)


def test_a_carried_vector_with_a_norm() -> None:
    p = same("""
def f(k, n; m: F64[n, n], x: F64[n]):
  for a<n, u: h = delay over t<k from x[a] next v[t, a]
  for t<k, i<n, j<n: q = mul(m[i, j], h[j, t])
  for t<k, i<n: y = add over l<n of q[t, i, l] from 0.0
  for t<k: s = max over e<n of y[t, e] from 1.0
  for t<k, i<n: v = sub(y[t, i], s[t])
  return for b<n: h[b, k]
""")
    assert orders(p)[1] is Order.SERIAL


def test_rounds_read_a_table_as_it_lies() -> None:
    """A table from before the loop is in memory: its product with a vector and that of its
    transpose both go along its rows, in the loop backwards, too."""
    f = nap.compile(
        "def f(g: n=>m=>F64, a: n=>F64, v: m=>F64, k: Int) -> F64:\n"
        "    e = [[exp(g[i, j]) for j] for i]\n"
        "    loop v = v for t in Fin(k):\n"
        "        u = [a[i] / sum(e[i, j] * v[j] for j) for i]\n"
        "        [1.0 / sum(e[i, j] * u[i] for i) for j]\n"
        "    sum(v)\n"
    ).f
    lines = nap.grad(f).show("loops").splitlines()
    read, inner = 0, ""
    for line in lines:
        loop = re.search(r"for (\w+) in ", line)
        inner = loop[1] if loop else inner
        for _, j in re.findall(r"out\[(\w+), (\w+)\]", line):
            read += 1
            assert j == inner, "\n".join(lines)
    assert read >= 4


def test_the_whole_history_of_a_carried_vector() -> None:
    same("""
def f(k, n; x: F64[n]):
  for a<n, u: h = delay over t<k from x[a] next v[t, a]
  for t<k, i<n: v = mul(h[i, t], 2.0)
  for b<n, c<k: r = add(h[b, c], h[b, 0])
  return for c, b: r[b, c]
""", sizes=(1, 2, 5))


def test_a_while_loop_over_a_vector() -> None:
    p = same("""
def f(n; x: F64[n]):
  for a<n, u: h = delay over t while go[t] from x[a] next v[t, a]
  for t: s = max over e<n of h[e, t] from -inf
  for t: go = lt(s[t], 50.0)
  for t, i<n: w = abs(h[i, t])
  for t, i<n: v0 = add(w[t, i], h[n - 1 - i, t])
  for t, i<n: v = add(v0[t, i], 4.0)
  for b<n: z = mul(h[b, trips(t)], 2.0)
  return for b: z[b]
""", sizes=(1, 2, 5))
    assert count(p, While) == 1


def test_mandelbrot_stays_in_registers() -> None:
    p = same("""
def f(n, m; x: F64[n], y: F64[m]):
  for i<n, j<m, u: a = delay over t<10 while go[i, j, t] from 0.0 next a3[i, j, t]
  for i<n, j<m, w: b = delay over t from 0.0 next b3[i, j, t]
  for i<n, j<m, t: a1 = mul(a[i, j, t], a[i, j, t])
  for i<n, j<m, t: b1 = mul(b[i, j, t], b[i, j, t])
  for i<n, j<m, t: r = add(a1[i, j, t], b1[i, j, t])
  for i<n, j<m, t: go = lt(r[i, j, t], 4.0)
  for i<n, j<m, t: a2 = sub(a1[i, j, t], b1[i, j, t])
  for i<n, j<m, t: a3 = add(a2[i, j, t], x[i])
  for i<n, j<m, t: b2 = mul(a[i, j, t], b[i, j, t])
  for i<n, j<m, t: b3 = add(b2[i, j, t], y[j])
  for i<n, j<m: c = cast[F64](trips(t, i=i, j=j))
  for i<n, j<m: z = add(c[i, j], a[i, j, trips(t, i=i, j=j)])
  return for i, j: z[i, j]
""")
    assert count(p, Allocate) == 0
    assert count(p, While) == 1
    assert orders(p) == [Order.PARALLEL, Order.FREE]


def test_gather() -> None:
    p = same("""
def f(n, m; x: F64[n], p: I64[m] < n):
  for j<m: y = mul(x[p[j]], 2.0)
  return for j: y[j]
""", sizes=(1, 2, 5))
    assert count(p, Allocate) == 0


def _csr(flat: Flat, sizes: dict[str, int], rng: np.random.Generator) -> list[Any]:
    n, m, nnz = (sizes[v] for v in ("n", "m", "nnz"))
    rows = np.sort(rng.integers(0, nnz + 1, n + 1))
    cols = rng.integers(0, max(m, 1), nnz)
    return [rows, cols, rng.integers(-3, 4, nnz).astype(float), np.arange(m, dtype=float)]


def test_sparse_matrix_times_vector() -> None:
    p = same("""
def f(n, m, nnz; rows: I64[n + 1] < nnz + 1, cols: I64[nnz] < m, vals: F64[nnz], x: F64[m]):
  for i<n, e<rows[i + 1] - rows[i]: v = mul(vals[rows[i] + e], x[cols[rows[i] + e]])
  for i<n: y = add over q<rows[i + 1] - rows[i] of v[i, q] from 0.0
  return for i: y[i]
""", sizes=(1, 2, 5), args=_csr)  # fmt: skip
    assert count(p, Allocate) == 0
    few, many = [Order.PARALLEL, Order.SERIAL], [Order.PARALLEL, Order.FREE]
    assert orders(p) == [Order.PARALLEL, *few, *many]  # the first tests `rows`


def test_histogram() -> None:
    p = same("""
def f(n, m; p: I64[n] < m):
  for b<m: h = add over i<n at [p[i]] of 1 from 0
  return for b: h[b]
""", sizes=(1, 2, 5))
    assert count(p, Update) == 9  # of eight rounds whose keys are tested, and of what is left
    assert count(p, Allocate) == 0


@pytest.mark.parametrize("which", ["argmin", "argmax"])
def test_the_first_best(which: str) -> None:
    text = f"""
def f(n, m; x: F64[n, m]):
  for i<n: k = {which} over j<m of x[i, j] from 0
  return for i: k[i]
"""
    same(text)

    def hazards(flat: Flat, sizes: dict[str, int], rng: np.random.Generator) -> list[Any]:
        shape = (sizes["n"], sizes["m"])
        return [rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], shape)]

    same(text, args=hazards)


def test_nested_conditionals_share_their_tests() -> None:
    same("""
def f(n; x: F64[n]):
  for i<n: c = gt(x[i], 0.0)
  for i<n if c[i]: d = gt(x[i], 1.0)
  for i<n if c[i], d[i]: a = lgamma(x[i])
  for i<n if c[i], not d[i]: b = gamma(x[i])
  for i<n if c[i]: e = select(d[i], a[i], b[i])
  for i<n: r = select(c[i], e[i], -1.0)
  return for i: r[i]
""")


def test_a_loop_under_a_guard() -> None:
    p = same("""
def f(n, m; x: F64[n, m], y: F64[n]):
  for i<n: c = gt(y[i], 0.0)
  for i<n if c[i]: s = add over j<m of x[i, j] from 0.0
  for i<n: r = select(c[i], s[i], 1.0)
  return for i: r[i]
""")
    assert count(p, When) == 1


def test_a_checked_index_is_tested_first() -> None:
    text = """
error 1 "index {value} is not in 0..{size}"
def f(n, m; x: F64[n], p: I64[m]):
  for j<m: k = checked(p[j], n) else 1
  for j<m: y = mul(x[k[j]], 2.0)
  return for j: y[j]
"""
    _, program = both(text)
    given = [np.arange(3.0), np.array([0, 3])]
    with pytest.raises(loops.RunError) as error:
        loops.run(program, [3, 2], given)
    assert error.value.code == 1
    assert error.value.values == (3, 3)
    given = [np.arange(3.0), np.array([2, 0])]
    assert loops.run(program, [3, 2], given)[0].tolist() == [4.0, 0.0]


def test_a_check_comes_before_what_follows() -> None:
    text = """
error 1 "empty"
def f(n; x: F64[n]):
  c = ge(n, 1)
  check c else 1
  y = mul(x[0], 2.0)
  return y
"""
    _, program = both(text)
    with pytest.raises(loops.RunError):
        loops.run(program, [0], [np.zeros(0)])
    assert loops.run(program, [1], [np.ones(1)]) == [2.0]


def test_pairwise_distances() -> None:
    p = same("""
def f(n, m, d; x: F64[n, d], y: F64[m, d]):
  for i<n, j<m, k<d: a = sub(x[i, k], y[j, k])
  for i<n, j<m, k<d: b = mul(a[i, j, k], a[i, j, k])
  for i<n, j<m: s = add over q<d of b[i, j, q] from 0.0
  return for i, j: s[i, j]
""")
    panels = [x.buffer.shape[-1] for x in statements(p.body) if isinstance(x, Allocate)]
    assert panels == [size(16), size(16), size(8)]  # of rows and of sums; no n * m elements
    assert orders(p)[-3:] == [Order.LANES, Order.FREE, Order.FREE]


def test_two_results_of_one_nest() -> None:
    p = same("""
def f(n; x: F64[n]):
  for i<n: a = sin(x[i])
  for i<n: b = cos(a[i])
  return for i: a[i]
  return for i: b[i]
""")
    assert count(p, Allocate) == 0
    assert count(p, Loop) == 1


def test_reductions_of_the_same_array_share_a_loop() -> None:
    p = same("""
def f(n; x: F64[n]):
  s = add over i<n of x[i] from 0.0
  m = max over j<n of x[j] from -inf
  return s
  return m
""")
    assert count(p, Loop) == 1


def test_tables_of_the_same_steps_through_an_array_share_a_loop() -> None:
    """However long the steps are, which only the call says."""
    p = same("""
def f(m, n; x: F64[n]):
  for i<((n) // (m)): a = mul(x[i * m], x[i * m])
  for j<((n) // (m)): b = mul(2.0, x[j * m])
  return for i: a[i]
  return for j: b[j]
""")
    assert count(p, Loop) == 1


def test_a_long_chain_takes_linear_time() -> None:
    """Ten times the lines take less than forty times the time; a square would take 100."""

    def seconds(length: int) -> float:
        lines = ["def f(n; x: F64[n]):", "  for i<n: v0 = mul(x[i], 2.0)"]
        lines += [f"  for i<n: v{k} = add(v{k - 1}[i], 1.0)" for k in range(1, length)]
        lines.append(f"  return for i: v{length - 1}[i]")
        flat = parse("\n".join(lines))
        with pipeline.deep():  # without looking for garbage, as in a compilation
            start = time.process_time()
            program = allocate(schedule(flat))
            took = time.process_time() - start
        assert count(program, Allocate) == 0
        assert loops.run(program, [1], [np.zeros(1)])[0].tolist() == [length - 1]
        return took

    short = min(seconds(200) for _ in range(3))
    # What runs beside a test only ever adds time: one attempt within the limit is proof.
    assert any(seconds(2000) < 40 * short for _ in range(3))


def test_extents_that_may_be_negative_stay_apart() -> None:
    """The product of two negative extents is positive: such loops are not made one."""
    text = """
def f(n, m; x: F64[n, m]):
  for i<n - 2, j<m - 2: a = mul(x[i, j], 2.0)
  return for i, j: a[i, j]
"""
    assert count(same(text, sizes=(0, 1, 2, 5)), Loop) == 2
    assert count(same(text.replace(" - 2", "")), Loop) == 1


# ---------------------------------------------------------------- ragged arrays


def shapes(program: Program) -> list[str]:
    """The temporary buffers' shapes, as written."""
    return [", ".join(map(show_size, s.buffer.shape)) for s in statements(program.body)
            if isinstance(s, Allocate)]  # fmt: skip


def test_a_triangle_is_stored_without_gaps() -> None:
    p = same("""
def f(n; x: F64[n]):
  for i<n, j<i + 1: a = exp(x[j])
  for i<n, j<i + 1: b = mul(a[i, j], x[i])
  t = add over i2<n, j2<i2 + 1 of b[i2, j2] from 0.0
  for i<n, j<i + 1: c = mul(b[i, j], t)
  for i<n: r = add over j3<i + 1 of c[i, j3] from 0.0
  return for i<n: r[i]
""")
    assert shapes(p) == ["(n * n + n) // 2"]
    outer = [s for s in p.body if isinstance(s, Loop)]
    assert [s.order for s in outer] == [Order.PARALLEL] * 2


def test_a_tetrahedron_beside_a_dense_axis() -> None:
    p = same("""
def f(n, m; x: F64[n], y: F64[m]):
  for h<m, i<n, j<i + 1, k<j + 1: a = mul(x[k], y[h])
  for h<m, i<n, j<i + 1, k<j + 1: b = exp(a[h, i, j, k])
  t = add over h2<m, i2<n, j2<i2 + 1, k2<j2 + 1 of b[h2, i2, j2, k2] from 0.0
  for h<m, i<n, j<i + 1, k<j + 1: c = mul(b[h, i, j, k], t)
  r = add over h3<m, i3<n, j3<i3 + 1, k3<j3 + 1 of c[h3, i3, j3, k3] from 0.0
  return r
""", sizes=(0, 1, 3))
    assert shapes(p) == ["m, (n * n * n + 3 * n * n + 2 * n) // 6"]


def test_rows_of_any_length_have_offsets() -> None:
    p = same("""
def f(n; x: F64[n], k: I64[n] < 7):
  for i<n: l = sub(k[i], 2)
  for i<n, j<l[i]: a0 = cast[F64](#j)
  for i<n, j<l[i]: a = mul(a0[i, j], x[i])
  for i<n, j<l[i]: b = exp(a[i, j])
  t = add over i2<n, j2<l[i2] of b[i2, j2] from 0.0
  for i<n, j<l[i]: c = mul(b[i, j], t)
  for i<n: r = add over j3<l[i] of c[i, j3] from 0.0
  return for i<n: r[i]
""")
    assert len(shapes(p)) == 3  # the values, the lengths, the offsets


def test_rows_of_rows_of_any_length() -> None:
    p = same("""
def f(n; x: F64[n], k: I64[n] < 3):
  for i<n, j<k[i]: m = mul(k[i], #j)
  for i<n, j<k[i], l<m[i, j]: a0 = cast[F64](#l)
  for i<n, j<k[i], l<m[i, j]: a = mul(a0[i, j, l], x[i])
  for i<n, j<k[i], l<m[i, j]: b = exp(a[i, j, l])
  t = add over i2<n, j2<k[i2], l2<m[i2, j2] of b[i2, j2, l2] from 0.0
  for i<n, j<k[i], l<m[i, j]: c = mul(b[i, j, l], t)
  for i<n: r = add over j4<k[i], l4<m[i, j4] of c[i, j4, l4] from 0.0
  return for i<n: r[i]
""")
    assert len(shapes(p)) == 7  # the values, the lengths, four arrays of offsets, what a row has


def test_a_ragged_result_is_one_axis() -> None:
    p = same("""
def f(n; x: F64[n]):
  for i<n, j<i + 1: a = mul(x[i], x[j])
  return for i<n, j<i + 1: a[i, j]
  return for p<n, q<n - p: x[p]
""")
    assert count(p, Allocate) == 0
    assert [show_size(n) for b in p.buffers[1:] for n in b.shape] == ["(n * n + n) // 2"] * 2


def test_a_computed_number_may_be_negative() -> None:
    same("""
def f(n; x: F64[n], k: I64[n] < 7):
  for i<n: l = sub(k[i], 4)
  for i<n: d = mul(l[i], 2)
  for i<n: y = copy(x[clamp(l[i], l[i] + 1)])
  return for i<n: d[i]
  return for i<n: y[i]
""", sizes=(5, 7))


def test_checks_that_a_loop_does_not_change_come_before_it() -> None:
    """And a loop of nothing else is gone; the message is the one of the first check."""
    m = nap.compile("""
def one(x: Float, k: Int, j: Int) -> Float:
    assert k > 0, "k is small"
    assert j > 0, "j is small"
    x * k + j

def all_of(x: n=>m=>Float, k: Int, j: Int) = one(x, k, j)
""")
    text = m.all_of.show("loops")
    checks = [line for line in text.splitlines() if "fail" in line]
    assert len(checks) == 2
    assert "for" not in text[: text.index(checks[-1])]
    assert m.all_of(np.ones((2, 3)), 2, 1).tolist() == [[3.0] * 3] * 2
    assert m.all_of(np.ones((2, 0)), 0, 0).shape == (2, 0)
    with pytest.raises(nap.RunError, match="k is small"):
        m.all_of(np.ones((2, 3)), 0, 0)


PICKED = """
def picked(x: Fin(n)=>Float, y: Fin(m)=>Float, p: k=>Fin(n), q: k=>Fin(m), c: k=>Fin(n)):
    with state([x[p[i]] * y[q[i]] + x[c[i]] for i]) as s:
        for i:
            if s[i] > 0.0: s[i] := sqrt(s[i]) + x[p[i]]

def slopes(x: Fin(n)=>Float, y: Fin(m)=>Float, p: k=>Fin(n), q: k=>Fin(m), c: k=>Fin(n)):
    grad(lambda x: sum(picked(x, y, p, q, c)))(x)
"""


@pytest.mark.parametrize("name", ["picked", "slopes"])
def test_loops_do_not_depend_on_how_variables_are_numbered(name: str) -> None:
    """Sets of variables come in an order that does; no pass may go by it."""
    program, wrong = pipeline.front(Source("picked.nap", PICKED))
    assert program is not None, wrong
    types = {v.var: F64 for v in program.definitions[name].types}
    texts = set()
    for _ in range(8):
        texts.add(show(pipeline.lower(program, name, Substitution(types, {}, {}))))
        Var("one more")
    assert len(texts) == 1


PAIRS = "n=>h=>(d, Fin(2))=>Float"
BLOCKS = "(p, Fin(8))=>(q, Fin(8))=>Float"
PIECES = f"""
# a rotation of each pair
def turned(x: {PAIRS}, c: n=>d=>Float, s: n=>d=>Float) -> {PAIRS}:
    for i, j, (k, e) in (d, Fin(2)):
        if e == 0: x[i, j, (k, 0)] * c[i, k] - x[i, j, (k, 1)] * s[i, k]
        else: x[i, j, (k, 0)] * s[i, k] + x[i, j, (k, 1)] * c[i, k]

# both sides of every block times a matrix
def blocks(x: {BLOCKS}, c: Fin(8)=>Fin(8)=>Float) -> {BLOCKS}:
    for (i, a) in (p, Fin(8)), (j, b) in (q, Fin(8)):
        sum(c[a, k] * sum(x[(i, k), (j, m)] * c[b, m] for m) for k)
"""


def numbers(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape)


def test_components_side_by_side_decide_which_loop_is_innermost() -> None:
    m = nap.compile(PIECES)
    text = m.turned.show("loops")
    assert text.index("in 0..h") < text.index("in 0..d")
    x, c, s = numbers(3, 2, 10), numbers(3, 5), numbers(3, 5)
    a, b = x[..., 0::2], x[..., 1::2]
    c, s = c[:, None], s[:, None]
    want = np.stack([a * c - b * s, a * s + b * c], -1).reshape(x.shape)
    np.testing.assert_allclose(m.turned(x, c[:, 0], s[:, 0]), want, rtol=1e-14)


def test_a_product_between_products_lies_as_its_factor_does() -> None:
    """Its rows are those of one matrix then."""
    m = nap.compile(PIECES)
    assert "allocate v: f64[p, 8, q, 8]" in m.blocks.show("loops")
    for p, q in ((1, 1), (3, 5), (0, 2), (2, 0), (7, 1)):
        x, c = numbers(8 * p, 8 * q), numbers(8, 8)
        want = np.einsum("ak,ikjm,bm->iajb", c, x.reshape(p, 8, q, 8), c).reshape(x.shape)
        np.testing.assert_allclose(m.blocks(x, c), want, rtol=1e-12, atol=1e-13)


LATTICE = """
def potential(a: Fin(3)=>Float, x: Float, y: Float) -> Float =
    a[2] / (1.0 + (a[0] - x) ** 2 + (a[1] - y) ** 2)
def lattice(atoms: n=>Fin(3)=>Float, h: Float, l: Int, m: Int) -> Fin(m)=>Fin(l)=>Float =
    [sum(potential(atoms[a], h * i, h * j) for a) for j in Fin(m), i in Fin(l)]
"""


def test_what_is_added_up_in_a_result_goes_along_it() -> None:
    """Atoms lie three numbers apart, so no sum goes along them; of the lattice's two loops either
    would do, but for where the sums lie."""
    f = nap.compile(LATTICE).lattice
    text = f.show("loops")
    assert re.search(r"free for (i\w*) in 0..l:\n +update out\[j, \1\]", text)
    atoms = numbers(9, 3)
    (x, y), (j, i) = (atoms[:, k, None, None] for k in (0, 1)), np.indices((4, 5)) * 0.3
    want = np.sum(atoms[:, 2, None, None] / (1 + (x - i) ** 2 + (y - j) ** 2), axis=0)
    np.testing.assert_allclose(f(atoms, 0.3, 5, 4), want, rtol=1e-12)


SCALED = """
def f(
    x: b=>t=>d=>Float, g: d=>Float, v: e=>d=>Float, w: e=>d=>Float, n: Int
) -> (b=>t=>e=>Float, b=>t=>e=>Float):
    loop y = x for _ in Fin(n): [y[i, s, c] / (1.0 + sum(y[i, s, c] for c)) for i, s, c]
    u = [y[i, s, c] * g[c] for i, s, c]
    at = lambda m: [sum(u[i, s, c] * m[e, c] for c) for i, s, e]
    (at(v), at(w))
"""


def test_a_factor_that_stands_still_does_not_turn_what_is_stored() -> None:
    """Along `b`, `g` is one number; but what two products read lies as the table does."""
    m = nap.compile(SCALED)
    assert ": f64[b, t, d]\n" in m.f.show("loops")
    assert "[t, d, b]" not in m.f.show("loops")
    x, g, v, w = 1 + numbers(2, 3, 4) ** 2, numbers(4), numbers(5, 4), numbers(5, 4)
    u = x / (1 + x.sum(-1, keepdims=True)) * g
    for got, by in zip(m.f(x, g, v, w, 1), (v, w), strict=True):
        np.testing.assert_allclose(got, u @ by.T, rtol=1e-12)


SMALL = """
def colours(x: h=>w=>Fin(3)=>U8, m: Fin(3)=>Fin(3)=>F32) -> h=>w=>Fin(3)=>F32 =
    [sum(m[c, k] * F32(x[i, j, k]) for k) for i, j, c]

def products(a: n=>Fin(3)=>Fin(3)=>Float, b: n=>Fin(3)=>Fin(3)=>Float) -> n=>Fin(3)=>Fin(3)=>Float =
    [a[i] @ b[i] for i]

def weighed(a: n=>Fin(2)=>Fin(5)=>Float) -> n=>Float =
    [sum(exp(a[i, 0, k]) * sqrt(a[i, 1, k]) for k) for i]
"""


CARRIED = """
def kalman(z: n=>Float, f: Fin(2)=>Fin(2)=>Float, q: Float, r: Float) -> n=>Float:
    (y, _) = with state([0.0, 0.0]) as x, state([[1.0, 0.0], [0.0, 1.0]]) as p:
        for t:
            xp = f @ get(x)
            noise = [[q if i == j else 0.0 for j in Fin(2)] for i in Fin(2)]
            pp = f @ get(p) @ transpose(f) + noise
            k = [pp[i, 0] / (pp[0, 0] + r) for i]
            x := [xp[i] + k[i] * (z[t] - xp[0]) for i]
            p := [[pp[i, j] - k[i] * pp[0, j] for j] for i]
            x[0]
    y

def halved(x: Fin(2)=>Float) -> Fin(2)=>Float:
    loop x = x while x[0] + x[1] > 1.0: [x[1] / 2.0, x[0] / 2.0]

def fallen(x: n=>Fin(2)=>Float, steps: Int) -> n=>Fin(2)=>Float:
    (y, _) = loop y = x, v = [[0.0 for k in Fin(2)] for i in n] for _ in Fin(steps):
        w = [[v[i, k] - 0.1 * y[wrap(i + 1), k] for k] for i]
        (y + 0.1 * w, w)
    y

def paths(x: n=>Fin(2)=>Float) -> n=>Fin(2)=>Float =
    scan(lambda s, v: [s[k] + v[k] for k], [0.0, 0.0], x)

def chosen(x: Fin(2)=>Float, k: n=>Fin(2)) -> Fin(2)=>Float:
    loop x = x for i in n: [x[k[i]] + 1.0, x[0]]
"""


def test_a_row_that_is_read_along_both_loops_turns_none() -> None:
    """`d * i` and `d * j` are one row; which loops are the same is said by what is read in both."""
    f = nap.compile("""
def turned(x: Fin(n)=>Fin(n)=>Float, c: k=>Float, d: k=>Float) -> k=>Fin(n)=>Float where n >= 1:
    for t, i in Fin(n):
        down = lambda j: clamp(Int(floor(c[t] * i + d[t] * j)), Fin(n))
        right = lambda j: clamp(Int(floor(c[t] * j - d[t] * i)), Fin(n))
        sum(x[down(j), right(j)] for j in Fin(n))
""").turned
    assert re.findall(r"allocate \S+ f64\[(.*)\]", f.show("loops")) == ["n", "n"]
    x, c, d = numbers(7, 7), np.cos([0.3, 1.0]), np.sin([0.3, 1.0])
    i, j = np.ogrid[:7, :7]
    for one, two, sums in zip(c, d, f(x, c, d), strict=True):
        down, right = one * i + two * j, one * j - two * i
        y, z = (np.clip(np.floor(p), 0, 6).astype(int) for p in (down, right))
        np.testing.assert_allclose(sums, x[y, z].sum(1), rtol=1e-12, atol=1e-14)


def test_what_a_recurrence_carries_is_written_out() -> None:
    m = nap.compile(CARRIED)
    assert "allocate" not in m.kalman.show("loops") + m.halved.show("loops")
    assert "allocate y: f64[2, n]" in m.fallen.show("loops")  # two copies of a component
    assert "allocate small acc: f64[2]" in m.paths.show("loops")  # which do not meet
    z, f = numbers(20), numbers(2, 2)
    x, p, want = np.zeros(2), np.eye(2), []
    for v in z:
        x, p = f @ x, f @ p @ f.T + 0.1 * np.eye(2)
        k = p[:, 0] / (p[0, 0] + 0.5)
        x, p = x + k * (v - x[0]), p - np.outer(k, p[0])
        want.append(x[0])
    np.testing.assert_allclose(m.kalman(z, f, 0.1, 0.5), want, rtol=1e-9)
    np.testing.assert_array_equal(m.halved(np.array([7.0, 2.0])), [0.4375, 0.125])
    y = numbers(5, 2)
    a, v = y.copy(), np.zeros((5, 2))
    for _ in range(4):
        v = v - 0.1 * np.roll(a, -1, 0)
        a = a + 0.1 * v
    np.testing.assert_allclose(m.fallen(y, 4), a, rtol=1e-12)
    np.testing.assert_array_equal(m.chosen(np.array([1.0, 5.0]), np.array([1, 0, 1])), [7.0, 7.0])


def test_small_matrices_are_written_out() -> None:
    m = nap.compile(SMALL)
    assert "contract" not in m.colours.show("loops")
    x = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype("u1")
    c = numbers(3, 3).astype("f4")
    np.testing.assert_allclose(m.colours(x, c), x.astype("f4") @ c.T, rtol=1e-4, atol=1e-3)


def test_what_lies_far_apart_is_left_to_scalars() -> None:
    """Unless it is worth gathering."""
    m = nap.compile(SMALL)
    alone = '"llvm.loop.vectorize.enable", i1 false'
    assert alone in m.products.show("llvm")
    assert alone not in m.weighed.show("llvm")
    a, b = numbers(11, 3, 3), numbers(11, 3, 3) + 1
    np.testing.assert_allclose(m.products(a, b), a @ b, rtol=1e-12, atol=1e-14)


def test_what_an_index_is_read_from_waits_for_its_condition() -> None:
    f = nap.compile("""
def f(s: Fin(n)=>Int, k: Int) =
    [1 if k * Int(c) < n and s[clamp(s[(k * Int(c))?], n)] > 2 else 0 for c in Fin(n)]
""").f
    assert f(np.array([3, 1, 2, 5]), 10**13).tolist() == [1, 0, 0, 0]
    assert f(np.array([3, 1, 2, 5]), 1).tolist() == [1, 0, 0, 1]


PARTS = """
def flow(a: Fin(2)=>Float, b: Fin(2)=>Float) -> Fin(2)=>Float:
    s = exp(a[1] - b[1])
    [s * (a[1] + b[1]), s * (a[0] * a[1] + b[0] * b[1])]

def moved(u: n=>Fin(2)=>Float, k: Float, steps: Int) -> Float:
    loop u = u for _ in Fin(steps):
        g = [flow(u[i], u[clamp(i + 1)]) for i]
        [u[i, c] - k * (g[i, c] - g[clamp(i - 1), c]) for i, c]
    sum(v ** 2 for r in u, v in r)
"""


def test_what_no_component_asks_for_keeps_nothing() -> None:
    """Each component gets what was sent to it, not what was sent to the other one: a condition
    that only that asked for is in no loop of its own."""
    m = nap.compile(PARTS)
    assert ": bool[n]" not in nap.grad(m.moved).show("loops")
    assert nap.check(m.moved)


def test_what_hangs_on_an_inner_index_is_divided_once() -> None:
    """Means by rings: what goes back needs all rings of a point, and their edges are the same for
    every point."""
    m = nap.compile("""
def means(data: n=>Float, radius: n=>Float, k: Int) -> Fin(k)=>Float where k >= 0:
    most = max(radius)
    for i in Fin(k):
        (low, high) = (most * i / k, most * (i + 1) / k)
        count = sum(1.0 for j in n if low <= radius[j] and radius[j] < high)
        sum(data[j] for j if low <= radius[j] and radius[j] < high) / count
def total(data: n=>Float, radius: n=>Float, k: Int) -> Float where k >= 0 =
    sum(v * v for v in means(data, radius, k))
""")
    slope = nap.grad(m.total)
    lines = slope.show("loops").split("# notes")[0].splitlines()
    depth = [len(line) - len(line.lstrip()) for line in lines]
    assert max(d for d, line in zip(depth, lines, strict=True) if ") / " in line) == 8
    r = np.random.default_rng(0)
    data, radius = r.normal(size=60), r.random(60)
    ring = np.minimum(np.floor(radius / radius.max() * 4), 4).astype(int)
    want = np.zeros(60)
    for i in range(4):
        want[ring == i] = 2 * data[ring == i].mean() / np.sum(ring == i)
    np.testing.assert_allclose(slope(data, radius, 4), want, rtol=1e-9)


def test_a_nest_beside_deeper_ones_goes_along_memory() -> None:
    """Of an image's windows and a dense layer, both for each image, the layer's weights are read by
    rows, though the windows have more loops."""
    f = nap.compile("""
def layers(x: b=>Fin(12)=>Fin(12)=>Float, k: Fin(5)=>Fin(5)=>Float, w: Fin(64)=>Fin(30)=>Float) -> b=>Fin(30)=>Float:
    y = [relu(sum(x[n, i + r, j + s] * k[r, s] for r, s)) for n, i in Fin(8), j in Fin(8)]
    flat = [y[n] as Fin(64)=>Float for n]
    [relu(sum(flat[n, e] * w[e, o] for e)) for n, o]
""").layers  # noqa: E501
    lines = f.show("loops").split("# notes")[0].splitlines()
    rows = [k for k, line in enumerate(lines) if "* w[" in line]
    assert rows
    for k in rows:
        around = [line for line in lines[:k] if " for " in line][-1]
        read = re.search(r"w\[.*, (\w+)\]", lines[k])
        assert read
        assert f"free for {read[1]} in 0..30" in around
    r = np.random.default_rng(2)
    x, k, w = r.normal(size=(3, 12, 12)), r.normal(size=(5, 5)), r.normal(size=(64, 30))
    v = np.lib.stride_tricks.sliding_window_view(x, (5, 5), axis=(1, 2))
    y = np.maximum(np.einsum("nijrs,rs->nij", v, k), 0).reshape(3, 64)
    np.testing.assert_allclose(f(x, k, w), np.maximum(y @ w, 0), rtol=1e-12)


RUNNING = """
def average(p: n=>Float, v: n=>Float) -> n=>Float = cumsum(p * v) / cumsum(v)
def apart(p: n=>Float, v: n=>Float) -> (n=>Float, n=>Float) = (cumsum(p), cumsum(v))
"""


def test_two_running_sums_wait_side_by_side() -> None:
    """Where something needs a round of both; else each goes by itself."""
    m = nap.compile(RUNNING)
    p, v = numbers(100), numbers(100) ** 2
    np.testing.assert_allclose(m.average(p, v), np.cumsum(p * v) / np.cumsum(v), rtol=1e-12)
    np.testing.assert_allclose(m.apart(p, v), (np.cumsum(p), np.cumsum(v)), rtol=1e-12)
    text = m.average.show("loops")
    assert text.count("for t in 0..n") == 1
    assert "allocate" not in text
    assert len(re.findall(r"for \w+ in 0..n", m.apart.show("loops"))) == 2
