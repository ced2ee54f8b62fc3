/* Deep copies: of a program into a new arena, of an op within its program.
 *
 * Both run through one `copier`, which knows where a name, a var or a mesh of the source lies in the destination;
 * within one program that is the thing itself. Names are interned in the source's order, so ids agree and one array
 * maps them. */
#include "program/attr_memo.h"
#include "program/uses.h"

typedef struct copier {
    weft_program *to;
    const name **names; /* by name id; NULL: same program */
    weft_var **vars;    /* by var id; NULL: same program */
    const weft_program *from;
    attr_memo *memo; /* NULL: same program */
} copier;

static const name *name_of(const copier *c, const name *n) {
    return c->names ? c->names[n->id] : n;
}
static weft_var *var_of(const copier *c, weft_var *v) {
    return c->vars ? c->vars[v->id] : v;
}

/* *out = a copy of count * size bytes; NULL stays NULL. */
static weft_status copy_array(const copier *c, const void *from, size_t count, size_t size, void *out) {
    void *copy = NULL;
    if (from) {
        copy = arena_array(&c->to->arena, count ? count : 1, size);
        if (!copy) return base_out_of_memory();
        if (count) memcpy(copy, from, count * size);
    }
    memcpy(out, &copy, sizeof copy);
    return NULL;
}

static weft_status copy_text(const copier *c, text from, text *out) {
    *out = from;
    if (from.bytes && !(out->bytes = arena_string(&c->to->arena, from.bytes, from.nbytes))) return base_out_of_memory();
    return NULL;
}

static weft_status copy_string(const copier *c, const char *from, const char **out) {
    *out = NULL;
    if (from && !(*out = arena_string(&c->to->arena, from, strlen(from)))) return base_out_of_memory();
    return NULL;
}

/* --- attrs -------------------------------------------------------------------------------------------------------- */

static weft_status copy_strings(const copier *c, const weft_attr *from, weft_attr *to) {
    const name **copy = ARENA_ARRAY(&c->to->arena, const name *, from->count ? from->count : 1);
    if (!copy) return base_out_of_memory();
    for (size_t i = 0; i < from->count; i++) {
        const name *n = from->u.strings[i];
        if (!(copy[i] = name_create(&c->to->arena, n->bytes, n->nbytes))) return base_out_of_memory();
    }
    to->u.strings = copy;
    return NULL;
}

static weft_status copy_attr_text(const copier *c, const weft_attr *from, weft_attr *to) {
    text copy;
    TRY(copy_text(c, attr_text(from), &copy));
    attr_set_text(to, copy);
    return NULL;
}

static weft_status copy_attr(const copier *c, const weft_attr *from, weft_attr *to) {
    *to = *from;
    to->name = name_of(c, from->name);
    switch (from->type) {
    case ATTR_STRING:
    case ATTR_VAR: return copy_attr_text(c, from, to);
    case ATTR_STRINGS:
    case ATTR_VARS: return copy_strings(c, from, to);
    case ATTR_INTS:
    case ATTR_LONGS:
    case ATTR_BLOCKS: return copy_array(c, from->u.ints, from->count, sizeof *from->u.ints, &to->u.ints);
    case ATTR_FLOATS:
    case ATTR_FLOAT64S: return copy_array(c, from->u.floats, from->count, sizeof *from->u.floats, &to->u.floats);
    case ATTR_BOOLEANS: return copy_array(c, from->u.bools, from->count, sizeof *from->u.bools, &to->u.bools);
    case ATTR_SCALAR: return copy_array(c, from->u.scalar, 1, sizeof *from->u.scalar, &to->u.scalar);
    case ATTR_SCALARS: return copy_array(c, from->u.scalars, from->count, sizeof *from->u.scalars, &to->u.scalars);
    case ATTR_INT:
    case ATTR_FLOAT:
    case ATTR_BOOLEAN:
    case ATTR_BLOCK:
    case ATTR_LONG:
    case ATTR_FLOAT64: break;
    }
    return NULL;
}

static weft_status copy_attrs(const copier *c, const weft_attr *from, size_t count, weft_attr **out) {
    weft_attr *attrs = NULL;
    if (count && !(attrs = ARENA_ARRAY(&c->to->arena, weft_attr, count))) return base_out_of_memory();
    for (size_t i = 0; i < count; i++) TRY(copy_attr(c, &from[i], &attrs[i]));
    *out = attrs;
    return NULL;
}

/* --- dist attrs --------------------------------------------------------------------------------------------------- */

static weft_status copy_op_placements(const copier *c, const op_placement *from, size_t count, op_placement **out) {
    op_placement *copy = ARENA_ARRAY(&c->to->arena, op_placement, count ? count : 1);
    if (!copy) return base_out_of_memory();
    for (size_t i = 0; i < count; i++) {
        placement *where;
        TRY(placement_clone(c->to, from[i].placement, &where));
        copy[i] = (op_placement){.var = name_of(c, from[i].var), .placement = where};
    }
    *out = copy;
    return NULL;
}

static weft_status copy_op_dist_rest(const copier *c, const op_dist_rest *from, op_dist *d) {
    op_dist_rest *rest;
    d->rest = NULL;
    if (!from) return NULL;
    TRY(op_dist_rest_get(c->to, d, &rest));
    *rest = *from;
    if (from->mesh) TRY(program_add_mesh(c->to, from->mesh, &rest->mesh));
    TRY(copy_string(c, from->impl_type, &rest->impl_type));
    TRY(copy_string(c, from->extra_json, &rest->extra_json));
    TRY(copy_op_placements(c, from->inputs, from->ninputs, &rest->inputs));
    return copy_op_placements(c, from->outputs, from->noutputs, &rest->outputs);
}

static weft_status copy_waits(const copier *c, const op_waits *from, const op_waits **out) {
    op_waits *waits = NULL;
    if (from) TRY(op_waits_create(c->to, from->count, &waits));
    for (size_t i = 0; from && i < from->count; i++) TRY(copy_string(c, from->events[i], &waits->events[i]));
    *out = waits;
    return NULL;
}

static weft_status copy_op_dist(const copier *c, const op_dist *from, op_dist **out) {
    op_dist *d = ARENA_NEW(&c->to->arena, op_dist);
    if (!d) return base_out_of_memory();
    *d = *from;
    TRY(copy_string(c, from->execution_stream, &d->execution_stream));
    TRY(copy_string(c, from->event_to_record, &d->event_to_record));
    TRY(copy_waits(c, from->waits, &d->waits));
    TRY(copy_op_dist_rest(c, from->rest, d));
    *out = d;
    return NULL;
}

/* --- ops, vars, blocks -------------------------------------------------------------------------------------------- */

/* The slots of an op under the destination's names. */
static weft_status copy_table(const copier *c, const slot_table *from, weft_op *to) {
    enum { FEW_SLOTS = 16 };
    _Alignas(slot_table) unsigned char few[sizeof(slot_table) + FEW_SLOTS * sizeof(slot)];
    uint32_t nslots = slot_table_count(from);
    if (!c->names) return op_set_slots(to, from);
    slot_table *named = nslots <= FEW_SLOTS ? (slot_table *)few : arena_alloc(&c->to->arena, slot_table_nbytes(nslots));
    if (!named) return base_out_of_memory();
    memcpy(named, from, slot_table_nbytes(nslots));
    for (uint32_t i = 0; i < nslots; i++) named->slots[i].name = name_of(c, from->slots[i].name);
    return op_set_slots(to, named);
}

static weft_status copy_slots(const copier *c, const weft_op *from, weft_op *to) {
    TRY(copy_table(c, from->slots, to));
    for (uint32_t i = 0; i < from->slots->nargs; i++)
        to->args[i] = use_make(to, var_of(c, use_var(from->program, &from->args[i])), from->args[i].is_output);
    return NULL;
}

/* Ops that share a list of attrs share the copy. */
static weft_status copy_op_attrs(const copier *c, const weft_op *from, weft_op *to) {
    attr_memo_entry *entry = c->memo ? attr_memo_find(c->memo, from) : NULL;
    bool is_known = entry && entry->list == from->attrs;
    if (is_known)
        to->attrs = entry->copy;
    else
        TRY(copy_attrs(c, from->attrs, from->nattrs, &to->attrs));
    to->nattrs = from->nattrs;
    to->attr_capacity = entry ? 0 : from->nattrs & OP_MAX_ATTRS;
    if (entry) *entry = (attr_memo_entry){.list = from->attrs, .copy = to->attrs};
    return NULL;
}

static weft_status copy_op(const copier *c, const weft_op *from, weft_op **out) {
    weft_op *op;
    TRY(op_create(c->to, name_of(c, from->type), &op));
    TRY(copy_slots(c, from, op));
    TRY(copy_op_attrs(c, from, op));
    op->is_target = from->is_target;
    op->has_is_target = from->has_is_target;
    text unknown;
    TRY(copy_text(c, op_unknown_fields(from), &unknown));
    TRY(op_set_unknown_fields(op, unknown));
    if (from->dist) TRY(copy_op_dist(c, from->dist, &op->dist));
    *out = op;
    return NULL;
}

weft_status op_clone(const weft_op *op, weft_op **out) {
    return copy_op(&(copier){.to = op->program, .from = op->program}, op, out);
}

static bool has_rest(const var_rest *rest) {
    return rest->nattrs || rest->type_bytes.nbytes || rest->unknown_fields.nbytes || rest->dist_extra_json;
}

static weft_status copy_rest(const copier *c, const var_rest *from, weft_var *to) {
    var_rest *rest;
    TRY(var_rest_get(c->to, to, &rest));
    TRY(copy_attrs(c, from->attrs, from->nattrs, &rest->attrs));
    rest->nattrs = from->nattrs;
    TRY(copy_text(c, from->type_bytes, &rest->type_bytes));
    TRY(copy_text(c, from->unknown_fields, &rest->unknown_fields));
    return copy_string(c, from->dist_extra_json, &rest->dist_extra_json);
}

static weft_status copy_var_fields(const copier *c, const weft_var *from, weft_var *to) {
    const weft_var made = *to;
    *to = *from;
    to->name = made.name;
    to->block = made.block;
    to->id = made.id;
    to->generation = made.generation;
    to->shares_name = made.shares_name;
    to->rest = made.rest;
    to->program = made.program;
    to->first_use = to->last_use = 0;
    to->nuses = 0;
    TRY(copy_array(c, from->dims, from->ndim, sizeof *from->dims, &to->dims));
    if (from->dist) TRY(placement_clone(c->to, from->dist, &to->dist));
    return has_rest(from->rest) ? copy_rest(c, from->rest, to) : NULL;
}

static weft_status copy_block_vars(copier *c, const weft_block *from, weft_block *to) {
    for (size_t i = 0; i < from->nvars; i++) {
        weft_var *v;
        TRY(block_add_var(to, name_of(c, block_var(from, i)->name), &v));
        TRY(copy_var_fields(c, block_var(from, i), v));
        c->vars[block_var(from, i)->id] = v;
    }
    return NULL;
}

/* Placeholders of names that no block declares. */
static weft_status copy_undeclared(copier *c) {
    weft_program *to = c->to;
    for (size_t i = 0; i < c->from->nall_vars; i++) {
        const weft_var *v = program_var(c->from, i);
        if (v->block) continue;
        TRY(program_placeholder(to, name_of(c, v->name), &c->vars[v->id]));
        TRY(copy_var_fields(c, v, c->vars[v->id]));
    }
    return NULL;
}

static weft_status copy_block_ops(const copier *c, const weft_block *from, weft_block *to) {
    FOR_EACH_OP(op, from) {
        weft_op *copy;
        TRY(copy_op(c, op, &copy));
        weft_block_insert_before(to, NULL, copy);
    }
    return NULL;
}

/* --- programs ----------------------------------------------------------------------------------------------------- */

static weft_status copy_names(copier *c, arena *scratch) {
    const interner *in = &c->from->names;
    c->names = ARENA_ARRAY(scratch, const name *, in->count + 1);
    if (!c->names) return base_out_of_memory();
    if (!interner_reserve(&c->to->names, in->count)) return base_out_of_memory();
    interner_list(in, c->names);
    for (size_t i = 0; i < in->count; i++)
        TRY(program_name(c->to, c->names[i]->bytes, c->names[i]->nbytes, &c->names[i]));
    return NULL;
}

static weft_status copy_dist(const copier *c) {
    const weft_program *from = c->from;
    weft_program *to = c->to;
    const mesh *m;
    for (size_t i = 0; i < from->nmeshes; i++) TRY(program_add_mesh(to, from->meshes[i], &m));
    for (size_t i = 0; i < from->nrings; i++) TRY(program_put_ring(to, &from->rings[i]));
    to->has_dist = from->has_dist;
    to->rank = from->rank;
    TRY(copy_array(c, from->params_grads, from->nparams_grads * 2, sizeof *from->params_grads, &to->params_grads));
    for (size_t i = 0; i < from->nparams_grads * 2; i++) to->params_grads[i] = name_of(c, from->params_grads[i]);
    to->nparams_grads = from->nparams_grads;
    TRY(copy_string(c, from->fx_json, &to->fx_json));
    return copy_string(c, from->dist_extra_json, &to->dist_extra_json);
}

static weft_status copy_blocks(copier *c, arena *scratch) {
    const weft_program *from = c->from;
    c->vars = ARENA_ARRAY(scratch, weft_var *, from->nall_vars + 1);
    if (!c->vars) return base_out_of_memory();
    for (size_t i = 0; i < from->nblocks; i++) {
        const weft_block *b = from->blocks[i];
        weft_block *copy = c->to->nblocks > i ? c->to->blocks[i] : NULL;
        if (!copy) TRY(program_add_block(c->to, b->parent_idx, &copy));
        copy->parent_idx = b->parent_idx;
        copy->idx = b->idx;
        copy->forward_block_idx = b->forward_block_idx;
        copy->has_forward_block_idx = b->has_forward_block_idx;
        TRY(copy_text(c, b->unknown_fields, &copy->unknown_fields));
        TRY(copy_block_vars(c, b, copy));
    }
    TRY(copy_undeclared(c));
    for (size_t i = 0; i < from->nblocks; i++) TRY(copy_block_ops(c, from->blocks[i], c->to->blocks[i]));
    return NULL;
}

static weft_status copy_program(copier *c, arena *scratch) {
    const weft_program *from = c->from;
    weft_program *to = c->to;
    to->version = from->version;
    to->has_version = from->has_version;
    to->has_op_version_map = from->has_op_version_map;
    TRY(copy_text(c, from->op_version_map, &to->op_version_map));
    TRY(copy_text(c, from->unknown_fields, &to->unknown_fields));
    TRY(copy_string(c, from->place, &to->place));
    if (!(c->memo = ARENA_NEW(scratch, attr_memo))) return base_out_of_memory();
    TRY(copy_names(c, scratch));
    TRY(copy_dist(c));
    return copy_blocks(c, scratch);
}

weft_status weft_program_clone(const weft_program *program, weft_program **out_program) {
    copier c = {.from = program};
    arena scratch;
    arena_init(&scratch, &program->context->allocator);
    weft_status status = weft_program_create(program->context, &c.to);
    if (!status) status = copy_program(&c, &scratch);
    arena_fini(&scratch);
    if (status)
        weft_program_destroy(c.to);
    else
        *out_program = c.to;
    return status;
}
