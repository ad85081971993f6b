"""What `nap explain --loops` says a program costs is what it does."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import naperian as nap
from naperian import cli, pipeline
from naperian.backends.emit import emit
from naperian.backends.kernel import load, object_code
from naperian.backends.runtime import contraction, run, runtime
from naperian.dtypes import DType
from naperian.loops.syntax import Program, Role
from naperian.names import Var
from naperian.passes.fusion.account import account, peak
from naperian.signed import at
from naperian.sizes import evaluate
from naperian.source import Source

TEXT = """
def affine(x: n=>Float, y: n=>Float) = [exp(x[i]) * y[i] + 1.0 for i]

def matmul(a: n=>m=>Float, b: m=>p=>Float) = a @ b

def histogram(xs: n=>bins) -> bins=>Int:
    with accum() as h:
        for i: h[xs[i]] += 1

def chain(a: n=>n=>Float, b: n=>n=>Float, c: n=>n=>Float) = a @ b @ c

def standard(x: n=>Float) -> n=>Float:
    e = exp(x)
    e / (sum(e) + 1.0)

def waves(x: n=>Float, k: Int) -> n=>Float:
    loop u = x for t in Fin(k):
        [0.5 * u[clamp(i + 1, n)] + 0.5 * u[i] for i]

def in_order(x: n=>Float) = scan((+), 0.0, x)

def gathered(x: n=>Float, p: m=>n) = [x[p[j]] for j]

def placed(x: n=>Int) -> n=>Int:
    (s, _) = with state(x) as s, state([0 for _ in Fin(16)]) as at:
        for i:
            digit = clamp(x[i] & 15, Fin(16))
            s[clamp(at[digit])] := x[i]
            at[digit] += 1
    s

def inserted(x: n=>Int) -> n=>Int:
    with state(x) as s:
        for i in n:
            s[i] := loop code = s[i] for j in ..i:
                before = s[j]
                s[j] := min(before, code)
                max(before, code)
"""


def lowered(name: str) -> Program:
    module, wrong = pipeline.front(Source("account", TEXT))
    assert module is not None, wrong
    d = module.definitions[name]
    return pipeline.lower(module, name, at(d, (DType.F64,) * len(d.types)))


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("affine", [
            "nest over `i`: parallel; vectors of up to 4; 2 * n operations; n functions; "
            "reads bytes: 8 * n of `x`, 8 * n of `y`; writes bytes: 8 * n of `out`",
            "memory: 8 * n bytes in results, 0 in between",
        ]),
        ("matmul", [
            "nest over `i`, `j`, `k`: parallel; a contraction, vectors of up to 4; "
            "2 * n * m * p operations; reads bytes: 8 * n * m of `a`, 8 * m * p of `b`; "
            "writes bytes: 8 * n * p of `out`",
            "memory: 8 * n * p bytes in results, 0 in between",
        ]),
    ],
)  # fmt: skip
def test_account(name: str, lines: list[str]) -> None:
    assert list(account(lowered(name), 32)) == lines


def test_places_that_data_says_are_anywhere() -> None:
    """No element counts twice, and an array that is written where data says counts as a whole."""
    assert account(lowered("placed"), 32)[2] == (
        "nest over `i`: one thread; one at a time; n operations; "
        "reads bytes: 128 of `at`, 8 * n of `x`; writes bytes: 128 of `at`, 8 * n of `out`"
    )
    assert account(lowered("inserted"), 32)[1] == (
        "nest over `i`, `j`: one thread; one at a time; 2 * n * ((n + 1) // 2) operations; "
        "reads bytes: 8 * n of `out`; writes bytes: 8 * n of `out`"
    )


def test_strips_and_turns_are_told_as_a_whole() -> None:
    """A strip's elements are others in each round; of copies that take turns there are two."""
    strips = "16384 * ((m + 2047) // 2048)"
    assert f"reads bytes: {strips} of `p`, 8 * n of `x`; writes bytes: {strips} of `out`" in (
        account(lowered("gathered"), 32)[0]
    )
    assert "writes bytes: 16 * n of `u`" in account(lowered("waves"), 32)[0]


def test_copies_for_threads_are_told() -> None:
    last = account(lowered("histogram"), 32)[-1]
    assert last.endswith("and up to 31 copies of `out` while threads add to it")


def measured(program: Program, args: list[Any], sizes: dict[Var, int]) -> int:
    """The most bytes that are alive at once in a run, from what it asks for and gives back."""
    services = runtime().services
    alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(services["nap_alloc"])
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(services["nap_free"])
    live: dict[int, int] = {}
    most = 0

    def take(bytes: int) -> int:
        nonlocal most
        place = alloc(bytes) or 0
        live[place] = bytes
        most = max(most, sum(live.values()))
        return place

    def give(place: int) -> None:
        live.pop(place or 0, None)
        free(place)

    taking = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(take)
    giving = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(give)
    counted = {
        "nap_alloc": ctypes.cast(taking, ctypes.c_void_p).value or 0,
        "nap_free": ctypes.cast(giving, ctypes.c_void_p).value or 0,
    }
    text = emit(program)
    needs = (contraction(DType.F64),) if "@nap_contract_f64(" in text else ()
    kernel = load(object_code(text), services | counted, needs)
    given = iter(args)
    arrays, scalars = [], []
    for b in program.buffers:
        if b.role is Role.IN:
            a = np.asarray(next(given), b.dtype.value)
        else:
            shape = [evaluate(e, lambda v: sizes[v]) for e in b.shape]  # type: ignore[index]
            a = np.empty(shape, b.dtype.value)
        arrays.append(a)
        scalars.append(int.from_bytes(a.tobytes()[:8].ljust(8, b"\0"), "little"))
    before = nap.threads()
    nap.threads(1)  # the counting is Python's
    answer = run(
        kernel, (ctypes.c_int64 * 8)(*(sizes[v] for v in program.sizes)),
        (ctypes.c_void_p * 8)(*(a.ctypes.data for a in arrays)), (ctypes.c_uint64 * 8)(*scalars),
        (ctypes.c_int64 * 4)(), False,
    )  # fmt: skip
    nap.threads(before)
    assert answer == 0
    assert not live
    return most


@pytest.mark.parametrize("name", ["affine", "chain", "standard", "waves", "in_order"])
def test_memory_is_what_is_said(name: str) -> None:
    program = lowered(name)
    n = 300
    sizes = {v: {"n": n, "k": 5}[v.name] for v in program.sizes}
    rng = np.random.default_rng(0)
    shapes = [b.shape for b in program.buffers if b.role is Role.IN]
    args = [rng.random([n] * len(shape)) if shape else 5 for shape in shapes]
    _, between = peak(program)
    said = evaluate(between, lambda v: sizes[v])  # type: ignore[index]
    assert measured(program, args, sizes) <= said
    if name in ("affine", "in_order"):
        assert said == 0


def test_a_sort_takes_memory_beside_its_rows() -> None:
    """What is measured: nothing for values, codes for places; both where they lie apart."""
    text = (
        "def values(x: n=>Float) -> n=>Float = sort(x)\n"
        "def places(x: n=>Float) -> n=>n = argsort(x)\n"
    )
    m = nap.compile(text)
    said = {"values": "0", "places": "8 * n"}
    for name, between in said.items():
        line = getattr(m, name).account[-1]
        assert line == f"memory: 8 * n bytes in results, {between} in between"


def test_sizes_that_are_found_are_said_to_be() -> None:
    """No formula has a name that nothing explains."""
    m = nap.compile(
        "def kept(x: n=>Float) = [v for v in x if v > 0.0]\n"
        "def near(x: n=>d=>Float, y: m=>d=>Float) = "
        "[sum((x[i, a] - y[j, a]) ** 2 for a) for i, j]\n"
    )
    assert m.kept.account[-1] == "where v is found in the run"
    assert "where start is m if short else 0" in m.near.account


def test_the_command_tells_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path.joinpath("f.nap").write_text(TEXT)
    place = f"{tmp_path / 'f.nap'}:matmul"
    assert cli.main(["explain", place, "--loops"]) == 0
    assert "# memory: 8 * n * p bytes in results, 0 in between" in capsys.readouterr().out
    assert cli.main(["explain", place, "--loops", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["account"][-1].startswith("memory: ")


def test_a_derivative_is_told_beside_its_function(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.joinpath("f.nap").write_text("def f(x: n=>Float) -> Float = sum(exp(x))\n")
    place = f"{tmp_path / 'f.nap'}:grad(f)"
    assert cli.main(["explain", place, "--loops"]) == 0
    _, mine = capsys.readouterr().out.split("# beside it, `f` itself:")
    assert "n operations; n functions" in mine
    assert cli.main(["explain", place, "--loops", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["of"]["definition"] == "f"
    assert told["of"]["account"][-1] == "memory: 8 bytes in results, 0 in between"


def test_an_array_that_two_sides_allocate_in_two_shapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In lanes `v` is a table of 32 columns, beside it a row."""
    tmp_path.joinpath("f.nap").write_text(
        "def f(z: n=>p=>Float, s: p=>p=>Float) -> Float =\n"
        "    sum(sum((z[i, a] * z[i, b] - s[a, b]) ** 2 for a, b) for i)\n"
    )
    place = f"{tmp_path / 'f.nap'}:grad(f, wrt=('z', 's'))"
    assert cli.main(["explain", place, "--loops"]) == 0
    assert "bytes in results" in capsys.readouterr().out
