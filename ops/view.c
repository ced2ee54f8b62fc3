/* view.c: shapes, offsets and strides of views (torch's view ops, aten/src/ATen/native/TensorShape.cpp).
 *
 * A rule starts from x as it is and changes the view; every rule is O(rank). */
#include "ops/view.h"

#include "ops/infer.h"

static weft_status refuse(const weft_op *op, const char *attr, const char *expected, int64_t found) {
    char place[160];
    return weft_status_create(WEFT_INVALID_PROGRAM, op->program->place, "%s: %s: expected %s, found %lld",
                              op_place(op, place, sizeof place), attr, expected, (long long)found);
}

/* A dimension of `ndim`, counted from the end where negative; scalars have one that only says so. */
static weft_status read_dim(const weft_op *op, const char *attr, int64_t dim, int32_t ndim, int32_t *out) {
    int64_t n = ndim ? ndim : 1;
    if (dim < -n || dim >= n) return refuse(op, attr, "a dimension of the tensor", dim);
    *out = (int32_t)(dim < 0 ? dim + n : dim);
    return NULL;
}

static void make_dense(op_view *v) {
    int64_t stride = 1;
    for (int32_t d = v->ndim - 1; d >= 0; d--) {
        v->strides[d] = stride;
        stride = extent_mul(stride, v->dims[d]);
    }
}

static void remove_dim(op_view *v, int32_t dim) {
    v->ndim--;
    for (int32_t d = dim; d < v->ndim; d++) {
        v->dims[d] = v->dims[d + 1];
        v->strides[d] = v->strides[d + 1];
    }
}

/* Moves the beginning by `steps` along a dimension. */
static void move_by(op_view *v, int64_t steps, int32_t dim) {
    v->offset = steps ? extent_add(v->offset, extent_mul(steps, v->strides[dim])) : v->offset;
}

/* --- the same elements in another shape --------------------------------------------------------------------------- */

static weft_status view_shape(const weft_op *op, const shape *x, size_t part, op_view *v) {
    size_t count;
    const int64_t *size = attr_ints(op, "size", &count);
    int64_t total = shape_numel(x), known = 1;
    int32_t unknown = -1;
    (void)part;
    if (count > WEFT_MAX_RANK) return refuse(op, "size", "fewer dimensions", (int64_t)count);
    v->ndim = (int32_t)count;
    for (int32_t d = 0; d < v->ndim; d++) {
        v->dims[d] = size[d];
        if (size[d] < -1 || (size[d] == -1 && unknown >= 0)) return refuse(op, "size", "one -1 at most", size[d]);
        if (size[d] == -1)
            unknown = d;
        else
            known = extent_mul(known, size[d]);
    }
    if (unknown >= 0 && total >= 0 && known > 0) {
        v->dims[unknown] = total / known;
        known *= total / known;
    }
    if (total >= 0 && known != total) return refuse(op, "size", "as many elements as the tensor has", known);
    make_dense(v);
    return NULL;
}

static weft_status view_flatten(const weft_op *op, const shape *x, size_t part, op_view *v) {
    int32_t first = 0, last = 0;
    (void)part;
    TRY(read_dim(op, "start_dim", attr_int(op, "start_dim", 0), x->ndim, &first));
    TRY(read_dim(op, "end_dim", attr_int(op, "end_dim", -1), x->ndim, &last));
    if (first > last) return refuse(op, "start_dim", "a dimension up to end_dim", first);
    if (!x->ndim) {
        v->ndim = 1;
        v->dims[0] = 1;
    }
    for (int32_t n = first; n < last; n++) {
        v->dims[first] = extent_mul(v->dims[first], v->dims[first + 1]);
        remove_dim(v, first + 1);
    }
    make_dense(v);
    return NULL;
}

static weft_status view_unsqueeze(const weft_op *op, const shape *x, size_t part, op_view *v) {
    int32_t dim = 0;
    (void)part;
    TRY(read_dim(op, "dim", attr_int(op, "dim", 0), x->ndim + 1, &dim));
    if (x->ndim == WEFT_MAX_RANK) return refuse(op, "dim", "a tensor of fewer dimensions", x->ndim);
    for (int32_t d = v->ndim++; d > dim; d--) v->dims[d] = v->dims[d - 1];
    v->dims[dim] = 1;
    make_dense(v);
    return NULL;
}

/* Without `dim` all extents of 1 go; one that is not 1 stays. */
static weft_status view_squeeze(const weft_op *op, const shape *x, size_t part, op_view *v) {
    size_t count;
    const int64_t *dims = attr_ints(op, "dim", &count);
    bool given[WEFT_MAX_RANK] = {false};
    (void)part;
    for (size_t k = 0; k < count; k++) {
        int32_t dim = 0;
        TRY(read_dim(op, "dim", dims[k], x->ndim, &dim));
        given[dim] = true;
    }
    for (int32_t d = x->ndim - 1; d >= 0; d--)
        if (x->dims[d] == 1 && (given[d] || !count)) remove_dim(v, d);
    return NULL;
}

/* --- dimensions in another order, or repeated --------------------------------------------------------------------- */

static void swap_dims(op_view *v, int32_t a, int32_t b) {
    int64_t extent = v->dims[a], stride = v->strides[a];
    v->dims[a] = v->dims[b];
    v->strides[a] = v->strides[b];
    v->dims[b] = extent;
    v->strides[b] = stride;
}

static weft_status view_t(const weft_op *op, const shape *x, size_t part, op_view *v) {
    (void)part;
    if (x->ndim > 2) return refuse(op, "self", "at most 2 dimensions", x->ndim);
    if (x->ndim == 2) swap_dims(v, 0, 1);
    return NULL;
}

static weft_status view_transpose(const weft_op *op, const shape *x, size_t part, op_view *v) {
    int32_t a = 0, b = 0;
    (void)part;
    TRY(read_dim(op, "dim0", attr_int(op, "dim0", 0), x->ndim, &a));
    TRY(read_dim(op, "dim1", attr_int(op, "dim1", 0), x->ndim, &b));
    if (x->ndim) swap_dims(v, a, b);
    return NULL;
}

static weft_status view_permute(const weft_op *op, const shape *x, size_t part, op_view *v) {
    size_t count;
    const int64_t *dims = attr_ints(op, "dims", &count);
    op_view from = *v;
    uint32_t seen = 0;
    (void)part;
    if (count != (size_t)x->ndim) return refuse(op, "dims", "each dimension of the tensor", (int64_t)count);
    for (int32_t d = 0; d < x->ndim; d++) {
        int32_t dim = 0;
        TRY(read_dim(op, "dims", dims[d], x->ndim, &dim));
        if (seen & 1u << dim) return refuse(op, "dims", "each dimension once", dim);
        seen |= 1u << dim;
        v->dims[d] = from.dims[dim];
        v->strides[d] = from.strides[dim];
    }
    return NULL;
}

/* New dimensions come first; -1 keeps an extent. */
static weft_status view_expand(const weft_op *op, const shape *x, size_t part, op_view *v) {
    size_t count;
    const int64_t *size = attr_ints(op, "size", &count);
    (void)part;
    if (count > WEFT_MAX_RANK || count < (size_t)x->ndim)
        return refuse(op, "size", "an extent for each dimension", (int64_t)count);
    int32_t ndim = (int32_t)count, added = ndim - x->ndim;
    op_view from = *v;
    v->ndim = ndim;
    for (int32_t d = 0; d < ndim; d++) {
        int64_t own = d < added ? 1 : from.dims[d - added], wanted = size[d] == -1 && d >= added ? own : size[d];
        if (wanted < 0 || (own != 1 && !extent_fits(own, wanted)))
            return refuse(op, "size", "extents that the tensor broadcasts to", size[d]);
        v->dims[d] = wanted;
        v->strides[d] = d < added || (own == 1 && wanted != 1) ? 0 : from.strides[d - added];
    }
    return NULL;
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

static int64_t clamp_bound(int64_t bound, int64_t extent) {
    if (bound < 0) bound += extent;
    return bound < 0 ? 0 : bound > extent ? extent : bound;
}

static weft_status view_slice(const weft_op *op, const shape *x, size_t part, op_view *v) {
    int64_t step = attr_int(op, "step", 1), start = attr_int(op, "start", 0), end = attr_int(op, "end", INT64_MAX);
    int32_t dim = 0;
    (void)part;
    TRY(read_dim(op, "dim", attr_int(op, "dim", 0), x->ndim, &dim));
    if (!x->ndim) return refuse(op, "self", "a dimension to slice", 0);
    if (step < 1) return refuse(op, "step", "1 or more", step);
    if (x->dims[dim] < 0) {
        v->dims[dim] = v->offset = -1;
        return NULL;
    }
    start = clamp_bound(start, x->dims[dim]);
    end = clamp_bound(end, x->dims[dim]);
    v->dims[dim] = end > start ? (end - start - 1) / step + 1 : 0;
    move_by(v, start, dim);
    v->strides[dim] = extent_mul(v->strides[dim], step);
    return NULL;
}

static weft_status view_select(const weft_op *op, const shape *x, size_t part, op_view *v) {
    int64_t index = attr_int(op, "index", 0);
    int32_t dim = 0;
    (void)part;
    TRY(read_dim(op, "dim", attr_int(op, "dim", 0), x->ndim, &dim));
    if (!x->ndim) return refuse(op, "self", "a dimension to select from", 0);
    int64_t extent = x->dims[dim];
    if (extent >= 0 && (index < -extent || index >= extent)) return refuse(op, "index", "one of the extent", index);
    if (index < 0 && extent < 0)
        v->offset = -1;
    else
        move_by(v, index < 0 ? index + extent : index, dim);
    remove_dim(v, dim);
    return NULL;
}

static weft_status view_unbind(const weft_op *op, const shape *x, size_t part, op_view *v) {
    int32_t dim = 0;
    TRY(read_dim(op, "dim", attr_int(op, "dim", 0), x->ndim, &dim));
    if (!x->ndim) return refuse(op, "self", "a dimension to unbind", 0);
    if (x->dims[dim] >= 0 && (int64_t)part >= x->dims[dim])
        return refuse(op, "dim", "an index for each output", (int64_t)part);
    move_by(v, (int64_t)part, dim);
    remove_dim(v, dim);
    return NULL;
}

/* One number is the extent of every part but the last; several are the extents of the parts. (The only part of a list
 * of one has the tensor's extent, so that it may be taken for a number.) */
static weft_status view_split(const weft_op *op, const shape *x, size_t part, op_view *v) {
    size_t count;
    const int64_t *size = attr_ints(op, "split_size", &count);
    int64_t start = 0, sum = 0;
    int32_t dim = 0;
    TRY(read_dim(op, "dim", attr_int(op, "dim", 0), x->ndim, &dim));
    if (!x->ndim || !count) return refuse(op, "split_size", "a dimension and extents of its parts", (int64_t)count);
    for (size_t k = 0; k < count; k++) {
        if (size[k] < 0) return refuse(op, "split_size", "0 or more", size[k]);
        if (k < part) start = extent_add(start, size[k]);
        sum = extent_add(sum, size[k]);
    }
    int64_t extent = x->dims[dim];
    if (count > 1 && extent >= 0 && sum != extent) return refuse(op, "split_size", "extents that add up", sum);
    if (count > 1 && part >= count) return refuse(op, "split_size", "an extent for each part", (int64_t)count);
    if (count == 1) start = extent_mul((int64_t)part, size[0]);
    int64_t left = extent < 0 || start < 0 ? -1 : extent - start;
    if (count > 1)
        v->dims[dim] = size[part];
    else
        v->dims[dim] = left < 0 ? -1 : left < size[0] ? left : size[0];
    if (extent >= 0 && left < 0) return refuse(op, "split_size", "a part within the tensor", start);
    move_by(v, start, dim);
    return NULL;
}

/* The diagonal `offset` above the main one of dimensions dim1 and dim2, as the last dimension. */
static weft_status view_diagonal(const weft_op *op, const shape *x, size_t part, op_view *v) {
    int64_t by = attr_int(op, "offset", 0);
    int32_t row = 0, column = 0;
    (void)part;
    TRY(read_dim(op, "dim1", attr_int(op, "dim1", 0), x->ndim, &row));
    TRY(read_dim(op, "dim2", attr_int(op, "dim2", 1), x->ndim, &column));
    if (x->ndim < 2 || row == column) return refuse(op, "dim2", "two dimensions that differ", column);
    int64_t rows = x->dims[row] + (by < 0 ? by : 0), columns = x->dims[column] - (by > 0 ? by : 0);
    int64_t length = rows < columns ? rows : columns;
    int64_t stride = extent_add(v->strides[row], v->strides[column]);
    if (length > 0) move_by(v, by < 0 ? -by : by, by < 0 ? row : column);
    if (x->dims[row] < 0 || x->dims[column] < 0) length = -1;
    remove_dim(v, row > column ? row : column);
    remove_dim(v, row > column ? column : row);
    v->dims[v->ndim] = length < 0 && x->dims[row] >= 0 && x->dims[column] >= 0 ? 0 : length;
    v->strides[v->ndim++] = stride;
    return NULL;
}

/* Windows of `size` indices of dimension, `step` apart: how many they are there, and each as the last dimension. */
static weft_status view_unfold(const weft_op *op, const shape *x, size_t part, op_view *v) {
    int64_t size = attr_int(op, "size", 1), step = attr_int(op, "step", 1);
    int32_t dim = 0;
    (void)part;
    TRY(read_dim(op, "dimension", attr_int(op, "dimension", 0), x->ndim, &dim));
    if (!x->ndim || x->ndim == WEFT_MAX_RANK) return refuse(op, "dimension", "a dimension to unfold", x->ndim);
    if (step < 1) return refuse(op, "step", "1 or more", step);
    if (size < 0 || (x->dims[dim] >= 0 && size > x->dims[dim])) return refuse(op, "size", "at most the extent", size);
    v->dims[v->ndim] = size;
    v->strides[v->ndim++] = v->strides[dim];
    if (x->dims[dim] >= 0) v->dims[dim] = (x->dims[dim] - size) / step + 1;
    v->strides[dim] = extent_mul(v->strides[dim], step);
    return NULL;
}

/* --- which rule --------------------------------------------------------------------------------------------------- */

typedef struct view_rule {
    const char *type;
    weft_status (*view)(const weft_op *op, const shape *x, size_t part, op_view *v);
} view_rule;

static const view_rule rules[] = {
    {"aten_view", view_shape},
    {"aten_view_copy", view_shape},
    {"aten_flatten", view_flatten},
    {"aten_unsqueeze", view_unsqueeze},
    {"aten_unsqueeze_copy", view_unsqueeze},
    {"aten_squeeze", view_squeeze},
    {"aten_squeeze_copy", view_squeeze},
    {"aten_t", view_t},
    {"aten_transpose", view_transpose},
    {"aten_transpose_copy", view_transpose},
    {"aten_permute", view_permute},
    {"aten_permute_copy", view_permute},
    {"aten_expand", view_expand},
    {"aten_expand_copy", view_expand},
    {"aten_slice", view_slice},
    {"aten_slice_copy", view_slice},
    {"aten_select", view_select},
    {"aten_select_copy", view_select},
    {"aten_split", view_split},
    {"aten_unsafe_split", view_split},
    {"aten_unbind", view_unbind},
    {"aten_diagonal", view_diagonal},
    {"aten_unfold", view_unfold},
    {"aten_select_backward", view_select},
    {"aten_diagonal_backward", view_diagonal},
    {"aten_diagonal_scatter", view_diagonal},
    {"aten_unfold_backward", view_unfold},
    {"aten_select_scatter", view_select},
    {"aten_slice_scatter", view_slice},
    {"aten_slice_backward", view_slice},
};

static op_view whole_of(const shape *x) {
    op_view v = {.ndim = x->ndim};
    for (int32_t d = 0; d < x->ndim; d++) v.dims[d] = x->dims[d];
    make_dense(&v);
    return v;
}

weft_status op_view_of(const weft_op *op, const shape *x, size_t part, op_view *out) {
    op_view v = whole_of(x);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (op_is(op, rules[i].type)) TRY(rules[i].view(op, x, part, &v));
    *out = v;
    return NULL;
}

int64_t op_view_count(const weft_op *op, const shape *x) {
    size_t count;
    const int64_t *size = attr_ints(op, "split_size", &count);
    bool unbinds = op_is(op, "aten_unbind");
    if (!unbinds && !op_is(op, "aten_split") && !op_is(op, "aten_unsafe_split")) return 1;
    if (!unbinds && count != 1) return (int64_t)count;
    int64_t dim = attr_int(op, "dim", 0);
    if (dim < 0) dim += x->ndim;
    if (dim < 0 || dim >= x->ndim || x->dims[dim] < 0) return -1;
    if (unbinds) return x->dims[dim];
    if (size[0] <= 0) return 1; /* of an extent of 0 */
    return x->dims[dim] ? (x->dims[dim] - 1) / size[0] + 1 : 1;
}

bool op_view_is_contiguous(const op_view *v) {
    int64_t stride = 1;
    if (v->offset < 0) return false;
    for (int32_t d = 0; d < v->ndim; d++)
        if (v->dims[d] <= 0) return v->dims[d] == 0;
    for (int32_t d = v->ndim - 1; d >= 0; d--) {
        if (v->dims[d] != 1 && v->strides[d] != stride) return false;
        stride *= v->dims[d];
    }
    return true;
}
