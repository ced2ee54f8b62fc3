/* host_kernel.c: kernels of hosts' ops (weft/op.h) behind the table of kernels. */
#include <stdio.h>

#include "executor/kernel.h"
#include "ops/host_op.h"

static kernel_prepare *prepare_of(const weft_kernel_setup *setup) {
    return (kernel_prepare *)(void *)setup;
}
static const kernel_call *call_of(const weft_kernel_call *call) {
    return (const kernel_call *)(const void *)call;
}
static const weft_op_def *def_of(const op_schema *schema) {
    return &schema->host->def;
}

/* --- prepare ------------------------------------------------------------------------------------------------------ */

static weft_status check_dense(const kernel_prepare *p, const tensor *args, size_t nargs) {
    for (size_t i = 0; i < nargs; i++)
        if (args[i].dtype != WEFT_DTYPE_NONE && args[i].height >= 0)
            return kernel_unsupported(p, "expected dense tensors, found selected rows");
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    const weft_op_def *def = def_of(p->schema);
    TRY(check_dense(p, p->in, p->in_first[p->schema->ninputs]));
    TRY(check_dense(p, p->out, p->out_first[p->schema->noutputs]));
    return def->prepare ? def->prepare((weft_kernel_setup *)(void *)p, def->user) : NULL;
}

const weft_op *weft_kernel_setup_op(const weft_kernel_setup *setup) {
    return prepare_of(setup)->op;
}

bool weft_kernel_setup_arg(const weft_kernel_setup *setup, bool output, size_t slot_index, size_t index,
                           weft_arg_type *out_type) {
    const kernel_prepare *p = prepare_of(setup);
    uint32_t at;
    if (!host_arg_at(output ? p->out_first : p->in_first, output ? p->schema->noutputs : p->schema->ninputs, slot_index,
                     index, &at))
        return false;
    const tensor *t = &(output ? p->out : p->in)[at];
    if (t->dtype == WEFT_DTYPE_NONE) return false;
    *out_type = (weft_arg_type){.dtype = t->dtype, .ndim = t->ndim};
    memcpy(out_type->dims, t->dims, sizeof out_type->dims);
    return true;
}

void *weft_kernel_setup_state(weft_kernel_setup *setup, size_t nbytes) {
    kernel_prepare *p = prepare_of(setup);
    return p->state = arena_alloc(p->arena, nbytes ? nbytes : 1);
}

void weft_kernel_setup_workspace(weft_kernel_setup *setup, size_t nbytes) {
    prepare_of(setup)->workspace_nbytes = nbytes;
}

weft_status weft_kernel_unsupported(const weft_kernel_setup *setup, const char *format, ...) {
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return kernel_unsupported(prepare_of(setup), "%s", message);
}

/* --- run ---------------------------------------------------------------------------------------------------------- */

static weft_status run(const kernel_call *c) {
    const weft_op_def *def = def_of(c->schema);
    return def->run((const weft_kernel_call *)(const void *)c, def->user);
}

static const kernel host_kernel = {prepare, run};

const kernel *kernel_of_host(const op_schema *schema) {
    return def_of(schema)->run ? &host_kernel : NULL;
}

size_t weft_kernel_nargs(const weft_kernel_call *call, bool output, size_t slot_index) {
    const kernel_call *c = call_of(call);
    const uint32_t *first = output ? c->out_first : c->in_first;
    size_t nslots = output ? c->schema->noutputs : c->schema->ninputs;
    return slot_index < nslots ? first[slot_index + 1] - first[slot_index] : 0;
}

bool weft_kernel_arg(const weft_kernel_call *call, bool output, size_t slot_index, size_t index,
                     weft_kernel_tensor *out_tensor) {
    const kernel_call *c = call_of(call);
    uint32_t at;
    if (!host_arg_at(output ? c->out_first : c->in_first, output ? c->schema->noutputs : c->schema->ninputs, slot_index,
                     index, &at))
        return false;
    const tensor *t = output ? &c->out[at] : &c->in[at];
    if (t->dtype == WEFT_DTYPE_NONE) return false;
    *out_tensor = (weft_kernel_tensor){.data = t->data, .dtype = t->dtype, .ndim = t->ndim, .count = t->numel};
    memcpy(out_tensor->dims, t->dims, sizeof out_tensor->dims);
    return true;
}

void *weft_kernel_state(const weft_kernel_call *call) {
    return call_of(call)->state;
}
void *weft_kernel_workspace(const weft_kernel_call *call) {
    return call_of(call)->workspace;
}
int weft_kernel_rank(const weft_kernel_call *call) {
    return call_of(call)->rank;
}
uint64_t weft_kernel_step(const weft_kernel_call *call) {
    return call_of(call)->step ? *call_of(call)->step : 0;
}

void weft_kernel_random(const weft_kernel_call *call, uint64_t index, uint32_t out_words[4]) {
    const kernel_call *c = call_of(call);
    philox(c->seed, c->op_seed, weft_kernel_step(call), index, out_words);
}

void weft_kernel_parallel(const weft_kernel_call *call, int64_t count, int64_t grain,
                          void (*part)(void *arg, int64_t first, int64_t end, int number), void *arg) {
    parallel_for(call_of(call), count, grain > 0 ? grain : 1, part, arg);
}

weft_status weft_kernel_failed(const weft_kernel_call *call, const char *format, ...) {
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return kernel_failed(call_of(call), "%s", message);
}
