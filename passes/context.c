/* context.c: weft_context_create stands here because it fills the tables of every folder below passes/. */
#include "base/context.h"
#include "ops/ops.h"
#include "passes/pass_manager.h"

weft_status weft_context_create(const weft_context_options *options, weft_context **out_context) {
    weft_context *context = NULL;
    TRY(context_create_bare(options, &context));
    weft_status status = ops_register(context);
    if (!status) status = passes_register(context);
    if (status)
        context_destroy(context);
    else
        *out_context = context;
    return status;
}

void weft_context_destroy(weft_context *context) {
    if (context) context_destroy(context);
}
