/* roi_align.c: boxes of images looked at on a grid of bins, each the mean of points between elements, and the gradient.
 *
 * A point beyond the border by more than one element is 0; else it lies on the border at most. A box has at least the
 * extent of an element unless `aligned`; in the gradient always, as in Paddle (phi/kernels/cpu/roi_align_*kernel.cc).
 */
#include <math.h>

#include "executor/kernels/layout.h"

enum { IN_X, IN_BOXES, IN_COUNTS, IN_OUT_GRAD, OUT = 0, CORNERS = 4 };

typedef struct align_state {
    int64_t images, channels, height, width, boxes, rows, columns,
        samples; /* samples: of a bin a way; 0: by its size */
    double scale;
    bool aligned, grows;
} align_state;

static weft_status prepare_common(kernel_prepare *p, const tensor *out) {
    align_state *s = KERNEL_STATE(p, align_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *boxes = type_in(p, IN_BOXES), *counts = type_in(p, IN_COUNTS);
    TRY(require_real(p, x, "X"));
    TRY(require_same_dtype(p, x, boxes, "ROIs"));
    if (!counts) return kernel_unsupported(p, "expected RoisNum: without it boxes are told apart by LoD");
    if (x->ndim != 4 || boxes->ndim != 2 || boxes->dims[1] != 4 || counts->numel != x->dims[0])
        return kernel_unsupported(
            p, "expected X [image, channel, row, column], ROIs [box, 4] and a RoisNum for each image");
    *s = (align_state){.images = x->dims[0],
                       .channels = x->dims[1],
                       .height = x->dims[2],
                       .width = x->dims[3],
                       .boxes = boxes->dims[0],
                       .rows = attr_int(p->op, "pooled_height", 1),
                       .columns = attr_int(p->op, "pooled_width", 1),
                       .samples = attr_int(p->op, "sampling_ratio", -1),
                       .scale = attr_float(p->op, "spatial_scale", 1),
                       .aligned = attr_bool(p->op, "aligned", false)};
    if (s->samples < 0) s->samples = 0;
    s->grows = !s->aligned;
    if (s->rows < 1 || s->columns < 1) return kernel_unsupported(p, "expected a pooled extent of 1 or more");
    TRY(require_present(p, out, "Out"));
    return require_like(p, x, out, s->boxes * s->channels * s->rows * s->columns, "Out");
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_common(p, type_out(p, OUT));
}
static weft_status prepare_grad(kernel_prepare *p) {
    TRY(prepare_common(p, type_in(p, IN_OUT_GRAD)));
    ((align_state *)p->state)->grows = true;
    TRY(require_present(p, type_out(p, OUT), "X@GRAD"));
    return require_like(p, type_in(p, IN_X), type_out(p, OUT), type_in(p, IN_X)->numel, "X@GRAD");
}

/* A box in elements: where it begins, a bin's extents and the samples of a bin. */
typedef struct box {
    double top, left, bin_height, bin_width;
    int64_t down, across;
} box;

static box box_at(const align_state *s, const tensor *boxes, int64_t i) {
    double offset = s->aligned ? 0.5 : 0, edge[4];
    for (int k = 0; k < 4; k++) edge[k] = tensor_real(boxes, 4 * i + k) * s->scale - offset;
    double width = edge[2] - edge[0], height = edge[3] - edge[1];
    if (s->grows) width = fmax(width, 1), height = fmax(height, 1);
    box b = {edge[1], edge[0], height / (double)s->rows, width / (double)s->columns, s->samples, s->samples};
    if (!s->samples) {
        b.down = b.bin_height > 0 ? (int64_t)ceil(fmin(b.bin_height, 1e6)) : 0;
        b.across = b.bin_width > 0 ? (int64_t)ceil(fmin(b.bin_width, 1e6)) : 0;
    }
    return b;
}

typedef struct corner {
    int64_t at; /* in a channel */
    double weight;
} corner;

/* Between which elements of one dimension a point lies; false: outside. */
static bool neighbours(double at, int64_t extent, int64_t out[2], double *out_share) {
    if (!(at >= -1 && at <= (double)extent) || extent < 1) return false;
    if (at < 0) at = 0;
    out[0] = (int64_t)at;
    out[1] = out[0] + 1;
    if (out[0] >= extent - 1) out[0] = out[1] = extent - 1, at = (double)out[0];
    *out_share = at - (double)out[0];
    return true;
}

static int corners_at(const align_state *s, double y, double x, double share, corner out[CORNERS]) {
    int64_t row[2], column[2];
    double down, across;
    if (!neighbours(y, s->height, row, &down) || !neighbours(x, s->width, column, &across)) return 0;
    for (int k = 0; k < CORNERS; k++) {
        double of_row = k / 2 ? down : 1 - down, of_column = k % 2 ? across : 1 - across;
        out[k] = (corner){row[k / 2] * s->width + column[k % 2], of_row * of_column * share};
    }
    return CORNERS;
}

typedef void (*visit_fn)(const kernel_call *c, const align_state *s, int64_t image, int64_t bin, const corner *corners);

/* Calls `visit` with the corners of every sample of every bin; `bin` is that of channel 0. */
static weft_status visit_samples(const kernel_call *c, visit_fn visit) {
    const align_state *s = c->state;
    int64_t image = 0, left = s->images ? host_integer(c, arg_in(c, IN_COUNTS), 0) : 0, bins = s->rows * s->columns;
    for (int64_t i = 0; i < s->boxes; i++, left--) {
        while (left <= 0 && ++image < s->images) left = host_integer(c, arg_in(c, IN_COUNTS), image);
        if (image >= s->images) return kernel_failed(c, "RoisNum: expected %lld boxes in all", (long long)s->boxes);
        box b = box_at(s, arg_in(c, IN_BOXES), i);
        int64_t count = b.down * b.across > 1 ? b.down * b.across : 1;
        for (int64_t at = 0; at < bins * b.down * b.across; at++) {
            corner corners[CORNERS];
            int64_t bin = at / (b.down * b.across), sample = at % (b.down * b.across);
            double y = b.top + b.bin_height *
                                   ((double)(bin / s->columns) + ((double)(sample / b.across) + 0.5) / (double)b.down);
            double x = b.left + b.bin_width * ((double)(bin % s->columns) +
                                               ((double)(sample % b.across) + 0.5) / (double)b.across);
            if (corners_at(s, y, x, 1 / (double)count, corners))
                visit(c, s, image, i * s->channels * bins + bin, corners);
        }
    }
    return NULL;
}

static void add_at(tensor *t, int64_t i, double value) {
    tensor_set_real(t, i, tensor_real(t, i) + value);
}

static void visit_forward(const kernel_call *c, const align_state *s, int64_t image, int64_t bin,
                          const corner *corners) {
    for (int64_t ch = 0; ch < s->channels; ch++) {
        int64_t from = (image * s->channels + ch) * s->height * s->width;
        double sum = 0;
        for (int k = 0; k < CORNERS; k++) sum += corners[k].weight * tensor_real(arg_in(c, IN_X), from + corners[k].at);
        add_at(arg_out(c, OUT), bin + ch * s->rows * s->columns, sum);
    }
}

static void visit_backward(const kernel_call *c, const align_state *s, int64_t image, int64_t bin,
                           const corner *corners) {
    for (int64_t ch = 0; ch < s->channels; ch++) {
        int64_t to = (image * s->channels + ch) * s->height * s->width;
        double slope = tensor_real(arg_in(c, IN_OUT_GRAD), bin + ch * s->rows * s->columns);
        for (int k = 0; k < CORNERS; k++) add_at(arg_out(c, OUT), to + corners[k].at, corners[k].weight * slope);
    }
}

static weft_status run(const kernel_call *c) {
    tensor_clear(arg_out(c, OUT));
    return visit_samples(c, visit_forward);
}
static weft_status run_grad(const kernel_call *c) {
    tensor_clear(arg_out(c, OUT));
    return visit_samples(c, visit_backward);
}

const kernel kernel_roi_align = {prepare, run};
const kernel kernel_roi_align_grad = {prepare_grad, run_grad};
