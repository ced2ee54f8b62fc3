/* read_op.c: one OpDesc to an op.
 *
 * The message of an attr may not hold exactly the value that its type has: a blank one, a type or a field that is new.
 * Such an attr stays among the op's unknown fields as it was. Arrays are made at their final size. */
#include "program/pdmodel/pdmodel.h"

typedef Weft__Wire__OpDesc__Attr attr_desc;

/* --- scalars ------------------------------------------------------------------------------------------------------ */

static bool is_plain_scalar(const Weft__Wire__Scalar *s) {
    unsigned has = (unsigned)(s->has_b != 0) << SCALAR_BOOLEAN | (unsigned)(s->has_i != 0) << SCALAR_LONG |
                   (unsigned)(s->has_r != 0) << SCALAR_FLOAT64 | (unsigned)(s->c != NULL) << SCALAR_COMPLEX128;
    if (s->base.n_unknown_fields || (s->c && s->c->base.n_unknown_fields)) return false;
    return s->type >= 1 && s->type <= 4 && has == 1u << s->type;
}

static scalar read_scalar(const Weft__Wire__Scalar *s) {
    scalar value = {.type = (scalar_type)s->type};
    switch (value.type) {
    case SCALAR_BOOLEAN: value.b = s->b; break;
    case SCALAR_LONG: value.i = s->i; break;
    case SCALAR_FLOAT64: value.r = s->r; break;
    case SCALAR_COMPLEX128:
        value.r = s->c->r;
        value.imaginary = s->c->i;
        break;
    }
    return value;
}

/* --- attrs -------------------------------------------------------------------------------------------------------- */

/* One bit for each AttrType whose member is there. */
static unsigned members(const attr_desc *a) {
    const bool has[] = {
        [ATTR_INT] = a->has_i,           [ATTR_FLOAT] = a->has_f,           [ATTR_STRING] = a->has_s,
        [ATTR_INTS] = a->n_ints,         [ATTR_FLOATS] = a->n_floats,       [ATTR_STRINGS] = a->n_strings,
        [ATTR_BOOLEAN] = a->has_b,       [ATTR_BOOLEANS] = a->n_bools,      [ATTR_BLOCK] = a->has_block_idx,
        [ATTR_LONG] = a->has_l,          [ATTR_BLOCKS] = a->n_blocks_idx,   [ATTR_LONGS] = a->n_longs,
        [ATTR_FLOAT64S] = a->n_float64s, [ATTR_VAR] = a->has_var_name,      [ATTR_VARS] = a->n_vars_name,
        [ATTR_FLOAT64] = a->has_float64, [ATTR_SCALAR] = a->scalar != NULL, [ATTR_SCALARS] = a->n_scalars,
    };
    unsigned bits = 0;
    for (unsigned i = 0; i < sizeof has; i++) bits |= (unsigned)has[i] << i;
    return bits;
}

static bool is_list(int type) {
    const unsigned lists = 1u << ATTR_INTS | 1u << ATTR_FLOATS | 1u << ATTR_STRINGS | 1u << ATTR_BOOLEANS |
                           1u << ATTR_BLOCKS | 1u << ATTR_LONGS | 1u << ATTR_FLOAT64S | 1u << ATTR_VARS |
                           1u << ATTR_SCALARS;
    return lists >> type & 1;
}

static bool is_plain(const attr_desc *a) {
    int type = (int)a->type;
    if (a->base.n_unknown_fields || type < 0 || type > ATTR_SCALARS) return false;
    if (a->scalar && !is_plain_scalar(a->scalar)) return false;
    for (size_t i = 0; i < a->n_scalars; i++)
        if (!is_plain_scalar(a->scalars[i])) return false;
    unsigned own = 1u << type;
    return is_list(type) ? (members(a) & ~own) == 0 : members(a) == own;
}

static weft_status read_int32s(pdmodel_reader *r, const int32_t *from, size_t count, weft_attr *to) {
    int64_t *ints;
    TRY(pdmodel_array(r, count, sizeof *ints, &ints));
    for (size_t i = 0; i < count; i++) ints[i] = from[i];
    to->u.ints = ints;
    to->count = (uint32_t)count;
    return NULL;
}

static weft_status read_longs(pdmodel_reader *r, const attr_desc *from, weft_attr *to) {
    int64_t *ints;
    TRY(pdmodel_array(r, from->n_longs, sizeof *ints, &ints));
    if (from->n_longs) memcpy(ints, from->longs, from->n_longs * sizeof *ints);
    to->u.ints = ints;
    to->count = (uint32_t)from->n_longs;
    return NULL;
}

static weft_status read_floats(pdmodel_reader *r, const attr_desc *from, weft_attr *to) {
    double *floats;
    TRY(pdmodel_array(r, from->n_floats, sizeof *floats, &floats));
    for (size_t i = 0; i < from->n_floats; i++) floats[i] = (double)from->floats[i];
    to->u.floats = floats;
    to->count = (uint32_t)from->n_floats;
    return NULL;
}

static weft_status read_doubles(pdmodel_reader *r, const attr_desc *from, weft_attr *to) {
    double *floats;
    TRY(pdmodel_array(r, from->n_float64s, sizeof *floats, &floats));
    if (from->n_float64s) memcpy(floats, from->float64s, from->n_float64s * sizeof *floats);
    to->u.floats = floats;
    to->count = (uint32_t)from->n_float64s;
    return NULL;
}

static weft_status read_bools(pdmodel_reader *r, const attr_desc *from, weft_attr *to) {
    uint8_t *bools;
    TRY(pdmodel_array(r, from->n_bools, sizeof *bools, &bools));
    for (size_t i = 0; i < from->n_bools; i++) bools[i] = from->bools[i] != 0;
    to->u.bools = bools;
    to->count = (uint32_t)from->n_bools;
    return NULL;
}

static weft_status read_strings(pdmodel_reader *r, const ProtobufCBinaryData *from, size_t count, weft_attr *to) {
    const name **strings;
    TRY(pdmodel_array(r, count, sizeof *strings, &strings));
    for (size_t i = 0; i < count; i++) TRY(pdmodel_string(r, from[i], &strings[i]));
    to->u.strings = strings;
    to->count = (uint32_t)count;
    return NULL;
}

static weft_status read_scalars(pdmodel_reader *r, const attr_desc *from, weft_attr *to) {
    scalar *scalars;
    TRY(pdmodel_array(r, from->n_scalars, sizeof *scalars, &scalars));
    for (size_t i = 0; i < from->n_scalars; i++) scalars[i] = read_scalar(from->scalars[i]);
    to->u.scalars = scalars;
    to->count = (uint32_t)from->n_scalars;
    return NULL;
}

static weft_status read_attr(pdmodel_reader *r, const attr_desc *from, weft_attr *to) {
    TRY(pdmodel_name(r, from->name, &to->name));
    to->type = (attr_type)from->type;
    scalar *one;
    switch (to->type) {
    case ATTR_INT: to->u.i = from->i; break;
    case ATTR_LONG: to->u.i = from->l; break;
    case ATTR_BLOCK: to->u.i = from->block_idx; break;
    case ATTR_FLOAT: to->u.f = (double)from->f; break;
    case ATTR_FLOAT64: to->u.f = from->float64; break;
    case ATTR_BOOLEAN: to->u.b = from->b; break;
    case ATTR_STRING: return pdmodel_attr_text(r, from->s, to);
    case ATTR_VAR: return pdmodel_attr_text(r, from->var_name, to);
    case ATTR_INTS: return read_int32s(r, from->ints, from->n_ints, to);
    case ATTR_BLOCKS: return read_int32s(r, from->blocks_idx, from->n_blocks_idx, to);
    case ATTR_LONGS: return read_longs(r, from, to);
    case ATTR_FLOATS: return read_floats(r, from, to);
    case ATTR_FLOAT64S: return read_doubles(r, from, to);
    case ATTR_BOOLEANS: return read_bools(r, from, to);
    case ATTR_STRINGS: return read_strings(r, from->strings, from->n_strings, to);
    case ATTR_VARS: return read_strings(r, from->vars_name, from->n_vars_name, to);
    case ATTR_SCALAR:
        TRY(pdmodel_array(r, 1, sizeof *one, &one));
        *one = read_scalar(from->scalar);
        to->u.scalar = one;
        break;
    case ATTR_SCALARS: return read_scalars(r, from, to);
    }
    return NULL;
}

static weft_status read_attrs(pdmodel_reader *r, const Weft__Wire__OpDesc *desc, weft_op *op, buffer *odd) {
    TRY(pdmodel_array(r, desc->n_attrs, sizeof *op->attrs, &op->attrs));
    op->attr_capacity = desc->n_attrs & OP_MAX_ATTRS;
    for (size_t i = 0; i < desc->n_attrs; i++) {
        if (is_plain(desc->attrs[i]))
            TRY(read_attr(r, desc->attrs[i], &op->attrs[op->nattrs++]));
        else
            wire_put_message(odd, OP_ATTRS, &desc->attrs[i]->base);
    }
    return NULL;
}

/* --- slots -------------------------------------------------------------------------------------------------------- */

static weft_status find_arg(pdmodel_reader *r, weft_block *b, ProtobufCBinaryData from, weft_var **out) {
    const name *n;
    TRY(pdmodel_name(r, from, &n));
    return pdmodel_resolve(r, b, n, out);
}

static weft_status read_args(pdmodel_reader *r, weft_block *b, weft_op *op, bool output, uint32_t s,
                             const Weft__Wire__OpDesc__Var *desc) {
    TRY(form_charge(r->program, r->budget, pool_growth(&r->program->uses, desc->n_arguments)));
    TRY(op_reserve_args(op, desc->n_arguments));
    for (size_t i = 0; i < desc->n_arguments; i++) {
        weft_var *v;
        TRY(find_arg(r, b, desc->arguments[i], &v));
        TRY(op_append_arg(op, output, s, v));
    }
    return NULL;
}

static weft_status read_slots(pdmodel_reader *r, weft_block *b, weft_op *op, bool output, size_t count,
                              Weft__Wire__OpDesc__Var *const *descs) {
    TRY(form_charge(r->program, r->budget, count * sizeof(slot)));
    for (size_t i = 0; i < count; i++) {
        const name *n;
        uint32_t s;
        TRY(pdmodel_name(r, descs[i]->parameter, &n));
        if (descs[i]->base.n_unknown_fields)
            return weft_status_create(WEFT_UNSUPPORTED, r->program->place,
                                      "op %s, slot %s: expected arguments only, found an unknown field %u",
                                      op->type->bytes, n->bytes, descs[i]->base.unknown_fields[0].tag);
        TRY(op_append_slot(op, output, n, &s));
        TRY(read_args(r, b, op, output, s, descs[i]));
    }
    return NULL;
}

weft_status pdmodel_read_op(pdmodel_reader *r, weft_block *b, const wire_cursor *c) {
    Weft__Wire__OpDesc *desc;
    const name *type;
    weft_op *op;
    buffer odd;
    bool done;
    TRY(pdmodel_scan_op(r, b, c, &done));
    if (done) return NULL;
    TRY(pdmodel_unpack(r, c, &weft__wire__op_desc__descriptor, &desc));
    TRY(pdmodel_name(r, desc->type, &type));
    TRY(form_charge_op(r->program, r->budget));
    TRY(op_create(r->program, type, &op));
    TRY(read_slots(r, b, op, false, desc->n_inputs, desc->inputs));
    TRY(read_slots(r, b, op, true, desc->n_outputs, desc->outputs));
    op->has_is_target = desc->has_is_target != 0;
    op->is_target = desc->is_target != 0;
    buffer_init(&odd, r->allocator);
    weft_status status = read_attrs(r, desc, op, &odd);
    if (!status) status = buffer_status(&odd);
    text unknown = {"", 0};
    if (!status) status = pdmodel_unknown(r, &desc->base, &odd, &unknown);
    if (!status) status = op_set_unknown_fields(op, unknown);
    buffer_fini(&odd);
    if (!status) weft_block_insert_before(b, NULL, op);
    return status;
}
