"""ainf → loops: which bindings share a loop, in which order, and what is stored."""
