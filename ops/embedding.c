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

/* The last dimension of Ids has one element, in whose place the row is. */
weft_status infer_lookup_table(infer *i) {
    const shape *w = infer_in(i, 0), *ids = infer_in(i, 1);
    if (!shape_known(w) || !shape_known(ids) || !infer_out(i, 0)) return NULL;
    if (w->ndim != 2) return infer_error(i, "expected a table W of 2 dimensions, found %d", w->ndim);
    int64_t last = ids->ndim ? ids->dims[ids->ndim - 1] : 0;
    if (last != 1 && last != -1)
        return infer_error(i, "expected Ids with a last dimension of 1, found %lld", (long long)last);
    *infer_out(i, 0) = *ids;
    infer_out(i, 0)->dtype = w->dtype;
    infer_out(i, 0)->dims[ids->ndim - 1] = w->dims[1];
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

/* Labels keep their shape; as many classes are there as were asked for. */
weft_status infer_class_centers(infer *i) {
    const shape *label = infer_in(i, 0);
    int64_t count = attr_int(i->op, "num_samples", 0);
    if (!shape_known(label)) return NULL;
    if (infer_out(i, 0)) *infer_out(i, 0) = *label;
    if (infer_out(i, 1)) shape_set(infer_out(i, 1), label->dtype, 1, &count);
    return NULL;
}

/* A row is the last dimension. */
weft_status infer_shuffle_batch(infer *i) {
    const shape *x = infer_in(i, 0);
    int64_t rows = 1;
    if (!shape_known(x)) return NULL;
    for (int32_t d = 0; d + 1 < x->ndim; d++) rows = rows < 0 || x->dims[d] < 0 ? -1 : rows * x->dims[d];
    if (infer_out(i, 0)) *infer_out(i, 0) = *x;
    shape_set(infer_out(i, 1), WEFT_INT64, 1, &rows);
    if (infer_out(i, 2) && infer_nin(i, 1)) *infer_out(i, 2) = *infer_in(i, 1);
    return NULL;
}

weft_status infer_tdm_child(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    shape out = *x;
    TRY(shape_append(i, &out, attr_int(i->op, "child_nums", 0)));
    out.dtype = (int32_t)attr_int(i->op, "dtype", WEFT_INT32);
    for (int o = 0; o < 2; o++)
        if (infer_out(i, o)) *infer_out(i, o) = out;
    return NULL;
}

/* Without the two counts where use_cvm is false. */
weft_status infer_cvm(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    if (x->ndim != 2) return infer_error(i, "expected rows, found %d dimensions", x->ndim);
    int64_t dropped = attr_bool(i->op, "use_cvm", true) ? 0 : 2;
    if (x->dims[1] >= 0 && x->dims[1] < 2)
        return infer_error(i, "expected two counts in each row, found %lld elements", (long long)x->dims[1]);
    *infer_out(i, 0) = *x;
    if (x->dims[1] >= 0) infer_out(i, 0)->dims[1] -= dropped;
    return NULL;
}
