/* pool.c: chunks of a pool. Chunk c holds 2^b / 4 ids from (4 + c % 4) * 2^b / 4 on, where b is POOL_FIRST_BIT + c / 4:
 * the chunk of an id follows from its three highest bits. Items that are taken together and do not fit into what is
 * left of the chunk go into the next one that is large enough; ids in between name nothing. */
#include "program/pool.h"

static uint32_t chunk_count(size_t c) {
    return UINT32_C(1) << (POOL_FIRST_BIT - 2 + c / 4);
}
static uint32_t chunk_first(size_t c) {
    return (uint32_t)(4 + c % 4) * chunk_count(c);
}

void pool_init(id_pool *p, const weft_allocator *allocator, size_t item_nbytes) {
    *p = (id_pool){.allocator = allocator, .item_nbytes = (uint32_t)item_nbytes};
}

void pool_fini(id_pool *p) {
    for (size_t c = 0; c < POOL_NCHUNKS; c++) {
        uintptr_t chunk = p->chunks[c];
        size_t first_nbytes = (size_t)chunk_first(c) * p->item_nbytes;
        if (chunk) base_free(p->allocator, (void *)(chunk + first_nbytes), (size_t)chunk_count(c) * p->item_nbytes);
    }
    pool_init(p, p->allocator, p->item_nbytes);
}

/* The next chunk that takes so many; POOL_NCHUNKS: none does. */
static size_t next_chunk(const id_pool *p, size_t count) {
    size_t c = p->next ? pool_chunk(p->next - 1) + 1 : 0;
    while (c < POOL_NCHUNKS && chunk_count(c) < count) c++;
    return c;
}

size_t pool_growth(const id_pool *p, size_t count) {
    if (count <= p->end - p->next) return 0;
    size_t c = next_chunk(p, count);
    return c < POOL_NCHUNKS ? (size_t)chunk_count(c) * p->item_nbytes : SIZE_MAX;
}

static bool open_chunk(id_pool *p, size_t count) {
    size_t c = next_chunk(p, count);
    if (c == POOL_NCHUNKS) return false;
    size_t nbytes = (size_t)chunk_count(c) * p->item_nbytes;
    void *chunk = base_alloc(p->allocator, nbytes);
    if (!chunk) return false;
    p->chunks[c] = (uintptr_t)chunk - (size_t)chunk_first(c) * p->item_nbytes;
    p->next = chunk_first(c);
    p->end = p->next + chunk_count(c);
    p->total_nbytes += nbytes;
    return true;
}

void *pool_take(id_pool *p, size_t count, uint32_t *out_id) {
    if (count > p->end - p->next && !open_chunk(p, count)) return NULL;
    enum { AHEAD = 512 };
    *out_id = p->next;
    p->next += (uint32_t)count;
    void *items = pool_at(p, *out_id, p->item_nbytes);
    __builtin_prefetch((void *)((uintptr_t)items + AHEAD), 1); /* items to come: fresh memory is far away */
    return items;
}

bool pool_extend(id_pool *p, uint32_t id, size_t count, size_t more) {
    if (id + count != p->next || more > p->end - p->next) return false;
    p->next += (uint32_t)more;
    return true;
}
