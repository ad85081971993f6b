"""Loops over the same numbers that read the same go together, and read it once. loops → loops

    before   free for q in 0..m: store y[q] = x[q] + x[m + q]
             free for q in 0..m: store y[m + q] = x[q] - x[m + q]

    after    free for q in 0..m:
                 v = x[q]
                 w = x[m + q]
                 store y[q] = v + w
                 store y[m + q] = v - w

They were rounds of one loop whose rounds are independent: none reads what another writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from naperian.dtypes import DType
from naperian.loops.syntax import Apply, Expr, Let, Load, Local, Loop, Order, Store
from naperian.loops.walk import index_expressions, used_in
from naperian.names import Var
from naperian.node import replace


def together(loops: Sequence[Loop], dtypes: Mapping[Var, DType]) -> Loop | None:
    """One loop that does what all do, if most of what they read is read by several."""
    if len(loops) < 2 or not all(_is_plain(s) for s in loops):
        return None
    values = _Values(dtypes)
    read: Counter[int] = Counter()
    stores: list[tuple[Store, int]] = []
    for s in loops:
        values.read.clear()
        for x in s.body:
            if isinstance(x, Let):
                values.named[x.var] = values.number(x.value)
            elif isinstance(x, Store):
                stores.append((x, values.number(x.value)))
        read.update(values.read)
    if not read or 2 * sum(n > 1 for n in read.values()) < len(read):
        return None
    lets = tuple(values.lets(k for _, k in stores))
    stored = (replace(x, value=values.made[k]) for x, k in stores)
    return replace(loops[0], body=(*lets, *stored))


def _is_plain(s: Loop) -> bool:
    """Whether a loop only stores, and what it names is no index."""
    named = {x.var for x in s.body if isinstance(x, Let)}
    return (
        s.order is Order.FREE
        and not s.reductions
        and all(isinstance(x, Store | Let) for x in s.body)
        and all(named.isdisjoint(used_in(i)) for x in s.body for i in index_expressions(x))
    )


@dataclass
class _Values:
    """Expressions by numbers: equal ones have one, and operands come before what is made of them.
    `read` are the elements among those that were numbered last, `made` is what computes a value."""

    dtypes: Mapping[Var, DType]
    named: dict[Var, int] = field(default_factory=dict)
    numbers: dict[object, int] = field(default_factory=dict)
    all: list[tuple[Expr, tuple[int, ...]]] = field(default_factory=list)
    read: set[int] = field(default_factory=set)
    made: dict[int, Expr] = field(default_factory=dict)

    def number(self, e: Expr) -> int:
        if isinstance(e, Local) and e.var in self.named:
            return self.named[e.var]
        args = tuple(map(self.number, e.args)) if isinstance(e, Apply) else ()
        key = (e.name, args, e.dtype, e.operand) if isinstance(e, Apply) else e
        k = self.numbers.setdefault(key, len(self.all))
        if k == len(self.all):
            self.all.append((e, args))
        if isinstance(e, Load):
            self.read.add(k)
        return k

    def lets(self, stored: Iterator[int]) -> Iterator[Let]:
        """Names for the values that are used more than once."""
        uses = Counter(stored)
        for _, args in self.all:
            uses.update(args)
        for k, (e, args) in enumerate(self.all):
            new = replace(e, args=tuple(self.made[a] for a in args)) if isinstance(e, Apply) else e
            if uses[k] > 1 and isinstance(new, Apply | Load):
                var = Var("v")
                yield Let(var, self.dtypes[new.buffer] if isinstance(new, Load) else new.dtype, new)
                new = Local(var)
            self.made[k] = new
