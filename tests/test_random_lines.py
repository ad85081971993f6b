"""Rows and columns of a table, each changed in place, one way and then the other in the rounds of a
loop, by chance: as alternating directions do for a differential equation; values and slopes.
(Seed 38 found two tasks whose order was the same, 640 an array that was written over another in one
of two copies of a loop.)"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import naperian as nap

Array = np.ndarray

_LOOPS = {
    "Fin(n)": ("range(n)", ("clamp(i - 1)", "clamp(i + 1)", "n - 1 - i")),
    "1..n": ("range(1, n)", ("i - 1", "i - 1")),
    "reverse(Fin(n - 1))": ("reversed(range(n - 1))", ("i + 1", "i + 1")),
}
_PYTHON = {"clamp(i - 1)": "max(i - 1, 0)", "clamp(i + 1)": "min(i + 1, n - 1)"}


def _read(rng: random.Random, places: tuple[str, ...]) -> tuple[str, str]:
    table, place = rng.choice("xxwd"), rng.choice((*places, "0", "n - 1", "i" if places else "0"))
    return f"{table}[{place}]", f"{table}[{_PYTHON.get(place, place)}]"


def _line(rng: random.Random) -> tuple[str, str]:
    """What is done to a row: statements in the language and in Python."""
    ours, theirs = [], []
    for _ in range(rng.randint(1, 3)):
        if rng.random() < 0.3:
            place, (one, other) = rng.choice(("0", "n - 1")), _read(rng, ())
            ours.append(f"x[{place}] := 0.5 * {one}")
            theirs.append(f"x[{place}] = 0.5 * {other}")
            continue
        loop, (rounds, places) = rng.choice([*_LOOPS.items()])
        ours.append(f"for i in {loop}:")
        theirs.append(f"for i in {rounds}:")
        for table in rng.choice(("x", "x", "wx", "xw")):
            (one, other), by = _read(rng, places), rng.choice((0.3, -0.4, 0.25))
            ours.append(f"    {table}[i] := 0.5 * {table}[i] + {by} * {one}")
            theirs.append(f"    {table}[i] = 0.5 * {table}[i] + {by} * {other}")
    return "\n        ".join(ours), "\n    ".join(theirs)


_WAYS = {
    "rows": ("[line(u[i]) for i]", lambda line, u: np.array([line(r) for r in u])),
    "columns": (
        "transpose([line([u[i, j] for i]) for j])",
        lambda line, u: np.array([line(r) for r in u.T]).T,
    ),
    "both": (
        "[line([v[j] for v in [line(u[i]) for i]]) for j]",
        lambda line, u: np.array([line(r) for r in np.array([line(r) for r in u]).T]),
    ),
}
_STEPS = {
    "{a}({b}(u))": lambda a, b, u: a(b(u)),
    "{a}(u) + 0.2 * {b}(u)": lambda a, b, u: a(u) + 0.2 * b(u),
    "{a}([v[i, j] + 0.1 * v[i, 0] for i, j]) where v = {b}(u)": lambda a, b, u: a(
        (v := b(u)) + 0.1 * v[:, :1]
    ),
    "{a}([0.3 * v[i, j] * u[j, i] for i, j]) where v = {b}(u)": lambda a, b, u: a(
        0.3 * b(u) * u.T
    ),
}


def _program(seed: int) -> tuple[str, Callable[[Array, int], Array]]:
    rng = random.Random(seed)
    ours, theirs = _line(rng)
    ways = rng.choice((["rows", "columns"], ["both"], ["both", "rows"]))
    a, b = rng.choice(ways), rng.choice(ways)
    said, step = rng.choice([*_STEPS.items()])
    first, _, second = said.format(a=a, b=b).partition(" where ")
    square = "Fin(n)=>Fin(n)=>Float"
    kinds = "\n".join(
        f"def {w}(u: {square}) -> {square} where n >= 1 = {_WAYS[w][0]}"
        for w in dict.fromkeys((a, b))
    )
    body = f"\n        {second}\n        {first}" if second else f" {first}"
    text = f"""
def line(d: Fin(n)=>Float) -> Fin(n)=>Float where n >= 1:
    (x, w) = with state(d) as x, state([0.5 * d[n - 1 - i] for i in Fin(n)]) as w:
        {ours}
    x

{kinds}

def f(u: {square}, steps: Int) -> {square} where n >= 1:
    loop u = u for _ in Fin(steps):{body}

def total(u: {square}, steps: Int) -> Float where n >= 1:
    y = f(u, steps)
    sum(y[i, j] * cos(Float(i + 2 * j)) for i, j)
"""
    known: dict[str, Callable[[Array], Array]] = {}
    exec(
        "def line(d):\n    x, w, n = d.copy(), 0.5 * d[::-1], len(d)\n"
        f"    {theirs}\n    return x\n",
        known,
    )
    line = known["line"]

    def f(u: Array, steps: int) -> Array:
        for _ in range(steps):
            u = step(lambda v: _WAYS[a][1](line, v), lambda v: _WAYS[b][1](line, v), u)
        return u

    return text, f


def tried(seed: int) -> None:
    text, f = _program(seed)
    m = nap.compile(text)
    for n, steps in ((1, 2), (3, 1), (4, 3), (17, 2), (2, 0)):
        u, along = np.random.default_rng(seed).normal(size=(2, n, n))
        np.testing.assert_allclose(m.f(u, steps), f(u, steps), rtol=0, atol=1e-11, err_msg=text)
        i = np.arange(n)
        weights = np.cos(i[:, None] + 2 * i)
        up, down = ((f(u + h * along, steps) * weights).sum() for h in (1e-6, -1e-6))
        slope = (nap.grad(m.total)(u, steps) * along).sum()
        np.testing.assert_allclose(slope, (up - down) / 2e-6, atol=1e-6, err_msg=text)


@pytest.mark.parametrize("seed", [38, 640])
def test_programs_that_were_found(seed: int) -> None:
    tried(seed)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", range(0, 36, 2))
def test_lines(first: int) -> None:
    for seed in range(first, first + 2):
        tried(seed)
