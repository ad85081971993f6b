"""No garbage collection while much is made of which little is garbage.

The collector would look through trees that are in use, and through modules that are being read: it
takes a tenth of a compilation's time, and a seventh of what the first one in a process takes.

What leads back to itself is garbage that nothing but the collector finds. So what a compilation
makes much of does not: nodes keep no answers that hold them, no function inside another that holds
much calls itself, and what mentions each other forgets it when it is done (`fusion.graph.forget`).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_MUCH = 1_000_000  # objects: some hundred megabytes, of twenty large programs
_aside = 0


@contextmanager
def uncollected() -> Iterator[None]:
    """No collection meanwhile. What is left behind is looked through when much has been left, not
    at once."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            _set_aside()
            gc.enable()


def _set_aside() -> None:
    """Put what is young among the old. The collector would look through all of it now, for the
    little that is garbage."""
    global _aside
    _aside += gc.get_count()[0]
    if gc.get_freeze_count():  # somebody keeps objects out of the collector's way
        return
    gc.freeze()
    gc.unfreeze()
    if _aside > _MUCH:
        _aside = 0
        gc.collect()
