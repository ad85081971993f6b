"""How long calls take, on a machine that others use too.

A figure is the lower quartile of the times of a peer's undisturbed calls. What else runs on the
machine, or beside it on the same hardware, only ever makes a call longer, and sometimes most of
them; what the call itself needs is in the lower part, and a quarter of them is not luck. A call is
disturbed if the system took the processor from this process meanwhile (an involuntary context
switch).
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Call = Callable[[], Any]

_ROUNDS = 6  # at least
_ENOUGH = 8  # undisturbed times, for the others not to count
_FAR = 3  # whoever has had this many times the time of another one sits a round out


def times(calls: Mapping[str, Call], seconds: float) -> tuple[dict[str, float], float]:
    """What a call of each takes, and the share of all calls that were disturbed.

    Everybody has a turn in every round, so that each meets the same machine; but who takes long has
    fewer, since nothing depends on its last digits. In its turn a peer is called untimed for 3 ms,
    then timed for 2 ms and three times at least: who follows a peer with copies of its own (JAX)
    would find the caches full of them, and threads asleep. Before that, the threads of the other
    peer go to sleep: libgomp's spin for 5 ms.
    """
    bundle = {name: _bundle(call) for name, call in calls.items()}
    clean: dict[str, list[float]] = {name: [] for name in calls}
    disturbed: dict[str, list[float]] = {name: [] for name in calls}
    had = dict.fromkeys(calls, 0.0)
    start, rounds, spent, share = time.perf_counter(), 0, 0.0, 0.0
    # where most are disturbed, twice as long finds more that are not
    while spent < seconds * (2 if share > 0.5 else 1) or rounds < _ROUNDS:
        if spent > 20 * seconds:
            break
        rounds += 1
        for name, call in calls.items():
            if had[name] > _FAR * min(had.values()) > 0:
                continue
            time.sleep(0.006)
            _again(call, 0.003)
            began, done = time.perf_counter(), 0
            while time.perf_counter() - began < 0.002 or done < 3:
                took, switched = _timed(call, bundle[name])
                (disturbed if switched else clean)[name].append(took)
                done += 1
            had[name] += time.perf_counter() - began
        spoilt, fine = (sum(map(len, x.values())) for x in (disturbed, clean))
        share, spent = spoilt / (spoilt + fine), time.perf_counter() - start
    return {name: _quartile(clean[name], disturbed[name]) for name in calls}, share


def _bundle(call: Call) -> int:
    """How many calls are timed as one: short ones would take no longer than the clock's noise."""
    start = time.perf_counter()
    call()
    return max(1, int(1e-4 / max(time.perf_counter() - start, 1e-7)))


def _again(call: Call, seconds: float) -> None:
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        call()


def _timed(call: Call, bundle: int) -> tuple[float, bool]:
    """The time of a call, of so many, and whether the system interrupted them."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
    start = time.perf_counter()
    for _ in range(bundle):
        call()
    took = (time.perf_counter() - start) / bundle
    return took, resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw > before


def _quartile(clean: list[float], disturbed: list[float]) -> float:
    """The lower quartile of the undisturbed times; of all, where those are few."""
    counting = clean if len(clean) >= _ENOUGH else clean + disturbed
    return float(np.quantile(counting, 0.25))
