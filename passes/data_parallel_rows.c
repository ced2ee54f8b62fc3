/* data_parallel_rows.c: what does not go with a rank's rows: values that are as long as the whole batch and the same on
 * all ranks, and numbers of rows. Inference sees the first in some ops alone (data_parallel_shapes.c). */
#include "passes/data_parallel_flow.h"

static bool has_factor(const axes_dim *dim, size_t which) {
    for (int k = 0; k < dim->nfactors; k++)
        if (dim->factors[k] == which) return true;
    return false;
}

/* The factor that rows of input `i` are split by; -1: they are not. */
static int rows_factor(const dp_question *q, size_t i) {
    const axes_arg *x = &q->rule.in[i];
    for (int d = 0; d < x->ndim && !x->any; d++)
        for (int k = 0; q->in[i].naxes[d] && k < x->dims[d].nfactors; k++)
            if (q->rule.factors[x->dims[d].factors[k]].size != 1) return x->dims[d].factors[k];
    return -1;
}

static const weft_var *input_var(const dp_question *q, size_t i) {
    const op_schema *schema = op_schema_of(q->op);
    for (size_t s = 0, at = 0; s < schema->ninputs; s++) {
        const slot *found = op_find_slot(q->op, false, schema->inputs[s].name);
        for (size_t k = 0; found && k < found->nargs; k++)
            if (at++ == i) return slot_var(q->op, found, k);
    }
    return NULL;
}

static bool is_same(const dp_question *q, size_t i) {
    const weft_var *var = input_var(q, i);
    return var && q->flow->held[var->id].hold == DP_SAME;
}

/* The whole input along that factor, of more than one element there; -1: there is none. */
static int whole_along(const dp_question *q, size_t factor, int *out_axis) {
    for (size_t i = 0; i < q->rule.nin; i++) {
        const axes_arg *x = &q->rule.in[i];
        for (int d = 0; d < x->ndim && !x->any; d++)
            if (!q->in[i].naxes[d] && has_factor(&x->dims[d], factor) && x->extents[d] > 1 && is_same(q, i))
                return *out_axis = d, (int)i;
    }
    return -1;
}

static bool keeps_factor(const dp_question *q, size_t factor) {
    for (size_t o = 0; o < q->rule.nout; o++)
        for (int d = 0; d < q->rule.out[o].ndim; d++)
            if (has_factor(&q->rule.out[o].dims[d], factor)) return true;
    return false;
}

/* Numbers of rows: integers that all ranks have alike, or of other rows where a feed is looked up. */
static const weft_var *row_numbers(const dp_question *q, const weft_var *rows) {
    FOR_EACH_ARG(q->op, false, u) {
        const weft_var *var = use_var(q->op->program, u);
        bool is_integer = var->dtype == WEFT_INT32 || var->dtype == WEFT_INT64;
        dp_hold hold = (dp_hold)q->flow->held[var->id].hold;
        if (var == rows || !is_integer || !var->ndim ||
            (!q->flow->writer[var->id] && hold == DP_SAME && var->persistable))
            continue;
        if (hold == DP_SAME || (hold == DP_ROWS && !q->flow->writer[rows->id])) return var;
    }
    return NULL;
}

static weft_status refuse_input(const dp_question *q, size_t i, int factor) {
    const weft_var *rows = input_var(q, i);
    char place[160], maker[160];
    op_place(q->op, place, sizeof place);
    int axis = -1, whole = whole_along(q, (size_t)factor, &axis);
    if (whole >= 0) {
        const weft_var *fixed = input_var(q, (size_t)whole);
        const weft_op *by = q->flow->writer[fixed->id];
        bool splits = false;
        if (by) TRY(dp_splits_fill(q->flow->plan, fixed, axis, &splits));
        if (splits || (!by && dp_splits_feed(q->flow->plan, fixed))) return dp_again();
        return weft_pass_refuse(
            q->flow->plan->pass,
            "%s: %s is as long as the batch, but the same on all ranks (%s), and does not go with the "
            "rows of %s, of which a rank has its part%s",
            place, fixed->name->bytes, by ? op_place(by, maker, sizeof maker) : "it is fed whole", rows->name->bytes,
            by ? "" : "; see the option replicate");
    }
    const weft_var *numbers = row_numbers(q, rows);
    if (!q->rule.factors[factor].why || keeps_factor(q, (size_t)factor) || !numbers) return NULL;
    return weft_pass_refuse(
        q->flow->plan->pass,
        "%s: %s picks rows of %s by their number in the whole batch, of which a rank has its part: a "
        "feed that is no rows of the batch is named in the option replicate",
        place, numbers->name->bytes, rows->name->bytes);
}

/* Whether some argument is the same on all ranks and might meet rows: constants, whole feeds; and lookups in feeds. */
static bool may_meet_rows(const dp_flow *f, const weft_op *op) {
    bool whole = false, rows = false;
    FOR_EACH_ARG(op, false, u) {
        const weft_var *var = use_var(op->program, u);
        dp_hold hold = (dp_hold)f->held[u->var_id].hold;
        const kept_shape *own = &f->plan->whole.kept[u->var_id];
        rows |= hold == DP_ROWS;
        bool is_integer = var->dtype == WEFT_INT32 || var->dtype == WEFT_INT64;
        whole |= (hold == DP_SAME && !var->persistable && own->ndim > 0 && !(own->ndim == 1 && own->dims[0] <= 1)) ||
                 (hold == DP_ROWS && is_integer);
    }
    return rows && whole;
}

/* A value that is as long as the whole batch must not meet a rank's rows: inference sees it in some ops alone. */
weft_status dp_check_rows(dp_flow *f, weft_op *op) {
    dp_question q = {.flow = f, .op = op, .open = true};
    if ((op_role(op) & WEFT_ROLE_BACKWARD) || !may_meet_rows(f, op)) return NULL;
    arena_init(&q.arena, f->plan->scratch->allocator);
    weft_status status = dp_ask(&q);
    if (!status && op_schema_of(op) && !q.rule.why_none)
        for (size_t i = 0; i < q.rule.nin && !status; i++) {
            int factor = rows_factor(&q, i);
            if (factor >= 0) status = refuse_input(&q, i, factor);
        }
    arena_fini(&q.arena);
    return status;
}
