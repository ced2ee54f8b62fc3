/* norm.c: types of normalisations. */
#include "ops/infer.h"

/* Statistics have one element a channel, of the dtype of the running mean. ReserveSpace is the device's own. */
weft_status infer_batch_norm(infer *i) {
    const shape *x = infer_in(i, 0);
    int mean = schema_input(i->schema, "Mean");
    if (!shape_known(x)) return NULL;
    if (infer_out(i, 0)) *infer_out(i, 0) = *x;
    if (x->ndim < 2) return infer_error(i, "expected X of 2 dimensions or more, found %d", x->ndim);
    bool last = strcmp(attr_string(i->op, "data_layout", "NCHW"), "NHWC") == 0;
    int64_t channels = x->dims[last ? x->ndim - 1 : 1];
    const shape *running = infer_in(i, mean);
    if (shape_known(running) && (running->ndim != 1 || !extent_fits(running->dims[0], channels)))
        return infer_error(i, "expected a Mean of %lld channels, found %lld", (long long)channels,
                           (long long)shape_numel(running));
    for (int o = 1; o < schema_output(i->schema, "ReserveSpace"); o++)
        shape_set(infer_out(i, o), running->dtype, 1, &channels);
    return NULL;
}

weft_status infer_layer_norm(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    int64_t begin = attr_int(i->op, "begin_norm_axis", 1);
    if (begin < 1 || begin > x->ndim)
        return infer_error(i, "begin_norm_axis: expected a dimension of X after the first, found %lld of %d",
                           (long long)begin, x->ndim);
    if (infer_out(i, 0)) *infer_out(i, 0) = *x;
    bool half = x->dtype == WEFT_FP16 || x->dtype == WEFT_BF16; /* statistics of half precision are in single */
    for (int o = 1; o < 3; o++) shape_set(infer_out(i, o), half ? WEFT_FP32 : x->dtype, (size_t)begin, x->dims);
    return NULL;
}
