/* registry.c: the table of passes: the library's own from passes.def, then the host's. Defaults are read when a pass is
 * registered, by the code that reads pass lists, so that a wrong one is found at once. */
#include "base/nearest.h"
#include "passes/pass_manager.h"

typedef struct pass_table {
    registered_pass **passes;
    size_t count, capacity;
} pass_table;

static pass_table *table_of(weft_context *context) {
    return context->slots[CONTEXT_PASSES].value;
}

static weft_status read_default(weft_context *context, const weft_pass *pass, const weft_option *option,
                                option_value *out) {
    *out = (option_value){.s = ""};
    if (!option->default_value || !option->default_value[0]) return NULL;
    arena scratch;
    arena_init(&scratch, &context->allocator);
    yaml_node *node = NULL;
    weft_status status =
        yaml_read(context, option->default_value, strlen(option->default_value), pass->name, NULL, &scratch, &node);
    if (!status) status = option_read(context, pass, option, node, pass->name, &context->arena, out);
    out->given = false;
    arena_fini(&scratch);
    return status;
}

static weft_status check_pass(weft_context *context, const weft_pass *pass) {
    if (!pass->name || !pass->name[0] || !pass->run)
        return weft_status_create(WEFT_INVALID_ARGUMENT, pass->name, "a pass needs a name and a run function");
    if (passes_find(context, pass->name))
        return weft_status_create(WEFT_INVALID_ARGUMENT, pass->name, "a pass of this name is registered already");
    for (size_t i = 0; i < pass->noptions; i++)
        if (option_find(pass, pass->options[i].name) != i)
            return weft_status_create(WEFT_INVALID_ARGUMENT, pass->name, "option \"%s\" is declared twice",
                                      pass->options[i].name);
    return NULL;
}

static weft_status grow(weft_context *context, pass_table *table) {
    if (table->count < table->capacity) return NULL;
    size_t capacity = table->capacity ? table->capacity * 2 : 16;
    registered_pass **passes = ARENA_ARRAY(&context->arena, registered_pass *, capacity);
    if (!passes) return base_out_of_memory();
    if (table->count) memcpy(passes, table->passes, table->count * sizeof *passes);
    table->passes = passes;
    table->capacity = capacity;
    return NULL;
}

weft_status weft_pass_register(weft_context *context, const weft_pass *pass) {
    pass_table *table = table_of(context);
    TRY(check_pass(context, pass));
    registered_pass *entry = ARENA_NEW(&context->arena, registered_pass);
    option_value *defaults = ARENA_ARRAY(&context->arena, option_value, pass->noptions);
    if (!entry || !defaults) return base_out_of_memory();
    for (size_t i = 0; i < pass->noptions; i++) TRY(read_default(context, pass, &pass->options[i], &defaults[i]));
    *entry = (registered_pass){*pass, defaults};
    TRY(grow(context, table));
    table->passes[table->count++] = entry;
    return NULL;
}

weft_status passes_register(weft_context *context) {
    static const struct {
        const char *name, *summary;
        const weft_pass *pass;
    } rows[] = {
#define PASS(name, summary) {#name, summary, &pass_##name},
#include "passes/passes.def"
#undef PASS
    };
    pass_table *table = ARENA_NEW(&context->arena, pass_table);
    if (!table) return base_out_of_memory();
    context->slots[CONTEXT_PASSES].value = table;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weft_pass pass = *rows[i].pass;
        pass.name = rows[i].name;
        pass.summary = rows[i].summary;
        TRY(weft_pass_register(context, &pass));
    }
    return NULL;
}

size_t weft_pass_count(weft_context *context) {
    return table_of(context)->count;
}

const weft_pass *weft_pass_at(weft_context *context, size_t index) {
    const pass_table *table = table_of(context);
    return index < table->count ? &table->passes[index]->pass : NULL;
}

const registered_pass *passes_find(weft_context *context, const char *wanted) {
    const pass_table *table = table_of(context);
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->passes[i]->pass.name, wanted) == 0) return table->passes[i];
    return NULL;
}

const weft_pass *weft_pass_find(weft_context *context, const char *wanted) {
    const registered_pass *found = passes_find(context, wanted);
    return found ? &found->pass : NULL;
}

const char *passes_suggest(weft_context *context, const char *wanted) {
    const pass_table *table = table_of(context);
    nearest_name nearest = nearest_to(wanted);
    for (size_t i = 0; i < table->count; i++) nearest_try(&nearest, table->passes[i]->pass.name);
    return nearest.name;
}
