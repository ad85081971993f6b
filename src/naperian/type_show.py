"""Types and sets as the user writes them."""

from __future__ import annotations

from collections.abc import Mapping

from naperian.names import Var
from naperian.sizes import ONE, ZERO, Size, is_loose, show, size
from naperian.substitution import _BOUND, cell_at
from naperian.types import (
    NOTHING,
    SETS,
    Argument,
    BoolSet,
    Data,
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
    Text,
    Tuple,
    TupleSet,
    Type,
    TypeVar,
    UnitSet,
    cardinality,
    mentioned,
    whole,
)


def show_set(s: Set, around: Mapping[Var, Set] = NOTHING) -> str:
    """As the user writes it. A range to or from an index bound outside is written with it."""
    match s:
        case Fin(n) if n.single in around:
            return f"..{show(n)}"
        case Fin(n) if (n - 1).single in around:
            return f"..={show(n - 1)}"
        case Range(low, high) if (after := _start(low, around)) is not None:
            v, sign = after
            return f"{v.name}{sign}{'' if high == cardinality(around[v]) else _end(high)}"
        case Fin(n):
            return f"Fin({show(n)})"
        case SetVar(var):
            return var.name
        case BoolSet():
            return "Bool"
        case UnitSet():
            return "()"
        case EnumSet(var, _):
            return var.name
        case TupleSet(_, Data() as made):
            return show_type(made, around)
        case TupleSet(sets):
            return "(" + ", ".join(show_set(x, around) for x in sets) + ")"
        case Range(low, high):
            start = "" if low == ZERO else _end(low)
            return f"{start}..{_end(high)}"
        case Reverse(inner):
            return f"reverse({show_set(inner, around)})"
        case Sum(left, right):
            inside = show_set(right, around)
            return f"{show_set(left, around)} | " + (
                f"({inside})" if isinstance(right, Sum) else inside
            )
        case Slice():
            return _show_slice(s, around)


def _show_slice(s: Slice, around: Mapping[Var, Set]) -> str:
    inner = show_set(s.set, around)
    if s.step == ONE:
        start = _start(s.start, around)
        if start is not None and s.start + s.count == cardinality(s.set):
            return f"{start[0].name}{start[1]}"
        low, high = (_member(s.set, x) for x in (s.start, s.start + s.count - 1))
        return f"{'' if s.start == ZERO else low}..={high}"
    rest = f"({inner})" if ".." in inner or "|" in inner else inner
    return f"{rest}.by({show(s.step)})"


def _start(low: Size, around: Mapping[Var, Set]) -> tuple[Var, str] | None:
    """The index that a range starts at, or after."""
    for at, sign in ((low, ".."), (low - 1, "<..")):
        if isinstance(v := at.single, Var) and v in around:
            return v, sign
    return None


def _member(s: Set, place: Size) -> str:
    """An element of a set by its ordinal, as the user writes it."""
    k, base = place.constant, whole(s)
    if isinstance(base, EnumSet) and k is not None and 0 <= k < len(base.members):
        return base.members[k]
    return _end(place)


def _end(s: Size) -> str:
    text = show(s)
    return f"({text})" if is_loose(text) else text


def show_type(t: Type, around: Mapping[Var, Set] = NOTHING) -> str:
    """As the user writes it; `around` are the indices that dependent tables outside bind."""
    match t:
        case Scalar(dtype):
            return dtype.surface_name
        case TypeVar(var):
            return var.name
        case Index(s):
            return show_set(s, around)
        case Data(_, layout, args):
            shown = ", ".join(_argument(a, around) for a in args[layout.hidden :])
            return f"{layout.var.name}({shown})" if shown else layout.var.name
        case Table(s, cell, None):
            return f"{_axis(s, around)}=>{_cell(cell, around)}"
        case Table(s):
            used = {v.name for v in mentioned(t)} | {v.name for v in around}
            index = Var(next(v.name for v in _BOUND if v.name not in used))
            inner = {**around, index: s}
            return f"({index.name}: {show_set(s, around)})=>{_cell(cell_at(t, size(index)), inner)}"
        case Tuple(items):
            inside = ", ".join(show_type(x, around) for x in items)
            return f"({inside},)" if len(items) == 1 else f"({inside})"
        case Function(params):
            bare = not isinstance(params[0], Tuple | Function) if params else False
            if len(params) == 1 and (bare or isinstance(params[0], Data)):
                left = show_type(params[0], around)
            else:
                left = "(" + ", ".join(_inner(p, around) for p in params) + ")"
            return left + _gives(t, around)
        case Reference(cell):
            return f"Ref({show_type(cell, around)})"
        case Exists(vars, body):
            return f"exists {', '.join(v.name for v in vars)}. {show_type(body, around)}"
        case Text():
            return "Str"


def _gives(t: Function, around: Mapping[Var, Set]) -> str:
    row = "{" + ", ".join(t.effects) + "} " if t.effects else ""
    return f" -> {row}{_inner(t.result, around)}"


def _inner(t: Type, around: Mapping[Var, Set]) -> str:
    """A parameter or result; a function of one table with it in brackets, which is read easily."""
    if isinstance(t, Function) and len(t.params) == 1 and isinstance(t.params[0], Table):
        return f"({show_type(t.params[0], around)}){_gives(t, around)}"
    return show_type(t, around)


def _argument(a: Argument, around: Mapping[Var, Set]) -> str:
    if isinstance(a, Size):
        return show(a)
    return show_set(a, around) if isinstance(a, SETS) else show_type(a, around)


def _axis(s: Set, around: Mapping[Var, Set]) -> str:
    text = show_set(s, around)
    loose = isinstance(s, Sum) or (isinstance(s, Slice) and s.step == ONE)
    return f"({text})" if loose or (around and ".." in text and text[-1] != ")") else text


def _cell(t: Type, around: Mapping[Var, Set]) -> str:
    text = show_type(t, around)
    return f"({text})" if isinstance(t, Function | Exists) else text
