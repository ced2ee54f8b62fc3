/* read_constants.c: constants of an FX graph. One with data is a persistable var that an assign_value op fills,
 * which the writer leaves out; the data are read and kept number by number, because there may be many. An opaque one is
 * a var without a type. */
#include "program/fx/fx.h"
#include "program/grow.h"

typedef struct constant {
    const name *name;
    weft_var *var;
    bool has_data, is_whole; /* is_whole: integers and booleans */
    size_t count;
    int64_t *ints;
    double *floats;
} constant;

/* How many elements the type says; more than the text can hold is an error. */
static weft_status count_elements(fx_reader *r, constant *c) {
    c->count = 1;
    for (uint32_t i = 0; i < c->var->ndim; i++)
        if (c->var->dims[i] < 0 || !base_mul(c->count, (size_t)c->var->dims[i], &c->count)) c->count = SIZE_MAX;
    if (!c->var->has_tensor || c->count > r->text.nbytes)
        FX_FAIL(r, "constant \"%s\": expected a shape and a dtype that fit its data", c->name->bytes);
    weft_dtype dtype = (weft_dtype)c->var->dtype;
    c->is_whole = dtype != WEFT_FP16 && dtype != WEFT_BF16 && dtype != WEFT_FP32 && dtype != WEFT_FP64;
    TRY(form_charge(r->program, r->budget, c->count * sizeof(int64_t)));
    void *elements = arena_array(&r->program->arena, c->count ? c->count : 1, sizeof(int64_t));
    if (!elements) return base_out_of_memory();
    if (c->is_whole)
        c->ints = elements;
    else
        c->floats = elements;
    return NULL;
}

static weft_status put_element(fx_reader *r, constant *c, size_t index, const json_t *element) {
    double value = 0;
    bool known = fx_number(element, &value), is_bool = json_is_boolean(element);
    if (is_bool) value = json_is_true(element);
    if (!known && !is_bool) FX_FAIL(r, "constant \"%s\": expected numbers, element %zu is none", c->name->bytes, index);
    if (!c->is_whole)
        c->floats[index] = value;
    else if (json_is_integer(element))
        c->ints[index] = json_integer_value(element);
    else if (value > -0x1p63 && value < 0x1p63)
        c->ints[index] = (int64_t)value;
    else
        FX_FAIL(r, "constant \"%s\": element %zu is no integer", c->name->bytes, index);
    return NULL;
}

static weft_status read_data(fx_reader *r, constant *c) {
    bool more;
    size_t n = 0;
    TRY(json_next(&r->text, true, &more));
    buffer_text(&r->kept, "[");
    for (; more; n++) {
        json_t *element;
        if (n >= c->count) break;
        r->at = r->text.at;
        TRY(json_take(&r->text, &element));
        buffer_text(&r->kept, n ? "," : "");
        json_put_value(&r->kept, element);
        weft_status status = put_element(r, c, n, element);
        json_decref(element);
        if (status) return status;
        TRY(json_next(&r->text, false, &more));
    }
    buffer_text(&r->kept, "]");
    if (more || n != c->count) FX_FAIL(r, "constant \"%s\": expected %zu elements of data", c->name->bytes, c->count);
    return NULL;
}

/* --- the op that fills it ----------------------------------------------------------------------------------------- */

static weft_status append_attr(weft_op *op, const char *attr, attr_type type, weft_attr **out) {
    const name *n;
    TRY(program_name(op->program, attr, strlen(attr), &n));
    TRY(op_append_attr(op, n, out));
    (*out)->type = type;
    return NULL;
}

static weft_status append_elements(weft_op *op, const constant *c) {
    weft_attr *a;
    if (c->is_whole) {
        TRY(append_attr(op, "int64_values", ATTR_LONGS, &a));
        a->u.ints = c->ints;
    } else if (c->var->dtype == WEFT_FP64) {
        TRY(append_attr(op, "fp64_values", ATTR_FLOAT64S, &a));
        a->u.floats = c->floats;
    } else {
        for (size_t i = 0; i < c->count; i++) c->floats[i] = (double)(float)c->floats[i];
        TRY(append_attr(op, "fp32_values", ATTR_FLOATS, &a));
        a->u.floats = c->floats;
    }
    a->count = (uint32_t)c->count;
    return NULL;
}

static weft_status add_op(fx_reader *r, const constant *c) {
    const name *type, *out;
    weft_op *op;
    uint32_t s;
    weft_attr *a;
    TRY(program_name(r->program, "assign_value", 12, &type));
    TRY(program_name(r->program, "Out", 3, &out));
    TRY(op_create(r->program, type, &op));
    TRY(op_append_slot(op, true, out, &s));
    TRY(op_append_arg(op, true, s, c->var));
    TRY(append_attr(op, "dtype", ATTR_INT, &a));
    a->u.i = c->var->dtype;
    TRY(append_attr(op, FX_CONSTANT, ATTR_BOOLEAN, &a));
    a->u.b = true;
    TRY(append_elements(op, c));
    TRY(append_attr(op, "shape", ATTR_LONGS, &a));
    a->u.ints = c->var->dims;
    a->count = c->var->ndim;
    weft_block_insert_before(r->block, NULL, op);
    return NULL;
}

/* --- entries ------------------------------------------------------------------------------------------------------ */

/* Goes through the members of an entry: what is not data is gathered in `fields`, with `data` NULL for what is. */
static weft_status read_fields(fx_reader *r, json_t *fields) {
    TRY(json_expect(&r->text, '{'));
    do {
        json_t *key = NULL, *value = NULL;
        weft_status status = NULL;
        TRY(json_take(&r->text, &key));
        bool is_data = json_is_string(key) && strcmp(json_string_value(key), "data") == 0;
        if (!json_is_string(key)) TRY_DONE(json_error(&r->text, r->at, "expected keys in a constant"));
        TRY_DONE(json_expect(&r->text, ':'));
        if (is_data)
            TRY_DONE(json_skip(&r->text));
        else
            TRY_DONE(json_take(&r->text, &value));
        if (json_object_getn(fields, json_string_value(key), json_string_length(key)))
            TRY_DONE(json_error(&r->text, r->at, "a constant has \"%.40s\" twice", json_string_value(key)));
        if (json_object_setn_new_nocheck(fields, json_string_value(key), json_string_length(key),
                                         value ? value : json_null()))
            status = base_out_of_memory();
        value = NULL; /* the object's */
    done:
        json_decref(value);
        json_decref(key);
        if (status) return status;
    } while (json_accept(&r->text, ','));
    return json_expect(&r->text, '}');
}

/* Once more, now that the type is known: keeps the text, in its order, and takes the data. */
static weft_status read_again(fx_reader *r, constant *c, const json_t *fields) {
    TRY(json_expect(&r->text, '{'));
    const char *comma = "{";
    for (void *it = json_object_iter((json_t *)fields); it; it = json_object_iter_next((json_t *)fields, it)) {
        json_t *key;
        TRY(json_take(&r->text, &key));
        json_decref(key);
        TRY(json_expect(&r->text, ':'));
        buffer_text(&r->kept, comma);
        comma = ",";
        json_put_string(&r->kept, json_object_iter_key(it), json_object_iter_key_len(it));
        buffer_text(&r->kept, ":");
        if (c->has_data && strcmp(json_object_iter_key(it), "data") == 0) {
            TRY(read_data(r, c));
        } else {
            json_put_value(&r->kept, json_object_iter_value(it));
            TRY(json_skip(&r->text));
        }
        json_accept(&r->text, ',');
    }
    buffer_text(&r->kept, "}");
    return json_expect(&r->text, '}');
}

static weft_status read_constant(fx_reader *r, const json_t *fields, size_t start) {
    constant c = {0};
    TRY(fx_name_of(r, fields, "a constant", &c.name));
    TRY(fx_add_var(r, c.name->bytes, c.name->nbytes, &c.var));
    TRY(fx_define(r, c.name, &(fx_value){.var = c.var}));
    TRY(fx_set_type(r, c.name->bytes, json_object_get(fields, "shape"), json_object_get(fields, "dtype"), c.var));
    c.has_data = json_object_get(fields, "data") != NULL;
    if (!c.var->has_tensor) c.var->kind = WEFT_RAW;
    if (c.has_data) TRY(count_elements(r, &c));
    r->text.at = start;
    TRY(read_again(r, &c, fields));
    if (!c.has_data) return NULL;
    c.var->persistable = c.var->has_persistable = true;
    return add_op(r, &c);
}

weft_status fx_read_constants(fx_reader *r) {
    bool more;
    TRY(json_next(&r->text, true, &more));
    buffer_text(&r->kept, "[");
    for (bool first = true; more; first = false) {
        size_t start = r->at = r->text.at;
        json_t *fields = json_object();
        if (!fields) return base_out_of_memory();
        weft_status status = read_fields(r, fields);
        buffer_text(&r->kept, first ? "" : ",");
        if (!status) status = read_constant(r, fields, start);
        json_decref(fields);
        if (status) return status;
        TRY(json_next(&r->text, false, &more));
    }
    buffer_text(&r->kept, "]");
    return NULL;
}
