"""Frames of arguments lined up by index set, and what to say where they do not."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

from naperian.core import syntax as core
from naperian.frontend.cells import numbers_of, show
from naperian.frontend.messages import errors, lift_errors, size_errors
from naperian.frontend.messages.report import postfix
from naperian.frontend.solve import Mismatch
from naperian.frontend.typed import Typed
from naperian.frontend.unknowns import Because
from naperian.frontend.walk import Walk
from naperian.names import Var
from naperian.node import mutable
from naperian.sizes import ONE
from naperian.source import Span
from naperian.type_show import show_set
from naperian.types import (
    Fin,
    Set,
    Type,
    set_variables,
)

MakeCall = Callable[[list[core.Expr]], core.Expr]


@mutable
class Callee:
    """Something to apply: parameter types, result type and the core of a call on cells.

    `scalars` is set for primitives: from the cells' types it decides what each operand is
    converted to and the result's type. `title` is how messages call it.
    """

    title: str
    params: tuple[Type, ...]
    result: Type
    call: MakeCall
    scalars: Callable[[Walk, list[Typed], Span], tuple[list[Type], Type]] | None = None
    names: tuple[str, ...] = ()
    declared: tuple[Because | None, ...] = ()
    signature: str = ""
    text: Callable[[list[str]], str] | None = None
    lifts_functions: bool = False  # the first argument is a table of functions


def align(
    w: Walk, callee: Callee, args: list[Typed], frames: list[list[Set]], span: Span, force: bool
) -> tuple[list[Set], list[tuple[int, ...]]] | None:
    """The common frame and every frame's places in it; None if that hangs on unknowns."""
    if not any(frames):
        return [], [()] * len(frames)
    solver = w.solver
    common = max(frames, key=len, default=[])
    places: list[tuple[int, ...]] = []
    for k, frame in enumerate(frames):
        if len(frame) == len(common):
            for a, b in zip(frame, common, strict=True):
                same = solver.same_set(a, b)
                if same is None:
                    try:
                        solver.unify_set(a, b, because_of(w, args[k], a))
                    except Mismatch:
                        same = False
                if same is False:
                    raise _no_frame(w, callee, args, frames, span, k)
            places.append(tuple(range(len(common))))
            continue
        ways, open_ways = [], False
        for chosen in combinations(range(len(common)), len(frame)):
            verdicts = [solver.same_set(a, common[c]) for a, c in zip(frame, chosen, strict=True)]
            if all(v is not False for v in verdicts):
                ways.append(chosen)
                open_ways = open_ways or None in verdicts
        if not ways:
            raise _no_frame(w, callee, args, frames, span, k)
        if open_ways and not force and len(ways) > 1:
            return None
        if len(ways) > 1:
            raise _ambiguous(w, callee, args, frames, common, ways, span, k)
        try:
            for a, c in zip(frame, ways[0], strict=True):
                solver.unify_set(a, common[c], because_of(w, args[k], a))
        except Mismatch:
            raise _no_frame(w, callee, args, frames, span, k) from None
        places.append(ways[0])
    return common, places


def because_of(w: Walk, arg: Typed, axis: Set) -> Because:
    known = w.solver.zonk_set(axis)
    return Because(arg.span, lambda: f"`{arg.span.text}` has an axis `{show_set(known)}`")


def frame_labels(
    w: Walk, args: list[Typed], frames: list[list[Set]]
) -> tuple[tuple[Span, str, str], ...]:
    return tuple(
        (a.span, show(w, a.type), show_frame(w, f)) for a, f in zip(args, frames, strict=True) if f
    )


def show_frame(w: Walk, frame: list[Set]) -> str:
    return "[" + ", ".join(show_set(w.solver.zonk_set(x)) for x in frame) + "]"


def _no_frame(
    w: Walk, callee: Callee, args: list[Typed], frames: list[list[Set]], span: Span, k: int
) -> errors.Reported:
    common = max(frames, key=len)
    frame = frames[k]
    solver = w.solver
    missing = [
        show_set(solver.zonk_set(a))
        for a in frame
        if all(solver.same_set(a, b) is False for b in common)
    ]
    name = args[k].span.text
    found = [
        v for f in (common, frame) for a in f for v in set_variables(solver.zonk_set(a))
        if v in w.opened
    ]
    if len(set(found)) == 2 and missing:
        one, other = dict.fromkeys(found)
        return size_errors.two_sizes(
            one.name, other.name, w.opened[one], w.opened[other], span
        )
    if len(set(found)) == 1 and missing:
        (v,) = set(found)
        loose = next(j for j, f in enumerate(frames) if _mentions(w, f, v))
        fixed = k if loose != k else next(j for j, f in enumerate(frames) if f is common)
        size_of = [show_set(w.solver.zonk_set(a)) for a in frames[fixed]]
        return size_errors.unknown_size(
            args[loose].span, args[fixed].span, v.name, ", ".join(size_of), w.opened[v], span
        )
    if missing:
        which = missing[0]
        why = f"the axis `{which}` of `{name}` meets no axis of {show_frame(w, common)}"
    else:
        why = (
            f"the axes {show_frame(w, frame)} of `{name}` stand in another order than in "
            f"{show_frame(w, common)}"
        )
    helps = numbers_of(w.solver.zonk_set(a) for f in frames for a in f)
    short = all(len(a.span.text) < 30 for a in args)
    if not helps and len(args) == 2 and callee.text is not None and short:
        helps = () if missing else _turned(w, callee, args, frames)
        helps += (_outer(w, callee, args, frames, bool(missing)),)
    return lift_errors.frames(callee.title, frame_labels(w, args, frames), span, why, helps)


def _mentions(w: Walk, frame: list[Set], v: Var) -> bool:
    return any(v in set(set_variables(w.solver.zonk_set(a))) for a in frame)


LETTERS = "ijklpqrstuvwxyz"


def _turned(
    w: Walk, callee: Callee, args: list[Typed], frames: list[list[Set]]
) -> tuple[str, ...]:
    """Every axis named by its index set, in whatever order they stand, if it is known."""
    assert callee.text is not None
    common = max(frames, key=len)
    texts = []
    for a, frame in zip(args, frames, strict=True):
        left = list(zip(LETTERS, common, strict=False))
        mine = []
        for s in frame:
            found = next((x for x in left if w.solver.same_set(s, x[1]) is not False), None)
            if found is None:
                return ()
            left.remove(found)
            mine.append(found[0])
        texts.append(f"{postfix(a.span.text)}[{', '.join(mine)}]" if mine else a.span.text)
    binders = ", ".join(LETTERS[: len(common)])
    return (f"axis by axis: `[{callee.text(texts)} for {binders}]`",)


def _outer(
    w: Walk, callee: Callee, args: list[Typed], frames: list[list[Set]], shared: bool
) -> str:
    """Every axis of every argument; those of one index set together, if `shared`, and then of an
    axis of one element that element."""
    assert callee.text is not None
    names, one = iter(LETTERS), Fin(ONE)
    thick = [[x for x in f if not shared or w.solver.zonk_set(x) != one] for f in frames]
    binders: list[tuple[str, Set]] = []
    texts: dict[int, str] = {}
    for k in sorted(range(len(args)), key=lambda k: -len(thick[k])):
        left, mine = [*binders] if shared else [], []
        for x in frames[k]:
            found = next((b for b in left if w.solver.same_set(x, b[1])), None)
            if x not in thick[k]:
                mine.append("0")
                continue
            if found is None:
                found = next(names), x
                binders.append(found)
            else:
                left.remove(found)
            mine.append(found[0])
        text = args[k].span.text
        texts[k] = f"{postfix(text)}[{', '.join(mine)}]" if mine else text
    thin = any(len(x) < len(f) for x, f in zip(thick, frames, strict=True))
    how = "an axis of one element is not stretched" if thin else "for every combination"
    made = callee.text([texts[k] for k in range(len(args))])
    return f"{how}: `[{made} for {', '.join(n for n, _ in binders)}]`"


def _ambiguous(
    w: Walk,
    callee: Callee,
    args: list[Typed],
    frames: list[list[Set]],
    common: list[Set],
    ways: list[tuple[int, ...]],
    span: Span,
    k: int,
) -> errors.Reported:
    letters = LETTERS[: len(common)]
    candidates = []
    for way in ways:
        texts = []
        for j, a in enumerate(args):
            frame = frames[j]
            if not frame:
                texts.append(a.span.text)
            elif len(frame) == len(common):
                texts.append(f"{postfix(a.span.text)}[{', '.join(letters)}]")
            else:
                texts.append(f"{postfix(a.span.text)}[{', '.join(letters[c] for c in way)}]")
        body = callee.text(texts) if callee.text else f"…({', '.join(texts)})"
        candidates.append(f"[{body} for {', '.join(letters)}]")
    axis = ", ".join(show_set(w.solver.zonk_set(a)) for a in frames[k])
    return lift_errors.ambiguous(
        callee.title, span, axis, (args[k].span, show(w, args[k].type)), tuple(candidates)
    )
