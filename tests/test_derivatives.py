"""Derivatives of generated programs: tangents and cotangents agree with each other and with finite
differences, in compiled code; the rules of the scalar primitives; the price of a gradient."""

from __future__ import annotations

import os
import re
import warnings

import numpy as np
import pytest
from generate import HEADER, Scope, arguments, floats, with_helpers
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

import naperian as nap
from naperian.partials import RULES
from naperian.prims import PRIMITIVES

QUIET = {
    "deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True,
    "phases": [Phase.explicit, Phase.generate, Phase.shrink],  # explaining takes minutes
}

POINTS = {  # where a primitive is differentiated, if not at ±0.3, 0.6 …
    "acosh": [1.5, 2.5], "log": [0.4, 3.0], "log2": [0.4, 3.0], "log10": [0.4, 3.0],
    "log1p": [-0.5, 3.0], "sqrt": [0.4, 3.0], "gamma": [-1.5, 0.3, 4.2], "lgamma": [-1.5, 0.3, 4.2],
}  # fmt: skip
USUAL = [-0.7, -0.3, 0.6, 0.9]
PAIRS = [(0.7, 1.3), (1.7, 0.4), (-0.3, 0.8), (2.2, -1.7)]


@pytest.mark.parametrize("name", sorted(n for n in RULES if PRIMITIVES[n].arity == 1))
def test_unary_rules(name: str) -> None:
    call = "-x" if name == "neg" else f"{name}(x)"
    m = nap.compile(f"def f(x: Float) -> Float = {call}")
    slope, curve = nap.grad(m.f), nap.hessian(m.f)
    for x in POINTS.get(name, USUAL):
        assert np.isclose(slope(x), difference(m.f, x), rtol=1e-7, atol=1e-8), (name, x)
        assert np.isclose(curve(x), difference(slope, x), rtol=1e-6, atol=1e-7), (name, x)


SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%", "pow": "**"}


@pytest.mark.parametrize("name", sorted(n for n in RULES if PRIMITIVES[n].arity == 2))
def test_binary_rules(name: str) -> None:
    call = f"x {SYMBOLS[name]} y" if name in SYMBOLS else f"{name}(x, y)"
    m = nap.compile(f"def f(x: Float, y: Float) -> Float = {call}")
    for x, y in PAIRS:
        if name == "pow":
            x = abs(x)
        dx, dy = nap.grad(m.f, ("x", "y"))(x, y)
        assert np.isclose(dx, difference(lambda t, y=y: m.f(t, y), x), rtol=1e-7), (name, x, y)
        assert np.isclose(dy, difference(lambda t, x=x: m.f(x, t), y), rtol=1e-7), (name, x, y)


def difference(f, x: float, h: float = 1e-3) -> float:
    """f' at x, by Richardson's extrapolation of central differences (error of order h⁶)."""
    d = [(f(x + s) - f(x - s)) / (2 * s) for s in (h, h / 2, h / 4)]
    e = [(4 * d[1] - d[0]) / 3, (4 * d[2] - d[1]) / 3]
    return (16 * e[1] - e[0]) / 15


def check(text: str, n: int, m: int, seed: int) -> None:
    """At the program's inputs: <jvp, ȳ> = <ẋ, vjp>, and the tangent is that of the differences if
    these say anything (the program is smooth there)."""
    module = nap.compile(text)
    given = arguments(n, m, seed)
    rng = np.random.default_rng(seed)
    wrt = ("x", "a", "s")
    given |= {k: np.asarray(given[k]) + 0.1 * rng.standard_normal(np.shape(given[k])) for k in wrt}
    along = {k: rng.standard_normal(np.shape(given[k])) for k in wrt}

    def f(t: float) -> float:
        return module.f(**(given | {k: given[k] + t * along[k] for k in wrt}))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            y = f(0.0)
        except nap.RunError:
            assume(False)
        names = {k: v for k, v in given.items() if k in _names(module.f)}
        used = [k for k in wrt if k in names]
        value, dy = nap.jvp(module.f, used)(**names, **{f"d{k}": along[k] for k in used})
        again, back = nap.vjp(module.f, used)(**names, seed=1.0)
        # sums leave their order open: rows may go four at a time in one program and not in another
        assert np.allclose([value, again], [y, y], rtol=1e-9, atol=1e-9, equal_nan=True), text
        back = back if len(used) > 1 else (back,)
        dual = sum(np.sum(b * along[k]) for b, k in zip(back, used, strict=True))
        assume(np.isfinite(y) and abs(y) < 1e6)
        assert np.isclose(dy, dual, rtol=1e-8, atol=1e-8, equal_nan=True), text
        near = [(f(h) - f(-h)) / (2 * h) for h in (1e-4, 1e-5)]
        if np.all(np.isfinite(near)) and np.isclose(*near, rtol=1e-5, atol=1e-6):
            assert np.isclose(dy, near[1], rtol=1e-4, atol=1e-4), text


def _names(f) -> list[str]:
    return [p.name for p in f._text.params]


@st.composite
def scalars(draw: st.DrawFn) -> str:
    body = draw(floats(Scope(), 3))
    return with_helpers(f"{HEADER} -> Float:\n    {body}\n")


@settings(max_examples=int(os.environ.get("NAPERIAN_PROGRAMS", "1000")) // 20, **QUIET)
@given(scalars(), st.sampled_from([(1, 1), (3, 2), (5, 5), (2, 7)]), st.integers(0, 3))
def test_generated_programs(text: str, sizes: tuple[int, int], seed: int) -> None:
    check(text, *sizes, seed)


BONES = """
enum Axis = X | Y | Z

def turned(a: Float, base: Axis=>Axis=>Float) -> Axis=>Axis=>Float:
    (s, c) = (sin(a), cos(a))
    base @ ([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]] as Axis=>Axis=>Float)

# Every bone is turned by an angle and stands on the one before it; points follow by weights.
def skin(angle: Fin(26)=>Float, which: Fin(b)=>Fin(26), base: Fin(b)=>Axis=>Axis=>Float,
         shift: Fin(b)=>Axis=>Float, weight: v=>Fin(b)=>Float, rest: v=>Axis=>Float):
    own = [turned(angle[which[i]], base[i]) for i]
    there = with state(own) as s:
        for i in Fin(b):
            if i > 0: s[i] := s[(i - 1)?] @ s[i]
    [sum(weight[i, k] * (there[k] @ rest[i] + shift[k]) for k) for i]

def along(direction: Fin(26)=>Float, angle: Fin(26)=>Float, which: Fin(b)=>Fin(26),
          base: Fin(b)=>Axis=>Axis=>Float, shift: Fin(b)=>Axis=>Float, weight: v=>Fin(b)=>Float,
          rest: v=>Axis=>Float) -> v=>Axis=>Float:
    (_, slope) = jvp(lambda angle: skin(angle, which, base, shift, weight, rest), angle, direction)
    slope

def slopes(angle: Fin(26)=>Float, which: Fin(b)=>Fin(26), base: Fin(b)=>Axis=>Axis=>Float,
           shift: Fin(b)=>Axis=>Float, weight: v=>Fin(b)=>Float, rest: v=>Axis=>Float):
    for j in Fin(26):
        along([1.0 if i == j else 0.0 for i], angle, which, base, shift, weight, rest)
"""


@pytest.mark.parametrize("points", [0, 1, 2, 31, 64])
def test_many_directions_beside_each_other_are_each_alone(points: int) -> None:
    """The loop over directions goes in lanes, and the points in it two at a time."""
    m = nap.compile(BONES)
    text = m.slopes.show("loops")
    assert "lanes for" in text, text
    assert "in 0..(v // 2):" in text, text
    r = np.random.default_rng(points)
    given = (r.uniform(-1, 1, 26), r.integers(0, 26, 22), r.uniform(-0.5, 0.5, (22, 3, 3)),
             r.uniform(-1, 1, (22, 3)), r.uniform(0, 1, (points, 22)),
             r.uniform(-1, 1, (points, 3)))  # fmt: skip
    found = m.slopes(*given)
    assert found.shape == (26, points, 3)
    for j, unit in enumerate(np.eye(26)):
        np.testing.assert_allclose(found[j], m.along(unit, *given), rtol=1e-11, atol=1e-13)


MIXTURE = """
def mixture(mu: k=>d=>Float, low: k=>(a: d)=>(..a)=>Float, x: n=>d=>Float) -> Float:
    sum(logsumexp([-sum((x[i, a] - mu[j, a] + sum(low[j, a, b] * (x[i, b] - mu[j, b]) for b)) ** 2
                        for a) for j]) for i)

def slopes(mu: k=>d=>Float, low: k=>(a: d)=>(..a)=>Float, x: n=>d=>Float):
    value_and_grad(mixture, wrt=("mu", "low"))(mu, low, x)
"""


@pytest.mark.parametrize(
    ("n", "d", "k"), [(0, 3, 2), (1, 1, 1), (33, 5, 3), (100, 9, 2), (257, 2, 4)]
)
def test_large_sums_of_rows_side_by_side_are_numbers(n: int, d: int, k: int) -> None:
    """What a mixture sends to its matrices is one number an element, not eight, and what a point
    is away from a mean is computed once for all rows of the triangle."""
    m = nap.compile(MIXTURE)
    text = m.slopes.show("loops")
    assert "store table" in text, text
    assert "[k, (d * d - d) // 2, 8]" not in text, text
    assert "[k, d, 8]" in text, text
    r = np.random.default_rng(n)
    mu, x = r.standard_normal((k, d)), r.standard_normal((n, d))
    low = r.standard_normal((k, d * (d - 1) // 2))
    value, (by_mu, by_low) = m.slopes(mu, low, x)
    q = np.zeros((k, d, d))
    for j in range(k):
        q[j][np.tril_indices(d, -1)] = low[j]
        q[j] += np.eye(d)
    u = x[:, None] - mu  # n, k, d
    z = np.einsum("kab,nkb->nka", q, u)
    each = -(z**2).sum(-1)
    np.testing.assert_allclose(value, np.logaddexp.reduce(each, axis=1).sum(), rtol=1e-10)
    w = np.exp(each - np.logaddexp.reduce(each, axis=1)[:, None])
    back = -2 * w[..., None] * z
    np.testing.assert_allclose(by_mu, -np.einsum("kab,nka->kb", q, back), rtol=1e-9, atol=1e-11)
    by_q = np.einsum("nka,nkb->kab", back, u)
    rows, columns = np.tril_indices(d, -1)
    np.testing.assert_allclose(by_low, by_q[:, rows, columns], rtol=1e-9, atol=1e-11)


CHOICES = """
def shortest(w: n=>n=>Float) -> Float:
    last = with state(w) as d:
        for k in n:
            for i in n:
                for j in n:
                    d[i, j] := min(d[i, j], d[i, k] + d[k, j])
    sum(last[i, j] ** 2 for i, j)

def relaxed(w: n=>n=>Float) -> Float:
    loop d = w for k in n: [[min(d[i, j], d[i, k] + d[k, j]) for j] for i]
    sum(d[i, j] ** 2 for i, j)

def option(s: Float, k: Float, u: Float, p: Float, n: Int) -> Float:
    start = [max(k - s * u ** Float(2 * i - n), 0.0) for i in Fin(n + 1)]
    last = loop v = start for t in Fin(n):
        [max(k - s * u ** Float(2 * i - n + 1 + t), p * v[clamp(i + 1)] + (0.99 - p) * v[i]) for i]
    last[0?]
"""


def test_what_a_loop_backwards_asks_is_answered_forwards() -> None:
    """A byte is kept of a choice between two numbers, not both."""
    m = nap.compile(CHOICES)
    r = np.random.default_rng(5)
    for ways in (m.shortest, m.relaxed):
        short = nap.grad(ways)
        text = short.show("loops")
        assert ": bool[n, n, n]" in text, text
        assert not re.search(r": f64\[n( \+ 1)?, n, n\]", text), text
        for n in (0, 1, 2, 7):
            w, along = r.uniform(0.1, 1.0, (n, n)), r.standard_normal((n, n))
            slope = difference(lambda t, f=ways, w=w, d=along: f(w + t * d), 0.0, 1e-5)
            np.testing.assert_allclose(np.sum(short(w) * along), slope, rtol=1e-6, atol=1e-7)
    by = nap.grad(m.option, ("s", "k", "u", "p"))
    assert by.show("loops").count(": bool[clamp(n, n + 1), n + 1]") == 1
    at = np.array([100.0, 107.0, 1.1, 0.5])
    for n in (0, 1, 9):
        for unit, found in zip(np.eye(4), by(*at, n), strict=True):
            slope = difference(lambda t, n=n, unit=unit: m.option(*(at + t * unit), n), 0.0, 1e-5)
            assert np.isclose(found, slope, rtol=1e-6, atol=1e-6), (n, unit)


CUT = """
import linalg

struct Belief:
    m: Fin(2)=>Float
    p: Fin(2)=>Fin(2)=>Float

def predict(b: Belief, f: Fin(2)=>Fin(2)=>Float) -> Belief =
    Belief(f @ b.m, f @ b.p @ transpose(f) + [[0.1, 0.0], [0.0, 0.1]])

def update(b: Belief, y: Float) -> Belief:
    k = [b.p[i, 0] / (b.p[0, 0] + 0.5) for i]
    Belief(b.m + k * (y - b.m[0]), [[b.p[i, j] - k[i] * b.p[0, j] for j] for i])

# The mean of the first state, once all is seen.
def began(y: Fin(n)=>Float, f: Fin(2)=>Fin(2)=>Float) -> Float where n >= 1:
    start = Belief([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])
    bs = scan(lambda b, v: update(predict(b, f), v), start, y)
    def back(after: Belief, b: Belief) -> Belief:
        pred = predict(b, f)
        c = b.p @ transpose(f) @ linalg.inv(pred.p)
        Belief(b.m + c @ (after.m - pred.m), b.p + c @ (after.p - pred.p) @ transpose(c))
    last = scan(back, bs[n - 1], reverse(bs[0..n - 1]))
    sum(last[i].m[0] * last[i].p[0, 0] for i)

def loss(w: d=>Float, xs: n=>d=>Float) -> Float = mean([dot(tanh(w), xs[i]) ** 2 for i])

def learned(w: d=>Float, rate: Float, tasks: k=>n=>d=>Float) -> Float:
    def one(i: k) -> Float:
        loop v = w for _ in Fin(5):
            v - rate * grad(loss)(v, tasks[i])
        loss(v, tasks[i])
    sum(one(i) for i)
"""


def test_the_parts_of_a_loop_have_their_arrays() -> None:
    """A loop of which a round is different is cut there; both parts have the same small arrays."""
    module = nap.compile(CUT)
    near = 1e-5
    y, f = np.array([1.0, 2.0, 2.5, 4.0]), np.array([[1.0, 0.1], [0.0, 1.0]])
    steps = near * np.eye(4).reshape(2, 2, 2, 2)
    change = [[module.began(y, f + e) - module.began(y, f - e) for e in row] for row in steps]
    slope = nap.grad(module.began, wrt="f")(y, f)
    np.testing.assert_allclose(slope, np.array(change) / (2 * near), 1e-6, 1e-8)
    rest = np.array([0.5, -0.2]), np.array([[[1.0, 0.5], [0.3, 0.2]], [[0.1, 1.0], [2.0, 1.0]]])
    more, less = (module.learned(rest[0], 0.1 + e, rest[1]) for e in (near, -near))
    slope = nap.grad(module.learned, wrt="rate")(rest[0], 0.1, rest[1])
    np.testing.assert_allclose(slope, (more - less) / (2 * near), 1e-6)


def test_tangents_of_scans_side_by_side() -> None:
    """What a row carries changes in the rounds inside of its strips."""
    f = nap.compile("""
def f(x: n=>m=>Float) -> Float:
    a = [[sin(q) for q in scan(lambda s, q: 0.5 * s + q, 0.0, r)] for r in x]
    sum(sum(q * q for q in r) for r in a)
""").f
    rng = np.random.default_rng(0)
    for n, m in ((1, 2), (2, 2), (9, 5), (3, 130)):
        x, d = rng.normal(size=(2, n, m))
        backwards = np.vdot(nap.grad(f)(x), d)
        assert nap.jvp(f)(x, d)[1] == pytest.approx(backwards, rel=1e-10)


PRODUCTS = """
def f(x: n=>m=>Float) -> Float = sum(i * sin(prod(x[i, j] for j)) for i)
def slopes(x: n=>m=>Float) = grad(f)(x)
def few(x: n=>m=>Float) -> Float = sum(i * sin(prod(v for v in x[i] if v != 0.5)) for i)
"""


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_are_divided_where_they_are_normal_numbers(dtype: type) -> None:
    """Of a row with a zero, with two, which is too small or too large to be divided, or no number:
    what each value has is the product of those before and after it."""
    m = nap.compile(PRODUCTS)
    text = m.slopes.show("loops")
    assert re.search(r"store out\[i, j\w*\] = .* / x\[i, j\w*\]", text)
    assert not re.search(r"^ {4,8}allocate", text, re.M), "only where it is needed"
    small = 1e-200 if dtype is np.float64 else 1e-25
    x = np.array([
        [0.5, 2.0, 3.0], [0.5, 0.0, 3.0], [0.0, 0.7, 0.0], [small, small, 1.5], [1.5, 0.25, -1.0],
        [small, 1 / small, 0.5], [0.3, np.nan, 2.0],
    ], dtype)  # fmt: skip
    rest = np.stack([np.prod(np.delete(x, j, 1), 1) for j in range(3)], 1)
    want = np.arange(7.0)[:, None] * np.cos(x.prod(1))[:, None] * rest
    close = {"rtol": 1e-12 if dtype is np.float64 else 1e-5}
    np.testing.assert_allclose(m.slopes(x), want, **close)
    for shape in ((0, 3), (2, 0), (3, 1), (2, 40)):
        y = 0.6 + np.random.default_rng(0).random(shape).astype(dtype)
        whole = y.astype(np.float64).prod(1)[:, None]
        want = np.arange(len(y))[:, None] * np.cos(whole) * (whole / y)
        # the cosine of 7.687 magnifies what 40 factors were rounded by 45 times
        rounded = 45 * 40 * np.finfo(np.float32).eps / 2 if y.size == 80 else 0.0
        near = close if dtype is np.float64 else {"rtol": max(close["rtol"], rounded)}
        np.testing.assert_allclose(m.slopes(y), want, **near)
    kept = np.array([[0.5, 2.0, 3.0], [0.5, 0.0, 3.0], [4.0, 0.5, 0.5]], dtype)
    want = [[0, 0, 0], [0, 3, 0], [2 * np.cos(4.0), 0, 0]]
    np.testing.assert_allclose(nap.grad(m.few)(kept), want, rtol=1e-5)


KEPT_WINDOWS = """
def conv(x: Fin(h)=>Fin(w)=>Float, k: Fin(5)=>Fin(4)=>Float) -> Float =
    sum(sum(x[clamp(i + a - 2), clamp(j - b + 1)] * k[a, b] for a, b) ** 3
        for i in Fin(h), j in Fin(w))
def pool(x: Fin(h)=>Fin(w)=>Float) -> Float =
    sum(max(x[clamp(2 * i + a), clamp(2 * j + b)] for a in Fin(2), b in Fin(2)) ** 2
        for i in Fin(h // 2), j in Fin(w // 2))
def far(x: Fin(n)=>Float) -> Float =
    sum(x[clamp(i + 70)] * x[clamp(i - 3 * a)] ** 2 for i in Fin(n), a in Fin(9))
"""


def test_a_loop_that_goes_as_far_as_one_around_it_makes_rounds() -> None:
    """`sqrt(x[u])`, computed before the loop over `s`, is asked for if that has rounds: as it has
    where there is a `u`, unless it goes along another set."""
    m = nap.compile("""
def same(x: n=>Float, w: n=>n=>Float) -> Float = sum(sqrt(x[u]) * w[s, u] for s, u)
def other(x: n=>Float, w: m=>n=>Float) -> Float = sum(sqrt(x[u]) * w[s, u] for s, u)
""")
    same, other = nap.grad(m.same), nap.grad(m.other)
    assert " > 0" not in same.show("loops")
    assert other.show("loops").count(" > 0") == other.show("loops").count("if v") == 1
    x = np.array([4.0, 0.0])
    np.testing.assert_array_equal(same(x, np.array([[1.0, 2.0], [3.0, 4.0]])), [1.0, np.inf])
    np.testing.assert_array_equal(other(x, np.zeros((0, 2))), [0.0, 0.0])
    np.testing.assert_array_equal(same(np.zeros(0), np.zeros((0, 0))), np.zeros(0))


def test_only_places_near_an_end_are_asked_whether_a_window_is_kept_there() -> None:
    m = nap.compile(KEPT_WINDOWS)
    text = nap.grad(m.conv, wrt=("x", "k")).show("loops")
    assert re.search(r"in 0\.\.\(clamp\(2, h \+ 1\)\)", text)  # the corners
    assert not re.search("update out", nap.grad(m.pool).show("loops"))  # none is kept
    rng = np.random.default_rng(0)

    def agree(f: nap.Function, *args: np.ndarray) -> None:
        found = [nap.grad(f, wrt=p.name)(*args) for p in f._text.params]
        ways = [rng.normal(size=a.shape) for a in args]
        more, less = (f(*(a + e * d for a, d in zip(args, ways, strict=True)))
                      for e in (1e-6, -1e-6))  # fmt: skip
        total = sum(np.vdot(g, d) for g, d in zip(found, ways, strict=True))
        assert total == pytest.approx((more - less) / 2e-6, rel=1e-5, abs=1e-5)

    for h, w in ((1, 1), (1, 7), (2, 3), (3, 2), (4, 4), (9, 16)):
        agree(m.conv, rng.normal(size=(h, w)), rng.normal(size=(5, 4)))
        agree(m.pool, rng.normal(size=(h, w)))
    for n in (1, 5, 69, 71, 100):
        agree(m.far, rng.normal(size=n))


KEPT_PLACES = """
def image(x: Fin(h)=>Fin(w)=>Float, u: Fin(h)=>Fin(w)=>Float) -> Float =
    sum(between(x, i + u[i, j], j - 2.0 * u[i, j]) ** 2 for i in Fin(h), j in Fin(w))
def between(x: Fin(h)=>Fin(w)=>Float, s: Float, t: Float) -> Float:
    (i, j) = (Int(floor(s)), Int(floor(t)))
    (f, g) = (s - i, t - j)
    above = (1.0 - g) * x[clamp(i), clamp(j)] + g * x[clamp(i), clamp(j + 1)]
    below = (1.0 - g) * x[clamp(i + 1), clamp(j)] + g * x[clamp(i + 1), clamp(j + 1)]
    (1.0 - f) * above + f * below
def moved(x: Fin(n)=>Float, s: Fin(m)=>Int) -> Float =
    sum(x[clamp(i + s[a])] ** 2 * (i + 1) * (a + 2) for i in Fin(n), a in Fin(m))
def named(x: Fin(n)=>Float, s: Fin(n)=>Int) -> Float =
    sum(x[clamp(i + s[i])] ** 2 * (i + 1) for i in Fin(n))
"""


def test_places_that_data_name_are_kept_as_one() -> None:
    """An image between its points: four additions, not one for each way to be beyond an end."""
    m = nap.compile(KEPT_PLACES)
    text = nap.grad(m.image, wrt=("x", "u")).show("loops")
    assert len(re.findall("update out", text)) == 4
    for f in (m.image, m.moved, m.named):
        assert nap.check(f)


GIVEN_PLACES = """
def rows(e: k=>d=>Float, w: d=>Float, idx: n=>Int) -> Float =
    sum(tanh(sum(e[idx[i]?, c] * w[c] for c)) for i)
def steps(e: k=>d=>Float, idx: n=>m=>Int) -> Float:
    s = loop s = [1.0 for _ in d] for t in n:
        [sin(sum(s[c] * e[idx[t, a]?, c] for a in m)) for c]
    sum(s)
"""


def test_places_that_are_given_are_read_where_they_are_given() -> None:
    """An index that is checked in one loop and used in another is in no table of its own."""
    m = nap.compile(GIVEN_PLACES)
    text = nap.grad(m.rows, wrt=("e", "w")).show("loops")
    assert "update out[idx[" in text
    assert ": i64[d]" not in text
    for f in (m.rows, m.steps):
        assert nap.check(f)
    e, w, idx = np.ones((3, 4)), np.ones(4), np.array([0, 3, 1])
    with pytest.raises(nap.RunError):
        nap.grad(m.rows, wrt=("e", "w"))(e, w, idx)
    none = nap.grad(m.rows, wrt=("e", "w"))(e[:, :0], w[:0], idx)
    assert [x.size for x in none] == [0, 0]  # nothing is read, and nothing checked


BORDER = """
def relaxed(u: Fin(n)=>Fin(n)=>Float, b: Fin(n)=>Fin(n)=>Float, sweeps: Int) -> Float:
    loop u = u for s in Fin(sweeps):
        for i, j:
            if i == 0 or i == n - 1 or j == 0 or j == n - 1: u[i, j]
            else: 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - b[i, j])
    sum(u[i, j] ** 2 for i, j)
"""


def test_what_a_condition_says_is_not_asked_again_for_each_of_its_parts() -> None:
    """Inside, where `or` does not hold, nothing else is asked about what is sent to a neighbour."""
    m = nap.compile(BORDER)
    text = nap.grad(m.relaxed, wrt=("u", "b")).show("loops")
    assert ": bool[n, n]" not in text  # what the border is, the indices say
    assert nap.check(m.relaxed)


TWICE = """
def blown(u: n=>Float, a: n=>Float, k: Float, steps: Int) -> Float:
    loop u = u for _ in Fin(steps):
        for i:
            if a[i] > 0.0: u[i] - k * a[i] * (u[i] - u[wrap(i - 1)])
            else: u[i] - k * a[i] * (u[wrap(i + 1)] - u[i])
    sum(v ** 2 for v in u)

def ratio(r: n=>Float, m: n=>Float) -> Float =
    sum((m[i] / r[i]) ** 2 + sin(m[i] / r[i]) for i)

def both(u: n=>Float, v: n=>Float, k: Int) -> Float:
    a = loop x = u for _ in Fin(k): [0.5 * x[i] + exp(v[i]) for i]
    b = loop x = v for _ in Fin(k): [0.5 * x[i] + exp(v[i]) for i]
    sum(a) + sum(b[i] ** 2 for i)
"""


def test_what_is_computed_twice_has_one_cotangent() -> None:
    m = nap.compile(TWICE)
    text = nap.grad(m.blown, wrt=("u", "a")).show("prune")
    assert text.count("add over") == 2  # for the first rounds and the others, not for each side
    text = nap.grad(m.ratio, wrt="r").show("prune")
    assert text.count("div(") == 2  # m / r, and what is sent to it by r
    for f in (m.blown, m.ratio, m.both):
        assert nap.check(f)


MOVED = """
def flux(x: n=>Float, y: n=>Float) -> Float =
    sum((sin(x[i]) * x[clamp(i + 1)] + y[i] * x[clamp(i + 1)] ** 3 - exp(x[clamp(i + 1)])) ** 2
        for i)
"""


def test_what_goes_to_the_same_neighbour_is_moved_there_at_once() -> None:
    m = nap.compile(MOVED)
    text = nap.grad(m.flux).show("prune")
    assert text.count("- 1]") == 1  # not for each of the three
    assert nap.check(m.flux)


ROWS = """
def least(e: Fin(h + 1)=>Fin(w)=>Float) -> Float:
    loop c = e[0] for t in Fin(h):
        [e[t + 1, j] + min(c[j], min(c[clamp(j - 1)], c[clamp(j + 1)])) for j]
    min(c)
"""


def test_what_strips_send_is_added_to_what_the_last_rounds_sent() -> None:
    """To no table of zeros that is added to another one."""
    m = nap.compile(ROWS)
    text = nap.grad(m.least).show("loops")
    assert "f64[h + 1, w]" not in text.split("\n", 1)[1].split("# notes")[0]
    assert nap.check(m.least)
