"""What a gradient costs: at most five times the operations of its function, construct by construct,
however large the input. Operations are counted by the interpreter of loops, on all passes' result:
no one-hot vector, no table of zeros for each reader, no copy of a table for each round."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import naperian as nap
from naperian import pipeline
from naperian.loops.count import Cost, count
from naperian.loops.syntax import Allocate
from naperian.loops.walk import statements
from naperian.names import Var
from naperian.passes.algebra.prune import prune
from naperian.signed import at
from naperian.sizes import Size, size, substitute

pytestmark = pytest.mark.usefixtures("keeping")

LIMIT = 5.0
GROWTH = 1.5  # of small inputs a part is constant; n² operations for n would give FACTOR
SMALL, FACTOR = 6, 4


def x(*shape: int) -> np.ndarray:
    """Numbers around 1 that are all different."""
    return 0.6 + np.random.default_rng(len(shape)).permutation(np.prod(shape)).reshape(shape) / 99.0


def keys(n: int, m: int) -> np.ndarray:
    return np.random.default_rng(n).integers(0, m, n)


# name: the program, whose `f` is differentiated with respect to its floats, and its arguments
PROGRAMS = {
    "map": ("def f(x: n=>Float) -> Float = sum(exp(sin(v) * v) for v in x)", lambda n: [x(n)]),
    "sum": ("def f(x: n=>Float) -> Float = sum(x) ** 2", lambda n: [x(n)]),
    "product": ("def f(x: n=>Float) -> Float = prod(sin(v) for v in x)", lambda n: [x(n)]),
    "maximum": ("def f(x: n=>Float) -> Float = max(sin(v) for v in x)", lambda n: [x(n)]),
    "maxima of rows": ("def f(x: n=>m=>Float) -> Float = sum(max(x))", lambda n: [x(n, 40)]),
    "maxima of columns": (
        "def f(x: n=>m=>Float) -> Float = sum(max(x[i, j] for i) for j)",
        lambda n: [x(20 * n, 5)],
    ),
    "rows": (
        "def f(x: n=>m=>Float) -> Float = sum(max(row) * exp(sum(row)) for row in x)",
        lambda n: [x(n, 5)],
    ),
    "sums so far": (
        "def f(x: n=>Float) -> Float = sum(y ** 2 for y in scan((+), 0.0, x))",
        lambda n: [x(n)],
    ),
    "products so far": (
        "def f(x: n=>Float) -> Float = sum(y ** 2 for y in scan((*), 1.0, x))",
        lambda n: [x(n)],
    ),
    "histogram": (
        """
def f(x: n=>Float, k: n=>Fin(8)) -> Float = sum(v ** 2 for v in count(x, k))

def count(x: n=>Float, k: n=>Fin(8)) -> Fin(8)=>Float:
    with accum() as h:
        for i: h[k[i]] += x[i] ** 2
""",
        lambda n: [x(n), keys(n, 8)],
    ),
    "largest by key": (
        """
def f(x: n=>Float, k: n=>Fin(8)) -> Float = sum(v ** 2 for v in count(x, k))

def count(x: n=>Float, k: n=>Fin(8)) -> Fin(8)=>Float:
    with accum(max) as h:
        for i: h[k[i]] += x[i] ** 2
""",
        lambda n: [x(n), keys(n, 8)],
    ),
    "product by key": (
        """
def f(x: n=>Float, k: n=>Fin(8)) -> Float = sum(v ** 2 for v in count(x, k))

def count(x: n=>Float, k: n=>Fin(8)) -> Fin(8)=>Float:
    with accum((*)) as h:
        for i: h[k[i]] += x[i]
""",
        lambda n: [x(n), keys(n, 8)],
    ),
    "gather": (
        "def f(x: m=>Float, k: n=>m) -> Float = sum(x[i] ** 2 for i in k)",
        lambda n: [x(n), keys(n, n)],
    ),
    "constant indices": (
        "def f(x: Fin(n + 4)=>Float) -> Float = "
        "x[0] * x[1] * exp(x[2]) + x[3] * x[0] * x[2] + sum(x) * x[1]",
        lambda n: [x(n)],
    ),
    "slices": (
        "def f(x: Fin(n + 3)=>Float) -> Float = dot(x[1..], x[..n + 2]) + sum(x[2..])",
        lambda n: [x(n)],
    ),
    "stencil": (
        """
def f(x: n=>m=>Float, k: Int) -> Float = sum(sum(steps(x, k)))

def steps(u: n=>m=>Float, k: Int) -> n=>m=>Float:
    loop v = u for t in Fin(k):
        for i, j:
            across = v[clamp(i - 1, n), j] + v[clamp(i + 1, n), j] + v[i, clamp(j + 1, m)]
            0.2 * across + 0.1 * v[i, j] ** 2
""",
        lambda n: [x(n, n), 3],
    ),
    "recurrence": (
        """
def f(a: n=>Float, b: n=>Float) -> Float:
    loop h = 1.0 for t in n:
        sin(a[t] * h) + b[t]
""",
        lambda n: [x(n), x(n)],
    ),
    "constants in a loop": (
        """
def f(a: Fin(n + 3)=>Float, b: Fin(n + 3)=>Float) -> Float:
    loop h = 1.0 for t in Fin(n + 3):
        sin(a[t] * h) * b[0] + b[1] * h + b[2]
""",
        lambda n: [x(n), x(n)],
    ),
    "the element before": (
        """
def f(a: Fin(n)=>Float) -> Float:
    loop h = 1.0 for t in 1..n:
        sin(a[t] * h) * a[t - 1]
""",
        lambda n: [x(n)],
    ),
    "assignment": (
        """
def f(x: Fin(n)=>Float) -> Float = sum(changed(x))

def changed(x: Fin(n)=>Float) -> Fin(n)=>Float:
    with state(x) as s:
        for i in 1..n: s[i] := s[i - 1] * x[i]
""",
        lambda n: [x(n)],
    ),
    "assignment by key": (
        """
def f(x: Fin(n)=>Float, k: Fin(n)=>Fin(n)) -> Float = sum(changed(x, k))

def changed(x: Fin(n)=>Float, k: Fin(n)=>Fin(n)) -> Fin(n)=>Float:
    with state(x) as s:
        for i: s[k[i]] := s[k[i]] * x[i] + s[i]
""",
        lambda n: [x(n), keys(n, n)],
    ),
    "an element put in its place": (
        """
def f(c: n=>Float, d: n=>Float) -> Float = sum(v ** 2 for v in solved(c, d))

def solved(c: n=>Float, d: n=>Float) -> n=>Float:
    loop z = zeros(n) for i in reverse(n):
        [d[i] - c[i] * z[wrap(i + 1)] if k == i else z[k] for k]
""",
        lambda n: [x(n), x(n)],
    ),
    "a row put in its place": (
        """
def f(x: n=>Fin(20)=>Float, k: n=>n) -> Float = 
    sum(sum(v ** 2 for v in row) for row in changed(x, k))

def changed(x: n=>Fin(20)=>Float, k: n=>n) -> n=>Fin(20)=>Float:
    loop s = x for t in n:
        [[sin(v) for v in s[t]] if i == k[t] else s[i] for i]
""",
        lambda n: [x(n, 20), keys(n, n)],
    ),
    "a row of any length assigned": (
        """
def f(x: n=>m=>Float, k: n=>n) -> Float =
    sum(sum(v ** 2 for v in row) for row in changed(x, k))

def changed(x: n=>m=>Float, k: n=>n) -> n=>m=>Float:
    with state(x) as s:
        for t in n: s[k[t]] := [sin(v) for v in s[t]]
""",
        lambda n: [x(n, 20), keys(n, n)],
    ),
    "a row added to": (
        """
def f(x: n=>m=>Float, k: n=>n) -> Float =
    sum(sum(v ** 2 for v in row) for row in changed(x, k))

def changed(x: n=>m=>Float, k: n=>n) -> n=>m=>Float:
    with state(x) as s:
        for t in n: s[k[t]] += [0.1 * sin(v) for v in s[t]]
""",
        lambda n: [x(n, 20), keys(n, n)],
    ),
    "a table that reads another as it is changed": (
        """
def f(x: n=>Float, k: n=>n) -> Float:
    (c, d) = loop c = x, d = x for t in n:
        ([sin(c[t]) if i == t else c[i] for i], [cos(d[t] + c[k[t]]) if i == t else d[i] for i])
    sum(v ** 2 for v in c) + sum(v ** 2 for v in d)
""",
        lambda n: [x(n), keys(n, n)],
    ),
    "two tables that read each other": (
        """
def f(x: n=>Float, k: n=>n) -> Float:
    (c, d) = loop c = x, d = x for t in n:
        ([sin(d[t]) + c[k[t]] if i == k[t] else c[i] for i],
         [cos(c[t]) * d[k[t]] if i == t else d[i] for i])
    sum(v ** 2 for v in c) + sum(v ** 2 for v in d)
""",
        lambda n: [x(n), keys(n, n)],
    ),
    "two tables while there is more": (
        """
def f(x: n=>Float, k: n=>n) -> Float:
    (c, d, _) = loop c = x, d = x, r = 0 while r < n:
        t = clamp(r, n)
        ([sin(d[t]) + c[k[t]] if i == k[t] else c[i] for i],
         [cos(c[t]) * d[k[t]] if i == t else d[i] for i], r + 1)
    sum(v ** 2 for v in c) + sum(v ** 2 for v in d)
""",
        lambda n: [x(n), keys(n, n)],
    ),
    "elements that change their places": (
        """
def f(x: Fin(n)=>Float, a: m=>Fin(n), b: m=>Fin(n)) -> Float = sum(v ** 2 for v in changed(x, a, b))

def changed(x: Fin(n)=>Float, a: m=>Fin(n), b: m=>Fin(n)) -> Fin(n)=>Float:
    loop s = x for t in m:
        [sin(s[b[t]]) if k == a[t] else s[a[t]] * s[k] if k == b[t] else s[k] for k]
""",
        lambda n: [x(n), keys(n, n), keys(n + 1, n)[:n]],
    ),
    "two assignments": (
        """
def f(x: Fin(n)=>Float, k: Fin(n)=>Fin(n)) -> Float = sum(changed(x, k))

def changed(x: Fin(n)=>Float, k: Fin(n)=>Fin(n)) -> Fin(n)=>Float:
    with state(x) as s:
        for i in 1..n:
            old = s[i]
            s[i] := sin(s[k[i]])
            s[k[i]] := old * x[i]
""",
        lambda n: [x(n), keys(n, n)],
    ),
    "assignment under a condition": (
        """
def f(x: Fin(n)=>Float) -> Float = sum(changed(x))

def changed(x: Fin(n)=>Float) -> Fin(n)=>Float:
    with state(x) as s:
        for i in 1..n:
            if x[i] > 1.0: s[i] := s[i - 1] * x[i]
""",
        lambda n: [x(n)],
    ),
    "accumulation in a loop": (
        """
def f(x: Fin(n)=>Float, k: Fin(n)=>Fin(n)) -> Float = sum(changed(x, k))

def changed(x: Fin(n)=>Float, k: Fin(n)=>Fin(n)) -> Fin(n)=>Float:
    with state(x) as s:
        for i: s[k[i]] += sin(s[i]) * x[i]
""",
        lambda n: [x(n), keys(n, n)],
    ),
    "assignment in nested loops": (
        """
def f(x: Fin(n)=>Float) -> Float = sum(changed(x))

def changed(x: Fin(n)=>Float) -> Fin(n)=>Float:
    with state(x) as s:
        for i in 1..n:
            for j in 1..n:
                s[j] := s[j - 1] * x[i] + sin(s[j])
""",
        lambda n: [x(n)],
    ),
    "Cholesky": (
        """
def f(a: Fin(n)=>Fin(n)=>Float) -> Float = sum(sum(sin(v) for v in row) for row in cholesky(a))

def cholesky(a: Fin(n)=>Fin(n)=>Float) -> Fin(n)=>Fin(n)=>Float:
    with state([[0.0 for j in Fin(n)] for i in Fin(n)]) as l:
        for i in Fin(n):
            for j in ..=i:
                s = a[i, j] - sum(l[i, k] * l[j, k] for k in ..j)
                l[i, j] := sqrt(s) if i == j else s / l[j, j]
""",
        lambda n: [x(n, n) @ x(n, n).T + n * np.eye(n)],
    ),
    "Cholesky to the right": (
        """
def f(a: Fin(n)=>Fin(n)=>Float) -> Float = sum(log(right(a)[i, i]) for i)

def right(a: Fin(n)=>Fin(n)=>Float) -> Fin(n)=>Fin(n)=>Float:
    with state(a) as l:
        for k in Fin(n):
            l[k, k] := sqrt(l[k, k])
            for i in k + 1..n: l[i, k] /= l[k, k]
            for i in k + 1..n:
                for j in k + 1..n: l[i, j] -= l[i, k] * l[j, k]
""",
        lambda n: [x(n, n) @ x(n, n).T + n * np.eye(n)],
    ),
    "Cholesky to the right, below the diagonal": (
        """
def f(a: Fin(n)=>Fin(n)=>Float) -> Float = sum(log(right(a)[i, i]) for i)

def right(a: Fin(n)=>Fin(n)=>Float) -> Fin(n)=>Fin(n)=>Float:
    with state(a) as l:
        for k in Fin(n):
            l[k, k] := sqrt(l[k, k])
            for i in k + 1..n: l[i, k] /= l[k, k]
            for j in k + 1..n:
                for i in j..n: l[i, j] -= l[i, k] * l[j, k]
""",
        lambda n: [x(n, n) @ x(n, n).T + n * np.eye(n)],
    ),
    "Cholesky in a comprehension": (
        """
import linalg
def f(a: Fin(n)=>Fin(n)=>Float) -> Float = sum(linalg.cholesky(a)[i, j] ** 2 for i, j)
""",
        lambda n: [x(n, n) @ x(n, n).T + n * np.eye(n)],
    ),
    "equations by Cholesky": (
        """
import linalg
def f(a: Fin(n)=>Fin(n)=>Float, b: Fin(n)=>Float) -> Float:
    l = linalg.cholesky(a)
    dot(b, linalg.solve_cholesky(l, b)) + sum(log(l[i, i]) for i)
""",
        lambda n: [x(n, n) @ x(n, n).T + n * np.eye(n), x(n)],
    ),
    "Cholesky of a triangle": (
        """
def f(a: Fin(n)=>Fin(n)=>Float) -> Float = sum(sum(row) for row in factor(a))

def factor(a: Fin(n)=>Fin(n)=>Float) -> (i: Fin(n))=>(..=i)=>Float:
    with state([[a[i, j] for j in ..=i] for i]) as l:
        for i in Fin(n):
            for j in ..=i:
                s = l[i, j] - sum(l[i, k] * l[j, k] for k in ..j)
                l[i, j] := sqrt(s) if i == j else s / l[j, j]
""",
        lambda n: [x(n, n) + n * np.eye(n)],
    ),
    "a few elements of a table in place": (
        """
def f(x: Fin(n)=>Float, t: Fin(3)=>Fin(3)=>Float) -> Float:
    loop f = [[1.0 for s in Fin(3)] for j in Fin(n + 1)] for i in Fin(n):
        with state([[0.0 for s in Fin(3)] for j in Fin(n + 1)]) as g:
            for j in Fin(n + 1):
                g[j, 1] := x[i] + f[j, 1] * x[0]
                if j > 0: g[j, 2] := sum(g[j - 1, s] * t[s, 2] for s)
    sum(sum(f))
""",
        lambda n: [x(n), x(3, 3) / 9.0],
    ),
    "the best of what a row in place has so far": (
        """
def f(x: Fin(n)=>Fin(n)=>Float) -> Float = sum(sum(row) for row in best(x))

def best(x: Fin(n)=>Fin(n)=>Float) -> Fin(n)=>Fin(n)=>Float:
    with state(x) as s:
        for i in Fin(n), j in 1..n: s[i, j] := x[i, j] + max(s[i, k] for k in 0..j)
""",
        lambda n: [x(n, n)],
    ),
    "the best split of a table in place": (
        """
def f(x: Fin(n)=>Fin(n)=>Float) -> Float = sum(sum(row) for row in best(x))

def best(x: Fin(n)=>Fin(n)=>Float) -> Fin(n)=>Fin(n)=>Float:
    with state(x) as s:
        for i in reverse(Fin(n)), j in i + 1..n:
            s[i, j] := x[i, j] + min(s[i, k] + s[k + 1, j] for k in i..j)
""",
        lambda n: [x(n, n)],
    ),
    "triangular solve": (
        """
def f(l: Fin(n)=>Fin(n)=>Float, b: Fin(n)=>Float) -> Float = sum(v ** 2 for v in solved(l, b))

def solved(l: Fin(n)=>Fin(n)=>Float, b: Fin(n)=>Float) -> Fin(n)=>Float:
    with state(b) as y:
        for i in Fin(n):
            y[i] := (y[i] - sum(l[i, k] * y[k] for k in ..i)) / l[i, i]
""",
        lambda n: [x(n, n) + n * np.eye(n), x(n)],
    ),
    "LU": (
        """
def f(a: Fin(n)=>Fin(n)=>Float) -> Float = sum(sum(v ** 2 for v in row) for row in factored(a))

def factored(a: Fin(n)=>Fin(n)=>Float) -> Fin(n)=>Fin(n)=>Float:
    with state(a) as u:
        for k in Fin(n):
            for i in Fin(n):
                if i > k:
                    u[i, k] := u[i, k] / u[k, k]
                    for j in Fin(n):
                        if j > k: u[i, j] := u[i, j] - u[i, k] * u[k, j]
""",
        lambda n: [x(n, n) + n * np.eye(n)],
    ),
    "LU by what is added": (
        """
def f(a: Fin(n)=>Fin(n)=>Float) -> Float = sum(log(abs(factored(a)[i, i])) for i)

def factored(a: Fin(n)=>Fin(n)=>Float) -> Fin(n)=>Fin(n)=>Float:
    with state(a) as u:
        for k in Fin(n):
            for i in k + 1..n:
                u[i, k] := u[i, k] / u[k, k]
                for j in k + 1..n: u[i, j] += -u[i, k] * u[k, j]
""",
        lambda n: [x(n, n) + n * np.eye(n)],
    ),
    "reflections in place": (
        """
def f(a: Fin(n)=>Fin(n)=>Float) -> Float = sum(log(abs(reduced(a)[i, i])) for i)

def reduced(a: Fin(n)=>Fin(n)=>Float) -> Fin(n)=>Fin(n)=>Float:
    with state(a) as r:
        for k in Fin(n):
            s = sqrt(sum(r[i, k] ** 2 for i in k..n))
            alpha = -s if r[k, k] > 0.0 else s
            v = [r[i, k] - (alpha if i == k else 0.0) for i in k..n]
            vv = sum(v[i] ** 2 for i)
            for j in k..n:
                w = 2.0 * sum(v[i] * r[i, j] for i in k..n) / vv
                for i in k..n:
                    r[i, j] := r[i, j] - v[i] * w
""",
        lambda n: [x(n, n) + n * np.eye(n)],
    ),
    "reflections of whole matrices": (
        """
def f(a: Fin(n)=>Fin(n)=>Float) -> Float = sum(log(abs(reduced(a)[i, i])) for i)

def reduced(a: Fin(n)=>Fin(n)=>Float) -> Fin(n)=>Fin(n)=>Float:
    with state(a) as r:
        for k in Fin(n):
            s = sqrt(sum(r[i, k] ** 2 for i in k..n))
            alpha = -s if r[k, k] > 0.0 else s
            v = [r[i, k] - (alpha if i == k else 0.0) if i >= k else 0.0 for i in Fin(n)]
            vv = sum(v[i] ** 2 for i)
            w = [2.0 * sum(v[i] * r[i, j] for i) / vv for j in Fin(n)]
            for i in Fin(n):
                for j in Fin(n):
                    r[i, j] := r[i, j] - v[i] * w[j]
""",
        lambda n: [x(n, n) + n * np.eye(n)],
    ),
    "orthogonal columns in place": (
        """
def f(a: Fin(n)=>Fin(n)=>Float) -> Float = sum(sum(v ** 3 for v in row) for row in columns(a))

def columns(a: Fin(n)=>Fin(n)=>Float) -> Fin(n)=>Fin(n)=>Float:
    with state(a) as q:
        for k in Fin(n):
            s = sqrt(sum(q[i, k] ** 2 for i))
            for i: q[i, k] := q[i, k] / s
            for j in k + 1..n:
                c = sum(q[i, k] * q[i, j] for i)
                for i: q[i, j] := q[i, j] - c * q[i, k]
""",
        lambda n: [x(n, n) + n * np.eye(n)],
    ),
    "triangle and diagonal": (
        """
def f(a: Fin(n)=>Fin(n)=>Float) -> Float:
    (l, d) = factored(a)
    sum(log(abs(v)) for v in d) + sum(l[i, j] ** 2 for i, j)

def factored(a: Fin(n)=>Fin(n)=>Float) -> (Fin(n)=>Fin(n)=>Float, Fin(n)=>Float):
    one = [[1.0 if i == j else 0.0 for j in Fin(n)] for i in Fin(n)]
    (l, d) = with state(one) as l, state(zeros(n)) as d:
        for j in Fin(n):
            d[j] := a[j, j] - sum(l[j, k] ** 2 * d[k] for k in ..j)
            for i in j + 1..n:
                l[i, j] := (a[i, j] - sum(l[i, k] * l[j, k] * d[k] for k in ..j)) / d[j]
    (l, d)
""",
        lambda n: [x(n, n) + n * np.eye(n)],
    ),
    "two triangles": (
        """
def f(a: Fin(n)=>Fin(n)=>Float) -> Float:
    (l, u) = factored(a)
    sum(log(abs(l[i, i])) for i) + sum(u[i, j] ** 2 for i, j)

def factored(a: Fin(n)=>Fin(n)=>Float) -> (Fin(n)=>Fin(n)=>Float, Fin(n)=>Fin(n)=>Float):
    none = [[0.0 for _ in Fin(n)] for _ in Fin(n)]
    one = [[1.0 if i == j else 0.0 for j in Fin(n)] for i in Fin(n)]
    (l, u) = with state(none) as l, state(one) as u:
        for j in Fin(n):
            for i in j..n:
                l[i, j] := a[i, j] - sum(l[i, k] * u[k, j] for k in ..j)
            for i in j + 1..n:
                u[j, i] := (a[j, i] - sum(l[j, k] * u[k, i] for k in ..j)) / l[j, j]
    (l, u)
""",
        lambda n: [x(n, n) + n * np.eye(n)],
    ),
    "an inverse triangle": (
        """
def f(a: Fin(n)=>Fin(n)=>Float) -> Float = sum(sum(sin(v) for v in row) for row in inverse(a))

def inverse(l: Fin(n)=>Fin(n)=>Float) -> Fin(n)=>Fin(n)=>Float:
    with state([[0.0 for _ in Fin(n)] for _ in Fin(n)]) as x:
        for j in Fin(n):
            x[j, j] := 1.0 / l[j, j]
            for i in j + 1..n:
                x[i, j] := -sum(l[i, k] * x[k, j] for k in j..i) / l[i, i]
""",
        lambda n: [x(n, n) + n * np.eye(n)],
    ),
    "orthogonal rows in place": (
        """
def f(a: Fin(n)=>Fin(n)=>Float) -> Float = sum(sum(v ** 3 for v in row) for row in rows(a))

def rows(a: Fin(n)=>Fin(n)=>Float) -> Fin(n)=>Fin(n)=>Float:
    with state(a) as q:
        for k in Fin(n):
            for j in ..k:
                c = sum(q[j, i] * q[k, i] for i)
                for i: q[k, i] := q[k, i] - c * q[j, i]
            s = sqrt(sum(q[k, i] ** 2 for i))
            for i: q[k, i] := q[k, i] / s
""",
        lambda n: [x(n, n) + n * np.eye(n)],
    ),
    "elimination above and below": (
        """
def f(a: Fin(n)=>Fin(n)=>Float, y: Fin(n)=>Float) -> Float = sum(v ** 2 for v in solved(a, y))

def solved(a: Fin(n)=>Fin(n)=>Float, y: Fin(n)=>Float) -> Fin(n)=>Float:
    (_, r) = with state(a) as m, state(y) as b:
        for k in Fin(n):
            p = m[k, k]
            for j in Fin(n): m[k, j] := m[k, j] / p
            b[k] := b[k] / p
            for i in Fin(n):
                if i != k:
                    c = m[i, k]
                    for j in Fin(n): m[i, j] := m[i, j] - c * m[k, j]
                    b[i] := b[i] - c * b[k]
    r
""",
        lambda n: [x(n, n) + n * np.eye(n), x(n)],
    ),
    "shortest ways": (
        """
def f(a: Fin(n)=>Fin(n)=>Float) -> Float = sum(sum(v ** 2 for v in row) for row in shortest(a))

def shortest(a: Fin(n)=>Fin(n)=>Float) -> Fin(n)=>Fin(n)=>Float:
    with state(a) as d:
        for k in Fin(n):
            for i in Fin(n):
                for j in Fin(n):
                    d[i, j] := min(d[i, j], d[i, k] + d[k, j])
""",
        lambda n: [x(n, n)],
    ),
    "sorting by swaps": (
        """
def f(x: Fin(n)=>Float, w: Fin(n)=>Float) -> Float = dot(in_order(x), w)

def in_order(x: Fin(n)=>Float) -> Fin(n)=>Float:
    with state(x) as s:
        for i in 1..n:
            for j in 1..n:
                one = s[j - 1]
                two = s[j]
                if one > two:
                    s[j - 1] := two
                    s[j] := one
""",
        lambda n: [x(n), x(n)],
    ),
    "neighbours of what was assigned": (
        """
def f(x: Fin(n)=>Float, k: Fin(n)=>Fin(n)) -> Float = sum(changed(x, k))

def changed(x: Fin(n)=>Float, k: Fin(n)=>Fin(n)) -> Fin(n)=>Float:
    with state(x) as s:
        for t in Fin(n):
            s[k[t]] := sum(sin(s[clamp(k[t] + i)] * x[t]) for i in Fin(3))
""",
        lambda n: [x(n), keys(n, n)],
    ),
    "while": (
        """
def f(x: Float, limit: Float) -> Float:
    loop y = 1.0 while y < limit:
        y + 0.5 + 0.1 * sin(y) * x
""",
        lambda n: [1.0, float(n)],
    ),
    "nested loops": (
        """
def f(a: n=>m=>Float) -> Float:
    loop h = 1.0 for t in n:
        loop g = h for s in m:
            sin(a[t, s] * g)
""",
        lambda n: [x(n, n)],
    ),
    "while in a loop": (
        """
def f(a: n=>Float) -> Float:
    loop h = 1.0 for t in n:
        0.1 * grown(h, a[t])

def grown(h: Float, a: Float) -> Float:
    loop g = h while g < 10.0:
        1.3 * g + a
""",
        lambda n: [x(n)],
    ),
    "a loop that is given up": (
        """
def f(x: n=>Float) -> Float:
    (_, (s, t)) = with except, state(1.0) as s, accum() as t:
        for i:
            s := s * 1.1 + x[i]
            t += s ** 2
            if s > 9.0: throw()
    s * t
""",
        lambda n: [x(n)],
    ),
    "match": (
        """
enum Shape = Circle(r: Float) | Rect(w: Float, h: Float)

def f(x: n=>Float) -> Float =
    sum(area(Circle(v) if v > 1.0 else Rect(v, 2.0)) for v in x)

def area(s: Shape) -> Float:
    match s:
        case Circle(r): r * r * sin(r)
        case Rect(w, h): w * h
""",
        lambda n: [x(n)],
    ),
    "triangle": (
        "def f(x: n=>n=>Float) -> Float = sum(sum(sin(x[i, j] * x[j, i]) for j in ..=i) for i)",
        lambda n: [x(n, n)],
    ),
    "product of matrices": (
        "def f(a: n=>m=>Float, b: m=>p=>Float) -> Float = sum((a @ b)[i, k] ** 2 for i, k)",
        lambda n: [x(n, n), x(n, n)],
    ),
    "a system": (
        """
import linalg
def f(a: Fin(n)=>Fin(n)=>Float, x: Fin(n)=>Float) -> Float = sum(v ** 2 for v in linalg.solve(a, x))
""",
        lambda n: [x(n, n) + n * np.eye(n), x(n)],
    ),
    "a system in a comprehension": (
        """
import linalg
def f(a: Fin(n)=>Fin(n)=>Float, x: Fin(n)=>Float) -> Float = sum(linalg.solve(a, x)[i] ** 2 for i)
""",
        lambda n: [x(n, n) + n * np.eye(n), x(n)],
    ),
    "systems in a loop, in a comprehension": (
        """
import linalg
def f(a: Fin(n)=>Fin(n)=>Float, x: Fin(n)=>Float) -> Float = sum(solved(a, x)[i] ** 2 for i)

def solved(a: Fin(n)=>Fin(n)=>Float, x: Fin(n)=>Float) -> Fin(n)=>Float:
    loop y = x for _ in Fin(3):
        w = 1.0 / (1.0 + y ** 2)
        linalg.solve([[a[i, j] + (w[i] if i == j else 0.0) for j] for i], x)
""",
        lambda n: [x(n, n) + n * np.eye(n), x(n)],
    ),
    "checked indices in a comprehension": (
        """
def f(y: Fin(n)=>Float, ix: m=>Int) -> Float = sum((smoothed(y, ix) - y[i]) ** 2 for i)

def smoothed(y: Fin(n)=>Float, ix: m=>Int) -> Float:
    loop s = 0.0 for k in m:
        0.5 * s + y[ix[k]?]
""",
        lambda n: [x(n), keys(n, n)],
    ),
    "least squares": (
        """
import linalg
def f(a: Fin(n)=>Fin(n)=>Float, x: Fin(n)=>Float) -> Float = sum(v ** 2 for v in linalg.lstsq(a, x))
""",
        lambda n: [x(n, n) + n * np.eye(n), x(n)],
    ),
    "orthogonal columns": (
        """
import linalg
def f(a: Fin(n)=>Fin(n)=>Float) -> Float:
    (q, r) = linalg.qr(a)
    sum(q[i, j] ** 3 for i, j) + sum(r[i, j] ** 2 for i, j)
""",
        lambda n: [x(n, n) + n * np.eye(n)],
    ),
    "inverse": (
        """
import linalg
def f(a: Fin(n)=>Fin(n)=>Float) -> Float = sum(sum(sin(v) for v in row) for row in linalg.inv(a))
""",
        lambda n: [x(n, n) + n * np.eye(n)],
    ),
    "determinant": (
        "import linalg\ndef f(a: Fin(n)=>Fin(n)=>Float) -> Float = sin(linalg.det(a))",
        lambda n: [x(n, n) + n * np.eye(n)],
    ),
    "sorting": (
        "def f(x: n=>Float, w: n=>Float) -> Float = dot(sort(x), w)",
        lambda n: [x(n), x(n)],
    ),
    "equation of motion": (
        """
import numeric
def f(w: n=>Float) -> Float =
    sum(v ** 2 for v in numeric.rk4(lambda t, y: sin(w * y), w, 0.0, 1.0, 5))
""",
        lambda n: [x(n)],
    ),
    "convolution": (
        """
def f(k: Fin(m)=>Float, x: Fin(n + m - 1)=>Float) -> Float =
    sum(sum(x[i + j] * k[j] for j) ** 2 for i in Fin(n))
""",
        lambda n: [x(5), x(n + 4)],
    ),
    "largest of windows": (
        """
def f(y: Fin(n)=>Float, x: Fin(n + 2)=>Fin(m + 2)=>Float) -> Float =
    sum(y[i] * max(x[i + r, j + s] for r in Fin(3), s in Fin(3)) for i, j in Fin(m))
""",
        lambda n: [x(n), x(n + 2, 12)],
    ),
    "largest of blocks": (
        """
def f(y: Fin(n)=>Float, x: Fin(2 * n)=>Fin(m + 1)=>Float) -> Float =
    sum(y[i] * max(x[2 * i + r, j + s] for r in Fin(2), s in Fin(2)) for i, j in Fin(m))
""",
        lambda n: [x(n), x(2 * n, 12)],
    ),
    "largest so far of ten": (
        """
def f(y: Fin(n)=>Float, x: Fin(n + 9)=>Float) -> Float =
    sum(y[i] * max(x[i + r] for r in Fin(10)) for i)
""",
        lambda n: [x(n), x(n + 9)],
    ),
    "windows by steps": (
        """
def f(y: Fin(n)=>Float, k: o=>c=>Fin(3)=>Float, x: c=>Fin(2 * n + 1)=>Float) -> Float =
    sum(y[i] * sum(x[b, 2 * i + r] * k[a, b, r] for b, r) for a in o, i)
""",
        lambda n: [x(n), x(5, 4, 3), x(4, 2 * n + 1)],
    ),
    "windows of any width by steps": (
        """
def f(y: Fin(n)=>Float, k: Fin(m)=>Float, x: Fin(2 * n + m)=>Float) -> Float =
    sum(y[i] * sum(x[2 * i + r] * k[r] for r) for i)
""",
        lambda n: [x(n), x(5), x(2 * n + 5)],
    ),
    "a finer grid": (
        """
def finer(x: Fin(n + 1)=>Fin(n + 1)=>Float) -> Fin(2 * n + 1)=>Fin(2 * n + 1)=>Float:
    for i, j:
        rows = x[i // 2, j // 2] + x[(i + 1) // 2, j // 2]
        0.25 * (rows + x[i // 2, (j + 1) // 2] + x[(i + 1) // 2, (j + 1) // 2])
def f(x: Fin(n + 1)=>Fin(n + 1)=>Float) -> Float = sum(sum(finer(x) ** 2))
""",
        lambda n: [x(n + 1, n + 1)],
    ),
    "a mixture by triangles": (
        """
import linalg
def f(l: k=>Fin(d)=>Fin(d)=>Float, mu: k=>Fin(d)=>Float, x: n=>Fin(d)=>Float) -> Float =
    sum(logsumexp([near(l[c], [x[i, j] - mu[c, j] for j]) for c]) for i)

def near(l: Fin(d)=>Fin(d)=>Float, x: Fin(d)=>Float) -> Float =
    -0.5 * sum(v ** 2 for v in linalg.solve_lower(l, x)) - sum(log(l[j, j]) for j)

def logsumexp(v: k=>Float) -> Float:
    m = max(v)
    m + log(sum(exp(e - m) for e in v))
""",
        lambda n: [x(2, n, n) + 3 * n * np.eye(n), x(2, n), x(64, n)],
    ),
    "pairs of points": (
        """
def f(x: n=>d=>Float) -> Float =
    sum(1.0 / sqrt(sum((x[i, k] - x[j, k]) ** 2 for k) + 0.01) for i, j)
""",
        lambda n: [x(4 * n, 3)],
    ),
    "bodies in steps": (
        """
def pulled(x: n=>Fin(3)=>Float, m: n=>Float) -> n=>Fin(3)=>Float =
    [[sum(m[j] * (x[j, k] - x[i, k]) / (sum((x[j, c] - x[i, c]) ** 2 for c) + 0.1) ** 1.5 for j)
      for k] for i]

def f(x: n=>Fin(3)=>Float, v: n=>Fin(3)=>Float, m: n=>Float, steps: Int) -> Float:
    (x, v) = loop x = x, v = v for _ in Fin(steps):
        now = pulled(x, m)
        half = [[v[i, k] + 0.005 * now[i, k] for k] for i]
        there = [[x[i, k] + 0.01 * half[i, k] for k] for i]
        then = pulled(there, m)
        (there, [[half[i, k] + 0.005 * then[i, k] for k] for i])
    sum(sum(x ** 2)) + sum(sum(v ** 2))
""",
        lambda n: [x(2 * n, 3), x(2 * n, 3), x(2 * n), 3],
    ),
    "the closest pair": (
        """
def f(x: n=>Float, y: n=>Float) -> Float =
    sqrt(min((x[i] - x[j]) ** 2 + (y[i] - y[j]) ** 2 for i in n, j in i<..))
""",
        lambda n: [x(4 * n), x(4 * n) ** 2],
    ),
    "a chain of matrices": (
        """
def f(d: Fin(n + 1)=>Float) -> Float where n >= 1:
    c = with state([0.0 for _ in Fin(n), _ in Fin(n)]) as c:
        for len in 1..n:
            for i in Fin(n - len):
                j = i + len
                c[i, j] := min(c[i, k] + c[k + 1, j] + d[i] * d[k + 1] * d[j + 1] for k in i..j)
    c[0, n - 1]
""",
        lambda n: [x(n + 1)],
    ),
    "logarithm of a determinant": (
        """
import linalg
def f(a: Fin(n)=>Fin(n)=>Float) -> Float:
    (m, _, _) = linalg.lu(a)
    sum(log(abs(m[i, i])) for i)
""",
        lambda n: [x(n, n) + n * np.eye(n)],
    ),
    "small matrices taken apart": (
        """
def lu(a: Fin(3)=>Fin(3)=>Float) -> Fin(3)=>Fin(3)=>Float:
    with state(a) as m:
        for p in Fin(3):
            for i in p<..:
                m[i, p] := m[i, p] / m[p, p]
                for j in p<..: m[i, j] := m[i, j] - m[i, p] * m[p, j]

def f(x: n=>Fin(3)=>Fin(3)=>Float) -> Float = sum(trace(lu(a)) for a in x)
""",
        lambda n: [x(n, 3, 3) + 3.0 * np.eye(3)],
    ),
    "small systems solved": (
        """
def solve(a: Fin(4)=>Fin(4)=>Float, b: Fin(4)=>Float) -> Fin(4)=>Float:
    (a, b) = with state(a) as a, state(b) as b:
        for k in Fin(4), i in Fin(4):
            if i != k:
                f = a[i, k] / a[k, k]
                for j in Fin(4): a[i, j] -= f * a[k, j]
                b[i] -= f * b[k]
    [b[i] / a[i, i] for i]

def f(x: n=>Fin(4)=>Fin(4)=>Float) -> Float = sum(sum(solve(a, [1.0, 2.0, 3.0, 4.0])) for a in x)
""",
        lambda n: [x(16 * n, 4, 4) + 4.0 * np.eye(4)],
    ),
    "shortest paths": (
        """
def f(w: n=>n=>Float) -> Float = sum(sum(row) for row in short(w))

def short(w: n=>n=>Float) -> n=>n=>Float:
    loop d = w for k in n:
        for i, j: min(d[i, j], d[i, k] + d[k, j])
""",
        lambda n: [x(n, n)],
    ),
    "maxima of windows as long as the call says": (
        """
def f(x: Fin(n)=>Float, w: Int) -> Float where w >= 1, n >= w =
    sum(max(x[i + j] for j in Fin(w)) ** 2 for i in Fin(n - w + 1))
""",
        lambda n: [x(60 * n), 4 * n],
    ),
    "spans of clamped windows": (
        """
def f(x: Fin(n)=>Float, w: Int) -> Float where w >= 1 = sum(v ** 2 for v in spans(x, w))

def spans(x: Fin(n)=>Float, w: Int) -> Fin(n)=>Float where w >= 1:
    for i:
        high = max(x[clamp(i + j - w // 2)] for j in Fin(w))
        high - min(x[clamp(i + j - w // 2)] for j in Fin(w))
""",
        lambda n: [x(60 * n), 4 * n],
    ),
    "an option's tree": (
        """
def f(s: Float, k: Float, u: Float, p: Float, n: Int) -> Float:
    last = with state([max(k - s * u ** Float(2 * i - n), 0.0) for i in Fin(n + 1)]) as w:
        for step in reverse(Fin(n)):
            for i in Fin(n + 1):
                if i <= step:
                    now = k - s * u ** Float(2 * i - step)
                    w[i] := max(now, p * w[wrap(i + 1)] + (0.99 - p) * w[i])
    last[0?]
""",
        lambda n: [100.0, 110.0, 1.1, 0.5, n],
    ),
    "wavelets, halves in a `while`": (
        """
def f(x: Fin(n)=>Float) -> Float:
    (a, _) = with state(x) as a, state(n) as k:
        while k > 1:
            half = k // 2
            t = get(a)
            for i in Fin(half):
                a[i?] := 0.7 * (t[(2 * i)?] + t[(2 * i + 1)?])
                a[(half + i)?] := 0.7 * (t[(2 * i)?] - t[(2 * i + 1)?])
            k := half
    sum(sqrt(v ** 2 + 1.0) for v in a)
""",
        lambda n: [x(8 * n)],
    ),
    "a table in place in each of several steps": (
        """
def f(c: Fin(n)=>Fin(n)=>Float, steps: Int) -> Float:
    (_, s) = with state(c) as h, state(0.0) as s:
        for t in Fin(steps):
            for i in Fin(n), j in Fin(n): h[i, j] := 0.01 * c[i, j] + 0.9 * h[i, j]
            s += sum(h[i, j] ** 2 for i, j)
    s
""",
        lambda n: [x(n, n), 3],
    ),
    "some of a table in place in each of several steps": (
        """
def f(c: Fin(n)=>Fin(n)=>Float, steps: Int) -> Float:
    (hs, _) = with state(c) as h:
        for t in Fin(steps):
            for i in Fin(n), j in Fin(n):
                if c[i, j] > 0.9: h[i, j] := 0.01 * c[i, j] + 0.9 * h[i, j]
            get(h)
    sum(hs[t, i, j] ** 2 for t, i, j)
""",
        lambda n: [x(n, n), 3],
    ),
    "a cube in place in each of several steps": (
        """
def f(c: Fin(n)=>Fin(n)=>Fin(n)=>Float, steps: Int) -> Float:
    (_, s) = with state(c) as h, state(0.0) as s:
        for t in Fin(steps):
            for i in Fin(n), j in Fin(n), k in Fin(n):
                h[i, j, k] := 0.01 * c[i, j, k] + 0.9 * h[i, j, k]
            s += sum(h[i, j, k] ** 2 for i, j, k)
    s
""",
        lambda n: [x(n // 2, n // 2, n // 2), 3],
    ),
    "sweeps": (
        """
def sweep(x: Fin(n)=>Fin(n)=>Float, c: Fin(n)=>Fin(n)=>Float) -> Fin(n)=>Fin(n)=>Float:
    with state(x) as x:
        for i in Fin(n), j in Fin(n):
            x[i, j] += 0.2 * (x[wrap(i - 1), j] + x[i, wrap(j - 1)]) - 0.5 * x[i, j] ** 2 + c[i, j]

def f(c: Fin(n)=>Fin(n)=>Float, steps: Int) -> Float:
    (_, s) = loop x = c, s = 0.0 for t in Fin(steps):
        x = sweep(x, c)
        (x, s + sum(sum(x ** 2)))
    s
""",
        lambda n: [x(n, n), 3],
    ),
    "steps that take one matrix apart": (
        """
def f(a: Fin(n)=>Float, u: Fin(n)=>Float, steps: Int) -> Float where n >= 1:
    u = loop u = u for _ in Fin(steps):
        (u, _) = with state(u) as u, state(a) as p:
            for i in 1..n:
                w = 1.0 / (2.0 - a[i] * p[i - 1])
                p[i] := a[i] * w
                u[i] := (u[i] - a[i] * u[i - 1]) * w
            for i in reverse(Fin(n - 1)): u[i] -= p[i] * u[i + 1]
        u
    sum(v ** 2 for v in u)
""",
        lambda n: [x(n) / 2, x(n), 10],
    ),
    "rows that take one matrix apart": (
        """
def f(a: Fin(n)=>Float, b: m=>Fin(n)=>Float) -> Float where n >= 1 = sum(rest(a, u) for u in b)

def rest(a: Fin(n)=>Float, u: Fin(n)=>Float) -> Float where n >= 1:
    (u, _) = with state(u) as u, state(a) as p:
        for i in 1..n:
            w = 1.0 / (2.0 - a[i] * p[i - 1])
            p[i] := a[i] * w
            u[i] := (u[i] - a[i] * u[i - 1]) * w
        for i in reverse(Fin(n - 1)): u[i] -= p[i] * u[i + 1]
    sum(v ** 2 for v in u)
""",
        lambda n: [x(n) / 2, x(n, n)],
    ),
    "means that attract points, in steps": (
        """
def f(c: k=>Fin(3)=>Float, x: n=>Fin(3)=>Float, steps: Int) -> Float:
    c = loop c = c for _ in Fin(steps):
        a = [softmax([-4.0 * sum((x[i, q] - c[j, q]) ** 2 for q) for j]) for i]
        [sum(a[i, j] * x[i, q] for i) / (sum(a[i, j] for i) + 0.001) for j, q]
    sum(c[j, q] ** 2 for j, q)
""",
        lambda n: [x(4, 3), x(16, 3), 4 * n],
    ),
    "an element of what a loop solves": (
        """
import linalg

def f(p: n=>Float) -> Float = sum(all_solved(p)[i, 0] for i)

def all_solved(p: n=>Float) -> n=>Fin(2)=>Float = [solved(p[i]) for i]

def solved(p: Float) -> Fin(2)=>Float:
    loop x = [1.5, 0.3] for _ in Fin(3):
        linalg.solve([[p + x[0], 0.3], [0.2, 2.0 * p + x[1]]], [1.0, p])
    x
""",
        lambda n: [x(n)],
    ),
    "an element of what a loop solves until it is near": (
        """
import linalg

def f(p: n=>Float) -> Float = sum(all_solved(p)[i, 0] for i)

def all_solved(p: n=>Float) -> n=>Fin(2)=>Float = [solved(p[i]) for i]

def solved(p: Float) -> Fin(2)=>Float:
    loop x = [1.5, 0.3], k = 0 while k < 3 and x[0] < 100.0:
        (linalg.solve([[p + x[0], 0.3], [0.2, 2.0 * p + x[1]]], [1.0, p]), k + 1)
    x
""",
        lambda n: [x(n)],
    ),
}


def cost(f: nap.Function, args: list[object]) -> Cost:
    module = f._program.core()
    chosen = at(module.definitions[f.__name__], f._usual())
    program = pipeline.lower(module, f.__name__, chosen)
    sizes: dict[str, int] = {}
    for b, a in zip(program.buffers, args, strict=False):
        for extent, n in zip(b.shape, np.shape(a), strict=True):
            rest = n - extent.offset  # the axis is v + rest, or the sum of two sizes
            for v in program.sizes:
                if extent.coefficient(v):
                    rest -= sizes.setdefault(v.name, rest)
    return count(program, [sizes[v.name] for v in program.sizes], args)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_gradient_costs_five_functions(name: str) -> None:
    text, given = PROGRAMS[name]
    m = nap.compile(text)
    params = [p.name for p in m.f._text.params]
    floats = [p for p, a in zip(params, given(SMALL), strict=True)
              if np.asarray(a).dtype.kind == "f"]  # fmt: skip
    slope = nap.grad(m.f, floats)
    ratios = []
    for n in (SMALL, FACTOR * SMALL):
        args = given(n)
        one, other = cost(m.f, args), cost(slope, args)
        ratios.append(other.total / one.total)
    print(f"{name:32s}", *(f"{r:.2f}" for r in ratios))
    assert max(ratios) <= LIMIT
    assert ratios[1] <= GROWTH * ratios[0]


KEPT = {
    "Cholesky": 2, "triangular solve": 2, "LU": 3, "LU by what is added": 2, "sorting by swaps": 2,
    "assignment": 1, "reflections in place": 3, "reflections of whole matrices": 3,
    "orthogonal columns in place": 3, "triangle and diagonal": 2, "elimination above and below": 2,
    "shortest ways": 3, "two triangles": 2, "an inverse triangle": 2, "orthogonal rows in place": 3,
    "the closest pair": 1, "a chain of matrices": 2,
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_a_gradient_keeps_what_is_replaced(name: str) -> None:
    """Not the table of every round: as many numbers, up to a factor, as are assigned."""
    text, given = PROGRAMS[name]
    m = nap.compile(text)
    params = [p.name for p in m.f._text.params]
    floats = [p for p, a in zip(params, given(SMALL), strict=True)
              if np.asarray(a).dtype.kind == "f"]  # fmt: skip
    slope = nap.grad(m.f, floats)
    less, more = stored(slope, 10), stored(slope, 40)
    print(name, less, more)
    assert 0 < more <= 1.2 * 4 ** KEPT[name] * less


def test_a_table_in_place_is_read_as_it_lies() -> None:
    """Whatever the best order for what reads it: turned, it would be copied in every round."""
    text, given = PROGRAMS["reflections of whole matrices"]
    f = nap.compile(text).f
    less, more = (cost(f, given(n)).total for n in (SMALL, FACTOR * SMALL))
    assert more <= 1.2 * FACTOR**3 * less


# programs whose tables are changed in place: what their second derivatives ask of a table, as some
# round has it, is an element or a row of it
TWICE = [*KEPT, "assignment by key", "a row put in its place", "an element put in its place",
         "Cholesky to the right", "wavelets, halves in a `while`"]  # fmt: skip


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", TWICE)
def test_a_second_derivative_costs_a_dozen_functions(name: str) -> None:
    text, given = PROGRAMS[name]
    m = nap.compile(text)
    params = [p.name for p in m.f._text.params]
    k = next(k for k, a in enumerate(given(SMALL)) if np.asarray(a).dtype.kind == "f")
    ratios = []
    for derivative in (nap.jvp(m.f, params[k]), nap.hvp(m.f, params[k])):
        for n in (2 * SMALL, FACTOR * SMALL):  # of smaller tables the rows are most of the work
            args = given(n)
            ratios.append(cost(derivative, [*args, args[k]]).total / cost(m.f, args).total)
    print(f"{name:32s}", *(f"{r:.2f}" for r in ratios))
    assert max(ratios[:2]) <= 3.0
    assert max(ratios[2:]) <= 12.0
    assert ratios[3] <= GROWTH * ratios[2]


def test_a_question_that_is_asked_again_has_no_table() -> None:
    """Whether two bodies are far is an answer that a round keeps for the one backwards; where the
    round is made again there, the answer is no table of all pairs."""
    m = nap.compile(PROGRAMS["bodies in steps"][0])
    text = nap.grad(m.f, ("x", "v", "m")).show("loops")
    assert "bool[" not in text


def test_components_that_are_added_to_one_element_have_no_table() -> None:
    """All three go to the mass in the loop that makes them, and not the first alone."""
    m = nap.compile(PROGRAMS["bodies in steps"][0])
    for f in (m.f, nap.compile("""
def f(x: n=>Fin(3)=>Float, m: n=>Float) -> Float =
    sum(sin(m[j] * (x[j, k] - x[i, k])) for i, j, k)
""").f):
        text = nap.grad(f, "m").show("loops")
        sums = re.findall(r"allocate .*\[n, n\]", text)
        assert not sums, text


def test_nothing_is_left_that_nobody_reads() -> None:
    """What is read as it is in the end, and made again there, is gone where it was made before: it
    would count as a reader of what it is made of, which would be stored for it."""
    m = nap.compile(PROGRAMS["triangle and diagonal"][0])
    twice = nap.hvp(m.f)
    module = twice._program.core()
    chosen = at(module.definitions[twice.__name__], twice._usual())
    value = pipeline.specialise(module, twice.__name__, chosen)
    for step in pipeline.PASSES[:-2]:
        value = step.function(value)
    assert len(prune(value).bindings) == len(value.bindings)


@pytest.mark.parametrize("name", ["assignment by key", "an element put in its place", "Cholesky",
                                  "Cholesky to the right", "an inverse triangle"])  # fmt: skip
def test_backwards_over_backwards_costs_ten_functions(name: str) -> None:
    """Several loops backwards each change a table back that another changed in place, and loops
    forwards change it once more."""
    text, given = PROGRAMS[name]
    m = nap.compile(text)
    first = next(p.name for p in m.f._text.params)
    twice = nap.vjp(nap.grad(m.f, first), first)
    ratios = []
    for n in (SMALL, FACTOR * SMALL):
        args = given(n)
        ratios.append(cost(twice, [*args, args[0]]).total / cost(m.f, args).total)
    print(f"{name:32s}", *(f"{r:.2f}" for r in ratios))
    assert max(ratios) <= 10.0
    assert ratios[1] <= GROWTH * ratios[0]


def stored(f: nap.Function, n: int) -> int:
    """The elements that a function keeps in memory, when all its sizes are `n`; what a loop
    allocates in every round, as in its first."""
    module = f._program.core()
    chosen = at(module.definitions[f.__name__], f._usual())
    program = pipeline.lower(module, f.__name__, chosen)

    def number(s: Size) -> int:
        return substitute(s, lambda a: size(n if a in program.sizes else 0)
                          if isinstance(a, Var) else None).constant or 0  # fmt: skip

    shapes = [s.buffer.shape for s in statements(program.body) if isinstance(s, Allocate)]
    return sum(math.prod(number(e) for e in shape) for shape in shapes)


# name: the program, whose `g` takes derivatives of `f` in eight directions, and its arguments
DIRECTIONS = {
    "rows in place": (
        """
def f(x: Fin(n)=>Fin(3)=>Float, k: Fin(n)=>Fin(n)) -> Fin(n)=>Fin(3)=>Float:
    with state(x) as s:
        for i in 1..n: s[i] := [sum(s[k[i], b] * s[i, wrap(a + b)] for b) for a]

def g(x: Fin(n)=>Fin(3)=>Float, k: Fin(n)=>Fin(n), d: Fin(8)=>Fin(n)=>Fin(3)=>Float):
    for j:
        (_, slope) = jvp(lambda x: f(x, k), x, d[j])
        slope
""",
        lambda n: [x(n, 3), keys(n, n)],
        lambda n: x(8, n, 3),
    ),
    "elements in place": (
        """
def f(x: Fin(n)=>Float, k: Fin(n)=>Fin(n)) -> Fin(n)=>Float:
    with state(x) as s:
        for i in 1..n: s[i] := sin(s[k[i]]) * s[i - 1] + x[i]

def g(x: Fin(n)=>Float, k: Fin(n)=>Fin(n), d: Fin(8)=>Fin(n)=>Float):
    for j:
        (_, slope) = jvp(lambda x: f(x, k), x, d[j])
        slope
""",
        lambda n: [x(n), keys(n, n)],
        lambda n: x(8, n),
    ),
}


@pytest.mark.parametrize("name", DIRECTIONS)
def test_a_direction_costs_five_functions(name: str) -> None:
    """Also where directions go beside each other: the function keeps what they ask for, no more."""
    text, given, directions = DIRECTIONS[name]
    m = nap.compile(text)
    ratios, steps = [], []
    for n in (SMALL, FACTOR * SMALL):
        args = given(n)
        one = cost(m.f, args).total
        ratios.append(cost(m.g, [*args, directions(n)]).total / one / 8)
        steps.append(one / n)
    print(f"{name:32s}", *(f"{r:.2f}" for r in ratios))
    assert max(ratios) <= LIMIT
    assert ratios[1] <= GROWTH * ratios[0]
    assert steps[1] <= GROWTH * steps[0]  # no copy of a table for each round


ALTERNATING = """
def factors(a: Fin(n)=>Float, b: Fin(n)=>Float, c: Fin(n)=>Float) -> Fin(n)=>(Float, Float):
    scan((lambda s, i: step(s, a[i], b[i], c[i])), (0.0, 0.0), [i for i in Fin(n)])

def step(s: (Float, Float), a: Float, b: Float, c: Float) -> (Float, Float):
    (p, _) = s
    w = 1.0 / (b - a * p)
    (c * w, w)

def sweep(a: Fin(n)=>Float, p: Fin(n)=>Float, w: Fin(n)=>Float, d: Fin(n)=>Float) where n >= 1:
    y = scan((lambda q, i: (d[i] - a[i] * q) * w[i]), 0.0, [i for i in Fin(n)])
    with state(y) as x:
        for i in reverse(Fin(n - 1)): x[i] := x[i] - p[i] * x[i + 1]

def f(x: Fin(n)=>Fin(n)=>Float, a: Fin(n)=>Float, b: Fin(n)=>Float, c: Fin(n)=>Float, k: Int):
    assert n >= 1
    (p, w) = factors(a, b, c)
    loop u = x for _ in Fin(k):
        v = [sweep(a, p, w, u[i]) for i]
        transpose([sweep(a, p, w, [v[i, j] for i]) for j])
    sum(v ** 2 for row in u, v in row)
"""


def test_columns_that_are_changed_in_place_are_not_copied() -> None:
    """Tridiagonal sweeps by rows and by columns, and back: a round of a sweep touches an element of
    each row, also where what is swept is a column of a table that is made elsewhere."""
    m = nap.compile(ALTERNATING)
    slope = nap.value_and_grad(m.f, ("x", "a", "b", "c"))
    r = np.random.default_rng(0)
    elements = []
    for n in (16, 64):
        args = [r.random((n, n)), -0.2 * r.random(n), 1.4 + r.random(n), -0.2 * r.random(n), 2]
        elements.append(cost(slope, args).total / n**2)
        for k, found in enumerate(slope(*args)[1]):
            one = [*args]
            d = r.normal(size=args[k].shape)
            ends = []
            for h in (1e-6, -1e-6):
                one[k] = args[k] + h * d
                ends.append(m.f(*one))
            assert np.isclose(np.sum(found * d), (ends[0] - ends[1]) / 2e-6, rtol=1e-6)
    assert elements[1] <= 1.1 * elements[0]
