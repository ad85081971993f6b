"""Whether the cases of a `match` cover everything, and whether each of them is ever reached.

    missing(cases)        a value that none of the cases fits, as patterns; None if there is none
    useful(cases, case)   whether a case fits a value that none of the cases before it fits

After L. Maranget, Warnings for pattern matching (J. Functional Programming 17(3), 2007), section 3
(`useful`) and section 5 (`missing`): rows of patterns, taken apart by their first column.
"""

from __future__ import annotations

from naperian.frontend.patterns import Anything, Either, Exactly, Made, Pattern, Way, ways
from naperian.frontend.walk import Walk
from naperian.source import NOWHERE
from naperian.types import Fin, Index, Type

Row = tuple[Pattern, ...]

ANY = Anything(NOWHERE, None)
_FEW = 64


def useful(w: Walk, rows: list[Row], row: Row, types: tuple[Type, ...]) -> bool:
    """Whether `row` fits values of these types that none of `rows` fits."""
    if not types:
        return not rows
    first, rest = row[0], row[1:]
    found = ways(w, types[0])
    match first:
        case Either(_, left, right):
            # the right side counts only for what the left one leaves
            return useful(w, rows, (left, *rest), types) or useful(
                w, [*rows, (left, *rest)], (right, *rest), types
            )
        case Made(_, number, parts):
            assert found is not None
            inner = (*found[number].types, *types[1:])
            return useful(w, _made(rows, number, found[number]), (*parts, *rest), inner)
        case Exactly(_, value):
            return useful(w, _exactly(rows, value), rest, types[1:])
        case Anything():
            if found is not None and _used(rows) >= set(range(len(found))):
                return any(
                    useful(
                        w, _made(rows, k, way), (*(ANY for _ in way.types), *rest),
                        (*way.types, *types[1:]),
                    )
                    for k, way in enumerate(found)
                )
            return useful(w, _others(rows), rest, types[1:])


def missing(w: Walk, rows: list[Row], types: tuple[Type, ...]) -> Row | None:
    """A row that fits nothing that `rows` fit."""
    if not types:
        return None if rows else ()
    found = ways(w, types[0])
    used = _used(rows)
    if found is not None and used >= set(range(len(found))):
        for k, way in enumerate(found):
            lost = missing(w, _made(rows, k, way), (*way.types, *types[1:]))
            if lost is not None:
                n = len(way.types)
                return (Made(NOWHERE, k, lost[:n]), *lost[n:])
        return None
    numbers = {row[0].value for row in _split(rows) if isinstance(row[0], Exactly)}
    count = _few(w, types[0]) if numbers else None
    if count is not None:
        for k in range(count):
            lost = missing(w, _exactly(rows, k), types[1:])
            if lost is not None:
                return (Exactly(NOWHERE, k), *lost)
        return None
    lost = missing(w, _others(rows), types[1:])
    if lost is None:
        return None
    if found is None or not used:
        return (ANY, *lost)
    k = next(k for k in range(len(found)) if k not in used)
    return (Made(NOWHERE, k, tuple(ANY for _ in found[k].types)), *lost)


def shown(w: Walk, p: Pattern, t: Type) -> str:
    """A pattern as the user would write it."""
    match p:
        case Made(_, number, parts):
            way = (ways(w, t) or [])[number]
            inner = ", ".join(shown(w, x, y) for x, y in zip(parts, way.types, strict=True))
            if not way.label:
                return f"({inner},)" if len(parts) == 1 else f"({inner})"
            return f"{way.label}({inner})" if parts else way.label
        case Exactly(_, value):
            return str(value)
        case Either(_, left, right):
            return f"{shown(w, left, t)} | {shown(w, right, t)}"
        case Anything(_, name):
            return name or "_"


def _few(w: Walk, t: Type) -> int | None:
    """How many numbers an index may be, if they are few enough to be asked for one by one."""
    t = w.solver.head(t)
    own = w.solver.head_set(t.set) if isinstance(t, Index) else None
    count = w.solver.zonk_size(own.size).constant if isinstance(own, Fin) else None
    return count if count is not None and count <= _FEW else None


# ---------------------------------------------------------------- the first column


def _split(rows: list[Row]) -> list[Row]:
    """Rows whose first pattern is an alternative, one for each side."""
    out: list[Row] = []
    for row in rows:
        match row[0]:
            case Either(_, left, right):
                out += _split([(left, *row[1:]), (right, *row[1:])])
            case _:
                out.append(row)
    return out


def _used(rows: list[Row]) -> set[int]:
    """The ways of making a value that the first column mentions."""
    return {row[0].number for row in _split(rows) if isinstance(row[0], Made)}


def _made(rows: list[Row], number: int, way: Way) -> list[Row]:
    """What is left to fit of values made this way: their parts, then the rest."""
    out: list[Row] = []
    for row in _split(rows):
        match row[0]:
            case Made(_, k, parts) if k == number:
                out.append((*parts, *row[1:]))
            case Anything():
                out.append((*(ANY for _ in way.types), *row[1:]))
            case _:
                pass
    return out


def _exactly(rows: list[Row], value: int | float) -> list[Row]:
    """What is left to fit once the first value is this number."""
    return [
        row[1:]
        for row in _split(rows)
        if isinstance(row[0], Anything) or (isinstance(row[0], Exactly) and row[0].value == value)
    ]


def _others(rows: list[Row]) -> list[Row]:
    """What is left to fit of values that the first column does not mention."""
    return [row[1:] for row in _split(rows) if isinstance(row[0], Anything)]
