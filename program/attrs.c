/* attrs.c: an op's attrs. Ops with equal lists share them; one that changes gets a list of its own first. */
#include "program/grow.h"
#include "program/ir.h"

/* Many attrs are set where ops are made: the length of a name is taken once. */
static inline const weft_attr *find_attr(const weft_op *op, const char *n, size_t nbytes) {
    for (const weft_attr *a = op->attrs, *end = a + op->nattrs; a < end; a++)
        if (a->name->nbytes == nbytes && memcmp(a->name->bytes, n, nbytes) == 0) return a;
    return NULL;
}

const weft_attr *op_find_attr(const weft_op *op, const char *n) {
    return find_attr(op, n, strlen(n));
}

/* Before a change: the op gets a list of its own, with room for `more`. */
static weft_status own_attrs(weft_op *op, size_t more) {
    if (!op_shares_attrs(op)) return NULL;
    size_t capacity = op->nattrs + more;
    weft_attr *own = ARENA_ARRAY(&op->program->arena, weft_attr, capacity);
    if (!own) return base_out_of_memory();
    memcpy(own, op->attrs, op->nattrs * sizeof *own);
    op->attrs = own;
    op->attr_capacity = capacity & OP_MAX_ATTRS;
    return NULL;
}

static weft_status insert_attr(weft_op *op, size_t at, const name *n, weft_attr **out) {
    enum { FEW_ATTRS = 7 }; /* what an op has that is made attr by attr, so that most never grow */
    TRY(own_attrs(op, 1));
    size_t count = op->nattrs ? (size_t)op->nattrs + 1 : FEW_ATTRS, capacity = op->attr_capacity;
    TRY(grow(&op->program->arena, &op->attrs, &capacity, count, sizeof *op->attrs));
    op->attr_capacity = capacity & OP_MAX_ATTRS;
    memmove(op->attrs + at + 1, op->attrs + at, (op->nattrs - at) * sizeof *op->attrs);
    op->attrs[at] = (weft_attr){.name = n};
    op->nattrs++;
    op_changed(op);
    *out = &op->attrs[at];
    return NULL;
}

weft_status op_append_attr(weft_op *op, const name *n, weft_attr **out) {
    return insert_attr(op, op->nattrs, n, out);
}

weft_status op_add_attr(weft_op *op, const name *n, weft_attr **out) {
    size_t at = 0;
    while (at < op->nattrs && strcmp(op->attrs[at].name->bytes, n->bytes) < 0) at++;
    return insert_attr(op, at, n, out);
}

static weft_status remove_attr(weft_op *op, const weft_attr *there) {
    if (!there) return NULL;
    size_t index = (size_t)(there - op->attrs);
    TRY(own_attrs(op, 0));
    memmove(op->attrs + index, op->attrs + index + 1, (op->nattrs - index - 1) * sizeof *op->attrs);
    op->nattrs--;
    op_changed(op);
    return NULL;
}

bool attr_is_of_node(const weft_attr *a) {
    return strncmp(a->name->bytes, "fx_", 3) == 0;
}

/* The text of the node that an op was read as (fx/read_text.c) holds while attrs and the number of arguments do. */
static weft_status forget_node(weft_op *op) {
    return remove_attr(op, find_attr(op, "fx_node", strlen("fx_node")));
}

static bool is_of_node(const char *n) {
    return strncmp(n, "fx_n", 4) == 0 && (strcmp(n, "fx_node") == 0 || strcmp(n, "fx_name") == 0);
}

weft_status op_set_attr(weft_op *op, const char *n, weft_attr **out) {
    op_changed(op); /* the caller writes the value */
    size_t nbytes = strlen(n);
    if (!is_of_node(n)) TRY(forget_node(op));
    const weft_attr *there = find_attr(op, n, nbytes);
    if (there) {
        size_t index = (size_t)(there - op->attrs);
        TRY(own_attrs(op, 0));
        *out = &op->attrs[index];
        return NULL;
    }
    const name *attr_name;
    TRY(program_name(op->program, n, nbytes, &attr_name));
    return op_add_attr(op, attr_name, out);
}

weft_status op_set_counted(weft_op *op, const char *n, attr_type type, size_t count, weft_attr **out) {
    if (count > ATTR_MAX_COUNT)
        return weft_status_create(WEFT_LIMIT, op->program->place,
                                  "attribute \"%s\" has %zu elements, at most %u are possible", n, count,
                                  ATTR_MAX_COUNT);
    TRY(op_set_attr(op, n, out));
    (*out)->type = type;
    (*out)->count = (uint32_t)count;
    return NULL;
}

weft_status op_remove_attr(weft_op *op, const char *n) {
    if (!is_of_node(n) && op_find_attr(op, n)) TRY(forget_node(op));
    return remove_attr(op, op_find_attr(op, n));
}

void op_share_attrs(weft_op *op, weft_op *from) {
    from->attr_capacity = 0;
    op->attrs = from->attrs;
    op->nattrs = from->nattrs;
    op->attr_capacity = 0;
}

/* --- values ------------------------------------------------------------------------------------------------------- */

int64_t weft_op_attr_int(const weft_op *op, const char *n, int64_t fallback) {
    const weft_attr *a = op_find_attr(op, n);
    return a && (a->type == ATTR_INT || a->type == ATTR_LONG) ? a->u.i : fallback;
}

double weft_op_attr_float(const weft_op *op, const char *n, double fallback) {
    const weft_attr *a = op_find_attr(op, n);
    return a && (a->type == ATTR_FLOAT || a->type == ATTR_FLOAT64) ? a->u.f : fallback;
}

bool weft_op_attr_bool(const weft_op *op, const char *n, bool fallback) {
    const weft_attr *a = op_find_attr(op, n);
    return a && a->type == ATTR_BOOLEAN ? a->u.b : fallback;
}

const char *weft_op_attr_string(const weft_op *op, const char *n, const char *fallback) {
    const weft_attr *a = op_find_attr(op, n);
    return a && a->type == ATTR_STRING && a->u.s ? a->u.s : fallback;
}

weft_status weft_op_set_attr_int(weft_op *op, const char *n, int64_t value) {
    weft_attr *a;
    if (value < INT32_MIN || value > INT32_MAX)
        return weft_status_create(WEFT_INVALID_ARGUMENT, op->program->place,
                                  "attribute \"%s\" is an INT: %lld does not fit 32 bits", n, (long long)value);
    TRY(op_set_attr(op, n, &a));
    a->type = ATTR_INT;
    a->u.i = value;
    return NULL;
}

weft_status weft_op_set_attr_float(weft_op *op, const char *n, double value) {
    weft_attr *a;
    TRY(op_set_attr(op, n, &a));
    a->type = ATTR_FLOAT;
    a->u.f = (double)(float)value;
    return NULL;
}

weft_status weft_op_set_attr_bool(weft_op *op, const char *n, bool value) {
    weft_attr *a;
    TRY(op_set_attr(op, n, &a));
    a->type = ATTR_BOOLEAN;
    a->u.b = value;
    return NULL;
}

weft_status weft_op_set_attr_string(weft_op *op, const char *n, const char *value) {
    size_t nbytes = strlen(value);
    const char *copy = arena_string(&op->program->arena, value, nbytes);
    if (!copy) return base_out_of_memory();
    weft_attr *a;
    TRY(op_set_counted(op, n, ATTR_STRING, nbytes, &a));
    a->u.s = copy;
    return NULL;
}

weft_status weft_op_set_attr_longs(weft_op *op, const char *n, size_t count, const int64_t *values) {
    int64_t *copy = ARENA_ARRAY(&op->program->arena, int64_t, count ? count : 1);
    if (!copy) return base_out_of_memory();
    if (count) memcpy(copy, values, count * sizeof *copy);
    weft_attr *a;
    TRY(op_set_counted(op, n, ATTR_LONGS, count, &a));
    a->u.ints = copy;
    return NULL;
}

weft_status weft_op_set_attr_ints(weft_op *op, const char *n, size_t count, const int64_t *values) {
    for (size_t i = 0; i < count; i++)
        if (values[i] < INT32_MIN || values[i] > INT32_MAX)
            return weft_status_create(WEFT_INVALID_ARGUMENT, n, "expected 32-bit integers, found %lld",
                                      (long long)values[i]);
    int64_t *copy = arena_copy(&op->program->arena, values, count * sizeof *values);
    if (!copy) return base_out_of_memory();
    weft_attr *a;
    TRY(op_set_counted(op, n, ATTR_INTS, count, &a));
    a->u.ints = copy;
    return NULL;
}

weft_status weft_op_set_attr_strings(weft_op *op, const char *n, size_t count, const char *const *values) {
    const name **copy = ARENA_ARRAY(&op->program->arena, const name *, count);
    if (!copy) return base_out_of_memory();
    for (size_t i = 0; i < count; i++)
        if (!(copy[i] = name_create(&op->program->arena, values[i], strlen(values[i])))) return base_out_of_memory();
    weft_attr *a;
    TRY(op_set_counted(op, n, ATTR_STRINGS, count, &a));
    a->u.strings = copy;
    return NULL;
}
