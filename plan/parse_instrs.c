/* parse_instrs.c: the instructions of a plan's text. */
#include "plan/fuse.h"
#include "plan/text.h"

enum { OP_KEY, INDEX, STREAM, IN, OUT, AFTER, IF, FUSED, ATTRS, ROLE, NKEYS };

static const plan_key instr_keys[NKEYS] = {
    [OP_KEY] = {"op", true, NULL},  [INDEX] = {"index", true, NULL},  [STREAM] = {"stream", true, NULL},
    [IN] = {"in", true, NULL},      [OUT] = {"out", true, NULL},      [AFTER] = {"after", false, NULL},
    [IF] = {"if", false, NULL},     [FUSED] = {"fused", false, NULL}, [ATTRS] = {"attrs", false, NULL},
    [ROLE] = {"role", false, NULL},
};

/* --- arguments ---------------------------------------------------------------------------------------------------- */

static weft_status check_arity(plan_reader *r, const yaml_node *at, const slot_schema *s, bool output, size_t nargs) {
    if (nargs > 1 && s->arity != SLOT_LIST)
        return yaml_error(r->context, at, r->place, "slot %s takes one argument, found %zu", s->name, nargs);
    if (!nargs && s->arity == SLOT_ONE && s->view_of < 0) /* a view that is a byte range is nothing to write */
        return yaml_error(r->context, at, r->place, "%s slot %s is empty", output ? "output" : "input", s->name);
    return NULL;
}

/* One slot, as values and as arguments of the op. */
static weft_status parse_slot(plan_reader *r, const yaml_node *node, weft_op *op, const slot_schema *s, bool output,
                              int32_t *values) {
    const name *n;
    uint32_t made;
    weft_var *empty;
    TRY(program_name(r->program, s->name, strlen(s->name), &n));
    TRY(op_append_slot(op, output, n, &made));
    TRY(program_name(r->program, "@EMPTY@", 7, &n));
    TRY(block_resolve(r->program->blocks[0], n, &empty));
    for (size_t i = 0; i < node->count; i++) {
        TRY(plan_read_value_name(r, node->items[i], s->arity == SLOT_LIST, &values[i]));
        TRY(op_append_arg(op, output, made, values[i] < 0 ? empty : r->vars[values[i]]));
    }
    return NULL;
}

static weft_status parse_args(plan_reader *r, const yaml_node *node, weft_op *op, bool output, const slot_schema *slots,
                              size_t nslots, const int32_t **out_values, const uint32_t **out_first) {
    if (node->kind != NODE_MAPPING) return yaml_error(r->context, node, r->place, "expected a mapping of slots");
    size_t total = 0, nfound = 0;
    for (size_t i = 0; i < node->count; i++) {
        TRY(plan_read_sequence(r, node->items[2 * i + 1], "slot"));
        total += node->items[2 * i + 1]->count;
    }
    int32_t *values = ARENA_ARRAY(&r->plan->arena, int32_t, total + 1);
    uint32_t *first = ARENA_ARRAY(&r->plan->arena, uint32_t, nslots + 1);
    if (!values || !first) return base_out_of_memory();
    uint32_t at = 0;
    for (size_t s = 0; s < nslots; s++) {
        const yaml_node *given = yaml_get(node, slots[s].name);
        first[s] = at;
        TRY(check_arity(r, node, &slots[s], output, given ? given->count : 0));
        if (!given) continue;
        TRY(parse_slot(r, given, op, &slots[s], output, values + at));
        at += (uint32_t)given->count;
        nfound++;
    }
    first[nslots] = at;
    if (nfound != node->count)
        return yaml_error(r->context, node, r->place, "%s has no such slots: expected those of the op table",
                          op->type->bytes);
    *out_values = values;
    *out_first = first;
    return NULL;
}

/* --- the rest of an instruction ----------------------------------------------------------------------------------- */

static weft_status parse_attrs(plan_reader *r, const yaml_node *node, weft_op *op, const op_schema *schema) {
    if (!node) return NULL;
    if (node->kind != NODE_MAPPING) return yaml_error(r->context, node, r->place, "attrs: expected a mapping");
    for (size_t i = 0; i < node->count; i++) {
        const yaml_node *key = node->items[2 * i];
        size_t k = 0;
        while (k < schema->nattrs && (key->kind != NODE_SCALAR || strcmp(key->bytes, schema->attrs[k].name) != 0)) k++;
        if (k == schema->nattrs)
            return yaml_error(r->context, key, r->place, "%s has no attr of that name in the op table", schema->type);
        TRY(plan_parse_attr(r, op, &schema->attrs[k], node->items[2 * i + 1]));
    }
    return NULL;
}

static weft_status parse_waits(plan_reader *r, const yaml_node *node, plan_instr *instr) {
    if (!node) return NULL;
    if (node->kind != NODE_MAPPING) return yaml_error(r->context, node, r->place, "after: expected a mapping");
    plan_wait *waits = ARENA_ARRAY(&r->plan->arena, plan_wait, node->count + 1);
    if (!waits) return base_out_of_memory();
    for (size_t i = 0; i < node->count; i++) {
        const yaml_node *key = node->items[2 * i];
        int64_t count;
        TRY(plan_read_stream(r, key, &waits[i].stream));
        if (waits[i].stream == instr->stream)
            return yaml_error(r->context, key, r->place, "after: a stream does not wait for itself");
        int32_t so_far = r->stream_length[waits[i].stream];
        if (!so_far) return yaml_error(r->context, key, r->place, "after: nothing stands on that stream before");
        TRY(plan_read_int(r, node->items[2 * i + 1], "after", 1, so_far, &count));
        waits[i].count = (int32_t)count;
    }
    instr->waits = waits;
    instr->nwaits = (uint32_t)node->count;
    return NULL;
}

static weft_status parse_guard(plan_reader *r, const yaml_node *node, int32_t *out_guard) {
    TRY(plan_read_value_name(r, node, false, out_guard));
    const plan_value *v = &r->values[*out_guard];
    if (v->shape.dtype != WEFT_BOOL || v->nbytes != 1)
        return yaml_error(r->context, node, r->place, "if: \"%s\" is not one boolean", v->name);
    return NULL;
}

static weft_status parse_guards(plan_reader *r, const yaml_node *node, plan_instr *instr) {
    if (!node) return NULL;
    TRY(plan_read_sequence(r, node, "if"));
    if (!node->count || node->count > PLAN_MAX_GUARDS)
        return yaml_error(r->context, node, r->place, "if: expected 1 to %d values", PLAN_MAX_GUARDS);
    TRY(parse_guard(r, node->items[node->count - 1], &instr->guard));
    return node->count > 1 ? parse_guard(r, node->items[0], &instr->outer_guard) : NULL;
}

static weft_status parse_op(plan_reader *r, const yaml_node *node, plan_instr *instr) {
    const char *type;
    const name *n;
    TRY(plan_read_string(r, node, "op", &type));
    instr->schema = ops_find(r->context, type);
    if (!instr->schema || instr->schema->effects & (OP_CONTROL | OP_NO_BYTES))
        return yaml_error(r->context, node, r->place, "\"%s\" is no op that can be an instruction", type);
    TRY(program_name(r->program, type, strlen(type), &n));
    TRY(op_create(r->program, n, &instr->op));
    weft_block_insert_before(r->program->blocks[0], NULL, instr->op);
    return NULL;
}

static weft_status parse_role(plan_reader *r, const yaml_node *node, weft_op *op) {
    int64_t role;
    if (!node) return NULL;
    TRY(plan_read_int(r, node, "role", INT32_MIN, INT32_MAX, &role));
    return weft_op_set_attr_int(op, "op_role", (int)role);
}

static weft_status check_collective(plan_reader *r, const yaml_node *node, plan_instr *instr) {
    const op_schema *s = instr->schema;
    if (!(s->effects & OP_COLLECTIVE)) return NULL;
    if ((instr->ring_id = op_ring(instr->op)) < 0) return yaml_error(r->context, node, r->place, "ring_id is negative");
    for (int side = 0; side < 2; side++) {
        const int32_t *values = side ? instr->out : instr->in;
        uint32_t n = side ? instr->out_first[s->noutputs] : instr->in_first[s->ninputs];
        for (uint32_t i = 0; i < n; i++)
            if (values[i] >= 0 && r->values[values[i]].rows >= 0)
                return yaml_error(r->context, node, r->place, "\"%s\" has rows: collectives take dense tensors only",
                                  r->values[values[i]].name);
    }
    return NULL;
}

/* Kernels trust types: what the inputs make of the outputs is what the text says of them. */
static weft_status check_types(plan_reader *r, const yaml_node *node, const plan_instr *instr) {
    weft_status status = plan_check_op_types(&r->env, instr->op, &r->scratch);
    if (!status || weft_status_code(status) == WEFT_OUT_OF_MEMORY) return status;
    weft_status reported = yaml_error(r->context, node, r->place, "%s", weft_status_message(status));
    weft_status_free(status);
    return reported;
}

static weft_status parse_instr(plan_reader *r, const yaml_node *node, plan_instr *instr) {
    plan_key keys[NKEYS];
    int64_t index, nfused = 0;
    memcpy(keys, instr_keys, sizeof keys);
    *instr = (plan_instr){.guard = -1, .outer_guard = -1, .ring_id = -1};
    TRY(plan_read_keys(r, node, keys, NKEYS));
    TRY(parse_op(r, keys[OP_KEY].node, instr));
    const op_schema *s = instr->schema;
    TRY(plan_read_int(r, keys[INDEX].node, "index", 0, INT32_MAX, &index));
    instr->op_index = (int32_t)index;
    TRY(plan_read_stream(r, keys[STREAM].node, &instr->stream));
    TRY(parse_args(r, keys[IN].node, instr->op, false, s->inputs, s->ninputs, &instr->in, &instr->in_first));
    TRY(parse_args(r, keys[OUT].node, instr->op, true, s->outputs, s->noutputs, &instr->out, &instr->out_first));
    TRY(parse_waits(r, keys[AFTER].node, instr));
    TRY(parse_guards(r, keys[IF].node, instr));
    if (keys[FUSED].node) TRY(plan_read_int(r, keys[FUSED].node, "fused", 1, PLAN_GROUP_INSTRS - 1, &nfused));
    instr->nfused = (uint32_t)nfused;
    TRY(parse_attrs(r, keys[ATTRS].node, instr->op, s));
    TRY(parse_role(r, keys[ROLE].node, instr->op));
    TRY(check_collective(r, node, instr));
    TRY(check_types(r, node, instr));
    instr->position = r->stream_length[instr->stream]++;
    return NULL;
}

weft_status plan_parse_instr(plan_reader *r, const yaml_node *node) {
    plan_instr instr;
    TRY(parse_instr(r, node, &instr));
    if (r->ninstrs >= INT32_MAX / 2) return yaml_error(r->context, node, r->place, "instructions: too many");
    TRY(vector_reserve(&r->context->allocator, &r->instrs, &r->instr_capacity, r->ninstrs + 1, sizeof *r->instrs));
    r->instrs[r->ninstrs++] = instr;
    return NULL;
}
