/* schema.c: the small language of ops.def's slot and attr columns (ops.h describes it).
 *
 *   slots   slot { "," slot }        slot = name [ "?" | "*" ] [ "!" | "^" | "~" ] [ ( "=" | "&" ) name ]
 *   attrs   attr { "," attr }        attr = name ":" type "=" value
 *   value   number | true | false | 'text' | "[" [ value { "," value } ] "]"
 *
 * Rows are compiled into the library, so a malformed one cannot depend on input: tests/unit/ops_table.c parses them
 * all. */
#include "ops/table.h"

#include <ctype.h>
#include <stdlib.h>

enum { MAX_LIST = 16 }; /* elements of a default that is a list */

typedef struct reader {
    const op_row *row;
    const char *text, *at;
    arena *arena;
} reader;

static weft_status malformed(const reader *r, const char *expected) {
    return weft_status_create(WEFT_INVALID_ARGUMENT, "ops.def", "row %s: \"%s\", column %d: expected %s", r->row->type,
                              r->text, (int)(r->at - r->text) + 1, expected);
}

static void skip_space(reader *r) {
    while (*r->at == ' ') r->at++;
}

static bool accept(reader *r, char c) {
    skip_space(r);
    if (*r->at != c) return false;
    r->at++;
    return true;
}

static bool at_end(reader *r) {
    skip_space(r);
    return *r->at == '\0';
}

static size_t word_nbytes(const char *at) {
    size_t n = 0;
    while (isalnum((unsigned char)at[n]) || at[n] == '_' || at[n] == '@' || at[n] == '.' || at[n] == '-' ||
           at[n] == '+')
        n++;
    return n;
}

static weft_status read_word(reader *r, const char *expected, const char **out) {
    skip_space(r);
    size_t n = word_nbytes(r->at);
    if (!n) return malformed(r, expected);
    if (!(*out = arena_string(r->arena, r->at, n))) return base_out_of_memory();
    r->at += n;
    return NULL;
}

/* --- slots -------------------------------------------------------------------------------------------------------- */

static int slot_index(const slot_schema *slots, size_t count, const char *slot_name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(slots[i].name, slot_name) == 0) return (int)i;
    return -1;
}

static size_t count_items(const char *s) {
    size_t n = *s != '\0', depth = 0;
    bool quoted = false;
    for (; *s; s++) {
        if (*s == '\'') quoted = !quoted;
        if (quoted) continue;
        if (*s == '[') depth++;
        if (*s == ']' && depth) depth--;
        n += *s == ',' && !depth;
    }
    return n;
}

static weft_status read_slot(reader *r, const slot_schema *inputs, size_t ninputs, slot_schema *out) {
    TRY(read_word(r, "a slot's name", &out->name));
    out->arity = accept(r, '?') ? SLOT_OPTIONAL : accept(r, '*') ? SLOT_LIST : SLOT_ONE;
    out->only_type = accept(r, '!');
    out->host_read = !out->only_type && accept(r, '^');
    out->untouched = !out->only_type && !out->host_read && accept(r, '~');
    out->in_place_of = out->view_of = -1;
    int *relation = accept(r, '=') ? &out->in_place_of : accept(r, '&') ? &out->view_of : NULL;
    if (!relation) return NULL;
    const char *input;
    TRY(read_word(r, "an input slot's name", &input));
    *relation = slot_index(inputs, ninputs, input);
    return *relation < 0 ? malformed(r, "the name of a slot among the row's inputs") : NULL;
}

static weft_status parse_slots(arena *a, const op_row *row, const char *s, const slot_schema *inputs, size_t ninputs,
                               const slot_schema **out_slots, size_t *out_count) {
    reader r = {.row = row, .text = s, .at = s, .arena = a};
    size_t count = count_items(s);
    slot_schema *slots = ARENA_ARRAY(a, slot_schema, count ? count : 1);
    if (!slots) return base_out_of_memory();
    for (size_t i = 0; i < count; i++) {
        if (i && !accept(&r, ',')) return malformed(&r, "','");
        TRY(read_slot(&r, inputs, ninputs, &slots[i]));
        if (slot_index(slots, i, slots[i].name) >= 0) return malformed(&r, "a slot that was not named before");
    }
    if (!at_end(&r)) return malformed(&r, "',' or the end");
    *out_slots = slots;
    *out_count = count;
    return NULL;
}

/* --- attrs -------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *word;
    attr_type type;
} attr_types[] = {{"int", ATTR_INT},           {"float", ATTR_FLOAT},    {"string", ATTR_STRING},
                  {"ints", ATTR_INTS},         {"floats", ATTR_FLOATS},  {"strings", ATTR_STRINGS},
                  {"bool", ATTR_BOOLEAN},      {"bools", ATTR_BOOLEANS}, {"block", ATTR_BLOCK},
                  {"long", ATTR_LONG},         {"longs", ATTR_LONGS},    {"float64", ATTR_FLOAT64},
                  {"float64s", ATTR_FLOAT64S}, {"scalars", ATTR_SCALARS}};

static weft_status read_type(reader *r, attr_type *out) {
    const char *word;
    TRY(read_word(r, "an attr type", &word));
    for (size_t i = 0; i < sizeof attr_types / sizeof *attr_types; i++)
        if (strcmp(attr_types[i].word, word) == 0) {
            *out = attr_types[i].type;
            return NULL;
        }
    return malformed(r, "int, float, string, ints, floats, strings, bool, bools, block, long, longs, float64, float64s "
                        "or scalars");
}

static weft_status read_int(reader *r, int64_t *out) {
    const char *word;
    char *end;
    TRY(read_word(r, "an integer", &word));
    *out = strtoll(word, &end, 10);
    return *end ? malformed(r, "an integer") : NULL;
}

static weft_status read_float(reader *r, double *out) {
    const char *word;
    char *end;
    TRY(read_word(r, "a number", &word));
    *out = strtod(word, &end);
    return *end ? malformed(r, "a number") : NULL;
}

static weft_status read_bool(reader *r, bool *out) {
    const char *word;
    TRY(read_word(r, "true or false", &word));
    *out = strcmp(word, "true") == 0;
    return *out || strcmp(word, "false") == 0 ? NULL : malformed(r, "true or false");
}

static weft_status read_string(reader *r, weft_attr *out) {
    if (!accept(r, '\'')) return malformed(r, "a text in single quotes");
    const char *end = strchr(r->at, '\'');
    if (!end) return malformed(r, "a closing quote");
    out->count = (uint32_t)(end - r->at);
    if (!(out->u.s = arena_string(r->arena, r->at, out->count))) return base_out_of_memory();
    r->at = end + 1;
    return NULL;
}

static weft_status read_ints(reader *r, weft_attr *out) {
    int64_t values[MAX_LIST];
    if (!accept(r, '[')) return malformed(r, "'['");
    while (!accept(r, ']')) {
        if (out->count && !accept(r, ',')) return malformed(r, "',' or ']'");
        if (out->count == MAX_LIST) return malformed(r, "at most 16 elements");
        TRY(read_int(r, &values[out->count++]));
    }
    if (!out->count) return NULL;
    out->u.ints = arena_copy(r->arena, values, out->count * sizeof *values);
    return out->u.ints ? NULL : base_out_of_memory();
}

static weft_status read_floats(reader *r, weft_attr *out) {
    double values[MAX_LIST];
    if (!accept(r, '[')) return malformed(r, "'['");
    while (!accept(r, ']')) {
        if (out->count && !accept(r, ',')) return malformed(r, "',' or ']'");
        if (out->count == MAX_LIST) return malformed(r, "at most 16 elements");
        TRY(read_float(r, &values[out->count++]));
    }
    if (!out->count) return NULL;
    out->u.floats = arena_copy(r->arena, values, out->count * sizeof *values);
    return out->u.floats ? NULL : base_out_of_memory();
}

static weft_status read_default(reader *r, weft_attr *out) {
    switch (out->type) {
    case ATTR_INT:
    case ATTR_LONG:
    case ATTR_BLOCK: return read_int(r, &out->u.i);
    case ATTR_FLOAT:
        TRY(read_float(r, &out->u.f));
        out->u.f = (double)(float)out->u.f;
        return NULL;
    case ATTR_FLOAT64: return read_float(r, &out->u.f);
    case ATTR_BOOLEAN: return read_bool(r, &out->u.b);
    case ATTR_STRING: return read_string(r, out);
    case ATTR_INTS:
    case ATTR_LONGS: return read_ints(r, out);
    case ATTR_FLOATS:
    case ATTR_FLOAT64S: return read_floats(r, out);
    default: /* other lists are empty by default */ return accept(r, '[') && accept(r, ']') ? NULL : malformed(r, "[]");
    }
}

static weft_status read_attr(reader *r, attr_schema *out) {
    TRY(read_word(r, "an attr's name", &out->name));
    if (!accept(r, ':')) return malformed(r, "':'");
    TRY(read_type(r, &out->type));
    if (!accept(r, '=')) return malformed(r, "'=' and a default");
    out->default_value.type = out->type;
    return read_default(r, &out->default_value);
}

static weft_status parse_attrs(arena *a, const op_row *row, op_schema *out) {
    reader r = {.row = row, .text = row->attrs, .at = row->attrs, .arena = a};
    size_t count = count_items(row->attrs);
    attr_schema *attrs = ARENA_ARRAY(a, attr_schema, count ? count : 1);
    if (!attrs) return base_out_of_memory();
    for (size_t i = 0; i < count; i++) {
        if (i && !accept(&r, ',')) return malformed(&r, "','");
        TRY(read_attr(&r, &attrs[i]));
        for (size_t j = 0; j < i; j++)
            if (strcmp(attrs[j].name, attrs[i].name) == 0) return malformed(&r, "an attr that was not named before");
    }
    if (!at_end(&r)) return malformed(&r, "',' or the end");
    out->attrs = attrs;
    out->nattrs = count;
    return NULL;
}

weft_status schema_parse(arena *a, const op_row *row, op_schema *out) {
    *out = (op_schema){.type = row->type,
                       .family = row->family,
                       .summary = row->summary,
                       .effects = row->effect_bits,
                       .infer = row->infer};
    TRY(parse_slots(a, row, row->inputs, NULL, 0, &out->inputs, &out->ninputs));
    TRY(parse_slots(a, row, row->outputs, out->inputs, out->ninputs, &out->outputs, &out->noutputs));
    size_t nviews = 0;
    for (size_t i = 0; i < out->noutputs; i++) nviews += out->outputs[i].view_of >= 0;
    for (size_t i = 0; i < out->noutputs; i++) out->effects |= out->outputs[i].untouched ? OP_NAMES : 0u;
    if (nviews) out->effects |= OP_VIEWS | (nviews == out->noutputs ? OP_ONLY_VIEWS : 0u);
    return parse_attrs(a, row, out);
}
