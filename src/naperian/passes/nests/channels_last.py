"""Sums through windows of arrays whose channels lie last are as long as they can be. loops → loops

    before   contract out[i, j, c] = m[i - r + 2, j - s + 2, o] * k[r, s, c, o]
                 rows i < h, j < w; columns c < n; inner o < l, r < 3, s < 3

    after    for r in 0..3: for s in 0..3: for o in 0..l: for c in 0..n:
                 store k'[r, s, o, c] = k[2 - r, 2 - s, c, o]
             contract out[i, j, c] = m[i + r, j + s, o] * k'[r, s, o, c]
                 rows i < h, j < w; columns c < n; inner r < 3, s < 3, o < l

A window's row with all of its channels lies side by side, and is one loop of a product if the loops
go forwards and in the order of the array's axes. There is a product for every row of the image and
of the window; each would copy the other factor, whose columns lie apart, so it is copied before.
(Not a row's windows that the other factor goes along with: that is one product for each row.)

    before   contract out[r, s, c, o] = y[i, j, o] * x[i + r, j + s, c]        inner i < h, j < w

    after    contract out'[o, r, s, c] = y[i, j, o] * x[i + r, j + s, c]
             for o: for r in 0..3: for s in 0..3: for c: store out[r, s, c, o] = out'[o, r, s, c]

Where the places of a window are columns, they lie side by side in the result, too: the sum over the
pixels is one. Else there is a product for each row of pixels, which is added to all of the result.
"""

from __future__ import annotations

from naperian.loops.syntax import (
    Allocate,
    Buffer,
    Contract,
    Load,
    Loop,
    Order,
    Part,
    Role,
    Stmt,
    Store,
)
from naperian.loops.walk import rebuild, step, used_in
from naperian.names import Var, fresh
from naperian.node import replace
from naperian.sizes import ZERO, Size, places, rename, size

_Loops = tuple[tuple[Var, Size], ...]


def channels_last(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    out: list[Stmt] = []
    for s in body:
        out += _product(s) if isinstance(s, Contract) else (rebuild(s, channels_last),)
    return tuple(out)


def _product(s: Contract) -> tuple[Stmt, ...]:
    """The statements of a product."""
    other = replace(s, left=s.right, right=s.left, rows=s.columns, columns=s.rows)
    for x in (s, other):
        if x.out[1][-1].single not in dict(x.columns):
            continue
        forwards = _forwards(x)
        if forwards is not None:
            return _beside(forwards) if _is_apart(forwards) else (forwards,)
        if not x.accumulate and _windows(x.left, x.inner, x.rows):
            if x.left[1][-1].single in dict(x.rows):
                return _turned(x)
    return (s,)


def _windows(m: Part, inner: _Loops, side: _Loops) -> int:
    """How many axes of a factor are those of windows."""
    one, two = dict(inner), dict(side)
    found = [used_in(e) for e in m[1]]
    return sum(any(v in one for v in x) and any(v in two for v in x) for x in found)


def _forwards(s: Contract) -> Contract | None:
    """A product with its inner loops as the axes of its left factor, if that is read in windows and
    its last axis is summed."""
    inner = dict(s.inner)
    order: list[Var] = []
    names: dict[Var, Size] = {}
    for e in s.left[1]:
        summed = [v for v in used_in(e) if v in inner]
        if not summed:
            continue
        by = step(e, summed[0])
        if len(summed) > 1 or not by:
            return None
        order += summed
        if by < 0:
            names[summed[0]] = inner[summed[0]] - 1 - size(summed[0])
    if s.left[1][-1].single not in inner or not _windows(s.left, s.inner, s.rows):
        return None
    return replace(
        s, left=_moved(s.left, names), right=_moved(s.right, names),
        inner=tuple((v, inner[v]) for v in order),
    )  # fmt: skip


def _is_apart(s: Contract) -> bool:
    """Whether the columns of the right factor lie apart, and the sum is no one loop of it."""
    loops, inner = dict((*s.batch, *s.columns, *s.inner)), dict(s.inner)
    found = [[v for v in used_in(e) if v in loops] for e in s.right[1]]
    if any(len(x) > 1 for x in found):
        return False
    at = [(e, v) for e, x in zip(s.right[1], found, strict=True) for v in x if v in inner]
    forwards = [v for e, v in at if e == size(v)] == [v for v, _ in s.inner]
    if forwards and _windows(s.left, s.inner, s.rows) == 1:
        return False
    return found[-1] == [] or size(found[-1][0]) != s.out[1][-1]


def _beside(s: Contract) -> tuple[Stmt, ...]:
    """A copy of the right factor, whose last axis is that of the result, and the product of it."""
    used = {v for e in s.right[1] for v in used_in(e)}
    columns = _last(s.columns, s.out[1][-1])
    axes = tuple(p for p in (*s.batch, *s.inner, *columns) if p[0] in used)
    to = Buffer(fresh(s.right[0]), s.dtype, tuple(n for _, n in axes), Role.TEMP)
    right = to.var, places(v for v, _ in axes)
    return Allocate(to), _copied(axes, right, s.right), replace(s, right=right)


def _turned(s: Contract) -> tuple[Stmt, ...]:
    """A product whose result has the rows first, and a copy of that with the columns first."""
    axes = (*s.batch, *s.columns, *_last(s.rows, s.left[1][-1]))
    to = Buffer(fresh(s.out[0]), s.dtype, tuple(n for _, n in axes), Role.TEMP)
    out = to.var, places(v for v, _ in axes)
    return Allocate(to), replace(s, out=out), _copied(axes, s.out, out)


def _last(loops: _Loops, at: Size) -> _Loops:
    """Loops, and at last the one along an axis."""
    return tuple(sorted(loops, key=lambda p: size(p[0]) == at))


def _copied(loops: _Loops, to: Part, of: Part) -> Stmt:
    """All elements of a part, under names of their own."""
    own = {v: size(fresh(v)) for v, _ in loops}
    made: Stmt = Store(*_moved(to, own), Load(*_moved(of, own)))
    for k, (v, n) in reversed([*enumerate(loops)]):
        var = own[v].single
        assert isinstance(var, Var)
        made = Loop(var, ZERO, n, (made,), Order.FREE if k else Order.PARALLEL)
    return made


def _moved(m: Part, names: dict[Var, Size]) -> Part:
    return m[0], tuple(rename(e, names) for e in m[1])
