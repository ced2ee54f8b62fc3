/* read_args.c: arguments of a node: which row of fx.def they fit, and the op that this makes of them. */
#include <float.h>

#include "program/fx/fx.h"
#include "program/grow.h"

/* The argument of a row in a node; NULL: it is not there. */
static const json_t *arg_of(const fx_node *n, const fx_row *row, uint32_t index) {
    size_t npositional = json_array_size(n->args);
    return index < npositional ? json_array_get(n->args, index) : json_object_get(n->kwargs, row->args[index].name);
}

/* --- whether they fit --------------------------------------------------------------------------------------------- */

static const fx_value *value_of(const fx_reader *r, const json_t *arg) {
    const json_t *ref = fx_ref(arg);
    return ref ? fx_find(r, ref) : NULL;
}

static bool is_tensor(const fx_reader *r, const json_t *arg) {
    const fx_value *value = value_of(r, arg);
    return value && value->var;
}

/* Tensors, and nulls in their places: gradients that nobody asked for. */
static bool are_tensors(const fx_value *value) {
    for (uint32_t i = 0; i < value->count; i++)
        if (!are_tensors(&value->items[i])) return false;
    return value->is_list || value->var || value->is_null;
}

static bool is_tensor_list(const fx_reader *r, const json_t *arg) {
    const fx_value *value = value_of(r, arg);
    if (value) return value->is_list && are_tensors(value);
    if (!json_is_array(arg)) return false;
    for (size_t i = 0; i < json_array_size(arg); i++)
        if (!is_tensor(r, json_array_get(arg, i))) return false;
    return true;
}

/* A list, with a null where there is no tensor. */
static bool is_sparse_list(const fx_reader *r, const json_t *arg) {
    for (size_t i = 0; i < json_array_size(arg); i++)
        if (!json_is_null(json_array_get(arg, i)) && !is_tensor(r, json_array_get(arg, i))) return false;
    return json_is_array(arg);
}

static bool has_refs(const json_t *arg) {
    const char *key;
    json_t *item;
    size_t i;
    if (fx_ref(arg)) return true;
    if (json_is_array(arg)) {
        json_array_foreach(arg, i, item) {
            if (has_refs(item)) return true;
        }
    } else if (json_is_object(arg)) {
        json_object_foreach((json_t *)arg, key, item) {
            if (has_refs(item)) return true;
        }
    }
    return false;
}

static bool all_are(const json_t *list, bool (*is)(const json_t *)) {
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!is(json_array_get(list, i))) return false;
    return json_is_array(list);
}

static bool is_whole(const json_t *value) {
    return json_is_integer(value);
}
static bool is_number(const json_t *value) {
    double number;
    return fx_number(value, &number);
}

static weft_dtype dtype_of(const json_t *value) {
    bool is_object = json_is_object(value) && json_object_size(value) == 1;
    const json_t *word = is_object ? json_object_get(value, "dtype") : value; /* fx.def has the word alone */
    return json_is_string(word) ? weft_dtype_parse(json_string_value(word)) : WEFT_DTYPE_NONE;
}

static bool is_of_type(fx_type type, const json_t *value) {
    switch (type) {
    case FX_INT: return is_whole(value);
    case FX_FLOAT: return is_number(value);
    case FX_FLOAT64: return is_number(value) || json_is_boolean(value);
    case FX_BOOL: return json_is_boolean(value);
    case FX_RING:
    case FX_STRING: return json_is_string(value);
    case FX_INTS: return is_whole(value) || all_are(value, is_whole);
    case FX_FLOATS:
    case FX_FLOAT64S: return all_are(value, is_number);
    case FX_DTYPE: return dtype_of(value) != WEFT_DTYPE_NONE;
    case FX_REDUCE_TYPE:
        return json_is_string(value) && fx_reduce_parse(json_string_value(value), json_string_length(value)) >= 0;
    }
    return false;
}

static bool is_literal(const json_t *value, const json_t *literal) {
    double x, y;
    if (fx_number(value, &x) && fx_number(literal, &y)) return !(x < y || x > y);
    return json_equal(value, literal);
}

static bool arg_fits(const fx_reader *r, const fx_arg *arg, const json_t *value) {
    bool is_absent = !value || json_is_null(value);
    switch (arg->kind) {
    case FX_TENSOR: return is_absent ? arg->may_be_null : is_tensor(r, value);
    case FX_TENSORS:
        if (is_absent) return arg->may_be_null;
        return arg->places ? is_sparse_list(r, value) : is_tensor_list(r, value);
    case FX_VALUE:
        if (is_absent && arg->may_be_null) return true;
        return value ? is_of_type(arg->type, value) : arg->literal != NULL;
    case FX_LITERAL: return value ? is_literal(value, arg->literal) : arg->may_be_omitted;
    case FX_ANY: return !has_refs(value);
    case FX_IMPLIED: return true;
    }
    return false;
}

static bool outputs_fit(const fx_row *row, const fx_value *value) {
    uint32_t nown = 0, nested_at = UINT32_MAX;
    bool has_list = false;
    for (uint32_t i = 0; i < row->nouts; i++) {
        if (row->outs[i].writes >= 0) continue;
        if (row->outs[i].is_nested) nested_at = nown;
        nown++;
        has_list = has_list || row->outs[i].is_list;
    }
    if (!nown) return value->is_null && !value->is_list;
    if (!value->is_list || (nown == 1 && !has_list)) return nown == 1 && !value->is_list;
    if (nested_at < UINT32_MAX) return value->count == nown && value->items[nested_at].is_list;
    for (uint32_t i = 0; i < value->count; i++)
        if (value->items[i].is_list) return false;
    return has_list ? value->count >= nown - 1 : value->count == nown;
}

/* Whether the tensors of a value are of the type in *dtype, which is that of the first one that has a type. */
static bool value_is_of(const fx_value *value, int32_t *dtype) {
    if (value->var && *dtype == WEFT_DTYPE_NONE) *dtype = value->var->dtype;
    if (value->var && value->var->dtype != *dtype) return false;
    for (uint32_t i = 0; i < value->count; i++)
        if (!value_is_of(&value->items[i], dtype)) return false;
    return true;
}

static bool arg_is_of(const fx_reader *r, const json_t *arg, int32_t *dtype) {
    const fx_value *value = arg ? value_of(r, arg) : NULL;
    if (value) return value_is_of(value, dtype);
    for (size_t i = 0; i < json_array_size(arg); i++)
        if (!arg_is_of(r, json_array_get(arg, i), dtype)) return false;
    return true;
}

static bool has_one_dtype(const fx_reader *r, const fx_node *n, const fx_row *row, uint32_t last) {
    int32_t dtype = WEFT_DTYPE_NONE;
    for (uint32_t i = 0; i <= last; i++)
        if (row->args[i].kind <= FX_TENSORS && !arg_is_of(r, arg_of(n, row, i), &dtype)) return false;
    return true;
}

static bool row_fits(const fx_reader *r, const fx_node *n, const fx_row *row, const fx_value *value) {
    size_t npositional = json_array_size(n->args), nkwargs = 0;
    if (npositional > row->nnamed || !outputs_fit(row, value)) return false;
    for (uint32_t i = 0; i < row->nargs; i++) {
        const fx_arg *arg = &row->args[i];
        if (arg->kind != FX_IMPLIED && !arg_fits(r, arg, arg_of(n, row, i))) return false;
        if (arg->one_dtype && !has_one_dtype(r, n, row, i)) return false;
        nkwargs += arg->kind != FX_IMPLIED && i >= npositional && json_object_get(n->kwargs, arg->name) != NULL;
    }
    return nkwargs == n->nkwargs;
}

/* --- the op ------------------------------------------------------------------------------------------------------- */

weft_status fx_append_tensors(weft_op *op, bool output, uint32_t s, const fx_value *value) {
    if (value->var) return op_append_arg(op, output, s, value->var);
    for (uint32_t i = 0; i < value->count; i++) TRY(fx_append_tensors(op, output, s, &value->items[i]));
    return NULL;
}

weft_status fx_append_refs(fx_reader *r, const fx_node *n, weft_op *op, bool output, uint32_t s, const json_t *arg) {
    const char *key;
    json_t *item;
    size_t i;
    const json_t *ref = fx_ref(arg);
    if (ref) {
        const fx_value *value;
        TRY(fx_find_before(r, n, ref, &value));
        return fx_append_tensors(op, output, s, value);
    }
    if (json_is_array(arg)) {
        json_array_foreach(arg, i, item) TRY(fx_append_refs(r, n, op, output, s, item));
    } else if (json_is_object(arg)) {
        json_object_foreach((json_t *)arg, key, item) TRY(fx_append_refs(r, n, op, output, s, item));
    }
    return NULL;
}

static weft_status set_ints(weft_op *op, weft_attr *a, const json_t *value) {
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    int64_t *ints = ARENA_ARRAY(&op->program->arena, int64_t, count ? count : 1);
    if (!ints) return base_out_of_memory();
    a->type = ATTR_INTS;
    for (size_t i = 0; i < count; i++) {
        ints[i] = json_integer_value(json_is_array(value) ? json_array_get(value, i) : value);
        if (ints[i] != (int32_t)ints[i]) a->type = ATTR_LONGS;
    }
    a->count = (uint32_t)count;
    a->u.ints = ints;
    return NULL;
}

static weft_status set_floats(weft_op *op, weft_attr *a, bool wide, const json_t *value) {
    size_t count = json_array_size(value);
    double *floats = ARENA_ARRAY(&op->program->arena, double, count ? count : 1);
    if (!floats) return base_out_of_memory();
    for (size_t i = 0; i < count; i++) {
        fx_number(json_array_get(value, i), &floats[i]);
        if (!wide) floats[i] = (double)(float)floats[i];
    }
    a->type = wide ? ATTR_FLOAT64S : ATTR_FLOATS;
    a->count = (uint32_t)count;
    a->u.floats = floats;
    return NULL;
}

static weft_status set_value(fx_reader *r, const fx_node *n, weft_op *op, const fx_arg *arg, const json_t *value) {
    const name *attr;
    weft_attr *a;
    TRY(program_name(r->program, arg->to, strlen(arg->to), &attr));
    TRY(op_append_attr(op, attr, &a));
    double number = json_is_true(value);
    switch (arg->type) {
    case FX_INT:
        a->u.i = json_integer_value(value);
        a->type = a->u.i == (int32_t)a->u.i ? ATTR_INT : ATTR_LONG;
        return NULL;
    case FX_FLOAT:
    case FX_FLOAT64:
        fx_number(value, &number);
        a->type = arg->type == FX_FLOAT ? ATTR_FLOAT : ATTR_FLOAT64;
        a->u.f = arg->type == FX_FLOAT ? (double)(float)number : number;
        return NULL;
    case FX_BOOL:
        a->type = ATTR_BOOLEAN;
        a->u.b = json_is_true(value);
        return NULL;
    case FX_STRING:
        a->type = ATTR_STRING;
        a->count = (uint32_t)json_string_length(value);
        a->u.s = arena_string(&r->program->arena, json_string_value(value), a->count);
        return a->u.s ? NULL : base_out_of_memory();
    case FX_INTS: return set_ints(op, a, value);
    case FX_FLOATS:
    case FX_FLOAT64S: return set_floats(op, a, arg->type == FX_FLOAT64S, value);
    case FX_DTYPE:
        a->type = ATTR_INT;
        a->u.i = dtype_of(value);
        return NULL;
    case FX_RING: a->type = ATTR_INT; return fx_ring_of(r, n->name->bytes, value, &a->u.i);
    case FX_REDUCE_TYPE:
        a->type = ATTR_INT;
        a->u.i = fx_reduce_parse(json_string_value(value), json_string_length(value));
        return NULL;
    }
    return NULL;
}

/* The places of a list that hold tensors. */
static weft_status set_places(fx_reader *r, const fx_node *n, weft_op *op, const fx_arg *arg, const json_t *list) {
    json_t *places = json_array();
    weft_status status = places ? NULL : base_out_of_memory();
    for (size_t i = 0; !status && i < json_array_size(list); i++)
        if (!json_is_null(json_array_get(list, i)) && json_array_append_new(places, json_integer((json_int_t)i)))
            status = base_out_of_memory();
    const fx_arg as_ints = {.kind = FX_VALUE, .to = arg->places, .type = FX_INTS};
    if (!status) status = set_value(r, n, op, &as_ints, places);
    json_decref(places);
    return status;
}

static weft_status fill(fx_reader *r, const fx_node *n, const fx_row *row, weft_op *op, uint32_t *first) {
    uint32_t ninputs = 0;
    for (uint32_t i = 0; i < row->nargs; i++) {
        const fx_arg *arg = &row->args[i];
        const json_t *value = arg->kind == FX_IMPLIED ? arg->literal : arg_of(n, row, i);
        first[i] = ninputs;
        if (arg->kind == FX_VALUE || arg->kind == FX_IMPLIED) {
            if (!value) value = arg->literal;
            if (value && !json_is_null(value)) TRY(set_value(r, n, op, arg, value));
        } else if (arg->kind <= FX_TENSORS && value && !json_is_null(value)) {
            const name *to;
            uint32_t s;
            TRY(program_name(r->program, arg->to, strlen(arg->to), &to));
            TRY(op_append_slot(op, false, to, &s));
            TRY(fx_append_refs(r, n, op, false, s, value));
            if (arg->places) TRY(set_places(r, n, op, arg, value));
            ninputs += op_slot(op, false, s)->nargs;
        }
    }
    return NULL;
}

weft_status fx_read_args(fx_reader *r, const fx_node *n, const fx_value *value, const fx_row **out_row,
                         weft_op **out_op, uint32_t **out_first) {
    const name *type;
    const fx_row *row = fx_table_find(&r->table, n->target.bytes, n->target.nbytes);
    while (row && !row_fits(r, n, row, value)) row = row->next;
    *out_row = row;
    *out_op = NULL;
    if (!row) return NULL;
    *out_first = ARENA_ARRAY(&r->scratch, uint32_t, row->nargs ? row->nargs : 1);
    if (!*out_first) return base_out_of_memory();
    TRY(program_name(r->program, row->op_type, strlen(row->op_type), &type));
    TRY(op_create(r->program, type, out_op));
    return fill(r, n, row, *out_op, *out_first);
}
