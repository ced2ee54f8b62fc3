/* linear.c: types of what is made of square matrices in the last two dimensions. */
#include "ops/infer.h"

/* The right side's rows and columns, batches stretched. */
static weft_status solution(infer *i, const shape *a, const shape *b) {
    if (!shape_known(a) || !shape_known(b) || !infer_out(i, 0)) return NULL;
    if (a->ndim < 2 || b->ndim < 2) return infer_error(i, "expected matrices");
    shape x = *a, y = *b, out;
    x.ndim -= 2, y.ndim -= 2;
    TRY(shape_broadcast(i, &x, &y, -1, &out));
    TRY(shape_append(i, &out, b->dims[b->ndim - 2]));
    TRY(shape_append(i, &out, b->dims[b->ndim - 1]));
    out.dtype = b->dtype;
    out.height = -1;
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_triangular_solve(infer *i) {
    return solution(i, infer_in(i, 0), infer_in(i, 1));
}
weft_status infer_cholesky_solve(infer *i) {
    return solution(i, infer_in(i, 1), infer_in(i, 0));
}

/* A right side of one dimension, or of the extents of the matrices but for their last, is a column for each. */
weft_status infer_solve(infer *i) {
    const shape *a = infer_in(i, 0), *b = infer_in(i, 1);
    if (!shape_known(a) || !shape_known(b)) return NULL;
    bool columns = a->ndim >= 2 && b->ndim == a->ndim - 1;
    for (int32_t d = 0; columns && d < b->ndim; d++) columns = a->dims[d] == b->dims[d];
    if (a->ndim < 2 || (b->ndim != 1 && !columns)) return solution(i, a, b);
    shape_set(infer_out(i, 0), b->dtype, (size_t)a->ndim - 1, a->dims);
    return NULL;
}

/* What a matrix has becomes one number. */
weft_status infer_determinant(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    if (x->ndim < 2) return infer_error(i, "expected matrices");
    shape_set(infer_out(i, 0), x->dtype, (size_t)x->ndim - 2, x->dims);
    return NULL;
}

weft_status infer_slogdeterminant(infer *i) {
    const shape *x = infer_in(i, 0);
    int64_t dims[WEFT_MAX_RANK] = {2};
    if (!shape_known(x)) return NULL;
    if (x->ndim < 2) return infer_error(i, "expected matrices");
    for (int32_t d = 0; d < x->ndim - 2; d++) dims[d + 1] = x->dims[d];
    shape_set(infer_out(i, 0), x->dtype, (size_t)x->ndim - 1, dims);
    return NULL;
}

enum { NO_EXTENT = -2 };

static int64_t smaller(int64_t a, int64_t b) {
    return a < 0 || b < 0 ? -1 : a < b ? a : b;
}

/* An output of the batch of x and the extents that are not NO_EXTENT. */
static void set_batch_of(infer *i, int o, const shape *x, int64_t rows, int64_t columns) {
    shape out = *x;
    out.ndim -= 2;
    if (rows != NO_EXTENT) out.dims[out.ndim++] = rows;
    if (columns != NO_EXTENT) out.dims[out.ndim++] = columns;
    if (infer_out(i, o)) *infer_out(i, o) = out;
}

weft_status infer_eigh(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    if (x->ndim < 2 || !extent_fits(x->dims[x->ndim - 1], x->dims[x->ndim - 2]))
        return infer_error(i, "expected square matrices");
    set_batch_of(i, 0, x, NO_EXTENT, x->dims[x->ndim - 1]);
    if (infer_out(i, 1)) *infer_out(i, 1) = *x;
    return NULL;
}
weft_status infer_eigh_grad(infer *i) {
    if (infer_out(i, 0)) *infer_out(i, 0) = *infer_in(i, schema_input(i->schema, "Eigenvectors"));
    return NULL;
}

weft_status infer_svd(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    if (x->ndim < 2) return infer_error(i, "expected matrices");
    int64_t m = x->dims[x->ndim - 2], n = x->dims[x->ndim - 1], k = smaller(m, n);
    bool full = attr_bool(i->op, "full_matrices", false);
    set_batch_of(i, 0, x, m, full ? m : k);
    set_batch_of(i, 1, x, NO_EXTENT, k);
    set_batch_of(i, 2, x, full ? n : k, n);
    return NULL;
}

weft_status infer_qr(infer *i) {
    const shape *x = infer_in(i, 0);
    const char *mode = attr_string(i->op, "mode", "reduced");
    if (!shape_known(x)) return NULL;
    if (x->ndim < 2) return infer_error(i, "expected matrices");
    int64_t m = x->dims[x->ndim - 2], n = x->dims[x->ndim - 1], k = strcmp(mode, "complete") == 0 ? m : smaller(m, n);
    if (strcmp(mode, "r") != 0) set_batch_of(i, 0, x, m, k);
    set_batch_of(i, 1, x, k, n);
    return NULL;
}

weft_status infer_matrix_rank(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    if (x->ndim < 2) return infer_error(i, "expected matrices");
    set_batch_of(i, 0, x, NO_EXTENT, NO_EXTENT);
    if (infer_out(i, 0)) infer_out(i, 0)->dtype = op_is(i->op, "matrix_rank") ? WEFT_INT32 : WEFT_INT64;
    return NULL;
}

weft_status infer_lu(infer *i) {
    const shape *x = infer_in(i, 0);
    const int64_t one = 1;
    if (!shape_known(x)) return NULL;
    if (x->ndim < 2) return infer_error(i, "expected matrices");
    set_batch_of(i, 0, x, x->dims[x->ndim - 2], x->dims[x->ndim - 1]);
    set_batch_of(i, 1, x, NO_EXTENT, smaller(x->dims[x->ndim - 2], x->dims[x->ndim - 1]));
    if (x->ndim > 2)
        set_batch_of(i, 2, x, NO_EXTENT, NO_EXTENT);
    else
        shape_set(infer_out(i, 2), WEFT_INT32, 1, &one);
    for (int o = 1; o < 3; o++)
        if (infer_out(i, o)) infer_out(i, o)->dtype = WEFT_INT32;
    return NULL;
}

weft_status infer_lu_unpack(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    if (x->ndim < 2) return infer_error(i, "expected matrices");
    int64_t m = x->dims[x->ndim - 2], n = x->dims[x->ndim - 1];
    set_batch_of(i, 0, x, m, m);
    set_batch_of(i, 1, x, m, smaller(m, n));
    set_batch_of(i, 2, x, smaller(m, n), n);
    return NULL;
}

static int32_t complex_of(int32_t dtype) {
    return dtype == WEFT_FP64 || dtype == WEFT_COMPLEX128 ? WEFT_COMPLEX128 : WEFT_COMPLEX64;
}

/* Values, and vectors where they are asked for. */
weft_status infer_eig(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    if (x->ndim < 2 || !extent_fits(x->dims[x->ndim - 1], x->dims[x->ndim - 2]))
        return infer_error(i, "expected square matrices");
    set_batch_of(i, 0, x, NO_EXTENT, x->dims[x->ndim - 1]);
    if (i->schema->noutputs > 1) shape_copy_dims(infer_out(i, 1), x, complex_of(x->dtype));
    if (infer_out(i, 0)) infer_out(i, 0)->dtype = complex_of(x->dtype);
    return NULL;
}
weft_status infer_eig_grad(infer *i) {
    const shape *v = infer_in(i, 1);
    shape_copy_dims(infer_out(i, 0), v, v->dtype == WEFT_COMPLEX128 ? (int32_t)WEFT_FP64 : (int32_t)WEFT_FP32);
    return NULL;
}

/* Residuals where X has more rows than columns; a rank and singular values by the driver. */
weft_status infer_lstsq(infer *i) {
    const shape *x = infer_in(i, 0), *y = infer_in(i, 1);
    const char *driver = attr_string(i->op, "driver", "gels");
    const int64_t none = 0;
    if (!shape_known(x) || !shape_known(y)) return NULL;
    if (x->ndim < 2 || y->ndim != x->ndim) return infer_error(i, "expected matrices X and Y");
    int64_t m = x->dims[x->ndim - 2], n = x->dims[x->ndim - 1], columns = y->dims[x->ndim - 1];
    set_batch_of(i, 0, x, n, columns);
    set_batch_of(i, 1, x, NO_EXTENT, columns);
    set_batch_of(i, 2, x, NO_EXTENT, NO_EXTENT);
    set_batch_of(i, 3, x, NO_EXTENT, smaller(m, n));
    if (m >= 0 && n >= 0 && m <= n) shape_set(infer_out(i, 1), x->dtype, 1, &none);
    if (infer_out(i, 2)) infer_out(i, 2)->dtype = WEFT_INT32;
    if (strcmp(driver, "gels") == 0) shape_set(infer_out(i, 2), WEFT_INT32, 1, &none);
    if (strcmp(driver, "gelsd") != 0 && strcmp(driver, "gelss") != 0) shape_set(infer_out(i, 3), x->dtype, 1, &none);
    return NULL;
}
