"""Scalars and whole types that meet: which type they are converted to, what to say if none fits.

Operands of different types are joined: to the smallest type that holds every value of both, from
integers to `Float` where only floats will do, from an index to its ordinal. Literals take the type
of what they meet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from naperian.core import syntax as core
from naperian.core.methods import METHOD_OF
from naperian.dtypes import FLOATS, DType, join
from naperian.frontend.added_up import beside, computed
from naperian.frontend.coded import at_place, place_of, recoded
from naperian.frontend.messages import errors, index_errors, set_errors, size_errors
from naperian.frontend.scalars import ANY_SCALAR, NUMBERS, Dtypes, interface_name
from naperian.frontend.scope import Variable
from naperian.frontend.solve import Mismatch
from naperian.frontend.typed import Typed
from naperian.frontend.unknowns import Because
from naperian.frontend.walk import Walk
from naperian.names import Var
from naperian.sizes import Size, size, variables
from naperian.source import Span
from naperian.substitution import cell_at, mapped, opened, sets_in
from naperian.type_show import show_set, show_type
from naperian.types import (
    BOOL,
    INT,
    SETS,
    UNIT,
    Data,
    Exists,
    Fin,
    Function,
    Index,
    Reverse,
    Scalar,
    Set,
    SetVar,
    Table,
    Tuple,
    Type,
    TypeVar,
    cardinality,
    set_variables,
    table,
)

_NTH = ("first", "second", "third", "fourth")


def show(w: Walk, t: Type) -> str:
    """A type in the user's words; parts that are not known print as `_`."""
    return shown(w, t)()


def shown(w: Walk, t: Type) -> Callable[[], str]:
    """The same, of what is known now, once somebody asks."""
    known = _hide(w, w.solver.zonk(t))
    return lambda: show_type(known)


def _hide(w: Walk, t: Type) -> Type:
    """Unknowns never reach the user: a literal's is its default, others print as `_`."""
    match t:
        case TypeVar(v) if v in w.solver.unknown:
            u = w.solver.unknown[v]
            if u.default is not None:
                return Scalar(u.default)
            if u.dtypes is None:
                return TypeVar(Var("_"))
            return TypeVar(Var("Float" if u.dtypes <= FLOATS else "number"))
        case _:
            return mapped(t, lambda n: n, lambda s: s, lambda x: _hide(w, x))


def converts(
    w: Walk, what: str, wanted: Type, found: Type, arg: Typed, span: Span,
    declared: Because | None = None,
) -> None:
    """`found` must become `wanted` by equality or by widening of its scalars."""
    solver = w.solver
    a_axes, a_cell = solver.axes(wanted)
    f_axes, f_cell = solver.axes(found)
    if isinstance(a_cell, Exists) and len(f_axes) >= len(a_axes) and not (
        isinstance(f_cell, Exists) and len(f_axes) == len(a_axes)
    ):  # it is closed: some sizes of the box are those of the value
        rest = table(f_axes[len(a_axes) :], f_cell)
        wanted, found = table(a_axes, instance(w, a_cell)[0]), table(f_axes[: len(a_axes)], rest)
        converts(w, what, wanted, found, arg, span, declared)
        return
    if (
        isinstance(f_cell, Tuple)
        and isinstance(a_cell, Tuple)
        and not a_axes and not f_axes
        and alike(f_cell, a_cell)
    ):
        parts = () if isinstance(f_cell, Data) else w.parts.get(arg.span, ())
        for k, (x, y) in enumerate(zip(a_cell.items, f_cell.items, strict=True)):
            if parts:
                part = f"{_NTH[k]} part" if k < len(_NTH) else f"part {k + 1}"
                own = Typed(y, arg.build, parts[k])
                converts(w, f"the {part} of {what}", x, y, own, parts[k], declared)
            else:
                converts(w, what, x, y, arg, span, declared)
        if isinstance(a_cell, Data) and isinstance(f_cell, Data):
            _same_extents(w, what, a_cell, f_cell, span)
        return
    if len(a_axes) == len(f_axes):
        other = recoded(w, f_cell, a_cell)
        if other is not None or widens(w, f_cell, a_cell):
            found = table(f_axes, other or a_cell)
        else:
            found = table(f_axes, _widened(w, f_cell, a_cell))
    because = is_so(w, arg)
    try:
        solver.unify(wanted, found, because)
    except Mismatch as m:
        raise clash(w, what, wanted, found, arg.span, m, declared, arg.type) from None


def is_so(w: Walk, arg: Typed) -> Because:
    """That an argument has its type."""
    kind = shown(w, arg.type)
    return Because(arg.span, lambda: f"`{short(arg.span.text)}` is `{kind()}`")


def _widened(w: Walk, found: Type, wanted: Type) -> Type:
    """A type with the scalars that another has in their places, where they become those by
    themselves: in tuples, and in rows of different lengths."""
    found, wanted = w.solver.head(found), w.solver.head(wanted)
    match found, wanted:
        case Table(s, cell, index), Table():
            return Table(s, _widened(w, cell, wanted.cell), index)
        case Tuple(items), Tuple(targets) if len(items) == len(targets) and not isinstance(
            found, Data
        ):
            pairs = zip(items, targets, strict=True)
            return Tuple(tuple(_widened(w, x, y) for x, y in pairs))
        case _:
            return wanted if widens(w, found, wanted) and not isinstance(found, Data) else found


def _same_extents(w: Walk, what: str, wanted: Data, found: Data, span: Span) -> None:
    """The sets and sizes that data is of are the same, also those that no field has."""
    try:
        for x, y in zip(wanted.args, found.args, strict=True):
            if isinstance(x, Size) and isinstance(y, Size):
                w.solver.unify_size(x, y)
            elif isinstance(x, SETS) and isinstance(y, SETS):
                w.solver.unify_set(x, y)
    except Mismatch as m:
        raise clash(w, what, wanted, found, span, m) from None


def alike(a: Tuple, b: Tuple) -> bool:
    """Whether two tuples go together item by item: as long, and of one name if they have one."""
    if isinstance(a, Data) or isinstance(b, Data):
        return isinstance(a, Data) and isinstance(b, Data) and a.layout == b.layout
    return len(a.items) == len(b.items)


def instance(w: Walk, kind: Exists) -> tuple[Type, tuple[Size, ...]]:
    """The type of a box's value at unknown sizes."""
    sizes = tuple(size(w.solver.size(v.name)) for v in kind.vars)
    return opened(kind, sizes), sizes


def equate(w: Walk, what: str, wanted: Type, found: Type, span: Span) -> None:
    """`found` is the type that `what` should have, or an error that says so."""
    try:
        w.solver.unify(wanted, found)
    except Mismatch as m:
        raise clash(w, what, wanted, found, span, m) from None


def short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 40 else text[:37] + "…"


def widens(w: Walk, found: Type, wanted: Type) -> bool:
    """Whether a scalar becomes another by itself (and is not the same already)."""
    found, wanted = w.solver.head(found), w.solver.head(wanted)
    if found is wanted or w.solver.is_unknown(found) or w.solver.is_unknown(wanted):
        return False
    match found, wanted:
        case Scalar(a), Scalar(b):
            return a is not b and join(a, b) is b
        case Index(), Scalar(b):
            return b is DType.I64 or b.is_float
        case Scalar(a), TypeVar(v):
            return w.solver.rigid.get(v) == FLOATS and (a.is_integer or a is DType.F32)
        case Index(), TypeVar(v):
            return w.solver.rigid.get(v) == FLOATS
        case Data(), Data():
            return recoded(w, found, wanted) is not None
        case TypeVar(v), Scalar(DType.F64):
            return w.solver.rigid.get(v) == FLOATS
        case _:
            return False


def join_cells(
    w: Walk, title: str, cells: list[Typed], dtypes: Dtypes, span: Span,
    needs: Iterable[str] = (), op: str = "",
) -> Type:
    """The one scalar type the operands of `op` are converted to, among `dtypes` (an integer becomes
    `Float` when only floats will do); or another type with instances of what is needed."""
    solver = w.solver
    heads = [solver.head(c.type) for c in cells]
    for t in heads:
        if isinstance(t, (Tuple, Index)) and solver.overloads(
            t, needs or (interface_name(dtypes),)
        ):
            for other in cells:
                equate(w, f"an operand of {title}", t, other.type, other.span)
            return t
    known: DType | None = None
    rigid: TypeVar | None = None
    first: Typed | None = None
    open_cells: list[TypeVar] = []
    for c, t in zip(cells, heads, strict=True):
        match t:
            case Scalar(d):
                if d is DType.BOOL and DType.BOOL not in dtypes:
                    raise errors.operand(title.strip("`"), _needs(dtypes), "Bool", c.span)
                if known is not None:
                    wider = join(known, d)
                    if wider is None:
                        assert first is not None
                        raise errors.no_common_type(
                            title.strip("`"), known.surface_name, d.surface_name, span,
                            first.span, c.span,
                        )
                    known = wider
                else:
                    known, first = d, c
            case Index():
                if DType.I64 not in dtypes and not FLOATS & dtypes:
                    raise errors.operand(title.strip("`"), _needs(dtypes), show(w, t), c.span)
                stays_ordinal(w, title, c)
                if known is DType.BOOL:
                    assert first is not None
                    raise errors.no_common_type(
                        title.strip("`"), "Bool", show(w, t), span, first.span, c.span
                    )
                if known is None or (known.is_integer and known is not DType.U64):
                    known, first = DType.I64, c
            case TypeVar(v) if v in solver.unknown:
                open_cells.append(t)
            case TypeVar(v):
                if v in solver.generic and v not in solver.rigid:
                    solver.rigid[v] = dtypes
                if v not in solver.rigid:
                    raise errors.operand(title.strip("`"), _needs(dtypes), show(w, t), c.span,
                        (f"say that it is a number: `where {v.name}: Num`",))
                if rigid is not None and rigid != t:
                    raise errors.no_common_type(
                        title.strip("`"), show(w, rigid), show(w, t), span, cells[0].span, c.span
                    )
                rigid = t
            case _:
                raise errors.operand(
                    title.strip("`"), _needs(dtypes), show(w, t), c.span, _of_struct(w, title, t)
                )
    answer: Type
    if rigid is not None:
        answer = rigid
        is_float = solver.rigid[rigid.var] == FLOATS
        if not solver.rigid[rigid.var] <= dtypes:
            at = next(c for c in cells if solver.head(c.type) == rigid)
            raise errors.operand(title.strip("`"), _needs(dtypes), show(w, rigid), at.span)
        if known is DType.F64 and is_float:
            answer = Scalar(DType.F64)
        elif known is not None and not is_float:
            raise errors.no_common_type(
                title.strip("`"), show(w, rigid), known.surface_name, span, cells[0].span,
                cells[-1].span,
            )
    elif known is not None:
        known, open_cells = beside(w, op, known, open_cells)
        if known not in dtypes and known.is_integer and dtypes == FLOATS:
            answer = w.float
        elif known not in dtypes:
            raise errors.operand(title.strip("`"), _needs(dtypes), known.surface_name,
                                 first.span if first else span)
        else:
            answer = Scalar(known)
            if known.is_integer and any(_floats_only(w, c) for c in open_cells):
                if not FLOATS & dtypes:
                    at = next(c for c in cells if solver.dtypes_of(c.type) == FLOATS)
                    raise errors.operand(title.strip("`"), _needs(dtypes), "Float", at.span)
                answer = w.float
    else:
        if dtypes == FLOATS or any(solver.dtypes_of(t) == FLOATS for t in open_cells):
            open_cells = [t for t in open_cells if not solver.holds(t)]
            if not open_cells:
                made = solver.type("a", FLOATS, DType.F64)
                solver.unknown[made.var].floats = True
                return made
        for k, t in enumerate(open_cells[1:], 1):
            try:
                solver.unify(open_cells[0], t)
            except Mismatch:
                raise errors.no_common_type(
                    title.strip("`"), show(w, open_cells[0]), show(w, t), span,
                    cells[0].span, cells[k].span,
                ) from None
        for t in open_cells:
            _restrict(w, title, t, dtypes, cells[0])
        if isinstance(made_of := solver.head(open_cells[0]), TypeVar):
            computed(w, op, made_of)
        return open_cells[0]
    floats = answer == w.float or (isinstance(answer, Scalar) and answer.dtype in FLOATS)
    for t in open_cells:
        if floats and solver.holds(t):
            continue
        try:
            solver.unify(t, answer)
        except Mismatch:
            raise errors.operand(title.strip("`"), _needs(dtypes), show(w, answer), span) from None
    return answer


def stays_ordinal(w: Walk, title: str, c: Typed) -> None:
    """An index used as a number whose set is found only later must not become a tuple or a Bool."""
    kind = w.solver.head(c.type)
    if not (isinstance(kind, Index) and w.solver.set_is_open(kind.set)):
        return

    def goal() -> None:
        found = w.solver.head(c.type)
        if not isinstance(found, Index):
            raise errors.operand(title.strip("`"), "numbers", show(w, found), c.span)

    w.solver.goals.append(goal)


def _restrict(w: Walk, title: str, t: Type, dtypes: Dtypes, at: Typed) -> None:
    """An unknown scalar is one of these; an integer literal may become a float for it."""
    try:
        w.solver.restrict(t, dtypes)
    except Mismatch:
        raise errors.operand(title.strip("`"), _needs(dtypes), show(w, t), at.span) from None


def _floats_only(w: Walk, t: TypeVar) -> bool:
    return w.solver.dtypes_of(t) == FLOATS


def _of_struct(w: Walk, title: str, t: Type) -> tuple[str, ...]:
    """What makes a struct a number, for an operation that wants one."""
    if not isinstance(t, Data):
        return ()
    of, name = show(w, t), title.strip("`")
    if t.layout.var.name == "Maybe":
        return ("`match` takes the value out: `case Some(v): …`, and `case None: …`",)
    if name == "sum":
        return (
            "`with accum() as s: … s += x` adds up what is made of floats only",
            f"`instance Num({of})` makes it a number",
        )
    interface = next((i for i, m in METHOD_OF.values() if m.strip("()") == name), None)
    first = {"Num": (), "Fractional": ("Num",), "Floating": ("Num", "Fractional")}.get(
        interface or ""
    )
    if first is None:
        return ()
    lines = ", ".join(f"`instance {i}({of})`" for i in (*first, interface))
    return (f"{lines} {'make' if first else 'makes'} it a number, field by field",)


def _needs(dtypes: Dtypes) -> str:
    if dtypes == NUMBERS:
        return "numbers"
    if dtypes == FLOATS:
        return "floating-point numbers"
    if dtypes == frozenset({DType.BOOL}):
        return "Booleans"
    if dtypes == ANY_SCALAR:
        return "scalars"
    if DType.BOOL not in dtypes and FLOATS & dtypes:
        return "numbers"
    return "integers"


def _sets_help(wanted: Set, found: Set, span: Span) -> tuple[str, ...]:
    if isinstance(found, Reverse) and found.set == wanted:
        text = span.text if re.fullmatch(r"\w+", span.text) else "y"
        return (
            f"`{text} as {show_set(wanted)}=>…` has the elements as they were made, the last first",
            f"`[{text}[i] for i in {show_set(wanted)}]` has each in its place",
        )
    if isinstance(wanted, Fin) and isinstance(found, SetVar):
        return (any_set(show_set(found)),)
    return numbers_of((wanted, found))


def numbers_of(sets: Iterable[Set]) -> tuple[str, ...]:
    """That `n` is not `Fin(n)`, where both are met."""
    shown = [show_set(x) for x in sets]
    return tuple(any_set(x) for x in dict.fromkeys(shown) if f"Fin({x})" in shown)[:1]


def any_set(name: str) -> str:
    return f"`{name}` stands for any index set; one of numbers is `Fin({name})`"


def _by_columns(
    w: Walk, what: str, wanted: Type, found: Type, made: Type | None, span: Span
) -> tuple[str, ...]:
    """Where the rows of a matrix do not fit and its columns would."""
    if made is None:
        return ()
    (axes, _), (own, _) = w.solver.axes(w.solver.zonk(made)), w.solver.axes(found)
    fitting, _ = w.solver.axes(w.solver.zonk(wanted))
    if len(axes) != 2 or len(own) != 1 or fitting != axes[:1]:
        return ()
    name = what.rpartition(" of ")[2].strip("`")
    turned = re.fullmatch(r"transpose\((\w+)\)", span.text)
    columns = turned[1] if turned else f"transpose({span.text})"
    before = span.source.text[: span.start]
    if re.search(rf"\btranspose\({re.escape(name)}\([^()]*$", before):  # turned twice is as it was
        whole = f", in place of the `transpose` around this, it is `{name}(…, {columns})`"
    else:
        whole = f" it is `transpose({name}(…, {columns}))`"
    lifted = f"functions lift over the rows, here of a `{show(w, made)}`"
    return (f"{lifted}; over its columns{whole}",)


def clash(
    w: Walk, what: str, wanted: Type, found: Type, span: Span, m: Mismatch,
    declared: Because | None = None, made: Type | None = None,
) -> errors.Reported:
    """The message for two types that should have been equal. `made` is `found` as it was made."""
    solver = w.solver
    if _has_rows(solver.zonk(found)) and not _has_rows(solver.zonk(wanted)):
        return set_errors.equal_rows(what, show(w, found), span)
    reasons = (*m.reasons, *_origin(w, span))
    if declared is not None:
        reasons = (*reasons, declared)
    left, right = m.left, m.right
    if m.hidden:
        kind = show(w, solver.axes(found)[1])
        from_ = tuple(r.label for r in reasons if r.span != span)
        return size_errors.one_for_all_boxes(what, m.variable, m.hidden, kind, span, from_)
    at_run_time = _found_in_the_run(w, what, wanted, found, span, m)
    if at_run_time is not None:
        return at_run_time
    if isinstance(left, Size) and isinstance(right, Size):
        a, b = solver.zonk_size(left), solver.zonk_size(right)
        label = f"this is `{show(w, found)}`"
        message = f"a size of {what} would have to be both {a!r} and {b!r}"
        if m.variable:
            callee = what.rpartition(" of ")[2]
            message = f"{callee} needs its size `{m.variable}` to be both {a!r} and {b!r}"
            label = f"{label}, so `{m.variable}` = {b!r}"
        if made is not None and (source := _source(w, made, b)) is not None:
            name, because = source
            reasons = (*reasons, Because(because.span, f"{because.text}, so `{name}` = {b!r}"))
        return index_errors.size_clash(
            message, span, label, reasons, _by_columns(w, what, wanted, found, made, span),
            _rigid_note(w, a, b),
        )
    if isinstance(left, SETS) and isinstance(right, SETS):
        a_set, b_set = solver.zonk_set(left), solver.zonk_set(right)
        return index_errors.set_clash(
            what, show_set(a_set), show_set(b_set), span, f"this is `{show(w, found)}`", reasons,
            helps=(*_sets_help(a_set, b_set, span), *_of_one_type(w, what, span),
                   *_by_columns(w, what, wanted, found, made, span)),
            notes=_set_note(left, right),
        )
    x, y = solver.head(wanted), solver.head(found)
    if isinstance(left, TypeVar) and isinstance(right, Table | Function | Tuple) and (
        left.var in solver.unknown and solver._occurs(left.var, right)
    ):
        return errors.occurs(short(span.text), span, show(w, right))
    _, a_cell = solver.axes(x)
    _, b_cell = solver.axes(y)
    if (
        len(solver.axes(x)[0]) == len(solver.axes(y)[0])
        and (solver.dtypes_of(a_cell) or frozenset({DType.BOOL})) <= NUMBERS
        and (solver.dtypes_of(b_cell) or frozenset({DType.BOOL})) <= NUMBERS
        and not isinstance(right, Size)
    ):
        return errors.narrowing(
            what, show(w, a_cell), show(w, b_cell), span,
            start=_converted(what, show(w, b_cell), declared), helps=_of_one_type(w, what, span),
        )
    from_ = tuple(r.label for r in reasons if r.span != span)
    helps = _of_one_type(w, what, span)
    if isinstance(x, Tuple) and isinstance(y, Table) and isinstance(b_cell, Tuple):
        helps = (f"a table of tuples `as {show(w, wanted)}` is a tuple of tables",)
    if isinstance(y, Tuple) and isinstance(x, Table) and isinstance(a_cell, Tuple):
        helps = (f"a tuple of tables `as {show(w, wanted)}` is a table of tuples",)
    if isinstance(x, Index) and y == INT:
        helps = (_brought(span.text),)
    if isinstance(a_cell, Index) and b_cell == INT and y != INT:
        helps = (_all_brought(span.text, len(solver.axes(y)[0])),)
    if isinstance(a_cell, Index) and b_cell == INT:
        start = _converted(what, "Int", declared)
        helps = (f"{start} starts with numbers", *helps) if start else helps
    if isinstance(a_cell, Index) and show(w, wanted) == show(w, found):
        # of the signature around, where it indexes nothing
        return errors.no_set(what, show(w, found), show(w, b_cell), span, from_)
    if y == INT and what == "argument `x` of `reverse`":
        helps = (f"`reverse(Fin({short(span.text)}))` has the numbers below it, the last first",)
    if isinstance(b_cell, Exists) and isinstance(a_cell, TypeVar) and a_cell.var in solver.unknown:
        helps = (
            "it was used before its type was known; written in a `def`, the type is: "
            f"`def f(x: {show(w, y)}) = …`",
        )
    if x == UNIT:
        helps = ("a block that is there for its effects ends with one of them, or with `()`",)
    if x == BOOL and isinstance(y, Table) and b_cell == BOOL and "\n" not in span.text:
        told = short(span.text)
        helps = (f"`all({told})` or `any({told})`, of all elements",)
    reduced = re.match(r"(sum|prod|min|max|all|any|mean)\((?!.* for )", span.text)
    more = len(solver.axes(y)[0]) > len(solver.axes(x)[0])
    if more and (asked := w.by_element.get(span)):
        told = short(asked.text)
        helps = (
            f"`{told}` is a table, and chooses for each element; `all({told})` or `any({told})`, "
            "for all of them",
        )
    elif more and reduced:
        name = reduced[1]
        helps = (
            f"`{name}` of a table goes over its last axis; `{name}(x[i, j] for i, j)`, over both",
        )
    notes: tuple[str, ...] = ()
    if (asked_for := show(w, wanted)) == show(w, found):
        one, other = (_precision(w, solver.zonk(t)) for t in (found, wanted))
        if one and other and one != other:
            call = ", the precision of the call" if other == "Float" else ""
            notes = (f"a `Float` in it is `{one}`, and should be `{other}`{call}",)
    return errors.wrong_type(what, asked_for, show(w, found), span, from_, helps, notes)


def _precision(w: Walk, t: Type) -> str | None:
    """What `Float` means in the first struct or enum of a type that has one."""
    match t:
        case Data(_, layout, (Scalar() | TypeVar() as first, *_)) if layout.hidden:
            return show(w, first)
        case Data(items, _, _) | Tuple(items):
            return next((p for x in items if (p := _precision(w, x)) is not None), None)
        case Table(_, cell):
            return _precision(w, cell)
        case _:
            return None


def _source(w: Walk, made: Type, length: Size) -> tuple[str, Because] | None:
    """The variable of a call that gave an axis of its result this size, and why it did."""
    solver = w.solver
    for own in sets_in(made):
        if isinstance(own, SetVar) and own.var in solver.why and own.var in solver.sets:
            if cardinality(solver.zonk_set(own)) == length:
                return own.var.name, solver.why[own.var]
    return None


def _has_rows(t: Type) -> bool:
    """Whether a table has rows of unequal length."""
    while isinstance(t, Table):
        if t.index is not None:
            return True
        t = t.cell
    return False


def _found_in_the_run(
    w: Walk, what: str, wanted: Type, found: Type, span: Span, m: Mismatch
) -> errors.Reported | None:
    """The message if a size that is found at run time is in the way."""
    mine, theirs = (
        [v for v in _variables(w, x) if v in w.opened] for x in (m.right, m.left)
    )
    if not mine and not theirs:
        return None
    size = (mine or theirs)[0]
    if what.startswith("the next "):
        return size_errors.changing_size(size.name, span)
    if mine and theirs:
        other = theirs[0]
        return size_errors.two_sizes(
            other.name, size.name, w.opened[other], w.opened[size], span
        )
    return size_errors.fixed_size(what, show(w, wanted), show(w, found), size.name, span)


def _variables(w: Walk, x: Type | Set | Size) -> tuple[Var, ...]:
    if isinstance(x, Size):
        return tuple(variables(w.solver.zonk_size(x)))
    if isinstance(x, SETS):
        return tuple(set_variables(w.solver.zonk_set(x)))
    return ()


def _origin(w: Walk, span: Span) -> tuple[Because, ...]:
    """Where a name that clashes was bound in this definition."""
    entry = w.scope.find(span.text)
    if isinstance(entry, Variable) and entry.what == "name":
        return (Because(entry.span, f"`{span.text}` is bound here, to a `{show(w, entry.type)}`"),)
    return ()


def _rigid_note(w: Walk, a: Size, b: Size) -> tuple[str, ...]:
    names = [v.name for s in (a, b) for v in (x for x in s.atoms) if isinstance(v, Var)]
    hidden = [n for n in names if n in w.globals.definitions]
    if hidden:
        return (
            f"`{hidden[0]}` in a signature is a size that the caller chooses, not this module's "
            f"`{hidden[0]}`; a constant with a capital letter is a size there",
        )
    if repr(a) == repr(b):  # an inner loop has the same name for its index
        own = ", ".join(f"`{v.name}`" for v in variables(a) if v not in variables(b))
        return (f"they are written alike, but {own} of the one is not {own} of the other",)
    if len(dict.fromkeys(names)) == 2 and a.single is not None and b.single is not None:
        return (f"`{names[0]}` and `{names[1]}` are chosen by the caller and may differ",)
    return ()


def _set_note(a: Set, b: Set) -> tuple[str, ...]:
    if isinstance(a, SetVar) and isinstance(b, SetVar):
        return (f"`{a.var.name}` and `{b.var.name}` are chosen by the caller and may differ",)
    return ()


# ---------------------------------------------------------------- in core


def convert(w: Walk, expr: core.Expr, found: Type, wanted: Type) -> core.Expr:
    """`expr` of type `found` as `wanted`: the widening the solver allowed, under all axes."""
    if found is wanted or found == wanted:
        return expr
    found, wanted = w.solver.zonk(found), w.solver.zonk(wanted)
    if found == wanted:
        return expr
    match found, wanted:
        case Exists(), Exists():
            return expr
        case _, Exists():
            inside, sizes = instance(w, wanted)
            _same_axes(w, inside, found)
            value = convert(w, expr, found, inside)
            return core.Box(wanted, tuple(map(w.solver.zonk_size, sizes)), value)
        case (Scalar() | TypeVar() | Index()), (Scalar() | TypeVar()):
            if isinstance(found, Index) or found != wanted:
                return core.Op("cast", (expr,), wanted)
            return expr
        case Table(s), Table():
            v, i = Var("x"), Var("i")
            cell, target = cell_at(found, size(i)), cell_at(wanted, size(i))
            if cell == target:
                return expr
            inner = convert(w, core.At(core.Ref(v), core.Ref(i), s), cell, target)
            return core.Let(v, expr, core.For(i, s, inner))
        case Data(), Data() if (c := place_of(w, found)) is not None:
            return at_place(c, expr)
        case Data(), Data() if (c := place_of(w, wanted)) is not None and found != wanted:
            return core.Pack((c.number(expr),))
        case Tuple(items), Tuple(targets) if items != targets:
            v = Var("t")
            parts = tuple(
                convert(w, core.Part(core.Ref(v), k), x, y)
                for k, (x, y) in enumerate(zip(items, targets, strict=True))
            )
            return core.Let(v, expr, core.Pack(parts))
        case _:
            return expr


def _same_axes(w: Walk, a: Type, b: Type) -> None:
    """The index sets of two types are equal, whatever their scalars."""
    match w.solver.head(a), w.solver.head(b):
        case Table(s1, c1), Table(s2, c2):
            w.solver.unify_set(s1, s2)
            _same_axes(w, c1, c2)
        case Index(s1), Index(s2):
            w.solver.unify_set(s1, s2)
        case Tuple(xs), Tuple(ys):
            for x, y in zip(xs, ys, strict=True):
                _same_axes(w, x, y)
        case _:
            pass


def _of_one_type(w: Walk, what: str, span: Span) -> tuple[str, ...]:
    """Where a function of a block is used at a second type."""
    called = re.match(r"the argument of `(\w+)`$", what) or re.match(r"(\w+)\(.*\)$", span.text)
    entry = w.scope.find(called[1]) if called else None
    if called is None or not isinstance(entry, Variable) or entry.what != "name":
        return ()
    kind = w.solver.zonk(entry.type)
    if not isinstance(kind, Function):
        return ()
    told = f"`{called[1]}` is a function of this block, which has one type, `{show(w, kind)}`"
    return (f"{told}; as a `def` of its own, outside, it serves any",)


def _converted(what: str, kind: str, start: Because | None) -> str:
    """What a loop carries, begun with what its rounds give: `row = [Int(j) for j in s]`."""
    named = re.match(r"the next (`\w+)` of the loop$", what)
    if named is None or start is None or "\n" in start.span.text:
        return ""
    text = start.span.text
    plain = re.match(r"\[(\w+) for \1\b", text)
    made = f"[{kind}({plain[1]}){text[1 + len(plain[1]):]}" if plain else f"{kind}({text})"
    return f"{named[1]} = {made}`"


def _all_brought(text: str, axes: int) -> str:
    """How numbers become indices, where they are the elements of a table."""
    made = re.fullmatch(r"\[(.+?) for ([^\[\]]+)\]", text)
    if made:
        one = made[1] if re.fullmatch(r"[\w.]+", made[1]) else f"({made[1]})"
        return f"`[{one}? for {made[2]}]` checks in the run that they are indices"
    if axes == 1 and "\n" not in text:
        return f"`[k? for k in {text}]` checks in the run that they are indices"
    return (
        "of numbers: `k?` checks in the run that `k` is an index, `(x[i])?` that an element is "
        "one; `clamp(k)`, `wrap(k)`"
    )


def _brought(text: str) -> str:
    """How a number becomes an index: with its own text, if that is an expression of one value."""
    changed = re.fullmatch(r"(\w+) ([-+*]|//)= (.+)", text)
    if changed:
        name, how, by = changed.groups()
        return f"`{name} := ({name} {how} {by})?` checks in the run that it is one; "\
            "`clamp` and `wrap` bring it there"
    text = short(text)
    if text.startswith("(") or "=" in text or "\n" in text:
        return "`k?` checks in the run that a number `k` is one; `clamp(k)`, `wrap(k)` bring it in"
    if not re.fullmatch(r"[\w.]+", text):
        text = f"({text})"
    return f"`{text}?` checks in the run that it is one; `clamp` and `wrap` bring it there"
