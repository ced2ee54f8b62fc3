/* aten_attention.c: types of scaled dot-product attention. */
#include "ops/infer.h"

static weft_status check(const infer *i, const shape *q, const shape *k, const shape *v) {
    shape_text tq, tk, tv;
    if (q->ndim == 4 && k->ndim == 4 && v->ndim == 4 && extent_fits(q->dims[0], k->dims[0]) &&
        extent_fits(k->dims[0], v->dims[0]) && extent_fits(k->dims[1], v->dims[1]) &&
        extent_fits(k->dims[2], v->dims[2]) && extent_fits(q->dims[3], k->dims[3]))
        return NULL;
    return infer_error(i, "expected query, key and value of [batch, heads, length, width], found %s, %s and %s",
                       shape_print(q, &tq), shape_print(k, &tk), shape_print(v, &tv));
}

weft_status infer_aten_attention(infer *i) {
    const shape *q = infer_in(i, 0), *k = infer_in(i, 1), *v = infer_in(i, 2);
    if (!shape_known(q) || !shape_known(k) || !shape_known(v)) return NULL;
    TRY(check(i, q, k, v));
    shape_set(infer_out(i, 0), q->dtype, 4, (int64_t[]){q->dims[0], q->dims[1], q->dims[2], v->dims[3]});
    shape_set(infer_out(i, 1), q->dtype == WEFT_FP64 ? WEFT_FP64 : WEFT_FP32, 3, q->dims);
    return NULL;
}

weft_status infer_aten_attention_backward(infer *i) {
    const shape *q = infer_in(i, 1), *k = infer_in(i, 2), *v = infer_in(i, 3);
    if (!shape_known(q) || !shape_known(k) || !shape_known(v)) return NULL;
    TRY(check(i, q, k, v));
    for (int o = 0; o < 3; o++)
        if (infer_out(i, o)) *infer_out(i, o) = *infer_in(i, o + 1);
    return NULL;
}
