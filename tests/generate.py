"""Well-typed programs for the meaning tests, drawn by Hypothesis as text.

Every program is `def f(x, y, a, c, b, p, k) = …` over the same parameters:

    x y : Fin(n)=>Float   a : Fin(n)=>Fin(m)=>Float   c : Fin(n)=>Int   b : Fin(n)=>Bool
    p : Fin(m)=>Fin(n)    s : Float                   k : Int

Inputs are small multiples of a half, so that most arithmetic is exact and comparisons do not hang
on rounding; sizes are 0, 1, small and odd.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

HEADER = (
    "def f(x: Fin(n)=>Float, y: Fin(n)=>Float, a: Fin(n)=>Fin(m)=>Float, c: Fin(n)=>Int,"
    " b: Fin(n)=>Bool, p: Fin(m)=>Fin(n), s: Float, k: Int, r: Fin(n + 1)=>Fin(m + 1),"
    " w: Fin(n)=>Fin(m)=>Fin(3)=>Float, g: Fin(m)=>U8, h: Fin(n)=>F32, z: Side=>Float)"
)
PRELUDE = """\
enum Side = Left | Right

def until(f: Float -> Float, x: Float, c: Float) -> Float:
    loop w = x, t = 0 while abs(w) < c + 2.0 and t < 7:
        (f(w), t + 1)
    w

def settle(f: (Fin(n)=>Float) -> (Fin(n)=>Float), x: Fin(n)=>Float) -> Fin(n)=>Float:
    loop u = x, t = 0 while sum(u[i] * u[i] for i) < 10.0 and t < 5:
        (f(u), t + 1)
    u

def rounds(x: Fin(n)=>Float, c: Float) -> Int:
    loop u = x, t = 0 while max(u) > c and t < 6:
        ([u[wrap(i + 1)] * 0.5 - c for i], t + 1)
    t

def bounded(f: (Float, Int) -> Float, x: Float, k: Int) -> Float:
    few = min(k, 5)
    loop w = x for t in Fin(few) while abs(w) < 3.0:
        f(w, t)

def positive(x: Float) -> Float:
    assert x > -3.0, "too small"
    x

def segment(v: Fin(m)=>Float, low: Fin(m + 1), high: Fin(m + 1)) -> Float:
    row = [v[e] for e in low..high]
    top = max(row)
    sum(exp(row[e] - top) for e) + sum(softmax(row)) + top

def both(p: (Float, Float), q: (Float, Float)) -> (Float, Float):
    (a, b) = p
    (c, d) = q
    (a + c, max(b, d))

def total(p: (Float, Float)) -> Float:
    (a, b) = p
    a + b

struct Gauss:
    re: Float
    im: Float
instance Num(Gauss):
    def (+)(z, w) = Gauss(z.re + w.re, z.im + w.im)
    def (-)(z, w) = Gauss(z.re - w.re, z.im - w.im)
    def (*)(z, w) = Gauss(z.re * w.re - z.im * w.im, z.re * w.im + z.im * w.re)
    def number(x) = Gauss(Float(x), 0.0)
instance Ord(Gauss)
instance Eq(Gauss)

def square_less_one(z: a) -> a where a: Num = z ** 2 - 1

def turned(re: Float, im: Float) -> Float:
    z = square_less_one(Gauss(re, im))
    z.re - 0.5 * z.im

def summed(x: Fin(n)=>Float, y: Fin(n)=>Float) -> Float:
    z = sum(square_less_one(Gauss(x, y)))
    z.im + (1.0 if z < Gauss(0.5, 0.0) else 0.0)

def damped(t: (i: Fin(n))=>(..=i)=>Float) -> Fin(n)=>Float:
    u = t / (1.0 + abs(sum(sum(t))))
    sum(max(u, 0.5 * u)) + [u[i, i] for i]

def beside(z: Side=>Float, x: Fin(n)=>Float) -> Fin(n)=>Float:
    t = [*z, *x]
    [t[right(i)] + t[left(Left)] * t[clamp(i)] for i]

enum Sort = Nothing | One(value: Float) | Two(value: Float, other: Float)

def sorted_out(x: Float, y: Float) -> Sort:
    if x > 0.5: Two(x, y)
    elif x > -1.0: One(y)
    else: Nothing

def weighed(s: Sort, d: Float) -> Float:
    match s:
        case Two(v, o) if v > o: v - o
        case One(v) | Two(_, v): 0.5 * v
        case Nothing: d

def last_above(x: Fin(n)=>Float, s: Float) -> Float:
    found = fold(lambda best, i: Some(i) if x[i] > s else best, None, [i for i in Fin(n)])
    match found:
        case Some(0): x[0] + 4.0
        case Some(i): x[i] - x[clamp(i - 1)]
        case None: s

def swept(f: (Float, Float, Float) -> Float, a: Fin(n)=>Fin(m)=>Float) -> Fin(n)=>Fin(m)=>Float:
    with state(a) as q:
        for i:
            for j: q[i, j] := f(q[i, j], q[clamp(i - 1), j], q[i, wrap(j + 1)])

def leapt(f: (Float, Float, Float) -> Float, a: Fin(n)=>Fin(m)=>Float) -> Fin(n)=>Fin(m)=>Float:
    loop now = a, before = a for _ in Fin(3):
        ([f(now[clamp(i - 1), j], now[i, wrap(j + 1)], before[i, j]) for i, j], now)
    now

def lowered(f: (Float, Float, Float) -> Float, a: Fin(n)=>Fin(m)=>Float) -> Fin(n)=>Fin(m)=>Float =
    scan(lambda u, v: [f(u[j], u[clamp(j - 1)], v[j]) for j], [0.0 for _ in Fin(m)], a)

def tilted(f: (Float, Float, Float) -> Float, a: Fin(n)=>Fin(m)=>Float) -> Fin(n)=>Fin(m)=>Float =
    [scan(lambda u, j: f(u, a[i, j], a[clamp(i + 1), j]), 0.0, [j for j in Fin(m)]) for i]

def keyed(a: Fin(n)=>Fin(m)=>Float, p: Fin(m)=>Fin(n), b: Fin(n)=>Bool) -> Fin(n)=>Fin(m)=>Float:
    with accum() as h:
        for i, j:
            h[i, j] += 0.5
            if b[i]: h[p[j], j] += a[i, j]

def picked(a: Fin(n)=>Fin(m)=>Float, k: Int) -> Fin(n)=>Fin(m)=>Float =
    [[a[i, clamp(Int(argmax(a[i])) - k)] + min(a[l, j] for l in ..=i) for j] for i]

def edged(f: (Float, Float, Float) -> Float, a: Fin(n)=>Fin(m)=>Float) -> Fin(n)=>Fin(m)=>Float:
    for i, j:
        if i == 0 or j == 0: 0.5 * a[i, j]
        elif i < n - 1 and j < m - 1: f(a[i - 1, j], a[i, j - 1], a[i + 1, j + 1])
        else: f(a[i, j], a[i - 1, j - 1], a[j, i]) if i < m and j < n else a[i, j]

def running(x: Fin(n)=>Float, y: Fin(n)=>Float) -> Fin(n)=>Float:
    total(scan(both, (0.0, -inf), [(x[i], y[i]) for i]))

"""
SIZES = ((0, 0), (3, 0), (1, 1), (3, 2), (5, 5), (2, 7))


@dataclass(frozen=True)
class Scope:
    """Names in scope by type: indices of Fin(n) (`rows` are those of binders) and Fin(m), local
    floats and integers."""

    n: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    m: tuple[str, ...] = ()
    floats: tuple[str, ...] = ("s",)
    ints: tuple[str, ...] = ("k",)
    made: int = 0

    def along(self, name: str) -> Scope:
        """With another index of Fin(n)."""
        return replace(self, n=(*self.n, name), rows=(*self.rows, name))

    def fresh(self) -> tuple[str, Scope]:
        return f"v{self.made}", replace(self, made=self.made + 1)


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A whole program: some bindings and a result."""
    scope = Scope()
    lines = []
    tables: list[tuple[str, str]] = []
    for _ in range(draw(st.integers(0, 2))):
        if draw(st.integers(0, 3)) == 0:
            block, scope, made = draw(handlers(scope))
            lines += block
            tables += [(made, "n")]
            continue
        name, scope = scope.fresh()
        if draw(st.booleans()):
            lines.append(f"    {name} = {draw(floats(scope, 2))}")
            scope = replace(scope, floats=(*scope.floats, name))
        else:
            lines.append(f"    {name} = {draw(vectors(scope, 2, tuple(tables)))}")
            tables.append((name, "n"))
    result = draw(
        st.one_of(
            vectors(scope, 3, tuple(tables)),
            matrices(scope, 3),
            floats(scope, 3),
            st.tuples(floats(scope, 2), vectors(scope, 2, tuple(tables))).map(
                lambda t: f"({t[0]}, {t[1]})"
            ),
        )
    )
    return with_helpers(f"{HEADER}:\n" + "".join(line + "\n" for line in lines) + f"    {result}\n")


@st.composite
def hessians(draw: st.DrawFn) -> str:
    """A program that is the Hessian of a sum or product with respect to `x`."""
    name, inner = Scope().fresh()
    of = draw(st.sampled_from(["sum", "prod"]))
    item = draw(floats(inner.along(name), 2))
    body = f"{of}({item} for {name} in Fin(n))"
    factor = draw(floats(Scope(), 1))
    value = HEADER.replace("def f", "def value") + f" -> Float = {body} * {factor}"
    given = ", ".join(re.findall(r"(\w+): ", HEADER))
    return with_helpers(f"{value}\n\n{HEADER} = hessian(value)({given})\n")


@st.composite
def handlers(draw: st.DrawFn, scope: Scope) -> tuple[list[str], Scope, str]:
    """Lines that bind what two states and two accumulators hold after a loop: the lines, the scope
    with the numbers, and the name of a vector."""
    names = []
    for _ in range(5):
        name, scope = scope.fresh()
        names.append(name)
    table, number, sums, total, i = names
    held = (f"q{table}[{i}]", f"q{number}", f"q{table}[clamp({i} - 1)]")
    inner = replace(scope.along(i), floats=(*scope.floats, *held))
    lines = [
        f"    ({table}, {number}, {sums}, {total}) = with state(x) as q{table}, state(s) as "
        f"q{number}, accum() as q{sums}, accum(max) as q{total}:",
        f"        for {i} in Fin(n):",
        f"            q{sums}[{i}] += 0.5",
        f"            q{total} += s",
        *draw(effects(inner, 2, 3, f"q{table}", f"q{number}", f"q{sums}", f"q{total}", i)),
    ]
    return lines, replace(scope, floats=(*scope.floats, number, total)), draw(
        st.sampled_from([table, sums])
    )


@st.composite
def effects(
    draw: st.DrawFn, scope: Scope, depth: int, pad: int, table: str, number: str, sums: str,
    total: str, i: str,
) -> list[str]:
    """Statements that change references."""
    room = "    " * pad
    again = (table, number, sums, total, i)
    out: list[str] = []
    for _ in range(draw(st.integers(1, 2))):
        value = draw(floats(scope, 1))
        kind = draw(st.integers(0, 8 if depth else 5))
        match kind:
            case 0:
                out.append(f"{room}{table}[{i}] := {value}")
            case 1:
                out.append(f"{room}{table}[wrap({i} + 1)] += {value}")
            case 2:
                out.append(f"{room}{number} := {value}")
            case 3:
                out.append(f"{room}{sums}[{draw(st.sampled_from(scope.n))}] += {value}")
            case 4:
                out.append(f"{room}{total} += {value}")
            case 5:
                out.append(
                    f"{room}({table}[{i}], {number}) := ({number}, {table}[clamp({i} + 1)])"
                )
            case 6:
                out.append(f"{room}if {draw(booleans(scope, 1))}:")
                out += draw(effects(scope, depth - 1, pad + 1, *again))
            case 7:
                out.append(f"{room}if {draw(booleans(scope, 1))}:")
                out += draw(effects(scope, depth - 1, pad + 1, *again))
                out.append(f"{room}else:")
                out += draw(effects(scope, depth - 1, pad + 1, *again))
            case _:
                j, inside = scope.fresh()
                inside = replace(inside, m=(*inside.m, j))
                out.append(f"{room}for {j} in Fin(m):")
                out += draw(effects(inside, depth - 1, pad + 1, *again))
    return out


def with_helpers(text: str) -> str:
    """The program after the helpers that it calls."""
    helpers = PRELUDE.split("\n\n")
    used: list[str] = []
    for h in reversed(helpers):
        name = re.split(r"[(:]", h)[0].removeprefix("def ").removeprefix("struct ")
        called = any(f"{name}(" in x or f"({name}," in x for x in (text, *used))
        if called or not h.startswith(("def", "struct")):
            used.insert(0, h)
    return "\n\n".join(x.strip("\n") for x in used) + "\n\n" + text


@st.composite
def floats(draw: st.DrawFn, scope: Scope, depth: int) -> str:
    """A scalar expression of type Float."""
    leaves = ["0.5", "-1.5", "2.0", *scope.floats]
    for i in scope.n:
        leaves += [f"x[{i}]", f"y[{i}]", f"Float(c[{i}])", f"x[clamp({i} + 1)]",
                   f"y[wrap({i} - 1)]", f"x.get({i} - 1, 0.5)"]  # fmt: skip
        leaves += [f"a[{i}, {j}]" for j in scope.m]
        leaves += [f"Float(h[{i}])"]
        leaves += [f"w[{i}, {j}, 1]" for j in scope.m]
    leaves += [f"x[p[{j}]]" for j in scope.m] + [f"Float(g[{j}])" for j in scope.m]
    leaves += [f"segment(a[{i}], r[{i}], r[{i} + 1])" for i in scope.rows]
    leaves += ["z[Left]", "z[Right]"]
    if depth == 0:
        return draw(st.sampled_from(leaves))
    name, inner = scope.fresh()
    deeper = floats(scope, depth - 1)
    in_n = inner.along(name)
    in_m = replace(inner, m=(*scope.m, name))
    match draw(st.integers(0, 26)):
        case 0 | 1 | 2:
            return draw(st.sampled_from(leaves))
        case 26:
            reduce = draw(st.sampled_from(["sum(sum({}))", "max(max(row) for row in {})"]))
            return reduce.format(draw(matrices(scope, depth - 1)))
        case 12:
            body = draw(floats(replace(inner, floats=(*scope.floats, name)), depth - 1))
            return f"until(lambda {name}: {body}, {draw(deeper)}, s)"
        case 13:
            t, more = inner.fresh()
            more = replace(more, floats=(*scope.floats, name), ints=(*scope.ints, t))
            body = draw(floats(more, depth - 1))
            last = draw(integers(scope, depth - 1))
            return f"bounded(lambda {name}, {t}: {body}, {draw(deeper)}, {last})"
        case 14 if scope.rows:
            i = draw(st.sampled_from(scope.rows))
            reduce = draw(st.sampled_from(["sum", "max"]))
            return f"{reduce}({draw(floats(in_m, depth - 1))} for {name} in r[{i}]..r[{i} + 1])"
        case 15 if scope.rows:
            i = draw(st.sampled_from(scope.rows))
            reduce = draw(st.sampled_from(["sum", "min"]))
            return f"{reduce}({draw(floats(in_n, depth - 1))} for {name} in ..={i})"
        case 16:
            return f"x[({draw(integers(scope, depth - 1))})?]"
        case 17:
            return f"positive({draw(deeper)})"
        case 21:
            return f"turned({draw(deeper)}, {draw(deeper)})"
        case 22:
            first = draw(vectors(scope, depth - 1, ()))
            return f"summed({first}, {draw(vectors(scope, depth - 1, ()))})"
        case 23:
            return f"weighed(sorted_out({draw(deeper)}, {draw(deeper)}), {draw(deeper)})"
        case 24:
            first = draw(vectors(scope, depth - 1, ()))
            return f"sum(weighed(sorted_out({first}, {draw(deeper)}), {draw(deeper)}))"
        case 25:
            return f"last_above({draw(vectors(scope, depth - 1, ()))}, {draw(deeper)})"
        case 18:
            return f"sum({draw(vectors(scope, depth - 1, ()))})"
        case 19:
            table = draw(vectors(scope, depth - 1, ()))
            return f"Float(rounds({table}, {draw(deeper)}))"
        case 20 if scope.n and scope.m:
            i, j = draw(st.sampled_from(scope.n)), draw(st.sampled_from(scope.m))
            return f"sum(w[{i}, {j}, {name}] * {draw(deeper)} for {name})"
        case 21:
            condition = draw(booleans(in_n, depth - 1))
            reduce = draw(st.sampled_from(["sum", "max", "size"]))
            kept = f"[{draw(floats(in_n, depth - 1))} for {name} in Fin(n) if {condition}]"
            return f"Float({reduce}({kept}))" if reduce == "size" else f"{reduce}({kept})"
        case 22:
            condition = draw(booleans(in_m, depth - 1))
            body = draw(floats(in_m, depth - 1))
            rows = f"[[{body} for {name} in Fin(m) if {condition}] for _ in Fin(n)]"
            return f"sum(sum(row) for row in {rows})"
        case 3 | 4:
            op = draw(st.sampled_from(["+", "-", "*"]))
            return f"({draw(deeper)} {op} {draw(deeper)})"
        case 5:
            function = draw(st.sampled_from(["abs", "sin", "floor", "tanh", "sqrt"]))
            return f"{function}({draw(deeper)})"
        case 6:
            function = draw(st.sampled_from(["max", "min"]))
            return f"{function}({draw(deeper)}, {draw(deeper)})"
        case 7:
            return f"({draw(deeper)} if {draw(booleans(scope, depth - 1))} else {draw(deeper)})"
        case 8:
            reduce = draw(st.sampled_from(["sum", "max", "min"]))
            body = draw(floats(in_n, depth - 1))
            return f"{reduce}({body} for {name} in Fin(n))"
        case 9:
            condition = draw(booleans(in_m, depth - 1))
            return f"sum({draw(floats(in_m, depth - 1))} for {name} in Fin(m) if {condition})"
        case 10:
            more = replace(in_n, rows=scope.rows, floats=(*in_n.floats, "acc"))
            body = draw(floats(more, depth - 1))
            return (
                f"fold(lambda acc, {name}: 0.5 * acc + {body}, "
                f"{draw(deeper)}, [{name} for {name} in Fin(n)])"
            )
        case _:
            return f"Float({draw(integers(scope, depth - 1))})"


@st.composite
def integers(draw: st.DrawFn, scope: Scope, depth: int) -> str:
    """A scalar expression of type Int."""
    leaves = ["1", "-3", *scope.ints, *(f"c[{i}]" for i in scope.n)]
    leaves += [f"Int({i})" for i in (*scope.n, *scope.m)] + ["size(x)"]
    if depth == 0:
        return draw(st.sampled_from(leaves))
    deeper = integers(scope, depth - 1)
    name, inner = scope.fresh()
    match draw(st.integers(0, 6)):
        case 0 | 1:
            return draw(st.sampled_from(leaves))
        case 2 | 3:
            op = draw(st.sampled_from(["+", "-", "*", "//", "%", "&", "|", "^"]))
            return f"({draw(deeper)} {op} {draw(deeper)})"
        case 4:
            body = draw(integers(inner.along(name), depth - 1))
            return f"sum({body} for {name} in Fin(n))"
        case 5:
            return f"({draw(deeper)} if {draw(booleans(scope, depth - 1))} else {draw(deeper)})"
        case _:
            return f"Int(argmax(x[{name}] for {name} in Fin(n)))"


@st.composite
def booleans(draw: st.DrawFn, scope: Scope, depth: int) -> str:
    """A scalar condition."""
    leaves = ["s > 0.5", "k == 2", *(f"b[{i}]" for i in scope.n)]
    leaves += [f"{i} < n - 1" for i in scope.n] + [f"{j} > 0" for j in scope.m]
    if depth == 0:
        return draw(st.sampled_from(leaves))
    match draw(st.integers(0, 4)):
        case 0 | 1:
            return draw(st.sampled_from(leaves))
        case 2:
            op = draw(st.sampled_from(["<", "<=", "==", "!="]))
            return f"{draw(floats(scope, depth - 1))} {op} {draw(floats(scope, depth - 1))}"
        case 3:
            op = draw(st.sampled_from(["and", "or"]))
            return f"({draw(booleans(scope, depth - 1))} {op} {draw(booleans(scope, depth - 1))})"
        case _:
            return f"(not {draw(booleans(scope, depth - 1))})"


@st.composite
def vectors(draw: st.DrawFn, scope: Scope, depth: int, tables: tuple[tuple[str, str], ...]) -> str:
    """An expression of type Fin(n)=>Float."""
    leaves = ["x", "y", "reverse(x)", "rotate(y, k)", *(t for t, _ in tables)]
    if depth == 0:
        return draw(st.sampled_from(leaves))
    name, inner = scope.fresh()
    deeper = vectors(scope, depth - 1, tables)
    match draw(st.integers(0, 14)):
        case 0:
            return draw(st.sampled_from(leaves))
        case 13:
            j, more = inner.along(name).fresh()
            body = draw(floats(more.along(j), depth - 1))
            return f"damped([[{body} for {j} in ..={name}] for {name} in Fin(n)])"
        case 14:
            return f"beside(z, {draw(deeper)})"
        case 8:
            body = draw(floats(inner.along(name), depth - 1))
            step = f"[u[{name}] * 0.5 + {body} for {name} in Fin(n)]"
            return f"settle(lambda u: {step}, {draw(deeper)})"
        case 9:
            return f"running({draw(deeper)}, {draw(deeper)})"
        case 10:
            return f"take(concat({draw(deeper)}, {draw(deeper)}), n)"
        case 11:
            return f"[{draw(deeper)}[{name}] for {name} in Fin(n)]"
        case 12:
            return f"((({draw(deeper)}) as (Fin(n), Fin(1))=>Float) as Fin(n)=>Float)"
        case 1 | 2:
            body = draw(floats(inner.along(name), depth - 1))
            return f"[{body} for {name} in Fin(n)]"
        case 3:
            return f"({draw(deeper)} {draw(st.sampled_from(['+', '-', '*']))} {draw(deeper)})"
        case 4:
            return f"scan((+), 0.0, {draw(deeper)})"
        case 5:
            return f"({draw(deeper)} if b else {draw(floats(scope, depth - 1))})"
        case 6:
            return f"[sum(a[{name}, j] for j) for {name}]"
        case _:
            body = draw(floats(inner.along(name), depth - 1))
            return (
                f"fold(lambda u, t: [u[{name}] * 0.5 + u[clamp({name} - 1)] + {body} "
                f"for {name} in Fin(n)], {draw(deeper)}, [t for t in Fin(3)])"
            )


@st.composite
def matrices(draw: st.DrawFn, scope: Scope, depth: int) -> str:
    """An expression of type Fin(n)=>Fin(m)=>Float."""
    i, scope1 = scope.fresh()
    j, inner = scope1.fresh()
    match draw(st.integers(0, 7 if depth else 3)):
        case 4 | 5:
            way = draw(st.sampled_from(["swept", "leapt", "lowered", "tilted", "edged"]))
            names = ("o", "e", "d")
            body = draw(floats(replace(inner, floats=(*scope.floats, *names)), depth - 1))
            over = draw(matrices(scope, depth - 1))
            return f"{way}(lambda o, e, d: 0.5 * {body} - 0.25 * d, {over})"
        case 6:
            return f"keyed({draw(matrices(scope, depth - 1))}, p, b)"
        case 7:
            ways = ["picked({}, k)", "[sort(row) for row in {}]", "(({0} @ transpose(a)) @ a)",
                    "[reverse(row) for row in {}]"]  # fmt: skip
            way = draw(st.sampled_from(ways))
            return way.format(draw(matrices(scope, depth - 1)))
        case 0 | 1:
            body = draw(
                floats(replace(inner.along(i), m=(*scope.m, j)), max(0, depth - 1))
            )
            return f"[{body} for {i} in Fin(n), {j} in Fin(m)]"
        case 2:
            return f"[a[{i}] * {draw(floats(inner.along(i), 1))} for {i}]"
        case _:
            return draw(st.sampled_from(["(*)~(1, 0)(a, x)", "transpose(transpose(a) * 2.0)"]))


def arguments(n: int, m: int, seed: int) -> dict[str, object]:
    """Inputs of the given sizes (`p` needs n >= 1 when m >= 1)."""
    rng = np.random.default_rng(seed)

    def halves(*shape: int) -> np.ndarray:
        return rng.integers(-4, 5, shape) / 2.0

    return {
        "x": halves(n), "y": halves(n), "a": halves(n, m),
        "c": rng.integers(-3, 4, n), "b": rng.integers(0, 2, n).astype(bool),
        "p": rng.integers(0, max(n, 1), m) if n else np.zeros(0, int),
        "r": np.sort(rng.integers(0, m + 1, n + 1)),
        "w": halves(n, m, 3), "g": rng.integers(0, 9, m).astype(np.uint8),
        "h": halves(n).astype(np.float32), "z": halves(2),
        "s": float(rng.integers(-4, 5)) / 2, "k": int(rng.integers(-2, 4)),
    }  # fmt: skip
