/* data_parallel_rule.c: asks an op's factor table (ops/axes.def) what ranks make of what they hold. */
#include "passes/data_parallel_flow.h"

static const slot_schema *slot_schema_of(const op_schema *schema, const slot *s) {
    for (size_t i = 0; schema && i < schema->ninputs; i++)
        if (name_is(s->name, schema->inputs[i].name)) return &schema->inputs[i];
    return NULL;
}

/* Of an XShape, and where the schema says so, only the extents are read. */
bool dp_reads_elements(weft_op *op, const slot *s) {
    const slot_schema *known = slot_schema_of(op_schema_of(op), s);
    return !(known && known->only_type) && !name_is(s->name, "XShape");
}

static dp_value read_placed(const axes_placed *p, int ndim) {
    if (p->partial[0]) {
        weft_reduce reduce = (weft_reduce)(p->partial[0] - 1);
        bool joins = reduce == WEFT_REDUCE_SUM || reduce == WEFT_REDUCE_AVG;
        return (dp_value){.hold = joins ? DP_PARTIAL : DP_OWN, .reduce = (uint8_t)reduce};
    }
    for (int d = 0; d < ndim; d++)
        if (p->naxes[d]) return (dp_value){.hold = DP_ROWS, .axis = (uint8_t)d};
    return (dp_value){.hold = DP_SAME};
}

static weft_status read_side(dp_question *q, bool output, size_t nslots, const slot_schema *slots, shape **out_shapes,
                             uint32_t **out_first, axes_placed **out_placed) {
    arena *a = &q->arena;
    size_t n = op_nargs(q->op, output), at = 0;
    shape *shapes = *out_shapes = ARENA_ARRAY(a, shape, n + 1);
    uint32_t *first = *out_first = ARENA_ARRAY(a, uint32_t, nslots + 1);
    axes_placed *placed = *out_placed = ARENA_ARRAY(a, axes_placed, n + 1);
    if (!shapes || !first || !placed) return base_out_of_memory();
    for (size_t i = 0; i < nslots; i++) {
        const slot *found = op_find_slot(q->op, output, slots[i].name);
        first[i] = (uint32_t)at;
        for (size_t k = 0; found && k < found->nargs; k++, at++) {
            const weft_var *var = slot_var(q->op, found, k);
            const dp_value *held = &q->flow->held[var->id];
            shapes[at] = shape_env_get(&q->flow->plan->whole, var);
            int split = q->open ? dp_split_axis(q->flow->plan, var) : -1;
            if (split >= 0 && split < shapes[at].ndim) shapes[at].dims[split] = -1;
            if (output || !dp_reads_elements(q->op, found)) held = NULL;
            if (!output && !held && shapes[at].ndim > 0 && dp_split_axis(q->flow->plan, var) >= 0) {
                placed[at].naxes[dp_split_axis(q->flow->plan, var)] = 1; /* its extents are those of a part */
            } else if (held && held->hold == DP_ROWS && held->axis < WEFT_MAX_RANK) {
                placed[at].naxes[held->axis] = 1;
            } else if (held && held->hold == DP_PARTIAL) {
                placed[at].partial[0] = (uint8_t)(1 + held->reduce);
            }
        }
    }
    first[nslots] = (uint32_t)at;
    return NULL;
}

weft_status dp_ask(dp_question *q) {
    const op_schema *schema = op_schema_of(q->op);
    q->why = "its type is not known";
    if (!schema) return NULL;
    axes_call call = {.op = q->op, .schema = schema};
    shape *in, *out;
    uint32_t *in_first, *out_first;
    TRY(read_side(q, false, schema->ninputs, schema->inputs, &in, &in_first, &q->in));
    TRY(read_side(q, true, schema->noutputs, schema->outputs, &out, &out_first, &q->out));
    call = (axes_call){q->op, schema, in, out, in_first, out_first};
    TRY(axes_of_op(&call, &q->arena, &q->rule));
    const axes_mesh line = {.naxes = 1, .extent = {q->flow->plan->nranks}};
    q->why = axes_follow(&q->rule, &line, q->in, q->out);
    return NULL;
}

/* Outputs in the order of arguments, from those in the order of the schema. */
void dp_read_answer(const dp_question *q, dp_value *made, uint32_t *times) {
    const op_schema *schema = op_schema_of(q->op);
    size_t at = 0;
    for (size_t i = 0; i < schema->noutputs; i++) {
        const slot *found = op_find_slot(q->op, true, schema->outputs[i].name);
        for (size_t k = 0; found && k < found->nargs; k++, at++) {
            size_t arg = (size_t)(slot_args(q->op, found) + k - op_args(q->op, true));
            made[arg] = read_placed(&q->out[at], q->rule.out[at].ndim);
            times[arg] = q->out[at].times;
        }
    }
}
