/* fill.c: types of constants and random numbers: a shape and a dtype from attrs. */
#include "ops/infer.h"

static weft_status shape_from_attr(infer *i, shape *out) {
    size_t count;
    const int64_t *dims = attr_ints(i->op, "shape", &count);
    for (size_t d = 0; d < count; d++) TRY(shape_append(i, out, dims[d] < 0 ? -1 : dims[d]));
    return NULL;
}

/* ShapeTensor and ShapeTensorList take the place of attr `shape` at run time. */
weft_status infer_fill_constant(infer *i) {
    int whole = schema_input(i->schema, "ShapeTensor"), list = schema_input(i->schema, "ShapeTensorList");
    if (!infer_out(i, 0) || (whole >= 0 && infer_in(i, whole)) || (list >= 0 && infer_nin(i, list))) return NULL;
    shape out = {.dtype = (int32_t)attr_int(i->op, "dtype", WEFT_FP32), .height = -1};
    TRY(shape_from_attr(i, &out));
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_fill_any_like(infer *i) {
    int64_t dtype = attr_int(i->op, "dtype", -1);
    shape_copy_dims(infer_out(i, 0), infer_in(i, 0), dtype < 0 ? infer_in(i, 0)->dtype : (int32_t)dtype);
    return NULL;
}
