"""Where a name is that the library has in a module, which a file has not imported."""

from __future__ import annotations

_HELD = {
    "linalg": "solve inv det lu solve_lu cholesky solve_cholesky solve_lower solve_upper qr lstsq "
    "eigh",
    "random": "new_key ix_key uniform normal exponential bernoulli integer choice",
    "stats": "std median quantile covariance correlation histogram",
    "numeric": "interp searchsorted trapezoid simpson bisect newton rk4",
}
"""What each module has, but for words that mean much else (`index`, `split`)."""
_ALIASES = {
    "percentile": "quantile", "cov": "covariance", "corrcoef": "correlation",
    "trapz": "trapezoid",
    "cho_solve": "solve_cholesky", "solve_triangular": "solve_lower", "digitize": "searchsorted",
    "odeint": "rk4", "solve_ivp": "rk4", "RK45": "rk4", "brentq": "bisect",
}  # fmt: skip
"""What NumPy and SciPy call something like it."""
_MODULE = {name: module for module, names in _HELD.items() for name in names.split()}


def in_library(name: str) -> str | None:
    """The help for a name that a module of the library has, or has under another name."""
    own = _ALIASES.get(name, name)
    if own not in _MODULE:
        return None
    return f"`import {_MODULE[own]}` has {'it' if own == name else 'one'}: `{_MODULE[own]}.{own}`"
