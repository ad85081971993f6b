#include <math.h>
#include <stdlib.h>
void mriq(long n, long m, const double *x, const double *y, const double *z, const double *kx,
          const double *ky, const double *kz, const double *pr, const double *pi, double *qr,
          double *qi) {
    double *mag = malloc(m * sizeof(double));
    for (long k = 0; k < m; k++) mag[k] = pr[k] * pr[k] + pi[k] * pi[k];
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        double r = 0, s = 0;
        for (long k = 0; k < m; k++) {
            double a = 2 * M_PI * (kx[k] * x[i] + ky[k] * y[i] + kz[k] * z[i]);
            r += mag[k] * cos(a);
            s += mag[k] * sin(a);
        }
        qr[i] = r;
        qi[i] = s;
    }
    free(mag);
}
