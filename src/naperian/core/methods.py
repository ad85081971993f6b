"""Operations at types that are no scalars, written out as core.

    add(x, y) at Complex              Num(Complex).(+)(x, y)
    eq(x, y) at (Int, Bool)           eq(x.0, y.0) and eq(x.1, y.1)
    sum i: n. x[i] at Complex         loop s = 0 for i: n. Num(Complex).(+)(s, x[i])
    2.0 at Complex                    Num(Complex).number(2.0)

Generic code says `add` at a type variable. What the variable turns out to be decides: a scalar has
the primitive, another type its instance, and tuples what follows from their items.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from naperian.broken import Broken
from naperian.core.instances import instance_of
from naperian.core.syntax import (
    At,
    Call,
    Carried,
    Const,
    ConstOf,
    Expr,
    For,
    If,
    Lambda,
    Let,
    Loop,
    Method,
    Module,
    Number,
    Op,
    Pack,
    Part,
    Reduce,
    Ref,
    Use,
)
from naperian.dtypes import DType
from naperian.names import Lit, Var
from naperian.prims import PRIMITIVES
from naperian.sizes import size
from naperian.substitution import Substitution, cell_at
from naperian.types import (
    BOOL,
    F64,
    INT,
    Data,
    Fin,
    Function,
    Index,
    Scalar,
    Set,
    SetVar,
    Table,
    Tuple,
    Type,
    TypeVar,
    set_variables,
)

# The method that a primitive is at a type with an instance.
METHOD_OF: dict[str, tuple[str, str]] = {
    "add": ("Num", "(+)"), "sub": ("Num", "(-)"), "mul": ("Num", "(*)"), "neg": ("Num", "neg"),
    "div": ("Fractional", "(/)"), "eq": ("Eq", "(==)"), "lt": ("Ord", "(<)"), "le": ("Ord", "(<=)"),
    "exp": ("Floating", "exp"), "log": ("Floating", "log"), "sqrt": ("Floating", "sqrt"),
    "sin": ("Floating", "sin"), "cos": ("Floating", "cos"), "tan": ("Floating", "tan"),
    "sinh": ("Floating", "sinh"), "cosh": ("Floating", "cosh"), "tanh": ("Floating", "tanh"),
}  # fmt: skip
_PRIMITIVE_OF = {method: name for name, method in METHOD_OF.items()}
_TRUE, _FALSE = Const(Lit(True, DType.BOOL)), Const(Lit(False, DType.BOOL))
_NOTHING = Substitution({}, {}, {})


class WriteOut:
    """What is written, and the closed types and sets that its variables stand for."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.types: dict[Var, Type] = {}
        self.sets: dict[Var, Set] = {}
        self.indices: set[Var] = set()

    def named(self, t: Type) -> TypeVar:
        v = Var("t")
        self.types[v] = t
        return TypeVar(v)

    # ------------------------------------------------------------ operations

    def op(self, e: Op, t: Type) -> Expr:
        """An operation whose operands have the closed type `t`, which is no scalar."""
        if e.name == "cast":
            return self.number(Op("cast", e.args, F64), t)
        return self.apply(e.name, e.args, t)

    def constant(self, e: ConstOf, t: Type) -> Expr:
        """A literal at a type that is no scalar."""
        return self.number(Const(Lit(float(e.value), DType.F64)), t)

    def number(self, x: Expr, t: Type) -> Expr:
        """A 64-bit number as what it is by `Num`; if that is derived, in every item."""
        if isinstance(t, Tuple) and not self.defines(("Num", "number"), t):
            v = Var("x")
            return Let(v, x, Pack(tuple(self.number(Ref(v), item) for item in t.items)))
        if isinstance(t, Table):
            v = Var("x")
            return Let(v, x, self.everywhere(t, lambda cell: self.number(Ref(v), cell)))
        if isinstance(t, Scalar):
            return Op("cast", (x,), t)
        own = self.named(t)
        kind = Function((F64,), own)
        return Call(Method("Num", "number", (own,), kind, _NOTHING), (x,))

    def everywhere(self, t: Table, cell: Callable[[Type], Expr]) -> Expr:
        """A table with the same value everywhere."""
        i, own, inner = self.cells(t)
        return For(i, own, cell(inner))

    def cells(self, t: Table) -> tuple[Var, Set, Type]:
        """An index of what is written, the set it goes through, and the type of its cell. A set
        that depends on an index of what is written is said in terms of it, and of names for the
        rest."""
        i = Var("i")
        mentioned = set(set_variables(t.set))
        if mentioned.isdisjoint(self.indices):
            n = Var("n")
            self.sets[n] = t.set
            own: Set = SetVar(n)
        else:
            names = {v: Var("n") for v in mentioned - self.indices}
            self.sets.update((new, Fin(size(v))) for v, new in names.items())
            own = Substitution({}, {}, {v: size(new) for v, new in names.items()}).set(t.set)
        self.indices.add(i)
        return i, own, cell_at(t, size(i))

    def defines(self, method: tuple[str, str], t: Type) -> bool:
        """Whether an instance says what the method is at a type."""
        found = instance_of(self.module.instances, method[0], (t,))
        return found is not None and method[1] in found[0].methods

    def apply(self, name: str, args: tuple[Expr, ...], t: Type) -> Expr:
        match name, args:
            case "ne", (x, y):
                return Op("not", (self.apply("eq", (x, y), t),), BOOL)
            case "gt", (x, y):
                return self.apply("lt", (y, x), t)
            case "ge", (x, y):
                return self.apply("le", (y, x), t)
            case ("min" | "max"), (x, y):
                a, b = Var("x"), Var("y")
                first = (Ref(b), Ref(a)) if name == "min" else (Ref(a), Ref(b))
                choice = If(self.apply("lt", first, t), Ref(b), Ref(a))
                return Let(a, x, Let(b, y, choice))
            case "abs", (x,):
                v, zero = Var("x"), self.constant(ConstOf(0, t), t)
                test = self.apply("lt", (Ref(v), zero), t)
                return Let(v, x, If(test, self.apply("neg", (Ref(v),), t), Ref(v)))
            case "pow", (x, (Const(Lit(k)) | ConstOf(k))) if k == int(k) and k >= 0:
                v = Var("x")
                return Let(v, x, self.power(Ref(v), int(k), t))
            case _:
                pass
        if isinstance(t, Scalar):
            return Op(name, args, t)
        found = METHOD_OF.get(name)
        if found is not None and self.defines(found, t):
            own = self.named(t)
            result: Type = BOOL if found[0] in ("Eq", "Ord") else own
            kind = Function((own,) * len(args), result)
            return Call(Method(*found, (own,), kind, _NOTHING), args)
        match t:
            case Data(_, layout) if layout.tagged and name in ("lt", "le"):
                return self.by_variants(name, args, t)
            case Tuple(items):
                return self.by_items(name, args, tuple(enumerate(items)))
            case Table():
                return self.by_cells(name, args, t)
            case _:
                return Op(name, args, INT)  # an index, by its ordinal

    def power(self, x: Expr, k: int, t: Type) -> Expr:
        """A product of k factors, by squaring."""
        if k == 0:
            return self.constant(ConstOf(1, t), t)
        if k == 1:
            return x
        half = Var("p")
        whole = self.apply("mul", (Ref(half), Ref(half)), t)
        if k % 2:
            whole = self.apply("mul", (whole, x), t)
        return Let(half, self.power(x, k // 2, t), whole)

    def by_variants(self, name: str, args: tuple[Expr, ...], t: Data) -> Expr:
        """The derived order of an enum: by variant, then field by field."""
        x, y = Var("x"), Var("y")
        body: Expr = _TRUE if name == "le" else _FALSE
        for k, variant in enumerate(t.layout.variants):
            if variant.fields:
                fields = tuple((f.item, t.items[f.item]) for f in variant.fields)
                here = Op("eq", (Part(Ref(x), 0), Number(size(k))), INT)
                body = If(here, self.by_items(name, (Ref(x), Ref(y)), fields), body)
        tags = (Part(Ref(x), 0), Part(Ref(y), 0))
        later = If(Op("lt", tags[::-1], INT), _FALSE, body)
        return Let(x, args[0], Let(y, args[1], If(Op("lt", tags, INT), _TRUE, later)))

    def by_items(
        self, name: str, args: tuple[Expr, ...], items: tuple[tuple[int, Type], ...]
    ) -> Expr:
        """What follows for a tuple: equality of all items, lexicographic order, and the other
        operations item by item."""
        names = [Var("x") for _ in args]
        parts = [tuple(Part(Ref(v), k) for v in names) for k, _ in items]
        types = [t for _, t in items]
        body: Expr
        match name:
            case "eq":
                body = _TRUE
                for xs, t in zip(reversed(parts), reversed(types), strict=True):
                    body = If(self.apply("eq", xs, t), body, _FALSE)
            case "lt" | "le":
                body = _TRUE if name == "le" else _FALSE
                for (x, y), t in zip(reversed(parts), reversed(types), strict=True):
                    later = If(self.apply("lt", (y, x), t), _FALSE, body)
                    body = If(self.apply("lt", (x, y), t), _TRUE, later)
            case _:
                body = Pack(tuple(
                    self.apply(name, xs, t) for xs, t in zip(parts, types, strict=True)
                ))
        for v, a in reversed(list(zip(names, args, strict=True))):
            body = Let(v, a, body)
        return body

    def by_cells(self, name: str, args: tuple[Expr, ...], t: Table) -> Expr:
        """The same for a table inside a tuple."""
        i, own, cell = self.cells(t)
        names = [Var("x") for _ in args]
        cells = tuple(At(Ref(v), Ref(i), own) for v in names)
        inner = self.apply(name, cells, cell)
        body: Expr
        if name == "eq":
            body = Reduce("and", i, own, _TRUE, inner, BOOL)
        elif PRIMITIVES[name].result(DType.F64) is DType.BOOL:
            raise Broken(f"`{name}` of tables")
        else:
            body = For(i, own, inner)
        for v, a in reversed(list(zip(names, args, strict=True))):
            body = Let(v, a, body)
        return body

    # ------------------------------------------------------------ reductions and methods

    def reduce(self, e: Reduce, t: Type) -> Expr:
        """A reduction of values that are no scalars, one after the other."""
        acc = Var("acc")
        own = self.named(t)
        init = e.init
        if isinstance(init, ConstOf) and math.isinf(init.value):
            init = self.bound("lowest" if e.monoid == "max" else "highest", t)
        step = self.apply(e.monoid, (Ref(acc), e.value), t)
        return Loop((Carried(acc, own, init),), e.var, e.set, None, step, e.origin)

    def bound(self, name: str, t: Type) -> Expr:
        """The least or the greatest: of a tuple, of every item."""
        if isinstance(t, Tuple) and not self.defines(("Bounded", name), t):
            return Pack(tuple(self.bound(name, item) for item in t.items))
        if isinstance(t, Table):
            return self.everywhere(t, lambda cell: self.bound(name, cell))
        own = self.named(t)
        if isinstance(t, Scalar):
            return ConstOf(math.inf if name == "highest" else -math.inf, own)
        return Call(Method("Bounded", name, (own,), Function((), own), _NOTHING), ())

    def scaled(self, s: Expr, x: Expr, t: Type) -> Expr:
        """Every number in `x`, times `s`."""
        match t:
            case Tuple(items):
                parts = (self.scaled(s, Part(x, k), item) for k, item in enumerate(items))
                return Pack(tuple(parts))
            case Table():
                i, own, cell = self.cells(t)
                return For(i, own, self.scaled(s, At(x, Ref(i), own), cell))
            case _:
                return Op("mul", (x, Op("cast", (s,), t)), t)

    def function(self, e: Method, t: Type) -> Expr:
        """A built-in method at a type without an instance: the operation itself, as a function, or
        what its default says."""
        own = self.named(t)
        match e.interface, e.name:
            case "Num", "number":
                v = Var("x")
                return Lambda(((v, F64),), self.number(Ref(v), t))
            case "VSpace", "scaled":
                s, x = Var("s"), Var("x")
                return Lambda(((s, F64), (x, own)), self.scaled(Ref(s), Ref(x), t))
            case "Bounded", bound:
                return Lambda((), self.bound(bound, t))
            case _:
                pass
        name = _PRIMITIVE_OF.get((e.interface, e.name))
        if name is None:
            default = self.module.definitions.get(f"{e.interface}.{e.name}")
            if default is None:
                raise Broken(f"{e.interface} has no instance for {t!r}")
            at = Substitution({default.types[0].var: own}, {}, {})
            return Use(default.name, at.and_(e.at))
        names = [Var("x") for _ in range(PRIMITIVES[name].arity)]
        refs = tuple(Ref(v) for v in names)
        return Lambda(tuple((v, own) for v in names), self.apply(name, refs, t))


def is_data(module: Module, t: Type) -> bool:
    """Whether operations at a closed type are no primitives: it is a tuple, a table in a tuple, or
    an enum with instances of its own."""
    match t:
        case Tuple() | Table():
            return True
        case Index():
            return any(t in i.types for i in module.instances)
        case _:
            return False
