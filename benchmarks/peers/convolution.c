void convolution(long h, long w, const double *x, const double *k, double *out) {
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < h - 4; i++) {
        double *o = out + i * (w - 4);
        #pragma omp simd
        for (long j = 0; j < w - 4; j++) {
            double total = 0;
            for (int a = 0; a < 5; a++)
                for (int b = 0; b < 5; b++)
                    total += k[a * 5 + b] * x[(i + a) * w + j + b];
            o[j] = total;
        }
    }
}
