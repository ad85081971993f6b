"""`@node`: a slotted dataclass that is made quickly, and that nothing changes afterwards. A
`@mutable` one may be changed.

The languages have some two hundred node classes, and `dataclasses.dataclass` takes half a
millisecond for each: more than everything else an import does. This decorator generates only
`__init__`; equality, hash and repr are shared functions over the fields. The result is a dataclass
to `dataclasses.replace`, `dataclasses.fields`, `match` and type checkers, a frozen one to these:
they refuse every assignment. At run time nothing does, for that doubles the time of making a node.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from functools import cache, wraps
from operator import attrgetter
from types import CodeType, FunctionType
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")

_FIELD: Any = dataclasses.fields(dataclasses.make_dataclass("_", ["x"]))[0]._field_type  # type: ignore[attr-defined]
_REQUIRED = dataclasses.MISSING


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def node(cls: type[T]) -> type[T]:
    """The class with its annotations as fields, in order. A default may be a value or a
    `dataclasses.field`; fields are not inherited."""
    return _made(cls, ("_hash",))


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def keeper(cls: type[T]) -> type[T]:
    """A node that keeps the answers to what is asked of it (see `kept`)."""
    return _made(cls, ("_kept", "_hash"))


@dataclass_transform(field_specifiers=(dataclasses.field,))
def mutable(cls: type[T]) -> type[T]:
    """What `dataclass(slots=True)` makes, as quickly as a node: its fields may change, so that it
    is no key of tables."""
    return _made(cls, ())


def _made(cls: type[T], own: tuple[str, ...]) -> type[T]:
    """The class, with slots of its own besides the fields."""
    names = tuple(inspect.get_annotations(cls))
    fields = {name: _field(cls, name) for name in names}
    hidden = {*names, "__dict__", "__weakref__"}
    body = {k: v for k, v in cls.__dict__.items() if k not in hidden}
    compared = _values([n for n in names if fields[n].compare])
    defaults: dict[str, Any] = {
        "__init__": _init(names, fields, own),
        "__eq__": _equality(compared),
        "__hash__": None,
        "__repr__": _repr,
    }
    if "_hash" in own:
        defaults |= {"__hash__": _hashing(compared), "__reduce__": _reduce}
    for name, function in defaults.items():
        body.setdefault(name, function)
    body["__slots__"] = (*names, *own)
    body |= {"__match_args__": names, "__dataclass_fields__": fields}
    made: Any = type(cls.__name__, cls.__bases__, body)
    made.__qualname__ = cls.__qualname__
    return made  # type: ignore[no-any-return]


R = TypeVar("R")


def kept(function: Callable[[T], R]) -> Callable[[T], R]:
    """A function of one `keeper`, which keeps the answer as long as it lives: every pass asks the
    same of what no pass changed."""

    @wraps(function)
    def ask(x: Any) -> R:
        known = x._kept
        if known is None:
            known = x._kept = {}
        elif function in known:  # an exception, where it is not, takes ten times as long
            return known[function]  # type: ignore[no-any-return]
        found = known[function] = function(x)
        return found

    return _own(ask)


def _own(function: Callable[..., R]) -> Callable[..., R]:
    """The function with code of its own: the interpreter remembers in the code where it found a
    slot, so that one code for all classes would forget it at every turn."""
    made: Any = function
    made.__code__ = made.__code__.replace()
    return function


def replace(x: T, /, **changes: Any) -> T:
    """The node with other values in some fields: what `dataclasses.replace` does, in a third of
    its time."""
    cls: Any = x.__class__
    values, places = _fields_of(cls)
    new = [*values(x)]
    for name, value in changes.items():
        if name not in places:
            raise TypeError(f"{cls.__name__} has no {name}")
        new[places[name]] = value
    return cls(*new)  # type: ignore[no-any-return]


@cache
def _fields_of(cls: Any) -> tuple[Callable[[Any], tuple[Any, ...]], dict[str, int]]:
    """How to get the values of all fields at once, and which is where."""
    names = cls.__match_args__
    places = {name: k for k, name in enumerate(names)}
    if len(names) > 1:
        return attrgetter(*names), places
    return lambda x: tuple([getattr(x, n) for n in names]), places


def _field(cls: type, name: str) -> Any:
    given = cls.__dict__.get(name, _REQUIRED)
    if not isinstance(given, dataclasses.Field):
        given = dataclasses.field() if given is _REQUIRED else dataclasses.field(default=given)
    made: Any = given
    made.name, made.type, made._field_type = name, cls.__annotations__[name], _FIELD
    return made


def _init(
    names: tuple[str, ...], fields: dict[str, Any], own: tuple[str, ...]
) -> Callable[..., None]:
    """`__init__`, which takes the fields and sets them, and to None what a node has of its own.
    Python's compiler writes one for every shape; the others have its code with their own names,
    which takes a tenth of the time."""
    taken = [n for n in names if fields[n].init]
    factories = {k: fields[n].default_factory for k, n in enumerate(taken)}
    made = {k: f for k, f in factories.items() if f is not _REQUIRED}
    code = _setting(len(taken), tuple(made), own)
    real = dict(zip((f"x{k}" for k in range(len(taken))), taken, strict=True))
    called = [real.get(n, n) for n in code.co_varnames]
    stored = [real.get(n, n) for n in code.co_names]
    scope = {"default": _REQUIRED} | {f"make{k}": f for k, f in made.items()} if made else {}
    code = code.replace(co_varnames=tuple(called), co_names=tuple(stored))
    given = [fields[n].default for n in taken]  # none for what a factory makes, too
    defaults = [d for k, d in enumerate(given) if d is not _REQUIRED or k in made]
    return FunctionType(code, scope, "__init__", tuple(defaults))


@cache
def _setting(count: int, made: tuple[int, ...], own: tuple[str, ...]) -> CodeType:
    """The code of an `__init__` with so many fields, of which factories make some."""
    params = "".join(f", x{k}" for k in range(count))
    values = [f"make{k}() if x{k} is default else x{k}" if k in made else f"x{k}"
              for k in range(count)]  # fmt: skip
    lines = [f" self.x{k} = {value}" for k, value in enumerate(values)]
    if own:
        lines.append(f" {''.join(f'self.{slot} = ' for slot in own)}None")
    scope: dict[str, Any] = {}
    exec(f"def __init__(self{params}):\n" + ("\n".join(lines) or " pass"), scope)
    code: CodeType = scope["__init__"].__code__
    return code


def _values(names: list[str]) -> Callable[[Any], Any]:
    """The compared fields, as something that is equal and hashes as they do."""
    if not names:
        return lambda self: ()
    return attrgetter(*names)


def _equality(values: Callable[[Any], Any]) -> Callable[..., Any]:
    def __eq__(self: Any, other: object) -> Any:
        if self is other:
            return True
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return _own(__eq__)


def _hashing(values: Callable[[Any], Any]) -> Callable[[Any], int]:
    """The hash, computed once: a node may be the key of many tables, and a large tree."""

    def __hash__(self: Any) -> int:
        found = self._hash
        if found is None:
            found = self._hash = hash((self.__class__, values(self)))
        return found  # type: ignore[no-any-return]

    return _own(__hash__)


def _repr(self: Any) -> str:
    shown = (f"{n}={getattr(self, n)!r}" for n, f in self.__dataclass_fields__.items() if f.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _reduce(self: Any) -> tuple[Any, ...]:
    return self.__class__, tuple(getattr(self, n) for n in self.__match_args__)
