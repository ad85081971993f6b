"""`nap.check(f)`: a function, and its derivatives, tried on arguments drawn from its type.

    values       compiled code against the interpreter of core, of f and of its pullback
    duality      <jvp(x; dx), y> = <dx, vjp(x; y)>
    differences  jvp(x; dx) against (f(x + h dx) - f(x - h dx)) / 2h, where two h agree and f has
                 the same slope on both sides: not where two values of a `max` are equal

Where a rule of the program is for one mode only, differences are compared with that one, in reverse
with <dx, vjp(x; y)>.

One case has a long axis, for vectors and what is left of them begin at 8 elements and more: as
long as the interpreter can go through soon. What fails is made small: first the sizes, then the
numbers. A loop that a condition ends may not end for what was drawn: the interpreter, which counts
rounds, runs before compiled code does.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import numpy as np

from naperian import draws, pipeline
from naperian.api import Function, RunError, jvp, told, vjp
from naperian.border import ShapeError, gather, unsaid, usual
from naperian.core import places as core_places
from naperian.core import run as core_run
from naperian.core import syntax as core
from naperian.core.bounds import Dear, Unended, bounded
from naperian.core.values import from_numpy, to_numpy
from naperian.core.varying import has_floats
from naperian.core.walk import everything
from naperian.draws import Draw
from naperian.dtypes import DType
from naperian.forms import Blank, dressed, parted
from naperian.node import node, replace
from naperian.passes.derivatives.linearity import NOT_LINEAR
from naperian.ragged import Ragged
from naperian.signature import Form
from naperian.signed import at, size_variables
from naperian.sizes import size
from naperian.source import CompileError
from naperian.substitution import Substitution, boxed
from naperian.types import F32, Fin, Index, Scalar
from naperian.values import as_data, finite, same, show

Array = np.ndarray[Any, Any]
Progress = Callable[[str, int, int], None]
"""Told what is tried, how many cases are done, and how many there will be."""


@node
class Finding:
    """Something that should be equal and is not, at these arguments; or, without any, what is said
    instead of a derivative."""

    what: str
    arguments: tuple[Any, ...]
    sizes: dict[str, int]
    found: Any
    expected: Any

    def __repr__(self) -> str:
        if not self.arguments and self.found is None:
            return f"  {_indented(self.what, 2)}"
        given = [show(x) for x in self.arguments] + [f"{n}={k}" for n, k in self.sizes.items()]
        return "\n".join(
            [f"{self.what}, at", *(f"    {_indented(x)}" for x in given),
             f"  is        {_indented(show(self.found), 12)}",
             f"  should be {_indented(show(self.expected), 12)}"]
        )  # fmt: skip


@node
class Checked:
    """What `nap.check` found. True if something was compared and nothing is wrong."""

    name: str
    type: str
    cases: int
    derivatives: int
    differences: int
    why: str  # there are none
    lacks: str  # the mode that there is not, and why
    stops: bool  # at a `stop_gradient`: finite differences do not know of it
    findings: tuple[Finding, ...]
    unended: int  # cases that were not compared, for their loops made too many rounds
    left: int  # cases that were not tried, for the time was over

    def __bool__(self) -> bool:
        return self.cases > 0 and not self.findings

    def __repr__(self) -> str:
        head = f"{self.name} : {self.type}"
        if self.findings:
            lacks = [f"  there is no {self.lacks}"] if self.lacks else []
            return "\n".join([f"{head}\n  WRONG", *map(repr, self.findings), *lacks])
        said = f"{self.cases} cases: compiled as interpreted; {self.agreed()}"
        if not self.cases:
            said = "NOTHING was compared"
        if self.unended:
            said += f"\n  {self.unended} not compared: `while` loops of more than {ROUNDS} rounds"
        if self.left:
            said += f"\n  {self.left} not tried: the time was over"
        return f"{head}\n  {said}"

    def agreed(self) -> str:
        """What derivatives were compared with."""
        if self.why:
            return f"no derivatives ({self.why})"
        differences = f"{self.differences} with finite differences"
        if self.stops:
            differences = "and no finite differences, which do not know of `stop_gradient`"
        if self.lacks:
            return f"no {self.lacks}; {self.derivatives} derivatives, {differences}"
        return f"{self.derivatives} derivatives agree forward and in reverse, {differences}"

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name, "type": self.type, "ok": bool(self), "cases": self.cases,
            "derivatives": self.derivatives, "differences": self.differences, "why": self.why,
            "lacks": self.lacks, "unended": self.unended, "left": self.left,
            "findings": [
                {
                    "what": f.what, "arguments": [as_data(x) for x in f.arguments],
                    "sizes": f.sizes, "found": as_data(f.found),
                    "expected": as_data(f.expected),
                }
                for f in self.findings
            ],
        }  # fmt: skip


ROUNDS = 5_000
"""How many rounds of `while` loops the interpreter makes in one run."""

ELEMENTS = 3_000
"""How many elements it goes through in one run of the case with a long axis."""

FEW = 5
"""So many cases have no long axis among them."""

_LARGE = 1e5
"""From here on, what is small beside the largest number of a derivative is compared by that."""

T = TypeVar("T")
_Slope = tuple[Array, Array, Array]
Case = tuple[tuple[int, ...], int, str]
"""Numbers for the slots, a seed, and which floats."""


def check(
    f: Function, cases: int = 12, seed: int = 0, progress: Progress | None = None,
    seconds: float = 60.0,
) -> Checked:
    """Try a function and its derivatives on arguments drawn from its type.

    The sizes are equal, different, 0 and 1, then anything small, and in the last of more than five
    cases one is up to 67, which is vectors and some more; floats of both signs, positive, and with
    ties and zeros. Compared are compiled code and the interpreter, forward and reverse
    mode, and derivatives and finite differences where these say anything. The result is true if
    something was compared and nothing is wrong, and prints what was done, or a smallest case that
    fails.

    A case whose `while` loops make more than 5 000 rounds, as one that never ends, is not
    compared, and after so many `seconds` no other is tried; the result says how many these were.

    Raises TypeError if `f` takes what cannot be drawn: a function."""
    if not isinstance(f, Function):
        raise TypeError(f"check() takes a Naperian function, not {told(f)}")
    if f._text.refusal:
        raise TypeError(f"{f.__name__} cannot be called from Python: {f._text.refusal}")
    try:
        return _Trial(f, time.monotonic() + seconds).run(cases, seed, progress)
    except CompileError as e:  # of a derivative
        wrong = Finding(str(e), (), {}, None, None)
        return Checked(f.__name__, f.type, 0, 0, 0, "", "", False, (wrong,), 0, 0)


def can_be_tried(f: Function) -> bool:
    """Whether there is anything to draw for a function, and it can be called with it."""
    return not f._text.refusal and not f._text.constant


@node
class _Exactness:
    """How well derivatives are known: forward and in reverse (`alike`), and by differences over
    two `steps`: which say something where they agree (`sure`), hardly bend, and are more than what
    rounding by a unit (`last`) makes of the values, and then are as the tangent is (`close`)."""

    alike: float
    steps: tuple[float, float]
    sure: tuple[float, float]
    bend: float
    close: float
    last: float


_DOUBLE = _Exactness(1e-7, (1e-4, 1e-5), (1e-5, 1e-6), 2e-5, 1e-4, 2.2e-16)
_SINGLE = _Exactness(1e-4, (3e-2, 3e-3), (2e-3, 1e-3), 2e-3, 1e-2, 1.2e-7)


class _Failed(Exception):
    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.what)
        self.finding = finding


class _Trial:
    def __init__(self, f: Function, until: float) -> None:
        self.f = f
        self.until = until
        self.elements: int | None = None  # that a run may go through
        self.overflowed = False  # a number of the interpreter's last run
        self.derivatives = self.differences = 0
        self.lacks: dict[str, str] = {}  # the mode that there is not, and why
        definition = f._program.core().definitions[f.__name__]
        self.wrt = [k for k, p in enumerate(definition.params) if has_floats(p.type)]
        if not self.wrt:
            self.why = "no parameter has tangents"
        elif not has_floats(definition.result):
            self.why = "the result has no tangents"
        else:
            self.why = ""
        self.pair = None
        if not self.why:
            try:
                pair = jvp(f, self.wrt), vjp(f, self.wrt)
                self.why = pair[0]._text.refusal  # it is for types that no float is of
                self.pair = None if self.why else pair
            except TypeError as e:  # it has none, although it has floats
                self.why = str(e).partition(": ")[2]
        # what is any number is one that derivatives are of
        self.types = usual((self.pair[0] if self.pair else f)._text)
        parts = list(_parts(f))
        self.derives = any(isinstance(e, core.Derivative) for e in parts)
        self.rounds = any(isinstance(e, core.Op) and e.type == F32 for e in parts)
        self.stops = any(
            isinstance(e, core.Op) and e.name == "stop_gradient" for e in _parts(f, own=True)
        )
        self.may_go_on = any(isinstance(e, core.Loop) and e.condition is not None for e in parts)

    def run(self, cases: int, seed: int, progress: Progress | None) -> Checked:
        rng = np.random.default_rng(seed)
        done = unended = 0
        findings: tuple[Finding, ...] = ()
        for k, slots in enumerate(draws.sizes(self.f._text, rng, cases)):
            if self.is_late():
                break
            if progress is not None:
                progress(self.f.__name__, k, cases)
            kind = draws.KINDS[k % len(draws.KINDS)]
            case = (slots, int(rng.integers(1 << 30)), kind)
            try:
                if k == cases - 1 and cases > FEW:
                    case, failed = self.long(case, rng)
                else:
                    failed = self.failure(*case)
            except Unended:
                unended += not self.is_late()
                continue
            done += 1
            if failed is not None:
                findings = (self.smallest(case, failed),)
                break
        if progress is not None:
            progress(self.f.__name__, cases, cases)
        return Checked(
            self.f.__name__, self.f.type, done, self.derivatives, self.differences, self.why,
            "".join(f"{mode} ({why})" for mode, why in self.lacks.items()), self.stops, findings,
            unended, 0 if findings else cases - done - unended,
        )

    def is_late(self) -> bool:
        return time.monotonic() > self.until

    # one case

    def long(self, case: Case, rng: np.random.Generator) -> tuple[Case, Finding | None]:
        """The case with a long axis instead, as long as the interpreter can go through; as it is
        where there is none."""
        self.elements = ELEMENTS
        try:
            for slots in draws.long(self.f._text, rng):
                made = (slots, case[1], draws.KINDS[0])
                with suppress(Dear):
                    return made, self.failure(*made)
        finally:
            self.elements = None
        return case, self.failure(*case)

    def failure(self, slots: tuple[int, ...], seed: int, kind: str) -> Finding | None:
        rng = np.random.default_rng(seed)
        given = draws.draw(self.f._text, self.types, slots, rng, kind)
        return None if given is None else self.wrong(given, rng)

    def wrong(self, given: Draw, rng: np.random.Generator) -> Finding | None:
        """What is wrong at these arguments."""
        try:
            value = self.values(self.f, given)
            if value is not None and self.pair is not None:
                self.slopes(given, value, rng)
        except _Failed as failed:
            return failed.finding
        return None

    def values(self, f: Function, given: Draw) -> Any:
        """The value, compiled as interpreted; None if the run stops itself."""
        what = "the value" if f is self.f else "the derivative"
        meant = _outcome(lambda: self.interpreted(f, given))  # before compiled code: it may not end
        value = _outcome(lambda: _called(f, given))
        if (value is None) != (meant is None):
            stops = "stops"
            pair = (stops if value is None else value, stops if meant is None else meant)
            raise self.failed(f"{what} in compiled code, beside the interpreter's", given, *pair)
        if value is not None and not self.alike(f, value, meant):
            if self.says_nothing(f, given, value, meant):
                return None
            raise self.failed(
                f"{what} in compiled code, beside the interpreter's", given, value, meant
            )
        return value

    def interpreted(self, f: Function, given: Draw) -> Any:
        with bounded(ROUNDS, self.until, self.elements) as run:
            try:
                return _interpreted(f, self.types, given)
            finally:
                self.overflowed = run.overflowed

    def near(self, f: Function, given: Draw) -> Any:
        """The value of compiled code at other arguments; None if the run stops, or does not end."""
        try:
            if self.may_go_on:
                _outcome(lambda: self.interpreted(f, given))
            return _outcome(lambda: _called(f, given))
        except Unended:
            return None

    def alike(self, f: Function, value: Any, meant: Any) -> bool:
        """Whether two values, or pullbacks, are equal. A part of a derivative that is small, or 0,
        may be what cancels of others, which is rounded as these are."""
        slack = self.slack(f, value)
        if f is self.f:
            return same(value, meant, slack)
        scale = _largest(self.cotangents(value)) / _LARGE
        return same(value[0], meant[0], slack) and same(value[1], meant[1], slack, scale)

    def slack(self, f: Function, value: Any) -> float:
        """A slope in which large ones cancel may differ by what rounding does to the large ones."""
        if f is self.f:
            return 1e4 if self.rounds and not _single(_leaves(f._text.result, value)) else 1.0
        found = self.cotangents(value)
        digits = 1e4 if self.rounds and not _single(found) else 1.0
        return digits * min(max(1.0, 1e3 * _largest(found) / _LARGE), 1e3)

    def says_nothing(self, f: Function, given: Draw, value: Any, meant: Any) -> bool:
        """Whether two values may differ by what rounding does: where rounded arguments give
        another one, as a loop's that does not converge; and derivatives where some are not
        finite, or a number on the way to them is not, though nothing asks for it in the end: what
        is 0 and what is not a number there is a matter of order."""
        if f is not self.f and not finite(meant[1]):
            return True
        if f is not self.f and self.overflowed and not finite(value[1]):
            return True
        if f is self.f and self.derives and not (finite(value) and finite(meant)):
            return True
        for way in (1e-15, -1e-15):  # of an array all alike: what is equal in it stays so
            floats = {k: (1 + k) * x for k, x in enumerate(given.leaves) if x.dtype.kind == "f"}
            near = self.near(f, given.moved(floats, way))
            if near is None or not same(value, near):
                return True
        if same(value, meant, 1e5):  # nearly: no tie broken, perhaps the root of what should be 0
            rng = np.random.default_rng(0)
            for _ in range(8):
                floats = {
                    k: x * rng.uniform(-1.0, 1.0, x.shape)
                    for k, x in enumerate(given.leaves) if x.dtype.kind == "f"
                }  # fmt: skip
                near = self.near(f, given.moved(floats, 1e-15))
                if near is None or not same(value, near, 0.1):
                    return True
        return False

    def slopes(self, given: Draw, value: Any, rng: np.random.Generator) -> None:
        assert self.pair is not None
        forward, back = self.pair
        point = [k for n in self.wrt for k in draws.numbers(self.f._text.params[n].form)]
        step = {k: draws.moving(given.leaves[k], rng) for k in point}
        seed = [draws.moving(x, rng) for x in self.parts(value)]
        along = _more(forward, given, step.values())
        tangents = self.there("forward mode", lambda: self.parts(_called(forward, along)[1]))
        try:
            against = _more(back, given, seed)
            pulled = self.there("reverse mode", lambda: self.values(back, against))
        except ShapeError:
            if 0 in given.slots:  # times which another size is cannot be told from a length
                return
            raise
        if pulled is None and "reverse mode" not in self.lacks:
            return
        ways = [] if tangents is None else [_dot(tangents, seed)]
        ways += [] if pulled is None else [_dot(self.cotangents(pulled), step.values())]
        if not all(math.isfinite(x) for way in ways for x in way):
            return
        self.derivatives += 1
        exact = self.exactness(given, value)
        one, two = ways[0], ways[-1]
        if abs(one[0] - two[0]) > exact.alike * (1.0 + one[1] + two[1]):
            raise self.failed(
                "the derivative in reverse mode, beside that in forward mode", given, two[0], one[0]
            )
        if self.stops:
            return
        if tangents is None:  # all that is seen of them, by the seed
            self.compare(given, step, [np.asarray(two[0])], exact, seed)
        else:
            self.compare(given, step, tangents, exact)

    def there(self, mode: str, made: Callable[[], T]) -> T | None:
        """What a mode gives; None if a rule of the program is for the other one only."""
        if mode in self.lacks:
            return None
        try:
            return made()
        except CompileError as e:
            if self.lacks or e.diagnostics[0].code != NOT_LINEAR:
                raise
            self.lacks[mode] = e.diagnostics[0].message
            return None

    def exactness(self, given: Draw, value: Any) -> _Exactness:
        leaves = (*given.leaves, *self.parts(value))
        return _SINGLE if self.rounds or _single(leaves) else _DOUBLE

    def parts(self, value: Any) -> list[Array]:
        """The leaves of what is as the function's value."""
        assert self.pair is not None
        return _leaves(self.pair[1]._text.params[-1].form, value)

    def cotangents(self, pulled: Any) -> list[Array]:
        """The leaves of what is as the parameters that vary."""
        found = pulled[1] if len(self.wrt) > 1 else (pulled[1],)
        forms = (self.f._text.params[n].form for n in self.wrt)
        return [x for form, v in zip(forms, found, strict=True) for x in _leaves(form, v)]

    def compare(
        self, given: Draw, step: dict[int, Array], tangents: list[Array], exact: _Exactness,
        seed: list[Array] | None = None,
    ) -> None:
        """The tangents and finite differences, where those agree with each other; weighed by a
        seed, if that is given."""
        moving = {k: x for k, x in step.items() if x.dtype.kind == "f"}
        near = [n for h in exact.steps if (n := self.difference(given, moving, h)) is not None]
        if len(near) < len(exact.steps):
            return
        if seed is not None:
            near = [[_weighed(n, _floats(seed))] for n in near]
        for one, two, tangent in zip(*near, _floats(tangents), strict=True):
            (rough, wide, _), (fine, bend, largest) = one, two
            sure = np.isfinite(rough) & np.isfinite(fine) & np.isclose(rough, fine, *exact.sure)
            # the next number after a value of 1e30 is 1e14 away: no small step leads there
            sure &= exact.last * largest / exact.steps[1] <= exact.close * (1.0 + np.abs(fine))
            # the slopes of both sides come together with the step, but at a kink, however slight
            smooth = (bend <= exact.bend * (1.0 + np.abs(fine))) | (bend <= 0.3 * wide)
            if np.any(~smooth & (bend <= 2.0 * wide)):
                return  # rounding would grow as the step shrinks; the derivative takes one side,
            sure &= smooth  # also of elements that have the same slope on both: a median of equals
            scale = 1.0 + np.abs(fine).max(initial=0.0, where=sure)
            close = np.isclose(tangent, fine, exact.close, exact.close * scale)
            if not np.all(close | ~sure):
                what = "the derivative along a direction, beside finite differences"
                raise self.failed(what, given, tangent, fine)
            self.differences += int(np.all(sure))

    def difference(
        self, given: Draw, along: dict[int, Array], h: float
    ) -> list[_Slope] | None:
        """The slope of each float along a direction, how much it changes where they are, and how
        large the values are; None where the run stops, or what does not vary is another."""
        ends = [self.near(self.f, given.moved(along, s)) for s in (h, 0.0, -h)]
        if any(e is None for e in ends):
            return None
        found = []
        with np.errstate(all="ignore"):
            for a, b, c in zip(*map(self.parts, ends), strict=True):
                if not a.shape == b.shape == c.shape:
                    return None
                if b.dtype.kind != "f":
                    if not np.array_equal(a, b) or not np.array_equal(b, c):
                        return None
                    continue
                ahead, back = np.subtract(a, b) / h, np.subtract(b, c) / h
                largest = np.maximum(np.abs(a), np.abs(c))
                found.append((np.asarray((ahead + back) / 2), np.abs(ahead - back), largest))
        return found

    def failed(self, what: str, given: Draw, found: Any, expected: Any) -> _Failed:
        arguments, sizes = given.arguments(self.f._text)
        return _Failed(Finding(what, tuple(arguments), sizes, found, expected))

    # what fails, made small

    def smallest(self, case: Case, finding: Finding) -> Finding:
        slots, seed, kind = case
        smaller = True
        while smaller:
            smaller = False
            for k in range(len(slots)):
                for n in range(slots[k]):
                    less = (*slots[:k], n, *slots[k + 1 :])
                    if not draws.allowed(self.f._text, less):
                        continue
                    found = self.ended(partial(self.failure, less, seed, kind))
                    if found is not None and found.what == finding.what:
                        slots, finding, smaller = less, found, True
                        break
        rng = np.random.default_rng(seed)
        given = draws.draw(self.f._text, self.types, slots, rng, kind)
        assert given is not None
        for simple in _simpler(given):
            found = self.ended(partial(self.wrong, simple, np.random.default_rng(seed)))
            if found is not None and found.what == finding.what:
                return found
        return finding

    def ended(self, run: Callable[[], Finding | None]) -> Finding | None:
        try:
            return None if self.is_late() else run()
        except Unended:
            return None


def _simpler(given: Draw) -> Iterator[Draw]:
    """The same sizes, with numbers that are easier to read."""
    simple: tuple[Callable[[Array], Any], ...] = (np.ones_like, np.rint, lambda x: np.round(x, 1))
    for f in simple:
        made = tuple(np.asarray(f(x)) if x.dtype.kind == "f" else x for x in given.leaves)
        yield replace(given, leaves=made)


def _called(f: Function, given: Draw) -> Any:
    sig = f._text
    arguments, sizes = given.arguments(sig)
    values, _ = gather(sig, tuple(arguments), sizes, f._constant)
    sizes |= {name: given.slots[k] for name, k in unsaid(sig, values).items()}
    return f(*arguments, **sizes)


def _interpreted(f: Function, chosen: tuple[DType, ...], given: Draw) -> Any:
    """The value by the interpreter of core."""
    module, sig = f._program.core(), f._text
    definition = module.definitions[f.__name__]
    numbers = dict(zip(size_variables(definition), given.slots, strict=True))
    types = at(definition, chosen).types
    sets = {v: Fin(size(numbers[v])) for v in definition.sets}
    boxes = {v for p in definition.params for v in boxed(p.type)}  # each knows its own size
    sizes = {v: size(n) for v, n in numbers.items() if v not in sets and v not in boxes}
    here = Substitution(types, sets, sizes)
    plain = given.plain(sig)
    scalars = {
        p.var: size(int(v)) for p, v in zip(definition.params, plain, strict=True)
        if isinstance(p.type, Scalar | Index) and isinstance(v, int) and not isinstance(v, bool)
    }  # fmt: skip
    here = here.and_(Substitution({}, {}, scalars))
    values = [
        from_numpy(v, here.type(p.type)) for p, v in zip(definition.params, plain, strict=True)
    ]
    with pipeline.deep():
        value = core_run.run(module, f.__name__, values, here)
    return dressed(sig.result, to_numpy(value, here.type(definition.result)))


def _outcome(run: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return run()
        except (RunError, core_places.RunError):
            return None


def _parts(f: Function, own: bool = False) -> Iterator[core.Expr]:
    """All that a function is made of, and what it calls; `own`, but for what the library has."""
    module = f._program.core()
    seen, todo = {f.__name__}, [f.__name__]
    while todo:
        made = module.definitions[todo.pop()]
        if own and made.origin.source.name == "<builtin>":
            continue
        for e in everything(made.body):
            yield e
            if isinstance(e, core.Use) and e.name in module.definitions and e.name not in seen:
                seen.add(e.name)
                todo.append(e.name)


def _more(f: Function, given: Draw, leaves: Iterable[Array]) -> Draw:
    """Arguments with some more, whose sizes are known from them."""
    unknown = (0,) * (len(f._text.slots) - len(given.slots))
    return Draw(given.slots + unknown, (*given.leaves, *leaves))


def _leaves(form: Form, value: Any) -> list[Array]:
    """The leaves of a value; of a field that its variant has not, zero."""
    found = (x for _, _, x in parted(form, value, "", _rows))
    return [np.zeros(()) if isinstance(x, Blank) else np.asarray(x) for x in found]


def _rows(given: Any, where: str, plain: bool) -> tuple[Any, Any]:
    assert isinstance(given, Ragged)
    return given.values, given.offsets


def _floats(leaves: Iterable[Array]) -> list[Array]:
    return [x for x in leaves if x.dtype.kind == "f"]


def _weighed(slopes: list[_Slope], seed: list[Array]) -> _Slope:
    """The slope of all floats together, each by its weight."""
    sums = np.zeros(3)
    for (slope, change, largest), weight in zip(slopes, seed, strict=True):
        much = np.abs(weight)
        sums += [np.sum(slope * weight), np.sum(change * much), np.sum(largest * much)]
    return np.asarray(sums[0]), np.asarray(sums[1]), np.asarray(sums[2])


def _largest(leaves: Iterable[Array]) -> float:
    """How large the largest finite number is."""
    return max((float(np.abs(x[np.isfinite(x)]).max(initial=0.0)) for x in leaves), default=0.0)


def _single(leaves: Iterable[Array]) -> bool:
    return any(x.dtype == np.float32 for x in leaves)


def _dot(xs: Iterable[Array], ys: Iterable[Array]) -> tuple[float, float]:
    """The inner product of the floats, and that of the sizes."""
    with np.errstate(all="ignore"):
        products = [
            np.multiply(x, y) for x, y in zip(xs, ys, strict=True) if x.dtype.kind == "f"
        ]
        return (
            float(sum(np.sum(p) for p in products)),
            float(sum(np.sum(np.abs(p)) for p in products)),
        )


def _indented(text: str, by: int = 4) -> str:
    return text.replace("\n", "\n" + " " * by)
