/* devices.c: which devices there are: those that are built in, and those that were registered with a context; and which
 * of the former run an op. */
#include <stdio.h>

#include "executor/device.h"
#include "executor/devices/cpu/cpu.h"
#include "executor/devices/plugin.h"
#include "ops/table.h"
#include "plan/unroll.h"
#include "weft/op_table.h"

static const device_engine *const built_in[] = {&device_cpu};
enum { NBUILT_IN = sizeof built_in / sizeof *built_in };

/* --- by name ------------------------------------------------------------------------------------------------------ */

typedef struct registered {
    const device_engine *engine;
    struct registered *next; /* registered before */
} registered;

static const registered *newest(const weft_context *context) {
    return context->slots[CONTEXT_DEVICES].value;
}

weft_status device_register(weft_context *context, const device_engine *engine) {
    registered *r = ARENA_NEW(&context->arena, registered);
    if (!r) return base_out_of_memory();
    *r = (registered){engine, context->slots[CONTEXT_DEVICES].value};
    context->slots[CONTEXT_DEVICES] = (context_slot){.value = r};
    return NULL;
}

static weft_status unknown(const weft_context *context, const char *n) {
    char known[400];
    size_t at = 0;
    known[0] = '\0';
    for (int i = 0; i < NBUILT_IN && at < sizeof known; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", at ? ", " : "", built_in[i]->name);
    for (const registered *r = newest(context); r && at < sizeof known; r = r->next)
        at += (size_t)snprintf(known + at, sizeof known - at, ", %s", r->engine->name);
    if (at < sizeof known) snprintf(known + at, sizeof known - at, ", cuda");
    return weft_status_create(WEFT_NOT_FOUND, NULL, "no device \"%s\": there are %s", n, known);
}

/* Of a plugin, which is opened when somebody asks for it. */
static weft_status find_cuda(const device_engine **out_engine) {
    const char *why;
    const device_plugin *plugin = device_plugin_cuda(&why);
    if (!plugin) return weft_status_create(WEFT_UNSUPPORTED, NULL, "device cuda: %s", why);
    *out_engine = device_plugin_engine(plugin);
    return NULL;
}

weft_status device_find(weft_context *context, const char *n, const device_engine **out_engine) {
    if (!n) n = device_cpu.name;
    for (const registered *r = newest(context); r; r = r->next) {
        if (strcmp(r->engine->name, n) != 0) continue;
        *out_engine = r->engine;
        return NULL;
    }
    for (int i = 0; i < NBUILT_IN; i++) {
        if (strcmp(built_in[i]->name, n) != 0) continue;
        *out_engine = built_in[i];
        return NULL;
    }
    return strcmp(n, "cuda") == 0 ? find_cuda(out_engine) : unknown(context, n);
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

static size_t print_devices(int row, char *out_text, size_t nbytes) {
    size_t n = 0;
    if (nbytes) *out_text = '\0';
    for (int d = 0; d < NBUILT_IN; d++) {
        if (row < 0 || built_in[d]->lacks(row)) continue;
        size_t left = n < nbytes ? nbytes - n : 0;
        n += (size_t)snprintf(left ? out_text + n : NULL, left, "%s%s", n ? ", " : "", built_in[d]->name);
    }
    return n;
}

size_t weft_op_devices_print(const char *type, char *out_text, size_t nbytes) {
    return print_devices(ops_row_of(type), out_text, nbytes);
}

bool weft_op_can_run(const char *type) {
    int row = ops_row_of(type);
    if (row < 0) return false;
    weft_op_info info = weft_op_info_at((size_t)row);
    bool is_planned = strcmp(info.family, "control") == 0 || strchr(info.outputs, '&') || unroll_rewrites(type);
    return is_planned || print_devices(row, NULL, 0) > 0;
}

weft_status weft_op_host_reason(weft_context *context, const char *device_name, const char *type,
                                const char **out_why) {
    const device_engine *engine;
    TRY(device_find(context, device_name, &engine));
    const op_schema *schema = ops_find(context, type);
    *out_why = schema && engine->hosts && !schema->collective ? engine->hosts(ops_row_of(type)) : NULL;
    return NULL;
}

weft_status weft_op_table_markdown(weft_context *context, char **out_bytes, size_t *out_nbytes) {
    return op_table_markdown(context, print_devices, out_bytes, out_nbytes);
}
