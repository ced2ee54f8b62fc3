/* data_parallel_metrics.c: ops that count the rows of their inputs into state of their own (OP_METRIC), such as auc. The
 * rows of all ranks are gathered before such an op: it counts the whole batch on every rank, so its state and what it
 * reports are the serial program's. Nothing is trained by it, so there is no gradient to divide. */
#include "passes/data_parallel_flow.h"
#include "program/grow.h"

/* Rows along axis 0 can be gathered; a rank's addends or state of its own cannot. */
static bool can_gather(const dp_flow *f, weft_op *op, bool *out_rows) {
    *out_rows = false;
    for (uint32_t k = 0; k < op_nslots(op, false); k++) {
        const slot *s = op_slot(op, false, k);
        for (uint32_t i = 0; i < s->nargs; i++) {
            const dp_value *v = &f->held[slot_args(op, s)[i].var_id];
            bool rows = v->hold == DP_ROWS && v->axis == 0 && s->nargs == 1;
            if (!rows && v->hold != DP_SAME) return false;
            *out_rows |= rows;
        }
    }
    return true;
}

weft_status dp_flow_metric(dp_flow *f, weft_op *op, bool *out) {
    dp_plan *plan = f->plan;
    *out = false;
    if (!op_has_effect(op, OP_METRIC) || !can_gather(f, op, out) || !*out) return NULL;
    TRY(grow(plan->scratch, &plan->metrics, &plan->metrics_capacity, plan->nmetrics + 1, sizeof *plan->metrics));
    plan->metrics[plan->nmetrics++] = op;
    return NULL;
}

bool dp_is_gathered_metric(const dp_plan *plan, const weft_op *op) {
    for (size_t i = 0; i < plan->nmetrics; i++)
        if (plan->metrics[i] == op) return true;
    return false;
}

weft_status dp_gather_metrics(dp_plan *plan) {
    char place[160];
    for (size_t i = 0; i < plan->nmetrics; i++) {
        weft_op *op = plan->metrics[i];
        TRY(weft_pass_did(plan->pass, "%s counts the rows of all ranks: they are gathered before it",
                          op_place(op, place, sizeof place)));
        for (uint32_t k = 0; k < op_nslots(op, false); k++) {
            const slot *s = op_slot(op, false, k);
            if (s->nargs && dp_split_axis(plan, slot_var(op, s, 0)) == 0) TRY(dp_gather(plan, op, s, true, false));
        }
    }
    return plan->nmetrics ? weft_pass_count_add(plan->pass, "metrics gathered", (int64_t)plan->nmetrics) : NULL;
}
