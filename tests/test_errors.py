"""Every message has a page, and every page its message.

A page `docs/errors/<code>.md` shows a program with the mistake, what the compiler says, and a
program without it. `test_pages.py` checks the texts; this module, that nothing is missing.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from naperian import pages, pipeline
from naperian.frontend.messages import library_names
from naperian.source import Diagnostic, Source, render

ROOT = Path(__file__).parent.parent
CATALOGUES = {  # `errors.py`, and the `…_errors.py` of the parts of the language
    part: sorted((ROOT / "src" / "naperian" / part).rglob("*errors.py"))
    for part in ("surface", "frontend")
} | {  # what only a call, or the program it compiles, can know
    "run": [
        ROOT / "src" / "naperian" / "within.py",
        ROOT / "src" / "naperian" / "passes" / "derivatives" / "linearity.py",
    ]
}
PAGES = {p.stem: p for p in sorted((ROOT / "docs" / "errors").glob("N*.md"))}
CODE = re.compile(r'"(N0\d\d\d)"')
FILES = {"N0127", "N0128", "N0129"}  # about files as a whole, which a program in a page cannot be


def codes(*parts: str) -> set[str]:
    return {c for p in parts for f in CATALOGUES[p] for c in CODE.findall(f.read_text("utf-8"))}


def front(text: str, read=lambda _: None, name: str = "main") -> tuple[Diagnostic, ...]:
    return pipeline.front(Source("page.nap", text), read, name)[1]


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    assert codes(*CATALOGUES) == set(PAGES)


@pytest.mark.parametrize("code", sorted(codes("frontend") - {"N0204"}))
def test_the_first_program_of_a_page_makes_its_mistake_and_no_other(code: str) -> None:
    claims = pages.claims(PAGES[code].read_text(encoding="utf-8"))
    assert {d.code for d in front(claims[0].program)} == {code}
    assert front(claims[-1].program) == (), "the program that does it right"


def test_every_function_that_makes_a_message_is_used() -> None:
    folder = ROOT / "src" / "naperian" / "frontend"
    callers = set(folder.rglob("*.py")) - set(CATALOGUES["frontend"])
    text = "".join(p.read_text(encoding="utf-8") for p in callers)
    made = [
        (catalogue.stem, f.name)
        for catalogue in CATALOGUES["frontend"]
        for f in ast.parse(catalogue.read_text(encoding="utf-8")).body
        if isinstance(f, ast.FunctionDef) and (ast.get_docstring(f) or "").startswith("N0")
    ]
    assert made
    assert [f for f in made if not re.search(rf"\b{f[0]}\.{f[1]}\(", text)] == []


# ---------------------------------------------------------------- what takes two modules


def modules(**texts: str):
    return lambda path: Source(f"{path}.nap", texts[path]) if path in texts else None


def test_a_cycle_of_imports_names_the_modules() -> None:
    read = modules(a="import b\n", b="import a\n")
    (wrong,) = front("import a\n", read)
    assert (wrong.code, wrong.message) == ("N0204", "module `a` imports itself: a -> b -> a")
    assert wrong.labels[0].span.source.name == "b.nap"


def test_a_mistake_in_an_imported_module_is_told_once_and_there() -> None:
    read = modules(a="def f(x: Float) -> Float = y\n")
    (wrong,) = front("import a\n\ndef g(x: Float) -> Float = a.f(x)\n", read)
    assert (wrong.code, wrong.labels[0].span.place) == ("N0201", "a.nap:1:28")


# ---------------------------------------------------------------- helps can be pasted


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(a: n=>n=>Float, v: n=>Float) = a + v", "def f(a: n=>n=>Float, v: n=>Float) = {}"),
        ("def f(x: n=>Float, y: m=>Float) = x + y", "def f(x: n=>Float, y: m=>Float) = {}"),
        ("def f(a: n=>m=>Float, b: p=>m=>Float) = a @ b",
         "def f(a: n=>m=>Float, b: p=>m=>Float) = {}"),
        ("def f(x: n=>m=>Float) = x.T", "def f(x: n=>m=>Float) = {}"),
        ("def f(x: (n, m)=>Float) = [x[i, j] for i in n, j in m]",
         "def f(x: (n, m)=>Float) = [{} for i in n, j in m]"),
        ("def f(x: Fin(n)=>Float) where n >= 1 = x[-1]",
         "def f(x: Fin(n)=>Float) where n >= 1 = {}"),
        ("def f(x: n=>Float) = [x[i / 2] for i in n]", "def f(x: n=>Float) = [x[{}] for i in n]"),
        ("def f(x: n=>Float) -> n=>Float = [x[i + 1] for i]",
         "def f(x: n=>Float) -> n=>Float = [x[{}] for i]"),
    ],
)  # fmt: skip
def test_what_a_help_quotes_compiles(before: str, after: str) -> None:
    (wrong,) = front(before)
    quoted = [q for text in wrong.helps for q in text.split("`")[1::2]]
    assert quoted
    for q in quoted:
        if "default" not in q and "…" not in q and q != "if":
            assert front(after.format(q)) == (), (q, [render(d) for d in front(after.format(q))])


# ---------------------------------------------------------------- bounded time and size


def test_a_name_of_a_million_letters_makes_a_short_message() -> None:
    (wrong,) = front("def f(x: Float) -> Float = " + "y" * 1_000_000)
    assert len(render(wrong)) < 2000


def test_ten_thousand_definitions_and_long_functions_are_walked() -> None:
    assert front("".join(f"def f{k}(x: Float) -> Float = x + {k}.0\n" for k in range(10_000))) == ()
    lines = "".join(f"    a{k + 1} = a{k} * 0.5 + exp(x)\n" for k in range(2000))
    assert front(f"def f(x: n=>Float) -> n=>Float:\n    a0 = x\n{lines}    a2000\n") == ()
    assert front("def f() = [" + "1.0, " * 5000 + "1.0]") == ()


def test_depth_is_bounded_by_a_message_not_by_the_stack() -> None:
    assert front("def f(x: Float) -> Float = " + "exp(" * 190 + "x" + ")" * 190) == ()
    (wrong,) = front("def f(x: Float) -> Float = " + "(" * 5000 + "x" + ")" * 5000)[:1]
    assert wrong.code == "N0126"


@pytest.mark.parametrize("module", list(library_names._HELD))
def test_what_a_module_is_said_to_have_it_has(module: str) -> None:
    text = (Path(library_names.__file__).parents[2] / "library" / f"{module}.nap").read_text()
    assert set(library_names._HELD[module].split()) <= set(re.findall(r"^def (\w+)", text, re.M))
