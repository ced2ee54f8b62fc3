/* read_own.c: nodes that Weft wrote as weft.<op type>: kwargs are input slots (refs) and attrs (values). Types of
 * attrs that JSON does not tell apart have a word: {"long": 1}; the table of words is the writer's too. */
#include "program/fx/fx.h"
#include "program/grow.h"

static const struct {
    const char *word;
    attr_type type;
} words[] = {{"long", ATTR_LONG},     {"double", ATTR_FLOAT64},   {"ints", ATTR_INTS},      {"longs", ATTR_LONGS},
             {"floats", ATTR_FLOATS}, {"doubles", ATTR_FLOAT64S}, {"bools", ATTR_BOOLEANS}, {"strings", ATTR_STRINGS},
             {"scalar", ATTR_SCALAR}, {"scalars", ATTR_SCALARS},  {"var", ATTR_VAR},        {"vars", ATTR_VARS}};
enum { NWORDS = sizeof words / sizeof *words };

const char *fx_type_word(attr_type type) {
    for (size_t i = 0; i < NWORDS; i++)
        if (words[i].type == type) return words[i].word;
    return NULL;
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static weft_status bad(fx_reader *r, const fx_node *n, const char *attr) {
    return json_error(&r->text, r->at, "node \"%s\": \"%.100s\" is neither refs nor a value of an attribute",
                      n->name->bytes, attr);
}

static bool get_scalar(const json_t *value, scalar *out) {
    *out = (scalar){.type = SCALAR_FLOAT64};
    const json_t *parts = json_object_get(value, "complex");
    if (json_is_boolean(value)) {
        *out = (scalar){.type = SCALAR_BOOLEAN, .b = json_is_true(value)};
    } else if (json_is_integer(value)) {
        *out = (scalar){.type = SCALAR_LONG, .i = json_integer_value(value)};
    } else if (parts) {
        out->type = SCALAR_COMPLEX128;
        return json_array_size(parts) == 2 && fx_number(json_array_get(parts, 0), &out->r) &&
               fx_number(json_array_get(parts, 1), &out->imaginary);
    } else {
        return fx_number(value, &out->r);
    }
    return true;
}

static weft_status get_string(weft_op *op, const json_t *value, const name **out) {
    *out = name_create(&op->program->arena, json_string_value(value), json_string_length(value));
    return *out ? NULL : base_out_of_memory();
}

/* One element of a list, or what is not a list; *out_ok false: it is of another type. */
static weft_status get_element(weft_op *op, attr_type type, const json_t *value, void *to, bool *out_ok) {
    double number = 0;
    *out_ok = true;
    switch (type) {
    case ATTR_INT:
    case ATTR_INTS:
    case ATTR_LONG:
    case ATTR_LONGS:
        *out_ok = json_is_integer(value);
        *(int64_t *)to = json_integer_value(value);
        if ((type == ATTR_INT || type == ATTR_INTS) && *(int64_t *)to != (int32_t) * (int64_t *)to) *out_ok = false;
        return NULL;
    case ATTR_FLOAT:
    case ATTR_FLOATS:
        *out_ok = fx_number(value, &number);
        *(double *)to = (double)(float)number;
        return NULL;
    case ATTR_FLOAT64:
    case ATTR_FLOAT64S: *out_ok = fx_number(value, (double *)to); return NULL;
    case ATTR_BOOLEANS:
        *out_ok = json_is_boolean(value);
        *(uint8_t *)to = json_is_true(value);
        return NULL;
    case ATTR_SCALAR:
    case ATTR_SCALARS: *out_ok = get_scalar(value, to); return NULL;
    default: *out_ok = json_is_string(value); return *out_ok ? get_string(op, value, to) : NULL;
    }
}

static size_t element_nbytes(attr_type type) {
    switch (type) {
    case ATTR_BOOLEANS: return sizeof(uint8_t);
    case ATTR_STRINGS:
    case ATTR_VARS: return sizeof(name *);
    case ATTR_SCALARS:
    case ATTR_SCALAR: return sizeof(scalar);
    default: return sizeof(int64_t);
    }
}

static weft_status get_list(fx_reader *r, weft_op *op, weft_attr *a, const json_t *list, bool *out_ok) {
    size_t count = json_array_size(list), size = element_nbytes(a->type);
    TRY(form_charge(r->program, r->budget, count * size));
    char *elements = arena_array(&r->program->arena, count ? count : 1, size);
    if (!elements) return base_out_of_memory();
    *out_ok = json_is_array(list);
    for (size_t i = 0; i < count && *out_ok; i++)
        TRY(get_element(op, a->type, json_array_get(list, i), elements + i * size, out_ok));
    a->count = (uint32_t)count;
    switch (a->type) {
    case ATTR_BOOLEANS: a->u.bools = (uint8_t *)elements; break;
    case ATTR_STRINGS:
    case ATTR_VARS: a->u.strings = (const name **)(void *)elements; break;
    case ATTR_SCALARS: a->u.scalars = (scalar *)(void *)elements; break;
    case ATTR_FLOATS:
    case ATTR_FLOAT64S: a->u.floats = (double *)(void *)elements; break;
    default: a->u.ints = (int64_t *)(void *)elements; break;
    }
    return NULL;
}

static weft_status get_one(weft_op *op, weft_attr *a, const json_t *value, bool *out_ok) {
    scalar *one;
    const name *string;
    switch (a->type) {
    case ATTR_FLOAT:
    case ATTR_FLOAT64: return get_element(op, a->type, value, &a->u.f, out_ok);
    case ATTR_BOOLEAN:
        a->u.b = json_is_true(value);
        *out_ok = true;
        return NULL;
    case ATTR_STRING:
    case ATTR_VAR:
        TRY(get_element(op, ATTR_STRING, value, &string, out_ok));
        if (*out_ok) attr_set_text(a, text_of_name(string));
        return NULL;
    case ATTR_SCALAR:
        one = ARENA_NEW(&op->program->arena, scalar);
        if (!one) return base_out_of_memory();
        a->u.scalar = one;
        return get_element(op, a->type, value, one, out_ok);
    default: return get_element(op, a->type, value, &a->u.i, out_ok);
    }
}

/* --- attrs -------------------------------------------------------------------------------------------------------- */

static bool is_list_type(attr_type type) {
    return element_nbytes(type) &&
           (type == ATTR_INTS || type == ATTR_LONGS || type == ATTR_FLOATS || type == ATTR_FLOAT64S ||
            type == ATTR_BOOLEANS || type == ATTR_STRINGS || type == ATTR_VARS || type == ATTR_SCALARS);
}

/* The type of an attr by its value; *value becomes what is behind the word. */
static bool find_type(const json_t **value, attr_type *out) {
    double number;
    const json_t *one = json_is_array(*value) ? json_array_get(*value, 0) : *value;
    bool is_list = json_is_array(*value);
    if (json_is_integer(one))
        *out = is_list ? ATTR_INTS : ATTR_INT;
    else if (fx_number(one, &number))
        *out = is_list ? ATTR_FLOATS : ATTR_FLOAT;
    else if (json_is_boolean(one))
        *out = is_list ? ATTR_BOOLEANS : ATTR_BOOLEAN;
    else if (json_is_string(one))
        *out = is_list ? ATTR_STRINGS : ATTR_STRING;
    else if (!json_is_object(*value) || json_object_size(*value) != 1)
        return false;
    else {
        for (size_t i = 0; i < NWORDS; i++) {
            const json_t *behind = json_object_get(*value, words[i].word);
            if (!behind) continue;
            *out = words[i].type;
            *value = behind;
            return true;
        }
        return false;
    }
    return true;
}

static weft_status read_attr(fx_reader *r, const fx_node *n, weft_op *op, const char *key, const json_t *value) {
    attr_type type;
    const name *attr;
    weft_attr *a;
    bool ok = false;
    if (!find_type(&value, &type)) return bad(r, n, key);
    TRY(program_name(r->program, key, strlen(key), &attr));
    TRY(op_append_attr(op, attr, &a));
    a->type = type;
    if (is_list_type(type))
        TRY(get_list(r, op, a, value, &ok));
    else
        TRY(get_one(op, a, value, &ok));
    return ok ? NULL : bad(r, n, key);
}

weft_status fx_read_attrs(fx_reader *r, const fx_node *n, weft_op *op, const json_t *attrs) {
    for (void *it = json_object_iter((json_t *)attrs); it; it = json_object_iter_next((json_t *)attrs, it))
        TRY(read_attr(r, n, op, json_object_iter_key(it), json_object_iter_value(it)));
    return NULL;
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

/* {"out": k}: the node's own k-th output, which coalesce_tensor names among its inputs too. */
static const json_t *own_output(const json_t *value) {
    const json_t *index = json_is_object(value) && json_object_size(value) == 1 ? json_object_get(value, "out") : NULL;
    return json_is_integer(index) ? index : NULL;
}

static bool are_refs(const json_t *value) {
    if (!json_is_array(value)) return json_is_null(value) || fx_ref(value) || own_output(value);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        if (!json_is_null(item) && !fx_ref(item) && !own_output(item)) return false;
    }
    return true;
}

static weft_status append_own(fx_reader *r, const fx_node *n, const fx_value *value, weft_op *op, uint32_t s,
                              json_int_t index) {
    json_int_t count = value->is_list ? value->count : 1;
    const fx_value *one = value->is_list && index >= 0 && index < count ? &value->items[index] : value;
    if (index < 0 || index >= count || !one->var)
        FX_FAIL(r, "node \"%s\" has no output %lld", n->name->bytes, (long long)index);
    return op_append_arg(op, false, s, one->var);
}

static weft_status append_input(fx_reader *r, const fx_node *n, const fx_value *value, weft_op *op, uint32_t s,
                                const json_t *ref) {
    const name *empty;
    weft_var *v;
    if (own_output(ref)) return append_own(r, n, value, op, s, json_integer_value(own_output(ref)));
    if (!json_is_null(ref)) return fx_append_refs(r, n, op, false, s, ref);
    TRY(program_name(r->program, "@EMPTY@", 7, &empty));
    TRY(program_placeholder(r->program, empty, &v));
    return op_append_arg(op, false, s, v);
}

static weft_status read_slot(fx_reader *r, const fx_node *n, const fx_value *value, weft_op *op, const char *key,
                             const json_t *refs) {
    const name *slot_name;
    uint32_t s;
    TRY(program_name(r->program, key, strlen(key), &slot_name));
    TRY(op_append_slot(op, false, slot_name, &s));
    if (!json_is_array(refs)) return append_input(r, n, value, op, s, refs);
    for (size_t i = 0; i < json_array_size(refs); i++) TRY(append_input(r, n, value, op, s, json_array_get(refs, i)));
    return NULL;
}

weft_status fx_read_own(fx_reader *r, const fx_node *n, const fx_value *value, weft_op **out_op) {
    const name *type;
    const size_t prefix = sizeof FX_OWN - 1;
    if (json_array_size(n->args) || n->has_extra)
        FX_FAIL(r, "node \"%s\": expected no args, only kwargs", n->name->bytes);
    TRY(program_name(r->program, n->target.bytes + prefix, n->target.nbytes - prefix, &type));
    TRY(op_create(r->program, type, out_op));
    for (void *it = json_object_iter((json_t *)n->kwargs); it; it = json_object_iter_next((json_t *)n->kwargs, it)) {
        const char *key = json_object_iter_key(it);
        const json_t *given = json_object_iter_value(it);
        if (fx_is_own_key(key)) continue;
        if (are_refs(given))
            TRY(read_slot(r, n, value, *out_op, key, given));
        else
            TRY(read_attr(r, n, *out_op, key, given));
    }
    return NULL;
}

/* weft.dist: on which stream an op runs, and the events between streams. */
weft_status fx_read_dist(fx_reader *r, const fx_node *n, weft_op *op) {
    const json_t *stream = json_object_get(n->dist, "execution_stream"),
                 *event = json_object_get(n->dist, "event_to_record"),
                 *waits = json_object_get(n->dist, "events_to_wait");
    op_dist *d;
    const name *found;
    TRY(op_dist_get(op, &d));
    size_t count = json_array_size(waits);
    op_waits *awaited;
    TRY(op_waits_create(r->program, count, &awaited));
    if (json_is_string(stream)) {
        TRY(get_string(op, stream, &found));
        d->execution_stream = found->bytes;
    }
    if (json_is_string(event)) {
        TRY(get_string(op, event, &found));
        d->event_to_record = found->bytes;
    }
    for (size_t i = 0; i < count; i++) {
        if (!json_is_string(json_array_get(waits, i))) return bad(r, n, "weft.dist");
        TRY(get_string(op, json_array_get(waits, i), &found));
        awaited->events[i] = found->bytes;
    }
    d->waits = awaited;
    return NULL;
}
