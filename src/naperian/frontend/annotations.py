"""Types, index sets and sizes written in the text."""

from __future__ import annotations

from collections.abc import Mapping

from naperian.dtypes import DType
from naperian.frontend import data
from naperian.frontend.cells import show
from naperian.frontend.coded import coded
from naperian.frontend.constraints import associated, associated_names, owner_of
from naperian.frontend.messages import (
    data_errors,
    errors,
    index_errors,
    interface_errors,
    limit_errors,
    name_errors,
    set_errors,
    size_errors,
)
from naperian.frontend.scope import SetName, SizeName, TypeName, Variable
from naperian.frontend.typed import Typed
from naperian.frontend.unknowns import make_range
from naperian.frontend.unproved import at_least_one
from naperian.frontend.walk import DataInfo, Walk
from naperian.names import Var
from naperian.sizes import ONE, ZERO, Size, size, variables
from naperian.source import Span
from naperian.substitution import Substitution, dependent, is_bound, sets_in
from naperian.surface import syntax as s
from naperian.type_show import show_set
from naperian.types import (
    BOOL,
    INT,
    BoolSet,
    EnumSet,
    Exists,
    Fin,
    Function,
    Index,
    Range,
    Reference,
    Reverse,
    Scalar,
    Set,
    SetVar,
    Slice,
    Sum,
    Table,
    Tuple,
    TupleSet,
    Type,
    TypeVar,
    UnitSet,
    cardinality,
    element,
    elements,
    set_variables,
    sum_of,
    whole,
)

SCALARS: Mapping[str, Type] = {d.surface_name: Scalar(d) for d in DType if d is not DType.F64} | {
    "F64": Scalar(DType.F64),
    "I64": Scalar(DType.I64),
    "Bool": BOOL,
}


def as_type(w: Walk, e: s.Expr) -> Type:
    """A type expression as a type."""
    match e:
        case s.Name(span, name):
            if name == "Float":
                return w.float
            if name in SCALARS:
                return SCALARS[name]
            entry = w.scope.find(name)
            match entry:
                case TypeName(t, _):
                    if (wrong := limit_errors.python_type(e)) is not None:
                        raise wrong
                    return t
                case SetName(own, _):
                    return element(own)
                case SizeName():
                    raise index_errors.not_a_type(name, "a number", span)
                case Variable():
                    raise index_errors.not_a_type(name, "a value", span)
                case None:
                    pass
            if name in w.globals.enums:
                return Index(w.globals.enums[name].set)
            info = data.find(w, e)
            if info is not None:
                return as_data(w, info, (), span)
            if name in w.globals.failed:
                raise errors.Silent()
            raise limit_errors.python_type(e) or name_errors.unknown_name(
                name, span, _types(w)
            )
        case s.Field(span, _, _, _) if (info := data.find(w, e)) is not None:
            return as_data(w, info, (), span)
        case s.Call(span, function, args) if (info := data.find(w, function)) is not None:
            return as_data(w, info, args, span)
        case s.Call(span, s.Name(_, name), args) if (
            (owner := owner_of(w, name)) is not None
            and isinstance(w.scope.find(name), TypeName | None)
        ):
            types = tuple(
                as_type(w, a) for a in args if not isinstance(a, s.Keyword | s.Generator)
            )
            if len(types) != len(owner.params):
                raise interface_errors.wrong_count(
                    name, [p.name for p in owner.params], len(types), span
                )
            return associated(w, owner, types, name)
        case s.TableType(span, str(binder), domain, cell):
            own = set_of(w, domain)
            v = Var(binder)
            if not isinstance(w.solver.head(element(own)), Index):
                raise set_errors.no_number_index(binder, show_set(own), span)
            with w.inside(w.scope.inner(block=True)) as scope:
                scope.assume_index(v, own)
                scope.names[binder] = Variable(v, Index(own), span, size(v), "index")
                row = as_type(w, cell)
                for inner in sets_in(row):
                    n = cardinality(inner)
                    if any(map(is_bound, variables(n))):
                        continue  # the binder further in has asked, knowing what both range over
                    if v in variables(n) and not scope.facts().proves(n):
                        raise set_errors.negative_rows(repr(n), binder, show_set(own), span)
                return dependent(own, v, row)
        case s.TableType(_, _, domain, cell):
            return Table(set_of(w, domain), as_type(w, cell))
        case s.TupleExpr(_, items):
            return Tuple(tuple(as_type(w, x) for x in items))
        case s.FunctionType(_, params, effects, result):
            taken = tuple(as_type(w, p) for p in params)
            return Function(taken, as_type(w, result), effects or ())
        case s.Call(_, s.Name(_, "Ref"), (arg,)) if not isinstance(arg, s.Keyword | s.Generator):
            return Reference(as_type(w, arg))
        case s.Exists():
            return _exists(w, e)
        case s.Call(_, s.Name(_, name)) if name in w.globals.failed:
            raise errors.Silent()
        case _:
            found = as_set(w, e)
            if found is not None:
                return element(found)
            if isinstance(e, s.Call) and isinstance(e.function, s.Name):
                raise limit_errors.python_type(e) or name_errors.unknown_name(
                    e.function.name, e.function.span, _types(w)
                )
            raise limit_errors.python_type(e) or index_errors.not_a_type(
                e.span.text, "an expression", e.span
            )


def _types(w: Walk) -> list[str]:
    """Names that a type may be meant by."""
    return [*SCALARS, "Float", *w.scope.all_names(), *w.globals.enums, *w.globals.data]


def as_data(
    w: Walk, info: DataInfo, args: tuple[s.Expr | s.Keyword | s.Generator, ...], span: Span
) -> Type:
    """`Point`, `Maybe(Float)`: a struct or an enum at these arguments."""
    hidden = info.pattern.layout.hidden
    params = info.params[hidden:]
    given = [a for a in args if not isinstance(a, s.Keyword | s.Generator)]
    if len(given) != len(params) or len(given) != len(args):
        names = tuple(p.name if isinstance(p, Var) else p.var.name for p in params)
        raise data_errors.type_arguments(info.name, names, len(args), span)
    types: dict[Var, Type] = {
        p.var: w.float for p in info.params[:hidden] if isinstance(p, TypeVar)
    }
    sets: dict[Var, Set] = {}
    sizes: dict[Var, Size] = {}
    for p, a in zip(params, given, strict=True):
        match p:
            case TypeVar(v):
                types[v] = as_type(w, a)
            case SetVar(v):
                sets[v] = set_of(w, a)
            case Var():
                sizes[p] = as_size(w, a)
    return Substitution(types, sets, sizes).type(info.pattern)


def _exists(w: Walk, e: s.Exists) -> Type:
    """`exists k, m. T`: names for sizes in `T`."""
    vars = tuple(Var(n) for n in e.names)
    with w.inside(w.scope.inner(block=True, function=True)) as scope:
        for n, v in zip(e.names, vars, strict=True):
            scope.names[n] = SizeName(v, e.span)
        body = as_type(w, e.body)
    found = {x for own in sets_in(body) for x in set_variables(own)}
    for v in vars:
        if v not in found:
            raise size_errors.unused_size(v.name, show(w, body), e.span)
    return Exists(vars, body)


def set_of(w: Walk, e: s.Expr) -> Set:
    """A type expression in index position as a set, or an error."""
    own = as_set(w, e)
    if own is None and isinstance(e, s.Name):
        known = (*_types(w), *w.globals.names(), *w.library.definitions)
        if e.name not in known:
            raise name_errors.unknown_name(e.name, e.span, _types(w))
    if own is None:
        kind = "a number" if isinstance(e, s.Number) or _is_number(w, e) else "no index set"
        declared = isinstance(e, s.Name) and e.name in w.globals.data
        raise index_errors.not_a_set(e.span.text, kind, e.span, declared)
    return own


def _is_number(w: Walk, e: s.Expr) -> bool:
    if isinstance(e, s.Name) and w.scope.find(e.name) is not None:
        return isinstance(w.scope.find(e.name), SizeName | Variable)
    return is_constant(w, e)


def is_constant(w: Walk, e: s.Expr) -> bool:
    """Whether it names an integer at the top of a module."""
    if not isinstance(e, s.Name) or w.scope.find(e.name) is not None:
        return False
    found = w.globals.definitions.get(e.name)
    return found is not None and found.constant and found.result == INT


def as_set(w: Walk, e: s.Expr) -> Set | None:
    """An index set, or None if the expression is something else (a table, a number)."""
    match e:
        case s.Name(_, "Bool"):
            return BoolSet()
        case s.Name(_, name):
            entry = w.scope.find(name)
            if isinstance(entry, SetName):
                return entry.set
            if entry is None and name in w.globals.enums:
                return w.globals.enums[name].set
            return _data_set(w, e, ())
        case s.Field(_, s.Name(_, module), name, _) if module in w.globals.modules:
            info = w.globals.modules[module].enums.get(name)
            return info.set if info is not None else _data_set(w, e, ())
        case s.Call(_, s.Name(_, "Fin"), (arg,)) if not isinstance(arg, s.Keyword | s.Generator):
            return Fin(as_size(w, arg))
        case s.Call(_, s.Name(_, "reverse"), (arg,)) if not isinstance(
            arg, s.Keyword | s.Generator
        ):
            inner = as_set(w, arg)
            return Reverse(inner) if inner is not None else None
        case s.Call(_, function, args) if data.find(w, function) is not None:
            return _data_set(w, function, args)
        case s.TupleExpr(_, items):
            if not items:
                return UnitSet()
            parts = [as_set(w, x) for x in items]
            known = [p for p in parts if p is not None]
            return TupleSet(tuple(known)) if len(known) == len(parts) else None
        case s.RangeExpr(span, low, high, inclusive, after):
            if low is None and high is None:
                raise set_errors.open_range(span.text, span)
            a = (as_size(w, low) if low is not None else ZERO) + int(after)
            over = next((o for x in (low, high) if x and (o := ranged(w, w.infer(x)))), None)
            if high is None:
                end = end_of(w, w.infer(low)) if low is not None else None
                if end is None:
                    raise set_errors.open_range(span.text, span)
                return between(over, a, end)
            b = as_size(w, high) + (ONE if inclusive else ZERO)
            return between(over, a, b)
        case s.Binary(span, "|", _, left, right):
            one, other = as_set(w, left), as_set(w, right)
            if one is None or other is None:
                return None
            return sum_of(w.solver.zonk_set(one), w.solver.zonk_set(other))
        case s.Call(span, s.Field(_, base, "by", _), (step,)) if not isinstance(
            step, s.Keyword | s.Generator
        ):
            inner = as_set(w, base)
            return None if inner is None else _stride(w, inner, as_size(w, step), span)
        case _:
            return None


def _data_set(
    w: Walk, name: s.Expr, args: tuple[s.Expr | s.Keyword | s.Generator, ...]
) -> Set | None:
    """`Cell`, `Cell(h, w)`: a struct that is an index set."""
    info = data.find(w, name)
    if info is None:
        return None
    if info.coded is None and not info.pattern.layout.indexed:
        return None
    kind = as_data(w, info, args, name.span)
    own = coded(w, kind)
    return elements(kind if own is None else own.place)


def ranged(w: Walk, end: Typed) -> Set | None:
    """The set that a range to or from an index is a part of, unless that is a set of integers."""
    kind = w.solver.head(end.type)
    own = whole(w.solver.head_set(kind.set)) if isinstance(kind, Index) else None
    return own if isinstance(own, EnumSet | Sum) else None


def between(over: Set | None, low: Size, high: Size) -> Set:
    """The elements of a set (of the integers, if it is None) from `low` to before `high`."""
    return make_range(low, high) if over is None else Slice(over, low, ONE, high - low)


def _stride(w: Walk, own: Set, step: Size, span: Span) -> Set:
    """`own.by(step)`"""
    own = w.solver.zonk_set(own)
    if not isinstance(w.solver.head(element(own)), Index):
        raise set_errors.no_range(span.text, show_set(own), span)
    if not w.scope.facts().proves(step - 1):
        raise set_errors.bad_step(repr(step), at_least_one(w, step), span)
    return Slice(own, ZERO, step, (cardinality(own) + step - 1) // step)


def end_of(w: Walk, start: Typed) -> Size | None:
    """Where a range that starts at an index ends: with what the index ranges over."""
    kind = w.solver.head(start.type)
    if not isinstance(kind, Index) or w.solver.set_is_open(kind.set):
        return None
    own = w.solver.zonk_set(kind.set)
    if isinstance(own, Range):
        return own.high
    return cardinality(whole(own) if isinstance(own, Slice) else own)


def as_size(w: Walk, e: s.Expr) -> Size:
    """A size expression as a polynomial: numbers, sizes, sets (their size), integer names."""
    match e:
        case s.Number(_, int() as value):
            return size(value)
        case s.Name(_, name):
            entry = w.scope.find(name)
            match entry:
                case SizeName(v, _):
                    return size(v)
                case SetName(own, _):
                    return cardinality(own)
                case None if name in w.globals.enums:
                    return cardinality(w.globals.enums[name].set)
                case None if (made := _data_set(w, e, ())) is not None:
                    return cardinality(made)
                case _:
                    pass
        case s.Binary(_, "+", _, a, b):
            return as_size(w, a) + as_size(w, b)
        case s.Binary(_, "-", _, a, b):
            return as_size(w, a) - as_size(w, b)
        case s.Binary(_, "*", _, a, b):
            return as_size(w, a) * as_size(w, b)
        case s.Binary(_, "//", _, a, b):
            return as_size(w, a) // as_size(w, b)
        case _:
            pass
    typed = w.infer(e)
    solver = w.solver
    if typed.poly is None and isinstance(e, s.Name) and solver.is_unknown(typed.type):
        whole = solver.dtypes_of(typed.type)
        if whole is not None and DType.I64 in whole:  # a literal's type, which is Int from here on
            solver.unify(typed.type, INT)
            typed = w.infer(e)
    if typed.poly is None and is_constant(w, e):
        raise size_errors.computed_constant(e.span.text, e.span)
    if typed.poly is None or typed.lets:
        raise index_errors.not_a_size(e.span.text, show(w, typed.type), e.span)
    return typed.poly


def declared_names(w: Walk, types: list[s.Expr]) -> tuple[list[str], list[str], list[str]]:
    """The lower-case names of a signature: index sets, sizes and types, in order of appearance.

    A name is a set if it stands in index position anywhere (or in a range or a tuple there), a
    size if it stands only in arithmetic and `Fin(…)`, a type otherwise.
    """
    associated = associated_names(w)
    roles: dict[str, str] = {}
    rank = {"type": 0, "size": 1, "set": 2}

    bound: list[str] = []  # indices of dependent tables

    def note(name: str, role: str) -> None:
        if not name[0].islower() or name in w.globals.data or name in bound:
            return
        if rank[role] >= rank.get(roles.get(name, "type"), 0) or name not in roles:
            roles[name] = role

    def visit(e: s.Expr, role: str) -> None:
        match e:
            case s.Name(_, name):
                note(name, role)
            case s.TableType(_, binder, own, cell):
                visit(own, "set")
                if binder is not None:
                    bound.append(binder)
                visit(cell, "type")
                if binder is not None:
                    bound.pop()
            case s.TupleExpr(_, items):
                for x in items:
                    visit(x, role)
            case s.FunctionType(_, params, _, result):
                for x in params:
                    visit(x, "type")
                visit(result, "type")
            case s.Call(_, s.Name(_, "Ref"), args):
                for a in args:
                    if not isinstance(a, s.Keyword | s.Generator):
                        visit(a, "type")
            case s.Call(_, s.Name(_, "reverse"), args):
                for a in args:
                    if not isinstance(a, s.Keyword | s.Generator):
                        visit(a, "set")
            case s.Call(_, s.Field(_, base, "by", _), (step,)) if not isinstance(
                step, s.Keyword | s.Generator
            ):
                visit(base, "set")
                visit(step, "size")
            case s.Call(_, function, args) if (info := data.find(w, function)) is not None:
                for p, a in zip(info.params[info.pattern.layout.hidden :], args, strict=False):
                    if not isinstance(a, s.Keyword | s.Generator):
                        visit(a, _ROLES[type(p)])
            case s.Call(_, function, args):
                inner = isinstance(function, s.Name) and function.name in associated
                for a in args:
                    if not isinstance(a, s.Keyword | s.Generator):
                        visit(a, "type" if inner else "size")
            case s.Binary(_, "|", _, left, right):
                visit(left, "set")
                visit(right, "set")
            case s.Binary(_, _, _, left, right):
                visit(left, "size")
                visit(right, "size")
            case s.RangeExpr(_, low, high):
                for end in (low, high):
                    if end is not None:
                        visit(end, "size")
            case s.Exists(_, names, body):
                inner_names = declared_names(w, [body])
                for found, inside in zip(("set", "size", "type"), inner_names, strict=True):
                    for n in inside:
                        if n not in names:
                            note(n, found)
            case _:
                pass

    for t in types:
        visit(t, "type")
    return (
        [n for n, r in roles.items() if r == "set"],
        [n for n, r in roles.items() if r == "size"],
        [n for n, r in roles.items() if r == "type"],
    )


_ROLES: Mapping[type, str] = {TypeVar: "type", SetVar: "set", Var: "size"}


def mentions_float(w: Walk, e: s.Expr) -> bool:
    """Whether `Float` stands in a type, or in what a struct or an enum in it is made of."""
    info = data.find(w, e)
    if info is not None:
        return info.pattern.layout.hidden > 0
    match e:
        case s.Name(_, name):
            return name == "Float"
        case s.TableType(_, _, own, cell):
            return mentions_float(w, cell) or mentions_float(w, own)
        case s.TupleExpr(_, items):
            return any(mentions_float(w, x) for x in items)
        case s.FunctionType(_, params, _, result):
            return any(mentions_float(w, p) for p in params) or mentions_float(w, result)
        case s.Exists(_, _, body):
            return mentions_float(w, body)
        case s.Call(_, function, args):
            parts = (a for a in args if not isinstance(a, s.Keyword | s.Generator))
            return mentions_float(w, function) or any(mentions_float(w, a) for a in parts)
        case _:
            return False
