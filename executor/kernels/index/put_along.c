/* put_along.c: elements replaced, added to, multiplied, or compared with others, by index along an axis, and gradients;
 * masks of lengths. The last of several values for one place counts where elements are replaced; of several equal
 * extremes each has an equal part of the gradient. Paddle: phi/kernels/cpu/put_along_axis_{,grad_}kernel.cc,
 * funcs/gather_scatter_functor.cc. */
#include <math.h>

#include "executor/kernels/layout.h"

enum { IN_X, IN_INDEX, IN_VALUE, IN_OUT_GRAD, IN_OUT, OUT = 0, OUT_X_GRAD = 0, OUT_VALUE_GRAD };
typedef enum reduction {
    ASSIGN,
    ADD,
    MEAN,
    MULTIPLY,
    AMAX,
    AMIN
} reduction; /* from MULTIPLY on slopes read elements */

static const struct {
    const char *name;
    reduction is;
} REDUCTIONS[] = {{"assign", ASSIGN},     {"add", ADD},   {"mean", MEAN}, {"mul", MULTIPLY},
                  {"multiply", MULTIPLY}, {"amax", AMAX}, {"amin", AMIN}};

typedef struct put_state {
    int ndim, axis;
    int64_t index[WEFT_MAX_RANK], stride[WEFT_MAX_RANK], extent, count; /* of Index; of X along the axis */
    reduction reduction;
    bool with_self; /* what was there counts too */
} put_state;

static weft_status read_reduction(const kernel_prepare *p, put_state *s) {
    const char *given = attr_string(p->op, "Reduce", "assign");
    size_t i = 0, n = sizeof REDUCTIONS / sizeof *REDUCTIONS;
    while (i < n && strcmp(given, REDUCTIONS[i].name) != 0) i++;
    if (i == n)
        return kernel_unsupported(p, "expected Reduce to be assign, add, mean, mul, amax or amin, found %s", given);
    s->reduction = REDUCTIONS[i].is;
    s->with_self = s->reduction != ASSIGN && attr_bool(p->op, "Include_self", true);
    return NULL;
}

/* Whether a result depends on how many values there are for it. */
static bool counts_values(const put_state *s) {
    return s->reduction == MEAN || (s->reduction != ASSIGN && !s->with_self);
}

static weft_status prepare_common(kernel_prepare *p, const tensor *x, const tensor *value) {
    put_state *s = KERNEL_STATE(p, put_state);
    if (!s) return base_out_of_memory();
    const tensor *index = type_in(p, IN_INDEX);
    TRY(require_real(p, x, "Input"));
    TRY(require_present(p, index, "Index"));
    if (value) TRY(require_like(p, x, value, index->numel, "Value"));
    TRY(read_reduction(p, s));
    s->ndim = x->ndim;
    s->axis = axis_of(x, attr_int(p->op, "Axis", 0));
    if (s->axis < 0 || index->ndim != x->ndim) return kernel_unsupported(p, "expected an Index of Input's dimensions");
    strides_dense(x->ndim, x->dims, s->stride);
    for (int d = 0; d < s->ndim; d++) {
        s->index[d] = index->dims[d];
        if (d != s->axis && index->dims[d] > x->dims[d])
            return kernel_unsupported(p, "expected an Index no longer than Input in dimension %d", d);
    }
    s->extent = x->ndim ? x->dims[s->axis] : 1;
    s->count = index->numel;
    return NULL;
}

/* Where element i of Index points in X; -1: outside. */
static int64_t target(const put_state *s, const tensor *index, int64_t i) {
    int64_t at = 0, rest = i, k = tensor_integer(index, i);
    if (k < 0) k += s->extent;
    if (k < 0 || k >= s->extent) return -1;
    for (int d = s->ndim - 1; d >= 0; d--) {
        int64_t own = rest % s->index[d];
        rest /= s->index[d];
        at += (d == s->axis ? k : own) * s->stride[d];
    }
    return at;
}

/* Two numbers for each element. */
static size_t counts_nbytes(int64_t numel) {
    return 2 * (size_t)numel * sizeof(int64_t);
}

static weft_status prepare(kernel_prepare *p) {
    TRY(prepare_common(p, type_in(p, IN_X), type_in(p, IN_VALUE)));
    TRY(require_present(p, type_out(p, OUT), "Result"));
    if (counts_values(p->state)) p->workspace_nbytes = counts_nbytes(type_in(p, IN_X)->numel);
    return require_like(p, type_in(p, IN_X), type_out(p, OUT), type_in(p, IN_X)->numel, "Result");
}

static double combined(reduction r, double a, double b) {
    switch (r) {
    case ADD:
    case MEAN: return a + b;
    case MULTIPLY: return a * b;
    case AMAX: return a > b || isnan(a) ? a : b;
    case AMIN: return a < b || isnan(a) ? a : b;
    case ASSIGN: break;
    }
    return b;
}

/* How many values there are for each of n elements, where that is asked (else NULL); one for another is an error. */
static weft_status count_values(const kernel_call *c, const put_state *s, int64_t n, int64_t *out_counts) {
    if (n && out_counts) memset(out_counts, 0, (size_t)n * sizeof *out_counts);
    for (int64_t i = 0; i < s->count; i++) {
        int64_t at = target(s, arg_in(c, IN_INDEX), i);
        if (at < 0) return kernel_failed(c, "Index: expected numbers below %lld", (long long)s->extent);
        if (out_counts) out_counts[at]++;
    }
    return NULL;
}

static weft_status run(const kernel_call *c) {
    const put_state *s = c->state;
    const tensor *x = arg_in(c, IN_X);
    tensor *out = arg_out(c, OUT);
    int64_t *counts = counts_values(s) ? c->workspace : NULL, *left = counts ? counts + x->numel : NULL;
    TRY(count_values(c, s, x->numel, counts));
    if (counts && x->numel) memcpy(left, counts, (size_t)x->numel * sizeof *left);
    copy_bytes(out->data, x->data, tensor_nbytes(x));
    for (int64_t i = 0; i < s->count; i++) {
        int64_t at = target(s, arg_in(c, IN_INDEX), i);
        double v = tensor_real(arg_in(c, IN_VALUE), i);
        bool replaces = counts && left[at]-- == counts[at] && !s->with_self;
        tensor_set_real(out, at, replaces ? v : combined(s->reduction, tensor_real(out, at), v));
    }
    for (int64_t i = 0; s->reduction == MEAN && i < x->numel; i++)
        if (counts[i]) tensor_set_real(out, i, tensor_real(out, i) / (double)(counts[i] + s->with_self));
    return NULL;
}

static weft_status prepare_grad(kernel_prepare *p) {
    const tensor *g = type_in(p, IN_OUT_GRAD);
    TRY(require_present(p, g, "Result@GRAD"));
    TRY(prepare_common(p, g, NULL));
    p->workspace_nbytes = counts_nbytes(g->numel);
    TRY(require_like(p, g, type_out(p, OUT_X_GRAD), g->numel, "Input@GRAD"));
    TRY(require_like(p, g, type_out(p, OUT_VALUE_GRAD), type_in(p, IN_INDEX)->numel, "Value@GRAD"));
    if (((const put_state *)p->state)->reduction < MULTIPLY) return NULL;
    TRY(require_present(p, type_in(p, IN_OUT), "Result"));
    TRY(require_present(p, type_in(p, IN_VALUE), "Value"));
    TRY(require_like(p, g, type_in(p, IN_OUT), g->numel, "Result"));
    TRY(require_like(p, g, type_in(p, IN_X), g->numel, "Input"));
    return require_like(p, g, type_in(p, IN_VALUE), type_in(p, IN_INDEX)->numel, "Value");
}

/* Of extremes: how many of those that each result was made of are equal to it. */
static void count_equal(const kernel_call *c, const put_state *s, int64_t n, int64_t *out_counts) {
    const tensor *x = arg_in(c, IN_X), *out = arg_in(c, IN_OUT);
    for (int64_t i = 0; i < n; i++) out_counts[i] = s->with_self && tensor_real(x, i) == tensor_real(out, i);
    for (int64_t i = 0; i < s->count; i++) {
        int64_t at = target(s, arg_in(c, IN_INDEX), i);
        out_counts[at] += tensor_real(arg_in(c, IN_VALUE), i) == tensor_real(out, at);
    }
}

/* How result `at` changes with element i of `from`, one of those that it was made of: of `count`, or of so many equal
 * ones. */
static double slope(const kernel_call *c, const tensor *from, int64_t i, int64_t at, int64_t count) {
    const put_state *s = c->state;
    double of = s->reduction >= MULTIPLY ? tensor_real(from, i) : 0;
    double result = s->reduction >= MULTIPLY ? tensor_real(arg_in(c, IN_OUT), at) : 0;
    switch (s->reduction) {
    case ADD: return 1;
    case MEAN: return 1 / (double)(count + s->with_self);
    case MULTIPLY: return result / of;
    case AMAX:
    case AMIN: return of == result ? 1 / (double)count : 0;
    case ASSIGN: break;
    }
    return count == 0;
}

static weft_status run_grad(const kernel_call *c) {
    const put_state *s = c->state;
    const tensor *g = arg_in(c, IN_OUT_GRAD);
    tensor *dx = arg_out(c, OUT_X_GRAD), *dv = arg_out(c, OUT_VALUE_GRAD);
    int64_t *values = c->workspace, *counts = values + g->numel;
    TRY(count_values(c, s, g->numel, values));
    if (s->reduction >= AMAX)
        count_equal(c, s, g->numel, counts);
    else if (g->numel)
        memcpy(counts, values, (size_t)g->numel * sizeof *counts);
    for (int64_t i = 0; dv && i < s->count; i++) {
        int64_t at = target(s, arg_in(c, IN_INDEX), i);
        if (s->reduction == ASSIGN) counts[at]--; /* 0 at the last one */
        tensor_set_real(dv, i, slope(c, arg_in(c, IN_VALUE), i, at, counts[at]) * tensor_real(g, at));
    }
    for (int64_t i = 0; dx && i < g->numel; i++) {
        double of = !values[i] ? 1 : s->with_self ? slope(c, arg_in(c, IN_X), i, i, counts[i]) : 0;
        tensor_set_real(dx, i, of == 0 ? 0 : of * tensor_real(g, i));
    }
    return NULL;
}

const kernel kernel_put_along_axis = {prepare, run};
const kernel kernel_put_along_axis_grad = {prepare_grad, run_grad};

/* --- sequence_mask ------------------------------------------------------------------------------------------------ */

static weft_status prepare_mask(kernel_prepare *p) {
    const tensor *x = type_in(p, 0), *y = type_out(p, 0);
    TRY(require_present(p, x, "X"));
    TRY(require_present(p, y, "Y"));
    int64_t *length = KERNEL_STATE(p, int64_t);
    if (!length) return base_out_of_memory();
    if (!y->ndim) return kernel_unsupported(p, "expected a Y of 1 dimension or more");
    *length = y->dims[y->ndim - 1];
    return require_numel(p, y, x->numel * *length, "Y");
}

static weft_status run_mask(const kernel_call *c) {
    const int64_t *length = c->state;
    const tensor *x = arg_in(c, 0);
    tensor *y = arg_out(c, 0);
    char *to = y->data;
    size_t nbytes = weft_dtype_nbytes(y->dtype);
    for (int64_t i = 0; i < x->numel; i++) {
        int64_t n = tensor_integer(x, i);
        n = n < 0 ? 0 : n > *length ? *length : n;
        fill_elements(y->dtype, to, n, 1);
        fill_elements(y->dtype, to + (size_t)n * nbytes, *length - n, 0);
        to += (size_t)*length * nbytes;
    }
    return NULL;
}

const kernel kernel_sequence_mask = {prepare_mask, run_mask};
