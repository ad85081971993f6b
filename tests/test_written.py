"""A derivative printed in the language parses, type checks and computes the same values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

import naperian as nap
from naperian import draws, pipeline
from naperian.ainf import run as ainf_run
from naperian.border import usual
from naperian.signed import at, size_variables
from naperian.source import Source

PAGES = Path(__file__).parent / "pages"
EXAMPLES = Path(__file__).parent.parent / "examples"
KINDS = ("grad", "jacobian")


def derivatives(names: tuple[str, ...] | None) -> Iterator[nap.Function]:
    """One derivative of every definition on the pages (or of those named) that has any."""
    pages = ("derivatives.md",) if names else ("derivatives.md", "solved.md", "taken_apart.md")
    text = "".join((PAGES / page).read_text() for page in pages)
    for block in re.findall(r"```nap\n(.*?)```", text, re.DOTALL):
        yield from of_module(block, names)


def of_module(text: str, names: tuple[str, ...] | None = None) -> Iterator[nap.Function]:
    """One derivative of every definition (or of those named) that has any."""
    module = nap.compile(text)
    for name in module.names if names is None else {*names} & {*module.names}:
        for kind in KINDS:
            try:
                yield getattr(nap, kind)(module[name])
            except TypeError:
                continue
            break


def run(module, name: str, dtypes, sizes: dict[str, int], leaves) -> list[np.ndarray]:
    """The leaves of a definition's value, by the interpreter of AiNF."""
    flat = pipeline.flat(
        pipeline.specialise(module, name, at(module.definitions[name], dtypes))
    )
    given = [x if x.ndim else x.item() for x in leaves]
    return ainf_run.run(flat, [sizes[v.name] for v in flat.sizes], given)


SOME = (
    "mean_square", "by_loop", "until", "gathered", "products", "mixed", "smoothed", "conv",
    "until_doubled",
)  # fmt: skip


def test_written_derivatives() -> None:
    assert same(derivatives(SOME)) >= len(SOME)


@pytest.mark.long
def test_all_written_derivatives() -> None:
    assert same(derivatives(None)) > 40


@pytest.mark.long
@pytest.mark.parametrize("page", sorted(p.stem for p in EXAMPLES.glob("*.md")))
def test_written_derivatives_of_examples(page: str) -> None:
    blocks = re.findall(r"```nap\n(.*?)```", (EXAMPLES / f"{page}.md").read_text(), re.DOTALL)
    text = blocks[0] if page == "newton_kmeans" else "\n".join(blocks)
    functions = [*of_module(text)] if blocks else []
    assert same(functions) > 0 or not functions


def same(functions: Iterable[nap.Function]) -> int:
    """Print, parse and run derivatives; how many draws of arguments were compared."""
    done = 0
    for f in functions:
        text = f.show("surface")
        written, wrong = pipeline.front(Source("written.nap", text))
        assert written is not None, f"{wrong}\n{text}"
        module, sig = f._program.core(), f._text
        slotted = [v.name for v in size_variables(module.definitions[f.__name__])]
        rng = np.random.default_rng(0)
        for slots in draws.sizes(sig, rng, 2):
            given = draws.draw(sig, usual(sig), slots, rng, "normal")
            if given is None:
                continue
            sizes = dict(zip(slotted, slots, strict=True))
            own = written.public[-1]
            types = (usual(sig)[0],) * len(written.definitions[own].types)
            try:
                want = run(module, f.__name__, usual(sig), sizes, given.leaves)
            except ainf_run.RunError:  # what was drawn is not what the program asserts
                with pytest.raises(ainf_run.RunError):
                    run(written, own, types, sizes, given.leaves)
                continue
            try:
                got = run(written, own, types, sizes, given.leaves)
            except ainf_run.RunError as e:  # of rows, which the derivative takes for empty
                there = at(written.definitions[own], types)
                flat = pipeline.flat(pipeline.specialise(written, own, there))
                if "is negative" not in flat.failures[e.args[0] - 1].message:
                    raise
                continue
            for x, y in zip(want, got, strict=True):
                np.testing.assert_allclose(x, y, 1e-9, 1e-9, err_msg=text)
            done += 1
    return done


PROGRAMS = {
    "the greater and the less of two indices, where a matrix is symmetric": (
        """
import linalg
def f(a: Fin(n)=>Fin(n)=>Float) -> Float:
    g = grad(lambda a: sum(log(diagonal(linalg.cholesky(a)))))(a)
    sum(g[i, j] ** 2 for i, j)
""",
        [np.eye(3) * 3.0 + 0.1],
    ),
    "sums of bytes that are declared to be bytes": (
        """
def f(x: Fin(n)=>Float) -> Float:
    k = [U8(200) if x[i] > 0 else U8(1) for i]
    s: U8 = sum(k)
    p: U8 = prod(k[i] * k[j] + 1 for i, j if j <= i)
    sum(x[i] * s + p * x[i] ** 2 + sum(k) for i)
""",
        [np.array([1.5, -2.0, 3.0])],
    ),
    "products of rows of unequal length": (
        "def f(x: Fin(n)=>Float) -> Float = sum(prod(x[j] for j in ..=i) for i in Fin(n))",
        [np.array([1.5, -2.0, 3.0])],
    ),
    "sorting": (
        "def f(x: Fin(n)=>Float) -> Float = sum((1.0 + i) * v for (i, v) in numbered(sort(x)))\n\n"
        "def numbered(x: Fin(n)=>Float) -> Fin(n)=>(Float, Float) = [(Float(i), x[i]) for i]",
        [np.array([1.5, -2.0, 3.0])],
    ),
    "carried numbers change places": (
        """
def f(a: Float, b: Float) -> Float:
    (x, y) = loop x = a, y = b for t in Fin(5):
        (y, x * 1.1)
    x * y * y
""",
        [2.0, 3.0],
    ),
    "a condition that differs from element to element": (
        """
def f(x: Fin(n)=>Float) -> Float = sum(until(x[i]) * i for i)
def until(x: Float) -> Float:
    loop y = x while y < 10.0:
        y * y
""",
        [np.array([1.5, 2.0, 11.0, 3.0])],
    ),
    "a loop for each of none": (
        """
def f(x: Fin(n)=>Float) -> Float = sum(until(x[i]) * i for i)
def until(x: Float) -> Float:
    loop y = x while y < 10.0:
        y * y
""",
        [np.zeros(0)],
    ),
    "conditions in rows of unequal length": (
        """
def f(x: Fin(n)=>Float, k: Fin(n)=>Int) -> Float =
    sum(until(x[i] + j, k[i]) for i in Fin(n), j in 0..k[i])
def until(x: Float, k: Int) -> Float:
    loop y = x while y < 10.0:
        y * y + k
""",
        [np.array([1.5, 2.0, 11.0, 3.0]), np.array([2, 0, 1, 3])],
    ),
    "a neighbour in a row of unequal length": (
        """
def f(v: Fin(m)=>Float, r: Fin(n + 1)=>Fin(m + 1)) -> Float:
    rows = for i in Fin(n):
        row = [v[e] for e in r[i]..r[i + 1]]
        sum(row[e] ** 2 * row[clamp(e + 1)] for e)
    sum(rows)
""",
        [np.array([1.5, 2.0, 0.1, 0.3, -1.0]), np.array([0, 2, 2, 5])],
    ),
    "places that a loop carries": (
        """
def f(x: Fin(n)=>Float) -> Float:
    loop p = [i for i in Fin(n)] for t in Fin(3):
        [p[wrap(i + t)] if x[i] > 0.0 else i for i]
    sum(x[p[i]] ** 2 * i for i)
""",
        [np.array([1.5, -2.0, 0.1, 0.3])],
    ),
    "a table in rounds of its own": (
        """
def f(x: Fin(n)=>Fin(3)=>Float) -> Float = sum(until(x[i]) * i for i)
def until(x: Fin(3)=>Float) -> Float:
    loop y = x while sum(y) < 10.0:
        [y[i] * y[i] + 1.0 for i]
    sum(y)
""",
        [np.array([[1.5, 2.0, 0.1], [0.3, 0.1, 0.2]])],
    ),
    "a scan in a loop": (
        """
def f(x: Fin(n)=>Float, k: Int) -> Float:
    loop y = 1.0 for t in Fin(k):
        zs = scan(lambda a, b: sin(a) * b + y, 0.5, x)
        sum(cos(z) * y for z in zs) / 10.0
""",
        [np.array([1.0, 0.2, 0.7]), 3],
    ),
    "a condition in each round": (
        """
def f(x: Float, k: Int) -> Float:
    loop y = x for t in Fin(k):
        sin(until(y * y + 0.1, t)) + 0.5 * x
def until(x: Float, t: Int) -> Float:
    loop y = x while y < 3.0 + 0.1 * t:
        y * 1.5 + 0.3 * sin(y)
""",
        [0.7, 4],
    ),
    "a condition for each element in each round": (
        """
def f(x: Fin(n)=>Float, k: Int) -> Float:
    y = go(x, k)
    sum(v ** 2 for v in y)
def go(x: Fin(n)=>Float, k: Int) -> Fin(n)=>Float:
    loop y = x for t in Fin(k):
        [sin(until(y[i] + x[wrap(i + 1)], t)) for i]
def until(x: Float, t: Int) -> Float:
    loop y = x while y < 3.0 + 0.1 * t:
        y * 1.5 + 0.3 * sin(y) + 1.0
""",
        [np.array([0.7, 1.2, 2.5]), 3],
    ),
    "conditions in conditions in each round": (
        """
def f(x: Float, k: Int) -> Float:
    loop y = x for t in Fin(k):
        sin(outer(y)) ** 2 + 0.1
def outer(x: Float) -> Float:
    loop y = x while y < 9.0:
        loop z = y * 1.1 while z < y + 2.0: z * 1.3 + 0.2
        z + 0.1 * y
""",
        [0.7, 3],
    ),
    "equations, solved": (
        """
import linalg
def f(a: Fin(n)=>Fin(n)=>Float, b: Fin(n)=>Float) -> Float = sum(linalg.solve(a, b) ** 2)
""",
        [np.array([[0.3, 2.0, -1.0], [1.5, 0.2, 1.0], [0.4, -1.0, 1.1]]), np.ones(3)],
    ),
    "steps downhill from each point": (
        """
def f(w: h=>d=>Float, xs: b=>d=>Float) -> Float:
    def one(i: b) -> Float:
        loop z = xs[i] for _ in Fin(4):
            [z[q] - 0.1 * sum((1.0 - tanh(dot(w[a], z)) ** 2) * w[a, q] for a) for q]
        sum(tanh(dot(w[a], z)) for a)
    mean([one(i) for i in b])
""",
        [np.array([[0.3, 0.5], [-0.2, 0.7], [1.1, 0.1]]), np.array([[0.5, -0.4], [0.2, 0.9]])],
    ),
    "a condition in the rounds of a condition": (
        """
def f(x: Float) -> Float:
    loop y = x while y < 10.0:
        loop z = y while z < 3.0: z * 2.0
        y * z
""",
        [1.3],
    ),
    "a table carried in each round": (
        """
def f(x: Fin(3)=>Float, k: Int) -> Float:
    y = go(x, k)
    sum(v ** 2 for v in y)
def go(x: Fin(3)=>Float, k: Int) -> Fin(3)=>Float:
    loop y = x for t in Fin(k):
        z = until(y)
        [sin(v) + 0.1 for v in z]
def until(x: Fin(3)=>Float) -> Fin(3)=>Float:
    loop y = x while sum(y) < 10.0:
        [y[i] * 1.5 + 0.1 * y[wrap(i + 1)] for i]
""",
        [np.array([0.7, 1.2, 2.5]), 3],
    ),
    "rows as long as a round finds": (
        """
def f(x: n=>Float, k: Int) -> Float:
    loop v = x for i in Fin(k):
        y = [a * a for a in v if a > 0.1]
        [0.5 * a + sum(y) for a in v]
    sum(v)
""",
        [np.array([0.7, -1.2, 0.2]), 3],
    ),
    "what a loop carries as a number, asked for backwards": (
        """
def f(x: n=>Float) -> Float:
    loop k = 0, y = 1.0 for v in x:
        match k:
            case 0: (1, y * v)
            case _: (0, y + v)
    y
""",
        [np.array([2.0, 3.0, 5.0, 0.7])],
    ),
    "rows in strips": (
        """
def f(y: Fin(n)=>Fin(d)=>Float, w: Fin(d)=>Fin(d)=>Float, k: Int) -> Float:
    loop y = y for t in Fin(k) checkpoint(2):
        y + 0.1 * tanh(y @ w)
    sum(y[i, j] ** 2 for i, j)
""",
        [np.array([[0.3, 0.9], [0.4, -0.2], [0.1, 0.7]]), np.array([[0.5, 0.2], [-0.3, 0.8]]), 4],
    ),
    "a checkpoint in the rounds of a checkpoint": (
        """
def f(u: n=>Float, k: Int) -> Float:
    loop v = u, s = 0.0 for t in Fin(k) checkpoint(2):
        loop w = v, q = 0.0 for r in Fin(k) checkpoint(2):
            (sin(w) + 0.1 * v, q + sum(w ** 2))
        (w * 1.1, s + q * v.get(t, 1.0))
    s
""",
        [np.array([0.3, 0.9, 0.4]), 4],
    ),
    "variants that a loop carries, asked for backwards": (
        """
enum T = Leaf(x: Float) | Node(l: Float, r: Float)
def step(t: T, x: Float) -> T:
    match t:
        case Leaf(y): Node(x, y) if y > x else Leaf(y + x * y)
        case Node(l, r): Leaf(l * r)
def out(t: T) -> Float:
    match t:
        case Leaf(x): x
        case Node(l, r): l + 2.0 * r
def f(x: n=>Float) -> Float = out(fold(step, Leaf(0.5), x))
""",
        [np.array([0.9, 0.1, 0.6, 0.2, 0.05])],
    ),
    "a condition in the rounds of one element's loop": (
        """
def solve(y: Float, p: Float) -> Float:
    loop y = y while y < 9.0: y + p * y if y < 3.0 else y * y
    y
def f(y: n=>Float, p: Float) -> Float = sum(solve(y[i], p) for i)
""",
        [np.array([0.7, 0.9, 1.5]), 0.3],
    ),
    "a condition in as many rounds as an element says": (
        """
def grown(y: Float, rounds: Int) -> Float:
    loop s = y for _ in Fin(max(rounds, 0)): s * s + y if s < 1.0 else 0.5 * s
    s
def f(y: n=>Float, k: n=>Int) -> Float = sum(grown(y[i], k[i] + i) for i)
""",
        [np.array([0.7, 0.9, 1.5, 0.2]), np.array([2, -1, 3, 0])],
    ),
    "loops and tables in the rounds of one element's loop": (
        """
def solve(y: Float, p: Float, k: Fin(4)=>Fin(3)) -> Float:
    loop y = y while y < 9.0:
        loop w = y for t in Fin(3): w + p if w < 2.0 else w * 1.1
        c = scan(lambda s, v: s * v if s < 2.0 else s + v, w, [1.1, 1.2, p])
        h = with state([y, p, 1.0]) as c:
            for i: c[k[i]] := c[k[i]] * 1.5 + p
        y + p * max(c) + h[1] if y < 3.0 else y + sum(h)
    y
def f(y: n=>Float, p: Float, k: Fin(4)=>Fin(3)) -> Float = sum(solve(y[i], p, k) for i)
""",
        [np.array([0.7, 0.9, 1.5]), 0.3, np.array([0, 2, 1, 1])],
    ),
    "a check in the rounds of a while loop whose value nobody reads": (
        """
def f(x: n=>Float) -> Float:
    loop s = 0.0, k = 0 while k < size(n):
        assert k < 5, "too many"
        (s * 0.5 + x[k?] ** 2, k + 1)
    s
""",
        [np.array([1.0, 2.0, 3.0])],
    ),
    "sorted rows of lengths that data say": (
        """
def f(x: n=>Float) -> Float:
    rows = [[x[j] * x[i] for j in n if x[j] > x[i]] for i]
    sum(sum(sort(r)[i] * (i + 1) for i) for r in rows)
""",
        [np.array([1.0, 2.0, 3.0, -0.5])],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_written_loops(name: str) -> None:
    """The text, compiled, gives what the derivative gives."""
    text, args = PROGRAMS[name]
    slope = nap.grad(nap.compile(text).f)
    written = nap.compile(slope.show("surface"))
    np.testing.assert_allclose(written.grad_f(*args), slope(*args), 1e-12)


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n.endswith(("element's loop", "says"))])
def test_rounds_of_one_element_have_no_tables_of_all(name: str) -> None:
    """Each element's loop is written with what that element has: all would cost n² together."""
    text = nap.grad(nap.compile(PROGRAMS[name][0]).f).show("surface")
    assert not re.findall(r"^ {8}.*= \[.*in Fin\(n\)\]$", text, re.MULTILINE), text


def test_a_loop_whose_only_value_goes_to_the_end_of_another() -> None:
    """Of what was to be placed in a loop of its own nothing is left: there is no such loop."""
    module = nap.compile("""
import linalg
def loss(a: n=>Float) -> Float:
    m = [[a[i] * a[j] + (2.0 if i == j else 0.0) for j] for i]
    sum(linalg.solve_cholesky(linalg.cholesky(m), a) ** 2)
def second(a: n=>Float) -> n=>n=>Float = hessian(loss)(a)
""")
    along = nap.jvp(module.second)
    written = nap.compile(along.show("surface")).jvp_second
    x, dx = np.array([0.3, 0.7]), np.array([1.0, -0.5])
    for got, want in zip(written(x, dx), along(x, dx), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9)
