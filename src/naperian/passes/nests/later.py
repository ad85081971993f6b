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
"""

from __future__ import annotations

from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Assign,
    Fail,
    Let,
    Local,
    Loop,
    Program,
    Stmt,
    Store,
    Update,
    Variable,
    When,
)
from naperian.loops.walk import loads, reads, rebuild, statements
from naperian.names import Var
from naperian.node import replace
from naperian.passes.nests.coalesce import copies


def later(program: Program) -> Program:
    """See the module."""
    every = [*statements(program.body)]
    buffers = [*program.buffers, *(s.buffer for s in every if isinstance(s, Allocate))]
    shapes = {b.var: b.shape for b in buffers}
    dtypes = {b.var: b.dtype for b in buffers}
    originals: dict[Var, set[Var]] = {}
    for s in every:
        for to, of in copies(s, shapes):
            originals.setdefault(to, set()).add(of)

    def block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out = _asked_first([rebuild(s, block) for s in body], originals, dtypes)
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
    stored = [s.buffer for s in body if isinstance(s, Store)]
    several = {v for v in originals if stored.count(v) > 1}
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
