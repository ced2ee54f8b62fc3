/* coalesce_grads.h: a bucket, between the file that fills buckets and the one that writes them into the program. */
#ifndef PASSES_COALESCE_GRADS_H
#define PASSES_COALESCE_GRADS_H

#include "passes/grad_sync.h"

typedef struct grad_bucket {
    const grad_sync *key; /* the sync that opened it first; NULL: a free place */
    const grad_sync **members;
    size_t count, capacity;
    size_t nbytes;  /* of the members, without padding */
    uint32_t next;  /* the first position at which something else touches a member */
    size_t nclosed; /* how many buckets of this key came before */
} grad_bucket;

/* Rewrites the program: one coalesced variable, one coalesce_tensor and one sync for each bucket. */
WEFT_MUST_USE weft_status grad_buckets_write(weft_program *p, arena *a, grad_bucket *const *buckets, size_t count);

#endif
