/* unfold.c: windows of an image as columns (unfold), and columns added up where their windows lie (fold). Each is the
 * other's gradient. A column is [channel, row of the window, column of the window], as Paddle's im2col has it. */
#include "executor/kernels/layout.h"

enum { IN_X, GRAD_IN_Y_GRAD, OUT = 0 };

typedef struct unfold_state {
    int64_t images, channels, extent[2], size[2], stride[2], before[2], dilation[2], windows[2];
} unfold_state;

static weft_status read_pair(const kernel_prepare *p, const char *attr, size_t count, const int64_t **out) {
    size_t n;
    *out = attr_ints(p->op, attr, &n);
    return n == count ? NULL : kernel_unsupported(p, "%s: expected %zu numbers, found %zu", attr, count, n);
}

static weft_status read_windows(const kernel_prepare *p, unfold_state *s) {
    const int64_t *size, *stride, *paddings, *dilation;
    TRY(read_pair(p, "kernel_sizes", 2, &size));
    TRY(read_pair(p, "strides", 2, &stride));
    TRY(read_pair(p, "paddings", 4, &paddings));
    TRY(read_pair(p, "dilations", 2, &dilation));
    for (int d = 0; d < 2; d++) {
        s->size[d] = size[d], s->stride[d] = stride[d], s->before[d] = paddings[d], s->dilation[d] = dilation[d];
        int64_t room = s->extent[d] + paddings[d] + paddings[d + 2] - (dilation[d] * (size[d] - 1) + 1);
        if (size[d] < 1 || stride[d] < 1 || dilation[d] < 1 || room < 0)
            return kernel_unsupported(p, "expected windows within the image");
        s->windows[d] = room / stride[d] + 1;
    }
    return NULL;
}

static weft_status prepare_between(kernel_prepare *p, const tensor *image, const tensor *columns) {
    unfold_state *s = KERNEL_STATE(p, unfold_state);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, image, "the image"));
    TRY(require_present(p, columns, "the columns"));
    TRY(require_same_dtype(p, image, columns, "the columns"));
    if (image->ndim != 4) return kernel_unsupported(p, "expected images of 4 dimensions, found %d", image->ndim);
    s->images = image->dims[0], s->channels = image->dims[1];
    for (int d = 0; d < 2; d++) s->extent[d] = image->dims[2 + d];
    TRY(read_windows(p, s));
    return require_numel(p, columns,
                         s->images * s->channels * s->size[0] * s->size[1] * s->windows[0] * s->windows[1],
                         "the columns");
}

/* The range of windows whose tap `tap` lies in the image. */
static void inside(const unfold_state *s, int d, int64_t tap, int64_t *first, int64_t *end) {
    int64_t shift = tap * s->dilation[d] - s->before[d];
    *first = shift < 0 ? (-shift + s->stride[d] - 1) / s->stride[d] : 0;
    *end = s->extent[d] > shift ? (s->extent[d] - shift + s->stride[d] - 1) / s->stride[d] : 0;
    if (*end > s->windows[d]) *end = s->windows[d];
    if (*first > *end) *first = *end;
}

#define DEFINE_RUNS(type_id, suffix, real)                                                                             \
    /* One channel and tap: a plane of windows. */                                                                     \
    static void unfold_##suffix(const unfold_state *s, const real *image, real *column, int64_t i, int64_t j) {        \
        int64_t y0, y1, x0, x1, wide = s->windows[1];                                                                  \
        inside(s, 0, i, &y0, &y1);                                                                                     \
        inside(s, 1, j, &x0, &x1);                                                                                     \
        memset(column, 0, (size_t)(s->windows[0] * wide) * sizeof(real));                                              \
        for (int64_t y = y0; y < y1; y++) {                                                                            \
            int64_t row = y * s->stride[0] + i * s->dilation[0] - s->before[0];                                        \
            for (int64_t x = x0; x < x1; x++)                                                                          \
                column[y * wide + x] =                                                                                 \
                    image[row * s->extent[1] + x * s->stride[1] + j * s->dilation[1] - s->before[1]];                  \
        }                                                                                                              \
    }                                                                                                                  \
    static void fold_##suffix(const unfold_state *s, const real *column, real *image, int64_t i, int64_t j) {          \
        int64_t y0, y1, x0, x1, wide = s->windows[1];                                                                  \
        inside(s, 0, i, &y0, &y1);                                                                                     \
        inside(s, 1, j, &x0, &x1);                                                                                     \
        for (int64_t y = y0; y < y1; y++) {                                                                            \
            int64_t row = y * s->stride[0] + i * s->dilation[0] - s->before[0];                                        \
            for (int64_t x = x0; x < x1; x++)                                                                          \
                image[row * s->extent[1] + x * s->stride[1] + j * s->dilation[1] - s->before[1]] +=                    \
                    column[y * wide + x];                                                                              \
        }                                                                                                              \
    }                                                                                                                  \
    static void each_##suffix(const unfold_state *s, bool folds, const real *from, real *to) {                         \
        int64_t taps = s->size[0] * s->size[1], plane = s->extent[0] * s->extent[1];                                   \
        int64_t columns = s->windows[0] * s->windows[1];                                                               \
        if (folds) memset(to, 0, (size_t)(s->images * s->channels * plane) * sizeof(real));                            \
        for (int64_t c = 0; c < s->images * s->channels; c++)                                                          \
            for (int64_t t = 0; t < taps; t++) {                                                                       \
                int64_t i = t / s->size[1], j = t % s->size[1], column = (c * taps + t) * columns;                     \
                if (folds)                                                                                             \
                    fold_##suffix(s, from + column, to + c * plane, i, j);                                             \
                else                                                                                                   \
                    unfold_##suffix(s, from + c * plane, to + column, i, j);                                           \
            }                                                                                                          \
    }
REAL_TYPES(DEFINE_RUNS)
#undef DEFINE_RUNS

static weft_status run_between(const kernel_call *c, int from_slot, bool folds) {
    const tensor *from = arg_in(c, from_slot);
    if (from->dtype == WEFT_FP64)
        each_fp64(c->state, folds, from->data, arg_out(c, OUT)->data);
    else
        each_fp32(c->state, folds, from->data, arg_out(c, OUT)->data);
    return NULL;
}

static weft_status prepare_unfold(kernel_prepare *p) {
    return prepare_between(p, type_in(p, IN_X), type_out(p, OUT));
}
static weft_status prepare_unfold_grad(kernel_prepare *p) {
    return prepare_between(p, type_out(p, OUT), type_in(p, GRAD_IN_Y_GRAD));
}
static weft_status prepare_fold(kernel_prepare *p) {
    return prepare_between(p, type_out(p, OUT), type_in(p, IN_X));
}
static weft_status prepare_fold_grad(kernel_prepare *p) {
    return prepare_between(p, type_in(p, GRAD_IN_Y_GRAD), type_out(p, OUT));
}
static weft_status run_unfold(const kernel_call *c) {
    return run_between(c, IN_X, false);
}
static weft_status run_unfold_grad(const kernel_call *c) {
    return run_between(c, GRAD_IN_Y_GRAD, true);
}
static weft_status run_fold(const kernel_call *c) {
    return run_between(c, IN_X, true);
}
static weft_status run_fold_grad(const kernel_call *c) {
    return run_between(c, GRAD_IN_Y_GRAD, false);
}

const kernel kernel_unfold = {prepare_unfold, run_unfold};
const kernel kernel_unfold_grad = {prepare_unfold_grad, run_unfold_grad};
const kernel kernel_fold = {prepare_fold, run_fold};
const kernel kernel_fold_grad = {prepare_fold_grad, run_fold_grad};
