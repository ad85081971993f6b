"""Calls that a vector loop makes rarely, or must make one element at a time.

LLVM's vectoriser gives up on a loop with a scalar call in it. Each function here therefore brings
its own vector forms, `@nap.rare.sin.8(x, mask)`, which call the scalar one for every lane if the
mask has any lane set and are a test and a jump otherwise. The vectoriser finds them by the
`vector-function-abi-variant` attribute. A module only declares them: `llvm.compile_ir` links them
to it afterwards, so that no pass works on what nobody calls, and inlines them, so that the fast way
through the loop keeps its registers.
"""

from __future__ import annotations

import re

from naperian.backends.target import Target

LANES = (2, 4, 8, 16)
MARK = "vector-function-abi-variant"
USED = "@llvm.compiler.used"

_DECLARED = re.compile(r"declare <(\d+) x double> @nap\.rare\.(\w+)\.\d+\(([^)]*)\)")


def definition(name: str, arity: int, target: Target, convention: str = "") -> str:
    """The text that defines `@nap.rare.<name>`, a pure function of doubles, and declares forms."""
    types = ", ".join(["double"] * arity)
    params = ", ".join(f"double %x{k}" for k in range(arity))
    out = [
        f"declare double @{name}({types}) nounwind willreturn memory(none)",
        f"define internal {convention}double @nap.rare.{name}({params}) noinline cold nounwind "
        "willreturn memory(none) {",
        f"{target.clearing}  %y = call double @{name}({params}) nobuiltin",
        "  ret double %y",
        "}",
    ]
    return "\n".join([*out, *(form(name, arity, lanes) for lanes in LANES)])


def form(name: str, arity: int, lanes: int) -> str:
    """The declaration of a vector form."""
    v = f"<{lanes} x double>"
    inputs = ", ".join([*[v] * arity, f"<{lanes} x i1>"])
    return f"declare {v} @nap.rare.{name}.{lanes}({inputs}) nounwind willreturn memory(none)"


def declared(module: str, target: Target, called: bool = False) -> str:
    """The module that defines the forms which one declares, to be inlined there; where nobody will
    call more of them, those that are called."""
    found = _DECLARED.findall(module)
    if called:
        found = [f for f in found if module.count(f"@nap.rare.{f[1]}.{f[0]}(") > 1]
    out = [_vector(name, inputs.count(" x double>"), int(lanes), target)
           for lanes, name, inputs in found]  # fmt: skip
    for name, arity in dict.fromkeys((n, x.count(" x double>")) for _, n, x in found):
        types = ", ".join(["double"] * arity)
        out.append(f"declare double @{name}({types}) nounwind willreturn memory(none)")
    return "\n".join(out)


def attribute(name: str, arity: int) -> str:
    """What a call of `@nap.rare.<name>` must carry."""
    forms = ",".join(
        f"_ZGV_LLVM_M{lanes}{'v' * arity}_nap.rare.{name}(nap.rare.{name}.{lanes})"
        for lanes in LANES
    )
    return f'nounwind willreturn memory(none) "{MARK}"="{forms}"'


def forms(name: str) -> list[str]:
    """The symbols of the vector forms."""
    return [f"nap.rare.{name}.{lanes}" for lanes in LANES]


def kept(symbols: list[str]) -> str:
    """Vector forms, kept until the vectoriser has looked."""
    listed = ", ".join(f"ptr @{symbol}" for symbol in symbols)
    return (
        f"{USED} = appending global [{len(symbols)} x ptr] [{listed}], "
        'section "llvm.metadata"'
    )


def _vector(name: str, arity: int, lanes: int, target: Target) -> str:
    """A form: what is inlined asks, and calls what goes from lane to lane. That saves the registers
    which a function of vectors must leave alone, or every call of such a function would."""
    v = f"<{lanes} x double>"
    params = ", ".join(f"{v} %x{k}" for k in range(arity))
    given = "".join(f"  %v{k} = alloca {v}\n  store {v} %x{k}, ptr %v{k}\n" for k in range(arity))
    elements = "".join(
        f"  %p{k} = getelementptr double, ptr %v{k}, i64 %i\n  %e{k} = load double, ptr %p{k}\n"
        for k in range(arity)
    )
    args = ", ".join(f"double %e{k}" for k in range(arity))
    lane = f"{target.convention}{v} @nap.rare.{name}.{lanes}.lanes({params})"
    return f"""\
define available_externally {v} @nap.rare.{name}.{lanes}({params}, <{lanes} x i1> %mask) \
alwaysinline nounwind willreturn memory(none) {{
entry:
  %bits = bitcast <{lanes} x i1> %mask to i{lanes}
  %any = icmp ne i{lanes} %bits, 0
  br i1 %any, label %some, label %done, !prof !{{!"branch_weights", i32 1, i32 1000000}}
some:
  %y = call {lane}
  br label %done
done:
  %r = phi {v} [ %x0, %entry ], [ %y, %some ]
  ret {v} %r
}}

define internal {lane} noinline cold nounwind willreturn memory(none) {{
entry:
{given}  %found = alloca {v}
  br label %lane
lane:
  %i = phi i64 [ 0, %entry ], [ %next, %lane ]
{elements}{target.clearing}  %y = call double @{name}({args}) nobuiltin cold
  %to = getelementptr double, ptr %found, i64 %i
  store double %y, ptr %to
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, {lanes}
  br i1 %more, label %lane, label %done, !llvm.loop !{{!{{!"llvm.loop.unroll.disable"}}}}
done:
  %now = load {v}, ptr %found
  ret {v} %now
}}"""
