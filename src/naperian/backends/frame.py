"""What is known while one LLVM function is being written: where every name lives."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field

from naperian.backends import rare
from naperian.backends.code import MEMORY, REGISTER, Code, Value
from naperian.backends.functions import math
from naperian.backends.target import Target
from naperian.backends.twins import without_twins
from naperian.dtypes import DType
from naperian.loops.syntax import Apply, Buffer, Fail, Local, Number, Program, Role
from naperian.names import Lit, Var
from naperian.node import mutable, node
from naperian.sizes import ONE, ZERO, Size

_WHOLE = f", !range !{{i64 0, i64 {-(1 << 63)}}}, !noundef !{{}}"
"""That a number is not negative, of a value that is loaded: a test that an index is in range is one
comparison then."""


@mutable
class Module:
    """The text that functions share: definitions, declarations, metadata."""

    program: Program
    target: Target
    buffers: dict[Var, tuple[int, Buffer]]  # the program's, with their positions
    functions: list[str] = field(default_factory=list)
    definitions: dict[str, str] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    rare: dict[str, int] = field(default_factory=dict)
    apart: dict[tuple[str, DType], None] = field(default_factory=dict)  # functions that are called
    seldom: dict[tuple[str, DType], None] = field(default_factory=dict)  # by rare arguments
    metadata: list[str] = field(default_factory=list)
    offsets: dict[tuple[Var, tuple[Size, ...]], Size] = field(default_factory=dict)
    unique: dict[tuple[int, ...], int] = field(default_factory=dict)
    memory: dict[Var, Var] = field(default_factory=dict)  # what may be one has one name
    shared: set[str] = field(default_factory=set)  # functions that several loops call
    numbers: dict[Var, Size] = field(default_factory=dict)  # what is bound to whole numbers
    data: set[Var] = field(default_factory=set)  # names of what may be any number
    ids: int = 0
    whole: frozenset[Var] = frozenset()  # numbers that are not negative

    def id(self) -> int:
        """The number of a new metadata node."""
        self.ids += 1
        return self.ids - 1

    def node(self, text: str) -> int:
        number = self.id()
        self.metadata.append(f"!{number} = {text}")
        return number

    def nodes(self, numbers: tuple[int, ...]) -> int:
        """The node that lists others, one per list."""
        if numbers not in self.unique:
            self.unique[numbers] = self.node(_list(numbers))
        return self.unique[numbers]

    def loop(self, *hints: str) -> int:
        """What LLVM is told about a loop."""
        number = self.id()
        texts = ", ".join([f"!{number}", *(f"!{{{hint}}}" for hint in hints)])
        self.metadata.append(f"!{number} = distinct !{{{texts}}}")
        return number

    def math(self, name: str, dtype: DType, operands: str, called: bool, waits: bool) -> str:
        """An elementary function of operands: inline, its text included once, or called; where what
        comes next waits for it, for usual arguments."""
        t = REGISTER[dtype]
        if called:
            self.apart[name, dtype] = None
            mark = math.attribute(name, dtype)
            how = self.target.convention
            return f"call {how}{t} @{math.symbol(name, dtype)}({operands}) {mark}"
        usual = math.usual(name, dtype, self.target.convention) if waits else None
        if usual is not None:
            self.seldom[name, dtype] = None
        f = usual or math.function(name, dtype)
        self.definitions |= f.tables
        self.definitions[f.symbol] = f.text
        self.calls[f.symbol] += 1
        self.rare |= f.rare
        return f"call {t} {f.symbol}({operands})"

    def text(self) -> str:
        called = "\n".join([*self.functions, *self.definitions.values()])
        known = {
            symbol: text for symbol, text in self.definitions.items()
            if symbol not in self.calls or called.count(f"{symbol}(") > 1
        }  # fmt: skip
        lines = {symbol: text.count("\n") for symbol, text in known.items()}
        parts = list(known.values())
        if sum(n * self.calls[symbol] for symbol, n in lines.items()) > _MOST_INLINED:
            parts = [p.replace("alwaysinline", "noinline", 1) for p in parts]
        parts += [rare.definition(name, arity, self.target) for name, arity in self.rare.items()]
        convention = self.target.convention
        parts += ["\n".join(math.declarations(*f, convention)) for f in self.apart]
        alone = [f for f in self.seldom if f not in self.apart]
        parts += [math.declarations(*f, convention)[0] for f in alone]
        forms = [s for name in self.rare for s in rare.forms(name)]
        forms += [s for f in self.apart for s in math.forms(*f)]
        if forms:
            parts.append(rare.kept(forms))
        functions = without_twins(self.functions, self.metadata)
        return "\n\n".join([*parts, *functions, "\n".join(self.metadata)]) + "\n"


# Lines of inlined functions in a module; with more of them they are called. LLVM's time grows with
# the square of a block's length, so a thousand sines in a row would take it a minute.
_MOST_INLINED = 15_000


def _list(numbers: tuple[int, ...]) -> str:
    return "!{" + ", ".join(f"!{n}" for n in numbers) + "}"


@node
class Place:
    """A buffer's memory. `strides` are in elements; `since` is how many parallel loops were open
    when it was allocated: it is private to an iteration of those."""

    pointer: Value
    buffer: Buffer
    strides: tuple[Size, ...]
    since: int = 0
    planes: tuple[Value, ...] = ()  # where the elements with each first index are


@mutable
class Nest:
    """One loop nest's statement that its buffers are different memory: a scope for every buffer
    that is written and one for all that are only read."""

    tags: dict[Var, tuple[int, int]] = field(default_factory=dict)
    written: set[Var] = field(default_factory=set)

    def close(self, module: Module) -> None:
        if not self.written:
            for own, others in self.tags.values():
                module.metadata += [f"!{own} = !{{}}", f"!{others} = !{{}}"]
            return
        domain = module.id()
        module.metadata.append(f"!{domain} = distinct !{{!{domain}}}")
        scopes: dict[Var | None, int] = {}
        for key in [None, *(v for v in self.tags if v in self.written)]:
            scope = scopes[key] = module.id()
            module.metadata.append(f"!{scope} = distinct !{{!{scope}, !{domain}}}")
        for v, (own, others) in self.tags.items():
            key = v if v in self.written else None
            rest = tuple(n for k, n in scopes.items() if k != key)
            module.metadata.append(f"!{own} = !{{!{scopes[key]}}}")
            module.metadata.append(f"!{others} = {_list(rest)}")


@mutable
class Frame:
    """One function. A frame with a parent is the body of a parallel loop: what it mentions of its
    parent's is passed through the environment, `captured`, in 8-byte slots."""

    module: Module
    parent: Frame | None = None
    code: Code = field(default_factory=Code)
    values: dict[Var, tuple[Value, DType]] = field(default_factory=dict)
    cells: dict[Var, tuple[Value, DType]] = field(default_factory=dict)
    changes: Counter[Var] = field(default_factory=Counter)  # how often a cell may have changed
    places: dict[Var, Place] = field(default_factory=dict)
    depths: dict[Var, int] = field(default_factory=dict)
    arrays: dict[Value, int] = field(default_factory=dict)  # small ones, and their elements
    heap: dict[Var, int] = field(default_factory=dict)  # in how many loops arrays are allocated
    ready: dict[Var, Value] = field(default_factory=dict)  # memory for what rounds will allocate
    depth: int = 0
    polled: int = 0  # how many loops that poll enclose this point
    memo: dict[object, Value] = field(default_factory=dict)  # what is computed here already
    opened: list[list[object]] = field(default_factory=lambda: [[]])  # since each block began
    captured: list[tuple[Value, str]] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    reductions: set[Var] = field(default_factory=set)
    nest: Nest | None = None
    exits: list[str] = field(default_factory=lambda: ["leave"])
    cleanups: list[str] = field(default_factory=list)
    calls: frozenset[str] = frozenset()  # the elementary functions that are not inlined here
    stays: bool = False  # whether a loop's rounds do not become vectors
    late: frozenset[Var] = frozenset()  # what a round waits for: the one before, and what needs it
    at_edge: bool = False  # whether a loop around has only the few rounds at an end
    in_order: bool = False  # whether a loop around goes on from what it has just stored
    just_stored: frozenset[Var] = frozenset()  # arrays of which a round stores single elements
    narrow: bool = False  # whether its vectors are shorter than the processor's
    zeros: bool = False  # whether a loop of vectors stores zeros side by side
    runs: int = 0  # how often it starts parts of loops, or products
    busy: bool = False  # whether there is a loop in which it starts none
    vectors: set[Var] = field(default_factory=set)  # indices of loops that were written as vectors
    cut: bool = False  # whether its serial nests are functions of their own
    slots: dict[str, Value] = field(default_factory=dict)
    partials: dict[int, Value] = field(default_factory=dict)  # by how many a chunk has

    # --- names ----------------------------------------------------------------------------------

    def scalar(self, v: Var) -> Value:
        """The value of a local, here."""
        known = self.values.get(v)
        if known:
            return known[0]
        cell = self.cells.get(v)
        if cell:
            key = v, self.changes[v]
            return self.once(key, f"load {REGISTER[cell[1]]}, ptr {cell[0]}")
        return self._found(v)[0]

    def dtype(self, v: Var) -> DType:
        known = self.values.get(v) or self.cells.get(v)
        return known[1] if known else self._found(v)[1]

    def bound(self, v: Var) -> bool:
        """Whether a local has a value here."""
        if v in self.values or v in self.cells:
            return True
        if self.parent:
            return self.parent.bound(v)
        known = self.module.buffers.get(v)
        return v in self.module.program.sizes or (known is not None and not known[1].shape)

    def mutable(self, v: Var) -> bool:
        return v in self.cells

    def variable(self, v: Var, dtype: DType) -> None:
        """A local that is assigned to: a stack slot. In a loop before this one the name may have
        been of one that is not."""
        self.values.pop(v, None)
        self.cells[v] = self.code.first(f"alloca {REGISTER[dtype]}"), dtype

    def assign(self, v: Var, value: Value) -> None:
        cell, dtype = self.cells[v]
        self.code.put(f"store {REGISTER[dtype]} {value}, ptr {cell}")
        self.changed((v,))
        self.computed((v, self.changes[v]), value)

    def changed(self, variables: Iterable[Var]) -> None:
        """From here on variables may have other values than they were seen to have."""
        for v in variables:
            self.changes[v] += 1

    def _found(self, v: Var) -> tuple[Value, DType]:
        """A local of the parent, a size, or a scalar parameter: loaded once, at the start."""
        if self.parent:
            dtype, whole = self.parent.dtype(v), v in self.module.whole
            told = _WHOLE if whole else ""
            self.values[v] = self.capture(self.parent.scalar(v), REGISTER[dtype], told), dtype
        else:
            self.values[v] = _argument(self, v)
        return self.values[v]

    def element_type(self, v: Var) -> DType:
        """The dtype of a buffer."""
        known = self.module.buffers.get(v)
        return known[1].dtype if known else self.place(v).buffer.dtype

    def by_value(self, v: Var) -> bool:
        """Whether a buffer is a scalar parameter."""
        known = self.module.buffers.get(v)
        return known is not None and known[1].role is Role.IN and not known[1].shape

    def place(self, v: Var) -> Place:
        known = self.places.get(v)
        if known:
            return known
        if self.parent:
            outer = self.parent.place(v)
            pointer = self.capture(outer.pointer, "ptr")
            planes = tuple(self.capture(p, "ptr") for p in outer.planes)
            self.places[v] = Place(pointer, outer.buffer, outer.strides, planes=planes)
        else:
            self.places[v] = _parameter(self, v)
        return self.places[v]

    def capture(self, value: Value, type: str, told: str = "") -> Value:
        """A value of the parent's, in this frame, and what LLVM is told of it. Slots 0 to 2 are
        `nap_report`'s."""
        self.captured.append((value, type))
        at = self.code.first(f"getelementptr i64, ptr %env, i64 {len(self.captured) + 2}")
        return self.code.first(f"load {type}, ptr {at}{told}")

    def error(self) -> Value:
        """Where the values of a failure go."""
        if not self.parent:
            return "%error"
        if "error" not in self.slots:
            self.slots["error"] = self.capture(self.parent.error(), "ptr")
        return self.slots["error"]

    def slot(self, name: str, first: int) -> Value:
        """A named 64-bit stack slot of this function with its first value."""
        if name not in self.slots:
            self.slots[name] = self.code.first("alloca i64")
            self.code.entry.append(f"  store i64 {first}, ptr {self.slots[name]}")
        return self.slots[name]

    # --- blocks ---------------------------------------------------------------------------------

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is computed inside is not available after."""
        self.opened.append([])
        yield
        for key in self.opened.pop():
            del self.memo[key]

    @contextmanager
    def loop(
        self, v: Var | None = None, value: Value = "", changes: Iterable[Var] = ()
    ) -> Iterator[None]:
        """Inside a loop, with its variable, where cells change from round to round."""
        runs = self.runs
        self.changed(changes)
        self.depth += 1
        if v is not None:
            self.values[v] = value, DType.I64
            self.depths[v] = self.depth
        with self.scope():
            yield
        self.busy = self.busy or self.runs == runs
        self.depth -= 1

    def once(self, key: object, operation: str) -> Value:
        """The result of a pure operation, computed once per block and those inside it."""
        value = self.memo.get(key)
        if value is None:
            value = self.code.let(operation)
            self.computed(key, value)
        return value

    def computed(self, key: object, value: Value) -> None:
        """Here and inside, this is known to be a value."""
        if key not in self.memo:
            self.opened[-1].append(key)
        self.memo[key] = value

    def unknown(self, value: int | float, dtype: DType) -> Value:
        """A constant that the optimiser knows nothing of: the result of no instructions."""
        found = self.memo.get((value, dtype))
        if found is None:
            width, code = dtype.bits, {DType.F32: "<f", DType.F64: "<d"}.get(dtype)
            bits = value if code is None else int.from_bytes(struct.pack(code, value), "little")
            found = self.code.first(f'call i64 asm "", "=r,0"(i64 {bits})')
            if width < 64:
                found = self.code.first(f"trunc i64 {found} to i{width}")
            if code is not None:
                found = self.code.first(f"bitcast i{width} {found} to {REGISTER[dtype]}")
            self.memo[value, dtype] = found  # in the entry block: everywhere
        return found

    def fail(self, status: Value) -> None:
        """End this block by leaving the function with a status, freeing what is allocated."""
        self.code.put(f"store i64 {status}, ptr {self.slot('status', 0)}")
        self.code.jump(self.exits[-1])

    def finish(self, header: str) -> None:
        """Close the function, after its last block has ended."""
        status = self.slot("status", 0)
        lines = [
            *self.cleanups,
            "leave:",
            f"  %status = load i64, ptr {status}",
            "  ret i64 %status",
        ]
        text = self.code.text() + "\n" + "\n".join(lines)
        # no call instead of the zeros: no loop with a call in it becomes one of vectors
        own = ' "no-builtin-memset"' * self.zeros
        self.module.functions.append(f"{header}{own} #{int(self.narrow)} {{\n{text}\n}}")

    # --- memory ---------------------------------------------------------------------------------

    def memory(self, place: Place) -> Var:
        """The name of a buffer's memory: an argument and a result may be one."""
        return self.module.memory.get(place.buffer.var, place.buffer.var)

    def tags(self, place: Place, writes: bool) -> str:
        """The metadata of an access: which memory it is, and which loops it is independent in."""
        out = ""
        v = self.memory(place)
        if self.nest is not None:
            if v not in self.nest.tags:
                self.nest.tags[v] = self.module.id(), self.module.id()
            if writes:
                self.nest.written.add(v)
            own, others = self.nest.tags[v]
            out = f", !alias.scope !{own}, !noalias !{others}"
        groups = tuple(self.groups[place.since :])
        if groups:
            number = groups[0] if len(groups) == 1 else self.module.nodes(groups)
            out += f", !llvm.access.group !{number}"
        return out


def never_negative(program: Program) -> frozenset[Var]:
    """The sizes, and the whole numbers of which the program checks first that they may be one."""
    found = set(program.sizes)
    for s in program.body:
        match s:
            case Fail(Apply("not", (Apply("ge", (Number(number), Number(least))),))):
                if isinstance(number.single, Var) and least == ZERO:
                    found.add(number.single)
            case Fail(Apply("not", (Apply("ge", (Local(v), Lit(0)), _, DType.I64),))):
                found.add(v)
            case _:
                break
    return frozenset(found)


def strides(shape: tuple[Size, ...]) -> tuple[Size, ...]:
    """Row-major strides in elements."""
    out = [ONE]
    for extent in reversed(shape[1:]):
        out.append(out[-1] * extent)
    return tuple(reversed(out[: len(shape)]))


def _argument(frame: Frame, v: Var) -> tuple[Value, DType]:
    code, program = frame.code, frame.module.program
    if v in program.sizes:
        at = code.first(f"getelementptr i64, ptr %sizes, i64 {program.sizes.index(v)}")
        return code.first(f"load i64, ptr {at}, !range !{{i64 0, i64 {1 << 62}}}"), DType.I64
    k, b = frame.module.buffers[v]
    at = code.first(f"getelementptr i64, ptr %scalars, i64 {k}")
    value = code.first(f"load {MEMORY[b.dtype]}, ptr {at}, align 8")
    if b.dtype is DType.BOOL:
        value = code.first(f"icmp ne i8 {value}, 0")
    return value, b.dtype


def _parameter(frame: Frame, v: Var) -> Place:
    code = frame.code
    k, b = frame.module.buffers[v]
    at = code.first(f"getelementptr ptr, ptr %buffers, i64 {k}")
    return Place(code.first(f"load ptr, ptr {at}"), b, strides(b.shape))
