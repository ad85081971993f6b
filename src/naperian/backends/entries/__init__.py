"""The ways into compiled functions, from Python and from C."""
