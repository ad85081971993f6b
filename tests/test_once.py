"""What all rounds of a loop would compute the same is computed once, though it may stop the run, or
calls a function with a derivative of its own; not where there is no round."""

from __future__ import annotations

import re

import numpy as np
import pytest

import naperian as nap

SMOOTHED = """
def smoothed(y: Fin(n)=>Float, ix: m=>Int) -> Float:
    loop s = 0.0 for k in m:
        0.5 * s + y[ix[k]?]
"""
PLACED = """
def placed(y: Fin(n)=>Float, ix: m=>Int) -> Fin(n)=>Float:
    (o, at) = with state([0.0 for _ in Fin(n)]) as o, state(0) as at:
        for k in m:
            o[at?] := y[ix[k]?]
            at := at + 1 if at + 1 < n else 0
    o
"""
F = "def f(y: Fin(n)=>Float, ix: m=>Int, z: l=>Float)"
PROGRAMS = {
    "a loop": SMOOTHED + F + " = [smoothed(y, ix) - v for v in z]",
    "a loop in a sum": SMOOTHED + F + " = sum((smoothed(y, ix) - v) ** 2 for v in z)",
    "a sum": F + " = [v / sum(y[ix[k]?] for k) for v in z]",
    "a table": F + " = [sum(w * v for w in [sin(y[ix[k]?]) for k]) for v in z]",
    "states": PLACED + F + " = [sum(placed(y, ix)) + v for v in z]",
    "two loops around": SMOOTHED + F + " = [smoothed(y, ix) * z[i] - z[j] for i, j]",
    "one inside the other": SMOOTHED
    + F
    + " = [sum(smoothed(y, ix) * z[i] - z[j] for j) for i]",
    "rounds": F + ":\n    loop s = 1.0 for i in l:\n        s * z[i] + sum(y[ix[k]?] for k)\n",
    "a scan": F + " = scan(lambda s, v: s * v + sum(y[ix[k]?] for k), 1.0, z)",
}
"""Each computes something of `y` and `ix` in the rounds of loops over `z`."""

Y, IX, Z = np.array([0.3, 1.2, -0.7]), np.array([2, 0, 1, 1, 2]), np.array([0.4, -1.1, 0.6, 2.0])


def smoothed(y: np.ndarray, ix: np.ndarray) -> float:
    s = 0.0
    for k in ix:
        s = 0.5 * s + y[k]
    return s


def expected(name: str, y: np.ndarray, ix: np.ndarray, z: np.ndarray) -> np.ndarray:
    s, total = smoothed(y, ix), y[ix].sum()
    rounds = [1.0]
    for v in z:
        rounds.append(rounds[-1] * v + total)
    o = np.zeros_like(y)
    for t, k in enumerate(ix):
        o[t % len(y)] = y[k]
    return {
        "a loop": s - z,
        "a loop in a sum": ((s - z) ** 2).sum(),
        "a sum": z / total,
        "a table": z * np.sin(y[ix]).sum(),
        "states": o.sum() + z,
        "two loops around": s * z[:, None] - z,
        "one inside the other": (s * z[:, None] - z).sum(1),
        "rounds": np.array(rounds[-1]),
        "a scan": np.array(rounds[1:]),
    }[name]


@pytest.fixture(scope="module")
def programs() -> dict[str, nap.Function]:
    return {name: nap.compile(text).f for name, text in PROGRAMS.items()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(programs, name: str) -> None:
    assert np.allclose(programs[name](Y, IX, Z), expected(name, Y, IX, Z))


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_index_out_of_range_stops_the_run(programs, name: str) -> None:
    with pytest.raises(nap.IndexError, match="7 is out of range for an axis of size 3") as e:
        programs[name](Y, np.array([0, 7, 1]), Z)
    line, column = map(int, re.findall(r"\d+", str(e.value))[:2])
    assert PROGRAMS[name].splitlines()[line - 1][column - 1 :].startswith("ix[k]?")


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_a_round_nothing_is_checked(programs, name: str) -> None:
    for y in (Y, Y[:0]):
        assert np.array_equal(
            programs[name](y, np.array([0, 7, 1]), Z[:0]), expected(name, Y, IX, Z[:0])
        )


def loops_around(text: str, what: str) -> set[int]:
    """In how many loops the lines stand in which this is."""
    found, around = set(), []
    for line in text.split("# notes")[0].splitlines():
        depth = len(line) - len(line.lstrip())
        around = [k for k in around if k < depth]
        if re.match(r" *(parallel )?(for|while)\b", line):
            around.append(depth)
        elif what in line:
            found.add(len(around))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_loop_is_around_it(programs, name: str) -> None:
    assert loops_around(programs[name].show("loops"), "fail") == {1}


def test_what_was_checked_for_it_is_not_checked_in_each_round() -> None:
    text = F.replace("ix", "a: Int, ix") + """ -> l=>Float:
    for i:
        b = a?
        s = loop s = 0.0 for k in m: 0.5 * s + y[ix[k]?] * y[b]
        z[i] * s
"""
    f = nap.compile(text).f
    assert np.allclose(f(Y, 1, IX, Z), Z * smoothed(Y, IX) * Y[1])
    assert loops_around(f.show("loops"), "fail") == {0, 1}
    assert f.show("loops").count("fail") == 2
    with pytest.raises(nap.IndexError, match="index 3"):
        f(Y, 3, IX, Z)
    assert f(Y, 3, IX, Z[:0]).shape == (0,)


MORE = SMOOTHED + """
def if_wanted(y: Fin(n)=>Float, ix: m=>Int, z: l=>Float) =
    [smoothed(y, ix) * v if v > 0.0 else 0.0 for v in z]

def told(y: Fin(n)=>Float, ix: m=>Int, z: l=>Float) -> {IO} ():
    for i in l:
        print(f"z {z[i]}")
        print(f"s {z[i] + smoothed(y, ix)}")

def asked(y: Fin(n)=>Float, ix: m=>Int, z: l=>Float) -> l=>Float:
    for i:
        assert z[i] < 9.0, "small"
        z[i] + smoothed(y, ix)

def each(y: Fin(n)=>Float, ix: m=>Int, z: l=>Float) -> l=>Float:
    for i:
        assert n >= 2, "two are needed"
        z[i] + smoothed(y, ix) * y[0]
"""


@pytest.fixture(scope="module")
def more() -> nap.Module:
    return nap.compile(MORE)


def test_what_only_some_rounds_compute(more: nap.Module) -> None:
    s, wrong = smoothed(Y, IX), np.array([0, 7, 1])
    assert np.allclose(more.if_wanted(Y, IX, Z), np.where(Z > 0, s * Z, 0.0))
    assert more.if_wanted(Y, wrong, -abs(Z)).tolist() == [0.0] * 4
    with pytest.raises(nap.IndexError, match="index 7"):
        more.if_wanted(Y, wrong, Z)


def test_what_is_told_before(more: nap.Module, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(nap.IndexError, match="index 7"):
        more.told(Y, np.array([0, 7, 1]), Z)
    assert capsys.readouterr().out == "z 0.4\n"


def test_what_is_asked_before(more: nap.Module) -> None:
    wrong = np.array([0, 7, 1])
    assert np.allclose(more.asked(Y, IX, Z), Z + smoothed(Y, IX))
    assert np.allclose(more.each(Y, IX, Z), Z + smoothed(Y, IX) * Y[0])
    with pytest.raises(nap.IndexError, match="index 7"):
        more.asked(Y, wrong, Z)
    with pytest.raises(nap.AssertionError, match="small"):
        more.asked(Y, wrong, Z + 9.0)
    with pytest.raises(nap.AssertionError, match="two are needed"):
        more.each(Y[:1], wrong, Z)
    assert more.each(Y[:0], wrong, Z[:0]).shape == (0,)


RULES = "import linalg\n" + SMOOTHED + """
def fit(a: n=>n=>Float, c: n=>Float) -> n=>Float:
    loop x = c for _ in Fin(4):
        linalg.solve(a, x) + c

def in_a_sum(a: n=>n=>Float, c: n=>Float) -> Float = sum(fit(a, c)[j] ** 2 for j)

def named(a: n=>n=>Float, c: n=>Float) -> Float:
    z = fit(a, c)
    sum(z[j] ** 2 for j)

def checked(y: Fin(n)=>Float, ix: m=>Int) -> Float = sum((smoothed(y, ix) - v) ** 3 for v in y)

def back(x: Float, d: Float) -> Float = min(d, 1.0)

@custom_vjp(back)
def clipped(x: Float) -> Float = 1.0 * x

def halved(x: Float) -> Float:
    loop s = x for _ in Fin(2):
        0.5 * clipped(s)

def in_each_round(x: Float, c: n=>Float) -> Float = sum(halved(x) * v for v in c)

def before(x: Float, c: n=>Float) -> Float:
    h = halved(x)
    sum(h * v for v in c)
"""


@pytest.fixture(scope="module")
def rules() -> nap.Module:
    return nap.compile(RULES)


def test_the_derivative_of_a_loop_with_rules(rules: nap.Module) -> None:
    a = np.array([[3.0, 0.5, 0.1], [0.2, 2.5, 0.3], [0.4, 0.1, 4.0]])
    one, other = (nap.grad(rules[f], wrt=("a", "c")) for f in ("in_a_sum", "named"))
    for x, y in zip(one(a, Y), other(a, Y), strict=True):
        assert np.allclose(x, y)
    assert one.show("loops").count("for ") <= other.show("loops").count("for ")


def test_the_derivative_of_what_checks(rules: nap.Module) -> None:
    slope, e = nap.grad(rules.checked), 1e-6
    found = [(rules.checked(Y + d, IX) - rules.checked(Y - d, IX)) / (2 * e) for d in e * np.eye(3)]
    assert np.allclose(slope(Y, IX), found)
    assert slope(Y[:0], np.array([3])).shape == (0,)
    with pytest.raises(nap.IndexError, match="index 7"):
        slope(Y, np.array([0, 7, 1]))


def test_a_rule_that_is_no_sum_is_asked_in_each_round(rules: nap.Module) -> None:
    """What comes back from a round is at most one, and a half of that is less."""
    c = np.array([3.0, 4.0, 0.5])
    assert nap.grad(rules.in_each_round)(0.7, c) == 0.5 + 0.5 + 0.125
    assert nap.grad(rules.before)(0.7, c) == 0.5


BEHIND = """
def read(y: Fin(n)=>Float, a: Int) -> Float:
    assert 0 <= a and a < n, "in"
    loop s = 0.0 for k in Fin(3): 0.5 * s + y[a]

def summed(y: Fin(n)=>Float, a: Int) -> Float:
    assert 0 <= a and a < n, "in"
    sum(y[a] * k for k in Fin(3))

def apart(y: Fin(n)=>Float, a: Int, z: Fin(m)=>Float) -> Float =
    sum((read(y, a) - z[i]) ** 2 for i)

def beside(y: Fin(n)=>Float, a: Int, z: Fin(m)=>Float) -> Fin(m)=>Float =
    [z[i] + summed(y, a) for i]
"""


@pytest.mark.parametrize("name", ["apart", "beside"])
def test_what_an_assert_protects_is_not_read_where_no_round_asks(name: str) -> None:
    f = nap.compile(BEHIND)[name]
    y, z = np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0])
    want = ((3.5 - z) ** 2).sum() if name == "apart" else z + 6.0
    np.testing.assert_allclose(f(np.array([1.0, 2.0, 2.0]), 2, z), want)
    for far in (1 << 40, -(1 << 40)):  # far from all memory: a read there ends the process
        assert np.sum(f(y, far, z[:0])) == 0.0
        with pytest.raises(nap.RunError, match="in"):
            f(y, far, z)


def test_rows_as_long_as_what_was_checked_says() -> None:
    """Where there is no round, they are as long as what is there in their place."""
    f = nap.compile("""
def f(ends: m=>Int, z: l=>Float) -> l=>m=>Float:
    for i:
        lengths = [ends[ends[t]?] for t in m]
        rows = [sum(sin(z[i] + ends[p]) for p in m) for t in m, q in 0..(lengths[t])]
        once = [sum(sin(0.5 * q + ends[p]) for p in m) for t in m, q in 0..(lengths[t])]
        [sum(z[i] * once[t][q?] + rows[t][q?] for q in 0..(lengths[t])) for t in m]
""").f
    ends, z = np.array([1, 2, 0]), np.array([0.5, 2.0])
    lengths = ends[ends]
    rows = np.sin(z[:, None] + ends).sum(1)[:, None] * lengths
    once = np.array([np.sin(0.5 * np.arange(k)[:, None] + ends).sum() for k in lengths])
    assert np.allclose(f(ends, z), z[:, None] * once + rows)
    assert f(ends, z[:0]).shape == (0, 3)
    with pytest.raises(nap.IndexError, match="index 3"):
        f(ends + 1, z)


def test_a_length_that_no_longer_says_so_is_the_same_in_all_rounds() -> None:
    """The place of `rows[t][u?, r]` is checked in each round, until that is proved away."""
    f = nap.compile("""
def f(ends: m=>Int, z: l=>Float) -> l=>m=>Float:
    rows = [u * r for t in m, u in 0..(ends[t]), r in Fin(3)]
    [z[i] * sum(q + 1 for u in 0..(ends[t]), r in Fin(3), q in 0..(rows[t][u?, r])) for i, t]
""").f
    ends, z = np.array([3, 0, 5]), np.array([0.5, 2.0])
    lengths = [(np.arange(k)[:, None] * np.arange(3)).ravel() for k in ends]
    totals = np.array([(k * (k + 1) // 2).sum() for k in lengths])
    assert np.allclose(f(ends, z), z[:, None] * totals)
    assert nap.check(f)


DIAGONALS = nap.compile("""
def near(o: d=>Int, a: d=>Fin(n)=>Float, x: Fin(n)=>Float, steps: Int) -> Fin(n)=>Float:
    loop x = x for _ in Fin(steps): [sum(a[k, i] * x.get(i + o[k], 0.0) for k) for i]

def far(kind: d=>Int, b: Fin(n)=>d=>d, x: Fin(n)=>Float, steps: Int) -> Fin(n)=>Float:
    loop x = x for _ in Fin(steps): [sum(x[i] if 0 < kind[b[i, k]] < kind[k] else 1.0 for k) for i]

def total(o: d=>Int, a: d=>Fin(n)=>Float, x: Fin(n)=>Float, steps: Int) -> Float =
    sum(v ** 2 for v in near(o, a, x, steps))
""")


def test_a_condition_of_what_is_near_is_asked_in_each_round() -> None:
    """Its table would be longer than what it is made of, unless that is as long, or far apart."""
    assert "bool[" not in DIAGONALS.near.show("loops")
    assert "bool[" not in nap.grad(DIAGONALS.total, "x").show("loops")
    assert re.search(r"bool\[n, d\]", DIAGONALS.far.show("loops"))


@pytest.mark.parametrize("n", [0, 1, 2, 9])
@pytest.mark.parametrize("d", [0, 1, 5])
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_conditions_asked_in_each_round(n: int, d: int, steps: int, threads: None) -> None:
    r = np.random.default_rng(n)
    o, a, x = r.integers(-3, 4, d), r.normal(size=(d, n)), r.normal(size=n)
    m = np.zeros((n, n))
    for k in range(d):
        for i in range(max(0, -o[k]), min(n, n - o[k])):
            m[i, i + o[k]] += a[k, i]
    power = np.linalg.matrix_power(m, steps)
    assert np.allclose(DIAGONALS.near(o, a, x, steps), power @ x)
    assert np.allclose(nap.grad(DIAGONALS.total, "x")(o, a, x, steps), 2 * power.T @ power @ x)
    b, kind, far = r.integers(0, max(d, 1), (n, d)), r.integers(-2, 5, d), x
    there = (kind[b] > 0) & (kind[b] < kind)
    for _ in range(steps):
        far = np.where(there, far[:, None], 1.0).sum(1)
    assert np.allclose(DIAGONALS.far(kind, b, x, steps), far)
