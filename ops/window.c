/* window.c: what convolution and pooling share: how many windows fit (paddle/phi/kernels/funcs/pooling.h,
 * ConvOutputSize). */
#include "ops/window.h"

enum { MAX_EXTENT = INT32_MAX }; /* as Paddle's: sums of a few such numbers do not overflow */

weft_status window_attr(const infer *i, const char *attr, size_t count, int64_t least, const int64_t **out) {
    size_t found;
    const int64_t *values = attr_ints(i->op, attr, &found);
    if (found != count) return infer_error(i, "%s: expected %zu numbers, found %zu", attr, count, found);
    for (size_t k = 0; k < count; k++)
        if (values[k] < least || values[k] > MAX_EXTENT)
            return infer_error(i, "%s: expected numbers from %lld on, found %lld", attr, (long long)least,
                               (long long)values[k]);
    *out = values;
    return NULL;
}

static weft_status read_paddings(const infer *i, window *w) {
    size_t count;
    const int64_t *paddings;
    attr_ints(i->op, "paddings", &count);
    TRY(window_attr(i, "paddings", count == 4 ? 4 : 2, 0, &paddings));
    bool valid = strcmp(attr_string(i->op, "padding_algorithm", "EXPLICIT"), "VALID") == 0;
    for (int d = 0; d < 2; d++) {
        w->before[d] = valid ? 0 : paddings[count == 4 ? 2 * d : d];
        w->after[d] = valid ? 0 : paddings[count == 4 ? 2 * d + 1 : d];
    }
    return NULL;
}

weft_status window_read(const infer *i, const shape *x, window *out) {
    const int64_t *strides;
    shape_text tx;
    if (x->ndim != 4) return infer_error(i, "expected 4 dimensions, found %s", shape_print(x, &tx));
    bool last = strcmp(attr_string(i->op, "data_format", "NCHW"), "NHWC") == 0;
    out->first = last ? 1 : 2;
    out->channel = last ? 3 : 1;
    out->same = strcmp(attr_string(i->op, "padding_algorithm", "EXPLICIT"), "SAME") == 0;
    TRY(read_paddings(i, out));
    TRY(window_attr(i, "strides", 2, 1, &strides));
    for (int d = 0; d < 2; d++) {
        out->stride[d] = strides[d];
        out->extent[d] = x->dims[out->first + d];
        if (out->extent[d] > MAX_EXTENT)
            return infer_error(i, "expected extents of at most %d, found %s", MAX_EXTENT, shape_print(x, &tx));
    }
    return NULL;
}

weft_status window_count(const infer *i, const window *w, int d, int64_t size, bool ceil_mode, int64_t *out) {
    *out = -1;
    if (w->extent[d] < 0 || size < 0) return NULL;
    if (w->same) { /* padded so that each stride begins a window */
        *out = (w->extent[d] + w->stride[d] - 1) / w->stride[d];
        return NULL;
    }
    int64_t room = w->extent[d] + w->before[d] + w->after[d];
    if (size > room)
        return infer_error(i, "expected windows of at most %lld elements in spatial dimension %d, found %lld",
                           (long long)room, d, (long long)size);
    *out = (room - size + (ceil_mode ? w->stride[d] - 1 : 0)) / w->stride[d] + 1;
    return NULL;
}

int64_t window_transposed_same(int64_t extent, int64_t stride, int64_t size) {
    int64_t padding = ((extent + stride - 1) / stride - 1) * stride + size - extent;
    return (extent - 1) * stride + size - (padding > 0 ? padding : 0);
}
