/* systems.c: determinants of the matrices in the last two dimensions; systems of equations (solve), whose matrix may be
 * a triangle (triangular_solve) or known by its Cholesky factor (cholesky_solve); with gradients, in double. LAPACK
 * takes matrices by columns: ours, by rows, are the transposed ones to it, and have the same determinant. */
#include <math.h>

#include "executor/kernels/layout.h"
#include "executor/kernels/linear/lapack.h"

struct systems;
/* b becomes the solution of A x = b (transposed: of A^T); both by columns as LAPACK has them, and a may be lost. */
typedef weft_status (*solve_fn)(const kernel_call *c, const struct systems *s, bool transposed, double *a, double *b);
/* The gradient of matrix k of the batch, given that of its right sides. */
typedef void (*add_matrix_fn)(const kernel_call *c, const struct systems *s, int64_t k, const double *a,
                              const double *g, tensor *da);

typedef struct systems {
    int64_t count; /* of the batch */
    int n, columns;
    int64_t a_step, b_step;       /* elements from one of a batch to the next; 0: it is stretched */
    bool upper, transposed, unit; /* of triangles */
    int matrix;                   /* slot of it and of its gradient */
    solve_fn solve;
    add_matrix_fn add_matrix;
} systems;

static weft_status prepare_matrices(kernel_prepare *p, const tensor *a) {
#if !WEFT_HAVE_LAPACK
    return kernel_unsupported(p, "expected a build with LAPACK (liblapack-dev)");
#endif
    systems *s = KERNEL_STATE(p, systems);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, a, "the matrix"));
    if (a->ndim < 2 || a->dims[a->ndim - 1] != a->dims[a->ndim - 2] || a->dims[a->ndim - 1] > INT16_MAX)
        return kernel_unsupported(p, "expected square matrices of at most %d rows", INT16_MAX);
    s->n = (int)a->dims[a->ndim - 1];
    s->count = s->n ? a->numel / ((int64_t)s->n * s->n) : 0;
    p->workspace_nbytes = ((size_t)(2 * s->n) * (size_t)s->n + (size_t)s->n) * sizeof(double) + 64;
    return NULL;
}

/* The workspace: a matrix, a second one (or right sides), pivots. */
static int *pivots_of(const kernel_call *c, const systems *s, int64_t side) {
    return (int *)(void *)((double *)c->workspace + (int64_t)s->n * s->n + side);
}

/* Factors in place; false: a pivot is 0. */
static bool factor(int n, double *a, int *pivots) {
    int info = 1;
#if WEFT_HAVE_LAPACK
    dgetrf_(&n, &n, a, &n, pivots, &info);
#else
    (void)n, (void)a, (void)pivots;
#endif
    return info == 0;
}

/* Of a factored matrix; the logarithm of its size, and its sign. */
static double log_determinant(int n, const double *a, const int *pivots, double *out_sign) {
    double sum = 0, sign = 1;
    for (int i = 0; i < n; i++) {
        double pivot = a[(int64_t)i * n + i];
        sum += log(fabs(pivot));
        if ((pivot < 0) != (pivots[i] != i + 1)) sign = -sign;
    }
    *out_sign = sign;
    return sum;
}

static double determinant(int n, const double *a, const int *pivots) {
    double product = 1;
    for (int i = 0; i < n; i++) product *= pivots[i] == i + 1 ? a[(int64_t)i * n + i] : -a[(int64_t)i * n + i];
    return product;
}

static void load(const tensor *t, int64_t first, int64_t count, double *to) {
    for (int64_t i = 0; i < count; i++) to[i] = tensor_real(t, first + i);
}

/* --- determinant, slogdeterminant: [2, batch], signs and then logarithms ------------------------------------------ */

static weft_status prepare_determinant(kernel_prepare *p) {
    TRY(prepare_matrices(p, type_in(p, 0)));
    const systems *s = p->state;
    TRY(require_present(p, type_out(p, 0), "Out"));
    return require_like(p, type_in(p, 0), type_out(p, 0),
                        type_out(p, 0)->numel == 2 * s->count ? 2 * s->count : s->count, "Out");
}

static weft_status run_determinant(const kernel_call *c) {
    const systems *s = c->state;
    int64_t size = (int64_t)s->n * s->n;
    int *pivots = pivots_of(c, s, size);
    for (int64_t k = 0; k < s->count; k++) {
        load(arg_in(c, 0), k * size, size, c->workspace);
        (void)factor(s->n, c->workspace, pivots); /* a pivot of 0 is in the product */
        tensor_set_real(arg_out(c, 0), k, determinant(s->n, c->workspace, pivots));
    }
    return NULL;
}

static weft_status run_slogdeterminant(const kernel_call *c) {
    const systems *s = c->state;
    int64_t size = (int64_t)s->n * s->n;
    int *pivots = pivots_of(c, s, size);
    for (int64_t k = 0; k < s->count; k++) {
        double sign;
        load(arg_in(c, 0), k * size, size, c->workspace);
        (void)factor(s->n, c->workspace, pivots);
        double logarithm = log_determinant(s->n, c->workspace, pivots, &sign);
        tensor_set_real(arg_out(c, 0), k, isnan(logarithm) ? logarithm : logarithm == -INFINITY ? 0 : sign);
        tensor_set_real(arg_out(c, 0), s->count + k, logarithm);
    }
    return NULL;
}

enum { DET_OUT = 1, DET_OUT_GRAD };

static weft_status prepare_determinant_grad(kernel_prepare *p) {
    TRY(prepare_matrices(p, type_in(p, 0)));
    const tensor *g = type_in(p, DET_OUT_GRAD);
    TRY(require_real(p, g, "Out@GRAD"));
    TRY(require_present(p, type_out(p, 0), "Input@GRAD"));
    return require_like(p, type_in(p, 0), type_out(p, 0), type_in(p, 0)->numel, "Input@GRAD");
}

/* `scale` times the transposed inverse of matrix k; zeros where it has none, as in Paddle. */
static void store_inverse(const kernel_call *c, const systems *s, int64_t k, double scale) {
    int64_t size = (int64_t)s->n * s->n;
    double *a = c->workspace, *work = a + size;
    int *pivots = pivots_of(c, s, size), info = 1;
    load(arg_in(c, 0), k * size, size, a);
    if (factor(s->n, a, pivots)) {
#if WEFT_HAVE_LAPACK
        int lwork = (int)size;
        dgetri_(&s->n, a, &s->n, pivots, work, &lwork, &info);
#else
        (void)work;
#endif
    }
    for (int64_t i = 0; i < size; i++)
        tensor_set_real(arg_out(c, 0), k * size + i, info ? 0 : scale * a[i % s->n * s->n + i / s->n]);
}

static weft_status run_determinant_grad(const kernel_call *c) {
    const systems *s = c->state;
    for (int64_t k = 0; k < s->count; k++)
        store_inverse(c, s, k, tensor_real(arg_in(c, DET_OUT_GRAD), k) * tensor_real(arg_in(c, DET_OUT), k));
    return NULL;
}
static weft_status run_slogdeterminant_grad(const kernel_call *c) {
    const systems *s = c->state;
    for (int64_t k = 0; k < s->count; k++) store_inverse(c, s, k, tensor_real(arg_in(c, DET_OUT_GRAD), s->count + k));
    return NULL;
}

const kernel kernel_determinant = {prepare_determinant, run_determinant};
const kernel kernel_slogdeterminant = {prepare_determinant, run_slogdeterminant};
const kernel kernel_determinant_grad = {prepare_determinant_grad, run_determinant_grad};
const kernel kernel_slogdeterminant_grad = {prepare_determinant_grad, run_slogdeterminant_grad};

/* --- solve, triangular_solve, cholesky_solve ---------------------------------------------------------------------- */

/* Whether b has one dimension less than the matrices, whose extents but for the last are its own: a column for each. */
static bool is_columns(const tensor *a, const tensor *b) {
    return b->ndim == 1 || (b->ndim == a->ndim - 1 && memcmp(a->dims, b->dims, (size_t)b->ndim * sizeof *b->dims) == 0);
}

/* Of cholesky_solve the matrix is the second argument. */
static weft_status prepare_system(kernel_prepare *p, const tensor *a, const tensor *b, const tensor *out,
                                  bool may_be_columns) {
    TRY(require_present(p, a, "the matrix"));
    TRY(prepare_matrices(p, a));
    systems *s = p->state;
    TRY(require_present(p, b, "the right side"));
    TRY(require_present(p, out, "Out"));
    TRY(require_same_dtype(p, a, b, "the right side"));
    TRY(require_same_dtype(p, a, out, "Out"));
    bool columns = may_be_columns && is_columns(a, b);
    int64_t rows = columns ? b->dims[b->ndim - 1] : b->ndim > 1 ? b->dims[b->ndim - 2] : -1;
    if (rows != s->n || (!columns && b->dims[b->ndim - 1] > INT16_MAX))
        return kernel_unsupported(p, "expected right sides of %d rows", s->n);
    s->columns = columns ? 1 : (int)b->dims[b->ndim - 1];
    int64_t size = (int64_t)s->n * s->n, side = (int64_t)s->n * s->columns;
    s->count = side ? out->numel / side : 0;
    s->a_step = a->numel == size ? 0 : size;
    s->b_step = b->numel == side ? 0 : side;
    if ((s->a_step && a->numel != s->count * size) || (s->b_step && b->numel != s->count * side))
        return kernel_unsupported(p, "expected batches of one size, or single matrices");
    s->transposed = attr_bool(p->op, "transpose", false);
    s->unit = attr_bool(p->op, "unitriangular", false);
    p->workspace_nbytes = (size_t)(2 * size + 3 * side + s->n) * sizeof(double) + 64;
    return NULL;
}

/* Right sides are by columns there, by rows here. */
static void load_side(const systems *s, const tensor *t, int64_t first, double *b) {
    for (int64_t i = 0; i < (int64_t)s->n * s->columns; i++)
        b[i % s->columns * s->n + i / s->columns] = tensor_real(t, first + i);
}
static double side_at(const systems *s, const double *b, int64_t i) {
    return b[i % s->columns * s->n + i / s->columns];
}
static void store_side(const systems *s, tensor *t, int64_t first, const double *b) {
    for (int64_t i = 0; i < (int64_t)s->n * s->columns; i++) tensor_set_real(t, first + i, side_at(s, b, i));
}
static void add_side(const systems *s, tensor *t, int64_t first, const double *b) {
    for (int64_t i = 0; t && i < (int64_t)s->n * s->columns; i++) tensor_add_real(t, first + i, side_at(s, b, i));
}

static weft_status solve_any(const kernel_call *c, const systems *s, bool transposed, double *a, double *b) {
    int *pivots = pivots_of(c, s, (int64_t)s->n * s->columns);
    if (!factor(s->n, a, pivots)) return kernel_failed(c, "a matrix has no inverse");
    int info = 0;
#if WEFT_HAVE_LAPACK
    dgetrs_(transposed ? "N" : "T", &s->n, &s->columns, a, &s->n, pivots, b, &s->n, &info, 1);
#else
    (void)transposed, (void)b;
#endif
    return info ? kernel_failed(c, "LAPACK refused a system") : NULL;
}

static weft_status solve_triangle(const kernel_call *c, const systems *s, bool transposed, double *a, double *b) {
    int info = 1;
#if WEFT_HAVE_LAPACK
    dtrtrs_(s->upper ? "L" : "U", transposed ? "N" : "T", s->unit ? "U" : "N", &s->n, &s->columns, a, &s->n, b, &s->n,
            &info, 1, 1, 1);
#else
    (void)s, (void)transposed, (void)a, (void)b;
#endif
    return info ? kernel_failed(c, "a diagonal has an element of 0") : NULL;
}

/* b becomes (L L^T)^-1 b, or (U^T U)^-1 b: two triangles. */
static weft_status solve_factored(const kernel_call *c, const systems *s, bool transposed, double *factored,
                                  double *b) {
    int info = 1;
    (void)transposed; /* the matrix is symmetric */
#if WEFT_HAVE_LAPACK
    dpotrs_(s->upper ? "L" : "U", &s->n, &s->columns, factored, &s->n, b, &s->n, &info, 1);
    for (int i = 0; i < s->n && !info; i++)
        if (factored[(int64_t)i * s->n + i] == 0) info = 1;
#else
    (void)s, (void)factored, (void)b;
#endif
    return info ? kernel_failed(c, "a diagonal has an element of 0") : NULL;
}

/* --- the ops ------------------------------------------------------------------------------------------------------ */

static weft_status run_system(const kernel_call *c) {
    const systems *s = c->state;
    int64_t size = (int64_t)s->n * s->n, side = (int64_t)s->n * s->columns;
    double *a = c->workspace, *b = a + size;
    for (int64_t k = 0; k < s->count; k++) {
        load(arg_in(c, s->matrix), k * s->a_step, size, a);
        load_side(s, arg_in(c, 1 - s->matrix), k * s->b_step, b);
        TRY(s->solve(c, s, s->transposed, a, b));
        store_side(s, arg_out(c, 0), k * side, b);
    }
    return NULL;
}

enum { SOLVE_OUT = 2, SOLVE_OUT_GRAD };

/* dB is the solution for dOut of the transposed matrix; then the matrix's own gradient is added. */
static weft_status run_gradients(const kernel_call *c) {
    const systems *s = c->state;
    int64_t size = (int64_t)s->n * s->n, side = (int64_t)s->n * s->columns;
    double *a = c->workspace, *g = a + size;
    tensor *da = arg_out(c, s->matrix), *db = arg_out(c, 1 - s->matrix);
    tensor_clear(da);
    tensor_clear(db);
    for (int64_t k = 0; k < s->count; k++) {
        load(arg_in(c, s->matrix), k * s->a_step, size, a);
        load_side(s, arg_in(c, SOLVE_OUT_GRAD), k * side, g);
        TRY(s->solve(c, s, !s->transposed, a, g));
        add_side(s, db, k * s->b_step, g);
        if (da) s->add_matrix(c, s, k, a, g, da);
    }
    return NULL;
}

/* An element of dB Out^T, of one of the batch; dB by columns. */
static double outer_at(const kernel_call *c, const systems *s, int64_t k, const double *g, int64_t row,
                       int64_t column) {
    double sum = 0;
    for (int64_t q = 0, first = k * s->n * s->columns + column * s->columns; q < s->columns; q++)
        sum += g[q * s->n + row] * tensor_real(arg_in(c, SOLVE_OUT), first + q);
    return sum;
}

/* dA = -dB Out^T */
static void add_any(const kernel_call *c, const systems *s, int64_t k, const double *a, const double *g, tensor *da) {
    (void)a;
    for (int64_t i = 0; i < (int64_t)s->n * s->n; i++)
        tensor_add_real(da, k * s->a_step + i, -outer_at(c, s, k, g, i / s->n, i % s->n));
}

/* The same, or its transpose, within the triangle. */
static void add_triangle(const kernel_call *c, const systems *s, int64_t k, const double *a, const double *g,
                         tensor *da) {
    (void)a;
    for (int i = 0; i < s->n; i++)
        for (int j = s->upper ? i : 0; j < (s->upper ? s->n : i + 1); j++) {
            int row = s->transposed ? j : i, column = s->transposed ? i : j;
            if (!s->unit || i != j)
                tensor_add_real(da, k * s->a_step + i * s->n + j, -outer_at(c, s, k, g, row, column));
        }
}

/* With P = dB Out^T, S = P + P^T: of a lower factor L it is the lower triangle of -S L, of an upper one the upper
 * triangle of -U S. What lies in the other triangle of the factor counts as 0. */
static void add_factor(const kernel_call *c, const systems *s, int64_t k, const double *a, const double *g,
                       tensor *da) {
    int64_t n = s->n;
    double *sums = (double *)c->workspace + n * n + n * s->columns; /* behind the matrix and dB */
    for (int64_t i = 0; i < n * n; i++)
        sums[i] = outer_at(c, s, k, g, i / n, i % n) + outer_at(c, s, k, g, i % n, i / n);
    for (int64_t i = 0; i < n * n; i++) {
        int64_t row = i / n, column = i % n;
        double sum = 0;
        if (s->upper ? column < row : column > row) continue;
        for (int64_t q = s->upper ? row : column; q < n; q++)
            sum += s->upper ? a[row * n + q] * sums[q * n + column] : sums[row * n + q] * a[q * n + column];
        tensor_add_real(da, k * s->a_step + i, -sum);
    }
}

/* How an op's matrix is solved for. */
typedef struct way {
    int matrix;   /* its slot; the other one is the right side's */
    bool upper;   /* unless an attr says else */
    bool columns; /* a right side may have one dimension less */
    solve_fn solve;
    add_matrix_fn add_matrix;
} way;

static const way any = {0, false, true, solve_any, add_any}, triangle = {0, true, false, solve_triangle, add_triangle},
                 factored = {1, false, false, solve_factored, add_factor};

static weft_status prepare_way(kernel_prepare *p, const way *w, const tensor *out) {
    TRY(prepare_system(p, type_in(p, w->matrix), type_in(p, 1 - w->matrix), out, w->columns));
    systems *s = p->state;
    s->matrix = w->matrix;
    s->upper = attr_bool(p->op, "upper", w->upper);
    s->solve = w->solve;
    s->add_matrix = w->add_matrix;
    return NULL;
}

static weft_status prepare_gradients(kernel_prepare *p, const way *w) {
    const tensor *out = type_in(p, SOLVE_OUT), *g = type_in(p, SOLVE_OUT_GRAD);
    TRY(prepare_way(p, w, g));
    TRY(require_like(p, g, out, g->numel, "Out"));
    TRY(require_like(p, g, type_out(p, 0), type_in(p, 0)->numel, "X@GRAD"));
    return require_like(p, g, type_out(p, 1), type_in(p, 1)->numel, "Y@GRAD");
}

#define SYSTEM(op, way)                                                                                                \
    static weft_status prepare_##op(kernel_prepare *p) {                                                               \
        return prepare_way(p, &way, type_out(p, 0));                                                                   \
    }                                                                                                                  \
    static weft_status prepare_##op##_grad(kernel_prepare *p) {                                                        \
        return prepare_gradients(p, &way);                                                                             \
    }                                                                                                                  \
    const kernel kernel_##op = {prepare_##op, run_system};                                                             \
    const kernel kernel_##op##_grad = {prepare_##op##_grad, run_gradients};
SYSTEM(solve, any)
SYSTEM(triangular_solve, triangle)
SYSTEM(cholesky_solve, factored)
#undef SYSTEM
