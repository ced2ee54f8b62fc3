/* bucket_order.c: in which order reduces are sent.
 *
 * A stream takes them as they stand, in the order in which gradients are made. What the step needs first may be made
 * last, as the gradients of the first layers are with which the updates begin. Where reduces queue up the step ends
 * earlier if these do not wait for all others (P3, Jayarajan et al., MLSys 2019; for one machine that is the rule of
 * the longest tail first, Schrage). Tried are the orders that keep some items at the front and send all behind them by
 * their tails. The best buckets in each are found as ever (bucket_plan.h); most are refused by one recurrence. */
#include <stdlib.h>

#include "passes/bucket_chain.h"
#include "passes/bucket_order.h"

enum {
    MOST_ORDERS = 48,
    FEW_ORDERS = 8,   /* where one takes long: many items, or several kinds */
    MANY_ITEMS = 2000,
    LEAST_GAIN = 2000 /* parts of the step: a move that gains less is not worth its place */
};

typedef struct ordering {
    const bucket_times *t;
    const bucket_item **items; /* of the lane, as they stand */
    uint32_t *by_tail;         /* numbers of these, longest tail first */
    size_t n;
    uint32_t *tried, *best; /* orders: numbers of items */
    bucket_problem problem; /* of the order that is tried */
    bucket_item *as_sent;
    int64_t best_ns;
} ordering;

/* Whether all of the lane's items may be sent in another order. */
static weft_status take_lane(ordering *o, uint32_t lane, bool *out) {
    const bucket_problem *p = &o->t->problem;
    o->items = ARENA_ARRAY(o->t->scratch, const bucket_item *, p->nitems + 1);
    if (!o->items) return base_out_of_memory();
    *out = true;
    for (size_t i = 0; i < p->nitems; i++) {
        if (p->kinds[p->items[i].kind].lane != lane) continue;
        *out = *out && o->t->reduce_of[i] != BUCKET_ALONE;
        o->items[o->n++] = &p->items[i];
    }
    *out = *out && o->n > 1;
    return NULL;
}

static int by_tail(const void *a, const void *b) {
    const bucket_item *x = *(const bucket_item *const *)a, *y = *(const bucket_item *const *)b;
    if (x->tail_ns != y->tail_ns) return x->tail_ns > y->tail_ns ? -1 : 1;
    return x < y ? -1 : x > y;
}

static weft_status make_room(ordering *o) {
    arena *a = o->t->scratch;
    const bucket_item **sorted = arena_copy(a, o->items, o->n * sizeof *sorted);
    o->by_tail = ARENA_ARRAY(a, uint32_t, o->n);
    o->tried = ARENA_ARRAY(a, uint32_t, o->n);
    o->best = ARENA_ARRAY(a, uint32_t, o->n);
    o->as_sent = ARENA_ARRAY(a, bucket_item, o->n);
    uint32_t *number = ARENA_ARRAY(a, uint32_t, o->t->problem.nitems); /* by item of the problem */
    if (!sorted || !o->by_tail || !o->tried || !o->best || !o->as_sent || !number) return base_out_of_memory();
    for (size_t i = 0; i < o->n; i++) number[o->items[i] - o->t->problem.items] = (uint32_t)i;
    qsort(sorted, o->n, sizeof *sorted, by_tail);
    for (size_t i = 0; i < o->n; i++) o->by_tail[i] = number[sorted[i] - o->t->problem.items];
    o->problem = o->t->problem;
    o->problem.items = o->as_sent;
    o->problem.nitems = o->n;
    return NULL;
}

/* The order that keeps `front` items. False: an item would be reduced behind what needs it. */
static bool put_order(ordering *o, size_t front) {
    size_t n = 0;
    int64_t ready = 0;
    uint32_t position = 0;
    for (uint32_t i = 0; i < front; i++) o->tried[n++] = i;
    for (size_t i = 0; i < o->n; i++)
        if (o->by_tail[i] >= front) o->tried[n++] = o->by_tail[i];
    for (size_t i = 0; i < n; i++) {
        bucket_item *item = &o->as_sent[i];
        *item = *o->items[o->tried[i]];
        item->ready_ns = ready = later(ready, item->ready_ns);
        if (item->position < position) item->position = position;
        position = item->position;
        if (item->deadline <= position) return false;
    }
    return true;
}

static weft_status try_order(ordering *o, size_t front) {
    bool ends = false;
    bucket_answer answer;
    if (!put_order(o, front)) return NULL;
    TRY(bucket_plan_ends_by(&o->problem, o->best_ns - 1 - o->best_ns / LEAST_GAIN, o->t->scratch, &ends));
    if (!ends) return NULL;
    TRY(bucket_plan_solve(&o->problem, o->t->scratch, &answer));
    o->best_ns = answer.step_ns;
    memcpy(o->best, o->tried, o->n * sizeof *o->best);
    return NULL;
}

/* An item that others stand before which stood behind it moves directly behind the one before it. */
static void put_moves(const ordering *o, bucket_moves *out) {
    uint32_t last = o->best[0];
    for (size_t i = 1; i < o->n; i++) {
        const bucket_item *items = o->t->problem.items;
        uint32_t at = o->best[i], before = o->best[i - 1];
        if (at < last)
            out->all[out->count++] = (bucket_move){o->t->reduce_of[o->items[at] - items],
                                                   o->t->reduce_of[o->items[before] - items]};
        else
            last = at;
    }
}

static size_t count_orders(const ordering *o) {
    bool slow = o->n > MANY_ITEMS;
    for (size_t i = 1; i < o->n; i++) slow = slow || o->items[i]->kind != o->items[0]->kind;
    size_t most = slow ? FEW_ORDERS : MOST_ORDERS;
    return o->n < most ? o->n : most;
}

static weft_status order_lane(const bucket_times *t, uint32_t lane, bucket_moves *out) {
    ordering o = {.t = t};
    bool may_move = false;
    bucket_answer answer;
    TRY(take_lane(&o, lane, &may_move));
    if (!may_move) return NULL;
    TRY(make_room(&o));
    (void)put_order(&o, o.n);
    TRY(bucket_plan_solve(&o.problem, t->scratch, &answer));
    o.best_ns = answer.step_ns;
    if (o.best_ns == t->problem.compute_ns) return NULL;
    size_t norders = count_orders(&o);
    for (size_t k = norders; k-- > 0;) TRY(try_order(&o, k * o.n / norders));
    if (o.best_ns < answer.step_ns) put_moves(&o, out);
    return NULL;
}

weft_status bucket_order_find(const bucket_times *t, bucket_moves *out) {
    *out = (bucket_moves){.all = ARENA_ARRAY(t->scratch, bucket_move, t->problem.nitems + 1)};
    if (!out->all) return base_out_of_memory();
    if (t->stalls || t->problem.rooms || t->step_ns == t->bound.ns) return NULL;
    for (uint32_t lane = 0; lane < t->nlanes; lane++) TRY(order_lane(t, lane, out));
    return NULL;
}
