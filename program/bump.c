/* bump.c: blocks of memory, used from front to back and forgotten at once. A block is a quarter of all before it, so
 * the room that a large message leaves unused is small against its budget. */
#include "program/bump.h"

enum { ALIGNMENT = 16, SMALLEST_BLOCK = 1 << 15 };

struct bump_block {
    bump_block *next;
    size_t capacity;
    _Alignas(ALIGNMENT) unsigned char bytes[];
};

static bool open_block(bump *b, size_t nbytes) {
    size_t capacity = b->total_nbytes / 4 > SMALLEST_BLOCK ? b->total_nbytes / 4 : SMALLEST_BLOCK, whole, total;
    if (capacity < nbytes) capacity = nbytes;
    if (!base_add(capacity, sizeof(bump_block), &whole) || !base_add(whole, b->total_nbytes, &total) ||
        total > b->max_nbytes) {
        b->over_budget = true;
        return false;
    }
    bump_block *block = base_alloc(b->allocator, whole);
    if (!block) {
        b->failed = true;
        return false;
    }
    block->capacity = capacity;
    block->next = b->blocks;
    b->blocks = block;
    b->total_nbytes = total;
    b->used = 0;
    return true;
}

/* Not zeroed; NULL: over budget or out of memory. */
static void *take(bump *b, size_t nbytes) {
    size_t rounded;
    if (!base_add(nbytes ? nbytes : 1, ALIGNMENT - 1, &rounded)) return NULL;
    rounded &= ~(size_t)(ALIGNMENT - 1);
    if ((!b->blocks || rounded > b->blocks->capacity - b->used) && !open_block(b, rounded)) return NULL;
    void *object = b->blocks->bytes + b->used;
    b->used += rounded;
    return object;
}

static void *protobuf_alloc(void *b, size_t nbytes) {
    return take(b, nbytes);
}
static void protobuf_free(void *b, void *bytes) {
    (void)b;
    (void)bytes;
}

void bump_init(bump *b, const weft_allocator *allocator) {
    *b = (bump){.protobuf = {protobuf_alloc, protobuf_free, b}, .allocator = allocator, .max_nbytes = SIZE_MAX};
}

static void free_blocks(bump *b, bump_block *block) {
    for (bump_block *next; block; block = next) {
        next = block->next;
        b->total_nbytes -= sizeof *block + block->capacity;
        base_free(b->allocator, block, sizeof *block + block->capacity);
    }
}

void bump_fini(bump *b) {
    free_blocks(b, b->blocks);
    b->blocks = NULL;
    b->used = 0;
}

void bump_reset(bump *b) {
    b->used = 0;
    b->over_budget = b->failed = false;
    if (!b->blocks) return;
    free_blocks(b, b->blocks->next);
    b->blocks->next = NULL;
}
