#include <stdlib.h>
#include <string.h>
void kmeans(long n, long d, long k, const double *x, const double *centre, double *out) {
    double *count = calloc(k, sizeof(double));
    memset(out, 0, k * d * sizeof(double));
    #pragma omp parallel for schedule(static) reduction(+ : out[:k * d], count[:k])
    for (long i = 0; i < n; i++) {
        long near = 0;
        double least = 1.0 / 0.0;
        for (long j = 0; j < k; j++) {
            double total = 0;
            for (long c = 0; c < d; c++) {
                double e = x[i * d + c] - centre[j * d + c];
                total += e * e;
            }
            if (total < least) { least = total; near = j; }
        }
        count[near] += 1;
        for (long c = 0; c < d; c++) out[near * d + c] += x[i * d + c];
    }
    for (long j = 0; j < k; j++)
        for (long c = 0; c < d; c++) out[j * d + c] /= count[j] > 1 ? count[j] : 1;
    free(count);
}
