"""An index that is not in range by type, and what would make it so: the message.

Where only names of the signature stand in the way, the message says what nobody says of them,
`n >= 1`, and that an `assert` or a `where` can.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from naperian.facts import Facts
from naperian.frontend.cells import show
from naperian.frontend.messages import errors, index_errors
from naperian.frontend.messages.report import postfix
from naperian.frontend.scope import Scope, SetName, SizeName, Variable
from naperian.frontend.typed import Typed
from naperian.frontend.unknowns import Because
from naperian.frontend.walk import Walk
from naperian.names import Var
from naperian.sizes import ZERO, Quotient, Remainder, Size, polynomial, rename, variables
from naperian.source import Span
from naperian.type_show import show_set
from naperian.types import (
    BoolSet,
    EnumSet,
    Fin,
    Index,
    Range,
    Set,
    SetVar,
    TupleSet,
    Type,
    UnitSet,
    cardinality,
    numbers,
)


def wrong_set(w: Walk, t: Typed, own: Set, axis: Set, table: str) -> errors.Reported:
    """An index of `own` where one of `axis` is needed, and neither is a number."""
    solver = w.solver
    wanted, found = show_set(solver.zonk_set(axis)), show_set(solver.zonk_set(own))
    reasons = solver.reasons_set(
        t.type.set if isinstance(t.type, Index) else own, axis
    )
    declared = w.scope.find(table)
    if isinstance(declared, Variable):
        reasons += (Because(declared.span, f"`{table}` is `{show(w, declared.type)}`"),)
    notes: tuple[str, ...] = ()
    helps: tuple[str, ...] = ()
    a, b = solver.head_set(axis), solver.head_set(own)
    if isinstance(a, SetVar) and isinstance(b, SetVar):
        notes = (f"`{wanted}` and `{found}` are chosen by the caller and may differ",)
        helps = (f"write `{table}: {found}=>…` if they are meant to be the same",)
        if isinstance(declared, Variable):
            helps = (*_turned(w, declared.type, table, t.span, own), *helps)
    elif isinstance(a, EnumSet | BoolSet | UnitSet | TupleSet) and _from_an_index(w, b):
        helps = (f"say what the range is over where its start is bound: `for i in {wanted}`",)
    return index_errors.wrong_index_set(
        table, wanted, t.span.text, found, t.span, reasons, helps, notes
    )


def _turned(w: Walk, kind: Type, table: str, span: Span, own: Set) -> tuple[str, ...]:
    """`x[j, i]` for `x[i, j]`, where the other axis is the one that the index is of."""
    axes, _ = w.solver.axes(w.solver.zonk(kind))
    text = span.source.text
    start = text.rfind(f"{table}[", 0, span.start)
    read = re.match(rf"{re.escape(table)}\[(\w+), (\w+)\]", text[start:]) if start >= 0 else None
    if read is None or len(axes) != 2 or start + read.end() < span.end:
        return ()
    mine = 0 if start + read.start(1) == span.start else 1
    if read[1] == read[2] or not w.solver.same_set(axes[1 - mine], own):
        return ()
    return (f"`{table}[{read[2]}, {read[1]}]` has them in the order of the axes",)


def _from_an_index(w: Walk, own: Set) -> bool:
    """Whether a set of numbers starts or ends with an index."""
    own, bound = w.solver.zonk_set(own), index_bounds(w, w.scope)
    match own:
        case Fin(n):
            return any(v in bound for v in variables(n))
        case Range(low, high):
            return any(v in bound for v in variables(low + high))
        case _:
            return False


def falls_out(
    w: Walk, scope: Scope, facts: Facts, t: Typed, poly: Size, axis: Set, table: str
) -> errors.Reported:
    """`poly`, which is `t`, is not proved to be an index of `axis`."""
    text = t.span.text
    own = w.solver.zonk_set(axis)
    extent, shown = cardinality(own), show_set(own)
    if poly.constant is not None and poly.constant < 0 and text.lstrip().startswith("-"):
        return index_errors.negative_index(table, text, t.span)
    if poly.constant is not None and extent.constant:
        last = f"the last index is `{extent.constant - 1}`"
        return index_errors.no_such_index(table, poly.constant, shown, last, t.span)
    first = numbers(own)[0]
    place = poly - first
    if poly.constant is not None and place.constant is not None and place.constant < 0:
        known = f"the first index is `{first!r}`"
        return index_errors.no_such_index(table, poly.constant, shown, known, t.span)
    if (extent.constant is None and ((place - extent).constant or -1) >= 0) or place == extent:
        last = f"the last index is `{first + extent - 1!r}`"
        return index_errors.no_such_index(table, f"`{text}`", shown, last, t.span)
    sides = ((place, f">= {first!r}"), (extent - 1 - place, f"< {extent + first!r}"))
    wanted = [x for x, _ in sides if not facts.proves(x)]
    missing = [f"`{text} {side}`" for x, side in sides if x in wanted]
    divisors = [a.below - 1 for a in poly.atoms if isinstance(a, Quotient | Remainder)]
    doubted = [said.text for d, said in w.doubted if not set(d.atoms).isdisjoint(poly.atoms)]
    unsaid = _unsaid(w, scope, [x for x in divisors if not facts.proves(x)] or wanted)
    if not unsaid and all(facts.and_(extent - 1).proves(x) for x in wanted):
        unsaid = _unsaid(w, scope, [extent - 1])  # of `n // 2`, whatever it is
    if unsaid:
        shows = f"nothing says that {' and '.join(f'`{x}`' for x in unsaid)}"
        claim = f"`assert {' and '.join(unsaid)}`"
        helps = [f"{claim} above, or `where {', '.join(unsaid)}` in the signature, says so"]
        if doubted:
            helps = [
                f"`{doubted[-1]}` says so only where it holds, as its numbers may be too large, or "
                "where tests before it say between what numbers each of them lies"
            ]
    elif poly.constant is not None and isinstance(own, SetVar):
        shows = f"`{shown}` can be {'empty' if poly == ZERO else 'shorter'}"
        more = f"where {shown} >= {poly.constant + 1}"
        helps = [f"name the axis in the signature, `{table}: {shown}=>…`, and say `{more}`"]
    elif poly.constant is not None and extent.single in w.opened:
        shows = f"`{shown}` can be {'empty' if poly == ZERO else 'shorter'}"
        helps = [f"`assert size({table}) >= {poly.constant + 1}` above says so"]
    elif data := [w.unnamed[v] for v in dict.fromkeys(variables(poly)) if v in w.unnamed]:
        shows = f"nothing says that {' and '.join(missing)}"
        helps = [index_errors.name_first(text, data[0])]
    else:
        shows = example(w, scope, poly, low_ok=facts.proves(poly))
        if len(missing) == 1 and shows.endswith("anything"):
            shows = f"nothing says that {missing[0]}"
        entry = scope.find(text)
        bound = entry.span if isinstance(entry, Variable) and entry.what == "element" else None
        elements = index_errors.elements_of(bound)
        helps = [x for x in elements if f"`{table}`" in x]
        if extent.single in w.opened and not table.isidentifier():
            helps.append(
                f"each `{table}` that is written has a length of its own; under a name it has one: "
                f"`row = {table}`"
            )
    if poly.constant is None:
        helps.append(
            f"`clamp({text})`, `wrap({text})` or `{table}.get({text}, default)` say what happens "
            f"outside; `{postfix(text)}?` checks at run time; a range of the index, as "
            "`for … in 1..n - 1` has it, or an `if` keeps it inside"
        )
    else:
        helps.append(
            f"`{table}.get({text}, default)` gives a default; `{text}?` checks at run time"
        )
    return index_errors.out_of_range(
        table, text, shown, shows, t.span, _ranges_of(w, scope, poly), tuple(helps)
    )


def at_least_one(w: Walk, step: Size) -> str | None:
    """How a program says that a size is 1 or more: where it is bound, or by a test. A number is
    what it is."""
    if step.constant is not None:
        return None
    if said := _unsaid(w, w.scope, [step - 1]):
        return f"`where {', '.join(said)}`"
    bounds = index_bounds(w, w.scope)
    if isinstance(v := step.single, Var) and v in bounds:
        end = bounds[v][1]
        return f"`for {v.name} in 1..{end!r}` starts there, and `if {v.name} >= 1` asks"
    return f"`if {step!r} >= 1` asks"


def _unsaid(w: Walk, scope: Scope, wanted: list[Size]) -> list[str]:
    """What is `wanted` to be at least 0, as inequalities between names that a caller chooses;
    nothing if there are others in it, or if it never is."""
    names = dict(_chosen(w, scope))
    if any(x.constant is not None and x.constant < 0 for x in wanted):
        return []
    if not all(isinstance(a, Var) and a in names for x in wanted for m, _ in x.terms for a in m):
        return []
    return [_inequality(x, names) for x in wanted]


def _chosen(w: Walk, scope: Scope | None) -> Iterator[tuple[Var, str]]:
    """The integers of the signature and their names."""
    while scope is not None:
        for name, entry in scope.names.items():
            match entry:
                case Variable(what="parameter") | SizeName():
                    yield entry.var, name
                case SetName(own):
                    many = cardinality(w.solver.zonk_set(own)).single
                    if isinstance(many, Var):
                        yield many, name
                case _:
                    pass
        scope = scope.parent


def _inequality(x: Size, names: dict[Var, str]) -> str:
    """`n - k - 1 >= 0` as `k < n`, `n - 2 >= 0` as `n >= 2`."""

    def side(sign: int) -> str:
        terms = [(m, abs(c)) for m, c in x.terms if c * sign > 0 and (m or not strict)]
        return polynomial(terms, lambda a, _: names[a] if isinstance(a, Var) else repr(a))

    strict = x.offset == -1 and any(c < 0 for m, c in x.terms if m)
    return f"{side(-1)} < {side(1)}" if strict else f"{side(1)} >= {side(-1)}"


def _ranges_of(w: Walk, scope: Scope, poly: Size) -> tuple[Because, ...]:
    out = []
    for v in dict.fromkeys(variables(poly)):
        at: Scope | None = scope
        while at is not None:
            for entry in at.names.values():
                if getattr(entry, "var", None) == v and getattr(entry, "what", "") == "index":
                    assert not isinstance(entry, SetName)
                    for var, own in at.ranges():
                        if var == v:
                            ranges = show_set(own)
                            out.append(Because(entry.span, f"`{v.name}` ranges over `{ranges}`"))
            at = at.parent
    return tuple(out)


def example(w: Walk, scope: Scope, poly: Size, *, low_ok: bool) -> str:
    """The extreme index values and what they give."""
    bounds = index_bounds(w, scope)
    value = poly
    where = []
    for v in dict.fromkeys(variables(poly)):
        if v not in bounds:
            continue
        low, high = bounds[v]
        up = (poly.coefficient(v) > 0) == low_ok
        end = high - 1 if up else low
        where.append(f"{v.said} = {end!r}")
        value = rename(value, {v: end})
    value = w.solver.zonk_size(value)
    if not where:
        known = value.constant is not None
        return f"it is {value!r}" if known else f"`{value!r}` could be anything"
    doubt = any(v.said != v.name for v in variables(value))
    too = f", and that may be too {'large' if low_ok else 'small'}" if doubt else ""
    return f"at {', '.join(where)} it is {value!r}{too}"


def index_bounds(w: Walk, scope: Scope) -> dict[Var, tuple[Size, Size]]:
    """Between what the indices that are bound here lie, the end exclusive."""
    out: dict[Var, tuple[Size, Size]] = {}
    at: Scope | None = scope
    while at is not None:
        for var, own in at.ranges():
            match own:
                case Range(low, high):
                    out.setdefault(var, (low, high))
                case Fin() | SetVar() as plain:
                    out.setdefault(var, (ZERO, cardinality(plain)))
                case _:
                    pass
        at = at.parent
    return out
