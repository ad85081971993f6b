"""What a run costs, counted: the interpreter of loops, which keeps an account.

An operation counts as `prims` says (in additions); an element read, written or filled is one more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from naperian.loops.run import Machine, results
from naperian.loops.syntax import Allocate, Apply, Buffer, Program, Role, Stmt
from naperian.names import Lit, Var
from naperian.node import node
from naperian.prims import PRIMITIVES
from naperian.sizes import Size


@node
class Cost:
    """`operations` in additions; `accesses` to elements of buffers; `memory` is the most bytes
    that temporary buffers held at once."""

    operations: int
    accesses: int
    memory: int

    @property
    def total(self) -> int:
        return self.operations + self.accesses


def count(program: Program, sizes: Sequence[int], args: Sequence[Any]) -> Cost:
    """The cost of a run."""
    m = _Counting()
    results(m, program, sizes, args)
    return Cost(m.operations, m.accesses, m.most)


class _Counting(Machine):
    def __init__(self) -> None:
        super().__init__(lambda _: None)
        self.operations = 0
        self.accesses = 0
        self.held = 0
        self.most = 0

    def allocate(self, b: Buffer, fill: Lit | None) -> None:
        super().allocate(b, fill)
        array, _ = self.memory[b.var]
        if fill is not None:
            self.accesses += array.size
        if b.role is Role.TEMP:
            self.held += array.nbytes
            self.most = max(self.most, self.held)

    def block(self, body: tuple[Stmt, ...]) -> Callable[[], None]:
        go = super().block(body)
        own = [
            s.buffer.var
            for s in body
            if isinstance(s, Allocate) and s.buffer.role is Role.TEMP
        ]

        def counted() -> None:
            go()
            for v in own:
                self.held -= self.memory[v][0].nbytes

        return counted if own else go

    def load(self, buffer: Var, at: tuple[Size, ...]) -> Callable[[], Any]:
        go = super().load(buffer, at)

        def counted() -> Any:
            self.accesses += 1
            return go()

        return counted

    def store(
        self, buffer: Var, at: tuple[Size, ...], value: Callable[[], Any]
    ) -> Callable[[], None]:
        go = super().store(buffer, at, value)

        def counted() -> None:
            self.accesses += 1
            go()

        return counted

    def multiply_add(self, total: Any, left: Any, right: Any) -> Any:
        self.operations += 2
        return super().multiply_add(total, left, right)

    def applied(self, e: Apply) -> Callable[[], Any]:
        go = super().applied(e)
        known = PRIMITIVES.get(e.name)
        cost = known.cost if known is not None else 1

        def counted() -> Any:
            self.operations += cost
            return go()

        return counted
