/* volume.c: layouts and windows of volumes. */
#include "executor/kernels/volume/volume.h"

weft_status volume_layout(const kernel_prepare *p, const tensor *t, bool last, volume *v) {
    if (!t || t->ndim < 3 || t->ndim > 2 + AXES)
        return kernel_unsupported(p, "expected tensors of one to three spatial dimensions");
    int64_t strides[WEFT_MAX_RANK];
    int n = t->ndim - 2, channel = last ? t->ndim - 1 : 1;
    strides_dense(t->ndim, t->dims, strides);
    *v = (volume){.count = t->dims[0], .channels = t->dims[channel], .image = strides[0], .positions = 1};
    v->channel = strides[channel];
    for (int d = 0; d < AXES; d++) {
        int from = d - (AXES - n) + (last ? 1 : 2);
        bool is_there = d >= AXES - n;
        v->extent[d] = is_there ? t->dims[from] : 1;
        v->axis[d] = is_there ? strides[from] : 0;
        v->positions *= v->extent[d];
    }
    return NULL;
}

weft_status volume_prepare(const kernel_prepare *p, const tensor *t, volume *v) {
    const char *format = attr_string(p->op, "data_format", "NCHW");
    return volume_layout(p, t, strcmp(format, "NHWC") == 0 || strcmp(format, "NDHWC") == 0, v);
}

static int64_t number(const int64_t *values, size_t count, size_t n, int d, int64_t fallback) {
    int at = d - (AXES - (int)n);
    return at < 0 || (size_t)at >= count ? fallback : values[at];
}

weft_status windows_prepare(const kernel_prepare *p, windows *w) {
    size_t n, npaddings, ndilations;
    const int64_t *strides = attr_ints(p->op, "strides", &n), *paddings = attr_ints(p->op, "paddings", &npaddings);
    const int64_t *dilations = attr_ints(p->op, "dilations", &ndilations);
    const char *way = attr_string(p->op, "padding_algorithm", "EXPLICIT");
    if (n < 1 || n > AXES || (npaddings != n && npaddings != 2 * n))
        return kernel_unsupported(p, "expected strides and paddings of one to three dimensions");
    w->taps = 1;
    for (int d = 0; d < AXES; d++) {
        w->stride[d] = number(strides, n, n, d, 1);
        w->dilation[d] = number(dilations, ndilations, n, d, 1);
        w->before[d] = 0;
        int at = d - (AXES - (int)n);
        if (at >= 0 && strcmp(way, "EXPLICIT") == 0) w->before[d] = npaddings == n ? paddings[at] : paddings[2 * at];
        if (strcmp(way, "SAME") == 0) {
            w->dilation[d] = 1;
            int64_t all = (w->out.extent[d] - 1) * w->stride[d] + w->size[d] - w->in.extent[d];
            w->before[d] = all > 0 ? all / 2 : 0;
        }
        if (w->stride[d] < 1 || w->dilation[d] < 1) return kernel_unsupported(p, "expected strides of 1 or more");
        w->taps *= w->size[d];
    }
    return NULL;
}
