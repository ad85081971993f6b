#include <math.h>
void softmax(long m, long n, const double *x, double *out) {
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < m; i++) {
        const double *r = x + i * n;
        double *o = out + i * n, top = -INFINITY, total = 0;
        for (long j = 0; j < n; j++) top = r[j] > top ? r[j] : top;
        for (long j = 0; j < n; j++) { o[j] = exp(r[j] - top); total += o[j]; }
        for (long j = 0; j < n; j++) o[j] /= total;
    }
}
