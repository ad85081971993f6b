"""Instances of `Ix`: types that are index sets.

    struct Cell(h, w):              Cell(h, w) is the set (h, w) whose elements are written
        row: h                      Cell(i, j): a table over it is stored as one over (h, w)
        col: w

    instance Ix(Cell)

The instance has no body: it is derived from the fields, each of which must be an element of an
index set.
"""

from __future__ import annotations

from collections.abc import Mapping

from naperian.frontend import errors, set_errors
from naperian.frontend.annotations import as_set
from naperian.frontend.report import Reported
from naperian.frontend.walk import Walk
from naperian.source import Diagnostic, Span
from naperian.surface import syntax as s


def index_sets(
    found: list[s.Instance], structures: Mapping[str, s.Struct | s.Enum], wrong: list[Diagnostic]
) -> dict[str, Span]:
    """The structs that are index sets, and where that is said."""
    out: dict[str, Span] = {}
    for d in found:
        try:
            name = _subject(d, structures)
            if name in out:
                raise errors.duplicate(f"Ix({name})", d.span, out[name])
            out[name] = d.span
        except Reported as r:
            wrong.append(r.diagnostic)
    return out


def _subject(d: s.Instance, structures: Mapping[str, s.Struct | s.Enum]) -> str:
    """The name of the struct in the head."""
    (t, *more) = d.types
    head = t.function if isinstance(t, s.Call) else t
    text = ", ".join(x.span.text for x in d.types)
    declared = structures.get(head.name) if isinstance(head, s.Name) else None
    if more or declared is None:
        raise set_errors.no_instance_of_ix(text, d.span, "it is no struct of this module")
    if isinstance(declared, s.Enum):
        raise set_errors.no_instance_of_ix(text, d.span, "it is an enum with fields")
    if d.members is not None:
        raise errors.not_yet("an instance of `Ix` with a body", d.span)
    return declared.name


def check_fields(w: Walk, name: str, fields: tuple[s.Param, ...], said: Span) -> None:
    """Every field of an index set is an element of one."""
    for p in fields:
        assert p.type is not None
        if as_set(w, p.type) is None:
            raise set_errors.no_set_in_field(name, p.name, p.type.span, said)
