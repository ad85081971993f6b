"""Updates of one element, one after the other, which load and store it once.

    update out[j] += x[0, j]        v = out[j] + x[0, j]
    update out[j] += x[1, j]   ⇒    store out[j] = v + x[1, j]

They come from rows that are added several at a time (`passes/nests/jam.py`). Whoever cleans what is
finished does not look for stores that another one follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from naperian.loops.syntax import Let, Stmt, Update
from naperian.loops.walk import loads
from naperian.names import Var
from naperian.sizes import Size


def until(stmts: Sequence[Stmt], start: int, memory: Mapping[Var, Var]) -> int:
    """Up to where statements update elements, some of them more than once, and read none of what
    is updated; `memory` is what buffers are that are not their own. A buffer that may be another
    which is updated, too, ends it; two results that may both be the same argument are still two."""
    changed: dict[Var, tuple[Size, ...]] = {}
    written: set[Var] = set()
    end = start
    for k in range(start, len(stmts)):
        s = stmts[k]
        if not isinstance(s, Let | Update):
            break
        if any(memory.get(e.buffer, e.buffer) in written for e in loads(s)):
            break
        if isinstance(s, Update):
            mine = memory.get(s.buffer, s.buffer)
            others = (v for v in changed if v != s.buffer)
            if any(v == mine or memory.get(v) == s.buffer for v in others):
                break
            if s.buffer not in changed:
                changed[s.buffer] = s.at
                written.add(mine)
            elif changed[s.buffer] == s.at:
                end = k + 1
            else:
                break
    return end
