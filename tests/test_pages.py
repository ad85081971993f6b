"""Every page says the truth: documentation, tests by example, and errors, in one form.

Also the page runner itself: what it reads, what it calls a difference, and that accepting makes
every claim true and changes nothing else.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from naperian import cli, pages

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [
        ROOT / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        *(ROOT / "tests" / "pages").rglob("*.md"),
    ]
)
PROGRAMS = sorted(
    [
        *(ROOT / "src" / "naperian" / "library").rglob("*.nap"),
        *(ROOT / "examples").rglob("*.nap"),
    ]
)


LONG = ROOT / "tests" / "pages" / "long"
"""The folder of pages that take long."""


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=[pytest.mark.long] if p.parent == LONG else []) for p in PAGES],
    ids=named,
)
def test_page(path: Path, accepting: bool) -> None:
    text = path.read_text(encoding="utf-8")
    if accepting and (true := pages.accept(text, path.parent)) != text:
        path.write_text(true, encoding="utf-8")
        text = true
    wrong = pages.check(named(path), text, path.parent)
    assert not wrong, "\n\n" + "\n\n".join(map(str, wrong))


@pytest.mark.parametrize("path", PROGRAMS, ids=named)
def test_docstrings(path: Path) -> None:
    wrong = pages.check_docstrings(named(path), path.read_text(encoding="utf-8"))
    assert not wrong, "\n\n" + "\n\n".join(map(str, wrong))


# ---------------------------------------------------------------- the runner

PAGE = """\
# Twice

```nap
def twice(x: Float) -> Float = x + x
```

Some prose.

```type
twice : Float -> Int
```

```value
>>> twice(2.0)
5.0

>>> twice(0.5)
1.0
```

```nap continue
def thrice(x: Float) -> Float = x + twice(x)
```

```value
>>> thrice(1.0)
3.0
```

```sh
rm -rf /
```
"""


def test_false_claims_are_found_and_accepting_mends_only_them() -> None:
    assert [(d.stage, d.line) for d in pages.check("p.md", PAGE)] == [("type", 9), ("value", 13)]
    mended = pages.accept(PAGE)
    assert mended == PAGE.replace("Float -> Int", "Float -> Float").replace("\n5.0\n", "\n4.0\n")
    assert pages.check("p.md", mended) == []


def test_a_page_with_an_unknown_kind_of_block_is_refused() -> None:
    with pytest.raises(pages.PageError, match="no such kind of block as `vaule`"):
        pages.claims("```vaule\n>>> 1\n1\n```\n")


def test_a_claim_needs_a_program() -> None:
    with pytest.raises(pages.PageError, match="line 1: `value` before any program"):
        pages.claims("```value\n>>> 1\n1\n```\n")


def test_a_longer_fence_quotes_shorter_ones() -> None:
    assert pages.claims("````markdown\n```value\n>>> 1\n2\n```\n````\n") == []


def test_dots_stand_for_anything() -> None:
    assert pages.holds("took … ms\n", "took 12.5 ms\n")
    assert not pages.holds("took … ms\n", "took 12.5 s\n")


def test_definitions_among_the_inputs_last_to_the_end_of_the_block() -> None:
    page = "```nap\na = 1\n```\n```value\n>>> b = a + 1\n>>> b * 2\n4\n```\n"
    assert pages.check("p.md", page) == []


def test_an_input_that_fails_says_so() -> None:
    page = "```nap\ndef f(k: Int) -> Int:\n    assert k > 0, \"k must be positive\"\n    k\n```\n"
    page += "```value\n>>> f(0)\n```\n"
    assert "k must be positive" in pages.check("p.md", page)[0].true


CONSOLE = """\
```nap
def main() = 1.0
```

```console
$ nap run page.nap
1.0
$ nap run page.nap man
nap: page.nap has no definition `man`; did you mean `main`?
$ nap --version
naperian …
```
"""


def test_a_command_leaves_the_process_as_it_was() -> None:
    before = os.getcwd(), sys.stdout, sys.stderr
    assert pages.check("p.md", CONSOLE) == []
    assert (os.getcwd(), sys.stdout, sys.stderr) == before


def test_an_interrupt_in_a_command_ends_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(options: object) -> int:
        raise KeyboardInterrupt

    before = os.getcwd()
    monkeypatch.setattr(cli, "perform", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pages.check("p.md", CONSOLE)
    assert os.getcwd() == before
