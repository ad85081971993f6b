"""`python benchmarks/gradients.py`: derivatives beside their functions, and both beside peers.

For each program of ADBench, and a few others, the time of the function, of its value with its
derivative, the ratio of the two with what it should be at most, the time to compile the derivative,
and the time of JAX, PyTorch, Enzyme and gradients written by hand in C, interleaved in one process
on the same data. The programs are those of `examples/` and `programs/`; results are compared before
anything is timed. `--quick` has no peers, and compares the ratios with their budgets and with those
recorded in `gradients.md` instead.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from timing import times
from worker import agree

import naperian as nap
from naperian import pages

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
_CLEARLY = 1.5  # how much worse than recorded a ratio must be to be told


@dataclass(frozen=True)
class Case:
    """A function and its derivative, ours and the peers', and the data of both."""

    name: str
    program: str  # the text
    function: str
    derivative: str
    data: Callable[[], tuple[Any, ...]]  # our arguments
    peer: str  # its name in the modules of the peers: of our arguments, the two thunks
    most: float  # the ratio it should have at most
    slow: tuple[str, ...] = ()  # the peers that are not asked: they take minutes


def page(name: str) -> str:
    """The program of an example."""
    text = (EXAMPLES / f"{name}.md").read_text(encoding="utf-8")
    return next(c.program for c in pages.claims(text) if c.program)


def program(name: str, more: str) -> str:
    return (HERE / "programs" / f"{name}.nap").read_text(encoding="utf-8") + more


def adbench(part: str, *names: str) -> tuple[Any, ...]:
    data = np.load(EXAMPLES / "data" / "adbench.npz")
    return tuple(data[f"{part}_{n}"] for n in names)


def gmm(n: int, d: int, k: int) -> tuple[Any, ...]:
    r = np.random.default_rng(7)
    low = r.standard_normal((k, d * (d - 1) // 2))
    return (r.standard_normal(k), r.uniform(size=(k, d)), r.standard_normal((k, d)), low,
            r.standard_normal((n, d)), 1.0, 0)  # fmt: skip


def lstm() -> tuple[Any, ...]:
    w, bias, extra, hidden, cell, text = adbench(
        "lstm", "w", "bias", "extra", "hidden", "cell", "text"
    )
    return w, bias, extra, {"hidden": hidden, "cell": cell}, text.astype(float)


def long_lstm(layers: int, c: int) -> tuple[Any, ...]:
    r = np.random.default_rng(7)
    w, bias = r.uniform(-1.0, 1.0, (2, layers, 4, 14))
    hidden, cell = r.uniform(-1.0, 1.0, (2, layers, 14))
    extra, text = r.uniform(-1.0, 1.0, (3, 14)), r.integers(0, 2, (c, 14)).astype(float)
    return w, bias, extra, {"hidden": hidden, "cell": cell}, text


def hotspot(n: int, steps: int) -> tuple[Any, ...]:
    heat, power = np.random.default_rng(7).uniform(0.0, 1.0, (2, n, n))
    return heat + 320.0, power * 1e-3, steps, 0.5, 0.1, 0.1, 0.0125, 80.0


def options(n: int) -> tuple[Any, ...]:
    r = np.random.default_rng(7)
    return r.uniform(20, 120, n), r.uniform(20, 120, n), r.uniform(0.1, 2.0, n), 0.03, 0.3


def bundle() -> tuple[Any, ...]:
    (n, m, p), c, x, w, seen = adbench("ba", "sizes", "camera", "point", "weight", "feature")
    parts = {"turn": c[:3], "centre": c[3:6], "focus": c[6], "origin": c[7:9], "bend": c[9:]}
    cameras = {name: np.repeat(v[None], n, axis=0) for name, v in parts.items()}
    each = np.arange(p)
    return cameras, np.tile(x, (m, 1)), np.repeat(w, p), np.tile(seen, (p, 1)), each % n, each % m


def hand(kind: str) -> tuple[Any, ...]:
    def maps(a: Any) -> dict[str, Any]:
        return {"turn": a[..., :3], "shift": a[..., 3]}

    parent, base, inverse, weight, rest = adbench(
        "hand", "parent", "base", "inverse", "weight", "rest"
    )
    model = {"parent": parent, "base": maps(base), "inverse": maps(inverse), "weight": weight,
             "rest": rest}  # fmt: skip
    theta, index, seen = adbench(f"hand_{kind}", "theta", "index", "seen")
    if kind == "simple":
        return theta, model, index, seen
    return (theta, *adbench("hand_complicated", "at"), model, *adbench("hand", "corners"),
            index, seen)  # fmt: skip


HEAT = """
def end(temp: Fin(h)=>Fin(w)=>Float, power: Fin(h)=>Fin(w)=>Float, steps: Int, cap: Float,
        rx: Float, ry: Float, rz: Float, ambient: Float) -> Float:
    t = hotspot(temp, power, steps, cap, rx, ry, rz, ambient)
    sum(t[i, j] for i, j)

def slopes(temp: Fin(h)=>Fin(w)=>Float, power: Fin(h)=>Fin(w)=>Float, steps: Int, cap: Float,
           rx: Float, ry: Float, rz: Float, ambient: Float):
    value_and_grad(end, wrt=("temp", "power"))(temp, power, steps, cap, rx, ry, rz, ambient)
"""

GREEKS = """
def total(s: n=>Float, k: n=>Float, t: n=>Float, r: Float, v: Float) -> Float:
    (call, put) = black_scholes(s, k, t, r, v)
    sum(call) + sum(put)

def greeks(s: n=>Float, k: n=>Float, t: n=>Float, r: Float, v: Float):
    value_and_grad(total, wrt=("s", "k", "t", "r", "v"))(s, k, t, r, v)
"""

# The module of a peer, and the part of what it makes there.
PEERS = {
    "JAX": ("gradient_jax", ""),
    "PyTorch": ("gradient_torch", ""),
    "C by hand": ("gradient_c", "by_hand"),
    "Enzyme": ("gradient_c", "enzyme"),
}

CASES = (
    Case("GMM 1 000, d 10, K 25", page("gmm"), "gmm", "gradient", lambda: gmm(1000, 10, 25),
         "gmm", 2.5),
    Case("GMM 10 000, d 10, K 25", page("gmm"), "gmm", "gradient", lambda: gmm(10000, 10, 25),
         "gmm", 2.5),
    Case("GMM 1 000, d 2, K 200", page("gmm"), "gmm", "gradient", lambda: gmm(1000, 2, 200),
         "gmm", 2.5),
    Case("GMM 1 000, d 20, K 50", page("gmm"), "gmm", "gradient", lambda: gmm(1000, 20, 50),
         "gmm", 2.5),
    Case("GMM 1 000, d 32, K 100", page("gmm"), "gmm", "gradient", lambda: gmm(1000, 32, 100),
         "gmm", 2.5),
    Case("GMM 1 000, d 64, K 200", page("gmm"), "gmm", "gradient", lambda: gmm(1000, 64, 200),
         "gmm", 2.5, ("Enzyme",)),
    Case("GMM 1 000, d 128, K 200", page("gmm"), "gmm", "gradient", lambda: gmm(1000, 128, 200),
         "gmm", 2.5, ("PyTorch", "Enzyme")),
    Case("LSTM 2 layers, 1 024", page("lstm"), "loss", "gradient", lstm, "lstm", 1.5),
    Case("LSTM 2 layers, 4 096", page("lstm"), "loss", "gradient", lambda: long_lstm(2, 4096),
         "lstm", 1.5, ("PyTorch",)),
    Case("LSTM 4 layers, 1 024", page("lstm"), "loss", "gradient", lambda: long_lstm(4, 1024),
         "lstm", 1.5, ("PyTorch",)),
    Case("LSTM 4 layers, 4 096", page("lstm"), "loss", "gradient", lambda: long_lstm(4, 4096),
         "lstm", 1.5, ("PyTorch",)),
    Case("BA 31 843", page("bundle_adjustment"), "errors", "slopes", bundle, "bundle", 6.0),
    Case("HAND simple", page("hand"), "simple", "by_angles", lambda: hand("simple"),
         "hand_simple", 5.0),
    Case("HAND complicated", page("hand"), "complicated", "by_weights_and_angles",
         lambda: hand("complicated"), "hand_complicated", 5.0),
    Case("hotspot 256², 64 steps", program("hotspot", HEAT), "end", "slopes",
         lambda: hotspot(256, 64), "hotspot", 2.0),
    Case("Black-Scholes 10⁶", program("black_scholes", GREEKS), "total", "greeks",
         lambda: options(10**6), "black_scholes", 2.0),
)  # fmt: skip


def measure(case: Case, seconds: float, peers: Iterable[str]) -> str:
    """A line of the table."""
    args = case.data()
    module = nap.compile(case.program)
    function, derivative = module[case.function], module[case.derivative]
    function(*args)
    start = time.perf_counter()
    found = derivative(*args)
    first = time.perf_counter() - start
    thunks = {"naperian": lambda: function(*args), "slope": lambda: derivative(*args)}
    there = []
    for name in peers:
        peer = None if name in case.slow else _peer(name, case.peer, args)
        if peer is None:
            continue
        if not agree(_numbers(found), _numbers(peer[1]()), 1e-8):
            sys.exit(f"{case.name}: {name} has another derivative")
        thunks |= {name: peer[0], f"{name} slope": peer[1]}
        there.append(name)
    took, _ = times(thunks, seconds)
    slope = took["slope"]
    cells = [
        case.name, _ms(took["naperian"]), _ms(slope), f"{slope / took['naperian']:.2f}",
        f"≤ {case.most}", _ms(max(0.0, first - slope)),
    ]  # fmt: skip
    for name in PEERS:
        if name not in there:
            cells.append("–")
            continue
        value, theirs = took[name], took[f"{name} slope"]
        cells.append(f"{_ms(value)}, {_ms(theirs)}, {theirs / value:.2f} ({slope / theirs:.2f}×)")
    return f"| {' | '.join(cells)} |"


def _peer(
    name: str, program: str, args: tuple[Any, ...]
) -> tuple[Callable[[], Any], Callable[[], Any]] | None:
    """What a peer has to say of a program, if it is installed and has it."""
    module, way = PEERS[name]
    try:
        made = getattr(importlib.import_module(module), program, None)
        thunks = made and made(*args)
        return getattr(thunks, way)() if thunks and way else thunks
    except ImportError:
        return None


def _numbers(x: Any) -> list[Any]:
    """The arrays of a result, one after the other."""
    if isinstance(x, tuple | list):
        return [a for y in x for a in _numbers(y)]
    if hasattr(x, "__dataclass_fields__"):
        return [a for name in x.__dataclass_fields__ for a in _numbers(getattr(x, name))]
    values = getattr(x, "values", x)  # those of a triangle; PyTorch's arrays have a method
    return [np.asarray(x if callable(values) else values)]


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"


HEAD = (
    "| program | value | with derivative | ratio | budget | compiled in | "
    + " | ".join(PEERS)
    + " |\n|---|"
    + "--:|" * (5 + len(PEERS))
)


def slower(line: str) -> str | None:
    """What is to be told of a line of the table: its ratio is above what it should be, or clearly
    above what is recorded."""
    name, ratio, budget = (_cells(line)[k] for k in (0, 3, 4))
    recorded = [_cells(x) for x in (HERE / "gradients.md").read_text("utf-8").splitlines()]
    before = next((float(old[3]) for old in recorded if old[0] == name), None)
    if float(ratio) > float(budget.removeprefix("≤ ")):
        return f"{name}: {ratio}, and should be {budget}"
    if before is not None and float(ratio) > _CLEARLY * before:
        return f"{name}: {ratio}, and {before} is recorded"
    return None


def _cells(line: str) -> list[str]:
    return [c.strip() for c in line.strip("|").split("|")]


def quick(only: str) -> None:
    """Every case for a moment, without peers; one that looks slower once more for longer."""
    lost = []
    for case in CASES:
        if only in case.name:
            line = measure(case, 0.1, ())
            print(line, flush=True)
            if slower(line) and (told := slower(measure(case, 1.0, ()))):
                lost.append(told)
    print(f"gradients slower than recorded: {'; '.join(lost) or 'none'}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=1.5, help="for each case")
    options.add_argument("--quick", action="store_true",
                         help="compare ratios with the recorded ones, without peers")  # fmt: skip
    options.add_argument("--only", default="", help="cases whose name contains this")
    options.add_argument("--threads", default="1,2", help="numbers of threads, with commas")
    options.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.worker:
        for case in CASES:
            if chosen.only in case.name:
                print(measure(case, chosen.seconds, PEERS), flush=True)
        return
    if chosen.quick:
        os.environ["NAPERIAN_THREADS"] = "1"
        return quick(chosen.only)
    for threads in map(int, chosen.threads.split(",")):
        cpus = sorted(os.sched_getaffinity(0))[:threads]
        environment = os.environ | {
            "NAPERIAN_THREADS": str(threads),
            "NAPERIAN_CACHE": "off",
            "OMP_NUM_THREADS": str(threads),
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={str(threads > 1).lower()}"
            f" intra_op_parallelism_threads={threads}",
        }
        print(f"\n{threads} thread{'s' * (threads > 1)}\n\n{HEAD}", flush=True)
        subprocess.run(
            [sys.executable, __file__, "--worker", *sys.argv[1:]], env=environment, check=True,
            preexec_fn=lambda cpus=cpus: os.sched_setaffinity(0, cpus),
        )  # fmt: skip


if __name__ == "__main__":
    main()
