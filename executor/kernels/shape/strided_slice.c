/* strided_slice.c: every stride-th element of a box, backwards where the stride is negative, and flip, which is the
 * same of a whole tensor. Both are copies between strided arrays whose source strides may be negative. */
#include "executor/kernels/layout.h"
#include "ops/part.h"

enum { IN_X, IN_STARTS, IN_ENDS, IN_STRIDES, IN_STARTS_LIST, IN_ENDS_LIST, IN_STRIDES_LIST, IN_OUT_GRAD, OUT = 0 };
enum { BOUNDS = 3 }; /* starts, ends, strides */

typedef struct strided_state {
    int naxes;
    int axes[WEFT_MAX_RANK];
    int64_t bounds[BOUNDS][WEFT_MAX_RANK];
    bool at_run_time, grad, older;
    size_t nbytes;
    loops box; /* operand 0 is written, operand 1 read */
    int64_t offset;
} strided_state;

static void place_box(const strided_state *s, const tensor *whole, int64_t bounds[BOUNDS][WEFT_MAX_RANK], loops *box,
                      int64_t *out_offset) {
    int64_t extent[WEFT_MAX_RANK], strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    int in_whole = s->grad ? 0 : 1;
    memcpy(extent, whole->dims, sizeof extent);
    strides_dense(whole->ndim, whole->dims, strides[in_whole]);
    *out_offset = 0;
    for (int k = 0; k < s->naxes; k++) {
        int d = s->axes[k];
        int64_t first, step = bounds[2][k];
        int64_t end = strided_end(s->older, whole->dims[d], bounds[1][k], step);
        extent[d] = strided_extent(whole->dims[d], bounds[0][k], end, step, &first);
        *out_offset += first * strides[in_whole][d];
        strides[in_whole][d] *= step;
    }
    strides_dense(whole->ndim, extent, strides[1 - in_whole]);
    loops_init(box, whole->ndim, extent, 2, strides);
}

static weft_status read_axes(kernel_prepare *p, strided_state *s, const tensor *x, const char *attr) {
    size_t naxes;
    const int64_t *axes = attr_ints(p->op, attr, &naxes);
    bool seen[WEFT_MAX_RANK] = {false};
    if (naxes > WEFT_MAX_RANK)
        return kernel_unsupported(p, "expected at most %d axes, found %zu", WEFT_MAX_RANK, naxes);
    s->naxes = (int)naxes;
    for (int k = 0; k < s->naxes; k++) {
        s->axes[k] = x->ndim ? axis_of(x, axes[k]) : -1;
        if (s->axes[k] < 0 || seen[s->axes[k]])
            return kernel_unsupported(p, "expected different axes of %d dimensions, found %lld", x->ndim,
                                      (long long)axes[k]);
        seen[s->axes[k]] = true;
    }
    return NULL;
}

static weft_status read_bounds(kernel_prepare *p, strided_state *s) {
    static const char *const attrs[BOUNDS] = {"starts", "ends", "strides"};
    for (int b = 0; b < BOUNDS; b++) {
        bool is_tensor = type_in(p, IN_STARTS + b) || type_in(p, IN_STARTS_LIST + b);
        size_t count;
        const int64_t *values = attr_ints(p->op, attrs[b], &count);
        s->at_run_time = s->at_run_time || is_tensor;
        if (!is_tensor && count != (size_t)s->naxes)
            return kernel_unsupported(p, "expected %d entries in %s, found %zu", s->naxes, attrs[b], count);
        for (int k = 0; k < s->naxes; k++) s->bounds[b][k] = (size_t)k < count ? values[k] : 1;
    }
    for (int k = 0; k < s->naxes; k++)
        if (s->bounds[2][k] == 0) return kernel_unsupported(p, "expected strides other than 0");
    return NULL;
}

static weft_status prepare_strided(kernel_prepare *p, bool grad) {
    strided_state *s = KERNEL_STATE(p, strided_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *box = grad ? type_in(p, IN_OUT_GRAD) : type_out(p, OUT);
    TRY(require_present(p, x, "Input"));
    TRY(require_present(p, box, "Out"));
    TRY(require_same_dtype(p, x, box, "Out"));
    s->grad = grad;
    s->older = p->older;
    s->nbytes = weft_dtype_nbytes(x->dtype);
    TRY(read_axes(p, s, x, "axes"));
    TRY(read_bounds(p, s));
    if (grad) TRY(require_numel(p, type_out(p, OUT), x->numel, "Input@GRAD"));
    if (s->at_run_time) return NULL;
    place_box(s, x, s->bounds, &s->box, &s->offset);
    return require_numel(p, box, s->box.numel, "Out");
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_strided(p, false);
}
static weft_status prepare_grad(kernel_prepare *p) {
    return prepare_strided(p, true);
}

static weft_status prepare_flip(kernel_prepare *p) {
    strided_state *s = KERNEL_STATE(p, strided_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X);
    TRY(require_present(p, x, "X"));
    TRY(require_numel(p, type_out(p, OUT), x->numel, "Out"));
    TRY(require_same_dtype(p, x, type_out(p, OUT), "Out"));
    TRY(read_axes(p, s, x, "axis"));
    s->nbytes = weft_dtype_nbytes(x->dtype);
    for (int k = 0; k < s->naxes; k++) {
        s->bounds[0][k] = -1;
        s->bounds[1][k] = INT64_MIN;
        s->bounds[2][k] = -1;
    }
    place_box(s, x, s->bounds, &s->box, &s->offset);
    return NULL;
}

/* Bounds that come as tensors take the place of those of attrs. */
static weft_status settle_bounds(const kernel_call *c, const strided_state *s, int64_t bounds[BOUNDS][WEFT_MAX_RANK]) {
    memcpy(bounds, s->bounds, sizeof s->bounds);
    for (int b = 0; b < BOUNDS; b++) {
        const tensor *t = arg_in(c, IN_STARTS + b);
        uint32_t first = c->in_first[IN_STARTS_LIST + b], count = c->in_first[IN_STARTS_LIST + b + 1] - first;
        if ((t && t->numel != s->naxes) || (!t && count && count != (uint32_t)s->naxes))
            return kernel_failed(c, "expected %d bounds in a tensor, found %lld", s->naxes,
                                 t ? (long long)t->numel : (long long)count);
        for (int k = 0; k < s->naxes; k++) {
            if (t)
                bounds[b][k] = host_integer(c, t, k);
            else if (count)
                bounds[b][k] = host_integer(c, &c->in[first + (uint32_t)k], 0);
            if (b == 2 && bounds[b][k] == 0) return kernel_failed(c, "expected strides other than 0");
        }
    }
    return NULL;
}

static weft_status copy_box(const kernel_call *c, const tensor *box, char *to, const char *from) {
    const strided_state *s = c->state;
    loops at = s->box;
    int64_t offset = s->offset, bounds[BOUNDS][WEFT_MAX_RANK];
    if (s->at_run_time) {
        TRY(settle_bounds(c, s, bounds));
        place_box(s, arg_in(c, IN_X), bounds, &at, &offset);
        if (at.numel != box->numel)
            return kernel_failed(c, "expected bounds that leave %lld elements, found %lld", (long long)box->numel,
                                 (long long)at.numel);
    }
    offset *= (int64_t)s->nbytes;
    copy_loops(&at, s->nbytes, s->grad ? to + offset : to, s->grad ? from : from + offset);
    return NULL;
}

static weft_status run(const kernel_call *c) {
    return copy_box(c, arg_out(c, OUT), arg_out(c, OUT)->data, arg_in(c, IN_X)->data);
}

static weft_status run_grad(const kernel_call *c) {
    const tensor *dy = arg_in(c, IN_OUT_GRAD);
    tensor *dx = arg_out(c, OUT);
    tensor_clear(dx);
    return copy_box(c, dy, dx->data, dy->data);
}

const kernel kernel_strided_slice = {prepare, run};
const kernel kernel_strided_slice_grad = {prepare_grad, run_grad};
const kernel kernel_flip = {prepare_flip, run};
