/* coalesce_grads.h: between the file that fills buckets of syncs and the one that writes them into the program. */
#ifndef PASSES_COALESCE_GRADS_H
#define PASSES_COALESCE_GRADS_H

#include "passes/bucket_former.h"
#include "passes/grad_sync.h"

/* Rewrites the program: one coalesced variable, one coalesce_tensor and one sync for each bucket of grad_sync. */
WEFT_MUST_USE weft_status grad_buckets_write(weft_pass_context *pass, weft_program *p, const grad_syncs *syncs,
                                             bucket *const *buckets, size_t count);

#endif
