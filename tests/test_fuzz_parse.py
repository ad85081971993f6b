"""Whatever the text, parsing gives a tree and messages: it raises nothing, every span lies in the
text, and every message can be printed. A few seconds in the gate, 100 000 texts in the long run."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable

import pytest
from test_parse import EVERYTHING, PROGRAMS
from trees import bare, nodes

from naperian.source import Source, Span, render
from naperian.surface.lex import KEYWORDS, lex
from naperian.surface.parse import parse, parse_entry
from naperian.surface.show import show

_TEXTS = [EVERYTHING, *(p.read_text() for p in PROGRAMS)]
_WORDS = [
    *sorted(KEYWORDS),
    *re.findall(
        r"\S+",
        """a b x Fin all by return print _ 0 1 2.5 .5 1. 1__0 0xg 1e999 ( ) [ ] { } , : . ? .. ..=
        => -> ** // + - * / % @ & | ^ ~ < > = == <= != := += -= && || "s" " ' f"{a}" f"{ # $ “ é""",
    ),
    *('"""', "\\", "\0", "\ud800", "\t", "\r", "\r\n", " "),
    *("\n", "\n", "\n  ", "\n    ", "\n        "),
]


def noise(r: random.Random) -> str:
    """Random bytes, read as Latin-1."""
    return r.randbytes(r.randrange(80)).decode("latin-1")


def soup(r: random.Random) -> str:
    """Random tokens."""
    gap = r.choice(["", " "])
    return gap.join(r.choices(_WORDS, k=r.randrange(40)))


def mutated(r: random.Random) -> str:
    """A few lines of a program with some tokens lost, doubled, swapped or foreign."""
    lines = r.choice(_TEXTS).splitlines(keepends=True)
    start = r.randrange(len(lines))
    text = "".join(lines[start : start + r.randrange(1, 12)])
    tokens = lex(Source("fuzz.nap", text))
    pieces = []
    at = 0
    for start, end in zip(tokens.starts, tokens.ends, strict=True):
        if start >= at:
            pieces += [text[at:start], text[start:end]]
            at = end
    for _ in range(r.randrange(1, 4)):
        k = r.randrange(len(pieces))
        change = r.randrange(4)
        if change == 0:
            del pieces[k]
        elif change == 1:
            pieces.insert(k, pieces[r.randrange(len(pieces))])
        elif change == 2:
            pieces[k] = r.choice(_WORDS)
        else:
            other = r.randrange(len(pieces))
            pieces[k], pieces[other] = pieces[other], pieces[k]
        if not pieces:
            break
    return "".join(pieces)


def check(text: str) -> None:
    source = Source("fuzz.nap", text)
    module, wrong = parse(source)
    for d in wrong:
        render(d).encode()
        assert d.labels, d
        assert all(inside(x.span, text) for x in d.labels), d
    for node in nodes(module):
        assert inside(node.span, text), node
    if not wrong:
        assert bare(parse(Source("fuzz.nap", show(module)))[0]) == bare(module)
    parse_entry(source)


def inside(span: Span, text: str) -> bool:
    return 0 <= span.start <= span.end <= len(text)


def run(make: Callable[[random.Random], str], seeds: range) -> None:
    for seed in seeds:
        text = make(random.Random(seed))
        try:
            check(text)
        except Exception as e:
            raise AssertionError(f"{make.__name__}({seed}): {text!r}") from e


MAKERS = [noise, soup, mutated]


@pytest.mark.parametrize("make", MAKERS)
def test_a_thousand_texts(make: Callable[[random.Random], str]) -> None:
    run(make, range(1000))


@pytest.mark.long
@pytest.mark.parametrize("make", MAKERS)
def test_a_hundred_thousand_texts(make: Callable[[random.Random], str]) -> None:
    run(make, range(1000, 41_000))


@pytest.mark.parametrize(
    "text",
    [
        "(" * 20_000, ")" * 20_000, "[" * 10_000 + ")" * 10_000, "(\n" * 10_000,
        "f(\nx\n" * 2_000, "def f(\n" * 2_000, '"' * 20_000, 'f"{' * 5_000, "{" * 10_000,
        "- " * 10_000, "a." * 10_000, "a + " * 10_000, "a => " * 5_000, "not " * 5_000,
        "if a:\n" * 3_000, "\n" * 30_000, "#" * 30_000, " " * 30_000, "$" * 30_000,
        "x = 1\n" * 5_000, "1" * 30_000, "a, " * 10_000, "a if b else " * 3_000,
        "\n".join(" " * k for k in range(700)), "\n".join(" " * k + "a" for k in range(700)),
        "\n".join(" " * (k % 7) + "a" for k in range(3_000)), "'" * 10_000, "else:\n" * 3_000,
        "x = = 1\n" * 3_000, '"""' + "\\" * 30_000, "lambda " * 5_000, "return a\n" * 3_000,
        "case " * 5_000, "exists a. " * 3_000, "a ** " * 5_000, "[*" * 5_000, "..=" * 5_000,
    ],
    ids=lambda t: repr(t[:12]),
)  # fmt: skip
def test_time_is_bounded(text: str) -> None:
    begin = time.process_time()
    check(text)
    assert time.process_time() - begin < 3
