/* decompose.c: eigenvalues and vectors of symmetric matrices (eigh, eigvalsh), singular values (svd), QR, and ranks, of
 * the matrices in the last two dimensions, in double. LAPACK takes matrices by columns: each is transposed on its way.
 *
 * Gradients: Giles, "An extended collection of matrix derivative results" (2008); of QR: Walter and Lehmann (2018). */
#include <float.h>
#include <math.h>

#include "executor/kernels/layout.h"
#include "executor/kernels/linear/lapack.h"

typedef struct parts_state {
    int64_t count; /* of the batch */
    int m, n, k;   /* m by n; k is the smaller */
    int ucols;     /* of U or Q */
    bool upper;
    double tolerance; /* of ranks; below 0: by the largest value */
} parts_state;

static int64_t lesser(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Room for LAPACK: more than what its largest routine (dgesdd, with vectors) asks for. */
static int64_t lapack_room(const parts_state *s) {
    int64_t most = s->m > s->n ? s->m : s->n;
    return 8 * most * most + 16 * most + 64;
}

static weft_status prepare_parts(kernel_prepare *p, const tensor *x, int squares) {
#if !WEFT_HAVE_LAPACK
    return kernel_unsupported(p, "expected a build with LAPACK (liblapack-dev)");
#endif
    parts_state *s = KERNEL_STATE(p, parts_state);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, x, "X"));
    if (x->ndim < 2 || x->dims[x->ndim - 1] > INT16_MAX || x->dims[x->ndim - 2] > INT16_MAX)
        return kernel_unsupported(p, "expected matrices of at most %d rows and columns", INT16_MAX);
    s->m = (int)x->dims[x->ndim - 2];
    s->n = (int)x->dims[x->ndim - 1];
    s->k = s->ucols = (int)lesser(s->m, s->n);
    s->count = x->numel ? x->numel / ((int64_t)s->m * s->n) : 0;
    s->upper = strcmp(attr_string(p->op, "UPLO", "L"), "U") == 0;
    int64_t most = s->m > s->n ? s->m : s->n;
    p->workspace_nbytes =
        (size_t)(squares * most * most + lapack_room(s)) * sizeof(double) + (size_t)(8 * most + 8) * sizeof(int);
    return NULL;
}

static weft_status require_square(const kernel_prepare *p) {
    const parts_state *s = p->state;
    return s->m == s->n ? NULL : kernel_unsupported(p, "expected square matrices, found %d by %d", s->m, s->n);
}

/* Matrix number `index` of a tensor, rows by columns, from and to columns by rows. */
static void load_columns(const tensor *t, int64_t index, int rows, int columns, double *to) {
    for (int64_t i = 0; i < (int64_t)rows * columns; i++)
        to[i % columns * rows + i / columns] = tensor_real(t, index * rows * columns + i);
}
static void store_columns(tensor *t, int64_t index, int rows, int columns, const double *from) {
    for (int64_t i = 0; t && i < (int64_t)rows * columns; i++)
        tensor_set_real(t, index * rows * columns + i, from[i % columns * rows + i / columns]);
}
/* By rows on both sides; zeros where there is no tensor. */
static void load_rows(const tensor *t, int64_t index, int64_t size, double *to) {
    for (int64_t i = 0; i < size; i++) to[i] = t ? tensor_real(t, index * size + i) : 0;
}
static void store_rows(tensor *t, int64_t index, int64_t size, const double *from) {
    for (int64_t i = 0; i < size; i++) tensor_set_real(t, index * size + i, from[i]);
}

static weft_status refused(const kernel_call *c, int64_t index) {
    return kernel_failed(c, "LAPACK did not decompose matrix %lld of the batch", (long long)index);
}

/* --- eigh, eigvalsh ----------------------------------------------------------------------------------------------- */

/* a becomes its eigenvectors by columns, where asked for; w the eigenvalues, from the least on. */
static int eigen(const parts_state *s, bool vectors, double *a, double *w, double *work) {
    int info = 1;
#if WEFT_HAVE_LAPACK
    int room = (int)lapack_room(s), irom = 8 * s->n + 8;
    int *iwork = (int *)(void *)(work + room);
    dsyevd_(vectors ? "V" : "N", s->upper ? "U" : "L", &s->n, a, &s->n, w, work, &room, iwork, &irom, &info, 1, 1);
#else
    (void)s, (void)vectors, (void)a, (void)w, (void)work;
#endif
    return info;
}

static weft_status prepare_eigh(kernel_prepare *p) {
    const tensor *x = type_in(p, 0);
    TRY(prepare_parts(p, x, 2));
    const parts_state *s = p->state;
    TRY(require_square(p));
    TRY(require_present(p, type_out(p, 0), "Eigenvalues"));
    TRY(require_like(p, x, type_out(p, 0), s->count * s->n, "Eigenvalues"));
    return require_like(p, x, type_out(p, 1), x->numel, "Eigenvectors");
}

static weft_status run_eigh(const kernel_call *c) {
    const parts_state *s = c->state;
    double *a = c->workspace, *w = a + (int64_t)s->n * s->n, *work = w + (int64_t)s->n * s->n;
    for (int64_t k = 0; k < s->count; k++) {
        load_columns(arg_in(c, 0), k, s->n, s->n, a);
        if (eigen(s, true, a, w, work)) return refused(c, k);
        store_rows(arg_out(c, 0), k, s->n, w);
        store_columns(arg_out(c, 1), k, s->n, s->n, a);
    }
    return NULL;
}

enum { EIGEN_VALUES, EIGEN_VECTORS, EIGEN_VALUES_GRAD, EIGEN_VECTORS_GRAD };

static weft_status prepare_eigh_grad(kernel_prepare *p) {
    const tensor *v = type_in(p, EIGEN_VECTORS);
    TRY(require_present(p, v, "Eigenvectors"));
    TRY(prepare_parts(p, v, 4));
    const parts_state *s = p->state;
    TRY(require_square(p));
    for (int i = 0; i < (int)p->schema->ninputs; i++)
        TRY(require_like(p, v, type_in(p, i),
                         i == EIGEN_VECTORS || i == EIGEN_VECTORS_GRAD ? v->numel : s->count * s->n,
                         p->schema->inputs[i].name));
    TRY(require_present(p, type_out(p, 0), "X@GRAD"));
    return require_like(p, v, type_out(p, 0), v->numel, "X@GRAD");
}

/* V (diag(dw) + V^T dV / E) V^T, its symmetric part, E[i][j] = w[j] - w[i]; without dV the first term alone. */
static void eigen_slope(const kernel_call *c, int64_t k, const tensor *w, const tensor *dw, const tensor *dv) {
    const parts_state *s = c->state;
    int n = s->n;
    int64_t size = (int64_t)n * n;
    double *v = c->workspace, *g = v + size, *inner = g + size, *half = inner + size;
    load_rows(arg_in(c, EIGEN_VECTORS), k, size, v);
    load_rows(dv, k, size, g);
    gemm_f64(true, false, n, n, n, 1, v, n, g, n, 0, inner, n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            if (i == j)
                inner[i * n + j] = dw ? tensor_real(dw, k * n + i) : 0;
            else if (dv)
                inner[i * n + j] /= tensor_real(w, k * n + j) - tensor_real(w, k * n + i);
        }
    gemm_f64(false, false, n, n, n, 1, v, n, inner, n, 0, half, n);
    gemm_f64(false, true, n, n, n, 0.5, half, n, v, n, 0, g, n);
    for (int64_t i = 0; i < size; i++) half[i] = g[i] + g[i % n * n + i / n];
    store_rows(arg_out(c, 0), k, size, half);
}

static weft_status run_eigh_grad(const kernel_call *c) {
    for (int64_t k = 0; k < ((const parts_state *)c->state)->count; k++)
        eigen_slope(c, k, arg_in(c, EIGEN_VALUES), arg_in(c, EIGEN_VALUES_GRAD), arg_in(c, EIGEN_VECTORS_GRAD));
    return NULL;
}

/* Its only gradient stands in the third slot as well. */
static weft_status run_eigvalsh_grad(const kernel_call *c) {
    for (int64_t k = 0; k < ((const parts_state *)c->state)->count; k++)
        eigen_slope(c, k, NULL, arg_in(c, EIGEN_VALUES_GRAD), NULL);
    return NULL;
}

const kernel kernel_eigh = {prepare_eigh, run_eigh};
const kernel kernel_eigh_grad = {prepare_eigh_grad, run_eigh_grad};
const kernel kernel_eigvalsh_grad = {prepare_eigh_grad, run_eigvalsh_grad};

/* --- svd, matrix_rank --------------------------------------------------------------------------------------------- */

/* a (by columns, lost) as U S VH, by columns, VH of `vrows` rows; u and vh NULL: values alone. */
static int singular(const parts_state *s, int vrows, double *a, double *u, double *values, double *vh, double *work) {
    int info = 1;
#if WEFT_HAVE_LAPACK
    int room = (int)(lapack_room(s) - (s->m > s->n ? s->m : s->n)), one = 1;
    int *iwork = (int *)(void *)(work + lapack_room(s));
    const char *some = s->ucols > s->k || vrows > s->k ? "A" : "S";
    dgesdd_(u ? some : "N", &s->m, &s->n, a, &s->m, values, u, u ? &s->m : &one, vh, vh ? &vrows : &one, work, &room,
            iwork, &info, 1);
#else
    (void)s, (void)vrows, (void)a, (void)u, (void)values, (void)vh, (void)work;
#endif
    return info;
}

enum { SVD_U, SVD_S, SVD_VH };

static weft_status prepare_svd(kernel_prepare *p) {
    const tensor *x = type_in(p, 0);
    TRY(prepare_parts(p, x, 3));
    parts_state *s = p->state;
    bool full = attr_bool(p->op, "full_matrices", false);
    int vrows = full ? s->n : s->k;
    s->ucols = full ? s->m : s->k;
    for (int o = SVD_U; o <= SVD_VH; o++) TRY(require_present(p, type_out(p, o), p->schema->outputs[o].name));
    TRY(require_like(p, x, type_out(p, SVD_U), s->count * s->m * s->ucols, "U"));
    TRY(require_like(p, x, type_out(p, SVD_S), s->count * s->k, "S"));
    return require_like(p, x, type_out(p, SVD_VH), s->count * vrows * s->n, "VH");
}

static weft_status run_svd(const kernel_call *c) {
    const parts_state *s = c->state;
    int64_t most = s->m > s->n ? s->m : s->n;
    double *a = c->workspace, *u = a + most * most, *vh = u + most * most, *work = vh + most * most;
    int vrows = s->count ? (int)(arg_out(c, SVD_VH)->numel / s->count / s->n) : 0;
    for (int64_t k = 0; k < s->count; k++) {
        double *values = work + lapack_room(s) - most;
        load_columns(arg_in(c, 0), k, s->m, s->n, a);
        if (singular(s, vrows, a, u, values, vh, work)) return refused(c, k);
        store_columns(arg_out(c, SVD_U), k, s->m, s->ucols, u);
        store_rows(arg_out(c, SVD_S), k, s->k, values);
        store_columns(arg_out(c, SVD_VH), k, vrows, s->n, vh);
    }
    return NULL;
}

enum { SVD_X, SVD_X_U, SVD_X_VH, SVD_X_S, SVD_U_GRAD, SVD_VH_GRAD, SVD_S_GRAD };

static weft_status prepare_svd_grad(kernel_prepare *p) {
    const tensor *x = type_in(p, SVD_X);
    TRY(require_present(p, x, "X"));
    TRY(prepare_parts(p, x, 8));
    const parts_state *s = p->state;
    const int64_t sizes[] = {x->numel,        s->count * s->m * s->k, s->count * s->k * s->n,
                             s->count * s->k, s->count * s->m * s->k, s->count * s->k * s->n,
                             s->count * s->k};
    if (attr_bool(p->op, "full_matrices", false) && s->m != s->n)
        return kernel_unsupported(p, "full_matrices: expected false, as what completes U or VH has no gradient");
    for (int i = SVD_X_U; i <= SVD_S_GRAD; i++) {
        if (i <= SVD_X_S) TRY(require_present(p, type_in(p, i), p->schema->inputs[i].name));
        TRY(require_like(p, x, type_in(p, i), sizes[i], p->schema->inputs[i].name));
    }
    TRY(require_present(p, type_out(p, 0), "X@GRAD"));
    return require_like(p, x, type_out(p, 0), x->numel, "X@GRAD");
}

/* to = from - rank-k projection of it: the part of its columns (or rows) that U (or VH) does not span. */
static void outside_columns(const parts_state *s, const double *u, const double *from, double *inner, double *to) {
    memcpy(to, from, (size_t)s->m * (size_t)s->k * sizeof *to);
    gemm_f64(true, false, s->k, s->k, s->m, 1, u, s->k, from, s->k, 0, inner, s->k);
    gemm_f64(false, false, s->m, s->k, s->k, -1, u, s->k, inner, s->k, 1, to, s->k);
}
static void outside_rows(const parts_state *s, const double *vh, const double *from, double *inner, double *to) {
    memcpy(to, from, (size_t)s->k * (size_t)s->n * sizeof *to);
    gemm_f64(false, true, s->k, s->k, s->n, 1, from, s->n, vh, s->n, 0, inner, s->k);
    gemm_f64(false, false, s->k, s->n, s->k, -1, inner, s->k, vh, s->n, 1, to, s->n);
}

/* U [skew(U^T dU) / E S + S skew(VH dV) / E + diag(dS)] VH, E[i][j] = s[j]^2 - s[i]^2, skew(M) = M - M^T; and what dU
 * and dV have outside of the columns of U and V. */
static weft_status run_svd_grad(const kernel_call *c) {
    const parts_state *s = c->state;
    int64_t most = s->m > s->n ? s->m : s->n, block = most * most;
    int m = s->m, n = s->n, r = s->k;
    double *u = c->workspace, *vh = u + block, *du = vh + block, *dvh = du + block, *inner = dvh + block;
    double *left = inner + block, *sum = left + block, *out = sum + block;
    for (int64_t k = 0; k < s->count; k++) {
        const tensor *values = arg_in(c, SVD_X_S), *ds = arg_in(c, SVD_S_GRAD);
        load_rows(arg_in(c, SVD_X_U), k, (int64_t)m * r, u);
        load_rows(arg_in(c, SVD_X_VH), k, (int64_t)r * n, vh);
        load_rows(arg_in(c, SVD_U_GRAD), k, (int64_t)m * r, du);
        load_rows(arg_in(c, SVD_VH_GRAD), k, (int64_t)r * n, dvh);
        gemm_f64(true, false, r, r, m, 1, u, r, du, r, 0, inner, r);
        gemm_f64(false, true, r, r, n, 1, vh, n, dvh, n, 0, left, r);
        for (int64_t i = 0; i < r; i++)
            for (int64_t j = 0; j < r; j++) {
                double si = tensor_real(values, k * r + i), sj = tensor_real(values, k * r + j);
                double of_u = inner[i * r + j] - inner[j * r + i], of_v = left[i * r + j] - left[j * r + i];
                sum[i * r + j] =
                    i == j ? (ds ? tensor_real(ds, k * r + i) : 0) : (of_u * sj + si * of_v) / (sj * sj - si * si);
            }
        gemm_f64(false, false, m, r, r, 1, u, r, sum, r, 0, left, r);
        outside_columns(s, u, du, inner, sum);
        for (int64_t i = 0; m > r && i < (int64_t)m * r; i++) left[i] += sum[i] / tensor_real(values, k * r + i % r);
        gemm_f64(false, false, m, n, r, 1, left, r, vh, n, 0, out, n);
        outside_rows(s, vh, dvh, inner, sum);
        for (int64_t i = 0; i < (int64_t)r * n; i++) sum[i] /= tensor_real(values, k * r + i / n);
        if (n > r) gemm_f64(false, false, m, n, r, 1, u, r, sum, n, 1, out, n);
        store_rows(arg_out(c, 0), k, (int64_t)m * n, out);
    }
    return NULL;
}

const kernel kernel_svd = {prepare_svd, run_svd};
const kernel kernel_svd_grad = {prepare_svd_grad, run_svd_grad};

enum { RANK_X, RANK_LEAST, RANK_SHARE };

/* Tolerances are tensors of one number, or of one for each matrix. */
static weft_status prepare_rank(kernel_prepare *p, int ntolerances) {
    TRY(prepare_parts(p, type_in(p, RANK_X), 1));
    const parts_state *s = p->state;
    for (int i = RANK_LEAST; i < RANK_LEAST + ntolerances; i++) {
        const tensor *t = type_in(p, i);
        if (!t) continue;
        TRY(require_real(p, t, p->schema->inputs[i].name));
        if (t->numel != 1) TRY(require_numel(p, t, s->count, p->schema->inputs[i].name));
    }
    TRY(require_present(p, type_out(p, 0), "Out"));
    TRY(require_integers(p, type_out(p, 0), "Out"));
    return require_numel(p, type_out(p, 0), s->count, "Out");
}

static weft_status prepare_matrix_rank(kernel_prepare *p) {
    TRY(prepare_rank(p, 1));
    parts_state *s = p->state;
    s->tolerance = attr_bool(p->op, "use_default_tol", true) ? -1
                   : type_in(p, RANK_LEAST)                  ? 0
                                                             : attr_float(p->op, "tol", 0);
    return NULL;
}
static weft_status prepare_matrix_rank_atol_rtol(kernel_prepare *p) {
    TRY(prepare_rank(p, 2));
    ((parts_state *)p->state)->tolerance = -1;
    return require_present(p, type_in(p, RANK_LEAST), "atol");
}

static double tolerance_of(const tensor *t, int64_t k) {
    return tensor_real(t, t->numel == 1 ? 0 : k);
}

/* A singular value counts if it is larger. */
static double matrix_rank_tolerance(const kernel_call *c, int64_t k, double largest, double usual) {
    const parts_state *s = c->state;
    const tensor *least = arg_in(c, RANK_LEAST);
    return fmax(s->tolerance < 0 ? usual * largest : s->tolerance, least ? tolerance_of(least, k) : 0);
}
/* Without rtol the usual one holds where atol is 0. */
static double matrix_rank_atol_rtol_tolerance(const kernel_call *c, int64_t k, double largest, double usual) {
    const tensor *share = arg_in(c, RANK_SHARE);
    double least = tolerance_of(arg_in(c, RANK_LEAST), k);
    if (!share && least > 0) return least;
    return fmax(least, (share ? tolerance_of(share, k) : usual) * largest);
}

/* How many singular values are above the tolerance: of a symmetric matrix they are the sizes of its eigenvalues. */
static weft_status count_values(const kernel_call *c,
                                double (*tolerance)(const kernel_call *, int64_t, double, double)) {
    const parts_state *s = c->state;
    int64_t most = s->m > s->n ? s->m : s->n;
    double *a = c->workspace, *work = a + most * most;
    double *values = work + lapack_room(s) - most,
           epsilon = arg_in(c, RANK_X)->dtype == WEFT_FP64 ? DBL_EPSILON : FLT_EPSILON;
    for (int64_t k = 0; k < s->count; k++) {
        int64_t rank = 0;
        double largest = 0;
        load_columns(arg_in(c, RANK_X), k, s->m, s->n, a);
        if (singular(s, 0, a, NULL, values, NULL, work)) return refused(c, k);
        for (int i = 0; i < s->k; i++) largest = fmax(largest, values[i]);
        double above = tolerance(c, k, largest, epsilon * (double)most);
        for (int i = 0; i < s->k; i++) rank += values[i] > above;
        tensor_set_integer(arg_out(c, 0), k, rank);
    }
    return NULL;
}

#define RANK(name)                                                                                                     \
    static weft_status run_##name(const kernel_call *c) {                                                              \
        return count_values(c, name##_tolerance);                                                                      \
    }                                                                                                                  \
    const kernel kernel_##name = {prepare_##name, run_##name};
RANK(matrix_rank)
RANK(matrix_rank_atol_rtol)

/* --- qr ----------------------------------------------------------------------------------------------------------- */

enum { QR_Q, QR_R };

static weft_status prepare_qr(kernel_prepare *p) {
    const tensor *x = type_in(p, 0);
    TRY(prepare_parts(p, x, 2));
    parts_state *s = p->state;
    const char *mode = attr_string(p->op, "mode", "reduced");
    bool is_whole = strcmp(mode, "complete") == 0, only_r = strcmp(mode, "r") == 0;
    if (!is_whole && !only_r && strcmp(mode, "reduced") != 0)
        return kernel_unsupported(p, "mode: expected reduced, complete or r, found %s", mode);
    s->ucols = is_whole ? s->m : s->k;
    if (!only_r) TRY(require_present(p, type_out(p, QR_Q), "Q"));
    TRY(require_present(p, type_out(p, QR_R), "R"));
    if (!only_r) TRY(require_like(p, x, type_out(p, QR_Q), s->count * s->m * s->ucols, "Q"));
    return require_like(p, x, type_out(p, QR_R), s->count * s->ucols * s->n, "R");
}

/* q has the reflectors of a factored matrix, by columns; it becomes Q. */
static int orthogonal(const parts_state *s, double *q, const double *tau, double *work) {
    int info = 1;
#if WEFT_HAVE_LAPACK
    int room = (int)lapack_room(s) - s->k;
    dorgqr_(&s->m, &s->ucols, &s->k, q, &s->m, tau, work, &room, &info);
#else
    (void)s, (void)q, (void)tau, (void)work;
#endif
    return info;
}
static int triangular(const parts_state *s, double *a, double *tau, double *work) {
    int info = 1;
#if WEFT_HAVE_LAPACK
    int room = (int)lapack_room(s) - s->k;
    dgeqrf_(&s->m, &s->n, a, &s->m, tau, work, &room, &info);
#else
    (void)s, (void)a, (void)tau, (void)work;
#endif
    return info;
}

static weft_status run_qr(const kernel_call *c) {
    const parts_state *s = c->state;
    int64_t most = s->m > s->n ? s->m : s->n;
    double *a = c->workspace, *r = a + most * most, *tau = r + most * most, *work = tau + s->k;
    tensor *q = arg_out(c, QR_Q), *out = arg_out(c, QR_R);
    for (int64_t k = 0; k < s->count; k++) {
        load_columns(arg_in(c, 0), k, s->m, s->n, a);
        if (triangular(s, a, tau, work)) return refused(c, k);
        for (int64_t i = 0; i < s->ucols; i++)
            for (int64_t j = 0; j < s->n; j++)
                tensor_set_real(out, (k * s->ucols + i) * s->n + j, i <= j && i < s->k ? a[j * s->m + i] : 0);
        if (!q || q->numel != s->count * s->m * s->ucols) continue; /* R alone */
        if (orthogonal(s, a, tau, work)) return refused(c, k);
        store_columns(q, k, s->m, s->ucols, a);
    }
    return NULL;
}

enum { QR_X, QR_X_Q, QR_X_R, QR_Q_GRAD, QR_R_GRAD };

static weft_status prepare_qr_grad(kernel_prepare *p) {
    const tensor *x = type_in(p, QR_X);
    TRY(require_present(p, x, "X"));
    TRY(prepare_parts(p, x, 7));
    const parts_state *s = p->state;
    const char *mode = attr_string(p->op, "mode", "reduced");
    if (strcmp(mode, "reduced") != 0 && !(strcmp(mode, "complete") == 0 && s->m <= s->n))
        return kernel_unsupported(p, "mode: expected reduced, found %s: what completes Q has no gradient", mode);
    for (int i = QR_X_Q; i <= QR_R_GRAD; i++) {
        if (i <= QR_X_R) TRY(require_present(p, type_in(p, i), p->schema->inputs[i].name));
        int64_t size = i == QR_X_Q || i == QR_Q_GRAD ? (int64_t)s->m * s->k : (int64_t)s->k * s->n;
        TRY(require_like(p, x, type_in(p, i), s->count * size, p->schema->inputs[i].name));
    }
    TRY(require_present(p, type_out(p, 0), "X@GRAD"));
    return require_like(p, x, type_out(p, 0), x->numel, "X@GRAD");
}

/* x (rows by r) becomes x U^-T, of the upper triangle U in the first r columns of `triangle`. */
static bool divide(int rows, int r, const double *triangle, int ld, double *x) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = r - 1; j >= 0; j--) {
            double sum = x[i * r + j];
            for (int64_t q = j + 1; q < r; q++) sum -= x[i * r + q] * triangle[j * ld + q];
            if (triangle[j * ld + j] == 0) return false;
            x[i * r + j] = sum / triangle[j * ld + j];
        }
    return true;
}

/* With M = R dR^T - dQ^T Q, its lower triangle mirrored: (dQ + Q M) R^-T. Of a wide matrix [X Y] = Q [U V] this is dX,
 * with dQ + Y dV^T and U for R; and dY = Q dV. */
static weft_status run_qr_grad(const kernel_call *c) {
    const parts_state *s = c->state;
    int m = s->m, n = s->n, r = s->k;
    int64_t block = (int64_t)(m > n ? m : n) * (m > n ? m : n);
    double *q = c->workspace, *t = q + block, *dq = t + block, *dt = dq + block, *inner = dt + block,
           *dx = inner + block;
    for (int64_t k = 0; k < s->count; k++) {
        load_rows(arg_in(c, QR_X_Q), k, (int64_t)m * r, q);
        load_rows(arg_in(c, QR_X_R), k, (int64_t)r * n, t);
        load_rows(arg_in(c, QR_Q_GRAD), k, (int64_t)m * r, dq);
        load_rows(arg_in(c, QR_R_GRAD), k, (int64_t)r * n, dt);
        load_rows(arg_in(c, QR_X), k, (int64_t)m * n, dx);
        if (n > r) gemm_f64(false, true, m, r, n - r, 1, dx + r, n, dt + r, n, 1, dq, r);
        gemm_f64(false, true, r, r, r, 1, t, n, dt, n, 0, inner, r);
        gemm_f64(true, false, r, r, m, -1, dq, r, q, r, 1, inner, r);
        for (int64_t i = 0; i < r; i++)
            for (int64_t j = i + 1; j < r; j++) inner[i * r + j] = inner[j * r + i];
        gemm_f64(false, false, m, r, r, 1, q, r, inner, r, 1, dq, r);
        if (!divide(m, r, t, n, dq)) return kernel_failed(c, "R: a diagonal has an element of 0");
        if (n > r) gemm_f64(false, false, m, n - r, r, 1, q, r, dt + r, n, 0, dx + r, n);
        for (int64_t i = 0; i < (int64_t)m * r; i++) dx[i / r * n + i % r] = dq[i];
        store_rows(arg_out(c, 0), k, (int64_t)m * n, dx);
    }
    return NULL;
}

const kernel kernel_qr = {prepare_qr, run_qr};
const kernel kernel_qr_grad = {prepare_qr_grad, run_qr_grad};
