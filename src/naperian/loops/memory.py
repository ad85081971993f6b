"""How much memory a run takes, without running it: the interpreter of loops, with sizes alone.

Of a loop it makes the first round and the last; of a choice, both sides. What would be read is 0,
so a size that data decides does not count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from naperian.dtypes import DType
from naperian.loops.run import Machine
from naperian.loops.syntax import (
    Allocate,
    Assign,
    Buffer,
    Contract,
    Expr,
    Fail,
    Let,
    Loop,
    Order,
    Print,
    Program,
    Role,
    Sort,
    Stmt,
    Store,
    Update,
    Variable,
    When,
    While,
)
from naperian.loops.walk import blocks, statements
from naperian.names import Var
from naperian.prims import quiet, scalar
from naperian.sizes import Size, size

SMALL = 4096  # bytes of an array that is a stack slot


def needed(program: Program, given: Mapping[Var, int], threads: int) -> int:
    """The bytes of results and of what is alive at once between arguments and results, at most;
    `given` are the sizes and the scalar arguments that are integers. Every thread has its own of
    what a parallel loop allocates."""
    m = _Sizes(dict(given), threads)
    results = sum(m.bytes(b) for b in program.buffers if b.role is Role.OUT)
    with quiet():
        return results + m.alive(program.body)


def constant_bytes(b: Buffer) -> int | None:
    """The size of a buffer whose extents are constants."""
    total = b.dtype.bytes
    for n in b.shape:
        if n.constant is None:
            return None
        total *= max(0, n.constant)
    return total


class _Sizes(Machine):
    def __init__(self, given: dict[Var, int], threads: int) -> None:
        super().__init__(lambda _: None)
        self.scalars = defaultdict(int, given)  # a number with a fraction is no size
        self.threads = threads

    def bytes(self, b: Buffer) -> int:
        total = b.dtype.bytes
        for n in self.shape(b):
            total *= n
        return total

    def alive(self, body: tuple[Stmt, ...]) -> int:
        """What a block holds, and the most of what the blocks inside it hold."""
        own, inner = 0, 0
        for s in body:
            match s:
                case Allocate():
                    own += self.bytes(s.own) if s.own.role is Role.TEMP else 0
                case (
                    Let(var, dtype, value) | Variable(var, dtype, value)
                ) if dtype in (DType.I64, DType.F64):  # a number of rounds starts as it ends
                    self.scalars[var] = self.value(value)()
                case Loop(var, low, high) if _allocates(s):
                    first, last = self.size(low), self.size(high) - 1
                    times = self.threads if s.order is Order.PARALLEL else 1
                    for self.scalars[var] in dict.fromkeys((first, last)) if first <= last else ():
                        inner = max(inner, times * self.alive(s.body))
                case Sort((_, at), _, (v, n), dtype, places):  # what is not where the result goes
                    each = 8 if places else 0
                    if at[-1] != size(v):
                        each += 8 if places else dtype.bytes
                    inner = max(inner, each * max(0, self.size(n)))
                case When() | While():
                    inner = max(inner, *(self.alive(block) for block in blocks(s)))
                case (
                    Loop() | Let() | Variable() | Assign() | Store() | Update() | Fail() | Print()
                    | Contract()
                ):
                    pass
        return own + inner

    def load(self, buffer: Var, at: tuple[Size, ...]) -> Callable[[], Any]:
        return lambda: 0

    def operand(self, e: Expr, dtype: DType) -> Callable[[], Any]:
        """A number that is given, or is not known, has no type of its own."""
        go = self.value(e)
        return lambda: scalar(go(), dtype)


def _allocates(s: Loop) -> bool:
    return any(isinstance(x, Allocate) for x in statements(s.body))
