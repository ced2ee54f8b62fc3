/* options.c: options of passes: from YAML nodes to values, strictly typed, and back to passes by name. */
#include <assert.h>

#include "passes/pass_manager.h"

static const char *const type_names[] = {
    [WEFT_OPTION_BOOL] = "true or false",
    [WEFT_OPTION_INT] = "an integer",
    [WEFT_OPTION_FLOAT] = "a number",
    [WEFT_OPTION_STRING] = "a string",
    [WEFT_OPTION_STRINGS] = "a sequence of strings",
};

size_t option_find(const weft_pass *pass, const char *option) {
    for (size_t i = 0; i < pass->noptions; i++)
        if (strcmp(pass->options[i].name, option) == 0) return i;
    return SIZE_MAX;
}

weft_status option_unknown(weft_context *context, const weft_pass *pass, const yaml_node *key, const char *place) {
    buffer known;
    buffer_init(&known, &context->allocator);
    for (size_t i = 0; i < pass->noptions; i++) buffer_format(&known, "%s%s", i ? ", " : "", pass->options[i].name);
    buffer_append(&known, "", 1);
    weft_status status = buffer_status(&known);
    if (!status && pass->noptions)
        status = yaml_error(context, key, place, "pass %s has no option \"%s\": expected one of %s", pass->name,
                            key->bytes, known.bytes);
    else if (!status)
        status = yaml_error(context, key, place, "pass %s has no options, found \"%s\"", pass->name, key->bytes);
    buffer_fini(&known);
    return status;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* Text that YAML reads as a string: quoted, or plain and nothing else. */
static bool is_string(const yaml_node *node) {
    bool b;
    double f;
    return node->kind == NODE_SCALAR && !node->tag && !yaml_is_null(node) && !yaml_as_bool(node, &b) &&
           !yaml_as_double(node, &f) && strlen(node->bytes) == node->nbytes;
}

static weft_status wrong_type(weft_context *context, const weft_pass *pass, const weft_option *option,
                              const yaml_node *node, const char *place) {
    const char *found = node->kind == NODE_SEQUENCE ? "a sequence" : node->kind == NODE_MAPPING ? "a mapping" : NULL;
    if (found)
        return yaml_error(context, node, place, "%s.%s: expected %s, found %s", pass->name, option->name,
                          type_names[option->type], found);
    bool has_words = option->type == WEFT_OPTION_FLOAT && option->choices;
    return yaml_error(context, node, place, "%s.%s: expected %s%s%s, found \"%s\"", pass->name, option->name,
                      type_names[option->type], has_words ? " or " : "", has_words ? option->choices : "", node->bytes);
}

static bool is_choice(const char *choices, const char *value) {
    size_t nbytes = strlen(value);
    for (const char *at = choices; at;) {
        const char *bar = strchr(at, '|');
        size_t n = bar ? (size_t)(bar - at) : strlen(at);
        if (n == nbytes && memcmp(at, value, n) == 0) return true;
        at = bar ? bar + 1 : NULL;
    }
    return false;
}

static weft_status read_string(weft_context *context, const weft_pass *pass, const weft_option *option,
                               const yaml_node *node, const char *place, arena *a, const char **out) {
    if (!is_string(node)) return wrong_type(context, pass, option, node, place);
    if (option->choices && !is_choice(option->choices, node->bytes))
        return yaml_error(context, node, place, "%s.%s: expected one of %s, found \"%s\"", pass->name, option->name,
                          option->choices, node->bytes);
    *out = arena_string(a, node->bytes, node->nbytes);
    return *out ? NULL : base_out_of_memory();
}

static weft_status read_strings(weft_context *context, const weft_pass *pass, const weft_option *option,
                                const yaml_node *node, const char *place, arena *a, option_value *out) {
    if (node->kind != NODE_SEQUENCE) return wrong_type(context, pass, option, node, place);
    const char **strings = ARENA_ARRAY(a, const char *, node->count);
    if (!strings) return base_out_of_memory();
    for (size_t i = 0; i < node->count; i++)
        TRY(read_string(context, pass, option, node->items[i], place, a, &strings[i]));
    out->strings = strings;
    out->nstrings = node->count;
    return NULL;
}

weft_status option_read(weft_context *context, const weft_pass *pass, const weft_option *option, const yaml_node *node,
                        const char *place, arena *a, option_value *out) {
    option_value value = {.given = true, .s = ""};
    bool fits = true;
    switch (option->type) {
    case WEFT_OPTION_BOOL: fits = yaml_as_bool(node, &value.b); break;
    case WEFT_OPTION_INT: fits = yaml_as_int(node, &value.i); break;
    case WEFT_OPTION_FLOAT:
        fits = yaml_as_double(node, &value.f);
        if (!fits && option->choices && is_string(node) && is_choice(option->choices, node->bytes)) {
            TRY(read_string(context, pass, option, node, place, a, &value.s));
            fits = true;
        }
        break;
    case WEFT_OPTION_STRING: TRY(read_string(context, pass, option, node, place, a, &value.s)); break;
    case WEFT_OPTION_STRINGS: TRY(read_strings(context, pass, option, node, place, a, &value)); break;
    }
    if (!fits) return wrong_type(context, pass, option, node, place);
    *out = value;
    return NULL;
}

/* --- for passes --------------------------------------------------------------------------------------------------- */

static const option_value *value_of(const weft_pass_context *pass, const char *option, weft_option_type type) {
    static const option_value none = {.s = ""};
    size_t i = option_find(pass->entry->pass, option);
    bool declared = i != SIZE_MAX && pass->entry->pass->options[i].type == type;
    assert(declared && "the option is declared with this type");
    return declared ? &pass->entry->values[i] : &none;
}

bool weft_pass_option_bool(const weft_pass_context *pass, const char *option) {
    return value_of(pass, option, WEFT_OPTION_BOOL)->b;
}

int64_t weft_pass_option_int(const weft_pass_context *pass, const char *option) {
    return value_of(pass, option, WEFT_OPTION_INT)->i;
}

double weft_pass_option_float(const weft_pass_context *pass, const char *option) {
    return value_of(pass, option, WEFT_OPTION_FLOAT)->f;
}

const char *weft_pass_option_string(const weft_pass_context *pass, const char *option) {
    return value_of(pass, option, WEFT_OPTION_STRING)->s;
}

size_t weft_pass_option_strings(const weft_pass_context *pass, const char *option, const char *const **out_values) {
    const option_value *value = value_of(pass, option, WEFT_OPTION_STRINGS);
    *out_values = value->strings;
    return value->nstrings;
}

bool pass_option_is_word(const weft_pass_context *pass, const char *option) {
    return *value_of(pass, option, WEFT_OPTION_FLOAT)->s != '\0';
}

bool weft_pass_option_given(const weft_pass_context *pass, const char *option) {
    size_t i = option_find(pass->entry->pass, option);
    return i != SIZE_MAX && pass->entry->values[i].given;
}
