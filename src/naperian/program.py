"""A text and what the compiler made of it, in memory and on disk.

    Summary    what the front end found out: the signatures
    Compiled   one definition at one instance: its border and the names of its object code

Both are kept on disk under the hash of the text, its imports and this compiler, so that a program
met before is neither read nor compiled again: that takes some milliseconds.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import sys
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from naperian.backends import runtime
from naperian.backends.cache import key, shared
from naperian.backends.kernel import ABI, Kernel, load, object_codes, object_name
from naperian.backends.llvm import VERSION
from naperian.backends.orders.calls import Row, rows
from naperian.backends.target import host
from naperian.class_defaults import class_defaults
from naperian.core import syntax as core
from naperian.core.derived import derived
from naperian.dtypes import DType
from naperian.formed import record
from naperian.late import late
from naperian.names import Var
from naperian.node import node, replace
from naperian.prims import Math
from naperian.signature import Instance, Named, Record, Signature, Tagged
from naperian.signed import at, instance, numbers_in_sizes, signature, size_variables
from naperian.sizes import size
from naperian.source import CompileError, Source, Span
from naperian.substitution import Substitution
from naperian.surface.reading import read_source
from naperian.types import Fin

if TYPE_CHECKING:
    from naperian import pipeline
    from naperian.backends import emit, pieces
    from naperian.core import written
    from naperian.frontend.listed import Listed
    from naperian.loops import syntax as loops
    from naperian.passes.fusion import account
else:
    account = late("naperian.passes.fusion.account")
    emit = late("naperian.backends.emit")
    pieces = late("naperian.backends.pieces")
    pipeline = late("naperian.pipeline")
    written = late("naperian.core.written")

_T = TypeVar("_T")

# One thread at a time reads and compiles programs. Running them takes no lock.
_compiling = threading.RLock()


@cache
def _compiler() -> str:
    """This compiler: its files, their sizes and times. What it made is kept under this name."""
    root = Path(__file__).parent
    digest = hashlib.sha256(f"{ABI} {VERSION} {sys.version_info[:2]}".encode())
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(names):
            if name.endswith((".py", ".nap")):
                status = os.stat(os.path.join(folder, name))
                digest.update(f"{folder}/{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


@node
class Summary:
    """What the front end found out, as it is kept on disk. `imports` are the modules it read, with
    the hashes of their texts."""

    imports: tuple[tuple[str, str], ...]
    public: tuple[str, ...]
    signatures: dict[str, Signature]
    enums: dict[str, tuple[str, ...]]
    data: dict[str, Record | Tagged]


@node
class Compiled:
    """An instance as it is kept on disk: its border, the names of its object files in the cache,
    the dtypes of the contraction kernels and the rows in order that it calls, and the notes of its
    loops."""

    instance: Instance
    images: tuple[str, ...]
    contractions: tuple[DType, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


@node
class Options:
    """What the caller decides: `math` for definitions without a mark, and `sizes`, by the names
    they have in signatures, that are known when the program is compiled."""

    math: Math = Math.DEFAULT
    sizes: tuple[tuple[str, int], ...] = ()

    def applied(self, d: core.Definition) -> core.Definition:
        """A definition that is compiled so. Its callers must keep to the sizes."""
        chosen = d.math if d.math is not Math.DEFAULT else self.math
        facts = d.facts
        for v, n in self.known(d).items():
            text = f"{v.name} == {n}, for which it was compiled"
            facts += ((size(v) - n, text), (n - size(v), text))
        return replace(d, math=chosen, facts=facts)

    def known(self, d: core.Definition) -> dict[Var, int]:
        """The size variables of a definition that have a value now, and the numbers it takes that
        are sizes: `k: Int` where a type says `Fin(k)`."""
        given = dict(self.sizes)
        every = (*d.sets, *d.sizes, *numbers_in_sizes(d))
        return {v: given[v.name] for v in every if v.name in given}

    def at(self, d: core.Definition, dtypes: tuple[DType, ...]) -> Substitution:
        """The substitution of an instance."""
        plain = at(d, dtypes)
        known = self.known(d)
        sets = {v: Fin(size(n)) for v, n in known.items() if v in d.sets}
        return replace(plain, sets=sets, sizes={v: size(known[v]) for v in d.sizes if v in known})


PLAIN = Options()


class Program:
    """A text, and what the compiler knows about it so far."""

    def __init__(self, source: Source, folder: Path, options: Options = PLAIN) -> None:
        self.source = source
        self.folder = folder
        self.options = options
        self._core: core.Module | None = None
        self._read: dict[str, str] = {}
        name = key("module", _compiler(), source.name, str(folder), source.text, repr(options))
        self.summary = self._known(name) or self._made(name)
        self.key = key(name, repr(self.summary.imports))

    def read(self, dotted: str) -> Source | None:
        """The text of an imported module: a file beside this one."""
        path = self.folder.joinpath(*dotted.split(".")).with_suffix(".nap")
        found = source_of(path) if path.is_file() else None
        self._read[dotted] = _text_hash(found)
        return found

    def _known(self, name: str) -> Summary | None:
        """The summary on disk, if the imported modules are what they were."""
        summary = _unpickled(name, Summary)
        if summary is None:
            return None
        same = all(_text_hash(self.read(dotted)) == text for dotted, text in summary.imports)
        return summary if same else None

    def _made(self, name: str) -> Summary:
        module = self.core()
        defaults = class_defaults(module)

        def known(name: str) -> Signature:
            return signature(module.definitions[name], module.instances, defaults)

        signatures = {n: known(n) for n in module.public}
        for sig in list(signatures.values()):
            for p in sig.params:
                if isinstance(p.default, Named) and p.default.name not in signatures:
                    signatures[p.default.name] = known(p.default.name)
        enums = {n: tuple(members) for n, members in module.enums.items()}
        data = {n: record(layout, (), defaults) for n, layout in module.data.items()}
        imports = tuple(sorted(self._read.items()))
        made = Summary(imports, tuple(module.public), signatures, enums, data)
        shared().put(name, "f", pickle.dumps(made))
        return made

    def core(self) -> core.Module:
        """The elaborated module; raises CompileError with everything that is wrong."""
        with _compiling:
            if self._core is None:
                module, wrong = pipeline.front(self.source, self.read)
                if module is None:
                    raise CompileError(wrong)
                own = {n: self.options.applied(module.definitions[n]) for n in module.public}
                self._core = replace(module, definitions=module.definitions | own)
            return self._core

    def imported_type(self, name: str) -> str | None:
        """The type of a definition of an imported module; None if it has none of this name."""
        with _compiling:
            found = self.core().definitions.get(name) or pipeline.library_definition(name)
        return written.written_type(found) if found is not None else None

    def show(self, name: str, dtypes: tuple[DType, ...], stage: str) -> str:
        """A definition at a stage of the compiler, as text."""
        with _compiling:
            module = self.core()
            nothing = Substitution({}, {}, {})
            written = stage in ("surface", "elaborated")  # for whatever types
            chosen = nothing if written else self.options.at(module.definitions[name], dtypes)
            return pipeline.show(self.source, module, name, chosen, stage)

    def explain(self, name: str) -> str:
        """A definition as text with every lift written out."""
        with _compiling:
            return pipeline.explain(self.source, self.core(), name)

    def compiled(self, name: str, dtypes: tuple[DType, ...]) -> tuple[Compiled, Kernel]:
        """One definition at one instance: from the cache, or compiled now."""
        machine = host()
        entry_key = key("function", self.key, name, repr(dtypes), machine.triple, machine.cpu,
                        machine.features, str(machine.vector_bytes))  # fmt: skip
        found = _unpickled(entry_key, Compiled)
        images = [shared().get(image, "o") for image in found.images] if found is not None else []
        known = [image for image in images if image is not None]
        if found is None or len(known) < len(images):
            with _compiling, pipeline.deep():
                found, known = self._compile(name, dtypes)
            shared().put(entry_key, "f", pickle.dumps(found))
        needs = tuple(runtime.contraction(d) for d in found.contractions)
        needs += tuple(runtime.in_order(row, _compiler()) for row in found.rows)
        services, threads = runtime.runtime().services, runtime.processors()
        return found, load(known[0], services, needs, more=known[1:], threads=threads)

    def _compile(self, name: str, dtypes: tuple[DType, ...]) -> tuple[Compiled, list[bytes]]:
        checks = pipeline.Checks()
        threads = runtime.processors()
        try:
            program = self._lowered(name, dtypes, checks)
            text = emit.emit(program)
            modules = pieces.pieces(text, threads)
            images = object_codes(modules, threads, meanwhile=checks.make)
        except Exception:
            checks.make()  # a stage failed that did not get what it was promised
            raise
        variables = size_variables(self.core().definitions[name])
        made = instance(self.summary.signatures[name], dtypes, program, variables)
        contractions = tuple(
            d for d in (DType.F32, DType.F64) if f"@nap_contract_f{d.bits}(" in text
        )
        names = tuple(map(object_name, modules))
        return Compiled(made, names, contractions, rows(text), program.notes), images

    def account(self, name: str, dtypes: tuple[DType, ...]) -> tuple[str, ...]:
        """What the loop nests of an instance cost."""
        with _compiling:
            return account.account(self._lowered(name, dtypes), host().vector_bytes)

    def _lowered(
        self, name: str, dtypes: tuple[DType, ...], later: pipeline.Checks | None = None
    ) -> loops.Program:
        module = self.core()
        chosen = self.options.at(module.definitions[name], dtypes)
        return pipeline.lower(module, name, chosen, later)


Checkpoints = tuple[tuple[Span, int], ...]


class Derived(Program):
    """A program's function with its derivative as the only definition that is asked for."""

    def __init__(
        self, base: Program, name: str, kind: str, wrt: tuple[int, ...],
        checkpoints: Checkpoints = (),
    ) -> None:
        self.base = base
        self.of = (name, kind, wrt)
        self.source = base.source
        self.folder = base.folder
        self.options = base.options
        module = base.core()
        made = replace(derived(module.definitions[name], kind, wrt), checkpoints=checkpoints)
        self.name = made.name
        definitions = {**module.definitions, made.name: made}
        self._core = replace(module, definitions=definitions, public=(made.name,))
        own = signature(made, (), class_defaults(module))
        signatures = {**base.summary.signatures, made.name: own}
        self.summary = replace(base.summary, public=(made.name,), signatures=signatures)
        chosen = tuple((span.source.name, span.start, k) for span, k in checkpoints)
        self.key = key(base.key, made.name, repr(wrt), repr(chosen))

    def _lowered(
        self, name: str, dtypes: tuple[DType, ...], later: pipeline.Checks | None = None
    ) -> loops.Program:
        """What does not fit what the derivative itself was given is the caller's mistake."""
        program = super()._lowered(name, dtypes, later)
        base = {p.name for p in self.core().definitions[self.of[0]].params}
        made = self.core().definitions[name]
        given = " or ".join(p.name for p in made.params if p.name not in base)
        seeds = {f"{core.SEED} {why}": f"argument {given} {why}" for why in core.UNLIKE}
        failures = tuple(
            replace(f, message=seeds[f.message])
            if f.origin == made.origin and f.message in seeds
            else f
            for f in program.failures
        )
        return replace(program, failures=failures)

    def explain(self, name: str) -> str:
        """What a derivative takes and gives: it was never written, and lifts are its function's."""
        return f"{name} : {self.summary.signatures[name].type}"

    def show(self, name: str, dtypes: tuple[DType, ...], stage: str) -> str:
        """A derivative at a stage; at `surface`, where it was never written, as it could be."""
        if stage != "surface":
            return super().show(name, dtypes, stage)
        with _compiling:
            module = self.core()
            own = re.sub(r"\W+", "_", name).strip("_")
            return pipeline.written(module, name, at(module.definitions[name], dtypes), own)


def listing() -> dict[str, list[Listed]]:
    """What the modules of the library have for everybody."""
    return pipeline.listing()


def known_type(name: str) -> str | None:
    """The general type of a function that comes with the language."""
    return pipeline.known_type(name)


def source_of(path: str | Path) -> Source:
    """The text of a file; raises CompileError if it cannot be read."""
    source, wrong = read_source(path)
    if source is None:
        raise CompileError((wrong,) if wrong is not None else ())
    return source


def _text_hash(source: Source | None) -> str:
    return "" if source is None else key(source.text)


def _unpickled(name: str, kind: type[_T]) -> _T | None:
    """An object from the cache; one that this version cannot read is forgotten."""
    data = shared().get(name, "f")
    if data is None:
        return None
    try:
        value = pickle.loads(data)
    except Exception:  # whatever damaged or foreign pickles raise
        value = None
    if not isinstance(value, kind):
        shared().drop(name, "f")
        return None
    return value
