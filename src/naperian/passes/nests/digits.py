"""A loop that takes its index apart becomes a loop over each part. loops → loops

    before   for i in 0..n: store y[i] = x[i // m, i % m] if i // m == 0 else 0.0
    after    for p in 0..n // m:
                 for q in 0..m: store y[m * p + q] = x[p, q] if p == 0 else 0.0
             for i in m * (n // m)..n: …                                as before: mostly nothing

So a table that is seen under other index sets (`as`) is neither divided for nor tested for, element
by element. Where m is known to divide n, by itself or because the run would have stopped
(`products`), there is no rest, and a few p are written out, which decides what tests them. If they
read the same, they go together, and read it once (`together`):

    for q in 0..m:
        v = x[q]
        w = x[m + q]
        store y[q] = v + w
        store y[m + q] = v - w

What a few numbers are divided by is done by turns before (`residues`). A loop in order, which looks
for the best of a table's elements, goes row by row if nothing is left over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Expr,
    Fail,
    Let,
    Load,
    Loop,
    Number,
    Order,
    Program,
    Stmt,
    Store,
    Update,
    Variable,
    When,
    While,
)
from naperian.loops.walk import (
    atoms,
    expressions,
    index_expressions,
    parts,
    rebuild,
    rebuild_loops,
    remade,
    statements,
    used_in,
)
from naperian.names import Lit, Var, fresh
from naperian.node import kept, node, replace
from naperian.passes.nests.products import Products, products
from naperian.passes.nests.together import together
from naperian.passes.nests.unswitch import assumed, wanted
from naperian.sizes import (
    ONE,
    ZERO,
    Atom,
    Clamp,
    Quotient,
    Remainder,
    Size,
    divided,
    natural,
    size,
    substitute,
)

_FEW = 4  # so many rounds of an outer part are written out
_DEEP = 3  # parts that are taken apart again
_MANY = 17  # elements of a row are not written out
_COMPARED: dict[str, Callable[[int, int], bool]] = {
    "eq": int.__eq__, "ne": int.__ne__, "lt": int.__lt__, "le": int.__le__, "gt": int.__gt__,
    "ge": int.__ge__,
}  # fmt: skip


def digits(program: Program) -> Program:
    """See the module."""
    dtypes = {b.var: b.dtype for b in program.buffers}
    for s in statements(program.body):
        if isinstance(s, Allocate):
            dtypes[s.buffer.var] = s.buffer.dtype
    changing = frozenset(s.var for s in statements(program.body) if isinstance(s, Assign))
    return replace(program, body=_Parts(dtypes, changing, {}).block(program.body))


@node
class _Parts:
    """Takes loops apart, where sizes are known to be `products` and variables are `changing`."""

    dtypes: Mapping[Var, DType]
    changing: frozenset[Var]
    products: Products

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s, known in zip(body, products(body, self.products), strict=True):
            if isinstance(s, Loop):
                out += replace(self, products=known).apart(s, _DEEP)
            else:
                out.append(rebuild_loops(s, partial(_within, self, known)))
        return tuple(out)

    def apart(self, s: Loop, left: int) -> tuple[Stmt, ...]:
        """The loop over the parts of its index, and the loop over the rest."""
        below = _below(s) if left else None
        if below is None:
            return (rebuild_loops(s, self.block),)
        whole = divided(substitute(s.high, self.products.get), below)
        if s.order is Order.SERIAL and (whole is None or below.constant is not None):
            return (rebuild_loops(s, self.block),)  # what takes turns would be written out twice
        outer, inner = fresh(s.var), fresh(s.var)
        count = natural(s.high // below) if whole is None else whole
        known: dict[Atom, Size] = {
            Quotient(size(s.var), below): size(outer),
            Remainder(size(s.var), below): size(inner),
            s.var: outer * below + inner,
        }
        order = Order.SERIAL if s.order is Order.SERIAL else Order.FREE
        row = Loop(inner, ZERO, below, remade(s.body, known.get), order, s.reductions, s.work)
        rounds = count.constant
        if whole is not None and rounds is not None and rounds <= _FEW:
            made = [_written_out(row, outer, k) for k in range(rounds)]
            one = together(made, self.dtypes)
            return tuple(x for r in ([one] if one else made) for x in self.apart(r, left - 1))
        rows = self.apart(row, left - 1)
        head = replace(s, var=outer, high=count, body=rows, work=s.work * below)
        if whole is not None:
            return (self.or_single(head),)
        rest = fresh(s.var)
        atom: dict[Atom, Size] = {s.var: size(rest)}
        own = _of_rounds(s)
        tail = _made_as(own, remade(s.body, atom.get, own))
        order = s.order if s.order is Order.PARALLEL else Order.SERIAL  # not worth a vector's code
        return (head, replace(s, var=rest, low=count * below, body=tail, order=order))


    def or_single(self, s: Loop) -> Stmt:
        """The loop, or where its rows have one element, a loop over these: rows whose length
        changes from round to round of a loop around them begin or end so."""
        match s.body:
            case (Loop(inner, low, n, body, Order.FREE, ()),) if n.single in self.changing:
                plain = all(isinstance(x, Let | Store) for x in body)
                if low == ZERO and plain:
                    atom: dict[Atom, Size] = {inner: ZERO, n.single: ONE}
                    single = replace(s, body=remade(body, atom.get))
                    one = Apply("eq", (Number(n), Number(ONE)), DType.BOOL, DType.I64)
                    return When(one, (single,), (s,))
        return s


def _of_rounds(s: Loop) -> dict[Var, Var]:
    """New names for the arrays of a loop that are as long as its rounds say: in the loop over the
    rest they have other shapes."""
    made = (x.buffer for x in statements(s.body) if isinstance(x, Allocate))
    return {
        b.var: fresh(b.var) for b in made if any(s.var in used_in(n) for n in b.shape)
    }  # fmt: skip


def _made_as(names: Mapping[Var, Var], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Statements that make arrays under new names."""
    if not names:
        return body
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Allocate):
            var = names.get(s.buffer.var, s.buffer.var)
            out.append(replace(s, buffer=replace(s.buffer, var=var)))
        else:
            out.append(rebuild(s, partial(_made_as, names)))
    return tuple(out)


def _within(outer: _Parts, known: Products, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a block at whose statement so much is known."""
    return replace(outer, products=known).block(body)


def _below(s: Loop) -> Size | None:
    """What the index is divided by, as often as by anything else; none of it may change in the
    loop. What threads share is the best of all, as sums are not those of other rounds; an array of
    them only a whole loop has."""
    shared = s.reductions if s.order is Order.PARALLEL else ()
    if s.low != ZERO or any(r.monoid not in ("min", "max") for r in shared):
        return None
    if shared and {r.var for r in shared} & {x.buffer for x in statements(s.body)
                                            if isinstance(x, Update)}:  # fmt: skip
        return None
    if any(isinstance(x, (While, Fail)) for x in statements(s.body)):
        return None
    bound, here = {s.var}, size(s.var)
    for x in statements(s.body):
        if isinstance(x, (Let, Variable, Loop)):
            bound.add(x.var)
    found: dict[Size, int] = {}
    for a in divisions(statements(s.body)):
        inner = atoms(a.below)
        if a.above == here and (inner or (a.below.constant or _MANY) < _MANY):
            if not any(isinstance(v, Load) or v in bound for v in inner):
                found[a.below] = found.get(a.below, 0) + 1
    if shared and all(k == _lying(s, n) for n, k in found.items()):
        return None
    return max(found, key=lambda n: found[n]) if found else None


def _lying(s: Loop, n: Size) -> int:
    """How many divisions of the index by a number say where an element of a table is, of which the
    next one lies behind it: that costs nothing."""
    place = [Quotient(size(s.var), n), Remainder(size(s.var), n)]
    loads = (e for x in statements(s.body) for top in expressions(x) for e in parts(top))
    flat = (isinstance(e, Load) and [i.single for i in e.at[-2:]] == place for e in loads)
    return len(place) * sum(flat)


def divisions(inside: Iterable[Stmt]) -> Iterator[Quotient | Remainder]:
    """What index expressions of statements divide."""
    for x in reversed([*inside]):
        yield from _divided(x)


@kept
def _divided(x: Stmt) -> tuple[Quotient | Remainder, ...]:
    """What those of one statement divide itself, the last first."""
    found: list[Quotient | Remainder] = []
    work = [n for n in index_expressions(x) if not n.plain]
    while work:
        for a in work.pop().atoms:
            match a:
                case Quotient() | Remainder():
                    found.append(a)
                    work += [a.above, a.below]
                case Clamp():
                    work += [a.value, a.extent]
                case Load():
                    work += a.at
                case _:
                    pass
    return tuple(found)


def _written_out(s: Loop, var: Var, k: int) -> Loop:
    """The loop in the k-th round of the one around it."""
    atom: dict[Atom, Size] = {var: size(k)}
    return replace(s, body=decided(remade(s.body, atom.get)))


def decided(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Statements without comparisons of numbers, and without what hangs on them. Copies of a loop
    may have names twice, and not for the same: each is then looked at by itself."""
    definitions: dict[Var, Expr] = {}
    twice: set[Var] = set()
    for x in statements(body):
        if isinstance(x, Let) and x.dtype is DType.BOOL:
            if definitions.setdefault(x.var, x.value) != x.value:
                twice.add(x.var)
    if twice:
        body = tuple(rebuild(s, decided) if isinstance(s, Loop | When) else s for s in body)
        definitions = {v: e for v, e in definitions.items() if v not in twice}
    known: dict[Expr, bool] = {}
    for x in statements(body):
        for top in expressions(x):
            for e in parts(top):
                answer = _holds(e)
                if answer is not None:
                    known[e] = answer
    return wanted(assumed(body, known, definitions))


def _holds(e: Expr) -> bool | None:
    """Whether a comparison of numbers holds."""
    match e:
        case Apply(name, (x, y)) if name in _COMPARED:
            a, b = _constant(x), _constant(y)
            return None if a is None or b is None else _COMPARED[name](a, b)
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
