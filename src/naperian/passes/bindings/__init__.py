"""Making bindings of AiNF: where they stand, and what is known of their indices."""
