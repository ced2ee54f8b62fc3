/* median.c: medians over dimensions, without what is not a number (nanmedian), and the gradient.
 *
 * Of an even count a median is the mean of the two in the middle, or with mode "min" the lesser one. MedianIndex says
 * where both are in their column, whose elements are counted with the axes in the order of the dimensions; -1 where a
 * column has no number. The gradient goes to both in halves. Elements of MedianIndex that Paddle leaves unwritten are
 * -1. Paddle: phi/kernels/cpu/nanmedian_kernel.cc. */
#include <math.h>
#include <stdlib.h>

#include "executor/kernels/layout.h"

typedef struct median_state {
    int64_t columns, extent;
    int64_t column_step[WEFT_MAX_RANK], inner_step[WEFT_MAX_RANK]; /* of a dimension: one of them, the other is 0 */
    bool takes_lesser;
} median_state;

typedef struct ranked {
    double value;
    int64_t index;
} ranked;

static weft_status prepare_columns(kernel_prepare *p, const tensor *index, const tensor *out) {
    median_state *s = KERNEL_STATE(p, median_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, 0);
    size_t naxes;
    const int64_t *axes = attr_ints(p->op, "axis", &naxes);
    bool reduced[WEFT_MAX_RANK] = {false};
    TRY(require_real(p, x, "X"));
    for (size_t k = 0; k < naxes; k++) {
        int axis = axis_of(x, axes[k]);
        if (axis < 0) return kernel_unsupported(p, "axis: X has %d dimensions", x->ndim);
        if (x->ndim) reduced[axis] = true;
    }
    s->columns = s->extent = 1;
    for (int d = x->ndim - 1; d >= 0; d--) {
        bool inner = naxes == 0 || reduced[d];
        *(inner ? &s->inner_step[d] : &s->column_step[d]) = inner ? s->extent : s->columns;
        *(inner ? &s->extent : &s->columns) *= x->dims[d];
    }
    s->takes_lesser = strcmp(attr_string(p->op, "mode", "avg"), "min") == 0;
    TRY(require_present(p, out, "Out"));
    TRY(require_like(p, x, out, s->columns, "Out"));
    if (!index) return NULL;
    if (index->dtype != WEFT_INT64 || index->numel < s->columns * (s->takes_lesser ? 1 : 2))
        return kernel_unsupported(p, "expected MedianIndex of int64, %d for each median", s->takes_lesser ? 1 : 2);
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    TRY(prepare_columns(p, type_out(p, 1), type_out(p, 0)));
    const median_state *s = p->state;
    p->workspace_nbytes = (size_t)(s->columns * s->extent) * sizeof(ranked);
    return NULL;
}

enum { GRAD_INDEX = 1, GRAD_DOWN };

static weft_status prepare_grad(kernel_prepare *p) {
    TRY(require_present(p, type_in(p, GRAD_INDEX), "MedianIndex"));
    TRY(prepare_columns(p, type_in(p, GRAD_INDEX), type_in(p, GRAD_DOWN)));
    TRY(require_present(p, type_out(p, 0), "X@GRAD"));
    return require_like(p, type_in(p, 0), type_out(p, 0), type_in(p, 0)->numel, "X@GRAD");
}

/* Which column element i of X is in, and where. */
static int64_t place(const median_state *s, const tensor *x, int64_t i, int64_t *out_inner) {
    int64_t column = 0;
    *out_inner = 0;
    for (int d = x->ndim - 1; d >= 0; d--) {
        column += i % x->dims[d] * s->column_step[d];
        *out_inner += i % x->dims[d] * s->inner_step[d];
        i /= x->dims[d];
    }
    return column;
}

static int by_value(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (isnan(x->value) != isnan(y->value)) return isnan(x->value) ? 1 : -1;
    if (x->value != y->value && !isnan(x->value)) return x->value < y->value ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static weft_status run(const kernel_call *c) {
    const median_state *s = c->state;
    const tensor *x = arg_in(c, 0), *index = arg_out(c, 1);
    ranked *all = c->workspace;
    int64_t *at = index ? index->data : NULL;
    for (int64_t i = 0; i < x->numel; i++) {
        int64_t inner, column = place(s, x, i, &inner);
        all[column * s->extent + inner] = (ranked){tensor_real(x, i), inner};
    }
    for (int64_t k = 0; at && k < index->numel; k++) at[k] = -1;
    for (int64_t column = 0; column < s->columns; column++) {
        ranked *items = all + column * s->extent;
        int64_t count = 0;
        if (s->extent) qsort(items, (size_t)s->extent, sizeof *items, by_value);
        while (count < s->extent && !isnan(items[count].value)) count++;
        if (count == 0) {
            tensor_set_real(arg_out(c, 0), column, NAN);
            continue;
        }
        const ranked *low = &items[(count - 1) / 2], *high = s->takes_lesser ? low : &items[count / 2];
        tensor_set_real(arg_out(c, 0), column, low == high ? low->value : (low->value + high->value) / 2);
        if (!at) continue;
        at[s->takes_lesser ? column : 2 * column] = low->index;
        if (!s->takes_lesser) at[2 * column + 1] = high->index;
    }
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    const median_state *s = c->state;
    const tensor *x = arg_in(c, 0), *g = arg_in(c, GRAD_DOWN);
    const int64_t *at = arg_in(c, GRAD_INDEX)->data;
    for (int64_t i = 0; i < x->numel; i++) {
        int64_t inner, column = place(s, x, i, &inner);
        int64_t low = at[s->takes_lesser ? column : 2 * column], high = s->takes_lesser ? low : at[2 * column + 1];
        double share = (inner == low) * 0.5 + (inner == high) * 0.5;
        tensor_set_real(arg_out(c, 0), i, share ? share * tensor_real(g, column) : 0);
    }
    return NULL;
}

const kernel kernel_nanmedian = {prepare, run};
const kernel kernel_nanmedian_grad = {prepare_grad, run_grad};
