/* embedding.c: types of table look-ups and their gradients. */
#include "ops/infer.h"

weft_status infer_lookup_table_v2(infer *i) {
    const shape *w = infer_in(i, 0), *ids = infer_in(i, 1);
    if (!shape_known(w) || !shape_known(ids) || !infer_out(i, 0)) return NULL;
    if (w->ndim != 2) return infer_error(i, "expected a table W of 2 dimensions, found %d", w->ndim);
    shape out = *ids;
    out.dtype = w->dtype;
    TRY(shape_append(i, &out, w->dims[1]));
    *infer_out(i, 0) = out;
    return NULL;
}

/* A sparse gradient has one row an index, repeated ones too. */
weft_status infer_lookup_table_v2_grad(infer *i) {
    const shape *w = infer_in(i, 0), *ids = infer_in(i, 1);
    shape *out = infer_out(i, 0);
    if (!shape_known(w) || !shape_known(ids) || !out) return NULL;
    *out = *w;
    if (!attr_bool(i->op, "is_sparse", false)) return NULL;
    out->height = w->dims[0];
    out->dims[0] = shape_numel(ids);
    return NULL;
}

/* The values of rows, without their indices. */
weft_status infer_rows_values(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    *infer_out(i, 0) = *x;
    infer_out(i, 0)->height = -1;
    return NULL;
}
