"""Statements nobody needs dropped, and names used once replaced by what they name. core → core

    let i0 = part(v, 0) in let t = mul(x[i0], 2.0) in add(t, 1.0)   →   add(mul(x[v.0], 2.0), 1.0)

A statement that may stop the run or has an effect stays where it is. Work is never moved into a
loop, a table not to where it is indexed, and a variable that a size mentions keeps its name.
Afterwards every variable is bound in one place only.
"""

from __future__ import annotations

from naperian.broken import Broken
from naperian.core.resolve import Resolve, resize
from naperian.core.syntax import (
    Add,
    Assign,
    At,
    Blank,
    Box,
    Call,
    Carried,
    Cell,
    Check,
    Checked,
    Const,
    ConstOf,
    Custom,
    Derivative,
    Either,
    Expr,
    For,
    Get,
    Handle,
    If,
    Lambda,
    Let,
    Literal,
    Loop,
    Method,
    Number,
    Op,
    OwnRule,
    Pack,
    Part,
    Print,
    Quiet,
    Recast,
    Reduce,
    Ref,
    Scan,
    Tell,
    Throw,
    Unbox,
    Use,
)
from naperian.core.walk import children, of_type, size_variables
from naperian.names import Var, fresh
from naperian.node import mutable, replace
from naperian.passes.normal.denote import is_trivial, number, part_of, size_of
from naperian.sizes import Atom, Size, substitute, variables
from naperian.types import Exists, Fin, Set, Type


def tidy(body: Expr, result: Type, staying: set[Var]) -> Expr:
    """The body of a normalised definition. `staying` are the variables whose values may stop the
    run or have an effect."""
    census = _Census(staying)
    for v in of_type(result):
        census.use(v).in_size = True
    census.visit(body, 0)
    return _Rebuild(census).expr(body, {})


@mutable
class _Uses:
    """How a variable is used: how often, in loops beyond its own, in a size, taken apart."""

    depth: int = 0
    count: int = 0
    deeper: bool = False
    in_size: bool = False
    taken_apart: bool = False


class _Census:
    """Who is used how. Blocks are walked from their end, so that what only the dead use is dead."""

    def __init__(self, staying: set[Var]) -> None:
        self.staying = staying
        self.uses: dict[Var, _Uses] = {}

    def use(self, v: Var) -> _Uses:
        known = self.uses.get(v)
        if known is None:
            known = self.uses[v] = _Uses()
        return known

    def dead(self, v: Var) -> bool:
        u = self.uses.get(v)
        return v not in self.staying and (u is None or not (u.count or u.in_size))

    def visit(self, e: Expr, depth: int) -> None:
        statements: list[Let | Check] = []
        while True:
            if isinstance(e, Let):
                self.use(e.var).depth = depth
                statements.append(e)
                e = e.body
            elif isinstance(e, Check):
                statements.append(e)
                e = e.then
            else:
                break
        self.plain(e, depth)
        for s in reversed(statements):
            if isinstance(s, Check):
                self.visit(s.condition, depth)
            elif not self.dead(s.var):
                self.visit(s.value, depth)

    def plain(self, e: Expr, depth: int) -> None:
        for v in size_variables(e):
            self.use(v).in_size = True
        match e:
            case Ref():
                u = self.use(e.var)
                u.count += 1
                u.deeper = u.deeper or depth > u.depth
            case At():
                self.taken_apart(e.table, depth)
                self.visit(e.index, depth)
            case Part():
                self.taken_apart(e.tuple, depth)
            case For():
                self.visit(e.body, depth + 1)
            case Reduce(_, _, _, init, value, _):
                self.visit(init, depth)
                self.visit(value, depth + 1)
            case Loop(carried, _, _, condition, body):
                for c in carried:
                    self.visit(c.start, depth)
                if condition is not None:
                    self.visit(condition, depth + 1)
                self.visit(body, depth + 1)
            case Scan(carried, _, _, body):
                for c in carried:
                    self.visit(c.start, depth)
                self.visit(body, depth + 1)
            case _:
                for x in children(e):
                    self.visit(x, depth)

    def taken_apart(self, whole: Expr, depth: int) -> None:
        if isinstance(whole, Ref):
            self.use(whole.var).taken_apart = True
        self.visit(whole, depth)


Names = dict[Var, Expr]

_TALL = 16  # names written in place inside names written in place, before a name is kept


class _Rebuild:
    def __init__(self, census: _Census) -> None:
        self.census = census
        self.bound: set[Var] = set()
        self.heights: dict[Var, int] = {}
        self.height = 0  # of what was rebuilt since it was last set to 0

    def bind(self, v: Var, names: Names) -> Var:
        """A variable at its binder: a new one if it was bound elsewhere already."""
        if v in self.bound:
            new = fresh(v)
            names[v] = Ref(new)
            return new
        self.bound.add(v)
        return v

    def replaced(self, value: Expr, v: Var) -> bool:
        """Whether the (rebuilt) value goes where its name is used."""
        u = self.census.use(v)
        if u.in_size:
            return size_of(value) is not None
        if isinstance(value, (Ref, Const, Number)):
            return True
        if self.height >= _TALL:
            return False
        if is_trivial(value):
            return True
        once = u.count == 1 and not u.deeper and not u.taken_apart
        return once and v not in self.census.staying

    def expr(self, e: Expr, names: Names) -> Expr:
        if not (isinstance(e, Let) or isinstance(e, Check)):  # noqa: SIM101
            return self.plain(e, names)
        statements: list[tuple[Var, Expr] | tuple[Check, Expr]] = []
        while True:
            if isinstance(e, Check):
                statements.append((e, self.expr(e.condition, names)))
                e = e.then
                continue
            if not isinstance(e, Let):
                break
            if not self.census.dead(e.var):
                outside, self.height = self.height, 0
                value = self.expr(e.value, names)
                if self.replaced(value, e.var):
                    names[e.var] = value
                    self.heights[e.var] = self.height + 1
                else:
                    statements.append((self.bind(e.var, names), value))
                self.height = outside
            e = e.body
        whole = self.plain(e, names)
        for what, value in reversed(statements):
            if isinstance(what, Check):
                whole = Check(value, what.message, whole, what.origin)
            else:
                whole = Let(what, value, whole)
        return whole

    def size(self, s: Size, names: Names) -> Size:
        if names.keys().isdisjoint(variables(s)):
            return s

        def of(a: Atom) -> Size | None:
            e = names.get(a) if isinstance(a, Var) else None
            return None if e is None else size_of(e)

        return substitute(s, of)

    def set(self, s: Set, names: Names) -> Set:
        if isinstance(s, Fin):
            new = self.size(s.size, names)
            return s if new is s.size else Fin(new)
        return self.resolve(names).set(s)

    def resolve(self, names: Names) -> Resolve:
        return resize(lambda s: self.size(s, names))

    def carried(self, cs: tuple[Carried, ...], names: Names) -> tuple[Carried, ...]:
        r = self.resolve(names)
        starts = [(r.type(c.type), self.expr(c.start, names)) for c in cs]
        return tuple(
            Carried(self.bind(c.var, names), t, start)
            for c, (t, start) in zip(cs, starts, strict=True)
        )

    def cells(self, cs: tuple[Cell, ...], names: Names) -> tuple[Cell, ...]:
        r = self.resolve(names)
        starts = [(r.type(c.type), self.expr(c.start, names)) for c in cs]
        return tuple(
            replace(c, var=self.bind(c.var, names), type=t, start=start)
            for c, (t, start) in zip(cs, starts, strict=True)
        )

    def plain(self, e: Expr, names: Names) -> Expr:
        match e:
            case Ref():
                height = self.heights.get(e.var, 0)
                if height > self.height:
                    self.height = height
                return names.get(e.var, e)
            case At():
                return At(
                    self.expr(e.table, names),
                    self.expr(e.index, names),
                    self.set(e.set, names),
                )
            case Op():
                args = tuple([self.expr(x, names) for x in e.args])
                return Op(e.name, args, e.type, e.origin)
            case Const():
                return e
            case Number():
                new = self.size(e.value, names)
                return e if new is e.value else number(new)
            case Pack(items):
                return Pack(tuple(self.expr(x, names) for x in items))
            case Part(whole, k):
                return part_of(self.expr(whole, names), k)
            case If(condition, then, otherwise):
                return If(
                    self.expr(condition, names),
                    self.expr(then, names),
                    self.expr(otherwise, names),
                )
            case For():
                s = self.set(e.set, names)
                return For(self.bind(e.var, names), s, self.expr(e.body, names))
            case Literal(s, items):
                return Literal(
                    self.resolve(names).set(s), tuple(self.expr(x, names) for x in items)
                )
            case Reduce(_, var, s, init, value):
                s, init = self.resolve(names).set(s), self.expr(init, names)
                var = self.bind(var, names)
                return replace(e, var=var, set=s, init=init, value=self.expr(value, names))
            case Loop(carried, time, span, condition, body):
                if span is not None:
                    span = self.resolve(names).set(span)
                carried = self.carried(carried, names)
                return Loop(
                    carried,
                    None if time is None else self.bind(time, names),
                    span,
                    None if condition is None else self.expr(condition, names),
                    self.expr(body, names),
                    e.origin,
                    e.checkpoint,
                )
            case Scan(carried, time, s, body):
                s, carried = self.resolve(names).set(s), self.carried(carried, names)
                time = self.bind(time, names)
                return replace(e, carried=carried, time=time, set=s, body=self.expr(body, names))
            case Derivative(_, params, body, seed):
                seed = self.expr(seed, names)
                params = self.carried(params, names)
                return replace(e, params=params, body=self.expr(body, names), seed=seed)
            case Custom(params, body, rules):
                r = self.resolve(names)
                types = [[r.type(t) for _, t in x.given] for x in rules]
                params = self.carried(params, names)
                body = self.expr(body, names)
                own = []
                for x, found in zip(rules, types, strict=True):
                    named = [self.bind(v, names) for v, _ in x.given]
                    given = tuple(zip(named, found, strict=True))
                    own.append(OwnRule(x.forward, given, self.expr(x.body, names)))
                return replace(e, params=params, body=body, rules=tuple(own))
            case Checked(value, s):
                return replace(e, value=self.expr(value, names), set=self.resolve(names).set(s))
            case Handle(cells, body):
                return Handle(self.cells(cells, names), self.expr(body, names), e.origin)
            case Get(reference):
                return Get(self.expr(reference, names))
            case Assign(reference, value):
                return Assign(self.expr(reference, names), self.expr(value, names))
            case Add(reference, value):
                return Add(self.expr(reference, names), self.expr(value, names))
            case Tell(world, values, line):
                told = tuple(self.expr(x, names) for x in values)
                return Tell(self.expr(world, names), told, line)
            case Let() | Check():
                return self.expr(e, names)
            case Box(t, sizes, value):
                boxed = self.resolve(names).type(t)
                assert isinstance(boxed, Exists)
                new_sizes = tuple(self.size(n, names) for n in sizes)
                return Box(boxed, new_sizes, self.expr(value, names))
            case (
                Blank() | ConstOf() | Lambda() | Call() | Use() | Method() | Recast() | Unbox()
                | Throw() | Print() | Quiet() | Either()
            ):
                raise Broken(f"{type(e).__name__} is left after normalisation")
