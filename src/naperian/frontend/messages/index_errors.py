"""What the front end has to tell about sizes, index sets and their indices (N04). Each function is
one code."""

from __future__ import annotations

import re
from itertools import chain, count

from naperian.frontend.messages.report import Reported, fail, labels, postfix
from naperian.frontend.unknowns import Because
from naperian.sizes import Size
from naperian.source import Label, Span


def wrong_index_set(
    table: str, wanted: str, index: str, found: str, span: Span, reasons: tuple[Because, ...],
    helps: tuple[str, ...] = (), notes: tuple[str, ...] = (),
) -> Reported:
    """N0401"""
    return fail(
        "N0401", f"`{table}` is indexed by `{wanted}`, but `{index}` ranges over `{found}`",
        span, f"an index into `{found}`", others=labels(reasons, span), notes=notes, helps=helps,
    )


def size_clash(
    message: str, span: Span, label: str, reasons: tuple[Because, ...],
    helps: tuple[str, ...] = (), notes: tuple[str, ...] = (),
) -> Reported:
    """N0402"""
    return fail(
        "N0402", message, span, label, others=labels(reasons, span), notes=notes, helps=helps
    )


def set_clash(
    what: str, left: str, right: str, span: Span, label: str, reasons: tuple[Because, ...],
    helps: tuple[str, ...] = (), notes: tuple[str, ...] = (),
) -> Reported:
    """N0403"""
    if not helps and left.startswith("Fin(") and re.fullmatch(r"[^()]*\.\.[^()]*", right):
        kept = f"`for … in {right}` keeps the numbers of the range"
        helps = (f"{kept}; a slice, `x[{right}]`, counts from 0",
                 "a parameter `v: k=>…` takes both")  # fmt: skip
    return fail(
        "N0403", f"{what} should be indexed by `{left}`, but it is indexed by `{right}`", span,
        label, others=labels(reasons, span), notes=notes, helps=helps,
    )


def out_of_range(
    table: str, index: str, axis: str, example: str, span: Span, reasons: tuple[Because, ...],
    helps: tuple[str, ...],
) -> Reported:
    """N0404"""
    return fail(
        "N0404", f"`{index}` can fall outside `{axis}`, the axis of `{table}`: {example}", span,
        "not proved to be in range", others=labels(reasons, span), helps=helps,
    )


def no_such_index(
    table: str, index: int | str, axis: str, known: str, span: Span
) -> Reported:
    """N0404"""
    return fail(
        "N0404", f"{index} is outside `{axis}`, the axis of `{table}`", span, known
    )


def literal_index(value: str, own: str, span: Span) -> Reported:
    """N0404"""
    return fail(
        "N0404", f"{value} is not known to be an index of `{own}`", span, f"`{own}` is needed here",
        helps=(f"`({value})?` checks it at run time",),
    )


def stands_for_a_type(name: str) -> str:
    """What a lower-case name of a signature is, and how it becomes an index set."""
    return (
        f"`{name}` stands for a type, since it indexes nothing in the signature; "
        f"`where {name}: Ix` says that it is an index set"
    )


def elements_of(name: Span | None) -> tuple[str, ...]:
    """What `i` of `for i in x` is, where it is taken for an index."""
    over = name and re.match(r"\s+in\s+(\w+)\b(?![(.\[])", name.source.text[name.end :])
    if not name or not over:
        return ()
    bound = f"`for {name.text} in {over[1]}` goes through the elements of `{over[1]}`"
    return (f"{bound}; `for {name.text}`, through its indices",)


def not_an_index(
    text: str, found: str, axis: str, span: Span, generic: bool = False, element: Span | None = None
) -> Reported:
    """N0405. `generic` says that it is of a type that the caller chooses; `element`, where a name
    is bound to the elements of a table."""
    label, said = f"this is `{found}`", text
    helps: tuple[str, ...] = ()
    if generic:
        helps = (stands_for_a_type(found),)
    elif found == "Float" or found in ("F32", "F64"):
        helps = elements_of(element) or (
            f"`Int({text})` truncates to an integer; checked at run time: `Int({text})?`",
        )
    elif found.endswith("Bool"):
        table = _TABLE.search(span.source.text[: span.start])
        kept = f"{table[1] if table else 'x'}[i] for i if {f'{text}[i]' if '=>' in found else '…'}"
        helps = (f"the elements where it holds are `[{kept if text.isidentifier() else _KEPT}]`",)
    elif "=>" in found and found.rpartition("=>")[2] not in ("Float", "F32", "F64"):
        k = "k?" if found.rpartition("=>")[2] in INTEGERS else "k"
        whole = f"[x[{k}] for k in {text}]"
        if found.count("=>") == 2:
            whole = f"[[x[{k}] for k in row] for row in {text}]"
        helps = (f"the elements at all of them are `{whole}`",)
    elif found in INTEGERS:
        label = f"`{found}`, which could be any number"
        short = text if len(text) <= _LONG else "k"
        meant = text.removesuffix("?")  # which binds before an operator, where all was meant
        if meant != text and not meant.isidentifier() and "?" not in meant:
            short = text = meant
        changed = _CHANGED.match(span.source.text, span.end)
        get = "" if changed else f"; `.get({short}, default)` gives a default outside"
        helps = (
            f"`{postfix(short)}?` checks it at run time; `clamp({short})` and `wrap({short})` "
            f"bring it into range{get}",
        )
        if short != text:
            helps = (f"of `k = {text}`, {helps[0]}",)
        choice = _CHOICE.fullmatch(text)
        table = _TABLE.search(span.source.text[: span.start])
        if choice and table:
            one, other = (f"{table[1]}[{index}]" for index in choice.group(1, 3))
            helps = (f"choose the element, not its index: `{one} if {choice[2]} else {other}`",)
        elif not text.isidentifier():
            helps = (*helps, name_first(text, _part(text)))
    return fail(
        "N0405", f"`{said}` is `{found}`, not an index of `{axis}`", span, label, helps=helps
    )

_KEPT = "x[i] for i if …"
_LONG = 40  # what is longer is not written three times
_CHOICE = re.compile(r"(.+?) if (.+?) else (.+)")
_TABLE = re.compile(r"(\w+)\[$")
_CHANGED = re.compile(r"[^\]\n]*\] *(:=|[-+*/]+=)")
_READ = re.compile(r"\w+\[[^][]*\]")


def _part(text: str) -> str:
    """What is read of a table in an expression, or all of it."""
    read = _READ.search(text)
    return read[0] if read else text


def name_first(text: str, part: str) -> str:
    """How what a condition says of something computed is known of it."""
    if text.count(part) == 0:
        part = text
    then = "" if part == text else f", and then `{text.replace(part, 'e')}`"
    return f"what a condition says of `{part}` is known once it has a name: `e = {part}`{then}"


INTEGERS = ("Int", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64")


def with_type(held: Span, many: int, cell: str = "Int") -> str:
    """How the value of a `with` gets as many elements: with its line, if that has a name for it."""
    text = held.source.text
    start = text.rfind("\n", 0, held.start) + 1
    line = text[start : text.find("\n", held.end) if "\n" in text[held.end :] else None]
    named = re.match(r"\s*(\w+) = (with [^,]*(?:\([^()]*\)[^,]*)* as \w+:)", line)
    if named and named[2].count(" as ") == 1:
        return f"`{named[1]}: Fin({many})=>{cell} = {named[2]}`"
    return f"`total: Fin({many})=>{cell} = with {held.text}:`"


def unknown_axis(text: str, found: str, table: str, held: Span | None, span: Span) -> Reported:
    """N0405, of a table that has as many elements as its indices say. `held`: its handler"""
    many = 1 << int(found[1:]) if found in ("U8", "U16") else 8
    typed = f"`{table}: Fin({many})=>Int = …`" if held is None else with_type(held, many)
    if found in ("U8", "U16"):
        label = f"`{found}`, which indexes {many} elements"
        how = f"{typed} has an element for each of them"
    else:
        label = f"`{found}`, which could be any number"
        how = (
            f"write how many where `{table}` is made, as in {typed}; then "
            f"`{table}[{postfix(text)}?]` checks the index at run time"
        )
    return fail(
        "N0405", f"`{text}` is `{found}`, and nothing says how many elements `{table}` has", span,
        label, helps=(how,),
    )



def unknown_end(text: str, span: Span) -> Reported:
    """N0406"""
    return fail(
        "N0406", f"nothing says where `{text}` ends", span, "no end",
        notes=("an end is taken from bare uses such as `x[i]` and from the expected type, never "
               "from arithmetic",),
        helps=(f"give it: `{text}n` ends before `n`",),
    )


def unknown_range(name: str, axis: str | None, span: Span) -> Reported:
    """N0406. The axis that what is made of it is brought into is a guess."""
    how = f"`{name} in {axis}`" if axis is not None else f"`{name} in Fin(…)`"
    return fail(
        "N0406", f"nothing says what `{name}` ranges over", span, "no range",
        notes=("a range is taken from bare uses such as `x[i]` and from the expected type, never "
               "from arithmetic",),
        helps=(f"give it: {how}, or `{name} in xs` for the elements of an array",),
    )


def range_by_another(name: str, shown: str, other: str, span: Span) -> Reported:
    """N0406"""
    return fail(
        "N0406", f"`{name}` would range over `{shown}`, which depends on another `{other}`", span,
        f"not in the loop over that `{other}`",
        notes=("a range that is not given is taken from what the index is used for",),
        helps=(f"give it: `{name} in Fin(…)`",),
    )


def range_from_inside(span: Span) -> Reported:
    """N0406"""
    text = " ".join(span.text.split())
    return fail(
        "N0406", f"a loop ranges over a row that `{text}` chooses inside of it", span,
        "not known before the loop",
        helps=(f"choose it before, under a name: `row: Fin(…) = {text}`",),
    )


def not_a_set(text: str, found: str, span: Span, declared: bool = False) -> Reported:
    """N0407; `declared` if it is a struct or an enum with fields."""
    helps: tuple[str, ...] = ()
    if declared:
        helps = (f"`instance Ix({text})` makes it one, if its fields are elements of index sets",)
    elif found in ("Int", "a number"):
        helps = (_numbers_below(text),)
    elif text.startswith("(") and "=>" in found:
        helps = ("tables are read together at one index: `… x[i] … y[i] … for i`",)
    elif re.fullmatch(r"\(\w+(, \w+)+\)", text):
        helps = (f"axes stand side by side, without parentheses: `{text[1:-1]}`",)
    elif found == "no index set" and text.isidentifier():
        helps = (f"`Fin({text})` in the signature makes it the size of one",)
    what = found if found.startswith("no ") else f"{found}, not an index set or an array"
    return fail("N0407", f"`{text}` is {what}", span, "cannot be ranged over", helps=helps)


def _numbers_below(text: str) -> str:
    if not re.fullmatch(r"\w+", text):
        return f"`Fin({text})` is the set of as many numbers, from 0"
    last = str(int(text) - 1) if text.isdecimal() else f"{text}-1"
    return f"`Fin({text})` is the set 0 … {last}"


def no_stride(text: str, method: Span, span: Span) -> Reported:
    """N0407: of a number, `n.by(3)`."""
    step = span.source.text[method.start : span.end]
    return fail(
        "N0407", f"`{text}` is a number, not an index set", span, "no set to take a stride of",
        helps=(f"`Fin({text}).{step}` goes through 0 … {text}-1",),
    )


def not_a_type(text: str, found: str, span: Span) -> Reported:
    """N0407"""
    helps: tuple[str, ...] = ()
    if found == "a number":
        helps = (_numbers_below(text),)
    elif text.startswith("["):
        helps = (f"an array of them is `n=>{text[1:-1]}`, where `n` is the set of its indices",)
    elif array := re.fullmatch(r"(\w+)\[([^][]+)\]", text):
        axes = "".join(f"{n.strip()}=>" for n in array[2].split(","))
        helps = (f"an array is `{axes}{array[1]}`",)
    return fail("N0407", f"`{text}` is {found}, not a type", span, "a type stands here",
                helps=helps)


def not_a_size(text: str, found: str, span: Span) -> Reported:
    """N0407"""
    helps: tuple[str, ...] = ()
    if found == "Int":
        names = chain(("count", "k"), (f"k{n}" for n in count(1)))
        name = next(x for x in names if not re.search(rf"\b{x}\b", text))
        helps = (f"name it first: `{name} = {text}`", f"`0..{text}` is a range of as many")
        if "**" in text or "<<" in text:
            helps += (f"in a signature, `Fin(m)` and then `assert m == {text}`",)
    quotient = re.fullmatch(r"(\w+) / (\w+)", text)
    if found == "Float" and quotient:
        helps = (f"`{quotient[1]} // {quotient[2]}` is the whole quotient",)
    elif found == "Float":
        helps = (f"what holds of a number is asked in the run: `assert {text} > 0`, for instance",)
    return fail(
        "N0407", f"a size is made of integers and sizes, and `{text}` is `{found}`", span,
        "not a size", helps=helps,
    )


def tuple_axis(table: str, indices: str, axis: str, span: Span) -> Reported:
    """N0408"""
    return fail(
        "N0408", f"`{table}` has one axis that is indexed by tuples", span, f"the axis is `{axis}`",
        helps=(f"write `{table}[({indices})]`",),
    )


def recast_sizes(old: str, new: str, left: str, right: str, span: Span) -> Reported:
    """N0409"""
    return fail(
        "N0409", f"`{old} as {new}` needs equally many elements, but {left} is not {right}", span,
        "the same data must fit",
        helps=("`as T?` checks it at run time", "`assert` states what you know of the sizes"),
    )


def fact_fails(function: str, fact: str, span: Span, declared: Span) -> Reported:
    """N0410"""
    others = () if declared.source.name == "<builtin>" else (Label(declared, "required here"),)
    return fail(
        "N0410", f"`{function}` needs `{fact}`, which is not known here", span, "called here",
        others=others,
        helps=(f"`assert {fact}` above, or `where {fact}` in the signature, or an `if` says so",),
    )


def fact_false(
    function: str, fact: str, here: dict[str, Size], span: Span, declared: Span
) -> Reported:
    """N0410"""
    others = () if declared.source.name == "<builtin>" else (Label(declared, "required here"),)
    values = " and ".join(f"`{name}` is {value.constant}" for name, value in here.items())
    return fail(
        "N0410", f"`{function}` needs `{fact}`, but {values} here", span, "called here",
        others=others,
    )


def local_size(what: str, size: str, span: Span) -> Reported:
    """N0411"""
    return fail(
        "N0411", f"the size of {what} is `{size}`, which is only known inside", span,
        "its type would mention a name that ends here",
        helps=("make the size a parameter (`k: Int` and `-> Fin(k)=>…`)",),
    )


def implicit_missing(function: str, name: str, is_set: bool, span: Span) -> Reported:
    """N0412"""
    how = "`{0}=Fin(…)`" if is_set else "`{0}=…`, a number"
    return fail(
        "N0412", f"no argument of `{function}` says what `{name}` is", span, "called here",
        helps=(f"give it by keyword: {how.format(name)}",),
    )


def negative_index(table: str, text: str, span: Span) -> Reported:
    """N0413"""
    back = text.lstrip("-")
    return fail(
        "N0413", f"`{text}` is a negative index, and indices count from 0", span,
        "before the first element",
        helps=(
            f"from the end: `{table}[(size({table}) - {back})?]`, which checks that there is one; "
            f"`{table}[size({table}) - {back}]` where that is known",
        ),
    )


def slice_range(
    text: str, axis: str, why: str, needs: str, span: Span, inside: str = ""
) -> Reported:
    """N0414. `inside`: the range kept inside, where an index that is bound here says its ends"""
    says = f"`assert {needs}` above, or `where {needs}` in the signature, says so"
    never = re.fullmatch(r"(-?\d+) >= (-?\d+)", needs)
    if never and int(never[1]) < int(never[2]):  # it could only be false
        says = f"a slice of `{axis}` lies in it, and ends where it begins or behind"
        if re.search(r"(^|\.\.=?)-\d", text):
            table = _TABLE.search(span.source.text[: span.start])
            name = table[1] if table else "x"
            back = re.sub(r"(^|\.\.=?)-(\d)", rf"\1size({name}) - \2", text)
            says = f"from the end it is `{name}[{back}]`"
    elif inside:
        says = f"`{inside}` ends where the table does; an `if` with `{needs}` around it keeps it in"
    return fail(
        "N0414", f"the slice `{text}` is not proved to lie in `{axis}`: {why}", span,
        "not proved to be in range", helps=(says,),
    )


def not_a_value(text: str, what: str, span: Span) -> Reported:
    """N0415"""
    helps = {
        "a range": (f"it stands after `in` or in brackets: `for i in {text}`, `x[{text}]`",),
        "an index set": (f"its elements are `[i for i in {text}]`",),
        "a type": (stands_for_a_type(text),) if re.fullmatch(r"[a-z]\w*", text) else (),
    }
    return fail(
        "N0415", f"`{text}` is {what}, not a value", span, f"{what} has no value",
        helps=helps.get(what, ()),
    )


def true_division(text: str, left: str, right: str, span: Span) -> Reported:
    """N0417"""
    return fail(
        "N0417", f"`{text}` is no index, because `/` is true division", span,
        "the result is a `Float`", helps=(f"floor division: `{left} // {right}`",),
    )
