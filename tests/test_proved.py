"""Indices that loops move by hand: what is proved needs no check, what is nearly so keeps it, and
generated loops do what the interpreter does, error for error."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import naperian as nap
from naperian import pipeline
from naperian.core import places as core_places
from naperian.core import run as core_run
from naperian.core.values import from_numpy, to_numpy
from naperian.leaves import rebuild
from naperian.loops import run as loops_run
from naperian.loops.syntax import Program
from naperian.names import Var
from naperian.passes.nests import allocate
from naperian.passes.nests.lines import Choice, Known, Line, line, plus, put, symbol
from naperian.sizes import size
from naperian.source import Source, render
from naperian.substitution import Substitution
from naperian.types import Type


def checks(text: str) -> int:
    """How many checks and clamped reads are left."""
    shown = [x for x in nap.compile(text).f.show("loops").splitlines() if "for " not in x]
    return sum(x.strip().startswith("fail") + x.count("clamp(") for x in shown)


SORT = """
def f(x: Fin(n)=>Int) -> Fin(n)=>Int:
    with state(x) as a:
        for i in 1..n:
            v = a[i]
            _ = with state(i + 0) as j:
                while j > 0 and a[(j - 1)?] > v:
                    a[j?] := a[(j - 1)?]
                    j := j - 1
                a[j?] := v
            ()
"""
STACK = """
def f(x: Fin(n)=>Int) -> Fin(n)=>Int:
    first = [0 for _ in Fin(n)]
    (_, _, o) = with state(first) as st, state(0) as top, state(first) as o:
        for i:
            while top > 0 and x[clamp(st[clamp(top - 1)], n)] < x[i]:
                top := top - 1
                o[st[top?]?] := i + 0
            st[top?] := i + 0
            top := top + 1
    o
"""
PREFIX = """
def f(x: Fin(n)=>Int) -> Fin(n)=>Int:
    with state([0 for _ in Fin(n)]) as p:
        for i in 1..n:
            loop k = p[(i - 1)?] while k > 0 and x[i] != x[k?]: p[(k - 1)?]
            p[i] := k + 1 if x[i] == x[k?] else k
"""
ENDS = """
def f(x: Fin(n)=>Int) -> Int:
    (_, _, c) = with state(0) as i, state(n - 1) as j, state(0) as c:
        while i < j:
            c := c + x[i?] * x[j?]
            i += 1
            j -= 1
    c
"""
ARMS = """
def f(x: Fin(n)=>Int) -> Int:
    (_, _, b) = with state(0) as l, state(0) as r, state(0) as b:
        for c in Fin(n):
            l := c + 0
            r := c + 0
            while l >= 0 and r < n and x[clamp(l)] == x[clamp(r)]:
                l -= 1
                r += 1
            b := max(b, r - l - 1)
    b
"""
PROVED = {"sort": SORT, "stack": STACK, "prefix": PREFIX, "ends": ENDS, "arms": ARMS}

NEARLY = {
    "one too far": SORT.replace("state(i + 0)", "state(i + 1)"),
    "the guard lets -1 through": SORT.replace("j > 0", "j >= 0"),
    "either guard": SORT.replace("j > 0 and", "j > 0 or"),
    "two at a time": SORT.replace("j := j - 1", "j := j - 2"),
    "changed before the read": SORT.replace(
        "a[j?] := a[(j - 1)?]", "j := j - 1\n                    a[j?] := a[(j - 1)?]"
    ),
    "pushed twice": STACK.replace("top := top + 1\n", "top := top + 2\n"),
    "popped without asking": STACK.replace("top > 0 and ", ""),
    "elements that are too large": STACK.replace("st[top?] := i + 0", "st[top?] := i + 1"),
    "elements that start outside": STACK.replace(
        "first = [0 for", "first = [n + 0 for"
    ),
    "longer than the place": PREFIX.replace("k + 1 if", "k + 2 if"),
    "ends that cross": ENDS.replace("i < j", "i <= j + 2"),
    "one end from outside": ENDS.replace("state(n - 1)", "state(n + 0)"),
    "a step of the size": ENDS.replace("i += 1", "i += x[i?]"),
    "a product that wraps around": ENDS.replace("i += 1", "i := i * 4611686018427387904").replace(
        "state(0) as i", "state(1) as i"
    ),
    "an arm too long": ARMS.replace("r < n", "r <= n").replace("clamp(r)", "r?"),
}  # fmt: skip

GIVEN: list[list[int]] = [[], [3], [2, 2], [5, 1, 4, 1, 3], [0, 1, 0, 1, 0, 0, 1], [4, 3, 2, 1]]


@pytest.mark.parametrize("name", PROVED)
def test_what_is_proved_needs_no_check(name: str) -> None:
    assert checks(PROVED[name]) == 0
    agree(PROVED[name], *((x, None) for x in GIVEN))


@pytest.mark.parametrize("name", NEARLY)
def test_what_is_nearly_so_keeps_its_check(name: str) -> None:
    assert checks(NEARLY[name]) > 0
    agree(NEARLY[name], *((x, None) for x in GIVEN))


def test_what_is_proved_does_not_hang_on_the_numbers_of_variables() -> None:
    """A proof of so many steps found less where a set had `high` before `low`."""
    search = """
from numeric import searchsorted
def f(xs: Fin(n)=>Float, x: m=>Float) = [searchsorted(xs, v) for v in x]
"""
    left = set()
    for others in range(12):  # variables of other programs, which make ours be numbered otherwise
        _ = [Var("x") for _ in range(1 << others)]
        left.add(checks(search + "\n" * others))
    assert left == {0}


def test_whole_numbers_that_are_not_given_as_sizes() -> None:
    text = """
def f(x: Fin(n)=>Int, k: Int) -> Int:
    (_, t) = with state(k + 0) as i, state(0) as t:
        while i < i + 1 and i < n:
            t += x[i?]
            i += 1
    t
"""
    agree(text, *(([1, 2, 3], k) for k in (0, 2, -1, 5, 2**63 - 1, -(2**63))))


CONDITION = """
def near(x: Fin(n)=>Int, i: Int) -> Bool:
    assert i < 2, "too far"
    i < 1

def f(s: Fin(n)=>Int) -> Int:
    (_, i) = with state([7 for _ in Fin(n)]) as st, state(0) as i:
        while TEST:
            i += 1
    i
"""


def test_conditions_that_hold_are_not_asked() -> None:
    text = """
def f(x: Fin(n)=>Float) -> Fin(n)=>Float:
    (s, _) = with state(x) as s, state(0) as j:
        for i in 1..n:
            key = s[i]
            j := i - 1
            while j >= 0 and s[clamp(j, n)] > key:
                s[(j + 1)?] := s[j?]
                j -= 1
            s[(j + 1)?] := key
    s
"""
    m = nap.compile(text)
    shown = m.f.show("loops")
    assert "fail " not in shown
    assert " if v else " not in shown.replace("(", "").replace(")", "")
    for n in (0, 1, 2, 9, 100):
        x = np.random.default_rng(n).normal(size=n)
        assert np.array_equal(m.f(x), np.sort(x))


def test_a_check_that_a_condition_answers_is_not_made() -> None:
    """Also in loops whose rounds go side by side."""
    text = """
def f(v: n=>Float, w: n=>Int, cap: Int) -> Fin(cap + 1)=>Float:
    loop best = [0.0 for c in Fin(cap + 1)] for i in n:
        [max(best[c], best[(c - w[i])?] + v[i]) if c >= w[i]CONDITION else best[c] for c]
    best
"""
    m = nap.compile(text.replace("CONDITION", " and w[i] >= 0"))
    assert "fail" not in m.f.show("loops").partition("for i_2")[2]
    rng = np.random.default_rng(0)
    value, weight, want = rng.random(9), rng.integers(-2, 9, 9), np.zeros(21)
    for v, w in zip(value, weight, strict=True):
        if w >= 0:
            want[w:] = np.maximum(want[w:], want[: 21 - w] + v)
    np.testing.assert_allclose(m.f(value, weight, 20), want)
    less = nap.compile(text.replace("CONDITION", "")).f
    assert "fail" in less.show("loops").partition("for i_2")[2]
    with pytest.raises(nap.IndexError):
        less(value, weight, 20)



@pytest.mark.parametrize(
    "test",
    [
        "st[i?] != 5 and i < 3",
        "i < 3 and st[(i + 1)?] == 7",
        "st[i?] < st[i?]",
        "not (i < 2 and st[(i + 2)?] < 7)  and i < 3",
        "s[(i + 1)?] * 0 == 0 and i < 2",
        "i < 3 and near(s, i)",
        "(near(s, i) or i < 3) and i < 5",
        "i < 2 and any(st[(i + k)?] == 7 for k in Fin(2))",
    ],
)
def test_what_a_condition_checks_is_checked_the_last_time_too(test: str) -> None:
    agree(CONDITION.replace("TEST", test), *((x, None) for x in GIVEN))


# --- generated loops ----------------------------------------------------------------------------


class Text:
    """A program of nested loops that move `i` and `j`, read `s` and change `st`."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.outer = self.chance.random() < 0.6

    def pick(self, *texts: str) -> str:
        return self.chance.choice(texts)

    def number(self) -> str:
        v = self.pick("i", "j")
        c = "c" if self.outer else "1"
        return self.pick(
            v, v, f"{v} + 1", f"{v} - 1", f"{v} + 2", "0", "n", "n - 1", f"n - {v}", "i + j",
            "j - i", "(i + j) // 2", "min(i, j)", c, f"{c} + 1", "k",
        )  # fmt: skip

    def index(self) -> str:
        v = self.pick("i", "j")
        inner = f"st[{self.pick('i?', 'j?', '(i - 1)?', 'clamp(i, n)', 'clamp(j - 1, n)')}]"
        e = self.pick(v, v, v, f"{v} - 1", f"{v} + 1", self.number(), v, inner)
        return self.pick(f"({e})?", f"({e})?", f"clamp({e}, n)")

    def element(self) -> str:
        return f"{self.pick('s', 'st', 'st')}[{self.index()}]"

    def test(self) -> str:
        v = self.pick("i", "j")
        return self.pick(
            f"{v} > 0", f"{v} >= 0", f"{v} < n", f"{v} < n", f"{v} + 1 < n", "i < j", "i <= j",
            "i != j", "i + j < n", f"{v} <= n", f"{v} < k", f"{v} > 1",
            f"{self.element()} != {self.number()}", f"{self.element()} < {self.element()}",
            f"{self.element()} > {self.number()}",
        )  # fmt: skip

    def condition(self, deep: int = 0) -> str:
        way = self.chance.random()
        if deep > 2 or way < 0.3:
            return self.test()
        if way < 0.8:
            return f"{self.condition(deep + 1)} and {self.test()}"
        one, other = self.condition(deep + 1), self.test()
        return f"({one} or {other})" if way < 0.9 else f"not ({other})"

    def block(self, indent: int, deep: int) -> list[str]:
        return [x for _ in range(self.chance.randint(1, 2)) for x in self.statement(indent, deep)]

    def statement(self, indent: int, deep: int) -> list[str]:
        before, way, v = " " * indent, self.chance.random(), self.pick("i", "j")
        if way < 0.3:
            return [before + self.pick(f"{v} += 1", f"{v} -= 1", f"{v} += 2")]
        if way < 0.4:
            return [f"{before}{v} := {self.pick(self.number(), self.element(), '0', 'n')} + 0"]
        if way < 0.58:
            value = self.pick(self.number(), self.element(), "i", "j", "0")
            return [f"{before}st[{self.index()}] := {value} + 0"]
        if way < 0.7:
            return [f"{before}t += {self.element()}"]
        if way < 0.9 and deep < 2:
            out = [f"{before}if {self.condition(1)}:", *self.block(indent + 4, deep + 1)]
            if self.chance.random() < 0.5:
                out += [f"{before}else:", *self.block(indent + 4, deep + 1)]
            return out
        return self.loop(indent, deep + 1) if deep < 1 else [f"{before}{v} += 1"]

    def loop(self, indent: int, deep: int) -> list[str]:
        """A few rounds at most."""
        before, c = " " * indent, self.condition()
        asked = self.pick(f"f < 25 and {c}", f"{c} and f < 25")
        return [f"{before}while {asked}:", f"{before}    f += 1", *self.block(indent + 4, deep)]

    def __str__(self) -> str:
        start = [
            f"state({self.pick('0', '0', 'n - 1', 'k + 0', '1')}) as i",
            f"state({self.pick('0', 'n - 1', 'n + 0', 'k + 0')}) as j",
            "state(0) as t, state(0) as f",
        ]
        indent, body = 8, [" " * 8 + "if n > 0: st[0?] := s[0?] + 0"]
        if self.outer:
            body.append(f"        for c in {self.pick('Fin(n)', '1..n', 'Fin(3)')}:")
            indent = 12
            body.append(" " * 12 + self.pick("j := c + 0", "i := c + 0", "i := 0", "j := n - 1"))
        body += self.loop(indent, 0)
        if self.chance.random() < 0.6:
            body += self.block(indent, 1)
        first = self.pick("0", "q + 0", "s[q]", "n - 1")
        return "\n".join([
            "def f(s: Fin(n)=>Int, k: Int) -> (Fin(n)=>Int, Int, Int, Int, Int):",
            f"    (a, b, c, d, e) = with state([{first} for q in Fin(n)]) as st, "
            f"{', '.join(start)}:",
            *body,
            "    (a, b, c, d, e)",
        ])  # fmt: skip


def agree(text: str, *given: tuple[list[int], int | None], native: bool = True) -> None:
    """The interpreter of core, loops with and without their checks, and compiled code."""
    program, wrong = pipeline.front(Source("generated.nap", text))
    assert program is not None, "\n".join(render(d) for d in wrong) + "\n" + text
    d = program.definitions["f"]
    less = pipeline.lower(program, "f", Substitution({}, {}, {}))
    with pytest.MonkeyPatch.context() as m:
        m.setattr(allocate, "proved", lambda p: p)
        more = pipeline.lower(program, "f", Substitution({}, {}, {}))
    compiled = nap.compile(text).f if native else None
    for x, k in given:
        args: list[Any] = [np.array(x, np.int64), *([] if k is None else [k])]
        numbers = {v: size(len(x)) for v in d.sizes}
        numbers |= {
            p.var: size(a) for p, a in zip(d.params, args, strict=True) if isinstance(a, int)
        }
        at = Substitution({}, {}, numbers)
        result = at.type(d.result)
        values = [from_numpy(a, at.type(p.type)) for a, p in zip(args, d.params, strict=True)]
        core = partial(core_run.run, program, "f", values, at)
        want = _outcome(lambda run=core, t=result: to_numpy(run(), t))  # type: ignore[misc]
        ways = [
            _outcome(partial(_in_loops, nests, result, len(x), args)) for nests in (less, more)
        ]
        assert ways[0] == ways[1], f"{ways[0]}\nnot {ways[1]}\n{x}, {k}\n{text}"
        if compiled is not None:
            ways.append(_outcome(partial(compiled, *args)))
        for got in ways:
            same = got == want if want[0] == "value" else got[0] == "stopped"
            assert same, f"{got}\nnot {want}\n{x}, {k}\n{text}"


def _in_loops(nests: Program, result: Type, n: int, args: list[Any]) -> Any:
    return rebuild(result, loops_run.run(nests, [n for _ in nests.sizes], args))


def _outcome(run: Callable[[], Any]) -> tuple[str, str]:
    try:
        got = run()
    except (core_places.RunError, loops_run.RunError, nap.RunError) as e:
        return "stopped", str(e.args)
    items = got if isinstance(got, tuple) else (got,)
    return "value", str([np.asarray(v).tolist() for v in items])


@pytest.mark.parametrize("first", range(0, 20, 5))
def test_generated_loops(first: int) -> None:
    for seed in range(first, first + 5):
        chance = random.Random(seed)
        given: list[tuple[list[int], int | None]] = []
        for n in (0, 1, 2, 3, 5):
            x = [chance.choice([-1, 0, 0, 1, 1, 2, 3, n - 1, n]) for _ in range(n)]
            given.append((x, chance.choice([-1, 0, 1, 2, n, n + 1, 2**63 - 1, -(2**63)])))
        agree(str(Text(seed)), *given, native=seed % 5 == 0)


# --- lines --------------------------------------------------------------------------------------


def test_proofs_are_right() -> None:
    """Whatever is proved holds of all numbers that the facts hold of."""
    chance = random.Random(0)
    names = "abc"
    points = [(a, b, c) for a in range(-3, 4) for b in range(-3, 4) for c in range(-3, 4)]
    proofs = 0
    for _ in range(3000):
        facts = [_line(chance, names) for _ in range(chance.randint(1, 4))]
        goal = _line(chance, names)
        known = Known()
        known.add(facts)
        if known.proves(goal):
            proofs += 1
            for p in points:
                at = dict(zip(names, p, strict=True))
                if all(_at(f, at) >= 0 for f in facts):
                    assert _at(goal, at) >= 0, (facts, goal, at)
    assert proofs > 100


def test_a_choice_is_each_of_its_lines() -> None:
    known = Known()
    a, m = symbol("a"), symbol("m")
    known.choices["m"] = ("m", [Choice(a, (a,)), Choice(line(0), (plus({}, a, -1),))])  # max(a, 0)
    assert known.proves(m)
    assert not known.proves(plus(m, line(-1)))
    assert not known.proves(plus(a, m, -1))
    known.add([plus(a, line(-3))])
    assert not known.proves(plus(line(2), m, -1))
    assert put(m, [("m", line(4))]) == line(4)


def test_facts_are_taken_back() -> None:
    known = Known()
    a = symbol("a")
    known.add([a])
    assert known.proves(plus(a, line(1)))
    assert known.back(0) == (a,)
    assert not known.proves(plus(a, line(1)))


def _line(chance: random.Random, names: str) -> Line:
    out = line(chance.randint(-2, 2))
    for v in names:
        out = plus(out, symbol(v), chance.choice([-2, -1, 0, 0, 0, 1, 1]))
    return out


def _at(a: Line, values: dict[str, int]) -> int:
    return sum(c * (1 if s == 1 else values[str(s)]) for s, c in a.items())


def test_what_was_asked_of_the_same_facts_is_not_proved_again() -> None:
    known = Known()
    a, b, c = map(symbol, "abc")
    known.add([plus(b, a, -1), plus(c, b, -1)])
    goal = plus(c, a, -1)
    for _ in range(2):
        assert known.proves(goal)
        assert not known.proves(a)
        known.add([a])
        assert known.proves(a)
        known.back(2)
        work = known.work
    assert not known.proves(a)
    assert known.proves(goal)
    assert known.work == work
    known.back(1)
    assert not known.proves(goal)
