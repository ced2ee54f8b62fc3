/* shard_updates.h: between the file that decides which updates are cut over the ranks and the one that rewrites them.
 */
#ifndef PASSES_SHARD_UPDATES_H
#define PASSES_SHARD_UPDATES_H

#include "passes/bucket_former.h"
#include "passes/grad_sync.h"

enum { SHARD_MOST_ARGS = 16 };

/* One parameter's. All is found before the first edit. */
typedef struct update {
    const grad_sync *sync;
    weft_op *optimizer, *producer; /* of the gradient, before it is reduced */
    weft_op *reader;               /* the first of the parameter; NULL: only the update reads it */
    weft_var *param;
    weft_var *state[SHARD_MOST_ARGS]; /* what else lies by rows, but for the gradient */
    size_t nstate;
} update;

typedef struct sharder {
    weft_pass_context *pass;
    weft_program *program;
    grad_syncs syncs;
    access_index all; /* who uses parameters */
    const ring *ring; /* of the first reduce: all must run on it */
    const mesh *mesh;
    const char *reduce_stream, *gather_stream;
    int64_t reduce_ring, gather_ring;
    update *updates;
    size_t count, nevents;
    bucket_former sums, gathers; /* of `updates`: what travels together */
    int64_t kept_nbytes;         /* of state that a rank need not hold */
} sharder;

static inline int64_t shard_nbytes(const weft_var *v) {
    int64_t n = (int64_t)weft_dtype_nbytes((weft_dtype)v->dtype);
    for (size_t i = 0; i < v->ndim; i++) n *= v->dims[i];
    return n;
}
/* Rewrites the program for all updates, in these buckets. */
WEFT_MUST_USE weft_status shard_write(sharder *s);

#endif
