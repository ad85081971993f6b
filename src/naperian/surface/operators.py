"""How tightly each operator binds, and what can start an expression."""

from __future__ import annotations

TERNARY, AS, OR, AND, NOT, COMPARE, RANGE, UNION = 0, 2, 3, 4, 5, 6, 7, 8
PREFIX, POWER, POSTFIX = 14, 15, 16

LEFT = {"or": OR, "and": AND, "|": UNION, "^": 9, "&": 10, "<<": 11, ">>": 11, "+": 12, "-": 12}
LEFT |= dict.fromkeys(("*", "/", "//", "%", "@"), 13)
COMPARISONS = frozenset(("==", "!=", "<", "<=", ">", ">="))
SECTIONS = frozenset(LEFT) | COMPARISONS | {"**"}
"""The operators that can stand in `(+)`, `(* 2.0)` and `def (+)(a, b)`."""

UPDATES = frozenset(op + "=" for op in (*LEFT, "**") if not op.isalpha())
"""`x += e` and its like."""
ASSIGNMENTS = UPDATES | {"=", ":="}
"""What stands between a place and its new value."""

BINDS = (
    LEFT
    | {"if": TERNARY, "as": AS, "**": POWER}
    | dict.fromkeys(("..", "..=", "<..", "<..="), RANGE)
    | dict.fromkeys(COMPARISONS, COMPARE)
    | dict.fromkeys(("(", "[", ".", "?", "~"), POSTFIX)
    # what stands where an operator could, and is none
    | {"&&": AND, "||": OR, "=": COMPARE}
)
"""What follows an operand, and how tightly it binds."""
MEANT = {"&&": "and", "||": "or"}
TIGHT_STARTS = frozenset(("NAME", "NUM", "STR", "(", "[", "-", "~"))
"""What the end of a range can start with."""
STARTS = TIGHT_STARTS | {"not", "lambda", "..", "..="}
"""What an expression can start with."""
