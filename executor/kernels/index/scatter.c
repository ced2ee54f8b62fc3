/* scatter.c: rows put where indices say (scatter), slices by tuples of indices (gather_nd), one-hot rows, and
 * gradients.
 *
 * scatter that adds first zeroes the rows it names, as Paddle (phi/kernels/funcs/scatter.h); its gradients pass every
 * element of Out@GRAD to X but the named rows, and those to Updates. Tuples count from the end where they are negative.
 */
#include "executor/kernels/layout.h"

static weft_status check_index(const kernel_prepare *p, const tensor *index, const char *what) {
    TRY(require_present(p, index, what));
    if (index->dtype == WEFT_INT32 || index->dtype == WEFT_INT64) return NULL;
    return kernel_unsupported(p, "expected %s of int32 or int64, found %s", what, dtype_text(index->dtype));
}

#define DEFINE_ADD(dtype, suffix, real)                                                                                \
    static void add_##suffix(int64_t n, const void *src, void *dst) {                                                  \
        const real *restrict from = src;                                                                               \
        real *restrict to = dst;                                                                                       \
        for (int64_t i = 0; i < n; i++) to[i] += from[i];                                                              \
    }
REAL_TYPES(DEFINE_ADD)
WIDE_INT_TYPES(DEFINE_ADD)
#undef DEFINE_ADD

static bool can_add(weft_dtype d) {
    return d == WEFT_FP32 || d == WEFT_FP64 || d == WEFT_INT32 || d == WEFT_INT64;
}

static void add_run(weft_dtype dtype, int64_t n, const void *from, void *to) {
    switch ((int)dtype) {
    case WEFT_FP32: add_fp32(n, from, to); break;
    case WEFT_FP64: add_fp64(n, from, to); break;
    case WEFT_INT32: add_int32(n, from, to); break;
    default: add_int64(n, from, to);
    }
}

/* --- scatter ------------------------------------------------------------------------------------------------------ */

enum { SCATTER_IN_X, SCATTER_IN_IDS, SCATTER_IN_UPDATES };
enum { SCATTER_GRAD_IN_IDS, SCATTER_GRAD_IN_UPDATES, SCATTER_GRAD_IN_OUT_GRAD };
enum { SCATTER_OUT_X_GRAD, SCATTER_OUT_UPDATES_GRAD };

typedef struct scatter_state {
    int64_t nrows, width;
    size_t row_nbytes;
    bool overwrite;
} scatter_state;

static weft_status prepare_rows(kernel_prepare *p, const tensor *x, const tensor *ids, const tensor *updates) {
    scatter_state *s = KERNEL_STATE(p, scatter_state);
    if (!s) return base_out_of_memory();
    TRY(require_present(p, x, "X"));
    TRY(check_index(p, ids, "Ids"));
    if (x->ndim < 1) return kernel_unsupported(p, "expected X of at least one dimension");
    s->nrows = x->dims[0];
    s->width = s->nrows ? x->numel / s->nrows : 0;
    s->row_nbytes = (size_t)s->width * weft_dtype_nbytes(x->dtype);
    s->overwrite = attr_bool(p->op, "overwrite", true);
    TRY(require_numel(p, updates, ids->numel * s->width, "Updates"));
    return require_same_dtype(p, x, updates, "Updates");
}

static weft_status prepare_scatter(kernel_prepare *p) {
    const tensor *x = type_in(p, SCATTER_IN_X);
    TRY(prepare_rows(p, x, type_in(p, SCATTER_IN_IDS), type_in(p, SCATTER_IN_UPDATES)));
    if (!((const scatter_state *)p->state)->overwrite && !can_add(x->dtype))
        return kernel_unsupported(p, "expected X of a type that adds, found %s", dtype_text(x->dtype));
    return require_numel(p, type_out(p, 0), x->numel, "Out");
}

static weft_status prepare_scatter_grad(kernel_prepare *p) {
    const tensor *dy = type_in(p, SCATTER_GRAD_IN_OUT_GRAD), *dx = type_out(p, SCATTER_OUT_X_GRAD);
    TRY(prepare_rows(p, dy, type_in(p, SCATTER_GRAD_IN_IDS), type_in(p, SCATTER_GRAD_IN_UPDATES)));
    if (dx) TRY(require_numel(p, dx, dy->numel, "X@GRAD"));
    return NULL;
}

static weft_status row_at(const kernel_call *c, const scatter_state *s, const tensor *ids, int64_t i, size_t *out) {
    int64_t row = tensor_integer(ids, i);
    if (row < 0) row += s->nrows;
    if (row < 0 || row >= s->nrows)
        return kernel_failed(c, "expected rows of 0 to %lld, found %lld", (long long)s->nrows - 1, (long long)row);
    *out = (size_t)row * s->row_nbytes;
    return NULL;
}

static weft_status run_scatter(const kernel_call *c) {
    const scatter_state *s = c->state;
    const tensor *x = arg_in(c, SCATTER_IN_X), *ids = arg_in(c, SCATTER_IN_IDS);
    char *y = arg_out(c, 0)->data;
    const char *updates = arg_in(c, SCATTER_IN_UPDATES)->data;
    size_t row = 0;
    copy_bytes(y, x->data, tensor_nbytes(x));
    for (int64_t i = 0; i < ids->numel && !s->overwrite; i++) {
        TRY(row_at(c, s, ids, i, &row));
        memset(y + row, 0, s->row_nbytes);
    }
    for (int64_t i = 0; i < ids->numel; i++, updates += s->row_nbytes) {
        TRY(row_at(c, s, ids, i, &row));
        if (s->overwrite)
            memcpy(y + row, updates, s->row_nbytes);
        else
            add_run(x->dtype, s->width, updates, y + row);
    }
    return NULL;
}

static weft_status run_scatter_grad(const kernel_call *c) {
    const scatter_state *s = c->state;
    const tensor *ids = arg_in(c, SCATTER_GRAD_IN_IDS), *dy = arg_in(c, SCATTER_GRAD_IN_OUT_GRAD);
    tensor *dx = arg_out(c, SCATTER_OUT_X_GRAD), *dupdates = arg_out(c, SCATTER_OUT_UPDATES_GRAD);
    if (dx) copy_bytes(dx->data, dy->data, tensor_nbytes(dy));
    for (int64_t i = 0; i < ids->numel; i++) {
        size_t row = 0;
        TRY(row_at(c, s, ids, i, &row));
        if (dupdates)
            memcpy((char *)dupdates->data + (size_t)i * s->row_nbytes, (const char *)dy->data + row, s->row_nbytes);
        if (dx) memset((char *)dx->data + row, 0, s->row_nbytes);
    }
    return NULL;
}

const kernel kernel_scatter = {prepare_scatter, run_scatter};
const kernel kernel_scatter_grad = {prepare_scatter_grad, run_scatter_grad};

/* --- gather_nd ---------------------------------------------------------------------------------------------------- */

enum { ND_IN_X, ND_IN_INDEX, ND_IN_OUT_GRAD };

typedef struct nd_state {
    int depth; /* indices in a tuple */
    int64_t ntuples, width;
    int64_t dims[WEFT_MAX_RANK];
} nd_state;

static weft_status prepare_tuples(kernel_prepare *p, const tensor *slices) {
    nd_state *s = KERNEL_STATE(p, nd_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, ND_IN_X), *index = type_in(p, ND_IN_INDEX);
    TRY(require_present(p, x, "X"));
    TRY(check_index(p, index, "Index"));
    if (index->ndim < 1 || index->dims[index->ndim - 1] > x->ndim)
        return kernel_unsupported(p, "expected tuples of at most %d indices", x->ndim);
    s->depth = (int)index->dims[index->ndim - 1];
    s->ntuples = 1;
    for (int i = 0; i + 1 < index->ndim; i++) s->ntuples *= index->dims[i];
    s->width = 1;
    for (int i = s->depth; i < x->ndim; i++) s->width *= x->dims[i];
    memcpy(s->dims, x->dims, sizeof s->dims);
    TRY(require_numel(p, slices, s->ntuples * s->width, "the slices"));
    return require_same_dtype(p, x, slices, "the slices");
}

static weft_status prepare_nd(kernel_prepare *p) {
    return prepare_tuples(p, type_out(p, 0));
}
static weft_status prepare_nd_grad(kernel_prepare *p) {
    TRY(prepare_tuples(p, type_in(p, ND_IN_OUT_GRAD)));
    TRY(require_numel(p, type_out(p, 0), type_in(p, ND_IN_X)->numel, "X@GRAD"));
    return require_real(p, type_out(p, 0), "X@GRAD");
}

/* The element offset of tuple i's slice. */
static weft_status slice_at(const kernel_call *c, const nd_state *s, int64_t i, int64_t *out) {
    int64_t at = 0;
    for (int d = 0; d < s->depth; d++) {
        int64_t k = tensor_integer(arg_in(c, ND_IN_INDEX), i * s->depth + d);
        if (k < -s->dims[d] || k >= s->dims[d])
            return kernel_failed(c, "expected indices of -%lld to %lld in dimension %d, found %lld",
                                 (long long)s->dims[d], (long long)s->dims[d] - 1, d, (long long)k);
        at = at * s->dims[d] + (k < 0 ? k + s->dims[d] : k);
    }
    *out = at * s->width;
    return NULL;
}

static weft_status run_nd(const kernel_call *c) {
    const nd_state *s = c->state;
    const tensor *x = arg_in(c, ND_IN_X);
    size_t nbytes = weft_dtype_nbytes(x->dtype), run = (size_t)s->width * nbytes;
    char *to = arg_out(c, 0)->data;
    for (int64_t i = 0; i < s->ntuples; i++, to += run) {
        int64_t at = 0;
        TRY(slice_at(c, s, i, &at));
        memcpy(to, (const char *)x->data + (size_t)at * nbytes, run);
    }
    return NULL;
}

static weft_status run_nd_grad(const kernel_call *c) {
    const nd_state *s = c->state;
    const tensor *dy = arg_in(c, ND_IN_OUT_GRAD);
    tensor *dx = arg_out(c, 0);
    size_t nbytes = weft_dtype_nbytes(dx->dtype);
    const char *from = dy->data;
    tensor_clear(dx);
    for (int64_t i = 0; i < s->ntuples; i++, from += (size_t)s->width * nbytes) {
        int64_t at = 0;
        TRY(slice_at(c, s, i, &at));
        add_run(dx->dtype, s->width, from, (char *)dx->data + (size_t)at * nbytes);
    }
    return NULL;
}

const kernel kernel_gather_nd = {prepare_nd, run_nd};
const kernel kernel_gather_nd_grad = {prepare_nd_grad, run_nd_grad};

/* --- one_hot_v2 --------------------------------------------------------------------------------------------------- */

enum { HOT_IN_X, HOT_IN_DEPTH };

static weft_status prepare_one_hot(kernel_prepare *p) {
    const tensor *x = type_in(p, HOT_IN_X), *y = type_out(p, 0);
    TRY(check_index(p, x, "X"));
    TRY(require_present(p, y, "Out"));
    if (x->numel ? y->numel % x->numel == 0 : y->numel == 0) return NULL;
    return kernel_unsupported(p, "expected a row of Out for each element of X");
}

/* An index beyond the depth is an error whatever allow_out_of_range says, as in Paddle. */
static weft_status run_one_hot(const kernel_call *c) {
    const tensor *x = arg_in(c, HOT_IN_X);
    tensor *y = arg_out(c, 0);
    if (x->numel == 0) return NULL;
    int64_t depth = y->numel / x->numel;
    size_t nbytes = weft_dtype_nbytes(y->dtype);
    tensor_clear(y);
    for (int64_t i = 0; i < x->numel; i++) {
        int64_t k = tensor_integer(x, i);
        if (k < 0 || k >= depth)
            return kernel_failed(c, "expected indices of 0 to %lld, found %lld", (long long)depth - 1, (long long)k);
        fill_elements(y->dtype, (char *)y->data + (size_t)(i * depth + k) * nbytes, 1, 1);
    }
    return NULL;
}

const kernel kernel_one_hot_v2 = {prepare_one_hot, run_one_hot};
