/* p_norm.c: norms along an axis (p_norm), and vectors over their 2-norm (norm), with gradients.
 *
 * Orders 0, infinity and -infinity count, and take the largest and the smallest magnitude; the gradient of the latter
 * two goes to every element of that magnitude. Elsewhere dx = sign(x) |x|^(p-1) dy / (norm + epsilon)^(p-1), 0 where x
 * is 0 (phi/kernels/impl/p_norm_grad_kernel_impl.h). Columns are computed in double. */
#include <math.h>

#include "executor/kernels/accumulate.h"
#include "executor/kernels/layout.h"

/* A column of a tensor in double: the workspace holds two. */
typedef struct norm_state {
    axis_split split;
    double order, epsilon;
} norm_state;

static void load_column(const norm_state *s, const tensor *t, int64_t first, double *column) {
    size_t nbytes = weft_dtype_nbytes(t->dtype);
    for (int64_t k = 0; k < s->split.extent; k++)
        load_doubles(t->dtype, 1, (const char *)t->data + (size_t)(first + k * s->split.inner) * nbytes, column + k);
}

static void store_column(const norm_state *s, tensor *t, int64_t first, const double *column) {
    size_t nbytes = weft_dtype_nbytes(t->dtype);
    for (int64_t k = 0; k < s->split.extent; k++)
        store_doubles(t->dtype, 1, column + k, (char *)t->data + (size_t)(first + k * s->split.inner) * nbytes);
}

static double load_one(const tensor *t, int64_t at) {
    double value;
    load_doubles(t->dtype, 1, (const char *)t->data + (size_t)at * weft_dtype_nbytes(t->dtype), &value);
    return value;
}

static void store_one(tensor *t, int64_t at, double value) {
    store_doubles(t->dtype, 1, &value, (char *)t->data + (size_t)at * weft_dtype_nbytes(t->dtype));
}

static weft_status prepare_norm(kernel_prepare *p, const char *order_attr, bool flat) {
    norm_state *s = KERNEL_STATE(p, norm_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, 0);
    TRY(require_present(p, x, "X"));
    if (!dtype_is_float(x->dtype))
        return kernel_unsupported(p, "expected X of a float type, found %s", dtype_text(x->dtype));
    TRY(axis_split_prepare(p, x, attr_int(p->op, "axis", -1), &s->split));
    if (flat) s->split = (axis_split){1, x->numel, 1};
    s->order = order_attr ? attr_float(p->op, order_attr, 2) : 2;
    s->epsilon = attr_float(p->op, "epsilon", 1e-12);
    p->workspace_nbytes = 2 * (size_t)s->split.extent * sizeof(double);
    return NULL;
}

static int64_t ncolumns(const norm_state *s) {
    return s->split.outer * s->split.inner;
}
/* Where column i starts. */
static int64_t column_at(const norm_state *s, int64_t i) {
    return i / s->split.inner * s->split.extent * s->split.inner + i % s->split.inner;
}

/* --- p_norm ------------------------------------------------------------------------------------------------------- */

enum { P_IN_X, P_GRAD_IN_OUT, P_GRAD_IN_OUT_GRAD, P_OUT = 0 };

static weft_status prepare_p_norm(kernel_prepare *p) {
    TRY(prepare_norm(p, "porder", attr_bool(p->op, "asvector", false)));
    return require_numel(p, type_out(p, P_OUT), ncolumns(p->state), "Out");
}

static weft_status prepare_p_norm_grad(kernel_prepare *p) {
    TRY(prepare_norm(p, "porder", attr_bool(p->op, "asvector", false)));
    TRY(require_numel(p, type_in(p, P_GRAD_IN_OUT), ncolumns(p->state), "Out"));
    TRY(require_numel(p, type_in(p, P_GRAD_IN_OUT_GRAD), ncolumns(p->state), "Out@GRAD"));
    return require_numel(p, type_out(p, P_OUT), type_in(p, P_IN_X)->numel, "X@GRAD");
}

static double norm_of(const norm_state *s, const double *x) {
    double sum = 0, largest = 0, smallest = INFINITY;
    for (int64_t k = 0; k < s->split.extent; k++) {
        double magnitude = fabs(x[k]);
        if (!(magnitude <= largest || isnan(largest))) largest = magnitude; /* NaN stays */
        if (!(magnitude >= smallest || isnan(smallest))) smallest = magnitude;
        sum += s->order == 0 ? magnitude != 0 : s->order == 2 ? magnitude * magnitude : pow(magnitude, s->order);
    }
    if (isinf(s->order)) return s->order > 0 ? largest : smallest;
    return s->order == 0 ? sum : s->order == 2 ? sqrt(sum) : pow(sum, 1 / s->order);
}

static double slope_of(const norm_state *s, double x, double norm) {
    double magnitude = fabs(x), sign = x > 0 ? 1 : x < 0 ? -1 : 0;
    if (s->order == 0) return 0;
    if (isinf(s->order)) return magnitude == norm ? sign : 0;
    if (x == 0) return 0;
    return sign * pow(magnitude, s->order - 1) * pow(norm + s->epsilon, 1 - s->order);
}

static weft_status run_p_norm(const kernel_call *c) {
    const norm_state *s = c->state;
    for (int64_t i = 0; i < ncolumns(s); i++) {
        load_column(s, arg_in(c, P_IN_X), column_at(s, i), c->workspace);
        store_one(arg_out(c, P_OUT), i, norm_of(s, c->workspace));
    }
    return NULL;
}

static weft_status run_p_norm_grad(const kernel_call *c) {
    const norm_state *s = c->state;
    double *x = c->workspace;
    for (int64_t i = 0; i < ncolumns(s); i++) {
        double norm = load_one(arg_in(c, P_GRAD_IN_OUT), i), dy = load_one(arg_in(c, P_GRAD_IN_OUT_GRAD), i);
        load_column(s, arg_in(c, P_IN_X), column_at(s, i), x);
        for (int64_t k = 0; k < s->split.extent; k++) x[k] = slope_of(s, x[k], norm) * dy;
        store_column(s, arg_out(c, P_OUT), column_at(s, i), x);
    }
    return NULL;
}

const kernel kernel_p_norm = {prepare_p_norm, run_p_norm};
const kernel kernel_p_norm_grad = {prepare_p_norm_grad, run_p_norm_grad};

/* --- norm: x / sqrt(sum of squares + epsilon) --------------------------------------------------------------------- */

enum { NORM_IN_X, NORM_GRAD_IN_NORM, NORM_GRAD_IN_OUT_GRAD, NORM_OUT = 0, NORM_OUT_NORM };

static weft_status prepare_norm_forward(kernel_prepare *p) {
    TRY(prepare_norm(p, NULL, false));
    if (type_out(p, NORM_OUT_NORM)) TRY(require_numel(p, type_out(p, NORM_OUT_NORM), ncolumns(p->state), "Norm"));
    return require_numel(p, type_out(p, NORM_OUT), type_in(p, NORM_IN_X)->numel, "Out");
}

static weft_status prepare_norm_grad(kernel_prepare *p) {
    TRY(prepare_norm(p, NULL, false));
    const tensor *x = type_in(p, NORM_IN_X);
    TRY(require_numel(p, type_in(p, NORM_GRAD_IN_NORM), ncolumns(p->state), "Norm"));
    TRY(require_numel(p, type_in(p, NORM_GRAD_IN_OUT_GRAD), x->numel, "Out@GRAD"));
    return require_numel(p, type_out(p, NORM_OUT), x->numel, "X@GRAD");
}

static weft_status run_norm(const kernel_call *c) {
    const norm_state *s = c->state;
    double *x = c->workspace;
    for (int64_t i = 0; i < ncolumns(s); i++) {
        double sum = 0;
        load_column(s, arg_in(c, NORM_IN_X), column_at(s, i), x);
        for (int64_t k = 0; k < s->split.extent; k++) sum += x[k] * x[k];
        double norm = sqrt(sum + s->epsilon);
        for (int64_t k = 0; k < s->split.extent; k++) x[k] /= norm;
        store_column(s, arg_out(c, NORM_OUT), column_at(s, i), x);
        if (arg_out(c, NORM_OUT_NORM)) store_one(arg_out(c, NORM_OUT_NORM), i, norm);
    }
    return NULL;
}

static weft_status run_norm_grad(const kernel_call *c) {
    const norm_state *s = c->state;
    int64_t n = s->split.extent;
    double *x = c->workspace, *dy = x + n;
    for (int64_t i = 0; i < ncolumns(s); i++) {
        double norm = load_one(arg_in(c, NORM_GRAD_IN_NORM), i), dot = 0;
        load_column(s, arg_in(c, NORM_IN_X), column_at(s, i), x);
        load_column(s, arg_in(c, NORM_GRAD_IN_OUT_GRAD), column_at(s, i), dy);
        for (int64_t k = 0; k < n; k++) dot += x[k] * dy[k];
        for (int64_t k = 0; k < n; k++) x[k] = (dy[k] - x[k] * dot / (norm * norm)) / norm;
        store_column(s, arg_out(c, NORM_OUT), column_at(s, i), x);
    }
    return NULL;
}

const kernel kernel_norm = {prepare_norm_forward, run_norm};
const kernel kernel_norm_grad = {prepare_norm_grad, run_norm_grad};
