"""A condition that an inner loop does not change is tested before it. loops → loops

    before   inside = i >= 1 and i < n - 1
             for j: store y[i, j] = x[i - 1, j] + x[i + 1, j] if inside else x[i, j]

    after    if inside: for j: store y[i, j] = x[i - 1, j] + x[i + 1, j]
             else:      for j: store y[i, j] = x[i, j]

What the condition says of others is used in both: the operands of a conjunction that holds do.
One that a round computes itself, and every round alike, is computed before them all. The loops that
are left have no tests in them, and become vectors. A sequential one becomes none, so it goes under
a condition only if it does nothing else. A condition that is loaded in every round (`leaf[t]`) is
loaded before them, if there is a round. The few rounds at an end of a longer loop are not worth
other versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from naperian.dtypes import DType
from naperian.loops.edges import is_edge, numbers
from naperian.loops.syntax import (
    Apply,
    Assign,
    Expr,
    Fail,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Stmt,
    Store,
    Update,
    Variable,
    When,
    While,
)
from naperian.loops.walk import (
    atoms,
    expressions,
    parts,
    reads,
    rebuild,
    rebuild_loops,
    remade,
    statements,
    used,
)
from naperian.names import Lit, Var, fresh
from naperian.node import replace
from naperian.passes.nests.borders import SHORT, away
from naperian.passes.nests.once import asked, changed, loaded
from naperian.sizes import Size

_VERSIONS = 2  # conditions tested before one loop: so many versions, and one more

Known = Mapping[Expr, bool]
Definitions = Mapping[Var, Expr]


def unswitched(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """See the module. The bodies of parallel loops are; they themselves are functions, and stay."""
    return _block(body, {}, numbers(body))


def _block(
    body: tuple[Stmt, ...], outer: Definitions, sizes: Mapping[Var, Size]
) -> tuple[Stmt, ...]:
    definitions = dict(outer)
    flags: set[Var] = set()  # Booleans of which nothing else is known
    out: list[Stmt] = []
    for s in body:
        match s:
            case Let(var, DType.BOOL, value):
                if _steady(value, definitions):
                    definitions[var] = value
                else:
                    flags.add(var)
                out.append(s)
            case Variable(var, DType.BOOL):
                flags.add(var)
                out.append(s)
            case Loop() if is_edge(s, sizes) and _has_short_loops(s):
                out.append(s)
            case Loop() if (free := away(s, definitions)) is not None:
                out.append(_apart(s, definitions, *free))
            case Loop() if _innermost(s) and s.order is not Order.PARALLEL:
                named, s = _named(s, definitions)
                assigned = {x.var for x in statements(s.body) if isinstance(x, Assign)}
                held = {v: Local(v) for v in flags - assigned}
                known = {**definitions, **held, **{x.var: x.value for x in named}}
                out += (*named, *_versions(s, known, _VERSIONS))
            case While():
                out.append(rebuild(s, lambda b: _block(b, definitions, sizes)))
            case _:
                made = rebuild_loops(s, lambda b: _block(b, definitions, sizes))
                out.append(_under(made, definitions) if isinstance(made, Loop) else made)
    return tuple(out)


def _under(s: Loop, definitions: Definitions) -> Stmt:
    """A loop around others that were put under a condition which it does not change either."""
    match s.body:
        case (When(condition, then, otherwise),) if s.order is not Order.PARALLEL:
            if s.var not in used(condition) and _steady(condition, definitions):
                sides = [(replace(s, body=b),) if b else () for b in (then, otherwise)]
                return When(condition, *sides)
        case _:
            pass
    return s


def _apart(s: Loop, definitions: Definitions, free: Expr, tests: Known) -> Stmt:
    """The loop where it is away from all borders, and in the few rounds around it where it is
    not. See `borders`."""
    known: dict[Expr, bool] = {}
    for e, holds in tests.items():
        known |= _closed({e: holds}, definitions)
    inside = replace(s, body=wanted(assumed(s.body, known, definitions)))
    return When(free, (inside,) if inside.body else (), (s,))


def _innermost(s: Loop) -> bool:
    return not any(isinstance(x, Loop | While) for x in statements(s.body))


def _has_short_loops(s: Loop) -> bool:
    """Whether all loops in it have a known number of rounds."""
    return all(
        isinstance(x, Loop) and (x.high - x.low).constant is not None
        for x in statements(s.body) if isinstance(x, Loop | While)
    )  # fmt: skip


def _steady(e: Expr, definitions: Definitions) -> bool:
    """Whether a Boolean hangs on nothing that may change while it is in scope."""
    for x in parts(e):
        match x:
            case Lit():
                pass
            case Local(v) if v in definitions:
                pass
            case Number(value) if not any(isinstance(a, Load) for a in atoms(value)):
                pass
            case Apply() if x is e or x.dtype is DType.BOOL:
                pass
            case _:
                return False
    return True


def _named(s: Loop, definitions: Definitions) -> tuple[tuple[Let, ...], Loop]:
    """The Booleans of a long loop's rounds that are the same in all, to stand before it, and the
    loop without them, unless they are too many to have versions for all. (A quotient stays, which
    may be by zero where there is no round.)"""
    trips = (s.high - s.low).constant
    if trips is not None and trips < SHORT:
        return (), s
    known, moving = dict(definitions), changed(s)
    new: dict[Var, Var] = {}  # a copy of the loop beside it has its own
    for x in s.body:
        if isinstance(x, Let) and x.dtype is DType.BOOL and moving.isdisjoint(used(x.value)):
            plain = all(p.value.plain for p in parts(x.value) if isinstance(p, Number))
            if plain and _steady(x.value, known):
                new[x.var] = fresh(x.var)
                known[x.var] = x.value
                moving.remove(x.var)
    if not 0 < len(new) <= _VERSIONS:
        return (), s
    names = {*new.values()}
    body = remade(s.body, lambda _: None, new)
    lets = tuple(x for x in body if isinstance(x, Let) and x.var in names)
    return lets, replace(s, body=tuple(x for x in body if x not in lets))


def _versions(s: Loop, definitions: Definitions, left: int) -> tuple[Stmt, ...]:
    """The loop, under the condition that decides most of its own."""
    found = list(dict.fromkeys(_conditions(s, definitions)))
    if not found or not left:
        return (s,)

    def decides(c: Expr) -> int:
        known = _closed({c: True}, definitions)
        return sum(isinstance(_simple(x, known, definitions), Lit) for x in found)

    best = max(found, key=decides)
    sides = []
    for holds in (True, False):
        known = _closed({best: holds}, definitions)
        version = replace(s, body=wanted(assumed(s.body, known, definitions)))
        sides.append(_versions(version, definitions, left - 1) if version.body else ())
    if s.order is Order.SERIAL and all(sides):
        return (s,)
    return (When(asked(best, s) if loaded(best) else best, *sides),)


def _conditions(s: Loop, definitions: Definitions) -> Iterator[Expr]:
    """What the loop's body tests that was known before it."""
    for x in statements(s.body):
        if isinstance(x, When) and isinstance(x.condition, Local):
            if x.condition.var in definitions:
                yield x.condition
        for e in expressions(x):
            for p in parts(e):
                if isinstance(p, Apply) and p.name in ("select", "and", "or", "not"):
                    for a in p.args:
                        if isinstance(a, Local) and a.var in definitions:
                            yield a
    if s.order is Order.FREE:
        yield from _loaded(s)


def _loaded(s: Loop) -> Iterator[Expr]:
    """What every round loads to test it, and is the same in all."""
    inner = changed(s)
    for x in s.body:
        if any(isinstance(y, Fail) for y in statements((x,))):
            return  # behind it an index is in range that is none before
        if isinstance(x, When):
            yield from _steady_load(x.condition, inner)
        else:
            for e in expressions(x):
                yield from _choices(e, inner)


def _choices(e: Expr, inner: set[Var]) -> Iterator[Expr]:
    """The conditions of the choices that are made whatever the others are."""
    if isinstance(e, Apply):
        lazy = e.name in ("select", "and", "or")
        if e.name == "select":
            yield from _steady_load(e.args[0], inner)
        for x in e.args[:1] if lazy else e.args:
            yield from _choices(x, inner)


def _steady_load(e: Expr, inner: set[Var]) -> Iterator[Expr]:
    while isinstance(e, Apply) and e.name == "not":
        e = e.args[0]
    if isinstance(e, Load) and inner.isdisjoint(used(e)):
        yield e


def _closed(first: Known, definitions: Definitions) -> Known:
    """With everything that follows."""
    known: dict[Expr, bool] = {}
    work = list(first.items())
    while work:
        e, holds = work.pop()
        if e in known:
            continue
        known[e] = holds
        match e:
            case Local(v) if v in definitions:
                work.append((definitions[v], holds))
            case Apply("not", (x,)):
                work.append((x, not holds))
            case Apply("and", args) if holds:
                work += [(x, True) for x in args]
            case Apply("or", args) if not holds:
                work += [(x, False) for x in args]
            case Apply("select", (c, x, Lit(value))) if bool(value) is not holds:
                work += [(c, True), (x, holds)]
            case Apply("select", (c, Lit(value), x)) if bool(value) is not holds:
                work += [(c, False), (x, holds)]
            case _:
                pass
    return known


def _simple(e: Expr, known: Known, definitions: Definitions) -> Expr:
    """An expression where something is known of Booleans."""
    if isinstance(e, Lit):
        return e
    if e in known:
        return Lit(known[e], DType.BOOL)
    match e:
        case Local(v) if definitions.get(v, e) != e:
            value = _simple(definitions[v], known, definitions)
            return value if isinstance(value, Lit) else e
        case Apply(name, args):
            new = tuple(_simple(x, known, definitions) for x in args)
            return chosen(replace(e, args=new)) if new != args or name == "select" else e
        case _:
            return e


def chosen(e: Apply) -> Expr:
    """A choice or Boolean operation some of whose operands are known, done."""
    match e.name, e.args:
        case "select", (Lit(c), x, y):
            return x if c else y
        case "select", (_, x, y) if x == y:
            return x
        case "select", (c, Lit(True, DType.BOOL), Lit(False, DType.BOOL)):
            return c
        case "and", (Lit(c), x) | (x, Lit(c)):
            return x if c else Lit(False, DType.BOOL)
        case "or", (Lit(c), x) | (x, Lit(c)):
            return Lit(True, DType.BOOL) if c else x
        case "not", (Lit(c),):
            return Lit(not c, DType.BOOL)
        case _:
            return e


def assumed(
    body: tuple[Stmt, ...], known: Known, definitions: Definitions
) -> tuple[Stmt, ...]:
    """Statements where something is known."""

    def expr(e: Expr) -> Expr:
        return _simple(e, known, definitions)

    out: list[Stmt] = []
    for s in body:
        match s:
            case Let(value=e) | Variable(value=e) | Assign(value=e) | Store(value=e):
                new = expr(e)
                out.append(s if new is e else replace(s, value=new))
            case Update(value=e):
                out.append(replace(s, value=expr(e)))
            case Fail(condition, _, values):
                out.append(
                    replace(s, condition=expr(condition), values=tuple(expr(v) for v in values))
                )
            case When(condition, then, otherwise):
                c = expr(condition)
                if isinstance(c, Lit):
                    out += assumed(then if c.value else otherwise, known, definitions)
                    continue
                then = assumed(then, known, definitions)
                out.append(When(c, then, assumed(otherwise, known, definitions)))
            case Loop():
                out.append(rebuild(s, lambda b: assumed(b, known, definitions)))
            case _:
                out.append(s)
    return tuple(out)


def wanted(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Without the names that are bound here and that nobody reads."""
    while True:
        read = {v for s in statements(body) for v in reads(s)}
        bound = {s.var for s in statements(body) if isinstance(s, (Let, Variable))}
        less = _without(body, bound - read)
        if less == body:
            return body
        body = less


def _without(body: tuple[Stmt, ...], names: set[Var]) -> tuple[Stmt, ...]:
    kept = (s for s in body if not (isinstance(s, (Let, Variable, Assign)) and s.var in names))
    new = (rebuild(s, lambda b: _without(b, names)) for s in kept)
    return tuple(s for s in new if not (isinstance(s, When) and not s.then and not s.otherwise))
