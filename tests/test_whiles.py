"""Loops until a condition changes that stand in the rounds of other loops."""

import numpy as np
import pytest

import naperian as nap

TEXT = """
def counted(k: Int, m: Int) -> Int:
    loop f = 0 for p in Fin(m):
        loop g = f, j = k while j >= 0: (g + j, j - 1)
        g

def twice(k: Int, m: Int) -> Int:
    loop s = 0, i = 0 while i < m:
        loop g = s, j = k while j >= 0: (g + j, j - 1)
        (g + 1, i + 1)
    s

def state_in_rounds(k: Int, m: Int) -> Int:
    (f, _) = with state(0) as f, state(0) as j:
        for p in Fin(m):
            j := 0
            while j < k:
                f += 1
                j := j + 1
    f

def sifted(x: Fin(n)=>Float) -> Fin(n)=>Float:
    (h, _) = with state(x) as h, state(0) as c:
        for i in Fin(n):
            c := Int(i)
            while c > 0 and h[((c - 1) // 2)?] > h[c?]:
                q = (c - 1) // 2
                (h[c?], h[q?]) := (h[q?], h[c?])
                c := q
    h

def free(x: Fin(4)=>Int) -> Int:
    loop c = 2 while any(x[j] == c for j): c + 1
    c

def levelled(x: Fin(n)=>Int) -> Fin(n)=>Int:
    (p, _) = with state(x) as p, state(2) as c:
        for i in Fin(n):
            while c < p[i]: c += 1
            p[i] := c
    p

def never(x: Fin(4)=>Int) -> Fin(4)=>Int:
    (p, _) = with state(x) as p, state(2) as c:
        for i in Fin(4):
            while p[0] < i: c += p[i]
            p[i] := c + p[i]
    p

def guarded(n: Int, x: Fin(4)=>Int) -> (Int, Fin(4)=>Int):
    with state(0) as b, state(x) as t:
        if b > n:
            for i in Fin(n):
                t[1] += 1
                b := 1

def in_a_branch(n: Int, x: Fin(4)=>Int) -> (Int, Fin(4)=>Int):
    with state(n) as a, state(x) as t:
        if n > 1:
            for i in Fin(2):
                t[0] += 1
                for j in Fin(3):
                    t[1] += 1
                    a += t[0]
"""


@pytest.fixture(scope="module")
def module() -> nap.Module:
    return nap.compile(TEXT)


@pytest.mark.parametrize("k", [-1, 0, 3])
@pytest.mark.parametrize("m", [0, 1, 3])
def test_rounds_that_do_not_depend_on_the_loop_around(module: nap.Module, k: int, m: int) -> None:
    assert module.counted(k, m) == m * sum(range(k + 1))
    assert module.twice(k, m) == m * (sum(range(k + 1)) + 1)
    assert module.state_in_rounds(k, m) == m * max(k, 0)


def test_conditions_that_read_tables(module: nap.Module) -> None:
    assert module.free(np.array([2, 3, 5, 4])) == 6
    assert module.levelled(np.array([1, 5, 3, 9])).tolist() == [2, 5, 5, 9]
    assert module.levelled(np.array([], dtype=np.int64)).tolist() == []
    assert module.never(np.array([3, 1, 4, 1])).tolist() == [5, 3, 6, 3]


def test_a_table_that_a_condition_keeps_from_changing(module: nap.Module) -> None:
    for n in (-1, 0, 1, 4):
        b, t = module.guarded(n, np.array([3, 1, 4, 1]))
        assert (b, t.tolist()) == (0, [3, 1, 4, 1])


def test_a_short_loop_under_a_condition(module: nap.Module) -> None:
    a, t = module.in_a_branch(0, np.array([3, 1, 4, 1]))
    assert (a, t.tolist()) == (0, [3, 1, 4, 1])
    a, t = module.in_a_branch(2, np.array([3, 1, 4, 1]))
    assert (a, t.tolist()) == (2 + 3 * 4 + 3 * 5, [5, 7, 4, 1])


def test_what_a_round_asks_under_a_condition_it_goes_on_with(module) -> None:
    x = np.random.default_rng(0).random(40)
    heap = module.sifted(x)
    assert sorted(heap) == sorted(x)
    assert all(heap[(k - 1) // 2] <= heap[k] for k in range(1, 40))


LEFT = """
def marked(y: Fin(n)=>Int) -> Fin(n)=>Bool:
    with state([v < 3 for v in y]) as q:
        for i: q[i // 2] := q[i] or q[0?]

def run(y: Fin(n)=>Int) -> Int:
    b = marked(y)
    loop w = 0 for t in Fin(n) while b[t]: w + 1
    w

def runs(y: Fin(n)=>Int) -> Fin(n)=>Int:
    b = marked(y)
    for i:
        loop w = 0 for t in Fin(n) while b[t]: w + i
        w

def turned(y: Fin(n)=>Int) -> Int:
    loop b = [True for _ in y] for _ in Fin(3): [b[wrap(i + 1)] and y[i] < 4 for i]
    loop w = 0 for t in Fin(n) while b[t]: w + 1
    w

def power(x: Fin(n)=>Float, y: Fin(n)=>Int) -> Fin(n)=>Float:
    b = marked(y)
    loop w = x for t in Fin(n) while b[t]: w * x
    w
"""


def test_conditions_that_read_what_another_loop_left() -> None:
    m = nap.compile(LEFT)
    y = np.arange(5)  # 0, 1 and 2 are marked
    assert m.marked(y).tolist() == [True, True, True, False, False]
    assert (m.run(y), m.runs(y).tolist(), m.turned(y)) == (3, [0, 3, 6, 9, 12], 2)
    assert m.power(y, y).tolist() == [0, 1, 16, 81, 256]
    assert nap.vjp(m.power)(y, y, np.ones(5))[1].tolist() == [0, 4, 32, 108, 256]


ASKED = """
def grown(q: n=>Float) -> Float:
    (_, s) = with state(q) as u, state(0.0) as s:
        for i:
            s += u[i] * s + 0.1
            u[i] := s
    s

def halved(v: Float) -> Float:
    loop v = v, k = 0 while v > 1.0 and k < 9: (0.5 * v, k + 1)
    v

def rounds(t: Float, q: n=>Float) -> n=>Float:
    loop q = q, k = 0 while k < 12 and {asked} > t: (0.5 * q + 0.01 * t, k + 1)
    q

def at_most(t: Float, q: n=>Float) -> n=>Float:
    loop q = q for v in q while {asked} > t + 0.01 * v: 0.5 * q + 0.01 * t * v

def in_place(t: Float, q: n=>Float) -> n=>Float:
    (q, _) = with state(q) as p, state(0) as k:
        while k < 12 and large(p, t):
            for i: p[i] := 0.5 * p[i] + 0.01 * t
            k += 1
    q

def large(p: Ref(n=>Float), t: Float) -> {{State}} Bool:
    q = get(p)
    {asked} > t

def weighed(y: n=>Float) -> Float = sum(y[i] ** 2 * (1.0 + i) for i)
def total(t: Float, q: n=>Float) -> Float =
    weighed(rounds(t, q)) + weighed(at_most(t, q)) + weighed(in_place(t, q))
def rows(t: Float, q: m=>n=>Float) -> Float = sum(total(t, r) for r in q)
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "asked",
    ["fold(lambda a, v: a * 0.9 + v, 0.0, q)", "grown(q)", "sum([v for v in q if v > 0.1])",
     "sum(halved(v) for v in q)"],
)  # fmt: skip
def test_derivatives_of_loops_whose_conditions_have_an_order(asked: str) -> None:
    m = nap.compile(ASKED.format(asked=asked))
    q = np.array([[1.3, 0.8, 1.1, 0.57], [3.1, 0.2, 0.9, 0.4], [0.1, 0.02, 0.1, 0.03]])
    t, h = 0.41, 1e-6
    steps = h * np.eye(q.size).reshape(-1, *q.shape)
    slope = nap.grad(m.rows, wrt=("t", "q"))
    by_t, by_q = slope(t, q)
    assert by_t == pytest.approx((m.rows(t + h, q) - m.rows(t - h, q)) / (2 * h), rel=1e-6)
    differences = [(m.rows(t, q + d) - m.rows(t, q - d)) / (2 * h) for d in steps]
    assert by_q.ravel() == pytest.approx(np.array(differences), rel=1e-6, abs=1e-8)
    _, forward = nap.jvp(m.rows, "q")(t, q, q)
    assert forward == pytest.approx(np.sum(by_q * q))
    twice = nap.hessian(m.total, wrt="q")(t, q[0])
    gradient = nap.grad(m.total, wrt="q")
    columns = [(gradient(t, q[0] + d) - gradient(t, q[0] - d)) / (2 * h) for d in h * np.eye(4)]
    assert twice == pytest.approx(np.array(columns), rel=1e-5, abs=1e-7)


RECURS = """
def rounds(x: n=>Float) -> n=>Float:
    loop y = x while sum(y) < 9.0: {round}

def f(x: n=>Float) -> Float = sum(rounds(x) ** 2)
"""


@pytest.mark.parametrize(
    "round",
    [
        "scan(lambda a, b: 0.5 * a * b + 1.0, 0.5, y) * 1.2",
        "tanh(cumsum(y)) * 0.3 + 1.1 * y",
        """
        (t, _) = with state(0.1) as s:
            for i in n:
                s := s * y[i] + 1.0
                s
        t * 1.1""",
    ],
)
def test_derivatives_of_rounds_that_are_recurrences(round: str) -> None:
    """What an inner loop carries goes on in each round, also where rounds are made again."""
    f = nap.compile(RECURS.format(round=round)).f
    x, h = np.array([0.3, 0.9, 0.6, 0.4]), 1e-6
    steps = h * np.eye(4)
    expected = [(f(x + d) - f(x - d)) / (2 * h) for d in steps]
    assert nap.grad(f)(x) == pytest.approx(np.array(expected), rel=1e-6)
    gradient = nap.grad(f)
    columns = [(gradient(x + d) - gradient(x - d)) / (2 * h) for d in steps]
    assert nap.hessian(f)(x) == pytest.approx(np.array(columns), rel=1e-5, abs=1e-6)


FOUND = """
def root(parent: Ref(Fin(n)=>Fin(n)), a: Fin(n)) -> {State} Fin(n):
    with state(a) as r:
        while parent[r] != get(r): r := parent[r]
def f(n: Int, joined: m=>Bool, a: m=>Fin(n), b: m=>Fin(n)) -> Fin(n)=>Fin(n):
    with state([k for k in Fin(n)]) as parent:
        for i in m:
            if joined[i]:
                p = root(parent, a[i])
                q = root(parent, b[i])
                parent[max(p, q)] := min(p, q)
def g(n: Int, joined: Fin(m)=>Bool, a: Fin(m + 1)=>Fin(n)) -> Fin(n)=>Fin(n):
    with state([k for k in Fin(n)]) as parent:
        for i in Fin(m + 1):
            if i > 0 and joined[clamp(i - 1)]:
                p = root(parent, a[i])
                parent[p] := min(p, a[clamp(i - 1)])
"""


@pytest.mark.parametrize("m", [0, 1, 2, 50])
def test_a_loop_under_a_condition_of_an_argument_does_not_begin_without_it(m: int) -> None:
    made = nap.compile(FOUND)
    r = np.random.default_rng(m)
    joined, a, b = r.random(m) < 0.6, r.integers(0, 30, m), r.integers(0, 30, m)

    def root(parent: np.ndarray, k: int) -> int:
        while parent[k] != k:
            k = parent[k]
        return k

    want = np.arange(30)
    for k in np.flatnonzero(joined):
        p, q = root(want, a[k]), root(want, b[k])
        want[max(p, q)] = min(p, q)
    np.testing.assert_array_equal(made.f(30, joined, a, b), want)
    a, want = r.integers(0, 30, m + 1), np.arange(30)
    for k in np.flatnonzero(joined) + 1:
        p = root(want, a[k])
        want[p] = min(p, a[k - 1])
    np.testing.assert_array_equal(made.g(30, joined, a), want)
    lines = made.f.show("loops").splitlines()
    (asked,) = (k for k, x in enumerate(lines) if "if joined" in x)
    assert asked < min(k for k, x in enumerate(lines) if "while" in x)


INSERTION = """
def insertion(x: Fin(n)=>Float) -> Fin(n)=>Float:
    with state(x) as s:
        for i in 1..n:
            v = s[i]
            loop j = Int(i) while j > 0 and s[(j - 1)?] > v:
                s[j?] := s[(j - 1)?]
                j - 1
            s[j?] := v

def shifted(x: Fin(n)=>Float) -> (Fin(n)=>Float, Int):
    with state(x) as s, state(0) as k:
        while k + 1 < n and s[(k + 1)?] < 1.0:
            s[(k + 1)?] := 0.5 * s[(k + 1)?]
            k += 1
            s[k?] += s[k?]
"""


def test_what_a_condition_has_read_is_not_read_again() -> None:
    m = nap.compile(INSERTION)
    for n in (0, 1, 2, 9, 30):
        x = np.random.default_rng(n).normal(size=n)
        np.testing.assert_array_equal(m.insertion(x), np.sort(x))
    assert m.insertion.show("loops").count("out[") == 5
    x, k = m.shifted([5.0, 0.25, -2.0, 1.0, 0.0])
    np.testing.assert_array_equal(x, [5.0, 0.25, -2.0, 1.0, 0.0])
    assert k == 2
