"""`match` on Booleans, enums without fields and integers: a chain of conditions, exhaustive."""

from __future__ import annotations

from naperian.core import syntax as core
from naperian.dtypes import DType
from naperian.frontend import errors
from naperian.frontend.cells import convert, show
from naperian.frontend.operators import is_bool, join_types
from naperian.frontend.scope import Variable
from naperian.frontend.typed import Typed
from naperian.frontend.walk import Walk
from naperian.names import Lit, Var
from naperian.sizes import size
from naperian.surface import syntax as s
from naperian.types import BOOL, EnumSet, Index, Scalar, Type


def match(w: Walk, st: s.Match, expected: Type | None) -> Typed:
    """The value of the first case that fits."""
    subject = w.infer(st.subject)
    kind = w.solver.head(subject.type)
    if w.solver.is_unknown(kind):
        w.solver.run()
        kind = w.solver.head(subject.type)
    v = Var("subject")
    members = _members(w, kind)
    left = list(members) if members is not None else None
    covered = False
    arms: list[tuple[list[int] | None, Typed | None, Typed, str | None]] = []
    for case in st.cases:
        if covered or left == []:
            raise errors.unreachable_case(case.pattern.span)
        wanted, bound = _pattern(w, case.pattern, kind, members)
        with w.inside(w.scope.inner(block=True)) as scope:
            if bound is not None:
                poly = size(v) if isinstance(kind, Index) else None
                scope.names[bound] = Variable(v, kind, case.pattern.span, poly)
            guard = w.infer(case.guard) if case.guard is not None else None
            if guard is not None:
                is_bool(w, guard)
            value = w.block(case.body, expected)
        arms.append((wanted, guard, value, bound))
        if guard is None:
            if wanted is None:
                covered = True
            elif left is not None and members is not None:
                left = [m for m in left if members.index(m) not in wanted]
    if not covered and (left is None or left):
        raise errors.non_exhaustive(left if left else ["every other number"], st.span)
    result = join_types(w, [a[2] for a in arms], st.span)

    def build() -> core.Expr:
        last = arms[-1][2]
        expr = convert(w, last.build(), last.type, result)
        for wanted, guard, value, _ in reversed(arms[:-1]):
            then = convert(w, value.build(), value.type, result)
            if guard is not None:
                then = core.If(guard.build(), then, expr)
            if wanted is None:
                expr = then
                continue
            for k in reversed(wanted):
                expr = core.If(_test(w, v, kind, k), then, expr)
        return core.Let(v, subject.build(), expr)

    return Typed(result, build, st.span)


def _members(w: Walk, kind: Type) -> list[str] | None:
    if kind == BOOL:
        return ["False", "True"]
    if isinstance(kind, Index):
        own = w.solver.head_set(kind.set)
        if isinstance(own, EnumSet):
            return list(own.members)
    return None


def _test(w: Walk, v: Var, kind: Type, k: int) -> core.Expr:
    t = w.solver.zonk(kind)
    if t == BOOL:
        return core.Ref(v) if k else core.Op("not", (core.Ref(v),), BOOL)
    if isinstance(t, Scalar):
        return core.Op("eq", (core.Ref(v), core.Const(Lit(k, t.dtype))), t)
    whole = Scalar(DType.I64)
    return core.Op("eq", (core.Ref(v), core.Number(size(k))), whole)


def _pattern(
    w: Walk, p: s.Pattern, kind: Type, members: list[str] | None
) -> tuple[list[int] | None, str | None]:
    """The ordinals or numbers a pattern fits (None: everything) and the name it binds."""
    match p:
        case s.PWild():
            return None, None
        case s.PName(span, name):
            if members is not None and name in members:
                return [members.index(name)], None
            return None, name
        case s.PConstructor(span, name, None):
            member = name.split(".")[-1]
            if members is not None and member in members:
                return [members.index(member)], None
            raise errors.unknown_member(show(w, kind), member, span, members or [])
        case s.PNumber(span, int() as value) if members is None:
            if not isinstance(kind, Index) and not (
                isinstance(kind, Scalar) and kind.dtype.is_integer
            ):
                raise errors.wrong_type("the pattern", show(w, kind), "Int", span)
            return [value], None
        case s.PAlt(_, a, b):
            first, _ = _pattern(w, a, kind, members)
            second, _ = _pattern(w, b, kind, members)
            return (None if first is None or second is None else first + second), None
        case _:
            raise errors.not_yet("this pattern", p.span)
