/* data_parallel_ops.c: the ops that the data_parallel pass makes, collectives and the scale of a mean, and where a var
 * lies. The caller inserts the ops: none is put into a block here. */
#include <stdio.h>

#include "passes/certificate.h"
#include "passes/data_parallel.h"

enum { FIRST_ALL_REDUCE_VERSION = 3000000 };
static const char namescope[] = "/auto_parallel/data_parallel";

/* What every op of a data-parallel reduce carries. */
static weft_status mark_as_ours(weft_op *op) {
    TRY(weft_op_set_attr_int(op, "op_role", WEFT_ROLE_BACKWARD));
    return weft_op_set_attr_string(op, "op_namescope", namescope);
}

weft_status dp_make_collective(dp_plan *plan, weft_var *from, weft_var *to, bool gathers, weft_op **out) {
    static const char *const types[2][2] = {{"c_allreduce_sum", "all_reduce"}, {"c_allgather", "all_gather"}};
    bool new_era = plan->program->version >= FIRST_ALL_REDUCE_VERSION;
    weft_op *op = NULL;
    TRY(weft_op_create(plan->program, types[gathers][new_era], &op));
    TRY(weft_op_add_input(op, new_era ? "x" : "X", from));
    TRY(weft_op_add_output(op, new_era ? "out" : "Out", to));
    TRY(weft_op_set_attr_int(op, "ring_id", DP_RING));
    if (gathers) TRY(weft_op_set_attr_int(op, "nranks", (int32_t)plan->nranks));
    if (new_era && !gathers) TRY(weft_op_set_attr_int(op, "reduce_type", WEFT_REDUCE_SUM));
    if (!new_era) TRY(weft_op_set_attr_bool(op, "use_calc_stream", true));
    *out = op;
    return mark_as_ours(op);
}

weft_status dp_make_scale(dp_plan *plan, weft_var *grad, weft_op **out) {
    weft_op *op = NULL;
    TRY(weft_op_create(plan->program, "scale", &op));
    TRY(weft_op_add_input(op, "X", grad));
    TRY(weft_op_add_output(op, "Out", grad));
    TRY(weft_op_set_attr_float(op, "scale", (double)(1.0f / (float)plan->nranks)));
    TRY(weft_op_set_attr_float(op, "bias", 0.0));
    TRY(weft_op_set_attr_bool(op, "bias_after_scale", true));
    *out = op;
    return mark_as_ours(op);
}

/* Vars of one rank and split axis share a placement. */
weft_status dp_place(dp_plan *plan, weft_var *var, int split_axis) {
    arena *a = &plan->program->arena;
    placement **shared = &plan->placements[var->ndim][split_axis + 1];
    if (!*shared) {
        placement *where = ARENA_NEW(a, placement);
        int64_t *mapping = ARENA_ARRAY(a, int64_t, var->ndim);
        if (!where || !mapping) return base_out_of_memory();
        for (size_t i = 0; i < var->ndim; i++) mapping[i] = (int)i == split_axis ? 0 : -1;
        *where = (placement){.mesh = plan->mesh, .ndim = (int)var->ndim, .dims_mapping = mapping};
        if (plan->pads && split_axis >= 0) {
            uint8_t *dynamic = ARENA_ARRAY(a, uint8_t, var->ndim);
            if (!dynamic) return base_out_of_memory();
            dynamic[split_axis] = 1;
            where->dynamic_dims = dynamic;
        }
        *shared = where;
    }
    var_changed(var);
    var->dist = *shared;
    var->dist_is_null = false;
    return NULL;
}

/* A var for what all ranks have of `var`: one after another, or added up. */
static weft_status add_whole(dp_plan *plan, const weft_var *var, bool joined, weft_var **out) {
    char stem[256];
    const name *unique;
    int64_t dims[WEFT_MAX_RANK];
    snprintf(stem, sizeof stem, "%.200s@ALL", var->name->bytes);
    for (size_t i = 0; i < var->ndim; i++) dims[i] = var->dims[i];
    if (joined && var->ndim && dims[0] > 0) dims[0] *= plan->nranks;
    TRY(program_unique_name(plan->program, stem, &unique));
    TRY(weft_block_add_var(plan->block, unique->bytes, (weft_dtype)var->dtype, var->ndim, dims, out));
    return dp_place(plan, *out, -1);
}

weft_status dp_gather(dp_plan *plan, weft_op *reader, const slot *s, bool joined, bool averaged) {
    weft_var *own = slot_var(reader, s, 0), *whole;
    weft_op *op, *scale = NULL;
    TRY(add_whole(plan, own, joined, &whole));
    TRY(dp_make_collective(plan, own, whole, joined, &op));
    weft_block_insert_before(reader->block, reader, op);
    use_rename(slot_args(reader, s), whole);
    if (averaged) TRY(dp_make_scale(plan, whole, &scale));
    if (scale) weft_block_insert_before(reader->block, reader, scale);
    return pass_claim_add(plan->pass, (pass_claim){.kind = CLAIM_GATHER,
                                                   .op = op,
                                                   .other = reader,
                                                   .var = own,
                                                   .text = s->name->bytes,
                                                   .factor = scale ? attr_float(scale, "scale", 1.0) : 1.0});
}

int dp_split_axis(const dp_plan *plan, const weft_var *var) {
    if (!plan->differs[var->id] || var->persistable || var->kind == WEFT_SELECTED_ROWS) return -1;
    const kept_shape *whole = &plan->whole.kept[var->id], *part = &plan->part.kept[var->id];
    if (whole->ndim != part->ndim) return -1;
    for (int i = 0; i < whole->ndim; i++)
        if (whole->dims[i] != part->dims[i]) return i;
    return -1;
}
