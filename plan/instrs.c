/* instrs.c: ops become instructions, in program order.
 *
 * Ops that touch no bytes become none: orders between bytes are derived anew (hazards.c). A feed op names a value that
 * is fed, and a fetch op one that is kept. A conditional_block names a guard of the ops that it runs. Outputs that are
 * byte ranges of inputs are nothing that an instruction writes; an op that has no others becomes none. */
#include <stdio.h>

#include "plan/builder.h"

/* --- arguments ---------------------------------------------------------------------------------------------------- */

/* The arguments of one slot, into args->values from *at on. */
static weft_status collect_slot(plan_builder *b, const weft_op *op, const slot_schema *s, const slot *given,
                                bool output, plan_args *args, uint32_t *at) {
    const char *kind = output ? "output" : "input";
    size_t nargs = given ? given->nargs : 0, first = *at;
    if (nargs > 1 && s->arity != SLOT_LIST)
        return plan_error(b, WEFT_INVALID_PROGRAM, op, "%s slot %s takes one argument, found %zu", kind, s->name,
                          nargs);
    for (size_t i = 0; i < nargs; i++) {
        const weft_var *v = slot_var(op, given, i);
        int32_t value = -1;
        if (!plan_is_empty_name(v)) TRY(plan_value_of(b, op, v, &value));
        if (value >= 0 || s->arity == SLOT_LIST) args->values[(*at)++] = value; /* an empty optional argument is none */
    }
    if (s->arity == SLOT_ONE && *at == first)
        return plan_error(b, WEFT_INVALID_PROGRAM, op, "%s slot %s is empty", kind, s->name);
    return NULL;
}

static const slot *slot_not_in(const weft_op *op, bool output, const slot_schema *slots, size_t nslots) {
    for (uint32_t i = 0; i < op_nslots(op, output); i++) {
        const slot *given = op_slot(op, output, i);
        size_t s = 0;
        while (s < nslots && !name_is(given->name, slots[s].name)) s++;
        if (s == nslots && given->nargs) return given;
    }
    return NULL;
}

/* All arguments of one side, in schema slot order. A filled slot that the schema does not have is an error: leaving it
 * out could compute something else. */
static weft_status collect_args(plan_builder *b, const weft_op *op, bool output, const slot_schema *slots,
                                size_t nslots, plan_args *out) {
    out->values = ARENA_ARRAY(&b->scratch, int32_t, (size_t)op_nargs(op, output) + 1);
    out->first = ARENA_ARRAY(&b->scratch, uint32_t, nslots + 1);
    if (!out->values || !out->first) return base_out_of_memory();
    const slot *extra = slot_not_in(op, output, slots, nslots);
    if (extra)
        return plan_error(b, WEFT_UNSUPPORTED, op, "%s slot %s is not one that Weft knows", output ? "output" : "input",
                          extra->name->bytes);
    uint32_t at = 0;
    for (size_t s = 0; s < nslots; s++) {
        out->first[s] = at;
        TRY(collect_slot(b, op, &slots[s], op_find_slot(op, output, slots[s].name), output, out, &at));
    }
    out->first[nslots] = at;
    return NULL;
}

static weft_status check_dense(const plan_builder *b, const weft_op *op, const plan_args *args, size_t nslots) {
    for (uint32_t i = 0; i < args->first[nslots]; i++)
        if (args->values[i] >= 0 && b->values[args->values[i]].rows >= 0)
            return plan_error(b, WEFT_UNSUPPORTED, op,
                              "\"%s\" is SelectedRows (a sparse gradient): collectives take dense tensors only",
                              b->values[args->values[i]].name);
    return NULL;
}

static weft_status add_op(plan_builder *b, const plan_step *step, const op_schema *schema) {
    plan_args in, out;
    int32_t stream, *copies;
    size_t ncopies;
    TRY(plan_check_op_types(&b->env, step->op, &b->scratch));
    if (plan_parts_are_placed(b, step->op)) {
        b->plan->nremoved++;
        return NULL;
    }
    TRY(collect_args(b, step->op, false, schema->inputs, schema->ninputs, &in));
    TRY(collect_args(b, step->op, true, schema->outputs, schema->noutputs, &out));
    if (schema->effects & OP_VIEWS) TRY(plan_prune_views(b, step->op, schema, &out));
    if (schema->effects & OP_ONLY_VIEWS && !out.first[schema->noutputs]) {
        b->plan->nremoved++;
        return NULL;
    }
    if (schema->effects & OP_COLLECTIVE) {
        TRY(check_dense(b, step->op, &in, schema->ninputs));
        TRY(check_dense(b, step->op, &out, schema->noutputs));
    }
    TRY(plan_stream_of(b, step->op, &stream));
    TRY(plan_split_overlaps(b, step, schema, &in, &out, &copies, &ncopies));
    TRY(plan_add_instr(b, step, step->op, schema, stream, &in, &out));
    for (size_t i = 0; i < ncopies; i++) TRY(plan_add_copy(b, step, stream, copies[2 * i], copies[2 * i + 1]));
    return NULL;
}

/* --- ops that are no instruction ---------------------------------------------------------------------------------- */

static weft_status take_feed(plan_builder *b, const plan_step *step) {
    weft_var *v = weft_op_output(step->op, "Out", 0);
    int32_t value;
    if (!v) return plan_error(b, WEFT_INVALID_PROGRAM, step->op, "output slot Out is empty");
    TRY(plan_value_of(b, step->op, v, &value));
    b->values[value].is_feed = true;
    return NULL;
}

/* Whether an op within the frame writes `v`. */
static bool written_within(const plan_builder *b, int32_t frame, const weft_var *v) {
    FOR_EACH_USE(u, v) {
        uint32_t mark = use_op(v->program, u)->mark;
        if (!u->is_output || !mark) continue;
        for (int32_t f = b->steps[mark - 1].frame; f >= 0; f = b->frames[f].parent)
            if (f == frame) return true;
    }
    return false;
}

/* The condition is decided when the block is entered: an op inside that changes it changes a copy's original. */
static weft_status take_guard(plan_builder *b, const plan_step *step) {
    weft_var *v = weft_op_input(step->op, "Cond", 0);
    int32_t value;
    if (!v || !attr_bool(step->op, "is_scalar_condition", false))
        return plan_error(b, WEFT_UNSUPPORTED, step->op, "expected one Cond and is_scalar_condition = true");
    TRY(plan_value_of(b, step->op, v, &value));
    if (b->values[value].shape.dtype != WEFT_BOOL || b->values[value].nbytes != 1)
        return plan_error(b, WEFT_INVALID_PROGRAM, step->op, "condition \"%s\" is not one boolean", v->name->bytes);
    if (written_within(b, step->opens, v) || b->values[value].view_of >= 0) {
        const char *stem = arena_format(&b->scratch, "%s@entry", v->name->bytes);
        int32_t kept;
        if (!stem) return base_out_of_memory();
        TRY(plan_new_value(b, stem, &b->values[value].shape, &kept));
        TRY(plan_add_copy(b, step, 0, value, kept));
        value = kept;
    }
    b->frames[step->opens].guard = value;
    return NULL;
}

/* Whether anything but collectives looks at the whole buffer, padding included: a norm, a finite check. */
static bool padding_is_read(const weft_op *op) {
    const slot *fused = op_find_slot(op, true, "FusedOutput");
    if (!fused || fused->nargs == 0) return false;
    FOR_EACH_USE(u, slot_var(op, fused, 0)) {
        weft_op *user = use_op((slot_var(op, fused, 0))->program, u);
        bool is_neutral = op_has_effect(user, OP_COLLECTIVE | OP_NO_BYTES) || op_is(user, "scale");
        if (!u->is_output && user->block && !is_neutral) return true;
    }
    return false;
}

/* coalesce_tensor names views; its kernel is needed only where it moves bytes or must clear the padding. */
static bool moves_bytes(const weft_op *op) {
    return attr_bool(op, "copy_data", false) || attr_bool(op, "set_constant", false) || padding_is_read(op);
}

static weft_status take_step(plan_builder *b, const plan_step *step) {
    weft_op *op = step->op;
    const op_schema *schema = op_schema_of(op);
    if (!schema) return plan_error(b, WEFT_UNSUPPORTED, op, "no such op is in the op table (weft ops lists it)");
    bool is_feed = op_is(op, "feed") || op_is(op, "feed_v2"), is_fetch = op_is(op, "fetch") || op_is(op, "fetch_v2");
    bool is_quiet = schema->effects & OP_NO_BYTES || (schema->effects & OP_ALIASES && !moves_bytes(op));
    if (!is_feed && !is_fetch && !is_quiet && !(schema->effects & OP_CONTROL)) return add_op(b, step, schema);
    b->plan->nremoved++;
    if (is_feed) return take_feed(b, step);
    if (is_fetch) return plan_take_fetch(b, step);
    return schema->effects & OP_CONTROL ? take_guard(b, step) : NULL;
}

weft_status plan_make_instrs(plan_builder *b) {
    int32_t compute;
    TRY(plan_stream_of(b, NULL, &compute));
    TRY(plan_find_kept_buckets(b));
    for (size_t i = 0; i < b->nsteps; i++) {
        if (b->given) TRY(plan_given_before(b, &b->steps[i]));
        TRY(take_step(b, &b->steps[i]));
        if (b->given) TRY(plan_given_after(b, &b->steps[i]));
    }
    return NULL;
}
