"""What runs beside kernels: threads, memory, object code and the cache."""
