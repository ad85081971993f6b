"""A library's functions as C sees them: the header, and a small program that calls one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from naperian import __version__
from naperian.backends.entries.c_entry import View, unused
from naperian.dtypes import DType
from naperian.signature import (
    Form,
    Given,
    Instance,
    Opened,
    Record,
    Rows,
    Tagged,
    late_sizes,
)
from naperian.sizes import Clamp, Quotient, Remainder, Size, show

_C = {DType.F64: "double", DType.F32: "float", DType.BOOL: "bool"}


class Built:
    """A function in the library: how it looks, its instance, and what its answers are counted
    from."""

    def __init__(self, view: View, instance: Instance, base: int) -> None:
        self.view = view
        self.instance = instance
        self.base = base

    @cached_property
    def slots(self) -> dict[int, str]:
        """What sizes are called; those that the call finds, as the results that give them."""
        sig = self.instance.signature
        found = late_sizes(sig.result)
        own = {slot: self.view.outputs[k] for slot, k in found if not sig.outputs[k].shape}
        return dict(enumerate(self.view.slots)) | own

    def late(self, k: int) -> bool:
        """Whether the call makes this result, when it knows its size."""
        leaf = self.instance.signature.outputs[k]
        return bool(leaf.shape) and self.instance.signature.late(leaf)


def c_type(dtype: DType) -> str:
    return _C.get(dtype) or f"{'' if dtype.is_signed else 'u'}int{dtype.bits}_t"


def size_text(s: Size, b: Built) -> str:
    """A size, in the names of slots."""
    return show(s, lambda a: b.slots.get(a, "?") if isinstance(a, int) else "?")


def _declared(b: Built) -> list[tuple[str, str]]:
    """(declaration, comment) of every parameter."""
    sig, inst = b.instance.signature, b.instance
    tags = {name: note for p in sig.params for name, note in _tags(p.form, b.view.inputs)}
    tags |= dict(_tags(sig.result, b.view.outputs))
    out = [(f"int64_t {b.slots[k]}", "") for k in b.view.sizes]
    for name, leaf in zip(b.view.inputs, sig.inputs, strict=True):
        kind = c_type(inst.dtype(leaf))
        shape = ", ".join(size_text(s, b) for s in leaf.shape)
        note = shape
        if leaf.low is not None and leaf.high is not None:
            note += f"{'; ' if shape else ''}from {size_text(leaf.low, b)} to below "
            note += size_text(leaf.high, b)
        note += tags.get(name, "")
        out.append((f"const {kind} *{name}" if leaf.shape else f"{kind} {name}", note))
    for k, (name, leaf) in enumerate(zip(b.view.outputs, sig.outputs, strict=True)):
        kind = c_type(inst.dtype(leaf))
        shape = ", ".join(size_text(s, b) for s in leaf.shape)
        if b.late(k):
            free = b.view.symbol.removesuffix(sig.name) + "free"
            out.append((f"{kind} **{name}", f"{shape}; made by the call; give it back to {free}"))
        else:
            out.append((f"{kind} *{name}", f"{shape}{tags.get(name, '')}".removeprefix(": ")))
    return [*out, ("int64_t *error", "4 numbers about a failure, or NULL")]


def _tags(form: Form, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """What the numbers of variants mean, and where their fields are, by the names of the tags."""
    match form:
        case Tagged(_, variants, items):
            assert isinstance(items[0], int)
            each = [
                f"{k} {variant}" + (f"({', '.join(_held(items[at], names) for _, at in fields)})"
                                    if fields else "")
                for k, (variant, fields) in enumerate(variants)
            ]  # fmt: skip
            yield names[items[0]], f": {', '.join(each)}"
            for x in items[1:]:
                yield from _tags(x, names)
        case Record(_, _, items) | (tuple() as items):
            for x in items:
                yield from _tags(x, names)
        case Rows(_, _, value) | Opened(_, value):
            yield from _tags(value, names)
        case _:
            pass


def _held(form: Form, names: tuple[str, ...]) -> str:
    """The first array of a field."""
    match form:
        case int():
            return names[form]
        case Record(_, _, items) | Tagged(_, _, items) | (tuple() as items):
            return f"{_held(items[0], names)} …" if items else "()"
        case Rows(_, rows, _):
            return f"{names[rows]} …"
        case Opened(_, value):
            return _held(value, names)
    return ""


def header(name: str, built: list[Built]) -> str:
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
        told = "".join(f"\n   {line}".rstrip() for line in (sig.doc or "").splitlines())
        text = f"{sig.name} : {sig.type}{facts}{told}"
        lines += ["", f"/* {text.replace('*/', '* /').replace('/*', '/ *')} */"]
        params = _declared(b)
        for k, (text, note) in enumerate(params):
            end = ");" if k == len(params) - 1 else ","
            begin = f"int64_t {b.view.symbol}(" if k == 0 else "    "
            lines.append(f"{begin}{text}{end}" + (f"  /* {note} */" if note else ""))
    return "\n".join([*lines, "", "#ifdef __cplusplus", "}", "#endif", "#endif", ""])


def _c_size(s: Size, b: Built) -> str:
    """A size as an expression of C, for arguments that are not negative."""
    known = len(b.instance.signature.slots)

    def factor(a: object) -> str:
        match a:
            case int():
                name = b.slots.get(a, "0")  # no elements are shown of what takes more than that
                return name if a < known else f"*{name}"
            case Quotient(x, y):
                return f"(({_c_size(x, b)}) / ({_c_size(y, b)}))"
            case Remainder(x, y):
                return f"(({_c_size(x, b)}) % ({_c_size(y, b)}))"
            case Clamp(x, _):
                return f"({_c_size(x, b)})"
            case _:
                return "4"

    terms = [" * ".join([*([str(c)] if c != 1 or not m else []), *map(factor, m)])
             for m, c in s.terms]  # fmt: skip
    return " + ".join(terms) or "0"


def example(name: str, built: list[Built]) -> str:
    """A program that calls the first function, of those whose results have known sizes if there
    are."""
    b = next((b for b in built if not any(map(b.late, range(len(b.view.outputs))))), built[0])
    sig, inst = b.instance.signature, b.instance
    lines = [
        f"/* cc {name}_example.c -L. -l{name} -Wl,-rpath,. -lm -o {name}_example */",
        "#include <inttypes.h>", "#include <stdio.h>", "#include <stdlib.h>", "",
        f'#include "{name}.h"',
        "", "int main(void) {",
    ]  # fmt: skip
    lines += [f"    int64_t {b.slots[k]} = 4;" for k in b.view.sizes]
    args = [b.slots[k] for k in b.view.sizes]
    ends = []
    steps = {step.leaf for step in sig.plan if isinstance(step, Given)}
    names, leaves = (*b.view.inputs, *b.view.outputs), (*sig.inputs, *sig.outputs)
    taken = {*args, *names}
    i, answer = unused("i", taken), unused("answer", taken)
    for k, (leaf_name, leaf) in enumerate(zip(names, leaves, strict=True)):
        given = k < len(sig.inputs)
        kind = c_type(inst.dtype(leaf))
        if given and not leaf.shape:
            value = "4" if k in steps else "1" if leaf.low is None else "0"
            lines.append(f"    {kind} {leaf_name} = {value};")
            args.append(leaf_name)
            continue
        if not given and b.late(k - len(sig.inputs)):
            lines.append(f"    {kind} *{leaf_name} = NULL;")
            args.append(f"&{leaf_name}")
            ends.append(f"{name}_free({leaf_name})")
            continue
        count = " * ".join(f"({_c_size(s, b)})" for s in leaf.shape) or "1"
        lines.append(f"    {kind} *{leaf_name} = calloc({count}, sizeof *{leaf_name});")
        if given and leaf.low is None:
            lines.append(f"    for (int64_t {i} = 0; {i} < {count}; {i}++)")
            lines.append(f"        {leaf_name}[{i}] = {i} + 1;")
        args.append(leaf_name)
        ends.append(f"free({leaf_name})")
    lines += [
        f"    int64_t {answer} = {b.view.symbol}({', '.join([*args, 'NULL'])});",
        f'    printf("{sig.name}: %s\\n", {name}_message({answer}));',
    ]
    for leaf_name, leaf in zip(b.view.outputs, sig.outputs, strict=True):
        count = " * ".join(f"({_c_size(s, b)})" for s in leaf.shape) or "1"
        lines.append(f"    for (int64_t {i} = 0; {i} < {count} && {answer} == 0; {i}++)")
        shown = f'"{leaf_name}[%" PRId64 "] = %g\\n", {i}, (double){leaf_name}[{i}]'
        lines.append(f"        printf({shown});")
    lines += [f"    {x};" for x in ends]
    return "\n".join([*lines, f"    return {answer} != 0;", "}", ""])
