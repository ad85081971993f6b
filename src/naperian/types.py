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
`Table(n, Table(Fin(i + 1), a), i)` (made and taken apart in `substitution`, stored as `packing`
says). The bound index is one of a few variables, chosen by how many are bound inside, so that types
that differ only in the names of their indices are equal.

`Data` is a tuple with a name: whoever does not care what it is called (everything after the front
end) sees a `Tuple`. Of a struct the items are the fields. Of an enum with fields item 0 is the tag,
the number of the variant, and the others are the slots its variants keep their fields in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TypeAlias

from naperian.dtypes import DType
from naperian.names import Var
from naperian.node import node
from naperian.sizes import ONE, ZERO, Size, size, variables


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
        case Fin() | SetVar() | EnumSet() | Range() | Sum() | Slice():
            return Index(s)
        case BoolSet():
            return BOOL
        case UnitSet():
            return UNIT
        case TupleSet(sets, made):
            return made or Tuple(tuple(element(x) for x in sets))
        case Reverse(inner):
            return element(inner)


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


def set_variables(own: Set) -> Iterator[Var]:
    """The variables of a set, those of its sizes too."""
    match own:
        case SetVar():
            yield own.var
        case Fin():
            yield from variables(own.size)
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


