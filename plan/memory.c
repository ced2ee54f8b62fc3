/* memory.c: where each buffer lies.
 *
 * What lives across steps lies one after another in the persistent space. A temporary buffer A may be followed in its
 * place by B only if every access of A happens before every access of B (by the clocks of hazards.c), so sharing memory
 * adds no wait and takes away no overlap. Each stream has a part of the temporary space for the buffers that it touches
 * first; when a stream reaches a buffer's first access, buffers whose last accesses its clock covers come back to its
 * part, and the lowest free range that fits is taken. A buffer that is touched on another stream before the first
 * access's clock reaches there is given new bytes.
 *
 * Before that, an output may take over the buffer of the input that its schema names, if it is as large, dies there,
 * and neither has slices: the two become one block with the accesses of both. */
#include "plan/builder.h"

enum { NONE = -1 };

typedef struct entry { /* of a heap: a block that cannot be free before its stream has completed `count` instructions */
    int32_t count, block;
} entry;

typedef struct heap {
    entry *entries;
    size_t count, capacity;
} heap;

typedef struct layout {
    plan_builder *b;
    size_t nstreams;
    /* By root. A block is named by its first root. */
    int32_t *first;       /* the instruction of the first access; NONE */
    int32_t *end;         /* [stream]: instructions to be completed before all accesses are done */
    int32_t *start;       /* [stream]: instructions completed before any access starts */
    int32_t *block_of;    /* the block that a root belongs to */
    int32_t *tail;        /* by block: its newest root */
    int64_t *offset;      /* by block: in the part of its stream; NONE: not placed yet */
    uint32_t *times_read; /* by value: how often the instruction at hand reads it */
    free_ranges parts[PLAN_MAX_STREAMS];
    heap *pending; /* [part][stream]: blocks in use, by one stream that is still to complete them */
} layout;

static int64_t aligned(int64_t nbytes) {
    return (nbytes + PLAN_ALIGNMENT - 1) / PLAN_ALIGNMENT * PLAN_ALIGNMENT;
}
static int32_t *row(const layout *l, int32_t *table, int32_t root) {
    return table + (size_t)root * l->nstreams;
}
static const int32_t *clock_of(const layout *l, int32_t instr) {
    return l->b->clocks + (size_t)instr * l->nstreams;
}

/* --- lifetimes --- */

static void touch(layout *l, int32_t root, int32_t instr) {
    const plan_instr *i = &l->b->instrs[instr];
    int32_t *end = row(l, l->end, root), *start = row(l, l->start, root);
    const int32_t *clock = clock_of(l, instr);
    if (l->first[root] == NONE) {
        l->first[root] = instr;
        memcpy(start, clock, l->nstreams * sizeof *start);
    }
    for (size_t s = 0; s < l->nstreams; s++)
        if (clock[s] < start[s]) start[s] = clock[s];
    if (i->position + 1 > end[i->stream]) end[i->stream] = i->position + 1;
}

static weft_status find_lifetimes(layout *l) {
    plan_builder *b = l->b;
    size_t n = b->nvalues ? b->nvalues : 1, ntable;
    if (!base_mul(n, l->nstreams, &ntable)) return base_out_of_memory();
    l->first = ARENA_ARRAY(&b->scratch, int32_t, n);
    l->block_of = ARENA_ARRAY(&b->scratch, int32_t, n);
    l->tail = ARENA_ARRAY(&b->scratch, int32_t, n);
    l->offset = ARENA_ARRAY(&b->scratch, int64_t, n);
    l->times_read = ARENA_ARRAY(&b->scratch, uint32_t, n);
    l->end = ARENA_ARRAY(&b->scratch, int32_t, ntable);
    l->start = ARENA_ARRAY(&b->scratch, int32_t, ntable);
    l->pending = ARENA_ARRAY(&b->scratch, heap, l->nstreams * l->nstreams);
    if (!l->first || !l->block_of || !l->tail || !l->offset || !l->times_read || !l->end || !l->start || !l->pending)
        return base_out_of_memory();
    for (size_t v = 0; v < b->nvalues; v++) {
        l->first[v] = NONE;
        l->offset[v] = NONE;
        l->block_of[v] = l->tail[v] = (int32_t)v;
    }
    for (size_t i = 0; i < b->ninstrs; i++)
        for (uint32_t k = b->first_access[i]; k < b->first_access[i + 1]; k++)
            touch(l, b->root_of[b->accesses[k].value], (int32_t)i);
    return NULL;
}

/* --- in place --- */

/* A temporary with a buffer to itself. */
static bool is_plain(const plan_builder *b, int32_t value) {
    if (value < 0 || b->root_of[value] != value) return false;
    return !b->roots[value].has_views && !b->roots[value].persistent && b->values[value].rows < 0 &&
           b->values[value].nbytes > 0;
}

static bool dies_at(const layout *l, int32_t value, int32_t instr) {
    const plan_instr *i = &l->b->instrs[instr];
    const int32_t *end = row(l, l->end, value), *clock = clock_of(l, instr);
    for (int32_t s = 0; s < (int32_t)l->nstreams; s++)
        if (end[s] > (s == i->stream ? i->position + 1 : clock[s])) return false;
    return true;
}

static bool may_take_over(const layout *l, int32_t instr, int32_t from, int32_t to) {
    const plan_builder *b = l->b;
    if (from == to || !is_plain(b, from) || !is_plain(b, to)) return false;
    if (b->values[from].nbytes != b->values[to].nbytes || l->first[to] != instr || l->block_of[to] != to) return false;
    if (l->tail[l->block_of[from]] != from || l->first[from] == instr) return false;
    return l->times_read[from] == 1 && dies_at(l, from, instr);
}

static void take_over(layout *l, int32_t from, int32_t to) {
    int32_t block = l->block_of[from];
    int32_t *end = row(l, l->end, block), *start = row(l, l->start, block);
    const int32_t *to_end = row(l, l->end, to), *to_start = row(l, l->start, to);
    for (size_t s = 0; s < l->nstreams; s++) {
        if (to_end[s] > end[s]) end[s] = to_end[s];
        if (to_start[s] < start[s]) start[s] = to_start[s];
    }
    l->block_of[to] = block;
    l->tail[block] = to;
}

static void share_in_place(layout *l, int32_t instr) {
    const plan_instr *i = &l->b->instrs[instr];
    uint32_t nins = i->in_first[i->schema->ninputs];
    for (uint32_t k = 0; k < nins; k++)
        if (i->in[k] >= 0) l->times_read[i->in[k]]++;
    for (size_t s = 0; s < i->schema->noutputs; s++) {
        int32_t in_slot = i->schema->outputs[s].in_place_of;
        if (in_slot < 0) continue;
        uint32_t nin = i->in_first[in_slot + 1] - i->in_first[in_slot];
        for (uint32_t k = 0; k < i->out_first[s + 1] - i->out_first[s] && k < nin; k++) {
            int32_t from = i->in[i->in_first[in_slot] + k], to = i->out[i->out_first[s] + k];
            if (may_take_over(l, instr, from, to)) take_over(l, from, to);
        }
    }
    for (uint32_t k = 0; k < nins; k++)
        if (i->in[k] >= 0) l->times_read[i->in[k]] = 0;
}

/* --- the temporary space --- */

static bool before(const entry *x, const entry *y) {
    return x->count != y->count ? x->count < y->count : x->block < y->block;
}

static void swap(entry *x, entry *y) {
    entry e = *x;
    *x = *y;
    *y = e;
}

static weft_status push(layout *l, heap *h, entry e) {
    TRY(vector_reserve(&l->b->context->allocator, &h->entries, &h->capacity, h->count + 1, sizeof *h->entries));
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

/* Frees a block of part `part`, or files it under a stream that has yet to complete accesses of it. */
static weft_status release(layout *l, size_t part, int32_t block, const int32_t *clock) {
    const int32_t *end = row(l, l->end, block);
    for (size_t s = 0; s < l->nstreams; s++)
        if (end[s] > clock[s]) return push(l, &l->pending[part * l->nstreams + s], (entry){end[s], block});
    return free_ranges_give(&l->parts[part], l->offset[block], aligned(l->b->values[block].nbytes));
}

static weft_status release_done(layout *l, size_t part, const int32_t *clock) {
    for (size_t s = 0; s < l->nstreams; s++) {
        heap *h = &l->pending[part * l->nstreams + s];
        while (h->count && h->entries[0].count <= clock[s]) TRY(release(l, part, pop(h), clock));
    }
    return NULL;
}

static weft_status place_block(layout *l, int32_t block) {
    plan_builder *b = l->b;
    size_t part = (size_t)b->instrs[l->first[block]].stream;
    const int32_t *clock = clock_of(l, l->first[block]), *start = row(l, l->start, block);
    int64_t nbytes = aligned(b->values[block].nbytes);
    bool starts_later = true; /* everything free at the first access is free at every other */
    for (size_t s = 0; s < l->nstreams; s++) starts_later &= start[s] >= clock[s];
    TRY(release_done(l, part, clock));
    free_ranges *f = &l->parts[part];
    l->offset[block] = starts_later ? free_ranges_take(f, nbytes) : free_ranges_take_new(f, nbytes);
    if (f->top > PLAN_MAX_NBYTES)
        return weft_status_create(WEFT_LIMIT, b->program->place, "temporaries need more than 2^46 bytes");
    return release(l, part, block, clock);
}

static weft_status place_temporaries(layout *l) {
    plan_builder *b = l->b;
    for (size_t i = 0; i < b->ninstrs; i++) share_in_place(l, (int32_t)i);
    for (size_t i = 0; i < b->ninstrs; i++)
        for (uint32_t k = b->first_access[i]; k < b->first_access[i + 1]; k++) {
            int32_t root = b->root_of[b->accesses[k].value];
            bool is_placed = b->roots[root].persistent || l->offset[root] != NONE;
            if (!is_placed && l->block_of[root] == root) TRY(place_block(l, root));
        }
    return NULL;
}

/* --- both spaces --- */

static weft_status place_persistents(layout *l) {
    plan_builder *b = l->b;
    int64_t top = 0;
    for (size_t v = 0; v < b->nvalues; v++) {
        if (b->root_of[v] != (int32_t)v || !b->roots[v].persistent) continue;
        b->values[v].space = PLAN_PERSISTENT;
        b->values[v].offset = top;
        top += aligned(b->values[v].nbytes);
        if (top > PLAN_MAX_NBYTES)
            return weft_status_create(WEFT_LIMIT, b->program->place, "persistent values need more than 2^46 bytes");
    }
    b->plan->persistent_nbytes = top;
    return NULL;
}

/* Parts one after another; then every value, view or not, gets its place. Temporaries that nothing touches lie at 0. */
static weft_status assign_offsets(layout *l) {
    plan_builder *b = l->b;
    int64_t base[PLAN_MAX_STREAMS], top = 0;
    for (size_t s = 0; s < l->nstreams; s++) {
        base[s] = top;
        top += l->parts[s].top;
        if (top > PLAN_MAX_NBYTES)
            return weft_status_create(WEFT_LIMIT, b->program->place, "temporaries need more than 2^46 bytes");
    }
    for (size_t v = 0; v < b->nvalues; v++) {
        if (b->root_of[v] != (int32_t)v || b->roots[v].persistent) continue;
        int32_t block = l->block_of[v];
        bool is_touched = l->first[block] != NONE;
        b->values[v].offset = is_touched ? base[b->instrs[l->first[block]].stream] + l->offset[block] : 0;
        if (!is_touched && aligned(b->values[v].nbytes) > top) top = aligned(b->values[v].nbytes);
    }
    for (size_t v = 0; v < b->nvalues; v++) {
        int32_t root = b->root_of[v];
        b->values[v].space = b->values[root].space;
        if (root != (int32_t)v) b->values[v].offset = b->values[root].offset + b->begin_of[v];
    }
    b->plan->temporary_nbytes = top;
    return NULL;
}

weft_status plan_lay_out(plan_builder *b) {
    layout l = {.b = b, .nstreams = b->nstreams};
    const weft_allocator *a = &b->context->allocator;
    weft_status status = NULL;
    for (size_t s = 0; s < l.nstreams; s++) free_ranges_init(&l.parts[s], a);
    TRY_DONE(find_lifetimes(&l));
    TRY_DONE(place_persistents(&l));
    TRY_DONE(place_temporaries(&l));
    TRY_DONE(assign_offsets(&l));
done:
    for (size_t s = 0; s < l.nstreams; s++) free_ranges_fini(&l.parts[s]);
    for (size_t k = 0; l.pending && k < l.nstreams * l.nstreams; k++)
        base_free(a, l.pending[k].entries, l.pending[k].capacity * sizeof(entry));
    return status;
}
