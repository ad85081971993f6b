#include <math.h>
static double cdf(double x) { return 0.5 * (1.0 + erf(x * 0.70710678118654752440)); }
void black_scholes(long n, const double *s, const double *k, const double *t, double r, double v,
                   double *call, double *put) {
    #pragma omp parallel for simd schedule(static)
    for (long i = 0; i < n; i++) {
        double w = v * sqrt(t[i]);
        double d1 = (log(s[i] / k[i]) + (r + 0.5 * v * v) * t[i]) / w;
        double discounted = k[i] * exp(-r * t[i]);
        call[i] = s[i] * cdf(d1) - discounted * cdf(d1 - w);
        put[i] = call[i] - s[i] + discounted;
    }
}
