"""The words the native entry's IR is written with: numbers that tables hold, offsets in Python's
objects, and loops and loads as texts.

The text is written as a C compiler writes it before optimising: locals live in `alloca`s, which
the optimiser turns into registers.
"""

from __future__ import annotations

MOST = 16  # arguments, sizes and results; more go the slow way
RELEASE = 8192  # elements from which on other Python threads may run
ELEMENTS, SCALAR, EMPTY = range(3)  # what to look at: an array's elements, a scalar, only the set
(ARRAY, FLOAT, FLOAT_ONLY, SINGLE, SINGLE_ONLY, INT, INT_ONLY, BOOL, SIZE, LATE, NARROW, WORD,
 WIDE) = range(13)  # fmt: skip
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


SHORT = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
"""NumPy's integers that an `Int` holds, whatever their values are."""


def short(name: str, lowest: str, highest: str, found: str, otherwise: str) -> str:
    """Blocks that read a scalar of a type of `SHORT` as `%{name}`, if all numbers of the type are
    within the ends, and go to `found`."""
    many = len(SHORT)
    tests = [f"%{name}_is_{t} = icmp eq ptr %type, @nap_{t}" for t in SHORT]
    arms, reads = [], []
    for k, t in enumerate(SHORT):
        signed, bits = not t.startswith("u"), int(t.lstrip("uint"))
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        after = f"{name}_test{k + 1}" if k + 1 < many else otherwise
        arms.append(f"""{name}_test{k}:
  {tests[k]}
  br i1 %{name}_is_{t}, label %{name}_{t}, label %{after}""")
        reads.append(f"""{name}_{t}:
  %{name}_low_{t} = icmp sle i64 {lowest}, {low}
  %{name}_high_{t} = icmp sge i64 {highest}, {high}
  %{name}_holds_{t} = and i1 %{name}_low_{t}, %{name}_high_{t}
  %{name}_at_{t} = getelementptr i8, ptr %object, i64 {DOUBLE}
  %{name}_bits_{t} = load i{bits}, ptr %{name}_at_{t}
  %{name}_word_{t} = {"sext" if signed else "zext"} i{bits} %{name}_bits_{t} to i64
  br i1 %{name}_holds_{t}, label %{name}_read, label %{otherwise}""")
    words = ", ".join(f"[ %{name}_word_{t}, %{name}_{t} ]" for t in SHORT)
    read = f"{name}_read:\n  %{name} = phi i64 {words}\n  br label %{found}"
    return "\n".join(["", *arms, *reads, read])
