"""What `strict`, the default and `fast` promise: bits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np
import pytest
from kernels import call

import naperian as nap
from naperian import pipeline
from naperian.backends.target import host
from naperian.dtypes import DType
from naperian.signed import at
from naperian.source import Source

TEXT = """
@strict
def total(x: n=>Float) = sum(x)

@strict
def dot(x: n=>Float, y: n=>Float) = sum(x[i] * y[i] + 1.0 for i)

@strict
def matmul(a: n=>m=>Float, b: m=>p=>Float) = a @ b

@strict
def columns(x: n=>m=>Float) -> m=>Float = [sum(x[i, j] for i) for j]

@strict
def counts(keys: n=>bins, weights: n=>Float) -> bins=>Float:
    with accum() as h:
        for i: h[keys[i]] += weights[i]

@strict
def polynomial(x: n=>Float) = [((x[i] * 3.0 + 1.0) * x[i] - 2.0) * x[i] + 0.1 for i]

@strict
def product(x: n=>Float) = prod(1.0 + x[i] * 1e-9 for i)

def loose(x: n=>Float) = sum(x)

def uses(x: n=>Float) = total(x) / 2.0
"""
N = 100_003


@pytest.fixture
def threads() -> Iterator[Any]:
    before = nap.threads()
    yield nap.threads
    nap.threads(before)


def numbers(*shape: int) -> Any:
    """Of sizes for which every regrouping of a sum shows."""
    rng = np.random.default_rng(7)
    return rng.normal(size=shape) * 10.0 ** rng.integers(-6, 6, shape)


def added(x: Any) -> Any:
    """The sum along the first axis, one after the other."""
    return reduce(np.add, x, np.zeros(x.shape[1:]))


def cases() -> dict[str, tuple[tuple[Any, ...], Any]]:
    x, y, a, b = numbers(N), numbers(N)[::-1].copy(), numbers(300, 70), numbers(70, 40)
    keys = np.random.default_rng(1).integers(0, 50, N)
    counts = np.zeros(50)
    np.add.at(counts, keys, x)
    return {
        "total": ((x,), added(x)),
        "dot": ((x, y), added(x * y + 1.0)),
        "matmul": ((a, b), added(np.array([a[:, k, None] * b[k] for k in range(70)]))),
        "columns": ((a,), added(a)),
        "counts": ((keys, x), counts),
        "polynomial": ((x,), ((x * 3.0 + 1.0) * x - 2.0) * x + 0.1),
        "product": ((x,), reduce(np.multiply, 1.0 + x * 1e-9, np.float64(1.0))),
        "uses": ((x,), added(x) / 2.0),
    }


CASES = cases()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("n", [1, 2])
def test_strict_is_what_is_written(name: str, n: int, threads: Any) -> None:
    threads(n)
    args, want = CASES[name]
    more = {"bins": 50} if name == "counts" else {}
    got = nap.compile(TEXT)[name](*args, **more)
    assert np.array_equal(np.asarray(got), want)


@pytest.mark.parametrize("level", ["native", "avx2", "baseline"])
@pytest.mark.parametrize("name", CASES)
def test_strict_is_the_same_on_every_processor(name: str, level: str) -> None:
    module, _ = pipeline.front(Source("modes", TEXT))
    assert module is not None
    definition = module.definitions[name]
    program = pipeline.lower(module, name, at(definition, (DType.F64,) * len(definition.types)))
    args, want = CASES[name]
    sizes = [N, 50] if name == "counts" else None
    if sizes is not None and program.sizes[0].name != "n":
        sizes.reverse()
    assert np.array_equal(call(program, args, sizes, host(level)), want)


def test_the_default_does_not_depend_on_threads(threads: Any) -> None:
    m = nap.compile(TEXT)
    x = numbers(1_000_003)
    results = []
    for n in (1, 2, 3):
        threads(n)
        results.append(m.loose(x))
    assert len(set(results)) == 1


def test_flags_of_operations() -> None:
    """`strict` allows nothing, `fast` all but ignoring infinities and NaN."""
    text = "def f(x: n=>Float, y: Float) = [x[i] * y + 1.0 / y for i]"

    def flags(math: str) -> set[str]:
        ir = nap.compile(text, math=math)["f"].show("llvm")
        return set(re.findall(r"= f(?:mul|add|div) ([a-z ]*?) ?double", ir))

    assert flags("strict") == {""}
    assert flags("default") == {"contract"}
    assert flags("fast") == {"reassoc nsz arcp contract afn"}


def test_a_mark_goes_before_the_choice_of_the_caller() -> None:
    m = nap.compile(TEXT, math="fast")
    assert m.total.show("loops").startswith("strict def")
    assert m.loose.show("loops").startswith("fast def")
    assert m.uses.show("loops").startswith("strict def")


def test_derivatives_keep_the_mark() -> None:
    g = nap.grad(nap.compile(TEXT).dot)
    assert g.show("loops").startswith("strict def")
    assert np.array_equal(g(np.arange(3.0), np.ones(3)), np.ones(3))


@pytest.mark.parametrize("math", ["Fast", "", "exact"])
def test_wrong_math(math: str) -> None:
    with pytest.raises(ValueError, match="math is one of default, strict, fast"):
        nap.compile("def f(x) = x", math=math)


def test_sizes_that_are_known() -> None:
    m = nap.compile("def mm(a: n=>m=>Float, b: m=>p=>Float) = a @ b", sizes={"n": 2, "m": 3})
    assert m.mm.type.endswith("where n == 2, m == 3")
    assert "a: f64[2, 3]" in m.mm.show("loops")
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    for _ in range(2):  # the slow way in and the fast one
        assert np.array_equal(m.mm(a, b), a @ b)
        with pytest.raises(nap.ShapeError, match="needs n == 2, for which it was compiled, but n"):
            m.mm(np.ones((3, 3)), b)


def test_sizes_for_every_definition_that_has_them() -> None:
    m = nap.compile("def f(x: n=>Float) = sum(x)\ndef g(x: k=>Float) = sum(x)", sizes={"n": 4})
    assert m.f(np.ones(4)) == 4.0
    assert m.g(np.ones(7)) == 7.0


def test_sizes_that_are_numbers() -> None:
    text = """
def alloc(k: Int) -> Fin(k)=>Float = [Float(i) for i in Fin(k)]
def longer(k: Int) -> Float where k >= 0 = sum(alloc(k + 1))
def power(x: Float, k: Int) -> Float = x ** k
def scaled(s: Float, k: Int) -> Fin(k)=>Float = [s * Float(i) for i in Fin(k)]
"""
    for k in (0, 1, 3):
        m = nap.compile(text, sizes={"k": k})
        along = nap.jvp(m.scaled)
        for _ in range(2):  # the slow way in and the fast one
            assert np.array_equal(m.alloc(k), np.arange(k))
            assert m.longer(k) == k * (k + 1) / 2
            assert np.array_equal(along(2.0, k, 1.0)[1], np.arange(k))
            for f, args in ((m.alloc, ()), (m.longer, ()), (m.scaled, (1.0,))):
                with pytest.raises(nap.ShapeError, match=rf"needs k == {k}, for which .*k is 5"):
                    f(*args, 5)
            with pytest.raises(nap.ShapeError, match=rf"needs k == {k}, .*k is 5 from argument k"):
                along(2.0, 5, 1.0)
        assert m.power(2.0, 5) == 32.0  # no size


def test_wrong_sizes() -> None:
    text = "def f(x: n=>Float) = sum(x)"
    with pytest.raises(ValueError, match="no definition has a size or an index set 'm'"):
        nap.compile(text, sizes={"m": 4})
    with pytest.raises(TypeError, match="n is a size"):
        nap.compile(text, sizes={"n": 4.5})  # type: ignore[dict-item]
    with pytest.raises(nap.ShapeError, match="n is -1, which is no size"):
        nap.compile(text, sizes={"n": -1})
