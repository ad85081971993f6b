#include <math.h>
#include <stdlib.h>
#include <string.h>
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
void image(long h, long w, const double *x, double limit, double *out, long *seen) {
    double *rows = malloc(2 * h * w * sizeof(double)), *soft = rows + h * w;
    memset(seen, 0, 64 * sizeof(long));
    #pragma omp parallel
    {
        #pragma omp for schedule(static)
        for (long i = 0; i < h; i++)
            for (long j = 0; j < w; j++)
                rows[i * w + j] = 0.25 * (x[i * w + MAX(j - 1, 0)] + x[i * w + MIN(j + 1, w - 1)])
                    + 0.5 * x[i * w + j];
        #pragma omp for schedule(static)
        for (long i = 0; i < h; i++)
            for (long j = 0; j < w; j++)
                soft[i * w + j] = 0.25 * (rows[MAX(i - 1, 0) * w + j]
                    + rows[MIN(i + 1, h - 1) * w + j]) + 0.5 * rows[i * w + j];
        #pragma omp for schedule(static) reduction(+ : seen[:64])
        for (long i = 0; i < h; i++) {
            const double *u = soft + MAX(i - 1, 0) * w, *m = soft + i * w;
            const double *d = soft + MIN(i + 1, h - 1) * w;
            double *o = out + i * w;
            for (long j = 0; j < w; j++) {
                long l = MAX(j - 1, 0), r = MIN(j + 1, w - 1);
                double dx = u[r] - u[l] + 2 * (m[r] - m[l]) + d[r] - d[l];
                double dy = d[l] - u[l] + 2 * (d[j] - u[j]) + d[r] - u[r];
                o[j] = sqrt(dx * dx + dy * dy);
            }
            for (long j = 0; j < w; j++) seen[MIN((long)(16 * o[j]), 63)]++;
            for (long j = 0; j < w; j++) o[j] = o[j] > limit ? o[j] : 0;
        }
    }
    free(rows);
}
