/* concat.c: tensors put together along an axis, and taken apart: concat, split and the gradient of concat.
 *
 * All three move whole runs between one tensor, [outer, extent, inner], and parts that lie one after another in extent.
 * The axis may come as a tensor, so it is settled at each run. Parts without elements are passed over, and outputs that
 * nobody asked for. A split at a negative axis deals out the elements in memory order, as Paddle's CPU kernel does.
 * phi/kernels/funcs/concat_and_split_functor.cc counts rows before the axis as it comes. paddle.split passes none. */
#include "executor/kernels/layout.h"

enum { CONCAT_IN_X, CONCAT_IN_AXIS, CONCAT_GRAD_IN_OUT_GRAD };
enum { SPLIT_IN_X, SPLIT_IN_AXIS };

typedef struct parts_state {
    int64_t axis;
} parts_state;

static weft_status prepare_parts(kernel_prepare *p, const tensor *whole) {
    parts_state *s = KERNEL_STATE(p, parts_state);
    if (!s) return base_out_of_memory();
    TRY(require_present(p, whole, "argument"));
    for (uint32_t i = 0; i < p->out_first[p->schema->noutputs]; i++)
        if (p->out[i].dtype != WEFT_DTYPE_NONE) TRY(require_same_dtype(p, whole, &p->out[i], "arguments"));
    s->axis = attr_int(p->op, "axis", 0);
    return NULL;
}

/* Every X has the type of `whole`. */
static weft_status prepare_concat_args(kernel_prepare *p, const tensor *whole) {
    TRY(prepare_parts(p, whole));
    for (uint32_t i = p->in_first[CONCAT_IN_X]; i < p->in_first[CONCAT_IN_X + 1]; i++)
        TRY(require_same_dtype(p, whole, &p->in[i], "arguments"));
    return NULL;
}

static weft_status prepare_concat(kernel_prepare *p) {
    return prepare_concat_args(p, type_out(p, 0));
}
static weft_status prepare_concat_grad(kernel_prepare *p) {
    return prepare_concat_args(p, type_in(p, CONCAT_GRAD_IN_OUT_GRAD));
}
static weft_status prepare_split(kernel_prepare *p) {
    return prepare_parts(p, type_in(p, SPLIT_IN_X));
}

static weft_status split_of_whole(const kernel_call *c, const tensor *whole, const tensor *axis_tensor, int *out_axis,
                                  axis_split *out) {
    const parts_state *s = c->state;
    int64_t axis = axis_tensor ? host_integer(c, axis_tensor, 0) : s->axis;
    *out_axis = axis_of(whole, axis);
    if (*out_axis < 0)
        return kernel_failed(c, "expected an axis of %d dimensions, found %lld", whole->ndim, (long long)axis);
    *out = axis_split_at(whole, *out_axis);
    return NULL;
}

/* `types` give the parts' shapes, `data` their elements (the same array, or that of the gradients). */
static weft_status check_parts(const kernel_call *c, axis_split w, int axis, const tensor *types, uint32_t nparts) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < nparts; i++) {
        if (types[i].numel == 0) continue;
        int64_t extent = types[i].ndim ? types[i].dims[axis] : 1;
        if (axis >= types[i].ndim + (types[i].ndim == 0) || types[i].numel != w.outer * extent * w.inner)
            return kernel_failed(c, "expected part %u of [%lld, *, %lld] elements, found %lld", i, (long long)w.outer,
                                 (long long)w.inner, (long long)types[i].numel);
        sum += extent;
    }
    if (sum == w.extent || w.outer * w.inner == 0) return NULL;
    return kernel_failed(c, "expected parts of %lld along axis %d, found %lld", (long long)w.extent, axis,
                         (long long)sum);
}

static void copy_rows(int64_t nrows, size_t run, char *dst, size_t dst_step, const char *src, size_t src_step) {
    for (int64_t o = 0; o < nrows; o++, dst += dst_step, src += src_step) memcpy(dst, src, run);
}

/* Moves all parts out of `whole`, or into it. */
static void move_parts(axis_split w, char *whole, weft_dtype dtype, const tensor *types, const tensor *parts,
                       uint32_t nparts, bool into_whole) {
    size_t row = (size_t)(w.extent * w.inner) * weft_dtype_nbytes(dtype);
    for (uint32_t i = 0; i < nparts; i++) {
        if (types[i].numel == 0) continue;
        size_t run = tensor_nbytes(&types[i]) / (size_t)w.outer;
        char *part = parts[i].data;
        if (part && into_whole) copy_rows(w.outer, run, whole, row, part, run);
        if (part && !into_whole) copy_rows(w.outer, run, part, run, whole, row);
        whole += run;
    }
}

static weft_status run_concat(const kernel_call *c) {
    tensor *whole = arg_out(c, 0);
    int axis;
    axis_split w;
    TRY(split_of_whole(c, whole, arg_in(c, CONCAT_IN_AXIS), &axis, &w));
    const tensor *parts = c->in + c->in_first[CONCAT_IN_X];
    uint32_t nparts = c->in_first[CONCAT_IN_X + 1] - c->in_first[CONCAT_IN_X];
    TRY(check_parts(c, w, axis, parts, nparts));
    move_parts(w, whole->data, whole->dtype, parts, parts, nparts, true);
    return NULL;
}

static weft_status run_concat_grad(const kernel_call *c) {
    const tensor *whole = arg_in(c, CONCAT_GRAD_IN_OUT_GRAD);
    int axis;
    axis_split w;
    TRY(split_of_whole(c, whole, arg_in(c, CONCAT_IN_AXIS), &axis, &w));
    uint32_t nparts = c->in_first[CONCAT_IN_X + 1] - c->in_first[CONCAT_IN_X], nout = c->out_first[1];
    if (nout != nparts) return kernel_failed(c, "expected %u gradients, found %u", nparts, nout);
    const tensor *types = c->in + c->in_first[CONCAT_IN_X];
    TRY(check_parts(c, w, axis, types, nparts));
    move_parts(w, whole->data, whole->dtype, types, c->out, nparts, false);
    return NULL;
}

static weft_status run_split(const kernel_call *c) {
    const parts_state *s = c->state;
    const tensor *whole = arg_in(c, SPLIT_IN_X), *axis_tensor = arg_in(c, SPLIT_IN_AXIS);
    int axis;
    axis_split w;
    TRY(split_of_whole(c, whole, axis_tensor, &axis, &w));
    TRY(check_parts(c, w, axis, c->out, c->out_first[1]));
    if (!axis_tensor && s->axis < 0) w = (axis_split){1, whole->numel, 1};
    move_parts(w, whole->data, whole->dtype, c->out, c->out, c->out_first[1], false);
    return NULL;
}

const kernel kernel_concat = {prepare_concat, run_concat};
const kernel kernel_concat_grad = {prepare_concat_grad, run_concat_grad};
const kernel kernel_split = {prepare_split, run_split};
