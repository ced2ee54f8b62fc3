/* slice.c: a box of a tensor, and the gradient: zeros with the box put back.
 *
 * Bounds count from the end where they are negative and are clamped to the dimension; a box may be empty. Bounds that
 * come as tensors are read at each run. decrease_axis changes the shape alone. Paddle: phi/kernels/funcs/slice_utils.h.
 */
#include "executor/kernels/layout.h"

enum { IN_X, IN_STARTS, IN_ENDS, IN_STARTS_LIST, IN_ENDS_LIST, IN_OUT_GRAD, OUT = 0 };

typedef struct slice_state {
    int naxes;
    int axes[WEFT_MAX_RANK];
    int64_t starts[WEFT_MAX_RANK], ends[WEFT_MAX_RANK];
    bool at_run_time, grad;
    size_t nbytes; /* of an element */
    loops box;
    int64_t offset;
} slice_state;

static int64_t clamp_bound(int64_t bound, int64_t extent) {
    if (bound < 0) bound += extent;
    return bound < 0 ? 0 : bound > extent ? extent : bound;
}

/* Loops over the box of `whole`; operand 0 is written, operand 1 read. */
static void place_box(const slice_state *s, const tensor *whole, const int64_t *starts, const int64_t *ends, loops *box,
                      int64_t *out_offset) {
    int64_t extent[WEFT_MAX_RANK], strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    int in_whole = s->grad ? 0 : 1;
    memcpy(extent, whole->dims, sizeof extent);
    strides_dense(whole->ndim, whole->dims, strides[in_whole]);
    *out_offset = 0;
    for (int k = 0; k < s->naxes; k++) {
        int d = s->axes[k];
        int64_t start = clamp_bound(starts[k], whole->dims[d]), end = clamp_bound(ends[k], whole->dims[d]);
        extent[d] = end > start ? end - start : 0;
        *out_offset += start * strides[in_whole][d];
    }
    strides_dense(whole->ndim, extent, strides[1 - in_whole]);
    loops_init(box, whole->ndim, extent, 2, strides);
}

static bool has_bounds(const kernel_prepare *p) {
    return type_in(p, IN_STARTS) || type_in(p, IN_ENDS) || type_in(p, IN_STARTS_LIST) || type_in(p, IN_ENDS_LIST);
}

static weft_status read_attrs(kernel_prepare *p, slice_state *s, const tensor *x) {
    size_t naxes, nstarts, nends;
    const int64_t *axes = attr_ints(p->op, "axes", &naxes), *starts = attr_ints(p->op, "starts", &nstarts);
    const int64_t *ends = attr_ints(p->op, "ends", &nends);
    s->at_run_time = has_bounds(p);
    if (naxes > WEFT_MAX_RANK)
        return kernel_unsupported(p, "expected at most %d axes, found %zu", WEFT_MAX_RANK, naxes);
    if (!s->at_run_time && (nstarts != naxes || nends != naxes))
        return kernel_unsupported(p, "expected %zu starts and ends, found %zu and %zu", naxes, nstarts, nends);
    s->naxes = (int)naxes;
    bool seen[WEFT_MAX_RANK] = {false};
    for (size_t k = 0; k < naxes; k++) {
        s->axes[k] = x->ndim ? axis_of(x, axes[k]) : -1;
        if (s->axes[k] < 0 || seen[s->axes[k]])
            return kernel_unsupported(p, "expected different axes of %d dimensions, found %lld", x->ndim,
                                      (long long)axes[k]);
        seen[s->axes[k]] = true;
        s->starts[k] = k < nstarts ? starts[k] : 0;
        s->ends[k] = k < nends ? ends[k] : INT64_MAX;
    }
    return NULL;
}

static weft_status prepare_slice(kernel_prepare *p, bool grad) {
    slice_state *s = KERNEL_STATE(p, slice_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *box = grad ? type_in(p, IN_OUT_GRAD) : type_out(p, OUT);
    TRY(require_present(p, x, "Input"));
    TRY(require_present(p, box, grad ? "Out@GRAD" : "Out"));
    TRY(require_same_dtype(p, x, box, grad ? "Out@GRAD" : "Out"));
    s->grad = grad;
    s->nbytes = weft_dtype_nbytes(x->dtype);
    TRY(read_attrs(p, s, x));
    if (s->at_run_time) return NULL;
    place_box(s, x, s->starts, s->ends, &s->box, &s->offset);
    TRY(require_numel(p, box, s->box.numel, grad ? "Out@GRAD" : "Out"));
    return grad ? require_numel(p, type_out(p, OUT), x->numel, "Input@GRAD") : NULL;
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_slice(p, false);
}
static weft_status prepare_grad(kernel_prepare *p) {
    return prepare_slice(p, true);
}

/* Bounds from one tensor, from a list of scalars, or as they are. */
static weft_status read_bounds(const kernel_call *c, int naxes, int one, int list, int64_t *bounds) {
    const tensor *t = arg_in(c, one);
    uint32_t first = c->in_first[list], count = c->in_first[list + 1] - first;
    if (t && t->numel != naxes)
        return kernel_failed(c, "expected %d bounds in a tensor, found %lld", naxes, (long long)t->numel);
    if (!t && count && count != (uint32_t)naxes)
        return kernel_failed(c, "expected %d bounds in a list of tensors, found %u", naxes, count);
    for (int k = 0; k < naxes; k++) {
        if (t)
            bounds[k] = host_integer(c, t, k);
        else if (count)
            bounds[k] = host_integer(c, &c->in[first + (uint32_t)k], 0);
    }
    return NULL;
}

static weft_status box_of(const kernel_call *c, const slice_state *s, loops *box, int64_t *offset) {
    *box = s->box;
    *offset = s->offset;
    if (!s->at_run_time) return NULL;
    int64_t starts[WEFT_MAX_RANK], ends[WEFT_MAX_RANK];
    memcpy(starts, s->starts, sizeof starts);
    memcpy(ends, s->ends, sizeof ends);
    TRY(read_bounds(c, s->naxes, IN_STARTS, IN_STARTS_LIST, starts));
    TRY(read_bounds(c, s->naxes, IN_ENDS, IN_ENDS_LIST, ends));
    place_box(s, arg_in(c, IN_X), starts, ends, box, offset);
    int64_t found = s->grad ? arg_in(c, IN_OUT_GRAD)->numel : arg_out(c, OUT)->numel;
    if (box->numel == found) return NULL;
    return kernel_failed(c, "expected bounds that leave %lld elements, found %lld", (long long)found,
                         (long long)box->numel);
}

static weft_status run(const kernel_call *c) {
    const slice_state *s = c->state;
    loops box;
    int64_t offset;
    TRY(box_of(c, s, &box, &offset));
    copy_loops(&box, s->nbytes, arg_out(c, OUT)->data,
               (const char *)arg_in(c, IN_X)->data + offset * (int64_t)s->nbytes);
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    const slice_state *s = c->state;
    loops box;
    int64_t offset;
    TRY(box_of(c, s, &box, &offset));
    tensor *dx = arg_out(c, OUT);
    tensor_clear(dx);
    copy_loops(&box, s->nbytes, (char *)dx->data + offset * (int64_t)s->nbytes, arg_in(c, IN_OUT_GRAD)->data);
    return NULL;
}

const kernel kernel_slice = {prepare, run};
const kernel kernel_slice_grad = {prepare_grad, run_grad};
