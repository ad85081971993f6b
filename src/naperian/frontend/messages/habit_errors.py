"""Names of NumPy, Python and JAX that are not here, and how it is said instead: N0211."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from naperian.frontend.messages.library_names import in_library
from naperian.frontend.messages.report import Reported, fail
from naperian.source import Span

_STATE = "a table is made as a whole, `[e for i]`; what changes is a `with state(x) as s:`"
_CHANGED = (
    "a table with another element is a new one, `[v if j == i else x[j] for j]`; in place, "
    "`with state(x) as s:` and `s[i] := v`"
)
_JOIN = "`[*a, *b]` joins tables, and `[a, b]` makes rows of them"
_RECAST = "`x as (n, m)=>Float` and `x as Fin(k)=>Float` see the same data under other index sets"
_LIFTS = "functions lift by themselves: `f(x)` applies `f` to every element"
_RANDOM = "`import random` has keys and distributions: `random.normal(key)`"
_LOOP = "`loop x = x0 for i in Fin(k):`, with or without `while c`, gives the next `x`"
_SWAP = "`transpose(x)`, or name the axes: `[x[i, j, k] for k, i, j]`"
_PLACES = "the places where `p` holds are `[i for i if p]`; `sum(1 for i if p)` counts them"

_HABITS: dict[str, dict[str, str]] = {
    "Python": {
        "enumerate": "bind the index and read the element: `for i: … x[i] …`",
        "zip": "read both at one index: `[f(x[i], y[i]) for i]`",
        "range": "an index set is `Fin(n)`, a range `a..b`: `for i in a..b`",
        "len": "`size(x)` is the size of the first axis",
        "map": _LIFTS,
        "raise": "`throw()` gives up to the `with except:` around; `assert c` stops the run",
        "int": "`Int(x)` truncates",
        "float": "write `Float(x)`",
        "bool": "a comparison says it: `x != 0`",
        "pow": "write `x ** y`",
        "sorted": "write `sort(x)`",
        "append": _STATE,
        "extend": _STATE,
        "pop": _STATE,
        "copy": "a value never changes, so its name is enough",
        "divmod": "write `(x // y, x % y)`",
        "isinstance": "`match` takes values of an enum apart",
        "pass": "nothing is `()`",
        "break": "`loop … while c:` ends where `c` does not hold",
        "continue": "a round's value is the next one: `x if c else …`",
        "math": "functions are called by their own names, as `exp(x)`",
    },
    "NumPy": {
        "np": "functions are called by their own names, as `exp(x)`",
        "numpy": "functions are called by their own names, as `exp(x)`",
        "reshape": _RECAST, "ravel": _RECAST, "flatten": _RECAST, "squeeze": _RECAST,
        "maximum": "write `max(a, b)`", "fmax": "write `max(a, b)`", "amax": "write `max(x)`",
        "minimum": "write `min(a, b)`", "fmin": "write `min(a, b)`", "amin": "write `min(x)`",
        "clip": "write `clamp(x, low, high)`",
        "power": "write `x ** y`", "square": "write `x ** 2`", "absolute": "write `abs(x)`",
        "fabs": "write `abs(x)`", "arange": "write `[i for i in Fin(k)]`",
        "arcsin": "write `asin(x)`", "arccos": "write `acos(x)`", "arctan": "write `atan(x)`",
        "arctan2": "write `atan2(y, x)`",
        "ones_like": "write `[1.0 for _ in x]`", "zeros_like": "write `[0.0 for _ in x]`",
        "empty": "write `zeros(n)`", "array": "a table is written `[1.0, 2.0]`",
        "asarray": "a table is written `[1.0, 2.0]`",
        "astype": "the name of a type converts: `F32(x)`, `Int(x)`",
        "var": "write `variance(x)`", "std": "`import stats` has it: `stats.std`",
        "average": "write `mean(x)`", "cumprod": "write `scan((*), 1.0, x)`",
        "concatenate": _JOIN, "stack": _JOIN, "vstack": _JOIN, "hstack": _JOIN,
        "einsum": "write the sum: `[sum(a[i, k] * b[k, j] for k) for i, j]`",
        "tile": "repeat by an index: `[x for _ in Fin(k)]`",
        "repeat": "repeat by an index: `[x for _ in Fin(k)]`",
        "broadcast_to": "nothing has to be repeated: " + _LIFTS,
        "expand_dims": "nothing has to be added: " + _LIFTS,
        "newaxis": "nothing has to be added: " + _LIFTS,
        "swapaxes": _SWAP, "moveaxis": _SWAP,
        "nonzero": _PLACES, "flatnonzero": _PLACES, "argwhere": _PLACES, "count_nonzero": _PLACES,
        "diff": "write `[x[i + 1] - x[i] for i in Fin(n - 1)]`",
        "bincount": "`with accum() as c:` and `for i: c[x[i]] += 1` count",
        "rand": _RANDOM, "randn": _RANDOM, "randint": _RANDOM,
        "logical_and": "write `a and b`", "logical_or": "write `a or b`",
        "logical_not": "write `not a`",
        "roll": "write `rotate(x, -k)`, whose `k` counts to the front",
        "flip": "write `reverse(x)`", "identity": "write `eye(n)`",
        "isclose": "write `abs(a - b) <= tolerance`",
        "allclose": "write `all(abs(a - b) <= tolerance)`",
        "meshgrid": "a table of pairs is one over two names: `[f(x[i], y[j]) for i, j]`",
        "vectorize": _LIFTS, "apply_along_axis": _LIFTS,
        "tril": "write `[x[i, j] if j <= i else 0.0 for i, j]`",
        "triu": "write `[x[i, j] if j >= i else 0.0 for i, j]`",
        "pad": "`[0.0, *x, 0.0]` has an element more at both ends",
    },
    "SciPy": {"scipy": "functions are called by their own names, as `exp(x)`"},
    "JAX": {
        "jnp": "functions are called by their own names, as `exp(x)`",
        "jax": "functions are called by their own names, as `grad(f)`",
        "vmap": _LIFTS, "jit": "everything is compiled", "fori_loop": _LOOP, "while_loop": _LOOP,
        "lax": _LOOP, "set": _CHANGED, "at": _CHANGED,
        "cond": "write `a if c else b`", "jacfwd": "write `jacobian(f)`",
        "jacrev": "write `jacobian(f)`",
    },
}  # fmt: skip
_OF_MANY = {"maximum": "max", "fmax": "max", "minimum": "min", "fmin": "min"}
_FOUND = {name: (whose, help) for whose, names in _HABITS.items() for name, help in names.items()}


_MODULES = ("np", "numpy", "jnp", "jax", "scipy", "math")


def habit(name: str, span: Span, known: Collection[str] = ()) -> Reported | None:
    """N0211, if this is a name from there. `known` are the names that are here."""
    if name not in _FOUND:
        return None
    whose, help = _FOUND[name]
    rest = span.source.text[span.end :]
    if name in _MODULES and (member := re.match(r"(?:\.\w+)*\.(\w+)(\(?)", rest)):
        own, called = member.groups()
        name, span = f"{name}{member[0].rstrip('(')}", replace(span, end=span.end + member.end(1))
        if own in _FOUND:
            help = _FOUND[own][1]
        elif own in known:
            help = f"write `{own}{'(…)' if called else ''}`"
        else:
            help = in_library(own) or help
    elif (many := _OF_MANY.get(name)) and re.match(r"\([^\n]*\bfor\b", rest):
        help = f"write `{many}(… for …)`"
    return fail(
        "N0211", f"{whose}'s `{name}` is not part of this language", span, "not defined",
        helps=(help,),
    )
