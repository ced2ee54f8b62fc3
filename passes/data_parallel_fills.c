/* data_parallel_fills.c: constants as long as the batch. Where a program has a batch of fixed rows, its users write
 * zeros or ones for each row: the first state of a recurrent net, labels of a discriminator. Such a constant is one
 * number all over, so any part of it is right. Where it meets a rank's rows the rank makes it as long as these. A
 * constant of several numbers (assign_value) has its own for each row, and is refused. */
#include "passes/certificate.h"
#include "passes/data_parallel.h"
#include "program/grow.h"

/* The op that fills `var` with one number and has the batch among its extents; NULL: there is none. */
static weft_op *fill_of_batch(const dp_plan *plan, const weft_var *var, int axis, size_t *out_axis) {
    weft_op *fill = NULL;
    FOR_EACH_USE(u, var) {
        if (!u->is_output) continue;
        if (fill) return NULL;
        fill = use_op(var->program, u);
    }
    const weft_attr *dims = fill && op_is(fill, "fill_constant") ? op_find_attr(fill, "shape") : NULL;
    bool is_list = dims && (dims->type == ATTR_LONGS || dims->type == ATTR_INTS) && dims->count <= WEFT_MAX_RANK;
    if (!is_list || (op_role(fill) & WEFT_ROLE_BACKWARD) || fill->block != plan->block || op_nargs(fill, false))
        return NULL;
    size_t at = axis < 0 ? 0 : (size_t)axis;
    while (axis < 0 && at < dims->count && dims->u.ints[at] != plan->batch) at++;
    *out_axis = at;
    return plan->batch > 0 && at < dims->count && dims->u.ints[at] == plan->batch ? fill : NULL;
}

const dp_fill *dp_find_fill(const dp_plan *plan, const weft_op *op) {
    for (size_t i = 0; i < plan->nfills; i++)
        if (plan->fills[i].op == op) return &plan->fills[i];
    return NULL;
}

weft_status dp_splits_fill(dp_plan *plan, const weft_var *var, int axis, bool *out) {
    size_t at;
    weft_op *fill = plan->nranks > 1 ? fill_of_batch(plan, var, axis, &at) : NULL;
    *out = fill && !dp_find_fill(plan, fill);
    if (!*out) return NULL;
    TRY(grow(plan->scratch, &plan->fills, &plan->fills_capacity, plan->nfills + 1, sizeof *plan->fills));
    plan->fills[plan->nfills++] = (dp_fill){fill, at};
    plan->again = true;
    return NULL;
}

/* --- arrays ------------------------------------------------------------------------------------------------------- */

static bool has_rows(const dp_plan *plan, const weft_var *v) {
    return dp_split_axis(plan, v) == 0;
}

/* Whether an element of the array is a rank's rows. */
static bool holds_rows(const dp_plan *plan, const weft_var *array) {
    FOR_EACH_USE(u, array) {
        weft_op *op = use_op(array->program, u);
        const weft_var *x = u->is_output && op_is(op, "write_to_array") ? weft_op_input(op, "X", 0) : NULL;
        if (x && has_rows(plan, x)) return true;
    }
    return false;
}

weft_status dp_split_array_fills(dp_plan *plan) {
    FOR_EACH_OP(op, plan->block) {
        const weft_var *x = op_is(op, "write_to_array") ? weft_op_input(op, "X", 0) : NULL;
        const weft_var *array = x ? weft_op_output(op, "Out", 0) : NULL;
        bool splits;
        if (array && holds_rows(plan, array)) TRY(dp_splits_fill(plan, x, 0, &splits));
    }
    return NULL;
}

/* --- edits -------------------------------------------------------------------------------------------------------- */

weft_status dp_write_fills(dp_plan *plan) {
    char place[160];
    for (size_t i = 0; i < plan->nfills; i++) {
        weft_op *op = plan->fills[i].op;
        const weft_attr *dims = op_find_attr(op, "shape");
        int64_t part[WEFT_MAX_RANK];
        size_t n = dims->count;
        memcpy(part, dims->u.ints, n * sizeof *part);
        part[plan->fills[i].axis] = plan->rank_batch;
        TRY(dims->type == ATTR_LONGS ? weft_op_set_attr_longs(op, "shape", n, part)
                                     : weft_op_set_attr_ints(op, "shape", n, part));
        TRY(pass_claim_add(plan->pass,
                           (pass_claim){.kind = CLAIM_FILL, .op = op, .var = weft_op_output(op, "Out", 0)}));
        TRY(weft_pass_did(plan->pass, "%s: as long as a rank's %lld rows", op_place(op, place, sizeof place),
                          (long long)plan->rank_batch));
    }
    return NULL;
}
