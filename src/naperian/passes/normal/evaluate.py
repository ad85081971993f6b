"""Core expressions evaluated to what they denote; work that remains becomes statements.

    let y = x + 1 in f(y * y)        y = add(x, 1)
                                     t = mul(y, y)
                                     …the statements of f's body, with t for its parameter

Functions are applied, tuples taken apart, conditions that are known decided. Every operation is
bound to a variable, in the scope it belongs to, exactly once: nothing is computed twice however
often it is mentioned, and a chain of squarings stays a chain.
"""

from __future__ import annotations

from typing import Any

from naperian.broken import Broken
from naperian.core import custom
from naperian.core.instances import resolve
from naperian.core.linear import linear
from naperian.core.methods import WriteOut, is_data
from naperian.core.resolve import Resolve
from naperian.core.syntax import (
    THROWN,
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
    OwnRule,
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
from naperian.core.walk import everything
from naperian.dtypes import DType
from naperian.leaves import leaves
from naperian.names import Var
from naperian.node import replace
from naperian.passes.normal.accumulators import Accumulators, put, read
from naperian.passes.normal.asked import asked_before, has_an_order
from naperian.passes.normal.denote import (
    FALSE,
    TRUE,
    Bound,
    Boxed,
    Chosen,
    Entry,
    Env,
    Fun,
    Items,
    Leaf,
    Meaning,
    Parts,
    Place,
    Scope,
    View,
    data,
    has_box,
    like,
    number,
    size_of,
    type_of,
)
from naperian.passes.normal.directions import goes_forward, is_square, meets_in_a_loop
from naperian.passes.normal.fold import constant, fold
from naperian.passes.normal.leaving import leaving
from naperian.passes.normal.once import once
from naperian.passes.normal.one_by_one import one_by_one
from naperian.passes.normal.pieces import Combined
from naperian.passes.normal.spelled import tell, tell_line
from naperian.passes.normal.tables import (
    as_size,
    at,
    blank,
    choose,
    closed,
    conformed,
    element_at,
    index_expr,
    literal,
    quote,
    recast,
    shaped,
    tabulate,
)
from naperian.passes.normal.work import Work
from naperian.prims import ORDERED, PLACES, PRIMITIVES
from naperian.sizes import ZERO, Atom, Size, size, substitute, variables
from naperian.source import Span
from naperian.substitution import Substitution
from naperian.types import (
    BOOL,
    INT,
    EnumSet,
    Exists,
    Fin,
    Index,
    Reference,
    Scalar,
    Set,
    Table,
    Tuple,
    Type,
    cardinality,
    element,
)

_ORDERED = Loop | Scan | Handle
_RULES = 50  # inside each other: no program nests derivatives so deep
_UNROLLED = 8  # a reduction that reads a literal table of at most so many items is written out


class Evaluate:
    """An evaluation in progress."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.w = Work()
        self.constants: dict[str, Meaning] = {}
        self.quiet = False  # nothing is shown, as of what is evaluated once more
        self.around: tuple[bool, ...] = ()  # derivatives, innermost last: whether forward
        self.rules = 0  # of derivatives, around it
        self.turned = False  # whether a rule for the reverse was asked for forward
        self.accumulators = Accumulators(self.w, self.call)

    # ------------------------------------------------------------ sizes, sets and types

    def find(self, var: Var, env: Env) -> Any:
        return env.find(var, self.w.move)

    def size(self, s: Size, env: Env, bound: frozenset[Var] = frozenset()) -> Size:
        if s.constant is not None:
            return s
        known = env.known(s) if not bound else None
        if known is not None:
            return known

        def replace(a: Atom) -> Size | None:
            if not isinstance(a, Var) or a in bound:
                return None
            return as_size(self.w, self.find(a, env))

        said = len(self.w.scope.statements)
        made = self.w.places.simplify(substitute(s, replace))
        if not bound and said == len(self.w.scope.statements):
            entries = [(v, e) for v in variables(s) if (e := env.unmoved(v)) is not None]
            if len(entries) == len(variables(s)):
                env.sizes[s] = made, tuple(entries)
        return made

    def resolve(self, env: Env) -> Resolve:
        def look(var: Var) -> Any:
            return self.find(var, env)

        return Resolve(lambda n, bound: self.size(n, env, bound), look, look)

    def set(self, s: Set, env: Env) -> Set:
        if isinstance(s, Fin):
            new = self.size(s.size, env)
            return s if new is s.size else Fin(new)
        return self.resolve(env).set(s)

    def dtype(self, t: Type, env: Env) -> DType:
        match t if isinstance(t, Scalar) else self.resolve(env).type(t):
            case Scalar(dtype):
                return dtype
            case Index():
                return DType.I64
            case other:
                raise Broken(f"a scalar operation on {other!r}")

    # ------------------------------------------------------------ expressions

    def leaf(self, e: Expr, env: Env, name: str = "t") -> Leaf:
        """The scalar an expression is; an index that is a tuple counts as its ordinal."""
        m = self.expr(e, env, name)
        if isinstance(m, Parts):
            return Leaf(number(as_size(self.w, m)), INT)
        if not isinstance(m, Leaf):
            raise Broken(f"{type(m).__name__} where a scalar is needed")
        return m

    def expr(self, e: Expr, env: Env, name: str = "t") -> Meaning:
        """What `e` denotes; a statement it needs for itself is called `name`."""
        while True:  # a block's lines are nested to the right: a loop, not recursion
            match e:
                case Ref():
                    m: Meaning = self.find(e.var, env)
                    return m
                case At():
                    rows, i = self.expr(e.table, env), self.expr(e.index, env)
                    return at(self.w, rows, i, self.set(e.set, env))
                case Let():
                    called = e.var.name
                    env.own[e.var] = self.w.held(self.expr(e.value, env, called), called)
                    e = e.body
                case Unbox(sizes, var, value, body):
                    self.unbox(sizes, var, self.expr(value, env, var.name), env)
                    e = body
                case Check(condition, message, then, origin):
                    holds = self.leaf(condition, env).expr
                    if holds != TRUE:
                        self.w.guard(holds, message, origin)
                    e = then
                case _:
                    return self.other(e, env, name)

    def other(self, e: Expr, env: Env, name: str) -> Meaning:
        match e:
            case For(var, s, body):
                return self.accumulators.table(
                    self.set(s, env),
                    lambda i: self.with_index(var, i, body, env),
                    var.name,
                    name,
                    apart=not self.around,  # there is nothing to differentiate
                )
            case Reduce() if self.is_data(e.type, env) and self.keeps_parts_apart(e, env):
                return self.reduce_parts(e, env, name)
            case (ConstOf() | Op() | Reduce()) if self.is_data(e.type, env):
                return self.expr(self.written_out(e, env), env, name)
            case Op():
                operands = tuple([self.leaf(a, env) for a in e.args])
                return self.operate(e, operands, self.dtype(e.type, env), name)
            case Const(lit):
                return Leaf(e, Scalar(lit.dtype))
            case ConstOf(value, t):
                dtype = self.dtype(t, env)
                return Leaf(constant(value, dtype), Scalar(dtype))
            case Number(s):
                return Leaf(number(self.size(s, env)), INT)
            case Blank(t):
                return blank(self.resolve(env).type(t))
            case Lambda(params, body):
                return Fun(tuple(v for v, _ in params), body, env)
            case Use(definition, substitution):
                return self.use(definition, self.closed(substitution, env), name)
            case Method(_, _, types, _, substitution):
                closed_types = tuple(map(self.resolve(env).type, types))
                chosen = resolve(self.module, e, closed_types)
                if chosen is not None:
                    definition, found = chosen
                    whole = found.and_(self.closed(substitution, env))
                    return self.use(definition, whole, name)
                out = WriteOut(self.module)
                written = out.function(e, closed_types[0])
                env.own.update({**out.types, **out.sets})
                return self.expr(written, env, name)
            case Call(function, args):
                values = [self.expr(a, env) for a in args]
                if isinstance(function, Use) and all(isinstance(v, Leaf) for v in values):
                    return self.named_call(function, values, env, name)
                return self.call(self.expr(function, env), values, name)
            case Pack(items):
                return Parts(tuple(self.expr(x, env, name) for x in items))
            case Part(whole, k):
                m = self.expr(whole, env, name)
                return m.items[k] if isinstance(m, Parts) else m  # of an empty table's cell
            case If(condition, then, otherwise):
                return choose(
                    self.w,
                    self.leaf(condition, env).expr,
                    lambda: self.expr(then, env, name),
                    lambda: self.expr(otherwise, env, name),
                    name,
                )
            case Literal(s, items):
                cells = [self.expr(x, env) for x in items]
                return literal(self.w, self.resolve(env).set(s), cells, name)
            case Recast(value, old, new, _):
                r = self.resolve(env)
                rows = self.expr(value, env, name)
                return recast(self.w, rows, [r.set(s) for s in old], [r.set(s) for s in new])
            case Reduce():
                return self.reduce(e, env, name)
            case Loop(_, _, _, condition) if condition is not None and self.asks(e, condition, env):
                return self.expr(asked_before(e, condition), env, name)
            case Loop():
                return self.loop(e, env, name)
            case Scan():
                return self.scan(e, env, name)
            case Derivative():
                return self.derivative(e, env, name)
            case Either():
                return self.either(e, env, name)
            case Custom():
                return self.custom(e, env, name)
            case Checked():
                return self.checked(e, env, name)
            case Handle():
                return self.handle(e, env, name)
            case Get(reference):
                return read(self.w, self.expr(reference, env), name)
            case Assign(reference, value):
                given = self.expr(value, env)
                put(self.w, Assign, self.expr(reference, env), given)
                return Parts(())
            case Add(reference, value):
                given = self.expr(value, env)
                self.accumulators.add(self.expr(reference, env), given, name)
                return Parts(())
            case Throw(reference, origin):
                self.throw(self.expr(reference, env), origin)
                return Parts(())
            case Print() if self.quiet:
                return Parts(())
            case Print(world, parts, values):
                r = self.resolve(env)
                told = tuple(p if isinstance(p, str) else r.type(p) for p in parts)
                tell_line(self.w, self.expr(world, env), [self.expr(v, env) for v in values], told)
                return Parts(())
            case Quiet(body):
                return self.quietly(body, env, name)
            case Tell(world, values, line):
                tell(self.w, self.expr(world, env), [self.expr(v, env) for v in values], line)
                return Parts(())
            case Box(t, sizes, value):
                boxed = self.resolve(env).type(t)
                assert isinstance(boxed, Exists)
                named = tuple(self.size(n, env) for n in sizes)
                return Boxed(boxed, named, self.expr(value, env, name))
            case Ref() | At() | Let() | Check() | Unbox():
                return self.expr(e, env, name)

    def quietly(self, body: Expr, env: Env, name: str) -> Meaning:
        outside, self.quiet = self.quiet, True
        made = self.expr(body, env, name)
        self.quiet = outside
        return made

    def unbox(self, sizes: tuple[Var, ...], var: Var, m: Meaning, env: Env) -> None:
        """The sizes of a box and its value, by name; a cell of an empty table has none."""
        found = m.sizes if isinstance(m, Boxed) else (ZERO,) * len(sizes)
        env.own.update((v, Leaf(number(n), INT)) for v, n in zip(sizes, found, strict=True))
        env.own[var] = self.w.held(m.value if isinstance(m, Boxed) else m, var.name)

    def with_index(self, var: Var, index: Meaning, body: Expr, env: Env) -> Meaning:
        env.own[var] = index
        return self.expr(body, env)

    # ------------------------------------------------------------ functions

    def closed(self, at: Substitution, env: Env) -> Substitution:
        """A substitution with the variables of its place written in."""
        r = self.resolve(env)
        return Substitution(
            {v: r.type(t) for v, t in at.types.items()},
            {v: r.set(s) for v, s in at.sets.items()},
            {v: r.size(n) for v, n in at.sizes.items()},
        )

    def use(self, name: str, at: Substitution, hint: str) -> Meaning:
        """A top-level definition at closed types: a function, or the value of a constant."""
        definition = self.module.definitions[name]
        own: dict[Var, Entry] = {**at.types, **at.sets}
        own |= {v: Leaf(number(n), INT) for v, n in at.sizes.items()}
        if not definition.constant:
            params = (*definition.params, *definition.hidden)
            return Fun(tuple(p.var for p in params), custom.body(definition), Env(own))
        if own:
            return self.expr(definition.body, Env(own), hint)
        return self.constant(name, definition.body)

    def constant(self, name: str, body: Expr) -> Meaning:
        """A constant of the module: computed once, before everything else; but where it is used
        if it may stop the run."""
        known = self.constants.get(name)
        if known is None:
            with self.w.inside() as scope:
                known = self.w.held(self.expr(body, Env({}), name), name)
            home = self.w.scope if scope.fails else self.w.root
            home.statements += scope.statements
            with self.w.inside(home):
                known = self.w.moved(known, self.w.moves({}))
            if not scope.fails:
                self.constants[name] = known
        return known

    def call(self, f: Meaning, args: list[Meaning], name: str) -> Meaning:
        match f:
            case Fun(params, body, outer):
                own: dict[Var, Entry] = {
                    p: self.w.held(a, p.name) for p, a in zip(params, args, strict=True)
                }
                return self.expr(body, Env(own, outer), name)
            case Chosen(condition, a, b):
                return choose(
                    self.w,
                    condition,
                    lambda: self.call(a, args, name),
                    lambda: self.call(b, args, name),
                    name,
                )
            case _:
                raise Broken("something is called that is no function")

    def named_call(self, f: Use, args: list[Meaning], env: Env, name: str) -> Meaning:
        """A definition's value at values that have names, as it is known from an earlier call in
        this block: else functions that call the one before twice would be written out 2ⁿ times."""
        at = self.closed(f.at, env)
        types, sizes = tuple(at.types.items()), tuple(at.sizes.items())
        key = f.name, types, tuple(at.sets.items()), sizes, tuple(args)
        scope = self.w.scope
        known: Meaning | None = scope.calls.get(key)
        if known is None:
            begin = len(scope.statements)
            known = self.call(self.use(f.name, at, name), args, name)
            added = Scope(scope.statements[begin:])
            if isinstance(known, Leaf) and not added.fails and not added.cells:
                scope.calls[key] = known
        return known

    # ------------------------------------------------------------ scalars

    def is_data(self, t: Type, env: Env) -> bool:
        return not isinstance(t, Scalar) and is_data(self.module, self.resolve(env).type(t))

    def written_out(self, e: ConstOf | Op | Reduce, env: Env) -> Expr:
        """An operation at a type that is no scalar: what it is by its instance, or by its items."""
        t, out = self.resolve(env).type(e.type), WriteOut(self.module)
        match e:
            case ConstOf():
                written = out.constant(e, t)
            case Op():
                written = out.op(e, t)
            case Reduce():
                written = out.reduce(e, t)
        env.own.update({**out.types, **out.sets})
        return written

    def operate(self, e: Op, args: tuple[Leaf, ...], dtype: DType, name: str) -> Meaning:
        if e.name == "known":
            return args[0] if isinstance(args[0].expr, Const) else Leaf(FALSE, BOOL)
        if e.name == "cast":
            (arg,) = args
            if arg.type == Scalar(dtype):
                return arg
            if dtype is DType.I64 and isinstance(arg.type, Index):
                n = size_of(arg.expr)
                return Leaf(arg.expr if n is None else Number(n), INT)
        return self.op(e.name, tuple(a.expr for a in args), dtype, name, e)

    def op(
        self, name: str, args: tuple[Expr, ...], dtype: DType, hint: str, like: Op | Reduce
    ) -> Leaf:
        """The operation on operands of `dtype`, unless its result is known."""
        known = fold(name, args, dtype)
        result = dtype if name in ("cast", "bitcast") else PRIMITIVES[name].result(dtype)
        if known is None:
            made = self.w.bind(Op(name, args, Scalar(dtype), like.origin), Scalar(result), hint)
            known = index_expr(made)
        return Leaf(known, Scalar(result))

    def checked(self, e: Checked, env: Env, name: str) -> Meaning:
        s = self.resolve(env).set(e.set)
        value = self.leaf(e.value, env).expr
        k, n = size_of(value), cardinality(s).constant
        place = None if k is None else k.constant
        if not (e.proved or (place is not None and n is not None and 0 <= place < n)):
            own: Set = s if isinstance(s, Fin | EnumSet) else Fin(cardinality(s))
            checked = Checked(value, own, origin=e.origin)
            k = size_of(index_expr(self.w.bind(checked, Index(own), name, fails=True)))
        assert k is not None
        return element_at(self.w, s, k)

    # ------------------------------------------------------------ effects

    def handle(self, e: Handle, env: Env, name: str) -> Meaning:
        """A cell for every leaf."""
        r = self.resolve(env)
        types = [r.type(c.type) for c in e.cells]
        cells: list[Cell] = []
        combined: list[Combined] = []
        for c, t in zip(e.cells, types, strict=True):
            start = data(conformed(self.expr(c.start, env), t))
            operator = None if c.operator is None else self.expr(c.operator, env)
            vars = [Var(c.var.name) for _ in start]
            if operator is not None and not c.state:
                combined.append(Combined(t, tuple(vars), tuple(start), e.origin))
            for var, leaf, m in zip(vars, leaves(t), start, strict=True):
                if operator is not None:
                    self.accumulators.operators[var] = operator
                elif not c.state:
                    self.accumulators.sums.add(var)
                state = c.state or operator is not None
                cells.append(Cell(var, leaf, quote(self.w, m), c.monoid, None, state))
            places: list[Meaning] = [
                Place(Ref(v), x) for v, x in zip(vars, leaves(t), strict=True)
            ]
            env.own[c.var] = shaped(t, places)
        with self.w.inside() as scope, self.accumulators.inside(combined):
            value = self.expr(e.body, env)
        left = leaving(scope, value) if has_box(value) else None
        if left is not None:
            self.w.scope.statements += left.before
            scope = left.stays
        parts = data(value) if left is None else left.given
        inner = tuple(type_of(x) for x in parts)
        body = closed(self.w, scope, parts)
        own = frozenset(c.var for c in cells)
        whole = Tuple((
            inner[0] if len(inner) == 1 else Tuple(inner), *(c.type for c in cells)
        ))  # fmt: skip
        made = Handle(tuple(cells), body, e.origin)
        result, *contents = self.bound(made, whole, name, scope.fails, scope.cells - own)
        if left is None:
            out = [like(value, data(result))]
        else:
            several = len(left.gives) != 1
            parts = list(result.items) if several and isinstance(result, Parts) else [result]
            self.w.scope.statements += left.outside([index_expr(x) for x in parts])
            out = [self.w.moved(value, self.w.moves({}))]
        for t in types:
            mine = contents[: len(leaves(t))]
            contents = contents[len(mine) :]
            out.append(shaped(t, mine))
        return Parts(tuple(out))

    def bound(
        self, value: Expr, t: Tuple, name: str, fails: bool, cells: frozenset[Var]
    ) -> tuple[Meaning, ...]:
        """The components of a tuple that is computed here."""
        made = self.w.bind(value, t, name, fails, cells)
        assert isinstance(made, Parts)
        return made.items

    def throw(self, flag: Meaning, origin: Span) -> None:
        """`flag := False`; what nothing handles stops the run."""
        if isinstance(flag, Place):
            put(self.w, Assign, flag, Leaf(FALSE, BOOL))
        else:
            self.w.guard(FALSE, THROWN, origin)

    # ------------------------------------------------------------ loops

    def reduce(self, e: Reduce, env: Env, name: str) -> Meaning:
        s, dtype = self.resolve(env).set(e.set), self.dtype(e.type, env)
        best, row = e.monoid in PLACES, e.monoid in ORDERED
        init = self.leaf(e.init, env).expr
        n = cardinality(s).constant
        if n is not None and not (best or row) and (n == 0 or self.unrolls(e, n, env)):
            total = Leaf(init, Scalar(dtype))
            for k in range(n):
                env.own[e.var] = element_at(self.w, s, size(k))
                item = self.leaf(e.value, env).expr
                total = self.op(e.monoid, (total.expr, item), dtype, name, e)
            return total
        with self.w.inside() as scope:
            var, env.own[e.var] = self.w.index(s, e.var.name)
            value = self.leaf(e.value, env)
        scope = once(self.w, s, (var,), scope, value)
        body = closed(self.w, scope, [value])
        made = Reduce(e.monoid, var, s, init, body, Scalar(dtype), e.origin)
        t = element(s) if best else Scalar(dtype)
        return self.w.bind(made, t, name, scope.fails, scope.cells)

    def keeps_parts_apart(self, e: Reduce, env: Env) -> bool:
        """Whether what takes two values together does so number by number, as its monoid does.
        What an instance makes of two is seen once it is evaluated."""
        t = self.resolve(env).type(e.type)
        parts = leaves(t)
        if e.monoid not in ("add", "mul") or not all(isinstance(x, Scalar) for x in parts):
            return False
        names = [[Var(name) for _ in parts] for name in ("a", "b")]
        tried = Env({}, env)
        pair = [Var("x"), Var("y")]
        for v, own in zip(pair, names, strict=True):
            leafs: list[Meaning] = [Leaf(Ref(x), p) for x, p in zip(own, parts, strict=True)]
            tried.own[v] = shaped(t, leafs)
        with self.w.inside() as scope:
            operation = Op(e.monoid, (Ref(pair[0]), Ref(pair[1])), e.type)
            made = data(self.expr(self.written_out(operation, tried), tried))
        return one_by_one(e.monoid, scope.statements, made, names)

    def reduce_parts(self, e: Reduce, env: Env, name: str) -> Meaning:
        """The reductions of a table's parts, each by itself."""
        t, s = self.resolve(env).type(e.type), self.resolve(env).set(e.set)
        rows = conformed(self.expr(For(e.var, e.set, e.value), env, name), Table(s, t))
        out: list[Meaning] = []
        for part, init, own in zip(
            data(rows), data(self.expr(e.init, env)), leaves(t), strict=True
        ):
            with self.w.inside() as scope:
                var, index = self.w.index(s, e.var.name)
                value = at(self.w, part, index, s)
            body = closed(self.w, scope, [value])
            made = Reduce(e.monoid, var, s, index_expr(init), body, own, e.origin)
            out.append(self.w.bind(made, own, name))
        return shaped(t, out)

    def unrolls(self, e: Reduce, n: int, env: Env) -> bool:
        """Whether the reduction reads a literal table at its own index, and is small."""
        if not 0 < n <= _UNROLLED:
            return False
        for x in everything(e.value):
            match x:
                case At(table, Ref(var), _) if var == e.var:
                    depth = 0
                    while isinstance(table, At):
                        table, depth = table.table, depth + 1
                    if isinstance(table, Literal):
                        return True
                    if isinstance(table, Ref) and table.var in env.own:
                        if _is_literal(env.own[table.var], depth):
                            return True
                case _:
                    pass
        return False

    def acts(self, e: Expr) -> bool:
        """Whether an expression certainly has an effect."""
        for x in everything(e):
            match x:
                case Assign() | Add() | Throw() | Print():
                    return True
                case Use(name):
                    d = self.module.definitions[name]
                    if d.hidden or any(isinstance(p.type, Reference) for p in d.params):
                        return True
                case _:
                    pass
        return False

    def asks(self, e: Loop, condition: Expr, env: Env) -> bool:
        """Whether a loop's condition has an effect, or is made in an order. What its calls are is
        seen once they are evaluated."""
        if self.acts(condition):
            return True
        if not any(isinstance(x, _ORDERED | Call | Method | Use) for x in everything(condition)):
            return False
        r = self.resolve(env)
        with self.w.inside() as scope:
            for c in e.carried:
                t = r.type(c.type)
                leafs: list[Meaning] = [Leaf(Ref(Var(c.var.name)), x) for x in leaves(t)]
                env.own[c.var] = shaped(t, leafs)
            if e.time is not None and e.set is not None:
                self.tick(e.time, Var(e.time.name), r.set(e.set), env)
            tried = closed(self.w, scope, [self.leaf(condition, env)])
        return has_an_order(tried)

    def loop(self, e: Loop, env: Env, name: str) -> Meaning:
        r = self.resolve(env)
        s = None if e.set is None else r.set(e.set)
        types = [r.type(c.type) for c in e.carried]
        carried = self.carry(e.carried, types, env)
        time = None if e.time is None else Var(e.time.name)
        condition, fails, cells = None, False, frozenset[Var]()
        if e.condition is not None:
            with self.w.inside() as scope:
                self.tick(e.time, time, s, env)
                holds = self.leaf(e.condition, env)
            condition = closed(self.w, scope, [holds])
            fails, cells = scope.fails, scope.cells
            if s is not None and isinstance(condition, Const) and condition.lit.value:
                condition = None  # it ends with the set
        with self.w.inside() as scope:
            self.tick(e.time, time, s, env)
            value = self.expr(e.body, env)
        if s is not None and time is not None and condition is None:
            scope = once(self.w, s, (time, *(c.var for c in carried)), scope, value)
        t: Type = types[0] if len(types) == 1 else Tuple(tuple(types))
        body = closed(self.w, scope, data(conformed(value, t)))
        made = Loop(carried, time, s, condition, body, e.origin, e.checkpoint)
        parts = leaves(t)
        flat = parts[0] if len(parts) == 1 else Tuple(parts)
        last = self.w.bind(made, flat, name, fails or scope.fails, cells | scope.cells)
        return shaped(t, data(last))

    def scan(self, e: Scan, env: Env, name: str) -> Meaning:
        r = self.resolve(env)
        s = r.set(e.set)
        types = [r.type(c.type) for c in e.carried]
        carried = self.carry(e.carried, types, env)
        time = Var(e.time.name)
        with self.w.inside() as scope:
            self.tick(e.time, time, s, env)
            value = self.expr(e.body, env)
        scope = once(self.w, s, (time, *(c.var for c in carried)), scope, value)
        t: Type = types[0] if len(types) == 1 else Tuple(tuple(types))
        body = closed(self.w, scope, data(conformed(value, t)))
        made = Scan(carried, time, s, body, e.exclusive, e.origin)
        parts = leaves(t)
        flat = parts[0] if len(parts) == 1 else Tuple(parts)
        rounds = self.w.bind(made, Table(s, flat), name, scope.fails, scope.cells)
        if parts == (t,):
            return rounds

        def held(index: Meaning) -> Meaning:
            row = At(index_expr(rounds), index_expr(index), s)
            if len(parts) == 1:
                return shaped(t, [Leaf(row, flat)])
            return shaped(t, [Leaf(Part(row, k), x) for k, x in enumerate(parts)])

        return tabulate(self.w, s, held, "i", name)

    def derivative(self, e: Derivative, env: Env, name: str) -> Meaning:
        r = self.resolve(env)
        types = [r.type(p.type) for p in e.params]
        params = self.carry(e.params, types, env)
        seed = [quote(self.w, x) for x in data(self.expr(e.seed, env))]
        outside = self.around
        self.around = (*outside, e.forward)
        with self.w.inside() as scope:
            value = self.expr(e.body, env)
        self.around = outside
        t = type_of(value)
        body = closed(self.w, scope, data(value))
        d = t if e.forward else types[0] if len(types) == 1 else Tuple(tuple(types))
        flat = [x[0] if len(x) == 1 else Tuple(x) for x in (leaves(t), leaves(d))]
        whole = seed[0] if len(seed) == 1 else Pack(tuple(seed))
        made = replace(e, params=params, body=body, seed=whole)
        both = self.w.bind(made, Tuple(tuple(flat)), name, scope.fails, scope.cells)
        assert isinstance(both, Parts)
        return Parts(tuple(shaped(x, data(m)) for x, m in zip((t, d), both.items, strict=True)))

    def either(self, e: Either, env: Env, name: str) -> Meaning:
        """Forward where there are fewer inputs, or as many of a gradient through a loop of tables;
        not where a rule of the user's own is for the reverse, and has no transpose, or where
        something is shown, once for each of the outputs."""
        r = self.resolve(env)
        inputs, outputs = r.type(e.inputs), r.type(e.outputs)
        fewer = goes_forward(inputs, outputs)
        if not fewer and not is_square(inputs, outputs):
            return self.expr(e.reverse, env, name)
        outside, self.turned = self.turned, False
        with self.w.inside() as scope:
            made = self.expr(e.forward, env, name)
        turned, self.turned = self.turned, outside
        found = (s.value for s in scope.statements if isinstance(s, Bound))
        if turned or scope.cells or not (fewer or meets_in_a_loop(found)):
            return self.expr(e.reverse, env, name)
        self.w.scope.statements += scope.statements
        return made

    def custom(self, e: Custom, env: Env, name: str) -> Meaning:
        """Outside of derivatives, the body alone. Its rule serves the innermost derivative, and
        what that makes of it those around it: so it is evaluated one less deep, which comes to an
        end even if the rule uses what it is for."""
        around = self.around
        if self.rules > _RULES:
            raise Broken("a rule differentiates the function it is for")
        if not around:
            own = {p.var: self.expr(p.start, env) for p in e.params}
            env.own.update(own)
            return self.expr(e.body, env, name)
        r = self.resolve(env)
        types = [r.type(p.type) for p in e.params]
        params = self.carry(e.params, types, env)
        self.around = ()
        with self.w.inside() as scope:
            value = self.expr(e.body, env)
        t = type_of(value)
        body = closed(self.w, scope, data(value))
        self.around = around[:-1]
        self.rules += 1
        wanted = dict.fromkeys(e.rule(forward).forward for forward in around)
        rules = tuple(self.own_rule(e.rule(forward), env) for forward in wanted)
        if True in around and not e.rule(True).forward:
            self.turned |= not all(linear(x.body, (v for v, _ in x.given)) for x in rules)
        self.around = around
        self.rules -= 1
        flat = leaves(t)
        whole = Custom(params, body, rules, e.origin)
        self.w.ruled = True
        bound = flat[0] if len(flat) == 1 else Tuple(flat)
        return shaped(t, data(self.w.bind(whole, bound, name, scope.fails)))

    def own_rule(self, rule: OwnRule, env: Env) -> OwnRule:
        r = self.resolve(env)
        given: list[tuple[Var, Type]] = []
        for v, own_type in rule.given:
            own_type = r.type(own_type)
            made = [Var(v.name) for _ in leaves(own_type)]
            given += zip(made, leaves(own_type), strict=True)
            leafs: list[Meaning] = [
                Leaf(Ref(x), leaf) for x, leaf in zip(made, leaves(own_type), strict=True)
            ]
            env.own[v] = shaped(own_type, leafs)
        with self.w.inside() as scope:
            found = self.expr(rule.body, env)
        return OwnRule(rule.forward, tuple(given), closed(self.w, scope, data(found)))

    def carry(
        self, carried: tuple[Carried, ...], types: list[Type], env: Env
    ) -> tuple[Carried, ...]:
        """The carried leaves with their first values; opens the carried variables."""
        out = []
        opened: list[tuple[Var, Meaning]] = []
        for c, t in zip(carried, types, strict=True):
            start = data(conformed(self.expr(c.start, env), t))
            vars: list[Meaning] = []
            for leaf, m in zip(leaves(t), start, strict=True):
                var = Var(c.var.name)
                vars.append(Leaf(Ref(var), leaf))
                out.append(Carried(var, leaf, quote(self.w, m)))
            opened.append((c.var, shaped(t, vars)))
        env.own.update(opened)
        return tuple(out)

    def tick(self, old: Var | None, new: Var | None, s: Set | None, env: Env) -> None:
        if old is not None and new is not None and s is not None:
            env.own[old] = self.w.opened(new, s)


def _is_literal(entry: Entry, depth: int) -> bool:
    """Whether the axis at this depth is a literal table's."""
    match entry:
        case Parts(items):
            return any(_is_literal(x, depth) for x in items)
        case Items(_, items):
            return depth == 0 or _is_literal(items[0], depth - 1)
        case View(_, _, _, cell):
            return depth > 0 and _is_literal(cell, depth - 1)
        case _:
            return False
