"""core → core: one definition at one instance, closed and first order."""
