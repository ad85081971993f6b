"""What LLVM is given to do: time to compile goes with the lines of a module and, more, with its
functions. Lines are counted, so that no clock is asked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import naperian as nap
from naperian.backends.twins import without_twins

PROGRAMS = Path(__file__).parent.parent / "benchmarks" / "programs"

# program, definition: how many lines its module may have, which is a fifth more than it has
LINES = {
    ("chain", "chain"): 110,
    ("black_scholes", "black_scholes"): 200,
    ("stencil", "stencil"): 290,
    ("convolution", "convolution"): 300,
    ("matmul", "matmul"): 60,
    ("softmax", "rows"): 320,
    ("distances", "distances"): 230,
    ("gather", "gather"): 200,
    ("small", "small"): 100,
    ("hotspot", "hotspot"): 580,
    ("pathfinder", "pathfinder"): 370,
    ("mriq", "mriq"): 650,
    ("stencil3d", "stencil3d"): 570,
    ("sums", "histogram"): 250,
    ("sums", "segments"): 250,
    ("sums", "spmv"): 300,
    ("sums", "triangle"): 190,
    ("sums", "columns"): 380,
    ("sums", "prefix"): 90,
    ("mandelbrot", "mandelbrot"): 260,
    ("nbody", "accelerations"): 240,
    ("kmeans", "lloyd"): 660,
    ("batched", "products"): 170,
    ("batched", "factors"): 310,
    ("conv2d", "conv2d"): 1100,
    ("network", "heads"): 570,
    ("network", "layer_norm"): 400,
    ("network", "lstm"): 550,
    ("tridiagonal", "tridiagonal"): 620,
    ("locvol", "locvol"): 3220,
    ("options", "american"): 440,
    ("options", "asian"): 330,
    ("fft", "transforms"): 2500,
    ("sort", "sorted"): 1080,
    ("image", "image"): 770,
    ("transpose", "transposed"): 430,
}


def functions(ir: str) -> list[str]:
    """The definitions in a module."""
    return re.findall(r"^define .*?^}", ir, re.S | re.M)


def layers(n: int) -> str:
    """A program of so many lines, each of which makes two passes over an array."""
    lines = "".join(f"    y{k + 1} = y{k} / (sum(y{k}) + {k}.0)\n" for k in range(n))
    return f"def f(x: n=>Float):\n    y0 = x * 2.0\n{lines}    y{n}\n"


def test_the_same_loop_is_compiled_once() -> None:
    ten, twenty = (nap.compile(layers(n)).f.show("llvm") for n in (10, 20))
    assert len(functions(ten)) == len(functions(twenty)) <= 5
    assert ten.count("call i64 @nap_run(") == 11
    assert len(twenty.splitlines()) < 2.2 * len(ten.splitlines())


def test_twins_are_alike_in_all_but_names() -> None:
    one = "define internal i64 @part0(ptr %p) {\n  load i64, ptr %p, !alias.scope !1\n}"
    two = one.replace("@part0", "@part1").replace("!1", "!3")
    other = one.replace("@part0", "@part2").replace("!1", "!5")
    caller = "define i64 @kernel() {\n  call i64 @part0()\n  call i64 @part1()\n}"
    nodes = ["!1 = !{!2}", "!2 = distinct !{!2}", "!3 = !{!4}", "!4 = distinct !{!4}",
             "!5 = !{}"]  # fmt: skip
    kept = without_twins([one, two, other, caller], nodes)
    assert kept == [one, other, caller.replace("@part1", "@part0")]


@pytest.mark.parametrize(("program", "definition"), LINES)
def test_a_module_is_short(program: str, definition: str) -> None:
    ir = nap.load(PROGRAMS / f"{program}.nap")[definition].show("llvm")
    assert len(ir.splitlines()) <= LINES[program, definition]
    for f in functions(ir):
        assert re.search(r"@(kernel|part\d+|nap\.[\w.]+)\(", f), f.splitlines()[0]
