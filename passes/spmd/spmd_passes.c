/* spmd_passes.c: spmd_propagate, spmd_partition, and both as spmd_expand. */
#include "passes/certificate.h"
#include "passes/spmd/spmd.h"

static const weft_option options[] = {
    {"strict", WEFT_OPTION_BOOL, "false", NULL,
     "refuse where an op without a rule meets a sharded input, instead of gathering that, and annotations that cannot "
     "be "
     "followed, instead of passing over them"},
    {"batch_statistics", WEFT_OPTION_STRING, "all", "all|own",
     "what a batch norm over a sharded batch normalises by: those of all rows, or own, of each rank's rows as under "
     "data "
     "parallelism"},
    {"batch", WEFT_OPTION_INT, "1", NULL,
     "the rows that an open extent (-1) is priced as; programs hold for any number"},
    {"partial_outputs", WEFT_OPTION_BOOL, "false", NULL,
     "outputs of a traced graph that are partial stay so: P(sum) in placements_out"},
    {"cluster", WEFT_OPTION_STRING, "", NULL,
     "a cluster file: then the sides of a conflict are told with what they take, too"},
};
enum { MOST_ROWS = 1 << 20 };
enum { NOPTIONS = sizeof options / sizeof *options, OF_PARTITION = NOPTIONS - 1 }; /* it tells no conflicts */

static weft_status begin(weft_pass_context *pass, weft_program *program, spmd_plan *plan) {
    *plan = (spmd_plan){.pass = pass, .program = program, .scratch = pass_scratch(pass), .rank = pass_rank_told(pass)};
    plan->partial_outputs = weft_pass_option_bool(pass, "partial_outputs");
    plan->is_strict = weft_pass_option_bool(pass, "strict");
    plan->batch = weft_pass_option_int(pass, "batch");
    if (plan->batch < 1 || plan->batch > MOST_ROWS)
        return weft_pass_refuse(pass, "batch: expected 1 to %d rows, found %lld", MOST_ROWS, (long long)plan->batch);
    plan->own_statistics = strcmp(weft_pass_option_string(pass, "batch_statistics"), "own") == 0;
    return spmd_read(plan);
}

/* What the program says of its vars holds; the rest follows it. */
static weft_status propagate(spmd_plan *plan) {
    TRY(spmd_plan_divided(plan));
    plan->propagates = true;
    TRY(spmd_conflicts_ask(plan, weft_pass_option_string(plan->pass, "cluster")));
    int64_t count = 0;
    for (size_t i = 0; i < plan->nvars; i++)
        for (int d = 0; plan->vars[i].counts && d < plan->vars[i].whole.ndim; d++)
            count += plan->vars[i].want.naxes[d] > 0;
    return weft_pass_count_add(plan->pass, "dimensions sharded", count);
}

static weft_status finish(spmd_plan *plan) {
    TRY(spmd_decide(plan));
    if (plan->rank < 0 && plan->apart.differs && mesh_size(plan->mesh.mesh) > 1)
        return weft_pass_refuse(plan->pass,
                                "the programs of ranks differ (%s): one is made for each, named by {rank} in -o",
                                plan->apart.differs);
    rank_edits *edits = plan->is_fx ? NULL : pass_rank_edits(plan->pass);
    uint32_t told = plan->apart.told | (edits ? 0 : plan->apart.placed);
    pass_tells_apart(plan->pass, plan->is_fx ? PASS_TOLD_APART : told); /* a graph states its rank */
    pass_tells_ends(plan->pass, plan->apart.ended);
    if (plan->propagates) TRY(spmd_conflicts_report(plan));
    if (plan->propagates) TRY(spmd_write_origins(plan));
    return spmd_rewrite(plan, edits);
}

static weft_status partition(spmd_plan *plan) {
    pass_claims_nothing(plan->pass);
    return finish(plan);
}

static weft_status tell_conflicts(spmd_plan *plan) {
    TRY(spmd_decide(plan));
    return spmd_conflicts_report(plan);
}

/* A var that nothing holds lies where its op leaves it, so that spmd_partition need not move it from there. */
static void want_what_is_made(spmd_plan *plan) {
    for (size_t k = 0; k < plan->nops; k++) {
        const spmd_op *op = &plan->ops[k];
        for (size_t o = 0; o < op->kind->rule.nout; o++) {
            const spmd_var *v = op->out[o];
            if (!v || !v->counts || v->is_kept || v->is_pinned || v->is_fixed) continue;
            plan->vars[v->var->id].want = spmd_settled(plan, op, v, &op->choice->out[o]);
        }
    }
}

static weft_status run_propagate(weft_pass_context *pass, weft_program *program, void *user) {
    (void)user;
    spmd_plan plan;
    weft_status status = begin(pass, program, &plan);
    if (!status) status = propagate(&plan);
    bool is_decided = !status && plan.nops <= SPMD_MOST_OPS;
    if (is_decided) status = tell_conflicts(&plan);
    if (!status && is_decided) want_what_is_made(&plan);
    if (!status) status = spmd_write_wanted(&plan);
    if (!status) status = spmd_write_origins(&plan);
    spmd_plan_fini(&plan);
    return status;
}

static weft_status run_partition(weft_pass_context *pass, weft_program *program, void *user) {
    (void)user;
    spmd_plan plan;
    weft_status status = begin(pass, program, &plan);
    if (!status) status = partition(&plan);
    spmd_plan_fini(&plan);
    return status;
}

static weft_status run_expand(weft_pass_context *pass, weft_program *program, void *user) {
    (void)user;
    spmd_plan plan;
    weft_status status = begin(pass, program, &plan);
    pass_claims_nothing(pass);
    if (!status) status = propagate(&plan);
    if (!status) status = finish(&plan);
    spmd_plan_fini(&plan);
    return status;
}

const weft_pass pass_spmd_propagate = {.options = options, .noptions = NOPTIONS, .run = run_propagate};
const weft_pass pass_spmd_partition = {.options = options,
                                       .noptions = OF_PARTITION,
                                       .run = run_partition,
                                       .changes_meaning = "it makes the program one rank's"};
const weft_pass pass_spmd_expand = {
    .options = options, .noptions = NOPTIONS, .run = run_expand, .changes_meaning = "it makes the program one rank's"};
