/* far_memory.h: memory that the host cannot touch. */
#ifndef TESTS_SUPPORT_FAR_MEMORY_H
#define TESTS_SUPPORT_FAR_MEMORY_H

#include "base/base.h"

typedef struct far_block {
    unsigned char *front, *back; /* what is given out: a fault; where the bytes are reached */
    size_t nbytes;
    struct far_block *next;
} far_block;

WEFT_MUST_USE weft_status far_block_create(size_t nbytes, far_block **out); /* zeroed */
void far_block_destroy(far_block *b);

/* Where the bytes of an address of such memory are reached, and the reverse. NULL: it is none. Any thread. */
unsigned char *far_back(const void *front);
unsigned char *far_front(const void *back);

#endif
