/* What is left to decide of the buckets of fuse_allreduce_buckets once the sweep is over: where each op moves for good,
 * the halves of split buckets, and which members their producers cannot write in place. */
#include "passes/fuse_sweep.h"

/* Two reduces that do not share a bucket after all. */
static bool is_undone(const fused_bucket *b) {
    return b->items->tail && b->items->count + b->items->tail->count == 2;
}

/* An op may depend on several buckets: it moves behind the one of them that is placed last. */
static void settle_moves(fusion *f) {
    for (size_t i = 0; i < f->nbuckets; i++) {
        const fused_bucket *b = &f->buckets[i];
        for (size_t k = 0; k < b->nmoved && !is_undone(b); k++) {
            uint32_t *by = &f->moved_by[b->moved[k]->mark];
            if (!*by || f->buckets[*by - 1].at < b->at) *by = (uint32_t)i + 1;
        }
    }
    for (size_t i = 0; i < f->nbuckets; i++) {
        fused_bucket *b = &f->buckets[i];
        size_t kept = 0;
        for (size_t k = 0; k < b->nmoved; k++)
            if (f->moved_by[b->moved[k]->mark] == i + 1) b->moved[kept++] = b->moved[k];
        b->nmoved = kept;
    }
}

uint32_t fuse_anchor(const bucket *b) {
    fuse_place last = 0;
    for (size_t i = 0; i < b->count; i++) {
        const reduce_item *item = b->items[i];
        if (item->after > last) last = item->after;
    }
    return (uint32_t)(last >> 32);
}

/* Both halves where both are buckets still; all that moves follows the second. */
static size_t split_one(const fused_bucket *whole, fused_bucket *out) {
    const bucket *tail = whole->items->tail;
    size_t n = 0;
    if (!tail) {
        out[0] = *whole;
        return 1;
    }
    if (whole->items->count >= 2) {
        out[n] = *whole;
        out[n].anchor = fuse_anchor(whole->items);
        out[n].at = (fuse_place)out[n].anchor << 32;
        if (tail->count >= 2) out[n].nmoved = 0;
        n++;
    }
    if (tail->count >= 2) {
        out[n] = *whole;
        out[n++].items = tail;
    }
    return n;
}

static weft_status split_buckets(fusion *f) {
    fused_bucket *all = ARENA_ARRAY(f->scratch, fused_bucket, 2 * f->nbuckets + 1);
    size_t count = 0;
    if (!all) return base_out_of_memory();
    settle_moves(f);
    for (size_t i = 0; i < f->nbuckets; i++) count += split_one(&f->buckets[i], &all[count]);
    f->buckets = all;
    f->nbuckets = count;
    return NULL;
}

/* --- members that cannot be produced in the bucket ---------------------------------------------------------------- */

typedef struct cause {
    weft_reason reason;
    const char *message; /* NULL: none */
} cause;

static cause why_copied(const fusion *f, const fused_bucket *b, const reduce_item *item, const reduce_part *part) {
    const weft_var *x = reduce_part_x(item, part);
    const fuse_class *c = &f->classes[part->x_class];
    if (x->persistable) return (cause){WEFT_REASON_IN_USE, "it is persistable"};
    if (x->need_check_feed) return (cause){WEFT_REASON_IN_USE, "it is fed"};
    if (f->is_view[x->id]) return (cause){WEFT_REASON_IN_USE, "it is a view of another value"};
    if (c->aliased) return (cause){WEFT_REASON_IN_USE, "its bytes are shared with other variables already"};
    if (c->nreduces > 1) return (cause){WEFT_REASON_IN_USE, "it is reduced more than once"};
    if (c->nasync > (item->async ? 1u : 0u))
        return (cause){WEFT_REASON_IN_USE, "another asynchronous collective takes part in it"};
    if (!c->first || c->first > item->position)
        return (cause){WEFT_REASON_DEPENDENCY, "no op writes it before its reduce"};
    if (c->first_reads) return (cause){WEFT_REASON_DEPENDENCY, "it is read before it is first written"};
    if (c->first_var != x->id) return (cause){WEFT_REASON_IN_USE, "a view of it is written first"};
    weft_op *first = access_op(&f->index, c->first - 1);
    if (op_is(first, "feed") || op_is(first, "feed_v2")) return (cause){WEFT_REASON_IN_USE, "it is fed"};
    if (op_is_collective(first, COLLECTIVE_ALL_REDUCE))
        return (cause){WEFT_REASON_IN_USE, "it is what another all-reduce gave"};
    if (!part->in_place && f->places[c->last_access] > b->at)
        return (cause){WEFT_REASON_IN_USE, "its own value is used after its reduce"};
    return (cause){WEFT_REASON_COUNT, NULL};
}

/* Slices of one buffer count as the same bytes in what is asked of pending results: a result that takes part in another
 * gets bytes of its own back. */
static bool keeps_slice(const fusion *f, const reduce_item *item, const reduce_part *part) {
    return f->classes[part->out_class].nasync <= (item->async ? 1u : 0u);
}

static void settle_bucket(fusion *f, fused_bucket *b) {
    for (size_t i = 0; i < b->items->count; i++) {
        const reduce_item *item = b->items->items[i];
        b->nparts += item->nparts;
        for (size_t k = 0; k < item->nparts; k++)
            if (!keeps_slice(f, item, &item->parts[k])) item->parts[k].renames = false;
        for (size_t k = 0; f->mode == FUSE_IN_PLACE && k < item->nparts; k++) {
            cause c = why_copied(f, b, item, &item->parts[k]);
            item->parts[k].reason = c.reason;
            item->parts[k].copied = c.message;
        }
    }
    b->fingerprint = fused_bucket_fingerprint(b);
}

weft_status fuse_settle(fusion *f) {
    TRY(split_buckets(f));
    for (size_t i = 0; i < f->nbuckets; i++) settle_bucket(f, &f->buckets[i]);
    return NULL;
}

weft_op *fuse_first_op(const fusion *f, const reduce_part *part) {
    return access_op(&f->index, f->classes[part->x_class].first - 1);
}
