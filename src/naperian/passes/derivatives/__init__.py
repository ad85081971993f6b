"""ainf → ainf: tangents, cotangents, and loops that run backwards."""
