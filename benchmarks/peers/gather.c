void gather(long n, const double *x, const long *p, double *out) {
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) out[i] = x[p[i]];
}
