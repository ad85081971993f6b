"""What must hold of loops: scopes, dtypes, arity, and who may read or write which buffer."""

from __future__ import annotations

from typing import Literal

from naperian.ainf.syntax import OUTSIDE
from naperian.broken import Broken
from naperian.dtypes import DType
from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Buffer,
    Contract,
    Expr,
    Fail,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Order,
    Print,
    Program,
    Reduction,
    Role,
    Sort,
    Stmt,
    Store,
    Update,
    Variable,
    When,
    While,
    made_here,
)
from naperian.loops.walk import atoms, mentions, reads, statements, writes
from naperian.names import Lit, Var
from naperian.prims import MONOIDS, PRIMITIVES
from naperian.sizes import Size

_Scalar = tuple[Literal["let", "var", "index"], DType]


def check(program: Program) -> Program:
    """The program itself, if it is well formed; `Broken` says what is wrong."""
    scalars: dict[Var, _Scalar] = {v: ("index", DType.I64) for v in program.sizes}
    buffers: dict[Var, Buffer] = {}
    for b in program.buffers:
        if b.role is Role.TEMP:
            raise Broken(f"{b.var}: a temporary among the parameters")
        if b.role is Role.IN and not b.shape:
            scalars[b.var] = ("let", b.dtype)
        else:
            buffers[b.var] = b
    made = made_here(program.body)
    for v in made:
        if buffers.pop(v, None) is None:
            raise Broken(f"{v} is allocated, but no result")
    _Scope(scalars, buffers, len(program.failures), len(program.lines), False).block(program.body)
    return program


class _Scope:
    """What is visible in a block; inner blocks see copies."""

    def __init__(
        self, scalars: dict[Var, _Scalar], buffers: dict[Var, Buffer], failures: int, lines: int,
        nested: bool,
    ) -> None:
        self.scalars = scalars
        self.buffers = buffers
        self.failures = failures
        self.lines = lines
        self.nested = nested  # inside a PARALLEL or FREE loop: no more PARALLEL

    def inner(self, nested: bool | None = None) -> _Scope:
        now = self.nested if nested is None else nested
        return _Scope(dict(self.scalars), dict(self.buffers), self.failures, self.lines, now)

    def block(self, body: tuple[Stmt, ...]) -> None:
        for s in body:
            self.stmt(s)

    def bind(self, v: Var, what: _Scalar) -> None:
        if v in self.scalars or v in self.buffers:
            raise Broken(f"{v} is bound twice")
        self.scalars[v] = what

    def stmt(self, s: Stmt) -> None:
        match s:
            case Loop(var, low, high, body, order, reductions, work):
                for bound in (low, high, work):
                    self.size(bound)
                if order is Order.PARALLEL and self.nested:
                    raise Broken(f"a parallel loop over {var} inside another")
                for r in reductions:
                    if r.monoid not in MONOIDS or r.monoid.startswith("arg") or r.monoid == "last":
                        raise Broken(f"{r.monoid} is not a reduction of loops")
                    if r.var in self.buffers:
                        self.accumulated(r, s)
                    else:
                        self.variable(r.var, r.dtype)
                inside = self.inner(self.nested or order is not Order.SERIAL)
                inside.bind(var, ("index", DType.I64))
                inside.block(body)
            case While(head, condition, body):
                inside = self.inner()
                inside.block(head)
                inside.expect(condition, DType.BOOL)
                inside.block(body)
            case When(condition, then, otherwise):
                self.expect(condition, DType.BOOL)
                self.inner().block(then)
                self.inner().block(otherwise)
            case Let(var, dtype, value):
                self.expect(value, dtype)
                self.bind(var, ("let", dtype))
            case Variable(var, dtype, value):
                self.expect(value, dtype)
                self.bind(var, ("var", dtype))
            case Assign(var, value):
                self.expect(value, self.variable(var))
            case Store(buffer, at, value):
                self.expect(value, self.place(buffer, at, written=True))
            case Update(buffer, at, monoid, value):
                if monoid not in MONOIDS or monoid.startswith("arg") or monoid == "last":
                    raise Broken(f"{monoid} cannot update {buffer}")
                self.expect(value, self.place(buffer, at, written=True))
            case Allocate(buffer, fill):
                if buffer.role is Role.IN:
                    raise Broken(f"{buffer.var} is allocated but the caller's")
                for n in buffer.shape:
                    self.size(n)
                self.planes(s)
                if fill is not None and fill.dtype is not buffer.dtype:
                    raise Broken(f"{buffer.var} is filled with {fill.dtype}")
                if buffer.var in self.scalars or buffer.var in self.buffers:
                    raise Broken(f"{buffer.var} is bound twice")
                self.buffers[buffer.var] = buffer
            case Fail(condition, code, values):
                self.expect(condition, DType.BOOL)
                if code != OUTSIDE and not 1 <= code <= self.failures:
                    raise Broken(f"failure {code} of {self.failures}")
                for v in values:
                    self.expr(v)
            case Print(code, values, dtypes):
                if not 0 <= code <= self.lines:
                    raise Broken(f"line {code} of {self.lines}")
                for v, dtype in zip(values, dtypes, strict=True):
                    self.expect(v, dtype)
            case Contract():
                self.contract(s)
            case Sort((out, there), value, (v, n), dtype, places):
                inside = self.inner()
                inside.size(n)
                inside.bind(v, ("index", DType.I64))
                if inside.place(out, there, written=True) is not (DType.I64 if places else dtype):
                    raise Broken(f"a sort of {dtype} to {out}")
                if inside.place(*value, written=False) is not dtype or out == value[0]:
                    raise Broken(f"a sort of {dtype} of {value[0]}")

    def planes(self, s: Allocate) -> None:
        b = s.buffer
        if s.planes and (b.role is not Role.TEMP or b.shape[0].constant != len(s.planes)):
            raise Broken(f"{b.var} has {b.shape[0]} planes, not {len(s.planes)}")
        if s.planes and (s.fill is not None or s.small or s.planes.count(None) != 1):
            raise Broken(f"{b.var} has one plane of its own, which is not filled or small")
        for x in s.planes:
            if x is not None:
                whole = self.buffers.get(x[0])
                if whole is None or whole.role is Role.TEMP or whole.dtype is not b.dtype:
                    raise Broken(f"{x[0]} cannot hold a plane of {b.var}")
                if whole.shape[len(x[1]) :] != b.shape[1:]:
                    raise Broken(f"a plane of {b.var} has another shape than {x[0]}")
                for i in x[1]:
                    self.size(i)

    def accumulated(self, r: Reduction, s: Loop) -> None:
        """An array that iterations share is only updated, with one monoid."""
        if self.buffers[r.var].role is Role.IN or self.buffers[r.var].dtype is not r.dtype:
            raise Broken(f"a loop cannot accumulate {r.dtype} in {r.var}")
        if s.order is not Order.PARALLEL:
            raise Broken(f"a loop that is not parallel accumulates the array {r.var}")
        for x in statements(s.body):
            if r.var in reads(x) or (isinstance(x, Contract | Sort) and r.var in mentions(x)):
                raise Broken(f"{r.var} is read while it is accumulated")
            if writes(x) == r.var and not (isinstance(x, Update) and x.monoid == r.monoid):
                raise Broken(f"{r.var} is accumulated by {r.monoid} and written otherwise")

    def contract(self, s: Contract) -> None:
        inside = self.inner()
        for group in (s.batch, s.rows, s.columns, s.inner):
            for v, n in group:
                inside.size(n)
                inside.bind(v, ("index", DType.I64))
        if not s.dtype.is_float:
            raise Broken(f"a contraction of {s.dtype}")
        for place, written in ((s.left, False), (s.right, False), (s.out, True)):
            if inside.place(*place, written=written) is not s.dtype:
                raise Broken(f"a contraction of {s.dtype} with {place[0]}")

    def variable(self, v: Var, dtype: DType | None = None) -> DType:
        what = self.scalars.get(v)
        if what is None or what[0] != "var":
            raise Broken(f"{v} is not a variable in scope")
        if dtype is not None and what[1] is not dtype:
            raise Broken(f"{v} is {what[1]}, not {dtype}")
        return what[1]

    def place(self, buffer: Var, at: tuple[Size, ...], written: bool = False) -> DType:
        b = self.buffers.get(buffer)
        if b is None:
            raise Broken(f"{buffer} is not a buffer in scope")
        if len(at) != len(b.shape):
            raise Broken(f"{buffer} has {len(b.shape)} axes, not {len(at)}")
        if written and b.role is Role.IN:
            raise Broken(f"a store to the caller's {buffer}")
        for i in at:
            self.size(i)
        return b.dtype

    def size(self, s: Size) -> None:
        for a in atoms(s):
            if isinstance(a, Load):
                if not self.place(a.buffer, a.at).is_integer:
                    raise Broken(f"an index from {a.buffer}, which holds no integers")
            else:
                what = self.scalars.get(a)
                if what is None or not (what[1].is_integer):
                    raise Broken(f"{a} is not an integer in scope")

    def expect(self, e: Expr, dtype: DType) -> None:
        found = self.expr(e)
        if found is not dtype:
            raise Broken(f"{found} where {dtype} is expected: {e!r}")

    def expr(self, e: Expr) -> DType:
        match e:
            case Lit(_, dtype):
                return dtype
            case Local(var):
                what = self.scalars.get(var)
                if what is None or what[0] == "index":
                    raise Broken(f"{var} is not a local in scope")
                return what[1]
            case Number(value):
                self.size(value)
                return DType.I64
            case Load(buffer, at):
                return self.place(buffer, at)
            case Apply():
                return self.apply(e)

    def apply(self, e: Apply) -> DType:
        found = [self.expr(x) for x in e.args]
        if e.name in ("cast", "bitcast"):
            if len(found) != 1 or found[0] is not e.operand:
                raise Broken(f"{e.name} of {found}, not {e.operand}")
            return e.dtype
        p = PRIMITIVES.get(e.name)
        if p is None:
            raise Broken(f"{e.name} is no primitive")
        wanted = [e.operand] * p.arity
        if e.name == "select":
            wanted[0] = DType.BOOL
        if found != wanted:
            raise Broken(f"{e.name} of {found}, not {wanted}")
        if p.result(e.operand) is not e.dtype:
            raise Broken(f"{e.name} gives {p.result(e.operand)}, not {e.dtype}")
        return e.dtype
