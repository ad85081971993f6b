#include "real.h"
void chain(long n, const real *x, real *out) {
    #pragma omp parallel for simd schedule(static)
    for (long i = 0; i < n; i++)
        out[i] = sqrt((x[i] * 2.0 + 1.0) * (x[i] * 0.5 - 0.25) + 3.0) - x[i] * x[i];
}
