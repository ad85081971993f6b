"""Modules: what each name at the top means, which file an import is, in which order to define."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass

from naperian.core import syntax as core
from naperian.frontend import errors
from naperian.frontend.definitions import constant, define
from naperian.frontend.interfaces import Declared
from naperian.frontend.walk import EnumInfo, Globals
from naperian.names import Var
from naperian.source import Diagnostic, Source, Span
from naperian.surface import syntax as s
from naperian.types import EnumSet

Read = Callable[[str], Source | None]
"""The text of a module by its dotted path, or None."""

Parse = Callable[[Source], tuple[s.Module, tuple[Diagnostic, ...]]]


_MOST_WRONG = 100  # mistakes told at once


@dataclass(slots=True)
class Loaded:
    """A module that was elaborated: its names, its definitions under their full names."""

    globals: Globals
    named: dict[str, core.Definition]  # the definitions that `globals` sees
    definitions: dict[str, core.Definition] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()


class Library(Mapping[str, core.Definition]):
    """The definitions of the standard library, each elaborated when it is first used."""

    def __init__(self, module: s.Module) -> None:
        self._written = {d.name: d for d in module.decls if isinstance(d, s.Def)}
        self._constants = {
            d.pattern.name: d
            for d in module.decls
            if isinstance(d, s.Bind) and isinstance(d.pattern, s.PName)
        }
        self._done: dict[str, core.Definition] = {}
        self.globals = Globals(definitions=self)

    def __getitem__(self, name: str) -> core.Definition:
        if name not in self._done:
            globals = Globals()
            library = self.globals
            if name in self._written:
                made, wrong = define(self._written[name], f"std.{name}", globals, library)
            elif name in self._constants:
                made, wrong = constant(self._constants[name], f"std.{name}", globals, library)
            else:
                raise KeyError(name)
            if made is None:
                raise AssertionError(f"the library's {name}: {wrong}")
            self._done[name] = made
        return self._done[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._written
        yield from self._constants

    def __len__(self) -> int:
        return len(self._written) + len(self._constants)

    def __contains__(self, name: object) -> bool:
        return name in self._written or name in self._constants

    @property
    def used(self) -> dict[str, core.Definition]:
        """What was elaborated so far, callees before callers."""
        return {d.name: d for d in self._done.values()}


def module(
    name: str, tree: s.Module, read: Read, parse: Parse, library: Library,
    path: tuple[str, ...] = (), known: dict[str, Loaded] | None = None,
) -> Loaded:
    """A module with everything it imports. `known` are the modules met before: a module that is
    imported twice is elaborated once."""
    known = {} if known is None else known
    named: dict[str, core.Definition] = {}
    loaded = Loaded(Globals(named), named)
    wrong: list[Diagnostic] = []
    lib = library.globals
    prefix = f"{name}." if path else ""
    places: dict[str, Span] = {}
    written: dict[str, s.Def | s.Bind] = {}
    interfaces: list[s.Interface] = []
    instances: list[s.Instance] = []
    for d in tree.decls:
        try:
            match d:
                case s.Def(_, n, span):
                    _new(places, n, span)
                    written[n] = d
                case s.Bind(span, s.PName(_, n)):
                    _new(places, n, d.pattern.span)
                    written[n] = d
                case s.Enum(_, n, span, _, variants, _):
                    _new(places, n, span)
                    if any(v.fields is not None for v in variants):
                        raise errors.not_yet("an enum with fields", d.span)
                    members = tuple(v.name for v in variants)
                    loaded.globals.enums[n] = EnumInfo(EnumSet(Var(n), members), span)
                case s.Import() | s.FromImport():
                    _import(d, loaded, read, parse, library, (*path, name if path else ""), wrong,
                            known)
                case s.Interface(_, n):
                    _new(places, n, d.span)
                    interfaces.append(d)
                case s.Instance():
                    instances.append(d)
                case s.Struct(span):
                    raise errors.not_yet(f"`{span.text.split()[0]}`", span)
                case _:
                    raise errors.misplaced_top(d.span)
        except errors.Reported as r:
            wrong.append(r.diagnostic)
    declared = Declared(loaded.globals, lib, prefix)
    wrong += declared.interfaces(interfaces, places)
    loaded.named |= declared.methods
    loaded.definitions |= {m.name: m for m in declared.methods.values()}
    wrong += declared.instances(instances)
    order, cycles = _order(written)
    for cycle in cycles:
        first = written[cycle[0]]
        span = first.name_span if isinstance(first, s.Def) else first.pattern.span
        wrong.append(errors.recursion(cycle, span).diagnostic)
        loaded.globals.failed.update(cycle)
    for n in order:
        if len(wrong) >= _MOST_WRONG:
            break
        d = written[n]
        if isinstance(d, s.Def):
            made, mistakes = define(d, prefix + n, loaded.globals, lib)
        else:
            made, mistakes = constant(d, prefix + n, loaded.globals, lib)
        wrong.extend(mistakes)
        if made is None:
            loaded.globals.failed.add(n)
        else:
            loaded.named[n] = made
            loaded.definitions[made.name] = made
    wrong += declared.bodies()
    loaded.definitions |= declared.definitions
    loaded.diagnostics = tuple(
        sorted(wrong, key=lambda d: d.labels[0].span.start if d.labels else 0)
    )
    return loaded


def _new(places: dict[str, Span], name: str, span: Span) -> None:
    if name in places:
        raise errors.duplicate(name, span, places[name])
    places[name] = span


def _import(
    d: s.Import | s.FromImport, into: Loaded, read: Read, parse: Parse, library: Library,
    path: tuple[str, ...], wrong: list[Diagnostic], known: dict[str, Loaded],
) -> None:
    package = path[-1].rpartition(".")[0]  # the folder of the importing file
    dotted = ".".join([package, *d.path] if package else d.path)
    name = d.alias if isinstance(d, s.Import) else None
    into.globals.failed.add(name or d.path[-1])  # until it is known to be there
    if dotted in path:
        raise errors.import_cycle([*path[path.index(dotted) :], dotted], d.span)
    there = known.get(dotted)
    if there is None:
        source = read(dotted)
        if source is None:
            raise errors.module_not_found(dotted, d.span)
        tree, mistakes = parse(source)
        if mistakes:
            wrong.extend(mistakes)
            return
        there = known[dotted] = module(dotted, tree, read, parse, library, path, known)
        wrong.extend(there.diagnostics)
    into.globals.failed.discard(name or d.path[-1])
    into.globals.known |= there.globals.known
    new = [i for i in there.globals.instances if i not in into.globals.instances]
    into.globals.instances += new
    into.definitions |= there.definitions
    if isinstance(d, s.Import):
        into.globals.modules[d.alias or d.path[-1]] = there.globals
    for a in d.names:
        target = a.alias or a.name
        if a.name in there.globals.definitions:
            into.named[target] = there.globals.definitions[a.name]
        elif a.name in there.globals.interfaces:
            into.globals.interfaces[target] = there.globals.interfaces[a.name]
        elif a.name in there.globals.enums:
            into.globals.enums[target] = there.globals.enums[a.name]
        elif a.name not in there.globals.failed:
            raise errors.unknown_member(dotted, a.name, a.span, there.globals.names())


# ---------------------------------------------------------------- order


def _order(written: Mapping[str, s.Def | s.Bind]) -> tuple[list[str], list[list[str]]]:
    """Callees before callers; and the groups that call each other (Tarjan's algorithm)."""
    uses = {}
    for n, d in written.items():
        hidden = set(_bound(d))
        uses[n] = [m for m in dict.fromkeys(_names(d)) if m in written and m not in hidden]
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    order: list[str] = []
    cycles: list[list[str]] = []
    for root in written:
        if root in index:
            continue
        work: list[tuple[str, int]] = [(root, 0)]
        while work:
            n, k = work.pop()
            if k == 0:
                index[n] = low[n] = len(index)
                stack.append(n)
                on_stack.add(n)
            descended = False
            for j in range(k, len(uses[n])):
                m = uses[n][j]
                if m not in index:
                    work += [(n, j + 1), (m, 0)]
                    descended = True
                    break
                if m in on_stack:
                    low[n] = min(low[n], index[m])
            if descended:
                continue
            for m in uses[n]:
                if m in on_stack:
                    low[n] = min(low[n], low[m])
            if low[n] == index[n]:
                group = []
                while True:
                    m = stack.pop()
                    on_stack.discard(m)
                    group.append(m)
                    if m == n:
                        break
                if len(group) > 1 or n in uses[n]:
                    cycles.append(group[::-1])
                else:
                    order.append(n)
    return order, cycles


def _names(d: s.Def | s.Bind) -> Iterator[str]:
    """Every name that is used."""
    return (x.name for x in _nodes(d) if isinstance(x, s.Name))


def _bound(d: s.Def | s.Bind) -> Iterator[str]:
    """Every name bound inside."""
    inside = (d.params, d.body) if isinstance(d, s.Def) else (d.value,)
    return (x.name for x in _nodes(inside) if isinstance(x, s.PName | s.Param))


def _nodes(tree: object) -> Iterator[object]:
    todo = [tree]
    while todo:
        x = todo.pop()
        if isinstance(x, tuple):
            todo.extend(x)
        elif is_dataclass(x) and not isinstance(x, Span):
            yield x
            todo.extend(getattr(x, f.name) for f in fields(x) if f.name != "span")
