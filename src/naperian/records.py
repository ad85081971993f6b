"""What structs and enums with fields are in Python.

    struct Point: x, y          Point(x=1.0, y=2.0)         a frozen dataclass
    enum Hit = Escaped | …      Hit.Escaped, Hit.Found(distance=2.0)
    n=>Point                    Point(x=array, y=array)     ps[3] is a Point
    n=>Hit                      Variants of Hit             hits[3] is a Hit, hits.Found.distance

Classes are made from what a declaration says, defaults of fields included, and equal declarations
make the same class, so that values can be compared, pickled, and passed from one module to
another. A name that is a keyword of Python gets an underscore: `Maybe.None_`.
"""

from __future__ import annotations

import dataclasses
import keyword
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

Fields = tuple[str, ...]
"""The names of the fields, in order."""

Defaults = tuple[Any, ...]
"""What fields are if they are not given: None where they must be. Empty if none has a default."""


class Struct:
    """The values of a struct: its fields are attributes. Indexing a struct of arrays (a table of
    structs) indexes every field."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        return type(self)(*[element(v, index) for v in _values(self)])

    def __len__(self) -> int:
        """How many structs a table has."""
        for value in _values(self):
            return len(value[0] if isinstance(value, tuple) else value)
        raise TypeError(f"a {type(self).__name__} has no length")

    def __bool__(self) -> bool:
        return True  # also an empty table is a value

    def __eq__(self, other: object) -> Any:
        if type(other) is not type(self):
            return NotImplemented
        return all(same(a, b) for a, b in zip(_values(self), _values(other), strict=True))

    def __hash__(self) -> int:
        return hash((type(self), _values(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        own: Any = type(self)
        return _struct, (own.__name__, fields(self), own.__defaults__, _values(self))


class Variant(Struct):
    """A value of an enum with fields: of the subclass of its variant."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        owner: Any = type(self).__mro__[1]
        known = owner.__name__, owner.variants, owner.__defaults__
        return _variant, (*known, type(self).__name__, _values(self))

    def __repr__(self) -> str:
        inner = ", ".join(f"{n}={v!r}" for n, v in zip(fields(self), _values(self), strict=True))
        return f"{type(self).__qualname__}({inner})" if inner else type(self).__qualname__


def fields(value: Any) -> Fields:
    """The names of a value's fields."""
    return tuple(f.name for f in dataclasses.fields(value))


def _values(value: Any) -> tuple[Any, ...]:
    return tuple(getattr(value, n) for n in fields(value))


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal, arrays as wholes."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    return bool(a == b)


def attribute(name: str) -> str:
    """What a field or a variant is called in Python."""
    return f"{name}_" if keyword.iskeyword(name) else name


@cache
def struct(name: str, fields: Fields, defaults: Defaults = ()) -> Any:
    """The class of a struct."""
    return _dataclass(name, fields, defaults, Struct, {"__defaults__": defaults})


@cache
def enum(
    name: str, variants: tuple[tuple[str, Fields], ...], defaults: tuple[Defaults, ...] = ()
) -> Any:
    """The class of an enum with fields. Its variants are attributes: classes, or the only value of
    one without fields."""
    body = {"__slots__": (), "variants": variants, "__defaults__": defaults, "__new__": _abstract}
    owner: Any = type(name, (Variant,), body)
    owner.__doc__ = " | ".join(f"{n}({', '.join(f)})" if f else n for n, f in variants)
    for k, (variant, fields) in enumerate(variants):
        own = defaults[k] if defaults else ()
        made = _dataclass(variant, fields, own, owner, {"__new__": _plain})
        made.__qualname__ = f"{name}.{attribute(variant)}"
        setattr(owner, attribute(variant), made if fields else made())
    return owner


def _abstract(cls: Any, *_: Any, **__: Any) -> Any:
    choices = ", ".join(f"{cls.__name__}.{n}" for n, _ in cls.variants)
    raise TypeError(f"a {cls.__name__} is one of {choices}")


def _plain(cls: Any, *_: Any, **__: Any) -> Any:
    return object.__new__(cls)


def _dataclass(
    name: str, fields: Fields, defaults: Defaults, base: Any, body: dict[str, Any]
) -> Any:
    first = len(fields)  # of those with a default behind which are only such: Python's rule
    while first and defaults and defaults[first - 1] is not None:
        first -= 1
    typed: list[Any] = [
        (attribute(f), Any, *([dataclasses.field(default=defaults[k])] if k >= first else []))
        for k, f in enumerate(fields)
    ]
    return dataclasses.make_dataclass(
        name, typed, bases=(base,), namespace={"__module__": "naperian", **body}, frozen=True,
        eq=False, repr=base is Struct, slots=True,
    )


def make(owner: Any, number: int, values: tuple[Any, ...]) -> Any:
    """The value of a variant by number."""
    name, fields = owner.variants[number]
    made = getattr(owner, attribute(name))
    return made(*values) if fields else made


def _struct(name: str, fields: Fields, defaults: Defaults, values: tuple[Any, ...]) -> Any:
    return struct(name, fields, defaults)(*values)


def _variant(
    name: str, variants: tuple[tuple[str, Fields], ...], defaults: tuple[Defaults, ...],
    variant: str, values: tuple[Any, ...],
) -> Any:
    made = getattr(enum(name, variants, defaults), attribute(variant))
    return made(*values) if values else made


class Variants:
    """A table of an enum's values. `tag` is the array of their variants' numbers; `hits.Found` has
    the fields of a variant as arrays (anything where the tag says otherwise). Indexing gives a
    value, or a smaller table."""

    def __init__(
        self, owner: Any, tag: Any, columns: Callable[[int], tuple[Any, ...]]
    ) -> None:
        self.enum = owner
        self.tag = np.asarray(tag)
        self.columns = columns

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tag.shape

    def __len__(self) -> int:
        return len(self.tag)

    def __getitem__(self, index: Any) -> Any:
        tag = self.tag[index]

        def columns(number: int) -> tuple[Any, ...]:
            return tuple(element(v, index) for v in self.columns(number))

        if np.ndim(tag):
            return Variants(self.enum, tag, columns)
        return make(self.enum, int(tag), columns(int(tag)))

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __getattr__(self, name: str) -> Any:
        for number, (variant, _) in enumerate(self.__dict__["enum"].variants):
            if attribute(variant) == name:
                return make(self.enum, number, self.columns(number))
        raise AttributeError(f"{self.enum.__name__} has no variant {name!r}")

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, Variants):
            return NotImplemented
        return (
            self.enum is other.enum
            and self.shape == other.shape
            and all(self[k] == other[k] for k in np.ndindex(self.shape))
        )

    __hash__ = None  # type: ignore[assignment]

    def tolist(self) -> Any:
        """Nested lists of values."""
        return [x.tolist() if isinstance(x, Variants) else x for x in self]

    def __reduce__(self) -> tuple[Any, ...]:
        columns = tuple(self.columns(k) for k in range(len(self.enum.variants)))
        known = self.enum.__name__, self.enum.variants, self.enum.__defaults__
        return _variants, (*known, self.tag, columns)

    def __repr__(self) -> str:
        inner = ", ".join(repr(x) for x in self) if len(self) <= 20 else f"{len(self)} values"
        return f"[{inner}]"


def _variants(
    name: str, variants: Any, defaults: Any, tag: Any, columns: tuple[tuple[Any, ...], ...]
) -> Variants:
    return Variants(enum(name, variants, defaults), tag, columns.__getitem__)


def element(value: Any, index: Any) -> Any:
    """An element of an array, or of every array in a tuple of them."""
    if isinstance(value, tuple):
        return tuple(element(v, index) for v in value)
    return _scalar(value[index])


def _scalar(value: Any) -> Any:
    """A number of Python's, but for one of single precision, as where it is a result by itself."""
    is_numpys = isinstance(value, np.generic) and not isinstance(value, np.float32)
    return value.item() if is_numpys else value
