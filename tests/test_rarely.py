"""Loops that keep the best so far: rounds in which nothing changes are passed over as vectors."""

from __future__ import annotations

import re
import textwrap

import numpy as np
import pytest

import naperian as nap
from naperian.backends.llvm import optimised

TEXT = """
def nearest(d: n=>Float) -> (Float, Int):
    loop best = inf, at = -1 for j in n:
        if d[j] < best: (d[j], Int(j))
        else: (best, at)

def last_largest(d: n=>I32, taken: n=>Bool) -> (I32, Int):
    with state(I32(-100)) as best, state(-1) as at:
        for j in n:
            if not taken[j]:
                if d[j] >= best:
                    best := d[j]
                    at := Int(j)

def profit(p: n=>Float) -> (Float, Float, Int):
    loop low = inf, best = 0.0, at = -1 for j in n:
        now = min(low, p[j])
        gain = p[j] - now
        (now, gain if gain > best else best, Int(j) if gain > best else at)

def two(d: n=>Float) -> (Float, Float):
    loop first = inf, second = inf for j in n:
        if d[j] < first: (d[j], first)
        elif d[j] < second: (first, d[j])
        else: (first, second)

def largest(d: n=>Float) -> Float:
    loop top = 0.0 for j in n: max(top, d[j])

def farthest(d: n=>Int, from_: Float) -> (Float, Int):
    loop best = -1.0, at = 0 for j in n:
        if abs(d[j] - from_) > best: (abs(d[j] - from_), Int(j))
        else: (best, at)

def changes(d: n=>Float) -> Int:
    (_, count) = loop last = 0.0, count = 0 for j in n:
        (d[j], count + 1 if d[j] != last else count)
    count
"""


@pytest.fixture(scope="module")
def m():
    return nap.compile(TEXT)


def nearest(d):
    best, at = np.inf, -1
    for j, x in enumerate(d):
        if x < best:
            best, at = x, j
    return best, at


def last_largest(d, taken):
    best, at = -100, -1
    for j, x in enumerate(d):
        if not taken[j] and x >= best:
            best, at = x, j
    return best, at


def profit(p):
    low, best, at = np.inf, 0.0, -1
    for j, x in enumerate(p):
        low = np.minimum(low, x)
        if x - low > best:
            best, at = x - low, j
    return low, best, at


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 15, 16, 17, 64, 71, 500])
def test_what_is_kept(m, n: int) -> None:
    r = np.random.default_rng(n)
    drawn = r.normal(size=n)
    for d in (drawn, np.round(drawn), -np.arange(float(n)), np.cumsum(drawn)):
        assert m.nearest(d) == nearest(d)
        assert np.allclose(m.profit(d), profit(d), rtol=0, atol=0)
        assert m.two(d) == tuple(np.sort([np.inf, np.inf, *d])[:2])
        assert m.largest(d) == max(0.0, *d, 0.0)
        far = abs(np.round(d) - 0.5)
        want = (far.max(), far.argmax()) if n else (-1, 0)
        assert m.farthest(np.int64(np.round(d)), 0.5) == want
        assert m.changes(d) == np.count_nonzero(np.diff(d, prepend=0.0))
        k, taken = np.int32(d), r.integers(0, 2, n).astype(bool)
        assert m.last_largest(k, taken) == last_largest(k, taken)


@pytest.mark.parametrize("at", [0, 3, 20, 39])
def test_what_is_no_number(m, at: int) -> None:
    d = np.random.default_rng(at).normal(size=40)
    d[at] = np.nan
    assert m.nearest(d) == nearest(d)
    assert np.isnan(m.largest(d))


@pytest.mark.parametrize("name", ["nearest", "last_largest", "profit", "two", "farthest"])
def test_nothing_changes_in_vectors(m, name: str) -> None:
    assert "for block in" in m[name].show("loops")
    text = optimised(m[name].show("llvm"))
    compared = re.findall(r"(?:icmp|fcmp) \w+ <(\d+) x (?:i32|double)>", text)
    assert compared
    assert int(compared[0]) > 1


def test_what_changes_often_is_in_order(m) -> None:
    assert "block" not in m.changes.show("loops")


# What a tour asks of every place: a table of what was there already, the place where it is now.
TOUR = """
def tour(x: n=>Float, y: n=>Float) -> (Float, n=>Int):
    (order, length, _, _) = with state([0 for _ in n]) as order, state(0.0) as length, state(0) as at, state([k == 0 for k in n]) as seen:
        for s in 1..n:
            d = [inf if seen[j] else hypot(x[j] - x[at?], y[j] - y[at?]) for j]
            b = argmin(d)
            at := b
            seen[b] := True
            length += d[b]
            order[b] := Int(s)
    (length, order)

def near(x: n=>Float, open: n=>Bool, at: Int) -> n = argmin(abs(x[j] - x[at?]) for j if open[j])

def nears(x: n=>Float, open: n=>Bool, at: Int, k: Int) -> (Int, Int):
    loop at = at, sum = 0 for _ in Fin(k):
        (near(x, open, at), sum + at)
"""  # noqa: E501


@pytest.fixture(scope="module")
def tour():
    return nap.compile(TOUR)


@pytest.mark.parametrize("size", [1, 2, 8, 9, 40, 200])
def test_places_are_asked_at_once(tour, size: int) -> None:
    x, y = np.random.default_rng(size).random((2, size)).round(1)  # with many that are equal
    at, length, order, seen = 0, 0.0, np.zeros(size, int), np.arange(size) == 0
    for s in range(1, size):
        d = np.where(seen, np.inf, np.hypot(x - x[at], y - y[at]))
        at = int(np.argmin(d))
        seen[at], order[at] = True, s
        length += d[at]
    got = tour.tour(x, y)
    assert np.isclose(got[0], length)
    assert (got[1] == order).all()


def test_a_tour_is_vectors_in_place(tour) -> None:
    text = tour.tour.show("allocate")
    assert "for block in" in text
    assert text.count("bool[n]") == 1  # what is seen, and no copy of it


@pytest.mark.parametrize("size", [3, 16, 41])
def test_a_place_that_is_asked_for_must_exist_where_it_is_asked(tour, size: int) -> None:
    x = np.random.default_rng(size).random(size)
    open_ = np.arange(size) % 3 == 2
    assert tour.nears(x, open_, 2, 1) == (2, 2)
    for k in range(4):
        at, sum_ = 1, 0
        for _ in range(k):
            at, sum_ = int(np.argmin(np.where(open_, abs(x - x[at]), np.inf))), sum_ + at
        assert tour.nears(x, open_, 1, k) == (at, sum_)
    for outside in (-1, size):
        with pytest.raises(IndexError, match=f"index {outside} is out of range"):
            tour.nears(x, open_, outside, 2)
        with pytest.raises(AssertionError, match="nothing"):
            tour.nears(x, np.zeros(size, bool), outside, 2)
    x[2] = np.nan
    assert tour.nears(x, open_, 0, 1) == (2, 0)


def test_what_is_named_twice_again_and_again_is_compiled() -> None:
    """A random number is a chain of names, each used twice: written out, that would not end."""
    text = """
    import random
    def flipped(n: Int, seed: Int) -> Int:
        key = random.new_key(seed)
        with state(0) as s:
            for i in Fin(n):
                if random.rand(random.ix_key(random.ix_key(key, s), i)) < exp(-0.1 * s): s += 1
    """
    flipped = nap.compile(textwrap.dedent(text)).flipped
    assert 0 < flipped(100, 1) < 100


def test_chains_of_choices_are_compiled() -> None:
    lines = [f"        a{k + 1} = a{k} if x[t] > {k}.0 else a{k} + 1.0" for k in range(40)]
    text = ["def f(x: n=>Float) -> Float:", "    loop s = 0.0 for t in n:", "        a0 = s"]
    f = nap.compile("\n".join([*text, *lines, "        a40"])).f
    assert f(np.array([2.5, 0.0])) == 77.0


def test_a_name_that_is_assigned_twice_in_a_round_stands_for_nothing_else() -> None:
    f = nap.compile("""
def f(x: Fin(n)=>Float, v: Fin(m)=>Float, s: Float, u: Fin(n)=>U8, g: Fin(n)=>Fin(m)):
    with state(s) as p2, state(v) as p3:
        for i in Fin(n):
            if u[i] > 3:
                half = fold(lambda acc, _: 0.5 * acc + p3[0?], x[clamp(i - 1)], [0 for _ in Fin(1)])
                p2 := 0.5 * p2 + (half - (s * p3[g[i]]))
            p3[g[i]]
""").f
    assert nap.check(f)


def test_vectors_and_rounds_one_by_one_have_names_of_their_own() -> None:
    f = nap.compile("""
def f(u: n=>U8, g: n=>Fin(1)) -> (Fin(1)=>Float, Fin(1)=>Float):
    with accum() as r, accum() as s:
        for i:
            for j in Fin(1):
                if (Int(i) % 2 == 0 and u[i] > 3):
                    r[g[i]] += 1.0
                else:
                    r[g[i]] += 1.0
                    s[j] += 1.0
""").f
    assert [list(x) for x in f(np.array([5, 5, 1], np.uint8), [0, 0, 0])] == [[3.0], [2.0]]


# What flows back through a running maximum: a number that stays what it is, moves on, or is gone.
BACK = """
def fall(x: n=>Float) -> Float:
    top = scan(max, -inf, x)
    max(top - x)

def fall_by_loop(x: n=>Float) -> Float:
    loop top = -inf, worst = 0.0 for i in n:
        t = max(top, x[i])
        (t, max(worst, t - x[i]))
    worst

def third(x: n=>Float) -> Float:
    loop one = 0.0, two = 0.0, three = 0.0 for i in n:
        (max(one, x[i]), max(two, one - x[i]), max(three, x[i] + two))
    three

def last_below(x: n=>Float) -> Float:
    loop last = 0.0 for i in n:
        x[i] if x[i] < 0.5 else last
    last ** 2

def doubled(x: n=>Float) -> Float:
    loop last = 0.0, sum = 0.0 for i in n:
        (x[i] if x[i] < 0.5 else last, sum + last)
    sum
"""


@pytest.mark.parametrize("how", ["", "@strict\n", "@fast\n"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_goes_back_through_a_maximum(how: str, dtype: type) -> None:
    m = nap.compile(BACK.replace("def ", f"{how}def "))
    r = np.random.default_rng(3)
    for name in ("fall", "fall_by_loop", "third", "last_below", "doubled"):
        f = m[name]
        grad, push = nap.grad(f), nap.jvp(f)
        for n in (1, 2, 7, 8, 9, 16, 17, 40, 300):
            drawn = r.normal(size=n)
            odd = r.choice([0.0, -0.0, 1.0, -1.0], n)
            for x in (drawn, np.cumsum(drawn), np.sort(drawn), -np.sort(drawn), odd):
                v = r.normal(size=n).astype(dtype)
                want = push(x.astype(dtype), v)[1]
                got = (grad(x.astype(dtype)) * v).sum(dtype=np.float64)
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_what_goes_back_through_a_maximum_is_vectors() -> None:
    m = nap.compile(BACK)
    for name in ("fall", "fall_by_loop", "last_below"):
        assert nap.grad(m[name]).show("loops").count("for block") >= 1 + (name != "last_below")
    assert "bits" not in nap.grad(m.doubled).show("loops")  # what is there is added in every round


def test_a_running_maximum_is_kept_in_blocks() -> None:
    for how, exact in (("", False), ("@strict\n", True)):
        m = nap.compile(f"""
{how}def top(x: n=>Float) = scan(max, -0.0, x)
{how}def last(x: n=>Float) -> Float:
    loop t = -0.0 for i in n: max(t, x[i])
    t
""")
        assert "for block" in m.top.show("loops")
        r = np.random.default_rng(0)
        for n in (0, 1, 8, 9, 30, 100):
            x = r.normal(size=n)
            np.testing.assert_array_equal(m.top(x), np.maximum.accumulate([-0.0, *x])[1:])
            if n > 3:
                x[3] = np.nan
                np.testing.assert_array_equal(m.top(x), np.maximum.accumulate([-0.0, *x])[1:])
        if exact:  # the larger of two zeros is that without a sign, in every place behind it
            zeros = np.full(40, -0.0)
            zeros[[2, 20]] = 0.0
            assert [np.signbit(v) for v in m.top(zeros)] == [True, True] + [False] * 38
            assert not np.signbit(m.last(zeros))


UNDER = """
def f(x: Fin(n)=>Float, steps: Int) -> Fin(n)=>Float where n >= 1:
    with state(x) as y:
        for t in Fin(steps):
            if t % 3 != 1:
                i = argmin(y[j] * y[j] - y[j] / (j + 1) + sqrt(abs(y[j])) for j in Fin(n))
                y[i] += 0.5
"""


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_the_first_best_under_a_condition_of_the_round_is_passed_over_as_any(n: int) -> None:
    f = nap.compile(UNDER).f
    assert "reducing or" in f.show("loops")
    for odd in (0.0, np.nan):
        y = np.arange(n) % 5 / 7 - odd * (np.arange(n) == n // 2)
        given = y.copy()
        for t in range(20):
            if t % 3 != 1:
                y[np.argmin(y * y - y / (np.arange(n) + 1.0) + np.sqrt(np.abs(y)))] += 0.5
        np.testing.assert_allclose(f(given, 20), y)
