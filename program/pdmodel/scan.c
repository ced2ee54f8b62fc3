/* scan.c: ops and vars as every framework writes them, straight from the wire.
 *
 * Such a message holds known fields of the expected wire types, each that is not repeated at most once. It is read here
 * without a message tree in between, which is most of what loading a large program costs. Whatever is different (a
 * field that is new, there twice or packed, an attr without a value, something malformed) is not plain: the reader goes
 * back to protobuf-c, which keeps or refuses it. Until a message is found to be plain the program does not change, but
 * for names and memory. */
#include "program/pdmodel/pdmodel.h"
#include "program/uses.h"

/* --- ops ---------------------------------------------------------------------------------------------------------- */

enum { MOST_SLOTS = 32 }; /* of an op that is read here */

/* A plain op's slot: its name, then its arguments. */
typedef struct slot_part {
    wire_field name;
    wire_cursor args;
    uint32_t nargs;
    bool output;
} slot_part;

/* A plain op's parts. */
typedef struct op_parts {
    slot_part *slots;             /* in the order of the file; room for MOST_SLOTS */
    uint32_t nslots[2], nargs[2]; /* inputs, outputs */
    wire_field type, is_target;
    bool has_type, has_is_target;
    pdmodel_attrs attrs;
} op_parts;

static bool scan_slot(wire_cursor c, bool output, op_parts *parts) {
    uint32_t n = parts->nslots[0] + parts->nslots[1];
    wire_field f;
    if (n == MOST_SLOTS) return false;
    slot_part *s = &parts->slots[n];
    if (!wire_take(&c, &s->name) || s->name.number != SLOT_PARAMETER || s->name.type != WIRE_BYTES) return false;
    s->args = c;
    s->output = output;
    for (s->nargs = 0; wire_take(&c, &f); s->nargs++)
        if (f.number != SLOT_ARGUMENTS || f.type != WIRE_BYTES) return false;
    parts->nslots[output]++;
    parts->nargs[output] += s->nargs;
    return c.at == c.end;
}

static bool scan_op_field(const wire_cursor *c, const wire_field *f, op_parts *parts) {
    switch (f->number) {
    case OP_INPUTS:
    case OP_OUTPUTS: return f->type == WIRE_BYTES && scan_slot(wire_inside(c, f), f->number == OP_OUTPUTS, parts);
    case OP_TYPE:
        if (parts->has_type) return false;
        parts->type = *f;
        return parts->has_type = f->type == WIRE_BYTES;
    case OP_ATTRS: return f->type == WIRE_BYTES && pdmodel_note_attr(&parts->attrs, f->start, c->at);
    case OP_IS_TARGET:
        if (parts->has_is_target) return false;
        parts->is_target = *f;
        return parts->has_is_target = f->type == WIRE_VARINT;
    default: return false;
    }
}

static bool scan_op(wire_cursor c, op_parts *parts) {
    wire_field f;
    parts->nslots[0] = parts->nslots[1] = parts->nargs[0] = parts->nargs[1] = 0;
    parts->has_type = parts->has_is_target = false;
    parts->attrs = (pdmodel_attrs){.count = 0};
    while (wire_take(&c, &f))
        if (!scan_op_field(&c, &f, parts)) return false;
    return c.at == c.end && parts->has_type;
}

static weft_status find_var(pdmodel_reader *r, weft_block *b, const wire_field *f, weft_var **out) {
    const name *n;
    TRY(pdmodel_next_name(r, f, &n));
    return pdmodel_resolve(r, b, n, out);
}

/* What the last op of that type had, or else nothing. */
static known_type *last_of_type(pdmodel_reader *r, const name *type) {
    known_type *last = &r->types[type->id % PDMODEL_KNOWN_TYPES];
    if (last->type != type) *last = (known_type){.type = type};
    return last;
}

/* Names of slots, most likely those of `like`, and numbers of arguments. */
static weft_status take_slots(pdmodel_reader *r, const op_parts *parts, const slot_table *like, weft_op *op) {
    _Alignas(slot_table) unsigned char bytes[sizeof(slot_table) + MOST_SLOTS * sizeof(slot)];
    slot_table *t = (slot_table *)bytes;
    *t = (slot_table){parts->nslots[0], parts->nslots[1], parts->nargs[0], parts->nargs[0] + parts->nargs[1]};
    uint32_t nslots = slot_table_count(t), next[2] = {0, t->ninputs}, first[2] = {0, t->ninput_args};
    for (uint32_t i = 0; i < nslots; i++) {
        const slot_part *from = &parts->slots[i];
        slot *s = &t->slots[next[from->output]++];
        *s = (slot){.first = first[from->output], .nargs = from->nargs};
        first[from->output] += from->nargs;
        size_t at = (size_t)(s - t->slots);
        const name *guess = like && at < slot_table_count(like) ? like->slots[at].name : NULL;
        TRY(pdmodel_name_like(r, wire_data(&from->name), guess, &s->name));
    }
    TRY(form_charge(r->program, r->budget, sizeof bytes + pool_growth(&r->program->uses, t->nargs)));
    return op_set_slots(op, t);
}

static weft_status read_args(pdmodel_reader *r, weft_block *b, weft_op *op, const op_parts *parts) {
    use *next[2] = {op_args(op, false), op_args(op, true)};
    uint32_t nslots = parts->nslots[0] + parts->nslots[1];
    for (uint32_t i = 0; i < nslots; i++) {
        wire_cursor c = parts->slots[i].args;
        bool output = parts->slots[i].output;
        wire_field f;
        while (wire_take(&c, &f)) {
            weft_var *v;
            TRY(find_var(r, b, &f, &v));
            *next[output]++ = use_make(op, v, output);
        }
    }
    return NULL;
}

weft_status pdmodel_scan_op(pdmodel_reader *r, weft_block *b, const wire_cursor *c, bool *out_done) {
    slot_part slots[MOST_SLOTS];
    op_parts parts; /* not cleared: scan_op begins it */
    parts.slots = slots;
    const name *type;
    weft_op *op;
    *out_done = false;
    if (!scan_op(*c, &parts)) return NULL;
    TRY(pdmodel_begin_message(r));
    pdmodel_attr_list attrs;
    TRY(pdmodel_name(r, wire_data(&parts.type), &type));
    known_type *last = last_of_type(r, type);
    TRY(pdmodel_find_attrs(r, c, &parts.attrs, &last->attrs, &attrs));
    if (!attrs.is_plain) return NULL;
    TRY(form_charge_op(r->program, r->budget));
    TRY(op_create(r->program, type, &op));
    TRY(take_slots(r, &parts, last->slots, op));
    last->slots = op->slots;
    op->attrs = attrs.items; /* capacity 0: shared */
    op->nattrs = attrs.count;
    op->has_is_target = parts.has_is_target;
    op->is_target = parts.has_is_target && parts.is_target.value != 0;
    TRY(read_args(r, b, op, &parts));
    weft_block_insert_before(b, NULL, op);
    *out_done = true;
    return NULL;
}

/* --- vars --------------------------------------------------------------------------------------------------------- */

/* A plain var of kind dense tensor; flags by field number. */
typedef struct var_parts {
    wire_field name;
    bool has[VAR_STOP_GRADIENT + 1], value[VAR_STOP_GRADIENT + 1];
    bool has_lod_level;
    int32_t dtype, lod_level;
    size_t ndim;
    wire_cursor dims; /* from the first extent on */
} var_parts;

static bool scan_tensor(wire_cursor c, var_parts *parts) {
    wire_field f;
    if (!wire_take(&c, &f) || f.number != TENSOR_DTYPE || f.type != WIRE_VARINT) return false;
    parts->dtype = (int32_t)f.value;
    parts->dims = c;
    for (; wire_take(&c, &f); parts->ndim++)
        if (f.number != TENSOR_DIMS || f.type != WIRE_VARINT) return false;
    return c.at == c.end;
}

static bool scan_type(wire_cursor c, var_parts *parts) {
    wire_field f;
    if (!wire_take(&c, &f) || f.number != TYPE_KIND || f.type != WIRE_VARINT || f.value != WEFT_DENSE_TENSOR)
        return false;
    if (!wire_take(&c, &f) || f.number != TYPE_DENSE || f.type != WIRE_BYTES || c.at != c.end) return false;
    wire_cursor dense = wire_inside(&c, &f);
    if (!wire_take(&dense, &f) || f.number != DENSE_TENSOR || f.type != WIRE_BYTES) return false;
    if (!scan_tensor(wire_inside(&dense, &f), parts)) return false;
    if (dense.at == dense.end) return true;
    if (!wire_take(&dense, &f) || f.number != DENSE_LOD_LEVEL || f.type != WIRE_VARINT) return false;
    parts->has_lod_level = true;
    parts->lod_level = (int32_t)f.value;
    return dense.at == dense.end;
}

static bool scan_var(wire_cursor c, var_parts *parts) {
    wire_field f;
    memset(parts->has, 0, sizeof parts->has);
    memset(parts->value, 0, sizeof parts->value);
    parts->ndim = 0;
    parts->lod_level = 0;
    parts->has_lod_level = false;
    if (!wire_take(&c, &f) || f.number != VAR_NAME || f.type != WIRE_BYTES) return false;
    parts->name = f;
    if (!wire_take(&c, &f) || f.number != VAR_TYPE || f.type != WIRE_BYTES) return false;
    if (!scan_type(wire_inside(&c, &f), parts)) return false;
    while (wire_take(&c, &f)) {
        if (f.number < VAR_PERSISTABLE || f.number > VAR_STOP_GRADIENT || f.type != WIRE_VARINT) return false;
        if (parts->has[f.number]) return false;
        parts->has[f.number] = true;
        parts->value[f.number] = f.value != 0;
    }
    return c.at == c.end;
}

static void take_dims(wire_cursor c, int64_t *out) {
    wire_field f;
    for (size_t i = 0; wire_take(&c, &f); i++) out[i] = (int64_t)f.value;
}

static weft_status read_dims(pdmodel_reader *r, const var_parts *parts, int64_t **out) {
    int64_t few[WEFT_MAX_RANK];
    if (parts->ndim <= WEFT_MAX_RANK) {
        take_dims(parts->dims, few);
        TRY(form_charge(r->program, r->budget, parts->ndim * sizeof *few));
        return program_dims(r->program, parts->ndim, few, out);
    }
    TRY(pdmodel_array(r, parts->ndim, sizeof **out, out));
    take_dims(parts->dims, *out);
    return NULL;
}

weft_status pdmodel_scan_var(pdmodel_reader *r, weft_block *b, const wire_cursor *c, bool *out_done) {
    var_parts parts; /* not cleared: scan_var begins it */
    const name *n;
    weft_var *v;
    int64_t *dims;
    *out_done = false;
    if (!scan_var(*c, &parts)) return NULL;
    TRY(read_dims(r, &parts, &dims));
    TRY(pdmodel_next_name(r, &parts.name, &n));
    TRY(pdmodel_declare(r, b, n, &v));
    v->kind = WEFT_DENSE_TENSOR;
    v->has_tensor = true;
    v->dtype = parts.dtype;
    v->ndim = (uint32_t)parts.ndim;
    v->dims = dims;
    v->has_lod_level = parts.has_lod_level;
    v->lod_level = parts.lod_level;
    v->has_persistable = parts.has[VAR_PERSISTABLE];
    v->persistable = parts.value[VAR_PERSISTABLE];
    v->has_need_check_feed = parts.has[VAR_NEED_CHECK_FEED];
    v->need_check_feed = parts.value[VAR_NEED_CHECK_FEED];
    v->has_is_parameter = parts.has[VAR_IS_PARAMETER];
    v->is_parameter = parts.value[VAR_IS_PARAMETER];
    v->has_stop_gradient = parts.has[VAR_STOP_GRADIENT];
    v->stop_gradient = parts.value[VAR_STOP_GRADIENT];
    *out_done = true;
    return NULL;
}
