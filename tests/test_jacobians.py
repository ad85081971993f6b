"""A Jacobian goes forward where there are fewer inputs than outputs, and gives the same."""

from __future__ import annotations

import re

import numpy as np
import pytest
from test_cost import cost

import naperian as nap

TEXT = """
enum Day = Mo | Tu | We

def few(x: Fin(3)=>Float, y: n=>Float) -> n=>Float = [sin(v * x[0]) + x[1] ** 2 * x[2] for v in y]

def many(x: n=>Float, y: n=>Float) -> Fin(2)=>Float = [sum(x * y), sum(sin(v) for v in x)]

def square(x: n=>Float, y: n=>Float) -> n=>Float = [sum(x) * v for v in x * y]

def wide(x: n=>Float, y: m=>Float) -> m=>Float = [v * sum(x) for v in y]

def powers(x: n=>Float, y: m=>Float) -> n=>Fin(4)=>Float = [[v ** k for k in Fin(4)] for v in x]

def seventeen(x: Fin(17)=>Float, y: n=>Float) -> n=>Float = [v * x[3] * x[16] for v in y]

def counted(x: Fin(16)=>Float, y: n=>Float) -> Fin(17)=>Float =
    [x[i % 16] * x[i // 2] for i in Fin(17)]

def days(x: Day=>Float, y: n=>Float) -> n=>Float = [v * x[Mo] + x[Tu] * x[We] for v in y]

def pairs(x: (Fin(2), Fin(2))=>Float, y: n=>Float) -> n=>Float =
    [v * x[(0, 1)] + x[(1, 0)] * x[(1, 1)] for v in y]

def until(x: Fin(1)=>Float, y: n=>Float) -> n=>Float:
    loop z = y while sum(z) < 40.0: [v * x[0] + 1.0 for v in z]

def rounds(x: Fin(2)=>Float, y: n=>Float) -> n=>Float =
    scan(lambda s, v: x[0] * s * (1.0 - s) + x[1] * v, 0.5, y)

def kept(x: Fin(2)=>Float, y: n=>Float) -> n=>Float = with state([0.0 for i in n]) as s:
    for i: s[i] := s[i] + x[0] * y[i] if x[1] > y[i] else x[1] ** 2
"""
FORWARD = ("few", "counted", "days", "pairs", "until", "rounds", "kept")


@pytest.fixture(scope="module")
def m() -> nap.Module:
    return nap.compile(TEXT)


SIZES = {"few": 3, "seventeen": 17, "counted": 16, "days": 3, "pairs": 4, "until": 1, "rounds": 2,
         "kept": 2}  # fmt: skip
CASES = [(name, np.float64) for name in (*FORWARD, "many", "square", "wide", "powers", "seventeen")]


@pytest.mark.parametrize(("name", "dtype"), [*CASES, ("few", np.float32)])
def test_either_way_gives_the_same(m: nap.Module, name: str, dtype: type) -> None:
    f, slopes = m[name], nap.jacobian(m[name])
    x = np.linspace(0.9, 1.2, SIZES.get(name, 5)).astype(dtype)
    y = np.linspace(0.5, 1.5, 5).astype(dtype)
    found, value = slopes(x, y), f(x, y)
    assert found.dtype == dtype
    seeds = np.eye(value.size, dtype=dtype).reshape(-1, *value.shape)
    _, expected = nap.vjp(f, many=True)(x, y, seeds)
    near = 1e-12 if dtype is np.float64 else 1e-4
    np.testing.assert_allclose(found, expected.reshape(found.shape), rtol=near, atol=near)
    core = slopes.show("core")
    assert ("jvp(" in core) == (name in FORWARD), core


def test_it_is_decided_where_the_sizes_are_known() -> None:
    m = nap.compile("""
def slopes(f: (d=>Float) -> m=>Float, x: d=>Float) -> m=>d=>Float = jacobian(f)(x)
def tall(x: Fin(2)=>Float, y: n=>Float) = slopes(lambda u: [u[0] * v + u[1] for v in y], x)
def flat(x: n=>Float) = slopes(lambda u: [sum(u), sum(u * u)], x)
""")
    assert "jvp(" in m.tall.show("core")
    assert "vjp(" in m.flat.show("core")
    np.testing.assert_array_equal(m.tall([1.0, 2.0], [3.0, 4.0]), [[3.0, 1.0], [4.0, 1.0]])
    np.testing.assert_array_equal(m.flat([3.0, 4.0, 5.0]), [[1.0, 1.0, 1.0], [6.0, 8.0, 10.0]])


def test_two_tables_of_what_each_input_alone_decides_cost_what_they_take() -> None:
    """Forward, all of the sums would be made for each of the inputs: n³ for n²."""
    f = nap.compile("""
def f(x: n=>Float, k: m=>Float) -> (n=>Float, n=>Float) =
    ([sum(cos(k[j] * x[i]) for j) for i], [sum(sin(k[j] * x[i]) for j) for i])
""").f
    slopes, costs = nap.jacobian(f), []
    for n in (8, 24):
        x, k = np.linspace(0.1, 1.0, n), np.linspace(0.5, 2.0, n)
        costs.append(cost(slopes, [x, k]).total)
        found = slopes(x, k)[1]
        np.testing.assert_allclose(found, np.diag(np.cos(np.outer(x, k)) @ k), atol=1e-12)
    assert costs[1] <= 1.2 * 3**2 * costs[0]


def test_several_parameters_and_structs() -> None:
    m = nap.compile("""
struct Line:
    slope: Float
    shift: Fin(2)=>Float

def along(l: Line, k: Float, y: n=>Float) -> n=>(Float, Float) =
    [(l.slope * v + l.shift[0], k * l.shift[1]) for v in y]
""")
    slopes = nap.jacobian(m.along, wrt=("l", "k"))
    assert "jvp(" in slopes.show("core")
    (one, by_k), (two, two_by_k) = slopes(m.Line(2.0, [3.0, 4.0]), 5.0, [6.0, 7.0])
    np.testing.assert_array_equal(one.slope, [6.0, 7.0])
    np.testing.assert_array_equal(one.shift, [[1.0, 0.0], [1.0, 0.0]])
    np.testing.assert_array_equal(two.shift, [[0.0, 5.0], [0.0, 5.0]])
    assert by_k.tolist() == [0.0, 0.0]
    assert two_by_k.tolist() == [4.0, 4.0]
    assert two.slope.tolist() == [0.0, 0.0]


RULES = """
def back(x: Fin(1)=>Float, y: n=>Float, seed: n=>Float) -> (Fin(1)=>Float, n=>Float) =
    ([clamp(sum(seed), -1.0, 1.0)], seed)

@custom_vjp(back)
def clipped(x: Fin(1)=>Float, y: n=>Float) -> n=>Float = [v * x[0] for v in y]

def along(x: Fin(1)=>Float, y: n=>Float, dx: Fin(1)=>Float, dy: n=>Float) -> n=>Float =
    [dx[0] + v for v in dy]

@custom_jvp(along)
def told(x: Fin(1)=>Float, y: n=>Float) -> n=>Float = [v * x[0] for v in y]

def shown(x: Fin(1)=>Float, y: n=>Float) -> n=>Float:
    print("once")
    [v * x[0] for v in y]
"""


def test_a_rule_for_the_reverse_is_asked_there() -> None:
    m = nap.compile(RULES)
    assert nap.jacobian(m.clipped)([2.0], [3.0, 4.0]).tolist() == [[1.0], [1.0]]
    assert nap.jacobian(m.told)([2.0], [3.0, 4.0]).tolist() == [[1.0], [1.0]]
    assert "jvp(" in nap.jacobian(m.told).show("core")
    assert "\njvp(" not in nap.jacobian(m.clipped).show("core")


def test_what_is_shown_is_shown_for_each_output(capfd: pytest.CaptureFixture[str]) -> None:
    m = nap.compile(RULES)
    assert nap.jacobian(m.shown)([2.0], [3.0, 4.0, 5.0]).tolist() == [[3.0], [4.0], [5.0]]
    assert capfd.readouterr().out.split() == ["once"] * 3


MEETING = """
import linalg

# All inputs meet in the triangle, of which every element is changed in place.
def met(x: Fin(n)=>Float, y: d=>Float) -> Float:
    k = [exp(-sum((x[i] - x[j]) ** 2 * s ** 2 for s in y)) + (1.0 if i == j else 0.0) for i, j]
    l = linalg.cholesky(k)
    sum(log(l[i, i]) for i)

def solved(y: n=>Float) -> Float =
    dot(y, linalg.solve([y[i] ** 2 + 1.0 if i == j else y[i] / n for i, j], y))

def root(a: Float) -> Float:
    loop x = 1.0 for _ in Fin(10): x - (x ** 3 - a) / (3.0 * x ** 2)

def apart(y: n=>Float) -> Float = sum(root(v) ** 2 for v in y)
"""


def test_as_many_inputs_as_outputs_go_forward_where_they_meet_in_a_loop_of_tables() -> None:
    m = nap.compile(MEETING)
    x, y = np.linspace(0.0, 2.0, 6), np.linspace(0.5, 1.0, 3)
    for f, given, wrt in ((m.met, (x, y), "y"), (m.solved, (x,), "y"), (m.apart, (y,), "y")):
        found = nap.hessian(f, wrt=wrt)
        assert (re.search(r"\bjvp\(", found.show("core")) is None) == (f is m.apart)
        slope, n = nap.grad(f, wrt=wrt), given[-1].size
        _, expected = nap.vjp(slope, wrt=wrt, many=True)(*given, np.eye(n))
        np.testing.assert_allclose(found(*given), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("forward", [False, True])
def test_rows_of_a_second_derivative_through_a_triangle_grow_as_the_function(
    forward: bool,
) -> None:
    """Either way, of three rows: nothing keeps the triangle as it was in every round."""
    m = nap.compile(MEETING)
    f = nap.hessian(m.met, wrt="y") if forward else nap.vjp(nap.grad(m.met, "y"), "y", many=True)
    ratios = []
    for n in (12, 36):
        given = [np.linspace(0.0, 2.0, n), np.linspace(0.5, 1.0, 3)]
        seeds = [] if forward else [np.eye(3)]
        ratios.append(cost(f, [*given, *seeds]).total / cost(m.met, given).total)
    print(*(f"{r:.2f}" for r in ratios))
    assert ratios[1] <= 2.0 * ratios[0]


def test_many_tangents_at_a_call_that_waits_for_none_of_them() -> None:
    """The rule of the call has a loop for each of them, though the call itself is one."""
    m = nap.compile("""
def cumulated(x: n=>Float) -> n=>Float = with state(x) as s:
    for i: s[i] := s[i] * x[i]

def along(x: n=>Float, dx: n=>Float) -> n=>Float:
    (_, d) = jvp(cumulated, x, dx)
    d

@custom_jvp(along)
def squares(x: n=>Float) -> n=>Float = [v ** 2 for v in x]

def each(x: n=>Float, dx: m=>n=>Float) -> m=>n=>Float:
    for k:
        (_, d) = jvp(squares, x, dx[k])
        d
""")
    found = m.each([1.0, 2.0, 3.0], np.eye(3))
    np.testing.assert_array_equal(found, np.diag([2.0, 4.0, 6.0]))
