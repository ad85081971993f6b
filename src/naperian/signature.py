"""What a definition looks like from Python, as data that can be kept on disk.

    signature ::= (parameter…) -> form, leaves, slots, plan
    form      ::= leaf number | (form, …)             a buffer, or a tuple of forms
                | Record(name, form, …)               a struct: a form for each field
                | Tagged(name, variants, form, …)     an enum: its tag, and what holds the fields
                | Opened((slot, leaf), … form)        a value with sizes known after the run
                | Rows(slot, leaf, form)              a ragged array
    leaf      ::= dtype[size, …], bounds              one buffer: an array or a scalar
    plan      ::= Given | Bind | Search | Equal       how arguments give the size variables

A *slot* is a size variable, or an integer parameter that sizes mention, by number; sizes here are
polynomials whose atoms are slots. A parameter that is a tuple, or a table of tuples, is several
leaves: a table of tuples is a tuple of tables. A leaf's dtype is known, or it is a *type slot* that
each call fills.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from naperian.ainf.syntax import OUTSIDE
from naperian.class_defaults import Defaults, Value
from naperian.dtypes import DType
from naperian.lines import Line
from naperian.node import node
from naperian.sizes import Clamp, Quotient, Remainder, Size


@node
class Record:
    """A struct, by its name and those of its fields, with the defaults of these."""

    name: str
    fields: tuple[str, ...]
    items: tuple[Form, ...]
    defaults: tuple[Value | None, ...] = ()


@node
class Tagged:
    """An enum: each variant with its fields and which item keeps them. Item 0 is the tag."""

    name: str
    variants: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    items: tuple[Form, ...]
    defaults: Defaults = ()


@node
class Opened:
    """A box: its sizes, each a slot that a scalar result gives, and its value."""

    sizes: tuple[tuple[int, int], ...]
    value: Form


@node
class Rows:
    """A table of boxes: what the rows hold, one after the other, and the leaf that says where each
    starts (of a parameter) or how long each is (of a result). `slot` is the length of all
    together, `axes` how many axes the table has."""

    slot: int
    rows: int
    values: Form
    axes: int = 1

Form: TypeAlias = "int | tuple[Form, ...] | Record | Tagged | Opened | Rows"


@node
class Leaf:
    """One buffer. Elements of an index type lie in low … high-1. `labels` names the axes that are
    an enum or `Bool`, `members` the enum an element is of.

    An axis that holds the rows of a dependent table one after the other has `rows`: the number of
    rows, and the length of one, in which -1 stands for its index (a table of more dimensions has
    more of them: -2 stands for the second index, …). Other axes have none."""

    dtype: DType | int
    shape: tuple[Size, ...]
    labels: tuple[str, ...]
    low: Size | None = None
    high: Size | None = None
    members: tuple[str, ...] = ()
    enum: str = ""
    rows: tuple[tuple[Size, ...], ...] = ()


@node
class Constant:
    """A default that is written out."""

    value: bool | int | float


@node
class Named:
    """A default that is the value of a parameterless definition."""

    name: str


@node
class Parameter:
    name: str
    type: str
    form: Form
    default: Constant | Named | None = None


@node
class TypeSlot:
    """A scalar type that each call chooses. `precision` is what `Float` stands for. `instances` are
    the types that have the instances it needs, `wanted` their text, if it needs any."""

    name: str
    interface: str | None
    precision: bool
    instances: tuple[DType, ...] | None = None
    wanted: str = ""


@node
class Given:
    """slot = the value of a scalar argument."""

    leaf: int
    slot: int


@node
class Bind:
    """slot = (axis - rest) / factor, which must be a whole number >= 0."""

    leaf: int
    axis: int
    slot: int
    factor: Size
    rest: Size


@node
class Search:
    """The smallest slot >= 0 for which `size`, which grows with it, is the axis."""

    leaf: int
    axis: int
    slot: int
    size: Size


@node
class Equal:
    """The axis is `size` (0 if that is negative: an empty range)."""

    leaf: int
    axis: int
    size: Size


Step: TypeAlias = Given | Bind | Search | Equal


@node
class Signature:
    """`implicit` are the slots that no shape fixes: given by keyword. `facts` are sizes that must
    not be negative, with their text. `refusal` says why Python cannot call this, if it cannot."""

    name: str
    type: str
    result_type: str
    doc: str | None
    constant: bool
    params: tuple[Parameter, ...]
    inputs: tuple[Leaf, ...]
    result: Form
    outputs: tuple[Leaf, ...]
    types: tuple[TypeSlot, ...]
    slots: tuple[str, ...]
    implicit: tuple[int, ...]
    plan: tuple[Step, ...]
    facts: tuple[tuple[Size, str], ...]
    refusal: str = ""

    def late(self, leaf: Leaf) -> bool:
        """Whether a result's shape is known only after the run."""
        return any(k >= len(self.slots) for n in leaf.shape for k in slots_of(n))


def late_sizes(form: Form) -> Iterator[tuple[int, int]]:
    """The sizes that a run finds: each slot, and the leaf that says it (of a table of boxes, one
    for each row)."""
    match form:
        case Opened(slots, value):
            yield from slots
            yield from late_sizes(value)
        case Rows(slot, rows, values):
            yield slot, rows
            yield from late_sizes(values)
        case Record(_, _, items) | Tagged(_, _, items):
            yield from late_sizes(items)
        case tuple():
            for x in form:
                yield from late_sizes(x)
        case int():
            pass


def slots_of(s: Size) -> set[int]:
    """Every slot of a size, also inside quotients and the like."""
    found: set[int] = set()
    for a in s.atoms:
        match a:
            case int():
                found.add(a)
            case Quotient(x, y) | Remainder(x, y) | Clamp(x, y):
                found |= slots_of(x) | slots_of(y)
            case _:
                raise AssertionError(f"the size of an argument mentions {a!r}")
    return found


@node
class Fault:
    """A way in which a run can fail: a message with `{value}` and `{size}`, and its place.
    `thrown`, by a `throw()`; at a size that is `too_large`; for the sizes of an `argument`."""

    message: str
    place: str
    thrown: bool = False
    too_large: bool = False
    argument: bool = False


@node
class Instance:
    """A signature at dtypes for its type slots, compiled: `order` are the slots the kernel takes,
    `faults` what its failure codes, from 1, mean; `checked` are the inputs whose elements the
    kernel checks itself (failure OUTSIDE) if their set has any; `lines` are what it prints;
    `donors` are inputs with the outputs that may be written over them."""

    signature: Signature
    dtypes: tuple[DType, ...]
    order: tuple[int, ...]
    faults: tuple[Fault, ...]
    checked: tuple[int, ...] = ()
    lines: tuple[Line, ...] = ()
    donors: tuple[tuple[int, int], ...] = ()

    def dtype(self, leaf: Leaf) -> DType:
        return self.dtypes[leaf.dtype] if isinstance(leaf.dtype, int) else leaf.dtype

    def found_outside(self, code: int) -> bool:
        """Whether a kernel's answer is that an element of a `checked` input is not in its set."""
        return code == OUTSIDE
