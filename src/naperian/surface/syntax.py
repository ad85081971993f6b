"""Surface: what the user wrote, with spans. The grammar is `docs/grammar.md`.

Types and index sets share the expression grammar, so a type is an `Expr` too, with five nodes of
its own at the end. Nothing is resolved here: `x[i]` and `f(x)` say only what stands in the text.

    module    ::= docstring? decl…
    decl      ::= Def | Struct | Enum | Interface | Instance | Import | FromImport | stmt
    stmt      ::= Def | For | If | Match | With | Loop          (block forms)
                | Assert | Bind | Set | Update | Return | ExprStmt
    expr      ::= Name | Number | String | Unary | Binary | Compare | Ternary | Lambda | Tuple
                | Bracket | Comprehension | Call | Index | Field | Checked | Rank | RangeExpr
                | As | Section | Block | types
    pattern   ::= PName | PWild | PNumber | PString | PConstructor | PTuple | PBracket
                | PAlt | PBoth
"""

from __future__ import annotations

from typing import TypeAlias

from naperian.node import node
from naperian.source import Span

# ---------------------------------------------------------------- expressions


@node
class Name:
    """`x`. `_` is a hole."""

    span: Span
    name: str


@node
class Number:
    """`1`, `0xff`, `1.5e3`; `value` is an int or a float as written."""

    span: Span
    value: int | float


@node
class String:
    """`"…"` or `f"…"`: literal parts (str) and, in an f-string, expressions."""

    span: Span
    parts: tuple[str | Expr, ...]


@node
class Unary:
    """`-e`, `~e`, `not e`."""

    span: Span
    op: str
    operand: Expr


@node
class Binary:
    """`a + b`, also `and`, `or`, `@`, `|`. `op_span` is the operator's own place."""

    span: Span
    op: str
    op_span: Span
    left: Expr
    right: Expr


@node
class Compare:
    """`a < b <= c`: one more operand than operators."""

    span: Span
    operands: tuple[Expr, ...]
    ops: tuple[str, ...]


@node
class Ternary:
    """`a if c else b`."""

    span: Span
    condition: Expr
    then: Expr
    otherwise: Expr


@node
class Lambda:
    """`lambda (a, b), y: e`."""

    span: Span
    params: tuple[Pattern, ...]
    body: Expr


@node
class TupleExpr:
    """`()`, `(a,)`, `(a, b)`. In a type: unit, a tuple or a parameter list."""

    span: Span
    items: tuple[Expr, ...]


@node
class Star:
    """`*e` or `**e`, only as an item of a `Bracket`."""

    span: Span
    double: bool
    value: Expr


@node
class Bracket:
    """`[a, b, *c]`: a table literal or a join."""

    span: Span
    items: tuple[Expr | Star, ...]


@node
class Binder:
    """`i`, `i in S`, `(a, b) in xs`."""

    span: Span
    pattern: Pattern
    domain: Expr | None


@node
class Comprehension:
    """`[e for i, j if p]`."""

    span: Span
    element: Expr
    binders: tuple[Binder, ...]
    condition: Expr | None


@node
class Generator:
    """`e for i, j if p`, only as the single argument of a `Call`."""

    span: Span
    element: Expr
    binders: tuple[Binder, ...]
    condition: Expr | None


@node
class Keyword:
    """`name=e` in a call."""

    span: Span
    name: str
    value: Expr


@node
class Call:
    """`f(a, k=b)`, `f(e for i)`. In a type: `Fin(n)`, `Maybe(a)`."""

    span: Span
    function: Expr
    args: tuple[Expr | Keyword | Generator, ...]


@node
class IndexExpr:
    """`x[i, j]`."""

    span: Span
    base: Expr
    indices: tuple[Expr, ...]


@node
class Field:
    """`e.name`; `name_span` is the name's own place."""

    span: Span
    base: Expr
    name: str
    name_span: Span


@node
class Checked:
    """`k?`; `x[i]?`, whose indices are checked; with `element`, `(x[i])?`, whose value is."""

    span: Span
    operand: Expr
    element: bool = False


@node
class Rank:
    """`f~1`, `f~(1, all)`, `f~(-1, 0)`: each rank a number or None for `all`."""

    span: Span
    function: Expr
    ranks: tuple[int | None, ...]


@node
class RangeExpr:
    """`a..b`, `a..=b`, `a..`, `..b`, `..=b`, `..`; `after`: without its start, `a<..b`, `a<..`."""

    span: Span
    low: Expr | None
    high: Expr | None
    inclusive: bool
    after: bool = False


@node
class As:
    """`e as T`, `e as T?`."""

    span: Span
    operand: Expr
    type: Expr
    checked: bool


@node
class Section:
    """`(+)`, `(* 2.0)`."""

    span: Span
    op: str
    right: Expr | None


@node
class Block:
    """An indented block, a block form's branch, or a right side that is a block form; its last
    statement is its value."""

    span: Span
    statements: tuple[Stmt, ...]


# ---------------------------------------------------------------- types


@node
class TableType:
    """`n=>a`; `binder` names the index in a dependent table `(i: n)=>a`."""

    span: Span
    binder: str | None
    set: Expr
    cell: Expr


@node
class FunctionType:
    """`(a, b) -> {State} c`. `params` are as written: one `Expr` for `a -> b`."""

    span: Span
    params: tuple[Expr, ...]
    effects: tuple[str, ...] | None
    result: Expr


@node
class Exists:
    """`exists k. T`."""

    span: Span
    names: tuple[str, ...]
    body: Expr


Expr: TypeAlias = (
    "Name | Number | String | Unary | Binary | Compare | Ternary | Lambda | TupleExpr | Bracket"
    " | Comprehension | Call | IndexExpr | Field | Checked | Rank | RangeExpr | As | Section"
    " | Block | TableType | FunctionType | Exists"
)

# ---------------------------------------------------------------- patterns


@node
class PName:
    span: Span
    name: str


@node
class PWild:
    span: Span


@node
class PNumber:
    span: Span
    value: int | float


@node
class PString:
    span: Span
    value: str


@node
class PConstructor:
    """`Found(d)`, `Axis.X`, with `args` None when there are no parentheses."""

    span: Span
    name: str
    args: tuple[Pattern, ...] | None


@node
class PTuple:
    span: Span
    items: tuple[Pattern, ...]


@node
class PStar:
    """`*name`, `**name`, `*name: k` in a bracket pattern."""

    span: Span
    double: bool
    name: str
    at: Expr | None


@node
class PBracket:
    span: Span
    items: tuple[Pattern | PStar, ...]


@node
class PAlt:
    span: Span
    left: Pattern
    right: Pattern


@node
class PBoth:
    span: Span
    left: Pattern
    right: Pattern


Pattern: TypeAlias = (
    "PName | PWild | PNumber | PString | PConstructor | PTuple | PBracket | PAlt | PBoth"
)

# ---------------------------------------------------------------- statements


@node
class For:
    """`for i, j in S if p: body`."""

    span: Span
    binders: tuple[Binder, ...]
    condition: Expr | None
    body: Block


@node
class If:
    """`if c: … elif d: … else: …`, the arms in order; `otherwise` None without `else`."""

    span: Span
    arms: tuple[tuple[Expr, Block], ...]
    otherwise: Block | None


@node
class Case:
    span: Span
    pattern: Pattern
    guard: Expr | None
    body: Block


@node
class Match:
    span: Span
    subject: Expr
    cases: tuple[Case, ...]


@node
class Handler:
    """`accum() as h`, `state(x) as s`; `effect` None for the bare word `except`."""

    span: Span
    effect: Expr | None
    name: str | None


@node
class With:
    span: Span
    handlers: tuple[Handler, ...]
    body: Block


@node
class Carry:
    """`x: T = x0` of a `loop`."""

    span: Span
    pattern: Pattern
    type: Expr | None
    start: Expr


@node
class Loop:
    """`loop x = x0, y = y0 for t in S checkpoint(k) while p: body`; `while p: body` if it carries
    nothing."""

    span: Span
    carries: tuple[Carry, ...]
    binder: Binder | None
    checkpoint: Expr | None
    condition: Expr | None
    body: Block


@node
class Assert:
    span: Span
    condition: Expr
    message: Expr | None


@node
class Bind:
    """`pattern = rhs`, `x: T = rhs`."""

    span: Span
    pattern: Pattern
    type: Expr | None
    value: Expr


@node
class Set:
    """`target := rhs`."""

    span: Span
    target: Expr
    value: Expr


@node
class Update:
    """`target += rhs`, also with any other binary operator. `op_span` is that of `+=`."""

    span: Span
    op: str
    op_span: Span
    target: Expr
    value: Expr


@node
class Return:
    span: Span
    value: Expr


@node
class ExprStmt:
    span: Span
    value: Expr


# ---------------------------------------------------------------- declarations


@node
class Param:
    """`x: T = default`."""

    span: Span
    name: str
    type: Expr | None
    default: Expr | None


@node
class Fact:
    """`a: Num` (`interface` set) or a size fact `n >= 1`."""

    span: Span
    subject: Expr
    interface: str | None


MARKS = ("strict", "fast")
"""What may stand after `@` above a definition: what may be done with its arithmetic."""


@node
class Decorator:
    """`@name(argument)` on the line above a function."""

    span: Span
    name: str
    argument: Expr


@node
class Def:
    """A function; `body` None in an interface's signature. `doc` is the docstring or the comment
    lines directly above, `decorators` are its rules, `mark` what stands above it after `@`: one of
    `MARKS`."""

    span: Span
    name: str
    name_span: Span
    params: tuple[Param, ...]
    effects: tuple[str, ...] | None
    result: Expr | None
    facts: tuple[Fact, ...]
    body: Block | None
    doc: str | None
    decorators: tuple[Decorator, ...] = ()
    mark: str | None = None


@node
class Struct:
    span: Span
    name: str
    name_span: Span
    params: tuple[str, ...]
    fields: tuple[Param, ...]
    methods: tuple[Def, ...]
    doc: str | None


@node
class Variant:
    span: Span
    name: str
    fields: tuple[Param, ...] | None


@node
class Enum:
    span: Span
    name: str
    name_span: Span
    params: tuple[str, ...]
    variants: tuple[Variant, ...]
    doc: str | None


@node
class AssociatedType:
    """`type Elem` in an interface, `type Elem = Float` in an instance."""

    span: Span
    name: str
    value: Expr | None


@node
class Interface:
    span: Span
    name: str
    params: tuple[str, ...]
    facts: tuple[Fact, ...]
    members: tuple[Member, ...]
    doc: str | None


@node
class Instance:
    """`members` None: without a body, derived from the parts of the type."""

    span: Span
    name: str
    types: tuple[Expr, ...]
    facts: tuple[Fact, ...]
    members: tuple[Member, ...] | None


@node
class Alias:
    """`name as other` of an import."""

    span: Span
    name: str
    alias: str | None


@node
class Import:
    """`import a.b as c: f, g as h`."""

    span: Span
    path: tuple[str, ...]
    alias: str | None
    names: tuple[Alias, ...]


@node
class FromImport:
    """`from a.b import f, g as h`."""

    span: Span
    path: tuple[str, ...]
    names: tuple[Alias, ...]


Stmt: TypeAlias = (
    "Def | For | If | Match | With | Loop | Assert | Bind | Set | Update | Return | ExprStmt"
)
Member: TypeAlias = "Stmt | AssociatedType"
Decl: TypeAlias = "Struct | Enum | Interface | Instance | Import | FromImport | Stmt"


@node
class Module:
    span: Span
    doc: str | None
    decls: tuple[Decl, ...]
