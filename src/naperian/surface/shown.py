"""Expressions, types and patterns as text, with as few parentheses as that takes.

    (a + b) * c        stays
    ((a * b)) + (c)    a * b + c
"""

from __future__ import annotations

from naperian.surface import syntax as s
from naperian.surface.layout import Doc, Group, commas, flat, group
from naperian.surface.operators import (
    AS,
    COMPARE,
    LEFT,
    NOT,
    OR,
    POSTFIX,
    POWER,
    PREFIX,
    RANGE,
    TERNARY,
    UNION,
)


def _binds(e: s.Expr) -> int:
    """How tightly the outermost operator of an expression binds."""
    match e:
        case s.Ternary() | s.Lambda():
            return TERNARY
        case s.TableType() | s.FunctionType() | s.Exists():
            return TERNARY
        case s.As():
            return AS
        case s.Unary(_, "not", _):
            return NOT
        case s.Unary():
            return PREFIX
        case s.Binary(_, op, _, _, _):
            return LEFT.get(op, POWER)
        case s.Compare():
            return COMPARE
        case s.RangeExpr():
            return RANGE
        case _:
            return POSTFIX


def expr(e: s.Expr, power: int) -> Doc:
    """An expression where one is needed that binds at least as tightly as `power`."""
    doc = bare(e)
    return (group("(", [doc], ")"),) if _binds(e) < power else doc


def bare(e: s.Expr) -> Doc:
    match e:
        case s.Name(_, name):
            return (name,)
        case s.Number(_, value):
            return (repr(value),)
        case s.String():
            return (_string(e),)
        case s.Unary(_, op, operand):
            return ("not " if op == "not" else op, *expr(operand, NOT if op == "not" else PREFIX))
        case s.Binary(_, "**", _, left, right):
            return (*expr(left, POSTFIX), " ** ", *expr(right, PREFIX))
        case s.Binary(_, op, _, left, right):
            return (*expr(left, LEFT[op]), f" {op} ", *expr(right, LEFT[op] + 1))
        case s.Compare(_, operands, ops):
            out: list[str | Group] = [*expr(operands[0], RANGE)]
            for op, operand in zip(ops, operands[1:], strict=True):
                out += [f" {op} ", *expr(operand, RANGE)]
            return tuple(out)
        case s.Ternary(_, condition, then, otherwise):
            return (
                *expr(then, 1), " if ", *expr(condition, 1), " else ", *expr(otherwise, TERNARY)
            )
        case s.Lambda(_, params, body):
            head = commas([pattern(p) for p in params])
            return ("lambda ", *head, ": ", *expr(body, 0)) if params else (
                "lambda: ", *expr(body, 0)
            )
        case s.TupleExpr(_, (only,)):
            return (group("(", [(*expr(only, 0), ",")], ")"),)
        case s.TupleExpr(_, items):
            return (group("(", [expr(x, 0) for x in items], ")"),)
        case s.Bracket(_, items):
            return (group("[", [_item(x) for x in items], "]"),)
        case s.Comprehension(_, element, binders, condition):
            inside = [expr(element, 0), ("for ", *clause(binders, condition))]
            return (group("[", inside, "]", ""),)
        case s.Call(_, function, (s.Generator(_, element, binders, condition),)):
            inside = [expr(element, 0), ("for ", *clause(binders, condition))]
            return (*expr(function, POSTFIX), group("(", inside, ")", ""))
        case s.Call(_, function, args):
            return (*expr(function, POSTFIX), group("(", [_argument(a) for a in args], ")"))
        case s.IndexExpr(_, base, indices):
            return (*expr(base, POSTFIX), group("[", [expr(i, 0) for i in indices], "]"))
        case s.Field(_, s.Number() | s.Rank() as base, name, _):  # `1.x` would be a bad number
            return (group("(", [bare(base)], ")"), f".{name}")
        case s.Field(_, base, name, _):
            return (*expr(base, POSTFIX), f".{name}")
        case s.Checked(_, operand, True):
            return (group("(", [bare(operand)], ")"), "?")
        case s.Checked(_, operand):
            return (*expr(operand, POSTFIX), "?")
        case s.Rank(_, function, ranks):
            shown = ["all" if r is None else str(r) for r in ranks]
            joined = shown[0] if len(shown) == 1 else f"({', '.join(shown)})"
            return (*expr(function, POSTFIX), f"~{joined}")
        case s.RangeExpr(_, low, high, inclusive, after):
            sign = "<" * after + ("..=" if inclusive else "..")
            return (
                *(expr(low, UNION) if low is not None else ()),
                sign,
                *(expr(high, UNION) if high is not None else ()),
            )
        case s.As(_, operand, to, checked):
            return (*expr(operand, AS), " as ", *bare(to), "?" if checked else "")
        case s.Section(_, op, right):
            inside = [(op,) if right is None else (f"{op} ", *expr(right, 0))]
            return (group("(", inside, ")"),)
        case s.TableType(_, binder, index, cell):
            if binder is None:
                return (*expr(index, RANGE), "=>", *_cell(cell))
            return (group("(", [(f"{binder}: ", *bare(index))], ")"), "=>", *_cell(cell))
        case s.FunctionType(_, params, effects, to):
            listed = len(params) != 1 or isinstance(params[0], s.TupleExpr)
            taken: Doc = (
                (group("(", [expr(p, 0) for p in params], ")"),) if listed
                else expr(params[0], RANGE)
            )
            return (*taken, " ", *result(effects, to))
        case s.Exists(_, names, body):
            return (f"exists {', '.join(names)}. ", *bare(body))
        case s.Block():
            raise ValueError("a block is not an expression")


def _cell(e: s.Expr) -> Doc:
    """What a table holds: the arrow of a function binds less than that of a table."""
    return (group("(", [bare(e)], ")"),) if isinstance(e, s.FunctionType) else bare(e)


def result(effects: tuple[str, ...] | None, to: s.Expr) -> Doc:
    row = "" if effects is None else f"{{{', '.join(effects)}}} "
    return (f"-> {row}", *bare(to))


def _item(e: s.Expr | s.Star) -> Doc:
    if isinstance(e, s.Star):
        return ("**" if e.double else "*", *expr(e.value, PREFIX))
    return expr(e, 0)


def _argument(e: s.Expr | s.Keyword | s.Generator) -> Doc:
    match e:
        case s.Keyword(_, name, value):
            return (f"{name}=", *expr(value, 0))
        case s.Generator(_, element, binders, condition):
            return (*expr(element, 0), " for ", *clause(binders, condition))
        case _:
            return expr(e, 0)


def clause(binders: tuple[s.Binder, ...], condition: s.Expr | None) -> Doc:
    head = commas([range_of(b) for b in binders])
    return head if condition is None else (*head, " if ", *expr(condition, OR))


def range_of(b: s.Binder) -> Doc:
    name = pattern(b.pattern)
    return name if b.domain is None else (*name, " in ", *expr(b.domain, RANGE))


# ---------------------------------------------------------------- strings

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}


def escaped(text: str, keep: str = "") -> str:
    return "".join([c if c in keep else _ESCAPES.get(c) or _visible(c) for c in text])


def _visible(c: str) -> str:
    if c.isprintable():
        return c
    return f"\\x{ord(c):02x}" if ord(c) < 0x100 else f"\\u{ord(c):04x}" if ord(c) < 0x10000 else c


def _string(e: s.String) -> str:
    if all(isinstance(p, str) for p in e.parts):
        return '"' + "".join([escaped(p) for p in e.parts if isinstance(p, str)]) + '"'
    out = ""
    for part in e.parts:
        if isinstance(part, str):
            out += escaped(part).replace("{", "{{").replace("}", "}}")
        else:
            out += "{" + flat(expr(part, 0)) + "}"
    inner = any('"' in flat(expr(p, 0)) for p in e.parts if not isinstance(p, str))
    return f'f"""{out}"""' if inner else f'f"{out}"'


# ---------------------------------------------------------------- patterns


def pattern(p: s.Pattern) -> Doc:
    match p:
        case s.PName(_, name):
            return (name,)
        case s.PWild():
            return ("_",)
        case s.PNumber(_, value):
            return (repr(value),)
        case s.PString(_, value):
            return (f'"{escaped(value)}"',)
        case s.PConstructor(_, name, args):
            if args is None:
                return (name,)
            return (name, group("(", [pattern(a) for a in args], ")"))
        case s.PTuple(_, (only,)):
            return (group("(", [(*pattern(only), ",")], ")"),)
        case s.PTuple(_, items):
            return (group("(", [pattern(i) for i in items], ")"),)
        case s.PBracket(_, items):
            return (group("[", [_part(i) for i in items], "]"),)
        case s.PAlt(_, left, right):
            return (*pattern(left), " | ", *_atom(right))
        case s.PBoth(_, left, right):
            return (*pattern(left), " & ", *_atom(right))


def _atom(p: s.Pattern) -> Doc:
    doc = pattern(p)
    return (group("(", [doc], ")"),) if isinstance(p, s.PAlt | s.PBoth) else doc


def _part(p: s.Pattern | s.PStar) -> Doc:
    if not isinstance(p, s.PStar):
        return pattern(p)
    stars = "**" if p.double else "*"
    return (f"{stars}{p.name}",) if p.at is None else (f"{stars}{p.name}: ", *expr(p.at, OR))
