"""The run time under kernels written by hand: threads, signals, forks, memory and the cache."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from by_hand import DOUBLE_PLUS_ONE, kernel

from naperian.backends import runtime
from naperian.backends.cache import Cache, key
from naperian.backends.kernel import Kernel, load, object_code
from naperian.backends.llvm import compile_ir
from naperian.backends.services import pool

HERE = Path(__file__).parent


def loaded(ir: str) -> Kernel:
    return load(object_code(ir), runtime.runtime().services)


def run(k: Kernel, sizes: list[int], *arrays: np.ndarray[Any, Any]) -> tuple[int, list[int]]:
    """The answer of a kernel and what it wrote to `error`."""
    error = (ctypes.c_int64 * 4)()
    code = runtime.run(
        k,
        (ctypes.c_int64 * len(sizes))(*sizes),
        (ctypes.c_void_p * (len(arrays) + 1))(*(a.ctypes.data for a in arrays)),
        (ctypes.c_int64 * 4)(),
        error,
        True,
    )
    return code, list(error)


def regions(body: str, grain: int = 16) -> str:
    """A kernel that runs `body` for each %i of 0 … %n-1 in parallel; `%env` is the buffers."""
    function = f"""
declare i64 @nap_parallel(ptr, ptr, i64, i64, i64)
declare i64 @nap_poll()
define internal i64 @body(ptr %env, i64 %low, i64 %high, i64 %chunk) {{
entry:
  %b0 = load ptr, ptr %env
  br label %loop
loop:
  %i = phi i64 [ %low, %entry ], [ %next, %again ]
{body}
  br label %again
again:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %high
  br i1 %more, label %loop, label %done
done:
  ret i64 0
}}"""
    call = f"""
  %r = call i64 @nap_parallel(ptr @body, ptr %buffers, i64 0, i64 %n, i64 {grain})
  ret i64 %r"""
    return kernel(call, function)


INCREMENT = regions("""
  %at = getelementptr i64, ptr %b0, i64 %i
  %old = load i64, ptr %at
  %new = add i64 %old, 1
  store i64 %new, ptr %at""")

CHUNK_OF = regions("""
  %at = getelementptr i64, ptr %b0, i64 %i
  store i64 %chunk, ptr %at""")

NESTED = regions(
    """
  %inner = getelementptr i64, ptr %b0, i64 %i
  %cell = alloca ptr
  store ptr %inner, ptr %cell
  %ok = call i64 @nap_parallel(ptr @one, ptr %cell, i64 0, i64 8, i64 1)""",
    1,
).replace("define internal i64 @body", """
define internal i64 @one(ptr %env, i64 %low, i64 %high, i64 %chunk) {
  %at = load ptr, ptr %env
  %old = load i64, ptr %at
  %new = add i64 %old, %high
  store i64 %new, ptr %at
  ret i64 0
}
define internal i64 @body""")

FAIL_FROM_100 = regions("""
  %bad = icmp sge i64 %i, 100
  br i1 %bad, label %fail, label %fine
fail:
  %code = add i64 %chunk, 1
  ret i64 %code
fine:""")

ENDLESS = kernel("""
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k2, %loop ], [ %k2, %ask ]
  %k2 = add i64 %k, 1
  %low = and i64 %k2, 1048575
  %due = icmp eq i64 %low, 0
  br i1 %due, label %ask, label %loop
ask:
  %stop = call i64 @nap_poll()
  %go = icmp eq i64 %stop, 0
  br i1 %go, label %loop, label %leave
leave:
  ret i64 -1""", "declare i64 @nap_poll()")

ENDLESS_REGION = regions("""
  br label %spin
spin:
  %k = phi i64 [ 0, %loop ], [ %k2, %spin ], [ %k2, %ask ]
  %k2 = add i64 %k, 1
  %low20 = and i64 %k2, 1048575
  %due = icmp eq i64 %low20, 0
  br i1 %due, label %ask, label %spin
ask:
  %stop = call i64 @nap_poll()
  %go = icmp eq i64 %stop, 0
  br i1 %go, label %spin, label %leave
leave:
  ret i64 -1
never:""")


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = runtime.threads()
    runtime.threads(4)
    yield
    runtime.threads(before)


# threads


def test_every_iteration_runs_once() -> None:
    k = loaded(INCREMENT)
    for n in (0, 1, 15, 16, 17, 1000, 100_003):
        a = np.zeros(n, np.int64)
        for rounds in range(1, 20):
            assert run(k, [n], a) == (0, [0, 0, 0, 0])
            assert (a == rounds).all()


def test_chunks_do_not_depend_on_the_number_of_threads() -> None:
    k = loaded(CHUNK_OF)
    found = []
    for threads in (1, 2, 4):
        runtime.threads(threads)
        a = np.full(10_000, -1, np.int64)
        run(k, [a.size], a)
        found.append(a)
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()
    assert (np.diff(found[0]) >= 0).all()
    assert found[0][-1] < pool.CHUNKS


def test_a_region_in_a_region_runs_in_its_caller() -> None:
    k = loaded(NESTED)
    a = np.zeros(64, np.int64)
    assert run(k, [64], a)[0] == 0
    assert (a == sum(range(1, 9))).all()


@pytest.mark.parametrize("threads", [1, 4])
def test_the_first_failing_chunk_decides(threads: int) -> None:
    runtime.threads(threads)
    k = loaded(FAIL_FROM_100)
    for _ in range(50):
        assert run(k, [1000])[0] == 100 // 16 + 1


def test_python_threads_run_regions_at_once() -> None:
    k = loaded(INCREMENT)
    arrays = [np.zeros(20_000, np.int64) for _ in range(4)]

    def work(a: np.ndarray[Any, Any]) -> None:
        for _ in range(100):
            run(k, [a.size], a)

    started = [threading.Thread(target=work, args=(a,)) for a in arrays]
    for t in started:
        t.start()
    for t in started:
        t.join()
    assert all((a == 100).all() for a in arrays)


def test_a_fork_starts_its_own_threads() -> None:
    k = loaded(INCREMENT)
    a = np.zeros(50_000, np.int64)
    run(k, [a.size], a)
    child = os.fork()
    if child == 0:
        for _ in range(20):
            run(k, [a.size], a)
        os._exit(0 if (a == 21).all() and runtime.runtime().workers() == 3 else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    run(k, [a.size], a)
    assert (a == 2).all()


def test_threads_is_a_positive_number() -> None:
    assert runtime.threads(2) == 2
    assert runtime.threads() == 2
    for wrong in (0, -1, True, 2.0, 10_000):
        with pytest.raises(ValueError, match="number of threads"):
            runtime.threads(wrong)  # type: ignore[arg-type]


def child(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A new Python that has the names of this file."""
    text = (
        f"import sys; sys.path.insert(0, {str(HERE)!r})\nfrom test_runtime import *\n"
        + textwrap.dedent(code)
    )
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60,
        env=os.environ | environment, check=False,
    )  # fmt: skip


def test_threads_that_cannot_start_are_not_missed() -> None:
    done = child("""
        import resource
        k = loaded(INCREMENT)
        runtime.threads(1000)
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        a = np.zeros(100_000, np.int64)
        for _ in range(5):
            run(k, [a.size], a)
        assert (a == 5).all()
        print("workers", runtime.runtime().workers() < 999)
    """)
    assert done.stdout == "workers True\n", done.stderr


def test_environment_sets_the_threads_and_the_process_ends() -> None:
    done = child("""
        k = loaded(INCREMENT)
        a = np.zeros(100_000, np.int64)
        run(k, [a.size], a)
        print(runtime.threads(), runtime.runtime().workers())
    """, NAPERIAN_THREADS="3")  # fmt: skip
    assert done.stdout == "3 2\n", done.stderr
    assert done.returncode == 0


def test_little_work_starts_no_threads() -> None:
    done = child("""
        k = loaded(INCREMENT)
        for n in (100, 100_000):  # 7 chunks, and 256
            run(k, [n], np.zeros(n, np.int64))
            print(runtime.runtime().workers())
    """, NAPERIAN_THREADS="3")  # fmt: skip
    assert done.stdout == "0\n2\n", done.stderr


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one processor")
def test_a_worker_leaves_the_processor_of_the_caller() -> None:
    done = child("""
        k = loaded(INCREMENT)
        a = np.zeros(5_000_000, np.int64)  # long enough for the worker to get its turn
        usable, before = os.sched_getaffinity(0), set(os.listdir("/proc/self/task"))
        run(k, [a.size], a)
        (worker,) = map(int, set(os.listdir("/proc/self/task")) - before)
        one = min(usable)
        os.sched_setaffinity(0, {one})
        os.sched_setaffinity(worker, {one})
        end = time.monotonic() + 30
        while one in os.sched_getaffinity(worker) and time.monotonic() < end:
            run(k, [a.size], a)
            time.sleep(0.01)
        print(os.sched_getaffinity(worker) == usable - {one})
    """, NAPERIAN_THREADS="2")  # fmt: skip
    assert done.stdout == "True\n", done.stderr


# signals


@pytest.mark.parametrize("ir", ["ENDLESS", "ENDLESS_REGION"])
@pytest.mark.parametrize("entry", ["native", "ctypes"])
@pytest.mark.parametrize("release", ["True", "False"])
def test_interrupt(ir: str, entry: str, release: str) -> None:
    done = child(f"""
        import signal
        runtime.threads(3)
        k = loaded({ir})
        def strike():
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=strike).start()
        zeros = (ctypes.c_int64 * 8)(1000)
        started = time.perf_counter()
        try:
            runtime.run(k, zeros, zeros, zeros, zeros, {release})
            print("no interrupt")
        except KeyboardInterrupt:
            print("interrupted", time.perf_counter() - started < 3)
        a = np.zeros(1000, np.int64)
        run(loaded(INCREMENT), [1000], a)
        print((a == 1).all())
    """, NAPERIAN_ENTRY=entry)  # fmt: skip
    assert done.stdout == "interrupted True\nTrue\n", done.stderr


def test_interrupt_of_a_native_call() -> None:
    done = child("""
        import signal
        from by_hand import Hand, define
        from naperian.types import F64
        f = Hand(define("f", {"x": F64}, F64, sizes=()), ENDLESS, ())
        def strike():
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=strike).start()
        try:
            f(1.0)
        except KeyboardInterrupt:
            print("interrupted", f.slow_calls)
    """)
    assert done.stdout == "interrupted 0\n", done.stderr


def test_other_python_threads_run_during_a_kernel_that_holds_the_lock() -> None:
    """`test_interrupt` without release needs this too: its second thread sends the signal."""
    done = child("""
        import signal
        k = loaded(ENDLESS)
        ticks = []
        def tick():
            for _ in range(5):
                time.sleep(0.01)
                ticks.append(1)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=tick).start()
        zeros = (ctypes.c_int64 * 8)()
        try:
            runtime.run(k, zeros, zeros, zeros, zeros, False)
        except KeyboardInterrupt:
            print(len(ticks))
    """)
    assert done.stdout == "5\n", done.stderr


# memory


def test_memory_is_aligned_and_refused() -> None:
    services = runtime.runtime().services
    alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(services["nap_alloc"])
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(services["nap_free"])
    for n in (0, 1, 63, 64, 1_000_000):
        p = alloc(n)
        assert p is not None
        assert p % 64 == 0
        ctypes.memset(p, 1, n)
        free(p)
    free(None)
    assert alloc(-1) is None
    assert alloc(1 << 50) is None


def test_memory_of_a_run_is_kept_whatever_was_kept_before() -> None:
    services = runtime.runtime().services
    alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(services["nap_alloc"])
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(services["nap_free"])

    def stays(size: int) -> bool:
        p = alloc(size)
        ctypes.memset(p, 7, size)
        free(p)
        q = alloc(size)
        same = ctypes.string_at(q + size - 64, 64) == b"\7" * 64  # fresh memory is zero
        free(q)
        return same

    for p in [alloc((16 << 20) + k) for k in range(10)]:  # more than all that is kept
        free(p)
    assert stays(40 << 20)  # the C library would give it back
    assert not stays(200 << 20)
    assert stays(40 << 20)


# in a process of its own: what other tests have kept would be counted, too
LARGE_RESULTS = """
import re
import naperian as nap, numpy as np

def free_to_go():
    found = re.search(r"LazyFree: +([0-9]+) kB", open("/proc/self/smaps_rollup").read())
    return int(found[1]) // 1024 if found else 0

f = nap.compile("def f(x: n=>Float) -> n=>Float = [v + 1 for v in x]")["f"]
held = [f(np.zeros(k << 17)) for k in range(8, 24)]
used = [a.nbytes >> 20 for a in held]
assert free_to_go() == 0
for k in range(16):  # the last ones stay as they are
    held[k] = None
assert used[-1] <= sum(used) - free_to_go() <= 80, free_to_go()

x = np.zeros(8 << 17)
before = [f(x).ctypes.data, free_to_go()]
assert [f(x).ctypes.data, free_to_go()] == before  # the same memory again, and it stays
f(np.zeros(100 << 17)), f(np.zeros(300 << 17))  # what was used before goes
assert f(x).ctypes.data == before[0]
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="counts in /proc")
def test_memory_that_was_used_last_stays() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LARGE_RESULTS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_thousand_kernels_do_not_grow_memory() -> None:
    image = object_code(DOUBLE_PLUS_ONE)
    services = runtime.runtime().services

    def resident() -> int:
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    for _ in range(100):
        load(image, services)
    before = resident()
    for _ in range(1000):
        load(image, services)
    assert resident() - before < 4 << 20


def test_a_kernel_keeps_its_code() -> None:
    k = loaded(DOUBLE_PLUS_ONE)
    for _ in range(20):
        loaded(INCREMENT)
    gc.collect()
    x, y = np.arange(3.0), np.zeros(3)
    assert run(k, [3], x, y)[0] == 0
    assert y.tolist() == [1, 3, 5]


def test_kernels_compile_in_several_threads() -> None:
    wrong: list[object] = []

    def work(number: int) -> None:
        ir = DOUBLE_PLUS_ONE.replace("2.0", f"{number}.0")
        k = load(compile_ir(ir), runtime.runtime().services)
        x, y = np.ones(5), np.zeros(5)
        run(k, [5], x, y)
        if y.tolist() != [number + 1.0] * 5:
            wrong.append(y)

    started = [threading.Thread(target=work, args=(k,)) for k in range(12)]
    for t in started:
        t.start()
    for t in started:
        t.join()
    assert not wrong


# the cache


def test_an_entry_comes_back(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    made = []
    for _ in range(2):
        assert cache.fetch(key("a"), "o", lambda: made.append(1) or b"body") == b"body"
    assert made == [1]
    assert key("ab", "c") != key("a", "bc")


@pytest.mark.parametrize("damage", [b"", b"nap1", b"x" * 200, None])
def test_a_damaged_entry_is_made_again(tmp_path: Path, damage: bytes | None) -> None:
    cache = Cache(tmp_path)
    name = key("entry")
    cache.put(name, "o", b"body" * 100)
    (path,) = (Path(p) for _, _, p in cache.entries())
    path.write_bytes(path.read_bytes()[:-1] if damage is None else damage)
    assert cache.get(name, "o") is None
    assert cache.fetch(name, "o", lambda: b"again") == b"again"
    assert cache.get(name, "o") == b"again"


def test_the_oldest_entries_go_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=10_000)
    for k in range(10):
        cache.put(key(str(k)), "o", bytes(1500))
        for age, _, path in cache.entries():
            os.utime(path, (age - 10, age - 10))
    cache.trim()
    assert sum(size for _, size, _ in cache.entries()) <= 10_000
    assert cache.get(key("0"), "o") is None
    assert cache.get(key("9"), "o") is not None


def test_a_process_looks_through_the_cache_once_an_hour_at_most(tmp_path: Path) -> None:
    Cache(tmp_path).put("a" * 40, "o", b"x")
    stamp = tmp_path / "trimmed"
    os.utime(stamp, (1e9, 1e9))
    Cache(tmp_path).put("b" * 40, "o", b"x")
    first = stamp.stat().st_mtime
    assert first > 1e9
    os.utime(stamp, (first - 100, first - 100))
    Cache(tmp_path).put("c" * 40, "o", b"x")
    assert stamp.stat().st_mtime == pytest.approx(first - 100)


def test_a_directory_that_cannot_be_written_costs_one_warning(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    cache = Cache(blocked / "inside")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in range(3):
            assert cache.fetch(key(str(k)), "o", lambda: b"made") == b"made"
    assert len(caught) == 1
    assert "NAPERIAN_CACHE" in str(caught[0].message)
    assert cache.trouble is not None


def test_no_cache_at_all() -> None:
    done = child("""
        a = np.zeros(10, np.int64)
        run(loaded(INCREMENT), [10], a)
        print((a == 1).all())
    """, NAPERIAN_CACHE="off")  # fmt: skip
    assert done.stdout == "True\n", done.stderr
    assert done.stderr == ""


def test_two_threads_share_a_directory(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=200_000)
    wrong: list[object] = []

    def work(seed: int) -> None:
        for k in range(150):
            number = (seed + k) % 40
            body = bytes([number]) * 5000
            if cache.fetch(key(str(number)), "o", lambda body=body: body) != body:  # type: ignore[misc]
                wrong.append(number)

    started = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in started:
        t.start()
    for t in started:
        t.join()
    assert not wrong
    assert cache.trouble is None


def test_two_processes_share_a_directory(tmp_path: Path) -> None:
    code = f"""
import sys; sys.path.insert(0, {str(HERE)!r})
from test_runtime import *
for k in range(6):
    x, y = np.ones(5), np.zeros(5)
    run(loaded(DOUBLE_PLUS_ONE.replace("2.0", f"{{k}}.0")), [5], x, y)
    assert y.tolist() == [k + 1.0] * 5
"""
    environment = os.environ | {"NAPERIAN_CACHE": str(tmp_path)}
    children = [
        subprocess.Popen([sys.executable, "-c", code], env=environment) for _ in range(2)
    ]
    assert [c.wait(60) for c in children] == [0, 0]
    assert not list(tmp_path.rglob(".new-*"))


def test_loading_compiled_code_is_fast() -> None:
    loaded(DOUBLE_PLUS_ONE)
    times = []
    for _ in range(10):
        started = time.perf_counter()
        loaded(DOUBLE_PLUS_ONE)
        times.append(time.perf_counter() - started)
    assert min(times) < 0.005
