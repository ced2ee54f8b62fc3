/* pdmodel_write.c: a program to ProgramDesc. Fields go in the order of their numbers, as Paddle writes them; unknown
 * fields go at the end of their message. A message is built in scratch memory, packed by protobuf-c and forgotten. */
#include "program/pdmodel.h"

typedef struct writer {
    buffer *out;
    bump scratch;
} writer;

typedef Weft__Wire__OpDesc__Attr attr_desc;

static ProtobufCBinaryData binary(text t) {
    return (ProtobufCBinaryData){t.nbytes, (uint8_t *)t.bytes};
}
static ProtobufCBinaryData binary_name(const name *n) {
    return (ProtobufCBinaryData){n->nbytes, (uint8_t *)n->bytes};
}

/* *out = an array in scratch memory. */
static bool make(writer *w, size_t count, size_t size, void *out) {
    void *array = bump_array(&w->scratch, count, size);
    if (array) memcpy(out, &array, sizeof array);
    return array != NULL;
}

/* --- attrs ------------------------------------------------------------------------------------------------------- */

static bool put_int32s(writer *w, const weft_attr *a, size_t *count, int32_t **out) {
    if (!make(w, a->count, sizeof **out, out)) return false;
    for (size_t i = 0; i < a->count; i++) (*out)[i] = (int32_t)a->u.ints[i];
    *count = a->count;
    return true;
}

static bool put_floats(writer *w, const weft_attr *a, attr_desc *to) {
    if (!make(w, a->count, sizeof *to->floats, &to->floats)) return false;
    for (size_t i = 0; i < a->count; i++) to->floats[i] = (float)a->u.floats[i];
    to->n_floats = a->count;
    return true;
}

static bool put_bools(writer *w, const weft_attr *a, attr_desc *to) {
    if (!make(w, a->count, sizeof *to->bools, &to->bools)) return false;
    for (size_t i = 0; i < a->count; i++) to->bools[i] = a->u.bools[i];
    to->n_bools = a->count;
    return true;
}

static bool put_strings(writer *w, const weft_attr *a, size_t *count, ProtobufCBinaryData **out) {
    if (!make(w, a->count, sizeof **out, out)) return false;
    for (size_t i = 0; i < a->count; i++) (*out)[i] = binary(a->u.strings[i]);
    *count = a->count;
    return true;
}

static Weft__Wire__Scalar *make_scalar(writer *w, const scalar *from) {
    Weft__Wire__Scalar *s;
    if (!make(w, 1, sizeof *s, &s)) return NULL;
    weft__wire__scalar__init(s);
    s->type = (Weft__Wire__Scalar__Type)from->type;
    switch (from->type) {
    case SCALAR_BOOLEAN:
        s->has_b = true;
        s->b = from->b;
        break;
    case SCALAR_LONG:
        s->has_i = true;
        s->i = from->i;
        break;
    case SCALAR_FLOAT64:
        s->has_r = true;
        s->r = from->r;
        break;
    case SCALAR_COMPLEX128:
        if (!make(w, 1, sizeof *s->c, &s->c)) return NULL;
        weft__wire__complex__init(s->c);
        s->c->r = from->r;
        s->c->i = from->imaginary;
        break;
    }
    return s;
}

static bool put_scalars(writer *w, const weft_attr *a, attr_desc *to) {
    if (!make(w, a->count, sizeof(Weft__Wire__Scalar *), &to->scalars)) return false;
    for (size_t i = 0; i < a->count; i++)
        if (!(to->scalars[i] = make_scalar(w, &a->u.scalars[i]))) return false;
    to->n_scalars = a->count;
    return true;
}

static bool put_value(writer *w, const weft_attr *a, attr_desc *to) {
    switch (a->type) {
    case ATTR_INT:
        to->has_i = true;
        to->i = (int32_t)a->u.i;
        return true;
    case ATTR_LONG:
        to->has_l = true;
        to->l = a->u.i;
        return true;
    case ATTR_BLOCK:
        to->has_block_idx = true;
        to->block_idx = (int32_t)a->u.i;
        return true;
    case ATTR_FLOAT:
        to->has_f = true;
        to->f = (float)a->u.f;
        return true;
    case ATTR_FLOAT64:
        to->has_float64 = true;
        to->float64 = a->u.f;
        return true;
    case ATTR_BOOLEAN:
        to->has_b = true;
        to->b = a->u.b;
        return true;
    case ATTR_STRING:
        to->has_s = true;
        to->s = binary(a->u.s);
        return true;
    case ATTR_VAR:
        to->has_var_name = true;
        to->var_name = binary(a->u.s);
        return true;
    case ATTR_INTS: return put_int32s(w, a, &to->n_ints, &to->ints);
    case ATTR_BLOCKS: return put_int32s(w, a, &to->n_blocks_idx, &to->blocks_idx);
    case ATTR_LONGS:
        to->n_longs = a->count;
        to->longs = (int64_t *)a->u.ints;
        return true;
    case ATTR_FLOATS: return put_floats(w, a, to);
    case ATTR_FLOAT64S:
        to->n_float64s = a->count;
        to->float64s = (double *)a->u.floats;
        return true;
    case ATTR_BOOLEANS: return put_bools(w, a, to);
    case ATTR_STRINGS: return put_strings(w, a, &to->n_strings, &to->strings);
    case ATTR_VARS: return put_strings(w, a, &to->n_vars_name, &to->vars_name);
    case ATTR_SCALAR: return (to->scalar = make_scalar(w, &a->u.scalar)) != NULL;
    case ATTR_SCALARS: return put_scalars(w, a, to);
    }
    return true;
}

static bool put_attrs(writer *w, const weft_op *op, Weft__Wire__OpDesc *to) {
    attr_desc *descs;
    if (!make(w, op->nattrs, sizeof *descs, &descs) || !make(w, op->nattrs, sizeof *to->attrs, &to->attrs))
        return false;
    for (size_t i = 0; i < op->nattrs; i++) {
        weft__wire__op_desc__attr__init(&descs[i]);
        descs[i].name = binary_name(op->attrs[i].name);
        descs[i].type = (Weft__Wire__AttrType)op->attrs[i].type;
        if (!put_value(w, &op->attrs[i], &descs[i])) return false;
        to->attrs[i] = &descs[i];
    }
    to->n_attrs = op->nattrs;
    return true;
}

/* --- ops --------------------------------------------------------------------------------------------------------- */

static bool put_slots(writer *w, const slot_list *list, size_t *count, Weft__Wire__OpDesc__Var ***out) {
    Weft__Wire__OpDesc__Var *descs;
    if (!make(w, list->count, sizeof *descs, &descs) || !make(w, list->count, sizeof **out, out)) return false;
    for (size_t i = 0; i < list->count; i++) {
        const slot *s = &list->slots[i];
        weft__wire__op_desc__var__init(&descs[i]);
        descs[i].parameter = binary_name(s->name);
        if (!make(w, s->nargs, sizeof *descs[i].arguments, &descs[i].arguments)) return false;
        for (size_t k = 0; k < s->nargs; k++) descs[i].arguments[k] = binary_name(s->args[k]->var->name);
        descs[i].n_arguments = s->nargs;
        (*out)[i] = &descs[i];
    }
    *count = list->count;
    return true;
}

static bool put_op(writer *w, const weft_op *op) {
    Weft__Wire__OpDesc desc = WEFT__WIRE__OP_DESC__INIT;
    bump_reset(&w->scratch);
    desc.type = binary_name(op->type);
    desc.has_is_target = op->has_is_target;
    desc.is_target = op->is_target;
    if (!put_slots(w, &op->inputs, &desc.n_inputs, &desc.inputs)) return false;
    if (!put_slots(w, &op->outputs, &desc.n_outputs, &desc.outputs)) return false;
    if (!put_attrs(w, op, &desc)) return false;
    wire_put_message(w->out, BLOCK_OPS, &desc.base, op->unknown_fields.bytes, op->unknown_fields.nbytes);
    return !w->out->failed;
}

/* --- vars -------------------------------------------------------------------------------------------------------- */

static void put_type(buffer *out, const weft_var *v) {
    Weft__Wire__VarType type = WEFT__WIRE__VAR_TYPE__INIT;
    Weft__Wire__VarType__TensorDesc tensor = WEFT__WIRE__VAR_TYPE__TENSOR_DESC__INIT;
    Weft__Wire__VarType__DenseTensorDesc dense = WEFT__WIRE__VAR_TYPE__DENSE_TENSOR_DESC__INIT;
    if (v->type_bytes.nbytes) {
        wire_put_bytes(out, VAR_TYPE, v->type_bytes.bytes, v->type_bytes.nbytes);
        return;
    }
    tensor.data_type = v->dtype;
    tensor.n_dims = v->ndim;
    tensor.dims = v->dims;
    dense.tensor = &tensor;
    dense.has_lod_level = v->has_lod_level;
    dense.lod_level = v->lod_level;
    type.type = v->kind;
    if (v->has_tensor && v->kind == WEFT_SELECTED_ROWS) type.selected_rows = &tensor;
    if (v->has_tensor && v->kind != WEFT_SELECTED_ROWS) type.dense_tensor = &dense;
    wire_put_message(out, VAR_TYPE, &type.base, NULL, 0);
}

static void put_flag(buffer *out, uint32_t number, bool has, bool value) {
    if (!has && !value) return;
    wire_put_tag(out, number, WIRE_VARINT);
    wire_put_varint(out, value);
}

static bool put_var_attr(writer *w, const weft_attr *a) {
    Weft__Wire__VarDesc__Attr desc = WEFT__WIRE__VAR_DESC__ATTR__INIT;
    desc.name = binary_name(a->name);
    desc.type = (Weft__Wire__AttrType)a->type;
    desc.has_i = a->type == ATTR_INT;
    if (desc.has_i) desc.i = (int32_t)a->u.i;
    desc.has_s = a->type == ATTR_STRING;
    if (desc.has_s) desc.s = binary(a->u.s);
    if (a->type == ATTR_INTS && !put_int32s(w, a, &desc.n_ints, &desc.ints)) return false;
    wire_put_message(w->out, VAR_ATTRS, &desc.base, NULL, 0);
    return true;
}

enum { VAR_NAME = 1, VAR_PERSISTABLE = 3, VAR_NEED_CHECK_FEED = 4, VAR_IS_PARAMETER = 5, VAR_STOP_GRADIENT = 6 };

static bool put_var(writer *w, const weft_var *v) {
    size_t start = w->out->nbytes;
    bump_reset(&w->scratch);
    wire_put_bytes(w->out, VAR_NAME, v->name->bytes, v->name->nbytes);
    put_type(w->out, v);
    put_flag(w->out, VAR_PERSISTABLE, v->has_persistable, v->persistable);
    put_flag(w->out, VAR_NEED_CHECK_FEED, v->has_need_check_feed, v->need_check_feed);
    put_flag(w->out, VAR_IS_PARAMETER, v->has_is_parameter, v->is_parameter);
    put_flag(w->out, VAR_STOP_GRADIENT, v->has_stop_gradient, v->stop_gradient);
    for (size_t i = 0; i < v->nattrs; i++)
        if (!put_var_attr(w, &v->attrs[i])) return false;
    buffer_append(w->out, v->unknown_fields.bytes, v->unknown_fields.nbytes);
    wire_wrap(w->out, start, BLOCK_VARS);
    return !w->out->failed;
}

/* --- blocks and the program -------------------------------------------------------------------------------------- */

static void put_index(buffer *out, uint32_t number, int32_t value) {
    wire_put_tag(out, number, WIRE_VARINT);
    wire_put_varint(out, (uint64_t)(int64_t)value);
}

static bool put_block(writer *w, const weft_block *b) {
    size_t start = w->out->nbytes;
    put_index(w->out, BLOCK_IDX, b->idx);
    put_index(w->out, BLOCK_PARENT, b->parent_idx);
    for (size_t i = 0; i < b->nvars; i++)
        if (!put_var(w, b->vars[i])) return false;
    FOR_EACH_OP(op, b) {
        if (!put_op(w, op)) return false;
    }
    if (b->has_forward_block_idx) put_index(w->out, BLOCK_FORWARD, b->forward_block_idx);
    buffer_append(w->out, b->unknown_fields.bytes, b->unknown_fields.nbytes);
    wire_wrap(w->out, start, PROGRAM_BLOCKS);
    return !w->out->failed;
}

weft_status pdmodel_print(const weft_program *p, buffer *out) {
    writer w = {.out = out};
    bump_init(&w.scratch, &p->context->allocator);
    bool done = true;
    for (size_t i = 0; i < p->nblocks && done; i++) done = put_block(&w, p->blocks[i]);
    bump_fini(&w.scratch);
    if (!done) return base_out_of_memory();
    if (p->has_version) {
        Weft__Wire__Version version = WEFT__WIRE__VERSION__INIT;
        version.has_version = true;
        version.version = p->version;
        wire_put_message(out, PROGRAM_VERSION, &version.base, NULL, 0);
    }
    if (p->has_op_version_map)
        wire_put_bytes(out, PROGRAM_OP_VERSION_MAP, p->op_version_map.bytes, p->op_version_map.nbytes);
    buffer_append(out, p->unknown_fields.bytes, p->unknown_fields.nbytes);
    return buffer_status(out);
}
