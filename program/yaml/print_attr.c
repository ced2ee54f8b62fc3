/* print_attr.c: attrs as YAML. The spelling of a value gives its type where it can (3, 3.0, true, a, [3, 4]) and a
 * tag does elsewhere (!long 3). Two things that nearly every op of a Paddle program carries are abbreviated: `.role`
 * for four attrs with their usual values, `.callstack` for a call stack that stands once at the end. */
#include <inttypes.h>
#include <math.h>

#include "program/yaml/yaml_form.h"

/* --- values ------------------------------------------------------------------------------------------------------- */

const char *yaml_type_tag(attr_type type) {
    static const char *const tags[] = {
        [ATTR_INT] = "!int",          [ATTR_FLOAT] = "!float",    [ATTR_STRING] = "!string",
        [ATTR_INTS] = "!ints",        [ATTR_FLOATS] = "!floats",  [ATTR_STRINGS] = "!strings",
        [ATTR_BOOLEAN] = "!bool",     [ATTR_BOOLEANS] = "!bools", [ATTR_BLOCK] = "!block",
        [ATTR_LONG] = "!long",        [ATTR_BLOCKS] = "!blocks",  [ATTR_LONGS] = "!longs",
        [ATTR_FLOAT64S] = "!doubles", [ATTR_VAR] = "!var",        [ATTR_VARS] = "!vars",
        [ATTR_FLOAT64] = "!double",   [ATTR_SCALAR] = "!scalar",  [ATTR_SCALARS] = "!scalars",
    };
    return tags[type];
}

void yaml_put_ints(buffer *out, const int64_t *values, size_t count) {
    buffer_text(out, "[");
    for (size_t i = 0; i < count; i++) buffer_format(out, "%s%" PRId64, i ? ", " : "", values[i]);
    buffer_text(out, "]");
}

static void put_infinity(buffer *out, double value) {
    buffer_text(out, value < 0 ? "-.inf" : ".inf");
}

static void put_double(buffer *out, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isfinite(value))
        buffer_double(out, value);
    else if (isinf(value))
        put_infinity(out, value);
    else if (bits == 0x7ff8000000000000u)
        buffer_text(out, ".nan");
    else
        buffer_format(out, "!bits 0x%016" PRIX64, bits);
}

static void put_float(buffer *out, double value) {
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    if (isfinite(narrow))
        buffer_float(out, narrow);
    else if (isinf(narrow))
        put_infinity(out, value);
    else if (bits == 0x7fc00000u)
        buffer_text(out, ".nan");
    else
        buffer_format(out, "!bits 0x%08" PRIX32, bits);
}

/* A tag cannot stand before another: such a value goes into a list of one. */
static bool has_tag(const buffer *out, size_t start) {
    return start < out->nbytes && out->bytes[start] == '!';
}

static void put_tagged_double(buffer *out, double value) {
    buffer_text(out, "!double ");
    size_t start = out->nbytes;
    put_double(out, value);
    if (!has_tag(out, start) || out->failed) return;
    out->nbytes = start;
    buffer_text(out, "[");
    put_double(out, value);
    buffer_text(out, "]");
}

static void put_var_name(buffer *out, text value) {
    buffer_text(out, "!var ");
    size_t start = out->nbytes;
    yaml_put_string(out, value.bytes, value.nbytes);
    if (!has_tag(out, start) || out->failed) return;
    out->nbytes = start;
    buffer_text(out, "[");
    yaml_put_string(out, value.bytes, value.nbytes);
    buffer_text(out, "]");
}

static void put_scalar(buffer *out, const scalar *s) {
    switch (s->type) {
    case SCALAR_BOOLEAN: buffer_text(out, s->b ? "true" : "false"); break;
    case SCALAR_LONG: buffer_format(out, "%" PRId64, s->i); break;
    case SCALAR_FLOAT64: put_double(out, s->r); break;
    case SCALAR_COMPLEX128:
        buffer_text(out, "[");
        put_double(out, s->r);
        buffer_text(out, ", ");
        put_double(out, s->imaginary);
        buffer_text(out, "]");
        break;
    }
}

static void put_tagged_scalar(buffer *out, const scalar *s) {
    buffer_text(out, "!scalar ");
    size_t start = out->nbytes;
    put_scalar(out, s);
    if (!has_tag(out, start) || out->failed) return;
    out->nbytes = start;
    buffer_text(out, "{double: ");
    put_scalar(out, s);
    buffer_text(out, "}");
}

void yaml_put_strings(buffer *out, const name *const *strings, size_t count) {
    buffer_text(out, "[");
    for (size_t i = 0; i < count; i++) {
        buffer_text(out, i ? ", " : "");
        yaml_put_string(out, strings[i]->bytes, strings[i]->nbytes);
    }
    buffer_text(out, "]");
}

/* Whether the items of a list show its type. */
static bool spells_its_type(const weft_attr *a) {
    return a->type == ATTR_INTS ||
           (a->count && (a->type == ATTR_STRINGS || a->type == ATTR_FLOATS || a->type == ATTR_BOOLEANS));
}

static void put_list(buffer *out, const weft_attr *a) {
    if (!spells_its_type(a)) buffer_format(out, "%s ", yaml_type_tag(a->type));
    if (a->type == ATTR_STRINGS || a->type == ATTR_VARS) {
        yaml_put_strings(out, a->u.strings, a->count);
        return;
    }
    buffer_text(out, "[");
    for (size_t i = 0; i < a->count; i++) {
        buffer_text(out, i ? ", " : "");
        switch (a->type) {
        case ATTR_FLOATS: put_float(out, a->u.floats[i]); break;
        case ATTR_FLOAT64S: put_double(out, a->u.floats[i]); break;
        case ATTR_BOOLEANS: buffer_text(out, a->u.bools[i] ? "true" : "false"); break;
        case ATTR_SCALARS: put_scalar(out, &a->u.scalars[i]); break;
        default: buffer_format(out, "%" PRId64, a->u.ints[i]); break;
        }
    }
    buffer_text(out, "]");
}

static void put_value(buffer *out, const weft_attr *a) {
    switch (a->type) {
    case ATTR_INT: buffer_format(out, "%" PRId64, a->u.i); break;
    case ATTR_LONG: buffer_format(out, "!long %" PRId64, a->u.i); break;
    case ATTR_BLOCK: buffer_format(out, "!block %" PRId64, a->u.i); break;
    case ATTR_BOOLEAN: buffer_text(out, a->u.b ? "true" : "false"); break;
    case ATTR_FLOAT: put_float(out, a->u.f); break;
    case ATTR_FLOAT64: put_tagged_double(out, a->u.f); break;
    case ATTR_STRING: yaml_put_string(out, attr_text(a).bytes, a->count); break;
    case ATTR_VAR: put_var_name(out, attr_text(a)); break;
    case ATTR_SCALAR: put_tagged_scalar(out, a->u.scalar); break;
    default: put_list(out, a); break;
    }
}

/* --- abbreviations ------------------------------------------------------------------------------------------------ */

typedef struct word_row {
    int64_t value;
    const char *word;
} word_row;

static const word_row roles[] = {
    {WEFT_ROLE_FORWARD, "forward"},
    {WEFT_ROLE_BACKWARD, "backward"},
    {WEFT_ROLE_OPTIMIZE, "optimize"},
    {WEFT_ROLE_RPC, "rpc"},
    {WEFT_ROLE_DIST, "dist"},
    {WEFT_ROLE_LR_SCHED, "lr_sched"},
    {WEFT_ROLE_LOSS, "loss"},
    {WEFT_ROLE_NOT_SPECIFIED, "not_specified"},
    {WEFT_ROLE_LOSS | WEFT_ROLE_BACKWARD, "loss_backward"},
    {WEFT_ROLE_OPTIMIZE | WEFT_ROLE_LR_SCHED, "optimize_lr_sched"},
};
static const word_row kinds[] = {
    {WEFT_DENSE_TENSOR, "dense_tensor"},
    {WEFT_SELECTED_ROWS, "selected_rows"},
    {WEFT_FEED_MINIBATCH, "feed_minibatch"},
    {WEFT_FETCH_LIST, "fetch_list"},
    {WEFT_STEP_SCOPES, "step_scopes"},
    {WEFT_DENSE_TENSOR_ARRAY, "dense_tensor_array"},
    {WEFT_READER, "reader"},
    {WEFT_RAW, "raw"},
};

static const char *find_word(const word_row *rows, size_t count, int64_t value) {
    for (size_t i = 0; i < count; i++)
        if (rows[i].value == value) return rows[i].word;
    return NULL;
}

static bool find_value(const word_row *rows, size_t count, const char *word, int64_t *out) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].word, word) != 0) continue;
        *out = rows[i].value;
        return true;
    }
    return false;
}

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

static const char *role_word(int64_t role) {
    return find_word(roles, COUNT(roles), role);
}
bool yaml_role_parse(const char *word, int64_t *out) {
    return find_value(roles, COUNT(roles), word, out);
}
const char *yaml_kind_word(int32_t kind) {
    return find_word(kinds, COUNT(kinds), kind);
}
bool yaml_kind_parse(const char *word, int32_t *out) {
    int64_t kind;
    if (!find_value(kinds, COUNT(kinds), word, &kind)) return false;
    *out = (int32_t)kind;
    return true;
}

bool yaml_is_callstack(const weft_attr *a) {
    return a->type == ATTR_STRINGS && a->count && name_is(a->name, "op_callstack");
}

static bool is_string(const weft_attr *a, const char *attr_name, const char *value) {
    return a->type == ATTR_STRING && name_is(a->name, attr_name) && a->count == strlen(value) &&
           memcmp(attr_text(a).bytes, value, a->count) == 0;
}

/* The four attrs that `.role` stands for. */
static bool is_usual_role(const weft_attr *a, size_t left) {
    return left >= 4 && is_string(&a[0], "op_device", "") && is_string(&a[1], "op_namescope", "/") &&
           a[2].type == ATTR_INT && name_is(a[2].name, "op_role") && role_word(a[2].u.i) && a[3].type == ATTR_STRINGS &&
           a[3].count == 0 && name_is(a[3].name, "op_role_var");
}

/* --- lists of attrs ----------------------------------------------------------------------------------------------- */

bool yaml_is_long_key(const name *n) {
    enum { LONGEST_SIMPLE_KEY = 200 }; /* libyaml reads 1024 characters; each byte takes at most four */
    return n->nbytes > LONGEST_SIMPLE_KEY;
}

void yaml_put_key(buffer *out, const name *n) {
    buffer_text(out, yaml_is_long_key(n) ? "? " : "");
    yaml_put_string(out, n->bytes, n->nbytes);
    buffer_text(out, yaml_is_long_key(n) ? " : " : ": ");
}

void yaml_new_list(yaml_writer *w) {
    w->stamp++;
}

bool yaml_seen(yaml_writer *w, const name *n) {
    if (w->stamps[n->id] == w->stamp) return true;
    w->stamps[n->id] = w->stamp;
    return false;
}

static bool has_repeated_name(yaml_writer *w, const weft_attr *attrs, size_t count) {
    yaml_new_list(w);
    for (size_t i = 0; i < count; i++)
        if (yaml_seen(w, attrs[i].name)) return true;
    return false;
}

/* One entry; the number of attrs that it stands for. */
static size_t put_attr(yaml_writer *w, const weft_attr *a, size_t left) {
    if (is_usual_role(a, left)) {
        buffer_format(w->out, ".role: %s", role_word(a[2].u.i));
        return 4;
    }
    if (yaml_is_callstack(a)) {
        buffer_format(w->out, ".callstack: %" PRIu32, w->callstacks[w->ncallstacks_printed++]);
        return 1;
    }
    yaml_put_key(w->out, a->name);
    put_value(w->out, a);
    return 1;
}

void yaml_put_attrs(yaml_writer *w, const weft_attr *attrs, size_t count) {
    bool pairs = has_repeated_name(w, attrs, count);
    buffer_text(w->out, pairs ? "[{" : "{");
    for (size_t i = 0; i < count;) {
        if (i) buffer_text(w->out, pairs ? "}, {" : ", ");
        i += put_attr(w, &attrs[i], count - i);
    }
    buffer_text(w->out, pairs ? "}]" : "}");
}
