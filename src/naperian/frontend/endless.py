"""Instances that come back to themselves.

    instance Weight(Int):
        def weight(k) = total(k)              Weight(Int).weight → total → Weight(Int).weight

Definitions only use earlier ones, but a method may lead to any instance. The calls are followed at
the types they are made at; what hangs on a type variable of the instance is the caller's, and ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from naperian.core import syntax as core
from naperian.core.instances import fits
from naperian.core.methods import METHOD_OF
from naperian.core.walk import everything
from naperian.substitution import Substitution
from naperian.types import Scalar, Type

_Call = tuple[str, Substitution]
_DEEP = 100  # types that grow with every call never come back, nor to an end
_LARGE = 10_000  # characters of such types: each may be twice as large as the one before


class Calls:
    """Which definition calls which, at which types."""

    def __init__(
        self, definitions: Mapping[str, core.Definition], instances: Iterable[core.Instance]
    ) -> None:
        self.definitions = definitions
        self.instances = tuple(instances)
        self.done: set[tuple[object, ...]] = set()

    def endless(self, name: str) -> list[str] | None:
        """The way from a definition back to itself, or to no end."""
        nothing = Substitution({}, {}, {})
        return self._visit((name, nothing), [])

    def _visit(self, call: _Call, path: list[tuple[object, ...]]) -> list[str] | None:
        name, at = call
        key = (name, *sorted((v.id, repr(t)) for v, t in at.types.items()))
        if key in path or len(path) > _DEEP or sum(map(len, map(str, key))) > _LARGE:
            return [str(k[0]) for k in path[path.index(key) if key in path else -3 :]] + [name]
        if key in self.done or name not in self.definitions:
            return None
        for inner in self._calls(self.definitions[name], at):
            found = self._visit(inner, [*path, key])
            if found is not None:
                return found
        self.done.add(key)
        return None

    def _calls(self, d: core.Definition, at: Substitution) -> Iterator[_Call]:
        for e in everything(d.body):
            match e:
                case core.Use(name, own):
                    types = {v: at.type(t) for v, t in own.types.items()}
                    yield name, Substitution(types, {}, {})
                case core.Method(interface, name, types_here):
                    yield from self._method(interface, name, tuple(map(at.type, types_here)))
                case core.Op(name, _, t) if name in METHOD_OF and not isinstance(t, Scalar):
                    yield from self._method(*METHOD_OF[name], (at.type(t),))
                case core.ConstOf(_, t):
                    yield from self._method("Num", "number", (at.type(t),))
                case core.Reduce(_, _, _, _, _, t) if not isinstance(t, Scalar):
                    for step in ("add", "mul", "lt"):
                        yield from self._method(*METHOD_OF[step], (at.type(t),))
                case _:
                    pass

    def _method(self, interface: str, name: str, types: tuple[Type, ...]) -> Iterator[_Call]:
        for i in self.instances:
            if i.interface == interface and name in i.methods:
                here = fits(i, types)
                if not isinstance(here, bool):
                    at = {v: here.type(t) for v, t in i.at.types.items()}
                    yield i.methods[name], Substitution({**at, **here.types}, {}, {})
