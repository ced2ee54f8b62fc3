/* anchors.c: default boxes of each cell of a map: dense ones (density_prior_box), and anchors of areas and aspect
 * ratios (anchor_generator). A box is [left, top, right, bottom]. Source:
 * fluid/operators/detection/density_prior_box_op.h, anchor_generator_op.h. */
#include <math.h>

#include "executor/kernels/layout.h"

enum { IN_INPUT, IN_IMAGE, OUT_BOXES = 0, OUT_VARIANCES, VARIANCES = 4 };

typedef struct anchors {
    int64_t rows, columns, count; /* boxes of a cell */
    double width, height;         /* of the image */
    double step[2], offset, variances[VARIANCES];
    const double *sizes, *ratios;
    const int64_t *densities;
    size_t nsizes, nratios;
    bool clips;
} anchors;

/* What both ops have: a map, sizes, ratios and variances; `count` boxes of a cell. */
static weft_status prepare_boxes(kernel_prepare *p, anchors *s, int64_t count) {
    const tensor *input = type_in(p, IN_INPUT), *out = type_out(p, OUT_BOXES);
    size_t nvariances;
    const double *variances = attr_floats(p->op, "variances", &nvariances);
    TRY(require_present(p, input, "Input"));
    if (input->ndim != 4) return kernel_unsupported(p, "expected Input of 4 dimensions, found %d", input->ndim);
    if (nvariances != VARIANCES) return kernel_unsupported(p, "variances: expected 4 numbers, found %zu", nvariances);
    memcpy(s->variances, variances, sizeof s->variances);
    s->rows = input->dims[2];
    s->columns = input->dims[3];
    s->count = count;
    s->offset = attr_float(p->op, "offset", 0.5);
    TRY(require_real(p, out, "boxes"));
    TRY(require_numel(p, out, s->rows * s->columns * count * 4, "boxes"));
    return require_like(p, out, type_out(p, OUT_VARIANCES), out->numel, "Variances");
}

static void put_box(const kernel_call *c, const anchors *s, int64_t at, const double box[4]) {
    for (int k = 0; k < 4; k++) {
        tensor_set_real(arg_out(c, OUT_BOXES), 4 * at + k, box[k]);
        if (arg_out(c, OUT_VARIANCES)) tensor_set_real(arg_out(c, OUT_VARIANCES), 4 * at + k, s->variances[k]);
    }
}

/* --- density_prior_box: of each size and ratio a square of boxes ------------------------------------------------- */

static weft_status prepare_density(kernel_prepare *p) {
    anchors *s = KERNEL_STATE(p, anchors);
    if (!s) return base_out_of_memory();
    const tensor *input = type_in(p, IN_INPUT), *image = type_in(p, IN_IMAGE);
    size_t ndensities;
    int64_t count = 0;
    s->sizes = attr_floats(p->op, "fixed_sizes", &s->nsizes);
    s->ratios = attr_floats(p->op, "fixed_ratios", &s->nratios);
    s->densities = attr_ints(p->op, "densities", &ndensities);
    if (ndensities != s->nsizes)
        return kernel_unsupported(p, "expected a density for each of %zu fixed_sizes, found %zu", s->nsizes,
                                  ndensities);
    for (size_t k = 0; k < ndensities; k++) {
        if (s->densities[k] < 1) return kernel_unsupported(p, "expected densities of 1 or more");
        count += s->densities[k] * s->densities[k] * (int64_t)s->nratios;
    }
    TRY(prepare_boxes(p, s, count));
    TRY(require_present(p, image, "Image"));
    if (image->ndim != 4) return kernel_unsupported(p, "expected Image of 4 dimensions, found %d", image->ndim);
    s->height = (double)image->dims[2];
    s->width = (double)image->dims[3];
    s->step[0] = attr_float(p->op, "step_w", 0);
    s->step[1] = attr_float(p->op, "step_h", 0);
    if (s->step[0] == 0 || s->step[1] == 0) {
        s->step[0] = s->width / (double)input->dims[3];
        s->step[1] = s->height / (double)input->dims[2];
    }
    s->clips = attr_bool(p->op, "clip", false);
    return NULL;
}

static double within(double x) {
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

/* The square of boxes of one size and ratio around the middle of a cell; *at is the next box. */
static void put_square(const kernel_call *c, const anchors *s, size_t size, size_t ratio, const double middle[2],
                       int64_t *at) {
    int64_t n = s->densities[size], step = (int64_t)((s->step[0] + s->step[1]) / 2), apart = step / n;
    double root = sqrt(s->ratios[ratio]), half[2] = {s->sizes[size] * root / 2, s->sizes[size] / root / 2};
    double first = (double)apart / 2 - (double)step / 2;
    for (int64_t k = 0; k < n * n; k++) {
        double x = middle[0] + first + (double)(k % n * apart), y = middle[1] + first + (double)(k / n * apart);
        double box[4] = {fmax((x - half[0]) / s->width, 0), fmax((y - half[1]) / s->height, 0),
                         fmin((x + half[0]) / s->width, 1), fmin((y + half[1]) / s->height, 1)};
        for (int e = 0; e < 4 && s->clips; e++) box[e] = within(box[e]);
        put_box(c, s, (*at)++, box);
    }
}

static weft_status run_density(const kernel_call *c) {
    const anchors *s = c->state;
    int64_t at = 0;
    for (int64_t cell = 0; cell < s->rows * s->columns; cell++) {
        double middle[2] = {((double)(cell % s->columns) + s->offset) * s->step[0],
                            ((double)(cell / s->columns) + s->offset) * s->step[1]};
        for (size_t size = 0; size < s->nsizes; size++)
            for (size_t ratio = 0; ratio < s->nratios; ratio++) put_square(c, s, size, ratio, middle, &at);
    }
    return NULL;
}

const kernel kernel_density_prior_box = {prepare_density, run_density};

/* --- anchor_generator: of each ratio a box of each size; both edges count ----------------------------------------- */

static weft_status prepare_anchors(kernel_prepare *p) {
    anchors *s = KERNEL_STATE(p, anchors);
    if (!s) return base_out_of_memory();
    size_t nsteps;
    const double *step = attr_floats(p->op, "stride", &nsteps);
    s->sizes = attr_floats(p->op, "anchor_sizes", &s->nsizes);
    s->ratios = attr_floats(p->op, "aspect_ratios", &s->nratios);
    if (nsteps != 2) return kernel_unsupported(p, "stride: expected 2 numbers, found %zu", nsteps);
    memcpy(s->step, step, sizeof s->step);
    return prepare_boxes(p, s, (int64_t)(s->nsizes * s->nratios));
}

static weft_status run_anchors(const kernel_call *c) {
    const anchors *s = c->state;
    for (int64_t i = 0; i < s->rows * s->columns * s->count; i++) {
        int64_t cell = i / s->count, kind = i % s->count;
        double size = s->sizes[kind % (int64_t)s->nsizes], ratio = s->ratios[kind / (int64_t)s->nsizes];
        double base = round(sqrt(s->step[0] * s->step[1] / ratio));
        double half[2] = {(size / s->step[0] * base - 1) / 2, (size / s->step[1] * round(base * ratio) - 1) / 2};
        double x = (double)(cell % s->columns) * s->step[0] + s->offset * (s->step[0] - 1);
        double y = (double)(cell / s->columns) * s->step[1] + s->offset * (s->step[1] - 1);
        put_box(c, s, i, (double[4]){x - half[0], y - half[1], x + half[0], y + half[1]});
    }
    return NULL;
}

const kernel kernel_anchor_generator = {prepare_anchors, run_anchors};
