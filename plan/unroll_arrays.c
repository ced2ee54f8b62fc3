/* unroll_arrays.c: ops on tensor arrays, as ops on the elements. What an index or a length is, planning knows, but for
 * loops that data end: what one writes is zero before, a read at an index of data is a choice among all elements, and
 * the length is counted as they are written. */
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
    b->length = a->length;
    b->is_guarded = a->is_guarded;
    return NULL;
}

/* --- elements that only a run writes ------------------------------------------------------------------------------ */

static weft_status constant(unroll *u, const weft_op *by, const shape *type, int64_t value, weft_var *to,
                            weft_op **out) {
    char text_of[32];
    snprintf(text_of, sizeof text_of, "%lld", (long long)value);
    TRY(unroll_make(u, by, "fill_constant", out));
    TRY(weft_op_set_attr_longs(*out, "shape", (size_t)type->ndim, type->dims));
    TRY(weft_op_set_attr_int(*out, "dtype", type->dtype));
    TRY(weft_op_set_attr_float(*out, "value", (double)value));
    TRY(weft_op_set_attr_string(*out, "str_value", text_of));
    return weft_op_add_output(*out, "Out", to);
}

static weft_status new_constant(unroll *u, const weft_op *by, weft_var *stem, const shape *type, int64_t value,
                                bool ahead, weft_var **out) {
    weft_op *made;
    TRY(unroll_new_var(u, stem, type, out));
    TRY(constant(u, by, type, value, *out, &made));
    return ahead ? unroll_emit_ahead(u, made) : unroll_emit(u, made);
}

static const shape one_number = {.dtype = WEFT_INT64, .ndim = 1, .dims = {1}, .height = -1};

static bool same_shape(const shape *a, const shape *b) {
    return a->dtype == b->dtype && a->ndim == b->ndim &&
           memcmp(a->dims, b->dims, (size_t)a->ndim * sizeof *a->dims) == 0;
}

/* After a guarded write at that index, of an array of `count` elements without it. */
static weft_status count_on(unroll *u, const weft_op *by, unroll_array *a, weft_var *stem, size_t count, size_t at) {
    weft_var *least;
    weft_op *larger;
    a->is_guarded = true;
    if (!u->is_length_asked) return NULL;
    if (!a->length) TRY(new_constant(u, by, stem, &one_number, (int64_t)count, true, &a->length));
    TRY(new_constant(u, by, stem, &one_number, (int64_t)at + 1, false, &least));
    TRY(unroll_make(u, by, "elementwise_max", &larger));
    TRY(weft_op_add_input(larger, "X", a->length));
    TRY(weft_op_add_input(larger, "Y", least));
    TRY(weft_op_add_output(larger, "Out", a->length));
    return unroll_emit(u, larger);
}

/* The var that a write at that index goes to. */
static weft_status element_to_write(unroll *u, const weft_op *by, weft_var *stem, unroll_array *a, size_t at,
                                    const shape *type) {
    size_t count = a->count;
    TRY(resize(u, a, at + 1));
    if (!u->into) return unroll_new_var(u, stem, type, &a->elements[at]);
    if (!a->elements[at]) TRY(new_constant(u, by, stem, type, 0, true, &a->elements[at]));
    shape has = shape_env_get(&u->env, a->elements[at]);
    if (!same_shape(&has, type))
        return plan_error(u->b, WEFT_UNSUPPORTED, by,
                          "a condition that only a run knows changes the shape of element %zu", at);
    return count_on(u, by, a, stem, count, at);
}

weft_status unroll_array_carry(unroll *u, const weft_op *by, uint64_t from, uint64_t to) {
    unroll_array *a, *b;
    if (!u->into || from == to) return unroll_array_copy(u, from, to);
    TRY(array_of(u, from, &a));
    TRY(array_of(u, to, &b));
    for (size_t i = 0; i < a->count; i++) {
        if (!a->elements[i] || (i < b->count && a->elements[i] == b->elements[i])) continue;
        shape type = shape_env_get(&u->env, a->elements[i]);
        TRY(element_to_write(u, by, a->elements[i], b, i, &type));
        TRY(unroll_copy(u, by, "assign", a->elements[i], b->elements[i]));
    }
    return NULL;
}

/* Begins what is done where a number is `value`. */
static weft_status begin_equal(unroll *u, const weft_op *by, weft_var *number, size_t value, weft_block **out_outer) {
    shape type = shape_env_get(&u->env, number), truth = type;
    weft_var *other, *equal;
    weft_op *compare;
    truth.dtype = WEFT_BOOL;
    TRY(new_constant(u, by, number, &type, (int64_t)value, false, &other));
    TRY(unroll_new_var(u, number, &truth, &equal));
    TRY(unroll_make(u, by, "equal", &compare));
    TRY(weft_op_add_input(compare, "X", number));
    TRY(weft_op_add_input(compare, "Y", other));
    TRY(weft_op_add_output(compare, "Out", equal));
    TRY(unroll_emit(u, compare));
    return unroll_begin_condition(u, by, equal, out_outer);
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
        weft_var *terms[2], *total;
        size_t n = 0;
        if (!a->elements[i]) continue;
        if (b->elements[i]) terms[n++] = b->elements[i];
        terms[n++] = a->elements[i];
        TRY(add_up(u, by, n, terms, &total));
        if (u->into) {
            shape type = shape_env_get(&u->env, total);
            TRY(element_to_write(u, by, total, b, i, &type));
            TRY(unroll_copy(u, by, "assign", total, b->elements[i]));
        } else {
            b->elements[i] = total;
        }
    }
    return NULL;
}

static weft_status array_at(unroll *u, unroll_scope *s, const weft_op *op, bool output, const char *slot_name,
                            size_t index, unroll_array **out) {
    weft_var *v = output ? weft_op_output(op, slot_name, index) : weft_op_input(op, slot_name, index);
    if (!v) return plan_error(u->b, WEFT_INVALID_PROGRAM, op, "slot %s is empty", slot_name);
    return array_of(u, unroll_key(s, v), out);
}

/* *out_number: NULL, or the index that only a run knows. */
static weft_status index_of(unroll *u, unroll_scope *s, const weft_op *op, size_t *out, weft_var **out_number) {
    weft_var *v = weft_op_input(op, "I", 0);
    int64_t at;
    if (!v) return plan_error(u->b, WEFT_INVALID_PROGRAM, op, "slot I is empty");
    TRY(unroll_var(u, s, v, &v));
    *out_number = v;
    if (!unroll_value(u, v, &at)) return NULL;
    if (at < 0 || at >= ARRAY_MAX)
        return plan_error(u->b, WEFT_LIMIT, op, "expected an index of 0 to %d, found %lld", ARRAY_MAX, (long long)at);
    *out = (size_t)at;
    *out_number = NULL;
    return NULL;
}

static weft_status dense_in(unroll *u, unroll_scope *s, const weft_op *op, const char *slot_name, weft_var **out) {
    weft_var *v = weft_op_input(op, slot_name, 0);
    if (!v) return plan_error(u->b, WEFT_INVALID_PROGRAM, op, "slot %s is empty", slot_name);
    return unroll_var(u, s, v, out);
}

/* --- one op ------------------------------------------------------------------------------------------------------- */

/* The array that an array of gradients is of, as far as its elements go; NULL: it is of none. */
static weft_status forward_array(unroll *u, unroll_scope *s, const weft_var *grad, unroll_array **out) {
    const char *whole = grad->name->bytes, *end = strstr(whole, "@GRAD"); /* a part of a sum has more behind it */
    *out = NULL;
    if (!end) return NULL;
    const weft_var *of = block_find_text(s->grad_block ? s->grad_block : s->block, whole, (size_t)(end - whole));
    return of && unroll_is_array(of) ? array_of(u, unroll_key(s, of), out) : NULL;
}

/* At an index of data, which is how a read at one has its gradient: every element may be it. */
static weft_status write_somewhere(unroll *u, unroll_scope *s, weft_op *op, unroll_array *a, weft_var *number,
                                   weft_var *from) {
    weft_var *array = weft_op_output(op, "Out", 0);
    shape type = shape_env_get(&u->env, from);
    unroll_array *of;
    TRY(forward_array(u, s, array, &of));
    if (!of) return plan_error(u->b, WEFT_UNSUPPORTED, op, "its index \"%s\" depends on data", number->name->bytes);
    TRY(resize(u, a, of->count));
    for (size_t i = 0; i < of->count; i++) {
        weft_block *outer;
        if (!of->elements[i]) continue;
        weft_var *was = a->elements[i];
        if (!u->into || !was) TRY(new_constant(u, op, array, &type, 0, true, &a->elements[i]));
        if (was && was != a->elements[i]) TRY(unroll_copy(u, op, "assign", was, a->elements[i]));
        TRY(begin_equal(u, op, number, i, &outer));
        TRY(unroll_assign(u, s, op, from, a->elements[i]));
        u->into = outer;
    }
    return NULL;
}

static weft_status write(unroll *u, unroll_scope *s, weft_op *op) {
    unroll_array *a;
    weft_var *from, *number;
    size_t at;
    TRY(array_at(u, s, op, true, "Out", 0, &a));
    TRY(index_of(u, s, op, &at, &number));
    TRY(dense_in(u, s, op, "X", &from));
    if (number) return write_somewhere(u, s, op, a, number, from);
    shape type = shape_env_get(&u->env, from);
    TRY(element_to_write(u, op, weft_op_output(op, "Out", 0), a, at, &type));
    return unroll_assign(u, s, op, from, a->elements[at]);
}

/* What nobody wrote is zero where it is a gradient, whose tensor X_W shows. */
static weft_status read_nothing(unroll *u, unroll_scope *s, weft_op *op, weft_var *out) {
    weft_var *like;
    if (!weft_op_input(op, "X_W", 0))
        return plan_error(u->b, WEFT_INVALID_PROGRAM, op, "nothing is written at its index of the array");
    TRY(dense_in(u, s, op, "X_W", &like));
    return unroll_copy(u, op, "fill_zeros_like", like, out);
}

/* At an index of data: the element that it says. */
static weft_status read_somewhere(unroll *u, unroll_scope *s, weft_op *op, const unroll_array *a, weft_var *number,
                                  weft_var *out) {
    size_t first = 0;
    while (first < a->count && !a->elements[first]) first++;
    if (first == a->count) return read_nothing(u, s, op, out);
    TRY(unroll_copy(u, op, "fill_zeros_like", a->elements[first], out));
    shape type = shape_env_get(&u->env, a->elements[first]);
    for (size_t i = first; i < a->count; i++) {
        weft_block *outer;
        if (!a->elements[i]) continue;
        shape other = shape_env_get(&u->env, a->elements[i]);
        if (!same_shape(&type, &other))
            return plan_error(u->b, WEFT_UNSUPPORTED, op, "the shape of what is at its index \"%s\" depends on data",
                              number->name->bytes);
        TRY(begin_equal(u, op, number, i, &outer));
        TRY(unroll_assign(u, s, op, a->elements[i], out));
        u->into = outer;
    }
    return NULL;
}

static weft_status read(unroll *u, unroll_scope *s, weft_op *op) {
    unroll_array *a;
    weft_var *number, *out = weft_op_output(op, "Out", 0);
    size_t at;
    TRY(array_at(u, s, op, false, "X", 0, &a));
    TRY(index_of(u, s, op, &at, &number));
    if (!out) return NULL;
    TRY(unroll_var(u, s, out, &out));
    if (number) return read_somewhere(u, s, op, a, number, out);
    if (at < a->count && a->elements[at]) return unroll_assign(u, s, op, a->elements[at], out);
    return read_nothing(u, s, op, out);
}

static weft_status length(unroll *u, unroll_scope *s, weft_op *op) {
    unroll_array *a;
    weft_var *out = weft_op_output(op, "Out", 0);
    weft_op *made;
    TRY(array_at(u, s, op, false, "X", 0, &a));
    if (!out) return NULL;
    TRY(unroll_var(u, s, out, &out));
    if (a->length) return unroll_copy(u, op, "assign", a->length, out);
    shape type = one_number;
    type.ndim = (int32_t)out->ndim;
    TRY(constant(u, op, &type, (int64_t)a->count, out, &made));
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
    if (a->is_guarded)
        return plan_error(u->b, WEFT_UNSUPPORTED, op,
                          "how many elements the array has depends on data: only a run knows it");
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
        if (u->into && array_ops[i].run == copy)
            return plan_error(u->b, WEFT_UNSUPPORTED, op, "a tensor array under a condition that only a run knows");
        *out_done = true;
        return array_ops[i].run(u, s, op);
    }
    return NULL;
}
