/* state.c: persistables that several executors share.
 *
 * The idea: plans for other shapes of the feeds lay out the persistent space differently, because feeds and fetches lie
 * in it too. So the space is taken apart into blocks: values that overlap, such as a buffer and its slices. A block
 * that holds a persistable is looked up by that name among the blocks of earlier executors. It is kept for later ones
 * if it is new; all other blocks are the executor's own.
 *
 * The invariant: a name has one address per rank for as long as anyone holds the state. A persistable that has another
 * type in another plan is refused, unless no step reads what an earlier one left there. */
#include "executor/state.h"

#include <stdlib.h>

#include "dist_attr/slice.h"
#include "executor/memory.h"

enum { ALIGNMENT = 64 };

typedef struct kept_value {
    weft_dtype dtype;
    int32_t ndim;
    int64_t dims[WEFT_MAX_RANK];
    unsigned char *data, *block; /* its own first byte, and that of its block */
    int64_t block_nbytes;
} kept_value;

/* One rank's persistables. */
typedef struct rank_store {
    interner names; /* a name's id is its place in `values` */
    kept_value *values;
    size_t capacity;
    device_memory *chunks; /* one for each executor that added something */
    size_t nchunks, chunk_capacity;
} rank_store;

struct executor_state {
    weft_allocator allocator;
    arena arena;
    size_t nusers;
    device *device;
    int nranks;
    rank_store *ranks;
};

static weft_status open_device(executor_state *s, const device_engine *engine) {
    s->ranks = ARENA_ARRAY(&s->arena, rank_store, s->nranks);
    if (!s->ranks) return base_out_of_memory();
    for (int r = 0; r < s->nranks; r++) interner_init(&s->ranks[r].names, &s->arena);
    return engine->open(&s->allocator, s->nranks, &s->device);
}

weft_status executor_state_create(weft_context *context, const char *device_name, int nranks,
                                  executor_state **out_state) {
    const device_engine *engine;
    TRY(device_find(context, device_name, &engine));
    executor_state *s = base_alloc(&context->allocator, sizeof *s);
    if (!s) return base_out_of_memory();
    *s = (executor_state){.allocator = context->allocator, .nusers = 1, .nranks = nranks};
    arena_init(&s->arena, &s->allocator);
    weft_status status = open_device(s, engine);
    if (status) {
        executor_state_release(s);
        return status;
    }
    *out_state = s;
    return NULL;
}

device *executor_state_device(const executor_state *s) {
    return s->device;
}

executor_state *executor_state_retain(executor_state *s) {
    s->nusers++;
    return s;
}

void executor_state_release(executor_state *s) {
    if (!s || --s->nusers) return;
    weft_allocator allocator = s->allocator;
    for (int r = 0; s->ranks && r < s->nranks; r++) {
        rank_store *store = &s->ranks[r];
        for (size_t i = 0; i < store->nchunks; i++) s->device->engine->free(s->device, &store->chunks[i]);
        base_free(&allocator, store->chunks, store->chunk_capacity * sizeof *store->chunks);
        base_free(&allocator, store->values, store->capacity * sizeof *store->values);
    }
    if (s->device) s->device->engine->close(s->device);
    arena_fini(&s->arena);
    base_free(&allocator, s, sizeof *s);
}

int64_t executor_state_nbytes(const executor_state *s) {
    int64_t nbytes = 0;
    for (int r = 0; r < s->nranks; r++)
        for (size_t i = 0; i < s->ranks[r].nchunks; i++) nbytes += (int64_t)s->ranks[r].chunks[i].block_nbytes;
    return nbytes;
}

/* --- blocks of a plan --------------------------------------------------------------------------------------------- */

/* Values [first, end) of the sorted ones; bytes [offset, offset + nbytes) of the plan's persistent space. */
typedef struct space_block {
    size_t first, end;
    int64_t offset, nbytes;
    bool has_persistable, is_new; /* is_new: the state gets it from this executor */
    unsigned char *data;          /* where it lies, if the state has it already */
    int64_t at;                   /* else its offset in new memory */
} space_block;

typedef struct binding {
    weft_executor *x;
    rank_state *rank;
    rank_store *store;
    const plan_value **values; /* persistent ones by offset */
    size_t nvalues;
    space_block *blocks;
    size_t nblocks;
} binding;

static int by_offset(const void *a, const void *b) {
    const plan_value *x = *(const plan_value *const *)a, *y = *(const plan_value *const *)b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return x < y ? -1 : x > y;
}

static weft_status find_blocks(binding *b) {
    const weft_plan *plan = b->rank->plan;
    size_t room = plan->nvalues ? plan->nvalues : 1;
    b->values = ARENA_ARRAY(&b->x->arena, const plan_value *, room);
    b->blocks = ARENA_ARRAY(&b->x->arena, space_block, room);
    if (!b->values || !b->blocks) return base_out_of_memory();
    for (size_t i = 0; i < plan->nvalues; i++)
        if (plan->values[i].space == PLAN_PERSISTENT) b->values[b->nvalues++] = &plan->values[i];
    qsort(b->values, b->nvalues, sizeof *b->values, by_offset);
    for (size_t i = 0; i < b->nvalues; i++) {
        const plan_value *v = b->values[i];
        space_block *last = b->nblocks ? &b->blocks[b->nblocks - 1] : NULL;
        if (!last || v->offset >= last->offset + last->nbytes) {
            last = &b->blocks[b->nblocks++];
            *last = (space_block){.first = i, .offset = v->offset};
        }
        last->end = i + 1;
        last->has_persistable |= v->persistable;
        if (v->offset + v->nbytes > last->offset + last->nbytes) last->nbytes = v->offset + v->nbytes - last->offset;
    }
    return NULL;
}

/* --- the state ---------------------------------------------------------------------------------------------------- */

static kept_value *find_kept(const rank_store *store, const char *n) {
    const name *known = interner_find(&store->names, n, strlen(n));
    return known ? &store->values[known->id] : NULL;
}

static bool same_type(const kept_value *kept, const plan_value *v) {
    return kept->dtype == (weft_dtype)v->shape.dtype && kept->ndim == v->shape.ndim &&
           memcmp(kept->dims, v->shape.dims, (size_t)kept->ndim * sizeof *kept->dims) == 0;
}

/* Whether the value lies in the state just as in the block. */
static bool fits(const kept_value *kept, const space_block *block, const plan_value *v) {
    return same_type(kept, v) && kept->block_nbytes == block->nbytes &&
           kept->data - kept->block == v->offset - block->offset && (!block->data || block->data == kept->block);
}

static weft_status other_type(const binding *b, const plan_value *v) {
    char is[200];
    return weft_status_create(
        WEFT_UNSUPPORTED, NULL,
        "rank %d: \"%s\" is read by a step before it is written, so it must be the same whatever is fed: for these "
        "feeds it is %s, for others it is of another type or part of another buffer",
        b->rank->rank, v->name,
        type_text((weft_dtype)v->shape.dtype, (size_t)v->shape.ndim, v->shape.dims, is, sizeof is));
}

/* Whether the state has the block, gets it, or has nothing to do with it. */
static weft_status match_block(const binding *b, space_block *block) {
    size_t nfound = 0, npersistables = 0;
    const plan_value *differs = NULL;
    bool is_read_first = false;
    for (size_t i = block->first; i < block->end; i++) {
        const plan_value *v = b->values[i];
        if (!v->persistable) continue;
        const kept_value *kept = find_kept(b->store, v->name);
        npersistables++;
        nfound += kept != NULL;
        is_read_first |= v->is_read_first;
        if (kept && fits(kept, block, v)) {
            block->data = kept->block;
        } else {
            differs = v;
        }
    }
    block->is_new = nfound == 0 && block->nbytes > 0;
    if (!differs && nfound == npersistables) return NULL;
    block->data = NULL;
    if (!nfound || !is_read_first) return NULL;
    return other_type(b, differs);
}

static weft_status keep(const binding *b, const space_block *block, const plan_value *v) {
    rank_store *store = b->store;
    TRY(vector_reserve(&b->x->context->allocator, &store->values, &store->capacity, store->names.count + 1,
                       sizeof *store->values));
    const name *kept = interner_get(&store->names, v->name, strlen(v->name));
    if (!kept) return base_out_of_memory();
    store->values[kept->id] = (kept_value){.dtype = (weft_dtype)v->shape.dtype,
                                           .ndim = v->shape.ndim,
                                           .data = block->data + (v->offset - block->offset),
                                           .block = block->data,
                                           .block_nbytes = block->nbytes};
    memcpy(store->values[kept->id].dims, v->shape.dims, sizeof v->shape.dims);
    return NULL;
}

/* New memory for the blocks that are new to the state, and for the rank's own. */
static weft_status make_memory(binding *b) {
    const weft_allocator *a = &b->x->context->allocator;
    rank_store *store = b->store;
    int64_t nbytes[2] = {0, 0}; /* the rank's own; the state's */
    for (size_t i = 0; i < b->nblocks; i++) {
        space_block *block = &b->blocks[i];
        if (block->data) continue;
        block->at = nbytes[block->is_new];
        nbytes[block->is_new] += (block->nbytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    TRY(memory_alloc(b->x, b->rank, PLAN_PERSISTENT, nbytes[0], &b->rank->persistent));
    if (!nbytes[1]) return NULL;
    TRY(vector_reserve(a, &store->chunks, &store->chunk_capacity, store->nchunks + 1, sizeof *store->chunks));
    TRY(memory_alloc(b->x, b->rank, PLAN_PERSISTENT, nbytes[1], &store->chunks[store->nchunks]));
    store->nchunks++;
    return NULL;
}

static weft_status bind_block(binding *b, space_block *block) {
    rank_state *rank = b->rank;
    bool is_inherited = block->data != NULL;
    if (!is_inherited) {
        const device_memory *m = block->is_new ? &b->store->chunks[b->store->nchunks - 1] : &rank->persistent;
        block->data = m->bytes ? (unsigned char *)m->bytes + block->at : NULL;
    }
    for (size_t i = block->first; i < block->end; i++) {
        const plan_value *v = b->values[i];
        size_t index = (size_t)(v - rank->plan->values);
        rank->values[index].data = block->data ? block->data + (v->offset - block->offset) : NULL;
        rank->is_inherited[index] = is_inherited;
        if (block->is_new && v->persistable) TRY(keep(b, block, v));
    }
    return NULL;
}

weft_status state_bind(weft_executor *x, rank_state *rank) {
    binding b = {.x = x, .rank = rank, .store = &x->state->ranks[rank->rank]};
    rank->is_inherited = ARENA_ARRAY(&x->arena, bool, rank->plan->nvalues ? rank->plan->nvalues : 1);
    if (!rank->is_inherited) return base_out_of_memory();
    TRY(find_blocks(&b));
    for (size_t i = 0; i < b.nblocks; i++)
        if (b.blocks[i].has_persistable) TRY(match_block(&b, &b.blocks[i]));
    TRY(make_memory(&b));
    for (size_t i = 0; i < b.nblocks; i++) TRY(bind_block(&b, &b.blocks[i]));
    return NULL;
}
