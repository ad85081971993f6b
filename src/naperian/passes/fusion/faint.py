"""What a sum is multiplied with is 0 where it is next to nothing. ainf → ainf

    before   for i, k:     w = mul(c[i], exp[i, k])           a cotangent of an exponential
             for i, k, a:  u = mul(w[i, k], y[i, k, a])
    after    for i, k:     v = mul(c[i], exp[i, k])
             for i, k:     w = select(lt(abs(v[i, k]), 1e-303), 0.0, v[i, k])

An exponential that vanishes is subnormal on the way to zero, and so is all it is multiplied with:
on many processors such a product takes a hundred times as long. The weights of a mixture's
components go through that range for every point: in 64 dimensions its gradient took 40 functions.

Only of cotangents, in which all that follows is linear, so that what is left out is as small as
it looks; and only where it is multiplied in more loops than it is made in.
"""

from __future__ import annotations

from naperian.ainf.syntax import Binding, Op, Program, Read
from naperian.ainf.walk import reads
from naperian.dtypes import DType
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.prims import Math
from naperian.sizes import places

_LEAST = {DType.F64: 2.0**-1006, DType.F32: 2.0**-110}  # normal, and so are most products of it
_VANISHING = frozenset({"exp", "exp2", "sigmoid"})
_SLOPE = 3  # operations between an exponential and the cotangent that it is a factor of
_LINEAR = frozenset({"mul", "neg", "add", "sub", "select", "copy"})


def faint(program: Program) -> Program:
    """See the module."""
    if program.math is Math.STRICT:
        return program
    made = {b.var: b for b in program.bindings}
    found = {b.var for b in program.bindings if _vanishes(b, made)}
    if not found:
        return program
    deep = _deep(program, found)
    out: list[Binding] = []
    for b in program.bindings:
        out += _cleared(b) if b.var in deep else (b,)
    return replace(program, bindings=tuple(out))


def _vanishes(b: Binding, made: dict[Var, Binding]) -> bool:
    """Whether a binding is the cotangent of what an exponential is made of."""
    is_one = isinstance(b.prim, Op) and b.prim.name == "mul" and b.dtype in _LEAST
    return is_one and b.origin.slope.startswith("cotangent") and _is_product(b, made, _SLOPE)


def _is_product(b: Binding, made: dict[Var, Binding], steps: int) -> bool:
    """Whether an exponential is a factor."""
    if not isinstance(b.prim, Op):
        return False
    if b.prim.name in _VANISHING:
        return True
    factors = (made[x.var] for x in b.prim.args if isinstance(x, Read) and x.var in made)
    return b.prim.name == "mul" and steps > 0 and any(
        _is_product(x, made, steps - 1) for x in factors
    )  # fmt: skip


def _deep(program: Program, found: set[Var]) -> set[Var]:
    """Those that are multiplied in more loops than they are made in, and made of none of them."""
    of: dict[Var, set[Var]] = {}  # what is made of which, in order
    depth = {b.var: len(b.context) for b in program.bindings}
    out: set[Var] = set()
    for b in program.bindings:
        from_ = set().union(*(of.get(r.var, ()) for r in reads(b)))
        if isinstance(b.prim, Op) and b.prim.name in _LINEAR and from_:
            of[b.var] = from_
            out |= {v for v in from_ if b.prim.name == "mul" and len(b.context) > depth[v]}
        elif b.var in found:
            of[b.var] = {b.var}
    return out


def _cleared(b: Binding) -> tuple[Binding, ...]:
    """The binding under another name, and under its own, what is left of it."""
    value = replace(b, var=fresh(b.var))
    here = Read(value.var, places(b.context))
    amount = replace(b, var=Var("amount"), prim=Op("abs", (here,)))
    least = Lit(_LEAST[b.dtype], b.dtype)
    condition = Op("lt", (Read(amount.var, here.at), least))
    nothing = replace(b, var=Var("faint"), prim=condition, dtype=DType.BOOL)
    chosen = Op("select", (Read(nothing.var, here.at), Lit(0.0, b.dtype), here))
    return value, amount, nothing, replace(b, prim=chosen)
