/* fused_run.h: ops that micro_pipeline_tp put side by side (form: fused), so that a framework or a device may take them
 * as one. Passes behind it put nothing between them, and move none. passes/micro_pipeline/micro_fused.c marks them. */
#ifndef PROGRAM_FUSED_RUN_H
#define PROGRAM_FUSED_RUN_H

#include "program/ir.h"

/* The name of the op's plan; "": it has none. */
static inline const char *fused_run_plan(const weft_op *op) {
    return weft_op_attr_string(op, "micro_pipeline", "");
}

/* How many ops stand in the run that begins with `op`; 0: none begins, or some of it are elsewhere. */
size_t fused_run_nops(const weft_op *op);

/* The first and the last op of the run that `op` is in; `op` itself where it is in none. */
weft_op *fused_run_first(weft_op *op);
weft_op *fused_run_last(weft_op *op);

#endif
