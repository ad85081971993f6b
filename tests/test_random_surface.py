"""Whole programs by chance are right: see `programs_by_chance.py`, `wider_by_chance.py`,
`richer_by_chance.py` and `tried_by_chance.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from made_small import smallest
from programs_by_chance import program
from richer_by_chance import program as richer
from tried_by_chance import wrong
from wider_by_chance import program as wider

TRIED = Path(__file__).parent / "tried_by_chance.py"


@pytest.mark.parametrize("ten", range(2))
def test_programs(ten: int) -> None:
    for seed in range(10 * ten, 10 * ten + 10):
        text = program(seed)
        assert wrong(text, seed) is None, f"{wrong(text, seed)}\n{text}"


@pytest.mark.parametrize("five", range(2))
def test_wider_programs(five: int) -> None:
    for seed in range(5 * five, 5 * five + 5):
        text = wider(seed)
        assert wrong(text, seed) is None, f"{wrong(text, seed)}\n{text}"


@pytest.mark.parametrize("five", range(2))
def test_richer_programs(five: int) -> None:
    for seed in range(5 * five, 5 * five + 5):
        text = richer(seed)
        assert wrong(text, seed) is None, f"{wrong(text, seed)}\n{text}"


@pytest.mark.long
@pytest.mark.parametrize("kind", ["wider", "richer"])
@pytest.mark.parametrize("hundred", range(4))
def test_hundreds_of_programs_with_more(hundred: int, kind: str) -> None:
    done = subprocess.run(
        [sys.executable, str(TRIED), str(100 * hundred), "100", kind], capture_output=True,
        text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize("level", ["native", "avx2", "baseline"])
@pytest.mark.parametrize("hundred", range(11))
def test_a_thousand_programs(hundred: int, level: str) -> None:
    done = subprocess.run(
        [sys.executable, str(TRIED), str(100 * hundred), "100"], capture_output=True, text=True,
        env=os.environ | {"NAPERIAN_TARGET": level},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_what_fails_is_made_small() -> None:
    text = """\
def g(x: Float) -> Float = x

def f(x: Float) -> Float:
    y = g(x)
    1.0 + sin(y * 2.0)
"""
    found = smallest(text, lambda t: "sin(" in t and "def f" in t)
    assert found == "def f(x: Float) -> Float:\n    sin(1)"
