"""What the front end says of what the language leaves out on purpose, and why: N0750 to N0769."""

from __future__ import annotations

from naperian.frontend.messages.report import Reported, fail
from naperian.source import Span
from naperian.surface import syntax as s


def rank_unknown(text: str, span: Span) -> Reported:
    """N0750"""
    return fail(
        "N0750", f"`{text}` is a function of values whose axes are known, and here they are not",
        span, "which axes are frame?",
        helps=("write a `def` with the types of its parameters",),
    )


def not_its_default(what: str, why: str, span: Span) -> Reported:
    """N0752"""
    return fail("N0752", f"{what} has no defaults: {why}", span, "a default")


def size_fact(text: str, span: Span) -> Reported:
    """N0753"""
    return fail(
        "N0753", f"`{text}` is no fact about sizes", span,
        "not a comparison with `<`, `<=`, `==`, `>=` or `>`",
        helps=("what holds of values is asserted in the body: `assert …`",),
    )


def default_computed(name: str, span: Span) -> Reported:
    """N0754"""
    return fail(
        "N0754", f"the default of `{name}` is computed, and a default is a number or a name", span,
        "no constant", helps=("give it a name at the top of the module, and write the name here",),
    )


def joined_rows(span: Span) -> Reported:
    """N0755"""
    return fail(
        "N0755", "rows of unequal length are written one by one, as the type says how long each is",
        span, "how many rows are these?",
        helps=("`[[t[i, j] if i < k else u[i, j] for j] for i]` chooses between two tables",),
    )


def local_fact(span: Span) -> Reported:
    """N0756"""
    return fail(
        "N0756", "a function inside a block is for the sizes around it, so it has no `where`", span,
        "a fact of the definition around",
        helps=("state it there, `assert` it, or make this a definition of the module",),
    )


# ---------------------------------------------------------------- habits of Python

_PYTHON_TYPES = {
    "float": "write `Float` (or `F32`, `F64`)",
    "int": "write `Int` (or `I8` … `U64`)",
    "bool": "write `Bool`",
    "complex": "a complex number is a struct of two `Float`s",
    "str": "texts are for messages only, and stay in Python",
    "list": "an array of Floats is `n=>Float`, where `n` is the set of its indices",
    "tuple": "a tuple of types is a type: `(Float, Int)`",
    "dict": "names for values are a `struct`",
    "None": "the type of nothing is `()`",
}
_ALIKE = {
    "array": "list", "ndarray": "list", "Array": "list", "List": "list", "ArrayLike": "list",
    "NDArray": "list", "Tuple": "tuple", "Dict": "dict", "Str": "str", "String": "str",
    "string": "str", "boolean": "bool", "double": "float", "float32": "float", "float64": "float",
    "int8": "int", "int16": "int", "int32": "int", "int64": "int",
    "uint8": "int", "uint16": "int", "uint32": "int", "uint64": "int",
}  # fmt: skip


_ELSEWHERE = {
    **dict.fromkeys(("Complex", "ComplexF64", "complex64", "complex128"), "complex"),
    **dict.fromkeys(("Float64", "Float32", "f64", "f32", "Double"), "float"),
    **dict.fromkeys(("Int64", "Int32", "Integer", "i64", "i32", "u8", "Nat"), "int"),
    **dict.fromkeys(("Vector", "Matrix", "Vec", "Tensor"), "list"),
}


def python_type(e: s.Expr) -> Reported | None:
    """N0757, if this is a type of Python's."""
    inner = e.base if isinstance(e, s.IndexExpr) else e.function if isinstance(e, s.Call) else e
    name = inner.name if isinstance(inner, s.Name | s.Field) else ""
    help = _PYTHON_TYPES.get(_ALIKE.get(name, _ELSEWHERE.get(name, name)))
    if help is None:
        return None
    whose = "not a type here" if name in _ELSEWHERE else "a type of Python's, and not one here"
    return fail(
        "N0757", f"`{e.span.text}` is {whose}", e.span,
        "a type stands here", helps=(help,),
    )


_LIBRARIES = frozenset({
    "numpy", "scipy", "pandas", "matplotlib", "torch", "jax", "tensorflow", "numba", "sklearn",
    "sympy", "math", "cmath", "itertools", "functools", "typing", "dataclasses", "sys", "os",
})  # fmt: skip
_HERE = "functions such as `sum`, `exp`, `sqrt` and `transpose` are here without an import"


def python_module(name: str, span: Span) -> Reported | None:
    """N0758, if this is a module of Python's."""
    if name not in _LIBRARIES:
        return None
    return fail(
        "N0758", f"`{name}` is a library of Python's, which a `.nap` file does not import", span,
        "no module of this language",
        helps=(_HERE,) if name in ("numpy", "math") else (),
        notes=("what Python makes is given to a function of this file as an argument",),
    )
