"""Naperian from Python: modules, functions, loading and the import hook.

    compile(text) | load(path) | import …  →  Module  →  Function  →  calls

A function is compiled when it is first called, once for each precision it is called with, never
for a size. Calling it runs the native entry of the newest instance (`backends/entries/entry.py`);
what that does not take, it hands to the entry before, and the last one to `Function.convert`.
"""

from __future__ import annotations

import enum
import importlib.abc
import importlib.machinery
import inspect
import keyword
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from naperian import border, records
from naperian.backends import runtime
from naperian.backends.entries import entry
from naperian.backends.kernel import Kernel
from naperian.backends.runtime import threads
from naperian.border import (
    AssertionError,
    IndexError,
    MemoryError,
    RunError,
    ShapeError,
    Thrown,
    at_border,
)
from naperian.core import syntax as core
from naperian.core.derived import NoDerivativeError
from naperian.dtypes import DType
from naperian.forms import enum_of, struct_of
from naperian.late import late
from naperian.lines import Line, Told, from_word
from naperian.loops import syntax as loops
from naperian.names import Var
from naperian.prims import Math
from naperian.program import Checkpoints, Compiled, Derived, Options, Program, source_of
from naperian.ragged import Ragged
from naperian.signature import Constant, Named, Record, Tagged
from naperian.signed import instance, size_variables
from naperian.source import CompileError, Error, Source

if TYPE_CHECKING:
    from naperian import pipeline, within
else:
    pipeline, within = late("naperian.pipeline"), late("naperian.within")

__all__ = [
    "AssertionError", "CompileError", "Either", "Error", "Function", "IndexError",
    "Maybe", "MemoryError", "Module", "Ragged", "RunError", "ShapeError", "Thrown", "at_border",
    "compile", "grad", "hessian", "hvp", "install_hook", "jacobian", "jvp", "library_names",
    "linearize", "load", "threads", "transpose_linear", "value_and_grad", "vjp",
]  # fmt: skip


class Function:
    """A Naperian function: call it with NumPy arrays and Python numbers.

    `type` is its type; `show(stage)` prints it at any stage of the compiler, `explain()` with
    everything written out that the compiler added."""

    # a slot, so that a call goes to what is stored there with no Python code in between
    __slots__ = ("__call__", "__dict__", "__weakref__", "_derivatives", "_entry", "_kernels",
                 "_lock", "_plain", "_program", "_text")  # fmt: skip
    __call__: Callable[..., Any]
    _entry: Callable[..., Any]

    def __init__(self, program: Program, name: str) -> None:
        self._program = program
        self._text = program.summary.signatures[name]
        self._kernels: dict[tuple[DType, ...], tuple[Compiled, Kernel]] = {}
        self._derivatives: dict[tuple[str, tuple[int, ...], Checkpoints], Function] = {}
        self._lock = threading.Lock()
        self.__call__ = self.convert
        self._plain = entry.plain(self._text)
        self._entry = self.convert if self._plain else border.refuse
        self.__name__ = self.__qualname__ = name
        self.__module__ = program.source.name
        self.__doc__ = f"{name} : {self.type}" + (f"\n\n{self._text.doc}" if self._text.doc else "")

    @property
    def type(self) -> str:
        """The type, as it is written in the language."""
        return self._text.type

    @property
    def result_type(self) -> str:
        """The type of the result alone."""
        return self._text.result_type

    @property
    def notes(self) -> tuple[str, ...]:
        """Why each array is stored and each loop is parallel or not, in the newest instance."""
        return self._newest().notes

    @property
    def account(self) -> tuple[str, ...]:
        """What each loop nest of the newest instance costs (operations, bytes, threads, vectors),
        and how much memory a call takes."""
        self._of_data()
        return self._program.account(self.__name__, self._usual())

    @property
    def donors(self) -> tuple[str, ...]:
        """The parameters that a result of the newest instance may be written over: `f(x, out=x)`
        then takes no memory. (An `out=` that meets an argument otherwise is computed aside.)"""
        given = {j for j, _ in self._newest().instance.donors}
        return tuple(p.name for p in self._text.params if p.form in given)

    def _of_data(self) -> None:
        """Raise TypeError unless this is a program of its own."""
        if self._text.refusal:
            raise TypeError(f"{self.__name__} is compiled with what calls it: {self._text.refusal}")

    def _newest(self) -> Compiled:
        self._of_data()
        if not self._kernels:
            self.instance(self._usual())
        return next(reversed(self._kernels.values()))[0]

    def show(self, stage: str = "core") -> str:
        """This definition at a stage of the compiler: one of `STAGES`. One that is no function of
        data has the first two; then it is a part of what calls it."""
        if stage not in ("surface", "elaborated"):
            self._of_data()
        return self._program.show(self.__name__, self._usual(), stage)

    def explain(self) -> str:
        """This definition as text that compiles to the same program, with every lift written as a
        comprehension and every type said; comments say why. (`show("elaborated")` also has every
        conversion and size.) Of a derivative, its type; `show("surface")` writes it."""
        return self._program.explain(self.__name__)

    def _usual(self) -> tuple[DType, ...]:
        """The newest instance's dtypes, or those of a call that gives none."""
        return next(reversed(self._kernels), border.usual(self._text))

    def convert(self, *args: Any, **keywords: Any) -> Any:
        """A call whose arguments need conversion, checks or explanations; `out=` gives the memory
        for the result (a tuple of arrays for a tuple)."""
        laid = None if keywords or not self._plain else border.laid_out(args)
        if laid is not None and self._kernels:  # once the arrays lie as it wants them, it may do
            return self._entry(*laid)
        out = None
        if "out" in keywords and all(p.name != "out" for p in self._text.params):
            out = keywords.pop("out")
        values, sizes = border.gather(self._text, args, keywords, self._constant)
        compiled, kernel = self.instance(border.choose(self._text, values))
        if self._plain and not keywords and out is None and len(args) == len(values):
            taken = border.as_taken(compiled.instance, values, args)
            if taken is not None:
                return self._entry(*taken)
        run = partial(runtime.run, kernel)
        if lines := compiled.instance.lines:
            run = partial(runtime.run_aloud, kernel, _listener(lines))
        made = runtime.runtime().empty
        return border.call(compiled.instance, values, sizes, run, out, runtime.free, made)

    def instance(self, dtypes: tuple[DType, ...]) -> tuple[Compiled, Kernel]:
        """The code for these dtypes of the type variables; its entry becomes what is called."""
        with self._lock:
            found = self._kernels.get(dtypes)
            if found is None:
                found = compiled, kernel = self._program.compiled(self.__name__, dtypes)
                self._kernels[dtypes] = found
                entries = runtime.runtime().entries
                table = entry.table(compiled.instance, kernel)
                if entries is not None and table is not None:
                    words, known = table
                    fail = partial(border.stop, compiled.instance.faults)
                    kept = kernel, known
                    self._entry = entry.entry(entries, words, self._entry, fail, kept)
                    self.__call__ = self._entry
                    if not self._plain:
                        told = entry.told(self._text)
                        self.__call__ = border.adapter(
                            self._text, told, self._entry, self.convert
                        )
            return found

    def _constant(self, name: str) -> Any:
        return Function(self._program, name)()

    @property
    def __signature__(self) -> inspect.Signature:
        parameters = [
            inspect.Parameter(_python_name(p.name), inspect.Parameter.POSITIONAL_OR_KEYWORD,
                              default=_shown_default(p.default), annotation=_Written(p.type))
            for p in self._text.params
        ]  # fmt: skip
        parameters += [
            inspect.Parameter(_python_name(self._text.slots[k]), inspect.Parameter.KEYWORD_ONLY)
            for k in self._text.implicit
        ]
        return inspect.Signature(parameters, return_annotation=_Written(self.result_type))

    def __repr__(self) -> str:
        return f"<{self.__name__} : {self.type}>"

    def __reduce__(self) -> tuple[Any, ...]:
        program = self._program
        if isinstance(program, Derived):
            return _derivative, (Function(program.base, program.of[0]), *program.of[1:])
        where = program.source, str(program.folder), program.options
        return _function, (*where, self.__name__)


_NONE: Mapping[str, int] = {}
Wrt = str | int | Sequence[str | int]


def grad(f: Function, wrt: Wrt = 0, memory: str | int | None = None) -> Function:
    """The gradient of a function with a scalar result, with respect to a parameter (by name or
    number) or several (then a tuple): `grad(f)(x, …)` is shaped as the parameter is.

    With `memory` ("2GB", or bytes) a call takes so much at most: loops whose states are too many
    make them again, as with `checkpoint(k)`.

    Raises TypeError if there is none: a parameter that is no float, a result that is no scalar."""
    return _with_respect_to(f, "grad", wrt, memory)


def value_and_grad(f: Function, wrt: Wrt = 0, memory: str | int | None = None) -> Function:
    """The function whose value is `(f(x, …), grad(f)(x, …))`; `memory` as for `grad`."""
    return _with_respect_to(f, "value_and_grad", wrt, memory)


def jacobian(f: Function, wrt: Wrt = 0) -> Function:
    """The gradient of every element of the value: the value's axes, then the parameter's."""
    return _with_respect_to(f, "jacobian", wrt)


def hessian(f: Function, wrt: Wrt = 0) -> Function:
    """The second derivatives of a function with a scalar result."""
    return _with_respect_to(f, "hessian", wrt)


def jvp(f: Function, wrt: Wrt = 0, many: bool = False) -> Function:
    """The derivative along a direction: `jvp(f)(x, …, dx)` is the value and its tangent. With
    `many`, `dx` is an array of directions, and the tangents have an axis more, the first."""
    return _with_respect_to(f, "jvps" if _is(many) else "jvp", wrt)


def vjp(
    f: Function, wrt: Wrt = 0, many: bool = False, memory: str | int | None = None
) -> Function:
    """The derivative pulled back: `vjp(f)(x, …, seed)` is the value and, for the cotangent `seed`
    of the value, the cotangent of the parameter. With `many`, `seed` is an array of cotangents,
    and the results have an axis more, the first. `memory` is as for `grad`."""
    return _with_respect_to(f, "vjps" if _is(many) else "vjp", wrt, memory)


def linearize(f: Function, wrt: Wrt = 0, many: bool = False) -> Callable[..., Any]:
    """The value and the linear function that is nearest: `y, along = linearize(f)(x, …)`, and
    `along(dx)` is the tangent of the value for the tangent `dx` of the parameter. With `many`, `dx`
    is an array of directions."""
    tangent = _with_respect_to(f, "linearizes" if _is(many) else "linearize", wrt)

    def linearized(*args: Any, **keywords: Any) -> tuple[Any, Callable[..., Any]]:
        return f(*args, **keywords), partial(tangent, *args, **keywords)

    return linearized


def transpose_linear(f: Function, wrt: Wrt = 0) -> Function:
    """The transpose of a function that is linear in a parameter: `transpose_linear(f)(…, y)` takes
    the parameters that are left and what is as the value of `f`, and gives what is as the
    parameter."""
    return _with_respect_to(f, "transpose_linear", wrt)


def hvp(f: Function, wrt: Wrt = 0, many: bool = False) -> Function:
    """The Hessian times a vector, without the Hessian: `hvp(f)(x, …, v)`. With `many`, `v` is an
    array of vectors, and the result has an axis more, the first."""
    return _with_respect_to(f, "hvps" if _is(many) else "hvp", wrt)


def _is(many: object) -> bool:
    """Not of an array, which is given in its place by who calls as JAX does."""
    return isinstance(many, bool | int) and bool(many)


def _with_respect_to(
    f: Function, kind: str, wrt: Wrt, memory: str | int | None = None
) -> Function:
    name = kind.removesuffix("s")
    if not isinstance(f, Function):
        raise TypeError(f"{name}() takes a Naperian function, not {told(f)}")
    names = [p.name for p in f._text.params]
    several = wrt if isinstance(wrt, tuple | list) else (wrt,)
    if not all(isinstance(w, str | int) for w in several):
        raise TypeError(
            f"{name}() makes a function, which is called with arrays: {name}(f)({_CALLED[kind]}); "
            "wrt= takes names or numbers of parameters"
        )
    chosen = []
    for w in several:
        if w not in names and w not in range(len(names)):
            raise TypeError(f"{f.__name__} has no parameter {w!r}: it has {', '.join(names)}")
        chosen.append(names.index(w) if isinstance(w, str) else w)
    if not chosen or len({*chosen}) < len(chosen):
        what = "names a parameter twice" if chosen else "names no parameter"
        raise TypeError(f"wrt {what}: {f.__name__} has {', '.join(names)}")
    if memory is not None:
        return _within(f, kind, tuple(chosen), within.amount(memory))
    return _derivative(f, kind, tuple(chosen))


_CALLED = {
    **dict.fromkeys(("grad", "value_and_grad", "jacobian", "hessian"), "x, …"),
    **dict.fromkeys(("linearize", "linearizes"), "x, …"),
    **dict.fromkeys(("jvp", "jvps"), "x, …, dx"), **dict.fromkeys(("vjp", "vjps"), "x, …, seed"),
    **dict.fromkeys(("hvp", "hvps"), "x, …, v"), "transpose_linear": "…, y",
}  # fmt: skip
"""What the functions are called with that derivatives make."""


def told(f: object) -> str:
    """What stands where a Naperian function should."""
    if isinstance(f, Module):
        return f"a module; its functions are {', '.join(f.names)}"
    if inspect.isfunction(f):
        return "a function of Python's; `nap.compile` makes those that have derivatives"
    return type(f).__name__


def _derivative(
    f: Function, kind: str, wrt: tuple[int, ...], checkpoints: Checkpoints = ()
) -> Function:
    with f._lock:
        made = f._derivatives.get((kind, wrt, checkpoints))
        if made is None:
            program = _derived(f, kind, wrt, checkpoints)
            made = f._derivatives[kind, wrt, checkpoints] = Function(program, program.name)
        return made


def _derived(f: Function, kind: str, wrt: tuple[int, ...], checkpoints: Checkpoints) -> Derived:
    try:
        return Derived(f._program, f.__name__, kind, wrt, checkpoints)
    except NoDerivativeError as error:
        raise TypeError(str(error)) from None


def _within(f: Function, kind: str, wrt: tuple[int, ...], limit: int) -> Function:
    return Within(f, _derived(f, kind, wrt, ()), limit)


class Within(Function):
    """A derivative whose calls take so many bytes at most. For which sizes which loops have
    checkpoints is found when they are met first; what is shown is the derivative of that call."""

    __slots__ = ("_chosen", "_limit", "_of")

    def __init__(self, f: Function, program: Derived, limit: int) -> None:
        super().__init__(program, program.name)
        self._of = f
        self._limit = limit
        self._chosen: dict[tuple[Any, ...], Checkpoints] = {}

    def convert(self, *args: Any, **keywords: Any) -> Any:
        """A call, by the derivative that fits."""
        given = {k: v for k, v in keywords.items() if k != "out" or "out" in self._parameters()}
        values, sizes = border.gather(self._text, args, given, self._constant)
        dtypes = border.choose(self._text, values)
        shapes = tuple(v.array.shape or _integer(v.array) for v in values)
        place = (dtypes, shapes, tuple(sizes.items()), threads())
        if place not in self._chosen:
            found = self._fitting(dtypes, values, sizes)
            with self._lock:
                self._chosen[place] = self._chosen.pop(place, found)
        return self._derivative(self._chosen[place]).convert(*args, **keywords)

    def _parameters(self) -> list[str]:
        return [p.name for p in self._text.params]

    def _fitting(
        self, dtypes: tuple[DType, ...], values: list[border.Value], sizes: dict[int, int]
    ) -> Checkpoints:
        program = self._program
        assert isinstance(program, Derived)
        name = self.__name__

        def known(definition: core.Definition, lowered: loops.Program) -> dict[Var, int]:
            made = instance(self._text, dtypes, lowered, size_variables(definition))
            numbers, scalars = border.integers(made, values, sizes)
            inputs = (b.var for b in lowered.buffers)
            found = {v: n for v, n in zip(inputs, scalars, strict=False) if n is not None}
            return found | dict(zip(lowered.sizes, numbers, strict=True))

        try:
            return within.fit(program, name, dtypes, known, self._limit, threads())
        except CompileError as e:
            raise e.with_traceback(None) from None

    def _derivative(self, checkpoints: Checkpoints) -> Function:
        _, kind, wrt = self._program.of  # type: ignore[attr-defined]
        return _derivative(self._of, kind, wrt, checkpoints)

    def _last(self) -> Function:
        return self._derivative(next(reversed(self._chosen.values()), ()))

    def _newest(self) -> Compiled:
        return self._last()._newest()

    @property
    def account(self) -> tuple[str, ...]:
        return self._last().account

    def show(self, stage: str = "core") -> str:
        return self._last().show(stage)

    def __reduce__(self) -> tuple[Any, ...]:
        program = self._program
        assert isinstance(program, Derived)
        return _within, (self._of, *program.of[1:], self._limit)


def _integer(a: Any) -> int | None:
    """What a scalar says about sizes."""
    return int(a) if a.dtype.kind in "iu" else None


def _listener(lines: tuple[Line, ...]) -> Callable[[int, list[int]], None]:
    """Prints what a kernel tells, a line at a time, where Python prints."""
    told = Told(print, from_word)
    return lambda code, words: told.tell(words, lines[code - 1] if code else ())


def _python_name(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


class _Written:
    """A default or a type, shown as it is written in the language."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


def _shown_default(default: Constant | Named | None) -> Any:
    match default:
        case None:
            return inspect.Parameter.empty
        case Constant(value):
            return value
        case Named(name):
            return _Written(name.removeprefix("std."))


class Module(ModuleType):
    """The definitions of a text: functions, constants, enums (as `enum.IntEnum`), structs and enums
    with fields (as classes of `records`) are its attributes; `module[name]` is the function even if
    Python has another use for the name."""

    def __init__(self, program: Program) -> None:
        super().__init__(Path(program.source.name).stem)
        summary = program.summary
        types = (f"{n} : {summary.signatures[n].type}" for n in summary.public)
        self.__doc__ = "\n".join(types)
        self.__file__ = program.source.name
        self._program = program
        self._functions = {n: Function(program, n) for n in summary.public}
        constants = {n for n in summary.public if summary.signatures[n].constant}
        for name, function in self._functions.items():
            if name not in constants:
                self.__dict__[name] = function
        for name, members in summary.enums.items():
            self.__dict__[name] = enum.IntEnum(name, {m: k for k, m in enumerate(members)})
        for name, form in summary.data.items():
            self.__dict__[name] = of_form(form)
        self.__all__ = [*summary.public, *summary.enums, *summary.data]
        # in the module's own dictionary, where it costs nothing when attributes are there
        self.__dict__["__getattr__"] = self._constant

    @property
    def names(self) -> list[str]:
        """The functions and constants, in the order of the text."""
        return list(self._functions)

    def __getitem__(self, name: str) -> Function:
        return self._functions[name]

    def _constant(self, name: str) -> Any:
        """An attribute that is not there yet: a constant, computed when it is first asked for."""
        if name not in self._functions:
            of = (e for e in self._program.summary.data.values() if isinstance(e, Tagged))
            known = (f"; it is {e.name}.{name}" for e in of if name in dict(e.variants))
            raise AttributeError(
                f"module {self.__name__!r} has no definition {name!r}{next(known, '')}",
                name=name, obj=self,
            )
        value = self.__dict__[name] = self._functions[name]()
        return value

    def __dir__(self) -> list[str]:
        return self.__all__

    def __repr__(self) -> str:
        return f"<naperian module {self.__name__!r}: {', '.join(self.__all__) or 'empty'}>"

    def __reduce__(self) -> tuple[Any, ...]:
        program = self._program
        return _module, (program.source, str(program.folder), program.options)


def of_form(form: Record | Tagged) -> Any:
    """The class of a struct or of an enum with fields."""
    if isinstance(form, Record):
        return struct_of(form)
    return enum_of(form)


Maybe = records.enum("Maybe", (("Some", ("value",)), ("None", ())))
Either = records.enum("Either", (("Left", ("left",)), ("Right", ("right",))))


def compile(
    text: str, name: str = "<text>", *, math: str = "default", sizes: Mapping[str, int] = _NONE
) -> Module:
    """The module a text defines; `name` is what messages call it. Modules it imports are files
    beside `name`, or in the current directory.

    `math` is what may be done with the arithmetic of definitions that do not say it themselves:
    "strict", "default" or "fast" (see docs/accuracy.md). `sizes` are values of sizes and index sets
    by their names in signatures: code is made for these alone, and other arguments are a
    ShapeError."""
    if not isinstance(text, str):
        raise TypeError(f"compile() takes the text of a program, not {type(text).__name__}; "
                        "load() takes the path of a file")
    if not isinstance(name, str):
        raise TypeError(f"name is what messages call the text: a string, not {type(name).__name__}")
    return _made(Source(name, text), Path(name).parent, _options(math, sizes))


def load(
    path: str | PathLike[str], *, math: str = "default", sizes: Mapping[str, int] = _NONE
) -> Module:
    """The module in a file; `math` and `sizes` as for `compile`."""
    if not isinstance(path, str | PathLike):
        raise TypeError(f"load() takes the path of a file, not {type(path).__name__}")
    try:
        source = source_of(Path(path))
    except CompileError as e:
        raise e.with_traceback(None) from None
    return _made(source, Path(path).parent, _options(math, sizes))


def _made(source: Source, folder: Path, options: Options) -> Module:
    """The module. A mistake in it is no story of ours: the traceback ends here."""
    try:
        made = Module(Program(source, folder, options))
    except CompileError as e:
        raise e.with_traceback(None) from None
    known = {v for s in made._program.summary.signatures.values() for v in s.slots}
    for name, _ in options.sizes:
        if name not in known:
            raise ValueError(f"sizes: no definition has a size or an index set {name!r}")
    return made


def _options(math: str, sizes: Mapping[str, int]) -> Options:
    """What the caller decides, checked."""
    if math not in (kinds := [m.value for m in Math]):
        raise ValueError(f"math is one of {', '.join(kinds)}, not {math!r}")
    if not isinstance(sizes, Mapping):
        raise TypeError(f'sizes is a dictionary, {{"n": 3}}, not {type(sizes).__name__}')
    chosen = tuple(sorted((name, border.as_size(name, n)) for name, n in sizes.items()))
    return Options(Math(math), chosen)


@lru_cache(maxsize=32)
def _module(source: Source, folder: str, options: Options) -> Module:
    """A module that was pickled."""
    return Module(Program(source, Path(folder), options))


def _function(source: Source, folder: str, options: Options, name: str) -> Function:
    return _module(source, folder, options)[name]


def library_names() -> list[str]:
    """What every module may use without importing it."""
    return sorted(pipeline.library())


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `name.nap` where Python would look for `name.py`, after Python has looked."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        file = fullname.rpartition(".")[2] + ".nap"
        for folder in sys.path if path is None else path:
            place = Path(folder or ".", file)
            if place.is_file():
                return importlib.machinery.ModuleSpec(fullname, self, origin=str(place))
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Module:
        assert spec.origin is not None
        return load(spec.origin)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to do: the module is complete when it is made."""


def install_hook() -> None:
    """From now on `import stats` also finds `stats.nap` on `sys.path`."""
    if not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.append(_Finder())
