/* device_instr.c: what devices ask of an instruction while they record it. */
#include <stdio.h>

#include "executor/executor.h"

weft_status bind_error(const rank_state *rank, weft_code code, const plan_instr *instr, const char *format, ...) {
    char message[400], op[200];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return weft_status_create(code, NULL, "rank %d, %s: %s", rank->rank, instr_place(instr, op, sizeof op), message);
}

static void locate_args(const rank_state *rank, tensor *tensors, const int32_t *args, size_t nargs) {
    for (size_t i = 0; i < nargs; i++) {
        if (args[i] >= 0) tensors[i] = rank->values[args[i]];
    }
}

/* What a kernel only knows the type of, it does not get: the bytes may be another value's by now. */
static void forget_unread(const plan_instr *instr, tensor *in) {
    for (size_t s = 0; s < instr->schema->ninputs; s++)
        for (uint32_t k = instr->in_first[s]; instr->schema->inputs[s].only_type && k < instr->in_first[s + 1]; k++)
            in[k].data = in[k].rows = NULL;
}

void device_instr_locate(const rank_state *rank, device_instr *i) {
    const plan_instr *instr = i->instr;
    locate_args(rank, i->in, instr->in, instr->in_first[instr->schema->ninputs]);
    forget_unread(instr, i->in);
    locate_args(rank, i->out, instr->out, instr->out_first[instr->schema->noutputs]);
}

/* A host's kernel runs where it can touch the bytes. */
static const char *lacks_of_host(const device *d, const op_schema *schema) {
    return kernel_of_host(schema) && d->engine->has_host_memory ? NULL : "no kernel";
}

weft_status bind_check_kernel(const rank_state *rank, const device *d, const plan_instr *instr) {
    const op_schema *schema = instr->schema;
    const char *lacks = schema->host ? lacks_of_host(d, schema) : d->engine->lacks(schema->index);
    if (!lacks) return NULL;
    return bind_error(rank, WEFT_UNSUPPORTED, instr, "%s for op %s on this device (%s)", lacks, instr->op->type->bytes,
                      d->engine->name);
}

weft_status bind_refusal(const rank_state *rank, const plan_instr *instr, weft_status status) {
    weft_status worded = bind_error(rank, weft_status_code(status), instr, "%s", weft_status_message(status));
    weft_status_free(status);
    return worded;
}
