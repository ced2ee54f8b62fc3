/* attr_values.c: attrs with their types, for hosts (weft/attr.h). */
#include "program/ir.h"

size_t weft_op_nattrs(const weft_op *op) {
    return op->nattrs;
}

const weft_attr *weft_op_attr_at(const weft_op *op, size_t index) {
    return index < op->nattrs ? &op->attrs[index] : NULL;
}

const weft_attr *weft_op_attr(const weft_op *op, const char *n) {
    return op_find_attr(op, n);
}

const char *weft_attr_name(const weft_attr *attr) {
    return attr->name->bytes;
}

weft_attr_type weft_attr_type_of(const weft_attr *attr) {
    return (weft_attr_type)attr->type;
}

static bool is_list(const weft_attr *a) {
    switch (a->type) {
    case ATTR_INTS:
    case ATTR_LONGS:
    case ATTR_BLOCKS:
    case ATTR_FLOATS:
    case ATTR_FLOAT64S:
    case ATTR_BOOLEANS:
    case ATTR_STRINGS:
    case ATTR_VARS:
    case ATTR_SCALARS: return true;
    default: return false;
    }
}

size_t weft_attr_count(const weft_attr *attr) {
    return is_list(attr) ? attr->count : 1;
}

/* A SCALAR, or one of SCALARS; NULL: it is neither. */
static const scalar *scalar_at(const weft_attr *a, size_t index) {
    if (a->type == ATTR_SCALAR) return a->u.scalar;
    return a->type == ATTR_SCALARS ? &a->u.scalars[index] : NULL;
}

int64_t weft_attr_int(const weft_attr *attr, size_t index) {
    if (index >= weft_attr_count(attr)) return 0;
    const scalar *s = scalar_at(attr, index);
    if (s) return s->type == SCALAR_LONG ? s->i : 0;
    switch (attr->type) {
    case ATTR_INT:
    case ATTR_LONG:
    case ATTR_BLOCK: return attr->u.i;
    case ATTR_INTS:
    case ATTR_LONGS:
    case ATTR_BLOCKS: return attr->u.ints[index];
    default: return 0;
    }
}

double weft_attr_float(const weft_attr *attr, size_t index) {
    if (index >= weft_attr_count(attr)) return 0;
    const scalar *s = scalar_at(attr, index);
    if (s) return s->type == SCALAR_FLOAT64 || s->type == SCALAR_COMPLEX128 ? s->r : 0;
    switch (attr->type) {
    case ATTR_FLOAT:
    case ATTR_FLOAT64: return attr->u.f;
    case ATTR_FLOATS:
    case ATTR_FLOAT64S: return attr->u.floats[index];
    default: return 0;
    }
}

bool weft_attr_bool(const weft_attr *attr, size_t index) {
    if (index >= weft_attr_count(attr)) return false;
    const scalar *s = scalar_at(attr, index);
    if (s) return s->type == SCALAR_BOOLEAN && s->b;
    if (attr->type == ATTR_BOOLEAN) return attr->u.b;
    return attr->type == ATTR_BOOLEANS && attr->u.bools[index];
}

const char *weft_attr_string(const weft_attr *attr, size_t index) {
    if (index >= weft_attr_count(attr)) return NULL;
    if (attr->type == ATTR_STRING || attr->type == ATTR_VAR) return attr_text(attr).bytes;
    return attr->type == ATTR_STRINGS || attr->type == ATTR_VARS ? attr->u.strings[index]->bytes : NULL;
}

/* --- setting ------------------------------------------------------------------------------------------------------ */

weft_status weft_op_set_attr_long(weft_op *op, const char *n, int64_t value) {
    weft_attr *a;
    TRY(op_set_attr(op, n, &a));
    a->type = ATTR_LONG;
    a->u.i = value;
    return NULL;
}

weft_status weft_op_set_attr_float64(weft_op *op, const char *n, double value) {
    weft_attr *a;
    TRY(op_set_attr(op, n, &a));
    a->type = ATTR_FLOAT64;
    a->u.f = value;
    return NULL;
}

weft_status weft_op_set_attr_block(weft_op *op, const char *n, const weft_block *block) {
    weft_attr *a;
    TRY(op_set_attr(op, n, &a));
    a->type = ATTR_BLOCK;
    a->u.i = block->idx;
    return NULL;
}

static weft_status set_floats(weft_op *op, const char *n, attr_type type, size_t count, const double *values) {
    double *copy = ARENA_ARRAY(&op->program->arena, double, count ? count : 1);
    weft_attr *a;
    if (!copy) return base_out_of_memory();
    for (size_t i = 0; i < count; i++) copy[i] = type == ATTR_FLOATS ? (double)(float)values[i] : values[i];
    TRY(op_set_counted(op, n, type, count, &a));
    a->u.floats = copy;
    return NULL;
}

weft_status weft_op_set_attr_floats(weft_op *op, const char *n, size_t count, const double *values) {
    return set_floats(op, n, ATTR_FLOATS, count, values);
}

weft_status weft_op_set_attr_float64s(weft_op *op, const char *n, size_t count, const double *values) {
    return set_floats(op, n, ATTR_FLOAT64S, count, values);
}

weft_status weft_op_set_attr_bools(weft_op *op, const char *n, size_t count, const bool *values) {
    uint8_t *copy = ARENA_ARRAY(&op->program->arena, uint8_t, count ? count : 1);
    weft_attr *a;
    if (!copy) return base_out_of_memory();
    for (size_t i = 0; i < count; i++) copy[i] = values[i];
    TRY(op_set_counted(op, n, ATTR_BOOLEANS, count, &a));
    a->u.bools = copy;
    return NULL;
}

weft_status weft_op_copy_attr(weft_op *op, const weft_attr *attr) {
    const weft_attr from = *attr; /* it may be one of the op's own, which move */
    weft_attr *a;
    TRY(op_set_attr(op, from.name->bytes, &a));
    const name *n = a->name;
    *a = from; /* values are the program's and never changed in place */
    a->name = n;
    return NULL;
}

weft_status weft_op_remove_attr(weft_op *op, const char *n) {
    return op_remove_attr(op, n);
}
