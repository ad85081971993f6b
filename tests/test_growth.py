"""Compiling takes work in proportion to the program. Python's calls are counted, so that no clock
is asked: twice as many lines may take three times as many, which a pass that looks at every pair,
or writes out a name for each of its uses, does not keep."""

from __future__ import annotations

import cProfile
import pstats
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import pytest

import naperian as nap


def lines(first: str, line: str, count: int) -> str:
    """`line` once for each k, with `{k}` and `{l}` for k and the one after it."""
    return first + "".join(line.format(k=k, l=k + 1) for k in range(count))


def index_names(n: int) -> str:
    head = "def f(x: m=>Float) -> m=>Float:\n    for i:\n        a0 = Int(i)\n"
    return lines(head, "        a{l} = a{k} // 2 + a{k} % 3\n", n) + f"        x[clamp(a{n})]\n"


def states(n: int) -> str:
    starts = ", ".join(f"s{k} = 0.0" for k in range(n))
    nexts = ", ".join(f"s{k} * s{(k + 1) % n} + v * {k}.5" for k in range(n))
    return f"def f(x: m=>Float):\n    loop {starts} for v in x:\n        ({nexts})\n"


def scans(n: int) -> str:
    head = "def f(x: m=>Float) -> m=>Float:\n    y0 = x\n"
    return lines(head, "    y{l} = cumsum(y{k})\n", n) + f"    y{n}\n"


def twice(n: int) -> str:
    head = "def g0(x: Float) -> Float = x + 1.0\n"
    made = lines(head, "def g{l}(x: Float) -> Float = g{k}(x) * g{k}(x)\n", n)
    return f"{made}def f(x: m=>Float) = [g{n}(v) for v in x]\n"


def nested(n: int) -> str:
    at = [f"i{k}" for k in range(n)]
    place = " + ".join(at)
    loops = "".join(f"{'    ' * (k + 2)}for {i} in Fin(m):\n" for k, i in enumerate(at))
    return f"""def f(x: Fin(l)=>Float, y: Fin(m)=>Float) -> Fin(l)=>Float where l >= 1:
    with state(x) as s:
{loops}{"    " * (n + 2)}s[wrap({place})] := s[wrap({place} + 1)] * y[i0]
"""


def tables(n: int) -> str:
    """A program of so many tables of which a round changes an element each, after it has asked
    something of two of them."""
    starts = ", ".join(f"s{k} = x" for k in range(n))
    sums = "".join(
        f"        r{k} = {k}.5 + sum(s{k}[i] * s{(k + 1) % n}[i] for i)\n" for k in range(n)
    )
    changed = ", ".join(f"put(s{k}, p[t], r{k})" for k in range(n))
    return f"""
def put(s: n=>Float, k: n, r: Float) -> n=>Float = [r if i == k else s[i] for i]
def f(x: n=>Float, p: m=>n) -> Float:
    loop {starts} for t in m:
{sums}        ({changed})
    {" + ".join(f"sum(s{k})" for k in range(n))}
"""


def recurrences(n: int) -> str:
    """A program of so many recurrences along each row, whose last values come together there."""
    head = "def f(x: n=>m=>Float) -> n=>Float:\n"
    line = "    y{k} = for i:\n        loop s = 0.0 for v in x[i]: s * {k}.5 + v\n"
    body = lines(head, line, n)
    return body + "    [" + " + ".join(f"y{k}[i]" for k in range(n)) + " for i]\n"


PROGRAMS = [index_names, states, scans, twice]


def calls(text: str) -> int:
    """How many functions of Python are called until the program is text for LLVM."""
    count = 0

    def seen(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event == "call"

    f = nap.compile(text)
    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        f["f"].show("llvm")
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("program", PROGRAMS)
def test_work_grows_as_the_program(program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAPERIAN_CACHE", "off")
    calls(program(2))  # what is read once
    one, two = calls(program(20)), calls(program(40))
    assert two < 3 * one


def test_work_grows_as_loops_in_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a state is read is not asked twice in each loop for every time in the one around it."""
    monkeypatch.setenv("NAPERIAN_CACHE", "off")
    calls(nested(2))
    one, two = calls(nested(5)), calls(nested(10))
    assert two < 5 * one  # each line has more names, too


def test_a_default_stands_once() -> None:
    """However many questions are asked whether an index is outside."""
    f = nap.compile("""
def f(x: Fin(n)=>Fin(m)=>Float, i: Int, d: Float) =
    x.get((i, i + 1), x.get((2 * i, 3 * i), exp(d)))
""").f
    assert f.show("elaborated").count("exp") == 1


def asked(text: str) -> Counter[str]:
    """The calls in each file, from the text to loops."""
    f = nap.compile(text).f
    with cProfile.Profile() as calls:
        f.show("loops")
    found: Counter[str] = Counter()
    for (file, _, _), (_, n, *_) in pstats.Stats(calls).stats.items():  # type: ignore[attr-defined]
        found[Path(file).name] += n
    return found


def test_twice_as_many_tables_ask_twice_as_much() -> None:
    """Who reads a table, and what a round does with it, is found once and not for each of them."""
    asked(tables(2))  # what is kept for ever is made the first time
    four, eight, sixteen = (asked(tables(n)) for n in (4, 8, 16))
    for file in ("changes.py", "coalesce.py", "fuse.py", "sliced.py", "storage.py", "whole.py"):
        assert sixteen[file] - eight[file] <= 2.4 * (eight[file] - four[file]), file
    assert sixteen["changes.py"] > 0


def test_twice_as_many_recurrences_ask_twice_as_much() -> None:
    """Whether what is still to come needs two of them is asked of who reads them."""
    asked(recurrences(2))
    four, eight, sixteen = (asked(recurrences(n))["fuse.py"] for n in (8, 16, 32))
    assert sixteen - eight <= 2.4 * (eight - four)
