"""Surface trees: what they say without their spans, and random ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from hypothesis import strategies as st

from naperian.source import NOWHERE, Span
from naperian.surface import syntax as s
from naperian.surface.literals import cleaned
from naperian.surface.operators import COMPARISONS, LEFT, SECTIONS, UPDATES

T = TypeVar("T")


def bare(node: Any) -> Any:
    """A tree as nested tuples, without spans; numbers also by their type."""
    if isinstance(node, tuple):
        return tuple(bare(x) for x in node)
    if is_dataclass(node):
        parts = (getattr(node, f.name) for f in fields(node))
        return (type(node).__name__, *(bare(x) for x in parts if not isinstance(x, Span)))
    return (type(node).__name__, node) if isinstance(node, int | float) else node


def nodes(node: Any) -> Iterator[Any]:
    """The node and all nodes in it."""
    if isinstance(node, tuple):
        for x in node:
            yield from nodes(x)
    elif is_dataclass(node) and not isinstance(node, Span):
        yield node
        for f in fields(node):
            yield from nodes(getattr(node, f.name))


@st.composite
def modules(draw: st.DrawFn) -> s.Module:
    """Any tree that some text parses to."""
    return _Maker(draw, 12).module()


@st.composite
def expressions(draw: st.DrawFn) -> s.Expr:
    return _Maker(draw, 25).expr()


@st.composite
def types(draw: st.DrawFn) -> s.Expr:
    return _Maker(draw, 25).type()


_NAMES = st.sampled_from(["a", "b", "n", "x1", "Fin", "long_name", "all", "by", "_"])
_REAL_NAMES = st.sampled_from(["a", "b", "n", "x1", "Fin", "long_name"])
_TEXTS = st.text(st.sampled_from('ab {}"\\\n\t\r\0é\x7f'), max_size=6)
_DOCS = ("One line.", 'Two "lines"\nand \\ more', "A\n\n    >>> f(1)\n    2", "")
_FLOATS = st.floats(0, allow_infinity=False, allow_nan=False)
_INTS = st.integers(0, 2**70)


class _Maker:
    """Draws nodes until `fuel` is used up; then only leaves."""

    def __init__(self, draw: st.DrawFn, fuel: int) -> None:
        self.draw = draw
        self.fuel = fuel
        self.plain = 0  # inside an f-string, where no other string can stand

    def pick(self, *choices: Callable[[], T]) -> T:
        return choices[self.draw(st.integers(0, len(choices) - 1))]()

    def some(self, make: Callable[[], T], least: int = 0, most: int = 3) -> tuple[T, ...]:
        return tuple(make() for _ in range(self.draw(st.integers(least, most))))

    def maybe(self, make: Callable[[], T]) -> T | None:
        return make() if self.draw(st.booleans()) else None

    def name(self) -> str:
        return self.draw(_REAL_NAMES)

    # -------------------------------------------------------- expressions

    def expr(self) -> s.Expr:
        self.fuel -= 1
        if self.fuel <= 0:
            return s.Name(NOWHERE, self.draw(_NAMES))
        e = self.expr
        return self.pick(
            lambda: s.Name(NOWHERE, self.draw(_NAMES)),
            lambda: s.Number(NOWHERE, self.draw(st.one_of(_INTS, _FLOATS))),
            self.string,
            lambda: s.Unary(NOWHERE, self.draw(st.sampled_from(["-", "~", "not"])), e()),
            self.binary,
            self.binary,
            self.compare,
            lambda: s.Ternary(NOWHERE, e(), e(), e()),
            lambda: s.Lambda(NOWHERE, self.some(self.pattern), e()),
            lambda: s.TupleExpr(NOWHERE, self.some(e)),
            lambda: s.Bracket(NOWHERE, self.some(lambda: self.pick(e, e, self.star))),
            lambda: s.Comprehension(
                NOWHERE, e(), self.some(self.binder, 1), self.maybe(e)
            ),
            lambda: s.Call(NOWHERE, e(), self.arguments()),
            lambda: s.IndexExpr(NOWHERE, e(), self.some(e, 1)),
            lambda: s.Field(NOWHERE, e(), self.name(), NOWHERE),
            lambda: s.Checked(NOWHERE, e()),
            lambda: s.Checked(NOWHERE, s.IndexExpr(NOWHERE, e(), self.some(e, 1)), True),
            lambda: s.Rank(
                NOWHERE, e(), self.some(lambda: self.draw(st.none() | st.integers(-3, 3)), 1)
            ),
            lambda: self.range(e),
            lambda: s.As(NOWHERE, e(), self.type(), self.draw(st.booleans())),
            self.section,
        )

    def string(self) -> s.Expr:
        if self.plain:
            return s.Name(NOWHERE, "a")
        text = self.draw(_TEXTS)
        if self.draw(st.booleans()):
            return s.String(NOWHERE, (text,) if text else ())
        self.plain += 1
        parts: tuple[str | s.Expr, ...] = (text, self.expr(), self.draw(_TEXTS))
        self.plain -= 1
        return s.String(NOWHERE, tuple(p for p in parts if p != ""))

    def binary(self) -> s.Expr:
        op = self.draw(st.sampled_from([*LEFT, "**"]))
        return s.Binary(NOWHERE, op, NOWHERE, self.expr(), self.expr())

    def compare(self) -> s.Expr:
        operands = self.some(self.expr, 2, 3)
        ops = tuple(self.draw(st.sampled_from(sorted(COMPARISONS))) for _ in operands[1:])
        return s.Compare(NOWHERE, operands, ops)

    def star(self) -> s.Star:
        return s.Star(NOWHERE, self.draw(st.booleans()), self.expr())

    def binder(self) -> s.Binder:
        return s.Binder(NOWHERE, self.pattern(), self.maybe(self.expr))

    def arguments(self) -> tuple[s.Expr | s.Keyword | s.Generator, ...]:
        if self.draw(st.integers(0, 3)) == 0:
            binders = self.some(self.binder, 1)
            return (s.Generator(NOWHERE, self.expr(), binders, self.maybe(self.expr)),)
        return self.some(
            lambda: self.pick(self.expr, lambda: s.Keyword(NOWHERE, self.name(), self.expr()))
        )

    def range(self, part: Callable[[], s.Expr]) -> s.Expr:
        low = self.maybe(part)
        after = low is not None and self.draw(st.booleans())
        if self.draw(st.booleans()):
            return s.RangeExpr(NOWHERE, low, part(), True, after)
        return s.RangeExpr(NOWHERE, low, self.maybe(part), False, after)

    def section(self) -> s.Expr:
        op = self.draw(st.sampled_from(sorted(SECTIONS)))
        return s.Section(NOWHERE, op, None if op == "-" else self.maybe(self.expr))

    # -------------------------------------------------------- types

    def type(self) -> s.Expr:
        self.fuel -= 1
        if self.fuel <= 0:
            return s.Name(NOWHERE, self.name())
        t = self.type
        return self.pick(
            lambda: s.Name(NOWHERE, self.name()),
            lambda: s.Number(NOWHERE, self.draw(_INTS)),
            lambda: s.TableType(NOWHERE, self.maybe(self.name), t(), t()),
            lambda: s.TableType(NOWHERE, None, t(), t()),
            lambda: s.FunctionType(
                NOWHERE, self.some(t), self.maybe(lambda: self.some(self.name, 1)), t()
            ),
            lambda: s.Exists(NOWHERE, self.some(self.name, 1), t()),
            lambda: s.TupleExpr(NOWHERE, self.some(t)),
            lambda: s.Call(NOWHERE, s.Name(NOWHERE, "Fin"), self.some(t)),
            lambda: s.Call(NOWHERE, s.Field(NOWHERE, t(), "by", NOWHERE), self.some(t)),
            lambda: s.IndexExpr(NOWHERE, t(), self.some(self.expr, 1)),
            lambda: s.Binary(
                NOWHERE, self.draw(st.sampled_from(["|", "+", "//", "**"])), NOWHERE, t(), t()
            ),
            lambda: s.Unary(NOWHERE, "-", t()),
            lambda: self.range(t),
        )

    # -------------------------------------------------------- patterns

    def pattern(self, in_case: bool = False, left_of_equals: bool = False) -> s.Pattern:
        self.fuel -= 1
        if self.fuel <= 0:
            return s.PName(NOWHERE, self.name())

        def p() -> s.Pattern:
            return self.pattern(in_case, left_of_equals)

        def part() -> s.Pattern | s.PStar:
            at = None if left_of_equals else self.maybe(self.expr)
            return self.pick(
                p, lambda: s.PStar(NOWHERE, self.draw(st.booleans()), self.name(), at)
            )

        both = s.PBoth if in_case else s.PAlt
        return self.pick(
            lambda: s.PName(NOWHERE, self.name()),
            lambda: s.PWild(NOWHERE),
            lambda: s.PNumber(NOWHERE, self.draw(st.integers(-5, 5) | _FLOATS)),
            lambda: s.PConstructor(NOWHERE, self.name(), self.some(p)),
            lambda: s.PConstructor(NOWHERE, "Axis.X", self.maybe(lambda: self.some(p))),
            lambda: s.PTuple(NOWHERE, self.some(p)),
            lambda: s.PBracket(NOWHERE, self.some(part)),
            lambda: s.PAlt(NOWHERE, p(), p()),
            lambda: both(NOWHERE, p(), p()),
            lambda: s.PName(NOWHERE, "a") if self.plain else s.PString(NOWHERE, self.draw(_TEXTS)),
        )

    # -------------------------------------------------------- statements

    def block(self) -> s.Block:
        return s.Block(NOWHERE, self.some(self.statement, 1))

    def right_side(self) -> s.Expr:
        form = self.pick(lambda: None, lambda: None, self.block_form)
        return self.expr() if form is None else s.Block(NOWHERE, (form,))

    def block_form(self) -> s.Stmt:
        return self.pick(
            lambda: s.For(
                NOWHERE, self.some(self.binder, 1), self.maybe(self.expr), self.block()
            ),
            lambda: s.If(
                NOWHERE, self.some(lambda: (self.expr(), self.block()), 1, 2),
                self.maybe(self.block),
            ),
            lambda: s.Match(NOWHERE, self.expr(), self.some(self.case, 1)),
            lambda: s.With(NOWHERE, self.some(self.handler, 1), self.block()),
            self.loop,
        )

    def loop(self) -> s.Loop:
        carries, over = self.some(self.carry, 1), self.maybe(self.binder)
        depth = None if over is None else self.maybe(self.expr)  # `checkpoint` stands behind `for`
        return s.Loop(NOWHERE, carries, over, depth, self.maybe(self.expr), self.block())

    def case(self) -> s.Case:
        return s.Case(NOWHERE, self.pattern(in_case=True), self.maybe(self.expr), self.block())

    def handler(self) -> s.Handler:
        return s.Handler(NOWHERE, self.maybe(self.expr), self.maybe(self.name))

    def carry(self) -> s.Carry:
        return s.Carry(NOWHERE, self.pattern(), self.maybe(self.type), self.expr())

    def statement(self) -> s.Stmt:
        self.fuel -= 2
        if self.fuel <= 0:
            return s.ExprStmt(NOWHERE, s.Name(NOWHERE, self.name()))
        return self.pick(
            lambda: self.function(signature=False),
            self.block_form,
            lambda: s.Assert(NOWHERE, self.expr(), self.maybe(self.expr)),
            lambda: s.Bind(
                NOWHERE, self.pattern(left_of_equals=True), None, self.right_side()
            ),
            lambda: s.Bind(
                NOWHERE, s.PName(NOWHERE, self.name()), self.type(), self.right_side()
            ),
            lambda: s.Set(NOWHERE, self.expr(), self.right_side()),
            self.update,
            self.line,
        )

    def update(self) -> s.Stmt:
        op = self.draw(st.sampled_from(sorted(UPDATES))).removesuffix("=")
        return s.Update(NOWHERE, op, NOWHERE, self.expr(), self.right_side())

    def line(self) -> s.Stmt:
        """An expression; never a string, which would be documentation."""
        e = self.expr()
        return s.ExprStmt(NOWHERE, s.Name(NOWHERE, "a") if isinstance(e, s.String) else e)

    # -------------------------------------------------------- declarations

    def doc(self) -> str | None:
        return self.draw(st.sampled_from([None, *_DOCS]))

    def param(self) -> s.Param:
        return s.Param(NOWHERE, self.name(), self.maybe(self.type), self.maybe(self.expr))

    def fact(self) -> s.Fact:
        return self.pick(
            lambda: s.Fact(NOWHERE, s.Name(NOWHERE, self.name()), self.name()),
            lambda: s.Fact(NOWHERE, self.compare(), None),
        )

    def function(self, signature: bool) -> s.Def:
        result = self.maybe(self.type)
        effects = None if result is None else self.maybe(lambda: self.some(self.name, 1))
        name = self.draw(st.sampled_from(["f", "(+)", "(==)", "(-)", "(and)"]))
        body = None if signature else self.block()
        if body is not None and self.draw(st.booleans()):
            last = s.Return(NOWHERE, self.expr())
            body = s.Block(NOWHERE, (*body.statements[:-1], last))
        return s.Def(
            NOWHERE, name, NOWHERE, self.some(self.param), effects, result,
            self.some(self.fact), body, (self.doc() or None) if body is None else self.doc(),
        )

    def aliases(self, least: int) -> tuple[s.Alias, ...]:
        return self.some(lambda: s.Alias(NOWHERE, self.name(), self.maybe(self.name)), least)

    def variant(self) -> s.Variant:
        return s.Variant(NOWHERE, self.name(), self.maybe(lambda: self.some(self.param)))

    def member(self) -> s.Stmt:
        return self.pick(lambda: self.function(self.draw(st.booleans())), self.statement)

    def declaration(self) -> s.Decl:
        return self.pick(
            self.statement,
            lambda: s.Struct(
                NOWHERE, "S", NOWHERE, self.some(self.name), self.some(self.param, 1),
                self.some(lambda: self.function(signature=False), 0, 1), self.doc(),
            ),
            lambda: s.Enum(
                NOWHERE, "E", NOWHERE, self.some(self.name), self.some(self.variant, 1),
                self.doc() or None,
            ),
            lambda: s.Interface(
                NOWHERE, "I", self.some(self.name, 1), self.some(self.fact),
                self.some(self.member, 1), self.doc(),
            ),
            lambda: s.Instance(
                NOWHERE, "I", self.some(self.type, 1), self.some(self.fact),
                self.some(self.statement, 1),
            ),
            lambda: s.Import(
                NOWHERE, self.some(self.name, 1), self.maybe(self.name), self.aliases(0)
            ),
            lambda: s.FromImport(NOWHERE, self.some(self.name, 1), self.aliases(1)),
        )

    def module(self) -> s.Module:
        doc = self.doc()
        return s.Module(NOWHERE, doc and cleaned(doc), self.some(self.declaration))
