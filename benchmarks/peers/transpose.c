#define MIN(a, b) ((a) < (b) ? (a) : (b))
void transpose(long h, long w, const double *x, double *out) {
    #pragma omp parallel for schedule(static)
    for (long b = 0; b < h; b += 16)
        for (long c = 0; c < w; c += 16)
            for (long j = c; j < MIN(c + 16, w); j++)
                for (long i = b; i < MIN(b + 16, h); i++) out[j * h + i] = x[i * w + j];
}
