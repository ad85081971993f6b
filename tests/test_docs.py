"""The documentation hangs together: links lead somewhere, and what README tells to type exists."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from naperian import cli, pipeline

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
    text = (ROOT / "docs" / "coverage.md").read_text("utf-8")
    for page in re.findall(r"\(((?:\.\./)?[\w/]+\.(?:md|py))\)", text):
        assert (ROOT / "docs" / page).exists(), page


def test_readme_names_only_commands_and_extras_that_exist() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(re.findall(r"\.\[(\w+)\]", text)) <= set(project["optional-dependencies"])
    named = re.findall(r"(?:`|bin/)nap (\w+)", text)
    assert named
    assert set(named) <= {c.name for c in cli.COMMANDS}
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"^make (\w+)$", text, re.MULTILINE)) <= targets


def test_readme_is_short_and_its_picture_small() -> None:
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (ROOT / "README.md").read_text("utf-8"))
    assert len(pictures) == 1
    assert (ROOT / pictures[0]).stat().st_size <= 150_000


def test_the_benchmarks_run_and_results_agree(tmp_path: Path) -> None:
    """One case, to see that the command works; peers that are not installed are left out."""
    command = [sys.executable, "benchmarks/run.py", "--seconds", "0.1", "--threads", "1"]
    command += ["--only", "small", "--peers", "gcc,numpy", "--out", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (row,) = json.loads((tmp_path / "results.json").read_text("utf-8"))["rows"]
    assert row["wrong"] == []
    assert row["seconds"]["naperian"] < row["seconds"]["numpy"]


def test_the_library_is_listed_as_the_language_page_says() -> None:
    listed = pipeline.listing()
    said = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
    for module, names in re.findall(r"^\| `(\w+)` \| (`.*`.*) \|$", said, re.MULTILINE):
        if module in listed:
            words = [n for part in re.findall(r"`([^`]*)`", names) for n in part.split()]
            assert [x.short for x in listed[module]] == words
    start = said.index("## The library")
    plain = re.findall(r"`([^`]*)`", said[start : said.index("written in the language", start)])
    everywhere = {x.short for x in listed["std"]}
    constants = {"pi", "e", "tau", "inf", "nan"}
    assert {n for part in plain for n in part.split()} - constants <= everywhere
    assert all(x.type and x.says for found in listed.values() for x in found)
