"""Imports point down, and all of them stand at the top of their file.

    node names dtypes source sizes facts types leaves prims … nouns
    surface core ainf loops                                  languages: know no other language
    frontend passes backends                                 verbs: know languages, not each other
    pipeline              signature → signed → border        the compiler; the way to NumPy
    program → api
    values session oracle → repl pages commands demo doctor → cli
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "naperian"
FILES = sorted(SRC.rglob("*.py"))

_NOUNS = {
    "node", "names", "dtypes", "source", "sizes", "sums", "facts", "types", "leaves", "prims",
    "partials", "ragged", "records", "broken", "lines", "components", "late", "packing",
    "substitution", "type_show", "garbage",
}  # fmt: skip
_LANGUAGES = {"surface", "core", "ainf", "loops"}
_VERBS = {"frontend", "passes", "backends"}
_BELOW_PIPELINE = _NOUNS | _LANGUAGES | _VERBS
_ABOVE = {"values", "session", "oracle"}

# What a part may import beside itself; "" is the package's own `__init__`.
MAY: dict[str, set[str]] = (
    {part: _NOUNS for part in _NOUNS}
    | {part: _NOUNS for part in _LANGUAGES}
    | {part: _NOUNS | _LANGUAGES for part in _VERBS - {"backends"}}
    | {
        "loops": _NOUNS | {"ainf"},  # `Failure`, which it hands on
        "backends": _NOUNS | _LANGUAGES | {"signature"},  # what a native entry converts
        "pipeline": _BELOW_PIPELINE,
        "class_defaults": _NOUNS | {"core"},
        "signature": _NOUNS | {"ainf", "class_defaults"},
        "plan": _NOUNS | {"signature"},
        "formed": _NOUNS | {"class_defaults", "signature"},
        "signed": _NOUNS | _LANGUAGES | {"class_defaults", "formed", "plan", "signature"},
        "forms": _NOUNS | {"signature", "records"},
        "border": _NOUNS | {"signature", "forms", "records"},
        "program": _BELOW_PIPELINE
        | {"class_defaults", "formed", "pipeline", "signature", "signed"},
        "within": _BELOW_PIPELINE | {"pipeline", "program"},
        "api": _BELOW_PIPELINE
        | {"pipeline", "signature", "signed", "border", "forms", "program", "records", "within"},
        "": {"api", "late", "pipeline", "trial"},
        "values": {"lines", "ragged", "records"},
        "session": {"node", "border", "source", "surface"},
        "oracle": _BELOW_PIPELINE
        | {"", "class_defaults", "forms", "pipeline", "session", "signed", "values"},
        "draws": _NOUNS | {"border", "forms", "signature"},
        "trial": _BELOW_PIPELINE
        | {"api", "border", "draws", "forms", "pipeline", "signature", "signed", "values"},
        "cli": {"", "broken", "node", "source"},
        "precompiled": set(),
        "c_text": _NOUNS | {"", "backends", "signature"},
        "build": _BELOW_PIPELINE
        | {"", "border", "c_text", "cli", "pipeline", "precompiled", "program", "signature"}
        | {"signed"},
        "__main__": {"cli"},
    }
    | {
        part: _BELOW_PIPELINE | _ABOVE | {"", "program", "cli", "pages", "trial"}
        for part in ("pages", "repl", "commands", "demo", "doctor")
    }
)


# The parts of `passes`, in the order in which a program meets them, and what each may import.
PASSES: dict[str, set[str]] = {
    "normal": set(),
    "bindings": set(),
    "flat": {"bindings", "derivatives"},
    "derivatives": {"bindings", "algebra"},
    "algebra": {"bindings"},
    "fusion": {"bindings", "nests"},
    "nests": set(),
}


def part_of(path: Path) -> str:
    inside = path.relative_to(SRC).with_suffix("").parts
    return "" if inside == ("__init__",) else inside[0]


def imported(tree: ast.AST) -> Iterator[str]:
    """The parts of naperian that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            module = node.module or ""
            modules = [module]
            if module == "naperian":
                modules = [f"naperian.{a.name}" for a in node.names]
        else:
            continue
        for module in modules:
            if module == "naperian" or module.startswith("naperian."):
                part = module.removeprefix("naperian").removeprefix(".").split(".")[0]
                yield part if part in MAY else ""


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_imports_point_down(path: Path) -> None:
    part = part_of(path)
    assert part in MAY, f"say in MAY what `{part}` may import"
    above = set(imported(ast.parse(path.read_text()))) - MAY[part] - {part}
    assert not above, f"{path.relative_to(SRC)} imports {above}, which is not below it"


def at_run_time(tree: ast.Module) -> Iterator[str]:
    """The modules that a file imports at its top, but for those whose types alone it names."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_passes_know_what_is_below_them() -> None:
    folders = {path.parent.name for path in (SRC / "passes").glob("*/*.py")}
    assert folders == PASSES.keys()
    for path in (SRC / "passes").glob("*/*.py"):
        for module in at_run_time(ast.parse(path.read_text())):
            if module.startswith("naperian.passes."):
                part = module.split(".")[2]
                assert part in PASSES[path.parent.name] | {path.parent.name}, (path.name, module)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_no_import_inside_a_function(path: Path) -> None:
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = [n for n in ast.walk(function) if isinstance(n, ast.Import | ast.ImportFrom)]
            assert not inside, f"{path.relative_to(SRC)}:{inside[0].lineno}"


def test_every_file_says_what_it_is() -> None:
    for path in FILES:
        text = path.read_text()
        assert not text.strip() or ast.get_docstring(ast.parse(text)), f"{path} has no docstring"
