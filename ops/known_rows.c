/* known_rows.c: elements that a row picks of itself, written as a sum that treats each row for itself.
 *
 * Programs pick X[i, a[i]] of each row i by gather_nd, with places stack(range(0, rows, 1), a). A rank counts its own
 * rows from 0, so its places are no part of the whole program's, though what they pick is. The same is the sum over
 * one_hot(a) * X, and its gradient one_hot(a) times that of the sum. */
#include <stdio.h>

#include "base/types.h"
#include "ops/infer.h"
#include "ops/open_extents.h"

/* --- what is picked ----------------------------------------------------------------------------------------------- */

/* The op of that type that alone writes it; NULL: none does. */
static weft_op *writer_of(const weft_var *v, const char *type) {
    weft_op *only = NULL;
    FOR_EACH_USE(u, v) {
        weft_op *op = use_op(v->program, u);
        if (!u->is_output || !op->block) continue;
        if (only) return NULL;
        only = op;
    }
    return only && op_is(only, type) && only->block->idx == 0 ? only : NULL;
}

static bool is_number(const shape_env *env, const weft_var *v, double number) {
    if (!v || v->id >= env->nkept || !env->values[v->id]) return false;
    shape type = shape_env_get(env, v);
    return shape_numel(&type) == 1 && value_real(type.dtype, *env->values[v->id]) == number;
}

/* Whether all that writes it comes before that op. */
static bool is_written_before(const weft_var *v, const weft_op *op) {
    FOR_EACH_USE(u, v) {
        const weft_op *by = use_op(v->program, u);
        if (u->is_output && by->block && (by->block != op->block || by->order >= op->order)) return false;
    }
    return true;
}

/* Whether it holds 0, 1, 2 to n - 1. */
static bool counts(const shape_env *env, const weft_var *v, int64_t n) {
    for (weft_op *cast = writer_of(v, "cast"); cast; cast = writer_of(v, "cast"))
        if (!(v = weft_op_input(cast, "X", 0))) return false;
    const weft_op *range = writer_of(v, "range");
    return range && v->ndim == 1 && v->dims[0] == n && is_number(env, weft_op_input(range, "Start", 0), 0) &&
           is_number(env, weft_op_input(range, "Step", 0), 1);
}

/* Of a gather_nd or its gradient: `a`, where each row picks one element of axis 1 of itself; NULL: it is another. */
static weft_var *find_picked(const shape_env *env, const weft_op *op) {
    const weft_var *x = weft_op_input(op, "X", 0), *index = weft_op_input(op, "Index", 0);
    if (!x || !index || x->ndim < 2 || x->ndim > WEFT_MAX_RANK || !dtype_is_float(x->dtype)) return NULL;
    const weft_op *stack = writer_of(index, "stack");
    if (!stack || stack->order >= op->order || index->ndim != 2 || weft_op_ninputs(stack, "X") != 2) return NULL;
    int64_t axis = attr_int(stack, "axis", 0);
    weft_var *rows = weft_op_input(stack, "X", 0), *a = weft_op_input(stack, "X", 1);
    bool is_pick = (axis == 1 || axis == -1) && a->ndim == 1 && a->dims[0] == x->dims[0] && is_written_before(a, stack);
    for (uint32_t i = 0; i < x->ndim; i++) is_pick = is_pick && x->dims[i] > 0;
    return is_pick && counts(env, rows, x->dims[0]) ? a : NULL;
}

/* --- the sum ------------------------------------------------------------------------------------------------------ */

typedef struct picking {
    weft_op *op; /* in whose place others stand */
    const weft_var *x;
    unsigned count; /* of new vars */
} picking;

static weft_status begin(picking *p, const char *type, weft_op **out) {
    TRY(weft_op_create(p->op->program, type, out));
    return weft_op_set_attr_int(*out, "op_role", weft_op_role(p->op));
}

static weft_status end(picking *p, weft_op *op, const char *slot_name, size_t ndim, const int64_t *dims,
                       weft_var **out) {
    char text_of[64];
    snprintf(text_of, sizeof text_of, "picked@%u.%u", p->op->id, p->count++);
    TRY(weft_block_add_var(p->op->block, text_of, (weft_dtype)p->x->dtype, ndim, dims, out));
    TRY(weft_op_add_output(op, slot_name, *out));
    weft_block_insert_before(p->op->block, p->op, op);
    return NULL;
}

static weft_status reshape(picking *p, weft_var *from, size_t ndim, const int64_t *dims, weft_var **out) {
    weft_op *op;
    TRY(begin(p, "reshape2", &op));
    TRY(weft_op_add_input(op, "X", from));
    TRY(weft_op_set_attr_ints(op, "shape", ndim, dims));
    return end(p, op, "Out", ndim, dims, out);
}

/* One for the element that a row picks, zero for the others: [rows, choices, 1, 1, ...]. */
static weft_status make_choice(picking *p, weft_var *a, weft_var **out) {
    weft_op *op;
    int64_t dims[WEFT_MAX_RANK];
    for (uint32_t i = 0; i < p->x->ndim; i++) dims[i] = i < 2 ? p->x->dims[i] : 1;
    TRY(begin(p, "one_hot_v2", &op));
    TRY(weft_op_add_input(op, "X", a));
    TRY(weft_op_set_attr_int(op, "depth", dims[1]));
    TRY(weft_op_set_attr_int(op, "dtype", p->x->dtype));
    TRY(end(p, op, "Out", 2, dims, out));
    return p->x->ndim == 2 ? NULL : reshape(p, *out, p->x->ndim, dims, out);
}

static weft_status multiply(picking *p, weft_var *x, weft_var *y, weft_op **out) {
    TRY(begin(p, "elementwise_mul", out));
    TRY(weft_op_add_input(*out, "X", x));
    TRY(weft_op_add_input(*out, "Y", y));
    return weft_op_set_attr_int(*out, "axis", -1);
}

static weft_status write_sum(picking *p, weft_var *choice) {
    weft_op *op;
    weft_var *product;
    TRY(multiply(p, weft_op_input(p->op, "X", 0), choice, &op));
    TRY(end(p, op, "Out", p->x->ndim, p->x->dims, &product));
    TRY(begin(p, "reduce_sum", &op));
    TRY(weft_op_add_input(op, "X", product));
    TRY(weft_op_set_attr_ints(op, "dim", 1, &(int64_t){1}));
    TRY(weft_op_add_output(op, "Out", weft_op_output(p->op, "Out", 0)));
    weft_block_insert_before(p->op->block, p->op, op);
    return NULL;
}

static weft_status write_sum_grad(picking *p, weft_var *choice) {
    weft_op *op;
    weft_var *given;
    int64_t dims[WEFT_MAX_RANK];
    for (uint32_t i = 0; i < p->x->ndim; i++) dims[i] = i == 1 ? 1 : p->x->dims[i];
    TRY(reshape(p, weft_op_input(p->op, "Out@GRAD", 0), p->x->ndim, dims, &given));
    TRY(multiply(p, given, choice, &op));
    TRY(weft_op_add_output(op, "Out", weft_op_output(p->op, "X@GRAD", 0)));
    weft_block_insert_before(p->op->block, p->op, op);
    return NULL;
}

weft_status known_rows_write(const shape_env *env, weft_op *op, bool *out_gone) {
    bool is_grad = op_is(op, "gather_nd_grad");
    *out_gone = false;
    if (!is_grad && !op_is(op, "gather_nd")) return NULL;
    const char *result = is_grad ? "X@GRAD" : "Out";
    weft_var *a = find_picked(env, op), *choice;
    if (!a || !weft_op_output(op, result, 0) || (is_grad && !weft_op_input(op, "Out@GRAD", 0))) return NULL;
    picking p = {.op = op, .x = weft_op_input(op, "X", 0)};
    TRY(make_choice(&p, a, &choice));
    TRY(is_grad ? write_sum_grad(&p, choice) : write_sum(&p, choice));
    weft_op_remove(op);
    *out_gone = true;
    return NULL;
}
