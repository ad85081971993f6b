"""The body of a loop, one block of scalars, as a block of vectors.

LLVM's vectoriser does that too, and takes as long for it as for all the rest, with the passes
that it wants before and after. Here every line of the block becomes one line, by what it is:

* what does not change from round to round goes in front of the loop, and is spread where a vector
  meets it;
* what grows by a constant (the index, addresses) stays one number, that of the first lane;
* what is read or written side by side is read and written as a vector;
* what only some lanes do, under a condition that each asks for itself, all do, but they read and
  write with a mask, and keep what they have assigned by it;
* all else is the same operation of vectors.

A block with anything more in it stays as it is, and LLVM's. The rounds that are left after the last
whole vector are the scalars'.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from naperian.backends import divided
from naperian.backends.code import Value
from naperian.backends.frame import Frame
from naperian.backends.functions import math
from naperian.backends.functions.elementary import PAIRS
from naperian.backends.lifted import quotient
from naperian.backends.masks import gathered, loaded, masks, stored
from naperian.backends.rare import LANES
from naperian.backends.traits import UNROLLED
from naperian.dtypes import DType
from naperian.node import mutable

_LINE = re.compile(r"  (?:(%[a-zA-Z0-9_]+) = )?([a-z]+) (.*)")
_LABEL = re.compile(r"(\w+):$")
_BRANCH = re.compile(r"i1 (%\w+), label %(\w+), label %(\w+)$")
_TWO = re.compile(r"(?:([\w ]*) )?(\w+) ([^\s,]+), ([^\s,]+)$")
_CAST = re.compile(r"(?:([\w ]*) )?(\w+) ([^\s,]+) to (\w+)$")
_SELECT = re.compile(r"i1 ([^\s,]+), (\w+) ([^\s,]+), \w+ ([^\s,]+)$")
_ADDRESS = re.compile(r"(\w+), ptr ([^\s,]+), i64 ([^\s,]+)$")
_LOAD = re.compile(r"(\w+), ptr ([^\s,]+)(, align .*)?$")
_STORE = re.compile(r"(\w+) ([^\s,]+), ptr ([^\s,]+)(, align .*)?$")
_CALL = re.compile(r"(?:([\w ]*) )?(\w+) @([\w.]+)\(([^()]*)\)")
_OWN = re.compile(r"!alias\.scope !(\d+)")
_GROUP = re.compile(r"!llvm\.access\.group !(\d+)")
_INLINE = re.compile(r"nap\.(\w+)\.f(32|64)$")
_CALLED = re.compile(r"nap_(\w+)_f(32|64)$")
_FUNCTION = re.compile(r"@nap[._]\w+[._]f(32|64)\(")

_BYTES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8}
_PLAIN = {"fadd", "fsub", "fmul", "fdiv", "add", "sub", "mul", "and", "or", "xor", "shl", "ashr",
          "lshr"}  # fmt: skip
_COMPARES = {"icmp", "fcmp"}
_CASTS = {"sext", "zext", "trunc", "sitofp", "uitofp", "fptosi", "fptoui", "fpext", "fptrunc",
          "bitcast"}  # fmt: skip
_PURE = _PLAIN | _COMPARES | _CASTS | {"fneg", "select", "getelementptr", "sdiv", "srem", "udiv",
                                      "urem"}  # fmt: skip
_EXTREMES = {f"llvm.{x}" for x in ("smin", "smax", "umin", "umax", "minimum", "maximum")}
_NAME = re.compile(r"%[a-zA-Z0-9_]+")
_FLOATS = {"32": DType.F32, "64": DType.F64}

_SHORT_ROW = 4  # vectors, whose divisions take no longer than what stands in front of them

NOWHERE = "", 0, 0
VECTOR = None  # how a value moves that has nothing but lanes


def _pairs(parsed: Sequence[_Parsed]) -> dict[str, set[str]]:
    """Of functions that are half of each other, the operands of which both are wanted."""
    found: dict[str, set[str]] = {}
    for _, _, op, rest in parsed:
        m = _CALL.match(rest) if op == "call" else None
        f = _CALLED.match(m[3]) if m is not None else None
        if m is not None and f is not None:
            found.setdefault(f[1], set()).add(m[4])
    wanted: dict[str, set[str]] = {}
    for halves in PAIRS.values():
        both = set.intersection(*(found.get(name, set()) for name in halves))
        wanted |= dict.fromkeys(halves, both)
    return wanted


class _Stays(Exception):
    """A block that is left to LLVM."""


_Parsed = tuple[str, Value, str, str]  # a line, what it names, its operation and the rest


@dataclass(frozen=True, slots=True)
class Sum:
    """A variable that rounds add to, or the like, in an order that is free: `last` is made of
    `first`, which is what it was, by operations of one kind: flags and a name."""

    cell: Value
    type: str
    first: Value
    last: Value
    kind: str


@mutable
class Block:
    """What a block has become. `before` is in front of the loop, `scalars` what is left of its
    lines; `ones` are distances, not known here, that must be 1; at `turned` places the
    last lane is the first."""

    lanes: int = 0
    before: list[str] = field(default_factory=list)
    scalars: list[str] = field(default_factory=list)
    vectors: list[str] = field(default_factory=list)
    ones: list[Value] = field(default_factory=list)
    turned: set[Value] = field(default_factory=set)
    masks: bool = False  # whether some lanes do what others do not
    gathers: bool = False  # whether elements that lie apart become a vector
    sums: list[Sum] = field(default_factory=list)


def widened(
    frame: Frame, lines: Sequence[str], index: Value, group: int | None, cells: frozenset[Value],
    rounds: float, narrow: bool = False,
) -> Block | None:  # fmt: skip
    """The block of a loop's body, if it can be one of vectors; its `cells` are variables of a
    round. No two rounds touch the same memory, or
    if there is a group, of the group. Few `rounds` are to be vectors
    however far apart their elements lie. `narrow` vectors have 32 bytes at most."""
    try:
        return _Writer(frame, index, group, cells, rounds, narrow).block(lines)
    except _Stays:
        return None


class _Writer:
    """Writes the vectors of one block."""

    def __init__(
        self, frame: Frame, index: Value, group: int | None, cells: frozenset[Value],
        rounds: float, narrow: bool,
    ) -> None:  # fmt: skip
        self.frame, self.cells, self.rounds, self.group = frame, cells, rounds, group
        self.narrow = narrow or frame.narrow
        self.index = index
        self.places: dict[Value, tuple[Value, int, int]] = {}
        self.groups = {group, *(k for t, k in frame.module.unique.items() if group in t)}
        # how a value moves from round to round: by a number, by another value, or as lanes do;
        # what is not in here does not
        self.moves: dict[Value, int | Value | None] = {index: 1}
        self.spreads: dict[tuple[Value, str], Value] = {}
        self.inverses: dict[tuple[Value, Value], list[Value]] = {}
        self.block_ = Block()
        self.now: dict[Value, Value] = {}  # what the variables of a round are
        self.mask: Value = ""  # which lanes do what is written, if not all
        self.labels: tuple[str, str] = "", ""  # where that begins and ends
        self.elsewhere: dict[str, Value] = {}  # what is read and written of lanes not in the mask

    def block(self, lines: Sequence[str]) -> Block:
        parsed = []
        for line in lines:
            m = _LINE.match(line)
            if m is not None:
                parsed.append((line, m[1], m[2], m[3]))
            elif (label := _LABEL.match(line)) is not None:
                parsed.append((line, "", "label", label[1]))
            else:
                raise _Stays
        self.pairs = _pairs(parsed)
        self.block_.sums = self._sums(parsed)
        self.totals = {x.cell for x in self.block_.sums}
        self.block_.lanes = self.lanes = self._lanes(parsed)
        for line, name, op, rest in parsed:
            self._line(line, name, op, rest)
        return self.block_

    def _lanes(self, parsed: Sequence[_Parsed]) -> int:
        """As many as the widest elements of memory fill a vector, and functions have forms for."""
        widest = max((_BYTES.get(x.type, 1) for x in self.block_.sums), default=0)
        self.stored = set[str]()
        for line, _, op, rest in parsed:
            if op == "store":
                m = _STORE.match(rest)
                if m is None:
                    raise _Stays
                if m[4]:
                    widest = max(widest, _BYTES.get(m[1], 99))
                    own = _OWN.search(line)
                    self.stored.add(own[1] if own else "")
            elif op == "load":
                m = _LOAD.match(rest)
                if m is None:
                    raise _Stays
                if m[3]:
                    widest = max(widest, _BYTES.get(m[1], 99))
        if not (self.stored or self.totals) or not 0 < widest < 9:
            raise _Stays
        bytes = self.frame.module.target.vector_bytes
        lanes = (min(32, bytes) if self.narrow else bytes) // widest
        if any(op == "call" and _FUNCTION.search(rest) for _, _, op, rest in parsed):
            lanes = min(lanes, LANES[-1])
        few = self.rounds < lanes and self.rounds in (2, 4, 8, 16, 32)
        return int(self.rounds) if few else lanes

    def _sums(self, parsed: Sequence[_Parsed]) -> list[Sum]:
        """The variables that outlive a round."""
        users: dict[Value, list[_Parsed]] = {}
        cells: dict[Value, list[_Parsed]] = {}
        for line in parsed:
            _, _, op, rest = line
            for v in _NAME.findall(rest):
                users.setdefault(v, []).append(line)
            if op == "store" and (m := _STORE.match(rest)) and not m[4] and m[3] not in self.cells:
                cells.setdefault(m[3], []).append(line)
        return [self._sum(cell, stores, users) for cell, stores in cells.items()]

    def _sum(
        self, cell: Value, stores: list[_Parsed], users: dict[Value, list[_Parsed]]
    ) -> Sum:  # fmt: skip
        """What rounds make of a variable, if nothing else is made of what it was before."""
        loads = [x for x in users[cell] if x[2] == "load"]
        if len(loads) != 1:
            raise _Stays
        last = first = loads[0][1]
        kind = ""
        while others := [x for x in users.get(last, ()) if x not in stores]:
            [line, *more] = others
            how = _kind(line[2], line[3])
            if more or not how or (kind and how != kind):
                raise _Stays
            last, kind = line[1], how
        m = _STORE.match(stores[-1][3])
        if m is None or m[2] != last or not kind:
            raise _Stays
        return Sum(cell, m[1], first, last, kind)

    # --- lines ----------------------------------------------------------------------------------

    def _line(self, line: str, name: Value, op: str, rest: str) -> None:
        self.block_.scalars.append(line)
        match op:
            case "store":
                self._store(line, rest)
            case "load":
                self._load(line, name, rest)
            case "getelementptr":
                self._address(line, name, rest)
            case "call":
                self._call(line, name, rest)
            case "br":
                self._branch(rest)
            case "label":
                self._label(rest)
            case _ if op not in _PURE:
                raise _Stays
            case _ if not self._moving(rest):
                self._lifted(line)
            case "fdiv" if (q := quotient(name, rest)) and q.divisor not in self.moves:
                self.block_.before.append(q.inverse)
                self.block_.scalars[-1] = q.product
                m = _LINE.match(q.product)
                assert m is not None
                self._operation(name, m[2], m[3])
            case "fdiv" if self._divides(name, rest):
                pass
            case _:
                self._operation(name, op, rest)

    def _branch(self, rest: str) -> None:
        """To what only some lanes do, or from there to what follows."""
        m = _BRANCH.match(rest)
        if m is None:
            if rest != f"label %{self.labels[1]}":
                raise _Stays
            return
        if self.mask or self.rounds > UNROLLED or m[1] not in self.moves:
            raise _Stays
        self.mask, self.labels = self._many(m[1], "i1"), (m[2], m[3])
        self.block_.masks = True

    def _label(self, label: str) -> None:
        if label not in self.labels:
            raise _Stays
        if label == self.labels[1]:
            self.mask, self.labels = "", ("", "")

    def _moving(self, text: str) -> bool:
        return any(v in self.moves for v in _NAME.findall(text))

    def _lifted(self, line: str) -> None:
        """A line that says the same in every round: in front of the loop."""
        del self.block_.scalars[-1]
        self.block_.before.append(line)

    def _address(self, line: str, name: Value, rest: str) -> None:
        m = _ADDRESS.match(rest)
        if m is None:
            raise _Stays
        if not self._moving(rest):
            self._place(name, m[1], m[2], m[3])
            self._lifted(line)
            return
        base, at = self.moves.get(m[2], 0), self.moves.get(m[3], 0)
        if base is VECTOR or at is VECTOR:
            self._anywhere(name, m)
            return
        if base and at:
            raise _Stays
        self.moves[name] = base or at
        self._place(name, m[1], m[2], m[3])
        self._first(name, f"getelementptr {m[1]}, ptr {self._one(m[2])}, i64 {self._one(m[3])}")

    def _anywhere(self, name: Value, m: re.Match[str]) -> None:
        """The addresses of a few elements that lie where each says."""
        if self.rounds > UNROLLED or self.frame.module.target.vector_bytes == 64:
            raise _Stays  # it waits for memory, and LLVM knows processors
        if self.moves.get(m[2], VECTOR) is not VECTOR:
            raise _Stays
        pointer = self._type("ptr") if m[2] in self.moves else "ptr"
        each = f"{self._type('i64')} {self._many(m[3], 'i64')}"
        self._wide(name, f"getelementptr {m[1]}, {pointer} {self._one(m[2])}, {each}")

    def _load(self, line: str, name: Value, rest: str) -> None:
        m = _LOAD.match(rest)
        assert m is not None
        if not m[3]:
            if any(x.first == name for x in self.block_.sums):
                self.moves[name] = VECTOR
                return
            if m[2] in self.cells:
                self._assigned(name, m[1], m[2])
                return
            if m[2] in self.moves:
                raise _Stays
            self._lifted(line)  # a variable of a loop around
            return
        own = _OWN.search(line)
        written = own is None or own[1] in self.stored
        if written and not self._is_of(line):
            raise _Stays
        step = self.moves.get(m[2], 0)
        if step == 0:
            if written or self.mask:
                raise _Stays
            self._lifted(line)
            return
        vector = self._type(m[1])
        if self.mask and not self._is_whole(m[2]):
            first, target = self._one(m[2]), self.frame.module.target
            if step == 1 and masks(target, m[1]):
                operation = loaded(self.lanes, m[1], first, m[3], self.mask)
            elif target.vector_bytes < 64:
                self._gathered(name, m[1], first, step, m[3])
                return
            else:
                places = self._own(f"getelementptr {m[1]}, ptr {first}, {self._apart(step)}")
                operation = gathered(self.lanes, m[1], places, m[3], self.mask)
            self._wide(name, operation)
        elif not isinstance(step, int) and (step is VECTOR or self.totals):
            # what is added up a row apart LLVM leaves to scalars, each of which waits for the last
            self._gathered(name, m[1], self._one(m[2]), step, m[3])
        elif self._side_by_side(step):
            self._wide(name, f"load {vector}, ptr {self._one(m[2])}{m[3]}")
        elif step == -1:
            x = self._own(f"load {vector}, ptr {self._last(m[1], m[2])}{m[3]}")
            self._wide(name, self._turned(vector, x))
        else:
            self._gathered(name, m[1], self._one(m[2]), step, m[3])

    def _store(self, line: str, rest: str) -> None:
        m = _STORE.match(rest)
        assert m is not None
        if not m[4]:
            self._assign(m[1], m[2], m[3])
            return
        step = self.moves.get(m[3], 0)
        if not self._is_of(line) or step == 0:
            raise _Stays
        value, to = self._many(m[2], m[1]), self._one(m[3])
        if self.mask and self._is_whole(m[3]):
            t = self._type(m[1])
            old = self._own(f"load {t}, ptr {to}{m[4]}")
            value = self._own(f"select {self._type('i1')} {self.mask}, {t} {value}, {t} {old}")
        elif self.mask:
            if step == 1 and masks(self.frame.module.target, m[1]):
                self.block_.vectors.append(stored(self.lanes, m[1], value, to, m[4], self.mask))
            else:
                self._scattered(m[1], value, to, step, m[4])
            return
        if step is VECTOR:
            raise _Stays  # two rounds might write one element
        if self._side_by_side(step):
            self.block_.vectors.append(f"  store {self._type(m[1])} {value}, ptr {to}{m[4]}")
            return
        if step == -1:
            value, to = self._own(self._turned(self._type(m[1]), value)), self._last(m[1], m[3])
            self.block_.vectors.append(f"  store {self._type(m[1])} {value}, ptr {to}{m[4]}")
            return
        self._scattered(m[1], value, to, step, m[4])

    def _assign(self, type: str, value: Value, cell: Value) -> None:
        """A variable of a round is changed: in the lanes that are asked."""
        if self.mask and cell not in self.now and cell not in self.cells:
            raise _Stays
        if self.mask and cell in self.now:  # else it begins here, for these lanes
            new, old = self._many(value, type), self._many(self.now[cell], type)
            t, value = self._type(type), self.frame.code.name()
            self._wide(value, f"select {self._type('i1')} {self.mask}, {t} {new}, {t} {old}")
        if cell in self.cells:
            self.now[cell] = value

    def _assigned(self, name: Value, type: str, cell: Value) -> None:
        """What a variable of a round is."""
        if cell not in self.now:
            raise _Stays
        t = self._type(type)
        self._wide(name, f"bitcast {t} {self._many(self.now[cell], type)} to {t}")

    def _is_of(self, line: str) -> bool:
        """Whether no other round touches the memory that a line does."""
        group = _GROUP.search(line)
        return self.group is None or (group is not None and int(group[1]) in self.groups)

    def _place(self, name: Value, type: str, base: Value, by: Value) -> None:
        """Where an address is in a small array, from its first element and the index on."""
        array = self.frame.arrays.get(base)
        root, start, lane = (base, 0, 0) if array is not None else self.places.get(base, NOWHERE)
        if root and (by == self.index or _is_number(by)):
            more = (0, 1) if by == self.index else (int(by), 0)
            self.places[name] = root, start + more[0], lane + more[1]

    def _is_whole(self, pointer: Value) -> bool:
        """Whether all lanes have an element there, of a small array: none needs a mask, and one
        would keep the array from the registers."""
        root, start, lane = self.places.get(pointer, NOWHERE)
        room = self.frame.arrays.get(root, 0) - start
        return lane == 1 and start >= 0 and self.rounds <= room

    def _side_by_side(self, step: int | Value) -> bool:
        """Whether elements lie side by side; a loop that is no vector otherwise asks for that."""
        if step == 1:
            return True
        if self.rounds <= UNROLLED or step == -1:
            return False
        if isinstance(step, int):
            self._stay()
        elif step not in self.block_.ones:
            self.block_.ones.append(step)
        return True

    def _last(self, type: str, pointer: Value) -> Value:
        """Where the last of elements is that lie side by side the other way round."""
        place = self._own(f"getelementptr {type}, ptr {self._one(pointer)}, i64 {1 - self.lanes}")
        self.block_.turned.add(place)
        return place

    def _turned(self, vector: str, value: Value) -> str:
        """The lanes the other way round."""
        order = ", ".join(f"i32 {k}" for k in reversed(range(self.lanes)))
        return f"shufflevector {vector} {value}, {vector} poison, <{self.lanes} x i32> <{order}>"

    def _gathered(
        self, name: Value, type: str, first: Value, step: int | Value | None, tags: str
    ) -> None:
        """Elements that lie so far apart, one by one: processors gather no faster."""
        self.block_.gathers, (vector, insert) = True, ("poison", "")
        for k in range(self.lanes):
            x = self._own(f"load {type}, ptr {self._element(type, first, step, k, 'read')}{tags}")
            insert = f"insertelement {self._type(type)} {vector}, {type} {x}, i64 {k}"
            vector = self._own(insert) if k < self.lanes - 1 else vector
        self._wide(name, insert)

    def _scattered(
        self, type: str, value: Value, first: Value, step: int | Value | None, tags: str
    ) -> None:
        """The elements of a vector go so far apart, one by one."""
        for k in range(self.lanes):
            x = self._own(f"extractelement {self._type(type)} {value}, i64 {k}")
            at = self._element(type, first, step, k, "written")
            self.block_.vectors.append(f"  store {type} {x}, ptr {at}{tags}")

    def _element(
        self, type: str, first: Value, step: int | Value | None, k: int, how: str
    ) -> Value:
        """Where the element of a lane is; of a lane that the mask does not name, elsewhere."""
        if step is VECTOR:
            at = self._own(f"extractelement {self._type('ptr')} {first}, i64 {k}")
        else:
            at = self._own(f"getelementptr {type}, ptr {first}, i64 {self._far(step, k)}")
        if not self.mask:
            return at
        named = f"{self.mask} {k}", "i1"
        if named not in self.spreads:
            x = f"extractelement {self._type('i1')} {self.mask}, i64 {k}"
            self.spreads[named] = self._own(x)
        if how not in self.elsewhere:
            code = self.frame.code
            self.elsewhere[how] = code.first("alloca i64, align 8")
            code.entry.append(f"  store i64 0, ptr {self.elsewhere[how]}")
        return self._own(f"select i1 {self.spreads[named]}, ptr {at}, ptr {self.elsewhere[how]}")

    def _far(self, step: int | Value, k: int) -> Value:
        """Where the element of a lane is."""
        if isinstance(step, int):
            return str(step * k)
        key = f"{step} * {k}", "i64"
        if key not in self.spreads:
            self.spreads[key] = self._before(f"mul nsw i64 {step}, {k}")
        return self.spreads[key]

    def _apart(self, step: int | Value | None) -> str:
        """How far from the first element those of all lanes are."""
        if step is VECTOR:
            raise _Stays
        t = self._type("i64")
        if isinstance(step, int):
            return f"{t} <{', '.join(f'i64 {step * k}' for k in range(self.lanes))}>"
        lanes = ", ".join(f"i64 {k}" for k in range(self.lanes))
        by = self._many(step, "i64")
        return f"{t} {self._own(f'mul nsw {t} {by}, <{lanes}>')}"

    def _before(self, operation: str) -> Value:
        name = self.frame.code.name()
        self.block_.before.append(f"  {name} = {operation}")
        return name

    def _own(self, operation: str) -> Value:
        name = self.frame.code.name() + ".w"
        self.block_.vectors.append(f"  {name} = {operation}")
        return name

    def _stay(self) -> bool:
        raise _Stays

    def _call(self, line: str, name: Value, rest: str) -> None:
        m = _CALL.match(rest)
        if m is None or not name:
            raise _Stays
        flags, type, f, operands = m[1] or "", m[2], m[3], m[4]
        inline, called = _INLINE.match(f), _CALLED.match(f)
        if not (f.startswith("llvm.") or inline or called):
            raise _Stays
        if not self._moving(operands):
            self._lifted(line)
            return
        args = [x.split() for x in operands.split(", ")]
        wide = ", ".join(
            f"i1 {x}" if t == "i1" and f.startswith("llvm.abs") else
            f"{self._type(t)} {self._many(x, t)}" for t, x in args
        )  # fmt: skip
        if inline:
            f = self._function(inline[1], _FLOATS[inline[2]])
        elif called and operands in self.pairs.get(called[1], ()):
            self._half(name, called[1], _FLOATS[called[2]], wide)
            return
        elif called:
            f = math.symbol(called[1], _FLOATS[called[2]], self.lanes)
        else:
            f = re.sub(r"\.(f|i)(\d+)", rf".v{self.lanes}\1\2", f)
        self._wide(name, f"call {flags} {self._type(type)} @{f}({wide})".replace("  ", " "))

    def _half(self, name: Value, function: str, dtype: DType, operand: str) -> None:
        """One of two results of a function, which is called for the first."""
        module = self.frame.module
        pair, halves = next((p, names) for p, names in PAIRS.items() if function in names)
        convention = module.target.convention
        type, declaration = math.both(pair, dtype, self.lanes, convention)
        symbol = f"@{math.symbol(pair, dtype, self.lanes)}"
        module.definitions[symbol] = declaration
        key = symbol, operand
        if key not in self.spreads:
            self.spreads[key] = self._own(f"call {convention}{type} {symbol}({operand})")
        self._wide(name, f"extractvalue {type} {self.spreads[key]}, {halves.index(function)}")

    def _function(self, name: str, dtype: DType) -> str:
        """An elementary function of vectors, inline."""
        module = self.frame.module
        f = math.function(name, dtype, self.lanes, module.target.scales)
        module.definitions |= f.tables
        module.definitions[f.symbol] = f.text
        module.calls[f.symbol] += 1
        return f.symbol[1:]

    def _divides(self, name: Value, rest: str) -> bool:
        """A vector divided by what no round changes, if there is something faster."""
        m, module = _TWO.match(rest), self.frame.module
        if m is None or m[4] in self.moves or self.rounds < _SHORT_ROW * self.lanes:
            return False
        type, divisor = m[2], m[4]
        if not divided.pays(module.target, type, divisor, self._is_from_outside(divisor)):
            return False
        symbol, result, text = divided.inverse(type)
        module.definitions[symbol] = text
        key = symbol, divisor
        if key not in self.inverses:
            one = self._before(f"call {result} {symbol}({type} {divisor})")
            parts = (f"extractvalue {result} {one}, {k}" for k in range(3))
            self.inverses[key] = [self._before(x) for x in parts]
        symbol, text = divided.quotient(type, self.lanes)
        module.definitions[symbol] = text
        types = (type, type, type, type, f"i{8 * _BYTES[type]}")
        values = zip((m[3], divisor, *self.inverses[key]), types, strict=True)
        args = ", ".join(f"{self._type(t)} {self._many(v, t)}" for v, t in values)
        self._wide(name, f"call {self._type(type)} {symbol}({args})")
        return True

    def _is_from_outside(self, value: Value) -> bool:
        """Whether what no round changes is the same in all rounds of the loop around, too."""
        depths, depth = self.frame.depths, self.frame.depth
        made = (depths.get(v, 0) for v, (one, _) in self.frame.values.items() if one == value)
        return max(made, default=depth) < max(1, depth)

    def _operation(self, name: Value, op: str, rest: str) -> None:
        if op in _CASTS:
            m = _CAST.match(rest)
            if m is None:
                raise _Stays
            how = f"{op} {m[1]} " if m[1] else f"{op} "
            self._wide(name, f"{how}{self._type(m[2])} {self._many(m[3], m[2])} to "
                             f"{self._type(m[4])}")  # fmt: skip
            return
        if op == "select":
            m = _SELECT.match(rest)
            if m is None:
                raise _Stays
            t, x, y = self._type(m[2]), self._many(m[3], m[2]), self._many(m[4], m[2])
            c = f"i1 {m[1]}"
            if m[1] in self.moves:
                c = f"{self._type('i1')} {self._many(m[1], 'i1')}"
            self._wide(name, f"select {c}, {t} {x}, {t} {y}")
            return
        if op == "fneg":
            t, x = rest.split()[-2:]
            self._wide(name, f"fneg {self._type(t)} {self._many(x, t)}")
            return
        m = _TWO.match(rest)
        if m is None or op in ("sdiv", "srem", "udiv", "urem"):
            raise _Stays
        how, t, x, y = f"{op} {m[1]} " if m[1] else f"{op} ", m[2], m[3], m[4]
        if t == "i64" and op in ("add", "sub", "mul"):
            step = self._step(op, x, y)
            if step is not VECTOR:
                self.moves[name] = step
                self._first(name, f"{how}{t} {self._one(x)}, {self._one(y)}")
                return
        self._wide(name, f"{how}{self._type(t)} {self._many(x, t)}, {self._many(y, t)}")

    def _step(self, op: str, x: Value, y: Value) -> int | Value | None:
        """How a sum or product moves."""
        a, b = self.moves.get(x, 0), self.moves.get(y, 0)
        if op == "mul":
            step, by = (a, y) if b == 0 else (b, x) if a == 0 else (VECTOR, y)
            if step is VECTOR:
                return VECTOR
            if isinstance(step, int) and _is_number(by):
                return step * int(by) or VECTOR
            return by if step == 1 else self._before(f"mul i64 {step}, {by}")
        if isinstance(a, int) and isinstance(b, int):
            return (a + b if op == "add" else a - b) or VECTOR
        if op == "add" and (a == 0 or b == 0):
            return b if a == 0 else a
        return a if b == 0 else VECTOR

    # --- values ---------------------------------------------------------------------------------

    def _type(self, scalar: str) -> str:
        return f"<{self.lanes} x {scalar}>"

    def _first(self, name: Value, operation: str) -> None:
        self.block_.vectors.append(f"  {name}.w = {operation}")

    def _wide(self, name: Value, operation: str) -> None:
        self.moves[name] = VECTOR
        self.block_.vectors.append(f"  {name}.w = {operation}")

    def _one(self, value: Value) -> Value:
        """A value of the first lane."""
        return f"{value}.w" if value in self.moves else value

    def _many(self, value: Value, type: str) -> Value:
        """A value in every lane."""
        if not value.startswith("%"):
            return f"splat ({type} {value})"
        move = self.moves.get(value, 0)
        if move is VECTOR:
            return f"{value}.w"
        known = self.spreads.get((value, type))
        if known:
            return known
        name = self.frame.code.name
        mark, where = (".w", self.block_.vectors) if move else ("", self.block_.before)
        first, wide, vector = name() + mark, name() + mark, self._type(type)
        where.append(f"  {first} = insertelement {vector} poison, {type} {self._one(value)}, i64 0")
        where.append(f"  {wide} = shufflevector {vector} {first}, {vector} poison, "
                     f"<{self.lanes} x i32> zeroinitializer")  # fmt: skip
        if move:
            if not isinstance(move, int):
                raise _Stays
            steps = ", ".join(f"i64 {move * k}" for k in range(self.lanes))
            lanes = name() + mark
            where.append(f"  {lanes} = add {vector} {wide}, <{steps}>")
            wide = lanes
        self.spreads[value, type] = wide
        return wide


def _kind(op: str, rest: str) -> str:
    """What an operation of numbers in any order is, if it is one."""
    if op == "call":
        m = _CALL.match(rest)
        name = m[3].rpartition(".")[0] if m is not None else ""
        return f"{m[1] or ''} {name}".strip() if m is not None and name in _EXTREMES else ""
    if op in ("fadd", "fmul"):
        return f"reassoc {op}" if rest.startswith("reassoc ") else ""
    return op if op in ("add", "mul", "and", "or", "xor") else ""


def _is_number(value: Value) -> bool:
    return value.lstrip("-").isdigit()
