"""Old processors give right results: whole programs, compiled for AVX2 and for SSE2 alone. For
those that none of these can be (NEON) there is code, with vectors."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from naperian import pipeline
from naperian.backends.emit import emit
from naperian.backends.functions import math
from naperian.backends.llvm import assembly, is_left
from naperian.backends.products.contract import contract_module
from naperian.backends.target import Target, host
from naperian.dtypes import DType
from naperian.loops.syntax import Loop, Order, When
from naperian.loops.walk import statements
from naperian.source import Source
from naperian.substitution import Substitution
from naperian.types import F64

LANES = """
def solved(x: r=>m=>n=>Float, y: r=>n=>m=>Float, k: Int) -> r=>m=>n=>Float:
    for q:
        loop v = [x[q, j] for j] for step in Fin(k):
            for j in m: scan(lambda s, i: (s + v[j, i]) / (2.0 + y[q, i, j]), 0.0, [i for i in n])
        v
def escapes(re: w=>Float, im: h=>Float, most: Int) -> h=>w=>Int:
    for y, x:
        loop zr = 0.0, zi = 0.0, k = 0 while zr * zr + zi * zi <= 4.0 and k < most:
            (zr * zr - zi * zi + re[x], 2.0 * zr * zi + im[y], k + 1)
        k
"""

ROWS = """
def sums(x: n=>m=>Float) -> n=>Float = [sum(x[i]) for i]
def softmax(x: n=>m=>Float) -> n=>m=>Float:
    for i:
        top = max(x[i])
        e = [exp(x[i, j] - top) for j]
        [e[j] / sum(e) for j]
def factors(x: n=>m=>Float) -> Float = prod(prod(x[i, j] for j) for i)
def apart(x: n=>m=>Float) -> n=>Float = [sum((x[i, j] - min(x[i])) ** 2 for j) for i]
def both(x: n=>Float) -> (Float, Float) = (sum(cos(x[i]) for i), sum(sin(x[i]) for i))
def counted(x: n=>m=>Int) -> n=>Int = [sum(1 if x[i, j] > 2 else 0 for j) for i]
"""

PANELS = """
def between(x: n=>d=>Float, y: m=>d=>Float) -> n=>m=>Float:
    for i, j: sqrt(sum((x[i, c] - y[j, c]) ** 2 for c))
def nearest(x: n=>d=>Float, y: m=>d=>Float) -> n=>m where m >= 1 =
    [argmin(sum((x[i, c] - y[j, c]) ** 2 for c) for j) for i]
"""

CALLED = """
def powers(u: Float, y: t=>n=>Float) = sum(u ** y[k, i] for k, i)
def errors(y: t=>n=>Float) = sum(erf(y[k, i]) for k, i)
def factorials(y: t=>n=>Float) = sum(gamma(y[k, i]) for k, i)
def angles(u: Float, y: t=>n=>Float) = sum(atan2(u, y[k, i]) for k, i)
def large(y: t=>n=>Float) = sum(sin(y[k, i]) for k, i)
"""

PROGRAM = f'MORE = """{CALLED + LANES + ROWS + PANELS}"""' + '''
import math
import re
import numpy as np
import naperian as nap

m = nap.compile(MORE + """
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
def by_hand(x, y, k):
    for _ in range(k):
        s, v = np.zeros(x.shape[:2], x.dtype), x.copy()
        for i in range(x.shape[2]):
            s = v[:, :, i] = (s + x[:, :, i]) / (2 + y[:, i])
        x = v
    return x
def escaped(re, im, most):
    c = re + 1j * im[:, None]
    z, k = 0 * c, np.zeros(c.shape, int)
    for _ in range(most):
        on = abs(z) <= 2
        z, k = np.where(on, z * z + c, z), k + on
    return k
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
    for n in (1, 2, 3, 5, 7, 9, 30):  # what is left of a row is one element at a time
        y = rng.uniform(0.5, 3.0, (4, n)).astype(dtype)
        of = lambda f: sum(f(float(x)) for x in y.flat)
        assert np.isclose(m.powers(1.5, y), of(lambda x: 1.5**x), rtol=close)
        assert np.isclose(m.errors(y), of(math.erf), rtol=close)
        assert np.isclose(m.factorials(y), of(math.gamma), rtol=close)
        assert np.isclose(m.angles(1.5, y), of(lambda x: math.atan2(1.5, x)), rtol=close)
        y[1::2] *= dtype(1e9)  # rare arguments, which have a way of their own
        assert np.isclose(m.large(y), of(math.sin), rtol=close, atol=n * close)
    for r in (0, 1, 3, 15, 16, 17, 40):
        x, y = rng.random((r, 5, 7)).astype(dtype), rng.random((r, 7, 5)).astype(dtype)
        assert np.allclose(m.solved(x, y, k=3), by_hand(x, y, 3), rtol=close)
        x, y = np.linspace(-2, 0.5, r), np.linspace(-1, 1, 3)
        assert np.array_equal(m.escapes(x, y, 20), escaped(x, y, 20))
    for n in (1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 33, 64, 67, 200):
        x = rng.normal(size=(3, n)).astype(dtype)
        assert np.allclose(m.sums(x), x.sum(1), rtol=close, atol=close)
        e = np.exp(x - x.max(1, keepdims=True))
        assert np.allclose(m.softmax(x), e / e.sum(1, keepdims=True), rtol=close)
        assert np.allclose(m.factors(1 + x / 99), np.prod(1 + x / 99), rtol=close)
        assert np.allclose(m.apart(x), ((x - x.min(1, keepdims=True)) ** 2).sum(1), rtol=close)
        assert np.allclose(m.both(x[0]), (np.cos(x[0]).sum(), np.sin(x[0]).sum()), atol=n * close)
        x, y = rng.normal(size=(20, 5)).astype(dtype), rng.normal(size=(n, 5)).astype(dtype)
        want = np.sqrt(((x[:, None] - y) ** 2).sum(2))
        assert np.allclose(m.between(x, y), want, rtol=close)
        assert np.allclose(np.take_along_axis(want, m.nearest(x, y)[:, None], 1)[:, 0], want.min(1))
        y = rng.integers(0, 6, (3, n))
        assert np.array_equal(m.counted(y), (y > 2).sum(1))
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


DIVIDED = """
import naperian as nap
import numpy as np

m = nap.compile('''
def f(x: Fin(n)=>Float, a: Fin(n)=>Fin(m)=>Float) -> Fin(n)=>Float:
    with accum() as h:
        for i in Fin(n):
            h[i] += atan(fold(
                lambda s, w: 0.5 * s + tanh(x[i] - a[i, clamp(i + 1)]), x[wrap(i + 3)], rotate(x, 3)
            ))
''')
x, a = np.linspace(0, 1, 5), np.ones((5, 3))
_, slope = nap.vjp(m.f)(x, a, np.ones(5))
_, along = nap.jvp(m.f)(x, a, np.ones(5))
assert np.isclose(slope.sum(), along.sum(), rtol=1e-12)
"""


@pytest.mark.parametrize("level", ["avx2", "baseline"])
def test_loops_that_divide_under_conditions_are_left_to_llvm(level: str) -> None:
    """Told to do several vectors at a time where it makes none, it ended the process."""
    done = subprocess.run(
        [sys.executable, "-c", DIVIDED], env=os.environ | {"NAPERIAN_TARGET": level},
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("lanes", [1, 2, 4])
@pytest.mark.parametrize("name", ["pow", "erf", "gamma", "atan2"])
def test_a_function_clears_no_register_of_its_caller(name: str, lanes: int) -> None:
    """A loop calls it with vectors in registers, of which it puts back those that it used."""
    machine = host("avx2")
    for dtype in (DType.F32, DType.F64):
        listing = assembly(math.module(name, dtype, lanes, machine), machine)
        assert "ret" in listing
        assert "vzeroupper" not in listing


@pytest.mark.parametrize("lanes", [1, 4])
def test_the_c_library_finds_upper_halves_clear(lanes: int) -> None:
    """Its code for SSE waits for those that are in use: `lgamma` took eight times as long."""
    if not host().triple.startswith("x86_64"):
        pytest.skip("x86")
    made = assembly(math.module("lgamma", DType.F64, lanes, host("avx2")), host("avx2"))
    assert re.search(r"vzeroupper\n(\t(v?mov)[^\n]*\n)*\tcallq\tlgamma", made)
    old = assembly(math.module("lgamma", DType.F64, 1, host("baseline")), host("baseline"))
    assert "vzeroupper" not in old

RAGGED = """
def f(x: Fin(n)=>Float, a: Fin(n)=>Fin(m)=>Float):
    for t in Fin(3): logsumexp(a[wrap(1), clamp(2)] for i in 0..Int(x[wrap(t)]))
"""


def test_a_call_moves_no_stack_under_what_is_loaded_behind_it() -> None:
    """Where the callee keeps no frame pointer, LLVM 20 keeps it on the stack around the call, and
    in a loop with much in it loads behind the call were off by what that took."""
    module, wrong = pipeline.front(Source("<text>", RAGGED))
    assert module is not None, wrong
    at = Substitution({p.var: F64 for p in module.definitions["f"].types}, {}, {})
    machine = Target("x86_64-unknown-linux-gnu", "znver4", "+avx512f", 64, 32)
    listing = assembly(emit(pipeline.lower(module, "f", at), machine), machine)
    assert "callq\tnap_exp_f64" in listing
    assert not re.search(r"callq[^\n]*\n\taddq\t\$8, %rsp\n\tpopq\t%rbp\n", listing)


def test_vectors_wait_on_the_stack_where_lines_begin() -> None:
    """The caller's stack is a multiple of 16 bytes, so three times out of four such a vector would
    lie in two lines, in every round."""
    text = """
def option(s: Float, k: Float, t: Float, r: Float, v: Float) -> Float:
    d = (log(s / k) + (r + 0.5 * v * v) * t) / (v * sqrt(t))
    s * erf(d) - k * exp(-r * t) * erf(d - v * sqrt(t))
def options(s: n=>Float, k: n=>Float, t: n=>Float, r: Float, v: Float) -> n=>Float =
    [option(s[i], k[i], t[i], r, v) for i]
"""
    module, wrong = pipeline.front(Source("<text>", text))
    assert module is not None, wrong
    kinds = {t.var: F64 for t in module.definitions["options"].types}
    program = pipeline.lower(module, "options", Substitution(kinds, {}, {}))
    for cpu, features, bytes in (("znver4", "+avx512f", 64), ("x86-64-v3", "", 32)):
        machine = Target("x86_64-unknown-linux-gnu", cpu, features, bytes, 32)
        listing = assembly(emit(program, machine), machine)
        wide = {64: "zmm", 32: "ymm"}[bytes]
        kept = re.findall(rf"(vmov\wp[sd])\t%{wide}\d+, -?\d*\(%rsp\)", listing)
        assert kept
        assert set(kept) <= {"vmovapd", "vmovaps"}
        assert f"andq\t$-{bytes}, %rsp" in listing


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


@pytest.mark.parametrize("bytes", [32, 64])
def test_lanes_of_which_some_are_there_are_vectors(bytes: int) -> None:
    """Also where no register is for masks: LLVM would take several times as long for them."""
    module, wrong = pipeline.front(Source("<text>", LANES))
    assert module is not None, wrong
    machine = replace(host("avx2"), vector_bytes=bytes)
    for d in (module.definitions[n] for n in module.public):
        at = Substitution({p.var: F64 for p in d.types}, {}, {})
        program = pipeline.lower(module, d.name, at)
        lanes = [s for s in statements(program.body)
                 if isinstance(s, Loop) and s.order is Order.LANES]  # fmt: skip
        assert any(isinstance(x, When) for s in lanes for x in s.body)
        assert not is_left(emit(program, machine))


@pytest.mark.parametrize(("text", "bytes"), [*((ROWS, n) for n in (16, 32, 64)), (PANELS, 32)])
def test_rows_that_are_added_up_are_vectors(text: str, bytes: int) -> None:
    """LLVM's vectoriser takes as long for them as for all the rest. So it does for what is packed,
    of which a lane reads where it says itself, and which AVX-512 gathers."""
    module, wrong = pipeline.front(Source("<text>", text))
    assert module is not None, wrong
    machine = replace(host("avx2"), vector_bytes=bytes)
    for d in (module.definitions[n] for n in module.public):
        at = Substitution({p.var: F64 for p in d.types}, {}, {})
        made = emit(pipeline.lower(module, d.name, at), machine)
        assert "!llvm.loop" in made
        assert not is_left(made), d.name


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
