"""What a program costs, as polynomials of its sizes: for `nap explain --loops`.

    parallel for i in 0..n:                nest over `i`: parallel; 2 * n operations; reads
        store out[i] = x[i] * y[i] + 1  ⇒  bytes: 8 * n of `x`, 8 * n of `y`; writes …
                                           memory: 8 * n bytes in results, 0 in between

Bytes are those of different elements that a nest touches, once each: what a cache that is large
enough moves. A loop that goes as far as data says counts as `rounds of …`; one that depends on an
outer loop, half. Memory is what is alive at once, at most, beside the arguments, with what a sort
takes, but not the copies of panels that large matrix products make, some megabytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from math import prod

from naperian.dtypes import DType
from naperian.loops.show import written
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Buffer,
    Contract,
    Expr,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Program,
    Role,
    Sort,
    Stmt,
    Store,
    Update,
    Variable,
    When,
    While,
)
from naperian.loops.walk import (
    atoms,
    blocks,
    expressions,
    indices,
    parts,
    reads,
    rebuild,
    remade,
    statements,
    used,
    used_in,
)
from naperian.names import Lit, Var
from naperian.node import node, replace
from naperian.prims import FUNCTION, PRIMITIVES
from naperian.sizes import (
    ONE,
    ZERO,
    Clamp,
    Size,
    evaluate,
    show,
    size,
    substitute,
    variables,
)

_PASSES = 20  # operations that put an element in order, about


@node
class Nest:
    """What one outermost loop does: `vector` is what its innermost loops allow, `reads`
    and `writes` are bytes by the buffer's name."""

    over: tuple[str, ...]
    order: str
    operations: Size
    functions: Size
    reads: dict[str, Size]
    writes: dict[str, Size]
    vector: str


def account(program: Program, vector_bytes: int) -> tuple[str, ...]:
    """A line for each nest, one for all if there are several, and one for memory; vectors are of so
    many bytes."""
    program = _in_sizes(program)
    known = _known_before(program)
    named = known | {s.var for s in program.body if isinstance(s, Let | Variable)}
    given = {b.var: b for b in program.buffers}
    whole = _sides(program.body, given, named)
    buffers = _with_own(whole, given)
    nests = [_nest(s, buffers, named, vector_bytes) for s in _outermost(whole)]
    lines = [_told(n) for n in nests]
    if len(nests) > 1:
        lines.append(f"all nests: {_work(nests)}")
    lines.append(_memory(program))
    told = [n for x in nests for n in _sizes(x)]
    return (*lines, *_where(program, known, (*told, *peak(program))))


def _known_before(program: Program) -> frozenset[Var]:
    """The numbers that sizes and arguments say; others are found in the run."""
    known = {*program.sizes, *(b.var for b in program.buffers if b.role is Role.IN)}
    for s in statements(program.body):
        if isinstance(s, Let) and s.dtype in (DType.I64, DType.BOOL):
            read = any(isinstance(x, Load) and x.at for x in parts(s.value))
            if not read and known.issuperset(used(s.value)):
                known.add(s.var)
    return frozenset(known)


def _with_own(body: tuple[Stmt, ...], buffers: dict[Var, Buffer]) -> dict[Var, Buffer]:
    """With what is allocated here: on another side of a choice it may have another shape."""
    buffers = dict(buffers)
    for s in statements(body):
        if isinstance(s, Allocate):
            buffers[s.buffer.var] = _changed(s, buffers)
    return buffers


def _changed(s: Allocate, buffers: Mapping[Var, Buffer]) -> Buffer:
    """The array, of planes those that are no arguments."""
    if not s.planes:
        return s.buffer
    own = [x for x in s.planes if x is None or buffers[x[0]].role is not Role.IN]
    return replace(s.buffer, shape=(size(len(own)), *s.buffer.shape[1:]))


def _sides(
    body: tuple[Stmt, ...], buffers: dict[Var, Buffer], known: frozenset[Var]
) -> tuple[Stmt, ...]:
    """Of a choice between loops, the side that does more, as it would in sizes of a thousand: most
    are made by the compiler, and both sides do the same work."""

    def work(side: tuple[Stmt, ...]) -> int:
        count = _Count(_with_own(side, whole), frozenset(), known)
        count.block(side, {})
        return evaluate(count.operations + count.functions * FUNCTION, lambda _: 1000)

    whole = _with_own(body, buffers)  # what a side reads may be allocated around it
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, When) and all(map(_outermost, blocks(s))):
            side: tuple[Stmt, ...] = max(
                (_sides(b, whole, known) for b in blocks(s)), key=work
            )
            out += side
        else:
            out.append(rebuild(s, lambda b: _sides(b, whole, known)))
    return tuple(out)


def _in_sizes(program: Program) -> Program:
    """The program with numbers that have names, as where loops are cut, written out; a largest
    one, which only lets a loop wait, is where it starts."""
    named: dict[Var, Size] = {}
    for s in statements(program.body):
        match s:
            case Let(var, DType.I64, value) | Variable(var, DType.I64, Number() as value):
                n = _number(value)
                named |= {} if n is None else {var: n}
            case _:
                pass

    def atom(a: object) -> Size | None:
        return substitute(named[a], atom) if isinstance(a, Var) and a in named else None

    return replace(program, body=remade(program.body, atom))


def _number(e: Expr) -> Size | None:
    """A number of other numbers, as a polynomial."""
    match e:
        case Number(value):
            return value
        case Lit(value, DType.I64):
            return size(int(value))
        case Local(var):
            return size(var)
        case Apply("add" | "sub" | "mul" | "floordiv" as name, (x, y), DType.I64):
            one, other = _number(x), _number(y)
            if one is None or other is None:
                return None
            match name:
                case "add":
                    return one + other
                case "sub":
                    return one - other
                case "mul":
                    return one * other
                case _:
                    return one // other
        case _:
            return None


def _sizes(n: Nest) -> tuple[Size, ...]:
    return (n.operations, n.functions, *n.reads.values(), *n.writes.values())


def _where(program: Program, known: frozenset[Var], told: Iterable[Size]) -> Iterator[str]:
    """What the other numbers are that sizes mention."""
    mentioned = {v for n in told for v in used_in(n)}
    lines: list[str] = []
    body = remade(program.body, lambda a: within(a, {}))
    for s in reversed([*statements(body)]):
        match s:
            case Let(var, _, value) if var in mentioned and _number(value) is None:
                mentioned |= reads(s) if var in known else set()
                what = written(value) if var in known else "found in the run"
                lines.append(f"where {var.name} is {what}")
            case Variable(var) if var in mentioned:
                lines.append(f"where {var.name} is found in the run")
            case _:
                pass
    return iter(dict.fromkeys(reversed(lines)))


def peak(program: Program) -> tuple[Size, Size]:
    """Bytes of the results, and of what is alive at once between arguments and results, at most:
    what one block holds, and the most of what the blocks inside it hold (all of it, where that
    depends on sizes). Every thread of a parallel loop has its own of the latter."""
    results = ZERO
    for b in program.buffers:
        if b.role is Role.OUT:
            results = results + _bytes(b, {})
    return results, _alive(program.body, {})


def _alive(body: tuple[Stmt, ...], rounds: dict[object, Size]) -> Size:
    total, inner = ZERO, ZERO
    for s in body:
        if isinstance(s, Allocate) and s.buffer.role is Role.TEMP:
            total = total + _bytes(s.own, rounds)
        if isinstance(s, Sort):
            inner = inner + _taken(s, rounds)
        below = rounds | ({s.var: _rounds(s, rounds)} if isinstance(s, Loop) else {})
        for block in blocks(s):
            inside = _alive(block, below)
            known = inside.constant is not None and inner.constant is not None
            larger = max(inside.constant or 0, inner.constant or 0)
            inner = size(larger) if known else inner + inside
    return total + inner


def _taken(s: Sort, rounds: dict[object, Size]) -> Size:
    """What a sort takes beside its rows: codes, and with them places, of which those that are the
    result lie there, if that is contiguous (`backends/orders/rows.py`)."""
    arrays = 2 if s.places else 1
    if s.out[1][-1].single == s.axis[0]:
        arrays -= 1
    return size(arrays * (8 if s.places else s.dtype.bytes)) * _known(s.axis[1], rounds)


def _bytes(b: Buffer, rounds: dict[object, Size]) -> Size:
    total = size(b.dtype.bytes)
    for n in b.shape:
        total = total * _known(n, rounds)
    return total


def _known(s: Size, rounds: dict[object, Size]) -> Size:
    """A size in terms of what is known before the run: atoms of data become names of their own."""

    def atom(a: object) -> Size | None:
        if a in rounds:
            return rounds[a]
        if isinstance(a, Load):
            return size(Var(f"elements of {a.buffer.name}"))
        there = within(a, rounds)
        return None if there is None else substitute(there, atom)

    return substitute(s, atom)


def within(a: object, rounds: Mapping[object, Size]) -> Size | None:
    """A clamp, which decides for few sizes only: the rest of a last strip, as long as any strip;
    else what is clamped."""
    if not isinstance(a, Clamp):
        return None
    falls = any(c < 0 and m for m, c in a.value.terms)
    there = a.extent - 1 if falls else a.value
    return substitute(there, lambda x: rounds.get(x) or within(x, rounds))


def _rounds(
    s: Loop, rounds: dict[object, Size], known: frozenset[Var] | None = None
) -> Size:
    """How often a loop goes round; half of what an outer one may, where it depends on that."""
    extent = s.high - s.low
    found = known is not None and not all(v in known or v in rounds for v in used_in(extent))
    if found or any(isinstance(a, Load) for a in atoms(extent)):
        return size(Var(f"rounds of {s.var.name}"))
    halves: dict[object, Size] = {v: (n + 1) // 2 for v, n in rounds.items()}
    return substitute(extent, lambda a: halves.get(a) or within(a, halves))


def _outermost(body: Iterable[Stmt]) -> list[Loop | While | Contract | Sort]:
    found: list[Loop | While | Contract | Sort] = []
    for s in body:
        if isinstance(s, Loop | While | Contract | Sort):
            found.append(s)
        else:
            for block in blocks(s):
                found += _outermost(block)
    return found


class _Count:
    """Adds up a nest; `found` are the numbers that it computes from data, as where to write, and
    `known` those of before."""

    def __init__(
        self, buffers: dict[Var, Buffer], found: frozenset[Var], known: frozenset[Var]
    ) -> None:
        self.buffers = buffers
        self.found = found
        self.known = known
        self.made: set[Var] = set()  # numbers that have names in the nest
        self.operations = ZERO
        self.functions = ZERO
        self.touched: dict[tuple[Var, bool, frozenset[Var]], Size] = {}
        self.shifted: dict[Var, list[Var]] = {}
        self.widest = 1

    def block(self, body: tuple[Stmt, ...], rounds: dict[object, Size]) -> None:
        times = ONE
        for n in rounds.values():
            times = times * n
        for s in body:
            if isinstance(s, Contract):
                self.contract(s, rounds)
                continue
            if isinstance(s, Let):
                self.made.add(s.var)
            if isinstance(s, Sort):
                inside = {**rounds, s.axis[0]: _known(s.axis[1], rounds)}
                rounds_of = size(_PASSES)
                for n in inside.values():
                    rounds_of = rounds_of * n
                self.operations = self.operations + rounds_of
                self.touch(*s.out, True, inside)
                self.touch(*s.value, False, inside)
                continue
            for e in expressions(s):
                for x in parts(e):
                    self.expression(x, times, rounds)
            for i in indices(s):
                self.gathers(i, rounds)
            if isinstance(s, Store | Update):
                self.touch(s.buffer, s.at, True, rounds)
            if isinstance(s, Update):
                self.operations = self.operations + times
                self.touch(s.buffer, s.at, False, rounds)
            below = dict(rounds)
            if isinstance(s, Loop):
                below[s.var] = _rounds(s, rounds, self.known)
                if below[s.var].constant is not None:  # a strip, at another place each round
                    at = {*used_in(s.low)}
                    self.shifted[s.var] = [v for v in rounds if isinstance(v, Var) and v in at]
            elif isinstance(s, While):
                below[s] = size(Var("rounds"))
            for inner in blocks(s):
                self.block(inner, below)

    def expression(self, x: Expr, times: Size, rounds: dict[object, Size]) -> None:
        match x:
            case Apply(name, _, dtype):
                self.widest = max(self.widest, dtype.bytes if dtype is not DType.BOOL else 1)
                dear = name in PRIMITIVES and PRIMITIVES[name].cost >= FUNCTION
                if dear and dtype.is_float:
                    self.functions = self.functions + times
                else:
                    self.operations = self.operations + times
            case Load(buffer, at):
                self.touch(buffer, at, False, rounds)
                for i in at:
                    self.gathers(i, rounds)
            case _:
                pass

    def gathers(self, s: Size, rounds: dict[object, Size]) -> None:
        for a in atoms(s):
            if isinstance(a, Load):
                self.touch(a.buffer, a.at, False, rounds)

    def touch(
        self, v: Var, at: tuple[Size, ...], writes: bool, rounds: dict[object, Size]
    ) -> None:
        b = self.buffers[v]
        if not b.shape and b.role is Role.IN:
            return
        names = {w for i in at for w in used_in(i)}
        names |= {outer for w in names for outer in self.shifted.get(w, ())}
        along = frozenset(w for w in names if w in rounds)
        axes = list(zip(at, b.shape, strict=True))
        few = [(i, n) for i, n in axes if n.constant is not None]
        rest = {w for i, n in axes if n.constant is None for w in used_in(i)}
        rest |= {outer for w in rest for outer in self.shifted.get(w, ())}
        bytes = size(b.dtype.bytes)
        for w in along & rest:
            bytes = bytes * rounds[w]
        for i, n in few:  # an axis of few elements: as often as anything changes there, or all
            own = [rounds[w] for w in used_in(i) if w in along - rest]
            times = prod(math.inf if x.constant is None else x.constant for x in own)
            bytes = bytes * (int(times) if times < (n.constant or 0) else n if own else 1)
        gathered = any(isinstance(a, Load) for i in at for a in atoms(i))
        if gathered or not names.isdisjoint(self.found):
            bytes = _bytes(b, rounds)  # wherever data says
        self.widest = max(self.widest, b.dtype.bytes)
        self.touched[v, writes, along] = bytes

    def contract(self, s: Contract, rounds: dict[object, Size]) -> None:
        inside = dict(rounds)
        for v, n in (*s.batch, *s.rows, *s.columns, *s.inner):
            inside[v] = _known(n, rounds)
        times = size(2)
        for n in inside.values():
            times = times * n
        self.operations = self.operations + times
        for (v, at), writes in ((s.out, True), (s.left, False), (s.right, False)):
            self.touch(v, at, writes, inside)

    def bytes(self, writes: bool) -> dict[str, Size]:
        each: dict[Var, Size] = {}
        for (v, w, _), n in self.touched.items():
            if w == writes:
                each[v] = each.get(v, ZERO) + n
        out: dict[str, Size] = {}
        for v, n in each.items():
            whole = _bytes(self.buffers[v], {})
            beyond = all(c >= 0 for _, c in (n - whole).terms)
            unknown = not self.made.isdisjoint(variables(n))  # as where a loop is cut
            out[v.name] = out.get(v.name, ZERO) + (whole if beyond or unknown else n)
        return out


def _computed(body: tuple[Stmt, ...]) -> frozenset[Var]:
    """The names of what is computed from elements."""
    found: set[Var] = set()
    for s in statements(body):
        match s:
            case Let(var, _, value) | Variable(var, _, value) | Assign(var, value):
                read = any(isinstance(x, Load) for x in parts(value))
                if read or not found.isdisjoint(used(value)):
                    found.add(var)
            case _:
                pass
    return frozenset(found)


def _nest(
    s: Loop | While | Contract | Sort, buffers: dict[Var, Buffer], known: frozenset[Var],
    vector_bytes: int,
) -> Nest:  # fmt: skip
    count = _Count(buffers, _computed((s,)), known)
    count.block((s,), {})
    lanes = vector_bytes // count.widest
    match s:
        case Loop():
            loops = [s, *(x for x in statements(s.body) if isinstance(x, Loop))]
            inner = [x for x in loops if not any(isinstance(y, Loop) for y in statements(x.body))]
            free = [x for x in inner if x.order is not Order.SERIAL]
            vector = f"vectors of up to {lanes}" if len(free) == len(inner) else "one at a time"
            if 0 < len(free) < len(inner):
                vector = f"vectors of up to {lanes} in part"
            over = tuple(x.var.name for x in loops)
            order = _order(loops)
        case While():
            over, order, vector = ("while",), "one thread", "one at a time"
        case Contract():
            over = tuple(v.name for v, _ in (*s.batch, *s.rows, *s.columns, *s.inner))
            order, vector = "parallel", f"a contraction, vectors of up to {lanes}"
        case Sort():
            over = (s.axis[0].name,)
            order, vector = "parallel", f"a sort, vectors of up to {lanes}"
    return Nest(over, order, count.operations, count.functions, count.bytes(False),
                count.bytes(True), vector)  # fmt: skip


def _order(loops: list[Loop]) -> str:
    """Which of the loops of a nest have rounds for several threads."""
    first = loops[0]
    inside = dict.fromkeys(x.var.name for x in loops[1:] if x.order is Order.PARALLEL)
    if first.order is Order.PARALLEL:
        return "parallel"
    if first.order is Order.FREE or not inside:
        return "one thread"
    return f"in order over `{first.var.name}`, parallel over {', '.join(f'`{v}`' for v in inside)}"


def _told(n: Nest) -> str:
    over = ", ".join(f"`{v}`" for v in dict.fromkeys(n.over))
    texts = [n.order, n.vector, _work([n])]
    for verb, bytes in (("reads", n.reads), ("writes", n.writes)):
        if bytes:
            each = ", ".join(f"{_show(b)} of `{v}`" for v, b in bytes.items())
            texts.append(f"{verb} bytes: {each}")
    return f"nest over {over}: {'; '.join(texts)}"


def _work(nests: Iterable[Nest]) -> str:
    operations, functions = ZERO, ZERO
    for n in nests:
        operations, functions = operations + n.operations, functions + n.functions
    text = f"{_show(operations)} operations"
    return text if functions == ZERO else f"{text}; {_show(functions)} functions"


def _memory(program: Program) -> str:
    results, between = peak(program)
    parallel = [s for s in _outermost(program.body) if isinstance(s, Loop)]
    copied = {
        r.var.name
        for s in parallel
        if s.order is Order.PARALLEL
        for r in s.reductions
        if any(isinstance(x, Update) and x.buffer == r.var for x in statements(s.body))
    }
    text = f"memory: {_show(results)} bytes in results, {_show(between)} in between"
    for name in sorted(copied):
        text += f", and up to 31 copies of `{name}` while threads add to it"
    return text


def _show(s: Size) -> str:
    return show(s, lambda a: a.name if isinstance(a, Var) else repr(a))
