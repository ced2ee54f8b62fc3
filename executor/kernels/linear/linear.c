/* linear.c: inverses, Cholesky factors and powers of the matrices in the last two dimensions, and gradients, in double.
 * LAPACK takes matrices by columns: ours, by rows, are the transposed ones to it. */
#include "executor/kernels/layout.h"
#include "executor/kernels/linear/lapack.h"

typedef struct matrices {
    int64_t count; /* of the batch */
    int n;         /* n by n */
    int64_t power;
    bool upper;
} matrices;

static weft_status prepare_square(kernel_prepare *p, const tensor *x, const tensor *like, int buffers) {
#if !WEFT_HAVE_LAPACK
    return kernel_unsupported(p, "expected a build with LAPACK (liblapack-dev)");
#endif
    matrices *s = KERNEL_STATE(p, matrices);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, x, "the matrix"));
    if (x->ndim < 2 || x->dims[x->ndim - 1] != x->dims[x->ndim - 2] || x->dims[x->ndim - 1] > INT16_MAX)
        return kernel_unsupported(p, "expected square matrices of at most %d rows", INT16_MAX);
    TRY(require_present(p, like, "the result"));
    TRY(require_like(p, x, like, x->numel, "the result"));
    s->n = (int)x->dims[x->ndim - 1];
    s->count = s->n ? x->numel / ((int64_t)s->n * s->n) : 0;
    s->upper = attr_bool(p->op, "upper", false);
    s->power = attr_int(p->op, "n", 1);
    p->workspace_nbytes =
        (size_t)buffers * (size_t)s->n * (size_t)s->n * sizeof(double) + (size_t)s->n * sizeof(int) + 64;
    return NULL;
}

static void load(const tensor *t, int64_t first, int64_t count, double *to) {
    for (int64_t i = 0; i < count; i++) to[i] = tensor_real(t, first + i);
}
static void store(tensor *t, int64_t first, int64_t count, const double *from) {
    for (int64_t i = 0; i < count; i++) tensor_set_real(t, first + i, from[i]);
}

/* c = a b, each transposed where said. */
static void multiply(int n, bool ta, bool tb, const double *a, const double *b, double *c) {
    gemm_f64(ta, tb, n, n, n, 1, a, n, b, n, 0, c, n);
}

/* In place; `work` has n * n elements. False: it has none. */
static bool invert(int n, double *a, double *work, int *pivots) {
    int info = 1;
#if WEFT_HAVE_LAPACK
    int lwork = n * n;
    dgetrf_(&n, &n, a, &n, pivots, &info);
    if (info == 0) dgetri_(&n, a, &n, pivots, work, &lwork, &info);
#else
    (void)n, (void)a, (void)work, (void)pivots;
#endif
    return info == 0;
}

/* --- inverse ------------------------------------------------------------------------------------------------------ */

/* Of matrix k. */
static weft_status load_inverse(const kernel_call *c, const matrices *s, int64_t k, double *x, double *work) {
    int64_t size = (int64_t)s->n * s->n;
    load(arg_in(c, 0), k * size, size, x);
    if (invert(s->n, x, work, (int *)(void *)(work + size))) return NULL;
    return kernel_failed(c, "matrix %lld of the batch has no inverse", (long long)k);
}

static weft_status run_inverse(const kernel_call *c) {
    const matrices *s = c->state;
    int64_t size = (int64_t)s->n * s->n;
    double *a = c->workspace, *work = a + size;
    for (int64_t k = 0; k < s->count; k++) {
        TRY(load_inverse(c, s, k, a, work));
        store(arg_out(c, 0), k * size, size, a);
    }
    return NULL;
}

/* -Y^T dY Y^T */
static weft_status run_inverse_grad(const kernel_call *c) {
    const matrices *s = c->state;
    int64_t size = (int64_t)s->n * s->n;
    double *y = c->workspace, *g = y + size, *half = g + size;
    for (int64_t k = 0; k < s->count; k++) {
        load(arg_in(c, 0), k * size, size, y);
        load(arg_in(c, 1), k * size, size, g);
        multiply(s->n, true, false, y, g, half);
        multiply(s->n, false, true, half, y, g);
        for (int64_t i = 0; i < size; i++) g[i] = -g[i];
        store(arg_out(c, 0), k * size, size, g);
    }
    return NULL;
}

/* --- cholesky ----------------------------------------------------------------------------------------------------- */

static weft_status run_cholesky(const kernel_call *c) {
    const matrices *s = c->state;
    int64_t size = (int64_t)s->n * s->n;
    double *a = c->workspace;
    for (int64_t k = 0; k < s->count; k++) {
        int info = 1;
        load(arg_in(c, 0), k * size, size, a);
#if WEFT_HAVE_LAPACK
        dpotrf_(s->upper ? "L" : "U", &s->n, a, &s->n, &info, 1); /* of the transposed matrix */
#endif
        if (info) return kernel_failed(c, "matrix %lld of the batch is not positive definite", (long long)k);
        for (int i = 0; i < s->n; i++)
            for (int j = 0; j < s->n; j++)
                if (s->upper ? j < i : j > i) a[i * s->n + j] = 0;
        store(arg_out(c, 0), k * size, size, a);
    }
    return NULL;
}

/* Of the lower factor L: S = L^-T P L^-1, P the lower half of L^T dL with half its diagonal; the gradient is S's
 * symmetric part. */
static weft_status run_cholesky_grad(const kernel_call *c) {
    const matrices *s = c->state;
    int64_t size = (int64_t)s->n * s->n;
    int n = s->n;
    double *l = c->workspace, *g = l + size, *half = g + size, *work = half + size;
    for (int64_t k = 0; k < s->count; k++) {
        for (int64_t i = 0; i < size; i++) {
            int64_t at = s->upper ? i % n * n + i / n : i; /* U^T is L */
            l[at] = tensor_real(arg_in(c, 0), k * size + i);
            g[at] = tensor_real(arg_in(c, 1), k * size + i);
        }
        multiply(n, true, false, l, g, half);
        for (int i = 0; i < n; i++)
            for (int j = i; j < n; j++) half[i * n + j] *= i == j ? 0.5 : 0;
        if (!invert(n, l, work, (int *)(void *)(work + size)))
            return kernel_failed(c, "factor %lld of the batch has no inverse", (long long)k);
        multiply(n, true, false, l, half, g);
        multiply(n, false, false, g, l, half);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                tensor_set_real(arg_out(c, 0), k * size + i * n + j, 0.5 * (half[i * n + j] + half[j * n + i]));
    }
    return NULL;
}

/* --- matrix_power ------------------------------------------------------------------------------------------------- */

/* x^n for n of 0 or more, by its bits; `square` is x at first. */
static void power(int n, int64_t exponent, double *square, double *result, double *scratch) {
    size_t nbytes = (size_t)n * (size_t)n * sizeof(double);
    memset(result, 0, nbytes);
    for (int i = 0; i < n; i++) result[i * n + i] = 1;
    for (; exponent; exponent >>= 1) {
        if (exponent & 1) multiply(n, false, false, result, square, scratch), memcpy(result, scratch, nbytes);
        multiply(n, false, false, square, square, scratch);
        memcpy(square, scratch, nbytes);
    }
}

static weft_status base_of(const kernel_call *c, const matrices *s, int64_t k, double *x, double *work) {
    int64_t size = (int64_t)s->n * s->n;
    if (s->power < 0) return load_inverse(c, s, k, x, work);
    load(arg_in(c, 0), k * size, size, x);
    return NULL;
}

static weft_status run_power(const kernel_call *c) {
    const matrices *s = c->state;
    int64_t size = (int64_t)s->n * s->n;
    double *x = c->workspace, *result = x + size, *scratch = result + size;
    for (int64_t k = 0; k < s->count; k++) {
        TRY(base_of(c, s, k, x, scratch));
        power(s->n, s->power < 0 ? -s->power : s->power, x, result, scratch);
        store(arg_out(c, 0), k * size, size, result);
    }
    return NULL;
}

/* With Z = X or its inverse and m = |n|: dZ = sum over i < m of (Z^T)^i dY (Z^T)^(m - 1 - i); of an inverse, dX is
 * -Z^T dZ Z^T. */
static weft_status run_power_grad(const kernel_call *c) {
    const matrices *s = c->state;
    int64_t size = (int64_t)s->n * s->n, m = s->power < 0 ? -s->power : s->power;
    int n = s->n;
    double *z = c->workspace, *sum = z + size, *left = sum + size, *term = left + size, *scratch = term + size;
    for (int64_t k = 0; k < s->count; k++) {
        TRY(base_of(c, s, k, z, scratch));
        memset(sum, 0, (size_t)size * sizeof *sum);
        load(arg_in(c, 2), k * size, size, left);
        /* sum <- sum Z^T + (Z^T)^i dY, for i = 0 .. m - 1 */
        for (int64_t i = 0; i < m; i++) {
            multiply(n, false, true, sum, z, term);
            for (int64_t e = 0; e < size; e++) sum[e] = term[e] + left[e];
            multiply(n, true, false, z, left, term);
            memcpy(left, term, (size_t)size * sizeof *left);
        }
        if (s->power < 0) {
            multiply(n, true, false, z, sum, term);
            multiply(n, false, true, term, z, sum);
            for (int64_t e = 0; e < size; e++) sum[e] = -sum[e];
        }
        store(arg_out(c, 0), k * size, size, sum);
    }
    return NULL;
}

static weft_status prepare_one(kernel_prepare *p) {
    return prepare_square(p, type_in(p, 0), type_out(p, 0), 5);
}
static weft_status prepare_pair(kernel_prepare *p) {
    TRY(prepare_one(p));
    return require_like(p, type_in(p, 0), type_in(p, 1), type_in(p, 0)->numel, "the gradient");
}
static weft_status prepare_power_grad(kernel_prepare *p) {
    TRY(prepare_square(p, type_in(p, 0), type_out(p, 0), 6));
    return require_like(p, type_in(p, 0), type_in(p, 2), type_in(p, 0)->numel, "Out@GRAD");
}
const kernel kernel_inverse = {prepare_one, run_inverse};
const kernel kernel_inverse_grad = {prepare_pair, run_inverse_grad};
const kernel kernel_cholesky = {prepare_one, run_cholesky};
const kernel kernel_cholesky_grad = {prepare_pair, run_cholesky_grad};
const kernel kernel_matrix_power = {prepare_one, run_power};
const kernel kernel_matrix_power_grad = {prepare_power_grad, run_power_grad};
