/* gated.c: functions in which one tensor gates another: swiglu, prelu, clip_by_norm, dot. */
#include <math.h>

#include "executor/kernels/accumulate.h"
#include "executor/kernels/layout.h"
#include "executor/kernels/selected_rows.h"
#include "executor/kernels/vector_math.h"

/* --- swiglu: silu(x) * y; without y, x and y are the halves of the last dimension --------------------------------- */

enum { GLU_IN_X, GLU_IN_Y, GLU_IN_OUT_GRAD, GLU_OUT = 0, GLU_OUT_X_GRAD = 0, GLU_OUT_Y_GRAD };

/* Rows of `width` elements, `step` apart in x (and, where there is no y, with y's rows `width` further). */
typedef struct glu_state {
    int64_t nrows, width, step;
} glu_state;

static weft_status prepare_glu(kernel_prepare *p, const tensor *out) {
    glu_state *s = KERNEL_STATE(p, glu_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, GLU_IN_X), *y = type_in(p, GLU_IN_Y);
    TRY(require_real(p, x, "x"));
    if (x->ndim < 1) return kernel_unsupported(p, "expected x of at least one dimension");
    int64_t last = x->dims[x->ndim - 1];
    if (!y && last % 2) return kernel_unsupported(p, "expected an even last dimension, found %lld", (long long)last);
    if (y) TRY(require_numel(p, y, x->numel, "y"));
    if (y) TRY(require_same_dtype(p, x, y, "y"));
    *s = (glu_state){last ? x->numel / last : 0, y ? last : last / 2, last};
    TRY(require_same_dtype(p, x, out, "out"));
    return require_numel(p, out, s->nrows * s->width, "out");
}

static weft_status prepare_swiglu(kernel_prepare *p) {
    return prepare_glu(p, type_out(p, GLU_OUT));
}
static weft_status prepare_swiglu_grad(kernel_prepare *p) {
    const tensor *dx = type_out(p, GLU_OUT_X_GRAD), *dy = type_out(p, GLU_OUT_Y_GRAD), *x = type_in(p, GLU_IN_X);
    TRY(prepare_glu(p, type_in(p, GLU_IN_OUT_GRAD)));
    if (dx) TRY(require_numel(p, dx, x->numel, "x@GRAD"));
    return dy && type_in(p, GLU_IN_Y) ? require_numel(p, dy, x->numel, "y@GRAD") : NULL;
}

static inline float sigmoid_fp32(float x) {
    return 1 / (1 + vm_exp(-x));
}
static inline double sigmoid_fp64(double x) {
    return 1 / (1 + exp(-x));
}

#define DEFINE_SWIGLU(dtype, suffix, real)                                                                             \
    static void glu_row_##suffix(int64_t n, const void *xv, const void *yv, void *outv) {                              \
        const real *x = xv, *y = yv;                                                                                   \
        real *out = outv;                                                                                              \
        INDEPENDENT for (int64_t i = 0; i < n; i++) out[i] = x[i] * sigmoid_##suffix(x[i]) * y[i];                     \
    }                                                                                                                  \
    static void glu_row_dx_##suffix(int64_t n, const void *xv, const void *yv, const void *gv, void *outv) {           \
        const real *x = xv, *y = yv, *g = gv;                                                                          \
        real *out = outv;                                                                                              \
        INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                                  \
            real s = sigmoid_##suffix(x[i]);                                                                           \
            out[i] = g[i] * y[i] * s * (1 + x[i] * (1 - s));                                                           \
        }                                                                                                              \
    }
REAL_TYPES(DEFINE_SWIGLU)
#undef DEFINE_SWIGLU

/* Row i of a tensor whose rows are `step` elements apart, `offset` elements in. */
static char *row_of(const tensor *t, int64_t i, int64_t step, int64_t offset) {
    return (char *)t->data + (size_t)(i * step + offset) * weft_dtype_nbytes(t->dtype);
}

static weft_status run_swiglu(const kernel_call *c) {
    const glu_state *s = c->state;
    const tensor *x = arg_in(c, GLU_IN_X), *y = arg_in(c, GLU_IN_Y), *out = arg_out(c, GLU_OUT);
    for (int64_t i = 0; i < s->nrows; i++) {
        const char *xr = row_of(x, i, s->step, 0), *yr = y ? row_of(y, i, s->step, 0) : row_of(x, i, s->step, s->width);
        (x->dtype == WEFT_FP64 ? glu_row_fp64 : glu_row_fp32)(s->width, xr, yr, row_of(out, i, s->width, 0));
    }
    return NULL;
}

static weft_status run_swiglu_grad(const kernel_call *c) {
    const glu_state *s = c->state;
    const tensor *x = arg_in(c, GLU_IN_X), *y = arg_in(c, GLU_IN_Y), *g = arg_in(c, GLU_IN_OUT_GRAD);
    const tensor *dx = arg_out(c, GLU_OUT_X_GRAD), *dy = y ? arg_out(c, GLU_OUT_Y_GRAD) : dx;
    bool fp64 = x->dtype == WEFT_FP64;
    for (int64_t i = 0; i < s->nrows; i++) {
        const char *xr = row_of(x, i, s->step, 0), *yr = y ? row_of(y, i, s->step, 0) : row_of(x, i, s->step, s->width);
        const char *gr = row_of(g, i, s->width, 0);
        if (dx) (fp64 ? glu_row_dx_fp64 : glu_row_dx_fp32)(s->width, xr, yr, gr, row_of(dx, i, s->step, 0));
        if (dy) (fp64 ? glu_row_fp64 : glu_row_fp32)(s->width, xr, gr, row_of(dy, i, s->step, y ? 0 : s->width));
    }
    return NULL;
}

const kernel kernel_swiglu = {prepare_swiglu, run_swiglu};
const kernel kernel_swiglu_grad = {prepare_swiglu_grad, run_swiglu_grad};

/* --- prelu: x, or alpha * x below 0; one alpha for all, a channel, or an element of a sample ---------------------- */

enum { PRELU_IN_X, PRELU_IN_ALPHA, PRELU_IN_OUT_GRAD, PRELU_OUT_X_GRAD = 0, PRELU_OUT_ALPHA_GRAD };

/* Element i uses alpha[i / run % count]. */
typedef struct prelu_state {
    int64_t run, count;
} prelu_state;

static weft_status prepare_slopes(kernel_prepare *p) {
    prelu_state *s = KERNEL_STATE(p, prelu_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, PRELU_IN_X), *alpha = type_in(p, PRELU_IN_ALPHA);
    const char *mode = attr_string(p->op, "mode", "all");
    TRY(require_real(p, x, "X"));
    TRY(require_present(p, alpha, "Alpha"));
    TRY(require_same_dtype(p, x, alpha, "Alpha"));
    *s = (prelu_state){1, 1};
    if (strcmp(mode, "channel") == 0 && x->ndim >= 2) {
        bool last = strcmp(attr_string(p->op, "data_format", "NCHW"), "NHWC") == 0;
        s->count = x->dims[last ? x->ndim - 1 : 1];
        for (int i = 2; i < x->ndim && !last; i++) s->run *= x->dims[i];
    } else if (strcmp(mode, "element") == 0 && x->ndim >= 1) {
        s->count = x->dims[0] ? x->numel / x->dims[0] : 1;
    } else if (strcmp(mode, "all") != 0) {
        return kernel_unsupported(p, "expected mode all, channel or element, found %s", mode);
    }
    return require_numel(p, alpha, s->count, "Alpha");
}

static weft_status prepare_prelu(kernel_prepare *p) {
    TRY(prepare_slopes(p));
    return require_numel(p, type_out(p, 0), type_in(p, PRELU_IN_X)->numel, "Out");
}

static weft_status prepare_prelu_grad(kernel_prepare *p) {
    TRY(prepare_slopes(p));
    const tensor *x = type_in(p, PRELU_IN_X), *alpha = type_in(p, PRELU_IN_ALPHA);
    const tensor *dx = type_out(p, PRELU_OUT_X_GRAD), *dalpha = type_out(p, PRELU_OUT_ALPHA_GRAD);
    TRY(require_numel(p, type_in(p, PRELU_IN_OUT_GRAD), x->numel, "Out@GRAD"));
    if (dx) TRY(require_numel(p, dx, x->numel, "X@GRAD"));
    if (dalpha) TRY(require_numel(p, dalpha, alpha->numel, "Alpha@GRAD"));
    p->workspace_nbytes = (size_t)alpha->numel * sizeof(double);
    return NULL;
}

#define DEFINE_PRELU(dtype, suffix, real)                                                                              \
    static void prelu_##suffix(const prelu_state *s, int64_t n, const real *x, const real *alpha, real *out) {         \
        for (int64_t i = 0; i < n; i++) out[i] = x[i] > 0 ? x[i] : alpha[i / s->run % s->count] * x[i];                \
    }                                                                                                                  \
    static void prelu_grad_##suffix(const prelu_state *s, int64_t n, const real *x, const real *alpha, const real *g,  \
                                    real *dx, double *dalpha) {                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            int64_t k = i / s->run % s->count;                                                                         \
            if (x[i] <= 0) dalpha[k] += (double)g[i] * (double)x[i];                                                   \
            if (dx) dx[i] = x[i] > 0 ? g[i] : alpha[k] * g[i];                                                         \
        }                                                                                                              \
    }
REAL_TYPES(DEFINE_PRELU)
#undef DEFINE_PRELU

static weft_status run_prelu(const kernel_call *c) {
    const tensor *x = arg_in(c, PRELU_IN_X), *alpha = arg_in(c, PRELU_IN_ALPHA);
    if (x->dtype == WEFT_FP64)
        prelu_fp64(c->state, x->numel, x->data, alpha->data, arg_out(c, 0)->data);
    else
        prelu_fp32(c->state, x->numel, x->data, alpha->data, arg_out(c, 0)->data);
    return NULL;
}

static weft_status run_prelu_grad(const kernel_call *c) {
    const tensor *x = arg_in(c, PRELU_IN_X), *alpha = arg_in(c, PRELU_IN_ALPHA), *g = arg_in(c, PRELU_IN_OUT_GRAD);
    tensor *dx = arg_out(c, PRELU_OUT_X_GRAD), *dalpha = arg_out(c, PRELU_OUT_ALPHA_GRAD);
    double *acc = c->workspace;
    memset(acc, 0, (size_t)alpha->numel * sizeof *acc);
    void *to = dx ? dx->data : NULL;
    if (x->dtype == WEFT_FP64)
        prelu_grad_fp64(c->state, x->numel, x->data, alpha->data, g->data, to, acc);
    else
        prelu_grad_fp32(c->state, x->numel, x->data, alpha->data, g->data, to, acc);
    if (dalpha) store_doubles(dalpha->dtype, dalpha->numel, acc, dalpha->data);
    return NULL;
}

const kernel kernel_prelu = {prepare_prelu, run_prelu};
const kernel kernel_prelu_grad = {prepare_prelu_grad, run_prelu_grad};

/* --- clip_by_norm, and the gradient of a sum of squares: x times one number --------------------------------------- */

typedef struct norm_clip {
    double most;
} norm_clip;

static weft_status prepare_like_x(kernel_prepare *p) {
    const tensor *x = type_in(p, 0);
    TRY(require_present(p, x, "X"));
    if (!dtype_is_float(x->dtype))
        return kernel_unsupported(p, "expected X of a float type, found %s", dtype_text(x->dtype));
    TRY(require_same_dtype(p, x, type_out(p, 0), "the output"));
    return require_numel(p, type_out(p, 0), x->numel, "the output");
}

static weft_status prepare_norm_clip(kernel_prepare *p) {
    norm_clip *s = KERNEL_STATE(p, norm_clip);
    if (!s) return base_out_of_memory();
    s->most = attr_float(p->op, "max_norm", 1);
    TRY(prepare_like_x(p));
    if (type_in(p, 0)->height >= 0) TRY(require_real(p, type_in(p, 0), "X of rows"));
    p->workspace_nbytes = selected_rows_merge_nbytes(type_in(p, 0));
    return NULL;
}

static void multiply(const tensor *x, double factor, tensor *out) {
    double values[BLOCK];
    size_t nbytes = weft_dtype_nbytes(x->dtype);
    for (int64_t i = 0; i < x->numel; i += BLOCK) {
        int64_t n = block_size(x->numel - i);
        load_doubles(x->dtype, n, (const char *)x->data + (size_t)i * nbytes, values);
        for (int64_t k = 0; k < n; k++) values[k] *= factor;
        store_doubles(out->dtype, n, values, (char *)out->data + (size_t)i * nbytes);
    }
}

static weft_status run_norm_clip(const kernel_call *c) {
    const norm_clip *s = c->state;
    const tensor *x = arg_in(c, 0);
    if (x->rows) { /* the norm is that of the whole tensor: rows of one index count as their sum */
        selected_rows_merge(x, arg_out(c, 0), c->workspace);
        x = arg_out(c, 0);
    }
    double norm = sqrt(sum_of_squares(x->dtype, x->numel, x->data));
    multiply(x, norm <= s->most ? 1 : s->most / norm, arg_out(c, 0));
    return NULL;
}

static weft_status prepare_squares_grad(kernel_prepare *p) {
    TRY(prepare_like_x(p));
    return require_numel(p, type_in(p, 1), 1, "Out@GRAD");
}

static weft_status run_squares_grad(const kernel_call *c) {
    multiply(arg_in(c, 0), 2 * tensor_scalar(arg_in(c, 1)), arg_out(c, 0));
    return NULL;
}

const kernel kernel_clip_by_norm = {prepare_norm_clip, run_norm_clip};
const kernel kernel_squared_l2_norm_grad = {prepare_squares_grad, run_squares_grad};

/* --- dot: rows multiplied and added up ---------------------------------------------------------------------------- */

enum { DOT_IN_X, DOT_IN_Y, DOT_IN_OUT_GRAD, DOT_OUT_X_GRAD = 0, DOT_OUT_Y_GRAD };

typedef struct dot_state {
    int64_t nrows, width;
} dot_state;

static weft_status prepare_rows(kernel_prepare *p, const tensor *out) {
    dot_state *s = KERNEL_STATE(p, dot_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, DOT_IN_X);
    TRY(require_real(p, x, "X"));
    TRY(require_same_dtype(p, x, type_in(p, DOT_IN_Y), "Y"));
    TRY(require_numel(p, type_in(p, DOT_IN_Y), x->numel, "Y"));
    s->width = x->ndim ? x->dims[x->ndim - 1] : 1;
    s->nrows = 1;
    for (int i = 0; i + 1 < x->ndim; i++) s->nrows *= x->dims[i];
    TRY(require_same_dtype(p, x, out, "Out"));
    return require_numel(p, out, s->nrows, "Out");
}

static weft_status prepare_dot(kernel_prepare *p) {
    return prepare_rows(p, type_out(p, 0));
}
static weft_status prepare_dot_grad(kernel_prepare *p) {
    TRY(prepare_rows(p, type_in(p, DOT_IN_OUT_GRAD)));
    for (int i = DOT_OUT_X_GRAD; i <= DOT_OUT_Y_GRAD; i++)
        if (type_out(p, i)) TRY(require_numel(p, type_out(p, i), type_in(p, DOT_IN_X)->numel, "a gradient"));
    return NULL;
}

#define DEFINE_DOT(dtype, suffix, real)                                                                                \
    static void dot_rows_##suffix(const dot_state *s, const real *x, const real *y, real *out) {                       \
        for (int64_t r = 0; r < s->nrows; r++, x += s->width, y += s->width) {                                         \
            double sum = 0;                                                                                            \
            for (int64_t i = 0; i < s->width; i++) sum += (double)x[i] * (double)y[i];                                 \
            out[r] = (real)sum;                                                                                        \
        }                                                                                                              \
    }                                                                                                                  \
    static void dot_slopes_##suffix(const dot_state *s, const real *other, const real *g, real *d) {                   \
        for (int64_t r = 0; r < s->nrows; r++)                                                                         \
            for (int64_t i = 0; i < s->width; i++) d[r * s->width + i] = other[r * s->width + i] * g[r];               \
    }
REAL_TYPES(DEFINE_DOT)
#undef DEFINE_DOT

static weft_status run_dot(const kernel_call *c) {
    const tensor *x = arg_in(c, DOT_IN_X), *y = arg_in(c, DOT_IN_Y);
    if (x->dtype == WEFT_FP64)
        dot_rows_fp64(c->state, x->data, y->data, arg_out(c, 0)->data);
    else
        dot_rows_fp32(c->state, x->data, y->data, arg_out(c, 0)->data);
    return NULL;
}

static weft_status run_dot_grad(const kernel_call *c) {
    const tensor *g = arg_in(c, DOT_IN_OUT_GRAD);
    for (int i = DOT_OUT_X_GRAD; i <= DOT_OUT_Y_GRAD; i++) {
        tensor *d = arg_out(c, i);
        const tensor *other = arg_in(c, i == DOT_OUT_X_GRAD ? DOT_IN_Y : DOT_IN_X);
        if (d && g->dtype == WEFT_FP64) dot_slopes_fp64(c->state, other->data, g->data, d->data);
        if (d && g->dtype == WEFT_FP32) dot_slopes_fp32(c->state, other->data, g->data, d->data);
    }
    return NULL;
}

const kernel kernel_dot = {prepare_dot, run_dot};
const kernel kernel_dot_grad = {prepare_dot_grad, run_dot_grad};
