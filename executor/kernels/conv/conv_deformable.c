/* conv_deformable.c: convolution whose every sample is moved by an offset of its own, and weighed by a mask
 * (deformable_conv; deformable_conv_v1 has no mask), and the gradients. Dai et al. (2017), Zhu et al. (2019);
 * phi/kernels/impl/deformable_conv_kernel_impl.h.
 *
 * An image's samples become columns [channel and tap, place], which the filter multiplies, group by group. A sample
 * lies between four elements; those beyond the border are 0. */
#include <math.h>

#include "executor/kernels/layout.h"

enum { IN_X, IN_OFFSET, IN_FILTER, IN_MASK, IN_OUT_GRAD, CORNERS = 4 };
enum { OUT_X, OUT_OFFSET, OUT_FILTER, OUT_MASK };

typedef struct deform_state {
    int64_t images, channels, height, width, filters, taps[2], rows, columns, groups, parts;
    const int64_t *stride, *pad, *dilation;
    int mask, grad;        /* slots; mask -1: there is none */
    int64_t depth, places; /* of the columns */
} deform_state;

static weft_status prepare_common(kernel_prepare *p, const tensor *out, int mask, int grad) {
    deform_state *s = KERNEL_STATE(p, deform_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *offset = type_in(p, IN_OFFSET), *filter = type_in(p, IN_FILTER);
    size_t counts[3];
    TRY(require_real(p, x, "Input"));
    TRY(require_present(p, offset, "Offset"));
    TRY(require_present(p, filter, "Filter"));
    TRY(require_present(p, out, "Output"));
    s->mask = mask, s->grad = grad;
    s->stride = attr_ints(p->op, "strides", &counts[0]);
    s->pad = attr_ints(p->op, "paddings", &counts[1]);
    s->dilation = attr_ints(p->op, "dilations", &counts[2]);
    s->groups = attr_int(p->op, "groups", 1), s->parts = attr_int(p->op, "deformable_groups", 1);
    if (counts[0] != 2 || counts[1] != 2 || counts[2] != 2)
        return kernel_unsupported(p, "strides, paddings, dilations: expected 2 numbers");
    if (x->ndim != 4 || filter->ndim != 4 || out->ndim != 4 || s->groups < 1 || s->parts < 1)
        return kernel_unsupported(p, "expected tensors of 4 dimensions and groups of 1 or more");
    s->images = x->dims[0], s->channels = x->dims[1], s->height = x->dims[2], s->width = x->dims[3];
    s->filters = filter->dims[0], s->taps[0] = filter->dims[2], s->taps[1] = filter->dims[3];
    s->rows = out->dims[2], s->columns = out->dims[3];
    s->places = s->rows * s->columns;
    int64_t taps = s->taps[0] * s->taps[1];
    s->depth = s->channels * taps;
    if (s->channels % s->groups || s->channels % s->parts || s->filters % s->groups ||
        filter->dims[1] != s->channels / s->groups)
        return kernel_unsupported(p, "expected groups that divide %lld channels and %lld filters",
                                  (long long)s->channels, (long long)s->filters);
    TRY(require_like(p, x, out, s->images * s->filters * s->places, "Output"));
    TRY(require_like(p, x, filter, filter->numel, "Filter"));
    TRY(require_like(p, x, offset, s->images * s->parts * 2 * taps * s->places, "Offset"));
    if (mask >= 0) TRY(require_present(p, type_in(p, mask), "Mask"));
    if (mask >= 0) TRY(require_like(p, x, type_in(p, mask), s->images * s->parts * taps * s->places, "Mask"));
    int64_t filter_size = filter->numel, out_size = s->filters * s->places;
    p->workspace_nbytes = (size_t)(2 * s->depth * s->places + 2 * filter_size + out_size) * sizeof(double);
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_common(p, type_out(p, 0), IN_MASK, -1);
}
static weft_status prepare_v1(kernel_prepare *p) {
    return prepare_common(p, type_out(p, 0), -1, -1);
}

static weft_status prepare_grad_of(kernel_prepare *p, int mask, int grad) {
    TRY(prepare_common(p, type_in(p, grad), mask, grad));
    const tensor *x = type_in(p, IN_X);
    for (size_t o = 0; o < p->schema->noutputs; o++)
        TRY(require_like(p, x, type_out(p, (int)o), type_in(p, (int)o)->numel, p->schema->outputs[o].name));
    return NULL;
}
static weft_status prepare_grad(kernel_prepare *p) {
    return prepare_grad_of(p, IN_MASK, IN_OUT_GRAD);
}
static weft_status prepare_v1_grad(kernel_prepare *p) {
    return prepare_grad_of(p, -1, IN_MASK);
}

/* --- samples ------------------------------------------------------------------------------------------------------ */

/* Where row `k` of an image's columns takes what it has at a place. */
typedef struct sample {
    int64_t offset[2], mask;                  /* elements of Offset and Mask */
    double weight;                            /* of the mask */
    int64_t at[CORNERS];                      /* elements of Input; -1: beyond the border */
    double share[CORNERS], slope[2][CORNERS]; /* and how the shares change by row and by column */
} sample;

static sample sample_at(const kernel_call *c, int64_t image, int64_t k, int64_t place) {
    const deform_state *s = c->state;
    int64_t taps = s->taps[0] * s->taps[1], channel = k / taps, tap = k % taps,
            part = channel / (s->channels / s->parts);
    int64_t first = (image * s->parts + part) * taps + tap, whole[2];
    const int64_t where[2] = {place / s->columns, place % s->columns}, of[2] = {tap / s->taps[1], tap % s->taps[1]};
    const int64_t extent[2] = {s->height, s->width};
    sample m = {.mask = first * s->places + place, .weight = 1};
    double along[2];
    bool inside = true;
    for (int d = 0; d < 2; d++) {
        m.offset[d] = (2 * first + d) * s->places + place;
        double at = (double)(where[d] * s->stride[d] - s->pad[d] + of[d] * s->dilation[d]) +
                    tensor_real(arg_in(c, IN_OFFSET), m.offset[d]);
        inside = inside && at > -1 && at < (double)extent[d];
        whole[d] = inside ? (int64_t)floor(at) : 0;
        along[d] = at - (double)whole[d];
    }
    if (s->mask >= 0) m.weight = tensor_real(arg_in(c, s->mask), m.mask);
    for (int i = 0; i < CORNERS; i++) {
        int64_t row = whole[0] + i / 2, column = whole[1] + i % 2;
        bool is_there = inside && row >= 0 && row < s->height && column >= 0 && column < s->width;
        double down = i / 2 ? along[0] : 1 - along[0], across = i % 2 ? along[1] : 1 - along[1];
        m.at[i] = is_there ? ((image * s->channels + channel) * s->height + row) * s->width + column : -1;
        m.share[i] = down * across;
        m.slope[0][i] = i / 2 ? across : -across;
        m.slope[1][i] = i % 2 ? down : -down;
    }
    return m;
}

static double mix(const tensor *x, const sample *m, const double *share) {
    double sum = 0;
    for (int i = 0; i < CORNERS; i++)
        if (m->at[i] >= 0) sum += share[i] * tensor_real(x, m->at[i]);
    return sum;
}

static void fill_columns(const kernel_call *c, int64_t image, double *columns) {
    const deform_state *s = c->state;
    for (int64_t i = 0; i < s->depth * s->places; i++) {
        sample m = sample_at(c, image, i / s->places, i % s->places);
        columns[i] = m.weight * mix(arg_in(c, IN_X), &m, m.share);
    }
}

static void load(const tensor *t, int64_t first, int64_t count, double *out) {
    for (int64_t i = 0; i < count; i++) out[i] = tensor_real(t, first + i);
}

static weft_status run(const kernel_call *c) {
    const deform_state *s = c->state;
    int64_t own = s->filters / s->groups, depth = s->depth / s->groups, size = s->filters * s->places;
    double *columns = c->workspace, *filter = columns + s->depth * s->places, *out = filter + s->filters * depth;
    load(arg_in(c, IN_FILTER), 0, s->filters * depth, filter);
    for (int64_t image = 0; image < s->images; image++) {
        fill_columns(c, image, columns);
        for (int64_t g = 0; g < s->groups; g++)
            gemm_f64(false, false, own, s->places, depth, 1, filter + g * own * depth, depth,
                     columns + g * depth * s->places, s->places, 0, out + g * own * s->places, s->places);
        for (int64_t i = 0; i < size; i++) tensor_set_real(arg_out(c, 0), image * size + i, out[i]);
    }
    return NULL;
}

/* --- gradients ---------------------------------------------------------------------------------------------------- */

/* From the slopes of an image's columns to those of what they were made of. */
static void spread(const kernel_call *c, int64_t image, const double *slopes) {
    const deform_state *s = c->state;
    tensor *dx = arg_out(c, OUT_X), *doffset = arg_out(c, OUT_OFFSET);
    tensor *dmask = s->mask >= 0 ? arg_out(c, OUT_MASK) : NULL;
    for (int64_t i = 0; i < s->depth * s->places; i++) {
        sample m = sample_at(c, image, i / s->places, i % s->places);
        for (int k = 0; k < CORNERS; k++)
            if (m.at[k] >= 0) tensor_add_real(dx, m.at[k], slopes[i] * m.weight * m.share[k]);
        for (int d = 0; d < 2; d++)
            tensor_add_real(doffset, m.offset[d], slopes[i] * m.weight * mix(arg_in(c, IN_X), &m, m.slope[d]));
        tensor_add_real(dmask, m.mask, slopes[i] * mix(arg_in(c, IN_X), &m, m.share));
    }
}

static weft_status run_grad(const kernel_call *c) {
    const deform_state *s = c->state;
    int64_t own = s->filters / s->groups, depth = s->depth / s->groups, size = s->filters * s->places;
    double *columns = c->workspace, *slopes = columns + s->depth * s->places, *filter = slopes + s->depth * s->places;
    double *dfilter = filter + s->filters * depth, *out = dfilter + s->filters * depth;
    load(arg_in(c, IN_FILTER), 0, s->filters * depth, filter);
    memset(dfilter, 0, (size_t)(s->filters * depth) * sizeof *dfilter);
    for (size_t o = 0; o < c->schema->noutputs; o++) tensor_clear(arg_out(c, (int)o));
    for (int64_t image = 0; image < s->images; image++) {
        load(arg_in(c, s->grad), image * size, size, out);
        fill_columns(c, image, columns);
        for (int64_t g = 0; g < s->groups; g++) {
            const double *of = out + g * own * s->places;
            double *from = columns + g * depth * s->places, *to = slopes + g * depth * s->places;
            gemm_f64(false, true, own, depth, s->places, 1, of, s->places, from, s->places, 1,
                     dfilter + g * own * depth, depth);
            gemm_f64(true, false, depth, s->places, own, 1, filter + g * own * depth, depth, of, s->places, 0, to,
                     s->places);
        }
        spread(c, image, slopes);
    }
    for (int64_t i = 0; arg_out(c, OUT_FILTER) && i < s->filters * depth; i++)
        tensor_set_real(arg_out(c, OUT_FILTER), i, dfilter[i]);
    return NULL;
}

const kernel kernel_deformable_conv = {prepare, run};
const kernel kernel_deformable_conv_v1 = {prepare_v1, run};
const kernel kernel_deformable_conv_grad = {prepare_grad, run_grad};
const kernel kernel_deformable_conv_v1_grad = {prepare_v1_grad, run_grad};
