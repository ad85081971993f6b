#include "real.h"
#include <stdlib.h>
#include <string.h>
void attention(long heads, long n, long m, long d, const real *q, const real *k, const real *v,
               real *out) {
    #pragma omp parallel for schedule(static)
    for (long t = 0; t < heads * n; t++) {
        long h = t / n;
        const real *a = q + t * d, *b = k + h * m * d, *c = v + h * m * d;
        real *o = out + t * d, *p = malloc(m * sizeof(real)), top = -INFINITY, sum = 0;
        for (long j = 0; j < m; j++) {
            real total = 0;
            for (long i = 0; i < d; i++) total += a[i] * b[j * d + i];
            p[j] = total / sqrt((real)d);
            top = p[j] > top ? p[j] : top;
        }
        for (long j = 0; j < m; j++) sum += p[j] = exp(p[j] - top);
        memset(o, 0, d * sizeof(real));
        for (long j = 0; j < m; j++)
            for (long i = 0; i < d; i++) o[i] += p[j] / sum * c[j * d + i];
        free(p);
    }
}
void layer_norm(long n, long d, const real *x, const real *gain, const real *bias, real *out) {
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        const real *r = x + i * d;
        real mean = 0, spread = 0;
        for (long j = 0; j < d; j++) mean += r[j];
        mean /= d;
        for (long j = 0; j < d; j++) spread += (r[j] - mean) * (r[j] - mean);
        real scale = 1 / sqrt(spread / d + (real)1e-5);
        for (long j = 0; j < d; j++) out[i * d + j] = (r[j] - mean) * scale * gain[j] + bias[j];
    }
}
void lstm(long b, long d, long u, const real *x, const real *h, const real *c, const real *w,
          const real *r, const real *bias, real *out, real *cell) {
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < b; i++) {
        real *z = malloc(4 * u * sizeof(real));
        memcpy(z, bias, 4 * u * sizeof(real));
        for (long g = 0; g < 4; g++) {
            for (long k = 0; k < d; k++)
                for (long j = 0; j < u; j++) z[g * u + j] += x[i * d + k] * w[(g * d + k) * u + j];
            for (long k = 0; k < u; k++)
                for (long j = 0; j < u; j++) z[g * u + j] += h[i * u + k] * r[(g * u + k) * u + j];
        }
        for (long j = 0; j < u; j++) {
            real enter = 1 / (1 + exp(-z[j])), forget = 1 / (1 + exp(-z[u + j]));
            real new = forget * c[i * u + j] + enter * tanh(z[2 * u + j]);
            cell[i * u + j] = new;
            out[i * u + j] = tanh(new) / (1 + exp(-z[3 * u + j]));
        }
        free(z);
    }
}
