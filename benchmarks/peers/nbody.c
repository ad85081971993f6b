#include "real.h"
void nbody(long n, const real *at, const real *mass, real *out) {
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        real ax = 0, ay = 0, az = 0;
        for (long j = 0; j < n; j++) {
            real dx = at[3 * j] - at[3 * i], dy = at[3 * j + 1] - at[3 * i + 1];
            real dz = at[3 * j + 2] - at[3 * i + 2];
            real near = dx * dx + dy * dy + dz * dz + 1e-9, f = mass[j] / (near * sqrt(near));
            ax += f * dx;
            ay += f * dy;
            az += f * dz;
        }
        out[3 * i] = ax;
        out[3 * i + 1] = ay;
        out[3 * i + 2] = az;
    }
}
