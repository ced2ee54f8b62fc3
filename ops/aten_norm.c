/* aten_norm.c: types of ATen's normalisations, and of dropout. */
#include "ops/infer.h"

/* How many dimensions come before those that are normalised. */
static weft_status read_normalized(infer *i, const shape *x, int32_t *out_before) {
    size_t count;
    const int64_t *extents = attr_ints(i->op, "normalized_shape", &count);
    bool fits = count > 0 && count <= (size_t)x->ndim;
    *out_before = fits ? x->ndim - (int32_t)count : 0;
    for (size_t k = 0; fits && k < count; k++) fits = extent_fits(extents[k], x->dims[*out_before + (int32_t)k]);
    shape_text tx;
    return fits ? NULL
                : infer_error(i, "normalized_shape: expected the last extents of the input %s", shape_print(x, &tx));
}

/* Statistics keep the rank. They are of the input's type, or of float32 where the weight is, which is declared. */
weft_status infer_aten_native_layer_norm(infer *i) {
    const shape *x = infer_in(i, 0);
    int32_t before = 0;
    if (!shape_known(x)) return NULL;
    TRY(read_normalized(i, x, &before));
    if (infer_out(i, 0)) *infer_out(i, 0) = *x;
    for (int o = 1; o < 3; o++) {
        shape *out = infer_out(i, o);
        if (!out) continue;
        shape_copy_dims(out, x, out->dtype == WEFT_FP32 ? WEFT_FP32 : x->dtype);
        for (int32_t d = before; d < x->ndim; d++) out->dims[d] = 1;
    }
    return NULL;
}

weft_status infer_aten_native_layer_norm_backward(infer *i) {
    const shape *x = infer_in(i, 0), *weight = infer_in(i, 1);
    int32_t before = 0;
    if (!shape_known(x)) return NULL;
    TRY(read_normalized(i, x, &before));
    if (infer_out(i, 0)) *infer_out(i, 0) = *x;
    for (int o = 1; o < 3; o++)
        shape_set(infer_out(i, o), shape_known(weight) ? weight->dtype : x->dtype, (size_t)(x->ndim - before),
                  x->dims + before);
    return NULL;
}

/* What is kept without training is declared: nothing on a CPU. */
weft_status infer_aten_batch_norm(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    if (x->ndim < 2) return infer_error(i, "expected input of 2 dimensions or more, found %d", x->ndim);
    for (int s = 1; s < 5; s++) {
        const shape *t = infer_in(i, s);
        if (shape_known(t) && (t->ndim != 1 || !extent_fits(t->dims[0], x->dims[1])))
            return infer_error(i, "expected %s of %lld channels", i->schema->inputs[s].name, (long long)x->dims[1]);
    }
    if (infer_out(i, 0)) *infer_out(i, 0) = *x;
    int32_t kept = x->dtype == WEFT_FP64 ? WEFT_FP64 : WEFT_FP32;
    for (int o = 1; o < 5; o++) {
        bool is_running = o < 3;
        if (is_running && infer_out(i, o) && infer_in(i, o + 2)) *infer_out(i, o) = *infer_in(i, o + 2);
        if (!is_running && attr_bool(i->op, "training", false) && infer_out(i, o))
            shape_set(infer_out(i, o), infer_out(i, o)->dtype == x->dtype ? x->dtype : kept, 1, &x->dims[1]);
    }
    return NULL;
}

weft_status infer_aten_batch_norm_backward(infer *i) {
    const shape *x = infer_in(i, 1), *weight = infer_in(i, 2);
    if (!shape_known(x) || x->ndim < 2) return NULL;
    if (infer_out(i, 0)) *infer_out(i, 0) = *x;
    for (int o = 1; o < 3; o++)
        shape_set(infer_out(i, o), shape_known(weight) ? weight->dtype : x->dtype, 1, &x->dims[1]);
    return NULL;
}

weft_status infer_aten_native_group_norm(infer *i) {
    const shape *x = infer_in(i, 0);
    int64_t groups = attr_int(i->op, "groups", 1);
    if (!shape_known(x)) return NULL;
    if (x->ndim < 2) return infer_error(i, "expected input of 2 dimensions or more, found %d", x->ndim);
    if (groups < 1 || (x->dims[1] >= 0 && x->dims[1] % groups))
        return infer_error(i, "groups: expected a divisor of %lld channels, found %lld", (long long)x->dims[1],
                           (long long)groups);
    if (infer_out(i, 0)) *infer_out(i, 0) = *x;
    for (int o = 1; o < 3; o++)
        shape_set(infer_out(i, o), infer_out(i, o) && infer_out(i, o)->dtype == WEFT_FP32 ? WEFT_FP32 : x->dtype, 2,
                  (const int64_t[]){x->dims[0], groups});
    return NULL;
}

weft_status infer_aten_native_group_norm_backward(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x) || x->ndim < 2) return NULL;
    if (infer_out(i, 0)) *infer_out(i, 0) = *x;
    for (int o = 1; o < 3; o++) shape_set(infer_out(i, o), x->dtype, 1, &x->dims[1]);
    return NULL;
}

weft_status infer_aten_native_dropout(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    if (infer_out(i, 0)) *infer_out(i, 0) = *x;
    shape_copy_dims(infer_out(i, 1), x, WEFT_BOOL);
    return NULL;
}
