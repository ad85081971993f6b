"""loops → loops: vectors, strips, memory that is used again."""
