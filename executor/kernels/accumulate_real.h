/* accumulate_real.h: the loops of accumulate.c; a template (executor/kernels/each_real.h). */

static double NAME(sum_run)(int64_t n, const REAL *restrict src) {
    double lane[LANES] = {0}, total = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) lane[j] += (double)src[i + j];
    for (int j = 0; i < n; i++, j++) lane[j] += (double)src[i];
    for (int j = 0; j < LANES; j++) total += lane[j];
    return total;
}

static double NAME(sum_squares)(int64_t n, const REAL *restrict src) {
    double lane[LANES] = {0}, total = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) lane[j] += (double)src[i + j] * (double)src[i + j];
    for (int j = 0; i < n; i++, j++) lane[j] += (double)src[i] * (double)src[i];
    for (int j = 0; j < LANES; j++) total += lane[j];
    return total;
}

static void NAME(accumulate)(int64_t n, const REAL *src, int64_t stride, double *acc) {
    if (stride == 0) {
        *acc += NAME(sum_run)(n, src);
    } else {
        INDEPENDENT for (int64_t i = 0; i < n; i++) acc[i] += (double)src[i];
    }
}

/* Four rows at a time: a quarter of the traffic on acc. */
static int64_t NAME(add_rows)(int64_t rows, int64_t row, const REAL *src, int64_t n, double *acc) {
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const REAL *a = src + r * row, *b = a + row, *c = b + row, *d = c + row;
        INDEPENDENT for (int64_t i = 0; i < n; i++) acc[i] +=
            ((double)a[i] + (double)b[i]) + ((double)c[i] + (double)d[i]);
    }
    return r;
}

static void NAME(add_columns)(int64_t rows, int64_t row, int64_t columns, const REAL *src, double *acc) {
    for (int64_t at = 0; at < columns; at += BLOCK) {
        int64_t n = block_size(columns - at);
        int64_t r = NAME(add_rows)(rows, row, src + at, n, acc + at);
        for (; r < rows; r++) NAME(accumulate)(n, src + at + r * row, 1, acc + at);
    }
}
