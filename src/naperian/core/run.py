"""The meaning of core: an interpreter, written for clarity.

Lets, checks and the taken side of a conditional are walked in a loop, so a long block needs no
deep stack; only nesting does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from naperian.broken import Broken
from naperian.core import custom
from naperian.core.bounds import bounds
from naperian.core.dual import (
    Dual,
    Tape,
    Traced,
    below,
    highest,
    kind,
    primal,
    tangent,
)
from naperian.core.exact import applied, as_number, exact, rebuilt, regroup, scalars
from naperian.core.instances import resolve
from naperian.core.methods import WriteOut, is_data
from naperian.core.places import HEARD, Outside, Place, RunError, Slot, told
from naperian.core.resolve import Resolve
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
from naperian.core.values import Value, blank, count, element_at, ordinal
from naperian.dtypes import DType
from naperian.lines import Write, form_of
from naperian.names import Var
from naperian.node import node
from naperian.prims import ORDERED, PLACES, in_order, places_in_order, quiet, scalar
from naperian.sizes import Atom, Size, evaluate, size, substitute
from naperian.substitution import Substitution
from naperian.types import (
    Exists,
    Fin,
    Function,
    Index,
    Scalar,
    Set,
    SetVar,
    Table,
    Tuple,
    TupleSet,
    Type,
    TypeVar,
    UnitSet,
)


def run(
    module: Module, name: str, args: Sequence[Value], at: Substitution,
    write: Write = print,
) -> Value:
    """The value of a definition on these arguments; `at` gives its type, set and size variables
    closed types, closed sets and numbers. Each line that it prints is given to `write`."""
    definition = module.definitions[name]
    outside = [Outside(write) for _ in definition.hidden]
    bound = bounds()
    with quiet() if bound is None else bound.noting():
        result = _apply(module, definition, at, (*args, *outside))
    scope = _scope(module, definition, at)
    scope.values.update(zip((p.var for p in definition.params), args, strict=True))
    return exact(result, scope.type(definition.result))


@node
class Scope:
    """Values of the variables in scope; sizes and the sizes of set variables are among them."""

    module: Module
    at: Substitution
    values: dict[Var, Value]

    def inner(self) -> Scope:
        return Scope(self.module, self.at, dict(self.values))

    def with_(self, out: WriteOut) -> Scope:
        """With the types and sets that what was written out names."""
        at = self.at.and_(Substitution(out.types, out.sets, {}))
        sizes = {v: count(s) for v, s in out.sets.items()}
        return Scope(self.module, at, {**self.values, **sizes})

    def number(self, s: Size) -> int:
        return evaluate(s, self.atom)

    def atom(self, a: Atom) -> int:
        assert isinstance(a, Var)
        return int(self.values[a])

    def _resolve(self) -> Resolve:
        def number(s: Size, bound: frozenset[Var]) -> Size:
            if not bound:
                return size(self.number(s))
            return substitute(s, lambda a: None if a in bound else size(self.atom(a)))

        return Resolve(
            number,
            self.at.sets.__getitem__,
            self.at.types.__getitem__,
        )

    def set(self, s: Set) -> Set:
        """The set with numbers for sizes."""
        if isinstance(s, SetVar):
            return self.at.sets[s.var]
        if isinstance(s, Fin):
            return s if s.size.constant is not None else Fin(size(self.number(s.size)))
        return self._resolve().set(s)

    def type(self, t: Type) -> Type:
        if isinstance(t, TypeVar):
            return self.at.types[t.var]
        return t if isinstance(t, Scalar) else self._resolve().type(t)

    def substitution(self, at: Substitution) -> Substitution:
        r = self._resolve()
        return Substitution(
            {v: r.type(t) for v, t in at.types.items()},
            {v: r.set(s) for v, s in at.sets.items()},
            {v: r.size(n) for v, n in at.sizes.items()},
        )


def _scope(module: Module, definition: Definition, at: Substitution) -> Scope:
    values: dict[Var, Value] = {v: count(s) for v, s in at.sets.items()}
    for v, n in at.sizes.items():
        if n.constant is None:
            raise Broken(f"{definition.name}: the size {v.name} is not a number")
        values[v] = n.constant
    return Scope(module, at, values)


def _apply(
    module: Module, definition: Definition, at: Substitution, args: Sequence[Value]
) -> Value:
    scope = _scope(module, definition, at)
    params = (*definition.params, *definition.hidden)
    if any(isinstance(s, TupleSet | UnitSet) for s in at.sets.values()):
        args = [_element(p.type, a, scope) for p, a in zip(params, args, strict=True)]
    scope.values.update(zip((p.var for p in params), args, strict=True))
    return _value(custom.body(definition), scope)


def _element(t: Type, value: Value, scope: Scope) -> Value:
    """A value for a parameter of type `t`: elements of a set of tuples that the caller chose know
    their ordinals from here on."""
    match t:
        case Index(SetVar() as chosen):
            s = scope.set(chosen)
            return element_at(s, ordinal(s, value)) if isinstance(s, TupleSet | UnitSet) else value
        case Table(_, cell):
            return [_element(cell, x, scope) for x in value]
        case Tuple(items):
            return tuple([_element(x, v, scope) for x, v in zip(items, value, strict=True)])
        case Exists(_, body):
            sizes, inside = value
            return sizes, _element(body, inside, scope)
        case Function(_, result):
            return lambda *args: _element(result, value(*args), scope)
        case _:
            return value


def _value(e: Expr, scope: Scope) -> Value:
    if type(e) not in _BLOCKS:
        return _plain(e, scope)
    entered = False
    while True:
        match e:
            case Let(var, value, body):
                v = _value(value, scope)
                if not entered:
                    scope, entered = scope.inner(), True
                scope.values[var] = v
                e = body
            case Unbox(sizes, var, value, body):
                numbers, v = _value(value, scope)
                if not entered:
                    scope, entered = scope.inner(), True
                scope.values.update(zip(sizes, numbers, strict=True))
                scope.values[var] = v
                e = body
            case If(condition, then, otherwise):
                e = then if _value(condition, scope) else otherwise
            case Check(condition, message, then, origin):
                if not _value(condition, scope):
                    raise RunError(message, origin)
                e = then
            case _:
                return _plain(e, scope)


_BLOCKS = frozenset({Let, Unbox, If, Check})


def _is_data(t: Type, scope: Scope) -> bool:
    t = scope.type(t)
    return not isinstance(t, Scalar) and is_data(scope.module, t)


def _written_out(e: ConstOf | Op | Reduce, t: Type, scope: Scope) -> Value:
    """An operation at a type that is no scalar."""
    out = WriteOut(scope.module)
    match e:
        case ConstOf():
            written = out.constant(e, t)
        case Op():
            written = out.op(e, t)
        case Reduce():
            written = out.reduce(e, t)
    return _value(written, scope.with_(out))


def _used(module: Module, name: str, at: Substitution) -> Value:
    """A definition at closed types, sets and sizes: a function, or the value of a constant."""
    definition = module.definitions[name]
    if definition.constant:
        return _apply(module, definition, at, ())
    return lambda *args: _apply(module, definition, at, args)


def _plain(e: Expr, scope: Scope) -> Value:
    match e:
        case Ref(var):
            return scope.values[var]
        case Const(lit):
            return scalar(lit.value, lit.dtype)
        case Op(name, args, Scalar(dtype)):
            return applied(name, [_value(a, scope) for a in args], dtype)
        case At(table, index, s):
            whole, k = _value(table, scope), _ordinal(s, _value(index, scope), scope)
            return whole.at(k) if isinstance(whole, Place) else whole[k]
        case (ConstOf() | Op() | Reduce()) if _is_data(e.type, scope):
            return _written_out(e, scope.type(e.type), scope)
        case Op(name, args, t):
            return applied(name, [_value(a, scope) for a in args], _dtype(t, scope))
        case ConstOf(value, t):
            return scalar(value, _dtype(t, scope))
        case Number(value):
            return evaluate(value, scope.atom, wraps=True)
        case Blank(t):
            return blank(scope.type(t))
        case Lambda(params, body):
            return _closure([v for v, _ in params], body, scope.inner())
        case Use(name, at):
            return _used(scope.module, name, scope.substitution(at))
        case Method(_, _, types, _, at):
            closed = tuple([scope.type(t) for t in types])
            chosen = resolve(scope.module, e, closed)
            if chosen is None:
                out = WriteOut(scope.module)
                return _value(out.function(e, closed[0]), scope.with_(out))
            return _used(scope.module, chosen[0], chosen[1].and_(scope.substitution(at)))
        case Call(function, args):
            return _value(function, scope)(*[_value(a, scope) for a in args])
        case Pack(items):
            return tuple([_value(x, scope) for x in items])
        case Part(whole, number):
            return _value(whole, scope)[number]
        case For(var, s, body):
            s, inner = scope.set(s), scope.inner()
            cells = []
            for k in _visited(s):
                inner.values[var] = element_at(s, k)
                cells.append(_value(body, inner))
            return cells
        case Literal(_, items):
            return [_value(x, scope) for x in items]
        case Recast(value, old, new, _):
            cells = [_value(value, scope)]
            for _ in old:
                cells = [x for row in cells for x in row]
            return regroup(iter(cells), [count(scope.set(s)) for s in new])
        case Reduce():
            return _reduce(e, scope)
        case Loop():
            return _loop(e, scope)
        case Scan():
            return _scan(e, scope)
        case Derivative():
            return _derivative(e, scope)
        case Either(_, _, _, reverse):
            return _value(reverse, scope)
        case Custom(params):
            starts = [exact(_value(p.start, scope), scope.type(p.type)) for p in params]
            return _custom(e, tuple(starts), scope)
        case Checked(value, s, _, origin):
            k, n = int(_value(value, scope)), count(scope.set(s))
            if not 0 <= k < n:
                raise RunError(f"index {k} is out of range for an axis of size {n}", origin)
            return element_at(scope.set(s), k)
        case Handle(cells, body):
            slots = tuple(_open(c, scope) for c in cells)
            inner = scope.inner()
            inner.values.update((c.var, Place(s)) for c, s in zip(cells, slots, strict=True))
            return (_value(body, inner), *(s.value for s in slots))
        case Get(reference):
            return _value(reference, scope).get()
        case Assign(reference, value):
            new = _value(value, scope)
            _value(reference, scope).put(new)
            return ()
        case Add(reference, value):
            new = _value(value, scope)
            place = _value(reference, scope)
            place.put(place.slot.combine(place.type, place.get(), new))
            return ()
        case Throw(reference, origin):
            _value(reference, scope).throw(origin)
            return ()
        case Print() if not HEARD.get():
            return ()
        case Print(world, parts, values):
            kinds = [scope.type(p) for p in parts if not isinstance(p, str)]
            given = [_value(v, scope) for v in values]
            flat = [x for v, t in zip(given, kinds, strict=True) for x in told(v, t)]
            line = tuple(p if isinstance(p, str) else form_of(scope.type(p)) for p in parts)
            _value(world, scope).told.tell(flat, line)
            return ()
        case Quiet(body):
            before = HEARD.set(False)
            try:
                return _value(body, scope)
            finally:
                HEARD.reset(before)
        case Tell(world, values, line):
            _value(world, scope).told.tell([primal(_value(v, scope)) for v in values], line)
            return ()
        case Box(_, sizes, value):
            return tuple(map(scope.number, sizes)), _value(value, scope)
        case Let() | If() | Check() | Unbox():
            return _value(e, scope)


def _ordinal(s: Set, index: Value, scope: Scope) -> int:
    """Where the cell at `index` is stored, of the first n at the number that it is."""
    if type(s) is Fin and type(index) is int:
        return index
    return ordinal(scope.set(s), index)


def _open(c: Cell, scope: Scope) -> Slot:
    t = scope.type(c.type)
    operator = None if c.operator is None else _value(c.operator, scope)

    def combine(t: Type, old: Value, new: Value) -> Value:
        match t:
            case Table(_, cell):
                return [combine(cell, x, y) for x, y in zip(old, new, strict=True)]
            case _ if operator is not None:
                return operator(old, exact(new, t))
            case Tuple(items):
                return tuple(combine(x, *ab) for x, *ab in zip(items, old, new, strict=True))
            case _:
                return applied(c.monoid, [old, new], _dtype(t, scope))

    return Slot(exact(_value(c.start, scope), t), t, combine)


def _visited(s: Set) -> range:
    """The ordinals of a set, each of which is gone through."""
    n, bound = count(s), bounds()
    if bound is not None:
        bound.visit(n)
    return range(n)


def _closure(params: list[Var], body: Expr, scope: Scope) -> Any:
    def call(*args: Value) -> Value:
        inner = scope.inner()
        inner.values.update(zip(params, args, strict=True))
        return _value(body, inner)

    return call


def _dtype(t: Type, scope: Scope) -> DType:
    match scope.type(t) if isinstance(t, TypeVar) else t:
        case Scalar(dtype):
            return dtype
        case Index():
            return DType.I64
        case other:
            raise Broken(f"a scalar operation on {other!r}")


def _reduce(e: Reduce, scope: Scope) -> Value:
    s, inner, dtype = scope.set(e.set), scope.inner(), _dtype(e.type, scope)
    if e.monoid in PLACES or e.monoid in ORDERED:
        values = []
        for k in _visited(s):
            inner.values[e.var] = element_at(s, k)
            values.append(as_number(primal(_value(e.value, inner)), dtype))
        if e.monoid in ORDERED:
            place = int(as_number(_value(e.init, scope), DType.I64))
            if e.monoid == "nth":
                return in_order(values, dtype)[place]
            return element_at(s, int(places_in_order(values, dtype)[place]))
        best = getattr(np, e.monoid)(values) if values else 0
        return element_at(s, int(best))
    total = as_number(_value(e.init, scope), dtype)
    for k in _visited(s):
        inner.values[e.var] = element_at(s, k)
        total = applied(e.monoid, [total, _value(e.value, inner)], dtype)
    return total


def _start(carried: tuple[Carried, ...], scope: Scope) -> Scope:
    inner = scope.inner()
    for c in carried:
        inner.values[c.var] = exact(_value(c.start, scope), scope.type(c.type))
    return inner


def _carry(carried: tuple[Carried, ...], inner: Scope, body: Expr) -> None:
    """All carried variables become the body's values at once."""
    new = _value(body, inner)
    values = new if len(carried) != 1 else (new,)
    for c, v in zip(carried, values, strict=True):
        inner.values[c.var] = exact(v, inner.type(c.type))


def _held(carried: tuple[Carried, ...], inner: Scope) -> Value:
    values = tuple(inner.values[c.var] for c in carried)
    return values if len(values) != 1 else values[0]


def _loop(e: Loop, scope: Scope) -> Value:
    inner = _start(e.carried, scope)
    s = None if e.set is None else scope.set(e.set)
    bound = bounds()
    for k in itertools.count() if s is None else _visited(s):
        if bound is not None:
            bound.spend(0 if e.condition is None else 1)
        if e.time is not None and s is not None:
            inner.values[e.time] = element_at(s, k)
        if e.condition is not None and not _value(e.condition, inner):
            break
        _carry(e.carried, inner, e.body)
    return _held(e.carried, inner)


def _scan(e: Scan, scope: Scope) -> Value:
    inner, s = _start(e.carried, scope), scope.set(e.set)
    rounds = []
    for k in _visited(s):
        inner.values[e.time] = element_at(s, k)
        before = _held(e.carried, inner)
        _carry(e.carried, inner, e.body)
        rounds.append(before if e.exclusive else _held(e.carried, inner))
    return rounds


_levels = itertools.count()  # derivatives around one began earlier


def _derivative(e: Derivative, scope: Scope) -> Value:
    """Forward by numbers with tangents, in reverse by a tape."""
    types = [scope.type(p.type) for p in e.params]
    pairs = zip(e.params, types, strict=True)
    starts = tuple([exact(_value(p.start, scope), t) for p, t in pairs])
    seed = _value(e.seed, scope)
    at, level = list(scalars(starts)), next(_levels)

    def body(numbers: Iterator[Value]) -> Value:
        inner = scope.inner()
        for p, x in zip(e.params, starts, strict=True):
            inner.values[p.var] = rebuilt(x, numbers)
        return _value(e.body, inner)

    if e.forward:
        along = scalars(exact(seed, types[0] if len(types) == 1 else Tuple(tuple(types))))
        value = body(iter([Dual(level, x, d) for x, d in zip(at, along, strict=True)]))
        back = rebuilt(value, iter([tangent(x, level) for x in scalars(value)]))
    else:
        value, cotangents = _pulled(body, at, seed, level)
        sides = rebuilt(starts, iter(cotangents))
        back = sides if len(sides) != 1 else sides[0]
    return rebuilt(value, iter([below(x, level) for x in scalars(value)])), back


def _pulled(
    f: Callable[[Iterator[Value]], Value], at: list[Value], seed: Value, level: int
) -> tuple[Value, list[Value]]:
    """A function's value at these numbers, and their cotangents for one of the value."""
    tape = Tape(level)
    traced = [tape.number(x) for x in at]
    value = f(iter(traced))
    found = tape.back(zip(scalars(value), scalars(seed), strict=True))
    return value, [found.get(x.place, scalar(0.0, kind(x))) for x in traced]


def _custom(e: Custom, starts: tuple[Value, ...], scope: Scope) -> Value:
    """The body's value at `starts`; it varies as the rule says."""
    inner = scope.inner()
    inner.values.update(zip((p.var for p in e.params), starts, strict=True))
    at = list(scalars(starts))
    top = highest(at)
    if top is None:
        return _value(e.body, inner)
    level = top.level
    outside = rebuilt(starts, iter([below(x, level) for x in at]))
    value = _custom(e, outside, scope)
    inner.values.update(zip((p.var for p in e.params), outside, strict=True))

    own = e.rule(isinstance(top, Dual))

    def rule(numbers: Iterator[Value]) -> Value:
        """The rule, given a tangent of all parameters or a cotangent of the value."""
        like = outside if own.forward else (value,)
        here = inner.inner()
        for (v, _), x in zip(own.given, like, strict=True):
            here.values[v] = rebuilt(x, numbers)
        return _value(own.body, here)

    def transposed(seed: list[Value]) -> Iterator[Value]:
        zeros = [scalar(0.0, kind(x)) for x in scalars(outside if own.forward else value)]
        _, found = _pulled(rule, zeros, seed, next(_levels))
        return iter(found)

    if isinstance(top, Dual):
        along = [tangent(x, level) for x in at]
        tangents = scalars(rule(iter(along))) if own.forward else transposed(along)
        made = [Dual(level, y, d) for y, d in zip(scalars(value), tangents, strict=True)]
        return rebuilt(value, iter(made))
    assert isinstance(top, Traced)
    numbers = list(scalars(value))

    def pull(given: list[Value | None]) -> Iterator[tuple[Traced, Value]]:
        seed = [
            scalar(0.0, kind(y)) if v is None else v for v, y in zip(given, numbers, strict=True)
        ]
        back = transposed(seed) if own.forward else scalars(rule(iter(seed)))
        for x, v in zip(at, back, strict=True):
            if isinstance(x, Traced) and x.level == level:
                yield x, v

    return rebuilt(value, iter(top.tape.step(numbers, pull)))
