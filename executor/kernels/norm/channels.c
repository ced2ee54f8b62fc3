/* channels.c: normalisation along channels: lrn (local response normalisation; Krizhevsky and others, 2012),
 * affine_channel (scale and bias of each channel), renorm (parts of at most so large a norm); with gradients. */
#include <math.h>

#include "executor/kernels/layout.h"

/* The dimension of channels, by the attr that says how data lies. */
static int64_t channel_axis(const kernel_prepare *p, const char *attr, const tensor *x) {
    return strcmp(attr_string(p->op, attr, "NCHW"), "NHWC") == 0 ? x->ndim - 1 : 1;
}

/* --- lrn: X / MidOut^beta, MidOut = k + alpha times the sum of squares of the n channels around ------------------- */

typedef struct lrn_state {
    axis_split split;
    int64_t reach; /* channels of a window on either side */
    double k, alpha, beta;
} lrn_state;

static weft_status prepare_windows(kernel_prepare *p, const tensor *out, const tensor *middle) {
    lrn_state *s = KERNEL_STATE(p, lrn_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, 0);
    int64_t n = attr_int(p->op, "n", 5);
    TRY(require_real(p, x, "X"));
    if (x->ndim != 4 || n < 1 || n % 2 == 0)
        return kernel_unsupported(p, "expected 4 dimensions and an odd n, found %d and %lld", x->ndim, (long long)n);
    TRY(axis_split_prepare(p, x, channel_axis(p, "data_format", x), &s->split));
    TRY(require_present(p, out, "Out"));
    TRY(require_like(p, x, out, x->numel, "Out"));
    TRY(require_like(p, x, middle, x->numel, "MidOut"));
    s->reach = (n - 1) / 2;
    s->k = attr_float(p->op, "k", 2);
    s->alpha = attr_float(p->op, "alpha", 1e-4);
    s->beta = attr_float(p->op, "beta", 0.75);
    return NULL;
}
static weft_status prepare_lrn(kernel_prepare *p) {
    return prepare_windows(p, type_out(p, 0), type_out(p, 1));
}

enum { LRN_OUT = 1, LRN_MIDDLE, LRN_OUT_GRAD };

static weft_status prepare_lrn_grad(kernel_prepare *p) {
    TRY(prepare_windows(p, type_in(p, LRN_OUT_GRAD), type_in(p, LRN_MIDDLE)));
    TRY(require_present(p, type_in(p, LRN_MIDDLE), "MidOut"));
    return require_like(p, type_in(p, 0), type_out(p, 0), type_in(p, 0)->numel, "X@GRAD");
}

static int64_t first_of(const lrn_state *s, int64_t column) {
    return column / s->split.inner * s->split.extent * s->split.inner + column % s->split.inner;
}

static weft_status run_lrn(const kernel_call *c) {
    const lrn_state *s = c->state;
    const tensor *x = arg_in(c, 0);
    tensor *middle = arg_out(c, 1);
    for (int64_t column = 0; column < s->split.outer * s->split.inner; column++)
        for (int64_t i = 0, first = first_of(s, column); i < s->split.extent; i++) {
            double sum = 0;
            for (int64_t k = i - s->reach; k <= i + s->reach; k++) {
                if (k < 0 || k >= s->split.extent) continue;
                double value = tensor_real(x, first + k * s->split.inner);
                sum += value * value;
            }
            int64_t at = first + i * s->split.inner;
            if (middle) tensor_set_real(middle, at, s->k + s->alpha * sum);
            tensor_set_real(arg_out(c, 0), at, tensor_real(x, at) * pow(s->k + s->alpha * sum, -s->beta));
        }
    return NULL;
}

/* dX_i = dOut_i M_i^-beta - 2 alpha beta X_i sum over windows k that hold i of dOut_k X_k M_k^(-beta - 1) */
static weft_status run_lrn_grad(const kernel_call *c) {
    const lrn_state *s = c->state;
    const tensor *x = arg_in(c, 0), *middle = arg_in(c, LRN_MIDDLE), *g = arg_in(c, LRN_OUT_GRAD);
    for (int64_t column = 0; column < s->split.outer * s->split.inner; column++)
        for (int64_t i = 0, first = first_of(s, column); i < s->split.extent; i++) {
            double sum = 0;
            for (int64_t k = i - s->reach; k <= i + s->reach; k++) {
                if (k < 0 || k >= s->split.extent) continue;
                int64_t from = first + k * s->split.inner;
                sum += tensor_real(g, from) * tensor_real(x, from) * pow(tensor_real(middle, from), -s->beta - 1);
            }
            int64_t at = first + i * s->split.inner;
            tensor_set_real(arg_out(c, 0), at,
                            tensor_real(g, at) * pow(tensor_real(middle, at), -s->beta) -
                                2 * s->alpha * s->beta * tensor_real(x, at) * sum);
        }
    return NULL;
}

const kernel kernel_lrn = {prepare_lrn, run_lrn};
const kernel kernel_lrn_grad = {prepare_lrn_grad, run_lrn_grad};

/* --- affine_channel ----------------------------------------------------------------------------------------------- */

enum { AFFINE_X, AFFINE_SCALE, AFFINE_BIAS, AFFINE_OUT_GRAD = 2 };

static weft_status prepare_channels(kernel_prepare *p, const tensor *out) {
    axis_split *s = KERNEL_STATE(p, axis_split);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, AFFINE_X);
    TRY(require_real(p, x, "X"));
    TRY(axis_split_prepare(p, x, channel_axis(p, "data_layout", x), s));
    TRY(require_present(p, type_in(p, AFFINE_SCALE), "Scale"));
    TRY(require_like(p, x, type_in(p, AFFINE_SCALE), s->extent, "Scale"));
    TRY(require_present(p, out, "Out"));
    return require_like(p, x, out, x->numel, "Out");
}
static weft_status prepare_affine(kernel_prepare *p) {
    TRY(prepare_channels(p, type_out(p, 0)));
    TRY(require_present(p, type_in(p, AFFINE_BIAS), "Bias"));
    return require_like(p, type_in(p, AFFINE_X), type_in(p, AFFINE_BIAS), ((axis_split *)p->state)->extent, "Bias");
}
static weft_status prepare_affine_grad(kernel_prepare *p) {
    TRY(prepare_channels(p, type_in(p, AFFINE_OUT_GRAD)));
    const axis_split *s = p->state;
    TRY(require_like(p, type_in(p, 0), type_out(p, 0), type_in(p, 0)->numel, "X@GRAD"));
    for (int o = 1; o <= 2; o++) TRY(require_like(p, type_in(p, 0), type_out(p, o), s->extent, "a gradient"));
    return NULL;
}

static weft_status run_affine(const kernel_call *c) {
    const axis_split *s = c->state;
    const tensor *x = arg_in(c, AFFINE_X), *scale = arg_in(c, AFFINE_SCALE), *bias = arg_in(c, AFFINE_BIAS);
    for (int64_t i = 0; i < x->numel; i++) {
        int64_t channel = i / s->inner % s->extent;
        tensor_set_real(arg_out(c, 0), i, tensor_real(x, i) * tensor_real(scale, channel) + tensor_real(bias, channel));
    }
    return NULL;
}

/* Sums over a channel are kept in double: a channel at a time. */
static weft_status run_affine_grad(const kernel_call *c) {
    const axis_split *s = c->state;
    const tensor *x = arg_in(c, AFFINE_X), *scale = arg_in(c, AFFINE_SCALE), *g = arg_in(c, AFFINE_OUT_GRAD);
    tensor *dx = arg_out(c, 0), *dscale = arg_out(c, 1), *dbias = arg_out(c, 2);
    for (int64_t channel = 0; channel < s->extent; channel++) {
        double of_scale = 0, of_bias = 0;
        for (int64_t k = 0; k < s->outer * s->inner; k++) {
            int64_t at = (k / s->inner * s->extent + channel) * s->inner + k % s->inner;
            of_scale += tensor_real(g, at) * tensor_real(x, at);
            of_bias += tensor_real(g, at);
            if (dx) tensor_set_real(dx, at, tensor_real(g, at) * tensor_real(scale, channel));
        }
        if (dscale) tensor_set_real(dscale, channel, of_scale);
        if (dbias) tensor_set_real(dbias, channel, of_bias);
    }
    return NULL;
}

const kernel kernel_affine_channel = {prepare_affine, run_affine};
const kernel kernel_affine_channel_grad = {prepare_affine_grad, run_affine_grad};

/* --- renorm: each part along an axis times max_norm / (norm + 1e-7) where its p-norm is above max_norm ------------ */

typedef struct renorm_state {
    axis_split split;
    double p, most;
} renorm_state;

static weft_status prepare_parts(kernel_prepare *p, const tensor *out) {
    renorm_state *s = KERNEL_STATE(p, renorm_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, 0);
    s->p = attr_float(p->op, "p", 2);
    s->most = attr_float(p->op, "max_norm", 1);
    TRY(require_real(p, x, "X"));
    if (!(s->p > 0)) return kernel_unsupported(p, "expected p above 0, found %g", s->p);
    TRY(axis_split_prepare(p, x, attr_int(p->op, "axis", 0), &s->split));
    TRY(require_present(p, out, "Out"));
    return require_like(p, x, out, x->numel, "Out");
}
static weft_status prepare_renorm(kernel_prepare *p) {
    return prepare_parts(p, type_out(p, 0));
}
static weft_status prepare_renorm_grad(kernel_prepare *p) {
    TRY(prepare_parts(p, type_in(p, 1)));
    return require_like(p, type_in(p, 0), type_out(p, 0), type_in(p, 0)->numel, "X@GRAD");
}

/* The k-th element of part `part`. */
static int64_t place(const axis_split *s, int64_t part, int64_t k) {
    return (k / s->inner * s->extent + part) * s->inner + k % s->inner;
}

static double norm_of(const renorm_state *s, const tensor *x, int64_t part) {
    double sum = 0;
    for (int64_t k = 0; k < s->split.outer * s->split.inner; k++)
        sum += pow(fabs(tensor_real(x, place(&s->split, part, k))), s->p);
    return pow(sum, 1 / s->p);
}

static weft_status run_renorm(const kernel_call *c) {
    const renorm_state *s = c->state;
    const tensor *x = arg_in(c, 0);
    for (int64_t part = 0; part < s->split.extent; part++) {
        double norm = norm_of(s, x, part), factor = norm <= s->most ? 1 : s->most / (norm + 1e-7);
        for (int64_t k = 0; k < s->split.outer * s->split.inner; k++) {
            int64_t at = place(&s->split, part, k);
            tensor_set_real(arg_out(c, 0), at, factor * tensor_real(x, at));
        }
    }
    return NULL;
}

/* With N the norm and M = N + 1e-7: dX = most / M dOut - most / M^2 <dOut, X> dN, dN = sign(X) |X|^(p-1) N^(1-p) */
static weft_status run_renorm_grad(const kernel_call *c) {
    const renorm_state *s = c->state;
    const tensor *x = arg_in(c, 0), *g = arg_in(c, 1);
    for (int64_t part = 0; part < s->split.extent; part++) {
        double norm = norm_of(s, x, part), along = 0, by = norm + 1e-7;
        bool is_cut = !(norm <= s->most);
        for (int64_t k = 0; k < s->split.outer * s->split.inner; k++) {
            int64_t at = place(&s->split, part, k);
            along += tensor_real(g, at) * tensor_real(x, at);
        }
        for (int64_t k = 0; k < s->split.outer * s->split.inner; k++) {
            int64_t at = place(&s->split, part, k);
            double value = tensor_real(x, at), dnorm = 0;
            if (value != 0) dnorm = copysign(pow(fabs(value), s->p - 1) * pow(norm, 1 - s->p), value);
            tensor_set_real(arg_out(c, 0), at,
                            is_cut ? s->most / by * tensor_real(g, at) - s->most / (by * by) * along * dnorm
                                   : tensor_real(g, at));
        }
    }
    return NULL;
}

const kernel kernel_renorm = {prepare_renorm, run_renorm};
const kernel kernel_renorm_grad = {prepare_renorm_grad, run_renorm_grad};
