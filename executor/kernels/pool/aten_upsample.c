/* aten_upsample.c: images of another size, by the nearest element, linearly or by cubic curves along each spatial
 * dimension, and gradients (torch: aten/src/ATen/native/{UpSample.h,cpu/UpSampleKernel.cpp}). Places are computed in
 * the elements' own type, as there. */
#include <math.h>

#include "executor/kernels/layout.h"

enum { SPATIAL = 3, TAPS = 4 };

typedef enum resize_mode { NEAREST, NEAREST_EXACT, LINEAR, CUBIC } resize_mode;

typedef struct resize_axis {
    int64_t from, to; /* extents of the small and the large image, whichever is which */
    double scale;     /* that attrs give; 0: from / to */
} resize_axis;

typedef struct upsample_state {
    resize_axis axis[SPATIAL];
    int naxes;
    int64_t planes, from_numel, to_numel; /* elements of a plane */
    resize_mode mode;
    bool align_corners;
} upsample_state;

/* The factor of an axis that attrs give, or 0; the last axes are height and width. */
static double factor_of(const kernel_prepare *p, int axis, int naxes) {
    static const char *const attrs[SPATIAL] = {"scales_d", "scales_h", "scales_w"};
    size_t nfactors;
    const double *factors = attr_floats(p->op, "scale_factors", &nfactors);
    if (nfactors == (size_t)naxes) return factors[axis];
    return attr_float(p->op, attrs[SPATIAL - naxes + axis], 0);
}

/* x: what is resized; y: to what. */
static weft_status prepare_common(kernel_prepare *p, const tensor *x, const tensor *y, resize_mode mode) {
    upsample_state *s = KERNEL_STATE(p, upsample_state);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, x, "the image"));
    TRY(require_present(p, y, "the other image"));
    TRY(require_same_dtype(p, x, y, "the other image"));
    s->naxes = (int)attr_int(p->op, "ndim", 2);
    if (s->naxes < 1 || s->naxes > SPATIAL || x->ndim != s->naxes + 2 || y->ndim != x->ndim ||
        x->dims[0] != y->dims[0] || x->dims[1] != y->dims[1])
        return kernel_unsupported(p, "expected images of %d dimensions with equal channels", s->naxes + 2);
    s->planes = x->dims[0] * x->dims[1];
    s->from_numel = s->to_numel = 1;
    for (int d = s->naxes; d < SPATIAL; d++) s->axis[d] = (resize_axis){1, 1, 0}; /* not there */
    for (int d = 0; d < s->naxes; d++) {
        double given = factor_of(p, d, s->naxes);
        s->axis[d] = (resize_axis){x->dims[2 + d], y->dims[2 + d], given > 0 ? 1 / given : 0};
        s->from_numel *= x->dims[2 + d];
        s->to_numel *= y->dims[2 + d];
    }
    s->align_corners = attr_bool(p->op, "align_corners", false);
    s->mode = mode;
    return NULL;
}

static weft_status mode_of(const kernel_prepare *p, resize_mode *out) {
    static const char *const words[] = {
        [NEAREST] = "nearest", [NEAREST_EXACT] = "nearest_exact", [LINEAR] = "linear", [CUBIC] = "cubic"};
    const char *word = attr_string(p->op, "mode", words[NEAREST]);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], word) == 0) return *out = (resize_mode)i, NULL;
    return kernel_unsupported(p, "mode: expected nearest, nearest_exact, linear or cubic, found \"%s\"", word);
}

static weft_status prepare_nearest(kernel_prepare *p) {
    return prepare_common(p, type_in(p, 0), type_out(p, 0), NEAREST);
}
static weft_status prepare_bilinear(kernel_prepare *p) {
    return prepare_common(p, type_in(p, 0), type_out(p, 0), LINEAR);
}
static weft_status prepare_any(kernel_prepare *p) {
    resize_mode mode = NEAREST;
    TRY(mode_of(p, &mode));
    return prepare_common(p, type_in(p, 0), type_out(p, 0), mode);
}
static weft_status prepare_nearest_backward(kernel_prepare *p) {
    return prepare_common(p, type_out(p, 0), type_in(p, 0), NEAREST);
}
static weft_status prepare_bilinear_backward(kernel_prepare *p) {
    return prepare_common(p, type_out(p, 0), type_in(p, 0), LINEAR);
}
static weft_status prepare_any_backward(kernel_prepare *p) {
    resize_mode mode = NEAREST;
    TRY(mode_of(p, &mode));
    return prepare_common(p, type_out(p, 0), type_in(p, 0), mode);
}

#define TEMPLATE "executor/kernels/pool/aten_upsample_real.h"
#include "executor/kernels/each_real.h"

static weft_status run(const kernel_call *c) {
    const upsample_state *s = c->state;
    const tensor *x = arg_in(c, 0), *y = arg_out(c, 0);
    if (!y->numel) return NULL;
    if (x->dtype == WEFT_FP64)
        resize_fp64(s, x->data, y->data);
    else
        resize_fp32(s, x->data, y->data);
    return NULL;
}

static weft_status run_backward(const kernel_call *c) {
    const upsample_state *s = c->state;
    const tensor *dy = arg_in(c, 0);
    tensor *dx = arg_out(c, 0);
    if (!dx->numel) return NULL;
    tensor_clear(dx);
    if (dy->dtype == WEFT_FP64)
        spread_fp64(s, dx->data, dy->data);
    else
        spread_fp32(s, dx->data, dy->data);
    return NULL;
}

const kernel kernel_aten_upsample_nearest2d = {prepare_nearest, run};
const kernel kernel_aten_upsample_bilinear2d = {prepare_bilinear, run};
const kernel kernel_aten_upsample = {prepare_any, run};
const kernel kernel_aten_upsample_nearest2d_backward = {prepare_nearest_backward, run_backward};
const kernel kernel_aten_upsample_bilinear2d_backward = {prepare_bilinear_backward, run_backward};
const kernel kernel_aten_upsample_backward = {prepare_any_backward, run_backward};
