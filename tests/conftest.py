"""The one flag: `pytest --accept` rewrites what pages claim to what is true; review is the diff.
And the fixture of tests that are run on one thread and on two."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator

# compiled code of the tests is kept apart from the user's; and the many processes that they start
# do not each read our sources, though an environment may say that nobody is to keep what was read
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
if "NAPERIAN_TESTS" not in os.environ:  # one folder for all processes of a run
    os.environ["NAPERIAN_TESTS"] = tempfile.mkdtemp(prefix="naperian-tests-")
    atexit.register(shutil.rmtree, os.environ["NAPERIAN_TESTS"], ignore_errors=True)
os.environ.setdefault("NAPERIAN_CACHE", os.environ["NAPERIAN_TESTS"] + "/compiled")
os.environ.setdefault("PYTHONPYCACHEPREFIX", os.environ["NAPERIAN_TESTS"] + "/bytecode")

# what is started in the background may ignore interrupts, and so would what the tests start
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest
from hypothesis import settings

import naperian as nap
from naperian import garbage, pipeline

pipeline.every_step = True

# the tests and their programs are many objects and hardly any is garbage: the collector looks
# through them a third as often as it would, and tests of memory ask for it themselves
garbage._MUCH *= 3
gc.set_threshold(20_000, 20, 20)

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


@pytest.fixture
def keeping() -> Iterator[None]:
    """What a test asks of one function more than once, its value, its loops and what they cost, is
    made once. Not for tests that lower a program again to see whether it is the same."""
    with pipeline.keeping():
        yield


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the test on one thread and on two."""
    before = nap.threads()
    nap.threads(request.param)
    yield
    nap.threads(before)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a family of cases that is `sampled(k)`, k spread over it are in the gate; the others go
    with the long tests."""
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for family in families.values():
        marker = family[0].get_closest_marker("sampled")
        assert marker is not None
        (few,) = marker.args
        stay = {i * len(family) // few for i in range(few)}
        for place, item in enumerate(family):
            if place not in stay:
                item.add_marker(pytest.mark.long)
