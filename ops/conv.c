/* conv.c: types of convolutions (paddle/phi/infermeta/binary.cc, ConvInferMeta). */
#include "ops/infer.h"
#include "ops/window.h"

weft_status window_read(const infer *i, const shape *x, const char *format_attr, window *out) {
    size_t npaddings, nstrides;
    const int64_t *paddings = attr_ints(i->op, "paddings", &npaddings), *strides = attr_ints(i->op, "strides", &nstrides);
    const char *algorithm = attr_string(i->op, "padding_algorithm", "EXPLICIT");
    if (x->ndim != 4) {
        shape_text tx;
        return infer_error(i, "expected 4 dimensions, found %s", shape_print(x, &tx));
    }
    if (nstrides != 2 || (npaddings != 2 && npaddings != 4))
        return infer_error(i, "expected 2 strides and 2 or 4 paddings, found %zu and %zu", nstrides, npaddings);
    out->channels_last = strcmp(attr_string(i->op, format_attr, "NCHW"), "NHWC") == 0;
    out->same = strcmp(algorithm, "SAME") == 0;
    for (int d = 0; d < 2; d++) {
        out->extent[d] = x->dims[(out->channels_last ? 1 : 2) + d];
        out->stride[d] = strides[d];
        out->before[d] = npaddings == 4 ? paddings[2 * d] : paddings[d];
        out->after[d] = npaddings == 4 ? paddings[2 * d + 1] : paddings[d];
        if (strcmp(algorithm, "VALID") == 0) out->before[d] = out->after[d] = 0;
        if (strides[d] < 1) return infer_error(i, "strides: expected 1 or more, found %lld", (long long)strides[d]);
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
    int64_t room = w->extent[d] + w->before[d] + w->after[d] - size;
    if (room < 0)
        return infer_error(i, "expected windows of at most %lld elements in spatial dimension %d, found %lld",
                           (long long)(room + size), d, (long long)size);
    *out = (room + (ceil_mode ? w->stride[d] - 1 : 0)) / w->stride[d] + 1;
    return NULL;
}

static weft_status check_channels(const infer *i, const shape *x, const shape *filter, bool channels_last) {
    int64_t groups = attr_int(i->op, "groups", 1), channels = x->dims[channels_last ? 3 : 1];
    shape_text tx, tf;
    if (groups < 1) return infer_error(i, "groups: expected 1 or more, found %lld", (long long)groups);
    if (!extent_fits(channels, extent_mul(filter->dims[1], groups)) || filter->dims[0] % groups)
        return infer_error(i, "expected channels for %lld groups, found Input %s and Filter %s", (long long)groups,
                           shape_print(x, &tx), shape_print(filter, &tf));
    return NULL;
}

/* Output has Filter's channels and as many positions as windows fit. SAME padding takes no notice of dilations. */
weft_status infer_conv2d(infer *i) {
    const shape *x = infer_in(i, 0), *filter = infer_in(i, 1);
    if (!shape_known(x) || !shape_known(filter) || !infer_out(i, 0)) return NULL;
    window w;
    TRY(window_read(i, x, "data_format", &w));
    if (filter->ndim != 4) return infer_error(i, "expected a Filter of 4 dimensions, found %d", filter->ndim);
    TRY(check_channels(i, x, filter, w.channels_last));
    size_t ndilations;
    const int64_t *dilations = attr_ints(i->op, "dilations", &ndilations);
    if (ndilations != 2) return infer_error(i, "expected 2 dilations, found %zu", ndilations);
    shape out = {.dtype = x->dtype, .ndim = 4, .height = -1};
    out.dims[0] = x->dims[0];
    out.dims[w.channels_last ? 3 : 1] = filter->dims[0];
    for (int d = 0; d < 2; d++) {
        int64_t size = filter->dims[2 + d] < 0 ? -1 : dilations[d] * (filter->dims[2 + d] - 1) + 1;
        TRY(window_count(i, &w, d, size, false, &out.dims[(w.channels_last ? 1 : 2) + d]));
    }
    *infer_out(i, 0) = out;
    return NULL;
}
