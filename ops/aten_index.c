/* aten_index.c: types of gather, scatter, index and index_put (torch: aten/src/ATen/native/TensorAdvancedIndexing.cpp).
 */
#include "ops/aten_index.h"
#include "ops/infer.h"

static const char *broadcast_indices(const shape *indices, size_t count, shape *out) {
    *out = (shape){.dtype = WEFT_INT64, .height = -1};
    for (size_t k = 0; k < count; k++)
        if (indices[k].ndim > out->ndim) out->ndim = indices[k].ndim;
    for (int32_t d = 0; d < out->ndim; d++) {
        out->dims[d] = 1;
        for (size_t k = 0; k < count; k++) {
            int32_t at = d - (out->ndim - indices[k].ndim);
            int64_t extent = at < 0 ? 1 : indices[k].dims[at];
            if (extent != 1 && out->dims[d] != 1 && !extent_fits(extent, out->dims[d]))
                return "expected indices that broadcast to one another";
            if (extent != 1) out->dims[d] = extent;
        }
    }
    return NULL;
}

const char *op_indexing(const weft_op *op, const shape *self, const shape *indices, size_t count, indexing *out) {
    size_t ndims;
    const int64_t *dims = attr_ints(op, "dims", &ndims);
    bool indexed[WEFT_MAX_RANK] = {false}, together = true;
    if (ndims != count || !count || count > WEFT_MAX_RANK) return "dims: expected a dimension for each index";
    for (size_t k = 0; k < count; k++) {
        if (dims[k] < 0 || dims[k] >= self->ndim || indexed[dims[k]] || (k && dims[k] < dims[k - 1]))
            return "dims: expected dimensions of self in order";
        together = together && (!k || dims[k] == dims[k - 1] + 1);
        indexed[dims[k]] = true;
        out->dims[k] = (int32_t)dims[k];
    }
    const char *wrong = broadcast_indices(indices, count, &out->common);
    if (wrong) return wrong;
    int64_t first = together ? dims[0] : 0;
    if (self->ndim - (int32_t)count + out->common.ndim > WEFT_MAX_RANK) return "expected fewer dimensions";
    out->result = (shape){.dtype = self->dtype, .height = -1};
    for (int32_t d = 0, kept = 0; d <= self->ndim; d++) {
        for (int32_t b = 0; kept == first && b < out->common.ndim && out->result.ndim == kept + b; b++) {
            out->from[out->result.ndim] = -1 - b;
            out->result.dims[out->result.ndim++] = out->common.dims[b];
        }
        if (d == self->ndim || indexed[d]) continue;
        out->from[out->result.ndim] = d;
        out->result.dims[out->result.ndim++] = self->dims[d];
        kept++;
    }
    return NULL;
}

weft_status infer_aten_index(infer *i) {
    const shape *x = infer_in(i, 0);
    indexing ix;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    for (size_t k = 0; k < infer_nin(i, 1); k++)
        if (!shape_known(&i->in[i->in_first[1] + k]) || i->in[i->in_first[1] + k].dtype == WEFT_BOOL) return NULL;
    const char *wrong = op_indexing(i->op, x, &i->in[i->in_first[1]], infer_nin(i, 1), &ix);
    if (wrong) return infer_error(i, "%s", wrong);
    *infer_out(i, 0) = ix.result;
    return NULL;
}

/* Of self, written in place or not. */
weft_status infer_aten_like_self(infer *i) {
    const shape *x = infer_in(i, 0);
    for (size_t o = 0; o < i->schema->noutputs; o++)
        if (shape_known(x) && infer_out(i, (int)o)) *infer_out(i, (int)o) = *x;
    return NULL;
}

weft_status infer_aten_gather(infer *i) {
    const shape *x = infer_in(i, 0), *index = infer_in(i, 1);
    int32_t dim;
    if (!shape_known(x) || !shape_known(index) || !infer_out(i, 0)) return NULL;
    TRY(infer_axis(i, "dim", attr_int(i->op, "dim", 0), x->ndim ? x->ndim : 1, &dim));
    if (x->ndim && index->ndim != x->ndim)
        return infer_error(i, "expected an index of %d dimensions, found %d", x->ndim, index->ndim);
    shape_copy_dims(infer_out(i, 0), index, x->dtype);
    return NULL;
}
