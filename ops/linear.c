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

/* A right side of one dimension is a column. */
weft_status infer_solve(infer *i) {
    const shape *b = infer_in(i, 1);
    if (!shape_known(b) || b->ndim != 1) return solution(i, infer_in(i, 0), b);
    if (infer_out(i, 0)) *infer_out(i, 0) = *b;
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
