/* attr_values.c: tensors written out in an op's attrs.
 *
 * Paddle 3 and 2.6's set_value keep them as a list of scalars in `values`; 2.6's assign_value in one list a type. */
#include "executor/kernels/typed.h"

static double scalar_value(const scalar *s) {
    switch (s->type) {
    case SCALAR_BOOLEAN: return s->b;
    case SCALAR_LONG: return (double)s->i;
    default: return s->r;
    }
}

/* Element i of an attr that is a list of numbers. An int64 keeps all of its bits. */
static void store_element(const weft_attr *a, size_t i, weft_dtype dtype, void *to) {
    bool whole = a->type == ATTR_INTS || a->type == ATTR_LONGS ||
                 (a->type == ATTR_SCALARS && a->u.scalars[i].type == SCALAR_LONG);
    if (whole && dtype == WEFT_INT64) {
        int64_t v = a->type == ATTR_SCALARS ? a->u.scalars[i].i : a->u.ints[i];
        memcpy(to, &v, sizeof v);
        return;
    }
    double v = a->type == ATTR_SCALARS    ? scalar_value(&a->u.scalars[i])
               : a->type == ATTR_BOOLEANS ? (double)a->u.bools[i]
               : whole                    ? (double)a->u.ints[i]
                                          : a->u.floats[i];
    fill_elements(dtype, to, 1, v);
}

static bool is_number_list(const weft_attr *a) {
    switch (a->type) {
    case ATTR_INTS:
    case ATTR_LONGS:
    case ATTR_FLOATS:
    case ATTR_FLOAT64S:
    case ATTR_BOOLEANS:
    case ATTR_SCALARS: return a->count > 0;
    default: return false;
    }
}

weft_status attr_elements(const kernel_prepare *p, weft_dtype dtype, const void **out_elements, size_t *out_count) {
    static const char *const lists[] = {"values",       "bool_values", "int32_values",
                                        "int64_values", "fp32_values", "fp64_values"};
    const weft_attr *found = NULL;
    for (size_t i = 0; i < sizeof lists / sizeof *lists && !found; i++) {
        const weft_attr *a = op_find_attr(p->op, lists[i]);
        if (a && is_number_list(a)) found = a;
    }
    size_t size = weft_dtype_nbytes(dtype), count = found ? found->count : 0;
    if (!size) return kernel_unsupported(p, "expected an element type, found %d", (int)dtype);
    char *bytes = arena_array(p->arena, count ? count : 1, size);
    if (!bytes) return base_out_of_memory();
    for (size_t i = 0; i < count; i++) store_element(found, i, dtype, bytes + i * size);
    *out_elements = bytes;
    *out_count = count;
    return NULL;
}
