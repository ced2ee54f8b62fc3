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

typedef struct NAME(room) {
    double *sum, *product;
    REAL *block, *mean, *inverse, *factor, *offset, *slope; /* of a gradient: no mean, no inverse */
} NAME(room);

static NAME(room) NAME(room_of)(const kernel_call *call, const norm_state *s) {
    int64_t n = s->channels;
    double *sum = call->workspace;
    REAL *block = (REAL *)(sum + 2 * n + 1);
    return (NAME(room)){sum, sum + n, block, block + n, block + 2 * n, block + 3 * n, block + 4 * n, block + n};
}

static void NAME(set_mean)(REAL *mean, const double *sum, double count, span r) {
    for (int64_t c = r.first; c < r.end; c++) mean[c] = (REAL)(sum[c] / count);
}

/* 1 / sqrt(variance + epsilon) from sums of squares; mean and variance blended into the running ones. */
static void NAME(set_variance)(const kernel_call *call, const norm_state *s, const NAME(room) * w, double count,
                               span r) {
    const tensor *blend = arg_in(call, IN_MOMENTUM);
    double momentum = blend ? host_scalar(call, blend) : s->momentum;
    REAL *new_mean = data_of(arg_out(call, OUT_MEAN)), *new_variance = data_of(arg_out(call, OUT_VARIANCE));
    const REAL *old_mean = data_of(arg_in(call, IN_MEAN)), *old_variance = data_of(arg_in(call, IN_VARIANCE));
    for (int64_t c = r.first; c < r.end; c++) {
        double variance = w->sum[c] / count;
        w->inverse[c] = (REAL)(1 / sqrt(variance + s->epsilon));
        if (!new_mean) continue;
        if (s->aten) variance = w->sum[c] / (count - 1);
        new_mean[c] = (REAL)((double)old_mean[c] * momentum + (double)w->mean[c] * (1 - momentum));
        new_variance[c] = (REAL)((double)old_variance[c] * momentum + variance * (1 - momentum));
    }
}

static void NAME(sum_forward)(const kernel_call *call, const norm_state *s, const NAME(room) * w, summand what,
                              span r) {
    NAME(sum_channels)(s, what, arg_in(call, IN_X)->data, w->mean, NULL, w->sum, w->block, r);
}

static void NAME(use_running)(const kernel_call *call, const norm_state *s, const NAME(room) * w, span r) {
    const REAL *variance = arg_in(call, IN_VARIANCE)->data;
    memcpy(w->mean + r.first, (const REAL *)arg_in(call, IN_MEAN)->data + r.first,
           (size_t)(r.end - r.first) * sizeof *w->mean);
    for (int64_t c = r.first; c < r.end; c++) w->inverse[c] = (REAL)(1 / sqrt((double)variance[c] + s->epsilon));
}

/* Y, and what is saved. */
static void NAME(give)(const kernel_call *call, const norm_state *s, const NAME(room) * w, span r) {
    const REAL *scale = data_of(arg_in(call, IN_SCALE)), *bias = data_of(arg_in(call, IN_BIAS));
    REAL *saved_mean = data_of(arg_out(call, OUT_SAVED_MEAN));
    REAL *saved_variance = data_of(arg_out(call, OUT_SAVED_VARIANCE));
    bool is_zero = s->use_running && !s->aten; /* what is saved */
    for (int64_t c = r.first; c < r.end; c++) {
        w->factor[c] = scale ? scale[c] * w->inverse[c] : w->inverse[c];
        w->offset[c] = bias ? bias[c] : 0;
        if (saved_mean) saved_mean[c] = is_zero ? 0 : w->mean[c];
        if (saved_variance) saved_variance[c] = is_zero ? 0 : w->inverse[c];
    }
    NAME(normalize)(s, arg_in(call, IN_X)->data, w->mean, w->factor, w->offset, arg_out(call, OUT_Y)->data, r);
}

static void NAME(sum_gradient)(const kernel_call *call, const norm_state *s, const NAME(room) * w, span r) {
    const REAL *x = arg_in(call, GRAD_IN_X)->data, *dy = arg_in(call, GRAD_IN_DY)->data;
    NAME(sum_channels)(s, SUM_X, dy, NULL, NULL, w->sum, w->block, r);
    NAME(sum_channels)(s, SUM_PRODUCT, x, arg_in(call, s->mean)->data, dy, w->product, w->block, r);
}

static void NAME(give_gradient)(const kernel_call *call, const norm_state *s, const NAME(room) * w, double count,
                                span range) {
    const REAL *scale = data_of(arg_in(call, GRAD_IN_SCALE)), *spread = arg_in(call, s->variance)->data;
    REAL *dscale = data_of(arg_out(call, GRAD_OUT_DSCALE)), *dbias = data_of(arg_out(call, GRAD_OUT_DBIAS));
    for (int64_t c = range.first; c < range.end; c++) {
        double r = s->use_running ? 1 / sqrt((double)spread[c] + s->epsilon) : (double)spread[c];
        double f = scale ? (double)scale[c] * r : r;
        w->factor[c] = (REAL)f;
        w->slope[c] = s->use_running ? 0 : (REAL)(f * r * r * w->product[c] / count);
        w->offset[c] = s->use_running ? 0 : (REAL)(f * w->sum[c] / count);
        if (dscale) dscale[c] = (REAL)(w->product[c] * r);
        if (dbias) dbias[c] = (REAL)w->sum[c];
    }
    REAL *dx = data_of(arg_out(call, GRAD_OUT_DX));
    if (dx) NAME(propagate)
    (s, arg_in(call, GRAD_IN_X)->data, arg_in(call, GRAD_IN_DY)->data, arg_in(call, s->mean)->data, w->factor, w->slope,
     w->offset, dx, range);
}

static void NAME(take_stage)(const kernel_call *call, norm_stage stage, span r) {
    const norm_state *s = call->state;
    const NAME(room) w = NAME(room_of)(call, s);
    double count = (double)(s->batch * s->plane);
    switch (stage) {
    case STAGE_ALL:
        if (!s->use_running) {
            NAME(sum_forward)(call, s, &w, SUM_X, r);
            NAME(set_mean)(w.mean, w.sum, count, r);
            NAME(sum_forward)(call, s, &w, SUM_SQUARE, r);
            NAME(set_variance)(call, s, &w, count, r);
        } else
            NAME(use_running)(call, s, &w, r);
        NAME(give)(call, s, &w, r);
        break;
    case STAGE_SUMS: NAME(sum_forward)(call, s, &w, SUM_X, r); break;
    case STAGE_SQUARES:
        NAME(set_mean)(w.mean, w.sum, w.sum[s->channels], r);
        NAME(sum_forward)(call, s, &w, SUM_SQUARE, r);
        break;
    case STAGE_GIVE:
        NAME(set_variance)(call, s, &w, w.sum[s->channels], r);
        NAME(give)(call, s, &w, r);
        break;
    case STAGE_GRAD_ALL:
        NAME(sum_gradient)(call, s, &w, r);
        NAME(give_gradient)(call, s, &w, count, r);
        break;
    case STAGE_GRAD_SUMS: NAME(sum_gradient)(call, s, &w, r); break;
    case STAGE_GRAD_GIVE: NAME(give_gradient)(call, s, &w, w.sum[2 * s->channels], r); break;
    }
}

/* Items are channels, a few at a time: all that is read of them lies in the nearest cache. */
static void NAME(take_channels)(void *arg, int64_t first, int64_t end, int part) {
    const staged *call = arg;
    int64_t few = few_channels(call->call->state, sizeof(REAL));
    (void)part;
    for (int64_t c = first; c < end; c += few)
        NAME(take_stage)(call->call, call->stage, (span){c, c + few < end ? c + few : end});
}

static void NAME(run)(const kernel_call *call, norm_stage stage) {
    const norm_state *s = call->state;
    staged both = {call, stage};
    if (s->plane == 1 || s->batch == 0)
        NAME(take_stage)(call, stage, (span){0, s->channels});
    else
        parallel_for(call, s->channels, grain_of_bytes(4 * s->batch * s->plane * (int64_t)sizeof(REAL)),
                     NAME(take_channels), &both);
}
