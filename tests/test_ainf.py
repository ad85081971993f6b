"""AiNF itself: notation, promises, meaning; and what sharing finds in the programs of the paper."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from test_flatten import FN, VEC, Example, X, at, each, f, let, op, x

from naperian import pipeline
from naperian.ainf.check import check
from naperian.ainf.parse import parse
from naperian.ainf.run import RunError, run
from naperian.ainf.show import show
from naperian.ainf.syntax import Op, Program
from naperian.broken import Broken
from naperian.core.syntax import Expr, If, Let, Pack, Ref
from naperian.names import Var
from naperian.passes.algebra.cse import cse
from naperian.passes.algebra.prune import prune
from naperian.passes.algebra.simplify import simplify
from naperian.passes.flat.flatten import flatten
from naperian.types import F64, Tuple

NOTATION = """def every(n, m; x: F64[n, m], p: I64[m] < n, s: F32, k: I64):
  for i<n, j<m: v0 = mul(x[i, j], -2.5)
  for j<m, i<n if v2[j], not v3[i] (n - i - 1 >= 0): v1 = copy(v0[i, j])
  for j<m: v2 = lt(p[j], #3)
  for i<n: v3 = ge(i, 2)
  v4 = add over i<n, j<m of v0[i, j] over j_1<m of x[0, j_1] if v2[j_1] from 0.0
  for b<n: v5 = add over j<m at [p[j]] of 1.0 from 0.0
  for j<m: v6 = argmin over i_1<n of x[i_1, j] from 0
  for i<n, u<m + 1: v7 = delay over t<m from x[i, 0] next x[i, t]
  v8 = cast[F32](inf)
  v9 = add(s, -0.0:F32)
  v10 = checked(k, n) else 1
  v11 = add(k, ((n - 1) // (2)) + clamp(k - 1, n) + wrap(n, m))
  for w: v12 = delay over r while v13[r] from 1 next v14[r]
  for r while v13[r]: v13 = lt(v12[r], 100)
  for r while v13[r]: v14 = mul(v12[r], #2)
  for i<n: check v3[i] else 2
  return for b<n: v5[b]
  return v12[trips(r)]
  error 1 "index {value} is \\"out\\" of {size}"
  error 2 "no"
"""


def test_notation_is_read_back() -> None:
    assert show(parse(NOTATION)) == NOTATION


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("for i<n: v = exp(s)", "context"),
        ("v = exp(x[i])", "never bound"),
        ("for i<n: v = exp(x[i, i])", "2"),
        ("for i<n: v = cast[F64](w[i])\n  for i<n: w = exp(x[i])", "before"),
        ("v = add(s, 1)", "add"),
        ("v = and(s, s)", "not for"),
        ("for i<n, j<m: v = exp(x[i])", "context"),
        ("for i<n: v = add over i<n of x[i] from 0.0", "context|itself"),
        ("v = add over i<n of x[i] from 0", "dtype"),
        ("for i<n: v = select(i, s, s)", "Boolean"),
        ("check s else 1", "not Boolean"),
        ("for i<n: v = checked(i, n) else 3", "failure"),
        ("for i<n if x[i]: v = exp(x[i])", "guard"),
        ("for i<n: v = copy(x[x[i]])", "float"),
        ("for u<n + 1: v = delay over t<n from s next x[u]", "own index|not in"),
    ],
)
def test_broken_promises(text: str, why: str) -> None:
    program = parse(f'def f(n, m; x: F64[n], s: F64):\n  {text}\n  return s\n  error 1 "e"')
    with pytest.raises(Broken, match=why):
        check(program)


def test_results_name_their_axes() -> None:
    hoisted = parse("def f(n; s: F64):\n  v = exp(s)\n  return for i<n: v")
    check(hoisted)
    assert run(hoisted, [3], [np.float64(0)])[0].tolist() == [1.0, 1.0, 1.0]


def test_long_delays_do_not_recurse() -> None:
    text = """def f(n; s: F64):
  for u<n + 1: h = delay over t<n from s next v[t]
  for t<n: w = mul(h[t], 0.5)
  for t<n: v = add(w[t], 1.0)
  for u1: g = delay over t1 while c[t1] from 0 next a[t1]
  for t1 while c[t1]: a = add(g[t1], 1)
  for t1 while c[t1]: c = lt(g[t1], n)
  return h[n]
  return g[trips(t1)]
"""
    program = parse(text)
    check(program)
    assert run(program, [10_000], [np.float64(5)]) == [2.0, 10_000]


def test_histogram() -> None:
    text = """def f(n, m; p: I64[n] < m, w: F64[n]):
  for b<m: h = add over i<n at [p[i]] of w[i] from 1.0
  return for b<m: h[b]
"""
    program = parse(text)
    check(program)
    p, w = np.array([2, 0, 2]), np.array([1.0, 2.0, 4.0])
    assert run(program, [3, 4], [p, w])[0].tolist() == [3.0, 1.0, 6.0, 1.0]
    assert run(program, [0, 2], [p[:0], w[:0]])[0].tolist() == [1.0, 1.0]


def test_argmin_prefers_the_first_and_nan() -> None:
    program = parse("def f(n; x: F64[n]):\n  v = argmin over i<n of x[i] from 0\n  return v")
    for values in ([], [3.0, 1.0, 1.0], [2.0, np.nan, 1.0, np.nan], [0.0, -0.0]):
        wanted = np.argmin(values) if values else 0
        assert run(program, [len(values)], [np.array(values)]) == [wanted]


def test_failures_carry_what_they_tell() -> None:
    text = """def f(n; k: I64, x: F64[n]):
  v = checked(k, n) else 2
  for i<n: c = gt(x[i], 0.0)
  for i<n: check c[i] else 1
  return x[v]
  error 1 "positive"
  error 2 "out"
"""
    program = parse(text)
    ones = np.ones(3)
    assert run(program, [3], [np.int64(2), ones]) == [1.0]
    with pytest.raises(RunError) as caught:
        run(program, [3], [np.int64(3), ones])
    assert (caught.value.code, caught.value.value, caught.value.size) == (2, 3, 3)
    with pytest.raises(RunError) as caught:
        run(program, [3], [np.int64(0), -ones])
    assert caught.value.code == 1


# sharing


def compiled(example: Example) -> tuple[Program, Program]:
    """Before and after `cse`; both are pruned."""
    before = prune(simplify(flatten(example.definition())))
    after = prune(cse(before))
    check(after)
    return before, after


def operations(program: Program) -> Counter[str]:
    return Counter(b.prim.name for b in program.bindings if isinstance(b.prim, Op))


def merged(text: str) -> str:
    program = parse(text)
    check(program)
    after = prune(cse(program))
    check(after)
    return show(after)


S, T = Var("s"), Var("t")


def black_scholes(cdf: Callable[[Expr], Expr], put: Callable[..., Expr]) -> Example:
    """Calls and puts as two loops; the rate and the volatility are constants, as in the paper."""
    rate, volatility = 0.02, 0.3

    def parts(i: Expr) -> tuple[Expr, Expr, Expr, Expr, Expr]:
        p, s, t = at(x, (FN, i)), at(Ref(S), (FN, i)), at(Ref(T), (FN, i))
        drift = op("mul", f(rate + 0.5 * volatility**2), t)
        spread = op("mul", f(volatility), op("sqrt", t))
        d1 = op("div", op("add", op("log", op("div", p, s)), drift), spread)
        d2 = op("sub", d1, op("mul", f(volatility), op("sqrt", t)))
        return p, op("mul", s, op("exp", op("mul", f(-rate), t))), d1, d2, t

    def call(i: Expr) -> Expr:
        p, paid, d1, d2, _ = parts(i)
        return op("sub", op("mul", p, cdf(d1)), op("mul", paid, cdf(d2)))

    def puts(i: Expr) -> Expr:
        p, paid, d1, d2, _ = parts(i)
        return put(p, paid, d1, d2)

    body = Pack((each(FN, call), each(FN, puts)))
    return Example(body, Tuple((VEC, VEC)), ((X, VEC), (S, VEC), (T, VEC)))


def one_to_one(d: Expr) -> Expr:
    return op("erfc", d)


def by_erfc(d: Expr) -> Expr:
    return op("mul", f(0.5), op("erfc", op("mul", d, f(-(0.5**0.5)))))


def test_black_scholes() -> None:
    """The paper: 53 bindings before, 22 after."""

    def complement(p: Expr, paid: Expr, d1: Expr, d2: Expr) -> Expr:
        return op("sub", op("mul", paid, op("sub", f(1), one_to_one(d2))),
                  op("mul", p, op("sub", f(1), one_to_one(d1))))  # fmt: skip

    before, after = compiled(black_scholes(one_to_one, complement))
    assert 22 < len(before.bindings) <= 53
    assert len(after.bindings) <= 22
    assert operations(after)["log"] == operations(after)["exp"] == 1
    assert operations(after)["erfc"] == 2
    extents = {tuple(after.indices[i].extent for i in b.context) for b in after.bindings}
    assert len(extents) == 1, "one loop serves all"


def test_black_scholes_by_reflection() -> None:
    """With N(-d) for puts: the sign goes into a constant of erfc; 2 of 3 operations of N extra."""

    def reflected(p: Expr, paid: Expr, d1: Expr, d2: Expr) -> Expr:
        return op("sub", op("mul", paid, by_erfc(op("neg", d2))),
                  op("mul", p, by_erfc(op("neg", d1))))  # fmt: skip

    before, after = compiled(black_scholes(by_erfc, reflected))
    normals = operations(after)["erfc"]
    assert normals == 4
    assert len(before.bindings) - 2 * operations(before)["erfc"] <= 53
    assert len(after.bindings) - 2 * normals <= 22
    assert operations(after)["neg"] == 0


def test_both_branches_share() -> None:
    """cseTest1 of the paper's artifact: `1 + x` in both branches and after them."""
    scalar = Ref(S)
    plus = op("add", f(1), scalar)
    body = let(If(op("gt", scalar, f(0)), op("mul", plus, op("add", scalar, f(3))),
                  op("mul", plus, op("add", scalar, f(4)))),
               lambda y: op("mul", y, op("exp", scalar)))  # fmt: skip
    before, after = compiled(Example(body, F64, ((S, F64),)))
    assert len(before.bindings) <= 10
    assert len(before.bindings) - len(after.bindings) == 1
    assert operations(before)["add"] == 4
    assert operations(after)["add"] == 3
    shared = next(b for b in after.bindings if isinstance(b.prim, Op) and b.prim.name == "add")
    assert shared.guards == ()


def test_a_guarded_duplicate_merges() -> None:
    """cseTest2 and cseTest3: outside and in one branch, in either order."""
    scalar = Ref(S)
    plus = op("add", f(1), scalar)
    inside = If(op("gt", scalar, f(0)), op("mul", plus, f(2)), scalar)
    for body in (op("sub", plus, inside), op("sub", inside, plus)):
        before, after = compiled(Example(body, F64, ((S, F64),)))
        assert operations(before)["add"] == 2
        assert operations(after)["add"] == 1
        assert len(after.bindings) == len(before.bindings) - 1


def test_repeated_squaring() -> None:
    """egypt 3: x**8 written as a product of two equal powers, without any sharing."""

    def egypt(n: int) -> Expr:
        return Ref(S) if n == 0 else op("mul", egypt(n - 1), egypt(n - 1))

    before, after = compiled(Example(egypt(3), F64, ((S, F64),)))
    assert (len(before.bindings), len(after.bindings)) == (7, 3)


def test_two_loops_share() -> None:
    """loop1: what two loops have in common is made once, and outside what it does not need."""
    body = Pack((each(FN, lambda i: op("mul", op("exp", f(2)), op("exp", at(x, (FN, i))))),
                 each(FN, lambda j: op("add", op("exp", at(x, (FN, j))), f(5)))))  # fmt: skip
    _, after = compiled(Example(body, Tuple((VEC, VEC))))
    assert operations(after) == {"exp": 1, "mul": 1, "add": 1}


def test_transposed_duplicates_merge() -> None:
    after = merged("""def f(n, m; a: F64[n, m]):
  for i<n, j<m: v = exp(a[i, j])
  for j1<m, i1<n: w = exp(a[i1, j1])
  for j1<m, i1<n: z = mul(w[j1, i1], v[i1, j1])
  return for j1<m, i1<n: z[j1, i1]
""")
    assert after.count("exp") == 1
    assert "mul(v0[i1, j1], v0[i1, j1])" in after


def test_other_extents_do_not_merge() -> None:
    after = merged("""def f(n, m; a: F64[n], b: F64[m]):
  for i<n: v = cast[F64](i)
  for j<m: w = cast[F64](j)
  for i<n, j<m: z = add(v[i], w[j])
  return for i<n, j<m: z[i, j]
""")
    assert after.count("cast") == 2


def test_operands_may_change_places() -> None:
    after = merged("""def f(n; a: F64[n], b: F64[n]):
  for i<n: v = mul(a[i], b[i])
  for k<n: w = mul(b[k], a[k])
  s = add over k1<n of v[k1] from 0.0
  t = add over k2<n of w[k2] from 0.0
  r = sub(s, t)
  return r
""")
    assert after.count("mul") == after.count("over") == 1


def test_failures_stay_and_dead_loops_go() -> None:
    after = merged("""def f(n; a: F64[n], k: I64):
  for u<n + 1: h = delay over t<n from 0.0 next v[t]
  for t<n: v = add(h[t], a[t])
  for i<n: c = gt(a[i], 0.0)
  for i<n: check c[i] else 1
  j = checked(k, n) else 2
  return a[0]
  error 1 "a"
  error 2 "b"
""")
    assert "delay" not in after
    assert "check " in after
    assert "checked" in after


def test_a_loop_leaves_the_loop_around_it() -> None:
    after = merged("""def f(n; s: F64):
  for i<n, u<6: h = delay over t<5 from s next v[i, t]
  for i<n, t<5: v = exp(h[i, t])
  return for i<n: h[i, 5]
""")
    assert "for u<6: v0 = delay over t<5 from s next v1[t]" in after


# size and time


def nested(depth: int, e: Expr) -> Expr:
    for at_ in range(depth):
        e = If(op("gt", Ref(S), f(at_)), op("mul", e, f(1.5)), op("add", Ref(S), f(at_)))
    return e


def test_conditionals_do_not_blow_up() -> None:
    counts = [
        len(flatten(Example(nested(d, Ref(S)), F64, ((S, F64),)).definition()).bindings)
        for d in (5, 10, 20)
    ]
    assert counts[1] - counts[0] == (counts[2] - counts[1]) // 2


def test_time_is_linear() -> None:
    """A block of 2 000 lines; twice the lines may take thrice the time."""

    def chain(lines: int) -> float:
        names = [Var("y") for _ in range(lines)]
        e: Expr = Ref(names[-1])
        for j in reversed(range(lines)):
            before = Ref(names[j - 1]) if j else x
            value = each(
                FN, lambda i, b=before, j=j: op("mul", op("sin", at(b, (FN, i))), f(j + 2))
            )
            e = Let(names[j], value, e)
        d = Example(e, VEC).definition()
        with pipeline.deep():  # without looking for garbage, as in a compilation
            start = time.process_time()
            p = prune(cse(simplify(flatten(d))))
            took = time.process_time() - start
        assert len(p.bindings) == 2 * lines
        check(p)
        return took

    chain(50)
    for _ in range(5):  # a machine that does other work is slow for a while
        one, two = (min(chain(lines) for _ in range(3)) for lines in (1000, 2000))
        if two < 3 * one:
            break
    assert two < 3 * one
