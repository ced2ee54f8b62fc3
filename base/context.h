/* context.h: the parts of weft_context_create that base/ can do alone. passes/context.c, which knows every folder's
 * tables, puts them together. */
#ifndef BASE_CONTEXT_H
#define BASE_CONTEXT_H

#include "base/base.h"

/* A context with its allocator, sink, limits and arena, and empty slots. */
WEFT_MUST_USE weft_status context_create_bare(const weft_context_options *options, weft_context **out_context);
/* Destroys the slots (last first), the arena and the context. */
void context_destroy(weft_context *context);

#endif
