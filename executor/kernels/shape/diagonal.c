/* diagonal.c: a diagonal of two dimensions as a last one, the gradient, and a last dimension put on a diagonal
 * (diag_embed), or on that of a copy (fill_diagonal_tensor). All are copies between strided arrays. */
#include "executor/kernels/layout.h"

enum { IN_X, GRAD_IN_OUT_GRAD, OUT = 0 };

typedef struct diagonal_state {
    loops l; /* operand 0: written; operand 1: read */
    int64_t offset;
    size_t nbytes;
    bool into_diagonal;
} diagonal_state;

static int64_t diagonal_length(int64_t rows, int64_t columns, int64_t shift) {
    if (shift >= 0)
        columns -= shift;
    else
        rows += shift;
    int64_t length = rows < columns ? rows : columns;
    return length > 0 ? length : 0;
}

/* Between `square`, of which `rows` and `columns` are two dimensions, and `line`, which ends in the diagonal. */
static weft_status prepare_between(kernel_prepare *p, const tensor *square, const tensor *line, const char *const *axes,
                                   bool into_diagonal) {
    diagonal_state *s = KERNEL_STATE(p, diagonal_state);
    if (!s) return base_out_of_memory();
    TRY(require_present(p, square, "the square"));
    TRY(require_present(p, line, "the diagonal"));
    TRY(require_same_dtype(p, square, line, "the diagonal"));
    int rows = axis_of(square, attr_int(p->op, axes[0], 0)), columns = axis_of(square, attr_int(p->op, axes[1], 1));
    if (square->ndim < 2 || rows < 0 || columns < 0 || rows == columns || line->ndim != square->ndim - 1)
        return kernel_unsupported(p, "expected two different dimensions of %d", square->ndim);
    int64_t own[WEFT_MAX_RANK], extent[WEFT_MAX_RANK], strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    int64_t shift = attr_int(p->op, "offset", 0), length = line->dims[line->ndim - 1];
    int of_square = into_diagonal ? 0 : 1, n = 0;
    int64_t longest = diagonal_length(square->dims[rows], square->dims[columns], shift);
    if (length != longest)
        return kernel_unsupported(p, "expected a diagonal of %lld, found %lld", (long long)longest, (long long)length);
    strides_dense(square->ndim, square->dims, own);
    for (int d = 0; d < square->ndim; d++) {
        if (d == rows || d == columns) continue;
        extent[n] = square->dims[d];
        strides[of_square][n++] = own[d];
    }
    extent[n] = length;
    strides[of_square][n++] = own[rows] + own[columns];
    strides_dense(n, extent, strides[1 - of_square]);
    loops_init(&s->l, n, extent, 2, strides);
    TRY(require_numel(p, line, s->l.numel, "the diagonal"));
    s->offset = shift >= 0 ? shift * own[columns] : -shift * own[rows];
    s->nbytes = weft_dtype_nbytes(square->dtype);
    s->into_diagonal = into_diagonal;
    return NULL;
}

static const char *const of_diagonal[] = {"axis1", "axis2"}, *const of_embed[] = {"dim1", "dim2"};

static weft_status prepare(kernel_prepare *p) {
    return prepare_between(p, type_in(p, IN_X), type_out(p, OUT), of_diagonal, false);
}
static weft_status prepare_grad(kernel_prepare *p) {
    return prepare_between(p, type_out(p, OUT), type_in(p, GRAD_IN_OUT_GRAD), of_diagonal, true);
}
static weft_status prepare_embed(kernel_prepare *p) {
    return prepare_between(p, type_out(p, OUT), type_in(p, IN_X), of_embed, true);
}

static weft_status run_from(const kernel_call *c, int from_slot) {
    const diagonal_state *s = c->state;
    tensor *out = arg_out(c, OUT);
    const char *from = arg_in(c, from_slot)->data;
    char *to = out->data;
    if (s->into_diagonal && out->numel) memset(to, 0, tensor_nbytes(out));
    if (!s->l.numel) return NULL;
    *(s->into_diagonal ? (const char **)&to : &from) += s->offset * (int64_t)s->nbytes;
    copy_loops(&s->l, s->nbytes, to, from);
    return NULL;
}
static weft_status run(const kernel_call *c) {
    return run_from(c, IN_X);
}
static weft_status run_grad(const kernel_call *c) {
    return run_from(c, GRAD_IN_OUT_GRAD);
}

/* --- fill_diagonal_tensor: a copy with another diagonal; its gradient has zeros there ------------------------------ */

static weft_status prepare_filled(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_X), *out = type_out(p, OUT);
    TRY(prepare_between(p, out, type_in(p, 1), of_embed, true));
    TRY(require_present(p, x, "X"));
    TRY(require_same_dtype(p, out, x, "X"));
    return require_numel(p, x, out->numel, "X");
}

static weft_status run_filled(const kernel_call *c) {
    const diagonal_state *s = c->state;
    tensor *out = arg_out(c, OUT);
    copy_bytes(out->data, arg_in(c, IN_X)->data, tensor_nbytes(out));
    if (!s->l.numel) return NULL;
    copy_loops(&s->l, s->nbytes, (char *)out->data + s->offset * (int64_t)s->nbytes, arg_in(c, 1)->data);
    return NULL;
}

/* The diagonal that the forward op read. */
static weft_status prepare_filled_grad(kernel_prepare *p) {
    const tensor *out = type_out(p, OUT);
    TRY(require_present(p, out, "X@GRAD"));
    TRY(require_present(p, type_in(p, 0), "Out@GRAD"));
    TRY(require_same_dtype(p, out, type_in(p, 0), "Out@GRAD"));
    TRY(require_numel(p, type_in(p, 0), out->numel, "Out@GRAD"));
    int rows = axis_of(out, attr_int(p->op, of_embed[0], 0)), columns = axis_of(out, attr_int(p->op, of_embed[1], 1));
    tensor line = {.dtype = out->dtype, .numel = 1};
    if (out->ndim < 2 || rows < 0 || columns < 0 || rows == columns)
        return kernel_unsupported(p, "expected two different dimensions of %d", out->ndim);
    for (int d = 0; d < out->ndim; d++)
        if (d != rows && d != columns) line.dims[line.ndim++] = out->dims[d];
    line.dims[line.ndim++] = diagonal_length(out->dims[rows], out->dims[columns], attr_int(p->op, "offset", 0));
    for (int d = 0; d < line.ndim; d++) line.numel *= line.dims[d];
    return prepare_between(p, out, &line, of_embed, true);
}

static weft_status run_filled_grad(const kernel_call *c) {
    const diagonal_state *s = c->state;
    tensor *out = arg_out(c, OUT);
    copy_bytes(out->data, arg_in(c, 0)->data, tensor_nbytes(out));
    for (walk w = walk_start(&s->l); w.left; walk_next(&s->l, &w))
        for (int64_t i = 0, at = s->offset + w.at[0]; i < loops_run(&s->l); i++, at += loops_stride(&s->l, 0))
            memset((char *)out->data + (size_t)at * s->nbytes, 0, s->nbytes);
    return NULL;
}

const kernel kernel_fill_diagonal_tensor = {prepare_filled, run_filled};
const kernel kernel_fill_diagonal_tensor_grad = {prepare_filled_grad, run_filled_grad};

const kernel kernel_diagonal = {prepare, run};
const kernel kernel_diagonal_grad = {prepare_grad, run_grad};
const kernel kernel_diag_embed = {prepare_embed, run};
