"""Operators and the scalar functions of the library: primitives lifted over any axes."""

from __future__ import annotations

import dataclasses
from functools import partial

from naperian.core import syntax as core
from naperian.dtypes import FLOATS, DType
from naperian.facts import Apart
from naperian.frontend.boxes import alike, alone, open_box
from naperian.frontend.cells import convert, equate, join_cells, show, stays_ordinal
from naperian.frontend.choices import items, literals, ways
from naperian.frontend.constraints import need
from naperian.frontend.exactly import believed, extremum
from naperian.frontend.frames import Callee
from naperian.frontend.in_range import numbered
from naperian.frontend.lifting import apply
from naperian.frontend.messages import errors
from naperian.frontend.overloading import exponent, interface_of, overloaded
from naperian.frontend.scalars import ANY_SCALAR, INTEGERS, INTERFACES, NUMBERS, Dtypes
from naperian.frontend.solve import Mismatch, Solver
from naperian.frontend.typed import Condition, Once, Typed, Value, let_all, within
from naperian.frontend.walk import Walk
from naperian.names import Lit, Var
from naperian.prims import OPERATORS, PRIMITIVES, Kind
from naperian.sizes import ONE, Quotient, Size, natural, size
from naperian.source import NOWHERE, Span
from naperian.surface import syntax as s
from naperian.types import (
    BOOL,
    INT,
    Data,
    EnumSet,
    Fin,
    Index,
    Range,
    Scalar,
    SetVar,
    Table,
    Tuple,
    Type,
    TypeVar,
    table,
)

_ALLOWED: dict[Kind, Dtypes] = {
    Kind.ARITH: NUMBERS,
    Kind.FLOAT: FLOATS,
    Kind.INTEGER: INTEGERS,
    Kind.LOGIC: frozenset({DType.BOOL}),
    Kind.COMPARE: INTERFACES["Ord"],
    Kind.EQUAL: ANY_SCALAR,
    Kind.CLASSIFY: FLOATS,
}

_SCALAR = TypeVar(Var("scalar"))


def primitive(
    name: str, title: str, symbol: str | None = None, origin: Span = NOWHERE
) -> Callee:
    """A primitive as something to apply; `symbol` is its infix or prefix operator."""
    prim = PRIMITIVES[name]

    def scalars(w: Walk, cells: list[Typed], span: Span) -> tuple[list[Type], Type]:
        allowed = _ALLOWED[prim.kind]
        if name in ("min", "max") and _of_one_set(w, cells):
            plan.append((w.solver, cells[0].type))
            return [cells[0].type] * 2, cells[0].type
        if prim.kind in (Kind.EQUAL, Kind.COMPARE) and _all_indices(w, cells):
            operand: Type = INT
            for c in cells:
                stays_ordinal(w, title, c)
            _same_enum(w, title, cells, span)
        elif prim.kind is Kind.EQUAL and _all_bools(w, cells):
            operand = BOOL
            for c in cells:
                equate(w, f"both sides of {title}", BOOL, c.type, c.span)
        else:
            operand = join_cells(w, title, cells, allowed, span, op=name)
        interface = interface_of(name, exponent(cells) if name == "pow" else None)
        if interface is not None:
            w.place = span
            need(w, operand, interface)
        result = BOOL if prim.result(DType.F64) is DType.BOOL else operand
        plan.append((w.solver, operand))
        return [operand] * len(cells), result

    plan: list[tuple[Solver, Type]] = []

    def call(args: list[core.Expr]) -> core.Expr:
        solver, operand = plan[-1]
        t = solver.zonk(operand)
        if isinstance(t, Index) and name in ("min", "max"):
            return _one_of(name, args)
        return core.Op(name, tuple(args), t, origin)

    def text(args: list[str]) -> str:
        if symbol is not None and len(args) == 2:
            return f"{args[0]} {symbol} {args[1]}"
        return f"{name}({', '.join(args)})"

    return Callee(title, (_SCALAR,) * prim.arity, INT, call, scalars, text=text)


def _all_indices(w: Walk, cells: list[Typed]) -> bool:
    return all(isinstance(w.solver.head(c.type), Index) for c in cells)


def _of_one_set(w: Walk, cells: list[Typed]) -> bool:
    """Two indices of one set whose elements are numbers: the smaller is one of them."""
    if not _all_indices(w, cells):
        return False
    a, b = (w.solver.zonk(c.type) for c in cells)
    return a == b and isinstance(a, Index) and isinstance(a.set, Fin | Range | SetVar)


def _one_of(name: str, args: list[core.Expr]) -> core.Expr:
    """The smaller or the larger of two indices."""
    a, b = Var("a"), Var("b")
    numbers = tuple(core.Op("cast", (core.Ref(v),), INT) for v in (a, b))
    first = core.Op("le" if name == "min" else "ge", numbers, INT)
    chosen = core.If(first, core.Ref(a), core.Ref(b))
    return core.Let(a, args[0], core.Let(b, args[1], chosen))


def _all_bools(w: Walk, cells: list[Typed]) -> bool:
    return any(w.solver.head(c.type) == BOOL for c in cells)


def _same_enum(w: Walk, title: str, cells: list[Typed], span: Span) -> None:
    """Enums compare only with themselves; other indices compare as numbers."""
    a, b = (w.solver.head(c.type) for c in cells)
    assert isinstance(a, Index)
    assert isinstance(b, Index)
    x, y = w.solver.head_set(a.set), w.solver.head_set(b.set)
    if x != y and (isinstance(x, EnumSet) or isinstance(y, EnumSet)):
        if isinstance(x, EnumSet) and isinstance(y, EnumSet):
            raise errors.different_enums(
                title.strip("`"), show(w, a), show(w, b), span, cells[0].span, cells[1].span
            )
        raise errors.no_common_type(
            title.strip("`"), show(w, a), show(w, b), span, cells[0].span, cells[1].span
        )


def apply_primitive(
    w: Walk, name: str, args: list[Typed], span: Span, symbol: str | None = None,
) -> Typed:
    """The primitive on the arguments; keeps index arithmetic as a polynomial beside it."""
    wanted = PRIMITIVES[name].arity
    if len(args) != wanted:
        cells = ", ".join(["number"] * wanted)
        raise errors.arity(symbol or name, wanted, len(args), span, f"({cells}) -> number")
    special = overloaded(w, name, args, span, symbol)
    if special is not None:
        return special
    callee = primitive(name, f"`{symbol or name}`", symbol, span)
    named = name in _NAMED
    if named:
        args = [_nameable(a) for a in args]
    result = apply(w, callee, args, span)
    if named:
        args = _brought_in(w, name, args)
    result.poly = _poly(name, args)
    result.lets = tuple(x for a in args for x in a.lets) if result.poly is not None else ()
    if name in ("max", "min"):
        extremum(w, name, args, result)
    arithmetic = name not in ("max", "min", "abs")
    if result.poly is not None and arithmetic and poly_is_exact(args, result.poly):
        poly = result.poly
        result.exact = True
        result.build = lambda: core.Number(w.solver.zonk_size(poly))
    elif result.poly is None:
        _rest_of_unknown(w, name, args, result)
    condition = _condition(name, args)
    if condition is not None and name not in _JOINED:
        condition = believed(w, name, args, result, condition)
    result.condition = condition
    return result


def _rest_of_unknown(w: Walk, name: str, args: list[Typed], result: Typed) -> None:
    """A name for a remainder of what may still be any number, as a counter that starts as 0: if
    it is used as an integer, it lies in a range."""
    if name not in ("mod", "bitand") or not w.solver.is_unknown(w.solver.head(args[0].type)):
        return
    below = args[1].poly.constant if args[1].poly is not None else None
    if below is None or below < 1 or (name == "bitand" and not _is_mask(size(below))):
        return
    v, build = Var("rest"), result.build
    most = below if name == "bitand" else below - 1
    w.scope.assume(size(v), size(most) - size(v))
    result.poly, result.lets = size(v), ((v, lambda: _whole(w, build(), result.type)),)


_NAMED = ("abs", "add", "bitand", "floordiv", "max", "min", "mod", "mul", "sub")


def _nameable(a: Typed) -> Typed:
    return dataclasses.replace(a, build=Once(a.build)) if a.poly is None else a


def _brought_in(w: Walk, name: str, args: list[Typed]) -> list[Typed]:
    """The arguments, with a name for data of which it is known afterwards where they lie: what a
    remainder is taken of, or a sign, or the larger or the smaller beside index arithmetic, and an
    index that is computed, as of `argmax` or `p[i]`."""
    polys = [a.poly for a in args]
    match name, polys:
        case ("mod" | "bitand"), [None, Size() as below]:
            return [_remaindered(w, name, args[0], below), args[1]]
        case ("min" | "max"), [None, Size()] | [Size(), None]:
            return [_named(w, a) for a in args]
        case "abs", [None] if _may_be_int(w, args[0].type):
            return [_named(w, a) for a in args]
        case ("add" | "sub" | "mul" | "floordiv"), [None, Size()] | [Size(), None] | [None, None]:
            return [_named(w, a) if _is_index(w, a) else a for a in args]
        case _:
            return args


def _remaindered(w: Walk, name: str, data: Typed, below: Size) -> Typed:
    """Data with a name, of which a remainder is taken: the same as of the number as an Int."""
    kind = w.solver.head(data.type)
    if kind == Scalar(DType.U64) and name == "mod" and not _is_mask(below - 1):
        return data  # as an Int it may be negative, which only a power of two does not see
    return _named(w, data)


def _is_index(w: Walk, a: Typed) -> bool:
    return isinstance(w.solver.head(a.type), Index)


def _named(w: Walk, data: Typed) -> Typed:
    """An integer under a name, with what its type says of it. What is no `Int` for sure stays."""
    kind = w.solver.head(data.type)
    if data.poly is not None:
        return data
    v = Var("value", said=data.span.text)
    match kind:
        case Index(own) if not w.solver.set_is_open(own) and isinstance(
            w.solver.zonk_set(own), Fin | Range | SetVar
        ):
            w.scope.assume_index(v, own)
        case Scalar(DType.U64):
            pass
        case Scalar(d) if d.is_integer:
            if d.bits < 64:
                low = 0 if d.is_unsigned else -(1 << (d.bits - 1))
                w.scope.assume(size(v) - low, size(low + (1 << d.bits) - 1) - size(v))
        case _:
            if not _may_be_int(w, kind):
                return data
    assert isinstance(data.build, Once)
    once = data.build
    w.unnamed[v] = data.span.text
    once.named = lambda: _again(w, v, once, data.type)
    value = Value(lambda: _whole(w, once.plain(), data.type), once)
    return Typed(INT, data.build, data.span, size(v), ((v, value),))


def _may_be_int(w: Walk, kind: Type) -> bool:
    """Whether this is `Int`, or the type of a literal that may become one."""
    kind = w.solver.head(kind)
    among = w.solver.dtypes_of(kind) if w.solver.is_unknown(kind) else None
    return kind == INT or (among is not None and INT.dtype in among)


def _whole(w: Walk, value: core.Expr, kind: Type) -> core.Expr:
    """A number as an Int, which is 0 if it has turned out to be none: then it is not asked."""
    kind = w.solver.zonk(kind)
    if isinstance(kind, Index) or (isinstance(kind, Scalar) and kind.dtype.is_integer):
        return convert(w, value, kind, INT)
    return core.Const(Lit(0, DType.I64))


def _again(w: Walk, v: Var, once: Once, kind: Type) -> core.Expr:
    """What has a name, as it is: the number in it, of its type, or the index."""
    kind = w.solver.zonk(kind)
    match kind:
        case Index(own):
            return numbered(size(v), own)
        case Scalar(DType.I64):
            return core.Ref(v)
        case Scalar(d) if d.is_integer:
            return core.Op("cast", (core.Ref(v),), kind)
        case _:
            return once.plain()


def poly_is_exact(args: list[Typed], poly: Size) -> bool:
    """Whether arithmetic is on indices and sizes alone, so that it is the polynomial itself. Data
    stay machine integers, which wrap around; literals alone stay literals of any type."""
    return all(a.exact for a in args) and poly.constant is None


def _poly(name: str, args: list[Typed]) -> Size | None:
    polys = [a.poly for a in args]
    if any(p is None for p in polys):
        return None
    match name, polys:
        case "abs", [Size() as a]:
            return natural(a) * 2 - a
        case "add", [Size() as a, Size() as b]:
            return a + b
        case "sub", [Size() as a, Size() as b]:
            return a - b
        case "mul", [Size() as a, Size() as b]:
            return a * b
        case "floordiv", [Size() as a, Size() as b] if b.terms:
            made = a // b
            stays = b == ONE or a.constant is not None or isinstance(made.single, Quotient)
            # of data, a multiple may have wrapped around, and is none then
            return made if stays or all(x.exact for x in args) else None
        case "mod", [Size() as a, Size() as b] if b.terms:
            return a % b
        case "bitand", [Size() as a, Size() as b] if _is_mask(b):
            return a % (b + 1)
        case "neg", [Size() as a]:
            return -a
        case "pow", [Size() as a, Size() as b] if b.constant in range(5):
            power = ONE
            for _ in range(b.constant or 0):
                power = power * a
            return power
        case _:
            return None


def _is_mask(b: Size) -> bool:
    """Whether this is 2ᵏ - 1."""
    return b.constant is not None and b.constant >= 0 and not b.constant & (b.constant + 1)


_JOINED = ("and", "or", "not")


def _condition(name: str, args: list[Typed]) -> Condition | None:
    """What a comparison of index arithmetic, or a combination of such, says of sizes."""
    if name in ("and", "or"):
        a, b = args[0].condition, args[1].condition
        if a is None and b is None:
            return None
        both = (a or Condition((), ())), (b or Condition((), ()))
        if name == "and":
            return Condition(both[0].then + both[1].then, ())
        return Condition((), both[0].otherwise + both[1].otherwise)
    if name == "not":
        a = args[0].condition
        return None if a is None else Condition(a.otherwise, a.then)
    if len(args) != 2 or args[0].poly is None or args[1].poly is None:
        return None
    x, y = args[0].poly, args[1].poly
    match name:
        case "lt":
            return Condition((y - x - 1,), (x - y,))
        case "le":
            return Condition((y - x,), (x - y - 1,))
        case "gt":
            return Condition((x - y - 1,), (y - x,))
        case "ge":
            return Condition((x - y,), (y - x - 1,))
        case "eq":
            return Condition((x - y, y - x), (Apart(x - y),))
        case "ne":
            return Condition((Apart(x - y),), (x - y, y - x))
        case _:
            return None


def binary(w: Walk, e: s.Binary) -> Typed:
    """`a + b` and its like; `and` and `or` see in their right side what the left side says."""
    left = w.infer(e.left)
    if e.op in ("and", "or"):
        with w.inside(w.scope.inner()) as scope:
            if left.condition is not None:
                scope.assume(
                    *(left.condition.then if e.op == "and" else left.condition.otherwise)
                )
            right = open_box(w, alone(w, partial(w.infer, e.right)))
        return short_circuit(w, e.op, left, right, e.span)
    right = w.infer(e.right)
    name = OPERATORS[e.op]
    if e.op in ("&", "|", "^") and _all_bools(w, [left, right]):
        name = {"&": "and", "|": "or", "^": "xor"}[e.op]
    return apply_primitive(w, name, [left, right], e.span, e.op)


def short_circuit(w: Walk, op: str, left: Typed, right: Typed, span: Span) -> Typed:
    """`and` and `or`: on two scalars the right side is evaluated only if it matters."""
    result = apply_primitive(w, op, [left, right], span, op)
    plain, kind = result.build, result.type

    def build() -> core.Expr:
        if w.solver.axes(kind)[0]:
            return plain()
        a, b = left.build(), right.build()
        if op == "and":
            return core.If(a, b, FALSE)
        return core.If(a, TRUE, b)

    result.build = build
    return result


TRUE = core.Const(Lit(True, DType.BOOL))
FALSE = core.Const(Lit(False, DType.BOOL))


_COMPARE = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def compare(w: Walk, e: s.Compare) -> Typed:
    """A chain of comparisons: `and` of the pairs, each operand evaluated once."""
    operands: list[Typed] = []
    for x in e.operands:
        expected = operands[-1].type if operands and isinstance(x, s.Name) else None
        operands.append(w.infer(x, expected))
    shared: list[tuple[Var, Typed]] = []
    if len(operands) > 2:
        for k in range(1, len(operands) - 1):
            operands[k] = _share(operands[k], shared)
    result: Typed | None = None
    for k, op in enumerate(e.ops):
        span = e.operands[k].span.to(e.operands[k + 1].span)
        pair = apply_primitive(w, _COMPARE[op], [operands[k], operands[k + 1]], span, op)
        if result is not None:
            pair = apply_primitive(w, "and", [result, pair], e.span, "and")
        result = pair
    assert result is not None
    if shared:
        plain = result.build

        def build() -> core.Expr:
            body = plain()
            for v, t in reversed(shared):
                body = let_all(t.lets, core.Let(v, within(t.lets, t.build), body))
            return body

        return Typed(result.type, build, e.span, condition=result.condition)
    return Typed(result.type, result.build, e.span, condition=result.condition)


def _share(t: Typed, shared: list[tuple[Var, Typed]]) -> Typed:
    v = Var("c")
    shared.append((v, t))
    return Typed(t.type, lambda: core.Ref(v), t.span, t.poly)


def ternary(w: Walk, e: s.Ternary, expected: Type | None) -> Typed:
    """`a if c else b`. A table as condition lifts it: element by element, only the taken side."""
    condition = w.infer(e.condition)
    with w.inside(w.scope.inner()) as scope:
        if condition.condition is not None:
            scope.assume(*condition.condition.then)
        then = alone(w, lambda: w.infer(e.then, expected), expected)
    with w.inside(w.scope.inner()) as scope:
        if condition.condition is not None:
            scope.assume(*condition.condition.otherwise)
        other = alone(w, lambda: w.infer(e.otherwise, expected), expected)
    literals(w, [then, other], expected)
    return choose(w, condition, then, other, e.span)


def choose(w: Walk, condition: Typed, then: Typed, other: Typed, span: Span) -> Typed:
    """The value of one side; both sides have one type after widening."""
    axes, cell = w.solver.axes(condition.type)
    if not axes and not isinstance(cell, Table):
        is_bool(w, condition)
        chosen = ways(w, condition.condition, then, other)
        parts = items(w, condition.condition, then, other)
        then, other = alike(w, [then, other])
        result = join_types(w, [then, other], span)
        return Typed(
            result,
            lambda: core.If(
                condition.build(),
                convert(w, then.build(), then.type, result),
                convert(w, other.build(), other.type, result),
            ),
            span,
            ways=chosen,
            items=parts,
        )
    w.by_element[span] = condition.span
    plan: list[Type] = []

    def scalars(w: Walk, cells: list[Typed], span: Span) -> tuple[list[Type], Type]:
        is_bool(w, cells[0])
        kind = join_types(w, cells[1:], span)
        plan.append(kind)
        return [BOOL, kind, kind], kind

    def call(args: list[core.Expr]) -> core.Expr:
        return core.If(args[0], args[1], args[2])

    def text(args: list[str]) -> str:
        return f"{args[1]} if {args[0]} else {args[2]}"

    callee = Callee("`if`", (_SCALAR,) * 3, INT, call, scalars, text=text)
    return apply(w, callee, [condition, then, other], span)


def is_bool(w: Walk, condition: Typed) -> None:
    """The condition is a Boolean, or an error."""
    t = w.solver.head(condition.type)
    if w.solver.is_open(t):
        w.solver.unify(t, BOOL)
    elif t != BOOL:
        raise errors.condition_type(show(w, t), condition.span)


def join_types(w: Walk, sides: list[Typed], span: Span) -> Type:
    """The one type of branches or items: equal, or scalars of one wider type."""
    solver = w.solver
    first = sides[0]
    heads = [solver.axes(t.type) for t in sides]
    depth = len(heads[0][0])
    scalar = all(
        len(a) == depth and (isinstance(c, Scalar) or solver.dtypes_of(c) is not None)
        for a, c in heads
    )
    if not scalar:
        if depth == 0 and any(isinstance(c, Index) for _, c in heads) and any(
            isinstance(c, Scalar) or solver.dtypes_of(c) is not None for _, c in heads
        ):
            return join_cells(w, "if", sides, NUMBERS, span)
        if all(isinstance(c, Tuple) and not isinstance(c, Data) and not a for a, c in heads):
            widths = {len(c.items) for _, c in heads if isinstance(c, Tuple)}
            if len(widths) == 1:
                items = []
                for k in range(widths.pop()):
                    parts = [
                        Typed(c.items[k], t.build, t.span)
                        for (_, c), t in zip(heads, sides, strict=True)
                        if isinstance(c, Tuple)
                    ]
                    items.append(join_types(w, parts, span))
                return Tuple(tuple(items))
        for other in sides[1:]:
            _unify_sides(w, first, other)
        return first.type
    if all(c == BOOL for _, c in heads) or (depth > 0 and len({repr(c) for _, c in heads}) == 1):
        cell = heads[0][1]
    else:
        allowed = NUMBERS if not any(c == BOOL for _, c in heads) else frozenset({DType.BOOL})
        cells = [Typed(c, t.build, t.span) for (_, c), t in zip(heads, sides, strict=True)]
        try:
            cell = join_cells(w, "if", cells, allowed, span)
        except errors.Reported:
            raise errors.branches(
                show(w, first.type), show(w, sides[-1].type), first.span, sides[-1].span
            ) from None
    for a, _ in heads[1:]:
        for x, y in zip(heads[0][0], a, strict=True):
            try:
                solver.unify_set(x, y)
            except Mismatch:
                raise errors.branches(
                    show(w, first.type), show(w, sides[-1].type), first.span, sides[-1].span
                ) from None
    return table(heads[0][0], cell)


def _unify_sides(w: Walk, first: Typed, other: Typed) -> None:
    try:
        w.solver.unify(first.type, other.type)
    except Mismatch:
        raise errors.branches(
            show(w, first.type), show(w, other.type), first.span, other.span
        ) from None


def unary(w: Walk, e: s.Unary) -> Typed:
    """`-x`, `~x`, `not x`."""
    operand = w.infer(e.operand)
    if e.op == "-":
        made = apply_primitive(w, "neg", [operand], e.span, "-")
        return _or_lowest(w, made, e.operand) if isinstance(e.operand, s.Number) else made
    if e.op == "~":
        if _all_bools(w, [operand]):
            return apply_primitive(w, "not", [operand], e.span, "~")
        return apply_primitive(w, "bitnot", [operand], e.span, "~")
    return apply_primitive(w, "not", [operand], e.span, "not")


def _or_lowest(w: Walk, made: Typed, literal: s.Number) -> Typed:
    """The negative of a literal: of an integer type it may be the lowest value, whose opposite is
    no value of the type."""

    def build() -> core.Expr:
        kind = w.solver.zonk(made.type)
        d = kind.dtype if isinstance(kind, Scalar) else DType.BOOL
        lowest = isinstance(literal.value, int) and literal.value == 1 << (d.bits - 1)
        if d.is_integer and not d.is_unsigned and lowest:
            return core.Const(Lit(-literal.value, d))
        return made.build()

    return dataclasses.replace(made, build=build)
