/* ADBench's LSTM: its loss, and with the gradient written by hand. Weights and biases are
   [layer][forget, in, out, change][unit], the memory [layer][unit], the text [time][unit]. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

static inline double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

/* A layer at one time, from what is below; keeps the gates and the tanh of the new cell. */
static inline void layer(long b, const double *w, const double *bias, const double *x,
                         const double *hidden, const double *cell, double *gate, double *new_hidden,
                         double *new_cell, double *bent) {
    for (long u = 0; u < b; u++) {
        double forget = sigmoid(x[u] * w[u] + bias[u]);
        double take = sigmoid(hidden[u] * w[b + u] + bias[b + u]);
        double give = sigmoid(x[u] * w[2 * b + u] + bias[2 * b + u]);
        double change = tanh(hidden[u] * w[3 * b + u] + bias[3 * b + u]);
        gate[u] = forget, gate[b + u] = take, gate[2 * b + u] = give, gate[3 * b + u] = change;
        new_cell[u] = cell[u] * forget + take * change;
        bent[u] = tanh(new_cell[u]);
        new_hidden[u] = give * bent[u];
    }
}

void lstm(long l, long b, long c, const double *w, const double *bias, const double *extra,
          const double *hidden, const double *cell, const double *text, double *out) {
    double *memory = malloc((2 * l * b + 6 * b) * sizeof *memory), total = 0;
    double *h = memory, *s = h + l * b, *gate = s + l * b, *bent = gate + 4 * b, *x = bent + b;
    memcpy(h, hidden, l * b * sizeof *h), memcpy(s, cell, l * b * sizeof *s);
    for (long t = 0; t + 1 < c; t++) {
        for (long u = 0; u < b; u++) x[u] = text[t * b + u] * extra[u];
        for (long k = 0; k < l; k++)
            layer(b, w + 4 * k * b, bias + 4 * k * b, k ? h + (k - 1) * b : x, h + k * b, s + k * b,
                  gate, h + k * b, s + k * b, bent);
        const double *top = h + (l - 1) * b, *gold = text + (t + 1) * b;
        double sum = 2, one = 0, dot = 0;
        for (long u = 0; u < b; u++) {
            double y = top[u] * extra[b + u] + extra[2 * b + u];
            sum += exp(y), one += gold[u], dot += gold[u] * y;
        }
        total += dot - one * log(sum);
    }
    *out = -total / (b * (c - 1));
    free(memory);
}

void lstm_slope(long l, long b, long c, const double *w, const double *bias, const double *extra,
                const double *hidden, const double *cell, const double *text, double *out,
                double *d_w, double *d_bias, double *d_extra) {
    long size = l * b, steps = c - 1;
    /* the memories of all times, and what each step keeps */
    double *h = malloc(((2 * c + 5 * steps + 2) * size + (steps + 2) * b) * sizeof *h);
    double *s = h + c * size, *gate = s + c * size, *bent = gate + steps * 4 * size;
    double *y = bent + steps * size, *d_h = y + steps * b, *d_s = d_h + size;
    double *x = d_s + size, *d_x = x + b, total = 0, scale = -1.0 / (b * steps);
    memcpy(h, hidden, size * sizeof *h), memcpy(s, cell, size * sizeof *s);
    for (long t = 0; t < steps; t++) {
        for (long u = 0; u < b; u++) x[u] = text[t * b + u] * extra[u];
        for (long k = 0; k < l; k++) {
            long at = (t * l + k) * b, next = at + size;
            layer(b, w + 4 * k * b, bias + 4 * k * b, k ? h + next - b : x, h + at, s + at,
                  gate + 4 * at, h + next, s + next, bent + at);
        }
        const double *top = h + (t + 1) * size + (l - 1) * b, *gold = text + (t + 1) * b;
        double sum = 2, one = 0, dot = 0;
        for (long u = 0; u < b; u++) {
            double z = top[u] * extra[b + u] + extra[2 * b + u];
            y[t * b + u] = exp(z);
            sum += y[t * b + u], one += gold[u], dot += gold[u] * z;
        }
        for (long u = 0; u < b; u++) y[t * b + u] = gold[u] - one * y[t * b + u] / sum;
        total += dot - one * log(sum);
    }
    memset(d_w, 0, 4 * size * sizeof *d_w), memset(d_bias, 0, 4 * size * sizeof *d_bias);
    memset(d_extra, 0, 3 * b * sizeof *d_extra);
    memset(d_h, 0, size * sizeof *d_h), memset(d_s, 0, size * sizeof *d_s);
    for (long t = steps - 1; t >= 0; t--) {
        const double *top = h + (t + 1) * size + (l - 1) * b;
        double *d_top = d_h + (l - 1) * b;
        for (long u = 0; u < b; u++) {
            double z = scale * y[t * b + u];
            d_extra[b + u] += z * top[u], d_extra[2 * b + u] += z;
            d_top[u] += z * extra[b + u];
            x[u] = text[t * b + u] * extra[u], d_x[u] = 0;
        }
        for (long k = l - 1; k >= 0; k--) {
            long at = (t * l + k) * b;
            const double *in = k ? h + at + size - b : x, *old = h + at, *g = gate + 4 * at;
            const double *v = w + 4 * k * b;
            double *d_in = k ? d_h + (k - 1) * b : d_x, *dw = d_w + 4 * k * b;
            double *db = d_bias + 4 * k * b;
            for (long u = 0; u < b; u++) {
                double forget = g[u], take = g[b + u], give = g[2 * b + u], change = g[3 * b + u];
                double z = bent[at + u], d_hidden = d_h[k * b + u];
                double d_cell = d_s[k * b + u] + d_hidden * give * (1 - z * z);
                double p = d_cell * s[at + u] * forget * (1 - forget);
                double q = d_cell * change * take * (1 - take);
                double r = d_hidden * z * give * (1 - give);
                double m = d_cell * take * (1 - change * change);
                d_s[k * b + u] = d_cell * forget;
                d_h[k * b + u] = q * v[b + u] + m * v[3 * b + u];
                d_in[u] += p * v[u] + r * v[2 * b + u];
                dw[u] += p * in[u], dw[b + u] += q * old[u];
                dw[2 * b + u] += r * in[u], dw[3 * b + u] += m * old[u];
                db[u] += p, db[b + u] += q, db[2 * b + u] += r, db[3 * b + u] += m;
            }
        }
        for (long u = 0; u < b; u++) d_extra[u] += d_x[u] * text[t * b + u];
    }
    *out = -total / (b * steps);
    free(h);
}
