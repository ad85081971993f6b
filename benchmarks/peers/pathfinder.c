#include <stdlib.h>
#include <string.h>
static long least(long a, long b) { return a < b ? a : b; }
void pathfinder(long rows, long n, const long *wall, long *out) {
    long *a = malloc(n * sizeof(long));
    long *from = rows % 2 ? a : out, *to = rows % 2 ? out : a;
    memcpy(from, wall, n * sizeof(long));
    for (long t = 1; t <= rows; t++) {
        const long *w = wall + t * n;
        #define CELL(l, r) w[j] + least(from[j], least(from[l], from[r]))
        #pragma omp parallel for simd schedule(static)
        for (long j = 1; j < n - 1; j++) to[j] = CELL(j - 1, j + 1);
        long j = 0;
        to[0] = CELL(0, n > 1 ? 1 : 0);
        if (n > 1) { j = n - 1; to[j] = CELL(j - 1, j); }
        long *s = from; from = to; to = s;
    }
    free(a);
}
