"""Loops as text, read like Python:

    def scale(n, x: f64[n], out y: f64[n]):
        parallel for i in 0..n:
            store y[i] = x[i] * 2.0

Variables that share a name are told apart by a number (`i`, `i_2`).
"""

from __future__ import annotations

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
    Role,
    Sort,
    Stmt,
    Store,
    Update,
    Variable,
    When,
    While,
)
from naperian.names import Lit, Var
from naperian.prims import Math
from naperian.sizes import Size
from naperian.sizes import show as show_size

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "and", "or": "or",
    "bitand": "&", "bitor": "|", "bitxor": "^", "shl": "<<", "shr": ">>",
}  # fmt: skip


def dtype_name(d: DType) -> str:
    """`f64`, `i32`, `bool`."""
    return "bool" if d is DType.BOOL else d.name.lower()


def show(program: Program) -> str:
    """The program as text, its notes last."""
    return _Printer().program(program)


def written(e: Expr) -> str:
    """An expression by itself."""
    return _Printer().expr(e)


class _Printer:
    """Names given so far."""

    def __init__(self) -> None:
        self.names: dict[Var, str] = {}
        self.taken: dict[str, int] = {}

    def name(self, v: Var) -> str:
        known = self.names.get(v)
        if known is None:
            count = self.taken.get(v.name, 0) + 1
            self.taken[v.name] = count
            known = v.name if count == 1 else f"{v.name}_{count}"
            self.names[v] = known
        return known

    def program(self, p: Program) -> str:
        params = [self.name(v) for v in p.sizes]
        for b in p.buffers:
            out = "out " if b.role is Role.OUT else ""
            params.append(f"{out}{self.buffer(b)}")
        mark = "" if p.math is Math.DEFAULT else f"{p.math.value} "
        lines = [f"{mark}def {p.name}({', '.join(params)}):", *self.block(p.body, 1)]
        if p.notes:
            lines += ["", "# notes", *(f"# * {n}" for n in p.notes)]
        return "\n".join(lines) + "\n"

    def buffer(self, b: Buffer) -> str:
        shape = f"[{', '.join(self.size(n) for n in b.shape)}]" if b.shape else ""
        return f"{self.name(b.var)}: {dtype_name(b.dtype)}{shape}"

    def block(self, body: tuple[Stmt, ...], depth: int) -> list[str]:
        lines = [line for s in body for line in self.stmt(s, depth)]
        return lines or ["    " * depth + "pass"]

    def stmt(self, s: Stmt, depth: int) -> list[str]:
        pad = "    " * depth
        match s:
            case Loop(var, low, high, body, order, reductions):
                word = "" if order is Order.SERIAL else f"{order.value} "
                over = f"{self.size(low)}..{self.size(high, grouped=True)}"
                sums = ", ".join(f"{r.monoid} {self.name(r.var)}" for r in reductions)
                tail = f" reducing {sums}" if sums else ""
                head = f"{pad}{word}for {self.name(var)} in {over}{tail}:"
                return [head, *self.block(body, depth + 1)]
            case While(head, condition, body):
                first = self.block(head, depth + 1) if head else []
                inner = "    " * (depth + 1)
                stop = f"{inner}while {self.expr(condition)}:"
                return [f"{pad}repeat:", *first, stop, *self.block(body, depth + 2)]
            case When(condition, then, otherwise):
                lines = [f"{pad}if {self.expr(condition)}:", *self.block(then, depth + 1)]
                if otherwise:
                    lines += [f"{pad}else:", *self.block(otherwise, depth + 1)]
                return lines
            case Let(var, dtype, value):
                return [f"{pad}{self.name(var)}: {dtype_name(dtype)} = {self.expr(value)}"]
            case Variable(var, dtype, value):
                return [f"{pad}var {self.name(var)}: {dtype_name(dtype)} = {self.expr(value)}"]
            case Assign(var, value):
                return [f"{pad}{self.name(var)} := {self.expr(value)}"]
            case Store(buffer, at, value):
                return [f"{pad}store {self.place(buffer, at)} = {self.expr(value)}"]
            case Update(buffer, at, monoid, value):
                op = f"{_INFIX.get(monoid, monoid)}="
                return [f"{pad}update {self.place(buffer, at)} {op} {self.expr(value)}"]
            case Allocate(buffer, fill, small):
                word = "small " if small else ""
                tail = f" = {self.expr(fill)}" if fill is not None else ""
                if s.planes:
                    parts = (x and self.place(*x) for x in s.planes)
                    tail = " in " + ", ".join(x or "new" for x in parts)
                return [f"{pad}allocate {word}{self.buffer(buffer)}{tail}"]
            case Fail(condition, code, values):
                with_ = ", ".join(self.expr(v) for v in values)
                tail = f" with {with_}" if with_ else ""
                return [f"{pad}fail {code} if {self.expr(condition)}{tail}"]
            case Print(code, values):
                line = f" line {code}" if code else ""
                return [f"{pad}print {', '.join(self.expr(v) for v in values)}{line}"]
            case Contract():
                return [pad + line for line in self.contract(s)]
            case Sort(out, value, (v, n), _, places):
                of = "places of sorted" if places else "sorted"
                over = f"{self.name(v)} < {self.size(n)}"
                return [f"{pad}sort {self.place(*out)} = {of} {self.place(*value)} over {over}"]

    def contract(self, s: Contract) -> list[str]:
        def over(bounds: tuple[tuple[Var, Size], ...]) -> str:
            return ", ".join(f"{self.name(v)} < {self.size(n)}" for v, n in bounds)

        out, left, right = (self.place(*x) for x in (s.out, s.left, s.right))
        op = "+=" if s.accumulate else "="
        lines = [f"contract {out} {op} {left} * {right}"]
        groups = (
            ("batch", s.batch), ("rows", s.rows), ("columns", s.columns), ("inner", s.inner),
        )  # fmt: skip
        lines += [f"    {word} {over(bounds)}" for word, bounds in groups if bounds]
        return lines

    def place(self, buffer: Var, at: tuple[Size, ...]) -> str:
        inner = ", ".join(self.size(i) for i in at)
        return f"{self.name(buffer)}[{inner}]" if at else self.name(buffer)

    def size(self, s: Size, grouped: bool = False) -> str:
        text = show_size(s, self.atom)
        return f"({text})" if grouped and " " in text else text

    def atom(self, a: object) -> str:
        match a:
            case Var():
                return self.name(a)
            case Load(buffer, at):
                return self.place(buffer, at)
            case _:
                return repr(a)

    def expr(self, e: Expr, inside: bool = False) -> str:
        match e:
            case Lit(value, _):
                return repr(value)
            case Local(var):
                return self.name(var)
            case Number(value):
                return self.size(value, grouped=inside)
            case Load(buffer, at):
                return self.place(buffer, at)
            case Apply("cast" | "bitcast" as op, (x,), dtype):
                word = dtype_name(dtype) if op == "cast" else f"bits_{dtype_name(dtype)}"
                return f"{word}({self.expr(x)})"
            case Apply("select", (c, a, b)):
                text = f"{self.expr(a, True)} if {self.expr(c, True)} else {self.expr(b, True)}"
                return f"({text})" if inside else text
            case Apply(op, (a, b)) if op in _INFIX:
                text = f"{self.expr(a, True)} {_INFIX[op]} {self.expr(b, True)}"
                return f"({text})" if inside else text
            case Apply(op, args):
                return f"{op}({', '.join(self.expr(x) for x in args)})"
