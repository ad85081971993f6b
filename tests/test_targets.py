"""Old processors give right results: whole programs, compiled for AVX2 and for SSE2 alone. For
those that none of these can be (NEON) there is code, with vectors."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from naperian import pipeline
from naperian.backends.emit import emit
from naperian.backends.llvm import assembly
from naperian.backends.products.contract import contract_module
from naperian.backends.target import Target
from naperian.dtypes import DType
from naperian.source import Source
from naperian.substitution import Substitution
from naperian.types import F64

PROGRAM = '''
import re
import numpy as np
import naperian as nap

m = nap.compile("""
def affine(x: n=>Float) = [exp(x[i]) * 2.0 + 1.0 for i]
def total(x: n=>Float) = sum(x)
def product(a: n=>m=>Float, b: m=>p=>Float) = a @ b
def counts(k: n=>bins) -> bins=>Int:
    with accum() as h:
        for i: h[k[i]] += 1
def sines(x: n=>Float) = sin(x)
def ascending(x: Fin(n)=>Float) = sort(x)
def places(x: Fin(n)=>Float) = argsort(x)
def mixed(low: k=>(a: Fin(d))=>(..a)=>Float, x: n=>Fin(d)=>Float) -> Float:
    sum(sum((x[i, a] + sum(low[j, a, b] * x[i, b] for b)) ** 2 for j, a) for i)
def slopes(low: k=>(a: Fin(d))=>(..a)=>Float, x: n=>Fin(d)=>Float):
    grad(mixed, wrt="low")(low, x)
""")
rng = np.random.default_rng(0)
for dtype, close in ((np.float64, 1e-12), (np.float32, 2e-4)):
    x = rng.normal(size=1001).astype(dtype)
    a, b = rng.normal(size=(201, 157)).astype(dtype), rng.normal(size=(157, 99)).astype(dtype)
    assert np.allclose(m.affine(x), np.exp(x) * 2 + 1, rtol=close)
    assert np.allclose(m.total(x), x.sum(), rtol=close, atol=close)
    assert np.allclose(m.product(a, b), a @ b, rtol=close, atol=close)
    assert np.array_equal(m.ascending(x), np.sort(x))
    assert np.array_equal(m.places(x), np.argsort(x, kind="stable"))
    assert np.allclose(m.sines(x * 1e6), np.sin(x * dtype(1e6)), atol=close)
    y = rng.integers(-3, 4, (77, 7)).astype(dtype)
    triangles = m.slopes(np.zeros((2, 21), dtype), y)
    want = np.concatenate([(2 * y.T @ y)[a, :a] for a in range(7)])
    assert np.array_equal(getattr(triangles, "values", triangles), [want, want])
k = rng.integers(0, 7, 10_000)
assert np.array_equal(m.counts(k, bins=7), np.bincount(k))
print(re.search(r"prefer-vector-width.=.(\\d+)", m.affine.show("llvm"))[1])
'''


@pytest.mark.parametrize(("level", "bits"), [("avx2", "256"), ("baseline", "128")])
def test_old_processors(level: str, bits: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | {"NAPERIAN_TARGET": level},
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == (bits, "")


def test_what_is_far_is_fetched() -> None:
    """Where the third-level cache is far: the keys of counts, and the rows of sparse matrices."""
    text = """
def counts(k: n=>bins, like: bins=>Float) -> bins=>Int = [sum(1 if k[i] == b else 0 for i) for b]
def product(
    rows: Fin(n + 1)=>Fin(z + 1), cols: Fin(z)=>m, vals: Fin(z)=>Float, x: m=>Float
) -> Fin(n)=>Float = [sum(vals[e] * x[cols[e]] for e in rows[i]..rows[i + 1]) for i in Fin(n)]
def plain(x: n=>Float) = [exp(x[i]) for i]
"""
    module, wrong = pipeline.front(Source("<text>", text))
    assert module is not None, wrong
    for name, fetches in (("counts", True), ("product", True), ("plain", False)):
        kinds = {t.var: F64 for t in module.definitions[name].types}
        program = pipeline.lower(module, name, Substitution(kinds, {}, {}))
        for cpu, far in (("sapphirerapids", True), ("znver4", False)):
            machine = Target("x86_64-unknown-linux-gnu", cpu, "+avx512f", 64, 32)
            listing = assembly(emit(program, machine), machine)
            assert ("prefetch" in listing) == (far and fetches)


def test_an_unknown_target_says_what_there_is() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | {"NAPERIAN_TARGET": "sse9"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode
    last = done.stderr.strip().splitlines()[-1]
    assert last == "ValueError: NAPERIAN_TARGET is native, avx2 or baseline, not 'sse9'"


NEON = Target("aarch64-unknown-linux-gnu", "generic", "", 16, 32)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
def test_the_tile_of_a_product_stays_in_the_registers_of_neon(dtype: DType) -> None:
    """8 rows of 3 vectors, and in the loop over them nothing but a row of B and elements of A."""
    text = assembly(contract_module(dtype, NEON), NEON)
    tile = text[text.index("\ntile:") :]
    (loop,) = re.findall(r"\n\.\w+:((?:(?!\n\.\w+:)[\s\S])*?fmla[\s\S]*?)\n\tb\.", tile)[:1]
    assert len(re.findall(r"\tfmla\tv", loop)) == 24
    assert not re.findall(r"\tst|\[sp", loop)


@pytest.mark.parametrize("text", [
    "def f(x: n=>Float) = [exp(x[i]) * 2.0 + 1.0 for i]",
    "def f(x: n=>Float) = sum(x)",
    "def f(x: n=>m=>Float) = [max(x[i, j] for j) for i]",
    "def f(x: n=>Float) = grad(lambda y: sum(y ** 3))(x)",
])  # fmt: skip
def test_loops_become_vectors_of_neon(text: str) -> None:
    module, _ = pipeline.front(Source("<text>", text))
    assert module is not None
    d = module.definitions["f"]
    program = pipeline.lower(module, "f", Substitution({p.var: F64 for p in d.types}, {}, {}))
    assert len(re.findall(r"\tf\w+\tv\d+\.2d", assembly(emit(program, NEON), NEON))) >= 2
