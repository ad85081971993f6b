"""Programs over axes of more rows than vectors hold, drawn as text: what combines guards, places
that are looked up, accumulators of every shape, states, running values, triangles, filters, rows
of rows of any length, loops that end by themselves, structs, variants and small integers.

    x y : Fin(n)=>Float   a : Fin(n)=>Fin(m)=>Float   v : Fin(m)=>Float   c : Fin(n)=>Int
    b : Fin(n)=>Bool      g : Fin(n)=>Fin(m)          q : Fin(n)=>Fin(n)  u : Fin(n)=>U8
    h : Fin(n)=>F32       w : Fin(n)=>Fin(3)=>Float   s : Float           k : Int

Each statement names a value that later ones may read; numbers are halves, so that sums are exact.
A smooth program has functions whose slopes are not 0, and a number as its value.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
from long_values import Values

TYPES = """struct P:
    one: Float
    two: Float
    three: Int

enum Shape = Dot | Disc(r: Float) | Box(w: Float, z: Int)

"""
PARAMETERS = (
    "x: Fin(n)=>Float, y: Fin(n)=>Float, a: Fin(n)=>Fin(m)=>Float, v: Fin(m)=>Float,"
    " c: Fin(n)=>Int, b: Fin(n)=>Bool, g: Fin(n)=>Fin(m), q: Fin(n)=>Fin(n), u: Fin(n)=>U8,"
    " h: Fin(n)=>F32, w: Fin(n)=>Fin(3)=>Float, s: Float, k: Int"
)
SIZES = (
    *((9, 5), (10, 13), (13, 37), (17, 3), (18, 9), (21, 4), (23, 16), (33, 2), (35, 5)) * 2,
    (40, 3),
    (101, 3), (67, 2), (64, 8), (65, 17),
)  # fmt: skip
WRT = ("x", "y", "a", "v", "w", "s")


class Program(Values):
    """Statements so far."""

    def __init__(self, chance: Random, smooth: bool = False) -> None:
        super().__init__(chance, smooth)
        self.lines: list[str] = []
        self.results: list[str] = []

    def text(self) -> str:
        for _ in range(self.chance.randint(1, 4)):
            self.pick([
                self.row, self.row, self.place, self.sums, self.sums, self.states, self.running,
                self.stencil, self.triangle, self.filtered, self.ragged, self.ordered,
                self.integer, self.matrix, self.column, self.structs, self.variants, self.moved,
                self.carried,
            ])()  # fmt: skip
        value = f"({', '.join(self.results)},)"
        if self.smooth:
            value = " + ".join(self.results)
        head = f"def f({PARAMETERS})" + (" -> Float:" if self.smooth else ":")
        return "\n".join([TYPES + head, *self.lines, f"    {value}", ""])

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def result(self, name: str, names: list[str], text: str = "") -> None:
        """`name` is one of `names`, and a result; a smooth program has the number `text`."""
        names.append(name)
        self.results.append(text if self.smooth and text else name)

    def row_result(self, name: str) -> None:
        self.result(name, self.known.rows, f"sum({name}[i] * x[i] for i in Fin(n))")

    def block(self, depth: int, i: str, last: Callable[[], None]) -> None:
        """Lines of a round of `i`, of which `last` writes the last ones."""
        outer, self.known = self.known, self.known.copy()
        for _ in range(self.chance.choice([0, 0, 1, 1, 2])):
            self.local(depth, i)
        last()
        self.known = outer

    def local(self, depth: int, i: str) -> None:
        """A name of a round, of a number or a row of its own."""
        t, j, o = self.name(), self.name(), self.name()
        known = self.known
        one, two = self.value(i, depth=1), self.value(i, depth=1)
        inner, p = self.value(i, j, 1), f"{self.pick(known.places)}[{i}]"
        where, z = self.condition(i, j), self.value(i, j, 1)
        way = self.chance.randrange(11)
        if way == 0:
            self.line(depth, f"{t} = {self.value(i)}")
        elif way == 1:
            self.line(depth, f"loop {t} = {one}, {o} = {self.whole(i, '', 0)} % 5 while {o} > 0:")
            known.numbers.append(t)
            self.line(depth + 1, f"(0.5 * {t} + {self.value(i, depth=1)}, {o} - 1)")
        elif way == 2:
            self.line(depth, f"loop {t} = {one} for {j} in Fin(m):")
            self.line(depth + 1, f"0.5 * {t} + {inner} if {where} else {t}")
        elif way == 3:
            self.line(depth, f"{t} = [{inner} for {j} in Fin(m)] if {self.condition(i)} else "
                      f"[{z} for {j} in Fin(m)]")  # fmt: skip
            known.columns.append(t)
            return
        elif way == 4:
            self.line(depth, f"{t} = [{inner} for {j} in Fin(m) if {where}]")
            known.kept.append(t)
            return
        elif way == 5:
            self.line(depth, f"{t} = with accum() as {o}:")
            self.line(depth + 1, f"for {j} in Fin(m): {o}[{j}] += {inner}")
            self.line(depth + 1, f"if {self.condition(i)}: {o}[{p}] += {one}")
            known.columns.append(t)
            return
        elif way == 6:
            self.line(depth, f"{t} = with state({self.pick(known.matrices)}[{i}]) as {o}:")
            self.line(depth + 1, f"for {j} in Fin(m):")
            at = self.pick([j, j, p, f"clamp({j} + 1)"])
            self.line(depth + 2, f"if {where}: {o}[{at}] := 0.5 * {o}[{j}] + {inner}")
            known.columns.append(t)
            return
        elif way == 7:
            self.line(
                depth, f"({t}, {o}) = ({one}, {two}) if {self.condition(i)} else ({two}, 0.5)"
            )
            known.numbers.append(o)
        elif way == 8:
            self.line(depth, f"{t} = match {self.whole(i, '', 0)} % 3:")
            self.line(depth + 1, f"case 0: {one}")
            self.line(depth + 1, f"case 1 if {self.condition(i)}: {two}")
            self.line(depth + 1, f"case _: {self.leaf(i, '')}")
        elif way == 9:
            self.line(
                depth, f"{t} = P({one}, {two}, {self.whole(i, '', 1)}).{self.pick(['one', 'two'])}"
            )
        else:
            self.line(depth, f"loop {t} = [{inner} for {j} in Fin(m)] for {o} in Fin(3):")
            self.line(
                depth + 1, f"[0.5 * {t}[{j}] + 0.25 * {t}[clamp({j} + 1)] + {z} for {j} in Fin(m)]"
            )
            known.columns.append(t)
            return
        known.numbers.append(t)

    # statements

    def row(self) -> None:
        t, i = self.name(), self.name()
        self.line(1, f"{t} = for {i} in Fin(n):")
        self.block(2, i, lambda: self.line(2, self.value(i, depth=3)))
        self.row_result(t)

    def place(self) -> None:
        t, i = self.name(), self.name()
        self.line(1, f"{t} = for {i} in Fin(n):")
        self.block(2, i, lambda: self.line(2, self.best(i, 2)))
        self.result(t, self.known.places, "0.0")

    def integer(self) -> None:
        t, i = self.name(), self.name()
        value = self.whole(i, "", 2)
        small = self.pick(
            ["", "", "U8({} & 255)", "I8(({} & 127) - 64)", "I32({} & 4095) * I32(7)"]
        )
        self.line(1, f"{t} = [{small.format(value) if small else value} for {i} in Fin(n)]")
        self.result(t, self.known.small if small else self.known.integers, "0.0")
        if small and not self.smooth:
            self.results += [f"sum({t})", f"max({t})", f"argmin({t})", f"sum({t} * {t})"]

    def matrix(self) -> None:
        t, i, j = self.name(), self.name(), self.name()
        self.line(1, f"{t} = for {i} in Fin(n):")
        self.block(2, i, lambda: self.line(2, f"[{self.value(i, j)} for {j} in Fin(m)]"))
        text = f"sum({t}[i, j] * x[i] * v[j] for i in Fin(n), j in Fin(m))"
        self.result(t, self.known.matrices, text)

    def column(self) -> None:
        t, i, j = self.name(), self.name(), self.name()
        value = self.value(i, j)
        where = f" if {self.condition(i, j)}" if self.chance.random() < 0.3 else ""
        way = self.pick(["sum", "sum", "max", "min"])
        self.line(1, f"{t} = [{way}({value} for {i} in Fin(n){where}) for {j} in Fin(m)]")
        if where and way != "sum":
            self.line(1, f"{t} = [clamp({t}[{j}], -9.0, 9.0) for {j} in Fin(m)]")
        self.result(t, self.known.columns, f"sum({t} * v)")

    def sums(self) -> None:
        """Accumulators, each added to at first, then anywhere."""
        kinds = ["rows", "columns", "number", "matrix", "few"]
        found = [(self.name(), self.pick(kinds)) for _ in range(self.chance.randint(1, 3))]
        ops = [self.pick(["", "", "max", "min"]) for _ in found]
        names, i = [self.name() for _ in found], self.name()
        heads = [f"accum({op}) as {r}" for (r, _), op in zip(found, ops, strict=True)]
        bound = f"({', '.join(names)})" if len(names) > 1 else names[0]
        self.line(1, f"{bound} = with {', '.join(heads)}:")
        self.line(2, f"for {i} in Fin(n):")

        def effects() -> None:
            for r, kind in found:
                self.added(3, i, r, kind, [], True)
            for _ in range(self.chance.randint(0, 3)):
                self.effect(3, i, found, [], 2)

        self.block(3, i, effects)
        known = self.known
        into = {"rows": known.rows, "columns": known.columns, "number": known.numbers,
                "matrix": known.matrices}  # fmt: skip
        ends = {"rows": ("[i]", " * x[i] for i in Fin(n)"), "number": ("", ""),
                "columns": ("[j]", " * v[j] for j in Fin(m)"),
                "matrix": ("[i, j]", " * x[i] * v[j] for i in Fin(n), j in Fin(m)"),
                "few": ("[j, o]", " * v[j] for j in Fin(m), o in Fin(3)")}  # fmt: skip
        for t, (_, kind), op in zip(names, found, ops, strict=True):
            at, over = ends[kind]  # an element that nothing was added to is infinite
            text = (f"clamp({t}{at}, -9.0, 9.0)" if op else t + at) + over
            self.result(t, [] if op else into.get(kind, []), f"sum({text})" if over else text)

    def added(
        self, depth: int, i: str, r: str, kind: str, places: list[str], first: bool = False
    ) -> None:
        if self.chance.random() < 0.4:
            self.line(depth, f"if {self.condition(i)}:")
            depth += 1
        row = self.pick([i, i, f"{self.pick(self.known.orders)}[{i}]"])
        p = self.pick([*places, *places, f"{self.pick(self.known.places)}[{i}]"])
        kinds = {"rows": f"[{row}]", "columns": f"[{p}]", "number": "", "matrix": f"[{row}, {p}]"}
        if kind == "few":
            o = self.name()
            if first or self.chance.random() < 0.5:
                self.line(
                    depth, f"for {o} in Fin(3): {r}[{p}, {o}] += w[{i}, {o}] * {self.value(i)}"
                )
                return
            kinds["few"] = f"[{p}, 1]"
        self.line(depth, f"{r}{kinds[kind]} += {self.value(i)}")

    def effect(
        self, depth: int, i: str, found: list[tuple[str, str]], places: list[str], deep: int
    ) -> None:
        way = self.chance.randrange(5)
        if way == 0 and deep:
            self.line(depth, f"if {self.condition(i)}:")
            self.effect(depth + 1, i, found, places, deep - 1)
            self.line(depth, "else:")
            self.effect(depth + 1, i, found, places, deep - 1)
        elif way == 1 and deep:
            j = self.name()
            where = f" if {self.condition(i, j)}" if self.chance.random() < 0.3 else ""
            self.line(depth, f"for {j} in Fin(m){where}:")
            self.effect(depth + 1, i, found, [*places, j], deep - 1)
        elif way == 2:
            e = self.name()
            self.line(depth, f"{e} = {self.best(i, 1)}")
            self.added(depth, i, *self.pick(found), [*places, e])
        else:
            self.added(depth, i, *self.pick(found), places)

    def states(self) -> None:
        """A number, a row and a table that rounds change in place, and a row that they add to."""
        t, number, table, p, r, i = (self.name() for _ in range(6))
        more, added, e = self.name(), self.name(), self.name()
        z = self.pick(self.known.matrices)
        self.line(1, f"({t}, ({number}, {table}, {more}, {added})) = with state(s) as {p}, "
                  f"state(v) as {r}, state({z}) as {e}, accum() as {added}0:")  # fmt: skip
        self.line(2, f"for {i} in Fin(n):")

        def effects() -> None:
            at, j = f"{self.pick(self.known.places)}[{i}]", self.name()
            o = f"{self.pick(self.known.orders)}[{i}]"
            self.known.numbers += [
                p,
                f"{r}[{at}]",
                f"{r}[0?]",
                f"{e}[{i}, {at}]",
                f"{e}[{o}, {at}]",
            ]
            self.line(3, f"{added}0[{at}] += {self.value(i, depth=1)}")
            for _ in range(self.chance.randint(1, 3)):
                value = self.value(i)
                self.line(3, f"if {self.condition(i)}:")
                self.line(4, self.pick([
                    f"{p} := 0.5 * {p} + {value}", f"{r}[{at}] := {value}",
                    f"for {j} in Fin(m): {r}[{j}] := 0.5 * {r}[{j}] + {self.value(i, j, 1)}",
                    f"{r}[argmax({r}[{j}] for {j} in Fin(m))] := 0.5 * {value}",
                    f"{e}[{i}] := [{self.value(i, j, 1)} for {j} in Fin(m)]",
                    f"{e}[{o}, {at}] *= 0.5",
                    f"for {j} in Fin(m): {e}[{o}, {j}] -= 0.5 * {e}[{i}, {j}]",
                    f"({p}, {r}[{at}]) := ({r}[{at}], 0.5 * {p})",
                ]))  # fmt: skip
            self.line(3, self.pick([p, f"{r}[{at}]", f"sum({r})", f"sum({e}[{i}])"]))

        self.block(3, i, effects)
        self.row_result(t)
        self.result(number, self.known.numbers, number)
        self.result(table, self.known.columns, f"sum({table} * v)")
        self.result(more, self.known.matrices, f"sum({more}[i, j] for i in Fin(n), j in Fin(m))")
        self.result(added, self.known.columns, f"sum({added} * v)")

    def running(self) -> None:
        t, o, i = self.name(), self.name(), self.name()
        value, two = self.value(i), self.value(i, depth=1)
        way = self.chance.randrange(3)
        if way == 0:
            step = self.pick(["0.5 * o + {}", "max(o, {})", "o + {}", "min(o + 1.0, {})"]).format(
                value
            )
            self.line(1, f"{t} = scan(lambda o, {i}: {step}, s, [{i} for {i} in Fin(n)])")
        elif way == 1:
            self.line(1, f"({t}, {o}) = scan(lambda (o, p), {i}: (0.5 * p + {value}, o if "
                      f"{self.condition(i)} else min(p, {two})), (0.0, s), "
                      f"[{i} for {i} in Fin(n)])")  # fmt: skip
            self.row_result(o)
        else:
            j = self.name()
            inner = self.value(i, j, 1)
            where = self.condition(i, j)
            self.line(1, f"{o} = scan(lambda o, {i}: [0.5 * o[{j}] + {inner} if {where}"
                      f" else o[clamp({j} + 1)] for {j} in Fin(m)], v, "
                      f"[{i} for {i} in Fin(n)])")  # fmt: skip
            self.known.matrices.append(o)
            self.line(1, f"{t} = sum({o})")
        self.row_result(t)

    def stencil(self) -> None:
        t, z, o, i = self.name(), self.name(), self.name(), self.name()
        ends = self.pick([f" for {o} in Fin(3)", f", {o} = 0 while {o} < 4 and {z}[0?] < 9.0"])
        outer, self.known = self.known, self.known.copy()
        self.known.rows += [z, z]
        value = self.value(i, depth=1)
        self.known = outer
        self.line(1, f"loop {t} = {self.pick(self.known.rows)}{ends}:".replace(z, t))
        near = f"{t}[{self.pick(['clamp', 'wrap'])}({i} + {self.pick([1, -1, 2])})]"
        rows = f"[0.5 * {t}[{i}] - 0.25 * {near} + {value.replace(z, t)} for {i} in Fin(n)]"
        self.line(2, f"({rows}, {o} + 1)" if "while" in ends else rows)
        self.row_result(t)

    def carried(self) -> None:
        """A struct that rounds change field by field."""
        t, p, i = self.name(), self.name(), self.name()
        self.line(1, f"{t} = with state(P(0.5, s, k)) as {p}:")
        self.line(2, f"for {i} in Fin(n):")

        def effects() -> None:
            self.known.numbers += [f"{p}.one", f"{p}.two", f"Float({p}.three)"]
            for _ in range(self.chance.randint(1, 3)):
                if self.chance.random() < 0.5:
                    self.line(3, f"if {self.condition(i)}:")
                    self.line(
                        4, f"{p} := P(0.5 * {p}.two, {self.value(i)}, {self.whole(i, '', 1)})"
                    )
                field = self.pick(["one", "two"])
                self.line(3, f"{p}.{field} := 0.5 * {p}.{field} + {self.value(i)}")

        self.block(3, i, effects)
        self.known.numbers += [f"{t}.one", f"{t}.two"]
        self.results += [f"{t}.one", f"{t}.two", *([] if self.smooth else [f"{t}.three"])]

    def triangle(self) -> None:
        t, one, two, i, j = (self.name() for _ in range(5))
        value = self.value(i)
        self.line(1, f"{t} = [[{value} + x[{j}] for {j} in ..={i}] for {i} in Fin(n)]")
        self.line(1, f"{one} = [max({t}[{i}, {j}] for {j} in ..={i}) for {i} in Fin(n)]")
        self.line(1, f"{two} = [sum({t}[{i}, {j}] * y[{i}] for {i} in {j}..) for {j} in Fin(n)]")
        self.row_result(one)
        self.row_result(two)

    def filtered(self) -> None:
        t, o, i, e = self.name(), self.name(), self.name(), self.name()
        self.line(1, f"{t} = [{self.value(i)} for {i} in Fin(n) if {self.condition(i)}]")
        self.results += [f"sum({t})", *([] if self.smooth else [f"size({t})"])]
        self.known.kept.append(t)
        way = self.chance.randrange(4)
        if way == 0:
            self.line(
                1,
                f"{o} = scan(lambda o, {e}: {self.pick(['0.5 * o', 'max(o, s)'])} + {e}, 0.5, {t})",
            )
            self.known.kept.append(o)
            self.results.append(f"sum({o})")
        elif way == 1:
            self.line(1, f"{o} = with accum() as r:")
            self.line(2, f"for {e} in {t}:")
            self.line(3, f"r[argmin(abs(v[j] - {e}) for j in Fin(m))] += {e}")
            self.line(3, "for j in Fin(m): r[j] += 0.5")
            self.result(o, self.known.columns, f"sum({o} * v)")
        elif way == 2:
            self.line(1, f"{o} = sort({t})")
            self.known.kept.append(o)
            self.results.append(f"sum({e} * {e} for {e} in {o} if {e} > s)")
        else:
            self.line(1, f"{o} = [sum(abs({e} - x[{i}]) for {e} in {t}) for {i} in Fin(n)]")
            self.row_result(o)

    def ragged(self) -> None:
        t, o, i, j = self.name(), self.name(), self.name(), self.name()
        self.line(1, f"{t} = for {i} in Fin(n):")
        r = self.pick(self.known.rows)
        self.block(2, i, lambda: self.line(2, self.pick([
            f"[{self.value(i, j, 1)} for {j} in Fin(m) if {self.condition(i, j)}]",
            f"[{r}[{j}] + {self.value(i, depth=1)} for {j} in ..={i}"
            f" if {r}[{j}] > {self.leaf(i, '')}]",
        ])))  # fmt: skip
        self.known.ragged.append(t)
        self.line(1, f"{o} = [sum({t}[{i}]) + Float(size({t}[{i}])) for {i} in Fin(n)]")
        self.row_result(o)
        if self.chance.random() < 0.5:
            e = self.name()
            self.line(
                1, f"{e} = [max(0.5, max(scan(lambda o, e: 0.5 * o + e, s, r))) for r in {t}]"
            )
            self.row_result(e)
        if self.chance.random() < 0.3:
            e = self.name()
            self.line(1, f"{e} = [2.0 * e for r in {t}, e in r if e > s]")
            self.known.kept.append(e)
            self.results.append(f"sum({e})")

    def ordered(self) -> None:
        t, o, i = self.name(), self.name(), self.name()
        self.line(1, f"{t} = argsort([{self.value(i)} for {i} in Fin(n)])")
        self.result(t, self.known.orders, "0.0")
        self.line(1, f"{o} = sort({self.pick(self.known.rows)})")
        self.row_result(o)
        if self.chance.random() < 0.5:
            e = self.name()
            self.line(1, f"{e} = [sort({self.pick(self.known.matrices)}[{i}]) for {i} in Fin(n)]")
            self.result(
                e, self.known.matrices, f"sum({e}[i, j] * v[j] for i in Fin(n), j in Fin(m))"
            )

    def structs(self) -> None:
        t, i = self.name(), self.name()
        self.line(1, f"{t} = for {i} in Fin(n):")

        def last() -> None:
            one, two = (
                f"P({self.value(i)}, {self.value(i, depth=1)}, {self.whole(i, '', 1)})"
                for _ in "12"
            )
            self.line(2, f"{one} if {self.condition(i)} else {two}")

        self.block(2, i, last)
        self.known.structs.append(t)
        self.results += [f"sum({t}.one)", f"sum({t}.two * x)"]
        if not self.smooth:
            self.results += [f"max({t}.three)", f"{t}.two"]

    def variants(self) -> None:
        t, o, i, e = self.name(), self.name(), self.name(), self.name()
        one, two, three = (self.value(i, depth=1) for _ in range(3))
        if self.chance.random() < 0.5:
            self.line(1, f"{t} = [Some({one}) if {self.condition(i)} else None for {i} in Fin(n)]")
            cases = [f"Some({e}): {e} * {two}", f"None: {three}"]
        else:
            box = f"Box({two}, {self.whole(i, '', 1)})"
            self.line(1, f"{t} = [Disc({one}) if {self.condition(i)} else {box}"
                      f" if {self.condition(i)} else Dot for {i} in Fin(n)]")  # fmt: skip
            cases = [f"Disc({e}): {e} - {two}", f"Box({e}, z) if z > 1: Float(z) * {e}",
                     f"Box({e}, _): {e}", f"Dot: {three}"]  # fmt: skip
        self.line(1, f"{o} = for {i} in Fin(n):")
        at = self.pick([i, f"{self.pick(self.known.orders)}[{i}]", f"clamp({i} - 1)"])

        def last() -> None:
            self.line(2, f"match {t}[{at}]:")
            for case in cases:
                self.line(3, f"case {case}")

        self.block(2, i, last)
        self.row_result(o)

    def moved(self) -> None:
        """Elements that change places."""
        t, r, i = self.name(), self.name(), self.name()
        o = self.pick(self.known.orders)
        self.line(1, f"{t} = with state({self.pick(self.known.rows)}) as {r}:")
        self.line(2, f"for {i} in Fin(n):")

        def effects() -> None:
            self.known.numbers += [f"{r}[{i}]", f"{r}[{o}[{i}]]"]
            value = self.value(i)
            self.line(3, self.pick([
                f"{r}[{o}[{i}]] := {value}",
                f"({r}[{i}], {r}[{o}[{i}]]) := ({r}[{o}[{i}]], {r}[{i}])",
                f"if {self.condition(i)}: {r}[{i}] := 0.5 * {r}[{o}[{i}]] + {value}",
                f"{r}[{o}[{i}]] += 0.5 * {value}",
            ]))  # fmt: skip

        self.block(3, i, effects)
        self.row_result(t)


def arguments(n: int, m: int, seed: int, smooth: bool = False) -> dict[str, object]:
    rng = np.random.default_rng(seed)

    def halves(*shape: int) -> np.ndarray:
        found = rng.integers(-4, 5, shape) / 2.0
        return found + rng.uniform(-0.2, 0.2, shape) if smooth else found

    return {
        "x": halves(n), "y": halves(n), "a": halves(n, m), "v": halves(m),
        "c": rng.integers(-3, 4, n), "b": rng.integers(0, 2, n).astype(bool),
        "g": rng.integers(0, m, n), "q": rng.integers(0, n, n),
        "u": rng.integers(0, 9, n).astype(np.uint8), "h": halves(n).astype(np.float32),
        "w": halves(n, 3), "s": float(halves()), "k": int(rng.integers(-2, 4)),
    }  # fmt: skip


def with_gradient(text: str) -> str:
    """A smooth program, and `df`, its value and gradient."""
    head = f"def df({PARAMETERS}):\n"
    wrt = ", ".join(f'"{p}"' for p in WRT)
    return (
        f"{text}\n{head}    value_and_grad(f, wrt=({wrt}))(x, y, a, v, c, b, g, q, u, h, w, s, k)\n"
    )
