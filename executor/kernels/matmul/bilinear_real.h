/* bilinear_real.h: the loops of bilinear.c; a template (executor/kernels/each_real.h). */

static void NAME(forward)(const kernel_call *c, const bilinear_state *s) {
    const REAL *x = arg_in(c, IN_X)->data, *y = arg_in(c, IN_Y)->data, *w = arg_in(c, IN_WEIGHT)->data;
    const REAL *bias = data_or_null(arg_in(c, IN_BIAS));
    REAL *out = arg_out(c, OUT)->data, *mapped = c->workspace;
    for (int64_t k = 0; k < s->count; k++) {
        product(c, REAL_DTYPE, false, false, s->rows, s->other, s->width, x, w + k * s->width * s->other, false, mapped);
        for (int64_t i = 0; i < s->rows; i++) {
            REAL sum = bias ? bias[k] : 0;
            for (int64_t j = 0; j < s->other; j++) sum += mapped[i * s->other + j] * y[i * s->other + j];
            out[i * s->count + k] = sum;
        }
    }
}

/* Rows of `x` times the gradients of results of matrix k. */
static void NAME(weigh)(const bilinear_state *s, const REAL *g, int64_t k, const REAL *x, int64_t width, REAL *to) {
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t j = 0; j < width; j++) to[i * width + j] = g[i * s->count + k] * x[i * width + j];
}

static void NAME(backward)(const kernel_call *c, const bilinear_state *s) {
    const REAL *x = arg_in(c, IN_X)->data, *y = arg_in(c, IN_Y)->data, *w = arg_in(c, IN_WEIGHT)->data;
    const REAL *g = arg_in(c, IN_OUT_GRAD)->data;
    REAL *dx = data_or_null(arg_out(c, OUT_X_GRAD)), *dy = data_or_null(arg_out(c, OUT_Y_GRAD));
    REAL *dw = data_or_null(arg_out(c, OUT_WEIGHT_GRAD)), *db = data_or_null(arg_out(c, OUT_BIAS_GRAD));
    REAL *weighed = c->workspace;
    int64_t size = s->width * s->other;
    if (s->count == 0 && dx) memset(dx, 0, (size_t)(s->rows * s->width) * sizeof *dx);
    if (s->count == 0 && dy) memset(dy, 0, (size_t)(s->rows * s->other) * sizeof *dy);
    for (int64_t k = 0; k < s->count; k++) {
        NAME(weigh)(s, g, k, y, s->other, weighed);
        if (dx) product(c, REAL_DTYPE, false, true, s->rows, s->width, s->other, weighed, w + k * size, k > 0, dx);
        if (dw) product(c, REAL_DTYPE, true, false, s->width, s->other, s->rows, x, weighed, false, dw + k * size);
        NAME(weigh)(s, g, k, x, s->width, weighed);
        if (dy) product(c, REAL_DTYPE, false, false, s->rows, s->other, s->width, weighed, w + k * size, k > 0, dy);
        REAL sum = 0;
        for (int64_t i = 0; i < s->rows; i++) sum += g[i * s->count + k];
        if (db) db[k] = sum;
    }
}
