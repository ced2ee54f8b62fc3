/* activation.c: types of dropout and swiglu; the other functions of one element are `same`. */
#include "ops/infer.h"

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
