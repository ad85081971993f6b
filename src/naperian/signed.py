"""The signature of a definition, and of its compiled program."""

from __future__ import annotations

from collections.abc import Mapping

from naperian.class_defaults import Defaults
from naperian.core import syntax as core
from naperian.core.instances import instance_of, show_wanted
from naperian.core.written import written_type
from naperian.dtypes import FLOATS, DType
from naperian.formed import NoDataError, Reader
from naperian.loops import syntax as loops
from naperian.loops.donors import donors
from naperian.names import Var
from naperian.plan import plan
from naperian.signature import (
    Constant,
    Fault,
    Form,
    Given,
    Instance,
    Leaf,
    Named,
    Parameter,
    Signature,
    TypeSlot,
)
from naperian.sizes import ZERO, variables
from naperian.substitution import Substitution, boxed, sets_in
from naperian.type_show import show_type
from naperian.types import F64, Scalar, TypeVar, set_variables

_NONE: Mapping[Var, Defaults] = {}


def size_variables(definition: core.Definition) -> tuple[Var, ...]:
    """The variables that slots stand for, in order."""
    params = [v for p in definition.params for v in boxed(p.type)]
    return (*definition.sets, *definition.sizes, *params, *numbers_in_sizes(definition))


def numbers_in_sizes(definition: core.Definition) -> tuple[Var, ...]:
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
    reader = Reader(numbers, type_numbers, [], True, defaults)
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
            except NoDataError as error:
                raise NoDataError(f"parameter {p.name} is {error}") from None
        inputs = tuple(reader.leaves)
        hidden = (*names, *boxed(definition.result))  # slots that are known after the run
        reader = Reader(
            {v: k for k, v in enumerate(hidden)}, type_numbers, [], False, defaults
        )
        result = reader.form(definition.result, ())
        outputs = tuple(reader.leaves)
    except NoDataError as error:
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
    steps, missing = plan(inputs, len(names), given, scalars)
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
        plan=steps,
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
                f.message.startswith("argument ") and f.message.endswith(core.UNLIKE),
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
            raise NoDataError(f"of types that only an instance of {w.interface} tells")
        if w.types == (TypeVar(p.var),):
            texts.append(show_wanted(w))
            here = {d for d in DType if instance_of(instances, w.interface, (Scalar(d),))}
            if w.interface == "VSpace":
                here = set(FLOATS)
            chosen = here if chosen is None else chosen & here
    if chosen is None:
        return TypeSlot(p.var.name, p.interface, p.precision)
    if not chosen:
        raise NoDataError(f"of a type with {' and '.join(texts)}, which no number is")
    known = tuple(d for d in DType if d in chosen)
    return TypeSlot(p.var.name, p.interface, p.precision, known, ", ".join(texts))
