"""core → ainf: one binding per operation, in the loops it depends on."""
