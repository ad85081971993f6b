"""What a condition keeps of each row goes where it belongs in the result. ainf → ainf

    before   for i<n, u<l[i] + 1:  before = delay over e<l[i] from 0 next before[i, e] + keep[i, e]
             for i<n, e<l[i]:      key    = select(keep[i, e], before[i, e], -1)
             for i<n, j<k[i]:      which  = add over e<l[i] at [i, key[i, e]] of e if … from 0
             for i<n, j<k[i]:      x      = exp(value[i, which[i, j]])
             return for i<n, j<k[i]: x[i, j]
    after    for i<n, e<l[i] if keep[i, e]: x = exp(value[i, e])
             for i<n, j<k[i]:      out    = last over e<l[i] at [i, before[i, e]] of x[i, e]
                                            if keep[i, e]
             return for i<n, j<k[i]: out[i, j]

where k[i] is the sum of keep[i, e]. The law: the kept elements of a row have places of their own,
which are 0 to k[i] - 1, so that of each place one element is the last. Which elements they are need
not be written down, and looked up. (`compact` does the same for what is kept of all of an array.)
"""

from __future__ import annotations

from naperian.ainf.syntax import (
    Accumulate,
    Binding,
    Delay,
    Entry,
    Guard,
    Number,
    Op,
    Operand,
    Program,
    Read,
    Result,
)
from naperian.ainf.walk import atoms, atoms_in, rewrite, rewrite_size
from naperian.dtypes import DType
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.passes.algebra.prune import prune
from naperian.sizes import Clamp, Size, atom, natural, places, size

_QUICK = frozenset(("add", "sub", "mul", "neg", "abs", "min", "max", "cast", "not", "and", "or",
                    "eq", "ne", "lt", "le", "gt", "ge"))  # fmt: skip
_NONE, _NOWHERE = Lit(0, DType.I64), Lit(-1, DType.I64)


def kept_rows(program: Program) -> Program:
    """See the module."""
    made = {b.var: b for b in program.bindings}
    for b in program.bindings:
        kept = _kept(program, made, b)
        if kept is not None:
            changed = kept.program()
            if changed is not program:
                return kept_rows(prune(changed))
    return program


def _kept(program: Program, made: dict[Var, Binding], b: Binding) -> _Kept | None:
    """What is kept of rows, if a binding says which elements these are."""
    match b:
        case Binding(
            which, (i, j), (), _,
            Accumulate("add", Lit(0), (Entry((e,), (first, key), value, (_, _) as tests),)),
        ) if first == size(i):
            pass
        case _:
            return None
    rows = _Rows(program, made, i, e)
    chosen = rows.op(Read(k.var, k.at), "select") if isinstance(k := key.single, Read) else None
    if chosen is None or chosen[2] != _NOWHERE:
        return None
    keep, before, _ = chosen
    count = program.indices[j].extent
    if count is None or not rows.is_count(count, keep) or not rows.is_before(before, keep):
        return None
    assert isinstance(k, Read)
    for t in tests:
        low, high = (k, _NONE), (k, Number(count))
        if not t.holds or (rows.op(t.operand, "ge") != low and rows.op(t.operand, "lt") != high):
            return None
    return _Kept(program, made, which, (i, j, e), (keep, before, value))


class _Rows:
    """The elements `e` of rows `i`."""

    def __init__(self, program: Program, made: dict[Var, Binding], i: Var, e: Var) -> None:
        self.indices, self.made, self.i, self.e = program.indices, made, i, e

    def op(self, x: Operand, name: str) -> tuple[Operand, ...] | None:
        """The operands of an operation on an element, if that is what is read there."""
        match x:
            case Read(v, at) if v in self.made and len(at) == len(self.made[v].context):
                b = self.made[v]
                if isinstance(b.prim, Op) and b.prim.name == name and not b.guards:
                    names = dict(zip(b.context, at, strict=True))
                    return tuple(rewrite(a, names) for a in b.prim.args)
            case _:
                pass
        return None

    def is_count(self, count: Size, keep: Operand) -> bool:
        """Whether so many elements of a row are kept."""
        a = count.single
        b = self.made.get(a.var) if isinstance(a, Read) and a.at == (size(self.i),) else None
        match b:
            case Binding(_, (r,), (), _, Accumulate("add", Lit(0), (Entry((c,), at, x, ()),))) if (
                at == (size(r),)
            ):
                here = {r: size(self.i), c: size(self.e)}
                same = self.extent(c, here) == self.indices[self.e].extent
                return same and self.op(rewrite(x, here), "cast") == (keep,)
            case _:
                return False

    def extent(self, v: Var, names: dict[Var, Size]) -> Size | None:
        index = self.indices[v]
        if index.extent is None or index.condition is not None:
            return None
        return rewrite_size(index.extent, names)

    def is_before(self, before: Operand, keep: Operand) -> bool:
        """Whether a number counts the elements that are kept before one."""
        if not isinstance(before, Read) or before.at != (size(self.i), size(self.e)):
            return False
        match self.made.get(before.var):
            case Binding(_, (r, _), (), _, Delay(t, _, init, after)) if init == _NONE:
                pass
            case _:
                return False
        here = {r: size(self.i), t: size(self.e)}
        own = self.indices[self.e].extent
        if own is None or self.extent(t, here) not in (own, natural(own)):
            return False
        sums = self.op(rewrite(after, here), "add")
        return sums is not None and sums[0] == before and self.op(sums[1], "cast") == (keep,)


class _Kept:
    """What is kept of rows: element e of row i, if `keep`, at place `before`; `which` is its
    number."""

    def __init__(
        self, program: Program, made: dict[Var, Binding], which: Var,
        indices: tuple[Var, Var, Var], told: tuple[Operand, Operand, Operand],
    ) -> None:  # fmt: skip
        self.before, self.bindings, self.which = program, made, which
        self.row, self.place, self.element = indices
        self.keep, at, self.value = told
        assert isinstance(at, Read)
        self.at = at
        self.asked: dict[Var, bool] = {which: True}
        self.made: dict[Var, Binding] = {}
        self.indices = dict(program.indices)

    def program(self) -> Program:
        if not any(self.is_mine(r) and self.asks(r.value) for r in self.before.results):
            return self.before
        # asked and counted once more where it is stored: to write that down takes longer
        self.keep = self.again(self.keep, {})
        at = self.again(self.at, {})
        assert isinstance(at, Read)
        self.at = at
        kept: list[Binding] = []
        results = tuple(self.result(r, kept) for r in self.before.results)
        bindings: list[Binding] = []
        for b in self.before.bindings:
            bindings.append(b)
            if b.var in self.made:
                bindings.append(self.made[b.var])
        return replace(
            self.before, indices=self.indices, bindings=(*bindings, *kept), results=results
        )

    def again(self, x: Operand, times: dict[Var, Var]) -> Operand:
        """A count, or what is quickly asked of an element, made once more."""

        def copied(r: Read) -> Operand:
            b = self.bindings.get(r.var)
            if b is None or b.guards or len(b.context) != 2:
                return r
            if r.var not in self.made:
                match b.prim:
                    case Delay(t, u, init, after):
                        times[t], times[u] = fresh(t), fresh(u)
                        rounds = self.indices[t].extent
                        assert rounds is not None
                        # in words of their own: these are other rounds than those that count
                        rounds = rounds if isinstance(rounds.single, Clamp) else natural(rounds)
                        self.indices[times[t]] = replace(self.indices[t], extent=rounds)
                        self.indices[times[u]] = replace(self.indices[u], extent=rounds + 1)
                        here = replace(b, var=fresh(r.var), context=(b.context[0], times[u]))
                        self.made[r.var] = here  # which it reads itself
                        step = rewrite(after, {t: size(times[t])}, copied)
                        self.made[r.var] = replace(here, prim=Delay(times[t], times[u], init, step))
                    case Op(name, args) if name in _QUICK:
                        context = tuple(times.get(v, v) for v in b.context)
                        names = {v: size(w) for v, w in zip(b.context, context, strict=True)}
                        read = tuple(rewrite(a, names, copied) for a in args)
                        self.made[r.var] = replace(
                            b, var=fresh(r.var), context=context, prim=replace(b.prim, args=read)
                        )
                    case _:
                        return r
            return replace(r, var=self.made[r.var].var)

        return rewrite(x, {}, copied)

    def is_mine(self, r: Result) -> bool:
        """Whether a result goes over the kept elements of the rows."""
        if len(r.indices) != 2 or not r.new:
            return False
        i, j = r.indices
        indices = self.before.indices
        extent, own = indices[j].extent, indices[self.place].extent
        if extent is None or own is None or indices[i] != indices[self.row]:
            return False
        return rewrite_size(extent, {i: size(self.row)}) == own

    def result(self, r: Result, made: list[Binding]) -> Result:
        """A result of all that is kept, if it asks which that is."""
        if not self.is_mine(r):
            return r
        i, j = r.indices
        context = (self.row, self.place)
        if not self.asks(r.value):
            same = {i: size(self.row), j: size(self.place)}
            return replace(r, indices=context, value=rewrite(r.value, same))
        own = fresh(self.element)
        self.indices[own] = self.indices[self.element]
        names = {self.element: size(own)}
        at = (size(self.row), rewrite_size(atom(self.at), names))
        test = (Guard(rewrite(self.keep, names), True),)
        value = self.moved(r.value, {i: size(self.row), j: atom(self.at)})
        entry = Entry((own,), at, rewrite(value, names), test)
        zero = Lit(False if r.dtype is DType.BOOL else 0.0 if r.dtype.is_float else 0, r.dtype)
        made.append(Binding(Var("kept"), context, (), r.dtype, Accumulate("last", zero, (entry,))))
        return replace(r, indices=context, value=Read(made[-1].var, places(context)))

    def asks(self, x: Operand) -> bool:
        """Whether something is made of which an element is, and nothing in between is a loop."""
        return any(isinstance(a, Read) and self.asks_for(a.var) for a in atoms(x))

    def asks_for(self, v: Var) -> bool:
        if v not in self.asked:
            self.asked[v] = False
            b = self.bindings.get(v)
            if b is not None and isinstance(b.prim, Op) and len(b.context) == 2 and not b.guards:
                if b.prim.name not in ("checked", "print", "after", "held"):
                    read = (a for a in atoms_in(b) if isinstance(a, Read))
                    self.asked[v] = any(self.asks_for(a.var) for a in read)
        return self.asked[v]

    def moved(self, x: Operand, names: dict[Var, Size]) -> Operand:
        return rewrite(x, names, self.read)

    def read(self, x: Read) -> Operand:
        """What is read of a kept element, as it is made of that."""
        if x.at != (size(self.row), atom(self.at)):
            return x
        if x.var == self.which:
            return self.value
        if not self.asks_for(x.var):
            return x
        if x.var not in self.made:
            b = self.bindings[x.var]
            assert isinstance(b.prim, Op)
            names = {b.context[0]: size(self.row), b.context[1]: atom(self.at)}
            args = tuple(self.moved(a, names) for a in b.prim.args)
            self.made[x.var] = replace(
                b, var=fresh(x.var), context=(self.row, self.element),
                guards=(Guard(self.keep, True),), prim=replace(b.prim, args=args),
            )  # fmt: skip
        return Read(self.made[x.var].var, (size(self.row), size(self.element)))
