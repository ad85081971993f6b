void mandelbrot(long h, long w, const double *re, const double *im, long limit, long *out) {
    #pragma omp parallel for schedule(dynamic, 4)
    for (long i = 0; i < h; i++)
        for (long j = 0; j < w; j++) {
            double zr = 0, zi = 0;
            long k = 0;
            while (zr * zr + zi * zi <= 4 && k < limit) {
                double t = zr * zr - zi * zi + re[j];
                zi = 2 * zr * zi + im[i];
                zr = t;
                k++;
            }
            out[i * w + j] = k;
        }
}
