"""What `explain` prints parses, compiles to the same program, and has no lift left."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import naperian as nap
from naperian import pages, pipeline
from naperian.ainf import syntax as ainf
from naperian.ainf.show import show as show_flat
from naperian.core import syntax as core
from naperian.names import Var
from naperian.signed import signature
from naperian.sizes import rename, size
from naperian.source import Source, render
from naperian.substitution import Substitution
from naperian.surface import syntax as s
from naperian.surface.parse import parse
from naperian.surface.show import show
from naperian.types import (
    F64,
    Function,
    Reference,
    Table,
    Tuple,
    Type,
)

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").rglob("*.md"))
PAGES = sorted([*(ROOT / "tests" / "pages").glob("*.md"), *(ROOT / "docs").glob("*.md")])
PAGES += [pytest.param(p, marks=pytest.mark.long) for p in EXAMPLES]  # type: ignore[list-item]


def programs(page: str) -> list[str]:
    """The compiling programs of a page."""
    seen = dict.fromkeys(c.program for c in pages.claims(page) if c.program)
    return [p for p in seen if pipeline.front(Source("page.nap", p))[0] is not None]


def same(text: str, other: str, name: str) -> bool:
    """Whether a definition means the same in two programs: their flat programs differ in names
    alone, or the flat program of both of them has each result twice, once common subexpressions
    are shared (which recurrences are not)."""
    one, two = module_of(text), module_of(other)
    if canonical(one, name) == canonical(two, name):
        return True
    a, b = one.definitions[name], two.definitions[name]
    at = pipeline.instance(a, Substitution({p.var: F64 for p in a.types}, {}, {}))
    x = pipeline.specialise(one, name, at)
    types = {p.var: F64 for p in b.types}
    sets = {w: at.sets[v] for v, w in zip(a.sets, b.sets, strict=True)}
    sizes = {w: at.sizes[v] for v, w in zip(a.sizes, b.sizes, strict=True)}
    y = pipeline.specialise(two, name, Substitution(types, sets, sizes))
    again = y.body
    for p, q in zip(x.params, y.params, strict=True):
        again = core.Let(q.var, core.Ref(p.var), again)
    both = replace(x, result=Tuple((x.result, y.result)), body=core.Pack((x.body, again)))
    results = [(len(r.indices), point(r)) for r in pipeline.flat(both).results]
    half = len(results) // 2
    return results[:half] == results[half:]


def canonical(module: core.Module, name: str) -> list[int]:
    """The flat program of a definition without its names and its order: every line by what it
    says and what the lines are that it names (to a depth that tells programs on pages apart)."""
    types = {p.var: F64 for p in module.definitions[name].types}
    at = Substitution(types, {}, {})
    text = show_flat(pipeline.flat(pipeline.specialise(module, name, at)))
    shapes: list[str] = []
    mentions: list[list[str]] = []
    maker: dict[str, int] = {}
    for k, line in enumerate(text.splitlines()):
        own: dict[str, str] = {}
        mentions.append([])

        def number(m: re.Match[str], own: dict[str, str] = own, k: int = k) -> str:
            after = m.string[m.end() : m.end() + 3]
            if m[0] in own or after[:1] == "<":
                return own.setdefault(m[0], f"i{len(own)}")
            if after.startswith(" = ") and k:
                maker[m[0]] = k
            mentions[k].append(m[0])
            return "_"

        shapes.append(re.sub(r"\b[A-Za-z_]\w*\b(?!\()", number, line))
    colours = [hash(x) for x in shapes]
    for _ in range(12):
        colours = [
            hash((shapes[k], *(colours[maker[x]] if x in maker else x for x in mentions[k])))
            for k in range(len(shapes))
        ]
    return sorted(colours)


def point(r: ainf.Result) -> object:
    """The operand of a result, with its indices numbered."""
    number = {i: size(Var(f"i{k}")) for k, i in enumerate(r.indices)}
    match r.value:
        case ainf.Read(v, at):
            return v.name, v, [repr(rename(e, number)) for e in at]
        case ainf.Number(value):
            return repr(rename(value, number))
        case literal:
            return repr(literal)


def module_of(text: str) -> core.Module:
    module, wrong = pipeline.front(Source("page.nap", text))
    assert module is not None, "\n".join(render(d) for d in wrong) + "\n" + text
    return module


def written_out(text: str, name: str) -> tuple[str, str]:
    """The definition written out, and the program with it in the definition's place."""
    shown = nap.compile(text)[name].explain()
    tree, _ = parse(Source("page.nap", text))
    alone, wrong = parse(Source("explained.nap", shown + "\n"))
    assert not wrong, "\n".join(render(d) for d in wrong) + shown
    (new,) = alone.decls
    decls = tuple(new if _name(x) == name else x for x in tree.decls)
    return shown, show(replace(tree, decls=decls))


def _name(decl: s.Decl) -> str | None:
    if isinstance(decl, s.Bind) and isinstance(decl.pattern, s.PName):
        return decl.pattern.name
    return decl.name if isinstance(decl, s.Def) else None


def is_data(t: Type) -> bool:
    match t:
        case Function() | Reference():
            return False
        case Tuple(items):
            return all(map(is_data, items))
        case Table(_, cell):
            return is_data(cell)
        case _:
            return True


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_what_explain_prints_is_the_same_program(path: Path) -> None:
    for text in programs(path.read_text(encoding="utf-8")):
        module, _ = pipeline.front(Source("page.nap", text))
        assert module is not None
        tree, _ = parse(Source("page.nap", text))
        for name in filter(None, map(_name, tree.decls)):
            d = module.definitions[name]
            if not d.lifts:  # what is printed is what stands there
                continue
            shown, whole = written_out(text, name)
            data = all(is_data(x) for x in (d.result, *(p.type for p in d.params)))
            if data and not d.wanted and not signature(d, module.instances).refusal:
                assert same(text, whole, name), shown
            again = pipeline.front(Source("page.nap", whole))[0]
            assert again is not None
            left = again.definitions[name].lifts
            assert all(isinstance(x.result, Tuple) or _is_ranked(x) for x in left), shown


def _is_ranked(lift: core.Lift) -> bool:
    """Whether it is of `f~1` as a value, which says itself what it does."""
    return "~" in lift.span.text


LIFTS = """
def twice(f: a -> a, x: a) -> a = f(f(x))

def roots(x: n=>Float) = twice(sqrt, x)

def affine(x: m=>n=>Float, a: Float, b: m=>Float) = a * x + b

def between(x: n=>Float) -> n=>Bool = 0.0 <= x < 1.0

def largest(x: n=>Float, y: n=>Float) = max(x, y, 0.0)

def rows(a: n=>m=>Float) = sum(a[i] for i)

def table(x: n=>Int, y: m=>Int) = (+)~(0, 1)(x, y)

def picked(i: n=>Float, j: n=>Float) = i if i < j else -j.abs()

def nested(x: n=>m=>Float) = mean(exp(x) * 2.0)
"""


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("roots", "twice(lambda i: [sqrt(i[j]) for j in n], x)"),
        ("affine", "[a * x[i, j] + b[i] for i in m, j in n]"),
        ("between", "[0.0 <= x[i] < 1.0 for i in n]"),
        ("largest", "[max(max(x[i], y[i]), 0.0) for i in n]"),
        ("rows", "[sum(a[i, j] for i) for j in m]"),
        ("table", "[x[i] + y[j] for i in n, j in m]"),
        ("picked", "[i[k] if i[k] < j[k] else -j[k].abs() for k in n]"),
        ("nested", "[mean([exp(x[i, j]) * 2.0 for j in m]) for i in n]"),
    ],
)
def test_a_lift_is_a_comprehension(name: str, body: str) -> None:
    shown, whole = written_out(LIFTS, name)
    assert body in " ".join(shown.split())
    assert same(LIFTS, whole, name)


def test_a_size_that_is_read_is_said_as_it_is_written() -> None:
    m = nap.compile("""
def f(ends: Fin(n + 1)=>Fin(e + 1), x: Fin(e)=>Float) -> Float =
    sum(prod(sin(v) for v in x[ends[i]..ends[i + 1]]) for i in Fin(n))
""")
    text = nap.grad(m.f, "x").show("loops")
    assert "stored in 8 * ends[i + 1] - 8 * ends[i] bytes" in text
    assert "Load(" not in text


def test_a_derivative_is_told_by_its_type() -> None:
    f = nap.compile("def loss(w: n=>Float, b: Float) -> Float = b * sum(w ** 2)").loss
    assert nap.grad(f).explain() == "grad(loss) : (n=>Float, Float) -> n=>Float"
