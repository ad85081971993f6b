#include "real.h"
void stencil(long h, long w, const real *x, real *out) {
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < h; i++) {
        const real *m = x + i * w, *u = x + (i > 0 ? i - 1 : 0) * w;
        const real *d = x + (i < h - 1 ? i + 1 : h - 1) * w;
        real *o = out + i * w;
        o[0] = 0.5 * m[0] + 0.125 * (u[0] + d[0] + m[0] + m[w > 1 ? 1 : 0]);
        #pragma omp simd
        for (long j = 1; j < w - 1; j++)
            o[j] = 0.5 * m[j] + 0.125 * (u[j] + d[j] + m[j - 1] + m[j + 1]);
        long e = w - 1;
        o[e] = 0.5 * m[e] + 0.125 * (u[e] + d[e] + m[e > 0 ? e - 1 : 0] + m[e]);
    }
}
