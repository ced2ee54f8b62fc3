/* bump.h: memory for one protobuf-c message at a time, with a hard budget. */
#ifndef PROGRAM_BUMP_H
#define PROGRAM_BUMP_H

#include <protobuf-c/protobuf-c.h>

#include "base/base.h"

typedef struct bump_block bump_block;
typedef struct bump {
    ProtobufCAllocator protobuf; /* hand this to protobuf-c; its free does nothing */
    const weft_allocator *allocator;
    bump_block *blocks;
    size_t used;         /* of the newest block */
    size_t total_nbytes; /* over all blocks */
    size_t max_nbytes;   /* set by the owner; allocating beyond it fails */
    bool over_budget;    /* it did */
    bool failed;         /* the allocator returned NULL */
} bump;

void bump_init(bump *b, const weft_allocator *allocator); /* `b` may not move after this */
void bump_fini(bump *b);
/* Forgets everything allocated; keeps the newest block. */
void bump_reset(bump *b);

#endif
