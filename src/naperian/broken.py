"""The compiler's own mistakes."""

from __future__ import annotations


class Broken(AssertionError):
    """The compiler broke its own promise: never the user's fault. Every `check` raises it, and so
    does a pass that meets what an earlier one should have removed."""
