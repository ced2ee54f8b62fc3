/* boxes.c: types of what detectors make: default boxes, coded boxes, bins of boxes, the loss of a YOLO head, and
 * convolution with offsets. */
#include "ops/infer.h"

/* Boxes of a cell: those of ratios that differ (prior_box counts them alike), and one for each of max_sizes. */
weft_status infer_prior_box(infer *i) {
    const shape *input = infer_in(i, 0);
    size_t nmin, nmax, nratios, different = 1;
    (void)attr_floats(i->op, "min_sizes", &nmin);
    (void)attr_floats(i->op, "max_sizes", &nmax);
    const double *ratios = attr_floats(i->op, "aspect_ratios", &nratios);
    if (!shape_known(input)) return NULL;
    if (input->ndim != 4) return infer_error(i, "expected Input of 4 dimensions, found %d", input->ndim);
    for (size_t k = 0; k < nratios; k++) {
        bool there = ratios[k] - 1 < 1e-6 && 1 - ratios[k] < 1e-6;
        for (size_t j = 0; j < k; j++) there = there || (ratios[k] - ratios[j] < 1e-6 && ratios[j] - ratios[k] < 1e-6);
        different += there ? 0 : attr_bool(i->op, "flip", false) ? 2 : 1;
    }
    const int64_t dims[] = {input->dims[2], input->dims[3], (int64_t)(nmin * different + nmax), 4};
    for (int o = 0; o < 2; o++) shape_set(infer_out(i, o), input->dtype, 4, dims);
    return NULL;
}

/* So many boxes of each cell, and their variances. */
static weft_status boxes_of_cells(infer *i, int64_t count, bool flat) {
    const shape *input = infer_in(i, 0);
    if (!shape_known(input)) return NULL;
    if (input->ndim != 4) return infer_error(i, "expected Input of 4 dimensions, found %d", input->ndim);
    const int64_t dims[] = {input->dims[2], input->dims[3], count, 4};
    const int64_t all[] = {extent_mul(extent_mul(dims[0], dims[1]), count), 4};
    for (int o = 0; o < 2; o++) shape_set(infer_out(i, o), input->dtype, flat ? 2 : 4, flat ? all : dims);
    return NULL;
}

weft_status infer_density_prior_box(infer *i) {
    size_t n, nratios;
    const int64_t *densities = attr_ints(i->op, "densities", &n);
    int64_t count = 0;
    (void)attr_floats(i->op, "fixed_ratios", &nratios);
    for (size_t k = 0; k < n; k++) count += densities[k] * densities[k] * (int64_t)nratios;
    return boxes_of_cells(i, count, attr_bool(i->op, "flatten_to_2d", false));
}

weft_status infer_anchor_generator(infer *i) {
    size_t nsizes, nratios;
    (void)attr_floats(i->op, "anchor_sizes", &nsizes);
    (void)attr_floats(i->op, "aspect_ratios", &nratios);
    return boxes_of_cells(i, (int64_t)(nsizes * nratios), false);
}

weft_status infer_box_coder(infer *i) {
    const shape *prior = infer_in(i, 0), *target = infer_in(i, 2);
    if (!shape_known(prior) || !shape_known(target)) return NULL;
    if (target->ndim == 3) return shape_copy_dims(infer_out(i, 0), target, target->dtype), NULL;
    if (prior->ndim != 2 || target->ndim != 2) return infer_error(i, "expected boxes [box, 4]");
    shape_set(infer_out(i, 0), target->dtype, 3, (const int64_t[]){target->dims[0], prior->dims[0], 4});
    return NULL;
}

weft_status infer_iou_similarity(infer *i) {
    const shape *x = infer_in(i, 0), *y = infer_in(i, 1);
    if (!shape_known(x) || !shape_known(y)) return NULL;
    if (x->ndim != 2 || y->ndim != 2) return infer_error(i, "expected boxes [box, 4]");
    shape_set(infer_out(i, 0), x->dtype, 2, (const int64_t[]){x->dims[0], y->dims[0]});
    return NULL;
}

weft_status infer_roi_pool(infer *i) {
    const shape *x = infer_in(i, 0), *boxes = infer_in(i, 1);
    if (!shape_known(x) || !shape_known(boxes)) return NULL;
    if (x->ndim != 4 || boxes->ndim != 2)
        return infer_error(i, "expected X of 4 dimensions and ROIs of 2, found %d and %d", x->ndim, boxes->ndim);
    const int64_t dims[] = {boxes->dims[0], attr_int(i->op, "output_channels", x->dims[1]),
                            attr_int(i->op, "pooled_height", 1), attr_int(i->op, "pooled_width", 1)};
    shape_set(infer_out(i, 0), x->dtype, 4, dims);
    if (schema_output(i->schema, "Argmax") > 0) shape_set(infer_out(i, 1), WEFT_INT64, 4, dims);
    return NULL;
}

weft_status infer_yolov3_loss(infer *i) {
    const shape *x = infer_in(i, 0), *boxes = infer_in(i, 1);
    size_t nmasks;
    (void)attr_ints(i->op, "anchor_mask", &nmasks);
    if (!shape_known(x) || !shape_known(boxes)) return NULL;
    if (x->ndim != 4 || boxes->ndim != 3)
        return infer_error(i, "expected X of 4 dimensions and GTBox of 3, found %d and %d", x->ndim, boxes->ndim);
    shape_set(infer_out(i, 0), x->dtype, 1, x->dims);
    shape_set(infer_out(i, 1), x->dtype, 4, (const int64_t[]){x->dims[0], (int64_t)nmasks, x->dims[2], x->dims[3]});
    shape_set(infer_out(i, 2), WEFT_INT32, 2, boxes->dims);
    return NULL;
}

/* Places are those of the offsets. */
weft_status infer_deformable_conv(infer *i) {
    const shape *x = infer_in(i, 0), *offset = infer_in(i, 1), *filter = infer_in(i, 2);
    if (!shape_known(x) || !shape_known(offset) || !shape_known(filter)) return NULL;
    if (x->ndim != 4 || offset->ndim != 4 || filter->ndim != 4)
        return infer_error(i, "expected Input, Offset and Filter of 4 dimensions");
    shape_set(infer_out(i, 0), x->dtype, 4,
              (const int64_t[]){x->dims[0], filter->dims[0], offset->dims[2], offset->dims[3]});
    return NULL;
}
