/* order_bytes.c: order_is_overwritten of order.h: a plan's temporary memory played through, byte by byte. */
#include <stdlib.h>

#include "tests/support/order.h"

static int32_t owner_of(const weft_plan *plan, int32_t value) {
    while (plan->values[value].view_of >= 0) value = plan->values[value].view_of;
    return value;
}

/* Who wrote each byte last: owner + 1. */
static bool finds_other(const weft_plan *plan, const int32_t *wrote, int32_t value, int32_t owner) {
    const plan_value *v = &plan->values[value];
    for (int64_t b = v->offset; b < v->offset + v->nbytes; b++)
        if (wrote[b] && wrote[b] != owner + 1) return true;
    return false;
}

static bool reads_other(const weft_plan *plan, const plan_instr *i, const int32_t *wrote, int32_t value) {
    if (value < 0 || strcmp(i->schema->type, "scale") == 0) return false;
    const plan_value *v = &plan->values[value];
    if (v->rows >= 0 && reads_other(plan, i, wrote, v->rows)) return true;
    if (v->space != PLAN_TEMPORARY) return false;
    bool has_members = false, is_first = value == i->in[0];
    for (size_t k = 0; k < plan->nvalues && i->ring_id >= 0 && is_first; k++) {
        const plan_value *part = &plan->values[k];
        if (part->view_of != value || part->is_fetch || part->nbytes == v->nbytes) continue;
        has_members = true;
        if (finds_other(plan, wrote, (int32_t)k, owner_of(plan, value))) return true;
    }
    return !has_members && finds_other(plan, wrote, value, owner_of(plan, value));
}

static void write_value(const weft_plan *plan, int32_t *wrote, int32_t value) {
    for (; value >= 0; value = plan->values[value].rows) {
        const plan_value *v = &plan->values[value];
        if (v->space != PLAN_TEMPORARY) continue;
        for (int64_t b = v->offset; b < v->offset + v->nbytes; b++) wrote[b] = owner_of(plan, value) + 1;
    }
}

bool order_is_overwritten(const weft_plan *plan) {
    int32_t *wrote = calloc(2 * (size_t)plan->temporary_nbytes + 1, sizeof *wrote); /* values may have been moved */
    bool is_other = false;
    for (size_t n = 0; n < plan->ninstrs && !is_other; n++) {
        const plan_instr *i = &plan->instrs[n];
        is_other = reads_other(plan, i, wrote, i->guard) || reads_other(plan, i, wrote, i->outer_guard);
        bool is_bucket = strcmp(i->schema->type, "coalesce_tensor") == 0;
        uint32_t nout = i->out_first[i->schema->noutputs];
        for (size_t s = 0; s < i->schema->ninputs; s++)
            for (uint32_t k = i->in_first[s]; k < i->in_first[s + 1] && !i->schema->inputs[s].only_type; k++)
                if (!is_bucket || k >= nout || i->in[k] != i->out[k]) is_other |= reads_other(plan, i, wrote, i->in[k]);
        for (uint32_t k = 0; k < nout; k++) write_value(plan, wrote, i->out[k]);
    }
    free(wrote);
    return is_other;
}
