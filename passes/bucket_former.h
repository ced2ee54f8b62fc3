/* bucket_former.h: which reduces go together: the one rule of size, order and kind that every pass with buckets uses.
 */
#ifndef PASSES_BUCKET_FORMER_H
#define PASSES_BUCKET_FORMER_H

#include "passes/pass_manager.h"

/* Reduces of one kind, in the order in which they were put. */
typedef struct bucket {
    const void *key;    /* the item that opened the first bucket of this kind */
    const void **items; /* what the pass put */
    size_t count, capacity;
    size_t nbytes;       /* of the items, without padding */
    uint32_t deadline;   /* the smallest of the items' */
    size_t nclosed;      /* how many buckets of this kind came before */
    void *own;           /* what the pass keeps of the open bucket; NULL when it opens */
    struct bucket *last; /* in the table: the bucket of this kind that was closed last */
    struct bucket *tail; /* in `done`: what bucket_former_split took off its end; NULL: nothing */
} bucket;

typedef struct bucket_rules {
    size_t limit, first_limit; /* bytes: of every bucket, and of the first of each kind */
    bool cap;                  /* false: a bucket is closed once it has the limit; true: before it would go beyond */
    uint64_t (*hash)(void *user, const void *item);
    bool (*same_kind)(void *user, const void *a, const void *b);
    size_t (*nbytes)(const void *item);
    /* Whether a bucket of its kind begins with the item, whatever the sizes; may be NULL. */
    bool (*begins)(void *user, const void *item);
    /* Called for a bucket that was just closed, as it is in `done`; may be NULL. */
    weft_status (*closed)(void *user, bucket *b);
    void *user;
} bucket_rules;

typedef struct bucket_former {
    bucket_rules rules;
    arena *scratch;
    bucket **open; /* one of each kind, open or empty, in the order in which the kinds were met */
    size_t nopen, open_capacity;
    hash_table kinds; /* of `open` */
    bucket **done;    /* in the order of closing */
    size_t ndone, done_capacity;
} bucket_former;

/* Reads an option in MiB (fractions allowed) as bytes; "auto", where it may be that, as no limit. */
WEFT_MUST_USE weft_status bucket_limit(weft_pass_context *pass, const char *option, size_t *out_nbytes);

void bucket_former_init(bucket_former *f, const bucket_rules *rules, arena *scratch);
/* The bucket of the item's kind, which may be empty. It stays where it is. */
WEFT_MUST_USE weft_status bucket_former_find(bucket_former *f, const void *item, bucket **out);
/* Lets the item join the bucket of its kind, and closes that as need be. The bucket must be reduced before position
 * `deadline`, so it takes in no item at or beyond it; `position` is the item's. */
WEFT_MUST_USE weft_status bucket_former_put(bucket_former *f, const void *item, uint32_t position, uint32_t deadline);
WEFT_MUST_USE weft_status bucket_former_close(bucket_former *f, bucket *b); /* nothing if it is empty */
WEFT_MUST_USE weft_status bucket_former_close_all(bucket_former *f);
/* Splits the last bucket of each kind so that what is reduced last has at most `limit` bytes, or is one item. */
WEFT_MUST_USE weft_status bucket_former_split(bucket_former *f, size_t limit);

#endif
