/* aten.c: types of ATen ops (torch 2.4, aten/src/ATen/native): numpy's broadcasting, torch's promotion of element
 * types.
 *
 * Promotion (c10/core/ScalarType.h, native/TypeProperties.cpp): a scalar tensor counts only where it is of a higher
 * category (boolean < integer < float) than every tensor with dimensions. Where the element type depends on whether
 * python wrote 1 or 1.0, the declared one decides. */
#include <math.h>

#include "base/types.h"
#include "ops/infer.h"
#include "ops/view.h"

/* --- element types ------------------------------------------------------------------------------------------------ */

static int category(int32_t dtype) {
    return dtype == WEFT_BOOL ? 0 : dtype_is_float(dtype) ? 2 : 1;
}

static int32_t promote_types(int32_t a, int32_t b) {
    if (a == b) return a;
    if (category(a) != category(b)) return category(a) > category(b) ? a : b;
    if (category(a) == 2) return a == WEFT_FP64 || b == WEFT_FP64 ? WEFT_FP64 : WEFT_FP32;
    size_t na = weft_dtype_nbytes((weft_dtype)a), nb = weft_dtype_nbytes((weft_dtype)b);
    return na == nb ? WEFT_INT16 /* int8 and uint8 */ : na > nb ? a : b;
}

/* What tensors with dimensions have in common, and what scalars have. */
typedef struct promotion {
    int32_t dims, scalars; /* WEFT_DTYPE_NONE: there are none */
} promotion;

static void promote(promotion *p, const shape *x) {
    int32_t *of = x->ndim ? &p->dims : &p->scalars;
    *of = *of == WEFT_DTYPE_NONE ? x->dtype : promote_types(*of, x->dtype);
}

static int32_t promoted(const promotion *p) {
    if (p->dims == WEFT_DTYPE_NONE) return p->scalars;
    bool higher = p->scalars != WEFT_DTYPE_NONE && category(p->scalars) > category(p->dims);
    return higher ? p->scalars : p->dims;
}

static const promotion nothing = {WEFT_DTYPE_NONE, WEFT_DTYPE_NONE};

/* --- views -------------------------------------------------------------------------------------------------------- */

weft_status infer_aten_view(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    size_t nout = infer_nout(i, 0);
    int64_t count = op_view_count(i->op, x);
    if (count >= 0 && nout && (size_t)count != nout)
        return infer_error(i, "expected %lld outputs, found %zu", (long long)count, nout);
    for (size_t k = 0; k < nout; k++) {
        op_view v;
        TRY(op_view_of(i->op, x, k, &v));
        shape_set(&i->out[k], x->dtype, (size_t)v.ndim, v.dims);
    }
    return NULL;
}

weft_status infer_aten_copy_(infer *i) {
    const shape *x = infer_in(i, 0), *src = infer_in(i, 1);
    if (!shape_known(x)) return NULL;
    shape both;
    shape_text tx, ts;
    if (shape_known(src)) TRY(shape_broadcast(i, x, src, -1, &both));
    for (int32_t d = 0; shape_known(src) && d < both.ndim; d++)
        if (both.ndim != x->ndim || !extent_fits(both.dims[d], x->dims[d]))
            return infer_error(i, "expected src that broadcasts to self %s, found %s", shape_print(x, &tx),
                               shape_print(src, &ts));
    for (int o = 0; o < 2; o++)
        if (infer_out(i, o)) *infer_out(i, o) = *x;
    return NULL;
}

/* --- one element at a time ---------------------------------------------------------------------------------------- */

static weft_status infer_promoted(infer *i, bool quotient) {
    const shape *x = infer_in(i, 0), *y = infer_in(i, 1);
    if (!shape_known(x) || !shape_known(y) || !infer_out(i, 0)) return NULL;
    promotion p = nothing;
    shape out;
    TRY(shape_broadcast(i, x, y, -1, &out));
    promote(&p, x);
    promote(&p, y);
    out.dtype = promoted(&p);
    if (quotient && !dtype_is_float(out.dtype)) out.dtype = WEFT_FP32;
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_aten_pair(infer *i) {
    return infer_promoted(i, false);
}
weft_status infer_aten_quotient(infer *i) {
    return infer_promoted(i, true);
}

/* Integers and a number: an integer, or a float where python's number was one. */
static weft_status infer_with_number(infer *i, bool quotient) {
    size_t nin = infer_nin(i, 0), nout = infer_nout(i, 0);
    if (nout > nin) return infer_error(i, "expected as many outputs as inputs, found %zu and %zu", nout, nin);
    for (size_t k = 0; k < nout; k++) {
        int32_t declared = i->out[k].dtype, own = i->in[k].dtype;
        if (!dtype_is_float(own) && (dtype_is_float(declared) || (own == WEFT_BOOL && declared != WEFT_DTYPE_NONE)))
            own = declared;
        else if (!dtype_is_float(own) && quotient)
            own = WEFT_FP32;
        shape_copy_dims(&i->out[k], &i->in[k], own);
    }
    return NULL;
}

weft_status infer_aten_number(infer *i) {
    return infer_with_number(i, false);
}
weft_status infer_aten_ratio(infer *i) {
    return infer_with_number(i, true);
}

weft_status infer_aten_where(infer *i) {
    const shape *condition = infer_in(i, 0), *x = infer_in(i, 1), *y = infer_in(i, 2);
    if (!shape_known(condition) || !shape_known(x) || !shape_known(y) || !infer_out(i, 0)) return NULL;
    promotion p = nothing;
    shape pair, out;
    TRY(shape_broadcast(i, x, y, -1, &pair));
    TRY(shape_broadcast(i, &pair, condition, -1, &out));
    promote(&p, x);
    promote(&p, y);
    out.dtype = promoted(&p);
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_aten_masked_fill(infer *i) {
    const shape *x = infer_in(i, 0), *mask = infer_in(i, 1);
    if (!shape_known(x) || !shape_known(mask) || !infer_out(i, 0)) return NULL;
    shape out;
    TRY(shape_broadcast(i, x, mask, -1, &out));
    *infer_out(i, 0) = out;
    return NULL;
}

/* --- cat, full ---------------------------------------------------------------------------------------------------- */

/* Vectors of no elements fit everything, as they did before tensors of other shapes could be empty. */
static bool is_nothing(const shape *x) {
    return x->ndim == 1 && x->dims[0] == 0;
}

static weft_status append(infer *i, shape *out, int32_t dim, const shape *x) {
    for (int32_t d = 0; d < out->ndim; d++)
        if (x->ndim != out->ndim || (d != dim && !extent_fits(x->dims[d], out->dims[d]))) {
            shape_text a, b;
            return infer_error(i, "expected tensors that differ in dimension %d alone, found %s and %s", dim,
                               shape_print(out, &a), shape_print(x, &b));
        }
    out->dims[dim] = extent_add(out->dims[dim], x->dims[dim]);
    return NULL;
}

weft_status infer_aten_cat(infer *i) {
    size_t nin = infer_nin(i, 0);
    promotion p = nothing;
    shape out = {.ndim = -1, .height = -1};
    int32_t dim = 0;
    if (!nin) return infer_error(i, "expected tensors, found none");
    for (size_t k = 0; k < nin; k++) {
        const shape *x = &i->in[k];
        if (!shape_known(x)) return NULL;
        promote(&p, x);
        if (is_nothing(x)) continue;
        if (out.ndim < 0) {
            TRY(infer_axis(i, "dim", attr_int(i->op, "dim", 0), x->ndim, &dim));
            out = *x;
        } else {
            TRY(append(i, &out, dim, x));
        }
    }
    if (out.ndim < 0) out = i->in[0];
    shape_copy_dims(infer_out(i, 0), &out, promoted(&p));
    return NULL;
}

weft_status infer_aten_full(infer *i) {
    size_t count;
    const int64_t *size = attr_ints(i->op, "size", &count);
    int64_t dtype = attr_int(i->op, "dtype", -1);
    if (!infer_out(i, 0)) return NULL;
    for (size_t d = 0; d < count; d++)
        if (size[d] < 0) return infer_error(i, "size: expected 0 or more, found %lld", (long long)size[d]);
    shape_set(infer_out(i, 0), dtype < 0 ? infer_out(i, 0)->dtype : (int32_t)dtype, count, size);
    return NULL;
}

/* Of self the element type is taken, where no other is given. */
weft_status infer_aten_new_full(infer *i) {
    size_t count;
    const int64_t *size = attr_ints(i->op, "size", &count);
    int64_t dtype = attr_int(i->op, "dtype", -1);
    for (size_t d = 0; d < count; d++)
        if (size[d] < 0) return infer_error(i, "size: expected 0 or more, found %lld", (long long)size[d]);
    if (infer_in(i, 0)) shape_set(infer_out(i, 0), dtype < 0 ? infer_in(i, 0)->dtype : (int32_t)dtype, count, size);
    return NULL;
}

/* Like the first input. */
weft_status infer_aten_like_first(infer *i) {
    if (shape_known(infer_in(i, 0)) && infer_out(i, 0)) *infer_out(i, 0) = *infer_in(i, 0);
    return NULL;
}

weft_status infer_aten_compare(infer *i) {
    const shape *x = infer_in(i, 0), *y = infer_in(i, 1);
    shape out;
    if (!shape_known(x) || !shape_known(y) || !infer_out(i, 0)) return NULL;
    TRY(shape_broadcast(i, x, y, -1, &out));
    out.dtype = WEFT_BOOL;
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_aten_triple(infer *i) {
    const shape *x = infer_in(i, 0), *a = infer_in(i, 1), *b = infer_in(i, 2);
    shape pair, out;
    if (!shape_known(x) || !shape_known(a) || !shape_known(b) || !infer_out(i, 0)) return NULL;
    TRY(shape_broadcast(i, a, b, -1, &pair));
    TRY(shape_broadcast(i, x, &pair, -1, &out));
    out.dtype = x->dtype;
    *infer_out(i, 0) = out;
    return NULL;
}

/* --- reductions --------------------------------------------------------------------------------------------------- */

/* x without the dimensions of attr `dim`, or with them as 1; all where it has none. */
static weft_status reduced(infer *i, const shape *x, shape *out) {
    size_t count;
    const int64_t *dims = attr_ints(i->op, "dim", &count);
    bool gone[WEFT_MAX_RANK] = {false}, keep = attr_bool(i->op, "keepdim", false);
    for (size_t k = 0; k < count; k++) {
        int32_t d = 0;
        if (!x->ndim && (dims[k] == 0 || dims[k] == -1)) continue;
        TRY(infer_axis(i, "dim", dims[k], x->ndim, &d));
        gone[d] = true;
    }
    *out = (shape){.dtype = x->dtype, .height = -1};
    for (int32_t d = 0; d < x->ndim; d++) {
        bool is_gone = gone[d] || !count;
        if (!is_gone || keep) out->dims[out->ndim++] = is_gone ? 1 : x->dims[d];
    }
    return NULL;
}

weft_status infer_aten_var_mean(infer *i) {
    const shape *x = infer_in(i, 0);
    shape out;
    if (!shape_known(x)) return NULL;
    TRY(reduced(i, x, &out));
    for (int o = 0; o < 2; o++)
        if (infer_out(i, o)) *infer_out(i, o) = out;
    return NULL;
}

weft_status infer_aten_vector_norm(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    return reduced(i, x, infer_out(i, 0));
}

/* A number of each tensor. */
weft_status infer_aten_each_scalar(infer *i) {
    size_t nin = infer_nin(i, 0), nout = infer_nout(i, 0);
    if (nout != nin) return infer_error(i, "expected as many outputs as inputs, found %zu and %zu", nout, nin);
    for (size_t k = 0; k < nout; k++) shape_set(&i->out[k], i->in[k].dtype, 0, NULL);
    return NULL;
}

/* Each row of one matrix with each of the other. */
weft_status infer_aten_cdist(infer *i) {
    const shape *x = infer_in(i, 0), *y = infer_in(i, 1);
    shape_text tx, ty;
    if (!shape_known(x) || !shape_known(y) || !infer_out(i, 0)) return NULL;
    bool fits = x->ndim >= 2 && y->ndim == x->ndim && extent_fits(x->dims[x->ndim - 1], y->dims[x->ndim - 1]);
    for (int32_t d = 0; fits && d < x->ndim - 2; d++) fits = extent_fits(x->dims[d], y->dims[d]);
    if (!fits)
        return infer_error(i, "expected batches of rows of one width, found %s and %s", shape_print(x, &tx),
                           shape_print(y, &ty));
    shape out = *x;
    out.dims[x->ndim - 1] = y->dims[x->ndim - 2];
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_aten_extremum(infer *i) {
    const shape *x = infer_in(i, 0);
    int32_t dim = 0;
    if (!shape_known(x)) return NULL;
    if (x->ndim) TRY(infer_axis(i, "dim", attr_int(i->op, "dim", 0), x->ndim, &dim));
    shape out = {.dtype = x->dtype, .height = -1};
    for (int32_t d = 0; d < x->ndim; d++)
        if (d != dim || attr_bool(i->op, "keepdim", false)) out.dims[out.ndim++] = d == dim ? 1 : x->dims[d];
    if (infer_out(i, 0)) *infer_out(i, 0) = out;
    shape_copy_dims(infer_out(i, 1), &out, WEFT_INT64);
    return NULL;
}

/* As large as self, or one number. */
weft_status infer_aten_reduced_loss(infer *i) {
    const shape *x = infer_in(i, 0);
    if (shape_known(x) && infer_out(i, 0))
        shape_set(infer_out(i, 0), x->dtype, attr_int(i->op, "reduction", 1) ? 0 : (size_t)x->ndim, x->dims);
    return NULL;
}

/* --- addmm ------------------------------------------------------------------------------------------------------- */

weft_status infer_aten_addmm(infer *i) {
    const shape *a = infer_in(i, 1), *b = infer_in(i, 2), *self = infer_in(i, 0);
    if (!shape_known(a) || !shape_known(b) || !infer_out(i, 0)) return NULL;
    shape_text ta, tb;
    if (a->ndim != 2 || b->ndim != 2 || !extent_fits(a->dims[1], b->dims[0]))
        return infer_error(i, "expected matrices whose product exists, found %s and %s", shape_print(a, &ta),
                           shape_print(b, &tb));
    shape out, with_self;
    shape_set(&out, a->dtype, 2, (const int64_t[]){a->dims[0], b->dims[1]});
    if (shape_known(self)) {
        TRY(shape_broadcast(i, &out, self, -1, &with_self));
        if (with_self.ndim != 2 || !extent_fits(with_self.dims[0], out.dims[0]) ||
            !extent_fits(with_self.dims[1], out.dims[1]))
            return infer_error(i, "expected self that broadcasts to %s, found %s", shape_print(&out, &ta),
                               shape_print(self, &tb));
    }
    *infer_out(i, 0) = out;
    return NULL;
}

/* What is written keeps its type, and is broadcast to. */
weft_status infer_aten_in_place(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    for (size_t s = 1; s < i->schema->ninputs; s++) {
        const shape *y = infer_in(i, (int)s);
        shape both;
        shape_text tx, ty;
        if (!shape_known(y)) continue;
        TRY(shape_broadcast(i, x, y, -1, &both));
        bool fits = both.ndim == x->ndim;
        for (int32_t d = 0; fits && d < x->ndim; d++) fits = extent_fits(both.dims[d], x->dims[d]);
        if (!fits)
            return infer_error(i, "expected %s that broadcasts to self %s, found %s", i->schema->inputs[s].name,
                               shape_print(x, &tx), shape_print(y, &ty));
    }
    for (int o = 0; o < 2; o++)
        if (infer_out(i, o)) *infer_out(i, o) = *x;
    return NULL;
}

/* --- losses, gradients that know sizes alone ---------------------------------------------------------------------- */

/* A loss for each position of each image. */
static weft_status infer_nll_of_images(infer *i, const shape *x) {
    bool whole = attr_int(i->op, "reduction", 1) == 0;
    shape_set(infer_out(i, 0), x->dtype, whole ? 3 : 0, (const int64_t[]){x->dims[0], x->dims[2], x->dims[3]});
    shape_set(infer_out(i, 1), x->dtype, 0, NULL);
    return NULL;
}

weft_status infer_aten_nll_loss_forward(infer *i) {
    const shape *x = infer_in(i, 0), *target = infer_in(i, 1);
    if (!shape_known(x)) return NULL;
    if (x->ndim == 4) return infer_nll_of_images(i, x);
    if (x->ndim != 1 && x->ndim != 2) return infer_error(i, "expected self of 1, 2 or 4 dimensions, found %d", x->ndim);
    if (shape_known(target) &&
        (target->ndim > 1 || (target->ndim && x->ndim == 2 && !extent_fits(target->dims[0], x->dims[0]))))
        return infer_error(i, "expected a target for each row of self");
    bool whole = attr_int(i->op, "reduction", 1) == 0 && x->ndim == 2;
    shape_set(infer_out(i, 0), x->dtype, whole ? 1 : 0, x->dims);
    shape_set(infer_out(i, 1), x->dtype, 0, NULL);
    return NULL;
}

static bool same_dims(const shape *x, const op_view *v) {
    bool fits = x->ndim == v->ndim;
    for (int32_t d = 0; fits && d < v->ndim; d++) fits = extent_fits(x->dims[d], v->dims[d]);
    return fits;
}

static weft_status check_part(infer *i, const shape *whole, const shape *part, const char *what) {
    op_view v;
    shape_text tw, tp;
    TRY(op_view_of(i->op, whole, 0, &v));
    if (!shape_known(part) || same_dims(part, &v)) return NULL;
    return infer_error(i, "expected %s as large as the part of %s, found %s", what, shape_print(whole, &tw),
                       shape_print(part, &tp));
}

weft_status infer_aten_part_backward(infer *i) {
    const shape *grad = infer_in(i, 0);
    size_t count;
    const int64_t *sizes = attr_ints(i->op, "input_sizes", &count);
    shape whole;
    shape_set(&whole, grad->dtype, count, sizes);
    if (!shape_known(&whole)) return infer_error(i, "input_sizes: expected at most %d extents", WEFT_MAX_RANK);
    TRY(check_part(i, &whole, grad, "grad_output"));
    if (infer_out(i, 0)) *infer_out(i, 0) = whole;
    return NULL;
}

weft_status infer_aten_part_scatter(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    TRY(check_part(i, x, infer_in(i, 1), "src"));
    if (infer_out(i, 0)) *infer_out(i, 0) = *x;
    return NULL;
}

weft_status infer_aten_baddbmm(infer *i) {
    const shape *a = infer_in(i, 1), *b = infer_in(i, 2);
    shape_text ta, tb;
    if (!shape_known(a) || !shape_known(b) || !infer_out(i, 0)) return NULL;
    if (a->ndim != 3 || b->ndim != 3 || !extent_fits(a->dims[0], b->dims[0]) || !extent_fits(a->dims[2], b->dims[1]))
        return infer_error(i, "expected batches of matrices whose products exist, found %s and %s", shape_print(a, &ta),
                           shape_print(b, &tb));
    shape_set(infer_out(i, 0), a->dtype, 3, (const int64_t[]){a->dims[0], a->dims[1], b->dims[2]});
    return NULL;
}

weft_status infer_aten_embedding_dense_backward(infer *i) {
    const shape *grad = infer_in(i, 0);
    if (!shape_known(grad)) return NULL;
    if (!grad->ndim) return infer_error(i, "expected grad_output of at least one dimension, found none");
    shape_set(infer_out(i, 0), grad->dtype, 2,
              (const int64_t[]){attr_int(i->op, "num_weights", 0), grad->dims[grad->ndim - 1]});
    return NULL;
}
