"""Contractions: products of matrices in tiles that stay in registers."""
