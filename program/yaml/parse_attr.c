/* parse_attr.c: attrs from YAML. Without a tag the spelling gives the type; an empty list is INTS, as in Paddle.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/number.h"
#include "program/grow.h"
#include "program/yaml/yaml_form.h"

/* --- types -------------------------------------------------------------------------------------------------------- */

static bool is_bits(const yaml_node *node) {
    return node->tag && strcmp(node->tag, "!bits") == 0;
}

/* What a scalar without a type tag spells. */
static attr_type spelled(const yaml_node *node) {
    int64_t i;
    double f;
    bool b;
    if (is_bits(node)) return ATTR_FLOAT;
    if (yaml_as_int(node, &i)) return ATTR_INT;
    if (yaml_as_bool(node, &b)) return ATTR_BOOLEAN;
    if (yaml_as_double(node, &f)) return ATTR_FLOAT;
    return ATTR_STRING;
}

static weft_status spelled_list(yaml_reader *r, const yaml_node *list, attr_type *out) {
    if (list->count == 0) {
        *out = ATTR_INTS;
        return NULL;
    }
    attr_type all = ATTR_INT;
    for (size_t i = 0; i < list->count; i++) {
        const yaml_node *item = list->items[i];
        if (item->kind != NODE_SCALAR)
            YAML_FAIL(r, item, "expected a list of scalars; one of scalars with parts has a tag");
        attr_type one = spelled(item);
        if (i == 0 || (all == ATTR_INT && one == ATTR_FLOAT))
            all = one;
        else if (one != all && !(all == ATTR_FLOAT && one == ATTR_INT))
            YAML_FAIL(r, item, "expected items of one type in a list: quote those that are strings");
    }
    *out = all == ATTR_INT       ? ATTR_INTS
           : all == ATTR_FLOAT   ? ATTR_FLOATS
           : all == ATTR_BOOLEAN ? ATTR_BOOLEANS
                                 : ATTR_STRINGS;
    return NULL;
}

/* The type of an attr's value; *out_bare is the value without the tag that gave it. */
static weft_status find_type(yaml_reader *r, const yaml_node *node, attr_type *out, yaml_node *out_bare) {
    *out_bare = *node;
    for (attr_type type = ATTR_INT; node->tag && type <= ATTR_SCALARS; type++) {
        if (strcmp(node->tag, yaml_type_tag(type)) != 0) continue;
        *out = type;
        out_bare->tag = NULL;
        return NULL;
    }
    if (node->kind == NODE_SEQUENCE && !node->tag) return spelled_list(r, node, out);
    if (node->kind != NODE_SCALAR || (node->tag && !is_bits(node) && strcmp(node->tag, "!bytes") != 0))
        YAML_FAIL(r, node, "expected a value of an attr, found %s%s", node->tag ? "the tag " : "a mapping",
                  node->tag ? node->tag : "");
    if (yaml_is_null(node)) YAML_FAIL(r, node, "expected a value, found none: write \"\" for an empty string");
    *out = spelled(node);
    return NULL;
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

static weft_status get_bits(yaml_reader *r, const yaml_node *node, unsigned ndigits, uint64_t *out) {
    char *end = NULL;
    errno = 0;
    unsigned long long bits = strncmp(node->bytes, "0x", 2) == 0 ? strtoull(node->bytes, &end, 16) : 0;
    if (!end || *end || errno || node->nbytes > 2 + ndigits)
        YAML_FAIL(r, node, "expected 0x and at most %u hexadecimal digits after !bits", ndigits);
    *out = bits;
    return NULL;
}

static weft_status get_double(yaml_reader *r, const yaml_node *node, double *out) {
    uint64_t bits;
    if (is_bits(node)) {
        TRY(get_bits(r, node, 16, &bits));
        memcpy(out, &bits, sizeof bits);
        return NULL;
    }
    if (yaml_as_double(node, out)) return NULL;
    YAML_FAIL(r, node, "expected a number");
}

/* Rounded once, from the decimal text. */
static weft_status get_float(yaml_reader *r, const yaml_node *node, double *out) {
    if (is_bits(node)) {
        uint64_t wide;
        TRY(get_bits(r, node, 8, &wide));
        uint32_t bits = (uint32_t)wide;
        float value;
        memcpy(&value, &bits, sizeof value);
        *out = (double)value;
        return NULL;
    }
    TRY(get_double(r, node, out));
    if (!isfinite(*out)) return NULL;
    double narrow = (double)number_strtof(node->bytes);
    int64_t whole;
    if (yaml_as_int(node, &whole)) narrow = (double)(float)whole;
    if (!isfinite(narrow)) YAML_FAIL(r, node, "%s does not fit a 32-bit float: write !double", node->bytes);
    *out = narrow;
    return NULL;
}

static weft_status get_int32(yaml_reader *r, const yaml_node *node, int64_t *out) {
    int64_t value;
    if (!yaml_as_int(node, &value)) YAML_FAIL(r, node, "expected an integer");
    if (value < INT32_MIN || value > INT32_MAX)
        YAML_FAIL(r, node, "%" PRId64 " does not fit 32 bits: write !long or !longs", value);
    *out = value;
    return NULL;
}

/* --- scalars ------------------------------------------------------------------------------------------------------ */

static weft_status get_scalar(yaml_reader *r, const yaml_node *node, scalar *out) {
    *out = (scalar){0};
    if (node->kind == NODE_SEQUENCE && node->count == 2) {
        out->type = SCALAR_COMPLEX128;
        TRY(get_double(r, node->items[0], &out->r));
        return get_double(r, node->items[1], &out->imaginary);
    }
    if (node->kind == NODE_MAPPING && node->count == 1 && yaml_is(node->items[0], "double")) node = node->items[1];
    if (node->kind == NODE_SCALAR) {
        switch (spelled(node)) {
        case ATTR_BOOLEAN: out->type = SCALAR_BOOLEAN; return yaml_get_bool(r, node, "scalar", &out->b);
        case ATTR_INT: out->type = SCALAR_LONG; return yaml_get_int(r, node, "scalar", INT64_MIN, INT64_MAX, &out->i);
        case ATTR_FLOAT: out->type = SCALAR_FLOAT64; return get_double(r, node, &out->r);
        default: break;
        }
    }
    YAML_FAIL(r, node, "expected an integer, a number, true, false or [real, imaginary]");
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static weft_status get_list(yaml_reader *r, const yaml_node *list, weft_attr *a) {
    if (list->kind != NODE_SEQUENCE) YAML_FAIL(r, list, "expected a list after %s", yaml_type_tag(a->type));
    size_t n = list->count;
    int64_t *ints;
    double *floats;
    uint8_t *bools;
    scalar *scalars;
    bool b;
    a->count = (uint32_t)n;
    switch (a->type) {
    case ATTR_INTS:
    case ATTR_BLOCKS:
        TRY(yaml_array(r, n, sizeof *ints, &ints));
        for (size_t i = 0; i < n; i++) TRY(get_int32(r, list->items[i], &ints[i]));
        a->u.ints = ints;
        return NULL;
    case ATTR_LONGS: return yaml_get_ints(r, list, yaml_type_tag(a->type), &a->u.ints, &n);
    case ATTR_FLOATS:
    case ATTR_FLOAT64S:
        TRY(yaml_array(r, n, sizeof *floats, &floats));
        for (size_t i = 0; i < n; i++)
            TRY(a->type == ATTR_FLOATS ? get_float(r, list->items[i], &floats[i])
                                       : get_double(r, list->items[i], &floats[i]));
        a->u.floats = floats;
        return NULL;
    case ATTR_BOOLEANS:
        TRY(yaml_array(r, n, sizeof *bools, &bools));
        for (size_t i = 0; i < n; i++) {
            TRY(yaml_get_bool(r, list->items[i], yaml_type_tag(a->type), &b));
            bools[i] = b;
        }
        a->u.bools = bools;
        return NULL;
    case ATTR_SCALARS:
        TRY(yaml_array(r, n, sizeof *scalars, &scalars));
        for (size_t i = 0; i < n; i++) TRY(get_scalar(r, list->items[i], &scalars[i]));
        a->u.scalars = scalars;
        return NULL;
    default: return yaml_get_strings(r, list, yaml_type_tag(a->type), &a->u.strings, &a->count);
    }
}

/* A value that needs a tag of its own stands in a list of one. */
static const yaml_node *only_item(const yaml_node *node) {
    return node->kind == NODE_SEQUENCE && node->count == 1 ? node->items[0] : node;
}

static weft_status get_text(yaml_reader *r, const yaml_node *node, weft_attr *a) {
    text value;
    TRY(yaml_get_text(r, node, &value));
    attr_set_text(a, value);
    return NULL;
}

static weft_status get_value(yaml_reader *r, const yaml_node *node, weft_attr *a) {
    yaml_node bare;
    scalar *one;
    TRY(find_type(r, node, &a->type, &bare));
    switch (a->type) {
    case ATTR_INT:
    case ATTR_BLOCK: return get_int32(r, &bare, &a->u.i);
    case ATTR_LONG: return yaml_get_int(r, &bare, "!long", INT64_MIN, INT64_MAX, &a->u.i);
    case ATTR_BOOLEAN: return yaml_get_bool(r, &bare, "!bool", &a->u.b);
    case ATTR_FLOAT: return get_float(r, &bare, &a->u.f);
    case ATTR_FLOAT64: return get_double(r, only_item(&bare), &a->u.f);
    case ATTR_STRING: return get_text(r, &bare, a);
    case ATTR_VAR: return get_text(r, only_item(&bare), a);
    case ATTR_SCALAR:
        TRY(yaml_array(r, 1, sizeof *one, &one));
        a->u.scalar = one;
        return get_scalar(r, &bare, one);
    default: return get_list(r, &bare, a);
    }
}

/* --- abbreviations ------------------------------------------------------------------------------------------------ */

static weft_status named(yaml_reader *r, const char *attr_name, attr_type type, weft_attr *a) {
    *a = (weft_attr){.type = type};
    return program_name(r->program, attr_name, strlen(attr_name), &a->name);
}

static weft_status expand_role(yaml_reader *r, const yaml_node *node, weft_attr *attrs) {
    int64_t role;
    if (node->kind != NODE_SCALAR || !yaml_role_parse(node->bytes, &role))
        YAML_FAIL(r, node,
                  ".role: expected forward, backward, optimize, loss, loss_backward, lr_sched, "
                  "optimize_lr_sched, rpc, dist or not_specified");
    TRY(named(r, "op_device", ATTR_STRING, &attrs[0]));
    attr_set_text(&attrs[0], (text){"", 0});
    TRY(named(r, "op_namescope", ATTR_STRING, &attrs[1]));
    attr_set_text(&attrs[1], (text){"/", 1});
    TRY(named(r, "op_role", ATTR_INT, &attrs[2]));
    attrs[2].u.i = role;
    return named(r, "op_role_var", ATTR_STRINGS, &attrs[3]);
}

/* The list of call stacks is at the end of the document: the attr is completed then. */
static weft_status note_callstack(yaml_reader *r, const yaml_node *node, weft_attr *a) {
    callstack_use u = {.attr = a, .line = node->line, .column = node->column};
    TRY(yaml_get_int(r, node, ".callstack", 0, INT32_MAX, &u.index));
    TRY(named(r, "op_callstack", ATTR_STRINGS, a));
    TRY(form_charge(r->program, r->budget, r->nuses * sizeof u));
    TRY(vector_reserve(&r->context->allocator, &r->uses, &r->use_capacity, r->nuses + 1, sizeof *r->uses));
    r->uses[r->nuses++] = u;
    return NULL;
}

static bool is_abbreviation(const yaml_node *key, const char *word) {
    return key->plain && yaml_is(key, word);
}

static void warn_unknown(yaml_reader *r, const name *op_type, const name *attr, const yaml_node *key) {
    for (size_t i = 0; i < r->nwarned; i++)
        if (r->warned[i].op_type == op_type && r->warned[i].attr == attr) return;
    if (r->nwarned == MOST_WARNED) return;
    r->warned[r->nwarned++] = (warned_attr){op_type, attr};
    context_diagnose(r->context, WEFT_WARNING, r->place, key->line, key->column,
                     "op \"%s\" has no attr \"%s\": nothing reads it", op_type->bytes, attr->bytes);
}

static weft_status ask_op_table(yaml_reader *r, const name *op_type, const yaml_node *key, const yaml_node *value,
                                const weft_attr *a) {
    const attr_rules *rules = r->context->slots[CONTEXT_ATTRS].value;
    const char *expected = "";
    if (!rules || !op_type) return NULL;
    switch (rules->advise(r->context, op_type->bytes, a, &expected)) {
    case ATTR_FITS: break;
    case ATTR_UNKNOWN: warn_unknown(r, op_type, a->name, key); break;
    case ATTR_MISFIT:
        YAML_FAIL(r, value, "attr \"%s\" of op \"%s\": expected %s", a->name->bytes, op_type->bytes, expected);
    }
    return NULL;
}

weft_status yaml_get_attrs(yaml_reader *r, const name *op_type, const yaml_node *node, weft_attr **out,
                           size_t *out_count) {
    yaml_node **items;
    size_t npairs, count = 0, n = 0;
    TRY(yaml_pairs(r, node, "attrs", &items, &npairs));
    for (size_t i = 0; i < npairs; i++) count += is_abbreviation(items[2 * i], ".role") ? 4 : 1;
    weft_attr *attrs;
    TRY(yaml_array(r, count, sizeof *attrs, &attrs));
    for (size_t i = 0; i < npairs; i++) {
        const yaml_node *key = items[2 * i], *value = items[2 * i + 1];
        if (is_abbreviation(key, ".role")) {
            TRY(expand_role(r, value, &attrs[n]));
            n += 4;
        } else if (is_abbreviation(key, ".callstack")) {
            TRY(note_callstack(r, value, &attrs[n++]));
        } else if (key->plain && key->bytes[0] == '.') {
            YAML_FAIL(r, key, "expected .role or .callstack, found %s: quote the name of an attr", key->bytes);
        } else {
            TRY(yaml_get_name(r, key, &attrs[n].name));
            TRY(get_value(r, value, &attrs[n]));
            TRY(ask_op_table(r, op_type, key, value, &attrs[n++]));
        }
    }
    *out = attrs;
    *out_count = n;
    return NULL;
}
