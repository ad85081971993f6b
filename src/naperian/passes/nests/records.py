"""When a round replaces a record, which is what is kept of the best so far.

    better = d[j] < best                    `best` and `at` change where `better` holds, and it is
    best := d[j] if better else best        a record: what is compared with the variable is what
    at := j if better else at               replaces it

What `tokens` are moved among is another number where its bits are others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from naperian.dtypes import DType
from naperian.loops.syntax import Apply, Assign, Expr, Let, Local, Stmt, When
from naperian.loops.walk import all_of, parts
from naperian.names import Lit, Var
from naperian.node import replace

_MANY = 16  # conditions under which a variable is another
_LONG = 64  # operations that are compared with others
_COMPARED = {"lt", "le", "gt", "ge"}


@dataclass
class Rounds:
    """The rounds of a loop: what they name, the variables that outlive them, and what these are
    replaced by. `exact`, a zero in place of another one is a change."""

    lets: Mapping[Var, Expr]
    carried: frozenset[Var]
    exact: bool = False
    tokens: dict[Var, DType] = field(default_factory=dict)  # those that tokens are moved among
    records: dict[Var, set[Expr]] = field(default_factory=dict)
    others: dict[tuple[Var, Var], list[Expr] | None] = field(default_factory=dict)
    stands: dict[Var, Expr] = field(default_factory=dict)  # what names stand for
    kept: set[Var] = field(default_factory=set)  # records whose bits are compared

    def changes(self, s: Stmt) -> list[Expr] | None:
        """The conditions under which a statement changes anything; None if that is always so."""
        match s:
            case Assign(var, value) if var in self.tokens:
                return [_differs(value, var, self.tokens[var])]
            case Assign(var, value):
                return self._other(value, var)
            case When(condition, then, otherwise):
                out: list[Expr] = []
                for side, c in ((then, condition), (otherwise, not_(condition))):
                    found = [self.changes(x) for x in side]
                    out += [c] * any(x is None or x for x in found)
                return out
            case _:
                return [] if isinstance(s, Let) else None

    def _other(self, e: Expr, v: Var) -> list[Expr] | None:
        """When an expression is not what the variable was."""
        match e:
            case Local(w) if w == v:
                return []
            case Local(w) if w in self.lets:
                if (w, v) not in self.others:
                    made = self._other(self.lets[w], v)
                    self.others[w, v] = None if made is None or len(made) > _MANY else made
                return self.others[w, v]
            case Apply("select", (c, x, y)):
                one, two = self._other(x, v), self._other(y, v)
                if one is None and two is None:
                    return None
                out = []
                for side, holds in ((one, c), (two, not_(c))):
                    out += [holds] if side is None else [_both(holds, z) for z in side]
                return out
            case Apply("min" | "max" as name, (Local(w) as old, new), dtype) if w == v:
                self.records.setdefault(v, set()).add(self.whole(new))
                if self.exact and dtype.is_float:
                    self.kept.add(v)
                    return [_differs(e, v, dtype)]
                return [_better("le" if name == "max" else "ge", new, old, dtype)]
            case _:
                self.records.setdefault(v, set()).add(self.whole(e))
                return None

    def is_rare(self, e: Expr) -> bool:
        """Whether a condition asks for a record, or for a NaN."""
        return self._is_record(self.whole(e))

    def _is_record(self, c: Expr) -> bool:
        match c:
            case Apply("isnan"):
                return True
            case Apply("ne", (_, Apply("bitcast", (Local(v),)))):
                return v in self.tokens or v in self.kept
            case Apply("not", (x,)):
                return self._is_record(x)
            case Apply("select", (_, x, Lit(False)) | (_, Lit(False), x)) if self._is_record(x):
                return True
            case Apply("and", (x, y)) | Apply("select", (x, y, Lit(False))):
                return self._is_record(x) or self._is_record(y)
            case Apply("or", (x, y)):
                return self._is_record(x) and self._is_record(y)
            case Apply(name, (x, y)) if name in _COMPARED:
                return self._replaces(x, y) or self._replaces(y, x)
            case _:
                return False

    def _replaces(self, v: Expr, e: Expr) -> bool:
        return isinstance(v, Local) and v.var in self.carried and e in self.records.get(v.var, ())

    def whole(self, e: Expr) -> Expr:
        """An expression without names of the round, but for those of long ones: what is named
        twice, again and again, would never end."""
        match e:
            case Local(v) if v in self.lets:
                if v not in self.stands:
                    made = self.whole(self.lets[v])
                    self.stands[v] = made if len(parts(made)) <= _LONG else e
                return self.stands[v]
            case Apply(_, args):
                return replace(e, args=tuple(map(self.whole, args)))
            case _:
                return e


def not_(e: Expr) -> Expr:
    match e:
        case Apply("not", (x,)):
            return x
        case _:
            return Apply("not", (e,), DType.BOOL, DType.BOOL)


def _better(worse: str, x: Expr, old: Expr, dtype: DType) -> Expr:
    """Whether a number or a NaN takes the place of another one; a zero need not of a zero."""
    new = not_(Apply(worse, (x, old), DType.BOOL, dtype))
    if not dtype.is_float:
        return new
    return Apply("and", (new, Apply("eq", (old, old), DType.BOOL, dtype)), DType.BOOL, DType.BOOL)


def _differs(new: Expr, old: Var, dtype: DType) -> Expr:
    """Whether a number is not, to the bit, what the variable was."""
    bits = DType.I64 if dtype is DType.F64 else DType.I32
    one, two = (Apply("bitcast", (x,), bits, dtype) for x in (new, Local(old)))
    return Apply("ne", (one, two), DType.BOOL, bits)


def _both(x: Expr, y: Expr) -> Expr:
    return all_of((x, y))
