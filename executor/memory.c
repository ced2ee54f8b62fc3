/* memory.c: the few large blocks that a rank computes in. Zeroed, so that persistables start as zero and padding
 * between bucket members never holds garbage; on cache line boundaries, as kernels expect. */
#include "executor/executor.h"

enum { LINE = 64 };

weft_status memory_init(memory *m, const weft_allocator *allocator, size_t nbytes) {
    *m = (memory){0};
    if (!nbytes) return NULL;
    size_t with_slack;
    if (!base_add(nbytes, 2 * LINE, &with_slack)) return base_out_of_memory();
    void *block = base_alloc(allocator, with_slack);
    if (!block) return base_out_of_memory();
    memset(block, 0, with_slack);
    m->block = block;
    m->block_nbytes = with_slack;
    m->bytes = (unsigned char *)(((uintptr_t)block + LINE - 1) / LINE * LINE);
    return NULL;
}

void memory_fini(memory *m, const weft_allocator *allocator) {
    base_free(allocator, m->block, m->block_nbytes);
    *m = (memory){0};
}
