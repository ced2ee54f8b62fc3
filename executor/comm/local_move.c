/* local_move.c: the data movement of each collective, as one member does its share.
 *
 * The idea: owner computes. What all members reduce is cut into blocks of 8 KiB; each block has one owner, who reads it
 * from all members in ring order and writes the result to all members. Every element is thus added up in the same order
 * whoever owns it, and in place is safe because the owner has read a block everywhere before it writes it anywhere.
 *
 * Where each member makes its own result (all_gather, reduce_scatter, scatter), others may still read the source that
 * it is about to write over, if it asked for the result in place. Then members go in rounds: all read a piece, meet,
 * all write it; a round writes only what no later round reads. */
#include "executor/comm/local.h"

typedef struct span {
    size_t first, end; /* bytes */
} span;

static const comm_request *asked(const local_ring *r, int index) {
    return &r->members[index].request;
}

static const char *source(const local_ring *r, int index) {
    return asked(r, index)->src;
}

static char *result(const local_ring *r, int index) {
    return asked(r, index)->dst;
}

/* Bytes of `count` elements. */
static size_t part_nbytes(const local_ring *r) {
    return (size_t)asked(r, 0)->count * weft_dtype_nbytes(asked(r, 0)->dtype);
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* The bytes of [0, nbytes) that member `self` owns: whole blocks, as evenly as they go. */
static span owned(size_t nbytes, int self, int nranks) {
    size_t nblocks = (nbytes + REDUCE_BLOCK_NBYTES - 1) / REDUCE_BLOCK_NBYTES;
    size_t first = nblocks * (size_t)self / (size_t)nranks, end = nblocks * ((size_t)self + 1) / (size_t)nranks;
    return (span){least(first * REDUCE_BLOCK_NBYTES, nbytes), least(end * REDUCE_BLOCK_NBYTES, nbytes)};
}

static void copy(void *dst, const void *src, size_t nbytes) {
    if (dst != src && nbytes) memcpy(dst, src, nbytes);
}

/* block = the reduction over all members of bytes [at, at + nbytes) of their sources. */
static void reduce_at(const local_ring *r, size_t at, size_t nbytes, reduce_block *block) {
    const comm_request *q = asked(r, 0);
    const void *srcs[LOCAL_MAX_RANKS];
    for (int i = 0; i < r->nranks; i++) srcs[i] = source(r, i) + at;
    reduce_sources(q->dtype, q->reduce, srcs, r->nranks, nbytes / weft_dtype_nbytes(q->dtype), block);
}

static void all_reduce(const local_ring *r, int self) {
    reduce_block block;
    span mine = owned(part_nbytes(r), self, r->nranks);
    for (size_t at = mine.first; at < mine.end; at += REDUCE_BLOCK_NBYTES) {
        size_t nbytes = least(mine.end - at, REDUCE_BLOCK_NBYTES);
        reduce_at(r, at, nbytes, &block);
        for (int i = 0; i < r->nranks; i++) memcpy(result(r, i) + at, block.bytes, nbytes);
    }
}

static void reduce_to_root(const local_ring *r, int self) {
    reduce_block block;
    span mine = owned(part_nbytes(r), self, r->nranks);
    for (size_t at = mine.first; at < mine.end; at += REDUCE_BLOCK_NBYTES) {
        size_t nbytes = least(mine.end - at, REDUCE_BLOCK_NBYTES);
        reduce_at(r, at, nbytes, &block);
        memcpy(result(r, asked(r, 0)->root) + at, block.bytes, nbytes);
    }
}

static void broadcast(const local_ring *r, int self) {
    copy(result(r, self), source(r, asked(r, 0)->root), part_nbytes(r));
}

/* Exchanges what i has for j with what j has for i, through the stack: either may be in place. */
static void exchange_parts(const local_ring *r, int i, int j) {
    reduce_block block;
    size_t part = part_nbytes(r), from_i = (size_t)j * part, from_j = (size_t)i * part;
    for (size_t at = 0; at < part; at += REDUCE_BLOCK_NBYTES) {
        size_t nbytes = least(part - at, REDUCE_BLOCK_NBYTES);
        memcpy(block.bytes, source(r, i) + from_i + at, nbytes);
        copy(result(r, i) + from_i + at, source(r, j) + from_j + at, nbytes);
        memcpy(result(r, j) + from_j + at, block.bytes, nbytes);
    }
}

/* Each pair of members has one owner, alternately the lower and the higher one. */
static void all_to_all(const local_ring *r, int self) {
    size_t part = part_nbytes(r), own = (size_t)self * part;
    copy(result(r, self) + own, source(r, self) + own, part);
    for (int other = 0; other < r->nranks; other++) {
        int low = other < self ? other : self, high = other < self ? self : other;
        bool low_owns = (low + high) % 2 != 0;
        if (other != self && self == (low_owns ? low : high)) exchange_parts(r, low, high);
    }
}

/* --- results that each member makes itself ---------------------------------------------------------------------------
 */

/* Whether some member's result lies over the source that others read (its own part of the larger buffer does not). */
static bool needs_rounds(const local_ring *r) {
    comm_kind kind = asked(r, 0)->kind;
    size_t part = part_nbytes(r);
    for (int i = 0; i < r->nranks; i++) {
        if (kind == COMM_SCATTER && i != asked(r, 0)->root) continue;
        size_t own = (size_t)i * part;
        const char *harmless = kind == COMM_ALL_GATHER ? result(r, i) + own : source(r, i) + own;
        const char *small = kind == COMM_ALL_GATHER ? source(r, i) : result(r, i);
        if (source(r, i) == result(r, i) && small != harmless) return true;
    }
    return false;
}

static void gather(const local_ring *r, int self) {
    size_t part = part_nbytes(r);
    for (int i = 0; i < r->nranks; i++) copy(result(r, self) + (size_t)i * part, source(r, i), part);
}

static void gather_read(const local_ring *r, size_t at, size_t nbytes, reduce_block *block) {
    for (int i = 0; i < r->nranks; i++) memcpy(block->bytes + (size_t)i * nbytes, source(r, i) + at, nbytes);
}

static void gather_write(const local_ring *r, int self, size_t at, size_t nbytes, const reduce_block *block) {
    size_t part = part_nbytes(r);
    for (int i = 0; i < r->nranks; i++) {
        memcpy(result(r, self) + (size_t)i * part + at, block->bytes + (size_t)i * nbytes, nbytes);
    }
}

/* Bytes [at, at + nbytes) of this member's part, reduced or taken from the root. */
static void part_read(const local_ring *r, int self, size_t at, size_t nbytes, reduce_block *block) {
    size_t from = (size_t)self * part_nbytes(r) + at;
    if (asked(r, 0)->kind == COMM_REDUCE_SCATTER) {
        reduce_at(r, from, nbytes, block);
    } else {
        memcpy(block->bytes, source(r, asked(r, 0)->root) + from, nbytes);
    }
}

static weft_status in_rounds(local_ring *r, int self) {
    reduce_block block;
    bool gathers = asked(r, 0)->kind == COMM_ALL_GATHER;
    size_t part = part_nbytes(r), step = REDUCE_BLOCK_NBYTES;
    if (gathers) step = step / (size_t)r->nranks / 16 * 16;
    for (size_t at = 0; at < part; at += step) {
        size_t nbytes = least(part - at, step);
        if (gathers) {
            gather_read(r, at, nbytes, &block);
        } else {
            part_read(r, self, at, nbytes, &block);
        }
        TRY(local_meet(r, self));
        if (gathers) {
            gather_write(r, self, at, nbytes, &block);
        } else {
            memcpy(result(r, self) + at, block.bytes, nbytes);
        }
    }
    return NULL;
}

static void own_part(const local_ring *r, int self) {
    reduce_block block;
    size_t part = part_nbytes(r);
    for (size_t at = 0; at < part; at += REDUCE_BLOCK_NBYTES) {
        size_t nbytes = least(part - at, REDUCE_BLOCK_NBYTES);
        part_read(r, self, at, nbytes, &block);
        memcpy(result(r, self) + at, block.bytes, nbytes);
    }
}

weft_status local_move(local_ring *r, int self) {
    if (asked(r, 0)->kind == COMM_BARRIER || asked(r, 0)->count == 0) return NULL;
    switch (asked(r, 0)->kind) {
    case COMM_ALL_REDUCE: all_reduce(r, self); break;
    case COMM_REDUCE: reduce_to_root(r, self); break;
    case COMM_BROADCAST: broadcast(r, self); break;
    case COMM_ALL_TO_ALL: all_to_all(r, self); break;
    case COMM_ALL_GATHER:
        if (needs_rounds(r)) return in_rounds(r, self);
        gather(r, self);
        break;
    case COMM_REDUCE_SCATTER:
    case COMM_SCATTER:
        if (needs_rounds(r)) return in_rounds(r, self);
        own_part(r, self);
        break;
    case COMM_BARRIER: break;
    }
    return NULL;
}
