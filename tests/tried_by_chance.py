"""Programs by chance, tried: the interpreter beside compiled code on one thread and on two,
derivatives forward beside reverse and finite differences. What fails is made small:

    python tests/tried_by_chance.py FIRST COUNT [wider|richer]

prints the programs of so many seeds that are wrong, and why; `wider` ones are those of
`wider_by_chance`, `richer` ones those of `richer_by_chance`. `NAPERIAN_TARGET` says for which
processor they are compiled.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from alike import STOPPED, outcome
from made_small import smallest
from programs_by_chance import program
from richer_by_chance import program as richer
from wider_by_chance import program as wider

import naperian as nap
from naperian import draws, pipeline, trial
from naperian.core.bounds import Dear, Unended
from naperian.values import as_data

SIZES = ((2, 3, 4), (0, 2, 0), (1, 1, 1), (4, 2, 5), (9, 3, 11), (2, 17, 25))
"""Of `Fin(n)` and `Fin(m)`, and how many elements rows have together."""
ELEMENTS = 600  # the interpreter goes through no more of them
_NAMES = re.compile(r"[\w']*\d[\w.']*|`[^`]*`")


def wrong(text: str, seed: int) -> str | None:
    """What is wrong with `f` of a program, the kind of mistake first."""
    try:
        f = nap.compile(text, "chance.nap")["f"]
        if f._text.refusal:  # rows whose lengths have no closed sum
            return None
        tried = trial._Trial(f, float("inf"))
        tried.elements = ELEMENTS
        for number, sizes in enumerate(SIZES):
            slots = sizes[: len(f._text.slots)]
            if draws.allowed(f._text, slots):
                found = _at(tried, slots, seed + number, draws.KINDS[number % len(draws.KINDS)])
                if found is not None:
                    return found
    except nap.CompileError as e:
        return f"refused: {e}"
    except Exception as e:  # each is a mistake of ours
        return f"{type(e).__name__}: {e}"
    return None


def _at(tried: trial._Trial, slots: tuple[int, ...], seed: int, kind: str) -> str | None:
    """What is wrong at these sizes."""
    try:
        finding = tried.failure(slots, seed, kind)
    except (Dear, Unended):
        return None
    if finding is not None:
        return f"{finding.what}: {finding!r}"
    given = draws.draw(tried.f._text, tried.types, slots, np.random.default_rng(seed), kind)
    if given is None:
        return None
    values, before = [], nap.threads()
    for count in (1, 2):
        nap.threads(count)
        values.append(outcome(partial(trial._called, tried.f, given)))
    nap.threads(before)
    one, two = values
    if one is STOPPED and two is STOPPED:
        return None
    if repr(as_data(one)) != repr(as_data(two)):
        return f"two threads: {two} is not {one}"
    return None


def made_small(text: str, seed: int) -> str:
    """The smallest part of a program that is wrong in the same way."""

    def kind(found: str | None) -> str | None:
        return found and _NAMES.sub("", found.partition("\n")[0])

    first = kind(wrong(text, seed))
    return smallest(text, lambda other: kind(wrong(other, seed)) == first)


def main(first: int, count: int, made: Callable[[int], str]) -> None:
    warnings.simplefilter("ignore")
    pipeline.every_step = True
    for seed in range(first, first + count):
        if wrong(made(seed), seed) is not None:
            text = made_small(made(seed), seed)
            print(f"{text}\n{seed}: {wrong(text, seed)}\n", flush=True)


if __name__ == "__main__":
    made = {"wider": wider, "richer": richer}.get(sys.argv[-1], program)
    main(int(sys.argv[1]), int(sys.argv[2]), made)
