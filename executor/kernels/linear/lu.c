/* lu.c: a matrix as a permutation of the product of two triangles (lu), by LAPACK, that product taken apart
 * (lu_unpack), and the gradients. In Out the upper triangle is U's, what is below it L's, whose
 * diagonal is 1. A pivot says which row, counted from 1, the row at hand was exchanged with. */
#include "executor/kernels/layout.h"
#include "executor/kernels/linear/lapack.h"

typedef struct lu_state {
    int64_t count; /* of the batch */
    int m, n, k;   /* m by n; k is the smaller */
} lu_state;

static weft_status prepare_common(kernel_prepare *p, const tensor *x, int squares) {
    lu_state *s = KERNEL_STATE(p, lu_state);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, x, "X"));
    if (x->ndim < 2 || x->dims[x->ndim - 1] > INT16_MAX || x->dims[x->ndim - 2] > INT16_MAX)
        return kernel_unsupported(p, "expected matrices of at most %d rows and columns", INT16_MAX);
    s->m = (int)x->dims[x->ndim - 2];
    s->n = (int)x->dims[x->ndim - 1];
    s->k = s->m < s->n ? s->m : s->n;
    s->count = x->numel ? x->numel / ((int64_t)s->m * s->n) : 0;
    int64_t most = s->m > s->n ? s->m : s->n;
    p->workspace_nbytes = (size_t)(squares * most * most) * sizeof(double) + (size_t)most * sizeof(int);
    return NULL;
}

static weft_status require_pivots(const kernel_prepare *p, const tensor *t) {
    const lu_state *s = p->state;
    TRY(require_present(p, t, "Pivots"));
    if (t->dtype != WEFT_INT32) return kernel_unsupported(p, "Pivots: expected int32");
    return require_numel(p, t, s->count * s->k, "Pivots");
}

static void load(const tensor *t, int64_t index, int64_t size, double *out) {
    for (int64_t i = 0; i < size; i++) out[i] = t ? tensor_real(t, index * size + i) : 0;
}
static void store(tensor *t, int64_t index, int64_t size, const double *from) {
    for (int64_t i = 0; i < size; i++) tensor_set_real(t, index * size + i, from[i]);
}

/* --- lu ----------------------------------------------------------------------------------------------------------- */

enum { LU_OUT, LU_PIVOTS, LU_INFOS };

static weft_status prepare_lu(kernel_prepare *p) {
#if !WEFT_HAVE_LAPACK
    return kernel_unsupported(p, "expected a build with LAPACK (liblapack-dev)");
#endif
    const tensor *x = type_in(p, 0), *infos = type_out(p, LU_INFOS);
    TRY(prepare_common(p, x, 1));
    if (!attr_bool(p->op, "pivots", true)) return kernel_unsupported(p, "pivots: expected true");
    TRY(require_present(p, type_out(p, LU_OUT), "Out"));
    TRY(require_like(p, x, type_out(p, LU_OUT), x->numel, "Out"));
    TRY(require_pivots(p, type_out(p, LU_PIVOTS)));
    if (infos && infos->dtype != WEFT_INT32) return kernel_unsupported(p, "Infos: expected int32");
    return NULL;
}

/* By columns, as LAPACK has matrices. A pivot of 0 is told, and no failure. */
static int factor(const lu_state *s, double *a, int *pivots) {
    int info = -1;
#if WEFT_HAVE_LAPACK
    dgetrf_(&s->m, &s->n, a, &s->m, pivots, &info);
#else
    (void)s, (void)a, (void)pivots;
#endif
    return info;
}

static weft_status run_lu(const kernel_call *c) {
    const lu_state *s = c->state;
    int64_t most = s->m > s->n ? s->m : s->n, size = (int64_t)s->m * s->n;
    double *a = c->workspace;
    int *pivots = (int *)(void *)(a + most * most);
    tensor *infos = arg_out(c, LU_INFOS);
    for (int64_t k = 0; k < s->count; k++) {
        for (int64_t i = 0; i < size; i++) a[i % s->n * s->m + i / s->n] = tensor_real(arg_in(c, 0), k * size + i);
        int info = factor(s, a, pivots);
        if (info < 0) return kernel_failed(c, "LAPACK did not decompose matrix %lld of the batch", (long long)k);
        for (int64_t i = 0; i < size; i++)
            tensor_set_real(arg_out(c, LU_OUT), k * size + i, a[i % s->n * s->m + i / s->n]);
        for (int i = 0; i < s->k; i++) ((int32_t *)arg_out(c, LU_PIVOTS)->data)[k * s->k + i] = pivots[i];
        if (infos && k < infos->numel) ((int32_t *)infos->data)[k] = info;
    }
    return NULL;
}

const kernel kernel_lu = {prepare_lu, run_lu};

/* The rows of the identity as pivots exchange them; false: a pivot is no row. */
static bool rows_of(const lu_state *s, const tensor *pivots, int64_t index, int *rows) {
    const int32_t *given = (const int32_t *)pivots->data + index * s->k;
    for (int i = 0; i < s->m; i++) rows[i] = i;
    for (int i = 0; i < s->k; i++) {
        if (given[i] < 1 || given[i] > s->m) return false;
        int other = rows[given[i] - 1];
        rows[given[i] - 1] = rows[i];
        rows[i] = other;
    }
    return true;
}

/* --- lu_grad ------------------------------------------------------------------------------------------------------ */

/* Of a square matrix P L^-T [strictly lower part of L^T dL + upper part of dU U^T] U^-T. A wide one has columns of U
 * more, U2, a tall one rows of L more, L2. Their own gradients are P L^-T dU2 and P dL2 U^-T; and dU2 U2^T is taken
 * from the lower part, L2^T dL2 from the upper. */
enum { GRAD_X, GRAD_OUT, GRAD_PIVOTS, GRAD_OUT_GRAD };

static weft_status prepare_lu_grad(kernel_prepare *p) {
    const tensor *out = type_in(p, GRAD_OUT);
    TRY(require_present(p, out, "Out"));
    TRY(prepare_common(p, out, 3));
    TRY(require_pivots(p, type_in(p, GRAD_PIVOTS)));
    TRY(require_present(p, type_in(p, GRAD_OUT_GRAD), "Out@GRAD"));
    TRY(require_like(p, out, type_in(p, GRAD_OUT_GRAD), out->numel, "Out@GRAD"));
    TRY(require_present(p, type_out(p, 0), "X@GRAD"));
    return require_like(p, out, type_out(p, 0), out->numel, "X@GRAD");
}

/* The square that both factors share becomes what is in brackets above; what a wide or a tall matrix has more stays g.
 */
static void inner_slopes(const lu_state *s, const double *lu, const double *g, double *inner) {
    int64_t n = s->n, k = s->k;
    memcpy(inner, g, (size_t)(s->m * n) * sizeof *g);
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < k; j++) {
            double sum = 0;
            for (int64_t q = i; j < i && q < k; q++) sum += (q == i ? 1 : lu[q * n + i]) * g[q * n + j];
            for (int64_t q = k; j < i && q < n; q++) sum -= g[i * n + q] * lu[j * n + q];
            for (int64_t q = j; j >= i && q < k; q++) sum += g[i * n + q] * lu[j * n + q];
            for (int64_t q = k; j >= i && q < s->m; q++) sum -= lu[q * n + i] * g[q * n + j];
            inner[i * n + j] = sum;
        }
}

/* x becomes L^-T x U^-T, of the square parts of L and U; false: U is singular. */
static bool divide(const lu_state *s, const double *lu, double *x) {
    int64_t n = s->n, k = s->k;
    for (int64_t i = k - 1; i >= 0; i--)
        for (int64_t q = i + 1; q < k; q++)
            for (int64_t j = 0; j < n; j++) x[i * n + j] -= lu[q * n + i] * x[q * n + j];
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = k - 1; j >= 0; j--) {
            for (int64_t q = j + 1; q < k; q++) x[i * n + j] -= x[i * n + q] * lu[j * n + q];
            if (lu[j * n + j] == 0) return false;
            x[i * n + j] /= lu[j * n + j];
        }
    return true;
}

static weft_status run_lu_grad(const kernel_call *c) {
    const lu_state *s = c->state;
    int64_t n = s->n, size = s->m * n;
    double *lu = c->workspace, *g = lu + size, *inner = g + size;
    int *rows = (int *)(void *)(inner + size);
    for (int64_t k = 0; k < s->count; k++) {
        load(arg_in(c, GRAD_OUT), k, size, lu);
        load(arg_in(c, GRAD_OUT_GRAD), k, size, g);
        inner_slopes(s, lu, g, inner);
        if (!divide(s, lu, inner)) return kernel_failed(c, "Out: a diagonal has an element of 0");
        if (!rows_of(s, arg_in(c, GRAD_PIVOTS), k, rows)) return kernel_failed(c, "Pivots: expected rows, from 1 on");
        for (int64_t i = 0; i < size; i++) g[rows[i / n] * n + i % n] = inner[i];
        store(arg_out(c, 0), k, size, g);
    }
    return NULL;
}

const kernel kernel_lu_grad = {prepare_lu_grad, run_lu_grad};

/* --- lu_unpack ---------------------------------------------------------------------------------------------------- */

enum { UNPACK_PMAT, UNPACK_L, UNPACK_U };

static weft_status prepare_lu_unpack(kernel_prepare *p) {
    const tensor *x = type_in(p, 0);
    TRY(prepare_common(p, x, 0));
    const lu_state *s = p->state;
    TRY(require_pivots(p, type_in(p, 1)));
    TRY(require_like(p, x, type_out(p, UNPACK_PMAT), s->count * s->m * s->m, "Pmat"));
    TRY(require_like(p, x, type_out(p, UNPACK_L), s->count * s->m * s->k, "L"));
    return require_like(p, x, type_out(p, UNPACK_U), s->count * s->k * s->n, "U");
}

static weft_status run_lu_unpack(const kernel_call *c) {
    const lu_state *s = c->state;
    const tensor *x = arg_in(c, 0);
    tensor *pmat = arg_out(c, UNPACK_PMAT), *lower = arg_out(c, UNPACK_L), *upper = arg_out(c, UNPACK_U);
    int64_t m = s->m, n = s->n, r = s->k;
    int *rows = c->workspace;
    tensor_clear(pmat);
    for (int64_t k = 0; k < s->count; k++) {
        if (!rows_of(s, arg_in(c, 1), k, rows)) return kernel_failed(c, "Pivots: expected rows, from 1 on");
        for (int64_t i = 0; pmat && i < m; i++) tensor_set_real(pmat, k * m * m + rows[i] * m + i, 1);
        for (int64_t i = 0; lower && i < m * r; i++) {
            int64_t row = i / r, column = i % r;
            double below = row > column ? tensor_real(x, (k * m + row) * n + column) : 0;
            tensor_set_real(lower, k * m * r + i, row == column ? 1 : below);
        }
        for (int64_t i = 0; upper && i < r * n; i++)
            tensor_set_real(upper, k * r * n + i, i / n <= i % n ? tensor_real(x, (k * m + i / n) * n + i % n) : 0);
    }
    return NULL;
}

enum { UNGRAD_X, UNGRAD_PIVOTS, UNGRAD_L, UNGRAD_U, UNGRAD_PMAT, UNGRAD_L_GRAD, UNGRAD_U_GRAD };

static weft_status prepare_lu_unpack_grad(kernel_prepare *p) {
    const tensor *x = type_in(p, UNGRAD_X);
    TRY(prepare_common(p, x, 0));
    const lu_state *s = p->state;
    TRY(require_like(p, x, type_in(p, UNGRAD_L_GRAD), s->count * s->m * s->k, "L@GRAD"));
    TRY(require_like(p, x, type_in(p, UNGRAD_U_GRAD), s->count * s->k * s->n, "U@GRAD"));
    TRY(require_present(p, type_out(p, 0), "X@GRAD"));
    return require_like(p, x, type_out(p, 0), x->numel, "X@GRAD");
}

static weft_status run_lu_unpack_grad(const kernel_call *c) {
    const lu_state *s = c->state;
    const tensor *lower = arg_in(c, UNGRAD_L_GRAD), *upper = arg_in(c, UNGRAD_U_GRAD);
    int64_t m = s->m, n = s->n, r = s->k;
    for (int64_t i = 0; i < s->count * m * n; i++) {
        int64_t k = i / (m * n), row = i % (m * n) / n, column = i % n;
        const tensor *from = row > column ? lower : upper;
        int64_t at = row > column ? (k * m + row) * r + column : (k * r + row) * n + column;
        tensor_set_real(arg_out(c, 0), i, from ? tensor_real(from, at) : 0);
    }
    return NULL;
}

const kernel kernel_lu_unpack = {prepare_lu_unpack, run_lu_unpack};
const kernel kernel_lu_unpack_grad = {prepare_lu_unpack_grad, run_lu_unpack_grad};
