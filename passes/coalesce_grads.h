/* coalesce_grads.h: between the file that fills buckets of syncs and the one that writes them into the program. */
#ifndef PASSES_COALESCE_GRADS_H
#define PASSES_COALESCE_GRADS_H

#include "passes/bucket_former.h"
#include "passes/bucket_order.h"
#include "passes/grad_sync.h"

/* Rewrites the program: one coalesced variable, one coalesce_tensor and one sync for each bucket of grad_sync. */
WEFT_MUST_USE weft_status grad_buckets_write(weft_pass_context *pass, weft_program *p, const grad_syncs *syncs,
                                             bucket *const *buckets, size_t count);

/* Ops that were moved, and behind which each stood: NULL for the first of the block. */
typedef struct moved_ops {
    weft_op **ops, **behind;
    size_t count;
} moved_ops;

/* Moves whole syncs, numbers of moves being those of syncs. Nothing may stand between that touches their bytes. What
 * was found of the program holds no longer. moved_ops_undo puts all back. */
WEFT_MUST_USE weft_status grad_syncs_move(const grad_syncs *syncs, const bucket_moves *moves, arena *scratch,
                                          moved_ops *out);
void moved_ops_undo(moved_ops *moved);

#endif
