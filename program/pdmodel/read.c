/* read.c: ProgramDesc to a program: the program, its blocks and vars.
 *
 * The two outer levels are walked field by field, so that memory is bounded and an error has a position; each var and
 * op is one protobuf-c message, forgotten once it is in the program. Vars of all blocks come first, since an op may
 * name those of other blocks. What Weft does not model is kept as the bytes it was. Source: Paddle's framework.proto.
 */
#include "program/grow.h"
#include "program/pdmodel/pdmodel.h"

/* --- vars --------------------------------------------------------------------------------------------------------- */

static weft_status read_tensor(pdmodel_reader *r, const Weft__Wire__VarType__TensorDesc *desc, weft_var *v) {
    v->has_tensor = true;
    v->dtype = desc->data_type;
    v->ndim = (uint32_t)desc->n_dims;
    TRY(pdmodel_array(r, desc->n_dims, sizeof *v->dims, &v->dims));
    if (desc->n_dims) memcpy(v->dims, desc->dims, desc->n_dims * sizeof *v->dims);
    return NULL;
}

/* Whether a VarType holds just what weft_var has room for. */
static bool is_modelled(const Weft__Wire__VarType *t) {
    const Weft__Wire__VarType__DenseTensorDesc *dense = t->dense_tensor;
    const Weft__Wire__VarType__TensorDesc *tensor = dense ? dense->tensor : t->selected_rows;
    if (t->base.n_unknown_fields || (dense && dense->base.n_unknown_fields)) return false;
    if (tensor && tensor->base.n_unknown_fields) return false;
    return (!dense || t->type == WEFT_DENSE_TENSOR) && (!t->selected_rows || t->type == WEFT_SELECTED_ROWS);
}

/* Unpacks the type inside the VarDesc at `c`, whose memory stays. */
static weft_status unpack_type(pdmodel_reader *r, const wire_cursor *c, ProtobufCBinaryData bytes,
                               Weft__Wire__VarType **out) {
    if ((*out = weft__wire__var_type__unpack(&r->bump.protobuf, bytes.len, bytes.data))) return NULL;
    wire_cursor var = *c, type = *c;
    wire_field f;
    for (bool more = true; more;) { /* where it stands in the file */
        TRY(wire_next(&var, &f, &more));
        if (more && f.number == VAR_TYPE && f.type == WIRE_BYTES) TRY(wire_enter(&var, &f, "type", &type));
    }
    return pdmodel_refusal(r, &type, &weft__wire__var_type__descriptor);
}

static weft_status read_type(pdmodel_reader *r, const wire_cursor *c, ProtobufCBinaryData bytes, weft_var *v) {
    Weft__Wire__VarType *t;
    TRY(unpack_type(r, c, bytes, &t));
    v->kind = t->type;
    if (!is_modelled(t)) {
        var_rest *rest;
        TRY(var_rest_get(r->program, v, &rest));
        return pdmodel_text(r, bytes, &rest->type_bytes);
    }
    if (t->selected_rows) return read_tensor(r, t->selected_rows, v);
    if (!t->dense_tensor) return NULL;
    v->has_lod_level = t->dense_tensor->has_lod_level;
    v->lod_level = t->dense_tensor->lod_level;
    return read_tensor(r, t->dense_tensor->tensor, v);
}

/* --- attrs of vars ------------------------------------------------------------------------------------------------ */

/* False for an attr that weft_attr cannot hold exactly. */
static bool is_plain_attr(const Weft__Wire__VarDesc__Attr *a) {
    unsigned has = (unsigned)(a->has_i != 0) << ATTR_INT | (unsigned)(a->has_s != 0) << ATTR_STRING |
                   (unsigned)(a->n_ints != 0) << ATTR_INTS;
    if (a->base.n_unknown_fields) return false;
    if (a->type == WEFT__WIRE__ATTR_TYPE__INTS) return (has & ~(1u << ATTR_INTS)) == 0;
    return (a->type == WEFT__WIRE__ATTR_TYPE__INT || a->type == WEFT__WIRE__ATTR_TYPE__STRING) && has == 1u << a->type;
}

static weft_status read_attr(pdmodel_reader *r, const Weft__Wire__VarDesc__Attr *from, weft_attr *to) {
    to->type = (attr_type)from->type;
    TRY(pdmodel_name(r, from->name, &to->name));
    if (to->type == ATTR_INT) to->u.i = from->i;
    if (to->type == ATTR_STRING) return pdmodel_attr_text(r, from->s, to);
    if (to->type != ATTR_INTS) return NULL;
    int64_t *ints;
    TRY(pdmodel_array(r, from->n_ints, sizeof *ints, &ints));
    for (size_t i = 0; i < from->n_ints; i++) ints[i] = from->ints[i];
    to->count = (uint32_t)from->n_ints;
    to->u.ints = ints;
    return NULL;
}

static weft_status read_attrs(pdmodel_reader *r, const Weft__Wire__VarDesc *desc, weft_var *v, buffer *odd) {
    var_rest *rest;
    if (!desc->n_attrs) return NULL;
    TRY(var_rest_get(r->program, v, &rest));
    TRY(pdmodel_array(r, desc->n_attrs, sizeof *rest->attrs, &rest->attrs));
    for (size_t i = 0; i < desc->n_attrs; i++) {
        if (is_plain_attr(desc->attrs[i]))
            TRY(read_attr(r, desc->attrs[i], &rest->attrs[rest->nattrs++]));
        else
            wire_put_message(odd, VAR_ATTRS, &desc->attrs[i]->base);
    }
    return NULL;
}

/* --- vars --------------------------------------------------------------------------------------------------------- */

static weft_status read_var(pdmodel_reader *r, weft_block *b, const wire_cursor *c) {
    Weft__Wire__VarDesc *desc;
    bool done;
    TRY(pdmodel_scan_var(r, b, c, &done));
    if (done) return NULL;
    TRY(pdmodel_unpack(r, c, &weft__wire__var_desc__descriptor, &desc));
    const name *n;
    weft_var *v;
    TRY(pdmodel_name(r, desc->name, &n));
    TRY(pdmodel_declare(r, b, n, &v));
    TRY(read_type(r, c, desc->type, v));
    v->has_persistable = desc->has_persistable;
    v->persistable = desc->persistable;
    v->has_need_check_feed = desc->has_need_check_feed;
    v->need_check_feed = desc->need_check_feed;
    v->has_is_parameter = desc->has_is_parameter;
    v->is_parameter = desc->is_parameter;
    v->has_stop_gradient = desc->has_stop_gradient;
    v->stop_gradient = desc->stop_gradient;
    buffer odd;
    buffer_init(&odd, r->allocator);
    weft_status status = read_attrs(r, desc, v, &odd);
    if (!status) status = buffer_status(&odd);
    text unknown = {"", 0};
    if (!status) status = pdmodel_unknown(r, &desc->base, &odd, &unknown);
    buffer_fini(&odd);
    var_rest *rest;
    if (status || !unknown.nbytes) return status;
    TRY(var_rest_get(r->program, v, &rest));
    rest->unknown_fields = unknown;
    return NULL;
}

/* --- blocks ------------------------------------------------------------------------------------------------------- */

static weft_status read_index(const wire_cursor *c, const wire_field *f, const char *what, int32_t *out) {
    TRY(wire_expect(c, f, WIRE_VARINT, what));
    *out = (int32_t)f->value;
    return NULL;
}

static weft_status keep_field(buffer *unknown, const wire_cursor *c, const wire_field *f) {
    buffer_append(unknown, f->start, (size_t)(c->at - f->start));
    return buffer_status(unknown);
}

typedef struct block_head {
    bool has_idx, has_parent;
    buffer unknown;
} block_head;

static weft_status read_block_field(pdmodel_reader *r, weft_block *b, const wire_cursor *c, const wire_field *f,
                                    block_head *head) {
    wire_cursor inner;
    switch (f->number) {
    case BLOCK_IDX: head->has_idx = true; return read_index(c, f, "idx", &b->idx);
    case BLOCK_PARENT: head->has_parent = true; return read_index(c, f, "parent_idx", &b->parent_idx);
    case BLOCK_FORWARD:
        b->has_forward_block_idx = true;
        return read_index(c, f, "forward_block_idx", &b->forward_block_idx);
    case BLOCK_VARS: TRY(wire_enter(c, f, "a var", &inner)); return read_var(r, b, &inner);
    case BLOCK_OPS: return wire_expect(c, f, WIRE_BYTES, "an op"); /* read later */
    default: return keep_field(&head->unknown, c, f);
    }
}

/* Makes room for the names of vars that stand before the block's ops, where Paddle writes all of them, and for some
 * more. */
static weft_status reserve_vars(pdmodel_reader *r, weft_block *b, wire_cursor c, bool is_only_block) {
    const size_t room_nbytes = 2 * sizeof(table_entry); /* of a name */
    size_t nvars = 0;
    wire_field f;
    while (wire_take(&c, &f) && f.number != BLOCK_OPS) nvars += f.number == BLOCK_VARS;
    const size_t count = nvars + nvars / 16;
    TRY(form_charge(r->program, r->budget, count * room_nbytes)); /* fewer than there are bytes in the file */
    interner *names = &r->program->names;
    if (!interner_reserve(names, names->count + count)) return base_out_of_memory();
    return is_only_block ? pdmodel_begin_notes(r, b, nvars) : block_reserve_vars(b, count);
}

static weft_status read_block_head(pdmodel_reader *r, weft_block *b, wire_cursor c, bool is_only_block) {
    block_head head = {0};
    TRY(reserve_vars(r, b, c, is_only_block));
    pdmodel_ahead_init(&r->ahead, &c, true);
    buffer_init(&head.unknown, r->allocator);
    weft_status status = NULL;
    const size_t start = (size_t)(c.at - c.origin);
    wire_field f;
    for (bool more;;) {
        TRY_DONE(wire_next(&c, &f, &more));
        if (!more) break;
        TRY_DONE(read_block_field(r, b, &c, &f, &head));
    }
    if (!head.has_idx || !head.has_parent)
        TRY_DONE(weft_status_create(WEFT_PARSE, c.place, "byte %zu: expected a field \"%s\" in this block, found none",
                                    start, head.has_idx ? "parent_idx" : "idx"));
    if (head.unknown.nbytes)
        TRY_DONE(pdmodel_text(r, (ProtobufCBinaryData){head.unknown.nbytes, (uint8_t *)head.unknown.bytes},
                              &b->unknown_fields));
done:
    buffer_fini(&head.unknown);
    return status;
}

static weft_status read_block_ops(pdmodel_reader *r, weft_block *b, wire_cursor c) {
    wire_field f;
    wire_cursor inner;
    pdmodel_ahead_init(&r->ahead, &c, false);
    for (bool more;;) {
        TRY(wire_next(&c, &f, &more));
        if (!more) return NULL;
        if (f.number != BLOCK_OPS) continue;
        TRY(wire_enter(&c, &f, "an op", &inner));
        TRY(pdmodel_read_op(r, b, &inner));
    }
}

/* --- the program -------------------------------------------------------------------------------------------------- */

/* A Version message that weft_program cannot hold exactly is kept as an unknown field. */
static weft_status read_version(pdmodel_reader *r, const wire_cursor *c, const wire_field *f, buffer *unknown) {
    wire_cursor inner;
    Weft__Wire__Version *version;
    TRY(wire_enter(c, f, "version", &inner));
    TRY(pdmodel_unpack(r, &inner, &weft__wire__version__descriptor, &version));
    if (r->program->has_version || !version->has_version || version->base.n_unknown_fields)
        return keep_field(unknown, c, f);
    r->program->has_version = true;
    r->program->version = version->version;
    return NULL;
}

static weft_status read_op_version_map(pdmodel_reader *r, const wire_cursor *c, const wire_field *f, buffer *unknown) {
    weft_program *p = r->program;
    TRY(wire_expect(c, f, WIRE_BYTES, "op_version_map"));
    if (p->has_op_version_map) return keep_field(unknown, c, f);
    p->has_op_version_map = true;
    return pdmodel_text(r, (ProtobufCBinaryData){f->nbytes, (uint8_t *)f->bytes}, &p->op_version_map);
}

/* A program is made with block 0; further ones are added. */
static weft_status next_block(pdmodel_reader *r, size_t index, weft_block **out) {
    weft_program *p = r->program;
    TRY(form_charge(p, r->budget, sizeof **out));
    if (index > 0) return program_add_block(p, -1, out);
    *out = p->blocks[0];
    return NULL;
}

static size_t count_blocks(wire_cursor c) {
    size_t count = 0;
    wire_field f;
    while (wire_take(&c, &f)) count += f.number == PROGRAM_BLOCKS;
    return count;
}

static weft_status read_heads(pdmodel_reader *r, wire_cursor c, buffer *unknown) {
    const bool has_one_block = count_blocks(c) == 1;
    size_t nblocks = 0;
    wire_field f;
    wire_cursor inner;
    weft_block *b;
    for (bool more;;) {
        TRY(wire_next(&c, &f, &more));
        if (!more) break;
        switch (f.number) {
        case PROGRAM_BLOCKS:
            TRY(wire_enter(&c, &f, "a block", &inner));
            TRY(next_block(r, nblocks++, &b));
            TRY(read_block_head(r, b, inner, has_one_block));
            break;
        case PROGRAM_VERSION: TRY(read_version(r, &c, &f, unknown)); break;
        case PROGRAM_OP_VERSION_MAP: TRY(read_op_version_map(r, &c, &f, unknown)); break;
        default: TRY(keep_field(unknown, &c, &f));
        }
    }
    if (nblocks) return NULL;
    return weft_status_create(WEFT_PARSE, c.place, "expected a program with at least one block, found none");
}

static weft_status read_ops(pdmodel_reader *r, wire_cursor c) {
    size_t nblocks = 0;
    wire_field f;
    wire_cursor inner;
    for (bool more;;) {
        TRY(wire_next(&c, &f, &more));
        if (!more) return NULL;
        if (f.number != PROGRAM_BLOCKS) continue;
        TRY(wire_enter(&c, &f, "a block", &inner));
        TRY(read_block_ops(r, r->program->blocks[nblocks++], inner));
    }
}

weft_status pdmodel_parse(weft_program *p, const void *bytes, size_t nbytes) {
    weft_status status = NULL;
    const uint8_t *start = bytes ? bytes : (const uint8_t *)"";
    wire_cursor c = {start, start, start + nbytes, p->place};
    pdmodel_reader r = {.program = p, .allocator = &p->context->allocator, .budget = form_budget(nbytes)};
    bump_init(&r.bump, r.allocator);
    interner_init(&r.strings, &p->arena);
    buffer unknown;
    buffer_init(&unknown, r.allocator);
    const size_t known_nbytes = PDMODEL_KNOWN_ATTRS * sizeof *r.known,
                 types_nbytes = PDMODEL_KNOWN_TYPES * sizeof *r.types;
    r.known = base_alloc(r.allocator, known_nbytes);
    r.types = base_alloc(r.allocator, types_nbytes);
    if (!r.known || !r.types) TRY_DONE(base_out_of_memory());
    memset(r.known, 0, known_nbytes);
    memset(r.types, 0, types_nbytes);
    TRY_DONE(read_heads(&r, c, &unknown));
    if (unknown.nbytes)
        TRY_DONE(pdmodel_text(&r, (ProtobufCBinaryData){unknown.nbytes, (uint8_t *)unknown.bytes}, &p->unknown_fields));
    TRY_DONE(form_check_blocks(p));
    TRY_DONE(read_ops(&r, c));
    TRY_DONE(pdmodel_end_notes(&r));
done:
    pdmodel_free_notes(&r);
    status = base_status_at(status, p->place);
    base_free(r.allocator, r.known, known_nbytes);
    base_free(r.allocator, r.types, types_nbytes);
    buffer_fini(&unknown);
    bump_fini(&r.bump);
    return status;
}
