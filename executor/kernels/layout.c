/* layout.c: axes, strided copies, and the checks that prepare functions share. */
#include "executor/kernels/layout.h"

int axis_of(const tensor *t, int64_t axis) {
    int64_t ndim = t->ndim > 0 ? t->ndim : 1;
    if (axis < 0) axis += ndim;
    return axis >= 0 && axis < ndim ? (int)axis : -1;
}

axis_split axis_split_at(const tensor *t, int axis) {
    axis_split s = {1, 1, 1};
    for (int i = 0; i < t->ndim; i++) {
        if (i < axis) s.outer *= t->dims[i];
        if (i == axis) s.extent = t->dims[i];
        if (i > axis) s.inner *= t->dims[i];
    }
    return s;
}

weft_status axis_split_prepare(const kernel_prepare *p, const tensor *t, int64_t axis, axis_split *out) {
    int at = axis_of(t, axis);
    if (at < 0) return kernel_unsupported(p, "expected an axis of %d dimensions, found %lld", t->ndim, (long long)axis);
    *out = axis_split_at(t, at);
    return NULL;
}

weft_status require_present(const kernel_prepare *p, const tensor *t, const char *what) {
    return t ? NULL : kernel_unsupported(p, "expected an argument %s, found none", what);
}

weft_status require_real(const kernel_prepare *p, const tensor *t, const char *what) {
    TRY(require_present(p, t, what));
    if (t->dtype == WEFT_FP32 || t->dtype == WEFT_FP64) return NULL;
    return kernel_unsupported(p, "expected %s of float32 or float64, found %s", what, dtype_text(t->dtype));
}

weft_status require_integers(const kernel_prepare *p, const tensor *t, const char *what) {
    TRY(require_present(p, t, what));
    if (t->dtype == WEFT_INT32 || t->dtype == WEFT_INT64) return NULL;
    return kernel_unsupported(p, "%s: expected int32 or int64, found %s", what, dtype_text(t->dtype));
}

weft_status require_fp32(const kernel_prepare *p, const tensor *t, const char *what) {
    TRY(require_present(p, t, what));
    if (t->dtype == WEFT_FP32) return NULL;
    return kernel_unsupported(p, "expected %s of float32, found %s", what, dtype_text(t->dtype));
}

weft_status require_numel(const kernel_prepare *p, const tensor *t, int64_t numel, const char *what) {
    TRY(require_present(p, t, what));
    if (t->numel == numel) return NULL;
    return kernel_unsupported(p, "expected %lld elements in %s, found %lld", (long long)numel, what,
                              (long long)t->numel);
}

weft_status require_like(const kernel_prepare *p, const tensor *x, const tensor *t, int64_t numel, const char *what) {
    if (!t) return NULL;
    TRY(require_same_dtype(p, x, t, what));
    return require_numel(p, t, numel, what);
}

/* One run of n elements, strides in elements. */
static void copy_run(size_t nbytes, char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t n) {
    if (dst_stride == 1 && src_stride == 1) {
        memcpy(dst, src, (size_t)n * nbytes);
        return;
    }
    switch (nbytes) {
#define CASE(size, type)                                                                                               \
    case size: {                                                                                                       \
        type *d = (type *)(void *)dst;                                                                                 \
        const type *s = (const type *)(const void *)src;                                                               \
        INDEPENDENT for (int64_t i = 0; i < n; i++) d[i * dst_stride] = s[i * src_stride];                             \
        break;                                                                                                         \
    }
        CASE(1, uint8_t)
        CASE(2, uint16_t)
        CASE(4, uint32_t)
        CASE(8, uint64_t)
#undef CASE
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + i * dst_stride * (int64_t)nbytes, src + i * src_stride * (int64_t)nbytes, nbytes);
    }
}

/* `rows` runs of nbytes bytes. Runs as long as a vector or a few are copied without a call. */
static void copy_rows(size_t nbytes, char *dst, int64_t dst_row, const char *src, int64_t src_row, int64_t rows) {
    switch (nbytes) {
#define CASE(size)                                                                                                     \
    case size:                                                                                                         \
        for (int64_t r = 0; r < rows; r++) memcpy(dst + r * dst_row, src + r * src_row, size);                         \
        break;
        CASE(8)
        CASE(16)
        CASE(32)
        CASE(64)
        CASE(128)
        CASE(256)
#undef CASE
    default:
        for (int64_t r = 0; r < rows; r++) memcpy(dst + r * dst_row, src + r * src_row, nbytes);
    }
}

/* Contiguous runs: the innermost axis and two around it at a time. */
static void copy_planes(const loops *l, int64_t size, char *dst, const char *src) {
    loops outer = *l;
    int rows = l->naxes - 2, planes = l->naxes - 3;
    outer.naxes = planes >= 0 ? rows : 1;
    int64_t count = planes >= 0 ? l->extent[planes] : 1, run_nbytes = loops_run(l) * size;
    for (walk w = walk_start(&outer); w.left; walk_next(&outer, &w)) {
        char *d = dst + w.at[0] * size;
        const char *x = src + w.at[1] * size;
        for (int64_t k = 0; k < count; k++) {
            copy_rows((size_t)run_nbytes, d, l->stride[0][rows] * size, x, l->stride[1][rows] * size, l->extent[rows]);
            if (planes >= 0) d += l->stride[0][planes] * size, x += l->stride[1][planes] * size;
        }
    }
}

void copy_loops(const loops *l, size_t nbytes, void *dst, const void *src) {
    int64_t n = loops_run(l), dst_stride = loops_stride(l, 0), src_stride = loops_stride(l, 1);
    if (dst_stride == 1 && src_stride == 1 && l->naxes > 1) {
        copy_planes(l, (int64_t)nbytes, dst, src);
        return;
    }
    for (walk w = walk_start(l); w.left; walk_next(l, &w))
        copy_run(nbytes, (char *)dst + w.at[0] * (int64_t)nbytes, dst_stride,
                 (const char *)src + w.at[1] * (int64_t)nbytes, src_stride, n);
}
