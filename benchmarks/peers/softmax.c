#include "real.h"
void softmax(long m, long n, const real *x, real *out) {
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < m; i++) {
        const real *r = x + i * n;
        real *o = out + i * n, top = -INFINITY, total = 0;
        for (long j = 0; j < n; j++) top = r[j] > top ? r[j] : top;
        for (long j = 0; j < n; j++) { o[j] = exp(r[j] - top); total += o[j]; }
        for (long j = 0; j < n; j++) o[j] /= total;
    }
}
