"""Definitions that come with the language: each is elaborated when it is first used.

They are known to be right, so that nobody has to be told what is wrong with those that a program
does not mention; and a program mentions few of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from naperian.core import syntax as core
from naperian.frontend.definitions import constant, define
from naperian.frontend.rules import with_rules
from naperian.frontend.walk import Globals
from naperian.surface import syntax as s


class OnDemand(Mapping[str, core.Definition]):
    """The functions and constants of a module, by their names in it; `done` are those that were
    elaborated so far, callees before callers. They see `globals`, and `library`."""

    def __init__(self, module: s.Module, prefix: str, globals: Globals, library: Globals) -> None:
        self._written = {d.name: d for d in module.decls if isinstance(d, s.Def)}
        self._constants = {
            d.pattern.name: d
            for d in module.decls
            if isinstance(d, s.Bind) and isinstance(d.pattern, s.PName)
        }
        self._prefix, self._globals, self._library = prefix, globals, library
        self._depth = 0  # of definitions that wait for another
        self._plain: dict[str, core.Definition] = {}  # whose rules are found when nobody waits
        self.done: dict[str, core.Definition] = {}

    def __getitem__(self, name: str) -> core.Definition:
        if name not in self.done:
            with self._waiting():
                self._elaborate(name)
        while self._plain and not self._depth:
            with self._waiting():  # a rule may use what it is for
                self._find_rules(next(iter(self._plain)))
        return self.done[name]

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def _elaborate(self, name: str) -> None:
        full = self._prefix + name
        if name in self._written:
            made, wrong = define(self._written[name], full, self._globals, self._library)
        elif name in self._constants:
            made, wrong = constant(self._constants[name], full, self._globals, self._library)
        else:
            raise KeyError(name)
        if made is None:
            raise AssertionError(f"the library's {full}: {wrong}")
        self.done[name] = made
        if name in self._written and self._written[name].decorators:
            self._plain[name] = made

    def _find_rules(self, name: str) -> None:
        written = self._written[name]
        made, wrong = with_rules(self._plain[name], written, self._globals, self._library)
        assert not wrong, wrong
        self.done[name] = made
        del self._plain[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._written
        yield from self._constants

    def __len__(self) -> int:
        return len(self._written) + len(self._constants)

    def __contains__(self, name: object) -> bool:
        return name in self._written or name in self._constants
