"""The one flag: `pytest --accept` rewrites what pages claim to what is true; review is the diff.
And the fixture of tests that are run on one thread and on two."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator

# compiled code of the tests is kept apart from the user's, and only for one run
os.environ.setdefault("NAPERIAN_CACHE", tempfile.mkdtemp(prefix="naperian-tests-"))

# what is started in the background may ignore interrupts, and so would what the tests start
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest
from hypothesis import settings

import naperian as nap
from naperian import pipeline

pipeline.every_step = True

# the gate draws the same examples every time; with NAPERIAN_EXPLORE others
settings.register_profile("same", derandomize=True)
if "NAPERIAN_EXPLORE" not in os.environ:
    settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--accept", action="store_true", help="rewrite the claims of pages to what is true"
    )


@pytest.fixture
def accepting(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--accept"))


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the test on one thread and on two."""
    before = nap.threads()
    nap.threads(request.param)
    yield
    nap.threads(before)
