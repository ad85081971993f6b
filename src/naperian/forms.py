"""Values of Python and the leaves they are made of, one way and the other.

    parted    a value as its leaves: the numbered arrays and scalars of a form
    dressed   leaves as a value: tuples, structs and enums (`records`)

A struct may be given as an instance of its class, as any object with the attributes, a mapping, a
structured NumPy array, or a list of such; an enum's value as an instance of a variant or, if it
has no fields, by its name; a table of an enum as `Variants` or a list of values.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from naperian import records
from naperian.node import node
from naperian.ragged import Ragged
from naperian.signature import Form, Opened, Record, Rows, Tagged


@node
class Blank:
    """What a variant does not use: zeros of whatever shape is needed."""


BLANK = Blank()


class Column(list[Any]):
    """What the values of a list have in a field or keep in a slot; blank where they do not use it.
    `base` is what messages call the list. If it is made of rows, those of `outer`, each starts at
    one of `starts`."""

    __slots__ = ("base", "outer", "starts")

    def __init__(
        self, values: Iterable[Any], base: str, starts: list[int] | None = None, outer: Any = None
    ) -> None:
        super().__init__(values)
        self.base = base
        self.starts = starts
        self.outer = outer

    def like(self, values: Iterable[Any]) -> Column:
        """Of the same list something else."""
        return Column(values, self.base, self.starts, self.outer)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it, nor in the lists in it."""
        return all(isinstance(x, Column) and x.is_empty for x in self)

    def name(self, where: str, *position: int) -> str:
        """What messages call an element of this column, which they call `where`."""
        k, *inside = position
        index = f"{self.base}[{k}]"
        if self.starts is not None:
            row = bisect_right(self.starts, k) - 1
            index = f"{element_name(self.outer, self.base, row)}[{k - self.starts[row]}]"
        return index + "".join(f"[{i}]" for i in inside) + where[len(self.base) :]


Columns = Callable[[int], tuple[Any, ...]]
"""The fields of a variant by its number, as arrays."""

Item = tuple[int, str, Any]
"""A leaf's number, what messages call it, and what was given for it."""


RowsOf = Callable[[Any, str, bool], tuple[Any, Any]]
"""From rows what they hold, one after the other, and where each starts; whether that is numbers,
and not values of a struct or rows again, is told."""


def parted(form: Form, given: Any, where: str, rows: RowsOf) -> Iterator[Item]:
    """The leaves of a value."""
    match form:
        case int():
            yield form, where, _filled(given) if isinstance(given, Column) else given
        case Record(_, fields, items):
            for f, item in zip(fields, items, strict=True):
                part = field_of(given, f, form, where)
                yield from parted(item, part, f"{where}.{f}", rows)
        case Tagged():
            yield from _choices(form, given, where, rows)
        case Rows(_, starts, own):
            if isinstance(given, Blank):
                yield starts, where, given
                yield from parted(own, given, where, rows)
                return
            if isinstance(given, Column):  # a variant without these rows has none
                given = given.like([] if isinstance(x, Blank) else x for x in given)
            values, offsets = rows(given, where, isinstance(own, int))
            yield starts, where, offsets
            yield from parted(own, values, where, rows)
        case Opened():
            raise TypeError(f"{where}: the size of this result is known only after the run")
        case tuple():
            given = _table_of_tuples(form, given, where)
            if not isinstance(given, Blank) and (
                not isinstance(given, tuple | list) or len(given) != len(form)
            ):
                raise TypeError(f"{where} must be a tuple of {len(form)}, not {kind(given)}")
            for k in range(len(form)):
                value = given if isinstance(given, Blank) else given[k]
                yield from parted(form[k], value, f"{where}[{k}]", rows)


def _table_of_tuples(form: tuple[Form, ...], given: Any, where: str) -> Any:
    """A list of tuples as the tuple of what they hold; a tuple is one of tables already."""
    if isinstance(given, list) and (
        isinstance(given, Column) or all(isinstance(x, int) for x in form)
    ):
        cells = [x for x in _cells(given, list) if not isinstance(x, Blank)]
        if all(isinstance(x, tuple) and len(x) == len(form) for x in cells):
            return tuple(_items(given, k, where) for k in range(len(form)))
    return given


def _cells(given: list[Any], inside: type[list[Any]]) -> Iterator[Any]:
    """What nested lists of this kind hold."""
    for x in given:
        if isinstance(x, inside):
            yield from _cells(x, inside)
        else:
            yield x


def _items(given: list[Any], k: int, where: str) -> Column:
    """One item of every tuple in nested lists of them."""
    parts = (
        x if isinstance(x, Blank) else _items(x, k, where) if isinstance(x, list) else x[k]
        for x in given
    )  # fmt: skip
    return given.like(parts) if isinstance(given, Column) else Column(parts, where)


def element_name(given: Any, where: str, k: int) -> str:
    """What messages call an element of a list."""
    return given.name(where, k) if isinstance(given, Column) else f"{where}[{k}]"


def kind(given: Any) -> str:
    """What a value is, for a message."""
    if isinstance(given, np.ndarray):
        return f"an array of {given.dtype}"
    if isinstance(given, tuple | list):
        name = "list" if isinstance(given, Column) else type(given).__name__
        return f"a {name} of {len(given)}"
    return f"{type(given).__name__}"


def field_of(given: Any, field: str, form: Record, where: str) -> Any:
    """A field of a struct, or of every struct in a list of them. What a mapping leaves out is as
    the declaration says, if it has no names that are none of the struct's."""
    if isinstance(given, Blank):
        return given
    if isinstance(given, np.ndarray | np.void) and given.dtype.names is not None:
        if field in given.dtype.names:
            return given[field]
    elif isinstance(given, Mapping):
        if field in given:
            return given[field]
        default = dict(zip(form.fields, form.defaults, strict=False)).get(field)
        if default is not None and set(given) <= set(form.fields):
            return default
    elif not isinstance(given, list | np.ndarray) and hasattr(given, records.attribute(field)):
        return getattr(given, records.attribute(field))
    elif _is_table(given):
        parts = (
            field_of(x, field, form, element_name(given, where, k))
            for k, x in enumerate(given)
        )
        return given.like(parts) if isinstance(given, Column) else Column(parts, where)
    wanted = f"{form.name}({', '.join(form.fields)})"
    others = any(f != field and _has(given, f) for f in form.fields)
    why = f": it has no `{field}`" if others else ""
    if others and isinstance(given, Mapping):
        unknown = [repr(n) for n in given if n not in form.fields]
        why += f", but {', '.join(unknown)}" if unknown else ""
    raise TypeError(f"{where} must be a {wanted}, not {kind(given)}{why}")


def _is_table(given: Any) -> bool:
    """Whether this is a list of structs; a tuple with a number in it is none."""
    if isinstance(given, tuple):
        return not any(isinstance(x, int | float) for x in given)
    objects = isinstance(given, np.ndarray) and given.dtype == np.dtype(object) and given.ndim
    return isinstance(given, list) or bool(objects)


def _has(given: Any, field: str) -> bool:
    if isinstance(given, Mapping):
        return field in given
    if isinstance(given, np.ndarray | np.void):
        return field in (given.dtype.names or ())
    return hasattr(given, records.attribute(field))


# ---------------------------------------------------------------- enums


def _choices(form: Tagged, given: Any, where: str, rows: RowsOf) -> Iterator[Item]:
    tag, *slots = form.items
    assert isinstance(tag, int)
    given = _written(form, given, where)
    if isinstance(given, Blank):
        yield tag, where, given
        for k, slot in enumerate(slots, 1):
            yield from parted(slot, given, f"{where}.{k}", rows)
        return
    if isinstance(given, records.Variants):
        numbers: Any = given.tag
        columns = [kept_in(form, given, k) for k in range(1, len(form.items))]
    elif isinstance(given, list | tuple | np.ndarray):
        tags = (
            _each(form, x, element_name(given, where, i), None) for i, x in enumerate(given)
        )
        listed = given if isinstance(given, Column) else Column((), where)
        numbers = listed.like(tags)
        columns = [
            listed.like(_each(form, x, where, k) for x in given) for k in range(1, len(form.items))
        ]
    else:
        numbers = _number(form, given, where)
        columns = [_slot(form, numbers, given, k) for k in range(1, len(form.items))]
    yield tag, where, numbers
    for k, (slot, column) in enumerate(zip(slots, columns, strict=True), 1):
        names = dict.fromkeys(n for _, fields in form.variants for n, item in fields if item == k)
        yield from parted(slot, column, f"{where}.{'/'.join(names)}", rows)


def _written(form: Tagged, given: Any, where: str) -> Any:
    """`{"Found": {"distance": 1.0}}`, as JSON has a value, as the value."""
    if isinstance(given, Mapping) and len(given) == 1:
        ((name, fields),) = given.items()
        for number, (variant, own) in enumerate(form.variants):
            if variant == name and isinstance(fields, Mapping):
                defaults = form.defaults[number] if form.defaults else ()
                whole = Record(name, tuple(n for n, _ in own), (), defaults)
                values = tuple(field_of(fields, n, whole, f"{where}.{name}") for n, _ in own)
                return records.make(enum_of(form), number, values)
    return given


def enum_of(form: Tagged) -> Any:
    """The class of an enum's values."""
    plain = tuple((v, tuple(n for n, _ in fields)) for v, fields in form.variants)
    return records.enum(form.name, plain, form.defaults)


def struct_of(form: Record) -> Any:
    """The class of a struct."""
    return records.struct(form.name, form.fields, form.defaults)


def slots_of_variant(form: Tagged, number: int) -> tuple[int, ...]:
    """Which items keep the fields of a variant."""
    return tuple(k for _, k in form.variants[number][1])


def _number(form: Tagged, given: Any, where: str) -> int:
    """Which variant a value is."""
    name = given if isinstance(given, str) else type(given).__name__
    if given is None:
        name = "None"
    for number, (variant, fields) in enumerate(form.variants):
        if variant == name and (
            not fields
            or all(hasattr(given, records.attribute(n)) for n, _ in fields)
        ):
            return number
    choices = [f"{form.name}.{v}" for v, _ in form.variants]
    if form.name == "Maybe":  # which stands in no module
        choices = ["nap.Maybe.Some(…)", "None"]
    raise TypeError(f"{where} must be one of {', '.join(choices)}, not {kind(given)}")


def _slot(form: Tagged, number: int, given: Any, item: int) -> Any:
    """What a value keeps in a slot."""
    for name, k in form.variants[number][1]:
        if k == item:
            return getattr(given, records.attribute(name))
    return BLANK


def _each(form: Tagged, given: Any, where: str, item: int | None) -> Any:
    """The variants' numbers of nested lists of values, or what they keep in a slot."""
    if isinstance(given, list | tuple | np.ndarray):
        each = (_each(form, x, f"{where}[{i}]", item) for i, x in enumerate(given))
        return Column(each, where)
    if isinstance(given, Blank):
        return 0 if item is None else given
    given = _written(form, given, where)
    number = _number(form, given, where)
    if item is None:
        return number
    return _slot(form, number, given, item)


def _filled(given: Column) -> Any:
    """A column with zeros for what is blank; blank as a whole if nothing else is there."""
    flat = list(_cells(given, Column))
    used = [x for x in flat if not isinstance(x, Blank)]
    if len(used) == len(flat):
        return given
    if not used:
        return BLANK
    zero = np.zeros_like(np.asarray(used[0]))

    def fill(x: Any) -> Any:
        if isinstance(x, Column):
            return x.like(map(fill, x))
        return zero if isinstance(x, Blank) else x

    return fill(given)


def kept_in(form: Tagged, given: records.Variants, item: int) -> Any:
    """A slot of a table of values: each variant's fields where it is that variant."""
    out: Any = BLANK
    for number, (variant, fields) in enumerate(form.variants):
        for name, k in fields:
            if k == item:
                part = getattr(given, records.attribute(variant))
                mine = getattr(part, records.attribute(name))
                out = mine if isinstance(out, Blank) else _chosen(given.tag == number, mine, out)
    return out


def _chosen(here: Any, a: Any, b: Any) -> Any:
    """Where it holds the one, elsewhere the other."""
    match a:
        case records.Variants():
            tag = _chosen(here, a.tag, b.tag)
            ours, theirs = a.columns, b.columns
            return records.Variants(a.enum, tag, _pairwise(here, ours, theirs))
        case records.Struct():
            fields = records.fields(a)
            return type(a)(*[_chosen(here, getattr(a, f), getattr(b, f)) for f in fields])
        case tuple():
            return tuple(_chosen(here, x, y) for x, y in zip(a, b, strict=True))
        case _:
            return np.where(here.reshape(here.shape + (1,) * (a.ndim - here.ndim)), a, b)


def _pairwise(here: Any, ours: Columns, theirs: Columns) -> Columns:
    return lambda k: tuple(_chosen(here, x, y) for x, y in zip(ours(k), theirs(k), strict=True))


# ---------------------------------------------------------------- back


def dressed(form: Form, value: Any) -> Any:
    """Nested tuples of leaves as the value they are."""
    match form:
        case int():
            return value
        case Rows(_, _, _, axes):
            return _dressed_rows(form, value, axes)
        case Record(_, _, items):
            parts = zip(items, value, strict=True)
            return struct_of(form)(*[dressed(x, v) for x, v in parts])
        case Tagged(_, _, items):
            slots = [dressed(x, v) for x, v in zip(items, value, strict=True)]

            def columns(number: int) -> tuple[Any, ...]:
                return tuple(slots[k] for k in slots_of_variant(form, number))

            if np.ndim(slots[0]):
                return records.Variants(enum_of(form), slots[0], columns)
            return records.make(enum_of(form), int(slots[0]), columns(int(slots[0])))
        case Opened(_, inner):
            return dressed(inner, value)
        case tuple():
            return tuple(dressed(x, v) for x, v in zip(form, value, strict=True))


def _dressed_rows(form: Rows, value: Any, axes: int) -> Any:
    """Rows with what they hold dressed; where it is not said where they start, only that."""
    if not isinstance(value, Ragged):
        return dressed(form.values, value)
    if axes > 1:
        return Ragged(_dressed_rows(form, value.values, axes - 1), value.offsets)
    return Ragged(dressed(form.values, value.values), value.offsets)


def nested(
    form: Form, leaf: Callable[[int], Any], starts: Callable[[int], tuple[Any, ...]]
) -> Any:
    """Leaves by their numbers as nested tuples, and rows by where they start: the leaf of a number
    as offsets, for each axis of a table, the innermost last."""
    match form:
        case int():
            return leaf(form)
        case Rows(_, rows, values):
            made = nested(values, leaf, starts)
            for offsets in reversed(starts(rows)):
                made = Ragged(made, offsets)
            return made
        case Record(_, _, items) | Tagged(_, _, items):
            return nested(items, leaf, starts)
        case Opened(_, inner):
            return nested(inner, leaf, starts)
        case tuple():
            return tuple(nested(x, leaf, starts) for x in form)
