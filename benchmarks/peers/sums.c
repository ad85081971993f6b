#include <stdlib.h>
#include <string.h>
#include <omp.h>
void histogram(long n, long bins, const long *key, const double *bin, long *out) {
    memset(out, 0, bins * sizeof(long));
    if (omp_get_max_threads() == 1) {
        for (long i = 0; i < n; i++) out[key[i]]++;
        return;
    }
    #pragma omp parallel for schedule(static) reduction(+ : out[:bins])
    for (long i = 0; i < n; i++) out[key[i]]++;
}
void segments(long n, const long *ends, const double *x, double *out) {
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        double total = 0;
        for (long e = ends[i]; e < ends[i + 1]; e++) total += x[e];
        out[i] = total;
    }
}
void spmv(long n, const long *rows, const long *cols, const double *vals, const double *x,
          double *out) {
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        double total = 0;
        for (long e = rows[i]; e < rows[i + 1]; e++) total += vals[e] * x[cols[e]];
        out[i] = total;
    }
}
void triangle(long n, const double *a, double *out) {
    #pragma omp parallel for schedule(dynamic, 16)
    for (long i = 0; i < n; i++) {
        double total = 0;
        for (long j = 0; j <= i; j++) total += a[i * n + j];
        out[i] = total;
    }
}
void prefix(long n, const double *x, double *out) {
    double total = 0;
    for (long i = 0; i < n; i++) out[i] = total += x[i];
}
void columns(long n, long m, const double *a, double *out) {
    memset(out, 0, m * sizeof(double));
    #pragma omp parallel for schedule(static) reduction(+ : out[:m])
    for (long i = 0; i < n; i++)
        for (long j = 0; j < m; j++) out[j] += a[i * m + j];
}
