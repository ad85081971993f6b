"""What a condition has just read is not read again by its round. loops → loops

    before   repeat:                                 after   repeat:
                 var v = 0.0                                      var v = 0.0
                 if j > 0: v := o[j - 1]                          if j > 0: v := o[j - 1]
             while v > x if j > 0 else False:                while v > x if j > 0 else False:
                 store o[j] = o[j - 1]                            store o[j] = v
                 j := j - 1                                       j := j - 1

An element that is moved while it is too large: sorting by insertion, heaps. Nothing is written to
the array, and nothing changes where the element lies, from the one to the other.
"""

from __future__ import annotations

from naperian.loops.syntax import (
    Apply,
    Assign,
    Expr,
    Let,
    Load,
    Local,
    Stmt,
    Store,
    Variable,
    When,
    While,
)
from naperian.loops.walk import assigned, blocks, conjuncts, rebuild_loops, used, writes
from naperian.names import Var

_Known = dict[Load, Var]  # what holds an element


def reread(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of a program; see the module."""
    return tuple(
        _round(x) if isinstance(x, While) else x for x in (rebuild_loops(s, reread) for s in body)
    )


def _round(s: While) -> While:
    changed = frozenset().union(*map(assigned, s.head))
    holds = [e for e in conjuncts(s.condition) if changed.isdisjoint(used(e))]
    known: _Known = {}
    for x in s.head:
        inner = x.then if isinstance(x, When) and x.condition in holds else (x,)
        for y in inner:
            _forget(known, y)
            match y:
                case Let(v, _, Load() as e):
                    if y is x:  # what is bound inside is no longer there
                        known[e] = v
                case Assign(v, Load() as e):
                    known[e] = v
                case _:
                    pass
        if isinstance(x, When) and inner is x.then:
            for z in x.otherwise:
                _forget(known, z)
    return While(s.head, s.condition, _block(s.body, known)) if known else s


def _block(body: tuple[Stmt, ...], known: _Known) -> tuple[Stmt, ...]:
    """Statements that read what is known from where it is; what they change is known no more."""
    out: list[Stmt] = []
    for s in body:
        match s:
            case Let(v, dtype, value):
                out.append(Let(v, dtype, _expr(value, known)))
            case Variable(v, dtype, value):
                out.append(Variable(v, dtype, _expr(value, known)))
            case Assign(v, value):
                out.append(Assign(v, _expr(value, known)))
            case Store(v, at, value):
                out.append(Store(v, at, _expr(value, known)))
            case When(condition, then, otherwise):
                sides = (_block(then, dict(known)), _block(otherwise, dict(known)))
                out.append(When(_expr(condition, known), *sides))
            case _:
                out.append(s)
        _forget(known, s)
    return tuple(out)


def _expr(e: Expr, known: _Known) -> Expr:
    match e:
        case Load() if e in known:
            return Local(known[e])
        case Apply(name, args, dtype, operand):
            return Apply(name, tuple(_expr(x, known) for x in args), dtype, operand)
        case _:
            return e


def _forget(known: _Known, s: Stmt) -> None:
    """What a statement changes is known no more."""
    changed = assigned(s)
    rest = [s]
    while rest:
        x = rest.pop()
        to = writes(x)
        changed |= frozenset() if to is None else {to}
        rest += (y for block in blocks(x) for y in block)
    for e, v in list(known.items()):
        if v in changed or not changed.isdisjoint(used(e)):
            del known[e]
