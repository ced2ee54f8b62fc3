/* index.c: slices of a tensor by index along one axis: gather, index_select, take_along_axis, index_sample, and
 * gradients, which add up what was taken. Indices count from the end where they are negative.
 *
 * Paddle 2.6's gradient of gather along another axis than 0 uses the first batch's values everywhere; here, as in 3,
 * each has its own. */
#include "executor/kernels/layout.h"

/* A slice of `inner` elements for each index, in each of `outer` parts. */
typedef struct take_state {
    axis_split split;     /* of X at the axis */
    int64_t count;        /* indices a part */
    int axis_slot;        /* a tensor that holds the axis, or -1 */
    int gradient;         /* the slot of the result's gradient; 0 forward */
    int axis, index_ndim; /* take_along_axis: the index has X's rank */
    int64_t index_dims[WEFT_MAX_RANK], x_stride[WEFT_MAX_RANK];
} take_state;

enum { IN_X, IN_INDEX, GATHER_IN_AXIS, OUT = 0 };

static weft_status check_args(const kernel_prepare *p, const tensor *x, const tensor *index, const tensor *result) {
    TRY(require_present(p, x, "X"));
    TRY(require_present(p, index, "Index"));
    TRY(require_present(p, result, "the result"));
    TRY(require_same_dtype(p, x, result, "the result"));
    if (index->dtype == WEFT_INT32 || index->dtype == WEFT_INT64) return NULL;
    return kernel_unsupported(p, "expected indices of int32 or int64, found %s", dtype_text(index->dtype));
}

static weft_status check_gradient(const kernel_prepare *p, const tensor *x) {
    TRY(require_real(p, x, "X"));
    return require_numel(p, type_out(p, OUT), x->numel, "X@GRAD");
}

static weft_status bad_index(const kernel_call *c, int64_t index, int64_t extent) {
    return kernel_failed(c, "expected indices of -%lld to %lld, found %lld", (long long)extent, (long long)extent - 1,
                         (long long)index);
}

/* Index i, counted from the start; false if it is out of range. */
static inline bool index_at(const tensor *index, int64_t i, int64_t extent, int64_t *out) {
    int64_t k = index->dtype == WEFT_INT64 ? ((const int64_t *)index->data)[i] : ((const int32_t *)index->data)[i];
    *out = k < 0 ? k + extent : k;
    return *out >= 0 && *out < extent;
}

#define DEFINE_ADD(dtype, suffix, real)                                                                                \
    static void add_##suffix(int64_t n, const real *restrict src, real *restrict dst) {                                \
        for (int64_t i = 0; i < n; i++) dst[i] += src[i];                                                              \
    }
REAL_TYPES(DEFINE_ADD)
#undef DEFINE_ADD

/* n elements at element offsets of two tensors: to += from. */
static void add_elements(weft_dtype dtype, int64_t n, const void *from, int64_t from_at, void *to, int64_t to_at) {
    if (dtype == WEFT_FP64)
        add_fp64(n, (const double *)from + from_at, (double *)to + to_at);
    else
        add_fp32(n, (const float *)from + from_at, (float *)to + to_at);
}

/* --- gather, index_select: one list of indices for the axis ------------------------------------------------------- */

static weft_status prepare_list(kernel_prepare *p, const char *axis_attr, int axis_slot, int gradient) {
    take_state *s = KERNEL_STATE(p, take_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *index = type_in(p, IN_INDEX);
    const tensor *result = gradient ? type_in(p, gradient) : type_out(p, OUT);
    TRY(check_args(p, x, index, result));
    TRY(axis_split_prepare(p, x, attr_int(p->op, axis_attr, 0), &s->split));
    s->count = index->numel;
    s->gradient = gradient;
    s->axis_slot = axis_slot >= 0 && type_in(p, axis_slot) ? axis_slot : -1;
    if (gradient) TRY(check_gradient(p, x));
    if (s->axis_slot >= 0) return NULL;
    return require_numel(p, result, s->split.outer * s->count * s->split.inner, "the result");
}

static weft_status prepare_gather(kernel_prepare *p) {
    return prepare_list(p, "axis", GATHER_IN_AXIS, 0);
}
static weft_status prepare_gather_grad(kernel_prepare *p) {
    return prepare_list(p, "axis", GATHER_IN_AXIS, 3);
}
static weft_status prepare_select(kernel_prepare *p) {
    return prepare_list(p, "dim", -1, 0);
}
static weft_status prepare_select_grad(kernel_prepare *p) {
    return prepare_list(p, "dim", -1, 2);
}

/* The split, at the axis that a tensor holds where there is one. */
static weft_status settle_split(const kernel_call *c, const tensor *result, axis_split *out) {
    const take_state *s = c->state;
    const tensor *x = arg_in(c, IN_X);
    *out = s->split;
    if (s->axis_slot < 0) return NULL;
    int axis = axis_of(x, host_integer(c, arg_in(c, s->axis_slot), 0));
    if (axis < 0) return kernel_failed(c, "expected an axis of %d dimensions", x->ndim);
    *out = axis_split_at(x, axis);
    if (result->numel == out->outer * s->count * out->inner) return NULL;
    return kernel_failed(c, "expected a result of %lld elements, found %lld",
                         (long long)(out->outer * s->count * out->inner), (long long)result->numel);
}

static weft_status run_list(const kernel_call *c) {
    const take_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *index = arg_in(c, IN_INDEX);
    axis_split split;
    TRY(settle_split(c, arg_out(c, OUT), &split));
    size_t run = (size_t)split.inner * weft_dtype_nbytes(x->dtype);
    char *to = arg_out(c, OUT)->data;
    for (int64_t o = 0; o < split.outer; o++)
        for (int64_t i = 0; i < s->count; i++, to += run) {
            int64_t k;
            if (!index_at(index, i, split.extent, &k)) return bad_index(c, k, split.extent);
            memcpy(to, (const char *)x->data + (size_t)(o * split.extent + k) * run, run);
        }
    return NULL;
}

static weft_status run_list_grad(const kernel_call *c) {
    const take_state *s = c->state;
    const tensor *index = arg_in(c, IN_INDEX), *dy = arg_in(c, s->gradient);
    tensor *dx = arg_out(c, OUT);
    axis_split split;
    TRY(settle_split(c, dy, &split));
    tensor_clear(dx);
    for (int64_t o = 0; o < split.outer; o++)
        for (int64_t i = 0; i < s->count; i++) {
            int64_t k;
            if (!index_at(index, i, split.extent, &k)) return bad_index(c, k, split.extent);
            add_elements(dx->dtype, split.inner, dy->data, (o * s->count + i) * split.inner, dx->data,
                         (o * split.extent + k) * split.inner);
        }
    return NULL;
}

const kernel kernel_gather = {prepare_gather, run_list};
const kernel kernel_gather_grad = {prepare_gather_grad, run_list_grad};
const kernel kernel_index_select = {prepare_select, run_list};
const kernel kernel_index_select_grad = {prepare_select_grad, run_list_grad};

/* --- take_along_axis, index_sample: an index for every element of the result -------------------------------------- */

static weft_status prepare_elements(kernel_prepare *p, int64_t axis, int gradient) {
    take_state *s = KERNEL_STATE(p, take_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *index = type_in(p, IN_INDEX);
    const tensor *result = gradient ? type_in(p, gradient) : type_out(p, OUT);
    TRY(check_args(p, x, index, result));
    TRY(require_numel(p, result, index->numel, "the result"));
    s->axis = axis_of(x, axis);
    if (s->axis < 0 || index->ndim != x->ndim)
        return kernel_unsupported(p, "expected Index of X's %d dimensions, found %d", x->ndim, index->ndim);
    for (int i = 0; i < x->ndim; i++)
        if (i != s->axis && index->dims[i] > x->dims[i])
            return kernel_unsupported(p, "expected Index no larger than X in dimension %d", i);
    s->gradient = gradient;
    s->index_ndim = index->ndim;
    memcpy(s->index_dims, index->dims, sizeof s->index_dims);
    strides_dense(x->ndim, x->dims, s->x_stride);
    s->split = axis_split_at(x, s->axis);
    return gradient ? check_gradient(p, x) : NULL;
}

static weft_status prepare_take(kernel_prepare *p) {
    return prepare_elements(p, attr_int(p->op, "Axis", 0), 0);
}
static weft_status prepare_take_grad(kernel_prepare *p) {
    return prepare_elements(p, attr_int(p->op, "Axis", 0), 2);
}
static weft_status prepare_sample(kernel_prepare *p) {
    return prepare_elements(p, 1, 0);
}
static weft_status prepare_sample_grad(kernel_prepare *p) {
    return prepare_elements(p, 1, 2);
}

/* Visits every element of the index in order: result element i belongs to X's element *out_at. */
static weft_status next_element(const kernel_call *c, const take_state *s, int64_t i, int64_t *position,
                                int64_t *out_at) {
    int64_t k, at = 0;
    if (!index_at(arg_in(c, IN_INDEX), i, s->split.extent, &k)) return bad_index(c, k, s->split.extent);
    for (int d = 0; d < s->index_ndim; d++) at += (d == s->axis ? k : position[d]) * s->x_stride[d];
    *out_at = at;
    for (int d = s->index_ndim - 1; d >= 0 && ++position[d] == s->index_dims[d]; d--) position[d] = 0;
    return NULL;
}

static weft_status run_elements(const kernel_call *c) {
    const take_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *index = arg_in(c, IN_INDEX);
    size_t nbytes = weft_dtype_nbytes(x->dtype);
    char *to = arg_out(c, OUT)->data;
    int64_t position[WEFT_MAX_RANK] = {0}, at = 0;
    for (int64_t i = 0; i < index->numel; i++, to += nbytes) {
        TRY(next_element(c, s, i, position, &at));
        memcpy(to, (const char *)x->data + (size_t)at * nbytes, nbytes);
    }
    return NULL;
}

static weft_status run_elements_grad(const kernel_call *c) {
    const take_state *s = c->state;
    const tensor *dy = arg_in(c, s->gradient);
    tensor *dx = arg_out(c, OUT);
    int64_t position[WEFT_MAX_RANK] = {0}, at = 0;
    tensor_clear(dx);
    for (int64_t i = 0; i < dy->numel; i++) {
        TRY(next_element(c, s, i, position, &at));
        add_elements(dx->dtype, 1, dy->data, i, dx->data, at);
    }
    return NULL;
}

const kernel kernel_take_along_axis = {prepare_take, run_elements};
const kernel kernel_take_along_axis_grad = {prepare_take_grad, run_elements_grad};
const kernel kernel_index_sample = {prepare_sample, run_elements};
const kernel kernel_index_sample_grad = {prepare_sample_grad, run_elements_grad};
