/* volume.c: types of windows over any number of spatial dimensions: convolution and pooling of volumes, pooling that
 * tells where the largest elements are (paddle/phi/infermeta/binary.cc, unary.cc). */
#include "ops/window.h"

typedef struct windows {
    int n, first, channel; /* spatial dimensions, the first of them, and the channels */
    bool same;
    int64_t stride[WEFT_MAX_RANK], before[WEFT_MAX_RANK], after[WEFT_MAX_RANK];
} windows;

static weft_status numbers_of(const infer *i, const char *attr, size_t count, int64_t least, const int64_t **out) {
    size_t n;
    *out = attr_ints(i->op, attr, &n);
    if (n != count) return infer_error(i, "%s: expected %zu numbers, found %zu", attr, count, n);
    for (size_t k = 0; k < n; k++)
        if ((*out)[k] < least || (*out)[k] > INT32_MAX)
            return infer_error(i, "%s: expected numbers of %lld or more, found %lld", attr, (long long)least,
                               (long long)(*out)[k]);
    return NULL;
}

static weft_status read_windows(const infer *i, const shape *x, windows *w) {
    const char *format = attr_string(i->op, "data_format", "NCHW"), *way;
    size_t npaddings;
    const int64_t *strides, *paddings = attr_ints(i->op, "paddings", &npaddings);
    bool last = strcmp(format, "NHWC") == 0 || strcmp(format, "NDHWC") == 0;
    *w = (windows){.n = x->ndim - 2, .first = last ? 1 : 2, .channel = last ? x->ndim - 1 : 1};
    if (w->n < 1) return infer_error(i, "expected spatial dimensions, found %d dimensions", x->ndim);
    TRY(numbers_of(i, "strides", (size_t)w->n, 1, &strides));
    way = attr_string(i->op, "padding_algorithm", "EXPLICIT");
    w->same = strcmp(way, "SAME") == 0;
    bool both = npaddings == 2 * (size_t)w->n;
    if (!both && npaddings != (size_t)w->n)
        return infer_error(i, "paddings: expected %d or %d numbers, found %zu", w->n, 2 * w->n, npaddings);
    for (int d = 0; d < w->n; d++) {
        w->stride[d] = strides[d];
        if (strcmp(way, "VALID") == 0) continue;
        w->before[d] = both ? paddings[2 * d] : paddings[d];
        w->after[d] = both ? paddings[2 * d + 1] : paddings[d];
    }
    return NULL;
}

static weft_status count(const infer *i, const windows *w, int d, int64_t extent, int64_t size, bool up, int64_t *out) {
    *out = -1;
    if (extent < 0 || size < 0) return NULL;
    int64_t room = extent + w->before[d] + w->after[d] - size;
    if (w->same)
        *out = (extent + w->stride[d] - 1) / w->stride[d];
    else
        *out = room < 0 ? 0 : (room + (up ? w->stride[d] - 1 : 0)) / w->stride[d] + 1;
    return *out > 0 ? NULL : infer_error(i, "expected windows that fit in dimension %d", d);
}

/* What both have: windows, dilations, and a Filter whose `channels` dimension is Input's, divided by `groups`. */
static weft_status read_conv(const infer *i, windows *w, const int64_t **out_dilations, int channels, int64_t groups) {
    const shape *x = infer_in(i, 0), *filter = infer_in(i, 1);
    TRY(read_windows(i, x, w));
    TRY(numbers_of(i, "dilations", (size_t)w->n, 1, out_dilations));
    if (filter->ndim == x->ndim && groups >= 1 &&
        extent_fits(x->dims[w->channel], extent_mul(filter->dims[channels], channels ? groups : 1)))
        return NULL;
    return infer_error(i, "expected a Filter for Input's dimensions and channels");
}

weft_status infer_conv_volume(infer *i) {
    const shape *x = infer_in(i, 0), *filter = infer_in(i, 1);
    const int64_t *dilations;
    windows w;
    if (!shape_known(x) || !shape_known(filter) || !infer_out(i, 0)) return NULL;
    TRY(read_conv(i, &w, &dilations, 1, attr_int(i->op, "groups", 1)));
    shape out = *x;
    out.dims[w.channel] = filter->dims[0];
    for (int d = 0; d < w.n; d++) {
        int64_t size = extent_add(extent_mul(dilations[d], filter->dims[2 + d] - 1), 1);
        TRY(count(i, &w, d, x->dims[w.first + d], size, false, &out.dims[w.first + d]));
    }
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_conv_volume_transpose(infer *i) {
    const shape *x = infer_in(i, 0), *filter = infer_in(i, 1);
    const int64_t *dilations;
    windows w;
    if (!shape_known(x) || !shape_known(filter) || !infer_out(i, 0)) return NULL;
    int64_t groups = attr_int(i->op, "groups", 1);
    TRY(read_conv(i, &w, &dilations, 0, groups));
    size_t nextra, nsizes;
    const int64_t *extra = attr_ints(i->op, "output_padding", &nextra),
                  *sizes = attr_ints(i->op, "output_size", &nsizes);
    shape out = *x;
    out.dims[w.channel] = extent_mul(filter->dims[1], groups);
    for (int d = 0; d < w.n; d++) {
        int64_t dilation = w.same ? 1 : dilations[d], n = x->dims[w.first + d];
        int64_t size = extent_add(extent_mul(dilation, filter->dims[2 + d] - 1), 1), *to = &out.dims[w.first + d];
        if (n < 0 || size < 0) {
            *to = -1;
        } else {
            *to = w.same ? window_transposed_same(n, w.stride[d], size)
                         : (n - 1) * w.stride[d] - w.before[d] - w.after[d] + size;
            if (nsizes == (size_t)w.n) *to = sizes[d];
            if (!nsizes && nextra == (size_t)w.n) *to += extra[d];
            if (*to < 1) return infer_error(i, "expected paddings that leave dimension %d", d);
        }
    }
    *infer_out(i, 0) = out;
    return NULL;
}

/* Out, and Mask where the op has one. */
weft_status infer_pool_volume(infer *i) {
    const shape *x = infer_in(i, 0);
    const int64_t *sizes = NULL;
    windows w;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    TRY(read_windows(i, x, &w));
    bool global = attr_bool(i->op, "global_pooling", false), adaptive = attr_bool(i->op, "adaptive", false);
    if (!global) TRY(numbers_of(i, "ksize", (size_t)w.n, 1, &sizes));
    shape out = *x;
    for (int d = 0; d < w.n; d++) {
        int64_t *to = &out.dims[w.first + d];
        if (global || adaptive)
            *to = global ? 1 : sizes[d];
        else
            TRY(count(i, &w, d, *to, sizes[d], attr_bool(i->op, "ceil_mode", false), to));
    }
    *infer_out(i, 0) = out;
    if (i->schema->noutputs > 1 && infer_out(i, 1)) shape_copy_dims(infer_out(i, 1), &out, WEFT_INT32);
    return NULL;
}
