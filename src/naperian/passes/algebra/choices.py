"""Which elements of a table a choice replaces, and which it leaves.

    y if a == i else z if a == j else s[a]         at i by y, at j by z, if j is not i
    (y if a != i else s[a]) if c else s[a]         …
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from naperian.ainf.syntax import Binding, Index, Number, Op, Operand, Read
from naperian.ainf.walk import atoms, free, rewrite
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.node import mutable, node

Said: TypeAlias = tuple[tuple[Operand, bool], ...]
"""Conditions, and whether they hold."""


@node
class Choice:
    """A value that is taken where indices are `keys` and the conditions `given`, which do not
    depend on these, and `others` are what they are: a choice before is not taken."""

    keys: dict[Var, Operand]
    value: Operand
    given: Said
    others: Said


@mutable
class Choices:
    """The bindings of a program, its indices, and the types of all that is read."""

    bindings: Mapping[Var, Binding]
    indices: dict[Var, Index]
    dtypes: Mapping[Var, DType]

    def of(
        self, x: Operand, old: Read, axes: tuple[Var, ...], given: Said = (), others: Said = ()
    ) -> list[Choice] | None:
        """What takes the place of which elements of the old table, the first that fits; None if
        others change, too."""
        if self.seen(x) == old:
            return []
        match self.op(x, (*given, *others)):
            case ("select", (c, yes, no)):
                pass
            case _:
                return None
        for holds, value, rest in ((True, yes, no), (False, no, yes)):
            keys: dict[Var, Operand] = {}
            if self.says((c, holds), axes, keys, (*given, *others)):
                found = self.of(rest, old, axes, given, (*others, (c, not holds)))
                return None if found is None else [Choice(keys, value, given, others), *found]
        one = self.of(yes, old, axes, (*given, (c, True)), others)
        two = None if one is None else self.of(no, old, axes, (*given, (c, False)), others)
        if one is None or two is None or any(i in x.keys for x in one + two for i in free(c)):
            return None
        return one + two

    def seen(self, x: Operand) -> Operand:
        """What is copied, where that is a copy."""
        while isinstance(x, Read) and x.var in self.bindings:
            b = self.bindings[x.var]
            if not isinstance(b.prim, Op) or b.prim.name != "copy":
                break
            x = rewrite(b.prim.args[0], dict(zip(b.context, x.at, strict=True)))
        return x

    def op(self, x: Operand, said: Said) -> tuple[str, tuple[Operand, ...]] | None:
        """The operation that gives a value, and its operands there, if it needs no more than what
        is said."""
        if not isinstance(x, Read) or x.var not in self.bindings:
            return None
        b = self.bindings[x.var]
        if not isinstance(b.prim, Op) or not all(map(said.__contains__, self.needed_for(x))):
            return None
        names = dict(zip(b.context, x.at, strict=True))
        return b.prim.name, tuple(rewrite(a, names) for a in b.prim.args)

    def needed_for(self, x: Operand) -> Iterator[tuple[Operand, bool]]:
        """The conditions under which what is read is there."""
        for r in atoms(x):
            b = self.bindings.get(r.var) if isinstance(r, Read) else None
            if isinstance(r, Read) and b is not None:
                names = dict(zip(b.context, r.at, strict=True))
                yield from ((rewrite(g.operand, names), g.holds) for g in b.guards)

    def says(
        self, c: tuple[Operand, bool], axes: tuple[Var, ...], keys: dict[Var, Operand], said: Said
    ) -> bool:
        """Whether a condition says of indices what they are, and nothing else; what that is."""
        condition, holds = c
        match self.op(condition, said), holds:
            case (("and", (x, y)) | ("select", (x, y, Lit(False))), True):
                both = (self.says((e, True), axes, keys, said) for e in (x, y))
                return all(both)
            case (("eq", (x, y)), True) | (("ne", (x, y)), False):
                for index, key in ((x, y), (y, x)):
                    a = index.value.single if isinstance(index, Number) else None
                    if isinstance(a, Var) and a in axes and a not in {*keys, *free(key)}:
                        if self.indices[a].condition is None and self.is_whole(key):
                            keys[a] = key
                            return True
            case _:
                pass
        return False

    def is_whole(self, key: Operand) -> bool:
        match key:
            case Number():
                return True
            case Lit():
                return key.dtype is DType.I64
            case Read(v):
                return self.dtypes.get(v) is DType.I64
        return False
