/* ADBench's Gaussian mixture: its value, and with the gradient written by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TAU 6.283185307179586

/* log Gamma_d(a), the multivariate gamma function. */
static double log_gamma_distribution(double a, long d) {
    double s = 0.25 * d * (d - 1) * log(0.5 * TAU);
    for (long j = 0; j < d; j++) s += lgamma(a - 0.5 * j);
    return s;
}

/* What does not depend on the points. */
static double prior(long d, long k, const double *q, const double *low, double gamma, long m) {
    long t = d * (d - 1) / 2;
    double squares = 0, sum = 0, degrees = d + m + 1;
    for (long c = 0; c < k * d; c++) squares += exp(2 * q[c]), sum += q[c];
    for (long c = 0; c < k * t; c++) squares += low[c] * low[c];
    double unit = degrees * d * (log(gamma) - 0.5 * log(2.0))
        - log_gamma_distribution(0.5 * degrees, d);
    return 0.5 * gamma * gamma * squares - m * sum - k * unit;
}

static double weights(long k, const double *alpha) {
    double most = alpha[0], s = 0;
    for (long c = 1; c < k; c++) if (alpha[c] > most) most = alpha[c];
    for (long c = 0; c < k; c++) s += exp(alpha[c] - most);
    return most + log(s);
}

/* So many points go side by side: all that is computed of them is [...][LANES]. */
#define LANES 8
#define EACH for (long p = 0; p < LANES; p++)

/* The factor of component c times what is between it and a block of points; the squared length. */
static inline void distance(long d, const double *e, const double *row, const double *mu,
                            const double *x, double *u, double *v, double *square) {
    EACH square[p] = 0;
    for (long a = 0; a < d; a++) EACH u[a * LANES + p] = x[a * LANES + p] - mu[a];
    for (long a = 0; a < d; row += a, a++) {
        double z[LANES];
        EACH z[p] = e[a] * u[a * LANES + p];
        for (long b = 0; b < a; b++) EACH z[p] += row[b] * u[b * LANES + p];
        EACH square[p] += z[p] * z[p];
        if (v) EACH v[a * LANES + p] = z[p];
    }
}

/* A block of points, turned; the last has copies of the last point. */
static inline void take(long n, long d, long i, const double *x, double *to) {
    for (long a = 0; a < d; a++)
        EACH to[a * LANES + p] = x[(i + p < n ? i + p : n - 1) * d + a];
}

void gmm(long n, long d, long k, const double *alpha, const double *mu, const double *q,
         const double *low, const double *x, double gamma, long m, double *out) {
    long t = d * (d - 1) / 2;
    double *e = malloc(k * d * sizeof *e), *constant = malloc(k * sizeof *constant), total = 0;
    for (long c = 0; c < k; c++) {
        constant[c] = alpha[c];
        for (long a = 0; a < d; a++) e[c * d + a] = exp(q[c * d + a]), constant[c] += q[c * d + a];
    }
    #pragma omp parallel reduction(+ : total)
    {
        double *main = malloc((k + 2 * d) * LANES * sizeof *main), *u = main + k * LANES;
        double *block = u + d * LANES;
        #pragma omp for
        for (long i = 0; i < n; i += LANES) {
            double most[LANES], s[LANES], square[LANES];
            EACH most[p] = -1e300, s[p] = 0;
            take(n, d, i, x, block);
            for (long c = 0; c < k; c++) {
                double *at = main + c * LANES;
                distance(d, e + c * d, low + c * t, mu + c * d, block, u, 0, square);
                EACH at[p] = constant[c] - 0.5 * square[p];
                EACH most[p] = at[p] > most[p] ? at[p] : most[p];
            }
            for (long c = 0; c < k; c++) EACH s[p] += exp(main[c * LANES + p] - most[p]);
            for (long p = 0; p < LANES && i + p < n; p++) total += most[p] + log(s[p]);
        }
        free(main);
    }
    *out = total - n * (weights(k, alpha) + 0.5 * d * log(TAU)) + prior(d, k, q, low, gamma, m);
    free(e), free(constant);
}

void gmm_slope(long n, long d, long k, const double *alpha, const double *mu, const double *q,
               const double *low, const double *x, double gamma, long m, double *out,
               double *d_alpha, double *d_mu, double *d_q, double *d_low) {
    long t = d * (d - 1) / 2, all = k + 2 * k * d + k * t;
    double *e = malloc(k * d * sizeof *e), *constant = malloc(k * sizeof *constant), total = 0;
    for (long c = 0; c < k; c++) {
        constant[c] = alpha[c];
        for (long a = 0; a < d; a++) e[c * d + a] = exp(q[c * d + a]), constant[c] += q[c * d + a];
    }
    memset(d_alpha, 0, k * sizeof *d_alpha), memset(d_mu, 0, k * d * sizeof *d_mu);
    memset(d_q, 0, k * d * sizeof *d_q), memset(d_low, 0, k * t * sizeof *d_low);
    #pragma omp parallel reduction(+ : total)
    {
        double *main = malloc((k + d + 2 * k * d) * LANES * sizeof *main);
        double *block = main + k * LANES, *away = block + d * LANES, *y = away + k * d * LANES;
        double *own = calloc(all * LANES, sizeof *own); /* the sums of each lane */
        double *g_alpha = own, *g_mu = own + k * LANES, *g_q = g_mu + k * d * LANES;
        double *g_low = g_q + k * d * LANES;
        #pragma omp for
        for (long i = 0; i < n; i += LANES) {
            double most[LANES], s[LANES], square[LANES];
            EACH most[p] = -1e300, s[p] = 0;
            take(n, d, i, x, block);
            for (long c = 0; c < k; c++) {
                double *at = main + c * LANES;
                distance(d, e + c * d, low + c * t, mu + c * d, block, away + c * d * LANES,
                         y + c * d * LANES, square);
                EACH at[p] = constant[c] - 0.5 * square[p];
                EACH most[p] = at[p] > most[p] ? at[p] : most[p];
            }
            for (long c = 0; c < k; c++) EACH {
                main[c * LANES + p] = exp(main[c * LANES + p] - most[p]);
                s[p] += main[c * LANES + p];
            }
            for (long p = 0; p < LANES && i + p < n; p++) total += most[p] + log(s[p]);
            EACH s[p] = i + p < n ? 1 / s[p] : 0;
            for (long c = 0; c < k; c++) {
                double w[LANES], *u = away + c * d * LANES, *v = y + c * d * LANES;
                double *g = g_low + c * t * LANES;
                EACH w[p] = main[c * LANES + p] * s[p];
                EACH g_alpha[c * LANES + p] += w[p];
                for (long a = 0; a < d; g += a * LANES, a++) {
                    double z[LANES];
                    EACH z[p] = w[p] * v[a * LANES + p];
                    EACH g_mu[(c * d + a) * LANES + p] += z[p];
                    EACH g_q[(c * d + a) * LANES + p] += w[p] - z[p] * e[c * d + a] * u[a * LANES + p];
                    for (long b = 0; b < a; b++) EACH g[b * LANES + p] -= z[p] * u[b * LANES + p];
                }
            }
        }
        #pragma omp critical
        {
            for (long c = 0; c < k; c++) EACH d_alpha[c] += g_alpha[c * LANES + p];
            for (long c = 0; c < k * t; c++) EACH d_low[c] += g_low[c * LANES + p];
            for (long c = 0; c < k * d; c++) EACH d_q[c] += g_q[c * LANES + p];
            for (long c = 0; c < k; c++) /* the means': the factor turned, times the sums */
                for (long a = 0; a < d; a++) {
                    double z = 0;
                    EACH z += g_mu[(c * d + a) * LANES + p];
                    d_mu[c * d + a] += z * e[c * d + a];
                    for (long b = 0; b < a; b++)
                        d_mu[c * d + b] += z * low[c * t + a * (a - 1) / 2 + b];
                }
        }
        free(main), free(own);
    }
    double norm = weights(k, alpha);
    for (long c = 0; c < k; c++) d_alpha[c] -= n * exp(alpha[c] - norm);
    for (long c = 0; c < k * d; c++) d_q[c] += gamma * gamma * e[c] * e[c] - m;
    for (long c = 0; c < k * t; c++) d_low[c] += gamma * gamma * low[c];
    *out = total - n * (norm + 0.5 * d * log(TAU)) + prior(d, k, q, low, gamma, m);
    free(e), free(constant);
}
