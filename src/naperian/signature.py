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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from naperian.ainf.syntax import OUTSIDE
from naperian.class_defaults import Defaults, Value
from naperian.core import syntax as core
from naperian.core.instances import instance_of, show_wanted
from naperian.core.written import written_type
from naperian.dtypes import FLOATS, DType
from naperian.lines import Line
from naperian.loops import syntax as loops
from naperian.loops.donors import donors
from naperian.names import Var
from naperian.node import node
from naperian.packing import Axis, count, grouped
from naperian.sizes import (
    ONE,
    ZERO,
    Clamp,
    Quotient,
    Remainder,
    Size,
    atom,
    rename,
    size,
    substitute,
    variables,
)
from naperian.substitution import Substitution, boxed, sets_in
from naperian.type_show import show_type
from naperian.types import (
    F64,
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
    set_variables,
    whole,
)


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


_NONE: Mapping[Var, Defaults] = {}

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


def size_variables(definition: core.Definition) -> tuple[Var, ...]:
    """The variables that slots stand for, in order."""
    params = [v for p in definition.params for v in boxed(p.type)]
    return (*definition.sets, *definition.sizes, *params, *_numbers_in_sizes(definition))


def _numbers_in_sizes(definition: core.Definition) -> tuple[Var, ...]:
    """The integer parameters that sizes mention: `k: Int` and `Fin(k)`."""
    types = [*(p.type for p in definition.params), definition.result]
    mentioned = {v for t in types for s in sets_in(t) for v in set_variables(s)}
    mentioned |= {v for fact, _ in definition.facts for v in variables(fact)}
    return tuple(p.var for p in definition.params if p.var in mentioned)


def signature(
    definition: core.Definition, instances: tuple[core.Instance, ...] = (),
    defaults: Mapping[Var, Defaults] = _NONE,
) -> Signature:
    """The signature of a definition; `instances` are all there are, and `defaults` those of the
    fields of data."""
    names = size_variables(definition)
    numbers = {v: k for k, v in enumerate(names)}
    type_numbers = {p.var: k for k, p in enumerate(definition.types)}
    reader = _Reader(numbers, type_numbers, [], True, defaults)
    refusal = ""
    params: list[Parameter] = []
    result: Form = ()
    inputs: tuple[Leaf, ...] = ()
    outputs: tuple[Leaf, ...] = ()
    try:
        types = tuple(_slot(p, definition, instances) for p in definition.types)
        for p in definition.params:
            try:
                form = reader.form(p.type, ())
                params.append(Parameter(p.name, show_type(p.type), form, _default(p.default)))
            except _NoDataError as error:
                raise _NoDataError(f"parameter {p.name} is {error}") from None
        inputs = tuple(reader.leaves)
        hidden = (*names, *boxed(definition.result))  # slots that are known after the run
        reader = _Reader(
            {v: k for k, v in enumerate(hidden)}, type_numbers, [], False, defaults
        )
        result = reader.form(definition.result, ())
        outputs = tuple(reader.leaves)
    except _NoDataError as error:
        refusal = str(error) if definition.params else f"its value is {error}"
        params = [Parameter(p.name, show_type(p.type), (), None) for p in definition.params]
        inputs = outputs = ()
        types = ()
    given = [numbers[v] for v in definition.implicit]
    scalars = [
        Given(p.form, numbers[v])
        for p, v in zip(params, (p.var for p in definition.params), strict=True)
        if v in numbers and isinstance(p.form, int)
    ]
    plan, missing = _plan(inputs, len(names), given, scalars)
    return Signature(
        name=definition.name,
        type=written_type(definition),
        result_type=show_type(_precise(definition).type(definition.result)),
        doc=definition.doc,
        constant=definition.constant,
        params=tuple(params),
        inputs=inputs,
        result=result,
        outputs=outputs,
        types=types,
        slots=tuple(v.name for v in names),
        implicit=(*given, *missing) if not refusal else tuple(given),
        plan=plan,
        facts=tuple((reader.size(s), text) for s, text in definition.facts),
        refusal=refusal,
    )


def instance(
    sig: Signature, dtypes: tuple[DType, ...], program: loops.Program, variables: tuple[Var, ...]
) -> Instance:
    """The signature together with its compiled program; `variables` as `size_variables` gives."""
    numbers = {v: k for k, v in enumerate(variables)}
    places = {b.var: k for k, b in enumerate(program.buffers)}
    made = Instance(
        sig,
        dtypes,
        tuple(numbers[v] for v in program.sizes),
        tuple(
            Fault(
                f.message, f.origin.place, f.message == core.THROWN,
                f.message.endswith(core.TOO_LARGE),
                f.message.startswith("argument ") and f.message.endswith(core.MISSHAPEN),
            )
            for f in program.failures
        ),
        tuple(
            k
            for k, (leaf, b) in enumerate(zip(sig.inputs, program.buffers, strict=False))
            if b.var in program.checked and leaf.low == ZERO
        ),
        program.lines,
        tuple((places[a], places[r] - len(sig.inputs)) for a, r in donors(program)),
    )
    # an axis over tuples is one at the border, and one for each component in the program
    expected = [(made.dtype(leaf), len(leaf.shape) > 0) for leaf in (*sig.inputs, *sig.outputs)]
    actual = [(b.dtype, len(b.shape) > 0) for b in program.buffers]
    assert expected == actual, f"{sig.name}: the border is {expected}, the program {actual}"
    return made


def at(definition: core.Definition, dtypes: tuple[DType, ...]) -> Substitution:
    """The substitution of an instance."""
    chosen = zip(definition.types, dtypes, strict=True)
    return Substitution({p.var: Scalar(d) for p, d in chosen}, {}, {})


class _NoDataError(Exception):
    """A type whose values are not data."""


@dataclass(slots=True)
class _Reader:
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
                raise _NoDataError("a function")
            case Reference():
                raise _NoDataError("a reference")
            case Text():
                raise _NoDataError("a text")
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
            raise _NoDataError(f"a table of `{show_type(box)}`")
        if self.given and len(sets) > 1:
            raise _NoDataError(
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
                raise _NoDataError(
                    f"a table of `{show_type(box)}`, whose parts have one length; rows of tuples "
                    "can be given, as `n=>(exists k. Fin(k)=>(a, b))`"
                )
            case _:
                raise _NoDataError(
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
                raise _NoDataError("an index of a stride")
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
                raise _NoDataError("a table whose rows' lengths have no closed sum")
            shape.append(self.size(n))
            labels.append(_label(run[0].set) if len(run) == 1 else "")
            rows.append(self.lengths(run) if len(run) > 1 else ())
        self.leaves.append(
            Leaf(dtype, tuple(shape), tuple(labels), low, high, members, enum, tuple(rows))
        )
        return len(self.leaves) - 1

    def lengths(self, run: tuple[Axis, ...]) -> tuple[Size, ...]:
        """How many rows there are, and how long one is."""
        places = {a.index: atom(-1 - k) for k, a in enumerate(run) if a.index is not None}
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


def _default(default: core.Expr | None) -> Constant | Named | None:
    match default:
        case None:
            return None
        case core.Const(lit):
            return Constant(lit.value)
        case core.ConstOf(value, _):
            return Constant(value)
        case core.Number(value) if (number := value.constant) is not None:
            return Constant(number)
        case core.Use(name, _):
            return Named(name)
        case _:
            raise AssertionError(f"a default that is {type(default).__name__}")


def _precise(definition: core.Definition) -> Substitution:
    """`Float` for the precision, as the user wrote it."""
    return Substitution({p.var: F64 for p in definition.types if p.precision}, {}, {})


def _slot(
    p: core.TypeParam, definition: core.Definition, instances: tuple[core.Instance, ...]
) -> TypeSlot:
    """The scalars a type variable may be."""
    texts: list[str] = []
    chosen: set[DType] | None = None
    for w in definition.wanted:
        if w.associated or len(w.types) != 1:
            raise _NoDataError(f"of types that only an instance of {w.interface} tells")
        if w.types == (TypeVar(p.var),):
            texts.append(show_wanted(w))
            here = {d for d in DType if instance_of(instances, w.interface, (Scalar(d),))}
            if w.interface == "VSpace":
                here = set(FLOATS)
            chosen = here if chosen is None else chosen & here
    if chosen is None:
        return TypeSlot(p.var.name, p.interface, p.precision)
    if not chosen:
        raise _NoDataError(f"of a type with {' and '.join(texts)}, which no number is")
    known = tuple(d for d in DType if d in chosen)
    return TypeSlot(p.var.name, p.interface, p.precision, known, ", ".join(texts))


def _plan(
    leaves: tuple[Leaf, ...], count: int, given: list[int], scalars: list[Given]
) -> tuple[tuple[Step, ...], list[int]]:
    """How the shapes give the slots, in order, and the slots they do not give.

    Plain axes bind first, in the order of the arguments, then axes that are linear in one slot,
    then any with one unknown slot; what is left must agree."""
    known = {*given, *(step.slot for step in scalars)}
    pending = [(k, a, s) for k, leaf in enumerate(leaves) for a, s in enumerate(leaf.shape)]
    binding: list[Step] = []

    def next_step() -> Bind | Search | None:
        tries = (solve(*item, known) for solve in (_plain, _linear, _single) for item in pending)
        return next((step for step in tries if step is not None), None)

    while (step := next_step()) is not None:
        binding.append(step)
        known.add(step.slot)
        pending = [item for item in pending if item[:2] != (step.leaf, step.axis)]
    equal = (Equal(*item) for item in pending)
    return (*scalars, *binding, *equal), [k for k in range(count) if k not in known]


def _plain(leaf: int, axis: int, s: Size, known: set[int]) -> Bind | None:
    slot = s.single
    if isinstance(slot, int) and slot not in known:
        return Bind(leaf, axis, slot, ONE, ZERO)
    return None


def _linear(leaf: int, axis: int, s: Size, known: set[int]) -> Bind | None:
    unknown = _unknown(s, known)
    if len(unknown) != 1:
        return None
    (slot,) = unknown
    factor, rest = ZERO, ZERO
    for monomial, c in s.terms:
        term = Size(((monomial, c),))
        if slot not in monomial:
            if _unknown(term, known):
                return None
            rest = rest + term
            continue
        others = list(monomial)
        others.remove(slot)
        left = Size(((tuple(others), c),))
        if _unknown(left, known):
            return None
        factor = factor + left
    return Bind(leaf, axis, slot, factor, rest)


def _single(leaf: int, axis: int, s: Size, known: set[int]) -> Search | None:
    unknown = _unknown(s, known)
    return Search(leaf, axis, unknown.pop(), s) if len(unknown) == 1 else None


def _unknown(s: Size, known: set[int]) -> set[int]:
    return {a for a in slots_of(s) if a not in known}


def slots_of(s: Size) -> set[int]:
    """Every slot of a size, also inside quotients and the like."""
    found: set[int] = set()
    for a in s.atoms():
        match a:
            case int():
                found.add(a)
            case Quotient(x, y) | Remainder(x, y) | Clamp(x, y):
                found |= slots_of(x) | slots_of(y)
            case _:
                raise AssertionError(f"the size of an argument mentions {a!r}")
    return found
