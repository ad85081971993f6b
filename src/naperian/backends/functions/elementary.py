"""How an elementary function is written: a Python function on `Real`s under its name."""

from __future__ import annotations

from collections.abc import Callable

from naperian.backends import rare
from naperian.backends.functions.arith import Flag, Real

RARE = {"sin": 1, "cos": 1, "tan": 1, "fmod": 2, "lgamma": 1}
"""The functions of libm that are called at times, and their arities."""

FUNCTIONS: dict[str, tuple[Callable[..., Real], int]] = {}
"""What writes a function, and its arity."""

POWERS: dict[str, tuple[Callable[..., Real], int]] = {}
"""The same of powers to known numbers: what `pow` is with a literal exponent."""

PAIRS = {"sincos": ("sin", "cos")}
"""Functions with two results, each half of the other: what vectors call that want both."""


def written(name: str) -> tuple[Callable[..., Real], int]:
    """What writes a function or a power, and its arity."""
    return FUNCTIONS.get(name) or POWERS[name]


def elementary(name: str, arity: int = 1) -> Callable[[Callable[..., Real]], Callable[..., Real]]:
    """Register what writes a function."""

    def keep(body: Callable[..., Real]) -> Callable[..., Real]:
        FUNCTIONS[name] = (body, arity)
        return body

    return keep


def rarely(name: str, when: Flag, otherwise: Real, *args: Real) -> Real:
    """libm's function where `when` holds, else what has been computed."""
    f, code = otherwise.f, otherwise.f.code
    if f.usual:
        when.is_rare()
        return otherwise
    if f.lanes > 1:
        return when.choose(called(name, *args, when=when), otherwise)
    before, slow, done = code.block, code.label("slow"), code.label("done")
    code.branch(when.value, slow, done, ', !prof !{!"branch_weights", i32 1, i32 1000000}')
    code.begin(slow)
    slowly = called(name, *args)
    code.jump(done)
    code.begin(done)
    merged = code.let(f"phi {f.type} [ {otherwise.value}, %{before} ], [ {slowly.value}, %{slow} ]")
    return Real(f, merged)


def called(name: str, *args: Real, when: Flag | None = None) -> Real:
    """libm's function, in double; of lanes, those for which `when` holds if any does."""
    f = args[0].f
    wide = args if f.wide else tuple(x.widened() for x in args)
    w = wide[0].f
    operands = ", ".join(f"{w.type} {x.value}" for x in wide)
    symbol, mark = f"@nap.rare.{name}", rare.attribute(name, len(args))
    if f.lanes > 1:
        mask = when.value if when is not None else f.constant("i1", "true")
        symbol, mark = f"{symbol}.{f.lanes}", ""
        operands += f", {f.flag} {mask}"
    y = Real(w, f.code.let(f"call {w.type} {symbol}({operands}) {mark}"))
    return y if f.wide else y.narrowed()


def through_double(body: Callable[..., Real]) -> Callable[..., Real]:
    """The same function of single precision, computed in double."""

    def either(*args: Real) -> Real:
        if args[0].f.wide:
            return body(*args)
        return body(*(x.widened() for x in args)).narrowed()

    return either
