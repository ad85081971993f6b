"""The words the native entry's IR is written with: numbers that tables hold, offsets in Python's
objects, and loops and loads as texts.

The text is written as a C compiler writes it before optimising: locals live in `alloca`s, which
the optimiser turns into registers.
"""

from __future__ import annotations

MOST = 16  # arguments, sizes and results; more go the slow way
RELEASE = 8192  # elements from which on other Python threads may run
ELEMENTS, SCALAR, EMPTY = range(3)  # what to look at: an array's elements, a scalar, only the set
ARRAY, FLOAT, FLOAT_ONLY, SINGLE, SINGLE_ONLY, INT, BOOL, SIZE, LATE, NARROW, WORD = range(11)
SIGNED = 64  # plus bits: a shorter integer with a sign, that is given
BIND, EQUAL, GIVEN, SEARCH = range(4)  # what an argument says of slots

# offsets in CPython's and NumPy's objects
OB_TYPE, LENGTH, ITEMS, BYTES, DOUBLE = 8, 16, 24, 32, 16
DATA, ND, DIMS, DESCR, FLAGS = 16, 24, 32, 56, 64
WELL = 0x0001 | 0x0100  # contiguous by rows, aligned
WRITABLE = 0x0400
USUAL = WELL | WRITABLE  # flags of an array of one's own
LONG_SUBCLASS = 1 << 24  # of a type
SINGLE_RESULT, TUPLE, SINGLE_ARRAY = range(3)  # what a call gives; the last may be given as `out`


def loop(name: str, counter: str, limit: str, body: str, after: str) -> str:
    """Blocks that run `body` (which ends by jumping to `{name}_next`) with counter = 0 … limit-1,
    then go to `after`. The counter is an `alloca`."""
    return f"""
  store i64 0, ptr {counter}
  br label %{name}_test
{name}_test:
  %{name}_k = load i64, ptr {counter}
  %{name}_more = icmp slt i64 %{name}_k, {limit}
  br i1 %{name}_more, label %{name}_body, label %{after}
{name}_next:
  %{name}_old = load i64, ptr {counter}
  %{name}_new = add i64 %{name}_old, 1
  store i64 %{name}_new, ptr {counter}
  br label %{name}_test
{name}_body:{body}"""


def field(result: str, kind: str, base: str, offset: int) -> str:
    return f"""
  {result}_at = getelementptr i8, ptr {base}, i64 {offset}
  {result} = load {kind}, ptr {result}_at"""


def item(result: str, array: str, index: str, kind: str = "i64") -> str:
    return f"""
  {result}_at = getelementptr i64, ptr {array}, i64 {index}
  {result} = load {kind}, ptr {result}_at"""


def put(kind: str, value: str, array: str, index: str, name: str) -> str:
    return f"""
  %{name}_to = getelementptr i64, ptr {array}, i64 {index}
  store {kind} {value}, ptr %{name}_to"""


def dispatch(name: str, cases: dict[int, str], otherwise: str) -> str:
    arms = " ".join(f"i64 {k}, label %{label}" for k, label in cases.items())
    return f"""
  switch i64 %{name}, label %{otherwise} [ {arms} ]"""
