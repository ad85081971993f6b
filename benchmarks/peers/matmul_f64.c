void matmul_f64(long n, const double *x, const double *y, double *out) {
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        double *o = out + i * n;
        for (long k = 0; k < n; k++) o[k] = 0;
        for (long j = 0; j < n; j++) {
            double a = x[i * n + j];
            for (long k = 0; k < n; k++) o[k] += a * y[j * n + k];
        }
    }
}
