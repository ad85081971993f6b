"""A text that begins as one before is elaborated from there on, and means what it means alone."""

from __future__ import annotations

import pytest

from naperian import pipeline
from naperian.core import syntax as core
from naperian.core.show import show
from naperian.frontend import resolve
from naperian.source import Source

TEXT = """\
import linalg: det

def twice(x: Float) = x + x

def middle(x: n=>Float) = mean(x) + det([[v * w for w in x] for v in x])

def both(x: n=>Float) = twice(middle(x))

"""


def read(text: str, name: str = "again") -> core.Module:
    program, wrong = pipeline.front(Source(name, text))
    assert program is not None, wrong
    return program


@pytest.fixture
def defined(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that are elaborated, as they are."""
    names: list[str] = []
    define = resolve.define

    def told(d, name, *rest):
        names.append(name)
        return define(d, name, *rest)

    monkeypatch.setattr(resolve, "define", told)
    return names


def test_an_entry_costs_what_it_adds(defined: list[str]) -> None:
    before = read(TEXT)
    assert defined == ["twice", "middle", "both"]
    after = read(TEXT + "def it() = both([1.0])\n")
    assert defined == ["twice", "middle", "both", "it"]
    assert after.definitions["both"] == before.definitions["both"]
    assert after.definitions["both"].origin.source.text.endswith("both([1.0])\n")
    read(TEXT + "def it() = both([2.0])\n")
    assert defined == ["twice", "middle", "both", "it", "it"]
    read(TEXT.replace("x + x", "2 * x"))  # everything after it stands elsewhere
    assert defined[5:] == ["twice", "middle", "both"]


def test_a_name_that_means_another_thing_is_read_again(defined: list[str]) -> None:
    """`mean` of the library, or of a later entry, as in a file; and who uses who uses it."""
    read(TEXT, "shadowed")
    defined.clear()
    text = TEXT + "def mean(x: n=>Float) = 0.0\n"
    after = read(text, "shadowed")
    assert defined == ["mean", "middle", "both"]
    alone = read(text, "alone")
    for name in ("twice", "mean", "middle", "both"):
        assert show(after.definitions[name]) == show(alone.definitions[name])


def test_a_mistake_is_told_each_time() -> None:
    for _ in range(2):
        program, wrong = pipeline.front(Source("wrong", TEXT + "def it() = both(1)\n"))
        assert program is None
        assert len(wrong) == 1


STRUCT = "struct Point:\n    x: Float\n    y: Float\n", "p.x + p.y", "Point(1.0, 2.0)"
ENUM = "enum Point = One | Two\n", "1.0 if p == Point.One else 2.0", "Point.One"


@pytest.mark.parametrize(("types", "body", "value"), [STRUCT, ENUM], ids=["struct", "enum"])
@pytest.mark.parametrize("head", ["", "from geo import Point\n", "import geo\n"])
def test_types_are_others_each_time(head: str, types: str, body: str, value: str) -> None:
    """Each reading of a text has a `Point` of its own, which a function of before knows not."""
    text = f"{head or types}\ndef f(p: Point) -> Float = {body}\n"
    for name in ("g", "h"):
        entry = f"\ndef {name}() -> Float = f({value})\n"
        whole = text + entry
        if head.startswith("import"):
            whole = whole.replace("Point", "geo.Point")
        source = Source(f"types {head}", whole)
        program, wrong = pipeline.front(source, lambda _: Source("geo", types))
        assert program is not None, wrong
