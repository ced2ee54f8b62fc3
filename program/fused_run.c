/* fused_run.c: see fused_run.h. */
#include "program/fused_run.h"

#include <string.h>

static bool is_of(const weft_op *op, const char *plan) {
    return op && strcmp(fused_run_plan(op), plan) == 0;
}

size_t fused_run_nops(const weft_op *op) {
    int64_t wanted = weft_op_attr_int(op, "micro_pipeline_nops", 0), n = 0;
    if (wanted < 1) return 0;
    const char *plan = fused_run_plan(op);
    for (; n < wanted && is_of(op, plan); op = op->next) n++;
    return n == wanted ? (size_t)n : 0;
}

weft_op *fused_run_first(weft_op *op) {
    const char *plan = fused_run_plan(op);
    for (weft_op *first = op; *plan && is_of(first, plan); first = first->prev)
        if (fused_run_nops(first)) return first;
    return op;
}

weft_op *fused_run_last(weft_op *op) {
    weft_op *last = fused_run_first(op);
    size_t nops = fused_run_nops(last);
    if (!nops) return op;
    while (--nops) last = last->next;
    return last;
}
