/* conv.c: types of convolutions (paddle/phi/infermeta/binary.cc, ConvInferMeta). */
#include "ops/window.h"

static weft_status check_channels(const infer *i, const shape *x, const shape *filter, int channel) {
    int64_t groups = attr_int(i->op, "groups", 1);
    shape_text tx, tf;
    if (groups < 1) return infer_error(i, "groups: expected 1 or more, found %lld", (long long)groups);
    bool shared = filter->dims[0] < 0 || filter->dims[0] % groups == 0;
    if (!shared || !extent_fits(x->dims[channel], extent_mul(filter->dims[1], groups)))
        return infer_error(i, "expected channels for %lld groups, found Input %s and Filter %s", (long long)groups,
                           shape_print(x, &tx), shape_print(filter, &tf));
    return NULL;
}

/* Output has Filter's channels and as many positions as windows fit. */
weft_status infer_conv2d(infer *i) {
    const shape *x = infer_in(i, 0), *filter = infer_in(i, 1);
    const int64_t *dilations;
    window w;
    if (!shape_known(x) || !shape_known(filter) || !infer_out(i, 0)) return NULL;
    TRY(window_read(i, x, &w));
    TRY(window_attr(i, "dilations", 2, 1, &dilations));
    if (filter->ndim != 4) return infer_error(i, "expected a Filter of 4 dimensions, found %d", filter->ndim);
    TRY(check_channels(i, x, filter, w.channel));
    shape out = {.dtype = x->dtype, .ndim = 4, .height = -1};
    out.dims[0] = x->dims[0];
    out.dims[w.channel] = filter->dims[0];
    for (int d = 0; d < 2; d++) {
        int64_t size = extent_add(extent_mul(dilations[d], filter->dims[2 + d] - 1), 1);
        TRY(window_count(i, &w, d, size, false, &out.dims[w.first + d]));
    }
    *infer_out(i, 0) = out;
    return NULL;
}

static weft_status transposed_extent(infer *i, const window *w, int d, int64_t size, int64_t *out) {
    size_t nextra, nsizes;
    const int64_t *extra = attr_ints(i->op, "output_padding", &nextra),
                  *sizes = attr_ints(i->op, "output_size", &nsizes);
    *out = -1;
    if (w->extent[d] < 0 || size < 0) return NULL;
    *out = (w->extent[d] - 1) * w->stride[d] - w->before[d] - w->after[d] + size;
    if (w->same) *out = window_transposed_same(w->extent[d], w->stride[d], size);
    if (nsizes) *out = sizes[nsizes == 2 ? d : 0];
    if (!nsizes && nextra) *out = extent_add(*out, extra[nextra == 2 ? d : 0]);
    return *out < 0 ? infer_error(i, "expected paddings that leave a spatial dimension, found dimension %d empty", d)
                    : NULL;
}

/* Filter is [in, out / groups, height, width]; windows overlap and are added up. */
weft_status infer_conv2d_transpose(infer *i) {
    const shape *x = infer_in(i, 0), *filter = infer_in(i, 1);
    const int64_t *dilations;
    int64_t groups = attr_int(i->op, "groups", 1);
    window w;
    if (!shape_known(x) || !shape_known(filter) || !infer_out(i, 0)) return NULL;
    TRY(window_read(i, x, &w));
    TRY(window_attr(i, "dilations", 2, 1, &dilations));
    if (filter->ndim != 4) return infer_error(i, "expected a Filter of 4 dimensions, found %d", filter->ndim);
    if (groups < 1 || !extent_fits(x->dims[w.channel], filter->dims[0]))
        return infer_error(i, "expected a Filter for %lld channels, found one for %lld in %lld groups",
                           (long long)x->dims[w.channel], (long long)filter->dims[0], (long long)groups);
    shape out = {.dtype = x->dtype, .ndim = 4, .height = -1};
    out.dims[0] = x->dims[0];
    out.dims[w.channel] = extent_mul(filter->dims[1], groups);
    for (int d = 0; d < 2; d++) {
        int64_t dilation = w.same ? 1 : dilations[d];
        int64_t size = extent_add(extent_mul(dilation, filter->dims[2 + d] - 1), 1);
        if (size > INT32_MAX) return infer_error(i, "expected a smaller Filter, found %lld", (long long)size);
        TRY(transposed_extent(i, &w, d, size, &out.dims[w.first + d]));
    }
    *infer_out(i, 0) = out;
    return NULL;
}
