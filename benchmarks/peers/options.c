#include <math.h>
#include <stdlib.h>
void american(long n, const double *s, const double *k, const double *t, double r, double v,
           long steps, double *out) {
    #pragma omp parallel for schedule(static)
    for (long o = 0; o < n; o++) {
        double *price = malloc(2 * (steps + 1) * sizeof(double)), *value = price + steps + 1;
        double dt = t[o] / steps, up = exp(v * sqrt(dt)), discount = exp(-r * dt);
        double p = (1 / discount - 1 / up) / (up - 1 / up), q = discount * (1 - p);
        p *= discount;
        for (long j = 0; j <= steps; j++) {
            price[j] = s[o] * pow(up, 2 * j - steps);
            value[j] = fmax(k[o] - price[j], 0);
        }
        for (long i = 0; i < steps; i++)
            for (long j = 0; j < steps - i; j++) {
                price[j] *= up;
                value[j] = fmax(k[o] - price[j], p * value[j + 1] + q * value[j]);
            }
        out[o] = value[0];
        free(price);
    }
}
void asian(long paths, long steps, const double *z, double s, double k, double t, double r,
           double v, double *out) {
    double dt = t / steps, drift = (r - 0.5 * v * v) * dt, width = v * sqrt(dt), total = 0;
    #pragma omp parallel for schedule(static) reduction(+ : total)
    for (long i = 0; i < paths; i++) {
        double walk = 0, mean = 0;
        for (long j = 0; j < steps; j++) {
            walk += drift + width * z[i * steps + j];
            mean += s * exp(walk);
        }
        total += fmax(mean / steps - k, 0);
    }
    *out = exp(-r * t) * total / paths;
}
