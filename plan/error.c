/* error.c: why a program cannot be planned, with the place of the op. */
#include <stdio.h>

#include "plan/builder.h"

weft_status plan_error(const plan_builder *b, weft_code code, const weft_op *op, const char *format, ...) {
    char where[160], message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (!op) return weft_status_create(code, b->program->place, "%s", message);
    return weft_status_create(code, b->program->place, "%s: %s", op_place(op, where, sizeof where), message);
}
