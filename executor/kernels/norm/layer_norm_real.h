/* layer_norm_real.h: the loops of layer_norm.c; a template (executor/kernels/each_real.h). */

static inline REAL NAME(r)(const layer_norm_state *s, REAL kept) {
    return s->keeps_r ? kept : (REAL)(1 / sqrt((double)kept + s->epsilon));
}

static void NAME(affine)(int64_t n, const REAL *x, REAL mean, REAL r, const REAL *scale, const REAL *bias, REAL *y) {
    if (scale && bias) {
        INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * r * scale[i] + bias[i];
    } else if (scale) {
        INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * r * scale[i];
    } else if (bias) {
        INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * r + bias[i];
    } else {
        INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * r;
    }
}

static void NAME(forward)(const kernel_call *c, const layer_norm_state *s, int64_t first, int64_t end) {
    const REAL *x = arg_in(c, IN_X)->data, *scale = data_or_null(arg_in(c, IN_SCALE));
    const REAL *bias = data_or_null(arg_in(c, IN_BIAS));
    REAL *y = arg_out(c, OUT_Y)->data, *means = data_or_null(arg_out(c, OUT_MEAN));
    REAL *variances = data_or_null(arg_out(c, OUT_VARIANCE));
    x += first * s->width;
    y += first * s->width;
    int64_t n = s->width, count;
    for (int64_t row = first; row < end; row += count, x += count * n, y += count * n) {
        REAL mean[SIDE_BY_SIDE], variance[SIDE_BY_SIDE], r[SIDE_BY_SIDE];
        count = rows_at_a_time(n, end - row);
        NAME(row_means)(n, count, x, mean, variance);
        for (int64_t k = 0; k < count; k++) r[k] = (REAL)(1 / sqrt((double)variance[k] + s->epsilon));
        for (int64_t k = 0; k < count; k++) NAME(affine)(n, x + k * n, mean[k], r[k], scale, bias, y + k * n);
        for (int64_t k = 0; means && k < count; k++) means[row + k] = mean[k];
        for (int64_t k = 0; variances && k < count; k++) variances[row + k] = s->keeps_r ? r[k] : variance[k];
    }
}

static void NAME(grad_rows)(int64_t n, int64_t count, const REAL *x, const REAL *mean, const REAL *r, const REAL *scale,
                            const REAL *dy, REAL *dx) {
    REAL mean_g[SIDE_BY_SIDE], mean_gh[SIDE_BY_SIDE];
    NAME(row_sums)(n, count, x, mean, scale, dy, mean_g, mean_gh);
    for (int64_t k = 0; k < count; k++, x += n, dy += n, dx += n) {
        REAL of_g = mean_g[k] / (REAL)n, of_gh = mean_gh[k] * r[k] / (REAL)n, m = mean[k], rk = r[k];
        if (scale) {
            INDEPENDENT for (int64_t i = 0; i < n; i++) dx[i] =
                rk * (dy[i] * scale[i] - of_g - (x[i] - m) * rk * of_gh);
        } else {
            INDEPENDENT for (int64_t i = 0; i < n; i++) dx[i] = rk * (dy[i] - of_g - (x[i] - m) * rk * of_gh);
        }
    }
}

static void NAME(add_params)(int64_t n, int64_t count, const REAL *x, const REAL *mean, const REAL *r, const REAL *dy,
                             REAL *dscale, REAL *dbias) {
    enum { EACH = sizeof(vec) / sizeof(REAL), WIDE = 4 };
    typedef REAL some __attribute__((vector_size(sizeof(vec))));
    int64_t i = 0;
    for (; i + WIDE * EACH <= n; i += WIDE * EACH) {
        some of_scale[WIDE], of_bias[WIDE], a, d;
        for (int j = 0; j < WIDE; j++) {
            memcpy(&of_scale[j], dscale + i + j * EACH, sizeof a);
            memcpy(&of_bias[j], dbias + i + j * EACH, sizeof a);
        }
        for (int64_t k = 0; k < count; k++)
            for (int j = 0; j < WIDE; j++) {
                memcpy(&a, x + k * n + i + j * EACH, sizeof a);
                memcpy(&d, dy + k * n + i + j * EACH, sizeof d);
                of_scale[j] += d * ((a - mean[k]) * r[k]);
                of_bias[j] += d;
            }
        for (int j = 0; j < WIDE; j++) {
            memcpy(dscale + i + j * EACH, &of_scale[j], sizeof a);
            memcpy(dbias + i + j * EACH, &of_bias[j], sizeof a);
        }
    }
    for (int64_t k = 0; k < count && i < n; k++)
        for (int64_t j = i; j < n; j++) {
            dscale[j] += dy[k * n + j] * ((x[k * n + j] - mean[k]) * r[k]);
            dbias[j] += dy[k * n + j];
        }
}

static void NAME(add)(int64_t n, const REAL *x, REAL *y) {
    for (int64_t i = 0; i < n; i++) y[i] += x[i];
}

static void NAME(grad)(const kernel_call *c, const layer_norm_state *s, int64_t from, int64_t to) {
    int64_t n = s->width;
    const REAL *x = arg_in(c, GRAD_IN_X)->data, *scale = data_or_null(arg_in(c, GRAD_IN_SCALE));
    const REAL *means = arg_in(c, GRAD_IN_MEAN)->data, *variances = arg_in(c, GRAD_IN_VARIANCE)->data;
    const REAL *dy = arg_in(c, GRAD_IN_DY)->data;
    REAL *dx = data_or_null(arg_out(c, GRAD_OUT_DX)), *dscale = data_or_null(arg_out(c, GRAD_OUT_DSCALE));
    REAL *dbias = data_or_null(arg_out(c, GRAD_OUT_DBIAS)), *block = c->workspace;
    if (dscale && from == 0) memset(dscale, 0, (size_t)n * sizeof *dscale);
    if (dbias && from == 0) memset(dbias, 0, (size_t)n * sizeof *dbias);
    for (int64_t first = from; first < to; first += ROWS_A_BLOCK) {
        int64_t end = first + ROWS_A_BLOCK < to ? first + ROWS_A_BLOCK : to;
        memset(block, 0, 2 * (size_t)n * sizeof *block);
        for (int64_t row = first, count; row < end; row += count) {
            REAL r[SIDE_BY_SIDE];
            const REAL *mean = means + row, *xr = x + row * n, *dyr = dy + row * n;
            count = rows_at_a_time(n, end - row);
            for (int64_t k = 0; k < count; k++) r[k] = NAME(r)(s, variances[row + k]);
            if (dscale || dbias) NAME(add_params)(n, count, xr, mean, r, dyr, block, block + n);
            if (dx) NAME(grad_rows)(n, count, xr, mean, r, scale, dyr, dx + row * n);
        }
        if (dscale) NAME(add)(n, block, dscale);
        if (dbias) NAME(add)(n, block + n, dbias);
    }
}
