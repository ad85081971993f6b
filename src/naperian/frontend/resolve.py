"""Modules: what each name at the top means, which file an import is, in which order to define."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from itertools import count

from naperian.components import components
from naperian.core import syntax as core
from naperian.core.walk import everything
from naperian.frontend.again import Before, moved
from naperian.frontend.declarations import declare, has_fields, method
from naperian.frontend.definitions import constant, define
from naperian.frontend.implement import implement
from naperian.frontend.index_sets import index_sets, numbered, numbering
from naperian.frontend.instance_heads import default_name, head_of
from naperian.frontend.interfaces import Declared
from naperian.frontend.messages import (
    data_errors,
    derivative_errors,
    errors,
    limit_errors,
    name_errors,
)
from naperian.frontend.on_demand import OnDemand
from naperian.frontend.rules import differentiates_itself, with_rules
from naperian.frontend.walk import DataInfo, EnumInfo, Globals, Interface
from naperian.names import Var
from naperian.node import mutable, replace
from naperian.prims import PRIMITIVES
from naperian.source import Diagnostic, Source, Span
from naperian.surface import syntax as s
from naperian.surface.walk import nodes
from naperian.types import EnumSet

Read = Callable[[str], Source | None]
"""The text of a module by its dotted path, or None."""

Parse = Callable[[Source], tuple[s.Module, tuple[Diagnostic, ...]]]


_MOST_WRONG = 100  # mistakes told at once


@mutable
class Loaded:
    """A module that was elaborated: its names, its definitions under their full names."""

    globals: Globals
    named: dict[str, core.Definition]  # the definitions that `globals` sees
    definitions: dict[str, core.Definition] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()


class Library(OnDemand):
    """The standard library, and the modules that come with the language, once imported."""

    def __init__(self, module: s.Module) -> None:
        self.globals = Globals(definitions=self)
        super().__init__(module, "std.", Globals(), self.globals)
        self.modules: dict[str, Loaded] = {}
        self.before = Before()
        enums = {d.name: d for d in module.decls if isinstance(d, s.Enum)}
        wrong: list[Diagnostic] = []
        for info in declare_all(enums, "std.", self.globals, Globals(), wrong):
            self.done |= {d.name: d for d in info.makers.values()}
        assert not wrong, wrong
        declared = Declared(self.globals, self.globals, "")
        wrong += declared.interfaces([d for d in module.decls if isinstance(d, s.Interface)], {})
        assert not wrong, wrong
        self.done |= {d.name: d for d in declared.methods.values()}
        self.instances: list[core.Instance] = []
        self._bodies: dict[str, list[Callable[[], core.Definition]]] = {}
        for interface in self.globals.interfaces.values():
            for d in interface.defaults.values():
                self._body(d, default_name(interface, d.name), interface, None)
        for numbers in module.decls:
            if isinstance(numbers, s.Instance):
                made, interface = head_of(numbers, "std.", self.globals, self.globals)
                self.instances.append(made)
                for m in numbers.members or ():
                    assert isinstance(m, s.Def)
                    self._body(m, made.methods[m.name], interface, made)
        # those that are no operators, and no functions that numbers have anyway
        self._methods = {
            n: d for n, d in declared.methods.items() if n.isidentifier() and n not in PRIMITIVES
        }

    def _body(
        self, d: s.Def, name: str, interface: Interface, made: core.Instance | None
    ) -> None:
        """Later: what a method does by default, or for numbers."""

        def elaborate() -> core.Definition:
            body, wrong = implement(d, name, interface, made, Globals(), self.globals)
            assert body is not None, wrong
            return body

        self._bodies.setdefault(d.name, []).append(elaborate)

    def __getitem__(self, name: str) -> core.Definition:
        if name in self._methods:
            self.done |= {d.name: d for d in (make() for make in self._bodies.pop(name, ()))}
            return self._methods[name]
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        yield from super().__iter__()
        yield from self._methods

    def __len__(self) -> int:
        return super().__len__() + len(self._methods)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._methods

    @property
    def used(self) -> dict[str, core.Definition]:
        """What was elaborated so far, callees before callers."""
        return {d.name: d for d in self.done.values()}

    @property
    def known(self) -> list[core.Definition]:
        """What was elaborated so far, with the modules."""
        modules = [d for m in self.modules.values() for d in m.definitions.values()]
        return [*self.done.values(), *modules, *_demanded(self.modules).values()]


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
    structures: dict[str, s.Struct | s.Enum] = {}
    interfaces: list[s.Interface] = []
    instances: list[s.Instance] = []
    indexed: list[s.Instance] = []
    for d in tree.decls:
        try:
            match d:
                case s.Def(_, n, span):
                    _new(places, n, span)
                    written[n] = d
                case s.Bind(span, s.PName(_, n)):
                    _new(places, n, d.pattern.span)
                    written[n] = _named_function(d, n)
                case s.Struct(_, n, span, _, _, methods):
                    _new(places, n, span)
                    structures[n] = d
                    for m in methods:
                        _new(places, f"{n}.{m.name}", m.name_span)
                        written[f"{n}.{m.name}"] = method(d, m)
                case s.Enum(_, n, span, _, variants, _) if has_fields(d):
                    _new(places, n, span)
                    structures[n] = d
                case s.Enum(_, n, span, _, variants, _):
                    _new(places, n, span)
                    members = tuple(v.name for v in variants)
                    loaded.globals.enums[n] = EnumInfo(EnumSet(Var(n), members), span)
                case s.Import() | s.FromImport():
                    _import(d, loaded, read, parse, library, (*path, name if path else ""), wrong,
                            known)
                case s.Interface(_, n):
                    _new(places, n, d.span)
                    interfaces.append(d)
                case s.Instance(_, "Ix"):
                    indexed.append(d)
                case s.Instance():
                    instances.append(d)
                case _:
                    raise name_errors.misplaced_top(d.span)
        except errors.Reported as r:
            wrong.append(r.diagnostic)
    loaded.globals.indexed = index_sets(indexed, structures, wrong)
    written = numbering(loaded.globals.indexed, structures) | written
    order, cycles = _order(_uses(written))

    types = structures or interfaces or instances or indexed
    before = library.before if not types and Before.suits(tree, loaded.globals) else None
    originals: dict[str, core.Definition] = {}  # as they were made, in whichever text

    def meaning(word: str) -> tuple[object, ...]:
        named = originals.get(word) or loaded.named.get(word)
        return named, loaded.globals.modules.get(word), word in written

    def anew(n: str) -> core.Definition | None:
        d = written[n]
        if isinstance(d, s.Def):
            own = numbered(n, loaded.globals)
            made, mistakes = define(d, prefix + n, loaded.globals, lib, own)
        else:
            made, mistakes = constant(d, prefix + n, loaded.globals, lib)
        wrong.extend(mistakes)
        return made

    def elaborate(n: str) -> None:
        if len(wrong) >= _MOST_WRONG:
            return
        d = written[n]
        made = before.find(prefix + n, d, meaning) if before and not wrong else None
        if made is not None:
            originals[n] = made
            made = moved(made, d.span.source)
        else:
            made = anew(n)
            if made is not None and before and not wrong:
                before.keep(prefix + n, d, meaning, made)
        if made is None:
            loaded.globals.failed.add(n)
        else:
            owner, _, short = n.rpartition(".")
            if owner:
                loaded.globals.data[owner].methods[short] = made
            else:
                loaded.named[n] = made
            loaded.definitions[made.name] = made

    first = _numbers(written, order)  # types may say their names
    for n in first:
        elaborate(n)
    for info in declare_all(structures, prefix, loaded.globals, lib, wrong):
        made_of = (*info.makers.values(), *info.methods.values())
        loaded.definitions |= {d.name: d for d in made_of}
    declared = Declared(loaded.globals, lib, prefix)
    wrong += declared.interfaces(interfaces, places)
    loaded.named |= declared.methods
    loaded.definitions |= {m.name: m for m in declared.methods.values()}
    wrong += declared.instances(instances)
    for cycle in cycles:
        d = written[cycle[0]]
        span = d.name_span if isinstance(d, s.Def) else d.pattern.span
        wrong.append(name_errors.recursion(cycle, span).diagnostic)
        loaded.globals.failed.update(cycle)
    for n in order:
        if n not in first:
            elaborate(n)
    for n, d in written.items():
        if isinstance(d, s.Def) and d.decorators and n in loaded.named:
            ruled, mistakes = with_rules(loaded.named[n], d, loaded.globals, lib)
            wrong.extend(mistakes)
            loaded.named[n] = loaded.definitions[ruled.name] = ruled
    there_are = {**library.used, **_demanded(known), **loaded.definitions}
    for n, d in written.items():
        if isinstance(d, s.Def) and n in loaded.named:
            for rule in loaded.named[n].rules:
                if differentiates_itself(n, rule, there_are):
                    wrong.append(derivative_errors.circular_rule(n, rule.origin).diagnostic)
    wrong += declared.bodies()
    loaded.definitions |= declared.definitions
    if not wrong and loaded.globals.indexed:
        wrong += _by_use(loaded)
    if not wrong:
        wrong += declared.endless({**library.used, **_demanded(known), **loaded.definitions})
    loaded.definitions = {**_demanded(known), **loaded.definitions}
    loaded.diagnostics = tuple(
        sorted(wrong, key=lambda d: d.labels[0].span.start if d.labels else 0)
    )
    return loaded


def _by_use(loaded: Loaded) -> list[Diagnostic]:
    """Order the definitions by what they use, since a table over numbered data uses `ordinal`
    without a word."""
    uses = {
        n: [
            e.name for e in everything(d.body)
            if isinstance(e, core.Use) and e.name in loaded.definitions
        ]
        for n, d in loaded.definitions.items()
    }
    order, cycles = _order(uses)
    if cycles:
        first = cycles[0][0]
        return [name_errors.recursion(cycles[0], loaded.definitions[first].origin).diagnostic]
    loaded.definitions = {n: loaded.definitions[n] for n in order}
    return []


def _new(places: dict[str, Span], name: str, span: Span) -> None:
    if name in places:
        raise name_errors.duplicate(name, span, places[name])
    places[name] = span


def _import(
    d: s.Import | s.FromImport, into: Loaded, read: Read, parse: Parse, library: Library,
    path: tuple[str, ...], wrong: list[Diagnostic], known: dict[str, Loaded],
) -> None:
    package = path[-1].rpartition(".")[0]  # the folder of the importing file
    dotted = ".".join([package, *d.path] if package else d.path)
    name = d.alias if isinstance(d, s.Import) else None
    given = {name or d.path[-1], *(a.alias or a.name for a in d.names)}
    into.globals.failed |= given  # until they are known to be there
    if dotted in path:
        raise name_errors.import_cycle([*path[path.index(dotted) :], dotted], d.span)
    there = known.get(dotted)
    if there is None:
        source = read(dotted)
        ours = source is not None and source.name == f"<{dotted}>"
        there = library.modules.get(dotted) if ours else None
        if source is None:
            raise limit_errors.python_module(d.path[0], d.span) or name_errors.module_not_found(
                dotted, d.span
            )
        if there is None:
            tree, mistakes = parse(source)
            if mistakes:
                wrong.extend(mistakes)
                return
            if ours and all(isinstance(x, s.Def | s.Bind) for x in tree.decls):
                there = _on_demand(dotted, tree, library)
            else:
                there = module(dotted, tree, read, parse, library, path, known)
            wrong.extend(there.diagnostics)
        if ours:
            library.modules[dotted] = there
        known[dotted] = there
    into.globals.failed -= given
    into.globals.known |= there.globals.known
    into.globals.known_data |= there.globals.known_data
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
        elif a.name in there.globals.data:
            into.globals.data[target] = there.globals.data[a.name]
        elif a.name in there.globals.enums:
            into.globals.enums[target] = there.globals.enums[a.name]
        else:
            into.globals.failed.add(target)
            if a.name not in there.globals.failed:
                names = there.globals.names()
                error = name_errors.unknown_member(dotted, a.name, a.span, names)
                wrong.append(error.diagnostic)


def _on_demand(name: str, tree: s.Module, library: Library) -> Loaded:
    """A module of functions and constants that comes with the language."""
    globals = Globals()
    globals.definitions = OnDemand(tree, f"{name}.", globals, library.globals)
    return Loaded(globals, {})


def _demanded(known: Mapping[str, Loaded]) -> dict[str, core.Definition]:
    """What was elaborated so far of those modules."""
    those = (m.globals.definitions for m in known.values())
    return {d.name: d for m in those if isinstance(m, OnDemand) for d in m.done.values()}


# ---------------------------------------------------------------- order


def _order(uses: Mapping[str, list[str]]) -> tuple[list[str], list[list[str]]]:
    """What is used before what uses it; and the groups that use each other."""
    order: list[str] = []
    cycles: list[list[str]] = []
    for group in components(uses, uses.__getitem__):
        if len(group) > 1 or group[0] in uses[group[0]]:
            cycles.append(group)
        else:
            order += group
    return order, cycles


def _named_function(b: s.Bind, name: str) -> s.Def | s.Bind:
    """`square = lambda x: x * x` is `def square(x) = x * x`, and a pattern among the parameters is
    taken apart in the first line. One with a type is a constant that is a function."""
    match b:
        case s.Bind(span, pattern, None, s.Lambda(_, params, body)) if params:
            inside = nodes(b.value)
            taken = {x.name for x in inside if isinstance(x, s.PName | s.Name)}
            free = (own for own in map("p{}".format, count()) if own not in taken)
            given: list[s.Param] = []
            apart: list[s.Stmt] = []
            for p in params:
                own = p.name if isinstance(p, s.PName) else next(free)
                given.append(s.Param(p.span, own, None, None))
                if not isinstance(p, s.PName):
                    apart.append(s.Bind(p.span, p, None, s.Name(p.span, own)))
            block = s.Block(body.span, (*apart, s.ExprStmt(body.span, body)))
            return s.Def(span, name, pattern.span, tuple(given), None, None, (), block, None)
        case _:
            return b


def _numbers(written: Mapping[str, s.Def | s.Bind], order: list[str]) -> list[str]:
    """The constants that are written with integers and with each other: `N = 3`, `M = 2 * N`."""
    found: list[str] = []
    for n in order:
        d = written[n]
        if isinstance(d, s.Bind) and all(
            isinstance(x, s.Unary | s.Binary)
            or (isinstance(x, s.Number) and isinstance(x.value, int))
            or (isinstance(x, s.Name) and x.name in found)
            for x in nodes(d.value)
        ):
            found.append(n)
    return found


_WORD = re.compile(r"\w+")
_BINDING = (s.PName, s.Param, s.Handler)


def _uses(written: Mapping[str, s.Def | s.Bind]) -> dict[str, list[str]]:
    """The definitions each one names. `x.norm` may be any method of that name, and `x.norm(y)` the
    function, where no type has such a method."""
    methods: dict[str, list[str]] = {}
    for n in written:
        owner, _, short = n.rpartition(".")
        if owner:
            methods.setdefault(short, []).append(n)
    uses: dict[str, list[str]] = {}
    for n, d in written.items():
        words = _WORD.findall(d.span.text)
        if not methods and words.count(n) == 1 and not written.keys() & {*words} - {n}:
            uses[n] = []
            continue
        found: dict[str, None] = {}
        # a rule may use what it is for
        inside = nodes(replace(d, decorators=()) if isinstance(d, s.Def) else (d.type, d.value))
        hidden = {x.name for x in inside if isinstance(x, _BINDING)}
        if isinstance(d, s.Def):
            hidden |= _signature_names(d)
        for x in inside:
            if isinstance(x, s.Name):
                if x.name in written and x.name not in hidden:
                    found[x.name] = None
            elif isinstance(x, s.Field):
                found |= dict.fromkeys(m for m in methods.get(x.name, ()) if m != n)
            elif isinstance(x, s.Call) and isinstance(f := x.function, s.Field):
                known = not isinstance(f.base, s.Name) or f.base.name in {*hidden, *written}
                if known and f.name in written and f.name not in (n, *methods):
                    found[f.name] = None
        uses[n] = [*found]
    return uses


def _signature_names(d: s.Def) -> set[str]:
    """The names its own types bring in: `n` in `x: n=>Float` is not the module's `n`."""
    types = [p.type for p in d.params if p.type is not None]
    types += [d.result] if d.result is not None else []
    inside = nodes(tuple(types))
    called = {id(x.function) for x in inside if isinstance(x, s.Call)}
    return {
        x.name
        for x in inside
        if isinstance(x, s.Name) and x.name[0].islower() and id(x) not in called
    }


def declare_all(
    structures: Mapping[str, s.Struct | s.Enum], prefix: str, globals: Globals, library: Globals,
    wrong: list[Diagnostic],
) -> Iterator[DataInfo]:
    """The structs and enums with fields, those first that others are made of."""
    uses = {
        n: [
            x.name
            for x in nodes(d.fields if isinstance(d, s.Struct) else d.variants)
            if isinstance(x, s.Name) and x.name in structures
        ]
        for n, d in structures.items()
    }
    order, cycles = _order(uses)
    for cycle in cycles:
        wrong.append(data_errors.recursive(cycle, structures[cycle[0]].name_span).diagnostic)
        globals.failed.update(cycle)
    for n in order:
        try:
            info = declare(structures[n], prefix, globals, library)
        except errors.Reported as r:
            wrong.append(r.diagnostic)
            globals.failed.add(n)
        except errors.Silent:
            globals.failed.add(n)
        else:
            globals.data[n] = globals.known_data[info.pattern.layout.var] = info
            if info.coded is not None:
                globals.known_data[info.coded.place.layout.var] = replace(
                    info, pattern=info.coded.place, makers={}, methods={}
                )
            yield info
