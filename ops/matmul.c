/* matmul.c: types of matrix products (paddle/phi/infermeta/binary.cc, MatmulInferMeta). */
#include "ops/infer.h"

/* A vector is a row on the left and a column on the right; the extent of 1 is dropped from the result. */
static shape as_matrix(const shape *s, bool left) {
    shape m = *s;
    if (s->ndim != 1) return m;
    m.ndim = 2;
    m.dims[0] = left ? 1 : s->dims[0];
    m.dims[1] = left ? s->dims[0] : 1;
    return m;
}

static weft_status broadcast_batch(infer *i, const shape *x, const shape *y, shape *out) {
    int32_t nx = x->ndim - 2, ny = y->ndim - 2, n = nx > ny ? nx : ny;
    for (int32_t d = 0; d < n; d++) {
        int64_t a = d < n - nx ? 1 : x->dims[d - (n - nx)], b = d < n - ny ? 1 : y->dims[d - (n - ny)];
        if (!extent_fits(a, b) && a != 1 && b != 1) {
            shape_text tx, ty;
            return infer_error(i, "expected batch dimensions that broadcast, found X %s and Y %s", shape_print(x, &tx),
                               shape_print(y, &ty));
        }
        TRY(shape_append(i, out, a == 1 ? b : b == 1 || b < 0 ? a : b));
    }
    return NULL;
}

static weft_status infer_product(infer *i, const char *trans_x, const char *trans_y) {
    const shape *in_x = infer_in(i, 0), *in_y = infer_in(i, 1);
    if (!shape_known(in_x) || !shape_known(in_y) || !infer_out(i, 0)) return NULL;
    shape_text tx, ty;
    if (!in_x->ndim || !in_y->ndim)
        return infer_error(i, "expected X and Y of at least one dimension, found %s and %s", shape_print(in_x, &tx),
                           shape_print(in_y, &ty));
    shape x = as_matrix(in_x, true), y = as_matrix(in_y, false);
    bool tx_on = attr_bool(i->op, trans_x, false) && in_x->ndim > 1;
    bool ty_on = attr_bool(i->op, trans_y, false) && in_y->ndim > 1;
    int64_t m = x.dims[x.ndim - (tx_on ? 1 : 2)], kx = x.dims[x.ndim - (tx_on ? 2 : 1)];
    int64_t n = y.dims[y.ndim - (ty_on ? 2 : 1)], ky = y.dims[y.ndim - (ty_on ? 1 : 2)];
    if (!extent_fits(kx, ky))
        return infer_error(i, "expected equal inner extents, found X %s%s and Y %s%s", shape_print(in_x, &tx),
                           tx_on ? " transposed" : "", shape_print(in_y, &ty), ty_on ? " transposed" : "");
    shape out = {.dtype = in_x->dtype, .height = -1};
    TRY(broadcast_batch(i, &x, &y, &out));
    if (in_x->ndim > 1) TRY(shape_append(i, &out, m));
    if (in_y->ndim > 1) TRY(shape_append(i, &out, n));
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_matmul_v2(infer *i) {
    return infer_product(i, "trans_x", "trans_y");
}

/* From before 0-D tensors: two vectors give one element. */
weft_status infer_matmul(infer *i) {
    TRY(infer_product(i, "transpose_X", "transpose_Y"));
    shape *out = infer_out(i, 0);
    return out && !out->ndim ? shape_append(i, out, 1) : NULL;
}

weft_status infer_mul(infer *i) {
    const shape *x = infer_in(i, 0), *y = infer_in(i, 1);
    int64_t nx = attr_int(i->op, "x_num_col_dims", 1), ny = attr_int(i->op, "y_num_col_dims", 1), kx = 1, ky = 1;
    if (!shape_known(x) || !shape_known(y) || !infer_out(i, 0)) return NULL;
    shape_text tx, ty;
    if (nx < 1 || nx >= x->ndim || ny < 1 || ny >= y->ndim)
        return infer_error(i, "expected x_num_col_dims and y_num_col_dims within X %s and Y %s, found %lld and %lld",
                           shape_print(x, &tx), shape_print(y, &ty), (long long)nx, (long long)ny);
    for (int64_t d = nx; d < x->ndim; d++) kx = extent_mul(kx, x->dims[d]);
    for (int64_t d = 0; d < ny; d++) ky = extent_mul(ky, y->dims[d]);
    if (!extent_fits(kx, ky))
        return infer_error(i, "expected equal inner extents, found X %s and Y %s", shape_print(x, &tx),
                           shape_print(y, &ty));
    shape out = {.dtype = x->dtype, .height = -1};
    for (int64_t d = 0; d < nx; d++) TRY(shape_append(i, &out, x->dims[d]));
    for (int64_t d = ny; d < y->ndim; d++) TRY(shape_append(i, &out, y->dims[d]));
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_dot(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    if (x->ndim < 1 || x->ndim > 2) return infer_error(i, "expected X of 1 or 2 dimensions, found %d", x->ndim);
    shape_set(infer_out(i, 0), x->dtype, (size_t)x->ndim - 1, x->dims);
    return NULL;
}

/* A matrix product, to which Input broadcasts. */
weft_status infer_addmm(infer *i) {
    const shape *x = infer_in(i, 1), *y = infer_in(i, 2);
    if (!shape_known(x) || !shape_known(y) || !infer_out(i, 0)) return NULL;
    shape_text tx, ty;
    if (x->ndim != 2 || y->ndim != 2 || !extent_fits(x->dims[1], y->dims[0]))
        return infer_error(i, "expected matrices with one inner extent, found X %s and Y %s", shape_print(x, &tx),
                           shape_print(y, &ty));
    shape_set(infer_out(i, 0), x->dtype, 2, (const int64_t[]){x->dims[0], y->dims[1]});
    return NULL;
}

weft_status infer_baddbmm(infer *i) {
    const shape *x = infer_in(i, 1), *y = infer_in(i, 2);
    if (!shape_known(x) || !shape_known(y) || !infer_out(i, 0)) return NULL;
    if (x->ndim != 3 || y->ndim != 3) return infer_error(i, "expected batches of matrices");
    shape_set(infer_out(i, 0), x->dtype, 3, (const int64_t[]){x->dims[0], x->dims[1], y->dims[2]});
    return NULL;
}

/* Rows of the first factor, columns of the last one; a vector has none. */
weft_status infer_multi_dot(infer *i) {
    size_t n = infer_nin(i, 0);
    if (n < 2) return infer_error(i, "expected two factors or more, found %zu", n);
    const shape *first = &i->in[0], *last = &i->in[n - 1];
    if (!shape_known(first) || !shape_known(last) || !infer_out(i, 0)) return NULL;
    if (first->ndim < 1 || first->ndim > 2 || last->ndim < 1 || last->ndim > 2)
        return infer_error(i, "expected matrices, found %d and %d dimensions", first->ndim, last->ndim);
    shape out = {.dtype = first->dtype, .height = -1};
    if (first->ndim == 2) TRY(shape_append(i, &out, first->dims[0]));
    if (last->ndim == 2) TRY(shape_append(i, &out, last->dims[1]));
    *infer_out(i, 0) = out;
    return NULL;
}

/* A number for each channel of X and each of Y. */
weft_status infer_fsp(infer *i) {
    const shape *x = infer_in(i, 0), *y = infer_in(i, 1);
    if (!shape_known(x) || !shape_known(y)) return NULL;
    if (x->ndim != 4 || y->ndim != 4)
        return infer_error(i, "expected X and Y of 4 dimensions, found %d and %d", x->ndim, y->ndim);
    shape_set(infer_out(i, 0), x->dtype, 3, (const int64_t[]){x->dims[0], x->dims[1], y->dims[1]});
    return NULL;
}
