/* pool.h: items of one size that never move and are named by 32 bits, half of what a pointer takes. */
#ifndef PROGRAM_POOL_H
#define PROGRAM_POOL_H

#include "base/base.h"

/* Ids with the same highest bit lie in four chunks: no chunk is more than a quarter of those before it. Ids below the
 * first chunk are not used; 0 names nothing. */
enum {
    POOL_FIRST_BIT = 6,
    POOL_END_BIT = 31,
    POOL_NCHUNKS = 4 * (POOL_END_BIT - POOL_FIRST_BIT),
    POOL_FIRST = 1 << POOL_FIRST_BIT /* the first id; items that are taken one by one have ids without gaps */
};

typedef struct id_pool {
    const weft_allocator *allocator;
    uintptr_t chunks[POOL_NCHUNKS]; /* where the item of id 0 were if the chunk went down to it; 0: no chunk */
    uint32_t next, end;             /* the id to come, and where its chunk ends; 0: there is none yet */
    uint32_t item_nbytes;
    size_t total_nbytes; /* over all chunks */
} id_pool;

void pool_init(id_pool *p, const weft_allocator *allocator, size_t item_nbytes);
void pool_fini(id_pool *p);
/* `count` items side by side, not cleared; NULL: out of memory, or of ids. The first one's id goes to *out_id. */
void *pool_take(id_pool *p, size_t count, uint32_t *out_id);
/* Lets the items [id, id + count) have `more` behind them, if these were the last ones taken and their chunk has room.
 */
bool pool_extend(id_pool *p, uint32_t id, size_t count, size_t more);
/* The bytes that pool_take would ask the allocator for. */
size_t pool_growth(const id_pool *p, size_t count);

static inline size_t pool_chunk(uint32_t id) {
    unsigned bit = 31 - (unsigned)__builtin_clz(id);
    return 4 * (size_t)(bit - POOL_FIRST_BIT) + (id >> (bit - 2)) - 4;
}
/* NULL for id 0. `item_nbytes` is that of pool_init, here a constant. */
static inline void *pool_at(const id_pool *p, uint32_t id, size_t item_nbytes) {
    return id ? (void *)(p->chunks[pool_chunk(id)] + id * item_nbytes) : NULL;
}

#endif
