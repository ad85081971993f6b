"""Modules that are read when something of them is first asked for.

Whoever runs a program that was compiled before needs nothing of the compiler, and reading it takes
longer than running the program.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from naperian.garbage import uncollected


def read(name: str) -> ModuleType:
    """A module, read now if it was not."""
    if name in sys.modules:
        return import_module(name)  # which waits for who is reading it
    with uncollected():
        return import_module(name)


class _Late(ModuleType):
    """Stands for a module. (The standard library's `LazyLoader` is not safe with threads.)"""

    def __getattr__(self, name: str) -> Any:
        return getattr(read(self.__name__), name)


def late(name: str) -> ModuleType:
    """A module of this project, read at the first use of a name in it."""
    return _Late(name)
