"""Values do not hang on the way they are computed (`alike.py`), for any processor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def differences(level: str, *arguments: str) -> list[str]:
    """What differs for a processor; nothing, if as many values were compared as should be."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "alike.py"), *arguments],
        env=os.environ | {"NAPERIAN_TARGET": level}, capture_output=True, text=True,
    )  # fmt: skip
    *lines, compared = [*done.stderr.splitlines()[-9:], *done.stdout.splitlines()]
    return lines if compared.isdigit() and int(compared) > 1000 else [*lines, compared]


@pytest.mark.parametrize(("level", "dtype"), [("avx2", "F64"), ("baseline", "F32")])
def test_values_are_alike(level: str, dtype: str) -> None:
    assert differences(level, dtype) == []


@pytest.mark.long
@pytest.mark.parametrize("level", ["native", "avx2", "baseline"])
def test_values_are_alike_for_more_sizes(level: str) -> None:
    """In double precision, with integers and derivatives, that takes longer than a gate has:
    `python tests/alike.py --long`."""
    assert differences(level, "--long", "F32") == []
