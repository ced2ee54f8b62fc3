/* roi_pool.c: boxes of images looked at on a grid of bins: the largest element of each (roi_pool), or the mean of a
 * channel of the bin's own (psroi_pool), and the gradients. phi/kernels/cpu/{roi_pool,psroi_pool}_kernel.cc. */
#include <float.h>
#include <math.h>

#include "executor/kernels/layout.h"

enum { IN_X, IN_BOXES, IN_COUNTS, IN_ARGMAX, IN_OUT_GRAD, IN_MEAN_GRAD = 3, OUT = 0, OUT_ARGMAX };

typedef struct roi_state {
    int64_t images, channels, height, width, boxes, rows, columns;
    int64_t given; /* channels of X */
    double scale;
} roi_state;

static weft_status prepare_common(kernel_prepare *p, const tensor *out, bool by_bin) {
    roi_state *s = KERNEL_STATE(p, roi_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *boxes = type_in(p, IN_BOXES), *counts = type_in(p, IN_COUNTS);
    TRY(require_real(p, x, "X"));
    TRY(require_same_dtype(p, x, boxes, "ROIs"));
    if (!counts) return kernel_unsupported(p, "expected RoisNum: without it boxes are told apart by LoD");
    if (x->ndim != 4 || boxes->ndim != 2 || boxes->dims[1] != 4 || counts->numel != x->dims[0])
        return kernel_unsupported(
            p, "expected X [image, channel, row, column], ROIs [box, 4] and a RoisNum for each image");
    *s = (roi_state){x->dims[0],
                     x->dims[1],
                     x->dims[2],
                     x->dims[3],
                     boxes->dims[0],
                     attr_int(p->op, "pooled_height", 1),
                     attr_int(p->op, "pooled_width", 1),
                     x->dims[1],
                     attr_float(p->op, "spatial_scale", 1)};
    if (s->rows < 1 || s->columns < 1) return kernel_unsupported(p, "expected a pooled extent of 1 or more");
    if (by_bin) s->channels = attr_int(p->op, "output_channels", 1);
    if (by_bin && s->given != s->channels * s->rows * s->columns)
        return kernel_unsupported(p, "expected X of a channel for each output channel and bin, found %lld",
                                  (long long)s->given);
    TRY(require_present(p, out, "Out"));
    return require_like(p, x, out, s->boxes * s->channels * s->rows * s->columns, "Out");
}

/* A bin's rows and columns of an image. */
typedef struct bin {
    int64_t image, top, bottom, left, right;
} bin;

static int64_t within(double at, int64_t extent) {
    return !(at > 0) ? 0 : at > (double)extent ? extent : (int64_t)at;
}

static double corner(const kernel_call *c, int64_t box, int k) {
    return tensor_real(arg_in(c, IN_BOXES), 4 * box + k);
}

/* Whole elements: both edges belong to the box. */
static bin largest_bin(const kernel_call *c, int64_t box, int64_t row, int64_t column) {
    const roi_state *s = c->state;
    double left = round(corner(c, box, 0) * s->scale), top = round(corner(c, box, 1) * s->scale);
    double wide = fmax(round(corner(c, box, 2) * s->scale) - left + 1, 1) / (double)s->columns;
    double high = fmax(round(corner(c, box, 3) * s->scale) - top + 1, 1) / (double)s->rows;
    return (bin){.top = within(floor((double)row * high) + top, s->height),
                 .bottom = within(ceil((double)(row + 1) * high) + top, s->height),
                 .left = within(floor((double)column * wide) + left, s->width),
                 .right = within(ceil((double)(column + 1) * wide) + left, s->width)};
}

static bin mean_bin(const kernel_call *c, int64_t box, int64_t row, int64_t column) {
    const roi_state *s = c->state;
    double left = round(corner(c, box, 0)) * s->scale, top = round(corner(c, box, 1)) * s->scale;
    double wide = fmax((round(corner(c, box, 2)) + 1) * s->scale - left, 0.1) / (double)s->columns;
    double high = fmax((round(corner(c, box, 3)) + 1) * s->scale - top, 0.1) / (double)s->rows;
    return (bin){.top = within(floor((double)row * high + top), s->height),
                 .bottom = within(ceil((double)(row + 1) * high + top), s->height),
                 .left = within(floor((double)column * wide + left), s->width),
                 .right = within(ceil((double)(column + 1) * wide + left), s->width)};
}

typedef bin (*bin_fn)(const kernel_call *c, int64_t box, int64_t row, int64_t column);
typedef void (*visit_fn)(const kernel_call *c, int64_t at, int64_t channel, const bin *b);

/* Calls `visit` for every element of Out. */
static weft_status visit_bins(const kernel_call *c, bin_fn find, visit_fn visit) {
    const roi_state *s = c->state;
    int64_t image = 0, left = s->images ? host_integer(c, arg_in(c, IN_COUNTS), 0) : 0, bins = s->rows * s->columns;
    for (int64_t i = 0; i < s->boxes; i++, left--) {
        while (left <= 0 && ++image < s->images) left = host_integer(c, arg_in(c, IN_COUNTS), image);
        if (image >= s->images) return kernel_failed(c, "RoisNum: expected %lld boxes in all", (long long)s->boxes);
        for (int64_t k = 0; k < bins; k++) {
            bin b = find(c, i, k / s->columns, k % s->columns);
            b.image = image;
            for (int64_t ch = 0; ch < s->channels; ch++) visit(c, (i * s->channels + ch) * bins + k, ch, &b);
        }
    }
    return NULL;
}

/* --- the largest -------------------------------------------------------------------------------------------------- */

static weft_status prepare_roi_pool(kernel_prepare *p) {
    TRY(prepare_common(p, type_out(p, OUT), false));
    if (!type_out(p, OUT_ARGMAX)) return NULL;
    if (type_out(p, OUT_ARGMAX)->dtype != WEFT_INT64) return kernel_unsupported(p, "Argmax: expected int64");
    return require_numel(p, type_out(p, OUT_ARGMAX), type_out(p, OUT)->numel, "Argmax");
}

static void take_largest(const kernel_call *c, int64_t at, int64_t channel, const bin *b) {
    const roi_state *s = c->state;
    int64_t plane = (b->image * s->channels + channel) * s->height * s->width, best = -1;
    double most = b->bottom <= b->top || b->right <= b->left ? 0 : -FLT_MAX;
    for (int64_t i = b->top; i < b->bottom; i++)
        for (int64_t j = b->left; j < b->right; j++) {
            double value = tensor_real(arg_in(c, IN_X), plane + i * s->width + j);
            if (value > most) most = value, best = i * s->width + j;
        }
    tensor_set_real(arg_out(c, OUT), at, most);
    if (arg_out(c, OUT_ARGMAX)) ((int64_t *)arg_out(c, OUT_ARGMAX)->data)[at] = best;
}

static weft_status run_roi_pool(const kernel_call *c) {
    return visit_bins(c, largest_bin, take_largest);
}

static weft_status prepare_roi_pool_grad(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_X), *g = type_in(p, IN_OUT_GRAD), *places = type_in(p, IN_ARGMAX);
    TRY(prepare_common(p, g, false));
    if (!places || places->dtype != WEFT_INT64) return kernel_unsupported(p, "Argmax: expected int64");
    TRY(require_numel(p, places, g->numel, "Argmax"));
    TRY(require_present(p, type_out(p, OUT), "X@GRAD"));
    return require_like(p, x, type_out(p, OUT), x->numel, "X@GRAD");
}

static void give_largest(const kernel_call *c, int64_t at, int64_t channel, const bin *b) {
    const roi_state *s = c->state;
    int64_t best = ((const int64_t *)arg_in(c, IN_ARGMAX)->data)[at], size = s->height * s->width;
    if (best >= 0 && best < size)
        tensor_add_real(arg_out(c, OUT), (b->image * s->channels + channel) * size + best,
                        tensor_real(arg_in(c, IN_OUT_GRAD), at));
}

static weft_status run_roi_pool_grad(const kernel_call *c) {
    tensor_clear(arg_out(c, OUT));
    return visit_bins(c, largest_bin, give_largest);
}

const kernel kernel_roi_pool = {prepare_roi_pool, run_roi_pool};
const kernel kernel_roi_pool_grad = {prepare_roi_pool_grad, run_roi_pool_grad};

/* --- the mean of the bin's own channel ---------------------------------------------------------------------------- */

static weft_status prepare_psroi_pool(kernel_prepare *p) {
    return prepare_common(p, type_out(p, OUT), true);
}
static weft_status prepare_psroi_pool_grad(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_X);
    TRY(prepare_common(p, type_in(p, IN_MEAN_GRAD), true));
    TRY(require_present(p, type_out(p, OUT), "X@GRAD"));
    return require_like(p, x, type_out(p, OUT), x->numel, "X@GRAD");
}

/* Where the plane of a bin's channel begins. */
static int64_t own_plane(const roi_state *s, int64_t at, int64_t channel, const bin *b) {
    int64_t bins = s->rows * s->columns;
    return (b->image * s->given + channel * bins + at % bins) * s->height * s->width;
}

static void take_mean(const kernel_call *c, int64_t at, int64_t channel, const bin *b) {
    const roi_state *s = c->state;
    int64_t plane = own_plane(s, at, channel, b), count = (b->bottom - b->top) * (b->right - b->left);
    double sum = 0;
    for (int64_t i = b->top; i < b->bottom; i++)
        for (int64_t j = b->left; j < b->right; j++) sum += tensor_real(arg_in(c, IN_X), plane + i * s->width + j);
    bool empty = b->bottom <= b->top || b->right <= b->left;
    tensor_set_real(arg_out(c, OUT), at, empty ? 0 : sum / (double)count);
}

static void give_mean(const kernel_call *c, int64_t at, int64_t channel, const bin *b) {
    const roi_state *s = c->state;
    int64_t plane = own_plane(s, at, channel, b), count = (b->bottom - b->top) * (b->right - b->left);
    for (int64_t i = b->top; i < b->bottom; i++)
        for (int64_t j = b->left; j < b->right; j++)
            tensor_add_real(arg_out(c, OUT), plane + i * s->width + j,
                            tensor_real(arg_in(c, IN_MEAN_GRAD), at) / (double)count);
}

static weft_status run_psroi_pool(const kernel_call *c) {
    return visit_bins(c, mean_bin, take_mean);
}
static weft_status run_psroi_pool_grad(const kernel_call *c) {
    tensor_clear(arg_out(c, OUT));
    return visit_bins(c, mean_bin, give_mean);
}

const kernel kernel_psroi_pool = {prepare_psroi_pool, run_psroi_pool};
const kernel kernel_psroi_pool_grad = {prepare_psroi_pool_grad, run_psroi_pool_grad};
