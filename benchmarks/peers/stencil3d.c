#include <stdlib.h>
#include <string.h>
void stencil3d(long a, long b, long c, const double *x, long steps, double *out) {
    long size = a * b * c, row = c, plane = b * c;
    double *other = malloc(size * sizeof(double));
    memcpy(out, x, size * sizeof(double));
    memcpy(other, x, size * sizeof(double));
    double *from = steps % 2 ? other : out, *to = steps % 2 ? out : other;
    for (long s = 0; s < steps; s++) {
        #pragma omp parallel for schedule(static)
        for (long i = 1; i < a - 1; i++)
            for (long j = 1; j < b - 1; j++) {
                const double *u = from + i * plane + j * row;
                double *o = to + i * plane + j * row;
                #pragma omp simd
                for (long k = 1; k < c - 1; k++)
                    o[k] = (u[k + plane] + u[k - plane] + u[k + row] + u[k - row] + u[k + 1]
                            + u[k - 1]) * (1.0 / 36) - u[k] * (1.0 / 6);
            }
        double *t = from; from = to; to = t;
    }
    free(other);
}
