/* unroll_arrays.c: ops on tensor arrays, as ops on the elements. What an index or a length is, planning knows. */
#include <stdio.h>

#include "plan/unroll.h"

enum { ARRAY_MAX = 1 << 24 };

static weft_status array_of(unroll *u, uint64_t key, unroll_array **out) {
    *out = unroll_get(&u->arrays, key);
    if (*out) return NULL;
    *out = ARENA_NEW(&u->b->scratch, unroll_array);
    return *out ? unroll_put(u, &u->arrays, key, *out) : base_out_of_memory();
}

static weft_status resize(unroll *u, unroll_array *a, size_t count) {
    if (count > a->capacity) {
        size_t capacity = 2 * count;
        weft_var **more = ARENA_ARRAY(&u->b->scratch, weft_var *, capacity);
        if (!more) return base_out_of_memory();
        if (a->count) memcpy(more, a->elements, a->count * sizeof(weft_var *));
        a->elements = more;
        a->capacity = capacity;
    }
    if (count > a->count) a->count = count;
    return NULL;
}

weft_status unroll_array_copy(unroll *u, uint64_t from, uint64_t to) {
    unroll_array *a, *b;
    if (from == to) return NULL;
    TRY(array_of(u, from, &a));
    TRY(array_of(u, to, &b));
    b->count = 0;
    TRY(resize(u, b, a->count));
    for (size_t i = 0; i < a->count; i++) b->elements[i] = a->elements[i];
    return NULL;
}

/* The sum of those that are there, as a var of its own where there are several. */
static weft_status add_up(unroll *u, const weft_op *by, size_t count, weft_var **terms, weft_var **out) {
    weft_op *sum;
    *out = count ? terms[0] : NULL;
    if (count < 2) return NULL;
    shape type = shape_env_get(&u->env, terms[0]);
    TRY(unroll_new_var(u, terms[0], &type, out));
    TRY(unroll_make(u, by, "sum", &sum));
    for (size_t i = 0; i < count; i++) TRY(weft_op_add_input(sum, "X", terms[i]));
    TRY(weft_op_add_output(sum, "Out", *out));
    return unroll_emit(u, sum);
}

weft_status unroll_array_add(unroll *u, const weft_op *by, uint64_t from, uint64_t to) {
    unroll_array *a, *b;
    TRY(array_of(u, from, &a));
    TRY(array_of(u, to, &b));
    TRY(resize(u, b, a->count));
    for (size_t i = 0; i < a->count; i++) {
        weft_var *terms[2];
        size_t n = 0;
        if (b->elements[i]) terms[n++] = b->elements[i];
        if (a->elements[i]) terms[n++] = a->elements[i];
        TRY(add_up(u, by, n, terms, &b->elements[i]));
    }
    return NULL;
}

static weft_status array_at(unroll *u, unroll_scope *s, const weft_op *op, bool output, const char *slot_name,
                            size_t index, unroll_array **out) {
    weft_var *v = output ? weft_op_output(op, slot_name, index) : weft_op_input(op, slot_name, index);
    if (!v) return plan_error(u->b, WEFT_INVALID_PROGRAM, op, "slot %s is empty", slot_name);
    return array_of(u, unroll_key(s, v), out);
}

static weft_status index_of(unroll *u, unroll_scope *s, const weft_op *op, size_t *out) {
    weft_var *v = weft_op_input(op, "I", 0);
    int64_t at;
    if (!v) return plan_error(u->b, WEFT_INVALID_PROGRAM, op, "slot I is empty");
    TRY(unroll_var(u, s, v, &v));
    if (!unroll_value(u, v, &at))
        return plan_error(u->b, WEFT_UNSUPPORTED, op, "its index \"%s\" depends on data", v->name->bytes);
    if (at < 0 || at >= ARRAY_MAX)
        return plan_error(u->b, WEFT_LIMIT, op, "expected an index of 0 to %d, found %lld", ARRAY_MAX, (long long)at);
    *out = (size_t)at;
    return NULL;
}

static weft_status dense_in(unroll *u, unroll_scope *s, const weft_op *op, const char *slot_name, weft_var **out) {
    weft_var *v = weft_op_input(op, slot_name, 0);
    if (!v) return plan_error(u->b, WEFT_INVALID_PROGRAM, op, "slot %s is empty", slot_name);
    return unroll_var(u, s, v, out);
}

/* --- one op ------------------------------------------------------------------------------------------------------- */

static weft_status write(unroll *u, unroll_scope *s, weft_op *op) {
    unroll_array *a;
    weft_var *from, *element, *array = weft_op_output(op, "Out", 0);
    size_t at;
    TRY(array_at(u, s, op, true, "Out", 0, &a));
    TRY(index_of(u, s, op, &at));
    TRY(dense_in(u, s, op, "X", &from));
    shape type = shape_env_get(&u->env, from);
    TRY(unroll_new_var(u, array, &type, &element));
    TRY(unroll_copy(u, op, "assign", from, element));
    TRY(resize(u, a, at + 1));
    a->elements[at] = element;
    return NULL;
}

/* What nobody wrote is zero where it is a gradient, whose tensor X_W shows. */
static weft_status read(unroll *u, unroll_scope *s, weft_op *op) {
    unroll_array *a;
    weft_var *out = weft_op_output(op, "Out", 0);
    size_t at;
    TRY(array_at(u, s, op, false, "X", 0, &a));
    TRY(index_of(u, s, op, &at));
    if (!out) return NULL;
    TRY(unroll_var(u, s, out, &out));
    if (at < a->count && a->elements[at]) return unroll_copy(u, op, "assign", a->elements[at], out);
    if (!weft_op_input(op, "X_W", 0))
        return plan_error(u->b, WEFT_INVALID_PROGRAM, op, "nothing is written at index %zu of the array", at);
    weft_var *like;
    TRY(dense_in(u, s, op, "X_W", &like));
    return unroll_copy(u, op, "fill_zeros_like", like, out);
}

static weft_status length(unroll *u, unroll_scope *s, weft_op *op) {
    unroll_array *a;
    weft_var *out = weft_op_output(op, "Out", 0);
    weft_op *made;
    char text_of[32];
    TRY(array_at(u, s, op, false, "X", 0, &a));
    if (!out) return NULL;
    const int64_t one = 1;
    TRY(unroll_make(u, op, "fill_constant", &made));
    TRY(weft_op_set_attr_longs(made, "shape", out->ndim, &one));
    TRY(weft_op_set_attr_int(made, "dtype", WEFT_INT64));
    TRY(weft_op_set_attr_float(made, "value", (double)a->count));
    snprintf(text_of, sizeof text_of, "%zu", a->count);
    TRY(weft_op_set_attr_string(made, "str_value", text_of));
    TRY(unroll_var(u, s, out, &out));
    TRY(weft_op_add_output(made, "Out", out));
    return unroll_emit(u, made);
}

static int64_t axis_in(const weft_op *op, const shape *element, bool is_stack) {
    int64_t axis = attr_int(op, "axis", 0);
    return axis < 0 ? axis + element->ndim + is_stack : axis;
}

/* Extents of the elements along the axis, which slot OutIndex tells and a gradient's parts have. */
static weft_status extents(unroll *u, const weft_op *op, const unroll_array *a, bool is_stack, int64_t **out) {
    int64_t *all = ARENA_ARRAY(&u->b->scratch, int64_t, a->count ? a->count : 1);
    if (!all) return base_out_of_memory();
    for (size_t i = 0; i < a->count; i++) {
        if (!a->elements[i])
            return plan_error(u->b, WEFT_INVALID_PROGRAM, op, "nothing is written at index %zu of the array", i);
        shape type = shape_env_get(&u->env, a->elements[i]);
        int64_t axis = axis_in(op, &type, is_stack);
        if (axis < 0 || axis >= type.ndim + is_stack)
            return plan_error(u->b, WEFT_INVALID_PROGRAM, op, "no axis %lld", (long long)axis);
        all[i] = is_stack ? 1 : type.dims[axis];
    }
    *out = all;
    return NULL;
}

static weft_status emit_index(unroll *u, unroll_scope *s, weft_op *op, size_t count, const int64_t *all) {
    weft_var *v = weft_op_output(op, "OutIndex", 0);
    weft_op *made;
    if (!v || v->nuses < 2) return NULL;
    TRY(unroll_make(u, op, "assign_value", &made));
    TRY(weft_op_set_attr_ints(made, "shape", 1, &(int64_t){(int64_t)count}));
    TRY(weft_op_set_attr_int(made, "dtype", WEFT_INT32));
    TRY(weft_op_set_attr_ints(made, "int32_values", count, all));
    TRY(unroll_var(u, s, v, &v));
    TRY(weft_op_add_output(made, "Out", v));
    return unroll_emit(u, made);
}

static weft_status join(unroll *u, unroll_scope *s, weft_op *op) {
    unroll_array *a;
    weft_var *out = weft_op_output(op, "Out", 0);
    weft_op *made;
    int64_t *all;
    bool is_stack = attr_bool(op, "use_stack", false);
    TRY(array_at(u, s, op, false, "X", 0, &a));
    if (!a->count) return plan_error(u->b, WEFT_INVALID_PROGRAM, op, "the array is empty");
    TRY(extents(u, op, a, is_stack, &all));
    TRY(emit_index(u, s, op, a->count, all));
    TRY(unroll_make(u, op, is_stack ? "stack" : "concat", &made));
    for (size_t i = 0; i < a->count; i++) TRY(weft_op_add_input(made, "X", a->elements[i]));
    TRY(weft_op_set_attr_int(made, "axis", attr_int(op, "axis", 0)));
    TRY(unroll_var(u, s, out, &out));
    TRY(weft_op_add_output(made, is_stack ? "Y" : "Out", out));
    return unroll_emit(u, made);
}

static weft_status take_apart(unroll *u, unroll_scope *s, weft_op *op) {
    unroll_array *a, *parts;
    weft_var *from, *array = weft_op_output(op, "X@GRAD", 0);
    weft_op *made;
    int64_t *all;
    bool is_stack = attr_bool(op, "use_stack", false);
    TRY(array_at(u, s, op, false, "X", 0, &a));
    TRY(array_at(u, s, op, true, "X@GRAD", 0, &parts));
    TRY(dense_in(u, s, op, "Out@GRAD", &from));
    TRY(extents(u, op, a, is_stack, &all));
    TRY(unroll_make(u, op, is_stack ? "unstack" : "split", &made));
    TRY(weft_op_add_input(made, "X", from));
    TRY(weft_op_set_attr_int(made, "axis", attr_int(op, "axis", 0)));
    TRY(weft_op_set_attr_int(made, "num", is_stack ? (int64_t)a->count : 0));
    if (!is_stack) TRY(weft_op_set_attr_ints(made, "sections", a->count, all));
    size_t count = a->count;
    parts->count = 0;
    TRY(resize(u, parts, count));
    for (size_t i = 0; i < count; i++) {
        shape type = shape_env_get(&u->env, a->elements[i]);
        TRY(unroll_new_var(u, array, &type, &parts->elements[i]));
        TRY(weft_op_add_output(made, is_stack ? "Y" : "Out", parts->elements[i]));
    }
    return unroll_emit(u, made);
}

/* Sums of arrays, element by element. */
static weft_status sum(unroll *u, unroll_scope *s, weft_op *op) {
    unroll_array total = {0}, *out, *a;
    size_t n = weft_op_ninputs(op, "X");
    weft_var **terms = ARENA_ARRAY(&u->b->scratch, weft_var *, n ? n : 1);
    if (!terms) return base_out_of_memory();
    for (size_t k = 0; k < n; k++) {
        TRY(array_at(u, s, op, false, "X", k, &a));
        TRY(resize(u, &total, a->count));
    }
    for (size_t i = 0; i < total.count; i++) {
        size_t nterms = 0;
        for (size_t k = 0; k < n; k++) {
            TRY(array_at(u, s, op, false, "X", k, &a));
            if (i < a->count && a->elements[i]) terms[nterms++] = a->elements[i];
        }
        TRY(add_up(u, op, nterms, terms, &total.elements[i]));
    }
    TRY(array_at(u, s, op, true, "Out", 0, &out));
    *out = total;
    return NULL;
}

static weft_status copy(unroll *u, unroll_scope *s, weft_op *op) {
    weft_var *from = weft_op_input(op, "X", 0), *to = weft_op_output(op, "Out", 0);
    if (!from || !to || !unroll_is_array(to))
        return plan_error(u->b, WEFT_INVALID_PROGRAM, op, "expected a tensor array in X and in Out");
    return unroll_array_copy(u, unroll_key(s, from), unroll_key(s, to));
}

static weft_status zeros(unroll *u, unroll_scope *s, weft_op *op) {
    unroll_array *a, *b;
    weft_var *array = weft_op_output(op, "Out", 0);
    TRY(array_at(u, s, op, false, "X", 0, &a));
    TRY(array_at(u, s, op, true, "Out", 0, &b));
    size_t count = a->count;
    b->count = 0;
    TRY(resize(u, b, count));
    for (size_t i = 0; i < count; i++) {
        b->elements[i] = NULL;
        if (!a->elements[i]) continue;
        shape type = shape_env_get(&u->env, a->elements[i]);
        TRY(unroll_new_var(u, array, &type, &b->elements[i]));
        TRY(unroll_copy(u, op, "fill_zeros_like", a->elements[i], b->elements[i]));
    }
    return NULL;
}

static const struct {
    const char *type;
    weft_status (*run)(unroll *, unroll_scope *, weft_op *);
    bool always; /* else where its first argument is an array */
} array_ops[] = {{"write_to_array", write, true},
                 {"read_from_array", read, true},
                 {"lod_array_length", length, true},
                 {"tensor_array_to_tensor", join, true},
                 {"tensor_array_to_tensor_grad", take_apart, true},
                 {"sum", sum, false},
                 {"assign", copy, false},
                 {"fill_zeros_like", zeros, false},
                 {"fill_zeros_like2", zeros, false},
                 {"fill_any_like", zeros, false}};

weft_status unroll_array_op(unroll *u, unroll_scope *s, weft_op *op, bool *out_done) {
    const weft_var *first = weft_op_input(op, "X", 0);
    *out_done = false;
    for (size_t i = 0; i < sizeof array_ops / sizeof *array_ops; i++) {
        if (!op_is(op, array_ops[i].type) || (!array_ops[i].always && (!first || !unroll_is_array(first)))) continue;
        if (u->into)
            return plan_error(u->b, WEFT_UNSUPPORTED, op, "a tensor array under a condition that only a run knows");
        *out_done = true;
        return array_ops[i].run(u, s, op);
    }
    return NULL;
}
