/* yolo_loss.c: the loss of a YOLO head (yolov3_loss) and its gradient. Redmon and Farhadi, "YOLOv3" (2018);
 * phi/kernels/cpu/yolo_loss_kernel.cc.
 *
 * A given box belongs to the cell of its middle and to the anchor whose shape is most like its own; where that anchor
 * is one of the head's, the prediction there is to be the box and its class. Every prediction is to say that it holds
 * an object (ObjectnessMask: the box's score), or that it holds none (0); nothing is asked of those that overlap a
 * given box by more than a threshold (-1). */
#include <math.h>

#include "executor/kernels/layout.h"

enum { IN_X, IN_BOX, IN_LABEL, IN_SCORE, IN_LOSS_GRAD, IN_OBJECT, IN_MATCH, OUT_LOSS = 0, OUT_OBJECT, OUT_MATCH };
enum { OBJECT_AT = 4, CLASSES_AT = 5 }; /* of the channels of an anchor; before them middle and extents */

typedef struct yolo_state {
    int64_t images, rows, columns, boxes, classes, size; /* size: of the image, in elements */
    size_t nanchors, nmasks;
    const int64_t *anchors, *masks;
    double threshold, scale, yes, no; /* yes, no: labels of the class and of others */
} yolo_state;

typedef struct yolo_box {
    double at[2], extent[2];
} yolo_box;

static weft_status prepare_common(kernel_prepare *p, const tensor *loss, const tensor *object, const tensor *match) {
    yolo_state *s = KERNEL_STATE(p, yolo_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *box = type_in(p, IN_BOX), *label = type_in(p, IN_LABEL);
    TRY(require_real(p, x, "X"));
    TRY(require_same_dtype(p, x, box, "GTBox"));
    s->anchors = attr_ints(p->op, "anchors", &s->nanchors);
    s->masks = attr_ints(p->op, "anchor_mask", &s->nmasks);
    s->nanchors /= 2;
    s->classes = attr_int(p->op, "class_num", 1);
    if (x->ndim != 4 || box->ndim != 3 || box->dims[2] != 4 || box->dims[0] != x->dims[0] ||
        x->dims[1] != (int64_t)s->nmasks * (CLASSES_AT + s->classes))
        return kernel_unsupported(p,
                                  "expected X [image, anchors * (5 + classes), row, column] and GTBox [image, box, 4]");
    for (size_t i = 0; i < s->nmasks; i++)
        if (s->masks[i] < 0 || (size_t)s->masks[i] >= s->nanchors)
            return kernel_unsupported(p, "anchor_mask: expected numbers of anchors, found %lld",
                                      (long long)s->masks[i]);
    s->images = x->dims[0], s->rows = x->dims[2], s->columns = x->dims[3], s->boxes = box->dims[1];
    s->size = attr_int(p->op, "downsample_ratio", 32) * s->rows;
    s->threshold = attr_float(p->op, "ignore_thresh", 0.7);
    s->scale = attr_float(p->op, "scale_x_y", 1);
    double smooth = fmin(1 / (double)s->classes, 1.0 / 40);
    if (!attr_bool(p->op, "use_label_smooth", true)) smooth = 0;
    s->yes = 1 - smooth, s->no = smooth;
    if (!label || label->dtype != WEFT_INT32) return kernel_unsupported(p, "GTLabel: expected int32");
    TRY(require_numel(p, label, s->images * s->boxes, "GTLabel"));
    TRY(require_like(p, x, type_in(p, IN_SCORE), s->images * s->boxes, "GTScore"));
    TRY(require_present(p, loss, "Loss"));
    TRY(require_like(p, x, loss, s->images, "Loss"));
    TRY(require_like(p, x, object, s->images * (int64_t)s->nmasks * s->rows * s->columns, "ObjectnessMask"));
    if (!object || !match || match->dtype != WEFT_INT32)
        return kernel_unsupported(p, "expected ObjectnessMask, and GTMatchMask of int32");
    return require_numel(p, match, s->images * s->boxes, "GTMatchMask");
}

/* --- what both directions walk over ------------------------------------------------------------------------------- */

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}
static double cross_entropy(double x, double label) {
    return fmax(x, 0) - x * label + log1p(exp(-fabs(x)));
}

/* Element `channel` of anchor `mask` in a cell. */
static int64_t place_of(const yolo_state *s, int64_t image, int64_t mask, int64_t channel, int64_t cell) {
    return ((image * (int64_t)s->nmasks + mask) * (CLASSES_AT + s->classes) + channel) * s->rows * s->columns + cell;
}

static yolo_box given_box(const kernel_call *c, int64_t index) {
    const tensor *t = arg_in(c, IN_BOX);
    return (yolo_box){{tensor_real(t, 4 * index), tensor_real(t, 4 * index + 1)},
                      {tensor_real(t, 4 * index + 2), tensor_real(t, 4 * index + 3)}};
}
static bool is_box(const yolo_box *b) {
    return b->extent[0] > 1e-6 && b->extent[1] > 1e-6;
}
static double score_of(const kernel_call *c, int64_t index) {
    return arg_in(c, IN_SCORE) ? tensor_real(arg_in(c, IN_SCORE), index) : 1;
}

static double shared_part(const yolo_box *a, const yolo_box *b) {
    double both = 1;
    for (int k = 0; k < 2; k++) {
        double from = fmax(a->at[k] - a->extent[k] / 2, b->at[k] - b->extent[k] / 2);
        double to = fmin(a->at[k] + a->extent[k] / 2, b->at[k] + b->extent[k] / 2);
        if (to < from) return 0;
        both *= to - from;
    }
    return both / (a->extent[0] * a->extent[1] + b->extent[0] * b->extent[1] - both);
}

static yolo_box predicted_box(const kernel_call *c, int64_t image, int64_t mask, int64_t cell) {
    const yolo_state *s = c->state;
    const int64_t *anchor = s->anchors + 2 * s->masks[mask], where[2] = {cell % s->columns, cell / s->columns};
    yolo_box b;
    for (int k = 0; k < 2; k++) {
        double at = tensor_real(arg_in(c, IN_X), place_of(s, image, mask, k, cell));
        double extent = tensor_real(arg_in(c, IN_X), place_of(s, image, mask, k + 2, cell));
        b.at[k] = ((double)where[k] + sigmoid(at) * s->scale - 0.5 * (s->scale - 1)) / (double)s->rows;
        b.extent[k] = exp(extent) * (double)anchor[k] / (double)s->size;
    }
    return b;
}

/* What the prediction for a box is to be: the cell, and four labels there. */
typedef struct aim {
    int64_t cell;
    double label[4], weight;
} aim;

static aim aim_at(const kernel_call *c, const yolo_box *b, int64_t anchor, double score) {
    const yolo_state *s = c->state;
    int64_t column = (int64_t)(b->at[0] * (double)s->columns), row = (int64_t)(b->at[1] * (double)s->rows);
    aim a = {.cell = row * s->columns + column, .weight = (2 - b->extent[0] * b->extent[1]) * score};
    a.label[0] = b->at[0] * (double)s->rows - (double)column;
    a.label[1] = b->at[1] * (double)s->rows - (double)row;
    for (int k = 0; k < 2; k++)
        a.label[k + 2] = log(b->extent[k] * (double)s->size / (double)s->anchors[2 * anchor + k]);
    return a;
}

static bool is_in_image(const yolo_box *b) {
    return b->at[0] >= 0 && b->at[0] < 1 && b->at[1] >= 0 && b->at[1] < 1;
}

static bool is_class(const kernel_call *c, int64_t index, int64_t k) {
    return ((const int32_t *)arg_in(c, IN_LABEL)->data)[index] == k;
}

/* --- the loss ----------------------------------------------------------------------------------------------------- */

static weft_status prepare(kernel_prepare *p) {
    return prepare_common(p, type_out(p, OUT_LOSS), type_out(p, OUT_OBJECT), type_out(p, OUT_MATCH));
}

static void mark_overlaps(const kernel_call *c, int64_t image) {
    const yolo_state *s = c->state;
    int64_t cells = s->rows * s->columns;
    for (int64_t at = 0; at < (int64_t)s->nmasks * cells; at++) {
        yolo_box predicted = predicted_box(c, image, at / cells, at % cells);
        double most = 0;
        for (int64_t i = 0; i < s->boxes; i++) {
            yolo_box b = given_box(c, image * s->boxes + i);
            if (is_box(&b)) most = fmax(most, shared_part(&predicted, &b));
        }
        tensor_set_real(arg_out(c, OUT_OBJECT), image * (int64_t)s->nmasks * cells + at, most > s->threshold ? -1 : 0);
    }
}

/* The head's anchor that is most like the box; -1: it is another head's. */
static int64_t match(const yolo_state *s, const yolo_box *b) {
    yolo_box own = {{0, 0}, {b->extent[0], b->extent[1]}};
    int64_t best = 0;
    double most = 0;
    for (size_t i = 0; i < s->nanchors; i++) {
        yolo_box anchor = {
            {0, 0}, {(double)s->anchors[2 * i] / (double)s->size, (double)s->anchors[2 * i + 1] / (double)s->size}};
        double part = shared_part(&anchor, &own);
        if (part > most) most = part, best = (int64_t)i;
    }
    for (size_t i = 0; i < s->nmasks; i++)
        if (s->masks[i] == best) return (int64_t)i;
    return -1;
}

static double loss_of_box(const kernel_call *c, int64_t image, int64_t index, const yolo_box *b, int64_t mask) {
    const yolo_state *s = c->state;
    const tensor *x = arg_in(c, IN_X);
    double score = score_of(c, index), loss = 0;
    aim a = aim_at(c, b, s->masks[mask], score);
    for (int k = 0; k < 4; k++) {
        double value = tensor_real(x, place_of(s, image, mask, k, a.cell));
        loss += a.weight * (k < 2 ? cross_entropy(value, a.label[k]) : fabs(value - a.label[k]));
    }
    for (int64_t k = 0; k < s->classes; k++)
        loss += score * cross_entropy(tensor_real(x, place_of(s, image, mask, CLASSES_AT + k, a.cell)),
                                      is_class(c, index, k) ? s->yes : s->no);
    tensor_set_real(arg_out(c, OUT_OBJECT), (image * (int64_t)s->nmasks + mask) * s->rows * s->columns + a.cell, score);
    return loss;
}

static weft_status run(const kernel_call *c) {
    const yolo_state *s = c->state;
    int64_t cells = s->rows * s->columns;
    int32_t *matches = arg_out(c, OUT_MATCH)->data;
    for (int64_t image = 0; image < s->images; image++) {
        double loss = 0;
        mark_overlaps(c, image);
        for (int64_t i = image * s->boxes; i < (image + 1) * s->boxes; i++) {
            yolo_box b = given_box(c, i);
            int64_t mask = is_box(&b) ? match(s, &b) : -1;
            if (is_box(&b) && !is_in_image(&b))
                return kernel_failed(c, "GTBox: expected a middle of 0 to below 1, found [%g, %g]", b.at[0], b.at[1]);
            matches[i] = (int32_t)mask;
            if (mask >= 0) loss += loss_of_box(c, image, i, &b, mask);
        }
        for (int64_t at = 0; at < (int64_t)s->nmasks * cells; at++) {
            double object = tensor_real(arg_out(c, OUT_OBJECT), image * (int64_t)s->nmasks * cells + at);
            double x = tensor_real(arg_in(c, IN_X), place_of(s, image, at / cells, OBJECT_AT, at % cells));
            if (object > 1e-5)
                loss += cross_entropy(x, 1) * object;
            else if (object > -0.5)
                loss += cross_entropy(x, 0);
        }
        tensor_set_real(arg_out(c, OUT_LOSS), image, loss);
    }
    return NULL;
}

/* --- the gradient ------------------------------------------------------------------------------------------------- */

static weft_status prepare_grad(kernel_prepare *p) {
    TRY(prepare_common(p, type_in(p, IN_LOSS_GRAD), type_in(p, IN_OBJECT), type_in(p, IN_MATCH)));
    TRY(require_present(p, type_out(p, 0), "X@GRAD"));
    return require_like(p, type_in(p, IN_X), type_out(p, 0), type_in(p, IN_X)->numel, "X@GRAD");
}

/* Two boxes of one prediction: the later one's slopes stand, as in Paddle. */
static void slopes_of_box(const kernel_call *c, int64_t image, int64_t index, int64_t mask, double slope) {
    const yolo_state *s = c->state;
    const tensor *x = arg_in(c, IN_X);
    yolo_box b = given_box(c, index);
    double score = score_of(c, index);
    aim a = aim_at(c, &b, s->masks[mask], score);
    for (int k = 0; k < 4; k++) {
        int64_t at = place_of(s, image, mask, k, a.cell);
        double value = tensor_real(x, at), off = k < 2 ? sigmoid(value) - a.label[k] : value > a.label[k] ? 1 : -1;
        tensor_set_real(arg_out(c, 0), at, off * a.weight * slope);
    }
    for (int64_t k = 0; k < s->classes; k++) {
        int64_t at = place_of(s, image, mask, CLASSES_AT + k, a.cell);
        double off = sigmoid(tensor_real(x, at)) - (is_class(c, index, k) ? s->yes : s->no);
        tensor_set_real(arg_out(c, 0), at, off * score * slope);
    }
}

static weft_status run_grad(const kernel_call *c) {
    const yolo_state *s = c->state;
    int64_t cells = s->rows * s->columns;
    const int32_t *matches = arg_in(c, IN_MATCH)->data;
    tensor_clear(arg_out(c, 0));
    for (int64_t image = 0; image < s->images; image++) {
        double slope = tensor_real(arg_in(c, IN_LOSS_GRAD), image);
        for (int64_t i = image * s->boxes; i < (image + 1) * s->boxes; i++) {
            yolo_box b = given_box(c, i);
            if (matches[i] >= 0 && (size_t)matches[i] < s->nmasks && is_in_image(&b))
                slopes_of_box(c, image, i, matches[i], slope);
        }
        for (int64_t at = 0; at < (int64_t)s->nmasks * cells; at++) {
            double object = tensor_real(arg_in(c, IN_OBJECT), image * (int64_t)s->nmasks * cells + at);
            int64_t place = place_of(s, image, at / cells, OBJECT_AT, at % cells);
            double part = sigmoid(tensor_real(arg_in(c, IN_X), place));
            if (object > -0.5)
                tensor_set_real(arg_out(c, 0), place, (object > 1e-5 ? (part - 1) * object : part) * slope);
        }
    }
    return NULL;
}

const kernel kernel_yolov3_loss = {prepare, run};
const kernel kernel_yolov3_loss_grad = {prepare_grad, run_grad};
