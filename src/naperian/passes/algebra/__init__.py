"""ainf → ainf: laws, equal bindings, sums; what is cheaper and means the same."""
