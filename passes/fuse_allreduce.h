/* fuse_allreduce.h: fuse_allreduce_buckets: what its files share: candidates, what depends on them, buckets. */
#ifndef PASSES_FUSE_ALLREDUCE_H
#define PASSES_FUSE_ALLREDUCE_H

#include "ops/collectives.h"
#include "passes/bucket_former.h"
#include "passes/bucket_times.h"
#include "passes/pending.h"

typedef enum fuse_mode { FUSE_CONCAT, FUSE_COALESCED, FUSE_IN_PLACE } fuse_mode;

/* A place in the order of block 0 as it will be: an op that stays is at its position. One that moves follows the op
 * after which its bucket is reduced, and whatever else moved there before. */
typedef uint64_t fuse_place;

/* One tensor of a candidate. */
typedef struct reduce_part {
    size_t index; /* argument of the op's slots */
    size_t nbytes;
    uint32_t x_class, out_class;
    bool in_place;   /* out is x */
    bool renames;    /* all that uses out, from the reduce on, can use another var instead */
    weft_op **waits; /* wait_tensor ops for it */
    size_t nwaits, wait_capacity;
    weft_reason reason; /* in_place: why it cannot be produced in the bucket, as a message too; NULL: it can */
    const char *copied;
} reduce_part;

/* A candidate: one all-reduce of block 0. */
typedef struct reduce_item {
    weft_op *op;
    uint32_t position;
    weft_reduce reduce;
    int64_t ring;
    double factor;     /* of the division or scale directly before it, or 1 */
    const char *scale; /* the type of that op; "" if there is none */
    bool async, coalesced;
    reduce_part *parts;
    size_t nparts, nbytes;
    fuse_place after; /* the last op that must come before the reduce */
} reduce_item;

/* A bucket that is closed: where its reduce goes, and what moves behind its waits. */
typedef struct fused_bucket {
    const bucket *items;   /* of reduce_item; two or more */
    fuse_place at;         /* of the reduce */
    uint32_t anchor;       /* 1 + position of the op after which it stands; 0: the beginning of the block */
    uint32_t moved_anchor; /* the same for what moves: that of the whole bucket, where it was split */
    weft_op **moved;       /* in order */
    size_t nmoved, nparts;
    uint64_t fingerprint;
} fused_bucket;

/* Everything that was found and decided; holds until the first edit. */
typedef struct fusion {
    weft_pass_context *pass;
    weft_program *program;
    arena *scratch;
    fuse_mode mode;
    size_t last_limit;  /* bytes; 0: none */
    bool is_auto;       /* buckets are planned (fuse_auto.c) */
    bool *begins;       /* is_auto: by candidate: a bucket of its kind begins with it; NULL: not planned yet */
    bucket_times times; /* is_auto */
    access_index index;
    bucket_former former;
    reduce_item *candidates; /* in program order */
    size_t ncandidates;
    struct fuse_class *classes; /* by alias class */
    bool *is_view;              /* by var id */
    fuse_place *places;         /* by 1 + position; of the beginning of the block: 0 */
    uint32_t *moved_by;         /* by position: 1 + the bucket behind which the op moves last; 0: none */
    fused_bucket *buckets;      /* in the order of closing */
    size_t nbuckets, bucket_capacity;
} fusion;

/* --- candidates (fuse_candidates.c) ------------------------------------------------------------------------------- */

/* Fills in what the op says of itself; false: it is no all-reduce. NULL message: it is a candidate; else why not. */
bool reduce_item_read(weft_op *op, reduce_item *out, weft_reason *out_reason, const char **out_message);
WEFT_MUST_USE weft_status reduce_item_parts(const access_index *index, arena *a, reduce_item *item);
weft_var *reduce_part_x(const reduce_item *item, const reduce_part *part);
weft_var *reduce_part_out(const reduce_item *item, const reduce_part *part);
weft_var *reduce_part_alias(const reduce_item *item, const reduce_part *part); /* NULL if it has none */
/* The key of the buckets, for bucket_rules. */
uint64_t reduce_item_hash(void *user, const void *item);
bool reduce_item_same_kind(void *user, const void *a, const void *b);
size_t reduce_item_nbytes(const void *item);
/* A hash of what a bucket reduces: key, and names and sizes in order. Equal on all ranks, or they would reduce
 * different things together. */
uint64_t fused_bucket_fingerprint(const fused_bucket *b);

/* --- planning (fuse_auto.c) --------------------------------------------------------------------------------------- */

/* Fills in f->begins from candidates that were found, each in a bucket of its own. */
WEFT_MUST_USE weft_status fuse_plan(fusion *f);
/* Says what was planned once buckets are formed; and, of the program that was written, what is predicted: in the report
 * and the certificate. */
WEFT_MUST_USE weft_status fuse_plan_report(fusion *f);
WEFT_MUST_USE weft_status fuse_plan_predict(fusion *f);

/* --- forming (fuse_sweep.c) and writing (fuse_write.c) ------------------------------------------------------------ */

/* Fills in f->buckets. */
WEFT_MUST_USE weft_status fuse_form(fusion *f, const bucket_rules *limits);
WEFT_MUST_USE weft_status fuse_write(fusion *f);
/* The op that touches a part's input first. */
weft_op *fuse_first_op(const fusion *f, const reduce_part *part);

#endif
