#include "real.h"
void products(long n, const real *a, const real *b, real *out) {
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        for (long j = 0; j < 4; j++)
            for (long l = 0; l < 4; l++) {
                real total = 0;
                for (long k = 0; k < 4; k++) total += a[16 * i + 4 * j + k] * b[16 * i + 4 * k + l];
                out[16 * i + 4 * j + l] = total;
            }
}
void factors(long n, const real *a, real *out) {
    #pragma omp parallel for schedule(static)
    for (long s = 0; s < n; s++) {
        real l[16] = {0};
        for (long j = 0; j < 4; j++)
            for (long i = j; i < 4; i++) {
                real total = a[16 * s + 4 * i + j];
                for (long k = 0; k < j; k++) total -= l[4 * i + k] * l[4 * j + k];
                l[4 * i + j] = i == j ? sqrt(total) : total / l[4 * j + j];
            }
        for (long k = 0; k < 16; k++) out[16 * s + k] = l[k];
    }
}
