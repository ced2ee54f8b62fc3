/* sequence.c: types of chains of labels and of alignments. */
#include "ops/infer.h"

static weft_status three(const infer *i, const shape *x, const char *what) {
    return x->ndim == 3 ? NULL : infer_error(i, "%s: expected 3 dimensions, found %d", what, x->ndim);
}

/* LogLikelihood, Alpha, EmissionExps, TransitionExps. */
weft_status infer_linear_chain_crf(infer *i) {
    const shape *x = infer_in(i, 0), *w = infer_in(i, 1);
    if (!shape_known(x) || !shape_known(w)) return NULL;
    TRY(three(i, x, "Emission"));
    if (infer_out(i, 0)) shape_set(infer_out(i, 0), x->dtype, 2, (int64_t[]){x->dims[0], 1});
    for (int o = 1; o < 4; o++)
        if (infer_out(i, o)) *infer_out(i, o) = o < 3 ? *x : *w;
    return NULL;
}

weft_status infer_crf_decoding(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    TRY(three(i, x, "Emission"));
    shape_set(infer_out(i, 0), WEFT_INT64, 2, x->dims);
    return NULL;
}

weft_status infer_warpctc(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    TRY(three(i, x, "Logits"));
    if (infer_out(i, 0)) shape_set(infer_out(i, 0), x->dtype, 2, (int64_t[]){x->dims[1], 1});
    if (infer_out(i, 1)) *infer_out(i, 1) = *x;
    return NULL;
}

weft_status infer_warprnnt(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    if (x->ndim != 4) return infer_error(i, "expected input of 4 dimensions, found %d", x->ndim);
    if (infer_out(i, 0)) shape_set(infer_out(i, 0), x->dtype, 1, x->dims);
    if (infer_out(i, 1)) *infer_out(i, 1) = *x;
    return NULL;
}

/* A last dimension of maxlen, or as long as the longest. */
weft_status infer_sequence_mask(infer *i) {
    const shape *x = infer_in(i, 0);
    numbers longest;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    TRY(infer_numbers(i, "MaxLenTensor", NULL, NULL, &longest));
    int64_t length = attr_int(i->op, "maxlen", -1);
    if (infer_has(i, "MaxLenTensor")) length = longest.known && longest.count == 1 ? longest.values[0] : -1;
    if (length < 0 && !infer_has(i, "MaxLenTensor") && i->in_values[0])
        for (int64_t k = 0; k < shape_numel(x); k++)
            if (i->in_values[0][k] > length) length = i->in_values[0][k];
    shape out = *x;
    out.dtype = (int32_t)attr_int(i->op, "out_dtype", WEFT_INT64);
    TRY(shape_append(i, &out, length));
    *infer_out(i, 0) = out;
    return NULL;
}

/* Cost, SampleLogits, SampleLabels: the true classes of a row, then those that are drawn. */
weft_status infer_nce(infer *i) {
    const shape *x = infer_in(i, 0), *label = infer_in(i, 1);
    if (!shape_known(x) || !shape_known(label)) return NULL;
    if (x->ndim != 2 || label->ndim < 1) return infer_error(i, "expected Input of 2 dimensions, and a Label");
    int64_t ntrue = label->ndim == 2 ? label->dims[1] : 1;
    int64_t all[] = {x->dims[0], extent_add(ntrue, attr_int(i->op, "num_neg_samples", 10))};
    if (infer_out(i, 0)) shape_set(infer_out(i, 0), x->dtype, 2, (int64_t[]){x->dims[0], 1});
    if (infer_out(i, 1)) shape_set(infer_out(i, 1), x->dtype, 2, all);
    if (infer_out(i, 2)) shape_set(infer_out(i, 2), WEFT_INT64, 2, all);
    return NULL;
}
