"""What the front end has to tell of effects: N0680 to N0699."""

from __future__ import annotations

from naperian.frontend.messages.index_errors import with_type
from naperian.frontend.messages.report import Reported, fail
from naperian.source import Label, Span


def reads_accum(name: str, span: Span, made: Span) -> Reported:
    """N0680"""
    return fail(
        "N0680", f"`{name}` is an accumulator, which is only added to until its `with` ends", span,
        "read here", others=(Label(made, "an accumulator"),),
        helps=("use `with state(…)` if the steps depend on each other",),
    )


def accum_is_state(name: str, span: Span, made: Span) -> Reported:
    """N0681"""
    return fail(
        "N0681", f"`{name}` is an accumulator, so it is only added to, with `+=`", span,
        "needs a state", others=(Label(made, "an accumulator"),),
        helps=("use `with state(…)` if the steps depend on each other",),
    )


def adds_whole(text: str, whole: str, span: Span, made: Span) -> Reported:
    """N0681"""
    return fail(
        "N0681",
        f"`{text}` is a part of `{whole}`, which the accumulator adds up by an operator of its own",
        span, "cannot be added to alone", others=(Label(made, "an accumulator"),),
        helps=(f"add a whole `{whole}`, or use `with state(…)` if the steps depend on each other",),
    )  # fmt: skip


def escapes(found: str, span: Span) -> Reported:
    """N0682"""
    return fail(
        "N0682", "a reference ends with its handler and cannot be part of the handler's value",
        span, f"this is `{found}`",
    )


def no_monoid(op: str, span: Span) -> Reported:
    """N0683"""
    return fail(
        "N0683", f"`{op}` is not associative and commutative, so it accumulates nothing", span,
        "the order of the steps would matter",
        helps=("accumulate with `+`, `*`, `min`, `max`, `and`, `or`, or use `with state(…)`",),
    )


def no_unit(op: str, span: Span) -> Reported:
    """N0684"""
    numbers = {"add": "`accum(+)` adds numbers", "mul": "`accum(*)` multiplies numbers"}
    bits = {"&": "-1", "|": "0", "^": "0"}
    given = f"accum({op}, {bits[op]})" if op in bits else "accum(op, unit)"
    help_ = numbers.get(op, f"give the unit: `{given}`")
    return fail(
        "N0684", f"what an accumulator with `{op}` holds at first is not known", span,
        "no unit", helps=(help_,),
    )


def no_operator(text: str, found: str, span: Span) -> Reported:
    """N0684"""
    return fail(
        "N0684", f"an accumulator is given an operator, and `{text}` is `{found}`", span,
        "no operator",
        helps=("`with accum() as r:` begins with 0 and adds, `with state(x) as r:` with `x`",),
    )


def no_reference(text: str, span: Span) -> Reported:
    """N0685"""
    return fail(
        "N0685", f"`{text}` is no reference, so nothing can be written to it", span,
        "names and arrays never change",
        helps=("`with state(x) as s:` makes a copy that can be written to",),
    )


def unnamed_handler(how: str, span: Span) -> Reported:
    """N0686"""
    return fail("N0686", f"`with {how}(…)` gives its reference no name", span, "write `as r`")


def handler_arguments(how: str, span: Span) -> Reported:
    """N0686"""
    wanted = "one argument, the first contents" if how == "state" else "an operator and its unit"
    return fail("N0686", f"`{how}` takes {wanted}", span, "not like this")


def unknown_handler(span: Span) -> Reported:
    """N0686"""
    return fail(
        "N0686", f"`{span.text}` handles no effect", span,
        "the handlers are `accum(…)`, `state(…)` and `except`",
    )


def undetermined_accum(name: str, span: Span, cell: str = "") -> Reported:
    """N0687. `cell`: of a table of which only the number of elements is not known, its elements"""
    if cell:
        return fail(
            "N0687", f"nothing says how many elements the accumulator `{name}` has", span,
            "not determined by its indices",
            helps=(f"write how many, as in {with_type(span, 8, cell)}",),
        )
    return fail(
        "N0687", f"nothing says what type the accumulator `{name}` has", span,
        "not determined by what is added to it",
        helps=("give its value a type: `total: n=>Float = with accum() as r: …`",),
    )


def accum_cells(span: Span, found: str) -> Reported:
    """N0688"""
    return fail("N0688", _not_combined(found), span, f"holds `{found}`")


def accum_operator(span: Span, found: str, taken: str) -> Reported:
    """N0688"""
    help = f"give one that combines `{found}`, or accumulate `{taken}` and convert the result"
    return fail(
        "N0688", _not_combined(found), span, f"combines values of type `{taken}`", helps=(help,)
    )


def table_unit(span: Span) -> Reported:
    """N0688"""
    return fail(
        "N0688", f"`{span.text}` is a table, and the unit of an accumulator is that of one element",
        span, "a table",
        helps=("the table's type stands with its name: `h: Fin(8)=>Int = with accum(+, 0) as h:`",),
    )


def _not_combined(found: str) -> str:
    return f"the accumulator's monoid does not combine values of type `{found}`"


def unknown_effect(name: str, span: Span) -> Reported:
    """N0689"""
    return fail(
        "N0689", f"there is no effect `{name}`", span, "in its row",
        helps=("the effects are `State`, `Accum`, `Except` and `IO`",),
    )


def not_in_row(function: str, effect: str, span: Span) -> Reported:
    """N0690"""
    return fail(
        "N0690", f"`{function}` has the effect `{effect}`, which its signature does not have", span,
        helps=(f"add `{effect}` to the row, or leave the row out: it is inferred",),
    )


def gets_no_reference(text: str, span: Span) -> Reported:
    """N0691"""
    return fail(
        "N0691", f"`{text}` is no reference, so `get` has nothing to read", span, "a value already"
    )


def unhandled_throw(span: Span) -> Reported:
    """N0692"""
    return fail(
        "N0692", "this may throw, and neither a `with except:` around it nor a caller handles that",
        span, "nothing handles this",
    )


def method_effect(interface: str, method: str, name: str, span: Span) -> Reported:
    """N0670"""
    return fail(
        "N0670", f"`{method}` has the effect `{name}`, and `{interface}` does not say so", span,
        "whoever calls it knows no instance",
        helps=(f"write `-> {{{name}}} …` in the interface, which holds for every instance",),
    )


def print_keyword(span: Span) -> Reported:
    """N0671"""
    return fail(
        "N0671", "`print` takes texts and values, and shows them on a line of their own", span,
        "neither", helps=("an f-string says how the parts of a line are put together",),
    )


def no_text(found: str, span: Span) -> Reported:
    """N0672"""
    return fail("N0672", "what is no data cannot be printed", span, f"this is `{found}`")


def no_world(span: Span) -> Reported:
    """N0673"""
    return fail(
        "N0673", "this prints, and nothing says when: it is part of a constant",
        span, "has the effect `IO`",
    )


def fixed_message(condition: str, message: str, span: Span) -> Reported:
    """N0674"""
    return fail(
        "N0674", "what an `assert` tells is known before the run: a text without values", span,
        "depends on the run",
        helps=(f"show it before: `if not ({condition}): print({message})`",),
    )
