"""The elementary functions, inline.

Every function is straight-line code, so that a loop around it becomes vector code, and is at most
4 units in the last place off (`tests/test_math.py` holds each to its own bound), including signed
zeros, subnormals, infinities and NaN. Both widths come from one text; the coefficients are from
`tools/fit_math.py`. Where a single-precision function would need extended precision it goes
through double.

Arguments for which a short reduction does not suffice (`sin(1e200)`) take a call to libm that
nothing else pays for: see `rare`.

A loop with much of them calls them instead, many elements at a time: they are compiled once for
all programs, and the loop compiles in half the time and runs as fast.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from naperian.backends import rare
from naperian.backends.code import Code
from naperian.backends.functions import circular, exponential, gammas, powers, special
from naperian.backends.functions.arith import Format, Real
from naperian.backends.functions.elementary import PAIRS, RARE, written
from naperian.backends.llvm import AS_WRITTEN, FINISHED
from naperian.backends.rare import LANES, MARK
from naperian.backends.target import Target
from naperian.dtypes import DType
from naperian.node import node

WRITTEN_IN = (exponential, circular, gammas, special, powers)  # each registers its functions


@node
class Function:
    """A function's text, the rare calls (with their arities) it makes, and the tables it reads."""

    symbol: str
    text: str
    rare: tuple[tuple[str, int], ...]
    tables: dict[str, str]


@cache
def function(name: str, dtype: DType, lanes: int = 1, scales: bool = False) -> Function:
    """The definition of a function on floats of a dtype, or so many of them, to be included once in
    a module. `scales`: see `Target`."""
    symbol = f"@nap.{name}.f{dtype.bits}" + (f".{lanes}" if lanes > 1 else "")
    return _function(name, dtype, lanes, f"internal {{}} {symbol}", "alwaysinline", scales)


@cache
def usual(name: str, dtype: DType, convention: str) -> Function | None:
    """The definition of a function that asks for rare arguments last, and leaves them to the one
    that is called: what waits for it waits for less. Nothing if it has no such arguments."""
    body, arity = written(name)
    code, rarely = Code(), list[str]()
    f = Format(code, dtype, 1, rarely)
    args = [Real(f, f"%x{k}") for k in range(arity)]
    result = body(*args)
    if not rarely:
        return None
    any_ = rarely[0]
    for flag in rarely[1:]:
        any_ = code.let(f"or i1 {any_}, {flag}")
    params = ", ".join(f"{f.type} {x.value}" for x in args)
    called = f"call {convention}{f.type} @{symbol(name, dtype)}({params}) {_PURE}"
    text = f"""\
  br i1 {any_}, label %rare, label %done, !prof !{{!"branch_weights", i32 1, i32 1000000}}
rare:
  %other = {called}
  br label %done
done:
  %result = phi {f.type} [ {result.value}, %entry ], [ %other, %rare ]
  ret {f.type} %result"""
    lines = [*code.lines, *text.split("\n")]
    head = f"define internal {f.type} @nap.{name}.f{dtype.bits}.usual({params}) alwaysinline"
    needed = "\n".join(["entry:", *_needed(lines)])
    return Function(
        f"@nap.{name}.f{dtype.bits}.usual", f"{head} {_PURE} {{\n{needed}\n}}", (), f.tables
    )


_PURE = "nounwind willreturn memory(none)"
_NAMES = re.compile(r"%\w+")


def _needed(lines: Sequence[str]) -> list[str]:
    """The lines without those whose results nobody reads."""
    read: set[str] = set()
    out: list[str] = []
    for line in reversed(lines):
        name, bound, what = line.strip().partition(" = ")
        if not bound or name in read:
            read.update(_NAMES.findall(what or line))
            out.append(line)
    return out[::-1]


def _function(name: str, dtype: DType, lanes: int, head: str, how: str, scales: bool) -> Function:
    parts = [written(part) for part in PAIRS.get(name, (name,))]
    f = Format(Code(), dtype, lanes, scales=scales)
    args = [Real(f, f"%x{k}") for k in range(parts[0][1])]
    results = [body(*args).value for body, _ in parts]
    type, value = f.type, results[0]
    if len(parts) > 1:
        type, value = f"{{ {', '.join([f.type] * len(parts))} }}", "poison"
        for k, x in enumerate(results):
            value = f.code.let(f"insertvalue {type} {value}, {f.type} {x}, {k}")
    f.code.put(f"ret {type} {value}")
    text = f.code.text()
    head = head.format(type)
    params = ", ".join(f"{f.type} {x.value}" for x in args)
    calls = tuple((n, k) for n, k in RARE.items() if f"@nap.rare.{n}" in text)
    return Function(
        head.split()[-1],
        f"define {head}({params}) {how} nounwind willreturn memory(none) {{\n{text}\n}}",
        calls,
        f.tables,
    )


# --- functions that are called ------------------------------------------------------------------
# Each is object code of its own, `nap_exp_f64` and `nap_exp_f64_8` for eight at a time. The
# vectoriser finds the forms by the `vector-function-abi-variant` attribute of a call.


def symbol(name: str, dtype: DType, lanes: int = 1) -> str:
    return f"nap_{name}_f{dtype.bits}" + (f"_{lanes}" if lanes > 1 else "")


def declarations(name: str, dtype: DType, convention: str) -> list[str]:
    """What a module that calls the function declares, one element first."""
    out = []
    for lanes in (1, *LANES):
        f = Format(Code(), dtype, lanes)
        params = ", ".join([f.type] * written(name)[1])
        out.append(f"declare {convention}{f.type} @{symbol(name, dtype, lanes)}({params}) {_PURE}")
    return out


def forms(name: str, dtype: DType) -> list[str]:
    """The symbols of the vector forms."""
    return [symbol(name, dtype, lanes) for lanes in LANES]


@cache
def attribute(name: str, dtype: DType) -> str:
    """What a call must carry for the vectoriser to find the vector forms."""
    scalar, arguments = symbol(name, dtype), "v" * written(name)[1]
    found = (f"_ZGV_LLVM_N{lanes}{arguments}_{scalar}({symbol(name, dtype, lanes)})"
             for lanes in LANES)  # fmt: skip
    return f'nounwind willreturn memory(none) "{MARK}"="{",".join(found)}"'


def both(name: str, dtype: DType, lanes: int, convention: str) -> tuple[str, str]:
    """The type of a pair of results, and the declaration of what gives it for one argument."""
    f = Format(Code(), dtype, lanes)
    type = f"{{ {f.type}, {f.type} }}"
    return type, f"declare {convention}{type} @{symbol(name, dtype, lanes)}({f.type}) {_PURE}"


def lines(name: str, dtype: DType) -> int:
    """How long a function is, inlined."""
    return function(name, dtype).text.count("\n")


@cache
def module(name: str, dtype: DType, lanes: int, target: Target) -> str:
    """The module that defines the function, or a form of it. Straight-line code is as good as it
    can be; calls of rare ones are inlined."""
    convention = target.convention
    head = f"hidden {convention}{{}} @{symbol(name, dtype, lanes)}"
    f = _function(name, dtype, lanes, head, "", target.scales)
    rarely = [
        rare.form(n, arity, lanes) if lanes > 1 else rare.definition(n, arity, target, convention)
        for n, arity in f.rare
    ]
    text = f.text.replace("call double @nap.rare.", f"call {convention}double @nap.rare.")
    parts = [*f.tables.values(), text, *rarely]
    return (AS_WRITTEN if rarely else FINISHED) + "\n\n".join(parts) + "\n"
