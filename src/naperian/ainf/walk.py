"""Walking over AiNF: what an operand mentions, and operands rewritten.

Every pass is a fold over the list of bindings; what it needs beside `match` is here: the free
indices of an operand, its reads (also those inside index expressions), and substitution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from naperian import sizes
from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Check,
    Delay,
    Entry,
    Guard,
    Index,
    Number,
    Op,
    Operand,
    Prim,
    Read,
    Trips,
)
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.node import kept, replace
from naperian.prims import PRIMITIVES
from naperian.sizes import Atom, Clamp, Quotient, Remainder, Size, places, size

Reader = Callable[[Read], Operand]
Names = Mapping[Var, Size]
HERE: Names = {}


def size_of(operand: Operand) -> Size:
    """An integer operand (or a Boolean one, as 0 or 1) as an index expression."""
    match operand:
        case Number():
            return operand.value
        case Read():
            return sizes.atom(operand)
        case Lit():
            return size(int(operand.value))


def mentioned(s: Size) -> tuple[Var | Read | Trips, ...]:
    """What an index expression mentions, also inside its reads: indices and size parameters, reads
    and trip counts, outer ones first."""
    return s.atoms if s.plain else _mentioned(s)  # type: ignore[return-value]


@kept
def _mentioned(s: Size) -> tuple[Var | Read | Trips, ...]:
    out: list[Var | Read | Trips] = []
    for a in s.atoms:
        match a:
            case Var():
                out.append(a)
            case Read(_, at):
                out += (a, *(x for e in at for x in mentioned(e)))
            case Trips(_, pairs):
                out += (a, *(x for _, e in pairs for x in mentioned(e)))
            case Quotient(x, y) | Remainder(x, y) | Clamp(x, y):
                out += mentioned(x) + mentioned(y)
            case _:
                pass
    return tuple(out)


def variables(s: Size) -> tuple[Var, ...]:
    """The indices and size parameters an index expression mentions, also inside its reads."""
    return s.atoms if s.plain else _variables(s)  # type: ignore[return-value]


def step(s: Size, v: Var) -> int | None:
    """How far an index expression moves when an index grows by one; None if not always as far."""
    by = s.coefficient(v)
    return None if v in variables(s - size(v) * by) else by


@kept
def _variables(s: Size) -> tuple[Var, ...]:
    return tuple([x for x in _mentioned(s) if isinstance(x, Var)])


def runs(indices: Mapping[Var, Index], axes: tuple[Var, ...]) -> list[tuple[Var, ...]]:
    """Axes in runs of those that depend on each other: `(i, j)` for `i<n, j<i + 1`."""
    out: list[tuple[Var, ...]] = []
    for k, i in enumerate(axes):
        extent = indices[i].extent
        needed = set() if extent is None else set(variables(extent))
        run: tuple[Var, ...] = (i,)
        first = next((m for m, j in enumerate(axes[:k]) if j in needed), k)
        while sum(len(r) for r in out) > first:
            run = out.pop() + run
        out.append(run)
    return out


def free(operand: Operand) -> tuple[Var, ...]:
    """The indices and size parameters an operand mentions."""
    match operand:
        case Read():
            out: tuple[Var, ...] = ()
            for e in operand.at:
                out += variables(e)
            return out
        case Number():
            return variables(operand.value)
        case Lit():
            return ()


def atoms_of(s: Size) -> tuple[Read | Trips, ...]:
    """The reads and trip counts in an index expression, outer ones first."""
    return () if s.plain else _atoms_of(s)


@kept
def _atoms_of(s: Size) -> tuple[Read | Trips, ...]:
    return tuple([x for x in _mentioned(s) if not isinstance(x, Var)])


def atoms(operand: Operand) -> tuple[Read | Trips, ...]:
    """The reads (the operand itself, too) and trip counts in an operand."""
    if type(operand) is Read:
        for e in operand.at:
            if not e.plain:
                return (operand, *_below(operand))
        return (operand,)
    return atoms_of(operand.value) if type(operand) is Number else ()


@kept
def _below(r: Read) -> tuple[Read | Trips, ...]:
    """Those in the indices of a read: not it, for a node keeps nothing that leads back to it."""
    return tuple([a for e in r.at for a in atoms_of(e)])


def operands(prim: Prim) -> Iterable[Operand]:
    """The operands, an accumulation's targets (as numbers) and entries' guards among them."""
    return prim.args if isinstance(prim, Op) else _operands(prim)


def _operands(prim: Accumulate | Delay | Check) -> Iterator[Operand]:
    match prim:
        case Accumulate(_, init, entries):
            yield init
            for entry in entries:
                yield from (Number(e) for e in entry.at)
                yield entry.value
                yield from (g.operand for g in entry.guards)
        case Delay(_, _, init, next):
            yield init
            yield next
        case Check(condition):
            yield condition


@kept
def atoms_in(b: Binding) -> tuple[Read | Trips, ...]:
    """Every read and trip count of a binding, in its guards, too."""
    out: list[Read | Trips] = []
    for o in operands(b.prim):
        out += atoms(o)
    for g in b.guards:
        out += atoms(g.operand)
    return tuple(out)


@kept
def reads(b: Binding) -> tuple[Read, ...]:
    """Every read of a binding, in its guards, too."""
    return tuple([a for a in atoms_in(b) if isinstance(a, Read)])


def free_in(prim: Prim) -> Iterator[Var]:
    """The indices a binding of this primitive must have in its context (before closing): the
    free ones, without those it binds; an accumulation's plain targets count only by their use."""
    match prim:
        case Accumulate(_, init, entries):
            yield from free(init)
            for over, at, value, guards in ((e.over, e.at, e.value, e.guards) for e in entries):
                inner = [v for e in at if not isinstance(e.single, Var) for v in variables(e)]
                inner += free(value)
                for g in guards:
                    inner += free(g.operand)
                yield from (v for v in inner if v not in over)
        case Delay(time, index, init, next):
            yield index
            yield from free(init)
            yield from (v for v in free(next) if v != time)
        case Op():
            for o in prim.args:
                yield from free(o)
        case Check():
            yield from free(prim.condition)


def stops(prim: Prim) -> bool:
    """Whether the primitive may stop the run, or is seen from outside. It is made wherever its
    guards hold, wanted or not."""
    return isinstance(prim, Check) or (isinstance(prim, Op) and prim.name in ("checked", "print"))


def is_reduction(context: tuple[Var, ...], prim: Accumulate) -> bool:
    """Whether every entry's target is the context itself."""
    here = places(context)
    return all(e.at == here for e in prim.entries)


def rewrite_size(s: Size, names: Names, read: Reader | None = None) -> Size:
    """An index expression with indices replaced by `names` and then reads by `read`."""
    terms = s.terms
    if len(terms) == 1:  # mostly one variable
        m, c = terms[0]
        if c == 1 and len(m) == 1 and type(m[0]) is Var:
            return names.get(m[0], s)
    if names.keys().isdisjoint(variables(s)) and not (read and atoms_of(s)):
        return s

    def replace(a: Atom) -> Size | None:
        if type(a) is Var:
            return names.get(a)
        match a:
            case Read():
                new = rewrite(a, names, read)
                return None if new is a or new == a else size_of(new)
            case Trips(time, at):
                return sizes.atom(
                    Trips(time, tuple((i, rewrite_size(e, names, read)) for i, e in at))
                )
            case _:
                return None

    return sizes.substitute(s, replace)


def _plain(r: Read) -> bool:
    """Whether nothing is read in the indices of a read."""
    return not any([_atoms_of(e) for e in r.at if not e.plain])


def rewrite(operand: Operand, names: Names, read: Reader | None = None) -> Operand:
    """An operand with indices replaced by `names` and then reads by `read`."""
    match operand:
        case Read():
            if names or not _plain(operand):
                there = tuple([rewrite_size(e, names, read) for e in operand.at])
                if there != operand.at:
                    operand = Read(operand.var, there)
            return read(operand) if read else operand
        case Number():
            changed = rewrite_size(operand.value, names, read)
            return operand if changed is operand.value else number(changed)
        case Lit():
            return operand


def number(s: Size) -> Operand:
    """An index expression as an operand; a constant becomes a literal."""
    k = s.constant
    return Number(s) if k is None else Lit(k, DType.I64)


Operands = Callable[[Operand], Operand]
Sizes = Callable[[Size], Size]


def map_guards(guards: tuple[Guard, ...], f: Operands, g: Sizes) -> tuple[Guard, ...]:
    """Guards with `f` applied to the operands and `g` to the facts."""
    if not guards:
        return guards
    return tuple(
        [Guard(f(x.operand), x.holds, None if x.fact is None else g(x.fact)) for x in guards]
    )


def map_prim(prim: Prim, f: Operands, g: Sizes) -> Prim:
    """A primitive with `f` applied to its operands and `g` to its targets; what it binds stays."""
    match prim:
        case Op():
            return Op(prim.name, tuple([f(a) for a in prim.args]), prim.code)
        case Accumulate(monoid, init, entries):
            return Accumulate(
                monoid,
                f(init),
                tuple(
                    Entry(e.over, tuple(g(x) for x in e.at), f(e.value), map_guards(e.guards, f, g))
                    for e in entries
                ),
            )
        case Delay(time, index, init, next):
            return Delay(time, index, f(init), f(next))
        case Check(condition, code):
            return Check(f(condition), code)


def rewrite_guards(
    guards: tuple[Guard, ...], names: Names, read: Reader | None = None
) -> tuple[Guard, ...]:
    return map_guards(
        guards, lambda o: rewrite(o, names, read), lambda s: rewrite_size(s, names, read)
    )


def rewrite_prim(prim: Prim, names: Names, read: Reader | None = None) -> Prim:
    """A primitive with its operands rewritten; what it binds stays."""
    return map_prim(prim, lambda o: rewrite(o, names, read), lambda s: rewrite_size(s, names, read))


def with_reads(
    b: Binding, reader: Callable[[tuple[Var, ...], tuple[Guard, ...]], Reader]
) -> Binding:
    """A binding with its reads replaced. `reader` is given the indices that what reads is over and
    the guards that it is under; a guard is under none."""
    guards = rewrite_guards(b.guards, {}, reader(b.context, ()))
    if not isinstance(b.prim, Accumulate):
        return replace(b, prim=rewrite_prim(b.prim, {}, reader(b.context, b.guards)), guards=guards)
    entries: list[Entry] = []
    for e in b.prim.entries:
        read = reader(
            (*b.context, *e.over), (*b.guards, *(g for g in e.guards if g not in b.guards))
        )
        at = tuple([rewrite_size(i, {}, read) for i in e.at])
        own = rewrite_guards(e.guards, {}, reader((*b.context, *e.over), b.guards))
        entries.append(Entry(e.over, at, rewrite(e.value, {}, read), own))
    init = rewrite(b.prim.init, {}, reader(b.context, b.guards))
    return replace(b, prim=Accumulate(b.prim.monoid, init, tuple(entries)), guards=guards)


def closures(indices: Mapping[Var, Index]) -> dict[Var, frozenset[Var]]:
    """Every index with all that its extent and condition depend on."""
    out: dict[Var, frozenset[Var]] = {}
    for i, index in indices.items():  # extents mention earlier indices
        mentioned = [] if index.extent is None else list(variables(index.extent))
        if index.condition is not None:
            mentioned += free(index.condition)
        out[i] = frozenset({i}).union(*(out[v] for v in mentioned if v in out))
    return out


def context_of(indices: Mapping[Var, Index], operands: Iterable[Operand]) -> tuple[Var, ...]:
    """The indices that operands mention, with all that these depend on, in order."""
    around = closures(indices)
    needed = {j for o in operands for i in free(o) if i in around for j in around[i]}
    return tuple(i for i in indices if i in needed)


def dtype_of(operand: Operand, dtypes: Mapping[Var, DType]) -> DType:
    """The dtype of an operand, given those of bindings and parameters."""
    match operand:
        case Read():
            return dtypes[operand.var]
        case Lit():
            return operand.dtype
        case Number():
            return DType.I64


def result_dtype(name: str, args: tuple[Operand, ...], dtypes: Mapping[Var, DType]) -> DType | None:
    """The dtype an `Op` gives; None for the casts, which choose it."""
    match name:
        case "cast" | "bitcast":
            return None
        case "copy" | "held" | "after" | "print":
            return dtype_of(args[0], dtypes)
        case "checked":
            return DType.I64
        case _:
            first = 1 if name == "select" else 0
            return PRIMITIVES[name].result(dtype_of(args[first], dtypes))
