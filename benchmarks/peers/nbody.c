#include <math.h>
void nbody(long n, const double *at, const double *mass, double *out) {
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        double ax = 0, ay = 0, az = 0;
        for (long j = 0; j < n; j++) {
            double dx = at[3 * j] - at[3 * i], dy = at[3 * j + 1] - at[3 * i + 1];
            double dz = at[3 * j + 2] - at[3 * i + 2];
            double near = dx * dx + dy * dy + dz * dz + 1e-9, f = mass[j] / (near * sqrt(near));
            ax += f * dx;
            ay += f * dy;
            az += f * dz;
        }
        out[3 * i] = ax;
        out[3 * i + 1] = ay;
        out[3 * i + 2] = az;
    }
}
