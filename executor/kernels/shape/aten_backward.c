/* aten_backward.c: gradients that know the sizes of what they are the gradient of, and not the tensor: of a slice,
 * zeros with the gradient put back; of windows, their sums; of an embedding, sums of rows by index, each added up in
 * the order of the lookups.
 */
#include "executor/kernels/layout.h"
#include "ops/view.h"

/* --- slice_backward, select_backward: zeros with a part put in its place; slice_scatter, select_scatter: self with it
 */

typedef struct part_state {
    loops loops; /* operands: the whole, the part */
    int64_t offset;
} part_state;

static weft_status prepare_part(kernel_prepare *p, const tensor *part) {
    part_state *s = KERNEL_STATE(p, part_state);
    const tensor *out = type_out(p, 0);
    if (!s) return base_out_of_memory();
    TRY(require_present(p, part, "the part"));
    TRY(require_present(p, out, "the output"));
    TRY(require_same_dtype(p, part, out, "the output"));
    shape whole = {.dtype = out->dtype, .ndim = out->ndim, .height = -1};
    memcpy(whole.dims, out->dims, sizeof whole.dims);
    op_view v;
    TRY(op_view_of(p->op, &whole, 0, &v));
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    memcpy(strides[0], v.strides, sizeof strides[0]);
    strides_dense(v.ndim, v.dims, strides[1]);
    loops_init(&s->loops, v.ndim, v.dims, 2, strides);
    s->offset = v.offset;
    return require_numel(p, part, s->loops.numel, "the part");
}

static weft_status prepare_part_backward(kernel_prepare *p) {
    return prepare_part(p, type_in(p, 0));
}
static weft_status run_part_backward(const kernel_call *c) {
    const part_state *s = c->state;
    const tensor *grad = arg_in(c, 0), *out = arg_out(c, 0);
    size_t nbytes = weft_dtype_nbytes(out->dtype);
    tensor_clear(out);
    copy_loops(&s->loops, nbytes, (char *)out->data + (size_t)s->offset * nbytes, grad->data);
    return NULL;
}
const kernel kernel_aten_part_backward = {prepare_part_backward, run_part_backward};

static weft_status prepare_part_scatter(kernel_prepare *p) {
    TRY(prepare_part(p, type_in(p, 1)));
    TRY(require_same_dtype(p, type_in(p, 0), type_out(p, 0), "the output"));
    return require_numel(p, type_out(p, 0), type_in(p, 0)->numel, "the output");
}
static weft_status run_part_scatter(const kernel_call *c) {
    const part_state *s = c->state;
    const tensor *x = arg_in(c, 0), *src = arg_in(c, 1), *out = arg_out(c, 0);
    size_t nbytes = weft_dtype_nbytes(out->dtype);
    copy_bytes(out->data, x->data, tensor_nbytes(x));
    copy_loops(&s->loops, nbytes, (char *)out->data + (size_t)s->offset * nbytes, src->data);
    return NULL;
}
const kernel kernel_aten_part_scatter = {prepare_part_scatter, run_part_scatter};

/* --- unfold_backward: windows added up where they lie ----------------------------------------------------------------
 */

static weft_status prepare_windows(kernel_prepare *p) {
    TRY(require_real(p, type_in(p, 0), "grad_in"));
    return prepare_part(p, type_in(p, 0));
}
static weft_status run_windows(const kernel_call *c) {
    const part_state *s = c->state;
    const tensor *grad = arg_in(c, 0);
    tensor *out = arg_out(c, 0);
    tensor_clear(out);
    for (walk w = walk_start(&s->loops); w.left; walk_next(&s->loops, &w))
        for (int64_t i = 0; i < loops_run(&s->loops); i++)
            tensor_add_real(out, s->offset + w.at[0] + i * loops_stride(&s->loops, 0),
                            tensor_real(grad, w.at[1] + i * loops_stride(&s->loops, 1)));
    return NULL;
}
const kernel kernel_aten_unfold_backward = {prepare_windows, run_windows};

/* --- embedding_dense_backward ------------------------------------------------------------------------------------- */

enum { IN_GRAD, IN_INDICES };

typedef struct embedding_state {
    int64_t nrows, width, padding;
    bool by_freq; /* rows are divided by how often they were looked up, counted in the workspace */
} embedding_state;

static weft_status prepare_embedding(kernel_prepare *p) {
    embedding_state *s = KERNEL_STATE(p, embedding_state);
    const tensor *grad = type_in(p, IN_GRAD), *indices = type_in(p, IN_INDICES), *out = type_out(p, 0);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, grad, "grad_output"));
    TRY(require_present(p, indices, "indices"));
    TRY(require_present(p, out, "grad_weight"));
    TRY(require_same_dtype(p, grad, out, "grad_weight"));
    if (dtype_is_float(indices->dtype)) return kernel_unsupported(p, "expected indices of an integer type");
    if (out->ndim != 2) return kernel_unsupported(p, "expected grad_weight of 2 dimensions, found %d", out->ndim);
    s->nrows = out->dims[0];
    s->width = out->dims[1];
    s->padding = attr_int(p->op, "padding_idx", -1);
    s->by_freq = attr_bool(p->op, "scale_grad_by_freq", false);
    if (s->by_freq && !base_mul((size_t)s->nrows, sizeof(int64_t), &p->workspace_nbytes)) return base_out_of_memory();
    return require_numel(p, grad, indices->numel * s->width, "grad_output");
}

/* Row `row` of dst += src * factor. */
#define DEFINE_ADD_ROW(dtype, suffix, real)                                                                            \
    static void add_row_##suffix(int64_t n, const real *restrict src, real factor, real *restrict dst) {               \
        for (int64_t i = 0; i < n; i++) dst[i] += src[i] * factor;                                                     \
    }
REAL_TYPES(DEFINE_ADD_ROW)
#undef DEFINE_ADD_ROW

/* The row of lookup i; -1 for padding. */
static weft_status row_of(const kernel_call *c, const embedding_state *s, int64_t i, int64_t *out_row) {
    int64_t index = tensor_integer(arg_in(c, IN_INDICES), i);
    *out_row = index == s->padding ? -1 : index;
    if (*out_row < 0 ? index == s->padding : index < s->nrows) return NULL;
    return kernel_failed(c, "expected indices of 0 to %lld, found %lld at %lld", (long long)s->nrows - 1,
                         (long long)index, (long long)i);
}

static weft_status count_lookups(const kernel_call *c, const embedding_state *s, int64_t n, int64_t *counts) {
    memset(counts, 0, (size_t)s->nrows * sizeof *counts);
    for (int64_t i = 0; i < n; i++) {
        int64_t row = -1;
        TRY(row_of(c, s, i, &row));
        if (row >= 0) counts[row]++;
    }
    return NULL;
}

static weft_status run_embedding(const kernel_call *c) {
    const embedding_state *s = c->state;
    const tensor *grad = arg_in(c, IN_GRAD), *out = arg_out(c, 0);
    int64_t n = arg_in(c, IN_INDICES)->numel, width = s->width, *counts = s->by_freq ? c->workspace : NULL;
    tensor_clear(out);
    if (counts) TRY(count_lookups(c, s, n, counts));
    for (int64_t i = 0; i < n; i++) {
        int64_t row = -1;
        TRY(row_of(c, s, i, &row));
        if (row < 0) continue;
        double factor = counts ? 1.0 / (double)counts[row] : 1;
        if (out->dtype == WEFT_FP64)
            add_row_fp64(width, (const double *)grad->data + i * width, factor, (double *)out->data + row * width);
        else
            add_row_fp32(width, (const float *)grad->data + i * width, (float)factor, (float *)out->data + row * width);
    }
    return NULL;
}

const kernel kernel_aten_embedding_dense_backward = {prepare_embedding, run_embedding};
