"""Functions made without the front end: a definition's border around a kernel written in LLVM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from naperian import border
from naperian.backends import runtime
from naperian.backends.entries import entry
from naperian.backends.kernel import Kernel, load, object_code
from naperian.core import syntax as core
from naperian.dtypes import DType
from naperian.names import Var
from naperian.signature import Fault, Instance
from naperian.signed import signature, size_variables
from naperian.sizes import Size
from naperian.types import Fin, Set, SetVar, Type, table

n, m = Var("n"), Var("m")


def array(cell: Type, *axes: Var | int | Size) -> Type:
    """A table over set variables, or over `Fin` of a size."""
    sets: list[Set] = [
        SetVar(a) if isinstance(a, Var) else Fin(Size((((), a),)) if isinstance(a, int) else a)
        for a in axes
    ]
    return table(sets, cell)


def define(
    name: str,
    params: dict[str, Type],
    result: Type,
    *,
    types: tuple[core.TypeParam, ...] = (),
    implicit: tuple[Var, ...] = (),
    sizes: tuple[Var, ...] = (n, m),
    facts: tuple[tuple[Size, str], ...] = (),
    defaults: dict[str, core.Expr] | None = None,
) -> core.Definition:
    """A definition whose body is never read."""
    listed = tuple(
        core.Param(p, Var(p), t, (defaults or {}).get(p)) for p, t in params.items()
    )
    return core.Definition(
        name, types, (), sizes, listed, result, facts, implicit, core.Pack(()), f"About {name}."
    )


@dataclass
class Hand:
    """A callable like `api.Function`, for one instance of a definition. `slow_calls` counts the
    calls that the native entry did not take."""

    definition: core.Definition
    ir: str
    order: tuple[Var, ...] = (n, m)
    dtypes: tuple[DType, ...] = ()
    faults: tuple[Fault, ...] = ()
    slow_calls: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.signature = signature(self.definition)
        variables = size_variables(self.definition)
        slots = tuple(variables.index(v) for v in self.order if v in variables)
        self.instance = Instance(self.signature, self.dtypes, slots, self.faults)
        self.kernel: Kernel = load(object_code(self.ir), runtime.runtime().services)
        self.call: Callable[..., Any] = self.slow
        table = entry.table(self.instance, self.kernel)
        entries = runtime.runtime().entries
        if table is not None and entries is not None:
            words, known = table
            self.call = entry.entry(entries, words, self.slow, self.fail, (self.kernel, known))

    def fail(self, code: int, *values: int) -> None:
        border.stop(self.faults, code, *values)

    def slow(self, *args: Any, **keywords: Any) -> Any:
        self.slow_calls += 1
        out = keywords.pop("out", None)
        values, sizes = border.gather(self.signature, args, keywords, lambda _: 7.0)
        chosen = border.choose(self.signature, values)
        assert chosen == self.dtypes or not self.dtypes, chosen
        return border.call(self.instance, values, sizes, partial(runtime.run, self.kernel), out)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.call(*args, **keywords)


def kernel(body: str, before: str = "") -> str:
    """A kernel with this body; `%n` and `%m` are the first two sizes, `%b0` … the buffers."""
    head = "\n".join(
        f"  %b{k}.at = getelementptr ptr, ptr %buffers, i64 {k}\n"
        f"  %b{k} = load ptr, ptr %b{k}.at"
        for k in range(3)
        if f"%b{k}" in body
    )
    sizes = "\n".join(
        f"  %{v}.at = getelementptr i64, ptr %sizes, i64 {k}\n  %{v} = load i64, ptr %{v}.at"
        for k, v in enumerate("nm")
        if f"%{v}" in body
    )
    return f"""{before}
define i64 @kernel(ptr %sizes, ptr %buffers, ptr %scalars, ptr %error) {{
entry:
{sizes}
{head}
{body}
}}
"""


def over(count: str, body: str, after: str = "ret i64 0") -> str:
    """A loop of %i from 0 to a count."""
    return f"""
  br label %test
test:
  %i = phi i64 [ 0, %entry ], [ %next, %run ]
  %more = icmp slt i64 %i, {count}
  br i1 %more, label %run, label %done
run:
{body}
  %next = add i64 %i, 1
  br label %test
done:
  {after}"""


DOUBLE_PLUS_ONE = kernel(over("%n", """
  %x.at = getelementptr double, ptr %b0, i64 %i
  %x = load double, ptr %x.at
  %twice = fmul double %x, 2.0
  %y = fadd double %twice, 1.0
  %y.at = getelementptr double, ptr %b1, i64 %i
  store double %y, ptr %y.at"""))
"""y[i] = 2 x[i] + 1"""
