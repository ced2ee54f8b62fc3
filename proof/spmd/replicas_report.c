/* replicas_report.c: findings about values that differ between ranks: who reads them, and who wrote them last. */
#include "proof/spmd/replicas.h"

#include <stdio.h>

static weft_status add_op(flow *f, weft_finding *found, const weft_op *op, uint32_t index, const char *role) {
    f->places->events[0].op = op;
    f->places->events[0].op_index = index;
    TRY(finding_op(f->findings, found, f->places, 0, f->rank, role));
    ((weft_finding_op *)found->ops)[found->nops - 1].stream = "";
    return NULL;
}

/* The op that wrote a value last, or NULL. */
static const weft_op *writer_of(const flow *f, const var_state *v, uint32_t *out_index) {
    if (v->known < WRITTEN) return NULL;
    uint32_t by = v->known - WRITTEN;
    *out_index = by & INNER ? f->inner[by & ~INNER].outer : f->schedule->events[by].op_index;
    return by & INNER ? f->inner[by & ~INNER].op : f->schedule->events[by].op;
}

weft_status replicas_report(flow *f, const weft_op *op, uint32_t index, const weft_var *v, const weft_var *state,
                            axes differ) {
    weft_finding *found;
    char of_axes[256], message[256], maker[256] = "";
    uint32_t written_at = 0;
    if (!f->is_exact) return f->is_doubtful = true, NULL;
    const weft_op *writer = writer_of(f, &f->vars[replicas_shown_by(f, v->id)], &written_at);
    if (!f->reported && !(f->reported = ARENA_ARRAY(f->arena, bool, f->program->nall_vars + 1)))
        return base_out_of_memory();
    if (f->reported[v->id]) return NULL;
    f->reported[v->id] = true;
    TRY(finding_add(f->findings, WEFT_VERDICT_MISSING_REDUCE, &found));
    if (!found) return NULL;
    TRY(add_op(f, found, op, index, "reads"));
    TRY(finding_says(f->findings, &found->value, "%s", v->name->bytes));
    TRY(finding_says(f->findings, &found->state, "%s", state->name->bytes));
    finding_op_text(&found->ops[0], message, sizeof message);
    if (writer) {
        TRY(add_op(f, found, writer, written_at, "writes"));
        char text_[256];
        snprintf(maker, sizeof maker, ", written last by %s,", finding_op_text(&found->ops[1], text_, sizeof text_));
    }
    TRY(finding_says(
        f->findings, &found->message,
        "%s updates \"%s\", which must be equal on all ranks, from \"%s\"%s which differs over %s: no collective "
        "joins it on the way",
        message, found->state, found->value, maker, axes_text(&f->grid, differ, of_axes, sizeof of_axes)));
    return finding_says(f->findings, &found->remedy, "a reduce of \"%s\" over %s before %s #%u", found->value, of_axes,
                        op->type->bytes, index);
}

weft_status replicas_report_guarded(flow *f, const weft_op *op, uint32_t index, axes differ) {
    weft_finding *found;
    char of_axes[256], message[256];
    if (!f->is_exact) return f->is_doubtful = true, NULL;
    TRY(finding_add(f->findings, WEFT_VERDICT_DEADLOCK, &found));
    if (!found) return NULL;
    found->ring = op_ring(op);
    TRY(add_op(f, found, op, index, "communicates"));
    return finding_says(
        f->findings, &found->message,
        "%s communicates on ring %lld under a condition that differs over %s: some of its ranks may run it "
        "and others not",
        finding_op_text(&found->ops[0], message, sizeof message), (long long)found->ring,
        axes_text(&f->grid, differ, of_axes, sizeof of_axes));
}
