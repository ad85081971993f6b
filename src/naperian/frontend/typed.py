"""What the walk makes of an expression: its type now, its core later.

`build` is called when everything is solved. `poly` is the value as a polynomial over the integer
variables in scope when the expression is index arithmetic; `lets` are integer values that had to
be named for it (`x[p[i] + 1]`), to be bound around whatever uses the polynomial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from naperian.core import syntax as core
from naperian.facts import Apart, Doubted
from naperian.names import Var
from naperian.node import mutable, node
from naperian.sizes import Size
from naperian.source import Span
from naperian.types import Type

Build = Callable[[], core.Expr]
Wrap = Callable[[core.Expr], core.Expr]
"""What a statement or a pattern puts around the core of what follows it."""


Claim: TypeAlias = Callable[[Size], Size]
"""What is at least 0 of a number, as its distance from an end."""


@mutable
class Typed:
    """An expression with its type."""

    type: Type
    build: Build
    span: Span
    poly: Size | None = None
    lets: tuple[tuple[Var, Build], ...] = ()
    exact: bool = False  # the polynomial has only indices, sizes and literals: it cannot overflow
    condition: Condition | None = None
    ways: tuple[Way, ...] = ()  # what the number may be, if it is chosen
    items: tuple[Typed, ...] = ()  # what is known of the items of a tuple that is written as one
    always: tuple[Claim, ...] = ()  # what is known of an Int that a loop ends with

    def build_all(self) -> Build:
        """Building it, with what its polynomial names bound around it."""
        return wrap(self.lets, self.build)


@node
class Condition:
    """What a Boolean says of sizes: polynomials that are >= 0 (or not 0) if it holds, and if not.
    `lets` are the values named in them."""

    then: tuple[Size | Apart | Doubted, ...]
    otherwise: tuple[Size | Apart | Doubted, ...]


@node
class Way:
    """What a chosen number is, and what is known where it is that."""

    facts: tuple[Size, ...]
    apart: tuple[Apart, ...]
    poly: Size


@mutable
class Once:
    """A value that has got a name: what is built where the name is bound reads it there, so that
    whatever the value does is done once."""

    plain: Build
    named: Build | None = None
    bound: bool = False

    def __call__(self) -> core.Expr:
        return self.named() if self.bound and self.named is not None else self.plain()


@mutable
class Value:
    """What a name stands for."""

    build: Build
    once: Once

    def __call__(self) -> core.Expr:
        return self.build()


@contextmanager
def _bound(lets: tuple[tuple[Var, Build], ...]) -> Iterator[None]:
    held = [value.once for _, value in lets if isinstance(value, Value)]
    before = [x.bound for x in held]
    for x in held:
        x.bound = True
    yield
    for x, b in zip(held, before, strict=True):
        x.bound = b


def within(lets: tuple[tuple[Var, Build], ...], build: Build) -> core.Expr:
    """What is built inside of these names, which `let_all` is then to bind."""
    with _bound(lets):
        return build()


def let_all(lets: tuple[tuple[Var, Build], ...], expr: core.Expr) -> core.Expr:
    """These values bound around an expression."""
    for var, value in reversed(lets):
        expr = core.Let(var, value(), expr)
    return expr


def wrap(lets: tuple[tuple[Var, Build], ...], body: Build) -> Build:
    """The core of `body` with these values bound around it."""
    if not lets:
        return body

    return lambda: let_all(lets, within(lets, body))
