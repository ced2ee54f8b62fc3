/* memory.c: the few large blocks that a rank computes in. Zeroed, so that persistables start as zero and padding
 * between bucket members never holds garbage; on cache line boundaries, as kernels expect. Large ones ask for huge
 * pages, before they are touched: rows of a matrix that lie a page apart would miss the address cache at each step. */
#include <sys/mman.h>

#include "executor/devices/cpu/cpu.h"

enum { LINE = 64, HUGE_PAGE = 2 << 20 };

/* The kernel may decline: nothing depends on it. */
static void ask_for_huge_pages(void *block, size_t nbytes) {
#ifdef MADV_HUGEPAGE
    uintptr_t first = ((uintptr_t)block + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    uintptr_t end = ((uintptr_t)block + nbytes) / HUGE_PAGE * HUGE_PAGE;
    if (first < end) (void)madvise((void *)first, end - first, MADV_HUGEPAGE);
#else
    (void)block, (void)nbytes;
#endif
}

weft_status cpu_alloc(device *d, int rank, device_space space, size_t nbytes, device_memory *out_memory) {
    (void)rank;
    *out_memory = (device_memory){.space = space};
    if (!nbytes) return NULL;
    size_t with_slack;
    size_t line = nbytes < HUGE_PAGE ? LINE : HUGE_PAGE; /* the start of a large block is to lie on huge pages, too */
    if (!base_add(nbytes, line, &with_slack)) return base_out_of_memory();
    void *block = base_alloc(d->allocator, with_slack);
    if (!block) return base_out_of_memory();
    if (line == HUGE_PAGE) ask_for_huge_pages(block, with_slack);
    out_memory->block = block;
    out_memory->block_nbytes = with_slack;
    out_memory->bytes = (void *)(((uintptr_t)block + line - 1) / line * line);
    memset(out_memory->bytes, 0, nbytes);
    return NULL;
}

void cpu_free(device *d, device_memory *m) {
    base_free(d->allocator, m->block, m->block_nbytes);
    *m = (device_memory){0};
}
