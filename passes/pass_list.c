/* pass_list.c: pass lists from YAML: `passes: [name, {name: {options}}]`, or the short form "name, name: {options}" in
 * one line, which is a flow sequence without its brackets. Everything unknown is an error with its line and column. */
#include "passes/pass_manager.h"
#include "weft/certificate.h"

/* --- the two forms ------------------------------------------------------------------------------------------------ */

/* The long form has a mapping at its top: it starts with `passes:` or a brace, or has more than one line. */
static bool is_short_form(const char *yaml, size_t nbytes) {
    size_t first = 0, end = nbytes;
    while (end && strchr(" \t\r\n", yaml[end - 1]) && yaml[end - 1]) end--;
    while (first < end && strchr(" \t\r\n", yaml[first]) && yaml[first]) first++;
    if (first == end || memchr(yaml + first, '\n', end - first)) return false;
    if (strchr("{[#%-", yaml[first])) return false;
    static const char key[] = "passes";
    if (end - first < sizeof key || memcmp(yaml + first, key, sizeof key - 1) != 0) return true;
    size_t after = first + sizeof key - 1;
    while (after < end && yaml[after] == ' ') after++;
    return after == end || yaml[after] != ':';
}

static weft_status read_short_form(weft_context *context, const char *yaml, size_t nbytes, const char *place, arena *a,
                                   yaml_node **out_items) {
    buffer wrapped;
    buffer_init(&wrapped, &context->allocator);
    buffer_text(&wrapped, "[\n"); /* a line of its own keeps columns; line_offset mends lines */
    buffer_append(&wrapped, yaml, nbytes);
    buffer_text(&wrapped, "\n]");
    weft_status status = buffer_status(&wrapped);
    yaml_limits limits = {.line_offset = -1};
    if (!status) status = yaml_read(context, wrapped.bytes, wrapped.nbytes, place, &limits, a, out_items);
    buffer_fini(&wrapped);
    return status;
}

static weft_status read_prove(weft_context *context, const yaml_node *node, const char *place, weft_prove *out) {
    static const char *const names[] = {[WEFT_PROVE_OFF] = "off", "report", "require"};
    for (size_t i = WEFT_PROVE_OFF; i <= WEFT_PROVE_REQUIRE && node->kind == NODE_SCALAR; i++)
        if (strcmp(node->bytes, names[i]) == 0) return *out = (weft_prove)i, NULL;
    return yaml_error(context, node, place, "prove: expected off, report or require");
}

static weft_status read_long_form(weft_context *context, const char *yaml, size_t nbytes, const char *place, arena *a,
                                  weft_prove *out_prove, yaml_node **out_items) {
    yaml_node *root = NULL;
    TRY(yaml_read(context, yaml, nbytes, place, NULL, a, &root));
    if (root->kind != NODE_MAPPING)
        return yaml_error(context, root, place, "expected a mapping with the key \"passes\"");
    for (size_t i = 0; i < root->count; i++) {
        if (strcmp(root->items[2 * i]->bytes, "prove") == 0)
            TRY(read_prove(context, root->items[2 * i + 1], place, out_prove));
        else if (strcmp(root->items[2 * i]->bytes, "passes") != 0)
            return yaml_error(context, root->items[2 * i], place, "expected the key \"passes\", found \"%s\"",
                              root->items[2 * i]->bytes);
    }
    yaml_node *items = yaml_get(root, "passes");
    if (!items) return yaml_error(context, root, place, "expected the key \"passes\"");
    if (items->kind != NODE_SEQUENCE) return yaml_error(context, items, place, "passes: expected a sequence");
    *out_items = items;
    return NULL;
}

/* --- entries ------------------------------------------------------------------------------------------------------ */

static weft_status find_pass(weft_context *context, const yaml_node *key, const char *place,
                             const registered_pass **out) {
    if (key->kind != NODE_SCALAR) return yaml_error(context, key, place, "expected the name of a pass");
    *out = passes_find(context, key->bytes);
    if (*out) return NULL;
    const char *nearest = passes_suggest(context, key->bytes);
    if (nearest)
        return yaml_error(context, key, place, "there is no pass \"%s\": did you mean \"%s\"?", key->bytes, nearest);
    return yaml_error(context, key, place, "there is no pass \"%s\"", key->bytes);
}

static weft_status read_options(weft_pass_list *list, pass_entry *entry, const yaml_node *options, const char *place) {
    if (yaml_is_null(options)) return NULL; /* `name:` alone */
    if (options->kind != NODE_MAPPING)
        return yaml_error(list->context, options, place, "%s: expected a mapping of options", entry->pass->name);
    for (size_t i = 0; i < options->count; i++) {
        const yaml_node *key = options->items[2 * i];
        size_t found = option_find(entry->pass, key->bytes);
        if (found == SIZE_MAX) return option_unknown(list->context, entry->pass, key, place);
        TRY(option_read(list->context, entry->pass, &entry->pass->options[found], options->items[2 * i + 1], place,
                        &list->arena, &entry->values[found]));
    }
    return NULL;
}

static weft_status read_entry(weft_pass_list *list, const yaml_node *item, const char *place, pass_entry *out) {
    bool has_options = item->kind == NODE_MAPPING;
    if (has_options && item->count != 1)
        return yaml_error(list->context, item, place, "expected one pass with its options, found a mapping of %zu keys",
                          item->count);
    const registered_pass *found = NULL;
    TRY(find_pass(list->context, has_options ? item->items[0] : item, place, &found));
    out->pass = &found->pass;
    out->values = ARENA_ARRAY(&list->arena, option_value, found->pass.noptions);
    if (!out->values) return base_out_of_memory();
    if (found->pass.noptions) memcpy(out->values, found->defaults, found->pass.noptions * sizeof *out->values);
    return has_options ? read_options(list, out, item->items[1], place) : NULL;
}

static weft_status read_entries(weft_pass_list *list, const yaml_node *items, const char *place) {
    list->entries = ARENA_ARRAY(&list->arena, pass_entry, items->count);
    if (!list->entries) return base_out_of_memory();
    weft_status first = NULL;
    for (size_t i = 0; i < items->count; i++) { /* every entry that is wrong is told; the status has the first */
        weft_status status = read_entry(list, items->items[i], place, &list->entries[i]);
        if (first) weft_status_free(status);
        if (!first) first = status;
        if (weft_status_code(first) == WEFT_OUT_OF_MEMORY) break;
    }
    list->count = first ? 0 : items->count;
    return first;
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

weft_status weft_pass_list_parse(weft_context *context, const char *yaml, size_t nbytes, const char *place,
                                 weft_pass_list **out_list) {
    weft_pass_list *list = base_alloc(&context->allocator, sizeof *list);
    if (!list) return base_out_of_memory();
    *list = (weft_pass_list){.context = context};
    arena_init(&list->arena, &context->allocator);
    arena scratch;
    arena_init(&scratch, &context->allocator);
    yaml_node *items = NULL;
    weft_status status = NULL;
    if (!place) place = "passes";
    if (is_short_form(yaml, nbytes))
        TRY_DONE(read_short_form(context, yaml, nbytes, place, &scratch, &items));
    else
        TRY_DONE(read_long_form(context, yaml, nbytes, place, &scratch, &list->prove, &items));
    TRY_DONE(read_entries(list, items, place));
    *out_list = list;
done:
    arena_fini(&scratch);
    if (status) weft_pass_list_destroy(list);
    return status;
}

void weft_pass_list_destroy(weft_pass_list *list) {
    if (!list) return;
    arena_fini(&list->arena);
    weft_context *context = list->context;
    base_free(&context->allocator, list, sizeof *list);
}

weft_prove weft_pass_list_prove(const weft_pass_list *list) {
    return list->prove;
}

void weft_pass_list_set_prove(weft_pass_list *list, weft_prove how) {
    list->prove = how;
}

void weft_pass_list_set_certify(weft_pass_list *list, bool certify) {
    list->certify = certify;
}

size_t weft_pass_list_count(const weft_pass_list *list) {
    return list->count;
}

/* --- overrides ---------------------------------------------------------------------------------------------------- */

/* Gives `value` to option `key` of every entry of that pass. */
static weft_status set_everywhere(weft_pass_list *list, const char *pass_name, const yaml_node *key,
                                  const yaml_node *value, const char *place) {
    bool found = false;
    for (size_t i = 0; i < list->count; i++) {
        pass_entry *entry = &list->entries[i];
        if (strcmp(entry->pass->name, pass_name) != 0) continue;
        found = true;
        size_t o = option_find(entry->pass, key->bytes);
        if (o == SIZE_MAX) return option_unknown(list->context, entry->pass, key, place);
        TRY(option_read(list->context, entry->pass, &entry->pass->options[o], value, place, &list->arena,
                        &entry->values[o]));
    }
    if (found) return NULL;
    bool known = weft_pass_find(list->context, pass_name);
    return weft_status_create(WEFT_NOT_FOUND, place, "%s \"%s\"",
                              known ? "the pass list does not hold" : "there is no pass", pass_name);
}

weft_status weft_pass_list_set(weft_pass_list *list, const char *assignment) {
    const char *dot = strchr(assignment, '.'), *equals = strchr(assignment, '=');
    if (!dot || !equals || dot > equals || dot == assignment || dot + 1 == equals)
        return weft_status_create(WEFT_INVALID_ARGUMENT, assignment, "expected PASS.KEY=VALUE");
    arena scratch;
    arena_init(&scratch, &list->context->allocator);
    weft_status status = NULL;
    yaml_node key = {.kind = NODE_SCALAR, .line = 1, .column = (int)(dot - assignment) + 2, .plain = true};
    char *pass_name = arena_string(&scratch, assignment, (size_t)(dot - assignment));
    key.nbytes = (size_t)(equals - dot) - 1;
    key.bytes = arena_string(&scratch, dot + 1, key.nbytes);
    if (!pass_name || !key.bytes) TRY_DONE(base_out_of_memory());
    yaml_node empty = {.kind = NODE_SCALAR, .line = 1, .column = 1, .bytes = ""}, *value = &empty;
    if (equals[1]) {
        TRY_DONE(yaml_read(list->context, equals + 1, strlen(equals + 1), assignment, NULL, &scratch, &value));
        if (value->line == 1) value->column += (int)(equals - assignment) + 1;
    }
    TRY_DONE(set_everywhere(list, pass_name, &key, value, assignment));
done:
    arena_fini(&scratch);
    return status;
}
