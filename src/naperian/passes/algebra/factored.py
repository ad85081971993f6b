"""A sum of products of many factors is one of two, where that is a product of matrices. ainf → ainf

    for i, k:     p = mul(s[i], a[i, k])        for i, j, k:  p = mul(a[i, k], b[k, j])
    for i, j, k:  q = mul(p[i, k], b[k, j])     for i, j:     t = add over k of p[i, j, k]
    for i, j, k:  r = mul(q[i, j, k], c[i, j])  for i, j:     u = mul(t[i, j], s[i])
    for i, j:     y = add over k of r[i, j, k]  for i, j:     y = mul(u[i, j], c[i, j])

What does not depend on `k` comes out of the sum, what has the rows of the result is multiplied on
one side, what has its columns on the other; a sum of several such products is one sum for each. So
a contraction is recognised however its factors are written. It regroups floats as `distribute`
does, and `strict` has none of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from naperian.ainf.syntax import Accumulate, Binding, Entry, Op, Operand, Prim, Program, Read
from naperian.ainf.walk import free, rewrite, variables
from naperian.names import Lit, Var
from naperian.node import node
from naperian.passes.algebra.cse import cse
from naperian.passes.algebra.prune import prune
from naperian.passes.bindings.builder import Builder
from naperian.passes.bindings.uses import Uses, summed
from naperian.sizes import places, size

_FEW = 8  # elements of an axis that a product of matrices is not worth


@node
class _Product:
    """± the factors outside of the sum, and those of the two matrices."""

    minus: bool
    outside: tuple[Operand, ...]
    left: tuple[Operand, ...]
    right: tuple[Operand, ...]


def factored(program: Program) -> Program:
    """See the module."""
    found = _Factors(program)
    plans = {b.var: p for b in program.bindings if (p := found.products(b)) is not None}
    if not plans:
        return program
    out = Builder(program.name, program.sizes, program.params)
    for i, index in program.indices.items():
        inside = [] if index.condition is None else free(index.condition)
        out.add_index(i, index, (v for v in inside if v in out.closures))
    for b in program.bindings:
        if b.var in plans:
            _made(out, b, plans[b.var])
        else:
            out.add(b.prim, b.context, b.guards, b.dtype, b.origin, b.var)
    return prune(cse(out.program(program.results, program.failures, program.math, program.lines)))


class _Factors:
    """What is summed, and read by nothing else."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.uses = Uses(program)
        sums = (e for b in program.bindings for e in _entries(b) if e.over)
        self.summed = {e.value.var for e in sums if isinstance(e.value, Read)}

    def products(self, b: Binding) -> tuple[_Product, ...] | None:
        """The products that a sum is of, if they are better two matrices each than as they are."""
        entry = summed(b)
        if entry is None or b.guards or entry.guards or not b.dtype.is_float or not entry.over:
            return None
        if b.var in self.summed:  # of a quadratic form, which is summed for many rows at once
            return None
        if not all(map(self.is_plain, (*b.context, *entry.over))):
            return None
        terms = [*self.terms(entry.value, False)]
        if len(terms) == 1 and self.is_parted(terms[0][1], entry.over):
            return None
        products = []
        for minus, term in terms:
            p = self.product(minus, term, entry.over)
            if p is None:
                return None
            products.append(p)
        return tuple(products)

    def is_plain(self, i: Var) -> bool:
        """Whether an index goes as far wherever it is, and over more than a few."""
        index = self.program.indices[i]
        if index.condition is not None or index.extent is None:
            return False
        if any(v in self.program.indices for v in variables(index.extent)):
            return False
        n = index.extent.constant
        return n is None or n >= _FEW

    def alone(self, o: Operand) -> Op | None:
        """The operation that an operand reads, at its own indices, if nothing else reads it."""
        found = self.uses.alone(o)
        if found is None or found[0].guards:
            return None
        b, names = found
        if not isinstance(b.prim, Op) or any(type(e.single) is not Var for e in names.values()):
            return None
        return Op(b.prim.name, tuple(rewrite(a, names) for a in b.prim.args))

    def terms(self, o: Operand, minus: bool) -> Iterator[tuple[bool, Operand]]:
        """What is added up, with its sign."""
        match self.alone(o):
            case Op("add", (x, y)):
                yield from self.terms(x, minus)
                yield from self.terms(y, minus)
            case Op("sub", (x, y)):
                yield from self.terms(x, minus)
                yield from self.terms(y, not minus)
            case Op("neg", (x,)):
                yield from self.terms(x, not minus)
            case _:
                yield minus, o

    def is_parted(self, o: Operand, over: tuple[Var, ...]) -> bool:
        """Whether a product is of two matrices already."""
        match self.alone(o):
            case Op("mul", (x, y)):
                one, two = ({*free(a)} for a in (x, y))
                return {*over} <= one & two and not one <= two and not two <= one
            case _:
                return False

    def product(self, minus: bool, o: Operand, over: tuple[Var, ...]) -> _Product | None:
        odd, factors = self.factors(o)
        inside = [f for f in factors if not {*free(f)}.isdisjoint(over)]
        outside = tuple(f for f in factors if {*free(f)}.isdisjoint(over))
        kinds = {frozenset(free(f)) - {*over} for f in inside}
        largest = [k for k in kinds if not any(k < other for other in kinds)]
        if len(largest) != 2:
            return None
        one, _ = sorted(largest, key=lambda k: [*map(str, sorted(v.id for v in k))])
        left = tuple(f for f in inside if {*free(f)} - {*over} <= one)
        right = tuple(f for f in inside if f not in left)
        if not all({*over} <= {v for f in side for v in free(f)} for side in (left, right)):
            return None
        return _Product(minus != odd, outside, left, right)

    def factors(self, o: Operand) -> tuple[bool, list[Operand]]:
        """What an operand is the product of, and whether it changes the sign."""
        match self.alone(o):
            case Op("neg", (x,)):
                odd, found = self.factors(x)
                return not odd, found
            case Op("mul", (x, y)):
                (odd, one), (even, two) = self.factors(x), self.factors(y)
                return odd != even, [*one, *two]
            case Op("div", (x, Lit(value, dtype))) if _is_power(value):
                odd, found = self.factors(x)
                return odd, [*found, Lit(1.0 / value, dtype)]
            case _:
                return False, [o]


def _entries(b: Binding) -> tuple[Entry, ...]:
    return b.prim.entries if isinstance(b.prim, Accumulate) else ()


def _is_power(value: bool | int | float) -> bool:
    """Of two, whose reciprocal is a number."""
    return abs(value) in {2.0**k for k in range(-60, 60)}


def _made(out: Builder, b: Binding, products: tuple[_Product, ...]) -> None:
    """The sum of products, where the sum was."""
    first, *others = products
    prim = _product(out, b, first)
    if first.minus:
        prim = Op("neg", (out.bind(prim, b.dtype, (), b.origin),))
    for p in others:  # every sum has indices of its own
        both = (prim, _product(out, b, p, own=True))
        args = tuple(out.bind(x, b.dtype, (), b.origin) for x in both)
        prim = Op("sub" if p.minus else "add", args)
    out.add(prim, b.context, (), b.dtype, b.origin, b.var)


def _product(out: Builder, b: Binding, p: _Product, own: bool = False) -> Prim:
    """The last operation of one product, without its sign. Its sum may depend on fewer indices."""
    assert isinstance(b.prim, Accumulate)
    over = b.prim.entries[0].over
    copies = {i: out.index(out.indices[i].extent, out.indices[i].name) for i in over if own}
    names = {i: size(v) for i, v in copies.items()}
    sides = ([rewrite(f, names) for f in side] for side in (p.left, p.right))
    one, two = (_multiplied(out, b, side) for side in sides)
    value = out.op("mul", (one, two), b.dtype, (), b.origin)
    over = tuple(copies.values()) or over
    context = out.order(out.closed(free(value)) - {*over})
    total = Accumulate("add", b.prim.init, (Entry(over, places(context), value, ()),))
    if not p.outside:
        return total
    outside = _multiplied(out, b, p.outside)
    return Op("mul", (out.add(total, context, (), b.dtype, b.origin), outside))


def _multiplied(out: Builder, b: Binding, factors: Iterable[Operand]) -> Operand:
    first, *rest = factors
    for f in rest:
        first = out.op("mul", (first, f), b.dtype, (), b.origin)
    return first
