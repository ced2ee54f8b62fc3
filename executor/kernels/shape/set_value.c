/* set_value.c: Out is Input with a strided box replaced by a value that broadcasts into it.
 *
 * The box: per axis of `axes` a start, end and step, negative ones as in Python. The value is ValueTensor, or what the
 * attrs spell out in the shape of attr `shape`. Axes in decrease_axes are absent from the value's shape; those in
 * none_axes stand in it with extent 1. */
#include "executor/kernels/loops.h"
#include "executor/kernels/typed.h"

enum { INPUT, VALUE, STARTS, ENDS, STEPS };

typedef struct box {
    int64_t start[WEFT_MAX_RANK], step[WEFT_MAX_RANK], extent[WEFT_MAX_RANK];
} box;

typedef struct state {
    size_t naxes;
    int64_t axes[WEFT_MAX_RANK], starts[WEFT_MAX_RANK], ends[WEFT_MAX_RANK], steps[WEFT_MAX_RANK];
    bool dropped[WEFT_MAX_RANK]; /* decrease_axes */
    bool whole;                  /* no axes, one value: fill */
    bool older;                  /* backwards, end -1 is to the beginning */
    tensor value;                /* from attrs; data NULL where ValueTensor gives it */
} state;

static weft_status read_axes(const kernel_prepare *p, state *s, int ndim) {
    const char *const names[] = {"starts", "ends", "steps"};
    int64_t *const lists[] = {s->starts, s->ends, s->steps};
    const int64_t *axes = attr_ints(p->op, "axes", &s->naxes);
    if (s->naxes > WEFT_MAX_RANK) return kernel_unsupported(p, "expected at most %d axes", WEFT_MAX_RANK);
    for (size_t i = 0; i < s->naxes; i++) {
        s->axes[i] = axes[i] < 0 ? axes[i] + ndim : axes[i];
        if (s->axes[i] < 0 || s->axes[i] >= ndim)
            return kernel_unsupported(p, "expected axes in [-%d, %d), found %lld", ndim, ndim, (long long)axes[i]);
    }
    for (int k = 0; k < 3; k++) {
        size_t count = 0, given = p->in_first[STARTS + k + 1] - p->in_first[STARTS + k];
        const int64_t *values = attr_ints(p->op, names[k], &count);
        if (given == 0 && count != s->naxes)
            return kernel_unsupported(p, "expected %zu %s, found %zu", s->naxes, names[k], count);
        if (given && given != s->naxes)
            return kernel_unsupported(p, "expected %zu tensors of %s, found %zu", s->naxes, names[k], given);
        for (size_t i = 0; i < s->naxes && !given; i++) lists[k][i] = values[i];
    }
    return NULL;
}

static weft_status read_value(const kernel_prepare *p, state *s, const tensor *out) {
    size_t count = 0, ndim = 0;
    const void *elements = NULL;
    const int64_t *dims = attr_ints(p->op, "shape", &ndim);
    TRY(attr_elements(p, out->dtype, &elements, &count));
    if (ndim > WEFT_MAX_RANK) return kernel_unsupported(p, "expected a value of at most %d axes", WEFT_MAX_RANK);
    s->value = (tensor){.data = (void *)(uintptr_t)elements, .dtype = out->dtype, .ndim = (int32_t)ndim, .numel = 1};
    for (size_t i = 0; i < ndim; i++) s->value.numel *= s->value.dims[i] = dims[i];
    if ((int64_t)count == s->value.numel) return NULL;
    return kernel_unsupported(p, "expected %lld values, found %zu", (long long)s->value.numel, count);
}

static weft_status prepare(kernel_prepare *p) {
    state *s = KERNEL_STATE(p, state);
    if (!s) return base_out_of_memory();
    const tensor *in = type_in(p, INPUT), *value = type_in(p, VALUE), *out = type_out(p, 0);
    size_t ndropped = 0;
    const int64_t *dropped = attr_ints(p->op, "decrease_axes", &ndropped);
    TRY(require_same_dtype(p, in, out, "output"));
    TRY(require_same_dtype(p, in, value, "ValueTensor"));
    TRY(read_axes(p, s, in->ndim));
    for (size_t i = 0; i < ndropped; i++)
        if (dropped[i] >= 0 && dropped[i] < in->ndim) s->dropped[dropped[i]] = true;
    if (!value) TRY(read_value(p, s, out));
    s->older = p->older;
    s->whole = !value && s->naxes == 0 && s->value.numel == 1;
    return NULL;
}

/* start, step and extent along an axis of `dim` elements, by Python's rules for slices. */
static void slice_axis(int64_t dim, int64_t start, int64_t end, int64_t step, int axis, box *out) {
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? dim - 1 : dim;
    start += start < 0 ? dim : 0;
    end += end < 0 ? dim : 0;
    start = start < low ? low : start > high ? high : start;
    end = end < low ? low : end > high ? high : end;
    int64_t span = step < 0 ? start - end : end - start, stride = step < 0 ? -step : step;
    out->start[axis] = start;
    out->step[axis] = step;
    out->extent[axis] = span > 0 ? (span + stride - 1) / stride : 0;
}

static weft_status find_box(const kernel_call *c, const state *s, const tensor *out, box *b) {
    for (int i = 0; i < out->ndim; i++) slice_axis(out->dims[i], 0, out->dims[i], 1, i, b);
    const int64_t *const lists[] = {s->starts, s->ends, s->steps};
    for (size_t i = 0; i < s->naxes; i++) {
        int64_t bounds[3];
        for (int k = 0; k < 3; k++) {
            uint32_t first = c->in_first[STARTS + k];
            bool given = c->in_first[STARTS + k + 1] > first;
            bounds[k] = given ? host_integer(c, &c->in[first + i], 0) : lists[k][i];
        }
        if (bounds[2] == 0) return kernel_failed(c, "expected a step other than 0");
        if (s->older && bounds[2] < 0 && bounds[1] == -1) bounds[1] = INT64_MIN;
        slice_axis(out->dims[s->axes[i]], bounds[0], bounds[1], bounds[2], (int)s->axes[i], b);
    }
    return NULL;
}

/* The value's strides along the axes of the box; axes that decrease_axes drops are not the value's. Extents of 1 at the
 * front of the value (none_axes, or axes that were kept) match nothing and are passed over. */
static bool value_strides(const state *s, const tensor *value, int ndim, const box *b, int64_t *strides) {
    int64_t own[WEFT_MAX_RANK];
    int at = value->ndim - 1;
    strides_dense(value->ndim, value->dims, own);
    for (int i = ndim - 1; i >= 0; i--) {
        strides[i] = 0;
        if (s->dropped[i]) continue;
        if (at >= 0 && value->dims[at] == b->extent[i]) {
            strides[i] = own[at];
        } else if (at >= 0 && value->dims[at] != 1) {
            return false;
        }
        at--;
    }
    for (; at >= 0; at--)
        if (value->dims[at] != 1) return false;
    return true;
}

static void copy_box(const tensor *out, const tensor *value, const box *b, const int64_t *value_stride) {
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK], dense[WEFT_MAX_RANK], first = 0;
    size_t size = weft_dtype_nbytes(out->dtype);
    loops l;
    strides_dense(out->ndim, out->dims, dense);
    for (int i = 0; i < out->ndim; i++) {
        strides[0][i] = dense[i] * b->step[i];
        strides[1][i] = value_stride[i];
        first += b->start[i] * dense[i];
    }
    loops_init(&l, out->ndim, b->extent, 2, strides);
    for (walk w = walk_start(&l); w.left; walk_next(&l, &w))
        for (int64_t i = 0; i < loops_run(&l); i++)
            memcpy((char *)out->data + (size_t)(first + w.at[0] + i * loops_stride(&l, 0)) * size,
                   (const char *)value->data + (size_t)(w.at[1] + i * loops_stride(&l, 1)) * size, size);
}

static weft_status run(const kernel_call *c) {
    const state *s = c->state;
    const tensor *in = arg_in(c, INPUT), *given = arg_in(c, VALUE), *out = arg_out(c, 0);
    const tensor *value = given ? given : &s->value;
    if (s->whole) {
        fill_elements(out->dtype, out->data, out->numel, tensor_scalar(value));
        return NULL;
    }
    box b;
    int64_t strides[WEFT_MAX_RANK];
    copy_bytes(out->data, in->data, tensor_nbytes(in));
    TRY(find_box(c, s, out, &b));
    if (!value_strides(s, value, out->ndim, &b, strides))
        return kernel_failed(c, "expected a value that broadcasts into the box");
    copy_box(out, value, &b, strides);
    return NULL;
}

const kernel kernel_set_value = {prepare, run};
