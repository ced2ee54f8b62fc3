/* spectral_norm.c: a weight over its largest singular value, estimated from U and V by power iterations, and its
 * gradient. The weight is a matrix of dimension `dim` by all others. */
#include <math.h>

#include "executor/kernels/layout.h"

enum { IN_WEIGHT, IN_U, IN_V, IN_OUT_GRAD };

typedef struct spectral_state {
    axis_split x; /* around dim */
    int64_t rows, columns, iterations;
    double epsilon;
} spectral_state;

static weft_status prepare_common(kernel_prepare *p, const tensor *out) {
    spectral_state *s = KERNEL_STATE(p, spectral_state);
    if (!s) return base_out_of_memory();
    const tensor *w = type_in(p, IN_WEIGHT);
    TRY(require_real(p, w, "Weight"));
    TRY(axis_split_prepare(p, w, attr_int(p->op, "dim", 0), &s->x));
    s->rows = s->x.extent;
    s->columns = s->x.outer * s->x.inner;
    s->iterations = attr_int(p->op, "power_iters", 1);
    s->epsilon = attr_float(p->op, "eps", 1e-12);
    TRY(require_present(p, type_in(p, IN_U), "U"));
    TRY(require_present(p, type_in(p, IN_V), "V"));
    TRY(require_like(p, w, type_in(p, IN_U), s->rows, "U"));
    TRY(require_like(p, w, type_in(p, IN_V), s->columns, "V"));
    TRY(require_present(p, out, "Out"));
    TRY(require_like(p, w, out, w->numel, "Out"));
    p->workspace_nbytes = (size_t)(s->rows + s->columns + 2) * sizeof(double);
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_common(p, type_out(p, 0));
}
static weft_status prepare_grad(kernel_prepare *p) {
    TRY(require_present(p, type_in(p, IN_OUT_GRAD), "Out@GRAD"));
    TRY(require_like(p, type_in(p, IN_WEIGHT), type_in(p, IN_OUT_GRAD), type_in(p, IN_WEIGHT)->numel, "Out@GRAD"));
    return prepare_common(p, type_out(p, 0));
}

/* Element (row, column) of the matrix. */
static int64_t place(const spectral_state *s, int64_t row, int64_t column) {
    return (column / s->x.inner * s->x.extent + row) * s->x.inner + column % s->x.inner;
}

static void normalise(int64_t n, double *v, double epsilon) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += v[i] * v[i];
    for (int64_t i = 0; i < n; i++) v[i] /= sqrt(sum) + epsilon;
}

/* The vectors after all iterations; gives u^T W v. */
static double estimate(const kernel_call *c, const spectral_state *s, double *u, double *v) {
    const tensor *w = arg_in(c, IN_WEIGHT);
    double sigma = 0;
    for (int64_t i = 0; i < s->rows; i++) u[i] = tensor_real(arg_in(c, IN_U), i);
    for (int64_t j = 0; j < s->columns; j++) v[j] = tensor_real(arg_in(c, IN_V), j);
    for (int64_t k = 0; k < s->iterations; k++) {
        for (int64_t j = 0; j < s->columns; j++) v[j] = 0;
        for (int64_t i = 0; i < s->rows; i++)
            for (int64_t j = 0; j < s->columns; j++) v[j] += tensor_real(w, place(s, i, j)) * u[i];
        normalise(s->columns, v, s->epsilon);
        for (int64_t i = 0; i < s->rows; i++) {
            u[i] = 0;
            for (int64_t j = 0; j < s->columns; j++) u[i] += tensor_real(w, place(s, i, j)) * v[j];
        }
        normalise(s->rows, u, s->epsilon);
    }
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t j = 0; j < s->columns; j++) sigma += u[i] * tensor_real(w, place(s, i, j)) * v[j];
    return sigma;
}

static weft_status run(const kernel_call *c) {
    const spectral_state *s = c->state;
    double *u = c->workspace, sigma = estimate(c, s, u, u + s->rows);
    tensor *out = arg_out(c, 0);
    for (int64_t i = 0; i < out->numel; i++) tensor_set_real(out, i, tensor_real(arg_in(c, IN_WEIGHT), i) / sigma);
    return NULL;
}

/* dY (1 - u v^T sum(W) / sigma) / sigma, element by element: what Paddle takes for it (it is not the derivative). */
static weft_status run_grad(const kernel_call *c) {
    const spectral_state *s = c->state;
    const tensor *g = arg_in(c, IN_OUT_GRAD), *w = arg_in(c, IN_WEIGHT);
    double *u = c->workspace, *v = u + s->rows, sigma = estimate(c, s, u, v), sum = 0;
    for (int64_t i = 0; i < w->numel; i++) sum += tensor_real(w, i);
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t j = 0; j < s->columns; j++) {
            int64_t at = place(s, i, j);
            tensor_set_real(arg_out(c, 0), at, tensor_real(g, at) * (1 - u[i] * v[j] * sum / sigma) / sigma);
        }
    return NULL;
}

const kernel kernel_spectral_norm = {prepare, run};
const kernel kernel_spectral_norm_grad = {prepare_grad, run_grad};
