#include <stdlib.h>
#include "tridiagonal.h"
void tridiagonal(long k, long n, const double *a, const double *b, const double *c,
                 const double *d, double *out) {
    #pragma omp parallel
    {
        double *e = malloc(n * sizeof(double));
        #pragma omp for schedule(static)
        for (long s = 0; s < k; s++)
            solve(n, a + s * n, b + s * n, c + s * n, d + s * n, e, out + s * n);
        free(e);
    }
}
