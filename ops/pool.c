/* pool.c: types of pooling (paddle/phi/infermeta/unary.cc, PoolInferMeta). */
#include "ops/window.h"

static weft_status pool_images(infer *i, const char *size_attr) {
    const shape *x = infer_in(i, 0);
    const int64_t *sizes = NULL;
    window w;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    bool adaptive = attr_bool(i->op, "adaptive", false), global = attr_bool(i->op, "global_pooling", false);
    bool ceil_mode = attr_bool(i->op, "ceil_mode", false);
    TRY(window_read(i, x, &w));
    if (!global) TRY(window_attr(i, size_attr, 2, 1, &sizes));
    shape out = *x;
    for (int d = 0; d < 2; d++) {
        int64_t *extent = &out.dims[w.first + d];
        if (global || adaptive)
            *extent = global ? 1 : sizes[d];
        else
            TRY(window_count(i, &w, d, sizes[d], ceil_mode, extent));
    }
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_pool2d(infer *i) {
    return pool_images(i, "ksize");
}
weft_status infer_lp_pool2d(infer *i) {
    return pool_images(i, "kernel_size");
}

/* out and mask have the extents of output_size. */
weft_status infer_fractional_pool(infer *i) {
    const shape *x = infer_in(i, 0);
    size_t count;
    const int64_t *size = attr_ints(i->op, "output_size", &count);
    if (!shape_known(x)) return NULL;
    if (count < 2 || x->ndim != (int)count + 2)
        return infer_error(i, "expected an output_size for each spatial dimension of x");
    shape out = *x;
    for (size_t d = 0; d < count; d++) out.dims[2 + d] = size[d];
    if (infer_out(i, 0)) *infer_out(i, 0) = out;
    if (infer_out(i, 1)) shape_copy_dims(infer_out(i, 1), &out, WEFT_INT32);
    return NULL;
}

static int64_t scaled(int64_t extent, double scale) {
    double wanted = (double)extent * scale;
    return extent < 0 || wanted > INT32_MAX ? -1 : (int64_t)wanted;
}

/* Scale, where there is one, takes the place of the attr; false where only a run knows it. */
static bool scale_of_tensor(const infer *i, int d, double *scale) {
    int s = schema_input(i->schema, "Scale");
    if (s < 0 || !infer_nin(i, s)) return true;
    uint32_t index = i->in_first[s];
    int64_t numel = shape_numel(&i->in[index]);
    if (!i->in_values[index] || numel < 1) return false;
    *scale = value_real(i->in[index].dtype, i->in_values[index][numel > d ? d : 0]);
    return true;
}

/* The new extents: OutSize, SizeTensor, out_d, out_h and out_w, or the old ones times Scale or scale. */
weft_status infer_interp_v2(infer *i) {
    static const char *const given[] = {"out_d", "out_h", "out_w"};
    const shape *x = infer_in(i, 0);
    numbers sizes;
    size_t nscales;
    const double *scales = attr_floats(i->op, "scale", &nscales);
    double one_scale = nscales ? 0 : attr_float(i->op, "scale", 0); /* a number in Paddle 1 */
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    int n = x->ndim - 2;
    if (n < 1 || n > 3) return infer_error(i, "expected X of 3 to 5 dimensions, found %d", x->ndim);
    bool last = strcmp(attr_string(i->op, "data_layout", "NCHW"), "NHWC") == 0;
    bool by_tensor = infer_has(i, "OutSize") || infer_has(i, "SizeTensor");
    TRY(infer_numbers(i, "OutSize", "SizeTensor", NULL, &sizes));
    shape out = *x;
    for (int d = 0; d < n; d++) {
        int64_t *extent = &out.dims[(last ? 1 : 2) + d], size = attr_int(i->op, given[3 - n + d], -1);
        double scale = nscales ? scales[nscales == (size_t)n ? d : 0] : one_scale;
        bool scale_is_known = scale_of_tensor(i, d, &scale);
        if (by_tensor)
            *extent = sizes.known && sizes.count == (size_t)n ? sizes.values[d] : -1;
        else if (!scale_is_known)
            *extent = -1;
        else if (scale > 0)
            *extent = scaled(*extent, scale);
        else
            *extent = size > 0 ? size : -1;
    }
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_maxout(infer *i) {
    const shape *x = infer_in(i, 0);
    int64_t groups = attr_int(i->op, "groups", 1);
    int32_t axis;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    TRY(infer_axis(i, "axis", attr_int(i->op, "axis", 1), x->ndim, &axis));
    if (groups < 1 || (x->dims[axis] >= 0 && x->dims[axis] % groups))
        return infer_error(i, "groups: expected a number that divides %lld, found %lld", (long long)x->dims[axis],
                           (long long)groups);
    *infer_out(i, 0) = *x;
    if (x->dims[axis] >= 0) infer_out(i, 0)->dims[axis] /= groups;
    return NULL;
}

/* Images and volumes: an axis for each coordinate of the grid. */
weft_status infer_grid_sampler(infer *i) {
    const shape *x = infer_in(i, 0), *grid = infer_in(i, 1);
    if (!shape_known(x) || !shape_known(grid) || !infer_out(i, 0)) return NULL;
    if ((x->ndim != 4 && x->ndim != 5) || grid->ndim != x->ndim)
        return infer_error(i, "expected X and Grid of 4 or of 5 dimensions");
    shape out = *x;
    for (int d = 2; d < x->ndim; d++) out.dims[d] = grid->dims[d - 1];
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_affine_grid(infer *i) {
    const shape *theta = infer_in(i, 0);
    numbers size;
    if (!shape_known(theta) || !infer_out(i, 0)) return NULL;
    TRY(infer_numbers(i, "OutputShape", NULL, "output_shape", &size));
    if (theta->ndim != 3) return infer_error(i, "expected Theta of 3 dimensions, found %d", theta->ndim);
    int naxes = theta->dims[1] == 3 ? 3 : 2;
    int64_t dims[5] = {theta->dims[0], -1, -1, -1, -1};
    bool known = size.count == (size_t)naxes + 2;
    for (int d = 0; d < naxes && known; d++) dims[1 + d] = size.values[2 + d];
    dims[1 + naxes] = naxes;
    shape_set(infer_out(i, 0), theta->dtype, (size_t)naxes + 2, dims);
    return NULL;
}
