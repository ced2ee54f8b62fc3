/* amp.c: types of mixed-precision helpers. */
#include "ops/infer.h"

weft_status infer_check_finite_and_unscale(infer *i) {
    if (infer_nout(i, 0) > infer_nin(i, 0))
        return infer_error(i, "expected as many arguments in Out as in X, found %zu and %zu", infer_nout(i, 0),
                           infer_nin(i, 0));
    for (size_t k = 0; k < infer_nout(i, 0); k++) i->out[k] = i->in[k];
    shape_set(infer_out(i, 1), WEFT_BOOL, 1, (const int64_t[]){1});
    return NULL;
}
