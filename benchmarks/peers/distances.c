#include <math.h>
void distances(long n, long m, long d, const double *x, const double *y, double *out) {
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        for (long j = 0; j < m; j++) {
            double total = 0;
            for (long c = 0; c < d; c++) {
                double e = x[i * d + c] - y[j * d + c];
                total += e * e;
            }
            out[i * m + j] = sqrt(total);
        }
}
