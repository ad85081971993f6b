"""What becomes of adjoints: sums over what a target leaves out are contractions, what goes to
elements of its own is a gather, and no chunk of a loop needs a copy of an array for itself.

Counted in the program, and every gradient is compared with the forward mode.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from test_cost import cost

import naperian as nap

pytestmark = pytest.mark.usefixtures("keeping")

N, M, P = 5, 4, 3


def x(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape)


# name: the program, the arguments, those that `f` is differentiated for, and how many contractions
# its gradient has, those of the function's own value among them
CONTRACTIONS = {
    "a product of matrices": (
        "def f(a: n=>m=>Float, b: m=>p=>Float, w: n=>p=>Float) -> Float = "
        "sum((a @ b)[i, k] * w[i, k] for i, k)",
        (x(N, M), x(M, P), x(N, P)), ("a", "b"), 2,
    ),
    "one of two products, by a flag": (
        """
def f(a: n=>m=>Float, b: m=>p=>Float, c: m=>p=>Float, first: Bool) -> Float:
    y = a @ b if first else a @ c
    sum(y[i, k] ** 2 for i, k)
""",
        (x(N, M), x(M, P), x(M, P), True), ("a",), 4,
    ),
    "its square": (
        "def f(a: n=>m=>Float, b: m=>p=>Float) -> Float = sum((a @ b)[i, k] ** 2 for i, k)",
        (x(N, M), x(M, P)), ("a", "b"), 3,
    ),
    "a batch of products": (
        "def f(a: b=>n=>m=>Float, c: b=>m=>p=>Float) -> Float = "
        "sum((a[i] @ c[i])[j, k] ** 2 for i, j, k)",
        (x(2, N, M), x(2, M, P)), ("a", "c"), 3,
    ),
    "attention": (
        """
def attention(q: n=>d=>Float, k: m=>d=>Float, v: m=>e=>Float) -> n=>e=>Float:
    s = q @ transpose(k)
    [softmax(s[i]) for i] @ v

def f(q: n=>d=>Float, k: m=>d=>Float, v: m=>e=>Float, w: n=>e=>Float) -> Float =
    sum(attention(q, k, v)[i, j] * w[i, j] for i, j)
""",
        (x(N, 2), x(M, 2), x(M, P), x(N, P)), ("q", "k", "v"), 5,
    ),
    "two dense layers": (
        """
def f(x: n=>a=>Float, w: a=>b=>Float, c: b=>Float, v: b=>e=>Float) -> Float:
    h = [tanh((x @ w)[i, j] + c[j]) for i, j]
    sum((h @ v)[i, k] ** 2 for i, k)
""",
        (x(N, M), x(M, P), x(P), x(P, 2)), ("w", "c", "v"), 5,
    ),
    "powers of a matrix": (
        """
def f(a: n=>n=>Float, x: n=>Float, k: Int) -> Float = sum(y ** 2 for y in steps(a, x, k))

def steps(a: n=>n=>Float, x: n=>Float, k: Int) -> n=>Float:
    loop y = x for _ in Fin(k):
        a @ y
""",
        (x(N, N), x(N), 4), ("a", "x"), 1,
    ),
    "a recurrent network": (
        """
def f(w: h=>h=>Float, u: h=>d=>Float, x: t=>d=>Float) -> Float = sum(y ** 2 for y in steps(w, u, x))

def steps(w: h=>h=>Float, u: h=>d=>Float, x: t=>d=>Float) -> h=>Float:
    loop y = [0.0 for _ in h] for s in t:
        [tanh((w @ y)[i] + (u @ x[s])[i]) for i]
""",
        (x(N, N), x(N, M), x(6, M)), ("w", "u"), 3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTRACTIONS)
def test_accumulations_become_contractions(name: str) -> None:
    text, args, wrt, want = CONTRACTIONS[name]
    slope = gradient(text, args, wrt)
    assert slope.show("loops").count("contract ") == want
    assert scattered(slope) == 0


# what goes back to its own element, and no further: a gather, nothing is added up
GATHERS = {
    "reverse": (
        "def f(x: Fin(n)=>Float) -> Float = sum(exp(reverse(x)[i]) * x[i] for i)", (x(N),)
    ),
    "transpose": (
        "def f(x: n=>m=>Float) -> Float = sum(exp(transpose(x)[i, j]) for i, j)", (x(N, M),)
    ),
    "rotate": (
        "def f(x: Fin(n)=>Float, w: Fin(n)=>Float) -> Float = "
        "sum(exp(rotate(x, 3)[i]) * w[i] for i)",
        (x(N), x(N)),
    ),
    "slices": (
        "def f(x: Fin(n + 3)=>Float) -> Float = dot(x[1..], x[..n + 2]) + sum(exp(x[2..]))",
        (x(N),),
    ),
    "concat": (
        "def f(x: Fin(n)=>Float, y: Fin(m)=>Float, w: Fin(n + m)=>Float) -> Float = "
        "sum(exp(concat(x, y)[i]) * w[i] for i)",
        (x(N), x(M), x(N + M)),
    ),
    "reshape": (
        """
def f(x: Fin(n)=>Fin(m)=>Float, w: Fin(n * m)=>Float) -> Float:
    flat = [x[i, j] for (i, j)] as Fin(n * m)=>Float
    sum(exp(flat[i]) * w[i] for i)
""",
        (x(N, M), x(N * M)),
    ),
    "halves": (
        "def f(x: Fin(2 * n)=>Float) -> Float = "
        "sum((x[i] + x[n + i]) * exp(x[i] - x[n + i]) for i in Fin(n))",
        (x(2 * N),),
    ),
    "neighbours round a circle": (
        "def f(x: n=>Float) -> Float = sum(exp(x[wrap(i + 1)]) * x[i] for i)", (x(N),)
    ),
    "blocks": (
        "def f(x: Fin(4 * n)=>Float) -> Float = "
        "sum(sum(exp(x[4 * i + j]) for j in Fin(4)) ** 2 for i in Fin(n))",
        (x(4 * N),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GATHERS)
def test_permutations_become_gathers(name: str) -> None:
    text, args = GATHERS[name]
    slope = gradient(text, args, ("x",))
    assert scattered(slope) == 0
    assert slope.show("loops").count("update ") == 0


CONVOLUTION = """
def f(k: Fin(p)=>Fin(q)=>Float, x: Fin(n + p - 1)=>Fin(m + q - 1)=>Float) -> Float =
    sum(sum(x[i + a, j + b] * k[a, b] for a, b) ** 2 for i in Fin(n), j in Fin(m))
"""


@pytest.mark.parametrize("wrt", [("x",), ("k",), ("k", "x")])
def test_the_adjoint_of_a_convolution_is_a_correlation(wrt: tuple[str, ...]) -> None:
    """For the image a sum over the kernel, for the kernel one over the image: nothing scatters."""
    assert scattered(gradient(CONVOLUTION, (x(3, 2), x(7, 6)), wrt)) == 0


# what goes to every second element, or to a corner of each block: added where it goes, by loops
# whose iterations are apart, or stored where together they go everywhere
APART = {
    "pairs": (
        "def f(x: Fin(2 * n)=>Float) -> Float = sum(sin(x[2 * i]) * x[2 * i + 1] for i in Fin(n))",
        (x(2 * N),),
    ),
    "the larger of two": (
        "def f(x: Fin(2 * n)=>Float) -> Float = "
        "sum(max(x[2 * i], x[2 * i + 1]) ** 2 for i in Fin(n))",
        (x(2 * N),),
    ),
    "corners": (
        """
def f(x: Fin(2 * n)=>Fin(2 * m)=>Float) -> Float =
    sum(exp(x[2 * i, 2 * j]) * x[2 * i + 1, 2 * j + 1] for i in Fin(n), j in Fin(m))
""",
        (x(2 * N, 2 * M),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", APART)
def test_what_goes_to_elements_apart_needs_no_copies(name: str) -> None:
    text, args = APART[name]
    final = gradient(text, args, ("x",)).show("loops")
    assert ("update " in final) == (name == "corners")
    assert "copies" not in final


def gradient(text: str, args: tuple[object, ...], wrt: tuple[str, ...]) -> nap.Function:
    """The gradient of `f`, once it agrees with the forward mode in a direction."""
    f = nap.compile(text).f
    slope = nap.grad(f, wrt)
    names = [p.name for p in f._text.params]
    along = [np.cos(args[names.index(name)]) for name in wrt]
    found = slope(*args)
    parts = found if len(wrt) > 1 else (found,)
    product = sum(np.vdot(s, d) for s, d in zip(parts, along, strict=True))
    np.testing.assert_allclose(product, nap.jvp(f, wrt)(*args, *along)[1], rtol=1e-10)
    return slope


def scattered(slope: nap.Function) -> int:
    """How many accumulations have an entry that goes elsewhere than to its own element."""
    return sum(" at [" in line for line in slope.show("prune").splitlines())


SYSTEMS = """
from linalg import solve

def f(a: Fin(n)=>Fin(n)=>Float, b: Fin(n)=>m=>Float) -> Float =
    sum(sum(v ** 2 for v in solve(a, [b[i, j] for i])) for j)
"""


def test_a_matrix_is_taken_apart_once_for_all_right_sides() -> None:
    """Forwards and backwards: what one more side costs is a few sweeps over the matrix; it goes by
    rows side by side, whose parts are as long as the loops around say."""
    f = nap.compile(SYSTEMS).f
    slope = gradient(SYSTEMS, (np.eye(4) + x(4, 4), x(4, 3)), ("a", "b"))
    for g in (f, slope):
        few, many = (cost(g, [np.eye(8) + x(8, 8), x(8, m)]).total for m in (2, 30))
        assert many - few <= (30 - 2) * 16 * 8**2
    assert slope.show("cse").count("= argmax ") == 1  # though each branch reads what it divides


@pytest.mark.parametrize(
    "body", ["sum(max(x[i], 0.999 * x[i]) for i)", "sum(0.003 * abs(v) + v for v in x)"]
)
def test_a_slight_kink_is_no_wrong_derivative(body: str) -> None:
    assert nap.check(nap.compile(f"def f(x: n=>Float) -> Float = {body}").f)


def test_the_adjoint_of_a_product_that_is_carried_is_two_products_a_round() -> None:
    module = nap.compile("""
def f(a: Fin(n)=>Fin(n)=>Float) -> Float:
    loop e = a for _ in Fin(6):
        e @ e
    sum(e[i, j] ** 2 for i, j)
""")
    assert nap.grad(module.f).show("schedule").count("contract ") == 3
    a = np.eye(12) + 0.01 * np.random.default_rng(0).standard_normal((12, 12))
    e = [np.linalg.matrix_power(a, 2**k) for k in range(7)]
    slope = 2.0 * e[6]
    for k in reversed(range(6)):
        slope = slope @ e[k].T + e[k].T @ slope
    np.testing.assert_allclose(nap.grad(module.f)(a), slope)


def test_each_layer_s_weights_get_one_product() -> None:
    module = nap.compile("""
def f(ws: l=>d=>d=>Float, xs: n=>d=>Float) -> Float:
    loop hs = xs for k in l:
        [relu([sum(ws[k, o, i] * hs[b, i] for i) for o]) for b]
    sum(hs[b, o] ** 2 for b, o)
""")
    assert nap.grad(module.f).show("schedule").count("contract ") == 3
    rng = np.random.default_rng(0)
    ws, xs = 0.5 * rng.standard_normal((3, 16, 16)), rng.standard_normal((9, 16))
    hs = [xs]
    for w in ws:
        hs.append(np.maximum(hs[-1] @ w.T, 0.0))
    slope, expected = 2.0 * hs[-1], np.zeros_like(ws)
    for k in reversed(range(3)):
        slope = slope * (hs[k + 1] > 0.0)
        expected[k] = slope.T @ hs[k]
        slope = slope @ ws[k]
    np.testing.assert_allclose(nap.grad(module.f)(ws, xs), expected, 1e-12, 1e-12)


UPWIND = """
def f(u: n=>Float, c: n=>Float, steps: Int) -> Float:
    loop v = u for _ in Fin(steps):
        [v[i] - (c[i] * (v[i] - v[wrap(i - 1)]) if c[i] > 0.0 else c[i] * (v[wrap(i + 1)] - v[i]))
         for i]
    sum(v[i] ** 2 for i)
"""


def test_what_both_sides_of_a_condition_send_is_one_sum() -> None:
    """`c[i]` gets what one side of the condition sends or what the other one does, in every round:
    a sum of choices, which all lanes of a vector add to."""
    f = nap.compile(UPWIND).f
    slope = nap.grad(f, wrt=("u", "c"))
    text = slope.show("loops")
    assert "update" in text
    assert not re.search(r"^ *if v_\d+\[.*\]:$", text, re.MULTILINE)
    u, c = x(7), x(7)[::-1].copy()
    du, dc = slope(u, c, 9)
    for k in range(7):
        for given, found in ((u, du), (c, dc)):
            d = np.zeros(7)
            d[k] = 1e-6
            more, less = ((u + d, c), (u - d, c)) if given is u else ((u, c + d), (u, c - d))
            assert found[k] == pytest.approx((f(*more, 9) - f(*less, 9)) / 2e-6, rel=1e-6, abs=1e-8)


# what flows back goes to one or two of many elements, from outside and inside of rounds
FEW = nap.compile("""
def ends(x: n=>m=>Float, w: m=>Float) -> Float:
    y = [exp(x[i, j] * w[j]) for i, j]
    z = [y[i, j] * y[i, wrap(j + 1)] + w[j] for i, j]
    sum(min(z[i, j] for j) * max(z[i, j] for j) for i) + max(z[i, j] for i, j)

def labels(x: t=>n=>Float, a: n=>n=>Float, key: t=>n) -> Float:
    h = scan(lambda h, r: softmax([sum(a[i, j] * h[j] for j) + r[i] for i]), [0.1 for i in n], x)
    sum(log(h[k, key[k]]) for k) + sum(max(h[k, i] for i) * min(h[k, i] for i) for k)

def softmax(v: n=>Float) -> n=>Float:
    e = [exp(u - max(v)) for u in v]
    e / sum(e)

def pairs(x: t=>n=>Float, key: t=>n) -> Float:
    (h, s) = loop h = [0.1 for i in n], s = 0.0 for k in t:
        g = [tanh(h[i] + x[k, i]) for i]
        (g, s + min(g[i] * g[j] + g[key[k]] for i, j) + max(g[i] - g[j] for i, j))
    s

def spread(x: t=>n=>Float, key: t=>n, other: t=>n) -> Float:
    (h, s) = loop h = [0.1 for i in n], s = 0.0 for k in t:
        g = [tanh(h[i] + x[k, i]) for i]
        ([g[key[k]] * x[k, i] for i], s + g[other[k]] ** 2)
    s
""")


@pytest.mark.parametrize("n", [1, 3, 12])
@pytest.mark.parametrize("name", ["ends", "labels", "pairs", "spread"])
def test_what_goes_to_few_elements_is_as_forwards(name: str, n: int) -> None:
    key, other = (np.random.default_rng(k).integers(0, n, 7) for k in (n, n + 1))
    args = {
        "ends": (x(5, n), x(n)), "labels": (x(7, n), x(n, n), key), "pairs": (x(7, n), key),
        "spread": (x(7, n), key, other),
    }[name]  # fmt: skip
    _, along = nap.jvp(FEW[name], "x")(*args, way := x(*args[0].shape)[::-1].copy())
    np.testing.assert_allclose(np.sum(nap.grad(FEW[name], "x")(*args) * way), along, rtol=1e-9)


def test_two_of_many_are_no_table() -> None:
    """Of all pairs that have a least and a greatest in each row, only that row is kept."""
    f = nap.compile("""
def f(x: n=>Float, w: n=>Float) -> Float:
    d = [(x[i] - x[j]) ** 2 * w[j] for i, j]
    sum(min(d[i, j] for j) * max(d[i, j] for j) for i)
""").f
    text = nap.grad(f, wrt=("x", "w")).show("loops")
    assert re.search(r"allocate \w+: f64\[n\]", text)
    assert not re.search(r"allocate \w+: f64\[n, n\]", text), text
