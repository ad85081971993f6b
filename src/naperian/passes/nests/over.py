"""An array that replaces another element by element is written over it. loops → loops

    allocate v[n]                               contract out = …
    contract v = …                          ⇒   for i: store out[i] = max(out[i], 0)
    for i: store out[i] = max(v[i], 0)

The nest in which `v` is read last must be the first that has to do with the other array, and no
iteration may read another element of `v` than it writes (`loops.donors`). Chains of such nests are
one array from the first to the last. Small arrays stay on the stack of whoever needs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from naperian.loops.donors import together
from naperian.loops.memory import SMALL, constant_bytes
from naperian.loops.syntax import Allocate, Buffer, Program, Role, Stmt, made_here
from naperian.loops.walk import mentions, rebuild_allocations, renamed
from naperian.names import Var
from naperian.node import replace


def over(program: Program) -> Program:
    """See the module."""
    names: dict[Var, Var] = {}
    own = made_here(program.body)
    results = [b for b in program.buffers if b.role is Role.OUT and b.var not in own]
    body = _block(program.body, results, names)
    if not names:
        return program
    notes = dict.fromkeys(
        f"`{of.name}` lies in the memory of `{to.name}`, which replaces it element by element"
        for of, to in names.items() if to in {b.var for b in results}
    )  # fmt: skip
    return replace(program, body=body, notes=(*program.notes, *notes))


def _block(
    body: tuple[Stmt, ...], results: Iterable[Buffer], names: dict[Var, Var]
) -> tuple[Stmt, ...]:
    made = {
        s.buffer.var: s.buffer for s in body
        if isinstance(s, Allocate) and s.buffer.role is Role.TEMP and s.fill is None
        and not s.planes and (constant_bytes(s.buffer) or SMALL + 1) > SMALL
    }  # fmt: skip
    inner = tuple(rebuild_allocations(s, lambda block: _block(block, (), names)) for s in body)
    if not made:
        return inner
    own: dict[Var, Var] = {}  # in this block only: a copy of it may have other arrays around
    after = _successors(body, made, {**made, **{r.var: r for r in results}})
    ends = [v for v in made if v not in after.values()]
    for v in ends:
        chain = [v]
        while chain[-1] in after:
            chain.append(after[chain[-1]])
        stays = chain[0] if chain[-1] in made else chain[-1]
        own.update({w: stays for w in chain if w != stays})
    names.update(own)
    kept = tuple(s for s in inner if not (isinstance(s, Allocate) and s.buffer.var in own))
    return renamed(kept, own)


def _successors(
    body: tuple[Stmt, ...], made: Mapping[Var, Buffer], known: Mapping[Var, Buffer]
) -> dict[Var, Var]:
    """For an array of this block, the one that is written over it."""
    first: dict[Var, int] = {}
    last: dict[Var, int] = {}
    for k, s in enumerate(body):
        for v in mentions(s) & known.keys():
            if not isinstance(s, Allocate):
                first.setdefault(v, k)
                last[v] = k
    begun: dict[int, list[Var]] = {}  # with each statement
    for w in known:
        if w in first:
            begun.setdefault(first[w], []).append(w)
    out: dict[Var, Var] = {}
    for v, b in made.items():
        k = last.get(v, -1)
        if first.get(v, k) == k:
            continue
        for w in begun.get(k, ()):
            same = (known[w].dtype, known[w].shape) == (b.dtype, b.shape)
            if same and w not in out.values() and w != v:
                if together((body[k],), v, w):
                    out[v] = w
                    break
    return out
