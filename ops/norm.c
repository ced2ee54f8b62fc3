/* norm.c: types of normalisations. */
#include "ops/infer.h"

/* Statistics have one element a channel, of the dtype of the running mean. ReserveSpace is a GPU library's: empty here.
 */
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
    int reserve = schema_output(i->schema, "ReserveSpace");
    for (int o = 1; o < reserve; o++) shape_set(infer_out(i, o), running->dtype, 1, &channels);
    if (infer_out(i, reserve)) /* its type differs between versions: the declared one holds */
        shape_set(infer_out(i, reserve), infer_out(i, reserve)->dtype, 1, (const int64_t[]){0});
    return NULL;
}

/* Statistics of half precision are kept in single. */
static int32_t statistics_dtype(const shape *x) {
    return x->dtype == WEFT_FP16 || x->dtype == WEFT_BF16 ? WEFT_FP32 : x->dtype;
}

weft_status infer_layer_norm(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    int64_t begin = attr_int(i->op, "begin_norm_axis", 1);
    if (begin < 1 || begin > x->ndim)
        return infer_error(i, "begin_norm_axis: expected a dimension of X after the first, found %lld of %d",
                           (long long)begin, x->ndim);
    if (infer_out(i, 0)) *infer_out(i, 0) = *x;
    for (int o = 1; o < 3; o++) shape_set(infer_out(i, o), statistics_dtype(x), (size_t)begin, x->dims);
    return NULL;
}

weft_status infer_group_norm(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    int64_t groups = attr_int(i->op, "groups", 1);
    if (x->ndim < 2) return infer_error(i, "expected X of 2 dimensions or more, found %d", x->ndim);
    bool last = strcmp(attr_string(i->op, "data_layout", "NCHW"), "NHWC") == 0;
    int64_t channels = x->dims[last ? x->ndim - 1 : 1];
    if (groups < 1 || (channels >= 0 && channels % groups))
        return infer_error(i, "groups: expected a divisor of %lld channels, found %lld", (long long)channels,
                           (long long)groups);
    if (infer_out(i, 0)) *infer_out(i, 0) = *x;
    for (int o = 1; o < 3; o++)
        shape_set(infer_out(i, o), statistics_dtype(x), 2, (const int64_t[]){x->dims[0], groups});
    return NULL;
}

weft_status infer_instance_norm(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    if (x->ndim < 2) return infer_error(i, "expected X of 2 dimensions or more, found %d", x->ndim);
    if (infer_out(i, 0)) *infer_out(i, 0) = *x;
    for (int o = 1; o < 3; o++)
        shape_set(infer_out(i, o), statistics_dtype(x), 1, (const int64_t[]){extent_mul(x->dims[0], x->dims[1])});
    return NULL;
}

weft_status infer_norm(infer *i) {
    const shape *x = infer_in(i, 0);
    int32_t axis;
    if (!shape_known(x)) return NULL;
    TRY(infer_axis(i, "axis", attr_int(i->op, "axis", 1), x->ndim, &axis));
    if (infer_out(i, 0)) *infer_out(i, 0) = *x;
    if (infer_out(i, 1)) {
        *infer_out(i, 1) = *x;
        infer_out(i, 1)->dims[axis] = 1;
    }
    return NULL;
}

/* Gradients of Scale and Bias have one element a channel, whether the op sees them or not. */
weft_status infer_instance_norm_grad(infer *i) {
    const shape *x = infer_in(i, 0), *saved = infer_in(i, schema_input(i->schema, "SavedMean"));
    TRY(infer_grad(i));
    if (!shape_known(x)) return NULL;
    if (x->ndim < 2) return infer_error(i, "expected X of 2 dimensions or more, found %d", x->ndim);
    for (int o = 1; o < 3; o++)
        if (infer_out(i, o) && infer_out(i, o)->ndim < 0) shape_set(infer_out(i, o), saved->dtype, 1, &x->dims[1]);
    return NULL;
}

/* Bias is as long as Scale. */
weft_status infer_affine_channel_grad(infer *i) {
    const shape *scale = infer_in(i, 1);
    if (infer_out(i, 0)) *infer_out(i, 0) = *infer_in(i, 0);
    for (int o = 1; o <= 2; o++)
        if (infer_out(i, o)) *infer_out(i, o) = *scale;
    return NULL;
}

/* DX, DScale, DDY of batch_norm. */
weft_status infer_second_norm(infer *i) {
    static const int like[] = {0, 1, 0};
    for (int o = 0; o < 3; o++)
        if (infer_out(i, o) && infer_nin(i, like[o])) *infer_out(i, o) = *infer_in(i, like[o]);
    return NULL;
}
