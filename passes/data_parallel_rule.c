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

/* How ranks hold an argument; without elements that are read, its extents alone count. */
static void place_arg(const dp_question *q, bool output, const slot *s, const weft_var *var, shape *type,
                      axes_placed *placed) {
    const dp_value *held = output || !dp_reads_elements(q->op, s) ? NULL : &q->flow->held[var->id];
    bool by_extents = !output && !held && type->ndim > 0;
    int axis = q->open || by_extents ? dp_split_axis(q->flow->plan, var) : -1;
    if (q->open && axis >= 0 && axis < type->ndim) type->dims[axis] = -1;
    if (by_extents && axis >= 0)
        placed->naxes[axis] = 1; /* its extents are those of a part */
    else if (held && held->hold == DP_ROWS && held->axis < WEFT_MAX_RANK)
        placed->naxes[held->axis] = 1;
    else if (held && held->hold == DP_PARTIAL)
        placed->partial[0] = (uint8_t)(1 + held->reduce);
}

static weft_status read_side(dp_question *q, bool output, axes_side *side, axes_placed **out_placed) {
    const op_schema *schema = op_schema_of(q->op);
    size_t at = 0, nslots = output ? schema->noutputs : schema->ninputs;
    TRY(axes_read_side(q->op, output, &q->flow->plan->whole, &q->arena, side));
    axes_placed *placed = *out_placed = ARENA_ARRAY(&q->arena, axes_placed, side->count + 1);
    if (!placed) return base_out_of_memory();
    for (size_t i = 0; i < nslots; i++) {
        const slot *s = op_find_slot(q->op, output, (output ? schema->outputs : schema->inputs)[i].name);
        for (; at < side->first[i + 1]; at++)
            place_arg(q, output, s, use_var(q->op->program, side->uses[at]), &side->types[at], &placed[at]);
    }
    return NULL;
}

weft_status dp_ask(dp_question *q) {
    const op_schema *schema = op_schema_of(q->op);
    axes_side in, out;
    q->why = "its type is not known";
    if (!schema) return NULL;
    TRY(read_side(q, false, &in, &q->in));
    TRY(read_side(q, true, &out, &q->out));
    axes_call call = {q->op, schema, in.types, out.types, in.first, out.first};
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
