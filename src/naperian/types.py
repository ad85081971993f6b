"""Types and index sets.

    type ::= Scalar(dtype) | TypeVar(var) | Index(set) | Table(set, type, index)
           | Tuple(type, …) | Data(type, …) | Function((type, …), type, (effect, …))
           | Reference(type) | Text | Exists((var, …), type)
    set  ::= Fin(size) | SetVar(var) | BoolSet | UnitSet | EnumSet(name, members)
           | TupleSet(set, …) | Range(low, high) | Reverse(set)
           | Sum(set, set) | Slice(set, start, step, count)

`Index(set)` is the type of an element of a set. Elements of `TupleSet` are tuples, of `BoolSet`
Booleans, of `UnitSet` the empty tuple: `element(set)` gives the type. A `Range` holds the integers
low … high-1 (its elements are numbers counted from the range's own base, not from 0); the ordinal
of an element is its distance from `low`. `Reverse` has the elements of its set, last one first.
A `Sum` has the elements of one set, then those of another, and its own elements are their numbers
(`sum_of` makes it: a sum of `Fin`s is a `Fin`). A `Slice` has some elements of a set whose elements
are numbers: those at the ordinals start, start + step, …

A table is *dependent* if its cells' type mentions the index: `(i: n)=>(..=i)=>a` is
`Table(n, Table(Fin(i + 1), a), i)`. `dependent` makes it, `cell_at` takes it apart. The bound index
is one of a few variables, chosen by how many are bound inside, so that types that differ only in
the names of their indices are equal.

`Data` is a tuple with a name: whoever does not care what it is called (everything after the front
end) sees a `Tuple`. Of a struct the items are the fields. Of an enum with fields item 0 is the tag,
the number of the variant, and the others are the slots its variants keep their fields in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from naperian.dtypes import DType
from naperian.facts import Facts
from naperian.names import Var
from naperian.node import node
from naperian.sizes import ONE, ZERO, Size, clamp, rename, show, size, variables
from naperian.sums import below


@node
class Scalar:
    """A number or a Boolean."""

    dtype: DType


@node
class TypeVar:
    """A type chosen by the caller (or, during inference, not known yet)."""

    var: Var


@node
class Index:
    """An element of an index set; at run time its ordinal (for a `Range`, the number itself)."""

    set: Set


@node
class Table:
    """An array: a function from a finite index set, tabulated. `index` is the variable that the
    cell's type mentions for the index, if it does."""

    set: Set
    cell: Type
    index: Var | None = None


@node
class Tuple:
    """A tuple; the empty one is the unit type."""

    items: tuple[Type, ...]


@node
class Field:
    """A field of a struct or of a variant, and which item of the tuple it is kept in."""

    name: str
    item: int


@node
class Variant:
    """A way of being a value of an enum. A struct has one, of its own name."""

    name: str
    fields: tuple[Field, ...]


@node
class Layout:
    """The name and the variants that `struct` or `enum` declares; equal only to itself (`var`).
    `tagged` tells an enum; `hidden` is how many of the arguments the user does not write (the
    precision of `Float`); `indexed`, whether its values are an index set (`instance Ix`)."""

    var: Var
    variants: tuple[Variant, ...] = field(compare=False)
    tagged: bool = field(compare=False)
    hidden: int = field(compare=False)
    indexed: bool = field(default=False, compare=False)

    def variant(self, name: str) -> int | None:
        """The number of a variant."""
        names = [v.name for v in self.variants]
        return names.index(name) if name in names else None


@node
class Data(Tuple):
    """A struct or an enum with fields, at these arguments for its parameters."""

    items: tuple[Type, ...]
    layout: Layout
    args: tuple[Argument, ...]


@node
class Function:
    """A function of several arguments. `effects` are what a call may do beside giving a value;
    they guide messages and print, and do not distinguish types."""

    params: tuple[Type, ...]
    result: Type
    effects: tuple[str, ...] = field(default=(), compare=False)


@node
class Reference:
    """What a handler's name is: a place for values of this type; `Ref(a)` in a signature."""

    cell: Type


@node
class Text:
    """A message; not data."""


@node
class Exists:
    """A value of type `body` for some sizes `vars`, known only when it is there: a box."""

    vars: tuple[Var, ...]
    body: Type


Type: TypeAlias = "Scalar | TypeVar | Index | Table | Tuple | Function | Reference | Text | Exists"
Argument: TypeAlias = "Type | Set | Size"


@node
class Fin:
    """0 … size-1."""

    size: Size


@node
class SetVar:
    """An index set chosen by the caller (or not known yet)."""

    var: Var


@node
class BoolSet:
    """False, True."""


@node
class UnitSet:
    """One element, the empty tuple."""


@node
class EnumSet:
    """The members of an `enum` without fields, in order. Equal only to itself (`var`)."""

    var: Var
    members: tuple[str, ...]


@node
class TupleSet:
    """Pairs, triples, …; the last component runs fastest. `made` is the struct that the elements
    are, if they are no plain tuples."""

    sets: tuple[Set, ...]
    made: Data | None = None

    @property
    def plain(self) -> tuple[Set, ...]:
        """The sets of the items that elements are written with, if they are plain tuples."""
        return self.sets if self.made is None else ()


@node
class Range:
    """The integers low … high-1; empty if high <= low."""

    low: Size
    high: Size


@node
class Reverse:
    """The elements of a set, last one first."""

    set: Set


@node
class Sum:
    """The elements of one set, then those of another. An element is its ordinal."""

    left: Set
    right: Set


@node
class Slice:
    """The elements of a set at the ordinals start, start + step, …; `count` of them, `step` >= 1.
    An element is what it is in the set."""

    set: Set
    start: Size
    step: Size
    count: Size


Set: TypeAlias = (
    "Fin | SetVar | BoolSet | UnitSet | EnumSet | TupleSet | Range | Reverse | Sum | Slice"
)
SETS = (Fin, SetVar, BoolSet, UnitSet, EnumSet, TupleSet, Range, Reverse, Sum, Slice)

UNIT = Tuple(())
BOOL = Scalar(DType.BOOL)
INT = Scalar(DType.I64)
F64 = Scalar(DType.F64)
F32 = Scalar(DType.F32)


def element(s: Set) -> Type:
    """The type of an element of an index set."""
    match s:
        case BoolSet():
            return BOOL
        case UnitSet():
            return UNIT
        case TupleSet(sets, made):
            return made or Tuple(tuple(element(x) for x in sets))
        case Reverse(inner):
            return element(inner)
        case Fin() | SetVar() | EnumSet() | Range() | Sum() | Slice():
            return Index(s)


def elements(t: Type) -> Set | None:
    """The index set whose elements have this type, if there is one."""
    match t:
        case Index(s):
            return s
        case Scalar(DType.BOOL):
            return BoolSet()
        case Tuple(()):
            return UnitSet()
        case Data(_, layout) if not layout.indexed:
            return None
        case Tuple(items):
            parts = [s for s in map(elements, items) if s is not None]
            made = t if isinstance(t, Data) else None
            return TupleSet(tuple(parts), made) if len(parts) == len(items) else None
        case _:
            return None


def sum_of(left: Set, right: Set) -> Set:
    """left | right."""
    if isinstance(left, Fin) and isinstance(right, Fin):
        return Fin(left.size + right.size)
    return Sum(left, right)


def whole(s: Set) -> Set:
    """The set that a slice (of a slice) is of."""
    while isinstance(s, Slice):
        s = s.set
    return s


def numbers(s: Set) -> tuple[Size, Size]:
    """The first element of a set whose elements are numbers, and the distance to the next."""
    match s:
        case Range(low, _):
            return low, ONE
        case Slice(inner, start, step, _):
            first, distance = numbers(inner)
            return first + distance * start, distance * step
        case _:
            return ZERO, ONE


def cardinality(s: Set) -> Size:
    """How many elements a set has. The size of a set variable is the variable itself, used as a
    number (`n` of `n=>a`)."""
    match s:
        case Fin(n):
            return n
        case SetVar(var):
            return size(var)
        case BoolSet():
            return size(2)
        case UnitSet():
            return ONE
        case EnumSet(_, members):
            return size(len(members))
        case TupleSet(sets):
            product = ONE
            for x in sets:
                product = product * cardinality(x)
            return product
        case Range(low, high):
            return high - low
        case Reverse(inner):
            return cardinality(inner)
        case Sum(left, right):
            return cardinality(left) + cardinality(right)
        case Slice(_, _, _, n):
            return n


_BOUND = tuple(Var(name) for name in "ijklpqrs")  # what dependent tables bind, inner ones first


def dependent(s: Set, index: Var, cell: Type) -> Table:
    """The table over `s` whose cell at `index` has the type `cell`."""
    if index not in mentioned(cell):
        return Table(s, cell)
    bound = _BOUND[_depth(cell)]
    return Table(s, Substitution({}, {}, {index: size(bound)}).type(cell), bound)


def cell_at(t: Table, index: Size) -> Type:
    """The type of the cell at an index."""
    return t.cell if t.index is None else Substitution({}, {}, {t.index: index}).type(t.cell)


def is_bound(v: Var) -> bool:
    """Whether a variable is one that dependent tables bind."""
    return v in _BOUND


def mentioned(t: Type) -> set[Var]:
    """The variables in the sizes of a type that it does not bind itself."""
    match t:
        case Table(s, cell, index):
            return {*set_variables(s), *(mentioned(cell) - {index})}
        case Index(s):
            return set(set_variables(s))
        case Tuple(items):
            return {v for x in items for v in mentioned(x)}
        case Function(params, result):
            return {v for x in (*params, result) for v in mentioned(x)}
        case Reference(cell):
            return mentioned(cell)
        case Exists(vars, body):
            return mentioned(body).difference(vars)
        case Scalar() | TypeVar() | Text():
            return set()


def _depth(t: Type) -> int:
    """How many indices are bound inside a type, one in another."""
    match t:
        case Table(_, cell, index):
            return _depth(cell) + (index is not None)
        case Tuple(items):
            return max(map(_depth, items), default=0)
        case Function(params, result):
            return max(map(_depth, (*params, result)))
        case Reference(cell) | Exists(_, cell):
            return _depth(cell)
        case Scalar() | TypeVar() | Index() | Text():
            return 0


@node
class Axis:
    """One of the axes that a dependent table is stored with; `index` as in `Table`."""

    set: Set
    index: Var | None


def runs(t: Type) -> tuple[list[tuple[Axis, ...]], Type]:
    """The axes of a table, outermost first, in runs of those that depend on each other (which are
    stored as one axis, row after row without gaps), and the type of its innermost cells."""
    found: list[Axis] = []
    while isinstance(t, Table):
        found.append(Axis(t.set, t.index))
        t = t.cell
    return grouped(found), t


def grouped(found: Sequence[Axis]) -> list[tuple[Axis, ...]]:
    """Axes in runs of those that depend on each other."""
    out: list[tuple[Axis, ...]] = []
    for k, axis in enumerate(found):
        needed = set(set_variables(axis.set))
        first = next((m for m, a in enumerate(found[:k]) if a.index in needed), k)
        run: tuple[Axis, ...] = (axis,)
        while sum(map(len, out)) > first:
            run = (*out.pop(), *run)
        out.append(run)
    return out


def count(run: tuple[Axis, ...]) -> Size | None:
    """How many elements a run of axes has, if that has a closed form."""
    return _count(run, ()) if len(run) > 1 else cardinality(run[0].set)


def bounds(v: Var, s: Set) -> list[Size]:
    """What is not negative where `v` is an element of a set of numbers."""
    first, step = numbers(s)
    n, k = cardinality(s), size(v)
    if step == ONE:
        return [k - first, first + n - 1 - k]
    return [k - first, *bounds(v, whole(s))]


def _count(run: tuple[Axis, ...], known: tuple[Size, ...]) -> Size | None:
    if not run:
        return ONE
    (first, *rest) = run
    n = cardinality(first.set)
    sizes = tuple(size(v) for v in set_variables(first.set))
    if not Facts(known + sizes).proves(n):
        n = clamp(n, n + 1)
    if first.index is None:
        inner = _count(tuple(rest), known)
        return None if inner is None else inner * n
    i = size(first.index)
    low, step = numbers(first.set)
    inner = _count(tuple(rest), (*known, *bounds(first.index, first.set)))
    if inner is None:
        return None
    return below(rename(inner, {first.index: i * step + low}), first.index, n)


def place(run: tuple[Axis, ...], at: Sequence[Size]) -> Size | None:
    """How many elements of a run of axes come before the one at these indices, if that has a
    closed form."""
    total = ZERO
    known: tuple[Size, ...] = ()
    for k, (axis, here) in enumerate(zip(run, at, strict=True)):
        first, step = numbers(axis.set)
        ordinal = (here - first) // step
        v = axis.index or Var("i")
        known = (*known, *bounds(v, axis.set))
        inner = _count(run[k + 1 :], known)
        if inner is None:
            return None
        before = below(rename(inner, {v: size(v) * step + first}), v, ordinal)
        if before is None:
            return None
        total = total + before
    outer = {a.index: s for a, s in zip(run, at, strict=True) if a.index is not None}
    return rename(total, outer)


def axes(t: Type) -> tuple[list[Set], Type]:
    """The axes of a table, outermost first, and the type of its innermost cells. A dependent
    table's end before it: what is left is a cell by itself."""
    sets = []
    while isinstance(t, Table) and t.index is None:
        sets.append(t.set)
        t = t.cell
    return sets, t


def table(sets: list[Set] | tuple[Set, ...], cell: Type) -> Type:
    """The table with these axes, outermost first."""
    for s in reversed(sets):
        cell = Table(s, cell)
    return cell


@node
class Substitution:
    """Types, sets and sizes for variables."""

    types: Mapping[Var, Type]
    sets: Mapping[Var, Set]
    sizes: Mapping[Var, Size]

    def and_(self, more: Substitution) -> Substitution:
        """Both; what `more` says comes first."""
        return Substitution(
            {**self.types, **more.types},
            {**self.sets, **more.sets},
            {**self.sizes, **more.sizes},
        )

    def size(self, s: Size) -> Size:
        if not self.sizes and not self.sets:
            return s
        both = {v: cardinality(x) for v, x in self.sets.items()} | dict(self.sizes)
        return rename(s, both)

    def set(self, s: Set) -> Set:
        match s:
            case Fin(n):
                return Fin(self.size(n))
            case SetVar(var):
                return self.sets.get(var, s)
            case TupleSet(sets, made):
                kind = self.type(made) if made is not None else None
                assert kind is None or isinstance(kind, Data)
                return TupleSet(tuple(self.set(x) for x in sets), kind)
            case Range(low, high):
                return Range(self.size(low), self.size(high))
            case Reverse(inner):
                return Reverse(self.set(inner))
            case Sum(left, right):
                return sum_of(self.set(left), self.set(right))
            case Slice(inner, start, step, n):
                return Slice(self.set(inner), self.size(start), self.size(step), self.size(n))
            case BoolSet() | UnitSet() | EnumSet():
                return s

    def type(self, t: Type) -> Type:
        match t:
            case TypeVar(var):
                return self.types.get(var, t)
            case Index(s):
                return element(self.set(s))
            case Table(s, cell, index) if index is not None:
                sizes = {v: n for v, n in self.sizes.items() if v != index}
                return dependent(
                    self.set(s), index, Substitution(self.types, self.sets, sizes).type(cell)
                )
            case Table(s, cell):
                return Table(self.set(s), self.type(cell))
            case Data():
                return mapped(t, self.size, self.set, self.type)
            case Tuple(items):
                return Tuple(tuple(self.type(x) for x in items))
            case Function(params, result):
                own = tuple(self.type(p) for p in params)
                return Function(own, self.type(result), t.effects)
            case Reference(cell):
                return Reference(self.type(cell))
            case Exists(vars, body):
                return Exists(vars, self.type(body))
            case Scalar() | Text():
                return t


def mapped(
    t: Data,
    size: Callable[[Size], Size],
    set: Callable[[Set], Set],
    type: Callable[[Type], Type],
) -> Data:
    """The data type with something done to every type, set and size in it."""

    def argument(a: Argument) -> Argument:
        if isinstance(a, Size):
            return size(a)
        return set(a) if isinstance(a, SETS) else type(a)

    items = tuple([type(x) for x in t.items])
    return Data(items, t.layout, tuple([argument(a) for a in t.args]))


def sets_in(t: Type) -> Iterator[Set]:
    """Every index set in a type; those inside dependent tables may mention what these bind."""
    match t:
        case Table(own, cell):
            yield own
            yield from sets_in(cell)
        case Reference(cell):
            yield from sets_in(cell)
        case Index(own):
            yield own
        case Tuple(items):
            for x in items:
                yield from sets_in(x)
        case Function(params, result):
            for x in (*params, result):
                yield from sets_in(x)
        case Exists(_, body):
            yield from sets_in(body)
        case Scalar() | TypeVar() | Text():
            pass


def opened(t: Exists, sizes: Sequence[Size]) -> Type:
    """The type of a box's value, whose sizes these are."""
    named = dict(zip(t.vars, sizes, strict=True))
    return Substitution({}, {}, named).type(t.body)


def boxed(t: Type) -> Iterator[Var]:
    """The sizes that boxes in a type hide."""
    match t:
        case Exists(vars, body):
            yield from vars
            yield from boxed(body)
        case Table(_, cell):
            yield from boxed(cell)
        case Tuple(items):
            for x in items:
                yield from boxed(x)
        case Function(params, result):
            for x in (*params, result):
                yield from boxed(x)
        case Reference(cell):
            yield from boxed(cell)
        case Scalar() | TypeVar() | Index() | Text():
            pass


def apart(t: Type, seen: set[Var]) -> Type:
    """The type with other names for sizes of boxes that were `seen` before, as those of a struct
    are that is written twice."""
    match t:
        case Exists(vars):
            names = {v: Var(v.name) if v in seen else v for v in vars}
            seen.update(names.values())
            own = opened(t, [size(names[v]) for v in vars])
            return Exists(tuple(names.values()), apart(own, seen))
        case Table(s, cell, index):
            return Table(s, apart(cell, seen), index)
        case Data(items, layout, args):
            return Data(tuple(apart(x, seen) for x in items), layout, args)
        case Tuple(items):
            return Tuple(tuple(apart(x, seen) for x in items))
        case Scalar() | TypeVar() | Index() | Function() | Reference() | Text():
            return t


def set_variables(own: Set) -> Iterator[Var]:
    """The variables of a set, those of its sizes too."""
    match own:
        case SetVar(v):
            yield v
        case Fin(n):
            yield from variables(n)
        case TupleSet(parts):
            for x in parts:
                yield from set_variables(x)
        case Range(low, high):
            yield from variables(low)
            yield from variables(high)
        case Reverse(inner):
            yield from set_variables(inner)
        case Sum(left, right):
            yield from set_variables(left)
            yield from set_variables(right)
        case Slice(inner, start, step, n):
            yield from set_variables(inner)
            for number in (start, step, n):
                yield from variables(number)
        case EnumSet() | BoolSet() | UnitSet():
            pass


NOTHING: Mapping[Var, Set] = {}


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
    return text if " " not in text else f"({text})"


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
    """A parameter or result. `n=>a -> b` would be read as a table of functions there."""
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
