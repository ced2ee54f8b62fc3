/* data_flow.c: in a graph of values a reader gets what a collective left pending through the wait for it.
 *
 * The reader may name the pending result itself, or a view that was taken of it before the wait. Then the wait is only
 * earlier than the reader in the list of nodes. A consumer of the graph that sorts by data flow, or drops what nobody
 * reads, may run the reader first. One sweep: each var knows the bytes that it shows and the last wait on its way from
 * them. Bytes that no view ties together (members of a coalesce_tensor) are no data flow, and not asked about. A reader
 * without any wait before it is a race, which check_races tells. */
#include <stdio.h>

#include "proof/checks/checks.h"

/* Positions in block 0 count from 1; 0: none. */
typedef struct value_flow {
    uint32_t root;   /* 1 + id of the var that it is a view of; 0: of none */
    uint32_t waited; /* the last wait on the way to this var */
    uint32_t pending, waited_by_order; /* of a root: the last asynchronous collective; the last wait */
    bool is_told;
} value_flow;

typedef struct flow_sweep {
    const proof_schedule *s;
    value_flow *flows; /* by var id */
    weft_op *op;
    uint32_t position;
    size_t event; /* the op's, or a later one */
    int64_t rank;
    weft_findings *findings;
} flow_sweep;

static uint32_t root_of(const flow_sweep *w, uint32_t var) {
    return w->flows[var].root ? w->flows[var].root - 1 : var;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static weft_status report(flow_sweep *w, const weft_var *v, const value_flow *root) {
    weft_finding *found;
    char message[256];
    TRY(finding_add(w->findings, WEFT_VERDICT_UNWAITED_READ, &found));
    if (!found) return NULL;
    TRY(finding_op(w->findings, found, w->s, w->event, w->rank, "reads"));
    TRY(finding_says(w->findings, &found->value, "%s", v->name->bytes));
    finding_op_text(&found->ops[0], message, sizeof message);
    TRY(finding_says(w->findings, &found->message,
                     "%s reads \"%s\", which collective #%u left pending and does not come through wait #%u: a consumer "
                     "of the graph may drop that wait or move it (rank %lld)",
                     message, v->name->bytes, root->pending - 1, root->waited_by_order - 1, (long long)w->rank));
    return finding_says(w->findings, &found->remedy,
                        "the wait's result, or a view of it, in place of \"%s\" (schedule_comm_wait does that)",
                        v->name->bytes);
}

static weft_status read_var(flow_sweep *w, const weft_var *v) {
    value_flow *root = &w->flows[root_of(w, v->id)];
    bool is_pending = root->pending && w->flows[v->id].waited < root->pending;
    if (!is_pending || root->waited_by_order < root->pending || root->is_told) return NULL;
    root->is_told = true;
    return report(w, v, root);
}

static bool reads_nothing(weft_op *op) {
    return op_has_effect(op, OP_ONLY_VIEWS | OP_NO_BYTES) || op_is_collective(op, COLLECTIVE_WAIT_TENSOR);
}

static weft_status read_inputs(flow_sweep *w) {
    if (reads_nothing(w->op)) return NULL;
    FOR_EACH_ARG(w->op, false, u) TRY(read_var(w, use_var(w->op->program, u)));
    return NULL;
}

/* --- making ------------------------------------------------------------------------------------------------------- */

static void make_view(flow_sweep *w, uint32_t out, uint32_t of) {
    if (out == of) return;
    w->flows[out].root = 1 + root_of(w, of);
    w->flows[out].waited = w->flows[of].waited;
}

static void make_own(flow_sweep *w, uint32_t out, bool async) {
    bool in_place = false;
    FOR_EACH_ARG(w->op, false, u) in_place = in_place || u->var_id == out;
    if (!in_place) w->flows[out] = (value_flow){0};
    if (async) {
        value_flow *root = &w->flows[root_of(w, out)];
        root->pending = w->position;
        root->is_told = false;
    }
}

static void make_outputs(flow_sweep *w) {
    bool async = op_is_async(w->op);
    for (int views = 0; views < 2; views++) { /* views last: of what the op writes in place */
        for (size_t i = 0; i < op_nslots(w->op, true); i++) {
            const slot *s = op_slot(w->op, true, i), *of = op_viewed_slot(w->op, s);
            if ((of != NULL) != (views != 0)) continue;
            for (size_t k = 0; k < s->nargs; k++) {
                uint32_t out = slot_args(w->op, s)[k].var_id;
                if (!of)
                    make_own(w, out, async);
                else if (of->nargs)
                    make_view(w, out, slot_args(w->op, of)[k < of->nargs ? k : 0].var_id);
            }
        }
    }
}

static void take_wait(flow_sweep *w) {
    const weft_var *x = op_x(w->op), *out = op_out(w->op);
    if (!op_is_collective(w->op, COLLECTIVE_WAIT_TENSOR) || !x) return;
    w->flows[root_of(w, x->id)].waited_by_order = w->position;
    if (out) w->flows[out->id].waited = w->position;
}

weft_status check_data_flow(const proof_schedule *s, int64_t rank, weft_findings *f) {
    const weft_program *p = s->program;
    arena scratch;
    if (!p->fx_json || !s->ncollectives) return NULL;
    arena_init(&scratch, &s->context->allocator);
    flow_sweep w = {.s = s, .rank = rank, .findings = f};
    w.flows = ARENA_ARRAY(&scratch, value_flow, p->nall_vars + 1);
    weft_status status = w.flows ? NULL : base_out_of_memory();
    for (weft_op *op = p->blocks[0]->first; op && !status; op = op->next) {
        w.op = op;
        w.position++;
        while (w.event < s->nevents && s->events[w.event].op_index + 1 < w.position) w.event++;
        status = read_inputs(&w);
        make_outputs(&w);
        take_wait(&w);
    }
    arena_fini(&scratch);
    return status;
}
