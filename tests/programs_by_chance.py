"""Whole programs by chance: what `surface_by_chance` makes, in statements and definitions."""

from __future__ import annotations

import random
from dataclasses import replace

from surface_by_chance import PARAMS, PRELUDE, SETS, Maker, Scope

START = Scope(
    floats=("c",),
    vectors=(("x", "Fin(n)"), ("y", "Fin(m)")),
    whole=(("l", "Fin(n)"),),
    maps=(("k", "Fin(m)", "Fin(n)"),),
    matrices=(("a", "Fin(n)", "Fin(m)"),),
)
Lines = list[str]


def deeper(lines: Lines) -> Lines:
    return [f"    {line}" for line in lines]


class Statements(Maker):
    """Lines of a body, each with the scope after it."""

    def statement(self, c: Scope) -> tuple[Lines, Scope]:
        kinds = [self.value, self.table, self.table, self.rows, self.whole, self.loop, self.loop,
                 self.state, self.state, self.rounds, self.accumulated, self.pairs, self.triangle,
                 self.derivative, self.branches, self.map, self.single, self.until]  # fmt: skip
        return self.r.choice(kinds)(c)

    def body(self, c: Scope, most: int) -> tuple[Lines, Scope]:
        lines: Lines = []
        for _ in range(self.r.randint(0, most)):
            more, c = self.statement(c)
            lines += more
        return lines, c

    def value(self, c: Scope) -> tuple[Lines, Scope]:
        v = self.fresh("v")
        return [f"{v} = {self.real(c, 3)}"], c.real(v)

    def single(self, c: Scope) -> tuple[Lines, Scope]:
        """Through single precision: what is given, for what is computed may lie between two."""
        given = [(v, s) for v, s in c.vectors if v in ("x", "y")]
        if not given:
            return self.table(c)
        v, i, (name, s) = self.fresh("v"), self.fresh("i"), self.r.choice(given)
        value = self.real(c.index(i, s), 1)
        return [f"{v} = [{value} - F32({name}[{i}]) for {i} in {s}]"], c.vector(v, s)

    def table(self, c: Scope) -> tuple[Lines, Scope]:
        v, s = self.fresh("v"), self.r.choice(self.sets)
        if self.chance(0.5):
            return [f"{v} = {self.vector(s, c, 3)}"], c.vector(v, s)
        i, w = self.fresh("i"), self.fresh("w")
        inner = c.index(i, s)
        lines = [f"{w} = {self.real(inner, 2)}"]
        inner = inner.real(w)
        if self.chance(0.3):
            more, inner = self.loop(inner)
            lines += more
        lines.append(self.real(inner, 2))
        return [f"{v} = for {i} in {s}:", *deeper(lines)], c.vector(v, s)

    def rows(self, c: Scope) -> tuple[Lines, Scope]:
        v, s, t = self.fresh("v"), self.r.choice(self.sets), self.r.choice(self.sets)
        if s == t:
            return self.table(c)
        return [f"{v} = {self.matrix(s, t, c, 2)}"], c.matrix(v, s, t)

    def whole(self, c: Scope) -> tuple[Lines, Scope]:
        v, i, s = self.fresh("v"), self.fresh("i"), self.r.choice(self.sets)
        lines = [f"{v} = [{self.integer(c.index(i, s), 2)} + 0 for {i} in {s}]"]
        return lines, replace(c, whole=(*c.whole, (v, s)))

    def map(self, c: Scope) -> tuple[Lines, Scope]:
        """A table of indices."""
        v, i, s, t = (
            self.fresh("k"),
            self.fresh("i"),
            self.r.choice(self.sets),
            self.r.choice(self.sets),
        )
        how = self.r.choice(("clamp", "wrap"))
        line = f"{v} = [{how}({self.integer(c.index(i, s), 2)}, {t}) for {i} in {s}]"
        if self.chance(0.25):
            line = f"{v} = argsort({self.vector(s, c, 2)})"
            t = s
        return [line], replace(c, maps=(*c.maps, (v, s, t)))

    def pairs(self, c: Scope) -> tuple[Lines, Scope]:
        v, i, s = self.fresh("q"), self.fresh("i"), self.r.choice(self.sets)
        inner = c.index(i, s)
        line = f"{v} = [Pair({self.real(inner, 2)}, {self.real(inner, 1)}) for {i} in {s}]"
        return [line], replace(c, pairs=(*c.pairs, (v, s)))

    def triangle(self, c: Scope) -> tuple[Lines, Scope]:
        v, i, j, w = self.fresh("t"), self.fresh("i"), self.fresh("j"), self.fresh("w")
        inner = c.index(i, "Fin(n)").index(j, "Fin(n)")
        lines = [f"{v} = [[{self.real(inner, 2)} for {j} in ..={i}] for {i} in Fin(n)]"]
        lines.append(f"{w} = {self.r.choice(('sum', 'max', 'logsumexp'))}({v})")
        return lines, replace(c, triangles=(*c.triangles, v)).vector(w, "Fin(n)")

    def derivative(self, c: Scope) -> tuple[Lines, Scope]:
        v, u, g = self.fresh("v"), self.fresh("u"), self.fresh("g")
        s = self.r.choice(c.vectors)[1]
        at = self.named(s, c)
        if self.chance(0.4):
            f = f"lambda {u}: {self.real(c.vector(u, s), 3)}"
            return [f"({v}, {g}) = value_and_grad({f})({at})"], c.real(v).vector(g, s)
        if self.chance(0.2):
            value = self.real(c.vector(u, s), 2)
            rows = [name for name, kind in c.functions if kind == "row"]
            if rows and s == "Fin(n)":
                value = f"{self.r.choice(rows)}({u}, {self.leaf(c)})"
            f = f"lambda {u}: {value}"
            return [f"{v} = trace(hessian({f})({at}))"], c.real(v)
        f, along = f"lambda {u}: {self.vector(s, c.vector(u, s), 2)}", self.named(s, c)
        if self.chance(0.5):
            return [f"({v}, {g}) = jvp({f}, {at}, {along})"], c.vector(v, s).vector(g, s)
        back = self.fresh("b")
        lines = [f"({v}, {back}) = vjp({f}, {at})", f"{g} = {back}({along})"]
        return lines, c.vector(v, s).vector(g, s)

    def branches(self, c: Scope) -> tuple[Lines, Scope]:
        v, s = self.fresh("v"), self.r.choice(self.sets)
        lines = [f"if {self.truth(c, 1)}: {self.vector(s, c, 2)}"]
        if self.chance(0.3):
            lines.append(f"elif {self.truth(c, 1)}: {self.vector(s, c, 1)}")
        lines.append(f"else: {self.vector(s, c, 2)}")
        return [f"{v} =", *deeper(lines)], c.vector(v, s)

    # loops

    def loop(self, c: Scope) -> tuple[Lines, Scope]:
        """A loop that carries a table, a number or both."""
        u, w, t, s = self.fresh("z"), self.fresh("w"), self.fresh("t"), self.r.choice(self.sets)
        over = self.r.choice((*self.sets, "Fin(2)"))
        if c.indices and self.chance(0.2):
            over = f"..{self.r.choice([i for i, _ in c.indices])}"
        inner = c.integer(t) if over[0] == "." or over == "Fin(2)" else c.index(t, over)
        until = f" while {self.truth(inner, 1)}" if self.chance(0.25) else ""
        match self.r.randrange(4):
            case 0:
                inner = inner.real(w)
                step = f"0.5 * {w} + {self.bounded(inner, 2)}"
                return [
                    f"loop {w} = {self.real(c, 1)} for {t} in {over}{until}:",
                    f"    {step}",
                ], c.real(w)
            case 1:
                inner = inner.vector(u, s)
                step = self.update(u, s, inner)
                return [
                    f"loop {u} = {self.named(s, c)} for {t} in {over}{until}:",
                    f"    {step}",
                ], c.vector(u, s)
            case 2:
                inner = inner.vector(u, s).real(w, f"{w}.u", f"{w}.v")
                inner = replace(inner, floats=tuple(x for x in inner.floats if x != w))
                step = f"Pair({self.bounded(inner, 2)}, 0.5 * {w}.u + {self.bounded(inner, 1)})"
                head = (
                    f"loop {w} = Pair({self.real(c, 1)}, {self.leaf(c)}), {u} = {self.named(s, c)}"
                )
                lines = [
                    f"{head} for {t} in {over}{until}:",
                    f"    ({step}, {self.update(u, s, inner)})",
                ]
                return lines, c.vector(u, s).real(f"{w}.u", f"{w}.v")
            case _:
                inner = inner.vector(u, s).real(w)
                lines: Lines = []
                if self.chance(0.4):
                    lines, inner = self.value(inner)
                elif self.chance(0.3):
                    lines, inner = self.loop(inner)
                step = f"0.5 * {w} + {self.bounded(inner, 2)}"
                lines.append(f"({self.update(u, s, inner)}, {step})")
                head = f"loop {u} = {self.named(s, c)}, {w} = {self.real(c, 1)} for {t} in {over}"
                return [f"{head}{until}:", *deeper(lines)], c.vector(u, s).real(w)

    def until(self, c: Scope) -> tuple[Lines, Scope]:
        """A loop until a condition changes, whose rounds may be recurrences."""
        u, k, s = self.fresh("z"), self.fresh("k"), self.r.choice(self.sets)
        inner = c.vector(u, s).integer(k)
        until = f"{k} < 3 and ({k} < 1 or {self.truth(inner, 1)})"
        head = f"loop {u} = {self.named(s, c)}, {k} = 0 while {until}:"
        return [head, f"    (0.5 * tanh({self.vector(s, inner, 2)}), {k} + 1)"], c.vector(u, s)

    def update(self, u: str, s: str, c: Scope) -> str:
        """The next of a carried table: all of it, or an element in place."""
        i = self.fresh("i")
        if self.chance(0.3):
            at = f"clamp({self.integer(c, 1)}, {s})"
            return f"[{self.bounded(c, 1)} if {i} == {at} else {u}[{i}] for {i} in {s}]"
        value = self.bounded(c.index(i, s), 2)
        return f"[0.5 * {u}[{self.place(s, c.index(i, s))}] + {value} for {i} in {s}]"

    # effects

    def state(self, c: Scope) -> tuple[Lines, Scope]:
        v, q, s = self.fresh("v"), self.fresh("s"), self.r.choice(self.sets)
        if self.chance(0.35):
            w, p = self.fresh("v"), self.fresh("s")
            inner = c.vector(q, s).real(p)
            first, second = self.vector(s, c, 1), self.real(c, 1)
            head = f"({v}, {w}) = with state({first}) as {q}, state({second}) as {p}:"
            return [head, *deeper(self.effects(inner, q, s, p, 2))], c.vector(v, s).real(w)
        head = f"{v} = with state({self.vector(s, c, 1)}) as {q}:"
        return [head, *deeper(self.effects(c.vector(q, s), q, s, "", 2))], c.vector(v, s)

    def rounds(self, c: Scope) -> tuple[Lines, Scope]:
        """A table of what the rounds of a loop find in a state, often over as many terms as the
        state says."""
        v, q, w, t = self.fresh("v"), self.fresh("s"), self.fresh("w"), self.fresh("t")
        s, over, i = self.r.choice(self.sets), self.r.choice(self.sets), self.fresh("i")
        inner = c.vector(q, s).index(t, over)
        found = f"{q}[{self.place(s, inner)}]"
        kept = f"[{i} for {i} in {s} if {q}[{i}] > {self.leaf(inner)}]"
        many, of = self.r.choice(((f"0..1 + Int(3.0 * abs(tanh({found})))", ""), (kept, s), (s, s)))
        term = self.bounded(inner.index(i, of) if of else inner.integer(i), 2)
        how = self.r.choice(("sum", "sum", "prod", "logsumexp"))
        lines = [f"{w} = {how}({term} for {i} in {many})"]
        lines += self.effects(inner.real(w), q, s, "", 1)
        if how == "logsumexp":
            w = f"max(-9.0, {w})"
        block = [f"    for {t} in {over}:", *deeper(deeper([*lines, w]))]
        return [f"({v}, _) = with state({self.vector(s, c, 1)}) as {q}:", *block], c.vector(v, over)

    def effects(self, c: Scope, q: str, s: str, p: str, depth: int) -> Lines:
        """Lines that assign elements of a table and a number."""
        lines: Lines = []
        for _ in range(self.r.randint(1, 2)):
            at = self.place(s, c)
            match self.r.randrange(8 if depth else 4):
                case 0:
                    lines.append(f"{q}[{at}] := {self.bounded(c, 2)}")
                case 1:
                    lines.append(f"{q}[{at}] += {self.bounded(c, 1)}")
                case 2:
                    lines.append(f"{q}[{at}] *= {self.bounded(c, 1)}")
                case 3 if p:
                    lines.append(f"{p} := 0.5 * {p} + {self.bounded(c, 2)}")
                case 4 if c.indices:
                    lines.append(f"if {self.truth(c, 1)}:")
                    lines += deeper(self.effects(c, q, s, p, depth - 1))
                    if self.chance(0.4):
                        lines += ["else:", *deeper(self.effects(c, q, s, p, depth - 1))]
                case 3:
                    i = self.fresh("i")
                    row = self.bounded(c.index(i, s), 1)
                    lines.append(
                        f"{q} := [0.5 * {q}[{self.place(s, c.index(i, s))}] + {row} for {i} in {s}]"
                    )
                case _:
                    i = self.fresh("i")
                    over, of = self.range_of(c)
                    inner = c.index(i, of) if of != "none" else c.integer(i)
                    lines.append(f"for {i} in {over}:")
                    if self.chance(0.3):
                        w = self.fresh("w")
                        lines.append(f"    {w} = {self.real(inner, 2)}")
                        inner = inner.real(w)
                    lines += deeper(self.effects(inner, q, s, p, max(depth - 1, 0)))
        return lines

    def accumulated(self, c: Scope) -> tuple[Lines, Scope]:
        v, h, s, i = self.fresh("v"), self.fresh("h"), self.r.choice(self.sets), self.fresh("i")
        over, of = self.range_of(c)
        inner = c.index(i, of) if of != "none" else c.integer(i)
        lines: Lines = []
        if self.chance(0.3):
            j = self.fresh("j")
            more, sj = self.range_of(inner)
            inner = inner.index(j, sj) if sj != "none" else inner.integer(j)
            binders = f"{i} in {over}, {j} in {more}"
        else:
            binders = f"{i} in {over}"
        op = self.r.choice(("", "", "", "max", "*"))
        value = self.bounded(inner, 2) if op != "*" else f"1.0 + 0.1 * {self.bounded(inner, 1)}"
        add = f"{h}[{self.place(s, inner)}] += {value}"
        if self.chance(0.3):
            lines = [f"if {self.truth(inner, 1)}: {add}"]
        else:
            lines = [add]
        head = f"{v}: {s}=>Float = with accum({op}) as {h}:"
        block = [head, f"    for {binders}:", *deeper(deeper(lines))]
        if op != "max":
            return block, c.vector(v, s)
        w = self.fresh("v")
        return [*block, f"{w} = tanh({v})"], c.vector(w, s)

    # definitions

    def definition(self, c: Scope) -> tuple[Lines, Scope]:
        name = self.fresh("f")
        known = Scope(functions=c.functions)
        kind = self.r.choice(("scalar", "row", "vector", "struct"))
        match kind:
            case "scalar":
                head, inner = "p: Float, q: Float) -> Float", known.real("p", "q")
            case "row":
                head, inner = (
                    "p: Fin(n)=>Float, q: Float) -> Float",
                    known.real("q").vector("p", "Fin(n)"),
                )
            case "vector":
                head = "p: Fin(n)=>Float, q: Float) -> Fin(n)=>Float"
                inner = known.real("q").vector("p", "Fin(n)")
            case _:
                head, inner = "p: Pair) -> Pair", known.real("p.u", "p.v")
        self.sets = (*(s for _, s in inner.vectors), "Fin(3)")
        lines: Lines = []
        if self.chance(0.4):
            lines, inner = self.r.choice((self.value, self.table, self.loop))(inner)
        match kind:
            case "scalar" | "row":
                lines.append(self.real(inner, 3))
            case "vector":
                lines.append(self.vector("Fin(n)", inner, 3))
            case _:
                lines.append(f"Pair({self.real(inner, 2)}, {self.real(inner, 2)})")
        self.sets = SETS
        text = [f"def {name}({head}:", *deeper(lines), ""]
        return text, replace(c, functions=(*c.functions, (name, kind)))

    def whole_program(self) -> str:
        c = Scope(functions=(("weigh", "kind"),))
        lines: Lines = []
        for _ in range(self.r.randint(0, 2)):
            more, c = self.definition(c)
            lines += more
        inner = replace(START, functions=c.functions)
        body: Lines = []
        for _ in range(self.r.randint(1, 4)):
            more, inner = self.statement(inner)
            body += more
        made = [v for v, _ in inner.vectors[2:]] + list(inner.floats[1:])
        made += [v for v, _, _ in inner.matrices[1:]] + [v for v, _ in inner.pairs]
        some = self.r.sample(made, min(len(made), self.r.randint(1, 2))) or [self.real(inner, 3)]
        result = some[0] if len(some) == 1 else f"({', '.join(some)})"
        strict = "@strict\n" if self.chance(0.1) else ""
        text = "\n".join(deeper([*body, result]))
        return f"{PRELUDE}\n{WEIGH}\n" + "\n".join(lines) + f"\n{strict}def f({PARAMS}):\n{text}\n"


WEIGH = """\
def weigh(s: Kind, d: Float) -> Float:
    match s:
        case Two(v, w) if v > w: v - w
        case One(v) | Two(_, v): 0.5 * v
        case Nothing: d
"""


def program(seed: int) -> str:
    return Statements(random.Random(seed)).whole_program()
