"""A number of rounds that is there once what the loop around them carries is.

    w[i, b], u[i, b] carried over b     m' = max over i of after(after(m, w[i, b]), u[i, b])

All that is carried is waited for, until the loop is closed: what is in every round what it was
before, as a cotangent that everything is only added to, is there before the loop is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from naperian.ainf.syntax import Binding, Delay, Op, Operand, Read
from naperian.ainf.walk import number, rewrite, size_of
from naperian.dtypes import DType
from naperian.names import Var
from naperian.node import mutable, replace
from naperian.passes.bindings.builder import Builder, Guards
from naperian.sizes import Size, size

_Copied = Callable[[tuple[Var, ...]], tuple[dict[Var, Size], tuple[Var, ...]]]


@mutable
class Late:
    """The bindings that wait: which they are, what they are if nobody has to wait there, and for
    whom they do."""

    b: Builder
    waiting: list[tuple[int, Operand, frozenset[Var]]]

    def after(
        self, n: Size, carried: Iterable[Read], here: frozenset[Var], copied: _Copied,
        guards: Guards,
    ) -> Size:
        """The number, once what is carried is there, at all points of axes that are not `here`."""
        along: dict[tuple[Var, ...], list[Read]] = {}
        for w in carried:
            own = tuple(i for i in self.b.contexts[w.var][:-1] if i not in here)
            along.setdefault(own, []).append(w)
        for own, ws in along.items():
            names, copies = copied(own)
            before = now = number(n)
            for w in ws:
                waits = self.b.bind(Op("after", (now, rewrite(w, names))), DType.I64, guards)
                self.waiting.append((len(self.b.bindings) - 1, now, frozenset({w.var})))
                now = waits
            if copies:
                now = self.b.reduce("max", before, ((copies, now, ()),), DType.I64, guards)
                everybody = frozenset(w.var for w in ws)
                self.waiting.append((len(self.b.bindings) - 1, before, everybody))
            n = size_of(now)
        return n

    def settle(self) -> None:
        """Nobody waits for what no round changes, once the rounds are known."""
        if not self.waiting:
            return
        made = {x.var: x for x in self.b.bindings}
        carried = frozenset[Var]().union(*(ws for _, _, ws in self.waiting))
        still = {w for w in carried if _is_still(made, made[w])}
        if still == carried:
            return
        for slot, otherwise, ws in self.waiting:
            if ws <= still:
                old = self.b.bindings[slot]
                self.b.bindings[slot] = replace(old, prim=Op("copy", (otherwise,)))


def _is_still(made: dict[Var, Binding], w: Binding) -> bool:
    """Whether a delay hands on what it has, through loops inside that do, too."""
    own, then = _next(w)
    while isinstance(then, Read) and then != own:
        x = made.get(then.var)
        if x is None or not isinstance(x.prim, Delay) or x is w:
            return False
        inside, after = _next(x)
        if after != inside:
            return False
        then = rewrite(x.prim.init, dict(zip(x.context, then.at, strict=True)))
    return True


def _next(x: Binding) -> tuple[Read, Operand]:
    """A delay as a round reads it, and what the next one will."""
    assert isinstance(x.prim, Delay)
    own = (size(x.prim.time if i == x.prim.index else i) for i in x.context)
    return Read(x.var, tuple(own)), x.prim.next
