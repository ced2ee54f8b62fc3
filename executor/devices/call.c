/* call.c: preparing a kernel, as all devices that run kernels of executor/kernels/ do. */
#include "executor/devices/call.h"

static weft_status prepare(weft_executor *x, const rank_state *rank, const device_instr *i, device_call *out) {
    const kernel_call *call = &out->call;
    kernel_prepare p = {.op = i->instr->op,
                        .schema = call->schema,
                        .in = call->in,
                        .out = call->out,
                        .in_first = call->in_first,
                        .out_first = call->out_first,
                        .arena = &x->arena,
                        .rank = call->rank,
                        .nranks = call->nranks,
                        .ring_nranks = call->ring ? call->ring->nranks : 1,
                        .ring_index = call->ring ? call->ring->index : 0,
                        .nthreads = call->nthreads};
    weft_status status = kernel_bind(&p, &out->run);
    if (status) return bind_refusal(rank, i->instr, status);
    out->call.state = p.state;
    out->call.split = p.split;
    out->workspace_nbytes = p.workspace_nbytes;
    out->rounds = p.rounds;
    return NULL;
}

weft_status device_call_make(const device_run *run, const rank_state *rank, device_instr *i, int nthreads,
                             device_call *out) {
    weft_executor *x = run->executor;
    const plan_instr *instr = i->instr;
    TRY(bind_check_kernel(rank, run->device, instr));
    *out = (device_call){.call = {.schema = instr->schema,
                                  .in = i->in,
                                  .out = i->out,
                                  .in_first = instr->in_first,
                                  .out_first = instr->out_first,
                                  .ring = i->ring ? i->ring->comm : NULL,
                                  .rank = rank->rank,
                                  .nranks = x->nranks,
                                  .seed = x->options.seed,
                                  .op_seed = i->op_seed,
                                  .step = &x->step,
                                  .nthreads = nthreads}};
    TRY(prepare(x, rank, i, out));
    device_instr_locate(rank, i);
    return NULL;
}
