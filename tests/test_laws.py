"""Every law of `simplify`: both sides run on hazard values and agree bit for bit (which NaN a NaN
is stays open), and every rule is seen to fire."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from naperian.ainf.check import check
from naperian.ainf.parse import parse
from naperian.ainf.run import run
from naperian.ainf.show import show
from naperian.ainf.syntax import Program
from naperian.dtypes import DType
from naperian.names import Lit
from naperian.passes.algebra.laws import rules
from naperian.passes.algebra.simplify import REDUCTION_LAWS, SCALAR_RULES, simplify
from naperian.passes.bindings.ranges import INDEX_LAWS

HAZARDS: dict[DType, list[Any]] = {
    d: [
        np.dtype(d.value).type(v)
        for v in (0.0, -0.0, 1.0, -1.0, 2.5, -0.5, 1e30, 5e-324, 1e-45, np.inf, -np.inf, np.nan)
    ]
    for d in (DType.F32, DType.F64)
}
HAZARDS[DType.F64] += [np.float64(1e308), np.float64(-1e308), np.float64(2.2250738585072014e-308)]
for _d in (DType.I8, DType.I32, DType.I64, DType.U8):
    _info = np.iinfo(_d.value)
    _t = np.dtype(_d.value).type
    HAZARDS[_d] = [_t(v) for v in {0, 1, 2, 7, _info.min, _info.max, _info.min + 1, _info.max - 1}]
    if _d.is_signed:
        HAZARDS[_d] += [_t(-1), _t(-2)]
HAZARDS[DType.BOOL] = [np.bool_(False), np.bool_(True)]


def one(expression: str, *dtypes: str, before: tuple[str, ...] = ()) -> list[str]:
    """A program for each dtype: `expression` over x, y (and c: BOOL), after lines `before`."""
    out = []
    for d in dtypes or ("F64", "F32"):
        suffix = "" if d in ("F64", "I64", "BOOL") else f":{d}"
        lines = [f"def law(; x: {d}, y: {d}, c: BOOL):"]
        lines += [f"  u{k} = {line}" for k, line in enumerate(before)]
        lines += [f"  r = {expression}", "  return r"]
        out.append("\n".join(lines).replace("$", suffix))
    return out


ALL_INTS = ("I64", "I32", "I8", "U8")
FLOATS = ("F64", "F32")

LAWS: dict[str, list[str]] = {
    "stopped": one("stop_gradient(x)", *FLOATS),
    "fold": [
        *one("mul(2.0, 3.0)", "F64"),
        *one("exp(0.0)", "F64"),
        *one("cast[I8](300)", "F64"),
        *one("add(100:I8, 100:I8)", "I8"),
        *one("lt(nan, nan)", "F64"),
    ],
    "add_nothing": [*one("add(x, -0.0$)"), *one("add(-0.0$, x)"), *one("add(x, 0$)", *ALL_INTS)],
    "subtract_nothing": [*one("sub(x, 0.0$)"), *one("sub(x, 0$)", *ALL_INTS)],
    "subtract_from_nothing": [*one("sub(-0.0$, x)"), *one("sub(0$, x)", *ALL_INTS)],
    "add_negated": [
        *one("add(x, u0)", *FLOATS, *ALL_INTS, before=("neg(y)",)),
        *one("add(u0, y)", *FLOATS, *ALL_INTS, before=("neg(x)",)),
    ],
    "subtract_negated": one("sub(x, u0)", *FLOATS, *ALL_INTS, before=("neg(y)",)),
    "cancel": [
        *one("sub(x, x)", *ALL_INTS),
        *one("bitxor(x, x)", *ALL_INTS),
        *one("xor(x, x)", "BOOL"),
    ],
    "twice": [
        *one("neg(u0)", *FLOATS, *ALL_INTS, before=("neg(x)",)),
        *one("not(u0)", "BOOL", before=("not(x)",)),
        *one("bitnot(u0)", *ALL_INTS, before=("bitnot(x)",)),
    ],
    "multiply_by_one": [*one("mul(x, 1.0$)"), *one("mul(1.0$, x)"), *one("mul(x, 1$)", *ALL_INTS)],
    "by_minus_one": [
        *one("mul(x, -1.0$)"),
        *one("div(x, -1.0$)"),
        *one("mul(x, -1$)", "I64", "I32"),
        *one("floordiv(x, -1$)", "I64", "I8"),
    ],
    "by_zero": [*one("mul(x, 0$)", *ALL_INTS), *one("bitand(0$, x)", *ALL_INTS)],
    "signs": [
        *one("mul(u0, u1)", *FLOATS, *ALL_INTS, before=("neg(x)", "neg(y)")),
        *one("div(u0, u1)", before=("neg(x)", "neg(y)")),
    ],
    "sign_into_constant": [
        *one("mul(u0, 2.5$)", before=("neg(x)",)),
        *one("mul(-0.0$, u0)", before=("neg(x)",)),
        *one("mul(u0, 3$)", *ALL_INTS, before=("neg(x)",)),
    ],
    "square_of_size": one("mul(u0, u0)", before=("abs(x)",)),
    "divide_by_one": one("div(x, 1.0$)"),
    "divide_by_power_of_two": [*one("div(x, 8.0$)"), *one("div(x, -0.25$)")],
    "divide_by_unit": [*one("floordiv(x, 1$)", *ALL_INTS), *one("mod(x, 1$)", *ALL_INTS)],
    "small_power": [
        *one("pow(x, 2.0$)"),
        *one("pow(x, 1.0$)"),
        *one("pow(x, 0.0$)"),
        *one("pow(x, 2$)", *ALL_INTS),
        *one("pow(x, 0$)", *ALL_INTS),
    ],
    "power_of_one": [*one("pow(1.0$, x)"), *one("pow(1$, x)", *ALL_INTS)],
    "idempotent": [
        *one("min(x, x)", *FLOATS, *ALL_INTS),
        *one("max(x, x)"),
        *one("and(x, x)", "BOOL"),
        *one("or(x, x)", "BOOL"),
        *one("bitand(x, x)", *ALL_INTS),
        *one("bitor(x, x)", "I64"),
    ],
    "beyond": [
        *one("min(x, inf$)"),
        *one("max(x, -inf$)"),
        *one("min(x, 127$)", "I8"),
        *one("max(-128$, x)", "I8"),
        *one("max(x, 0$)", "U8"),
        *one("min(x, 255$)", "U8"),
    ],
    "size_forgets_sign": [
        *one("abs(u0)", *FLOATS, "I64", "I8", before=("neg(x)",)),
        *one("abs(u0)", before=("copysign(x, y)",)),
    ],
    "size_of_size": one("abs(u0)", *FLOATS, *ALL_INTS, before=("abs(x)",)),
    "sign_is_replaced": [
        *one("copysign(u0, y)", before=("neg(x)",)),
        *one("copysign(u0, y)", before=("abs(x)",)),
    ],
    "own_sign": one("copysign(x, x)"),
    "rounded_already": [
        p
        for f, g in product(("floor", "ceil", "round", "trunc"), repeat=2)
        for p in one(f"{f}(u0)", before=(f"{g}(x)",))
    ],
    "no_bits": [*one("bitor(x, 0$)", *ALL_INTS), *one("bitxor(0$, x)", *ALL_INTS)],
    "all_bits": [*one("bitand(x, -1$)", "I64", "I8"), *one("bitand(x, 255$)", "U8")],
    "no_shift": [*one("shl(x, 0$)", *ALL_INTS), *one("shr(x, 0$)", *ALL_INTS)],
    "with_constant": [
        p
        for f in ("and", "or", "xor", "eq", "ne")
        for b in ("True", "False")
        for p in (*one(f"{f}(x, {b})", "BOOL"), *one(f"{f}({b}, x)", "BOOL"))
    ],
    "not_equal": [
        *one("not(u0)", *FLOATS, "I64", "BOOL", before=("eq(x, y)",)),
        *one("not(u0)", *FLOATS, "I64", before=("ne(x, y)",)),
    ],
    "with_itself": [
        p
        for f in ("eq", "ne", "lt", "le", "gt", "ge")
        for p in one(f"{f}(x, x)", "I64", "U8", *(FLOATS if f in ("lt", "gt") else ()))
    ],
    "told_by_bounds": [
        *(
            p
            for c, before, ds in (
                ("le(u0, 100$)", "bitand(x, 100$)", ALL_INTS),
                ("ge(u0, 0$)", "bitand(100$, x)", ALL_INTS),
                ("lt(u0, 32$)", "shr(x, 3$)", ("I8", "U8")),
                ("ge(u0, -16$)", "shr(x, 3$)", ("I8",)),
                ("gt(u0, 7$)", "mod(x, 7$)", ALL_INTS),
                ("lt(u0, -43$)", "floordiv(x, 3$)", ("I8",)),
                ("ne(u0, 9$)", "min(x, 8$)", ALL_INTS),
                ("eq(u0, 1$)", "max(x, 8$)", ALL_INTS),
                ("le(u0, 2$)", "select(c, 1$, 2$)", ALL_INTS),
            )
            for p in one(c, *ds, before=(before,))
        ),
        *one("le(u2, 4$)", *ALL_INTS, before=("mod(x, 3$)", "mod(y, 3$)", "mul(u0, u1)")),
        *one("le(u2, 2$)", "I64", "I8", before=("mod(x, 3$)", "mod(y, 3$)", "sub(u0, u1)")),
        *one("ge(u2, 0$)", "I64", "I8", before=("mod(x, 3$)", "neg(u0)", "abs(u1)")),
        *one("le(u0, 255:I32)", "U8", before=("cast[I32](x)",)),
    ],
    "chosen": [*one("select(True, x, y)"), *one("select(False, x, y)"), *one("select(c, x, x)")],
    "choice_of_truth": [
        *one("select(c, True, False)", "BOOL"),
        *one("select(c, False, True)", "BOOL"),
    ],
    "choice_by_not": one("select(u0, x, y)", *FLOATS, before=("not(c)",)),
    "same_choice_again": [
        *one("select(c, u0, x)", before=("select(c, x, y)",)),
        *one("select(c, y, u0)", before=("select(c, y, x)",)),
    ],
    "cast_of_same": [*one("cast[F64](x)", "F64"), *one("cast[I8](x)", "I8")],
    "cast_of_wider": [
        *one("cast[I8](u0)", "F32", before=("cast[F64](x)",)),
        *one("cast[F64](u0)", "I32", "U8", before=("cast[I64](x)",)),
        *one("cast[I8](u0)", "I32", before=("cast[I64](x)",)),
    ],
    "bitcast_back": [
        *one("bitcast[F64](u0)", "F64", before=("bitcast[I64](x)",)),
        *one("bitcast[I32](u0)", "I32", before=("bitcast[F32](x)",)),
    ],
}

# Laws that need more than one operation: a whole program over a[3], with sizes n = 0 … 4.
PROGRAMS: dict[str, list[str]] = {
    "clamp_in_range": [
        "def f(n; a: F64[n]):\n  return for i<n: a[clamp(i, n)]",
        "def f(n; a: F64[n]):\n  return for i<n: a[clamp(i - n, n)]",
        "def f(n; a: F64[n]):\n  return for i<n: a[clamp(i + n, n)]",
    ],
    "exact": [
        "def f(n; a: F64[n]):\n  for i<n: v = add(i, -1)\n  return for i<n: a[clamp(v[i], n)]",
        "def f(n; a: F64[n]):\n  for j<4: v = sub(2, j)\n"
        "  return for i<n, j<4: a[clamp(i + v[j], n)]",
        "def f(n; a: F64[n]):\n  for i<n: v = mul(i, 2)\n  for i<n, j<3: w = sub(v[i], j)\n"
        "  return for i<n, j<3: a[wrap(w[i, j], n)]",
    ],
    "whole_quotient": [
        "def f(n; a: F64[n]):\n  return for i<n, j<3: a[((3 * i + j) // (3))]",
        "def f(n; a: F64[n]):\n  for i<n, j<n: v = cast[F64](((n * i + j + 1) // (n)))\n"
        "  return for i<n, j<n: v[i, j]",
    ],
    "whole_remainder": [
        "def f(n; a: F64[n]):\n  return for i<n, j<n: a[wrap(n * i + j, n)]",
        "def f(n; a: F64[n]):\n  return for i<n, j<n: a[wrap(n * i + j + 1, n)]",
    ],
    "nothing_to_reduce": [
        "def f(n; a: F64[n]):\n  v = add over i<0 of a[i] from -0.0\n  return v",
        "def f(n; a: F64[n]):\n  for i<n: c = lt(i, 0)\n"
        "  v = add over i<n of a[i] if c[i] (-i - 1 >= 0) from -0.0\n  return v",
        "def f(n; a: F64[n]):\n  for i<n: c = ge(i, 0)\n"
        "  v = max over i<n of a[i] if not c[i] (-i - 1 >= 0) from 0.5\n  return v",
    ],
    "only_one": [
        "def f(n; a: F64[n]):\n  for j<n: v = add over i<1 of a[i + j] from -0.0\n"
        "  return for j<n: v[j]",
        "def f(n; a: F64[n]):\n  for j<n: v = max over i<1 of a[i + j] from -inf\n"
        "  return for j<n: v[j]",
        "def f(n; a: F64[n]):\n  v = argmax over i<1 of -1.0 from 0\n  return v",
    ],
    "of_units": [
        "def f(n; a: F64[n]):\n  v = add over i<n of -0.0 from 2.0\n  return v",
        "def f(n; a: F64[n]):\n  v = add over i<n of 0.0 from 0.0\n  return v",
        "def f(n; a: F64[n]):\n  v = mul over i<n of 1.0 from 0.5\n  return v",
        "def f(n; a: F64[n]):\n  v = and over i<n of True from False\n  return v",
    ],
    "of_the_same": [
        "def f(n; a: F64[n]):\n  for j<n: v = max over i<n of a[j] from 0.5\n"
        "  return for j<n: v[j]",
        "def f(n; a: F64[n]):\n  for j<n: v = min over i<3, k<j + 1 of a[j] from -0.0\n"
        "  return for j<n: v[j]",
    ],
    "checked": [
        "def f(n; a: F64[n]):\n  for i<n: k = checked(clamp(i + 1, n), n) else 1\n"
        '  return for i<n: a[k[i]]\n  error 1 "out"',
    ],
    "unchanging": [
        "def f(n; a: F64[n]):\n  for i<n, u<n + 1: s = delay over t<n from a[i] next s[i, t]\n"
        "  return for i<n: s[i, n]",
        "def f(n; a: F64[n]):\n  for i<n, u<n + 1: s = delay over t<n from 1.5 next v[i, t]\n"
        "  for i<n, t<n: v = add(s[i, t], -0.0)\n  return for i<n: s[i, i + 1]",
    ],
    "decided": [
        f"def f(n; a: F64[n]):\n  for i<n: v = {c}\n  return for i<n: v[i]"
        for c in ("lt(i, n)", "ge(i, 0)", "le(i + 1, n)", "gt(i, i + 1)", "eq(i, n)", "ne(i, -1)",
                  "eq(i, i)")
    ],
    "under_guards": [
        "def f(n; a: F64[n]):\n  for i<n: c = gt(a[i], 0.0)\n"
        "  for i<n if c[i]: v = select(c[i], a[i], 7.0)\n"
        "  for i<n: w = select(c[i], v[i], 8.0)\n  return for i<n: w[i]",
        "def f(n; a: F64[n]):\n  for i<n: c = gt(a[i], 0.0)\n"
        "  for i<n if not c[i]: v = select(c[i], a[i], 7.0)\n"
        "  for i<n: w = select(c[i], 8.0, v[i])\n  return for i<n: w[i]",
    ],
}  # fmt: skip


def bits(value: Any) -> tuple[str, bytes]:
    """The dtype and the bits, with one NaN for all."""
    array = np.asarray(value)
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return str(array.dtype), array.tobytes()


def simplified(program: Program, rule: str) -> Program:
    fired: set[str] = set()
    new = simplify(program, lambda r: fired.add(r.__name__))
    check(program)
    check(new)
    assert rule in fired, f"{rule} did not fire:\n{show(program)}"
    return new


@pytest.mark.parametrize("rule", LAWS)
def test_law(rule: str) -> None:
    for text in LAWS[rule]:
        before = parse(text)
        after = simplified(before, rule)
        given = [HAZARDS[p.dtype] for p in before.params]
        for args in product(*given):
            wanted, found = run(before, [], args), run(after, [], args)
            assert bits(found[0]) == bits(wanted[0]), f"{text}\nat {args}"


@pytest.mark.parametrize("rule", PROGRAMS)
def test_law_of_programs(rule: str) -> None:
    for text in PROGRAMS[rule]:
        before = parse(text)
        after = simplified(before, rule)
        for n in range(5):
            a = np.array([-0.0, 1.5, -2.0, 0.0][:n])
            wanted, found = run(before, [n], [a]), run(after, [n], [a])
            assert bits(found[0]) == bits(wanted[0]), f"{text}\nat n = {n}"


def test_every_rule_is_tried() -> None:
    every = [*rules(), *INDEX_LAWS, *REDUCTION_LAWS, *SCALAR_RULES]
    assert {r.__name__ for r in every} == {*LAWS, *PROGRAMS}
    assert all(r.__doc__ for r in every)


@pytest.mark.parametrize(
    "expression",
    ["add(x, 0.0)", "sub(x, x)", "mul(x, 0.0)", "pow(x, 0.5)", "eq(x, x)", "div(x, 3.0)",
     "sub(0.0, x)", "div(x, 5e-324)", "min(x, -inf)"],
)  # fmt: skip
def test_tempting_but_wrong(expression: str) -> None:
    (text,) = one(expression, "F64")
    program = parse(text)
    assert show(simplify(program)) == show(program)


@pytest.mark.parametrize(
    ("sizes", "operation"),
    [("n", "mul(i, 3)"), ("n", "mul(i, -3)"), ("n", "mul(i, i)"), ("3 * n", "add(i, 1)"),
     ("9", "mul(i, 1152921504606846976)"), ("n", "add(i, 4611686018427387906)")],
)  # fmt: skip
def test_what_may_wrap_stays_an_operation(sizes: str, operation: str) -> None:
    text = f"def f(n; a: F64[n]):\n  for i<{sizes}: v = {operation}\n  return for i<{sizes}: v[i]\n"
    program = parse(text)
    assert show(simplify(program)) == show(program)


def test_literals_differ_by_sign_and_type() -> None:
    zero = Lit(0.0, DType.F64)
    assert zero != Lit(-0.0, DType.F64)
    assert zero != Lit(0, DType.I64)
    assert zero != Lit(0.0, DType.F32)
    assert Lit(1, DType.I64) != Lit(True, DType.BOOL)
    assert Lit(float("nan"), DType.F64) == Lit(float("nan"), DType.F64)


@pytest.mark.parametrize(
    ("comparison", "dtype", "before"),
    [
        ("ge(u0, 0$)", "I8", "abs(x)"),  # not of the least
        ("ge(u0, 200$)", "U8", "add(x, 200$)"),  # wraps
        ("ge(u0, 0$)", "I8", "cast[I8](y)"),  # of an I32
        ("le(u0, 126$)", "U8", "shr(x, 1$)"),
    ],
)
def test_bounds_that_say_nothing(comparison: str, dtype: str, before: str) -> None:
    (text,) = one(comparison, dtype, before=(before.replace("$", f":{dtype}"),))
    program = parse(text.replace("y: I8", "y: I32"))
    fired: set[str] = set()
    simplify(program, lambda r: fired.add(r.__name__))
    assert "told_by_bounds" not in fired
