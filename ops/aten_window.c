/* aten_window.c: types of ATen's convolutions and poolings (torch: aten/src/ATen/native/{Pool.h,ConvUtils.h}). */
#include "ops/aten_window.h"
#include "ops/infer.h"

/* One number a dimension, or one for all; `fallback` where there is none. */
static bool read_numbers(const weft_op *op, const char *attr, int naxes, int64_t least, const int64_t *fallback,
                         int64_t out[POOL_AXES]) {
    size_t count;
    const int64_t *values = attr_ints(op, attr, &count);
    if (count > 1 && count != (size_t)naxes) return false;
    for (int d = POOL_AXES - naxes, k = 0; d < POOL_AXES; d++, k++) {
        out[d] = count ? values[count > 1 ? k : 0] : fallback[d];
        if (out[d] < least || out[d] > INT32_MAX) return false;
    }
    return true;
}

/* Windows that fit; with ceil_mode also one that begins within the extent, or what is padded before it. */
static int64_t count_windows(const pool_axis *a, bool ceil_mode) {
    if (a->extent < 0) return -1;
    int64_t room = a->extent + 2 * a->before - a->dilation * (a->size - 1) - 1;
    int64_t more = ceil_mode ? a->stride - 1 : 0;
    int64_t count = (room + more < 0 ? -1 : (room + more) / a->stride) + 1;
    if (ceil_mode && (count - 1) * a->stride >= a->extent + a->before) count--;
    return count > 0 ? count : 0;
}

static const int64_t ones[POOL_AXES] = {1, 1, 1}, zeros[POOL_AXES] = {0, 0, 0};

const char *op_pool_windows(const weft_op *op, const shape *x, pool_windows *out) {
    int64_t n = attr_int(op, "ndim", 2), size[POOL_AXES], stride[POOL_AXES], padding[POOL_AXES], dilation[POOL_AXES];
    size_t nsizes;
    attr_ints(op, "output_size", &nsizes);
    if (n < 1 || n > POOL_AXES || x->ndim < n || x->ndim > n + 2) return "expected as many dimensions as windows have";
    *out = (pool_windows){.naxes = (int)n};
    for (int d = 0; d < POOL_AXES; d++)
        out->axis[d] = (pool_axis){.extent = 1, .count = 1, .size = 1, .stride = 1, .dilation = 1};
    for (int d = POOL_AXES - (int)n; d < POOL_AXES; d++) out->axis[d].extent = x->dims[x->ndim - POOL_AXES + d];
    if (nsizes) {
        if (!read_numbers(op, "output_size", (int)n, 0, zeros, size))
            return "output_size: expected an extent a dimension";
        for (int d = POOL_AXES - (int)n; d < POOL_AXES; d++) out->axis[d].count = size[d];
        return NULL;
    }
    if (!read_numbers(op, "kernel_size", (int)n, 1, zeros, size)) return "kernel_size: expected 1 or more a dimension";
    if (!read_numbers(op, "stride", (int)n, 1, size, stride)) return "stride: expected 1 or more a dimension";
    if (!read_numbers(op, "padding", (int)n, 0, zeros, padding)) return "padding: expected 0 or more a dimension";
    if (!read_numbers(op, "dilation", (int)n, 1, ones, dilation)) return "dilation: expected 1 or more a dimension";
    for (int d = POOL_AXES - (int)n; d < POOL_AXES; d++) {
        pool_axis *a = &out->axis[d];
        if (padding[d] > size[d] / 2) return "padding: expected at most half of kernel_size";
        *a = (pool_axis){a->extent, 0, size[d], stride[d], padding[d], dilation[d]};
        a->count = count_windows(a, attr_bool(op, "ceil_mode", false));
        if (a->count == 0) return "expected windows that fit";
    }
    return NULL;
}

/* The result, and of a maximum where it was found. */
weft_status infer_aten_pool(infer *i) {
    const shape *x = infer_in(i, 0);
    pool_windows w;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    const char *wrong = op_pool_windows(i->op, x, &w);
    if (wrong) return infer_error(i, "%s", wrong);
    shape out = *x;
    for (int d = 0; d < w.naxes; d++) out.dims[x->ndim - 1 - d] = w.axis[POOL_AXES - 1 - d].count;
    *infer_out(i, 0) = out;
    if (i->schema->noutputs > 1 && infer_out(i, 1)) shape_copy_dims(infer_out(i, 1), &out, WEFT_INT64);
    return NULL;
}

/* Gradients of what stands in slot 1. */
weft_status infer_aten_like_second(infer *i) {
    const shape *x = infer_in(i, 1);
    if (shape_known(x) && infer_out(i, 0)) *infer_out(i, 0) = *x;
    return NULL;
}

/* --- convolution -------------------------------------------------------------------------------------------------- */

static weft_status conv_numbers(const infer *i, const char *attr, size_t n, int64_t least, const int64_t **out) {
    size_t count;
    *out = attr_ints(i->op, attr, &count);
    if (count != n) return infer_error(i, "%s: expected %zu numbers, found %zu", attr, n, count);
    for (size_t k = 0; k < n; k++)
        if ((*out)[k] < least || (*out)[k] > INT32_MAX)
            return infer_error(i, "%s: expected %lld or more, found %lld", attr, (long long)least,
                               (long long)(*out)[k]);
    return NULL;
}

static int64_t conv_extent(int64_t extent, int64_t size, int64_t stride, int64_t padding, int64_t reach,
                           bool transposed) {
    if (extent < 0 || size < 0) return -1;
    if (transposed) return (extent - 1) * stride - 2 * padding + reach + 1;
    return extent + 2 * padding < reach + 1 ? -1 : (extent + 2 * padding - reach - 1) / stride + 1;
}

weft_status infer_aten_convolution(infer *i) {
    const shape *x = infer_in(i, 0), *weight = infer_in(i, 1);
    if (!shape_known(x) || !shape_known(weight) || !infer_out(i, 0)) return NULL;
    bool transposed = attr_bool(i->op, "transposed", false);
    int64_t groups = attr_int(i->op, "groups", 1);
    const int64_t *strides, *paddings, *dilations, *extra;
    shape_text tx, tw;
    if (x->ndim < 3 || x->ndim > 2 + POOL_AXES || weight->ndim != x->ndim)
        return infer_error(i, "expected input and weight of 3 to 5 dimensions, found %s and %s", shape_print(x, &tx),
                           shape_print(weight, &tw));
    size_t n = (size_t)x->ndim - 2;
    TRY(conv_numbers(i, "strides", n, 1, &strides));
    TRY(conv_numbers(i, "paddings", n, 0, &paddings));
    TRY(conv_numbers(i, "dilations", n, 1, &dilations));
    TRY(conv_numbers(i, "output_padding", n, 0, &extra));
    if (groups < 1 || (weight->dims[0] >= 0 && weight->dims[0] % groups) ||
        !extent_fits(x->dims[1], transposed ? weight->dims[0] : extent_mul(weight->dims[1], groups)))
        return infer_error(i, "expected channels for %lld groups, found input %s and weight %s", (long long)groups,
                           shape_print(x, &tx), shape_print(weight, &tw));
    shape out = {.dtype = x->dtype, .ndim = x->ndim, .height = -1};
    out.dims[0] = x->dims[0];
    out.dims[1] = transposed ? extent_mul(weight->dims[1], groups) : weight->dims[0];
    for (size_t d = 0; d < n; d++) {
        int64_t size = weight->dims[2 + d], *to = &out.dims[2 + d];
        *to = conv_extent(x->dims[2 + d], size, strides[d], paddings[d], dilations[d] * (size - 1), transposed);
        if (*to >= 0 && transposed) *to += extra[d];
        if (*to < 1 && x->dims[2 + d] >= 0 && size >= 0)
            return infer_error(i, "expected windows that fit in %s, found weight %s", shape_print(x, &tx),
                               shape_print(weight, &tw));
    }
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_aten_convolution_backward(infer *i) {
    const shape *grad = infer_in(i, 0), *x = infer_in(i, 1), *weight = infer_in(i, 2);
    if (shape_known(x) && infer_out(i, 0)) *infer_out(i, 0) = *x;
    if (shape_known(weight) && infer_out(i, 1)) *infer_out(i, 1) = *weight;
    if (shape_known(grad) && grad->ndim > 1) shape_set(infer_out(i, 2), grad->dtype, 1, &grad->dims[1]);
    return NULL;
}

/* --- images of another size --------------------------------------------------------------------------------------- */

weft_status infer_aten_upsample(infer *i) {
    const shape *x = infer_in(i, 0);
    size_t nsizes, nfactors, n = (size_t)attr_int(i->op, "ndim", 2);
    const int64_t *sizes = attr_ints(i->op, "output_size", &nsizes);
    const double *factors = attr_floats(i->op, "scale_factors", &nfactors);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    if (n > 3 || (size_t)x->ndim != n + 2)
        return infer_error(i, "expected images of %zu dimensions, found %d", n + 2, x->ndim);
    if (nsizes != n && nfactors != n) return infer_error(i, "expected output_size or scale_factors of %zu numbers", n);
    shape out = *x;
    for (size_t d = 0; d < n; d++) {
        int64_t *extent = &out.dims[2 + d];
        double wanted = nsizes == n ? (double)sizes[d] : *extent < 0 ? -1 : (double)*extent * factors[d];
        if (wanted > INT32_MAX || (wanted < 1 && *extent >= 0))
            return infer_error(i, "expected images of another size, found one of %g", wanted);
        *extent = (int64_t)wanted;
    }
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_aten_upsample_backward(infer *i) {
    const shape *grad = infer_in(i, 0);
    size_t count;
    const int64_t *sizes = attr_ints(i->op, "input_size", &count);
    if (!shape_known(grad)) return NULL;
    if (count != (size_t)grad->ndim)
        return infer_error(i, "input_size: expected %d extents, found %zu", grad->ndim, count);
    shape_set(infer_out(i, 0), grad->dtype, count, sizes);
    return NULL;
}
