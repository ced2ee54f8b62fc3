/* bucket_settle.c: the buckets that are best where compute and collectives slow one another down.
 *
 * Times of compute depend on when collectives run, and these on compute: a fixpoint. The buckets that are best without
 * contention are played with it. Compute's times under them are a new problem, whose best buckets are played, and so on
 * until buckets come again. Of all that were played those that end the step first are taken. The bound is that without
 * contention, which only makes steps longer. */
#include "passes/bucket_play.h"

enum { MOST_ROUNDS = 8 };

typedef struct settling {
    bucket_times *t;
    bool *best; /* by item, as answer.begins */
    int64_t best_ns;
} settling;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static size_t nbytes_of_flags(const bucket_times *t) {
    return t->problem.nitems * sizeof(bool);
}

static weft_status try_buckets(settling *s, const bool *begins) {
    bucket_times *t = s->t;
    memmove(t->answer.begins, begins, nbytes_of_flags(t));
    TRY(bucket_play(t));
    if (t->step_ns >= s->best_ns) return NULL;
    s->best_ns = t->step_ns;
    memcpy(s->best, t->answer.begins, nbytes_of_flags(t));
    return NULL;
}

/* Buckets that are closed once they have the limit. */
static weft_status try_size(settling *s, size_t limit) {
    const bucket_problem *p = &s->t->problem;
    bool *begins = ARENA_ARRAY(s->t->scratch, bool, p->nitems + 1);
    size_t *nbytes = ARENA_ARRAY(s->t->scratch, size_t, p->nkinds + 1);
    uint32_t *deadline = ARENA_ARRAY(s->t->scratch, uint32_t, p->nkinds + 1);
    int64_t *most = ARENA_ARRAY(s->t->scratch, int64_t, p->nkinds + 1); /* of the open bucket, by its items' rooms */
    if (!begins || !nbytes || !deadline || !most) return base_out_of_memory();
    for (size_t i = 0; i < p->nitems; i++) {
        const bucket_item *item = &p->items[i];
        uint32_t k = item->kind;
        bool too_large = p->most_nbytes && nbytes[k] + item->padded > p->most_nbytes;
        too_large = too_large || (p->rooms && (int64_t)(nbytes[k] + item->padded) > most[k]);
        begins[i] =
            !nbytes[k] || nbytes[k] >= limit || too_large || deadline[k] <= item->position || !p->kinds[k].ncurves;
        nbytes[k] = (begins[i] ? 0 : nbytes[k]) + item->padded;
        if (p->rooms) most[k] = least(begins[i] ? INT64_MAX : most[k], plan_later((int64_t)nbytes[k], p->rooms[i]));
        deadline[k] = begins[i] || item->deadline < deadline[k] ? item->deadline : deadline[k];
    }
    return try_buckets(s, begins);
}

/* The best buckets if compute takes what it took beside those that were played last. */
static weft_status solve_again(settling *s, bucket_item *items) {
    bucket_times *t = s->t;
    int64_t *nominal = t->ns, compute_ns = t->problem.compute_ns;
    int64_t step_ns = t->answer.step_ns, bound_ns = t->answer.bound_ns;
    for (size_t i = 0; i < t->problem.nitems; i++) items[i].tail_ns = 0;
    t->ns = t->played;
    weft_status status = bucket_play_alone(t, items);
    t->ns = nominal;
    if (!status) status = bucket_plan_solve(&t->problem, t->scratch, &t->answer);
    t->problem.compute_ns = compute_ns;
    t->answer.step_ns = step_ns;
    t->answer.bound_ns = bound_ns;
    return status;
}

weft_status bucket_settle(bucket_times *t, bucket_item *items) {
    static const size_t sizes[] = {0, 1 << 20, 5 << 20, 25 << 20, 50 << 20, 100 << 20, SIZE_MAX};
    settling s = {.t = t, .best_ns = t->step_ns, .best = ARENA_ARRAY(t->scratch, bool, t->problem.nitems + 1)};
    bucket_item *nominal = arena_copy(t->scratch, items, (t->problem.nitems + 1) * sizeof *items);
    if (!s.best || !nominal) return base_out_of_memory();
    memcpy(s.best, t->answer.begins, nbytes_of_flags(t));
    for (int round = 0; round < MOST_ROUNDS; round++) {
        int64_t before = t->step_ns;
        TRY(solve_again(&s, items));
        TRY(try_buckets(&s, t->answer.begins));
        if (t->step_ns == before) break;
    }
    memcpy(items, nominal, t->problem.nitems * sizeof *items);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) TRY(try_size(&s, sizes[i]));
    return try_buckets(&s, s.best);
}
