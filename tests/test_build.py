"""`nap build`: libraries link and run, from C and from Python without Naperian."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from naperian import cli

CC = next((x for x in ("cc", "gcc", "clang") if shutil.which(x)), None)
needs_cc = pytest.mark.skipif(CC is None, reason="no C compiler")

TEXT = '''"""Little statistics."""

def mean(x: n=>Float) -> Float where n >= 1:
    """The arithmetic mean."""
    sum(x) / n

def matmul(a: n=>m=>Float, b: m=>p=>Float) = a @ b

def histogram(xs: n=>bins) -> bins=>Int:
    with accum() as h:
        for i: h[xs[i]] += 1

def positive(x: n=>Float) = [v for v in x if v > 0.0]

def element(x: n=>Float, k: Int) -> Float = x[k?]

def extremes(x: n=>Float) where n >= 1 = (min(x), max(x))

def twice(f: Float -> Float, x: Float) = f(f(x))

def evens(k: Int, odd: Bool) -> Fin(k)=>Int = [2 * i + (1 if odd else 0) for i in Fin(k)]

def square(x) = x * x

enum Shape = Dot | Disc(r: Float) | Box(w: Float, h: Float)

def area(s: Shape) -> Float:
    match s:
        case Dot: 0.0
        case Disc(r): pi * r ** 2
        case Box(w, h): w * h
'''



def build(folder: Path, *options: str) -> Path:
    folder.joinpath("stats.nap").write_text(TEXT)
    out = folder / "out"
    assert cli.main(["build", str(folder / "stats.nap"), "--out", str(out), *options]) == 0
    return out


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if CC is None:
        pytest.skip("no C compiler")
    return build(tmp_path_factory.mktemp("build"), "--wheel", "--target", "baseline")


@pytest.fixture(scope="module")
def library(out: Path) -> Any:
    made = ctypes.CDLL(str(out / "libstats.so"))
    made.stats_message.restype = ctypes.c_char_p
    made.stats_message.argtypes = [ctypes.c_int64]
    return made


def pointer(a: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(a.ctypes.data)


def n(k: int) -> ctypes.c_int64:
    return ctypes.c_int64(k)


def test_the_example_links_and_runs(out: Path) -> None:
    command = [CC, "stats_example.c", "-L.", "-lstats", "-Wl,-rpath,.", "-lm", "-Wall", "-Werror",
               "-std=c99", "-o", "example"]  # fmt: skip
    subprocess.run(command, cwd=out, check=True)
    done = subprocess.run(["./example"], cwd=out, check=True, capture_output=True, text=True)
    assert done.stdout == "mean: done\nout[0] = 2.5\n"


def test_nothing_else_is_exported(out: Path) -> None:
    assert json.loads((out / "manifest.json").read_text())["skipped"] == {
        "twice": "parameter f is a function"
    }
    made = ctypes.CDLL(str(out / "libstats.so"))
    for name in ("nap_parallel", "stats_mean.kernel", "kernel"):
        assert not hasattr(made, name)


def test_the_header_says_what_numbers_mean(out: Path) -> None:
    text = (out / "stats.h").read_text()
    assert "from 0 to below 3: 0 Dot, 1 Disc(s_1), 2 Box(s_1, s_2)" in text
    assert "give it back to stats_free" in text
    assert "stats_square(double x," in text  # any number is a float


@pytest.mark.parametrize("threads", [1, 2])
def test_arrays(library: Any, threads: int) -> None:
    library.stats_set_threads(threads)
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(200, 300)), rng.normal(size=(300, 100)), np.empty((200, 100))
    sizes = n(200), n(300), n(100)
    assert library.stats_matmul(*sizes, pointer(a), pointer(b), pointer(c), None) == 0
    assert np.allclose(c, a @ b)
    xs, h = rng.integers(0, 10, 100_000), np.empty(10, np.int64)
    assert library.stats_histogram(n(100_000), n(10), pointer(xs), pointer(h), None) == 0
    assert np.array_equal(h, np.bincount(xs))


def test_scalars_and_sizes_that_are_arguments(library: Any) -> None:
    out = np.empty(4, np.int64)
    assert library.stats_evens(n(4), ctypes.c_bool(True), pointer(out), None) == 0
    assert out.tolist() == [1, 3, 5, 7]


def test_a_result_that_the_call_makes(library: Any) -> None:
    x = np.array([1.0, -2.0, 3.0])
    size, made = ctypes.c_int64(), ctypes.c_void_p()
    answer = library.stats_positive(n(3), pointer(x), ctypes.byref(size), ctypes.byref(made), None)
    assert (answer, size.value) == (0, 2)
    assert list((ctypes.c_double * 2).from_address(made.value or 0)) == [1.0, 3.0]
    library.stats_free(made)


def test_mistakes_are_answers(library: Any) -> None:
    x, y = np.ones(3), np.empty(1)
    error = (ctypes.c_int64 * 4)()
    answer = library.stats_element(n(3), pointer(x), n(7), pointer(y), error)
    assert answer > 0
    assert b"{value}" in library.stats_message(answer)
    assert list(error)[:2] == [7, 3]
    assert library.stats_mean(n(0), pointer(x), pointer(y), None) == -4
    assert library.stats_mean(n(-1), pointer(x), pointer(y), None) == -4
    assert b"promise" in library.stats_message(n(-4))
    xs, h = np.array([0, 5]), np.empty(4, np.int64)
    assert library.stats_histogram(n(2), n(4), pointer(xs), pointer(h), None) == -3
    assert library.stats_message(n(12345)) == b"unknown"


def test_the_wheel_needs_numpy_alone(out: Path, tmp_path: Path) -> None:
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    text = '''
import sys
sys.modules["naperian"] = sys.modules["llvmlite"] = None
import numpy as np, stats
assert stats.mean([1.0, 2.0, 6.0]) == 3.0
a = np.arange(6.0).reshape(2, 3)
assert np.array_equal(stats.matmul(a, a.T.copy()), a @ a.T)
assert stats.extremes(np.array([3.0, 1.0])) == (1.0, 3.0)
assert stats.positive(np.array([1.0, -2.0, 3.0])).tolist() == [1.0, 3.0]
assert stats.positive([-1]).shape == (0,)
assert stats.evens(odd=True, k=3).tolist() == [1, 3, 5]
assert stats.histogram([0, 2, 2], bins=3).tolist() == [1, 0, 2]
assert stats.square(1.5) == 2.25 and "Path" not in dir(stats) and "mean" in stats.__all__
assert stats.matmul.__doc__.endswith("""
Takes
    a: float64 (n, m)
    b: float64 (m, p)
Returns
    out: float64 (n, p)
""")
assert "arithmetic mean" in stats.mean.__doc__
for call in (lambda: stats.matmul(a, a), lambda: stats.mean([]), lambda: stats.mean(),
             lambda: stats.mean(np.array([1j])), lambda: stats.element(a[0], 9),
             lambda: stats.mean(None), lambda: stats.histogram([0])):
    try:
        call()
    except (ValueError, TypeError, RuntimeError) as e:
        print(type(e).__name__, e)
'''
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True,
                          text=True)  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "ValueError b has shape (2, 3), but it must be (3, 3)",
        "ValueError mean(): needs n >= 1, but n is 0",
        "TypeError mean(x): missing a required argument: 'x'",
        "TypeError x is complex128, which would lose information as float64",
        "RuntimeError element(): index 9 is out of range for an axis of size 3",
        "TypeError x is NoneType: no number and no array",
        "TypeError histogram(xs, *, bins): missing a required argument: 'bins'",
    ]


@needs_cc
def test_an_example_of_results_that_the_call_makes(tmp_path: Path) -> None:
    tmp_path.joinpath("made.nap").write_text(
        "def above(x: n=>Float, c: Float) = ([v for v in x if v > c], sum(x))\n"
        "def pairs(x: n=>Float) = [[v for v in x if v > w] for w in x]\n"
    )
    assert cli.main(["build", str(tmp_path / "made.nap"), "--out", str(tmp_path), "--wheel"]) == 0
    command = [CC, "made_example.c", "-L.", "-lmade", "-Wl,-rpath,.", "-lm", "-Wall", "-Werror",
               "-std=c99", "-o", "example"]  # fmt: skip
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(["./example"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "above: done", "out_size[0] = 3", *(f"out_0[{k}] = {k + 2}" for k in range(3)),
        "out_1[0] = 10",
    ]  # fmt: skip
    assert "int64_t *out_size" in tmp_path.joinpath("made.h").read_text()
    with zipfile.ZipFile(*tmp_path.glob("*.whl")) as archive:
        names = [f["name"] for f in json.loads(archive.read("made/manifest.json"))["functions"]]
    assert names == ["above"]  # rows of sizes that are found are no plain arrays


@needs_cc
def test_names_that_mean_something_in_c(tmp_path: Path) -> None:
    """Keywords, what the example itself uses, and the ends of comments; in Python all the same."""
    tmp_path.joinpath("odd.nap").write_text(
        "def first(i: Float, answer: a=>Float, free: Float, error: Bool) = "
        "[i * free + v if error else 0.0 for v in answer]\n"
        "def key(double: Float, int: I8, xs: n=>class) -> class=>Float:\n"
        '    """Ends */ here /* and there."""\n'
        "    [double + Float(int) for c in class]\n"
        "def free(x: Float) = x\n"
    )
    assert cli.main(["build", str(tmp_path / "odd.nap"), "--out", str(tmp_path), "--wheel"]) == 0
    command = [CC, "odd_example.c", "-L.", "-lodd", "-Wl,-rpath,.", "-lm", "-Wall", "-Wextra",
               "-Werror", "-std=c99", "-o", "example"]  # fmt: skip
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(["./example"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["first: done", *(f"out[{k}] = {k + 2}" for k in range(4))]
    skipped = json.loads(tmp_path.joinpath("manifest.json").read_text())["skipped"]
    assert skipped == {"free": "odd_free is every library's own"}
    with zipfile.ZipFile(*tmp_path.glob("*.whl")) as archive:
        archive.extractall(tmp_path)
    text = """
import numpy as np, odd
assert odd.key(2.0, int_=3, xs=[0, 1], class_=2).tolist() == [5.0, 5.0]
for call in (lambda: odd.key(2.0, 300, [0], class_=1),
             lambda: odd.first(1.0, np.ma.array([1.0], mask=[1]), 1.0, True)):
    try:
        call()
    except TypeError as e:
        print(e)
"""
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True,
                          text=True, check=True)  # fmt: skip
    assert done.stdout.splitlines() == [
        "int_ is int64, which would lose information as int8",
        "answer is a masked array; fill it first, as in x.filled(0)",
    ]


@needs_cc
def test_single_precision(tmp_path: Path) -> None:
    out = build(tmp_path, "--precision", "f32", "--name", "single")
    made = ctypes.CDLL(str(out / "libsingle.so"))
    x, y = np.ones(5, np.float32), np.empty(1, np.float32)
    assert made.single_mean(n(5), pointer(x), pointer(y), None) == 0
    assert y[0] == 1.0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--precision", "f16"], "--precision is f64 or f32"),
        (["--target", "sparc"], "--target is native, avx2 or baseline"),
        (["--name", "3x"], "no name for a library"),
        (["--name", "m"], "libm is a library of every system"),
    ],
)
def test_wrong_options(
    options: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.joinpath("f.nap").write_text("def f(x: Float) = x")
    assert cli.main(["build", str(tmp_path / "f.nap"), *options]) == 2
    assert why in capsys.readouterr().err


def test_without_a_linker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.joinpath("f.nap").write_text("def f(x: Float) = x")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert cli.main(["build", str(tmp_path / "f.nap"), "--out", str(tmp_path)]) == 2
    assert "install cc, gcc, clang or ld, or set CC" in capsys.readouterr().err
