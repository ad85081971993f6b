"""Names for what a signature leaves open.

    def outer(x, y) = [x[i] * y[j] for i, j]    (n=>a, m=>a) -> n=>m=>a where a: Num

An unknown is called what its maker had at hand, and two may be called the same. In a signature each
has a name of its own: types letters from `a`, index sets and sizes what the program suggests.

    x[rows[i]..rows[i + 1]]        Fin(rows[i + 1] - rows[i])=>Float

A number that the text does not name is called, in messages, what it is computed from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain, count

from naperian.dtypes import FLOATS
from naperian.frontend.messages.report import ANOTHER
from naperian.frontend.solve import Solver
from naperian.frontend.walk import Walk
from naperian.names import Var
from naperian.sizes import size
from naperian.source import Span
from naperian.types import Type

_TYPES, _SETS, _SIZES = "abcdefgh", "nmpqrsuv", "kjlwxyz"


def name_unknowns(solver: Solver, params: Iterable[Type], taken: Collection[str]) -> None:
    """Leave the unknowns of the parameters to the caller, each under a name that no other has and
    that is not taken."""
    used = set(taken)
    for t in params:
        for v in _new(solver, solver.unknown_types(t)):
            u = solver.unknown[v]
            if v.name == "Float" and u.dtypes == FLOATS:  # the precision of the call
                solver.chosen.add(v)
                continue
            made = solver.type(_free(_TYPES, used), u.dtypes, u.default)
            solver.unknown[made.var] = u  # and what is asked of it
            solver.types[v] = made
            solver.chosen.add(made.var)
        for v in _new(solver, solver.unknown_extents(t)):
            solver.chosen.add(_extent(solver, v, used))


def stands_for(w: Walk, name: str, span: Span) -> Var:
    """A name for the number that is computed at this place. One that is computed again from the
    same text is another, and has a mark."""
    text = " ".join(span.text.split())
    places = w.quoted.setdefault(text, [])
    if span not in places:
        places.append(span)
    return Var(name, said=text + ANOTHER * places.index(span))


def _new(solver: Solver, found: Iterable[Var]) -> list[Var]:
    """The unknowns in the order of the text, each once, but for those that have their name."""
    return [v for v in dict.fromkeys(found) if v not in solver.chosen]


def _extent(solver: Solver, v: Var, taken: set[str]) -> Var:
    is_set = v in solver.unknown_sets
    name = _free([v.name, *(_SETS if is_set else _SIZES)], taken)
    if is_set:
        made = solver.set(name)
        solver.sets[v] = made
        return made.var
    made_size = solver.size(name)
    solver.sizes[v] = size(made_size)
    return made_size


def _free(names: Iterable[str], taken: set[str]) -> str:
    """The first name that is not taken; it is from now on."""
    name = next(n for n in chain(names, _numbered()) if n not in taken)
    taken.add(name)
    return name


def _numbered() -> Iterator[str]:
    return (f"t{k}" for k in count(1))
