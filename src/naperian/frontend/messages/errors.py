"""What the front end has to tell about types (N03), one function per thing; syntax errors are in
`surface`.

Names (N02), index sets (N04), lifting (N05) and later parts of the language have their own
modules, `…_errors.py`. Each code has a page `docs/errors/<code>.md`.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

from naperian.dtypes import DType
from naperian.frontend.messages.report import Reported as Reported
from naperian.frontend.messages.report import Silent as Silent
from naperian.frontend.messages.report import both, fail, opener, plural
from naperian.source import Label, Span


def wrong_type(context: str, wanted: str, found: str, span: Span, others: tuple[Label, ...] = (),
               helps: tuple[str, ...] = (), notes: tuple[str, ...] = ()) -> Reported:
    """N0301"""
    if found.startswith(f"({wanted}, "):
        helps = (*helps, "the first of a tuple: `(value, _) = …`")
    elif found.endswith(f", {wanted})"):
        last = "the last of a tuple: `(_, value) = …`"
        if span.text.startswith("with "):
            last = "this `with` gives a tuple: `(_, value) = with …`, then `value`"
        helps = (*helps, last)
    elif context.endswith("of `transpose`") and found.count("=>") == 1:
        helps = (*helps, "one axis has nothing to change places with; `x @ y` of two vectors is a "
                 "number, and `[x[i] * y[j] for i, j]` all their products")
    return fail(
        "N0301",
        f"{context} should be `{wanted}`, but it is `{found}`",
        span,
        f"this is `{found}`",
        others=others,
        helps=helps,
        notes=notes,
    )


def no_table(found: str, span: Span) -> Reported:
    """N0301"""
    return fail(
        "N0301", f"`as` changes index sets, and `{found}` has none", span, f"this is `{found}`",
        helps=(f"a name is declared with its type: `x: {found} = …`",),
    )


def no_set(
    context: str, wanted: str, name: str, span: Span, others: tuple[Label, ...]
) -> Reported:
    """N0301"""
    return fail(
        "N0301",
        f"{context} should be `{wanted}` for an index set `{name}`, "
        f"and here `{name}` may be any type",
        span,
        f"a `{wanted}` of any `{name}`",
        others=others,
        helps=(f"`where {name}: Ix` behind the result says that it is an index set",),
    )


_FEWER = {
    "round": "to two digits: `round(100.0 * x) / 100.0`",
    "log": "to another base: `log2(x)`, `log10(x)`, or `log(x) / log(b)`",
}


def arity(
    name: str, wanted: int, found: int, span: Span, signature: str, helps: tuple[str, ...] = ()
) -> Reported:
    """N0302"""
    if found > wanted and name in _FEWER and not helps:
        helps = (_FEWER[name],)
    return fail(
        "N0302",
        f"`{name}` takes {plural(wanted, 'argument')}, but {found} "
        f"{'was' if found == 1 else 'were'} given",
        span,
        "called here",
        notes=(f"`{name} : {signature}`",),
        helps=helps,
    )


def lambda_arity(wanted: int, found: int, expected: str, span: Span) -> Reported:
    """N0302"""
    return fail(
        "N0302",
        f"this `lambda` takes {plural(found, 'argument')}, but it is called with {wanted}", span,
        f"takes {plural(found, 'argument')}",
        notes=(f"a function of type `{expected}` stands here",),
    )


_OTHERWISE = {
    ("sort", "reverse"): "descending is `reverse(sort(x))`",
    ("argsort", "reverse"): "descending is `reverse(argsort(x))`",
    **{(f, "argnums"): "`wrt=\"x\"` names a parameter, `wrt=(\"x\", \"y\")` several"
       for f in ("value_and_grad", "jacobian", "hessian")},
    ("grad", "argnums"): "`wrt=\"x\"` names a parameter, `wrt=(\"x\", \"y\")` several",
}


def unknown_keyword(function: str, name: str, span: Span, known: list[str]) -> Reported:
    """N0303"""
    close = get_close_matches(name, known, 1, 0.5)
    helps = (f"did you mean `{close[0]}`?",) if close else ()
    if (function, name) in _OTHERWISE:
        helps = (_OTHERWISE[function, name],)
    elif name == "axis" and not helps:
        helps = (
            f"`{function}(x)` goes along the last axis, and is lifted over those before; "
            f"`{function}(transpose(x))` goes along the first of two",
        )
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


def generator_beside(function: str, first: Span, span: Span) -> Reported:
    """N0137: as the argument of what is called as a method"""
    text = span.text
    return fail(
        "N0137", "`e for i` must be the only argument of a call", span,
        others=(Label(first, "this is an argument, too"),),
        helps=(
            f"`{function}({text})` takes no other; among other arguments, write `[{text}]`",
        ),
    )


def not_a_table_argument(function: str, text: str, found: str, span: Span) -> Reported:
    """N0307"""
    help = "the type of an array is written with `=>`" if " -> " in found else ""
    if found == "number":
        help = "where a parameter is a matrix, its type says so: `x: n=>m=>Float`"
    return fail(
        "N0307", f"`{function}` needs an array, but `{text}` is `{found}`", span,
        f"this is `{found}`",
        helps=(help,) if help else (),
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
    if found.startswith("(") and "->" in found:  # `vjp(f, x)`
        helps = (f"it is taken apart first: `(y, f) = {text}`, then `f(…)`",)
    elif "=>" in found:
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


_OF_BOOLEANS = {"&": "`a and b`", "|": "`a or b`", "~": "`not a`", "^": "`a != b`"}


def row_by_row(op: str) -> str:
    """The help for what is no function of rows that have lengths of their own."""
    done = f"{op}(row)" if op[:1].isalpha() else f"row {op} …"
    return f"rows have lengths of their own, so it is done row by row: `[{done} for row in rows]`"


def operand(op: str, needs: str, found: str, span: Span, helps: tuple[str, ...] = ()) -> Reported:
    """N0309"""
    if found == "_":
        return fail(
            "N0309", f"`{op}` works on {needs}, and nothing says what this is", span,
            "of no known type", helps=("give it its type where it is bound, as `x: Float`",),
        )
    if op == "^" and found != "Bool" and not helps:
        helps = ("a power is `x ** y`",)
    if found == "Bool" and op in _OF_BOOLEANS and not helps:
        helps = (f"of Booleans, element by element too, it is {_OF_BOOLEANS[op]}",)
    if op in ("&", "|") and found == "Float" and not helps:
        helps = (f"`{op}` joins bits, before anything is compared; conditions: {_OF_BOOLEANS[op]}",)
    if needs == "Booleans" and found in ("Int", "Float") and not helps:
        helps = ("compare it: `… != 0`",)
    if found == "Bool" and "numbers" in needs and not helps:
        kind = "Float" if "floating" in needs else "Int"
        helps = (f"`{kind}(c)` is 1 where `c` holds, and 0 elsewhere",)
    if found.startswith("(") and ", " in found and "->" not in found and not helps:
        helps = ("a tuple is taken apart: `(a, b) = …`; those of a table, `for (a, b) in …`",)
    if found.startswith("exists ") and not helps:
        helps = (row_by_row(op),)
    return fail(
        "N0309", f"`{op}` works on {needs}, not on `{found}`", span, f"this is `{found}`",
        helps=helps,
    )


def no_common_type(op: str, left: str, right: str, span: Span, a: Span, b: Span) -> Reported:
    """N0310"""
    label, how = "which one should be converted?", ""
    free = [x for x in (left, right) if re.fullmatch(r"[a-z]\w*", x)]
    if free:
        label = "of types that the caller chooses"
        sets = ", ".join(f"{x}: Ix" for x in free)
        how = (
            f"write `Int` or `Float` for {both(free)}; `where {sets}` says that they are "
            "index sets, whose indices are numbers"
        )
    return fail(
        "N0310",
        f"`{op}` of `{left}` and `{right}`: no type holds the values of both",
        span, label,
        others=(Label(a, f"`{left}`"), Label(b, f"`{right}`")),
        helps=(how or f"convert one side, for example `{_converter(left, right)}(…)`",),
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


def narrowing(
    context: str, wanted: str, found: str, span: Span, start: str = "",
    helps: tuple[str, ...] = (),
) -> Reported:
    """N0312. `start`: how a loop would begin with what its rounds give"""
    if wanted == found == "Float":
        found = "F64"  # `Float` is the precision of the call, which may be less
    how = {
        "Int": "`Int(x)` truncates; `floor(x)` and `round(x)` stay Float",
        "F32": "`F32(x)` rounds",
        "Float": "`Float(x)` converts",
    }.get(wanted, f"`{wanted}(x)` converts and checks that the value fits")
    parts = re.fullmatch(r"(\w+) / (\w+)", span.text)
    if parts and wanted == "Int":
        how = f"`{parts[1]} // {parts[2]}` is the whole quotient; `Int(x)` truncates"
    if context.startswith("argument `key` of `random."):
        how = f"`random.new_key({span.text})` is the key of a seed"
    table = re.fullmatch(r"(zeros|ones)\((.*)\)", span.text)
    if table and wanted == "Int":
        how = f"`full({table[2]}, {int(table[1] == 'ones')})` has whole numbers"
    shift = re.search(r"(\w+ (?:<<|>>)) (?:\(([^()]+)\)|([^\W\d]\w*))", span.text)
    if shift and wanted not in ("Int", "Float"):
        places = f"{wanted}({shift[2] or shift[3]})"
        how = f"`{shift[1]} {places}`: both sides of a shift are of one type"
    return fail(
        "N0312", f"{context} should be `{wanted}`, and `{found}` does not become that by itself",
        span, f"this is `{found}`",
        helps=(f"{start} starts with a {found}", how) if start else helps or (how,),
    )


def undetermined(text: str, span: Span, bare: str = "") -> Reported:
    """N0313. `bare`: what stands before the `?` of an index"""
    helps: tuple[str, ...] = ("give it a type: `name: type = …` or an annotated parameter",)
    if bare:
        helps = (*helps, f"`?` belongs to `{bare}` alone; of a longer index: `(… {bare})?`")
    return fail(
        "N0313", f"nothing says what type {text} has", span, "type not determined", helps=helps
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


def elements(
    first: str, other: str, a: Span, b: Span, helps: tuple[str, ...] = ()
) -> Reported:
    """N0316"""
    return fail(
        "N0316", f"all items of a table have one type, but here are `{first}` and `{other}`",
        b, f"`{other}`", others=(Label(a, f"`{first}`"),), helps=helps,
    )


def needs_else(span: Span, found: str, is_loop: bool) -> Reported:
    """N0317. `is_loop`: its last line is one, which gives what it carries."""
    dropped = "`()` as a last line below the loop drops" if is_loop else (
        "`_ = …`, and `()` as the last line, drop"
    )
    return fail(
        "N0317", "this `if` has a value but no `else`", span,
        f"`{found}` if true, nothing if false",
        helps=(f"add `else:`; {dropped} the value, where the `if` is there for its effects",),
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


def pattern_shape(
    count: int, found: str, span: Span, is_table: bool = False, nested: str = ""
) -> Reported:
    """N0319"""
    helps = ["the elements of an array are read by their index, `x[0]`"] if is_table else []
    if nested:
        helps.append(f"with the brackets of the value: `{nested}`")
    return fail(
        "N0319", f"this pattern takes {plural(count, 'item')} apart, but the value is `{found}`",
        span, f"does not fit `{found}`", helps=tuple(helps),
    )


_NAMES = re.compile(r"\[\w+(, \w+)*\]")


def refutable(span: Span) -> Reported:
    """N0320"""
    helps = ("choose with `if` or `match`",)
    if _NAMES.fullmatch(span.text):
        read = ", ".join(f"v[{k}]" for k in range(span.text.count(",") + 1))
        helps = (f"read the elements of the array, `v`: `({span.text[1:-1]}) = ({read})`",)
    return fail(
        "N0320", "the left side of `=` must be a name or a tuple of names", span, "may not match",
        helps=helps,
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


def no_value(span: Span, name: str | None = None) -> Reported:
    """N0323. `name` is what the last line binds."""
    helps = ("end with the value itself",)
    if name == "_":
        helps = ("`()` as the last line is the value of a block that is there for its effects",)
    elif name is not None and name[0].isupper() and (
        re.search(r"\) *: *$", span.source.text[: span.start])
    ):
        helps = (f"the type of a result stands behind an arrow: `-> {name}`",)
    elif name is not None and opener(span) in ("if", "elif", "else", "case"):
        whole = "match" if opener(span) == "case" else "if"
        helps = (f"a name for what the whole gives stands before it: `{name} = {whole} …:`",)
    elif name is not None and opener(span) == "loop":
        helps = (f"a round ends with the next `{name}` itself",)
    return fail(
        "N0323", "this block ends without a value", span, "the last line should be an expression",
        helps=helps,
    )


def unused_value(span: Span, found: str, pattern: str | None = None) -> Reported:
    """N0324. `pattern`: what takes the value of a `with` apart"""
    helps = ("bind it to a name, or remove the line",)
    if pattern is not None:
        line = span.text.partition("\n")[0]
        helps = (f"bind what the state is in the end: `{pattern} = {line}`",)
    return fail(
        "N0324", "the value of this line is used nowhere", span, f"a `{found}` that is thrown away",
        helps=helps,
    )


def text_as_data(span: Span) -> Reported:
    """N0325"""
    helps: tuple[str, ...] = ()
    if span.text.startswith('"""'):
        helps = ("it is documentation where a line follows that says what the value is",)
    elif re.search(r"\bassert ?\([^\n]*, *$", span.source.text[: span.start]):
        helps = (f"an `assert` has no parentheses: `assert c, {span.text}`",)
    elif span.source.text[span.end :].lstrip(" ").startswith(("%", ".format")):
        helps = ("what is between braces of an f-string is shown: `f\"x is {x}\"`",)
    return fail(
        "N0325", "a string is a message, not data", span,
        "strings stand only in `assert` and `print`", helps=helps,
    )


def endless_loop(span: Span) -> Reported:
    """N0326"""
    return fail(
        "N0326", "this `loop` never ends: it has neither a `for` nor a `while`", span,
        "nothing says how often",
        helps=(f"`{span.text} for _ in Fin(k):` makes `k` rounds, and `{span.text} while c:` as "
               "many as there are until `c` is false",),
    )  # fmt: skip


def while_loop(span: Span) -> Reported:
    """N0326"""
    return fail(
        "N0326", "this `while` could never end: its condition reads nothing that a round changes",
        span, "names do not change",
        helps=(
            "write `loop x = x0 while c:`; the block's value is the next `x`",
            "or change a state: `with state(x0) as x:` around it, and `x := …` in its rounds",
        ),
    )
