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
from naperian.backends.entries.c_entry import View, c_entry, parameters, start, view
from naperian.backends.kernel import functions_of
from naperian.backends.llvm import AS_WRITTEN, compile_all
from naperian.backends.products.contract import contract_module
from naperian.backends.runtime import processors
from naperian.backends.services.pool import pool_ir
from naperian.backends.services.threads import has_threads
from naperian.backends.target import Target, host
from naperian.dtypes import FLOATS, DType
from naperian.node import node
from naperian.program import Options, Program, source_of
from naperian.signature import Bind, Equal, Given, Instance, instance, size_variables, slots_of
from naperian.sizes import Clamp, Quotient, Remainder, Size, show

_C = {DType.F64: "double", DType.F32: "float", DType.BOOL: "bool"}
_NEEDS = {"baseline": [], "avx2": ["avx2", "fma", "bmi2"]}


@node
class Built:
    """A function in the library: how it looks, its instance, and what its answers are counted
    from."""

    view: View
    instance: Instance
    base: int


def run(options: argparse.Namespace) -> int:
    """`nap build file.nap`"""
    path = Path(options.file)
    name = options.name or re.sub(r"\W", "_", path.stem)
    if not name.isidentifier():
        raise cli.UsageError(f"`{name}` is no name for a library; give one with --name")
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
    services = [f"{name}_{x}" for x in ("set_threads", "free", "message")]
    _link(linker, objects, library, [*(b.view.symbol for b in built), *services])
    manifest = _manifest(name, built, skipped, level)
    files = {
        f"{name}.h": _header(name, built),
        "manifest.json": json.dumps(manifest, indent=2) + "\n",
        f"{name}_example.c": _example(name, built),
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
        definition = module.definitions[public]
        usual = border.usual(sig)
        dtypes = tuple(
            precision if t.precision and d.is_float else d
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


def _c(dtype: DType) -> str:
    return _C.get(dtype) or f"{'' if dtype.is_signed else 'u'}int{dtype.bits}_t"


def _text(s: Size, inst: Instance) -> str:
    slots = inst.signature.slots
    return show(s, lambda a: slots[a] if isinstance(a, int) and a < len(slots) else "?")


def _late(b: Built, k: int) -> bool:
    leaf = b.instance.signature.outputs[k]
    return bool(leaf.shape) and b.instance.signature.late(leaf)


def _declared(b: Built) -> list[tuple[str, str]]:
    """(declaration, comment) of every parameter."""
    sig, inst = b.instance.signature, b.instance
    out = [(f"int64_t {sig.slots[k]}", "") for k in b.view.sizes]
    for name, leaf in zip(b.view.inputs, sig.inputs, strict=True):
        kind = _c(inst.dtype(leaf))
        shape = ", ".join(_text(s, inst) for s in leaf.shape)
        note = shape
        if leaf.low is not None and leaf.high is not None:
            note += f"{'; ' if shape else ''}from {_text(leaf.low, inst)} to below "
            note += _text(leaf.high, inst)
        out.append((f"const {kind} *{name}" if leaf.shape else f"{kind} {name}", note))
    for k, (name, leaf) in enumerate(zip(b.view.outputs, sig.outputs, strict=True)):
        kind = _c(inst.dtype(leaf))
        if _late(b, k):
            out.append((f"{kind} **{name}", "made by the call; give it back to _free"))
        else:
            out.append((f"{kind} *{name}", ", ".join(_text(s, inst) for s in leaf.shape)))
    return [*out, ("int64_t *error", "4 numbers about a failure, or NULL")]


def _header(name: str, built: list[Built]) -> str:
    guard = f"{name.upper()}_H"
    lines = [
        f"/* {name}, compiled by Naperian {__version__}. Arrays are contiguous, by rows. */",
        f"#ifndef {guard}", f"#define {guard}", "", "#include <stdbool.h>", "#include <stdint.h>",
        "", "#ifdef __cplusplus", 'extern "C" {', "#endif", "",
        "/* Every function answers 0, or why it stopped: */",
        f"const char *{name}_message(int64_t answer);",
        "/* At most so many threads; at first NAPERIAN_THREADS, or one for each processor. */",
        f"void {name}_set_threads(int n);",
        "/* Gives back a result that a function made. */",
        f"void {name}_free(void *result);",
    ]  # fmt: skip
    for b in built:
        sig = b.instance.signature
        facts = "".join(f"; needs {text}" for _, text in sig.facts)
        told = [f"   {line}".rstrip() for line in (sig.doc or "").splitlines()]
        lines += ["", f"/* {sig.name} : {sig.type}{facts}".replace("*/", "* /"), *told]
        lines[-1] += " */"
        params = _declared(b)
        for k, (text, note) in enumerate(params):
            end = ");" if k == len(params) - 1 else ","
            begin = f"int64_t {b.view.symbol}(" if k == 0 else "    "
            lines.append(f"{begin}{text}{end}" + (f"  /* {note} */" if note else ""))
    return "\n".join([*lines, "", "#ifdef __cplusplus", "}", "#endif", "#endif", ""])


def _c_size(s: Size, inst: Instance) -> str:
    """A size as an expression of C, for arguments that are not negative."""

    def factor(a: object) -> str:
        match a:
            case int():
                return inst.signature.slots[a]
            case Quotient(x, y):
                return f"(({_c_size(x, inst)}) / ({_c_size(y, inst)}))"
            case Remainder(x, y):
                return f"(({_c_size(x, inst)}) % ({_c_size(y, inst)}))"
            case Clamp(x, _):
                return f"({_c_size(x, inst)})"
            case _:
                return "4"

    terms = [" * ".join([*([str(c)] if c != 1 or not m else []), *map(factor, m)])
             for m, c in s.terms]  # fmt: skip
    return " + ".join(terms) or "0"


def _example(name: str, built: list[Built]) -> str:
    """A program that calls the first function whose results have known sizes."""
    b = next((b for b in built if not any(_late(b, k) for k in range(len(b.view.outputs)))),
             built[0])  # fmt: skip
    sig, inst = b.instance.signature, b.instance
    lines = [
        f"/* cc {name}_example.c -L. -l{name} -Wl,-rpath,. -lm -o {name}_example */",
        "#include <inttypes.h>", "#include <stdio.h>", "#include <stdlib.h>", "",
        f'#include "{name}.h"',
        "", "int main(void) {",
    ]  # fmt: skip
    given_sizes = {step.slot for step in sig.plan if isinstance(step, Given)}
    lines += [f"    int64_t {s} = 4;" for k, s in enumerate(sig.slots) if k not in given_sizes]
    args = [sig.slots[k] for k in b.view.sizes]
    freed = []
    steps = {step.leaf for step in sig.plan if isinstance(step, Given)}
    names, leaves = (*b.view.inputs, *b.view.outputs), (*sig.inputs, *sig.outputs)
    for k, (leaf_name, leaf) in enumerate(zip(names, leaves, strict=True)):
        given = k < len(sig.inputs)
        kind = _c(inst.dtype(leaf))
        if given and not leaf.shape:
            value = "4" if k in steps else "1" if leaf.low is None else "0"
            lines.append(f"    {kind} {leaf_name} = {value};")
            args.append(leaf_name)
            continue
        count = " * ".join(f"({_c_size(s, inst)})" for s in leaf.shape) or "1"
        lines.append(f"    {kind} *{leaf_name} = calloc({count}, sizeof *{leaf_name});")
        if given and leaf.low is None:
            lines.append(f"    for (int64_t i = 0; i < {count}; i++) {leaf_name}[i] = i + 1;")
        args.append(leaf_name)
        freed.append(leaf_name)
    lines += [
        f"    int64_t answer = {b.view.symbol}({', '.join([*args, 'NULL'])});",
        f'    printf("{sig.name}: %s\\n", {name}_message(answer));',
    ]
    for leaf_name, leaf in zip(b.view.outputs, sig.outputs, strict=True):
        count = " * ".join(f"({_c_size(s, inst)})" for s in leaf.shape) or "1"
        lines.append(f"    for (int64_t i = 0; i < {count} && answer == 0; i++)")
        shown = f'"{leaf_name}[%" PRId64 "] = %g\\n", i, (double){leaf_name}[i]'
        lines.append(f"        printf({shown});")
    lines += [f"    free({x});" for x in freed]
    return "\n".join([*lines, "    return answer != 0;", "}", ""])


def _terms(s: Size, inst: Instance) -> list[Any] | None:
    """A polynomial of slots as data; None if it is more than that."""
    out: list[Any] = []
    for m, c in s.terms:
        if not all(isinstance(a, int) and a < len(inst.signature.slots) for a in m):
            return None
        out.append([c, [inst.signature.slots[a] for a in m if isinstance(a, int)]])
    return out


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
        inputs, outputs = (
            [
                {
                    "name": leaf_name, "dtype": inst.dtype(leaf).value, "c": _c(inst.dtype(leaf)),
                    "shape": [_terms(s, inst) for s in leaf.shape],
                    "sizes": [_text(s, inst) for s in leaf.shape],
                }
                for leaf_name, leaf in zip(names, leaves, strict=True)
            ]
            for names, leaves in ((b.view.inputs, sig.inputs), (b.view.outputs, sig.outputs))
        )  # fmt: skip
        functions.append(
            {
                "name": sig.name, "symbol": b.view.symbol, "type": sig.type, "doc": sig.doc,
                "parameters": [kind for kind, _ in parameters(b.view, inst)],
                "sizes": [sig.slots[k] for k in b.view.sizes], "inputs": inputs,
                "outputs": outputs, "tuple": not isinstance(sig.result, int),
                "plan": _plan(inst),
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


def _plan(inst: Instance) -> list[dict[str, Any]] | None:
    """How shapes give sizes; None if that takes more than a division."""
    out: list[dict[str, Any]] = []
    slots = inst.signature.slots
    if inst.signature.implicit or any(any(leaf.rows) for leaf in inst.signature.inputs):
        return None
    for step in inst.signature.plan:
        match step:
            case Given(leaf, slot):
                out.append({"slot": slots[slot], "input": leaf})
            case Bind(leaf, axis, slot, factor, rest):
                f, r = _terms(factor, inst), _terms(rest, inst)
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
        f'"""{name}, compiled by Naperian {__version__}."""\n\nfrom pathlib import Path\n\n'
        "from .precompiled import functions\n\n"
        "globals().update(functions(Path(__file__).parent))\n"
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
