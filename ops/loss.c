/* loss.c: types of losses. */
#include "ops/infer.h"

weft_status infer_softmax_with_cross_entropy(infer *i) {
    const shape *logits = infer_in(i, 0);
    int32_t axis;
    if (!shape_known(logits)) return NULL;
    TRY(infer_axis(i, "axis", attr_int(i->op, "axis", -1), logits->ndim, &axis));
    if (infer_out(i, 0)) *infer_out(i, 0) = *logits;
    if (infer_out(i, 1)) {
        *infer_out(i, 1) = *logits;
        infer_out(i, 1)->dims[axis] = 1;
    }
    return NULL;
}
