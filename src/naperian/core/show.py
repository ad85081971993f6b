"""Core as text: the surface's look, with every index, lift and conversion written out.

    def smooth{n}(x: n=>Float) -> Float where n - 1 >= 0:
        y = for i: n. F32(x[i]) * k
        sum i: n. y[i] * y[i]

`for i: n. e` is the table of `e`; `sum i: n from a. e` reduces it, starting from `a`;
`loop h = h0 for t: n while c. e` and `scan …` carry `h`; `f{a = Float}` is a definition at an
instance; `t.0` is a component. Variables that are spelled alike get numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from naperian.core.instances import short_name, show_wanted
from naperian.core.resolve import Resolve
from naperian.core.syntax import (
    Add,
    Assign,
    At,
    Blank,
    Box,
    Call,
    Carried,
    Cell,
    Check,
    Checked,
    Const,
    ConstOf,
    Custom,
    Definition,
    Derivative,
    Either,
    Expr,
    For,
    Get,
    Handle,
    If,
    Lambda,
    Let,
    Literal,
    Loop,
    Method,
    Module,
    Number,
    Op,
    Pack,
    Part,
    Print,
    Quiet,
    Recast,
    Reduce,
    Ref,
    Scan,
    Tell,
    Throw,
    Unbox,
    Use,
)
from naperian.dtypes import DType
from naperian.names import Var
from naperian.prims import OPERATORS, unit
from naperian.sizes import Size, size, variables
from naperian.sizes import rename as rename_size
from naperian.type_show import show_set, show_type
from naperian.types import (
    Fin,
    Scalar,
    Set,
    SetVar,
    Type,
    TypeVar,
    table,
)

_SYMBOLS = {name: symbol for symbol, name in OPERATORS.items()}
# how tightly the surface's operators bind (docs/grammar.md); a call binds tightest
_POWER = {
    "or": 3, "and": 4, "eq": 6, "ne": 6, "lt": 6, "le": 6, "gt": 6, "ge": 6,
    "bitor": 8, "bitxor": 9, "bitand": 10, "shl": 11, "shr": 11, "add": 12, "sub": 12,
    "mul": 13, "div": 13, "floordiv": 13, "mod": 13, "pow": 15,
}  # fmt: skip
_LOOSE, _NOT, _TERM, _NEG, _CALL = 0, 5, 12, 14, 16
_REDUCTIONS = {
    "add": "sum", "mul": "prod", "min": "min", "max": "max", "and": "all", "or": "any",
    "argmin": "argmin", "argmax": "argmax", "nth": "nth", "argnth": "argnth",
}  # fmt: skip
_INDENT = "    "


def show(what: Definition | Module | Expr) -> str:
    """The text, without a newline at its end."""
    match what:
        case Module(_, definitions):
            return "\n\n\n".join(show(d) for d in definitions.values())
        case Definition():
            return "\n".join(_Show().definition(what))
        case _:
            return "\n".join(_Show().block(what))


def signature_texts(d: Definition) -> tuple[list[str], str, list[tuple[str, str]]]:
    """The types of the parameters and of the result as the user writes them, and the interfaces of
    the type variables."""
    shown = _Show()
    for v in (*(p.var for p in d.types), *d.sets, *d.sizes, *(p.var for p in d.params)):
        shown.name(v)
    params = [shown.type(p.type) for p in d.params]
    wheres = [(shown.name(p.var), p.interface) for p in d.types if p.interface and not p.precision]
    return params, shown.type(d.result), wheres


class _Show:
    """The names given so far."""

    def __init__(self) -> None:
        self.names: dict[Var, str] = {}
        self.taken: dict[str, int] = {}  # with the number last tried for it

    def name(self, v: Var) -> str:
        """The variable's own name, with a number if another one has it."""
        if v not in self.names:
            text, k = v.name, self.taken.get(v.name, 1)
            while text in self.taken:
                k += 1
                text = f"{v.name}{k}"
            self.taken[v.name] = k
            self.taken.setdefault(text, 1)
            self.names[v] = text
        return self.names[v]

    # ------------------------------------------------------------ sizes, sets, types

    def resolve(self) -> Resolve:
        return Resolve(
            lambda n, bound: rename_size(
                n, {v: size(Var(self.name(v))) for v in variables(n) if v not in bound}
            ),
            lambda v: SetVar(Var(self.name(v))),
            lambda v: TypeVar(Var(self.name(v))),
        )

    def renamed(self, s: Size) -> Size:
        return rename_size(s, {v: size(Var(self.name(v))) for v in variables(s)})

    def size(self, s: Size) -> str:
        return repr(self.renamed(s))

    def set(self, s: Set) -> str:
        return show_set(self.resolve().set(s))

    def type(self, t: Type) -> str:
        return show_type(self.resolve().type(t))

    # ------------------------------------------------------------ definitions

    def definition(self, d: Definition) -> Iterator[str]:
        variables = [
            self.name(p.var) + (f": {p.interface}" if p.interface else "") for p in d.types
        ]
        variables += [self.name(v) for v in d.sets + d.sizes if v not in d.implicit]
        for p in d.params:
            self.name(p.var)
        params = [
            f"{self.name(p.var)}: {self.type(p.type)}"
            + (f" = {self.inline(p.default, _LOOSE)}" if p.default is not None else "")
            for p in d.params
        ]
        params += [f"{self.name(p.var)}: {self.type(p.type)}" for p in d.hidden]
        if d.implicit:
            params += ["*", *(self.name(v) for v in d.implicit)]
        head = "" if not variables else "{" + ", ".join(variables) + "}"
        wanted = [show_wanted(w, self.type) for w in d.wanted]
        facts = ", ".join([*wanted, *(f"{self.size(n)} >= 0" for n, _ in d.facts)])
        row = "{" + ", ".join(d.effects) + "} " if d.effects else ""
        arguments = "" if d.constant else f"({', '.join(params)})"
        yield (
            f"def {d.name}{head}{arguments} -> {row}{self.type(d.result)}"
            + (f" where {facts}" if facts else "")
            + ":"
        )
        for line in self.block(d.body):
            yield _INDENT + line

    # ------------------------------------------------------------ blocks

    def block(self, e: Expr) -> Iterator[str]:
        """An expression on lines of its own."""
        while isinstance(e, Let | Check | Unbox):
            match e:
                case Let(var, value, body):
                    first, *rest = self.lines(value)
                    yield f"{self.name(var)} = {first}"
                    yield from rest
                    e = body
                case Unbox():
                    yield self.unbox(e)
                    e = e.body
                case Check():
                    yield self.check(e)
                    e = e.then
        yield from self.lines(e)

    def check(self, e: Check) -> str:
        return f'assert {self.inline(e.condition, _LOOSE)}, "{e.message}"'

    def unbox(self, e: Unbox) -> str:
        names = ", ".join(self.name(v) for v in (*e.sizes, e.var))
        return f"({names}) = unbox({self.inline(e.value, _LOOSE)})"

    def lines(self, e: Expr) -> Iterator[str]:
        """An expression that may break after a header when its body has statements."""
        match e:
            case For() | Lambda() | Reduce() | Scan():
                body = e.value if isinstance(e, Reduce) else e.body
                yield from self.broken(self.header(e), body)
            case Loop(_, _, _, condition, body) if not isinstance(condition, Let | Check):
                yield from self.broken(self.header(e), body)
            case If(condition, then, otherwise) if _is_block(then) or _is_block(otherwise):
                yield f"if {self.inline(condition, _LOOSE)}:"
                for line in self.block(then):
                    yield _INDENT + line
                yield "else:"
                for line in self.block(otherwise):
                    yield _INDENT + line
            case Handle(cells, body):
                yield f"with {', '.join(self.cell(c) for c in cells)}:"
                for line in self.block(body):
                    yield _INDENT + line
            case Let() | Check() | Unbox():
                yield "do:"
                for line in self.block(e):
                    yield _INDENT + line
            case _:
                yield self.inline(e, _LOOSE)

    def broken(self, header: str, body: Expr) -> Iterator[str]:
        if _is_block(body):
            yield header
            for line in self.block(body):
                yield _INDENT + line
        else:
            first, *rest = self.lines(body)
            yield f"{header} {first}"
            yield from rest

    def header(self, e: For | Lambda | Reduce | Scan | Loop) -> str:
        match e:
            case For(var, s, _):
                return f"for {self.name(var)}: {self.set(s)}."
            case Lambda(params, _):
                inner = ", ".join(f"{self.name(v)}: {self.type(t)}" for v, t in params)
                return f"lambda {inner}." if inner else "lambda."
            case Reduce(monoid, var, s, init, _, t):
                start = "" if _is_unit(monoid, init, t) else f" from {self.inline(init, _LOOSE)}"
                return f"{_REDUCTIONS[monoid]} {self.name(var)}: {self.set(s)}{start}."
            case Scan(carried, time, s, _, exclusive):
                kind = "scan_exclusive" if exclusive else "scan"
                starts = self.carried(carried)
                return f"{kind} {starts} for {self.name(time)}: {self.set(s)}."
            case Loop(carried, time, span, condition, _):
                text = f"loop {self.carried(carried)}"
                if time is not None and span is not None:
                    text += f" for {self.name(time)}: {self.set(span)}"
                if e.checkpoint > 1:
                    text += f" checkpoint({e.checkpoint})"
                if condition is not None:
                    text += f" while {self.inline(condition, _LOOSE)}"
                return text + "."

    def carried(self, carried: tuple[Carried, ...]) -> str:
        starts = [self.inline(c.start, 1) for c in carried]
        return ", ".join(
            f"{self.name(c.var)} = {text}" for c, text in zip(carried, starts, strict=True)
        )

    # ------------------------------------------------------------ on one line

    def inline(self, e: Expr, around: int) -> str:
        """On one line, in parentheses if what is around binds tighter."""
        text, power = self.text(e)
        return f"({text})" if power < around else text

    def all(self, items: tuple[Expr, ...]) -> str:
        return ", ".join(self.inline(x, 1) for x in items)

    def text(self, e: Expr) -> tuple[str, int]:
        """The text and how tightly it binds."""
        match e:
            case Ref(var):
                return self.name(var), _CALL
            case Const(lit):
                return _literal(lit.value, lit.dtype)
            case ConstOf(value, t):
                return f"{self.type(t)}({value!r})", _CALL
            case Number(value):
                return self.size(value), _CALL if len(value.terms) < 2 else _TERM
            case Blank():
                return "_", _CALL
            case Lambda() | For() | Reduce() | Scan() | Loop():
                header = self.header(e)
                body = e.value if isinstance(e, Reduce) else e.body
                return f"{header} {self.inline(body, _LOOSE)}", _LOOSE
            case Call(function, args):
                return f"{self.inline(function, _CALL)}({self.all(args)})", _CALL
            case Method(interface, name, types, _, _):
                at_types = ", ".join(self.type(t) for t in types)
                return f"{short_name(interface)}({at_types}).{name}", _CALL
            case Use(name, at):
                entries = [f"{v.name} = {self.type(t)}" for v, t in at.types.items()]
                entries += [f"{v.name} = {self.set(s)}" for v, s in at.sets.items()]
                entries += [f"{v.name} = {self.size(n)}" for v, n in at.sizes.items()]
                return name + ("{" + ", ".join(entries) + "}" if entries else ""), _CALL
            case Let() | Check() | Unbox():
                return self.chain(e), _LOOSE
            case Pack(items):
                comma = "," if len(items) == 1 else ""
                return f"({self.all(items)}{comma})", _CALL
            case Part(whole, k):
                return f"{self.inline(whole, _CALL)}.{k}", _CALL
            case If(condition, then, otherwise):
                yes, test = self.inline(then, 1), self.inline(condition, 1)
                return f"{yes} if {test} else {self.inline(otherwise, _LOOSE)}", _LOOSE
            case Literal(s, items):
                text = f"[{self.all(items)}]"
                return (text, _CALL) if s == Fin(size(len(items))) else (
                    f"{text} as {self.set(s)}", 2
                )
            case At():
                return self.indexed(e), _CALL
            case Recast(value, _, new, cell):
                return f"{self.inline(value, 3)} as {self.type(table(new, cell))}", 2
            case Op(name, args, t):
                return self.operation(name, args, t)
            case Handle(cells, body):
                heads = ", ".join(self.cell(c) for c in cells)
                return f"with {heads}: {self.inline(body, _LOOSE)}", _LOOSE
            case Get(reference):
                return f"get({self.inline(reference, 1)})", _CALL
            case Assign(reference, value):
                return f"{self.inline(reference, _CALL)} := {self.inline(value, _LOOSE)}", _LOOSE
            case Add(reference, value):
                return f"{self.inline(reference, _CALL)} += {self.inline(value, _LOOSE)}", _LOOSE
            case Throw(reference):
                return f"throw({self.inline(reference, 1)})", _CALL
            case Print(world, parts, values):
                shown = iter(values)
                inner = [self.inline(world, 1)]
                inner += [repr(p) if isinstance(p, str) else self.inline(next(shown), 1)
                          for p in parts]  # fmt: skip
                return f"print({', '.join(inner)})", _CALL
            case Quiet(body):
                return f"quiet({self.inline(body, 1)})", _CALL
            case Tell(world, values, line):
                end = f"; {line!r}" if line else ""
                return f"tell({self.all((world, *values))}{end})", _CALL
            case Derivative():
                return self.derivative(e), _CALL
            case Either(inputs, outputs, forward, reverse):
                kind = f"{self.type(inputs)} -> {self.type(outputs)}"
                return f"either({kind}: {self.all((forward, reverse))})", _CALL
            case Custom():
                return self.custom(e), _CALL
            case Checked(value, s):
                return f"at({self.inline(value, 1)}, {self.set(s)})", _CALL
            case Box(_, sizes, value):
                hidden = ", ".join(self.size(n) for n in sizes)
                return f"box({hidden}, {self.inline(value, 1)})", _CALL

    def cell(self, c: Cell) -> str:
        if c.state:
            return f"state({self.inline(c.start, 1)}) as {self.name(c.var)}"
        how = c.monoid if c.operator is None else self.inline(c.operator, 1)
        start = self.inline(c.start, 1)
        return f"accum({how}, {start}) as {self.name(c.var)}: {self.type(c.type)}"

    def derivative(self, e: Derivative) -> str:
        params = ", ".join(f"{self.name(p.var)}: {self.type(p.type)}" for p in e.params)
        starts = self.all(tuple(p.start for p in e.params))
        kind = "jvp" if e.forward else "vjp"
        body = self.inline(e.body, _LOOSE)
        return f"{kind}(lambda {params}. {body}, {starts}; {self.inline(e.seed, 1)})"

    def custom(self, e: Custom) -> str:
        params = ", ".join(f"{self.name(p.var)}: {self.type(p.type)}" for p in e.params)
        starts = self.all(tuple(p.start for p in e.params))
        text = f"lambda {params}. {self.inline(e.body, _LOOSE)}, {starts}"
        for r in e.rules:
            given = ", ".join(f"{self.name(v)}: {self.type(t)}" for v, t in r.given)
            text += f"; lambda {given}. {self.inline(r.body, _LOOSE)}"
        kinds = ["custom_jvp" if r.forward else "custom_vjp" for r in e.rules]
        return f"{'_'.join(kinds)}({text})"

    def chain(self, e: Expr) -> str:
        text = ""
        while isinstance(e, Let | Check | Unbox):
            match e:
                case Let(var, value, body):
                    text += f"let {self.name(var)} = {self.inline(value, 1)} in "
                    e = body
                case Unbox():
                    text += f"let {self.unbox(e)} in "
                    e = e.body
                case Check():
                    text += self.check(e) + " in "
                    e = e.then
        return text + self.inline(e, _LOOSE)

    def indexed(self, e: Expr) -> str:
        indices: list[Expr] = []
        while isinstance(e, At):
            indices.append(e.index)
            e = e.table
        inner = ", ".join(self.inline(i, 1) for i in reversed(indices))
        return f"{self.inline(e, _CALL)}[{inner}]"

    def operation(self, name: str, args: tuple[Expr, ...], t: Type) -> tuple[str, int]:
        if name == "cast":
            return f"{self.type(t)}({self.inline(args[0], 1)})", _CALL
        if name == "bitcast":
            return f"bitcast({self.type(t)}, {self.inline(args[0], 1)})", _CALL
        if name == "neg":
            return f"-{self.inline(args[0], _NEG)}", _NEG
        if name == "bitnot":
            return f"~{self.inline(args[0], _NEG)}", _NEG
        if name == "not":
            return f"not {self.inline(args[0], _NOT)}", _NOT
        if name in _SYMBOLS and len(args) == 2:
            power = _POWER[name]
            # comparisons chain in the surface language, so neither side may be one
            left = power + 1 if power in (6, 15) else power
            right = _NEG if name == "pow" else power + 1
            return (
                f"{self.inline(args[0], left)} {_SYMBOLS[name]} {self.inline(args[1], right)}",
                power,
            )
        return f"{name}({self.all(args)})", _CALL


def _is_block(e: Expr) -> bool:
    return isinstance(e, Let | Check | Unbox)


def _literal(value: bool | int | float, dtype: DType) -> tuple[str, int]:
    if dtype in (DType.BOOL, DType.I64, DType.F64):
        text = repr(value)
        return text, _NEG if text.startswith("-") else _CALL
    return f"{dtype.surface_name}({value!r})", _CALL


def _is_unit(monoid: str, init: Expr, t: Type) -> bool:
    """Whether a reduction starts from nothing (`argmin` and `argmax` always do)."""
    if monoid in ("argmin", "argmax"):
        return True
    match init, t:
        case Const(lit), Scalar(dtype):
            return repr(lit.value) == repr(unit(monoid, dtype))
        case ConstOf(value, _), _:
            return monoid in ("add", "mul") and value == unit(monoid, DType.I64)
        case _:
            return False
