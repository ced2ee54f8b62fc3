/* aten_views.c: views that no byte range can be, made dense: a strided copy by the geometry of ops/view.c. Contiguous
 * ones need no instruction (plan/views.c); where an executor runs them all the same they are copies. And copy_, which
 * writes a tensor under its own name: broadcast, converted. */
#include "executor/kernels/layout.h"
#include "ops/view.h"

typedef struct part {
    loops loops; /* operands: the view, its input */
    int64_t offset;
} part;

static shape shape_of(const tensor *t) {
    shape s = {.dtype = t->dtype, .ndim = t->ndim, .height = -1};
    memcpy(s.dims, t->dims, sizeof s.dims);
    return s;
}

static weft_status prepare_part(const kernel_prepare *p, const tensor *x, const tensor *out, size_t index, part *to) {
    shape whole = shape_of(x);
    op_view v;
    TRY(op_view_of(p->op, &whole, index, &v));
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK], numel = 1;
    for (int32_t d = 0; d < v.ndim; d++) numel *= v.dims[d];
    TRY(require_same_dtype(p, x, out, "the view"));
    TRY(require_numel(p, out, numel, "the view"));
    strides_dense(v.ndim, v.dims, strides[0]);
    memcpy(strides[1], v.strides, sizeof strides[1]);
    loops_init(&to->loops, v.ndim, v.dims, 2, strides);
    to->offset = v.offset;
    return NULL;
}

static weft_status prepare_view(kernel_prepare *p) {
    const tensor *x = type_in(p, 0);
    uint32_t nout = p->out_first[1];
    part *parts = ARENA_ARRAY(p->arena, part, nout ? nout : 1);
    if (!parts) return base_out_of_memory();
    p->state = parts;
    TRY(require_present(p, x, "self"));
    for (uint32_t k = 0; k < nout; k++)
        if (p->out[k].dtype != WEFT_DTYPE_NONE) TRY(prepare_part(p, x, &p->out[k], k, &parts[k]));
    return NULL;
}

static weft_status run_view(const kernel_call *c) {
    const part *parts = c->state;
    const tensor *x = arg_in(c, 0);
    size_t nbytes = weft_dtype_nbytes(x->dtype);
    for (uint32_t k = 0; k < c->out_first[1]; k++) {
        const char *from = (const char *)x->data + (size_t)parts[k].offset * nbytes;
        if (c->out[k].dtype == WEFT_DTYPE_NONE || c->out[k].data == from) continue;
        copy_loops(&parts[k].loops, nbytes, c->out[k].data, from);
    }
    return NULL;
}

const kernel kernel_aten_view = {prepare_view, run_view};

/* --- copy_ -------------------------------------------------------------------------------------------------------- */

enum { SELF, SRC };

static weft_status prepare_copy(kernel_prepare *p) {
    const tensor *self = type_out(p, 0), *src = type_in(p, SRC);
    loops *l = KERNEL_STATE(p, loops);
    if (!l) return base_out_of_memory();
    TRY(require_present(p, self, "self_out"));
    TRY(require_present(p, src, "src"));
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    if (src->ndim > self->ndim || !strides_broadcast(src, -1, self->ndim, self->dims, strides[1]))
        return kernel_unsupported(p, "expected src that broadcasts to self");
    if (!cast_exists(src->dtype, self->dtype))
        return kernel_unsupported(p, "no copy of %s to %s", dtype_text(src->dtype), dtype_text(self->dtype));
    strides_dense(self->ndim, self->dims, strides[0]);
    loops_init(l, self->ndim, self->dims, 2, strides);
    return NULL;
}

/* A run of n elements at the same place of self; along it src's go on, or are one. */
static void copy_run(const tensor *self, char *to, const tensor *src, const char *from, int64_t stride, int64_t n) {
    size_t nbytes = weft_dtype_nbytes(self->dtype);
    cast_elements(src->dtype, self->dtype, stride ? n : 1, from, to);
    for (int64_t done = 1; !stride && done < n;) { /* doubles what is there */
        int64_t more = done < n - done ? done : n - done;
        memcpy(to + (size_t)done * nbytes, to, (size_t)more * nbytes);
        done += more;
    }
}

static weft_status run_copy(const kernel_call *c) {
    const loops *l = c->state;
    const tensor *self = arg_out(c, 0), *src = arg_in(c, SRC);
    size_t to_size = weft_dtype_nbytes(self->dtype), from_size = weft_dtype_nbytes(src->dtype);
    for (walk w = walk_start(l); w.left; walk_next(l, &w))
        copy_run(self, (char *)self->data + (size_t)w.at[0] * to_size, src,
                 (const char *)src->data + (size_t)w.at[1] * from_size, loops_stride(l, 1), loops_run(l));
    return NULL;
}

const kernel kernel_aten_copy_ = {prepare_copy, run_copy};
