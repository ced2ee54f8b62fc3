/* fuse_sweep.h: what the sweep of fuse_allreduce_buckets keeps. */
#ifndef PASSES_FUSE_SWEEP_H
#define PASSES_FUSE_SWEEP_H

#include "passes/fuse_allreduce.h"

/* One alias class. Ops are numbered from 1, 0 is none. */
struct fuse_class {
    uint64_t written_after;                /* open buckets: their results, or ops that depend on them, wrote it */
    uint64_t read_after;                   /* open buckets: such ops, or the members' collectives, read it */
    uint32_t first;                        /* the op that touches it first */
    uint32_t first_var;                    /* id of the var through which */
    uint32_t last_definition, last_access; /* of all that write or name it, touch or name it: the one placed last */
    uint32_t readers;                      /* collectives that read it since it was written, out of place: a list */
    uint32_t pending;                      /* the asynchronous collective that wrote it last */
    uint32_t nreduces;                     /* candidates that read it */
    uint32_t stamp;                        /* scratch: the op that was here last */
    reduce_part *reduced;                  /* the last that wrote it, until another pending result does */
    uint32_t nasync;                       /* asynchronous collectives that read or write it */
    bool first_reads;                      /* `first` reads it */
    bool nested, aliased, viewed;          /* by a sub-block; buffers made one otherwise than by views; has views */
};
typedef struct fuse_class fuse_class;

/* An open bucket. Of the ops in `tainted` those move that stand before its anchor in the end. */
typedef struct open_bucket {
    bucket *bucket;
    uint64_t bit, opened; /* opened: a count */
    weft_op **tainted;    /* in program order */
    size_t ntainted, tainted_capacity;
    uint32_t *touched; /* classes with this bit in a mask */
    size_t ntouched, touched_capacity;
} open_bucket;

/* A collective that reads a class may do so until its waits. */
typedef struct class_reader {
    uint32_t number, next; /* of the collective; index into readers, 0: none */
} class_reader;

typedef struct fuse_sweep {
    fusion *f;
    class_reader *readers; /* from 1 */
    size_t nreaders, reader_capacity;
    uint32_t *last_wait; /* by number of a collective: of the wait for it that is placed last */
    weft_op *op;         /* at hand */
    uint64_t taint;
    open_bucket *open[64];
    uint64_t in_use; /* by place in `open` */
    uint64_t nopened, nplaced;
} fuse_sweep;

/* 1 + position of the op after which the bucket is reduced; 0: the beginning of the block. */
uint32_t fuse_anchor(const bucket *b);
/* Once all buckets are closed: splits them, and says of each member whether it can be produced in its bucket. */
WEFT_MUST_USE weft_status fuse_settle(fusion *f);

#endif
