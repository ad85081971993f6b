"""Naperian from Python: modules, functions, loading, the import hook, and what is kept on disk."""

from __future__ import annotations

import gc
import inspect
import multiprocessing
import os
import pickle
import pydoc
import re
import subprocess
import sys
import threading
import time
import timeit
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import naperian as nap
from naperian.backends import cache

PROGRAM = '''\
enum Channel = Red | Green | Blue

tau = 6.25

def affine(x: n=>Float) -> n=>Float:
    """Twice x and one."""
    [2.0 * x[i] + 1.0 for i]

def dot(x: n=>Float, y: n=>Float) -> Float = sum(x[i] * y[i] for i)

def matmul(x: n=>m=>Float, y: m=>p=>Float) -> n=>p=>Float =
    [sum(x[i, j] * y[j, k] for j) for i, k]

def pick(x: n=>Float, p: m=>n) -> m=>Float = [x[p[j]] for j]

def count(xs: n=>bins) -> bins=>Int = [sum((1 if xs[i] == b else 0) for i) for b]

def grow(x: Float, rate: Float = 0.5, steps: Int = 2) -> Float = x * (1.0 + rate) * steps

def both(x: n=>Float) -> (n=>Float, Float) = (affine(x), sum(x))

def brightest(p: Channel=>Float) -> Channel = argmax(p)

def safe(x: n=>Float, k: Int) -> Float = x[k?]

def positive(x: Float) -> Float:
    assert x > 0.0, "x must be positive"
    x
'''


@pytest.fixture(scope="module")
def m() -> nap.Module:
    return nap.compile(PROGRAM, "stats.nap")


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("NAPERIAN_CACHE", str(tmp_path))
    return tmp_path


def test_derivatives_called_as_jax_calls_them_say_how() -> None:
    f = nap.compile("def f(x: n=>Float) -> Float = sum(x * x)").f
    x = np.ones(3)
    calls = {"jvp": (x, x), "vjp": (x, x), "grad": (x,), "hvp": (x, x), "linearize": (x,)}
    for name, args in calls.items():
        with pytest.raises(TypeError, match=rf"{name}\(\) makes a function, .*{name}\(f\)\(x, "):
            getattr(nap, name)(f, *args)
    with pytest.raises(TypeError, match=r"not a function of Python's; `nap\.compile` makes"):
        nap.grad(lambda x: x)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"sizes is a dictionary"):
        nap.compile("def f(x: n=>Float) = x", sizes=[2])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="more than 0 bytes, not -1"):
        nap.grad(f, memory=-1)
    s = nap.compile("enum S = A(r: Float) | B(x: Float)\ndef f(s: S) -> Float = 1.0")
    with pytest.raises(AttributeError, match=r"no definition 'A'; it is S\.A"):
        s.A  # noqa: B018


def test_values(m: Any) -> None:
    x = np.arange(3.0)
    assert m.affine(x).tolist() == [1, 3, 5]
    assert m.dot(x, x) == 5.0
    a, b = np.random.default_rng(0).random((2, 40, 40))
    assert np.allclose(m.matmul(a, b), a @ b)
    assert m.pick(x, [2, 0]).tolist() == [2, 0]
    assert m.count([0, 1, 1, 3], bins=4).tolist() == [1, 2, 0, 1]
    assert m.grow(2.0) == 6.0
    assert m.grow(2.0, steps=1, rate=1) == 4.0
    first, second = m.both(x)
    assert first.tolist() == [1, 3, 5]
    assert second == 3.0
    assert m.tau == 6.25


def test_precision(m: Any) -> None:
    single = np.arange(3, dtype=np.float32)
    assert m.affine(single).dtype == np.float32
    assert m.affine(single.astype(float)).dtype == np.float64
    assert type(m.dot(single, single)) is np.float32
    assert m.dot(single, single.astype(float)).__class__ is float
    assert m.affine(np.arange(3)).dtype == np.float64


def test_enums(m: Any) -> None:
    assert m.Channel.Blue == 2
    assert [c.name for c in m.Channel] == ["Red", "Green", "Blue"]
    assert m.brightest([0.1, 0.9, 0.5]) == m.Channel.Green
    assert m.brightest.type == "Channel=>Float -> Channel"
    assert m.count([0, 2], bins=m.Channel).tolist() == [1, 0, 1]


NOTHING = nap.compile("""
enum T = A | B(v: Fin(2)=>Float)
struct P:
    v: Fin(2)=>Float
    t: T = A
struct Q(n):
    v: n=>Float
def variants(x: n=>T) -> Int = size(x)
def structs(x: n=>P) -> Int = size(x)
def tuples(x: n=>(Fin(2)=>Float, Int)) -> Int = size(x)
def maybes(x: n=>Maybe(Fin(2)=>Float)) -> Int = size(x)
def rows(x: n=>(exists k. Fin(k)=>P)) -> Int = sum(size(r) for r in x) + size(x)
def table(x: n=>m=>P) -> (Int, Int) = (size(x), size([0 for _ in m]))
def of_a_length(x: n=>Q(Fin(m))) -> (Int, Int) = (size(x), size([0 for _ in Fin(m)]))
def told(x: n=>Q(Fin(m)), y: m=>Float, z: m=>Float) -> (Int, Int) = (size(x), size(y))
def beside(x: n=>P, y: n=>Float) -> Int = size(x) + size(y)
""")


@pytest.mark.parametrize("name", ["variants", "structs", "tuples", "maybes", "rows"])
def test_a_list_of_nothing_says_how_many(name: str) -> None:
    """What the things in it hold may have axes of its own."""
    assert NOTHING[name]([]) == 0


def test_what_a_list_of_nothing_does_not_say() -> None:
    assert NOTHING.table([]) == (0, 0)
    assert NOTHING.table([[], []]) == (2, 0)
    assert NOTHING.rows([[], []]) == 2
    assert NOTHING.of_a_length([]) == (0, 0)
    assert NOTHING.told([], np.ones(3), np.ones(3)) == (0, 3)
    with pytest.raises(nap.ShapeError, match="z: axis 0 is 2, but m is 3 from axis 0 of y"):
        NOTHING.told([], np.ones(3), np.ones(2))
    with pytest.raises(nap.ShapeError, match="y: axis 0 is 3, but n is 0 from axis 0 of x"):
        NOTHING.beside([], np.ones(3))
    with pytest.raises(nap.ShapeError, match=r"x.v must have 2 axes \(n, 2\), not"):
        NOTHING.structs({"v": [], "t": []})


def test_errors(m: Any) -> None:
    with pytest.raises(nap.ShapeError, match="argument y: axis 0 is 4, but n is 3 from axis 0 of"):
        m.dot(np.zeros(3), np.zeros(4))
    with pytest.raises(nap.IndexError, match="argument p: element 1 is 3, but it must be below 3"):
        m.pick(np.zeros(3), [0, 3])
    with pytest.raises(nap.IndexError, match=r"stats\.nap:\d+:\d+: .*7.*3"):
        m.safe(np.zeros(3), 7)
    with pytest.raises(nap.AssertionError, match=r"stats\.nap:\d+:\d+: x must be positive"):
        m.positive(-1.0)
    with pytest.raises(nap.CompileError, match="N0") as caught:
        nap.compile("def f(x: Float) = x + y")
    assert isinstance(caught.value, nap.Error)
    with pytest.raises(nap.CompileError):
        nap.load("no/such/file.nap")


@pytest.mark.parametrize("given", [3, None, b"def f() = 1", Path("stats.nap")])
def test_a_text_is_a_string(given: Any) -> None:
    kind = type(given).__name__
    with pytest.raises(TypeError, match=rf"takes the text of a program, not {kind}; load\(\)"):
        nap.compile(given)


def test_the_traceback_of_a_mistake_ends_at_the_call() -> None:
    with pytest.raises(nap.CompileError) as raised:
        nap.compile("def f(x: Float) = y")
    assert len(raised.traceback) <= 3
    assert raised.value.__cause__ is None


def test_texts_that_no_file_can_hold() -> None:
    with pytest.raises(nap.CompileError, match="N01"):
        nap.compile("def f() = \ud800")


def test_what_a_function_says(m: Any) -> None:
    assert m.affine.type == "n=>Float -> n=>Float"
    assert m.dot.type == "(n=>Float, n=>Float) -> Float"
    assert m.dot.result_type == "Float"
    assert repr(m.dot) == "<dot : (n=>Float, n=>Float) -> Float>"
    grow = "(x: Float, rate: Float = 0.5, steps: Int = 2) -> Float"
    assert str(inspect.signature(m.grow)) == grow
    assert str(inspect.signature(m.count)) == "(xs: n=>bins, *, bins) -> bins=>Int"
    assert "Twice x and one." in pydoc.render_doc(m.affine)
    assert "@kernel" in m.affine.show("llvm")
    assert "affine" in m.affine.explain()
    assert callable(m.affine)


def test_what_a_module_says(m: Any) -> None:
    assert m.names[:3] == ["tau", "affine", "dot"]
    assert {"affine", "tau", "Channel"} <= set(dir(m))
    assert "affine" in repr(m)
    assert "affine : n=>Float -> n=>Float" in pydoc.render_doc(m)
    with pytest.raises(AttributeError, match="has no definition 'nothing'"):
        m.nothing  # noqa: B018
    assert m["affine"] is m.affine


def test_pickling(m: Any) -> None:
    again = pickle.loads(pickle.dumps(m.affine))
    assert again(np.arange(2.0)).tolist() == [1, 3]
    assert pickle.loads(pickle.dumps(m)).tau == 6.25
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(m.dot, (np.ones(3), np.ones(3))) == 3.0


def test_load_and_imports(tmp_path: Path, fresh_cache: Path) -> None:
    (tmp_path / "lib.nap").write_text("def twice(x: Float) -> Float = x * 2.0\n")
    main = tmp_path / "main.nap"
    main.write_text("import lib\n\ndef four(x: Float) -> Float = lib.twice(lib.twice(x))\n")
    assert nap.load(main).four(3.0) == 12.0
    assert nap.load(str(main)).four(3.0) == 12.0
    (tmp_path / "lib.nap").write_text("def twice(x: Float) -> Float = x * 3.0\n")
    assert nap.load(main).four(3.0) == 27.0


def test_a_number_is_no_path() -> None:
    with pytest.raises(TypeError):
        nap.load(0)  # a descriptor, to `open`: it would wait for standard input


def test_import_hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hooked_statistics.nap").write_text("def one() -> Float = 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    nap.install_hook()
    nap.install_hook()
    __import__("hooked_statistics")
    module: Any = sys.modules["hooked_statistics"]
    assert module.one() == 1.0
    assert module.__file__ == str(tmp_path / "hooked_statistics.nap")
    assert sum(type(f).__name__ == "_Finder" for f in sys.meta_path) == 1


# what is kept


def test_a_program_met_before_is_not_compiled_again(fresh_cache: Path) -> None:
    x = np.arange(3.0)

    def once() -> float:
        started = time.perf_counter()
        assert nap.compile(PROGRAM, "stats.nap").affine(x).tolist() == [1, 3, 5]
        return time.perf_counter() - started

    once()
    again = min(once() for _ in range(10))
    assert again < 0.02  # measured: 2 ms


def test_a_program_met_before_needs_no_compiler(tmp_path: Path) -> None:
    """Reading the compiler takes longer than most runs."""
    code = f"""
import sys, naperian as nap
f = nap.compile({PROGRAM!r}, "stats.nap").affine
print(f([0.0, 1.0]).tolist(), f.__name__, f.type)
parts = ("naperian.pipeline", "naperian.frontend", "naperian.passes", "naperian.backends.emit")
print(sorted(m for m in sys.modules if m.startswith(parts)))
"""
    environment = os.environ | {"NAPERIAN_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", code]
    first, again = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert "naperian.pipeline" in first
    assert again.splitlines() == [first.splitlines()[0], "[]"]


def test_a_damaged_cache_is_repaired(fresh_cache: Path) -> None:
    def check() -> None:
        assert nap.compile(PROGRAM).dot([1.0, 2.0], [3.0, 4.0]) == 11.0

    check()
    for damage in (b"", b"nap1" + bytes(40), b"\x80garbage"):
        for _, _, path in cache.shared().entries():
            Path(path).write_bytes(damage)
        check()
    # whole entries of another kind of object
    for _, _, path in cache.shared().entries():
        if path.endswith(".f"):
            name = Path(path).parent.name + Path(path).stem
            cache.shared().put(name, "f", pickle.dumps({"not": "ours"}))
    check()


def test_threads_compile_at_once(fresh_cache: Path) -> None:
    module: Any = nap.compile(PROGRAM)
    wrong: list[object] = []

    def work(k: int) -> None:
        dtype = (np.float32, np.float64)[k % 2]
        x = np.arange(5, dtype=dtype)
        for _ in range(50):
            y = module.affine(x)
            if y.tolist() != [1, 3, 5, 7, 9] or y.dtype != dtype:
                wrong.append(y)

    started = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in started:
        t.start()
    for t in started:
        t.join()
    assert not wrong


def test_processes_compile_at_once(fresh_cache: Path) -> None:
    code = (
        "import naperian as nap, numpy as np\n"
        f"m = nap.compile({PROGRAM!r})\n"
        "assert m.affine(np.arange(3.0)).tolist() == [1, 3, 5]\n"
        "assert m.dot([1.0], [2.0]) == 2.0\n"
    )
    children = [subprocess.Popen([sys.executable, "-c", code], env=os.environ) for _ in range(2)]
    assert [c.wait(120) for c in children] == [0, 0]


def test_a_thousand_compilations_do_not_grow_memory(fresh_cache: Path) -> None:
    x = np.arange(3.0)

    def once() -> None:
        assert nap.compile(PROGRAM, "stats.nap").affine(x).tolist() == [1, 3, 5]

    def resident() -> int:
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    for _ in range(200):
        once()
    before = resident()
    for _ in range(1000):
        once()
    assert resident() - before < 8 << 20


# speed


def test_a_small_call_is_cheaper_than_numpy(m: Any) -> None:
    x = np.zeros(3)
    f = m.affine
    f(x)
    ours = min(timeit.repeat(lambda: f(x), number=2000, repeat=20))
    numpy = min(timeit.repeat(lambda: 2 * x + 1, number=2000, repeat=20))
    assert ours < 0.6 * numpy


def test_import_is_cheap() -> None:
    code = (
        "import sys, naperian\n"
        "assert 'numpy' not in sys.modules and 'llvmlite' not in sys.modules\n"
        "print(naperian.__version__, 'compile' in dir(naperian))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{nap.__version__} True\n"


# rows of unequal length

TRIANGLE = """
def row_sums(t: (i: n)=>(..=i)=>Float) -> n=>Float = sum(t)

def products(x: n=>Float) -> (i: n)=>(..=i)=>Float = [[x[i] * x[j] for j] for i]
"""


def test_rows_of_unequal_length_are_packed() -> None:
    m = nap.compile(TRIANGLE)
    square = np.arange(16.0).reshape(4, 4)
    packed = square[np.tril_indices(4)]
    rows = [square[i, : i + 1] for i in range(4)]
    for given in (packed, rows, [r.tolist() for r in rows]):
        np.testing.assert_array_equal(m.row_sums(given), np.tril(square).sum(1))
    made = m.products(np.arange(3.0))
    np.testing.assert_array_equal(made, [0, 0, 1, 0, 2, 4])
    assert [r.tolist() for r in made.rows()] == [[0.0], [0.0, 1.0], [0.0, 2.0, 4.0]]
    assert made.offsets.tolist() == [0, 1, 3, 6]
    assert made[-1].base is made.values
    np.testing.assert_array_equal(m.row_sums(made), [0, 1, 6])
    assert m.row_sums(np.zeros(0)).shape == (0,)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros(4), "axis 0 is 4, but it must be (n * n + n) // 2 for some n >= 0"),
        ([[1.0, 2.0], [3.0]], "row 0 has 2 elements, but it must have 1"),
        (np.zeros((2, 2)), "must have 1 axis"),
        ([[1.0], 2.0], "is no list of rows"),
    ],
)
def test_rows_of_wrong_lengths_are_told(given: Any, message: str) -> None:
    with pytest.raises(nap.ShapeError, match=re.escape(message)):
        nap.compile(TRIANGLE).row_sums(given)


def test_a_parameter_may_be_called_out() -> None:
    double = nap.compile("def double(out: n=>Float) = 2.0 * out").double
    x = np.arange(3.0)
    for _ in range(3):
        assert double(x).tolist() == double(out=x).tolist() == [0, 2, 4]
        with pytest.raises(TypeError):
            double(x, out=x)


def test_results_do_not_share_memory() -> None:
    two = nap.compile("def two(x: n=>Float) = (x + 1.0, x + 2.0)").two
    x, rows = np.arange(3.0), np.zeros((3, 2))
    two(x, out=(rows[:, 0], rows[:, 1]))
    assert rows.tolist() == [[1, 2], [2, 3], [3, 4]]
    with pytest.raises(ValueError, match=r"out\[0\] and out\[1\] share memory"):
        two(x, out=(rows[:, 0], rows[:, 0]))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has the allocator")
def test_large_results_lie_half_a_page_from_their_argument() -> None:
    """A read waits for a store that is a few elements before it but for whole pages, so streams
    that are read and written together lie apart in their pages."""
    f = nap.compile("def f(x: n=>Float) = 2.0 * x + 1.0").f
    room = np.arange(100_000.0)
    f(room)  # the first call compiles, and NumPy allocates
    for start in (0, 1, 8, 100, 511, 512):
        x = room[start : start + 50_000]
        y = f(x)
        apart = (y.ctypes.data - x.ctypes.data) % 4096
        assert 2048 - 64 < apart <= 2048
        assert y.ctypes.data % 64 == 0
        np.testing.assert_array_equal(y, 2.0 * x + 1.0)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has the allocator")
def test_memory_of_large_results_is_used_again() -> None:
    f = nap.compile("def f(x: n=>Float) = 2.0 * x + 1.0").f
    x = np.arange(5e6)
    expected = f(x)  # the first call compiles, and NumPy allocates
    a, b = f(x), f(x)
    assert a.ctypes.data != b.ctypes.data
    place = a.ctypes.data
    del a
    c = f(x)
    assert c.ctypes.data == place
    assert (c == expected).all()
    assert (b == expected).all()
    c.resize(6_000_000, refcheck=False)
    assert (c[: x.size] == expected).all()
    assert not c[x.size :].any()
    kept = [f(x) for _ in range(6)]  # more than wait to be used again
    del kept
    assert (f(x) == expected).all()


@pytest.mark.parametrize("name", ["U8", "I16", "U32", "U64", "F32", "Bool"])
def test_checking_takes_a_scalar_of_any_type(name: str) -> None:
    assert nap.check(nap.compile(f"def f(x: {name}) -> {name} = x").f)


@pytest.mark.parametrize(("held", "value"), [
    ("Fin(2)=>Float", "[1.0, sum(x)]"),
    ("n=>Float", "x"),
    ("exists k. Fin(k)=>Float", "[v for v in x if v > 0]"),
    ("n=>(exists k. Fin(k)=>Float)", "[[v for v in x if v > u] for u in x]"),
    ("(i: n)=>(..=i)=>Float", "[[x[i] * x[j] for j] for i]"),
])  # fmt: skip
def test_checking_takes_variants_without_the_tables_of_others(held: str, value: str) -> None:
    text = f"def f(x: n=>Float) -> Maybe({held}) = Some({value}) if sum(x) > 0 else None"
    assert nap.check(nap.compile(text).f)


def test_elements_of_tables_keep_single_precision() -> None:
    """As results by themselves do: given again, they are numbers of it still."""
    m: Any = nap.compile("""
enum Hit = Escaped | Found(d: Float)
struct Point:
    x: Float
def hits(x: n=>Float) -> n=>Hit = Found(exp(sin(x)))
def points(x: n=>Float) -> n=>Point = Point(x)
def same(p: Point) -> Point = p
def single(x: n=>F32) = [Some(sum(exp(sin(x)))) for i in n]
""")
    for dtype, kind in ((np.float32, np.float32), (np.float64, float)):
        x = np.ones(2, dtype)
        assert type(m.hits(x)[0].d) is type(m.points(x)[0].x) is kind
        assert type(m.same(m.points(x)[0]).x) is kind
    assert nap.check(m.single)


def test_checking_ends_where_a_loop_does_not() -> None:
    grown = nap.compile("""
def f(x: Float) -> Float:
    loop v = x while v < 1000.0:
        v * 1.5
""").f
    found = nap.check(grown, cases=6)
    assert found
    assert found.cases > 0
    assert found.unended > 0
    assert (found.cases + found.unended, found.left) == (6, 0)
    assert f"{found.unended} not compared: `while` loops of more than" in repr(found)
    late = nap.check(grown, seconds=0.0)
    assert (late.cases, late.left) == (0, 12)
    assert not late
    assert "NOTHING was compared" in repr(late)
    assert repr(late).endswith("12 not tried: the time was over")


def test_checking_compares_what_cancels_by_the_largest_part() -> None:
    """Of two rows nothing is sent to `v`, but in the interpreter's order a rest of 1e25."""
    flow = nap.compile("""
struct Flow:
    h: Float
    hu: Float
    hv: Float
def fx(s: Flow) -> Flow = Flow(s.hu, s.hu * s.hu / s.h + 4.905 * s.h * s.h, s.hu * s.hv / s.h)
def fy(s: Flow) -> Flow = Flow(s.hv, s.hu * s.hv / s.h, s.hv * s.hv / s.h + 4.905 * s.h * s.h)
def step(s: Fin(n)=>Fin(2)=>Flow, c: Float) -> Fin(n)=>Fin(2)=>Flow where n >= 1:
    for i, j:
        e = s[wrap(i + 1), j]
        w = s[wrap(i - 1), j]
        no = s[i, wrap(j + 1)]
        so = s[i, wrap(j - 1)]
        0.25 * (e + w + no + so) - c * (fx(e) - fx(w) + fy(no) - fy(so))
def loss(h: Fin(n)=>Fin(2)=>Float, u: Fin(n)=>Fin(2)=>Float, v: Fin(n)=>Fin(2)=>Float) where n >= 1:
    loop s = [Flow(h[i, j], h[i, j] * u[i, j], h[i, j] * v[i, j]) for i, j] for _ in Fin(5):
        step(s, 1.7)
    sum(sum(s[i, j].hu ** 2 + s[i, j].h ** 2 for j) for i)
""")
    assert nap.check(flow.loss, cases=5)


def test_checking_ends_within_sets_that_are_large_by_type() -> None:
    large = nap.compile("""
def f(x: Fin(400)=>Fin(400)=>Float) -> Float:
    sum(x[i, j] * x[j, k] for i, j, k)
""").f
    begun = time.process_time()
    found = nap.check(large, seconds=0.5)
    assert (found.cases, found.left) == (0, 12)
    assert time.process_time() - begun < 30  # of 64 million products, some minutes
