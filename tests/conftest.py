"""The one flag: `pytest --accept` rewrites what pages claim to what is true; review is the diff."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--accept", action="store_true", help="rewrite the claims of pages to what is true"
    )


@pytest.fixture
def accepting(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--accept"))
