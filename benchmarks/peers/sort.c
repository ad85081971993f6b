#include <stdlib.h>
#include <string.h>
static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
void sort(long n, const double *x, double *out) {
    memcpy(out, x, n * sizeof(double));
    qsort(out, n, sizeof(double), compare);
}
