"""Effects at the border: what is printed reaches Python, what is thrown is an exception; user's
operators give the same bits on any number of threads."""

from __future__ import annotations

import contextlib
import io
import threading
from typing import Any

import numpy as np
import pytest

import naperian as nap

SOURCE = """
def each(x: n=>Float) -> Float:
    for i: print(i, x[i])
    sum(x)

def root(x: Float) -> Float:
    if x < 0: throw()
    sqrt(x)

def roots(x: n=>Float) = root(x)

def sum_of_logs(x: n=>Float) -> Float:
    with accum(lambda a, b: max(a, b) + log1p(exp(-abs(a - b))), -1.0e30) as r:
        for i: r += x[i]

def chances(kind: n=>m, p: n=>Float) -> m=>Float:
    with accum(lambda a, b: a + b - a * b, 0.0) as r:
        for i: r[kind[i]] += p[i]
"""


@pytest.fixture(scope="module")
def m() -> Any:
    return nap.compile(SOURCE, "effects.nap")


def test_lines_go_where_python_prints(m: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert m.each(np.array([1.0, 2.5])) == 3.5
    assert capsys.readouterr().out == "0 1.0\n1 2.5\n"


def test_lines_are_shown_by_what_was_compiled_before(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # the second one comes from the cache
        assert nap.compile(SOURCE, "effects.nap").each(np.array([4])) == 4.0
    assert capsys.readouterr().out == "0 4.0\n" * 2


def test_an_array_large_enough_to_let_other_threads_run(m: Any) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        m.each(np.zeros(10_000))
    assert said.getvalue().count("\n") == 10_000


def test_whoever_cannot_take_a_line_ends_the_run(m: Any) -> None:
    class Full(io.StringIO):
        lines = 0

        def write(self, text: str) -> int:
            self.lines += 1
            if self.lines > 3:
                raise OSError("no space")
            return super().write(text)

    full = Full()
    with contextlib.redirect_stdout(full), pytest.raises(OSError, match="no space"):
        m.each(np.zeros(100))
    assert full.getvalue().startswith("0 0.0\n")
    assert m.each(np.zeros(0)) == 0.0


def test_a_line_may_lead_to_another_call(m: Any) -> None:
    inner: list[float] = []

    class Calling(io.StringIO):
        def write(self, text: str) -> int:
            if text.startswith("0"):
                with contextlib.redirect_stdout(io.StringIO()):
                    inner.append(m.each(np.array([7.0])))
            return super().write(text)

    calling = Calling()
    with contextlib.redirect_stdout(calling):
        m.each(np.array([1.0, 2.0]))
    assert inner == [7.0]
    assert calling.getvalue() == "0 1.0\n1 2.0\n"


def test_every_thread_hears_its_own_calls(m: Any, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [threading.Thread(target=m.each, args=(np.full(50, k),)) for k in range(4)]
    for t in runs:
        t.start()
    for t in runs:
        t.join()
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == sorted(f"{i} {k}.0" for i in range(50) for k in range(4))


def test_the_first_of_those_that_throw_is_told(m: Any) -> None:
    with pytest.raises(nap.Thrown, match=r"effects\.nap:7:15: nothing handles this `throw\(\)`"):
        m.roots(-np.ones(100_000))
    assert issubclass(nap.Thrown, nap.RunError)


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 1000, 100_003])
def test_an_operator_gives_the_same_bits_on_any_number_of_threads(m: Any, n: int) -> None:
    x = np.random.default_rng(n).random(n)
    kind = np.arange(n) % 7
    before = nap.threads()
    try:
        found = []
        for threads in (1, 2, 3):
            nap.threads(threads)
            found.append((m.sum_of_logs(x), m.chances(kind, x * 1e-3, m=7)))
    finally:
        nap.threads(before)
    expected = np.logaddexp.reduce(x, initial=-1e30)
    assert found[0][0] == pytest.approx(expected)
    assert found[0][1] == pytest.approx(
        [1 - np.prod(1 - 1e-3 * x[kind == k]) for k in range(7)], abs=1e-12
    )
    for total, chances in found[1:]:
        assert total == found[0][0]
        assert np.array_equal(chances, found[0][1])
