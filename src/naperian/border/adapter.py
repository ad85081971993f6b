"""The fast way in for calls whose arguments or results are made of several leaves.

    call(p, bins=4)     entry(p.x, p.y, 4)  →  (r0, r1, n)  →  Point(r0, r1)

The native entry takes leaves. What takes an argument apart is found once for every type of argument
(`Readers`), and what puts a result together once for every signature. An adapter knows less than
the border: what it cannot take apart goes there, and so does what the entry refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from operator import attrgetter, itemgetter
from typing import Any, TypeAlias

import numpy as np

from naperian import records
from naperian.border.numbers import laid_out
from naperian.border.results import with_rows
from naperian.border.shapes import starts
from naperian.dtypes import DType
from naperian.forms import BLANK, enum_of, kept_in, slots_of_variant, struct_of
from naperian.ragged import Ragged
from naperian.signature import Constant, Form, Leaf, Opened, Record, Rows, Signature, Tagged

Leaves: TypeAlias = tuple[Any, ...]
Reader: TypeAlias = Callable[[Any], Leaves]
"""What a value is made of. It raises anything where the value is not as it should be."""

Maker: TypeAlias = Callable[[Leaves], Any]
"""A value of what a call gave."""

_MOST = 64  # types that are remembered


class UnusualError(Exception):
    """A value that only the border knows what to do with."""


REFUSED = object()
"""What an entry gives for arguments that it does not take."""


def refuse(*_: Any) -> object:
    """The end of a chain of entries."""
    return REFUSED


def adapter(
    sig: Signature, told: tuple[int, ...], entry: Callable[..., Any], slow: Callable[..., Any]
) -> Callable[..., Any]:
    """What is called: `entry` with the leaves of the arguments, or `slow` with the arguments."""
    readers = [Readers(p.form, sig.inputs) for p in sig.params]
    count = len(readers)
    names = (*(p.name for p in sig.params), *(sig.slots[k] for k in sig.implicit))
    defaults = {
        p.name: p.default.value for p in sig.params if isinstance(p.default, Constant)
    }
    make = _maker(sig, told)

    def call(*args: Any, **keywords: Any) -> Any:
        try:
            given = args
            if keywords or len(args) != len(names):
                given = _ordered(names, args, keywords, defaults, count)
            leaves: list[Any] = []
            for read, x in zip(readers, given, strict=False):
                leaves += read[type(x)](x)
        except Exception:  # whatever attributes of foreign objects raise: it is explained there
            return slow(*args, **keywords)
        made = entry(*leaves, *given[count:])
        if made is REFUSED and (laid := laid_out(leaves)) is not None:
            made = entry(*laid, *given[count:])
        return slow(*args, **keywords) if made is REFUSED else make(made)

    return call


def _ordered(
    names: tuple[str, ...], args: Leaves, keywords: Mapping[str, Any],
    defaults: Mapping[str, Any], positional: int,
) -> Leaves:
    """The arguments in the order of the names."""
    if len(args) > positional:
        raise UnusualError
    rest = names[len(args) :]
    found = [keywords[n] if n in keywords else defaults[n] for n in rest]
    if sum(n in keywords for n in rest) != len(keywords):
        raise UnusualError
    return (*args, *found)


# ---------------------------------------------------------------- arguments


class Readers(dict[Any, Reader]):
    """How to take values of a form apart, by their type; made when a type is first met."""

    def __init__(self, form: Form, leaves: tuple[Leaf, ...], depth: int = 0) -> None:
        super().__init__()
        self.form = form
        self.leaves = leaves
        self.depth = depth  # how many lists these values are in
        self.inner = [Readers(x, leaves, depth) for x in _parts(form)]

    @cached_property
    def elements(self) -> Readers:
        """The readers of what is in a list of such values."""
        return Readers(self.form, self.leaves, self.depth + 1)

    def __missing__(self, kind: Any) -> Reader:
        if len(self) >= _MOST:
            self.clear()
        reader = self[kind] = self.made(kind)
        return reader

    def made(self, kind: Any) -> Reader:
        """The reader of values of a type."""
        match self.form:
            case int():
                return _alone
            case Rows() if kind is Ragged:
                return _rows
            case Rows() if kind is list:
                return _listed_rows
            case Tagged() if kind is records.Variants:
                return self.of_variants(self.form)
            case Record() | Tagged() if kind is list:
                return self.listed
            case tuple() if kind is list and all(isinstance(x, int) for x in self.form):
                return self.listed
            case Record(_, fields, _):
                return self.of_fields(fields, kind)
            case tuple() if kind is tuple:
                return self.of_parts(_itself, len(self.form))
            case Tagged():
                return self.of_variant(self.form, kind)
            case _:
                raise UnusualError

    def of_fields(self, fields: tuple[str, ...], kind: Any) -> Reader:
        """Of a struct: its attributes, or its items by name."""
        if issubclass(kind, list | np.ndarray):
            return self.structured if kind is np.ndarray else _unusual
        if issubclass(kind, Mapping | np.void):
            return self.of_parts(_tuple_of(itemgetter, fields), len(fields))
        named = tuple(map(records.attribute, fields))
        return self.of_parts(_tuple_of(attrgetter, named), len(fields))

    def structured(self, x: Any) -> Leaves:
        """The leaves of an array of records: copies of its columns, which lie apart in it."""
        assert isinstance(self.form, Record)
        if x.dtype.names is None or not x.ndim:
            raise UnusualError
        out: list[Any] = []
        for f, inner in zip(self.form.fields, self.inner, strict=True):
            column = np.ascontiguousarray(x[f])
            out += inner[np.ndarray](column)
        return tuple(out)

    def listed(self, x: Any) -> Leaves:
        """The leaves of a list of values: a column of what each has in a leaf."""
        each = self.elements
        rows = [each[type(v)](v) for v in x]
        return tuple([np.array(column) for column in zip(*rows, strict=True)])

    def of_parts(self, parts: Callable[[Any], Leaves], count: int) -> Reader:
        """Of what is taken apart so, and then each part."""
        inner = self.inner
        if all(isinstance(x.form, int) for x in inner):
            if parts is not _itself:
                return parts
            return lambda x: x if len(x) == count else _unusual(x)

        def read(x: Any) -> Leaves:
            out: list[Any] = []
            for r, part in zip(inner, parts(x), strict=True):
                out += r[type(part)](part)
            return tuple(out)

        return read

    def of_variant(self, form: Tagged, kind: Any) -> Reader:
        """Of a value of an enum: its variant's number, and what it keeps; zeros for the rest."""
        if issubclass(kind, list | tuple | np.ndarray | str | Mapping):
            return _unusual
        name = "None" if kind is type(None) else kind.__name__
        number = [variant for variant, _ in form.variants].index(name)  # ValueError: not one of it
        _, fields = form.variants[number]
        get = _tuple_of(attrgetter, tuple(records.attribute(n) for n, _ in fields))
        blanks = [[self.blank(x) for x in _numbers(part)] for part in form.items]
        places = {k: at for at, (_, k) in enumerate(fields)}
        inner = self.inner

        def read(x: Any) -> Leaves:
            kept = get(x)
            out: list[Any] = [number]
            for k in range(1, len(inner)):
                at = places.get(k)
                if at is None:
                    out += blanks[k]
                else:
                    out += inner[k][type(kept[at])](kept[at])
            return tuple(out)

        return read

    def of_variants(self, form: Tagged) -> Reader:
        """Of a table of an enum's values: the variants' numbers, and columns of what they keep."""
        owner = enum_of(form)
        users: list[list[tuple[int, int]]] = [[] for _ in form.items]
        for number, (_, fields) in enumerate(form.variants):
            for at, (_, k) in enumerate(fields):
                users[k].append((number, at))
        inner = self.inner

        def read(x: Any) -> Leaves:
            if x.enum is not owner:
                raise UnusualError
            out: list[Any] = [x.tag]
            for k in range(1, len(inner)):
                if len(users[k]) == 1:
                    ((number, at),) = users[k]
                    part = x.columns(number)[at]
                else:
                    part = kept_in(form, x, k)
                out += inner[k][type(part)](part)
            return tuple(out)

        return read

    def blank(self, number: int) -> Any:
        """A leaf that a variant does not use; an array's size is not known here."""
        leaf = self.leaves[number]
        if len(leaf.shape) > self.depth:
            return BLANK
        if isinstance(leaf.dtype, int) or leaf.dtype.is_float:
            return 0.0
        return False if leaf.dtype is DType.BOOL else 0


def _alone(x: Any) -> Leaves:
    return (x,)


def _itself(x: Any) -> Leaves:
    made: Leaves = x
    return made


def _unusual(x: Any) -> Leaves:
    raise UnusualError


def _rows(x: Any) -> Leaves:
    """Where the rows of a ragged array start, and its values."""
    starts, values = x.offsets, x.values
    if starts[0] != 0 or starts[-1] != len(values) or (starts[1:] < starts[:-1]).any():
        raise UnusualError
    return starts, values


def _listed_rows(x: Any) -> Leaves:
    """The same of a list of arrays."""
    if not all(type(row) is np.ndarray for row in x):
        raise UnusualError
    values = np.concatenate(x)
    return np.cumsum([0, *map(len, x)]), values


def _tuple_of(getter: Callable[..., Any], names: tuple[str, ...]) -> Reader:
    """Several attributes or items at once, as a tuple even of one."""
    if not names:
        return lambda x: ()
    get = getter(*names)
    return get if len(names) > 1 else lambda x: (get(x),)


def _parts(form: Form) -> tuple[Form, ...]:
    match form:
        case Record(_, _, items) | Tagged(_, _, items):
            return items
        case tuple():
            return form
        case int() | Rows() | Opened():
            return ()


def _numbers(form: Form) -> list[int]:
    return [form] if isinstance(form, int) else [k for x in _parts(form) for k in _numbers(x)]


# ---------------------------------------------------------------- results


def _maker(sig: Signature, told: tuple[int, ...]) -> Maker:
    """What puts the leaves that the entry gives, and after them the sizes it tells, together."""
    make = _made_of(sig.result)
    ragged = [k for k, x in enumerate(sig.outputs) if x.rows and len(x.rows[0]) == 2]
    if not ragged:
        return make
    count = len(sig.outputs)

    def made(values: Leaves) -> Any:
        leaves = list(values)
        sizes = tuple(zip(told, values[count:], strict=True))
        for k in ragged:
            leaves[k] = Ragged(leaves[k], _starts(sig.outputs[k].rows[0], sizes))
        return make(tuple(leaves))

    return made


@lru_cache(maxsize=16)
def _starts(rows: tuple[Any, ...], sizes: tuple[tuple[int, int], ...]) -> Any:
    made = starts(rows, dict(sizes))
    made.flags.writeable = False  # several results share it
    return made


def _made_of(form: Form) -> Maker:
    match form:
        case int():
            return itemgetter(form)
        case Record(_, _, items):
            return _applied(struct_of(form), items)
        case Tagged(_, _, items):
            return _of_variants(form, [_made_of(x) for x in items])
        case tuple():
            parts = [_made_of(x) for x in form]
            return lambda values: tuple([make(values) for make in parts])
        case Opened(_, inner):
            return _made_of(inner)
        case Rows():
            return lambda values: with_rows(form, values.__getitem__, values)


def _applied(make: Callable[..., Any], items: tuple[Form, ...]) -> Maker:
    first = items[0] if items else 0
    if isinstance(first, int) and items == tuple(range(first, first + len(items))):
        last = first + len(items)
        return lambda values: make(*values[first:last])
    parts = [_made_of(x) for x in items]
    return lambda values: make(*[part(values) for part in parts])


def _of_variants(form: Tagged, items: list[Maker]) -> Maker:
    owner = enum_of(form)
    kept = [[items[k] for k in slots_of_variant(form, n)] for n in range(len(form.variants))]

    def make(values: Leaves) -> Any:
        tag = items[0](values)
        if isinstance(tag, np.ndarray):
            return records.Variants(
                owner, tag, lambda number: tuple([part(values) for part in kept[number]])
            )
        return records.make(owner, tag, tuple([part(values) for part in kept[tag]]))

    return make
