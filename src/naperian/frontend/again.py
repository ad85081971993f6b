"""What was elaborated before, in a text that begins as this one, is not elaborated again.

    >>> def f(x: Float) = sin(x)
    >>> def g(x: Float) = f(x) + 1.0        only this one
    >>> g(2.0)                              only what is asked

The REPL, a notebook and the pages of the documentation add to a text, and each entry means what it
would mean in a file: it costs what it adds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import is_
from typing import Any

from naperian.core import syntax as core
from naperian.core.syntax import Definition
from naperian.frontend.walk import Globals
from naperian.node import node, replace
from naperian.source import Source, Span
from naperian.surface import syntax as s

_WORD = re.compile(r"\w+")
_MOST = 128  # definitions that are remembered; longer texts are not looked up at all

Meaning = Callable[[str], tuple[object, ...]]
"""What a word may mean in the module at hand: objects, or None."""


@node
class _Made:
    definition: Definition
    words: tuple[tuple[str, tuple[object, ...]], ...]  # each with what it meant


class Before:
    """The definitions of modules without types, interfaces and instances, their own or imported,
    which are others each time, by the text up to their ends. A word that meant something else makes
    another definition."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str, str], _Made] = {}

    @staticmethod
    def suits(tree: s.Module, globals: Globals) -> bool:
        g = globals
        types = g.enums or g.data or g.known_data or g.interfaces or g.known or g.instances
        return len(tree.decls) <= _MOST and not types

    def find(self, name: str, d: s.Def | s.Bind, meaning: Meaning) -> Definition | None:
        """As it was made at first, in the text where it stood."""
        made = self._made.get(_key(name, d))
        if made is None or not all(_same(meant, meaning(word)) for word, meant in made.words):
            return None
        return made.definition

    def keep(self, name: str, d: s.Def | s.Bind, meaning: Meaning, made: Definition) -> None:
        words = dict.fromkeys(_WORD.findall(d.span.text))
        self._made[_key(name, d)] = _Made(made, tuple((w, meaning(w)) for w in words))
        if len(self._made) > _MOST:
            del self._made[next(iter(self._made))]


def _key(name: str, d: s.Def | s.Bind) -> tuple[str, str, str]:
    source = d.span.source
    return name, source.name, source.text[: d.span.end]


def _same(old: tuple[object, ...], new: tuple[object, ...]) -> bool:
    return all(a is b for a, b in zip(old, new, strict=True))


def moved(x: Any, source: Source) -> Any:
    """A definition or a part of one, in another text that begins in the same way."""
    if isinstance(x, Span):
        return replace(x, source=source) if x.source.name == source.name else x
    if isinstance(x, tuple):
        items = [moved(y, source) for y in x]
        return x if all(map(is_, items, x)) else tuple(items)
    kind = type(x)
    if kind.__module__ != core.__name__:
        return x
    changed = {}
    for f in kind.__match_args__:
        old = getattr(x, f)
        new = moved(old, source)
        if new is not old:
            changed[f] = new
    return replace(x, **changed) if changed else x
