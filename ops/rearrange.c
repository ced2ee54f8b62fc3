/* rearrange.c: types of ops that turn pixels into channels, windows into columns, or repeat slices
 * (paddle/phi/infermeta/unary.cc). */
#include "ops/infer.h"

static bool is_last(const infer *i) {
    return strcmp(attr_string(i->op, "data_format", "NCHW"), "NHWC") == 0;
}

/* Spatial extents times `factor` and channels over its square, or back. */
static weft_status shuffle_pixels(infer *i, const char *attr, bool grows) {
    const shape *x = infer_in(i, 0);
    int64_t r = attr_int(i->op, attr, 1);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    if (x->ndim != 4) return infer_error(i, "expected X of 4 dimensions, found %d", x->ndim);
    if (r < 1 || r > INT32_MAX) return infer_error(i, "%s: expected 1 or more, found %lld", attr, (long long)r);
    shape out = *x;
    for (int d = 1; d < 4; d++) {
        bool is_channel = d == (is_last(i) ? 3 : 1);
        int64_t by = is_channel ? r * r : r, *extent = &out.dims[d];
        if (is_channel != grows) {
            *extent = extent_mul(*extent, by);
        } else if (*extent >= 0) {
            if (*extent % by)
                return infer_error(i, "expected an extent that %lld divides at dimension %d, found %lld", (long long)by,
                                   d, (long long)*extent);
            *extent /= by;
        }
    }
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_pixel_shuffle(infer *i) {
    return shuffle_pixels(i, "upscale_factor", true);
}
weft_status infer_pixel_shuffle_grad(infer *i) {
    return shuffle_pixels(i, "upscale_factor", false);
}
weft_status infer_pixel_unshuffle(infer *i) {
    return shuffle_pixels(i, "downscale_factor", false);
}
weft_status infer_pixel_unshuffle_grad(infer *i) {
    return shuffle_pixels(i, "downscale_factor", true);
}

/* --- windows as columns ------------------------------------------------------------------------------------------- */

static weft_status read_list(const infer *i, const char *attr, size_t count, const int64_t **out) {
    size_t n;
    *out = attr_ints(i->op, attr, &n);
    for (size_t k = 0; k < n; k++)
        if ((*out)[k] < 0 || (*out)[k] > INT32_MAX)
            return infer_error(i, "%s: expected numbers of 0 or more, found %lld", attr, (long long)(*out)[k]);
    return n == count ? NULL : infer_error(i, "%s: expected %zu numbers, found %zu", attr, count, n);
}

/* How many windows lie in an image of these extents; -1: not known. */
static weft_status count_windows(infer *i, const int64_t *extents, int64_t *out_count, int64_t *out_taps) {
    const int64_t *size, *stride, *paddings, *dilation;
    TRY(read_list(i, "kernel_sizes", 2, &size));
    TRY(read_list(i, "strides", 2, &stride));
    TRY(read_list(i, "paddings", 4, &paddings));
    TRY(read_list(i, "dilations", 2, &dilation));
    *out_count = 1;
    *out_taps = size[0] * size[1];
    for (int d = 0; d < 2; d++) {
        int64_t reach = dilation[d] * (size[d] - 1) + 1, room = extents[d] + paddings[d] + paddings[d + 2] - reach;
        if (size[d] < 1 || stride[d] < 1) return infer_error(i, "expected windows and strides of 1 or more");
        if (extents[d] >= 0 && room < 0)
            return infer_error(i, "expected windows within the image, found %lld elements of %lld", (long long)reach,
                               (long long)(room + reach));
        *out_count = extent_mul(*out_count, extents[d] < 0 ? -1 : room / stride[d] + 1);
    }
    return NULL;
}

weft_status infer_unfold(infer *i) {
    const shape *x = infer_in(i, 0);
    int64_t windows, taps;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    if (x->ndim != 4) return infer_error(i, "expected X of 4 dimensions, found %d", x->ndim);
    TRY(count_windows(i, x->dims + 2, &windows, &taps));
    shape_set(infer_out(i, 0), x->dtype, 3, (const int64_t[]){x->dims[0], extent_mul(x->dims[1], taps), windows});
    return NULL;
}

weft_status infer_fold(infer *i) {
    const shape *x = infer_in(i, 0);
    const int64_t *sizes;
    int64_t windows, taps;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    if (x->ndim != 3) return infer_error(i, "expected X of 3 dimensions, found %d", x->ndim);
    TRY(read_list(i, "output_sizes", 2, &sizes));
    TRY(count_windows(i, sizes, &windows, &taps));
    if (!extent_fits(x->dims[2], windows) || (x->dims[1] >= 0 && x->dims[1] % taps))
        return infer_error(i, "expected X of %lld windows of %lld elements a channel, found %lld of %lld",
                           (long long)windows, (long long)taps, (long long)x->dims[2], (long long)x->dims[1]);
    int64_t channels = x->dims[1] < 0 ? -1 : x->dims[1] / taps;
    shape_set(infer_out(i, 0), x->dtype, 4, (const int64_t[]){x->dims[0], channels, sizes[0], sizes[1]});
    return NULL;
}

/* --- repeated slices ---------------------------------------------------------------------------------------------- */

/* RepeatsTensor, where there is one, has a number for each slice. */
weft_status infer_repeat_interleave(infer *i) {
    const shape *x = infer_in(i, 0);
    int32_t d;
    int by = schema_input(i->schema, "RepeatsTensor");
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    TRY(infer_axis(i, "dim", attr_int(i->op, "dim", 0), x->ndim, &d));
    shape out = *x;
    out.dims[d] = extent_mul(x->dims[d], attr_int(i->op, "Repeats", 1));
    if (infer_has(i, "RepeatsTensor")) {
        uint32_t index = i->in_first[by];
        const int64_t *repeats = i->in_values[index];
        out.dims[d] = repeats ? 0 : -1;
        for (int64_t k = 0; repeats && k < shape_numel(&i->in[index]); k++)
            out.dims[d] = extent_add(out.dims[d], repeats[k]);
    }
    *infer_out(i, 0) = out;
    return NULL;
}

/* --- diagonals ---------------------------------------------------------------------------------------------------- */

/* Dimensions axis1 and axis2 become the last one, of the length of a diagonal. */
weft_status infer_diagonal(infer *i) {
    const shape *x = infer_in(i, 0);
    int32_t rows, columns;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    TRY(infer_axis(i, "axis1", attr_int(i->op, "axis1", 0), x->ndim, &rows));
    TRY(infer_axis(i, "axis2", attr_int(i->op, "axis2", 1), x->ndim, &columns));
    if (rows == columns) return infer_error(i, "expected two different dimensions, found %d twice", rows);
    int64_t offset = attr_int(i->op, "offset", 0), high = x->dims[rows], wide = x->dims[columns], length = -1;
    shape out = {.dtype = x->dtype, .height = -1};
    for (int32_t d = 0; d < x->ndim; d++)
        if (d != rows && d != columns) TRY(shape_append(i, &out, x->dims[d]));
    if (high >= 0 && wide >= 0) {
        int64_t down = offset < 0 ? high + offset : high, across = offset > 0 ? wide - offset : wide;
        length = down < across ? down : across;
        if (length < 0) length = 0;
    }
    TRY(shape_append(i, &out, length));
    *infer_out(i, 0) = out;
    return NULL;
}

/* The last dimension becomes a diagonal of two, which stand at dim1 and dim2 of the result. */
weft_status infer_diag_embed(infer *i) {
    const shape *x = infer_in(i, 0);
    int32_t rows, columns;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    if (x->ndim < 1) return infer_error(i, "expected at least one dimension, found none");
    TRY(infer_axis(i, "dim1", attr_int(i->op, "dim1", -2), x->ndim + 1, &rows));
    TRY(infer_axis(i, "dim2", attr_int(i->op, "dim2", -1), x->ndim + 1, &columns));
    if (rows == columns) return infer_error(i, "expected two different dimensions, found %d twice", rows);
    int64_t offset = attr_int(i->op, "offset", 0),
            side = extent_add(x->dims[x->ndim - 1], offset < 0 ? -offset : offset);
    shape out = {.dtype = x->dtype, .height = -1};
    for (int32_t d = 0, from = 0; d <= x->ndim; d++)
        TRY(shape_append(i, &out, d == rows || d == columns ? side : x->dims[from++]));
    *infer_out(i, 0) = out;
    return NULL;
}

/* Extents multiplied, the shorter list with ones at the front. */
weft_status infer_kron(infer *i) {
    const shape *x = infer_in(i, 0), *y = infer_in(i, 1);
    if (!shape_known(x) || !shape_known(y) || !infer_out(i, 0)) return NULL;
    int32_t ndim = x->ndim > y->ndim ? x->ndim : y->ndim;
    shape out = {.dtype = x->dtype, .height = -1};
    for (int32_t d = 0; d < ndim; d++) {
        int32_t of_x = d - (ndim - x->ndim), of_y = d - (ndim - y->ndim);
        TRY(shape_append(i, &out, extent_mul(of_x < 0 ? 1 : x->dims[of_x], of_y < 0 ? 1 : y->dims[of_y])));
    }
    *infer_out(i, 0) = out;
    return NULL;
}

/* As many rows as the last segment says, where the program fixes the numbers. */
weft_status infer_segment_pool(infer *i) {
    const shape *x = infer_in(i, 0), *ids = infer_in(i, 1);
    if (!shape_known(x) || !shape_known(ids) || x->ndim < 1 || !infer_out(i, 0)) return NULL;
    const int64_t *values = i->in_values[i->in_first[1]];
    int64_t count = shape_numel(ids);
    shape out = *x;
    out.dims[0] = values && count > 0 ? values[count - 1] + 1 : -1;
    *infer_out(i, 0) = out;
    shape_set(infer_out(i, 1), x->dtype, 2, (const int64_t[]){out.dims[0], 1});
    return NULL;
}

/* The dimensions that a diagonal is taken from go. */
weft_status infer_trace(infer *i) {
    const shape *x = infer_in(i, 0);
    int32_t a, b;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    TRY(infer_axis(i, "axis1", attr_int(i->op, "axis1", 0), x->ndim, &a));
    TRY(infer_axis(i, "axis2", attr_int(i->op, "axis2", 1), x->ndim, &b));
    shape out = *x;
    out.ndim = 0;
    for (int32_t d = 0; d < x->ndim; d++)
        if (d != a && d != b) out.dims[out.ndim++] = x->dims[d];
    *infer_out(i, 0) = out;
    return NULL;
}

/* --- parts chosen or put back ------------------------------------------------------------------------------------- */

/* As many rows as there are ids. */
weft_status infer_multiplex(infer *i) {
    const shape *x = infer_in(i, 0), *ids = infer_in(i, 1);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    if (!x->ndim) return infer_error(i, "expected X of one dimension or more, found []");
    *infer_out(i, 0) = *x;
    if (shape_known(ids) && ids->ndim) infer_out(i, 0)->dims[0] = ids->dims[0];
    return NULL;
}

/* An extent of -1 is all that is left behind the offset. */
weft_status infer_crop_tensor(infer *i) {
    const shape *x = infer_in(i, 0);
    numbers extents, offsets;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    TRY(infer_numbers(i, "Shape", "ShapeTensor", "shape", &extents));
    TRY(infer_numbers(i, "Offsets", "OffsetsTensor", "offsets", &offsets));
    *infer_out(i, 0) = *x;
    for (int32_t d = 0; d < x->ndim; d++) {
        int64_t offset = d >= (int32_t)offsets.count ? 0 : offsets.known ? offsets.values[d] : -1;
        int64_t extent = d < (int32_t)extents.count && extents.known ? extents.values[d] : -1;
        bool is_whole = extents.known && extent < 0;
        infer_out(i, 0)->dims[d] = is_whole ? (x->dims[d] < 0 || offset < 0 ? -1 : x->dims[d] - offset) : extent;
        if (x->dims[d] >= 0 && offset >= 0 && infer_out(i, 0)->dims[d] + offset > x->dims[d])
            return infer_error(i, "dimension %d: expected a box within %lld, found %lld from %lld on", (int)d,
                               (long long)x->dims[d], (long long)infer_out(i, 0)->dims[d], (long long)offset);
    }
    return NULL;
}

/* As large as Y, or as shape says, which has no -1 that stands for the rest. */
weft_status infer_crop(infer *i) {
    const shape *x = infer_in(i, 0), *y = infer_has(i, "Y") ? infer_in(i, 1) : NULL;
    numbers extents;
    if (!shape_known(x) || !infer_out(i, 0) || (y && !shape_known(y))) return NULL;
    TRY(infer_numbers(i, "", NULL, "shape", &extents));
    int count = y ? y->ndim : (int)extents.count;
    if (count != x->ndim) return infer_error(i, "expected %d extents, found %d", x->ndim, count);
    *infer_out(i, 0) = *x;
    for (int d = 0; d < count; d++) {
        int64_t extent = y ? y->dims[d] : extents.values[d];
        if (x->dims[d] >= 0 && extent > x->dims[d])
            return infer_error(i, "dimension %d: expected a box within %lld, found %lld", d, (long long)x->dims[d],
                               (long long)extent);
        infer_out(i, 0)->dims[d] = extent;
    }
    return NULL;
}

weft_status infer_unpool(infer *i) {
    const shape *x = infer_in(i, 0);
    numbers size;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    TRY(infer_numbers(i, "", NULL, "output_size", &size));
    if (x->ndim != (int)size.count + 2 || size.count < 2)
        return infer_error(i, "expected an output_size for each spatial dimension of X");
    *infer_out(i, 0) = *x;
    for (size_t d = 0; d < size.count; d++) infer_out(i, 0)->dims[2 + d] = size.values[d];
    return NULL;
}

/* Columns start_index .. start_index + length of each of X; -1: to the end. */
static int64_t partial_length(infer *i, const shape *x) {
    int64_t first = attr_int(i->op, "start_index", 0), length = attr_int(i->op, "length", -1), width = x->dims[1];
    return length >= 0 ? length : width < 0 ? -1 : first < 0 ? -first : width - first;
}

static weft_status partial(infer *i, size_t times) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    if (x->ndim != 2) return infer_error(i, "expected matrices, found %d dimensions", x->ndim);
    int64_t dims[] = {x->dims[0], extent_mul(partial_length(i, x), (int64_t)times)};
    shape_set(infer_out(i, 0), x->dtype, 2, dims);
    return NULL;
}

weft_status infer_partial_concat(infer *i) {
    return partial(i, infer_nin(i, 0));
}
weft_status infer_partial_sum(infer *i) {
    return partial(i, 1);
}
