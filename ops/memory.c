/* memory.c: types of coalesce_tensor: views of one buffer, one after another, each start aligned
 * (paddle/phi/kernels/coalesce_tensor_kernel.cc). */
#include "ops/infer.h"

enum { CPU_ALIGNMENT = 4096 }; /* what Paddle's CPU kernel takes where align_size does not say */

/* The extents that attrs concated_ranks and concated_shapes give argument k, whose input may have none yet. */
typedef struct recorded {
    const int64_t *ranks, *dims;
    size_t nranks, ndims, at;
} recorded;

static weft_status next_recorded(const infer *i, recorded *r, size_t k, shape *out) {
    if (!r->nranks) return NULL;
    if (k >= r->nranks || r->ranks[k] < 0 || r->ranks[k] > WEFT_MAX_RANK || r->at + (size_t)r->ranks[k] > r->ndims)
        return infer_error(i,
                           "concated_ranks, concated_shapes: expected extents of %zu inputs, found %zu ranks and %zu "
                           "extents",
                           infer_nin(i, 0), r->nranks, r->ndims);
    if (out->ndim < 0) shape_set(out, out->dtype, (size_t)r->ranks[k], r->dims + r->at);
    r->at += (size_t)r->ranks[k];
    return NULL;
}

int64_t coalesce_alignment(const weft_op *op) {
    int64_t given = attr_int(op, "align_size", -1), size = attr_int(op, "user_defined_size_of_dtype", -1);
    if (size < 0) size = (int64_t)weft_dtype_nbytes((weft_dtype)attr_int(op, "dtype", WEFT_FP32));
    return !attr_bool(op, "use_align", true) ? size : given > 0 ? given : CPU_ALIGNMENT;
}

/* Elements that `numel` elements take up, padding included. */
static int64_t padded(int64_t numel, int64_t size, int64_t alignment) {
    int64_t nbytes = extent_mul(numel, size), room;
    if (nbytes < 0 || __builtin_add_overflow(nbytes, alignment - 1, &room)) return -1;
    return room / alignment * alignment / size;
}

weft_status infer_coalesce_tensor(infer *i) {
    int32_t dtype = (int32_t)attr_int(i->op, "dtype", WEFT_FP32);
    int64_t size = attr_int(i->op, "user_defined_size_of_dtype", -1), total = 0;
    if (size < 0) size = (int64_t)weft_dtype_nbytes((weft_dtype)dtype);
    if (size < 1) return infer_error(i, "dtype: expected a tensor's element type, found %d", dtype);
    if (infer_nout(i, 0) != infer_nin(i, 0))
        return infer_error(i, "expected as many outputs as inputs, found %zu and %zu", infer_nout(i, 0),
                           infer_nin(i, 0));
    recorded r = {0};
    r.ranks = attr_ints(i->op, "concated_ranks", &r.nranks);
    r.dims = attr_ints(i->op, "concated_shapes", &r.ndims);
    for (size_t k = 0; k < infer_nin(i, 0); k++) {
        shape out = i->in[k];
        TRY(next_recorded(i, &r, k, &out));
        i->out[k] = out;
        total = extent_add(total, padded(shape_numel(&out), size, coalesce_alignment(i->op)));
    }
    shape_set(infer_out(i, 1), dtype, 1, &total);
    return NULL;
}
