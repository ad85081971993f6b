"""Arrays of indices are checked where they are read. ainf → ainf

    before   key[n] < m
             for i: y = x[key[i]]
    after    for i: y = x[clamp(key[i])]
             for k: bad = ne(key[k], clamp(key[k]))
                    any = or over k of bad[k]
                    check not(any) else OUTSIDE

The caller's elements may be anything, so every read of one is clamped to its set: then whatever
they are, memory is safe, and one flag says in the end whether they were what their type says. The
border, which explains a failure, need not look at them beforehand: a gather reads its indices once.
(In loops, a run ends where it meets such an element: see `outside`.)
An array that is read only along ragged rows is checked where they go; what no row uses is not read.
"""

from __future__ import annotations

from collections.abc import Callable

from naperian.ainf.syntax import (
    OUTSIDE,
    Accumulate,
    Binding,
    Check,
    Entry,
    Index,
    Number,
    Op,
    Operand,
    Param,
    Program,
    Read,
    Trips,
)
from naperian.ainf.walk import (
    atoms,
    atoms_of,
    operands,
    rewrite,
    rewrite_guards,
    rewrite_prim,
    rewrite_size,
    variables,
)
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.sizes import Size, clamp, size


def suspects(program: Program) -> tuple[Param, ...]:
    """The parameters that `distrust` checks."""
    return tuple(
        p for p in program.params if p.bound is not None and p.shape and p.dtype is DType.I64
    )


def distrust(program: Program) -> Program:
    """See the module."""
    bounds = {p.var: p.bound for p in suspects(program) if p.bound is not None}
    if not bounds:
        return program
    places = _places(program, set(bounds))

    def read(r: Read) -> Operand:
        bound = bounds.get(r.var)
        return r if bound is None else _clamped(r, bound)

    def of(s: Size) -> Size:
        return rewrite_size(s, {}, read)

    indices = {
        i: replace(
            x,
            extent=None if x.extent is None else of(x.extent),
            condition=None if x.condition is None else rewrite(x.condition, {}, read),
        )
        for i, x in program.indices.items()
    }
    bindings = [
        replace(b, guards=rewrite_guards(b.guards, {}, read), prim=rewrite_prim(b.prim, {}, read))
        for b in program.bindings
    ]
    results = tuple(replace(r, value=rewrite(r.value, {}, read)) for r in program.results)
    for p in suspects(program):
        place = places.get(p.var)
        if place is None:
            context = tuple(Var("k") for _ in p.shape)
            indices |= {i: Index(n, None, "k") for i, n in zip(context, p.shape, strict=True)}
            place = context, tuple(size(i) for i in context)
        bindings += _check(p, *place, of)
    return replace(program, indices=indices, bindings=tuple(bindings), results=results)


_Place = tuple[tuple[Var, ...], tuple[Size, ...]]


def _places(program: Program, params: set[Var]) -> dict[Var, _Place]:
    """Where to check the parameters that are read at one place only, in a loop of a length known
    only there: the loops, and the indices. All others are checked as a whole.

        for i, e < ends[i + 1] - ends[i]:  … x[key[ends[i] + e]] …
    """
    found: dict[Var, set[_Place | None]] = {v: set() for v in params}

    def note(r: Read | Trips, place: _Place | None) -> None:
        if isinstance(r, Read) and r.var in found:
            found[r.var].add(place)

    for x in program.indices.values():
        for r in () if x.extent is None else atoms_of(x.extent):
            note(r, None)
        for r in () if x.condition is None else atoms(x.condition):
            note(r, None)
    for result in program.results:
        for r in atoms(result.value):
            note(r, None)
    for b in program.bindings:
        for g in b.guards:
            for r in atoms(g.operand):
                note(r, None)
        plain = isinstance(b.prim, Op) and not b.guards and all(
            program.indices[i].condition is None for i in b.context
        )
        for o in operands(b.prim):
            for r in atoms(o):
                ragged = isinstance(r, Read) and any(
                    isinstance(a, Read) for e in r.at for a in e.atoms
                )
                if plain and ragged and isinstance(r, Read):
                    note(r, (_loops(program, b.context, r.at), r.at))
                else:
                    note(r, None)
    return {v: p for v, ps in found.items() if len(ps) == 1 for p in ps if p is not None}


def _loops(program: Program, context: tuple[Var, ...], at: tuple[Size, ...]) -> tuple[Var, ...]:
    """Those of the loops that the indices depend on: in the rounds of others the same is read."""
    needed = {v for e in at for v in variables(e)}
    for i in reversed(context):
        extent = program.indices[i].extent
        if i in needed and extent is not None:
            needed.update(variables(extent))
    return tuple(i for i in context if i in needed)


def _clamped(r: Read, bound: Size) -> Number:
    return Number(clamp(Size((((r,), 1),)), bound))


def _check(
    p: Param, context: tuple[Var, ...], at: tuple[Size, ...], of: Callable[[Size], Size]
) -> list[Binding]:
    """The bindings that check a parameter's elements at these indices."""
    assert p.bound is not None
    here = tuple(size(i) for i in context)
    own = Read(p.var, tuple(of(e) for e in at))
    bad, some, fine, check = (Var(x) for x in ("bad", "outside", "fine", "check"))
    entry = Entry(context, (), Read(bad, here))
    none = Lit(False, DType.BOOL)
    return [
        Binding(bad, context, (), DType.BOOL, Op("ne", (own, _clamped(own, p.bound)))),
        Binding(some, (), (), DType.BOOL, Accumulate("or", none, (entry,))),
        Binding(fine, (), (), DType.BOOL, Op("not", (Read(some, ()),))),
        Binding(check, (), (), DType.BOOL, Check(Read(fine, ()), OUTSIDE)),
    ]
