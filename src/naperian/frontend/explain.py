"""A definition as the user wrote it, with every lift written as a comprehension.

    e = exp(x - max(x))      ⇒      e = [exp(x[i] - max(x)) for i in n]

The front end remembers each lifted application (`core.Lift`): the common frame, and which of its
axes index which argument. Here these are put into the text. The result parses and compiles to the
same program. A lift whose cells are tuples stays as it is: its frame goes inside the tuple, which
no single comprehension says.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from naperian.core import syntax as core
from naperian.core.show import signature_texts
from naperian.source import NOWHERE, Span
from naperian.surface import syntax as s
from naperian.surface.show import show
from naperian.surface.walk import nodes
from naperian.type_show import show_set
from naperian.types import Data, Set, Tuple, set_variables

_LETTERS = "ijklpqrstuvwxyzabcdefgh"
_MADE = "\0"  # before the names of binders that have no letter yet


def explain(tree: s.Module, d: core.Definition, name: str) -> str | None:
    """The definition `name` of a module with its lifts written out, and why, as comments; None if
    the module does not say how it is defined (a method of an interface)."""
    writer = _Writer(d)
    for decl in tree.decls:
        match decl:
            case s.Def(_, own) if own == name:
                writer.references = _references(decl)
                body = writer.tree(decl.body)
                head = _header(decl, d)
                text = show(_lettered(dataclasses.replace(head, body=body), decl))
            case s.Bind(_, s.PName(_, own), _, value) if own == name:
                made = dataclasses.replace(decl, value=writer.tree(value))
                text = show(_lettered(made, decl))
            case _:
                continue
        lifts = sorted(d.lifts, key=lambda x: (x.span.start, x.span.end))
        return "\n".join([text.rstrip("\n"), *dict.fromkeys(f"# {_reason(x)}" for x in lifts)])
    return None


def _references(decl: s.Def) -> set[str]:
    """The names in a definition that stand for references."""
    found = set()
    for x in nodes(decl):
        match x:
            case s.Handler(_, _, str() as name):
                found.add(name)
            case s.Param(_, name, s.Call(_, s.Name(_, "Ref"))):
                found.add(name)
            case _:
                pass
    return found


def _reason(lift: core.Lift) -> str:
    frame = [show_set(x) for x in lift.frame]

    def axes(places: Iterable[int]) -> str:
        return ", ".join(f"`{frame[p]}`" for p in places)

    def said(k: int, a: Span) -> str:
        if a != lift.span:
            return f"`{_short(a)}`"
        return "its argument" if len(lift.args) == 1 else f"its argument {k}"  # a value: `f~1`

    mapped = [f"{axes(at)} of {said(k, a)}" for k, (a, at) in enumerate(lift.args, 1) if at]
    fixed = [said(k, a) for k, (a, at) in enumerate(lift.args, 1) if not at]
    text = f"`{_short(lift.span)}` is mapped over {' and '.join(mapped)}"
    stays = "stays" if len(fixed) == 1 else "stay"
    return text + (f"; {' and '.join(fixed)} {stays} the same" if fixed else "")


def _short(span: Span) -> str:
    text = " ".join(span.text.split())
    return text if len(text) <= 40 else text[:39] + "…"


def _header(tree: s.Def, d: core.Definition) -> s.Def:
    """With every type that was left out, and the row."""
    tree = dataclasses.replace(tree, effects=d.effects or None)
    if tree.result is not None and all(p.type is not None for p in tree.params):
        return tree
    types, result, wheres = signature_texts(d)
    params = tuple(
        dataclasses.replace(p, type=s.Name(NOWHERE, t))
        for p, t in zip(tree.params, types, strict=True)
    )
    said = {(f.subject.span.text, f.interface) for f in tree.facts}
    facts = tuple(
        s.Fact(NOWHERE, s.Name(NOWHERE, v), interface)
        for v, interface in wheres
        if (v, interface) not in said
    )
    return dataclasses.replace(
        tree, params=params, result=s.Name(NOWHERE, result), facts=tree.facts + facts
    )


class _Writer:
    """Puts the lifts of a definition into its tree."""

    def __init__(self, d: core.Definition) -> None:
        self.lifts: dict[tuple[int, int], list[core.Lift]] = {}
        for x in d.lifts:
            self.lifts.setdefault((x.span.start, x.span.end), []).append(x)
        self.known = {*d.sets, *d.sizes, *(p.var for p in d.params)}
        self.references: set[str] = set()  # what an update changes, where others get a new value
        self.made = 0

    def tree(self, node: Any) -> Any:
        """Any part of the tree, its own parts first."""
        match node:
            case s.Compare(span, operands, ops) if len(ops) > 1:
                return self.chain(span, operands, ops)
            case s.Call(_, s.Name(_, "min" | "max") as f, args) if len(args) > 2 and self.at(node):
                return self.tree_of_calls(node, f, args)
            case s.Call(span, f, (s.Generator() as g,)):
                return self.generator(node, g)
            case s.Name(span, _) | s.Section(span, _, None) if self.at(node):
                return self.function(node, span)
            case s.Update(span, op, at, target, value) if self.at(node):
                whole = self.tree(s.Binary(span, op, at, target, value))
                if isinstance(target, s.Name) and target.name not in self.references:
                    return s.Bind(span, s.PName(target.span, target.name), None, whole)
                return s.Set(span, target, whole)
            case _:
                new = _rebuilt(node, self.tree)
                return self.application(node, new) if isinstance(node, _APPLICATIONS) else new

    def function(self, node: s.Name | s.Section, span: Span) -> s.Expr:
        """`sqrt` as a value, where it is applied to tables."""
        lift = self.at(node)[0]
        names = [self.fresh() for _ in lift.args]
        args = [s.Name(span, n) for n in names]
        params = tuple(s.PName(NOWHERE, n) for n in names)
        call: s.Expr = s.Call(span, node, tuple(args))
        if isinstance(node, s.Section):
            call = s.Binary(span, node.op, span, *args)
        letters, binders = self.binders(lift.frame)
        cells = [
            _indexed(x, [s.Name(NOWHERE, letters[p]) for p in places])
            for x, (_, places) in zip(args, lift.args, strict=True)
        ]
        head = _slots(call)[: len(_slots(call)) - len(cells)]
        body = s.Comprehension(NOWHERE, _with_slots(call, [*head, *cells]), binders, None)
        return s.Lambda(NOWHERE, params, body)

    def at(self, e: s.Expr | s.Update) -> list[core.Lift]:
        return self.lifts.get((e.span.start, e.span.end), [])

    def application(self, old: s.Expr, new: s.Expr) -> s.Expr:
        """An application whose parts are written out already."""
        places = [x.span for x in _slots(old)]
        return self.lifted(new, places, self.at(old))

    def lifted(self, new: s.Expr, places: list[Span], lifts: list[core.Lift]) -> s.Expr:
        binders: list[s.Binder] = []
        for lift in lifts:
            own = dict(lift.args)
            if not all(a in places for a in own):
                continue
            if isinstance(lift.result, Tuple) and not isinstance(lift.result, Data) and (
                lift.result.items
            ):
                continue
            names, opened = self.binders(lift.frame)
            binders += opened
            cells = [
                _indexed(x, [s.Name(NOWHERE, names[p]) for p in own.get(place, ())])
                for x, place in zip(_slots(new), places, strict=True)
            ]
            new = _with_slots(new, cells)
        if not binders:
            return new
        match new:
            case s.Call(span, s.Rank(_, s.Section(_, op, None), _), (left, right)):
                new = s.Binary(span, op, span, left, right)  # type: ignore[arg-type]
            case s.Call(span, s.Rank(_, function, _), args):
                new = s.Call(span, function, args)
            case s.Binary(span, "and" | "or" as op, at, left, right):
                # of tables both sides are evaluated, of scalars only `&` and `|` do that
                new = s.Binary(span, "&" if op == "and" else "|", at, left, right)
            case _:
                pass
        return s.Comprehension(NOWHERE, new, tuple(binders), None)

    def fresh(self) -> str:
        self.made += 1
        return f"{_MADE}{self.made}"

    def domain(self, own: Set) -> s.Expr | None:
        """The set as the user writes it, where its sizes have names."""
        if all(v in self.known for v in set_variables(own)):
            return s.Name(NOWHERE, show_set(own))
        return None

    def chain(self, span: Span, operands: tuple[s.Expr, ...], ops: tuple[str, ...]) -> s.Expr:
        """`a < b < c`: the frame is that of the `and` of its comparisons, whose frames are those of
        the operands."""
        pairs = [a.span.to(b.span) for a, b in pairwise(operands)]
        places: list[tuple[int, ...]] = [() for _ in operands]
        frame: tuple[Set, ...] = ()
        before = span
        for k, pair in enumerate(pairs):
            own = self.lift_of(pair, [operands[k].span, operands[k + 1].span])
            mine = [w for _, w in own.args] if own is not None else [(), ()]
            here = own.frame if own is not None else ()
            both = self.lift_of(span, [before, pair]) if k else None
            if both is not None:
                (_, old), (_, new) = both.args
                places = [tuple(old[p] for p in w) for w in places]
                mine = [tuple(new[p] for p in w) for w in mine]
                here = both.frame
            frame = here or frame
            places[k] = places[k] or mine[0]
            places[k + 1] = mine[1]
            before = span if k else pair
        inner = [self.tree(x) for x in operands]
        if not frame:
            return s.Compare(span, tuple(inner), ops)
        names, binders = self.binders(frame)
        cells = [
            _indexed(x, [s.Name(NOWHERE, names[p]) for p in w])
            for x, w in zip(inner, places, strict=True)
        ]
        return s.Comprehension(NOWHERE, s.Compare(span, tuple(cells), ops), binders, None)

    def lift_of(self, span: Span, places: list[Span]) -> core.Lift | None:
        found = self.lifts.get((span.start, span.end), [])
        return next((x for x in found if [a for a, _ in x.args] == places), None)

    def binders(self, frame: tuple[Set, ...]) -> tuple[list[str], tuple[s.Binder, ...]]:
        """A new name for every axis of a frame."""
        names = [self.fresh() for _ in frame]
        return names, tuple(
            s.Binder(NOWHERE, s.PName(NOWHERE, n), self.domain(x))
            for n, x in zip(names, frame, strict=True)
        )

    def tree_of_calls(self, node: s.Call, f: s.Name, args: tuple[Any, ...]) -> s.Expr:
        """`max(a, b, c)` is `max(max(a, b), c)`."""
        whole: s.Expr = self.tree(args[0])
        before = args[0].span
        for a in args[1:]:
            call = s.Call(node.span, f, (whole, self.tree(a)))
            places = [f.span, before, a.span]
            fits = [x for x in self.at(node) if {p for p, _ in x.args} == {before, a.span}]
            whole = self.lifted(call, places, fits)
            before = node.span
        return whole

    def generator(self, node: s.Call, g: s.Generator) -> s.Expr:
        """`sum(x[i] for i)` where the elements have axes themselves."""
        new = _rebuilt(node, self.tree)
        lift = self.lift_of(node.span, [g.element.span])
        if lift is None:
            return self.application(node, new)
        (inner,) = new.args
        names, binders = self.binders(lift.frame)
        element = _indexed(inner.element, [s.Name(NOWHERE, n) for n in names])
        call = s.Call(new.span, new.function, (dataclasses.replace(inner, element=element),))
        return s.Comprehension(NOWHERE, call, binders, None)


_APPLICATIONS = (s.Binary, s.Unary, s.Compare, s.Ternary, s.Call)


def _slots(e: s.Expr) -> list[s.Expr]:
    """The arguments of an application, as places that a lift may index."""
    match e:
        case s.Binary(_, _, _, left, right):
            return [left, right]
        case s.Unary(_, _, operand):
            return [operand]
        case s.Compare(_, operands, _):
            return list(operands)
        case s.Ternary(_, condition, then, otherwise):
            return [condition, then, otherwise]
        case s.Call(_, function, args):
            first = function.base if isinstance(function, s.Field) else function
            return [first, *(a.value if isinstance(a, s.Keyword) else a for a in args
                             if not isinstance(a, s.Generator))]  # fmt: skip
        case _:
            return []


def _with_slots(e: s.Expr, new: list[s.Expr]) -> s.Expr:
    match e:
        case s.Binary(span, op, at, _, _):
            return s.Binary(span, op, at, *new)
        case s.Unary(span, op, _):
            return s.Unary(span, op, *new)
        case s.Compare(span, _, ops):
            return s.Compare(span, tuple(new), ops)
        case s.Ternary(span, _, _, _):
            return s.Ternary(span, *new)
        case s.Call(span, function, args):
            first, *rest = new
            if isinstance(function, s.Field):
                first = dataclasses.replace(function, base=first)
            values = iter(rest)
            given = tuple(
                a if isinstance(a, s.Generator)
                else dataclasses.replace(a, value=next(values)) if isinstance(a, s.Keyword)
                else next(values)
                for a in args
            )  # fmt: skip
            return s.Call(span, first, given)
        case _:
            return e


def _indexed(e: s.Expr, at: list[s.Expr]) -> s.Expr:
    """`e[at]`; a comprehension is entered, further indices join those that are there."""
    if not at:
        return e
    match e:
        case s.Comprehension(span, element, binders, None) if all(
            isinstance(b.pattern, s.PName) and b.pattern.name.startswith(_MADE) for b in binders
        ):
            known = {
                b.pattern.name: x
                for b, x in zip(binders, at, strict=False)
                if isinstance(b.pattern, s.PName)
            }
            inner = _substituted(element, known)
            rest = binders[len(at) :]
            if rest:
                return s.Comprehension(span, inner, rest, None)
            return _indexed(inner, at[len(binders) :])
        case s.IndexExpr(span, base, indices) if not any(
            isinstance(i, s.RangeExpr) for i in indices
        ):
            return s.IndexExpr(span, base, (*indices, *at))
        case _:
            return s.IndexExpr(e.span, e, tuple(at))


def _substituted(e: Any, known: Mapping[str, s.Expr]) -> Any:
    """Names of made binders, which nothing rebinds, replaced."""
    if isinstance(e, s.Name):
        return known.get(e.name, e)
    return _rebuilt(e, lambda x: _substituted(x, known))


def _rebuilt(node: Any, f: Any) -> Any:
    """A node with its parts replaced."""
    changes = {}
    for field in dataclasses.fields(node):
        old = getattr(node, field.name)
        if isinstance(old, tuple):
            new: Any = tuple(f(x) if _is_node(x) else x for x in old)
            if any(isinstance(x, tuple) for x in old):  # the arms of an `if`
                new = tuple(tuple(f(y) for y in x) for x in old)
        elif _is_node(old):
            new = f(old)
        else:
            continue
        if new is not old:
            changes[field.name] = new
    return dataclasses.replace(node, **changes) if changes else node


def _is_node(x: object) -> bool:
    return dataclasses.is_dataclass(x) and not isinstance(x, Span)


def _lettered(node: Any, written: s.Def | s.Bind) -> Any:
    """Made binders get letters that nothing around them has."""
    taken = set(re.findall(r"[A-Za-z_]\w*", written.span.text))
    return _named(node, taken, {})


def _named(node: Any, taken: set[str], known: Mapping[str, str]) -> Any:
    match node:
        case s.Name(span, name) if name in known:
            return s.Name(span, known[name])
        case s.Lambda(span, params, body):
            inner = dict(known)
            named = tuple(_letter(p, taken, inner) for p in params)
            return s.Lambda(span, named, _named(body, taken, inner))
        case s.Comprehension(span, element, binders, condition):
            inner = dict(known)
            out = []
            for b in binders:
                domain = None if b.domain is None else _named(b.domain, taken, inner)
                out.append(s.Binder(b.span, _letter(b.pattern, taken, inner), domain))
            test = None if condition is None else _named(condition, taken, inner)
            return s.Comprehension(span, _named(element, taken, inner), tuple(out), test)
        case _:
            return _rebuilt(node, lambda x: _named(x, taken, known))


def _letter(pattern: s.Pattern, taken: set[str], known: dict[str, str]) -> s.Pattern:
    if not (isinstance(pattern, s.PName) and pattern.name.startswith(_MADE)):
        return pattern
    known[pattern.name] = next(_letters(taken | set(known.values())))
    return s.PName(pattern.span, known[pattern.name])


def _letters(taken: set[str]) -> Iterator[str]:
    yield from (x for x in _LETTERS if x not in taken)
    k = 1
    while True:
        if f"i{k}" not in taken:
            yield f"i{k}"
        k += 1

