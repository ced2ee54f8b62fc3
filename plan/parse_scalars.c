/* parse_scalars.c: the small things of which the text form consists: keys, numbers, names. */
#include "plan/text.h"

weft_status plan_read_keys(plan_reader *r, const yaml_node *mapping, plan_key *keys, size_t nkeys) {
    if (mapping->kind != NODE_MAPPING) return yaml_error(r->context, mapping, r->place, "expected a mapping");
    for (size_t i = 0; i < mapping->count; i++) {
        const yaml_node *key = mapping->items[2 * i];
        size_t k = 0;
        while (k < nkeys && (key->kind != NODE_SCALAR || strcmp(keys[k].key, key->bytes) != 0)) k++;
        if (k == nkeys)
            return yaml_error(r->context, key, r->place, "unknown key \"%s\"",
                              key->kind == NODE_SCALAR ? key->bytes : "(a collection)");
        keys[k].node = mapping->items[2 * i + 1];
    }
    for (size_t k = 0; k < nkeys; k++)
        if (keys[k].required && !keys[k].node)
            return yaml_error(r->context, mapping, r->place, "the key \"%s\" is missing", keys[k].key);
    return NULL;
}

weft_status plan_read_int(plan_reader *r, const yaml_node *node, const char *what, int64_t low, int64_t high,
                          int64_t *out) {
    int64_t value;
    if (!yaml_as_int(node, &value) || value < low || value > high)
        return yaml_error(r->context, node, r->place, "%s: expected an integer from %lld to %lld", what, (long long)low,
                          (long long)high);
    *out = value;
    return NULL;
}

weft_status plan_read_string(plan_reader *r, const yaml_node *node, const char *what, const char **out) {
    size_t nbytes;
    const char *bytes;
    if (node->kind != NODE_SCALAR) return yaml_error(r->context, node, r->place, "%s: expected a string", what);
    TRY(yaml_as_bytes(r->context, node, r->place, &r->item, &bytes, &nbytes));
    if (memchr(bytes, 0, nbytes)) return yaml_error(r->context, node, r->place, "%s: the string holds a NUL", what);
    return (*out = arena_string(&r->plan->arena, bytes, nbytes)) ? NULL : base_out_of_memory();
}

weft_status plan_read_sequence(plan_reader *r, const yaml_node *node, const char *what) {
    if (node->kind == NODE_SEQUENCE) return NULL;
    return yaml_error(r->context, node, r->place, "%s: expected a list", what);
}

weft_status plan_read_ints(plan_reader *r, const yaml_node *node, const char *what, int64_t low, int64_t high,
                           size_t *out_count, int64_t **out) {
    TRY(plan_read_sequence(r, node, what));
    int64_t *values = ARENA_ARRAY(&r->program->arena, int64_t, node->count + 1);
    if (!values) return base_out_of_memory();
    for (size_t i = 0; i < node->count; i++) TRY(plan_read_int(r, node->items[i], what, low, high, &values[i]));
    *out_count = node->count;
    *out = values;
    return NULL;
}

weft_status plan_read_value_name(plan_reader *r, const yaml_node *node, bool optional, int32_t *out_value) {
    const char *bytes;
    size_t nbytes;
    if (optional && yaml_is_null(node)) {
        *out_value = -1;
        return NULL;
    }
    if (node->kind != NODE_SCALAR) return yaml_error(r->context, node, r->place, "expected the name of a value");
    TRY(yaml_as_bytes(r->context, node, r->place, &r->item, &bytes, &nbytes));
    const name *n = interner_find(&r->names, bytes, nbytes);
    if (!n) return yaml_error(r->context, node, r->place, "no value is named \"%s\"", bytes);
    *out_value = (int32_t)n->id;
    return NULL;
}

weft_status plan_read_stream(plan_reader *r, const yaml_node *node, int32_t *out_stream) {
    const char *bytes;
    size_t nbytes;
    if (node->kind != NODE_SCALAR) return yaml_error(r->context, node, r->place, "expected the name of a stream");
    TRY(yaml_as_bytes(r->context, node, r->place, &r->item, &bytes, &nbytes));
    for (int32_t s = 0; s < r->plan->nstreams; s++)
        if (strcmp(r->plan->stream_names[s], bytes) == 0) return *out_stream = s, NULL;
    return yaml_error(r->context, node, r->place, "no stream is named \"%s\"", bytes);
}
