"""Rows in order: `nap_row_sort_f64` and the like, compiled once for all programs."""
