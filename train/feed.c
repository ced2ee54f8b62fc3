/* feed.c: where each rank's part of a feed goes (plan/feeds.h finds the parts). It is resolved once for a shape; a step
 * only copies. */
#include "train/trainer.h"

bool trainer_is_fed(const weft_trainer *t, int rank, const char *n) {
    const feed_set *set = feeds_of(t->feeds, rank);
    for (size_t i = 0; i < set->count; i++) {
        if (strcmp(set->items[i].name, n) == 0) return true;
    }
    return false;
}

static weft_status bind_feed(weft_trainer *t, int rank, const feed_value *f, size_t step) {
    const rank_state *state = executor_rank(t->executor, rank);
    int32_t value = value_index_find(state->index, f->name);
    if (value < 0) return NULL; /* another rank's program has it */
    const weft_tensor *fed = feed_at(f, step);
    const plan_value *v = &state->plan->values[value];
    feed_target *target = &t->targets[t->ntargets];
    *target = (feed_target){.feed = f, .rank = rank, .value = value, .once = !f->nsteps && !v->is_written};
    const weft_block *block = trainer_program(t, rank)->blocks[0];
    TRY(feeds_part(t->feeds, rank, f->is_rows ? NULL : weft_block_find_var(block, f->name), fed, &target->part));
    const tensor *to = &state->values[value];
    if (to->dtype != fed->dtype || to->ndim != target->part.ndim ||
        memcmp(to->dims, target->part.extent, (size_t)to->ndim * sizeof *to->dims) != 0) {
        char want[200], got[200];
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "feed \"%s\": rank %d expects %s, found %s", fed->name,
                                  rank, type_text(to->dtype, (size_t)to->ndim, to->dims, want, sizeof want),
                                  type_text(fed->dtype, fed->ndim, target->part.extent, got, sizeof got));
    }
    t->ntargets++;
    void *bytes; /* so that steps allocate nothing */
    return slice_is_whole(&target->part) ? NULL : executor_stage(t->executor, rank, value, &bytes);
}

static weft_status reserve_targets(weft_trainer *t) {
    size_t count = 0;
    for (int r = t->first_rank; r < t->first_rank + t->nlocal; r++) count += feeds_of(t->feeds, r)->count;
    if (t->targets && count <= t->target_capacity) return NULL;
    t->targets = ARENA_ARRAY(&t->arena, feed_target, count ? count : 1);
    t->target_capacity = count;
    return t->targets ? NULL : base_out_of_memory();
}

weft_status trainer_bind_feeds(weft_trainer *t, size_t step) {
    TRY(reserve_targets(t));
    t->ntargets = 0;
    t->has_fed = false;
    for (int r = t->first_rank; r < t->first_rank + t->nlocal; r++) {
        const feed_set *set = feeds_of(t->feeds, r);
        for (size_t i = 0; i < set->count; i++) TRY(bind_feed(t, r, &set->items[i], step));
    }
    return NULL;
}

weft_status trainer_feed_step(weft_trainer *t, size_t step) {
    for (size_t i = 0; i < t->ntargets; i++) {
        const feed_target *target = &t->targets[i];
        if (target->once && t->has_fed) continue;
        const weft_tensor *fed = feed_at(target->feed, step);
        TRY(executor_take(t->executor, target->rank, target->value, &target->part, fed->data));
    }
    t->has_fed = true;
    return NULL;
}

/* The plan for their shapes is found, or made, by the next step. */
weft_status weft_trainer_feed(weft_trainer *t, const weft_tensors *const *feeds, bool per_rank) {
    weft_feeds_options options = {WEFT_FEEDS_OPTIONS_INIT,
                                  .programs = t->options.programs,
                                  .nprograms = t->options.nprograms,
                                  .nranks = t->nranks,
                                  .sets = feeds,
                                  .per_rank = per_rank,
                                  .nsteps = 1};
    weft_feeds *made;
    TRY(weft_feeds_create(t->context, &options, &made));
    weft_feeds_destroy(t->feeds);
    t->feeds = made;
    t->is_fed = true;
    t->bound_shape = SIZE_MAX;
    return NULL;
}
