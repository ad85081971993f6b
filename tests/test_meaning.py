"""core.run = ainf.run = loops.run = compiled, on generated well-typed programs; also where the
result is written over an argument."""

from __future__ import annotations

import inspect
import os

import numpy as np
import pytest
from generate import SIZES, arguments, hessians, programs
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import naperian as nap
from naperian import pipeline
from naperian.ainf import run as ainf_run
from naperian.core import places as core_places
from naperian.core import run as core_run
from naperian.core.values import from_numpy, to_numpy
from naperian.leaves import rebuild
from naperian.loops import run as loops_run
from naperian.passes.fusion.schedule import schedule
from naperian.passes.nests.allocate import allocate
from naperian.sizes import size
from naperian.substitution import Substitution
from naperian.types import F64, Fin

pytestmark = pytest.mark.usefixtures("keeping")

QUIET = {
    "deadline": None, "suppress_health_check": list(HealthCheck),
    "derandomize": True,
    "phases": [Phase.explicit, Phase.generate, Phase.shrink],  # explaining takes minutes
}


def agree(text: str, n: int, m: int, seed: int) -> None:
    """Run a generated program in all four ways and compare."""
    compare(text, {"n": n, "m": m}, arguments(n, m, seed))


def compare(text: str, known: dict[str, int], given: dict[str, object]) -> None:
    """Run `f` of a program in all four ways: the same results, or all stop."""
    f = nap.compile(text, "generated.nap").f
    program = f._program.core()
    d = program.definitions["f"]
    symbolic = Substitution({p.var: F64 for p in d.types}, {}, {})
    args = [given[p.name] for p in d.params]
    numbers = {v: size(known[v.name]) for v in d.sizes}
    numbers |= {
        p.var: size(x) for p, x in zip(d.params, args, strict=True) if isinstance(x, int)
    }
    at = Substitution(symbolic.types, {v: Fin(size(known[v.name])) for v in d.sets}, numbers)
    result = at.type(d.result)
    values = [from_numpy(a, at.type(p.type)) for a, p in zip(args, d.params, strict=True)]
    want = outcome(lambda: to_numpy(core_run.run(program, "f", values, at), result))
    flat = pipeline.flat(pipeline.specialise(program, "f", symbolic))
    with pipeline.deep():
        nests = allocate(schedule(flat))
        whole = pipeline.lower(program, "f", symbolic)

    def sizes(variables):
        return [known[v.name] for v in variables]

    for how, run in (
        ("ainf", lambda: rebuild(result, ainf_run.run(flat, sizes(flat.sizes), args))),
        ("loops", lambda: rebuild(result, loops_run.run(nests, sizes(nests.sizes), args))),
        ("all passes", lambda: rebuild(result, loops_run.run(whole, sizes(whole.sizes), args))),
        ("compiled", lambda: f(*args)),
        ("over an argument", lambda: over(f, args)),
    ):
        got = outcome(run)
        if isinstance(got, str) or isinstance(want, str):
            both = isinstance(got, str) and isinstance(want, str)
            assert both, f"{how}: {got}\nnot      {want}\n{text}"
        else:
            same(how, got, want, text)


def over(f, args):
    """What a function gives whose result is written over an argument, if one is a donor of it."""
    got = f(*args)
    if not f.donors or not isinstance(got, np.ndarray):
        return got
    given = {p: np.array(a) for p, a in zip(inspect.signature(f).parameters, args, strict=True)}
    return f(**given, out=given[f.donors[0]])


STOPPED = "stopped"


def outcome(run):
    """What a run gives, or that it stopped itself."""
    try:
        return run()
    except (core_places.RunError, ainf_run.RunError, loops_run.RunError, nap.RunError):
        return STOPPED


def same(how: str, got, want, text: str) -> None:
    """Equal up to rounding, relative to the largest magnitude; NaN equals NaN."""
    if isinstance(want, tuple):
        for g, w in zip(got, want, strict=True):
            same(how, g, w, text)
        return
    g, w = np.asarray(got, float), np.asarray(want, float)
    assert g.shape == w.shape, f"{how}: shape {g.shape}, not {w.shape}\n{text}"
    finite = np.abs(w[np.isfinite(w)])
    scale = finite.max(initial=1.0)
    close = np.isclose(g, w, rtol=1e-9, atol=1e-9 * scale, equal_nan=True)
    assert close.all(), f"{how}: {got}\nnot      {want}\n{text}"


HARD = {
    "a Hessian in lanes without rows": """
def f(x: Fin(n)=>Float):
    h = hessian(scales)([[v, 0.5 * v] for v in x])
    sum(h[c, j, e, k] * (1 + c - j) * (1 + 2 * k - e) for c, j, e, k)

def scales(l: Fin(n)=>Fin(2)=>Float) -> Float =
    log(sum(exp(sum(l[c, j] + exp(-l[c, j]) ** 2 for j)) for c))
""",
    "a fold in a fold beside a scan": """
def f(c: Fin(n)=>Int, k: Int):
    v = sum(2.0 for i in Fin(n))
    inner = lambda acc: fold(lambda acc, j: 0.5 * acc + v, acc, [j for j in Fin(n)])
    (fold(lambda acc, i: 0.5 * acc + inner(acc), Float(k), [i for i in Fin(n)]),
     scan((+), 0.0, [Float(c[i]) for i in Fin(n)]))
""",
    "sizes that are parameters": """
def f(k: Int) -> Fin(k)=>Fin(k + 1)=>Int = [i * i + j for i in Fin(k), j in Fin(k + 1)]
""",
    "sizes that are computed": """
def f(k: Int):
    k2 = k * k + 1
    u = scan((+), 0.0, [Float(i) for i in Fin(k2)])
    ([u[i] + sum(u) for i], [[Float(i) * Float(j) for j in Fin(k2)] for i in Fin(k)])
""",
    "a ragged table is carried": """
def f(v: Fin(m)=>Float, r: Fin(n + 1)=>Fin(m + 1)):
    for i in Fin(n):
        lo = r[i]
        hi = r[i + 1]
        loop u = [v[e] for e in lo..hi] for t in Fin(3):
            [u[e] * 0.5 + sum(u) for e]
        sum(u)
""",
    "a table over ragged pairs": """
def f(v: Fin(m)=>Float, r: Fin(n + 1)=>Fin(m + 1)):
    for i in Fin(n):
        lo = r[i]
        hi = r[i + 1]
        row = [v[e] for e in lo..hi]
        mat = [[row[a] * row[b] + sin(row[a]) for b] for a]
        sum([sum(mat[a]) * max(mat[a]) for a])
""",
    "sums of running sums of a triangle": """
def f(v: Fin(m)=>Float):
    [sum(scan((+), 0.0, [v[j] for j in ..=i])) for i in Fin(m)]
""",
    "a scan in a while loop": """
def f(v: Fin(m)=>Float, s: Float):
    loop u = v, t = 0 while sum(u) > s and t < 9:
        w = [u[i] * 0.9 for i]
        z = scan((+), 0.0, w)
        ([z[i] / (1.0 + z[wrap(i + 1)]) + sin(w[i]) for i], t + 1)
    (u, t)
""",
    "a while loop of a table in every row": """
def f(a: Fin(n)=>Fin(m)=>Float, s: Float):
    for i in Fin(n):
        loop u = a[i], t = 0 while sum(u) > s and t < 9:
            z = scan((+), 0.0, u)
            ([z[q] / (1.0 + z[wrap(q + 1)]) + sin(u[q]) for q], t + 1)
        u
""",
    "a while loop of a matrix": """
def f(a: Fin(n)=>Fin(m)=>Float, s: Float):
    loop u = a, t = 0 while sum(sum(u)) > s and t < 9:
        z = [softmax(u[i]) for i]
        ([sum(z[q] * u[q]) for q] * z, t + 1)
    u
""",
    "pointer jumping": """
def f(q: Fin(n)=>Fin(n)):
    loop p = q, t = 0 while any(p[i] != p[p[i]] for i) and t < 10:
        ([p[p[i]] for i], t + 1)
    p
""",
    "binary search in every column": """
def f(x: Fin(n)=>Float, v: Fin(m)=>Float):
    for j in Fin(m):
        loop lo = 0, hi = Int(n) while lo < hi:
            mid = (lo + hi) // 2
            if x[mid?] < v[j]: (mid + 1, hi)
            else: (lo, mid)
        lo
""",
    "a guarded reduction that does not mention the loop outside": """
def f(x: Fin(n)=>Float, v: Fin(m)=>Float):
    [(max(x[0?] for k in Fin(n)) if not j > 0 else 0.5) for i in Fin(n), j in Fin(m)]
""",
    "an unused index check": """
def f(x: Fin(n)=>Float, k: Int):
    y = [x[k?] for i in Fin(n)]
    x
""",
    "parts of joined parts": """
def f(x: Fin(n)=>Float):
    y = take(concat(x + x, x), n)
    take(concat(take(concat(y, y), n), [take(concat(y, x), n)[i] for i in Fin(n)]), n)
""",
    "tables of tuples and of Booleans": """
def f(a: Fin(n)=>Fin(m)=>Float):
    [(sum(a[i]), argmax(a[i]), [a[i, j] > 0.5 for j]) for i]
""",
    "a running sum over pairs of indices": """
def f(a: Fin(n)=>Fin(m)=>Float):
    b = scan((+), 0.0, a as (Fin(n), Fin(m))=>Float)
    b as Fin(n)=>Fin(m)=>Float
""",
    "a cheap value computed again in loops that stand in another order": """
def f(x: Fin(n)=>Float):
    p = [x[j] * x[i] for j, i]
    c = [cos(p[j, i]) for j, i]
    s = [-sin(p[j, i]) for j, i]
    d = [y * (j + 1.0) for j in Fin(n), y in x]
    e = [d[j, i] + d[i, j] for j, i]
    t = [sum((x[i] * c[j, i] + (e[j, i] * s[j, i]) * x[i]) * x[i] + x[i] * (x[i] * c[j, i])
             for i) for j]
    (sum([x[i] * c[j, i] * x[i] for j, i]), t)
""",
    "an inner loop that forgets what it carried": """
def f(x: Fin(n)=>Float, s: Float, a: Fin(n)=>Fin(m)=>Float) -> Float:
    loop u = s for i in Fin(n):
        loop v = u for j in Fin(m):
            0.5
        v
    u
""",
    "a while loop that a cut loop does not need": """
def bounded(x: Float, k: Int) -> Float:
    few = min(k, 5)
    loop w = x for t in Fin(few) while abs(w) < 3.0:
        0.5

def f(x: Fin(n)=>Float, a: Fin(n)=>Fin(m)=>Float):
    (
        [sum(bounded(0.5, 1) for v1 in Fin(m) if v1 > 0) for v0 in Fin(n)],
        [sum(bounded(x.get(v0 - 1, 0.5), Int(v1)) for v1 in Fin(m) if v0 < n - 1) for v0 in Fin(n)],
    )
""",
    "bytes": """
def f(g: Fin(m)=>U8, k: Int):
    (sum(Int(g[i]) for i), [g[i] + g[wrap(i + 1)] for i], g[k?])
""",
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("k", [0, 2, 9])
def test_hard_programs(name: str, k: int) -> None:
    rng = np.random.default_rng(k)
    n, m = 5, 7
    given = {
        "a": rng.random((n, m)), "v": rng.random(m), "x": np.sort(rng.random(n)),
        "r": np.array([0, 2, 2, 5, 5, 7]), "q": np.array([0, 0, 1, 2, 3]),
        "g": rng.integers(0, 255, m).astype(np.uint8), "c": rng.integers(-3, 4, n),
        "k": k, "s": k / 2,
    }  # fmt: skip
    compare(HARD[name], {"n": n, "m": m}, given)


def _test(count: int):
    @settings(max_examples=count, **QUIET)
    @given(programs(), st.sampled_from(SIZES), st.integers(0, 3))
    def run(text: str, sizes: tuple[int, int], seed: int) -> None:
        agree(text, *sizes, seed)

    return run


def test_all_stages_agree() -> None:
    _test(int(os.environ.get("NAPERIAN_PROGRAMS", "120")))()


def test_all_stages_agree_on_hessians() -> None:
    @settings(max_examples=int(os.environ.get("NAPERIAN_PROGRAMS", "200")) // 10, **QUIET)
    @given(hessians(), st.sampled_from(SIZES), st.integers(0, 3))
    def run(text: str, sizes: tuple[int, int], seed: int) -> None:
        agree(text, *sizes, seed)

    run()


@pytest.mark.long
def test_all_stages_agree_on_many() -> None:
    _test(1000)()



