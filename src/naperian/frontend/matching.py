"""`match`: the value of the first case that fits, as a chain of conditions.

    match hit:                            if tag(hit) == 1 and slot(hit, 1) > 2.0:
        case Found(d) if d > 2.0: d   →       let d = slot(hit, 1) in d
        case _: 0.0                       else: 0.0
"""

from __future__ import annotations

from functools import partial

from naperian.core import syntax as core
from naperian.dtypes import DType
from naperian.facts import Apart
from naperian.frontend.boxes import alone
from naperian.frontend.cells import convert, show
from naperian.frontend.choices import literals
from naperian.frontend.coded import decoded
from naperian.frontend.coverage import Row, missing, shown, useful
from naperian.frontend.exactly import exactly_equal
from naperian.frontend.messages import data_errors, errors
from naperian.frontend.operators import is_bool, join_types
from naperian.frontend.patterns import (
    Either,
    Exactly,
    Made,
    Pattern,
    bind,
    check_names,
    read,
    test,
    ways,
)
from naperian.frontend.typed import Build, Typed, Wrap
from naperian.frontend.walk import Walk
from naperian.names import Lit, Var
from naperian.node import mutable
from naperian.sizes import Size, size
from naperian.surface import syntax as s
from naperian.types import INT, Index, Table, Type


@mutable
class Arm:
    """A case: what it asks (None: nothing), what it binds and its value."""

    test: Build | None
    wraps: list[Wrap]
    guard: Typed | None
    value: Typed

    def inside(self, expr: core.Expr) -> core.Expr:
        for f in reversed(self.wraps):
            expr = f(expr)
        return expr

    def condition(self) -> core.Expr:
        fits = self.test() if self.test is not None else None
        if self.guard is None:
            return fits if fits is not None else _truth(True)
        holds = self.inside(self.guard.build())
        return holds if fits is None else core.If(fits, holds, _truth(False))


def _truth(value: bool) -> core.Expr:
    return core.Const(Lit(value, DType.BOOL))


def match(w: Walk, st: s.Match, expected: Type | None) -> Typed:
    """The value of the first case that fits."""
    subject = decoded(w, w.infer(st.subject))
    kind = w.solver.head(subject.type)
    if w.solver.is_unknown(kind):
        w.solver.run()
        kind = w.solver.head(subject.type)
    if isinstance(kind, Table) and not any(isinstance(c.pattern, s.PBracket) for c in st.cases):
        raise data_errors.match_of_table(st.subject.span.text, show(w, kind), st.subject.span)
    v = Var("subject")
    rows: list[Row] = []
    arms: list[Arm] = []
    poly = subject.poly if not subject.lets else None
    if poly is not None and not exactly_equal(w, poly):
        poly = None
    with w.inside(w.scope.inner()) as outer:
        for case in st.cases:
            pattern = read(w, case.pattern, kind)
            kind = w.solver.head(kind)
            check_names(pattern)
            if not useful(w, rows, (pattern,), (kind,)):
                raise errors.unreachable_case(case.pattern.span)
            if poly is None and (kind == INT or isinstance(kind, Index)):
                poly = size(v)
                if isinstance(kind, Index):
                    outer.assume_index(v, kind.set)
            with w.inside(w.scope.inner(block=True)) as scope:
                if poly is not None and isinstance(pattern, Exactly | Made):
                    at = _ordinal(w, pattern, kind)
                    if at is not None:
                        scope.assume(poly - at, at - poly)
                wraps = bind(w, pattern, kind, lambda: core.Ref(v), poly)
                guard = None
                if case.guard is not None:
                    guard = alone(w, partial(w.infer, case.guard))
                    is_bool(w, guard)
                    if guard.condition is not None:
                        scope.assume(*guard.condition.then)
                value = w.block(case.body, expected)
            arms.append(Arm(test(w, pattern, kind, lambda: core.Ref(v)), wraps, guard, value))
            if guard is None:
                rows.append((pattern,))
                if poly is not None:
                    outer.assume(*_apart(w, pattern, kind, poly))
    lost = missing(w, rows, (kind,))
    if lost is not None:
        raise errors.non_exhaustive(_missing(w, rows, kind, lost), st.span)
    literals(w, [a.value for a in arms], expected)
    result = join_types(w, [a.value for a in arms], st.span)

    def build() -> core.Expr:
        last = arms[-1]
        expr = last.inside(convert(w, last.value.build(), last.value.type, result))
        for arm in reversed(arms[:-1]):
            then = arm.inside(convert(w, arm.value.build(), arm.value.type, result))
            expr = core.If(arm.condition(), then, expr)
        return core.Let(v, subject.build(), expr)

    return Typed(result, build, st.span)


def _missing(w: Walk, rows: list[Row], kind: Type, lost: Row) -> list[str]:
    """What the cases leave out, as patterns, a few of them."""
    out: list[str] = []
    more: Row | None = lost
    while more is not None and len(out) < 4:
        text = shown(w, more[0], kind)
        out.append("every other number" if text == "_" else text)
        rows = [*rows, more]
        more = missing(w, rows, (kind,))
    return out


def _ordinal(w: Walk, p: Pattern, t: Type) -> int | None:
    """The number that a pattern says an integer or an index is."""
    match p:
        case Exactly(_, int() as value):
            return value
        case Made(_, number, ()) if isinstance(w.solver.head(t), Index) and ways(w, t):
            return number
        case _:
            return None


def _apart(w: Walk, p: Pattern, t: Type, poly: Size) -> list[Apart]:
    """What the cases after an unguarded one know of an integer: that it is not this."""
    if isinstance(p, Either):
        return [*_apart(w, p.left, t, poly), *_apart(w, p.right, t, poly)]
    at = _ordinal(w, p, t)
    return [] if at is None else [Apart(poly - at)]


