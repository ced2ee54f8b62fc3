/* pdmodel_scan.c: ops and vars as every framework writes them, straight from the wire.
 *
 * Such a message holds known fields of the expected wire types, each that is not repeated at most once. It is read here
 * without a message tree in between, which is most of what loading a large program costs. Whatever is different (a
 * field that is new, there twice or packed, an attr without a value, something malformed) is not plain: the reader goes
 * back to protobuf-c, which keeps or refuses it. Until a message is found to be plain the program does not change, but
 * for names and memory. */
#include "program/pdmodel.h"
#include "program/uses.h"

/* --- attrs ------------------------------------------------------------------------------------------------------- */

/* The field that holds the value of each AttrType; number 0 where the value is a message. */
static const struct {
    uint8_t number, wire_type;
    bool is_list;
} value_fields[] = {
    [ATTR_INT] = {3, WIRE_VARINT, false},
    [ATTR_FLOAT] = {4, WIRE_32BIT, false},
    [ATTR_STRING] = {5, WIRE_BYTES, false},
    [ATTR_INTS] = {6, WIRE_VARINT, true},
    [ATTR_FLOATS] = {7, WIRE_32BIT, true},
    [ATTR_STRINGS] = {8, WIRE_BYTES, true},
    [ATTR_BOOLEAN] = {10, WIRE_VARINT, false},
    [ATTR_BOOLEANS] = {11, WIRE_VARINT, true},
    [ATTR_BLOCK] = {12, WIRE_VARINT, false},
    [ATTR_LONG] = {13, WIRE_VARINT, false},
    [ATTR_BLOCKS] = {14, WIRE_VARINT, true},
    [ATTR_LONGS] = {15, WIRE_VARINT, true},
    [ATTR_FLOAT64S] = {16, WIRE_64BIT, true},
    [ATTR_VAR] = {17, WIRE_BYTES, false},
    [ATTR_VARS] = {18, WIRE_BYTES, true},
    [ATTR_FLOAT64] = {19, WIRE_64BIT, false},
    [ATTR_SCALAR] = {0, 0, false},
    [ATTR_SCALARS] = {0, 0, true},
};

static ProtobufCBinaryData bytes_of(const wire_field *f) {
    return (ProtobufCBinaryData){f->nbytes, (uint8_t *)f->bytes};
}

static double float_of(const wire_field *f) {
    float value;
    memcpy(&value, f->bytes, sizeof value);
    return (double)value;
}

static double double_of(const wire_field *f) {
    double value;
    memcpy(&value, f->bytes, sizeof value);
    return value;
}

/* A plain attr: its head, and where its values stand. */
typedef struct attr_head {
    ProtobufCBinaryData name;
    attr_type type;
    wire_cursor values; /* from the first value on */
    wire_field first;   /* value */
    size_t count;
} attr_head;

static bool scan_attr_head(wire_cursor c, attr_head *head) {
    wire_field f;
    if (!wire_take(&c, &f) || f.number != ATTR_NAME || f.type != WIRE_BYTES) return false;
    head->name = bytes_of(&f);
    if (!wire_take(&c, &f) || f.number != ATTR_TYPE || f.type != WIRE_VARINT || f.value >= ATTR_SCALAR) return false;
    head->type = (attr_type)f.value;
    head->values = c;
    head->count = 0;
    while (wire_take(&c, &f)) {
        if (f.number != value_fields[head->type].number || f.type != value_fields[head->type].wire_type) return false;
        if (head->count++ == 0) head->first = f;
    }
    return c.at == c.end && (value_fields[head->type].is_list || head->count == 1);
}

static weft_status read_list(pdmodel_reader *r, const attr_head *head, weft_attr *to) {
    wire_cursor c = head->values;
    wire_field f;
    int64_t *ints = NULL;
    double *floats = NULL;
    uint8_t *bools = NULL;
    text *strings = NULL;
    to->count = head->count;
    switch (head->type) {
    case ATTR_INTS:
    case ATTR_BLOCKS:
        TRY(pdmodel_array(r, head->count, sizeof *ints, &ints));
        for (size_t i = 0; wire_take(&c, &f); i++) ints[i] = (int32_t)f.value;
        to->u.ints = ints;
        break;
    case ATTR_LONGS:
        TRY(pdmodel_array(r, head->count, sizeof *ints, &ints));
        for (size_t i = 0; wire_take(&c, &f); i++) ints[i] = (int64_t)f.value;
        to->u.ints = ints;
        break;
    case ATTR_FLOATS:
    case ATTR_FLOAT64S:
        TRY(pdmodel_array(r, head->count, sizeof *floats, &floats));
        for (size_t i = 0; wire_take(&c, &f); i++) floats[i] = head->type == ATTR_FLOATS ? float_of(&f) : double_of(&f);
        to->u.floats = floats;
        break;
    case ATTR_BOOLEANS:
        TRY(pdmodel_array(r, head->count, sizeof *bools, &bools));
        for (size_t i = 0; wire_take(&c, &f); i++) bools[i] = f.value != 0;
        to->u.bools = bools;
        break;
    default: /* STRINGS, VARS */
        TRY(pdmodel_array(r, head->count, sizeof *strings, &strings));
        for (size_t i = 0; wire_take(&c, &f); i++) TRY(pdmodel_shared_text(r, bytes_of(&f), &strings[i]));
        to->u.strings = strings;
    }
    return NULL;
}

static weft_status read_value(pdmodel_reader *r, const attr_head *head, weft_attr *to) {
    const wire_field *f = &head->first;
    to->type = head->type;
    if (value_fields[head->type].is_list) return read_list(r, head, to);
    switch (head->type) {
    case ATTR_INT:
    case ATTR_BLOCK: to->u.i = (int32_t)f->value; break;
    case ATTR_LONG: to->u.i = (int64_t)f->value; break;
    case ATTR_FLOAT: to->u.f = float_of(f); break;
    case ATTR_FLOAT64: to->u.f = double_of(f); break;
    case ATTR_BOOLEAN: to->u.b = f->value != 0; break;
    default: return pdmodel_shared_text(r, bytes_of(f), &to->u.s); /* STRING, VAR */
    }
    return NULL;
}

/* --- ops --------------------------------------------------------------------------------------------------------- */

/* A plain op's parts. */
typedef struct op_parts {
    size_t nslots[2], nargs, nattrs; /* inputs, outputs */
    wire_field type, is_target;
    bool has_type, has_is_target;
} op_parts;

static wire_cursor inside(const wire_cursor *c, const wire_field *f) {
    return (wire_cursor){c->origin, f->bytes, f->bytes + f->nbytes, c->place};
}

/* Counts the arguments of a plain slot. */
static bool scan_slot(wire_cursor c, size_t *nargs) {
    wire_field f;
    if (!wire_take(&c, &f) || f.number != SLOT_PARAMETER || f.type != WIRE_BYTES) return false;
    for (; wire_take(&c, &f); ++*nargs)
        if (f.number != SLOT_ARGUMENTS || f.type != WIRE_BYTES) return false;
    return c.at == c.end;
}

static bool scan_op_field(const wire_cursor *c, const wire_field *f, op_parts *parts) {
    attr_head head;
    switch (f->number) {
    case OP_INPUTS:
    case OP_OUTPUTS:
        parts->nslots[f->number == OP_OUTPUTS]++;
        return f->type == WIRE_BYTES && scan_slot(inside(c, f), &parts->nargs);
    case OP_TYPE:
        if (parts->has_type) return false;
        parts->type = *f;
        return parts->has_type = f->type == WIRE_BYTES;
    case OP_ATTRS: parts->nattrs++; return f->type == WIRE_BYTES && scan_attr_head(inside(c, f), &head);
    case OP_IS_TARGET:
        if (parts->has_is_target) return false;
        parts->is_target = *f;
        return parts->has_is_target = f->type == WIRE_VARINT;
    default: return false;
    }
}

static bool scan_op(wire_cursor c, op_parts *parts) {
    wire_field f;
    while (wire_take(&c, &f))
        if (!scan_op_field(&c, &f, parts)) return false;
    return c.at == c.end && parts->has_type;
}

/* The name of an argument. */
typedef struct arg_name {
    const uint8_t *bytes;
    size_t nbytes;
    uint32_t hash;
} arg_name;

/* The names of all arguments, in the order of the file. In a large program each lookup of a var misses the cache three
 * times: the table of names, the name, the var. Asking for those of all arguments first lets the misses overlap. */
static void gather_args(const weft_program *p, wire_cursor c, arg_name *names) {
    const interner *in = &p->names;
    size_t n = 0;
    wire_field f, arg;
    while (wire_take(&c, &f)) {
        if (f.number != OP_INPUTS && f.number != OP_OUTPUTS) continue;
        wire_cursor slot_cursor = inside(&c, &f);
        while (wire_take(&slot_cursor, &arg)) {
            if (arg.number != SLOT_ARGUMENTS) continue;
            names[n] = (arg_name){arg.bytes, arg.nbytes, base_hash(arg.bytes, arg.nbytes)};
            __builtin_prefetch(interner_first(in, names[n++].hash));
        }
    }
    for (size_t i = 0; i < n && in->capacity; i++) {
        const interner_entry *e = interner_first(in, names[i].hash);
        if (!e->id_plus_1 || e->id_plus_1 > p->declared_capacity) continue;
        __builtin_prefetch(in->names[e->id_plus_1 - 1]);
        __builtin_prefetch(p->declared[e->id_plus_1 - 1], 1);
    }
}

static weft_status find_var(pdmodel_reader *r, weft_block *b, const arg_name *from, weft_var **out) {
    const name *n = interner_find_hashed(&r->program->names, (const char *)from->bytes, from->nbytes, from->hash);
    if (!n) TRY(pdmodel_name(r, (ProtobufCBinaryData){from->nbytes, (uint8_t *)from->bytes}, &n));
    return block_resolve(b, n, out);
}

/* Memory of an op's slots, pointers to arguments and arguments, in one piece. */
typedef struct op_memory {
    slot *slots[2];
    use **args;
    use *uses;
} op_memory;

static weft_status take_memory(pdmodel_reader *r, const op_parts *parts, op_memory *out) {
    size_t nslots = parts->nslots[0] + parts->nslots[1];
    size_t nbytes =
        nslots * sizeof(slot) + parts->nargs * (sizeof(use *) + sizeof(use)); /* counts of bytes in memory */
    char *memory;
    TRY(pdmodel_array(r, nbytes, 1, &memory));
    out->slots[0] = (slot *)(void *)memory;
    out->slots[1] = out->slots[0] + parts->nslots[0];
    out->args = (use **)(void *)(out->slots[0] + nslots);
    out->uses = (use *)(void *)(out->args + parts->nargs);
    return NULL;
}

static weft_status read_slot(pdmodel_reader *r, weft_block *b, weft_op *op, bool output, wire_cursor c, op_memory *m,
                             const arg_name **names) {
    slot *s = m->slots[output]++;
    slot_list *list = output ? &op->outputs : &op->inputs;
    wire_field f;
    if (list->count++ == 0) list->slots = s;
    list->capacity = list->count;
    if (wire_take(&c, &f)) TRY(pdmodel_name(r, bytes_of(&f), &s->name));
    for (s->args = m->args; wire_take(&c, &f); s->capacity = ++s->nargs) {
        weft_var *v;
        TRY(find_var(r, b, (*names)++, &v));
        use *u = *m->args++ = m->uses++;
        *u = (use){.var = v, .op = op, .var_id = v->id, .is_output = output};
    }
    return NULL;
}

static weft_status read_fields(pdmodel_reader *r, weft_block *b, weft_op *op, wire_cursor c, op_memory *m,
                               const arg_name *names) {
    wire_field f;
    attr_head head;
    while (wire_take(&c, &f)) {
        if (f.number == OP_INPUTS || f.number == OP_OUTPUTS)
            TRY(read_slot(r, b, op, f.number == OP_OUTPUTS, inside(&c, &f), m, &names));
        if (f.number != OP_ATTRS || !scan_attr_head(inside(&c, &f), &head)) continue;
        weft_attr *a = &op->attrs[op->nattrs++];
        TRY(pdmodel_name(r, head.name, &a->name));
        TRY(read_value(r, &head, a));
    }
    return NULL;
}

weft_status pdmodel_scan_op(pdmodel_reader *r, weft_block *b, const wire_cursor *c, bool *out_done) {
    op_parts parts = {.nargs = 0};
    op_memory memory;
    const name *type;
    weft_op *op;
    *out_done = false;
    if (!scan_op(*c, &parts)) return NULL;
    TRY(pdmodel_begin_message(r));
    arg_name *names = bump_array(&r->bump, parts.nargs, sizeof *names);
    if (!names) return r->bump.over_budget ? NULL : base_out_of_memory();
    gather_args(r->program, *c, names);
    TRY(pdmodel_name(r, bytes_of(&parts.type), &type));
    TRY(op_create(r->program, type, &op));
    TRY(take_memory(r, &parts, &memory));
    TRY(pdmodel_array(r, parts.nattrs, sizeof *op->attrs, &op->attrs));
    op->attr_capacity = parts.nattrs & OP_MAX_ATTRS;
    op->has_is_target = parts.has_is_target;
    op->is_target = parts.has_is_target && parts.is_target.value != 0;
    TRY(read_fields(r, b, op, *c, &memory, names));
    weft_block_insert_before(b, NULL, op);
    *out_done = true;
    return NULL;
}

/* --- vars -------------------------------------------------------------------------------------------------------- */

/* A plain var of kind dense tensor; flags by field number. */
typedef struct var_parts {
    ProtobufCBinaryData name;
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
    wire_cursor dense = inside(&c, &f);
    if (!wire_take(&dense, &f) || f.number != DENSE_TENSOR || f.type != WIRE_BYTES) return false;
    if (!scan_tensor(inside(&dense, &f), parts)) return false;
    if (dense.at == dense.end) return true;
    if (!wire_take(&dense, &f) || f.number != DENSE_LOD_LEVEL || f.type != WIRE_VARINT) return false;
    parts->has_lod_level = true;
    parts->lod_level = (int32_t)f.value;
    return dense.at == dense.end;
}

static bool scan_var(wire_cursor c, var_parts *parts) {
    wire_field f;
    if (!wire_take(&c, &f) || f.number != VAR_NAME || f.type != WIRE_BYTES) return false;
    parts->name = bytes_of(&f);
    if (!wire_take(&c, &f) || f.number != VAR_TYPE || f.type != WIRE_BYTES) return false;
    if (!scan_type(inside(&c, &f), parts)) return false;
    while (wire_take(&c, &f)) {
        if (f.number < VAR_PERSISTABLE || f.number > VAR_STOP_GRADIENT || f.type != WIRE_VARINT) return false;
        if (parts->has[f.number]) return false;
        parts->has[f.number] = true;
        parts->value[f.number] = f.value != 0;
    }
    return c.at == c.end;
}

weft_status pdmodel_scan_var(pdmodel_reader *r, weft_block *b, const wire_cursor *c, bool *out_done) {
    var_parts parts = {.ndim = 0};
    const name *n;
    weft_var *v;
    wire_field f;
    *out_done = false;
    if (!scan_var(*c, &parts)) return NULL;
    int64_t *dims;
    TRY(pdmodel_array(r, parts.ndim, sizeof *dims, &dims));
    for (size_t i = 0; wire_take(&parts.dims, &f); i++) dims[i] = (int64_t)f.value;
    TRY(pdmodel_name(r, parts.name, &n));
    TRY(block_add_var(b, n, &v));
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
