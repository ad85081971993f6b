"""Rows that are found in the run one after the other, as one row.

    rows: Fin(n)=>(exists k. Fin(k)=>a)

    counts = [size(rows[i]) for i]
    ends = the sums of counts so far
    owner = the row that each element is of
    [rows[owner[p]][p - start of that] for p]
"""

from __future__ import annotations

from naperian.core.syntax import (
    Add,
    At,
    Box,
    Carried,
    Cell,
    Expr,
    For,
    Handle,
    Let,
    Number,
    Part,
    Reduce,
    Ref,
    Scan,
    Unbox,
)
from naperian.names import Var
from naperian.sizes import ZERO, size
from naperian.types import INT, Exists, Fin, Table


def joined(e: Expr, s: Fin, kind: Exists) -> Expr:
    """A table of boxes of rows, as one box of type `kind`."""
    rows, counts, ends, owner, total = map(Var, ("rows", "counts", "ends", "owner", "total"))
    all_ = Fin(size(total))
    lets = (
        (rows, e),
        (counts, _counts(rows, s)),
        (ends, _ends(counts, s)),
        (total, _total(counts, s)),
        (owner, _owners(counts, ends, s, all_)),
    )
    p, i, n, last = map(Var, ("p", "i", "n", "last"))
    m, x = Var("m"), Var("x")
    place = Number(size(p) - size(last) + size(n))
    element = Unbox((m,), x, At(Ref(rows), Ref(i), s), At(Ref(x), place, Fin(size(m))))
    named = Let(n, At(Ref(counts), Ref(i), s), Let(last, At(Ref(ends), Ref(i), s), element))
    mine = Let(i, At(Ref(owner), Ref(p), all_), named)
    made: Expr = Box(kind, (size(total),), For(p, all_, mine))
    for v, value in reversed(lets):
        made = Let(v, value, made)
    return made


def _counts(rows: Var, s: Fin) -> Expr:
    i, k, x = Var("i"), Var("k"), Var("x")
    return For(i, s, Unbox((k,), x, At(Ref(rows), Ref(i), s), Number(size(k))))


def _ends(counts: Var, s: Fin) -> Expr:
    so_far, i, n = Var("end"), Var("i"), Var("n")
    end = Let(n, At(Ref(counts), Ref(i), s), Number(size(so_far) + size(n)))
    return Scan((Carried(so_far, INT, Number(ZERO)),), i, s, end)


def _total(counts: Var, s: Fin) -> Expr:
    i = Var("i")
    return Reduce("add", i, s, Number(ZERO), At(Ref(counts), Ref(i), s), INT)


def _owners(counts: Var, ends: Var, s: Fin, all_: Fin) -> Expr:
    made, i, j, n, last = map(Var, ("owner", "i", "j", "n", "last"))
    place = Number(size(last) - size(n) + size(j))
    each = For(j, Fin(size(n)), Add(At(Ref(made), place, all_), Number(size(i))))
    inner = Let(n, At(Ref(counts), Ref(i), s), Let(last, At(Ref(ends), Ref(i), s), each))
    none = For(Var("p"), all_, Number(ZERO))
    return Part(Handle((Cell(made, Table(all_, INT), none, "add"),), For(i, s, inner)), 1)
