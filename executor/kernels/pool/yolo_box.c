/* yolo_box.c: boxes and scores from the map of a YOLO head: each cell of a grid says where a box lies around it, by the
 * size of an anchor. A box whose confidence is below the threshold is 0, and so are its scores. Paddle:
 * phi/kernels/cpu/yolo_box_kernel.cc. */
#include <math.h>

#include "executor/kernels/layout.h"

enum { IN_X, IN_SIZE, OUT_BOXES = 0, OUT_SCORES };

typedef struct yolo_state {
    int64_t images, anchors, classes, rows, columns, stride; /* stride: pixels of a cell */
    const int64_t *sizes;
    double threshold, scale, share;
    bool clips, aware;
} yolo_state;

static weft_status prepare(kernel_prepare *p) {
    yolo_state *s = KERNEL_STATE(p, yolo_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *size = type_in(p, IN_SIZE);
    size_t nsizes;
    TRY(require_real(p, x, "X"));
    TRY(require_present(p, size, "ImgSize"));
    TRY(require_present(p, type_out(p, OUT_BOXES), "Boxes"));
    TRY(require_present(p, type_out(p, OUT_SCORES), "Scores"));
    const int64_t *sizes = attr_ints(p->op, "anchors", &nsizes);
    s->sizes = arena_copy(p->arena, sizes, nsizes * sizeof *sizes);
    if (nsizes && !s->sizes) return base_out_of_memory();
    s->anchors = (int64_t)nsizes / 2;
    s->classes = attr_int(p->op, "class_num", 1);
    s->aware = attr_bool(p->op, "iou_aware", false);
    if (x->ndim != 4 || s->anchors < 1 || s->classes < 1 || x->dims[1] != s->anchors * (5 + s->classes + s->aware))
        return kernel_unsupported(p, "expected X [image, anchors * (5 + classes), row, column]");
    s->images = x->dims[0], s->rows = x->dims[2], s->columns = x->dims[3];
    s->stride = attr_int(p->op, "downsample_ratio", 32);
    s->threshold = attr_float(p->op, "conf_thresh", 0.01);
    s->scale = attr_float(p->op, "scale_x_y", 1);
    s->share = attr_float(p->op, "iou_aware_factor", 0.5);
    s->clips = attr_bool(p->op, "clip_bbox", true);
    int64_t boxes = s->images * s->anchors * s->rows * s->columns;
    TRY(require_numel(p, size, 2 * s->images, "ImgSize"));
    TRY(require_like(p, x, type_out(p, OUT_BOXES), 4 * boxes, "Boxes"));
    return require_like(p, x, type_out(p, OUT_SCORES), s->classes * boxes, "Scores");
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static void write_box(const kernel_call *c, const yolo_state *s, const double cell[4], int64_t image, int64_t box) {
    double high = (double)tensor_integer(arg_in(c, IN_SIZE), 2 * image);
    double wide = (double)tensor_integer(arg_in(c, IN_SIZE), 2 * image + 1);
    double edge[4] = {cell[0] * wide - cell[2] * wide / 2, cell[1] * high - cell[3] * high / 2,
                      cell[0] * wide + cell[2] * wide / 2, cell[1] * high + cell[3] * high / 2};
    for (int k = 0; k < 4; k++) {
        if (s->clips && k < 2 && edge[k] < 0) edge[k] = 0;
        if (s->clips && k >= 2) edge[k] = fmin(edge[k], (k == 2 ? wide : high) - 1);
        tensor_set_real(arg_out(c, OUT_BOXES), 4 * box + k, edge[k]);
    }
}

static weft_status run(const kernel_call *c) {
    const yolo_state *s = c->state;
    const tensor *x = arg_in(c, IN_X);
    tensor *boxes = arg_out(c, OUT_BOXES), *scores = arg_out(c, OUT_SCORES);
    int64_t cells = s->rows * s->columns, parts = 5 + s->classes, channels = s->anchors * (parts + s->aware);
    double bias = -0.5 * (s->scale - 1);
    tensor_clear(boxes);
    tensor_clear(scores);
    for (int64_t box = 0; box < s->images * s->anchors * cells; box++) {
        int64_t cell = box % cells, anchor = box / cells % s->anchors, image = box / cells / s->anchors;
        int64_t first = image * channels * cells + cell;
        int64_t own = first + ((s->aware ? s->anchors : 0) + anchor * parts) * cells;
        double sure = sigmoid(tensor_real(x, own + 4 * cells));
        if (s->aware) sure = pow(sure, 1 - s->share) * pow(sigmoid(tensor_real(x, first + anchor * cells)), s->share);
        if (!(sure >= s->threshold)) continue;
        double shares[4] = {
            ((double)(cell % s->columns) + sigmoid(tensor_real(x, own)) * s->scale + bias) / (double)s->columns,
            ((double)(cell / s->columns) + sigmoid(tensor_real(x, own + cells)) * s->scale + bias) / (double)s->rows,
            exp(tensor_real(x, own + 2 * cells)) * (double)s->sizes[2 * anchor] / (double)(s->stride * s->columns),
            exp(tensor_real(x, own + 3 * cells)) * (double)s->sizes[2 * anchor + 1] / (double)(s->stride * s->rows)};
        write_box(c, s, shares, image, box);
        for (int64_t k = 0; k < s->classes; k++)
            tensor_set_real(scores, box * s->classes + k, sure * sigmoid(tensor_real(x, own + (5 + k) * cells)));
    }
    return NULL;
}

const kernel kernel_yolo_box = {prepare, run};
