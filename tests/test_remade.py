"""What a loop backwards reads of its function's rounds: kept, or made again, whichever is less."""

from __future__ import annotations

import re

import numpy as np
import pytest

import naperian as nap
from naperian.names import Var
from naperian.passes.derivatives.least import least
from naperian.sizes import Remainder, Size, size, unwrapped

LOOPS = """
def burgers(u: Fin(n)=>Float, nu: Float, steps: Int) -> Float:
    loop u = u for _ in Fin(steps):
        [u[i] - 0.1 * u[i] * (u[i] - u[wrap(i - 1)]) + nu * (u[wrap(i + 1)] - 2 * u[i] + u[wrap(i - 1)]) for i]
    sum(u[i] * u[i] for i)

def advection(u: Fin(n)=>Float, v: Fin(n)=>Float, steps: Int) -> Float:
    loop u = u for _ in Fin(steps):
        [u[i] - 0.1 * (v[i] * (u[i] - u[clamp(i - 1)]) if v[i] > 0 else v[i] * (u[clamp(i + 1)] - u[i])) for i]
    sum(u[i] * u[i] for i)

def shallow(h: Fin(n)=>Float, q: Fin(n)=>Float, steps: Int) -> Float:
    loop h = h, q = q for _ in Fin(steps):
        f = [q[i] * q[i] / (1.0 + h[i] * h[i]) + 0.5 * h[i] * h[i] for i]
        (
            [0.5 * (h[wrap(i - 1)] + h[wrap(i + 1)]) - 0.05 * (q[wrap(i + 1)] - q[wrap(i - 1)]) for i],
            [0.5 * (q[wrap(i - 1)] + q[wrap(i + 1)]) - 0.05 * (f[wrap(i + 1)] - f[wrap(i - 1)]) for i],
        )
    sum(h[i] * q[i] for i)

def dear(u: Fin(n)=>Float, v: Fin(n)=>Float, steps: Int) -> Float:
    loop u = u for _ in Fin(steps):
        e = [exp(-u[i] * u[i]) for i]
        [e[i] * v[i] + 0.1 * e[wrap(i + 1)] * u[i] for i]
    sum(u[i] * u[i] for i)

def rounds(u: Fin(n)=>Float, v: Fin(n)=>Float, steps: Int) -> Float:
    loop u = u for _ in Fin(steps) checkpoint(2):
        a = [u[i] * v[i] - u[clamp(i - 1)] for i]
        loop w = a for _ in Fin(3):
            [0.5 * w[i] + 0.1 * (w[wrap(i + 1)] - v[i]) * (w[i] + a[wrap(i - 1)]) for i]
        [0.9 * u[i] + 0.1 * max(w[i], a[clamp(i + 1)]) for i]
    sum(u[i] * u[i] for i)
"""  # noqa: E501


def told(f: nap.Function) -> list[str]:
    """What is stored in every round, or in every round of a strip and where strips begin."""
    stored = r"`([^`]*)` \(line \d+\) is stored in .*(?:steps|late)"
    return re.findall(stored, f.show("loops"))


@pytest.fixture(scope="module")
def loops() -> nap.Module:
    return nap.compile(LOOPS)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("burgers", ["u"]),
        ("advection", ["u"]),
        ("shallow", ["h", "q"]),
        ("dear", ["u", "exp(-u[i] * u[i])"]),
    ],
)
def test_states_and_functions_are_kept(loops: nap.Module, name: str, kept: list[str]) -> None:
    assert told(nap.grad(loops[name], wrt=[0, 1])) == kept


def test_what_is_made_again_is_told(loops: nap.Module) -> None:
    text = nap.grad(loops["advection"], wrt=[0, 1]).show("loops")
    assert "`u[clamp(i + 1)] - u[i]` (line 9) is computed again" in text


@pytest.mark.parametrize("name", ["burgers", "advection", "shallow", "dear", "rounds"])
def test_derivatives_are_differences(loops: nap.Module, name: str) -> None:
    f = loops[name]
    g = np.random.default_rng(3)
    for n, steps in ((1, 2), (6, 5), (19, 0), (33, 7)):
        at = [0.3 * g.normal(size=n), 0.1 if name == "burgers" else 0.3 * g.normal(size=n)]
        by = [g.normal(size=np.shape(x)) for x in at]
        made = nap.grad(f, wrt=[0, 1])(*at, steps)
        near = [f(*(x + h * d for x, d in zip(at, by, strict=True)), steps) for h in (-1e-6, 1e-6)]
        slope = sum(np.sum(x * d) for x, d in zip(made, by, strict=True))
        assert slope == pytest.approx((near[1] - near[0]) / 2e-6, rel=1e-5, abs=1e-6)


SPRINGS = """
def springs(q: Fin(n)=>Float, p: Fin(n)=>Float, k: Float, steps: Int) -> Float:
    def force(q: Fin(n)=>Float) -> Fin(n)=>Float:
        for i:
            a = q.get(i + 1, 0.0) - q[i]
            b = q[i] - q.get(i - 1, 0.0)
            a - b + k * (a ** 3 - b ** 3)
    loop q = q, p = p for _ in Fin(steps):
        v = p + 0.05 * force(q)
        (q + 0.1 * v, v)
    sum(q[i] * q[i] for i)

def slope(q: Fin(n)=>Float, p: Fin(n)=>Float, k: Float, steps: Int):
    grad(springs, wrt=("q", "p", "k"))(q, p, k, steps)
"""


def test_what_a_round_backwards_needs_is_made_in_it() -> None:
    """Only carried values are kept for every round; what is made of them, not across memory."""
    loops = nap.compile(SPRINGS).slope.show("loops")
    assert not re.findall(r"allocate (?!q|p)\w+: f64\[.*, ", loops)
    assert not re.findall(r"allocate \w+: f64\[n, ", loops)


DESCENT = """
def loss(x: n=>Float, a: Float) -> Float = sum(10.0 * (x[i] ** 2 - a) ** 2 + (1.0 - x[i]) ** 2 for i)
def unroll(rate: Float, x: n=>Float, steps: Int) -> Float:
    loop x = x for _ in Fin(steps): x - rate * grad(lambda z: loss(z, 1.0))(x)
    loss(x, 1.0)
"""  # noqa: E501


@pytest.mark.usefixtures("threads")
def test_a_descent_is_gone_through_backwards_with_one_table() -> None:
    """What is made of a round's state in few operations has no table of all rounds, whatever order
    the loops stand in."""
    f = nap.compile(DESCENT).unroll
    slope = nap.grad(f, wrt=("rate", "x"))
    assert len(re.findall(r"allocate \w+: f64\[.*, n\]", slope.show("loops"))) == 1
    g = np.random.default_rng(4)
    for n, steps in ((0, 3), (1, 2), (7, 0), (19, 5), (530, 9)):
        x, d = 0.3 * g.normal(size=n), g.normal(size=n)
        rate, dx = slope(1e-3, x, steps)
        h = 1e-6
        near = [(f(1e-3 + s * h, x, steps), f(1e-3, x + s * h * d, steps)) for s in (-1, 1)]
        assert rate == pytest.approx((near[1][0] - near[0][0]) / (2 * h), rel=1e-5, abs=1e-5)
        assert np.dot(dx, d) == pytest.approx((near[1][1] - near[0][1]) / (2 * h), rel=1e-5)


def test_the_least_cut() -> None:
    # what two readers want is made again from one that is kept, not kept twice
    chain = {"a": (1, ["s"]), "b": (2, ["s"])}
    assert least(["a", "b"], {"a": 10, "b": 10, "s": 16}, chain) == {"a", "b"}
    assert least(["a"], {"a": 10, "b": 10, "s": 16}, chain) == set()
    # nothing that costs as much to make as to keep is made
    assert least(["a"], {"a": 1, "s": 0}, {"a": (1, ["s"])}) == set()
    # a value in between is the narrowest place
    through = {"c": (1, ["a"]), "d": (1, ["a"]), "a": (1, ["s", "t"])}
    assert least(["c", "d"], dict.fromkeys("cdast", 8), through) == {"c", "d"}


def test_a_ring_goes_round_once() -> None:
    i, n, x = Var("i"), Var("n"), Var("x")
    near = (size(i) + 1) % size(n)

    def ring(s: Size, by: Var) -> Size:
        return unwrapped(s, size(by), lambda _: True) % size(by)

    assert ring(near - 3, n) == (size(i) - 2) % size(n)
    assert ring(2 - near, n) == (1 - size(i)) % size(n)
    for other in (ring(near + 1, x), ring(2 * near + 1, n), near + 1 - ring(near, x)):
        assert Remainder(size(i) + 1, size(n)) in mentioned_inside(other)
    assert unwrapped(near - 3, size(n), lambda _: False) == near - 3  # data may have wrapped around


def mentioned_inside(s: Size) -> list[object]:
    """The atoms of a size, and of those inside them."""
    found: list[object] = []
    for a in s.atoms:
        found.append(a)
        if isinstance(a, Remainder):
            found += mentioned_inside(a.above)
    return found


def test_what_is_read_beside_a_neighbour_needs_no_wrap() -> None:
    """`x[wrap(i + 1)]` and `x[wrap(i - 2)]` of what its reader takes from `wrap(i - 1)`."""
    text = """
def lorenz(x: Fin(n)=>Float, steps: Int) -> Float:
    loop x = x for _ in Fin(steps):
        y = [0.9 * x[i] + 0.01 * (x[wrap(i + 1)] - x[wrap(i - 2)]) * x[wrap(i - 1)] for i]
        [y[i] + 0.01 * (y[wrap(i + 1)] - y[wrap(i - 2)]) * y[wrap(i - 1)] for i]
    sum(x[i] * x[i] for i)
"""
    made = nap.grad(nap.compile(text).lorenz).show("allocate")
    assert "wrap(wrap(" not in made
    for loop in re.split(r"\n +parallel for ", made)[1:]:
        assert not re.search(r"wrap\(i\w* [+-] \d, n\)", loop.split("\n")[1]), made
