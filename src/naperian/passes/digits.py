"""A loop that takes its index apart becomes a loop over each part. loops → loops

    before   for i in 0..n: store y[i] = x[i // m, i % m] if i // m == 0 else 0.0
    after    for p in 0..n // m:
                 for q in 0..m: store y[m * p + q] = x[p, q] if p == 0 else 0.0
             for i in m * (n // m)..n: …                                as before: mostly nothing

So a table that is seen under other index sets (`as`) is neither divided for nor tested for, element
by element. Where m is known to divide n there is no rest, and a few p are written out, which
decides what tests them. Only variable m are worth it: for numbers, LLVM knows what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Apply,
    Expr,
    Fail,
    Let,
    Load,
    Loop,
    Number,
    Order,
    Program,
    Stmt,
    Variable,
    While,
)
from naperian.loops.walk import (
    atoms,
    expressions,
    index_expressions,
    parts,
    rebuild,
    remade,
    statements,
)
from naperian.names import Lit, Var, fresh
from naperian.passes.unswitch import assumed, wanted
from naperian.sizes import ZERO, Atom, Clamp, Quotient, Remainder, Size, divided, natural, size

_FEW = 4  # so many rounds of an outer part are written out
_DEEP = 3  # parts that are taken apart again


def digits(program: Program) -> Program:
    """See the module."""
    return replace(program, body=_block(program.body))


def _block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Loop) and s.order is not Order.SERIAL:
            out += _apart(s, _DEEP)
        else:
            out.append(rebuild(s, _block))
    return tuple(out)


def _apart(s: Loop, left: int) -> tuple[Stmt, ...]:
    """The loop over the parts of its index, and the loop over the rest."""
    below = _below(s) if left else None
    if below is None:
        return (replace(s, body=_block(s.body)),)
    outer, inner = fresh(s.var), fresh(s.var)
    whole = divided(s.high, below)
    count = natural(s.high // below) if whole is None else whole
    known: dict[Atom, Size] = {
        Quotient(size(s.var), below): size(outer),
        Remainder(size(s.var), below): size(inner),
        s.var: outer * below + inner,
    }
    row = Loop(
        inner, ZERO, below, remade(s.body, known.get), Order.FREE, s.reductions, s.work
    )  # fmt: skip
    rounds = count.constant
    if whole is not None and rounds is not None and rounds <= _FEW:
        made = [_written_out(row, outer, k) for k in range(rounds)]
        return tuple(x for r in made for x in _apart(r, left - 1))
    rows = _apart(row, left - 1)
    head = replace(s, var=outer, high=count, body=rows, work=s.work * below)
    if whole is not None:
        return (head,)
    rest = fresh(s.var)
    atom: dict[Atom, Size] = {s.var: size(rest)}
    tail = remade(s.body, atom.get)
    order = s.order if s.order is Order.PARALLEL else Order.SERIAL  # not worth a vector's code
    return (head, replace(s, var=rest, low=count * below, body=tail, order=order))


def _below(s: Loop) -> Size | None:
    """What the index is divided by, as often as by anything else; none of it may change in the
    loop."""
    if s.low != ZERO or (s.order is Order.PARALLEL and s.reductions):
        return None
    if any(isinstance(x, While | Fail) for x in statements(s.body)):
        return None
    bound = {s.var}
    for x in statements(s.body):
        if isinstance(x, Let | Variable | Loop):
            bound.add(x.var)
    found: dict[Size, int] = {}
    for a in _divisions(s):
        inner = list(atoms(a.below))
        if a.above == size(s.var) and inner:
            if not any(isinstance(v, Load) or v in bound for v in inner):
                found[a.below] = found.get(a.below, 0) + 1
    return max(found, key=lambda n: found[n]) if found else None


def _divisions(s: Loop) -> Iterator[Quotient | Remainder]:
    """What index expressions in the body divide."""
    work = [n for x in statements(s.body) for n in index_expressions(x)]
    while work:
        for a in work.pop().atoms():
            match a:
                case Quotient(above, below) | Remainder(above, below):
                    yield a
                    work += [above, below]
                case Clamp(above, below):
                    work += [above, below]
                case Load(_, at):
                    work += at
                case _:
                    pass


def _written_out(s: Loop, var: Var, k: int) -> Loop:
    """The loop in the k-th round of the one around it."""
    atom: dict[Atom, Size] = {var: size(k)}
    body = remade(s.body, atom.get)
    known: dict[Expr, bool] = {}
    definitions: dict[Var, Expr] = {}
    for x in statements(body):
        if isinstance(x, Let) and x.dtype is DType.BOOL:
            definitions[x.var] = x.value
        for top in expressions(x):
            for e in parts(top):
                holds = _holds(e)
                if holds is not None:
                    known[e] = holds
    return replace(s, body=wanted(assumed(body, known, definitions)))


def _holds(e: Expr) -> bool | None:
    """Whether a comparison of numbers holds."""
    match e:
        case Apply("eq" | "ne" | "lt" | "le" as name, (x, y)):
            a, b = _constant(x), _constant(y)
            if a is None or b is None:
                return None
            return {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b}[name]
        case _:
            return None


def _constant(e: Expr) -> int | None:
    match e:
        case Number(value):
            return value.constant
        case Lit(int(value)):
            return value
        case _:
            return None
