/* window.c: paddings as Paddle reads them (phi/kernels/funcs/{conv,pooling}.h, UpdatePadding): SAME puts the smaller
 * half of what is missing before and sets dilations to 1, VALID pads nothing, four paddings are before and after each
 * dimension. */
#include "executor/kernels/window.h"

weft_status images_prepare(const kernel_prepare *p, const tensor *t, const char *format, images *out) {
    TRY(require_present(p, t, "images"));
    if (t->ndim != 4) return kernel_unsupported(p, "expected images of 4 dimensions, found %d", t->ndim);
    bool last = strcmp(format, "NHWC") == 0;
    if (!last && strcmp(format, "NCHW") != 0 && strcmp(format, "AnyLayout") != 0)
        return kernel_unsupported(p, "expected NCHW or NHWC, found %s", format);
    const int64_t *d = t->dims;
    int64_t c = d[last ? 3 : 1], h = d[last ? 1 : 2], w = d[last ? 2 : 3];
    *out = (images){.count = d[0],
                    .channels = c,
                    .height = h,
                    .width = w,
                    .image = c * h * w,
                    .channel_step = last ? 1 : h * w,
                    .row_step = last ? w * c : w,
                    .column_step = last ? c : 1};
    return NULL;
}

weft_status window_prepare(const kernel_prepare *p, const images *in, window *w) {
    size_t npaddings, nstrides, ndilations;
    const int64_t *paddings = attr_ints(p->op, "paddings", &npaddings),
                  *strides = attr_ints(p->op, "strides", &nstrides);
    const int64_t *dilations = attr_ints(p->op, "dilations", &ndilations);
    const char *algorithm = attr_string(p->op, "padding_algorithm", "EXPLICIT");
    bool same = strcmp(algorithm, "SAME") == 0, valid = strcmp(algorithm, "VALID") == 0;
    if (nstrides != 2 || (npaddings != 2 && npaddings != 4))
        return kernel_unsupported(p, "expected 2 strides and 2 or 4 paddings, found %zu and %zu", nstrides, npaddings);
    for (int d = 0; d < 2; d++) {
        int64_t extent = d ? in->width : in->height;
        w->stride[d] = strides[d];
        w->dilation[d] = ndilations == 2 && !same ? dilations[d] : 1;
        if (w->stride[d] < 1 || w->dilation[d] < 1 || w->size[d] < 1)
            return kernel_unsupported(p, "expected windows, strides and dilations of at least 1");
        int64_t positions = (extent + w->stride[d] - 1) / w->stride[d];
        int64_t missing = (positions - 1) * w->stride[d] + w->size[d] - extent;
        w->before[d] = npaddings == 4 ? paddings[2 * d] : paddings[d];
        if (same) w->before[d] = missing > 0 ? missing / 2 : 0;
        if (valid) w->before[d] = 0;
    }
    return NULL;
}
