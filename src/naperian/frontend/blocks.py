"""The walk over statements and block forms."""

from __future__ import annotations

from functools import partial

from naperian.core import syntax as core
from naperian.dtypes import DType
from naperian.frontend.ambient import unless_thrown
from naperian.frontend.annotations import as_type
from naperian.frontend.binders import bind_pattern, check_new, open_binder, settled
from naperian.frontend.boxes import alone, around, closed, keeps_size
from naperian.frontend.cells import convert, converts, show, shown
from naperian.frontend.choices import literals
from naperian.frontend.coded import decoded
from naperian.frontend.effects import only_effects, performed, value_pattern, with_block
from naperian.frontend.induction import Claims, claimed, keep
from naperian.frontend.kept import kept
from naperian.frontend.matching import match
from naperian.frontend.messages import (
    derivative_errors,
    effect_errors,
    errors,
    limit_errors,
    name_errors,
)
from naperian.frontend.operators import choose, is_bool
from naperian.frontend.references import is_reference
from naperian.frontend.scope import Variable
from naperian.frontend.tables import name_ends, nest, open_all
from naperian.frontend.typed import Build, Typed, Wrap
from naperian.frontend.unknowns import Because
from naperian.frontend.updates import is_place, set_, update, updated
from naperian.frontend.walk import Region, Walk
from naperian.names import Lit, Var
from naperian.node import replace
from naperian.sizes import size
from naperian.source import Span
from naperian.surface import syntax as s
from naperian.types import BOOL, INT, UNIT, Function, Index, Tuple, Type

_DEEPEST = 8  # of a loop's checkpoints: then even 2³⁰ rounds keep few


def block(w: Walk, b: s.Block, expected: Type | None = None) -> Typed:
    """The statements of a block in order; the value is the last line's."""
    before = w.scope
    outer, w.region = w.region, Region()
    value: Typed | None = None
    kinds: list[Type] = []  # the block's, once it is known
    for k, statement in enumerate(b.statements):
        last = k == len(b.statements) - 1
        if last:
            value = _value(w, statement, expected)
        else:
            throws = w.throws
            wrap = _statement(w, statement)  # what it opens comes before it
            w.wrap(wrap)
            if w.throws > throws and w.thrower is not None:
                w.wrap(_unless_thrown(w, w.thrower, kinds))
    mine, w.region = w.region, outer
    if value is None:
        raise errors.no_value(b.span)
    inner = closed(w, mine, value, expected)
    w.ended = (w.scope.so_far(), value)
    w.enter(before)
    kinds.append(inner.type)
    if not mine.wraps:
        return inner
    made = around(mine.wraps, inner.build)
    return Typed(inner.type, made, value.span, always=inner.always)


def _unless_thrown(w: Walk, flag: Var, kinds: list[Type]) -> Wrap:
    """After a line that may throw: the rest of the block only if it did not."""
    return lambda rest: unless_thrown(w, rest, kinds[0], flag)


def _value(w: Walk, st: s.Stmt, expected: Type | None) -> Typed:
    """The last line of a block."""
    match st:
        case s.ExprStmt(_, e) | s.Return(_, e):
            return w.infer(e, expected)
        case s.For():
            return for_block(w, st, expected)
        case s.If():
            return if_block(w, st, expected)
        case s.Match():
            return match(w, st, expected)
        case s.Loop():
            return loop(w, st)
        case s.With():
            return with_block(w, st, expected)
        case s.Set():
            return set_(w, st)
        case s.Update(_, _, _, target) if is_place(w, target):
            return update(w, st)
        case s.Assert(span):
            wrap = assertion(w, st)
            return Typed(UNIT, lambda: wrap(core.Pack(())), span)
        case s.Bind() | s.Update() | s.Def():
            if isinstance(st, s.Bind):
                check_new(w, st.pattern, "this block")
            if isinstance(st, s.Update):
                w.infer(st.target)  # a name that means nothing is told first
            if isinstance(st, s.Update) and isinstance(st.target, s.Name):
                check_new(w, s.PName(st.target.span, st.target.name), "this block")
            raise errors.no_value(st.span, _bound(st))


def _bound(st: s.Bind | s.Update | s.Def) -> str | None:
    """The name that a statement gives a value."""
    match st:
        case s.Bind(_, s.PName(_, name)) | s.Update(_, _, _, s.Name(_, name)):
            return name
        case s.Bind(_, s.PWild()):
            return "_"
        case _:
            return None


def _statement(w: Walk, st: s.Stmt) -> Wrap:
    """A line before the last: what it puts around the rest."""
    match st:
        case s.Bind():
            return bind(w, st)
        case s.Assert():
            return assertion(w, st)
        case s.Update(_, _, _, s.Name(name_span, name) as named) if not is_reference(w, named):
            if (outer := w.scope.enclosing(name)) is not None:
                raise name_errors.hides_enclosing(name, name_span, outer.span, "this block")
            return bind_pattern(w, s.PName(name_span, name), w.infer(updated(st)))
        case s.Update():
            return performed(update(w, st))
        case s.Loop():
            return loop_statement(w, st)
        case s.Def():
            return local_function(w, st)
        case s.Set():
            return performed(set_(w, st))
        case s.With():
            return effect(w, with_block(w, st, None), value_pattern(st))
        case s.ExprStmt(_, e):
            return effect(w, w.infer(e, UNIT))
        case s.For():
            return effect(w, for_block(w, st, None))
        case s.If():
            return effect(w, if_block(w, st, None))
        case s.Match():
            return effect(w, match(w, st, None))
        case s.Return(span, _):
            raise errors.unused_value(span, "value")


def effect(w: Walk, typed: Typed, pattern: str | None = None) -> Wrap:
    """A line before the last that is there for its effects: its value is ()."""
    if w.solver.head(typed.type) != UNIT:
        raise errors.unused_value(typed.span, show(w, typed.type), pattern)
    return performed(typed)


def rhs(w: Walk, e: s.Expr, expected: Type | None) -> Typed:
    """A right side: an expression or a block form."""
    if isinstance(e, s.Block):
        with w.inside(w.scope.inner()):
            return w.block(e, expected)
    return w.infer(e, expected)


def bind(w: Walk, st: s.Bind) -> Wrap:
    check_new(w, st.pattern, "this block")
    wanted = as_type(w, st.type) if st.type is not None else None
    value = rhs(w, st.value, wanted)
    if wanted is not None:
        value = expect(w, value, wanted, f"`{st.pattern.span.text}`", st.type)
    return bind_pattern(w, st.pattern, decoded(w, value))


def expect(
    w: Walk, value: Typed, wanted: Type, what: str, declared: s.Expr | None = None
) -> Typed:
    """The value converted to a declared type."""
    reason = None
    if declared is not None:
        kind = shown(w, wanted)
        reason = Because(declared.span, lambda: f"{what} is declared to be `{kind()}`")
    converts(w, what, wanted, value.type, value, value.span, reason)
    return Typed(
        wanted, lambda: convert(w, value.build(), value.type, wanted), value.span,
        value.poly, value.lets,
    )


def assertion(w: Walk, st: s.Assert) -> Wrap:
    """`assert c, "why"`: stops the run, and is a fact for the lines after it."""
    condition = w.infer(st.condition)
    is_bool(w, condition)
    message = f"`{st.condition.span.text}` is false"
    match st.message:
        case None:
            pass
        case s.String(_, parts) if all(isinstance(p, str) for p in parts):
            message = "".join(map(str, parts))
        case told:
            raise effect_errors.fixed_message(st.condition.span.text, told.span.text, told.span)
    after = w.scope.inner()
    w.enter(after)
    if condition.condition is not None:
        after.assume(*condition.condition.then)
    span = st.condition.span

    def check(expr: core.Expr) -> core.Expr:
        return core.Check(condition.build(), message, expr, span)

    return check


def for_block(w: Walk, st: s.For, expected: Type | None) -> Typed:
    """`for i, j: …` as a value: the table of its bodies' values."""
    if st.condition is not None:
        if not only_effects(st.body):
            return kept(w, st.binders, st.body, st.condition, expected, st.span)
        st = replace(st, condition=None, body=_where(st.condition, st.body))
    with w.inside(w.scope.inner(block=True)):
        bounds, left = open_all(w, st.binders, expected)
        name_ends(bounds)
        throws = w.throws
        body = w.block(st.body, left)
        if w.throws > throws and w.thrower is not None:
            body = _guarded(w, body, w.thrower)
        rows = nest(w, bounds, body, st.span, expected)
    if w.solver.head(body.type) == UNIT:  # a table of () is ()
        return Typed(UNIT, lambda: core.Let(Var("_"), rows.build(), core.Pack(())), st.span)
    return rows


def _where(condition: s.Expr, body: s.Block) -> s.Block:
    """Effects that only some rounds have: nothing is kept of them, so nothing is counted."""
    return replace(body, statements=(s.If(body.span, ((condition, body),), None),))


def _guarded(w: Walk, body: Typed, flag: Var) -> Typed:
    """A round of a loop that may throw: it is made only if none before it threw."""
    build = body.build
    return Typed(body.type, lambda: unless_thrown(w, build(), body.type, flag), body.span)


def if_block(w: Walk, st: s.If, expected: Type | None) -> Typed:
    """`if`/`elif`/`else` as a value."""
    return _arms(w, list(st.arms), st.otherwise, st.span, expected)


def _arms(
    w: Walk, arms: list[tuple[s.Expr, s.Block]], otherwise: s.Block | None, span: Span,
    expected: Type | None,
) -> Typed:
    (test, body), rest = arms[0], arms[1:]
    condition = w.infer(test)
    is_bool(w, condition)
    with w.inside(w.scope.inner(block=True)) as scope:
        if condition.condition is not None:
            scope.assume(*condition.condition.then)
        then = w.block(body, expected if rest or otherwise is not None else UNIT)
    nothing = Typed(UNIT, lambda: core.Pack(()), span)
    if not rest and otherwise is None and w.solver.head(then.type) != UNIT:
        is_loop = isinstance(body.statements[-1], s.Loop)
        raise errors.needs_else(span, show(w, then.type), is_loop)
    with w.inside(w.scope.inner(block=True)) as scope:
        if condition.condition is not None:
            scope.assume(*condition.condition.otherwise)
        if rest:
            other = alone(w, lambda: _arms(w, rest, otherwise, span, expected), expected)
        else:
            other = nothing if otherwise is None else w.block(otherwise, expected)
    then.span = body.statements[-1].span
    if otherwise is not None and not rest:
        other.span = otherwise.statements[-1].span
    literals(w, [then, other], expected)
    return choose(w, condition, then, other, span)


# ---------------------------------------------------------------- loops


def loop(w: Walk, st: s.Loop) -> Typed:
    """`loop x = x0, y = y0 for t in S while p: …`: the value is the tuple of the carried. A `while`
    that carries nothing counts its rounds, which nobody sees."""
    solver = w.solver
    if st.binder is None and st.condition is None:
        raise errors.endless_loop(Span(st.span.source, st.span.start, st.carries[-1].span.end))
    checkpoint = _depth(st)
    starts: list[Typed] = []
    for c in st.carries:
        wanted = as_type(w, c.type) if c.type is not None else None
        start = w.infer(c.start, wanted)
        starts.append(start if wanted is None else expect(w, start, wanted, "the start", c.type))
        solver.hold(start.type)
        solver.carry(start.type)
    carried: list[Var] = []
    claims: dict[int, Claims] = {}  # true if each round leaves them so
    rounds = Var("rounds")
    throws, flag = w.throws, w.thrower
    wraps: list[Wrap] = []
    outer = w.scope
    with w.inside(w.scope.inner(block=True)) as scope:
        bound = open_binder(w, st.binder) if st.binder is not None else None
        for k, (c, start) in enumerate(zip(st.carries, starts, strict=True)):
            if isinstance(c.pattern, s.PName):
                v = Var(c.pattern.name)
                kind = settled(w, c.pattern.name, start.type)
                poly = size(v) if kind == INT or isinstance(kind, Index) else None
                scope.names[c.pattern.name] = Variable(
                    v, start.type, c.pattern.span, poly, "carried"
                )
                if isinstance(kind, Index):
                    scope.assume_index(v, kind.set)
                elif kind == INT:
                    w.counts = True
                    claims[k] = claimed(w, c.pattern.name, start)
                    scope.assume(*(claim(size(v)) for claim in claims[k].values()))
            else:
                v = Var("c")
                piece = Typed(start.type, _ref(v), c.pattern.span)
                wraps.append(bind_pattern(w, c.pattern, piece, "carried"))
            carried.append(v)
        condition = None
        if st.condition is not None:
            condition = alone(w, partial(_asked, w, st, st.condition))
            is_bool(w, condition)
        with w.inside(w.scope.inner()) as inner:
            if condition is not None and condition.condition is not None:
                inner.assume(*condition.condition.then)
            hint: Type = (
                starts[0].type if len(starts) == 1 else Tuple(tuple(x.type for x in starts))
            )
            body = w.block(st.body, hint)
        assert w.ended is not None
        place, last = w.ended
        with w.inside(place):
            keep(w, claims, last.items if len(starts) > 1 else (last,))
    w.enter(outer)
    if bound is not None:
        w.region = bound.around
    whole = starts[0].type if len(starts) == 1 else Tuple(tuple(x.type for x in starts))
    if starts:
        _next_agrees(w, st, starts, body, whole)
    else:
        effect(w, Typed(body.type, body.build, st.body.statements[-1].span))

    def around(expr: core.Expr) -> core.Expr:
        for f in reversed(wraps):
            expr = f(expr)
        return expr

    may_throw = w.throws > throws

    def build() -> core.Expr:
        items = tuple(
            core.Carried(v, keeps_size(w, "what a loop carries", x.type, x.span), x.build())
            for v, x in zip(carried, starts, strict=True)
        )
        if not items:
            items = (core.Carried(rounds, INT, core.Const(Lit(0, DType.I64))),)
        own = solver.zonk_set(bound.set) if bound is not None else None
        time = bound.var if bound is not None else None
        test = None
        if condition is not None:
            test = around(condition.build())
            if bound is not None:
                test = bound.body(_constantly(test))()
        expr = around(convert(w, body.build(), body.type, whole))
        if may_throw and flag is not None:
            expr = unless_thrown(w, expr, whole, flag)
            test = None if test is None else unless_thrown(w, test, BOOL, flag)
        if not starts:
            one = core.Const(Lit(1, DType.I64))
            expr = core.Let(Var("done"), expr, core.Op("add", (core.Ref(rounds), one), INT))
        if bound is not None:
            expr = bound.body(_constantly(expr))()
        made: core.Expr = core.Loop(items, time, own, test, expr, st.span, checkpoint)
        if bound is not None:
            for var, value in reversed(bound.outside):
                made = core.Let(var, value(), made)
        return made if starts else core.Let(rounds, made, core.Pack(()))

    always = [tuple(claims.get(k, {}).values()) for k in range(len(starts))]
    if len(starts) == 1:
        return Typed(whole, build, st.span, always=always[0])
    items = [Typed(x.type, x.build, x.span, always=a) for x, a in zip(starts, always, strict=True)]
    return Typed(whole, build, st.span, items=tuple(items) if any(always) else ())


def _asked(w: Walk, st: s.Loop, test: s.Expr) -> Typed:
    """The condition of a loop. That of a `while` which carries nothing must read what its rounds
    change."""
    if st.carries:
        return w.infer(test)
    outside, w.uses = w.uses, {}
    condition = w.infer(test)
    if not any("State" in effects for effects in w.uses.values()):
        raise errors.while_loop(test.span)
    for var, effects in w.uses.items():
        outside.setdefault(var, set()).update(effects)
    w.uses = outside
    return condition


def _depth(st: s.Loop) -> int:
    """How deep the loops are that take a checkpointed one's place."""
    if st.checkpoint is None:
        return 1
    k = st.checkpoint.value if isinstance(st.checkpoint, s.Number) else None
    if not isinstance(k, int) or not 1 <= k <= _DEEPEST:
        raise derivative_errors.checkpoint_depth(st.checkpoint.span, _DEEPEST)
    return k


def _next_agrees(
    w: Walk, st: s.Loop, starts: list[Typed], body: Typed, whole: Type
) -> None:
    last = st.body.statements[-1].span
    kind, found = w.solver.head(whole), w.solver.head(body.type)
    nexts = [(whole, body.type, last)]
    if len(starts) > 1:
        if not isinstance(kind, Tuple) or not isinstance(found, Tuple):
            at = Typed(body.type, body.build, last)
            converts(w, "the next values of the loop", whole, body.type, at, last)
            return
        if len(kind.items) != len(found.items):
            raise errors.pattern_shape(len(kind.items), show(w, found), last)
        spans = w.parts.get(last, (last,) * len(starts))
        nexts = list(zip(kind.items, found.items, spans, strict=True))
    for c, start, (wanted, own, span) in zip(st.carries, starts, nexts, strict=True):
        at = Typed(own, body.build, span)
        what = f"the next `{c.pattern.span.text}` of the loop"
        converts(w, what, wanted, own, at, span, _starts(w, c, start))


def _starts(w: Walk, c: s.Carry, start: Typed) -> Because:
    kind = shown(w, start.type)
    return Because(start.span, lambda: f"`{c.pattern.span.text}` starts as `{kind()}`")


def loop_statement(w: Walk, st: s.Loop) -> Wrap:
    """A loop before the last line rebinds its names."""
    value = loop(w, st)
    if not st.carries:
        return effect(w, value)
    patterns = [c.pattern for c in st.carries]
    for p in patterns:
        check_new(w, p, "this block")
    if len(patterns) == 1:
        return bind_pattern(w, patterns[0], value)
    return bind_pattern(w, s.PTuple(st.span, tuple(patterns)), value)


def _ref(v: Var) -> Build:
    return lambda: core.Ref(v)


def _constantly(e: core.Expr) -> Build:
    return lambda: e


# ---------------------------------------------------------------- local functions


def local_function(w: Walk, st: s.Def) -> Wrap:
    """A `def` inside a block: a function value that closes over the block's names."""
    solver = w.solver
    if st.facts:
        raise limit_errors.local_fact(st.facts[0].span)
    for p in st.params:
        if p.default is not None:
            why = "it is a value, and a call gives all its parameters"
            raise limit_errors.not_its_default(f"`{st.name}` in a block", why, p.default.span)
    variables: list[tuple[Var, Type]] = []
    with w.inside(w.scope.inner(block=True, function=True)) as scope:
        for p in st.params:
            t = as_type(w, p.type) if p.type is not None else solver.type(p.name)
            v = Var(p.name)
            kind = solver.head(t)
            poly = size(v) if kind == INT or isinstance(kind, Index) else None
            scope.names[p.name] = Variable(v, t, p.span, poly, "parameter")
            if isinstance(kind, Index):
                scope.assume_index(v, kind.set)
            variables.append((v, t))
        wanted = as_type(w, st.result) if st.result is not None else None
        assert st.body is not None
        body = w.block(st.body, wanted)
        if wanted is not None:
            body = expect(w, body, wanted, f"the result of `{st.name}`", st.result)

    def build() -> core.Expr:
        return core.Lambda(tuple((v, solver.zonk(t)) for v, t in variables), body.build())

    kind = Function(tuple(t for _, t in variables), body.type)
    return bind_pattern(w, s.PName(st.name_span, st.name), Typed(kind, build, st.span))

