"""Whole programs by chance, wider: with what `programs_by_chance` has not.

Tables of truths, of small integers, of an enum, of complex numbers, over days and over pairs of
indices; rows of unequal lengths; exceptions; accumulators of other operators; lifted functions of
matrices; loops with checkpoints; what is associative; and the modules of the library.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from programs_by_chance import START, WEIGH, Lines, Statements, deeper
from surface_by_chance import PARAMS, PRELUDE, Scope, Set

MORE = f"""\
import linalg
import numeric
import random
import stats

{PRELUDE}
enum Day = Mo | Tu | We | Th

struct Complex:
    re: Float
    im: Float

instance Num(Complex):
    def (+)(z, w) = Complex(z.re + w.re, z.im + w.im)
    def (-)(z, w) = Complex(z.re - w.re, z.im - w.im)
    def (*)(z, w) = Complex(z.re * w.re - z.im * w.im, z.re * w.im + z.im * w.re)
    def number(x) = Complex(Float(x), 0.0)

{WEIGH}
def root(v: Float) -> {{Except}} Float:
    if v < 0.0: throw()
    sqrt(0.1 + v)

def push(r: Ref(s=>Float), i: s, v: Float) -> {{State}} Float:
    w = r[i]
    r[i] := 0.5 * w + v
    w
"""
WIDE: tuple[Set, ...] = ("Fin(n)", "Fin(n)", "Fin(m)", "Fin(m)", "Fin(3)", "Day", "Fin(n + 1)")
NARROW = ("U8", "I8", "U16", "I16", "U32", "I32")
AFFINE = "lambda {0}, {1}: Pair({0}.u * {1}.u, {1}.u * {0}.v + {1}.v)"


@dataclass(frozen=True)
class Wide(Scope):
    """More that may be mentioned."""

    truths: tuple[tuple[str, Set], ...] = ()
    narrow: tuple[tuple[str, Set], ...] = ()
    kinds: tuple[tuple[str, Set], ...] = ()
    rows: tuple[tuple[str, Set], ...] = ()  # of numbers, of any length
    complexes: tuple[tuple[str, Set], ...] = ()
    days: tuple[str, ...] = ()  # indices

    def index(self, name: str, s: Set) -> Scope:
        if s == "Day":  # no number by itself beside another set's
            return replace(self, days=(*self.days, name), ints=(*self.ints, f"Int({name})"))
        return super().index(name, s)


class Wider(Statements):
    """Statements that `Statements` has not."""

    prelude, params = MORE, PARAMS

    def start(self, functions: tuple[tuple[str, str], ...]) -> Scope:
        """What a body may mention at first: its parameters."""
        return Wide(**(vars(START) | {"functions": functions}))

    def statement(self, c: Scope) -> tuple[Lines, Scope]:
        if not isinstance(c, Wide) or self.chance(0.35):
            return super().statement(c)
        kinds = [self.flags, self.small, self.sorts, self.ragged, self.given_up, self.each_given_up,
                 self.combined, self.lifted, self.kept_few, self.associative, self.turned,
                 self.library, self.over_pairs, self.waits, self.sieve, self.joined, self.pushed,
                 self.best, self.swapped, self.solved, self.cube]  # fmt: skip
        return self.r.choice(kinds)(c)

    # what is in scope

    def truth(self, c: Scope, depth: int) -> str:
        if isinstance(c, Wide) and c.truths and c.indices and self.chance(0.3):
            v, s = self.r.choice(c.truths)
            return f"{v}[{self.place(s, c)}]"
        return super().truth(c, depth)

    def integer(self, c: Scope, depth: int) -> str:
        if isinstance(c, Wide) and c.narrow and c.indices and self.chance(0.2):
            v, s = self.r.choice(c.narrow)
            return f"Int({v}[{self.place(s, c, 0)}]) % 5"
        return super().integer(c, depth)

    def leaf(self, c: Scope) -> str:
        if isinstance(c, Wide) and c.indices and self.chance(0.3):
            ways = [(f"weigh({v}[{{}}], 0.4)", s) for v, s in c.kinds]
            ways += [(f"{v}[{{}}].{self.r.choice(('re', 'im'))}", s) for v, s in c.complexes]
            ways += [(f"sum({v}[{{}}])", s) for v, s in c.rows]
            ways += [(f"Float(size({v}[{{}}]))", s) for v, s in c.rows]
            if ways:
                way, s = self.r.choice(ways)
                return way.format(self.place(s, c))
        return super().leaf(c)

    def place(self, s: Set, c: Scope, depth: int = 1) -> str:
        if s == "Day":
            if isinstance(c, Wide) and c.days and self.chance(0.6):
                return self.r.choice(c.days)
            return self.r.choice(("Mo", "We", "Th", f"wrap({self.integer(c, depth)})"))
        if s == "Fin(n + 1)":
            near = [i for i, of in c.indices if of == "Fin(n)"]
            if near and self.chance(0.4):
                return f"{self.r.choice(near)}{self.r.choice(('', ' + 1'))}"
        return super().place(s, c, depth)

    def called(self, c: Scope, d: int) -> str:
        before, self.sets = self.sets, tuple(s for s in self.sets if s != "Day")
        made = super().called(c, d)
        self.sets = before
        return made

    def vector(self, s: Set, c: Scope, depth: int) -> str:
        if s == "Day":
            c = replace(c, functions=tuple(f for f in c.functions if f[1] != "vector"))
        return super().vector(s, c, depth)

    # tables of other things

    def flags(self, c: Wide) -> tuple[Lines, Scope]:
        v, i, s = self.fresh("b"), self.fresh("i"), self.r.choice(self.sets)
        lines = [f"{v} = [{self.truth(c.index(i, s), 2)} for {i} in {s}]"]
        return lines, replace(c, truths=(*c.truths, (v, s)))

    def small(self, c: Wide) -> tuple[Lines, Scope]:
        v, w, s, t = self.fresh("w"), self.fresh("w"), self.r.choice(self.sets), self.fresh("i")
        kind = self.r.choice(NARROW)
        lines = [f"{v} = [{kind}(({self.integer(c.index(t, s), 2)}) % 100) for {t} in {s}]"]
        op = self.r.choice(("+", "*", "-", "&", "|", "^", "//", "%", "<<", ">>"))
        lines.append(f"{w} = [{v}[{t}] {op} {v}[{self.place(s, c.index(t, s), 0)}] for {t} in {s}]")
        return lines, replace(c, narrow=(*c.narrow, (v, s), (w, s)))

    def sorts(self, c: Wide) -> tuple[Lines, Scope]:
        v, s, t = self.fresh("h"), self.r.choice(self.sets), self.fresh("i")
        lines = [f"{v} = [{self.kind(c.index(t, s), 2)} for {t} in {s}]"]
        c = replace(c, kinds=(*c.kinds, (v, s)))
        if self.chance(0.5):
            w = self.fresh("v")
            lines.append(f"{w} = weigh({v}, {self.real(c, 1)})")
            c = c.vector(w, s)  # type: ignore[assignment]
        return lines, c

    def turned(self, c: Wide) -> tuple[Lines, Scope]:
        v, s, t = self.fresh("z"), self.r.choice(self.sets), self.fresh("i")
        inner = c.index(t, s)
        one, two = self.bounded(inner, 2), self.bounded(inner, 1)
        lines = [f"{v} = [Complex({one}, {two}) for {t} in {s}]"]
        c = replace(c, complexes=(*c.complexes, (v, s)))
        w = self.fresh("z")
        way = self.r.choice(
            ("scan(*, Complex(1.0, 0.0), {0})", "{0} * {0} - 2 * {0}", "cumsum({0})",
             "[{0}[{1}] ** 2 + 1 for {1} in {2}]",
             "scan(lambda s, z: Complex(0.5, 0.0) * s * z + z, Complex(0.0, 0.5), {0})")
        )  # fmt: skip
        lines.append(f"{w} = {way.format(v, t, s)}")
        c = replace(c, complexes=(*c.complexes, (w, s)))
        if self.chance(0.6):
            u = self.fresh("z")
            how = self.r.choice(("sum({})", "sum({} * {})", "prod({})"))
            lines.append(f"{u} = {how.format(w, v)}")
            c = c.real(f"{u}.re", f"{u}.im")  # type: ignore[assignment]
        return lines, c

    def over_pairs(self, c: Wide) -> tuple[Lines, Scope]:
        v, w, i, j = self.fresh("v"), self.fresh("m"), self.fresh("i"), self.fresh("j")
        s, t = self.r.choice(("Fin(n)", "Fin(m)", "Day")), self.r.choice(("Fin(3)", "Bool"))
        inner = c.index(i, s)
        inner = inner.index(j, t) if t != "Bool" else inner.integer(f"Int({j})")
        lines = [f"{v}: ({s}, {t})=>Float = [{self.real(inner, 2)} for ({i}, {j})]"]
        way = self.r.choice(("{}", "cumsum({})", "softmax({})", "reverse({})", "tanh({})",
                             "[sum({0}[b] for b in ..=a) for a in ({1}, {2})]"))  # fmt: skip
        lines.append(f"{w} = {way.format(v, s, t)} as {s}=>{t}=>Float")
        if t == "Bool":
            u = self.fresh("v")
            lines.append(f"{u} = sum({w}[{i}, {i} > 0] for {i} in {s})")
            return lines, c.real(u)
        return lines, c.matrix(w, s, t)

    def cube(self, c: Wide) -> tuple[Lines, Scope]:
        v, w = self.fresh("q"), self.fresh("m")
        i, j, k = self.fresh("i"), self.fresh("i"), self.fresh("i")
        r, s, t = self.r.sample(["Fin(n)", "Fin(m)", "Fin(3)", "Day"], 3)
        inner = c.index(i, r).index(j, s).index(k, t)
        lines = [f"{v} = [{self.real(inner, 2)} for {i} in {r}, {j} in {s}, {k} in {t}]"]
        way, kept = self.r.choice(
            ((f"sum({v})", (r, s)), (f"[sum({v}[{i}]) for {i}]", (r, s)),
             (f"sum({v}[{i}] for {i})", (s, t)), (f"logsumexp({v})", (r, s)),
             (f"[[sum({v}[{i}, {j}, {k}] ** 2 for {j}) for {k} in {t}] for {i} in {r}]", (r, t)),
             (f"[[tanh(max({v}[{i}, {j}, {k}] for {i} if Int({i}) < 2)) for {k}] for {j}]", (s, t)),
             (f"[transpose({v}[{i}]) @ [0.5 for {j} in {s}] for {i} in {r}]", (r, t)),
             (f"sort({v})[{self.place(r, c)}]", (s, t)))
        )  # fmt: skip
        return [*lines, f"{w} = {way}"], c.matrix(w, *kept)

    # rows of any length

    def ragged(self, c: Wide) -> tuple[Lines, Scope]:
        v, s, t = self.fresh("r"), self.r.choice(self.sets), self.r.choice(self.sets)
        i, j = self.fresh("i"), self.fresh("j")
        inner = c.index(i, t)
        if self.chance(0.5):
            cell = inner.index(j, s)
            row = f"[{self.real(cell, 2)} for {j} in {s} if {self.truth(cell, 1)}]"
        elif self.chance(0.5):
            end = f"min(5, {self.integer(inner, 1)})"
            row = f"[{self.real(inner.integer(j), 2)} for {j} in 1..{end}]"
        else:
            name = self.named(s, c)
            row = f"sort([{j} for {j} in {name} if {j} < {self.leaf(inner)}])"
        lines = [f"{v} = [{row} for {i} in {t}]"]
        c = replace(c, rows=(*c.rows, (v, t)))
        w, q = self.fresh("v"), self.fresh("q")
        way = self.r.choice(
            ("[sum({0}[{1}]) for {1} in {2}]", "[sum(row) for row in {0}]",
             "[logsumexp([0.3, *{0}[{1}]]) for {1} in {2}]",
             "[sum({3} * {3} for {3} in {0}[{1}]) for {1} in {2}]",
             "[{0}[{1}].get(1, 0.3) for {1} in {2}]", "[sum(tanh({0}[{1}])) for {1} in {2}]",
             "[tanh(max({0}[{1}])) for {1} in {2}]", "[sum(cumsum({0}[{1}])) for {1} in {2}]")
        )  # fmt: skip
        lines.append(f"{w} = {way.format(v, i, t, q)}")
        c = c.vector(w, t)  # type: ignore[assignment]
        if self.chance(0.3):
            u, one = self.fresh("v"), self.fresh("e")
            lines.append(f"{one} = [{q} for r in {v}, {q} in r if {q} > 0.1]")
            lines.append(f"{u} = sum({one}) / (1.0 + Float(size({one})))")
            c = c.real(u)  # type: ignore[assignment]
        return lines, c

    def kept_few(self, c: Wide) -> tuple[Lines, Scope]:
        y, w, s, i = self.fresh("y"), self.fresh("v"), self.r.choice(self.sets), self.fresh("i")
        inner = c.index(i, s)
        lines = [f"{y} = [{self.real(inner, 2)} for {i} in {s} if {self.truth(inner, 1)}]"]
        way, real = self.r.choice(
            (("sum({0})", True), ("sum({0} * reverse({0}))", True),
             ("logsumexp([0.1, *{0}])", True),
             ("[sort({0}).get({1}, 0.2) for {1} in {2}]", False), ("tanh(max({0}))", True),
             ("[sum({0}[{1}..]) if {1} < size({0}) else 0.0 for {1} in {2}]", False),
             ("[sum(tanh({0} * 0.3) - {3}) for {1} in {2}]", False),
             ("[{0}.get({1} - 1, {3}) for {1} in {2}]", False), ("sum(unique({0}))", True),
             ("sum(sum(e * f for f in {0}) for e in {0})", True))
        )  # fmt: skip
        lines.append(f"{w} = {way.format(y, i, s, self.leaf(c))}")
        return lines, c.real(w) if real else c.vector(w, s)

    # exceptions

    def given_up(self, c: Wide) -> tuple[Lines, Scope]:
        e, v, w, i = (self.fresh(x) for x in "evwi")
        s = self.r.choice(self.sets)
        inner = c.index(i, s)
        cell = self.r.choice((self.real(inner, 2), f"root({self.real(inner, 2)})"))
        q, states = self.fresh("s"), self.chance(0.4)
        head = f"with except, state({self.vector(s, c, 1)}) as {q}:" if states else "with except:"
        lines = [f"{f'({e}, {q})' if states else e} = {head}", f"    for {i} in {s}:"]
        lines += [f"        if {self.truth(inner, 1)}: throw()"] * self.chance(0.7)
        if states:
            lines += deeper(deeper(self.effects(inner.vector(q, s), q, s, "", 1)))
        lines += [f"        {cell}", f"{v} =", f"    match {e}:", f"        case Some({w}): {w}"]
        lines += [f"        case None: {self.vector(s, c, 1)}"]
        c = c.vector(v, s)  # type: ignore[assignment]
        return lines, c.vector(q, s) if states else c

    def each_given_up(self, c: Wide) -> tuple[Lines, Scope]:
        v, e, w, i = (self.fresh(x) for x in "vewi")
        s = self.r.choice(self.sets)
        inner = c.index(i, s)
        body: Lines = []
        deep = inner
        if self.chance(0.5):
            body, deep = self.r.choice((self.value, self.loop, self.table))(inner)
        body.append(f"if {self.truth(deep, 1)}: throw()")
        body.append(self.r.choice((f"root({self.real(deep, 1)})", self.real(deep, 2))))
        lines = [f"{v} = for {i} in {s}:", f"    {e} = with except:", *deeper(deeper(body))]
        lines += [f"    match {e}:", f"        case Some({w}): {w}",
                  f"        case None: {self.real(inner, 1)}"]  # fmt: skip
        return lines, c.vector(v, s)

    # effects

    def combined(self, c: Wide) -> tuple[Lines, Scope]:
        v, h, s, i = self.fresh("v"), self.fresh("h"), self.r.choice(self.sets), self.fresh("i")
        over, of = self.range_of(c)
        inner = c.index(i, of) if of != "none" else c.integer(i)
        op = self.r.choice(("min", "max", "and", "or", "lambda"))
        at = self.place(s, inner)
        if op in ("and", "or"):
            lines = [f"{v}: {s}=>Bool = with accum({op}) as {h}:", f"    for {i} in {over}:"]
            lines += [f"        {h}[{at}] += {self.truth(inner, 1)}"]
            return lines, replace(c, truths=(*c.truths, (v, s)))
        if op == "lambda":
            lines = [f"{v}: {s}=>Float = with accum(lambda p, q: p + q + p * q, 0.0) as {h}:"]
            lines += [f"    for {i} in {over}: {h}[{at}] += 0.1 * {self.bounded(inner, 1)}"]
            return lines, c.vector(v, s)
        w = self.fresh("v")
        lines = [f"{v}: {s}=>Float = with accum({op}) as {h}:", f"    for {i} in {over}:"]
        if self.chance(0.5):
            lines.append(f"        if {self.truth(inner, 1)}:")
            lines.append(f"            {h}[{at}] += {self.bounded(inner, 2)}")
        else:
            lines.append(f"        {h}[{at}] += {self.bounded(inner, 2)}")
        return [*lines, f"{w} = tanh({v})"], c.vector(w, s)

    def sieve(self, c: Wide) -> tuple[Lines, Scope]:
        v, q, i, j = (self.fresh(x) for x in "bqij")
        s = self.r.choice(self.sets)
        t = self.r.choice(self.sets)
        start = f"[{self.truth(c.index(i, s), 1)} for {i} in {s}]"
        inner = c.index(j, t)
        assert isinstance(inner, Wide)
        inside = replace(inner, truths=(*inner.truths, (q, s)) * 2)
        lines = [f"{v} = with state({start}) as {q}:", f"    for {j} in {t}:"]
        at = self.place(s, inside)
        way = self.r.choice(
            (f"if {self.truth(inside, 1)}: {q}[{at}] := {self.truth(inside, 1)}",
             f"{q}[{at}] := {self.truth(inside, 2)}",
             f"for {i} in {s}: {q}[{i}] := {self.truth(inside.index(i, s), 1)}")
        )  # fmt: skip
        return [*lines, f"        {way}"], replace(c, truths=(*c.truths, (v, s)))

    def waits(self, c: Wide) -> tuple[Lines, Scope]:
        """A loop for each index until a condition changes, or one over tables and truths."""
        v, w, k, i = (self.fresh(x) for x in "vwki")
        s = self.r.choice(self.sets)
        if self.chance(0.5):
            inner = c.index(i, s)
            deep = inner.real(w).integer(k)
            lines = [f"{v} = for {i} in {s}:"]
            until = f"{k} < 4 and {self.truth(deep, 1)}"
            lines.append(f"    loop {w} = {self.real(inner, 1)}, {k} = 0 while {until}:")
            lines.append(f"        (0.5 * {w} + {self.bounded(deep, 2)}, {k} + 1)")
            lines.append(f"    {w} + 0.1 * {k}")
            return lines, c.vector(v, s)
        b = self.fresh("b")
        deep = c.vector(v, s).integer(k)
        assert isinstance(deep, Wide)
        deep = replace(deep, truths=(*deep.truths, (b, s)) * 2)
        kept = self.r.choice((" checkpoint(2)", ""))
        start = f"{v} = {self.named(s, c)}, {b} = [False for _ in {s}], {k} = 0"
        lines = [f"loop {start}{kept} while {k} < 3 and not all({b}):"]
        cell = deep.index(i, s)
        moved = f"0.5 * {v}[{i}] + {self.bounded(cell, 1)}"
        lines.append(f"    ([{v}[{i}] if {b}[{i}] else {moved} for {i} in {s}],")
        lines.append(f"     [{b}[{i}] or {self.truth(cell, 1)} for {i} in {s}], {k} + 1)")
        return lines, replace(c, truths=(*c.truths, (b, s))).vector(v, s)

    def pushed(self, c: Wide) -> tuple[Lines, Scope]:
        v, w, q, i = (self.fresh(x) for x in "vwqi")
        s, t = self.r.choice(self.sets), self.r.choice(self.sets)
        inner = c.index(i, t).vector(q, s)
        lines = [f"({v}, {w}) = with state({self.vector(s, c, 1)}) as {q}:", f"    for {i} in {t}:"]
        if self.chance(0.4):
            lines.append(f"        if {self.truth(inner, 1)}: {q}[{self.place(s, inner)}] *= 0.5")
        lines.append(f"        push({q}, {self.place(s, inner)}, {self.bounded(inner, 1)})")
        return lines, c.vector(v, t).vector(w, s)

    def swapped(self, c: Wide) -> tuple[Lines, Scope]:
        v, q, i = (self.fresh(x) for x in "vqi")
        s, t = self.r.choice(self.sets), self.r.choice(self.sets)
        inner = c.index(i, t).vector(q, s)
        one, two = self.place(s, inner), self.place(s, inner)
        lines = [f"{v} = with state({self.vector(s, c, 1)}) as {q}:", f"    for {i} in {t}:"]
        lines.append(f"        if {self.truth(inner, 1)}:")
        lines.append(f"            ({q}[{one}], {q}[{two}]) := ({q}[{two}], {q}[{one}])")
        if self.chance(0.5):
            k = self.fresh("k")
            deep = c.vector(q, s).integer(k)
            lines = [f"({v}, _) = with state({self.vector(s, c, 1)}) as {q}, state(0) as {k}:",
                     f"    while {k} < 4 and {self.truth(deep, 1)}:",
                     f"        {q}[{self.place(s, c.integer(k))}] *= {self.bounded(deep, 1)}",
                     f"        {k} += 1"]  # fmt: skip
        return lines, c.vector(v, s)

    # functions of tables

    def lifted(self, c: Wide) -> tuple[Lines, Scope]:
        w, (v, s, t) = self.fresh("m"), self.r.choice(c.matrices)
        one, two = self.vector(s, c, 1), self.vector(t, c, 1)
        scalars = [name for name, kind in c.functions if kind == "scalar"]
        alone = ("tanh", "sort", "softmax", "cumsum", "reverse", "log_softmax")
        ways = [(f"{f}({v})", s, t) for f in alone]
        ways += [(f"transpose({v})", t, s), (f"outer({one}, {two})", s, t),
                 (f"({v} if {v} > 0.1 else {self.leaf(c)})", s, t),
                 (f"0.2 * ({v} @ transpose({v}))", s, s),
                 (f"[{v}[argsort({one})[i]] for i in {s}]", s, t)]  # fmt: skip
        ways += [(f"{f}({v}, {self.leaf(c)})", s, t) for f in scalars]
        if s != t:
            ways += [(f"({v} {op} {x})", s, t) for op in "+*-" for x in (one, two)]
        text, s, t = self.r.choice(ways)
        lines = [f"{w} = {text}"]
        if s == t:
            return [*lines, f"{w} = [sum({w}[i]) + {w}[i, i] for i in {s}]"], c.vector(w, s)
        if self.chance(0.3):
            u = self.fresh("v")
            more = self.r.choice(
                (f"{w} @ {self.named(t, c)}", f"sum({w})", f"[tanh(max({w}[i])) for i in {s}]")
            )
            return [*lines, f"{u} = {more}"], c.matrix(w, s, t).vector(u, s)
        return lines, c.matrix(w, s, t)

    def associative(self, c: Wide) -> tuple[Lines, Scope]:
        v, p, q, i = (self.fresh(x) for x in "vpqi")
        s = self.r.choice(self.sets)
        inner = c.index(i, s)
        lines = [f"{v} = [Pair({self.bounded(inner, 1)}, {self.bounded(inner, 2)}) for {i} in {s}]"]
        op = AFFINE.format(p, q)
        if self.chance(0.5):
            w = self.fresh("v")
            lines.append(f"{w} = reduce({op}, Pair(1.0, 0.0), {v})")
            return lines, c.real(f"{w}.u", f"{w}.v")
        scan = self.r.choice(("scan", "scan_exclusive"))
        lines.append(f"{v} = {scan}({op}, Pair(1.0, 0.0), {v})")
        return lines, replace(c, pairs=(*c.pairs, (v, s)))

    def best(self, c: Wide) -> tuple[Lines, Scope]:
        k, i = self.fresh("k"), self.fresh("i")
        s, t = self.r.choice(("Fin(3)", "Day", "Fin(n + 1)")), self.r.choice(self.sets)
        inner = c.index(i, s)
        how = self.r.choice(("argmax", "argmin"))
        if self.chance(0.4):
            lines = [f"{k} = {how}({self.real(inner, 2)} for {i} in {s})"]
            return lines, c.index(k, s)
        j = self.fresh("i")
        lines = [f"{k} = [{how}({self.real(inner.index(j, t), 2)} for {i} in {s}) for {j} in {t}]"]
        return lines, replace(c, maps=(*c.maps, (k, t, s)))

    def joined(self, c: Wide) -> tuple[Lines, Scope]:
        v, z, i = self.fresh("v"), self.fresh("z"), self.fresh("i")
        s, t = self.r.choice(("Fin(n)", "Fin(3)")), self.r.choice(("Fin(m)", "Fin(3)"))
        lines = [f"{z} = [*{self.vector(s, c, 1)}, *{self.vector(t, c, 1)}, {self.leaf(c)}]"]
        way, u = self.r.choice(
            ((f"[{z}.get({self.integer(c.index(i, 'Fin(n)'), 1)}, 0.3) for {i} in Fin(n)]",
              "Fin(n)"),
             (f"take({z}, {s[4:-1]})", s), (f"[{z}[{i} + 1] for {i} in {t}]", t),
             (f"cumsum({z})[1..{s[4:-1]} + 1]" if s != "Fin(3)" else f"take(reverse({z}), 3)", s),
             (f"[{z}[{i}] * {z}[{i} + 1] for {i} in {s}]", s),
             (f"[sum({z}[{i}..{i} + 2]) for {i} in {s}]", s),
             (f"drop({z}, {t[4:-1]} + 1)", s), (f"[{z}[wrap(2 * {i})] for {i} in Day]", "Day"))
        )  # fmt: skip
        return [*lines, f"{v} = {way}"], c.vector(v, u)

    # the library

    def library(self, c: Wide) -> tuple[Lines, Scope]:
        v, i, s = self.fresh("v"), self.fresh("i"), self.r.choice(self.sets)
        inner = c.index(i, s)
        three = self.vector("Fin(3)", c, 1)
        one = self.vector(s, c, 1)
        way = self.r.choice(
            (f"[numeric.interp({self.real(inner, 1)}, [0.0, 0.4, 1.0], {three}) for {i} in {s}]",
             f"[0.1 * numeric.searchsorted([0.0, 0.4, 1.0], {self.real(inner, 1)}) for {i} in {s}]",
             f"[random.rand(random.new_key(Int({i}))) + {self.leaf(inner)} for {i} in {s}]",
             f"[random.normal(random.ix_key(random.new_key(1), {i})) for {i} in {s}]",
             f"[stats.median({three}) * {self.real(inner, 1)} for {i} in {s}]",
             f"[stats.quantile({three}, sigmoid({self.real(inner, 1)})) for {i} in {s}]",
             f"[numeric.trapezoid([0.0, 1.0, 3.0], {self.leaf(inner)} * {three}) for {i} in {s}]",
             f"[0.1 * stats.histogram({one}, -1.0, 1.0, 3)[{self.place('Fin(3)', inner)}] "
             f"for {i} in {s}]",
             f"[norm([1.0, *{three}, {self.leaf(inner)}]) for {i} in {s}]",
             f"[sum(numeric.rk4(lambda t, y: -y * {self.bounded(inner, 1)}, {three}, 0.0, 1.0, 3)) "
             f"for {i} in {s}]")
        )  # fmt: skip
        return [f"{v} = {way}"], c.vector(v, s)

    def solved(self, c: Wide) -> tuple[Lines, Scope]:
        (v, g, i, j), s = (self.fresh(x) for x in "vgij"), self.r.choice(self.sets)
        cell = self.bounded(c.index(i, s).index(j, s), 1)
        lines = [f"{g} = [0.3 * {cell} for {i} in {s}, {j} in {s}]"]
        right = self.vector(s, c, 1)
        spd = f"0.5 * ({g} @ transpose({g})) + 2.0 * eye({s})"
        way, real = self.r.choice(
            ((f"linalg.solve({g} + 3.0 * eye({s}), {right})", False),
             (f"linalg.solve_cholesky(linalg.cholesky({spd}), {right})", False),
             (f"tanh(linalg.det({g} + eye({s})))", True), (f"trace({g} @ {g})", True),
             (f"trace(linalg.inv({g} + 3.0 * eye({s})))", True),
             (f"sum(linalg.cholesky({spd}))", False),
             (f"linalg.solve_lower({g} + 2.0 * eye({s}), {right})", False))
        )  # fmt: skip
        return [*lines, f"{v} = {way}"], c.real(v) if real else c.vector(v, s)

    def whole_program(self) -> str:
        c = Scope(functions=(("weigh", "kind"),))
        lines: Lines = []
        for _ in range(self.r.randint(0, 2)):
            more, c = self.definition(c)
            lines += more
        self.sets = WIDE
        inner = self.start(c.functions)
        body: Lines = []
        for _ in range(self.r.randint(1, 4)):
            more, inner = self.statement(inner)
            body += more
        assert isinstance(inner, Wide)
        made = [v for v, _ in inner.vectors[2:]] + list(inner.floats[1:])
        made += [v for v, _, _ in inner.matrices[1:]] + [v for v, _ in inner.pairs]
        some = self.r.sample(made, min(len(made), self.r.randint(1, 2)))
        more_kinds = (inner.truths, inner.narrow, inner.kinds, inner.rows, inner.complexes)
        others = [v for kind in more_kinds for v, _ in kind]
        some += self.r.sample(others, min(len(others), self.r.randint(0, 1)))
        some = some or [self.real(inner, 3)]
        result = some[0] if len(some) == 1 else f"({', '.join(some)})"
        strict = "@strict\n" if self.chance(0.1) else ""
        text = "\n".join(deeper([*body, result]))
        text = f"{strict}def f({self.params}):\n{text}\n"
        return f"{self.prelude}\n" + "\n".join(lines) + f"\n{text}"


def program(seed: int) -> str:
    return Wider(random.Random(seed)).whole_program()
