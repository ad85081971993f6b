"""A derivative printed in the language parses, type checks and computes the same values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import naperian as nap
from naperian import draws, pipeline
from naperian.ainf import run as ainf_run
from naperian.ainf.words import NotWrittenError
from naperian.border import usual
from naperian.signature import at, size_variables
from naperian.source import Source

PAGES = Path(__file__).parent / "pages"
KINDS = ("grad", "jacobian")


def derivatives(names: tuple[str, ...] | None) -> Iterator[nap.Function]:
    """One derivative of every definition on the pages (or of those named) that has any."""
    pages = ("derivatives.md",) if names else ("derivatives.md", "solved.md", "taken_apart.md")
    text = "".join((PAGES / page).read_text() for page in pages)
    for block in re.findall(r"```nap\n(.*?)```", text, re.DOTALL):
        module = nap.compile(block)
        for name in module.names if names is None else {*names} & {*module.names}:
            for kind in KINDS:
                try:
                    yield getattr(nap, kind)(module[name])
                except TypeError:
                    continue
                break


def run(module, name: str, dtypes, sizes: dict[str, int], leaves) -> list[np.ndarray]:
    """The leaves of a definition's value, by the interpreter of AiNF."""
    flat = pipeline.flat(
        pipeline.specialise(module, name, at(module.definitions[name], dtypes))
    )
    given = [x if x.ndim else x.item() for x in leaves]
    return ainf_run.run(flat, [sizes[v.name] for v in flat.sizes], given)


SOME = ("mean_square", "by_loop", "until", "gathered", "products", "mixed", "smoothed", "conv")


def test_written_derivatives() -> None:
    assert same(SOME) >= len(SOME)


@pytest.mark.long
def test_all_written_derivatives() -> None:
    assert same() > 40


def same(names: tuple[str, ...] | None = None) -> int:
    """Print, parse and run derivatives; how many draws of arguments were compared."""
    done = 0
    for f in derivatives(names):
        try:
            text = f.show("surface")
        except NotWrittenError:  # a `while` for every element; `test_not_written` says so
            assert names is None
            continue
        written, wrong = pipeline.front(Source("written.nap", text))
        assert written is not None, f"{wrong}\n{text}"
        module, sig = f._program.core(), f._text
        slotted = [v.name for v in size_variables(module.definitions[f.__name__])]
        rng = np.random.default_rng(0)
        for slots in draws.sizes(sig, rng, 2):
            given = draws.draw(sig, slots, rng, "normal")
            if given is None:
                continue
            sizes = dict(zip(slotted, slots, strict=True))
            own = written.public[-1]
            types = (usual(sig)[0],) * len(written.definitions[own].types)
            want = run(module, f.__name__, usual(sig), sizes, given.leaves)
            got = run(written, own, types, sizes, given.leaves)
            for x, y in zip(want, got, strict=True):
                np.testing.assert_allclose(x, y, 1e-9, 1e-9, err_msg=text)
            done += 1
    return done


def test_not_written() -> None:
    m = nap.compile("""
def until(x: Float) -> Float:
    loop y = x while y < 10.0:
        y * y

def all_of(x: n=>Float) -> Float = sum(until(x[i]) for i)
""")
    assert "loop y = x" in nap.grad(m.until).show("surface")
    with pytest.raises(NotImplementedError, match="while loop for every element"):
        nap.grad(m.all_of).show("surface")


PROGRAMS = {
    "products of rows of unequal length": (
        "def f(x: Fin(n)=>Float) -> Float = sum(prod(x[j] for j in ..=i) for i in Fin(n))",
        [np.array([1.5, -2.0, 3.0])],
    ),
    "sorting": (
        "def f(x: Fin(n)=>Float) -> Float = sum((1.0 + i) * v for (i, v) in numbered(sort(x)))\n\n"
        "def numbered(x: Fin(n)=>Float) -> Fin(n)=>(Float, Float) = [(Float(i), x[i]) for i]",
        [np.array([1.5, -2.0, 3.0])],
    ),
    "carried numbers change places": (
        """
def f(a: Float, b: Float) -> Float:
    (x, y) = loop x = a, y = b for t in Fin(5):
        (y, x * 1.1)
    x * y * y
""",
        [2.0, 3.0],
    ),
    "a scan in a loop": (
        """
def f(x: Fin(n)=>Float, k: Int) -> Float:
    loop y = 1.0 for t in Fin(k):
        zs = scan(lambda a, b: sin(a) * b + y, 0.5, x)
        sum(cos(z) * y for z in zs) / 10.0
""",
        [np.array([1.0, 0.2, 0.7]), 3],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_written_loops(name: str) -> None:
    """The text, compiled, gives what the derivative gives."""
    text, args = PROGRAMS[name]
    slope = nap.grad(nap.compile(text).f)
    written = nap.compile(slope.show("surface"))
    np.testing.assert_allclose(written.grad_f(*args), slope(*args), 1e-12)
