"""A state whose rows have different lengths is changed in place, as one with equal rows is."""

from __future__ import annotations

import numpy as np
import pytest
from test_cost import FACTOR, SMALL, cost

import naperian as nap

pytestmark = pytest.mark.usefixtures("keeping")

TRIANGLE, AFTER = "(i: Fin(n))=>(..=i)=>Float", "(i: Fin(n))=>(i..)=>Float"
PYRAMID, PAIRS = "(i: Fin(n))=>(j: ..=i)=>(..=j)=>Float", "(i: Fin(n))=>(..i)=>Fin(3)=>Float"
SEVERAL, BETWEEN = f"Fin(3)=>{TRIANGLE}", "(i: Fin(n))=>Fin(3)=>(..=i)=>Float"
SUMS = "(i: Fin(n))=>Fin(2 * i + 3)=>Float"

# name: the type of a state, its first elements, what is done, and the order of growth
PROGRAMS = {
    "triangle": (TRIANGLE, "[[x[i, j] for j in ..=i] for i]", """
            for j in ..=i:
                l[i, j] := l[i, j] * l[j, j] + 1.0
""", 2),
    "Cholesky": (TRIANGLE, "[[x[i, j] + (8.0 if i == j else 0.0) for j in ..=i] for i]", """
            for j in ..=i:
                s = l[i, j] - sum(l[i, k] * l[j, k] for k in ..j)
                l[i, j] := sqrt(s) if i == j else s / l[j, j]
""", 3),
    "diagonal": (TRIANGLE, "[[x[i, j] for j in ..=i] for i]", """
            l[i, i] := x[i, i] * l[i, 0]
""", 2),
    "the other triangle": (AFTER, "[[x[i, j] for j in i..] for i]", """
            for j in i..:
                l[i, j] := l[i, j] * l[i, i] + 1.0
""", 2),
    "pyramid": (PYRAMID, "[[[x[i, k] for k in ..=j] for j in ..=i] for i]", """
            for j in ..=i:
                l[i, j, 0] := l[i, j, j] * 2.0
""", 3),
    "pairs": (PAIRS, "[[[x[i, j] for k in Fin(3)] for j in ..i] for i]", """
            for j in ..i:
                l[i, j, 1] := l[i, j, 2] * 2.0
""", 2),
    "several triangles": (SEVERAL, "[[[x[i, j] for j in ..=i] for i] for k in Fin(3)]", """
            for j in ..=i:
                l[2, i, j] := l[0, i, j] * 2.0
""", 2),
    "triangles of rows": (BETWEEN, "[[[x[i, j] for j in ..=i] for k in Fin(3)] for i]", """
            for j in ..=i:
                l[i, 2, j] := l[i, 0, j] * 2.0
""", 2),
    "rows that grow by two": (SUMS, "[[x[i, 0] for j in Fin(2 * i + 3)] for i]", """
            for j in Fin(2 * i + 3):
                l[i, j] := l[i, 0] * 2.0
""", 2),
}  # fmt: skip


def compiled(name: str) -> nap.Function:
    of, first, round_, _ = PROGRAMS[name]
    axes = of.count("=>")
    total = "sum(" * axes + "changed(x)" + ")" * axes
    return nap.compile(f"""
def f(x: Fin(n)=>Fin(n)=>Float) -> Float = {total}

def begun(x: Fin(n)=>Fin(n)=>Float) -> {of} = {first}

def changed(x: Fin(n)=>Fin(n)=>Float) -> {of}:
    with state(begun(x)) as l:
        for i in Fin(n):{round_}""").f


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_round_copies_the_table(name: str) -> None:
    f = compiled(name)
    assert nap.check(f)
    less, more = (cost(f, [np.ones((n, n))]).total for n in (SMALL, FACTOR * SMALL))
    print(name, less, more)
    assert more <= 1.2 * FACTOR ** PROGRAMS[name][3] * less
