/* place_online.c: places for blocks in the order in which a run would ask for them.
 *
 * Each stream has a part of the temporary space for the blocks that it touches first; when a stream reaches a block's
 * first access, blocks whose last accesses its clock covers come back to its part. The lowest free range that fits is
 * taken. A block that is touched on another stream before the first access's clock reaches there is given new bytes.
 * O(n log n), whatever the size: the layout of large programs, and what place_orders.c has to beat. */
#include "plan/memory.h"

typedef struct entry { /* of a heap: a block that cannot be free before its stream has completed `count` instructions */
    int32_t count, block;
} entry;

typedef struct heap {
    entry *entries;
    size_t count, capacity;
} heap;

typedef struct online {
    plan_builder *b;
    plan_block *blocks;
    size_t nstreams;
    free_ranges parts[PLAN_MAX_STREAMS];
    heap *pending; /* [part][stream]: blocks in use, by one stream that is still to complete them */
} online;

static int64_t aligned(int64_t nbytes) {
    return (nbytes + PLAN_ALIGNMENT - 1) / PLAN_ALIGNMENT * PLAN_ALIGNMENT;
}

/* --- heaps -------------------------------------------------------------------------------------------------------- */

static bool before(const entry *x, const entry *y) {
    return x->count != y->count ? x->count < y->count : x->block < y->block;
}

static void swap(entry *x, entry *y) {
    entry e = *x;
    *x = *y;
    *y = e;
}

static weft_status push(online *o, heap *h, entry e) {
    TRY(vector_reserve(&o->b->context->allocator, &h->entries, &h->capacity, h->count + 1, sizeof *h->entries));
    size_t k = h->count++;
    h->entries[k] = e;
    for (; k && before(&h->entries[k], &h->entries[(k - 1) / 2]); k = (k - 1) / 2)
        swap(&h->entries[k], &h->entries[(k - 1) / 2]);
    return NULL;
}

static int32_t pop(heap *h) {
    int32_t block = h->entries[0].block;
    h->entries[0] = h->entries[--h->count];
    for (size_t k = 0, child; (child = 2 * k + 1) < h->count; k = child) {
        if (child + 1 < h->count && before(&h->entries[child + 1], &h->entries[child])) child++;
        if (!before(&h->entries[child], &h->entries[k])) break;
        swap(&h->entries[child], &h->entries[k]);
    }
    return block;
}

/* --- blocks ------------------------------------------------------------------------------------------------------- */

/* Frees a block of part `part`, or files it under a stream that has yet to complete accesses of it. */
static weft_status release(online *o, size_t part, int32_t block, const int32_t *clock) {
    const plan_block *k = &o->blocks[block];
    for (size_t s = 0; s < o->nstreams; s++)
        if (k->end[s] > clock[s]) return push(o, &o->pending[part * o->nstreams + s], (entry){k->end[s], block});
    return free_ranges_give(&o->parts[part], k->offset, aligned(k->nbytes));
}

static weft_status release_done(online *o, size_t part, const int32_t *clock) {
    for (size_t s = 0; s < o->nstreams; s++) {
        heap *h = &o->pending[part * o->nstreams + s];
        while (h->count && h->entries[0].count <= clock[s]) TRY(release(o, part, pop(h), clock));
    }
    return NULL;
}

static size_t part_of(const online *o, const plan_block *k) {
    return (size_t)o->b->instrs[k->first].stream;
}

static weft_status place(online *o, int32_t block) {
    plan_block *k = &o->blocks[block];
    size_t part = part_of(o, k);
    const int32_t *clock = o->b->clocks + (size_t)k->first * o->nstreams;
    bool starts_later = true; /* everything free at the first access is free at every other */
    for (size_t s = 0; s < o->nstreams; s++) starts_later &= k->start[s] >= clock[s];
    TRY(release_done(o, part, clock));
    free_ranges *f = &o->parts[part];
    k->offset = starts_later ? free_ranges_take(f, aligned(k->nbytes)) : free_ranges_take_new(f, aligned(k->nbytes));
    if (f->top > PLAN_MAX_NBYTES)
        return weft_status_create(WEFT_LIMIT, o->b->program->place, "temporaries need more than 2^46 bytes");
    return release(o, part, block, clock);
}

/* Parts one after another. */
static void join_parts(online *o, size_t n, int64_t *out_top) {
    int64_t base[PLAN_MAX_STREAMS], top = 0;
    for (size_t s = 0; s < o->nstreams; s++) {
        base[s] = top;
        top += o->parts[s].top;
    }
    for (size_t i = 0; i < n; i++) o->blocks[i].offset += base[part_of(o, &o->blocks[i])];
    *out_top = top;
}

weft_status plan_place_online(plan_builder *b, plan_block *blocks, size_t n, int64_t *out_top) {
    online o = {.b = b, .blocks = blocks, .nstreams = b->nstreams};
    const weft_allocator *a = &b->context->allocator;
    weft_status status = NULL;
    o.pending = ARENA_ARRAY(&b->scratch, heap, o.nstreams * o.nstreams);
    if (!o.pending) return base_out_of_memory();
    for (size_t s = 0; s < o.nstreams; s++) free_ranges_init(&o.parts[s], a);
    for (size_t i = 0; i < n; i++) TRY_DONE(place(&o, (int32_t)i));
    join_parts(&o, n, out_top);
done:
    for (size_t s = 0; s < o.nstreams; s++) free_ranges_fini(&o.parts[s]);
    for (size_t k = 0; k < o.nstreams * o.nstreams; k++)
        base_free(a, o.pending[k].entries, o.pending[k].capacity * sizeof(entry));
    return status;
}
