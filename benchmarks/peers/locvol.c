#include <math.h>
#include <stdlib.h>
#include "tridiagonal.h"
static void second(long n, double step, double scale, double *d) {
    for (long i = 0; i < n; i++) {
        int inner = i > 0 && i < n - 1;
        d[i] = d[2 * n + i] = inner ? scale / (step * step) : 0;
        d[n + i] = inner ? -2 * scale / (step * step) : 0;
    }
}
static double price(double strike, double s0, double t, double alpha, double nu, double beta,
                    long nx, long ny, long nt, double *room) {
    double dx = 20 * alpha * s0 * sqrt(t) / nx, dy = 10 * nu * sqrt(t) / ny, dt = t / (nt - 1);
    long start = s0 / dx, size = nx * ny, most = nx > ny ? nx : ny;
    double *value = room, *v = value + size, *u = v + size, *w = u + size, *var = w + size;
    double *dxx = var + size, *dyy = dxx + 3 * nx, *a = dyy + 3 * ny, *b = a + most, *c = b + most;
    double *e = c + most, *right = e + most;
    second(nx, dx, 1, dxx);
    second(ny, dy, 0.5 * nu * nu, dyy);
    for (long i = 0; i < nx; i++)
        for (long j = 0; j < ny; j++) value[i * ny + j] = fmax((i - start) * dx + s0 - strike, 0);
    for (long step = 0; step < nt - 1; step++) {
        double now = (nt - 2 - step) * dt;
        for (long i = 0; i < nx; i++) {
            const double *m = value + i * ny, *up = value + (i > 0 ? i - 1 : 0) * ny;
            const double *down = value + (i < nx - 1 ? i + 1 : i) * ny;
            double x = beta * log((i - start) * dx + s0) + log(alpha) - 0.5 * nu * nu * now;
            for (long j = 0; j < ny; j++) {
                double l = m[j > 0 ? j - 1 : 0], r = m[j < ny - 1 ? j + 1 : j];
                v[i * ny + j] = dyy[j] * l + dyy[ny + j] * m[j] + dyy[2 * ny + j] * r;
                double s = 0.5 * exp(2 * (x + (j - ny / 2) * dy));
                var[j * nx + i] = s;
                u[j * nx + i] = m[j] / dt + v[i * ny + j]
                    + 0.5 * s * (dxx[i] * up[j] + dxx[nx + i] * m[j] + dxx[2 * nx + i] * down[j]);
            }
        }
        for (long j = 0; j < ny; j++) {
            for (long i = 0; i < nx; i++) {
                a[i] = -0.5 * var[j * nx + i] * dxx[i];
                b[i] = 1 / dt - 0.5 * var[j * nx + i] * dxx[nx + i];
                c[i] = -0.5 * var[j * nx + i] * dxx[2 * nx + i];
            }
            solve(nx, a, b, c, u + j * nx, e, w + j * nx);
        }
        for (long j = 0; j < ny; j++) {
            a[j] = -0.5 * dyy[j];
            b[j] = 1 / dt - 0.5 * dyy[ny + j];
            c[j] = -0.5 * dyy[2 * ny + j];
        }
        for (long i = 0; i < nx; i++) {
            for (long j = 0; j < ny; j++) right[j] = w[j * nx + i] / dt - 0.5 * v[i * ny + j];
            solve(ny, a, b, c, right, e, value + i * ny);
        }
    }
    return value[start * ny + ny / 2];
}
void locvol(long n, const double *strike, double s0, double t, double alpha, double nu,
            double beta, long nx, long ny, long nt, double *out) {
    #pragma omp parallel for schedule(static)
    for (long s = 0; s < n; s++) {
        double *room = malloc((5 * nx * ny + 8 * (nx + ny)) * sizeof(double));
        out[s] = price(strike[s], s0, t, alpha, nu, beta, nx, ny, nt, room);
        free(room);
    }
}
