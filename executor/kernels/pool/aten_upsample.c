/* aten_upsample.c: images of another size, by the nearest element or bilinearly, and gradients (torch:
 * aten/src/ATen/native/{UpSample.h,cpu/UpSampleKernel.cpp}). Places are computed in the elements' own type, as there.
 */
#include <math.h>

#include "executor/kernels/layout.h"

typedef struct resize_axis {
    int64_t from, to; /* extents of the small and the large image, whichever is which */
    double scale;     /* that attrs give; 0: from / to */
} resize_axis;

typedef struct upsample_state {
    resize_axis axis[2];
    int64_t planes;
    bool align_corners, bilinear;
} upsample_state;

/* x: what is resized; y: to what. */
static weft_status prepare_common(kernel_prepare *p, const tensor *x, const tensor *y, bool bilinear) {
    upsample_state *s = KERNEL_STATE(p, upsample_state);
    static const char *const attrs[] = {"scales_h", "scales_w"};
    size_t nfactors;
    const double *factors = attr_floats(p->op, "scale_factors", &nfactors);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, x, "the image"));
    TRY(require_present(p, y, "the other image"));
    TRY(require_same_dtype(p, x, y, "the other image"));
    if (x->ndim != 4 || y->ndim != 4 || x->dims[0] != y->dims[0] || x->dims[1] != y->dims[1])
        return kernel_unsupported(p, "expected images of 4 dimensions with equal channels");
    s->planes = x->dims[0] * x->dims[1];
    for (int d = 0; d < 2; d++) {
        double given = nfactors == 2 ? factors[d] : attr_float(p->op, attrs[d], 0);
        s->axis[d] = (resize_axis){x->dims[2 + d], y->dims[2 + d], given > 0 ? 1 / given : 0};
    }
    s->align_corners = attr_bool(p->op, "align_corners", false);
    s->bilinear = bilinear;
    return NULL;
}

static weft_status prepare_nearest(kernel_prepare *p) {
    return prepare_common(p, type_in(p, 0), type_out(p, 0), false);
}
static weft_status prepare_bilinear(kernel_prepare *p) {
    return prepare_common(p, type_in(p, 0), type_out(p, 0), true);
}
static weft_status prepare_nearest_backward(kernel_prepare *p) {
    return prepare_common(p, type_out(p, 0), type_in(p, 0), false);
}
static weft_status prepare_bilinear_backward(kernel_prepare *p) {
    return prepare_common(p, type_out(p, 0), type_in(p, 0), true);
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
const kernel kernel_aten_upsample_nearest2d_backward = {prepare_nearest_backward, run_backward};
const kernel kernel_aten_upsample_bilinear2d_backward = {prepare_bilinear_backward, run_backward};
