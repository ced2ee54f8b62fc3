/* boxes.c: boxes as detectors use them: the default ones of a map (prior_box), their differences from others
 * (box_coder), and how much two of them share (iou_similarity). A box is [left, top, right, bottom]; one that is not
 * normalised counts both of its edges. */
#include <math.h>

#include "executor/kernels/layout.h"

/* --- prior_box ---------------------------------------------------------------------------------------------------- */

enum { MAX_BOXES = 512, PRIOR_INPUT = 0, PRIOR_IMAGE, OUT_BOXES = 0, OUT_VARIANCES };

typedef struct prior_state {
    int64_t rows, columns, count; /* boxes of a cell */
    double height, width, step[2], offset, half[MAX_BOXES][2], variances[4];
    bool clips;
} prior_state;

static void add_half(prior_state *s, double width, double height) {
    if (s->count < MAX_BOXES) s->half[s->count][0] = width / 2, s->half[s->count][1] = height / 2;
    s->count++;
}

/* 1 and the given ratios, each once; flipped ones behind their own. */
static size_t expand_ratios(const double *given, size_t count, bool flips, double *out) {
    size_t n = 0;
    out[n++] = 1;
    for (size_t i = 0; i < count; i++) {
        bool there = false;
        for (size_t k = 0; k < n; k++) there = there || fabs(given[i] - out[k]) < 1e-6;
        if (there) continue;
        out[n++] = given[i];
        if (flips) out[n++] = 1 / given[i];
    }
    return n;
}

static weft_status add_boxes(kernel_prepare *p, prior_state *s) {
    size_t nmin, nmax, ngiven, nratios;
    const double *least = attr_floats(p->op, "min_sizes", &nmin), *most = attr_floats(p->op, "max_sizes", &nmax);
    const double *given = attr_floats(p->op, "aspect_ratios", &ngiven);
    bool squares_first = attr_bool(p->op, "min_max_aspect_ratios_order", false);
    double ratios[MAX_BOXES];
    if (!nmin || (nmax && nmax != nmin))
        return kernel_unsupported(p, "expected min_sizes, and as many max_sizes or none");
    if (2 * ngiven + 1 > MAX_BOXES)
        return kernel_unsupported(p, "expected at most %d aspect_ratios", MAX_BOXES / 2 - 1);
    nratios = expand_ratios(given, ngiven, attr_bool(p->op, "flip", false), ratios);
    for (size_t i = 0; i < nmin; i++) {
        double small = least[i], between = nmax ? sqrt(small * most[i]) : 0;
        if (squares_first) add_half(s, small, small);
        if (squares_first && nmax) add_half(s, between, between);
        for (size_t k = 0; k < nratios; k++)
            if (!squares_first || fabs(ratios[k] - 1) >= 1e-6)
                add_half(s, small * sqrt(ratios[k]), small / sqrt(ratios[k]));
        if (!squares_first && nmax) add_half(s, between, between);
    }
    return s->count <= MAX_BOXES ? NULL : kernel_unsupported(p, "expected at most %d boxes of a cell", MAX_BOXES);
}

static weft_status prepare_prior_box(kernel_prepare *p) {
    prior_state *s = KERNEL_STATE(p, prior_state);
    if (!s) return base_out_of_memory();
    const tensor *input = type_in(p, PRIOR_INPUT), *image = type_in(p, PRIOR_IMAGE), *out = type_out(p, OUT_BOXES);
    size_t nvariances;
    const double *variances = attr_floats(p->op, "variances", &nvariances);
    if (input->ndim != 4 || image->ndim != 4) return kernel_unsupported(p, "expected Input and Image of 4 dimensions");
    if (nvariances != 4) return kernel_unsupported(p, "variances: expected 4 numbers, found %zu", nvariances);
    TRY(require_real(p, out, "Boxes"));
    TRY(add_boxes(p, s));
    s->rows = input->dims[2], s->columns = input->dims[3];
    s->height = (double)image->dims[2], s->width = (double)image->dims[3];
    s->step[0] = attr_float(p->op, "step_w", 0), s->step[1] = attr_float(p->op, "step_h", 0);
    if (s->step[0] == 0 || s->step[1] == 0)
        s->step[0] = s->width / (double)s->columns, s->step[1] = s->height / (double)s->rows;
    s->offset = attr_float(p->op, "offset", 0.5);
    s->clips = attr_bool(p->op, "clip", false);
    for (int k = 0; k < 4; k++) s->variances[k] = variances[k];
    TRY(require_numel(p, out, s->rows * s->columns * s->count * 4, "Boxes"));
    return require_like(p, out, type_out(p, OUT_VARIANCES), out->numel, "Variances");
}

static weft_status run_prior_box(const kernel_call *c) {
    const prior_state *s = c->state;
    for (int64_t i = 0; i < s->rows * s->columns * s->count; i++) {
        int64_t cell = i / s->count;
        const double *half = s->half[i % s->count], size[2] = {s->width, s->height};
        double middle[2] = {((double)(cell % s->columns) + s->offset) * s->step[0],
                            ((double)(cell / s->columns) + s->offset) * s->step[1]};
        for (int k = 0; k < 4; k++) {
            double edge = (middle[k % 2] + (k < 2 ? -half[k % 2] : half[k % 2])) / size[k % 2];
            tensor_set_real(arg_out(c, OUT_BOXES), 4 * i + k, s->clips ? fmin(fmax(edge, 0), 1) : edge);
            if (arg_out(c, OUT_VARIANCES)) tensor_set_real(arg_out(c, OUT_VARIANCES), 4 * i + k, s->variances[k]);
        }
    }
    return NULL;
}

const kernel kernel_prior_box = {prepare_prior_box, run_prior_box};

/* --- box_coder ---------------------------------------------------------------------------------------------------- */

enum { CODER_PRIOR, CODER_VARIANCES, CODER_TARGET };

typedef struct coder_state {
    int64_t rows, columns;
    bool encodes, by_row; /* by_row: a row of targets shares a prior */
    double edge;          /* what an extent counts beside the difference of its edges */
    double variances[4];
} coder_state;

static weft_status prepare_box_coder(kernel_prepare *p) {
    coder_state *s = KERNEL_STATE(p, coder_state);
    if (!s) return base_out_of_memory();
    const tensor *prior = type_in(p, CODER_PRIOR), *target = type_in(p, CODER_TARGET), *out = type_out(p, 0);
    const char *code = attr_string(p->op, "code_type", "encode_center_size");
    size_t nvariances;
    const double *variances = attr_floats(p->op, "variance", &nvariances);
    s->encodes = strcmp(code, "encode_center_size") == 0;
    if (!s->encodes && strcmp(code, "decode_center_size") != 0)
        return kernel_unsupported(p, "code_type: expected encode_center_size or decode_center_size, found %s", code);
    TRY(require_real(p, target, "TargetBox"));
    TRY(require_present(p, prior, "PriorBox"));
    if (prior->ndim != 2 || target->ndim != (s->encodes ? 2 : 3) || (nvariances && nvariances != 4))
        return kernel_unsupported(p, "expected PriorBox [box, 4], TargetBox of %d dimensions, and 4 variances or none",
                                  s->encodes ? 2 : 3);
    s->by_row = !s->encodes && attr_int(p->op, "axis", 0) == 1;
    s->rows = target->dims[0];
    s->columns = s->encodes ? prior->dims[0] : target->dims[1];
    s->edge = attr_bool(p->op, "box_normalized", true) ? 0 : 1;
    for (int k = 0; k < 4; k++) s->variances[k] = nvariances ? variances[k] : 1;
    TRY(require_like(p, target, prior, 4 * (s->by_row ? s->rows : s->columns), "PriorBox"));
    TRY(require_like(p, target, type_in(p, CODER_VARIANCES), prior->numel, "PriorBoxVar"));
    TRY(require_like(p, target, target, 4 * s->rows * (s->encodes ? 1 : s->columns), "TargetBox"));
    return require_like(p, target, out, 4 * s->rows * s->columns, "OutputBox");
}

/* The middle and the extent of a box in one direction. */
static void span_of(const tensor *t, int64_t box, int way, double edge, double *out_middle, double *out_extent) {
    double from = tensor_real(t, 4 * box + way);
    *out_extent = tensor_real(t, 4 * box + way + 2) - from + edge;
    *out_middle = from + *out_extent / 2;
}

static weft_status run_box_coder(const kernel_call *c) {
    const coder_state *s = c->state;
    const tensor *prior = arg_in(c, CODER_PRIOR), *spread = arg_in(c, CODER_VARIANCES), *x = arg_in(c, CODER_TARGET);
    tensor *out = arg_out(c, 0);
    for (int64_t i = 0; i < s->rows * s->columns; i++) {
        int64_t row = i / s->columns, box = s->by_row ? row : i % s->columns;
        for (int way = 0; way < 2; way++) {
            double middle, extent, by[2];
            span_of(prior, box, way, s->edge, &middle, &extent);
            for (int k = 0; k < 2; k++)
                by[k] = spread ? tensor_real(spread, 4 * box + way + 2 * k) : s->variances[way + 2 * k];
            if (s->encodes) {
                double from = tensor_real(x, 4 * row + way), to = tensor_real(x, 4 * row + way + 2);
                tensor_set_real(out, 4 * i + way, ((from + to) / 2 - middle) / extent / by[0]);
                tensor_set_real(out, 4 * i + way + 2, log(fabs((to - from + s->edge) / extent)) / by[1]);
            } else {
                double at = by[0] * tensor_real(x, 4 * i + way) * extent + middle;
                double width = exp(by[1] * tensor_real(x, 4 * i + way + 2)) * extent;
                tensor_set_real(out, 4 * i + way, at - width / 2);
                tensor_set_real(out, 4 * i + way + 2, at + width / 2 - s->edge);
            }
        }
    }
    return NULL;
}

const kernel kernel_box_coder = {prepare_box_coder, run_box_coder};

/* --- iou_similarity ----------------------------------------------------------------------------------------------- */

static weft_status prepare_iou_similarity(kernel_prepare *p) {
    double *edge = KERNEL_STATE(p, double);
    if (!edge) return base_out_of_memory();
    const tensor *x = type_in(p, 0), *y = type_in(p, 1);
    *edge = attr_bool(p->op, "box_normalized", true) ? 0 : 1;
    TRY(require_real(p, x, "X"));
    TRY(require_present(p, y, "Y"));
    if (x->ndim != 2 || y->ndim != 2 || x->dims[1] != 4 || y->dims[1] != 4)
        return kernel_unsupported(p, "expected boxes [box, 4]");
    TRY(require_like(p, x, y, y->numel, "Y"));
    return require_like(p, x, type_out(p, 0), x->dims[0] * y->dims[0], "Out");
}

static weft_status run_iou_similarity(const kernel_call *c) {
    double edge = *(const double *)c->state;
    const tensor *x = arg_in(c, 0), *y = arg_in(c, 1);
    for (int64_t i = 0; i < arg_out(c, 0)->numel; i++) {
        double first = 1, second = 1, shared = 1;
        for (int way = 0; way < 2; way++) {
            int64_t a = 4 * (i / y->dims[0]) + way, b = 4 * (i % y->dims[0]) + way;
            double from = fmax(tensor_real(x, a), tensor_real(y, b));
            double to = fmin(tensor_real(x, a + 2), tensor_real(y, b + 2));
            first *= tensor_real(x, a + 2) - tensor_real(x, a) + edge;
            second *= tensor_real(y, b + 2) - tensor_real(y, b) + edge;
            shared *= fmax(to - from + edge, 0);
        }
        tensor_set_real(arg_out(c, 0), i, shared / (first + second - shared));
    }
    return NULL;
}

const kernel kernel_iou_similarity = {prepare_iou_similarity, run_iou_similarity};
