/* least_squares.c: the x of least length with the least sum of squares of Y - X x, its residuals, the rank of X and its
 * singular values (lstsq), by LAPACK's singular values in double, whichever driver is asked for. Where X has less than
 * full rank the driver "gels" of Paddle gives what means nothing. */
#include "executor/kernels/layout.h"
#include "executor/kernels/linear/lapack.h"

enum { IN_X, IN_Y, OUT_SOLUTION = 0, OUT_RESIDUALS, OUT_RANK, OUT_VALUES };

typedef struct squares_state {
    int64_t count; /* of the batch */
    int m, n, columns;
    double tolerance;
} squares_state;

static int64_t lesser(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t room_of(const squares_state *s) {
    int64_t most = s->m > s->n ? s->m : s->n;
    return 5 * (most + s->columns) + 3 * lesser(s->m, s->n) + 64;
}

/* An output is of all matrices, or has no elements. */
static weft_status require_all_or_none(const kernel_prepare *p, const tensor *t, int64_t numel, const char *what) {
    return t && t->numel ? require_numel(p, t, numel, what) : NULL;
}

static weft_status prepare(kernel_prepare *p) {
#if !WEFT_HAVE_LAPACK
    return kernel_unsupported(p, "expected a build with LAPACK (liblapack-dev)");
#endif
    squares_state *s = KERNEL_STATE(p, squares_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *y = type_in(p, IN_Y);
    TRY(require_real(p, x, "X"));
    TRY(require_present(p, y, "Y"));
    TRY(require_same_dtype(p, x, y, "Y"));
    int nd = x->ndim;
    if (nd < 2 || y->ndim != nd || y->dims[nd - 2] != x->dims[nd - 2] || x->dims[nd - 1] > INT16_MAX ||
        x->dims[nd - 2] > INT16_MAX || y->dims[nd - 1] > INT16_MAX)
        return kernel_unsupported(p, "expected matrices X and Y of as many rows, at most %d", INT16_MAX);
    s->m = (int)x->dims[nd - 2], s->n = (int)x->dims[nd - 1], s->columns = (int)y->dims[nd - 1];
    s->count = s->m && s->n ? x->numel / ((int64_t)s->m * s->n) : 0;
    if (y->numel != s->count * s->m * s->columns) return kernel_unsupported(p, "expected one batch of X and Y");
    s->tolerance = attr_float(p->op, "rcond", 0);
    TRY(require_present(p, type_out(p, OUT_SOLUTION), "Solution"));
    TRY(require_like(p, x, type_out(p, OUT_SOLUTION), s->count * s->n * s->columns, "Solution"));
    TRY(require_all_or_none(p, type_out(p, OUT_RESIDUALS), s->count * s->columns, "Residuals"));
    TRY(require_all_or_none(p, type_out(p, OUT_RANK), s->count, "Rank"));
    TRY(require_all_or_none(p, type_out(p, OUT_VALUES), s->count * lesser(s->m, s->n), "SingularValues"));
    if (type_out(p, OUT_RANK) && type_out(p, OUT_RANK)->dtype != WEFT_INT32)
        return kernel_unsupported(p, "expected Rank of int32");
    int64_t most = s->m > s->n ? s->m : s->n;
    p->workspace_nbytes = (size_t)(s->m * s->n + most * s->columns + s->m + s->n + room_of(s)) * sizeof(double);
    return NULL;
}

/* a and b by columns, both lost; b has the solution. */
static int solve(const squares_state *s, double *a, double *b, double *values, int *rank, double *work) {
    int info = 1;
#if WEFT_HAVE_LAPACK
    int most = s->m > s->n ? s->m : s->n, room = (int)room_of(s);
    dgelss_(&s->m, &s->n, &s->columns, a, &s->m, b, &most, values, &s->tolerance, rank, work, &room, &info);
#else
    (void)s, (void)a, (void)b, (void)values, (void)rank, (void)work;
#endif
    return info;
}

static void store_residuals(const kernel_call *c, int64_t k) {
    const squares_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *y = arg_in(c, IN_Y), *solution = arg_out(c, OUT_SOLUTION);
    for (int64_t j = 0; j < s->columns; j++) {
        double total = 0;
        for (int64_t i = 0; i < s->m; i++) {
            double left = tensor_real(y, (k * s->m + i) * s->columns + j);
            for (int64_t q = 0; q < s->n; q++)
                left -= tensor_real(x, (k * s->m + i) * s->n + q) *
                        tensor_real(solution, (k * s->n + q) * s->columns + j);
            total += left * left;
        }
        tensor_set_real(arg_out(c, OUT_RESIDUALS), k * s->columns + j, total);
    }
}

static bool is_asked(const tensor *t) {
    return t && t->numel;
}

static weft_status run(const kernel_call *c) {
    const squares_state *s = c->state;
    int64_t m = s->m, n = s->n, most = m > n ? m : n;
    double *a = c->workspace, *b = a + m * n, *values = b + most * s->columns, *work = values + m + n;
    for (int64_t k = 0; k < s->count; k++) {
        int rank = 0;
        for (int64_t i = 0; i < m * n; i++) a[i % n * m + i / n] = tensor_real(arg_in(c, IN_X), k * m * n + i);
        for (int64_t i = 0; i < m * s->columns; i++)
            b[i % s->columns * most + i / s->columns] = tensor_real(arg_in(c, IN_Y), k * m * s->columns + i);
        if (solve(s, a, b, values, &rank, work))
            return kernel_failed(c, "LAPACK did not solve system %lld of the batch", (long long)k);
        for (int64_t i = 0; i < n * s->columns; i++)
            tensor_set_real(arg_out(c, OUT_SOLUTION), k * n * s->columns + i,
                            b[i % s->columns * most + i / s->columns]);
        if (is_asked(arg_out(c, OUT_RESIDUALS))) store_residuals(c, k);
        if (is_asked(arg_out(c, OUT_RANK))) ((int32_t *)arg_out(c, OUT_RANK)->data)[k] = rank;
        for (int64_t i = 0; is_asked(arg_out(c, OUT_VALUES)) && i < lesser(m, n); i++)
            tensor_set_real(arg_out(c, OUT_VALUES), k * lesser(m, n) + i, values[i]);
    }
    return NULL;
}

const kernel kernel_lstsq = {prepare, run};
