"""Rows that each end by themselves, and whose rounds are made again in strips, go side by side."""

from __future__ import annotations

import numpy as np
import pytest

import naperian as nap

ROUND = {  # what the row starts with, a round, whether there is one more, and the value
    "one number": ("y = v", "y * p + 0.02 * sin(q * y)", "y < 20.0", "y"),
    "a counter": ("y = v, k = 0", "(y * p + 0.02 * sin(q * y), k + 1)",
                  "y < 20.0 and k < 150", "y + Float(k)"),
    "two numbers": ("y = v, z = 1.0", "(y * p + 0.02 * sin(q * z), z * 0.99 + 0.1 * cos(y))",
                    "y < 20.0", "y * z"),
    "a choice": ("y = v, z = 1.0",
                 "(y * p + 0.1 if y > 3.0 else y + 0.2 * q + 0.1 * z, sin(z * y))",
                 "y < 20.0", "y + 0.01 * z"),
    "a sum beside": ("y = v, z = 1.0", "(y * p + 0.1 if y > 3.0 else y + 0.2 * q, z + y * q)",
                     "y < 20.0", "y + 0.01 * z"),
    "no round for some": ("y = 3.0 * v", "y * p + q", "y < 8.0", "y ** 2"),
}  # fmt: skip


def module(name: str, kept: str) -> nap.Module:
    start, more, holds, value = ROUND[name]
    names = [x.split("=")[0].strip() for x in start.split(", ")]
    names = names if len(names) == 1 else [f"({', '.join(names)})"]
    return nap.compile(f"""
def f(x: n=>Float, p: Float, q: Float) -> Float = sum(sin(u) + u for u in ended(x, p, q))

def ended(v: Float, p: Float, q: Float) -> Float:
    {names[0]} = loop {start} {kept} while {holds}: {more}
    {value}
""")


@pytest.mark.parametrize("name", ROUND)
def test_a_gradient_in_strips_is_that_without(name: str) -> None:
    one, other = module(name, "checkpoint(2)"), module(name, "")
    if name != "a sum beside":  # which is sent to a table of the strip's rounds
        assert "most" in nap.grad(one.f).show("loops")
    for n in (1, 7, 8, 50):
        args = np.random.default_rng(n).uniform(0.1, 4.0, n), 1.03, 0.7
        for wrt in ("x", ("x", "p", "q")):
            found, expected = nap.grad(one.f, wrt)(*args), nap.grad(other.f, wrt)(*args)
            for a, b in zip(found, expected, strict=True):
                assert np.allclose(a, b, rtol=1e-10)
    x = np.random.default_rng(3).uniform(0.1, 4.0, 33)
    assert np.allclose(nap.grad(one.f, memory="4kB")(x, 1.03, 0.7), nap.grad(one.f)(x, 1.03, 0.7))


def test_rows_go_side_by_side() -> None:
    for wrt in ("x", ("x", "p", "q")):
        assert "lane" in nap.grad(module("two numbers", "checkpoint(2)").f, wrt).show("loops")
