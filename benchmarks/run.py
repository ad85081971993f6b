"""`python benchmarks/run.py`: Naperian beside C, NumPy, Numba, JAX and PyTorch, as table and JSON.

All peers of a case run interleaved in one process on the same data, and their results are compared;
every number of threads gets a process of its own. What a figure is says `timing.py`. Writes
`results.json` and `results.md` (and `results.png` with Matplotlib) into `--out`. `--quick` compares
the ratios to C and NumPy with those recorded in `results.json` instead.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import checking

HERE = Path(__file__).parent
PEERS = ("gcc", "numpy", "numba", "jax", "torch")
_CLEARLY = 1.5  # how much worse than recorded a ratio must be to be told


def measure(
    threads: int, seconds: float, only: list[str], peers: list[str]
) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """The cases at this number of threads, and what was compiled once for all of them."""
    cpus = sorted(os.sched_getaffinity(0))[:threads]
    environment = os.environ | {
        "NAPERIAN_THREADS": str(threads),
        "NAPERIAN_CACHE": "off",  # the first call is to show what compiling takes
        "OMP_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "NUMBA_NUM_THREADS": str(threads),
        "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={str(threads > 1).lower()}"
        f" intra_op_parallelism_threads={threads}",
        "JAX_PLATFORMS": "cpu",
    }
    done = subprocess.Popen(
        [
            sys.executable,
            str(HERE / "worker.py"),
            "--seconds",
            str(seconds),
            "--only",
            *only,
            "--peers",
            *peers,
        ],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cpus),
    )
    assert done.stdout is not None
    rows = []
    once = json.loads(done.stdout.readline())["once"]
    for line in done.stdout:
        rows.append(json.loads(line) | {"threads": threads})
        print(table_row(rows[-1]), flush=True)
    if done.wait():
        sys.exit(f"the worker with {threads} threads failed")
    return rows, once


def machine() -> dict[str, str]:
    """What the numbers depend on."""
    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text().splitlines()
        model = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), model)
    return {
        "cpu": model,
        "cpus": str(len(os.sched_getaffinity(0))),
        "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
    }


HEAD = (
    "| case | threads | naperian | compile | "
    + " | ".join(f"{p} (ours/{p})" for p in PEERS)
    + " |\n|---|--:|--:|--:|"
    + "--:|" * len(PEERS)
)


def table_row(row: dict[str, Any]) -> str:
    ours = row["seconds"]["naperian"]
    cells = []
    for peer in PEERS:
        if peer not in row["seconds"]:
            cells.append("missing" if "Error" in row["absent"].get(peer, "") else "–")
        else:
            theirs = row["seconds"][peer]
            wrong = " **wrong**" if peer in row["wrong"] else ""
            cells.append(f"{unit(theirs)} ({ours / theirs:.2f}×){wrong}")
    name = row["case"] + (" **wrong**" if "naperian" in row["wrong"] else "")
    texts = [name, str(row["threads"]), unit(ours), unit(row["compiling"]["naperian"]), *cells]
    return f"| {' | '.join(texts)} |"


def unit(seconds: float) -> str:
    for name, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {name}"
    return f"{seconds / 1e-9:.3g} ns"


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 0.35 * len(rows) + 1.2), layout="constrained")
    axes = figure.subplots()
    for peer in PEERS:
        at = [(r["seconds"][peer] / r["seconds"]["naperian"], k) for k, r in enumerate(rows)
              if peer in r["seconds"]]  # fmt: skip
        axes.plot([x for x, _ in at], [y for _, y in at], "o", label=peer, alpha=0.8)
    axes.axvline(1.0, color="black", lw=0.8)
    axes.set_yticks(range(len(rows)), [f"{r['case']}, {r['threads']} thr." for r in rows])
    axes.set(xscale="log", xlabel="time of the peer / time of Naperian")
    axes.invert_yaxis()
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120)


def slower(rows: list[dict[str, Any]], recorded: list[dict[str, Any]]) -> list[str]:
    """The cases in which we lost ground on every peer: by more than half, which noise seldom does.

    A ratio of two times of one process is compared, so the machine matters little; that it must be
    so beside each peer leaves out a peer that only got faster.
    """
    before = {(r["case"], r["threads"]): r["seconds"] for r in recorded}
    lost = []
    for row in rows:
        now, old = row["seconds"], before.get((row["case"], row["threads"]))
        shared = [p for p in PEERS if old and p in now and p in old]
        if not old or not shared:
            continue
        least = min((now["naperian"] / now[p]) / (old["naperian"] / old[p]) for p in shared)
        if least > _CLEARLY:
            lost.append(row["case"])
            print(f"{row['case']}, {row['threads']} thr.: {least:.2f} times the recorded ratio")
    return lost


def quick(only: list[str], strict: bool) -> int:
    """Every case for a moment beside C and NumPy; those that look slower once more for longer."""
    peers = ["gcc", "numpy"]
    rows, _ = measure(1, 0.1, only, peers)
    recorded = json.loads((HERE / "results.json").read_text("utf-8"))["rows"]
    doubtful = slower(rows, recorded)
    if doubtful:
        print("once more, for longer:")
        doubtful = slower(measure(1, 1.0, doubtful, peers)[0], recorded)
    print(f"slower than recorded: {', '.join(doubtful) or 'none'}")
    return 1 if any(r["wrong"] for r in rows) or (strict and doubtful) else 0


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true",
                         help="compare ratios with the recorded ones in a minute")  # fmt: skip
    options.add_argument("--strict", action="store_true", help="with --quick: fail if one is worse")
    options.add_argument("--only", default="", help="cases whose names contain this; with commas")
    options.add_argument("--peers", default=",".join(PEERS), help="with commas; NumPy always is")
    options.add_argument("--seconds", type=float, default=1.5, help="how long a case takes")
    options.add_argument("--threads", default="1,2", help="numbers of threads, with commas")
    options.add_argument("--out", default="out",
                         help="the directory for the results; of those there, rows that"
                         " are not measured now are kept if --only says so")  # fmt: skip
    options.add_argument("--plot", action="store_true", help="also draw the ratios")
    chosen = options.parse_args()
    only = chosen.only.split(",")
    print(HEAD)
    if chosen.quick:
        return quick(only, chosen.strict)
    out = Path(chosen.out)
    out.mkdir(parents=True, exist_ok=True)
    made = out / "results.json"
    old = json.loads(made.read_text("utf-8"))["rows"] if chosen.only and made.exists() else []
    new: list[dict[str, Any]] = []
    once: dict[str, float] = {}
    for threads in map(int, chosen.threads.split(",")):
        more, once = measure(threads, chosen.seconds, only, chosen.peers.split(","))
        new += more
    about = machine()
    about["once"] = ", ".join(f"{what} {unit(took)}" for what, took in once.items())
    text = checking.program()
    about["checking"] = f"{text.count(chr(10))} lines checked in {checking.seconds(text):.2f} s"
    print(about["checking"])
    rows = merged(old, new)
    made.write_text(
        json.dumps({"machine": about, "rows": rows}, indent=1, ensure_ascii=False), "utf-8"
    )
    table = "\n".join([HEAD, *map(table_row, rows)])
    spoilt = sum(r.get("disturbed", 0.0) for r in rows) / max(1, len(rows))
    head = (
        f"{about['cpu']}, {about['date']}; {about['checking']}; "
        f"compiled once and kept in the cache: {about['once']}\n\n"
        "A time is the lower quartile of the calls that nothing interrupted, the peers in turn;"
        f" {100 * spoilt:.0f} % of all calls were interrupted."
    )
    (out / "results.md").write_text(f"{head}\n\n{table}\n", "utf-8")
    if chosen.plot:
        if find_spec("matplotlib") is None:
            print("no plot: Matplotlib is missing", file=sys.stderr)
        else:
            plot(rows, out / "results.png")
    return 1 if any(r["wrong"] for r in new) else 0


def merged(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The old rows, each replaced by a new one of the same case and threads; then the other new."""
    rows = {(r["case"], r["threads"]): r for r in (*old, *new)}
    return list(rows.values())


if __name__ == "__main__":
    sys.exit(main())
