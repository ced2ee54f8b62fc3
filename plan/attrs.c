/* attrs.c: attrs in the text form, printed and parsed by the type that the op table gives them.
 *
 * Programs of different eras give one attr different types (INT or LONG, BOOLEAN or INT, a value or a list of one);
 * what a kernel reads is the same, so the text needs no types. A number that is no float's exact value where the table
 * says float is tagged !double. */
#include "plan/text.h"

/* --- printing ----------------------------------------------------------------------------------------------------- */

static bool put_int(buffer *out, const weft_attr *a) {
    switch (a->type) {
    case ATTR_INT:
    case ATTR_LONG: buffer_format(out, "%lld", (long long)a->u.i); return true;
    case ATTR_BOOLEAN: buffer_format(out, "%d", a->u.b); return true;
    case ATTR_SCALAR:
        if (a->u.scalar->type != SCALAR_LONG && a->u.scalar->type != SCALAR_BOOLEAN) return false;
        buffer_format(out, "%lld",
                      a->u.scalar->type == SCALAR_LONG ? (long long)a->u.scalar->i : (long long)a->u.scalar->b);
        return true;
    default: return false;
    }
}

static bool put_bool(buffer *out, const weft_attr *a) {
    bool value;
    if (a->type == ATTR_BOOLEAN)
        value = a->u.b;
    else if (a->type == ATTR_INT || a->type == ATTR_LONG)
        value = a->u.i != 0;
    else if (a->type == ATTR_SCALAR && a->u.scalar->type == SCALAR_BOOLEAN)
        value = a->u.scalar->b;
    else if (a->type == ATTR_SCALAR && a->u.scalar->type == SCALAR_LONG)
        value = a->u.scalar->i != 0;
    else
        return false;
    buffer_text(out, value ? "true" : "false");
    return true;
}

static void put_number(buffer *out, double value, bool single) {
    bool exact = value != value || (double)(float)value == value;
    if (single && exact) {
        buffer_float(out, (float)value);
    } else {
        if (single) buffer_text(out, "!double ");
        buffer_double(out, value);
    }
}

static bool put_float(buffer *out, const weft_attr *a, bool single) {
    switch (a->type) {
    case ATTR_FLOAT:
    case ATTR_FLOAT64: put_number(out, a->u.f, single); return true;
    case ATTR_INT:
    case ATTR_LONG: put_number(out, (double)a->u.i, single); return true;
    case ATTR_BOOLEAN: put_number(out, a->u.b, single); return true;
    case ATTR_SCALAR:
        if (a->u.scalar->type == SCALAR_COMPLEX128) return false;
        put_number(out,
                   a->u.scalar->type == SCALAR_FLOAT64 ? a->u.scalar->r
                   : a->u.scalar->type == SCALAR_LONG  ? (double)a->u.scalar->i
                                                       : (double)a->u.scalar->b,
                   single);
        return true;
    default: return false;
    }
}

/* A scalar shows its type: true, 1, 1.0, [1.0, 2.0]. */
static void put_scalar(buffer *out, const scalar *s) {
    switch (s->type) {
    case SCALAR_BOOLEAN: buffer_text(out, s->b ? "true" : "false"); break;
    case SCALAR_LONG: buffer_format(out, "%lld", (long long)s->i); break;
    case SCALAR_FLOAT64: buffer_double(out, s->r); break;
    case SCALAR_COMPLEX128:
        buffer_text(out, "[");
        buffer_double(out, s->r);
        buffer_text(out, ", ");
        buffer_double(out, s->imaginary);
        buffer_text(out, "]");
        break;
    }
}

static bool is_list_as(attr_type found, attr_type wanted) {
    switch (wanted) {
    case ATTR_INTS:
    case ATTR_LONGS: return found == ATTR_INTS || found == ATTR_LONGS;
    case ATTR_FLOATS:
    case ATTR_FLOAT64S: return found == ATTR_FLOATS || found == ATTR_FLOAT64S;
    default: return found == wanted;
    }
}

static bool put_list(buffer *out, const weft_attr *a, attr_type type) {
    bool is_one = (type == ATTR_INTS || type == ATTR_LONGS) && (a->type == ATTR_INT || a->type == ATTR_LONG);
    if (is_one) {
        buffer_format(out, "[%lld]", (long long)a->u.i);
        return true;
    }
    if (!is_list_as(a->type, type)) return false;
    buffer_text(out, "[");
    for (size_t i = 0; i < a->count; i++) {
        if (i) buffer_text(out, ", ");
        switch (type) {
        case ATTR_INTS:
        case ATTR_LONGS: buffer_format(out, "%lld", (long long)a->u.ints[i]); break;
        case ATTR_FLOATS: put_number(out, a->u.floats[i], true); break;
        case ATTR_FLOAT64S: put_number(out, a->u.floats[i], false); break;
        case ATTR_BOOLEANS: buffer_text(out, a->u.bools[i] ? "true" : "false"); break;
        case ATTR_SCALARS: put_scalar(out, &a->u.scalars[i]); break;
        default: yaml_put_string(out, a->u.strings[i]->bytes, a->u.strings[i]->nbytes); break;
        }
    }
    buffer_text(out, "]");
    return true;
}

bool plan_print_attr(buffer *out, const weft_attr *a, attr_type type) {
    switch (type) {
    case ATTR_INT:
    case ATTR_LONG: return put_int(out, a);
    case ATTR_BOOLEAN: return put_bool(out, a);
    case ATTR_FLOAT: return put_float(out, a, true);
    case ATTR_FLOAT64: return put_float(out, a, false);
    case ATTR_STRING:
        if (a->type != ATTR_STRING) return false;
        yaml_put_string(out, attr_text(a).bytes, a->count);
        return true;
    case ATTR_SCALAR:
        if (a->type == ATTR_SCALAR) put_scalar(out, a->u.scalar);
        return a->type == ATTR_SCALAR;
    case ATTR_INTS:
    case ATTR_LONGS:
    case ATTR_FLOATS:
    case ATTR_FLOAT64S:
    case ATTR_BOOLEANS:
    case ATTR_STRINGS:
    case ATTR_SCALARS: return put_list(out, a, type);
    case ATTR_BLOCK:
    case ATTR_BLOCKS:
    case ATTR_VAR:
    case ATTR_VARS: return false; /* a plan has neither blocks nor vars */
    }
    return false;
}

/* --- parsing ------------------------------------------------------------------------------------------------------ */

static weft_status wrong(plan_reader *r, const yaml_node *node, const char *expected) {
    return yaml_error(r->context, node, r->place, "expected %s", expected);
}

static weft_status read_number(plan_reader *r, const yaml_node *node, bool single, double *out) {
    yaml_node plain = *node;
    bool is_double = node->tag && strcmp(node->tag, "!double") == 0;
    if (is_double) plain.tag = NULL;
    if (!yaml_as_double(&plain, out)) return wrong(r, node, "a number");
    if (single && !is_double) *out = (double)(float)*out;
    return NULL;
}

static weft_status read_scalar(plan_reader *r, const yaml_node *node, scalar *out) {
    *out = (scalar){0};
    if (node->kind == NODE_SEQUENCE && node->count == 2) {
        out->type = SCALAR_COMPLEX128;
        TRY(read_number(r, node->items[0], false, &out->r));
        return read_number(r, node->items[1], false, &out->imaginary);
    }
    out->type = SCALAR_BOOLEAN;
    if (yaml_as_bool(node, &out->b)) return NULL;
    out->type = SCALAR_LONG;
    if (yaml_as_int(node, &out->i)) return NULL;
    out->type = SCALAR_FLOAT64;
    return yaml_as_double(node, &out->r) ? NULL : wrong(r, node, "true, false, a number or a pair of numbers");
}

static weft_status read_string(plan_reader *r, const yaml_node *node, const name **out) {
    const char *bytes;
    size_t nbytes;
    if (node->kind != NODE_SCALAR) return wrong(r, node, "a string");
    TRY(yaml_as_bytes(r->context, node, r->place, &r->scratch, &bytes, &nbytes));
    return (*out = name_create(&r->program->arena, bytes, nbytes)) ? NULL : base_out_of_memory();
}

static size_t element_size(attr_type type) {
    switch (type) {
    case ATTR_INTS:
    case ATTR_LONGS: return sizeof(int64_t);
    case ATTR_FLOATS:
    case ATTR_FLOAT64S: return sizeof(double);
    case ATTR_BOOLEANS: return sizeof(uint8_t);
    case ATTR_SCALARS: return sizeof(scalar);
    default: return sizeof(name *);
    }
}

static weft_status read_element(plan_reader *r, const yaml_node *node, attr_type type, void *elements, size_t i) {
    bool b;
    switch (type) {
    case ATTR_INTS:
    case ATTR_LONGS: return yaml_as_int(node, (int64_t *)elements + i) ? NULL : wrong(r, node, "an integer");
    case ATTR_FLOATS: return read_number(r, node, true, (double *)elements + i);
    case ATTR_FLOAT64S: return read_number(r, node, false, (double *)elements + i);
    case ATTR_BOOLEANS:
        if (!yaml_as_bool(node, &b)) return wrong(r, node, "true or false");
        ((uint8_t *)elements)[i] = b;
        return NULL;
    case ATTR_SCALARS: return read_scalar(r, node, (scalar *)elements + i);
    default: return read_string(r, node, (const name **)elements + i);
    }
}

static weft_status read_list(plan_reader *r, const yaml_node *node, weft_attr *out) {
    if (node->kind != NODE_SEQUENCE) return wrong(r, node, "a list");
    void *elements = arena_array(&r->program->arena, node->count ? node->count : 1, element_size(out->type));
    if (!elements) return base_out_of_memory();
    for (size_t i = 0; i < node->count; i++) TRY(read_element(r, node->items[i], out->type, elements, i));
    out->count = (uint32_t)node->count;
    switch (out->type) {
    case ATTR_INTS:
    case ATTR_LONGS: out->u.ints = elements; break;
    case ATTR_FLOATS:
    case ATTR_FLOAT64S: out->u.floats = elements; break;
    case ATTR_BOOLEANS: out->u.bools = elements; break;
    case ATTR_SCALARS: out->u.scalars = elements; break;
    default: out->u.strings = elements; break;
    }
    return NULL;
}

weft_status plan_parse_attr(plan_reader *r, weft_op *op, const attr_schema *schema, const yaml_node *node) {
    const name *n;
    weft_attr *a;
    scalar *one;
    const name *string;
    TRY(program_name(r->program, schema->name, strlen(schema->name), &n));
    TRY(op_append_attr(op, n, &a));
    a->type = schema->type;
    switch (schema->type) {
    case ATTR_INT:
    case ATTR_LONG: return yaml_as_int(node, &a->u.i) ? NULL : wrong(r, node, "an integer");
    case ATTR_BOOLEAN: return yaml_as_bool(node, &a->u.b) ? NULL : wrong(r, node, "true or false");
    case ATTR_FLOAT: return read_number(r, node, true, &a->u.f);
    case ATTR_FLOAT64: return read_number(r, node, false, &a->u.f);
    case ATTR_STRING:
        TRY(read_string(r, node, &string));
        attr_set_text(a, text_of_name(string));
        return NULL;
    case ATTR_SCALAR:
        if (!(one = ARENA_NEW(&r->program->arena, scalar))) return base_out_of_memory();
        a->u.scalar = one;
        return read_scalar(r, node, one);
    case ATTR_BLOCK:
    case ATTR_BLOCKS:
    case ATTR_VAR:
    case ATTR_VARS: return wrong(r, node, "no blocks or vars: a plan has none");
    default: return read_list(r, node, a);
    }
}
