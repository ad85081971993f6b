"""Random flat programs mean the same as loops: `ainf.run == loops.run`.

A program is a list of arrays over (n), (m, n), …: element-wise operations, partial sums,
transposed, reversed and shifted reads, guards, gathers, carried values; every line reads earlier
ones. Values are small whole numbers, so that sums in any order are equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from naperian.ainf import run as ainf
from naperian.ainf.check import check as check_ainf
from naperian.ainf.parse import parse
from naperian.loops import run as loops
from naperian.loops.check import check
from naperian.loops.show import show
from naperian.passes.fusion.schedule import schedule
from naperian.passes.nests.allocate import allocate

AXES = ("n", "m")
Shape = tuple[str, ...]


@dataclass
class Text:
    """The lines so far, and the arrays that may be read: a name and the extents of its axes."""

    lines: list[str]
    arrays: list[tuple[str, Shape]]
    count: int = 0

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def define(self, shape: Shape, indices: list[str], right: str, guard: str = "") -> str:
        v = self.fresh("v")
        bounds = ", ".join(f"{i}<{n}" for i, n in zip(indices, shape, strict=True))
        head = f"for {bounds}{guard}: " if indices else ""
        self.lines.append(f"  {head}{v} = {right}")
        return v


@st.composite
def index_of(draw: st.DrawFn, extent: str, here: dict[str, str], certain: bool) -> str:
    """An expression in range of an axis, in terms of open indices; nonnegative sizes may be 0,
    so an axis can be read only inside a loop over it."""
    same = [i for i, n in here.items() if n == extent]
    i = draw(st.sampled_from(same))
    if certain:
        return i
    return draw(
        st.sampled_from(
            [i, i, i, f"clamp({i} - 1, {extent})", f"clamp({i} + 1, {extent})",
             f"{extent} - 1 - {i}", f"wrap({i} + 1, {extent})", f"wrap({i} - 1, {extent})"]
        )
    )  # fmt: skip


@st.composite
def read(draw: st.DrawFn, text: Text, here: dict[str, str]) -> str:
    """A read of an array whose axes are all open, or a literal."""
    open_ = set(here.values())
    fit = [(v, s) for v, s in text.arrays if set(s) <= open_]
    if not fit or draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(["0.0", "1.0", "2.0", "-1.0"]))
    v, shape = draw(st.sampled_from(fit[-6:]))
    if not shape:
        return v
    return f"{v}[{', '.join(draw(index_of(n, here, False)) for n in shape)}]"


def with_context(text: Text, shape: Shape, indices: list[str], name: str, args: list[str]) -> None:
    """A line whose context is what its operands mention (every index, by the last one)."""
    used = [k for k, i in enumerate(indices) if any(_mentions(a, i) for a in args)]
    kept = tuple(shape[k] for k in used)
    v = text.define(kept, [indices[k] for k in used], f"{name}({', '.join(args)})")
    text.arrays.append((v, kept))


def _mentions(text: str, index: str) -> bool:
    word = ""
    for c in text + " ":
        if c.isalnum() or c == "_":
            word += c
        else:
            if word == index:
                return True
            word = ""
    return False


@st.composite
def program(draw: st.DrawFn) -> str:
    given = {"x": ("n",), "y": ("m",), "a": ("n", "m"), "b": ("m", "n"), "q": ("n", "n")}
    text = Text([], list(given.items()))
    for _ in range(draw(st.integers(1, 8))):
        what = draw(st.sampled_from(["map", "map", "map", "sum", "sum", "guard", "carry", "table",
                                     "scatter", "gather", "argmax"]))  # fmt: skip
        shape = tuple(draw(st.lists(st.sampled_from(AXES), min_size=0, max_size=2)))
        indices = [text.fresh("i") for _ in shape]
        here = dict(zip(indices, shape, strict=True))
        match what:
            case "map":
                name = draw(st.sampled_from(["add", "sub", "max", "min"]))
                args = [draw(read(text, here)) for _ in range(2)]
                with_context(text, shape, indices, name, args)
            case "sum":
                extent = draw(st.sampled_from(AXES))
                k = text.fresh("k")
                value = draw(read(text, here | {k: extent}))
                if not _mentions(value, k):
                    continue
                used = [j for j, i in enumerate(indices) if _mentions(value, i)]
                kept = tuple(shape[j] for j in used)
                monoid, init = draw(st.sampled_from([("add", "0.0"), ("max", "-9.0")]))
                right = f"{monoid} over {k}<{extent} of {value} from {init}"
                v = text.define(kept, [indices[j] for j in used], right)
                text.arrays.append((v, kept))
            case "argmax":
                extent = draw(st.sampled_from(AXES))
                k = text.fresh("k")
                value = draw(read(text, here | {k: extent}))
                used = [j for j, i in enumerate(indices) if _mentions(value, i)]
                if not _mentions(value, k):
                    continue
                kept = tuple(shape[j] for j in used)
                kept_i = [indices[j] for j in used]
                p = text.define(kept, kept_i, f"argmax over {k}<{extent} of {value} from 0")
                place = f"{p}[{', '.join(kept_i)}]" if kept else p
                v = text.define(kept, kept_i, f"cast[F64]({place})")
                text.arrays.append((v, kept))
            case "guard":
                if not shape:
                    continue
                i, n = indices[0], shape[0]
                fit = [v for v, s in text.arrays if s == (n,)]
                if not fit:
                    continue
                z = draw(st.sampled_from(fit))
                off = draw(st.sampled_from([1, 2]))
                c = text.define((n,), [i], f"lt({i}, {n} - {off})")
                j = text.fresh("i")
                fact = f" if {c}[{j}] ({n} - {off + 1} - {j} >= 0)"
                u = text.define((n,), [j], f"mul({z}[{j} + {off}], 2.0)", fact)
                l = text.fresh("i")
                v = text.define((n,), [l], f"select({c}[{l}], {u}[{l}], {z}[{l}])")
                text.arrays.append((v, (n,)))
            case "carry":
                # a carried value for every point of `shape`
                u, t, time = text.fresh("u"), text.fresh("t"), draw(st.sampled_from(["2", *AXES]))
                inside = draw(read(text, here | ({t: time} if time != "2" else {})))
                used = [j for j, i in enumerate(indices) if _mentions(inside, i)]
                kept = tuple(shape[j] for j in used)
                kept_i = [indices[j] for j in used]
                h, v = text.fresh("h"), text.fresh("v")
                bounds = "".join(f"{i}<{n}, " for i, n in zip(kept_i, kept, strict=True))
                place = "".join(f"{i}, " for i in kept_i)
                text.lines.append(
                    f"  for {bounds}{u}: {h} = delay over {t}<{time} from 1.0 next {v}[{place}{t}]"
                )
                text.lines.append(
                    f"  for {bounds}{t}: {v} = {draw(st.sampled_from(['sub', 'max']))}"
                    f"({inside}, {h}[{place}{t}])"
                )
                r = text.define(kept, kept_i, f"add({h}[{place}{time}], 1.0)")
                text.arrays.append((r, kept))
                if time != "2" and draw(st.booleans()):
                    text.arrays.append((v, (*kept, time)))
                    k2 = text.fresh("i")
                    past = text.define((*kept, time), [*kept_i, k2], f"add({h}[{place}{k2}], 0.0)")
                    if draw(st.booleans()):
                        text.arrays.append((past, (*kept, time)))
            case "table":
                n = draw(st.sampled_from(AXES))
                a, i, u, t = (text.fresh(w) for w in "aiut")
                h, v, w = text.fresh("h"), text.fresh("v"), text.fresh("v")
                start = draw(read(text, {a: n}))
                other = draw(index_of(n, {i: n}, False))
                text.lines.append(
                    f"  for {a}<{n}, {u}: {h} = delay over {t}<3 from {start} next {v}[{t}, {a}]"
                )
                more = draw(read(text, {i: n}))
                text.lines.append(f"  for {t}, {i}<{n}: {w} = sub({h}[{other}, {t}], {more})")
                text.lines.append(f"  for {t}, {i}<{n}: {v} = max({w}[{t}, {i}], {h}[{i}, {t}])")
                b = text.fresh("i")
                r = text.define((n,), [b], f"add({h}[{b}, 3], 1.0)")
                text.arrays.append((r, (n,)))
            case "scatter":
                n = draw(st.sampled_from(AXES))
                b, k = text.fresh("b"), text.fresh("k")
                p = {"n": "p", "m": "r"}[n]  # p: of m into n, r: of n into m
                extent = {"n": "m", "m": "n"}[n]
                value = draw(read(text, {k: extent}))
                right = f"add over {k}<{extent} at [{p}[{k}]] of {value} from 0.0"
                v = text.define((n,), [b], right)
                text.arrays.append((v, (n,)))
            case "gather":
                n = draw(st.sampled_from(AXES))
                p = {"n": "r", "m": "p"}[n]  # r: of n into m
                fit = [v for v, s in text.arrays if s == ({"n": "m", "m": "n"}[n],)]
                i = text.fresh("i")
                z = draw(st.sampled_from(fit))
                v = text.define((n,), [i], f"mul({z}[{p}[{i}]], 2.0)")
                text.arrays.append((v, (n,)))
    made = text.arrays[5:] or text.arrays
    for v, shape in draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique=True)):
        names = [text.fresh("o") for _ in shape]
        back = names[::-1] if draw(st.booleans()) else names
        bounds = [f"{i}<{n}" for i, n in zip(names, shape, strict=True)]
        if back is not names:
            bounds.reverse()
        head = f"for {', '.join(bounds)}: " if shape else ""
        text.lines.append(f"  return {head}{v}{'[' + ', '.join(names) + ']' if shape else ''}")
    header = (
        "def f(n, m; x: F64[n], y: F64[m], a: F64[n, m], b: F64[m, n], q: F64[n, n],"
        " p: I64[m] < n, r: I64[n] < m):"
    )
    return "\n".join([header, *text.lines])


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(program(), st.sampled_from([(0, 0), (1, 1), (1, 2), (2, 1), (5, 2), (2, 5), (5, 5)]))
def test_random_programs(text: str, point: tuple[int, int]) -> None:
    flat = parse(text)
    check_ainf(flat)
    made = check(allocate(check(schedule(flat))))
    n, m = point
    rng = np.random.default_rng(n * 7 + m)
    args = [rng.integers(-3, 4, s).astype(float) for s in ((n,), (m,), (n, m), (m, n), (n, n))]
    args += [rng.integers(0, max(n, 1), m), rng.integers(0, max(m, 1), n)]
    want = ainf.run(flat, point, args)
    got = loops.run(made, point, args)
    for w, g in zip(want, got, strict=True):
        np.testing.assert_array_equal(g, w, err_msg=show(made))
