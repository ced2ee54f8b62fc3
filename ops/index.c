/* index.c: types of ops that pick elements by index (paddle/phi/infermeta/binary.cc). */
#include "ops/infer.h"

/* X with dimension `axis` replaced by those of the index. */
static weft_status pick_along(infer *i, const shape *x, const shape *index, int32_t axis) {
    shape out = {.dtype = x->dtype, .height = -1};
    for (int32_t d = 0; d < axis; d++) TRY(shape_append(i, &out, x->dims[d]));
    for (int32_t d = 0; d < index->ndim; d++) TRY(shape_append(i, &out, index->dims[d]));
    for (int32_t d = axis + 1; d < x->ndim; d++) TRY(shape_append(i, &out, x->dims[d]));
    *infer_out(i, 0) = out;
    return NULL;
}

/* A column of indices counts as a vector. */
weft_status infer_gather(infer *i) {
    const shape *x = infer_in(i, 0), *index = infer_in(i, 1);
    numbers axis;
    int32_t d;
    if (!shape_known(x) || !shape_known(index) || !infer_out(i, 0)) return NULL;
    TRY(infer_numbers(i, "Axis", NULL, "axis", &axis));
    if (!axis.known || axis.count != 1) {
        *infer_out(i, 0) = *x;
        for (int32_t k = 0; k < x->ndim; k++) infer_out(i, 0)->dims[k] = -1;
        return NULL;
    }
    shape vector = *index;
    if (index->ndim > 2) return infer_error(i, "expected an Index of at most 2 dimensions, found %d", index->ndim);
    if (vector.ndim == 2) vector.ndim = 1;
    TRY(infer_axis(i, "axis", axis.values[0], x->ndim, &d));
    return pick_along(i, x, &vector, d);
}

weft_status infer_index_select(infer *i) {
    const shape *x = infer_in(i, 0), *index = infer_in(i, 1);
    int32_t axis;
    if (!shape_known(x) || !shape_known(index) || !infer_out(i, 0)) return NULL;
    if (index->ndim != 1) return infer_error(i, "expected an Index of one dimension, found %d", index->ndim);
    TRY(infer_axis(i, "dim", attr_int(i->op, "dim", 0), x->ndim, &axis));
    return pick_along(i, x, index, axis);
}

/* Index's last dimension holds coordinates in the first dimensions of X. */
weft_status infer_gather_nd(infer *i) {
    const shape *x = infer_in(i, 0), *index = infer_in(i, 1);
    if (!shape_known(x) || !shape_known(index) || !infer_out(i, 0)) return NULL;
    int64_t depth = index->ndim ? index->dims[index->ndim - 1] : 0;
    if (depth < 0) return NULL;
    if (depth > x->ndim || !index->ndim)
        return infer_error(i, "expected an Index of at most %d coordinates, found %lld", x->ndim, (long long)depth);
    shape out = {.dtype = x->dtype, .height = -1};
    for (int32_t d = 0; d + 1 < index->ndim; d++) TRY(shape_append(i, &out, index->dims[d]));
    for (int64_t d = depth; d < x->ndim; d++) TRY(shape_append(i, &out, x->dims[d]));
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_take_along_axis(infer *i) {
    shape_copy_dims(infer_out(i, 0), infer_in(i, 1), infer_in(i, 0)->dtype);
    return NULL;
}

/* How many elements hold is run time's, unless the caller knows them. */
static int64_t count_true(const infer *i, int s) {
    const shape *condition = infer_in(i, s);
    const int64_t *values = condition ? i->in_values[i->in_first[s]] : NULL;
    int64_t numel = values ? shape_numel(condition) : -1, count = 0;
    for (int64_t k = 0; k < numel; k++) count += values[k] != 0;
    return numel < 0 ? -1 : count;
}

weft_status infer_masked_select(infer *i) {
    shape_set(infer_out(i, 0), infer_in(i, 0)->dtype, 1, (const int64_t[]){count_true(i, 1)});
    return NULL;
}

weft_status infer_where_index(infer *i) {
    const shape *condition = infer_in(i, 0);
    if (!shape_known(condition)) return NULL;
    shape_set(infer_out(i, 0), WEFT_INT64, 2, (const int64_t[]){count_true(i, 0), condition->ndim});
    return NULL;
}

weft_status infer_one_hot_v2(infer *i) {
    const shape *x = infer_in(i, 0);
    numbers depth;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    TRY(infer_numbers(i, "depth_tensor", NULL, "depth", &depth));
    shape out = *x;
    out.dtype = (int32_t)attr_int(i->op, "dtype", WEFT_FP32);
    TRY(shape_append(i, &out, depth.known && depth.count == 1 && depth.values[0] > 0 ? depth.values[0] : -1));
    *infer_out(i, 0) = out;
    return NULL;
}

/* As many rows as X has, or as many as are asked for. */
weft_status infer_graph_send_recv(infer *i) {
    const shape *x = infer_in(i, 0);
    numbers size;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    TRY(infer_numbers(i, "Out_size", NULL, "out_size", &size));
    int64_t rows = size.count == 1 ? size.values[0] : 0;
    if (infer_has(i, "Out_size") && !size.known) rows = -1;
    shape out = *x;
    if (out.ndim && rows) out.dims[0] = rows < 0 ? -1 : rows;
    *infer_out(i, 0) = out;
    if (infer_out(i, 1)) shape_set(infer_out(i, 1), WEFT_INT32, out.ndim ? 1 : 0, out.dims);
    return NULL;
}

/* Messages of two rows: what stands in them broadcasts. */
static weft_status message(infer *i, shape *out) {
    shape x = *infer_in(i, 0), y = *infer_in(i, 1);
    if (x.ndim < 1 || y.ndim < 1) return infer_error(i, "expected rows");
    shape *both[] = {&x, &y};
    for (int k = 0; k < 2; k++) {
        both[k]->ndim--;
        memmove(both[k]->dims, both[k]->dims + 1, (size_t)both[k]->ndim * sizeof *both[k]->dims);
    }
    return shape_broadcast(i, &x, &y, -1, out);
}

static void set_rows(infer *i, const shape *row, int64_t rows) {
    shape out = *row;
    out.dims[0] = rows;
    out.ndim = row->ndim + 1;
    memcpy(out.dims + 1, row->dims, (size_t)row->ndim * sizeof *row->dims);
    *infer_out(i, 0) = out;
}

weft_status infer_graph_send_ue_recv(infer *i) {
    const shape *x = infer_in(i, 0);
    numbers size;
    shape row;
    if (!shape_known(x) || !shape_known(infer_in(i, 1)) || !infer_out(i, 0)) return NULL;
    TRY(infer_numbers(i, "Out_size", NULL, "out_size", &size));
    int64_t rows = size.count == 1 ? size.values[0] : 0;
    if (infer_has(i, "Out_size") && !size.known) rows = -1;
    TRY(message(i, &row));
    if (row.ndim == WEFT_MAX_RANK) return infer_error(i, "too many dimensions");
    set_rows(i, &row, rows < 0 ? -1 : rows ? rows : x->dims[0]);
    shape_set(infer_out(i, 1), WEFT_INT32, 1, infer_out(i, 0)->dims);
    return NULL;
}

weft_status infer_graph_send_uv(infer *i) {
    const shape *from = infer_in(i, 2);
    shape row;
    if (!shape_known(infer_in(i, 0)) || !shape_known(infer_in(i, 1)) || !infer_out(i, 0)) return NULL;
    TRY(message(i, &row));
    if (row.ndim == WEFT_MAX_RANK) return infer_error(i, "too many dimensions");
    set_rows(i, &row, shape_numel(from));
    return NULL;
}
