"""The walk over expressions: for each one its type, and how to build its core."""

from __future__ import annotations

from naperian.core import syntax as core
from naperian.dtypes import FLOATS, DType
from naperian.frontend import data, references
from naperian.frontend.binders import bind_pattern, pattern_type
from naperian.frontend.boxes import alone, open_box
from naperian.frontend.builtins import contract
from naperian.frontend.call_forms import call, ranked_value, section
from naperian.frontend.calls import (
    require_known,
    use_definition,
)
from naperian.frontend.cells import show
from naperian.frontend.fields import field as struct_field
from naperian.frontend.in_range import checked_index, numbered
from naperian.frontend.indexing import index
from naperian.frontend.messages import errors, index_errors, name_errors
from naperian.frontend.named import enum_member, known_names, name, use_maker
from naperian.frontend.operators import (
    binary,
    compare,
    ternary,
    unary,
)
from naperian.frontend.scalars import NUMBERS
from naperian.frontend.scope import Variable
from naperian.frontend.tables import bracket, comprehension, recast
from naperian.frontend.typed import Build, Typed, Wrap
from naperian.frontend.walk import Walk
from naperian.names import Lit, Var
from naperian.sizes import ONE, Size, size
from naperian.source import Span
from naperian.surface import syntax as s
from naperian.type_show import show_set
from naperian.types import (
    INT,
    Function,
    Index,
    Scalar,
    Tuple,
    Type,
    TypeVar,
    cardinality,
    numbers,
)


def infer(w: Walk, e: s.Expr, expected: Type | None = None) -> Typed:
    """The typed form of an expression, opened if it is a box; `expected` only guides, it is not
    checked here."""
    around, w.place = w.place, e.span
    made = open_box(w, _infer(w, e, expected))
    w.place = around
    return made


def _infer(w: Walk, e: s.Expr, expected: Type | None) -> Typed:
    match e:
        case s.Name():
            return name(w, e, expected)
        case s.Number():
            return number(w, e)
        case s.Binary(_, "@", op_span, left, right):
            return contract(w, w.infer(left), w.infer(right), e.span, op_span)
        case s.Binary():
            return binary(w, e)
        case s.Unary():
            return unary(w, e)
        case s.Compare():
            return compare(w, e)
        case s.Ternary():
            return ternary(w, e, expected)
        case s.Call():
            return call(w, e, expected)
        case s.IndexExpr() | s.Checked(_, s.IndexExpr(), False) if references.is_element(w, e):
            return references.read_element(w, e)
        case s.IndexExpr():
            return index(w, e)
        case s.Checked(_, s.IndexExpr() as inner, False):
            return index(w, inner, checked=True)
        case s.Checked(span, operand):
            return _checked_value(w, operand, span, expected)
        case s.Comprehension():
            return comprehension(w, e, expected)
        case s.Bracket():
            return bracket(w, e, expected)
        case s.TupleExpr(span, items):
            return _tuple(w, span, items, expected)
        case s.Lambda():
            return lambda_(w, e, expected)
        case s.Section():
            return section(w, e, expected)
        case s.Field():
            return field(w, e, expected)
        case s.As():
            return recast(w, e)
        case s.Rank():
            return ranked_value(w, e, expected)
        case s.RangeExpr(span):
            raise index_errors.not_a_value(span.text, "a range", span)
        case s.String(span, _):
            raise errors.text_as_data(span)
        case s.Block():
            return w.block(e, expected)
        case s.TableType(span, _, _, _) | s.FunctionType(span, _, _, _) | s.Exists(span, _, _):
            raise index_errors.not_a_value(span.text, "a type", span)


# ---------------------------------------------------------------- names and literals


def number(w: Walk, e: s.Number) -> Typed:
    """A literal takes the type it is used at; left alone it is Int or Float."""
    whole = isinstance(e.value, int)
    t = w.solver.type("a", NUMBERS if whole else FLOATS, DType.I64 if whole else DType.F64)
    w.solver.unknown[t.var].floats = not whole
    w.solver.unknown[t.var].needs.add("Num")

    def build() -> core.Expr:
        return constant(w, e.value, t, e.span)

    poly = size(int(e.value)) if whole else None
    if poly is not None:
        _as_index(w, t, poly, e.span)
    return Typed(t, build, e.span, poly, exact=whole)


def _as_index(w: Walk, t: Type, value: Size, span: Span) -> None:
    """A literal that turns out to be an index is one of its set."""
    scope = w.scope.so_far()

    def goal() -> None:
        kind = w.solver.zonk(t)
        if not isinstance(kind, Index):
            return
        own = w.solver.zonk_set(kind.set)
        first, step = numbers(own)
        with w.inside(scope):
            facts = scope.facts()
            after, before = value - first, cardinality(own) - 1 - (value - first)
            if step != ONE or facts.absurd or (facts.proves(after) and facts.proves(before)):
                return
        raise index_errors.literal_index(span.text, show_set(own), span)

    w.solver.goals.append(goal)


def constant(w: Walk, value: int | float, t: Type, span: Span) -> core.Expr:
    kind = w.solver.zonk(t)
    match kind:
        case Scalar(d):
            if d.is_float:
                return core.Const(Lit(float(value), d))
            low = 0 if d.is_unsigned else -(1 << (d.bits - 1))
            if not low <= value < (1 << (d.bits - (0 if d.is_unsigned else 1))):
                raise errors.literal_range(int(value), d, span)
            return core.Const(Lit(int(value), d))
        case TypeVar() | Tuple():
            return core.ConstOf(value, kind)
        case Index(own):
            return numbered(size(int(value)), own)
        case _:
            return core.Number(size(int(value)))


def _tuple(w: Walk, span: Span, items: tuple[s.Expr, ...], expected: Type | None) -> Typed:
    kind = w.solver.head(expected) if expected is not None else None
    wanted = kind.items if isinstance(kind, Tuple) and len(kind.items) == len(items) else None
    parts = [w.infer(x, wanted[k] if wanted else None) for k, x in enumerate(items)]
    w.parts[span] = tuple(x.span for x in items)
    return Typed(
        Tuple(tuple(p.type for p in parts)),
        lambda: core.Pack(tuple(p.build() for p in parts)),
        span,
        items=tuple(parts),
    )


# ---------------------------------------------------------------- functions


def lambda_(w: Walk, e: s.Lambda, expected: Type | None) -> Typed:
    solver = w.solver
    kind = solver.head(expected) if expected is not None else None
    known: tuple[Type, ...] | None = None
    result_hint: Type | None = None
    if isinstance(kind, Function):
        if len(kind.params) != len(e.params):
            raise errors.lambda_arity(len(kind.params), len(e.params), show(w, kind), e.span)
        known, result_hint = kind.params, kind.result
    variables: list[tuple[Var, Type]] = []
    wraps: list[Wrap] = []
    with w.inside(w.scope.inner(block=True, function=True)) as scope:
        for k, p in enumerate(e.params):
            t = known[k] if known else pattern_type(w, p)
            if isinstance(p, s.PName):
                v = Var(p.name)
                kind_p = solver.head(t)
                poly = size(v) if isinstance(kind_p, Index) or kind_p == INT else None
                scope.names[p.name] = Variable(v, t, p.span, poly, "parameter")
                if isinstance(kind_p, Index):
                    scope.assume_index(v, kind_p.set)
            else:
                v = Var("p")
                value = Typed(t, _ref(v), p.span)
                wraps.append(bind_pattern(w, p, value, "parameter"))
            variables.append((v, t))
        body = alone(w, lambda: w.infer(e.body, result_hint), result_hint)

    def build() -> core.Expr:
        inner = body.build()
        for f in reversed(wraps):
            inner = f(inner)
        return core.Lambda(tuple((v, solver.zonk(t)) for v, t in variables), inner)

    whole = Typed(Function(tuple(t for _, t in variables), body.type), build, e.span)
    require_known(w, whole)
    return whole


def _ref(v: Var) -> Build:
    return lambda: core.Ref(v)


# ---------------------------------------------------------------- calls and fields


def field(w: Walk, e: s.Field, expected: Type | None) -> Typed:
    """`Axis.X`, `module.name`."""
    match e.base:
        case s.Name(_, base) if w.scope.find(base) is None:
            if base in w.globals.failed:
                raise errors.Silent()
            if base in w.globals.enums:
                own = w.globals.enums[base].set
                if e.name not in own.members:
                    raise name_errors.unknown_member(base, e.name, e.name_span, list(own.members))
                return enum_member(own, e.name, e.span)
            if base in w.globals.modules:
                there = w.globals.modules[base]
                if e.name in there.failed:
                    raise errors.Silent()
                if e.name in there.definitions:
                    return use_definition(w, there.definitions[e.name], e.name, e.span, None)
                raise name_errors.unknown_member(base, e.name, e.name_span, there.names())
        case s.Field(_, s.Name(_, module), base, _) if module in w.globals.modules:
            info = w.globals.modules[module].enums.get(base)
            if info is not None and e.name in info.set.members:
                return enum_member(info.set, e.name, e.span)
        case _:
            pass
    maker = data.member(w, e)
    if maker is not None:
        return use_maker(w, maker, e.name, e.span, expected)
    typed = w.infer(e.base)
    part = struct_field(w, typed, e.name, e.span, e.name_span)
    if part is not None:
        return part
    hint = ""
    if e.name == "size" and typed.poly is not None:
        hint = f"as a number `{e.base.span.text}` is its size"
    elif e.name != "size" and e.name in known_names(w):
        hint = f"write `{e.name}({e.base.span.text})`"
    raise name_errors.no_field(e.base.span.text, show(w, typed.type), e.name, e.name_span, hint)


def _checked_value(w: Walk, operand: s.Expr, span: Span, expected: Type | None) -> Typed:
    """`k?` away from an axis: the set is what the place expects, or what is found of it where it
    is read, as of a state that begins with it."""
    kind = w.solver.head(expected) if expected is not None else None
    if kind is not None and not isinstance(kind, Index) and not w.solver.is_open(kind):
        raise _of_no_set(span)
    if not isinstance(kind, Index):
        kind = Index(w.solver.set())
        own = kind.set

        def found() -> None:
            if w.solver.set_is_open(own):
                raise _of_no_set(span)

        w.solver.goals.append(found)
    return Typed(kind, checked_index(w, w.infer(operand), kind.set, span), span)


def _of_no_set(span: Span) -> errors.Reported:
    return errors.undetermined(f"the index `{span.text}`", span, bare=span.text.rstrip("?"))
