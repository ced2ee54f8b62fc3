/* data_parallel_feeds.c: a feed is what block 0 reads before any op writes it and that does not outlive the step. Rows
 * are split where dim 0 is the batch, the largest dim 0 of all feeds; an extent of -1 is a batch that only a run knows.
 */
#include "passes/data_parallel.h"

static bool is_feedable(const weft_var *var) {
    return var->block && var->kind == WEFT_DENSE_TENSOR && var->has_tensor && !var->persistable;
}

static weft_status add_feed(dp_plan *plan, weft_var *var, size_t *capacity) {
    if (plan->nfeeds == *capacity) {
        size_t wanted = *capacity ? *capacity * 2 : 8;
        dp_feed *feeds = ARENA_ARRAY(plan->scratch, dp_feed, wanted);
        if (!feeds) return base_out_of_memory();
        if (plan->nfeeds) memcpy(feeds, plan->feeds, plan->nfeeds * sizeof *feeds);
        plan->feeds = feeds;
        *capacity = wanted;
    }
    plan->feeds[plan->nfeeds++] = (dp_feed){.var = var};
    return NULL;
}

static weft_status collect_feeds(dp_plan *plan) {
    bool *known = ARENA_ARRAY(plan->scratch, bool, plan->program->nall_vars); /* written, or found to be a feed */
    if (!known) return base_out_of_memory();
    size_t capacity = 0;
    FOR_EACH_OP(op, plan->block) {
        if (op_has_effect(op, OP_NO_BYTES)) continue;
        op_ask_for_vars(op->next);
        bool is_feed_op = op_is(op, "feed"); /* hands over one column of what the host fed */
        FOR_EACH_ARG(op, is_feed_op, u) {
            if (known[u->var_id] || !is_feedable(use_var(op->program, u))) continue;
            known[u->var_id] = true;
            TRY(add_feed(plan, use_var(op->program, u), &capacity));
        }
        FOR_EACH_ARG(op, true, u) known[u->var_id] = true;
    }
    if (plan->nfeeds) return NULL;
    return weft_pass_refuse(plan->pass,
                            "the program has no feeds: no variable of block 0 is read before it is written");
}

static weft_status no_such_feed(dp_plan *plan, const char *wanted) {
    buffer known;
    buffer_init(&known, &plan->program->context->allocator);
    for (size_t i = 0; i < plan->nfeeds; i++)
        buffer_format(&known, "%s%s", i ? ", " : "", plan->feeds[i].var->name->bytes);
    buffer_append(&known, "", 1);
    weft_status status = buffer_status(&known);
    if (!status)
        status = weft_pass_refuse(plan->pass, "replicate: \"%s\" is not a feed; the feeds are %s", wanted, known.bytes);
    buffer_fini(&known);
    return status;
}

/* Marks in `replicated`, by feed, those that the option names. */
static weft_status read_replicate(dp_plan *plan, bool *replicated) {
    const char *const *wanted = NULL;
    size_t nwanted = weft_pass_option_strings(plan->pass, "replicate", &wanted);
    for (size_t i = 0; i < nwanted; i++) {
        size_t at = 0;
        while (at < plan->nfeeds && !name_is(plan->feeds[at].var->name, wanted[i])) at++;
        if (at == plan->nfeeds) return no_such_feed(plan, wanted[i]);
        replicated[at] = true;
    }
    return NULL;
}

/* A feed of fixed rows that meets rows of an open batch says how many those are. */
bool dp_splits_feed(dp_plan *plan, const weft_var *var) {
    for (size_t i = 0; i < plan->nfeeds; i++) {
        dp_feed *feed = &plan->feeds[i];
        if (feed->var != var || feed->split || feed->replicated || var->ndim == 0 || var->dims[0] <= 1) continue;
        if (plan->batch >= 0 && plan->batch != var->dims[0]) continue;
        plan->batch = var->dims[0];
        return feed->split = plan->again = true;
    }
    return false;
}

weft_status dp_again(void) {
    return weft_status_create(WEFT_REFUSED, NULL, "another feed is split"); /* never shown: plan->again */
}

weft_status dp_split_batch(dp_plan *plan) {
    if (plan->batch < 0) return NULL;
    if (plan->pads && plan->batch % plan->nranks != 0) {
        plan->batch = -1; /* ranks have different numbers of rows, which only a run knows */
        return NULL;
    }
    plan->pads = false; /* the batch is what it is, and divides */
    if (plan->batch % plan->nranks != 0)
        return weft_pass_refuse(plan->pass, "a batch of %lld rows does not divide by %lld ranks",
                                (long long)plan->batch, (long long)plan->nranks);
    plan->rank_batch = plan->batch / plan->nranks;
    return NULL;
}

weft_status dp_find_feeds(dp_plan *plan) {
    TRY(collect_feeds(plan));
    bool *replicated = ARENA_ARRAY(plan->scratch, bool, plan->nfeeds);
    if (!replicated) return base_out_of_memory();
    TRY(read_replicate(plan, replicated));
    bool dynamic = false, any_rows = false;
    for (size_t i = 0; i < plan->nfeeds; i++) {
        const weft_var *var = plan->feeds[i].var;
        if (replicated[i] || var->ndim == 0) continue;
        dynamic |= var->dims[0] < 0;
        any_rows = true;
        if (var->dims[0] > plan->batch) plan->batch = var->dims[0];
    }
    if (!any_rows) return weft_pass_refuse(plan->pass, "no feed has rows to split over the ranks");
    if (dynamic) plan->batch = -1;
    for (size_t i = 0; i < plan->nfeeds; i++) {
        const weft_var *var = plan->feeds[i].var;
        plan->feeds[i].replicated = replicated[i];
        plan->feeds[i].split =
            !replicated[i] && var->ndim > 0 && (dynamic ? var->dims[0] < 0 : var->dims[0] == plan->batch);
    }
    if (dynamic) TRY(dp_find_batch(plan));
    return dp_split_batch(plan);
}
