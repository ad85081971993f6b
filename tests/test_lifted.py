"""What does not change in a loop stands in front of it, however deep it is needed."""

from __future__ import annotations

import numpy as np

import naperian as nap
from naperian.backends.lifted import lifted

TWO_LOOPS = """\
  br label %outer
outer:
  %i = phi i64 [ 0, %entry ], [ %i2, %join ]
  br label %inner
inner:
  %j = phi i64 [ 0, %outer ], [ %j2, %inner ]
  %size = mul nsw i64 %n, %m
  %row = mul nsw i64 %size, %i
  %at = add nsw i64 %row, %j
  %x = load i64, ptr %cell
  %y = add nsw i64 %x, %size
  %j2 = add nsw i64 %j, 1
  br i1 %more, label %inner, label %join
join:
  %i2 = add nsw i64 %i, 1
  br i1 %again, label %outer, label %done
done:
  ret void""".splitlines()


def test_out_of_both_out_of_one_and_not() -> None:
    inner, outer = (4, 13), (1, 16)
    text = "\n".join(lifted(TWO_LOOPS, [inner, outer]))
    enter, _, rest = text.partition("  br label %outer\n")
    first, _, second = rest.partition("  br label %inner\n")
    assert enter.split() == ["%size", "=", "mul", "nsw", "i64", "%n,", "%m"]
    assert "%row = mul" in first
    assert all(x in second for x in ("%at = add", "%x = load", "%y = add"))
    assert sorted(text.splitlines()) == sorted(TWO_LOOPS)


def test_what_two_loops_compute_in_front_of_another_is_computed_once() -> None:
    """What uses the second is told the first, also behind the loops; what a round hands to the next
    keeps its name, which was told already."""
    lines = """\
  br label %outer
outer:
  %i = phi i64 [ 0, %entry ], [ %i2, %join ]
  %last = phi i64 [ 0, %entry ], [ %handed, %join ]
  %size = mul nsw i64 %n, %m
  br label %first
first:
  %x = load i64, ptr %cell
  %once = mul nsw i64 %n, %m
  %half = ashr i64 %once, 1
  %quarter = ashr i64 %size, 1
  %y = add nsw i64 %x, %quarter
  %handed = mul nsw i64 %n, %m
  br i1 %more, label %first, label %join
join:
  %i2 = add nsw i64 %i, 1
  br i1 %again, label %outer, label %done
done:
  ret i64 %once""".splitlines()
    text = "\n".join(lifted(lines, [(6, 13), (1, 16)]))
    enter, _, rest = text.partition("  br label %outer\n")
    assert [x.split()[0] for x in enter.splitlines()] == ["%size", "%half", "%handed"]
    assert "%half = ashr i64 %size, 1" in enter
    assert "%y = add nsw i64 %x, %half" in rest
    assert text.endswith("ret i64 %size")


PLANES = """
def f(x: Fin(a)=>Fin(b)=>Fin(c)=>Float, steps: Int) -> Fin(a)=>Fin(b)=>Fin(c)=>Float:
    loop u = x for _ in Fin(steps):
        [u[clamp(i + 1), clamp(j - 1), k] + u[i, j, k] if i + j > 2 else u[i, j, k] for i, j, k]
"""


def test_conditions_and_planes() -> None:
    """What only some rounds need is computed for all, and changes no result."""
    m = nap.compile(PLANES)
    r = np.random.default_rng(0)
    for shape in ((3, 4, 9), (1, 1, 1), (0, 2, 3), (5, 1, 20)):
        x = r.normal(size=shape)
        u = x
        for _ in range(3):
            a, b, _c = shape
            v = u.copy()
            for i in range(a):
                for j in range(b):
                    if i + j > 2:
                        v[i, j] = u[min(i + 1, a - 1), max(j - 1, 0)] + u[i, j]
            u = v
        assert np.array_equal(m.f(x, 3), u)


QUOTIENTS = """
def rows(x: n=>m=>Float, d: n=>Float) -> n=>m=>Float = [x[i, j] / d[i] for i, j]
def smoothed(x: n=>Float, p: Int) -> n=>Float = scan(lambda g, v: (g * (p - 1) + v) / p, 0.0, x)
def less(x: n=>Float, p: Float) -> n=>Float = scan(lambda g, v: p * (v - g), 0.0, x)
"""


def test_divided_by_once() -> None:
    """With `@fast`, and nowhere else; every element the same way, whatever its lane."""
    fast, plain = nap.compile(QUOTIENTS, math="fast"), nap.compile(QUOTIENTS)
    r = np.random.default_rng(1)
    for dtype in ("f8", "f4"):
        for m in (1, 7, 40, 77):
            x, d = r.normal(size=(5, m)).astype(dtype), r.normal(size=5).astype(dtype)
            once = (1 / d).astype(dtype)
            assert np.array_equal(fast.rows(x, d), x * once[:, None])
            assert np.array_equal(plain.rows(x, d), x / d[:, None])
    x = r.normal(size=1000)
    np.testing.assert_allclose(fast.smoothed(x, 14), plain.smoothed(x, 14), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(fast.less(x, 0.3), plain.less(x, 0.3), rtol=1e-12, atol=1e-15)
    text = fast.smoothed.show("llvm")
    body = text[text.index("body") :]
    assert "fdiv" in text
    assert "fdiv" not in body[body.index("phi") :]
