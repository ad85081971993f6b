"""One definition at one instance, closed and first order. core → core

    def twice(f, x) = f(f(x))                      def g(p.0: Float, p.1: Float) =
    def g(p: (Float, Float)) =            →            let y = add(p.0, p.1)
        twice(lambda z: z * z, p.0 + p.1)              let t = mul(y, y)
                                                       mul(t, t)

Normalisation by evaluation, with sharing: `evaluate` computes what the body denotes and leaves
the remaining work as statements; `tidy` drops those that turned out to be unused and writes those
used once in place. Establishes: no Lambda, Call, Use, ConstOf and Recast; a parameter and a result
per leaf (`leaves`), so that tables hold scalars; every variable bound once. In a loop whose body
is itself a loop or a conditional with several results, those are held as one table of tuples,
which is read only as `part(t[i], k)`.
"""

from __future__ import annotations

from collections.abc import Iterator

from naperian.broken import Broken
from naperian.core.syntax import (
    Box,
    Cell,
    Check,
    Definition,
    Expr,
    Handle,
    Let,
    Module,
    Param,
    Part,
    Ref,
    Use,
)
from naperian.core.walk import everything
from naperian.leaves import leaves
from naperian.names import Var
from naperian.node import replace
from naperian.passes.normal.denote import (
    TRUE,
    Entry,
    Env,
    Leaf,
    box_sizes,
    data,
    number,
)
from naperian.passes.normal.evaluate import Evaluate
from naperian.passes.normal.given import given
from naperian.passes.normal.tables import apart, closed, conformed
from naperian.passes.normal.tidy import tidy
from naperian.prims import Math
from naperian.sizes import ZERO, Size, size, variables
from naperian.substitution import Substitution, boxed
from naperian.types import (
    BOOL,
    INT,
    Exists,
    Table,
    Tuple,
    Type,
    cardinality,
)


def normalize(module: Module, name: str, at: Substitution) -> Definition:
    """The definition with its type variables, set variables and sizes as `at` has them: closed
    types, concrete sets, and sizes over the size variables of the result."""
    math = _math(module, _used(module, name), name)
    d = module.definitions[name]
    ev = Evaluate(module)
    w = ev.w
    own: dict[Var, Entry] = {**at.types, **at.sets}
    own |= {v: Leaf(number(n), INT) for v, n in at.sizes.items()}
    own |= {v: Leaf(Ref(v), INT) for v in d.sizes if v not in at.sizes}
    env = Env(own)
    r = ev.resolve(env)
    params: list[Param] = []
    sizes = _sizes(d, at)
    w.places.sizes = frozenset(sizes)
    for p in d.params:
        made = given(p.name, r.type(p.type))
        params += made.params
        sizes = (*sizes, *made.sizes)  # what it hides are sizes like any other
        own[p.var] = made.value
    whole = d.body
    for p in d.hidden:
        if p.name == "IO":
            world = Cell(p.var, INT, number(ZERO), "last", None, True)
            whole = Part(Handle((world,), whole, d.origin), 0)
        else:  # nothing was thrown, and nothing handles it
            own[p.var] = Leaf(TRUE, BOOL)
    result = r.type(d.result)
    value = ev.expr(whole, env, name)
    flat = leaves(result)
    parts = apart(value)
    if len(parts) != len(flat):
        parts = data(conformed(value, result))
    t: Type = flat[0] if len(flat) == 1 else Tuple(flat)
    body = closed(w, w.root, parts)
    if (hidden := tuple(boxed(result))):
        t = Exists(hidden, t)
        body = _boxed(body, t, tuple(_hidden(result, iter(box_sizes(value)))))
    out = Definition(
        name=d.name,
        types=(),
        sets=(),
        sizes=sizes,
        params=tuple(params),
        result=t,
        facts=tuple((r.size(n), text) for n, text in d.facts),
        implicit=_sizes(d, at, d.implicit),
        body=tidy(body, t, w.staying),
        doc=d.doc,
        constant=d.constant,
        origin=d.origin,
        math=math,
    )
    del ev.accumulators  # which calls it
    return out


def _math(module: Module, used: set[str], name: str) -> Math:
    """What may be done with the arithmetic of a definition and of all that is taken into it: what
    its own mark says; but where it uses one that is strict, all of it is."""
    if any(module.definitions[f].math is Math.STRICT for f in used):
        return Math.STRICT
    return module.definitions[name].math


def _hidden(t: Type, sizes: Iterator[Size], each: bool = False) -> Iterator[Size]:
    """What a result's boxes hide: their sizes; of a table of boxes each has its own, and the name
    stands for itself."""
    match t:
        case Exists(vars, body):
            yield from (size(v) if each else next(sizes) for v in vars)
            yield from _hidden(body, sizes, each)
        case Table(_, cell):
            yield from _hidden(cell, sizes, True)
        case Tuple(items):
            for x in items:
                yield from _hidden(x, sizes, each)
        case _:
            pass


def _boxed(body: Expr, t: Exists, sizes: tuple[Size, ...]) -> Expr:
    """A block whose value is put into a box."""
    match body:
        case Let(var, value, rest):
            return Let(var, value, _boxed(rest, t, sizes))
        case Check(_, _, then):
            return replace(body, then=_boxed(then, t, sizes))
        case _:
            return Box(t, sizes, body)


def _sizes(d: Definition, at: Substitution, of: tuple[Var, ...] | None = None) -> tuple[Var, ...]:
    """The size variables that those of a definition became, in its order."""
    out: dict[Var, None] = {}
    for v in (*d.sets, *d.sizes) if of is None else of:
        if v in at.sets:
            out |= dict.fromkeys(variables(cardinality(at.sets[v])))
        elif v in at.sizes:
            out |= dict.fromkeys(variables(at.sizes[v]))
        else:
            out[v] = None
    return tuple(out)


def _used(module: Module, name: str) -> set[str]:
    """A definition and those it uses. They use only earlier ones, so that evaluation comes to an
    end."""
    place = {f: k for k, f in enumerate(module.definitions)}
    found, rest = {name}, [name]
    while rest:
        f = rest.pop()
        for e in everything(module.definitions[f].body):
            if isinstance(e, Use):
                if place[e.name] >= place[f]:
                    raise Broken(f"`{f}` uses `{e.name}`, which is not defined before it")
                if e.name not in found:
                    found.add(e.name)
                    rest.append(e.name)
    return found
