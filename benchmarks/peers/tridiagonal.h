/* One tridiagonal system, in x; e is room. */
static inline void solve(long n, const double *a, const double *b, const double *c,
                         const double *d, double *e, double *x) {
    double q = 0, f = 0;
    for (long i = 0; i < n; i++) {
        double pivot = 1 / (b[i] - a[i] * q);
        e[i] = q = c[i] * pivot;
        x[i] = f = (d[i] - a[i] * f) * pivot;
    }
    for (long i = n - 2; i >= 0; i--) x[i] -= e[i] * x[i + 1];
}
