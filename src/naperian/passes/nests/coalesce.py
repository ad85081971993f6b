"""Two arrays of which one is a copy of the other become one, where nobody can tell. loops → loops

    for t in 0..k:                              for t in 0..k:
        allocate v[n]                               store s[e] = f(s[…])
        for i in 0..n: store v[i] = s[i]    ⇒
        store v[e] = f(s[…])
        for i in 0..n: store s[i] = v[i]

So a carried table that is changed in a few places is changed in place, and costs what is touched. A
copy may also be made along the way, by a nest that reads the array for something else: it is taken
out of that nest first.

The law: a copy may go if no element is written in one array while the same element of the other
is still to be read with its old value (Chaitin's coalescing, with element indices). Backwards over
the program goes the set of reads that may still come; one that comes only in a later round of a
loop is marked with the loop's variable, for there that has another value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from naperian.loops.syntax import (
    Allocate,
    Contract,
    Let,
    Load,
    Local,
    Loop,
    Order,
    Program,
    Role,
    Sort,
    Stmt,
    Store,
    Update,
    When,
    While,
)
from naperian.loops.walk import (
    blocks,
    loads,
    mentions,
    rebuild,
    rebuild_loops,
    renamed,
    statements,
    takes,
    touched,
)
from naperian.names import Var
from naperian.node import node, replace
from naperian.passes.nests.whole import Arrays, arrays, copied, copies, stored_whole
from naperian.sizes import ZERO, Size, rename, size, variables

Pair = tuple[Var, Var]

_MOST = 64  # copies that have to stay: no others are looked at then


@node
class Coming:
    """A read that may still come: `at` None may be anywhere. `later` are the variables of the
    loops in a later round of which it comes, inner ones first."""

    buffer: Var
    at: tuple[Size, ...] | None
    later: tuple[Var, ...] = ()


Live = frozenset[Coming]


def coalesce(program: Program) -> Program:
    """See the module."""
    program = replace(program, body=_one_each(program.body))
    refused: set[Pair] = set()
    while len(refused) < _MOST:
        found = _merge(program, refused)
        if found is None:
            break
        program = found
    return program


def _merge(program: Program, refused: set[Pair]) -> Program | None:
    """The program with fewer arrays, or None; `refused` gets those that cannot be one. Copies of
    arrays that have nothing to do with each other go together; one that waits for another, and what
    waits for that, is looked at once more."""
    homes = dict(_homes(program.body, ()))
    results = frozenset(b.var for b in program.buffers if b.role is Role.OUT)
    homes |= {v: () for v in results}
    known = arrays(program)
    every = [*statements(program.body)]
    made = frozenset(s.buffer.var for s in every if isinstance(s, Allocate))
    natural = frozenset((*program.sizes, *(s.var for s in every if isinstance(s, Loop))))

    def fits(pair: Pair, body: tuple[Stmt, ...]) -> dict[Var, Var] | None:
        """The name of the one for the other, if they can be one."""
        names = None if results.issuperset(pair) else _merged(pair, homes, made)
        given = [v for v in pair if v not in made]
        if names is not None and _Check(pair, known, natural).passes(body, given):
            return names
        refused.add(pair)
        return None

    def without(body: tuple[Stmt, ...], found: dict[Pair, dict[Var, Var]]) -> Program:
        all_: dict[Var, Var] = {}
        for names in found.values():
            if results.issuperset(names):  # it is made in the run, and keeps its name
                body, names = _exchanged(body, names), {v: k for k, v in names.items()}
            all_ |= names
        return replace(program, body=renamed(_without(body, found.keys(), all_, known), all_))

    found: dict[Pair, dict[Var, Var]] = {}
    busy: set[Var] = set()
    for pair in (x for s in every if isinstance(s, Loop) for x in copies(s, known)):
        if pair in refused or not homes.keys() >= set(pair):
            continue
        names = fits(pair, program.body) if busy.isdisjoint(pair) else {}
        if names is not None:
            busy.update(pair)
        if names:
            found[pair] = names
        if len(refused) == _MOST:
            break
    if found:
        return without(program.body, found)
    for pair in (x for s in every for x in _taken_along(s, known)):
        if len(refused) == _MOST:
            return None
        if pair not in refused and homes.keys() >= set(pair):
            body = _taken_out(program.body, pair, known)
            names = fits(pair, body)
            if names is not None:
                return without(body, {pair: names})
    return None


def _taken_along(s: Stmt, known: Arrays) -> Iterator[Pair]:
    """The arrays of the copies that a nest makes beside other things."""
    nest, body = _nest(s)
    values = {x.var: x.value for x in body if isinstance(x, Let)}
    own = tuple((x.var, x.high) for x in nest)
    if len(body) < 2 or any(x.low != ZERO for x in nest):
        return
    for x in body:
        if isinstance(x, Store) and known.is_whole(own, x.buffer, x.at):
            value = values.get(x.value.var) if isinstance(x.value, Local) else x.value
            if not isinstance(value, Load) or value.at != x.at:
                continue
            to, of = x.buffer, value.buffer
            others = tuple(y for y in body if y is not x)
            alone = to not in {v for y in others for v in mentions(y)} and to != of
            if alone and known.are_alike(to, of) and not _writes(others, (of,)):
                yield to, of


def _nest(s: Stmt) -> tuple[tuple[Loop, ...], tuple[Stmt, ...]]:
    """The loops of a nest, and the body of the innermost."""
    loops: list[Loop] = []
    body: tuple[Stmt, ...] = (s,)
    while len(body) == 1 and isinstance(body[0], Loop):
        loops.append(body[0])
        body = body[0].body
    return tuple(loops), body


def _writes(body: tuple[Stmt, ...], buffers: tuple[Var, ...]) -> bool:
    for s in statements(body):
        match s:
            case Store(buffer) | Update(buffer) if buffer in buffers:
                return True
            case Contract() | Sort() if s.out[0] in buffers:
                return True
            case _:
                pass
    return False


def _taken_out(body: tuple[Stmt, ...], pair: Pair, known: Arrays) -> tuple[Stmt, ...]:
    """The copy that a nest makes along the way, in a nest of its own after it."""
    out: list[Stmt] = []
    for s in body:
        if pair not in _taken_along(s, known):
            out.append(rebuild(s, lambda inner: _taken_out(inner, pair, known)))
            continue
        loops, inner = _nest(s)
        store = next(x for x in inner if isinstance(x, Store) and x.buffer == pair[0])
        for rest in (
            tuple(x for x in inner if x is not store),
            (replace(store, value=Load(pair[1], store.at)),),
        ):
            for x in reversed(loops):
                rest = (replace(x, body=rest),)
            out += rest
    return tuple(out)


def _one_each(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """A nest that copies to several arrays as one nest for each: one may go without the others."""
    out: list[Stmt] = []
    for s in body:
        found = _several(s)
        out += [rebuild_loops(s, _one_each)] if found is None else found
    return tuple(out)


def _several(s: Stmt) -> list[Stmt] | None:
    """The nests of the stores of one, which stores the same element into several arrays."""
    match s:
        case Loop(body=(Loop() as inner,)):
            found = _several(inner)
            return None if found is None else [replace(s, body=(x,)) for x in found]
        case Loop(body=(Let(v, _, Load(_, at)) as let, *stores)) if len(stores) > 1:
            if all(isinstance(x, Store) and (x.value, x.at) == (Local(v), at) for x in stores):
                return [replace(s, body=(let, x)) for x in stores]
        case _:
            pass
    return None


def _homes(
    body: tuple[Stmt, ...], path: tuple[Stmt, ...]
) -> Iterator[tuple[Var, tuple[Stmt, ...]]]:
    """Where buffers are allocated: in which statements."""
    for s in body:
        if isinstance(s, Allocate) and s.fill is None:
            yield s.buffer.var, path
        for inner in blocks(s):
            yield from _homes(inner, (*path, s))


def _merged(
    pair: Pair, homes: dict[Var, tuple[Stmt, ...]], made: Collection[Var]
) -> dict[Var, Var] | None:
    """The name of the one for the other: the one that lives longer stays, and in one block the one
    that is allocated first. None if neither lives as long as the other in the same thread."""
    order = [*homes]
    inner, outer = sorted(pair, key=lambda v: (-len(homes[v]), -order.index(v)))
    near, far = homes[inner], homes[outer]
    if any(x is not y for x, y in zip(near, far, strict=False)):
        return None
    between = near[len(far) :]
    if any(isinstance(s, Loop) and s.order is not Order.SERIAL for s in between):
        return None
    if inner not in made:
        inner, outer = outer, inner
    return {inner: outer}


def _exchanged(body: tuple[Stmt, ...], names: dict[Var, Var]) -> tuple[Stmt, ...]:
    """A result is allocated where the array is that becomes it, and that one where it was."""
    ((result, other),) = names.items()
    made = {s.buffer.var: s for s in statements(body) if isinstance(s, Allocate)}
    instead = {made[result]: made[other], made[other]: made[result]}

    def inside(block: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(
            instead.get(s, s) if isinstance(s, Allocate) else rebuild(s, inside) for s in block
        )

    return inside(body)


def _without(
    body: tuple[Stmt, ...], pairs: Collection[Pair], names: dict[Var, Var], known: Arrays
) -> tuple[Stmt, ...]:
    """Without the copies between the two of each pair, and one of the allocations."""
    all_ = {v for pair in pairs for v in pair}
    here = set[Var]().union(*(touched(s) & all_ for s in body))
    mine = [pair for pair in pairs if not here.isdisjoint(pair)]
    if not mine:
        return body

    def inside(block: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return _without(block, mine, names, known)

    own = frozenset(v for pair in mine for v in pair)
    both = {frozenset(pair) for pair in mine}
    stored = {s.buffer for s in body if isinstance(s, Store)}
    beside = {id(_stored_back(body, pair)) for pair in mine if not stored.isdisjoint(pair)}
    return tuple(
        s if touched(s).isdisjoint(own) else rebuild(s, inside)
        for s in body
        if not (isinstance(s, Allocate) and s.buffer.var in names)
        and id(s) not in beside
        and not (isinstance(s, Loop) and any(frozenset(c) in both for c in copies(s, known)))
    )


def _stored_back(body: tuple[Stmt, ...], pair: Pair) -> Store | None:
    """What a block stores where it found it, beside other things."""
    found = [
        s for s in body
        if not isinstance(s, Let) and not touched(s).isdisjoint(pair) and _writes((s,), pair)
    ]
    if len(found) != 1 or not isinstance(found[0], Store):
        return None
    store = found[0]
    named = (s.value for s in body if isinstance(s, Let) and Local(s.var) == store.value)
    value = next(named, store.value)
    same = isinstance(value, Load) and value.buffer in pair and value.at == store.at
    return store if same else None


class _Conflict(Exception):
    """An element is overwritten that is still to be read."""


class _Check:
    """Whether two arrays can be one. Sizes and the variables of loops are `natural`."""

    def __init__(self, pair: Pair, known: Arrays, natural: frozenset[Var]) -> None:
        self.pair = pair
        self.known = known
        self.natural = natural
        self.found: dict[int, Live] = {}
        self.coming: dict[int, Live] = {}  # at the end of a loop's rounds

    def passes(self, body: tuple[Stmt, ...], given: Collection[Var]) -> bool:
        """Of arrays that are `given` by the caller, all may be read in the end."""
        try:
            self.block(body, frozenset(Coming(v, None) for v in given))
        except _Conflict:
            return False
        return True

    def block(self, body: tuple[Stmt, ...], live: Live) -> Live:
        """What may be read from the beginning of a block on, given what may be after it."""
        for s in reversed(body):
            if not touched(s).isdisjoint(self.pair):
                live = self.stmt(s, live)
        return live

    def stmt(self, s: Stmt, live: Live) -> Live:
        whole = stored_whole(s, self.known, self.pair)
        if whole is not None:
            match copied(whole, self.known):
                case to, of if of in self.pair:
                    return _dead(live, to) | {Coming(of, None)}
                case _:
                    pass
            if not self.reads_own(s, whole.buffer):
                live = _dead(live, whole.buffer)
        match s:
            case Allocate(buffer):
                return _dead(live, buffer.var)
            case Loop(var, _, _, body):
                if any(r.var in self.pair for r in s.reductions) and self.reads_in(body):
                    raise _Conflict  # each thread adds to a copy of its own
                return self.rounds(s, live, lambda now: self.block(body, now), var) | self.reads(s)
            case While(head, _, body):
                return self.rounds(
                    s, live,
                    lambda now: self.block(head, self.reads(s) | self.block(body, now) | live),
                    None,
                )
            case When(_, then, otherwise):
                return self.block(then, live) | self.block(otherwise, live) | self.reads(s)
            case Store(buffer, at, _):
                self.write(buffer, at, live)
                return live | self.reads(s)
            case Update(buffer, at, _, _):
                self.write(buffer, at, live)
                own = {Coming(buffer, at)} if buffer in self.pair else set[Coming]()
                return live | self.reads(s) | own
            case Contract():  # which reads all of its factors until it has written all
                read = (s.left[0], s.right[0], *((s.out[0],) if s.accumulate else ()))
                live = live | {Coming(v, None) for v in read if v in self.pair}
                self.write(s.out[0], None, live)
                return live
            case Sort():
                live = live | {Coming(v, None) for v in takes(s) if v in self.pair}
                self.write(s.out[0], None, live)
                return live
            case _:
                return live | self.reads(s)

    def rounds(
        self, s: Stmt, after: Live, body: Callable[[Live], Live], var: Var | None
    ) -> Live:
        """A loop: what is read in a later round may still come at the end of every round. A loop
        around it asks again with more behind it, so what was found comes in any case."""
        live = after | self.coming.get(id(s), frozenset())
        while True:
            first = body(live)
            again = {_later(x, var) for x in first if x not in live}
            if again <= live:
                self.coming[id(s)] = live
                return first | after
            live = live | again

    def reads_in(self, body: tuple[Stmt, ...]) -> bool:
        """Whether there is anything in a loop's rounds but additions to one of the arrays."""
        inner = [x for x in statements(body) if not touched(x).isdisjoint(self.pair)]
        added = {x.buffer for x in inner if isinstance(x, Update)}
        return len(added) > 1 or any(
            self.reads(x) or (not isinstance(x, Update) and not blocks(x)) for x in inner
        )

    def reads_own(self, s: Stmt, v: Var) -> bool:
        return any(x.buffer == v for inner in statements((s,)) for x in self.reads(inner))

    def reads(self, s: Stmt) -> Live:
        """The reads of the two arrays that a statement itself makes."""
        known = self.found.get(id(s))
        if known is None:
            live = (Coming(x.buffer, x.at) for x in loads(s) if x.buffer in self.pair)
            known = self.found[id(s)] = frozenset(live)
        return known

    def write(self, buffer: Var, at: tuple[Size, ...] | None, live: Live) -> None:
        if buffer not in self.pair:
            return
        for x in live:
            if x.buffer != buffer and not (
                at is not None and x.at is not None and _apart(at, x.at, x.later, self.natural)
            ):
                raise _Conflict


def _dead(live: Live, v: Var) -> Live:
    return frozenset(x for x in live if x.buffer != v)


def _later(x: Coming, var: Var | None) -> Coming:
    if var is None or x.at is None:
        return Coming(x.buffer, None)
    return x if var in x.later else Coming(x.buffer, x.at, (*x.later, var))


def _apart(
    written: tuple[Size, ...], read: tuple[Size, ...], later: tuple[Var, ...],
    natural: frozenset[Var],
) -> bool:
    """Whether two elements are certainly different ones: on some axis. What is `natural` is not
    negative; the variables of `later` rounds have other values than now."""
    others = {v: size(Var(v.name)) for v in later}
    positive = natural | {x for s in others.values() for x in variables(s)}
    for w, r in zip(written, read, strict=True):
        if w == r and later:
            last = later[-1]  # the outermost: in a later round it has grown
            alone = set(variables(w)) & set(later) == {last} and _affine(w, last)
            if alone and w.coefficient(last):
                return True
        gap = w - rename(r, others)
        if gap.offset != 0 and all(a in positive for a in gap.atoms):
            if len({c > 0 for _, c in gap.terms}) == 1:
                return True
    return False


def _affine(s: Size, v: Var) -> bool:
    """Whether a variable stands in one term alone."""
    return sum(a == v for a in s.atoms) == 1
