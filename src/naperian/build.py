"""`nap build`: a file's functions compiled beforehand.

    libstats.so        the functions with plain C parameters, and their threads
    stats.h            their prototypes, and what each parameter is
    manifest.json      the same as data
    stats_example.c    a program that calls the first of them
    stats-….whl        with --wheel: all of it as a Python package that needs NumPy alone

A function that Python could not call, because it takes functions, is left out and named. LLVM
makes the object files; putting them together takes the system's C compiler or linker.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from naperian import __version__, border, cli, pipeline, precompiled
from naperian.backends.emit import emit
from naperian.backends.entries.c_entry import c_entry, parameters, start, view
from naperian.backends.kernel import functions_of
from naperian.backends.llvm import AS_WRITTEN, compile_all
from naperian.backends.orders.calls import rows
from naperian.backends.orders.rows import row_module
from naperian.backends.products.contract import contract_module
from naperian.backends.runtime import processors
from naperian.backends.services.pool import pool_ir
from naperian.backends.services.threads import has_threads
from naperian.backends.target import Target, host
from naperian.c_text import Built, c_type, example, header, size_text
from naperian.dtypes import FLOATS, DType
from naperian.program import Options, Program, source_of
from naperian.signature import Bind, Equal, Given, Leaf, Opened, late_sizes, slots_of
from naperian.signed import instance, size_variables
from naperian.sizes import Size

SERVICES = ("set_threads", "free", "message")
_SYSTEM = ("c", "m", "dl", "rt", "util", "pthread", "gcc", "stdc")
_NEEDS = {"baseline": [], "avx2": ["avx2", "fma", "bmi2"]}


def run(options: argparse.Namespace) -> int:
    """`nap build file.nap`"""
    path = Path(options.file)
    name = options.name or re.sub(r"\W", "_", path.stem)
    if not name.isidentifier():
        raise cli.UsageError(f"`{name}` is no name for a library; give one with --name")
    if name in _SYSTEM:
        raise cli.UsageError(
            f"lib{name} is a library of every system; give yours another name with --name"
        )
    if options.precision not in ("f64", "f32"):
        raise cli.UsageError(f"--precision is f64 or f32, not {options.precision}")
    level = options.target or ("avx2" if options.wheel else "native")
    if level not in ("native", *_NEEDS):
        raise cli.UsageError(f"--target is native, avx2 or baseline, not {level}")
    if not has_threads():
        raise cli.UsageError("`nap build` makes libraries for Linux only")
    linker = _linker()
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    program = Program(source_of(path), path.parent, Options())
    built, objects, skipped = _compiled(program, name, DType[options.precision.upper()],
                                        host(level))  # fmt: skip
    if not built:
        raise cli.UsageError(f"{path} defines nothing that C could call")
    library = folder / f"lib{name}.so"
    services = [f"{name}_{x}" for x in SERVICES]
    _link(linker, objects, library, [*(b.view.symbol for b in built), *services])
    manifest = _manifest(name, built, skipped, level)
    files = {
        f"{name}.h": header(name, built),
        "manifest.json": json.dumps(manifest, indent=2) + "\n",
        f"{name}_example.c": example(name, built),
    }
    for file, text in files.items():
        folder.joinpath(file).write_text(text)
    made = [library, *(folder / f for f in files)]
    if options.wheel:
        made.append(_wheel(folder, name, manifest, library))
    for function, why in skipped.items():
        cli.say(f"left out {function}: {why}")
    if options.json:
        cli.emit({"files": [str(f) for f in made], "skipped": skipped})
    else:
        print(*made, sep="\n")
    return cli.OK


# ---------------------------------------------------------------- compiling and linking


def _compiled(
    program: Program, name: str, precision: DType, target: Target
) -> tuple[list[Built], list[bytes], dict[str, str]]:
    module = program.core()
    built: list[Built] = []
    texts: list[str] = []
    skipped: dict[str, str] = {}
    messages: list[str] = []
    for public in module.public:
        sig = program.summary.signatures[public]
        if sig.refusal:
            skipped[public] = sig.refusal
            continue
        if not public.isidentifier():
            skipped[public] = "its name is no name in C"
            continue
        if public in SERVICES:
            skipped[public] = f"{name}_{public} is every library's own"
            continue
        definition = module.definitions[public]
        usual = border.usual(sig)
        dtypes = tuple(
            precision if (t.precision and d.is_float) or t.instances is None else d
            for t, d in zip(sig.types, usual, strict=True)
        )
        at = program.options.at(definition, dtypes)
        lowered = pipeline.lower(module, public, at)
        made = instance(sig, dtypes, lowered, size_variables(definition))
        if made.lines:
            skipped[public] = "it prints, and only Python shows that"
            continue
        b = Built(view(name, made), made, len(messages))
        messages += [f.message for f in made.faults]
        text = emit(lowered, target)
        texts.append(text.replace("define i64 @kernel(", f"define i64 @{b.view.symbol}.kernel("))
        built.append(b)
    products = [d for d in FLOATS if any(f"@nap_contract_f{d.bits}(" in t for t in texts)]
    smin = "declare i64 @llvm.smin.i64(i64, i64)\ndeclare i64 @llvm.smax.i64(i64, i64)\n"
    entries = smin + "".join(c_entry(b.view, b.instance, b.base) for b in built)
    modules = [*texts, *(contract_module(d, target) for d in products), entries]
    modules += [row_module(r, target) for r in dict.fromkeys(r for t in texts for r in rows(t))]
    modules += [start(name, tuple(messages)), AS_WRITTEN + pool_ir(python=False)]
    objects = compile_all(modules, processors(), target)
    functions = dict.fromkeys(text for image in objects for text in functions_of(image, target))
    return built, objects + compile_all(list(functions), processors(), target), skipped


def _linker() -> list[str]:
    """The command that makes a shared library of object files."""
    if chosen := os.environ.get("CC"):
        return [*chosen.split(), "-shared"]
    for found in ("cc", "gcc", "clang"):
        if shutil.which(found):
            return [found, "-shared"]
    if shutil.which("ld"):
        return ["ld", "-shared"]
    raise cli.UsageError("`nap build` puts a library together with the system's C compiler, and "
                         "there is none: install cc, gcc, clang or ld, or set CC")  # fmt: skip


def _link(linker: list[str], objects: list[bytes], library: Path, exported: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for k, data in enumerate(objects):
            place.joinpath(f"{k}.o").write_bytes(data)
        script = place / "exported"
        script.write_text("{ global: " + " ".join(f"{x};" for x in exported) + " local: *; };\n")
        option = f"--version-script={script}"
        command = [
            *linker, "-o", str(library), *(str(place / f"{k}.o") for k in range(len(objects))),
            option if linker[0] == "ld" else f"-Wl,{option}", "-lm", "-lpthread", "-lc",
        ]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except OSError as e:
            raise cli.UsageError(f"cannot run {linker[0]}: {e.strerror}") from None
        if done.returncode:
            raise cli.UsageError(f"{linker[0]} failed:\n{done.stderr.strip()}")


# ---------------------------------------------------------------- what is said about it


def _terms(s: Size, b: Built) -> list[Any] | None:
    """A polynomial of slots as data; None if it is more than that."""
    out: list[Any] = []
    for m, c in s.terms:
        if not all(isinstance(a, int) and a in b.slots for a in m):
            return None
        out.append([c, [b.slots[a] for a in m if isinstance(a, int)]])
    return out


def _buffer(name: str, leaf: Leaf, b: Built) -> dict[str, Any]:
    dtype = b.instance.dtype(leaf)
    return {
        "name": name, "dtype": dtype.value, "c": c_type(dtype),
        "shape": [_terms(s, b) for s in leaf.shape],
        "sizes": [size_text(s, b) for s in leaf.shape],
    }  # fmt: skip


def _manifest(
    name: str, built: list[Built], skipped: dict[str, str], level: str
) -> dict[str, Any]:
    target = host(level)
    needs = _NEEDS.get(level)
    if needs is None:
        needs = [x[1:] for x in target.features.split(",") if x in ("+avx512f", "+avx2", "+fma")]
    machine = target.triple.split("-")[0]
    functions = []
    for b in built:
        sig, inst = b.instance.signature, b.instance
        inputs = [_buffer(n, x, b) for n, x in zip(b.view.inputs, sig.inputs, strict=True)]
        outputs = [_buffer(n, x, b) for n, x in zip(b.view.outputs, sig.outputs, strict=True)]
        found = {k for _, k in late_sizes(sig.result)}
        for k, made in enumerate(outputs):
            made |= {"made": b.late(k), "size": k in found}
        form = sig.result
        while isinstance(form, Opened):
            form = form.value
        functions.append(
            {
                "name": sig.name, "symbol": b.view.symbol, "type": sig.type, "doc": sig.doc,
                "parameters": [kind for kind, _ in parameters(b.view, inst)],
                "sizes": [b.slots[k] for k in b.view.sizes], "inputs": inputs,
                "outputs": outputs, "tuple": not isinstance(form, int),
                "plan": _plan(b), "implicit": [b.slots[k] for k in sig.implicit],
                "needs": [text for _, text in sig.facts],
                "failures": [
                    {"answer": b.base + k, "message": f.message, "place": f.place}
                    for k, f in enumerate(inst.faults, 1)
                ],
            }
        )  # fmt: skip
    return {
        "name": name, "library": f"lib{name}.so", "naperian": __version__,
        "target": {"triple": target.triple, "level": level, "needs": needs,
                   "machines": [machine, *(["AMD64"] if machine == "x86_64" else [])]},
        "functions": functions, "skipped": skipped,
    }  # fmt: skip


def _plan(b: Built) -> list[dict[str, Any]] | None:
    """How shapes give sizes; None if that takes more than a division."""
    out: list[dict[str, Any]] = []
    inst, slots = b.instance, b.view.slots
    if any(any(leaf.rows) for leaf in inst.signature.inputs):
        return None
    for step in inst.signature.plan:
        match step:
            case Given(leaf, slot):
                out.append({"slot": slots[slot], "input": leaf})
            case Bind(leaf, axis, slot, factor, rest):
                f, r = _terms(factor, b), _terms(rest, b)
                if f is None or r is None:
                    return None
                out.append({"slot": slots[slot], "input": leaf, "axis": axis, "factor": f,
                            "rest": r})  # fmt: skip
            case Equal(_, _, size):
                if not slots_of(size) <= set(range(len(slots))):
                    return None
            case _:
                return None
    return out


# ---------------------------------------------------------------- a wheel


def _wheel(folder: Path, name: str, manifest: dict[str, Any], library: Path) -> Path:
    """A package with the functions that plain arrays can be given to."""
    known = [f for f in manifest["functions"] if f["plan"] is not None and all(
        None not in p["shape"] for p in (*f["inputs"], *f["outputs"]))]  # fmt: skip
    for f in manifest["functions"]:
        if f not in known:
            cli.say(f"not in the wheel: {f['name']}, whose sizes take more than shapes")
    tag = f"py3-none-linux_{manifest['target']['machines'][0]}"
    info = f"{name}-{__version__}.dist-info"
    init = (
        f'"""{name}, compiled by Naperian {__version__}."""\n\n'
        "from pathlib import Path as _Path\n\n"
        "from .precompiled import functions as _functions\n\n"
        f"__all__ = {[*(f['name'] for f in known), 'set_threads']!r}\n"
        "globals().update(_functions(_Path(__file__).parent))\n"
    )
    files: dict[str, bytes] = {
        f"{name}/__init__.py": init.encode(),
        f"{name}/precompiled.py": Path(precompiled.__file__).read_bytes(),
        f"{name}/manifest.json": json.dumps(manifest | {"functions": known}, indent=2).encode(),
        f"{name}/{library.name}": library.read_bytes(),
        f"{info}/METADATA": (
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {__version__}\nRequires-Dist: numpy\n"
        ).encode(),
        f"{info}/WHEEL": (
            f"Wheel-Version: 1.0\nGenerator: naperian {__version__}\nRoot-Is-Purelib: false\n"
            f"Tag: {tag}\n"
        ).encode(),
    }
    rows = [f"{file},sha256={_hash(data)},{len(data)}" for file, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    path = folder / f"{name}-{__version__}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, data in files.items():
            archive.writestr(file, data)
    return path


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
