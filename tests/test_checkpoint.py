"""What a loop with checkpoints costs: states that are kept, rounds that are made again, and the
memory of the process after a million rounds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_cost import cost

import naperian as nap
from naperian import within

pytestmark = pytest.mark.usefixtures("keeping")

CHAIN = """
def f(a: n=>Float, x: Float) -> Float:
    loop h = x for t in n{}:
        sin(a[t] * h) + 0.1 * h
"""


@pytest.mark.parametrize("rounds", [0, 1, 2, 9, 60, 64, 97, 200])
def test_checkpoints_cost_what_they_say(rounds: int) -> None:
    """With k levels about k·n^(1/k) states are kept, and each level runs the loop once. In the
    innermost strip three numbers a round are kept, as without checkpoints; of sines' slopes, which
    wait for nothing, a strip of 128 rounds is computed ahead."""
    given = [0.6 + np.arange(rounds) / 99.0, 0.5]
    f = nap.compile(CHAIN.format("")).f
    once, plain = cost(f, given), cost(nap.grad(f), given)
    assert 8 * rounds <= plain.memory <= 8 * 3 * (rounds + 1) + 8 * 128
    for k in (2, 3, 4):
        slope = cost(nap.grad(nap.compile(CHAIN.format(f" checkpoint({k})")).f), given)
        assert slope.memory <= 8 * (k + 2) * (rounds ** (1 / k) + 3)
        assert slope.total <= plain.total + (k - 1) * 1.3 * once.total + 150 * k


BODIES = {
    "table": """
def f(x: n=>Float, k: Int) -> Float = sum(steps(x, k))
def steps(x: n=>Float, k: Int) -> n=>Float:
    loop v = x for t in Fin(k):
        [0.5 * v[clamp(i - 1, n)] + 0.25 * v[i] ** 2 for i]
""",
    "counter": """
def f(x: n=>Float, k: Int) -> Float:
    (u, c) = steps(x, k)
    sum(u)
def steps(x: n=>Float, k: Int) -> (n=>Float, Int):
    loop a = x, c = 0 for t in Fin(k):
        ([sin(a[i]) * x[wrap(i + c, n)] for i], c + 1)
""",
    "state in the body": """
def f(x: n=>Float, k: Int) -> Float:
    loop y = 1.0 for t in Fin(k):
        0.5 * changed(y, x)
def changed(y: Float, x: n=>Float) -> Float:
    with state(y) as s:
        for i: s := s * x[i] + sin(s)
""",
    "state around": """
def f(x: n=>Float, k: Int) -> Float:
    (r, s) = steps(x, k)
    sum(s) + r
def steps(x: n=>Float, k: Int) -> (Float, n=>Float):
    with state(x) as s:
        loop y = 1.0 for t in Fin(k):
            i = wrap(t, n)
            s[i] := sin(s[i] * y)
            sin(y) + s[i]
""",
}


@pytest.mark.parametrize("name", BODIES)
def test_nothing_in_the_body_is_kept_for_all_rounds(name: str) -> None:
    """Four times the rounds take twice the memory, not four times, and give what they gave. (With
    a state around the loop, a number a round is kept: what is written, to write it back.)"""
    plain = nap.compile(BODIES[name])
    strips = nap.compile(BODIES[name].replace("Fin(k):", "Fin(k) checkpoint(2):"))
    x = 0.6 + np.arange(4) / 9
    few, many = (cost(nap.grad(strips.f), [x, k]).memory for k in (63, 252))
    assert many <= (3.1 if name == "state around" else 2.2) * few
    assert many <= 0.5 * cost(nap.grad(plain.f), [x, 252]).memory
    np.testing.assert_allclose(nap.grad(strips.f)(x, 63), nap.grad(plain.f)(x, 63), rtol=1e-12)


def test_many_directions_of_a_loop_of_few_rounds() -> None:
    """The strips forward, which no direction changes, are there before those backward begin."""
    text = (
        "def f(x: n=>Float) -> Float = sum(steps(x))\n"
        "def steps(x: n=>Float) -> n=>Float:\n"
        "    loop v = x for t in Fin(5){}:\n"
        "        [sin(v[i]) + 0.1 * v[wrap(i + 1)] for i]\n"
    )
    x = 0.6 + np.arange(4) / 9
    plain, strips = (nap.compile(text.format(c)).f for c in ("", " checkpoint(2)"))
    np.testing.assert_allclose(nap.hessian(strips)(x), nap.hessian(plain)(x), rtol=1e-12)


GROWTH = """
import re
import numpy as np
import naperian as nap
from naperian import within

m = nap.compile('''
def f(u: Fin(8)=>Float, n: Int) -> Float = sum(v ** 2 for v in steps(u, n))

def steps(u: Fin(8)=>Float, n: Int) -> Fin(8)=>Float:
    loop v = u for t in Fin(n)CHECKPOINT:
        [0.99 * sin(v[i]) + 0.001 * v[0] for i]
''')
slope = nap.grad(m.f)
slope(np.ones(8), 10)
open("/proc/self/clear_refs", "w").write("5")  # the peak is what it is now

def status(what):
    return int(re.search(what + r":\\s*(\\d+)", open("/proc/self/status").read())[1]) // 1024

before = status("VmRSS")
slope(np.ones(8), 1_000_000)
print(status("VmHWM") - before)
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux tells its peaks")
def test_memory_of_a_million_rounds() -> None:
    """Without checkpoints the process holds all states, 61 MiB; with them, next to nothing."""

    def growth(checkpoint: str) -> int:
        text = GROWTH.replace("CHECKPOINT", checkpoint)
        command = [sys.executable, "-c", text]
        return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)

    whole = growth("")
    assert whole >= 40  # pages that the process held before are used again
    assert growth(" checkpoint(2)") < whole / 4
    assert growth(" checkpoint(3)") < whole / 4


WAVES = nap.compile(BODIES["table"])


@pytest.mark.parametrize("memory", [10**6, "20kB", "6 KiB"])
def test_a_gradient_keeps_to_the_memory_it_is_given(memory: str | int) -> None:
    """What it is given fits what the interpreter counts, and the gradient is what it was."""
    x = 0.6 + np.arange(8) / 9
    g = nap.grad(WAVES.f, memory=memory)
    np.testing.assert_allclose(g(x, 100), nap.grad(WAVES.f)(x, 100), rtol=1e-12)
    assert cost(g._last(), [x, 100]).memory + x.nbytes <= within.amount(memory)


def test_memory_is_asked_for_when_sizes_are_known() -> None:
    """Few rounds fit without checkpoints, many do not; and enough is enough."""
    g = nap.value_and_grad(WAVES.f, memory="6kB")
    x = 0.6 + np.arange(8) / 9
    g(x, 10)
    assert g._chosen.popitem()[1] == ()
    g(x, 100)
    ((_, depth),) = g._chosen.popitem()[1]
    assert depth == 2
    with pytest.raises(nap.CompileError, match="N0728"):
        nap.grad(WAVES.f, memory=100)(x, 100)


STATES = nap.compile("""
def number(x: Float, k: Int) -> Float:
    with state(x) as s:
        for t in Fin(k): s := 0.99 * sin(s) + 0.01

def pair(x: Float, k: Int) -> Float:
    (c, v) = with state(1.0) as c, state([x, 2.0 * x]) as s:
        for t in Fin(k):
            if t % 3 == 0:
                c := c * 1.001
            else:
                s := [sin(v) * c for v in s]
    sum(v) * c

def triangle(x: Float, k: Int) -> Float:
    with state(x) as s:
        for t in Fin(k):
            for j in ..=t: s := 0.9 * sin(s) + 0.01 * Float(j)

def folded(x: Float, k: Int) -> Float = fold(lambda y, t: sin(y) * x, x, [t for t in Fin(k)])
""")


@pytest.mark.parametrize("name", STATES.names)
def test_loops_that_change_states_keep_to_it(name: str) -> None:
    """A third of what the gradient takes is enough, for any number of rounds."""
    f = STATES[name]
    plain = nap.grad(f)
    for k in (0, 1, 2, 7, 60):
        whole = cost(plain, [0.7, k]).memory
        g = nap.grad(f, memory=max(400, whole // 3))
        np.testing.assert_allclose(g(0.7, k), plain(0.7, k), rtol=1e-12)
        assert cost(g._last(), [0.7, k]).memory <= max(400, whole // 3)


SCANS = nap.compile("""
def losses(x: Fin(n)=>Float) -> Float = sum(sin(v) for v in scan(lambda a, b: sin(a) * b, 0.5, x))

def against(x: Fin(n)=>Float) -> Float:
    h = scan(lambda a, b: sin(a) * b, 0.5, x)
    d = [h[t] - x[t] ** 2 for t]
    sum(v ** 2 for v in d) + max(abs(v) for v in d) + (h[n - 1] if n > 0 else 0.0)

def differences(x: Fin(n)=>Float) -> Float:
    h = scan(lambda a, b: sin(a) * b, 0.5, x)
    sum((h[k] - (h[k - 1] if k > 0 else 0.0)) ** 2 for k)

def along(x: Fin(n)=>Float) -> Float:
    h = scan(lambda a, b: sin(a) * b, 0.5, x)
    sum(scan(lambda a, b: cos(a) * b, 0.1, h))

def filtered(x: Fin(n)=>Float) -> Float:
    ps = scan(lambda p, v: step(p, v, x.get(0, 0.3)), (0.0, 1.0, 0.0), x)
    -sum(l for (_, _, l) in ps)

def step(p: (Float, Float, Float), v: Float, q: Float) -> (Float, Float, Float):
    (m, s, _) = p
    s2 = s + q
    k = s2 / (s2 + 1.0)
    (m + k * (v - m), (1.0 - k) * s2, -0.5 * (log(s2 + 1.0) + (v - m) ** 2 / (s2 + 1.0)))

def means(x: Fin(n)=>Float) -> Float:
    hs = scan(lambda h, v: [tanh(0.5 * h[i] + v) for i], [0.1 * Float(i) for i in Fin(3)], x)
    prod(sum(hs[k, j] for k) for j)

def guarded(x: Fin(n)=>Float) -> Float:
    h = scan(lambda a, b: sin(a) * b, 0.5, x)
    sum(h) if n % 2 == 0 else sum(h[k] * x[k] for k)

def ties(x: Fin(n)=>Float) -> Float =
    max(min(v, 0.3) for v in scan(lambda a, b: 0.5 * a + b, 0.5, x))

def matrices(x: Fin(n)=>Float) -> Float:
    a = [[[1.0, v], [0.1 * v, 0.9]] for v in x]
    sum(sum(r) for r in reduce(matmul2, [[1.0, 0.0], [0.0, 1.0]], a))

def matmul2(a: Fin(2)=>Fin(2)=>Float, b: Fin(2)=>Fin(2)=>Float) -> Fin(2)=>Fin(2)=>Float =
    [[sum(a[i, k] * b[k, j] for k) for j] for i]
""")


@pytest.mark.parametrize("name", [n for n in SCANS.names if "step" not in n and "matmul" not in n])
def test_scans_keep_to_it(name: str) -> None:
    """What is made along a scan's table needs it nowhere as a whole: few states are enough."""
    f = SCANS[name]
    plain = nap.value_and_grad(f)
    for n in (0, 1, 2, 7, 400):
        x = 0.1 + np.arange(n) % 7 / 9
        whole = cost(plain, [x]).memory
        limit = x.nbytes + max(4000, whole // 2)
        g = nap.value_and_grad(f, memory=limit)
        for made, want in zip(g(x), plain(x), strict=True):
            np.testing.assert_allclose(made, want, rtol=1e-11, atol=1e-13)
        assert cost(g._last(), [x]).memory + x.nbytes <= limit


TABLES = {
    "matrices": ("m=>m=>Float", "[[cos(x[i]) * sum(p[k, j] for k) for j] for q]", "sum(sum(p))"),
    "turned": ("m=>Float", "[cos(x[i]) * p[wrap(k + 1)] for k]", "sum(p)"),
    "two": ("Fin(2)=>Float", "[cos(x[i]) * p[wrap(k + 1)] for k]", "sum(p)"),
    "sines": ("m=>Float", "[sin(x[i] * p[wrap(k + 1)]) for k]", "sum(p)"),
    "sums": ("m=>Float", "[x[i] * sum(p) + 0.0 * p[k] for k]", "sum(p)"),
    "product": (
        "Fin(2)=>Fin(2)=>Float", "[[cos(x[i]), -sin(x[i])], [sin(x[i]), 0.9]] @ p",
        "p[0, 1] + p[1, 1]",
    ),
    "loop inside": ("m=>Float", "some(x[i], p)", "sum(p)"),
}  # fmt: skip


def of_table(name: str, k: int) -> nap.Function:
    kind, body, end = TABLES[name]
    return nap.compile(f"""
def f(x: Fin(n)=>Float, a: {kind}) -> Float:
    loop p = a for i in Fin(n){f" checkpoint({k})" if k > 1 else ""}:
        {body}
    {end}
def some(v: Float, p: m=>Float) -> m=>Float:
    loop r = p for i in Fin(3):
        [v * r[wrap(k + 1)] for k]
    r
""").f


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", TABLES)
def test_tables_are_carried_through_strips_of_strips(name: str) -> None:
    """Any number of strips inside each other keeps k·n^(1/k) tables, also where the cotangents do
    not need what is made again, and all give the same."""
    a = np.array([[0.3, 0.1], [0.2, 0.4]])
    a = a if TABLES[name][0].count("=>") == 2 else a[0]
    plain = of_table(name, 1)
    sizes = (0, 1, 5, 40)
    slopes = [nap.grad(plain)(0.6 + np.arange(n) % 7 / 20, a) for n in sizes]
    for k in (2, 3, 4, 5):
        slope = nap.grad(of_table(name, k))
        for n, want in zip(sizes, slopes, strict=True):
            x = 0.6 + np.arange(n) % 7 / 20
            np.testing.assert_allclose(slope(x, a), want, rtol=1e-12)
        for n in (3**k - 1, 4**k - 1):
            x = 0.6 + np.arange(n) % 7 / 20
            assert cost(slope, [x, a]).memory <= 120 * (k + 1) * ((n + 1) ** (1 / k) + 1)


def test_the_slope_of_a_factor_of_linear_steps_is_summed_as_they_go() -> None:
    """What is kept of a strip, the other way round, is read where the cotangents are, of which two
    tables are there at a time."""
    m = nap.compile("""
def f(x: Fin(n)=>Float, a: Float, k: Int) -> Float:
    loop v = x for t in Fin(k) checkpoint(2):
        [v[i] + a * (v[clamp(i - 1)] - 2.0 * v[i] + v[clamp(i + 1)]) for i]
    sum(e * e for e in v)
""")
    x, k = np.cos(np.arange(20.0)), 99
    slope = nap.grad(m.f, ("x", "a"))
    assert cost(slope, [x, 0.2, k]).memory <= 8 * len(x) * (2 * k**0.5 + 8)
    one, other = (m.f(x, a, k) for a in (0.2 - 1e-6, 0.2 + 1e-6))
    assert np.isclose(slope(x, 0.2, k)[1], (other - one) / 2e-6, rtol=1e-6)


STEPS = {
    "heat": ("u", "v[i] + a * (v[clamp(i - 1)] - 2.0 * v[i] + v[clamp(i + 1)])"),
    "burgers": ("u", "v[i] - a * v[i] * (v[i] - v[clamp(i - 1)])"),
    "waves": ("u, w = u", "(w[i] + a * v[clamp(i - 1)] / (2.0 + v[i]), v[i])"),
    "by the time": ("u", "v[i] + (a * v[i] if t < 140 else a * v[clamp(i + 1)] ** 2)"),
}


def stepped(name: str, checkpoint: str) -> nap.Function:
    start, step = STEPS[name]
    two = "w" in start
    body = f"x = [{step} for i]\n        ([e for (e, _) in x], [e for (_, e) in x])"
    return nap.compile(f"""
def f(u: Fin(n)=>Float, a: Float, k: Int) -> Float:
    loop v = {start} for t in Fin(k){checkpoint}:
        {body if two else f"[{step} for i]"}
    sum(e * e for e in v)
""").f


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", STEPS)
def test_states_that_have_no_room_are_made_again(name: str, dtype: type) -> None:
    """The last 4 MiB of states are kept, here 131 or 262 of a table (half as many of two), and the
    ones before in strips of 16 or 32."""
    slope = nap.grad(stepped(name, ""), ("u", "a"))
    other = nap.grad(stepped(name, " checkpoint(2)"), ("u", "a"))
    assert "early" in slope.show("loops")
    u = (0.5 + np.sin(np.arange(4000)) / 9).astype(dtype)
    for k in (0, 5, 65, 66, 131, 132, 150, 300):
        for one, two in zip(slope(u, dtype(0.01), k), other(u, dtype(0.01), k), strict=True):
            close = 1e-11 if dtype is np.float64 else 2e-3
            np.testing.assert_allclose(one, two, rtol=close, atol=close * 1e-2)


def test_states_that_nobody_reads_are_not_made_again() -> None:
    """Of linear steps, with something added, the cotangents need no states."""
    m = nap.compile("""
def f(u: Fin(n)=>Float, p: Fin(n)=>Float, a: Float, k: Int) -> Float:
    loop v = u for t in Fin(k):
        [v[i] + a * (v[clamp(i - 1)] - v[i]) + p[i] + 0.1 for i]
    sum(e * e for e in v)
""")
    assert "early" not in nap.grad(m.f, ("u", "p")).show("loops")
    assert "early" in nap.grad(m.f, ("u", "a")).show("loops")


def test_strips_of_strips_of_tables_are_chosen() -> None:
    """A product of matrices in little memory: a few of them are kept at a time."""
    x = 0.1 + np.arange(400) % 7 / 9
    g = nap.grad(SCANS.matrices, memory=x.nbytes + 5000)
    np.testing.assert_allclose(g(x), nap.grad(SCANS.matrices)(x), rtol=1e-10)
    assert cost(g._last(), [x]).memory <= 5000
    ((_, depth),) = g._chosen.popitem()[1]
    assert depth > 2


def test_a_scan_whose_table_is_needed_stays() -> None:
    f = nap.compile("""
def f(x: Fin(n)=>Float) -> Float:
    h = scan(lambda a, b: sin(a) * b, 0.5, x)
    sum(h[n - 1 - k] * x[k] for k)
""").f
    with pytest.raises(nap.CompileError, match="N0728") as refused:
        nap.grad(f, memory="10kB")(np.ones(1000))
    assert "its table is read otherwise than in order" in str(refused.value)


def test_rounds_made_again_cost_what_they_cost() -> None:
    """What strips send to an array is added where it goes, not looked for in every strip."""
    f = nap.compile("""
def f(x: n=>Float) -> Float:
    (_, total) = g(x)
    total
def g(x: n=>Float) -> (Float, Float):
    loop y = 0.5, total = 0.0 for t in n checkpoint(2):
        (sin(y) * x[t], total + y * x[t])
""").f
    few, many = (cost(nap.grad(f), [np.ones(n)]).operations for n in (400, 6400))
    assert many < 18 * few


WHILE = """
def f(x: Float, most: Float) -> Float:
    loop v = x{} while v < most:
        v + 0.001 * (1.0 + sin(v) ** 2)
"""


def test_loops_that_conditions_end_keep_few_states() -> None:
    """Sixteen times the rounds take four times the memory; so with any `memory`, as nobody knows
    the rounds before."""
    plain = nap.compile(WHILE.format(""))
    strips = nap.compile(WHILE.format(" checkpoint(2)"))
    within_ = nap.grad(plain.f, memory="1MB")
    for most in (-1.0, 0.5001, 0.51, 0.6):
        for slope in (nap.grad(strips.f), within_):
            np.testing.assert_allclose(slope(0.5, most), nap.grad(plain.f)(0.5, most), rtol=1e-12)
    for slope in (nap.grad(strips.f), within_._last()):
        few, many = (cost(slope, [0.0, most]).memory for most in (0.02, 0.32))
        assert many <= 5.0 * few
        assert many <= 0.25 * cost(nap.grad(plain.f), [0.0, 0.32]).memory


def test_memory_of_what_has_a_size_that_only_a_run_knows() -> None:
    f = nap.compile("""
def f(x: n=>Float) -> exists k. Fin(k)=>Float:
    loop y = x for _ in Fin(5): [sin(v) for v in y]
    [v * v for v in y if v > 0.0]
""").f
    x, seed = np.array([1.0, -1.0, 2.0]), np.array([0.5, 2.0])
    for got, want in zip(nap.vjp(f, memory="1kB")(x, seed), nap.vjp(f)(x, seed), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_memory_of_rounds_that_draw_numbers() -> None:
    """What a random number is made of is bits of numbers that the run knows."""
    f = nap.compile("""
import random
def f(x: n=>Float, seed: Int, k: Int) -> Float:
    key = random.new_key(seed)
    loop y = x for t in 0..k >> 1:
        here = random.ix_key(key, t)
        [sin(y[i]) + random.normal(random.ix_key(here, i)) for i in n]
    sum(y)
""").f
    x = np.linspace(0.0, 1.0, 50)
    want = nap.grad(f)(x, 3, 800)
    np.testing.assert_allclose(nap.grad(f, memory="40kB")(x, 3, 800), want, rtol=1e-12)


@pytest.mark.parametrize("memory", ["much", "-1GB", 0, True, 1.5, "2 horses"])
def test_what_is_no_memory(memory: object) -> None:
    with pytest.raises(ValueError, match="memory"):
        nap.grad(WAVES.f, memory=memory)  # type: ignore[arg-type]


def test_products_and_sorts_of_kept_states_are_where_they_lie() -> None:
    """Where the states of one strip begin among those of all is read from memory; that is no table
    of windows."""
    m = nap.compile("""
def products(a: Fin(d)=>Fin(d)=>Float) -> Float:
    loop s = a, u = 0.0 for k in Fin(3) checkpoint(2):
        b = s @ transpose(s)
        (s @ a, u + sum(sum(sin(b))))
    u

def sorts(a: Fin(d)=>Fin(d)=>Float) -> Float:
    loop s = a, u = 0.0 for k in Fin(5) checkpoint(2):
        b = [sort(row) for row in s]
        ([[cos(s[i, j]) * b[j, i] for j] for i], u + sum(b[i, j] * Float(Int(j)) for i, j))
    u

def rows(t: n=>(exists k. Fin(k)=>Float)) -> n=>(exists k. Fin(k)=>Float) = [sort(r) for r in t]
""")
    a, d = np.array([[0.3, 0.7], [-0.2, 0.5]]), np.array([[1.0, 2.0], [3.0, -1.0]])
    h = 1e-6
    for f in (m.products, m.sorts):
        slope = (f(a + h * d) - f(a - h * d)) / (2 * h)
        assert np.vdot(nap.grad(f)(a), d) == pytest.approx(slope, rel=1e-8)
        assert nap.jvp(f)(a, d)[1] == pytest.approx(slope, rel=1e-8)
    given = [np.array([0.5, -0.2]), np.array([]), np.array([1.5, 0.7, 1.0])]
    assert [[*map(float, r)] for r in m.rows(given)] == [[-0.2, 0.5], [], [0.7, 1.0, 1.5]]


@pytest.mark.parametrize(("rounds", "levels"), [(0, 2), (1, 2), (2, 2), (3, 3), (8, 3), (9, 2)])
def test_a_literal_number_of_rounds(rounds: int, levels: int) -> None:
    """Of one strip, whose number says how long the strips inside it are."""
    f = nap.compile(f"""
def f(x: Float) -> Float:
    loop s = 1.0 for t in Fin({rounds}) checkpoint({levels}):
        s * x
""").f
    assert nap.grad(f)(1.5) == pytest.approx(rounds * 1.5 ** (rounds - 1))


ROWS = """
def f(y: Fin(n)=>Fin(d)=>Float, w: Fin(d)=>Fin(d)=>Float, k: Int) -> Float:
    loop y = y for t in Fin(k){}:
        y + 0.1 * tanh(y @ w)
    sum(y[i, j] ** 2 for i, j)

def each(y: Fin(n)=>Fin(d)=>Float, w: Fin(d)=>Fin(d)=>Float, k: Int) -> Float =
    sum(sum(v ** 2 for v in row(r, w, k)) for r in y)

def row(y: Fin(d)=>Float, w: Fin(d)=>Fin(d)=>Float, k: Int) -> Fin(d)=>Float:
    loop y = y for t in Fin(k){}:
        y + 0.1 * tanh(y @ w)
"""


@pytest.mark.parametrize("name", ["f", "each"])
def test_rows_go_together_in_strips_as_without(name: str) -> None:
    """Both products of a round are products of matrices, in the rounds that are made again, too."""
    plain, strips = (nap.compile(ROWS.format(c, c))[name] for c in ("", " checkpoint(2)"))
    slope, other = nap.grad(plain, ("y", "w")), nap.grad(strips, ("y", "w"))
    for n, d, k in ((3, 2, 7), (1, 1, 1), (0, 2, 3), (2, 0, 3), (2, 3, 0), (5, 9, 30)):
        y, w = np.cos(np.arange(n * d)).reshape(n, d), np.sin(np.arange(d * d)).reshape(d, d)
        for one, two in zip(other(y, w, k), slope(y, w, k), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-14)
    products = nap.grad(strips, "y").show("loops").count("contract ")
    assert products == nap.grad(plain, "y").show("loops").count("contract ") + 1 == 3


PATHS = """
def f(z: Fin(p)=>n=>Fin(2)=>Float, v: Float, a: Float) -> Float = sum(path(z[i], v, a) for i)

def path(z: n=>Fin(2)=>Float, v: Float, a: Float) -> Float:
    (x, _) = rounds(z, v, a)
    exp(0.1 * x)

def rounds(z: n=>Fin(2)=>Float, v: Float, a: Float) -> (Float, Float):
    loop x = 0.0, v = v for k in n{}:
        (x + 0.2 * v * z[k, 0], v + 0.1 * a * sin(v) * z[k, 1])
"""


def test_paths_go_side_by_side_in_strips() -> None:
    """A cotangent that no round changes, as that of `x`, is nothing that rounds could wait for; and
    what goes to one array is added up in it."""
    plain, strips = (nap.compile(PATHS.format(c)).f for c in ("", " checkpoint(2)"))
    for wrt in ("z", ("v", "a")):
        slope, other = nap.grad(plain, wrt), nap.grad(strips, wrt)
        for p, n in ((0, 4), (1, 0), (1, 1), (2, 1), (19, 30)):
            z = np.cos(np.arange(2 * p * n)).reshape(p, n, 2)
            np.testing.assert_allclose(other(z, 0.7, 0.9), slope(z, 0.7, 0.9), rtol=1e-12)
        text = other.show("loops")
        assert text.count("lanes for") > 4
        few, many = (cost(other, [np.ones((4, n, 2)), 0.7, 0.9]).memory for n in (60, 240))
        assert many <= 2.2 * few
    assert cost(nap.grad(strips, "z"), [np.ones((4, 240, 2)), 0.7, 0.9]).memory < 8 * 4 * 240


OFTEN = """
def f(x: Fin(n)=>Float, k: Fin(n)=>Int) -> Float = sum({}(x[i], k[i]) for i)

def rounds(x: Float, k: Int) -> Float:
    loop y = x for t in Fin(k){}:
        sin(y * x) + 0.3 * y

def until(x: Float, k: Int) -> Float:
    (y, _) = counted(x, k)
    y

def counted(x: Float, k: Int) -> (Float, Int):
    loop y = x, c = 0{} while c < k and y < 3.0:
        (y + 0.1 * sin(y) * x + 0.01, c + 1)
"""


@pytest.mark.parametrize("name", ["rounds", "until"])
def test_second_derivatives_of_elements_with_rounds_of_their_own(name: str) -> None:
    x, k = 0.3 + np.arange(4) / 7, np.array([3, 0, 6, 1])
    want, *made = (
        nap.hessian(nap.compile(OFTEN.format(name, c, c)).f, "x")(x, k)
        for c in ("", " checkpoint(1)", " checkpoint(2)", " checkpoint(3)")
    )
    for h in made:
        np.testing.assert_allclose(h, want, rtol=1e-11)


GROWING = """
def f(x: Float, k: Int) -> Float:
    loop v = x for t in Fin(k){}:
        loop w = v for r in Fin({}){}:
            sin(w) * 1.1 + 0.1
        w
"""


@pytest.mark.parametrize("rounds", ["t", "t + 1", "k - t"])
def test_second_derivatives_of_strips_that_grow_in_strips(rounds: str) -> None:
    """The loop backwards over a loop backwards reads strips of all rounds: where one begins is
    known only once how long those before are, and that waits for these rounds no more."""
    want, *made = (
        nap.hessian(nap.compile(GROWING.format(outer, rounds, inner)).f, "x")
        for outer, inner in (
            ("", ""), (" checkpoint(2)", " checkpoint(2)"), (" checkpoint(3)", " checkpoint(2)")
        )
    )  # fmt: skip
    for h in made:
        for k in (0, 1, 2, 6):
            np.testing.assert_allclose(h(0.3, k), want(0.3, k), rtol=1e-11)


SECOND = """
def rounds(u: n=>Float) -> Float:
    loop v = u for _ in Fin(3){}:
        sin(v)
    sum(v)
def second(u: n=>Float) -> n=>n=>Float = hessian(rounds)(u)
"""


def test_directions_of_a_part_of_what_strips_carry() -> None:
    """A loop backwards carries tangents of many directions beside what has none, which is made
    again once for all of them."""
    u = np.array([0.5, 0.7])
    strips, plain = (
        nap.jacobian(nap.compile(SECOND.format(c)).second)(u) for c in (" checkpoint(2)", "")
    )
    np.testing.assert_allclose(strips, plain, rtol=1e-12)


def test_rounds_that_wait_are_placed_by_numbers_that_are_kept() -> None:
    """Where the rows of strips begin is told by how many rounds there are before these wait for
    each other: what tells that is kept for all that read the rows."""
    f = nap.compile("""
def f(x: Fin(n)=>Float, c: Float):
    v = for i in Fin(n):
        loop w = 1.0 for t in ..i checkpoint(2): sum(c + t for _ in x)
        w
    [v for _ in x]
""").f
    assert nap.check(f)


def test_a_condition_that_always_holds_is_none() -> None:
    """A loop that goes as far as its set does is told so, also where checkpoints make it again."""
    text = """
def f(y: n=>Float) -> Float:
    loop z = y for t in n{}:
        loop w = 0.5 for k in n{} while True: sin(w) + z[k]
        [w + z[i] for i]
    sum(z)
"""
    y = np.array([0.3, 0.7, 1.1])
    plain = nap.grad(nap.compile(text.format("", "")).f)(y)
    for marks in ((" checkpoint(2)", ""), (" checkpoint(2)", " checkpoint(2)")):
        f = nap.compile(text.format(*marks)).f
        np.testing.assert_allclose(nap.grad(f)(y), plain, rtol=1e-13)
        assert nap.check(f)
