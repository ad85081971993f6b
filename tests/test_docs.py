"""The documentation hangs together: links lead somewhere, and what README tells to type exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from naperian import cli

ROOT = Path(__file__).parent.parent
TEXTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")


def prose(path: Path) -> str:
    """The text without its blocks and code spans."""
    text = re.sub(r"^(`{3,}).*?^\1$", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for target in _LINK.findall(prose(path)):
        if not target.startswith(("http:", "https:", "#")):
            assert (path.parent / target.split("#")[0]).exists(), f"{path.name} links to {target}"


def test_every_page_of_the_coverage_exists() -> None:
    for page in re.findall(r"\[[^\]]*\]\((\.\./tests/[^)]+)\)", (ROOT / "docs/coverage.md").read_text()):
        assert (ROOT / "docs" / page).exists(), page


def test_readme_names_only_commands_and_extras_that_exist() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra in re.findall(r"\.\[(\w+)\]", text):
        assert extra in extras
    commands = {c.name for c in cli.COMMANDS}
    for command in re.findall(r"\bnap (\w+)", "\n".join(re.findall(r"`[^`]+`|^.*bin/nap.*$", text, re.M))):
        assert command in commands, f"`nap {command}`"


def test_readme_is_short_and_its_picture_small() -> None:
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (ROOT / "README.md").read_text("utf-8"))
    assert len(pictures) == 1
    assert (ROOT / pictures[0]).stat().st_size <= 150_000
