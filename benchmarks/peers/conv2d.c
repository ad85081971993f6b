#include "real.h"
#include <string.h>
void conv2d(long batch, long inputs, long h, long w, long outputs, const real *x, const real *k,
            real *out) {
    #pragma omp parallel for collapse(2) schedule(static)
    for (long b = 0; b < batch; b++)
        for (long o = 0; o < outputs; o++) {
            real *y = out + (b * outputs + o) * (h - 2) * (w - 2);
            memset(y, 0, (h - 2) * (w - 2) * sizeof(real));
            for (long c = 0; c < inputs; c++) {
                const real *u = x + (b * inputs + c) * h * w, *f = k + (o * inputs + c) * 9;
                for (long i = 0; i < h - 2; i++)
                    for (long j = 0; j < w - 2; j++) {
                        real total = 0;
                        for (long r = 0; r < 3; r++)
                            for (long s = 0; s < 3; s++)
                                total += u[(i + r) * w + j + s] * f[3 * r + s];
                        y[i * (w - 2) + j] += total;
                    }
            }
        }
}
