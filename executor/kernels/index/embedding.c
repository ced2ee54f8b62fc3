/* embedding.c: rows of a table by index, and the gradient: dense, or the rows that were touched.
 *
 * lookup_table_v2 yields zeros at padding_idx, and gives that row no gradient where the gradient is dense; a sparse
 * gradient keeps one row a lookup, in order, padding included, as Paddle (phi/kernels/cpu/embedding_grad_kernel.cc).
 * c_embedding holds rows start_index .. start_index + height of a larger table and yields zeros for all others. */
#include "executor/kernels/layout.h"

enum { IN_W, IN_IDS, IN_OUT_GRAD, OUT = 0 };

/* padding_idx -1 names no row; an id of -1 is an error all the same. */
#define NO_PADDING INT64_MIN

typedef struct table_state {
    int64_t nrows, width, nids;
    int64_t first;   /* the id of row 0 */
    int64_t padding; /* an id whose row is zeros, or NO_PADDING */
    bool partial;    /* ids beyond the table yield zeros */
    bool by_rows;    /* the gradient is SELECTED_ROWS */
} table_state;

static weft_status prepare_table(kernel_prepare *p, bool partial, const tensor *looked_up) {
    table_state *s = KERNEL_STATE(p, table_state);
    if (!s) return base_out_of_memory();
    const tensor *w = type_in(p, IN_W), *ids = type_in(p, IN_IDS);
    TRY(require_present(p, w, "W"));
    TRY(require_present(p, ids, "Ids"));
    TRY(require_present(p, looked_up, "rows"));
    TRY(require_same_dtype(p, w, looked_up, "rows"));
    if (w->ndim != 2) return kernel_unsupported(p, "expected W of 2 dimensions, found %d", w->ndim);
    if (dtype_is_float(ids->dtype)) return kernel_unsupported(p, "expected Ids of an integer type");
    s->nrows = w->dims[0];
    s->width = w->dims[1];
    s->nids = ids->numel;
    TRY(require_numel(p, looked_up, s->nids * s->width, "rows"));
    s->partial = partial;
    s->first = partial ? attr_int(p->op, "start_index", 0) : 0;
    int64_t padding = attr_int(p->op, "padding_idx", -1);
    s->padding = partial || padding < 0 ? NO_PADDING : padding;
    s->by_rows = !partial && attr_bool(p->op, "is_sparse", false);
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_table(p, false, type_out(p, OUT));
}
static weft_status prepare_partial(kernel_prepare *p) {
    return prepare_table(p, true, type_out(p, OUT));
}

static weft_status prepare_gradient(kernel_prepare *p, bool partial) {
    const tensor *dy = type_in(p, IN_OUT_GRAD), *dw = type_out(p, OUT), *w = type_in(p, IN_W);
    TRY(prepare_table(p, partial, dy));
    TRY(require_present(p, dw, "W@GRAD"));
    TRY(require_same_dtype(p, w, dw, "W@GRAD"));
    const table_state *s = p->state;
    if (s->by_rows) return require_numel(p, dw, dy->numel, "W@GRAD");
    TRY(require_real(p, dw, "W@GRAD"));
    return require_numel(p, dw, w->numel, "W@GRAD");
}
static weft_status prepare_grad(kernel_prepare *p) {
    return prepare_gradient(p, false);
}
static weft_status prepare_partial_grad(kernel_prepare *p) {
    return prepare_gradient(p, true);
}

/* The row of lookup i; -1 if it yields zeros. */
static weft_status row_of(const kernel_call *c, const table_state *s, int64_t i, int64_t *out_row) {
    int64_t id = tensor_integer(arg_in(c, IN_IDS), i), row = id - s->first;
    bool inside = row >= 0 && row < s->nrows;
    if (!inside && !s->partial && id != s->padding)
        return kernel_failed(c, "expected ids of 0 to %lld, found %lld at %lld", (long long)s->nrows - 1, (long long)id,
                             (long long)i);
    *out_row = inside && (s->partial || id != s->padding) ? row : -1;
    return NULL;
}

static weft_status run(const kernel_call *c) {
    const table_state *s = c->state;
    const tensor *w = arg_in(c, IN_W);
    size_t nbytes = (size_t)s->width * weft_dtype_nbytes(w->dtype);
    char *out = arg_out(c, OUT)->data;
    for (int64_t i = 0; i < s->nids; i++, out += nbytes) {
        int64_t row = -1;
        TRY(row_of(c, s, i, &row));
        if (row < 0)
            memset(out, 0, nbytes);
        else
            memcpy(out, (const char *)w->data + (size_t)row * nbytes, nbytes);
    }
    return NULL;
}

#define DEFINE_ADD_ROW(dtype, suffix, real)                                                                            \
    static void add_row_##suffix(int64_t n, const real *restrict src, real *restrict dst) {                            \
        for (int64_t i = 0; i < n; i++) dst[i] += src[i];                                                              \
    }
REAL_TYPES(DEFINE_ADD_ROW)
#undef DEFINE_ADD_ROW

static weft_status run_dense_grad(const kernel_call *c, const table_state *s) {
    const tensor *dy = arg_in(c, IN_OUT_GRAD);
    tensor *dw = arg_out(c, OUT);
    tensor_clear(dw);
    for (int64_t i = 0; i < s->nids; i++) {
        int64_t row = -1, n = s->width;
        TRY(row_of(c, s, i, &row));
        if (row < 0) continue;
        if (dw->dtype == WEFT_FP64)
            add_row_fp64(n, (const double *)dy->data + i * n, (double *)dw->data + row * n);
        else
            add_row_fp32(n, (const float *)dy->data + i * n, (float *)dw->data + row * n);
    }
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    const table_state *s = c->state;
    if (!s->by_rows) return run_dense_grad(c, s);
    const tensor *dy = arg_in(c, IN_OUT_GRAD), *ids = arg_in(c, IN_IDS);
    tensor *dw = arg_out(c, OUT);
    if (!dw->rows) return kernel_failed(c, "expected W@GRAD to be SELECTED_ROWS, found a dense tensor");
    copy_bytes(dw->data, dy->data, tensor_nbytes(dy));
    for (int64_t i = 0; i < s->nids; i++) dw->rows[i] = tensor_integer(ids, i);
    dw->height = s->nrows;
    return NULL;
}

const kernel kernel_lookup_table_v2 = {prepare, run};
const kernel kernel_lookup_table_v2_grad = {prepare_grad, run_grad};
const kernel kernel_c_embedding = {prepare_partial, run};
const kernel kernel_c_embedding_grad = {prepare_partial_grad, run_grad};
