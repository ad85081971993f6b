"""Accumulations in parallel: right, and the same bits at any number of threads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from kernels import array, at, call, loop, put

import naperian as nap
from naperian import pipeline
from naperian.backends.emit import emit
from naperian.backends.llvm import optimised
from naperian.backends.target import Target, host
from naperian.dtypes import DType
from naperian.loops.check import check
from naperian.loops.syntax import Loop, Order, Program, Reduction, Update
from naperian.names import Var
from naperian.signed import at as at_dtypes
from naperian.sizes import atom
from naperian.source import Source

PROGRAM = """
def histogram(key: n=>bins) -> bins=>Int = [sum(1 if key[i] == b else 0 for i) for b]

def weighted(key: n=>bins, w: n=>Float) -> bins=>Float =
    [sum(w[i] if key[i] == b else 0.0 for i) for b]

def columns(a: n=>m=>Float) -> m=>Float = [sum(a[i, j] for i) for j]

def heavy(key: n=>bins, w: n=>Float) -> bins=>Float =
    [sum(exp(w[i]) if key[i] == b else 0.0 for i) for b]

def total(x: n=>Float) -> Float = sum(x)
"""


@pytest.fixture(scope="module")
def program() -> Any:
    return nap.compile(PROGRAM)


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = nap.threads()
    yield
    nap.threads(before)


def alike(f: Callable[[], Any]) -> Any:
    """What all numbers of threads give."""
    found = []
    for k in (1, 2, 3, 8):
        nap.threads(k)
        found.append(np.asarray(f()))
    assert len({a.tobytes() for a in found}) == 1
    return found[0]


@pytest.mark.parametrize("n", [0, 1, 1000, 300_000])
@pytest.mark.parametrize("bins", [1, 7, 256, 5000, 200_000])
def test_histograms(program: Any, n: int, bins: int) -> None:
    r = np.random.default_rng(n + bins)
    key, w = r.integers(0, bins, n), r.standard_normal(n)
    count = alike(lambda: program.histogram(key, bins=bins))
    np.testing.assert_array_equal(count, np.bincount(key, minlength=bins))
    got = alike(lambda: program.weighted(key, w, bins=bins))
    np.testing.assert_allclose(got, np.bincount(key, w, minlength=bins), atol=1e-12)


@pytest.mark.parametrize(
    "shape", [(0, 5), (5, 0), (1, 1), (3, 300_000), (300_000, 3), (700, 900)]
)
def test_columns(program: Any, shape: tuple[int, int]) -> None:
    a = np.random.default_rng(3).standard_normal(shape)
    np.testing.assert_allclose(alike(lambda: program.columns(a)), a.sum(axis=0), atol=1e-10)


def test_totals(program: Any) -> None:
    x = np.random.default_rng(4).standard_normal(1_000_003)
    np.testing.assert_allclose(alike(lambda: program.total(x)), x.sum(), rtol=1e-9)


@pytest.mark.parametrize(
    ("monoid", "dtype", "ufunc"),
    [
        ("add", DType.U8, np.add),
        ("mul", DType.I64, np.multiply),
        ("min", DType.F64, np.minimum),
        ("max", DType.F32, np.maximum),
        ("and", DType.BOOL, np.logical_and),
        ("or", DType.BOOL, np.logical_or),
    ],
)
def test_every_monoid(monoid: str, dtype: DType, ufunc: Any) -> None:
    """Copies of every kind; the array keeps what it held."""
    n, m, i, k = (Var(x) for x in "nmik")
    key, x = array("key", n, dtype=DType.I64), array("x", n, dtype=dtype)
    first, out = array("first", m, dtype=dtype), array("out", m, dtype=dtype, out=True)
    update = Update(out.var, (atom(at(key.var, i)),), monoid, at(x.var, i))
    shared = (Reduction(out.var, monoid, dtype),)
    p = Program(
        "keys",
        (n, m),
        (key, x, first, out),
        (
            loop(k, m, put(out.var, [k], at(first.var, k))),
            loop(i, n, update, order=Order.PARALLEL, reductions=shared),
        ),
    )
    r = np.random.default_rng(5)
    keys, start = r.integers(0, 37, 400_000), r.integers(0, 2, 37).astype(dtype.value)
    values = r.integers(0, 2, len(keys)).astype(dtype.value)
    want = start.copy()
    ufunc.at(want, keys, values)
    np.testing.assert_array_equal(alike(lambda: call(check(p), [keys, values, start])), want)


GATHERS = """
def gather(x: m=>Float, p: n=>m) -> n=>Float = [x[p[i]] for i]

def twice(x: m=>Float, p: n=>k, q: k=>m) -> n=>Float = [x[q[p[i]]] for i]

def by_rows(
    rows: Fin(n + 1)=>Fin(nnz + 1), cols: Fin(nnz)=>m, vals: Fin(nnz)=>Float, x: m=>Float
) -> Fin(n)=>Float = [sum(vals[e] * x[cols[e]] for e in rows[i]..rows[i + 1]) for i in Fin(n)]

def walk(next: n=>n, start: n, steps: Int) -> n:
    loop at = start for _ in Fin(steps):
        next[at]

def back(p: n=>n) -> n=>n = p
"""


@pytest.fixture(scope="module")
def gathers() -> Any:
    return nap.compile(GATHERS)


def test_gathers(gathers: Any) -> None:
    r = np.random.default_rng(6)
    x, p, q = r.standard_normal(999), r.integers(0, 50, 200_000), r.integers(0, 999, 50)
    np.testing.assert_array_equal(alike(lambda: gathers.gather(x, p)), x[p])
    np.testing.assert_array_equal(alike(lambda: gathers.twice(x, p, q)), x[q[p]])
    assert gathers.gather(x[:0], p[:0]).shape == (0,)
    assert gathers.walk([1, 2, 0], 0, 4) == 1


def test_sparse_rows(gathers: Any) -> None:
    r = np.random.default_rng(7)
    rows = np.concatenate([[0], np.sort(r.integers(0, 300_001, 9_999)), [300_000]])
    cols, vals = r.integers(0, 777, 300_000), r.standard_normal(300_000)
    x = r.standard_normal(777)
    want = np.array([vals[a:b] @ x[cols[a:b]] for a, b in pairwise(rows)])
    got = alike(lambda: gathers.by_rows(rows, cols, vals, x))
    np.testing.assert_allclose(got, want, atol=1e-10)


@pytest.mark.parametrize("wrong", [-1, 3, 1 << 40, -(1 << 63), (1 << 63) - 1])
def test_indices_outside_their_set_are_refused(gathers: Any, wrong: int) -> None:
    """Whatever the numbers are, no other memory is touched, and the message says which."""
    x, p = np.arange(3.0), np.zeros(100_000, np.int64)
    p[77_777] = wrong
    limit = "at least 0" if wrong < 0 else "below 3 (the size of axis 0 of x)"
    message = f"argument p: element 77777 is {wrong}, but it must be {limit}"
    for call_it in (lambda: gathers.gather(x, p), lambda: gathers.gather(x=x, p=p)):
        with pytest.raises(IndexError) as e:
            alike(call_it)
        assert str(e.value) == message
    for f in (gathers.back, lambda q: gathers.walk(q, 0, 2)):
        with pytest.raises(IndexError):
            f(np.array([0, 0, wrong if wrong != 3 else 1 << 50]))


@pytest.mark.parametrize("where", [0, 5_000, 99_999])
@pytest.mark.parametrize("wrong", [-1, 7, -(1 << 63)])
def test_keys_outside_are_refused(program: Any, where: int, wrong: int) -> None:
    key, w = np.arange(100_000) % 7, np.linspace(0.0, 1.0, 100_000)
    heavy = alike(lambda: program.heavy(key, w, bins=7))
    np.testing.assert_allclose(heavy, np.bincount(key, np.exp(w)), rtol=1e-12)
    key[where] = wrong
    for run in (
        lambda: program.histogram(key, bins=7),
        lambda: program.weighted(key, w, bins=7),
        lambda: program.heavy(key, w, bins=7),
    ):
        with pytest.raises(IndexError, match=f"element {where} is {wrong}"):
            alike(run)


@pytest.mark.parametrize("rows", range(12))
def test_rows_are_added_in_order(program: Any, rows: int) -> None:
    """Four at a time and the rest: the same bits as one after the other."""
    a = np.random.default_rng(rows).standard_normal((rows, 37)) * 10.0 ** np.arange(37)
    want = np.zeros(37)
    for row in a:
        want += row
    np.testing.assert_array_equal(alike(lambda: program.columns(a)), want)


def test_an_index_into_nothing_is_refused(gathers: Any) -> None:
    with pytest.raises(IndexError, match="must be below 0"):
        gathers.gather(np.empty(0), np.array([0]))


@pytest.mark.parametrize(
    ("rows", "cols"),
    [([0, 2, 9], [0, 1]), ([0, -5, 2], [0, 1]), ([0, 1, 2], [0, 7]), ([0, 1, 2], [-7, 0])],
)
def test_sparse_rows_outside_are_refused(
    gathers: Any, rows: list[int], cols: list[int]
) -> None:
    with pytest.raises(IndexError, match="argument"):
        gathers.by_rows(np.array(rows), np.array(cols), np.ones(2), np.ones(3))


@pytest.mark.parametrize("which", ["argmin", "argmax"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int8"])
def test_the_first_best(which: str, dtype: str) -> None:
    kind = {"float64": "F64", "float32": "F32", "int64": "I64", "int8": "I8"}[dtype]
    f = nap.compile(f"def best(x: n=>{kind}) -> n = {which}(x)").best
    r = np.random.default_rng(8)
    cases = [np.zeros(n) for n in (1, 2, 100_000)]
    cases += [r.integers(-5, 5, n).astype(float) for n in (3, 70, 300_000)]
    if dtype.startswith("float"):
        signed = np.array([0.0, -0.0] * 50)
        infinite = np.full(100, -np.inf if which == "argmax" else np.inf)
        lost = r.standard_normal(200_000)
        lost[[777, 150_000]] = np.nan
        cases += [signed, infinite, lost, np.full(80, np.nan)]
    for x in cases:
        x = x.astype(dtype)
        assert alike(lambda x=x: f(x)) == getattr(np, which)(x)
    with pytest.raises(AssertionError, match=f"`{which}` of nothing"):
        f(np.zeros(0, dtype))


@pytest.mark.parametrize(
    ("text", "name", "wanted"),
    [
        (GATHERS, "gather", r"call <8 x double> @llvm\.masked\.gather"),
        (GATHERS, "by_rows", r"call <4 x double> @llvm\.masked\.gather"),
        (PROGRAM, "columns", r"fadd .*<8 x double>"),
        ("def best(x: n=>Float) -> n = argmax(x)", "best", r"@llvm\.smin\.v8i64"),
        (
            "def sums(ends: Fin(n + 1)=>Fin(m + 1), x: Fin(m)=>Float) -> Fin(n)=>Float =\n"
            "    [sum(x[e] for e in ends[i]..ends[i + 1]) for i in Fin(n)]",
            "sums",
            r"@llvm\.masked\.load\.v8f64",
        ),
    ],
)
def test_accumulations_become_vectors(text: str, name: str, wanted: str) -> None:
    assert re.search(wanted, for_vectors_of_eight(text, name))


def for_vectors_of_eight(text: str, name: str) -> str:
    """What LLVM makes of a definition, for a processor whose vectors have eight doubles."""
    if not host().triple.startswith("x86_64"):
        pytest.skip("what is counted is for x86")
    module, wrong = pipeline.front(Source("<text>", text))
    assert module is not None, wrong
    dtypes = tuple(DType.F64 for _ in module.definitions[name].types)
    program = pipeline.lower(module, name, at_dtypes(module.definitions[name], dtypes))
    machine = Target(host().triple, "znver4", "", 64, 32)
    return optimised(emit(program, machine), machine)


SEVERAL = """
def edges(k: n=>bins, l: n=>bins, x: n=>Float) -> bins=>Float:
    with accum((+)) as a:
        for i:
            a[k[i]] += x[i]
            a[l[i]] += 2.0 * x[i]
            if x[i] > 0.5: a[k[i]] += x[i] * x[i]

def force(k: n=>bins, l: n=>bins, y: bins=>Float) -> Float =
    sum(sin(y[k[i]] - y[l[i]]) + (y[k[i]] ** 2 if y[l[i]] > 0.0 else -y[k[i]]) for i)

def slopes(k: n=>bins, l: n=>bins, y: bins=>Float) = grad(force, wrt="y")(k, l, y)
"""


@pytest.mark.parametrize("strict", [False, True])
def test_what_a_round_adds_several_times(strict: bool) -> None:
    """It goes into one loop, unless the order counts; what a gradient sends to one place is added
    before, so each place is written once."""
    text = SEVERAL.replace("def", "@strict\ndef") if strict else SEVERAL
    m = nap.compile(text)
    loops = len(re.findall(r"for \S+ in 0\.\.n", m.edges.show("loops")))
    assert loops > 1 if strict else loops == 1
    if not strict:
        assert len(re.findall("update out", m.slopes.show("loops"))) == 2
    for n, bins in ((0, 3), (1, 1), (1000, 7), (200_000, 5000)):
        r = np.random.default_rng(n)
        k, l = r.integers(0, bins, (2, n))
        x, y = r.random(n), r.normal(size=bins)
        want = np.bincount(k, x, bins) + np.bincount(l, 2 * x, bins)
        want += np.bincount(k, np.where(x > 0.5, x * x, 0), bins)
        found = alike(partial(m.edges, k, l, x, bins=bins))
        np.testing.assert_allclose(found, want, rtol=1e-11)
        far = np.cos(y[k] - y[l])
        want = np.bincount(k, far + np.where(y[l] > 0, 2 * y[k], -1), bins)
        want -= np.bincount(l, far, bins)
        np.testing.assert_allclose(alike(partial(m.slopes, k, l, y)), want, rtol=1e-9, atol=1e-10)


TURNED = """
def turned(r: Fin(3)=>Float, x: Fin(3)=>Float) -> Fin(3)=>Float:
    q = sum(r[k] * r[k] for k)
    if q > 0.01:
        c = cos(sqrt(q))
        [x[k] * c + r[k] * sin(x[0] - x[2]) / sqrt(q) for k]
    else:
        [x[0] + r[1] * x[2], x[1] - r[0], exp(x[2]) * r[2]]

def far(
    r: a=>Fin(3)=>Float, x: b=>Fin(3)=>Float, i: n=>Fin(a), j: n=>Fin(b), at: n=>Float
) -> Float =
    sum((sum(turned(r[i[o]], x[j[o]])[k] for k) - at[o]) ** 2 for o if at[o] < 2.0)

def slopes(r: a=>Fin(3)=>Float, x: b=>Fin(3)=>Float, i: n=>Fin(a), j: n=>Fin(b), at: n=>Float) =
    grad(far, wrt=("r", "x"))(r, x, i, j, at)
"""


def test_rounds_that_compute_much_scatter_in_strips() -> None:
    """What they compute is done in vectors; conditions and components are as they were."""
    m = nap.compile(TURNED)
    text = m.slopes.show("loops")
    assert re.search(r"allocate small value\S*: f64\[(256|64)\]", text)
    assert re.search(r"if there\S*\[.*\n *update out", text)
    assert not re.search(r"free for [^s]\w* in 0\.\.3", text.split("parallel for strip")[1])
    for n, a, b in ((0, 1, 1), (1, 1, 2), (255, 3, 9), (257, 3, 9), (5000, 40, 700)):
        g = np.random.default_rng(n)
        r, x = g.normal(size=(a, 3)), g.normal(size=(b, 3))
        r[::2] *= 0.01
        i, j, at = g.integers(0, a, n), g.integers(0, b, n), g.normal(size=n) + 1
        dr = alike(lambda: m.slopes(r, x, i, j, at)[0])  # noqa: B023 — called at once
        dx = m.slopes(r, x, i, j, at)[1]
        v, w = g.normal(size=r.shape), g.normal(size=x.shape)
        both = [m.far(r + e * v, x + e * w, i, j, at) for e in (1e-6, -1e-6)]
        assert np.vdot(dr, v) + np.vdot(dx, w) == pytest.approx(
            (both[0] - both[1]) / 2e-6, rel=1e-6, abs=1e-6
        )
    with pytest.raises(IndexError):
        m.slopes(r, x, i + a, j, at)


def test_a_scatter_tests_its_keys_eight_at_a_time() -> None:
    """By one comparison and a branch, without clamps; the code is short, so that compiling it
    is."""
    made = for_vectors_of_eight(PROGRAM, "histogram")
    assert len(made.splitlines()) < 470
    part = next(f for f in made.split("\n}") if "store i64 -3" in f or "[ -3," in f)
    assert len(re.findall(r"icmp ugt <8 x i64>", part)) == 1
    assert not re.search(r"icmp ugt i64", part)
    assert len(re.findall(r"= load i64, ptr .*align", part)) >= 8


KEYED = """
def counts(key: n=>bins, like: bins=>Float) -> bins=>Int =
    [sum(1 if key[i] == b else 0 for i) for b]
def sums(key: n=>bins, w: n=>Float, like: bins=>Float) -> bins=>Float =
    [sum(w[i] if key[i] == b else 0.0 for i) for b]
def much(key: n=>bins, w: n=>Float, like: bins=>Float) -> bins=>Float:
    with accum() as out:
        for i:
            v = w[i] * w[i] + w[i] / (1.0 + w[i] * w[i])
            out[key[i]] += v * v * v + 3.0 * v * v + 2.0 * v + 1.0 / (2.0 + v)
def gathered(key: n=>bins, x: bins=>Float) -> n=>Float = [x[k] for k in key]
def weighted(key: n=>bins, w: n=>Float, x: bins=>Float) -> Float = sum(w[i] * x[key[i]] for i)
"""


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 16, 23, 2047, 2049])
def test_every_key_is_tested(n: int) -> None:
    """Also the last ones, of which there are less than are tested together."""
    m = nap.compile(KEYED)
    g = np.random.default_rng(n)
    key, w, x = g.integers(0, 5, n), g.normal(size=n), g.normal(size=5)
    v = w * w + w / (1 + w * w)
    v = v**3 + 3 * v * v + 2 * v + 1 / (2 + v)
    np.testing.assert_array_equal(m.counts(key, x), np.bincount(key, minlength=5))
    np.testing.assert_allclose(m.sums(key, w, x), np.bincount(key, w, 5), atol=1e-12)
    np.testing.assert_allclose(m.much(key, w, x), np.bincount(key, v, 5), atol=1e-12, rtol=1e-9)
    np.testing.assert_array_equal(m.gathered(key, x), x[key])
    np.testing.assert_allclose(m.weighted(key, w, x), w @ x[key], atol=1e-12)
    for place in {0, n // 2, n - 1} if n else ():
        for bad in (-1, 5, 2**40, -(2**62)):
            wrong = key.copy()
            wrong[place] = bad
            for f in (m.counts, m.gathered):
                with pytest.raises(IndexError, match="argument key: element"):
                    f(wrong, x)
            for f in (m.sums, m.much, m.weighted):
                with pytest.raises(IndexError, match="argument key: element"):
                    f(wrong, w, x)


def test_keys_are_tested_beside_what_gathers() -> None:
    wide = for_vectors_of_eight(KEYED, "gathered")
    assert "@llvm.umin.v8i64" in wide
    assert len(re.findall(r"@llvm.masked.gather", wide)) >= 1


KEPT = """
def edges(x: Fin(h)=>Fin(w)=>Float, limit: Float) -> (Fin(h)=>Fin(w)=>Float, Fin(64)=>Int):
    edge = [sqrt(x[i, clamp(j + 1)] - x[i, j]) for i, j in Fin(w)]
    bin = [clamp(Int(16.0 * edge[i, j]), Fin(64)) for i, j]
    ([e if e > limit else 0.0 for e in edge], [sum(1 if bin[i, j] == b else 0 for i, j) for b])
def kept(k: n=>Int, like: bins=>Float) -> bins=>Int =
    [sum(1 if clamp(k[i], bins) == b else 0 for i) for b]
"""


def test_keys_that_are_kept_in_range_are_not_tested() -> None:
    """And what is stored beside the counts is computed in vectors before them, in every row."""
    m = nap.compile(KEPT)
    rng = np.random.default_rng(0)
    text = m.edges.show("loops")
    assert "inside" not in text
    assert re.search(r"free for i\S* in 2048 \* strip.*\n +v\S*: f64 = sqrt", text)
    for h, w in ((0, 3), (3, 1), (5, 33), (2, 5000)):
        x = np.cumsum(rng.random((h, w)) * 30, axis=1)
        edge = np.sqrt(np.diff(x, axis=1, append=x[:, -1:]))
        found, counts = m.edges(x, 2.0)
        assert np.allclose(found, np.where(edge > 2.0, edge, 0.0))
        assert counts.sum() == h * w
        bins = (16 * edge).astype(int).ravel().clip(0, 63)
        assert np.array_equal(counts, np.bincount(bins, minlength=64))
    k = rng.integers(-5, 15, 1000)
    assert np.array_equal(m.kept(k, np.zeros(9)), np.bincount(k.clip(0, 8), minlength=9))
    assert m.kept(k, np.zeros(0)).shape == (0,)
    assert not m.kept(k[:0], np.zeros(9)).any()


def test_a_sum_is_read_behind_all_who_add() -> None:
    """What the second line adds to is read at `i`, in its loop over `i`; but not what the first
    line adds to, and both share a loop."""
    m = nap.compile("""
def added(v: n=>m=>Float, to: n=>n, at: m=>m) -> n=>m=>Float:
    a = with accum() as a:
        for i, j:
            a[to[i], j] += v[i, j]
            a[i, at[j]] += v[i, j]
    [[2.0 * a[i, j] for j] for i]
""")
    r = np.random.default_rng(2)
    v, to, at = r.standard_normal((5, 4)), r.integers(0, 5, 5), r.integers(0, 4, 4)
    wanted = np.zeros((5, 4))
    np.add.at(wanted, to, v)
    np.add.at(wanted.T, at, v.T)
    np.testing.assert_allclose(m.added(v, to, at), 2.0 * wanted, rtol=1e-13)


def test_rows_add_to_places_that_they_look_for() -> None:
    """Rows go some vectors at a time, and each finds a place of its own."""
    m = nap.compile("""
def moved(x: n=>Fin(2)=>Float, c: k=>Fin(2)=>Float) -> k=>Fin(2)=>Float:
    near = [argmin(sum((x[i, d] - c[j, d]) ** 2 for d) for j) for i]
    (total, count) = with accum() as total, accum() as count:
        for i:
            count[near[i]] += 1.0
            for d: total[near[i], d] += x[i, d]
    [[total[j, d] / max(count[j], 1.0) for d] for j]
""")
    r = np.random.default_rng(8)
    for n in (0, 1, 31, 33, 500):
        x, c = r.random((n, 2)), r.random((5, 2))
        near = ((x[:, None] - c) ** 2).sum(-1).argmin(-1)
        count = np.maximum(np.bincount(near, minlength=5), 1)
        total = np.stack([np.bincount(near, x[:, d], 5) for d in range(2)], -1)
        np.testing.assert_allclose(m.moved(x, c), total / count[:, None], rtol=1e-13)


def test_loops_around_a_place_are_not_reckoned_to_be_long() -> None:
    """Copies of the grid would take longer than what is added to it."""
    text = """
def spread(z: n=>Int, y: n=>Int, x: n=>Int, by: Int, size: Int) -> Fin(size)=>Fin(size)=>Fin(size)=>Float where size >= 1:
    with accum() as a:
        for s in n:
            for k in max(z[s] - by, 0)..min(z[s] + by + 1, size):
                for j in max(y[s] - by, 0)..min(y[s] + by + 1, size):
                    for i in max(x[s] - by, 0)..min(x[s] + by + 1, size): a[k, j, i] += 1.0
"""  # noqa: E501
    module, wrong = pipeline.front(Source("spread.nap", text))
    assert module is not None, wrong
    loops = pipeline.lower(module, "spread", at_dtypes(module.definitions["spread"], [DType.F64]))
    [s] = [s for s in loops.body if isinstance(s, Loop) and s.reductions]
    assert s.work.constant is not None
    assert s.work.constant < 3000
    m = nap.compile(text)
    r = np.random.default_rng(4)
    z, y, x = r.integers(0, 9, (3, 50))
    wanted = np.zeros((9, 9, 9))
    for k, j, i in zip(z, y, x, strict=True):
        wanted[max(k - 1, 0) : k + 2, max(j - 1, 0) : j + 2, max(i - 1, 0) : i + 2] += 1.0
    assert np.array_equal(m.spread(z, y, x, 1, 9), wanted)


ROWS = """
def sums(near: n=>k, x: n=>d=>Float, like: k=>Float) -> k=>d=>Float:
    with accum() as s:
        for i in n: s[near[i]] += x[i]
"""


@pytest.mark.parametrize("d", [0, 1, 2, 4, 5, 7, 8, 9, 17])
def test_short_rows_are_added_where_data_say(d: int) -> None:
    """One element after the other where they are few: what a mask stores is handed on through
    memory."""
    m = nap.compile(ROWS)
    g = np.random.default_rng(d)
    for n, k in ((1, 1), (50, 1), (200, 3)):
        near, x = g.integers(0, k, n), g.normal(size=(n, d))
        wanted = np.zeros((k, d))
        np.add.at(wanted, near, x)
        np.testing.assert_allclose(m.sums(near, x, np.zeros(k)), wanted, atol=1e-12)
        single = m.sums(near, x.astype("f"), np.zeros(k, "f"))
        np.testing.assert_allclose(single, wanted, atol=1e-4)


def test_few_elements_of_a_row_that_data_name_are_scalars() -> None:
    made = for_vectors_of_eight(ROWS, "sums")
    assert re.search(r"icmp (?:slt|samesign ult) i64 %\S+, 5\b", made)
