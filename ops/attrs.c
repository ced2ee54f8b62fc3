/* attrs.c: attrs as kernels, inference and passes want them: of one type, with a default.
 *
 * An attr that the op does not carry has the default of its row in ops.def; where the row does not list it, or there is
 * no row, the caller's. Types that hold the same value are the same attr: eras of Paddle disagree on INT and LONG,
 * BOOLEAN and INT, a number and a SCALAR. */
#include "ops/ops.h"

static const weft_attr *schema_default(const weft_op *op, const char *n) {
    const op_schema *s = op->schema ? op->schema : ops_find(op->program->context, op->type->bytes);
    for (size_t i = 0; s && i < s->nattrs; i++)
        if (strcmp(s->attrs[i].name, n) == 0) return &s->attrs[i].default_value;
    return NULL;
}

static bool as_int(const weft_attr *a, int64_t *out) {
    switch (a->type) {
    case ATTR_INT:
    case ATTR_LONG:
    case ATTR_BLOCK: *out = a->u.i; return true;
    case ATTR_BOOLEAN: *out = a->u.b; return true;
    case ATTR_SCALAR:
        if (a->u.scalar->type == SCALAR_BOOLEAN) *out = a->u.scalar->b;
        if (a->u.scalar->type == SCALAR_LONG) *out = a->u.scalar->i;
        return a->u.scalar->type == SCALAR_BOOLEAN || a->u.scalar->type == SCALAR_LONG;
    default: return false;
    }
}

static bool as_float(const weft_attr *a, double *out) {
    int64_t i;
    if (a->type == ATTR_FLOAT || a->type == ATTR_FLOAT64)
        *out = a->u.f;
    else if (a->type == ATTR_SCALAR && a->u.scalar->type == SCALAR_FLOAT64)
        *out = a->u.scalar->r;
    else if (as_int(a, &i))
        *out = (double)i;
    else
        return false;
    return true;
}

int64_t attr_int(const weft_op *op, const char *n, int64_t fallback) {
    const weft_attr *a = op_find_attr(op, n);
    int64_t value;
    if (a && as_int(a, &value)) return value;
    a = schema_default(op, n);
    return a && as_int(a, &value) ? value : fallback;
}

double attr_float(const weft_op *op, const char *n, double fallback) {
    const weft_attr *a = op_find_attr(op, n);
    double value;
    if (a && as_float(a, &value)) return value;
    a = schema_default(op, n);
    return a && as_float(a, &value) ? value : fallback;
}

bool attr_bool(const weft_op *op, const char *n, bool fallback) {
    return attr_int(op, n, fallback) != 0;
}

static const weft_attr *find_or_default(const weft_op *op, const char *n) {
    const weft_attr *a = op_find_attr(op, n);
    return a ? a : schema_default(op, n);
}

const int64_t *attr_ints(const weft_op *op, const char *n, size_t *out_count) {
    const weft_attr *a = find_or_default(op, n);
    bool one = a && (a->type == ATTR_INT || a->type == ATTR_LONG); /* a list of one */
    bool list = a && (a->type == ATTR_INTS || a->type == ATTR_LONGS);
    *out_count = one ? 1 : list ? a->count : 0;
    if (!*out_count) return NULL;
    return one ? &a->u.i : a->u.ints;
}

const double *attr_floats(const weft_op *op, const char *n, size_t *out_count) {
    const weft_attr *a = find_or_default(op, n);
    bool list = a && (a->type == ATTR_FLOATS || a->type == ATTR_FLOAT64S);
    *out_count = list ? a->count : 0;
    return *out_count ? a->u.floats : NULL;
}

const char *attr_string(const weft_op *op, const char *n, const char *fallback) {
    const weft_attr *a = find_or_default(op, n);
    return a && a->type == ATTR_STRING && a->u.s ? a->u.s : fallback;
}
