/* context.c: the object from which everything else hangs. Higher folders keep their tables in its slots. */
#include <stdio.h>

#include "base/context.h"
#include "base/kept_blocks.h"

enum { DEFAULT_MAX_FILE_GIB = 4, DEFAULT_MAX_KEPT = 256 << 20 };

weft_status context_create_bare(const weft_context_options *given, weft_context **out_context) {
    weft_context_options taken, *options = &taken;
    TRY(base_take_struct("weft_context_options", &taken, sizeof taken, given));
    weft_allocator allocator = options->allocator;
    kept_blocks *kept = NULL;
    if (!allocator.resize) {
        size_t max_nbytes = options->max_kept_nbytes ? options->max_kept_nbytes : DEFAULT_MAX_KEPT;
        if (!(kept = kept_blocks_create(max_nbytes, &allocator))) return base_out_of_memory();
    }
    weft_context *context = base_alloc(&allocator, sizeof *context);
    if (!context) {
        kept_blocks_destroy(kept);
        return base_out_of_memory();
    }
    *context = (weft_context){.allocator = allocator,
                              .kept = kept,
                              .on_diagnostic = options->on_diagnostic,
                              .diagnostic_user = options->diagnostic_user,
                              .on_log = options->on_log,
                              .log_user = options->log_user,
                              .max_file_nbytes = options->max_file_nbytes};
    if (!context->max_file_nbytes) context->max_file_nbytes = (size_t)DEFAULT_MAX_FILE_GIB << 30;
    arena_init(&context->arena, &context->allocator);
    *out_context = context;
    return NULL;
}

void context_destroy(weft_context *context) {
    for (int i = CONTEXT_SLOT_COUNT - 1; i >= 0; i--)
        if (context->slots[i].destroy) context->slots[i].destroy(context->slots[i].value);
    arena_fini(&context->arena);
    weft_allocator allocator = context->allocator;
    kept_blocks *kept = context->kept;
    base_free(&allocator, context, sizeof *context);
    kept_blocks_destroy(kept);
}

void weft_context_trim(weft_context *context) {
    if (context->kept) kept_blocks_trim(context->kept);
}

/* Nearly every message fits `small`; a longer one is cut only if there is no memory for it. */
enum { SMALL_MESSAGE = 512 };

/* Where it does not fit, in *out_nbytes of the allocator's; else 0. */
static char *print_message(weft_context *context, char *small, size_t *out_nbytes, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int nbytes = vsnprintf(small, SMALL_MESSAGE, format, args);
    size_t room = nbytes < 0 ? 1 : (size_t)nbytes + 1;
    char *whole = room > SMALL_MESSAGE ? base_alloc(&context->allocator, room) : NULL;
    if (whole) vsnprintf(whole, room, format, again);
    va_end(again);
    *out_nbytes = whole ? room : 0;
    return whole ? whole : small;
}

void context_log(weft_context *context, weft_severity severity, const char *from, const char *format, ...) {
    if (!context->on_log) return;
    char small[SMALL_MESSAGE];
    size_t nbytes;
    va_list args;
    va_start(args, format);
    char *message = print_message(context, small, &nbytes, format, args);
    va_end(args);
    context->on_log(context->log_user, severity, from, message);
    if (nbytes) base_free(&context->allocator, message, nbytes);
}

void context_diagnose(weft_context *context, weft_severity severity, const char *place, int line, int column,
                      const char *format, ...) {
    if (!context->on_diagnostic && !context->on_log) return;
    char small[SMALL_MESSAGE];
    size_t nbytes;
    va_list args;
    va_start(args, format);
    char *message = print_message(context, small, &nbytes, format, args);
    va_end(args);
    weft_diagnostic finding = {severity, message, place ? place : "", line, column};
    if (context->on_diagnostic) context->on_diagnostic(context->diagnostic_user, &finding);
    if (context->on_log && line)
        context_log(context, severity, finding.place, "%d:%d: %s", line, column, message);
    else
        context_log(context, severity, finding.place, "%s", message);
    if (nbytes) base_free(&context->allocator, message, nbytes);
}

void weft_bytes_free(weft_context *context, void *bytes, size_t nbytes) {
    base_free(&context->allocator, bytes, nbytes + 1);
}
