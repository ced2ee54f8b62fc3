/* values.c: the small values of the YAML form, each an error at its line and column where it is not one. */
#include <inttypes.h>

#include "program/grow.h"
#include "program/yaml/yaml_form.h"

static const char *kind_word(const yaml_node *node) {
    return node->kind == NODE_MAPPING ? "a mapping" : node->kind == NODE_SEQUENCE ? "a list" : "a scalar";
}

bool yaml_is(const yaml_node *key, const char *word) {
    return key->kind == NODE_SCALAR && !key->tag && key->nbytes == strlen(word) &&
           memcmp(key->bytes, word, key->nbytes) == 0;
}

weft_status yaml_pairs(yaml_reader *r, const yaml_node *node, const char *what, yaml_node ***out_items,
                       size_t *out_count) {
    if (node->tag) YAML_FAIL(r, node, "expected %s without a tag, found %s", what, node->tag);
    if (node->kind == NODE_SCALAR) YAML_FAIL(r, node, "expected %s as a mapping, found a scalar", what);
    *out_items = node->items;
    *out_count = node->count;
    if (node->kind == NODE_MAPPING) return NULL;
    yaml_node **items = ARENA_ARRAY(&r->item, yaml_node *, 2 * node->count);
    if (!items) return base_out_of_memory();
    for (size_t i = 0; i < node->count; i++) {
        const yaml_node *pair = node->items[i];
        if (pair->kind != NODE_MAPPING || pair->count != 1)
            YAML_FAIL(r, pair, "expected a mapping with one pair in this list of %s", what);
        items[2 * i] = pair->items[0];
        items[2 * i + 1] = pair->items[1];
    }
    *out_items = items;
    return NULL;
}

weft_status yaml_array(yaml_reader *r, size_t count, size_t size, void *out_array) {
    size_t nbytes;
    if (!base_mul(count, size, &nbytes) || !base_add(nbytes, r->item.total_nbytes, &nbytes))
        return form_over_budget(r->program, r->budget);
    TRY(form_charge(r->program, r->budget, nbytes));
    void *array = arena_array(&r->program->arena, count, size);
    if (!array) return base_out_of_memory();
    memcpy(out_array, &array, sizeof array);
    return NULL;
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

weft_status yaml_get_int(yaml_reader *r, const yaml_node *node, const char *what, int64_t min, int64_t max,
                         int64_t *out) {
    int64_t value;
    if (!yaml_as_int(node, &value))
        YAML_FAIL(r, node, "%s: expected an integer, found %s%s%s", what,
                  node->kind == NODE_SCALAR ? "\"" : kind_word(node), node->kind == NODE_SCALAR ? node->bytes : "",
                  node->kind == NODE_SCALAR ? "\"" : "");
    if (value < min || value > max)
        YAML_FAIL(r, node, "%s: expected an integer from %" PRId64 " to %" PRId64 ", found %" PRId64, what, min, max,
                  value);
    *out = value;
    return NULL;
}

weft_status yaml_get_bool(yaml_reader *r, const yaml_node *node, const char *what, bool *out) {
    if (yaml_as_bool(node, out)) return NULL;
    YAML_FAIL(r, node, "%s: expected true or false, found %s%s", what, kind_word(node),
              node->kind == NODE_SCALAR ? " that is neither" : "");
}

weft_status yaml_get_ints(yaml_reader *r, const yaml_node *node, const char *what, const int64_t **out,
                          size_t *out_count) {
    int64_t *values;
    if (node->kind != NODE_SEQUENCE || node->tag)
        YAML_FAIL(r, node, "%s: expected a list of integers, found %s", what, kind_word(node));
    TRY(yaml_array(r, node->count, sizeof *values, &values));
    for (size_t i = 0; i < node->count; i++)
        TRY(yaml_get_int(r, node->items[i], what, INT64_MIN, INT64_MAX, &values[i]));
    *out = values;
    *out_count = node->count;
    return NULL;
}

/* --- strings ------------------------------------------------------------------------------------------------------ */

weft_status yaml_get_name(yaml_reader *r, const yaml_node *node, const name **out) {
    const char *bytes;
    size_t nbytes;
    TRY(yaml_as_bytes(r->context, node, r->place, &r->item, &bytes, &nbytes));
    TRY(form_charge(r->program, r->budget, nbytes));
    return program_name(r->program, bytes, nbytes, out);
}

weft_status yaml_get_text(yaml_reader *r, const yaml_node *node, text *out) {
    const char *bytes;
    size_t nbytes;
    TRY(yaml_as_bytes(r->context, node, r->place, &r->item, &bytes, &nbytes));
    TRY(form_charge(r->program, r->budget, nbytes));
    const char *copy = arena_string(&r->program->arena, bytes, nbytes);
    if (!copy) return base_out_of_memory();
    *out = (text){copy, nbytes};
    return NULL;
}

weft_status yaml_get_string(yaml_reader *r, const yaml_node *node, const char **out) {
    text value;
    TRY(yaml_get_text(r, node, &value));
    if (memchr(value.bytes, '\0', value.nbytes)) YAML_FAIL(r, node, "expected text without NUL");
    *out = value.bytes;
    return NULL;
}

static weft_status get_string(yaml_reader *r, const yaml_node *node, const name **out) {
    const char *bytes;
    size_t nbytes;
    TRY(yaml_as_bytes(r->context, node, r->place, &r->item, &bytes, &nbytes));
    TRY(form_charge(r->program, r->budget, nbytes));
    return (*out = name_create(&r->program->arena, bytes, nbytes)) ? NULL : base_out_of_memory();
}

weft_status yaml_get_strings(yaml_reader *r, const yaml_node *node, const char *what, const name *const **out,
                             uint32_t *out_count) {
    const name **strings;
    if (node->kind != NODE_SEQUENCE) YAML_FAIL(r, node, "%s: expected a list, found %s", what, kind_word(node));
    TRY(yaml_array(r, node->count, sizeof *strings, &strings));
    for (size_t i = 0; i < node->count; i++) TRY(get_string(r, node->items[i], &strings[i]));
    *out = strings;
    *out_count = (uint32_t)node->count;
    return NULL;
}
