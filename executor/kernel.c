/* kernel.c: how kernels report errors: what they refuse when they are prepared, what fails when they run. */
#include "executor/kernel.h"

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
