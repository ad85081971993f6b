#include "real.h"
static real cdf(real x) { return 0.5 * (1.0 + erf(x * 0.70710678118654752440)); }
void black_scholes(long n, const real *s, const real *k, const real *t, real r, real v,
                   real *call, real *put) {
    #pragma omp parallel for simd schedule(static)
    for (long i = 0; i < n; i++) {
        real w = v * sqrt(t[i]);
        real d1 = (log(s[i] / k[i]) + (r + 0.5 * v * v) * t[i]) / w;
        real discounted = k[i] * exp(-r * t[i]);
        call[i] = s[i] * cdf(d1) - discounted * cdf(d1 - w);
        put[i] = call[i] - s[i] + discounted;
    }
}
