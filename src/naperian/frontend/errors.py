"""One function per thing the front end has to tell the user; the syntax errors are in `surface`.

Codes: N02 names and modules, N03 types, N04 sizes and index sets, N05 lifting. Each has a page
`docs/errors/<code>.md`. Later parts of the language have their own modules, `…_errors.py`.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

from naperian.dtypes import DType
from naperian.frontend.report import Reported as Reported
from naperian.frontend.report import Silent as Silent
from naperian.frontend.report import both, either, fail, labels, plural
from naperian.frontend.unknowns import Because
from naperian.sizes import Size
from naperian.source import Label, Span

# ---------------------------------------------------------------- names and modules


def unknown_name(name: str, span: Span, known: list[str]) -> Reported:
    """N0201"""
    close = get_close_matches(name, known, 3, 0.7)
    helps = (f"did you mean {either(close)}?",) if close else ()
    if len(name) == 1 and re.search(r"[\w\])]\[(\w+, )*$", span.source.text[: span.start]):
        helps = (f"an index is bound by `for`: `[… for {name}]`, or `sum(… for {name})`",)
    return fail("N0201", f"there is no `{name}` here", span, "not defined", helps=helps)


def unknown_member(module: str, name: str, span: Span, known: list[str]) -> Reported:
    """N0202"""
    close = get_close_matches(name, known, 3, 0.6)
    helps = (f"did you mean {either(close)}?",) if close else ()
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
    return fail(
        "N0206",
        f"`{name}` of the enclosing block cannot be changed inside {kind}",
        span,
        "this would make a new name that ends with the block",
        others=(Label(outer, f"`{name}` is bound here"),),
        helps=(
            f"to add up: `{name} = sum(… for i)`; to carry a value: `loop {name} = … for i in …:`; "
            "for a new value, choose another name",
        ),
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


def not_yet(what: str, span: Span) -> Reported:
    """N0208"""
    return fail(
        "N0208", f"{what} cannot be compiled by this version", span, "parsed, but not supported yet"
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
        helps=("name it (`result = …`), or put it into a `def`",),
    )


def no_field(text: str, found: str, field: str, span: Span, hint: str) -> Reported:
    """N0212"""
    return fail(
        "N0212", f"`{text}` has no field `{field}`", span, f"`{text}` is `{found}`",
        helps=(hint,) if hint else (),
    )


# ---------------------------------------------------------------- types


def wrong_type(context: str, wanted: str, found: str, span: Span, others: tuple[Label, ...] = (),
               helps: tuple[str, ...] = (), notes: tuple[str, ...] = ()) -> Reported:
    """N0301"""
    return fail(
        "N0301",
        f"{context} should be `{wanted}`, but it is `{found}`",
        span,
        f"this is `{found}`",
        others=others,
        helps=(*helps, "the first of a tuple: `(value, _) = …`") if found.startswith(f"({wanted}, ")
        else helps,
        notes=notes,
    )


def arity(name: str, wanted: int, found: int, span: Span, signature: str) -> Reported:
    """N0302"""
    return fail(
        "N0302",
        f"`{name}` takes {plural(wanted, 'argument')}, but {found} "
        f"{'was' if found == 1 else 'were'} given",
        span,
        "called here",
        notes=(f"`{name} : {signature}`",),
    )


def lambda_arity(wanted: int, found: int, expected: str, span: Span) -> Reported:
    """N0302"""
    return fail(
        "N0302",
        f"this `lambda` takes {plural(found, 'argument')}, but it is called with {wanted}", span,
        f"takes {plural(found, 'argument')}",
        notes=(f"a function of type `{expected}` stands here",),
    )


def unknown_keyword(function: str, name: str, span: Span, known: list[str]) -> Reported:
    """N0303"""
    close = get_close_matches(name, known, 1, 0.5)
    helps = (f"did you mean `{close[0]}`?",) if close else ()
    notes = (f"its parameters are {both(known)}",) if known else ()
    return fail(
        "N0303", f"`{function}` has no parameter `{name}`", span, "not a parameter",
        notes=notes, helps=helps,
    )


def no_keyword(function: str, name: str, span: Span, helps: tuple[str, ...]) -> Reported:
    """N0303"""
    return fail(
        "N0303", f"`{function}` has no parameter `{name}`", span, "not a parameter", helps=helps
    )


def not_a_table_argument(function: str, text: str, found: str, span: Span) -> Reported:
    """N0307"""
    return fail(
        "N0307", f"`{function}` needs an array, but `{text}` is `{found}`", span,
        f"this is `{found}`",
    )


def missing_argument(function: str, name: str, span: Span, signature: str) -> Reported:
    """N0304"""
    return fail(
        "N0304", f"`{function}` is called without its argument `{name}`", span, "called here",
        notes=(f"`{function} : {signature}`",),
    )


def argument_twice(function: str, name: str, span: Span) -> Reported:
    """N0305"""
    return fail("N0305", f"`{function}` gets its argument `{name}` twice", span, "again here")


def not_a_function(text: str, found: str, span: Span, hidden: bool = False) -> Reported:
    """N0306"""
    helps: tuple[str, ...] = ()
    notes = (f"this `{text}` hides the module's own `{text}`",) if hidden else ()
    if "=>" in found:
        helps = (f"an array is indexed with brackets: `{text}[…]`",)
    return fail(
        "N0306", f"`{text}` is not a function, so it cannot be called", span,
        f"this is `{found}`", notes=notes, helps=helps,
    )


def not_a_table(text: str, found: str, span: Span) -> Reported:
    """N0307"""
    helps: tuple[str, ...] = ()
    if "->" in found:
        helps = (
            f"a function is called with parentheses, `{text}(…)`; the type of an array is "
            "written with `=>`",
        )
    elif found.startswith("("):
        helps = (f"a tuple is taken apart: `(a, b) = {text}`",)
    return fail(
        "N0307", f"`{text}` is not an array, so it cannot be indexed", span,
        f"this is `{found}`", helps=helps,
    )


def too_many_indices(text: str, found: str, wanted: int, given: int, span: Span) -> Reported:
    """N0308"""
    return fail(
        "N0308",
        f"`{text}` has {plural(wanted, 'axis').replace('axiss', 'axes')}, "
        f"but {given} indices were given",
        span, f"`{text}` is `{found}`",
    )


def operand(op: str, needs: str, found: str, span: Span, helps: tuple[str, ...] = ()) -> Reported:
    """N0309"""
    if op == "^" and not helps:
        helps = ("a power is `x ** y`",)
    return fail(
        "N0309", f"`{op}` works on {needs}, not on `{found}`", span, f"this is `{found}`",
        helps=helps,
    )


def no_common_type(op: str, left: str, right: str, span: Span, a: Span, b: Span) -> Reported:
    """N0310"""
    return fail(
        "N0310",
        f"`{op}` of `{left}` and `{right}`: no type holds the values of both",
        span, "which one should be converted?",
        others=(Label(a, f"`{left}`"), Label(b, f"`{right}`")),
        helps=(f"convert one side, for example `{_converter(left, right)}(…)`",),
    )


def different_enums(op: str, left: str, right: str, span: Span, a: Span, b: Span) -> Reported:
    """N0310"""
    return fail(
        "N0310", f"`{op}` compares `{left}` with `{right}`, and different enums have no order or "
        "equality between them", span, "both sides must be of one enum",
        others=(Label(a, f"`{left}`"), Label(b, f"`{right}`")),
        helps=("`Int(…)` of both compares their positions",),
    )


def _converter(left: str, right: str) -> str:
    return "Float" if "F" in left + right else "Int" if left == "U64" else right


def occurs(text: str, span: Span, found: str) -> Reported:
    """N0311"""
    return fail(
        "N0311", f"the type of `{text}` would contain itself", span,
        f"needs to be both itself and `{found}`",
        notes=("a function cannot be its own argument, and an array cannot be its own element",),
    )


def narrowing(context: str, wanted: str, found: str, span: Span) -> Reported:
    """N0312"""
    how = {
        "Int": "`Int(x)` truncates; `floor(x)` and `round(x)` stay Float",
        "F32": "`F32(x)` rounds",
        "Float": "`Float(x)` converts",
    }.get(wanted, f"`{wanted}(x)` converts and checks that the value fits")
    return fail(
        "N0312", f"{context} should be `{wanted}`, and `{found}` does not become that by itself",
        span, f"this is `{found}`", helps=(how,),
    )


def undetermined(text: str, span: Span) -> Reported:
    """N0313"""
    return fail(
        "N0313", f"nothing says what type {text} has", span, "type not determined",
        helps=("give it a type: `name: type = …` or an annotated parameter",),
    )


def condition_type(found: str, span: Span) -> Reported:
    """N0314"""
    helps: tuple[str, ...] = ()
    if found in ("Int", "Float") or "Fin" in found:
        helps = ("compare it: `… != 0`",)
    if found.endswith("=>Bool"):
        helps = (
            "element by element: `a if condition else b`, on one line; for one answer: "
            "`all(…)` or `any(…)`",
        )
    return fail(
        "N0314", f"a condition is `Bool`, but this is `{found}`", span, f"`{found}`", helps=helps
    )


def branches(then: str, other: str, a: Span, b: Span) -> Reported:
    """N0315"""
    return fail(
        "N0315", f"the two sides of this `if` have different types, `{then}` and `{other}`",
        b, f"`{other}`", others=(Label(a, f"`{then}`"),),
    )


def elements(first: str, other: str, a: Span, b: Span) -> Reported:
    """N0316"""
    return fail(
        "N0316", f"all items of a table have one type, but here are `{first}` and `{other}`",
        b, f"`{other}`", others=(Label(a, f"`{first}`"),),
    )


def needs_else(span: Span, found: str) -> Reported:
    """N0317"""
    return fail(
        "N0317", "this `if` has a value but no `else`", span,
        f"`{found}` if true, nothing if false",
        helps=("add `else:`, or drop the value: `_ = …`",),
    )


def literal_range(value: int, kind: DType, span: Span) -> Reported:
    """N0318"""
    dtype = kind.surface_name
    low = 0 if kind.is_unsigned else -(1 << (kind.bits - 1))
    high = (1 << (kind.bits - (0 if kind.is_unsigned else 1))) - 1
    return fail(
        "N0318", f"{value} is not a value of `{dtype}`", span, f"used as `{dtype}` here",
        notes=(f"`{dtype}` holds {low} … {high}",),
        helps=(f"as a `Float`: `{value}.0`",) if dtype == "Int" else (),
    )


def pattern_shape(count: int, found: str, span: Span, is_table: bool = False) -> Reported:
    """N0319"""
    return fail(
        "N0319", f"this pattern takes {plural(count, 'item')} apart, but the value is `{found}`",
        span, f"does not fit `{found}`",
        helps=("the elements of an array are read by their index, `x[0]`",) if is_table else (),
    )


def refutable(span: Span) -> Reported:
    """N0320"""
    return fail(
        "N0320", "the left side of `=` must be a name or a tuple of names", span, "may not match",
        helps=("choose with `if` or `match`",),
    )


def non_exhaustive(missing: list[str], span: Span) -> Reported:
    """N0321"""
    return fail(
        "N0321", f"this `match` does not say what happens for {both(missing)}",
        span, "not all cases are covered", helps=("add the missing cases, or `case _:`",),
    )


def unreachable_case(span: Span) -> Reported:
    """N0322"""
    return fail("N0322", "this case is never reached", span, "the cases above cover everything")


def no_value(span: Span) -> Reported:
    """N0323"""
    return fail(
        "N0323", "this block ends without a value", span, "the last line should be an expression",
        helps=("end with the value itself",),
    )


def unused_value(span: Span, found: str) -> Reported:
    """N0324"""
    return fail(
        "N0324", "the value of this line is used nowhere", span, f"a `{found}` that is thrown away",
        helps=("bind it to a name, or remove the line",),
    )


def text_as_data(span: Span) -> Reported:
    """N0325"""
    return fail(
        "N0325", "a string is a message, not data", span, "strings stand only in `assert`",
    )


# ---------------------------------------------------------------- sizes and index sets


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


def no_such_index(table: str, index: int, axis: str, known: str, span: Span) -> Reported:
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


def not_an_index(
    text: str, found: str, axis: str, span: Span, generic: bool = False
) -> Reported:
    """N0405. `generic` says that it is of a type that the caller chooses."""
    label = f"this is `{found}`"
    helps: tuple[str, ...] = ()
    if generic:
        helps = (
            f"`{found}` stands for a type, since it indexes nothing in the signature; "
            f"`Fin({found})` is an index set",
        )
    elif found == "Float" or found in ("F32", "F64"):
        helps = (f"`Int({text})` truncates to an integer; checked at run time: `Int({text})?`",)
    elif found.endswith("Bool"):
        helps = ("the elements where it holds are `[x[i] for i if …]`",)
    elif found in _INTEGERS:
        label = f"`{found}`, which could be any number"
        helps = (
            f"`{postfix(text)}?` checks it at run time; `clamp({text})` and `wrap({text})` bring "
            f"it into range; `.get({text}, default)` gives a default outside",
        )
    return fail(
        "N0405", f"`{text}` is `{found}`, not an index of `{axis}`", span, label, helps=helps
    )


_INTEGERS = ("Int", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64")


def postfix(text: str) -> str:
    """An expression before `?`, `.` or `[`: in parentheses unless nothing in it binds less."""
    return text if re.fullmatch(r"\w+(\[[^\[\]]*\]|\([^()]*\))*", text) else f"({text})"


def unknown_range(name: str, span: Span) -> Reported:
    """N0406"""
    return fail(
        "N0406", f"nothing says what `{name}` ranges over", span, "no range",
        notes=("a range is taken from bare uses such as `x[i]` and from the expected type, never "
               "from arithmetic",),
        helps=(f"give it: `{name} in Fin(…)`, or `{name} in xs` for the elements of an array",),
    )


def not_a_set(text: str, found: str, span: Span) -> Reported:
    """N0407"""
    helps: tuple[str, ...] = ()
    if found in ("Int", "a number"):
        helps = (f"`Fin({text})` is the set 0 … {text}-1",)
    elif found == "no index set" and text.isidentifier():
        helps = (f"`Fin({text})` in the signature makes it the size of one",)
    what = found if found.startswith("no ") else f"{found}, not an index set or an array"
    return fail("N0407", f"`{text}` is {what}", span, "cannot be ranged over", helps=helps)


def not_a_type(text: str, found: str, span: Span) -> Reported:
    """N0407"""
    helps: tuple[str, ...] = ()
    if found == "a number":
        helps = (f"`Fin({text})` is the set 0 … {text}-1",)
    elif text.startswith("["):
        helps = (f"an array of them is `n=>{text[1:-1]}`, where `n` is the set of its indices",)
    return fail("N0407", f"`{text}` is {found}, not a type", span, "a type stands here",
                helps=helps)


def not_a_size(text: str, found: str, span: Span) -> Reported:
    """N0407"""
    helps = (f"name it first: `k = {text}`",) if found == "Int" else ()
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
        others=others, helps=("`assert` it, or call under an `if` that says so",),
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


def implicit_missing(function: str, name: str, span: Span) -> Reported:
    """N0412"""
    return fail(
        "N0412", f"no argument of `{function}` says what `{name}` is", span, "called here",
        helps=(f"give it by keyword: `{name}=Fin(…)`",),
    )


def negative_index(table: str, text: str, span: Span) -> Reported:
    """N0413"""
    return fail(
        "N0413", f"`{text}` is a negative index, and indices count from 0", span,
        "before the first element",
        helps=(f"from the end: `{table}[size({table}) - {text.lstrip('-')}]`",),
    )


def slice_range(text: str, axis: str, why: str, span: Span) -> Reported:
    """N0414"""
    return fail(
        "N0414", f"the slice `{text}` is not proved to lie in `{axis}`: {why}", span,
        "not proved to be in range",
        helps=("state what you know with `assert`, or `clamp` its ends",),
    )


def not_a_value(text: str, what: str, span: Span) -> Reported:
    """N0415"""
    helps = {
        "a range": (f"it stands after `in` or in brackets: `for i in {text}`, `x[{text}]`",),
        "an index set": (f"its elements are `[i for i in {text}]`",),
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


# ---------------------------------------------------------------- lifting


def frames(
    name: str, items: tuple[tuple[Span, str, str], ...], span: Span, why: str,
    helps: tuple[str, ...] = (),
) -> Reported:
    """N0501"""
    return fail(
        "N0501", f"the arguments of {name} do not line up: {why}", span,
        "applied to each element, so the frames must line up",
        others=tuple(Label(s, f"`{t}`, frame {f}") for s, t, f in items), helps=helps,
    )


def ambiguous(
    name: str, span: Span, axis: str, argument: tuple[Span, str], candidates: tuple[str, ...]
) -> Reported:
    """N0502"""
    return fail(
        "N0502",
        f"{name} can line up `{axis}` in {len(candidates)} ways, because two axes have the same "
        "index set",
        span, "which axis?", others=(Label(argument[0], f"`{argument[1]}`"),),
        helps=tuple(f"write `{c}`" for c in candidates),
    )


def bad_rank(name: str, rank: str, found: str, span: Span) -> Reported:
    """N0503"""
    return fail(
        "N0503", f"rank {rank} does not fit an argument of type `{found}`", span,
        f"`{found}` has not that many axes",
    )


def rank_count(name: str, wanted: int, found: int, span: Span) -> Reported:
    """N0504"""
    return fail(
        "N0504", f"`{name}~` fixes {plural(found, 'rank')}, but it is called with "
        f"{plural(wanted, 'argument')}", span, "one rank for each argument, or one for all",
    )


def contraction(left: str, right: str, span: Span, a: Span, b: Span, helps: tuple[str, ...],
                why: str) -> Reported:
    """N0505"""
    return fail(
        "N0505", f"`@` joins the last axis on the left with the first on the right: {why}", span,
        "these two axes must be the same", others=(Label(a, f"`{left}`"), Label(b, f"`{right}`")),
        helps=helps,
    )


def prefix(name: str, items: tuple[tuple[Span, str, str], ...], span: Span) -> Reported:
    """N0506"""
    return fail(
        "N0506", f"with ranks fixed, the frames of {name} must start alike", span,
        "the shorter frame must be a prefix of the longer",
        others=tuple(Label(s, f"`{t}`, frame {f}") for s, t, f in items),
    )
