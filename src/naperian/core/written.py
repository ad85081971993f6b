"""The type of a definition as the user reads it.

    def take(x: Fin(n)=>a, k: Int) -> Fin(k)=>a where n >= k      (Fin(n)=>a, k: Int) -> Fin(k)=>a
                                                                  where n - k >= 0

What is implicit is left out; a parameter that sizes mention keeps its name, and what callers must
satisfy stands after `where`, unless a size in the type says it already.
"""

from __future__ import annotations

from naperian.core.instances import bounds, show_wanted
from naperian.core.syntax import Definition
from naperian.names import Var
from naperian.sizes import Size, show_fact
from naperian.substitution import sets_in
from naperian.type_show import show_type
from naperian.types import Fin, Function, set_variables


def written_type(d: Definition) -> str:
    """`(n=>Float, n=>Float) -> Float where n >= 1`"""
    types = [*(p.type for p in d.params), d.result]
    sets = [own for t in types for own in sets_in(t)]
    mentioned: set[Var] = {v for own in sets for v in set_variables(own)}
    implied: set[Size] = {own.size for own in sets if isinstance(own, Fin)}
    row = "{" + ", ".join(d.effects) + "} " if d.effects else ""
    text = _function(d, mentioned) if d.params else row + show_type(d.result)
    wanted = [text for p in d.types for text in bounds(p)]
    wanted += [show_wanted(w) for w in d.wanted]
    facts = [fact for fact, _ in d.facts if fact not in implied]
    for k, fact in enumerate(facts):
        if -fact in facts[k:]:
            wanted.append(show_fact(fact).replace(">=", "=="))
        elif -fact not in facts:
            wanted.append(show_fact(fact))
    return f"{text} where {', '.join(wanted)}" if wanted else text


def _function(d: Definition, mentioned: set[Var]) -> str:
    if not any(p.var in mentioned for p in d.params):
        return show_type(Function(tuple(p.type for p in d.params), d.result, d.effects))
    params = ", ".join(
        f"{p.var.name}: {show_type(p.type)}" if p.var in mentioned else show_type(p.type)
        for p in d.params
    )
    row = "{" + ", ".join(d.effects) + "} " if d.effects else ""
    return f"({params}) -> {row}{show_type(d.result)}"
