"""Parts that go where a list of numbers says which has each number once: places by its inverse.

    v[q] to t[q], t = [1, 2, 0]        v[u[p]] to p, u = [2, 0, 1]

What is sent is then read where it goes, and other places that the list tells are solved for.
"""

from __future__ import annotations

from collections.abc import Mapping

from naperian.ainf.syntax import Number, Op, Operand, Prim, Read
from naperian.ainf.walk import number, rewrite, rewrite_guards, rewrite_size, size_of, variables
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.passes.bindings.builder import Builder
from naperian.passes.derivatives.parts import Part
from naperian.sizes import size

_LONGEST = 64  # a list is a choice for each of its places


def permuted(b: Builder, part: Part, domain: tuple[Var, ...]) -> Part:
    """See the module."""
    for e in part.at:
        match e.single:
            case Read(_, (i,)) as list_ if (q := i.single) in domain and isinstance(q, Var):
                numbers = _numbers(b, list_.var, q)
                if sorted(numbers) == list(range(len(numbers))) != [] and _alone(b, part, q):
                    made = _sent(b, part, list_, q, numbers)
                    return permuted(b, made, tuple(j for j in domain if j != q))
            case _:
                pass
    return part


def _alone(b: Builder, part: Part, q: Var) -> bool:
    """Whether no other index of a part runs as far as `q` says."""
    return all(q not in variables(b.extent(i) or size(i)) for i in part.over if i != q)


def _sent(b: Builder, part: Part, list_: Read, q: Var, numbers: list[int]) -> Part:
    p = b.index(b.extent(q), b.indices[q].name)
    inverse = [numbers.index(k) for k in range(len(numbers))]
    back = Read(list_.var, (size(p),)) if inverse == numbers else _list(b, inverse, p)
    there = Read(list_.var, (size_of(back),))

    def read(r: Read) -> Operand:
        return number(size(p)) if r == there else r

    names = {q: size_of(back)}
    return Part(
        tuple(p if i == q else i for i in part.over),
        tuple(rewrite_size(e, names, read) for e in part.at),
        rewrite(part.value, names, read),
        rewrite_guards(part.guards, names, read),
    )


def _list(b: Builder, numbers: list[int], p: Var) -> Read:
    """A list of numbers at a place: a choice for each, as what is written down is."""
    value: Operand = Lit(numbers[-1], DType.I64)
    for k, n in reversed(list(enumerate(numbers[:-1]))):
        here = b.op("eq", (number(size(p)), Lit(k, DType.I64)), DType.BOOL)
        value = b.op("select", (here, Lit(n, DType.I64), value), DType.I64)
    assert isinstance(value, Read)
    return value


def _numbers(b: Builder, var: Var, q: Var) -> list[int]:
    """The numbers of a list that is written down, over all of an index; none of another table."""
    n = b.extent(q)
    count = None if n is None else n.constant
    own = b.contexts.get(var, ())
    if count is None or not 1 < count <= _LONGEST or len(own) != 1 or b.extent(own[0]) != n:
        return []
    prims = {x.var: x.prim for x in b.bindings if x.context == own and not x.guards}
    found = [_number(prims, var, own[0], k) for k in range(count)]
    return [k for k in found if k is not None] if None not in found else []


def _number(prims: Mapping[Var, Prim], var: Var, i: Var, k: int) -> int | None:
    """One of them: of choices by the place alone."""
    at = (size(i),)
    while True:
        match prims.get(var):
            case Op("copy", (chosen,)):
                pass
            case Op("select", (Read(c, here), yes, no)) if here == at:
                match prims.get(c):
                    case Op("eq", (Number(place), Lit(value))) if place == at[0]:
                        chosen = yes if value == k else no
                    case _:
                        return None
            case _:
                return None
        match chosen:
            case Lit(int(value)):
                return value
            case Read(var, here) if here == at:
                pass
            case _:
                return None
