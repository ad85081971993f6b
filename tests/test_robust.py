"""What goes wrong around a compiler: interrupts, no home, a full disk, little stack, company."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import naperian as nap
from naperian.backends.cache import default_directory

TWICE = "def twice(x: n=>Float) -> n=>Float = 2.0 * x\n"
LONG = "def long(x: n=>Float) -> n=>Float:\n" + "".join(
    f"    x = sin(x) * exp(x - {k}.5) + x / (1.0 + x * x)\n" for k in range(60)
) + "    x\n"  # fmt: skip

USE = """\
import sys, warnings
import numpy as np
import naperian as nap
m = nap.compile({text!r})
print("ready", flush=True)
print(m[{name!r}](np.zeros(3)).shape)
"""


def child(text: str, name: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", USE.format(text=text, name=name)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment,
    )  # fmt: skip


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.2, 0.5])
def test_an_interrupted_compilation_leaves_a_good_cache(tmp_path: Path, delay: float) -> None:
    first = child(LONG, "long", NAPERIAN_CACHE=str(tmp_path))
    assert first.stdout is not None
    assert first.stdout.readline() == "ready\n"
    time.sleep(delay)
    first.send_signal(signal.SIGINT)
    out, err = first.communicate(timeout=60)
    assert out == "(3,)\n" or err.rstrip().endswith("KeyboardInterrupt")
    assert not list(tmp_path.rglob(".new-*"))
    out, err = child(LONG, "long", NAPERIAN_CACHE=str(tmp_path)).communicate(timeout=60)
    assert (out, err) == ("ready\n(3,)\n", "")


def test_a_compilation_can_be_interrupted_and_done_again() -> None:
    timer = threading.Timer(0.1, lambda: signal.raise_signal(signal.SIGINT))
    m: Any = nap.compile(LONG.replace("long", "again"))
    timer.start()
    try:
        m.again(np.zeros(3))
    except KeyboardInterrupt:
        pass
    finally:
        timer.cancel()
        timer.join()
    assert m.again(np.zeros(3)).shape == (3,)


@pytest.mark.parametrize("home", ["/dev/null", "/nonexistent/home", ""])
def test_without_a_home_everything_works(home: str) -> None:
    clean = {k: v for k, v in os.environ.items() if k not in ("NAPERIAN_CACHE", "XDG_CACHE_HOME")}
    done = subprocess.run(
        [sys.executable, "-c", USE.format(text=TWICE, name="twice")],
        capture_output=True, text=True, check=False, cwd="/",
        env=clean | {"HOME": home or "/proc/self"},
    )  # fmt: skip
    assert done.stdout == "ready\n(3,)\n"
    assert done.stderr.count("RuntimeWarning: naperian keeps no compiled code") <= 1
    assert "Traceback" not in done.stderr


def test_a_relative_directory_of_caches_is_ignored(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NAPERIAN_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")
    assert default_directory() == tmp_path / ".cache" / "naperian"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert default_directory() == tmp_path / "caches" / "naperian"


def test_a_full_disk_costs_one_warning(tmp_path: Path) -> None:
    limited = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        + USE.format(text=TWICE, name="twice")
    )
    done = subprocess.run(
        [sys.executable, "-c", limited], capture_output=True, text=True, check=False,
        env=os.environ | {"NAPERIAN_CACHE": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout == "ready\n(3,)\n"
    assert done.stderr.count("RuntimeWarning") == 1
    assert "File too large" in done.stderr
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_a_small_recursion_limit_of_the_host_is_raised_and_put_back() -> None:
    before = sys.getrecursionlimit()
    deep = "def deep(x: Float) -> Float = " + "exp(" * 150 + "0.0 * x" + ")" * 150
    sys.setrecursionlimit(200)
    try:
        m: Any = nap.compile(deep)
        assert m.deep(1.0) == np.inf
        assert sys.getrecursionlimit() == 200
    finally:
        sys.setrecursionlimit(before)


def test_a_thread_with_a_small_stack_compiles() -> None:
    done: list[float] = []
    text = "def small(x: Float) -> Float = " + "abs(" * 150 + "x - 2.0" + ")" * 150
    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=lambda: done.append(nap.compile(text)["small"](0.5)))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert done == [1.5]


# ---------------------------------------------------------------- many compilations


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.long)])
def test_compilations_of_different_texts_do_not_grow_memory(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAPERIAN_CACHE", "off")
    x = np.arange(3.0)

    def once(k: int) -> None:
        m: Any = nap.compile(f"def f(x: n=>Float) -> n=>Float = sqrt(x + {k}.0) * exp(x - x)\n")
        assert m.f(x)[0] == np.sqrt(k)

    def resident() -> int:
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def batch(numbers: range) -> None:
        # Cycles wait for Python's collector, which comes the more rarely the more objects there
        # are: with what waits, the heap goes up to 3 MB in the first few hundred compilations and
        # then no more. Collected every so often they leave what really grows: 3 kB each, the
        # callbacks of two pass builders, which llvmlite never frees.
        for k in numbers:
            once(k)
            if k % 20 == 0:
                gc.collect()

    batch(range(40))
    before = resident()
    batch(range(40, 40 + count))
    assert resident() - before < 5 << 20


# ---------------------------------------------------------------- company


def test_threads_and_processes_compile_the_same_and_different_things(tmp_path: Path) -> None:
    code = f"""\
import threading
import numpy as np
import naperian as nap
wrong = []

def work(k):
    m = nap.compile({TWICE!r} + f"def add(x: Float) -> Float = x + {{k % 3}}.0\\n")
    if m.twice(np.ones(2)).tolist() != [2.0, 2.0] or m.add(1.0) != 1.0 + k % 3:
        wrong.append(k)

threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
for t in threads: t.start()
for t in threads: t.join()
assert not wrong, wrong
"""
    environment = os.environ | {"NAPERIAN_CACHE": str(tmp_path)}
    children = [subprocess.Popen([sys.executable, "-c", code], env=environment) for _ in range(3)]
    assert [c.wait(120) for c in children] == [0, 0, 0]
    assert not list(tmp_path.rglob(".new-*"))


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_functions_go_to_other_processes(method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    m: Any = nap.compile(TWICE)
    assert m.twice([1.0]).tolist() == [2.0]
    with multiprocessing.get_context(method).Pool(2) as pool:
        parts = pool.map(m.twice, [np.full(3, float(k)) for k in range(4)])
    assert [p[0] for p in parts] == [0.0, 2.0, 4.0, 6.0]


def test_functions_and_modules_pickle_by_their_text() -> None:
    m: Any = nap.compile(TWICE)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps((m, m.twice), protocol))
        assert again[0].twice([1.0]).tolist() == again[1]([1.0]).tolist() == [2.0]


def test_threads_share_a_function() -> None:
    m: Any = nap.compile(TWICE)
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(m.twice, [np.full(k + 1, 1.0) for k in range(200)]))
    assert [p.sum() for p in parts] == [2.0 * (k + 1) for k in range(200)]
