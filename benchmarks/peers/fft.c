#include <math.h>
#include <stdlib.h>
#include <string.h>
void fft(long rows, long n, const double *re, const double *im, double *out_re, double *out_im) {
    double *wr = malloc(n * sizeof(double)), *wi = wr + n / 2;
    for (long j = 0; j < n / 2; j++) {
        wr[j] = cos(2 * M_PI * j / n);
        wi[j] = -sin(2 * M_PI * j / n);
    }
    #pragma omp parallel
    {
        double *room = malloc(4 * n * sizeof(double));
        #pragma omp for schedule(static)
        for (long t = 0; t < rows; t++) {
            double *a = room, *b = a + n, *c = b + n, *d = c + n;
            memcpy(a, re + t * n, n * sizeof(double));
            memcpy(b, im + t * n, n * sizeof(double));
            for (long l = n / 2, m = 1; l >= 1; l /= 2, m *= 2) {
                for (long j = 0; j < l; j++) {
                    double u = wr[j * m], v = wi[j * m];
                    long p = j * m, q = p + n / 2, o = 2 * p;
                    #pragma omp simd
                    for (long k = 0; k < m; k++) {
                        double x = a[p + k] - a[q + k], y = b[p + k] - b[q + k];
                        c[o + k] = a[p + k] + a[q + k];
                        d[o + k] = b[p + k] + b[q + k];
                        c[o + m + k] = u * x - v * y;
                        d[o + m + k] = v * x + u * y;
                    }
                }
                double *s = a; a = c; c = s;
                s = b; b = d; d = s;
            }
            memcpy(out_re + t * n, a, n * sizeof(double));
            memcpy(out_im + t * n, b, n * sizeof(double));
        }
        free(room);
    }
    free(wr);
}
