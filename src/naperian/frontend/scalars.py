"""The scalars that the built-in interfaces are of, and how a set of scalars is called."""

from __future__ import annotations

from naperian.dtypes import FLOATS, SIGNED, UNSIGNED, DType

Dtypes = frozenset[DType]
NUMBERS: Dtypes = FLOATS | SIGNED | UNSIGNED
INTEGERS: Dtypes = SIGNED | UNSIGNED
ANY_SCALAR: Dtypes = frozenset(DType)

INTERFACES: dict[str, Dtypes] = {
    "Num": NUMBERS,
    "Floating": FLOATS,
    "Fractional": FLOATS,
    "Integral": INTEGERS,
    "Real": NUMBERS,
    "Ord": ANY_SCALAR - {DType.BOOL},
    "Bounded": ANY_SCALAR - {DType.BOOL},
    "Eq": ANY_SCALAR,
}


def interface_name(dtypes: Dtypes) -> str:
    """The interface with these members, in the user's words."""
    for name, members in INTERFACES.items():
        if members == dtypes:
            return name
    return " or ".join(sorted(d.surface_name for d in dtypes))
