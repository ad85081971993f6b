"""Derivatives of tables read at places by chance: digits, remainders, shifts, ends, in tables that
are larger or smaller than what is read of them, of known sizes and of others."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import naperian as nap

Point = dict[str, int]
Place = tuple[str, Callable[[Point], int]]


def single(r: random.Random, loops: Point, n: int) -> Place:
    """A place on an axis of known size."""
    v, w = r.choice(list(loops)), r.choice(list(loops))
    a, c, d, m = r.choice([1, 1, 2, 3, -1]), r.randint(-3, 3), r.randint(1, 4), r.randint(1, n)
    shifted = f"{v} + {c}" if c >= 0 else f"{v} - {-c}"
    places: list[Place] = [
        (f"{v} % {m}", lambda p: p[v] % m),
        (f"({shifted}) % {m}", lambda p: (p[v] + c) % m),
        (f"({a} * {v} + {c}) % {m}", lambda p: (a * p[v] + c) % m),
        (f"({v} + {w}) % {m}", lambda p: (p[v] + p[w]) % m),
        (f"{v} // {d} % {m}", lambda p: p[v] // d % m),
        (f"max(0, min({n - 1}, {shifted}))", lambda p: max(0, min(n - 1, p[v] + c))),
        (f"max(0, min({n - 1}, {a} * {v} + {w} - 1))",
         lambda p: max(0, min(n - 1, a * p[v] + p[w] - 1))),
    ]  # fmt: skip
    if loops[v] <= n:
        places += [(v, lambda p: p[v]), (f"{n - 1} - {v}", lambda p: n - 1 - p[v])]
    if (loops[v] - 1) // d < n:
        places.append((f"{v} // {d}", lambda p: p[v] // d))
    return r.choice(places)


def digits(r: random.Random, loops: Point, sizes: list[int]) -> list[Place] | None:
    """A number's digits, the last of which may be fewer than the axis has places."""
    v, bases = r.choice(list(loops)), [r.randint(1, n) for n in sizes[1:]]
    steps = [int(np.prod(bases[k:])) for k in range(len(sizes))]
    if (loops[v] - 1) // steps[0] >= sizes[0]:
        return None
    found: list[Place] = [(f"{v} // {steps[0]}", lambda p: p[v] // steps[0])]
    for base, step in zip(bases, steps[1:], strict=True):
        found.append((
            f"{v} // {step} % {base}" if step > 1 else f"{v} % {base}",
            lambda p, base=base, step=step: p[v] // step % base,
        ))  # fmt: skip
    return found


def check(seed: int) -> None:
    """The gradient of a weighted sum of squares of what is read, beside the definition."""
    r = random.Random(seed)
    sizes = [r.randint(1, 9) for _ in range(r.choice([1, 1, 2, 2, 3]))]
    loops = {f"i{k}": r.choice([1, 2, 3, 4, 5, 6, 8, 12]) for k in range(r.choice([1, 1, 2, 3]))}
    told = digits(r, loops, sizes) if len(sizes) > 1 and r.random() < 0.4 else None
    places = told or [single(r, loops, n) for n in sizes]
    table = "".join(f"Fin({n})=>" for n in sizes) + "Float"
    weights = "".join(f"Fin({n})=>" for n in loops.values()) + "Float"
    at, names = ", ".join(text for text, _ in places), ", ".join(loops)
    over = ", ".join(f"{v} in Fin({n})" for v, n in loops.items())
    through = r.random() < 0.5  # a table of its own
    body = f"sum(x[{at}] ** 2 * w[{names}] for {over})"
    if through:
        body = f"y = for {over}: x[{at}]\n    sum(y[{names}] ** 2 * w[{names}] for {over})"
    text = (
        f"def f(x: {table}, w: {weights}) -> Float:\n    {body}\n"
        f'def slope(x: {table}, w: {weights}): grad(f, wrt="x")(x, w)\n'
    )
    numbers = np.random.default_rng(seed)
    x, w = numbers.normal(size=sizes), numbers.normal(size=list(loops.values()))
    expected = np.zeros(sizes)
    for point in np.ndindex(*loops.values()):
        p = tuple(place(dict(zip(loops, point, strict=True))) for _, place in places)
        expected[p] += 2.0 * x[p] * w[point]
    found = nap.compile(text).slope(x, w)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10, err_msg=text)


@pytest.mark.parametrize("seed", range(60))
def test_places(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(60, 1000))
def test_many_places(seed: int) -> None:
    check(seed)


OF_SIZES = """
def f{k}(x: Fin(n)=>Float, w: Fin(m)=>Float) -> Float:
    y = [x[{inner}] for i in Fin(m)]
    sum(y[{outer}] ** 2 * w[i] for i in Fin(m))
def slope{k}(x: Fin(n)=>Float, w: Fin(m)=>Float): grad(f{k}, wrt="x")(x, w)
"""
SHIFTS = [-3, -1, 0, 2]


def shifted(name: str, c: int) -> tuple[str, Callable[[int, int], int]]:
    text = f"{name}(i + {c})" if c >= 0 else f"{name}(i - {-c})"
    if name == "wrap":
        return text, lambda i, n: (i + c) % n
    return text, lambda i, n: max(0, min(n - 1, i + c))


CASES = [
    (shifted(a, c), shifted(b, d)) for a in ("clamp", "wrap") for b in ("clamp", "wrap")
    for c in SHIFTS for d in SHIFTS[::2]
]  # fmt: skip


@pytest.fixture(scope="module")
def of_sizes():
    return nap.compile("".join(
        OF_SIZES.format(k=k, inner=inner, outer=outer)
        for k, ((inner, _), (outer, _)) in enumerate(CASES)
    ))  # fmt: skip


@pytest.mark.parametrize("k", range(len(CASES)))
def test_places_of_unknown_sizes(of_sizes, k: int) -> None:
    (_, inner), (_, outer) = CASES[k]
    r = np.random.default_rng(k)
    for n, m in [(1, 1), (1, 3), (3, 1), (2, 2), (5, 2), (2, 5), (4, 4), (7, 3), (3, 8), (9, 9)]:
        x, w, expected = r.normal(size=n), r.normal(size=m), np.zeros(n)
        for i in range(m):
            p = inner(outer(i, m), n)
            expected[p] += 2.0 * x[p] * w[i]
        found = getattr(of_sizes, f"slope{k}")(x, w)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10, err_msg=f"{n} {m}")
