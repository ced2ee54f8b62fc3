/* data_parallel.c: a serial training program becomes the program of one of n ranks that each train on their part of the
 * batch.
 *
 * The idea: with a loss that is a mean over the batch, the gradient of the whole batch is the mean of the ranks'
 * gradients. So feeds are split by rows, and shapes are inferred again for a rank's rows. Each parameter's gradient is
 * summed over the ranks (and scaled by 1/n) right after the last backward op that writes it; everything later (merging,
 * unscaling, clipping, the optimizer) then sees the same values on every rank. What Paddle does instead, and where that
 * forgets gradients, is the design's reference on dist ops: a reduce is decided there per op type.
 *
 * Invariant: everything is decided into a dp_plan first; a refusal leaves the program as it was. */
#include "passes/data_parallel.h"

#include "passes/certificate.h"

static weft_status run(weft_pass_context *pass, weft_program *program, void *user);

static const weft_option options[] = {
    {"ranks", WEFT_OPTION_INT, "0", NULL, "how many ranks train together; required"},
    {"reduce", WEFT_OPTION_STRING, "mean", "mean|sum|tokens",
     "how the ranks' losses combine: gradients are averaged or summed; tokens: sums and counts over the batch are summed "
     "over ranks before they are divided"},
    {"uneven", WEFT_OPTION_STRING, "refuse", "refuse|pad",
     "batches that ranks do not divide: refuse; pad: the first ranks get a row more, and gradients count by rows"},
    {"replicate", WEFT_OPTION_STRINGS, "[]", NULL, "feeds that every rank gets whole, whatever their rows"},
};

const weft_pass pass_data_parallel = {.options = options,
                                      .noptions = sizeof options / sizeof options[0],
                                      .run = run,
                                      .changes_meaning = "it makes the program one rank's"};

/* --- what may be made data-parallel ------------------------------------------------------------------------------- */

static weft_status read_options(dp_plan *plan) {
    plan->nranks = weft_pass_option_int(plan->pass, "ranks");
    const char *reduce = weft_pass_option_string(plan->pass, "reduce");
    plan->combine = strcmp(reduce, "sum") == 0 ? DP_SUM : strcmp(reduce, "tokens") == 0 ? DP_TOKENS : DP_MEAN;
    plan->pads = strcmp(weft_pass_option_string(plan->pass, "uneven"), "pad") == 0;
    if (plan->pads && plan->combine == DP_TOKENS)
        return weft_pass_refuse(plan->pass, "uneven: pad: means over parts of different lengths are not added up with "
                                            "reduce: tokens");
    if (!weft_pass_option_given(plan->pass, "ranks"))
        return weft_pass_refuse(plan->pass, "the option ranks is required: how many ranks train together");
    if (plan->nranks < 1 || plan->nranks > MAX_RANKS)
        return weft_pass_refuse(plan->pass, "ranks: expected 1 to %d, found %lld", MAX_RANKS, (long long)plan->nranks);
    return NULL;
}

static weft_status check_serial(dp_plan *plan) {
    if (plan->program->rank >= 0)
        return weft_pass_refuse(plan->pass, "expected a serial program, found rank %lld's",
                                (long long)plan->program->rank);
    for (size_t i = 0; i < plan->program->nblocks; i++) {
        FOR_EACH_OP(op, plan->program->blocks[i]) {
            if (!op_has_effect(op, OP_COLLECTIVE)) continue;
            char place[160];
            bool ours = op_is_all_reduce(op, NULL) && op_in_namescope(op, "data_parallel");
            return weft_pass_refuse(plan->pass, "%s%s",
                                    ours ? "the program is data-parallel already: "
                                         : "expected a serial program, found the collective ",
                                    op_place(op, place, sizeof place));
        }
    }
    return NULL;
}

static weft_status check_ring(dp_plan *plan) {
    const ring *there = program_find_ring(plan->program, DP_RING);
    bool same = there && there->nranks == plan->nranks;
    for (int i = 0; same && i < there->nranks; i++) same = there->ranks[i] == i;
    if (!there || same) return NULL;
    return weft_pass_refuse(plan->pass, "ring %d is taken: expected the ranks 0 to %lld in it, or no such ring",
                            DP_RING, (long long)plan->nranks - 1);
}

/* --- edits -------------------------------------------------------------------------------------------------------- */

/* Puts an op like `pattern` behind `*after`, which it becomes. */
static weft_status insert_like(weft_op *pattern, weft_var *grad, weft_op **after) {
    weft_op *op;
    TRY(op_like(pattern, grad, &op));
    weft_block_insert_after((*after)->block, *after, op);
    *after = op;
    return NULL;
}

/* Last first: reduces of one writer's gradients then stand in the order in which it names them. */
static weft_status insert_reduces(dp_plan *plan) {
    weft_op *reduce, *of_mean;
    if (plan->ngradients == 0 && plan->nscales == 0) return NULL;
    weft_var *any = plan->ngradients ? plan->gradients[0].grad : plan->scales[0].grad;
    TRY(dp_make_collective(plan, any, any, false, &reduce));
    TRY(dp_make_scale(plan, any, &of_mean));
    for (size_t i = plan->ngradients; i-- > 0;) {
        if (plan->gradients[i].is_gathered) continue;
        weft_op *after = plan->gradients[i].last_writer, *scale = plan->gradients[i].mean ? of_mean : NULL;
        if (scale) TRY(dp_weigh(plan, plan->gradients[i].grad, &after));
        TRY(insert_like(reduce, plan->gradients[i].grad, &after));
        TRY(pass_claim_add(plan->pass, (pass_claim){.kind = CLAIM_REDUCE,
                                                    .op = after,
                                                    .other = plan->gradients[i].last_writer,
                                                    .var = plan->gradients[i].grad,
                                                    .factor = scale ? attr_float(scale, "scale", 1.0) : 1.0}));
        if (scale) TRY(insert_like(scale, plan->gradients[i].grad, &after));
    }
    for (size_t i = 0; i < plan->nscales; i++) {
        weft_op *after = plan->scales[i].last_writer;
        TRY(insert_like(of_mean, plan->scales[i].grad, &after));
    }
    return NULL;
}

/* Rows or not, what comes out of a tensor array tells only when it is planned. */
static weft_status write_open(dp_plan *plan, weft_var *var) {
    const kept_shape *whole = &plan->whole.kept[var->id];
    bool any = false;
    int64_t dims[WEFT_MAX_RANK];
    if (var->persistable || whole->ndim != (int32_t)var->ndim) return NULL;
    for (size_t i = 0; i < var->ndim; i++) {
        bool opens = var->dims[i] >= 0 && whole->dims[i] < 0;
        dims[i] = opens ? -1 : var->dims[i];
        any |= opens;
    }
    if (any) var_changed(var);
    return any ? program_dims(plan->program, var->ndim, dims, &var->dims) : NULL;
}

/* A rank's extents where they differ; what is declared as unknown stays so. */
static weft_status write_shape(dp_plan *plan, weft_var *var) {
    if (plan->opens_arrays) TRY(write_open(plan, var));
    if (!plan->differs[var->id] || var->kind == WEFT_SELECTED_ROWS) return NULL;
    var_changed(var);
    const kept_shape *whole = &plan->whole.kept[var->id], *part = &plan->part.kept[var->id];
    if (whole->ndim != part->ndim || whole->ndim != (int32_t)var->ndim || !var->ndim) return NULL;
    int64_t dims[WEFT_MAX_RANK];
    for (size_t i = 0; i < var->ndim; i++)
        if (var->dims[i] < 0 || whole->dims[i] == part->dims[i])
            dims[i] = var->dims[i];
        else
            dims[i] = plan->pads ? -1 : part->dims[i];
    return program_dims(plan->program, var->ndim, dims, &var->dims);
}

/* Shapes and placements of all vars: feeds as decided, others by the axis along which a rank holds less. */
static weft_status write_vars(dp_plan *plan) {
    weft_program *p = plan->program;
    for (size_t b = 0; b < p->nblocks; b++) {
        for (size_t i = 0; i < p->blocks[b]->nvars; i++) {
            weft_var *var = block_var(p->blocks[b], i);
            if (!var->has_tensor) continue;
            TRY(dp_place(plan, var, dp_split_axis(plan, var)));
            TRY(write_shape(plan, var));
        }
    }
    for (size_t i = 0; i < plan->nfeeds; i++)
        TRY(dp_place(plan, plan->feeds[i].var, plan->feeds[i].split ? 0 : -1));
    return NULL;
}

static weft_status write_params_grads(dp_plan *plan) {
    weft_program *p = plan->program;
    const name **pairs = ARENA_ARRAY(&p->arena, const name *, 2 * plan->ngradients);
    if (!pairs) return base_out_of_memory();
    size_t n = 0;
    for (size_t i = 0; i < plan->ngradients; i++) {
        if (!plan->gradients[i].param) continue;
        pairs[2 * n] = plan->gradients[i].param->name;
        pairs[2 * n++ + 1] = plan->gradients[i].grad->name;
    }
    p->params_grads = pairs;
    p->nparams_grads = n;
    return NULL;
}

static weft_status write_dist(dp_plan *plan) {
    static const char *const names[] = {"dp"};
    int64_t *ranks = ARENA_ARRAY(plan->scratch, int64_t, plan->nranks);
    if (!ranks) return base_out_of_memory();
    for (int64_t i = 0; i < plan->nranks; i++) ranks[i] = i;
    TRY(program_add_mesh(plan->program, &(mesh){1, &plan->nranks, ranks, names}, &plan->mesh));
    TRY(weft_program_set_ring(plan->program, DP_RING, (size_t)plan->nranks, ranks));
    TRY(write_vars(plan));
    TRY(write_params_grads(plan));
    plan->program->has_dist = true;
    plan->program->rank = -1;
    return NULL;
}

/* What the ranks get: the claims beside those of insert_reduces. */
static weft_status claim_ranks(dp_plan *plan) {
    if (plan->combine == DP_TOKENS && plan->pass->certificate) plan->pass->certificate->claims_all = false;
    TRY(pass_claim_add(plan->pass, (pass_claim){.kind = CLAIM_RANKS,
                                                .ring = DP_RING,
                                                .count = plan->nranks,
                                                .text = plan->combine == DP_MEAN ? "mean" : "sum"}));
    for (size_t i = 0; i < plan->nfeeds; i++)
        TRY(pass_claim_add(plan->pass, (pass_claim){.kind = CLAIM_FEED,
                                                    .var = plan->feeds[i].var,
                                                    .text = plan->feeds[i].split ? "rows" : "whole"}));
    return NULL;
}

/* --- report ------------------------------------------------------------------------------------------------------- */

static weft_status report_feeds(dp_plan *plan) {
    size_t nsplit = 0;
    for (size_t i = 0; i < plan->nfeeds; i++) {
        const dp_feed *feed = &plan->feeds[i];
        nsplit += feed->split;
        if (feed->split && plan->batch >= 0)
            TRY(weft_pass_did(plan->pass, "feed %s: %lld of %lld rows a rank", feed->var->name->bytes,
                              (long long)plan->rank_batch, (long long)plan->batch));
        else
            TRY(weft_pass_did(plan->pass, "feed %s: %s%s%s", feed->var->name->bytes,
                              feed->split ? "split by rows" : "whole on every rank", feed->why ? ": " : "",
                              feed->why ? feed->why : ""));
    }
    TRY(weft_pass_count_add(plan->pass, "feeds split", (int64_t)nsplit));
    return weft_pass_count_add(plan->pass, "feeds whole", (int64_t)(plan->nfeeds - nsplit));
}

/* A forward op that updates a persistable from split data (running statistics): each rank keeps its own. */
static weft_status report_rank_state(dp_plan *plan) {
    for (size_t i = 0; i < plan->nstate_ops; i++) {
        weft_op *op = plan->state_ops[i];
        if ((op_role(op) & (WEFT_ROLE_BACKWARD | WEFT_ROLE_OPTIMIZE | WEFT_ROLE_LR_SCHED)) != 0) continue;
        bool from_part = false;
        FOR_EACH_ARG(op, false, u) from_part |= dp_split_axis(plan, use_var(op->program, u)) >= 0;
        if (!from_part || dp_is_gathered_metric(plan, op)) continue;
        FOR_EACH_ARG(op, true, u) {
            const weft_var *v = use_var(op->program, u);
            if (v->persistable && v->kind == WEFT_DENSE_TENSOR && !op_shows_own_input(op, u))
                TRY(weft_pass_left(plan->pass, op, WEFT_REASON_ROLE,
                                   "%s is each rank's own: it comes from its rows alone", v->name->bytes));
        }
    }
    return NULL;
}

static int64_t count_nbytes(const dp_plan *plan) {
    int64_t nbytes = 0;
    for (size_t i = 0; i < plan->ngradients; i++) {
        const dp_gradient *g = &plan->gradients[i];
        if (g->is_gathered) continue;
        shape like = shape_env_get(&plan->part, g->param ? g->param : g->grad);
        int64_t numel = shape_numel(&like);
        if (numel > 0) nbytes += numel * (int64_t)weft_dtype_nbytes((weft_dtype)g->grad->dtype);
    }
    return nbytes;
}

/* Who named the gradients. */
static weft_status report_sources(dp_plan *plan) {
    static const char *const from[] = {"op_role_var", "the sidecar's params_grads",
                                       "what optimizers and other ops read"};
    const size_t count[] = {plan->nnamed, plan->nsidecar, plan->nfound};
    for (size_t i = 0; i < 3; i++)
        if (count[i])
            TRY(weft_pass_did(plan->pass, "%zu gradient%s from %s", count[i], count[i] == 1 ? "" : "s", from[i]));
    return NULL;
}

/* The sums over the batch that ranks join before the backward pass. */
static weft_status report_sums(dp_plan *plan) {
    char place[160];
    for (size_t i = 0; i < plan->ngradients; i++) {
        const dp_gradient *g = &plan->gradients[i];
        if (op_role(g->last_writer) & WEFT_ROLE_BACKWARD) continue;
        TRY(weft_pass_did(plan->pass, "%s of %s is of all ranks now", g->grad->name->bytes,
                          op_place(g->last_writer, place, sizeof place)));
    }
    return NULL;
}

static weft_status report_reduces(dp_plan *plan) {
    size_t nscales = plan->nscales, nreduced = 0;
    for (size_t i = 0; i < plan->ngradients; i++) {
        nreduced += !plan->gradients[i].is_gathered;
        nscales += plan->gradients[i].mean && !plan->gradients[i].is_gathered;
    }
    if (plan->combine == DP_TOKENS) TRY(report_sums(plan));
    TRY(weft_pass_did(plan->pass, "%s %zu gradients (%lld bytes) over ring %d of %lld ranks",
                      plan->combine == DP_MEAN ? "average" : "sum", nreduced,
                      (long long)plan->gradients_nbytes, DP_RING, (long long)plan->nranks));
    TRY(report_sources(plan));
    TRY(weft_pass_count_add(plan->pass, "gradients reduced", (int64_t)nreduced));
    return weft_pass_count_add(plan->pass, "scales added", (int64_t)nscales);
}

/* The gradients that the program names, then those that updates need beside them; or all sums over the batch. */
static weft_status find_gradients(dp_plan *plan) {
    bool exact = plan->combine == DP_TOKENS;
    TRY(dp_begin_gradients(plan));
    if (!exact) TRY(dp_find_named(plan));
    if (plan->nranks == 1) return NULL;
    return exact ? dp_find_exact(plan) : dp_find_state(plan);
}

/* Shapes and gradients; anew while some feed turns out to be rows, and with lengths left open where numbers do not go. */
static weft_status decide(dp_plan *plan) {
    for (;;) {
        plan->again = false;
        plan->nstate_ops = 0;
        TRY(dp_split_batch(plan));
        weft_status status = dp_infer_shapes(plan);
        if (!status) status = find_gradients(plan);
        bool opens = plan->has_lengths && status && weft_status_code(status) == WEFT_REFUSED;
        if (!plan->again && !opens) return status;
        plan->has_lengths &= plan->again;
        weft_status_free(status);
        arena_fini(&plan->types);
        arena_init(&plan->types, &plan->program->context->allocator);
    }
}

static weft_status make_parallel(dp_plan *plan) {
    TRY(read_options(plan));
    TRY(check_serial(plan));
    TRY(check_ring(plan));
    TRY(dp_find_feeds(plan));
    TRY(decide(plan));
    if (plan->nranks > 1) TRY(dp_find_sparse(plan));

    TRY(report_feeds(plan));
    TRY(report_rank_state(plan));
    TRY(dp_report_loops(plan));
    TRY(claim_ranks(plan));
    TRY(write_dist(plan));
    if (plan->nranks == 1) return weft_pass_did(plan->pass, "one rank: nothing to reduce");
    TRY(dp_write_fills(plan));
    TRY(dp_begin_weights(plan));
    TRY(dp_gather_metrics(plan));
    plan->gradients_nbytes = count_nbytes(plan);
    arena_fini(&plan->types);
    TRY(dp_gather_rows(plan));
    TRY(insert_reduces(plan));
    TRY(dp_weigh_means(plan));
    return report_reduces(plan);
}

static weft_status run(weft_pass_context *pass, weft_program *program, void *user) {
    (void)user;
    dp_plan plan = {.pass = pass, .program = program, .block = program->blocks[0], .scratch = pass_scratch(pass)};
    arena_init(&plan.types, &program->context->allocator);
    weft_status status = make_parallel(&plan);
    arena_fini(&plan.types);
    base_free(&program->context->allocator, plan.gradients, plan.gradient_capacity * sizeof *plan.gradients);
    return status;
}
