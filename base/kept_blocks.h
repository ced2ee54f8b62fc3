/* kept_blocks.h: libc's allocator for a context whose host gave none, with large blocks kept for later. */
#ifndef BASE_KEPT_BLOCKS_H
#define BASE_KEPT_BLOCKS_H

#include <pthread.h>
#include <stdint.h>

#include "base/base.h"

/* Blocks from this size on are kept. None with a sanitizer, which is to see uses of freed memory. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KEPT_BLOCKS_LARGE SIZE_MAX
#else
#define KEPT_BLOCKS_LARGE ((size_t)1 << 17)
#endif

typedef struct kept_block kept_block;

/* What was freed and not given back to the system. Any thread may allocate and free. */
typedef struct kept_blocks {
    pthread_mutex_t lock;
    kept_block *first;
    size_t nbytes, max_nbytes; /* of those kept */
    char *fresh;               /* the rest of a region that blocks are cut from, never touched */
    size_t fresh_nbytes, regions_nbytes;
} kept_blocks;

/* Makes `out` an allocator over new kept blocks. NULL: out of memory. The caller ends them with kept_blocks_destroy
 * once nothing is allocated any more. */
kept_blocks *kept_blocks_create(size_t max_nbytes, weft_allocator *out);
void kept_blocks_destroy(kept_blocks *k);
/* Gives everything that is kept back to the system. */
void kept_blocks_trim(kept_blocks *k);

#endif
