"""Types as forms: which leaves a value has at the border, and how they make it up."""

from __future__ import annotations

from collections.abc import Mapping

from naperian.class_defaults import Defaults
from naperian.dtypes import DType
from naperian.names import Var
from naperian.node import mutable
from naperian.packing import Axis, count, grouped
from naperian.signature import Form, Leaf, Opened, Record, Rows, Tagged
from naperian.sizes import ONE, ZERO, Size, atom, rename, size, substitute
from naperian.type_show import show_type
from naperian.types import (
    BoolSet,
    Data,
    EnumSet,
    Exists,
    Fin,
    Function,
    Index,
    Layout,
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
    element,
    mentioned,
    numbers,
    whole,
)


class NoDataError(Exception):
    """A type whose values are not data."""


@mutable
class Reader:
    """Turns types into forms, collecting leaves."""

    numbers: dict[Var, int]
    types: dict[Var, int]
    leaves: list[Leaf]
    given: bool  # whether these are parameters
    defaults: Mapping[Var, Defaults]

    def size(self, s: Size) -> Size:
        def slot(a: object) -> Size | None:
            return atom(self.numbers[a]) if isinstance(a, Var) and a in self.numbers else None

        return substitute(s, slot)

    def form(self, t: Type, sets: tuple[Axis, ...]) -> Form:
        match t:
            case Data(items, layout):
                return record(layout, tuple(self.form(x, sets) for x in items), self.defaults)
            case Tuple(items):
                return tuple(self.form(x, sets) for x in items)
            case Table(s, cell, index):
                return self.form(cell, (*sets, Axis(s, index)))
            case Function():
                raise NoDataError("a function")
            case Reference():
                raise NoDataError("a reference")
            case Text():
                raise NoDataError("a text")
            case Exists() if sets:
                return self.rows(t, sets)
            case Exists(_, body) if self.given:  # the shape of its value says what it hides
                return self.form(body, ())
            case Exists(vars, body):
                sizes = tuple((self.numbers[v], self.leaf(DType.I64, ())) for v in vars)
                return Opened(sizes, self.form(body, ()))
            case Scalar(dtype):
                return self.leaf(dtype, sets)
            case TypeVar(var):
                return self.leaf(self.types[var], sets)
            case Index(s):
                return self.index(s, sets)

    def rows(self, box: Exists, sets: tuple[Axis, ...]) -> Form:
        """A table of boxes, each of which is a row, or of results with rows of one length."""
        regular = all(a.index is None and isinstance(a.set, Fin | SetVar | EnumSet) for a in sets)
        if len(box.vars) != 1 or not regular:
            raise NoDataError(f"a table of `{show_type(box)}`")
        if self.given and len(sets) > 1:
            raise NoDataError(
                f"a table of rows with {len(sets)} axes; rows of rows can be given, as "
                f"`n=>(exists k. Fin(k)=>({show_type(box)}))`"
            )
        if self.given:
            starts = self.leaf(DType.I64, (Axis(Fin(cardinality(sets[0].set) + 1), None),))
        else:
            starts = self.leaf(DType.I64, sets)
        return self.row(box, box.body, starts, sets)

    def row(self, box: Exists, t: Type, starts: int, sets: tuple[Axis, ...]) -> Form:
        """What the boxes of a table hold."""
        (k,) = box.vars
        match t:
            case Table(Fin(n), cell, None) if n == size(k) and k not in mentioned(cell):
                inner = self.form(cell, (Axis(Fin(n), None),))
                return Rows(self.numbers[k], starts, inner, len(sets))
            case Data(items, layout) if not self.given:
                inside = tuple(self.row(box, x, starts, sets) for x in items)
                return record(layout, inside, self.defaults)
            case Tuple(items) if not self.given:
                return tuple(self.row(box, x, starts, sets) for x in items)
            case _ if k not in mentioned(t) and not self.given:
                return self.form(t, sets)
            case Tuple():
                raise NoDataError(
                    f"a table of `{show_type(box)}`, whose parts have one length; rows of tuples "
                    "can be given, as `n=>(exists k. Fin(k)=>(a, b))`"
                )
            case _:
                raise NoDataError(
                    f"a table of `{show_type(box)}`; rows may differ in their first axis only, or "
                    "be rows of rows, as `n=>(exists k. Fin(k)=>(exists l. Fin(l)=>a))`"
                )

    def index(self, s: Set, sets: tuple[Axis, ...]) -> Form:
        match s:
            case Fin(n):
                return self.leaf(DType.I64, sets, ZERO, self.size(n))
            case SetVar(var):
                return self.leaf(DType.I64, sets, ZERO, atom(self.numbers[var]))
            case Range(low, high):
                return self.leaf(DType.I64, sets, self.size(low), self.size(high))
            case Sum():
                return self.leaf(DType.I64, sets, ZERO, self.size(cardinality(s)))
            case Slice(inner, _, step, n) if step == ONE:
                low, _ = numbers(s)
                if isinstance(whole(inner), EnumSet):
                    return self.index(whole(inner), sets)
                return self.leaf(DType.I64, sets, self.size(low), self.size(low + n))
            case Slice():
                raise NoDataError("an index of a stride")
            case EnumSet(var, members):
                return self.leaf(DType.I64, sets, ZERO, size(len(members)), members, var.name)
            case Reverse(inner):
                return self.index(inner, sets)
            case BoolSet() | UnitSet() | TupleSet():
                return self.form(element(s), sets)

    def leaf(
        self,
        dtype: DType | int,
        sets: tuple[Axis, ...],
        low: Size | None = None,
        high: Size | None = None,
        members: tuple[str, ...] = (),
        enum: str = "",
    ) -> int:
        shape: list[Size] = []
        labels: list[str] = []
        rows: list[tuple[Size, ...]] = []
        for run in grouped(sets):
            n = count(run)
            if n is None:
                raise NoDataError("a table whose rows' lengths have no closed sum")
            shape.append(self.size(n))
            labels.append(_label(run[0].set) if len(run) == 1 else "")
            rows.append(self.lengths(run) if len(run) > 1 else ())
        self.leaves.append(
            Leaf(dtype, tuple(shape), tuple(labels), low, high, members, enum, tuple(rows))
        )
        return len(self.leaves) - 1

    def lengths(self, run: tuple[Axis, ...]) -> tuple[Size, ...]:
        """How many rows there are, and how long one is."""
        places: dict[Var, Size] = {}
        for k, a in enumerate(run):
            if a.index is not None:
                first, step = numbers(a.set)
                places[a.index] = rename(first, places) + rename(step, places) * atom(-1 - k)
        return tuple(self.size(rename(cardinality(a.set), places)) for a in run)


def record(
    layout: Layout, items: tuple[Form, ...], defaults: Mapping[Var, Defaults]
) -> Record | Tagged:
    """A struct or an enum made of these forms."""
    known = defaults.get(layout.var, ())
    if not layout.tagged:
        (only,) = layout.variants
        (own,) = known or ((),)
        return Record(only.name, tuple(f.name for f in only.fields), items, own)
    variants = tuple((v.name, tuple((f.name, f.item) for f in v.fields)) for v in layout.variants)
    return Tagged(layout.var.name, variants, items, known)


def _label(s: Set) -> str:
    match s:
        case EnumSet(var, _):
            return var.name
        case BoolSet():
            return "Bool"
        case Reverse(inner):
            return _label(inner)
        case Fin() | SetVar() | UnitSet() | TupleSet() | Range() | Sum() | Slice():
            return ""
