"""Surface programs as users write them, by chance: well-typed by construction, as text.

`program(seed)` is a struct, an enum, some definitions that use them, and `f` of tables and numbers,
which binds a few values, one a statement, and gives some of them. `Maker` makes expressions of a
type from what is in scope; `Statements` makes the lines of a body.

Values stay of ordinary size, so that derivatives can be compared with finite differences: what may
be large is divided, or goes through a function that is bounded.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

Set = str  # as it is written: "Fin(n)"
SETS: tuple[Set, ...] = ("Fin(n)", "Fin(n)", "Fin(m)", "Fin(3)")
PRELUDE = """\
struct Pair:
    u: Float
    v: Float

enum Kind = Nothing | One(a: Float) | Two(a: Float, b: Float)
"""
PARAMS = (
    "x: Fin(n)=>Float, y: Fin(m)=>Float, a: Fin(n)=>Fin(m)=>Float, k: Fin(m)=>Fin(n), "
    "l: Fin(n)=>Int, c: Float"
)
BOUNDED = ("tanh", "sigmoid", "atan", "erf")


@dataclass(frozen=True)
class Scope:
    """What may be mentioned: indices with their sets, numbers, truths, tables, and functions."""

    indices: tuple[tuple[str, Set], ...] = ()
    floats: tuple[str, ...] = ()
    ints: tuple[str, ...] = ()
    vectors: tuple[tuple[str, Set], ...] = ()
    whole: tuple[tuple[str, Set], ...] = ()  # tables of Int
    maps: tuple[tuple[str, Set, Set], ...] = ()  # tables of indices: of a set, into a set
    matrices: tuple[tuple[str, Set, Set], ...] = ()
    triangles: tuple[str, ...] = ()  # over Fin(n)
    pairs: tuple[tuple[str, Set], ...] = ()  # tables of Pair
    functions: tuple[tuple[str, str], ...] = ()  # names and kinds

    def index(self, name: str, s: Set) -> Scope:
        return replace(self, indices=(*self.indices, (name, s)))

    def real(self, *names: str) -> Scope:
        return replace(self, floats=(*self.floats, *names))

    def integer(self, *names: str) -> Scope:
        return replace(self, ints=(*self.ints, *names))

    def vector(self, name: str, s: Set) -> Scope:
        return replace(self, vectors=(*self.vectors, (name, s)))

    def matrix(self, name: str, s: Set, t: Set) -> Scope:
        return replace(self, matrices=(*self.matrices, (name, s, t)))


def extent(s: Set) -> str:
    return s.removeprefix("Fin(").removesuffix(")")


class Maker:
    """Expressions of each type."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.made = 0
        self.sets = SETS  # those whose sizes are known here

    def fresh(self, stem: str) -> str:
        self.made += 1
        return f"{stem}{self.made}"

    def chance(self, p: float) -> bool:
        return self.r.random() < p

    # indices and integers

    def place(self, s: Set, c: Scope, depth: int = 1) -> str:
        """An index of an axis."""
        same = [i for i, of in c.indices if of == s]
        if same and self.chance(0.55):
            return self.r.choice(same)
        maps = [(v, of) for v, of, into in c.maps if into == s]
        if maps and c.indices and self.chance(0.35):
            v, of = self.r.choice(maps)
            return f"{v}[{self.place(of, c, 0)}]"
        if same and self.chance(0.2):
            return f"{extent(s)} - 1 - {self.r.choice(same)}"
        if s == "Fin(3)" and self.chance(0.5):
            return str(self.r.randrange(3))
        if c.indices and self.chance(0.25):
            d = self.digit(c)
            return f"{self.r.choice(('clamp', 'wrap'))}({d})"
        return f"{self.r.choice(('clamp', 'wrap'))}({self.integer(c, depth)})"

    def digit(self, c: Scope) -> str:
        (i, _), (j, _) = self.r.choice(c.indices), self.r.choice(c.indices)
        d = self.r.randint(2, 4)
        return self.r.choice(
            (f"{i} // {d}", f"{i} % {d}", f"{i} // {d} % {d}", f"{d} * ({i} // {d}) + {j} % {d}",
             f"{i} + {d} * {j}", f"({i} + {j}) // 2", f"{i} * {j} % {d}")
        )  # fmt: skip

    def integer(self, c: Scope, depth: int) -> str:
        leaves = [str(self.r.randint(0, 3)), *c.ints]
        leaves += [i for i, _ in c.indices for _ in range(2)]
        if depth <= 0 or self.chance(0.25):
            return self.r.choice(leaves)
        match self.r.randrange(8):
            case 0 | 1:
                i, d = self.r.choice(leaves), self.r.randint(1, 3)
                return f"{i} {self.r.choice('+-')} {d}"
            case 2:
                one, two = self.integer(c, depth - 1), self.integer(c, depth - 1)
                return f"{one} {self.r.choice('+-*')} ({two})"
            case 3:
                op = self.r.choice(("//", "%"))
                return f"({self.integer(c, depth - 1)}) {op} {self.r.randint(1, 4)}"
            case 4 if c.whole:
                v, s = self.r.choice(c.whole)
                return f"{v}[{self.place(s, c, 0)}]"
            case 5:
                v, s = self.fresh("i"), self.r.choice(self.sets)
                return f"sum(1 for {v} in {s} if {self.truth(c.index(v, s), 1)})"
            case 6:
                f = self.r.choice(("min", "max"))
                return f"{f}({self.integer(c, depth - 1)}, {self.integer(c, depth - 1)})"
            case _:
                return f"Int(4.0 * {self.bounded(c, depth - 1)})"

    def truth(self, c: Scope, depth: int) -> str:
        match self.r.randrange(6):
            case 0 | 1:
                op = self.r.choice(("<", ">", "<=", ">="))
                return f"{self.real(c, depth - 1)} {op} {self.real(c, depth - 1)}"
            case 2 if depth > 0:
                op = self.r.choice(("and", "or"))
                return f"({self.truth(c, depth - 1)} {op} {self.truth(c, depth - 1)})"
            case 3:
                return f"({self.integer(c, depth)}) % 2 == {self.r.randrange(2)}"
            case 4 if depth > 0:
                return f"not ({self.truth(c, depth - 1)})"
            case _:
                op = self.r.choice(("<", ">", "==", "!=", "<=", ">="))
                return f"{self.integer(c, depth)} {op} {self.integer(c, 0)}"

    # floats

    def leaf(self, c: Scope) -> str:
        kinds = ["constant", *["number"] * 2 * bool(c.floats), *["vector"] * 3 * bool(c.vectors)]
        kinds += ["matrix"] * 2 * bool(c.matrices) + ["pair"] * bool(c.pairs)
        match self.r.choice(kinds):
            case "number":
                return self.r.choice(c.floats[-5:])
            case "vector" if c.indices:
                v, s = self.r.choice(c.vectors[-6:])
                return f"{v}[{self.place(s, c)}]"
            case "matrix" if c.indices:
                v, s, t = self.r.choice(c.matrices[-3:])
                return f"{v}[{self.place(s, c)}, {self.place(t, c)}]"
            case "pair" if c.indices:
                v, s = self.r.choice(c.pairs)
                return f"{v}[{self.place(s, c)}].{self.r.choice('uv')}"
            case _:
                return self.r.choice(("0.5", "2.0", "0.3", "1.5", "(-0.7)"))

    def bounded(self, c: Scope, depth: int) -> str:
        return f"{self.r.choice(BOUNDED)}({self.real(c, depth)})"

    def real(self, c: Scope, depth: int) -> str:
        if depth <= 0 or self.chance(0.1):
            return self.leaf(c)
        d = depth - 1
        kinds = [
            self.arithmetic, self.arithmetic, self.arithmetic, self.elementary, self.choice,
            self.reduction, self.reduction, self.reduction, self.of_table, self.guarded,
            self.called,
        ]  # fmt: skip
        kinds += [self.rare] if depth > 1 else []
        return self.r.choice(kinds)(c, d)

    def arithmetic(self, c: Scope, d: int) -> str:
        one, two = self.real(c, d), self.real(c, d)
        match self.r.randrange(7):
            case 0 | 1:
                return f"({one} {self.r.choice('+-')} {two})"
            case 2 | 3:
                return f"{one} * {two}"
            case 4:
                return f"{self.r.choice(('max', 'min'))}({one}, {two})"
            case 5:
                return f"({one}) / (1.0 + abs({two}))"
            case _:
                i = self.integer(c, 1)
                return f"({one} + 0.1 * ({i}))" if i.isalnum() else f"({one} * Float({i}))"

    def elementary(self, c: Scope, d: int) -> str:
        v = self.real(c, d)
        return self.r.choice(
            (f"{self.r.choice((*BOUNDED, 'sin', 'cos'))}({v})", f"exp(-abs({v}))",
             f"sqrt(1.0 + ({v}) ** 2)",
             f"log1p(abs({v}))", f"({v}) ** {self.r.choice((2, 2, 3))}", f"relu({v})",
             f"abs({v})", f"atan2({v}, 0.5 + abs({self.real(c, 0)}))", f"exp(tanh({v}))")
        )  # fmt: skip

    def choice(self, c: Scope, d: int) -> str:
        return f"({self.real(c, d)} if {self.truth(c, 1)} else {self.real(c, d)})"

    def range_of(self, c: Scope) -> tuple[str, Set]:
        """What a binder goes over, and the set that its index is of."""
        if c.indices and self.chance(0.35):
            i, s = self.r.choice(c.indices)
            return self.r.choice((f"..={i}", f"..{i}", f"{i}..", f"{i}<..")), s
        s = self.r.choice(self.sets)
        if self.chance(0.1):
            return f"{s}.by({self.r.randint(1, 3)})", s
        if self.chance(0.1):
            return f"reverse({s})", "none"
        return s, s

    def reduction(self, c: Scope, d: int) -> str:
        i = self.fresh("i")
        over, s = self.range_of(c)
        binders, inner = f"{i} in {over}", c.index(i, s) if s != "none" else c.integer(i)
        if self.chance(0.25):
            j = self.fresh("j")
            over, s = self.range_of(inner)
            binders += f", {j} in {over}"
            inner = inner.index(j, s) if s != "none" else inner.integer(j)
        if self.chance(0.3):
            binders += f" if {self.truth(inner, 1)}"
        of = self.r.choice(("sum", "sum", "sum", "max", "min", "prod", "bounded"))
        value = self.real(inner, d)
        match of:
            case "prod":
                return f"prod(1.0 + 0.1 * tanh({value}) for {binders})"
            case "max" | "min":
                return f"tanh({of}({value} for {binders}))"
            case "bounded":
                return f"tanh(sum({value} for {binders}))"
            case _:
                return f"{of}({value} for {binders})"

    def of_table(self, c: Scope, d: int) -> str:
        s = self.r.choice(self.sets)
        v = self.vector(s, c, d)
        match self.r.randrange(8):
            case 0 | 1:
                return f"sum({v})"
            case 2:
                return f"tanh({self.r.choice(('max', 'min'))}({v}))"
            case 3:
                return f"logsumexp([0.0, *{v}])"
            case 4:
                return f"dot({v}, {self.vector(s, c, d)})"
            case 5:
                return f"({v})[{self.place(s, c)}]" if v[0] != "[" else f"{v}[{self.place(s, c)}]"
            case 6:
                u, w = self.fresh("s"), self.fresh("w")
                step = self.bounded(c.real(u, w), 1)
                return f"fold(lambda {u}, {w}: 0.5 * {u} + {step}, {self.leaf(c)}, {v})"
            case _:
                w = self.fresh("w")
                return f"sum([{w} for {w} in {v} if {w} > {self.leaf(c)}])"

    def guarded(self, c: Scope, d: int) -> str:
        """A neighbour where there is one."""
        found = [(i, v, s) for i, s in c.indices for v, t in c.vectors if s == t]
        if not found:
            return self.choice(c, d)
        i, v, s = self.r.choice(found)
        n = extent(s)
        other = self.real(c, d)
        return self.r.choice(
            (f"({v}[{i} - 1] if {i} > 0 else {other})",
             f"({v}[{i} + 1] if {i} + 1 < {n} else {other})",
             f"{v}.get({i} - {self.r.randint(1, 2)}, {other})",
             f"{v}.get({self.integer(c, 1)}, {other})",
             f"({v}[{i} // 2] + {other})",
             f"({v}[{i} - {i} % 2] * {other})",
             f"sum({v}[..={i}])", f"max({v}[{i}..])")
        )  # fmt: skip

    def called(self, c: Scope, d: int) -> str:
        if not c.functions:
            return self.elementary(c, d)
        name, kind = self.r.choice(c.functions)
        match kind:
            case "scalar":
                return f"{name}({self.real(c, d)}, {self.real(c, d)})"
            case "row":
                s = self.r.choice(self.sets)
                return f"{name}({self.vector(s, c, d)}, {self.real(c, d)})"
            case "vector":
                s = self.r.choice(self.sets)
                return f"sum({name}({self.vector(s, c, d)}, {self.real(c, 0)}))"
            case "kind":
                return f"weigh({self.kind(c, d)}, {self.leaf(c)})"
            case _:
                return f"{name}(Pair({self.real(c, d)}, {self.real(c, d)})).{self.r.choice('uv')}"

    def kind(self, c: Scope, d: int) -> str:
        one, two = self.real(c, d), self.real(c, d)
        return self.r.choice(
            (f"(Two({one}, {two}) if {self.truth(c, 0)} else One({self.leaf(c)}))",
             f"(One({one}) if {self.truth(c, 0)} else Nothing)", f"Two({one}, {two})")
        )  # fmt: skip

    def rare(self, c: Scope, d: int) -> str:
        """Derivatives in an expression, and what is taken apart."""
        u = self.fresh("u")
        if not c.vectors or self.is_dear(c):
            return self.reduction(c, d)
        match self.r.randrange(7):
            case 0:
                return f"tanh(grad(lambda {u}: {self.real(c.real(u), d)})({self.real(c, 0)}))"
            case 1:
                inner = self.real(c.real(u), d)
                return f"tanh(grad(grad(lambda {u}: {inner}))({self.real(c, 0)}))"
            case 2:
                s = self.r.choice(c.vectors)[1]
                inner = self.real(c.vector(u, s), d)
                return f"tanh(sum(grad(lambda {u}: {inner})({self.named(s, c)})))"
            case 3:
                s = self.r.choice(c.vectors)[1]
                f = f"lambda {u}: {self.real(c.vector(u, s), d)}"
                at, along = self.named(s, c), self.named(s, c)
                return f"tanh(sum(hvp({f}, {at}, {along})))"
            case 4:
                s = self.r.choice(c.vectors)[1]
                f = f"lambda {u}: {u} + {self.vector(s, c.vector(u, s), d)}"
                return f"tanh(sum(sum(jacobian({f})({self.named(s, c)}))))"
            case 5 if c.triangles and any(s == "Fin(n)" for _, s in c.indices):
                i = self.r.choice([i for i, s in c.indices if s == "Fin(n)"])
                t, j = self.r.choice(c.triangles), self.fresh("j")
                return (
                    f"sum({t}[{i}, {j}] * {self.real(c.index(j, 'Fin(n)'), d)} for {j} in ..={i})"
                )
            case _:
                return self.reduction(c, d)

    def is_dear(self, c: Scope) -> bool:
        """Whether a derivative would be one in a loop of loops, or in another one."""
        return len(c.indices) > 1 or any(v[0] == "u" for v in (*c.floats, *dict(c.vectors)))

    # tables

    def named(self, s: Set, c: Scope) -> str:
        found = [v for v, t in c.vectors if t == s]
        return self.r.choice(found) if found else self.vector(s, c, 0)

    def vector(self, s: Set, c: Scope, depth: int) -> str:
        names = [v for v, t in c.vectors if t == s]
        if names and (depth <= 0 or self.chance(0.3)):
            return self.r.choice(names)
        i = self.fresh("i")
        if depth <= 0 or self.chance(0.45):
            return f"[{self.real(c.index(i, s), depth)} for {i} in {s}]"
        d = depth - 1
        one = self.vector(s, c, d)
        rows = [v for v, t, into in c.matrices if t == s]
        columns = [(v, t) for v, t, into in c.matrices if into == s]
        match self.r.randrange(14):
            case 0:
                return f"({one} {self.r.choice('+-*')} {self.vector(s, c, d)})"
            case 1:
                return f"{self.r.choice(BOUNDED)}({one})"
            case 2:
                return f"cumsum({one})"
            case 3:
                return f"sort({one})"
            case 4:
                return f"reverse({one})"
            case 5:
                return f"softmax({one})"
            case 6:
                u, w = self.fresh("s"), self.fresh("w")
                scan = self.r.choice(("scan", "scan", "scan_exclusive"))
                step = self.bounded(c.real(u, w), d)
                return f"{scan}(lambda {u}, {w}: 0.5 * {u} + {step}, {self.leaf(c)}, {one})"
            case 7:
                return f"({one} if {one} > {self.leaf(c)} else {self.leaf(c)})"
            case 8 if rows:
                v = self.r.choice(rows)
                return f"{self.r.choice(('sum', 'logsumexp'))}({v})"
            case 9 if columns:
                v, t = self.r.choice(columns)
                return f"{v}[{self.place(t, c)}]" if c.indices else f"sum({v}[{i}] for {i})"
            case 10 if any(k in ("scalar", "vector") for _, k in c.functions):
                name, _ = self.r.choice([f for f in c.functions if f[1] in ("scalar", "vector")])
                return f"{name}({one}, {self.real(c, d)})"
            case 11:
                return f"rotate({one}, {self.integer(c, 0)})"
            case 12 if names and not self.is_dear(c):
                u = self.fresh("u")
                inner = self.real(c.vector(u, s), d)
                return f"tanh(grad(lambda {u}: {inner})({self.named(s, c)}))"
            case 13:
                return f"[{one}[argsort({one})[{i}]] for {i} in {s}]"
            case _:
                return f"[{self.real(c.index(i, s), depth)} for {i} in {s}]"

    def matrix(self, s: Set, t: Set, c: Scope, depth: int) -> str:
        i, j = self.fresh("i"), self.fresh("j")
        inner = c.index(i, s)
        if self.chance(0.25):
            return f"[{self.vector(t, inner, depth)} for {i} in {s}]"
        return f"[{self.real(inner.index(j, t), depth)} for {i} in {s}, {j} in {t}]"
