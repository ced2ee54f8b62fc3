/* spmd_report.c: the collectives of a rank, told by kind, ring, what moves and what for. */
#include "passes/spmd/spmd.h"

#include "program/grow.h"

static const char *const names[] = {[STEP_ALL_TO_ALL] = "all-to-all",
                                    [STEP_REDUCE_SCATTER] = "reduce-scatter",
                                    [STEP_ALL_REDUCE] = "all-reduce",
                                    [STEP_ALL_GATHER] = "all-gather",
                                    [STEP_PERMUTE] = "permute"};

struct spmd_row {
    spmd_step_kind kind;
    uint32_t axes;
    const char *what, *reader; /* NULL: it is kept so */
    int64_t count;
    double received;
};

/* What is moved: values of ops of the type that made it, or state. */
static const char *what_is(const spmd_plan *plan, const spmd_var *v) {
    const weft_op *maker = NULL;
    (void)plan;
    FOR_EACH_USE(u, v->var) if (u->is_output && !maker) maker = use_op(v->var->program, u);
    return v->is_kept ? "state and feeds" : maker ? maker->type->bytes : "a value";
}

weft_status spmd_note_step(spmd_plan *plan, const spmd_var *v, const spmd_step *step, const char *reader) {
    if (step->sent <= 0) return NULL;
    const char *what = what_is(plan, v);
    struct spmd_row *row = plan->rows;
    size_t i = 0;
    for (; i < plan->nrows; i++, row++)
        if (row->kind == step->kind && row->axes == step->axes && row->what == what && row->reader == reader) break;
    if (i == plan->nrows) {
        TRY(grow(plan->scratch, &plan->rows, &plan->row_capacity, plan->nrows + 1, sizeof *row));
        row = &plan->rows[plan->nrows++];
        *row = (struct spmd_row){.kind = step->kind, .axes = step->axes, .what = what, .reader = reader};
    }
    row->count++;
    row->received += step->sent;
    return NULL;
}

weft_status spmd_report_rows(spmd_plan *plan) {
    for (size_t i = 0; i < plan->nrows; i++) {
        const struct spmd_row *r = &plan->rows[i];
        int64_t ring_id;
        TRY(spmd_ring(plan, r->axes, &ring_id));
        TRY(weft_pass_did(plan->pass, "%lld %s on ring %lld, a rank receives %.0f bytes: %s, for %s",
                          (long long)r->count, names[r->kind], (long long)ring_id, r->received, r->what,
                          r->reader ? r->reader : "all that read it"));
    }
    return NULL;
}
