"""The pass that drops what nobody reads keeps results, failures and what decides over them."""

from __future__ import annotations

import numpy as np

import naperian as nap
from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Assign,
    Buffer,
    Fail,
    Let,
    Load,
    Local,
    Loop,
    Order,
    Program,
    Reduction,
    Role,
    Store,
    Variable,
    When,
)
from naperian.names import Lit, Var
from naperian.passes.nests.unread import unread
from naperian.sizes import ONE, ZERO, size

F64, BOOL = DType.F64, DType.BOOL
ZERO_F64 = Lit(0.0, F64)


def test_what_leads_to_nothing_goes() -> None:
    n, i, j, x, out = (Var(v) for v in ("n", "i", "j", "x", "out"))
    dead, total, kept, test = (Var(v) for v in ("dead", "total", "kept", "test"))
    given = Buffer(x, F64, (size(n),), Role.IN)
    result = Buffer(out, F64, (size(n),), Role.OUT)
    read = Load(x, (size(i),))
    body = (
        Allocate(Buffer(dead, F64, (size(n),), Role.TEMP)),
        Variable(total, F64, ZERO_F64),
        Variable(kept, F64, ZERO_F64),
        Loop(
            i, ZERO, size(n),
            (
                Store(dead, (size(i),), read),
                Assign(total, Load(dead, (size(i),))),
                Assign(kept, read),
            ),
            Order.FREE,
            (Reduction(total, "add", F64), Reduction(kept, "add", F64)),
        ),
        Loop(j, ZERO, ONE, (When(Lit(True, BOOL), (Let(Var("u"), F64, ZERO_F64),)),), Order.SERIAL),
        Let(test, BOOL, Lit(False, BOOL)),
        Fail(Local(test), 0),
        Loop(i, ZERO, size(n), (Store(out, (size(i),), Local(kept)),), Order.FREE),
    )
    left = unread(Program("f", (n,), (given, result), body)).body
    assert [type(s).__name__ for s in left] == ["Variable", "Loop", "Let", "Fail", "Loop"]
    first = left[1]
    assert isinstance(first, Loop)
    assert [r.var for r in first.reductions] == [kept]
    assert first.body == (Assign(kept, read),)


def test_a_guard_that_cuts_its_loop_is_not_stored_for_every_index() -> None:
    """Its array would have had n·steps·n elements."""
    m = nap.compile("""
def heat(u: Fin(n)=>Float, steps: Int) -> Fin(n)=>Float:
    loop u = u for _ in Fin(steps):
        [u[i] + 0.1 * (u[clamp(i - 1)] - 2 * u[i] + u[clamp(i + 1)]) for i]

def loss(u: Fin(n)=>Float, steps: Int) -> Float = sum(heat(u, steps) ** 2)
""")
    slope = nap.grad(m.loss)
    assert "steps), n]" not in slope.show("loops")
    u = np.random.default_rng(0).normal(size=2000)
    step, at = 1e-6, np.eye(2000)[7]
    near = (m.loss(u + step * at, 9) - m.loss(u - step * at, 9)) / (2 * step)
    assert np.isclose(slope(u, 9)[7], near, rtol=1e-6)
