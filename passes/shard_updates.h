/* shard_updates.h: between the files that decide which updates are cut over the ranks and the one that rewrites them.
 */
#ifndef PASSES_SHARD_UPDATES_H
#define PASSES_SHARD_UPDATES_H

#include "passes/bucket_former.h"
#include "passes/grad_sync.h"

#define SHARD_NAMESCOPE "/shard_updates"

enum { SHARD_MOST_ARGS = 16 };

/* One parameter's. All is found before the first edit. */
typedef struct update {
    const grad_sync *sync;
    weft_op *optimizer, *producer; /* of the gradient, before it is reduced */
    weft_op *reader;               /* the first of the parameter; NULL: only the update reads it */
    weft_op *norm, *clip;          /* what reads and scales the gradient before its update; NULL: nothing */
    weft_op *user;                 /* the first of these, or the optimizer */
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
    int64_t reduce_ring, gather_ring, norm_ring;
    bool splits_clip;
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
/* --- shard_clip.c ------------------------------------------------------------------------------------------------- */

/* Whether the op, which touches the gradient before its update, works on parts too; then it is the update's. */
bool shard_clip_takes(const sharder *s, update *u, weft_op *op);
/* The op before which the parts' norms are added up; NULL: there are none, or one is read before all are there. */
weft_op *shard_clip_place(const sharder *s);
WEFT_MUST_USE weft_status shard_clip_write(const sharder *s, weft_op *place, int64_t ring_id);

/* --- shard_write.c ------------------------------------------------------------------------------------------------ */

/* Rewrites the program for all updates, in these buckets. */
WEFT_MUST_USE weft_status shard_write(sharder *s);

#endif
