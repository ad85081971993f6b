#include "real.h"
void matmul(long n, const real *x, const real *y, real *out) {
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        real *o = out + i * n;
        for (long k = 0; k < n; k++) o[k] = 0;
        for (long j = 0; j < n; j++) {
            real a = x[i * n + j];
            for (long k = 0; k < n; k++) o[k] += a * y[j * n + k];
        }
    }
}
