"""A small power is a product. ainf → ainf

    before   for i: y = pow(x[i], 3.0)           after    for i: s = mul(x[i], x[i])
                                                          for i: y = mul(s[i], x[i])

Two to three multiplications take a tenth of the time of a power of any exponent, and a square root
with a product a fifth. They round two to four times, so a power is within the 4 units in the last
place that every function keeps to (see `docs/accuracy.md`), up to the sixth; a product of more
factors would not be (what the power itself does about that, see `backends/functions/powers.py`). It
overflows, vanishes, and is negative exactly where the power is: where a part of it underflows, so
does all. A square root knows no -∞, and its zero has a sign, so these are asked for. A strict
definition has the power itself.

A power to an index of few elements is one of the products:

    for r<3, i: y = pow(x[i], cast(r))           for r<3, i: y = 1 if r = 0 else x[i] if r = 1 else
                                                                 mul(x[i], x[i])
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from naperian.ainf.syntax import Binding, Number, Op, Operand, Program, Read
from naperian.ainf.walk import context_of
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.prims import Math
from naperian.sizes import Atom, Size, rename, size

_Step = tuple[str, tuple[int | float, ...]]


def _root(*steps: _Step, least: float) -> tuple[_Step, ...]:
    """What is done with the square root, which is 1; and what is there for -∞."""
    n = len(steps) + 1
    return ("sqrt", (0,)), *steps, ("eq", (0, -inf)), ("select", (n + 1, least, n))


_LESS: tuple[_Step, ...] = (  # x ** -1.5, of which x ** -2.5 is a product
    ("div", (1.0, 0)), ("sqrt", (1,)), ("mul", (1, 2)), ("eq", (0, 0.0)), ("select", (4, inf, 3)),
)  # fmt: skip

_STEPS: dict[float, tuple[_Step, ...]] = {
    -3.0: (("div", (1.0, 0)), ("mul", (1, 1)), ("mul", (2, 1))),
    -2.5: (*_LESS, ("abs", (1,)), ("mul", (5, 6))),
    -2.0: (("div", (1.0, 0)), ("mul", (1, 1))),
    -1.5: _LESS,
    -1.0: (("div", (1.0, 0)),),
    -0.5: _root(("abs", (1,)), ("div", (1.0, 2)), least=0.0),
    0.5: _root(("abs", (1,)), least=inf),
    1.5: _root(("mul", (0, 1)), least=inf),
    2.0: (("mul", (0, 0)),),
    2.5: _root(("abs", (1,)), ("mul", (0, 0)), ("mul", (3, 2)), least=inf),
    3.0: (("mul", (0, 0)), ("mul", (1, 0))),
    4.0: (("mul", (0, 0)), ("mul", (1, 1))),
    5.0: (("mul", (0, 0)), ("mul", (1, 1)), ("mul", (2, 0))),
    6.0: (("mul", (0, 0)), ("mul", (1, 0)), ("mul", (2, 2))),
}
"""Operations on what is there, one after the other: 0 is the base, a Float is itself."""

_FEW = 8  # powers of which one is chosen

_Count = tuple[tuple[Var, ...], Size]  # a number in the indices of a context


def powers(program: Program) -> Program:
    """See the module."""
    if program.math is Math.STRICT:
        return program
    out: list[Binding] = []
    counts: dict[Var, _Count] = {}  # what is as many as there are of something, or one or two less
    for b in program.bindings:
        number = _number(b, counts)
        if number is not None:
            counts[b.var] = b.context, number
        if b.dtype.is_float:
            out += _product(b, counts) or _choice(program, b, counts) or [b]
        else:
            out.append(b)
    return replace(program, bindings=tuple(out))


def _at(x: Read, counts: Mapping[Var, _Count]) -> Size:
    """The number that is read, in the indices of where it is."""
    context, number = counts[x.var]
    return rename(number, dict(zip(context, x.at, strict=True)))


def _number(b: Binding, counts: Mapping[Var, _Count]) -> Size | None:
    """The number in its indices of which a binding is the float."""
    match b.prim:
        case Op("cast", (Number(n),)):
            return n
        case Op("sub", (Read(v) as x, Lit(1.0 | 2.0 as less))) if v in counts:
            return _at(x, counts) - int(less)
        case _:
            return None


def _product(b: Binding, counts: Mapping[Var, _Count]) -> list[Binding]:
    """The steps to a literal power; none if it stays."""
    match b.prim:
        case Op("pow", (Read(v) as base, Lit(0.5))) if v in counts:
            return [replace(b, prim=Op("sqrt", (base,)))]
        case Op("pow", (Read() as base, Lit(exponent))) if exponent in _STEPS:
            return _written(b, base, float(exponent))
        case _:
            return []


def _values(program: Program, n: Size) -> range:
    """What a sum of indices of few elements can be, if all powers to it are products; else
    nothing."""
    least = most = 0
    for atoms, c in n.terms:
        top = c
        for a in atoms:
            last = _last(program, a)
            if last is None:
                return range(0)
            top *= last
        least += min(top, 0) if atoms else c
        most += max(top, 0) if atoms else c
    values = range(least, most + 1)
    written = len(values) <= _FEW and all(k in (0, 1) or k in _STEPS for k in values)
    return values if written else range(0)


def _last(program: Program, a: Atom) -> int | None:
    """The last of an index's elements, if it is known how many there are."""
    index = program.indices.get(a) if isinstance(a, Var) else None
    n = None if index is None or index.extent is None else index.extent.constant
    return None if n is None else max(n - 1, 0)


def _choice(program: Program, b: Binding, counts: Mapping[Var, _Count]) -> list[Binding]:
    """A power to one of a few numbers: the products, and which of them it is; nothing if it is
    none."""
    match b.prim:
        case Op("pow", (Read() as base, Read(v) as exponent)) if v in counts:
            n = _at(exponent, counts)
            values = _values(program, n)
        case _:
            return []
    if not values:
        return []
    out: list[Binding] = []
    guarded = [g.operand for g in b.guards]

    def over(*operands: Operand) -> Binding:
        return replace(b, var=Var("power"), context=context_of(program.indices, operands))

    def power(k: int) -> Operand:
        if k == 0:
            return Lit(1.0, b.dtype)
        if k == 1:
            return base
        out.extend(_written(over(base, *guarded), base, float(k)))
        return _read(out[-1])

    chosen = power(values[-1])
    for k in values[-2::-1]:
        one, number = power(k), Number(n)
        this = Op("eq", (number, Number(size(k))))
        out.append(replace(over(number, *guarded), prim=this, dtype=DType.BOOL))
        choice = Op("select", (_read(out[-1]), one, chosen))
        out.append(replace(over(*choice.args, *guarded), prim=choice))
        chosen = _read(out[-1])
    return [*out, replace(b, prim=Op("copy", (chosen,)))]


def _read(b: Binding) -> Read:
    return Read(b.var, tuple(size(i) for i in b.context))


def _written(b: Binding, base: Read, exponent: float) -> list[Binding]:
    """The steps to a power, the last of which is the binding."""
    steps = _STEPS[exponent]
    made: list[Operand] = [base]
    out: list[Binding] = []
    for name, args in steps:
        op = Op(name, tuple(made[a] if isinstance(a, int) else Lit(a, b.dtype) for a in args))
        dtype = DType.BOOL if name == "eq" else b.dtype
        out.append(replace(b, var=Var("power"), prim=op, dtype=dtype))
        made.append(_read(out[-1]))
    out[-1] = replace(out[-1], var=b.var)
    return out
