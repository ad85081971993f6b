"""`python benchmarks/checking.py`: how long reading and type checking takes.

The program has the size and the look of a cell model's right side: four functions of about a
hundred lines of arithmetic on scalars, with sums over a table and lifted calls among them.
"""

from __future__ import annotations

import random
import time

from naperian import pipeline
from naperian.source import Source, render


def program(functions: int = 4, lines: int = 95) -> str:
    """About `functions * lines` lines of numeric code, always the same."""
    r = random.Random(1)

    def expr(names: list[str], depth: int) -> str:
        if depth == 0:
            return r.choice([*names, "0.5", "2.0", "y[3]", "parameters[7]"])
        left, right = expr(names, depth - 1), expr(names, depth - 1)
        kind = r.random()
        if kind < 0.15:
            return f"exp({left})"
        if kind < 0.2:
            return f"({left} if {expr(names, 1)} > 0.0 else {right})"
        return f"({left} {r.choice('+-*/')} {right})"

    made = []
    for f in range(functions):
        names, body = ["time"], []
        for i in range(lines):
            kind = r.random()
            if kind < 0.2:
                body.append(f"v{i} = sum(y[j] * {expr(names[-8:], 2)} for j)")
            elif kind < 0.3:
                body.append(f"t{i} = exp(y * {expr(names[-8:], 1)}) + y")
                body.append(f"v{i} = t{i}[2]")
            else:
                body.append(f"v{i} = {expr(names[-8:], 3)}")
            names.append(f"v{i}")
        head = f"def f{f}(time: Float, y: Fin(91)=>Float, parameters: Fin(18)=>Float) -> Float:"
        made.append("\n    ".join([head, *body, names[-1]]) + "\n")
    return "\n".join(made)


def seconds(text: str) -> float:
    """The best of five of reading and checking a text."""
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        module, wrong = pipeline.front(Source("cell.nap", text))
        best = min(best, time.perf_counter() - start)
        assert module is not None, "\n".join(map(render, wrong))
    return best


if __name__ == "__main__":
    text = program()
    print(f"{text.count(chr(10))} lines checked in {seconds(text):.2f} s")
