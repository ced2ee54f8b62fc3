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

weft_status infer_cross_entropy(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    if (!x->ndim) return infer_error(i, "expected X of one dimension or more, found []");
    *infer_out(i, 0) = *x;
    infer_out(i, 0)->dims[x->ndim - 1] = 1;
    return NULL;
}

/* XShape has its 0 at the end here. */
weft_status infer_cross_entropy2(infer *i) {
    const shape *x = infer_in(i, 0);
    TRY(infer_cross_entropy(i));
    if (!shape_known(x)) return NULL;
    if (infer_out(i, 0) && infer_out(i, 1)) *infer_out(i, 1) = *infer_out(i, 0);
    if (!infer_out(i, 2) || x->ndim == WEFT_MAX_RANK) return NULL;
    *infer_out(i, 2) = *x;
    return shape_append(i, infer_out(i, 2), 0);
}

weft_status infer_cross_entropy_grad2(infer *i) {
    const shape *xshape = infer_in(i, schema_input(i->schema, "XShape"));
    const shape *gradient = infer_in(i, schema_input(i->schema, "Y@GRAD"));
    if (shape_known(xshape) && xshape->ndim)
        shape_set(infer_out(i, 0), gradient->dtype, (size_t)xshape->ndim - 1, xshape->dims);
    return NULL;
}

weft_status infer_huber_loss(infer *i) {
    for (int o = 0; o < 2; o++)
        if (infer_out(i, o)) *infer_out(i, o) = *infer_in(i, 0);
    return NULL;
}

static bool is_reduced(const infer *i) {
    return strcmp(attr_string(i->op, "reduction", "mean"), "none") != 0;
}

weft_status infer_kldiv_loss(infer *i) {
    if (is_reduced(i))
        shape_set(infer_out(i, 0), infer_in(i, 0)->dtype, 0, NULL);
    else if (infer_out(i, 0))
        *infer_out(i, 0) = *infer_in(i, 0);
    return NULL;
}

weft_status infer_nll_loss(infer *i) {
    const shape *x = infer_in(i, 0), *label = infer_in(i, 1);
    if (is_reduced(i))
        shape_set(infer_out(i, 0), x->dtype, 0, NULL);
    else
        shape_copy_dims(infer_out(i, 0), label, x->dtype);
    shape_set(infer_out(i, 1), x->dtype, 0, NULL);
    return NULL;
}

weft_status infer_identity_loss(infer *i) {
    enum { COPY = 2 };
    const shape *x = infer_in(i, 0);
    if (attr_int(i->op, "reduction", 1) != COPY)
        shape_set(infer_out(i, 0), x->dtype, 0, NULL);
    else if (infer_out(i, 0))
        *infer_out(i, 0) = *x;
    return NULL;
}
