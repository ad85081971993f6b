"""Naperian: a typed, differentiable array language for NumPy users."""

__version__ = "0.1.0"
