"""What the front end has to tell about names and modules (N02). Each function is one code."""

from __future__ import annotations

import re
from difflib import get_close_matches

from naperian.frontend.messages.library_names import in_library
from naperian.frontend.messages.report import Reported, both, either, fail, opener
from naperian.source import Label, Span
from naperian.surface.syntax import Bind, Member, PName

_ELSEWHERE = {
    "random": {
        **dict.fromkeys(("key", "PRNGKey", "seed", "default_rng"), "new_key(seed)"),
        **dict.fromkeys(("randn", "standard_normal", "gauss"), "normal(key)"),
        **dict.fromkeys(("randint", "integers"), "integer(key, n)"),
        "fold_in": "ix_key(key, i)",
        "random": "rand(key)",
    }
}
"""What members are called in the modules of NumPy and JAX."""
_VALUES = {
    **dict.fromkeys(("true", "TRUE"), "True"),
    **dict.fromkeys(("false", "FALSE"), "False"),
    **dict.fromkeys(("none", "null", "NULL", "nil", "undefined", "Nothing"), "None"),
    **dict.fromkeys(("Inf", "Infinity", "infinity", "INFINITY"), "inf"),
    **dict.fromkeys(("NaN", "NAN"), "nan"),
    "ln": "log",
}
"""What values are called elsewhere."""
_MODULES = ("linalg", "numeric", "random", "stats")


_LOCAL_TYPE = re.compile(r"\s+def \w+\((?!.*\)(\s*->[^:=,]*)?(:|\s=\s)).*:[^:]*$")
"""The beginning of a function in another, up to a type in it."""
_LOCAL = re.compile(r"\s*(\w+\((\w+(?:, \w+)*)\)) = ")


def unknown_name(name: str, span: Span, known: list[str]) -> Reported:
    """N0201; of a function in another that calls itself, N0207"""
    if _is_inside(name, span):
        return recursion([name], span)
    close = [x for x in known if x.lower() == name.lower()]
    close = close or get_close_matches(name, known, 3, 0.7)
    helps = (f"did you mean {either(close)}?",) if close else ()
    if held := in_library(name):
        helps = (held,)
    elif name in _VALUES:
        helps = (f"write `{_VALUES[name]}`",)
    elif len(name) == 1 and re.search(r"[\w\])]\[(\w+, )*$", span.source.text[: span.start]):
        helps = (f"an index is bound by `for`: `[… for {name}]`, or `sum(… for {name})`",)
    elif name == "_" and span.source.text[: span.start].rstrip().endswith("->"):
        helps = ("a result whose type is left out has no `->` either",)
    elif (own := _LOCAL.match(span.source.text[: span.start].rpartition("\n")[2])) and (
        name in own[2].split(", ")
    ):
        helps = (f"a function begins with `def`, also inside another: `def {own[1]} = …`",)
    elif _LOCAL_TYPE.match(span.source.text[: span.start].rpartition("\n")[2]) and (
        opener(span) not in ("interface", "instance", "struct")
    ):
        helps = (
            "a function inside of another names no types, sets or sizes of its own: name "
            f"`{name}` in the signature around it, leave the type of the parameter out, or define "
            "the function at the top",
        )
    elif re.search(rf"[(,]\s*{re.escape(name)}: [^,()]*$", span.source.text[: span.start]):
        helps = (f"`{name}` is the parameter itself; give the type another name",)
    elif re.match(rf"[^\n]*, {re.escape(name)}: \w", span.source.text[span.end :]):
        helps = (f"the parameter `{name}` comes later; put it before what uses it",)
    elif name[0].isupper() and _is_set(span):
        helps = (f"a name in small letters stands for any: `{name.lower()}`",)
    elif name in ("state", "accum"):
        helps = (f"it opens a block: `with {name}({'x' if name == 'state' else ''}) as r:`",)
    elif name in _MODULES and span.source.text[span.end : span.end + 1] == ".":
        helps = (f"`import {name}` stands at the top of the file",)
    elif name == "random":
        helps = ("`import random` has numbers that follow from a key: `random.rand(key)`",)
    elif other := _owner(name, span):
        helps = (f"the `{name}` of `{other}` is known there only; a parameter hands it on", *helps)
    return fail("N0201", f"there is no `{name}` here", span, "not defined", helps=helps)


def _owner(name: str, span: Span) -> str | None:
    """The definition at the top of the file, another one, whose signature has a name."""
    text = span.source.text
    heads = [*re.finditer(r"^def (\w+)\((.*)$", text, re.MULTILINE)]
    own = max((h.start() for h in heads if h.start() <= span.start), default=-1)
    for head in heads:
        signature = re.split(r" = |:$", head[2])[0]
        if head.start() != own and re.search(rf"\b{re.escape(name)}\b", signature):
            return head[1]
    return None


def _is_inside(name: str, span: Span) -> bool:
    """Whether it stands in the definition of a function of this name, which is in another."""
    *above, line = span.source.text[: span.start].split("\n")
    deep = len(line) - len(line.lstrip()) + 1
    for text in (line, *reversed(above)):
        far = len(text) - len(text.lstrip())
        if text.strip() and far < deep:
            deep = far
            if deep and re.match(rf"\s+def {re.escape(name)}\(", text):
                return True
    return False


def _is_set(span: Span) -> bool:
    """Whether it stands where a signature has an index set, or the size of one."""
    text = span.source.text
    inside = re.search(r"Fin\([^()]*$", text[: span.start])
    return inside is not None or text[span.end :].lstrip().startswith("=>")


def unknown_member(module: str, name: str, span: Span, known: list[str]) -> Reported:
    """N0202"""
    close = get_close_matches(name, known, 3, 0.6)
    helps = (f"did you mean {either(close)}?",) if close else ()
    if name in _ELSEWHERE.get(module, {}):
        helps = (f"write `{module}.{_ELSEWHERE[module][name]}`",)
    elif not close and module in _MODULES:
        helps = (f"`nap doc {module}` lists what it has",)
    notes = (f"it has {both(known)}",) if len(known) <= 8 else ()
    return fail(
        "N0202", f"`{module}` has no `{name}`", span, "not a member", notes=notes, helps=helps
    )


def module_not_found(path: str, span: Span) -> Reported:
    """N0203"""
    return fail(
        "N0203",
        f"there is no module `{path}`",
        span,
        f"looked for `{path.replace('.', '/')}.nap`",
        notes=("modules are found beside the file that imports them",),
    )


def import_cycle(path: list[str], span: Span) -> Reported:
    """N0204"""
    return fail(
        "N0204",
        f"module `{path[-1]}` imports itself: {' -> '.join(path)}",
        span,
        "this import closes the cycle",
        helps=("move what both need into a third module",),
    )


def parameter_twice(name: str, span: Span, first: Span) -> Reported:
    """N0205"""
    return fail(
        "N0205", f"two parameters have the name `{name}`", span, "the second one",
        others=(Label(first, "the first one"),),
    )


def duplicate(name: str, span: Span, first: Span) -> Reported:
    """N0205"""
    return fail(
        "N0205",
        f"`{name}` is defined twice in this module",
        span,
        "the second definition",
        others=(Label(first, "the first one"),),
    )


def hides_enclosing(name: str, span: Span, outer: Span, kind: str) -> Reported:
    """N0206"""
    help = (
        f"to add up: `{name} = sum(… for i)`; to carry a value: `loop {name} = … for i in …:`; "
        "for a new value, choose another name"
    )
    if opener(span) in ("if", "elif", "else"):
        help = f"outside the `if`: `{name} = … if … else {name}`"
    if outer.text.startswith("accum("):
        help = f"into an accumulator goes `{name} += …`"
    elif outer.text.startswith("state("):
        help = f"a state is given another value by `{name} := …`"
    return fail(
        "N0206",
        f"`{name}` of the enclosing block cannot be changed inside {kind}",
        span,
        "this would make a new name that ends with the block",
        others=(Label(outer, f"`{name}` is bound here"),),
        helps=(help,),
    )


def recursion(names: list[str], span: Span) -> Reported:
    """N0207"""
    if len(names) == 1:
        message = f"`{names[0]}` calls itself"
    else:
        message = f"{both(names)} call each other"
    return fail(
        "N0207",
        f"{message}, and nothing shows that this ends",
        span,
        "recursive",
        helps=("write a `loop`, a `scan` or a `fold`",),
    )


def not_yet(what: str, span: Span, *helps: str) -> Reported:
    """N0208"""
    return fail(
        "N0208", f"{what} cannot be compiled by this version", span,
        "parsed, but not supported yet", helps=helps,
    )


def bare_member(name: str, choices: list[str], span: Span) -> Reported:
    """N0209"""
    return fail(
        "N0209",
        f"`{name}` is a member of {both(choices)}, and nothing here says which",
        span,
        "which enum?",
        helps=(f"write {either([f'{c}.{name}' for c in choices])}",),
    )


def misplaced_top(span: Span) -> Reported:
    """N0210"""
    return fail(
        "N0210",
        "only definitions stand at the top of a module",
        span,
        "this would run nowhere",
        helps=(_at_the_top(span.text),),
    )


def _at_the_top(text: str) -> str:
    if re.match(r"[a-z]\w*\([^()]*\) *=[^=]", text):
        return f"write `def {text.partition(chr(10))[0]}`"
    if re.fullmatch(r"[\w/. -]+\.nap", text):
        return "a file is read by `nap.load`"
    return "name it (`result = …`), or put it into a `def`"


def misplaced_member(m: Member) -> Reported:
    """N0210"""
    match m:
        case Bind(_, PName(_, name)):
            help = f"a value is a method without parameters: `def {name}() = …`"
        case _:
            help = "write it as a definition: `def f(x) = …`"
    return fail(
        "N0210", "only definitions stand in an interface or an instance", m.span,
        "this is none", helps=(help,),
    )  # fmt: skip


_PARTS = {
    "T": "write `transpose({})`",
    "shape": "`size({})` is the size of its first axis",
    "size": "`size({})` is the size of its first axis",
    "ndim": "how many axes it has, its type says",
    "dtype": "what its elements are, its type says",
}
"""What arrays of NumPy have."""


def no_field(text: str, found: str, field: str, span: Span, hint: str) -> Reported:
    """N0212"""
    hint = hint or _PARTS.get(field, "").format(text)
    return fail(
        "N0212", f"`{text}` has no field `{field}`", span, f"`{text}` is `{found}`",
        helps=(hint,) if hint else (),
    )
