void matmul_f32(long n, const float *x, const float *y, float *out) {
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        float *o = out + i * n;
        for (long k = 0; k < n; k++) o[k] = 0;
        for (long j = 0; j < n; j++) {
            float a = x[i * n + j];
            for (long k = 0; k < n; k++) o[k] += a * y[j * n + k];
        }
    }
}
