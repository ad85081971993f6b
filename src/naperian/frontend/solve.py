"""Equations between the unknowns of one definition.

What cannot be decided yet waits as a *task* and is tried again when more is known. When nothing
moves, the oldest task is forced: it takes the choice with the fewest lifts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from naperian.dtypes import FLOATS, DType
from naperian.frontend.inverse import inverse
from naperian.frontend.scalars import ANY_SCALAR, INTERFACES, Dtypes, interface_name
from naperian.frontend.unknowns import Because, Place, Unknowns
from naperian.names import Var
from naperian.sizes import Size, size, variables
from naperian.substitution import cell_at, opened
from naperian.types import (
    SETS,
    BoolSet,
    Data,
    Exists,
    Fin,
    Function,
    Index,
    Range,
    Reference,
    Reverse,
    Scalar,
    Set,
    SetVar,
    Slice,
    Sum,
    Table,
    Text,
    Tuple,
    TupleSet,
    Type,
    TypeVar,
    UnitSet,
    cardinality,
    elements,
    mentioned,
    set_variables,
)


class Mismatch(Exception):
    """Two things that cannot be equal: the innermost parts that differ."""

    def __init__(
        self, left: Type | Set | Size, right: Type | Set | Size, reasons: tuple[Because, ...] = (),
        variable: str = "", hidden: str = "",
    ) -> None:
        super().__init__(left, right)
        self.left = left
        self.right = right
        self.reasons = reasons
        self.variable = variable  # the size of a called definition that would be both, or hidden
        self.hidden = hidden  # the size of each box that it would have to be


Task = Callable[[bool], bool]
"""Tried with `force`; says whether it is done."""


def _is_number(t: Type) -> bool:
    """Whether elements of an index set are written as numbers."""
    return isinstance(t, Index) and isinstance(t.set, Fin | SetVar | Range)


@dataclass(slots=True)
class Solver(Unknowns):
    """What is equated, and what still waits."""

    tasks: list[Task] = field(default_factory=list)
    goals: list[Callable[[], None]] = field(default_factory=list)
    wants: list[Callable[[], bool]] = field(default_factory=list)  # interfaces not yet settled
    generic: set[Var] = field(default_factory=set)  # type variables of the signature
    closed: set[Var] = field(default_factory=set)  # those of which `where` says all there is
    named: set[Var] = field(default_factory=set)  # sets that called definitions name
    need: Callable[[Type, str], None] = lambda t, interface: None  # of a type that is known
    overloads: Callable[[Type, Iterable[str]], bool] = lambda t, interfaces: False

    def forget(self) -> None:
        """Nothing more is asked: who could answer is not held any longer."""
        del self.need, self.overloads, self.place

    # ------------------------------------------------------------ equating

    def restrict(self, t: Type, dtypes: Dtypes, needs: Iterable[str] = ()) -> None:
        """`t` is one of these scalars, or another type that is an instance of what is needed."""
        t = self.head(t)
        match t:
            case TypeVar(v) if v in self.unknown:
                u = self.unknown[v]
                left = dtypes if u.dtypes is None else u.dtypes & dtypes
                if not left:
                    raise Mismatch(t, t)
                u.dtypes = left
                if len(left) == 1:
                    self.types[v] = Scalar(next(iter(left)))
                elif u.default is not None and u.default not in left:
                    u.floats = left == FLOATS
                    u.default = DType.F64 if left == FLOATS else u.default
            case TypeVar(v):
                if v in self.generic - self.closed and v not in self.rigid:
                    self.rigid[v] = dtypes  # interfaces of a signature's variables are inferred
                elif v not in self.rigid or not self.rigid[v] <= dtypes:
                    raise Mismatch(t, t)
            case Scalar(d):
                if d not in dtypes:
                    raise Mismatch(t, t)
            case Index() if dtypes == ANY_SCALAR or dtypes == INTERFACES["Ord"]:
                pass
            case Tuple() | Index() if self.overloads(t, needs or (interface_name(dtypes),)):
                pass
            case _:
                raise Mismatch(t, t)

    def hold(self, t: Type) -> None:
        """A name is given to this: the integers in it may become floats by what they are made
        from and what they are used as, and not by arithmetic."""
        match self.head(t):
            case TypeVar(v) if v in self.unknown:
                u = self.unknown[v]
                u.held = u.default is not None and u.default.is_integer
            case Table(_, cell):
                self.hold(cell)
            case Tuple(items):
                for x in items:
                    self.hold(x)
            case _:
                pass

    def carry(self, t: Type) -> None:
        """Rounds change this: the integers in it grow as soon as something is added to them."""
        for v in self.unknown_types(t):
            u = self.unknown[v]
            u.carried = u.default is not None and u.default.is_integer

    def grow(self, t: Type) -> None:
        """This is added up: an integer in it is an Int beside narrower ones."""
        t = self.head(t)
        if isinstance(t, TypeVar) and t.var in self.unknown:
            self.unknown[t.var].grows = True

    def is_carried(self, t: TypeVar) -> bool:
        """Whether this is a number that rounds change, and may be an Int."""
        u = self.unknown[t.var]
        return (u.carried or u.grows) and (u.dtypes is None or DType.I64 in u.dtypes)

    def holds(self, t: TypeVar) -> bool:
        """Whether this stays an integer beside floats, as far as is known."""
        u = self.unknown[t.var]
        return u.held and (u.dtypes is None or DType.I64 in u.dtypes)

    def unify(self, a: Type, b: Type, because: Because | None = None) -> None:
        """`a` and `b` are the same type; `Mismatch` if they cannot be."""
        a, b = self.head(a), self.head(b)
        if a is b or a == b:
            return
        if isinstance(a, TypeVar) and a.var in self.unknown:
            self._bind(a, b, because)
            return
        if isinstance(b, TypeVar) and b.var in self.unknown:
            self._bind(b, a, because)
            return
        match a, b:
            case Table(), Table() if (a.index, b.index) != (None, None):
                self._unify_dependent(a, b, because)
            case Table(s1, c1), Table(s2, c2):
                self.unify_set(s1, s2, because)
                self.unify(c1, c2, because)
            case Index(s1), Index(s2):
                self.unify_set(s1, s2, because)
            case (Index(SetVar(v)), Data() as made) | (Data() as made, Index(SetVar(v))) if (
                v in self.unknown_sets and (own := elements(made)) is not None
            ):
                self._bind_set(v, own, because)
            case (Data(), _) | (_, Data()):
                self._unify_data(a, b, because)
            case (Index(SetVar(v)), Tuple(items)) | (Tuple(items), Index(SetVar(v))) if (
                v in self.unknown_sets
                and not any(isinstance(self.head(x), Table | Function) for x in items)
            ):
                parts = tuple(self.set(f"{v.name}{k}") for k in range(len(items)))
                self.sets[v] = TupleSet(parts) if parts else UnitSet()
                for part, item in zip(parts, items, strict=True):
                    self.unify(Index(part), item, because)
            case Index(SetVar(v)), Scalar(DType.BOOL) if v in self.unknown_sets:
                self.sets[v] = BoolSet()
            case Scalar(DType.BOOL), Index(SetVar(v)) if v in self.unknown_sets:
                self.sets[v] = BoolSet()
            case Tuple(xs), Tuple(ys) if len(xs) == len(ys):
                for x, y in zip(xs, ys, strict=True):
                    self.unify(x, y, because)
            case Function(ps, r), Function(qs, q) if len(ps) == len(qs):
                for x, y in zip(ps, qs, strict=True):
                    self.unify(x, y, because)
                self.unify(r, q, because)
            case Reference(x), Reference(y):
                self.unify(x, y, because)
            case Exists(vs), Exists(us) if len(vs) == len(us):
                self._unify_boxes(a, b, because)
            case _:
                raise Mismatch(a, b)

    def _unify_data(self, a: Type, b: Type, because: Because | None) -> None:
        """Data types are equal by name and arguments, which say what the items are."""
        if not (isinstance(a, Data) and isinstance(b, Data) and a.layout == b.layout):
            raise Mismatch(a, b)
        for p, q in zip(a.args, b.args, strict=True):
            if isinstance(p, Size):
                assert isinstance(q, Size)
                self.unify_size(p, q, because)
            elif isinstance(p, SETS):
                assert isinstance(q, SETS)
                self.unify_set(p, q, because)
            else:
                assert not isinstance(q, Size)
                assert not isinstance(q, SETS)
                self.unify(p, q, because)

    def _unify_dependent(self, a: Table, b: Table, because: Because | None) -> None:
        """Rows are compared at an index of their own; what is not known yet cannot mention it."""
        self.unify_set(a.set, b.set, because)
        i = Var("i")
        if self._escaped({i}, cell_at(a, size(i)), cell_at(b, size(i)), because):
            raise Mismatch(a, b)

    def _unify_boxes(self, a: Exists, b: Exists, because: Because | None) -> None:
        """Boxes are compared at sizes of their own; what is not known yet cannot mention them."""
        own = tuple(Var(v.name) for v in a.vars)
        at = tuple(map(size, own))
        if escaped := self._escaped({*own}, opened(a, at), opened(b, at), because):
            raise Mismatch(a, b, variable=escaped[0].name, hidden=escaped[1].name)

    def _escaped(
        self, own: set[Var], a: Type, b: Type, because: Because | None
    ) -> tuple[Var, Var] | None:
        """Equate types that mention these variables. Another one that is one of them now, if any:
        it is known further out, where they are not."""
        before = len(self.types), len(self.sets), len(self.sizes)
        self.unify(a, b, because)
        made = [
            *list(self.types.items())[before[0] :],
            *((v, Index(s)) for v, s in list(self.sets.items())[before[1] :]),
            *((v, Index(Fin(n))) for v, n in list(self.sizes.items())[before[2] :]),
        ]
        for v, t in made:
            if found := own & mentioned(self.zonk(t)):
                return v, min(found, key=lambda w: w.id)
        return None

    def _bind(self, a: TypeVar, b: Type, because: Because | None) -> None:
        u = self.unknown[a.var]
        if isinstance(b, TypeVar) and b.var in self.unknown:
            other = self.unknown[b.var]
            if u.dtypes is not None:
                self.restrict(b, u.dtypes)
            other.computed = other.computed or u.computed
            other.cell = other.cell or u.cell
            other.needs |= u.needs
            other.held = other.held or u.held
            other.carried = other.carried or u.carried
            other.grows = other.grows or u.grows
            if other.default is None or (u.default is not None and u.floats):
                other.default = u.default
                other.floats = other.floats or u.floats
        else:
            if u.dtypes is not None:
                try:
                    self.restrict(b, u.dtypes, u.needs)
                except Mismatch:
                    raise Mismatch(a, b) from None
            if self._occurs(a.var, b) or (u.computed and _is_number(b)):
                raise Mismatch(a, b)
        self.types[a.var] = b
        if because is not None:
            self.why[a.var] = because
        if isinstance(b, Scalar) or (isinstance(b, TypeVar) and b.var in self.unknown):
            return
        for interface in u.needs:
            if not (_is_number(b) and interface == "Num"):  # of a literal
                self.need(b, interface)

    def _occurs(self, v: Var, t: Type) -> bool:
        t = self.head(t)
        match t:
            case TypeVar(w):
                return v == w
            case Table(_, cell):
                return self._occurs(v, cell)
            case Tuple(items):
                return any(self._occurs(v, x) for x in items)
            case Function(params, result):
                return self._occurs(v, result) or any(self._occurs(v, p) for p in params)
            case Reference(cell):
                return self._occurs(v, cell)
            case Exists(_, body):
                return self._occurs(v, body)
            case Scalar() | Index() | Text():
                return False

    def unify_set(self, a: Set, b: Set, because: Because | None = None) -> None:
        one, two = a, b
        a, b = self.head_set(a), self.head_set(b)
        if a == b:
            return
        if isinstance(a, SetVar) and a.var in self.unknown_sets:
            self._bind_set(a.var, b, because)
            return
        if isinstance(b, SetVar) and b.var in self.unknown_sets:
            self._bind_set(b.var, a, because)
            return
        match a, b:
            case Fin(n), Fin(m):
                variable = ""
                if isinstance(one, SetVar) and one.var in self.named:
                    variable = one.var.name
                self.unify_size(n, m, because, self.reasons_set(one, two), variable)
            case (Range(low, high), Fin(n)) | (Fin(n), Range(low, high)) if (
                self.zonk_size(low).constant == 0
            ):
                self.unify_size(high, n, because, self.reasons_set(one, two))
            case Range(l1, h1), Range(l2, h2):
                self.unify_size(l1, l2, because)
                self.unify_size(h1, h2, because)
            case (TupleSet(_, Data() as x), TupleSet(_, Data() as y)) if x.layout == y.layout:
                self._unify_data(x, y, because)
            case TupleSet(xs, None), TupleSet(ys, None) if len(xs) == len(ys):
                for x, y in zip(xs, ys, strict=True):
                    self.unify_set(x, y, because)
            case Reverse(x), Reverse(y):
                self.unify_set(x, y, because)
            case Sum(x, p), Sum(y, q):
                self.unify_set(x, y, because)
                self.unify_set(p, q, because)
            case (Sum(), Fin()) | (Fin(), Sum()):
                here = self.place.so_far()
                self.unify_size(cardinality(a), cardinality(b), because)
                if self.set_is_open(a) or self.set_is_open(b):
                    self.goals.append(lambda: self._check_sum(one, two, here))
                else:
                    self._check_sum(one, two, here)
            case Slice(x), Slice(y):
                self.unify_set(x, y, because)
                for m, n in ((a.start, b.start), (a.step, b.step), (a.count, b.count)):
                    self.unify_size(m, n, because)
            case _:
                raise Mismatch(self.zonk_set(a), self.zonk_set(b), self.reasons_set(one, two))

    def _check_sum(self, a: Set, b: Set, place: Place) -> None:
        """A sum that met a `Fin` must be one of the same size."""
        x, y = self.zonk_set(a), self.zonk_set(b)
        if not (isinstance(x, Fin) and isinstance(y, Fin)) or not place.facts().proves_equal(
            x.size, y.size
        ):
            raise Mismatch(x, y, self.reasons_set(a, b))

    def _bind_set(self, v: Var, s: Set, because: Because | None) -> None:
        if isinstance(s, SetVar) and s.var == v:
            return
        if v in set(set_variables(self.zonk_set(s))):
            raise Mismatch(SetVar(v), self.zonk_set(s))
        self.sets[v] = s
        if because is not None:
            self.why[v] = because

    def unify_size(
        self,
        a: Size,
        b: Size,
        because: Because | None = None,
        reasons: tuple[Because, ...] = (),
        variable: str = "",
    ) -> None:
        one, two = a, b
        a, b = self.zonk_size(a), self.zonk_size(b)
        if a == b:
            return
        gap = a - b
        for v in dict.fromkeys(self._open_in(gap)):
            c = gap.coefficient(v)
            rest = gap - size(v) * c
            if v in self.unknown_sizes and c and all(k % c == 0 for _, k in rest.terms):
                value = rest // -c
                if v not in set(variables(value)):
                    self.sizes[v] = value
                    if because is not None:
                        self.why[v] = because
                    return
        match list(dict.fromkeys(self._open_in(gap))):
            case [v] if v in self.unknown_sizes and (solved := inverse(gap, v)) is not None:
                self.sizes[v] = solved
                if because is not None:
                    self.why[v] = because
                return
            case _:
                pass
        if self.size_is_open(gap):
            here = self.place.so_far()
            given = (because,) if because is not None else ()
            self.goals.append(
                lambda: self._check_equal(one, two, given + reasons, here, variable)
            )
            return
        self._check_equal(one, two, reasons, self.place, variable)

    def _check_equal(
        self, a: Size, b: Size, reasons: tuple[Because, ...], place: Place, variable: str,
    ) -> None:
        x, y = self.zonk_size(a), self.zonk_size(b)
        if x != y and not place.facts().proves_equal(x, y):
            why = tuple(dict.fromkeys(reasons + self._why_sizes(a, b)))
            raise Mismatch(x, y, why, variable)

    # ------------------------------------------------------------ tasks

    def later(self, task: Task) -> None:
        """Try now; else when more is known."""
        if not task(False):
            self.tasks.append(task)

    def run(self) -> None:
        """Run all tasks, forcing the oldest whenever nothing else moves."""
        while self.tasks:
            waiting, self.tasks = self.tasks, []
            kept = [t for t in waiting if not t(False)]
            moved = self.discharge()
            stuck = len(kept) == len(waiting) and not self.tasks and not moved
            self.tasks = kept + self.tasks
            if stuck:
                first = self.tasks.pop(0)
                first(True)
        while self.discharge():
            pass

    def discharge(self) -> bool:
        """Settle the interfaces whose types are known by now; whether there were any."""
        waiting, self.wants = self.wants, []
        kept = [w for w in waiting if not w()]
        self.wants = kept + self.wants
        return len(kept) < len(waiting)

    def settle(self) -> None:
        """Check what could only be checked at the end."""
        goals, self.goals = self.goals, []
        for goal in goals:
            goal()
