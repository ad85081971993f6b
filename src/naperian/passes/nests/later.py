"""An element of a copy is changed after what still reads the original. loops → loops

    before   for i in 0..n: store v[i] = s[i]      after   for i in 0..n: store v[i] = s[i]
             store v[k] = x                                 y = s[k] + 1
             y = s[k] + 1                                   fail 1 if s[j] < 0
             fail 1 if s[j] < 0                             store v[k] = x

So the copy and the original can be one array (`coalesce`): a change that the program makes before
it asks for what was there need not be made first. What the next store in a row puts there is asked
for by itself, so that two elements or rows can be exchanged:

    store v[i] = s[j]       ⇒       y = s[j]
    store v[j] = s[i]               z = s[i]
                                    store v[i] = y
                                    store v[j] = z

So is what is put into a copy of a copy, under the same conditions:

    store v[i] = 0.0                        y = s[i]
    for j in 0..n: store w[j] = v[j]    ⇒   store v[i] = 0.0
    update w[i] += s[i]                     for j in 0..n: store w[j] = v[j]
                                            update w[i] += y
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Expr,
    Fail,
    Let,
    Load,
    Local,
    Loop,
    Program,
    Stmt,
    Store,
    Update,
    Variable,
    When,
)
from naperian.loops.walk import loads, reads, rebuild, statements, used, writes
from naperian.names import Var, zero
from naperian.node import replace
from naperian.passes.nests.whole import arrays, copies


def later(program: Program) -> Program:
    """See the module."""
    every = [*statements(program.body)]
    buffers = [*program.buffers, *(s.buffer for s in every if isinstance(s, Allocate))]
    known = arrays(program)
    dtypes = {b.var: b.dtype for b in buffers}
    originals: dict[Var, set[Var]] = {}
    for s in every:
        for to, of in copies(s, known):
            originals.setdefault(to, set()).add(of)
    ancestors = {v: _ancestors(v, originals) for v in originals}

    def block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        before = _asked_before([*body], ancestors, dtypes)
        out = _asked_first([rebuild(s, block) for s in before], originals, dtypes)
        for k in reversed(range(len(out))):
            s = out[k]
            if isinstance(s, Store | Update) and s.buffer in originals:
                end = _last(out, k, originals[s.buffer])
                out[k : end + 1] = [*out[k + 1 : end + 1], s]
        return tuple(out)

    return replace(program, body=block(program.body)) if originals else program


def _last(body: list[Stmt], k: int, originals: set[Var]) -> int:
    """The last statement behind a store that reads an original and may come before it; the store
    itself if there is none. What is added to an element is a store, too."""
    store, last = body[k], k
    assert isinstance(store, Store | Update)
    wanted = reads(store)
    for n in range(k + 1, len(body)):
        inside = statements(body[n : n + 1])
        if not all(_is_plain(s, store.buffer, wanted) for s in inside):
            break
        if any(x.buffer in originals for s in inside for x in loads(s)):
            last = n
    return last


def _is_plain(s: Stmt, copy: Var, wanted: frozenset[Var]) -> bool:
    """Whether a statement neither reads a copy nor changes what is `wanted`."""
    match s:
        case Let() | Variable() | Fail() | Loop() | When() | Allocate():
            return copy not in reads(s)
        case Assign(v) | Store(v) | Update(v):
            return copy != v and copy not in reads(s) and v not in wanted
        case _:
            return False


def _asked_first(
    body: list[Stmt], originals: dict[Var, set[Var]], dtypes: dict[Var, DType]
) -> list[Stmt]:
    """A block in which what several stores put into a copy is read from its original before."""
    stored = Counter(s.buffer for s in body if isinstance(s, Store))
    several = {v for v, n in stored.items() if n > 1 and v in originals}
    if not several:
        return body
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Store) and s.buffer in several:
            if any(x.buffer in originals[s.buffer] for x in loads(s)):
                value = Let(Var("v"), dtypes[s.buffer], s.value)
                out.append(value)
                s = replace(s, value=Local(value.var))
        out.append(s)
    return out


def _ancestors(v: Var, originals: dict[Var, set[Var]]) -> set[Var]:
    """What an array is a copy of, and what that is one of."""
    found, todo = {v}, [v]
    while todo:
        more = originals.get(todo.pop(), set()) - found
        found |= more
        todo += more
    return found - {v}


def _asked_before(
    body: list[Stmt], ancestors: dict[Var, set[Var]], dtypes: dict[Var, DType]
) -> list[Stmt]:
    """A block in which what is put into a copy of a copy is read from the original before that is
    changed in one of them."""
    changes = [[x for x, _ in _changed(s, ()) if x.buffer in ancestors] for s in body]
    before: dict[int, list[Stmt]] = {}
    out = list(body)
    for k, s in enumerate(body):
        for x, under in _changed(s, ()):
            names: dict[Load, Var] = {}
            for read in dict.fromkeys(loads(x)):
                if read.buffer not in ancestors.get(x.buffer, ()):
                    continue
                copies_ = {v for v in ancestors if read.buffer in ancestors[v]}
                at = next(n for n in range(k + 1) if any(y.buffer in copies_ for y in changes[n]))
                needed = {v for e in (read, *under) for v in used(e)}
                between = statements(body[at:k])
                if any(isinstance(y, Fail) or _makes(y) & needed for y in between) or at == k:
                    continue
                v = names[read] = Var("v")
                dtype = dtypes[read.buffer]
                asked: tuple[Stmt, ...] = (Let(v, dtype, read),)
                if under:
                    asked = (Assign(v, read),)
                    for e in reversed(under):
                        asked = (When(e, asked, ()),)
                    asked = (Variable(v, dtype, zero(dtype)), *asked)
                before.setdefault(at, []).extend(asked)
            if names:
                out[k] = _with(out[k], x, names)
    return [y for k, s in enumerate(out) for y in (*before.get(k, ()), s)]


def _changed(s: Stmt, under: tuple[Expr, ...]) -> Iterator[tuple[Store | Update, tuple[Expr, ...]]]:
    """The elements that a statement changes that is no loop, and under which conditions."""
    match s:
        case Store() | Update():
            yield s, under
        case When(condition, then, ()):
            for x in then:
                yield from _changed(x, (*under, condition))
        case _:
            pass


def _makes(s: Stmt) -> set[Var]:
    """The names that a statement gives a value, or another one."""
    match s:
        case Let(v) | Variable(v) | Assign(v) | Loop(v):
            return {v}
        case _:
            to = writes(s)
            return set() if to is None else {to}


def _with(s: Stmt, x: Store | Update, names: dict[Load, Var]) -> Stmt:
    """A statement in which one that changes an element has names for what it reads."""
    if s is x:
        return replace(x, value=_put(x.value, names))
    return rebuild(s, lambda body: tuple(_with(y, x, names) for y in body))


def _put(e: Expr, names: dict[Load, Var]) -> Expr:
    match e:
        case Load() if e in names:
            return Local(names[e])
        case Apply():
            return replace(e, args=tuple(_put(a, names) for a in e.args))
        case _:
            return e
