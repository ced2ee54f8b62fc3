/* aten_pad.c: constant_pad_nd: a border of a number, or a cut where it is negative; arange and linspace. */
#include "executor/kernels/layout.h"

typedef struct pad_state {
    loops loops; /* operands: the output, self; over what both have */
    int64_t to, from;
    double value;
} pad_state;

static weft_status prepare_pad(kernel_prepare *p) {
    pad_state *s = KERNEL_STATE(p, pad_state);
    const tensor *x = type_in(p, 0), *out = type_out(p, 0);
    size_t count;
    const int64_t *pad = attr_ints(p->op, "pad", &count);
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK], dims[WEFT_MAX_RANK];
    if (!s) return base_out_of_memory();
    TRY(require_present(p, x, "self"));
    TRY(require_present(p, out, "out"));
    TRY(require_same_dtype(p, x, out, "out"));
    if (count % 2 || count > 2 * (size_t)x->ndim || out->ndim != x->ndim)
        return kernel_unsupported(p, "pad: expected two numbers for each of the last dimensions");
    strides_dense(out->ndim, out->dims, strides[0]);
    strides_dense(x->ndim, x->dims, strides[1]);
    for (int d = 0; d < x->ndim; d++) {
        size_t at = 2 * (size_t)(x->ndim - 1 - d);
        int64_t before = at < count ? pad[at] : 0, after = at < count ? pad[at + 1] : 0;
        if (out->dims[d] != x->dims[d] + before + after)
            return kernel_unsupported(p, "expected out of the padded extents");
        dims[d] = x->dims[d] + (before < 0 ? before : 0) + (after < 0 ? after : 0);
        if (dims[d] < 0) dims[d] = 0;
        s->to += (before > 0 ? before : 0) * strides[0][d];
        s->from += (before < 0 ? -before : 0) * strides[1][d];
    }
    s->value = attr_float(p->op, "value", 0);
    loops_init(&s->loops, x->ndim, dims, 2, strides);
    return NULL;
}

static weft_status run_pad(const kernel_call *c) {
    const pad_state *s = c->state;
    const tensor *x = arg_in(c, 0);
    tensor *out = arg_out(c, 0);
    size_t nbytes = weft_dtype_nbytes(out->dtype);
    fill_elements(out->dtype, out->data, out->numel, s->value);
    if (s->loops.numel)
        copy_loops(&s->loops, nbytes, (char *)out->data + (size_t)s->to * nbytes,
                   (const char *)x->data + (size_t)s->from * nbytes);
    return NULL;
}

const kernel kernel_aten_constant_pad = {prepare_pad, run_pad};

/* --- arange ------------------------------------------------------------------------------------------------------- */

typedef struct arange_state {
    double start, step;
} arange_state;

static weft_status prepare_arange(kernel_prepare *p) {
    arange_state *s = KERNEL_STATE(p, arange_state);
    if (!s) return base_out_of_memory();
    TRY(require_present(p, type_out(p, 0), "out"));
    if (!cast_exists(WEFT_FP64, type_out(p, 0)->dtype))
        return kernel_unsupported(p, "no numbers of %s", dtype_text(type_out(p, 0)->dtype));
    *s = (arange_state){attr_float(p->op, "start", 0), attr_float(p->op, "step", 1)};
    return NULL;
}

static weft_status run_arange(const kernel_call *c) {
    const arange_state *s = c->state;
    tensor *out = arg_out(c, 0);
    size_t nbytes = weft_dtype_nbytes(out->dtype);
    for (int64_t i = 0; i < out->numel; i++)
        fill_elements(out->dtype, (char *)out->data + (size_t)i * nbytes, 1, s->start + (double)i * s->step);
    return NULL;
}

const kernel kernel_aten_arange = {prepare_arange, run_arange};

/* --- linspace: from both ends to the middle -------------------------------------------------------------------------
 */

typedef struct linspace_state {
    double start, end, step;
} linspace_state;

static weft_status prepare_linspace(kernel_prepare *p) {
    linspace_state *s = KERNEL_STATE(p, linspace_state);
    const tensor *out = type_out(p, 0);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, out, "out"));
    double start = attr_float(p->op, "start", 0), end = attr_float(p->op, "end", 0);
    *s = (linspace_state){start, end, out->numel > 1 ? (end - start) / (double)(out->numel - 1) : 0};
    return NULL;
}

static weft_status run_linspace(const kernel_call *c) {
    const linspace_state *s = c->state;
    int64_t n = arg_out(c, 0)->numel;
    for (int64_t i = 0; i < n; i++)
        tensor_set_real(arg_out(c, 0), i,
                        i < n / 2 || n == 1 ? s->start + s->step * (double)i : s->end - s->step * (double)(n - 1 - i));
    return NULL;
}

const kernel kernel_aten_linspace = {prepare_linspace, run_linspace};
