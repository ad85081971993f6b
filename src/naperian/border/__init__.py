"""From NumPy to a compiled function and back.

    given      what a caller gives, as the leaves of a signature
    numbers    the dtypes of an instance, from the leaves; leaves in the dtypes of an instance
    shapes     the sizes, from the shapes
    rows       rows of unequal length
    call       convert, bind sizes, check, allocate, run, convert back
    results    memory for results, and what becomes of it
    adapter    the fast way in for what is made of several leaves

All but the last is the slow way in, which knows everything and explains every mistake in NumPy's
terms; the fast way (`backends/entries`) accepts only what needs no conversion and falls back to
this one. Nothing a caller passes is modified, except what is given as `out`.
"""

from naperian.border.adapter import adapter, refuse
from naperian.border.call import call, integers
from naperian.border.errors import (
    AssertionError,
    IndexError,
    MemoryError,
    RunError,
    ShapeError,
    Thrown,
    at_border,
    stop,
)
from naperian.border.given import as_size, gather, unsaid
from naperian.border.numbers import as_taken, choose, laid_out, usual
from naperian.border.value import Value
from naperian.source import Error

__all__ = [
    "AssertionError", "Error", "IndexError", "MemoryError", "RunError", "ShapeError", "Thrown",
    "Value", "adapter", "as_size", "as_taken", "at_border", "call", "choose", "gather",
    "integers", "laid_out", "refuse", "stop", "unsaid", "usual",
]  # fmt: skip
