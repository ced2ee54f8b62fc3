/* call.h: an instruction as a call of a kernel of executor/kernels/, for devices that run these. */
#ifndef EXECUTOR_DEVICES_CALL_H
#define EXECUTOR_DEVICES_CALL_H

#include "executor/executor.h"

typedef struct device_call {
    kernel_call call; /* its arguments are the instruction's; no workspace, no slot */
    kernel_run_fn run;
    size_t workspace_nbytes; /* that the kernel asked for */
    const kernel_rounds *rounds;
} device_call;

/* Prepares the kernel, which looks at types and attrs and makes its state, then gives the arguments their addresses. A
 * status names rank and op. */
WEFT_MUST_USE weft_status device_call_make(const device_run *run, const rank_state *rank, device_instr *i, int nthreads,
                                           device_call *out);

#endif
