/* kernels.c: the table of CPU kernels, expanded from ops/ops.def, and how kernels word their errors.
 *
 * A row of ops.def that names a kernel which no file defines does not link; a row that says `none` has no kernel here.
 */
#include <stdio.h>

#include "executor/kernel.h"

#define OP(type, family, inputs, outputs, attrs, effects, infer, cpu, summary) extern const kernel kernel_##cpu;
#include "ops/ops.def"
#undef OP

extern const kernel kernel_none;
const kernel kernel_none = {NULL, NULL};

static const kernel *const table[] = {
#define OP(type, family, inputs, outputs, attrs, effects, infer, cpu, summary) &kernel_##cpu,
#include "ops/ops.def"
#undef OP
};

const kernel *kernel_find(const op_schema *schema) {
    if (!schema || schema->index < 0 || (size_t)schema->index >= sizeof table / sizeof *table) return NULL;
    const kernel *found = table[schema->index];
    return found->run ? found : NULL;
}

weft_status kernel_unsupported(const kernel_prepare *p, const char *format, ...) {
    char place[160];
    va_list args;
    va_start(args, format);
    weft_status status = base_status_createv(WEFT_UNSUPPORTED, op_place(p->op, place, sizeof place), format, args);
    va_end(args);
    return status;
}

weft_status kernel_failed(const kernel_call *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    weft_status status = base_status_createv(WEFT_RUNTIME, c->schema->type, format, args);
    va_end(args);
    return status;
}
