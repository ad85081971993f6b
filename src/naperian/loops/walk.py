"""The shape of the loops language, for those who walk it without caring what they meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from naperian.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Contract,
    Expr,
    Fail,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Stmt,
    Store,
    Update,
    Variable,
    When,
    While,
)
from naperian.names import Lit, Var
from naperian.sizes import Clamp, Quotient, Remainder, Size


def expressions(s: Stmt) -> tuple[Expr, ...]:
    """The expressions a statement evaluates itself, not those of its blocks."""
    match s:
        case Let(_, _, value) | Variable(_, _, value) | Assign(_, value):
            return (value,)
        case Store(_, _, value) | Update(_, _, _, value):
            return (value,)
        case When(condition, _, _) | While(_, condition, _):
            return (condition,)
        case Fail(condition, _, values):
            return (condition, *values)
        case Loop() | Allocate() | Contract():
            return ()


def indices(s: Stmt) -> tuple[Size, ...]:
    """The index expressions and sizes of a statement itself."""
    match s:
        case Store(_, at, _) | Update(_, at, _, _):
            return at
        case Loop(_, low, high, _, _, _, work):
            return (low, high, work)
        case Allocate(buffer):
            return buffer.shape
        case Contract():
            bounds = (*s.batch, *s.rows, *s.columns, *s.inner)
            return (*s.out[1], *s.left[1], *s.right[1], *(n for _, n in bounds))
        case Let() | Variable() | Assign() | When() | While() | Fail():
            return ()


def blocks(s: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """The blocks of a statement, in order. `While`'s body continues the scope of its head."""
    match s:
        case Loop():
            return (s.body,)
        case While(head, _, body):
            return (head, body)
        case When(_, then, otherwise):
            return (then, otherwise)
        case Let() | Variable() | Assign() | Store() | Update() | Allocate() | Fail() | Contract():
            return ()


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement, outer ones first."""
    stack = list(reversed(body))
    while stack:
        s = stack.pop()
        yield s
        for block in reversed(blocks(s)):
            stack.extend(reversed(block))


def atoms(s: Size) -> Iterator[Var | Load]:
    """The variables and loads of an index expression, wherever they are."""
    for a in s.atoms():
        match a:
            case Var() | Load():
                yield a
                if isinstance(a, Load):
                    for i in a.at:
                        yield from atoms(i)
            case Clamp(x, y) | Quotient(x, y) | Remainder(x, y):
                yield from atoms(x)
                yield from atoms(y)
            case _:
                raise TypeError(f"not an atom of loops: {a!r}")


def parts(e: Expr) -> Iterator[Expr]:
    """An expression and everything in it, except what is inside index expressions."""
    stack = [e]
    while stack:
        x = stack.pop()
        yield x
        if isinstance(x, Apply):
            stack.extend(reversed(x.args))


def used(e: Expr) -> Iterator[Var]:
    """Every variable and buffer an expression mentions."""
    for x in parts(e):
        match x:
            case Local(var):
                yield var
            case Number(value):
                yield from used_in(value)
            case Load(buffer, at):
                yield buffer
                for i in at:
                    yield from used_in(i)
            case Lit() | Apply():
                pass


def used_in(s: Size) -> Iterator[Var]:
    """Every variable and buffer an index expression mentions."""
    for a in atoms(s):
        yield a.buffer if isinstance(a, Load) else a


def reads(s: Stmt) -> set[Var]:
    """Every name that a statement itself evaluates, not those in its blocks."""
    out: set[Var] = set()
    for e in expressions(s):
        out.update(used(e))
    for i in indices(s):
        out.update(used_in(i))
    return out


def writes(s: Stmt) -> Var | None:
    """The buffer that a statement itself writes."""
    match s:
        case Store(buffer) | Update(buffer):
            return buffer
        case Contract():
            return s.out[0]
        case _:
            return None


def mentions(s: Stmt) -> set[Var]:
    """Every name in a statement and its blocks."""
    out: set[Var] = set()
    for x in statements((s,)):
        out |= reads(x)
        to = writes(x)
        if to is not None:
            out.add(to)
        if isinstance(x, Contract):
            out |= {x.left[0], x.right[0]}
    return out


def rebuild(s: Stmt, block: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]) -> Stmt:
    """The statement with its blocks mapped."""
    match s:
        case Loop(var, low, high, body, order, reductions, work):
            return Loop(var, low, high, block(body), order, reductions, work)
        case While(head, condition, body):
            return While(block(head), condition, block(body))
        case When(condition, then, otherwise):
            return When(condition, block(then), block(otherwise))
        case Let() | Variable() | Assign() | Store() | Update() | Allocate() | Fail() | Contract():
            return s
