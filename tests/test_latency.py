"""What LLVM is given to do: time to compile goes with the lines of a module and, more, with its
functions. Lines are counted, so that no clock is asked."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import naperian as nap
from naperian import pipeline
from naperian.backends import runtime
from naperian.backends.aside import MARK, aside
from naperian.backends.llvm import GLUE, compile_all, is_left, optimised
from naperian.backends.pieces import _items, pieces
from naperian.backends.services.regions import PART
from naperian.backends.target import Target
from naperian.backends.twins import without_twins
from naperian.broken import Broken
from naperian.core import linear, walk
from naperian.core import syntax as core
from naperian.core.walk import everything
from naperian.dtypes import DType
from naperian.facts import _proved
from naperian.frontend.listed import PUBLIC
from naperian.names import Var
from naperian.node import replace
from naperian.source import Source
from naperian.types import Scalar

PROGRAMS = Path(__file__).parent.parent / "benchmarks" / "programs"

# program, definition: how many lines its module may have, which is a fifth more than it has where
# divisions take more lines (Intel's processors)
LINES = {
    ("chain", "chain"): 120,
    ("black_scholes", "black_scholes"): 230,
    ("stencil", "stencil"): 290,
    ("convolution", "convolution"): 385,
    ("matmul", "matmul"): 60,
    ("softmax", "rows"): 485,
    ("distances", "distances"): 600,
    ("gather", "gather"): 235,
    ("small", "small"): 100,
    ("hotspot", "hotspot"): 580,
    ("pathfinder", "pathfinder"): 405,
    ("mriq", "mriq"): 650,
    ("stencil3d", "stencil3d"): 570,
    ("sums", "histogram"): 360,
    ("sums", "segments"): 460,
    ("sums", "spmv"): 530,
    ("sums", "triangle"): 200,
    ("sums", "columns"): 380,
    ("sums", "prefix"): 90,
    ("mandelbrot", "mandelbrot"): 345,
    ("nbody", "accelerations"): 240,
    ("kmeans", "lloyd"): 1130,
    ("batched", "products"): 170,
    ("batched", "factors"): 310,
    ("conv2d", "conv2d"): 1100,
    ("network", "heads"): 760,
    ("network", "layer_norm"): 560,
    ("network", "lstm"): 550,
    ("tridiagonal", "tridiagonal"): 720,
    ("locvol", "locvol"): 3670,
    ("options", "american"): 460,
    ("options", "asian"): 420,
    ("fft", "transforms"): 2500,
    ("sort", "sorted"): 60,
    ("image", "image"): 1070,
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
    made, twice = ([f for f in functions(ir) if "@nap." not in f] for ir in (ten, twenty))
    assert len(made) == len(twice) <= 5
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


def test_serial_nests_of_a_long_kernel_are_functions() -> None:
    """What is left only starts them, and is not optimised; a short kernel keeps its nests."""
    ir = nap.load(PROGRAMS / "locvol.nap").locvol.show("llvm")
    (kernel,) = (f for f in functions(ir) if "@kernel(" in f)
    assert "optnone" in kernel.partition("\n")[0]
    assert "llvm.loop" not in kernel
    for program, definition in (("transpose", "transposed"), ("sums", "prefix")):
        ir = nap.load(PROGRAMS / f"{program}.nap")[definition].show("llvm")
        (kernel,) = (f for f in functions(ir) if "@kernel(" in f)
        assert "llvm.loop" in kernel


def test_a_variable_goes_through_the_function_of_a_nest() -> None:
    lines = "".join(f"    c{k} = sum(x) + {k}.0\n" for k in range(20))
    text = f"""
def f(x: n=>Float) -> (Float, Float):
{lines}    loop s = 0.25, t = {" + ".join(f"c{k}" for k in range(20))} for i in Fin(n):
        (s * 0.5 + x[i], t + s)
    (s, t)
"""
    f = nap.compile(text).f
    x = np.random.default_rng(0).standard_normal(100)
    s, t = 0.25, sum(x.sum() + k for k in range(20))
    for v in x:
        s, t = s * 0.5 + v, t + s
    np.testing.assert_allclose(f(x), (s, t), rtol=1e-12)
    assert all(g.count("llvm.loop") == 0 for g in functions(f.show("llvm")) if "optnone" in g)


def test_vector_forms_of_rare_calls_are_linked_when_they_are_chosen() -> None:
    """No pass before works on those that nobody calls, and no call of one is left."""
    ir = nap.compile("def f(x: n=>Float) = for i: sin(x[i])").f.show("llvm")
    assert re.search(r"^declare <\d+ x double> @nap\.rare\.sin\.\d+\(", ir, re.M)
    assert not re.search(r"^define [^\n]*<\d+ x double> @nap\.rare", ir, re.M)
    made = optimised(ir)
    assert "double @sin(" in made
    assert not re.search(r"call [^\n]*<\d+ x double> @nap\.rare\.\w+\.\d+\(", made)


def test_long_rounds_that_wait_are_not_unrolled() -> None:
    ir = nap.load(PROGRAMS / "tridiagonal.nap").tridiagonal.show("llvm")
    assert 1 <= ir.count("llvm.loop.unroll.runtime.disable") < ir.count("!llvm.loop")


def test_edges_are_no_vectors() -> None:
    """Of a window that is clamped, two rounds at each end: vectors of bytes for them took LLVM five
    times as long as what is between them."""
    f = nap.compile("""
def eroded(x: h=>w=>U8) -> h=>w=>U8 =
    [min(x[clamp(i + a - 2), clamp(j + b - 2)] for a in Fin(5), b in Fin(5)) for i, j]
""").eroded
    x = np.random.default_rng(0).integers(0, 256, (70, 90)).astype(np.uint8)
    for h, w in ((0, 3), (3, 0), (1, 1), (2, 3), (5, 4), (70, 90)):
        edge = np.pad(x[:h, :w], 2, mode="edge") if h and w else x[:h, :w]
        want = [[edge[i : i + 5, j : j + 5].min() for j in range(w)] for i in range(h)]
        assert (f(np.ascontiguousarray(x[:h, :w])) == np.array(want).reshape(h, w)).all()
    assert len(optimised(f.show("llvm")).splitlines()) < 1200


# --- what passes ask ----------------------------------------------------------------------------


def test_what_is_asked_again_is_not_proved_again() -> None:
    """Every operation on a view of an FFT asks whether the same indices are in range."""
    _proved.cache_clear()
    nap.load(PROGRAMS / "fft.nap").transforms.show("loops")
    asked = _proved.cache_info()
    assert asked.hits > asked.misses  # what is seen at once is not asked


def test_what_hangs_on_a_variable_is_found_in_one_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[core.Expr] = []

    def children(e: core.Expr) -> tuple[core.Expr, ...]:
        walked.append(e)
        return every(e)

    every = walk.children
    for module in (walk, linear):
        monkeypatch.setattr(module, "children", children)
    x, y, z = Var("x"), Var("y"), Var("z")
    e: core.Expr = core.Op("neg", (core.Ref(x),), Scalar(DType.F64))
    names = [Var("v") for _ in range(100)]
    for v in names:  # let v = (let w = … in w) in y
        e = core.Let(v, e, core.Ref(v))
    e = core.Let(z, core.Ref(y), e)
    assert linear.hanging(e, [x]) == {x, *names}
    assert linear.hanging(e, [y]) == {y, z}
    assert len(walked) <= 2 * 2 * len(names)


def test_of_a_module_that_comes_with_the_language_only_what_is_used_is_elaborated(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = cache(pipeline.library.__wrapped__)
    monkeypatch.setattr(pipeline, "library", fresh)
    text = "import linalg\ndef f(a: n=>n=>Float, b: n=>Float) = linalg.solve_lower(a, b)\n"
    program, _ = pipeline.front(Source("<solve>", text))
    assert program is not None
    found = {n for n in program.definitions if n.startswith("linalg.")}
    # a rule is needed only for a derivative, but what it is for must know that it fits
    used = {"forwards", "solve_lower", "solve_lower_back", "backwards"}
    assert found == {f"linalg.{n}" for n in used}
    (rule,) = program.definitions["linalg.solve_lower"].rules
    assert rule.use.name == "linalg.solve_lower_back"
    nothing, _ = pipeline.front(Source("<nothing>", "def f(x: Float) = x\n"))
    assert nothing is not None
    assert not any(n.startswith("linalg.") for n in nothing.definitions)


def test_all_that_comes_with_the_language_is_right() -> None:
    """Nobody else elaborates what no program uses. In whatever order it is, callees come first."""
    text = "".join(f"import {m}\n" for m in PUBLIC if m != "std")
    for turned in (False, True):
        library = cache(pipeline.library.__wrapped__)()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pipeline, "library", lambda library=library: library)
            assert pipeline.front(Source("<all>", text))[0] is not None
            known = [library, *(m.globals.definitions for m in library.modules.values())]
            with pipeline.deep():
                for some in known:
                    for n in sorted(some, reverse=turned):
                        assert some[n].name.endswith(n)
            program, wrong = pipeline.front(Source("<all again>", text))
        assert program is not None, wrong
        place = {n: k for k, n in enumerate(program.definitions)}
        for d in program.definitions.values():
            used = [e.name for e in everything(d.body) if isinstance(e, core.Use)]
            assert all(place[n] < place[d.name] for n in used), d.name


# --- the first program of a process -------------------------------------------------------------


def test_no_garbage_is_sought_among_what_the_first_program_reads() -> None:
    program = (
        "import gc, numpy; begun = []; gc.collect()\n"
        "gc.callbacks.append(lambda phase, told: begun.append(told['generation']))\n"
        "import naperian as nap\n"
        "assert nap.compile('def f(x: n=>Float) = sum(x) + 1.0').f(numpy.ones(3)) == 4.0\n"
        "assert gc.isenabled() and not any(begun), begun\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


TRACE = """
def wave(x: n=>Float) -> Float = exp(sum(sin(v) for v in x)) * prod(x)

def trace_of(x: n=>Float) -> Float = trace(hessian(wave)(x))
"""


@pytest.mark.parametrize(
    "compiled",
    [
        lambda: nap.load(PROGRAMS / "fft.nap").transforms(np.ones((2, 16)), np.ones((2, 16))),
        lambda: nap.grad(nap.compile(TRACE).trace_of)(np.ones(3)),
    ],
    ids=["fft", "gradient"],
)
def test_a_compilation_leaves_little_that_leads_back_to_itself(
    compiled: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAPERIAN_CACHE", "off")
    for _ in range(2):  # what is kept for ever is made the first time
        gc.collect()
        gc.disable()
        compiled()
        left = gc.collect()
        gc.enable()
    assert left < 3_000


# --- modules in pieces --------------------------------------------------------------------------

ONE_AND_MANY = """
def f(x: n=>m=>Float, y: n=>Float):
    a = for i: sum(sin(x[i, j]) for j)
    b = for j: sum(x[i, j] * y[i] for i)
    c = for i, j: exp(x[i, j] - a[i]) + b[j] + abs(y[i]) ** 0.3
    d = for j: prod(c[i, j] for i)
    (a, b, c, sum(log(1.0 + v * v) for v in d))
"""


def symbols(ir: str, how: str) -> set[str]:
    return set(re.findall(rf"^{how} [^@\n]*@([\w.]+)", ir, re.M))


def test_a_module_in_pieces_is_the_module() -> None:
    files = [nap.load(PROGRAMS / f"{p}.nap")[p] for p in ("locvol", "tridiagonal")]
    for function in (*files, nap.compile(ONE_AND_MANY).f):
        ir = function.show("llvm")
        cut = pieces(ir, 2)
        assert 2 <= len([p for p in cut if not p.startswith(GLUE)]) <= 4
        own = [{f for f in symbols(p, "define") if re.match(r"kernel|part\d|nap\.merge", f)}
               for p in cut]  # fmt: skip
        assert sum(map(len, own)) == len(set.union(*own))
        # of rare functions a loop of vectors has the vector forms alone
        unused = {f for f in symbols(ir, "define") if f.startswith("nap.rare.")}
        cut_up = set.union(*(symbols(p, "define") for p in cut))
        assert symbols(ir, "define") - unused == cut_up - unused
        for p in cut:
            names = set(re.findall(r"@([\w.]+)", p)) - {"llvm.compiler.used"}
            assert {n for n in names if not n.startswith("llvm.")} <= (
                symbols(p, "define") | symbols(p, "declare")
            )
            assert not set(re.findall(r"!\d+", p)) - set(re.findall(r"^!\d+", p, re.M))


def test_what_is_short_is_not_cut() -> None:
    short = nap.load(PROGRAMS / "chain.nap").chain.show("llvm")
    long = nap.load(PROGRAMS / "locvol.nap").locvol.show("llvm")
    assert pieces(short, 8) == [short]
    assert len(pieces(long, 64)) <= len(functions(long))


@pytest.mark.parametrize(("cpu", "weight", "count"), [
    ("znver4", 500, 2), ("znver4", 100, 1), ("skylake-avx512", 500, 1)])  # fmt: skip
def test_what_may_gather_data_is_apart(
    cpu: str, weight: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it may be optimised twice, and what gathers from computed places is not."""
    machine = Target("x86_64-unknown-linux-gnu", cpu, "+avx512f", 64, 32)
    monkeypatch.setattr("naperian.backends.pieces.host", lambda: machine)
    text = "define i64 @{}({}) {{\n{}  br label %body\nbody:\n  br label %body, !llvm.loop !0\n}}\n"
    read = "  %v1 = load i64, ptr %v0, align 8\n" * weight
    made = "  %v1 = load double, ptr %v0, align 8\n" * 500
    told = '!{} = distinct !{{!0, !{{!"llvm.loop.mustprogress"}}{}}}\n'
    done = text.format("part2", PART, made).replace("!0", "!1")
    ir = text.format("part0", PART, read) + text.format("part1", PART, made) + done
    ir += told.format(0, "") + told.format(1, ', !{!"llvm.loop.vectorize.enable", i1 false}')
    cut = [symbols(p, "define") for p in pieces(ir, 1)]
    assert sorted(map(sorted, cut))[-1] == ["part2"]
    assert len(cut) == 1 + count


@pytest.mark.parametrize("threads", [1, 2])
def test_what_only_starts_parts_is_apart_if_it_is_long(threads: int) -> None:
    ir = nap.load(PROGRAMS / "locvol.nap").locvol.show("llvm")
    *_, last = pieces(ir, threads)
    assert last.startswith(GLUE)
    assert "kernel" in symbols(last, "define")
    assert not [f for f in symbols(last, "define") if f.startswith("part")]
    own = ir[ir.index("define i64 @kernel(") :].partition("\n}\n")[0] + "\n}\n"
    alone = re.sub(r"call i64 @nap_run\(.*\)", "add i64 0, 0", own)
    assert len(pieces(alone, threads)) == 1  # it may be all there is


@pytest.mark.parametrize(
    ("program", "definition"), [("image",) * 2, ("conv2d",) * 2, ("kmeans", "lloyd")]
)
def test_no_loop_of_these_is_left_to_llvm(program: str, definition: str) -> None:
    """It would take as long for one as for all the rest of a part."""
    assert not is_left(nap.load(PROGRAMS / f"{program}.nap")[definition].show("llvm"))


@pytest.mark.parametrize(("program", "definition"), [("sums", "columns"), ("tridiagonal",) * 2])
def test_for_one_thread_what_is_left_to_llvm_is_apart(program: str, definition: str) -> None:
    """A part with a loop for LLVM's vectoriser does not make it do all it does for the others."""
    ir = nap.load(PROGRAMS / f"{program}.nap")[definition].show("llvm")
    cut = pieces(ir, 1)
    assert (len(cut) == 1) == (not is_left(ir))
    assert [is_left(p) for p in cut] == [True, False][-len(cut) :]
    own = [f for p in cut for f in symbols(p, "define") if re.match(r"kernel|part\d", f)]
    assert sorted(own) == sorted(f for f in symbols(ir, "define") if re.match(r"kernel|part\d", f))


NEXT_TO_FINISHED = """
def f(k: n=>Int, x: Fin(m)=>Float, rounds: Int) -> (Fin(m)=>Float, Float, Float):
    loop y = x, s = 0.0, t = 1.0 for r in Fin(rounds):
        z = [exp(v) * 0.1 for v in y]
        g = [z[clamp(k[i])] for i]
        ([v * 0.5 + 1.0 for v in z], s + sum(g), max(t, max([abs(v) for v in g])))
    (y, s, t)
"""


@pytest.mark.parametrize("program", [
    ("sums", "spmv"), ("convolution",) * 2, ("nbody", "accelerations"), None])  # fmt: skip
def test_a_loop_that_is_left_to_llvm_leaves_a_long_function(
    program: tuple[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One loop does not send all that is finished through the whole pipeline."""
    monkeypatch.setattr("naperian.backends.aside._LONG", 1)
    monkeypatch.setattr("naperian.backends.aside._SHARE", 0)
    function = (nap.load(PROGRAMS / f"{program[0]}.nap")[program[1]] if program is not None
                else nap.compile(NEXT_TO_FINISHED).f)  # fmt: skip
    ir = function.show("llvm")
    if not is_left(ir):
        pytest.skip("all of it is finished on this machine")
    cut = aside(dict(_items(ir)))
    assert any(MARK in name for name in cut)
    for name, text in cut.items():
        if MARK in name:
            assert is_left("\n".join(cut[k] for k in re.findall(r"!llvm\.loop (!\d+)", text)))
        elif name.startswith(("@part", "@kernel")):
            told = re.findall(r"!llvm\.loop (!\d+)", text)
            assert not is_left("\n".join(cut[k] for k in told))
    assert all(compile_all(pieces(ir, 1), 1))


def test_a_loop_aside_computes_what_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it assigns is given to it and comes back: one variable, two, none."""
    r = np.random.default_rng(0)
    for rows in (0, 1, 7, 100):
        args = r.integers(0, 9, rows), r.standard_normal(9), 5
        found = []
        for long in (10**9, 1):
            monkeypatch.setattr("naperian.backends.aside._LONG", long)
            monkeypatch.setattr("naperian.backends.aside._SHARE", 0)
            found.append(nap.compile(f"{NEXT_TO_FINISHED}# {long} {rows}\n").f(*args))
        for a, b in zip(*found, strict=True):
            np.testing.assert_array_equal(a, b)


def test_pieces_are_compiled_beside_each_other_and_linked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    r = np.random.default_rng(0)
    args = r.standard_normal((40, 30)), r.standard_normal(40)
    monkeypatch.setenv("NAPERIAN_CACHE", str(tmp_path))
    monkeypatch.setattr(runtime, "processors", lambda: 1)
    whole = nap.compile(ONE_AND_MANY).f(*args)
    monkeypatch.setattr(runtime, "processors", lambda: 4)
    monkeypatch.setattr("naperian.backends.pieces.LEAST", 1)
    again = ONE_AND_MANY + "\n"  # another text: nothing is known of it
    files = [len(list(tmp_path.rglob("*.o")))]
    for _ in range(2):  # compiled, and from the cache
        cut = nap.compile(again).f(*args)
        for a, b in zip(whole, cut, strict=True):
            np.testing.assert_array_equal(a, b)
        files.append(len(list(tmp_path.rglob("*.o"))))
    assert files[0] + 4 <= files[1] == files[2]


def test_trouble_of_one_thread_is_raised() -> None:
    good = "define i64 @kernel() {\n  ret i64 0\n}\n"
    assert len(compile_all([good] * 5, 3)) == 5
    with pytest.raises(RuntimeError, match="expected type"):
        compile_all([good, good, "define nothing", good], 3)


def test_what_is_broken_is_told_though_it_is_checked_beside_llvm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(_: object) -> None:
        raise Broken("checked")

    *before, last = pipeline.PASSES
    monkeypatch.setattr(pipeline, "every_step", False)
    monkeypatch.setattr(pipeline, "PASSES", (*before, replace(last, check=broken)))
    with pytest.raises(Broken, match="checked"):
        nap.compile("def f(x: Float) = x * 3.0").f(1.0)
    monkeypatch.setattr("naperian.backends.emit.emit", lambda _: "".index("what it did not expect"))
    with pytest.raises(Broken, match="checked"):
        nap.compile("def f(x: Float) = x * 4.0").f(1.0)


def test_no_interrupt_comes_between_calls_of_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in other threads than the one that interrupts are raised in."""
    where: list[threading.Thread] = []

    def compiled(text: str, *_: object) -> bytes:
        where.append(threading.current_thread())
        return text.encode()

    monkeypatch.setattr("naperian.backends.llvm._compiled", compiled)
    assert compile_all(["a", "b"], 1) == [b"a", b"b"]
    assert threading.main_thread() not in where


def test_what_is_interrupted_is_not_compiled_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    first, go_on = threading.Event(), threading.Event()

    def compiled(text: str, _: object, busy: Callable[[], object]) -> bytes:
        busy()
        begun.append(text)
        first.set()
        go_on.wait(10)
        return b""

    def joined(thread: threading.Thread) -> None:
        first.wait(10)
        raise KeyboardInterrupt

    monkeypatch.setattr("naperian.backends.llvm._compiled", compiled)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "join", joined)
        with pytest.raises(KeyboardInterrupt):
            compile_all(["a", "b", "c"], 1)
    go_on.set()
    for thread in threading.enumerate():
        if thread.name == "naperian compiles":
            thread.join()
    assert begun == ["a"]
