"""Whole programs by chance, richer: with what `wider_by_chance` has not.

More kinds of arguments: rows of any length, bytes, truths, values of an enum, structs and a
triangle. Loops that carry an enum, a struct or a matrix; states of structs, of an enum and of
matrices, whose rows are assigned and swapped; rows as long as a number says; sums of sets; sets of
one's own; functions that data choose; derivatives with respect to structs and matrices, and with a
rule of one's own; orders of integers and of tuples; large integers; handlers in handlers.
"""

from __future__ import annotations

import random
from dataclasses import replace

from programs_by_chance import Lines, deeper
from surface_by_chance import PARAMS, Scope
from wider_by_chance import MORE, Wide, Wider

RICHER = f"""\
{MORE}
struct Cell(h, w):
    row: h
    col: w

instance Ix(Cell)

enum Slot(s) = Free | Held(by: s)

instance Ix(Slot)

@custom_jvp(slope)
def soft(v: Float) -> Float = log1p(exp(-abs(v))) + relu(v)

def slope(v: Float, dv: Float) -> Float = dv * sigmoid(v)

def least(v: Float, w: Float) -> {{Except}} Float:
    if v > w: throw()
    w - v
"""
GIVEN = (
    f"{PARAMS}, rows: Fin(m)=>(exists p. Fin(p)=>Float), b: Fin(n)=>U8, on: Fin(m)=>Bool, "
    "cells: Fin(n)=>Kind, ps: Fin(m)=>Pair, t: (i: Fin(n))=>(..=i)=>Float"
)
LARGE = ("9223372036854775807", "4611686018427387904", "-3037000499", "1 << 62", "1 << 63", "-1")


class Richer(Wider):
    """Statements that `Wider` has not."""

    prelude, params = RICHER, GIVEN

    def start(self, functions: tuple[tuple[str, str], ...]) -> Scope:
        return replace(
            super().start(functions),
            rows=(("rows", "Fin(m)"),), narrow=(("b", "Fin(n)"),), truths=(("on", "Fin(m)"),),
            kinds=(("cells", "Fin(n)"),), pairs=(("ps", "Fin(m)"),), triangles=("t",),
        )  # type: ignore[call-arg]  # fmt: skip

    def statement(self, c: Scope) -> tuple[Lines, Scope]:
        if not isinstance(c, Wide) or self.chance(0.25):
            return super().statement(c)
        kinds = [self.machine, self.bodies, self.marks, self.pages, self.queue, self.as_many,
                 self.sum_of_sets, self.board, self.slots, self.triangles, self.functions,
                 self.of_structs, self.of_matrices, self.of_rows, self.rows_by_key, self.in_order,
                 self.large, self.handlers, self.best_so_far, self.carried_rows,
                 self.softened]  # fmt: skip
        return self.r.choice(kinds)(c)

    # enums and structs that go through loops

    def machine(self, c: Wide) -> tuple[Lines, Scope]:
        """A loop that carries a value of an enum, and asks which one it is."""
        h, w, t, s = self.fresh("h"), self.fresh("w"), self.fresh("t"), self.r.choice(self.sets)
        p, q, v = self.fresh("p"), self.fresh("p"), self.fresh("v")
        inner = c.index(t, s).real(w)
        one, two = inner.real(p), inner.real(p, q)
        lines = [f"loop {h} = {self.kind(c, 1)}, {w} = {self.leaf(c)} for {t} in {s}:",
                 f"    match {h}:"]  # fmt: skip
        if self.chance(0.5):
            lines.append(
                f"        case One({p}) if {self.truth(one, 1)}: ({self.small_kind(one)}, {w})"
            )
        lines += [
            f"        case One({p}): ({self.small_kind(one)}, 0.5 * {w} + {self.bounded(one, 1)})",
            f"        case Two({p}, {q}): ({self.small_kind(two)}, {self.bounded(two, 1)})",
            f"        case Nothing: ({self.small_kind(inner)}, 0.5 * {w} + {self.leaf(inner)})",
            f"{v} = weigh({h}, {w})",
        ]
        return lines, c.real(v, w)

    def small_kind(self, c: Scope) -> str:
        one, two = self.bounded(c, 1), self.bounded(c, 1)
        return self.r.choice(
            (f"One({one})", f"Two({one}, {two})", "Nothing", f"(One({one}) if {self.truth(c, 1)} "
             f"else Two({two}, {one}))", f"(Nothing if {self.truth(c, 0)} else One({two}))")
        )  # fmt: skip

    def bodies(self, c: Wide) -> tuple[Lines, Scope]:
        """A table of structs, changed by its fields or as a whole."""
        v, q, t, i = (self.fresh(x) for x in "vqti")
        s, over = self.r.choice(self.sets), self.r.choice(self.sets)
        first = c.index(i, s)
        start = f"[Pair({self.bounded(first, 1)}, {self.leaf(first)}) for {i} in {s}]"
        inner = c.index(t, over)
        assert isinstance(inner, Wide)
        inner = replace(inner, pairs=((q, s),) * 3)
        if self.chance(0.4):
            cell = inner.index(i, s)
            both = f"Pair({self.bounded(cell, 1)}, 0.5 * {q}[{i}].v + {self.bounded(cell, 1)})"
            lines = [f"loop {q} = {start} for {t} in {over}:", f"    [{both} for {i} in {s}]"]
            return lines, replace(c, pairs=(*c.pairs, (q, s)))
        lines = [f"{v} = with state({start}) as {q}:", f"    for {t} in {over}:"]
        for _ in range(self.r.randint(1, 3)):
            at, to = self.place(s, inner), self.place(s, inner)
            line = self.r.choice(
                (f"{q}[{at}].u := {self.bounded(inner, 1)}", f"{q}[{at}].v += {self.leaf(inner)}",
                 f"{q}[{at}] := Pair({self.bounded(inner, 1)}, {q}[{at}].u)",
                 f"if {self.truth(inner, 1)}: {q}[{at}].v *= {self.bounded(inner, 0)}",
                 f"({q}[{at}].u, {q}[{at}].v) := ({q}[{at}].v, 0.5 * {q}[{at}].u)",
                 f"({q}[{at}], {q}[{to}]) := ({q}[{to}], {q}[{at}])")
            )  # fmt: skip
            lines.append(f"        {line}")
        return lines, replace(c, pairs=(*c.pairs, (v, s)))

    def marks(self, c: Wide) -> tuple[Lines, Scope]:
        """A table of an enum, whose elements are replaced by what they are."""
        v, q, t, i, p = (self.fresh(x) for x in "hqtip")
        s, over = self.r.choice(self.sets), self.r.choice(self.sets)
        start = f"[{self.small_kind(c.index(i, s))} for {i} in {s}]"
        inner = c.index(t, over)
        assert isinstance(inner, Wide)
        inner = replace(inner, kinds=((q, s),) * 2)
        at = self.place(s, inner)
        lines = [f"{v} = with state({start}) as {q}:", f"    for {t} in {over}:"]
        way = self.r.randrange(3)
        if way == 0:
            lines.append(f"        {q}[{at}] := {self.small_kind(inner)}")
        elif way == 1:
            lines += [f"        match {q}[{at}]:",
                      f"            case One({p}): {q}[{at}] := {self.small_kind(inner.real(p))}",
                      f"            case Two({p}, _) if {self.truth(inner.real(p), 1)}: "
                      f"{q}[{self.place(s, inner)}] := {self.small_kind(inner.real(p))}",
                      f"            case _: {q}[{at}] := {self.small_kind(inner)}"]  # fmt: skip
        else:
            cell = inner.index(i, s)
            row = f"[{self.small_kind(cell)} if {self.truth(cell, 1)} else {q}[{i}] for {i} in {s}]"
            lines.append(f"        {q} := {row}")
        return lines, replace(c, kinds=(*c.kinds, (v, s)))

    # matrices that loops change

    def pages(self, c: Wide) -> tuple[Lines, Scope]:
        """A matrix changed by elements and by rows."""
        v, q, k, i = (self.fresh(x) for x in "mqti")
        s, t, over = (self.r.choice(self.sets) for _ in range(3))
        if s == t:
            return self.machine(c)
        inner = c.index(k, over).matrix(q, s, t)
        lines = [f"{v} = with state({self.matrix(s, t, c, 1)}) as {q}:", f"    for {k} in {over}:"]
        for _ in range(self.r.randint(1, 3)):
            a, b, d = self.place(s, inner), self.place(s, inner), self.place(t, inner)
            cell = inner.index(i, t)
            line = self.r.choice(
                (f"{q}[{a}, {d}] := {self.bounded(inner, 2)}", f"{q}[{a}] := {q}[{b}]",
                 f"{q}[{a}, {d}] += {self.bounded(inner, 1)}",
                 f"{q}[{a}][{d}] *= {self.bounded(inner, 0)}",
                 f"{q}[{a}] := [{self.bounded(cell, 1)} for {i} in {t}]",
                 f"{q}[{a}] := {self.vector(t, inner, 0)}",
                 f"({q}[{a}], {q}[{b}]) := ({q}[{b}], {q}[{a}])",
                 f"for {i} in {t}: {q}[{a}, {i}] := 0.5 * {q}[{b}, {i}] + {self.bounded(cell, 1)}",
                 f"if {self.truth(inner, 1)}: {q}[{a}] *= {self.bounded(inner, 0)}")
            )  # fmt: skip
            lines.append(f"        {line}")
        return lines, c.matrix(v, s, t)

    def carried_rows(self, c: Wide) -> tuple[Lines, Scope]:
        """Tables that go through a loop, a scan or a fold, with another thing beside them."""
        v, w, z, i, e = (self.fresh(x) for x in "mwzie")
        s, t = self.r.choice(self.sets), self.r.choice(self.sets)
        inner = c.vector(z, s).real(e)
        cell = inner.index(i, s)
        step = f"[0.5 * {z}[{self.place(s, cell)}] + {self.bounded(cell, 1)} for {i} in {s}]"
        if self.chance(0.4):
            f = f"fold(lambda {z}, {e}: {step}, {self.vector(s, c, 0)}, {self.vector(t, c, 1)})"
            return [f"{v} = {f}"], c.vector(v, s)
        if s == t or self.chance(0.3):
            deep = c.index(w, t).vector(z, s)
            cell = deep.index(i, s)
            step = f"[0.5 * {z}[{self.place(s, cell)}] + {self.bounded(cell, 1)} for {i} in {s}]"
            ready = f" checkpoint({self.r.randint(1, 3)})"
            return [f"loop {z} = {self.vector(s, c, 1)} for {w} in {t}{ready}:", f"    {step}"], (
                c.vector(z, s)
            )
        scan = self.r.choice(("scan", "scan_exclusive"))
        f = f"{scan}(lambda {z}, {e}: {step}, {self.vector(s, c, 0)}, {self.vector(t, c, 1)})"
        return [f"{v} = {f}"], c.matrix(v, t, s)

    def queue(self, c: Wide) -> tuple[Lines, Scope]:
        """A `while` over several states."""
        v, w, q, p, k = (self.fresh(x) for x in "vwqpk")
        s = self.r.choice(self.sets)
        inner = c.vector(q, s).real(p).integer(k)
        lines = [f"({v}, {w}, _) = with state({self.vector(s, c, 1)}) as {q}, "
                 f"state({self.leaf(c)}) as {p}, state(0) as {k}:",
                 f"    while {k} < {self.r.randint(1, 5)} and {self.truth(inner, 1)}:",
                 f"        {k} += 1"]  # fmt: skip
        lines += deeper(deeper(self.effects(inner, q, s, p, 1)))
        if self.chance(0.3):
            lines.append(f"        {p} := 0.5 * {p} + {self.bounded(inner, 1)}")
        return lines, c.vector(v, s).real(w)

    # sizes and sets

    def as_many(self, c: Wide) -> tuple[Lines, Scope]:
        """A row as long as a number says."""
        v, w, g, i, j = (self.fresh(x) for x in "vwgij")
        s = self.r.choice(self.sets)
        cell = c.integer(j)
        way, real = self.r.choice(
            (("sum({0})", True), ("sum(cumsum({0}) * {0})", True), ("tanh(max({0}))", True),
             ("[sum(tanh({0} - {3})) for {1} in {2}]", False),
             ("sum(sort({0})[min(1, size({0}))..])", True), ("sum([*{0}, *{0}] * 0.5)", True),
             ("[{0}.get({1}, {3}) for {1} in {2}]", False), ("logsumexp([0.3, *{0}, {3}])", True),
             ("[sum({0}[..min({1}, size({0}))]) for {1} in {2}]", False),
             ("fold(lambda p, e: 0.5 * p + sin(e), {3}, {0})", True))
        )  # fmt: skip
        lines = [f"{g} = max(0, min(6, {self.integer(c, 2)}))"]
        lines += self.r.choice(
            ([f"{v} = [{self.bounded(cell, 2)} for {j} in Fin({g})]"],
             [f"{v} = [{self.bounded(cell, 2)} for {j} in 0..{g}]"],
             [f"{v} = {self.named('Fin(n)', c)}", f"{v} = {v}[..min(n, {g})]"])
        )  # fmt: skip
        lines.append(f"{w} = {way.format(v, i, s, self.leaf(c.index(i, s) if not real else c))}")
        return lines, c.real(w) if real else c.vector(w, s)

    def sum_of_sets(self, c: Wide) -> tuple[Lines, Scope]:
        z, u, v, i, k = (self.fresh(x) for x in "zuvik")
        s, t = self.r.choice(("Fin(n)", "Fin(3)")), "Day"
        if self.chance(0.5):
            s, t = t, s
        one, two = c.index(i, s), c.index(i, t)
        both = f"concat({self.vector(s, c, 1)}, {self.vector(t, c, 1)})"
        lines = [f"{z}: ({s} | {t})=>Float = {both}",
                 f"{u} = for {k} in ({s} | {t}):", f"    match {k}:",
                 f"        case left({i}): {z}[{k}] * {self.bounded(one, 1)}",
                 f"        case right({i}): {self.bounded(two, 1)} + {z}[{k}]"]  # fmt: skip
        way, of = self.r.choice(
            ((f"[{u}[left({i})] for {i} in {s}]", s), (f"[{u}[right({i})] for {i} in {t}]", t),
             (f"[cumsum({u})[right({i})] + {z}[right({i})] for {i} in {t}]", t),
             (f"[sum({u}[left(j)] for j in ..={i}) for {i} in {s}]", s))
        )  # fmt: skip
        return [*lines, f"{v} = {way}"], c.vector(v, of)

    def board(self, c: Wide) -> tuple[Lines, Scope]:
        """A table over cells, which are a set of one's own."""
        v, w, e, i, j = (self.fresh(x) for x in "vweij")
        s, t = self.r.sample(["Fin(n)", "Fin(m)", "Fin(3)", "Day"], 2)
        of = f"Cell({s}, {t})"
        inner = c.index(i, s).index(j, t)
        lines = [f"{v}: {of}=>Float = for {e}:", f"    {i} = {e}.row", f"    {j} = {e}.col",
                 f"    {self.real(inner, 2)}"]  # fmt: skip
        if self.chance(0.4):
            k, u = self.fresh("k"), self.fresh("v")
            deep = c.index(k, "Fin(n)")
            at = f"Cell({self.place(s, deep)}, {self.place(t, deep)})"
            how = self.r.choice(("with accum() as {0}:", "with state({1}) as {0}:"))
            line = "+=" if "accum" in how else self.r.choice(("+=", ":=", "*="))
            lines += [f"{u}: {of}=>Float = {how.format('g' + u, v)}", f"    for {k} in Fin(n):",
                      f"        g{u}[{at}] {line} {self.bounded(deep, 1)}"]  # fmt: skip
            v = u
        way, kept = self.r.choice(
            ((f"[{v}[Cell({i}, {j})] for {i} in {s}, {j} in {t}]", (s, t)),
             (f"[cumsum({v})[Cell({i}, {j})] for {j} in {t}, {i} in {s}]", (t, s)),
             (f"tanh({v}) as {s}=>{t}=>Float", (s, t)))
        )  # fmt: skip
        return [*lines, f"{w} = {way}"], c.matrix(w, *kept)

    def slots(self, c: Wide) -> tuple[Lines, Scope]:
        """A table over an enum with fields."""
        v, g, e, i, k = (self.fresh(x) for x in "vgeik")
        s, over = self.r.choice(("Fin(3)", "Fin(n)", "Day")), self.r.choice(self.sets)
        inner = c.index(k, over)
        at = f"(Held({self.place(s, inner)}) if {self.truth(inner, 1)} else Free)"
        lines = [f"{g}: Slot({s})=>Float = with accum() as {e}:", f"    for {k} in {over}:",
                 f"        {e}[{at}] += {self.bounded(inner, 2)}",
                 f"{v} = [{g}[Held({i})] - 0.5 * {g}[Free] for {i} in {s}]"]  # fmt: skip
        return lines, c.vector(v, s)

    def triangles(self, c: Wide) -> tuple[Lines, Scope]:
        v, w, i, j = (self.fresh(x) for x in "tvij")
        inner = c.index(i, "Fin(n)").index(j, "Fin(n)")
        over = self.r.choice((f"{i}..", f"{i}<..", f"..{i}", f"..={i}"))
        lines = [f"{v} = [[{self.real(inner, 2)} for {j} in {over}] for {i} in Fin(n)]"]
        way = self.r.choice(
            (f"[sum({v}[{i}]) for {i} in Fin(n)]", f"sum(tanh({v}))",
             f"[sum(cumsum({v}[{i}])) for {i} in Fin(n)]",
             f"[logsumexp([0.1, *{v}[{i}]]) for {i} in Fin(n)]",
             f"[sum({v}[{i}, {j}] * t[{i}, {i}] for {j} in {over}) for {i} in Fin(n)]",
             f"[sum({v}[{j}, {i}] for {j} in Fin(n) if {j} {'>' if over[:2] == '..' else '<'} {i}) "
             f"for {i} in Fin(n)]")
        )  # fmt: skip
        return [*lines, f"{w} = {way}"], c.vector(w, "Fin(n)")

    # functions

    def functions(self, c: Wide) -> tuple[Lines, Scope]:
        """Functions in a table, chosen by data."""
        v, fs, i, p = (self.fresh(x) for x in "vfip")
        s = self.r.choice(self.sets)
        inner = c.index(i, s)
        made = [f"lambda {p}: {self.real(c.real(p), 2)}" for _ in range(3)]
        lines = [f"{fs} = [{', '.join(made)}]"]
        lines.append(
            f"{v} = [{fs}[{self.place('Fin(3)', inner)}]({self.real(inner, 1)}) for {i} in {s}]"
        )
        return lines, c.vector(v, s)

    def softened(self, c: Wide) -> tuple[Lines, Scope]:
        v, i, s = self.fresh("v"), self.fresh("i"), self.r.choice(self.sets)
        u = self.fresh("u")
        inner = c.index(i, s)
        at, by = self.bounded(inner, 1), self.leaf(inner)
        value = self.r.choice(
            (f"soft({self.real(inner, 2)})", f"soft({at}) * {by}",
             f"grad(lambda {u}: soft({u}) * {u})({self.real(inner, 1)})",
             f"grad(grad(lambda {u}: {u} * soft({u} * {by})))({at})")
        )  # fmt: skip
        return [f"{v} = [{value} for {i} in {s}]"], c.vector(v, s)

    def of_structs(self, c: Wide) -> tuple[Lines, Scope]:
        """A derivative with respect to a struct, or a table of them."""
        v, g, p = self.fresh("v"), self.fresh("g"), self.fresh("p")
        if self.chance(0.5):
            body = self.real(c.real(f"{p}.u", f"{p}.v"), 2)
            at = f"Pair({self.bounded(c, 1)}, {self.leaf(c)})"
            lines = [f"({v}, {g}) = value_and_grad(lambda {p}: {body})({at})"]
            return lines, c.real(v, f"{g}.u", f"{g}.v")
        (q, s), i = self.r.choice(c.pairs), self.fresh("i")
        inner = c.index(i, s)
        assert isinstance(inner, Wide)
        inner = replace(inner, pairs=((p, s),))
        body = f"sum({p}[{self.place(s, inner)}].u * {self.bounded(inner, 2)} for {i} in {s})"
        lines = [f"{g} = grad(lambda {p}: {body})({q})"]
        return lines, replace(c, pairs=(*c.pairs, (g, s)))

    def of_matrices(self, c: Wide) -> tuple[Lines, Scope]:
        v, g, p = self.fresh("v"), self.fresh("g"), self.fresh("p")
        q, s, t = self.r.choice(c.matrices)
        inner = c.matrix(p, s, t)
        if self.chance(0.4):
            i = self.fresh("i")
            body = f"[{self.real(inner.index(i, s), 2)} for {i} in {s}]"
            lines = [f"({v}, {g}) = jvp(lambda {p}: {body}, {q}, {q})"]
            return lines, c.vector(v, s).vector(g, s)
        lines = [f"{g} = grad(lambda {p}: {self.real(inner, 3)})({q})"]
        return lines, c.matrix(g, s, t)

    # rows

    def of_rows(self, c: Wide) -> tuple[Lines, Scope]:
        """From rows others, and what they come to."""
        u, r, e, i = (self.fresh(x) for x in "vrei")
        q, s = self.r.choice(c.rows)
        inner = c.index(i, s)
        each = inner.real(e)
        of = self.r.choice(
            (f"sort({q}[{i}])", f"cumsum({q}[{i}])", f"reverse({q}[{i}])", f"softmax({q}[{i}])",
             f"[{self.bounded(each, 1)} for {e} in {q}[{i}]]", f"{q}[{self.place(s, inner)}]",
             f"[{e} for {e} in {q}[{i}] if {self.truth(each, 1)}]",
             f"[{self.leaf(inner)}, *{q}[{i}]]",
             f"scan(lambda p, {e}: 0.5 * p + {self.bounded(each.real('p'), 1)}, 0.3, {q}[{i}])",
             f"unique({q}[{i}])",
             f"[{q}[{i}].get(j + 1, {self.leaf(inner)}) for j in argsort({q}[{i}])]")
        )  # fmt: skip
        lines = [f"{r} = [{of} for {i} in {s}]"]
        way = self.r.choice(
            ("[sum({r}[{i}]) for {i} in {s}]", "[tanh(max({r}[{i}])) for {i} in {s}]",
             "[logsumexp([0.2, *{r}[{i}]]) for {i} in {s}]", "[sum(sin({r}[{i}])) for {i} in {s}]",
             "[{r}[{i}].get(1, 0.4) for {i} in {s}]", "[prod(tanh({r}[{i}])) for {i} in {s}]",
             "[fold(lambda p, {e}: sin(p + {e}), 0.1, {r}[{i}]) for {i} in {s}]",
             "[sum(sum({r}[{j}]) for {j} in ..={i}) for {i} in {s}]",
             "[sum({e} * f for {e} in {r}[{i}], f in {r}[{i}] if f > {e}) for {i} in {s}]")
        )  # fmt: skip
        lines.append(f"{u} = {way.format(r=r, i=i, s=s, e=e, j=self.fresh('j'))}")
        return lines, replace(c, rows=(*c.rows, (r, s))).vector(u, s)

    def rows_by_key(self, c: Wide) -> tuple[Lines, Scope]:
        """Elements of rows in a loop: added up, assigned, or given up at."""
        v, h, i, e = (self.fresh(x) for x in "vhie")
        (q, s), t = self.r.choice(c.rows), self.r.choice(self.sets)
        inner = c.index(i, s).real(e)
        match self.r.randrange(3):
            case 0:
                lines = [f"{v}: {t}=>Float = with accum() as {h}:",
                         f"    for {i} in {s}, {e} in {q}[{i}]:",
                         f"        {h}[{self.place(t, inner)}] += {self.bounded(inner, 1)}"]
                return lines, c.vector(v, t)
            case 1:
                inner = inner.vector(h, t)
                lines = [f"{v} = with state({self.vector(t, c, 0)}) as {h}:",
                         f"    for {i} in {s}:", f"        for {e} in {q}[{i}]:"]  # fmt: skip
                lines += deeper(deeper(deeper(self.effects(inner, h, t, "", 1))))
                return lines, c.vector(v, t)
            case _:
                most = self.real(c.index(i, s), 1)
                lines = [f"{v} = for {i} in {s}:", f"    {h} = with except:",
                         f"        sum(least({e}, {most}) for {e} in {q}[{i}])",
                         f"    match {h}:", f"        case Some({e}): {e}",
                         f"        case None: {self.leaf(c.index(i, s))}"]  # fmt: skip
                return lines, c.vector(v, s)

    # orders and integers

    def in_order(self, c: Wide) -> tuple[Lines, Scope]:
        v, i, s = self.fresh("w"), self.fresh("i"), self.r.choice(self.sets)
        inner = c.index(i, s)
        whole = f"[{self.integer(inner, 2)} + 0 for {i} in {s}]"
        if self.chance(0.5):
            return [f"{v} = sort({whole})"], replace(c, whole=(*c.whole, (v, s)))
        if self.chance(0.5):
            w = self.fresh("v")
            key = f"[({self.integer(inner, 1)} + 0, {self.bounded(inner, 1)}) for {i} in {s}]"
            lines = [f"({v}, {w}) = sort({key})"]
            return lines, replace(c, whole=(*c.whole, (v, s))).vector(w, s)
        w = self.fresh("v")
        return [f"{v} = unique({whole})", f"{w} = Float(size({v})) + 0.1 * sum({v} % 7)"], c.real(w)

    def large(self, c: Wide) -> tuple[Lines, Scope]:
        """Integers that wrap around."""
        v, i, s = self.fresh("w"), self.fresh("i"), self.r.choice(self.sets)
        inner = c.index(i, s)
        one, two = self.integer(inner, 2), self.integer(inner, 1)
        op = self.r.choice(("+", "-", "*", "//", "%", "<<", ">>", "&", "|", "^"))
        large = self.r.choice(LARGE)
        value = f"(({one}) {op} ({large})) {self.r.choice('+-*')} ({two})"
        if self.chance(0.3):
            value = f"Int(bitcast(U64, {value}) // 3) if ({one}) > 1 else ({two}) - ({large})"
        lines = [f"{v} = [({value}) // {self.r.randint(1, 9)} % 11 for {i} in {s}]"]
        if self.chance(0.3):
            step, added = "lambda p, q: p * 6364136223846793005 + q", f"[{one} + 0 for {i} in {s}]"
            lines = [f"{v} = scan({step}, {self.r.randint(0, 9)}, {added})",
                     f"{v} = [({v}[{i}] >> 33) % 13 for {i} in {s}]"]  # fmt: skip
        return lines, replace(c, whole=(*c.whole, (v, s)))

    # exceptions

    def handlers(self, c: Wide) -> tuple[Lines, Scope]:
        """A handler in a handler, in a loop or in a function that is passed."""
        v, w, d, e, i, p = (self.fresh(x) for x in "vwdeip")
        s = self.r.choice(self.sets)
        inner = c.index(i, s)
        deep = inner.real(p)
        again = self.r.choice(("least({p}, {v})", "root({p} - {v})")).format(p=p, v=self.leaf(deep))
        body: Lines = [f"{d} = with except:"]
        body += [f"    if {self.truth(inner, 1)}: throw()"] * self.chance(0.6)
        body += [f"    least({self.real(inner, 1)}, {self.real(inner, 1)})",
                 f"match {d}:", f"    case Some({p}) if {self.truth(deep, 1)}: {again}",
                 f"    case Some({p}): {self.bounded(deep, 1)}",
                 f"    case None: {self.bounded(inner, 1)}"]  # fmt: skip
        if self.chance(0.5):
            body[-1] += f" + 0.5 * {w}"
            lines = [f"{e} = with except:", f"    loop {w} = {self.leaf(c)} for {i} in {s}:",
                     *deeper(deeper(body)), f"    {w} + 0.0", f"{v} =", f"    match {e}:",
                     f"        case Some({p}): {p}", f"        case None: {self.leaf(c)}"]
            return lines, c.real(v)
        lines = [f"{e} = with except:", f"    for {i} in {s}:", *deeper(deeper(body)), f"{v} =",
                 f"    match {e}:", f"        case Some({p}): {p}",
                 f"        case None: {self.vector(s, c, 1)}"]  # fmt: skip
        return lines, c.vector(v, s)

    def best_so_far(self, c: Wide) -> tuple[Lines, Scope]:
        """The best of pairs of a number and a place, by an operator of one's own."""
        v, w, i, p, q = (self.fresh(x) for x in "vkipq")
        s = self.r.choice(("Fin(n)", "Fin(m)", "Fin(3)"))
        pairs = f"[({self.bounded(c.index(i, s), 2)}, Int({i})) for {i} in {s}]"
        op = self.r.choice(
            ("lambda ({0}, {0}k), ({1}, {1}k): ({0}, {0}k) if {0} >= {1} else ({1}, {1}k)",
             "lambda {0}, {1}: {0} if {0} <= {1} else {1}")
        ).format(p, q)  # fmt: skip
        unit = "(-9.0, -1)" if "k)" in op else "(9.0, -1)"
        if self.chance(0.5):
            lines = [f"({v}, {w}) = reduce({op}, {unit}, {pairs})"]
            return lines, c.real(v).integer(w)
        lines = [f"({v}, {w}) = scan({op}, {unit}, {pairs})"]
        return lines, replace(c, whole=(*c.whole, (w, s))).vector(v, s)


def program(seed: int) -> str:
    return Richer(random.Random(seed)).whole_program()
