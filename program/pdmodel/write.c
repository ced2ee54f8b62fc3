/* write.c: a program to ProgramDesc. Fields go in the order of their numbers, as Paddle writes them; unknown
 * fields go at the end of their message. Field numbers are those of framework.proto; the lengths of messages are put in
 * once they are known. What is put to a file goes there between ops, of which only a block's length comes later. */
#include "program/pdmodel/write.h"
#include "program/attr_memo.h"
#include "program/pdmodel/pdmodel.h"

/* --- attrs -------------------------------------------------------------------------------------------------------- */

static void put_float(buffer *out, uint32_t number, float value) {
    wire_put_tag(out, number, WIRE_32BIT);
    buffer_append(out, &value, sizeof value);
}

static void put_double(buffer *out, uint32_t number, double value) {
    wire_put_tag(out, number, WIRE_64BIT);
    buffer_append(out, &value, sizeof value);
}

static void put_text(buffer *out, uint32_t number, text t) {
    wire_put_bytes(out, number, t.bytes, t.nbytes);
}

static void put_scalar(buffer *out, uint32_t number, const scalar *from) {
    size_t start = wire_begin(out, number), inner;
    wire_put_integer(out, 1, from->type);
    switch (from->type) {
    case SCALAR_BOOLEAN: wire_put_integer(out, 2, from->b); break;
    case SCALAR_LONG: wire_put_integer(out, 3, from->i); break;
    case SCALAR_FLOAT64: put_double(out, 4, from->r); break;
    case SCALAR_COMPLEX128:
        inner = wire_begin(out, 5);
        put_double(out, 1, from->r);
        put_double(out, 2, from->imaginary);
        wire_end(out, inner);
        break;
    }
    wire_end(out, start);
}

/* The value under its field's number in OpDesc.Attr. int32 is written as int64 is: -1 takes ten bytes. */
static void put_value(buffer *out, const weft_attr *a) {
    const size_t n = a->count;
    switch (a->type) {
    case ATTR_INT: wire_put_integer(out, 3, (int32_t)a->u.i); break;
    case ATTR_FLOAT: put_float(out, 4, (float)a->u.f); break;
    case ATTR_STRING: put_text(out, 5, attr_text(a)); break;
    case ATTR_INTS:
        for (size_t i = 0; i < n; i++) wire_put_integer(out, 6, (int32_t)a->u.ints[i]);
        break;
    case ATTR_FLOATS:
        for (size_t i = 0; i < n; i++) put_float(out, 7, (float)a->u.floats[i]);
        break;
    case ATTR_STRINGS:
        for (size_t i = 0; i < n; i++) put_text(out, 8, text_of_name(a->u.strings[i]));
        break;
    case ATTR_BOOLEAN: wire_put_integer(out, 10, a->u.b); break;
    case ATTR_BOOLEANS:
        for (size_t i = 0; i < n; i++) wire_put_integer(out, 11, a->u.bools[i]);
        break;
    case ATTR_BLOCK: wire_put_integer(out, 12, (int32_t)a->u.i); break;
    case ATTR_LONG: wire_put_integer(out, 13, a->u.i); break;
    case ATTR_BLOCKS:
        for (size_t i = 0; i < n; i++) wire_put_integer(out, 14, (int32_t)a->u.ints[i]);
        break;
    case ATTR_LONGS:
        for (size_t i = 0; i < n; i++) wire_put_integer(out, 15, a->u.ints[i]);
        break;
    case ATTR_FLOAT64S:
        for (size_t i = 0; i < n; i++) put_double(out, 16, a->u.floats[i]);
        break;
    case ATTR_VAR: put_text(out, 17, attr_text(a)); break;
    case ATTR_VARS:
        for (size_t i = 0; i < n; i++) put_text(out, 18, text_of_name(a->u.strings[i]));
        break;
    case ATTR_FLOAT64: put_double(out, 19, a->u.f); break;
    case ATTR_SCALAR: put_scalar(out, 20, a->u.scalar); break;
    case ATTR_SCALARS:
        for (size_t i = 0; i < n; i++) put_scalar(out, 21, &a->u.scalars[i]);
        break;
    }
}

static void put_attr(buffer *out, const weft_attr *a) {
    size_t start = wire_begin(out, OP_ATTRS);
    wire_put_bytes(out, ATTR_NAME, a->name->bytes, a->name->nbytes);
    wire_put_integer(out, ATTR_TYPE, a->type);
    put_value(out, a);
    wire_end(out, start);
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

static void put_slots(buffer *out, uint32_t number, const weft_op *op, size_t max_nargs) {
    bool output = number == OP_OUTPUTS;
    for (uint32_t i = 0; i < op_nslots(op, output); i++) {
        const slot *s = op_slot(op, output, i);
        if (s->nargs > max_nargs) continue;
        size_t start = wire_begin(out, number);
        wire_put_bytes(out, SLOT_PARAMETER, s->name->bytes, s->name->nbytes);
        for (size_t k = 0; k < s->nargs; k++) {
            const name *n = slot_var(op, s, k)->name;
            wire_put_bytes(out, SLOT_ARGUMENTS, n->bytes, n->nbytes);
        }
        wire_end(out, start);
    }
}

/* In a large program neither the var of an argument nor its name is in the cache: both are asked for some ops ahead. */
enum { AHEAD_VARS = 8, AHEAD_NAMES = 4 };

static void ask_for_names(const weft_op *op) {
    for (int output = 0; op && output < 2; output++) {
        FOR_EACH_ARG(op, output, u) base_prefetch(use_var(op->program, u)->name);
    }
}

static const weft_op *op_after(const weft_op *op, size_t count) {
    for (; op && count; count--) op = op->next;
    return op;
}

/* Attrs are put once for all ops of a block that share their list, and then repeated while they are in memory. */
static void put_op(buffer *out, const weft_op *op, size_t max_nargs, attr_memo *memo) {
    attr_memo_entry *entry = attr_memo_find(memo, op);
    bool is_known = entry && entry->list == op->attrs && entry->at >= out->nflushed;
    enum { usual_length_nbytes = 2 };
    size_t start = wire_begin_room(out, BLOCK_OPS, usual_length_nbytes);
    put_slots(out, OP_INPUTS, op, max_nargs);
    put_slots(out, OP_OUTPUTS, op, max_nargs);
    wire_put_bytes(out, OP_TYPE, op->type->bytes, op->type->nbytes);
    size_t from = out->nbytes;
    if (is_known)
        buffer_repeat(out, entry->at - out->nflushed, entry->nbytes);
    else
        for (size_t i = 0; i < op->nattrs; i++) put_attr(out, &op->attrs[i]);
    size_t end = out->nbytes;
    if (op->has_is_target) wire_put_integer(out, OP_IS_TARGET, op->is_target);
    if (op->unknown_fields) buffer_append(out, op->unknown_fields->bytes, op->unknown_fields->nbytes);
    size_t tail_nbytes = out->nbytes - end;
    wire_end_room(out, start, usual_length_nbytes); /* which may move what was put since `start` */
    size_t attrs_at = out->nflushed + out->nbytes - tail_nbytes - (end - from);
    if (entry && !is_known) *entry = (attr_memo_entry){op->attrs, attrs_at, end - from, NULL};
}

/* --- vars --------------------------------------------------------------------------------------------------------- */

static void put_tensor(buffer *out, uint32_t number, const weft_var *v) {
    size_t start = wire_begin(out, number);
    wire_put_integer(out, TENSOR_DTYPE, v->dtype);
    for (size_t i = 0; i < v->ndim; i++) wire_put_integer(out, TENSOR_DIMS, v->dims[i]);
    wire_end(out, start);
}

static void put_dense(buffer *out, const weft_var *v) {
    size_t start = wire_begin(out, TYPE_DENSE);
    put_tensor(out, DENSE_TENSOR, v);
    if (v->has_lod_level) wire_put_integer(out, DENSE_LOD_LEVEL, v->lod_level);
    wire_end(out, start);
}

static void put_type(buffer *out, const weft_var *v) {
    if (v->rest->type_bytes.nbytes) {
        put_text(out, VAR_TYPE, v->rest->type_bytes);
        return;
    }
    size_t start = wire_begin(out, VAR_TYPE);
    wire_put_integer(out, TYPE_KIND, v->kind);
    if (v->has_tensor && v->kind == WEFT_SELECTED_ROWS) put_tensor(out, TYPE_SELECTED_ROWS, v);
    if (v->has_tensor && v->kind != WEFT_SELECTED_ROWS) put_dense(out, v);
    wire_end(out, start);
}

static void put_flag(buffer *out, uint32_t number, bool has, bool value) {
    if (has || value) wire_put_integer(out, number, value);
}

/* VarDesc.Attr has numbers of its own. */
static void put_var_attr(buffer *out, const weft_attr *a) {
    size_t start = wire_begin(out, VAR_ATTRS);
    wire_put_bytes(out, ATTR_NAME, a->name->bytes, a->name->nbytes);
    wire_put_integer(out, ATTR_TYPE, a->type);
    if (a->type == ATTR_INT) wire_put_integer(out, 3, (int32_t)a->u.i);
    if (a->type == ATTR_STRING) put_text(out, 4, attr_text(a));
    for (size_t i = 0; a->type == ATTR_INTS && i < a->count; i++) wire_put_integer(out, 5, (int32_t)a->u.ints[i]);
    wire_end(out, start);
}

static void put_var(buffer *out, const weft_var *v) {
    size_t start = wire_begin(out, BLOCK_VARS);
    wire_put_bytes(out, VAR_NAME, v->name->bytes, v->name->nbytes);
    put_type(out, v);
    put_flag(out, VAR_PERSISTABLE, v->has_persistable, v->persistable);
    put_flag(out, VAR_NEED_CHECK_FEED, v->has_need_check_feed, v->need_check_feed);
    put_flag(out, VAR_IS_PARAMETER, v->has_is_parameter, v->is_parameter);
    put_flag(out, VAR_STOP_GRADIENT, v->has_stop_gradient, v->stop_gradient);
    for (size_t i = 0; i < v->rest->nattrs; i++) put_var_attr(out, &v->rest->attrs[i]);
    buffer_append(out, v->rest->unknown_fields.bytes, v->rest->unknown_fields.nbytes);
    wire_end(out, start);
}

/* --- blocks and the program --------------------------------------------------------------------------------------- */

static void put_ops(buffer *out, const weft_block *b, attr_memo *memo) {
    const weft_op *vars = op_after(b->first, AHEAD_VARS), *names = op_after(b->first, AHEAD_NAMES);
    FOR_EACH_OP(op, b) {
        op_ask_for_vars(vars);
        ask_for_names(names);
        vars = op_after(vars, 1), names = op_after(names, 1);
        put_op(out, op, SIZE_MAX, memo);
        buffer_flush(out);
    }
}

/* Those that are taken, by place: few. */
static void put_some_ops(buffer *out, const weft_block *b, const pdmodel_parts *parts, attr_memo *memo) {
    size_t at = 0;
    FOR_EACH_OP(op, b) {
        if (parts->ops[at++]) put_op(out, op, parts->max_nargs, memo);
    }
    buffer_flush(out);
}

/* Once, or twice where most of it was written before its length was known and that is not as long as was thought. */
static void put_block(buffer *out, const weft_block *b, const pdmodel_parts *parts, attr_memo *memo) {
    enum { usual_op_nbytes = 256, usual_var_nbytes = 32 };
    size_t at, length_nbytes = wire_length_nbytes(b->nops * usual_op_nbytes + b->nvars * usual_var_nbytes);
    do {
        memset(memo, 0, sizeof *memo);
        at = wire_begin_flushed(out, PROGRAM_BLOCKS, length_nbytes);
        wire_put_integer(out, BLOCK_IDX, b->idx);
        wire_put_integer(out, BLOCK_PARENT, b->parent_idx);
        for (size_t i = 0; i < b->nvars; i++) {
            if (parts->vars && !parts->vars[i]) continue;
            put_var(out, block_var(b, i));
            buffer_flush(out);
        }
        if (parts->ops)
            put_some_ops(out, b, parts, memo);
        else
            put_ops(out, b, memo);
        if (b->has_forward_block_idx) wire_put_integer(out, BLOCK_FORWARD, b->forward_block_idx);
        buffer_append(out, b->unknown_fields.bytes, b->unknown_fields.nbytes);
    } while (!wire_end_flushed(out, at, PROGRAM_BLOCKS, &length_nbytes));
}

static void put_version(buffer *out, int64_t version) {
    size_t start = wire_begin(out, PROGRAM_VERSION);
    wire_put_integer(out, 1, version);
    wire_end(out, start);
}

weft_status pdmodel_print(const weft_program *p, buffer *out) {
    return pdmodel_print_parts(p, NULL, out);
}

weft_status pdmodel_print_parts(const weft_program *p, const pdmodel_parts *parts, buffer *out) {
    static const pdmodel_parts all = {NULL, NULL, SIZE_MAX};
    attr_memo *memo = base_alloc(out->allocator, sizeof *memo);
    if (!memo) return base_out_of_memory();
    for (size_t i = 0; i < p->nblocks && !out->failed; i++)
        put_block(out, p->blocks[i], parts ? &parts[i] : &all, memo);
    base_free(out->allocator, memo, sizeof *memo);
    if (p->has_version) put_version(out, p->version);
    if (p->has_op_version_map) put_text(out, PROGRAM_OP_VERSION_MAP, p->op_version_map);
    buffer_append(out, p->unknown_fields.bytes, p->unknown_fields.nbytes);
    return buffer_status(out);
}
