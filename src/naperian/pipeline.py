"""The compiler, read top to bottom.

    text -> surface -> core -> (one definition at one instance) -> ainf -> loops -> machine code

`front` makes core of text, `lower` makes loops of one definition at one instance. After the last
pass of a language, in tests after every one, the language's own check runs; a failure there is
ours, never the user's.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from functools import cache, partial
from importlib.resources import files
from itertools import zip_longest
from typing import Any, TypeVar

from naperian.ainf import check as ainf_check
from naperian.ainf import show as ainf_show
from naperian.ainf import syntax as ainf
from naperian.ainf import written as ainf_written
from naperian.ainf.words import NotWrittenError
from naperian.backends.emit import emit
from naperian.core import check as core_check
from naperian.core import show as core_show
from naperian.core import syntax as core
from naperian.frontend.explain import explain as write_lifts
from naperian.frontend.general import general_type
from naperian.frontend.listed import PUBLIC, Listed, built_in, listed
from naperian.frontend.resolve import Library, Read, module
from naperian.garbage import uncollected
from naperian.loops import check as loops_check
from naperian.loops import show as loops_show
from naperian.loops import syntax as loops
from naperian.node import mutable, node, replace
from naperian.passes.algebra.along_rounds import along_rounds
from naperian.passes.algebra.alongside import alongside
from naperian.passes.algebra.begins import begins
from naperian.passes.algebra.cse import cse
from naperian.passes.algebra.cut_out import cut_out
from naperian.passes.algebra.distribute import distribute
from naperian.passes.algebra.forwards import forwards
from naperian.passes.algebra.in_step import in_step
from naperian.passes.algebra.kept_rows import kept_rows
from naperian.passes.algebra.margins import margins
from naperian.passes.algebra.neighbours import neighbours
from naperian.passes.algebra.one_sum import one_sum
from naperian.passes.algebra.part_read import part_read
from naperian.passes.algebra.powers import powers
from naperian.passes.algebra.prune import prune
from naperian.passes.algebra.row_by_row import row_by_row
from naperian.passes.algebra.scatter import scatter
from naperian.passes.algebra.simplify import simplify
from naperian.passes.algebra.whole_rows import whole_rows
from naperian.passes.algebra.windows import windows
from naperian.passes.derivatives.answered import answered
from naperian.passes.derivatives.at_last import at_last
from naperian.passes.derivatives.carried import carried
from naperian.passes.derivatives.held import held
from naperian.passes.derivatives.noted import noted
from naperian.passes.derivatives.remade import remade
from naperian.passes.derivatives.sliced import elements, sliced
from naperian.passes.derivatives.turned import turned
from naperian.passes.derivatives.undo import undo
from naperian.passes.flat.flatten import flatten
from naperian.passes.fusion.schedule import schedule
from naperian.passes.nests.allocate import allocate
from naperian.passes.normal.normalize import normalize
from naperian.passes.normal.streamed import streamed
from naperian.sizes import size
from naperian.source import Diagnostic, Source
from naperian.substitution import Substitution
from naperian.surface.parse import parse
from naperian.types import Fin

T = TypeVar("T")

_DEPTH = 20_000  # Python frames: a few per level of nesting, which the parser bounds


@contextmanager
def deep() -> Iterator[None]:
    """Room for the recursion of the walks over deeply nested expressions, and no garbage collection
    meanwhile."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEPTH))
    try:
        with uncollected():
            yield
    finally:
        sys.setrecursionlimit(before)


@cache
def library() -> Library:
    """The standard library, parsed once."""
    text = files("naperian").joinpath("library/std.nap").read_text()
    tree, wrong = parse(Source("<builtin>", text))
    assert not wrong, wrong
    return Library(tree)


def known_type(name: str) -> str | None:
    """The general type of a function that comes with the language."""
    with deep():
        return general_type(name, library().globals)


def library_definition(name: str) -> core.Definition | None:
    """`linalg.solve`, once that module, which comes with the language, is imported."""
    module, _, own = name.rpartition(".")
    there = library().modules.get(module)
    with deep():
        return there.globals.definitions.get(own) if there is not None else None


def listing() -> dict[str, list[Listed]]:
    """What the modules of the library have for everybody; that of `std` needs no import."""
    known = library().globals
    with deep():
        always = [*built_in(known), *(listed(n, known.definitions[n]) for n in PUBLIC["std"])]
    out = {"std": sorted(always, key=lambda x: x.name)}
    text = "".join(f"import {m}\n" for m in PUBLIC if m not in out)
    program, wrong = front(Source("<doc>", text))
    assert program is not None, wrong
    for m in PUBLIC:
        if m not in out:
            names = ((f"{m}.{n}", library_definition(f"{m}.{n}")) for n in PUBLIC[m])
            out[m] = [listed(name, d) for name, d in names if d is not None]
    return out


def _beside_or_ours(read: Read) -> Read:
    """Modules as `read` finds them, else those that come with Naperian (`random`)."""

    def find(dotted: str) -> Source | None:
        found = read(dotted)
        ours = files("naperian").joinpath("library", *dotted.split(".")[:-1],
                                          dotted.split(".")[-1] + ".nap")  # fmt: skip
        if found is None and ours.is_file():
            return Source(f"<{dotted}>", ours.read_text())
        return found

    return find


def front(
    source: Source, read: Read = lambda _: None, name: str = "main"
) -> tuple[core.Module | None, tuple[Diagnostic, ...]]:
    """The core of a module, or what is wrong with it. Never raises for a user's mistake."""
    with deep():
        tree, wrong = parse(source)
        if wrong:
            return None, wrong
        std = library()
        made = module(name, tree, _beside_or_ours(read), parse, std)
        if made.diagnostics:
            return None, made.diagnostics
        definitions = {**std.used, **made.definitions}
        own = tuple(n for n in made.definitions if "." not in n and n not in made.globals.data)
        enums = {n: info.set.members for n, info in made.globals.enums.items()}
        instances = (*std.instances, *made.globals.instances)
        data = {n: info.pattern.layout for n, info in made.globals.data.items()}
        program = core.Module(name, definitions, own, enums, instances, data)
        if every_step:
            _check_elaborated(program)
        return program, ()


_sound: dict[int, core.Definition] = {}
"""What comes with the language and was checked: it is the same in all programs, and uses nothing of
theirs."""


def _check_elaborated(program: core.Module) -> None:
    core_check.check(program, known=lambda d: id(d) in _sound)
    checked = {id(d) for d in program.definitions.values()}
    _sound.update((id(d), d) for d in library().known if id(d) in checked)


# ---------------------------------------------------------------- one definition, lowered


every_step = False
"""Whether the results of all passes are checked, as in the tests, or the last of every language: of
core the normal form of what is compiled, not also the text as it was elaborated."""


@node
class Step:
    """A pass with the language of its result."""

    name: str
    function: Callable[[Any], Any]
    check: Callable[[Any], object]
    show: Callable[[Any], str]


PASSES: tuple[Step, ...] = (
    Step("ainf", flatten, ainf_check.check, ainf_show.show),
    Step("simplify", lambda p: powers(simplify(p)), ainf_check.check, ainf_show.show),
    Step("scatter", scatter, ainf_check.check, ainf_show.show),
    Step("cse", cse, ainf_check.check, ainf_show.show),
    Step("prune", lambda p: part_read(prune(p)), ainf_check.check, ainf_show.show),
    Step("distribute", distribute, ainf_check.check, ainf_show.show),
    Step("rows", lambda p: kept_rows(row_by_row(p)), ainf_check.check, ainf_show.show),
    Step("forwards",
         lambda p: cut_out(neighbours(windows(along_rounds(forwards(alongside(margins(p))))))),
         ainf_check.check, ainf_show.show),
    Step("undo", lambda p: undo(elements(at_last(in_step(p)))), ainf_check.check, ainf_show.show),
    Step("noted", lambda p: turned(held(sliced(remade(carried(answered(noted(p))))))),
         ainf_check.check, ainf_show.show),
    Step("added", lambda p: one_sum(begins(whole_rows(p))), ainf_check.check, ainf_show.show),
    Step("schedule", schedule, loops_check.check, loops_show.show),
    Step("allocate", allocate, loops_check.check, loops_show.show),
)


def instance(definition: core.Definition, at: Substitution) -> Substitution:
    """The substitution with what it leaves open: a set `n` becomes `Fin(n)`, a size itself, both
    bound at the call."""
    sets = {v: at.sets.get(v, Fin(size(v))) for v in definition.sets}
    sizes = {v: at.sizes.get(v, size(v)) for v in definition.sizes}
    return Substitution(at.types, sets, sizes)


@mutable
class Checks:
    """What is still to be checked of a program on its way. What comes out of a language's passes is
    checked beside LLVM, which leaves Python's processor free, and before anybody can call it."""

    waiting: list[Callable[[], object]] = field(default_factory=list)

    def make(self) -> None:
        """The checks, in the order of the stages: the first thing that is broken is told."""
        while self.waiting:
            self.waiting.pop(0)()


_Asked = tuple[str, core.Module, str, Substitution]
_answers: ContextVar[deque[tuple[_Asked, Any]] | None] = ContextVar("answers", default=None)


@contextmanager
def keeping() -> Iterator[None]:
    """What the last instances became is kept in here, for who asks again or for several stages."""
    token = _answers.set(deque(maxlen=16))
    try:
        yield
    finally:
        _answers.reset(token)


def _kept(asked: _Asked, make: Callable[[], T]) -> T:
    """What an instance became at a stage, from before if it is kept."""
    answers = _answers.get()
    if answers is None:
        return make()
    for known, answer in answers:
        if known[1] is asked[1] and known == asked:
            return answer  # type: ignore[no-any-return]
    made = make()
    answers.append((asked, made))
    return made


def specialise(
    program: core.Module, name: str, at: Substitution, later: Checks | None = None
) -> core.Definition:
    """One definition at one instance, in normal form; checked now, or later."""
    return _kept(("core", program, name, at), lambda: _specialised(program, name, at, later))


def _specialised(
    program: core.Module, name: str, at: Substitution, later: Checks | None
) -> core.Definition:
    at = instance(program.definitions[name], at)
    with deep():
        own = program.definitions[name].checkpoints
        made = replace(normalize(program, name, at), checkpoints=own)
        if own:
            made = replace(made, body=streamed(made.body, {span for span, _ in own})[0])
        alone = core.Module(program.name, {made.name: made}, (made.name,), {})
        _check(lambda: core_check.check(alone, normal=True), later)
        return made


def flat(definition: core.Definition) -> ainf.Program:
    """AiNF after all its passes."""
    with deep():
        return _through(flatten(definition, again=False), PASSES[1:6])  # type: ignore[no-any-return]


def lower(
    program: core.Module, name: str, at: Substitution, later: Checks | None = None
) -> loops.Program:
    """Loop nests for one definition at one instance; checked now, or later."""

    def make() -> loops.Program:
        definition = specialise(program, name, at, later)
        with deep():
            return _through(definition, PASSES, later)  # type: ignore[no-any-return]

    return _kept(("loops", program, name, at), make)


def _through(value: Any, steps: tuple[Step, ...], later: Checks | None = None) -> Any:
    for step, after in zip_longest(steps, steps[1:]):
        value = step.function(value)
        if every_step or after is None or after.check != step.check:
            _check(partial(step.check, value), later)
    return value


def _check(check: Callable[[], object], later: Checks | None) -> None:
    if every_step or later is None:
        check()
    else:
        later.waiting.append(check)


STAGES = ("surface", "elaborated", "core", *(p.name for p in PASSES), "loops", "llvm")
"""What `show` can show: the text, the elaborated definition, its normal form, the result of every
pass, the final loops and the LLVM text."""


def explain(source: Source, program: core.Module, name: str) -> str:
    """A definition as text that compiles to the same program, with every lift written out."""
    with deep():
        tree, _ = parse(source)
        d = program.definitions[name]
        return write_lifts(tree, d, name) or core_show.show(d)


def written(program: core.Module, name: str, at: Substitution, own: str) -> str:
    """One definition at one instance as a text in the language, called `own`: after all passes on
    AiNF, one binding a line. Indices are checked at run time only if not all can be proved."""
    made = flat(specialise(program, name, at))
    wrong: tuple[Diagnostic, ...] = ()
    for checked in (False, True):
        text = ainf_written.write(made, own, checked)
        module, wrong = front(Source("<written>", text))
        if module is not None:
            return text
    why = "the tables that its loops keep are as long as these find"
    raise NotWrittenError(f"{why} ({wrong[0].message})")


def show(
    source: Source, program: core.Module, name: str, at: Substitution, stage: str
) -> str:
    """One stage of one definition as text."""
    if stage == "surface":
        return source.text
    if stage == "elaborated":
        return core_show.show(program.definitions[name])
    if stage == "loops":
        return loops_show.show(lower(program, name, at))
    if stage == "llvm":
        return emit(lower(program, name, at))
    definition = specialise(program, name, at)
    if stage == "core":
        return core_show.show(definition)
    value: Any = definition
    with deep():
        for step in PASSES:
            value = step.function(value)
            step.check(value)
            if step.name == stage:
                return step.show(value)
    raise ValueError(f"no stage {stage!r}; the stages are {', '.join(STAGES)}")
