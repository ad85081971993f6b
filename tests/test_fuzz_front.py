"""Whatever text comes in, the front end answers with a module or with diagnostics.

Three sources of text: bytes, soups of the language's own tokens, and programs of the documentation
with tokens deleted, doubled, swapped, replaced and spliced between programs. Every answer is
either core that passes the core's check, or diagnostics whose labels lie in the text and render.
Nothing is raised: an exception here is a traceback in a user's terminal.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from naperian import pipeline
from naperian.core import syntax as core
from naperian.source import Diagnostic, Source, Span, render
from naperian.surface import syntax as surface
from naperian.surface.parse import parse

ROOT = Path(__file__).parent.parent
TOKEN = re.compile(
    r'"[^"\n]*"|#[^\n]*|[A-Za-z_]\w*|\d+(?:\.\d+)?|=>|->|\.\.=|\.\.|[<>=!]=|\*\*|//|\n *| +|.'
)
FENCE = re.compile(r"^```nap[^\n]*\n(.*?)^```", re.M | re.S)


def words(text: str) -> list[str]:
    return text.split()


WORDS = [
    *words("""
        def if else elif for in loop while match case lambda as assert with enum import from
        return and or not where exists True False Float Int F32 I8 U8 U64 Bool Fin sum max min
        scan reduce fold size clamp wrap reverse transpose argmax concat take matmul softmax e pi
        x y z n m k i j f g _ R x[i] 99999999999999999999 "why" => -> .. ..= == != <= >= < > = + -
        * / // % ** @ & | ^ ~ ( ) [ ] , : . ? 0 1 2 3 1.5 -1
    """),
    "\n", "\n    ", "\n        ", "[x[i] for i]",
]


def programs() -> list[str]:
    """Every program of the documentation, the tests' pages, the library and the examples."""
    folders = (ROOT / "docs", ROOT / "tests" / "pages", ROOT / "examples")
    pages = sorted(p for folder in folders for p in folder.rglob("*.md"))
    texts = [m for p in pages for m in FENCE.findall(p.read_text(encoding="utf-8"))]
    for p in sorted([*(ROOT / "examples").rglob("*.nap"), *(ROOT / "src").rglob("*.nap")]):
        texts += re.split(r"\n\n(?=def |enum |#)", p.read_text(encoding="utf-8"))
    return [t for t in texts if len(t) < 4000]


PROGRAMS = programs()
TOKENS = [TOKEN.findall(t) for t in PROGRAMS]
NAME = re.compile(r"[A-Za-z_]\w*")
NUMBER = re.compile(r"\d[\d.]*")
NAMES = sorted({t for ts in TOKENS for t in ts if NAME.fullmatch(t)})
OPERATORS = words("+ - * / // % ** @ & | ^ << >> == != < <= > >= and or")
NUMBERS = words("0 1 2 3 7 0.5 1.0 -1 256 99999999999999999999 9223372036854775807 1e400")
FUNCTIONS = words("""
    sum max min all any mean argmin argmax exp abs (+) transpose reverse cumsum softmax size clamp
    reduce scan fold take concat rotate dot outer matmul eye zeros full linspace first last True pi
""")
TYPES = (
    "Float", "Int", "Bool", "n", "m", "a", "Fin(3)", "Fin(n)", "Fin(n + 1)", "(n, m)", "n=>Float",
    "Fin(n)=>Int", "U8", "F32", "(Int, n)", "(Float, Float)", "Float -> Float", "n -> m", "0..n",
    "1..n", "reverse(n)", "Channel", "()", "k", "(n=>Float) -> Float",
)


EXPRESSION = tuple(getattr(surface, n) for n in surface.Expr.split(" | "))
Place = tuple[int, int]


def expressions(text: str) -> tuple[list[Place], list[Place]]:
    """Where the expressions of a program stand, and where its types, those on one line."""
    with pipeline.deep():
        tree, _ = parse(Source("fuzz.nap", text))
    found: tuple[list[Place], list[Place]] = [], []
    todo: list[tuple[object, bool]] = [(tree, False)]
    while todo:
        x, is_type = todo.pop()
        if isinstance(x, tuple):
            todo += [(y, is_type) for y in x]
        elif is_dataclass(x) and not isinstance(x, Span):
            for f in fields(x):
                todo.append((getattr(x, f.name), is_type or f.name in ("type", "result")))
            if isinstance(x, EXPRESSION) and 0 < x.span.end - x.span.start < 80:
                if "\n" not in x.span.text:
                    found[is_type].append((x.span.start, x.span.end))
    return found


PLACES = [expressions(t) for t in PROGRAMS]
ATOM = re.compile(r"[\w.]+|[A-Za-z_]\w*[(\[][^()\[\]]*[)\]]|\[[^\[\]]*\]")


def noise(r: random.Random) -> str:
    return bytes(r.randrange(256) for _ in range(r.randrange(60))).decode("latin-1")


def soup(r: random.Random) -> str:
    head = r.choice(["", "def f(x: n=>Float) = ", "def f(x: n=>m=>Float, k: Int):\n    ", "a = "])
    return head + " ".join(r.choice(WORDS) for _ in range(r.randrange(1, 20)))


def grafted(r: random.Random) -> str:
    """A program with some of its expressions and types exchanged for others."""
    at = r.randrange(len(PROGRAMS))
    text = PROGRAMS[at]
    for _ in range(r.choice((1, 1, 1, 2, 3))):
        is_type = r.random() < 0.25
        places = PLACES[at][is_type]
        if not places:
            continue
        start, end = r.choice(places)
        if text[start:end] != PROGRAMS[at][start:end]:
            continue  # an earlier graft moved it
        kind = r.random()
        if kind < 0.2:
            choices = TYPES if is_type or kind < 0.01 else NUMBERS if kind < 0.1 else FUNCTIONS
            new = r.choice(choices)
        else:
            source = at if kind < 0.75 else r.randrange(len(PROGRAMS))
            a, b = r.choice(PLACES[source][is_type ^ (kind < 0.22)] or [(0, 0)])
            new = PROGRAMS[source][a:b]
        text = text[:start] + (new if ATOM.fullmatch(new) else f"({new})") + text[end:]
    return text


def mutant(r: random.Random) -> str:
    tokens = list(r.choice(TOKENS))
    for _ in range(r.choice((1, 1, 1, 2, 2, 3, 5))):
        _mutate(r, tokens)
    return "".join(tokens)


def _mutate(r: random.Random, tokens: list[str]) -> None:
    """One edit; most keep the text a sentence of the grammar, for those reach furthest."""
    solid = [k for k, t in enumerate(tokens) if not t.isspace() and t[0] != "#"]
    if not solid:
        return
    k, j = r.choice(solid), r.choice(solid)
    match r.randrange(14):
        case 0:
            del tokens[k]
        case 1:
            tokens.insert(k, f" {tokens[j]} ")
        case 2:
            tokens[k], tokens[j] = tokens[j], tokens[k]
        case 3:
            tokens[k] = f" {r.choice(WORDS)} "
        case 4 | 5 | 6:
            _replace(r, tokens, solid, NAME.fullmatch, NAMES)
        case 7:
            _replace(r, tokens, solid, OPERATORS.__contains__, OPERATORS)
        case 8:
            _replace(r, tokens, solid, NUMBER.fullmatch, NUMBERS)
        case 9:
            _replace(r, tokens, solid, TYPES.__contains__, TYPES)
        case 10:
            between = r.choice(("+", "*", "@", "==", "and", "as", "if", ","))
            tokens[k:k] = [*_piece(r, r.choice(TOKENS)), f" {between} "]
        case _:
            first, last = _bracketed(r, tokens, solid)
            other = tokens if r.random() < 0.4 else r.choice(TOKENS)
            tokens[first:last] = [" ", *_piece(r, other), " "]


def _replace(
    r: random.Random, tokens: list[str], solid: list[int], fits: Callable[[str], object],
    anything: Sequence[str],
) -> None:
    """A token of a kind by another of the kind, more often than not one of the same program."""
    places = [k for k in solid if fits(tokens[k])]
    if places:
        here = [tokens[k] for k in places]
        tokens[r.choice(places)] = r.choice(here if r.random() < 0.6 else anything)


def _bracketed(r: random.Random, tokens: list[str], solid: list[int]) -> tuple[int, int]:
    """The extent of a token, with everything up to its closing bracket if it opens one."""
    k = r.choice(solid)
    depth, j = 0, k
    called = NAME.fullmatch(tokens[k]) and k + 1 < len(tokens) and tokens[k + 1] in "(["
    if called and r.random() < 0.5:
        j += 1
    while j < len(tokens):
        depth += (tokens[j] in "([") - (tokens[j] in ")]")
        j += 1
        if depth <= 0:
            break
    return k, j


def _piece(r: random.Random, tokens: list[str]) -> list[str]:
    solid = [k for k, t in enumerate(tokens) if t.strip() and t[0] != "#"]
    if not solid:
        return []
    first, last = _bracketed(r, tokens, solid)
    return tokens[first:last]


INTERNAL = re.compile(r"\b(Scalar|TypeVar|SetVar|Size|Var|Index|Table)\(|\bNone\b")


def answer(text: str) -> core.Module | None:
    """The module made of a text, or None with diagnostics that are fit to be shown."""
    source = Source("fuzz.nap", text)
    module, wrong = pipeline.front(source)
    assert (module is None) == bool(wrong)
    for d in wrong:
        fit(d, source)
    return module


def fit(d: Diagnostic, source: Source) -> None:
    assert d.labels, d
    for label in d.labels:
        there = label.span.source
        assert there is source or there.name.startswith("<"), d  # or a module that comes with us
        assert 0 <= label.span.start <= label.span.end <= len(there.text), d
    shown = render(d)
    assert d.message in shown, d
    inner = INTERNAL.search(d.message)
    assert inner is None or inner[0] in source.text, d


def inputs(r: random.Random, count: int) -> Iterator[str]:
    for _ in range(count):
        kind = r.random()
        make = noise if kind < 0.02 else soup if kind < 0.08 else mutant if kind < 0.3 else grafted
        yield make(r)


def crashes(seed: int, count: int) -> list[str]:
    """Texts that raised, one per kind of exception and place."""
    seen: Counter[str] = Counter()
    found = []
    for text in inputs(random.Random(seed), count):
        try:
            answer(text)
        except Exception as e:
            key = _place(e)
            seen[key] += 1
            if seen[key] == 1:
                found.append(f"{key}\n{text}")
    return [f"{seen[f.splitlines()[0]]}x {f}" for f in found]


def _place(e: BaseException) -> str:
    at = e.__traceback__
    assert at is not None
    while at.tb_next is not None:
        at = at.tb_next
    where = Path(at.tb_frame.f_code.co_filename).name
    return f"{type(e).__name__} at {where}:{at.tb_lineno}: {str(e)[:160]!r}"


FOUND = (
    "def f(x: n=>Float) -> n=>Float = [[](i) for i]\n",
    "struct P:\n    x: Float\n    y: Float = -inf\n\ndef f(d: Float) -> P = P(d)\n",
    "def f() -> Maybe(Float):\n    with except:\n        sum(sqrt(v) for v in throw())\n",
    """def f(x: Fin(n)=>Fin(10)) -> Fin(n)=>Float:
    y = [v for v in x if v > 0]
    k = size(y)
    assert k == n
    y
""",
    "def f() -> exists k. Fin(k)=>Fin(k)=>Float:\n    [i for i, j]\n",
    "def f(x: Fin(n)=>n=>Float, l: Float) -> Fin(n)=>Fin(n)=>Float = x + l * eye(n)\n",
    "enum Day = Mo | Tu | We\n\n"
    "def left_to_do(x: Day=>(Day=>Float)) = [sum(x[c] for d in c..) for c]\n",
    """def butterflies(x: Fin(n)=>Float, m: Int) -> Fin(n)=>Float:
    l = n // (2 * m)
    assert 2 == l * m == n and m >= 1
    y = x as Fin(2)=>Fin(l)=>Fin(m)=>Float
    y as Fin(n)=>Float
""",
    "def order_digit(code: Int, d: Int) -> Fin(256) = (-1)\n",
    """def in_rows(x: Fin(n)=>Float, k: Int, m: Int) -> Fin(k)=>Float:
    assert 2 * k * m == (-1), "k rows of m"
    sum(x as Fin(k)=>Fin(m)=>Float)
""",
    """enum Parity = Even | Odd

instance Num(Parity):
    def (+)(x, y) = Even if x == y else Odd
    def (-)(x, y) = x + y
    def (*)(x, y) = Odd if x == Odd and (-1) == Odd else Even
    def number(x) = Odd if x % 2.0 == 1.0 else Even
""",
    "def f(x: Fin(n)=>Float) =\n"
    "    [x[i] * ([[[x[k] for k in ..=j] for j in ..=i] for i in Fin(n)], x) for i in Fin(n)]\n",
    "enum Shape = Dot | Disc(r: Float)\n\ninstance Eq(x)\ninstance Ord(Shape)\n",
)
"""Texts that longer runs found."""


@pytest.mark.parametrize("text", FOUND)
def test_a_text_that_was_found_is_answered(text: str) -> None:
    answer(text)


def test_any_text_is_answered() -> None:
    wrong = crashes(seed=1, count=1500)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.long
def test_a_hundred_thousand_texts_are_answered() -> None:
    start = int(os.environ.get("NAPERIAN_FUZZ_SEED", "2"))
    wrong = crashes(seed=start, count=100_000)
    assert not wrong, "\n\n".join(wrong)
