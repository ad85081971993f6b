"""Which sizes are products of others, because the run would have stopped.

    m = n // (2 * l)
    fail 1 if not(2 * l * m == n)
    for i in 0..n: …                        n is 2 * l * m, which m divides
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from naperian.dtypes import DType
from naperian.loops.syntax import Apply, Assign, Expr, Fail, Let, Local, Number, Stmt
from naperian.loops.walk import statements, used_in
from naperian.names import Lit, Var
from naperian.sizes import Atom, Size, size

Products: TypeAlias = Mapping[Atom, Size]


def products(body: tuple[Stmt, ...], known: Products) -> Iterator[Products]:
    """What is known at each statement of a block, inside of it, too, if `known` is before it."""
    named: dict[Var, Size] = {}
    said: dict[Var, Products] = {}
    for s in body:
        changed = {x.var for x in statements((s,)) if isinstance(x, Assign)}
        if changed:
            known = _without(known, changed)
            named = {v: n for v, n in named.items() if changed.isdisjoint(used_in(n))}
            said = {v: _without(facts, changed) for v, facts in said.items()}
        yield known
        match s:
            case Let(var, DType.I64, value):
                n = _number(value, named)
                if n is not None:
                    named[var] = n
            case Let(var, DType.BOOL, value):
                said[var] = _learnt(value, named, said)
            case Fail(Apply("not", (holds,))):
                known = {**known, **_learnt(holds, named, said)}
            case _:
                pass


def _without(known: Products, changed: set[Var]) -> Products:
    return {a: n for a, n in known.items() if changed.isdisjoint({a, *used_in(n)})}


def _learnt(e: Expr, named: Mapping[Var, Size], said: Mapping[Var, Products]) -> Products:
    """What a condition that holds says."""
    match e:
        case Local(var):
            return said.get(var, {})
        case Apply("and", (x, y)) | Apply("select", (x, y, Lit(False))):
            return {**_learnt(x, named, said), **_learnt(y, named, said)}
        case Apply("eq", (x, y)):
            for one, other in ((x, y), (y, x)):
                n, product = _number(one, {}), _number(other, named)
                if n is not None and isinstance(n.single, Var) and product is not None:
                    return {n.single: product}
            return {}
        case _:
            return {}


def _number(e: Expr, named: Mapping[Var, Size]) -> Size | None:
    """A number that others are multiplied or divided to."""
    match e:
        case Number(value):
            return value
        case Lit(int(value), DType.I64):
            return size(value)
        case Local(var):
            return named.get(var, size(var))
        case Apply("mul" | "floordiv" as name, (x, y), DType.I64):
            one, other = _number(x, named), _number(y, named)
            if one is None or other is None:
                return None
            return one * other if name == "mul" else one // other
        case _:
            return None
