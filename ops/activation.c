/* activation.c: types of dropout; the other functions of one element are `same`. */
#include "ops/infer.h"

weft_status infer_dropout(infer *i) {
    if (infer_out(i, 0)) *infer_out(i, 0) = *infer_in(i, 0);
    shape_copy_dims(infer_out(i, 1), infer_in(i, 0), WEFT_UINT8);
    return NULL;
}
