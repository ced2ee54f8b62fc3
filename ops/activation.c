/* activation.c: types of dropout, swiglu and functions that are floats of integers; the others of one element are
 * `same`. */
#include "ops/infer.h"

/* What integers become is fp32. */
weft_status infer_float_same(infer *i) {
    TRY(infer_same(i));
    shape *out = infer_out(i, 0);
    if (out && (out->dtype == WEFT_INT32 || out->dtype == WEFT_INT64)) out->dtype = WEFT_FP32;
    return NULL;
}

weft_status infer_dropout(infer *i) {
    if (infer_out(i, 0)) *infer_out(i, 0) = *infer_in(i, 0);
    shape_copy_dims(infer_out(i, 1), infer_in(i, 0), WEFT_UINT8);
    return NULL;
}

/* Without y, x holds both halves. */
weft_status infer_swiglu(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    shape out = *x;
    if (!infer_in(i, 1)) {
        shape_text tx;
        if (!x->ndim || (x->dims[x->ndim - 1] >= 0 && x->dims[x->ndim - 1] % 2))
            return infer_error(i, "expected an even last extent, found x %s", shape_print(x, &tx));
        if (out.dims[out.ndim - 1] > 0) out.dims[out.ndim - 1] /= 2;
    }
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_softmax_mask_grad(infer *i) {
    if (infer_out(i, 0)) *infer_out(i, 0) = *infer_in(i, 0);
    return NULL;
}
