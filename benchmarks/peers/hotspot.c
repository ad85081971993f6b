#include "real.h"
#include <stdlib.h>
#include <string.h>
void hotspot(long h, long w, const real *temp, const real *power, long steps, real cap,
             real rx, real ry, real rz, real ambient, real *out) {
    real *a = malloc(h * w * sizeof(real)), *b = out;
    memcpy(steps % 2 ? a : b, temp, h * w * sizeof(real));
    real *from = steps % 2 ? a : b, *to = steps % 2 ? b : a;
    for (long s = 0; s < steps; s++) {
        #pragma omp parallel for schedule(static)
        for (long i = 0; i < h; i++) {
            const real *m = from + i * w, *u = from + (i > 0 ? i - 1 : 0) * w;
            const real *d = from + (i < h - 1 ? i + 1 : h - 1) * w, *p = power + i * w;
            real *o = to + i * w;
            #define CELL(l, r) m[j] + cap * (p[j] + (d[j] + u[j] - 2 * m[j]) * ry \
                + (m[r] + m[l] - 2 * m[j]) * rx + (ambient - m[j]) * rz)
            long j = 0;
            o[0] = CELL(0, w > 1 ? 1 : 0);
            #pragma omp simd
            for (j = 1; j < w - 1; j++) o[j] = CELL(j - 1, j + 1);
            if (w > 1) { j = w - 1; o[j] = CELL(j - 1, j); }
        }
        real *t = from; from = to; to = t;
    }
    free(a);
}

/* The sum of the heat at the end; with its derivatives by the heat at the start and the power, written by hand:
   the step is its own transpose. */
void hotspot_end(long h, long w, const real *temp, const real *power, long steps, real cap,
                 real rx, real ry, real rz, real ambient, real *out) {
    real *end = malloc(h * w * sizeof(real)), sum = 0;
    hotspot(h, w, temp, power, steps, cap, rx, ry, rz, ambient, end);
    for (long i = 0; i < h * w; i++) sum += end[i];
    *out = sum;
    free(end);
}

void hotspot_slope(long h, long w, const real *temp, const real *power, long steps, real cap,
                   real rx, real ry, real rz, real ambient, real *out, real *d_temp,
                   real *d_power) {
    real *to = malloc(h * w * sizeof(real)), *from = d_temp;
    hotspot_end(h, w, temp, power, steps, cap, rx, ry, rz, ambient, out);
    for (long i = 0; i < h * w; i++) from[i] = 1, d_power[i] = 0;
    for (long s = 0; s < steps; s++) {
        #pragma omp parallel for schedule(static)
        for (long i = 0; i < h; i++) {
            const real *m = from + i * w, *u = from + (i > 0 ? i - 1 : 0) * w;
            const real *d = from + (i < h - 1 ? i + 1 : h - 1) * w;
            real *o = to + i * w, *p = d_power + i * w;
            #define BACK(l, r) p[j] += cap * m[j]; o[j] = m[j] + cap * ((d[j] + u[j] - 2 * m[j]) * ry \
                + (m[r] + m[l] - 2 * m[j]) * rx - m[j] * rz)
            long j = 0;
            BACK(0, w > 1 ? 1 : 0);
            #pragma omp simd
            for (j = 1; j < w - 1; j++) { BACK(j - 1, j + 1); }
            if (w > 1) { j = w - 1; BACK(j - 1, j); }
        }
        real *t = from; from = to; to = t;
    }
    if (from != d_temp) memcpy(d_temp, from, h * w * sizeof(real)), to = from;
    free(to);
}
