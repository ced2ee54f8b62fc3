/* rows.c: running all rows of a call, on several threads where their order does not matter. */
#include "executor/kernels/rows.h"
#include "executor/kernels/typed.h"

static void run_part(void *arg, int64_t first, int64_t end, int part) {
    const kernel_call *c = arg;
    (void)part;
    c->split.rows(c, first, end);
}

weft_status kernel_run_rows(const kernel_call *c) {
    int64_t nrows = c->split.nrows;
    if (nrows <= 0) return NULL;
    if (c->nthreads <= 1 || c->split.in_order) {
        c->split.rows(c, 0, nrows);
        return NULL;
    }
    size_t nbytes = 0;
    uint32_t nin = c->in_first[c->schema->ninputs], nout = c->out_first[c->schema->noutputs];
    for (uint32_t i = 0; i < nin; i++) nbytes += tensor_nbytes(&c->in[i]);
    for (uint32_t i = 0; i < nout; i++) nbytes += tensor_nbytes(&c->out[i]);
    parallel_for(c, nrows, grain_of_bytes((int64_t)nbytes / nrows), run_part, (void *)(uintptr_t)c);
    return NULL;
}

void split_elements(kernel_prepare *p, void (*rows)(const kernel_call *, int64_t, int64_t), int64_t numel) {
    bool whole = numel % ROW_ELEMENTS == 0 && numel > 0;
    p->split = (row_split){.rows = rows, .nrows = whole ? numel / ROW_ELEMENTS : numel > 0};
}

void split_rows(kernel_prepare *p, void (*rows)(const kernel_call *, int64_t, int64_t), int64_t nrows) {
    p->split = (row_split){.rows = rows, .nrows = nrows};
}
