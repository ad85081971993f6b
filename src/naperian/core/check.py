"""That core is well typed: every type is derived again, from nothing but the syntax.

Sets are equal when their sizes are: as polynomials, or by what is known there (facts of the
definition, bounds of index variables, asserted and tested comparisons). That an index lies in its
set was proved by the front end or is tested by `Checked`; here any index of a set of numbers, and
any Int, counts as an index of any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import prod

from naperian.broken import Broken
from naperian.core.show import show
from naperian.core.syntax import (
    Add,
    Assign,
    At,
    Blank,
    Box,
    Call,
    Carried,
    Check,
    Checked,
    Const,
    ConstOf,
    Custom,
    Definition,
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
    Module,
    Number,
    Op,
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
from naperian.core.walk import everything, of_type, size_variables
from naperian.dtypes import DType
from naperian.facts import Facts
from naperian.leaves import leaves
from naperian.names import Lit, Var
from naperian.packing import bounds, runs
from naperian.prims import MONOIDS, ORDERED, PLACES, PRIMITIVES, Kind
from naperian.sizes import HEAVY, ONE, ZERO, Size, natural, rename, size, variables, weight
from naperian.substitution import Substitution, cell_at, dependent, opened
from naperian.type_show import show_type
from naperian.types import (
    BOOL,
    INT,
    UNIT,
    BoolSet,
    EnumSet,
    Exists,
    Fin,
    Function,
    Index,
    Range,
    Reference,
    Reverse,
    Scalar,
    Set,
    SetVar,
    Slice,
    Sum,
    Table,
    Tuple,
    TupleSet,
    Type,
    TypeVar,
    UnitSet,
    axes,
    cardinality,
    element,
    table,
)

_ANYTHING = TypeVar(Var("anything"))  # the cells of an empty literal table


def check(
    module: Module, normal: bool = False, known: Callable[[Definition], bool] = lambda _: False
) -> None:
    """Raises `Broken` unless every definition, but those that are `known` to be, is well typed. In
    a `normal` one the rows of a table may have sizes that only the loop over them knows; outside
    they are not compared."""
    for d in module.definitions.values():
        if not known(d):
            _Check(module, d, normal).definition()


def check_normal(d: Definition) -> None:
    """Raises `Broken` unless the definition is well typed and in the normal form of `normalize`."""
    check(Module(d.name, {d.name: d}, (d.name,), {}), normal=True)
    if d.types or d.sets:
        raise Broken(f"`{d.name}` is still polymorphic")
    for p in d.params:
        if leaves(p.type) != (p.type,):
            raise Broken(f"parameter `{p.name}` of `{d.name}` is no leaf")
    bound: set[Var] = {p.var for p in d.params}
    for e in everything(d.body):
        if isinstance(
            e,
            Blank | Lambda | Call | Use | Method | ConstOf | Recast | Throw | Print | Quiet | Unbox
            | Either,
        ):
            raise Broken(f"{type(e).__name__} in the normal form of `{d.name}`")
        for v in _binders(e):
            if v in bound:
                raise Broken(f"`{v!r}` is bound twice in `{d.name}`")
            bound.add(v)


def _binders(e: Expr) -> Iterator[Var]:
    match e:
        case Let(var) | For(var) | Reduce(_, var):
            yield var
        case Handle(cells):
            yield from (c.var for c in cells)
        case Loop(carried, time) | Scan(carried, time):
            yield from (c.var for c in carried)
            if time is not None:
                yield time
        case Derivative(_, params):
            yield from (p.var for p in params)
        case Custom(params, _, rules):
            yield from (p.var for p in params)
            yield from (v for r in rules for v, _ in r.given)
        case _:
            pass


class _Check:
    """What is in scope, and what is known there."""

    def __init__(self, module: Module, d: Definition, normal: bool = False) -> None:
        self.module = module
        self.d = d
        self.normal = normal
        self.types: dict[Var, Type] = dict.fromkeys(d.sizes + d.sets, INT)
        self.known: dict[Var, Size] = {}  # integers that are bound to polynomials
        # those of the elements of sets are written down when they are asked for
        self.facts: list[Size | tuple[Size, Set]] = [size(v) for v in d.sizes + d.sets]
        self.facts += [f for f, _ in d.facts]

    def broken(self, why: str, e: Expr | None = None) -> Broken:
        where = "" if e is None else f"\n{show(e)}"
        return Broken(f"core of `{self.d.name}`: {why}{where}")

    def definition(self) -> None:
        d = self.d
        for p in d.params:
            self.types[p.var] = p.type
            if isinstance(p.type, Index):
                self.member(size(p.var), p.type.set)
        for p in d.params:
            self.in_scope(of_type(p.type), None)
            if p.default is not None:
                self.expect(p.default, p.type)
        self.types.update((p.var, p.type) for p in d.hidden)
        self.in_scope(of_type(d.result), None)
        self.expect(d.body, d.result)

    # ------------------------------------------------------------ scopes

    @contextmanager
    def block(self) -> Iterator[None]:
        """What is bound and learnt inside is forgotten afterwards."""
        facts, bound = len(self.facts), self.types
        self.types = bound.copy()
        try:
            yield
        finally:
            del self.facts[facts:]
            self.types = bound

    def index(self, v: Var, s: Set) -> None:
        """`v` ranges over a set."""
        self.types[v] = element(s)
        if isinstance(element(s), Index):
            self.member(size(v), s)

    def member(self, k: Size, s: Set) -> None:
        self.facts.append((k, s))

    def learnt_here(self) -> Facts:
        known: list[Size] = []
        for f in self.facts:
            if isinstance(f, Size):
                known.append(f)
            else:
                (k, s), v = f, Var("k")
                known += [rename(n, {v: k}) for n in bounds(v, s)]
        return Facts(tuple(map(self.expanded, known)))

    def in_scope(self, vs: Iterable[Var], e: Expr | None) -> None:
        for v in vs:
            if v not in self.types:
                raise self.broken(f"a size mentions `{v.name}`, which is not in scope", e)

    # ------------------------------------------------------------ equality

    def same_size(self, a: Size, b: Size) -> bool:
        if a == b:
            return True
        if self.normal and any(v not in self.types for n in (a, b) for v in variables(n)):
            return True
        a, b = self.expanded(a), self.expanded(b)
        return a == b or self.learnt_here().proves_equal(a, b)

    def expanded(self, s: Size) -> Size:
        return rename(s, {v: self.known[v] for v in variables(s) if v in self.known})

    def same_set(self, a: Set, b: Set) -> bool:
        if isinstance(a, Fin) and isinstance(b, Fin):
            return self.same_size(a.size, b.size)
        match a, b:
            case (SetVar() | EnumSet() | BoolSet() | UnitSet(), _):
                return a == b
            case (TupleSet(xs), TupleSet(ys)):
                return len(xs) == len(ys) and all(map(self.same_set, xs, ys))
            case (Range(l1, h1), Range(l2, h2)):
                return self.same_size(l1, l2) and self.same_size(h1, h2)
            case (Range(low, high), Fin(n)) | (Fin(n), Range(low, high)):
                return self.same_size(low, ZERO) and self.same_size(high, n)
            case (Reverse(x), Reverse(y)):
                return self.same_set(x, y)
            case (Sum(x, p), Sum(y, q)):
                return self.same_set(x, y) and self.same_set(p, q)
            case (Slice(x), Slice(y)):
                sizes = ((a.start, b.start), (a.step, b.step), (a.count, b.count))
                return self.same_set(x, y) and all(self.same_size(p, q) for p, q in sizes)
            case _:
                return False

    def same(self, a: Type, b: Type) -> bool:
        """Whether a value of one type is one of the other."""
        if a == b or a is _ANYTHING or b is _ANYTHING:
            return True
        match a, b:
            case (Index() | Scalar(DType.I64), Index() | Scalar(DType.I64)):
                return True
            case (Table(s), Table(r)) if (a.index, b.index) != (None, None):
                i = Var("i")
                with self.block():
                    self.index(i, s)
                    rows = self.same(cell_at(a, size(i)), cell_at(b, size(i)))
                return self.same_set(s, r) and rows
            case (Table(s, x), Table(r, y)):
                return self.same_set(s, r) and self.same(x, y)
            case (Tuple(xs), Tuple(ys)):
                return len(xs) == len(ys) and all(map(self.same, xs, ys))
            case (Reference(x), Reference(y)):
                return self.same(x, y)
            case (Function(ps, r), Function(qs, q)):
                return len(ps) == len(qs) and all(map(self.same, ps, qs)) and self.same(r, q)
            case (Exists(vs, x), Exists(us)) if len(vs) == len(us):
                return self.same(x, opened(b, tuple(map(size, vs))))
            case (Index(TupleSet() | UnitSet() | BoolSet() as s), _):
                return self.same(element(s), b)
            case (_, Index(TupleSet() | UnitSet() | BoolSet() as s)):
                return self.same(a, element(s))
            case _:
                return False

    def resolved(self, t: Type) -> Type:
        """The type with what its sizes are bound to in this block."""
        known = {v: self.known[v] for v in of_type(t) if v in self.known}
        return Substitution({}, {}, known).type(t) if known else t

    def expect(self, e: Expr, t: Type) -> None:
        found = self.type(e)
        if not self.same(found, t):
            raise self.broken(f"{show_type(found)} where {show_type(t)} is expected", e)

    # ------------------------------------------------------------ types

    def type(self, e: Expr) -> Type:
        """The type of an expression in what is in scope."""
        if not (isinstance(e, Let) or isinstance(e, Check)):  # noqa: SIM101
            return self.plain(e)
        with self.block():
            while True:
                if isinstance(e, Let):
                    self.let(e)
                    e = e.body
                elif isinstance(e, Check):
                    self.expect(e.condition, BOOL)
                    self.facts += self.learnt(e.condition, True)
                    e = e.then
                else:
                    return self.plain(e)

    def let(self, e: Let) -> None:
        t = self.type(e.value)
        self.types[e.var] = t
        if t != INT and not isinstance(t, Index):
            return
        poly = self.poly(e.value)
        whole = None if poly is None else self.expanded(poly)
        if whole is not None and weight(whole) <= HEAVY:
            self.known[e.var] = whole
        elif whole is not None:
            self.facts += (size(e.var) - whole, whole - size(e.var))
        elif isinstance(t, Index):
            self.member(size(e.var), t.set)

    def plain(self, e: Expr) -> Type:
        self.in_scope(size_variables(e), e)
        match e:
            case Ref():
                found = self.types.get(e.var)
                if found is None:
                    raise self.broken(f"`{e.var!r}` is not in scope")
                return found
            case At():
                t = self.type(e.table)
                if t is _ANYTHING:
                    return t
                held = t.cell if isinstance(t, Reference) else t
                if not isinstance(held, Table) or not self.same_set(held.set, e.set):
                    raise self.broken(f"{show_type(t)} is indexed by {show_type(Index(e.set))}", e)
                self.expect(e.index, element(e.set))
                cell = self.cell(held, e.index)
                return Reference(cell) if isinstance(t, Reference) else cell
            case Op():
                return self.operation(e)
            case Const(lit):
                return Scalar(lit.dtype)
            case ConstOf(_, t):
                return t
            case Number():
                return INT
            case Blank(t):
                return t
            case Lambda(params, body):
                with self.block():
                    for v, t in params:
                        self.types[v] = t
                    return Function(tuple(t for _, t in params), self.type(body))
            case Call(function, args):
                f = self.type(function)
                if not isinstance(f, Function) or len(f.params) != len(args):
                    raise self.broken(f"{show_type(f)} is called with {len(args)} arguments", e)
                for a, p in zip(args, f.params, strict=True):
                    self.expect(a, p)
                return f.result
            case Use(name, at):
                d = self.module.definitions.get(name)
                if d is None:
                    raise self.broken(f"`{name}` is not defined")
                missing = [
                    v.name
                    for v in (*(p.var for p in d.types), *d.sets, *d.sizes)
                    if v not in at.types and v not in at.sets and v not in at.sizes
                ]
                if missing:
                    raise self.broken(f"`{name}` is used without its {', '.join(missing)}")
                result = at.type(d.result)
                if d.constant:
                    return result
                return Function(tuple(at.type(p.type) for p in (*d.params, *d.hidden)), result)
            case Method(_, _, _, t, _):
                return t
            case Pack(items):
                return Tuple(tuple(self.type(x) for x in items))
            case Part(whole, k):
                t = self.type(whole)
                if t == _ANYTHING:
                    return t
                held = t.cell if isinstance(t, Reference) else t
                if not isinstance(held, Tuple) or not 0 <= k < len(held.items):
                    raise self.broken(f"{show_type(t)} has no component {k}", e)
                return Reference(held.items[k]) if isinstance(t, Reference) else held.items[k]
            case If(condition, then, otherwise):
                self.expect(condition, BOOL)
                with self.block():
                    self.facts += self.learnt(condition, True)
                    t = self.type(then)
                with self.block():
                    self.facts += self.learnt(condition, False)
                    self.expect(otherwise, t)
                return t
            case For(var, s, body):
                with self.block():
                    self.index(var, s)
                    cell = self.type(body)
                    return dependent(s, var, self.resolved(cell))
            case Literal(s, items):
                if not self.same_size(cardinality(s), size(len(items))):
                    raise self.broken(f"{len(items)} items for {cardinality(s)!r} places", e)
                if not items:
                    return Table(s, _ANYTHING)
                t = self.type(items[0])
                for x in items[1:]:
                    self.expect(x, t)
                return Table(s, t)
            case Recast(value, old, new, cell):
                before, after = (_product(sets) for sets in (old, new))
                if not self.same_size(before, after):
                    raise self.broken(f"{before!r} cells recast to {after!r}", e)
                self.expect(value, table(old, cell))
                return table(new, cell)
            case Reduce(monoid, var, s, init, value, t):
                if monoid not in MONOIDS or monoid == "last":
                    raise self.broken(f"no monoid `{monoid}`", e)
                best = monoid in PLACES
                if monoid in ORDERED:
                    self.expect(init, INT)
                elif not best:
                    self.expect(init, t)
                with self.block():
                    self.index(var, s)
                    self.expect(value, t)
                return element(s) if best else t
            case Loop(carried, time, span, condition, body):
                if condition is None and span is None:
                    raise self.broken("a loop without an end", e)
                self.starts(carried)
                with self.block():
                    held = self.held(carried)
                    if time is not None and span is not None:
                        self.index(time, span)
                    if condition is not None:
                        self.expect(condition, BOOL)
                    self.expect(body, held)
                return held
            case Scan(carried, time, s, body):
                self.starts(carried)
                with self.block():
                    held = self.held(carried)
                    self.index(time, s)
                    self.expect(body, held)
                return Table(s, held)
            case Derivative(forward, params, body, seed):
                self.starts(params)
                with self.block():
                    held = self.held(params)
                    t = self.type(body)
                for leaf in (*leaves(held), *leaves(t)):
                    if not _has_tangent(leaf):
                        raise self.broken(f"{show_type(leaf)} has no tangent", e)
                self.expect(seed, held if forward else t)
                return Tuple((t, t if forward else held))
            case Either(_, _, forward, reverse):
                t = self.type(reverse)
                self.expect(forward, t)
                return t
            case Custom(params, body, rules):
                self.starts(params)
                with self.block():
                    held = self.held(params)
                    t = self.type(body)
                    for r in rules:
                        self.types.update(r.given)
                        self.expect(r.body, t if r.forward else held)
                for leaf in (*leaves(held), *leaves(t)):
                    if not _has_tangent(leaf):
                        raise self.broken(f"{show_type(leaf)} has no tangent", e)
                return t
            case Checked(value, s):
                self.expect(value, INT)
                return element(s)
            case Handle(cells, body):
                for c in cells:
                    self.expect(c.start, c.type)
                    if c.operator is not None:
                        _, cell = axes(c.type)
                        self.expect(c.operator, Function((cell, cell), cell))
                with self.block():
                    for c in cells:
                        self.types[c.var] = Reference(c.type)
                    return Tuple((self.type(body), *(c.type for c in cells)))
            case Get(reference):
                return self.held_by(reference)
            case Assign(reference, value) | Add(reference, value):
                self.expect(value, self.held_by(reference))
                return UNIT
            case Throw(reference):
                self.expect(reference, Reference(BOOL))
                return UNIT
            case Print(world, parts, values):
                self.expect(world, Reference(INT))
                kinds = [p for p in parts if not isinstance(p, str)]
                for value, kind in zip(values, kinds, strict=True):
                    self.expect(value, kind)
                return UNIT
            case Quiet(body):
                return self.type(body)
            case Tell(world, values):
                self.expect(world, Reference(INT))
                for value in values:
                    if not isinstance(kind := self.type(value), Scalar | Index):
                        raise self.broken(f"{show_type(kind)} is told", e)
                return UNIT
            case Box(t, sizes, value):
                self.expect(value, opened(t, sizes))
                return t
            case Unbox(sizes, var, value, body):
                t = self.type(value)
                if not isinstance(t, Exists) or len(t.vars) != len(sizes):
                    raise self.broken(f"{show_type(t)} is opened", e)
                named = tuple(map(size, sizes))
                with self.block():
                    self.types.update(dict.fromkeys(sizes, INT))
                    self.facts += named
                    self.types[var] = opened(t, named)
                    result = self.type(body)
                self.in_scope(of_type(result), e)
                return result
            case Let() | Check():
                return self.type(e)

    def cell(self, t: Table, index: Expr) -> Type:
        """The type of a table's cell at an index."""
        if t.index is None:
            return t.cell
        place = self.poly(index)
        if place is None:
            raise self.broken("rows of unequal length are indexed by no name", index)
        return cell_at(t, place)

    def held_by(self, reference: Expr) -> Type:
        t = self.type(reference)
        if not isinstance(t, Reference):
            raise self.broken(f"{show_type(t)} is no reference", reference)
        return t.cell

    def starts(self, carried: tuple[Carried, ...]) -> None:
        for c in carried:
            self.expect(c.start, c.type)

    def held(self, carried: tuple[Carried, ...]) -> Type:
        for c in carried:
            self.types[c.var] = c.type
        types = tuple(c.type for c in carried)
        return types[0] if len(types) == 1 else Tuple(types)

    def operation(self, e: Op) -> Type:
        t = e.type
        if e.name in ("cast", "bitcast"):
            (arg,) = e.args
            found = self.type(arg)
            if not isinstance(found, Scalar | Index | TypeVar):
                raise self.broken(f"{show_type(found)} is cast", e)
            return t
        if e.name == "known":
            self.expect(e.args[0], BOOL)
            return BOOL
        prim = PRIMITIVES.get(e.name)
        if prim is None or len(e.args) != prim.arity:
            raise self.broken(f"no primitive `{e.name}` of {len(e.args)} operands", e)
        dtype = t.dtype if isinstance(t, Scalar) else DType.I64 if isinstance(t, Index) else None
        if dtype is None and not isinstance(t, TypeVar | Tuple):
            raise self.broken(f"`{e.name}` on {show_type(t)}", e)
        if dtype is not None and not _takes(prim.kind, dtype):
            raise self.broken(f"`{e.name}` on {show_type(t)}", e)
        operands = e.args
        if prim.kind is Kind.SELECT:
            self.expect(e.args[0], BOOL)
            operands = e.args[1:]
        for a in operands:
            self.expect(a, t)
        return BOOL if prim.result(DType.F64) is DType.BOOL else t

    # ------------------------------------------------------------ what is learnt

    def poly(self, e: Expr) -> Size | None:
        """An integer expression as a polynomial, if it is index arithmetic."""
        match e:
            case Number(value):
                return value
            case Ref(var) if isinstance(self.types.get(var), Index) or self.types.get(var) == INT:
                return size(var)
            case Const(Lit(int(value), DType.I64)):
                return size(value)
            case Op("cast", (arg,), t) if t == INT and not isinstance(arg, Const):
                return self.poly(arg)
            case Op("add" | "sub" | "mul" as name, (a, b), t) if t == INT:
                x, y = self.poly(a), self.poly(b)
                if x is None or y is None:
                    return None
                return x + y if name == "add" else x - y if name == "sub" else x * y
            case Op("floordiv" | "mod" as name, (a, b), t) if t == INT:
                x, y = self.poly(a), self.poly(b)
                if x is None or y is None or not y.terms:
                    return None
                return x // y if name == "floordiv" else x % y
            case Op("min" | "max" as name, (a, b), t) if t == INT:
                x, y = self.poly(a), self.poly(b)
                if x is None or y is None:
                    return None
                return x - natural(x - y) if name == "min" else y + natural(x - y)
            case Op("neg" | "abs" as name, (a,), t) if t == INT:
                x = self.poly(a)
                return x if x is None else -x if name == "neg" else natural(x) * 2 - x
            case Op("pow", (a, Const(Lit(int(k), DType.I64))), t) if t == INT and k in range(5):
                x = self.poly(a)
                return x if x is None else prod([x] * k, start=ONE)
            case Checked(value, SetVar(), True):
                return self.poly(value)
            case _:
                return None

    def learnt(self, condition: Expr, holds: bool) -> list[Size]:
        """Polynomials that are not negative where a condition holds, or where it does not."""
        match condition:
            case If(a, b, Const(Lit(False))) | Op("and", (a, b)) if holds:
                return self.learnt(a, True) + self.learnt(b, True)
            case If(a, Const(Lit(True)), b) | Op("or", (a, b)) if not holds:
                return self.learnt(a, False) + self.learnt(b, False)
            case Op("not", (a,)):
                return self.learnt(a, not holds)
            case Let(v, value, body):  # what a chain of comparisons mentions twice
                p = self.poly(value)
                if p is None:
                    return []
                with self.block():
                    self.types[v] = INT
                    return [rename(n, {v: p}) for n in self.learnt(body, holds)]
            case Op(name, (a, b)):
                x, y = self.poly(a), self.poly(b)
                if x is None or y is None:
                    return []
                if name in ("gt", "ge"):
                    x, y, name = y, x, {"gt": "lt", "ge": "le"}[name]
                match name, holds:
                    case ("lt", True):
                        return [y - x - 1]
                    case ("le", True):
                        return [y - x]
                    case ("lt", False):
                        return [x - y]
                    case ("le", False):
                        return [x - y - 1]
                    case ("eq", True) | ("ne", False):
                        return [x - y, y - x]
                    case _:
                        return []
            case _:
                return []


def _product(sets: tuple[Set, ...]) -> Size:
    out = ONE
    for s in sets:
        out = out * cardinality(s)
    return out


def _has_tangent(leaf: Type) -> bool:
    _, cell = runs(leaf)
    return isinstance(cell, TypeVar) or (isinstance(cell, Scalar) and cell.dtype.is_float)


def _takes(kind: Kind, dtype: DType) -> bool:
    match kind:
        case Kind.ARITH | Kind.COMPARE:
            return dtype is not DType.BOOL or kind is Kind.COMPARE
        case Kind.FLOAT | Kind.CLASSIFY:
            return dtype.is_float
        case Kind.INTEGER:
            return dtype.is_integer
        case Kind.LOGIC:
            return dtype is DType.BOOL
        case Kind.EQUAL | Kind.SELECT:
            return True
