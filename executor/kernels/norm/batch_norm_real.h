/* batch_norm_real.h: the loops of batch_norm.c; a template (executor/kernels/each_real.h). */

static void NAME(sum_planes)(const norm_state *s, summand what, const REAL *x, const REAL *mean, const REAL *y,
                             double *sum, span r) {
    int64_t n = s->plane;
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t c = r.first; c < r.end; c++) {
            int64_t at = (b * s->channels + c) * n;
            if (what == SUM_X) sum[c] += (double)NAME(sum)(n, x + at);
            if (what == SUM_SQUARE) sum[c] += (double)NAME(sum_squares)(n, x + at, mean[c]);
            if (what == SUM_PRODUCT) sum[c] += (double)NAME(dot)(n, x + at, mean[c], y + at);
        }
}

static void NAME(sum_row)(int64_t n, summand what, const REAL *x, const REAL *mean, const REAL *y, REAL *block) {
    if (what == SUM_X)
        for (int64_t c = 0; c < n; c++) block[c] += x[c];
    if (what == SUM_SQUARE)
        for (int64_t c = 0; c < n; c++) block[c] += (x[c] - mean[c]) * (x[c] - mean[c]);
    if (what == SUM_PRODUCT)
        for (int64_t c = 0; c < n; c++) block[c] += (x[c] - mean[c]) * y[c];
}

static void NAME(sum_columns)(const norm_state *s, summand what, const REAL *x, const REAL *mean, const REAL *y,
                              double *sum, REAL *block) {
    int64_t n = s->channels;
    for (int64_t first = 0; first < s->batch; first += ROWS_A_BLOCK) {
        int64_t end = first + ROWS_A_BLOCK < s->batch ? first + ROWS_A_BLOCK : s->batch;
        memset(block, 0, (size_t)n * sizeof *block);
        for (int64_t b = first; b < end; b++) NAME(sum_row)(n, what, x + b * n, mean, y ? y + b * n : NULL, block);
        for (int64_t c = 0; c < n; c++) sum[c] += (double)block[c];
    }
}

static void NAME(sum_channels)(const norm_state *s, summand what, const REAL *x, const REAL *mean, const REAL *y,
                               double *sum, REAL *block, span r) {
    for (int64_t c = r.first; c < r.end; c++) sum[c] = 0;
    if (s->plane == 1)
        NAME(sum_columns)(s, what, x, mean, y, sum, block);
    else
        NAME(sum_planes)(s, what, x, mean, y, sum, r);
}

/* y = (x - mean) * factor + bias */
static void NAME(normalize)(const norm_state *s, const REAL *x, const REAL *mean, const REAL *factor, const REAL *bias,
                            REAL *y, span r) {
    int64_t n = s->plane, channels = s->channels;
    for (int64_t b = 0; b < s->batch; b++) {
        const REAL *xb = x + b * channels * n;
        REAL *yb = y + b * channels * n;
        if (n == 1) {
            INDEPENDENT for (int64_t c = 0; c < channels; c++) yb[c] = (xb[c] - mean[c]) * factor[c] + bias[c];
            continue;
        }
        for (int64_t c = r.first; c < r.end; c++) {
            REAL m = mean[c], f = factor[c], e = bias[c];
            INDEPENDENT for (int64_t i = c * n; i < (c + 1) * n; i++) yb[i] = (xb[i] - m) * f + e;
        }
    }
}

/* dx = factor * dy - d * slope - offset */
static void NAME(propagate)(const norm_state *s, const REAL *x, const REAL *dy, const REAL *mean, const REAL *factor,
                            const REAL *slope, const REAL *offset, REAL *dx, span r) {
    int64_t n = s->plane, channels = s->channels;
    for (int64_t b = 0; b < s->batch; b++) {
        int64_t at = b * channels * n;
        const REAL *xb = x + at, *gb = dy + at;
        REAL *db = dx + at;
        if (n == 1) {
            INDEPENDENT for (int64_t c = 0; c < channels; c++) db[c] =
                factor[c] * gb[c] - (xb[c] - mean[c]) * slope[c] - offset[c];
            continue;
        }
        for (int64_t c = r.first; c < r.end; c++) {
            REAL m = mean[c], f = factor[c], k = slope[c], e = offset[c];
            INDEPENDENT for (int64_t i = c * n; i < (c + 1) * n; i++) db[i] = f * gb[i] - (xb[i] - m) * k - e;
        }
    }
}

/* The batch's mean and 1 / sqrt(variance + epsilon), blended into the running mean and variance. */
static void NAME(measure)(const kernel_call *call, const norm_state *s, REAL *mean, REAL *inverse, double *sum,
                          REAL *block, span r) {
    const tensor *x = arg_in(call, IN_X), *blend = arg_in(call, IN_MOMENTUM);
    double count = (double)(s->batch * s->plane), momentum = blend ? host_scalar(call, blend) : s->momentum;
    REAL *new_mean = data_of(arg_out(call, OUT_MEAN)), *new_variance = data_of(arg_out(call, OUT_VARIANCE));
    const REAL *old_mean = data_of(arg_in(call, IN_MEAN)), *old_variance = data_of(arg_in(call, IN_VARIANCE));
    NAME(sum_channels)(s, SUM_X, x->data, NULL, NULL, sum, block, r);
    for (int64_t c = r.first; c < r.end; c++) mean[c] = (REAL)(sum[c] / count);
    NAME(sum_channels)(s, SUM_SQUARE, x->data, mean, NULL, sum, block, r);
    for (int64_t c = r.first; c < r.end; c++) {
        double variance = sum[c] / count;
        inverse[c] = (REAL)(1 / sqrt(variance + s->epsilon));
        if (!new_mean) continue;
        if (s->aten) variance = sum[c] / (count - 1);
        new_mean[c] = (REAL)((double)old_mean[c] * momentum + (double)mean[c] * (1 - momentum));
        new_variance[c] = (REAL)((double)old_variance[c] * momentum + variance * (1 - momentum));
    }
}

static void NAME(forward)(const kernel_call *call, const norm_state *s, span r) {
    int64_t n = s->channels;
    double *sum = call->workspace;
    REAL *block = (REAL *)(sum + 2 * n), *mean = block + n, *inverse = mean + n, *factor = inverse + n;
    REAL *offset = factor + n;
    if (s->use_running) {
        const REAL *variance = arg_in(call, IN_VARIANCE)->data;
        memcpy(mean + r.first, (const REAL *)arg_in(call, IN_MEAN)->data + r.first,
               (size_t)(r.end - r.first) * sizeof *mean);
        for (int64_t c = r.first; c < r.end; c++) inverse[c] = (REAL)(1 / sqrt((double)variance[c] + s->epsilon));
    } else {
        NAME(measure)(call, s, mean, inverse, sum, block, r);
    }
    const REAL *scale = data_of(arg_in(call, IN_SCALE)), *bias = data_of(arg_in(call, IN_BIAS));
    REAL *saved_mean = data_of(arg_out(call, OUT_SAVED_MEAN));
    REAL *saved_variance = data_of(arg_out(call, OUT_SAVED_VARIANCE));
    bool is_zero = s->use_running && !s->aten; /* what is saved */
    for (int64_t c = r.first; c < r.end; c++) {
        factor[c] = scale ? scale[c] * inverse[c] : inverse[c];
        offset[c] = bias ? bias[c] : 0;
        if (saved_mean) saved_mean[c] = is_zero ? 0 : mean[c];
        if (saved_variance) saved_variance[c] = is_zero ? 0 : inverse[c];
    }
    NAME(normalize)(s, arg_in(call, IN_X)->data, mean, factor, offset, arg_out(call, OUT_Y)->data, r);
}

static void NAME(backward)(const kernel_call *call, const norm_state *s, span range) {
    int64_t n = s->channels;
    double *sum = call->workspace, *product = sum + n, count = (double)(s->batch * s->plane);
    REAL *block = (REAL *)(product + n), *factor = block + n, *slope = factor + n;
    REAL *offset = slope + n;
    const REAL *x = arg_in(call, GRAD_IN_X)->data, *dy = arg_in(call, GRAD_IN_DY)->data;
    const REAL *scale = data_of(arg_in(call, GRAD_IN_SCALE));
    const REAL *mean = arg_in(call, s->mean)->data;
    const REAL *spread = arg_in(call, s->variance)->data;
    REAL *dscale = data_of(arg_out(call, GRAD_OUT_DSCALE)), *dbias = data_of(arg_out(call, GRAD_OUT_DBIAS));
    NAME(sum_channels)(s, SUM_X, dy, NULL, NULL, sum, block, range);
    NAME(sum_channels)(s, SUM_PRODUCT, x, mean, dy, product, block, range);
    for (int64_t c = range.first; c < range.end; c++) {
        double r = s->use_running ? 1 / sqrt((double)spread[c] + s->epsilon) : (double)spread[c];
        double f = scale ? (double)scale[c] * r : r;
        factor[c] = (REAL)f;
        slope[c] = s->use_running ? 0 : (REAL)(f * r * r * product[c] / count);
        offset[c] = s->use_running ? 0 : (REAL)(f * sum[c] / count);
        if (dscale) dscale[c] = (REAL)(product[c] * r);
        if (dbias) dbias[c] = (REAL)sum[c];
    }
    REAL *dx = data_of(arg_out(call, GRAD_OUT_DX));
    if (dx) NAME(propagate)(s, x, dy, mean, factor, slope, offset, dx, range);
}

/* Items are channels, a few at a time: all that is read of them lies in the nearest cache. */
static void NAME(forward_channels)(void *arg, int64_t first, int64_t end, int part) {
    const kernel_call *call = arg;
    int64_t few = few_channels(call->state, sizeof(REAL));
    (void)part;
    for (int64_t c = first; c < end; c += few)
        NAME(forward)(call, call->state, (span){c, c + few < end ? c + few : end});
}

static void NAME(backward_channels)(void *arg, int64_t first, int64_t end, int part) {
    const kernel_call *call = arg;
    int64_t few = few_channels(call->state, sizeof(REAL));
    (void)part;
    for (int64_t c = first; c < end; c += few)
        NAME(backward)(call, call->state, (span){c, c + few < end ? c + few : end});
}

static void NAME(run)(const kernel_call *call, bool gradient) {
    const norm_state *s = call->state;
    kernel_call copy = *call;
    if (s->plane == 1)
        (gradient ? NAME(backward) : NAME(forward))(call, s, (span){0, s->channels});
    else
        parallel_for(call, s->channels, grain_of_bytes(4 * s->batch * s->plane * (int64_t)sizeof(REAL)),
                     gradient ? NAME(backward_channels) : NAME(forward_channels), &copy);
}
